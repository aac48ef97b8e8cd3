"""What is known beforehand of inequalities: sampling errors, margins, units of multipliers."""

import numpy as np
import pytest
from scipy.stats import norm

from fairboost.cells import SensitiveColumn, build_cells
from fairboost.constraints import bound, parity
from fairboost.lagrangian import Lagrangian
from fairboost.multipliers import Control, DualState, start
from fairboost.proxies import PROXIES
from fairboost.two_sided import two_sided
from tests.problems import MeanGap, without_margin

N = 900


class Spy:
    """A player that writes down what it is told, and does not move."""

    def __init__(self):
        self.violations, self.units = [], []

    def step(self, state: DualState, violations, units):
        self.violations.append(violations)
        self.units.append(units)
        return state


@pytest.fixture
def data():
    """Groups of 600, 240 and 60 rows, with every second row positive."""
    group = np.repeat([0, 1, 2], [600, 240, 60]).astype(np.int32)
    y = np.tile([0, 1], N // 2).astype(np.int32)
    rng = np.random.default_rng(0)
    f = rng.normal(0.3 * group, 1.0)
    return y, SensitiveColumn("g", group, ("a", "b", "c")), f, rng.gamma(2.0, size=N)


def look(y, column, f, constraints, weight=None, **options):
    """What a player is told about a round on these scores, next to the trace."""
    spy = Spy()
    weight = None if weight is None else weight.astype(np.float32)
    lagrangian = Lagrangian(
        build_cells(y, [column], weight), constraints, PROXIES["sigmoid"], spy,
        convex=True, sample_weight=weight, **options,
    )  # fmt: skip
    lagrangian(f)
    recorded = lagrangian.trace.to_frame().iloc[0]
    return spy.violations[0], recorded.filter(like="violation: ").to_numpy(), spy.units[0]


def errors_by_hand(y, column, f, weight):
    """Of the distance of each group's FNR to the pooled one, from rates that are independent.

    With pi the groups' shares, the distance of group g is sum_h ([h = g] - pi_h) R_h, and R_h has
    variance R_h (1 - R_h) / n_h; n_h is Kish's effective number of rows, (sum w)^2 / sum w^2.
    """
    w = np.ones(N) if weight is None else weight.astype(np.float32).astype(float)
    mine = [(column.codes == g) & (y == 1) for g in range(3)]
    rates = np.array([np.average(f[m] < 0, weights=w[m]) for m in mine])
    effective = np.array([w[m].sum() ** 2 / (w[m] ** 2).sum() for m in mine])
    shares = np.array([w[m].sum() for m in mine]) / sum(w[m].sum() for m in mine)
    jacobian = np.eye(3) - shares
    one_side = np.sqrt(jacobian**2 @ (rates * (1 - rates) / effective))
    return np.tile(one_side, 2)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_confidence_adds_what_a_violation_may_be_larger_on_all_people(data, confidence, weighted):
    """All six inequalities at once, by Bonferroni."""
    y, column, f, weight = data
    weight = weight if weighted else None
    constraints = [two_sided(parity("fnr", 0.9, by="g"))]
    told, exact, _ = look(y, column, f, constraints, weight, confidence=confidence)
    z = norm.ppf(1 - (1 - confidence) / 6)
    np.testing.assert_allclose(told - exact, z * errors_by_hand(y, column, f, weight), rtol=1e-9)


def test_the_margin_goes_all_the_way_to_parity_and_no_further(data):
    """Beyond it the two sides of a group would pull against each other."""
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.02, by="g"))]
    told, exact, _ = look(y, column, f, constraints, confidence=0.99)
    np.testing.assert_allclose(told - exact, 0.01, rtol=1e-9)
    above, below = np.split(told, 2)
    np.testing.assert_allclose(above, -below, atol=1e-12)


def test_a_bound_has_a_margin_of_its_own(data):
    y, column, f, _ = data
    told, exact, _ = look(y, column, f, [bound("fpr", 0.3)], confidence=0.95)
    rate = (f[y == 0] >= 0).mean()
    expected = norm.ppf(0.95) * np.sqrt(rate * (1 - rate) / (N / 2))
    np.testing.assert_allclose(told - exact, [expected], rtol=1e-9)


def test_a_rate_of_zero_is_not_known_exactly(data):
    """As if half a row had differed."""
    y, column, _, _ = data
    told, exact, _ = look(y, column, np.full(N, -5.0), [bound("fpr", 0.3)], confidence=0.95)
    low = 0.5 / (N / 2 + 1)
    expected = norm.ppf(0.95) * np.sqrt(low * (1 - low) / (N / 2))
    np.testing.assert_allclose(told - exact, [expected], rtol=1e-9)


def test_the_trace_shows_violations_without_margins(data):
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.1, by="g"))]
    _, cautious, _ = look(y, column, f, constraints, confidence=0.99)
    _, plain, _ = look(y, column, f, constraints)
    np.testing.assert_array_equal(cautious, plain)


# Units


def test_the_unit_is_the_weight_of_a_row_and_the_size_of_the_rate(data):
    """By hand, for demographic parity of groups with shares 2/3, 4/15 and 1/15.

    A multiplier of 1 on group g puts (n / W_g) (1 - pi_g) on its rows, and n / W_h pi_h = 1 on
    those of others. The rate's own size is 2 sqrt(R (1 - R)), a mean by the same derivative.
    """
    y, column, f, _ = data
    _, _, units = look(y, column, f, [two_sided(parity("ppr", 0.0, by="g"))])
    pi = np.array([600, 240, 60]) / N
    rates = np.array([(f[column.codes == g] >= 0).mean() for g in range(3)])
    jacobian = np.abs(np.eye(3) - pi)
    on_row = (jacobian / pi).max(axis=1)
    np.testing.assert_allclose(on_row, [1.0, 1 / pi[1] - 1, 1 / pi[2] - 1])
    size = jacobian @ (2 * np.sqrt(rates * (1 - rates))) / jacobian.sum(axis=1)
    np.testing.assert_allclose(units, np.tile(1 / (on_row * size), 2))


def test_rare_rates_have_larger_units_up_to_a_limit(data):
    """The same change of scores moves them less; 0.2% is as rare as rates are taken for."""
    y, column, _, _ = data
    negatives = np.flatnonzero(y == 0)

    def unit(n_positive):
        f = np.full(N, -1.0)
        f[negatives[:n_positive]] = 1.0
        return look(y, column, f, [bound("fpr", 0.3)])[2][0]

    at_half = unit(N // 4)
    assert unit(N // 40) / at_half == pytest.approx(0.5 / np.sqrt(22 / 450 * 428 / 450), rel=1e-9)
    assert unit(0) / at_half == pytest.approx(0.5 / np.sqrt(0.002), rel=1e-9)


def test_a_constraint_that_is_flat_at_parity_is_not_ignored(data):
    """The variance of rates has no derivative where rates are equal; its multipliers must move."""
    y, column, f, _ = data
    lagrangian = Lagrangian(
        build_cells(y, [column]), [MeanGap(0.0)], PROXIES["sigmoid"], Control(), convex=True
    )
    without_margin(lagrangian)
    f = f - 2 * column.codes  # the groups are far apart
    for _ in range(3):
        lagrangian(f)
    violations = lagrangian.trace.to_frame().filter(like="violation: ").iloc[-1]
    assert (violations > 0.02).all()
    assert (lagrangian.dual.multipliers > 0).all()


def test_the_spy_is_told_what_control_would_be(data):
    """The tests above look at what moves the multipliers."""
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.1, by="g"))]
    told, _, units = look(y, column, f, constraints, confidence=0.9)
    lagrangian = Lagrangian(
        build_cells(y, [column]), constraints, PROXIES["sigmoid"], Control(),
        convex=True, confidence=0.9,
    )  # fmt: skip
    lagrangian(f)
    expected = Control().step(start(6), told, units).multipliers
    np.testing.assert_array_equal(lagrangian.dual.multipliers, expected)
