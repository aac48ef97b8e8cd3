"""A text that LightGBM would crash on, or never finish with, does not reach it."""

import re

import lightgbm
import numpy as np
import pytest

from fairboost import FairGBMClassifier, load
from fairboost.engines.lightgbm.soundness import split_points
from fairboost.exceptions import ModelFileError
from tests.kinds import KINDS

LIGHTGBM = KINDS["lightgbm"]


@pytest.fixture(scope="module")
def text(toy):
    engine = LIGHTGBM.make(n_estimators=3, min_data_per_group=5, cat_smooth=1.0)
    return engine.fit(toy.frame, toy.y).booster_.model_to_string()


def resized(text):
    """With the sizes of trees made good, so that other checks are reached."""
    trees = re.split(r"(?m)^(?=Tree=)", text.partition("end of trees\n")[0])[1:]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    return re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", text)


def with_value(name, place, value):
    """Change one value of a line of the first tree that has it."""

    def change(text):
        line = re.search(rf"(?m)^{name}=(\S.*)$", text)
        values = line[1].split(" ")
        values[place] = value
        return text[: line.start(1)] + " ".join(values) + text[line.end(1) :]

    return change


def without(line):
    return lambda text: re.sub(rf"(?m)^{line}.*\n", "", text, count=1)


def instead(old, new):
    return lambda text: re.sub(old, new, text, count=1)


def test_what_lightgbm_writes_is_sound(text, toy):
    found = split_points(text, 4)
    assert set(found) <= {0, 1, 2, 3}
    assert set(found[1]) <= {0.0, 1.0, 2.0, 3.0, 4.0}  # categories
    lowest, highest = toy.X[:, 3].min(), toy.X[:, 3].max()
    assert all(lowest < value < highest for value in found[3])
    for options in ({"linear_tree": True}, {"min_split_gain": 1e9}, LIGHTGBM.dart):
        engine = LIGHTGBM.make(**options).fit(toy.X, toy.y)
        split_points(engine.booster_.model_to_string(), 4)


def test_a_split_of_missing_values_from_all_others_is_sound(toy, tmp_path):
    X = np.where(toy.y == 1, np.nan, toy.X[:, 2])[:, np.newaxis]
    engine = LIGHTGBM.make(n_estimators=2, num_leaves=2)
    assert "threshold=inf" in engine.fit(X, toy.y).booster_.model_to_string()
    model = FairGBMClassifier(engine, constraint=None).fit(X, toy.y)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value("left_child", 0, "0"), "do not form a tree|out of reach"),
        (with_value("left_child", 0, "5"), "do not form a tree|two parents|out of reach"),
        (with_value("left_child", 0, "1000000"), "outside"),
        (with_value("right_child", 0, "-1000000"), "outside"),
        (with_value("split_feature", 0, "4"), "split_feature has a value outside 0 ... 3"),
        (with_value("split_feature", 0, "-1"), "split_feature has a value outside 0 ... 3"),
        (with_value("decision_type", 0, "13"), "decision_type has a value outside"),
        (with_value("cat_boundaries", 0, "1"), "cat_boundaries do not fit"),
        (with_value("cat_boundaries", -1, "9"), "cat_boundaries has a value outside"),
        (with_value("cat_threshold", 0, "4294967296"), "cat_threshold has a value outside"),
        (with_value("leaf_value", 0, "1e400"), "leaf_value has a number out of range"),
        (with_value("leaf_value", 0, "nan"), "leaf_value has a number out of range"),
        (with_value("leaf_value", 0, "9" * 5_000), "leaf_value has '9999"),
        (with_value("leaf_value", 0, "٤"), "leaf_value has '٤'"),
        (with_value("leaf_value", 0, "1\t"), "leaf_value has"),
        (with_value("leaf_value", 0, "1 1"), "leaf_value is no list of"),
        (with_value("num_leaves", 0, "2000000000"), "num_leaves is 2000000000, expected 1 ..."),
        (with_value("num_cat", 0, "2000000000"), "cat_boundaries is no list of|not listed"),
        (with_value("leaf_weight", 0, "0x1"), "leaf_weight has"),
        (with_value("tree_sizes", 0, "1"), "tree_sizes is not"),
        (without("leaf_value="), "leaf_value is no list of"),
        (without("Tree=0"), "its booster is not sound"),
        (without("feature_infos="), "feature_infos are too few"),
        (without("end of parameters"), "its parameters are missing"),
        (instead("num_class=1", "num_class=2"), "num_class is not 1"),
        (instead("max_feature_idx=3", "max_feature_idx=2999999"), "max_feature_idx is not 3"),
        (instead("objective=binary sigmoid:1", "objective=binary sigmoid:2"), "objective is not"),
        (instead("shrinkage=", "shrinkage=x"), "shrinkage has"),
        (instead("num_leaves=", "\nnum_leaves="), "cut in two"),
        (instead("num_leaves=", "31\nnum_leaves="), "a line of a tree has no name"),
        (instead("num_leaves=", "num_leaves=2\nnum_leaves="), "there twice"),
        (instead(r"\[num_leaves: 7\]", "[num_leaves"), "a line of another form"),
        (instead("feature_names=", "feature_names=\0"), "control characters"),
        (instead(r"pandas_categorical:.*", "pandas_categorical:{}"), "no list of lists"),
        (instead(r"pandas_categorical:.*", 'pandas_categorical:[["a", "a"]]'), "there twice"),
        (instead(r"pandas_categorical:.*", "pandas_categorical:[[[1]]]"), "no plain value"),
        (instead(r"pandas_categorical:.*", r'pandas_categorical:[["\\ud800"]]'), "no plain value"),
        (instead(r"pandas_categorical:.*", "pandas_categorical:[[],[],[],[],[]]"), "more columns"),
    ],
)
def test_what_it_would_crash_on(text, change, message):
    changed = change(text)
    assert changed != text
    changed = changed if "tree_sizes" in message else resized(changed)
    with pytest.raises(ModelFileError, match=message):
        split_points(changed, 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_features", "-1"), ("num_features", "9"), ("leaf_features", "4"), ("leaf_coeff", "inf"),
     # LightGBM reads these by a function of C++ that takes no number below the normal ones.
     ("leaf_coeff", "1e-320"), ("leaf_const", "-1e-310"), ("leaf_const", "1e-400"),
     ("leaf_const", "0." + 350 * "0" + "1")],
)  # fmt: skip
def test_linear_leaves(toy, name, value):
    engine = LIGHTGBM.make(linear_tree=True).fit(toy.X, toy.y)
    text = engine.booster_.model_to_string()
    with pytest.raises(ModelFileError, match=name):
        start = text.index("Tree=1")  # the first one is constant
        split_points(resized(text[:start] + with_value(name, 0, value)(text[start:])), 4)


@pytest.mark.parametrize("value", ["0", "-0", "0e-320", "0.0", "3e-308"])
def test_linear_leaves_may_be_zero_or_tiny(toy, value):
    text = LIGHTGBM.make(linear_tree=True).fit(toy.X, toy.y).booster_.model_to_string()
    start = text.index("Tree=1")
    text = resized(text[:start] + with_value("leaf_const", 0, value)(text[start:]))
    split_points(text, 4)
    assert lightgbm.Booster(model_str=text).num_trees() > 1  # and the process goes on


def test_the_number_of_features_is_that_of_the_text(text):
    with pytest.raises(ModelFileError, match="max_feature_idx is not 2999999"):
        split_points(text, 3_000_000)


def test_points_are_those_of_the_trees(toy):
    engine = LIGHTGBM.make().fit(toy.X, toy.y)
    table = engine.booster_.trees_to_dataframe()
    expected = np.unique(table.threshold.dropna().astype(float))
    found = split_points(engine.booster_.model_to_string(), 4)
    np.testing.assert_array_equal(np.unique(np.concatenate([*found.values()])), expected)
