"""Evaluation sets, early stopping and callbacks: as with LightGBM's own binary objective."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.engines.lightgbm.options import OWN_METRICS
from fairboost.exceptions import EngineOptionError

# LightGBM's own fit warns of it since 4.7; what it offers instead does not encode labels.
pytestmark = pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")


def plain(engine, X, y, **fit_options):
    return FairGBMClassifier(engine, constraint=None).fit(X, y, **fit_options)


def constrained(engine, toy, iterate="best", **fit_options):
    model = FairGBMClassifier(
        engine, constraint="demographic_parity", multiplier_learning_rate=2.0, iterate=iterate
    )
    return model.fit(toy.X, toy.y, sensitive_features=toy.group, **fit_options)


@pytest.fixture
def split(toy):
    """Rows to train on, and an evaluation set."""
    return (toy.X[200:], toy.y[200:]), (toy.X[:200], toy.y[:200])


METRICS = ["binary_logloss", "binary_error", "auc", "average_precision"]


def assert_same_history(ours, stock):
    assert list(ours.evals_result_) == list(stock.evals_result_)
    for name, history in stock.evals_result_.items():
        assert set(ours.evals_result_[name]) == set(history)
        for metric, values in history.items():
            found = ours.evals_result_[name][metric]
            np.testing.assert_allclose(found, values, rtol=1e-9, err_msg=f"{name} {metric}")


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("metric", [*METRICS, None, METRICS, "logloss", ["error", "auc"], "none"])
def test_early_stopping_equals_stocks(engine, toy, split, metric, weighted):
    train, held_out = split
    fit_options = {"eval_set": [held_out], "eval_metric": metric}
    if weighted:
        fit_options |= {
            "eval_sample_weight": [toy.weight[:200]],
            "sample_weight": toy.weight[200:],
        }
    if metric == "none":
        options = {"metric": "none", "n_estimators": 5}
        fit_options["eval_metric"] = lambda y, p: ("brier", np.mean((y - p) ** 2), False)
    else:
        options = {"n_estimators": 60}
    stop = lightgbm.early_stopping(3, verbose=False)
    stock = engine(**options).fit(*train, callbacks=[stop], **fit_options)
    stop = lightgbm.early_stopping(3, verbose=False)
    model = plain(engine(**options), *train, callbacks=[stop], **fit_options)
    assert metric == "none" or 1 <= stock.best_iteration_ < 57
    assert model.best_iteration_ == stock.best_iteration_
    assert model.estimator_.best_iteration_ == stock.best_iteration_
    for name, scores in stock.best_score_.items():
        assert model.estimator_.best_score_[name] == pytest.approx(scores, rel=1e-9)
    assert_same_history(model.estimator_, stock)
    np.testing.assert_allclose(
        model.decision_function(toy.X), stock.predict(toy.X, raw_score=True), rtol=0, atol=1e-10
    )


def test_the_loss_of_a_certain_mistake_is_that_of_lightgbm():
    """Which has a largest value; scores of hundreds went beyond it, and stopped other rounds."""
    label, scores = np.array([0.0, 1.0, 1.0]), np.array([300.0, -300.0, 2.0])
    rows = lightgbm.Dataset(np.zeros((3, 1)), label, init_score=scores).construct()
    stock = lightgbm.Booster({"objective": "binary", "verbose": -1}, rows).eval_train()
    name, ours, _ = OWN_METRICS["binary_logloss"](scores, rows)
    assert (name, ours) == ("binary_logloss", pytest.approx(stock[0][2]))


@pytest.mark.parametrize("option", ["early_stopping_round", "n_iter_no_change"])
def test_early_stopping_by_the_estimators_option(engine, split, option):
    train, held_out = split
    options = {"n_estimators": 60, option: 3, "metric": ["auc", "binary_logloss"]}
    stock = engine(first_metric_only=True, **options).fit(*train, eval_set=[held_out])
    model = plain(engine(first_metric_only=True, **options), *train, eval_set=[held_out])
    assert model.best_iteration_ == stock.best_iteration_ < 57
    assert_same_history(model.estimator_, stock)
    rounds = len(stock.evals_result_["valid_0"]["auc"])
    assert len(model.trace_) == rounds == stock.best_iteration_ + 3
    assert model.trace_["trees"].tolist() == list(range(1, rounds + 1))


@pytest.mark.parametrize("by_callback", [False, True])
def test_first_metric_only_where_lightgbm_would_see_another_first(engine, split, by_callback):
    train, held_out = split
    options = {} if by_callback else {"first_metric_only": True, "early_stopping_round": 3}
    callbacks = [lightgbm.early_stopping(3, True, verbose=False)] if by_callback else []
    with pytest.raises(
        EngineOptionError, match=r"the first metric is 'binary_error', but .* 'auc' first"
    ):
        plain(
            engine(**options), *train,
            eval_set=[held_out], eval_metric=["binary_error", "auc"], callbacks=callbacks,
        )  # fmt: skip


def test_first_metric_only_with_a_function(engine, split):
    """LightGBM puts functions after its own metrics, so it stops by log loss here; so do we."""
    train, held_out = split

    def fit(make):
        rounds = []

        def worse_every_round(y, p):
            rounds.append(p)
            return "rounds", len(rounds), False

        stop = lightgbm.early_stopping(3, first_metric_only=True, verbose=False)
        options = {"eval_set": [held_out], "eval_metric": worse_every_round, "callbacks": [stop]}
        return make(engine(n_estimators=60), *train, **options)

    stock, model = fit(LGBMClassifier.fit), fit(plain)
    assert model.best_iteration_ == stock.best_iteration_ > 1
    assert list(model.estimator_.evals_result_["valid_0"]) == ["binary_logloss", "rounds"]


@pytest.mark.parametrize("n_arguments", [2, 3, 4])
def test_functions_see_probabilities(engine, toy, split, n_arguments):
    train, held_out = split
    seen = []

    def two(y, p):
        return three(y, p, None)

    def three(y, p, weight):
        seen.append((p, weight))
        return "mean", p.mean(), False

    def four(y, p, weight, group):
        assert group is None
        return three(y, p, weight)

    metric = {2: two, 3: three, 4: four}[n_arguments]
    weight = toy.weight[:200]
    options = {
        "eval_set": held_out,
        "eval_metric": [metric, "auc"],
        "eval_sample_weight": [weight],
    }
    model = plain(engine(), *train, **options)
    assert len(seen) == 8
    p, w = seen[-1]
    np.testing.assert_allclose(p, model.predict_proba(held_out[0])[:, 1], rtol=1e-12)
    if n_arguments > 2:
        np.testing.assert_allclose(w, weight, rtol=1e-6)
    stock = engine().fit(*train, **options)
    assert_same_history(model.estimator_, stock)


def test_a_function_with_other_arguments(engine, split):
    with pytest.raises(EngineOptionError, match=r"f\(y_true, probability.*with 1 arguments"):
        plain(engine(), *split[0], eval_set=[split[1]], eval_metric=lambda y: ("x", 0.0, False))


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 3.0}])
def test_eval_names_several_sets_and_the_training_set(engine, split, class_weight):
    train, held_out = split
    options = {
        "eval_set": [held_out, (train[0], train[1]), (held_out[0][:90], held_out[1][:90])],
        "eval_names": ["held out", "train", "part"],
        "eval_metric": ["auc", "binary_error"],
    }
    stock = engine(class_weight=class_weight).fit(*train, **options)
    model = plain(engine(class_weight=class_weight), *train, **options)
    assert set(model.estimator_.evals_result_) == {"held out", "train", "part"}
    assert_same_history(model.estimator_, stock)


def test_eval_set_is_ours_and_warns_of_nothing(engine, split):
    with warnings.catch_warnings(action="error"):
        model = plain(engine(), *split[0], eval_set=[split[1]])
    assert len(model.estimator_.evals_result_["valid_0"]["binary_logloss"]) == 8


def test_labels_of_the_evaluation_set_are_the_users(engine, split):
    (X, y), (X_eval, y_eval) = split
    words = np.array(["no", "yes"])
    model = plain(engine(), X, words[y], eval_set=[(X_eval, words[y_eval])])
    stock = engine().fit(X, y, eval_set=[(X_eval, y_eval)])
    assert_same_history(model.estimator_, stock)


def test_callbacks_are_called_each_round(engine, toy):
    rounds, rates = [], []

    def count(env):
        rounds.append((env.iteration, env.model.current_iteration()))

    def slower(iteration):
        rates.append(iteration)
        return 0.3 * 0.9**iteration

    callbacks = [count, lightgbm.reset_parameter(learning_rate=slower)]
    model = constrained(engine(), toy, callbacks=callbacks)
    assert rounds == [(i, i + 1) for i in range(8)]
    assert rates == list(range(8))
    assert len(callbacks) == 2  # the user's list is not added to
    same = plain(
        engine(), toy.X, toy.y, callbacks=[lightgbm.reset_parameter(learning_rate=slower)]
    )
    stock = engine().fit(toy.X, toy.y, callbacks=[lightgbm.reset_parameter(learning_rate=slower)])
    np.testing.assert_allclose(
        same.decision_function(toy.X), stock.predict(toy.X, raw_score=True), atol=1e-10
    )
    assert (same.decision_function(toy.X) != model.decision_function(toy.X)).any()


def test_a_callback_that_ends_training(engine, toy):
    def enough(env):
        if env.iteration == 2:
            raise lightgbm.callback.EarlyStopException(env.iteration, [])

    enough.order = 0  # before ours
    model = constrained(engine(), toy, iterate="last", callbacks=[enough])
    assert model.best_iteration_ == 3
    assert len(model.trace_) == 3
    assert model.trace_["trees"].tolist()[:2] == [1, 2]


@pytest.mark.parametrize("holdout", [None, 0.3], ids=["", "a share held out"])
def test_the_engine_is_left_as_its_own_fit_would_leave_it(engine, make_toy, holdout):
    """Training is ours; what LightGBM sets afterwards is private, and may change."""
    toy, other = make_toy(400), make_toy(200, 1)
    frame, rows = (
        pd.DataFrame(t.X, columns=list("abcdefgh")[: t.X.shape[1]]) for t in (toy, other)
    )
    stop = {
        "eval_set": [(rows, other.y), (frame, toy.y)],
        "eval_names": ["other", "own"],
        "callbacks": [lightgbm.early_stopping(3, verbose=False)],
    }
    stock = engine(n_estimators=30).fit(frame, toy.y, **stop)
    constraint = None if holdout is None else "equalized_odds"
    model = FairGBMClassifier(engine(n_estimators=30), constraint=constraint, holdout=holdout)
    model.fit(frame, toy.y, sensitive_features=toy.group, **stop)
    ours = model.estimator_
    assert set(vars(ours)) == set(vars(stock))
    assert ours.feature_name_ == stock.feature_name_
    assert ours.feature_names_in_.tolist() == stock.feature_names_in_.tolist()
    assert (ours.n_features_, ours.n_features_in_) == (stock.n_features_, stock.n_features_in_)
    assert ours.classes_.tolist() == stock.classes_.tolist()
    assert list(ours.evals_result_) == list(stock.evals_result_)
    assert ours.best_score_.keys() == stock.best_score_.keys()
    if holdout is None:
        assert ours.best_iteration_ == stock.best_iteration_
        np.testing.assert_allclose(
            ours.evals_result_["other"]["binary_logloss"],
            stock.evals_result_["other"]["binary_logloss"],
        )


def test_lightgbm_speaks_of_the_data_once(engine, toy, capfd):
    FairGBMClassifier(engine(verbose=1), constraint=None).fit(toy.X, toy.y)
    assert capfd.readouterr().out.count("Number of data points") == 1
