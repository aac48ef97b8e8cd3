"""Generated data of 3 to 20 classes and 2 to 20 groups, for which the best fair model is known.

A row has a band of u, a certainty a of at least 0.35 and at most 0.95, and a group, which favours
a class. Its label is its band with probability a, and the class of its group otherwise. Without a
constraint the class of the group is best where a is below one half. Where every class is to be
given equally often in every group, giving everyone their band is best: a group that gives its
class to one row more gains at most 1 - 2 * 0.35, and others, at least as many, then lose at least
0.35.
"""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier

LEAST, MOST = 0.35, 0.95


def draw(n, n_classes, n_groups, seed):
    """Features, labels, groups, and the answer."""
    rng = np.random.default_rng(seed)
    u, a, group = rng.random(n), rng.uniform(LEAST, MOST, n), np.arange(n) % n_groups
    band = (n_classes * u).astype(int)
    y = np.where(rng.random(n) < a, band, group % n_classes)
    return np.column_stack([u, a, group]), y, group, band


def largest_gap(given, group, n_classes):
    """Of the share of any class, between two groups."""
    shares = [
        [np.mean(given[group == g] == k) for g in np.unique(group)] for k in range(n_classes)
    ]
    return np.ptp(shares, axis=1).max()


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("n_groups", [2, 20])
@pytest.mark.parametrize("n_classes", [3, 20])
def test_everyone_is_given_their_band(n_classes, n_groups):
    X, y, group, _ = draw(12_000, n_classes, n_groups, seed=0)
    new_X, new_y, new_group, band = draw(40_000, n_classes, n_groups, seed=1)
    engine = LGBMClassifier(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(
        engine, constraint="demographic_parity", tolerance=0.02, holdout=0.3, random_state=0
    )
    given = model.fit(X, y, sensitive_features=group).predict(new_X)
    plain = engine.fit(X, y).predict(new_X)
    chance = largest_gap(band, new_group, n_classes)
    assert largest_gap(plain, new_group, n_classes) > 0.2
    limit = 0.03 + chance * np.sqrt(1 + 40_000 / (0.3 * 12_000))  # held-out rows are few
    assert largest_gap(given, new_group, n_classes) < limit
    assert np.mean(given == new_y) > np.mean(band == new_y) - 0.05
    assert np.mean(given == band) > np.mean(plain == band) + 0.08
