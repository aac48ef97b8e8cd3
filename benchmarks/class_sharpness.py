"""How steep the stand-in of a decision among several classes should be: B of tasks/multiclass.py.

Generated bands of a number, in which four groups differ and which are a feature; demographic
parity. Accuracy and the largest gap between groups in the share of any band, on test rows.

    python -m benchmarks.class_sharpness    # some minutes on one core; writes class_sharpness.md
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from tqdm import tqdm

from benchmarks.synthetic import make
from fairboost import FairGBMClassifier
from fairboost.exceptions import FairnessWarning
from fairboost.tasks import multiclass

FILE = Path(__file__).resolve().with_suffix(".md")
SHARPNESSES, SEEDS, TREES, TOLERANCE = (1.0, 2.0, 3.0, 4.0), 5, 100, 0.02
TRAINED, TESTED, GROUPS, BANDS = 20_000, 40_000, 4, 5


def judged(given: np.ndarray, y: np.ndarray, g: np.ndarray) -> tuple[float, float]:
    """Accuracy, and the largest gap."""
    shares = [[np.mean(given[g == k] == band) for k in range(GROUPS)] for band in range(BANDS)]
    return float(np.mean(given == y)), float(np.ptp(shares, axis=1).max())


def run(seed: int) -> list[tuple[float, float]]:
    """One seed: every sharpness, and last the plain engine."""
    X, _, g = make(TRAINED + TESTED, GROUPS, seed)
    number = X[:, 0] + X[:, 1] * X[:, 2] + 1.5 * (g % 2) + 0.8 * (g // 2)
    number += 0.7 * np.random.default_rng([seed, 1]).logistic(size=len(g))
    y = np.searchsorted(np.quantile(number, np.arange(1, BANDS) / BANDS), number)
    X[:, 4] = g
    a, b = slice(TRAINED), slice(TRAINED, None)
    base = LGBMClassifier(n_estimators=TREES, num_leaves=15, n_jobs=1, verbose=-1)
    found, usual = [], multiclass.SHARPNESS
    for sharpness in SHARPNESSES:
        multiclass.SHARPNESS = sharpness
        model = FairGBMClassifier(
            base, constraint="demographic_parity", tolerance=TOLERANCE, holdout=0.3,
            memberships="observed", random_state=seed,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            model.fit(X[a], y[a], sensitive_features=g[a])
        found.append(judged(model.predict(X[b]), y[b], g[b]))
    multiclass.SHARPNESS = usual
    return [*found, judged(base.fit(X[a], y[a]).predict(X[b]), y[b], g[b])]


def main() -> None:
    """Measure, and write the page."""
    found = np.array([run(seed) for seed in tqdm(range(SEEDS))])
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    lines = [
        "# How steep the stand-in of a decision among classes should be",
        "",
        f"Made by `python -m benchmarks.class_sharpness`: {BANDS} bands, {GROUPS} groups that are "
        f"a feature, {TRAINED:,} rows to train on (30% held out), {TESTED:,} to test on, {TREES} "
        f"rounds, demographic parity with a tolerance of {TOLERANCE}. Means over {SEEDS} seeds, "
        "with their standard errors.",
        "",
        "| B | accuracy | largest gap |",
        "|---|---|---|",
    ]
    for name, m, e in zip([*SHARPNESSES, "plain"], mean, error, strict=True):
        lines.append(f"| {name} | {m[0]:.4f} ± {e[0]:.4f} | {m[1]:.4f} ± {e[1]:.4f} |")
    FILE.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
