"""Verdicts on models inside the wrappers of scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairboost import FairGBMClassifier, FairGBMRegressor, report_on
from fairboost.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


def fair(**params):
    engine = LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1)
    given = {"constraint": "equal_opportunity", "tolerance": 0.1, "random_state": 0}
    return FairGBMClassifier(engine, **{**given, **params})


def trained(pipe, toy, **beside):
    groups = {"sensitive_features": toy.group, **beside}
    return pipe.fit(toy.X, toy.y, **{f"{pipe.steps[-1][0]}__{k}": v for k, v in groups.items()})


@pytest.fixture(scope="module")
def other(make_toy):
    return make_toy(500, seed=9)


@pytest.fixture(scope="module")
def scaled(toy):
    return trained(make_pipeline(StandardScaler(), fair()), toy)


def test_a_pipeline_is_judged_on_the_rows_that_its_model_sees(scaled, other):
    groups = {"sensitive_features": other.group, "sample_weight": other.weight}
    found = report_on(scaled, other.X, other.y, **groups)
    seen = scaled[0].transform(other.X)
    assert found.test_verdicts == scaled[-1].report_on(seen, other.y, **groups).test_verdicts
    # These are the decisions of the pipeline; those on rows as they are would be others.
    decided, positive = scaled.predict(other.X), other.y == 1
    by_hand = {
        group: np.average(
            decided[positive & (other.group == group)] == 0,
            weights=other.weight[positive & (other.group == group)],
        )
        for group in ("a", "b")
    }
    (verdict,) = found.test_verdicts
    assert verdict.value == pytest.approx(abs(by_hand["a"] - by_hand["b"]), abs=1e-12)
    raw = scaled[-1].report_on(other.X, other.y, **groups)
    assert raw.test_verdicts != found.test_verdicts


def test_wrappers_without_a_change_give_the_models_own_verdicts(scaled, toy, other):
    def verdicts(model):
        return report_on(model, other.X, other.y, sensitive_features=other.group).test_verdicts

    alone = fair().fit(toy.X, toy.y, sensitive_features=toy.group)
    own = alone.report_on(other.X, other.y, sensitive_features=other.group).test_verdicts
    nested = make_pipeline("passthrough", FrozenEstimator(make_pipeline(alone)))
    for wrapped in (alone, make_pipeline(alone), FrozenEstimator(alone), nested):
        assert verdicts(wrapped.fit(toy.X, toy.y) if wrapped is nested else wrapped) == own
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("fair", fair())]), {"fair__tolerance": [0.1]}, cv=2
    ).fit(toy.X, toy.y, fair__sensitive_features=toy.group)
    assert verdicts(search) == verdicts(scaled)


def test_tables_with_text_that_a_pipeline_encodes(toy, other):
    encoded = make_column_transformer((OneHotEncoder(), ["district"]), remainder="passthrough")
    tables = []
    for data in (toy, other):
        table = pd.DataFrame(data.X, columns=["income", "debt", "noise", "district"])
        tables.append(table.assign(district=np.where(data.X[:, 3] > 0.5, "north", "south")))
    pipe = make_pipeline(encoded, fair())
    pipe.fit(tables[0], toy.y, fairgbmclassifier__sensitive_features=toy.group)
    assert report_on(pipe, tables[1], other.y, sensitive_features=other.group).test_verdicts
    shuffled = pd.Series(other.group, index=np.arange(len(other))[::-1])
    with pytest.raises(InvalidInputError, match="pandas indices that differ"):
        report_on(pipe, tables[1], other.y, sensitive_features=shuffled)


def test_numbers_with_exposures(toy, other):
    engine = LGBMRegressor(n_estimators=5, objective="poisson", n_jobs=1, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.1, random_state=0)
    pipe = trained(make_pipeline(StandardScaler(), model), toy, exposure=toy.weight)
    groups = {"sensitive_features": other.group}
    with pytest.raises(InvalidInputError, match="pass exposure"):
        report_on(pipe, other.X, other.y, **groups)
    found = report_on(pipe, other.X, other.y, exposure=other.weight, **groups)
    seen = pipe[0].transform(other.X)
    own = pipe[-1].report_on(seen, other.y, exposure=other.weight, **groups)
    assert found.test_verdicts == own.test_verdicts
    with pytest.raises(TypeError, match="unexpected keyword argument 'base_score'"):
        report_on(pipe, other.X, other.y, base_score=other.y, exposure=other.weight, **groups)


@pytest.mark.parametrize(
    ("wrap", "error", "match"),
    [
        (
            lambda m, X, y: CalibratedClassifierCV(FrozenEstimator(m)).fit(X, y),
            InvalidInputError,
            "found CalibratedClassifierCV. A wrapper that changes scores or thresholds",
        ),
        (
            lambda m, X, y: FixedThresholdClassifier(FrozenEstimator(m)).fit(X, y),
            InvalidInputError,
            "found FixedThresholdClassifier",
        ),
        (lambda m, X, y: m[-1].estimator_, InvalidInputError, "found LGBMClassifier.*audit"),
        (lambda m, X, y: None, InvalidInputError, "found NoneType"),
        (
            lambda m, X, y: GridSearchCV(fair(constraint=None), {}, refit=False, cv=2).fit(X, y),
            InvalidInputError,
            "GridSearchCV was fitted with refit=False and keeps no model; fit it with refit=True",
        ),
        (lambda m, X, y: GridSearchCV(m, {}), NotFittedError, "GridSearchCV instance is not fi"),
        (lambda m, X, y: fair(), NotFittedError, "FairGBMClassifier instance is not fitted"),
        (
            lambda m, X, y: fair(constraint=None).fit(X, y),
            InvalidInputError,
            "trained without constraints",
        ),
    ],
)
def test_what_decides_otherwise_is_refused(scaled, toy, wrap, error, match):
    model = wrap(scaled, toy.X, toy.y)
    with pytest.raises(error, match=match):
        report_on(model, toy.X, toy.y, sensitive_features=toy.group)
