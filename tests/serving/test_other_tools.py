"""skops, shap, pickle and importances of features, on the estimators themselves."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.exceptions import ModelFileError

ENGINES = ("lightgbm", "xgboost")


@pytest.fixture(scope="module")
def skops():
    return pytest.importorskip("skops.io")


@pytest.fixture(scope="module")
def shap():
    with warnings.catch_warnings(action="ignore"):  # on import, about matplotlib
        return pytest.importorskip("shap")


def predictions(model, X):
    return model.predict(X) if isinstance(model, FairGBMRegressor) else model.predict_proba(X)


@pytest.mark.parametrize("case", ["at_fpr", "three by costs", "count"])
@pytest.mark.parametrize("engine", ENGINES)
def test_skops_keeps_a_fitted_model(fit, skops, tmp_path, engine, case):
    model, new = fit(engine, case)
    skops.dump(model, tmp_path / "model.skops")
    needed = skops.get_untrusted_types(file=tmp_path / "model.skops")
    module = "regressor" if case == "count" else "estimator"
    assert needed == [f"fairboost.model.{module}.{type(model).__name__}"]
    again = skops.load(tmp_path / "model.skops", trusted=needed)
    np.testing.assert_array_equal(predictions(again, new[:500]), predictions(model, new[:500]))
    np.testing.assert_array_equal(again.predict(new[:500]), model.predict(new[:500]))
    pd.testing.assert_frame_equal(again.trace_, model.trace_)
    pd.testing.assert_series_equal(again.multipliers_, model.multipliers_)
    assert again.fairness_report_.to_dict() == model.fairness_report_.to_dict()
    assert again.constraint == model.constraint


def test_skops_keeps_a_model_that_is_not_fitted(skops):
    model = FairGBMClassifier(LGBMClassifier(num_leaves=7), tolerance=0.02)
    data = skops.dumps(model)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert again.get_params()["estimator__num_leaves"] == 7
    assert again.tolerance == 0.02
    assert not hasattr(again, "trace_")


def test_skops_in_a_pipeline(fit, loans, skops):
    from sklearn.pipeline import make_pipeline

    model, new = fit("lightgbm", "numbers")
    pipeline = make_pipeline("passthrough", model)
    data = skops.dumps(pipeline)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_a_state_that_was_edited_is_refused(fit):
    model, _ = fit("lightgbm", "numbers")
    text = model.__getstate__()["model.json"].replace("leaf_value=", "leaf_value=1", 1)
    with pytest.raises(ModelFileError, match="the state of the model does not match its checksum"):
        FairGBMClassifier.__new__(FairGBMClassifier).__setstate__({"model.json": text})
    number, _ = fit("lightgbm", "number")
    with pytest.raises(ModelFileError, match="number"):
        FairGBMClassifier.__new__(FairGBMClassifier).__setstate__(number.__getstate__())


@pytest.mark.parametrize("engine", ENGINES)
def test_pickles_and_copies_keep_all_that_is_there(fit, engine):
    """Also what a file does not hold, such as what rates were measured on."""
    model, new = fit(engine, "at_fpr")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert set(vars(again)) == set(vars(model))
        assert again._measured is not None
        np.testing.assert_array_equal(again.predict_proba(new[:9]), model.predict_proba(new[:9]))


def raw_scores(model, rows, case):
    """What the trees of a model add up to, from its public methods."""
    if case in ("number", "count"):
        return np.log(model.predict(rows)) if case == "count" else model.predict(rows)
    found = model.decision_function(rows)
    if found.ndim == 2:
        return found
    found = found if model.pos_label_ == model.classes_[1] else -found
    return found + np.log(model.threshold_ / (1 - model.threshold_))


@pytest.mark.parametrize("case", ["at_fpr", "costs", "numbers", "three", "number", "count"])
@pytest.mark.parametrize("engine", ENGINES)
def test_shap_explains_the_fitted_engine(fit, shap, engine, case):
    """Values add up to the scores, with categories and missing values among the features."""
    model, new = fit(engine, case)
    rows = new[:40]
    found = shap.TreeExplainer(model.estimator_)(rows)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, raw_scores(model, rows, case), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["numbers", "number"])
def test_shap_has_no_hook_for_the_estimator_itself(fit, shap, case):
    """If this fails, SHAP has learned it, and docs/serving.md can be shorter."""
    model, _ = fit("lightgbm", case)
    with pytest.raises(Exception, match="Model type not yet supported by TreeExplainer"):
        shap.TreeExplainer(model)


@pytest.mark.parametrize("case", ["at_fpr", "three", "number"])
@pytest.mark.parametrize("engine", ENGINES)
def test_importances_of_features(fit, engine, case):
    model, new = fit(engine, case)
    found = model.feature_importances_
    assert found.shape == (new.shape[1],)
    np.testing.assert_array_equal(found, model.estimator_.feature_importances_)
    assert model.feature_names_in_.tolist() == list(new.columns)
    used = {int(f) for f in model._model.ensemble().feature if f >= 0}
    assert {int(k) for k in np.flatnonzero(found)} == used
