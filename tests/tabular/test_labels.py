"""What the values of a label say about the task, and numbers that are written as text."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairboost.tabular import columns
from fairboost.tabular.files import TableFile
from fairboost.tabular.labels import look_at_label


@pytest.mark.parametrize(
    ("values", "is_number"),
    [
        (["yes", "no", "no"], False),
        (["0", "1", "1"], False),
        (["0", "1", "1.0", "0.0"], False),
        (["0", "1", "2"], True),
        (["1.5", "2.5", "n/a?", "3.5"], True),
        (["1.5", "a", "b", "c", "d"], False),
        (["1", "2", "", ""], False),
        (["2024-01-05", "2024-02-05", "2024-03-05"], False),
        (["1e3", " 2 ", "-3.5"], True),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_more_than_two_numbers_are_a_number(tmp_path, values, is_number, form):
    frame = pd.DataFrame({"y": [v or None for v in values], "x": 1})
    path = tmp_path / f"d.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    assert look_at_label(TableFile(path), "y").is_number == is_number


@pytest.mark.parametrize(
    ("values", "numbers"),
    [([0, 1, 2], 3), ([0.0, 1.0, np.nan], 2), ([True, False, True], 0)],
)
def test_types_of_a_file_are_heeded(tmp_path, values, numbers):
    pd.DataFrame({"y": values}).to_parquet(tmp_path / "d.parquet")
    assert look_at_label(TableFile(tmp_path / "d.parquet"), "y").numbers == numbers


def test_the_first_rows_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 10)
    pd.DataFrame({"y": [0, 1] * 5 + list(range(10))}).to_parquet(tmp_path / "d.parquet")
    file = TableFile(tmp_path / "d.parquet")
    found = look_at_label(file, "y", first_rows=True)
    assert (found.numbers, found.complete, found.is_number) == (2, False, False)
    assert look_at_label(file, "y").numbers == 10


def test_text_that_is_no_number_is_told_from_what_is_missing():
    text = pa.chunked_array([["1", " 2.5 ", None], ["1_000", "NaN", "x", "1"]])
    numbers, wrong = columns.read_numbers(text)
    np.testing.assert_array_equal(numbers, [1, 2.5, np.nan, np.nan, np.nan, np.nan, 1])
    assert wrong.tolist() == [False, False, False, True, False, True, False]


@pytest.mark.parametrize(
    ("values", "is_class"),
    [
        (["low", "middle", "high"], True),
        (["A", "1", "2"], False),  # numbers, and an error
        (["A", "B", "1"], True),
        (["yes", "no", None], False),
        (["1", "2", "3"], False),
        ([f"c{k}" for k in range(20)], True),
        ([f"c{k}" for k in range(21)], False),
    ],
)
def test_several_texts_are_classes(tmp_path, values, is_class):
    pd.DataFrame({"y": values, "x": 1}).to_csv(tmp_path / "d.csv", index=False)
    assert look_at_label(TableFile(tmp_path / "d.csv"), "y").is_class == is_class
