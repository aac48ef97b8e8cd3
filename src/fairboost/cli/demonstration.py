"""The work of ``fairboost demo``: two models trained, compared, and written."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from fairboost._files import whole_file
from fairboost._text import interval
from fairboost.datasets import Loans, make_loans
from fairboost.engines.registry import default_estimator
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import gap, group_rates
from fairboost.metrics.intervals import wilson
from fairboost.model.estimator import FairGBMClassifier
from fairboost.verdicts.fairness_report import FairnessReport

TRAINING_SHARE = 0.6
ATTRIBUTE = "sex"
TOLERANCE = 0.01


def run_demo(
    options: argparse.Namespace, *, progress: bool = False
) -> tuple[pd.DataFrame, FairnessReport, list[Path]]:
    """Train both models, compare them on test rows, and write a picture and the model.

    Parameters
    ----------
    options : Namespace
        ``rows`` to generate, 60% of which are trained on; the ``seed`` of the generator; the
        folder ``out`` to write to, and whether to do so though it holds files (``force``).
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    table : pandas.DataFrame
        Figures on test rows with intervals, one column per model.
    report : FairnessReport
        Whether fairboost met its constraint, on rows held out in training and on test rows.
    files : list of Path
        What was written.
    """
    rows, out = options.rows, options.out
    if not 1_000 <= rows <= 10_000_000:
        raise InvalidInputError(f"--rows must lie between 1,000 and 10,000,000, found {rows:,}")
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"--out {out} is a file; name a folder")
    if not options.force and out.exists() and any(out.iterdir()):
        raise InvalidInputError(
            f"the folder {out} is not empty; name another with --out, or pass --force to write "
            f"into it"
        )
    loans = make_loans(rows, seed=options.seed)
    cut = int(rows * TRAINING_SHARE)
    train, test = (
        Loans(loans.X.iloc[part], loans.y[part], loans.sensitive.iloc[part])
        for part in (slice(0, cut), slice(cut, None))
    )
    engine = default_estimator(n_estimators=100, verbose=-1)
    fair = FairGBMClassifier(
        clone(engine),
        constraint="equal_opportunity",
        tolerance=TOLERANCE,
        verbose=int(progress),
    )
    start = time.perf_counter()
    engine.fit(train.X, train.y)
    between = time.perf_counter()
    fair.fit(train.X, train.y, sensitive_features=train.sensitive[ATTRIBUTE])
    seconds = (between - start, time.perf_counter() - between)
    decisions = {"plain LightGBM": engine.predict(test.X), "fairboost": fair.predict(test.X)}
    figures = map(_figures, [test] * 2, decisions.values(), seconds)
    table = pd.DataFrame(dict(zip(decisions, figures, strict=True)))
    out.mkdir(parents=True, exist_ok=True)
    report = fair.report_on(test.X, test.y, sensitive_features=test.sensitive[ATTRIBUTE])
    fair.save(out / "model.json")
    fair.export(out / "model.txt")
    table.to_csv(out / "table.csv")
    picture = _draw(out / "demo.png", fair, test, decisions)
    models = [out / name for name in ("model.json", "model.txt", "model.txt.decide.json")]
    return table, report, [out / "table.csv", *picture, *models]


def _figures(test: Loans, decision: np.ndarray, seconds: float) -> dict[str, str]:
    """Figures of one model on test rows, with 95% intervals."""
    right, n = float((decision == test.y).sum()), float(len(test.y))
    low, high = wilson(right, n, 0.95)
    column = {"accuracy": interval(right / n, float(low), float(high))}
    groups = test.sensitive[ATTRIBUTE]
    rates = group_rates(test.y, decision, sensitive_features=groups, rates=("fnr", "fpr"))
    for line in rates[rates["attribute"] != ""].to_dict("records"):
        name = f"{str(line['rate']).upper()} {line['group']}"
        column[name] = interval(line["value"], line["low"], line["high"])
    for rate in ("fnr", "fpr"):
        found = gap(test.y, decision, rate=rate, sensitive_features=groups)
        column[f"{rate.upper()} gap"] = interval(found.value, found.low, found.high)
    return {**column, "training time": f"{seconds:.2f} s"}


def _draw(
    path: Path, fair: FairGBMClassifier, test: Loans, decisions: dict[str, np.ndarray]
) -> list[Path]:
    """Rates by group, and multipliers and violations over the rounds, as one PNG."""
    from fairboost.plots import GroupRatesDisplay, MultipliersDisplay
    from fairboost.plots.style import pyplot

    try:
        plt = pyplot()
    except ImportError:  # plots are an extra; the demo goes on without them
        return []
    plt.switch_backend("Agg")
    figure = plt.figure(figsize=(11, 5.5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    for ax, rate in zip(left.subplots(2, 1), ("fnr", "fpr"), strict=True):
        GroupRatesDisplay.from_predictions(
            test.y, decisions, sensitive_features=test.sensitive[ATTRIBUTE], rate=rate, ax=ax
        )
    left.suptitle("Rates by group on test rows, 95% intervals")
    MultipliersDisplay.from_estimator(fair, ax=right.subplots(2, 1, sharex=True))
    right.suptitle("Training, round by round")
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)
    return [path]
