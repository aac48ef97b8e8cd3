from __future__ import annotations

import re

import lightgbm
import numpy as np
import pytest

from fairboost.engines.lightgbm.text import as_stock_model


@pytest.fixture(scope="module")
def train(engine, toy):
    """A booster of a custom objective, as LightGBM leaves it: no link, no starting score."""

    def fit(X=None, **options):
        def logloss(y, scores):
            p = 1 / (1 + np.exp(-scores))
            return p - y, p * (1 - p)

        model = engine(objective=logloss, metric="None", **options)
        return model.fit(toy.X if X is None else X, toy.y).booster_

    return fit


def reread(booster, **edits):
    return lightgbm.Booster(model_str=as_stock_model(booster.model_to_string(), **edits))


def field(text, name):
    return [
        np.array(line.split(), float) for line in re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    ]


def test_the_link_becomes_binary(train, toy):
    booster = train()
    assert "objective=" not in booster.model_to_string().split("Tree=0")[0]
    stock = reread(booster, intercept=0.0)
    raw = booster.predict(toy.X)
    np.testing.assert_array_equal(stock.predict(toy.X, raw_score=True), raw)
    np.testing.assert_allclose(stock.predict(toy.X), 1 / (1 + np.exp(-raw)), rtol=1e-14)


@pytest.mark.parametrize("intercept", [-2.5, 0.1, 1e-17, 30.0])
@pytest.mark.parametrize("options", [{}, {"boosting_type": "dart"}, {"linear_tree": True}])
def test_the_intercept_is_added_once(train, toy, intercept, options):
    booster = train(**options)
    stock = reread(booster, intercept=intercept)
    np.testing.assert_allclose(
        stock.predict(toy.X, raw_score=True), booster.predict(toy.X) + intercept, atol=1e-12
    )
    for rounds in (1, 3):
        np.testing.assert_allclose(
            stock.predict(toy.X, raw_score=True, num_iteration=rounds),
            booster.predict(toy.X, num_iteration=rounds) + intercept,
            atol=1e-12,
        )


def test_inner_nodes_of_the_first_tree_move_along(train):
    """SHAP starts from the values of inner nodes; contributions add up only if they move too."""
    before = train().model_to_string()
    after = as_stock_model(before, intercept=0.75)
    for name in ("leaf_value", "internal_value"):
        moved, still = field(after, name), field(before, name)
        np.testing.assert_allclose(moved[0], still[0] + 0.75, atol=1e-12)
        for a, b in zip(moved[1:], still[1:], strict=True):
            np.testing.assert_array_equal(a, b)
    assert [float(x[0]) for x in field(after, "shrinkage")] == [1.0] + [0.3] * 7


@pytest.mark.parametrize("options", [{}, {"linear_tree": True}])
def test_tree_weights(train, toy, options):
    booster = train(**options)
    weights = np.linspace(2.0, 0.1, 8)
    stock = reread(booster, intercept=0.5, tree_weights=weights)
    parts = [
        booster.predict(toy.X, start_iteration=t, num_iteration=1, raw_score=True)
        for t in range(8)
    ]
    np.testing.assert_allclose(
        stock.predict(toy.X, raw_score=True), 0.5 + weights @ np.array(parts), atol=1e-12
    )


def test_linear_leaves_keep_their_fallback(train, toy):
    """Where a feature is missing a linear leaf answers with its constant: it moves too."""
    X = np.array(toy.X)
    X[::3, 0] = np.nan
    booster = train(X, linear_tree=True)
    weights = np.linspace(1.0, 0.3, 8)
    stock = reread(booster, intercept=-1.25, tree_weights=weights)
    parts = [
        booster.predict(X, start_iteration=t, num_iteration=1, raw_score=True) for t in range(8)
    ]
    np.testing.assert_allclose(
        stock.predict(X, raw_score=True), -1.25 + weights @ np.array(parts), atol=1e-12
    )


def test_one_weight_per_tree(train):
    with pytest.raises(ValueError, match="zip"):
        as_stock_model(train().model_to_string(), intercept=0.0, tree_weights=[1.0] * 7)


def test_a_tree_without_splits(train, toy):
    stock = reread(train(min_split_gain=1e9), intercept=0.3)
    assert stock.num_trees() == 1
    np.testing.assert_allclose(stock.predict(toy.X, raw_score=True), 0.3)


def test_sizes_of_trees_are_kept_right(train, toy):
    """LightGBM reads trees in parallel by their sizes in bytes."""
    text = as_stock_model(train(toy.frame).model_to_string(), intercept=1 / 3)
    (sizes,) = field(text, "tree_sizes")
    body = text[text.index("Tree=0") : text.index("end of trees")].encode()
    assert sizes.sum() == len(body)
    starts = np.r_[0, np.cumsum(sizes)[:-1]].astype(int)
    for k, start in enumerate(starts):
        assert body[start:].startswith(f"Tree={k}\n".encode())


def test_names_and_categories_are_kept(train, toy):
    booster = train(toy.frame)
    stock = reread(booster, intercept=0.0)
    assert stock.feature_name() == toy.frame.columns.tolist()
    assert stock.pandas_categorical == booster.pandas_categorical == [["v", "w", "x", "y", "z"]]
    np.testing.assert_array_equal(
        stock.predict(toy.frame, raw_score=True), booster.predict(toy.frame)
    )


def test_editing_twice_adds_up(train, toy):
    once = as_stock_model(train().model_to_string(), intercept=0.25)
    twice = as_stock_model(once, intercept=0.5)
    assert twice.count("objective=binary sigmoid:1") == 1
    assert twice.count("[objective: binary]") == 1
    np.testing.assert_allclose(
        lightgbm.Booster(model_str=twice).predict(toy.X, raw_score=True),
        train().predict(toy.X) + 0.75,
        atol=1e-12,
    )


def test_an_edit_of_nothing_changes_no_tree(train):
    text = train().model_to_string()
    for name in ("leaf_value", "internal_value", "threshold", "split_gain"):
        for a, b in zip(
            field(as_stock_model(text, intercept=0.0), name), field(text, name), strict=True
        ):
            np.testing.assert_array_equal(a, b)
