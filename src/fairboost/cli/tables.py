"""Evidence as text for the terminal: verdicts, alternatives and audits, in tables and in words."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairboost._text import places, printable, text_table
from fairboost.cli.class_tables import ACCURACY, class_gaps, class_rates, trained_by
from fairboost.cli.console import WIDTH, Console
from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report import words
from fairboost.report.evidence import Evidence, Figure, Finding, Gap, GroupRate, TradeoffPoint
from fairboost.report.gains import gains
from fairboost.report.lines import CALIBRATED_RATES, DECISION_RATES
from fairboost.verdicts.families import farthest, grouped
from fairboost.verdicts.verdict import NO_LIMIT, NO_VERDICT, SAYS_NOTHING, how_many

MOST_GAINS = 2
"""Rates of which it is told who gains and who loses; a report has more."""

MOST_CROSSED = 12
"""Crossed groups to show; a report has them all."""


def figure(value: Figure, low: Figure, high: Figure, decimals: int = 3) -> str:
    """A figure with its interval, as far as they are known.

    Examples
    --------
    >>> figure(0.25, 0.2, 0.3), figure(0.25, None, None), figure(None, None, None)
    ('0.250 [0.200, 0.300]', '0.250', 'undefined')
    """
    return "undefined" if value is None else words.interval(value, low, high, decimals)


def finding(found: Finding, evidence: Evidence) -> str:
    """The figure of a verdict with its interval."""
    return "undefined" if found.value is None else words.finding_interval(found, evidence.task)


def performance(evidence: Evidence) -> list[list[str]]:
    """How well models predict: model, measure and figure of each line."""
    return [
        [
            words.model_title(p.model),
            p.measure,
            figure(p.value, p.low, p.high, words.decimals_of_performance(p.measure, evidence)),
        ]
        for p in evidence.performance
    ]


def _rate(r: GroupRate, decimals: int = 3) -> str:
    return figure(r.value, r.low, r.high, decimals) + (" (small)" if r.small else "")


def _rate_name(rate: str, evidence: Evidence) -> str:
    """Rates have short names; means of numbers, and rates of decisions, are named in full."""
    numbers, share = evidence.task == "numbers", rate in DECISION_RATES.values()
    in_full = numbers or (share and words.are_decisions(evidence))
    return words.rate_title(rate, evidence) if in_full else rate


def _group(line: Any) -> str:
    return f"{line.attribute}={line.group}" if line.attribute else line.group


def _group_of(line: Any, evidence: Evidence) -> str:
    """The same where columns may be crossed, and several equal signs would be needed."""
    if not line.attribute or line.attribute in {c.name for c in evidence.data.sensitive}:
        return _group(line)
    return f"{line.attribute}: {line.group}"


def _level(evidence: Evidence) -> str:
    return f"{100 * evidence.asked.level:g}%"


def _show_rows(console: Console, evidence: Evidence) -> None:
    rows = evidence.data.splits.get("test", 0)
    console.result(f"On {rows:,} test rows, with {_level(evidence)} intervals:\n")


# train
# -----------------------------------------------------------------------


def summary(evidence: Evidence) -> dict[str, Any]:
    """The figures that a program asks for first.

    ``met`` is True if every constraint is met on the test rows for certain, False if one is
    certainly not or only by decisions that say nothing, and None if these rows leave a doubt;
    ``within`` says whether every figure is within its limit, certain or not.
    """
    judged = _judged(evidence)
    certain = all(f.status in ("met", NO_LIMIT) for f in judged)
    return {
        "met": False if any(map(fails, judged)) else certain or None,
        "within": not any(f.status.startswith(("not met", NO_VERDICT)) for f in judged),
        "verdicts": evidence.verdicts,
        "performance": evidence.performance,
        "gaps": [g for g in evidence.gaps if g.model == "chosen"],
        "rows": evidence.data.splits,
        "threshold": None if evidence.model is None else evidence.model.threshold,
        "warnings": evidence.warnings,
    }


def show_verdicts(console: Console, evidence: Evidence) -> None:
    """Verdicts on the test rows, rates by group, and how well the model predicts."""
    _show_rows(console, evidence)
    judged = _judged(evidence)
    lines = [
        _told_as_one(family, those, evidence)
        for family, those in grouped(judged, [f.family for f in judged])
    ]
    if lines:
        console.result(text_table(["constraint", "found", "verdict"], lines) + "\n")
    for said in gains(evidence)[:MOST_GAINS]:
        console.result(textwrap.fill(said, WIDTH, subsequent_indent="  ") + "\n")
    console.result(_rates_shown(evidence))
    titles = ["model", "measure", "found"]
    console.result("\n" + text_table(titles, performance(evidence)))
    console.notes(filter(None, (evidence.caution, *evidence.warnings)))


def _told_as_one(family: str, found: list[Finding], evidence: Evidence) -> list[str]:
    """What is said of a constraint, or of several that ask the same of every class."""
    far = farthest(found)
    figures = f"{far.measure} {finding(far, evidence)}"
    if len(found) == 1:
        return [far.constraint, figures, far.status]
    about = far.constraint.partition(" equal by ")[0]
    return [family, f"largest {figures}: {about}", how_many(found)]


def _rates_shown(evidence: Evidence) -> str:
    """Rates by group that constraints are about."""
    wanted = _wanted(evidence)
    if evidence.task == "classes":
        return class_rates(evidence, {ACCURACY, *map(words.class_kind, wanted)})
    rates = [
        r for r in evidence.rates if (r.where, r.model, r.crossed) == ("test", "chosen", False)
    ]
    trained = trained_by(evidence)
    shown = [
        [
            _group_of(r, evidence),
            _rate_name(r.rate, evidence),
            _rate(r, words.decimals_of(r.rate, evidence)),
            f"{r.rows:,.0f}",
        ]
        for r in rates
        if r.rate in wanted and (not r.attribute or r.attribute in trained)
    ]
    return text_table(["group", words.noun(evidence), "found", "rows"], shown)


def _wanted(evidence: Evidence) -> set[str]:
    """Rates to show: those that were read in training; of numbers actual and expected, too."""
    if evidence.task == "numbers":
        asked = {limit.rate for limit in evidence.asked.limits}
        return {"prediction", "actual", RATIO} | asked
    read = {r.rate for r in evidence.rates if r.where == "held out"}
    if any(r.rate == RATIO for r in evidence.rates):  # probabilities are to be calibrated
        read |= {*CALIBRATED_RATES.values(), RATIO}
    return read or {"fpr", "fnr"}


def fails(found: Finding, *, by_figure: bool = False) -> bool:
    """Whether a constraint sets the exit code.

    Parameters
    ----------
    found : Finding
        What was found.
    by_figure : bool, default=False
        Whether a figure beyond its limit will do, if by chance or not.
    """
    if by_figure and found.status.startswith("not met"):
        return True
    return found.status in ("not met", SAYS_NOTHING)


def failures(evidence: Evidence, *, by_figure: bool) -> list[str]:
    """What is to be said of the constraints that set the exit code."""
    return [
        f"{f.constraint}: the {f.measure} is {finding(f, evidence)}, which is "
        f"{words.on_rows(f.status, words.where_title(f.where))}."
        for f in _judged(evidence)
        if fails(f, by_figure=by_figure)
    ]


def _judged(evidence: Evidence) -> list[Finding]:
    """Verdicts on test rows; on rows held out if there are no others."""
    test = [f for f in evidence.verdicts if f.where == "test"]
    return test or list(evidence.verdicts)


# compare
# -----------------------------------------------------------------------


def compare_models(evidence: Evidence, *, relative: bool = False) -> pd.DataFrame:
    """One line per model: accuracy, or loss, and the largest gap on test rows, and what it costs.

    Parameters
    ----------
    evidence : Evidence
        With a trade-off, and with the engine alone to compare with.
    relative : bool
        Whether gaps are shares of the mean of everyone.
    """
    assert evidence.tradeoff is not None
    points = [_engine_alone(evidence, relative), *evidence.tradeoff.points]
    what, sign = _performance_of(evidence)
    fields = [f"{name}{end}" for name in (what, "gap") for end in ("", "_low", "_high")]
    fields += ["trees", "decides_nothing"]
    found = pd.DataFrame([[getattr(p, field) for field in fields] for p in points], columns=fields)
    found.insert(0, "model", [p.name for p in points])
    if (chosen := evidence.tradeoff.chosen) is not None:
        found.loc[chosen + 1, "model"] = f"chosen: {points[chosen + 1].name}"
    found.insert(2, "cost", sign * (found[what].iloc[0] - found[what]))
    return found


def _performance_of(evidence: Evidence) -> tuple[str, float]:
    """What models are compared by, and 1 if more of it is better, -1 if less is."""
    return ("loss", -1.0) if evidence.task == "numbers" else ("accuracy", 1.0)


def _engine_alone(evidence: Evidence, relative: bool) -> TradeoffPoint:
    """The engine alone; its largest gap in what the constraints are about."""
    assert evidence.tradeoff is not None
    measure = evidence.tradeoff.measure
    found = next(p for p in evidence.performance if (p.model, p.measure) == ("plain", measure))
    figures = found.value, found.low, found.high
    if evidence.task == "numbers":
        widest = _largest_figure(evidence, relative)
        point = TradeoffPoint("engine alone", None, None, None, None, *widest)
        loss, low, high = figures
        return replace(point, loss=loss, loss_low=low, loss_high=high)
    asked = {(r.attribute, r.rate) for r in evidence.rates if r.where != "test"}
    gaps = [g for g in evidence.gaps if g.model == "plain" and (g.attribute, g.rate) in asked]
    widths: list[Any] = [(g.gap or 0.0, g.gap_low, g.gap_high) for g in gaps]
    widths += [evidence.tradeoff.plain] if evidence.tradeoff.plain else []
    return TradeoffPoint("engine alone", None, *figures, *max(widths, key=lambda w: w[0]))


def _largest_figure(evidence: Evidence, relative: bool) -> tuple[Figure, Figure, Figure]:
    """The largest of what the constraints on numbers hold to their limits, of the engine alone."""
    limits = evidence.asked.limits
    asked = {(limit.attribute, limit.rate) for limit in limits}
    plain = [r for r in evidence.rates if (r.where, r.model) == ("test", "plain")]
    found: list[tuple[Figure, Figure, Figure]]
    if all(limit.rate == "loss" and limit.group is not None for limit in limits):  # bounds
        found = [(r.value, r.low, r.high) for r in plain if (r.attribute, r.rate) in asked]
        return max(found, key=lambda figures: figures[0] or 0.0)
    everyone = {r.rate: abs(r.value or 0.0) for r in plain if not r.attribute}
    found = []
    for g in evidence.gaps:
        if g.model == "plain" and (g.attribute, g.rate) in asked:
            unit = everyone[g.rate] if relative else 1.0
            ends = (None if x is None else x / unit for x in (g.gap, g.gap_low, g.gap_high))
            found.append((next(ends), next(ends), next(ends)))
    return max(found, key=lambda figures: figures[0] or 0.0)


def show_alternatives(
    console: Console, found: pd.DataFrame, evidence: Evidence, tolerance: float
) -> None:
    """Show the table, and say which of the models are less discriminatory."""
    _show_rows(console, evidence)
    assert evidence.tradeoff is not None
    (what, _), decimals = _performance_of(evidence), _decimals_of(found, evidence)
    lines = [
        [
            str(r["model"]),
            figure(r[what], r[f"{what}_low"], r[f"{what}_high"], decimals[what]),
            f"{round(r['cost'], decimals[what]) + 0.0:+,.{decimals[what]}f}",
            figure(r["gap"], r["gap_low"], r["gap_high"], decimals["gap"]),
        ]
        for r in found.to_dict("records")
    ]
    titles = ["model", evidence.tradeoff.measure, "cost", evidence.tradeoff.figure]
    console.result(text_table(titles, lines))
    console.result("\n" + "\n".join(_in_words(found, evidence, tolerance)))
    console.notes(evidence.warnings)


def _decimals_of(found: pd.DataFrame, evidence: Evidence) -> dict[str, int]:
    """Decimals of the columns; of losses as many as what they cost takes."""
    if evidence.task != "numbers":
        return {"accuracy": 3, "gap": 3}
    least = places(*found["loss"])
    costs = places(*found["cost"][1:])
    return {"loss": max(least, min(costs, least + 2)), "gap": places(*found["gap"])}


def _in_words(found: pd.DataFrame, evidence: Evidence, tolerance: float) -> list[str]:
    """Summarise the table in sentences."""
    assert evidence.tradeoff is not None
    (what, sign), decimals = _performance_of(evidence), _decimals_of(found, evidence)
    most = "most accurate" if what == "accuracy" else f"one of least {evidence.tradeoff.measure}"
    plain, *others = found.to_dict("records")
    deciding = [m for m in others if not m["decides_nothing"]]
    fairer = [m for m in deciding if m["gap_high"] < plain["gap_low"]]
    within = [m for m in deciding if m["gap"] <= tolerance]

    def best(models: list[dict[Any, Any]]) -> str:
        chosen = max(models, key=lambda m: sign * m[what])
        return f"{chosen['model']!r}, at a cost of {chosen['cost']:,.{decimals[what]}f}."

    better = (
        "No model is certainly less discriminatory than the engine alone: there are too few rows, "
        "or the gap of the engine alone is small."
    )
    if fairer:
        better = (
            f"{len(fairer)} of {len(others)} models are certainly less discriminatory than the "
            f"engine alone; of these the {most} is {best(fairer)}"
        )
    if within:
        last = f"The {most} with a gap within {tolerance:g} is {best(within)}"
    elif not deciding:
        last = (
            "The decisions of all models are nearly constant on these rows; use another threshold."
        )
        if what == "loss":
            last = "None of the models certainly predicts better than one number for everyone."
    else:
        least = min(deciding, key=lambda m: m["gap"])
        last = (
            f"No model has a gap within {tolerance:g} on these rows; the smallest is "
            f"{least['gap']:,.{decimals['gap']}f}, of {least['model']!r}."
        )
    meaning = (
        "The largest gap is that between groups in the rates asked for; cost is accuracy below "
        "the engine alone."
    )
    if not evidence.tradeoff.is_gap:
        meaning = (
            "A/E is the share of positive labels over the mean probability of a group; cost is "
            "accuracy below the engine alone."
        )
    if what == "loss":
        meaning = f"Cost is {evidence.tradeoff.measure} above that of the engine alone."
    said = (
        "'no constraint' is the engine without the rows that the others hold out to read rates on."
    )
    return [f"{meaning} {said}", better, last]


# audit
# -----------------------------------------------------------------------


def audit_text(evidence: Evidence) -> str:
    """Rates by group, gaps and ratios, the four-fifths rule, calibration; or means of numbers."""
    if evidence.task == "numbers":
        return _numbers_text(evidence)
    if evidence.task == "classes":
        return _classes_text(evidence)
    rows, where = evidence.data.splits["test"], evidence.asked.operating_point
    parts = [
        f"{rows:,} rows; {where}. {_level(evidence)} intervals. "
        f"Positive: {printable(evidence.data.positive)}. The {evidence.asked.favourable} decision "
        "counts as favourable.",
        _rates(evidence),
        _gaps(evidence),
        _crossed(evidence),
        _calibration(evidence),
    ]
    return "\n\n".join(filter(None, parts))


def _classes_text(evidence: Evidence) -> str:
    """Accuracy, shares given each class and confusion matrices by group, and how groups differ."""
    data = evidence.data
    parts = [
        f"{data.splits['test']:,} rows; {evidence.asked.operating_point}. {_level(evidence)} "
        f"intervals. Classes of {printable(data.label)}: {printable(', '.join(data.classes))}.",
        class_rates(evidence, (ACCURACY, *words.CLASS_KINDS.values())),
        class_gaps(evidence),
        _crossed(evidence),
    ]
    return "\n\n".join(filter(None, parts))


def _numbers_text(evidence: Evidence) -> str:
    """Means, actual over expected and distances by group, how groups compare, and deciles."""
    data = evidence.data
    per = f" per unit of {printable(data.exposure)}" if data.exposure else ""
    single = [c.name for c in data.sensitive]
    gaps = [
        [
            g.attribute,
            words.gap_title(g.rate),
            figure(g.gap, g.gap_low, g.gap_high, _decimals_of_gap(g)),
            f"{g.lowest_group} / {g.highest_group}",
        ]
        for g in evidence.gaps
        if g.attribute in single
    ]
    parts = [
        f"{data.splits['test']:,} rows; {_level(evidence)} intervals. Predicted: "
        f"{printable(data.label)}{per}. Loss: {data.loss}.",
        _rates(evidence),
        text_table(["by", "figure", "found", "lowest / highest"], gaps),
        _crossed(evidence),
        _deciles(evidence),
    ]
    return "\n\n".join(filter(None, parts))


def _decimals_of_gap(g: Gap) -> int:
    known = [x for x in (g.gap, g.gap_low, g.gap_high) if x is not None]
    return 3 if g.rate in (RATIO, DISTANCE) else places(*known)


def _deciles(evidence: Evidence) -> str:
    """Actual over expected by group, in each tenth of the predictions."""
    lines: dict[str, dict[int, str]] = {}
    for d in evidence.deciles:
        if d.decile:
            shown = "" if d.ratio is None else f"{d.ratio:.2f}{'*' if d.small else ''}"
            lines.setdefault(_group(d), {})[d.decile] = shown
    # One in which a group has no rows is not there.
    deciles = range(1, 11)
    cells = [[group, *(at.get(k, "") for k in deciles)] for group, at in lines.items()]
    table = text_table(["A/E by decile", *map(str, deciles)], cells)
    starred = any(d.small and d.ratio is not None for d in evidence.deciles if d.decile)
    note = f"\n* fewer than {evidence.min_rows} rows count" if starred else ""
    return f"{table}{note}" if lines else ""


def _rates(evidence: Evidence) -> str:
    rates = [r for r in evidence.rates if not r.crossed]
    names = list(dict.fromkeys(r.rate for r in rates))
    decimals = {name: words.decimals_of(name, evidence) for name in names}
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for r in rates:
        lines.setdefault((r.attribute, _group(r)), {})[r.rate] = _rate(r, decimals[r.rate])
    return text_table(
        ["group", *(_rate_name(n, evidence) for n in names)],
        [[group, *(cells.get(n, "") for n in names)] for (_, group), cells in lines.items()],
    )


def _gaps(evidence: Evidence) -> str:
    single = {c.name for c in evidence.data.sensitive}
    lines = [
        [
            g.attribute,
            _rate_name(g.rate, evidence),
            figure(g.gap, g.gap_low, g.gap_high),
            figure(g.ratio, g.ratio_low, g.ratio_high),
            f"{g.lowest_group} / {g.highest_group}",
            g.four_fifths or _of_no_ratio(g),
        ]
        for g in evidence.gaps
        if g.attribute in single or g.four_fifths
    ]
    titles = ["by", "rate", "gap", "ratio", "lowest / highest", "four-fifths rule"]
    return text_table(titles, lines)


def _of_no_ratio(g: Gap) -> str:
    """What the four-fifths rule says where nobody is selected, or one group alone is compared."""
    return "undefined" if g.rate in DECISION_RATES.values() and g.ratio is None else ""


def _crossed(evidence: Evidence) -> str:
    """The crossed groups that are farthest from everyone, and how many are too small."""
    crossed = [r for r in evidence.rates if r.crossed]
    if not crossed:
        return ""
    everyone = {r.rate: r.value for r in evidence.rates if not r.attribute}

    def distance(r: GroupRate) -> float:
        whole = 0.0 if r.rate == DISTANCE else everyone.get(r.rate)
        return 0.0 if r.value is None or whole is None else abs(r.value - whole)

    groups = {(r.attribute, r.group) for r in crossed}
    small = {(r.attribute, r.group) for r in crossed if r.small}
    shown_rates = {"numbers": (RATIO, DISTANCE), "classes": (ACCURACY,)}.get(
        evidence.task, ("fpr", "fnr") if evidence.data.label else tuple(everyone)
    )
    wanted = [r for r in crossed if not r.small and r.rate in shown_rates]
    wanted.sort(key=distance, reverse=True)
    lines = [
        [f"{r.attribute} = {r.group}", _rate_name(r.rate, evidence), _rate(r), f"{r.rows:,.0f}"]
        for r in wanted[:MOST_CROSSED]
    ]
    noun = words.noun(evidence)
    said = (
        f"Of {len(groups)} crossed groups {len(small)} have a {noun} on fewer than "
        f"{evidence.min_rows} rows, too few to judge by."
    )
    if not lines:
        return said
    shown = text_table(["crossed group", noun, "found", "rows"], lines)
    return f"{said} The others' {noun}s farthest from everyone's:\n\n{shown}"


def _calibration(evidence: Evidence) -> str:
    """The mean distance between predicted and found, by group."""
    lines = []
    for c in evidence.calibration:
        predicted, found = np.array(c.predicted), np.array(c.found)
        means = np.average([predicted, found, abs(predicted - found)], axis=1, weights=c.rows)
        lines.append([_group(c), *(f"{mean:.3f}" for mean in means)])
    titles = ["calibration", "mean score", "positive labels", "mean distance by bin"]
    return text_table(titles, lines) if lines else ""
