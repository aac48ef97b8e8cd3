"""benchmarks/robustness.md: the counts of campaigns as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.fuzz import numbers
from tests.fuzz.fits import EXPLAINED, INVARIANTS

TABLE = Path(__file__).parents[2] / "benchmarks" / "robustness.md"

TITLES = {
    "model_files": "Damaged model files",
    "tables": "Hostile tables at the command line",
    "kills": "Commands that are killed",
    "threads": "Pairs of fits in threads of one process",
    "audits": "Audits counted again by NumPy, and names of periods",
    "fresh": "Classes, numbers, ratios and floors on fresh rows of a known law; whole weights",
}
FITS = {
    "fits": (
        "Random fits",
        "`FairGBMClassifier`,\nconstraints, kinds of features, labels, groups and weights,",
        "rates",
        INVARIANTS,
    ),
    "numbers": (
        "Random fits of numbers",
        "`FairGBMRegressor`,\nlosses, constraints, kinds of features, targets, exposures, groups "
        "and weights,",
        "means",
        numbers.INVARIANTS,
    ),
}
"""Campaigns of fits: title, what is drawn, what is counted again, and what must hold."""
OUTCOMES = {
    "fitted": "fitted, and every invariant held",
    "refused": "refused with a message of fairboost's own",
    "engine's error": "the engine's own error for its own option",
    "no base": "the model to be frozen could not be trained by the engine itself",
    "failed": "an invariant did not hold",
    "ended the process": "the process ended or hung",
}

HEAD = """\
# Robustness

This page shows what random inputs found. `make fuzz N=200` runs the campaigns below and writes the
page. `python -m tests.fuzz fits --n 20000 --workers 16 --out fits.json` runs one campaign, and
`python -m tests.fuzz table FILES...` joins the counts of several runs. Each case depends only on
its seed and number: `python -m tests.fuzz fits --seed 1 --case 45` runs it again, and `--shrink`
reduces it to its smallest form.
"""


def failed(counts: dict[str, Any]) -> int:
    """How many cases of a campaign failed."""
    return len({f["case"] for f in counts.get("failures", ())}) + counts.get("not fine", 0)


def write(path: Path, found: Iterable[dict[str, Any]]) -> None:
    """Write the page from the counts of campaigns, of which there may be several of one kind."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for counts in found:
        by_name.setdefault(counts["campaign"], []).append(counts)
    parts = [HEAD]
    for name, several in by_name.items():
        parts.append(_fits(several, name) if name in FITS else _others(TITLES[name], several))
    path.write_text("\n".join(parts), encoding="utf-8")


def _total(several: list[dict[str, Any]], key: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for counts in several:
        total.update(counts.get(key, {}))
    return total


def _seeds(several: list[dict[str, Any]]) -> str:
    seeds = sorted({counts["seed"] for counts in several})
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _rows(header: str, lines: Iterable[tuple[Any, ...]]) -> str:
    columns = header.split(" | ")
    rule = "|".join("---" if k == 0 else "--:" for k in range(len(columns)))
    body = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join([f"| {header} |", f"|{rule}|", *body, ""])


def _fits(several: list[dict[str, Any]], name: str) -> str:
    title, drawn, counted, invariants = FITS[name]
    cases = sum(counts["cases"] for counts in several)
    rates = sum(counts["rates recomputed"] for counts in several)
    outcomes, engines = _total(several, "outcomes"), _total(several, "engines")
    checked, broken = _total(several, "checked"), _total(several, "failed")
    by_engine = ", ".join(f"{n:,} on {name}" for name, n in sorted(engines.items()))
    text = [
        f"## {title}: {cases:,} cases ({_seeds(several)})\n",
        f"{by_engine}. Drawn are the options of the engine and of {drawn} tables of NumPy, "
        "pandas,\npolars, Arrow and SciPy, sets to hold out and to evaluate. "
        f"{rates:,} {counted} were counted again.\n",
        _rows(
            "what came of it | cases",
            [(OUTCOMES.get(k, k), f"{n:,}") for k, n in outcomes.most_common()],
        ),
        _rows(
            "invariant | checked | did not hold",
            [
                (invariants.get(what, what), f"{n:,}", f"{broken.get(what, 0):,}")
                for what, n in checked.items()
            ],
        ),
    ]
    if explained := _total(several, "explained"):
        lines = [(EXPLAINED.get(k, k), f"{n:,}") for k, n in explained.most_common()]
        text.append(_rows("known difference, shown to be what it is in each case | cases", lines))
    if without := _total(several, "without"):
        named = ", ".join(f"{name} ({n:,} cases)" for name, n in without.items())
        text.append(f"Not installed where it ran, and replaced by others: {named}.\n")
    kinds = _total(several, "kinds of failures")
    if kinds:
        text.append(
            _rows("what did not hold | cases", [(f"`{k}`", n) for k, n in kinds.most_common(40)])
        )
    return "\n".join(text)


def _others(title: str, several: list[dict[str, Any]]) -> str:
    cases = sum(counts["cases"] for counts in several)
    outcomes = _total(several, "outcomes")
    lines = [(k, f"{n:,}") for k, n in sorted(outcomes.items())]
    return "\n".join(
        [f"## {title}: {cases:,} cases ({_seeds(several)})\n", _rows("outcome | cases", lines)]
    )
