"""A document to file: sections of a page, and its tables as data.

Every format is laid out once, in the blocks of :mod:`fairboost.report.blocks`, and written as
HTML, as Markdown, as CSV (one file per table) and as JSON. What only a person can know is a blank,
marked as such, until the person passes it as a field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from fairboost import __version__
from fairboost._files import write_text
from fairboost._text import guard_formula, printable
from fairboost.exceptions import InvalidInputError
from fairboost.report.blocks import BLANK, Block, Bullets, Cell, Facts, Section, TableBlock, Text
from fairboost.report.pages import Drawn, html_page, markdown_page

NOT_ADVICE = (
    "This document is not legal advice, and it does not show that a law is complied with. It "
    "computes figures that the text named here asks for, from the data that was given. Have a "
    "lawyer check which texts apply, and whether they have changed."
)


@dataclass(frozen=True)
class FormField:
    """What only a person can fill in.

    Parameters
    ----------
    title : str
        What it is.
    by : str
        Who knows it, e.g. "the independent auditor".
    is_date : bool
        Whether it is a day, to be written as 2026-03-31.
    """

    title: str
    by: str
    is_date: bool = False


@dataclass(frozen=True)
class Filing:
    """A document to file. Made by the functions of :mod:`fairboost.filings`.

    Parameters
    ----------
    kind : str
        The format, e.g. "ll144"; the names of files begin with it.
    title : str
        Of the page.
    sections : tuple of Section
        The page.
    tables : dict of str to pandas.DataFrame
        Its tables, by the end of the name of their file.
    facts : dict
        Figures that are in no table, and the fields; for programs.
    drawn : callable, optional
        Draws the pictures of the page, see :func:`fairboost.report.pages.html_page`.
    """

    kind: str
    title: str
    sections: tuple[Section, ...]
    tables: dict[str, pd.DataFrame]
    facts: dict[str, Any]
    drawn: Drawn | None = None

    def to_html(self) -> str:
        """The document as an HTML page, to be read in a browser or printed."""
        return html_page(self.title, self.sections, __version__, self.drawn)

    def to_markdown(self) -> str:
        """The document as Markdown."""
        return markdown_page(self.title, self.sections)

    def to_json(self) -> str:
        """Tables and facts as JSON."""
        tables = {name: _plain(table.to_dict("records")) for name, table in self.tables.items()}
        content = {"format": self.kind, "fairboost": __version__, **_plain(self.facts)}
        return json.dumps({**content, "tables": tables}, indent=1, ensure_ascii=False) + "\n"

    def write(self, folder: str | Path) -> list[Path]:
        """Write HTML, Markdown, JSON, and a CSV file per table.

        Parameters
        ----------
        folder : str or Path
            Where to; it is made if it is not there. Each file is written whole or not at all.

        Returns
        -------
        list of Path
            The files.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        texts = {
            f"{self.kind}.html": self.to_html(),
            f"{self.kind}.md": self.to_markdown(),
            f"{self.kind}.json": self.to_json(),
        }
        for name, table in self.tables.items():
            texts[f"{self.kind}-{name}.csv"] = _csv(table)
        for name, text in texts.items():
            write_text(target / name, text)
        return [target / name for name in texts]


def check_fields(
    fields: Mapping[str, str] | None, known: Mapping[str, FormField]
) -> dict[str, str]:
    """The fields that were filled in; raises on a name that the format does not have.

    Parameters
    ----------
    fields : mapping of str to str or None
        What was filled in.
    known : mapping of str to FormField
        The fields of the format.

    Examples
    --------
    >>> check_fields({"day": "2026-03-31"}, {"day": FormField("Day", "the auditor", is_date=True)})
    {'day': '2026-03-31'}
    """
    found = dict(fields or {})
    for name, value in found.items():
        if name not in known:
            raise InvalidInputError(
                f"the format has no field {name!r}; expected one of {', '.join(known)}"
            )
        if known[name].is_date:
            try:
                date.fromisoformat(value)
            except ValueError:
                raise InvalidInputError(
                    f"the field {name!r} must be a day such as 2026-03-31, found {value!r}"
                ) from None
        if not value.strip():
            raise InvalidInputError(f"the field {name!r} is empty; fill it in, or leave it out")
    return found


def filled(
    known: Mapping[str, FormField], given: Mapping[str, str], names: Iterable[str]
) -> Facts:
    """Some fields as facts: what was filled in, or a blank that says who knows it.

    Parameters
    ----------
    known, given : mapping
        The fields of the format, and what was filled in.
    names : iterable of str
        Which of them.
    """
    return Facts(
        tuple(
            (known[n].title, given.get(n) or f"{BLANK}to be filled in by {known[n].by}")
            for n in names
        )
    )


def blank(what: str, by: str) -> Text:
    """A paragraph that is still to be written.

    Parameters
    ----------
    what : str
        What it is to say.
    by : str
        Who knows.
    """
    return Text(f"{BLANK}To be filled in by {by}: {what}")


def about_the_text(follows: str, notes: Sequence[str] = ()) -> Section:
    """The section that names the text that a format follows.

    Parameters
    ----------
    follows : str
        The text, and its version.
    notes : sequence of str
        What this document leaves out of it.
    """
    blocks: list[Block] = [Text(f"This document follows {follows}.")]
    if notes:
        blocks.append(Bullets(tuple(notes)))
    return Section("The text that this follows", (*blocks, Text(NOT_ADVICE, "unsure")))


def shown(
    title: str, frame: pd.DataFrame, decimals: Mapping[str, str], row_headers: int = 1
) -> TableBlock:
    """A table of the page.

    Parameters
    ----------
    title : str
        What it shows.
    frame : pandas.DataFrame
        Its rows.
    decimals : mapping of str to str
        How the figures of a column are written: a format such as ".1%" or ",.0f", or ``P_VALUE``.
    row_headers : int
        How many columns say what a row is about.
    """
    rows = [
        [
            _cell(value, decimals.get(str(name), ""))
            for name, value in zip(frame, line, strict=True)
        ]
        for line in frame.itertuples(index=False)
    ]
    return TableBlock.of(title, map(str, frame.columns), rows, row_headers)


P_VALUE, LEAST_P = "p", 0.0001
"""The format of p values, and the least of them that is written as it is."""


def _cell(value: Any, form: str) -> Cell:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell("–")
    if form:
        text = format(value, ".4f" if form == P_VALUE else form)
        small = form == P_VALUE and value < LEAST_P
        return Cell(f"< {LEAST_P:.4f}" if small else text, float(value))
    return Cell(str(value))


def _csv(table: pd.DataFrame) -> str:
    """A table as CSV, in which neither a spreadsheet nor a terminal obeys any text."""

    def guarded(value: object) -> object:
        return guard_formula(printable(value)) if isinstance(value, str) else value

    shown = table.map(guarded).rename(columns=lambda name: guarded(str(name)))
    return shown.to_csv(index=False, lineterminator="\n")


def _plain(value: Any) -> Any:
    """A value as JSON can have it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    own = value.item() if hasattr(value, "item") else value
    return None if isinstance(own, float) and not math.isfinite(own) else own
