"""A second task through the real game: what the seam is worth, with nothing binary in sight.

Two columns of scores, a squared loss, and moments that are mean predictions of either column. The
engine is a fake: rows that share a key share scores, moved by Newton steps, as trees would move
them that can tell all keys apart. The answer is known: under "equal means of column 0 across
groups", with squared loss, the best scores are the plain means less what the group is apart from
the pooled mean; column 1 is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Ascent, Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import Bound
from fairboost.fairness.two_sided import TwoSided
from fairboost.tasks.base import Measured, Slopes
from fairboost.tasks.layout import lay_out

N = 400
STEADY = Control(gain=0.1, damping=0.5)  # the fake engine takes larger steps than trees do


@dataclass(frozen=True)
class MeanOf:
    """Mean prediction of one column of scores."""

    quantity: int
    label: None = None

    @property
    def name(self):
        return f"mean{self.quantity}"

    title = "mean prediction"

    def counts(self, labels):
        return np.ones(labels.shape, bool)


@dataclass(frozen=True)
class TwoMeans:
    """Two numbers to predict; ``y`` is (n, 2), of the rows trained on and of those measured."""

    y: np.ndarray
    y_measured: np.ndarray

    n_quantities = 2
    least_deviation = 1.0
    full_answer, least_answer = 0.0, 0.02
    says_of_the_kept = False
    groups_pull_as_one = False
    cut_moves = False

    def on(self, layout, needs):
        return TwoMeansPasses(self, layout)

    def sums_of(self, sums, total):
        return sums[:2]

    def squares_of(self, sums, total):
        return sums[2:]

    def exact(self, moments):
        return moments

    def variances(self, moments, squares, rows):
        return np.maximum(squares - moments**2, 0.0)

    def deviations(self, moments, squares, quantities):
        return np.ones_like(moments)  # a step of the scores moves their mean by as much

    def stiffness(self, cut):
        return 1.0


@dataclass(frozen=True)
class TwoMeansPasses:
    task: TwoMeans
    layout: object

    def start(self):
        return None

    def place(self, scores, cut):
        return None

    def measure(self, scores, cut):
        codes, n_cells = self.layout.measured.codes, len(self.layout.measured)
        values = np.concatenate([scores, scores**2], axis=1).T
        sums = np.stack([np.bincount(codes, v, n_cells) for v in values])
        return Measured(sums, float(((scores - self.task.y_measured) ** 2).sum() / 2))

    def loss(self, scores, cut):
        return float(((scores - self.task.y) ** 2).sum() / 2)

    def descend(self, scores, cut, weights):
        return self._descend(self.layout.cells.codes, scores, weights)

    def descend_without(self, fold, scores, cut, weights):
        kept = self.layout.holdout.folds != fold
        return self._descend(self.layout.cells.codes[kept], scores, weights, kept)

    def descend_and_sum(self, scores, cut, weights):
        codes, n_cells = self.layout.cells.codes, len(self.layout.cells)
        slopes = self._descend(codes, scores, weights)
        smooth = np.stack([np.bincount(codes, column, n_cells) for column in scores.T])
        measured = self.measure(scores, cut) if self.layout.holdout.measured is None else None
        return Slopes(slopes.gradient, slopes.hessian, slopes.loss, smooth, measured)

    def corrected(self, slopes, weights):
        return None

    def figures(self, sums, cut):
        return {"mean square": float(sums[2:].sum() / self.layout.measured.total_weight)}

    def summary(self):
        return self

    def shown_figures(self, held_out):
        return ["mean square"]

    def _descend(self, codes, scores, weights, which=slice(None)):
        # The mean prediction has slope 1 and no curvature: a linear moment is its own proxy.
        gradient = scores - self.task.y[which] + weights.on_cells[:, codes].T
        loss = float(((scores - self.task.y[which]) ** 2).sum() / 2)
        return Slopes(gradient, np.ones_like(gradient), loss)


@pytest.fixture
def rows():
    """Two groups apart by 1 in column 0 and by 2 in column 1; keys are groups."""
    rng = np.random.default_rng(0)
    group = (rng.random(N) < 0.3).astype(np.int32)
    y = rng.normal(size=(N, 2)) * 0.5 + np.outer(group, [1.0, 2.0])
    column = SensitiveColumn("g", group, ("a", "b"))
    return y, group, build_cells(np.zeros(N, np.int32), [column])


def boost(session, keys, rounds, to_measure=None, rate=0.3):
    """A fake engine: a step per key and column; it knows nothing of constraints."""
    scores = np.zeros((len(keys), 2))
    for _ in range(rounds):
        held_out = None if to_measure is None else to_measure(scores)
        gradient, hessian = session.play(scores, held_out)
        steps = [np.bincount(keys, g) / np.bincount(keys, h)
                 for g, h in zip(gradient.T, hessian.T, strict=True)]  # fmt: skip
        scores = scores - rate * np.stack([step[keys] for step in steps], axis=1)
    session.finish(scores, None if to_measure is None else to_measure(scores))
    return scores


def by_group(values, group):
    return np.stack([values[group == g].mean(axis=0) for g in (0, 1)])


@pytest.mark.parametrize("convex", [True, False], ids=["default game", "paper's game"])
def test_equal_means_of_one_column_leave_the_other_alone(rows, convex):
    y, group, cells = rows
    layout = lay_out(cells, [TwoSided(MeanOf(0), 0.0, "g")])
    player = STEADY if convex else Ascent(0.05)
    session = Session(Game(TwoMeans(y, y), layout, player, convex))
    scores = boost(session, group, 2_000)
    means = by_group(scores, group)
    np.testing.assert_allclose(means[:, 0], y[:, 0].mean(), atol=1e-6)
    np.testing.assert_allclose(means[:, 1], by_group(y, group)[:, 1], atol=1e-6)
    # The multipliers are those of the exact solution: gradient 0 at the pooled mean.
    net = np.subtract(*np.split(session.state.dual.multipliers, 2))
    weight = np.bincount(group) / N
    pull = (net - weight * net.sum()) / weight
    np.testing.assert_allclose(pull, by_group(y, group)[:, 0] - y[:, 0].mean(), atol=1e-5)


def test_a_bound_on_a_mean_binds_where_it_is_broken(rows):
    y, group, cells = rows
    bounds = [Bound(MeanOf(1), 1.5, ("g",), ("b",)), Bound(MeanOf(1), 9.0, ("g",), ("a",))]
    session = Session(Game(TwoMeans(y, y), lay_out(cells, bounds), Ascent(0.05)))
    means = by_group(boost(session, group, 2_000), group)
    assert means[1, 1] == pytest.approx(1.5, abs=1e-6)
    assert means[0, 1] == pytest.approx(y[group == 0, 1].mean(), abs=1e-6)
    used, unused = session.state.dual.multipliers
    assert used > 0 and unused == 0


def test_without_constraints_it_is_least_squares(rows):
    y, group, cells = rows
    session = Session(Game(TwoMeans(y, y), lay_out(cells, []), Control(), convex=True))
    np.testing.assert_allclose(
        by_group(boost(session, group, 200), group), by_group(y, group), atol=1e-9
    )


def test_moments_are_measured_on_the_rows_held_out(rows):
    """Held-out scores of the fake engine: those of the key, as a model of the group would give."""
    y, group, cells = rows
    held = choose(0.4, cells, 0.0, None, np.random.default_rng(1))
    at = held.folds == 1
    layout = lay_out(cells.among(~at), [TwoSided(MeanOf(0), 0.0, "g")], held)
    session = Session(Game(TwoMeans(y[~at], y[at]), layout, STEADY, convex=True))

    def of_held_out(scores):
        return by_group(scores, group[~at])[group[at]]

    scores = boost(session, group[~at], 2_000, of_held_out)
    record = session.record()
    found = record.iterates[-1].moments
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found, by_group(scores, group[~at])[:, 0], atol=1e-9)
    # Margins follow from the task's own deviations: within a group all scores are equal here.
    np.testing.assert_allclose(record.iterates[-1].errors, 0.0, atol=1e-6)


def test_errors_are_those_of_a_mean(rows):
    y, group, cells = rows
    session = Session(Game(TwoMeans(y, y), lay_out(cells, [TwoSided(MeanOf(0), 0.1, "g")]),
                           Control(), convex=True))  # fmt: skip
    session.play(y)  # scores that vary within groups
    pi = np.bincount(group) / N
    variance = np.array([y[group == g, 0].var() / (group == g).sum() for g in (0, 1)])
    one_side = np.sqrt((np.eye(2) - pi) ** 2 @ variance)
    np.testing.assert_allclose(session.rounds[0].errors, np.tile(one_side, 2), rtol=1e-9)


def test_folds_and_the_trace_know_no_task(rows):
    y, _, cells = rows
    held = choose("cross", cells, 0.0, None, np.random.default_rng(0))
    layout = lay_out(cells, [TwoSided(MeanOf(0), 0.1, "g")], held)
    session = Session(Game(TwoMeans(y, y), layout, Control(), convex=True))
    expected = session.play(np.zeros((N, 2)), np.ones((N, 2)))
    kept = held.folds != 2
    found = session.follow(2, np.zeros((kept.sum(), 2)))
    for theirs, ours in zip(found, expected, strict=True):
        np.testing.assert_array_equal(theirs, ours[kept])
    frame = session.record().to_frame()
    assert frame.columns.tolist()[:6] == [
        "round", "loss", "held-out loss", "mean square", "rate: mean0[g=a]", "rate: mean0[g=b]",
    ]  # fmt: skip
    assert frame["rate: mean0[g=a]"].tolist() == [1.0]
    assert frame["mean square"].tolist() == [2.0]


def test_gradient_is_the_derivative_of_the_lagrangian(rows):
    """Finite differences of loss plus multipliers times violations, through the game's weights."""
    y, _, cells = rows
    constraint = TwoSided(MeanOf(0), 0.1, "g")
    layout = lay_out(cells, [constraint])
    game = Game(TwoMeans(y, y), layout, Control(), convex=True)
    multipliers = np.array([0.3, 0.0, 0.1, 0.7])
    session = Session(game, game.start(multipliers))
    rng = np.random.default_rng(2)
    f = rng.normal(size=(N, 2))
    gradient = session.play(f)[0].copy()
    (term,) = layout.terms

    def value(scores):
        means = np.stack([np.bincount(cells.codes, c, len(cells)) for c in scores.T])
        moments = game.map.means(means)
        violations = constraint.violations(term.read(moments))
        return ((scores - y) ** 2).sum() / 2 + N * multipliers @ violations

    for i, j in ((0, 0), (5, 1), (17, 0), (N - 1, 0)):
        step = np.zeros((N, 2))
        step[i, j] = 1e-4
        numeric = (value(f + step) - value(f - step)) / 2e-4
        assert gradient[i, j] == pytest.approx(numeric, rel=1e-6, abs=1e-6)
