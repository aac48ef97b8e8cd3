"""Tables of features in the forms that users have them: lists, frames, and several read as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from fairboost._typing import IntArray, Matrix
from fairboost.data.features import column_names
from fairboost.data.validation import by_row, take_rows


def as_table(X: Matrix) -> Matrix:
    """A table as it is; a list of lists as an array."""
    return X if hasattr(X, "shape") else np.asarray(X)


def feature_names(X: Matrix) -> list[str] | None:
    """Names of the features of a table that has some."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


@dataclass(frozen=True)
class CodedTable:
    """A table with codes for categories. Engines read it much faster than a data frame.

    A booster trained on it does not know what its categories are called, so it cannot be kept.

    Parameters
    ----------
    values : (n, n_features) float
        Numbers and codes; NaN is a missing value.
    names : list of str
        Of the columns.
    is_category : list of bool
        Whether a column has codes.
    """

    values: NDArray[Any]
    names: list[str]
    is_category: list[bool]


def as_codes(X: Matrix, precision: Any) -> CodedTable | None:
    """Make one of a data frame of pandas that has plain numbers and categories only.

    Parameters
    ----------
    X : Matrix
        The table; None is returned for any other.
    precision : dtype
        Of the values.

    Examples
    --------
    >>> frame = pd.DataFrame({"n": [1, 2], "kind": pd.Categorical(["b", None], ["a", "b"])})
    >>> as_codes(frame, np.float32).values.tolist()
    [[1.0, 1.0], [2.0, nan]]
    """
    if not isinstance(X, pd.DataFrame):
        return None
    is_category = [isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes]
    pairs = zip(X.dtypes, is_category, strict=True)
    if not all(c or (isinstance(dtype, np.dtype) and dtype.kind in "fiub") for dtype, c in pairs):
        return None
    values = np.empty(X.shape, precision)
    with np.errstate(over="ignore"):
        for k, category in enumerate(is_category):
            column = X.iloc[:, k]
            values[:, k] = column.cat.codes if category else column
            if category:
                values[values[:, k] < 0, k] = np.nan
    return CodedTable(values, column_names(X), is_category)


class PartedTable:
    """Several tables read as one, of which rows can be picked; nothing is copied together.

    Parameters
    ----------
    tables : sequence of Matrix
        With the same columns.

    Examples
    --------
    >>> table = PartedTable([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> table.shape, table.iloc[np.array([1, 2])].tolist()
    ((3, 1), [[2.0], [3.0]])
    """

    def __init__(self, tables: Sequence[Matrix]) -> None:
        self.tables = [by_row(t) for t in tables]
        self.edges = np.cumsum([0, *(t.shape[0] for t in self.tables)])
        self.shape = int(self.edges[-1]), int(self.tables[0].shape[1])
        if hasattr(self.tables[0], "columns"):
            self.columns = self.tables[0].columns

    @property
    def iloc(self) -> PartedTable:
        """Rows by their position, as of a data frame."""
        return self

    def __getitem__(self, rows: IntArray) -> Any:
        """Pick rows, in rising order."""
        cuts = np.searchsorted(rows, self.edges)
        spans = zip(self.tables, self.edges, pairwise(cuts), strict=False)
        picked = [
            take_rows(table, rows[start:end] - edge)
            for table, edge, (start, end) in spans
            if end > start
        ] or [take_rows(self.tables[0], rows[:0])]
        if len(picked) == 1:
            return picked[0]
        if isinstance(picked[0], pd.DataFrame):
            return pd.concat(picked)
        return vstack(picked).tocsr() if issparse(picked[0]) else np.concatenate(picked)
