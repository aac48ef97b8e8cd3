"""The table of ``benchmarks.holds``, from its results."""

from __future__ import annotations

import platform
from collections.abc import Iterable

import fairlearn
import lightgbm
import numpy as np
from scipy import stats

import fairboost as package
from benchmarks.holds_cases import (
    CASES,
    CONFIG_LIMIT,
    CONFIG_SHARE,
    EG,
    LOOSE,
    OURS,
    SOURCES,
    Case,
    paper_ratio,
)
from benchmarks.holds_methods import (
    EG_ROWS,
    METHODS,
    TOLERANCE,
    excess,
    gap,
    ratio,
    ratio_error,
    signed_gaps,
)

FIT_CASE, CURVE_CASE = "timing/default fit", "timing/tradeoff curve"

Results = dict[tuple[str, str], dict[int, dict]]


def interval(values: Iterable[float], digits: int, sign: str = "") -> str:
    """Mean and 95% t interval; the mean alone of a single value."""
    values = np.array(list(values), float)
    mean = f"{values.mean():{sign}.{digits}f}"
    if len(values) < 2:
        return mean
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{mean} ± {half:.{digits}f}"


def differences(records: dict[int, dict], base: dict[int, dict]) -> list[float]:
    """Accuracy less plain LightGBM's, on the seeds that both have."""
    return [r["accuracy"] - base[k]["accuracy"] for k, r in sorted(records.items()) if k in base]


def line(case: Case, method: str, records: dict[int, dict], base: dict[int, dict]) -> str:
    rows, rates = [r for _, r in sorted(records.items())], case.rates
    losses = [r["log_loss"] for r in rows if r["log_loss"] is not None]
    signed = [signed_gaps(r, rates) for r in rows]
    used, full = rows[0]["n_train"], max(r["n_train"] for r in [*rows, *base.values()])
    cells = [
        # Sizes of draws differ by a row at most; far fewer rows were left out on purpose.
        method if used > 0.99 * full else f"{method} (on {used:,} of the {full:,} rows)",
        len(rows),
        f"{excess(rows, rates):.2f}",
        interval([r["accuracy"] for r in rows], 4),
        interval(differences(records, base), 4, "+") if base and method != "plain" else "",
        interval([gap(r, rates) for r in rows], 3),
        interval([ratio(r, rates) for r in rows], 3),
        ", ".join(interval(g, 3, "+") for g in zip(*signed, strict=True)) if all(signed) else "",
        interval(losses, 4) if losses else "",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


Asked = tuple[str, str, bool]
"""What was asked for, what was found, and whether that is enough."""


def to_reach(case: Case, records: dict[int, dict], base: dict[int, dict]) -> list[Asked]:
    goal, rows = case.goal, list(records.values())
    asked: list[Asked] = []

    def ask(text: str, value: float | None, digits: int, reached: bool) -> None:
        found = "not run" if value is None else f"{value:.{digits}f}"
        asked.append((text, found, bool(reached)))

    found = excess(rows, case.rates) if rows else None
    ask(f"excess at most {goal.excess}", found, 2, rows and found <= goal.excess)
    if goal.accuracy_loss is not None:
        paired = differences(records, base)
        found = float(np.mean(paired)) if paired else None
        text = f"accuracy at most {goal.accuracy_loss} below plain"
        ask(text, found, 4, paired and found >= -goal.accuracy_loss)
    figure, error = paper_ratio(goal.paper), 0.0
    note = ""
    if figure and rows:  # the paper's rows are others: its figure has the error of a test set too
        error = float(np.mean([ratio_error(r, case.rates[0]) for r in rows]))
        note = f" (the paper's {figure:.3f} less the sampling error of a ratio, {error:.3f})"
    least = figure - error if figure else goal.ratio
    if least is not None:
        found = float(np.mean([ratio(r, case.rates) for r in rows])) if rows else None
        ask(f"mean ratio at least {least:.3f}{note}", found, 3, rows and found >= least)
    if goal.signed_gap is not None:
        found = float(np.mean([signed_gaps(r, case.rates)[0] for r in rows])) if rows else None
        text = f"mean signed gap within {goal.signed_gap}"
        ask(text, found, 4, rows and abs(found) <= goal.signed_gap)
    return asked


def at_equal_gap(case: Case, results: Results) -> tuple[float, float] | None:
    """Accuracy less EG's at EG's mean gap, and half its 95% interval; None if it was not run.

    Between two tolerances fairboost's figures lie about on a line. The interval is a bootstrap
    over seeds, of which each draws all methods.
    """
    theirs, *ours = (results.get((case.name, m), {}) for m in (EG, OURS[0], *LOOSE, "plain"))
    if not theirs or not any(results.get((case.name, m)) for m in LOOSE):
        return None
    found = [theirs, *filter(None, ours)]
    seeds = sorted(set.intersection(*(set(records) for records in found)))
    gaps, accuracies = (
        np.array([[f(records[k]) for k in seeds] for records in found])
        for f in (lambda r: gap(r, case.rates), lambda r: r["accuracy"])
    )

    def difference(which: np.ndarray) -> float:
        (theirs, *ours), (accuracy, *reached) = (
            table[:, which].mean(axis=1).tolist() for table in (gaps, accuracies)
        )
        order = np.argsort(ours)
        at = np.interp(theirs, np.array(ours)[order], np.array(reached)[order])
        return float(at - accuracy)

    draws = np.random.default_rng(0).integers(0, len(seeds), (2_000, len(seeds)))
    low, high = np.quantile([difference(which) for which in draws], [0.025, 0.975])
    return difference(np.arange(len(seeds))), float(high - low) / 2


def summary(results: Results, configs: list[Case]) -> list[str]:
    """All that was asked for, in one table."""
    lines = ["## What was to be reached", "", "| case | asked | found | reached |"]
    lines.append("|---|---|---|---|")
    for case in (case for case in CASES.values() if case not in configs):
        records = results.get((case.name, OURS[0]), {})
        for asked in to_reach(case, records, results.get((case.name, "plain"), {})):
            lines.append(_row(case.name, *asked))
        if EG in case.methods and (compared := at_equal_gap(case, results)):
            value, half = compared
            text = "at equal gap, accuracy above that of fairlearn EG"
            lines.append(_row(case.name, text, f"{value:+.4f} ± {half:.4f}", value > 0))
    found = [
        excess([r], case.rates)
        for case in configs
        for r in results.get((case.name, OURS[0]), {}).values()
    ]
    if found:
        share = float(np.mean(np.array(found) < CONFIG_LIMIT))
        text = f"excess below {CONFIG_LIMIT:g} in at least {CONFIG_SHARE:.0%} of configurations"
        lines.append(_row("configurations", text, f"{share:.0%}", share >= CONFIG_SHARE))
    for (name, _), goal in zip(TIMINGS, (1.05, 3.0), strict=True):
        value = timing(results, name)
        if value is not None:
            text = f"time over a plain fit at most {goal:g}"
            lines.append(_row(name, text, f"{value:.2f}", value <= goal))
    return [*lines, ""]


def _row(case: str, text: str, found: str, reached: bool) -> str:
    return f"| {case} | {text} | {found} | {'yes' if reached else '**no**'} |"


def case_lines(case: Case, results: Results) -> list[str]:
    base = results.get((case.name, "plain"), {})
    lines = [
        f"## {case.name}", "", f"{SOURCES[case.source].title}; {case.constraint}.", "",
        "| method | seeds | excess | accuracy | accuracy - plain | gap | ratio | signed gap | "
        "log loss |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for method in METHODS:
        if records := results.get((case.name, method)):
            lines.append(line(case, method, records, base))
    return [*lines, ""]


def config_lines(cases: list[Case], results: Results) -> list[str]:
    """Share of random configurations in which the constraint holds."""
    lines = [
        "## Random configurations", "",
        "Trees (100 to 1000), leaves (7 to 127) and learning rate (0.02 to 0.3) drawn "
        "log-uniformly; sex, equal_opportunity. The excess is over the groups of one "
        "configuration. Measured while rows held out still stayed in the engine's data with "
        "gradient 0.", "",
        "| data | method | configurations | excess below 2 | median excess | accuracy - plain |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for method in ("plain", "fairboost"):
        for case in cases:
            records = results.get((case.name, method), {})
            each = [excess([r], case.rates) for r in records.values()]
            if each:
                cost = differences(records, results.get((case.name, "plain"), {}))
                lines.append(
                    f"| {SOURCES[case.source].title} | {method} | {len(each)} | "
                    f"{np.mean(np.array(each) < CONFIG_LIMIT):.0%} | {np.median(each):.2f} | "
                    f"{interval(cost, 4, '+') if cost and method != 'plain' else ''} |"
                )
    return [*lines, ""]


WHY_NOT = [
    "Why some are not reached. *acs_travel_time, accuracy*: much is to be mended in this file; "
    "no method measured there stays within 0.003: ThresholdOptimizer, which sees the group, does "
    "not, and cross-fitting, which trains on all rows, comes about as near (its table below); the "
    "rest is the price of the rows held out. *acs_employment, ratio*: the gap is within the "
    "tolerance (the excess is 0), which at this rate allows a ratio of 0.94, and the interval of "
    "the mean contains what was asked. *blind75* and *compas_blind, at equal gap*: neither method "
    "is measurably ahead of the other; both differences are smaller than their intervals.", "",
]  # fmt: skip
"""Said of the figures as they stand; look again when they change."""

TIMINGS = (
    (FIT_CASE, "default fit, 1M generated rows, 2 groups"),
    (CURVE_CASE, "tradeoff_curve, 200k generated rows, 2 groups"),
)


def timing(results: Results, case: str) -> float | None:
    """Median time over the median of plain fits."""
    times = [
        [r["seconds"] for r in results.get((case, m), {}).values()] for m in (OURS[0], "plain")
    ]
    return float(np.median(times[0]) / np.median(times[1])) if all(times) else None


def timing_lines(results: Results) -> list[str]:
    lines = ["## Time", "", "| what | repeats | median / median of plain fits |", "|---|---|---|"]
    for case, title in TIMINGS:
        found, repeats = timing(results, case), len(results.get((case, "plain"), {}))
        if found is not None:
            lines.append(f"| {title} | {repeats} | {found:.2f} |")
    if len(lines) == 4:
        return []
    return [
        *lines, "",
        "Rows held out are cut out of LightGBM's data and need no trees, which pays for the rest. "
        "LightGBM's OpenMP threads spin for a while after each round and hold up ours; in an "
        "environment with `OMP_WAIT_POLICY=passive` they do not.", "",
    ]  # fmt: skip


def report(results: Results) -> str:
    peers = {r["version"] for rows in results.values() for r in rows.values() if r.get("version")}
    versions = [
        f"Python {platform.python_version()}", f"LightGBM {lightgbm.__version__}",
        f"fairboost {package.__version__}", f"fairlearn {fairlearn.__version__}", *sorted(peers),
    ]  # fmt: skip
    lines = [
        "# Do constraints hold on rows that were not trained on?", "",
        "Made by `python -m benchmarks.holds run --reference-python PATH`, `python -m "
        "benchmarks.holds time` and `python -m benchmarks.holds table`. "
        f"{', '.join(versions)}.", "",
        "Every seed splits the rows 60/20/20 at random. All methods get the same 80%: plain "
        "LightGBM, the paper's algorithm (`FairGBMClassifier.paper`, tolerance 0), the "
        "reference package, fairlearn's exponentiated gradient (10 iterations, on at most "
        f"{EG_ROWS:,} rows) and fairboost are fitted on all of it; ThresholdOptimizer, which asks "
        "for equal rates, fits its trees on 60 and its thresholds on 20, and sees the group at "
        "prediction; `holdout_set` gives fairboost the 20 to hold out. The engine is LightGBM at "
        "its defaults (100 trees) but in the random configurations; the tolerance is "
        f"{TOLERANCE} where a method has one. Figures are of the remaining 20%: means over "
        "seeds, with 95% t intervals.", "",
        "This page shows whether constraints hold. [The whole trade-off](frontier.md) compares "
        "the accuracy at an equal gap with that of the strongest peers: linear post-processing, "
        "thresholds by inferred group, min-max boosting, and group thresholds.", "",
        "*Excess* is how far the rates of groups are from the pooled rate beyond half the "
        "tolerance, in standard errors of the group's test rate, as a root mean square over "
        "groups, rates and seeds: noise alone gives at most 1. *Gap* is largest less smallest "
        "rate, *ratio* smallest over largest (of two rates the worse), *signed gap* the second "
        "less the first of two groups in sorted order (FPR, then FNR, for equalized odds).",
        "",
    ]  # fmt: skip
    configs = [case for case in CASES.values() if case.source.startswith("configs")]
    lines += [*summary(results, configs), *WHY_NOT]
    for case in (case for case in CASES.values() if case not in configs):
        if any((case.name, method) in results for method in METHODS):
            lines += case_lines(case, results)
    return "\n".join([*lines, *config_lines(configs, results), *timing_lines(results)])
