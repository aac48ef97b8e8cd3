"""Two labels, one score: the task of the paper.

A score is the log-odds of the positive label, the loss is the logistic one, and a row is decided
positively where its score is at or above the threshold. The quantities of a row are its two
decisions: 0, "positive", and 1, "negative"; so the moments are rates
(:mod:`fairboost.fairness.rates`). With p = sigmoid(f), phi the smooth step of a decision and t the
threshold, the gradient of a row is::

    w (p - y) + w on_up phi'(f - t) - w on_down phi'(t - f)

* In the **paper's form** weights have any sign. The Hessian is the loss's own, ``w p (1 - p)``.
* In the **convex form** (the default), a negative weight on one decision, which wants its rate to
  *rise*, becomes a positive weight on the other: ``-phi`` is concave, and its place is taken by
  the bound ``1 - phi(-u)`` of the same event. The problem is then convex if phi is, and the
  curvature of the proxies belongs into the Hessian.

At an operating point such as "false positive rate 5%" the threshold is a function of the scores:
the quantile of those of the measured rows that count, found anew in every round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.data.cells import Cells
from fairboost.data.device_arrays import beside
from fairboost.fairness.all_reduce import (
    ONE_MACHINE,
    out_of_doubt,
    share_near,
    threshold_over,
)
from fairboost.fairness.operating_points import OperatingPoint, probability_of
from fairboost.fairness.proxies import Proxy
from fairboost.fairness.realised_rate import RealisedRate, realise
from fairboost.kernel.row_pass import PassRules, RowPass, SoftWeights
from fairboost.tasks.base import Measured, Measuring, MemberWeights, Slopes, Weights
from fairboost.tasks.layout import RowLayout

RAREST = 0.002
"""Rates rarer than this are taken for this rare when the step of a multiplier is scaled."""


@dataclass(frozen=True)
class DecisionCut:
    """Where decisions are made in a round.

    Parameters
    ----------
    threshold : float
        In log-odds.
    spread : float
        Of the scores around a threshold that follows them (:meth:`OperatingPoint.spread`).
    """

    threshold: float
    spread: float = 1.0


@dataclass(frozen=True)
class Binary:
    """The binary task.

    Parameters
    ----------
    proxy : Proxy
        The smooth step.
    decision : float or OperatingPoint
        The decision threshold in log-odds, or what it follows from.
    convex : bool
        Use the convex form.
    label_weights : (float, float)
        Factors on the loss of the negative and the positive class. Rates do not know them.
    dtype : dtype
        Precision of the gradients.
    least : float, optional
        The least score that is decided positively, where rounding makes it another number than
        the given threshold (:func:`fairboost.fairness.operating_points.least_score`).
    """

    proxy: Proxy
    decision: float | OperatingPoint = 0.0
    convex: bool = False
    label_weights: tuple[float, float] = (1.0, 1.0)
    dtype: Any = np.float32
    least: float | None = None

    n_quantities = 2
    least_deviation = 2.0 * math.sqrt(RAREST)
    groups_pull_as_one = False
    least_answer = 0.02
    full_answer = 0.0  # rates of two labels settle however little features tell

    def on(self, layout: RowLayout, needs: BoolArray) -> BinaryPasses:
        """Make ready to pass over rows."""
        return BinaryPasses(self, layout, needs)

    @property
    def point(self) -> OperatingPoint | None:
        """The operating point, if the threshold moves."""
        return self.decision if isinstance(self.decision, OperatingPoint) else None

    @property
    def says_of_the_kept(self) -> bool:
        """A cut that moves is placed on scores out of fold, and is another for other scores."""
        return not self.cut_moves

    @property
    def cut_moves(self) -> bool:
        """Whether the threshold follows from the scores."""
        return self.point is not None

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Positive and negative decisions."""
        return np.concatenate([sums, total - sums])

    def squares_of(self, sums: FloatArray, total: FloatArray) -> None:
        """Of zeros and ones, squares say nothing more."""

    def exact(self, moments: FloatArray) -> FloatArray:
        """Shares of rows; sums of weights round."""
        return np.clip(moments, 0.0, 1.0)

    def variances(self, moments: FloatArray, squares: None, rows: FloatArray) -> FloatArray:
        """R (1 - R)."""
        # A rate of 0 or 1 seen on few rows has an error too: as if half a row had differed.
        low = 0.5 / (rows + 1.0)
        rates = np.clip(moments, low, 1.0 - low)
        return rates * (1.0 - rates)

    def deviations(self, moments: FloatArray, squares: None, quantities: IntArray) -> FloatArray:
        """Standard deviation of a single decision, over that at even odds."""
        out: FloatArray = 2.0 * np.sqrt(moments * (1.0 - moments))
        return out

    def stiffness(self, cut: DecisionCut) -> float:
        """Weight that it takes to move a rate at the threshold, over that at even odds.

        A leaf moves by gradient over curvature: where the loss is flat, little weight moves much.
        But where scores have flown apart (a learning rate that is too high for rare positives), a
        threshold that follows them comes to lie where the loss is flat, and there few rows are
        within reach of the proxy, and they have further to go: both take more weight. A steeper
        proxy takes less.
        """
        curvature = 1.0 / math.cosh(min(abs(cut.threshold), 50.0) / 2) ** 2
        return min(curvature * cut.spread**2, 1.0) / self.steepness

    @cached_property
    def steepness(self) -> float:
        """Slope of the proxy at the threshold, over that of the sigmoid."""
        return float(self.proxy.slope(np.zeros(1))[0] / 0.25)


class BinaryPasses:
    """The binary task on the rows of a training.

    Parameters
    ----------
    task : Binary
        The task.
    layout : RowLayout
        The rows.
    needs : (2, n_cells) bool
        The cells of which some rate reads positive, and negative, decisions.
    """

    def __init__(self, task: Binary, layout: RowLayout, needs: BoolArray) -> None:
        self.task, self.layout, holdout = task, layout, layout.holdout
        if task.convex:  # the sign of a coefficient decides between the two
            needs = np.stack([needs.any(axis=0)] * 2)
        at_zero, self.device = task.decision == 0.0, layout.device
        self.rules = PassRules(
            task.proxy, needs, at_zero, task.convex, layout.threads, task.dtype, self.device
        )
        # Of each cell, whether its rows should be decided positively, and what they count for.
        self.positive_cells = layout.measured.labels == 1
        self.shares = np.asarray(holdout.measured_labels)[layout.measured.labels]
        self.trained = self._pass(layout.cells.codes, holdout.trained_labels, layout.sample_weight)
        self.held_out = self.trained
        if holdout.measured is not None:
            self.held_out = self._pass(
                holdout.measured.codes, holdout.measured_labels, layout.measured_weight
            )
        self.without_folds = [self._without(rows) for rows in holdout.rows_without_folds()]

    def _placeable(self, array: Any) -> Any:
        """An array where thresholds are placed: on the host, where several machines do it."""
        if self.device is None or array is None:
            return array
        alone = self.layout.all_reduce is ONE_MACHINE
        return self.device.put(array) if alone else self.device.get(array)

    @cached_property
    def placing_weight(self) -> Any:
        """Weights of the rows on which the threshold is placed, if rows have weights."""
        weight = self.layout.measured_weight
        return None if weight is None else self._placeable(weight)[self.placing]

    @cached_property
    def placed_pass(self) -> RowPass:
        """A pass over the rows on which the threshold is placed, where these are others."""
        placed, weight = self._placed, self.layout.measured_weight
        assert placed is not None
        weight = None if weight is None else weight[len(weight) - len(placed.codes) :]
        return self._pass(placed.codes, (1.0, 1.0), weight)

    @cached_property
    def placing(self) -> slice | IntArray:
        """The measured rows on which the threshold is placed: those that count, or the last."""
        assert self.task.point is not None
        measured = self.layout.measured
        counts, rows = self.task.point.rate.counts(measured.labels), self._placed or measured
        first = len(measured.codes) - len(rows.codes)
        if counts.all():
            return slice(first, None)
        which = np.flatnonzero(beside(counts, rows.codes)[rows.codes])
        found: IntArray = self._placeable(first + which)
        return found

    def start(self) -> DecisionCut:
        """The given threshold, or even odds."""
        decision = self.task.decision
        return DecisionCut(0.0 if isinstance(decision, OperatingPoint) else decision)

    def place(self, scores: ScoreArray, cut: DecisionCut) -> DecisionCut:
        """The threshold that follows from scores of the measured rows, if it moves."""
        point, all_reduce = self.task.point, self.layout.all_reduce
        if point is None:
            return cut
        scores = self._placeable(scores)
        placing = scores[self.placing].astype(np.float64, copy=False)
        counted: tuple[FloatArray, Any] = placing, self.placing_weight
        threshold = threshold_over(all_reduce, point, *counted)
        everyone = scores.astype(np.float64, copy=False)
        threshold = out_of_doubt(all_reduce, point, threshold, everyone)
        if not self.task.convex:
            return replace(cut, threshold=threshold)
        near = share_near(all_reduce, threshold, *counted)
        return DecisionCut(threshold, point.spread(near))

    def measure(self, scores: ScoreArray, cut: DecisionCut) -> Measured | Measuring:
        """Weight of positive decisions by cell, and the loss."""
        least, shared = self._least(cut), self._shared(scores, cut)
        placed = self._placed if self.task.point is not None else None
        last = scores[len(scores) - len(placed.codes) :] if placed is not None else None
        if self.device is None:
            positive, loss = self.held_out.measure(scores, least)
            decided = None if last is None else self.placed_pass.measure(last, least)[0]
            return _measured(positive, loss, decided, shared)
        # All passes begin now: the next round overwrites the scores.
        found = self.held_out.measuring(scores, least)
        there = None if last is None else self.placed_pass.measuring(last, least)
        return Measuring(
            lambda: _measured(*found(), None if there is None else there()[0], shared)
        )

    def measure_trained(
        self, scores: ScoreArray, cut: DecisionCut, fold: int | None = None
    ) -> Measured | Measuring:
        """The same on the rows trained on, or on those of the booster that leaves out a fold."""
        rows = self.trained if fold is None else self.without_folds[fold][0]
        least, shared = self._least(cut), self._shared(scores, cut, fold)
        if self.device is None:
            return _measured(*rows.measure(scores, least), shared=shared)
        found = rows.measuring(scores, least)
        return Measuring(lambda: _measured(*found(), shared=shared))

    def unknown(
        self, trained: FloatArray, out_of_fold: FloatArray, known: FloatArray, share: float
    ) -> FloatArray:
        """Decisions of a booster about rows that it does not know.

        Of the rows that it would be wrong about, one that knows their labels is right about a part
        rho. To be wrong about a row takes that none of its chances to learn it was taken, and in
        proportion to the rows there are fewer: ``1 - rho`` of few rows is ``(1 - rho) ** share``
        of more. Where rho is small that is Burman's correction, ``share * rho``.
        """
        every, n = self.layout.measured.all, self.layout.measured.weights.size
        right = every.labels == 1
        wrong = np.where(right, every.weights - out_of_fold, out_of_fold)
        learned = np.where(right, known - out_of_fold, out_of_fold - known)
        rho = np.clip(learned / np.maximum(wrong, np.finfo(float).tiny), 0.0, 1.0)
        small = rho < 1e-6
        kept = (1.0 - (1.0 - rho) ** share) / np.where(small, 1.0, rho)
        out: FloatArray = trained + np.where(small, share, kept) * (out_of_fold - known)
        # Parts of cells may have corrected weights, below 0 too.
        out[:, :n] = np.clip(out[:, :n], 0.0, every.weights[:n])
        return out

    def _shared(
        self, scores: ScoreArray, cut: DecisionCut, fold: int | None = None
    ) -> FloatArray | None:
        """Positive decisions in groups that rows belong to by weights, if there are any."""
        cells = self.layout.measured
        if not cells.shared:
            return None
        decided = scores >= np.float64(self._least(cut))  # in double precision, as in C
        decided = decided if self.device is None else self.device.get(decided)
        if fold is not None:  # of the rows of this fold none
            of_others, decided = decided, np.zeros(len(cells.codes), bool)
            decided[self.layout.holdout.folds != fold] = of_others
        return cells.shared_weight_of(decided, self.layout.measured_weight)[np.newaxis]

    def loss(self, scores: ScoreArray, cut: DecisionCut) -> float:
        """The loss on the rows trained on."""
        return self.trained.measure(scores, cut.threshold)[1]

    def descend(self, scores: ScoreArray, cut: DecisionCut, weights: Weights) -> Slopes:
        """Gradient and Hessian of the rows trained on."""
        return self._descend(self.trained, scores, cut, weights)

    def descend_without(
        self, fold: int, scores: ScoreArray, cut: DecisionCut, weights: Weights
    ) -> Slopes:
        """The same for the booster that leaves out a fold."""
        rows, memberships = self.without_folds[fold]
        soft = [
            MemberWeights(known, s.on_groups)
            for known, s in zip(memberships, weights.soft, strict=True)
        ]
        return self._descend(rows, scores, cut, Weights(weights.on_cells, soft))

    def descend_and_sum(self, scores: ScoreArray, cut: DecisionCut, weights: Weights) -> Slopes:
        """The same with the sums of decisions and of their proxies by cell."""
        rows = self.trained
        sums, line = rows.evaluate(scores, self._least(cut), self._signed(weights.on_cells))
        loss = float(rows.loss_weight @ sums.loss)
        smooth, measured = np.stack([sums.up, sums.down]), sums.positive[np.newaxis]
        return Slopes(
            rows.gradient,
            rows.hessian,
            loss,
            smooth,
            Measured(measured, loss),
            made_of=line,
            total=rows.total_of_gradient,
        )

    def corrected(self, slopes: Slopes, weights: Weights) -> Slopes | None:
        """The gradient that ``descend_and_sum`` made, with other weights."""
        done = self.trained.correct(slopes.made_of, self._signed(weights.on_cells))
        return slopes if done else None

    def figures(self, sums: FloatArray, cut: DecisionCut) -> dict[str, float]:
        """Accuracy on the measured rows, and the threshold as a probability."""
        (positive,), measured = sums, self.layout.measured
        right = np.where(self.positive_cells, positive, measured.weights - positive)
        accuracy = float(self.shares @ right / measured.total_weight)
        return {"held-out accuracy": accuracy, "threshold": probability_of(cut.threshold)}

    def summary(self) -> BinarySummary:
        """What the measured rows come to."""
        placed = self._placed or self.layout.measured
        return BinarySummary(
            self.layout.measured.without_rows(),
            placed.without_rows(),
            self.task.point,
            self.task.label_weights,
            self.layout.holdout.measured_labels,
        )

    @property
    def _placed(self) -> Cells | None:
        return self.layout.holdout.placed

    def _least(self, cut: DecisionCut) -> float:
        return cut.threshold if self.task.least is None else self.task.least

    def _without(self, rows: IntArray) -> tuple[RowPass, list[Float32Array]]:
        """The rows of a booster that leaves out a fold, and the memberships of these."""
        layout, weight = self.layout, self.layout.sample_weight
        weight = None if weight is None else weight[rows]
        codes = layout.cells.codes[rows]
        known = [probabilities[rows] for probabilities in layout.memberships.values()]
        return self._pass(codes, layout.holdout.trained_labels, weight), known

    def _pass(
        self, codes: IntArray, factors: tuple[float, float], weight: Float32Array | None
    ) -> RowPass:
        """A pass over rows given by their cells."""
        loss_weight = np.asarray(self.task.label_weights) * np.asarray(factors)
        return RowPass(codes, self.layout.cells.labels, loss_weight, weight, self.rules)

    def _descend(
        self, rows: RowPass, scores: ScoreArray, cut: DecisionCut, weights: Weights
    ) -> Slopes:
        signed, soft = self._signed(weights.on_cells), _by_group(weights.soft)
        told = scores, cut.threshold, signed, soft
        if self.device is not None and rows.is_fused:
            return Slopes(rows.gradient, rows.hessian, math.nan, ended=rows.descending(*told))
        loss = rows.descend(*told)
        return Slopes(rows.gradient, rows.hessian, loss, total=rows.total_of_gradient)

    def _signed(self, on_cells: FloatArray) -> Sequence[FloatArray]:
        """Weights on either decision, none of them negative in the convex form."""
        up, down = on_cells
        if not self.task.convex:
            return up, down
        return (
            np.maximum(up, 0.0) + np.maximum(-down, 0.0),
            np.maximum(down, 0.0) + np.maximum(-up, 0.0),
        )


def _measured(
    positive: FloatArray,
    loss: float,
    decided: FloatArray | None = None,
    shared: FloatArray | None = None,
) -> Measured:
    placed = None if decided is None else decided[np.newaxis]
    return Measured(positive[np.newaxis], loss, placed, shared)


def _by_group(soft: Sequence[MemberWeights]) -> list[SoftWeights]:
    """Weights on both decisions of label 0, then of label 1, as compiled code takes them."""
    return [SoftWeights(s.memberships, s.on_groups.reshape(len(s.on_groups), 4)) for s in soft]


@dataclass(frozen=True)
class BinarySummary:
    """What is kept of the measured rows when they are gone.

    Parameters
    ----------
    measured, placed : Cells
        The rows that rates were measured on, and on which the threshold was placed; by cell.
    point : OperatingPoint, optional
        What the threshold followed from.
    label_weights, label_factors : (float, float)
        Factors on the loss of either class: the user's, and what makes up for rows held out.
    """

    measured: Cells
    placed: Cells
    point: OperatingPoint | None
    label_weights: tuple[float, float]
    label_factors: tuple[float, float]

    n_classes = None  # but two labels

    @property
    def untrained_loss(self) -> float:
        """Held-out loss of a model that gives everyone the same probability."""
        cells = self.measured
        factors = (np.asarray(self.label_weights) * np.asarray(self.label_factors))[cells.labels]
        weights = np.bincount(cells.labels, factors * cells.weights, minlength=2)
        share = weights / weights.sum()
        return float(-(weights @ np.log(np.maximum(share, 1e-15))) / cells.total_weight)

    @property
    def rows(self) -> float:
        """As many rows of equal weight tell as much as those that rates were measured on."""
        shares = np.asarray(self.label_factors)[self.measured.labels]
        squares = float(shares**2 @ self.measured.squares)
        return float(self.measured.total_weight**2 / squares)

    def shown_figures(self, held_out: bool) -> list[str]:
        """Figures that the other columns of a trace, or the parameters, do not say already."""
        return ["held-out accuracy"] * held_out + ["threshold"] * (self.point is not None)

    def balanced_errors(self, sums: FloatArray) -> FloatArray:
        """Mean of the false positive and false negative rate of everyone, of each iterate.

        Parameters
        ----------
        sums : (n_iterates, 1, n_cells) float64
            As measured in each round.
        """
        positive, total, labels = sums[:, 0], self.measured.weights, self.measured.labels
        share = [
            positive[:, counts].sum(axis=1) / max(total[counts].sum(), 1e-300)
            for counts in (labels == 0, labels == 1)
        ]
        out: FloatArray = (share[0] + 1.0 - share[1]) / 2
        return out

    def decision_costs(self, sums: FloatArray, threshold: float) -> tuple[FloatArray, float]:
        """Mean cost of the wrong decisions of each iterate, and the standard error of the least.

        At a probability of t as threshold, a false positive costs t and a false negative 1 - t.

        Parameters
        ----------
        sums : (n_iterates, 1, n_cells) float64
            As measured in each round.
        threshold : float
            In log-odds.
        """
        rows, factors = self.measured, np.asarray(self.label_factors) * self.label_weights
        t = probability_of(threshold)
        price = np.where(rows.labels == 1, 1.0 - t, t) * factors[rows.labels]
        wrong = np.where(rows.labels == 1, rows.weights - sums[:, 0], sums[:, 0])
        costs, squares = (wrong @ price**k / rows.total_weight for k in (1, 2))
        least = int(costs.argmin())
        told = rows.weights.sum() ** 2 / rows.squares.sum()
        variance = max(float(squares[least] - costs[least] ** 2), 0.0)
        return costs, math.sqrt(variance / told)

    def squares(self, sums: FloatArray) -> None:
        """Of zeros and ones, squares say nothing more."""

    def variances(self, terms: Any, found: Any) -> tuple[()]:
        """Those of shares follow from them."""
        return ()

    def quantities(self, sums: FloatArray) -> FloatArray:
        """Sums of positive and negative decisions, (2, n_cells)."""
        # They may go on over parts of cells in groups that rows belong to by weights.
        return np.concatenate([sums, self.measured.all.weights[: sums.shape[1]] - sums])

    def realised(self, cut: DecisionCut, placed: FloatArray) -> RealisedRate | None:
        """What the operating point came to in a round, given what was measured where placed."""
        if self.point is None:
            return None
        return realise(self.point, cut.threshold, self.placed, placed[0])
