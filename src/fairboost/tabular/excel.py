"""Workbooks of Excel (.xlsx), read as tables.

A workbook is read whole: the format has no columns that could be read in pieces. The first row
that is not empty names the columns. Cells hold the values that Excel last computed; a formula
that no program has computed yet has no value, and is refused.

A small file can unpack to gigabytes, and three letters can place a cell in a row of 16,384. So a
workbook is looked through before it is parsed, a piece at a time, and cells are counted.
"""

from __future__ import annotations

import re
import zipfile
import zlib
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


MOST_ROWS = 2**20
"""Of a sheet, by the format."""
MOST_CELLS = 50_000_000
"""They take some 2 GB."""
MOST_TIMES = 100
"""Workbooks of programs unpack to 4 to 25 times their size."""
SMALL = 32 * 2**20
"""Bytes that a workbook of any size may unpack to."""
LONGEST = 16 * 2**20
"""Bytes of a cell or row, with its markup; the text of a cell has 32,767 letters at most."""
MOST_TAGS = 500_000
"""Of a row, of a shared text and of a part that has neither, such as the styles: each takes up to
500 bytes of memory. Rows have 16,384 cells, and styles 65,490 formats."""
NOT_READ = ("calcChain", "pivotCache", "customXml/", "/charts/", "/drawings/", "/comments")
"""In names of parts that may have more tags, and that are not parsed."""
PIECE = 2**20
ROW = re.compile(rb"</?(?:\w+:)?(?:row|si)[\s/>]")
BEFORE_XML = b"\xef\xbb\xbf\xff\xfe\x00 \r\n\t"
INSTEAD = "save the sheet as CSV or parquet"
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, SyntaxError, LookupError, ValueError, TypeError,
    AttributeError, RuntimeError, OSError,
)  # fmt: skip
"""What openpyxl raises over damaged files; a SyntaxError is one of XML."""


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
    with _readable(path):
        _check_sizes(path)
        with _sheet(path, sheet, computed=True) as found:
            rows = list(_rows(path, found))
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
    with path.open("rb") as file:
        book = openpyxl.load_workbook(file, read_only=True, data_only=computed)
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


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what to do about a file that is no workbook, or a damaged one."""
    try:
        yield
    except UNREADABLE as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"{str(path)!r} cannot be read as an Excel workbook: {error}; it was cut short, is "
            "protected by a password or is something else: save it again as .xlsx or CSV"
        ) from error


def _check_sizes(path: Path) -> None:
    """Refuse a workbook that would take far more memory than its size.

    By the sizes that its directory states, which are the most that is unpacked, and by the length
    of its cells and rows.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as packed:
        unpacked = sum(member.file_size for member in packed.infolist())
        if unpacked > max(SMALL, MOST_TIMES * size):
            raise InvalidInputError(
                f"{str(path)!r} has {size / 1e6:,.1f} MB and would unpack to "
                f"{unpacked / 1e6:,.0f} MB, expected at most {MOST_TIMES} times its size; no "
                f"spreadsheet program writes such a file: open and save it again, or {INSTEAD}"
            )
        for member in packed.infolist():
            counted = not any(part in member.filename for part in NOT_READ)
            with packed.open(member) as content:
                if found := _is_long(content, MOST_TAGS if counted else member.file_size):
                    raise InvalidInputError(f"{str(path)!r} has {found}, or {INSTEAD}")


def _is_long(content: Any, most_tags: int) -> str:
    """What is too long in a part, and what to do about it; of XML alone, and not of pictures."""
    text = row = read = tags = 0  # where the last tag and the open row are; tags since a row
    while piece := content.read(PIECE):
        if not read and not piece.lstrip(BEFORE_XML).startswith(b"<"):
            return ""
        if (place := piece.rfind(b"<")) >= 0:
            text = read + place
        start, most = 0, 0
        for found in ROW.finditer(piece):
            most = max(most, tags + piece.count(b"<", start, found.start()))
            tags, start = 0, found.start()
            row = 0 if found[0].startswith(b"</") else read + start
        tags += piece.count(b"<", start)
        read += len(piece)
        if max(read - text, row and read - row) > LONGEST:
            return f"a cell or row of more than {LONGEST / 2**20:.0f} MB; remove its text"
        if max(most, tags) > most_tags:
            return f"a row, or formats and names, of more than {most_tags:,} tags; remove these"
    return ""


def _rows(path: Path, sheet: Any) -> Iterator[Values]:
    """Rows of a sheet that are not empty, as wide as the first one."""
    width, cells = None, 0
    for number, row in enumerate(sheet.iter_rows(max_row=MOST_ROWS + 1, values_only=True)):
        if number == MOST_ROWS:
            raise InvalidInputError(
                f"{str(path)!r} has a row below {MOST_ROWS:,}, where sheets end; {INSTEAD}"
            )
        if not _filled(row):
            continue
        row = row[:width]
        width = len(row) if width is None else width
        cells += len(row)
        if cells > MOST_CELLS:
            raise InvalidInputError(f"{str(path)!r} has more than {MOST_CELLS:,} cells; {INSTEAD}")
        yield row


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
