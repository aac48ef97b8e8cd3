"""What holds for every engine: without constraints it is the stock one, and all else is the same.

Files of an engine's own name have what is true of one of them only.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from fairboost import FairGBMClassifier, at_fpr, at_positive_rate, at_tpr, load, tradeoff_curve
from fairboost.algorithm.game import Session
from fairboost.data.cells import build_cells
from fairboost.data.holdout import choose
from fairboost.data.validation import read_sensitive_features
from fairboost.engines.lockstep import Lockstep
from fairboost.exceptions import EngineOptionError, ExportError, InvalidInputError
from fairboost.fairness.proxies import PROXIES
from tests.covering import covering
from tests.problems import assert_trace_is_of_the_kept

pytestmark = [
    # LightGBM's own fit warns of it since 4.7; what it offers instead does not encode labels.
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
]

IDLE = 0.99
"""A tolerance that holds all the time: multipliers stay at zero."""

HOW = {"share": 0.3, "cross": "cross", "set": "auto", "both": 0.3, "training rows": None}
OPTIONS = ("plain", "rows", "scale_pos_weight", "monotone", "regularised", "fixed start")
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
EVERY_WAY = pytest.mark.parametrize("how", HOW)


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, not trained on."""
    return make_toy(n=300, seed=1)


def fit(engine, toy, other, how="training rows", *, X=None, weighted=False, fit=None, **params):
    # What learns memberships is tested elsewhere.
    defaults = {
        "constraint": "demographic_parity", "tolerance": 0.01, "iterate": "last",
        "memberships": "observed",
    }  # fmt: skip
    model = FairGBMClassifier(engine, holdout=HOW[how], **{**defaults, **params})
    options = {"sensitive_features": toy.group, **(fit or {})}
    if weighted:
        options["sample_weight"] = toy.weight
    if how in ("set", "both"):
        held = (other.X if X is None else other.frame, other.y, other.group)
        options["holdout_set"] = (*held, other.weight) if weighted else held
    return model.fit(toy.X if X is None else X, toy.y, **options)


def folds_of(toy, how, weight=None):
    """The draw of a fit on these rows."""
    (group,) = read_sensitive_features(toy.group, len(toy))
    weight = None if weight is None else weight.astype(np.float32)
    cells = build_cells(toy.y.astype(np.int8), [group], weight)
    return choose(how, cells, 0.0, weight, np.random.default_rng(0)).folds


def rows_seen(toy, other, how, weighted=False):
    """X, y, group and weight of the rows that rates are read on."""
    if how == "set":
        return other.X, other.y, other.group, other.weight if weighted else None
    weight = toy.weight if weighted else None
    at = folds_of(toy, 0.3, weight) == 1 if how in ("share", "both") else slice(None)
    ours = toy.X[at], toy.y[at], toy.group[at], None if weight is None else weight[at]
    if how != "both":
        return ours
    both = zip(ours, rows_seen(toy, other, "set", weighted), strict=True)
    return tuple(None if a is None else np.concatenate([a, b]) for a, b in both)


def scores_after(kind, model, X, rounds):
    if rounds == 0:
        return np.full(len(X), model._model.intercept)
    return kind.scores(model.estimator_, X, rounds)


def assert_trace_is_of(model, scores_of_round, y, group, weight=None):
    """Rates and loss of every round, computed anew."""
    w = np.ones(len(y)) if weight is None else weight.astype(np.float32).astype(float)
    for t, row in model.trace_.iterrows():
        f = scores_of_round(t)
        loss = np.average(np.logaddexp(0, np.where(y == 1, -f, f)), weights=w)
        assert row["held-out loss" if "held-out loss" in row else "loss"] == pytest.approx(
            loss, rel=1e-6
        )
        for g in "ab":
            value = np.average(f[group == g] >= 0, weights=w[group == g])
            found = row[f"rate: ppr[sensitive_feature={g}]"]
            assert found == pytest.approx(value, abs=1e-6)


# Without constraints


@WEIGHTED
@pytest.mark.parametrize("name", OPTIONS)
def test_without_a_constraint_it_is_the_stock_engine(kind, toy, name, weighted):
    engine, weight = kind.make(**kind.options[name]), toy.weight if weighted else None
    model = FairGBMClassifier(engine, constraint=None)
    model.fit(toy.X, toy.y, sample_weight=weight)
    stock = clone(engine).fit(toy.X, toy.y, sample_weight=weight)
    expected = kind.scores(stock, toy.X)
    assert expected.std() > 0.1
    np.testing.assert_allclose(
        model.decision_function(toy.X), expected, rtol=0, atol=5 * kind.atol
    )
    np.testing.assert_allclose(
        model.predict_proba(toy.X), stock.predict_proba(toy.X), rtol=0, atol=1e-6
    )
    assert type(model.estimator_) is type(stock)
    assert model.estimator_.get_params() == stock.get_params()


@WEIGHTED
@pytest.mark.parametrize("holdout", ["auto", 0.3])
@pytest.mark.parametrize("iterate", ["best", "average"])
def test_without_a_constraint_a_set_held_out_measures_the_loss(
    kind, toy, other, holdout, iterate, weighted
):
    """There is no rate to read on it, but it is not passed over; and all rows are trained on."""
    how = {"constraint": None, "holdout": holdout, "iterate": iterate}
    ours, theirs = (d.weight if weighted else None for d in (toy, other))
    model = FairGBMClassifier(kind.make(), **how).fit(
        toy.X, toy.y, sample_weight=ours, holdout_set=(other.X, other.y, other.group, theirs)
    )
    alone = FairGBMClassifier(kind.make(), **how).fit(toy.X, toy.y, sample_weight=ours)
    np.testing.assert_array_equal(model.predict_proba(toy.X), alone.predict_proba(toy.X))
    assert model.fairness_report_ is None and model.threshold_ == 0.5
    last = FairGBMClassifier(kind.make(), constraint=None).fit(toy.X, toy.y, sample_weight=ours)
    for t, loss in enumerate(model.trace_["held-out loss"]):
        f = scores_after(kind, last, other.X, t)
        by_hand = np.average(np.logaddexp(0, np.where(other.y == 1, -f, f)), weights=theirs)
        assert loss == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("multipliers", ["two_sided", "paper"])
@pytest.mark.parametrize("point", [0.5, 0.3])
def test_without_a_constraint_there_is_nothing_to_stand_in_for(
    kind, toy, proxy, multipliers, point
):
    how = {"proxy": proxy, "multipliers": multipliers, "operating_point": point}
    model = FairGBMClassifier(kind.make(), constraint=None, **how).fit(toy.X, toy.y)
    expected = kind.scores(kind.make().fit(toy.X, toy.y), toy.X)
    np.testing.assert_allclose(
        model.decision_function(toy.X) + logit(point), expected, rtol=0, atol=5 * kind.atol
    )


# Decisions


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.filterwarnings("ignore:the engine's steps are too large")
@pytest.mark.parametrize(
    ("point", "rate", "iterate"),
    covering(
        [0.5, 0.3, 0.7, at_fpr(0.02), at_fpr(0.9), at_tpr(0.5), at_tpr(0.99)],
        [0.3, 3.0, 30.0],
        ["best", "average"],
    ),
    ids=str,
)
def test_decisions_are_probabilities_from_the_threshold_on(
    kind, toy, other, tmp_path, point, rate, iterate
):
    """Also where steps are so large that probabilities are 0 and 1, and in an exported file."""
    engine = kind.make(learning_rate=rate)
    model = fit(engine, toy, other, "set", operating_point=point, iterate=iterate)
    for X in (toy.X, other.X):
        positive = model.predict(X) == 1
        np.testing.assert_array_equal(
            model.predict_proba(X)[:, 1], model.estimator_.predict_proba(X)[:, 1]
        )
        np.testing.assert_array_equal(model.predict_proba(X)[:, 1] >= model.threshold_, positive)
        np.testing.assert_array_equal(model.decision_function(X) >= 0, positive)
        model.export(path := tmp_path / f"model{kind.ending}")
        threshold = float(kind.note(path, "fairboost_threshold"))
        np.testing.assert_array_equal(kind.read(path, X) >= threshold, positive)
    in_single = kind.read(path, other.X).astype(np.float32) >= np.float32(threshold)
    np.testing.assert_array_equal(in_single, positive)
    shares = [positive[other.group == g].mean() for g in "ab"]
    (reported,) = model._measured.values
    np.testing.assert_allclose(reported.ravel(), shares, rtol=0, atol=1e-12)


def test_missing_values_and_categories(kind, toy, other):
    model = FairGBMClassifier(kind.make(), constraint=None).fit(toy.frame, toy.y)
    stock = kind.make().fit(toy.frame, toy.y)
    np.testing.assert_allclose(
        model.predict_proba(other.frame), stock.predict_proba(other.frame), rtol=0, atol=1e-6
    )


def test_a_constraint_that_holds_changes_nothing(kind, toy, other):
    model = fit(kind.make(), toy, other, "training rows", tolerance=IDLE)
    stock = kind.make().fit(toy.X, toy.y)
    np.testing.assert_allclose(
        model.predict_proba(toy.X), stock.predict_proba(toy.X), rtol=0, atol=1e-6
    )


# The rows held out


@WEIGHTED
@pytest.mark.parametrize("how", ["share", "set", "both", "training rows"])
def test_rates_are_those_of_the_rows_seen(kind, toy, other, how, weighted):
    model = fit(kind.make(n_estimators=12), toy, other, how, weighted=weighted)
    X, y, group, weight = rows_seen(toy, other, how, weighted)
    assert_trace_is_of(model, lambda t: scores_after(kind, model, X, t), y, group, weight)
    assert model.multipliers_.sum() > 0
    assert model.trace_["round"].tolist() == model.trace_["trees"].tolist() == [*range(1, 13)]


@pytest.mark.parametrize("form", ["frame", "polars"])
@pytest.mark.parametrize("how", ["share", "set", "both"])
def test_categories_and_missing_values_of_the_rows_held_out(kind, toy, other, how, form):
    if kind.name == "lightgbm" and form == "polars":
        pytest.skip("LightGBM takes no categories of polars")
    change = {"frame": lambda f: f, "polars": pl.from_pandas}[form]
    held = other.frame
    held["debt"] = held["debt"].cat.set_categories(["z", "y", "x", "w", "v", "u"])
    model = FairGBMClassifier(
        kind.make(), constraint="demographic_parity", iterate="last", holdout=HOW[how],
        memberships="observed",
    )  # fmt: skip
    with_set = how in ("set", "both")
    given = {"holdout_set": (change(held), other.y, other.group)} if with_set else {}
    model.fit(change(toy.frame), toy.y, sensitive_features=toy.group, **given)
    frame, y, group = other.frame, other.y, other.group
    if how != "set":
        at = np.flatnonzero(folds_of(toy, 0.3) == 1)
        share = toy.frame.iloc[at], toy.y[at], toy.group[at]
        frame, y, group = share
        if how == "both":
            frame = pd.concat([share[0], other.frame], ignore_index=True)
            frame["debt"] = frame["debt"].astype(toy.frame["debt"].dtype)
            y, group = np.r_[share[1], other.y], np.r_[share[2], other.group]
    assert_trace_is_of(model, lambda t: scores_after(kind, model, change(frame), t), y, group)
    # Categories in another order are still the same people, for any iterate.
    best = model._model.first(3)
    moved = frame.assign(debt=frame["debt"].cat.set_categories(["z", "y", "x", "w", "v"]))
    np.testing.assert_array_equal(best.scores(change(moved)), best.scores(change(frame)))


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_rows_held_out_do_not_teach_the_trees(kind, toy, other):
    model = fit(kind.make(), toy, other, "share", tolerance=IDLE)
    at = folds_of(toy, 0.3) == 1
    swapped = np.array(toy.X)
    swapped[at] = np.random.default_rng(0).permutation(swapped[at])  # other people, held out
    again = FairGBMClassifier(
        kind.make(), constraint="demographic_parity", iterate="last", holdout=0.3,
        memberships="observed", tolerance=IDLE,
    ).fit(swapped, toy.y, sensitive_features=toy.group)  # fmt: skip
    if kind.name == "xgboost":  # LightGBM makes bins of all rows
        np.testing.assert_array_equal(
            model.decision_function(other.X), again.decision_function(other.X)
        )
    assert model.trace_["loss"].to_numpy() == pytest.approx(again.trace_["loss"], rel=1e-3)
    assert (model.trace_["held-out loss"] != again.trace_["held-out loss"]).any()


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_a_set_given_does_not_teach_the_trees(kind, toy, other):
    held = {"holdout_set": (other.X, 1 - other.y, other.group)}
    model = fit(kind.make(), toy, other, "training rows", tolerance=IDLE, fit=held)
    stock = kind.make().fit(toy.X, toy.y)
    np.testing.assert_allclose(
        model.predict_proba(toy.X), stock.predict_proba(toy.X), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("scheduled", [False, True], ids=["", "learning rates"])
def test_in_cross_fitting_rates_are_said_of_the_booster_kept(kind, toy, other, scheduled):
    """Against boosters trained one after the other, each without its fold."""
    rates = [0.3 * 0.7**k for k in range(8)]
    options, fit_options = kind.schedule(rates) if scheduled else ({}, {})
    model = fit(kind.make(**options), toy, other, "cross", tolerance=IDLE, fit=dict(fit_options))
    folds = folds_of(toy, "cross")
    if scheduled and kind.name == "lightgbm":
        pytest.skip("in tests/engines/lightgbm/test_engine_holdout.py")
    scores = np.array(
        [
            kind.by_hand(kind.make(**options), toy.X, toy.y, folds != k, folds != 0)
            for k in range(folds.max() + 1)
        ]
    )
    kept = np.array([scores_after(kind, model, toy.X, t) for t in range(8)])
    asked = folds, toy.y, toy.group, kind.label_power
    assert_trace_is_of_the_kept(model, kept, scores, *asked)
    assert model.trace_["held-out loss"].iloc[-1] > model.trace_["loss"].iloc[-1]
    if not scheduled:
        stock = kind.make().fit(toy.X, toy.y)
        np.testing.assert_allclose(
            model.predict_proba(toy.X), stock.predict_proba(toy.X), rtol=0, atol=1e-6
        )


def test_in_cross_fitting_a_model_does_not_depend_on_who_is_faster(kind, toy, other, monkeypatch):
    """Followers that begin early may have grown a tree before the round is played."""

    def made():
        return fit(kind.make(n_jobs=2), toy, other, "cross", tolerance=0.01, iterate="last")

    expected, play = made().predict_proba(toy.X), Session.play

    def slowly(self, *scores):
        time.sleep(0.02)
        return play(self, *scores)

    monkeypatch.setattr(Session, "play", slowly)
    np.testing.assert_array_equal(made().predict_proba(toy.X), expected)


@EVERY_WAY
@pytest.mark.parametrize("name", ["rows", "scale_pos_weight", "monotone"])
def test_two_fits_are_alike(kind, toy, other, how, name):
    options = {**kind.options[name], "random_state": None}
    first, second = (
        fit(kind.make(**options), toy, other, how, weighted=True, random_state=5, iterate="best")
        for _ in range(2)
    )
    assert np.isfinite(first.trace_.drop(columns="trees")).all(axis=None)
    assert first.trace_["loss"].iloc[-1] < first.trace_["loss"].iloc[0]
    assert first.multipliers_.sum() > 0
    pd.testing.assert_frame_equal(first.trace_, second.trace_)
    np.testing.assert_array_equal(first.decision_function(toy.X), second.decision_function(toy.X))


@EVERY_WAY
def test_the_best_iterate_is_a_prefix_of_the_last(kind, toy, other, how):
    best, last = (fit(kind.make(), toy, other, how, iterate=i) for i in ("best", "last"))
    kept = best.best_iteration_
    assert 1 <= kept <= 8 == last.best_iteration_
    assert kind.trees(best.booster_) == kind.trees(last.booster_)[:kept]
    np.testing.assert_array_equal(
        best.decision_function(other.X), scores_after(kind, last, other.X, kept)
    )


@EVERY_WAY
def test_dart(kind, toy, other, how):
    model = fit(kind.make(**kind.dart), toy, other, how)
    assert len(model.trace_) == 8
    assert model.trace_["loss"].iloc[-1] < model.trace_["loss"].iloc[0]
    np.testing.assert_allclose(
        model.decision_function(other.X), kind.scores(model.estimator_, other.X), atol=1e-6
    )
    with pytest.raises(InvalidInputError, match="DART"):
        fit(kind.make(**kind.dart), toy, other, how, iterate="best")


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_trees_that_cannot_be_grown(kind, toy, other):
    model = fit(kind.make(**kind.no_split), toy, other, "share")
    assert len(np.unique(model.decision_function(other.X))) == 1


# Evaluation sets


@WEIGHTED
@pytest.mark.parametrize("constraint", [None, "demographic_parity"])
def test_early_stopping(kind, toy, other, constraint, weighted):
    options, fit_options = kind.stopping(2)
    engine = kind.make(n_estimators=150, **options)
    sets = [(other.X, other.y)]
    weight = toy.weight if weighted else None
    stock = clone(engine).fit(toy.X, toy.y, sample_weight=weight, eval_set=sets, **fit_options, **(
        {"verbose": False} if kind.name == "xgboost" else {}
    ))  # fmt: skip
    model = FairGBMClassifier(
        engine, constraint=constraint, iterate="last", tolerance=IDLE, holdout=None
    ).fit(
        toy.X, toy.y, sample_weight=weight, eval_set=sets, sensitive_features=toy.group,
        **kind.stopping(2)[1],
    )  # fmt: skip
    best = getattr(stock, "best_iteration_", None) or stock.best_iteration + 1
    assert model.best_iteration_ == best < 100
    assert kind.n_trees(model.booster_) == best
    np.testing.assert_allclose(
        model.predict_proba(other.X), stock.predict_proba(other.X), rtol=0, atol=1e-6
    )
    found, expected = (e.evals_result_.popitem()[1] for e in (model.estimator_, stock))
    assert [*found] == [*expected]
    for name, values in found.items():
        seen = len(expected[name])  # a round is judged one round later
        assert len(values) == seen + (constraint is not None)
        np.testing.assert_allclose(values[:seen], expected[name], rtol=1e-5)


@pytest.mark.parametrize("stops", [False, True], ids=["", "stops"])
@pytest.mark.parametrize("iterate", ["best", "last", "average"])
def test_the_engine_counts_the_rounds_that_are_kept(kind, toy, other, iterate, stops, tmp_path):
    options, fit_options = kind.stopping(5) if stops else ({}, {})
    more = {**fit_options, "eval_set": [(other.X, other.y)]} if stops else {}
    engine = kind.make(n_estimators=60, **options)
    model = fit(engine, toy, other, "share", iterate=iterate, fit=more)
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        engine, kept = each.estimator_, each.best_iteration_
        assert kind.n_trees(each.booster_) == kept == model.best_iteration_
        if kind.name == "lightgbm":
            assert engine.best_iteration_ == engine.n_estimators_ == kept
        else:  # counts from 0, and only knows a round at which training stopped
            assert getattr(engine, "best_iteration", kept - 1) == kept - 1
            assert engine.get_booster().num_boosted_rounds() == kept


@EVERY_WAY
def test_early_stopping_is_by_the_users_set_alone(kind, toy, other, how):
    options, fit_options = kind.stopping(2)
    wrong = {"eval_set": [(toy.X[:150], 1 - toy.y[:150])], **fit_options}  # worse at once
    for iterate in ("best", "last"):
        model = fit(
            kind.make(**options), toy, other, how, iterate=iterate, fit=wrong,
            operating_point=at_fpr(0.1), tolerance=IDLE,
        )  # fmt: skip
        assert model.best_iteration_ == 1 and len(model.trace_) == 4
        expected = model.trace_["threshold"].iloc[1]
        assert model.threshold_ == pytest.approx(expected, rel=1e-6)
        assert kind.n_trees(model.booster_) == 1


def test_labels_and_names_of_evaluation_sets(kind, toy, other):
    words = np.array(["no", "yes"])
    model = FairGBMClassifier(kind.make(), constraint=None)
    model.fit(
        toy.X, words[toy.y], eval_set=[(other.X, words[other.y]), (toy.X, words[toy.y])],
        eval_names=["new", "old"], eval_sample_weight=[other.weight, toy.weight],
    )  # fmt: skip
    history = model.estimator_.evals_result_
    assert [*history] == ["new", "old"]
    (losses,) = (values for name, values in history["new"].items() if "logloss" in name)
    f = model.decision_function(other.X)
    loss = np.average(np.logaddexp(0, np.where(other.y == 1, -f, f)), weights=other.weight)
    assert losses[-1] == pytest.approx(loss, rel=1e-5)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(other.X)) == {"no", "yes"}


def test_the_training_data_as_evaluation_set_weighs_labels_as_they_were(kind, toy):
    """Fewer positives than negatives are held out, and metrics must not know of it."""
    model = FairGBMClassifier(kind.make(), constraint="predictive_equality", holdout=0.5)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, eval_set=[(toy.X, toy.y)])
    ((_, history),) = model.estimator_.evals_result_.items()
    (found,) = (values for name, values in history.items() if "logloss" in name)
    np.testing.assert_allclose(found[:-1], model.trace_["loss"][1:], rtol=1e-5)


# Operating points


def quantile(point, scores, y, weight=None):
    """The threshold by sorting, in log-odds."""
    counts = point.rate.counts(y)
    w = np.ones(len(y)) if weight is None else weight.astype(np.float32).astype(float)
    s, w = scores[counts], w[counts]
    order = np.argsort(-s, kind="stable")
    s, share = s[order], np.cumsum(w[order]) / w.sum()
    last = np.append(np.diff(s) != 0, True)  # of those that tie
    s, share = s[last], share[last]
    if point.at_least:
        positive = int(np.argmax(share >= point.target - 1e-9)) + 1
    else:
        positive = int((share <= point.target + 1e-9).sum())
    if positive in (0, len(s)):  # right next to the highest, or the lowest
        return s[0] + 1e-9 if positive == 0 else s[-1] - 1e-9
    return (s[positive - 1] + s[positive]) / 2


@pytest.mark.parametrize("how", ["share", "set", "training rows"])
@pytest.mark.parametrize(
    ("point", "weighted", "iterate"),
    [
        (at_fpr(0.1), False, "last"),
        (at_tpr(0.7), True, "last"),
        (at_positive_rate(0.2), True, "last"),
        (at_tpr(0.7), False, "best"),
        (at_fpr(0.1), True, "average"),
        (at_positive_rate(0.2), False, "randomized"),
    ],
)
def test_the_threshold_is_the_quantile_of_the_rows_seen(
    kind, toy, other, point, how, weighted, iterate, tmp_path
):
    params = {"operating_point": point, "weighted": weighted, "iterate": iterate}
    model = fit(kind.make(), toy, other, how, constraint="equalized_odds", **params)
    X, y, _, weight = rows_seen(toy, other, how, weighted)
    scores = model._scores(X)
    expected = quantile(point, scores, y, weight)
    assert logit(model.threshold_) == pytest.approx(expected, abs=1e-5)
    positive = model.predict(X) == 1
    assert 0 < positive.mean() < 1
    np.testing.assert_array_equal(positive, model.predict_proba(X)[:, 1] >= model.threshold_)
    if iterate in ("last", "average"):
        # A reader of the file, who knows probabilities and the threshold, decides alike.
        path = tmp_path / f"model{kind.ending}"
        model.export(path)
        said = float(kind.note(path, "fairboost_threshold"))
        np.testing.assert_array_equal(kind.read(path, X) >= said, positive)
    if iterate == "last":
        for t, row in model.trace_.iterrows():
            of_round = quantile(point, scores_after(kind, model, X, t), y, weight)
            assert logit(row["threshold"]) == pytest.approx(of_round, abs=1e-5)


KIND_OF_ROWS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 3.0]])


@pytest.mark.parametrize(
    ("make", "target", "holdout"),
    covering([at_fpr, at_tpr, at_positive_rate], [0.02, 0.5, 0.98], [None, 0.5]),
)
def test_ties_never_exceed_the_budget(kind, holdout, make, target, tmp_path):
    rng = np.random.default_rng(3)
    which = rng.integers(0, len(KIND_OF_ROWS), 600)
    X, y = KIND_OF_ROWS[which], (rng.random(600) < np.linspace(0.1, 0.9, 6)[which]).astype(int)
    group, point = rng.integers(0, 2, 600), make(target)
    model = FairGBMClassifier(
        kind.make(), operating_point=point, holdout=holdout, memberships="observed",
        constraint=None if make is at_tpr else "equal_opportunity", iterate="last",
    ).fit(X, y, sensitive_features=group)  # fmt: skip
    positive = model.predict(X) == 1
    if holdout is None:
        counts = point.rate.counts(y)
        found = positive[counts].mean()
        assert found >= target - 1e-9 if point.at_least else found <= target + 1e-9
    model.export(tmp_path / f"model{kind.ending}")
    proba = kind.read(tmp_path / f"model{kind.ending}", X)
    np.testing.assert_array_equal(proba >= model.threshold_, positive)


# A stage on a frozen model


@pytest.fixture(scope="session")
def base(kind, toy):
    """Fitted; nobody changes it."""
    return kind.make().fit(toy.X, toy.y)


@EVERY_WAY
def test_a_stage_is_the_base_and_then_more_trees(kind, base, toy, other, how, tmp_path):
    before = kind.trees(base.booster_ if kind.name == "lightgbm" else base.get_booster())
    model = fit(FrozenEstimator(base), toy, other, how)
    assert kind.trees(model.booster_)[: len(before)] == before
    np.testing.assert_array_equal(
        scores_after(kind, model, other.X, 8), kind.scores(base, other.X)
    )
    assert model.best_iteration_ == 48 and len(model.trace_) == 40
    gaps = [
        abs(np.subtract(*(m.predict(other.X)[other.group == g].mean() for g in "ab")))
        for m in (base, model)
    ]
    assert gaps[1] < gaps[0]
    if how == "set":  # f_0 of Algorithm 1 is the base
        f = kind.scores(base, other.X)
        loss = np.logaddexp(0, np.where(other.y == 1, -f, f)).mean()
        assert model.trace_["held-out loss"].iloc[0] == pytest.approx(loss, rel=1e-6)
    path = tmp_path / f"model{kind.ending}"
    model.export(path)
    np.testing.assert_allclose(
        kind.read(path, other.X), model.predict_proba(other.X)[:, 1], rtol=0, atol=1e-6
    )
    model.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict_proba(other.X), model.predict_proba(other.X))
    np.testing.assert_array_equal(
        again.estimator.estimator.predict_proba(other.X), base.predict_proba(other.X)
    )


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_a_base_within_tolerance_is_kept_as_it_is(kind, base, toy, other):
    held = {"holdout_set": (other.X, 1 - other.y, other.group)}  # on which more trees do harm
    model = fit(FrozenEstimator(base), toy, other, fit=held, tolerance=0.9, iterate="best")
    assert model.best_iteration_ == 8
    np.testing.assert_array_equal(model.decision_function(other.X), kind.scores(base, other.X))


@pytest.mark.filterwarnings("ignore:The stage costs much")
@pytest.mark.parametrize("how", ["share", "cross"])
@pytest.mark.parametrize("which", ["stopped early", "dart", "categories"])
def test_bases_of_all_kinds(kind, toy, other, how, which):
    X, new = (toy.frame, other.frame) if which == "categories" else (toy.X, other.X)
    options, fit_options = {}, {}
    if which == "stopped early":
        options, fit_options = kind.stopping(3)
        options = {**options, "n_estimators": 150}
        fit_options = {**fit_options, "eval_set": [(other.X, other.y)]}
        if kind.name == "xgboost":
            fit_options["verbose"] = False
    if which == "dart":
        options = kind.dart
    base = kind.make(**options).fit(X, toy.y, **fit_options)
    n = getattr(base, "best_iteration_", None) or (
        base.best_iteration + 1 if which == "stopped early" else 8
    )
    model = fit(FrozenEstimator(base), toy, other, how, X=X)
    assert model.best_iteration_ == n + 40
    np.testing.assert_array_equal(scores_after(kind, model, new, n), kind.scores(base, new))
    assert model.trace_["loss"].iloc[-1] < 0.7


@pytest.mark.parametrize("how", ["share", "set", "cross"])
def test_a_base_is_scored_on_rows_as_they_are(kind, make_toy, toy, other, how):
    """Not on bins of the stage, whose cuts are not where the base splits."""
    there = make_toy(n=500, seed=2)
    base = kind.make(max_bin=16).fit(there.X, there.y)
    model = fit(FrozenEstimator(base), toy, other, how, operating_point=at_fpr(0.2))
    if how != "share":
        f = kind.scores(base, toy.X)
        loss = np.logaddexp(0, np.where(toy.y == 1, -f, f)).mean()
        assert model.trace_["loss"].iloc[0] == pytest.approx(loss, rel=1e-6)
    if how != "cross":
        X, y, group, _ = rows_seen(toy, other, how)
        decided = model.predict(X)
        assert model._measured.realised.value == pytest.approx(decided[y == 0].mean())
        rates = [decided[group == g].mean() for g in "ab"]
        np.testing.assert_allclose(model.fairness_report_.rates["held out"], rates)


def test_bases_that_do_not_fit(kind, base, toy, other):
    for error, match, X, y in (
        (InvalidInputError, "X has 3 features, but the frozen model was", toy.X[:, :3], toy.y),
        (EngineOptionError, "knows the labels", toy.X, np.where(toy.y == 1, "yes", "no")),
    ):
        with pytest.raises(error, match=match):
            FairGBMClassifier(FrozenEstimator(base)).fit(X, y, sensitive_features=toy.group)
    with pytest.raises(EngineOptionError, match="in FrozenEstimator is not fitted"):
        fit(FrozenEstimator(kind.make()), toy, other)
    named = kind.make().fit(toy.frame, toy.y)
    with pytest.raises(InvalidInputError, match="has the feature 'debt' where the frozen model"):
        fit(
            FrozenEstimator(named),
            toy,
            other,
            X=toy.frame[["debt", "income", "noise", "district"]],
        )
    for iterate in ("average", "randomized"):
        with pytest.raises(InvalidInputError, match="is not possible on top of a frozen model"):
            fit(FrozenEstimator(base), toy, other, iterate=iterate)


# Trade-off curves


@EVERY_WAY
def test_a_tradeoff_curve(kind, toy, other, how, monkeypatch):
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )
    with_set = how in ("set", "both")
    held = {"holdout_set": (other.X, other.y, other.group)} if with_set else {}
    curve = tradeoff_curve(
        kind.make(),
        toy.X,
        toy.y,
        sensitive_features=toy.group,
        constraint="demographic_parity",
        tolerances=3,
        holdout=HOW[how],
        operating_point=at_fpr(0.2),
        **held,
    )
    plain, *stages = curve.models
    column = "held-out loss" if how != "training rows" else "loss"
    for model in stages:
        # A stage starts where the base ended; in cross-fitting each booster from its own scores.
        assert model.trace_[column].iloc[0] == pytest.approx(curve.table["loss"][0], rel=1e-6)
        assert kind.trees(model.booster_)[:8] == kind.trees(plain.booster_)
        assert 9 <= model.best_iteration_ <= 20
    if how == "cross":
        return
    X, y, group, _ = rows_seen(toy, other, how)
    for model, line in zip(curve.models, curve.table.itertuples(), strict=True):
        positive = model.predict(X) == 1
        gap = abs(positive[group == "a"].mean() - positive[group == "b"].mean())
        assert line.gap == pytest.approx(gap, abs=1e-9)
        assert line.accuracy == pytest.approx((positive == y).mean(), abs=1e-9)


# Files


@pytest.mark.parametrize("iterate", ["best", "last", "average", "randomized"])
@pytest.mark.parametrize("with_frame", [False, True], ids=["array", "frame"])
def test_files(kind, toy, other, tmp_path, iterate, with_frame):
    X, new = (toy.frame, other.frame) if with_frame else (toy.X, other.X)
    model = fit(kind.make(), toy, other, "share", X=X, iterate=iterate, random_state=0)
    model.save(tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
        assert again.threshold_ == model.threshold_
        assert type(again.estimator) is type(model.estimator)
        assert repr(again.estimator.get_params()) == repr(model.estimator.get_params())
        pd.testing.assert_frame_equal(again.trace_, model.trace_)
    path = tmp_path / f"model{kind.ending}"
    if iterate == "randomized":
        with pytest.raises(ExportError, match="no single booster does"):
            model.export(path)
        return
    model.export(path)
    proba = kind.read(path, new)
    np.testing.assert_allclose(proba, model.predict_proba(new)[:, 1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.estimator_.predict_proba(new)[:, 1], proba, rtol=0, atol=1e-6)
    contributions = kind.contributions(path, new)
    assert contributions.shape == (300, 5)
    np.testing.assert_allclose(expit(contributions.sum(axis=1)), proba, rtol=0, atol=1e-5)
    assert float(kind.note(path, "fairboost_threshold")) == 0.5


def test_average_is_the_mean_of_all_iterates(kind, toy, other):
    average, last = (fit(kind.make(), toy, other, iterate=i) for i in ("average", "last"))
    prefixes = [scores_after(kind, last, toy.X, t) for t in range(1, 9)]
    np.testing.assert_allclose(
        average.decision_function(toy.X), np.mean(prefixes, axis=0), rtol=0, atol=1e-6
    )


def test_threads_that_score_at_the_same_time(kind, make_toy, toy, other):
    """Each row by a prefix of its own, while others ask for the same or for all trees."""
    model = fit(kind.make(n_estimators=40), toy, other, iterate="randomized", random_state=0)
    X = make_toy(n=3_000, seed=2).X
    ask = (lambda: model.decision_function(X)), (lambda: kind.scores(model.estimator_, X))
    expected = [f() for f in ask]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: ask[k % 2](), range(16)))
    for k, scores in enumerate(found):
        np.testing.assert_array_equal(scores, expected[k % 2])


def test_threads_that_fit_at_the_same_time(kind, toy, other, monkeypatch):
    """Filters of warnings belong to all threads: of two that change them, one puts back wrong."""
    changed_by = []
    enter = warnings.catch_warnings.__enter__

    def spy(self):
        changed_by.append(sys._getframe(1).f_globals["__name__"])
        return enter(self)

    monkeypatch.setattr(warnings.catch_warnings, "__enter__", spy)
    held = {"fit": {"eval_set": [(other.X, other.y)]}}
    with ThreadPoolExecutor(4) as threads:
        models = list(threads.map(lambda _: fit(kind.make(), toy, other, **held), range(8)))
    assert not [name for name in changed_by if name.startswith("fairboost")]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(toy.X), models[0].predict_proba(toy.X))


# Tables

NAMES = ["income", "debt", "noise", "district"]
TABLES = {
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "lists": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "nullable": lambda X: pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "arrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
}


@pytest.mark.filterwarnings("ignore:Converting data to scipy sparse matrix")  # LightGBM's
@pytest.mark.parametrize("how", ["share", "training rows"])
@pytest.mark.parametrize("form", TABLES)
def test_every_table_gives_the_same_model(kind, toy, form, how):
    X = toy.X.astype(np.float32).astype(np.float64)
    models = []
    for change in (np.array, TABLES[form]):
        model = FairGBMClassifier(
            kind.make(), constraint="demographic_parity", iterate="randomized", holdout=HOW[how],
            memberships="observed", random_state=0,
        )  # fmt: skip
        models.append(model.fit(change(X), toy.y, sensitive_features=toy.group))
    np.testing.assert_array_equal(
        models[1].decision_function(TABLES[form](X)), models[0].decision_function(X)
    )


# scikit-learn


@pytest.mark.parametrize("iterate", ["best", "randomized"])
def test_an_interrupted_fit_leaves_the_model_as_it_was(kind, toy, other, iterate):
    """Not the trees of one fit with the labels and columns of the next."""
    model = fit(kind.make(), toy, other, "share", X=toy.frame, iterate=iterate)
    before, proba = dict(vars(model)), model.predict_proba(other.frame)
    options, fit_options = kind.interrupting(3)
    model.estimator = kind.make(**options)
    labels = np.where(toy.y == 1, "no", "yes")
    with pytest.raises(KeyboardInterrupt):
        model.fit(toy.X[:, :3], labels, sensitive_features=toy.group, **fit_options)
    assert {**vars(model), "estimator": before["estimator"]} == before
    np.testing.assert_array_equal(model.predict_proba(other.frame), proba)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_grid_search(kind, toy):
    grid = {"estimator__learning_rate": [0.01, 0.3], "tolerance": [0.01, 0.5]}
    model = FairGBMClassifier(kind.make(), constraint="demographic_parity", memberships="observed")
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(model.set_fit_request(sensitive_features=True), grid, cv=2)
        search.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert search.best_params_["estimator__learning_rate"] == 0.3
    assert len(set(search.cv_results_["mean_test_score"])) > 2


def test_the_engine_given_stays_as_it_was(kind, toy, other):
    engine = kind.make(random_state=None)
    before = repr(engine.get_params()), set(vars(engine))
    fit(engine, toy, other, "share", random_state=3)
    assert (repr(engine.get_params()), set(vars(engine))) == before


@pytest.mark.parametrize("rate, trees", [(0.1, 25), (0.3, 50)])
def test_followers_take_turns_with_twice_the_rate_where_steps_are_small(
    kind, toy, other, monkeypatch, rate, trees
):
    ended, finish = [], Lockstep.finish
    monkeypatch.setattr(Lockstep, "finish", lambda self: (ended.append(self), finish(self)))
    fit(kind.make(n_estimators=50, learning_rate=rate), toy, other, "cross")
    boosters = ended[0].boosters
    if kind.name == "lightgbm":
        grown = [booster.num_trees() for booster in boosters.boosters]
        follower = boosters.boosters[0].model_to_string()
        assert f"[learning_rate: {rate * 50 / trees:g}]" in follower
    else:
        grown = [b.num_boosted_rounds() for b in (*boosters.followers, boosters.main)]
        config = json.loads(boosters.followers[0].save_config())
        found = config["learner"]["gradient_booster"]["tree_train_param"]["eta"]
        assert float(found) == pytest.approx(rate * 50 / trees, rel=1e-6)
    assert grown == [*[trees] * (len(grown) - 1), 50]
