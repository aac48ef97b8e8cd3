"""What was found where one of several classes is given: rates, confusion matrices and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fairboost.plots.classes import MOST_PANELS
from fairboost.report import words
from fairboost.report.blocks import Block, Cell, Facts, Folded, Picture, TableBlock, Text
from fairboost.report.evidence import Confusion, Evidence, GroupRate

MOST_COLUMNS = 8
"""Classes that a table has columns for; of more, each share has a line of its own."""

LEAST_SHARE = 0.02
"""Shares that have a line then; the evidence has all."""

MOST_PICTURES = 8
"""Rates that have a picture; tables have all."""


def explain_kinds(rates: Iterable[str]) -> Facts:
    """What the kinds of rates are that occur."""
    kinds = dict.fromkeys(map(words.class_kind, rates))
    explained = words.EXPLAINED_KINDS
    return Facts(tuple((kind, explained[kind]) for kind in kinds if kind in explained))


def in_pictures(e: Evidence, rates: Sequence[str]) -> list[str]:
    """Rates to draw: those that were asked about, the accuracy, and else recalls.

    Confused shares are in the picture of confusion matrices.
    """
    asked = {limit.rate for limit in e.asked.limits}
    wanted = [r for r in rates if r in asked and not words.is_confused(r)]
    wanted = wanted or [r for r in rates if words.class_kind(r) == "recall of a class"]
    return [r for r in rates if r in wanted or r == "accuracy"][:MOST_PICTURES]


def split(rates: Iterable[GroupRate]) -> tuple[list[GroupRate], list[GroupRate]]:
    """Rates that stand by themselves, and the confused shares that were asked about."""
    known = list(rates)
    confused = [r for r in known if words.is_confused(r.rate)]
    return [r for r in known if not words.is_confused(r.rate)], confused


def confusion(e: Evidence) -> Iterator[Block]:
    """Confusion matrices by group: pictures, and tables to open."""
    if not e.confusion:
        return
    yield Text(
        "Of the test rows of each class (lines), the share that the model gives each class "
        "(columns). Each line adds up to 1; the diagonal is right. Groups are treated equally "
        "where their lines are equal."
    )
    columns = [a for a in dict.fromkeys(c.attribute for c in e.confusion) if a]
    for column in columns:
        groups = list(dict.fromkeys(c.group for c in e.confusion if c.attribute == column))
        if len(groups) + 1 > MOST_PANELS:
            yield Text(f"By {column} there are too many groups for a picture; a table has them.")
            continue
        yield Picture(
            "confusion",
            column,
            f"Confusion matrices of everyone and by {column}, in percent of the rows of each "
            "class. The darker, the larger the share.",
            f"Groups: {words.join(groups)}. A table below has the figures.",
        )
    for column in ["", *columns]:
        found = [c for c in e.confusion if c.attribute == column]
        title = f"Confusion matrices by {column}" if column else "Confusion matrix of everyone"
        level = f"{100 * e.asked.level:g}%"
        shown = (_matrix(title, found, e.data.classes), _ends(found, e.data.classes, level))
        yield Folded(f"{title}: all figures", shown)


def _matrix(title: str, found: Sequence[Confusion], classes: Sequence[str]) -> TableBlock:
    """A line for each class of each group, a column for each class that is given."""
    if len(classes) > MOST_COLUMNS:
        rows = (
            (*_head(c), given, words.number_cell(share))
            for c in found
            for given, share in zip(classes, c.shares, strict=True)
            if share and share >= LEAST_SHARE
        )
        named = ("by", "group", "class", "rows", "given", "share")
        return TableBlock.of(f"{title}; without shares below {LEAST_SHARE}", named, rows, 3)
    lines = ((*_head(c), *map(words.number_cell, c.shares), _note(c)) for c in found)
    header = ("by", "group", "class", "rows", *(f"given {name}" for name in classes), "note")
    return TableBlock.of(title, header, lines, 3)


def _ends(found: Sequence[Confusion], classes: Sequence[str], level: str) -> TableBlock:
    """The largest share of each line beside the diagonal, with its interval."""
    rows = []
    for c in found:
        wrong = [k for k, name in enumerate(classes) if name != c.actual and c.shares[k]]
        at = max(wrong, key=lambda k: c.shares[k] or 0.0, default=None)
        own = list(classes).index(c.actual)
        ends = [words.interval_cell(c.shares[k], c.low[k], c.high[k]) for k in (own, at or 0)]
        other = (classes[at], ends[1]) if at is not None else (words.ABSENT, Cell(words.ABSENT))
        rows.append((*_head(c), ends[0], *other, _note(c)))
    header = (
        "by",
        "group",
        "class",
        "rows",
        "given its own class",
        "wrong class given most often",
    )
    title = f"With {level} intervals: the right class, and the wrong class given most often"
    return TableBlock.of(title, (*header, "share given that", "note"), rows, 3)


def _head(c: Confusion) -> tuple[object, ...]:
    return c.attribute or "everyone", c.group, c.actual, words.count(c.rows)


def _note(c: Confusion) -> Cell:
    if not c.rows:
        return Cell("no rows", -2.0, "unsure")
    return Cell("too small to judge", -1.0, "unsure") if c.small else Cell("", 0.0)


def costs(e: Evidence) -> Iterator[Block]:
    """What decisions cost, where the class of least expected cost is given."""
    if not e.asked.costs:
        return
    classes = e.data.classes
    title = "Costs of giving a row of each class (lines) each class (columns)"
    lines = (
        (name, *(Cell(words.limit(cost), cost) for cost in line))
        for name, line in zip(classes, e.asked.costs, strict=True)
    )
    if len(classes) > MOST_COLUMNS:
        pairs = (
            (name, given, Cell(words.limit(cost), cost))
            for name, line in zip(classes, e.asked.costs, strict=True)
            for given, cost in zip(classes, line, strict=True)
        )
        yield Folded(title, (TableBlock.of(title, ("class", "given", "cost"), pairs, 2),))
        return
    yield TableBlock.of(title, ("class", *(f"given {name}" for name in classes)), lines)
