"""A number is predicted: one score, one of several losses, and moments that are means.

The prediction of a row per unit of its exposure e is r = link(f - log e), where f is its score,
and a = y / e is what was actual. The quantities of a row are r, a, its loss, and whether r is
above each of some thresholds t_k (:mod:`fairboost.fairness.means`); rows weigh by exposure in
their means. With c_q what constraints weigh on quantity q of a row, the gradient of a row is::

    w loss'(f) + v sum_q c_q q'(f)

with w its weight in the loss and v that in moments. r' is 1, or r under a log link. A step at t_k
has no derivative: its place is taken by a hat, 1 at t_k and 0 at the thresholds beside it, times
the spread of all scores and the curvature of the loss. So a row is pushed by the two thresholds
between which it lies, however many there are, and leaves move by as much wherever they are. The
Hessian grows where the loss of a group is to come down, and under a log link wherever a mean is to
move.

Thresholds are quantiles of the predictions on the rows that are measured, found anew in every
round on at most ``PLACED_ROWS`` of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.data.cells import Cells
from fairboost.fairness.all_reduce import (
    ONE_MACHINE,
    AllReduce,
    gathered,
    median_over,
    quantile_over,
)
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.means import FIRST_LEVEL, levels
from fairboost.kernel.losses import Loss
from fairboost.kernel.threads import Threads
from fairboost.tasks.base import Measured, Slopes, Weights
from fairboost.tasks.layout import Outcomes, RowLayout

PREDICTION, ACTUAL, LOSS = range(FIRST_LEVEL)
PLACED_ROWS = 20_000
"""Rows, at most, whose scores place the thresholds."""

BLOCK = 16_384
"""Rows that a thread takes at a time."""

RESPONSE = 4.0
"""What a coefficient of 1 moves a moment by, over what it moves a rate by at even odds, where the
score is the moment itself."""


@dataclass(frozen=True)
class NumberCut:
    """Thresholds of a round.

    Parameters
    ----------
    thresholds : (n_levels,) float64
        In scores per unit of exposure, rising.
    spread : float
        Standard deviation of these scores.
    """

    thresholds: FloatArray
    spread: float = 1.0

    threshold = 0.0  # of no decision

    @cached_property
    def knots(self) -> FloatArray:
        """The thresholds, and one more on either side, where the outer hats end."""
        t = self.thresholds
        if len(t) == 1:
            return np.array([t[0] - self.spread, t[0], t[0] + self.spread])
        return np.concatenate([[2 * t[0] - t[1]], t, [2 * t[-1] - t[-2]]])


@dataclass(frozen=True)
class Regression:
    """The task of predicting a number.

    Parameters
    ----------
    loss : Loss
        The loss, as the engine has it.
    n_levels : int
        Thresholds at which distributions are compared; 0 where none are.
    scale : float
        Standard deviation of what is actual: the unit in which small is told from large.
    dtype : dtype
        Precision of the gradients.
    """

    loss: Loss
    n_levels: int = 0
    scale: float = 1.0
    dtype: Any = np.float32

    least_deviation = 1e-12
    wobble = 0.0  # moments have units of their own: sampling errors alone tell what is small
    point = None

    @property
    def n_quantities(self) -> int:
        """Prediction, actual figure, loss, and a step at each threshold."""
        return FIRST_LEVEL + self.n_levels

    @property
    def cut_moves(self) -> bool:
        """Whether there are thresholds, which follow the predictions."""
        return self.n_levels > 0

    @property
    def of_deviance(self) -> float:
        """What the loss is multiplied by to be a squared error or a deviance."""
        halved = ("squared", "poisson", "gamma", "tweedie")
        return 2.0 if self.loss.name in halved else 1.0

    def on(self, layout: RowLayout, needs: BoolArray) -> RegressionPasses:
        """Make ready to pass over rows."""
        return RegressionPasses(self, layout, needs)

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of all quantities."""
        return sums[: self.n_quantities]

    def squares_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of their squares."""
        return sums[self.n_quantities : -1]

    def exact(self, moments: FloatArray) -> FloatArray:
        """Moments as they are."""
        return moments

    def variances(self, moments: FloatArray, squares: FloatArray, rows: FloatArray) -> FloatArray:
        """Mean of squares less the square of the mean, as from so many rows."""
        spread = np.maximum(squares - moments**2, 0.0)
        return np.maximum(spread * rows / np.maximum(rows - 1.0, 1.0), np.finfo(float).tiny)

    def curvature(self, predictions: FloatArray) -> FloatArray | float:
        """Hessian of the loss that is to be expected at some predictions."""
        name = self.loss.name
        if name in ("poisson", "tweedie"):
            power = 1.0 if name == "poisson" else 2.0 - self.loss.shape
            out: FloatArray = np.exp(self.loss.step) * predictions**power
            return out
        return {"absolute": 1.0, "quantile": 0.5}.get(name, self.scale) / self.scale

    def deviations(
        self, moments: FloatArray, squares: FloatArray, quantities: IntArray
    ) -> FloatArray:
        """What a coefficient of 1 moves each moment by, over what it moves a rate by.

        A leaf moves by slope over curvature, so the mean of a quantity q by the mean of q'^2 / h.
        """
        size = np.abs(moments)
        of_mean = (size**2 if self.loss.log_link else np.ones_like(moments)) / self.curvature(size)
        of_loss = 2.0 * self.of_deviance * size / np.exp(self.loss.step)
        shares = np.clip(moments, 0.0, 1.0)
        of_step = 2.0 * np.sqrt(shares * (1.0 - shares)) / RESPONSE
        kinds = [quantities < LOSS, quantities == LOSS]
        found: FloatArray = RESPONSE * np.select(kinds, [of_mean, of_loss], of_step)
        return found

    def stiffness(self, cut: NumberCut) -> float:
        """Hessians are those of the loss itself wherever a score is."""
        return 1.0


class RegressionRows:
    """Rows that are passed over at once, with all that does not change from round to round.

    Parameters
    ----------
    task : Regression
        The task.
    codes : (n,) int
        Cells of the rows.
    outcomes : Outcomes
        What they are to come to.
    weight : (n,) float32, optional
        Weights in moments.
    memberships : sequence of (n, n_groups) float32
        Probabilities of groups.
    """

    def __init__(
        self,
        task: Regression,
        codes: IntArray,
        outcomes: Outcomes,
        weight: Float32Array | None,
        memberships: Sequence[Float32Array] = (),
    ) -> None:
        self.task, self.codes, self.memberships = task, codes, list(memberships)
        self.y = outcomes.targets
        self.exposure = outcomes.exposure
        self.offset = None if self.exposure is None else np.log(self.exposure)
        self.actual = self.y if self.exposure is None else self.y / self.exposure
        self.loss_weight = outcomes.weight
        self.weight = weight
        self.gradient = np.empty(len(codes), task.dtype)
        self.hessian = np.empty(len(codes), task.dtype)

    def part(self, at: slice) -> RegressionRows:
        """Some of the rows, which fill their part of the buffers."""
        out = copy(self)
        for name in ("codes", "y", "exposure", "offset", "actual", "loss_weight", "weight",
                     "gradient", "hessian"):  # fmt: skip
            column = getattr(self, name)
            setattr(out, name, None if column is None else column[at])
        out.memberships = [known[at] for known in self.memberships]
        return out

    def loss(self, scores: ScoreArray) -> float:
        """The loss alone."""
        return self.total_loss(self.task.loss.value(in_full(scores), self.y))

    def per_exposure(self, scores: ScoreArray) -> FloatArray:
        """Scores without what exposure adds to them."""
        plain = in_full(scores)
        return plain if self.offset is None else plain - self.offset

    def total_loss(self, values: FloatArray) -> float:
        """The sum of losses, by their weights."""
        weight = self.loss_weight
        return float(values.sum() if weight is None else weight @ values)

    def descend(
        self, scores: ScoreArray, cut: NumberCut, weights: Weights, typical: float | None = None
    ) -> float:
        """Fill the buffers with gradient and Hessian; returns the loss."""
        exact, loss = in_full(scores), self.task.loss
        gradient, hessian = loss.slopes(exact, self.y, typical)
        push, bend = self._push(exact, cut, weights, gradient, hessian)
        if self.loss_weight is not None:
            gradient, hessian = gradient * self.loss_weight, hessian * self.loss_weight
        self.gradient[:] = gradient + push
        self.hessian[:] = hessian + bend
        return self.total_loss(loss.value(exact, self.y))

    def _push(
        self,
        scores: FloatArray,
        cut: NumberCut,
        weights: Weights,
        gradient: FloatArray,
        hessian: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """What constraints add to gradient and Hessian."""
        push, bend = np.zeros((2, len(scores)))
        pull = Pull(self, weights)
        if pull.reads(PREDICTION):
            c = pull.on(PREDICTION)
            if self.task.loss.log_link:
                c = c * np.exp(self.per_exposure(scores))
                # Of a mean that is to rise too: its pull grows with every step towards it.
                bend = bend + np.abs(c)
            push = push + c
        if pull.reads(LOSS):
            c = self.task.of_deviance * pull.on(LOSS)
            c = c if self.exposure is None else c / self.exposure
            push, bend = push + c * gradient, bend + np.maximum(c, 0.0) * hessian
        if pull.reads_levels:
            # In proportion to the curvature, so that leaves move by as much wherever they are:
            # under a log link it is nearly 0 where little is predicted.
            curvature = self.task.curvature(self.task.loss.prediction(scores))
            steps = pull.between(self.per_exposure(scores), cut.knots)
            push = push + cut.spread * curvature * steps
        if self.weight is not None:
            push, bend = push * self.weight, bend * self.weight
        return push, bend

    def measure(self, scores: ScoreArray, cut: NumberCut, n_cells: int) -> Measured:
        """Sums by cell of all quantities, of their squares, and of prediction times actual figure.

        The last tells how far the two go together, on which the error of their ratio depends.
        """
        task, plain = self.task, self.per_exposure(scores)
        values = task.loss.value(in_full(scores), self.y)
        errors = task.of_deviance * values
        errors = errors if self.exposure is None else errors / self.exposure
        quantities = task.loss.prediction(plain), self.actual, errors
        sums = np.empty((2, task.n_quantities, n_cells))
        for k, quantity in enumerate(quantities):
            weighted = quantity if self.weight is None else quantity * self.weight
            sums[0, k] = np.bincount(self.codes, weighted, n_cells)
            sums[1, k] = np.bincount(self.codes, weighted * quantity, n_cells)
        if task.n_levels:
            sums[:, FIRST_LEVEL:] = self._above(plain, cut.thresholds, n_cells)
        both = quantities[PREDICTION] * quantities[ACTUAL]
        both = both if self.weight is None else both * self.weight
        together = np.bincount(self.codes, both, n_cells)
        return Measured(np.vstack([*sums, together]), self.total_loss(values))

    def _above(self, plain: FloatArray, thresholds: FloatArray, n_cells: int) -> FloatArray:
        """Weight of the rows at or above each threshold, by cell."""
        n = len(thresholds) + 1
        where = np.searchsorted(thresholds, plain, side="right") + n * self.codes.astype(np.int64)
        weight = np.bincount(where, self.weight, n * n_cells).reshape(n_cells, n).T
        above: FloatArray = weight[::-1].cumsum(axis=0)[::-1][1:]
        return above


class RegressionBlocks:
    """All rows of a pass, cut into blocks that threads share.

    A block fits into the cache of a core, with all that is made of it on the way. Sums are added
    up in the order of blocks: results do not depend on the number of threads.

    Parameters
    ----------
    rows : RegressionRows
        The rows as a whole; the buffers of blocks are parts of its own.
    threads : Threads
        Those that share the blocks.
    machines : AllReduce
        Those that hold rows.
    """

    def __init__(
        self, rows: RegressionRows, threads: Threads, machines: AllReduce = ONE_MACHINE
    ) -> None:
        n, self.rows, self.threads, self.machines = len(rows.codes), rows, threads, machines
        # What is close to a median is told by all residuals at once.
        size = n if rows.task.loss.renews_leaves else BLOCK
        self.at = [slice(lo, min(lo + size, n)) for lo in range(0, max(n, 1), max(size, 1))]
        self.parts = [rows.part(at) for at in self.at]

    def descend(self, scores: ScoreArray, cut: NumberCut, weights: Weights) -> Slopes:
        """Gradient, Hessian and loss."""
        typical = None
        if self.rows.task.loss.renews_leaves:  # machines talk in this thread alone
            typical = median_over(self.machines, np.abs(in_full(scores) - self.rows.y))
        losses = self.threads.each(
            lambda k: self.parts[k].descend(scores[self.at[k]], cut, weights, typical),
            len(self.at),
        )
        return Slopes(self.rows.gradient, self.rows.hessian, float(sum(losses)))

    def measure(self, scores: ScoreArray, cut: NumberCut, n_cells: int) -> Measured:
        """Sums by cell, and the loss."""
        found = self.threads.each(
            lambda k: self.parts[k].measure(scores[self.at[k]], cut, n_cells), len(self.at)
        )
        total = found[0].sums.copy()
        for part in found[1:]:
            total += part.sums
        return Measured(total, float(sum(part.loss for part in found)))

    def loss(self, scores: ScoreArray) -> float:
        """The loss alone."""
        losses = self.threads.each(lambda k: self.parts[k].loss(scores[self.at[k]]), len(self.at))
        return float(sum(losses))


class Pull:
    """What constraints weigh on the quantities of each of some rows.

    Parameters
    ----------
    rows : RegressionRows
        The rows.
    weights : Weights
        By cell, and by the probability of groups.
    """

    def __init__(self, rows: RegressionRows, weights: Weights) -> None:
        self.rows, self.on_cells = rows, weights.on_cells
        self.soft = [
            (known, s.on_groups[:, 0, :])
            for known, s in zip(rows.memberships, weights.soft, strict=True)
        ]

    def reads(self, quantity: int) -> bool:
        """Whether a quantity weighs anything."""
        return bool(
            self.on_cells[quantity].any() or any(on[:, quantity].any() for _, on in self.soft)
        )

    @property
    def reads_levels(self) -> bool:
        """Whether a step at some threshold weighs anything."""
        return any(map(self.reads, range(FIRST_LEVEL, len(self.on_cells))))

    def on(self, quantity: int) -> FloatArray:
        """The weight on one quantity, row by row."""
        out: FloatArray = self.on_cells[quantity][self.rows.codes]
        for known, on in self.soft:
            out = out + known @ on[:, quantity]
        return out

    def between(self, plain: FloatArray, knots: FloatArray) -> FloatArray:
        """Weights on steps, by how near each row is to the thresholds on either side of it."""
        right = np.clip(np.searchsorted(knots, plain, side="right"), 1, len(knots) - 1)
        width = np.maximum(np.diff(knots), np.finfo(float).tiny)[right - 1]
        near = np.clip((plain - knots[right - 1]) / width, 0.0, 1.0)
        table = np.pad(self.on_cells[FIRST_LEVEL:], ((1, 1), (0, 0)))
        codes = self.rows.codes
        out: FloatArray = (1.0 - near) * table[right - 1, codes] + near * table[right, codes]
        for known, on in self.soft:
            by_row = known @ np.pad(on[:, FIRST_LEVEL:], ((0, 0), (1, 1)))
            row = np.arange(len(plain))
            out = out + (1.0 - near) * by_row[row, right - 1] + near * by_row[row, right]
        return out


class RegressionPasses:
    """The task on the rows of a training.

    Parameters
    ----------
    task : Regression
        The task.
    layout : RowLayout
        The rows, with their outcomes.
    needs : (n_quantities, n_cells) bool
        Not looked at: what weighs nothing is left out in each round.
    """

    def __init__(self, task: Regression, layout: RowLayout, needs: BoolArray) -> None:
        self.task, self.layout, holdout = task, layout, layout.holdout
        assert layout.outcomes is not None
        assert layout.measured_outcomes is not None
        known = list(layout.memberships.values())
        rows = RegressionRows(
            task, layout.cells.codes, layout.outcomes, layout.sample_weight, known
        )
        shared = layout.threads, layout.all_reduce
        self.trained = self.held_out = RegressionBlocks(rows, *shared)
        if holdout.measured is not None:
            theirs = layout.measured_outcomes, layout.measured_weight
            rows = RegressionRows(task, holdout.measured.codes, *theirs)
            self.held_out = RegressionBlocks(rows, *shared)
        self.without_folds = [self._without(rows) for rows in holdout.rows_without_folds()]
        self.placing, self.among_all = layout.sample(PLACED_ROWS)
        weight = self.held_out.rows.weight if task.n_levels else None
        self.placing_weight = None if weight is None else self._of_all(weight[self.placing])

    def start(self) -> NumberCut:
        """No thresholds yet."""
        return NumberCut(np.zeros(self.task.n_levels))

    def place(self, scores: ScoreArray, cut: NumberCut) -> NumberCut:
        """Thresholds at quantiles of the predictions of rows that are measured."""
        if not self.task.n_levels:
            return cut
        rows, at = self.held_out.rows, self.placing
        plain = in_full(scores[at])
        plain = self._of_all(plain if rows.offset is None else plain - rows.offset[at])
        spread = float(plain.std())
        found = _quantiles(plain, self.placing_weight, levels(self.task.n_levels))
        return NumberCut(found, max(spread, np.finfo(float).tiny))

    def _of_all(self, sample: ScoreArray) -> FloatArray:
        """Numbers of the sampled rows of all machines."""
        if self.among_all is None:
            return in_full(sample)
        return gathered(self.layout.all_reduce, in_full(sample), *self.among_all)

    def measure(self, scores: ScoreArray, cut: NumberCut) -> Measured:
        """Sums by cell, and the loss, on the rows that are measured."""
        return self.held_out.measure(scores, cut, len(self.layout.measured))

    def loss(self, scores: ScoreArray, cut: NumberCut) -> float:
        """The loss on the rows trained on."""
        return self.trained.loss(scores)

    def descend(self, scores: ScoreArray, cut: NumberCut, weights: Weights) -> Slopes:
        """Gradient and Hessian of the rows trained on."""
        return self.trained.descend(scores, cut, weights)

    def descend_without(
        self, fold: int, scores: ScoreArray, cut: NumberCut, weights: Weights
    ) -> Slopes:
        """The same for the booster that leaves out a fold."""
        return self.without_folds[fold].descend(scores, cut, weights)

    def descend_and_sum(self, scores: ScoreArray, cut: NumberCut, weights: Weights) -> Slopes:
        """The same with what is measured; smooth means are the exact ones, but for steps."""
        slopes = self.descend(scores, cut, weights)
        measured = self.trained.measure(scores, cut, len(self.layout.cells))
        smooth = self.task.sums_of(measured.sums, self.layout.cells.weights)
        return Slopes(slopes.gradient, slopes.hessian, slopes.loss, smooth, measured)

    def corrected(self, slopes: Slopes, weights: Weights) -> Slopes | None:
        """Other weights take another pass."""
        return None

    def figures(self, sums: FloatArray, cut: NumberCut) -> dict[str, float]:
        """Nothing beside losses and moments."""
        return {}

    def summary(self) -> RegressionSummary:
        """What the measured rows come to."""
        layout, rows, machines = self.layout, self.held_out.rows, self.layout.all_reduce
        exposure = np.ones(len(rows.y)) if rows.exposure is None else rows.exposure
        known = rows.y, exposure, rows.loss_weight
        constant = _best_constant(self.task.loss, *known, machines)
        score = constant if rows.offset is None else constant + rows.offset
        values = self.task.loss.value(np.broadcast_to(score, rows.y.shape), rows.y)
        (loss,) = machines.total(np.array([rows.total_loss(values)]))
        return RegressionSummary(
            layout.measured.without_rows(), float(loss) / layout.measured.total_weight
        )

    def _without(self, rows: IntArray) -> RegressionBlocks:
        """The rows of a booster that leaves out a fold."""
        layout, weight = self.layout, self.layout.sample_weight
        assert layout.outcomes is not None
        kept = RegressionRows(
            self.task,
            layout.cells.codes[rows],
            layout.outcomes.among(rows),
            None if weight is None else weight[rows],
            [known[rows] for known in layout.memberships.values()],
        )
        return RegressionBlocks(kept, layout.threads)


@dataclass(frozen=True)
class RegressionSummary:
    """What is kept of the measured rows when they are gone.

    Parameters
    ----------
    measured : Cells
        The rows that moments were measured on, by cell.
    untrained_loss : float
        Held-out loss of a model that predicts the same for everyone.
    """

    measured: Cells
    untrained_loss: float

    point = None
    label_factors = None  # there are no labels

    @property
    def rows(self) -> float:
        """As many rows of equal weight tell as much as those that moments were measured on."""
        return float(self.measured.total_weight**2 / self.measured.squares.sum())

    def shown_figures(self, held_out: bool) -> list[str]:
        """Nothing beside losses and moments."""
        return []

    def balanced_errors(self, sums: FloatArray) -> FloatArray:
        """Rounds are told by their loss, whatever it is: nothing is decided."""
        return np.ones(len(sums))

    def quantities(self, sums: FloatArray) -> FloatArray:
        """Sums of all quantities by cell."""
        return sums[: len(sums) // 2]

    def squares(self, sums: FloatArray) -> FloatArray:
        """Sums of squares of all quantities by cell."""
        return sums[len(sums) // 2 : -1]

    def variances(self, terms: Sequence[Term], found: Any) -> tuple[FloatArray | None, ...]:
        """Variances of single rows' quantities, term by term, for verdicts.

        Parameters
        ----------
        terms : sequence of Term
            Bound to the measured rows.
        found : Round
            What was measured on them.

        Returns
        -------
        variances : tuple
            None for shares; (n_moments, n_groups) for means; covariances, (2, 2, n_groups), where
            the actual figures are compared with predictions.
        """
        parts = slices([t.counted.size for t in terms])
        return tuple(
            self._of_term(t, found.moments[p], found.variances[p], found.sums)
            for t, p in zip(terms, parts, strict=True)
        )

    def _of_term(
        self, term: Term, moments: FloatArray, variances: FloatArray, sums: FloatArray
    ) -> FloatArray | None:
        of = [m.quantity for m in term.moments]
        if min(of) >= FIRST_LEVEL:
            return None
        alone = variances.reshape(term.counted.shape)
        if of != [PREDICTION, ACTUAL]:
            return alone
        groups = term.groups.of_cell
        known = groups >= 0
        together = np.bincount(groups[known], sums[-1][known], len(term.groups))
        r, a = moments.reshape(term.counted.shape)
        beside = together / term.counted[0] - r * a
        return np.array([[alone[0], beside], [beside, alone[1]]])

    def realised(self, cut: NumberCut, placed: FloatArray) -> None:
        """There is no operating point."""


def in_full(scores: ScoreArray) -> FloatArray:
    """Scores in double precision."""
    out: FloatArray = scores.astype(np.float64, copy=False)
    return out


def _quantiles(values: FloatArray, weight: Any, wanted: FloatArray) -> FloatArray:
    """Quantiles of some values, by their weights."""
    order = np.argsort(values)
    ranked = values[order]
    upto = np.arange(1, len(ranked) + 1) if weight is None else np.cumsum(weight[order])
    at = np.searchsorted(upto, wanted * upto[-1])
    out: FloatArray = ranked[np.minimum(at, len(ranked) - 1)]
    return out


def _best_constant(
    loss: Loss, y: FloatArray, exposure: FloatArray, weight: Any, machines: AllReduce
) -> float:
    """The score, per unit of exposure, of the constant prediction with the least loss, nearly."""
    if loss.renews_leaves:
        level = loss.shape if loss.name == "quantile" else 0.5
        return quantile_over(machines, y, weight, level)
    here = [c.sum() if weight is None else weight @ c for c in (y, exposure)]
    total, per = machines.total(np.array(here, np.float64))
    mean = float(total / per)
    return loss.score(max(mean, np.finfo(float).tiny)) if loss.log_link else mean
