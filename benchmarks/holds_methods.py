"""The methods that ``benchmarks.holds`` compares, and the measures of what they decide.

Every method gets the same training and validation rows (80% of all) and uses them as it likes:
plain LightGBM, the paper's algorithm, fairlearn's reductions, the reference package and fairboost
are fitted on all of them; ``ThresholdOptimizer`` fits its trees on the first 60% and its
thresholds on the other 20%, and sees the group of every row that it decides on. Each method is a
function from a :class:`Task` to an :class:`Outcome`.

The measure is the *excess*: how far rates stay from the pooled rate beyond what was allowed, in
standard errors of the group's rate on the test rows,

    max(|R_g - R| - tolerance / 2, 0) / sqrt(R (1 - R) / n_g),

as a root mean square over groups, rates and seeds. R_g is the rate of the group, R that of all
rows whose group is known, n_g the number of rows that count (label 1 for the false negative rate,
0 for the false positive rate, all for the share of positive decisions). A model whose rates are
equal in truth has an excess of 1 at most, which is noise of the test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ExponentiatedGradient,
    FalsePositiveRateParity,
    TruePositiveRateParity,
)
from lightgbm import LGBMClassifier

from benchmarks.holds_cases import CROSS, LOOSE
from fairboost import FairGBMClassifier
from fairboost.study.data import Rows
from fairboost.study.peers import run_reference

TOLERANCE = 0.01
EG_ITERATIONS = 10
EG_ROWS = 200_000  # the reductions fit some twenty models: on more rows a seed takes many minutes

MOMENTS = {
    "equal_opportunity": TruePositiveRateParity,
    "predictive_equality": FalsePositiveRateParity,
    "equalized_odds": EqualizedOdds,
    "demographic_parity": DemographicParity,
}
THRESHOLD_CONSTRAINTS = {
    "equal_opportunity": "false_negative_rate_parity",
    "predictive_equality": "false_positive_rate_parity",
    "equalized_odds": "equalized_odds",
    "demographic_parity": "demographic_parity",
}
REFERENCE_TYPES = {
    "equal_opportunity": "FNR",
    "predictive_equality": "FPR",
    "equalized_odds": "FPR,FNR",
}


@dataclass(frozen=True)
class Task:
    """One split of one case.

    Parameters
    ----------
    train, validation, test : Rows
        60, 20 and 20% of the rows, in random order.
    both : Rows
        Training and validation rows together.
    constraint : str
        By its name in fairboost.
    seed, n_jobs, options
        For the engine; ``options`` are those that differ from LightGBM's defaults.
    reference_python : str, optional
        The interpreter that has the reference package.
    loose : float, optional
        The gap that the reductions leave in this case, on average.
    plain_fits : dict
        Fits of the plain engine, shared by all cases that have the same rows and seed.
    """

    train: Rows
    validation: Rows
    both: Rows
    test: Rows
    constraint: str
    seed: int
    n_jobs: int
    options: dict
    reference_python: str | None = None
    loose: float | None = None
    plain_fits: dict = field(default_factory=dict)

    def engine(self) -> LGBMClassifier:
        """A fresh engine, which every method builds on."""
        return LGBMClassifier(
            verbose=-1, n_jobs=self.n_jobs, random_state=self.seed, **self.options
        )

    def plain_fit(self, part: str) -> tuple[LGBMClassifier, float]:
        """The plain engine fitted on ``"train"`` or ``"both"``, and the seconds that it took."""
        if part not in self.plain_fits:
            rows, model = getattr(self, part), self.engine()
            start = time.perf_counter()
            model.fit(rows.X, rows.y)
            self.plain_fits[part] = model, time.perf_counter() - start
        return self.plain_fits[part]


@dataclass(frozen=True)
class Outcome:
    """What a method decided on the test rows.

    Parameters
    ----------
    decision : (n,) int
        0 or 1.
    proba : (n,) float64, optional
        Probability of label 1, if the method gives one.
    seconds : float
        Time of the fit.
    n_train : int
        Rows that the method used, for whatever purpose.
    version : str, optional
        Of the peer, if this process cannot tell.
    """

    decision: np.ndarray
    proba: np.ndarray | None
    seconds: float
    n_train: int
    version: str | None = None


def plain(task: Task) -> Outcome:
    model, seconds = task.plain_fit("both")
    proba = model.predict_proba(task.test.X)[:, 1]
    return Outcome((proba > 0.5).astype(int), proba, seconds, len(task.both))


def constrained(task: Task, model: FairGBMClassifier, rows: Rows, **more) -> Outcome:
    start = time.perf_counter()
    model.fit(rows.X, rows.y, sensitive_features=rows.s, **more)
    seconds = time.perf_counter() - start
    decision, proba = model.predict(task.test.X), model.predict_proba(task.test.X)[:, 1]
    return Outcome(decision, proba, seconds, len(task.both))


def paper(task: Task) -> Outcome:
    model = FairGBMClassifier.paper(
        task.engine(), constraint=task.constraint, random_state=task.seed
    )
    return constrained(task, model, task.both)


def ours(task: Task, tolerance: float = TOLERANCE, **options) -> FairGBMClassifier:
    return FairGBMClassifier(
        task.engine(), constraint=task.constraint, tolerance=tolerance, random_state=task.seed,
        **options,
    )  # fmt: skip


def fairboost(task: Task) -> Outcome:
    return constrained(task, ours(task), task.both)


def fairboost_holdout(task: Task) -> Outcome:
    """The validation rows as the held-out share, instead of one that fairboost draws itself."""
    held = task.validation
    return constrained(task, ours(task), task.train, holdout_set=(held.X, held.y, held.s))


def fairboost_cross(task: Task) -> Outcome:
    """Cross-fitted whatever the number of rows: trained on all of them, at a higher cost."""
    return constrained(task, ours(task, holdout="cross"), task.both)


def fairboost_loose(task: Task, share: float) -> Outcome:
    """With a share of the gap that the reductions leave as its tolerance."""
    if task.loose is None:
        raise RuntimeError("run fairlearn EG on this case first, its gap is the tolerance here")
    return constrained(task, ours(task, share * task.loose), task.both)


def reductions(task: Task) -> Outcome:
    """Exponentiated gradient of fairlearn, on no more than ``EG_ROWS`` rows."""
    rows = task.both.take(slice(EG_ROWS))  # rows are in random order already
    moment = MOMENTS[task.constraint](difference_bound=TOLERANCE)
    model = ExponentiatedGradient(task.engine(), moment, max_iter=EG_ITERATIONS)
    start = time.perf_counter()
    model.fit(rows.X, rows.y, sensitive_features=rows.s)
    seconds = time.perf_counter() - start
    # It draws one of its models for each row; the mixture's probabilities are no scores.
    decision = np.asarray(model.predict(task.test.X, random_state=0))
    return Outcome(decision, None, seconds, len(rows))


def thresholds(task: Task) -> Outcome:
    """Thresholds per group by fairlearn, chosen on rows that the trees have not seen."""
    base, seconds = task.plain_fit("train")
    model = ThresholdOptimizer(
        estimator=base,
        constraints=THRESHOLD_CONSTRAINTS[task.constraint],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    start = time.perf_counter()
    held = task.validation
    model.fit(held.X, held.y, sensitive_features=held.s)
    seconds += time.perf_counter() - start
    decision = model.predict(task.test.X, sensitive_features=task.test.s, random_state=0)
    return Outcome(np.asarray(decision).astype(int), None, seconds, len(task.both))


def reference(task: Task) -> Outcome:
    options = {
        "constraint_type": REFERENCE_TYPES[task.constraint],
        "constraint_fnr_tolerance": TOLERANCE,
        "constraint_fpr_tolerance": TOLERANCE,
        "n_jobs": task.n_jobs,
        "random_state": task.seed,
        "verbose": -1,
        **task.options,
    }
    found = run_reference(task.reference_python, task.both, [task.test.X], options)
    return Outcome(
        found["decision"], found["proba"], found["seconds"], len(task.both), found["version"]
    )


METHODS: dict[str, Callable[[Task], Outcome]] = {
    "plain": plain,
    "paper": paper,
    "reference fairgbm": reference,
    "ThresholdOptimizer": thresholds,
    "fairlearn EG": reductions,
    "fairboost": fairboost,
    "fairboost (holdout_set)": fairboost_holdout,
    **{name: partial(fairboost_loose, share=share) for name, share in LOOSE.items()},
    CROSS: fairboost_cross,
}


def why_not(method: str, reference_python: str | None) -> str | None:
    """Why a method cannot run here; None if it can."""
    if method == "reference fairgbm" and not (
        reference_python and Path(reference_python).is_file()
    ):
        return (
            "needs --reference-python PATH, the interpreter of an environment that has fairgbm "
            "(see src/fairboost/study/reference_fairgbm.py)"
        )
    return None


def group_rates(y: np.ndarray, decision: np.ndarray, s: pd.Series) -> dict[str, list[list]]:
    """Every rate of every group: its label, the value (None without rows), the rows that count."""
    codes, labels = pd.factorize(s, sort=True)  # a missing group is code -1, which never counts
    counted = {"fnr": (y == 1, decision == 0), "fpr": (y == 0, decision == 1)}
    counted["ppr"] = (np.ones(len(y), bool), decision == 1)
    found: dict[str, list[list]] = {}
    for rate, (who, hit) in counted.items():
        found[rate] = []
        for code, label in enumerate(labels):
            rows = who & (codes == code)
            n, hits = int(rows.sum()), int((rows & hit).sum())
            found[rate].append([str(label), hits / n if n else None, n])
    return found


def squared_excesses(record: dict, rates: Iterable[str]) -> np.ndarray:
    """The squares whose mean's root is the excess, over the rates and groups of one record."""
    squares = []
    for rate in rates:
        groups = [(value, n) for _, value, n in record["rates"][rate] if n]
        values, n = np.array(groups).T
        pooled = values @ n / n.sum()
        if not 0 < pooled < 1:  # then all groups have that very rate
            squares.append(np.zeros(len(n)))
            continue
        beyond = np.maximum(np.abs(values - pooled) - TOLERANCE / 2, 0)
        squares.append(beyond**2 / (pooled * (1 - pooled) / n))
    return np.concatenate(squares)


def excess(records: Iterable[dict], rates: Iterable[str]) -> float:
    return float(np.sqrt(np.concatenate([squared_excesses(r, rates) for r in records]).mean()))


def values_of(record: dict, rate: str) -> np.ndarray:
    return np.array([value for _, value, n in record["rates"][rate] if n])


def gap(record: dict, rates: Iterable[str]) -> float:
    """Largest less smallest rate; of several rates, the largest gap."""
    return max(float(np.ptp(values_of(record, rate))) for rate in rates)


def ratio(record: dict, rates: Iterable[str]) -> float:
    """Smallest over largest rate, 1 if all are zero; of several rates, the smallest ratio."""
    values = [values_of(record, rate) for rate in rates]
    return min(float(v.min() / v.max()) if v.any() else 1.0 for v in values)


def ratio_error(record: dict, rate: str) -> float:
    """Standard error of the ratio of two rates on test rows, by the delta method."""
    values = np.array([(value, n) for _, value, n in record["rates"][rate] if n])
    relative = (1 - values[:, 0]) / (values[:, 0] * values[:, 1])
    return ratio(record, [rate]) * float(np.sqrt(relative.sum()))


def signed_gaps(record: dict, rates: Iterable[str]) -> list[float] | None:
    """Second less first of two groups, for each rate; None for more groups."""
    values = [values_of(record, rate) for rate in rates]
    return [float(v[1] - v[0]) for v in values] if all(len(v) == 2 for v in values) else None
