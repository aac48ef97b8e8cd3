"""The page in two forms, HTML and Markdown, of the same words and tables.

The HTML page needs nothing else: no network, no other file. Every value from the data passes
through :func:`fairboost._text.escape_html`, and inside of JSON through :func:`_json`. A content
security policy forbids the page to load anything, and to run any script but its own. The Markdown
has no pictures.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import TypeAlias

from fairboost._files import write_text
from fairboost._text import escape_html as escape
from fairboost._text import escape_markdown, markdown_table
from fairboost.report.blocks import (
    BLANK,
    SIGNS,
    Block,
    Bullets,
    Cell,
    Facts,
    Folded,
    Picture,
    Section,
    Slider,
    TableBlock,
    Text,
)
from fairboost.report.evidence import Evidence
from fairboost.report.layout import lay_out
from fairboost.report.pictures import draw

Drawn: TypeAlias = Callable[[Picture, str], str]

LONG = 12
"""Characters of a word from which on it may be broken in a table."""

INTERVAL = re.compile(r"\[-?[\d.,]+, -?[\d.,]+\]")
"""In which no line should end."""

MOST_UNBROKEN = 20
"""Characters of an interval up to which there is room for that."""

TALL = 12
"""Rows from which on a table has a box of its own to scroll in, under its header."""


def write_report(evidence: Evidence, folder: str | Path) -> tuple[Path, Path, Path]:
    """Write ``report.html``, ``report.md`` and ``evidence.json``.

    Parameters
    ----------
    evidence : Evidence
        What the report rests on.
    folder : str or Path
        Where to; it must exist. Files of these names are overwritten, each whole or not at all.

    Returns
    -------
    tuple of Path
        The three files.
    """
    target = Path(folder)
    texts = {
        "report.html": to_html(evidence),
        "report.md": to_markdown(evidence),
        "evidence.json": evidence.to_json(),
    }
    for name, text in texts.items():
        write_text(target / name, text)
    page, markdown, document = (target / name for name in texts)
    return page, markdown, document


# HTML
# -----------------------------------------------------------------------


def to_html(evidence: Evidence) -> str:
    """Write the report as an HTML page.

    Parameters
    ----------
    evidence : Evidence
        What it rests on. The same evidence gives the same page.

    Returns
    -------
    str
        The page. Plots need matplotlib, the extra ``plots``.
    """
    version = "" if evidence.model is None else evidence.model.fairboost_version
    return html_page(
        evidence.title,
        lay_out(evidence),
        version,
        lambda picture, name: draw(picture, evidence, name),
    )


def html_page(
    title: str, parts: Iterable[Section], version: str = "", drawn: Drawn | None = None
) -> str:
    """An HTML page of sections.

    Parameters
    ----------
    title : str
        Of the page.
    parts : iterable of Section
        Each under a title of its own.
    version : str
        Of fairboost, for the last line.
    drawn : callable, optional
        Draws a picture under a name that is unique in the page, as SVG; if there are any.
    """
    sections = {_name(section.title): section for section in parts}
    links = (f'<li><a href="#{k}">{escape(s.title)}</a></li>' for k, s in sections.items())
    script = _asset("page.js")
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        style=_asset("page.css"),
        script=script,
        digest=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        contents="".join(links),
        body="".join(_section(section, name, drawn) for name, section in sections.items()),
        version=f" {escape(version)}" if version else "",
    )


@cache
def _asset(name: str) -> str:
    return files("fairboost.report").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section, name: str, drawn: Drawn | None) -> str:
    body = f'<h2 id="{name}">{escape(section.title)}</h2>\n'
    runs = groupby(section.blocks, lambda block: isinstance(block, Picture))
    for n, (pictures, run) in enumerate(runs):
        inside = "".join(_block(b, drawn, f"{name}-{n}-{k}") for k, b in enumerate(run))
        body += f'<div class="pictures">{inside}</div>\n' if pictures else inside
    return f'<section aria-labelledby="{name}">\n{body}</section>\n'


def _block(block: Block, drawn: Drawn | None, name: str) -> str:
    if isinstance(block, Text):
        kind = f' class="callout {block.tone}"' if block.tone else _blank(block.text)
        return f"<p{kind}>{SIGNS[block.tone]}{escape(block.text)}</p>\n"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>\n"
    if isinstance(block, Facts):
        pairs = (f"<dt>{escape(k)}</dt><dd{_blank(v)}>{escape(v)}</dd>" for k, v in block.items)
        return f"<dl>{''.join(pairs)}</dl>\n"
    if isinstance(block, Picture):
        assert drawn is not None, "nobody draws the pictures"
        svg = drawn(block, name)
        return f"<figure>{svg}<figcaption>{escape(block.caption)}</figcaption></figure>\n"
    if isinstance(block, Slider):
        return _slider(block, name)
    if isinstance(block, Folded):
        inside = (_block(b, drawn, f"{name}-{k}") for k, b in enumerate(block.blocks))
        summary = f"<summary>{escape(block.title)}</summary>"
        return f"<details>{summary}{''.join(inside)}</details>\n"
    return _table(block, name)


def _blank(text: str) -> str:
    """The mark of what is still to be filled in."""
    return ' class="blank"' if text.startswith(BLANK) else ""


def _table(table: TableBlock, name: str) -> str:
    head = "".join(
        f'<th scope="col"{" class=long" * _is_long(title)}>'
        f'<button type="button">{escape(title)}</button></th>'
        for title in table.header
    )
    names = [(title, k < table.row_headers) for k, title in enumerate(table.header)]
    lines = "".join(f"<tr>{''.join(map(_cell, row, names))}</tr>\n" for row in table.rows)
    box = "scroll"
    if len(table.rows) > TALL:  # by keyboard, too
        box = f'scroll tall" tabindex="0" role="region" aria-labelledby="{name}'
    return (
        f'<div class="table"><h3 id="{name}">{escape(table.title)}</h3>'
        f'<div class="{box}">'
        f'<table aria-labelledby="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{lines}</tbody></table></div></div>\n"
    )


def _cell(cell: Cell, column: tuple[str, bool]) -> str:
    """An entry of a column: its name, for where rows are cards, and whether it heads rows."""
    name, heads = column
    long = _is_long(cell.text)
    shade = f"shade-{cell.shade}" if cell.shade else ""
    kinds = " ".join(filter(None, (cell.tone, shade, "long" if long else "")))
    kind = f' class="{kinds}"' if kinds else ""
    key = "" if cell.key is None else f' data-key="{cell.key!r}"'
    start = 'th scope="row"' if heads else "td"
    text = _unbroken(escape(cell.shown))
    return f'<{start}{kind}{key} data-name="{escape(name)}">{text}</{start[:2]}>'


def _is_long(text: str) -> bool:
    """Whether a text has a word that may have to be broken."""
    return any(len(word) > LONG for word in text.split())


def _unbroken(text: str) -> str:
    """Text in which no line ends within an interval, unless it is of large amounts."""

    def joined(found: re.Match[str]) -> str:
        whole = found.group()
        return whole.replace(" ", "\u00a0") if len(whole) <= MOST_UNBROKEN else whole

    return INTERVAL.sub(joined, text)


def _slider(slider: Slider, name: str) -> str:
    """A slider that is idle until the script wakes it: the table is then that of the start."""
    first = slider.tables[0].row_headers
    found = {
        "names": slider.names,
        "first": first,
        "tables": [
            [
                [[_unbroken(cell.shown), cell.key, cell.shade] for cell in row[first:]]
                for row in table.rows
            ]
            for table in slider.tables
        ],
    }
    last, start = len(slider.names) - 1, slider.start
    return (
        f'<div class="slider"><label for="{name}-slider">{escape(slider.title)}</label>'
        f'<input id="{name}-slider" type="range" min="0" max="{last}" step="1" value="{start}" '
        f'autocomplete="off" disabled>'
        f'<output for="{name}-slider">{escape(slider.names[start])}</output>'
        f"{_table(slider.tables[start], f'{name}-table')}"
        f'<script type="application/json">{_json(found)}</script></div>\n'
    )


def _json(value: object) -> str:
    """JSON that cannot end the element that it is in, whatever its texts are."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _name(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


# Markdown
# -----------------------------------------------------------------------


def to_markdown(evidence: Evidence) -> str:
    """Write the report as Markdown.

    Parameters
    ----------
    evidence : Evidence
        What it rests on. The same evidence gives the same text.

    Returns
    -------
    str
        With tables as on GitHub. Values from data are escaped.
    """
    return markdown_page(evidence.title, lay_out(evidence))


def markdown_page(title: str, sections: Iterable[Section]) -> str:
    """A page of sections as Markdown.

    Parameters
    ----------
    title : str
        Of the page.
    sections : iterable of Section
        Each under a title of its own.
    """
    parts = [f"# {escape_markdown(title)}"]
    for section in sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += filter(None, map(_markdown_block, section.blocks))
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, Text):
        text = f"{SIGNS[block.tone]}{escape_markdown(block.text)}"
        return f"**{text}**" if block.tone else text
    if isinstance(block, Bullets):
        return "\n".join(f"- {escape_markdown(item)}" for item in block.items)
    if isinstance(block, Facts):
        pairs = ((escape_markdown(name), escape_markdown(value)) for name, value in block.items)
        return "\n".join(f"- **{name}**: {value}" for name, value in pairs)
    if isinstance(block, Picture):
        return f"*{escape_markdown(block.caption)}* {escape_markdown(block.alt)}"
    if isinstance(block, Slider):
        return "\n\n".join(
            f"**{escape_markdown(name)}**\n\n{_markdown_table(table)}"
            for name, table in zip(block.names, block.tables, strict=True)
        )
    if isinstance(block, Folded):
        return "\n\n".join(map(_markdown_block, block.blocks))
    return f"**{escape_markdown(block.title)}**\n\n{_markdown_table(block)}"


def _markdown_table(table: TableBlock) -> str:
    rows = [[escape_markdown(cell.shown) for cell in row] for row in table.rows]
    return markdown_table([escape_markdown(title) for title in table.header], rows)
