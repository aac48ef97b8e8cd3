"""A model that XGBoost would crash on, or never finish with, does not reach it."""

import json

import numpy as np
import pandas as pd
import pytest

from fairboost.exceptions import ModelFileError
from tests.kinds import KINDS

pytest.importorskip("xgboost")

from fairboost.engines.xgboost.soundness import split_points

XGBOOST = KINDS["xgboost"]


@pytest.fixture
def document(toy):
    fitted = XGBOOST.make(n_estimators=3).fit(toy.frame, toy.y)
    return json.loads(fitted.get_booster().save_raw("json").decode())


def model_of(document):
    return document["learner"]["gradient_booster"]["model"]


def in_tree(name, place, value):
    def change(document):
        tree = next(t for t in model_of(document)["trees"] if t[name])
        tree[name][place] = value

    return change


def in_model(*path, value):
    def change(document):
        inside = document["learner"]
        for name in path[:-1]:
            inside = inside[name]
        inside[path[-1]] = value

    return change


def in_booster(*path, value):
    return in_model("gradient_booster", "model", *path, value=value)


def test_a_split_at_infinity_parts_missing_values_from_others(document):
    in_tree("split_conditions", 0, -float("inf"))(document)
    points = [value for values in split_points(document, 4).values() for value in values]
    assert np.isfinite(points).all()
    in_tree("split_conditions", -1, float("inf"))(document)  # of a leaf it would be the score
    with pytest.raises(ModelFileError, match="split_conditions has a number out of range"):
        split_points(document, 4)


@pytest.mark.parametrize(
    "options",
    [{}, {"booster": "dart", "rate_drop": 0.5}, {"gamma": 1e9}, {"num_parallel_tree": 3},
     {"tree_method": "exact", "enable_categorical": False, "gamma": 3.0, "max_depth": 6},
     {"grow_policy": "lossguide"}],
)  # fmt: skip
def test_what_xgboost_writes_is_sound(toy, options):
    fitted = XGBOOST.make(**options).fit(toy.X, toy.y)
    document = json.loads(fitted.get_booster().save_raw("json").decode())
    found = split_points(document, 4)
    assert set(found) <= {0, 1, 2, 3}


def test_points_are_those_of_the_trees(document, toy):
    found = split_points(document, 4)
    assert set(found[1]) <= {0.0, 1.0, 2.0, 3.0, 4.0}  # categories
    assert toy.X[:, 0].min() < found[0][0] < found[0][-1] < toy.X[:, 0].max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_tree("left_children", 0, 0), "do not form a tree|out of reach"),
        (in_tree("left_children", 0, 2), "do not form a tree|two parents|out of reach"),
        (in_tree("left_children", 0, -1), "a node has one child"),
        (in_tree("left_children", 0, 10**6), "left_children has a value outside"),
        (in_tree("right_children", 0, -7), "right_children has a value outside"),
        (in_tree("right_children", 0, 1.5), "right_children has a value that is no integer"),
        (in_tree("right_children", 0, None), "right_children has a value that is no number"),
        (in_tree("split_indices", 0, 4), "split_indices has a value outside"),
        (in_tree("split_conditions", 0, 1e39), "split_conditions has a number out of range"),
        (in_tree("split_conditions", 0, float("nan")), "split_conditions has a number out"),
        (in_tree("parents", 1, 2), "parents do not fit"),
        (in_tree("default_left", 0, 2), "default_left has a value outside"),
        (in_tree("split_type", 0, 7), "split_type has a value outside"),
        (in_tree("split_type", -1, 1), "split_type has categories in a leaf"),
        (in_tree("categories", 0, 2**31), "categories has a value outside"),
        (in_tree("categories", 0, 2**24), None),
        (in_tree("categories_nodes", 0, 10**6), "categories_nodes are not"),
        (in_tree("categories_sizes", 0, 100), "categories_sizes has a value outside"),
        (in_tree("categories_segments", 0, 1), "categories do not fit their nodes"),
        (in_booster("iteration_indptr", value=[0, 1, 2, 9]), "iteration_indptr has a value"),
        (in_booster("iteration_indptr", value=[0, 2, 1, 3]), "rounds do not fit"),
        (in_booster("iteration_indptr", value=[]), "rounds do not fit"),
        (in_booster("tree_info", value=[0, 0, 5]), "tree_info has a value outside"),
        (in_booster("gbtree_model_param", "num_trees", value="4"), "num_trees is 4"),
        (in_booster("gbtree_model_param", "num_trees", value="9" * 5_000), "num_trees is '999"),
        (in_booster("cats", "feature_segments", value=[0, 0, 9, 9, 9]), "feature_segments has"),
        (in_booster("cats", "sorted_idx", value=[0, 1, 2, 3, 99]), "sorted_idx has a value"),
        (in_booster("cats", "sorted_idx", value=[0, 1, 2, 3, 3]), "not in their order"),
        (in_booster("cats", "sorted_idx", value=[0, 1, 2, 4, 3]), "not in their order"),
        (in_booster("cats", "enc", value=[{}]), "categories do not fit the features"),
        (in_booster("weight_drop", value=[1.0]), "weight_drop"),
        (in_booster("trees", value=[{}]), "its booster is not sound"),
        (in_model("learner_model_param", "num_feature", value="3000000"), "num_feature is"),
        (in_model("learner_model_param", "num_class", value="3"), "num_class is 3"),
        (in_model("learner_model_param", "base_score", value="[2E0]"), "base_score is"),
        (in_model("learner_model_param", "base_score", value="nan"), "base_score is"),
        (in_model("objective", "name", value="multi:softmax"), "the objective is not"),
        (in_model("attributes", "best_iteration", value="7"), "best_iteration is 7"),
        (in_model("attributes", value={"a": 1}), "an attribute is no text"),
        (in_model("feature_types", value=["c"]), "feature_types are not sound"),
        (in_model("feature_names", value=[1, 2, 3, 4]), "feature_names are not sound"),
        (in_model("gradient_booster", "name", value="gblinear"), "neither gbtree nor dart"),
    ],
)
def test_what_it_would_crash_on(document, change, message):
    change(document)
    if message is None:
        split_points(document, 4)
        return
    with pytest.raises(ModelFileError, match=message):
        split_points(document, 4)


@pytest.mark.parametrize(
    "names", [["b", "a", "c"], ["Z", "ä", "aa"], [3, 1, -2], ["only"]], ids=str
)
def test_categories_as_xgboost_writes_them(toy, names):
    """Of texts and numbers, whatever their order; none may be there twice."""
    places = np.arange(len(toy.y)) % len(names)
    column = pd.Categorical.from_codes(places, names)
    fitted = XGBOOST.make(n_estimators=1).fit(pd.DataFrame({"c": column}), toy.y)
    document = json.loads(fitted.get_booster().save_raw("json").decode())
    split_points(document, 1)
    known = model_of(document)["cats"]["enc"][0]
    if len(names) == 1:
        return
    if "offsets" in known:
        known["offsets"], known["values"] = [0, 1, 2, 3], [97, 97, 98]
    else:
        known["values"] = [1, 1, 2]
    model_of(document)["cats"]["sorted_idx"] = [0, 1, 2]
    with pytest.raises(ModelFileError, match="a category is there twice"):
        split_points(document, 1)


def test_a_tree_that_says_another_size(document):
    model_of(document)["trees"][0]["tree_param"]["num_nodes"] = "2147483647"
    with pytest.raises(ModelFileError, match="num_nodes is 2147483647"):
        split_points(document, 4)


def test_categories_that_would_take_all_memory(document):
    tree = next(t for t in model_of(document)["trees"] if t["categories_nodes"])
    tree["categories"][-1] = 2**24
    model_of(document)["trees"] = [{**tree, "id": k} for k in range(100)]
    model_of(document)["gbtree_model_param"]["num_trees"] = "100"
    model_of(document)["tree_info"] = [0] * 100
    model_of(document)["iteration_indptr"] = np.arange(101).tolist()
    with pytest.raises(ModelFileError, match="would take too much memory"):
        split_points(document, 4)
