"""Groups that rows belong to by weights: rates, derivative and equality with observed groups."""

import numpy as np
import pytest
from scipy.special import expit

from fairboost.algorithm.multipliers import Ascent
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import as_rate
from fairboost.fairness.two_sided import two_sided
from tests.problems import at, group_moments, session

N = 120
MEMBERS = {
    "probabilities": lambda rng: rng.dirichlet([0.5, 0.5, 0.5], N),
    "less than one": lambda rng: rng.dirichlet([0.5, 0.5, 0.5, 0.5], N)[:, :3],
    "corrected": lambda rng: rng.dirichlet([2, 2, 2], N) @ np.array(
        [[1.4, -0.2, -0.2], [-0.2, 1.4, -0.2], [-0.2, -0.2, 1.4]]
    ),
}  # fmt: skip
CONSTRAINTS = {
    "fnr": [parity("fnr", 0.01, by="g")],
    "odds": [parity("fpr", 0.0, by="g"), parity("fnr", 0.02, by="g")],
    "shares": [parity("ppr", 0.0, by="g"), parity("pnr", 0.0, by="h")],
    "a bound": [bound("tpr", 0.2, group={"g": "b"})],
}


class SharedProblem:
    """Rows that belong to groups by weights, restated row by row."""

    def __init__(self, members, constraints, weighted, held_out=None):
        rng = np.random.default_rng(5)
        self.y = (np.arange(N) % 2).astype(np.int32)
        self.m = MEMBERS[members](rng).astype(np.float32)
        self.h = (np.arange(N) // 2 % 2).astype(np.int32)
        weight = rng.uniform(0.5, 2.0, N).astype(np.float32) if weighted else None
        self.w = np.ones(N) if weight is None else weight.astype(float)
        shared = SensitiveColumn("g", np.full(N, -1, np.int8), ("a", "b", "c"), self.m)
        hard = SensitiveColumn("h", self.h, (0, 1))
        cells = build_cells(self.y, [shared, hard], weight)
        self.constraints = [two_sided(c) for c in CONSTRAINTS[constraints]]
        holdout = {}
        if held_out is not None:
            holdout = {"holdout": choose(held_out, cells, 0.0, weight, rng)}
        of_g = cells.members_of(cells.groups_by(("g",)))
        self.session = session(
            cells, self.constraints, PROXIES["sigmoid"], Ascent(1.0), convex=True,
            memberships={("g",): of_g}, sample_weight=weight, dtype=np.float64, **holdout,
        )  # fmt: skip
        self.f = rng.normal(0, 1.5, N)

    def members_of(self, c):
        by = c.by if isinstance(c.by, str) else c.by[0]
        return self.m.astype(float) if by == "g" else np.eye(2)[self.h]

    def moments(self, c, event):
        """Rates of a constraint, given the event "positive" of each row, exact or smooth."""
        (rate,) = map(as_rate, c.moments)
        counts = np.ones(N, bool) if rate.label is None else self.y == rate.label
        happened = event if rate.direction > 0 else 1 - event
        m = self.members_of(c) * (self.w * counts)[:, None]
        names = tuple((v,) for v in ("a", "b", "c")) if m.shape[1] == 3 else ((0,), (1,))
        values = (happened @ m / m.sum(axis=0))[None]
        return group_moments(c, values, m.sum(axis=0)[None], names)

    def value(self, f, multipliers):
        """n times the proxy Lagrangian."""
        loss = np.where(self.y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
        total, first = self.w @ loss, 0
        for c in self.constraints:
            v = c.violations(self.moments(c, expit(f)))
            total += self.w.sum() * multipliers[first : first + len(v)] @ v
            first += len(v)
        return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("members", MEMBERS)
def test_the_gradient_is_the_derivative_by_finite_differences(members, constraints, weighted):
    problem = SharedProblem(members, constraints, weighted)
    game, f = problem.session.game, problem.f
    rng = np.random.default_rng(0)
    multipliers = rng.uniform(0.1, 1, len(game.inequalities))
    problem.session.state = at(problem.session, np.full(len(game.observed), 0.5), multipliers)
    gradient, _ = problem.session.play(f)
    step = 1e-5
    numeric = [
        (problem.value(f + step * e, multipliers) - problem.value(f - step * e, multipliers))
        / (2 * step)
        for e in np.eye(N)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("members", MEMBERS)
def test_measured_rates_are_those_of_the_definition(members):
    problem = SharedProblem(members, "odds", True)
    problem.session.play(problem.f)
    positive = (problem.f >= 0).astype(float)
    expected = [problem.moments(c, positive).values.ravel() for c in problem.constraints]
    expected = np.clip(np.concatenate(expected), 0, 1)
    np.testing.assert_allclose(problem.session.rounds[0].moments, expected, atol=1e-6)


@pytest.mark.parametrize("how", ["cross", 0.3])
def test_rows_held_out_are_held_out_of_every_group_evenly(how):
    problem = SharedProblem("probabilities", "fnr", False, how)
    holdout = problem.session.game.layout.holdout
    nearest = problem.m.argmax(axis=1) * 2 + problem.y
    counts = [np.bincount(holdout.folds[nearest == k], minlength=2) for k in range(6)]
    share = 0.2 if how == "cross" else None
    for found in counts:
        if share is not None:
            assert np.ptp(found) <= 1
        elif found.sum() > 6:
            assert 0 < found[1] < found.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_zero_and_one_are_observed_groups(weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, N).astype(np.int32)
    y = (np.arange(N) % 2).astype(np.int32)
    weight = rng.uniform(0.5, 2.0, N).astype(np.float32) if weighted else None
    members = np.vstack([np.eye(3), np.zeros(3)])[codes].astype(np.float32)
    values = ("a", "b", "c")
    hard = build_cells(y, [SensitiveColumn("g", codes, values)], weight)
    shared = SensitiveColumn("g", np.full(N, -1, np.int8), values, members)
    soft = build_cells(y, [shared], weight)
    constraints = [two_sided(parity(r, 0.01, by="g")) for r in ("fnr", "ppr")]
    f = rng.normal(0, 1, N)
    found = []
    for cells, known in ((hard, {}), (soft, {("g",): members})):
        game = session(
            cells, constraints, PROXIES["sigmoid"], Ascent(1.0), convex=True, memberships=known,
            sample_weight=weight, dtype=np.float64,
        )  # fmt: skip
        game.play(f)
        gradient, hessian = (a.copy() for a in game.play(f))
        found.append((gradient, hessian, game.rounds[1].moments, game.rounds[1].aimed))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
