"""Tables whose columns engines read differently: trained on, or refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairboost import FairGBMClassifier
from fairboost.exceptions import InvalidInputError
from tests.kinds import LightGBM, XGBoost


def words(toy):
    """A column of words, half of which occur once."""
    common = np.array(["x", "v", "z", "w"])[np.digitize(toy.X[:, 1], [-1.0, 0.0, 1.0])]
    return np.where(np.arange(len(toy)) % 2, common, [f"rare {k}" for k in range(len(toy))])


def model(kind, **params):
    shared = {"constraint": "equal_opportunity", "tolerance": 0.9, "holdout": 0.3}
    return FairGBMClassifier(kind.make(), memberships="observed", **{**shared, **params})


@pytest.mark.parametrize("form", ["polars", "arrow"])
def test_xgboost_trains_on_categories_that_only_held_out_rows_have(toy, form):
    column = pl.Series(words(toy), dtype=pl.Categorical)
    X = pl.DataFrame({"income": toy.X[:, 0], "word": column})
    X = X if form == "polars" else X.to_arrow()
    fitted = model(XGBoost()).fit(X, toy.y, sensitive_features=toy.group)
    in_order = pd.Categorical(words(toy), categories=pd.unique(words(toy)))  # as polars has them
    pandas = pd.DataFrame({"income": toy.X[:, 0], "word": in_order})
    same = model(XGBoost()).fit(pandas, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(fitted.predict_proba(X), same.predict_proba(pandas))


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_lightgbm_refuses_categories_that_it_would_end_the_process_over(toy):
    X = pl.DataFrame({"word": pl.Series(words(toy), dtype=pl.Categorical)})
    for table in (X, X.to_arrow()):
        with pytest.raises(InvalidInputError, match=r"column 'word' in .*; pass X.to_pandas\(\)"):
            model(LightGBM()).fit(table, toy.y, sensitive_features=toy.group)
    fitted = model(LightGBM()).fit(X.to_pandas(), toy.y, sensitive_features=toy.group)
    with pytest.raises(InvalidInputError, match="LightGBM reads categories from pandas alone"):
        fitted.predict(X)


def test_text_is_refused_wherever_it_comes_in(kind, toy):
    text = pl.DataFrame({"word": words(toy)})
    numbers = pl.DataFrame({"word": toy.X[:, 0]})
    groups = {"sensitive_features": toy.group}
    with pytest.raises(InvalidInputError, match="column 'word' of X is String"):
        model(kind).fit(text, toy.y, **groups)
    with pytest.raises(InvalidInputError, match="column 'word' of X of eval_set is String"):
        model(kind).fit(numbers, toy.y, **groups, eval_set=[(text, toy.y)])
    with pytest.raises(InvalidInputError, match="column 'word' of X of holdout_set is String"):
        model(kind, holdout="auto").fit(
            numbers, toy.y, **groups, holdout_set=(text, toy.y, toy.group)
        )
    fitted = model(kind).fit(numbers, toy.y, **groups)
    with pytest.raises(InvalidInputError, match="column 'word' of X is String"):
        fitted.predict(text)


def test_xgboost_that_is_not_told_of_categories(toy):
    engine = XGBoost().make(enable_categorical=False)
    with pytest.raises(InvalidInputError, match=r"XGBClassifier\(enable_categorical=True\)"):
        FairGBMClassifier(engine).fit(toy.frame, toy.y, sensitive_features=toy.group)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([b"no", b"yes"]), "y holds bytes, such as b'no', .*; decode them"),
        (np.array([0.1, 0.7]), "y must hold labels, .* Unknown label type: continuous"),
        (np.array([1, "yes"], object), "y holds labels of several types, int, str|Unknown label"),
        (np.array([(1,), (2,)], object), "y must|Unknown"),
    ],
)
def test_labels_that_are_none(kind, toy, y, message):
    with pytest.raises(InvalidInputError, match=message):
        model(kind).fit(toy.X, np.resize(y, len(toy)), sensitive_features=toy.group)


def test_columns_of_the_same_name(kind, toy):
    X = pd.DataFrame(toy.X, columns=list("abca"))
    with pytest.raises(InvalidInputError, match="X has several columns named 'a'"):
        model(kind).fit(X, toy.y, sensitive_features=toy.group)


def test_arrow_tables_of_numbers_are_read_as_they_are(kind, toy):
    X = pa.table({"a": toy.X[:, 0], "b": toy.X[:, 1]})
    fitted = model(kind).fit(X, toy.y, sensitive_features=toy.group)
    same = model(kind).fit(X.to_pandas(), toy.y, sensitive_features=toy.group)
    np.testing.assert_allclose(fitted.predict_proba(X), same.predict_proba(X.to_pandas()))
