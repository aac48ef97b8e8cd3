"""What a model came to, in a table for people and in figures for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairboost.cli.console import Console
from fairboost.report.evidence import Evidence, Figure, Finding


def summary(evidence: Evidence) -> dict[str, Any]:
    """The figures that a program asks for first.

    ``met`` is True if every constraint is met on the test rows, False if one is not, and None if
    the rows are too few to tell.
    """
    test = _judged(evidence)
    states = {f.status for f in test}
    met = None if "too few rows to tell" in states else True
    return {
        "met": False if "not met" in states else met,
        "verdicts": [vars(f) for f in evidence.verdicts],
        "performance": [vars(p) for p in evidence.performance],
        "gaps": [vars(g) for g in evidence.gaps if g.model == "chosen"],
        "rows": evidence.data.splits,
        "threshold": None if evidence.model is None else evidence.model.threshold,
        "warnings": list(evidence.warnings),
    }


def show_verdicts(console: Console, evidence: Evidence) -> None:
    """Verdicts on the test rows, rates by group, and how well the model predicts."""
    level = f"{100 * evidence.asked.level:g}%"
    rows = evidence.data.splits.get("test", 0)
    console.result(f"On {rows:,} test rows, with {level} intervals:\n")
    lines = [
        [f.constraint, f"{f.measure} {interval(f.value, f.low, f.high)}", f.status]
        for f in _judged(evidence)
    ]
    if lines:
        console.result(table(["constraint", "found", "verdict"], lines) + "\n")
    wanted = list(dict.fromkeys(r.rate for r in evidence.rates if r.where == "held out"))
    shown = [
        r
        for r in evidence.rates
        if r.where == "test"
        and r.model == "chosen"
        and not r.crossed
        and r.rate in (wanted or ["fpr", "fnr"])
    ]
    console.result(
        table(
            ["group", "rate", "found", "rows"],
            [
                [
                    f"{r.attribute}={r.group}" if r.attribute else r.group,
                    r.rate,
                    interval(r.value, r.low, r.high) + (" (small)" if r.small else ""),
                    f"{r.rows:,.0f}",
                ]
                for r in shown
            ],
        )
    )
    measures = [
        [p.model, p.measure, interval(p.value, p.low, p.high)] for p in evidence.performance
    ]
    console.result("\n" + table(["model", "measure", "found"], measures))
    for warning in evidence.warnings:
        console.remark(f"Note: {warning}")


def _judged(evidence: Evidence) -> list[Finding]:
    """Verdicts on test rows; on rows held out if there are no others."""
    test = [f for f in evidence.verdicts if f.where == "test"]
    return test or list(evidence.verdicts)


def interval(value: Figure, low: Figure, high: Figure) -> str:
    """A figure with its interval, as text."""
    if value is None:
        return "undefined"
    return (
        f"{value:.3f}" if low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"
    )


def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Lines as text in columns, numbers of rows to the right."""
    columns = [[title, *(line[k] for line in lines)] for k, title in enumerate(titles)]
    aligned = []
    for column in columns:
        width = max(map(len, column))
        right = column[0] == "rows"
        aligned.append([cell.rjust(width) if right else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*aligned, strict=True))
