"""Dask collections are told apart, named and cut as tables are."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fairboost.cluster.collections import (
    DaskRows,
    column_names,
    header,
    is_dask,
    map_rows,
    partitions,
)
from fairboost.data.validation import read_sensitive_features
from fairboost.exceptions import InvalidInputError

FRAME = pd.DataFrame({"sex": list("fmfm") * 3, 7: [1, 2] * 6})


@pytest.mark.parametrize(
    "table",
    [
        FRAME,
        FRAME[["sex"]],
        FRAME["sex"],
        FRAME[7],
        FRAME["sex"].rename(None),
        FRAME[7].to_numpy(),
        FRAME[[7]].to_numpy(),
        FRAME[[7, 7]].to_numpy(),
    ],
    ids=repr,
)
def test_columns_have_the_names_that_one_machine_gives_them(table):
    array = isinstance(table, np.ndarray)
    lazy = da.from_array(table, chunks=4) if array else dd.from_pandas(table, npartitions=3)
    assert is_dask(lazy) and not is_dask(table)
    assert column_names(lazy) == [c.name for c in read_sensitive_features(table, len(table))]


def test_partitions_keep_rows_together():
    lazy = dd.from_pandas(FRAME, npartitions=3)
    X = da.from_array(np.arange(24).reshape(12, 2), chunks=(4, 1))  # columns apart
    parts = partitions(DaskRows(X, lazy["sex"]))
    assert [(x.compute().tolist(), y.compute().tolist()) for x, y, *_ in parts] == [
        ([[2 * k, 2 * k + 1] for k in range(first, first + 4)], list("fmfm"))
        for first in (0, 4, 8)
    ]
    assert all(part[2:] == (None, None, None) for part in parts)


def test_arrays_cut_at_other_rows():
    X, y = da.zeros((12, 2), chunks=(4, 2)), da.zeros(12, chunks=((2, 6, 4),))
    with pytest.raises(InvalidInputError, match=r"chunks \(2, 6, 4\), expected \(4, 4, 4\)"):
        partitions(DaskRows(X, y))
    with pytest.raises(InvalidInputError, match="y must be a Dask collection like X, found list"):
        partitions(DaskRows(X, [0, 1]))


def test_headers_have_columns_and_no_rows():
    assert header(dd.from_pandas(FRAME, npartitions=2)).columns.tolist() == ["sex", 7]
    assert header(da.zeros((12, 2))).shape == (0, 2)
    unknown = da.zeros((12, 2))
    unknown._chunks = (unknown.chunks[0], (np.nan,))
    with pytest.raises(InvalidInputError, match="number of features of X is not known"):
        header(unknown)


def test_a_function_of_rows():
    lazy = dd.from_pandas(FRAME[[7]], npartitions=3)
    result = map_rows(lambda part, extra: part[7].to_numpy() * extra, lazy, 10.0, np.empty(0))
    assert result.npartitions == 3
    assert result.compute().tolist() == [10.0, 20.0] * 6
