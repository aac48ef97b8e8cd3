"""Rates of several classes as text for the terminal: a line per rate, a column per group."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fairboost._text import text_table
from fairboost.report import words
from fairboost.report.evidence import Confusion, Evidence, GroupRate

MOST_MATRIX = 6
"""Of more classes than these, whole confusion matrices are left to the report."""

ACCURACY, CONFUSED = "accuracy", words.CLASS_KINDS["share of "]


def trained_by(evidence: Evidence) -> list[str]:
    """What groups are shown by: what constraints are about, or else every column."""
    trained = {r.attribute for r in evidence.rates if r.where != "test" and r.attribute}
    trained |= {limit.attribute for limit in evidence.asked.limits if limit.attribute}
    shown = dict.fromkeys(r.attribute for r in evidence.rates if r.attribute and not r.crossed)
    return [name for name in shown if name in trained] or list(shown)


def class_rates(evidence: Evidence, kinds: Collection[str]) -> str:
    """Rates of some kinds by group, one table for each sensitive column.

    Parameters
    ----------
    evidence : Evidence
        Of decisions among classes.
    kinds : collection of str
        As :func:`fairboost.report.words.class_kind` names them.
    """
    rates = [
        r
        for r in evidence.rates
        if (r.where, r.model, r.crossed) == ("test", "chosen", False)
        and words.class_kind(r.rate) in kinds
    ]
    cells = {(r.attribute, r.group, r.rate): _figure(r) for r in rates}
    matrix = CONFUSED in kinds and len(evidence.data.classes) <= MOST_MATRIX
    if matrix:
        cells |= dict(_of_matrices(evidence))
    names = _in_order({rate for *_, rate in cells})
    tables = []
    for name in trained_by(evidence):
        groups = dict.fromkeys((a, g) for a, g, _ in cells if a in ("", name))
        sign = "=" if name in {c.name for c in evidence.data.sensitive} else ": "
        titles = [f"{a}{sign}{g}" if a else g for a, g in groups]
        lines = [[rate, *(cells.get((*group, rate), "") for group in groups)] for rate in names]
        lines.append(["rows", *(_rows(evidence, *group) for group in groups)])
        tables.append(text_table(["rate", *titles], lines))
    if CONFUSED in kinds and not matrix:
        said = f"With {len(evidence.data.classes)} classes, confusion matrices are in the report."
        tables.append(said)
    return "\n\n".join(tables)


def class_gaps(evidence: Evidence) -> str:
    """Gaps and ratios of rates of classes."""
    single = {c.name for c in evidence.data.sensitive}
    lines = [
        [
            g.attribute,
            g.rate,
            _interval(g.gap, g.gap_low, g.gap_high),
            _interval(g.ratio, g.ratio_low, g.ratio_high),
            f"{g.lowest_group} / {g.highest_group}",
        ]
        for g in evidence.gaps
        if g.attribute in single
    ]
    return text_table(["by", "rate", "gap", "ratio", "lowest / highest"], lines)


def _of_matrices(evidence: Evidence) -> Iterator[tuple[tuple[str, str, str], str]]:
    """What is not on the diagonal of confusion matrices; recalls are."""
    for line in evidence.confusion:
        for k, given in enumerate(evidence.data.classes):
            if given != line.actual:
                name = f"share of {line.actual!r} given {given!r}"
                yield (line.attribute, line.group, name), _share(line, k)


def _share(line: Confusion, k: int) -> str:
    small = " (small)" if line.small else ""
    return _interval(line.shares[k], line.low[k], line.high[k]) + small


def _figure(r: GroupRate) -> str:
    return _interval(r.value, r.low, r.high) + (" (small)" if r.small else "")


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    return "undefined" if value is None else words.interval(value, low, high, 3)


def _rows(evidence: Evidence, attribute: str, group: str) -> str:
    """Rows of a group, which its accuracy counts."""
    place = "test", "chosen", attribute, group, ACCURACY
    found = (
        f"{r.rows:,.0f}"
        for r in evidence.rates
        if (r.where, r.model, r.attribute, r.group, r.rate) == place
    )
    return next(found, "")


def _in_order(names: set[str]) -> list[str]:
    """Accuracy first, then kind by kind."""
    kinds = [ACCURACY, *words.CLASS_KINDS.values()]
    return sorted(names, key=lambda name: (kinds.index(words.class_kind(name)), name))
