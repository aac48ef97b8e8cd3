"""Warnings: where they point, and that a cross-validation does not repeat them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from fairboost import FairGBMClassifier
from fairboost._warnings import _said, warn
from fairboost.exceptions import FairnessWarning, NotMetWarning


@pytest.fixture(autouse=True)
def routing():
    _said.clear()
    with config_context(enable_metadata_routing=True):
        yield


def people(n=2_000):
    rng = np.random.default_rng(0)
    g = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n), g])
    return X, (X[:, 0] + 2 * g - 1 + rng.normal(size=n) > 0).astype(int), g


def short():
    """Too few rounds to meet anything."""
    engine = LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    model = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.01, holdout=0.3)
    return model.set_fit_request(sensitive_features=True)


def heard(call, action="default"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter(action, FairnessWarning)
        call()
    return [w for w in caught if issubclass(w.category, FairnessWarning)]


def search(refit=True):
    X, y, g = people()
    grid = {"estimator__num_leaves": [4, 8], "estimator__learning_rate": [0.05, 0.1]}
    GridSearchCV(short(), grid, cv=2, refit=refit).fit(X, y, sensitive_features=g)


def test_a_grid_search_says_once_what_its_fits_have_in_common():
    found = heard(lambda: search(refit=False))
    texts = [str(w.message) for w in found]
    assert 1 <= len(texts) == len({t.partition(":")[0] for t in texts}) <= 2
    assert all(t.endswith("other fits of it may say the same, unheard.)") for t in texts)


def test_the_model_that_is_kept_is_always_heard():
    heard(lambda: search(refit=False))
    kept = [w for w in heard(search) if "cross-validation" not in str(w.message)]
    assert kept and {w.filename for w in kept} == {__file__}


@pytest.mark.parametrize("again", range(2))
def test_filters_of_the_user_are_heeded(again):
    assert len(heard(lambda: search(refit=False), "always")) >= 8
    X, y, g = people()
    with warnings.catch_warnings(action="error"), pytest.raises(FairnessWarning):
        cross_validate(short(), X, y, params={"sensitive_features": g}, cv=2, error_score="raise")


def test_fits_of_the_users_own_are_all_heard():
    X, y, g = people()
    model = make_pipeline("passthrough", short())
    for _ in range(2):
        found = heard(lambda: model.fit(X, y, sensitive_features=g))
        assert found and {w.filename for w in found} == {__file__}


def test_a_warning_points_at_the_line_that_led_to_it():
    with pytest.warns(NotMetWarning, match="so") as caught:
        warn("so", NotMetWarning)
    assert caught[0].filename == __file__
