"""Thresholds by inferred group (OxonFair; Delaney et al., 2024), written from the paper.

A second model says which group a row is most likely of, and every inferred group has a threshold
of its own. Thresholds are chosen on rows that neither model has seen, whose true groups are known:
of all combinations the most accurate one whose rates of *true* groups are within the tolerance.
At prediction no group is needed.

The numbers of rows of each true group and label that are decided positively are sums over inferred
groups, each of which is looked up in a table of cumulative counts. So a combination costs a few
additions, and all combinations of a grid are tried, as in the paper. The paper's cost grows
exponentially in the number of groups; so does this one.

What departs from the paper: a grid has at most some 250,000 combinations, and is narrowed around
the best one until it has every distinct threshold there. Where no combination is within the
tolerance, the one of smallest gap is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray, IntArray
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.task import LABELS, Found, Task

MOST_GROUPS = 6
MOST_COMBINATIONS = 250_000
NARROWER = 0.35
"""How far a grid reaches around the best combination, as a share of the reach before."""


@dataclass(frozen=True)
class Counts:
    """Positive decisions in one inferred group at each of its thresholds.

    Parameters
    ----------
    threshold : (k,) float64
        Falling; the first decides about no one positively, the last about everyone.
    positive : (k, n_groups, 2) float64
        Rows of each true group and label that are decided positively.
    """

    threshold: FloatArray
    positive: FloatArray


def cumulative(score: FloatArray, y: IntArray, codes: IntArray, n_groups: int) -> Counts:
    """Counts at all distinct thresholds.

    Parameters
    ----------
    score, y, codes : (n,) arrays
        Scores, labels and true groups of the rows of an inferred group; a code of -1 is counted
        in no group, and the table has a last line for it.
    n_groups : int
        True groups.
    """
    order = np.argsort(-score, kind="stable")
    cells = np.zeros((len(score), n_groups + 1, 2))
    cells[np.arange(len(score)), codes[order], y[order]] = 1.0  # -1 is the last line
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))
    positive = np.concatenate([np.zeros((1, n_groups + 1, 2)), np.cumsum(cells, axis=0)[last]])
    return Counts(np.append(np.inf, score[order][last]), positive)


def best_thresholds(counts: list[Counts], constraint: str, tolerance: float) -> FloatArray:
    """The most accurate combination within the tolerance, a threshold per inferred group.

    Parameters
    ----------
    counts : list of Counts
        Of each inferred group.
    constraint : str
        By name.
    tolerance : float
        How far apart the rates of true groups may be.
    """
    totals = np.sum([c.positive[-1] for c in counts], axis=0)
    size = max(2, int(MOST_COMBINATIONS ** (1 / len(counts))))
    low, high = np.zeros(len(counts)), np.array([len(c.threshold) - 1.0 for c in counts])
    ends, best, found = high.copy(), (np.inf, 0.0), low.astype(int)
    while True:
        grids = [
            np.unique(np.rint(np.linspace(a, b, size)).astype(int))
            for a, b in zip(low, high, strict=True)
        ]
        tables = [c.positive[g] for c, g in zip(counts, grids, strict=True)]
        value, at = _try_all(tables, totals, constraint, tolerance)
        if value < best:
            best, found = value, np.array([g[k] for g, k in zip(grids, at, strict=True)])
        if all(len(g) == b - a + 1 for g, a, b in zip(grids, low, high, strict=True)):
            return np.array([c.threshold[k] for c, k in zip(counts, found, strict=True)])
        reach = np.ceil(NARROWER * (high - low) / 2)
        low, high = np.maximum(found - reach, 0), np.minimum(found + reach, ends)


def _try_all(
    tables: list[FloatArray], totals: FloatArray, constraint: str, tolerance: float
) -> tuple[tuple[float, float], tuple[int, ...]]:
    """The best of all combinations: its gap beyond the tolerance and its errors, and where."""
    shape = tuple(len(table) for table in tables)
    known = slice(len(totals) - 1)  # the last line is of rows without a group

    def summed(cells: list[FloatArray]) -> FloatArray:
        total = np.zeros(shape)
        for axis, one in enumerate(cells):
            total += one.reshape([-1 if k == axis else 1 for k in range(len(shape))])
        return total

    gap = np.zeros(shape)
    for label in LABELS[constraint]:
        which = slice(None) if label is None else slice(label, label + 1)
        rates = [
            summed([table[:, g, which].sum(axis=1) for table in tables]) / whole
            for g, whole in enumerate(totals[known, which].sum(axis=1))
        ]
        gap = np.maximum(gap, np.max(rates, axis=0) - np.min(rates, axis=0))
    errors = totals[:, 1].sum() + summed(
        [table[:, :, 0].sum(axis=1) - table[:, :, 1].sum(axis=1) for table in tables]
    )
    beyond = np.maximum(gap - tolerance, 0.0)
    least = beyond.min()
    at = np.unravel_index(np.argmin(np.where(beyond == least, errors, np.inf)), shape)
    return (float(least), float(errors[at])), tuple(int(k) for k in at)


def inferred_groups(task: Task) -> Found:
    """Thresholds by inferred group on the engine's probabilities, chosen on rows held out."""
    learned, held = task.held_out()
    codes, groups = pd.factorize(learned.s, sort=True)
    if len(groups) > MOST_GROUPS:
        raise ValueError(
            f"thresholds by inferred group are for at most {MOST_GROUPS} groups, found "
            f"{len(groups)}: the number of combinations grows exponentially; leave the method out"
        )
    model = task.engine().fit(learned.X, learned.y)
    known = np.flatnonzero(codes >= 0)
    guess = task.engine().fit(learned.X.iloc[known], codes[known])

    def seen(rows: Rows) -> tuple[FloatArray, IntArray]:
        likely = np.asarray(guess.predict_proba(rows.X))
        return np.asarray(model.predict_proba(rows.X))[:, 1], guess.classes_[likely.argmax(axis=1)]

    score, inferred = seen(held)
    true = pd.Index(groups).get_indexer(pd.Index(held.s))
    counts = [
        cumulative(score[mine], held.y[mine], true[mine], len(groups))
        for mine in (inferred == g for g in range(len(groups)))
    ]
    thresholds = best_thresholds(counts, task.constraint, task.tolerance)

    def decide(rows: Rows) -> Predictions:
        score, inferred = seen(rows)
        return Predictions(decision=score >= thresholds[inferred])

    return decide
