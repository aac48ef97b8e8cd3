"""The report as Markdown: the same words and tables, without pictures."""

from __future__ import annotations

from fairboost._text import escape_markdown, markdown_table
from fairboost.report.blocks import SIGNS, Block, Bullets, Facts, Picture, Slider, Table, Text
from fairboost.report.evidence import Evidence
from fairboost.report.layout import lay_out


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
    parts = [f"# {escape_markdown(evidence.title)}"]
    for section in lay_out(evidence):
        parts.append(f"## {escape_markdown(section.title)}")
        parts += filter(None, map(_block, section.blocks))
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
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
            f"**{escape_markdown(name)}**\n\n{_table(table)}"
            for name, table in zip(block.names, block.tables, strict=True)
        )
    return f"**{escape_markdown(block.title)}**\n\n{_table(block)}"


def _table(table: Table) -> str:
    rows = [[f"{SIGNS[c.tone]}{escape_markdown(c.text)}" for c in row] for row in table.rows]
    return markdown_table([escape_markdown(title) for title in table.header], rows)
