"""What ``benchmarks.regression`` compares: tables, methods and measures.

Every seed draws rows anew. All methods get the same training rows and are judged on the same test
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

from benchmarks.regression_peers import (
    TREES,
    Rows,
    engine,
    reduction,
    shift,
    transport,
    unlabeled,
)
from fairboost import FairGBMRegressor, parity
from fairboost.datasets.numbers import NumberTable, load_numbers

SEEDS, TOLERANCE = 5, 0.02
ACS_ROWS, SAMPLE_ROWS = (80_000, 20_000), (20_000, 80_000)
RACES = {1: "1", 2: "2", 3: "3-5", 4: "3-5", 5: "3-5", 6: "6-7", 7: "6-7", 8: "8", 9: "9"}
"""Codes of RAC1P; those of a few hundred rows count with their neighbours."""
GOAL_DISTANCE, GOAL_ERROR = 0.045, 0.0087
BOUND, TRAINING_BOUND, RELATIVE = 0.90, 0.79, 0.01
WIDER, FRONTIER = (0.1,), "acs RAC1P blind"
"""A further tolerance, and the case in which it is tried."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A table, its groups, and what is tried on it.

    Parameters
    ----------
    table, column : str
        The table, and the sensitive column.
    aware : bool
        Whether sensitive columns are among the features.
    methods : dict of str to callable
        By name, from training rows, test rows and a seed to predictions for the test rows, per
        unit of exposure.
    measure : callable
        From test rows, predictions and a seed to figures.
    sizes : (int, int), optional
        Training and test rows to draw; 80% and 20% of all if left out.
    """

    table: str
    column: str
    aware: bool
    methods: dict[str, Callable[[Rows, Rows, int], np.ndarray]]
    measure: Callable[[Rows, np.ndarray, int], Record]
    sizes: tuple[int, int] | None = None

    def split(self, seed: int) -> tuple[Rows, Rows]:
        """Training and test rows."""
        table, y = read(self.table, self.aware)
        s = table.sensitive[self.column].replace(RACES).to_numpy(str)
        order = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(np.isfinite(y)))
        cut, more = self.sizes or (int(0.8 * len(order)), len(order))
        rows = Rows(table.X, y, s, table.exposure)
        return rows.take(order[:cut]), rows.take(order[cut : cut + more])


@cache
def read(name: str, aware: bool) -> tuple[NumberTable, np.ndarray]:
    """A table, and what is predicted: grades in [0, 1], log incomes (NaN: none), counts."""
    table = load_numbers(name, aware=aware)
    if name == "law_school_gpa":
        return table, table.y / 4
    if name == "acs_mobility_2018":
        return table, np.log(table.y, out=np.full(len(table.y), np.nan), where=table.y > 0)
    return table, table.y


# Methods


def plain(train: Rows, test: Rows, seed: int) -> np.ndarray:
    if train.exposure is None:
        return np.asarray(engine(seed).fit(train.X, train.y).predict(test.X))
    # Claims per year weighted by years have the gradient of counts with an offset.
    rates = engine(seed, "poisson").fit(
        train.X, train.y / train.exposure, sample_weight=train.exposure
    )
    return np.asarray(rates.predict(test.X))


def constrained(
    constraint: Any,
    tolerance: float | None,
    train: Rows,
    test: Rows,
    seed: int,
    holdout: str | float = "auto",
) -> np.ndarray:
    objective = "regression" if train.exposure is None else "poisson"
    model = FairGBMRegressor(
        engine(seed, objective),
        constraint=constraint,
        tolerance=tolerance,
        holdout=holdout,
        random_state=seed,
    )
    model.fit(train.X, train.y, sensitive_features=train.s, exposure=train.exposure)
    return model.predict(test.X)


# Measures


def distance(predicted: np.ndarray, s: np.ndarray) -> float:
    """The largest difference of a group's distribution function from everyone's."""
    ranked = np.sort(predicted)
    everyone = np.searchsorted(ranked, ranked, side="right") / len(ranked)
    apart = []
    for g in np.unique(s):
        own = np.sort(predicted[s == g])
        apart.append(
            np.abs(np.searchsorted(own, ranked, side="right") / len(own) - everyone).max()
        )
    return float(max(apart))


def excess_of_shares(predicted: np.ndarray, s: np.ndarray) -> float:
    """How far shares above quantiles are apart beyond the tolerance, in standard errors, squared.

    A mean over groups and the 15 quantiles at which ``equal_distributions`` compares groups.
    """
    levels, squares = np.arange(1, 16) / 16, []
    thresholds = np.quantile(predicted, levels)
    everyone = (predicted[:, np.newaxis] > thresholds).mean(axis=0)
    for g in np.unique(s):
        own = (predicted[s == g][:, np.newaxis] > thresholds).mean(axis=0)
        beyond = np.maximum(np.abs(own - everyone) - TOLERANCE, 0.0)
        squares.append(beyond**2 / (levels * (1 - levels) / (s == g).sum()))
    return float(np.mean(squares))


def of_numbers(test: Rows, predicted: np.ndarray, seed: int) -> Record:
    """Squared error, distance, what chance alone makes of it, gap of means and excesses."""
    rng, groups = np.random.default_rng([seed, 2]), np.unique(test.s)
    excesses, errors = [], (predicted - test.y) ** 2
    for g in groups:
        own = predicted[test.s == g]
        beyond = max(abs(own.mean() - predicted.mean()) - TOLERANCE / 2, 0.0)
        excesses.append(float(beyond / (own.std(ddof=1) / np.sqrt(len(own)))))
    by_chance = [distance(predicted, rng.permutation(test.s)) for _ in range(10)]
    group_errors = [float(errors[test.s == g].mean()) for g in groups]
    return {
        "error": float(errors.mean()),
        "worst error": max(group_errors),
        "gap of errors": float(np.ptp(group_errors)),
        "distance": distance(predicted, test.s),
        "chance": float(np.mean(by_chance)),
        "gap": float(np.ptp([predicted[test.s == g].mean() for g in groups])),
        "squared excess": float(np.mean(np.square(excesses))),
        "squared excess of shares": excess_of_shares(predicted, test.s),
    }


def of_counts(test: Rows, rates: np.ndarray, seed: int) -> Record:
    """Deviance, actual over expected by group, the gap of rates, and their sampling errors."""
    assert test.exposure is not None
    expected, found, groups = rates * test.exposure, {}, np.unique(test.s)
    means, variances, excesses = [], [], []
    for g in groups:
        own, total = test.s == g, expected[test.s == g].sum()
        ratio = float(test.y[own].sum() / total)
        noise = float(np.sqrt(((test.y - ratio * expected)[own] ** 2).sum()) / total)
        found |= {f"A/E {g}": ratio, f"noise {g}": noise}
        excesses.append(max(abs(ratio - 1.0) - RELATIVE, 0.0) / noise)
        weight = test.exposure[own]
        means.append(np.average(rates[own], weights=weight))
        variances.append((weight**2 @ (rates[own] - means[-1]) ** 2) / weight.sum() ** 2)
    agreed = xlogy(test.y, test.y / expected) - test.y + expected
    pooled = np.average(rates, weights=test.exposure)
    apart, noise = (means[0] - means[1]) / pooled, np.sqrt(sum(variances)) / pooled
    return {
        **found,
        "squared excess": float(np.mean(np.square(excesses))),
        "deviance": float(2 * agreed.sum() / test.exposure.sum()),
        "women less men": float(apart),
        "noise of the gap": float(noise),
        "squared excess of rates": float(max(abs(apart) - RELATIVE, 0.0) / noise) ** 2,
    }


def recognised(train: Rows, test: Rows, seed: int) -> Record:
    """How well the other features predict the gender: area under the ROC curve, and R squared.

    R squared is the share of the variance of being a man that is explained; as everywhere here
    rows weigh by exposure. A small booster: one at the engine's defaults overfits.
    """
    assert train.exposure is not None
    assert test.exposure is not None
    guess = LGBMClassifier(
        n_estimators=TREES, learning_rate=0.05, num_leaves=4, n_jobs=1, random_state=seed,
        verbose=-1,
    )  # fmt: skip
    guess.fit(train.X, train.s == "Male", sample_weight=train.exposure)
    man, likely = test.s == "Male", guess.predict_proba(test.X)[:, 1]
    together = np.cov(man, likely, aweights=test.exposure)
    return {
        "auc": float(roc_auc_score(man, likely, sample_weight=test.exposure)),
        "R squared": float(together[0, 1] ** 2 / together[0, 0] / together[1, 1]),
        "variance of gender": float(together[0, 0]),
    }


def cases() -> dict[str, Case]:
    """All that is compared, by name."""
    alike = {
        f"equal_distributions, {t:g}": partial(constrained, "equal_distributions", t)
        for t in (0.0, 0.02, 0.05)
    }
    peers = {"transport, sees the group": transport}
    blind = {"unlabeled, draws": unlabeled}
    both = {
        f"{name}, {TOLERANCE:g}": partial(constrained, name, TOLERANCE)
        for name in ("equal_means", "equal_distributions")
    }
    frontier = {f"equal_means, {t:g}": partial(constrained, "equal_means", t) for t in WIDER} | {
        f"shift, {t:g}": partial(shift, t) for t in (TOLERANCE, *WIDER)
    }
    bounded = {
        f"bounded_group_loss, {BOUND:g}": partial(constrained, "bounded_group_loss", BOUND),
        "equal_errors, 0.06": partial(constrained, "equal_errors", 0.06),
        "equal_errors, 0.03": partial(constrained, "equal_errors", 0.03),
    }
    bounded |= {
        f"fairlearn {name}, {TRAINING_BOUND:g}": partial(reduction, kind, TRAINING_BOUND)
        for name, kind in (("GridSearch", "grid"), ("ExponentiatedGradient", "exponentiated"))
    }
    equal_rates = parity("prediction", RELATIVE, relative=True)
    counts = {
        "calibrated, 0.01": partial(constrained, "calibrated", RELATIVE, holdout=0.2),
        "calibrated, 0.01, cross": partial(constrained, "calibrated", RELATIVE, holdout="cross"),
        "equal rates, 0.01": partial(constrained, equal_rates, None),
        "equal rates, 0.01, cross": partial(constrained, equal_rates, None, holdout="cross"),
    }
    first = {"plain": plain, "loose": partial(constrained, "equal_distributions", 0.999)}
    loose_counts = partial(constrained, "calibrated", 0.99)
    first_counts = {
        "plain": plain,
        "loose": partial(loose_counts, holdout=0.2),
        "loose, cross": partial(loose_counts, holdout="cross"),
    }
    acs, motor = "acs_mobility_2018", "motor_policies_2009"
    found = {
        "law": Case("law_school_gpa", "race", False, first | alike | peers | blind, of_numbers),
        "acs bounded": Case(acs, "SEX", False, first | bounded, of_numbers, SAMPLE_ROWS),
    }
    for aware, word in ((False, "blind"), (True, "aware")):
        others = peers if aware else peers | blind
        found[f"motor {word}"] = Case(motor, "Gender", aware, first_counts | counts, of_counts)
        for column in ("SEX", "RAC1P"):
            found[f"acs {column} {word}"] = Case(
                acs, column, aware, first | both | others, of_numbers, ACS_ROWS
            )
    found[FRONTIER] = replace(found[FRONTIER], methods=found[FRONTIER].methods | frontier)
    return found
