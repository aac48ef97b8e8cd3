"""Workbooks of Excel (.xlsx), read as tables.

A workbook is read whole: the format has no columns that could be read in pieces. The first row
that is not empty names the columns. Cells hold the values that Excel last computed; a formula
that no program has computed yet has no value, and is refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from fairboost.exceptions import InvalidInputError

Values: TypeAlias = tuple[object, ...]

MISSING_PACKAGE = (
    'reading an Excel workbook needs openpyxl: pip install "fairboost[excel]", or save the sheet '
    "as CSV"
)


def read_workbook(path: Path, sheet: str | None, missing: Sequence[str]) -> pa.Table:
    """The table on a sheet of a workbook.

    Parameters
    ----------
    path : Path
        The workbook.
    sheet : str or None
        The sheet; the first one if left out.
    missing : sequence of str
        Texts that stand for a missing value.
    """
    with _sheet(path, sheet, computed=True) as found:
        rows = [row for row in found.iter_rows(values_only=True) if _filled(row)]
    if not rows:
        raise InvalidInputError(
            f"the sheet of {str(path)!r} is empty; write it again, or name another with --sheet"
        )
    names, body = _names(path, rows[0]), rows[1:]
    if any(value is None for row in body for value in row[: len(names)]):
        _refuse_formulas(path, sheet)
    columns = [
        _column([row[k] if k < len(row) else None for row in body], set(missing))
        for k in range(len(names))
    ]
    return pa.table(columns, names=names)


@contextmanager
def _sheet(path: Path, sheet: str | None, *, computed: bool) -> Iterator[Any]:
    """A sheet to read, with the values or with the formulas of its cells."""
    try:
        import openpyxl
    except ImportError as error:
        raise InvalidInputError(MISSING_PACKAGE) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=computed)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InvalidInputError(
            f"{str(path)!r} cannot be read as an Excel workbook: {error}; it was cut short, is "
            "protected by a password or is something else: save it again as .xlsx or CSV"
        ) from error
    try:
        names = [found.title for found in book.worksheets]
        if sheet is not None and sheet not in names:
            raise InvalidInputError(
                f"{str(path)!r} has no sheet {sheet!r}; it has {', '.join(map(repr, names))}"
            )
        if not names:
            raise InvalidInputError(f"{str(path)!r} has no sheet with cells; write it again")
        found = book[sheet or names[0]]
        found.reset_dimensions()  # some programs write a size that is not that of the sheet
        yield found
    finally:
        book.close()


def _filled(row: Values) -> bool:
    return any(value is not None and value != "" for value in row)


def _names(path: Path, header: Values) -> list[str]:
    """Names of the columns; cells without a name after the last one are no columns."""
    names = ["" if value is None else str(value).strip() for value in header]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise InvalidInputError(
            f"column {names.index('') + 1} of {str(path)!r} has no name in the first row; name "
            "it, or remove the column and the rows above the table"
        )
    return names


def _refuse_formulas(path: Path, sheet: str | None) -> None:
    """Raise if a cell without a value is a formula that was never computed."""
    with _sheet(path, sheet, computed=True) as values, _sheet(path, sheet, computed=False) as said:
        for shown, written in zip(values.iter_rows(), said.iter_rows(), strict=False):
            for value, formula in zip(shown, written, strict=False):
                text = formula.value
                if value.value is None and isinstance(text, str) and text.startswith("="):
                    raise InvalidInputError(
                        f"cell {formula.coordinate} of {str(path)!r} is a formula whose value was "
                        "never computed; open the workbook in Excel and save it, or save the "
                        "values as CSV"
                    )


def _column(values: list[object], missing: set[str]) -> pa.Array:
    """A column of one type: flags, numbers or dates where all values are; else text."""
    known = [None if isinstance(v, str) and v.strip() in missing else v for v in values]
    kinds = {_kind(value) for value in known if value is not None}
    if len(kinds) == 1 and "text" not in kinds:
        return pa.array(known)
    if kinds == {"whole", "number"}:
        return pa.array(known, pa.float64())
    return pa.array([None if value is None else _text(value) for value in known], pa.string())


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int):
        return "whole"
    if isinstance(value, float):
        return "number"
    if isinstance(value, datetime):
        return "moment"
    return "day" if isinstance(value, date) else "text"


def _text(value: object) -> str:
    """A cell of a column of several types, as CSV would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)
