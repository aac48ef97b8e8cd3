"""Figures and tables as text: one form of each, wherever a person reads them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeAlias

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that are not shown but do something: control characters, which a terminal obeys,
those that turn the direction of the text around them, and what UTF-8 or XML cannot hold."""

FORMULA = "^'*[=+\\-@\\t\\r\\n＝＋－＠]"
SIGNED_NUMBER = r"(?i)^[+-]+$|^[+-]([0-9., ]+(e[+-]?[0-9]+)?%?|inf|nan|infinity)$"
"""What a spreadsheet computes, and what of it is only a number."""

SPECIAL = re.compile(r"([\\`*_<>#|~$&]|!(?=\[)|\](?=[(:\[]))")


def printable(text: str, keep: str = "") -> str:
    r"""Text from data that can be shown anywhere: what would be obeyed is spelled out.

    Parameters
    ----------
    text : str
        The text.
    keep : str
        Characters to leave as they are, such as line ends.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    return HIDDEN.sub(lambda m: m[0] if m[0] in keep else repr(m[0])[1:-1], text)


def did_you_mean(word: object, words: Iterable[object]) -> str:
    """The word that was perhaps meant, as the end of a message; nothing if none is close.

    Upper and lower case are the same. Words may be names of columns, groups or options.

    Examples
    --------
    >>> did_you_mean("equal_oportunity", ["equal_opportunity", "equalized_odds"])
    "; did you mean 'equal_opportunity'?"
    >>> did_you_mean("Income", ["hours", "income"]), did_you_mean("sex", ["SEX"])
    ("; did you mean 'income'?", "; did you mean 'SEX'?")
    >>> did_you_mean("dp", ["equal_opportunity", "equalized_odds"])
    ''
    """
    spelled = {str(known).casefold(): known for known in words}
    near = difflib.get_close_matches(str(word).casefold(), spelled, 1, 0.7)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


def interval(value: float, low: float, high: float, places: int = 3) -> str:
    """A figure with the ends of its interval.

    Examples
    --------
    >>> interval(0.25, 0.2, 0.3)
    '0.250 [0.200, 0.300]'
    """
    return f"{value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def places(*figures: float) -> int:
    """Decimals of some figures that are printed together.

    Four below 10, as of rates; fewer of large figures, down to none; more where all are so small
    that two digits would not show.

    Examples
    --------
    >>> [places(x) for x in (41_234.0, 523.0, 0.0612, 0.0003)]
    [0, 2, 4, 5]
    """
    largest = max((abs(x) for x in figures if math.isfinite(x)), default=0.0)
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return max(4 - power, 0) if power >= 0 else min(max(4, 1 - power), 12)


def plain_number(value: float) -> str:
    """A number of a user's own, such as a limit, without an exponent where it is large.

    Examples
    --------
    >>> plain_number(0.02), plain_number(2_500_000)
    ('0.02', '2500000')
    """
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"


def markdown_table(
    titles: Sequence[str], lines: Sequence[Sequence[str]], aligned: bool = True
) -> str:
    """A table in Markdown, its columns aligned or not; cells are Markdown already.

    Examples
    --------
    >>> print(markdown_table(["group", "rows"], [["a", "12"]]))
    | group | rows |
    | ----- | ---- |
    | a     | 12   |
    """
    table = [list(titles), *map(list, lines)]
    widths = [max(map(len, column)) if aligned else 0 for column in zip(*table, strict=True)]
    shown = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in table
    ]
    dashes = [f" {'-' * width} " if aligned else "---" for width in widths]
    shown.insert(1, f"|{'|'.join(dashes)}|")
    return "\n".join(shown)


Part: TypeAlias = str | tuple[Sequence[str], Sequence[Sequence[str]]]
"""A paragraph, or the titles and lines of a table, whose cells are not escaped yet."""


def parts_as_markdown(parts: Iterable[Part], escape: Callable[[str], str] | None = None) -> str:
    """Paragraphs and aligned tables in Markdown; empty parts are left out.

    Parameters
    ----------
    parts : iterable of Part
        What to show.
    escape : callable, optional
        What escapes the cells of tables; :func:`escape_markdown` if left out.
    """
    cell, shown = escape or escape_markdown, []
    for part in parts:
        if isinstance(part, str):
            shown += [part] if part else []
            continue
        titles, lines = part
        cells = [[cell(text) for text in line] for line in lines]
        shown.append(markdown_table([cell(title) for title in titles], cells))
    return "\n\n".join(shown)


def parts_as_html(parts: Iterable[Part]) -> str:
    """The same in HTML, for notebooks; everything is escaped.

    Examples
    --------
    >>> parts_as_html(["a < b", (["x"], [["<i>"]])])
    '<p>a &lt; b</p><table><tr><th>x</th></tr><tr><td>&lt;i&gt;</td></tr></table>'
    """

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape_html(c)}</{tag}>' for c in cells)}</tr>"

    def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
        return (
            f"<table>{line(titles, 'th')}{''.join(line(cells, 'td') for cells in lines)}</table>"
        )

    return "".join(
        f"<p>{escape_html(p)}</p>" if isinstance(p, str) else table(*p) for p in parts if p
    )


def text_table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in columns for a terminal; numbers of rows stand to the right.

    Examples
    --------
    >>> print(text_table(["group", "rows"], [["a", "7"], ["b", "12"]]))
    group  rows
    a         7
    b        12
    """
    columns = []
    shown = [[printable(cell) for cell in line] for line in (titles, *lines)]
    for column in zip(*shown, strict=True):
        width, right = max(map(len, column)), column[0].endswith("rows")
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def guard_formula(text: str) -> str:
    """Text with an apostrophe before it where a spreadsheet would compute it; numbers stay.

    Examples
    --------
    >>> guard_formula("=1+1"), guard_formula("-5"), guard_formula("F")
    ("'=1+1", '-5', 'F')
    """
    computed = re.search(FORMULA, text) and not re.search(SIGNED_NUMBER, text)
    return f"'{text}" if computed else text


def escape_html(text: str) -> str:
    """Text from data as text in HTML: no mark-up, and nothing hidden.

    Examples
    --------
    >>> escape_html("<b>")
    '&lt;b&gt;'
    """
    return escape(printable(text))


def escape_markdown(text: str) -> str:
    r"""Text from data as text in Markdown: no mark-up, no link, no line of its own.

    Examples
    --------
    >>> print(escape_markdown("a|b see www.x.org"))
    a\|b see www\.x.org
    """
    escaped = SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))
    # At the start of a line, a number or a sign makes a list; an address anywhere makes a link.
    escaped = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", escaped)
    escaped = re.sub(r"^([-+=])(?=[-+=\s]|$)", r"\\\1", escaped)
    return re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1\\\2", escaped)
