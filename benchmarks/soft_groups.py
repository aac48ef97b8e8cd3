"""Groups known by probability, and an age held to as a number: true gaps on rows not trained on.

Probabilities: a proxy z of the group is drawn, Gaussian with a mean that depends on the group, so
that P(group | z) is known and separates the groups with an AUC of 0.85. A model is trained with
the groups themselves, with weighted rates and with corrected rates, and judged by the groups
themselves. In "from features" the probabilities are those of a booster that was trained to predict
the group from the features, on other rows.

Age: the largest difference of a rate between fine bins of age, of a plain engine, of a model with
age cut into four bands, and of one with smooth("age").

    python -m benchmarks.soft_groups    # about half an hour on one core; writes soft_groups.md

``--results FILE`` keeps what was measured, case by case and seed by seed, so that an interrupted
run goes on where it was. ``--only adult`` measures the cases that begin so, and writes no page.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.special import expit, ndtri
from sklearn.metrics import roc_auc_score
from tqdm import tqdm

from fairboost import FairGBMClassifier, group_probabilities, parity, smooth
from fairboost._files import write_text
from fairboost.datasets import make_loans
from fairboost.exceptions import FairnessWarning

FILE = Path(__file__).resolve().with_suffix(".md")
DATA = Path(os.environ.get("FAIRBOOST_DATA", FILE.parents[1].parent / "shared" / "data"))
SEEDS, TREES, AUC = 6, 100, 0.85
TRAINED, TESTED = 40_000, 100_000
APART = float(np.sqrt(2) * ndtri(AUC))
"""Means of the proxy of two groups, in standard deviations, for that AUC."""

METHODS = ("plain", "groups", "weighted", "corrected", "corrected, 10% observed")


@dataclass(frozen=True)
class Table:
    """Rows to train on and to test on."""

    X: pd.DataFrame
    y: np.ndarray
    group: np.ndarray
    age: np.ndarray
    trained: np.ndarray
    tested: np.ndarray


def loans(seed: int) -> Table:
    """Generated loans; the group is the sex, which is no feature."""
    made = make_loans(TRAINED + TESTED, seed=seed)
    group = (made.sensitive["sex"] == "female").to_numpy()
    rows = np.arange(len(group))
    none = np.zeros(len(group))
    return Table(made.X, np.asarray(made.y), group, none, rows[:TRAINED], rows[TRAINED:])


def real(name: str, seed: int) -> Table:
    """A real table, split at random: 70% to train on."""
    frame = pd.read_parquet(DATA / f"{name}.parquet")
    y = frame["label"].to_numpy()
    group = np.zeros(len(y), bool)
    if name == "adult":
        group = (frame["sex"] == "Female").to_numpy()
    # The duration of a call is known after the call alone.
    left_out = {"label", "split", "sex", "duration", "age_25_60"}
    X = frame.drop(columns=[c for c in frame if c in left_out])
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(0.7 * len(y))
    age = frame["age"].to_numpy(np.float64)
    return Table(X, y, group, age, order[:cut], order[cut:])


def engine() -> LGBMClassifier:
    """The engine of all models."""
    return LGBMClassifier(n_estimators=TREES, num_leaves=15, n_jobs=1, verbose=-1)


def fitted(table: Table, constraint: Any, sensitive: Any, seed: int) -> np.ndarray:
    """Decisions on the test rows of a model under a constraint."""
    model = FairGBMClassifier(engine(), constraint=constraint, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        a = table.trained
        model.fit(table.X.iloc[a], table.y[a], sensitive_features=sensitive)
    return np.asarray(model.predict(table.X.iloc[table.tested]))


def rates(decided: np.ndarray, y: np.ndarray, codes: np.ndarray, rate: str) -> np.ndarray:
    """The rate of each group."""
    counts = y == 1 if rate == "fnr" else np.ones(len(y), bool)
    event = decided == 0 if rate == "fnr" else decided == 1
    return np.array([event[counts & (codes == k)].mean() for k in np.unique(codes)])


def proxy(group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P(group | z) of a Gaussian proxy."""
    z, share = rng.normal(size=len(group)) + APART * group, group.mean()
    return np.asarray(expit(np.log(share / (1 - share)) + APART * z - APART**2 / 2))


def from_features(table: Table, seed: int) -> np.ndarray:
    """P(group | features), by a booster trained on rows of their own."""
    other = loans(seed + 1_000)
    learner = LGBMClassifier(n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1)
    learner.fit(other.X, other.group)
    return np.asarray(learner.predict_proba(table.X)[:, 1])


def by_probability(
    table: Table, p: np.ndarray, rate: str, tolerance: float, seed: int
) -> list[tuple[float, float]]:
    """True gap and accuracy of each method."""
    a, y = table.trained, table.y[table.tested]
    known = table.group[a].astype(object)
    probabilities = pd.DataFrame({False: 1 - p[a], True: p[a]}, table.X.index[a])
    seen = np.where(np.random.default_rng([seed, 2]).random(len(a)) < 0.1, known, None)
    given = {
        "groups": {"group": table.group[a]},
        "weighted": group_probabilities(probabilities, "group", estimator="weighted"),
        "corrected": group_probabilities(probabilities, "group"),
        "corrected, 10% observed": group_probabilities(probabilities, "group", observed=seen),
    }
    found = []
    for method in METHODS:
        constraint = parity(rate, tolerance, by="group") if method in given else None
        decided = fitted(table, constraint, given.get(method), seed)
        gap = float(np.ptp(rates(decided, y, table.group[table.tested], rate)))
        found.append((gap, float(np.mean(decided == y))))
    return found


def over_age(table: Table, rate: str, tolerance: float, bins: int, seed: int) -> list[Any]:
    """Largest difference between fine bins, and accuracy: plain, bands, smooth."""
    age, y = table.age, table.y[table.tested]
    counts = table.y == 1 if rate == "fnr" else np.ones(len(table.y), bool)
    edges = np.quantile(age[counts], np.arange(1, bins) / bins)
    fine = np.searchsorted(np.unique(edges), age[table.tested], side="right")
    bands = np.searchsorted(np.quantile(age, [0.25, 0.5, 0.75]), age[table.trained], side="right")
    own = age[table.trained]
    asked = (
        (None, None),
        (parity(rate, tolerance, by="band"), {"band": bands}),
        (parity(rate, tolerance, by=smooth("age")), {"age": own}),
    )
    found = []
    for constraint, sensitive in asked:
        decided = fitted(table, constraint, sensitive, seed)
        gap = float(np.ptp(rates(decided, y, fine, rate)))
        found.append((gap, float(np.mean(decided == y))))
    return found


def shown(figures: np.ndarray) -> str:
    """Mean and standard error."""
    return f"{figures.mean():.4f} ± {figures.std(ddof=1) / np.sqrt(len(figures)):.4f}"


PROBABILITY_CASES = [
    (name, "proxy", rate, tolerance)
    for rate, tolerance in (("fnr", 0.02), ("fnr", 0.05), ("ppr", 0.02))
    for name in ("loans", "adult")
] + [("loans", "from features", "fnr", 0.02)]
AGE_CASES = [
    ("adult", "fnr", 0.05, 8),
    ("adult", "ppr", 0.05, 15),
    ("bank_marketing", "ppr", 0.02, 15),
]


def probability_case(case: Any, seed: int) -> list[Any]:
    """True gap and accuracy of each method, and last the AUC, of one seed."""
    name, kind, rate, tolerance = case
    table = loans(seed) if name == "loans" else real(name, seed)
    p = proxy(table.group, np.random.default_rng([seed, 1]))
    if kind != "proxy":
        p = from_features(table, seed)
    auc = float(roc_auc_score(table.group, p))
    return [*by_probability(table, p, rate, tolerance, seed), (auc, auc)]


def age_case(case: Any, seed: int) -> list[Any]:
    """Largest difference and accuracy of each method, of one seed."""
    name, rate, tolerance, bins = case
    return over_age(real(name, seed), rate, tolerance, bins, seed)


class Results:
    """What was measured, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        known = path is not None and path.exists()
        self.found: dict[str, Any] = json.loads(path.read_text()) if known and path else {}

    def of(self, measure: Callable[[Any, int], list[Any]], case: Any) -> np.ndarray:
        """Gaps and accuracies of all seeds: (2, seeds, methods)."""
        for seed in tqdm(range(SEEDS), desc=" ".join(map(str, case))):
            key = json.dumps([*case, seed])
            if key not in self.found:
                self.found[key] = measure(case, seed)
                if self.path is not None:
                    write_text(self.path, json.dumps(self.found))
        each = [self.found[json.dumps([*case, seed])] for seed in range(SEEDS)]
        return np.moveaxis(np.array(each), 2, 0)


def probability_page(results: Results) -> list[str]:
    """The part about probabilities."""
    header = "| rows | probabilities | rate | tolerance | " + " | ".join(METHODS)
    gaps_table = [f"{header} | corrected / groups |", "|---" * (len(METHODS) + 5) + "|"]
    accuracy = [f"{header} |", "|---" * (len(METHODS) + 4) + "|"]
    ratios = []
    for case in PROBABILITY_CASES:
        gaps, right = results.of(probability_case, case)
        auc, gaps, right = gaps[:, -1].mean(), gaps[:, :-1], right[:, :-1]
        ratio = gaps[:, 3].mean() / gaps[:, 1].mean()
        ratios.append(ratio)
        name, kind, rate, tolerance = case
        head = f"| {name} | {kind}, AUC {auc:.3f} | {rate} | {tolerance} | "
        gaps_table.append(head + " | ".join(map(shown, gaps.T)) + f" | {ratio:.2f} |")
        accuracy.append(head + " | ".join(map(shown, right.T)) + " |")
    proxies = ratios[:-1]
    said = (
        f"With a proxy, the true gap of corrected rates is {min(proxies):.2f} to "
        f"{max(proxies):.2f} times that with the groups themselves, {np.mean(proxies):.2f} times "
        f"on average; it is at most 1.25 times in {sum(r <= 1.25 for r in proxies)} of "
        f"{len(proxies)} cases."
    )
    page = [said, "", "### True gap on test rows", "", *gaps_table, ""]
    return [*page, "### Accuracy on test rows", "", *accuracy]


def age_page(results: Results) -> list[str]:
    """The part about age."""
    lines = [
        "| rows | rate | tolerance | bins | plain | four bands | smooth | accuracy: plain | four "
        "bands | smooth | seeds in which smooth is above plain |",
        "|---" * 11 + "|",
    ]
    for case in AGE_CASES:
        gaps, right = results.of(age_case, case)
        cells = " | ".join(map(shown, [*gaps.T, *right.T]))
        above = int((gaps[:, 2] > gaps[:, 0]).sum())
        lines.append(f"| {' | '.join(map(str, case))} | {cells} | {above} of {SEEDS} |")
    return lines


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    results = Results(asked.results)
    if asked.only:
        for measure, cases in ((probability_case, PROBABILITY_CASES), (age_case, AGE_CASES)):
            for case in cases:
                if " ".join(map(str, case)).startswith(asked.only):
                    results.of(measure, case)
        return
    about = (
        f"Made by `python -m benchmarks.soft_groups`: LightGBM with {TREES} trees of 15 leaves, "
        f"means over {SEEDS} random seeds with their standard errors. loans: {TRAINED:,} "
        f"generated rows to train on, {TESTED:,} to test on. adult, bank_marketing: 70% to train "
        "on. The group is the sex, which is no feature. All figures are of test rows."
    )
    page = ["# Groups known by probability, and age as a number", "", about, ""]
    page += ["## Groups known by probability", "", *probability_page(results), ""]
    page += ["## Age as a number", "", "Largest difference of the rate between fine bins of age."]
    page += [
        "Equal positive rates over age are out of reach on adult: almost nobody under 22 has the "
        "positive label there, and in some seeds training does not settle.",
        "",
    ]
    page += [*age_page(results), ""]
    write_text(FILE, "\n".join(page))


if __name__ == "__main__":
    main()
