"""The report as Markdown: the same words and tables, without pictures."""

from __future__ import annotations

import re

from fairboost.report.blocks import Block, Bullets, Cell, Facts, Picture, Slider, Table, Text
from fairboost.report.evidence import Evidence
from fairboost.report.layout import lay_out

SIGNS = {"good": "✓ ", "bad": "✗ ", "unsure": "? ", "": ""}
"""Before good and bad news."""

SPECIAL = re.compile(r"([\\`*_<>#|~$&]|!(?=\[)|\](?=[(:\[]))")
"""Characters that Markdown, or HTML inside of it, would take for its own."""


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
    parts = [f"# {_escape(evidence.title)}"]
    for section in lay_out(evidence):
        parts.append(f"## {_escape(section.title)}")
        parts += filter(None, map(_block, section.blocks))
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Text):
        text = f"{SIGNS[block.tone]}{_escape(block.text)}"
        return f"**{text}**" if block.tone else text
    if isinstance(block, Bullets):
        return "\n".join(f"- {_escape(item)}" for item in block.items)
    if isinstance(block, Facts):
        return "\n".join(f"- **{_escape(name)}**: {_escape(value)}" for name, value in block.items)
    if isinstance(block, Picture):
        return f"*{_escape(block.caption)}* {_escape(block.alt)}"
    if isinstance(block, Slider):
        return "\n\n".join(
            f"**{_escape(name)}**\n\n{_table(table)}"
            for name, table in zip(block.names, block.tables, strict=True)
        )
    return f"**{_escape(block.title)}**\n\n{_table(block)}"


def _table(table: Table) -> str:
    lines = [list(map(_escape, table.header)), *([_cell(c) for c in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _cell(cell: Cell) -> str:
    return f"{SIGNS[cell.tone]}{_escape(cell.text)}"


def _escape(text: str) -> str:
    """Text that is text: no mark-up, no link, no line of its own."""
    flat = " ".join(text.split())
    escaped = SPECIAL.sub(r"\\\1", flat)
    # At the start of a line, a number or a sign makes a list; an address anywhere makes a link.
    escaped = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", escaped)
    escaped = re.sub(r"^([-+=])(?=[-+=\s]|$)", r"\\\1", escaped)
    return re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1\\\2", escaped)
