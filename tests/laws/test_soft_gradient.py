"""With memberships, the gradient is the derivative of a Lagrangian in which groups are shared out.

A row i of which only the probabilities P_ig of its groups are known takes part in every group's
rate by its share: constraints weigh on its positive decision (u = f - t) by::

    up_i = sum over rates of positive decisions that i counts for, sum over groups g,
           P_ig coef_g n / W_g

and on its negative one by the same sum over the other rates. It is the sign of this *net* weight
that decides between the proxy ``phi(u)`` and the bound ``1 - phi(-u)``. Constraints by columns
that go by observed groups add what they do in tests/laws/test_convex_gradient.py.
"""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent, Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import NOTHING_HELD_OUT, choose
from fairboost.fairness.constraints import columns_of, parity
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import as_rate
from fairboost.fairness.two_sided import two_sided
from tests.problems import ALL_CONSTRAINTS, at, group_moments, groups_of, rows, session

N = 160

# The sigmoid and the cross-entropy at threshold 0 are read off the loss where groups are observed.
ALL_PATHS = {
    **PROXIES,
    "sigmoid, general": Proxy("sigmoid", PROXIES["sigmoid"].evaluate),
}

SETTINGS = {
    "plain": {"threshold": 0.0, "weighted": False, "class_weight": (1.0, 1.0)},
    "weights and threshold": {"threshold": 0.7, "weighted": True, "class_weight": (1.0, 1.0)},
    "class weights": {"threshold": 0.0, "weighted": True, "class_weight": (0.5, 3.0)},
}

# Which columns go by memberships.
SOFT = {
    "g": [("g",)],
    "h": [("h",)],
    "both": [("g",), ("h",)],
    "crossed": [("g", "h")],
    "by itself and crossed": [("g",), ("g", "h")],
}
CONSTRAINTS = {
    "bound of a group": (ALL_CONSTRAINTS["bound of a group"], "g"),
    "equalized odds": (ALL_CONSTRAINTS["equalized odds"], "g"),
    "either direction": ([parity("ppr", 0.0, by="g"), parity("pnr", 0.1, by="g")], "g"),
    "one soft, one observed": (ALL_CONSTRAINTS["both directions at once"], "g"),
    "one observed, one soft": (ALL_CONSTRAINTS["both directions at once"], "h"),
    "two soft": (ALL_CONSTRAINTS["both directions at once"], "both"),
    "crossed": (ALL_CONSTRAINTS["crossed"], "crossed"),
    "given": ([parity("ppr", 0.0, by="g", given="h")], "crossed"),
    "by itself and crossed": (
        [parity("ppr", 0.0, by="g"), parity("ppr", 0.1, by=("g", "h"))],
        "by itself and crossed",
    ),
    "someone else's": (ALL_CONSTRAINTS["someone else's"], "g"),
    "everything": (ALL_CONSTRAINTS["everything"], "both"),
}


def memberships_of(by, columns, rng):
    """Random probabilities; zeros for the rows without a group."""
    groups = groups_of(parity("ppr", 0.0, by=by), columns)
    known = np.any(list(groups.values()), axis=0)
    likely = rng.dirichlet(np.full(len(groups), 0.5), len(known))
    return (likely * known[:, np.newaxis]).astype(np.float32)


def one_hot(by, columns):
    """As if everyone's group were known."""
    groups = groups_of(parity("ppr", 0.0, by=by), columns)
    return np.stack(list(groups.values()), axis=1).astype(np.float32)


class Case:
    """A Lagrangian with multipliers and rates set to something, and its restatement by rows."""

    def __init__(
        self, proxy, constraints, soft, *, threshold=0.0, weighted=False, class_weight=(1.0, 1.0),
        hold_out=None,
    ):  # fmt: skip
        rng, chance = np.random.default_rng(2), np.random.default_rng(3)
        self.y, self.columns, weight, cells = rows(seed=1, n=N, weighted=weighted)
        self.constraints = [two_sided(c) for c in constraints]
        self.proxy, self.threshold = proxy, threshold
        self.memberships = {by: memberships_of(by, self.columns, chance) for by in soft}
        held = NOTHING_HELD_OUT
        if hold_out is not None:
            held = choose(hold_out, cells, 0.0, weight, chance)
        self.folds = held.folds
        self.w = np.ones(N) if weight is None else weight.astype(float)
        self.loss_weight = self.w * np.asarray(class_weight)[self.y]
        self.lagrangian = session(
            cells,
            self.constraints,
            proxy,
            Ascent(1.0),
            holdout=held,
            convex=True,
            memberships=self.memberships,
            threshold=threshold,
            sample_weight=weight,
            label_weights=class_weight,
            dtype=np.float64,
        )
        self.f = rng.normal(0, 2, N)
        self.multipliers = rng.uniform(0.1, 1, len(self.lagrangian.game.inequalities))
        self.rates = rng.uniform(0.1, 0.9, len(self.lagrangian.game.observed))
        self.lagrangian.state = at(self.lagrangian, self.rates, self.multipliers)
        self.observed, self.shared = self.weights_on_rows()

    def weights_on_rows(self):
        """(n / W_g) coef_g by direction, of observed groups and shared out by memberships."""
        on = {kind: {+1: np.zeros(N), -1: np.zeros(N)} for kind in ("observed", "shared")}
        w = self.w
        first_rate = first_multiplier = 0
        for c in self.constraints:
            groups = groups_of(c, self.columns)
            rates = [as_rate(r) for r in c.moments]
            counts = [np.ones(N, bool) if r.label is None else self.y == r.label for r in rates]
            weights = np.array(
                [[w[count & inside].sum() for inside in groups.values()] for count in counts]
            )
            values = self.rates[first_rate:][: weights.size].reshape(weights.shape)
            known = group_moments(c, values, weights, tuple(groups))
            n_inequalities = len(c.violations(known))
            coef = c.pullback(known, self.multipliers[first_multiplier:][:n_inequalities])
            likely = self.memberships.get(columns_of(c))
            for k, rate in enumerate(rates):
                for g, inside in enumerate(groups.values()):
                    weigh = w.sum() / weights[k, g] * coef[k, g] * counts[k]
                    if likely is None:
                        on["observed"][rate.direction] += weigh * inside
                    else:
                        on["shared"][rate.direction] += weigh * likely[:, g].astype(float)
            first_rate += weights.size
            first_multiplier += n_inequalities
        return on["observed"], on["shared"]

    def value(self, f):
        """The proxy Lagrangian of each row; it has no terms across rows."""
        loss = np.where(self.y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
        u = f - self.threshold
        total = self.loss_weight * loss
        for on in (self.observed, self.shared):
            total += self.w * (self.weighed(on[+1], u) + self.weighed(on[-1], -u))
        return total

    def weighed(self, c, u):
        return np.where(c > 0, c * self.proxy.value(u), c * (1 - self.proxy.value(-u)))

    def derivative(self, step=1e-5):
        return (self.value(self.f + step) - self.value(self.f - step)) / (2 * step)

    def curvature(self):
        """The loss's own, plus the size of that of the constraints; a Hessian is not negative."""
        p = 1 / (1 + np.exp(-self.f))
        u = self.f - self.threshold
        total = self.loss_weight * p * (1 - p)
        for on in (self.observed, self.shared):
            bent = sum(
                np.abs(c) * self.proxy.curvature(np.where(c > 0, side, -side))
                for c, side in ((on[+1], u), (on[-1], -u))
            )
            total += self.w * np.abs(bent)
        return total


@pytest.fixture
def case(proxy, constraints, setting):
    chosen, soft = CONSTRAINTS[constraints]
    return Case(ALL_PATHS[proxy], chosen, SOFT[soft], **SETTINGS[setting])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("proxy", ALL_PATHS)
def test_gradient_is_the_derivative_of_the_lagrangian_of_shares(case):
    gradient, hessian = case.lagrangian.play(case.f)
    np.testing.assert_allclose(gradient, case.derivative(), atol=5e-7, rtol=1e-7)
    np.testing.assert_allclose(hessian, case.curvature(), rtol=1e-6)
    assert any(c.any() for c in case.shared.values())  # or nothing was tried


def test_the_sign_is_that_of_the_net_weight_of_a_row():
    """By hand, for rows that are of either group with probability 3/4 and 1/4.

    10 rows of each group, net multipliers +0.3 and 0: coef = 0.15 and -0.15, 20 / 10 times that
    on a member. A row that may be of either group is weighed on by 0.3 (3/4 - 1/4) = 0.15: pushed
    down if it is likely of the first group, by the slope of the hinge; up if of the second.
    """
    group = SensitiveColumn("g", np.repeat([0, 1], 10).astype(np.int32), ("a", "b"))
    cells = build_cells(np.tile([0, 1], 10).astype(np.int32), [group])
    likely = np.tile(np.array([[0.75, 0.25], [0.25, 0.75]], np.float32), (10, 1))
    lagrangian = session(
        cells,
        [two_sided(parity("ppr", 0.0, by="g"))],
        PROXIES["hinge"],
        Control(),
        convex=True,
        memberships={("g",): likely},
        dtype=np.float64,
    )
    lagrangian.state = lagrangian.game.start(np.array([0.3, 0.0, 0.0, 0.0]))
    gradient, _ = lagrangian.play(np.zeros(20))
    from_loss = np.where(np.tile([0, 1], 10) == 1, -0.5, 0.5)
    np.testing.assert_allclose(gradient - from_loss, np.tile([0.15, -0.15], 10), rtol=1e-6)


# One-hot memberships are observed groups

SAME = {
    name: constraints
    for name, constraints in ALL_CONSTRAINTS.items()
    if all(columns_of(c) for c in constraints)  # everyone's rates go by no membership
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("constraints", SAME)
@pytest.mark.parametrize("proxy", ALL_PATHS)
def test_known_groups_as_memberships_make_no_difference(proxy, constraints, setting):
    def evaluated(soft):
        case = Case(ALL_PATHS[proxy], SAME[constraints], soft, **SETTINGS[setting])
        for by in soft:
            case.memberships[by][:] = one_hot(by, case.columns)
        return [array.copy() for array in case.lagrangian.play(case.f)]

    soft = list(dict.fromkeys(columns_of(c) for c in SAME[constraints]))
    for found, expected in zip(evaluated(soft), evaluated([]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# Rows that no group's rate counts, and rows held out


@pytest.mark.parametrize("proxy", ["sigmoid", "hinge"])
def test_rows_without_a_group_are_moved_by_the_loss_alone(proxy):
    case = Case(PROXIES[proxy], [parity("ppr", 0.0, by="g")], [("g",)])
    gradient, _ = case.lagrangian.play(case.f)
    missing = case.columns[0].codes < 0
    assert missing.any()
    from_loss = 1 / (1 + np.exp(-case.f)) - case.y
    np.testing.assert_allclose(gradient[missing], from_loss[missing], rtol=1e-12)
    assert (np.abs(gradient - from_loss)[~missing] > 1e-6).mean() > 0.5


@pytest.mark.parametrize("proxy", ALL_PATHS)
def test_a_booster_that_leaves_out_a_fold_has_the_same_gradient_on_the_others(proxy):
    case = Case(ALL_PATHS[proxy], *soft_equalized_odds(), hold_out="cross")
    expected, found = case.derivative(), case.curvature()
    case.lagrangian.playing = case.lagrangian.state
    for k in range(case.folds.max() + 1):
        kept = case.folds != k
        gradient, hessian = case.lagrangian.follow(k, case.f[kept])
        np.testing.assert_allclose(gradient, expected[kept], atol=5e-7, rtol=1e-7)
        np.testing.assert_allclose(hessian, found[kept], rtol=1e-6)


def soft_equalized_odds():
    chosen, soft = CONSTRAINTS["equalized odds"]
    return chosen, SOFT[soft]


def test_memberships_move_no_rate():
    """The multipliers look at observed groups, whatever memberships say."""
    soft, hard = (Case(PROXIES["sigmoid"], soft_equalized_odds()[0], s) for s in ([("g",)], []))
    for case in (soft, hard):
        case.lagrangian.play(case.f)
    np.testing.assert_array_equal(
        soft.lagrangian.record().to_frame(), hard.lagrangian.record().to_frame()
    )
    np.testing.assert_array_equal(
        soft.lagrangian.state.dual.multipliers, hard.lagrangian.state.dual.multipliers
    )


def test_blocks_of_rows_get_the_memberships_of_their_own(monkeypatch):
    """More rows than a block holds, and several threads."""
    from fairboost.kernel import row_pass

    whole = Case(PROXIES["hinge"], *soft_equalized_odds()).lagrangian
    monkeypatch.setattr(row_pass, "BLOCK", 37)
    case = Case(PROXIES["hinge"], *soft_equalized_odds())
    assert len(case.lagrangian.game.passes.trained.blocks) == 5
    for found, expected in zip(case.lagrangian.play(case.f), whole.play(case.f), strict=True):
        np.testing.assert_array_equal(found, expected)
