"""Decisions among several classes under constraints, measured on test rows: bands of income.

Every seed draws rows of ``acs_mobility_2018`` anew. All methods get the same training rows and are
judged on the same test rows. Results are kept one JSON line per case, method and seed, so that a
run that was cut short goes on where it ended.

    python -m benchmarks.classes              # an hour on one core; writes classes.md
    python -m benchmarks.classes --table      # writes it from what is kept, fits nothing
    python -m benchmarks.classes --part 0/2   # every second case, to share them with another run

The table is read from FAIRBOOST_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from tqdm import tqdm

from fairboost import FairGBMClassifier
from fairboost._text import markdown_table
from fairboost.datasets.numbers import load_numbers
from fairboost.study.linear_post import events, fit_rule

RESULTS = Path(__file__).parents[1] / "build" / "classes.jsonl"
TREES, SEEDS, BANDS = 100, 5, 5
TRAIN_ROWS, TEST_ROWS = 80_000, 60_000
RACES = {1: "1", 2: "2", 3: "3-5", 4: "3-5", 5: "3-5", 6: "6-7", 7: "6-7", 8: "8", 9: "9"}
"""Codes of RAC1P; those of a few hundred rows count with their neighbours."""
CONSTRAINTS = "demographic_parity", "equal_opportunity", "equalized_odds"
OURS, LINEAR = (0.02, 0.05), (0.01, 0.02, 0.05, 0.1)
"""Tolerances."""
HELD_OUT = 0.2
"""Share of the training rows on which linear post-processing finds its rule."""
DRAWS = 400
"""Draws of test rows at equal rates: how far apart chance alone brings groups."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Some rows: features, bands and groups as numbers."""

    X: pd.DataFrame
    y: np.ndarray
    s: np.ndarray

    def take(self, rows: np.ndarray) -> Rows:
        """Some of them."""
        return Rows(self.X.iloc[rows], self.y[rows], self.s[rows])


@cache
def read(column: str, aware: bool) -> Rows:
    """All rows; bands are quintiles of income."""
    table = load_numbers("acs_mobility_2018", aware=aware)
    edges = np.quantile(table.y, np.arange(1, BANDS) / BANDS)
    groups = table.sensitive[column].replace(RACES if column == "RAC1P" else {}).astype(str)
    return Rows(table.X, np.searchsorted(edges, table.y, side="right"), pd.factorize(groups)[0])


def split(column: str, aware: bool, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows."""
    rows = read(column, aware)
    order = np.random.default_rng([seed, 2]).permutation(len(rows.y))
    return rows.take(order[:TRAIN_ROWS]), rows.take(order[TRAIN_ROWS:][:TEST_ROWS])


def engine(seed: int, **options: Any) -> LGBMClassifier:
    """The engine of all methods."""
    return LGBMClassifier(n_estimators=TREES, n_jobs=1, random_state=seed, verbose=-1, **options)


# Methods: training rows, test rows and a seed to the bands of the test rows, by name


def plain(train: Rows, test: Rows, seed: int) -> dict[str, np.ndarray]:
    """LightGBM alone."""
    return {"plain": engine(seed).fit(train.X, train.y).predict(test.X)}


def ours(train: Rows, test: Rows, seed: int, constraint: str) -> dict[str, np.ndarray]:
    """Fairboost with its defaults."""
    found = {}
    for tolerance in OURS:
        model = FairGBMClassifier(
            engine(seed), constraint=constraint, tolerance=tolerance, random_state=seed
        )
        model.fit(train.X, train.y, sensitive_features={"group": train.s})
        found[f"fairboost, {tolerance:g}"] = model.predict(test.X)
    return found


def linear(
    train: Rows, test: Rows, seed: int, constraint: str, aware: bool
) -> dict[str, np.ndarray]:
    """Linear post-processing."""
    n_groups = int(train.s.max()) + 1
    held = np.random.default_rng([seed, 3]).random(len(train.y)) < HELD_OUT
    learned = train.take(np.flatnonzero(~held))
    if aware:
        model = engine(seed).fit(learned.X, learned.y)
    else:  # of many pairs of band and group, small trees were better
        leaves = 31 if n_groups == 2 else 15
        model = engine(seed, num_leaves=leaves)
        model.fit(learned.X, learned.y * n_groups + learned.s)

    def joint(rows: Rows) -> np.ndarray:
        likely = model.predict_proba(rows.X)
        if not aware:
            full = np.zeros((len(likely), BANDS * n_groups))
            full[:, model.classes_] = likely  # a pair may be absent
            return full.reshape(-1, BANDS, n_groups)
        out = np.zeros((len(likely), BANDS, n_groups))
        out[np.arange(len(likely)), :, rows.s] = likely
        return out

    ours, theirs = joint(train.take(np.flatnonzero(held))), joint(test)
    found = {}
    for tolerance in LINEAR:
        rule = fit_rule(ours, constraint, tolerance, seed)
        found[f"linear, {tolerance:g}"] = rule(theirs, seed)
    return found


# What is measured


def measure(test: Rows, given: np.ndarray, constraint: str, tolerance: float) -> Record:
    """Accuracy, the largest gap of a constrained rate, that of chance alone, and the excess."""
    rng, gaps, squares, chance = np.random.default_rng(0), [], [], np.zeros(DRAWS)
    for event in events(constraint, BANDS):
        counts = np.ones(len(test.y), bool) if event.label is None else test.y == event.label
        n = np.bincount(test.s[counts])
        shares = np.bincount(given[counts], minlength=BANDS) / counts.sum()
        drawn = np.stack(
            [rng.multinomial(k, shares, DRAWS) / k for k in n]
        )  # groups have equal rates
        for k in event.given:
            hit = given[counts] == k
            rates = np.bincount(test.s[counts], hit) / n
            gaps.append(float(np.ptp(rates)))
            chance = np.maximum(chance, np.ptp(drawn[..., k], axis=0))
            error = np.sqrt(max(hit.mean() * (1 - hit.mean()), 1e-4) / n)
            beyond = np.maximum(np.abs(rates - hit.mean()) - tolerance / 2, 0.0)
            squares += np.square(beyond / error).tolist()
    return {
        "accuracy": float(np.mean(given == test.y)),
        "gap": max(gaps),
        "chance": float(chance.mean()),
        "squared excess": float(np.mean(squares)),
    }


# Running, and what is kept


def read_results(path: Path) -> dict[tuple[str, str, str, int], Record]:
    """What is kept, by case, constraint, method and seed."""
    lines = path.read_text().splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    return {(r["case"], r["constraint"], r["method"], r["seed"]): r for r in records}


CASES = {
    f"{column}, {word}": (column, word == "aware")
    for column in ("SEX", "RAC1P")
    for word in ("blind", "aware")
}


METHODS = {"linear": LINEAR, "fairboost": OURS}
"""Methods that are fitted for a constraint, and their tolerances."""


def jobs(seeds: int) -> list[tuple[str, str, str, int]]:
    """Case, method, constraint and seed of all fits; those that take longest come first."""
    out = [
        (case, method, constraint, seed)
        for method, constraint, case, seed in product(
            METHODS, reversed(CONSTRAINTS), reversed(CASES), range(seeds)
        )
    ]
    return out + [(case, "plain", CONSTRAINTS[0], seed) for case in CASES for seed in range(seeds)]


def run(path: Path, seeds: int, part: str) -> None:
    """Fit what is not among the results yet."""
    done = read_results(path)
    path.parent.mkdir(exist_ok=True)
    mine, of = map(int, part.split("/"))
    for case, method, asked, seed in (bar := tqdm(jobs(seeds)[mine::of], smoothing=0)):
        bar.set_description(f"{case}, {method}, {asked}, seed {seed}")
        first = method if method == "plain" else f"{method}, {METHODS[method][0]:g}"
        if (case, asked, first, seed) in done:
            continue
        column, aware = CASES[case]
        train, test = split(column, aware, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows what was not met
            if method == "plain":
                (given,) = plain(train, test, seed).values()
                found = {(constraint, "plain"): given for constraint in CONSTRAINTS}
            else:
                fitted = (
                    linear(train, test, seed, asked, aware)
                    if method == "linear"
                    else ours(train, test, seed, asked)
                )
                found = {(asked, name): given for name, given in fitted.items()}
        with path.open("a") as file:
            for (constraint, name), given in found.items():
                _, _, tolerance = name.partition(", ")
                record = {"case": case, "constraint": constraint, "method": name, "seed": seed}
                record |= measure(test, given, constraint, float(tolerance or OURS[0]))
                file.write(json.dumps(record) + "\n")


# The page

HEAD = f"""# Several classes under constraints

Made by `python -m benchmarks.classes`: five bands of yearly income (quintiles) of
`acs_mobility_2018`. {TREES} trees of LightGBM with its other defaults, {TRAIN_ROWS:,} training and
{TEST_ROWS:,} test rows drawn for each of {{seeds}} seeds; means with standard errors over seeds,
which share rows, so that the errors are a little too small. `blind`: no sensitive column is a
feature. Numbers after a name are tolerances.

- **fairboost**: defaults. **linear** is linear post-processing (Xian and Zhao, 2024;
  `fairboost.study.linear_post`) of LightGBM's p(band, group | x), or p(band | x, group) where it
  is aware, with the rule found on {HELD_OUT:.0%} of the training rows. Blind, it takes a model of
  the group along wherever it predicts.
- **gap**: the largest difference between two groups of any rate that the constraint is about:
  5 shares, 5 recalls, or 25 entries of the confusion matrix.
- **chance**: the gap that chance alone shows: the mean of the largest difference, over {DRAWS}
  draws of as many test rows of each group at the rates of everyone. A model whose rates are equal
  among all people has this gap on average.
- **excess**: how far a group's rate is from everyone's beyond half the tolerance (of plain
  LightGBM, of {OURS[0]:g}), in standard errors of that rate on the test rows; a root mean square
  over rates, groups and seeds. Noise of the test rows alone makes up to 1.
- **linear at this accuracy**: the gap of linear post-processing at the accuracy of the line,
  read off between its tolerances.
- Codes of RAC1P with few rows count with their neighbours: 3 to 5 (indigenous Americans) and 6 and
  7 (Asian, Pacific Islander).
"""


def page(results: dict[tuple[str, str, str, int], Record]) -> str:
    """The page."""
    seeds = 1 + max(seed for *_, seed in results)
    methods = [
        "plain", *(f"fairboost, {t:g}" for t in OURS), *(f"linear, {t:g}" for t in LINEAR)
    ]  # fmt: skip
    parts = [HEAD.format(seeds=seeds)]
    for case in CASES:
        parts.append(f"\n## By {case}\n")
        for constraint in CONSTRAINTS:
            lines = []
            for method in methods:
                rows = [results[k] for k in results if k[:3] == (case, constraint, method)]
                if rows:
                    at = _linear_at(results, case, constraint, rows)
                    few = f" ({len(rows)} seeds)" * (len(rows) < seeds)
                    at = at if "fairboost" in method else ""
                    lines.append([method + few, *_figures(rows), at])
            titles = ["method", "accuracy", "gap", "chance", "excess", "linear at this accuracy"]
            parts.append(f"\n### {constraint}\n\n{markdown_table(titles, lines)}\n")
    return "".join([*parts, goals(results)])


def _figures(rows: list[Record]) -> list[str]:
    out = []
    for key in ("accuracy", "gap"):
        values = np.array([r[key] for r in rows])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        out.append(f"{values.mean():.4f} ± {error:.4f}")
    chance, squares = (np.mean([r[key] for r in rows]) for key in ("chance", "squared excess"))
    return [*out, f"{chance:.4f}", f"{np.sqrt(squares):.2f}"]


def _linear_curve(results: dict, case: str, constraint: str) -> np.ndarray:
    """Mean accuracy and gap of linear post-processing at its tolerances, by accuracy."""
    points = []
    for tolerance in LINEAR:
        name = f"linear, {tolerance:g}"
        theirs = [results[k] for k in results if k[:3] == (case, constraint, name)]
        if theirs:
            points.append([np.mean([r[key] for r in theirs]) for key in ("accuracy", "gap")])
    return np.array(sorted(points)).T


def _linear_at(results: dict, case: str, constraint: str, rows: list[Record]) -> str:
    """The gap of linear post-processing at an accuracy, between the means of its tolerances."""
    wanted, curve = float(np.mean([r["accuracy"] for r in rows])), _linear_curve(
        results, case, constraint
    )  # fmt: skip
    if not len(curve):
        return ""
    accuracies, gaps = curve
    if wanted > accuracies[-1]:
        return f"none so accurate ({gaps[-1]:.3f} at {accuracies[-1]:.4f})"
    if wanted < accuracies[0]:
        return f"below {gaps[0]:.3f}"
    return f"{np.interp(wanted, accuracies, gaps):.3f}"


MOST_EXCESS = 1.5


def goals(results: dict) -> str:
    """What was to be reached, and what was."""
    excesses, ratios, floors = {}, {}, {}
    for case, constraint, tolerance in product(CASES, CONSTRAINTS, OURS):
        key = case, constraint, f"fairboost, {tolerance:g}"
        rows = [results[k] for k in results if k[:3] == key]
        excesses[key] = np.sqrt(np.mean([r["squared excess"] for r in rows]))
        means = {name: np.mean([r[name] for r in rows]) for name in ("accuracy", "gap", "chance")}
        curve = _linear_curve(results, case, constraint)
        if len(curve) and means["accuracy"] >= curve[0, 0]:  # the last gap, if none so accurate
            theirs = np.interp(means["accuracy"], *curve)
            ratios[key], floors[key] = means["gap"] / theirs, means["chance"] / theirs
    within = sum(e <= MOST_EXCESS for e in excesses.values())
    worst, found = max(excesses, key=excesses.__getitem__), np.array(list(ratios.values()))
    return (
        "\n## What was to be reached\n\n"
        f"- An excess of at most {MOST_EXCESS:g}: reached in {within} of {len(excesses)} lines. "
        f"The largest is {excesses[worst]:.2f} (by {worst[0]}, {worst[1]}, {worst[2]}).\n"
        f"- Half the gap of linear post-processing at equal accuracy: reached in "
        f"{(found <= 0.5).sum()} of {len(found)} lines that can be compared (linear "
        f"post-processing is not so inaccurate in the others). The gap is smaller in "
        f"{(found < 1).sum()}, and the median ratio is {np.median(found):.2f}. The gap that "
        f"chance alone shows is {np.median(list(floors.values())):.0%} of that of linear "
        "post-processing (median), and both methods approach the same best trade-off as rows "
        "grow.\n"
    )


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--part", default="0/1", help="k/n: every n-th fit, from the k-th on")
    parser.add_argument("--table", action="store_true", help="write the page, fit nothing")
    options = parser.parse_args()
    if not options.table:
        run(RESULTS, options.seeds, options.part)
    text = page(read_results(RESULTS))
    Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
