"""Accuracy and gap on test rows, along the whole trade-off, against the strongest peers.

Every seed divides the rows anew. All methods get the same training rows, are those of
``fairboost.study`` (LightGBM at its defaults, 100 trees), and are judged on the same test rows.
Results are kept one JSON line per fit, so that a run that was cut short goes on where it ended,
and several runs can share the work by ``--case``.

    python -m benchmarks.frontier run                          # hours, on one core
    python -m benchmarks.frontier run --case "adult/blind/*" --seeds 3
    python -m benchmarks.frontier run --methods fairboost --again    # after a change
    python -m benchmarks.frontier table                        # writes frontier.md and pictures

The real tables are read from FAIRBOOST_DATA or ../shared/data and left out where they are missing.
``frontier_page.py`` makes the page.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from benchmarks import holds_cases
from benchmarks.frontier_page import Key, Results, draw, page
from benchmarks.holds_cases import RATES
from fairboost.datasets import available
from fairboost.study import METHODS, Rows, Task, linear_post
from fairboost.study.config import MetricsConfig
from fairboost.study.measures import measure
from fairboost.study.task import as_predictor

HERE = Path(__file__).resolve().parent
CONSTRAINTS = ("equal_opportunity", "demographic_parity", "equalized_odds")
FEATURES = ("blind", "aware")
FIVE = (0.002, 0.01, 0.03, 0.06, 0.1)
TOLERANCES: dict[str, tuple[float, ...]] = {
    "plain": (1.0,),
    "fairboost": (0.002, 0.01, 0.03, 0.07, 0.14),  # gaps stay below tolerances
    "linear": FIVE,
    "linear_aware": FIVE,
    "OxonFair": (0.01, 0.03, 0.06),
    "EG": (0.01, 0.05),
    "group_frontier": FIVE,
}
"""The tolerances of each method, by its name in a study."""

ONLY = {"linear": "blind", "linear_aware": "aware", "OxonFair": "blind"}
"""Methods that are run on one kind of features: with the group at hand, no one infers it."""

INFERRED_GROUPS = 6
Read = tuple[pd.DataFrame, np.ndarray, pd.Series]


@dataclass(frozen=True)
class Data:
    """Where rows come from.

    Parameters
    ----------
    title : str
        For the page.
    read : callable
        Takes the seed; returns features without the group, labels, and groups.
    train : int or float
        Training rows, or their share; all others are test rows.
    groups : int
        How many groups there are.
    table : str, optional
        The file that it needs.
    """

    title: str
    read: Callable[[int], Read]
    train: int | float
    groups: int
    table: str | None = None

    def divide(self, features: str, seed: int) -> tuple[Rows, Rows]:
        """Training and test rows; the group is a column where features are aware."""
        X, y, s = self.read(seed)
        if features == "aware":
            X = X.assign(group_=pd.Categorical(s))
        order = np.random.default_rng([seed, 1]).permutation(len(y))
        n = self.train if isinstance(self.train, int) else round(self.train * len(y))
        rows = Rows(X, y, s)
        return rows.take(order[:n]), rows.take(order[n:])


def source(name: str, column: str, *hidden: str) -> Callable[[int], Read]:
    """Rows of ``benchmarks.holds``, without the columns that are the group."""

    def read(seed: int) -> Read:
        X, y, sensitive = holds_cases.SOURCES[name].read(seed)
        return X.drop(columns=list(hidden)), y, sensitive[column].reset_index(drop=True)

    return read


def acs_income(rows: int | None) -> Callable[[int], Read]:
    """ACSIncome without the column of sexes, or so many rows of it."""

    def read(seed: int) -> Read:
        X, y, sensitive = holds_cases.acs_income(seed, rows)
        return X.drop(columns="SEX"), y, sensitive["sex"]

    return read


def twice(name: str) -> Callable[[int], Read]:
    """Generated rows, as many again to test on."""

    def read(seed: int) -> Read:
        parts = [source(name, "group")(k) for k in (seed, 1_000 + seed)]
        X, y, s = zip(*parts, strict=True)
        return pd.concat(X, ignore_index=True), np.concatenate(y), pd.concat(s, ignore_index=True)

    return read


def all_data(all_rows: bool = False) -> dict[str, Data]:
    """The data by name; ACSIncome with 60,000 training rows, or with all."""
    income = (acs_income(None), 0.8) if all_rows else (acs_income(160_000), 60_000)
    return {
        "acs_income": Data("ACSIncome 2018 by sex", *income, 2, "acs_income_2018"),
        "adult": Data("Adult by sex", source("adult", "sex", "sex"), 0.8, 2, "adult"),
        "compas": Data(
            "COMPAS by race", source("compas_blind", "race"), 0.8, 4, "compas_two_years"
        ),
        "blind75": Data("Generated, group told with AUC 0.76", twice("blind75"), 36_000, 2),
        "blind90": Data("Generated, group told with AUC 0.90", twice("blind90"), 36_000, 2),
        "groups50": Data("Generated, 50 groups", source("groups50", "group", "group"), 60_000, 50),
    }


@dataclass
class Split:
    """One division of one data set, and what its fits share."""

    data: Data
    features: str
    seed: int
    n_jobs: int
    known: dict[int, np.ndarray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Training and test rows."""
        return self.data.divide(self.features, self.seed)

    def task(self, constraint: str, tolerance: float) -> Task:
        """What a method is asked for."""
        metrics = MetricsConfig(rates=RATES[constraint], tolerance=tolerance)
        return Task(self.rows[0], metrics, seed=self.seed, n_jobs=self.n_jobs)

    @cached_property
    def joint(self) -> tuple[linear_post.Joint, Rows]:
        """p(label, group | x), which does not depend on the constraint, and the rows held out."""
        task = self.task(CONSTRAINTS[0], 1.0)
        learned, held = task.held_out()
        infer = self.features == "blind"
        fit = linear_post.inferred_joint if infer else linear_post.observed_joint
        found = fit(task, learned)

        def joint(rows: Rows) -> np.ndarray:
            if id(rows) not in self.known:
                self.known[id(rows)] = found(rows)
            return self.known[id(rows)]

        return joint, held

    def figures(self, constraint: str, method: str, tolerance: float) -> dict:
        """Accuracy and gap of a method on the test rows."""
        task, start = self.task(constraint, tolerance), time.perf_counter()
        if method.startswith("linear"):
            found = linear_post.rule_of(task, *self.joint)
        else:
            found = METHODS[method].run(task)
        seconds = time.perf_counter() - start
        test = self.rows[1]
        on = measure(task.metrics, test, as_predictor(found)(test))
        return {"accuracy": on["accuracy"], "gap": on["gap"], "seconds": seconds}


def read_results(path: Path) -> Results:
    """What is kept; of two records of the same, the later one."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return {Key(*record.pop("key")): record for record in map(json.loads, lines)}


def work(options: argparse.Namespace, done: Results) -> Iterator[tuple[Data, Key]]:
    """What is left to run; fits of one split follow each other."""
    present = available()
    for name, data in all_data(options.all_rows).items():
        if data.table not in (None, *present):
            print(f"skipped {name}: there is no table {data.table}", file=sys.stderr)
            continue
        for features, seed in product(FEATURES, range(options.seeds)):
            for constraint, method in product(CONSTRAINTS, options.methods):
                inferring = method == "OxonFair" and data.groups > INFERRED_GROUPS
                if ONLY.get(method, features) != features or inferring:
                    continue
                case = f"{name}/{features}/{constraint}"
                if not any(fnmatch.fnmatch(case, pattern) for pattern in options.case):
                    continue
                for tolerance in TOLERANCES[method]:
                    key = Key(name, features, constraint, method, tolerance, seed)
                    if options.again or key not in done:
                        yield data, key


def run(options: argparse.Namespace) -> int:
    """Run what is left; the number of fits that failed."""
    left, failed, split = list(work(options, read_results(options.results))), 0, None
    for data, key in (bar := tqdm(left, smoothing=0)):
        bar.set_description(f"{key.data}, {key.features}, {key.method}, seed {key.seed}")
        if split is None or (split.data, split.features, split.seed) != (
            data, key.features, key.seed
        ):  # fmt: skip
            split = Split(data, key.features, key.seed, options.n_jobs)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the page shows what was not met
                found = split.figures(key.constraint, key.method, key.tolerance)
        except Exception as error:  # one fit that fails must not cost the night's run
            failed += 1
            bar.write(f"FAILED {key}: {error!r}")
            continue
        with options.results.open("a") as file:
            file.write(json.dumps({"key": list(key), **found}) + "\n")
    return failed


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", type=Path, default=HERE / ".frontier.jsonl")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", parents=[shared], help="fit what is not in the results yet")
    runs.add_argument(
        "--case", nargs="+", default=["*"], help="patterns: data/features/constraint"
    )
    runs.add_argument("--methods", nargs="+", default=list(TOLERANCES), choices=list(TOLERANCES))
    runs.add_argument("--seeds", type=int, default=10)
    runs.add_argument("--n-jobs", type=int, default=1)
    runs.add_argument("--all-rows", action="store_true", help="all rows of ACSIncome")
    runs.add_argument("--again", action="store_true", help="also what is in the results")
    commands.add_parser("table", parents=[shared], help="write frontier.md and the pictures")
    return parser.parse_args()


def main() -> int:
    """Run, or write the page."""
    options = parse()
    if options.command == "run":
        return bool(run(options))
    results = read_results(options.results)
    titles = {name: data.title for name, data in all_data().items()}
    pictures = draw(results, titles, HERE.parent / "docs")
    (HERE / "frontier.md").write_text(page(results, titles, pictures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
