"""Loops over rows: what costs time in a round, and nothing else.

They are in C (:mod:`fairboost.kernel.library`), or in NumPy where there is no library
(:mod:`fairboost.kernel.numpy_loops`). Compiled code believes what it is told: a table that is too
short would not be an error there. So every array is checked here, once a call.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray, ScoreArray
from fairboost.kernel import library, numpy_loops
from fairboost.kernel.library import NODE
from fairboost.kernel.threads import Threads

_F4, _F8, _I8 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_CELLS = tuple(np.dtype(name) for name in ("u1", "u2", "u4", "i1", "i2", "i4"))


class Kernel(Protocol):
    """What does the work on arrays that have been checked."""

    def prepare(self, arrays: Mapping[str, Any]) -> Any:
        """Take the arrays that are the same in every pass over some rows."""

    def run(self, task: str, prepared: Any, given: dict[str, Any], threads: Threads) -> int:
        """Do one of ``library.TASKS``; return the number of threads that took part."""

    def fall(self, given: Mapping[str, Any], threads: Threads) -> int:
        """Send rows down a tree; return the number of threads that took part."""


def kernel() -> Kernel:
    """The compiled library, or NumPy: what the environment variable FAIRBOOST_KERNEL says.

    ``c`` demands the library, ``portable`` demands it too and has it give the same bits on all
    processors, ``numpy`` does without it. By default it is the library, and NumPy with a warning
    if there is none. FAIRBOOST_LIBRARY may name another library than the one installed.
    """
    return _kernel(os.environ.get("FAIRBOOST_KERNEL", ""), os.environ.get("FAIRBOOST_LIBRARY"))


@cache  # the warning is given once
def _kernel(name: str, path: str | None) -> Kernel:
    if name not in ("", "c", "portable", "numpy"):
        expected = "expected 'c', 'portable' or 'numpy', or leave it unset"
        raise ValueError(f"FAIRBOOST_KERNEL={name!r} is unknown; {expected}")
    here = Path(path) if path else library.PATH
    if name == "numpy":
        logging.getLogger(__name__).info("passes over the rows are in NumPy, as asked for")
        return numpy_loops
    if not name and not path and not here.exists():
        warnings.warn(
            f"fairboost's compiled part, {here.name}, is missing, so NumPy does its work: models "
            "are equal up to rounding, training takes longer. To have it, install a C compiler "
            "and fairboost again; to silence this warning, set FAIRBOOST_KERNEL=numpy.",
            RuntimeWarning,
            stacklevel=2,
        )
        return numpy_loops
    return library.Library(here, fused=name != "portable")


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
    gradient, hessian : (n,) float32 or float64, or empty
        What is filled; passes that fill others are given those.
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
        n = len(cells)
        if block < 1:
            raise ValueError(f"a block must have rows, found {block}")
        cells = np.ascontiguousarray(cells)
        checked("cells", cells, (n,), *_CELLS)
        if n and not 0 <= cells.min() <= cells.max() < n_cells:
            found = f"from {cells.min()} to {cells.max()}"
            raise IndexError(f"cells must be from 0 to {n_cells - 1}, found {found}")
        weight = np.ascontiguousarray(weight)
        checked("weight", weight, (n if len(weight) else 0,), _F4)
        room = (n if len(gradient) else 0,)
        checked("gradient", gradient, room, _F4, _F8, filled=True)
        checked("hessian", hessian, room, gradient.dtype, filled=True)
        self.gradient, self.hessian = gradient, hessian
        self.threads, self.kernel = threads, kernel()
        self.shape = max(1, -(-n // block)), n_cells
        self.takers = 0  # threads that took part in the last run
        self.arrays: dict[str, Any] = {
            "n": n, "block": block, "n_cells": n_cells, "cells": cells.view(f"u{cells.itemsize}"),
            "weight": weight if len(weight) else None, "gradient": gradient, "hessian": hessian,
        }  # fmt: skip
        self.prepared = self.kernel.prepare(self.arrays)

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
        checked("side", side, self.shape[1:], _I8)
        if len(soft) and side.size and not -1 <= side.min() <= side.max() <= 1:
            raise IndexError(f"side must be -1, 0 or 1, found {np.unique(side).tolist()}")
        groups = [tuple(np.ascontiguousarray(array) for array in pair) for pair in soft]
        for memberships, on_groups in groups:
            n_groups = memberships.shape[-1]
            checked("memberships", memberships, (self.arrays["n"], n_groups), _F4)
            checked("on_groups", on_groups, (2, n_groups), _F8)
        scores = self.scores(scores)
        single = scores.itemsize == self.gradient.itemsize == 4
        tables = self._tables(pull=pull, bump=bump)
        if single:
            tables = {name: table.astype(np.float32) for name, table in tables.items()}
        loss = np.zeros(self.shape[0])
        self.run(
            "descend", scores=scores, threshold=float(threshold), single=int(single), **tables,
            side=side, soft=groups, loss=loss,
        )  # fmt: skip
        return float(loss.sum())

    def measure(
        self, scores: ScoreArray, threshold: float, pull: FloatArray
    ) -> tuple[FloatArray, float]:
        """Weight of positive decisions by cell, and the loss."""
        sums, loss = np.zeros(self.shape), np.zeros(self.shape[0])
        self.run(
            "measure", scores=self.scores(scores), threshold=float(threshold),
            **self._tables(pull=pull), sums=sums, loss=loss,
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
        sums = np.zeros((*self.shape, 3))
        self.run(
            "sum_and_descend", scores=self.scores(scores), threshold=float(threshold),
            **self._tables(away=away, scale=line[0], shift=line[1], curve=curve), sums=sums,
        )  # fmt: skip
        total: FloatArray = sums.sum(axis=0)
        return total

    def correct(self, scale: FloatArray, shift: FloatArray) -> None:
        """Scale the gradient and shift it by weight, by cell."""
        self.run("correct", **self._tables(scale=scale, shift=shift))

    def scores(self, scores: ScoreArray) -> ScoreArray:
        """Scores in the precision that they have, or in double precision."""
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.float64
        scores = np.ascontiguousarray(scores, kind)
        return checked("scores", scores, (self.arrays["n"],), _F4, _F8)

    def _tables(self, **by_cell: FloatArray) -> dict[str, NDArray[Any]]:
        """Tables that are read by the number of the cell."""
        return {name: checked(name, t, self.shape[1:], _F8) for name, t in by_cell.items()}

    def add(self, arrays: Mapping[str, Any]) -> None:
        """Take further arrays, which are checked, that are the same in every pass."""
        self.arrays |= arrays
        self.prepared = self.kernel.prepare(self.arrays)

    def run(self, task: str, **given: Any) -> None:
        """Do one of ``library.TASKS`` with arrays that are checked."""
        if not task.startswith("measure") and len(given.get("gradient", self.gradient)) < len(
            self.arrays["cells"]
        ):
            raise ValueError("there is no room for a gradient: these rows can only be measured")
        self.takers = self.kernel.run(task, self.prepared, given, self.threads)


def fall(
    table: NDArray[np.float32],
    nodes: NDArray[Any],
    scores: NDArray[np.float32],
    block: int,
    threads: Threads,
) -> int:
    """Send rows down a tree, and add the value of the leaf that each row reaches.

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

    Returns
    -------
    int
        Threads that took part.
    """
    if block < 1:
        raise ValueError(f"a block must have rows, found {block}")
    n, n_features = len(table), table.shape[-1]
    checked("table", table, (n, n_features), _F4)
    checked("nodes", nodes, (max(1, len(nodes)),), NODE)
    checked("scores", scores, (n,), _F4, filled=True)
    given = {
        "n": n, "block": block, "n_features": n_features, "depth": _depth(nodes, n_features),
        "table": table, "nodes": nodes, "scores": scores,
    }  # fmt: skip
    return kernel().fall(given, threads)


def _depth(nodes: NDArray[Any], n_features: int) -> int:
    """Steps that lead every row to a leaf. Nodes that are no tree of the features are refused."""
    left, right, feature = (nodes[name] for name in ("left", "right", "feature"))
    if (
        min(left.min(), right.min(), feature.min()) < 0
        or max(left.max(), right.max()) >= len(nodes)
        or feature.max() >= n_features
    ):
        raise IndexError("the nodes lead to others, or read features, that there are not")
    ends = left == np.arange(len(nodes))
    depth, reached = 0, np.zeros(1, np.int32)
    while len(reached := reached[~ends[reached]]):
        reached = np.concatenate([left[reached], right[reached]])
        depth += 1
        if max(depth, len(reached)) > len(nodes):
            raise ValueError("the nodes are no tree: some lead back to where they came from")
    if (right[ends] != left[ends]).any() or not np.isin(nodes["missing_right"], (0, 1)).all():
        raise ValueError("a leaf must lead to itself on both sides, missing_right be 0 or 1")
    return depth


def checked(
    name: str,
    array: NDArray[Any],
    shape: tuple[int, ...],
    *kinds: np.dtype[Any],
    filled: bool = False,
    either_order: bool = False,
) -> NDArray[Any]:
    """The array, which is just what compiled code will take it for.

    With ``either_order`` columns may lie one after the other instead of rows.
    """
    if array.dtype not in kinds or array.shape != shape:
        expected = " or ".join(kind.name for kind in kinds)
        found = f"{array.dtype.name} of shape {array.shape}"
        raise ValueError(f"{name} must be {expected} of shape {shape}, found {found}")
    in_order = array.flags.c_contiguous or (either_order and array.flags.f_contiguous)
    if not (in_order and array.flags.aligned):
        raise ValueError(f"{name} must be contiguous and aligned")
    if filled and not array.flags.writeable:
        raise ValueError(f"{name} must be writeable")
    return array
