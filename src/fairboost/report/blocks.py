"""What a page is made of: paragraphs, tables and pictures, as data.

A page is laid out once, in these, and written twice, as HTML and as Markdown; so both say the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "unsure"]

SIGNS: dict[Tone, str] = {"good": "✓ ", "bad": "✗ ", "unsure": "? ", "": ""}
"""Before good and bad news, so that they are not told by colour alone."""

BLANK = "☐ "
"""Before what a person has still to fill in."""

Shade: TypeAlias = Literal[0, 1, 2, 3, 4]

MARKS = ("", "○ ", "◔ ", "◑ ", "● ")
"""Before shaded entries, so that shades are not told by colour alone."""


@dataclass(frozen=True)
class Cell:
    """An entry of a table.

    Parameters
    ----------
    text : str
        As shown.
    key : float or None
        What to sort by, if not by the text.
    tone : {"", "good", "bad", "unsure"}
        Good or bad news; shown by a sign and a colour.
    shade : {0, 1, 2, 3, 4}
        How far from parity, as against a limit; shown by a mark and the ground. 0 is no shade.
    """

    text: str
    key: float | None = None
    tone: Tone = ""
    shade: Shade = 0

    @property
    def shown(self) -> str:
        """The text behind its sign or mark."""
        return f"{SIGNS[self.tone]}{MARKS[self.shade]}{self.text}"


@dataclass(frozen=True)
class Text:
    """A paragraph; one with a tone stands out."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Bullets:
    """Points, one below the other."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for; what begins with :data:`BLANK` is still to be filled in."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableBlock:
    """A table.

    Parameters
    ----------
    title : str
        What it shows.
    header : tuple of str
        Titles of the columns.
    rows : tuple of tuple of Cell
        The entries.
    row_headers : int
        How many columns, from the left, say what a row is about.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    row_headers: int = 1

    @classmethod
    def of(
        cls,
        title: str,
        header: Iterable[str],
        rows: Iterable[Iterable[object]],
        row_headers: int = 1,
    ) -> Self:
        """A table in which anything but a cell stands for a cell with its text."""
        cells = (tuple(c if isinstance(c, Cell) else Cell(str(c)) for c in row) for row in rows)
        return cls(title, tuple(header), tuple(cells), row_headers)


@dataclass(frozen=True)
class Picture:
    """A picture.

    Parameters
    ----------
    name : str
        Which, see :mod:`fairboost.report.pictures`.
    about : str
        What of the evidence it shows, e.g. the name of a rate or of a column.
    caption : str
        What it shows, in a sentence.
    alt : str
        What is to be seen in it, for those who do not see it.
    """

    name: str
    about: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Slider:
    """Models to slide along, and a table that follows.

    Parameters
    ----------
    title : str
        What the slider is for.
    names : tuple of str
        A line on each model, for the one that it stands on.
    start : int
        Where it stands at first.
    tables : tuple of TableBlock
        One for each model, all with the same rows and columns.
    """

    title: str
    names: tuple[str, ...]
    start: int
    tables: tuple[TableBlock, ...]


@dataclass(frozen=True)
class Folded:
    """Details that a reader may open; in print and in Markdown they are open.

    Parameters
    ----------
    title : str
        What they are.
    blocks : tuple
        The details.
    """

    title: str
    blocks: tuple[Text | Facts | TableBlock, ...]


Block: TypeAlias = Text | Bullets | Facts | TableBlock | Picture | Slider | Folded


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own."""

    title: str
    blocks: tuple[Block, ...]
