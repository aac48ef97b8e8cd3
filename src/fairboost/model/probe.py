"""Made-up rows, whose scores identify a base model.

A model file cannot hold a base model of any kind, so it holds a few rows and the scores that the
base model gave them. The rows are no one's: each column is drawn by itself, numbers among the
deciles of the column, other values among those that most rows have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse

from fairboost._typing import Matrix
from fairboost.data.validation import by_row, python_value

ROWS, LOOKED_AT = 32, 10_000
"""Rows that are made up at most, and rows that are looked at for it."""
MOST_VALUES, MOST_LOOKED_AT = 2**14, 2**22
"""The same of single values: of a wide table there are fewer rows."""
COMMON, SHARED = 10, 5
"""Of values other than numbers, how many are taken, and how many rows have to share one."""


def draw(X: Matrix) -> Matrix | None:
    """Rows like those of a table of pandas, NumPy or SciPy; None of any other, or a very wide one.

    Examples
    --------
    >>> draw(np.zeros((100, 3))).shape
    (32, 3)
    """
    if isinstance(X, list):
        X = np.asarray(X)
    known = isinstance(X, pd.DataFrame | np.ndarray) or issparse(X)
    if not known or not X.shape[0] or not 0 < X.shape[1] <= MOST_VALUES:
        return None
    looked_at = max(1, min(LOOKED_AT, MOST_LOOKED_AT // X.shape[1]))
    some = np.unique(np.linspace(0, X.shape[0] - 1, looked_at).astype(int))
    rng, rows_made = np.random.default_rng(0), max(1, min(ROWS, MOST_VALUES // X.shape[1]))
    if isinstance(X, pd.DataFrame):
        part = X.iloc[some]
        columns = [_column(part.iloc[:, k], rng, rows_made) for k in range(part.shape[1])]
        return pd.DataFrame(dict(enumerate(columns))).set_axis(X.columns, axis=1)
    rows = by_row(X)[some]
    frame = pd.DataFrame(rows.toarray() if issparse(rows) else rows)
    drawn = np.column_stack([_column(frame[k], rng, rows_made).to_numpy() for k in frame]).astype(
        X.dtype
    )
    return csr_matrix(drawn) if issparse(X) else drawn


def _column(values: pd.Series, rng: np.random.Generator, n: int) -> pd.Series:
    """Values of one column, with its type."""
    known = values.dropna()
    if not len(known):
        return values.iloc[:1].repeat(n).reset_index(drop=True)
    kind = getattr(known.dtype, "kind", "O")
    if kind == "f" and isinstance(known.dtype, np.dtype):
        few = np.quantile(known.to_numpy(), np.linspace(0.05, 0.95, COMMON))
        return pd.Series(rng.choice(few, n).astype(known.dtype))
    if kind in "iu" and isinstance(known.dtype, np.dtype):
        few = np.quantile(known.to_numpy(), np.linspace(0.05, 0.95, COMMON), method="lower")
        return pd.Series(rng.choice(few, n).astype(known.dtype))
    counts = known.value_counts()
    shared = counts[counts >= SHARED]
    few = (shared if len(shared) else counts.iloc[:1]).index[:COMMON]
    places = rng.integers(0, len(few), n)
    return pd.Series(few.take(places)).astype(values.dtype).reset_index(drop=True)


def encode(rows: Matrix) -> dict[str, Any]:
    """Rows in the types of JSON; raises ``TypeError`` where these cannot be had."""
    if isinstance(rows, pd.DataFrame):
        columns = [_encode_column(rows.iloc[:, k]) for k in range(rows.shape[1])]
        names: list[Any] = rows.columns.tolist()
        found: dict[str, Any] = {"form": "pandas", "names": _plain(names), "columns": columns}
    else:
        array = rows.toarray() if issparse(rows) else np.asarray(rows)
        found = {
            "form": "sparse" if issparse(rows) else "numpy",
            "dtype": array.dtype.str,
            "values": _plain(array.reshape(-1).tolist()),
            "width": int(array.shape[1]),
        }
    again = decode(found)
    if issparse(rows):
        same = bool((again != rows).nnz == 0)
    elif isinstance(rows, pd.DataFrame):
        same = bool(again.equals(rows))
    else:
        same = bool(pd.DataFrame(again).equals(pd.DataFrame(rows)))
    if not same:
        raise TypeError("the rows do not read as they were written")
    return found


def decode(found: dict[str, Any]) -> Matrix:
    """Undo :func:`encode`."""
    if found["form"] == "pandas":
        columns = dict(enumerate(map(_decode_column, found["columns"])))
        return pd.DataFrame(columns).set_axis(found["names"], axis=1)
    values = [np.nan if v is None else v for v in found["values"]]
    array = np.array(values, _type(found["dtype"])).reshape(-1, int(found["width"]))
    return csr_matrix(array) if found["form"] == "sparse" else array


def _encode_column(column: pd.Series) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": str(column.dtype)}
    if isinstance(column.dtype, pd.CategoricalDtype):
        kind = column.dtype
        listed = {"categories": _plain(kind.categories.tolist()), "ordered": bool(kind.ordered)}
        return {**found, **listed, "codes": column.cat.codes.tolist()}
    pairs = zip(column, column.isna(), strict=True)
    return {
        **found,
        "values": _plain([None if missing else python_value(v) for v, missing in pairs]),
    }


def _decode_column(found: dict[str, Any]) -> pd.Series:
    if "codes" in found:
        kind = pd.CategoricalDtype(found["categories"], ordered=bool(found["ordered"]))
        return pd.Series(pd.Categorical.from_codes(found["codes"], dtype=kind))
    return pd.Series(found["values"], dtype=object).astype(found["dtype"])


def _plain(values: list[Any]) -> list[Any]:
    """Values that JSON has, NaN as None."""
    if not all(v is None or isinstance(v, bool | int | float | str) for v in values):
        raise TypeError("values of another type than text and numbers")
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]


def _type(name: Any) -> np.dtype[Any]:
    """A NumPy type of plain values."""
    found = np.dtype(str(name))
    if found.kind not in "biufUO":
        raise TypeError(f"values of type {name!r:.80} cannot be read")
    return found
