"""Rows handed to XGBoost a batch at a time: of a table in memory, on a GPU, or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xgboost

from fairboost._typing import BoolArray, IntArray, Matrix
from fairboost.data.device_arrays import is_device_array
from fairboost.data.validation import take_rows
from fairboost.kernel.device import Device

PIECE = 131_072
"""Rows to pick at a time: 20 MB of 20 columns."""

DEVICE_PIECE = 2_097_152
"""The same on a GPU, where small pieces take longer to hand over than to pick."""


class Batches(xgboost.DataIter):
    """Rows handed to XGBoost a batch at a time.

    Parameters
    ----------
    batches : callable
        Begins anew: batches, each with the positions of its rows.
    labels, weight : (n,) array, or None
        Of all rows.
    columns : dict
        What is known about the columns.
    cache : str, optional
        Where XGBoost keeps bins on disk.
    """

    def __init__(
        self,
        batches: Callable[[], Iterator[tuple[Matrix, IntArray]]],
        labels: Any,
        weight: Any,
        columns: dict[str, Any],
        cache: str | None = None,
    ) -> None:
        super().__init__(cache_prefix=cache)
        self.batches, self.labels, self.weight, self.columns = batches, labels, weight, columns
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.rest = self.batches()

    def next(self, input_data: Any) -> bool:
        """Hand over the next batch, if there is one."""
        batch = next(self.rest, None)
        if batch is None:
            return False
        data, rows = batch
        label, weight = (a if a is None else a[rows] for a in (self.labels, self.weight))
        input_data(data=data, label=label, weight=weight, **self.columns)
        return True


def pieces_of(X: Matrix, which: IntArray) -> Iterator[tuple[Matrix, IntArray]]:
    """Some rows of a table in memory, a piece at a time."""
    size = DEVICE_PIECE if is_device_array(X) else PIECE
    # One piece at least: of several machines, one may have no rows to give.
    for start in range(0, max(len(which), 1), size):
        rows = which[start : start + size]
        yield pick(X, rows), rows


def batches_of(
    X: Matrix, which: IntArray, device: Device | None
) -> Iterator[tuple[Matrix, IntArray]]:
    """Some rows of a table on disk: those wanted of each batch that has any."""
    start = 0
    for batch in X.batches():
        end = start + len(batch)
        rows = which[slice(*np.searchsorted(which, [start, end]))]
        if len(rows):
            taken = np.take(batch, rows - start, axis=0)
            yield taken if device is None else device.put(taken), rows
        del batch  # before the next one is read
        start = end


def positions(which: BoolArray) -> IntArray:
    """Positions of rows, in half the memory as far as that goes."""
    found = np.flatnonzero(which)
    return found.astype(np.int32) if len(which) < 2**31 else found


def pick(X: Matrix, rows: IntArray) -> Matrix:
    """Some rows of a table in memory."""
    # np.take is several times faster than indexing.
    return np.take(X, rows, axis=0) if isinstance(X, np.ndarray) else take_rows(X, rows)
