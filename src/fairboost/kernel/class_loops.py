"""The pass over rows that are given one of several classes, in C or in NumPy.

Scores and gradients are tables of rows by classes. LightGBM lays one class after the other,
XGBoost one row after the other; both are read and written as they lie, and nothing is copied. As
in :mod:`fairboost.kernel.loops`, every array is checked here before compiled code reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.kernel.library import ROOM
from fairboost.kernel.loops import Loops, checked

_F4, _F8 = np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class ClassLoss:
    """What is made of the scores of a row.

    Parameters
    ----------
    n_classes : int
        How many classes there are.
    curvature : float
        Factor of ``p (1 - p)`` in the Hessian.
    factors : (n_classes,) float32, optional
        Factors on the loss of each class.
    costs : (n_classes, n_classes) float64, optional
        Costs of giving a row of each class (lines) each class (columns), by which it is decided.
    sharpness, cost_sharpness : float
        Factors on scores, and on costs, in the smooth stand-in of a decision.
    """

    n_classes: int
    curvature: float = 1.0
    factors: Float32Array | None = None
    costs: FloatArray | None = None
    sharpness: float = 1.0
    cost_sharpness: float = 3.0


class ClassLoops:
    """Loops over some rows that are given one of several classes.

    Parameters
    ----------
    loops : Loops
        Cells, weights, blocks and threads; its gradient may be empty.
    labels : (n_cells,) int
        The class of the rows of each cell.
    loss : ClassLoss
        What is made of scores.
    """

    def __init__(self, loops: Loops, labels: IntArray, loss: ClassLoss) -> None:
        self.loops, self.loss, self.n_classes = loops, loss, loss.n_classes
        if not 1 <= loss.n_classes <= ROOM:
            raise ValueError(f"classes must be from 1 to {ROOM}, found {loss.n_classes}")
        label = np.ascontiguousarray(labels, np.int64)
        checked("labels", label, loops.shape[1:], np.dtype(np.int64))
        if label.size and not 0 <= label.min() <= label.max() < loss.n_classes:
            found = f"from {label.min()} to {label.max()}"
            raise IndexError(f"labels must be from 0 to {loss.n_classes - 1}, found {found}")
        if loss.factors is not None:
            checked("factors", loss.factors, (loss.n_classes,), _F4)
        if loss.costs is not None:
            checked("costs", loss.costs, (loss.n_classes, loss.n_classes), _F8)
        loops.add({
            "n_classes": loss.n_classes, "label": label, "factor": loss.factors,
            "costs": loss.costs, "curvature": float(loss.curvature),
            "sharpness": float(loss.sharpness), "cost_sharpness": float(loss.cost_sharpness),
        })  # fmt: skip

    def descend(
        self,
        scores: ScoreArray,
        table: FloatArray | None,
        soft: Sequence[tuple[Float32Array, FloatArray]],
        into: tuple[NDArray[Any], NDArray[Any]],
    ) -> float:
        """Fill gradient and Hessian, and return the loss.

        Parameters
        ----------
        scores : (n, n_classes) float32 or float64
            The scores, in either order.
        table : (n_cells, n_classes) float64, optional
            What constraints weigh on each class that a row may be given, by cell; None for
            nothing at all.
        soft : sequence of ((n, n_groups) float32, (n_classes, n_groups, n_classes) float64)
            Probabilities of groups, and what groups weigh on each class of a row of each class.
        into : tuple of (n, n_classes) float32 or float64
            What is filled, both in the same order, whichever it is.
        """
        n, n_cells, k = self.loops.arrays["n"], self.loops.shape[1], self.n_classes
        gradient, hessian = into
        checked("gradient", gradient, (n, k), _F4, _F8, filled=True, either_order=True)
        checked("hessian", hessian, (n, k), gradient.dtype, filled=True, either_order=True)
        if by_class(gradient) != by_class(hessian):
            raise ValueError("gradient and hessian must lie in the same order")
        if table is None and len(soft):
            raise ValueError("memberships weigh on top of a table, and there is none")
        if table is not None:
            checked("table", table, (n_cells, k), _F8)
        pairs = [tuple(np.ascontiguousarray(a) for a in pair) for pair in soft]
        for memberships, on_groups in pairs:
            checked("memberships", memberships, (n, memberships.shape[-1]), _F4)
            checked("on_groups", on_groups, (k, memberships.shape[-1], k), _F8)
        loss = np.zeros(self.loops.shape[0])
        self.loops.run(
            "descend_classes", **self._scores(scores), table=table, soft=pairs, loss=loss,
            gradient=gradient, hessian=hessian, gradient_by_class=by_class(gradient),
        )  # fmt: skip
        return float(loss.sum())

    def measure(self, scores: ScoreArray) -> tuple[FloatArray, float]:
        """Weight of decisions by cell and class, (n_cells, n_classes), and the loss."""
        blocks, n_cells = self.loops.shape
        sums, loss = np.zeros((blocks, n_cells, self.n_classes)), np.zeros(blocks)
        self.loops.run("measure_classes", **self._scores(scores), sums=sums, loss=loss)
        return sums.sum(axis=0), float(loss.sum())

    def _scores(self, scores: ScoreArray) -> dict[str, Any]:
        """Scores as they lie in memory, or in order where they are scattered."""
        if not len(scores):  # on a cluster a worker may hold none, and know of no classes
            scores = scores.reshape(0, self.n_classes)
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.float64
        if scores.flags.f_contiguous and scores.flags.aligned:
            scores = np.asarray(scores, kind)
        else:
            scores = np.ascontiguousarray(scores, kind)
        shape = self.loops.arrays["n"], self.n_classes
        checked("scores", scores, shape, _F4, _F8, either_order=True)
        return {"scores": scores, "scores_by_class": by_class(scores)}


def by_class(table: NDArray[Any]) -> int:
    """1 where one class lies after the other, 0 where rows do."""
    return int(not table.flags.c_contiguous)
