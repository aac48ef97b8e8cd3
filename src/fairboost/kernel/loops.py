"""Compiled loops over rows (``loops.c``): what costs time in a round, and nothing else.

The library is made when fairboost is installed (``hatch_build.py``) and called by ctypes, which
lets the interpreter's lock go. It knows nothing of Python: :class:`Rows` is all they share.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray, ScoreArray
from fairboost.kernel.threads import Threads

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_DESCEND, _LOOK, _SUM_AND_DESCEND, _CORRECT = range(4)
_LONG, _REAL, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Soft(ctypes.Structure):
    """Groups known by their probabilities, as ``loops.c`` has them."""

    _fields_ = (("memberships", _ARRAY), ("on_groups", _ARRAY), ("n_groups", _LONG))


class Rows(ctypes.Structure):
    """What is to be done with which arrays, as ``loops.c`` has it."""

    _fields_ = (
        *(("task", _LONG), ("n", _LONG), ("block", _LONG), ("next", _LONG), ("wide", _LONG)),
        *(("n_cells", _LONG), ("cells", _ARRAY), ("cells_size", _LONG)),
        *(("scores", _ARRAY), ("scores_size", _LONG), ("weight", _ARRAY), ("threshold", _REAL)),
        *(("single", _LONG), ("pull", _ARRAY), ("bump", _ARRAY), ("side", _ARRAY)),
        *(("soft", ctypes.POINTER(Soft)), ("n_soft", _LONG)),
        *(("away", _ARRAY), ("scale", _ARRAY), ("shift", _ARRAY), ("curve", _ARRAY)),
        *(("gradient", _ARRAY), ("hessian", _ARRAY), ("gradient_size", _LONG)),
        *(("sums", _ARRAY), ("loss", _ARRAY)),
    )


NODE = np.dtype(
    [("at", "f4"), ("feature", "i4"), ("left", "i4"), ("right", "i4"), ("missing_right", "i4")]
)
"""A node of a tree: rows below ``at`` go left, those without a value right if ``missing_right`` is
1. Of a leaf, ``at`` is its value, and it leads to itself."""


class Fall(ctypes.Structure):
    """Rows and the tree that they are sent down, as ``loops.c`` has them."""

    _fields_ = (
        *(("n", _LONG), ("block", _LONG), ("next", _LONG), ("n_features", _LONG)),
        *(("depth", _LONG), ("table", _ARRAY), ("nodes", _ARRAY), ("scores", _ARRAY)),
    )


def _load() -> ctypes.CDLL:
    path = Path(__file__).with_name(f"libloops{_SUFFIX}")
    remedy = "install fairboost again: pip install --force-reinstall --no-deps fairboost, or "
    remedy += "pip install --editable . in a checkout"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        message = f"fairboost's compiled part, {path}, cannot be loaded ({error}); {remedy}"
        raise ImportError(message) from error
    for name, kind in (("fairboost_work", Rows), ("fairboost_fall", Fall)):
        getattr(library, name).argtypes = [ctypes.POINTER(kind)]
        getattr(library, name).restype = None
    for name in ("fairboost_has_wide", "fairboost_size_of_rows", "fairboost_size_of_fall"):
        getattr(library, name).restype = _LONG
    sizes = library.fairboost_size_of_rows(), library.fairboost_size_of_fall()
    if sizes != (ctypes.sizeof(Rows), ctypes.sizeof(Fall)):
        raise ImportError(f"fairboost's compiled part, {path}, is of another version; {remedy}")
    return library


_LIBRARY = _load()
_WIDE = _LIBRARY.fairboost_has_wide()


class Loops:
    """Loops over some rows, and the arrays that they read and fill each time.

    Parameters
    ----------
    cells : (n,) int of up to 4 bytes
        Cell of each row.
    n_cells : int
        Number of cells.
    weight : (n,) float32, or empty
        Weights of the rows.
    gradient, hessian : (n,) float32 or float64
        What is filled.
    block : int
        Rows that a thread takes at a time. Sums are added block by block, in order.
    threads : Threads
        Those that share the rows.
    """

    def __init__(
        self,
        cells: IntArray,
        n_cells: int,
        weight: NDArray[np.float32],
        gradient: NDArray[Any],
        hessian: NDArray[Any],
        block: int,
        threads: Threads,
    ) -> None:
        # Compiled code believes what it is told: a wrong length would not be an error there.
        n = len(cells)
        if n and not 0 <= cells.min() <= cells.max() < n_cells:
            raise IndexError(f"cells must be from 0 to {n_cells - 1}, found up to {cells.max()}")
        if cells.itemsize > 4 or len(weight) not in (0, n) or {len(gradient), len(hessian)} != {n}:
            raise ValueError("cells, weight, gradient and hessian must be of the same rows")
        self.threads = threads
        self.arrays = np.ascontiguousarray(cells), np.ascontiguousarray(weight, np.float32)
        self.gradient, self.hessian = gradient, hessian
        self.n_blocks = max(1, -(-n // block))
        self.rows = Rows(
            n=n,
            block=block,
            wide=_WIDE,
            n_cells=n_cells,
            cells=self.arrays[0].ctypes.data,
            cells_size=cells.itemsize,
            weight=self.arrays[1].ctypes.data if len(weight) else None,
            gradient=gradient.ctypes.data,
            hessian=hessian.ctypes.data,
            gradient_size=gradient.itemsize,
        )

    def descend(
        self,
        scores: ScoreArray,
        threshold: float,
        pull: FloatArray,
        bump: FloatArray,
        side: NDArray[np.int64],
        soft: Sequence[tuple[NDArray[np.float32], FloatArray]],
    ) -> float:
        """The default game: the logistic loss, and a sigmoid proxy of a positive decision.

        In single precision if scores and gradient are: an engine that keeps no more digits of its
        scores (XGBoost) has no use for more of a gradient.

        Parameters
        ----------
        scores : (n,) float32 or float64
            Log-odds.
        threshold : float
            Where the proxy is steepest.
        pull, bump : (n_cells,) float64
            Of each cell, weight of the loss, negative for label 1, and weight of the proxy.
        side : (n_cells,) int64
            Label of each cell, -1 where memberships weigh nothing.
        soft : sequence of ((n, n_groups) float32, (2, n_groups) float64)
            Memberships, and what groups weigh on the proxy of rows of either label.

        Returns
        -------
        float
            The loss.
        """
        scores = _as_scores(scores)
        single = scores.itemsize == self.gradient.itemsize == 4
        tables = [table.astype(np.float32 if single else np.float64) for table in (pull, bump)]
        kept = [(np.ascontiguousarray(m, np.float32), np.ascontiguousarray(o)) for m, o in soft]
        if any(len(m) != self.rows.n for m, _ in kept):
            raise ValueError(f"expected memberships of {self.rows.n:,} rows")
        groups = (Soft * len(kept))(
            *(Soft(m.ctypes.data, o.ctypes.data, m.shape[1]) for m, o in kept)
        )
        loss = np.zeros(self.n_blocks)
        self._run(
            _DESCEND, scores, threshold=threshold, single=int(single), pull=tables[0],
            bump=tables[1], side=side, soft=groups, n_soft=len(kept), loss=loss,
        )  # fmt: skip
        return float(loss.sum())

    def look(
        self, scores: ScoreArray, threshold: float, pull: FloatArray
    ) -> tuple[FloatArray, float]:
        """Weight of positive decisions by cell, and the loss."""
        sums, loss = np.zeros((self.n_blocks, len(pull))), np.zeros(self.n_blocks)
        self._run(
            _LOOK, scores, threshold=threshold, pull=pull, sums=sums,
            loss=loss,
        )  # fmt: skip
        return sums.sum(axis=0), float(loss.sum())

    def sum_and_descend(
        self,
        scores: ScoreArray,
        threshold: float,
        away: FloatArray,
        line: tuple[FloatArray, FloatArray],
        curve: FloatArray,
    ) -> FloatArray:
        """The paper's game: slopes of the loss, scaled and shifted by cell, and sums by cell.

        Returns
        -------
        FloatArray
            (n_cells, 3): weights of positive decisions, losses and scores.
        """
        sums = np.zeros((self.n_blocks, len(away), 3))
        self._run(
            _SUM_AND_DESCEND, scores, threshold=threshold, away=away,
            scale=line[0], shift=line[1], curve=curve, sums=sums,
        )  # fmt: skip
        total: FloatArray = sums.sum(axis=0)
        return total

    def correct(self, scale: FloatArray, shift: FloatArray) -> None:
        """Scale the gradient and shift it by weight, by cell."""
        self._run(_CORRECT, None, scale=scale, shift=shift)

    def _run(
        self,
        task: int,
        scores: ScoreArray | None,
        **given: Any,
    ) -> None:
        rows = self.rows
        if scores is not None:
            if len(scores) != rows.n:
                raise ValueError(f"expected the scores of {rows.n:,} rows, found {len(scores):,}")
            scores = _as_scores(scores)
            rows.scores, rows.scores_size = scores.ctypes.data, scores.itemsize
        rows.task, rows.next, rows.sums, rows.loss, rows.n_soft = task, 0, None, None, 0
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                size = 4 if given.get("single") and name in ("pull", "bump") else 8
                assert value.itemsize == size and value.flags.c_contiguous, name
                value = value.ctypes.data
            setattr(rows, name, value)
        self.threads.run(_LIBRARY.fairboost_work, rows)


def fall(
    table: NDArray[np.float32],
    nodes: NDArray[Any],
    scores: NDArray[np.float32],
    block: int,
    threads: Threads,
) -> None:
    """Send rows down a tree, and add the values of the leaves they come to.

    Parameters
    ----------
    table : (n, n_features) float32
        The rows; NaN is a missing value.
    nodes : (n_nodes,) NODE
        The tree; the first node is its root.
    scores : (n,) float32
        What is added to.
    block : int
        Rows that a thread takes at a time.
    threads : Threads
        Those that share the rows.
    """
    # Compiled code believes what it is told.
    arrays = (table, np.float32), (nodes, NODE), (scores, np.float32)
    if any(a.dtype != kind or not a.flags.c_contiguous for a, kind in arrays):
        raise ValueError("table, nodes and scores must be contiguous, in single precision")
    if len(scores) != len(table):
        raise ValueError(f"expected the scores of {len(table):,} rows, found {len(scores):,}")
    left, right, feature = (nodes[name] for name in ("left", "right", "feature"))
    if (
        min(left.min(), right.min(), feature.min()) < 0
        or max(left.max(), right.max()) >= len(nodes)
        or feature.max() >= table.shape[1]
    ):
        raise IndexError("the nodes lead to others, or read features, that there are not")
    depth, reached = 0, np.zeros(1, np.int32)
    while len(reached := reached[left[reached] != reached]):
        reached = np.concatenate([left[reached], right[reached]])
        depth += 1
        if depth > len(nodes):
            raise ValueError("the nodes are no tree: some lead back to where they came from")
    rows = Fall(
        n=len(table),
        block=block,
        n_features=table.shape[1],
        depth=depth,
        table=table.ctypes.data,
        nodes=nodes.ctypes.data,
        scores=scores.ctypes.data,
    )
    threads.run(_LIBRARY.fairboost_fall, rows)


def _as_scores(scores: ScoreArray) -> ScoreArray:
    """Scores as compiled code takes them."""
    if scores.dtype in (np.float32, np.float64) and scores.flags.c_contiguous:
        return scores
    return np.ascontiguousarray(scores, np.float64)
