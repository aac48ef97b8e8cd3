"""The loops of ``loops_numbers.h`` in NumPy; the others are in ``numpy_loops.py``.

Losses are those of :mod:`fairboost.kernel.losses`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.kernel.losses import LOSSES, Loss, LossName

# As in loops_numbers.h.
READS_PREDICTION, READS_ACTUAL, READS_LOSS, READS_WEIGHT = (1 << bit for bit in range(4))


def descend_numbers(g: Any, rows: slice, k: int) -> None:
    """Gradient and Hessian of a block of rows, and its loss."""
    loss, scores, y = _loss(g), g.scores[rows].astype(np.float64), g.target[rows]
    slope, bend = loss.slopes(scores, y, g.closest)
    push, more = np.zeros((2, len(y)))
    interval = _intervals(g, rows, scores)
    if g.at_prediction >= 0:
        on = _weigh(g, rows, g.at_prediction + g.by_interval * interval)
        push = _pushed(g, loss, rows, scores, on) if loss.log_link else on
        more = np.abs(push) if loss.log_link else more
    if g.at_loss >= 0:
        on = g.of_deviance * _weigh(g, rows, g.at_loss + 0 * interval) * _of(g.rate, rows)
        push, more = push + on * slope, more + np.maximum(on, 0.0) * bend
    if g.at_steps >= 0:
        plain = scores - (0.0 if g.offset is None else g.offset[rows])
        near = np.clip((plain - g.knots[interval]) * g.narrow[interval], 0.0, 1.0)
        first = g.at_steps + interval
        on = (1.0 - near) * _weigh(g, rows, first) + near * _weigh(g, rows, first + 1)
        push = push + g.spread * _curvature(loss, scores) * on
    in_loss, in_moments = _of(g.loss_weight, rows), _of(g.weight, rows)
    g.gradient[rows] = in_loss * slope + in_moments * push
    g.hessian[rows] = in_loss * bend + in_moments * more
    g.loss[k] = (in_loss * loss.value(scores, y)).sum()


def measure_numbers(g: Any, rows: slice, k: int) -> None:
    """Sums of a block by cell and interval, and its loss."""
    loss, scores, y = _loss(g), g.scores[rows].astype(np.float64), g.target[rows]
    values, rate, weight = loss.value(scores, y), _of(g.rate, rows), _of(g.weight, rows)
    g.loss[k] = (_of(g.loss_weight, rows) * values).sum()
    expected, actual = _predictions(g, rows, scores), y * rate
    error = g.of_deviance * values * rate
    summed = [np.ones(len(y))] * bool(g.reads & READS_WEIGHT)
    summed += [expected, expected**2] * bool(g.reads & READS_PREDICTION)
    summed += [actual, actual**2, actual * expected] * bool(g.reads & READS_ACTUAL)
    summed += [error, error**2] * bool(g.reads & READS_LOSS)
    at = g.cells[rows].astype(np.int64) * (g.n_levels + 1) + _intervals(g, rows, scores)
    shape = g.n_cells, g.n_levels + 1
    for column, quantity in enumerate(summed):
        found = np.bincount(at, weight * quantity, shape[0] * shape[1])
        g.sums[k, :, :, column] = found.reshape(shape)


def _pushed(g: Any, loss: Loss, rows: slice, scores: FloatArray, on: FloatArray) -> FloatArray:
    """What weights on predictions push rows by, up no further than they can be held."""
    push, weight = on * _predictions(g, rows, scores), _of(g.weight, rows)
    least = -g.most_up * _of(g.loss_weight, rows) * np.exp((2.0 - loss.power) * scores)
    # A row that weighs nothing is pushed by nothing.
    held = least / np.where(weight > 0, weight, 1.0)
    return np.where(weight * push < least, held, push)


def _loss(g: Any) -> Loss:
    name: LossName = LOSSES[g.kind]
    return Loss(name, g.shape, float(np.log(g.stepped)))


def _of(column: Any, rows: slice) -> Any:
    """Some rows of a column; 1 where there is none."""
    return 1.0 if column is None else column[rows].astype(np.float64)


def _predictions(g: Any, rows: slice, scores: FloatArray) -> FloatArray:
    loss = _loss(g)
    return loss.prediction(scores) * _of(g.rate, rows) if loss.log_link else scores


def _curvature(loss: Loss, scores: FloatArray) -> FloatArray | float:
    """What steps are in proportion to; the rest of it is in ``spread``."""
    if loss.name not in ("poisson", "tweedie"):
        return 1.0
    out: FloatArray = np.exp((1.0 if loss.name == "poisson" else 2.0 - loss.shape) * scores)
    return out


def _intervals(g: Any, rows: slice, scores: FloatArray) -> IntArray:
    """Between which thresholds each row lies; one that is no number is above none."""
    if not g.n_levels:
        return np.zeros(len(scores), np.int64)
    plain = scores - (0.0 if g.offset is None else g.offset[rows])
    found = np.searchsorted(g.levels, plain, side="right")
    return np.where(np.isnan(plain), 0, found)


def _weigh(g: Any, rows: slice, column: IntArray) -> FloatArray:
    """What constraints weigh on each row, given the column of the table that it reads."""
    out: FloatArray = g.table[g.cells[rows], column]
    for memberships, on_groups in g.soft:
        out = out + np.einsum(
            "ig,gi->i", memberships[rows].astype(np.float64), on_groups[:, column]
        )
    return out
