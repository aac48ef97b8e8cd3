"""Laws of parity with two sides: every group against the pooled rate."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.two_sided import two_sided
from tests.problems import MeanGap

SEEDS = st.integers(0, 100_000)
N_GROUPS = st.integers(2, 8)
TOLERANCES = st.floats(0, 0.99)


def group_rates(values, weights):
    names = tuple((k,) for k in range(len(values)))
    return GroupMoments(np.array([values]), np.array([weights]), names)


def draw(seed, n_groups):
    """Rates, weights that differ by orders of magnitude, and multipliers of either side."""
    rng = np.random.default_rng(seed)
    return rng.random(n_groups), np.exp(2 * rng.normal(size=n_groups)), rng.random(2 * n_groups)


@given(SEEDS, N_GROUPS, TOLERANCES)
def test_pullback_is_the_derivative_of_violations(seed, n_groups, tolerance):
    values, weights, multipliers = draw(seed, n_groups)
    constraint = two_sided(parity("fnr", tolerance))
    step = 1e-6
    numeric = np.empty(n_groups)
    for g in range(n_groups):
        moved = [
            multipliers @ constraint.violations(group_rates(values + sign * shift, weights))
            for shift in [step * np.eye(n_groups)[g]]
            for sign in (1, -1)
        ]
        numeric[g] = (moved[0] - moved[1]) / (2 * step)
    found = constraint.pullback(group_rates(values, weights), multipliers)
    assert found.shape == (1, n_groups)
    np.testing.assert_allclose(found[0], numeric, atol=1e-8)
    elsewhere = constraint.pullback(group_rates(1 - values, weights), multipliers)
    np.testing.assert_array_equal(found, elsewhere)  # there is no group to switch to


@given(SEEDS, N_GROUPS, TOLERANCES, st.floats(0, 2))
def test_if_nothing_is_violated_no_two_rates_differ_by_more_than_the_tolerance(
    seed, n_groups, tolerance, spread
):
    values, weights, _ = draw(seed, n_groups)
    values = 0.5 + spread * tolerance * (values - 0.5)  # often within, often not
    violations = two_sided(parity("fnr", tolerance)).violations(group_rates(values, weights))
    gap = values.max() - values.min()
    if (violations <= 0).all():
        assert gap <= tolerance + 1e-12
    if gap <= tolerance / 2:  # the pooled rate is one of those in between
        assert violations.max() <= 1e-12


@given(SEEDS, N_GROUPS)
def test_a_violation_is_the_distance_from_the_pooled_rate(seed, n_groups):
    values, weights, _ = draw(seed, n_groups)
    constraint, rates = two_sided(parity("fnr", 0.2)), group_rates(values, weights)
    above, below = np.split(constraint.violations(rates) + constraint.linearized(rates).room, 2)
    np.testing.assert_allclose(above, values - np.average(values, weights=weights), atol=1e-12)
    np.testing.assert_allclose(above, -below, atol=1e-12)
    assert abs(weights @ above) < 1e-9 * weights.sum()  # groups cannot all be on one side


@given(SEEDS, N_GROUPS)
def test_coefficients_cannot_move_all_groups_alike(seed, n_groups):
    """They sum to zero: a rate that rises in every group by as much changes no violation."""
    values, weights, multipliers = draw(seed, n_groups)
    constraint = two_sided(parity("fnr", 0.0))
    assert abs(constraint.pullback(group_rates(values, weights), multipliers).sum()) < 1e-12
    before = constraint.violations(group_rates(values, weights))
    after = constraint.violations(group_rates(values + 0.1, weights))
    np.testing.assert_allclose(after, before, atol=1e-12)


@given(SEEDS, N_GROUPS, st.floats(0, 10))
def test_multipliers_that_weigh_nothing(seed, n_groups, more):
    """The same on both sides of a group, or on one side in proportion to the groups' sizes.

    The second because distances from the pooled rate, weighted by size, sum to zero. A constant on
    one side weighs nothing if groups are of equal size, and only then.
    """
    values, weights, multipliers = draw(seed, n_groups)
    constraint, rates = two_sided(parity("fnr", 0.0)), group_rates(values, weights)
    expected = constraint.pullback(rates, multipliers)
    one_group = np.tile(np.eye(n_groups)[0], 2)
    for side in (0, 1):
        by_size = np.zeros((2, n_groups))
        by_size[side] = weights / weights.sum()
        for idle in (more * one_group, more * by_size.ravel()):
            np.testing.assert_allclose(
                constraint.pullback(rates, multipliers + idle), expected, atol=1e-10
            )
    constant = np.repeat([1.0, 0.0], n_groups)
    found = constraint.pullback(rates, multipliers + constant)
    np.testing.assert_allclose(
        (found - expected)[0], 1 - n_groups * weights / weights.sum(), atol=1e-12
    )
    equal = group_rates(values, np.ones(n_groups))
    np.testing.assert_allclose(
        constraint.pullback(equal, multipliers + constant),
        constraint.pullback(equal, multipliers),
        atol=1e-12,
    )


@given(SEEDS, N_GROUPS)
def test_the_order_of_groups_does_not_matter(seed, n_groups):
    values, weights, multipliers = draw(seed, n_groups)
    order = np.random.default_rng(seed).permutation(n_groups)
    both = np.concatenate([order, n_groups + order])
    constraint = two_sided(parity("fnr", 0.05))
    rates, shuffled = group_rates(values, weights), group_rates(values[order], weights[order])
    np.testing.assert_allclose(
        constraint.violations(shuffled), constraint.violations(rates)[both], atol=1e-12
    )
    np.testing.assert_allclose(
        constraint.pullback(shuffled, multipliers[both])[0],
        constraint.pullback(rates, multipliers)[0, order],
        atol=1e-12,
    )


@given(SEEDS)
def test_two_groups_are_limited_by_their_distance(seed):
    """Whatever their sizes: all four violations say the same of it."""
    values, weights, _ = draw(seed, 2)
    constraint, rates = two_sided(parity("fnr", 0.1)), group_rates(values, weights)
    apart, shares = values[0] - values[1], weights[::-1] / weights.sum()
    expected = np.array([apart - 0.1, -apart - 0.1, -apart - 0.1, apart - 0.1])
    np.testing.assert_allclose(
        constraint.violations(rates) / np.tile(shares, 2), expected, atol=1e-9
    )
    np.testing.assert_allclose(constraint.linearized(rates).room, 0.1 * np.tile(shares, 2))


@given(SEEDS, st.integers(3, 8), st.floats(0.1, 0.9))
def test_a_group_in_two_halves_of_equal_rate_is_one_group(seed, n_groups, share):
    """The paper's parity has this law too, but weighs a group twice that is split in two."""
    values, weights, _ = draw(seed, n_groups)
    constraint = two_sided(parity("fnr", 0.05))
    whole = constraint.violations(group_rates(values, weights))
    split = constraint.violations(
        group_rates(
            np.append(values, values[0]),
            np.concatenate([[share * weights[0]], weights[1:], [(1 - share) * weights[0]]]),
        )
    )
    above, below = np.split(split, 2)
    np.testing.assert_allclose(np.concatenate([above[:-1], below[:-1]]), whole, atol=1e-12)
    np.testing.assert_allclose([above[-1], below[-1]], [above[0], below[0]], atol=1e-12)


@given(SEEDS, N_GROUPS)
def test_a_name_says_which_group_is_on_which_side(seed, n_groups):
    values, weights, _ = draw(seed, n_groups)
    assume(np.ptp(values) > 1e-6)
    constraint = two_sided(parity("fpr", 0.0))
    labels = [f"g={k}" for k in range(n_groups)]
    names = constraint.inequality_names(labels)
    assert len(set(names)) == 2 * n_groups
    pooled = np.average(values, weights=weights)
    violations = constraint.violations(group_rates(values, weights))
    for name, violation in zip(names, violations, strict=True):
        group, side = name.removeprefix("fpr[g=").split("] ")
        apart = values[int(group)] - pooled
        assert side in ("above", "below")
        assert violation == pytest.approx(apart if side == "above" else -apart, abs=1e-12)


def test_only_parity_has_two_sides():
    for other in (bound("fpr", 0.1), bound("fnr", 0.1, group={"g": 1}), MeanGap()):
        assert two_sided(other) is other
    changed = two_sided(parity("tpr", 0.04, by=("sex", "race")))
    assert (changed.moment.name, changed.tolerance, changed.by) == ("tpr", 0.04, ("sex", "race"))
