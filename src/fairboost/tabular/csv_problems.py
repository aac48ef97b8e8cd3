"""What is wrong with a CSV file, in words that name the line.

Arrow says that a text is not UTF-8, or that a row has too few fields, without saying where. A
second look at the file, taken only when something is wrong, does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""


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


def not_in_utf8(lines: Iterable[bytes]) -> str | None:
    """Say where a file is not UTF-8 and what to do; None if it is.

    Examples
    --------
    >>> not_in_utf8([b"name", "José".encode("latin-1")]).partition(";")[0]
    "is not in UTF-8: line 2 has byte 0xe9 after 'Jos'"
    """
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(UTF_16_MARKS):
            return "is in utf-16, expected UTF-8; pass --encoding utf-16"
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            before = line[: error.start].decode("utf-8")[-20:]
            return (
                f"is not in UTF-8: line {number} has byte 0x{line[error.start]:02x} after "
                f"{before!r}; pass its encoding, often --encoding latin-1 or --encoding cp1252"
            )
    return None


def explain(message: str, lines: Iterable[bytes]) -> str:
    """Put what Arrow said of a CSV file into words, after a second look at the file."""
    if fields := re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", message, re.DOTALL):
        expected, found, text = fields.groups()
        return (
            f"has a row of {found} fields where the header has {expected}: {text.strip()[:40]!r}; "
            "mend that row, or name another --delimiter"
        )
    return not_in_utf8(lines) or f"cannot be read as CSV: {message}"
