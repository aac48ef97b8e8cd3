import pickle

import numpy as np
import pytest

from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import Constraint, bound, parity, resolve
from fairboost.fairness.moments import GroupMoments
from tests.problems import MeanGap


def rates(*values, groups=None):
    table = np.array([values], float)
    names = groups or tuple((k,) for k in range(len(values)))
    return GroupMoments(table, np.ones_like(table), names)


def test_parity_by_hand():
    constraint = parity("fnr", 0.05, by="g")
    r = rates(0.2, 0.5, 0.4)
    np.testing.assert_allclose(constraint.violations(r), [0.25, -0.05, 0.05])
    # Group 1 is the largest: it carries the multipliers of the others.
    np.testing.assert_allclose(constraint.pullback(r, np.array([1.0, 2.0, 4.0])), [[-1, 5, -4]])


def test_parity_coefficients_sum_to_zero():
    """Raising all rates alike changes nothing, so the derivative along that direction is zero."""
    coef = parity("ppr", 0.0).pullback(rates(0.3, 0.1, 0.7, 0.7), np.arange(4.0))
    assert coef.sum() == 0


def test_groups_that_tie_for_the_largest_rate_share_the_derivative():
    found = parity("fnr", 0.0).pullback(rates(0.5, 0.2, 0.5), np.array([0.0, 3.0, 1.0]))
    np.testing.assert_allclose(found, [[2.0, -3.0, 1.0]])
    parity("fnr", 0.0).pullback(rates(np.nan, np.nan), np.ones(2))  # without a warning


def test_bound_by_hand():
    constraint = bound("fpr", 0.05)
    r = rates(0.08, groups=((),))
    np.testing.assert_allclose(constraint.violations(r), [0.03])
    np.testing.assert_allclose(constraint.pullback(r, np.array([2.0])), [[2.0]])


def test_bound_of_a_group_touches_that_group_only():
    constraint = bound("fnr", 0.3, group={"sex": "F", "race": "B"})
    r = rates(0.5, 0.2, groups=(("F", "B"), ("M", "B")))
    np.testing.assert_allclose(constraint.violations(r), [0.2])
    np.testing.assert_allclose(constraint.pullback(r, np.array([3.0])), [[3.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("equal_opportunity", ["fnr"]),
        ("predictive_equality", ["fpr"]),
        ("equalized_odds", ["fpr", "fnr"]),
        ("demographic_parity", ["ppr"]),
    ],
)
def test_names(name, expected):
    found = resolve(name, 0.03, ["sex"])
    assert [c.name for c in found] == expected
    assert all(c.tolerance == 0.03 and c.by == "sex" for c in found)


def test_a_constraint_without_columns_is_on_each_column_by_itself():
    found = resolve([parity("fnr", 0.02), MeanGap()], None, ["sex", "g"])
    assert [c.by for c in found] == ["sex", "g", "g"]
    crossed = resolve(parity("fnr", by=("sex", "race")), 0.01, ["sex", "race"])
    assert [c.by for c in crossed] == [("sex", "race")]


def test_someone_elses_constraint_is_placed_too():
    anywhere = MeanGap()
    anywhere.by = None
    first, second = resolve(anywhere, 0.0, ["a", "b"])
    assert (first.by, second.by, first.name) == ("a", "b", "mean_gap")
    assert isinstance(first, Constraint) and first.moments == ("fpr", "tpr")
    r = GroupMoments(np.array([[0.1, 0.3], [0.2, 0.2]]), np.ones((2, 2)), ((0,), (1,)))
    np.testing.assert_allclose(first.violations(r), anywhere.violations(r))
    np.testing.assert_allclose(first.pullback(r, np.ones(2)), anywhere.pullback(r, np.ones(2)))


def test_a_bound_on_a_group_finds_the_only_column():
    (found,) = resolve(bound("fpr", 0.1, group="F"), None, ["sex"])
    assert found.by == ("sex",)


@pytest.mark.parametrize("tolerance", [-0.01, 1.0, 5, float("nan"), "0.1", True])
def test_tolerance_outside_its_range(tolerance):
    with pytest.raises(ConstraintError, match=r"tolerance must lie in \[0, 1\), found"):
        parity("fnr", tolerance)


@pytest.mark.parametrize("at_most", [0, 1, -0.1, 5, float("nan"), "5%"])
def test_bound_outside_its_range(at_most):
    with pytest.raises(ConstraintError, match=r"at_most of a bound must lie in \(0, 1\)"):
        bound("fpr", at_most)


@pytest.mark.parametrize(
    ("constraint", "columns", "message"),
    [
        ("demographic_partiy", ["s"], "unknown constraint 'demographic_partiy'; expected one of"),
        (3, ["s"], "3 is not a constraint"),
        (parity, ["s"], "is not a constraint"),
        ([], ["s"], "empty list"),
        ("equal_opportunity", [], "sensitive_features is missing"),
        (
            bound("fpr", 0.1, group="F"),
            ["sex", "race"],
            "ambiguous: there are 2 sensitive columns",
        ),
    ],
)
def test_bad_constraints(constraint, columns, message):
    with pytest.raises(ConstraintError, match=message):
        resolve(constraint, 0.01, columns)


@pytest.mark.parametrize("by", [["sex", "race"], (), 3])
def test_columns_are_a_name_or_a_tuple_to_cross(by):
    """A list could mean side by side or crossed, so it is refused."""
    with pytest.raises(
        ConstraintError, match="by must be a column name or a tuple of names to cross"
    ):
        parity("fnr", 0.01, by=by)


def test_unknown_rate():
    with pytest.raises(ConstraintError, match="unknown rate 'fdr'; expected one of fpr, fnr"):
        parity("fdr", 0.1)
    with pytest.raises(ConstraintError, match="unknown rate 3"):
        bound(3, 0.1)


def test_no_constraint_resolves_to_nothing():
    assert resolve(None, 0.01, []) == ()


class Older:
    """Names what it reads as ``rates``, and its violations itself."""

    rates, by = ("ppr",), None

    def violations(self, moments):
        return moments.values[0] - 0.5

    def pullback(self, moments, multipliers):
        return multipliers[np.newaxis]

    def inequality_names(self, groups):
        return [f"half of {g}" for g in groups]


def test_rates_may_stand_for_moments():
    (found,) = resolve(Older(), 0.0, ["sex"])
    assert isinstance(found, Constraint)
    assert (found.moments, found.by, found.name) == (("ppr",), "sex", "Older")
    assert found.inequality_names(["a"]) == ["half of a"]
    assert pickle.loads(pickle.dumps(found)).by == "sex"


@pytest.mark.parametrize("missing", ["by", "violations", "pullback"])
def test_an_older_constraint_must_be_whole(missing):
    parts = {k: v for k, v in vars(Older).items() if not k.startswith("__") and k != missing}
    with pytest.raises(ConstraintError, match="is not a constraint; expected"):
        resolve(type("Half", (), parts)(), 0.0, ["sex"])


def test_one_name_is_a_tuple_of_one():
    class One(Older):
        moments = "ppr"

    with pytest.raises(ConstraintError, match=r"must be a tuple of names, .* write \('ppr',\)"):
        resolve(One(), 0.0, ["sex"])


@pytest.mark.parametrize(
    ("constraint", "tolerance", "expected"),
    [
        (parity("fnr"), None, [0.01]),
        (parity("fnr"), 0.1, [0.1]),
        (parity("fnr", 0.1), None, [0.1]),
        (parity("fnr", 0.1), 0.1, [0.1]),
        ([parity("fnr"), parity("fpr", 0.2)], 0.1, [0.1, 0.2]),
        (["equal_opportunity", parity("fpr", 0.2)], 0.1, [0.1, 0.2]),
    ],
)
def test_a_tolerance_is_for_the_constraints_without_one_of_their_own(
    constraint, tolerance, expected
):
    assert [c.tolerance for c in resolve(constraint, tolerance, ["sex"])] == expected


def test_a_tolerance_that_no_constraint_would_use_is_refused():
    with pytest.raises(ConstraintError, match=r"tolerance=0\.1 contradicts parity\(\.\.\., 0\.05"):
        resolve(parity("fnr", 0.05), 0.1, ["sex"])


def test_a_tolerance_beside_bounds_alone_is_refused():
    with pytest.raises(ConstraintError, match=r"tolerance=0.1 is for constraints that compare"):
        resolve([bound("fnr", 0.3)], 0.1, ["sex"])
    assert len(resolve([bound("fnr", 0.3), parity("fpr")], 0.1, ["sex"])) == 2
