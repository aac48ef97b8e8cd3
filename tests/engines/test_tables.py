"""Data frames as arrays with codes for categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairboost.engines.tables import as_codes


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_numbers_stay_and_categories_become_codes(precision):
    frame = pd.DataFrame({
        "whole": np.array([3, -1, 7], np.int8),
        "real": [0.1, np.nan, np.inf],
        "yes": [True, False, True],
        5: pd.Categorical(["b", None, "a"], ["a", "b", "c"]),
    })  # fmt: skip
    found = as_codes(frame, precision)
    assert found.values.dtype == precision
    expected = [[3, 0.1, 1, 1], [-1, np.nan, 0, np.nan], [7, np.inf, 1, 0]]
    np.testing.assert_array_equal(found.values, np.array(expected, precision))
    assert (found.names, found.is_category) == (
        ["whole", "real", "yes", "5"],
        [False] * 3 + [True],
    )


def test_values_beyond_single_precision_are_infinite_without_a_warning():
    assert as_codes(pd.DataFrame({"x": [1e300]}), np.float32).values.tolist() == [[np.inf]]


@pytest.mark.parametrize(
    "table",
    [
        np.ones((2, 2)),
        pd.DataFrame({"x": pd.array([1, None], "Int64")}),
        pd.DataFrame({"x": pd.array([True, None], "boolean")}),
        pd.DataFrame({"x": ["a", "b"]}),
    ],
    ids=["array", "nullable", "nullable booleans", "texts"],
)
def test_other_tables_are_left_to_the_engine(table):
    assert as_codes(table, np.float32) is None
