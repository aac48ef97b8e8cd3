"""The loops of ``loops_classes.h`` in NumPy; the others are in ``numpy_loops.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray, ScoreArray

LOWEST = -700.0
"""Exponents below it are taken for it, as in C."""


def softmax(scores: ScoreArray) -> FloatArray:
    """Probabilities of classes."""
    return _exponentials(scores)[1]


def decide(scores: ScoreArray, costs: FloatArray | None) -> IntArray:
    """The class of the largest score, or of the least expected cost; of equal ones the first."""
    if costs is None:
        return np.asarray(scores.argmax(axis=1))
    return np.asarray((softmax(scores) @ costs).argmin(axis=1))


def descend_classes(g: Any, rows: slice, k: int) -> None:
    """Gradient and Hessian of a block of rows, and its loss."""
    cells = g.cells[rows]
    label, weight = g.label[cells], _weight(g, rows)
    in_loss = weight if g.factor is None else weight * g.factor[label][:, np.newaxis]
    shifted, p = _exponentials(g.scores[rows])
    gradient, hessian = p.copy(), g.curvature * p * (1.0 - p)
    gradient[np.arange(len(p)), label] -= 1.0
    gradient, hessian = in_loss * gradient, in_loss * hessian
    if g.table is not None:
        on = g.table[cells]
        for memberships, on_groups in g.soft:
            on = on + np.einsum("ng,ngk->nk", memberships[rows], on_groups[label])
        push, bend = pushed(g, p, on)
        gradient += weight * push
        hessian += weight * bend
    g.gradient[rows], g.hessian[rows] = gradient, hessian
    g.loss[k] = _loss(shifted, label, in_loss)


def pushed(g: Any, p: FloatArray, on: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First and second derivative, by each score, of what constraints weigh on decisions.

    Parameters
    ----------
    g : namespace
        ``costs``, ``sharpness`` and ``cost_sharpness``.
    p, on : (n, n_classes) float64
        Probabilities, and weights on the decision for each class.
    """
    if g.costs is None:
        s = p**g.sharpness
        s /= s.sum(axis=1, keepdims=True)
        away = g.sharpness * s * (on - (on * s).sum(axis=1, keepdims=True))
        return away, 2.0 * g.sharpness * np.maximum(away * (1.0 - 2.0 * s), 0.0)
    expected = p @ g.costs
    s = softmax(-g.cost_sharpness * expected)
    by_cost = -g.cost_sharpness * s * (on - (on * s).sum(axis=1, keepdims=True))
    # d expected_k / d f_m = p_m (C_mk - expected_k)
    through = p * (by_cost @ g.costs.T - (by_cost * expected).sum(axis=1, keepdims=True))
    return through, 2.0 * g.sharpness * np.abs(through)


def measure_classes(g: Any, rows: slice, k: int) -> None:
    """Weight of decisions of a block by cell and class, and its loss."""
    cells, scores = g.cells[rows].astype(np.int64), g.scores[rows]
    label, weight = g.label[cells], _weight(g, rows)
    in_loss = weight if g.factor is None else weight * g.factor[label][:, np.newaxis]
    at = cells * g.n_classes + decide(scores, g.costs)
    by = np.broadcast_to(weight, (len(cells), 1))[:, 0]
    g.sums[k] = np.bincount(at, by, g.sums[k].size).reshape(g.sums[k].shape)
    g.loss[k] = _loss(_exponentials(scores)[0], label, in_loss)


def _weight(g: Any, rows: slice) -> Any:
    """Weights of rows, as a column."""
    return np.ones((1, 1)) if g.weight is None else g.weight[rows, np.newaxis]


def _exponentials(scores: ScoreArray) -> tuple[FloatArray, FloatArray]:
    """Scores less the largest of each row, and probabilities."""
    shifted = scores.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    p = np.exp(np.maximum(shifted, LOWEST))
    return shifted, p / p.sum(axis=1, keepdims=True)


def _loss(shifted: FloatArray, label: IntArray, in_loss: Any) -> float:
    total = np.exp(np.maximum(shifted, LOWEST)).sum(axis=1)
    values = np.log(total) - shifted[np.arange(len(shifted)), label]
    return float((in_loss[:, 0] * values).sum())
