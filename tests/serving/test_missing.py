"""A number that XGBoost takes for a missing value is one in exported files, too."""

from __future__ import annotations

import numpy as np
import pytest
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, load
from fairboost.exceptions import ExportError
from tests.serving.test_export import run_onnx


@pytest.fixture(params=[-9.0, 0.0, 0.1])
def missing(request):
    """The last has another value in single precision, in which XGBoost compares."""
    return request.param


@pytest.fixture
def model(missing):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    X[rng.random(X.shape) < 0.3] = missing
    groups = rng.integers(0, 2, 900)
    y = (X[:, 0] == missing) + X[:, 1] + 0.5 * groups + rng.normal(size=900) > 0.5
    engine = XGBClassifier(n_estimators=10, n_jobs=1, missing=missing)
    fitted = FairGBMClassifier(engine, constraint="equal_opportunity", holdout=0.3, random_state=0)
    return fitted.fit(X, y.astype(int), sensitive_features=groups), X


def test_graphs_say_what_the_model_says(model, tmp_path):
    """They took the number for a number, and the rows of the check had none."""
    fitted, X = model
    fitted.export(tmp_path / "a.onnx")
    found = run_onnx(tmp_path / "a.onnx", X)
    np.testing.assert_array_equal(found["label"], fitted.predict(X))
    np.testing.assert_allclose(found["probability"], fitted.predict_proba(X), atol=1e-6)
    for name in ("onnx", "onnx_float32"):
        fitted.export(tmp_path / f"{name}.onnx", format=name, check_on=X)
    fitted.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json").predict_proba(X)
    np.testing.assert_array_equal(again, fitted.predict_proba(X))


@pytest.mark.parametrize("name", ["treelite", "c"])
def test_formats_that_cannot_say_it_refuse(model, tmp_path, name):
    pytest.importorskip("treelite")
    fitted, _ = model
    with pytest.raises(ExportError, match=r"for a missing value .*use format='xgboost' or 'onnx'"):
        fitted.export(tmp_path / "a", format=name)
    assert list(tmp_path.iterdir()) == []
