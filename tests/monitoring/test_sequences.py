"""Confidence sequences: exact inversion, coverage at all looks, solvable cases, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.exceptions import InvalidInputError
from fairboost.monitoring import confidence_sequence
from fairboost.monitoring.sequences import ODDS, difference_sequence, log_mixture, spend

counts = st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def mixture(rates, events, total):
    """M_n(r) as it is written down, row by row of the grid."""
    terms = [odds * events - total * np.log(1 - rates + rates * np.exp(odds)) for odds in ODDS]
    return np.mean(np.exp(np.minimum(terms, 700)), axis=0)


@pytest.mark.parametrize(("events", "total"), [(0, 7), (3, 10), (10, 10), (40, 150), (149, 150)])
def test_the_interval_is_the_set_of_rates_that_the_mixture_does_not_refute(events, total):
    rates = np.linspace(0, 1, 20_001)
    against = mixture(rates, events, total)
    for alpha in (0.05, 0.001):
        inside = rates[against < 1 / alpha]
        low, high = confidence_sequence(events, total, alpha)
        step = rates[1]
        assert inside.min() - step <= low <= inside.min()
        assert inside.max() <= high <= inside.max() + step
        assert np.diff(inside).max() < 1.5 * step  # no hole in it


@settings(max_examples=50)
@given(counts, st.sampled_from([0.2, 0.05, 1e-4]))
def test_the_interval_holds_the_rate_found_and_widens_with_confidence(found, alpha):
    events, total = found
    low, high = confidence_sequence(events, total, alpha)
    assert 0 <= low <= events / total <= high <= 1
    wider = confidence_sequence(events, total, alpha / 10)
    assert wider[0] <= low
    assert high <= wider[1]
    turned = confidence_sequence(total - events, total, alpha)
    assert turned[0] == pytest.approx(1 - high, abs=1e-8)


def test_without_rows_nothing_is_known_and_ends_are_pinned():
    low, high = confidence_sequence([0, 0, 30], [0, 30, 30])
    assert low.tolist()[:2] == [0, 0]
    assert (high[0], high[2]) == (1, 1)
    assert 0 < high[1] < 1
    assert low[2] == pytest.approx(1 - high[1], abs=1e-8)


def test_the_martingale_has_mean_one_at_every_size():
    # Solvable: over all outcomes of n rows of a constant rate the mean of M_n(r) is 1 exactly.
    from scipy.stats import binom

    for rate, total in ((0.3, 1), (0.3, 20), (0.9, 60)):
        events = np.arange(total + 1)
        found = np.array([mixture(np.array(rate), k, total) for k in events])
        assert (binom.pmf(events, total, rate) * found).sum() == pytest.approx(1.0)


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.integers(0, 2**32 - 1))
def test_a_changing_rate_gives_a_supermartingale_of_its_mean(first, second, seed):
    """One more row: the mean of M at the new mean rate is at most the martingale itself."""
    rng = np.random.default_rng(seed)
    rates = np.array([*[first] * 10, *[second] * 10])
    events = (rng.random(20) < rates).sum()
    paid = np.array(
        [np.exp(odds * events) / np.prod(1 - rates + rates * np.exp(odds)) for odds in ODDS]
    ).mean()
    assert mixture(rates.mean(), events, 20) <= paid * (1 + 1e-9)


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.5, 0.5), (0.15, 0.45)])
def test_coverage_holds_at_all_looks_at_once(rates):
    """500 runs of 400 rows, a look after every eighth row; in the last case the rate changes."""
    rng = np.random.default_rng(3)
    p = np.repeat(rates, 200)
    events = (rng.random((500, 400)) < p).cumsum(axis=1)[:, 7::8]
    total = np.arange(8, 401, 8)
    mean = (p.cumsum() / np.arange(1, 401))[7::8]
    low, high = confidence_sequence(events, total, 0.2)
    missed = ((mean < low) | (mean > high)).any(axis=1).mean()
    assert 0.02 < missed <= 0.2


@pytest.mark.parametrize(
    "counted",
    [(3, 10, 7, 12), (0, 17, 150, 230), (17, 17, 0, 9), (40, 150, 90, 110), (1, 1, 0, 300)],
)
def test_the_difference_spans_the_pairs_that_the_product_does_not_refute(counted):
    rates = np.linspace(0, 1, 2_001)
    events, total, other_events, other_total = counted
    logs = [np.log(mixture(rates, *x)) for x in ((events, total), (other_events, other_total))]
    product = np.add.outer(*logs)
    for alpha in (0.2, 0.001):
        one, other = np.nonzero(product < -np.log(alpha))
        apart, step = rates[one] - rates[other], 2 * rates[1]
        low, high = difference_sequence(*counted, alpha)
        assert apart.min() - step <= low <= apart.min() + 1e-9
        assert apart.max() - 1e-9 <= high <= apart.max() + step


@settings(max_examples=50)
@given(counts, counts, st.sampled_from([0.2, 0.05, 1e-4]))
def test_the_difference_is_narrower_than_two_sequences_and_turns_with_its_groups(a, b, alpha):
    low, high = difference_sequence(*a, *b, alpha)
    assert -1 <= low <= a[0] / a[1] - b[0] / b[1] <= high <= 1
    turned = difference_sequence(*b, *a, alpha)
    assert turned == (pytest.approx(-high, abs=1e-8), pytest.approx(-low, abs=1e-8))
    wider = difference_sequence(*a, *b, alpha / 10)
    assert wider[0] <= low
    assert high <= wider[1]
    if min(a[1], b[1]) > 30:  # the corners that are cut off
        one, other = confidence_sequence(*a, alpha / 2), confidence_sequence(*b, alpha / 2)
        assert one[0] - other[1] <= low + 0.01
        assert high <= one[1] - other[0] + 0.01


def test_the_derivatives_of_the_mixture_are_finite_differences():
    rates, step = np.linspace(0.02, 0.98, 25), 1e-5
    events, total = np.full(25, 40.0), np.full(25, 150.0)
    ends = [log_mixture(rates + sign * step, events, total) for sign in (-1, 1)]
    _, slope, curvature = log_mixture(rates, events, total)
    np.testing.assert_allclose((ends[1][0] - ends[0][0]) / (2 * step), slope, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose((ends[1][1] - ends[0][1]) / (2 * step), curvature, rtol=1e-5)


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.5, 0.3), (0.45, 0.15)])
def test_the_difference_is_covered_at_all_looks_at_once(rates):
    """300 runs; the group of a row is drawn, and the rate of the first changes half-way."""
    rng = np.random.default_rng(4)
    first = rng.random((300, 400)) < 0.3
    p = np.where(first, np.where(np.arange(400) < 200, rates[0], 0.2), rates[1])
    events = rng.random((300, 400)) < p
    looks = slice(7, None, 8)
    total, other = first.cumsum(axis=1)[:, looks], (~first).cumsum(axis=1)[:, looks]
    mean = [
        (p * group).cumsum(axis=1)[:, looks] / np.maximum(n, 1)
        for group, n in ((first, total), (~first, other))
    ]
    counted = [(events & group).cumsum(axis=1)[:, looks] for group in (first, ~first)]
    low, high = difference_sequence(counted[0], total, counted[1], other, 0.2)
    true = mean[0] - mean[1]
    known = (total > 0) & (other > 0)
    missed = (known & ((true < low) | (true > high))).any(axis=1).mean()
    assert 0.002 < missed <= 0.2


def test_a_difference_without_rows_is_not_known():
    assert difference_sequence(0, 0, 3, 10) == (-1, 1)
    with pytest.raises(InvalidInputError, match="swapped"):
        difference_sequence(1, 3, 9, 4)


def test_what_is_spent_adds_up():
    starts = np.arange(100_000)
    assert 3 * spend(0.05, 3, starts).sum() == pytest.approx(0.75 * 0.05, rel=1e-4)


@pytest.mark.parametrize(
    ("events", "total", "alpha", "said"),
    [
        (5, 3, 0.05, "swapped"),
        (-1, 3, 0.05, "swapped"),
        (1, 3, 0.0, "alpha"),
        (1, 3, 1.0, "alpha"),
    ],
)
def test_bad_input_is_refused(events, total, alpha, said):
    with pytest.raises(InvalidInputError, match=said):
        confidence_sequence(events, total, alpha)
