"""A number is predicted: one score, one of several losses, and moments that are means.

The prediction of a row per unit of its exposure e is r = link(f - log e), where f is its score,
and a = y / e is what was actual. The quantities of a row are r, a, its loss, whether r is above
each of some thresholds t_k, and r and a times whether r lies in some part of all predictions
(:mod:`fairboost.fairness.means`); rows weigh by exposure in their means. With c_q what constraints
weigh on quantity q of a row, the gradient of a row is::

    w loss'(f) + v sum_q c_q q'(f)

with w its weight in the loss and v that in moments. r' is 1, or r under a log link. A step at t_k
has no derivative: its place is taken by a hat, 1 at t_k and 0 at the thresholds beside it, times
the spread of all scores and the curvature of the loss. So a row is pushed by the two thresholds
between which it lies, however many there are, and leaves move by as much wherever they are. The
part that a row lies in is held fixed: a row is pushed by what is asked of its own part. The
Hessian grows where the loss of a group is to come down, and under a log link wherever a mean is to
move.

Thresholds are quantiles of the predictions on the rows that are measured, found anew in every
round on at most ``PLACED_ROWS`` of them. They cut predictions into intervals, of which parts are
unions. Rows are summed by cell and interval (:mod:`fairboost.kernel.number_loops`), and no more
than constraints read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.data.cells import Cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce, gathered, quantile_over
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.means import FIRST_LEVEL, KINDS, SHARE, NumberMoment
from fairboost.kernel import number_loops
from fairboost.kernel.loops import Loops
from fairboost.kernel.losses import Loss
from fairboost.kernel.number_loops import Intervals, NumberLoops, PushTable
from fairboost.kernel.threads import Threads
from fairboost.tasks.base import Measured, Slopes, Weights
from fairboost.tasks.layout import Outcomes, RowLayout

PREDICTION, ACTUAL, LOSS = range(FIRST_LEVEL)
BITS = number_loops.PREDICTION, number_loops.ACTUAL, number_loops.LOSS, number_loops.WEIGHT
"""What is read of rows, by the kind of moment."""

PLACED_ROWS = 20_000
"""Rows, at most, whose scores place the thresholds."""

BLOCK = 16_384
"""Rows that a thread takes at a time."""

FEWEST = 2.0
"""Rows that tell how far a ratio varies."""

ROUNDED = 1e-6
"""By how much, relative to 1 or to their size, equal scores may differ under an exposure."""

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

    @cached_property
    def intervals(self) -> Intervals | None:
        """The same for the loops; None without thresholds."""
        return Intervals(self.thresholds, self.knots) if len(self.thresholds) else None


@dataclass(frozen=True)
class Regression:
    """The task of predicting a number.

    Parameters
    ----------
    loss : Loss
        The loss, as the engine has it.
    parts : tuple of NumberMoment
        Moments of rows between quantiles of the predictions, of which constraints read some.
    scale : float
        Standard deviation of what is actual: the unit in which small is told from large.
    dtype : dtype
        Precision of the gradients.
    kinds : int
        What else constraints read: some of ``number_loops.PREDICTION``, ``ACTUAL`` and ``LOSS``.
    """

    loss: Loss
    parts: tuple[NumberMoment, ...] = ()
    scale: float = 1.0
    dtype: Any = np.float32
    kinds: int = number_loops.PREDICTION | number_loops.ACTUAL | number_loops.LOSS

    least_deviation = 1e-12
    least_answer = 0.002  # equal means can always be reached: by one prediction for all
    full_answer = 0.3  # with 1, means of six races met no better on new rows, and cost more
    groups_pull_as_one = False  # units know it already
    point = None

    @classmethod
    def reading(cls, moments: Iterable[Any], loss: Loss, scale: float = 1.0) -> Regression:
        """The task of constraints that read some moments; beside them the loss is measured."""
        parts: dict[int, NumberMoment] = {}
        kinds = number_loops.LOSS  # which curves and searches show of every model
        for m in moments:
            if m.quantity < FIRST_LEVEL:
                kinds |= BITS[m.quantity]
                continue
            other = parts.setdefault(m.quantity, m)
            if (other.low, other.high) != (m.low, m.high):
                raise ConstraintError(
                    f"{other.name!r} and {m.name!r} cut the same predictions into parts of other "
                    "sizes; ask for the same number of parts in all constraints, or fit a model "
                    "for each"
                )
        return cls(loss, tuple(parts[q] for q in sorted(parts)), scale, kinds=kinds)

    @property
    def n_quantities(self) -> int:
        """Prediction, actual figure, loss, and what is read of parts."""
        return max([m.quantity + 1 for m in self.parts], default=FIRST_LEVEL)

    @cached_property
    def levels(self) -> FloatArray:
        """Quantiles of the predictions at which the parts end, rising."""
        ends = {q for m in self.parts for q in (m.low, m.high)} - {0.0, 1.0}
        return np.array(sorted(ends))

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The first interval of each part, and the one after its last."""
        ends = [0.0, *self.levels.tolist(), 1.0]
        return tuple((ends.index(m.low), ends.index(m.high)) for m in self.parts)

    @cached_property
    def inside(self) -> FloatArray:
        """Whether each part holds each interval, (n_parts, n_intervals), as 0 or 1."""
        at = np.arange(len(self.levels) + 1)
        return np.array([(lo <= at) & (at < hi) for lo, hi in self.spans], float)

    @cached_property
    def reads(self) -> int:
        """What is summed over rows, for the loops."""
        out = self.kinds
        for m in self.parts:
            out |= BITS[m.kind]
        return out

    @cached_property
    def columns(self) -> dict[int, int]:
        """Where the sums of each kind begin, of those that are read; and how many there are."""
        out, at = {}, 0
        for bit, count in number_loops.SUMS.items():
            if self.reads & bit:
                out[bit], at = at, at + count
        return {**out, 0: at}

    says_of_the_kept = False

    @property
    def cut_moves(self) -> bool:
        """Whether there are thresholds, which follow the predictions."""
        return len(self.levels) > 0

    @property
    def of_deviance(self) -> float:
        """What the loss is multiplied by to be a squared error or a deviance."""
        halved = ("squared", "poisson", "gamma", "tweedie")
        return 2.0 if self.loss.name in halved else 1.0

    def on(self, layout: RowLayout, needs: BoolArray) -> RegressionPasses:
        """Make ready to pass over rows."""
        return RegressionPasses(self, layout, needs)

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of all quantities; 0 of those that nothing reads."""
        return self._gathered(sums, 0)

    def squares_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of their squares."""
        return self._gathered(sums, 1)

    def products_of(self, sums: FloatArray, one: NumberMoment, two: NumberMoment) -> FloatArray:
        """Sums of the product of two quantities of a row, by cell.

        Parameters
        ----------
        sums : (n_sums, n_cells) float64
            As measured.
        one, two : NumberMoment
            Of predictions or actual figures, both of all rows or of parts.
        """
        ends = [0.0, *self.levels.tolist(), 1.0]
        low, high = max(one.low, two.low), min(one.high, two.high)
        by = sums.reshape(len(self.levels) + 1, self.columns[0], sums.shape[-1])
        if low >= high:
            return np.zeros(by.shape[-1])
        both = {one.kind, two.kind}
        bit = BITS[max(both)]
        column = self.columns[bit] + (2 if len(both) == 2 else 1)
        out: FloatArray = by[ends.index(low) : ends.index(high), column].sum(axis=0)
        return out

    def _gathered(self, sums: FloatArray, power: int) -> FloatArray:
        by = sums.reshape(len(self.levels) + 1, self.columns[0], sums.shape[-1])
        out = np.zeros((self.n_quantities, by.shape[-1]))
        for quantity, bit in enumerate(BITS[:FIRST_LEVEL]):
            if self.reads & bit:
                out[quantity] = by[:, self.columns[bit] + power].sum(axis=0)
        for m, (lo, hi) in zip(self.parts, self.spans, strict=True):
            # The square of 0 or 1 is the same.
            column = self.columns[BITS[m.kind]] + (0 if m.is_share else power)
            out[m.quantity] = by[lo:hi, column].sum(axis=0)
        return out

    @cached_property
    def step_curvature(self) -> float:
        """What steps are multiplied by, but for what the loss has of the prediction."""
        return float(np.mean(self.curvature(np.ones(1))))

    def table(
        self, weights: Weights, memberships: Sequence[Float32Array], cut: NumberCut
    ) -> PushTable:
        """What constraints weigh on rows, for the loops.

        Parameters
        ----------
        weights : Weights
            By cell, and by the probability of groups.
        memberships : sequence of (n, n_groups) float32
            These probabilities.
        cut : NumberCut
            Where predictions are cut.
        """
        listed = [weights.on_cells.T, *(s.on_groups[:, 0, :] for s in weights.soft)]
        steps, bins = self._of_kind(SHARE), self._of_kind(PREDICTION)
        at: dict[str, int] = {}
        columns: list[list[FloatArray]] = []

        def add(name: str, quantities: Sequence[int], spread: FloatArray) -> None:
            """Columns that are the weights on some quantities, times a matrix; if they weigh."""
            if any(on[:, quantities].any() for on in listed):
                at[name] = sum(part[0].shape[1] for part in columns)
                columns.append([on[:, quantities] @ spread for on in listed])

        in_bins = [self.parts[k].quantity for k in bins]
        by_interval = any(on[:, in_bins].any() for on in listed)
        whole = np.ones((1, len(self.levels) + 1 if by_interval else 1))
        spread = np.concatenate([whole, self.inside[bins]]) if by_interval else whole
        add("prediction", [PREDICTION, *(in_bins if by_interval else ())], spread)
        add("loss", [LOSS], np.ones((1, 1)))
        if steps:
            add("steps", [self.parts[k].quantity for k in steps], self._hats(steps, cut))
        tables = [np.hstack([part[k] for part in columns] or [np.zeros((len(on), 1))])
                  for k, on in enumerate(listed)]  # fmt: skip
        known = zip(memberships, tables[1:], strict=True)
        return PushTable(tables[0], list(known), by_interval=by_interval, **at)

    def _of_kind(self, kind: int) -> list[int]:
        return [k for k, m in enumerate(self.parts) if m.kind == kind]

    def _hats(self, steps: Sequence[int], cut: NumberCut) -> FloatArray:
        """The hat of each step at each knot, (n_steps, n_knots)."""
        at = [self.spans[k][0] for k in steps]  # above 0, as a share above the lowest says nothing
        if len(at) == len(self.levels):
            return np.eye(len(at) + 2)[1:-1]
        # Other constraints cut predictions elsewhere too: between thresholds hats are lines.
        own = NumberCut(cut.thresholds[np.array(at) - 1], cut.spread).knots
        units = np.eye(len(own))[1:-1]
        return np.array([np.nan_to_num(np.interp(cut.knots, own, unit)) for unit in units])

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
        if name == "pseudo_huber":  # at residuals of half the deviation of what is actual
            return float((1.0 + (self.scale / (2.0 * self.loss.shape)) ** 2) ** -1.5)
        return {"absolute": 1.0, "quantile": 0.5}.get(name, self.scale) / self.scale

    def deviations(
        self, moments: FloatArray, squares: FloatArray, quantities: IntArray
    ) -> FloatArray:
        """What a coefficient of 1 moves each moment by, over what it moves a rate by.

        A leaf moves by slope over curvature, so the mean of a quantity q by the mean of q'^2 / h.
        A loss moves by less: trees have already followed most of its slope, and what is left
        varies within leaves.
        """
        size = np.maximum(np.abs(moments), np.finfo(float).tiny)  # of shares it may be 0
        # In the end by how the loss itself bends; engines that take it for more take more steps.
        bend = self.curvature(size) / np.exp(self.loss.step)
        of_mean = (size**2 if self.loss.log_link else np.ones_like(moments)) / bend
        of_loss = 1.5 * self.of_deviance * size
        shares = np.clip(moments, 0.0, 1.0)
        of_step = 2.0 * np.sqrt(shares * (1.0 - shares)) * np.exp(self.loss.step) / RESPONSE
        in_part = (quantities >= FIRST_LEVEL) & ((quantities - FIRST_LEVEL) % KINDS > 0)
        of_part = self._deviations_in_parts(moments, squares) if in_part.any() else of_mean
        in_parts = np.maximum(quantities - FIRST_LEVEL, 0) % KINDS
        still = (quantities == ACTUAL) | (in_parts == ACTUAL + 1)  # whatever is predicted
        kinds = [still, quantities < LOSS, quantities == LOSS, in_part]
        sizes = [np.zeros_like(size), of_mean, of_loss, of_part]
        found: FloatArray = RESPONSE * np.select(kinds, sizes, of_step)
        return found

    def _deviations_in_parts(self, moments: FloatArray, squares: FloatArray) -> FloatArray:
        """The same where some rows have nearly equal predictions, and the others 0.

        As if all rows of the group were in the part: steps are as small as the part. Each row
        that moves leaves its part in the end, and larger steps were seen to send rows to and fro.
        """
        size = np.abs(squares) / np.maximum(np.abs(moments), np.finfo(float).tiny)
        size = np.maximum(size, 1e-3 * size.max(initial=0.0))  # of parts without rows
        one = size**2 if self.loss.log_link else np.ones_like(size)
        bend = self.curvature(np.maximum(size, np.finfo(float).tiny)) / np.exp(self.loss.step)
        out: FloatArray = one / bend
        return out

    def stiffness(self, cut: NumberCut) -> float:
        """Hessians are those of the loss itself wherever a score is."""
        return 1.0


class RegressionRows:
    """The pass over some rows, with all that does not change from round to round.

    Parameters
    ----------
    task : Regression
        The task.
    codes : (n,) int
        Cells of the rows.
    n_cells : int
        Number of cells.
    outcomes : Outcomes
        What the rows are to come to.
    weight : (n,) float32, optional
        Weights in moments.
    memberships : sequence of (n, n_groups) float32
        Probabilities of groups.
    threads : Threads, optional
        Those that share the rows.
    machines : AllReduce
        Those that hold rows.
    """

    def __init__(
        self,
        task: Regression,
        codes: IntArray,
        n_cells: int,
        outcomes: Outcomes,
        weight: Float32Array | None = None,
        memberships: Sequence[Float32Array] = (),
        threads: Threads | None = None,
        machines: AllReduce = ONE_MACHINE,
    ) -> None:
        n = len(codes)
        self.task, self.codes, self.memberships = task, codes, list(memberships)
        self.y, self.exposure = outcomes.targets, outcomes.exposure
        self.loss_weight, self.weight = _single(outcomes.weight), _single(weight)
        self.gradient, self.hessian = np.empty(n, task.dtype), np.empty(n, task.dtype)
        in_moments = np.empty(0, np.float32) if self.weight is None else self.weight
        # One block is done sooner than another thread has been told of it.
        shared = threads if threads is not None and n > BLOCK else Threads()
        loops = Loops(codes, n_cells, in_moments, self.gradient, self.hessian, BLOCK, shared)
        self.loops = NumberLoops(
            loops, task.loss, task.of_deviance, self.y, self.loss_weight, self.exposure, machines
        )

    def per_exposure(self, scores: ScoreArray, at: Any) -> FloatArray:
        """Scores of some rows, without what exposure adds to them."""
        plain: FloatArray = scores[at].astype(np.float64, copy=False)
        return plain if self.exposure is None else plain - np.log(self.exposure[at])

    def total_loss(self, values: FloatArray) -> float:
        """The sum of losses, by their weights."""
        weight = self.loss_weight
        return float(values.sum() if weight is None else weight @ values)

    def loss(self, scores: ScoreArray) -> float:
        """The loss alone."""
        return self.loops.measure(scores)[1]

    def descend(self, scores: ScoreArray, cut: NumberCut, weights: Weights) -> Slopes:
        """Fill the buffers with gradient and Hessian; returns them with the loss."""
        table = self.task.table(weights, self.memberships, cut)
        cuts = cut.intervals if table.steps >= 0 or table.by_interval else None
        spread = cut.spread * self.task.step_curvature
        loss = self.loops.descend(scores, cuts, spread, table)
        return Slopes(self.gradient, self.hessian, loss)

    def measure(self, scores: ScoreArray, cut: NumberCut) -> Measured:
        """Sums by interval and cell of what constraints read, and the loss."""
        found, loss = self.loops.measure(scores, cut.intervals, self.task.reads)
        sums = np.moveaxis(found, 0, -1)
        return Measured(sums.reshape(-1, sums.shape[-1]), loss)


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
        self.trained = self.held_out = self._rows(slice(None))
        if holdout.measured is not None:
            cells, weight = holdout.measured, layout.measured_weight
            shared = layout.threads, layout.all_reduce
            self.held_out = RegressionRows(
                task, cells.codes, len(cells), layout.measured_outcomes, weight, (), *shared
            )
        self.without_folds = [self._rows(rows) for rows in holdout.rows_without_folds()]
        self.placing, self.among_all = layout.sample(PLACED_ROWS)
        weight = self.held_out.weight if task.cut_moves else None
        self.placing_weight = None if weight is None else self._of_all(weight[self.placing])

    def start(self) -> NumberCut:
        """No thresholds yet."""
        return NumberCut(np.zeros(len(self.task.levels)))

    def place(self, scores: ScoreArray, cut: NumberCut) -> NumberCut:
        """Thresholds at quantiles of the predictions of rows that are measured."""
        if not self.task.cut_moves:
            return cut
        plain = self._of_all(self.held_out.per_exposure(scores, self.placing))
        spread = max(float(plain.std()), np.finfo(float).tiny)
        found = quantiles(plain, self.placing_weight, self.task.levels)
        if self.held_out.exposure is not None:
            # Scores without what exposure adds to them are rounded: equal ones are so nearly.
            found -= ROUNDED * np.maximum(np.abs(found), 1.0)
        return NumberCut(found, spread)

    def _of_all(self, sample: ScoreArray) -> FloatArray:
        """Numbers of the sampled rows of all machines."""
        here: FloatArray = sample.astype(np.float64, copy=False)
        if self.among_all is None:
            return here
        return gathered(self.layout.all_reduce, here, *self.among_all)

    def measure(self, scores: ScoreArray, cut: NumberCut) -> Measured:
        """Sums by cell, and the loss, on the rows that are measured."""
        return self.held_out.measure(scores, cut)

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
        measured = self.trained.measure(scores, cut)
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
        layout, rows, machines = self.layout, self.held_out, self.layout.all_reduce
        exposure = np.ones(len(rows.y)) if rows.exposure is None else rows.exposure
        known = rows.y, exposure, rows.loss_weight
        constant = _best_constant(self.task.loss, *known, machines)
        score = constant if rows.exposure is None else constant + np.log(exposure)
        values = self.task.loss.value(np.broadcast_to(score, rows.y.shape), rows.y)
        loss, years = machines.total(np.array([rows.total_loss(x) for x in (values, exposure)]))
        cells = layout.measured.without_rows()
        unit = 1.0 if rows.exposure is None else float(years) / cells.total_weight
        return RegressionSummary(cells, float(loss) / cells.total_weight, self.task, unit)

    def _rows(self, which: Any) -> RegressionRows:
        """Some of the rows trained on, such as those of a booster that leaves out a fold."""
        layout, weight = self.layout, self.layout.sample_weight
        assert layout.outcomes is not None
        return RegressionRows(
            self.task,
            layout.cells.codes[which],
            len(layout.cells),
            layout.outcomes.among(which),
            None if weight is None else weight[which],
            [known[which] for known in layout.memberships.values()],
            layout.threads,
            layout.all_reduce,
        )


@dataclass(frozen=True)
class RegressionSummary:
    """What is kept of the measured rows when they are gone.

    Parameters
    ----------
    measured : Cells
        The rows that moments were measured on, by cell.
    untrained_loss : float
        Held-out loss of a model that predicts the same for everyone.
    task : Regression
        Knows what was summed.
    unit : float
        Exposure that a loss is the mean over; 1 without exposures.
    """

    measured: Cells
    untrained_loss: float
    task: Regression
    unit: float = 1.0

    point = None
    label_factors = n_classes = None  # there are no labels

    @property
    def rows(self) -> float:
        """As many rows of equal weight tell as much as those that moments were measured on."""
        return float(self.measured.total_weight**2 / self.measured.squares.sum())

    def shown_figures(self, held_out: bool) -> list[str]:
        """Nothing beside losses and moments."""
        return []

    @property
    def amounts(self) -> bool:
        """Whether neither predictions nor actual figures are below 0."""
        return self.task.loss.log_link

    @property
    def in_own_measure(self) -> tuple[str, float]:
        """What the loss is called, and what it is multiplied by to be that."""
        named = {"squared": "Mean squared error", "absolute": "Mean absolute error"}
        deviance = self.task.loss.name in ("poisson", "gamma", "tweedie")
        title = named.get(self.task.loss.name, "Mean deviance" if deviance else "Mean loss")
        return title, self.task.of_deviance

    def balanced_errors(self, sums: FloatArray) -> FloatArray:
        """Rounds are told by their loss, whatever it is: nothing is decided."""
        return np.ones(len(sums))

    def quantities(self, sums: FloatArray) -> FloatArray:
        """Sums of all quantities by cell."""
        return self.task.sums_of(sums, self.measured.weights)

    def squares(self, sums: FloatArray) -> FloatArray:
        """Sums of squares of all quantities by cell."""
        return self.task.squares_of(sums, self.measured.weights)

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
            None for shares; (n_moments, n_groups) for means; covariances,
            (n_moments, n_moments, n_groups), where actual figures are compared with predictions.
        """
        parts = slices([t.counted.size for t in terms])
        return tuple(
            self._of_term(t, found.moments[p], found.variances[p], found.sums)
            for t, p in zip(terms, parts, strict=True)
        )

    def _of_term(
        self, term: Term, moments: FloatArray, variances: FloatArray, sums: FloatArray
    ) -> FloatArray | None:
        kinds = {getattr(m, "kind", None) for m in term.moments}
        if kinds == {SHARE}:
            return None
        alone = variances.reshape(term.counted.shape)
        if kinds != {PREDICTION, ACTUAL}:
            return alone
        values, groups = moments.reshape(term.counted.shape), term.groups.of_cell
        known = groups >= 0
        out = np.empty((len(values), *values.shape))
        listed = cast(tuple[NumberMoment, ...], term.moments)
        for (i, one), (j, two) in product(enumerate(listed), repeat=2):
            by_cell = self.task.products_of(sums, one, two)[known]
            together = np.bincount(groups[known], by_cell, len(term.groups))
            out[i, j] = together / term.counted[i] - values[i] * values[j]
        self._widen(out, values, term)
        return out

    def _widen(self, covariances: FloatArray, values: FloatArray, term: Term) -> None:
        """Let the ratio of a single row in a part vary as those of everyone there.

        Its actual figure is just what its ratio says, so by itself it does not vary.
        """
        n = (len(values) - 2) // 2
        for e, a in zip(range(2, 2 + n), range(2 + n, 2 + 2 * n), strict=True):
            expected, actual = values[e], values[a]
            square = covariances[e, e] + expected**2
            rows = term.rows[e] * expected**2 / np.maximum(square, np.finfo(float).tiny)
            ratio = actual / np.where(expected == 0, 1.0, expected)
            spread = covariances[a, a] + ratio**2 * covariances[e, e]
            spread = np.maximum(spread - 2 * ratio * covariances[e, a], 0.0)
            weight = term.counted[e]
            per_unit = (weight @ spread) / max(weight @ np.abs(expected), np.finfo(float).tiny)
            few = (expected != 0) & (rows < FEWEST)
            covariances[a, a] += np.where(few, per_unit * np.abs(expected), 0.0)

    def realised(self, cut: NumberCut, placed: FloatArray) -> None:
        """There is no operating point."""


def _single(weight: Any) -> Float32Array | None:
    return None if weight is None else np.ascontiguousarray(weight, np.float32)


def placing(n: int) -> slice:
    """Which of n rows place the thresholds."""
    return slice(None, None, 1 + n // PLACED_ROWS)


def quantiles(values: FloatArray, weight: Any, wanted: FloatArray) -> FloatArray:
    """Quantiles of some values, by their weights."""
    if weight is None:
        ranked, upto = np.sort(values), np.arange(1, len(values) + 1)
    else:
        order = np.argsort(values)
        ranked, upto = values[order], np.cumsum(weight[order], dtype=np.float64)
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
