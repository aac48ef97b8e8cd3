"""What was found: verdicts, rates, gaps and performance, section by section."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairboost.report.blocks import Block, Bullets, Cell, Facts, Picture, Table, Text, Tone
from fairboost.report.evidence import Evidence, Finding, GroupRate
from fairboost.report.lines import CHOSEN, PLAIN
from fairboost.report.words import (
    MODELS,
    count,
    explain_rate,
    interval,
    interval_cell,
    number,
    rate_title,
    status_cell,
    where_title,
)

MOST_NAMED = 30
"""Small groups that are listed by name; all are flagged in tables."""

MOST_LINES = 1_500
"""Lines of a table, so that the page stays small."""


def summary(e: Evidence) -> Iterable[Block]:
    """The verdicts, what they cost, and warnings."""
    tests = [f for f in e.verdicts if f.where == "test"]
    shown = tests or list(e.verdicts)
    if shown:
        met = sum(f.status == "met" for f in shown)
        tone: Tone = "good" if met == len(shown) else "bad"
        if tone == "bad" and not any(f.status == "not met" for f in shown):
            tone = "unsure"
        where = where_title(shown[0].where)
        constraints = "the constraint" if len(shown) == 1 else f"{met} of {len(shown)} constraints"
        said = f"{constraints} {_is_are(met, len(shown), shown)} on the {where}."
        yield Text(said[:1].upper() + said[1:], tone)
        yield Bullets(tuple(f"{f.constraint}: {_found(f, e)}" for f in shown))
    elif e.gaps:
        yield Text("No constraint was asked for: this is an audit of decisions as they are.")
        decided = [g for g in e.gaps if g.four_fifths and g.model == CHOSEN]
        yield Bullets(
            tuple(
                f"{g.attribute}: the four-fifths rule {_rule(g.four_fifths)}; smallest over "
                f"largest {rate_title(g.rate)} {interval(g.ratio, g.ratio_low, g.ratio_high)}"
                for g in decided
            )
        )
    cost = {p.measure: p for p in e.performance if p.model == "difference"}
    if "accuracy" in cost:
        p = cost["accuracy"]
        yield Text(
            f"What it costs: accuracy on the test rows differs from the plain engine's by "
            f"{interval(p.value, p.low, p.high)}."
        )
    small = sum(r.small for r in _unique(e.rates))
    if small:
        yield Text(
            f"{small} {'rate' if small == 1 else 'rates'} of groups rest on fewer than "
            f"{e.min_rows} rows and cannot be judged; they are flagged below."
        )
    if e.warnings:
        yield Text("To know before relying on it:")
        yield Bullets(e.warnings)


def _is_are(met: int, asked: int, shown: list[Finding]) -> str:
    if asked == 1:
        status = shown[0].status
        return f"is {status}" if status != "too few rows to tell" else "cannot be judged"
    return "is met" if met == 1 else "are met"


def _rule(result: str | None) -> str:
    return "cannot be judged" if result == "too few rows to tell" else str(result)


def _found(f: Finding, e: Evidence) -> str:
    level = f"{100 * e.asked.level:g}% interval"
    return (
        f"{f.status}. The {f.measure} is {number(f.value)} ({level} {number(f.low)} to "
        f"{number(f.high)}), the limit {f.limit:g}"
    )


def verdicts(e: Evidence) -> Iterable[Block]:
    """Every constraint, held out and on test rows."""
    if not e.verdicts:
        return
    rows = []
    for f in e.verdicts:
        rows.append(
            (
                Cell(f.constraint),
                Cell(where_title(f.where)),
                Cell(f"{f.measure} {interval(f.value, f.low, f.high)}", f.value),
                Cell(f"{f.limit:g}", f.limit),
                status_cell(f.status),
                Cell(f"{f.smallest_group}: {f.smallest_rows:,} rows", f.smallest_rows),
            )
        )
    header = ("constraint", "measured on", "found", "limit", "verdict", "smallest group")
    yield Table("Every constraint, on every set of rows", header, tuple(rows))
    if any(f.where == "test" for f in e.verdicts):
        yield Text("The test rows took no part in training: they are the ones to go by.")


def rates(e: Evidence) -> Iterable[Block]:
    """Rates by group: pictures and a table."""
    plain = [r for r in e.rates if not r.crossed]
    names = list(dict.fromkeys(r.rate for r in plain))
    if not names:
        return
    yield Facts(tuple((rate_title(name), explain_rate(name, e)) for name in names))
    for name in names:
        shown = [r for r in plain if r.rate == name and r.where == "test"]
        if shown:
            yield Picture(
                "rates",
                name,
                f"{rate_title(name).capitalize()} by group on the test rows, with "
                f"{100 * e.asked.level:g}% intervals. Vertical lines: everyone.",
                _describe_rates(shown),
            )
    yield _rate_table("Rates by group", plain)


def _describe_rates(shown: list[GroupRate]) -> str:
    """The lowest and the highest group of each model."""
    said = []
    for model in dict.fromkeys(r.model for r in shown):
        for attribute in dict.fromkeys(r.attribute for r in shown if r.attribute):
            known = [
                (r.value, r.group)
                for r in shown
                if r.model == model and r.attribute == attribute and r.value is not None
            ]
            if known:
                (low, least), (high, most) = min(known), max(known)
                said.append(
                    f"{MODELS.get(model, model)}, by {attribute}: from {number(low)} ({least}) to "
                    f"{number(high)} ({most})"
                )
    return "; ".join(said) + ". The table below has all figures."


def _rate_table(title: str, rates: list[GroupRate]) -> Table:
    """One line per attribute, group and rate; columns by rows and model."""
    columns = list(dict.fromkeys((r.where, r.model) for r in rates))
    columns.sort(key=lambda c: (c[0] == "test", c[1] != PLAIN))
    several = len(columns) > 1
    found: dict[tuple[str, str, str], dict[tuple[str, str], GroupRate]] = {}
    for r in sorted(rates, key=lambda r: r.where != "test"):  # their order is everyone's
        found.setdefault((r.attribute, r.group, r.rate), {})[r.where, r.model] = r
    lines = []
    for (attribute, group, rate), by_column in found.items():
        best = by_column.get(("test", CHOSEN)) or next(iter(by_column.values()))
        line = [Cell(attribute or "everyone"), Cell(group), Cell(rate_title(rate))]
        for column in columns:
            one = by_column.get(column)
            line.append(Cell("–") if one is None else interval_cell(one.value, one.low, one.high))
        line.append(count(best.rows))
        line.append(Cell("too small to judge", 1.0, "unsure") if best.small else Cell("", 0.0))
        lines.append(tuple(line))
    titles = [
        f"{where}, {MODELS.get(model, model)}" if several else where for where, model in columns
    ]
    return Table(
        title, ("by", "group", "rate", *titles, "rows that count", "note"), tuple(lines), 3
    )


def gaps(e: Evidence) -> Iterable[Block]:
    """Gaps, ratios and the four-fifths rule."""
    if not e.gaps:
        return
    yield Text(
        "The gap is the largest minus the smallest rate among the groups of a column (0 is "
        "parity); the ratio is the smallest over the largest (1 is parity)."
    )
    if ruled := [g for g in e.gaps if g.four_fifths]:
        yield Text(
            f"The four-fifths rule looks at the {rate_title(ruled[0].rate)}, the share of "
            "favourable decisions: it passes if the smallest is at least 0.8 of the largest. "
            "Where the interval of the ratio holds 0.8, the rows are too few to tell."
        )
    rows = []
    for g in e.gaps:
        rows.append(
            (
                Cell(g.attribute),
                Cell(rate_title(g.rate)),
                Cell(MODELS.get(g.model, g.model)),
                interval_cell(g.gap, g.gap_low, g.gap_high),
                interval_cell(g.ratio, g.ratio_low, g.ratio_high),
                Cell(g.lowest_group),
                Cell(g.highest_group),
                status_cell(g.four_fifths) if g.four_fifths else Cell(""),
            )
        )
    header = ("by", "rate", "model", "gap", "ratio", "lowest", "highest", "four-fifths rule")
    yield Table("Gaps and ratios on the test rows", header, tuple(rows), 2)


def performance(e: Evidence) -> Iterable[Block]:
    """Accuracy and the like, and the difference to the plain engine."""
    if not e.performance:
        return
    models = list(dict.fromkeys(p.model for p in e.performance))
    found = {(p.measure, p.model): p for p in e.performance}
    rows = []
    for measure in dict.fromkeys(p.measure for p in e.performance):
        line = [Cell(measure)]
        for model in models:
            p = found.get((measure, model))
            line.append(Cell("–") if p is None else interval_cell(p.value, p.low, p.high))
        rows.append(tuple(line))
    header = ("measure", *(MODELS.get(model, model) for model in models))
    yield Table("On the test rows", header, tuple(rows))
    if "difference" in models:
        yield Text(
            "The difference is this model less the plain engine, row by row. Higher is better for "
            "accuracy and AUC, lower for log loss and Brier score."
        )


def crossed(e: Evidence) -> Iterable[Block]:
    """Crossed groups, and those too small to judge."""
    crossed = [r for r in e.rates if r.crossed]
    small = [r for r in _unique(e.rates) if r.small]
    if small:
        names = list(dict.fromkeys(f"{r.attribute} = {r.group}" for r in small))
        yield Text(
            f"Fewer than {e.min_rows} rows count for some rate of these groups. Their figures are "
            "given, but nothing should be concluded from them, neither harm nor its absence:",
            "unsure",
        )
        more = [f"and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
        yield Bullets((*names[:MOST_NAMED], *more))
    elif e.rates:
        yield Text(f"At least {e.min_rows} rows count for every rate of every group shown.")
    if crossed:
        table = _rate_table("Rates where sensitive columns are crossed", crossed)
        if len(table.rows) > MOST_LINES:
            yield Text(
                f"The first {MOST_LINES:,} of {len(table.rows):,} lines are shown; the evidence "
                "has all of them."
            )
        yield replace(table, rows=table.rows[:MOST_LINES])


def _unique(rates: Iterable[GroupRate]) -> list[GroupRate]:
    """Those of this model on the test rows, or all if there are none."""
    found = list(rates)
    test = [r for r in found if r.where == "test" and r.model == CHOSEN]
    return test or found
