"""Columns that no engine reads are refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fairboost.data.features import as_one_set_of_categories, categories_of, check_readable
from fairboost.exceptions import InvalidInputError

WORDS = ["x", "y", None, "x"]
NUMBERS = [0.5, 1.5, None, 2.0]
DATES = pd.date_range("2020-01-01", periods=4)


@pytest.mark.parametrize(
    "X",
    [
        np.eye(4),
        np.eye(4, dtype=bool),
        np.eye(4).astype(object),
        [[1.0, 2.0]],
        sp.eye(4, format="csr"),
        pd.DataFrame({"a": NUMBERS, "b": [1, 2, 3, 4], "c": [True, False] * 2}),
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.Categorical(["x", "y"])}),
        pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0])}),
        pl.DataFrame({"a": NUMBERS, "b": [1, 2, 3, 4], "c": [True, None] * 2}),
        pl.DataFrame({"a": pl.Series(WORDS, dtype=pl.Categorical)}),
        pa.table({"a": NUMBERS, "b": pa.array(WORDS).dictionary_encode()}),
    ],
)
def test_what_engines_read(X):
    check_readable(X)


@pytest.mark.parametrize(
    ("X", "name"),
    [
        (pd.DataFrame({"a": NUMBERS, "b": WORDS}), "b"),
        (pd.DataFrame({"b": pd.array(WORDS, "string")}), "b"),
        (pd.DataFrame({"b": DATES}), "b"),
        (pd.DataFrame({"b": [1j]}), "b"),
        (pd.DataFrame({"b": [object()]}), "b"),
        (pl.DataFrame({"a": NUMBERS, "b": WORDS}), "b"),
        (pl.DataFrame({"b": DATES.to_numpy()}), "b"),
        (pl.DataFrame({"b": [[1], [2]]}), "b"),
        (pl.DataFrame({"b": [{"x": 1}]}), "b"),
        (pl.DataFrame({"b": [None, None]}), "b"),
        (pl.DataFrame({"b": pl.Series([1.5]).cast(pl.Decimal(10, 2))}), "b"),
        (pa.table({"a": NUMBERS, "b": WORDS}), "b"),
        (np.array([["x"], ["y"]]), "0"),
        (np.array([[b"x"], [b"y"]]), "0"),
        (np.array([[1j]]), "0"),
        (np.array([[1.0, "x"], [2.0, "y"]], object), "1"),
    ],
)
def test_what_they_do_not_read(X, name):
    with pytest.raises(InvalidInputError, match=f"column '{name}' of X is .*, expected numbers"):
        check_readable(X)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame(np.eye(2), columns=["a", "a"]),
        pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]),
    ],
)
def test_columns_of_the_same_name(X):
    with pytest.raises(InvalidInputError, match="several columns named 'a'; rename them"):
        check_readable(X)


def test_parts_keep_the_categories_of_the_whole():
    X = pl.DataFrame({"a": pl.Series(WORDS, dtype=pl.Categorical), "b": [True, None] * 2})
    assert categories_of(X) == ["a"]
    table = as_one_set_of_categories(X)
    assert list(table.iloc[:1]["a"].cat.categories) == ["x", "y"]
    check_readable(table)
    assert table["b"].isna().tolist() == [False, True] * 2
    plain = X.select("b")
    assert as_one_set_of_categories(plain) is plain
