"""Features that engines can read: numbers, yes and no, and categories.

Columns of any other kind are refused by name, before an engine sees them: some engines end the
process over them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_numeric_dtype,
    is_object_dtype,
)

from fairboost._typing import Matrix
from fairboost.data.device_arrays import is_device_frame
from fairboost.exceptions import InvalidInputError

READABLE = (
    nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64,
    nw.Float32, nw.Float64, nw.Boolean,
)  # fmt: skip
"""Columns of polars and Arrow that are numbers to every engine."""


def without_names(X: Matrix) -> Matrix:
    """A data frame of numbers as an array; a table that is none as it is."""
    if isinstance(X, pd.DataFrame):
        return X.to_numpy(np.float64, na_value=np.nan)
    table = nw.from_native(X, eager_only=True, pass_through=True)
    return table.to_numpy().astype(np.float64) if isinstance(table, nw.DataFrame) else X


def check_readable(X: Matrix, what: str = "X") -> None:
    """Refuse columns that no engine reads, and names that several columns have.

    Examples
    --------
    >>> check_readable(pd.DataFrame({"age": [20], "city": ["Porto"]}))
    Traceback (most recent call last):
    fairboost.exceptions.InvalidInputError: column 'city' of X is str, ...
    """
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise InvalidInputError(f"{what} is a {type(X).__name__}, not read yet; pass X.collect()")
    if twice := [name for name, count in Counter(column_names(X)).items() if count > 1]:
        raise InvalidInputError(
            f"{what} has several columns named {twice[0]!r}; rename them, or drop all but one"
        )
    if unread := [(name, kind) for name, kind, category in _not_numbers(X) if not category]:
        name, kind = unread[0]
        others = f" (and {len(unread) - 1} other columns likewise)" if len(unread) > 1 else ""
        raise InvalidInputError(
            f"column {name!r} of {what} is {kind}, expected numbers, booleans or categories"
            f"{others}; drop it, turn it into numbers, or, if it has few distinct values, into a "
            "categorical column of pandas, astype('category')"
        )


def check_names(X: Matrix, forbidden: str, engine: str, takes: str) -> None:
    """Refuse names of columns that an engine does not take, or does not write as they are.

    Parameters
    ----------
    X : Matrix
        The table.
    forbidden : str
        A regular expression that finds what no name may have.
    engine : str
        Name of the engine.
    takes : str
        The same in words, after "takes".
    """
    for name in column_names(X):
        if found := re.search(forbidden, name):
            part = f"{found[0]!r} in its name" if name else "no name"
            raise InvalidInputError(
                f"column {name!r} of X has {part}, and {engine} takes {takes}; rename it"
            )


def column_names(X: Matrix) -> list[str]:
    """Names of the columns as text; none where they have none."""
    return list(map(str, getattr(X, "column_names", getattr(X, "columns", ()))))


def categories_of(X: Matrix) -> list[str]:
    """Names of the categorical columns."""
    return [name for name, _, category in _not_numbers(X) if category]


def listed_categories(X: Matrix) -> dict[str, pd.Index[Any]]:
    """The categories that categorical columns list, by the names of these."""
    if not isinstance(X, pd.DataFrame):
        if not (names := categories_of(X)):
            return {}
        X = nw.from_native(X, eager_only=True).select(names).to_pandas()
    return {
        str(name): dtype.categories
        for name, dtype in X.dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype)
    }


def _not_numbers(X: Matrix) -> list[tuple[str, str, bool]]:
    """Columns that are not plain numbers: name, type in words, whether it is categorical."""
    if isinstance(X, pd.DataFrame):
        plain = {
            dtype
            for dtype in set(X.dtypes)
            if (is_numeric_dtype(dtype) and not is_complex_dtype(dtype)) or is_bool_dtype(dtype)
        }
        return [
            (str(name), str(dtype), isinstance(dtype, pd.CategoricalDtype))
            for name, dtype in X.dtypes.items()
            if dtype not in plain
        ]
    table = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return [
            (name, str(dtype), dtype in (nw.Categorical, nw.Enum))
            for name, dtype in table.schema.items()
            if dtype not in READABLE
        ]
    return _not_numbers_of_array(X)


def _not_numbers_of_array(X: Any) -> list[tuple[str, str, bool]]:
    dtype = getattr(X, "dtype", None)
    kind = getattr(dtype, "kind", "f")
    if kind in "USVc":
        why = " (Complex data not supported)" * (kind == "c")
        return [("0", f"of type {dtype}{why}", False)]
    if kind != "O" or not isinstance(X, np.ndarray):
        return []
    for k, column in enumerate(X.T):
        try:
            column.astype(np.float64)
        except ValueError as error:
            return [(str(k), f"not of numbers ({error})", False)]
    return []


def texts_of(X: Matrix) -> list[str]:
    """Names of the columns of text."""
    if isinstance(X, pd.DataFrame):
        return [
            str(name)
            for k, (name, dtype) in enumerate(X.dtypes.items())
            if is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)
            if infer_dtype(X.iloc[:, k], skipna=True) in ("string", "empty")
        ]
    table = nw.from_native(X, eager_only=True, pass_through=True)
    texts = table.schema.items() if isinstance(table, nw.DataFrame) else ()
    return [name for name, dtype in texts if dtype == nw.String]


def with_categories(X: Matrix, names: Collection[str]) -> Matrix:
    """A table of which some columns of text have categories."""
    if not isinstance(X, pd.DataFrame):
        table = nw.from_native(X, eager_only=True)
        return table.with_columns(nw.col(name).cast(nw.Categorical) for name in names).to_native()
    X = X.copy(deep=False)
    for k, name in enumerate(column_names(X)):
        if name in names:
            X.isetitem(k, X.iloc[:, k].astype("category"))
    return X


def as_one_set_of_categories(X: Matrix) -> Matrix:
    """A table of which every part has the categories of the whole: as pandas if it has any.

    polars and Arrow keep with a part only the categories that occur in it.
    """
    table = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(X, pd.DataFrame) or not isinstance(table, nw.DataFrame) or not categories_of(X):
        return X
    gaps = [n for n, t in table.schema.items() if t == nw.Boolean and table[n].null_count()]
    # pandas has no booleans with gaps but objects.
    return table.with_columns(nw.col(*gaps).cast(nw.Float32) if gaps else []).to_pandas()


def in_pandas_if_categorical(X: Matrix) -> Matrix:
    """The same, but a frame on a GPU stays there: LightGBM reads categories from pandas alone."""
    return X if is_device_frame(X) else as_one_set_of_categories(X)
