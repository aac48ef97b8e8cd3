"""``fairboost demo``: plain LightGBM against fairboost on generated loan applications."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.base import clone

from fairboost.datasets import Loans, make_loans
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import gap, group_rates
from fairboost.metrics.intervals import wilson
from fairboost.model.estimator import FairGBMClassifier
from fairboost.verdicts.fairness_report import FairnessReport

TRAINING_SHARE = 0.6
ATTRIBUTE = "sex"
TOLERANCE = 0.01


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Parameters
    ----------
    table : pandas.DataFrame
        Figures on test rows with intervals, one column per model.
    report : FairnessReport
        Whether fairboost met its constraint, on rows held out in training and on test rows.
    files : list of Path
        What was written.
    """

    table: pd.DataFrame
    report: FairnessReport
    files: list[Path]


def run_demo(rows: int, seed: int, out: Path, *, force: bool, progress: bool) -> DemoResult:
    """Train both models, compare them on test rows, and write pictures and the model.

    Parameters
    ----------
    rows : int
        Applications to generate, 1,000 to 10 million; 60% are trained on.
    seed : int
        Seed of the generator.
    out : Path
        Folder to write to; made if need be.
    force : bool
        Write into the folder though it holds files.
    progress : bool
        Show a progress bar.
    """
    if not 1_000 <= rows <= 10_000_000:
        raise InvalidInputError(f"--rows must lie between 1,000 and 10,000,000, found {rows:,}")
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"--out {out} is a file; name a folder")
    if not force and out.exists() and any(out.iterdir()):
        raise InvalidInputError(
            f"the folder {out} is not empty; name another with --out, or pass --force to write "
            f"into it"
        )
    loans = make_loans(rows, seed=seed)
    cut = int(rows * TRAINING_SHARE)
    train, test = _part(loans, slice(0, cut)), _part(loans, slice(cut, None))
    engine = LGBMClassifier(n_estimators=100, verbose=-1)
    fair = FairGBMClassifier(
        engine, constraint="equal_opportunity", tolerance=TOLERANCE, verbose=int(progress)
    )
    plain, plain_time = _timed(lambda: clone(engine).fit(train.X, train.y))
    fair, fair_time = _timed(
        lambda: fair.fit(train.X, train.y, sensitive_features=train.sensitive[ATTRIBUTE])
    )
    decisions = {"plain LightGBM": plain.predict(test.X), "fairboost": fair.predict(test.X)}
    seconds = {"plain LightGBM": plain_time, "fairboost": fair_time}
    table = pd.DataFrame({name: _column(test, d, seconds[name]) for name, d in decisions.items()})
    out.mkdir(parents=True, exist_ok=True)
    return DemoResult(
        table,
        fair.report_on(test.X, test.y, sensitive_features=test.sensitive[ATTRIBUTE]),
        _write(out, fair, test, decisions, table),
    )


def _part(loans: Loans, rows: slice) -> Loans:
    return Loans(loans.X.iloc[rows], loans.y[rows], loans.sensitive.iloc[rows])


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _column(test: Loans, decision: np.ndarray, seconds: float) -> dict[str, str]:
    """Figures of one model on test rows, with 95% intervals."""
    right, n = float((decision == test.y).sum()), float(len(test.y))
    low, high = wilson(right, n, 0.95)
    column = {"accuracy": f"{right / n:.3f} [{low:.3f}, {high:.3f}]"}
    groups = test.sensitive[ATTRIBUTE]
    rates = group_rates(test.y, decision, sensitive_features=groups, rates=("fnr", "fpr"))
    for line in rates[rates["attribute"] != ""].to_dict("records"):
        name = f"{str(line['rate']).upper()} {line['group']}"
        column[name] = f"{line['value']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"
    for rate in ("fnr", "fpr"):
        found = gap(test.y, decision, rate=rate, sensitive_features=groups)
        column[f"{rate.upper()} gap"] = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    column["training time"] = f"{seconds:.2f} s"
    return column


def _write(
    out: Path,
    fair: FairGBMClassifier,
    test: Loans,
    decisions: dict[str, np.ndarray],
    table: pd.DataFrame,
) -> list[Path]:
    model, stock, figures = out / "model.json", out / "model.txt", out / "table.csv"
    fair.save(model)
    fair.export(stock)
    table.to_csv(figures)
    picture = _draw(out / "demo.png", fair, test, decisions)
    return [figures, *picture, model, stock]


def _draw(
    path: Path, fair: FairGBMClassifier, test: Loans, decisions: dict[str, np.ndarray]
) -> list[Path]:
    """Rates by group, and multipliers and violations over the rounds, as one PNG."""
    try:
        import matplotlib
    except ImportError:  # plots are an extra; the demo goes on without them
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from fairboost.plots import GroupRatesDisplay, MultipliersDisplay

    figure = plt.figure(figsize=(11, 5.5), layout="constrained")
    panels: Any = figure.subfigures(1, 2)
    left, right = panels
    rates = left.subplots(2, 1)
    for ax, rate in zip(rates, ("fnr", "fpr"), strict=True):
        GroupRatesDisplay.from_predictions(
            test.y, decisions, sensitive_features=test.sensitive[ATTRIBUTE], rate=rate, ax=ax
        )
    left.suptitle("Rates by group on test rows, 95% intervals")
    MultipliersDisplay.from_estimator(fair, ax=right.subplots(2, 1, sharex=True))
    right.suptitle("Training, round by round")
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, dpi=150, format="png")
    temporary.replace(path)
    plt.close(figure)
    return [path]
