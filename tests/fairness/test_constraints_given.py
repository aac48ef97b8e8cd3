"""``given=``: groups compared among rows that are alike in further columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from fairboost import bound, parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import bind
from fairboost.fairness.constraints import columns_of, resolve
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import SameDistribution, equal_distributions
from fairboost.fairness.numbers import resolve as resolve_numbers
from fairboost.fairness.two_sided import two_sided

PAPER = parity("ppr", 0.1, by="sex", given="risk")
KINDS = {
    "parity": PAPER,
    "two-sided": two_sided(PAPER),
    "distributions": SameDistribution(0.1, "sex", 3, ("risk",)),
}
each_kind = pytest.mark.parametrize("constraint", KINDS.values(), ids=KINDS)
NAMES = tuple((sex, risk) for sex in "FMX" for risk in ("low", "high"))
STRATA = np.array([0, 1, 0, 1, 0, 1])


def moments(values, weights=None, strata=STRATA):
    """Moments of women, men and others, each of low and of high risk."""
    values = np.array(values, np.float64)
    weights = np.ones_like(values) if weights is None else np.broadcast_to(weights, values.shape)
    return GroupMoments(values, weights, NAMES[: values.shape[1]], strata)


def draw(constraint, seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1, 5, 6)
    return moments(rng.uniform(0.1, 0.9, (len(constraint.moments), 6)), weights)


# The maths


@each_kind
@pytest.mark.parametrize("seed", range(3))
def test_pullbacks_are_derivatives(constraint, seed):
    at, step = draw(constraint, seed), 1e-6
    multipliers = np.random.default_rng(seed).uniform(size=constraint.violations(at).size)
    expected = np.zeros_like(at.values)
    for k in np.ndindex(expected.shape):
        ends = []
        for sign in (1, -1):
            values = at.values.copy()
            values[k] += sign * step
            ends.append(multipliers @ constraint.violations(moments(values, at.weights)))
        expected[k] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(constraint.pullback(at, multipliers), expected, atol=1e-8)


@each_kind
@pytest.mark.parametrize("seed", range(3))
def test_a_stratum_is_a_constraint_by_itself(constraint, seed):
    """Violations and derivatives are those of each stratum without the other."""
    at = draw(constraint, seed)
    multipliers = np.random.default_rng(seed).uniform(size=constraint.violations(at).size)
    shape = -1, 6
    found = constraint.violations(at).reshape(shape)
    coefficients = constraint.pullback(at, multipliers)
    for part in at.parts():
        alone = moments(at.values[:, part], at.weights[:, part], None)
        np.testing.assert_allclose(found[:, part].ravel(), constraint.violations(alone))
        own = multipliers.reshape(shape)[:, part].ravel()
        np.testing.assert_allclose(coefficients[:, part], constraint.pullback(alone, own))


def test_violations_by_hand():
    """Women of low risk at 0.2, men at 0.5; of high risk both at 0.9."""
    rates = GroupMoments(
        np.array([[0.2, 0.9, 0.5, 0.9]]), np.array([[3.0, 1.0, 1.0, 1.0]]), NAMES[:4], STRATA[:4]
    )
    np.testing.assert_allclose(PAPER.violations(rates), [0.2, -0.1, -0.1, -0.1])
    pooled = (3 * 0.2 + 0.5) / 4
    above = np.array([0.2 - pooled, 0.0, 0.5 - pooled, 0.0])
    room = 0.1 * np.array([1 / 4, 1 / 2, 3 / 4, 1 / 2])  # of two groups, the share of the other
    expected = np.concatenate([above - room, -above - room])
    np.testing.assert_allclose(two_sided(PAPER).violations(rates), expected)
    assert rates.gap() == pytest.approx(0.3)


def test_relative_gaps_are_shares_of_the_mean_of_their_stratum():
    """10 and 20 in one class, 1,000 and 1,010 in the other: the first are farther apart."""
    means = GroupMoments(
        np.array([[10.0, 1000.0, 20.0, 1010.0]]), np.ones((1, 4)), NAMES[:4], STRATA[:4]
    )
    asked = parity("prediction", 0.1, by="sex", given="risk", relative=True)
    found = asked.violations(means) + 0.1
    np.testing.assert_allclose(found, [10 / 15, 10 / 1005, 0, 0])


@drawn(st.lists(st.floats(0.01, 0.99), min_size=2, max_size=6), st.integers(0, 100))
def test_one_stratum_is_none(values, seed):
    weights = np.random.default_rng(seed).uniform(1, 5, len(values))
    alone = moments([values], weights, None)
    same = moments([values], weights, np.zeros(len(values), int))
    for constraint in (PAPER, two_sided(PAPER)):
        np.testing.assert_allclose(
            constraint.violations(same), constraint.violations(alone), atol=1e-12
        )


# What is asked for


def test_what_is_given_is_not_compared_unless_asked_for():
    columns = ["sex", "race", "risk"]

    def by(*constraints):
        return [(c.name, columns_of(c)) for c in resolve(list(constraints), None, columns)]

    free = parity("ppr", 0.1, given="risk")
    assert by(free) == [("ppr", ("sex", "risk")), ("ppr", ("race", "risk"))]
    assert by(free, "equal_opportunity")[2:] == [("fnr", ("sex",)), ("fnr", ("race",))]
    assert by(free, parity("fpr", 0.1, by="risk"))[2:] == [("fpr", ("risk",))]
    several = parity("ppr", 0.1, by="sex", given=("risk", "race"))
    assert by(several) == [("ppr", ("sex", "risk", "race"))]


def test_a_bound_of_a_group_is_not_ambiguous_beside_a_column_that_is_given():
    asked = [parity("ppr", 0.1, given="risk"), bound("fpr", 0.1, group="F")]
    assert resolve(asked, None, ["sex", "risk"])[1].by == ("sex",)


def test_distributions_and_means_can_be_given_a_column():
    asked = [equal_distributions(0.1, given="risk"), parity("prediction", 1.0, given="risk")]
    found = resolve_numbers(asked, None, ["sex", "risk"])
    assert [columns_of(c) for c in found] == [("sex", "risk")] * 2
    assert found[0].tolerance == 0.1


class SomeonesOwn:
    """A constraint of the user's own: the largest rate of each stratum at most twice its mean."""

    moments = ("ppr",)
    by = None
    given = "risk"

    def violations(self, moments):
        return moments.values[0] - 2 * moments.pooled()

    def pullback(self, moments, multipliers):
        (w,) = moments.weights
        mean = w / moments.total(w)
        return (multipliers - 2 * mean * moments.total(multipliers))[np.newaxis]


def test_a_constraint_of_the_users_own_can_be_given_a_column():
    (found,) = resolve(SomeonesOwn(), None, ["sex", "risk"])
    assert columns_of(found) == ("sex", "risk")
    sex, risk = np.repeat([0, 1], 6).astype(np.int32), np.tile([0, 1], 6).astype(np.int32)
    columns = [SensitiveColumn("sex", sex, ("F", "M")), SensitiveColumn("risk", risk, ("a", "b"))]
    term = bind(found, build_cells(np.zeros(12, np.int32), columns))
    assert term.strata.tolist() == [0, 1, 0, 1]
    values = np.array([0.1, 0.5, 0.9, 0.5])
    assert found.violations(term.read(values)) == pytest.approx([-0.9, -0.5, -0.1, -0.5])


WRONG = {
    "no text": ({"given": 3}, "given must be a column name or a tuple of names, found 3"),
    "a list": ({"given": ["risk"]}, r"found \['risk'\]"),
    "none of a tuple": ({"given": ()}, r"found \(\)"),
    "as by": ({"given": "sex"}, "name 'sex' twice"),
    "among by": ({"by": ("sex", "risk"), "given": "risk"}, "name 'risk' twice"),
    "twice": ({"given": ("risk", "risk")}, "name 'risk' twice"),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_given(asked, message):
    with pytest.raises(ConstraintError, match=message):
        parity("ppr", 0.1, **{"by": "sex", **asked})
    with pytest.raises(ConstraintError, match=message):
        equal_distributions(0.1, **{"by": "sex", **asked})


def test_columns_that_are_not_there():
    with pytest.raises(ConstraintError, match=r"'risk', which is not among .* or given="):
        resolve(parity("ppr", 0.1, given="risk"), None, ["sex"])
    with pytest.raises(ConstraintError, match=r"given names every sensitive column \('risk'\)"):
        resolve(parity("ppr", 0.1, given="risk"), None, ["risk"])


@pytest.mark.parametrize("make", [parity, bound])
def test_what_was_actual_is_not_offered(make):
    """It cannot be constrained: it is the same whatever is predicted."""
    with pytest.raises(
        ConstraintError, match="where a number is predicted, one of prediction, lo"
    ):
        make("rmse", 0.1)


def test_a_tolerance_of_distributions_is_a_share():
    with pytest.raises(ConstraintError, match=r"tolerance must lie in \[0, 1\), found 5"):
        equal_distributions(5)
