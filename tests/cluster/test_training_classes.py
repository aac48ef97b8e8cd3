"""Three classes or more, told apart on a cluster of separate processes."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from xgboost import Booster, DMatrix, XGBClassifier
from xgboost.dask import DaskXGBClassifier

import fairboost
from fairboost import FairGBMClassifier, at_fpr, bound, parity
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from tests.cluster.dealing import deal, parts, split

FEATURES = ["a", "b", "c", "d"]
BANDS = ["high", "low", "middle"]
ENGINE = {"n_estimators": 10, "max_depth": 3, "learning_rate": 0.3}
OPTIONS = {"constraint": "equal_opportunity", "tolerance": 0.02, "memberships": "observed"}
COSTS = [[0, 1, 1], [9, 0, 9], [1, 1, 0]]


def table(n=2_400, seed=0):
    """Few values of a feature: bins are the same however rows are spread."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 40, (n, 4)), columns=FEATURES).astype("float32")
    frame["sex"] = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    frame["age"] = rng.choice([20, 40], n)
    z = frame["a"] / 10 - frame["b"] / 20 + (frame["sex"] == "m") + rng.normal(size=n)
    frame["y"] = np.array(["low", "middle", "high"])[np.searchsorted([1.0, 2.0], z)]
    frame["weight"] = rng.uniform(0.5, 2.0, n)
    return frame


def model(engine=(), **options):
    engine = DaskXGBClassifier(**{**ENGINE, **dict(engine)})
    return FairGBMClassifier(engine, **{**OPTIONS, **options})


def alone(engine=(), **options):
    engine = XGBClassifier(**{**ENGINE, **dict(engine)}, n_jobs=1)
    return FairGBMClassifier(engine, **{**OPTIONS, **options})


def columns(rows, weighted=False, sensitive="sex"):
    weight = rows["weight"] if weighted else None
    return {"y": rows["y"], "sensitive_features": rows[sensitive], "sample_weight": weight}


def fit(model, rows, weighted=False, sensitive="sex", held_out=None):
    given = None
    if held_out is not None:
        given = (held_out[FEATURES], *columns(held_out, weighted, sensitive).values())
    known = columns(rows, weighted, sensitive)
    return model.fit(rows[FEATURES], **known, holdout_set=given)


def assert_same(one, other, X):
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-6)
    pd.testing.assert_frame_equal(one.trace_, other.trace_, rtol=0, atol=1e-6)
    pd.testing.assert_series_equal(one.multipliers_, other.multipliers_, rtol=0, atol=1e-6)
    assert one.best_iteration_ == other.best_iteration_
    assert one.classes_.tolist() == other.classes_.tolist()
    if one.fairness_report_ is not None:
        assert str(one.fairness_report_) == str(other.fairness_report_)


# The same model as on one machine


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, {}),
        ({"constraint": "demographic_parity", "costs": COSTS}, {"weighted": True}),
        ({"constraint": "equalized_odds", "classes": ["low", "high"]}, {"weighted": True}),
        ({"constraint": "equal_accuracy", "confidence": 0.8}, {}),
        (
            {
                "constraint": [parity("recall", 0.05, of="high"), bound("given", 0.3, of="low")],
                "tolerance": None,
            },
            {"weighted": True},
        ),
        (
            {"constraint": parity("given", 0.05, by="sex", given="age"), "tolerance": None},
            {"sensitive": ["sex", "age"]},
        ),
        ({"constraint": None, "tolerance": None, "iterate": "last"}, {"weighted": True}),
    ],
    ids=["default", "costs", "classes", "accuracy", "of a class", "given", "plain"],
)
def test_the_same_model_as_in_one_process(client, options, rows):
    frame, options = table(), {"holdout": None, **options}
    ours = fit(model(**options), deal(client, frame), **rows)
    theirs = fit(alone(**options), frame, **rows)
    assert_same(ours, theirs, frame[FEATURES])
    np.testing.assert_array_equal(ours.predict(frame[FEATURES]), theirs.predict(frame[FEATURES]))
    assert type(ours.estimator_) is XGBClassifier
    assert ours.classes_.tolist() == BANDS
    assert sum(ours.cluster_.rows.values()) == len(frame)
    assert len(ours.cluster_.rows) == 3
