"""A fair stage on six kinds of base model, against the same constraint trained jointly.

Every seed splits the rows 60/20/20 at random. Joint training by LightGBM has the first 80% of the
rows. A base model gets a stage in two ways:

* *cross-fitted*: the base and the stage share these 80%. The base is fitted on all of them at
  prediction, and the stage is trained on its scores out of fold.
* *frozen*: the base is fitted on the first 60%, the stage on the other 20%. Joint training on
  these 20% alone shows what the number of rows costs.

The scores of base models do not depend on the stage; they are kept in files, and passed as
``base_score``. The measure is the excess of ``benchmarks.holds``, over groups and seeds. Times are
CPU times of the process on one thread: the fit of the stage alone, over a plain LightGBM fit of
100 trees on the 80%.

    python -m benchmarks.any_model scores          # of the base models, half a minute per split
    python -m benchmarks.any_model run             # ten seconds per split, with these scores
    python -m benchmarks.any_model choices --seeds 3   # other stages: what was tried
    python -m benchmarks.any_model table           # writes any_model.md
    python -m benchmarks.any_model run --quick     # small, one seed, keeps nothing
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything reads it

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from tqdm import tqdm
from xgboost import XGBClassifier

from benchmarks.holds_cases import RATES, acs_income, adult
from benchmarks.holds_methods import excess, gap, group_rates
from fairboost import FairGBMClassifier, LinearStage
from fairboost._text import markdown_table
from fairboost.data.holdout import fold_count
from fairboost.datasets import make_loans
from fairboost.model.base_model import cross_fitted
from fairboost.model.stage import STAGE

FILE = Path(__file__).resolve().with_suffix(".md")
RESULTS = FILE.with_name(".any_model.jsonl")
TRIED = FILE.with_name(".any_model_choices.jsonl")
SCORES = FILE.with_name(".any_model_scores")
SEEDS, ROWS, QUICK_ROWS = 5, 75_000, 6_000
CONSTRAINTS = ("equal_opportunity", "demographic_parity")
EXCESS, BELOW_JOINT, TIME = 1.3, 0.001, 0.2

Split = tuple[pd.DataFrame, np.ndarray, np.ndarray]


def loans(seed: int) -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    table = make_loans(ROWS, seed=seed)
    return table.X, np.asarray(table.y), table.sensitive["sex"]


def adult_aware(seed: int) -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    X, y, sensitive = adult(seed)
    return X, y, sensitive["sex"]


def acs_blind(seed: int) -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    X, y, sensitive = acs_income(seed, ROWS)
    return X.drop(columns="SEX"), y, sensitive["sex"]


SOURCES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "adult": ("Adult, 39,073 training rows, sex among the features", adult_aware),
    "acs_income": ("ACSIncome 2018, 60,000 training rows, sex not among the features", acs_blind),
    "loans": ("`make_loans`, 60,000 training rows, sex not among the features", loans),
}


def coded(model: Any) -> Pipeline:
    """Categories as numbers."""
    categories = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    return make_pipeline(_columns(categories, SimpleImputer(strategy="median")), model)


def encoded(model: Any) -> Pipeline:
    """A column for each category that is not rare, and numbers in units of their spread."""
    categories = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=50)
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return make_pipeline(_columns(categories, numbers), model)


def _columns(categories: Any, numbers: Any) -> Any:
    return make_column_transformer(
        (categories, make_column_selector(dtype_include="category")),
        (numbers, make_column_selector(dtype_exclude="category")),
    )


BASES: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: coded(
        RandomForestClassifier(60, min_samples_leaf=5, random_state=seed, n_jobs=1)
    ),
    "HistGradientBoosting": lambda seed: coded(HistGradientBoostingClassifier(random_state=seed)),
    "logistic regression": lambda seed: encoded(LogisticRegression(max_iter=300)),
    "network": lambda seed: encoded(
        MLPClassifier((16,), max_iter=8, random_state=seed)
    ),
    "CatBoost": lambda seed: coded(
        CatBoostClassifier(
            iterations=100, learning_rate=0.15, verbose=0, thread_count=1, random_seed=seed,
            allow_writing_files=False,
        )
    ),
    "XGBoost": lambda seed: XGBClassifier(
        enable_categorical=True, n_jobs=1, random_state=seed, learning_rate=0.1
    ),
}  # fmt: skip


def engine(seed: int) -> LGBMClassifier:
    return LGBMClassifier(verbose=-1, n_jobs=1, random_state=seed)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its CPU time."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def fair(constraint: str, seed: int, estimator: Any = None, **options: Any) -> FairGBMClassifier:
    return FairGBMClassifier(estimator, constraint=constraint, random_state=seed, **options)


@dataclass(frozen=True)
class Kind:
    """A kind of stage.

    Parameters
    ----------
    stage : callable
        Makes the stage.
    options : dict
        Further options of ``FairGBMClassifier``.
    usual_folds, usual_memberships : bool
        Cut rows into folds, and decide on memberships, as in training from scratch.
    """

    stage: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    usual_folds: bool = False
    usual_memberships: bool = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have the program decide as the kind says."""
        with ExitStack() as stack:
            if self.usual_folds:
                folds = partial(_usual_folds, fold_count)
                stack.enter_context(patch("fairboost.data.holdout.fold_count", folds))
            if self.usual_memberships:
                stack.enter_context(patch("fairboost.model.stage.FEW_TREES", 0))
            yield


def _usual_folds(count: Callable[..., int], n: int, need: str = "usual") -> int:
    return count(n, "usual" if need == "stage" else need)


def small_trees(**options: Any) -> Callable[[], LGBMClassifier]:
    # On one thread: idle ones would count as CPU time.
    return lambda: LGBMClassifier(**{**STAGE, **options}, n_jobs=1)


STAGES = {"trees": Kind(small_trees()), "linear": Kind(lambda: LinearStage(n_jobs=1))}
"""The default stage, and the linear one."""

FINE = {"max_bin": 255, "subsample_for_bin": 200_000, "enable_bundle": True}
FORTY = {"n_estimators": 40, "learning_rate": 0.2}
SLOW = {"multiplier_learning_rate": 1.0}
CHOICES = {
    "40 trees at 0.2, memberships learned where it pays, fine bins, usual folds": Kind(
        small_trees(**FORTY, **FINE), SLOW, usual_folds=True, usual_memberships=True
    ),
    "the same by observed groups": Kind(small_trees(**FORTY, **FINE), SLOW, usual_folds=True),
    "and in coarse bins": Kind(small_trees(**FORTY), SLOW, usual_folds=True),
    "and in two folds": Kind(small_trees(**FORTY), SLOW),
    "30 trees at 0.2, gain 4/3": Kind(small_trees(n_estimators=30, learning_rate=0.2)),
    "20 trees at 0.3, gain 2 (the default)": Kind(small_trees()),
    "20 trees at 0.3, gain 1": Kind(small_trees(), SLOW),
    "20 trees at 0.3, gain 2, a share held out": Kind(small_trees(), {"holdout": 0.2}),
}
"""What was tried, one change after the other."""
TRIED_ON = ("forest", "logistic regression", "CatBoost")


@dataclass(frozen=True)
class Rows:
    """The rows of one split: all of them in a drawn order, and where the parts end."""

    X: pd.DataFrame
    y: np.ndarray
    s: pd.Series
    order: np.ndarray

    @property
    def cuts(self) -> tuple[int, int]:
        """Where the first 60% of the rows end, and the first 80%."""
        return int(0.6 * len(self.order)), int(0.8 * len(self.order))

    def part(self, rows: slice) -> Split:
        """Some of the rows, by their places in the order."""
        which = self.order[rows]
        return (
            self.X.iloc[which].reset_index(drop=True),
            self.y[which],
            self.s.iloc[which].to_numpy(),
        )


def read_rows(source: str, seed: int, n: int | None) -> Rows:
    X, y, s = SOURCES[source][1](seed)
    return Rows(X, y, s, np.random.default_rng([seed, 1]).permutation(len(y))[:n])


def base_scores(source: str, seed: int, n: int | None, folder: Path) -> dict[str, np.ndarray]:
    """Probabilities by all base models: cross-fitted and frozen, of their stage and test rows.

    They do not depend on the stage, and are kept in a file.
    """
    path = folder / f"{source}_{seed}_{n or 'all'}.npz"
    if path.is_file():
        with np.load(path) as kept:
            return dict(kept)
    rows = read_rows(source, seed, n)
    first, second = rows.cuts
    train, validation, both, test = map(
        rows.part, (slice(first), slice(first, second), slice(second), slice(second, None))
    )
    found = {}
    for name, make in BASES.items():
        whole, scores = cross_fitted(make(seed), *both[:2], None, np.array([0, 1]), seed)
        frozen = make(seed).fit(*train[:2])
        found[f"{name} cross-fitted"] = scores
        found[f"{name} cross-fitted test"] = whole.values(test[0])
        found[f"{name} frozen"] = frozen.predict_proba(validation[0])[:, 1]
        found[f"{name} frozen test"] = frozen.predict_proba(test[0])[:, 1]
    folder.mkdir(exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **found)
    part.rename(path)
    return found


def run_split(
    source: str, seed: int, keep: Callable[[dict], None], options: argparse.Namespace
) -> None:
    """All that is measured on one split."""
    n = QUICK_ROWS if options.quick else None
    trying = options.command == "choices"
    kinds, bases = (CHOICES, TRIED_ON) if trying else (STAGES, BASES)
    scores = base_scores(source, seed, n, options.scores)
    rows = read_rows(source, seed, n)
    first, second = rows.cuts
    parts = {"cross-fitted": rows.part(slice(second)), "frozen": rows.part(slice(first, second))}
    both, test = parts["cross-fitted"], rows.part(slice(second, None))
    plain = min(timed(lambda: engine(seed).fit(*both[:2]))[1] for _ in range(3))

    def record(method: str, base: str, constraint: str, decided: np.ndarray, cpu: float) -> None:
        keep({
            "source": source, "seed": seed, "method": method, "base": base,
            "constraint": constraint, "accuracy": float((decided == test[1]).mean()),
            "rates": group_rates(test[1], decided, pd.Series(test[2])), "time": cpu / plain,
        })  # fmt: skip

    for constraint in CONSTRAINTS:
        for method, (X, y, s) in {"joint": both, "joint on few": parts["frozen"]}.items():
            model = fair(constraint, seed, engine(seed))
            _, cpu = timed(partial(model.fit, X, y, sensitive_features=s))
            record(method, "", constraint, model.predict(test[0]), cpu)
    for name, (way, (X, y, s)), constraint in product(bases, parts.items(), CONSTRAINTS):
        given, on_test = scores[f"{name} {way}"], scores[f"{name} {way} test"]
        record(f"base {way}", name, constraint, (on_test >= 0.5).astype(int), 0.0)
        for kind, how in kinds.items():
            model = fair(constraint, seed, stage=how.stage(), **how.options)
            asked = {"sensitive_features": s, "base_score": given}
            with how.at_work():
                _, cpu = timed(partial(model.fit, X, y, **asked))
            decided = model.predict(test[0], base_score=on_test)
            record(f"{way} {kind}", name, constraint, decided, cpu)


def run(options: argparse.Namespace) -> None:
    done = {(r["source"], r["seed"]) for r in read(options.results)}
    work = [(s, k) for k in range(options.seeds) for s in options.sources if (s, k) not in done]
    for source, seed in tqdm(work):
        found: list[dict] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows what was not met
            run_split(source, seed, found.append, options)
        with options.results.open("a") as file:  # a split as a whole or not at all
            file.writelines(json.dumps(record) + "\n" for record in found)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table_of(records: list[dict], source: str, way: str) -> tuple[str, dict[str, list[dict]]]:
    """A table of one source and one way to add a stage, and its figures by kind of stage."""
    lines: list[list[str]] = []
    figures: dict[str, list[dict]] = {kind: [] for kind in STAGES}
    for constraint in CONSTRAINTS:
        asked = [r for r in records if (r["source"], r["constraint"]) == (source, constraint)]
        joint, few = (
            {r["seed"]: r for r in asked if r["method"] == method}
            for method in ("joint", "joint on few")
        )
        rates = RATES[constraint]
        rest = [""] * (4 if way == "frozen" else 3)
        first = [constraint, "trained jointly", ""]
        lines.append([*first, *_figures(list(joint.values()), rates), *rest])
        for base, kind in product(BASES, STAGES):
            chosen = [r for r in asked if r["method"] == f"{way} {kind}" and r["base"] == base]
            before = [r for r in asked if r["method"] == f"base {way}" and r["base"] == base]
            if not chosen:
                continue
            below = np.array([joint[r["seed"]]["accuracy"] - r["accuracy"] for r in chosen])
            rest, own = [_mean(below)], {}
            if way == "frozen":
                fewer = [few[r["seed"]]["accuracy"] - r["accuracy"] for r in chosen]
                rest.append(_mean(fewer))
                own["below few"] = float(np.mean(fewer))
            ratio = float(np.median([r["time"] for r in chosen]))
            base_accuracy = np.mean([r["accuracy"] for r in before])
            rest += [f"{ratio:.2f}", f"{base_accuracy:.4f}"]
            lines.append([constraint, base, kind, *_figures(chosen, rates), *rest])
            figures[kind].append({
                "excess": excess(chosen, rates), "below": float(below.mean()), "time": ratio,
                **own,
            })  # fmt: skip
    titles = [
        "constraint", "base model", "stage", "accuracy", "gap", "excess",
        "accuracy of joint less its own", "time of the stage", "accuracy of the base alone",
    ]  # fmt: skip
    if way == "frozen":
        titles.insert(7, "joint on the rows of the stage alone, less its own")
    return markdown_table(titles, lines), figures


def _mean(values: Any) -> str:
    """A mean over splits, with its standard error where there are several."""
    found = np.asarray(values)
    error = f" ± {found.std(ddof=1) / np.sqrt(len(found)):.4f}" if len(found) > 1 else ""
    return f"{found.mean():+.4f}{error}"


def choices_table(records: list[dict]) -> str:
    """A line for each thing tried and each way to add a stage: means over all cases."""
    joint = {
        (r["source"], r["seed"], r["constraint"]): r["accuracy"]
        for r in records
        if r["method"] == "joint"
    }
    lines = []
    for way, kind in product(WAYS, CHOICES):
        chosen = [r for r in records if r["method"] == f"{way} {kind}"]
        cases = [
            [r for r in chosen if (r["source"], r["constraint"], r["base"]) == case]
            for case in product(SOURCES, CONSTRAINTS, TRIED_ON)
        ]
        found = [excess(c, RATES[c[0]["constraint"]]) for c in cases if c]
        below = [joint[r["source"], r["seed"], r["constraint"]] - r["accuracy"] for r in chosen]
        gaps = np.mean([gap(r, RATES[r["constraint"]]) for r in chosen])
        held = sum(e <= EXCESS for e in found)
        lines.append([
            way, kind, f"{np.mean(below):+.4f}", f"{gaps:.4f}", f"{np.mean(found):.2f}",
            f"{held} of {len(found)}", f"{np.median([r['time'] for r in chosen]):.2f}",
        ])  # fmt: skip
    titles = (
        "base", "stage", "accuracy of joint less its own", "gap", "excess",
        f"excess at most {EXCESS}", "time",
    )  # fmt: skip
    return markdown_table(titles, lines)


def _figures(records: list[dict], rates: tuple[str, ...]) -> list[str]:
    accuracy = np.mean([r["accuracy"] for r in records])
    gaps = np.mean([gap(r, rates) for r in records])
    return [f"{accuracy:.4f}", f"{gaps:.4f}", f"{excess(records, rates):.2f}"]


def reached(kind: str, figures: list[dict]) -> list[str]:
    """How many cases of a kind of stage reach each goal."""
    n = len(figures)
    goals = {
        f"excess at most {EXCESS}": ("excess", EXCESS),
        f"accuracy at most {BELOW_JOINT} below that of joint training": ("below", BELOW_JOINT),
        f"accuracy at most {BELOW_JOINT} below that of joint training on the rows of the stage": (
            "below few", BELOW_JOINT,
        ),
        f"stage at most {TIME:.0%} of a LightGBM fit of 100 trees": ("time", TIME),
    }  # fmt: skip
    lines = []
    for words, (name, limit) in goals.items():
        values = [f[name] for f in figures if name in f]
        if not values:
            continue
        held = sum(v <= limit for v in values)
        spread = f"mean {np.mean(values):.4f}, largest {max(values):.4f}"
        lines.append(f"- {kind}, {words}: {held} of {n} cases ({spread}).")
    return lines


WAYS = {
    "cross-fitted": "Base and stage share 80% of the rows (the base is cross-fitted)",
    "frozen": "Frozen base of 60% of the rows, stage on another 20%",
}


def report(records: list[dict], tried: list[dict], remarks: str) -> str:
    seeds = len({r["seed"] for r in records})
    parts = [
        "# A fair stage on any model",
        f"Made by `python -m benchmarks.any_model`, {seeds} random split{'s' * (seeds > 1)}, on "
        "one thread. "
        "Constraints have their default tolerance of 0.01. Excess: how far rates are from the "
        "pooled rate beyond the tolerance, in standard errors of the test rows, as a root mean "
        "square; a model whose rates are equal in truth has 1 at most. Time: CPU time of the fit "
        "of the stage over that of a plain LightGBM fit of 100 trees on the same 80% of the "
        "rows; the base model is not in it, since its scores are given. Stage: 20 small trees, "
        "the default, or a `LinearStage`. Means over splits; ± is the standard error over splits.",
    ]
    for way, words in WAYS.items():
        tables: list[str] = []
        figures: dict[str, list[dict]] = {kind: [] for kind in STAGES}
        for source, (title, _) in SOURCES.items():
            if any(r["source"] == source for r in records):
                table, found = table_of(records, source, way)
                tables += [f"### {title}", table]
                for kind in STAGES:
                    figures[kind] += found[kind]
        goals = [line for kind in STAGES for line in reached(kind, figures[kind])]
        parts += [f"## {words}", "\n".join(goals), *tables]
    if tried:
        n = len({r["seed"] for r in tried})
        parts += [
            "## What was tried",
            f"Means over {n} random splits, the three tables, both constraints and three base "
            f"models ({', '.join(TRIED_ON)}); times are medians.",
            choices_table(tried),
        ]
    return "\n\n".join([*parts, remarks]) + "\n"


REMARKS = """## What was found

Read single figures with their sampling errors. On the test rows of ACSIncome the standard error
of a gap of false negative rates is 0.013. An earlier version of this page had one split, on which
13 of 36 cases missed the goal for the excess; over five splits none of these cases does. The
options of stages were chosen on the first three splits. On the other two, 34 of 36 cases of trees
and 35 of linear stages reach the goal for the excess where base and stage share their rows, and
34 of either on frozen bases; trees are 0.0004 less accurate than joint training there, and 0.0003
more accurate on the first three.

- *Excess.* Where base and stage share their rows the goal is reached in all cases, by trees and
  by linear stages. On frozen bases one case of trees misses it (CatBoost on Adult, demographic
  parity) and two of linear stages (HistGradientBoosting and CatBoost on ACSIncome, equal
  opportunity).
- *Accuracy.* A stage of trees that shares its rows with the base model is level with joint
  training on average. It misses the goal in ten cases, by 0.0019 at most. A frozen model of 60%
  of the rows with a stage on 20% is 0.003 behind joint training on all of these rows, and 0.003
  ahead of joint training on the rows of the stage alone: what costs is the number of rows.
- *Linear stages* are within 0.003 of trees on boosted base models, on average. They leave a weak
  base model as weak as it is: logistic regression on Adult stays 0.02 behind, and trees make up
  for most of it. A base model that is noisy stays noisy under any stage: a stage adds to the base
  model, and cannot take its noise away.
- *Time.* On 15,000 rows a stage takes 0.21 of a plain fit on 60,000, and 14 of 36 cases of trees
  reach the goal. Times that are so close to the goal differ by 5% from run to run. On 60,000 rows
  no case reaches the goal. Binning the rows again is 0.12 of a plain fit there, 20 small trees are
  0.12, and reading and checking are the rest. Where few rows of a group count, as under equal
  opportunity, rates are read out of fold, and trees count twice.

The first line of the last table is how stages were trained before. Learned memberships cost more
than all the rest, and neither gaps nor accuracy on new rows were better for them. Two folds do
where three to five did. Twenty trees need a higher gain of multipliers: with a gain of 1 gaps
remain. A share in place of cross-fitting costs little on 60,000 rows, and much on 15,000."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["scores", "run", "choices", "table"])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tried", type=Path, default=TRIED)
    parser.add_argument("--scores", type=Path, default=SCORES)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--sources", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--quick", action="store_true", help="small, one seed, keeps nothing")
    options = parser.parse_args()
    if options.command == "table":
        FILE.write_text(report(read(options.results), read(options.tried), REMARKS))
    elif options.command == "scores":
        for seed, source in tqdm(list(product(range(options.seeds), options.sources))):
            base_scores(source, seed, None, options.scores)
    elif options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.results, options.seeds = Path(folder, "results.jsonl"), 1
            options.scores = Path(folder, "scores")
            run(options)
            print(report(read(options.results), [], REMARKS))
    else:
        if options.command == "choices":
            options.results = options.tried
        run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
