"""The models of a comparison in one table, and in words."""

from __future__ import annotations

import pandas as pd

from fairboost.cli.console import Console
from fairboost.cli.verdicts import interval, table
from fairboost.report.evidence import Evidence, Gap, TradeoffPoint

CHOSEN, PLAIN = "chosen", "engine alone"


def compare_models(evidence: Evidence) -> pd.DataFrame:
    """One line per model: accuracy and the largest gap on test rows, and what it costs.

    Parameters
    ----------
    evidence : Evidence
        With a trade-off, and with the engine alone to compare with.
    """
    assert evidence.tradeoff is not None
    points = evidence.tradeoff.points
    lines = [_plain_line(evidence)]
    for k, point in enumerate(points):
        chosen = k == evidence.tradeoff.chosen
        name = f"{CHOSEN}: {point.name}" if chosen else point.name
        lines.append(_line(name, point))
    found = pd.DataFrame(lines)
    found.insert(2, "cost", found["accuracy"].iloc[0] - found["accuracy"])
    return found


def show_alternatives(
    console: Console, found: pd.DataFrame, evidence: Evidence, tolerance: float
) -> None:
    """Show the table, and say which of the models are less discriminatory."""
    rows = evidence.data.splits["test"]
    level = f"{100 * evidence.asked.level:g}%"
    console.result(f"On {rows:,} test rows, with {level} intervals:\n")
    lines = [
        [
            str(r["model"]),
            interval(r["accuracy"], r["accuracy_low"], r["accuracy_high"]),
            f"{r['cost']:+.3f}",
            interval(r["gap"], r["gap_low"], r["gap_high"]),
        ]
        for r in found.to_dict("records")
    ]
    console.result(table(["model", "accuracy", "cost", "largest gap"], lines))
    console.result("\n" + "\n".join(in_words(found, tolerance)))
    for warning in evidence.warnings:
        console.remark(f"Note: {warning}")


def in_words(found: pd.DataFrame, tolerance: float) -> list[str]:
    """What the table comes to."""
    plain, *others = found.to_dict("records")
    fairer = [m for m in others if m["gap_high"] < plain["gap_low"]]
    said = [
        "The largest gap is that between groups in the rates asked for; cost is accuracy below "
        "the engine alone.",
        "No model is surely less discriminatory than the engine alone: these rows are too few to "
        "tell, or there was little to mend.",
    ]
    if fairer:
        best = max(fairer, key=lambda m: m["accuracy"])
        said[1] = (
            f"{len(fairer)} of {len(others)} models are surely less discriminatory than the "
            f"engine alone; of these the most accurate is {best['model']!r}, at a cost of "
            f"{best['cost']:.3f}."
        )
    within = [m for m in others if m["gap"] <= tolerance]
    if within:
        best = max(within, key=lambda m: m["accuracy"])
        last = (
            f"The most accurate with a gap within {tolerance:g} is {best['model']!r}, at a cost "
            f"of {best['cost']:.3f}."
        )
    else:
        least = min(others, key=lambda m: m["gap"])
        last = (
            f"None has a gap within {tolerance:g} on these rows; the least is {least['gap']:.3f}, "
            f"of {least['model']!r}."
        )
    return [*said, last]


def _line(name: str, point: TradeoffPoint) -> dict[str, object]:
    fields = ("accuracy", "accuracy_low", "accuracy_high", "gap", "gap_low", "gap_high", "trees")
    return {"model": name, **{field: getattr(point, field) for field in fields}}


def _plain_line(evidence: Evidence) -> dict[str, object]:
    """The engine alone; its largest gap among those that the constraints are about."""
    accuracy = next(
        p for p in evidence.performance if p.model == "plain" and p.measure == "accuracy"
    )
    worst = max(_constrained(evidence), key=lambda g: g.gap or 0.0)
    return {
        "model": PLAIN,
        "accuracy": accuracy.value,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "gap": worst.gap,
        "gap_low": worst.gap_low,
        "gap_high": worst.gap_high,
        "trees": None,
    }


def _constrained(evidence: Evidence) -> list[Gap]:
    """Gaps of the engine alone, in the rates that were read in training."""
    asked = {(r.attribute, r.rate) for r in evidence.rates if r.where != "test"}
    return [g for g in evidence.gaps if g.model == "plain" and (g.attribute, g.rate) in asked]
