"""Three classes or more inside the tools of scikit-learn, on both engines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairboost import FairGBMClassifier
from tests.kinds import KINDS
from tests.model.test_several_classes import drawn

FOLDS = StratifiedKFold(3)

pytestmark = pytest.mark.filterwarnings(
    "ignore::fairboost.exceptions.FairnessWarning"
)  # few rows held out tell little


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request):
    engine = request.param.make(n_estimators=6)
    options = {"holdout": 0.3, "memberships": "observed", "random_state": 0}
    fair = FairGBMClassifier(engine, constraint="demographic_parity", **options)
    return fair.set_fit_request(sensitive_features=True)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predictions_out_of_fold_are_those_of_the_folds_models(model, method):
    X, y, g = drawn(900)
    params = {"sensitive_features": g}
    found = cross_val_predict(model, X, y, params=params, method=method, cv=FOLDS)
    assert found.shape == ((900,) if method == "predict" else (900, 3))
    for train, test in FOLDS.split(X, y):
        own = clone(model).fit(X[train], y[train], sensitive_features=g[train])
        assert own.multipliers_.sum() > 0
        np.testing.assert_array_equal(found[test], getattr(own, method)(X[test]))


@pytest.mark.parametrize(
    ("scoring", "trivial"),
    [("neg_log_loss", -np.log(3)), ("roc_auc_ovr", 0.5), ("balanced_accuracy", 1 / 3)],
)
def test_scores_of_classes(model, scoring, trivial):
    """Losses of scikit-learn warn of probabilities that do not add up to 1."""
    X, y, g = drawn(900)
    params = {"sensitive_features": g}
    scores = cross_val_score(model, X, y, params=params, scoring=scoring, error_score="raise")
    assert (scores > trivial).all()


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_lowers_the_loss_of_few_rounds(model, method):
    X, y, g = drawn(1_500)
    calibrated = CalibratedClassifierCV(model, method=method, cv=3)
    calibrated.fit(X, y, sensitive_features=g)
    new, labels, _ = drawn(1_500, seed=1)
    proba = calibrated.predict_proba(new)
    assert calibrated.classes_.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    plain = clone(model).fit(X, y, sensitive_features=g)
    assert log_loss(labels, proba) < log_loss(labels, plain.predict_proba(new))
    assert all(
        each.estimator.multipliers_.sum() > 0 for each in calibrated.calibrated_classifiers_
    )


def test_a_fitted_model_is_calibrated_as_it_is(model):
    X, y, g = drawn(900)
    model.fit(X, y, sensitive_features=g)
    other, labels, _ = drawn(900, seed=1)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(
        other, labels
    )
    assert all(each.estimator.estimator is model for each in calibrated.calibrated_classifiers_)
    assert calibrated.predict_proba(other).shape == (900, 3)


def test_a_pipeline_routes_the_groups(model):
    X, y, g = drawn(900)
    pipe = make_pipeline(StandardScaler(), model).fit(X, y, sensitive_features=g)
    direct = clone(model).fit(StandardScaler().fit_transform(X), y, sensitive_features=g)
    np.testing.assert_array_equal(
        pipe.predict_proba(X), direct.predict_proba(StandardScaler().fit_transform(X))
    )
