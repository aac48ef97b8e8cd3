"""Random default fits over every table: whether multipliers settle, and what it costs.

A case draws a table, its groups, a constraint, whether the model sees the group, an engine, 40 to
400 trees, a learning rate from 0.05 to 0.3 and 7 to 63 leaves. All methods of a case have the same
rows, up to 60,000, of which 80% are for training. Linear post-processing stands beside every fit
of LightGBM. Results are kept one JSON line per case, so that a run that was cut short goes on
where it ended.

    python -m benchmarks.settling run --cases 300             # hours, on one core
    python -m benchmarks.settling table                       # writes settling.md

The real tables are read from FAIRBOOST_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from benchmarks.frontier import Data, all_data
from benchmarks.holds_cases import RATES
from benchmarks.holds_methods import group_rates
from fairboost import FairGBMClassifier
from fairboost._text import markdown_table
from fairboost.datasets import available, load
from fairboost.engines.registry import load_engine
from fairboost.study import METHODS, Rows, Task
from fairboost.study.config import MetricsConfig
from fairboost.study.task import as_predictor

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / ".settling.jsonl", HERE / "settling.md"
MOST_ROWS = 60_000
SMALLEST = 0.01
"""Groups of a smaller share of the rows are left out."""

FIXED = 0.01
"""The tolerance beside the automatic one."""


def other_tables() -> dict[str, Data]:
    """Tables that the frontier has not."""

    def read(name: str, column: str) -> Callable[[int], tuple]:
        def rows(seed: int) -> tuple:
            table = load(name)
            s = table.sensitive[column].astype(str).reset_index(drop=True)
            return table.X.drop(columns=[column], errors="ignore"), table.y, s

        return rows

    named = {
        "bank_marital": ("bank_marketing", "marital"), "bank_age": ("bank_marketing", "age_25_60"),
        "credit_default": ("credit_default_taiwan", "SEX"),
        "account_fraud": ("baf_base_sample_test", "customer_age_category"),
    }  # fmt: skip
    return {k: Data(k, read(*at), 0.8, table=at[0]) for k, at in named.items()}


@dataclass(frozen=True)
class Case:
    """What one number stands for."""

    data: str
    features: str
    constraint: str
    engine: str
    trees: int
    rate: float
    leaves: int
    seed: int

    @classmethod
    def drawn(cls, number: int, tables: Sequence[str]) -> Case:
        """The case of a number."""
        rng = np.random.default_rng([number, 39])

        def between(low: float, high: float) -> float:
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))

        def one_of(values: Sequence[str]) -> str:
            return str(values[int(rng.integers(len(values)))])

        return cls(
            one_of(tables), one_of(("blind", "aware")), one_of(list(RATES)),
            one_of(("lightgbm", "xgboost")), round(between(40, 400)), between(0.05, 0.3),
            round(between(7, 63)), int(rng.integers(5)),
        )  # fmt: skip

    @property
    def options(self) -> dict[str, Any]:
        """Options of LightGBM."""
        return {
            "n_estimators": self.trees, "learning_rate": self.rate, "num_leaves": self.leaves
        }  # fmt: skip

    def estimator(self) -> Any:
        """The engine of the case."""
        if self.engine == "lightgbm":
            own = self.options | {"n_jobs": 1, "verbose": -1}
        else:
            own = {
                "n_estimators": self.trees, "learning_rate": self.rate, "max_leaves": self.leaves,
                "max_depth": 0, "grow_policy": "lossguide", "enable_categorical": True,
                "n_jobs": 1,
            }  # fmt: skip
        return load_engine(self.engine).make_estimator(**own)


@lru_cache(maxsize=2)
def rows_of(data: str, features: str, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows."""
    X, y, s = {**all_data(), **other_tables()}[data].read(seed)
    s = pd.Series(np.asarray(s)).astype(str)
    kept = np.flatnonzero(s.map(s.value_counts(normalize=True)).to_numpy() >= SMALLEST)
    kept = np.random.default_rng([seed, 2]).permutation(kept)[:MOST_ROWS]
    text = [c for c in X.columns if X[c].dtype.kind not in "fiub"]
    X = X.iloc[kept].reset_index(drop=True).astype(dict.fromkeys(text, "category"))
    s = s.iloc[kept].reset_index(drop=True)
    if features == "aware":
        X = X.assign(group_=pd.Categorical(s))
    rows, n = Rows(X, np.asarray(y)[kept], s), round(0.8 * len(kept))
    return rows.take(np.arange(n)), rows.take(np.arange(n, len(kept)))


def excess(rates: dict[str, list[list]], tolerances: dict[str, float]) -> float:
    """How far groups are from the pooled rate beyond half the tolerance, in standard errors."""
    squares = []
    for rate, groups in rates.items():
        value, n = np.array([g[1:] for g in groups if g[2]], dtype=float).T
        pooled = value @ n / n.sum()
        beyond = np.maximum(np.abs(value - pooled) - tolerances[rate] / 2, 0)
        squares.append(beyond**2 * n / max(pooled * (1 - pooled), 1e-9))
    return float(np.sqrt(np.concatenate(squares).mean()))


def figures(case: Case, test: Rows, positive: np.ndarray, tolerances: dict[str, float]) -> dict:
    """Accuracy, gap and excess of decisions on the test rows."""
    rates = group_rates(test.y, positive, test.s)
    kept = {rate: rates[rate] for rate in RATES[case.constraint]}
    fixed = dict.fromkeys(kept, FIXED)
    return {
        "accuracy": float((positive == (test.y == 1)).mean()), "positive": float(positive.mean()),
        "gap": max(float(np.ptp([v for _, v, n in g if n])) for g in kept.values()),
        "excess": excess(kept, fixed), "own": excess(kept, tolerances or fixed),
    }  # fmt: skip


def one_case(case: Case) -> dict:
    """All methods on a case."""
    train, test = rows_of(case.data, case.features, case.seed)
    plain = case.estimator().fit(train.X, train.y)
    found = {"plain": figures(case, test, plain.predict(test.X) == 1, {})}
    if case.engine == "lightgbm":
        metrics = MetricsConfig(rates=RATES[case.constraint], tolerance=FIXED)
        task = Task(train, metrics, case.options, seed=case.seed)
        linear = METHODS["linear" if case.features == "blind" else "linear_aware"].run(task)
        found["linear"] = figures(case, test, as_predictor(linear)(test).decision, {})
    for name, tolerance in (("automatic", None), ("fixed", FIXED)):
        model = FairGBMClassifier(
            case.estimator(), constraint=case.constraint, tolerance=tolerance,
            random_state=case.seed,
        )  # fmt: skip
        model.fit(train.X, train.y, sensitive_features={"g": train.s})
        own = {key.partition("[")[0]: value for key, value in model.tolerances_.items()}
        found[name] = figures(case, test, model.predict(test.X) == 1, own)
        report = model.fairness_report_
        found[name] |= {
            "kept": model.best_iteration_, "unsettled": "did not settle" in str(report),
            "held": [v.value for v in report.verdicts],
            "limits": [v.limit for v in report.verdicts],
        }  # fmt: skip
    return found


def run(cases: int, first: int, path: Path) -> None:
    """Run what is left."""
    known = {**all_data(), **other_tables()}
    tables = sorted(k for k, d in known.items() if d.table in (None, *available()))
    done = {json.loads(line)["number"] for line in path.open()} if path.is_file() else set()
    for number in tqdm([k for k in range(first, first + cases) if k not in done]):
        case = Case.drawn(number, tables)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = one_case(case)
        with path.open("a") as file:
            file.write(json.dumps({"number": number, **vars(case), "found": found}) + "\n")


def line_of(name: str, found: list[dict]) -> list[str]:
    """A line of the table."""
    at = {key: np.array([f[key] for f in found]) for key in ("gap", "excess", "own", "accuracy")}
    shares = [f"{(at['own'] > most).mean():.1%}" for most in (1.5, 2.0)]
    return [
        name, str(len(found)), f"{at['accuracy'].mean():.4f}", f"{at['gap'].mean():.4f}",
        f"{np.sqrt((at['own'] ** 2).mean()):.2f}", f"{at['own'].max():.2f}", *shares,
        f"{np.sqrt((at['excess'] ** 2).mean()):.2f}",
    ]  # fmt: skip


COLUMNS = [
    "method", "fits", "accuracy", "gap", "excess", "largest", "above 1.5", "above 2",
    "excess over 0.01",
]  # fmt: skip


def page(path: Path) -> str:
    """The page, from what was found."""
    found = [json.loads(line) for line in path.open()]
    both = [f for f in found if "linear" in f["found"]]
    parts = [HEAD.format(n=len(found))]
    for title, cases, methods in (
        ("All fits", found, ("plain", "automatic", "fixed")),
        ("Fits of LightGBM, beside linear post-processing", both,
         ("plain", "linear", "automatic", "fixed")),
    ):  # fmt: skip
        lines = [line_of(m, [f["found"][m] for f in cases]) for m in methods]
        parts.append(f"\n## {title}\n\n{markdown_table(COLUMNS, lines)}")
    lines = [
        line_of(f"{key} {value}", [f["found"]["automatic"] for f in found if f[key] == value])
        for key in ("engine", "features", "constraint")
        for value in sorted({f[key] for f in found})
    ]
    parts.append(f"\n## Automatic tolerance, by case\n\n{markdown_table(COLUMNS, lines)}")
    ours, theirs = ([f["found"][m]["accuracy"] for f in both] for m in ("automatic", "linear"))
    leads = np.array(ours) - np.array(theirs)
    error = leads.std(ddof=1) / np.sqrt(len(leads))
    parts.append(
        f"\nAccuracy of the automatic tolerance less that of linear post-processing: "
        f"{leads.mean():+.4f} ± {error:.4f} (standard error); "
        f"{(leads < -0.003).sum()} of {len(leads)} fits are behind by more than 0.003."
    )
    for key in ("accuracy", "gap"):
        more = np.array([f["found"]["automatic"][key] - f["found"]["fixed"][key] for f in found])
        parts.append(
            f"\nThe {key} of the automatic tolerance less that at 0.01: {more.mean():+.4f} ± "
            f"{more.std(ddof=1) / np.sqrt(len(more)):.4f} (standard error)."
        )
    automatic = [f["found"]["automatic"] for f in found]
    held = [
        value / limit
        for f, ours in zip(found, automatic, strict=True)
        for value, limit in zip(ours["held"], ours["limits"], strict=True)
        if limit and f["found"]["plain"]["own"] > 1
    ]
    unsettled = sum(f["unsettled"] for f in automatic)
    rounds = np.array(
        [f["kept"] / case["trees"] for f, case in zip(automatic, found, strict=True)]
    )
    few = sum(
        f["positive"] < 0.5 * case["found"]["plain"]["positive"]
        for f, case in zip(automatic, found, strict=True)
    )
    parts.append(
        f"\nOn held-out rows gaps are {np.median(held):.2f} of the tolerance in the median, where "
        f"the plain model's excess is above 1. {unsettled} of {len(found)} reports say that "
        "training did not settle."
    )
    parts.append(
        f"\nThe round that is kept is the last of all in {(rounds == 1).mean():.0%} of the fits, "
        f"and at {rounds.mean():.2f} of the rounds in the mean; {few} of {len(found)} models "
        "decide positively about less than half as many rows as the plain model.\n"
    )
    return "\n".join(parts)


HEAD = """# Do multipliers settle?

Made by `python -m benchmarks.settling`. {n} random default fits: table, groups, constraint, blind
or aware, engine, trees, learning rate and leaves are drawn. All figures are on test rows.

- **excess**: how far group rates are from the pooled rate beyond half the tolerance, in standard
  errors of the test rows, root mean square over groups and rates (and over fits, in the table).
  Groups equal in truth have an excess of 1 at most.
- **automatic**: the default, `tolerance=None`: two standard errors of a gap on the rows measured,
  at least 0.01 and at most 0.1; false positive and false negative rates share the larger one.
  **fixed**: `tolerance=0.01`. The excess of *automatic* is beyond its own tolerance; the last
  column is beyond 0.01 for all.
- **linear**: linear post-processing at a tolerance of 0.01, on the same rows with the same engine.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("run", "table"))
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.task == "run":
        run(options.cases, options.first, options.results)
    PAGE.write_text(page(options.results)) if options.task == "table" else None


if __name__ == "__main__":
    main()
