"""Group thresholds are the best that scores and groups allow."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from fairboost.study.group_frontier import GroupThresholds, best_weights, roc_hull
from fairboost.study.task import LABELS


def scored(seed, n=14, groups=2):
    rng = np.random.default_rng(seed)
    s = np.arange(n * groups) % groups
    y = (rng.random(n * groups) < 0.35 + 0.3 * s / groups).astype(int)
    y[: 2 * groups] = np.repeat([0, 1], groups)  # both labels are in every group
    score = np.round(np.clip(rng.normal(0.35 + 0.3 * y, 0.2), 0, 1), 2)  # ties among them
    return score, y, pd.Series(s)


def figures(decisions, y, s, constraint):
    """Accuracy and gap, where decisions are probabilities."""
    gaps = []
    for label in LABELS[constraint]:
        who = np.ones(len(y), bool) if label is None else y == label
        gaps.append(np.ptp([decisions[who & (s == g)].mean() for g in np.unique(s)]))
    return float((decisions * y + (1 - decisions) * (1 - y)).mean()), max(gaps)


def expected(found, score, s):
    """The probability of a positive decision for each row."""
    out = np.zeros(len(score))
    for code, (hull, weight) in enumerate(zip(found.hulls, found.weights, strict=True)):
        mine = (s == code).to_numpy()
        out[mine] = (score[mine][:, None] >= hull.threshold) @ weight
    return out


@pytest.mark.parametrize("constraint", LABELS)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_mixtures_are_at_least_as_good_as_any_pair_of_thresholds(constraint, tolerance, seed):
    score, y, s = scored(seed)
    found = GroupThresholds.fit(score, y, s, constraint, tolerance)
    best, gap = figures(expected(found, score, s), y, s, constraint)
    assert gap <= tolerance + 1e-9
    cuts = np.append(np.unique(score), np.inf)
    for pair in product(cuts, repeat=2):
        accuracy, gap = figures((score >= np.array(pair)[s]).astype(float), y, s, constraint)
        assert gap > tolerance + 1e-9 or accuracy <= best + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_equal_opportunity_by_force(seed):
    score, y, s = scored(seed, 30)
    hulls = [roc_hull(score[s == g], y[s == g]) for g in (0, 1)]
    errors = [
        sum(h.n[1] * (1 - t) + h.n[0] * np.interp(t, h.tpr, h.fpr) for h in hulls)
        for t in np.linspace(0, 1, 20_001)
    ]
    found = GroupThresholds.fit(score, y, s, "equal_opportunity", 0.0)
    accuracy, _ = figures(expected(found, score, s), y, s, "equal_opportunity")
    assert 1 - accuracy == pytest.approx(min(errors) / len(y), abs=1e-4)


def test_without_a_bound_it_is_the_best_threshold_of_each_group():
    score, y, s = scored(5, 40)
    found = GroupThresholds.fit(score, y, s, "equalized_odds", 1.0)
    accuracy, _ = figures(expected(found, score, s), y, s, "equalized_odds")
    right = 0
    for g in (0, 1):
        mine = (s == g).to_numpy()
        cuts = np.append(np.unique(score[mine]), np.inf)
        right += max(int(((score[mine] >= cut) == y[mine]).sum()) for cut in cuts)
    assert accuracy == pytest.approx(right / len(y))


def test_the_hull_of_a_curve():
    hull = roc_hull(np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 0, 1, 0]))
    np.testing.assert_array_equal(hull.threshold, [np.inf, 0.9, 0.7, 0.6])
    np.testing.assert_array_equal(hull.tpr, [0, 0.5, 1, 1])
    assert [len(w) for w in best_weights([hull], "equalized_odds", 0.0)] == [4]


def test_draws_have_the_rates_that_were_chosen():
    score, y, s = scored(1)
    found = GroupThresholds.fit(score, y, s, "demographic_parity", 0.0)
    many = np.tile(score, 2_000), pd.Series(np.tile(s, 2_000))
    drawn = found.decide(*many, 0).reshape(2_000, -1).mean(axis=0)
    np.testing.assert_allclose(drawn, expected(found, score, s), atol=0.05)
    np.testing.assert_array_equal(found.decide(*many, 3), found.decide(*many, 3))
    unknown = found.decide(np.array([0.49, 0.5]), pd.Series([None, "new"]), 0)
    np.testing.assert_array_equal(unknown, [False, True])


def test_a_group_of_one_label_is_refused():
    score, y, s = scored(0)
    y[(s == 1).to_numpy()] = 1
    with pytest.raises(ValueError, match="rows of group 1 have the same label"):
        GroupThresholds.fit(score, y, s, "demographic_parity", 0.1)
