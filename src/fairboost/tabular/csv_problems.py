"""What is wrong with a CSV file, in words that name the line.

Arrow says that a text is not UTF-8, or that a row has too few fields, without saying where. A
second look at the file, taken only when something is wrong, does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
DELIMITERS = (",", ";", "\t", "|")


def sniff_delimiter(header: str) -> str:
    """Guess what separates fields: a comma, if the header has one.

    Examples
    --------
    >>> sniff_delimiter("age;sex;income")
    ';'
    """
    return next((d for d in DELIMITERS if d in header), ",")


def lines_of(stream: Any, size: int = 2**20) -> Iterator[bytes]:
    r"""Lines of a stream, however long it is.

    Examples
    --------
    >>> import io
    >>> list(lines_of(io.BytesIO(b"a,b|1,2|3".replace(b"|", b"\n")), size=2))
    [b'a,b', b'1,2', b'3']
    """
    rest = b""
    while piece := stream.read(size):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest


def first_line_not_in_utf8(lines: Iterable[bytes]) -> tuple[int, str] | None:
    """Number of the first line that is no UTF-8, and what is there; None if all of it is.

    Examples
    --------
    >>> first_line_not_in_utf8([b"name", "José".encode("latin-1")])
    (2, "byte 0xe9 after 'Jos'")
    """
    for number, line in enumerate(lines, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            before = line[: error.start].decode("utf-8")[-20:]
            return number, f"byte 0x{line[error.start]:02x} after {before!r}"
    return None


def not_in_utf8(lines: Iterable[bytes]) -> str | None:
    """Say where a file is not UTF-8 and what to do; None if it is."""
    rest = iter(lines)
    first = next(rest, b"")
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            return f"is in {encoding}, expected UTF-8; pass --encoding {encoding}"
    found = first_line_not_in_utf8(chain([first], rest))
    if found is None:
        return None
    line, what = found
    return (
        f"is not in UTF-8: line {line} has {what}; pass its encoding, often --encoding latin-1 "
        "or --encoding cp1252"
    )


def explain(message: str, lines: Iterable[bytes]) -> str:
    """Put what Arrow said of a CSV file into words, after a second look at the file."""
    if fields := re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", message, re.DOTALL):
        expected, found, text = fields.groups()
        shown = text.strip()[:40]
        return (
            f"has a row of {found} fields where the header has {expected}: {shown!r}; mend that "
            "row, or name another --delimiter"
        )
    wrong = not_in_utf8(lines)
    if wrong is not None:
        return wrong
    return f"cannot be read as CSV: {message}"
