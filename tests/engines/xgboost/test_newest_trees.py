"""Trees read off the binary model are those that XGBoost gives by the round."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

from fairboost.engines.xgboost import newest_trees as module
from fairboost.engines.xgboost.model_json import read_trees
from fairboost.engines.xgboost.newest_trees import newest_trees


def grown(names=None, **told):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + rng.normal(size=400) > 0
    matrix = xgboost.DMatrix(X, y, feature_names=names)
    params = {"objective": "binary:logistic", "nthread": 1, "subsample": 0.7, **told}
    return matrix, xgboost.Booster(params, [matrix])


def by_the_round(booster):
    last = booster.num_boosted_rounds() - 1
    return [nodes for _, nodes in read_trees(booster[last : last + 1].save_raw("json"))]


def check_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "told",
    [
        {"max_depth": 4},
        {"max_depth": 8, "grow_policy": "lossguide", "max_leaves": 40},
        {"gamma": 1e9},  # a root alone
        {"num_parallel_tree": 3, "max_depth": 2},
    ],
)
def test_the_trees_of_the_last_round(told):
    matrix, booster = grown(**told)
    for k in range(4):
        booster.update(matrix, k)
        found = newest_trees(booster, told.get("num_parallel_tree", 1))
        check_same(found, by_the_round(booster))


def test_names_of_features_are_not_taken_for_trees():
    names = ["left_children[$l#L", "base_weights[$d#L", "split_conditions[$d#L\0\0\0\0\0\0\0\1"]
    matrix, booster = grown([name.replace("[", "(") for name in names])
    booster.feature_names = None  # XGBoost refuses brackets in matrices, not in attributes
    booster.set_attr(**{f"a{k}": name for k, name in enumerate(names)})
    booster.update(matrix, 0)
    check_same(newest_trees(booster), by_the_round(booster))


@pytest.mark.parametrize("unknown", [b"d", b"l", b"U"])
def test_a_format_that_is_not_known_is_left_to_json(monkeypatch, unknown):
    known = {name: kind for name, kind in module._TYPES.items() if name != unknown}
    monkeypatch.setattr(module, "_TYPES", known)
    matrix, booster = grown(num_parallel_tree=2, max_depth=3)
    for k in range(2):
        booster.update(matrix, k)
    check_same(newest_trees(booster, 2), by_the_round(booster))
