"""The methods that ``benchmarks.operating_point`` compares, and what is measured of them.

Every method gets the training rows to fit on and the validation rows to choose by. A method that
fits several models keeps the one that is best on the validation rows by the paper's measure,

    0.75 TPR + 0.25 (smaller over larger FPR of the groups),

at the threshold of 5% FPR there. fairboost fits one model and never sees the validation rows, but
where its name says so. Each method is a function from a :class:`Task` to an :class:`Outcome`.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from fairlearn.reductions import FalsePositiveRateParity, GridSearch
from lightgbm import LGBMClassifier
from scipy.optimize import bisect
from sklearn.frozen import FrozenEstimator

import fairboost as package
from benchmarks.holds_methods import group_rates, ratio
from benchmarks.operating_point_cases import (
    BOTH,
    GS,
    LONG,
    OURS,
    PAPER,
    PAPER_DEFAULTS,
    PLAIN,
    PLAIN_OWN,
    PREVALENCE,
    REFERENCE,
    RS,
    STAGE,
    TWO_MODELS,
    VALIDATION,
)
from fairboost import FairGBMClassifier, at_fpr, bound, parity
from fairboost.metrics import threshold_at
from fairboost.study.data import Rows
from fairboost.study.peers import run_reference

TOLERANCE = 0.0025  # of 0.05: a ratio of 0.95
TARGET = 0.05
POINT = at_fpr(TARGET)
CONSTRAINT = "predictive_equality"
ENGINE = {"n_estimators": 100}
PERFORMANCE_WEIGHT = 0.75
MODELS = 10  # of fairlearn's grid search and of the random search
CELL_WEIGHTS = (0.1, 10.0)
FNR_TARGETS = (0.3, 0.45, 0.6)  # the paper draws them from [0.3, 0.6]
LEARNING_RATES = (0.01, 0.1)  # of the multipliers: the range that its authors use, the default
SHARE = 0.2
OLDER = "50+"
PARTS = ("validation", "test", "fresh")


@dataclass(frozen=True)
class Task:
    """One split of one case.

    Parameters
    ----------
    train, validation, test : Rows
        To fit on, to choose by, to judge by.
    fresh : Rows, optional
        More rows like those of the test.
    seed, n_jobs, options
        For the engine; ``options`` are those that differ from LightGBM's defaults.
    reference_python : str, optional
        The interpreter that has the reference package.
    """

    train: Rows
    validation: Rows
    test: Rows
    fresh: Rows | None
    seed: int
    n_jobs: int = 1
    options: dict = field(default_factory=lambda: dict(ENGINE))
    reference_python: str | None = None

    def engine(self) -> LGBMClassifier:
        """A fresh engine, which every method builds on."""
        return LGBMClassifier(
            verbose=-1, n_jobs=self.n_jobs, random_state=self.seed, **self.options
        )

    def judged(self) -> dict[str, Rows]:
        """The rows that are scored, by name."""
        found = {part: getattr(self, part) for part in PARTS}
        return {part: rows for part, rows in found.items() if rows is not None}


@dataclass(frozen=True)
class Outcome:
    """What a method makes of the rows.

    Parameters
    ----------
    proba : dict of str to (n,) float64
        Probabilities of label 1 on the rows of :meth:`Task.judged`.
    seconds : float
        Time of all fits.
    own : float, optional
        The threshold that the model itself decides at.
    held_out : float, optional
        Number of negative rows that this threshold was placed on.
    models : int
        How many models were fitted.
    note : str
        What was chosen.
    version : str, optional
        Of the peer, if this process cannot tell.
    candidates : list
        TPR and ratio on the validation rows of each model that was tried, and its note.
    """

    proba: dict[str, np.ndarray]
    seconds: float
    own: float | None = None
    held_out: float | None = None
    models: int = 1
    note: str = ""
    version: str | None = None
    candidates: list = field(default_factory=list)


def scores(task: Task, model) -> dict[str, np.ndarray]:
    return {part: model.predict_proba(rows.X)[:, -1] for part, rows in task.judged().items()}


def fitted(task: Task, model, rows: Rows, **more) -> Outcome:
    """Fit any model that takes what ``more`` says."""
    start = time.perf_counter()
    model.fit(rows.X, rows.y, **more)
    seconds = time.perf_counter() - start
    return Outcome(scores(task, model), seconds)


def rates_at(rows: Rows, proba: np.ndarray, threshold: float) -> dict[str, list[list]]:
    return group_rates(rows.y, (proba >= threshold).astype(int), rows.s)


def pooled(rates: dict[str, list[list]], rate: str) -> float:
    """The rate of everyone from those of groups."""
    return sum(value * n for _, value, n in rates[rate] if n) / sum(n for *_, n in rates[rate])


def on_validation(task: Task, found: Outcome) -> tuple[float, float]:
    """TPR and ratio at the threshold chosen on the validation rows, on these."""
    rows, proba = task.validation, found.proba["validation"]
    rates = rates_at(rows, proba, threshold_at(rows.y, proba, POINT))
    return 1 - pooled(rates, "fnr"), ratio({"rates": rates}, ["fpr"])


def best_of(task: Task, candidates: Iterable[Outcome], seconds: float | None = None) -> Outcome:
    """The candidate that is best by the paper's measure, with the time of all."""
    best, most, total, tried = None, -np.inf, 0.0, []
    for found in candidates:
        tpr, fpr_ratio = on_validation(task, found)
        tried.append([round(tpr, 4), round(fpr_ratio, 4), found.note])
        total += found.seconds
        worth = PERFORMANCE_WEIGHT * tpr + (1 - PERFORMANCE_WEIGHT) * fpr_ratio
        if worth > most:
            best, most = found, worth
    total = total if seconds is None else seconds
    return replace(best, seconds=total, models=len(tried), candidates=tried)


def plain(task: Task) -> Outcome:
    return fitted(task, task.engine(), task.train)


def resampled(task: Task) -> Outcome:
    """Negatives dropped at random until every group has the prevalence of the highest."""
    rng, rows = np.random.default_rng([task.seed, 2]), task.train
    codes = pd.factorize(rows.s, sort=True)[0]
    positives = np.bincount(codes, rows.y)
    wanted = (positives / np.bincount(codes)).max()
    kept = [np.flatnonzero(rows.y == 1)]
    for code, n in enumerate(positives):
        negatives = np.flatnonzero((codes == code) & (rows.y == 0))
        keep = min(len(negatives), round(n * (1 - wanted) / wanted))
        kept.append(rng.choice(negatives, keep, replace=False))
    return fitted(task, task.engine(), rows.take(np.sort(np.concatenate(kept))))


def grid_search(task: Task) -> Outcome:
    """GridSearch of fairlearn; the choice among its models is ours, as in the paper."""
    rows = task.train
    model = GridSearch(task.engine(), FalsePositiveRateParity(), grid_size=MODELS)
    start = time.perf_counter()
    model.fit(rows.X, rows.y, sensitive_features=rows.s.astype(str))
    seconds = time.perf_counter() - start
    found = (
        Outcome(scores(task, each), 0.0, note=f"multipliers {np.round(vector.to_numpy(), 2)}")
        for each, (_, vector) in zip(model.predictors_, model.lambda_vecs_.items(), strict=True)
    )
    return best_of(task, found, seconds)


def random_search(task: Task) -> Outcome:
    """Random weights of group and label, log-uniform."""
    rng, rows = np.random.default_rng([task.seed, 3]), task.train
    codes = pd.factorize(rows.s, sort=True)[0]

    def candidates() -> Iterator[Outcome]:
        for _ in range(MODELS):
            weight = np.exp(rng.uniform(*np.log(CELL_WEIGHTS), (codes.max() + 1, 2)))
            found = fitted(task, task.engine(), rows, sample_weight=weight[codes, rows.y])
            yield Outcome(found.proba, found.seconds, note=f"weights {weight.round(2).tolist()}")

    return best_of(task, candidates())


def two_models(task: Task) -> Outcome:
    """The best decisions that can be made of two plain models, of fraud and of age.

    Where FPR are to be equal, TPR is largest for those who are likelier fraudulent than a bound
    that falls with how much likelier they are young: odds of fraud less a multiple of q / Q -
    (1 - q) / (1 - Q), where q is the probability that an honest person of these features is older
    and Q its mean. The multiple is the one of equal FPR on the validation rows.
    """
    rows = task.train
    honest = rows.take(np.flatnonzero(rows.y == 0))
    older = (honest.s.astype(str) == OLDER).to_numpy()
    fraud = fitted(task, task.engine(), rows)
    start = time.perf_counter()
    age = task.engine().fit(honest.X, older)
    seconds = fraud.seconds + time.perf_counter() - start
    base, of_age = older.mean(), scores(task, age)

    def combined(multiple: float) -> dict[str, np.ndarray]:
        return {
            part: p / (1 - p) - multiple * (of_age[part] / base - (1 - of_age[part]) / (1 - base))
            for part, p in fraud.proba.items()
        }

    def excess(multiple: float) -> float:
        """FPR of the older less that of the younger."""
        held, score = task.validation, combined(multiple)["validation"]
        rates = rates_at(held, score, threshold_at(held.y, score, POINT))["fpr"]
        by_group = {label: value for label, value, _ in rates}
        return by_group[OLDER] - sum(v for label, v in by_group.items() if label != OLDER)

    multiple = bisect(excess, 0.0, 1.0, xtol=1e-6)
    return Outcome(combined(multiple), seconds, models=2, note=f"multiple {multiple:.4f}")


def paper_model(task: Task, fnr: float, learning_rate: float) -> Outcome:
    """Algorithm 1 with the global bounds that shift the operating point to 0.5."""
    model = FairGBMClassifier.paper(
        task.engine(),
        constraint=[parity("fpr", 0.0), bound("fpr", TARGET), bound("fnr", fnr)],
        multiplier_learning_rate=learning_rate,
        random_state=task.seed,
    )
    found = fitted(task, model, task.train, sensitive_features=task.train.s)
    note = f"FNR target {fnr}, multiplier learning rate {learning_rate}"
    return Outcome(found.proba, found.seconds, own=0.5, note=note)


def paper(task: Task) -> Outcome:
    grid = product(FNR_TARGETS, LEARNING_RATES)
    return best_of(task, (paper_model(task, *options) for options in grid))


def paper_defaults(task: Task) -> Outcome:
    """One model: the target in the middle of the paper's range, the default learning rate."""
    return paper_model(task, FNR_TARGETS[1], LEARNING_RATES[1])


def reference_model(task: Task, fnr: float, learning_rate: float) -> Outcome:
    judged = task.judged()
    options = {
        "constraint_type": "FPR",
        "constraint_fpr_tolerance": 0.0,
        "global_constraint_type": "FPR,FNR",
        "global_target_fpr": TARGET,
        "global_target_fnr": fnr,
        "multiplier_learning_rate": learning_rate,
        "n_jobs": task.n_jobs,
        "random_state": task.seed,
        "verbose": -1,
        **task.options,
    }
    parts = [rows.X for rows in judged.values()]
    found = run_reference(task.reference_python, task.train, parts, options)
    cuts = np.cumsum([len(rows) for rows in judged.values()])[:-1]
    return Outcome(
        dict(zip(judged, np.split(found["proba"], cuts), strict=True)),
        found["seconds"],
        own=0.5,
        note=f"FNR target {fnr}, multiplier learning rate {learning_rate}",
        version=found["version"],
    )


def reference(task: Task) -> Outcome:
    grid = product(FNR_TARGETS, LEARNING_RATES)
    return best_of(task, (reference_model(task, *options) for options in grid))


def ours(task: Task, estimator=None, rows: Rows | None = None, **more) -> Outcome:
    """One fit at the operating point."""
    held = more.pop("held", None)
    if held is not None:
        more["holdout_set"] = held.X, held.y, held.s
    rows = task.train if rows is None else rows
    model = FairGBMClassifier(
        task.engine() if estimator is None else estimator,
        constraint=more.pop("constraint", CONSTRAINT),
        tolerance=TOLERANCE,
        operating_point=POINT,
        random_state=task.seed,
        holdout=more.pop("holdout", "auto"),
    )
    found = fitted(task, model, rows, sensitive_features=rows.s, **more)
    seen = model._measured.realised  # the rows behind the threshold: the report has them in words
    note = f"{model.best_iteration_} trees"
    return Outcome(found.proba, found.seconds, model.threshold_, seen.rows, note=note)


def plain_own(task: Task) -> Outcome:
    """Plain LightGBM with a threshold from rows held out of training, as fairboost has one."""
    return ours(task, constraint=None)


def fairboost(task: Task) -> Outcome:
    return ours(task)


def fairboost_validation(task: Task) -> Outcome:
    """The validation rows held out, in place of a share of the training rows."""
    return ours(task, held=task.validation)


def fairboost_both(task: Task) -> Outcome:
    """Rates read on the validation rows and on a share of the training rows."""
    return ours(task, held=task.validation, holdout=SHARE)


def fairboost_long(task: Task) -> Outcome:
    """The same with as many trees in its one model as paper mode grows in all of its own."""
    trees = task.options["n_estimators"] * len(FNR_TARGETS) * len(LEARNING_RATES)
    return fairboost_both(replace(task, options={**task.options, "n_estimators": trees}))


def fairboost_stage(task: Task) -> Outcome:
    """A plain model, frozen, and a short stage on it; rates are read on rows neither has seen."""
    order = np.random.default_rng([task.seed, 4]).permutation(len(task.train))
    cut = round(SHARE * len(order))
    held, rows = task.train.take(np.sort(order[:cut])), task.train.take(np.sort(order[cut:]))
    start = time.perf_counter()
    base = task.engine().fit(rows.X, rows.y)
    seconds = time.perf_counter() - start
    found = ours(task, FrozenEstimator(base), rows, held=held)
    return replace(found, seconds=seconds + found.seconds, models=2)


Method = Callable[[Task], Outcome]

METHODS: dict[str, Method] = {
    PLAIN: plain,
    PLAIN_OWN: plain_own,
    PREVALENCE: resampled,
    GS: grid_search,
    RS: random_search,
    TWO_MODELS: two_models,
    PAPER: paper,
    PAPER_DEFAULTS: paper_defaults,
    REFERENCE: reference,
    OURS: fairboost,
    STAGE: fairboost_stage,
    VALIDATION: fairboost_validation,
    BOTH: fairboost_both,
    LONG: fairboost_long,
}


def fingerprint(task: Task) -> str:
    """Of the rows: results of data that have changed since must not be mixed."""
    found = 0
    for rows in (task.train, *task.judged().values()):
        hashes = pd.util.hash_pandas_object(rows.X.iloc[::97], index=False).to_numpy()
        found = zlib.crc32(rows.y.tobytes(), zlib.crc32(hashes.tobytes(), found))
    return f"{found:08x}"


def _source() -> str:
    """Fingerprint of the package's own code, but for the data."""
    folder = Path(package.__file__).parent
    files = sorted(p for p in folder.rglob("*.py") if p.parent.name != "datasets")
    return f"{zlib.crc32(b''.join(p.read_bytes() for p in files)):08x}"


SOURCE = _source()  # as it was imported: files may change in the hours of a run


def measured(task: Task, found: Outcome) -> dict:
    """Rates at every threshold that is of interest, on all rows that are judged.

    The thresholds are the one of 5% FPR on the validation rows, the one of 5% FPR on the very
    rows that are judged (what ranks models, whatever drift does to their FPR), and the model's
    own.
    """
    judged, chosen = task.judged(), {}
    held = task.validation
    chosen["validation"] = threshold_at(held.y, found.proba["validation"], POINT)
    if found.own is not None:
        chosen["own"] = found.own
    at = {
        where: {part: rates_at(rows, found.proba[part], t) for part, rows in judged.items()}
        for where, t in chosen.items()
    }
    at["itself"] = {
        part: rates_at(rows, found.proba[part], threshold_at(rows.y, found.proba[part], POINT))
        for part, rows in judged.items()
    }
    return {
        "seconds": found.seconds,
        "models": found.models,
        "held_out": found.held_out,
        "thresholds": chosen,
        "at": at,
        "note": found.note,
        "candidates": found.candidates,
        "data": fingerprint(task),
        "source": SOURCE,
        "version": found.version,
    }
