"""XGBoost's options that change what its trees count."""

import json

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier
from fairboost.engines.xgboost import data as xgboost_data
from fairboost.engines.xgboost.engine import restore
from fairboost.engines.xgboost.options import every_booster_drops, is_dart
from fairboost.exceptions import ModelFileError
from tests.kinds import KINDS

DROPS = [{"rate_drop": 0.9}, {"one_drop": 1}]


def make(**options):
    """Make an engine that does not say which options XGBoost passes over."""
    return KINDS["xgboost"].make(verbosity=0, **options)


def fit(estimator, toy, **params):
    defaults = {"constraint": "demographic_parity", "memberships": "observed", "holdout": 0.3}
    model = FairGBMClassifier(estimator, **{**defaults, **params})
    return model.fit(toy.X, toy.y, sensitive_features=toy.group)


def margins(estimator, X):
    return estimator.predict(X, output_margin=True)


def changes_a_model(options, toy):
    """Whether XGBoost itself does something else with these options."""
    one, other = (make(**given).fit(toy.X, toy.y) for given in (options, {}))
    return not np.array_equal(margins(one, toy.X), margins(other, toy.X))


@pytest.mark.parametrize(
    "options",
    [*DROPS, {"rate_drop": 0.0}, {"one_drop": 0}, {"one_drop": False}, {"rate_drop": None},
     {"skip_drop": 0.5}, {"sample_type": "weighted"}, {"normalize_type": "forest"}],
    ids=str,
)  # fmt: skip
def test_trees_are_dropped_where_xgboost_drops_them(toy, options):
    assert is_dart(make(**options).get_params()) == changes_a_model(options, toy)
    assert is_dart(make(booster="dart", **options).get_params())


@pytest.mark.parametrize("options", DROPS, ids=str)
def test_scores_of_rounds_count_what_was_dropped(monkeypatch, toy, options):
    monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", 0)  # by our own trees where they may
    one = fit(make(**options), toy, iterate="last")
    monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", np.inf)
    other = fit(make(**options), toy, iterate="last")
    np.testing.assert_allclose(one.trace_["loss"], other.trace_["loss"], rtol=1e-6)


@pytest.mark.parametrize("options", DROPS, ids=str)
def test_a_stage_leaves_the_trees_of_its_base_as_they_are(toy, options):
    base = make(**options).fit(toy.X, toy.y)
    model = fit(FrozenEstimator(base), toy, iterate="last")
    before = model.estimator_.predict(toy.X, output_margin=True, iteration_range=(0, 8))
    np.testing.assert_array_equal(before, margins(base, toy.X))


def test_factors_that_xgboost_would_not_read(toy):
    base = make().fit(toy.X, toy.y)
    document = json.loads(base.get_booster().save_raw("json"))
    document["learner"]["gradient_booster"]["model"]["weight_drop"] = [0.5] * 8
    document["learner"]["learner_model_param"]["base_score"] = "[5E-1]"
    arguments = (make(), json.dumps(document), 0.0, np.array([0, 1]), toy.X.shape[1], 0)
    if every_booster_drops():
        halved = (margins(base, toy.X) - margins(base, toy.X).mean()) / 2
        found = restore(*arguments).scores(toy.X)
        np.testing.assert_allclose(found - found.mean(), halved, atol=1e-5)
        return
    with pytest.raises(ModelFileError, match="which XGBoost passes over"):
        restore(*arguments)
