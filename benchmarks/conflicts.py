"""What one kind of fairness does to the others, in figures.

Each constraint is trained by itself, and all gaps are measured on rows that were not trained on.

    python -m benchmarks.conflicts           # some minutes on one core; writes conflicts.md
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from tqdm import tqdm

from fairboost import FairGBMClassifier
from fairboost.datasets import load, make_loans
from fairboost.exceptions import FairnessWarning

FILE = Path(__file__).resolve().with_suffix(".md")
SEEDS, TREES, SHARE = 5, 100, 0.6
CONSTRAINTS = (
    None, "demographic_parity", "equal_opportunity", "predictive_parity", "calibrated",
)  # fmt: skip
COLUMNS = [
    "accuracy", "positive decisions", "false negative rate", "false positive rate", "precision",
    "actual over expected",
]  # fmt: skip
Rows = tuple[Any, np.ndarray, np.ndarray]


def adult(seed: int) -> Rows:
    """Census records; the label is an income above $50,000."""
    table = load("adult")
    return table.X, np.asarray(table.y), table.sensitive["sex"].astype(str).to_numpy()


def loans(seed: int) -> Rows:
    """Generated loan applications; the label is repayment."""
    table = make_loans(60_000, seed=seed)
    return table.X, np.asarray(table.y), table.sensitive["sex"].astype(str).to_numpy()


SOURCES: dict[str, Callable[[int], Rows]] = {"Adult": adult, "make_loans": loans}


def judged(model: FairGBMClassifier, X: Any, y: np.ndarray, groups: np.ndarray) -> list[float]:
    """Accuracy, and the largest difference between groups in each figure."""
    decided, p = model.predict(X) == 1, model.predict_proba(X)[:, 1]

    def gap(of_group: Callable[[np.ndarray], float]) -> float:
        return float(np.ptp([of_group(groups == g) for g in np.unique(groups)]))

    return [
        float((decided == (y == 1)).mean()),
        gap(lambda g: decided[g].mean()),
        gap(lambda g: 1 - decided[g & (y == 1)].mean()),
        gap(lambda g: decided[g & (y == 0)].mean()),
        gap(lambda g: y[g & decided].mean()),
        gap(lambda g: y[g].mean() / p[g].mean()),
    ]


def run(rows: Rows, seed: int, step: Callable[[], Any]) -> dict[str, list[float]]:
    """All constraints on one split."""
    X, y, groups = rows
    order = np.random.default_rng(seed).permutation(len(y))
    a, b = np.split(order, [int(SHARE * len(y))])
    found = {}
    for constraint in CONSTRAINTS:
        engine = LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1)
        model = FairGBMClassifier(engine, constraint=constraint, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            model.fit(X.iloc[a], y[a], sensitive_features=groups[a])
        found[str(constraint)] = judged(model, X.iloc[b], y[b], groups[b])
        step()
    return found


def write(found: dict[str, list[dict[str, list[float]]]]) -> None:
    """Write the page."""
    lines = [
        "# What one kind of fairness does to the others",
        "",
        "Made by `python -m benchmarks.conflicts`: each constraint trained by itself between men "
        f"and women (tolerance 0.01, {TREES} rounds of LightGBM, 60% of the rows; sex is a "
        "feature in Adult and not in make_loans), and all figures measured on the other 40%. "
        "Except for accuracy, a figure is the "
        f"difference between the two groups. Means over {SEEDS} random seeds, with standard "
        "errors. The figure that a constraint holds equal is in bold.",
    ]
    own = {
        "demographic_parity": 1,
        "equal_opportunity": 2,
        "predictive_parity": 4,
        "calibrated": 5,
    }
    for source, seeds in found.items():
        lines += ["", f"## {source}", "", f"| constraint | {' | '.join(COLUMNS)} |"]
        lines.append(f"|---|{'---|' * len(COLUMNS)}")
        for name in map(str, CONSTRAINTS):
            values = np.array([seed[name] for seed in seeds])
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            if name in own:
                cells[own[name]] = f"**{cells[own[name]]}**"
            shown = "none" if name == "None" else f"`{name}`"
            lines.append(f"| {shown} | {' | '.join(cells)} |")
    FILE.write_text("\n".join([*lines, "", NOTE, ""]))


NOTE = """\
A difference on one set of test rows has a sampling error: on Adult about .03 for actual over
expected and .02 for the other figures, on make_loans about .01. A mean difference of that size
cannot be distinguished from 0, because differences are taken without their sign."""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="write figures of single seeds there")
    asked = parser.parse_args()
    found: dict[str, list[dict[str, list[float]]]] = {}
    with tqdm(total=len(SOURCES) * SEEDS * len(CONSTRAINTS)) as bar:
        for name, read in SOURCES.items():
            found[name] = [run(read(seed), seed, bar.update) for seed in range(SEEDS)]
    if asked.keep:
        asked.keep.write_text(json.dumps(found))
    write(found)


if __name__ == "__main__":
    main()
