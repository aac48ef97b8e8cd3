"""The most accurate group thresholds at a tolerance (Cruz and Hardt, 2023), from the paper.

A score and the group are known. A threshold of a group is a point (false positive rate, true
positive rate) of the group's ROC curve, and a random draw between thresholds reaches any point of
the hull of these. Errors and rates are linear in the point, so the best choice is a linear program
in the weights of the corners of each group's hull::

    minimise   sum_g  P(g, 0) fpr_g + P(g, 1) (1 - tpr_g)
    subject to | rate_g - q | <= tolerance / 2      for all groups and constrained rates, q free

With no bound on the gap it is the best threshold of every group. As no rule that sees this score
and the group can be more accurate at the same gap on the same rows, it is the ceiling for models
that see the group. Rates that are bounded are the constraint's own; the paper is about both error
rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.task import LABELS, Found, Task

SMALLEST_WEIGHT = 1e-9


@dataclass(frozen=True)
class Corners:
    """Corners of the hull of a ROC curve, from no positive decision to nothing else.

    Parameters
    ----------
    threshold : (k,) float64
        Scores from here on are decided positively; infinite at the first corner.
    fpr, tpr : (k,) float64
        The rates.
    n : (2,) float64
        Rows of label 0 and of label 1.
    """

    threshold: FloatArray
    fpr: FloatArray
    tpr: FloatArray
    n: FloatArray

    def rate(self, label: int | None) -> FloatArray:
        """Share of positive decisions among rows of a label, or among all rows."""
        if label is not None:
            return (self.fpr, self.tpr)[label]
        share = self.n / self.n.sum()
        everyone: FloatArray = share[0] * self.fpr + share[1] * self.tpr
        return everyone


def roc_hull(score: FloatArray, y: IntArray) -> Corners:
    """Corners of the upper hull of a ROC curve.

    Parameters
    ----------
    score : (n,) float64
        The larger, the more likely positive.
    y : (n,) int
        Labels 0 and 1, both of which are there.

    Examples
    --------
    >>> roc_hull(np.array([0.1, 0.4, 0.5, 0.9]), np.array([0, 1, 0, 1])).fpr
    array([0. , 0. , 0.5, 1. ])
    """
    order = np.argsort(-score, kind="stable")
    score, y = score[order], y[order]
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)  # equal scores go together
    counts = np.stack([np.cumsum(y == label)[last] for label in (0, 1)]).astype(np.float64)
    counts = np.concatenate([np.zeros((2, 1)), counts], axis=1)
    kept: list[int] = []
    for k in range(counts.shape[1]):
        while len(kept) > 1 and _turns_left(*(counts[:, j] for j in (*kept[-2:], k))):
            kept.pop()
        kept.append(k)
    n = counts[:, -1]
    fpr, tpr = counts[:, kept] / n[:, None]
    return Corners(np.append(np.inf, score[last])[kept], fpr, tpr, n)


def _turns_left(a: FloatArray, b: FloatArray, c: FloatArray) -> bool:
    """Whether b lies below or on the line from a to c."""
    return bool((b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0]))


def best_weights(hulls: list[Corners], constraint: str, tolerance: float) -> list[FloatArray]:
    """Weights of the corners of each group: with which probability each threshold is drawn.

    Parameters
    ----------
    hulls : list of Corners
        One for each group.
    constraint : str
        By name.
    tolerance : float
        How far apart two groups may be.
    """
    sizes = [len(hull.fpr) for hull in hulls]
    cuts = np.cumsum([0, *sizes])
    labels = LABELS[constraint]
    n, total = sum(hull.n.sum() for hull in hulls), int(cuts[-1])
    cost = np.concatenate(
        [(h.n[0] * h.fpr + h.n[1] * (1 - h.tpr)) / n for h in hulls] + [np.zeros(len(labels))]
    )
    rates = np.zeros((len(labels) * len(hulls), len(cost)))
    whole = np.zeros((len(hulls), len(cost)))
    for g, hull in enumerate(hulls):
        mine = slice(cuts[g], cuts[g + 1])
        whole[g, mine] = 1.0
        for j, label in enumerate(labels):
            rates[j * len(hulls) + g, mine] = hull.rate(label)
            rates[j * len(hulls) + g, total + j] = -1.0
    solved = linprog(
        cost, np.concatenate([rates, -rates]), np.full(2 * len(rates), tolerance / 2), whole,
        np.ones(len(hulls)), (0, None), method="highs",
    )  # fmt: skip
    if solved.x is None:
        raise RuntimeError(f"the linear program was not solved: {solved.message}")
    weights = np.split(
        np.where(solved.x[:total] > SMALLEST_WEIGHT, solved.x[:total], 0), cuts[1:-1]
    )
    return [weight / weight.sum() for weight in weights]


@dataclass(frozen=True)
class GroupThresholds:
    """Thresholds of groups, between which decisions are drawn.

    Parameters
    ----------
    groups : Index
        The groups.
    hulls : list of Corners
        Of each group.
    weights : list of arrays
        Of the corners of each hull.
    """

    groups: pd.Index
    hulls: list[Corners]
    weights: list[FloatArray]

    @classmethod
    def fit(
        cls, score: FloatArray, y: IntArray, s: pd.Series, constraint: str, tolerance: float
    ) -> GroupThresholds:
        """The most accurate ones on some rows; rows without a group do not count."""
        codes, groups = pd.factorize(s, sort=True)
        hulls = []
        for code, group in enumerate(groups):
            mine = codes == code
            if len(np.unique(y[mine])) < 2:
                raise ValueError(
                    f"all {mine.sum()} rows of group {group!r} have the same label, and a ROC "
                    "curve needs both; merge groups, or hold out more rows"
                )
            hulls.append(roc_hull(score[mine], y[mine]))
        return cls(pd.Index(groups), hulls, best_weights(hulls, constraint, tolerance))

    def decide(self, score: FloatArray, s: pd.Series, seed: int) -> BoolArray:
        """Decisions; a row of no known group is decided at a probability of one half."""
        codes, drawn = self.groups.get_indexer(pd.Index(s)), np.random.default_rng([seed, 5])
        threshold, luck = np.full(len(score), 0.5), drawn.random(len(score))
        for code, (hull, weight) in enumerate(zip(self.hulls, self.weights, strict=True)):
            mine = codes == code
            place = np.searchsorted(np.cumsum(weight)[:-1], luck[mine], side="right")
            threshold[mine] = hull.threshold[place]
        return score >= threshold


def group_frontier(task: Task) -> Found:
    """Group thresholds on the engine's probabilities, chosen on rows that it has not seen."""
    learned, held = task.held_out()
    model = task.engine().fit(learned.X, learned.y)

    def score(rows: Rows) -> FloatArray:
        return np.asarray(model.predict_proba(rows.X))[:, 1]

    found = GroupThresholds.fit(score(held), held.y, held.s, task.constraint, task.tolerance)
    return lambda rows: Predictions(decision=found.decide(score(rows), rows.s, task.seed))
