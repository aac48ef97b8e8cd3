"""Rows that a file is tried on, as numbers: what every reader of a format can be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from fairboost._typing import FloatArray, Matrix
from fairboost.data.features import as_one_set_of_categories, without_names
from fairboost.engines.ensemble import Feature
from fairboost.engines.port import is_on_disk
from fairboost.exceptions import InvalidInputError
from fairboost.serving.served import CheckedOn


def check_in_memory(X: Matrix) -> None:
    """Refuse rows that are not read yet."""
    if is_on_disk(X) or hasattr(X, "dask"):
        raise InvalidInputError(
            f"check_on is a {type(X).__name__}, expected rows in memory; pass a part of it, such "
            "as a data frame of 1,000 rows"
        )


def given_rows(X: Matrix, features: Sequence[Feature], engine: str) -> CheckedOn:
    """Rows of the user's, beside the same as numbers.

    Parameters
    ----------
    X : Matrix
        The rows, in memory.
    features : sequence of Feature
        What the model reads.
    engine : str
        Name of the engine: to XGBoost a number that a sparse table does not store is missing.
    """
    table = as_one_set_of_categories(X)
    if not isinstance(table, pd.DataFrame):
        return CheckedOn(table, _numbers(table, engine))
    codes = np.empty(table.shape, np.float64)
    for k, feature in enumerate(features):
        column = table.iloc[:, k]
        if isinstance(column.dtype, pd.CategoricalDtype):
            known = pd.Index(list(feature.categories or column.cat.categories))
            places: Any = known.get_indexer(column.astype(object))
            codes[:, k] = np.where(places < 0, np.nan, places)
        else:
            codes[:, k] = column.to_numpy(np.float64, na_value=np.nan)
    return CheckedOn(table, codes)


def drawn_rows(codes: FloatArray, features: Sequence[Feature]) -> CheckedOn:
    """Rows that were drawn, in which a code that no category has is a missing value."""
    codes = codes.copy()
    for k, feature in enumerate(features):
        if feature.categories is not None:
            column = codes[:, k]
            column[~((column >= 0) & (column < len(feature.categories)))] = np.nan
    return CheckedOn(codes, codes)


def in_single(rows: CheckedOn) -> CheckedOn:
    """The same rows as numbers, rounded to single precision."""
    with np.errstate(over="ignore"):
        codes = rows.codes.astype(np.float32).astype(np.float64)
    return CheckedOn(codes, codes)


def _numbers(X: Matrix, engine: str) -> FloatArray:
    if not issparse(X):
        return np.asarray(without_names(X), np.float64)
    if engine != "xgboost":
        return np.asarray(X.toarray(), np.float64)
    found, stored = np.full(X.shape, np.nan), X.tocoo()
    found[stored.row, stored.col] = stored.data
    return found
