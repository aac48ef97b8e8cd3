"""Several classes, one score for each: the class of the largest probability is given.

With p the softmax of the scores f of a row, y its class, and c_k what constraints weigh on its
being given class k, the gradient of a row by f_k is::

    w (p_k - [y = k]) + w B s_k (c_k - sum_q c_q s_q)

where s, the softmax of B f, is the smooth stand-in of the decision. The quantities of a row are
the decisions for each class, and last the decision for its own. The Hessian is a diagonal: that of
the engine's own loss, and the part above 0 of what the second term adds,
``B^2 s_k (1 - 2 s_k) (c_k - sum_q c_q s_q)``, twice, since all scores of a row move at once.

With a table of costs the class of least expected cost is given: B f gives way to ``-S C'p``, where
C is the table in units of its mean cost of a wrong decision, and the derivative goes through p.

Of many classes, rows are close to ties: rates move by more for the same change of scores than they
do for two. Where rows are twice as dense there, multipliers take steps half as large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.data.cells import Cells
from fairboost.fairness.costs import in_units
from fairboost.kernel.threads import Threads
from fairboost.tasks.base import Measured, Slopes, Weights
from fairboost.tasks.layout import RowLayout

RAREST = 0.002
"""Rates rarer than this are taken for this rare when the step of a multiplier is scaled."""

SHARPNESS, COST_SHARPNESS = 2.0, 6.0
"""B and S above. With B = 1 more accuracy was lost for the same gap; 3 gained nothing over 2."""

CLOSE, USUAL = 0.5, 0.5
"""Rows whose two best scores differ by less than the first are close to a tie; and their density,
per unit of score, at which multipliers take steps of full size."""

LOOKED_AT = 20_000
"""Rows, at most, that tell this density."""

BLOCK = 8_192
"""Rows that a thread takes at a time."""


@dataclass(frozen=True)
class ClassCut:
    """How dense rows are where decisions are made.

    Parameters
    ----------
    density : float
        Share of rows close to a tie, per unit of score.
    """

    density: float = USUAL

    threshold = 0.0  # there is none


@dataclass(frozen=True)
class Multiclass:
    """The task of giving one of several classes.

    Parameters
    ----------
    n_classes : int
        How many there are.
    curvature : float
        Factor of ``p (1 - p)`` in the Hessian of the engine's own loss.
    label_weights : tuple of float, optional
        Factors on the loss of each class. Rates do not know them.
    costs : (n_classes, n_classes) tuple of tuples, optional
        Costs of giving a row of each class (lines) each class (columns).
    dtype : dtype
        Precision of the gradients.
    """

    n_classes: int
    curvature: float = 1.0
    label_weights: tuple[float, ...] | None = None
    costs: tuple[tuple[float, ...], ...] | None = None
    dtype: Any = np.float32

    least_deviation = 2.0 * math.sqrt(RAREST)
    wobble = 0.004
    cut_moves = False
    point = None

    @property
    def n_quantities(self) -> int:
        """A decision for each class, and one for a row's own."""
        return self.n_classes + 1

    @property
    def unit_costs(self) -> FloatArray | None:
        """The costs in units of the mean cost of a wrong decision."""
        return None if self.costs is None else in_units(np.asarray(self.costs))

    def on(self, layout: RowLayout, needs: BoolArray) -> MulticlassPasses:
        """Make ready to pass over rows."""
        return MulticlassPasses(self, layout)

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Decisions, as they were counted."""
        return sums

    def squares_of(self, sums: FloatArray, total: FloatArray) -> None:
        """Of zeros and ones, squares say nothing more."""

    def exact(self, moments: FloatArray) -> FloatArray:
        """Shares of rows; sums of weights round."""
        return np.clip(moments, 0.0, 1.0)

    def variances(self, moments: FloatArray, squares: None, rows: FloatArray) -> FloatArray:
        """R (1 - R), as if half a row had differed where none did."""
        low = 0.5 / (rows + 1.0)
        rates = np.clip(moments, low, 1.0 - low)
        return rates * (1.0 - rates)

    def deviations(self, moments: FloatArray, squares: None, quantities: IntArray) -> FloatArray:
        """Standard deviation of a single decision, over that at even odds."""
        out: FloatArray = 2.0 * np.sqrt(moments * (1.0 - moments))
        return out

    def stiffness(self, cut: ClassCut) -> float:
        """Less where many rows are close to a tie, and with a steeper stand-in."""
        return min(1.0, USUAL / max(cut.density, USUAL)) / SHARPNESS


def decide(scores: ScoreArray, costs: FloatArray | None) -> IntArray:
    """The class of the largest score, or of the least expected cost; of equal ones the first."""
    if costs is None:
        return np.asarray(scores.argmax(axis=1))
    return np.asarray((softmax(scores) @ costs).argmin(axis=1))


def softmax(scores: ScoreArray) -> FloatArray:
    """Probabilities of classes."""
    shifted = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
    weight = np.exp(shifted)
    out: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return out


class ClassRows:
    """Rows that are passed over, with all that does not change from round to round.

    Parameters
    ----------
    task : Multiclass
        The task.
    codes : (n,) int
        Cells of the rows.
    labels : (n_cells,) int
        Class of each cell.
    weight : (n,) float32, optional
        Weights of the rows.
    memberships : sequence of (n, n_groups) float32
        Probabilities of groups.
    threads : Threads
        Those that share the rows. Sums are added up in the order of the rows: results do not
        depend on the number of threads.
    """

    def __init__(
        self,
        task: Multiclass,
        codes: IntArray,
        labels: IntArray,
        weight: Float32Array | None,
        memberships: Sequence[Float32Array],
        threads: Threads,
    ) -> None:
        self.task, self.codes, self.cell_labels = task, codes, labels
        self.labels, self.weight, self.memberships = labels[codes], weight, memberships
        self.costs, self.threads = task.unit_costs, threads
        self.in_loss = weight
        if task.label_weights is not None:
            factors = np.asarray(task.label_weights, np.float32)[self.labels]
            self.in_loss = factors if weight is None else factors * weight
        n = len(codes)
        self.blocks = [slice(lo, min(lo + BLOCK, n)) for lo in range(0, n, BLOCK)]

    def buffers(self) -> tuple[Any, Any]:
        """Room for gradient and Hessian."""
        shape = len(self.codes), self.task.n_classes
        return np.empty(shape, self.task.dtype), np.empty(shape, self.task.dtype)

    def descend(self, scores: ScoreArray, weights: Weights, into: tuple[Any, Any]) -> float:
        """Fill in gradient and Hessian; returns the loss."""
        table = own_class_folded(weights.on_cells, self.cell_labels)
        soft = [
            (known, np.stack([_folded(s.on_groups[:, j], j) for j in range(self.task.n_classes)]))
            for known, s in zip(self.memberships, weights.soft, strict=True)
        ]
        pushed = bool(table.any()) or bool(soft)

        def work(k: int) -> float:
            at = self.blocks[k]
            p, loss = self._loss(scores[at], at)
            gradient, hessian = p.copy(), self.task.curvature * p * (1.0 - p)
            gradient[np.arange(len(p)), self.labels[at]] -= 1.0
            if self.in_loss is not None:
                gradient *= self.in_loss[at, np.newaxis]
                hessian *= self.in_loss[at, np.newaxis]
            if pushed:
                on = table[self.codes[at]]
                for known, on_groups in soft:
                    on = on + np.einsum("ng,ngk->nk", known[at], on_groups[self.labels[at]])
                push, bend = self.push(scores[at], p, on)
                if self.weight is not None:
                    push *= self.weight[at, np.newaxis]
                    bend *= self.weight[at, np.newaxis]
                gradient += push
                hessian += bend
            into[0][at], into[1][at] = gradient, hessian
            return loss

        return float(sum(self.threads.each(work, len(self.blocks))))

    def push(
        self, scores: ScoreArray, p: FloatArray, on: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """First and second derivative, by each score, of what constraints weigh on decisions.

        Parameters
        ----------
        scores, p : (n, n_classes) float
            Scores and probabilities.
        on : (n, n_classes) float64
            Weights on the decision for each class.
        """
        if self.costs is None:
            s = p**SHARPNESS
            s /= s.sum(axis=1, keepdims=True)
            away = SHARPNESS * s * (on - (on * s).sum(axis=1, keepdims=True))
            return away, 2.0 * SHARPNESS * np.maximum(away * (1.0 - 2.0 * s), 0.0)
        expected = p @ self.costs
        s = softmax(-COST_SHARPNESS * expected)
        by_cost = -COST_SHARPNESS * s * (on - (on * s).sum(axis=1, keepdims=True))
        # d expected_k / d f_m = p_m (C_mk - expected_k)
        through = p * (by_cost @ self.costs.T - (by_cost * expected).sum(axis=1, keepdims=True))
        return through, 2.0 * SHARPNESS * np.abs(through)

    def measure(self, scores: ScoreArray, n_cells: int) -> Measured:
        """Weight of decisions for each class, and of those for a row's own, by cell; the loss."""
        n_classes = self.task.n_classes

        def work(k: int) -> tuple[FloatArray, float]:
            at = self.blocks[k]
            _, loss = self._loss(scores[at], at)
            codes, given = self.codes[at].astype(np.int64), decide(scores[at], self.costs)
            weight = None if self.weight is None else self.weight[at]
            where = codes * n_classes + given
            decided = np.bincount(where, weight, n_cells * n_classes)
            return decided.reshape(n_cells, n_classes).T.astype(np.float64), loss

        found = self.threads.each(work, len(self.blocks))
        decided = np.sum([sums for sums, _ in found], axis=0) if found else _none(self, n_cells)
        own = decided[self.cell_labels, np.arange(n_cells)]
        return Measured(np.vstack([decided, own]), float(sum(loss for _, loss in found)))

    def _loss(self, scores: ScoreArray, at: slice) -> tuple[FloatArray, float]:
        """Probabilities of some rows, and their loss."""
        f = scores.astype(np.float64)
        f -= f.max(axis=1, keepdims=True)
        e = np.exp(f)
        total = e.sum(axis=1)
        loss = np.log(total) - f[np.arange(len(f)), self.labels[at]]
        weighted = loss.sum() if self.in_loss is None else loss @ self.in_loss[at]
        return e / total[:, np.newaxis], float(weighted)


def _none(rows: ClassRows, n_cells: int) -> FloatArray:
    return np.zeros((rows.task.n_classes, n_cells))


def _folded(on: FloatArray, label: int) -> FloatArray:
    """Weights on decisions for each class; those on a row's own class are added to it."""
    out: FloatArray = on[:, :-1].copy()
    out[:, label] += on[:, -1]
    return out


def own_class_folded(on_cells: FloatArray, labels: IntArray) -> FloatArray:
    """The same by cell, (n_cells, n_classes), given the class of each."""
    out: FloatArray = on_cells[:-1].T.copy()
    out[np.arange(len(labels)), labels] += on_cells[-1]
    return out


class MulticlassPasses:
    """The task on the rows of a training.

    Parameters
    ----------
    task : Multiclass
        The task.
    layout : RowLayout
        The rows.
    """

    def __init__(self, task: Multiclass, layout: RowLayout) -> None:
        self.task, self.layout, holdout = task, layout, layout.holdout
        known = list(layout.memberships.values())
        self.trained = self._rows(layout.cells.codes, layout.sample_weight, known)
        self.held_out = self.trained
        if holdout.measured is not None:
            self.held_out = self._rows(holdout.measured.codes, layout.measured_weight)
        self.buffers = self.trained.buffers()
        self.looked_at, _ = layout.sample(LOOKED_AT)
        self.without_folds = [self._without(rows) for rows in holdout.rows_without_folds()]

    def start(self) -> ClassCut:
        """Nothing is known of ties yet."""
        return ClassCut()

    def place(self, scores: ScoreArray, cut: ClassCut) -> ClassCut:
        """Look how dense rows are close to ties."""
        some, close = scores[self.looked_at], 0
        if len(some):
            if self.held_out.costs is not None:  # in units of scores, nearly
                some = -COST_SHARPNESS / SHARPNESS * (softmax(some) @ self.held_out.costs)
            best = np.partition(some, -2, axis=1)[:, -2:]
            close = int(np.count_nonzero(best[:, 1] - best[:, 0] < CLOSE))
        near, rows = self.layout.all_reduce.total(np.array([close, len(some)], np.float64))
        return ClassCut(float(near / rows) / CLOSE) if rows else cut

    def measure(self, scores: ScoreArray, cut: ClassCut) -> Measured:
        """Decisions by cell, and the loss, on the rows that are measured."""
        return self.held_out.measure(scores, len(self.layout.measured))

    def loss(self, scores: ScoreArray, cut: ClassCut) -> float:
        """The loss on the rows trained on."""
        return self.trained.measure(scores, len(self.layout.cells)).loss

    def descend(self, scores: ScoreArray, cut: ClassCut, weights: Weights) -> Slopes:
        """Gradient and Hessian of the rows trained on."""
        return Slopes(*self.buffers, self.trained.descend(scores, weights, self.buffers))

    def descend_without(
        self, fold: int, scores: ScoreArray, cut: ClassCut, weights: Weights
    ) -> Slopes:
        """The same for the booster that leaves out a fold."""
        rows, buffers = self.without_folds[fold]
        return Slopes(*buffers, rows.descend(scores, weights, buffers))

    def descend_and_sum(self, scores: ScoreArray, cut: ClassCut, weights: Weights) -> Slopes:
        """The paper's form is for two labels, and estimators refuse it for more."""
        raise NotImplementedError

    def corrected(self, slopes: Slopes, weights: Weights) -> Slopes | None:
        """Other weights take another pass."""
        return None

    def figures(self, sums: FloatArray, cut: ClassCut) -> dict[str, float]:
        """Accuracy on the measured rows."""
        return {"held-out accuracy": float(sums[-1].sum() / self.layout.measured.total_weight)}

    def summary(self) -> MulticlassSummary:
        """What the measured rows come to."""
        measured = self.layout.measured.without_rows()
        return MulticlassSummary(measured, self.task.n_classes, self.task.label_weights)

    def _rows(
        self, codes: IntArray, weight: Any, memberships: Sequence[Float32Array] = ()
    ) -> ClassRows:
        layout = self.layout
        return ClassRows(
            self.task, codes, layout.cells.labels, weight, memberships, layout.threads
        )

    def _without(self, rows: IntArray) -> tuple[ClassRows, tuple[Any, Any]]:
        """The rows of a booster that leaves out a fold, and room for their gradient."""
        layout, weight = self.layout, self.layout.sample_weight
        kept = self._rows(
            layout.cells.codes[rows],
            None if weight is None else weight[rows],
            [known[rows] for known in layout.memberships.values()],
        )
        return kept, kept.buffers()


@dataclass(frozen=True)
class MulticlassSummary:
    """What is kept of the measured rows when they are gone.

    Parameters
    ----------
    measured : Cells
        The rows that rates were measured on, by cell.
    n_classes : int
        How many classes there are.
    label_weights : tuple of float, optional
        Factors on the loss of each class.
    """

    measured: Cells
    n_classes: int
    label_weights: tuple[float, ...] | None

    point = None
    label_factors = None

    @property
    def untrained_loss(self) -> float:
        """Held-out loss of a model that gives everyone the same probabilities."""
        weights = self._by_class(self.measured.weights)
        if self.label_weights is not None:
            weights = weights * np.asarray(self.label_weights)
        share = np.maximum(weights / weights.sum(), 1e-15)
        return float(-(weights @ np.log(share)) / self.measured.total_weight)

    @property
    def rows(self) -> float:
        """As many rows of equal weight tell as much as those that rates were measured on."""
        return float(self.measured.total_weight**2 / self.measured.squares.sum())

    def shown_figures(self, held_out: bool) -> list[str]:
        """Figures that the other columns of a trace do not say already."""
        return ["held-out accuracy"] * held_out

    def balanced_errors(self, sums: FloatArray) -> FloatArray:
        """Mean over classes of the share that is given another, of each iterate.

        Parameters
        ----------
        sums : (n_iterates, n_classes + 1, n_cells) float64
            As measured in each round.
        """
        total = np.maximum(self._by_class(self.measured.weights), 1e-300)
        right = np.stack([self._by_class(own) for own in sums[:, -1]])
        out: FloatArray = 1.0 - (right / total).mean(axis=1)
        return out

    def quantities(self, sums: FloatArray) -> FloatArray:
        """Sums of all quantities by cell."""
        return sums

    def squares(self, sums: FloatArray) -> None:
        """Of zeros and ones, squares say nothing more."""

    def variances(self, terms: Any, found: Any) -> tuple[()]:
        """Those of shares follow from them."""
        return ()

    def realised(self, cut: ClassCut, placed: FloatArray) -> None:
        """There is no operating point."""

    def _by_class(self, by_cell: FloatArray) -> FloatArray:
        return np.bincount(self.measured.labels, by_cell, self.n_classes).astype(np.float64)
