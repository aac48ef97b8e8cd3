"""Monitoring: how often it is silent without drift, and how soon it alarms with it.

Rates are generated: two groups of equal size, false negative rates of 0.3, a constraint of equal
false negative rates with a tolerance of 0.05, 24 periods, a look after every period. With drift,
the rate of one group rises at the 13th period and stays there.

    python -m benchmarks.monitor             # some minutes on one core; writes monitor.md
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri, xlogy
from tqdm import tqdm

from fairboost import parity
from fairboost._text import markdown_table
from fairboost.metrics.intervals import wilson
from fairboost.monitoring.checks import checks_of
from fairboost.monitoring.counts import SHARE, PeriodCounts, Series
from fairboost.monitoring.sequences import confidence_sequence, difference_sequence, spend
from fairboost.monitoring.watch import TrainingRate, Watched, watch

FILE = Path(__file__).resolve().with_suffix(".md")
PERIODS, CHANGED, RUNS, TESTED = 24, 12, 200, 2_000
RATE, FPR, POSITIVE, TOLERANCE, ALPHA = 0.3, 0.1, 0.4, 0.05, 0.05
GROUPS = (("A",), ("B",))
BY = ("group",)
SIZES, MOVES = (100, 400, 1_600), (0.1, 0.15, 0.2)
Z = float(ndtri(0.95))


@dataclass(frozen=True)
class Case:
    """Positive rows of a group in a period, and what the rate of B moves by at the 13th."""

    rows: int
    move: float = 0.0


def generate(case: Case, seed: int) -> tuple[PeriodCounts, dict[Series, TrainingRate]]:
    """Rows over time, and what test rows of training say."""
    rng = np.random.default_rng([seed, case.rows, round(1_000 * case.move)])
    rows = np.zeros((PERIODS, 2, 3, 2), np.int64)
    in_b = rng.binomial(round(2 * case.rows / POSITIVE), 0.5, PERIODS)
    sizes = np.stack([round(2 * case.rows / POSITIVE) - in_b, in_b], axis=1)
    fnr = np.full((PERIODS, 2), RATE)
    fnr[CHANGED:, 1] += case.move
    positive = rng.binomial(sizes, POSITIVE)
    missed = rng.binomial(positive, fnr)
    wrong = rng.binomial(sizes - positive, FPR)
    rows[:, :, 1, 0], rows[:, :, 1, 1] = missed, positive - missed
    rows[:, :, 0, 1], rows[:, :, 0, 0] = wrong, sizes - positive - wrong
    counts = PeriodCounts(tuple(f"{k + 1}" for k in range(PERIODS)), BY, GROUPS, rows)
    decided = POSITIVE * (1 - RATE) + (1 - POSITIVE) * FPR
    true = {"fnr": (RATE, TESTED * POSITIVE / 2), "ppr": (decided, TESTED), SHARE: (0.5, TESTED)}
    reference = {}
    for s in (*watched_series(), *checks()[0].series):
        p, n = true[s.rate]
        reference[s] = TrainingRate(rng.binomial(int(n), p) / n, n)
    return counts, reference


def checks() -> list:
    """The constraint."""
    return checks_of([parity("fnr", TOLERANCE, by="group")], {BY: GROUPS})[0]


def watched_series() -> list[Series]:
    """What is watched beside it."""
    return [Series((), (), "ppr"), *(Series(BY, g, SHARE, GROUPS) for g in GROUPS)]


def run(case: Case, seed: int) -> Watched:
    """Generate and watch."""
    counts, reference = generate(case, seed)
    return watch(counts, checks(), watched_series(), reference, confidence=1 - ALPHA)


def delays(found: Watched) -> tuple[float, float]:
    """Periods until the change of B's rate and the broken constraint were noticed."""
    first = {"change": np.inf, "constraint": np.inf}
    for alarm in found.alarms:
        if alarm.kind == "constraint" or alarm.about == "false negative rate of group=B":
            first[alarm.kind] = min(first[alarm.kind], int(alarm.raised) - CHANGED)
    return first["change"], first["constraint"]


def naive(case: Case, seed: int) -> bool:
    """Whether ordinary 95% intervals say of some period that a rate has changed."""
    counts, _ = generate(case, seed)
    for s in (*watched_series(), *checks()[0].series):
        events, total = s.count(counts)
        for k in range(1, PERIODS):
            low, high = wilson([events[:k].sum(), events[k]], [total[:k].sum(), total[k]])
            if low[1] > high[0] or low[0] > high[1]:
                return True
    return False


def allowed(case: Case, kind: str, z: float) -> float:
    """Periods after which bands of these widths show the drift.

    With counts as expected (z = 0), or as unlucky as in one of 20 runs: the estimated difference
    is z standard errors too small.
    """
    watched, n0 = 6, CHANGED * case.rows  # five rates and shares, and one gap
    late = float(spend(ALPHA, watched, CHANGED))
    since_first = float(spend(ALPHA, watched, 0))
    for m in range(1, PERIODS - CHANGED + 1):
        n = m * case.rows
        p, q = RATE + case.move, RATE
        other = n0 if kind == "change" else n
        error = (p * (1 - p) / n, q * (1 - q) / other)
        size = np.sqrt(sum(error))
        p, q = p - z * error[0] / size, q + z * error[1] / size
        if kind == "change":
            low = confidence_sequence(n * p, n, late)[0]
            if low > confidence_sequence(other * q, other, since_first)[1]:
                return m
        elif difference_sequence(n * p, n, other * q, other, late)[0] > TOLERANCE:
            return m
    return np.inf


def bound(case: Case, kind: str) -> float:
    """Periods below which no method is on average that fails with at most alpha (Lorden)."""
    p, q = RATE + case.move, RATE + (TOLERANCE if kind == "constraint" else 0.0)
    divergence = xlogy(p, p / q) + xlogy(1 - p, (1 - p) / (1 - q))
    return float(np.log(1 / ALPHA) / divergence / case.rows)


def silence(size: int) -> tuple[int, int]:
    """Runs without drift in which nothing is said, by us and by ordinary intervals."""
    ours = theirs = 0
    for seed in tqdm(range(RUNS), desc=f"no drift, {size}"):
        ours += not run(Case(size), seed).alarms
        theirs += not naive(Case(size), seed)
    return ours, theirs


def in_periods(value: float) -> str:
    """A delay, or that it is longer than was watched."""
    return f"{value:.0f}" if np.isfinite(value) else f"> {PERIODS - CHANGED}"


def drift_lines() -> list[list[str]]:
    """How soon drift is noticed, case by case."""
    lines = []
    for size in SIZES:
        for move in MOVES:
            case = Case(size, move)
            runs = [delays(run(case, seed)) for seed in tqdm(range(RUNS), desc=str(case))]
            for kind, found in zip(("change", "constraint"), np.array(runs).T, strict=True):
                most = allowed(case, kind, Z)
                within = (found <= most).mean() if np.isfinite(most) else np.nan
                median = np.sort(found)[(RUNS - 1) // 2]
                lines.append(
                    [
                        f"{size:,}", f"+{move:g}", kind, in_periods(median),
                        in_periods(allowed(case, kind, 0.0)), in_periods(most),
                        "–" if np.isnan(within) else f"{within:.1%}", f"{bound(case, kind):.2f}",
                    ]
                )  # fmt: skip
    return lines


SETTING = """\
Made by `python -m benchmarks.monitor`. Two groups of equal size, false negative rates of {rate},
equal false negative rates with a tolerance of {tolerance} as the constraint, {periods} periods,
a look after every period, {runs} runs of each case. Watched are the two rates, the share of
positive decisions and the shares of both groups; {tested:,} test rows of training are known. The
confidence is {sure:.0%}. *Rows* are positive rows of a group in a period."""
SILENT = """\
Share of runs without a single alarm at any of the looks; at least 95% is promised. Beside it:
how often 95% intervals for a single look (Wilson) show no difference between a period and those
before."""
DRIFT = """\
The false negative rate of one group rises at period {changed}. Periods until the alarm are
counted from the change (1: at the end of the first period with the new rate). *Change* is the
alarm that the rate of the group has moved, *constraint* the one that the constraint is certainly
broken. *Expected* and *allowed* follow from the widths of the bands alone: the periods after
which the bands show the drift if counts are as expected, and if counts are as unlucky as in one
run of 20. *Within* is the share of runs that alarm within the latter. *Bound* is the smallest
mean delay of any method that knows both rates and fails with a probability of at most 5%, log(1
/ 0.05) / KL, in periods; KL is the divergence of the new rate from the old one or, of a
constraint, from the old one plus the tolerance. A method that looks once per period needs one
period at least."""
WHY = """\
Every sequence allows for all rates, all looks and all periods that it may have started at. That is
why delays of more than a period are eleven to fourteen times the bound, which knows the rates and
looks at one of them. The gap of the two groups has a confidence sequence of its own. In its place
a union bound over the sequences of both groups was tried. The median delays of *constraint* were
then 12 in place of 8 periods (100 rows, +0.2), 7 in place of 4 (400 rows, +0.15, and 1,600 rows,
+0.1), 3 in place of 2 (400 rows, +0.2) and 2 in place of 1 (1,600 rows, +0.15). The median delay
of *change* was 7 in place of 8 periods in one case (100 rows, +0.15), otherwise the same."""


def page(silent: list[list[str]], drift: list[list[str]]) -> str:
    """The text of monitor.md."""
    setting = SETTING.format(
        rate=RATE, tolerance=TOLERANCE, periods=PERIODS, runs=RUNS, tested=TESTED, sure=1 - ALPHA
    )
    titles = ["rows", "move", "alarm", "median", "expected", "allowed", "within", "bound"]
    parts = [
        "# Monitoring",
        setting,
        "## Without drift",
        SILENT,
        markdown_table(["rows", "fairboost monitor", "intervals for a single look"], silent),
        "## With drift",
        DRIFT.format(changed=CHANGED + 1),
        markdown_table(titles, drift),
        WHY,
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run it and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FILE)
    out = parser.parse_args().out
    silent = []
    for size in SIZES:
        ours, theirs = silence(size)
        silent.append([f"{size:,}", f"{ours / RUNS:.1%}", f"{theirs / RUNS:.1%}"])
    out.write_text(page(silent, drift_lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
