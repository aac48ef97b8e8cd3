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
from fairboost.kernel.class_loops import ClassLoops, ClassLoss
from fairboost.kernel.loops import Loops
from fairboost.kernel.numpy_class_loops import softmax
from fairboost.kernel.threads import Threads
from fairboost.tasks.base import Measured, Slopes, Weights
from fairboost.tasks.layout import RowLayout

RAREST = 0.002
"""Rates rarer than this are taken for this rare when the step of a multiplier is scaled."""

SHARPNESS, COST_SHARPNESS = 1.0, 3.0
"""B and S above. With a B of 1 the stand-in is the probability itself, as it is for two labels.
Steeper ones are flat at scores where multipliers are still to move rows, and the loss then has two
valleys: rates on new rows were farther apart (``docs/algorithm.md``)."""

CLOSE, USUAL = 0.5, 0.33
"""Rows whose two best scores differ by less than the first are close to a tie; and their density,
per unit of score, up to which multipliers take steps of full size. With steps twice as large,
rates of two groups swung from round to round."""

LOOKED_AT = 20_000
"""Rows, at most, that tell this density."""

BLOCK, MOST_SUMS = 8_192, 2_000_000
"""Rows that a thread takes at a time, at least; and sums by cell, class and block that are kept
until they are added up, about: of 200 classes and 20 groups a block has 800,000."""


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
    groups_pull_as_one = True
    full_answer = 1.0  # six races were not alike within 100 rounds with less
    least_answer = 0.02
    cut_moves = False
    says_of_the_kept = False
    point = None

    @property
    def n_quantities(self) -> int:
        """A decision for each class, and one for a row's own."""
        return self.n_classes + 1

    @property
    def unit_costs(self) -> FloatArray | None:
        """The costs in units of the mean cost of a wrong decision."""
        return None if self.costs is None else in_units(np.asarray(self.costs))

    @property
    def class_loss(self) -> ClassLoss:
        """What is made of the scores of a row, for the loops."""
        factors = None
        if self.label_weights is not None:
            factors = np.asarray(self.label_weights, np.float32)
        return ClassLoss(
            self.n_classes, self.curvature, factors, self.unit_costs, SHARPNESS, COST_SHARPNESS
        )

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
        n, n_cells, nothing = len(codes), len(labels), np.empty(0, np.float32)
        self.task, self.cell_labels, self.memberships = task, labels, list(memberships)
        block = block_of(n, n_cells * task.n_classes)
        # One block is done sooner than another thread has been told of it.
        shared = threads if n > block else Threads()
        in_sums = nothing if weight is None else np.asarray(weight, np.float32)
        loops = Loops(codes, n_cells, in_sums, nothing, nothing, block, shared)
        self.loops = ClassLoops(loops, labels, task.class_loss)
        self.slopes: tuple[Any, Any] | None = None

    def buffers(self, scores: ScoreArray) -> tuple[Any, Any]:
        """Room for gradient and Hessian, in the order in which the engine lays out scores."""
        if self.slopes is None:
            dtype = self.task.dtype
            self.slopes = np.empty_like(scores, dtype), np.empty_like(scores, dtype)
        return self.slopes

    def descend(self, scores: ScoreArray, weights: Weights) -> Slopes:
        """Fill the buffers with gradient and Hessian; returns them with the loss."""
        into, n_classes = self.buffers(scores), self.task.n_classes
        table = own_class_folded(weights.on_cells, self.cell_labels)
        soft = [
            (known, np.stack([_folded(s.on_groups[:, j], j) for j in range(n_classes)]))
            for known, s in zip(self.memberships, weights.soft, strict=True)
        ]
        soft = [pair for pair in soft if pair[1].any()]
        weighs = bool(soft) or bool(table.any())
        return Slopes(*into, self.loops.descend(scores, table if weighs else None, soft, into))

    def measure(self, scores: ScoreArray) -> Measured:
        """Weight of decisions for each class, and of those for a row's own, by cell; the loss."""
        by_cell, loss = self.loops.measure(scores)
        own = by_cell[np.arange(len(by_cell)), self.cell_labels]
        return Measured(np.vstack([by_cell.T, own]), loss)


def block_of(n: int, n_sums: int) -> int:
    """Rows that a thread takes at a time: more where the sums of a block take much room."""
    return max(BLOCK, -(-n * n_sums // MOST_SUMS))


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
        self.looked_at, _ = layout.sample(LOOKED_AT)
        self.without_folds = [self._without(rows) for rows in holdout.rows_without_folds()]

    def start(self) -> ClassCut:
        """Nothing is known of ties yet."""
        return ClassCut()

    def place(self, scores: ScoreArray, cut: ClassCut) -> ClassCut:
        """Look how dense rows are close to ties."""
        some, close = scores[self.looked_at], 0
        if len(some):
            if (costs := self.task.unit_costs) is not None:  # in units of scores, nearly
                some = -COST_SHARPNESS / SHARPNESS * (softmax(some) @ costs)
            best = np.partition(some, -2, axis=1)[:, -2:]
            close = int(np.count_nonzero(best[:, 1] - best[:, 0] < CLOSE))
        near, rows = self.layout.all_reduce.total(np.array([close, len(some)], np.float64))
        return ClassCut(float(near / rows) / CLOSE) if rows else cut

    def measure(self, scores: ScoreArray, cut: ClassCut) -> Measured:
        """Decisions by cell, and the loss, on the rows that are measured."""
        return self.held_out.measure(scores)

    def loss(self, scores: ScoreArray, cut: ClassCut) -> float:
        """The loss on the rows trained on."""
        return self.trained.measure(scores).loss

    def descend(self, scores: ScoreArray, cut: ClassCut, weights: Weights) -> Slopes:
        """Gradient and Hessian of the rows trained on."""
        return self.trained.descend(scores, weights)

    def descend_without(
        self, fold: int, scores: ScoreArray, cut: ClassCut, weights: Weights
    ) -> Slopes:
        """The same for the booster that leaves out a fold."""
        return self.without_folds[fold].descend(scores, weights)

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

    def _without(self, rows: IntArray) -> ClassRows:
        """The rows of a booster that leaves out a fold."""
        layout, weight = self.layout, self.layout.sample_weight
        return self._rows(
            layout.cells.codes[rows],
            None if weight is None else weight[rows],
            [known[rows] for known in layout.memberships.values()],
        )


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
