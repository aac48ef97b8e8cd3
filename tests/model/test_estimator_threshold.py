"""Decisions at another threshold than that of the model."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairboost import FairGBMClassifier, FairGBMRegressor, at_positive_rate
from fairboost.exceptions import InvalidInputError
from tests.kinds import KINDS, LightGBM

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")

ENGINES = {
    **{name: kind.make for name, kind in KINDS.items()},
    "forest": lambda: RandomForestClassifier(5, max_depth=3, random_state=0),
}


@pytest.fixture(scope="module", params=ENGINES)
def engine_of_kind(request):
    return ENGINES[request.param]()


@pytest.mark.parametrize("pos_label", [1, 0])
@pytest.mark.parametrize("iterate", ["best", "last"])
def test_decisions_are_those_of_the_probabilities(engine_of_kind, toy, pos_label, iterate):
    model = FairGBMClassifier(engine_of_kind, iterate=iterate, pos_label=pos_label)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    proba, usual = model.predict_proba(toy.X)[:, pos_label], model.predict(toy.X)
    for threshold in (0, 0.3, np.float32(0.7), proba[3], 1):
        decided = model.predict(toy.X, threshold=threshold)
        assert decided.dtype == usual.dtype
        np.testing.assert_array_equal(decided == pos_label, proba >= threshold)
    np.testing.assert_array_equal(model.predict(toy.X, threshold=model.threshold_), usual)
    # The model itself decides as before.
    assert model.threshold_ == 0.5
    np.testing.assert_array_equal(model.predict(toy.X), usual)


def test_it_takes_the_place_of_the_operating_point(toy):
    model = FairGBMClassifier(LightGBM().make(), operating_point=at_positive_rate(0.1))
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    half = model.predict_proba(toy.X)[:, 1] >= 0.5
    assert model.predict(toy.X).sum() < half.sum()
    np.testing.assert_array_equal(model.predict(toy.X, threshold=0.5) == 1, half)


@pytest.fixture(scope="module")
def fitted(toy):
    engine = LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    return FairGBMClassifier(engine, constraint=None).fit(toy.X, toy.y)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, np.nan, np.inf, "0.5", True, [0.5]])
def test_what_is_no_probability_is_refused(fitted, toy, threshold):
    with pytest.raises(InvalidInputError, match=r"threshold must be a probability in \[0, 1\], f"):
        fitted.predict(toy.X, threshold=threshold)


def test_it_is_for_two_labels(toy):
    engine = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    several = FairGBMClassifier(engine, constraint=None).fit(toy.X, np.arange(len(toy)) % 3)
    with pytest.raises(InvalidInputError, match="divides two labels, and the model has 3 classes"):
        several.predict(toy.X, threshold=0.5)
    number = FairGBMRegressor(LGBMRegressor(n_estimators=2, n_jobs=1, verbose=-1), constraint=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'threshold'"):
        number.fit(toy.X, toy.y).predict(toy.X, threshold=0.5)
    with pytest.raises(NotFittedError):
        FairGBMClassifier().predict(toy.X, threshold=0.5)


def test_pipelines_pass_it_on(fitted, toy):
    pipe = make_pipeline(StandardScaler(), FairGBMClassifier(fitted.estimator, constraint=None))
    pipe.fit(toy.X, toy.y)
    strict = pipe.predict_proba(toy.X)[:, 1] >= 0.8
    np.testing.assert_array_equal(pipe.predict(toy.X, threshold=0.8) == 1, strict)
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="threshold"):
            pipe.predict(toy.X, threshold=0.8)
        pipe[-1].set_predict_request(threshold=True)
        np.testing.assert_array_equal(pipe.predict(toy.X, threshold=0.8) == 1, strict)
