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
from fairboost.metrics.intervals import (
    Estimate,
    clopper_pearson,
    ends_of_differences,
    gap_interval,
    ratio_interval,
    rows_needed,
    rows_to_tell,
    skewed,
    student,
    widest_apart,
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


# Gaps and ratios


def of_shares(rates, n):
    return lambda level: ends_of_differences(rates * n, n, level)


@pytest.mark.parametrize("n_groups", [2, 3, 12])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_equal_groups_are_as_wide_apart_as_tukey_says(n_groups, confidence):
    expected = stats.studentized_range.ppf(confidence, n_groups, np.inf) / np.sqrt(2)
    assert widest_apart(n_groups, confidence) == pytest.approx(expected, rel=1e-5)


def test_two_groups_have_newcombes_interval_and_that_of_donner_and_zou():
    """Newcombe, Statistics in Medicine 17 (1998), 873, table II, method 10: 56/70 and 48/80."""
    rates, n = np.array([56 / 70, 48 / 80]), np.array([70, 80])
    assert gap_interval(rates, of_shares(rates, n), 0.95) == pytest.approx(
        (0.0524, 0.3339), abs=5e-5
    )
    # The ends R of the ratio are where the interval of r_0 - R r_1 ends at 0.
    low, high = ratio_interval(rates, of_shares(rates, n), 0.95)
    down, up = (np.abs(rates - end) for end in wilson(rates * n, n))
    small, large = 1, 0
    assert rates[small] - high * rates[large] == pytest.approx(
        -np.hypot(up[small], high * down[large])
    )
    assert rates[small] - low * rates[large] == pytest.approx(
        np.hypot(down[small], low * up[large])
    )


@given(
    n=st.lists(st.floats(1, 5_000), min_size=2, max_size=6).map(np.array),
    rates=st.lists(st.floats(0, 1), min_size=6, max_size=6).map(np.array),
)
def test_no_interval_of_two_groups_reaches_below_that_of_more(n, rates):
    """A gap is at least that of any two groups: so are its ends, but for the longer low arm."""
    rates = rates[: len(n)]
    low, high = gap_interval(rates, of_shares(rates, n), 0.95)
    assert 0 <= low <= np.ptp(rates) + 1e-12
    assert np.ptp(rates) - 1e-12 <= high <= 1
    for g in range(len(n) - 1):
        pair = [g, g + 1]
        alone, most = gap_interval(rates[pair], of_shares(rates[pair], n[pair]), 0.95)
        assert high >= most - 1e-12
        level = 2 * stats.norm.cdf(widest_apart(len(n), 0.95)) - 1
        alone, _ = gap_interval(rates[pair], of_shares(rates[pair], n[pair]), level)
        assert low >= alone - 1e-9


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("others", [1, 5])
def test_tiny_groups_do_not_hide_that_two_large_ones_are_apart(rate, others):
    n = np.array([12_000, 12_000, *[9] * others])
    rates = np.array([0.2, 0.321, *[rate] * others])
    alone = gap_interval(rates[:2], of_shares(rates[:2], n[:2]), 0.95)[0]
    # What several comparisons cost, and no more: 3 standard errors instead of 2.
    assert (
        alone - 1.1 * np.hypot(0.0037, 0.0043) < gap_interval(rates, of_shares(rates, n), 0.95)[0]
    )


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_groups_that_share_rows_are_compared_with_shorter_arms(shared):
    rates, n = np.array([0.3, 0.5]), np.array([2_000, 2_000])
    rho = np.array([[1.0, shared], [shared, 1.0]])
    low, high = gap_interval(rates, of_shares(rates, n), 0.95, correlations=rho)
    s = np.sqrt(rates * (1 - rates) / n)
    half = 1.96 * np.sqrt((s**2).sum() - 2 * shared * s.prod())
    assert (low, high) == pytest.approx((0.2 - half, 0.2 + half), rel=0.01)
    low, high = ratio_interval(rates, of_shares(rates, n), 0.95, correlations=rho)
    s /= rates
    half = 1.96 * np.sqrt((s**2).sum() - 2 * shared * s.prod())
    assert np.log([low, high]) == pytest.approx(np.log(0.6) + np.array([-half, half]), rel=0.01)


def test_groups_of_different_parts_are_not_compared():
    rates, n = np.array([0.1, 0.12, 0.7, 0.72]), np.full(4, 500)
    parts = [np.array([0, 1]), np.array([2, 3])]
    low, high = gap_interval(rates, of_shares(rates, n), 0.95, parts=parts)
    assert low == 0 and high < 0.1
    assert gap_interval(rates[:1], of_shares(rates[:1], n[:1]), 0.95) == (0.0, 0.0)


def test_ends_of_amounts_solve_their_equation():
    """Of a count the error grows with the root of what is expected."""
    low, high = skewed(np.array([3.0, 40.0]), np.sqrt([3.0, 40.0]), 1.96)
    for end in (low, high):
        np.testing.assert_allclose(np.abs([3.0, 40.0] - end) / np.sqrt(end), 1.96)
    assert [float(end) for end in skewed(0.0, 2.0, 1.5)] == [-3.0, 3.0]


@pytest.mark.parametrize(("gap", "rows"), [(0.03, 2030), (0.05, 730), (0.08, 286)])
def test_rows_needed_are_those_of_the_formula(gap, rows):
    assert rows_needed(0.39, gap) == pytest.approx(rows, rel=0.005)


@pytest.mark.parametrize("rate", [0.05, 0.25, 0.5])
@pytest.mark.parametrize("gap", [0.02, 0.1])
def test_with_the_rows_needed_the_interval_of_such_a_gap_begins_at_none(rate, gap):
    n = rows_needed(rate, gap)
    rates = np.array([rate - gap / 2, rate + gap / 2])
    low, _ = gap_interval(rates, of_shares(rates, np.full(2, n)), 0.95)
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
