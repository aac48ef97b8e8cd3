"""Calls by XGBoost's C interface do what the public methods do, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from fairboost import FairGBMClassifier
from fairboost.engines.xgboost import calls
from tests.kinds import KINDS

xgboost = pytest.importorskip("xgboost")
engine = KINDS["xgboost"].make


def small(n=300, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int) + (n_classes > 2) * (X[:, 1] > 0)


@pytest.mark.parametrize("options", [{}, {"booster": "dart", "rate_drop": 0.3}], ids=["", "dart"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_those_that_the_booster_predicts(options, n_classes):
    X, y = small(n_classes=n_classes)
    rows = xgboost.QuantileDMatrix(X, y)
    several = {"objective": "multi:softprob", "num_class": 3} if n_classes == 3 else {}
    booster = xgboost.Booster({"nthread": 1, **several, **options}, [rows])
    reader = calls.ScoreReader(booster, rows)
    for k in range(4):
        booster.update(rows, k)
        np.testing.assert_array_equal(reader.read(), booster.predict(rows, output_margin=True))
    assert reader.read() is reader.read()


def test_without_rows_there_are_no_scores():
    X, y = small()
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 2)
    with xgboost.config_context(verbosity=0):  # it warns of an empty table
        none = xgboost.DMatrix(X[:0])
        expected = booster.predict(none, output_margin=True)
        assert calls.ScoreReader(booster, none).read().shape == expected.shape


def test_what_xgboost_refuses_is_raised():
    X, y = small()
    rows = xgboost.DMatrix(X, y)
    booster = xgboost.train({"nthread": 1}, rows, 1)
    short = np.ones(7, np.float32)
    with pytest.raises(xgboost.core.XGBoostError, match="gradient"):
        calls.boost(booster, rows, 1, (short, short))
    with pytest.raises(xgboost.core.XGBoostError):
        calls.ScoreReader(booster, xgboost.DMatrix(np.ones((3, 99)))).read()


@pytest.mark.parametrize("holdout", [0.3, "cross", None])
@pytest.mark.parametrize("options", [{}, {"booster": "dart", "rate_drop": 0.3}], ids=["", "dart"])
def test_a_model_is_the_same_by_the_public_methods(holdout, options, monkeypatch):
    X, y = small(600)
    groups = np.where(X[:, 2] > 0, "a", "b")
    iterate = {"iterate": "last"} if options else {}
    made = FairGBMClassifier(engine(**options), holdout=holdout, random_state=0, **iterate)
    quick = made.fit(X, y, sensitive_features=groups)
    assert calls.library() is not None
    scores = quick.predict_proba(X)
    monkeypatch.setattr(calls, "library", lambda: None)
    slow = made.fit(X, y, sensitive_features=groups)
    np.testing.assert_array_equal(slow.predict_proba(X), scores)


def test_a_loop_that_is_watched_gives_the_same_model():
    X, y = small(600)
    groups = np.where(X[:, 2] > 0, "a", "b")
    alone, watched = (
        FairGBMClassifier(engine(), random_state=0).fit(X, y, sensitive_features=groups, **asked)
        for asked in ({}, {"eval_set": [(X, y)]})
    )
    np.testing.assert_array_equal(alone.predict_proba(X), watched.predict_proba(X))
