"""The gradient of the convex form is the derivative of a sign-aware proxy Lagrangian.

The row of a cell is weighed ``c`` on its positive decision (u = f - t) and ``c'`` on its negative
one (u = t - f), sums over all constraints. A positive weight goes on the proxy ``phi(u)``, a
negative one on the lower bound ``1 - phi(-u)`` of the same event.
"""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent, Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import parity
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import as_rate
from fairboost.fairness.two_sided import two_sided
from tests.problems import ALL_CONSTRAINTS, MeanGap, at, group_moments, groups_of, rows, session

# The sigmoid and the cross-entropy at threshold 0 are read off the loss. A proxy of another
# identity takes the general path, so both paths are held to the same numbers.
ALL_PATHS = {
    **PROXIES,
    "sigmoid, general": Proxy("sigmoid", PROXIES["sigmoid"].evaluate),
    "cross_entropy, general": Proxy("cross_entropy", PROXIES["cross_entropy"].evaluate),
}

SETTINGS = {
    "plain": {"threshold": 0.0, "weighted": False, "class_weight": (1.0, 1.0)},
    "weights and threshold": {"threshold": 0.7, "weighted": True, "class_weight": (1.0, 1.0)},
    "class weights": {"threshold": 0.0, "weighted": True, "class_weight": (0.5, 3.0)},
}


class Case:
    """A Lagrangian with multipliers and rates set to something, and its restatement by rows."""

    def __init__(self, proxy, constraints, threshold, weighted, class_weight):
        self.y, self.columns, weight, cells = rows(seed=1, weighted=weighted)
        self.constraints = [two_sided(c) for c in constraints]
        self.proxy, self.threshold = proxy, threshold
        self.w = np.ones(len(self.y)) if weight is None else weight.astype(float)
        self.loss_weight = self.w * np.asarray(class_weight)[self.y]
        self.lagrangian = session(
            cells,
            self.constraints,
            proxy,
            Ascent(1.0),
            convex=True,
            threshold=threshold,
            sample_weight=weight,
            label_weights=class_weight,
            dtype=np.float64,
        )
        rng = np.random.default_rng(2)
        self.f = rng.normal(0, 2, len(self.y))
        self.multipliers = rng.uniform(0.1, 1, len(self.lagrangian.game.inequalities))
        self.rates = rng.uniform(0.1, 0.9, len(self.lagrangian.game.observed))
        self.lagrangian.state = at(self.lagrangian, self.rates, self.multipliers)
        self.up, self.down = self.weights_on_rows()

    def weights_on_rows(self):
        """(n / W_g) coef_g of every rate that a row counts for, by direction."""
        on = {+1: np.zeros(len(self.y)), -1: np.zeros(len(self.y))}
        first_rate = first_multiplier = 0
        for c in self.constraints:
            groups = groups_of(c, self.columns)
            members, weights, rates = [], [], [as_rate(r) for r in c.moments]
            for rate in rates:
                counts = np.ones(len(self.y), bool) if rate.label is None else self.y == rate.label
                members.append([counts & inside for inside in groups.values()])
                weights.append([self.w[m].sum() for m in members[-1]])
            shape = len(rates), len(groups)
            values = self.rates[first_rate:][: shape[0] * shape[1]].reshape(shape)
            known = group_moments(c, values, np.array(weights), tuple(groups))
            n_inequalities = len(c.violations(known))
            mine = self.multipliers[first_multiplier:][:n_inequalities]
            coef = c.pullback(known, mine)
            for k, rate in enumerate(rates):
                for g, inside in enumerate(members[k]):
                    on[rate.direction][inside] += self.w.sum() / weights[k][g] * coef[k, g]
            first_rate += shape[0] * shape[1]
            first_multiplier += n_inequalities
        return on[+1], on[-1]

    def value(self, f):
        """The proxy Lagrangian of each row; it has no terms across rows."""
        loss = np.where(self.y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
        u = f - self.threshold
        constraints = self.weighed(self.up, u) + self.weighed(self.down, -u)
        return self.loss_weight * loss + self.w * constraints

    def weighed(self, c, u):
        return np.where(c > 0, c * self.proxy.value(u), c * (1 - self.proxy.value(-u)))

    def curvature(self):
        """The loss's own, plus the size of that of the constraints; a Hessian is not negative."""
        p = 1 / (1 + np.exp(-self.f))
        u = self.f - self.threshold
        bent = sum(
            np.abs(c) * self.proxy.curvature(np.where(c > 0, side, -side))
            for c, side in ((self.up, u), (self.down, -u))
        )
        return self.loss_weight * p * (1 - p) + self.w * np.abs(bent)


@pytest.fixture
def case(proxy, constraints, setting):
    return Case(ALL_PATHS[proxy], ALL_CONSTRAINTS[constraints], **SETTINGS[setting])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("constraints", ALL_CONSTRAINTS)
@pytest.mark.parametrize("proxy", ALL_PATHS)
def test_gradient_is_the_derivative_of_the_sign_aware_lagrangian(case):
    gradient, _ = case.lagrangian.play(case.f)
    step = 1e-5
    expected = (case.value(case.f + step) - case.value(case.f - step)) / (2 * step)
    np.testing.assert_allclose(gradient, expected, atol=2e-7, rtol=1e-7)
    signs = {sign for c in (case.up, case.down) for sign in np.sign(c[c != 0])}
    assert signs == signs_of(case)  # both kinds of weight are tried


def signs_of(case):
    """A bound holds rates down, a floor holds them up, and whoever compares groups does both."""
    signs = set()
    for c in case.constraints:
        one = {"Bound": {1}, "Floor": {-1}}
        signs |= one.get(type(c).__name__, {-1, 1})
    return signs


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("constraints", ALL_CONSTRAINTS)
@pytest.mark.parametrize("proxy", ALL_PATHS)
def test_hessian_has_the_size_of_the_constraints_curvature(case):
    _, hessian = case.lagrangian.play(case.f)
    np.testing.assert_allclose(hessian, case.curvature(), rtol=1e-10)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("proxy", ["cross_entropy", "cross_entropy, general", "squared"])
def test_with_a_convex_proxy_the_problem_is_convex(proxy, setting):
    """The Hessian is then the second derivative itself, and the paper's form has it not."""
    case = Case(ALL_PATHS[proxy], ALL_CONSTRAINTS["equalized odds"], **SETTINGS[setting])
    _, hessian = case.lagrangian.play(case.f)
    step = 1e-4
    middle = case.value(case.f)
    bent = (case.value(case.f + step) - 2 * middle + case.value(case.f - step)) / step**2
    away_from_the_kink = np.abs(np.abs(case.f - case.threshold) - 1) > step
    np.testing.assert_allclose(
        hessian[away_from_the_kink], bent[away_from_the_kink], atol=1e-5, rtol=1e-5
    )
    own = case.loss_weight * np.exp(-np.logaddexp(0, case.f) - np.logaddexp(0, -case.f))
    assert (hessian >= own - 1e-12).all()


def test_a_negative_weight_on_one_decision_is_a_positive_one_on_the_other():
    """What the convex form does to coefficients, on two groups by hand.

    10 rows of each group, net multipliers +0.3 and 0: coef = 0.3 - 0.3 / 2 = 0.15 on the first
    group and -0.15 on the second, 20 / 10 times that on a row.
    """
    group = SensitiveColumn("g", np.repeat([0, 1], 10).astype(np.int32), ("a", "b"))
    cells = build_cells(np.tile([0, 1], 10).astype(np.int32), [group])
    constraints = [two_sided(parity("ppr", 0.0, by="g"))]
    lagrangian = session(cells, constraints, PROXIES["hinge"], Control(), convex=True)
    game = lagrangian.game
    coefficients = game.start(np.array([0.3, 0.0, 0.0, 0.0])).coefficients
    np.testing.assert_allclose(coefficients, [0.15, -0.15])
    up, down = game.passes._signed(game._weights(coefficients).on_cells)
    in_a = cells.groups["g"] == 0
    np.testing.assert_allclose(up, np.where(in_a, 0.3, 0.0))
    np.testing.assert_allclose(down, np.where(in_a, 0.0, 0.3))


@pytest.mark.parametrize("proxy", ["sigmoid", "cross_entropy"])
def test_coefficients_are_taken_at_the_exact_rates_of_the_round(proxy):
    """Round t + 1 descends with the multipliers that round t left, at the rates it read."""
    y, _, _, cells = rows(seed=3)
    lagrangian = session(cells, [MeanGap(0.0)], PROXIES[proxy], Ascent(5.0), convex=True)
    rng = np.random.default_rng(0)
    lagrangian.play(rng.normal(0, 2, len(y)))
    read = lagrangian.record().to_frame().filter(like="rate: ").iloc[0].to_numpy()
    state = lagrangian.state
    assert state.dual.multipliers.any()
    expected = lagrangian.game._pullbacks(read, state.dual)
    np.testing.assert_array_equal(state.coefficients, expected)
