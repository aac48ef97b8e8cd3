"""The scikit-learn contract: its own checks, and the tools that users put around an estimator."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from fairboost import FairGBMClassifier, bound, parity
from fairboost.exceptions import ConstraintError

BINNING = (
    "LightGBM's own: a row of weight 0 still takes part in the choice of bin edges, and limits "
    "such as min_child_samples count rows, so weights are not the same as repeated or removed rows"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": BINNING,
    "check_sample_weight_equivalence_on_sparse_data": BINNING,
}


class Bounded(FairGBMClassifier):
    """scikit-learn checks on two labels and on three, whose rates have other names."""

    def _options(self):
        several = len(getattr(self, "classes_", ())) > 2
        limit = bound("given", 0.6) if several else bound("fpr", 0.3)
        return replace(super()._options(), constraint=limit)


def _tiny(constraint, kind=FairGBMClassifier):
    """scikit-learn checks on a handful of rows; an engine that can split them."""
    engine = LGBMClassifier(
        n_estimators=5, min_child_samples=1, min_data_in_bin=1, n_jobs=1, verbose=-1
    )
    return kind(engine, constraint=constraint, random_state=0)


def _checks():
    # By hand: parametrize_with_checks of older scikit-learn passes an iterator; pytest 9 warns.
    for label, kind in (("plain", FairGBMClassifier), ("bound", Bounded)):
        for estimator, check in estimator_checks_generator(_tiny(None, kind), mark=None):
            name = check.func.__name__
            reason = EXPECTED_FAILURES.get(name)
            marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True),)
            yield pytest.param(estimator, check, marks=marks, id=f"{label}-{name}")


@pytest.mark.filterwarnings("ignore:2 is taken for the positive label")  # of checks with 1 and 2
@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.filterwarnings("ignore:the engine's steps are too large")
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.SmallCellWarning")
@pytest.mark.filterwarnings("ignore:Converting data to scipy sparse matrix")  # LightGBM's, to COO
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", EXPECTED_FAILURES)
def test_stock_lightgbm_fails_the_same_checks(name):
    engine = _tiny(None).estimator
    checks = {c.func.__name__: c for _, c in estimator_checks_generator(engine, mark=None)}
    with pytest.raises(AssertionError, match="not equivalent"):
        checks[name](engine)


# Parameters


@pytest.fixture
def model(engine):
    return FairGBMClassifier(
        engine(), constraint="demographic_parity", multiplier_learning_rate=2.0, random_state=0
    )


def test_clone_gives_an_unfitted_equal(model, toy):
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    copy = clone(model)
    assert copy is not model
    assert copy.estimator is not model.estimator
    assert copy.get_params()["constraint"] == "demographic_parity"
    assert copy.estimator.get_params() == model.estimator.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(toy.X)


def test_clone_keeps_every_parameter(engine):
    changed = {
        "constraint": bound("fpr", 0.3), "tolerance": 0.2, "confidence": 0.9, "holdout": 0.3,
        "operating_point": 0.4, "multipliers": "paper", "multiplier_learning_rate": 0.7,
        "proxy": "hinge", "iterate": "average", "random_state": 3, "verbose": 1,
    }  # fmt: skip
    defaults = FairGBMClassifier().get_params(deep=False)
    model = FairGBMClassifier(engine(), **changed)
    found = clone(model).get_params(deep=False)
    for name, value in changed.items():
        assert found[name] == value != defaults[name]


def test_parameters_reach_the_engine_by_name(model):
    assert model.get_params()["estimator__num_leaves"] == 7
    model.set_params(estimator__num_leaves=5, tolerance=0.2)
    assert model.estimator.num_leaves == 5
    assert model.tolerance == 0.2
    with pytest.raises(ValueError, match="Invalid parameter 'toleranze'"):
        model.set_params(toleranze=0.1)


def test_repr_names_what_was_set(model):
    text = repr(model)
    assert text.startswith("FairGBMClassifier(")
    assert "constraint='demographic_parity'" in text
    assert "num_leaves=7" in text


def test_the_users_estimator_is_never_changed(model, toy):
    before, attributes = model.estimator.get_params(), set(vars(model.estimator))
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert model.estimator.get_params() == before
    assert set(vars(model.estimator)) == attributes
    assert not model.estimator.__sklearn_is_fitted__()
    assert model.estimator_ is not model.estimator
    assert model.estimator_.get_params() == before  # and the fitted one carries the user's options


def test_a_fitted_engine_is_trained_afresh(model, toy):
    fresh = model.fit(toy.X, toy.y, sensitive_features=toy.group).predict_proba(toy.X)
    used = clone(model)
    used.estimator.fit(toy.X[:50], toy.y[:50])
    trees = used.estimator.booster_.model_to_string()
    used.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(used.predict_proba(toy.X), fresh)
    assert used.estimator.booster_.model_to_string() == trees


def test_the_default_estimator_is_stock(toy):
    model = FairGBMClassifier(constraint=None)
    model.fit(toy.X, toy.y)
    assert model.estimator_.get_params() == LGBMClassifier().get_params()
    assert model.estimator is None


def test_paper_is_algorithm_1_whatever_the_defaults(engine, toy):
    paper = FairGBMClassifier.paper(engine(), "equal_opportunity", iterate="randomized")
    params = paper.get_params(deep=False)
    assert params.pop("estimator").get_params() == engine().get_params()
    assert params == {
        "constraint": "equal_opportunity",
        "tolerance": 0.0,
        "confidence": None,
        "operating_point": 0.5,
        "holdout": None,
        "multipliers": "paper",
        "multiplier_learning_rate": 0.1,
        "proxy": "cross_entropy",
        "memberships": "observed",
        "iterate": "randomized",
        "min_group_rows": 0,
        "random_state": None,
        "verbose": 0,
        "pos_label": None,
        "classes": None,
        "costs": None,
        "stage": None,
        "stage_features": None,
    }


def test_verbose_shows_progress(model, toy, capfd):
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert capfd.readouterr().err == ""
    model.set_params(verbose=1).fit(toy.X, toy.y, sensitive_features=toy.group)
    assert "8/8" in capfd.readouterr().err


# Columns


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_wrong_columns_have_a_remedy(model, toy):
    frame = toy.frame
    model.fit(frame, toy.y, sensitive_features=toy.group)
    for wrong in (frame[frame.columns[::-1]], frame.assign(more=1.0)):
        with pytest.raises(
            ValueError, match=r"during fit\.\n(.*\n)*pass X\[model\.feature_names_in_"
        ):
            model.predict(wrong)
        assert len(model.predict(wrong[model.feature_names_in_])) == len(frame)
    with pytest.raises(
        ValueError, match=r"now missing:\n(.*\n)*add the missing columns, then pass"
    ):
        model.predict(frame[frame.columns[1:]])
    with pytest.raises(ValueError, match=r"^X has 3 features, but .* as input\.$"):
        model.predict(toy.X[:, 1:])


# Fitted state


def test_fitted_attributes(model, toy):
    frame = toy.frame
    assert model.fit(frame, toy.y, sensitive_features=toy.group) is model
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.threshold_ == 0.5
    assert 1 <= model.best_iteration_ == model.booster_.num_trees() <= 8
    assert len(model.trace_) == 8
    assert model.multipliers_.index.tolist() == [
        "ppr[sensitive_feature=a] above",
        "ppr[sensitive_feature=b] above",
        "ppr[sensitive_feature=a] below",
        "ppr[sensitive_feature=b] below",
    ]
    assert isinstance(model.trace_, pd.DataFrame)
    assert model.estimator_.booster_ is model.booster_


@pytest.mark.parametrize("attribute", ["estimator_", "booster_"])
def test_fitted_properties_before_fit(model, attribute):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model, attribute)


@pytest.mark.parametrize("operating_point", [0.2, 0.5, 0.8])
def test_the_sign_of_the_decision_function_is_the_decision(model, toy, operating_point):
    model.set_params(operating_point=operating_point, estimator__n_estimators=40)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    decision, proba = model.decision_function(toy.X), model.predict_proba(toy.X)
    labels = model.predict(toy.X)
    assert 0 < labels.sum() < len(labels)
    np.testing.assert_array_equal(labels == 1, decision >= 0)
    np.testing.assert_array_equal(labels == 1, proba[:, 1] >= operating_point)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)
    if operating_point == 0.5:
        np.testing.assert_array_equal(labels, model.estimator_.predict(toy.X))


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
def test_pickle_gives_bit_equal_scores(model, toy, iterate):
    model.set_params(iterate=iterate).fit(toy.frame, toy.y, sensitive_features=toy.group)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.decision_function(toy.frame), model.decision_function(toy.frame)
    )
    pd.testing.assert_frame_equal(copy.trace_, model.trace_)


@pytest.mark.parametrize("fitted_as", ["best", "last", "average", "randomized"])
def test_parameters_set_after_fit_wait_for_the_next_fit(model, toy, fitted_as):
    model.set_params(iterate=fitted_as).fit(toy.X, toy.y, sensitive_features=toy.group)
    before = model.decision_function(toy.X)
    for iterate in ("best", "last", "average", "randomized"):
        model.set_params(iterate=iterate, operating_point=0.9, random_state=7, holdout=None)
        np.testing.assert_array_equal(model.decision_function(toy.X), before)


def test_same_seed_same_model(engine, toy):
    def scores(seed):
        random_engine = engine(random_state=None, subsample=0.5, subsample_freq=1)
        model = FairGBMClassifier(random_engine, constraint="equalized_odds", random_state=seed)
        return model.fit(toy.X, toy.y, sensitive_features=toy.group).decision_function(toy.X)

    np.testing.assert_array_equal(scores(3), scores(3))
    assert (scores(3) != scores(4)).any()


# Metadata routing


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_fit_requests(model, routing):
    request = model.set_fit_request(
        sensitive_features=True, sample_weight="w"
    ).get_metadata_routing()
    assert request.fit.requests["sensitive_features"] is True
    assert request.fit.requests["sample_weight"] == "w"


def test_pipeline_routes_the_groups(model, toy, routing):
    pipe = make_pipeline(StandardScaler(), model.set_fit_request(sensitive_features=True))
    pipe.fit(toy.X, toy.y, sensitive_features=toy.group)
    direct = clone(model).fit(
        StandardScaler().fit_transform(toy.X), toy.y, sensitive_features=toy.group
    )
    assert pipe[-1].multipliers_.sum() > 0
    np.testing.assert_array_equal(
        pipe.decision_function(toy.X),
        direct.decision_function(StandardScaler().fit_transform(toy.X)),
    )


def test_grid_search_over_engine_options(model, toy, routing):
    search = GridSearchCV(
        model.set_fit_request(sensitive_features=True), {"estimator__num_leaves": [2, 7]}, cv=2
    )
    search.fit(toy.X, toy.y, sensitive_features=toy.group)
    best = search.best_estimator_
    assert best.estimator.num_leaves == search.best_params_["estimator__num_leaves"]
    assert best.multipliers_.sum() > 0
    leaves = (
        best.booster_.trees_to_dataframe().groupby("tree_index")["left_child"].count().max() + 1
    )
    assert leaves <= search.best_params_["estimator__num_leaves"]
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] != scores[1]  # the option made a difference


def test_cross_validation_slices_the_groups(model, toy, routing):
    model.set_fit_request(sensitive_features=True, sample_weight=True)
    model.set_score_request(sample_weight=False)
    params = {"sensitive_features": pd.Series(toy.group), "sample_weight": toy.weight}
    out = cross_validate(model, toy.X, toy.y, cv=3, params=params, return_estimator=True)
    for m in out["estimator"]:
        assert {"sensitive_feature=a", "sensitive_feature=b"} <= {
            *m.fairness_report_.rates["group"]
        }
    np.testing.assert_array_equal(
        out["test_score"], cross_val_score(model, toy.X, toy.y, cv=3, params=params)
    )


def test_cross_validation_at_the_defaults(engine, toy, routing):
    """Each fold holds out, or cross-fits, rows of its own."""
    model = FairGBMClassifier(engine()).set_fit_request(sensitive_features=True)
    params = {"sensitive_features": toy.group}
    out = cross_validate(model, toy.X, toy.y, cv=3, params=params, return_estimator=True)
    assert (out["test_score"] > 0.6).all()
    for fold in out["estimator"]:
        assert set(fold.tolerances_) == {"fpr[sensitive_feature]", "fnr[sensitive_feature]"}
        assert len(fold.trace_) == 8


def test_grid_search_over_how_constraints_are_met(engine, toy, routing):
    grid = {
        "holdout": ["cross", 0.3, None],
        "multipliers": ["two_sided", "paper"],
        "confidence": [None, 0.9],
    }
    model = FairGBMClassifier(engine(n_estimators=4), constraint="demographic_parity")
    search = GridSearchCV(model.set_fit_request(sensitive_features=True), grid, cv=2)
    search.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) > 2  # they make a difference
    best = search.best_estimator_
    assert {name: getattr(best, name) for name in grid} == search.best_params_


def test_a_holdout_set_is_routed_whole(engine, toy, make_toy, routing):
    """Cross-validation picks rows of what is as long as X, and of nothing else."""
    other = make_toy(n=200, seed=1)
    model = FairGBMClassifier(engine(), constraint="equal_opportunity")
    model.set_fit_request(sensitive_features=True, holdout_set=True)
    params = {
        "sensitive_features": toy.group,
        "holdout_set": (other.X, other.y, other.group),
    }
    out = cross_validate(model, toy.X, toy.y, cv=2, params=params, return_estimator=True)
    for fold in out["estimator"]:
        before_last = fold.estimator_.predict(other.X, raw_score=True, num_iteration=1)
        mine = (other.group == "a") & (other.y == 1)
        expected = (before_last[mine] < 0).mean()
        assert fold.trace_["rate: fnr[sensitive_feature=a]"].iloc[1] == pytest.approx(expected)


def test_cross_validation_without_routing_the_groups_fails_loudly(model, toy, routing):
    with pytest.raises(ValueError, match="sensitive_features is missing"):
        cross_val_score(model, toy.X, toy.y, cv=2, error_score="raise")


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "accuracy"])
def test_scorers(model, toy, scoring):
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    trivial = {"roc_auc": 0.5, "neg_log_loss": -np.log(2), "accuracy": 0.5}[scoring]
    assert get_scorer(scoring)(model, toy.X, toy.y) > trivial


def test_a_tolerance_applies_to_a_parity_without_its_own(toy):
    model = clone(_tiny(parity("fnr")).set_params(tolerance=0.1))
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert model.get_params()["tolerance"] == 0.1
    assert [v.limit for v in model.fairness_report_.verdicts] == [0.1]
    contradicting = clone(model).set_params(constraint=parity("fnr", 0.02))
    with pytest.raises(ConstraintError, match=r"tolerance=0\.1 contradicts parity\(\.\.\., 0\.02"):
        contradicting.fit(toy.X, toy.y, sensitive_features=toy.group)


def test_the_papers_tolerance_is_zero_where_none_is_given():
    assert FairGBMClassifier.paper(constraint="equal_opportunity").tolerance == 0
    assert FairGBMClassifier.paper(constraint=parity("fnr", 0.05)).tolerance is None
