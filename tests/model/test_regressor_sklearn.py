"""The scikit-learn contract of ``FairGBMRegressor``: its own checks, and the tools around it."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from fairboost import FairGBMRegressor, bound, parity
from fairboost.exceptions import FairnessWarning

FOLDS = (
    "which rows are held out is drawn by their number, and a row of weight 0 is drawn as others "
    "are, so weights are not the same as repeated or removed rows"
)
MEDIANS = "LightGBM's own: its median by weights is another one than its median of as many rows"
EXPECTED_FAILURES = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
REASONS = {"bound": FOLDS, "own objective": MEDIANS}
# A bound on everyone needs no groups, which scikit-learn's checks do not have.
CASES = {
    "plain": {"constraint": None},
    "bound": {"constraint": bound("prediction", 1e6)},
    "bound on training rows": {"constraint": bound("prediction", 1e6), "holdout": None},
    "own objective": {
        "constraint": None,
        "estimator__objective": "mae",
        "estimator__learning_rate": 0.5,
    },
}


def _tiny(**params):
    """scikit-learn checks on a handful of rows; an engine that can split them."""
    engine = LGBMRegressor(
        n_estimators=5, min_child_samples=1, min_data_in_bin=1, n_jobs=1, verbose=-1
    )
    return FairGBMRegressor(engine, random_state=0).set_params(**params)


def _checks():
    # By hand: parametrize_with_checks of older scikit-learn passes an iterator; pytest 9 warns.
    for label, params in CASES.items():
        for estimator, check in estimator_checks_generator(_tiny(**params), mark=None):
            name = check.func.__name__
            reason = REASONS.get(label) if name in EXPECTED_FAILURES else None
            marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True),)
            yield pytest.param(estimator, check, marks=marks, id=f"{label}-{name}")


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
@pytest.mark.filterwarnings("ignore:Converting data to scipy sparse matrix")  # LightGBM's, to COO
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", EXPECTED_FAILURES)
def test_stock_lightgbm_fails_the_same_checks(name):
    engine = _tiny(**CASES["own objective"]).estimator
    checks = {c.func.__name__: c for _, c in estimator_checks_generator(engine, mark=None)}
    with pytest.raises(AssertionError, match="not equivalent"):
        checks[name](engine)


# Parameters


@pytest.fixture(scope="module")
def numbers(toy):
    """Numbers that the features tell; group "b" has smaller ones."""
    noise = np.random.default_rng(1).normal(size=len(toy))
    return 10.0 + 2.0 * toy.X[:, 0] - toy.X[:, 1] - 3.0 * (toy.group == "b") + noise


@pytest.fixture
def model():
    engine = LGBMRegressor(
        n_estimators=8, num_leaves=7, learning_rate=0.3, n_jobs=1, verbose=-1, random_state=0
    )
    return FairGBMRegressor(engine, constraint="equal_means", tolerance=1.0, random_state=0)


def test_it_is_a_regressor(model):
    assert is_regressor(model)
    tags = model.__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse


def test_clone_gives_an_unfitted_equal(model, toy, numbers):
    model.fit(toy.X, numbers, sensitive_features=toy.group)
    copy = clone(model)
    assert copy.estimator is not model.estimator
    assert copy.estimator.get_params() == model.estimator.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(toy.X)


def test_clone_keeps_every_parameter(model):
    changed = {
        "constraint": parity("loss", 0.3), "tolerance": 0.2, "confidence": 0.9, "holdout": 0.3,
        "multiplier_learning_rate": 0.7, "memberships": "honest", "iterate": "average",
        "min_group_rows": 5, "random_state": 3, "verbose": 1,
    }  # fmt: skip
    defaults = FairGBMRegressor().get_params(deep=False)
    assert changed.keys() | {"estimator"} == defaults.keys()
    found = clone(FairGBMRegressor(model.estimator, **changed)).get_params(deep=False)
    for name, value in changed.items():
        assert found[name] == value != defaults[name]


def test_parameters_reach_the_engine_by_name(model):
    model.set_params(estimator__num_leaves=5, tolerance=0.2)
    assert model.estimator.num_leaves == 5
    assert model.get_params()["tolerance"] == 0.2
    with pytest.raises(ValueError, match="Invalid parameter 'toleranze'"):
        model.set_params(toleranze=0.1)


def test_the_users_estimator_is_never_changed(model, toy, numbers):
    before, attributes = model.estimator.get_params(), set(vars(model.estimator))
    model.fit(toy.X, numbers, sensitive_features=toy.group)
    assert model.estimator.get_params() == before
    assert set(vars(model.estimator)) == attributes
    assert model.estimator_.get_params() == before


def test_the_default_estimator_is_stock(toy, numbers):
    model = FairGBMRegressor(constraint=None).fit(toy.X, numbers)
    assert model.estimator_.get_params() == LGBMRegressor().get_params()
    np.testing.assert_array_equal(
        model.predict(toy.X), LGBMRegressor(verbose=-1).fit(toy.X, numbers).predict(toy.X)
    )


def test_fitted_attributes(model, toy, numbers):
    frame = toy.frame
    assert model.fit(frame, numbers, sensitive_features=toy.group) is model
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert 1 <= model.best_iteration_ == model.booster_.num_trees() <= 8
    assert len(model.trace_) == 8
    assert model.multipliers_.index.tolist() == [
        f"prediction[sensitive_feature={g}] {side}" for side in ("above", "below") for g in "ab"
    ]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize("iterate", ["best", "last", "average"])
def test_pickle_gives_equal_predictions(model, toy, numbers, iterate):
    model.set_params(iterate=iterate).fit(toy.frame, numbers, sensitive_features=toy.group)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(toy.frame), model.predict(toy.frame))
    pd.testing.assert_frame_equal(copy.trace_, model.trace_)
    assert str(copy.fairness_report_) == str(model.fairness_report_)


def test_parameters_set_after_fit_wait_for_the_next_fit(model, toy, numbers):
    model.fit(toy.X, numbers, sensitive_features=toy.group)
    before = model.predict(toy.X)
    for iterate in ("best", "last", "average"):
        model.set_params(iterate=iterate, random_state=7, holdout=None)
        np.testing.assert_array_equal(model.predict(toy.X), before)


def test_verbose_shows_progress(model, toy, numbers, capfd):
    model.fit(toy.X, numbers, sensitive_features=toy.group)
    assert capfd.readouterr().err == ""
    model.set_params(verbose=1).fit(toy.X, numbers, sensitive_features=toy.group)
    assert "8/8" in capfd.readouterr().err


def test_score_is_that_of_predictions(model, toy, numbers):
    model.fit(toy.X, numbers, sensitive_features=toy.group)
    assert model.score(toy.X, numbers) == r2_score(numbers, model.predict(toy.X)) > 0.5
    found = get_scorer("neg_mean_absolute_error")(model, toy.X, numbers)
    assert found == -np.abs(model.predict(toy.X) - numbers).mean()


# Metadata routing


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_pipeline_routes_the_groups(model, toy, numbers, routing):
    pipe = make_pipeline(StandardScaler(), model.set_fit_request(sensitive_features=True))
    pipe.fit(toy.X, numbers, sensitive_features=toy.group)
    scaled = StandardScaler().fit_transform(toy.X)
    direct = clone(model).fit(scaled, numbers, sensitive_features=toy.group)
    assert pipe[-1].multipliers_.sum() > 0
    np.testing.assert_array_equal(pipe.predict(toy.X), direct.predict(scaled))


def test_grid_search_over_constraints_and_tolerances(model, toy, numbers, routing):
    grid = [
        {"constraint": ["equal_means"], "tolerance": [1.0, 2.0]},
        {"constraint": ["equal_distributions"], "tolerance": [0.1, 0.2]},
        {"constraint": [parity("prediction", 0.05, relative=True), None], "tolerance": [None]},
    ]
    search = GridSearchCV(model.set_fit_request(sensitive_features=True), grid, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # eight trees are few
        search.fit(toy.X, numbers, sensitive_features=toy.group)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) > 3  # they make a difference
    best = search.best_estimator_
    assert {name: getattr(best, name) for name in search.best_params_} == search.best_params_


def test_exposure_is_routed_to_fit_and_to_predict(model, toy, routing):
    rng = np.random.default_rng(2)
    exposure = rng.uniform(0.2, 1.0, len(toy))
    claims = rng.poisson(exposure * np.exp(0.5 + 0.4 * toy.X[:, 0])).astype(float)
    model.set_params(estimator__objective="poisson", constraint="calibrated", tolerance=0.2)
    model.set_fit_request(sensitive_features=True, exposure=True)
    model.set_predict_request(exposure=True)
    pipe = make_pipeline(StandardScaler(), model)
    given = {"sensitive_features": toy.group, "exposure": exposure}
    pipe.fit(toy.X, claims, **given)
    scaled = StandardScaler().fit_transform(toy.X)
    direct = clone(model).fit(scaled, claims, **given)
    np.testing.assert_array_equal(
        pipe.predict(toy.X, exposure=exposure), direct.predict(scaled) * exposure
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        out = cross_validate(
            pipe, toy.X, claims, cv=3, params=given, scoring="neg_mean_poisson_deviance",
            return_estimator=True,
        )  # fmt: skip
    assert np.isfinite(out["test_score"]).all()
    assert all(len(fold[-1].trace_) == 8 for fold in out["estimator"])


def test_a_score_of_rates_against_counts_is_refused(model, toy, routing):
    """A search without a scoring of its own would choose by it."""
    rng = np.random.default_rng(2)
    years = rng.uniform(0.2, 1.0, len(toy))
    claims = rng.poisson(years * np.exp(0.5 + 0.4 * toy.X[:, 0])).astype(float)
    model.set_params(estimator__objective="poisson", constraint=None, tolerance=None)
    model.set_fit_request(exposure=True)
    fitted = clone(model).fit(toy.X, claims, exposure=years)
    found = fitted.score(toy.X, claims, exposure=years)
    assert found == r2_score(claims, fitted.predict(toy.X) * years) > 0.1
    with pytest.raises(ValueError, match="trained with exposures and predicts per unit"):
        fitted.score(toy.X, claims)
    grid = {"estimator__num_leaves": [3, 7]}
    search = GridSearchCV(model.set_score_request(exposure=True), grid, cv=2)
    assert search.fit(toy.X, claims, exposure=years).best_score_ > 0.1


@pytest.mark.parametrize("routed", [False, True], ids=["", "routed"])
def test_targets_that_are_transformed(model, toy, numbers, routed):
    """The constraint is about the numbers that the model sees."""
    model.set_params(tolerance=0.1)
    with config_context(enable_metadata_routing=routed):
        if routed:
            model.set_fit_request(sensitive_features=True)
        around = TransformedTargetRegressor(model, func=np.arctan, inverse_func=np.tan)
        around.fit(toy.X, numbers / 20.0, sensitive_features=toy.group)
    direct = clone(model).fit(toy.X, np.arctan(numbers / 20.0), sensitive_features=toy.group)
    np.testing.assert_array_equal(around.predict(toy.X), np.tan(direct.predict(toy.X)))
    assert str(around.regressor_.fairness_report_) == str(direct.fairness_report_)


def test_requests_of_every_method(model, routing):
    model.set_fit_request(sensitive_features=True, exposure="years", eval_exposure=True)
    model.set_predict_request(exposure="years")
    model.set_score_request(sample_weight=True)
    request = clone(model).get_metadata_routing()
    assert request.fit.requests["sensitive_features"] is True
    assert request.fit.requests["exposure"] == request.predict.requests["exposure"] == "years"
    assert request.score.requests["sample_weight"] is True


def test_cross_validation_without_routing_the_groups_fails_loudly(model, toy, numbers, routing):
    with pytest.raises(ValueError, match="sensitive_features is missing"):
        cross_validate(model, toy.X, numbers, cv=2, error_score="raise")
