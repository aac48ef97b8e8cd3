"""Constraints on a number that is predicted: derivatives, exact cases, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.means import FIRST_LEVEL, NUMBERS, above, in_parts, levels
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import (
    DEFAULTS,
    LARGEST_RATIO,
    Calibrated,
    EachAtMost,
    SameDistribution,
    by_name,
    calibrated,
    resolve,
)


class AsJudged(Calibrated):
    """Violations as verdicts read them."""

    def violations(self, moments):
        return self.as_judged.violations(moments)

    def pullback(self, moments, multipliers):
        return self.as_judged.pullback(moments, multipliers)


CONSTRAINTS = {
    "distributions": SameDistribution(0.05, count=3),
    "calibrated": Calibrated(0.01),
    "calibrated within": Calibrated(0.01, within=3),
    "calibrated as judged": AsJudged(0.01, within=3),
    "at most": EachAtMost(NUMBERS["loss"], 2.0),
}
each = pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)


def moments_of(values, weights=None):
    """Moments of groups, of equal weight if none are given."""
    values = np.array(values, np.float64)
    found = np.ones_like(values) if weights is None else np.array(weights, np.float64)
    return GroupMoments(values, found, tuple((g,) for g in "abcd"[: values.shape[1]]))


def drawn(constraint, seed, n_groups=4):
    rng = np.random.default_rng(seed)
    shape = len(constraint.moments), n_groups
    return moments_of(
        rng.uniform(0.2, 0.9, shape), np.tile(rng.uniform(1, 5, n_groups), (shape[0], 1))
    )


@each
@pytest.mark.parametrize("seed", range(3))
def test_pullbacks_are_derivatives(constraint, seed):
    moments = drawn(constraint, seed)
    at, step = moments.values, 1e-6
    multipliers = np.random.default_rng(seed).uniform(size=constraint.violations(moments).size)
    expected = np.zeros_like(at)
    for k in np.ndindex(at.shape):
        moved = []
        for sign in (1, -1):
            values = at.copy()
            values[k] += sign * step
            moved.append(multipliers @ constraint.violations(moments_of(values, moments.weights)))
        expected[k] = (moved[0] - moved[1]) / (2 * step)
    np.testing.assert_allclose(
        constraint.pullback(moments, multipliers), expected, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize(
    "constraint", [SameDistribution(0.05), Calibrated(0.01), Calibrated(0.01, within=10)]
)
def test_every_violation_has_a_name(constraint):
    names = constraint.inequality_names(["a", "b", "c", "d"])
    assert len(names) == len(set(names)) == constraint.violations(drawn(constraint, 0)).size


@each
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_groups_does_not_matter(constraint, seed):
    moments = drawn(constraint, seed)
    order = np.random.default_rng(seed).permutation(moments.values.shape[1])
    other = moments_of(moments.values[:, order], moments.weights[:, order])
    np.testing.assert_allclose(
        np.sort(constraint.violations(other)), np.sort(constraint.violations(moments)), atol=1e-12
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    limit=st.floats(0.0, 0.5),
)
def test_figures_are_above_limits_where_something_is_violated(seed, limit):
    for constraint in (SameDistribution(limit, count=3), Calibrated(limit)):
        moments = drawn(constraint, seed)
        excess = constraint.figure(moments) - constraint.limit
        judged = getattr(constraint, "as_judged", constraint)
        assert excess == pytest.approx(judged.violations(moments).max(), abs=1e-12)
        assert (excess > 0) == (constraint.violations(moments).max() > 0)


def test_distances_of_distributions_by_hand():
    # Two groups, of one and of three quarters of the weight; everyone's share is 0.5.
    moments = moments_of([[0.8, 0.4]], [[1.0, 3.0]])
    constraint = SameDistribution(0.05, count=1)
    assert constraint.figure(moments) == pytest.approx(0.3)
    np.testing.assert_allclose(constraint.violations(moments), [0.25, -0.15, -0.35, 0.05])


def test_actual_over_expected_by_hand():
    moments = moments_of([[2.0, 4.0], [3.0, 3.0]])  # predicted, then actual
    constraint = Calibrated(0.1)
    assert constraint.figure(moments) == pytest.approx(0.5)
    by_ratio = np.array([0.4, -0.35, -0.6, 0.15])
    np.testing.assert_allclose(constraint.as_judged.violations(moments), by_ratio)
    over_actual = by_ratio * np.tile([2.0 / 3.0, 4.0 / 3.0], 2)
    np.testing.assert_allclose(constraint.violations(moments), over_actual)


def test_violations_of_calibration_are_linear_in_what_is_expected():
    """So a multiplier weighs the same on a prediction, however small that has become."""
    constraint, multipliers = Calibrated(0.1), np.array([0.3, 0.0, 0.0, 0.7])
    weights = [
        constraint.pullback(moments_of([[e, 4.0], [3.0, 3.0]]), multipliers)[0]
        for e in (1e-3, 2.0, 50.0)
    ]
    np.testing.assert_allclose(weights, np.tile([-0.3 * 1.1 / 3, 0.7 * 0.9 / 3], (3, 1)))


def test_where_nothing_is_expected_no_group_is_calibrated():
    """As in the first rounds of a model that starts from 0; it is to rise, by a finite step."""
    moments, constraint = moments_of([[0.0, 1.0], [3.0, 1.0]]), Calibrated(0.1)
    np.testing.assert_allclose(constraint.violations(moments), [1.0, -0.1, -1.0, -0.1])
    pull = constraint.pullback(moments, np.array([1.0, 0.0, 0.0, 0.0]))
    assert np.isfinite(pull).all()
    assert pull[0, 0] < 0 == pull[0, 1]
    below = moments_of([[-1.0, 1.0], [3.0, 1.0]])  # rounds may start from below 0
    assert constraint.violations(below)[0] > 1.0
    assert constraint.figure(moments) == pytest.approx(LARGEST_RATIO - 1)
    assert np.isfinite(constraint.as_judged.pullback(moments, np.ones(4))).all()
    nothing = moments_of([[0.0, 1.0], [0.0, 1.0]])  # and nothing came
    assert constraint.figure(nothing) == 0.0
    assert np.isfinite(constraint.violations(nothing)).all()


def test_a_bound_on_every_group_is_told_by_the_largest():
    constraint = EachAtMost(NUMBERS["loss"], 1_500_000.0)
    moments = moments_of([[2e6, 1e6]])
    assert constraint.figure(moments) - constraint.limit == constraint.violations(moments).max()
    words = "largest mean loss of a group by sex, at most 1500000"
    assert constraint.words("sex") == words


def test_equal_groups_violate_nothing():
    for constraint in (SameDistribution(0.0, count=2), Calibrated(0.0)):
        moments = moments_of(np.full((2, 3), 0.4))
        assert constraint.figure(moments) == pytest.approx(0.0, abs=1e-15)
        np.testing.assert_allclose(constraint.violations(moments), 0.0, atol=1e-15)


def test_levels_are_evenly_spaced_quantiles():
    np.testing.assert_allclose(levels(3), [0.25, 0.5, 0.75])
    assert [m.quantity for m in above(3)] == [FIRST_LEVEL, FIRST_LEVEL + 3, FIRST_LEVEL + 6]
    assert all(m.is_share for m in above(3))
    assert not any(m.is_share for m in NUMBERS.values())
    assert len({m.name for m in above(15)}) == 15


# What users write


@pytest.mark.parametrize("name", DEFAULTS)
def test_names(name):
    (found,) = resolve(name, 0.3, ["sex"])
    assert found.by == "sex"
    assert getattr(found, "tolerance", None) == (None if name == "bounded_group_loss" else 0.3)


@pytest.mark.parametrize(("name", "limit"), [(n, d) for n, d in DEFAULTS.items() if d])
def test_tolerances_that_are_shares_have_defaults(name, limit):
    assert by_name(name, None).limit == limit


@pytest.mark.parametrize("name", [n for n, d in DEFAULTS.items() if d is None])
def test_tolerances_in_a_unit_are_needed(name):
    with pytest.raises(ConstraintError, match="needs a tolerance in the unit of the"):
        by_name(name, None)


def test_a_bound_that_is_missing_is_not_taken_for_a_gap():
    with pytest.raises(ConstraintError, match="the largest mean loss that a group may have") as e:
        by_name("bounded_group_loss", None)
    assert "parity" not in str(e.value)


@pytest.mark.parametrize("asked", [("calibrated", 20.0), (calibrated(1.0, within=3), None)])
def test_calibration_that_allows_everything_is_refused(asked):
    with pytest.raises(ConstraintError, match="asks for next to nothing, expected less than 1"):
        resolve(*asked, ["sex"])


def test_several_constraints_and_columns():
    found = resolve(
        ["equal_means", parity("loss", 0.2), bound("prediction", 3.0)], 0.1, ["u", "v"]
    )
    assert [(c.name, c.by) for c in found] == [
        ("prediction", "u"), ("prediction", "v"), ("loss", "u"), ("loss", "v"),
        ("prediction<=3", ()),
    ]  # fmt: skip
    assert [getattr(c, "tolerance", None) for c in found] == [0.1, 0.1, 0.2, 0.2, None]
    assert resolve(None, None, []) == ()


@dataclass(frozen=True)
class OfDecisions:
    """A user's own constraint, on a rate."""

    by: str | None = None
    moments = ("fnr",)

    def violations(self, moments):
        return moments.values[0]

    def pullback(self, moments, multipliers):
        return multipliers[np.newaxis]

    def inequality_names(self, groups):
        return list(groups)


@pytest.mark.parametrize(
    ("constraint", "tolerance", "match"),
    [
        ("fnr", 0.1, "unknown constraint 'fnr'.*FairGBMClassifier"),
        ("equalized_odds", 0.1, "unknown constraint 'equalized_odds'"),
        (parity("fnr", 0.1), None, "'fnr' is a rate of decisions, and a number is predicted"),
        (bound("fpr", 0.1), None, "'fpr' is a rate of decisions"),
        ([parity("prediction", 1.0), parity("ppr", 0.1)], None, "'ppr' is a rate of decisions"),
        (OfDecisions(), None, "'fnr' is a rate of decisions"),
        (parity("actual", 0.1), None, "the same whatever is predicted.*'calibrated'"),
        (bound("actual", 0.1), None, "the same whatever is predicted"),
        (parity("prediction"), None, r"parity\('prediction'\) needs a tolerance in the unit"),
        (parity("prediction", 0.1), 0.2, "tolerance=0.2 contradicts the constraint's own, 0.1"),
        (Calibrated(0.1), 0.2, "tolerance=0.2 contradicts the constraint's own, 0.1"),
        (bound("prediction", 0.1), 0.2, "a bound has its limit in itself; leave tolerance out"),
        ("equal_distributions", 1.0, "asks for nothing: distributions are at most 1 apart"),
        ("equal_means", -1.0, "tolerance must be a number, 0 or more, found -1"),
        ("equal_means", np.nan, "tolerance must be a number, 0 or more, found nan"),
        ("equal_means", "much", "tolerance must be a number, 0 or more, found 'much'"),
        ([], None, "constraint is an empty list"),
        (5, None, "5 is not a constraint"),
    ],
)
def test_what_is_refused(constraint, tolerance, match):
    with pytest.raises(ConstraintError, match=match):
        resolve(constraint, tolerance, ["sex"])


def test_a_tolerance_beside_the_same_one_is_no_contradiction():
    (found,) = resolve(parity("prediction", 0.2), 0.2, ["sex"])
    assert found.tolerance == 0.2


# Calibration within parts of the predictions


def test_moments_of_parts_cut_everyone_into_parts():
    parts = in_parts(10)
    expected, actual = parts[:10], parts[10:]
    assert {m.kind for m in expected} == {0}
    assert {m.kind for m in actual} == {1}
    for found in (expected, actual):
        ends = [(m.low, m.high) for m in found]
        assert [low for low, _ in ends] == [0.0, *(high for _, high in ends[:-1])]
        assert ends[-1][1] == 1.0
    everything = [*NUMBERS.values(), *above(15), *parts]
    assert len({m.quantity for m in everything}) == len(everything)


@pytest.mark.parametrize("within", [None, 3])
def test_the_derivative_as_a_whole_is_made_of_pullbacks(within):
    constraint = Calibrated(0.02, within=within)
    moments = drawn(constraint, 1)
    if within:
        moments.values[[2, 5], 1] = 0.0  # a group without rows in the first part
    units = np.eye(constraint.violations(moments).size)
    expected = [constraint.pullback(moments, unit).ravel() for unit in units]
    np.testing.assert_allclose(constraint.linearized(moments).A.dense(), expected, rtol=1e-14)


def test_ratios_by_hand():
    """Two groups, two parts: A/E overall, then in each part."""
    constraint = calibrated(0.1, within=2)
    moments = moments_of([[2.0, 4.0], [2.0, 5.0], [0.5, 1.0], [1.5, 3.0], [0.4, 1.0], [1.6, 4.0]])
    away = np.array([[0.0, 0.25], [-0.2, 0.0], [1.6 / 1.5 - 1, 1 / 3]])
    expected = np.concatenate([away.ravel(), -away.ravel()]) - 0.1
    np.testing.assert_allclose(constraint.as_judged.violations(moments), expected)
    of_mean_part = np.array([[1.0, 4 / 5], [0.5, 2 / 5], [1.5, 6 / 5]])  # over what was actual
    weighed = expected.reshape(2, 3, 2) * of_mean_part
    np.testing.assert_allclose(constraint.violations(moments), weighed.ravel())
    assert constraint.figure(moments) == pytest.approx(1 / 3)
    names = constraint.inequality_names(["g=a", "g=b"])
    assert names[int(np.argmax(expected))] == "A/E[g=b, part 2 of 2] above"
    assert constraint.not_judged(moments, ["g=a", "g=b"]) == ""


def test_a_part_without_rows_asks_for_nothing_and_is_named():
    constraint = calibrated(0.1, within=2)
    moments = moments_of([[2.0, 4.0], [2.0, 4.0], [0.0, 1.0], [2.0, 3.0], [0.0, 1.0], [2.0, 3.0]])
    violations, judged = constraint.violations(moments), constraint.as_judged
    assert violations[2] == violations[8] == 0
    assert judged.violations(moments)[2] == pytest.approx(-0.1)
    assert np.isfinite(constraint.pullback(moments, np.ones(12))).all()
    assert (judged.pullback(moments, np.arange(12.0))[[2, 4], 0] == 0).all()
    assert constraint.figure(moments) == 0
    assert constraint.not_judged(moments, ["g=a", "g=b"]).startswith(
        "Without rows, and so not judged: g=a in part 1 (of 2"
    )


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter_to_ratios(seed, factor):
    constraint = calibrated(0.01, within=3)
    moments = drawn(constraint, seed)
    other = moments_of(factor * moments.values, moments.weights)
    np.testing.assert_allclose(
        constraint.violations(other), constraint.violations(moments), atol=1e-12
    )


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"within": 1}, "within must be a whole number from 2 to 100, found 1; .*10 for deciles"),
        ({"within": 10.0}, "found 10.0"),
        ({"within": True}, "found True"),
        ({"within": 101}, "found 101"),
        ({"tolerance": -0.1}, "tolerance must be a number, 0 or more, found -0.1"),
        ({"tolerance": "1%"}, "found '1%'"),
        ({"by": ["g"]}, "by must be a column name"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(given, match):
    with pytest.raises(ConstraintError, match=match):
        calibrated(**given)


def test_words_of_parts():
    assert calibrated(0.02, by="g") == Calibrated(0.02, "g")
    assert calibrated(0.02, within=np.int64(5)).words("g") == (
        "actual over expected by g within 1 ± 0.02, overall and in each of 5 equal parts of the "
        "predictions"
    )
