"""What a task is: the seam between the game and what is trained.

A **task** says what a score is (one column or several), the loss and its link, how decisions are
made, which quantities moments are means of, and how far these are off by chance. The game
(:mod:`fairboost.algorithm.game`) knows no more of a task than is written here, and a task knows
nothing of multipliers. :mod:`fairboost.tasks.binary` is the first.

A task brings **passes**: what can be done with the scores of the rows of a training. In each round
the game asks for a few of them, and hands over what constraints weigh on the quantities of a row,
by cell, as the multipliers say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from fairboost._typing import FloatArray, IntArray, ScoreArray

Cut: TypeAlias = Any
"""Where decisions are made in a round: whatever the task needs to know of it."""


@dataclass(frozen=True)
class Measured:
    """What was measured on some rows: nothing but sums.

    Parameters
    ----------
    sums : (n_sums, n_cells) float64
        Exact sums by cell, as few as the task's quantities follow from: they travel between
        machines.
    loss : float
        The loss, summed over all rows.
    placed : (n_sums, n_cells) float64, optional
        The same sums over the rows on which decisions are placed, where these are others.
    shared : (n_sums, n_parts) float64, optional
        The same sums over each cell's part in groups that rows belong to by weights, in the order
        of :attr:`fairboost.data.cells.Cells.all`.
    """

    sums: FloatArray
    loss: float
    placed: FloatArray | None = None
    shared: FloatArray | None = None

    def settled(self) -> Measured:
        """The same, once it is known."""
        return self

    @property
    def every(self) -> FloatArray:
        """The sums by cell, and after them those by part of a cell."""
        return self.sums if self.shared is None else np.hstack([self.sums, self.shared])


def of_the_kept(
    trained: Measured,
    out_of_fold: Measured,
    others: Sequence[Measured],
    unknown: Callable[..., FloatArray],
    power: float = 1.0,
) -> Measured:
    """What cross-fitting says of the booster that is kept, which leaves out no fold.

    Out of fold, rows are seen by boosters that each leave out a fold, and the one that is kept is
    another: it knows more rows, and has luck of its own. Both show in its sums over the rows that
    it is trained on, but there it knows the answers. How much that is worth to a booster follows
    from those that leave out a fold: they decide about each row with and without knowing it. So
    the sums of the booster that is kept are taken, less the worth of knowing, as in the bias
    correction of cross-validation (Burman, Biometrika 1989).

    Parameters
    ----------
    trained : Measured
        The booster that is kept, on all rows.
    out_of_fold : Measured
        Each row by the booster that leaves it out.
    others : sequence of Measured
        Each of these boosters on the rows that it is trained on.
    unknown : callable
        :meth:`PassesOfTheKept.unknown`.
    power : float
        :attr:`fairboost.engines.port.Engine.label_power`.
    """
    n = len(others)
    share = ((n - 1) / n) ** power  # each row matters so much less to the one that has all
    known = np.sum([m.every for m in others], axis=0) / (n - 1)
    loss = sum(m.loss for m in others) / (n - 1)
    sums = unknown(trained.every, out_of_fold.every, known, share)
    of_cells, of_parts = np.split(sums, [out_of_fold.sums.shape[1]], axis=1)
    return replace(
        out_of_fold,
        sums=of_cells,
        shared=None if out_of_fold.shared is None else of_parts,
        loss=trained.loss + share * (out_of_fold.loss - loss),
    )


@dataclass(frozen=True)
class Measuring:
    """What a GPU has begun to measure.

    Parameters
    ----------
    ended : callable
        Waits for the device, and returns what was measured.
    """

    ended: Callable[[], Measured]

    def settled(self) -> Measured:
        """What was measured."""
        return self.ended()


@dataclass(frozen=True)
class MemberWeights:
    """What constraints weigh on rows that are known by the probability of their group.

    Parameters
    ----------
    memberships : (n, n_groups) float32
        Probability of each group, row by row.
    on_groups : (n_groups, n_labels, n_quantities) float64
        The weight on each quantity of a member of each group with each label.
    """

    memberships: Any
    on_groups: FloatArray


@dataclass(frozen=True)
class Weights:
    """What constraints weigh on the quantities of rows.

    Parameters
    ----------
    on_cells : (n_quantities, n_cells) float64
        By cell.
    soft : sequence of MemberWeights
        By the probability of groups, on top of it.
    """

    on_cells: FloatArray
    soft: Sequence[MemberWeights] = ()


@dataclass(frozen=True)
class Slopes:
    """The gradient of the proxy Lagrangian, for the engine.

    Parameters
    ----------
    gradient, hessian : (n,) or (n, n_columns) float
        Buffers that the next pass overwrites.
    loss : float
        The loss, summed over the rows.
    smooth : (n_quantities, n_cells) float64, optional
        Sums of the smooth stand-ins of the quantities, where they were asked for.
    measured : Measured, optional
        What was measured on the way.
    made_of : object
        What the task needs to correct the gradient to other weights.
    total : float, optional
        The sum of the gradient, where the pass has found it.
    ended : callable, optional
        Where a GPU has begun the pass, and the gradient may be handed on: waits for the device,
        and returns the loss and the total.
    """

    gradient: Any
    hessian: Any
    loss: float
    smooth: FloatArray | None = None
    measured: Measured | None = None
    made_of: Any = None
    total: float | None = None
    ended: Callable[[], tuple[float, float]] | None = None

    def settled(self) -> Slopes:
        """The same, once its loss is known."""
        if self.ended is None:
            return self
        loss, total = self.ended()
        return replace(self, loss=loss, total=total, ended=None)

    @property
    def is_finite(self) -> bool:
        """Whether every part of the gradient is a finite number."""
        total = self.gradient.sum() if self.total is None else self.total
        return bool(np.isfinite(total))


class Passes(Protocol):
    """A task on the rows of a training: all that a round may ask of them."""

    @property
    def task(self) -> LearningTask:
        """The task."""

    def start(self) -> Cut:
        """Where decisions are made before the first round."""

    def place(self, scores: ScoreArray, cut: Cut) -> Cut:
        """Where decisions are made, given scores of the rows that are measured."""

    def measure(self, scores: ScoreArray, cut: Cut) -> Measured | Measuring:
        """Exact sums and the loss on the rows that are measured."""

    def loss(self, scores: ScoreArray, cut: Cut) -> float:
        """The loss on the rows trained on."""

    def descend(self, scores: ScoreArray, cut: Cut, weights: Weights) -> Slopes:
        """Gradient on the rows trained on."""

    def descend_and_sum(self, scores: ScoreArray, cut: Cut, weights: Weights) -> Slopes:
        """The same with ``smooth`` and ``measured``: all rows are trained on and measured."""

    def corrected(self, slopes: Slopes, weights: Weights) -> Slopes | None:
        """The same gradient with other weights; None where that takes another pass."""

    def descend_without(self, fold: int, scores: ScoreArray, cut: Cut, weights: Weights) -> Slopes:
        """Gradient for the booster that leaves out a fold, on all other rows.

        Threads of their own may ask for several folds at a time.
        """

    def figures(self, sums: FloatArray, cut: Cut) -> Mapping[str, float]:
        """What the trace shows of a round beside losses and moments."""

    def summary(self) -> Any:
        """What is to be kept of the rows when they are gone, for the record."""


class PassesOfTheKept(Passes, Protocol):
    """What a task offers whose rates in cross-fitting are those of the booster that is kept."""

    def measure_trained(
        self, scores: ScoreArray, cut: Cut, fold: int | None = None
    ) -> Measured | Measuring:
        """The same on the rows trained on, or on those of the booster that leaves out a fold."""

    def unknown(
        self, trained: FloatArray, out_of_fold: FloatArray, known: FloatArray, share: float
    ) -> FloatArray:
        """Sums by a booster of rows that are as those it is trained on, and that it does not know.

        Parameters
        ----------
        trained : (n_sums, n_cells) float64
            Sums of the rows that it is trained on, by cell and by part of a cell.
        out_of_fold, known : (n_sums, n_cells) float64
            The same by boosters that leave out a fold, of rows that they do not know and know.
        share : float
            What a row matters to the booster in question, which knows all, over what it matters to
            these: the share of all rows that they know, or that to a power.
        """


class LearningTask(Protocol):
    """What is trained."""

    @property
    def n_quantities(self) -> int:
        """How many quantities a row has."""

    @property
    def cut_moves(self) -> bool:
        """Whether decisions are made elsewhere in every round, as the scores say."""

    @property
    def says_of_the_kept(self) -> bool:
        """Whether in cross-fitting rates are those of the booster kept (:func:`of_the_kept`).

        Else they are those of the boosters that leave out a fold.
        """

    @property
    def least_deviation(self) -> float:
        """Moments that deviate less are taken to deviate so much when a step is scaled."""

    @property
    def full_answer(self) -> float:
        """How far features must tell a group, 1 being all of it, for its multiplier to settle.

        Where they tell less, it moves faster.
        """

    @property
    def least_answer(self) -> float:
        """How far features must tell a group for its parity to be within reach."""

    @property
    def groups_pull_as_one(self) -> bool:
        """Whether a group of the share pi has the unit pi, and not min(1, pi / (1 - pi)).

        The answers of all violations to all multipliers then have no eigenvalue above 1, whatever
        the shares; with the other unit it is 2 for two groups of equal size.
        """

    def on(self, layout: Any, needs: Any) -> Passes:
        """Make ready to pass over rows; ``needs`` tells which cells' quantities are read."""

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of all quantities, (n_quantities, n_cells), from what was measured."""

    def squares_of(self, sums: FloatArray, total: FloatArray) -> FloatArray | None:
        """Sums of the squares of all quantities, where sampling errors depend on them."""

    def exact(self, moments: FloatArray) -> FloatArray:
        """Moments as they are evaluated: within the limits of their quantity."""

    def variances(self, moments: FloatArray, squares: Any, rows: FloatArray) -> FloatArray:
        """Variance of a single row's quantity, for sampling errors.

        Parameters
        ----------
        moments, squares : (n_moments,) float64
            Means of the quantity, and of its square.
        rows : (n_moments,) float64
            Rows of equal weight that would tell as much.
        """

    def deviations(self, moments: FloatArray, squares: Any, quantities: IntArray) -> FloatArray:
        """How far a single row's quantity is from its mean, in the task's own unit.

        Parameters
        ----------
        moments, squares : (n_moments,) float64
            Means of the quantity, and of its square.
        quantities : (n_moments,) int
            Which of the task's quantities each moment is of.
        """

    def stiffness(self, cut: Cut) -> float:
        """Weight that it takes to move a quantity at the cut, over that at even odds."""
