"""Accuracy and gap on test rows, along the whole trade-off, against the strongest peers.

Every seed divides the rows anew. All methods get the same training rows, are those of
``fairboost.study`` (LightGBM at its defaults, 100 trees), and are judged on the same test rows.
Results are kept one JSON line per fit, so that a run that was cut short goes on where it ended,
and several runs can share the work by ``--case`` or ``--methods``. All cases get their first seed
before any case gets its second.

    python -m benchmarks.frontier run                          # hours, on one core
    python -m benchmarks.frontier run --case "adult/blind/*" --seeds 3
    python -m benchmarks.frontier run --methods fairboost --again    # after a change
    python -m benchmarks.frontier table                        # writes frontier.md and pictures

The real tables are read from FAIRBOOST_DATA or ../shared/data and left out where they are missing.
``frontier_leads.py`` has the statistics, ``frontier_page.py`` makes the page,
``frontier_pictures.py`` the pictures.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from tqdm import tqdm

from benchmarks import holds_cases
from benchmarks.frontier_leads import Key, Results
from benchmarks.frontier_page import About, page
from benchmarks.frontier_pictures import draw, draw_leads
from benchmarks.holds_cases import RATES
from fairboost.datasets import available, make_loans
from fairboost.study import METHODS, Rows, Task
from fairboost.study.config import MetricsConfig
from fairboost.study.measures import measure
from fairboost.study.task import as_predictor

HERE = Path(__file__).resolve().parent
CONSTRAINTS = ("equal_opportunity", "demographic_parity", "equalized_odds", "predictive_equality")
FEATURES = ("blind", "aware")
FIVE = (0.002, 0.01, 0.03, 0.06, 0.1)
TOLERANCES: dict[str, tuple[float, ...]] = {
    "plain": (1.0,),
    "fairboost": (0.002, 0.01, 0.03, 0.07, 0.14),  # gaps stay below tolerances
    "cross": (0.002, 0.03, 0.07, 0.14),  # fairboost with holdout="cross"
    "linear": FIVE,
    "linear_aware": FIVE,
    "OxonFair": (0.01, 0.03, 0.06),
    "M2FGB": (0.01, 0.03, 0.1, 0.3, 0.6),  # weights of the worst group: it has no tolerance
    "EG": (0.01, 0.05),
    "group_frontier": FIVE,
}
"""The tolerances of each method, by its name in a study."""

ONLY = {"linear": "blind", "linear_aware": "aware", "OxonFair": "blind"}
"""Methods that are run on one kind of features: with the group at hand, no one infers it."""

SHARING = ("plain", "linear", "linear_aware", "OxonFair", "group_frontier")
"""Methods whose fits do not depend on constraint and tolerance."""

INFERRED_GROUPS = 6
TRAIN, SAMPLE = 60_000, 160_000  # rows of the larger tables
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
    rows : int, optional
        Rows of the file, where a seed draws only some of them.
    """

    title: str
    read: Callable[[int], Read]
    train: int | float
    groups: int = 2
    table: str | None = None
    rows: int | None = None

    @property
    def overlap(self) -> float:
        """Share of the test rows of one seed that another has too, in the mean."""
        if self.table is None:
            return 0.0
        return 1 - self.train if self.rows is None else (SAMPLE - self.train) / self.rows

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


def sampled(name: str, column: str, *hidden: str) -> Callable[[int], Read]:
    """Rows of a large table, drawn by the seed."""

    def read(seed: int) -> Read:
        if name == "acs_income_2018":
            X, y, sensitive = holds_cases.acs_income(seed, SAMPLE)
        else:
            X, y, sensitive = holds_cases.acs(name, SAMPLE)(seed)
        return X.drop(columns=list(hidden)), y, sensitive[column]

    return read


def loans(seed: int) -> Read:
    """Loan applications of 60,000 people, by sex."""
    made = make_loans(60_000, seed=seed)
    return made.X, made.y, made.sensitive["sex"]


def twice(name: str) -> Callable[[int], Read]:
    """Generated rows, as many again to test on."""

    def read(seed: int) -> Read:
        parts = [source(name, "group")(k) for k in (seed, 1_000 + seed)]
        X, y, s = zip(*parts, strict=True)
        return pd.concat(X, ignore_index=True), np.concatenate(y), pd.concat(s, ignore_index=True)

    return read


def all_data() -> dict[str, Data]:
    """The data by name."""
    acs = {
        "acs_public_coverage": ("ACSPublicCoverage", "acs_public_coverage_2018", 455_316),
        "acs_mobility": ("ACSMobility", "acs_mobility_2018", 248_375),
        "acs_employment": ("ACSEmployment", "acs_employment_2024", 2_736_891),
        "acs_travel_time": ("ACSTravelTime", "acs_travel_time_2024", 1_243_954),
    }
    income, people = "acs_income_2018", 765_670
    return {
        "acs_income": Data(
            "ACSIncome 2018 by sex", sampled(income, "sex", "SEX"), TRAIN, 2, income, people
        ),
        "adult": Data("Adult by sex", source("adult", "sex", "sex"), 0.8, 2, "adult"),
        "compas": Data(
            "COMPAS by race", source("compas_blind", "race"), 0.8, 4, "compas_two_years"
        ),
        "blind75": Data("Generated, group told with AUC 0.76", twice("blind75"), 36_000),
        "blind90": Data("Generated, group told with AUC 0.90", twice("blind90"), 36_000),
        "loans": Data("Generated loans by sex", loans, 20_000),
        "acs_income_race": Data(
            "ACSIncome 2018 by race", sampled(income, "race", "RAC1P"), TRAIN, 6, income, people
        ),
        "adult_race": Data("Adult by race", source("adult", "race", "race"), 0.8, 5, "adult"),
        **{
            name: Data(
                f"{title} {table[-4:]} by sex", sampled(table, "sex", "SEX"), TRAIN, 2, table, rows
            )
            for name, (title, table, rows) in acs.items()
        },
        "groups50": Data("Generated, 50 groups", source("groups50", "group", "group"), 60_000, 50),
    }


class Remembered(lgb.LGBMClassifier):
    """LightGBM that fits and predicts once, as long as rows and labels are the same.

    ``known`` holds what was found with the seconds that it took, ``saved`` the seconds that were
    not spent again.
    """

    known: dict
    saved: list[float]

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> lgb.LGBMClassifier:
        """Fit, or return what was fitted to the same."""
        key = ("fit", *marks(X), np.asarray(y).tobytes())
        return self._once(key, lambda: super(Remembered, self).fit(X, y))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Predict, or return what was predicted."""
        key = ("predict", id(self), *marks(X))
        return self._once(key, lambda: super(Remembered, self).predict_proba(X))

    def _once(self, key: tuple, compute: Callable[[], Any]) -> Any:
        if key in self.known:
            found, seconds = self.known[key]
            self.saved.append(seconds)
            return found
        start = time.process_time()
        found = compute()
        self.known[key] = found, time.process_time() - start
        return found


def marks(X: pd.DataFrame) -> tuple:
    """Columns, length and the first rows: they differ between the parts of one split."""
    return (*X.columns, len(X), pd.util.hash_pandas_object(X.head(100)).to_numpy().tobytes())


@dataclass(frozen=True)
class SharingTask(Task):
    """A task whose engine remembers fits."""

    known: dict = field(default_factory=dict)
    saved: list[float] = field(default_factory=list)

    def engine(self) -> Remembered:
        """An engine that may know the answer."""
        engine = Remembered(**super().engine().get_params())
        engine.known, engine.saved = self.known, self.saved
        return engine


@dataclass
class Split:
    """One division of one data set, and what its fits share."""

    data: Data
    features: str
    seed: int
    n_jobs: int
    known: dict = field(default_factory=dict)

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Training and test rows."""
        return self.data.divide(self.features, self.seed)

    def figures(self, constraint: str, method: str, tolerance: float) -> dict:
        """Accuracy, gap and group rates of a method on the test rows, and its CPU time alone."""
        metrics = MetricsConfig(rates=RATES[constraint], tolerance=tolerance)
        task = Task(self.rows[0], metrics, seed=self.seed, n_jobs=self.n_jobs)
        saved: list[float] = []
        if method in SHARING:
            task = SharingTask(**vars(task), known=self.known, saved=saved)
        if method == "M2FGB":
            task = replace(task, options={"fair_weight": tolerance})
        if method == "cross":
            task = replace(task, options={"holdout": "cross"})
        start = time.process_time()
        found = METHODS["fairboost" if method == "cross" else method].run(task)
        seconds = time.process_time() - start + sum(saved)
        test = self.rows[1]
        on = measure(metrics, test, as_predictor(found)(test))
        rates = {
            name: [[value, n] for _, value, n in groups] for name, groups in on["rates"].items()
        }
        kept = {"accuracy": on["accuracy"], "gap": on["gap"], "rates": rates}
        return {**kept, "seconds": round(seconds, 3)}


def read_results(path: Path) -> Results:
    """What is kept; of two records of the same, the later one."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return {Key(*record.pop("key")): record for record in map(json.loads, lines)}


def work(options: argparse.Namespace, done: Results) -> Iterator[tuple[Data, Key]]:
    """What is left to run; fits of one split follow each other."""
    present, everything = available(), all_data()
    for name in [name for name, data in everything.items() if data.table not in (None, *present)]:
        print(f"skipped {name}: there is no table {everything.pop(name).table}", file=sys.stderr)
    for seed, (name, data), features in product(
        range(options.seeds), everything.items(), FEATURES
    ):
        for constraint, method in product(CONSTRAINTS, options.methods):
            if ONLY.get(method, features) != features or not possible(method, constraint, data):
                continue
            case = f"{name}/{features}/{constraint}"
            if not any(fnmatch.fnmatch(case, pattern) for pattern in options.case):
                continue
            for tolerance in TOLERANCES[method]:
                key = Key(name, features, constraint, method, tolerance, seed)
                if options.again or key not in done:
                    yield data, key


def possible(method: str, constraint: str, data: Data) -> bool:
    """Whether a method is for such a case."""
    if method == "OxonFair":
        return data.groups <= INFERRED_GROUPS
    return method != "M2FGB" or constraint != "equalized_odds"


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
    runs.add_argument("--again", action="store_true", help="also what is in the results")
    commands.add_parser("table", parents=[shared], help="write frontier.md and the pictures")
    return parser.parse_args()


def main() -> int:
    """Run, or write the page."""
    options = parse()
    if options.command == "run":
        return bool(run(options))
    results = read_results(options.results)
    about = {name: About(data.title, data.overlap) for name, data in all_data().items()}
    pictures = draw(results, about, HERE.parent / "docs")
    draw_leads(results, about, HERE.parent / "docs" / "frontier.png")
    (HERE / "frontier.md").write_text(page(results, about, pictures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
