"""The loops of ``loops.c`` in NumPy: for machines without the library, and to compare it with.

Results are equal up to rounding: to 1e-12 in double precision, and to single precision where
``loops.c`` computes in single precision. They take several times as long. Names and formulas are
those of ``loops.c``, and so are the blocks of rows, which threads share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost.kernel.numpy_class_loops import descend_classes, measure_classes
from fairboost.kernel.numpy_number_loops import descend_numbers, measure_numbers
from fairboost.kernel.threads import Threads


def prepare(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arrays that are the same in every pass over some rows, as they are."""
    return arrays


def run(task: str, prepared: Mapping[str, Any], given: Mapping[str, Any], threads: Threads) -> int:
    """Do a task of ``library.TASKS``; return the number of threads that took part."""
    return _each_block(_TASKS[task], SimpleNamespace(**{**prepared, **given}), threads)


def fall(given: Mapping[str, Any], threads: Threads) -> int:
    """Send rows down a tree; return the number of threads that took part."""
    return _each_block(_fall, SimpleNamespace(**given), threads)


def _each_block(work: Callable[[Any, slice, int], None], g: Any, threads: Threads) -> int:
    def one(k: int) -> int:
        with np.errstate(all="ignore"):  # C does not warn
            work(g, slice(k * g.block, (k + 1) * g.block), k)
        return threading.get_ident()

    return len(set(threads.each(one, -(-g.n // g.block))))


def _descend(g: Any, rows: slice, k: int) -> None:
    real = np.float32 if g.single else np.float64
    cells, f, w = _read(g, rows, real)
    pull, step = g.pull[cells] * w, g.bump[cells] * w
    bend = np.abs(step)
    if g.soft:
        side, own = g.side[cells], np.zeros_like(step)
        for memberships, on_groups in g.soft:
            total = np.einsum("ig,ig->i", memberships[rows], on_groups[side])
            own += np.where(side < 0, 0.0, total * w).astype(real)
        step += own
        bend += np.abs(own)
    _, far, near = _sides(f - real(g.threshold))
    slope = near * far
    step *= slope
    bend *= slope * (far - near)
    small, far, near = _sides(f)
    step += pull * np.where((pull >= 0) == (f >= 0), far, near)
    bend += np.abs(pull) * near * far
    g.gradient[rows], g.hessian[rows] = step, bend
    g.loss[k] = _loss(pull, f, small)


def _measure(g: Any, rows: slice, k: int) -> None:
    cells, f, w = _read(g, rows)
    g.sums[k] = np.bincount(cells, w * (f >= g.threshold), g.n_cells)
    g.loss[k] = _loss(g.pull[cells] * w, f, _sides(f)[0])


def _sum_and_descend(g: Any, rows: slice, k: int) -> None:
    cells, f, w = _read(g, rows)
    small, far, near = _sides(f)
    u = g.away[cells] * f
    g.gradient[rows] = w * (g.scale[cells] * np.where(u >= 0, far, near) + g.shift[cells])
    g.hessian[rows] = g.curve[cells] * w * near * far
    loss = np.where(u > 0, u, 0.0) + np.log1p(small)
    for column, of_row in enumerate((f >= g.threshold, loss, f)):
        g.sums[k, :, column] = np.bincount(cells, w * of_row, g.n_cells)


def _correct(g: Any, rows: slice, k: int) -> None:
    cells, gradient, w = _read(g, rows, of=g.gradient)
    g.gradient[rows] = g.scale[cells] * gradient + w * g.shift[cells]


_TASKS = {
    "descend": _descend,
    "measure": _measure,
    "sum_and_descend": _sum_and_descend,
    "correct": _correct,
    "descend_numbers": descend_numbers,
    "measure_numbers": measure_numbers,
    "descend_classes": descend_classes,
    "measure_classes": measure_classes,
}


def _fall(g: Any, rows: slice, k: int) -> None:
    table, at = g.table[rows], np.zeros(len(g.table[rows]), np.intp)
    for _ in range(g.depth):
        node = g.nodes[at]
        x = np.take_along_axis(table, node["feature"][:, None], axis=1)[:, 0]
        right = ~(x < node["at"]) & ((node["missing_right"] == 1) | (x == x))
        at = np.where(right, node["right"], node["left"])
    g.scores[rows] += g.nodes["at"][at]


def _read(g: Any, rows: slice, real: Any = np.float64, of: Any = None) -> tuple[Any, Any, Any]:
    """Cells, scores (or what else is asked for) and weights."""
    cells, values = g.cells[rows], (g.scores if of is None else of)[rows].astype(real)
    return cells, values, np.ones_like(values) if g.weight is None else g.weight[rows].astype(real)


def _sides(f: NDArray[Any]) -> tuple[Any, Any, Any]:
    """e^-|f|, and the sigmoid of |f| and of -|f|."""
    lowest = -87.0 if f.dtype == np.float32 else -700.0
    small = np.exp(np.maximum(-np.abs(f), lowest))  # NaN stays NaN: the loss must tell of it
    far = 1 / (1 + small)
    return small, far, small * far


def _loss(pull: NDArray[Any], f: NDArray[Any], small: NDArray[Any]) -> float:
    wrong = np.where((pull >= 0) == (f >= 0), np.abs(f), 0)
    return float((np.abs(pull) * (np.log1p(small) + wrong)).sum(dtype=np.float64))
