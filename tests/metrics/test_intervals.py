"""Intervals of one rate, and of gaps and ratios given the errors of rates."""

from __future__ import annotations

import copy
import numbers
import pickle
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairboost.exceptions import InvalidInputError
from fairboost.metrics import intervals
from fairboost.metrics.intervals import (
    Estimate,
    bootstrap_weights,
    clopper_pearson,
    gap_at_most,
    gap_interval,
    ratio_interval,
    rows_needed,
    rows_to_tell,
    smooth_decisions,
    student,
    wilson,
)

BOTH = pytest.mark.parametrize("interval", [wilson, clopper_pearson])

# Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17
# (1998), table I: methods 3 (score) and 5 (exact).
NEWCOMBE = [
    (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
    (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
    (0, 20, (0.0000, 0.1611), (0.0000, 0.1684)),
    (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
]


@pytest.mark.parametrize(("events", "total", "score", "exact"), NEWCOMBE)
def test_published_values(events, total, score, exact):
    np.testing.assert_allclose(wilson(events, total), score, atol=5e-5)
    np.testing.assert_allclose(clopper_pearson(events, total), exact, atol=5e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_wilson_ends_solve_the_score_equation(confidence):
    events, total = np.array([0.7, 3.0, 12.25]), np.array([4.5, 10.0, 13.0])
    z = stats.norm.isf((1 - confidence) / 2)
    for end in wilson(events, total, confidence):
        distance = (events / total - end) / np.sqrt(end * (1 - end) / total)
        np.testing.assert_allclose(np.abs(distance), z)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("interval", "method"), [(wilson, "wilson"), (clopper_pearson, "exact")])
def test_scipy_agrees_on_whole_numbers(interval, method, confidence):
    total = 17
    low, high = interval(np.arange(total + 1), total, confidence)
    for k in range(total + 1):
        expected = stats.binomtest(k, total).proportion_ci(confidence, method)
        np.testing.assert_allclose((low[k], high[k]), expected, rtol=1e-9, atol=1e-15)


def coverage(interval, total, truths, confidence):
    """Probability, for each true rate, that the interval holds it: summed exactly."""
    k = np.arange(total + 1)
    low, high = interval(k, total, confidence)
    holds = (low <= truths[:, None]) & (truths[:, None] <= high)
    return (stats.binom.pmf(k, total, truths[:, None]) * holds).sum(axis=1)


@pytest.mark.parametrize("total", [1, 2, 9, 40])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_clopper_pearson_covers_at_least_as_promised(total, confidence):
    truths = np.linspace(0, 1, 801)
    assert coverage(clopper_pearson, total, truths, confidence).min() >= confidence


def test_wilson_covers_as_promised_on_average_but_not_everywhere():
    reached = coverage(wilson, 40, np.linspace(0, 1, 801), 0.95)
    assert abs(reached.mean() - 0.95) < 0.01
    assert reached.min() < 0.95  # the price of being narrower than Clopper-Pearson


@BOTH
def test_swapping_events_and_the_rest_mirrors_the_interval(interval):
    events, total = np.array([0.0, 0.3, 2.5, 6.0]), np.array([5.0, 4.2, 6.0, 6.0])
    low, high = interval(events, total)
    mirrored_low, mirrored_high = interval(total - events, total)
    np.testing.assert_allclose(low, 1 - mirrored_high, atol=1e-12)
    np.testing.assert_allclose(high, 1 - mirrored_low, atol=1e-12)


@BOTH
def test_fractions_lie_between_their_whole_neighbours(interval):
    low, high = interval([3.0, 3.4, 4.0], 10)
    assert low[0] < low[1] < low[2]
    assert high[0] < high[1] < high[2]


@BOTH
def test_ends_are_exact_without_events_and_with_nothing_else(interval):
    total = np.arange(1, 200) / 7
    assert (interval(0, total)[0] == 0).all()
    assert (interval(total, total)[1] == 1).all()


@BOTH
def test_nothing_counted_is_not_a_number(interval):
    low, high = interval([0, 1], [0, 2])
    assert np.isnan([low[0], high[0]]).all()
    assert np.isfinite([low[1], high[1]]).all()


@BOTH
def test_shapes_broadcast(interval):
    low, high = interval(np.ones((2, 3)), [2, 3, 4])
    assert low.shape == high.shape == (2, 3)
    assert interval(1, 2)[0].shape == ()


@BOTH
@pytest.mark.parametrize(("events", "total"), [(3, 2), (-1, 2), (np.nan, 2), (0, -1)])
def test_impossible_counts(interval, events, total):
    with pytest.raises(InvalidInputError, match=r"between 0 and total.*swapped"):
        interval(events, total)


@BOTH
@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, np.nan])
def test_impossible_confidence(interval, confidence):
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        interval(1, 2, confidence)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.1234, 0.1, 0.2, 0.95), "0.123 [0.100, 0.200]"),
        (Estimate(0.1234, np.nan, np.nan, 0.95), "0.123"),
        (Estimate(np.nan, np.nan, np.nan, 0.95), "undefined"),
    ],
)
def test_estimate_as_text(estimate, text):
    assert str(estimate) == text


def sums_of(category: np.ndarray, weight: np.ndarray, n_categories: int) -> np.ndarray:
    return np.array([np.bincount(category, weight**k, n_categories) for k in range(3)])


def test_draws_without_weights_follow_the_multinomial_law():
    rows = np.array([5.0, 0.0, 15.0, 30.0])
    draws = bootstrap_weights(np.array([rows] * 3), 20_000, np.random.default_rng(1))
    assert (draws == draws.round()).all()
    assert (draws.sum(axis=1) == 50).all()
    law = stats.multinomial(50, rows / 50)
    np.testing.assert_allclose(draws.mean(axis=0), rows, atol=5 * np.sqrt(12.5 / 20_000))
    np.testing.assert_allclose(np.cov(draws.T), law.cov(), atol=0.6)  # 12.5 * 5 * sqrt(2 / 20 000)


@pytest.mark.parametrize("weight", [1.0, 0.1, 7.3])
def test_equal_weights_draw_as_if_there_were_none(weight):
    rows = np.array([5.0, 0.0, 15.0, 3000.0])
    plain = bootstrap_weights(np.array([rows] * 3), 50, np.random.default_rng(2))
    sums = np.array([rows, weight * rows, weight**2 * rows])
    weighted = bootstrap_weights(sums, 50, np.random.default_rng(2))
    np.testing.assert_allclose(weighted, weight * plain, rtol=1e-12)


def test_uneven_weights_match_a_bootstrap_of_rows():
    rng = np.random.default_rng(3)
    category, weight = rng.integers(0, 3, 150), rng.gamma(2.0, size=150)
    draws = bootstrap_weights(sums_of(category, weight, 3), 8000, rng)
    picks = rng.integers(0, 150, (8000, 150))
    rows = np.array([np.bincount(category[p], weight[p], 3) for p in picks])
    error = rows.std(axis=0) * np.sqrt(2 / 8000)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - rows.mean(axis=0)), 4 * error)
    np.testing.assert_allclose(draws.std(axis=0), rows.std(axis=0), rtol=4 / np.sqrt(8000))


def test_a_few_heavy_weights_never_draw_less_than_nothing():
    category, weight = np.zeros(40, int), np.r_[np.full(39, 0.01), 100.0]
    draws = bootstrap_weights(sums_of(category, weight, 1), 500, np.random.default_rng(4))
    assert draws.min() == 0  # the normal law reaches below, so this also shows the clip at work


def test_no_draws():
    assert bootstrap_weights(np.ones((3, 2)), 0, np.random.default_rng(0)).shape == (0, 2)


# Gaps and ratios


def test_smoothing_keeps_the_sums_of_cells_and_moves_rates_as_half_an_event_does():
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 9, (2, 6)).astype(float)
    rows[:, 0] = 0
    sums = np.array([rows, 3 * rows, 10 * rows])
    smoothed = smooth_decisions(sums)
    np.testing.assert_allclose(smoothed.sum(axis=1), sums.sum(axis=1), rtol=1e-12)
    assert (smoothed[:, :, 0] == 0).all()
    n, k = rows.sum(axis=0)[1:], rows[1, 1:]
    np.testing.assert_allclose(smoothed[0, 1, 1:] / n, (k + 0.5) / (n + 1), rtol=1e-12)


def test_smoothing_adds_the_mean_row_of_the_cell():
    weight = np.array([1.0, 2.0, 4.0, 5.0])
    decision = np.array([0, 0, 0, 1])
    cell = sums_of(decision, weight, 2)[:, :, np.newaxis]
    found = smooth_decisions(cell)[:, :, 0]
    mean = np.array([1.0, weight.mean(), (weight**2).mean()])
    np.testing.assert_allclose(found, (cell[:, :, 0] + mean[:, np.newaxis] / 2) * 4 / 5)


NORMAL = np.random.default_rng(0).standard_normal((2_000, 60))


@given(
    spread=st.lists(st.floats(0.001, 0.2), min_size=2, max_size=6).map(np.array),
    rates=st.lists(st.floats(0, 1), min_size=6, max_size=6).map(np.array),
)
def test_no_interval_of_two_groups_reaches_below_that_of_more(spread, rates):
    """A gap is at least that of any two groups: so is its low end, but for the larger quantile."""
    errors, rates = NORMAL[:, : len(spread)] * spread, rates[: len(spread)]
    low, high = gap_interval(rates, errors, 0.95)
    assert 0 <= low <= np.ptp(rates) <= high <= 1
    for g in range(len(spread) - 1):
        pair = [g, g + 1]
        alone, _ = gap_interval(rates[pair], errors[:, pair], 0.95)
        # Six groups: 2.9 deviations instead of 2.
        assert low >= alone - 1.2 * np.hypot(*spread[pair])


def test_two_groups_have_the_range_of_their_errors():
    errors = NORMAL[:, :2] * [0.01, 0.02]
    low, high = gap_interval(np.array([0.3, 0.5]), errors, 0.9)
    reach = np.quantile(np.ptp(errors, axis=1), 0.9)
    assert (low, high) == pytest.approx((0.2 - reach, 0.2 + reach), rel=0.01)
    low, high = ratio_interval(0.5, np.log([0.3, 0.6]), errors, 0.9)
    assert (low, high) == pytest.approx((0.5 * np.exp(-reach), 0.5 * np.exp(reach)), rel=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("others", [1, 5])
def test_tiny_groups_do_not_hide_that_two_large_ones_are_apart(rate, others):
    spread = np.array([0.0036, 0.0036, *[0.15] * others])
    errors = NORMAL[:, : len(spread)] * spread
    rates = np.array([0.2, 0.321, *[rate] * others])
    alone = gap_interval(rates[:2], errors[:, :2], 0.95)[0]
    # What several comparisons cost, and no more: a quantile of 3 instead of 2 deviations.
    assert alone - 1.1 * np.hypot(0.0036, 0.0036) < gap_interval(rates, errors, 0.95)[0]
    alone = ratio_interval(0.62, np.log(rates[:2]), errors[:, :2], 0.95)[1]
    beside = ratio_interval(0.62, np.log(np.maximum(rates, 0.05)), errors, 0.95)[1]
    assert beside < alone * np.exp(1.1 * np.hypot(0.0036, 0.0036))


@pytest.mark.parametrize("n_groups", [41, 60])
def test_many_groups_are_bounded_closely(n_groups, monkeypatch):
    errors = NORMAL[:, :n_groups] * np.linspace(0.01, 0.05, n_groups)
    rates = np.linspace(0.3, 0.5, n_groups)
    bounded = gap_interval(rates, errors, 0.95)
    monkeypatch.setattr(intervals, "MOST_IN_PAIRS", n_groups)
    exact = gap_interval(rates, errors, 0.95)
    assert bounded[0] <= exact[0] and bounded[1] >= exact[1]
    assert bounded == pytest.approx(exact, abs=0.02)


def test_a_group_that_a_sample_is_without_is_left_out_of_it():
    errors = NORMAL[:, :3].copy() * 0.01
    errors[::2, 2] = np.nan
    rates = np.array([0.3, 0.5, 0.4])
    assert gap_interval(rates, errors, 0.95) == pytest.approx((0.17, 0.23), abs=0.01)
    errors[:, 2] = np.nan  # in all of them
    expected = gap_interval(rates[:2], errors[:, :2], 0.95)
    assert gap_interval(rates, errors, 0.95) == expected
    rates[2] = np.nan
    assert gap_interval(rates, NORMAL[:, :3], 0.95) == gap_interval(rates[:2], NORMAL[:, :2], 0.95)


def test_ends_stay_within_bounds_and_the_estimate_within_the_ends():
    errors = NORMAL[:, :2]
    assert gap_interval(np.array([0.1, 0.5]), errors, 0.9) == (0.0, 1.0)
    still = np.zeros((1, 2))
    assert ratio_interval(0.0, np.log([0.1, 1.0]), still, 0.9) == pytest.approx((0.0, 0.1))
    assert ratio_interval(1.0, np.log([0.9, 1.0]), still, 0.9) == pytest.approx((0.9, 1.0))
    assert ratio_interval(0.5, np.log([0.6, 1.0]), errors, 0.9)[1] == 1.0


@pytest.mark.parametrize("errors", [np.empty((0, 2)), np.full((3, 2), np.nan)])
def test_no_sample_of_two_groups_no_interval(errors):
    assert np.isnan(gap_interval(np.array([0.1, 0.5]), errors, 0.9)).all()
    assert np.isnan(ratio_interval(0.5, np.log([0.1, 0.5]), errors, 0.9)).all()
    one = np.array([0.1, np.nan])
    assert np.isnan(gap_interval(one, NORMAL[:, :2], 0.9)).all()


def test_what_a_gap_is_at_most():
    errors = NORMAL[:, :2] * 0.01
    for found in (0.0, 0.01, 0.1):
        u = gap_at_most(np.array([0.3, 0.3 + found]), errors, 0.95)
        s = 0.01 * np.sqrt(2)
        held = stats.norm.cdf((u - found) / s) - stats.norm.cdf((-u - found) / s)
        assert held == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(("gap", "rows"), [(0.03, 2030), (0.05, 730), (0.08, 286)])
def test_rows_needed_are_those_of_the_formula(gap, rows):
    assert rows_needed(0.39, gap) == pytest.approx(rows, rel=0.005)


@pytest.mark.parametrize("rate", [0.05, 0.25, 0.5])
@pytest.mark.parametrize("gap", [0.02, 0.1])
def test_with_the_rows_needed_the_interval_of_such_a_gap_begins_at_none(rate, gap):
    n = rows_needed(rate, gap)
    errors = NORMAL[:, :2] * np.sqrt(rate * (1 - rate) / n)
    low, _ = gap_interval(np.array([rate - gap / 2, rate + gap / 2]), errors, 0.95)
    assert low == pytest.approx(0, abs=0.05 * gap)


# An estimate is a number


def test_an_estimate_is_a_number():
    found, other = Estimate(0.25, 0.2, 0.3, 0.95), Estimate(0.5, np.nan, np.nan, confidence=0.9)
    assert float(found) == found == 0.25 and found < other <= 0.5
    assert (1 - found, found * 2, -found, abs(found)) == (0.75, 0.5, -0.25, 0.25)
    assert np.mean([found, other]) == 0.375 and sorted([other, found])[0] is found
    assert isinstance(found, numbers.Real)
    assert f"{found:.2f} {found}" == "0.25 0.250 [0.200, 0.300]"


def test_estimates_are_equal_with_their_intervals_alone():
    assert Estimate(0.25, 0.2, 0.3, 0.95) == Estimate(0.25, 0.2, 0.3, 0.95)
    assert Estimate(0.25, 0.2, 0.3, 0.95) != Estimate(0.25, 0.1, 0.3, 0.95)
    assert {0.25: "here"}[Estimate(0.25, 0.2, 0.3, 0.95)] == "here"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_an_estimate_can_be_copied_whole(again):
    found = Estimate(0.25, 0.2, high=0.3, confidence=0.95)
    assert again(found) == found and type(again(found)) is Estimate
    assert asdict(found) == {"value": 0.25, "low": 0.2, "high": 0.3, "confidence": 0.95}


# Means


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_students_interval_is_scipys(confidence):
    mean, error, freedom = np.array([2.0, -7.5]), np.array([0.1, 3.0]), np.array([4.0, 99.5])
    expected = stats.t.interval(confidence, freedom, mean, error)
    np.testing.assert_allclose(student(mean, error, freedom, confidence), expected)
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        student(mean, error, freedom, 1.0)


def test_rows_to_tell_a_gap_of_means_are_those_at_which_it_is_two_errors():
    n = rows_to_tell(144.0, gap=3.0, confidence=0.9)
    assert stats.norm.isf(0.05) * np.sqrt(2 * 144.0 / n) == pytest.approx(3.0)
    assert rows_needed(0.3, 0.1) == pytest.approx(rows_to_tell(0.21, 0.1))
