"""ONNX with one matrix in single precision: decisions are those of the model on the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from xgboost import XGBClassifier, XGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.exceptions import ExportError
from tests.serving.test_export import decide
from tests.serving.test_zeros import balances

NAMES = ["balance", "debt", "Anzahl", "収入"]
OPTIONS = {"n_estimators": 15, "n_jobs": 1}
ENGINES = {
    "lightgbm": (LGBMClassifier, LGBMRegressor, {"verbose": -1, "num_leaves": 15}),
    "xgboost": (XGBClassifier, XGBRegressor, {"max_depth": 4}),
}


def fitted(engine, case):
    """A model on columns with names, which splits at numbers that are no single ones."""
    X, rng = balances(900, 0, missing=True), np.random.default_rng(1)
    known, groups = np.nan_to_num(X), rng.integers(0, 2, 900)
    signal = (known[:, 0] > 0) + known[:, 3] / 100 + 0.4 * groups + rng.normal(0, 0.5, 900)
    classifier, regressor, options = ENGINES[engine]
    given = {**OPTIONS, **options}
    if case == "number":
        model, y = FairGBMRegressor(regressor(**given), constraint="equal_means"), signal
    else:
        edges = np.quantile(signal, [0.5] if case == "two" else [0.3, 0.7])
        y = np.array(["no", "yes", "perhaps"])[np.digitize(signal, edges)]
        model = FairGBMClassifier(classifier(**given), constraint="demographic_parity")
    model.set_params(tolerance=0.5, random_state=0)
    return model.fit(pd.DataFrame(X, columns=NAMES), y, sensitive_features=groups)


def next_to_splits(model):
    """Single numbers below, at and above each split."""
    trees, X = model._model.ensemble(), balances(3_000, 2, missing=True).astype(np.float32)
    inner = np.flatnonzero(trees.feature >= 0)[:1_000]
    for k, node in enumerate(inner.tolist()):
        at = np.float32(trees.threshold[node])
        around = [np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))]
        X[3 * k : 3 * k + 3, trees.feature[node]] = around
    return X


@pytest.mark.parametrize("case", ["two", "three", "number"])
@pytest.mark.parametrize("engine", ENGINES)
def test_single_numbers_go_the_way_that_they_go_in_the_model(tmp_path, engine, case):
    runtime = pytest.importorskip("onnxruntime")
    model = fitted(engine, case)
    model.export(path := tmp_path / "model.onnx", "onnx_float32")  # on drawn rows
    X = next_to_splits(model)
    new = pd.DataFrame(X, columns=NAMES)
    model.export(path, "onnx_float32", check_on=new.astype(np.float64) * 1.1)  # no single numbers
    assert decide(path)["model"]["format"] == "onnx_float32"
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("X", "tensor(float)", ["rows", 4])
    assert session.get_outputs()[0].type == "tensor(float)"
    found = session.run(None, {"X": X})
    assert found[0].dtype == np.float32
    if case == "number":
        np.testing.assert_allclose(found[0], model.predict(new), rtol=1e-6, atol=1e-6)
        return
    np.testing.assert_array_equal(found[1], model.predict(new))
    np.testing.assert_allclose(found[0], model.predict_proba(new), rtol=0, atol=5e-7)


def test_categories_have_no_place_in_a_matrix(tmp_path):
    X = pd.DataFrame({"a": np.arange(200.0), "kind": pd.Categorical(["x", "y"] * 100)})
    model = FairGBMClassifier(LGBMClassifier(n_jobs=1, verbose=-1), constraint=None)
    model.fit(X, np.arange(200) % 3 == 0)
    with pytest.raises(ExportError, match=r"column 'kind' has categories.* use format='onnx'"):
        model.export(tmp_path / "model.onnx", "onnx_float32")
    assert list(tmp_path.iterdir()) == []
