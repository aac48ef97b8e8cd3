"""Operating points in files: saved, pickled, exported for stock LightGBM."""

from __future__ import annotations

import json
import pickle
import re
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, at_fpr, at_positive_rate, at_tpr, load
from fairboost._files import checksum
from fairboost.exceptions import ModelFileError

POINTS = {"fpr": at_fpr(0.1), "tpr": at_tpr(0.7), "budget": at_positive_rate(0.2)}
ALL_POINTS = pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)


@pytest.fixture(scope="module")
def fair(engine, toy):
    def fit(point, *, options=None, **params):
        defaults = {"constraint": "demographic_parity", "holdout": 0.3, "memberships": "observed"}
        model = FairGBMClassifier(
            engine(**(options or {})),
            operating_point=point,
            random_state=0,
            **{**defaults, **params},
        )
        return model.fit(toy.X, toy.y, sensitive_features=toy.group)

    return fit


@pytest.fixture(scope="session")
def other(make_toy):
    return make_toy(n=300, seed=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def assert_same(loaded, model, X):
    assert loaded.threshold_ == model.threshold_
    assert loaded.operating_point == model.operating_point
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    pd.testing.assert_frame_equal(loaded.trace_, model.trace_)


# Saved and loaded


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
@ALL_POINTS
def test_a_loaded_model_decides_alike(fair, toy, other, path, point, iterate):
    model = fair(point, iterate=iterate)
    with warnings.catch_warnings(action="error"):
        model.save(path)
    loaded = load(path)
    assert_same(loaded, model, other.X)
    assert str(loaded.fairness_report_) == str(model.fairness_report_)
    assert any(line.startswith(str(point)) for line in loaded.fairness_report_.advice)
    loaded.save(path.with_name("again.json"))
    assert path.with_name("again.json").read_text() == path.read_text()
    again = loaded.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert_same(again, model, other.X)


@pytest.mark.parametrize("holdout", [None, "cross"])
def test_whatever_rows_it_was_read_on(fair, other, path, holdout):
    model = fair(at_fpr(0.1), holdout=holdout)
    model.save(path)
    assert_same(load(path), model, other.X)


def test_without_a_constraint(fair, other, path):
    model = fair(at_fpr(0.1), constraint=None)
    model.save(path)
    assert_same(load(path), model, other.X)


def test_a_stage_on_a_frozen_model(engine, toy, other, path):
    model = FairGBMClassifier(
        FrozenEstimator(engine().fit(toy.X, toy.y)),
        constraint="demographic_parity",
        operating_point=at_tpr(0.7),
        memberships="observed",
    ).fit(toy.X, toy.y, sensitive_features=toy.group)
    model.save(path)
    assert_same(load(path), model, other.X)


def test_a_target_of_numpy(fair, other, path):
    model = fair(at_fpr(np.float32(0.1)))
    model.save(path)
    assert_same(load(path), model, other.X)


def test_a_loaded_model_reports_on_test_rows_in_words(fair, other, path):
    fair(at_fpr(0.1)).save(path)
    report = load(path).report_on(other.X, other.y, sensitive_features=other.group)
    (said,) = [line for line in report.advice if line.startswith("at_fpr(0.1)")]
    assert "on the test rows" in said


@ALL_POINTS
def test_pickled(fair, other, point):
    model = fair(point)
    assert_same(pickle.loads(pickle.dumps(model)), model, other.X)


# Files of version 1 know probabilities only


def as_version_1(path):
    document = json.loads(path.read_text())
    del document["model"]["score_threshold"], document["model"]["self_test"]
    document["format_version"] = 1
    document["sha256"] = checksum(document["model"])
    path.write_text(json.dumps(document))


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("probability", [0.5, 0.1, 0.3, 0.71, 0.999, np.float64(0.4)])
def test_a_file_of_version_1(fair, other, path, probability):
    model = fair(probability)
    model.save(path)
    assert json.loads(path.read_text())["format_version"] == 3
    as_version_1(path)
    assert_same(load(path), model, other.X)


def test_a_file_of_version_1_that_was_edited(fair, path):
    fair(0.4).save(path)
    document = json.loads(path.read_text())
    del document["model"]["score_threshold"]
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        load(path)


# Exported


def notes(path):
    """What the head of the file says of us."""
    head = path.read_text().split("\nTree=")[0]
    return dict(re.findall(r"^fairboost_(\w+)=(.*)$", head, re.MULTILINE))


ENGINES = {
    "plain": {},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "linear trees": {"linear_tree": True},
    "class weights": {"class_weight": "balanced"},
    "one tree": {"n_estimators": 1},
}


@pytest.mark.parametrize("options", [*ENGINES, "average"])
@ALL_POINTS
def test_an_exported_model_carries_the_threshold(fair, other, tmp_path, point, options):
    iterate = "average" if options == "average" else "last"
    model = fair(point, options=ENGINES.get(options), iterate=iterate)
    path = tmp_path / "model.txt"
    model.export(path)
    assert notes(path) == {"threshold": repr(model.threshold_), "operating_point": str(point)}
    booster = lightgbm.Booster(model_file=path)
    np.testing.assert_array_equal(
        booster.predict(other.X), lightgbm.Booster(model_str=model._model.text()).predict(other.X)
    )
    proba = model.predict_proba(other.X)[:, 1]
    np.testing.assert_allclose(booster.predict(other.X), proba, rtol=0, atol=1e-12)
    decided = booster.predict(other.X) >= float(notes(path)["threshold"])
    np.testing.assert_array_equal(decided, model.predict(other.X))


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("probability", [0.5, np.float64(0.3), 0.123456789012345])
def test_a_probability_is_written_as_it_is(fair, tmp_path, probability):
    path = tmp_path / "model.txt"
    fair(probability).export(path)
    written = repr(float(probability))
    assert notes(path) == {"threshold": written, "operating_point": written}
    lightgbm.Booster(model_file=path)


def test_the_notes_are_all_that_differs(fair, tmp_path):
    model = fair(at_fpr(0.1))
    model.export(tmp_path / "model.txt")
    lines = (tmp_path / "model.txt").read_text().split("\n")
    assert [line for line in lines if not line.startswith("fairboost_")] == (
        model._model.text().split("\n")
    )


def test_lightgbm_goes_on_from_an_exported_model(fair, toy, tmp_path):
    model = fair(at_fpr(0.1), iterate="last")
    model.export(tmp_path / "model.txt")
    more = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(toy.X, toy.y),
        num_boost_round=2,
        init_model=str(tmp_path / "model.txt"),
    )
    np.testing.assert_allclose(
        more.predict(toy.X, num_iteration=8), model.predict_proba(toy.X)[:, 1], atol=1e-12
    )
