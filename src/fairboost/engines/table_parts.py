"""Tables that lie one after the other and are read as one, without being copied together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse, vstack

from fairboost._typing import IntArray, Matrix
from fairboost.data.validation import by_row, take_rows


class Parts:
    """Several tables as one, of which rows can be picked.

    Parameters
    ----------
    tables : sequence of Matrix
        With the same columns.

    Examples
    --------
    >>> parts = Parts([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> parts.shape, parts.iloc[np.array([1, 2])].tolist()
    ((3, 1), [[2.0], [3.0]])
    """

    def __init__(self, tables: Sequence[Matrix]) -> None:
        self.tables = [by_row(t) for t in tables]
        self.edges = np.cumsum([0, *(t.shape[0] for t in self.tables)])
        self.shape = int(self.edges[-1]), int(self.tables[0].shape[1])
        if hasattr(self.tables[0], "columns"):
            self.columns = self.tables[0].columns

    @property
    def iloc(self) -> Parts:
        """Rows by their position, as of a data frame."""
        return self

    def __getitem__(self, rows: IntArray) -> Any:
        """Pick rows, in rising order."""
        cuts = np.searchsorted(rows, self.edges)
        picked = [
            take_rows(table, rows[start:end] - edge)
            for table, edge, start, end in zip(
                self.tables, self.edges[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if end > start
        ]
        if not picked:
            return take_rows(self.tables[0], rows[:0])
        if len(picked) == 1:
            return picked[0]
        if isinstance(picked[0], pd.DataFrame):
            return pd.concat(picked)
        return vstack(picked).tocsr() if issparse(picked[0]) else np.concatenate(picked)
