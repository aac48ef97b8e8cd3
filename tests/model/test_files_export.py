"""Exported models: stock LightGBM returns our probabilities, and contributions add up."""

from __future__ import annotations

import os
import warnings

import lightgbm
import numpy as np
import pytest
from scipy.special import expit

from fairboost import FairGBMClassifier, load
from fairboost.exceptions import ExportError, ModelFileError

ENGINES = {
    "plain": {},
    "bagging": {"subsample": 0.5, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "old-goss": {"boosting_type": "goss"},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "class-weight": {"class_weight": "balanced"},
    "no-average": {"boost_from_average": False},
    "extra-trees": {"extra_trees": True},
    "one-tree": {"n_estimators": 1},
    "stumps": {"num_leaves": 2},
    "no-split": {"min_split_gain": 1e9},
}


@pytest.fixture(scope="module")
def fair(engine, toy):
    def fit(X, *, iterate="last", fit_options=None, tolerance=0.01, **options):
        model = FairGBMClassifier(
            engine(**options),
            constraint="demographic_parity",
            tolerance=tolerance,
            multiplier_learning_rate=2.0,
            iterate=iterate,
            random_state=0,
        )
        return model.fit(X, toy.y, sensitive_features=toy.group, **(fit_options or {}))

    return fit


@pytest.fixture(scope="module")
def shap():
    with warnings.catch_warnings(action="ignore"):  # on import, about matplotlib
        return pytest.importorskip("shap")


def exported(model, folder):
    path = folder / "model.txt"
    model.export(path)
    return lightgbm.Booster(model_file=path)


def assert_same_probabilities(model, booster, X):
    expected = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(booster.predict(X), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.estimator_.predict_proba(X)[:, 1], expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("options", ENGINES.values(), ids=ENGINES)
def test_same_probabilities_with_missing_values_and_categories(fair, toy, tmp_path, options):
    model = fair(toy.frame, **options)
    booster = exported(model, tmp_path)
    assert_same_probabilities(model, booster, toy.frame)
    assert booster.num_trees() == model.best_iteration_


@pytest.mark.parametrize("iterate", ["last", "average"])
def test_linear_trees(fair, toy, tmp_path, iterate):
    X = np.array(toy.X)
    X[::9, 0] = np.nan  # where a feature is missing, a linear leaf falls back on its constant
    model = fair(X, linear_tree=True, iterate=iterate)
    booster = exported(model, tmp_path)
    assert "is_linear=1" in booster.model_to_string()
    assert_same_probabilities(model, booster, X)


def test_average_is_the_mean_of_all_iterates(fair, toy, tmp_path):
    average, last = fair(toy.frame, iterate="average"), fair(toy.frame)
    booster = exported(average, tmp_path)
    assert_same_probabilities(average, booster, toy.frame)
    prefixes = [
        last.estimator_.predict(toy.frame, raw_score=True, num_iteration=t) for t in range(1, 9)
    ]
    np.testing.assert_allclose(
        booster.predict(toy.frame, raw_score=True), np.mean(prefixes, axis=0), atol=1e-12
    )


def test_early_stopping_exports_the_best_iteration(fair, toy, tmp_path):
    fit_options = {
        "eval_set": [(toy.frame[:150], 1 - toy.y[:150])],  # gets worse at once
        "callbacks": [lightgbm.early_stopping(2, verbose=False)],
    }
    model = fair(toy.frame, fit_options=fit_options, tolerance=0.99)
    assert model.best_iteration_ == 1
    booster = exported(model, tmp_path)
    assert booster.num_trees() == 1
    assert_same_probabilities(model, booster, toy.frame)


def test_the_intercept_is_in_the_first_tree(fair, toy, tmp_path):
    model = fair(toy.X, n_estimators=3)
    booster = exported(model, tmp_path)
    share = toy.y.mean()
    start = np.log(share / (1 - share))
    first = booster.predict(toy.X, raw_score=True, num_iteration=1)
    assert abs(first.mean() - start) < 0.05  # the first tree moves little, and both ways
    assert "objective=binary sigmoid:1" in booster.model_to_string()
    assert "[objective: binary]" in (tmp_path / "model.txt").read_text()


@pytest.mark.parametrize("options", [{}, {"boosting_type": "dart"}], ids=["gbdt", "dart"])
@pytest.mark.parametrize("with_frame", [False, True], ids=["array", "frame"])
def test_contributions_add_up(fair, toy, tmp_path, options, with_frame):
    X = toy.frame if with_frame else toy.X
    booster = exported(fair(X, **options), tmp_path)
    contributions = booster.predict(X, pred_contrib=True)
    assert contributions.shape == (len(toy), 5)
    raw = booster.predict(X, raw_score=True)
    np.testing.assert_allclose(contributions.sum(axis=1), raw, atol=1e-10)
    assert np.abs(contributions[:, :4]).max() > 0.1


@pytest.mark.parametrize("iterate", ["last", "average"])
def test_shap_reads_the_exported_model(shap, fair, toy, tmp_path, iterate):
    model = fair(toy.X, iterate=iterate)
    explainer = shap.TreeExplainer(exported(model, tmp_path))
    explanation = explainer(toy.X[:50])
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, model.decision_function(toy.X[:50]), atol=1e-9)
    # Its own reading of the trees, without LightGBM: needs the intercept in internal values too.
    by_shap = shap.TreeExplainer(exported(model, tmp_path), feature_perturbation="interventional",
                                 data=toy.X[:20], model_output="probability")  # fmt: skip
    values = by_shap.shap_values(toy.X[:50])
    np.testing.assert_allclose(
        values.sum(axis=1) + by_shap.expected_value,
        model.predict_proba(toy.X[:50])[:, 1],
        atol=1e-6,
    )


def test_training_goes_on_from_an_exported_model(fair, toy, tmp_path):
    """A stock model can be continued; its scores count from where ours end."""
    model = fair(toy.X)
    more = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(toy.X, toy.y),
        num_boost_round=2,
        init_model=exported(model, tmp_path),
    )
    np.testing.assert_allclose(
        more.predict(toy.X, num_iteration=8), model.predict_proba(toy.X)[:, 1], atol=1e-12
    )


def test_randomized_has_no_stock_form(fair, toy, tmp_path):
    model = fair(toy.X, iterate="randomized")
    with pytest.raises(ExportError, match="no single booster does; train with iterate="):
        model.export(tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(  # which does not stop it from predicting
        model.predict_proba(toy.X)[:, 1], expit(model.decision_function(toy.X))
    )


# Writing, whole or not at all


@pytest.mark.parametrize("method", ["save", "export"])
def test_a_failed_write_leaves_nothing(fair, toy, tmp_path, monkeypatch, method):
    model = fair(toy.X)
    monkeypatch.setattr(os, "fsync", _disk_full)
    with pytest.raises(OSError, match="no space left"):
        getattr(model, method)(tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["save", "export"])
def test_a_failed_write_keeps_the_old_file(fair, toy, tmp_path, monkeypatch, method):
    path = tmp_path / "model.txt"
    getattr(fair(toy.X), method)(path)
    before = path.read_bytes()
    other = fair(toy.X, num_leaves=3)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space left"):
        patched.setattr(os, "fsync", _disk_full)
        getattr(other, method)(path)
    assert path.read_bytes() == before
    decide = [tmp_path / "model.txt.decide.json"] if method == "export" else []
    assert sorted(tmp_path.iterdir()) == [path, *decide]
    getattr(other, method)(path)
    assert path.read_bytes() != before


@pytest.mark.parametrize("kind", [ModelFileError, FileNotFoundError])
@pytest.mark.parametrize("method", ["save", "export"])
def test_a_folder_that_is_not_there(fair, toy, tmp_path, method, kind):
    with pytest.raises(kind, match=r"the folder .*nowhere does not exist; make it, or name anot"):
        getattr(fair(toy.X), method)(tmp_path / "nowhere" / "model.txt")


@pytest.mark.parametrize("kind", [ModelFileError, IsADirectoryError])
@pytest.mark.parametrize("method", ["save", "export"])
def test_a_folder_where_the_file_would_be(fair, toy, tmp_path, method, kind):
    folder = tmp_path / "model.txt"
    folder.mkdir()
    with pytest.raises(kind, match=r"cannot write .*model\.txt: it is a folder; name a file"):
        getattr(fair(toy.X), method)(folder)
    assert [*tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("method", ["save", "export"])
def test_paths_may_be_text(fair, toy, tmp_path, method):
    getattr(fair(toy.X), method)(str(tmp_path / "model.txt"))
    assert (tmp_path / "model.txt").stat().st_mode & 0o044 == 0o044 & ~_umask()


def test_a_loaded_model_exports_the_same_file(fair, toy, tmp_path):
    model = fair(toy.frame)
    model.save(tmp_path / "model.json")
    model.export(tmp_path / "before.txt")
    load(tmp_path / "model.json").export(tmp_path / "after.txt")
    after = lightgbm.Booster(model_file=tmp_path / "after.txt")
    assert_same_probabilities(model, after, toy.frame)
    assert (tmp_path / "before.txt").read_text() == (tmp_path / "after.txt").read_text()


def _disk_full(descriptor):
    raise OSError("no space left on device")


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
