"""Exports of LightGBM models say what the model says at zero, and of the numbers next to it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.engines.lightgbm.trees import read_ensemble
from fairboost.exceptions import ExportError
from fairboost.model.self_test import drawn_table
from tests.serving.test_export import run_onnx

ZERO = float(np.float32(1e-35))  # LightGBM's own 0 reaches so far
NEXT_TO_ZERO = [
    *(0.0, -0.0, np.nan, ZERO, -ZERO, 1e-36, -1e-36, 5e-324, -5e-324, 1e-30, -1e-30),
    *(np.nextafter(sign * ZERO, towards) for sign in (1, -1) for towards in (-1, 1)),
]


def balances(n, seed, missing):
    """Numbers of which many are zero: of both signs, negative ones alone, and whole ones."""
    rng = np.random.default_rng(seed)
    X = 100 * rng.normal(size=(n, 4))
    X[rng.random(n) < 0.4, 0] = 0.0
    X[:, 1] = np.where(rng.random(n) < 0.5, 0.0, -np.abs(X[:, 1]))
    X[:, 2] = np.round(X[:, 2] / 50)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def fitted(case, missing=False, **options):
    X, rng = balances(900, 0, missing), np.random.default_rng(1)
    groups, known = rng.integers(0, 2, 900), np.nan_to_num(X)
    signal = (known[:, 0] >= 0) + (known[:, 0] > 0) - 1.0 * (known[:, 1] < 0) + (known[:, 2] < 0)
    signal = signal + 0.4 * groups + rng.normal(0, 0.5, 900)
    engine = {"n_estimators": 12, "num_leaves": 15, "n_jobs": 1, "verbose": -1, **options}
    if case == "number":
        model = FairGBMRegressor(LGBMRegressor(**engine), constraint="equal_means", tolerance=0.5)
        return model.fit(X, signal, sensitive_features=groups)
    edges = np.quantile(signal, [0.5] if case == "two" else [0.3, 0.7])
    model = FairGBMClassifier(
        LGBMClassifier(**engine), constraint="demographic_parity", random_state=0
    )
    return model.fit(X, np.digitize(signal, edges), sensitive_features=groups)


@pytest.fixture
def new():
    """Rows with every number next to zero."""
    X, rng = balances(600, 2, False), np.random.default_rng(3)
    at = rng.random(X.shape) < 0.3
    X[at] = rng.choice(NEXT_TO_ZERO, at.sum())
    return X


def said_by_onnx(path, model, new):
    found = run_onnx(path, new)
    if "prediction" in found:
        np.testing.assert_allclose(found["prediction"], model.predict(new), rtol=1e-12)
        return
    np.testing.assert_array_equal(found["label"], model.predict(new))
    np.testing.assert_allclose(found["probability"], model.predict_proba(new), atol=1e-14)


@pytest.mark.parametrize("missing", [False, True], ids=["", "missing"])
@pytest.mark.parametrize("case", ["two", "three", "number"])
def test_splits_between_negative_values_and_zero(tmp_path, new, case, missing):
    treelite = pytest.importorskip("treelite")
    model = fitted(case, missing)
    assert re.search(r"(?m)^threshold=.*-1\.0+18002509\d*e-35", model._model.text())
    model.export(tmp_path / "a.onnx")  # on drawn rows, which have the thresholds themselves
    said_by_onnx(tmp_path / "a.onnx", model, new)
    for path in (tmp_path / "a.onnx", tmp_path / "a.tl"):
        model.export(path, check_on=new)
    model.export(tmp_path / "a.tl")
    found = np.squeeze(
        treelite.gtil.predict(treelite.Model.deserialize(tmp_path / "a.tl"), new, nthread=1)
    )
    if case == "number":
        np.testing.assert_allclose(found, model.predict(new), rtol=1e-12)
    else:
        proba = model.predict_proba(new)
        np.testing.assert_allclose(found, proba[:, 1] if case == "two" else proba, atol=1e-6)


def test_in_c(tmp_path, new):
    pytest.importorskip("tl2cgen")
    model = fitted("two", missing=True)
    model.export(tmp_path / "drawn", "c")
    model.export(tmp_path / "given", "c", check_on=new)


def test_rows_are_drawn_that_c_does_not_take_for_missing_values():
    split = np.nextafter(-1.5, 0.0)  # as LightGBM splits whole numbers; its last bits are ones
    drawn = drawn_table({0: [split, 2.0]}, 1)
    assert -1.5 in drawn
    assert split not in drawn


@pytest.mark.parametrize("case", ["two", "three", "number"])
def test_zeros_as_missing_values(tmp_path, new, case):
    pytest.importorskip("onnxruntime")
    model = fitted(case, missing=True, zero_as_missing=True)
    assert model._model.ensemble().zero_missing
    model.export(tmp_path / "a.onnx")
    model.export(tmp_path / "a.onnx", check_on=new)
    said_by_onnx(tmp_path / "a.onnx", model, new)
    for form in ("treelite", "c"):
        with pytest.raises(ExportError, match="use format='lightgbm' or 'onnx'"):
            model.export(tmp_path / form, form)


def test_zeros_that_are_missing_values_to_some_trees():
    text = fitted("two", missing=True, zero_as_missing=True)._model.text()
    kinds = re.search(r"(?m)^decision_type=(.*)$", text)[1]
    other = text.replace(kinds, " ".join(str(int(kind) % 4 + 8) for kind in kinds.split()), 1)
    with pytest.raises(ExportError, match="zero_as_missing was changed between them"):
        read_ensemble(other, 2)
