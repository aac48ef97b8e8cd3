"""Thresholds by inferred group are those that trying all of them finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from fairboost.study import Rows, Task, inferred_groups
from fairboost.study.config import MetricsConfig
from fairboost.study.inferred_groups import best_thresholds, cumulative
from fairboost.study.task import LABELS


def drawn(seed, n, groups):
    """Scores, labels, true and inferred groups; the last are wrong for a third of the rows."""
    rng = np.random.default_rng(seed)
    true = np.arange(n) % groups
    inferred = np.where(rng.random(n) < 1 / 3, rng.integers(0, groups, n), true)
    y = (rng.random(n) < 0.3 + 0.4 * true / groups).astype(int)
    score = np.round(np.clip(rng.normal(0.35 + 0.3 * y, 0.2), 0, 1), 2)
    return score, y, true, inferred


def figures(decided, y, true, constraint):
    known = true >= 0
    gaps = []
    for label in LABELS[constraint]:
        who = known if label is None else known & (y == label)
        gaps.append(np.ptp([decided[who & (true == g)].mean() for g in range(true.max() + 1)]))
    return int((decided == y).sum()), max(gaps)


def fitted(score, y, true, inferred, constraint, tolerance):
    n_groups = true.max() + 1
    counts = [
        cumulative(score[inferred == g], y[inferred == g], true[inferred == g], n_groups)
        for g in range(n_groups)
    ]
    return best_thresholds(counts, constraint, tolerance)


@pytest.mark.parametrize("constraint", LABELS)
@pytest.mark.parametrize(("groups", "n"), [(2, 60), (3, 45)])
@pytest.mark.parametrize("tolerance", [0.02, 0.2])
def test_no_other_combination_is_better(constraint, groups, n, tolerance):
    score, y, true, inferred = drawn(groups, n, groups)
    true[0] = -1  # a row without a group counts in the accuracy alone
    thresholds = fitted(score, y, true, inferred, constraint, tolerance)
    right, gap = figures(score >= thresholds[inferred], y, true, constraint)
    beyond = max(gap - tolerance, 0)
    cuts = [np.append(np.unique(score[inferred == g]), np.inf) for g in range(groups)]
    for combination in product(*cuts):
        others, gap = figures(score >= np.array(combination)[inferred], y, true, constraint)
        other_beyond = max(gap - tolerance, 0)
        assert (other_beyond, -others) >= (beyond - 1e-12, -right if other_beyond <= beyond else 0)


def test_a_grid_that_is_narrowed_comes_close(monkeypatch):
    score, y, true, inferred = drawn(7, 4_000, 2)
    score = score + np.random.default_rng(0).uniform(0, 0.01, len(score))  # 4,000 thresholds
    exact = fitted(score, y, true, inferred, "equal_opportunity", 0.02)
    monkeypatch.setattr(inferred_groups, "MOST_COMBINATIONS", 2_500)
    near = fitted(score, y, true, inferred, "equal_opportunity", 0.02)
    (best, _), (found, gap) = (
        figures(score >= t[inferred], y, true, "equal_opportunity") for t in (exact, near)
    )
    assert gap <= 0.02 and best >= found > best - 20


def test_many_groups_are_refused():
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"x": rng.normal(size=200)}), rng.integers(0, 2, 200)
    task = Task(Rows(X, y, pd.Series(np.arange(200) % 8)), MetricsConfig())
    with pytest.raises(ValueError, match="at most 6 groups, found 8"):
        inferred_groups.inferred_groups(task)
    assert replace(task, seed=1).held_out()[1].s.nunique() == 8
