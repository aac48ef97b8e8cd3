"""Tables whose columns engines read differently: trained on, or refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMRegressor
from xgboost import XGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, load
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


def forms(frame):
    """A frame with texts as categories and as text, of pandas, polars and Arrow."""
    text = frame.astype({"word": object})
    of_polars = pl.from_pandas(text)
    return {
        "pandas": frame,
        "pandas text": text,
        "pandas string": frame.astype({"word": "string"}),
        "polars": of_polars.with_columns(pl.col("word").cast(pl.Categorical)),
        "polars text": of_polars,
        "arrow": of_polars.with_columns(pl.col("word").cast(pl.Categorical)).to_arrow(),
        "arrow text": pa.Table.from_pandas(text, preserve_index=False),
    }


@pytest.fixture
def frame(toy):
    """Numbers and words, a few of them missing, in an order of categories that is not theirs."""
    common = np.array(["x", "v", "z w"], object)[np.digitize(toy.X[:, 1], [-1.0, 0.5])]
    common[::40] = None
    word = pd.Categorical(common, ["z w", "none", "x", "v"])
    return pd.DataFrame({"income": toy.X[:, 0], "word": word})


@pytest.mark.parametrize("trained", ["pandas", "polars", "arrow"])
def test_categories_are_read_from_text_and_from_any_table(kind, toy, frame, trained, tmp_path):
    """Text was refused where training had categories, and polars and Arrow by LightGBM."""
    tables = forms(frame)
    fitted = model(kind).fit(tables[trained], toy.y, sensitive_features=toy.group)
    fitted.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    expected = fitted.predict_proba(frame)
    assert len(np.unique(expected[:, 1])) > 2
    for name, table in tables.items():
        for one in (fitted, again):
            np.testing.assert_array_equal(one.predict_proba(table), expected, name)


def test_further_tables_may_be_of_another_library(kind, toy, frame):
    """y has an index of its own, which a table of polars has not, whatever becomes of it."""
    y = pd.Series(toy.y, index=np.arange(len(toy))[::-1])
    tables = forms(frame)
    given = {"sensitive_features": toy.group, "holdout_set": (tables["arrow"], y, toy.group)}
    sets = [(tables["polars"], y), (tables["arrow"], y)]
    fitted = model(kind, holdout="auto").fit(tables["polars"], y, **given, eval_set=sets)
    given["holdout_set"] = (frame, toy.y, toy.group)
    sets = [(frame, toy.y), (frame, toy.y)]
    same = model(kind, holdout="auto").fit(frame, toy.y, **given, eval_set=sets)
    np.testing.assert_array_equal(fitted.predict_proba(frame), same.predict_proba(frame))
    assert isinstance(fitted.estimator_.evals_result_, dict)


def test_regressors_read_them_too(kind, toy, frame):
    """The check of held-out numbers compared the index of a table that was made of an array."""
    y = pd.Series(toy.X[:, 0] + toy.y, index=np.arange(len(toy))[::-1])
    tables = forms(frame)
    given = {"sensitive_features": toy.group, "eval_set": [(tables["polars"], y)]}
    held_out = (tables["polars"], y, toy.group)
    engine = LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
    if kind.name == "xgboost":
        engine = XGBRegressor(n_estimators=5, n_jobs=1, enable_categorical=True)
    regressor = FairGBMRegressor(engine, tolerance=0.5)
    regressor.fit(tables["polars"], y, **given, holdout_set=held_out)
    np.testing.assert_array_equal(
        regressor.predict(frame), regressor.predict(tables["arrow text"])
    )


def test_texts_that_training_did_not_have(kind, toy, frame):
    """They are what the engine makes of a category that it does not know."""
    fitted = model(kind).fit(frame, toy.y, sensitive_features=toy.group)
    rows = frame[:3].assign(word=["X", None, "y"])
    if kind.name == "xgboost":
        with pytest.raises(InvalidInputError, match=r"has the category 'X' .*; did you mean 'x'"):
            fitted.predict(rows)
    else:
        missing = fitted.predict_proba(rows.assign(word=pd.Categorical([None] * 3, ["x"])))
        np.testing.assert_array_equal(fitted.predict_proba(rows), missing)


def test_lightgbm_does_not_take_all_categories_for_missing(toy, frame):
    """It does where training had numbers and the table has text, or the other way round."""
    codes = frame.assign(word=frame["word"].cat.codes.astype("category"))
    fitted = model(LightGBM()).fit(codes, toy.y, sensitive_features=toy.group)
    text = codes.astype({"word": str})
    with pytest.raises(InvalidInputError, match=r"column 'word' of X is (str|object), expected"):
        fitted.predict(text)
    with pytest.raises(InvalidInputError, match="category '-1', expected those of training, such"):
        fitted.predict(text.astype({"word": "category"}))
    with pytest.raises(InvalidInputError, match=r"X has 0 categorical columns \(none\), expected"):
        fitted.predict(codes.astype({"word": int}))
    fitted = model(LightGBM()).fit(frame, toy.y, sensitive_features=toy.group)
    with pytest.raises(InvalidInputError, match=r"category -1, expected .* such as 'z w'"):
        fitted.predict(codes)


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
