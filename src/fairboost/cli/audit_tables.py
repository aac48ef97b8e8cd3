"""An audit as text for the terminal."""

from __future__ import annotations

from fairboost.cli.verdicts import interval, table
from fairboost.report.evidence import Calibration, Evidence, GroupRate

MOST_CROSSED = 12
"""Crossed groups to show; a report has them all."""


def audit_text(evidence: Evidence) -> str:
    """Rates by group, gaps and ratios, the four-fifths rule, calibration."""
    level = f"{100 * evidence.asked.level:g}%"
    rows = evidence.data.splits["test"]
    where = evidence.asked.operating_point
    parts = [
        f"{rows:,} rows; {where}. {level} intervals. Positive: {evidence.data.positive}.",
        _rates([r for r in evidence.rates if not r.crossed]),
        _gaps(evidence),
        _crossed(evidence),
        _calibration(evidence),
    ]
    return "\n\n".join(filter(None, parts))


def _rates(rates: list[GroupRate]) -> str:
    names = list(dict.fromkeys(r.rate for r in rates))
    lines: dict[tuple[str, str], list[str]] = {}
    for r in rates:
        title = f"{r.attribute}={r.group}" if r.attribute else r.group
        found = interval(r.value, r.low, r.high) + (" (small)" if r.small else "")
        lines.setdefault((r.attribute, title), []).append(found)
    return table(["group", *names], [[title, *cells] for (_, title), cells in lines.items()])


def _gaps(evidence: Evidence) -> str:
    single = {c.name for c in evidence.data.sensitive}
    lines = [
        [
            g.attribute,
            g.rate,
            interval(g.gap, g.gap_low, g.gap_high),
            interval(g.ratio, g.ratio_low, g.ratio_high),
            f"{g.lowest_group} / {g.highest_group}",
            g.four_fifths or "",
        ]
        for g in evidence.gaps
        if g.attribute in single or g.four_fifths
    ]
    return table(["by", "rate", "gap", "ratio", "lowest / highest", "four-fifths rule"], lines)


def _crossed(evidence: Evidence) -> str:
    """The crossed groups that are farthest from everyone, and how many are too small."""
    crossed = [r for r in evidence.rates if r.crossed]
    if not crossed:
        return ""
    everyone = {r.rate: r.value for r in evidence.rates if not r.attribute}

    def distance(r: GroupRate) -> float:
        whole = everyone.get(r.rate)
        return 0.0 if r.value is None or whole is None else abs(r.value - whole)

    groups = {(r.attribute, r.group) for r in crossed}
    small = {(r.attribute, r.group) for r in crossed if r.small}
    wanted = [r for r in crossed if not r.small and r.rate in ("fpr", "fnr")]
    wanted.sort(key=distance, reverse=True)
    lines = [
        [f"{r.attribute} = {r.group}", r.rate, interval(r.value, r.low, r.high), f"{r.rows:,.0f}"]
        for r in wanted[:MOST_CROSSED]
    ]
    said = (
        f"Of {len(groups)} crossed groups {len(small)} have a rate on fewer than "
        f"{evidence.min_rows} rows, too few to judge by."
    )
    if not lines:
        return said
    shown = table(["crossed group", "rate", "found", "rows"], lines)
    return f"{said} The others' rates farthest from everyone's:\n\n{shown}"


def _calibration(evidence: Evidence) -> str:
    """The mean distance between predicted and found, by group."""
    if not evidence.calibration:
        return ""
    lines = [
        [
            f"{c.attribute}={c.group}" if c.attribute else c.group,
            f"{_mean(c, c.predicted):.3f}",
            f"{_mean(c, c.found):.3f}",
            f"{_off(c):.3f}",
        ]
        for c in evidence.calibration
    ]
    titles = ["calibration", "mean score", "positive labels", "mean distance by bin"]
    return table(titles, lines)


def _mean(c: Calibration, values: tuple[float, ...]) -> float:
    return sum(v * n for v, n in zip(values, c.rows, strict=True)) / sum(c.rows)


def _off(c: Calibration) -> float:
    return _mean(c, tuple(abs(p - f) for p, f in zip(c.predicted, c.found, strict=True)))
