"""What a column of a table is to a model: a number, a flag, a category, or nothing.

Text becomes a category. Dates, identifiers and columns that never vary are left out, and it is
said so: a date is no number by itself, and an identifier tells people apart and not what they do.
Categories are kept as text, whatever their type in the file, so that a model trained on a CSV file
reads a parquet file alike.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.exceptions import InvalidInputError

Kind: TypeAlias = Literal["number", "flag", "category"]

DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T]\d{1,2}:\d{2}.*)?")
DATES_AMONG = 0.95
"""Share of the values that must look like dates for a column to be one of dates."""
MANY_NUMBERS = 20
"""More different numbers beside some text are a column of numbers with errors, and no codes."""
FEW_ROWS = 50
"""In fewer rows nearly every column looks like an identifier."""
SAMPLE = 1_000
TEXT_TYPES = ("string", "large_string", "string_view")
NOT_CONVERTED = (TypeError, ValueError, NotImplementedError)
"""What Arrow raises where values are not of the type that they should be."""


@dataclass(frozen=True)
class Judged:
    """What a column is, or why it is none, and what to say of it.

    Parameters
    ----------
    kind : {"number", "flag", "category"} or None
        None if it is no feature.
    remark : str
        Why it is none, or what to know though it is one; often empty.
    categories : tuple of str
        Its values, if it is a category.
    """

    kind: Kind | None
    remark: str = ""
    categories: tuple[str, ...] = ()


def judge(column: Any, *, categorical: bool = False) -> Judged:
    """Say what a column is to a model.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        All of its values.
    categorical : bool
        Whether the user says that its values are categories.
    """
    coded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if coded else column.type
    if column.null_count == len(column):
        return Judged(None, "missing in every row")
    if pa.types.is_temporal(kind):
        return Judged(None, "a date or time; add what it stands for, such as an age, as a number")
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Judged(None, f"of type {kind}, which is neither number nor text")
    if categorical or coded or str(kind) in TEXT_TYPES:
        return _judge_text(as_text(column), categorical)
    low, high = pc.min_max(column).as_py().values()
    if low == high and not column.null_count:
        return Judged(None, "the same in every row")
    if pa.types.is_boolean(kind):
        return Judged("flag")
    if pa.types.is_integer(kind) and _all_differ(column, high - low + 1):
        remark = "is a whole number that no two rows share; if it is an identifier, --drop it"
        return Judged("number", remark)
    return Judged("number")


def _judge_text(column: Any, asked_for: bool) -> Judged:
    values = sorted(pc.unique(column).drop_null().to_pylist())
    known = len(column) - column.null_count
    if len(values) == 1 and not column.null_count:
        return Judged(None, "the same in every row")
    looks = [bool(DATE.fullmatch(value.strip())) for value in values[:SAMPLE]]
    if not asked_for and np.mean(looks) >= DATES_AMONG:
        why = "dates, as text; add what they stand for, such as an age, as a number"
        return Judged(None, why)
    errors = "" if asked_for else _errors_among(values)
    if not asked_for and known >= FEW_ROWS and len(values) > known / 2:
        why = f"text with {len(values):,} values in {known:,} rows, as identifiers have{errors}"
        return Judged(None, why)
    remark = f"is text, and becomes categories{errors}" if errors else ""
    return Judged("category", remark, tuple(values))


def _errors_among(values: list[str]) -> str:
    """What to say of texts that are numbers but for a few."""
    wrong = read_numbers(pa.array(values, pa.string()))[1]
    numbers = int((~wrong).sum())
    if not wrong.any() or numbers <= max(MANY_NUMBERS, wrong.sum()):
        return ""
    first = values[int(wrong.argmax())]
    return (
        f"; {numbers:,} of its {len(values):,} different values are numbers, and {first!r} is "
        f"not: correct it, or pass --missing {first!r} if it means a missing value"
    )


def decoded(column: Any) -> Any:
    """A column without dictionary: values as they are, text of one type."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [decoded(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks) if chunks else column
    if pa.types.is_dictionary(column.type):
        return decoded(column.dictionary).take(column.indices)
    return pc.cast(column, pa.string()) if pa.types.is_string_view(column.type) else column


def as_text(column: Any) -> Any:
    """A column as text; 1.0 and 1 are the same."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_floating(kind):  # NaN is how many programs write a missing value
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    return column if kind == pa.string() else pc.cast(column, pa.string())


def missing(column: Any) -> int:
    """How many values are missing."""
    return int(pc.sum(pc.is_null(decoded(column), nan_is_null=True)).as_py() or 0)


def as_numbers(column: Any) -> FloatArray:
    """A column as numbers; NaN where it is missing."""
    column = decoded(column)
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    numbers = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def read_numbers(column: Any) -> tuple[FloatArray, BoolArray]:
    """A column as numbers, NaN where it is missing; and which rows hold text that is no number."""
    column = decoded(column)
    if not is_text(column):
        return as_numbers(column), np.zeros(len(column), bool)
    # Few texts occur often, and a cast of all of them would not say which is no number.
    coded = pc.dictionary_encode(pc.utf8_trim_whitespace(column))
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    found = np.array([_number(text) for text in coded.dictionary.to_pylist()] + [np.nan])
    codes = pc.fill_null(coded.indices, len(found) - 1).to_numpy(zero_copy_only=False)
    numbers = found[codes]
    spelled = np.array([text.lower() == "nan" for text in coded.dictionary.to_pylist()] + [True])
    return numbers, np.isnan(numbers) & ~spelled[codes]


def is_text(column: Any) -> bool:
    """Whether a column without dictionary holds text."""
    return str(column.type) in TEXT_TYPES


def _number(text: str) -> float:
    """A number as files have it; NaN if it is none."""
    try:
        return float(text) if "_" not in text else np.nan
    except ValueError:
        return np.nan


def places(text: Any, values: Sequence[str]) -> IntArray:
    """Where each text stands among some values; -1 if it is missing or none of them."""
    found = pc.index_in(text, value_set=pa.array(values, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int32)


@contextlib.contextmanager
def converting(what: str, remedy: str = "") -> Iterator[None]:
    """Say what is wrong with a column whose values are not of the type that they should be."""
    try:
        yield
    except NOT_CONVERTED as error:
        raise InvalidInputError(f"{what}: {error}{remedy}") from error


def _all_differ(column: Any, room: int) -> bool:
    """Whether no two rows share a value; ``room`` is how many values there could be."""
    known = len(column) - column.null_count
    few_enough = 2 * FEW_ROWS <= known <= room
    return few_enough and bool(pc.count_distinct(column, mode="only_valid").as_py() == known)
