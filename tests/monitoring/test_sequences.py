"""Confidence sequences: exact inversion, coverage at all looks, solvable cases, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.exceptions import InvalidInputError
from fairboost.monitoring import confidence_sequence
from fairboost.monitoring.sequences import ODDS, spend

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
