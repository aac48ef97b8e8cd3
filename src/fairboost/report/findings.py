"""What was found: verdicts, rates, gaps and performance, section by section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from fairboost.metrics.performance import DIFFERENCE
from fairboost.report import class_findings, words
from fairboost.report.blocks import (
    Block,
    Bullets,
    Cell,
    Facts,
    Folded,
    Picture,
    TableBlock,
    Text,
    Tone,
)
from fairboost.report.evidence import Decile, Evidence, Finding, Gap, GroupRate, Performance
from fairboost.report.gains import gains
from fairboost.report.lines import CALIBRATED_RATES, CHOSEN, PLAIN
from fairboost.report.plainly import first_paragraph
from fairboost.report.shading import (
    MEANING,
    MEANING_OF_CLASSES,
    MEANING_OF_NUMBERS,
    Distances,
)
from fairboost.verdicts.families import farthest, grouped
from fairboost.verdicts.verdict import certainty_takes, how_many

MOST_NAMED = 30
"""Small groups that are listed by name; all are flagged in tables."""

MOST_LINES = 1_500
"""Lines of a table, so that the page stays small."""

MEANINGS = {
    "decisions": MEANING,
    "numbers": MEANING_OF_NUMBERS,
    "classes": MEANING_OF_CLASSES,
}
"""What shades mean, by task."""

SAY_THE_SAME = ("Brier score", "absolute error")
"""Measures beside a log loss or a squared error that are left to the table below."""

HIGHER_IS_BETTER = ("accuracy", "AUC")

Line = TypeVar("Line")
Row = TypeVar("Row", bound=Hashable)
Column = TypeVar("Column", bound=Hashable)


def summary(e: Evidence) -> Iterable[Block]:
    """What was found in plain words, whether what was asked for holds, its cost, and warnings."""
    if e.caution:
        yield Text(e.caution, "bad")
    for told in [*gains(e), first_paragraph(e)]:
        if told:
            yield Text(told)
    shown = [f for f in e.verdicts if f.where == "test"] or list(e.verdicts)
    if shown:
        yield _headline(shown, _rows_named(e, shown[0].where))
        yield Bullets([_told(those, e) for _, those in _by_family(shown)])
    elif e.gaps:
        made = "predictions" if e.task == "numbers" else "decisions"
        yield Text(f"No constraint was asked for: this is an audit of {made} as they are.")
    ruled = [g for g in e.gaps if g.four_fifths and g.model == CHOSEN]
    if ruled and not e.asked.constraints:
        yield Bullets(
            [
                f"{g.attribute}: the four-fifths rule {g.four_fifths}; smallest over largest "
                f"{words.rate_title(g.rate, e)} "
                f"{words.interval(g.ratio, g.ratio_low, g.ratio_high)}"
                for g in ruled
            ]
        )
    yield from _cost(e)
    if small := sum(r.small for r in _of_this_model(e.rates)):
        noun = words.noun(e)
        yield Text(
            f"{small} group {noun} is based on fewer than {e.min_rows} rows, too few to judge. It "
            "is marked below."
            if small == 1
            else f"{small} group {noun}s are based on fewer than {e.min_rows} rows each, too few "
            "to judge. They are marked below."
        )
    if told_below := [warning for warning in e.warnings if warning != e.caution]:
        yield Text("Before you rely on it:")
        yield Bullets(told_below)


def _by_family(found: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Verdicts of one set of rows; those on every class together."""
    return grouped(found, [f.family for f in found])


def _told(those: Sequence[Finding], e: Evidence) -> str:
    """A verdict in a sentence; of several how many are met, and the one that is farthest."""
    f = farthest(those)
    value, low, high = words.finding_figures(f, e.task)
    ends = words.ends_of_verdicts(e, f"{low} to {high}")
    figures = f"{value} ({ends}), the limit {words.limit(f.limit)}"
    if len(those) == 1:
        return f"{f.constraint}: {f.status}. The {f.measure} is {figures}"
    found = words.on_rows(how_many(those), _rows_named(e, f.where))
    about = f.constraint.partition(" equal by ")[0]
    return f"{f.family}: {found}. The largest {f.measure} is {figures}: {about}"


def _cost(e: Evidence) -> Iterable[Block]:
    """What the constraint costs on the test rows, in every measure but those that say the same."""
    known = list(dict.fromkeys(p.measure for p in e.performance))
    found = {(p.model, p.measure): p for p in e.performance}
    compared = any(p.model == DIFFERENCE for p in e.performance)
    if not compared and e.model is None:
        return
    lines = [
        _cost_in(e, *(found.get((model, measure)) for model in (CHOSEN, PLAIN, DIFFERENCE)))
        for measure in known
        if measure == known[0] or measure not in SAY_THE_SAME
    ]
    if lines:
        costs = "What it costs" if e.asked.constraints else "Beside the plain engine"
        yield Text(f"{costs if compared else 'How well it predicts'}, on the test rows:")
        yield Bullets(lines)


def _cost_in(
    e: Evidence, own: Performance | None, plain: Performance | None, apart: Performance | None
) -> str:
    """The same in one measure, beside the plain engine's where that is known."""
    assert own is not None
    decimals = words.decimals_of_performance(own.measure, e)
    better = "higher" if own.measure in HIGHER_IS_BETTER else "lower"
    if plain is None or apart is None:
        figures = words.interval(own.value, own.low, own.high, decimals)
        return f"{own.measure} {figures}; {better} is better"
    shown = (words.number(p.value, decimals) for p in (own, plain))
    share = ""
    if e.task == "numbers" and apart.value is not None and plain.value:
        share = f", {100 * apart.value / plain.value:+.1f}%"
    return (
        f"{own.measure} {next(shown)}, by the plain engine {next(shown)}: a difference of "
        f"{words.interval(apart.value, apart.low, apart.high, decimals)}{share}; {better} is "
        "better"
    )


def _headline(shown: Sequence[Finding], where: str) -> Text:
    """How many constraints have which verdict, the certain and the uncertain apart."""
    counts = Counter(f.status for f in shown)
    tones: set[Tone] = {words.VERDICTS.get(status, "unsure") for status in counts}
    tone: Tone = "good" if tones == {"good"} else "bad" if "bad" in tones else "unsure"
    needed = certainty_takes(shown)
    order = list(words.VERDICTS)
    by_rank = sorted(counts, key=lambda s: order.index(s) if s in order else len(order))
    if len(shown) == 1:
        (said,) = (words.on_rows(status, where) for status in by_rank)
        start = "The constraint is" if by_rank[0] in order else "The constraint:"
        on = "" if where in said else f" on the {where}"
        return Text(f"{start} {said}{on}{needed}.", tone)
    listed = "; ".join(f"{counts[status]} {words.on_rows(status, where)}" for status in by_rank)
    return Text(f"{len(shown)} constraints, judged on the {where}: {listed}{needed}.", tone)


def verdicts(e: Evidence) -> Iterable[Block]:
    """Every constraint, held out and on test rows."""
    if not e.verdicts:
        return
    if any(f.family for f in e.verdicts):
        yield _verdicts_as_one(e)
    rows = (
        (
            f.constraint,
            _rows_named(e, f.where),
            Cell(f"{f.measure} {words.finding_interval(f, e.task)}", f.value),
            Cell(words.limit(f.limit), f.limit),
            words.status_cell(f.status),
            Cell(f"{f.smallest_group}: {f.smallest_rows:,} {_rows_word(e)}", f.smallest_rows),
        )
        for f in e.verdicts
    )
    header = ("constraint", "measured on", "found", "limit", "verdict", "smallest group")
    table = TableBlock.of("Every constraint, on every set of rows", header, rows)
    several = any(f.family for f in e.verdicts)
    each = len({f.constraint for f in e.verdicts})
    yield Folded(f"All {each} constraints, one by one", (table,)) if several else table
    if e.model is not None and any(f.where == "test" for f in e.verdicts):
        yield Text("The test rows took no part in training: trust the figures on the test rows.")
    if _rows_word(e) != "rows":
        yield Text(
            "Rows have different weights. Effective rows are the number of rows of equal weight "
            "with the same information, so they are fewer than the rows in other tables."
        )


def _rows_named(e: Evidence, where: str) -> str:
    """Rows by name, e.g. ``"test rows"``."""
    return words.test_rows(e) if where == "test" else words.where_title(where)


def _rows_word(e: Evidence) -> str:
    """What the numbers of rows in verdicts are called; those of an audit are plain counts."""
    weighted = e.model is not None and (e.data.weight or e.data.exposure)
    return "effective rows" if weighted else "rows"


def _verdicts_as_one(e: Evidence) -> TableBlock:
    """Constraints on every class in one line: how many are met, and the largest gap."""
    rows = []
    for where in dict.fromkeys(f.where for f in e.verdicts):
        for family, those in _by_family([f for f in e.verdicts if f.where == where]):
            f = farthest(those)
            tones: set[Tone] = {words.VERDICTS.get(t.status, "unsure") for t in those}
            tone: Tone = "good" if tones == {"good"} else "bad" if "bad" in tones else "unsure"
            small = min(those, key=lambda t: t.smallest_rows)
            about = f": {f.constraint.partition(' equal by ')[0]}" if family else ""
            rows.append(
                (
                    family or f.constraint,
                    _rows_named(e, where),
                    Cell(how_many(those) if family else f.status, None, tone),
                    Cell(f"{f.measure} {words.finding_interval(f, e.task)}{about}", f.value),
                    Cell(words.limit(f.limit), f.limit),
                    Cell(f"{small.smallest_group}: {small.smallest_rows:,} {_rows_word(e)}"),
                )
            )
    header = ("constraints", "measured on", "verdicts", "farthest", "limit", "smallest group")
    return TableBlock.of("Constraints, those on every class together", header, rows)


def rates(e: Evidence) -> Iterable[Block]:
    """Rates, or means, by group: pictures and a table."""
    plain = [r for r in e.rates if not r.crossed]
    names = list(dict.fromkeys(r.rate for r in plain))
    if not names:
        return
    classes = e.task == "classes"
    if classes:
        yield class_findings.explain_kinds(names)
    else:
        said = ((words.rate_title(name, e), words.explain_rate(name, e)) for name in names)
        yield Facts(tuple(said))
    for name in class_findings.in_pictures(e, names) if classes else names:
        shown = in_picture(e, name)
        if shown:
            everyone = "" if all(r.attribute for r in shown) else " Vertical lines: everyone."
            yield Picture(
                "rates",
                name,
                f"{words.rate_title(name, e).capitalize()} by group on the "
                f"{words.test_rows(e)}, with "
                f"{100 * e.asked.level:g}% intervals.{everyone}",
                _describe_rates(shown, words.decimals_of(name, e)),
            )
    yield from _curves(e)
    shown, confused = class_findings.split(plain) if classes else (plain, [])
    table = _rate_table(f"{words.noun(e).capitalize()}s by group", shown, e)
    if any(cell.shade for row in table.rows for cell in row):
        yield Text(MEANINGS[e.task])
    yield table
    if confused:
        title = "Shares of a class given another, by group"
        yield Folded(title, (_rate_table(title, confused, e),))


def _curves(e: Evidence) -> Iterable[Block]:
    """The rates that are held equal over a number, as curves."""
    for limit in e.asked.limits:
        if limit.attribute not in e.windows:
            continue
        shown = [r for r in in_picture(e, limit.rate) if r.attribute == limit.attribute]
        title = words.rate_title(limit.rate, e)
        yield Picture(
            "curve",
            f"{limit.rate} {limit.attribute}",
            f"{title.capitalize()} over {limit.attribute} on the {words.test_rows(e)}. The curve "
            f"joins the rates of {len(e.windows[limit.attribute])} overlapping windows; the band "
            f"joins their {100 * e.asked.level:g}% intervals.",
            _describe_rates(shown, words.decimals_of(limit.rate, e)),
        )


def in_picture(e: Evidence, rate: str) -> list[GroupRate]:
    """Lines that a picture of a rate shows: what was actual is the same for all models."""
    found = [r for r in e.rates if r.rate == rate and r.where == "test" and not r.crossed]
    labels = CALIBRATED_RATES["actual"]
    return [r for r in found if r.model == CHOSEN or rate not in ("actual", labels)]


def deciles_shown(e: Evidence, column: str) -> list[Decile]:
    """Lines that a picture of deciles shows: those that are not too small to judge."""
    return [d for d in e.deciles if d.attribute == column and d.decile and not d.small]


def _describe_rates(shown: list[GroupRate], decimals: int) -> str:
    """The lowest and the highest group of each model."""
    known: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for r in shown:
        if r.attribute and r.value is not None:
            known.setdefault((r.model, r.attribute), []).append((r.value, r.group))
    said, several = [], len({r.model for r in shown}) > 1
    for (model, attribute), found in known.items():
        (low, least), (high, most) = min(found), max(found)
        ends = words.number(low, decimals), words.number(high, decimals)
        span = f"from {ends[0]} ({least}) to {ends[1]} ({most})"
        of = f"{words.model_title(model)}, " if several else ""
        said.append(f"{of}by {attribute}: {span}")
    return "; ".join(said) + ". The table below has all figures."


def cross(
    lines: Iterable[Line], row: Callable[[Line], Row], column: Callable[[Line], Column]
) -> tuple[dict[Row, dict[Column, Line]], list[Column]]:
    """Lines of evidence by rows and columns of a table, and the columns; in order of appearance.

    Parameters
    ----------
    lines : iterable
        The lines.
    row, column : callable
        Where in the table a line stands.
    """
    found: dict[Row, dict[Column, Line]] = {}
    columns: dict[Column, None] = {}
    for line in lines:
        found.setdefault(row(line), {})[column(line)] = line
        columns[column(line)] = None
    return found, list(columns)


def _rate_table(title: str, rates: list[GroupRate], e: Evidence) -> TableBlock:
    """One line per attribute, group and rate; columns by rows and model."""
    distances = Distances(e)
    found, columns = cross(
        sorted(rates, key=lambda r: r.where != "test"),  # their order is everyone's
        row=lambda r: (r.attribute, r.group, r.rate),
        column=lambda r: (r.where, r.model),
    )
    columns.sort(key=lambda c: (c[0] == "test", c[1] != PLAIN))
    decimals = {name: words.decimals_of(name, e) for name in {r.rate for r in rates}}
    lines = []
    for (attribute, group, rate), by_column in found.items():
        best = by_column.get(("test", CHOSEN)) or next(iter(by_column.values()))
        shown = [by_column.get(column) for column in columns]
        cells = [distances.shade(words.line_cell(line, decimals[rate]), line) for line in shown]
        apart = distances.of(best)
        note = Cell("", 0.0) if apart is None else Cell(apart.said, apart.share)
        note = Cell("too small to judge", -1.0, "unsure") if best.small else note
        name = attribute or "everyone"
        lines.append(
            (name, group, words.rate_title(rate, e), *cells, words.count(best.rows), note)
        )
    titles = [
        f"{where}, {words.model_title(model)}" if len(columns) > 1 else where
        for where, model in columns
    ]
    titles = ["found"] if titles == ["test"] and e.model is None else titles
    last = "against the limit" if e.task == "numbers" else "distance"
    header = ("by", "group", words.noun(e), *titles, "rows", last)
    return TableBlock.of(title, header, lines, 3)


def gaps(e: Evidence) -> Iterable[Block]:
    """Gaps, ratios and the four-fifths rule."""
    if not e.gaps:
        return
    if e.task == "numbers":
        yield from _number_gaps(e)
        return
    yield Text(
        "The gap is the largest minus the smallest rate among the groups of a column (0 is "
        "parity); the ratio is the smallest over the largest (1 is parity)."
    )
    if ruled := [g for g in e.gaps if g.four_fifths]:
        yield Text(
            f"The four-fifths rule looks at the {words.rate_title(ruled[0].rate, e)}, the share "
            "of favourable decisions: it passes if the smallest is at least 0.8 of the largest. "
            "The result is not certain if the interval contains 0.8."
        )
    title = f"Gaps and ratios on the {words.test_rows(e)}"
    if e.task != "classes":
        yield _gap_table(title, e.gaps, e)
        return
    yield _gap_table(title, [g for g in e.gaps if not words.is_confused(g.rate)], e)
    if confused := [g for g in e.gaps if words.is_confused(g.rate)]:
        title = f"Gaps of shares of a class given another, on the {words.test_rows(e)}"
        yield Folded(title, (_gap_table(title, confused, e),))


def _gap_table(title: str, gaps: Iterable[Gap], e: Evidence) -> TableBlock:
    """A line per gap; the four-fifths rule is about two decisions."""
    distances, ruled = Distances(e), e.task == "decisions"
    rows = (
        (
            g.attribute,
            words.rate_title(g.rate, e),
            *_model_of(g, e),
            distances.shade_gap(words.interval_cell(g.gap, g.gap_low, g.gap_high), g),
            words.interval_cell(g.ratio, g.ratio_low, g.ratio_high),
            g.lowest_group,
            g.highest_group,
            *([words.status_cell(g.four_fifths)] if ruled else []),
        )
        for g in gaps
    )
    header = ("by", "rate", *_model_titles(e), "gap", "ratio", "lowest", "highest")
    return TableBlock.of(title, (*header, *(["four-fifths rule"] if ruled else [])), rows, 2)


def _model_titles(e: Evidence) -> tuple[str, ...]:
    """A column that an audit is without: it is about one table of scores or decisions."""
    alone = e.model is None and len({g.model for g in e.gaps}) == 1
    return () if alone else ("model",)


def _model_of(g: Gap, e: Evidence) -> tuple[str, ...]:
    return tuple(words.model_title(g.model) for _ in _model_titles(e))


def _number_gaps(e: Evidence) -> Iterable[Block]:
    """How far apart groups are, each figure by its own measure."""
    yield Text(
        "Means and losses are compared by the largest minus the smallest among the groups of a "
        "column, actual over expected by the largest distance of a group's from 1, and "
        "distributions by the largest distance of a group's from everyone's. 0 is parity."
    )
    distances = Distances(e)
    rows = []
    for g in e.gaps:
        figure = g.gap, g.gap_low, g.gap_high, words.decimals_of(g.rate, e)
        cell = distances.shade_gap(words.interval_cell(*figure), g)
        named = words.gap_title(g.rate), *_model_of(g, e)
        rows.append((g.attribute, *named, cell, g.lowest_group, g.highest_group))
    header = ("by", "compared by", *_model_titles(e), "found", "lowest", "highest")
    yield TableBlock.of(f"Gaps on the {words.test_rows(e)}", header, rows, 2)


def performance(e: Evidence) -> Iterable[Block]:
    """Accuracy, or losses, and the difference to the plain engine."""
    if not e.performance:
        return
    found, models = cross(e.performance, row=lambda p: p.measure, column=lambda p: p.model)
    decimals = {name: words.decimals_of_performance(name, e) for name in found}
    rows = (
        (name, *(words.line_cell(by.get(model), decimals[name]) for model in models))
        for name, by in found.items()
    )
    alone = e.model is None and len(models) == 1
    header = ("measure", *(["found"] if alone else map(words.model_title, models)))
    yield TableBlock.of(f"On the {words.test_rows(e)}", header, rows)
    if "difference" in models:
        better = "Higher is better for accuracy and AUC, lower for log loss and Brier score."
        if e.task == "numbers":
            better = "Lower is better; a difference above 0 is what the constraint costs."
        elif e.task == "classes":
            better = "Higher is better for accuracy, lower for the other measures."
        yield Text(f"The difference is this model minus the plain engine, row by row. {better}")


def crossed(e: Evidence) -> Iterable[Block]:
    """Crossed groups, and those too small to judge."""
    crossed = [r for r in e.rates if r.crossed]
    small = [r for r in _of_this_model(e.rates) if r.small]
    if small:
        names = list(dict.fromkeys(f"{r.attribute} = {r.group}" for r in small))
        yield Text(
            f"These groups have fewer than {e.min_rows} rows for some {words.noun(e)}. Their "
            f"{words.noun(e)}s are shown, but are too uncertain for conclusions, either way:",
            "unsure",
        )
        more = [f"and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
        yield Bullets((*names[:MOST_NAMED], *more))
    elif e.rates:
        each = f"every {words.noun(e)} of every group"
        yield Text(f"At least {e.min_rows} rows are behind {each} shown.")
    if crossed:
        title = f"{words.noun(e).capitalize()}s where sensitive columns are crossed"
        table = _rate_table(title, crossed, e)
        if len(table.rows) > MOST_LINES:
            yield Text(
                f"The first {MOST_LINES:,} of {len(table.rows):,} lines are shown; the evidence "
                "has all of them."
            )
        yield replace(table, rows=table.rows[:MOST_LINES])


def _of_this_model(rates: Sequence[GroupRate]) -> Sequence[GroupRate]:
    """Rates of this model on the test rows, or all if there are none."""
    return [r for r in rates if r.where == "test" and r.model == CHOSEN] or rates
