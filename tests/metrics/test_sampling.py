"""Laws of shares and means: what verdicts ask of them, and how often their intervals hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairboost.metrics.intervals import wilson
from fairboost.metrics.sampling import MeanLaw, ShareLaw, law_of
from fairboost.verdicts import verdict as verdicts

ROWS = np.array([120.0, 250.0])
VARIANCES = np.array([9.0, 4.0])


def of_means(variances=VARIANCES, rows=ROWS):
    return law_of(np.atleast_2d(variances), np.atleast_2d(rows)).at(0)


def test_shares_have_wilsons_interval_and_means_students():
    shares, n = np.array([0.1, 0.6]), ROWS
    np.testing.assert_array_equal(ShareLaw().interval(shares, n, 0.9), wilson(shares * n, n, 0.9))
    values = np.array([41_000.0, -3.0])
    low, high = of_means().interval(values, n, 0.9)
    expected = stats.t.interval(0.9, n - 1, values, np.sqrt(VARIANCES / n))
    np.testing.assert_allclose((low, high), expected)


def test_fewer_rows_tell_in_cross_fitting_but_the_deviation_is_known_from_all():
    low, high = of_means().interval(np.zeros(2), ROWS / 4, 0.95)
    errors = np.sqrt(VARIANCES / (ROWS / 4))
    np.testing.assert_allclose(high, stats.t.ppf(0.975, ROWS - 1) * errors)
    np.testing.assert_allclose(low, -high)


@pytest.mark.parametrize("law", [ShareLaw(), of_means()], ids=["shares", "means"])
def test_drawn_errors_have_the_deviation_of_a_moment(law):
    values = np.array([0.5, 0.5])
    drawn = law.draw(values, ROWS, 40_000, np.random.default_rng(0))
    # Student's t is wider than normal by sqrt(f / (f - 2)).
    wider = 1.0 if isinstance(law, ShareLaw) else np.sqrt((ROWS - 1) / (ROWS - 3))
    expected = np.sqrt(law.variances(values, ROWS) / ROWS) * wider
    np.testing.assert_allclose(drawn.std(axis=0), expected, rtol=0.03)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=4 * expected.max() / 200)


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6))
def test_intervals_and_draws_follow_a_change_of_unit(factor, shift):
    values = np.array([2.0, 2.5])
    here, there = of_means(), of_means(factor**2 * VARIANCES)
    low, high = here.interval(values, ROWS, 0.95)
    moved = there.interval(factor * values + shift, ROWS, 0.95)
    tiny = 1e-9 * (factor + abs(shift))
    np.testing.assert_allclose(moved, (factor * low + shift, factor * high + shift), atol=tiny)
    gap = verdicts.judge_gap(values, ROWS, 0.95, here)
    scaled = verdicts.judge_gap(factor * values, ROWS, 0.95, there)
    np.testing.assert_allclose(scaled, factor * np.array(gap), rtol=1e-9)


def test_errors_of_a_ratio_take_the_covariance():
    """By hand: of a / b with means A and B, var(a - (A / B) b) / (n B^2)."""
    rng = np.random.default_rng(0)
    expected = rng.gamma(2.0, 3.0, 5_000)
    actual = expected + rng.normal(0.0, 1.0, 5_000)
    A, B = actual.mean(), expected.mean()
    rows = np.full((2, 1), 5_000.0)
    values, slopes = np.array([[B], [A]]), np.array([[[-A / B**2], [1 / B]]])
    residual = actual - A / B * expected
    by_hand = np.sqrt(residual.var(ddof=1) / 5_000) / B
    both = np.cov(expected, actual)[:, :, np.newaxis]
    (error,) = law_of(both, rows).errors(slopes, values, rows)
    assert error == pytest.approx(by_hand, rel=1e-9)
    # Without it, what the two have in common is counted twice instead of not at all.
    (larger,) = law_of(np.einsum("mmg->mg", both), rows).errors(slopes, values, rows)
    apart = np.sqrt((A / B) ** 2 * expected.var(ddof=1) + actual.var(ddof=1))
    assert larger == pytest.approx(apart / B / np.sqrt(5_000), rel=1e-9)
    assert larger > 3 * error


def test_rows_that_are_all_alike_are_not_taken_for_certain():
    """Twelve rows without a claim, beside a thousand with some."""
    law = law_of(np.array([[0.0, 0.05]]), np.array([[12.0, 1_000.0]]))
    assert isinstance(law, MeanLaw)
    pooled = 0.05 * 1_000 / 1_012
    np.testing.assert_allclose(law.single, [[pooled, 0.05]])
    _, high = law.at(0).interval(np.array([0.0, 0.05]), np.array([12.0, 1_000.0]), 0.95)
    assert high[0] > 0.1


def test_few_rows_have_some_of_everyones_variance():
    law = law_of(np.array([[1.0, 9.0, 4.0]]), np.array([[25.0, 75.0, 100.0]]))
    pooled = (25 * 1 + 75 * 9 + 100 * 4) / 200
    expected = [(24 * 1 + 3 * pooled) / 27, (74 * 9 + 1 * pooled) / 75, 4.0]
    np.testing.assert_allclose(law.single, [expected])
    of_pairs = law_of(np.array([[[1.0, 9], [0.5, 1]], [[0.5, 1], [2, 4]]]), np.full((2, 2), 25.0))
    np.testing.assert_allclose(of_pairs.single[0], [(24 + 3 * 5) / 27, (24 * 9 + 3 * 5) / 27])
    np.testing.assert_allclose(
        of_pairs.covariances[0, 1], [(24 * 0.5 + 3 * 0.75) / 27, (24 + 3 * 0.75) / 27]
    )


def test_mean_losses_of_few_rows_are_not_apart_where_groups_are_equal():
    """Rows without a claim have small deviances that hardly differ."""
    rng, held = np.random.default_rng(0), 0
    n = np.full(5, 20.0)
    for _ in range(TRIALS):
        mean = 0.07 * np.exp(0.5 * rng.normal(size=(5, 20)))
        y = rng.poisson(mean)
        deviance = 2 * (np.where(y > 0, y * np.log(np.maximum(y, 1) / mean), 0.0) - y + mean)
        law = law_of(deviance.var(axis=1, ddof=1)[np.newaxis], n[np.newaxis], amounts=True).at(0)
        held += verdicts.judge_gap(deviance.mean(axis=1), n, 0.95, law)[1] == 0
    assert held / TRIALS >= 0.93


def test_variances_of_nothing_divide_nothing_by_nothing():
    law = law_of(np.zeros((1, 2)), np.array([[1.0, 1.0]])).at(0)
    ends = law.interval(np.array([3.0, 3.0]), np.ones(2), 0.95)
    np.testing.assert_allclose(ends, 3.0)
    assert np.isfinite(verdicts.judge_gap(np.array([3.0, 4.0]), np.ones(2), 0.95, law)).all()


def test_a_group_of_equal_rows_has_everyones_variance_in_ratios_too():
    """Among few rows without a claim there may be some all the same."""
    of_pairs = np.zeros((2, 2, 2))
    of_pairs[:, :, 1] = [[1.0, 0.5], [0.5, 4.0]]
    law = law_of(of_pairs, np.full((2, 2), 100.0))
    slopes = np.zeros((1, 2, 2))
    slopes[0, 1, 0] = 1.0  # the second moment of the first group alone
    pooled = (0.0 + 4.0) / 2
    np.testing.assert_allclose(
        law.errors(slopes, np.ones((2, 2)), np.full((2, 2), 100.0)), np.sqrt(pooled / 100)
    )


# How often intervals hold

TRIALS = 400
QUANTITIES = {
    "normal": lambda rng, n: rng.normal(0.0, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n) - 1.0,
    "Poisson(0.05)": lambda rng, n: rng.poisson(0.05, n) - 0.05,
}


def coverage(name, sizes, apart=0.0):
    """Share of samples in which either end of a gap, and of the first mean, holds at 97.5%."""
    rng = np.random.default_rng(0)
    n, held = np.asarray(sizes, float), np.zeros(4)
    for _ in range(TRIALS):
        samples = [QUANTITIES[name](rng, size) for size in sizes]
        law = of_means([x.var(ddof=1) for x in samples], n)
        means = np.array([x.mean() for x in samples])
        moved = means + np.where(np.arange(len(n)), 0.0, apart)
        _, low, high = verdicts.judge_gap(moved, n, 0.95, law)
        ends = law.interval(means, n, 0.95)
        held += [low <= abs(apart), abs(apart) <= high, ends[0][0] <= 0, ends[1][0] >= 0]
    return held / TRIALS


@pytest.mark.parametrize("apart", [0.0, 1.0])
@pytest.mark.parametrize("n", [30, 100, 1_000])
@pytest.mark.parametrize("name", QUANTITIES)
def test_the_gap_of_two_groups_alike_in_size_is_covered(name, n, apart):
    assert coverage(name, [n, n], apart)[:2].min() >= 0.91


@pytest.mark.parametrize(
    ("name", "n", "least", "most"),
    [
        ("exponential", 30, 0.9, 0.97),
        ("exponential", 100, 0.92, 0.98),
        ("Poisson(0.05)", 100, 0.9, 0.97),
    ],
)
def test_a_small_group_of_skewed_rows_beside_a_large_one_is_covered_less(name, n, least, most):
    assert least <= coverage(name, [n, 1_000], apart=1.0)[1] <= most


@pytest.mark.parametrize(
    ("name", "n", "least", "most"),
    [
        ("normal", 30, 0.92, 1.0),
        ("exponential", 30, 0.85, 0.94),
        ("exponential", 1_000, 0.91, 0.98),
        ("Poisson(0.05)", 30, 0.80, 0.92),
        ("Poisson(0.05)", 1_000, 0.90, 0.97),
    ],
)
def test_the_mean_of_few_skewed_rows_is_not(name, n, least, most):
    """As the module says: the upper end is too low until rows are many."""
    assert least <= coverage(name, [n, n])[3] <= most
