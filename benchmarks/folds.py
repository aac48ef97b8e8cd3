"""What folds, turns, and rates of the booster that is kept do to a model, on a known law.

The law is that of benchmarks/verdicts.py: equal opportunity between two groups, here with a
tolerance of .01 and 100 trees. Each fit draws its own rows and is judged on 200,000 new ones.

    python -m benchmarks.folds --seeds 50 --processes 2     # 15 minutes; writes folds.md
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from lightgbm import LGBMClassifier
from tqdm import tqdm
from xgboost import XGBClassifier

from benchmarks.verdicts import GROUPS, draw
from fairboost import FairGBMClassifier, at_fpr
from fairboost._text import markdown_table
from fairboost.algorithm.game import Session
from fairboost.data.holdout import fold_count
from fairboost.datasets import Loans, make_loans
from fairboost.exceptions import FairnessWarning

TOLERANCE, TREES, ROWS = 0.01, 100, (4_000, 20_000)
WAYS = [*((folds, 2, True) for folds in (5, 3, 2)), (None, 1, True), (None, 2, False)]
HEAD = f"""# Folds, turns and rates in cross-fitting

Made by `python -m benchmarks.folds`. The distribution of verdicts.md, equal opportunity, {TREES}
trees of LightGBM, a tolerance of {TOLERANCE}; figures are on 200,000 new rows, over {{seeds}}
draws of the rows each, with standard errors. A fit has {fold_count(4_000)} folds of 4,000 rows
and {fold_count(20_000)} of 20,000 by default. Boosters that leave out a fold take turns: in a
round half of them grow a tree, with twice the learning rate (`round`). `rates of`: the booster
that is kept, as by default, or those that leave out a fold. In each group of five lines, the last
two are the default without turns, and with rates out of fold. `off`: root mean square of the
difference of the true gap, with its sign, and the reported one. `in intervals`: the share of
reported rates whose 95% interval contains the true rate.

"""


@cache
def new_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return draw(200_000, 10**9)


def one_fit(case: tuple[int, bool, int | None, int, bool, int]) -> tuple[float, ...]:
    """Gap, its error and accuracy on new rows, and the share of rates in their intervals."""
    rows, aware, folds, turns, corrects, seed = case
    X, y, s = draw(rows, seed)
    features = slice(None) if aware else slice(0, -1)
    model = FairGBMClassifier(
        LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1), holdout="cross",
        constraint="equal_opportunity", tolerance=TOLERANCE, random_state=seed,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", FairnessWarning)
        if folds is not None:
            stack.enter_context(
                patch("fairboost.data.holdout.fold_count", lambda n, need="usual": folds)
            )
        if not corrects:
            stack.enter_context(patch.object(Session, "grown", lambda *_: None))
        for module in [m for m in sys.modules.values() if m.__name__.startswith("fairboost.")]:
            if turns == 1 and hasattr(module, "turns_taken"):
                stack.enter_context(patch.object(module, "turns_taken", lambda *_: 1))
        model.fit(X[:, features], y, sensitive_features={"sex": s})
    lines = model.fairness_report_.rates.set_index("group")
    X_new, y_new, s_new = new_rows()
    refused = model.predict(X_new[:, features]) == 0
    true = {g: float(refused[(y_new == 1) & (s_new == g)].mean()) for g in GROUPS}
    held = [lines.low[f"sex={g}"] <= true[g] <= lines.high[f"sex={g}"] for g in GROUPS]
    accuracy = float((refused == (y_new == 0)).mean())
    gap = true["woman"] - true["man"]
    reported = lines["held out"]["sex=woman"] - lines["held out"]["sex=man"]
    return abs(gap), accuracy, float(np.mean(held)), (gap - reported) ** 2


def table(seeds: int, processes: int) -> str:
    """A line per number of rows, model, folds and bins."""
    lines = [*itertools.product(ROWS, (True, False), WAYS)]
    cases = [(rows, aware, *way, seed) for rows, aware, way in lines for seed in range(seeds)]
    with ProcessPoolExecutor(processes) as pool:
        found = [*tqdm(pool.map(one_fit, cases), total=len(cases), smoothing=0)]
    cells = []
    for (rows, aware, (folds, turns, corrects)), fits in zip(
        lines, np.array(found).reshape(len(lines), seeds, 4), strict=True
    ):
        mean, error = fits.mean(axis=0), fits.std(axis=0, ddof=1) / np.sqrt(seeds)
        cells.append([
            f"{rows:,}", "aware" if aware else "blind", str(folds or fold_count(rows)),
            {1: "every", 2: "every second"}[turns], "the kept" if corrects else "the others",
            f"{mean[0]:.4f} ± {error[0]:.4f}", f"{mean[1]:.4f} ± {error[1]:.4f}",
            f"{np.sqrt(mean[3]):.4f}", f"{mean[2]:.0%}",
        ])  # fmt: skip
    names = ["rows", "model", "folds", "round", "rates of", "gap", "accuracy", "off"]
    names.append("in intervals")
    return HEAD.format(seeds=seeds) + markdown_table(names, cells) + "\n"


# Thresholds that are placed on scores out of fold

TARGET = 0.05
PLACED = f"""
## Placed thresholds

Predictive equality at `at_fpr({TARGET})`, 20,000 generated loans, {TREES} trees, {{seeds}} draws:
the false positive rate of everyone on 200,000 new loans, with its standard error. The default is
five folds: boosters of half the rows spread their scores less than the booster of all rows, which
is kept.

"""


def one_rate(case: tuple[str, int, int]) -> float:
    """The false positive rate on new loans."""
    name, folds, seed = case
    options = {"n_estimators": TREES, "n_jobs": 1}
    engine = (
        LGBMClassifier(verbose=-1, **options)
        if name == "lightgbm"
        else XGBClassifier(enable_categorical=True, **options)
    )
    model = FairGBMClassifier(
        engine, constraint="predictive_equality", operating_point=at_fpr(TARGET), tolerance=0.005,
        holdout="cross", random_state=0,
    )  # fmt: skip
    train, new = make_loans(20_000, seed=100 + seed), new_loans()
    with warnings.catch_warnings(), patch("fairboost.data.holdout.fold_count", lambda *_: folds):
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(train.X, train.y, sensitive_features=train.sensitive["sex"])
    return float(model.predict(new.X)[new.y == 0].mean())


@cache
def new_loans() -> Loans:
    return make_loans(200_000, seed=99)


def placed_table(seeds: int, processes: int) -> str:
    """A line per engine and number of folds."""
    lines = [*itertools.product(("lightgbm", "xgboost"), (2, 5))]
    cases = [(*line, seed) for line in lines for seed in range(seeds)]
    with ProcessPoolExecutor(processes) as pool:
        found = [*tqdm(pool.map(one_rate, cases), total=len(cases), smoothing=0)]
    rates = np.array(found).reshape(len(lines), seeds)
    errors = rates.std(axis=1, ddof=1) / np.sqrt(seeds)
    cells = [
        [name, str(folds), f"{mean:.4f} ± {error:.4f}"]
        for (name, folds), mean, error in zip(lines, rates.mean(axis=1), errors, strict=True)
    ]
    names = ["engine", "folds", "false positive rate"]
    return PLACED.format(seeds=seeds) + markdown_table(names, cells) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    found = table(options.seeds, options.processes)
    found += placed_table(max(options.seeds // 4, 2), options.processes)
    Path(__file__).with_suffix(".md").write_text(found)


if __name__ == "__main__":
    main()
