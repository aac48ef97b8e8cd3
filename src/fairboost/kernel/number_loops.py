"""The pass over rows of which a number is predicted: losses, pushes and sums, in C or in NumPy.

A row lies between two of some thresholds, in an **interval**: number 0 is below the first of
them. What constraints weigh on a row is looked up by its cell, or by its probable groups, and by
its interval; what is measured is summed by cell and interval. So it takes one pass however many
constraints and thresholds there are. As in :mod:`fairboost.kernel.loops`, every array is checked
here before compiled code reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import FloatArray, ScoreArray
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce
from fairboost.kernel.loops import Loops, checked
from fairboost.kernel.losses import LOSSES, Loss

PREDICTION, ACTUAL, LOSS, WEIGHT = (1 << bit for bit in range(4))
"""What may be read of rows, as in ``loops_numbers.h``."""

SUMS = {WEIGHT: 1, PREDICTION: 2, ACTUAL: 3, LOSS: 2}
"""The sums that each of them takes, in the order in which they are kept: weight; prediction, its
square; actual figure, its square, its product with the prediction; loss, its square."""

_F4, _F8 = np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class Intervals:
    """Where predictions are cut.

    Parameters
    ----------
    levels : (n_levels,) float64
        Thresholds in scores per unit of exposure, rising.
    knots : (n_levels + 2,) float64
        The same, and where the outer intervals end.
    """

    levels: FloatArray
    knots: FloatArray

    @property
    def narrow(self) -> FloatArray:
        """One over the width of each interval."""
        out: FloatArray = 1.0 / np.maximum(np.diff(self.knots), np.finfo(float).tiny)
        return out


@dataclass(frozen=True)
class PushTable:
    """What constraints weigh on rows.

    Parameters
    ----------
    on_cells : (n_cells, width) float64
        By cell: a column for each weight below.
    on_groups : sequence of ((n, n_groups) float32, (n_groups, width) float64)
        Probabilities of groups, and the same by group.
    prediction, loss, steps : int
        First column of the weights on the prediction, on the loss, and on a step at each knot;
        -1 where there are none.
    by_interval : bool
        Whether the prediction has a column for each interval, and not one for all.
    """

    on_cells: FloatArray
    on_groups: Sequence[tuple[NDArray[np.float32], FloatArray]] = ()
    prediction: int = -1
    loss: int = -1
    steps: int = -1
    by_interval: bool = False

    def check(self, n_levels: int) -> None:
        """Raise if a column lies outside of the table."""
        width = self.on_cells.shape[-1]
        last = {
            "prediction": self.prediction + n_levels * (self.by_interval and self.prediction >= 0),
            "loss": self.loss,
            "steps": self.steps + (n_levels + 1) * (self.steps >= 0),
        }
        for name, column in last.items():
            if getattr(self, name) < -1 or column >= width:
                raise IndexError(f"{name} reads column {column}, and there are {width}")
        if self.steps >= 0 and not n_levels:
            raise ValueError("there are steps to weigh, and no thresholds")


class NumberLoops:
    """Loops over some rows of which a number is predicted.

    Parameters
    ----------
    loops : Loops
        Cells, weights in moments, gradient, Hessian, blocks and threads.
    loss : Loss
        The loss.
    of_deviance : float
        What the loss is multiplied by where it is a moment.
    target : (n,) float64
        The numbers.
    loss_weight : (n,) float32, optional
        Weights in the loss.
    exposure : (n,) float64, optional
        What predictions are multiplied by.
    machines : AllReduce
        Those that hold rows.
    """

    def __init__(
        self,
        loops: Loops,
        loss: Loss,
        of_deviance: float,
        target: FloatArray,
        loss_weight: NDArray[np.float32] | None = None,
        exposure: FloatArray | None = None,
        machines: AllReduce = ONE_MACHINE,
    ) -> None:
        n, self.loops, self.loss = loops.arrays["n"], loops, loss
        self.machines = machines
        offset = rate = None
        if exposure is not None:
            checked("exposure", exposure, (n,), _F8)
            offset, rate = np.log(exposure), 1.0 / exposure
        target = checked("target", np.ascontiguousarray(target), (n,), _F8)
        if loss_weight is not None:
            loss_weight = np.ascontiguousarray(loss_weight)
            checked("loss_weight", loss_weight, (n,), _F4)
        self.target = target
        loops.add({
            "kind": LOSSES.index(loss.name), "shape": float(loss.shape),
            "stepped": float(np.exp(loss.step)), "of_deviance": float(of_deviance),
            "most_up": loss.most_up,
            "target": target, "base": loss.fixed_part(target) if loss.log_link else None,
            "offset": offset, "rate": rate, "loss_weight": loss_weight,
        })  # fmt: skip

    def descend(
        self, scores: ScoreArray, cut: Intervals | None, spread: float, table: PushTable
    ) -> float:
        """Fill gradient and Hessian, and return the loss.

        Parameters
        ----------
        scores : (n,) float32 or float64
            The scores, with what exposure adds to them.
        cut : Intervals, optional
            Where predictions are cut; not needed where the table has no steps and no intervals.
        spread : float
            What steps are multiplied by.
        table : PushTable
            What constraints weigh.
        """
        n, n_cells = self.loops.arrays["n"], self.loops.shape[1]
        n_levels = 0 if cut is None else len(cut.levels)
        table.check(n_levels)
        width = table.on_cells.shape[-1]
        checked("table", table.on_cells, (n_cells, width), _F8)
        soft = [tuple(np.ascontiguousarray(a) for a in pair) for pair in table.on_groups]
        for memberships, on_groups in soft:
            checked("memberships", memberships, (n, memberships.shape[-1]), _F4)
            checked("on_groups", on_groups, (memberships.shape[-1], width), _F8)
        loss = np.zeros(self.loops.shape[0])
        scores = self.loops.scores(scores)
        closest = 0.0
        if self.loss.renews_leaves:
            closest = self.loss.closest(scores - self.target, self.machines)
        self.loops.run(
            "descend_numbers", scores=scores, closest=closest, **self._cut(cut),
            spread=float(spread), width=width, table=table.on_cells, soft=soft, loss=loss,
            at_prediction=table.prediction, by_interval=int(table.by_interval),
            at_loss=table.loss, at_steps=table.steps,
        )  # fmt: skip
        return float(loss.sum())

    def measure(
        self, scores: ScoreArray, cut: Intervals | None = None, reads: int = 0
    ) -> tuple[FloatArray, float]:
        """Sums by cell and interval, and the loss.

        Parameters
        ----------
        scores, cut
            As in :meth:`descend`.
        reads : int
            What is summed: some of ``PREDICTION``, ``ACTUAL``, ``LOSS`` and ``WEIGHT``.

        Returns
        -------
        sums : (n_cells, n_levels + 1, n_sums) float64
            In the order of ``SUMS``.
        loss : float
            The loss, by its weights.
        """
        n_sums = sum(count for bit, count in SUMS.items() if reads & bit)
        n_levels = 0 if cut is None else len(cut.levels)
        blocks, n_cells = self.loops.shape
        sums, loss = np.zeros((blocks, n_cells, n_levels + 1, n_sums)), np.zeros(blocks)
        self.loops.run(
            "measure_numbers", scores=self.loops.scores(scores), **self._cut(cut), reads=reads,
            n_sums=n_sums, sums=sums, loss=loss,
        )  # fmt: skip
        return sums.sum(axis=0), float(loss.sum())

    def _cut(self, cut: Intervals | None) -> dict[str, Any]:
        if cut is None or not len(cut.levels):
            return {"n_levels": 0}
        n = len(cut.levels)
        return {
            "n_levels": n,
            "levels": checked("levels", np.ascontiguousarray(cut.levels), (n,), _F8),
            "knots": checked("knots", np.ascontiguousarray(cut.knots), (n + 2,), _F8),
            "narrow": checked("narrow", cut.narrow, (n + 1,), _F8),
        }
