"""Rows held out: LightGBM keeps their scores, trains on none of them, and nothing else changes."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state

from fairboost import FairGBMClassifier
from fairboost.data.cells import build_cells
from fairboost.data.holdout import choose
from fairboost.data.validation import read_sensitive_features
from fairboost.fairness.rates import RATES
from tests.covering import covering
from tests.problems import assert_trace_is_of_the_kept, lightgbm_on_some

pytestmark = [
    # LightGBM's own fit warns of it since 4.7; what it offers instead does not encode labels.
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
]

IDLE = 0.99
"""A tolerance that holds all the time: multipliers stay at zero."""


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, not trained on."""
    return make_toy(n=300, seed=1)


def fair(engine, *, constraint="equalized_odds", tolerance=0.01, iterate="last", **params):
    return FairGBMClassifier(
        engine, constraint=constraint, tolerance=tolerance, iterate=iterate, **params
    )


def folds_of(toy, how, seed=0, weight=None):
    """The draw of a fit on these rows."""
    (group,) = read_sensitive_features(toy.group, len(toy))
    weight = None if weight is None else weight.astype(np.float32)
    cells = build_cells(toy.y.astype(np.int8), [group], weight)
    return choose(how, cells, 0.0, weight, np.random.default_rng(seed)).folds


def scores_after(model, X, trees):
    if trees == 0:
        return np.full(X.shape[0], model._model.intercept)
    return model.estimator_.predict(X, raw_score=True, num_iteration=trees)


def assert_trace_is_of(model, scores_of_round, y, group, weight=None):
    """Rates, violations and loss of every round, computed anew."""
    w = np.ones(len(y)) if weight is None else weight.astype(np.float32).astype(float)
    for t, row in model.trace_.iterrows():
        f = scores_of_round(t)
        assert row["held-out loss"] == pytest.approx(
            np.average(np.logaddexp(0, np.where(y == 1, -f, f)), weights=w), rel=1e-9
        )
        for name in ("fpr", "fnr"):
            rate = RATES[name]
            event = (f >= 0) if rate.direction > 0 else (f < 0)
            counts = rate.counts(y)
            pooled = np.average(event[counts], weights=w[counts])
            for g in ("a", "b"):
                mine = counts & (group == g)
                value = np.average(event[mine], weights=w[mine])
                label = f"{name}[sensitive_feature={g}]"
                assert row[f"rate: {label}"] == pytest.approx(value, abs=1e-9)
                others = w[counts & ~mine].sum() / w[counts].sum()
                above = value - pooled - model.tolerance * others
                assert row[f"violation: {label} above"] == pytest.approx(above, abs=1e-9)


def by_hand(engine, toy, kept, callbacks=None):
    """Scores of all rows after every round of a booster that leaves some rows out."""
    start = logit(toy.y.mean())
    return lightgbm_on_some(engine, toy.X, toy.y, kept, start, callbacks=callbacks)


def on_subset(engine, toy, kept):
    """Scores of all rows by a booster on some of them, which were binned with the others."""
    params = {k: v for k, v in engine.get_params().items() if v is not None}
    start = logit(toy.y.mean())
    whole = lightgbm.Dataset(toy.X, toy.y, init_score=np.full(len(toy), start), params=params)
    part = whole.subset(np.flatnonzero(kept).tolist())
    rounds = params.pop("n_estimators")
    booster = lightgbm.train({**params, "objective": "binary"}, part, rounds)
    return booster.predict(toy.X, raw_score=True) + start


# The trace shows the rates that the rows held out have


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("random_state", [None, 7])
def test_rates_are_those_of_the_share_held_out(engine, toy, weighted, random_state):
    weight = toy.weight if weighted else None
    model = fair(engine(n_estimators=12), holdout=0.3, random_state=random_state)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, sample_weight=weight)
    seed = 0 if random_state is None else check_random_state(7).randint(2**31 - 1)
    at = folds_of(toy, 0.3, seed, weight) == 1
    assert 0.29 < at.mean() < 0.31
    assert_trace_is_of(
        model,
        lambda t: scores_after(model, toy.X[at], t),
        toy.y[at],
        toy.group[at],
        None if weight is None else weight[at],
    )
    assert model.multipliers_.sum() > 0
    trained = scores_after(model, toy.X[~at], 11)
    loss = np.logaddexp(0, np.where(toy.y[~at] == 1, -trained, trained))
    w = None if weight is None else weight[~at]
    assert model.trace_["loss"].iloc[-1] == pytest.approx(np.average(loss, weights=w), rel=1e-6)


@pytest.mark.parametrize("with_eval_set", [False, True], ids=["", "eval_set"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_rates_are_those_of_the_set_given(engine, toy, other, weighted, with_eval_set):
    # Eighths are as good in single precision as in double.
    weight = np.ceil(8 * other.weight) / 8 if weighted else None
    held_out = (other.X, other.y, other.group) + ((weight,) if weighted else ())
    fit_options = {"eval_set": [(toy.X[:150], toy.y[:150])]} if with_eval_set else {}
    model = fair(engine(n_estimators=12)).fit(
        toy.X, toy.y, sensitive_features=toy.group, holdout_set=held_out, **fit_options
    )
    assert_trace_is_of(
        model, lambda t: scores_after(model, other.X, t), other.y, other.group, weight
    )
    assert model.multipliers_.sum() > 0
    before_last = scores_after(model, toy.X, 11)
    loss = np.logaddexp(0, np.where(toy.y == 1, -before_last, before_last)).mean()
    assert model.trace_["loss"].iloc[-1] == pytest.approx(loss, rel=1e-9)


def test_a_weight_of_the_set_does_not_ask_for_weights_of_training(engine, toy, other):
    """And the other way round; a missing weight is 1."""
    for train, held in ((toy.weight, None), (None, np.ones(300)), (np.ones(600), np.ones(300))):
        model = fair(engine()).fit(
            toy.X,
            toy.y,
            sensitive_features=toy.group,
            sample_weight=train,
            holdout_set=(other.X, other.y, other.group, held),
        )
        assert_trace_is_of(
            model, lambda t, m=model: scores_after(m, other.X, t), other.y, other.group
        )


def test_categories_of_the_set_are_those_of_training(engine, make_toy):
    """Even if a frame lists them in another order, or lacks some."""
    train, held = make_toy(600, 0), make_toy(300, 1)
    frame = held.frame
    frame["debt"] = frame["debt"].cat.set_categories(["z", "y", "x", "w", "v", "u"])
    model = fair(engine(min_child_samples=5)).fit(
        train.frame,
        train.y,
        sensitive_features=train.group,
        holdout_set=(frame, held.y, held.group),
    )
    assert "==" in set(model.booster_.trees_to_dataframe()["decision_type"].dropna())
    assert_trace_is_of(model, lambda t: scores_after(model, held.frame, t), held.y, held.group)


NAMES = ["income", "debt", "noise", "district"]
FORMS = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "arrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "csr": sp.csr_matrix,
    "lists": lambda X: X.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_set_in_every_form_of_table(engine, toy, other, form):
    def trace(change):
        model = fair(engine())
        model.fit(
            change(toy.X),
            toy.y,
            sensitive_features=toy.group,
            holdout_set=(change(other.X), other.y, other.group),
        )
        return model.trace_

    pd.testing.assert_frame_equal(trace(FORMS[form]), trace(np.asarray))


def test_the_operating_point_is_that_of_the_rows_held_out(engine, toy):
    model = fair(engine(), holdout=0.3, operating_point=0.7, constraint="demographic_parity")
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    at = folds_of(toy, 0.3) == 1
    positive = expit(scores_after(model, toy.X[at], 7)) >= 0.7
    for g in ("a", "b"):
        expected = positive[toy.group[at] == g].mean()
        assert model.trace_[f"rate: ppr[sensitive_feature={g}]"].iloc[-1] == pytest.approx(
            expected
        )


# With idle multipliers it is plain LightGBM on the rows trained on


@pytest.mark.parametrize(
    "options",
    [{}, {"subsample": 0.6, "subsample_freq": 1}, {"colsample_bytree": 0.5}],
    ids=["plain", "bagging", "columns"],
)
def test_rows_held_out_do_not_teach_the_trees(engine, toy, options):
    model = fair(engine(**options), holdout=0.3, tolerance=IDLE)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert model.multipliers_.sum() == 0
    kept = folds_of(toy, 0.3) == 0
    expected = on_subset(engine(**options), toy, kept)
    np.testing.assert_allclose(model.decision_function(toy.X), expected, rtol=0, atol=1e-12)
    on_all = by_hand(engine(**options), toy, np.ones(len(toy), bool))[-1]
    assert np.abs(expected - on_all).max() > 0.01  # which is not nothing


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_a_set_given_does_not_teach_the_trees(engine, toy, other):
    model = fair(engine(), tolerance=IDLE).fit(
        toy.X, toy.y, sensitive_features=toy.group,
        holdout_set=(other.X, 1 - other.y, other.group),
    )  # fmt: skip
    stock = engine().fit(toy.X, toy.y).predict(toy.X, raw_score=True)
    np.testing.assert_allclose(model.decision_function(toy.X), stock, rtol=0, atol=1e-10)


def test_in_cross_fitting_the_booster_kept_sees_all_rows(engine, toy):
    model = fair(engine(), holdout="cross", tolerance=IDLE)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    stock = engine().fit(toy.X, toy.y).predict(toy.X, raw_score=True)
    np.testing.assert_allclose(model.decision_function(toy.X), stock, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "options", [{}, {"subsample": 0.6, "subsample_freq": 1}], ids=["plain", "bagging"]
)
def test_in_cross_fitting_rates_are_said_of_the_booster_kept(engine, toy, options):
    """Against boosters trained one after the other, each without its fold."""
    model = fair(engine(**options), holdout="cross", tolerance=IDLE)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    folds = folds_of(toy, "cross")
    scores = np.array(
        [by_hand(engine(**options), toy, folds != k) for k in range(folds.max() + 1)]
    )
    kept = np.array([scores_after(model, toy.X, t) for t in range(8)])
    assert_trace_is_of_the_kept(model, kept, scores, folds, toy.y, toy.group)
    in_sample = scores_after(model, toy.X, 7)
    loss = np.logaddexp(0, np.where(toy.y == 1, -in_sample, in_sample)).mean()
    assert model.trace_["loss"].iloc[-1] == pytest.approx(loss, rel=1e-9)
    assert model.trace_["held-out loss"].iloc[-1] > loss  # out of fold is harder


def test_in_cross_fitting_a_learning_rate_that_changes_changes_for_all(engine, toy):
    """A schedule of the user's reaches the booster that is kept; its followers must go along."""

    def slower():
        return [lightgbm.reset_parameter(learning_rate=lambda iteration: 0.3 * 0.6**iteration)]

    model = fair(engine(), holdout="cross", tolerance=IDLE)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, callbacks=slower())
    folds = folds_of(toy, "cross")
    scores = np.array(
        [by_hand(engine(), toy, folds != k, slower()) for k in range(folds.max() + 1)]
    )
    kept = np.array([scores_after(model, toy.X, t) for t in range(8)])
    assert_trace_is_of_the_kept(model, kept, scores, folds, toy.y, toy.group)


# Everything goes on as before around it

HOW = {
    "share": {"holdout": 0.3},
    "cross": {"holdout": "cross"},
    "set": {"holdout": "auto"},
    "both": {"holdout": 0.3},
    "training rows": {"holdout": None},
}


def fit(engine, toy, other, how, *, weighted=False, params=None, **fit_options):
    weight = {"sample_weight": toy.weight} if weighted else {}
    if how in ("set", "both"):
        fit_options["holdout_set"] = (other.X, other.y, other.group)
    model = fair(engine, **HOW[how], **(params or {}))
    return model.fit(toy.X, toy.y, sensitive_features=toy.group, **weight, **fit_options)


OPTIONS = {
    "bagging": {"subsample": 0.6, "subsample_freq": 1},
    "columns": {"colsample_bytree": 0.5},
    "columns by node": {"feature_fraction_bynode": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "extra trees": {"extra_trees": True},
    "linear trees": {"linear_tree": True},
    "quantised": {"use_quantized_grad": True},
    "class weights": {"class_weight": "balanced"},
    "monotone": {"monotone_constraints": [1, -1, 0, 0]},
}


@pytest.mark.parametrize(("options", "how", "weighted"), covering(OPTIONS, HOW, [False, True]))
def test_engine_options(engine, toy, other, how, options, weighted):
    first, second = (
        fit(engine(**OPTIONS[options]), toy, other, how, weighted=weighted) for _ in range(2)
    )
    assert first.trace_["round"].tolist() == list(range(1, 9))
    assert np.isfinite(first.trace_.drop(columns="trees")).all(axis=None)
    assert first.trace_["loss"].iloc[-1] < first.trace_["loss"].iloc[0]
    assert first.multipliers_.sum() > 0
    np.testing.assert_array_equal(first.decision_function(toy.X), second.decision_function(toy.X))


@pytest.mark.parametrize("how", HOW)
def test_dart_keeps_its_trees_the_right_way_round(engine, toy, other, how):
    """Asked for its scores after the last round it would drop trees, and not put them back."""
    dart = engine(boosting_type="dart", drop_rate=0.9, skip_drop=0.0)
    model = fit(dart, toy, other, how, params={"constraint": "demographic_parity"})
    assert roc_auc_score(toy.y, model.decision_function(toy.X)) > 0.7
    assert len(model.trace_) == 8


@pytest.mark.parametrize("random_state", [None, 5])
@pytest.mark.parametrize("how", HOW)
def test_two_fits_are_alike(engine, toy, other, how, random_state):
    options = {"random_state": None, "subsample": 0.6, "subsample_freq": 1}
    params = {"random_state": random_state, "iterate": "best"}
    first, second = (
        fit(engine(**options), toy, other, how, weighted=True, params=params) for _ in range(2)
    )
    np.testing.assert_array_equal(first.decision_function(toy.X), second.decision_function(toy.X))
    pd.testing.assert_frame_equal(first.trace_, second.trace_)


@pytest.mark.parametrize("how", ["share", "cross"])
def test_another_seed_holds_out_other_rows(engine, toy, other, how):
    one, two = (fit(engine(), toy, other, how, params={"random_state": s}) for s in (1, 2))
    assert (one.trace_["held-out loss"] != two.trace_["held-out loss"]).any()


def test_a_random_state_that_goes_on_gives_other_draws(engine, toy, other):
    generator = np.random.RandomState(0)
    one, two = (
        fit(engine(), toy, other, "share", params={"random_state": generator}) for _ in range(2)
    )
    assert (one.trace_["held-out loss"] != two.trace_["held-out loss"]).any()


# The user's evaluation sets, early stopping and callbacks do not see the rows held out


@pytest.mark.parametrize("how", HOW)
def test_the_users_sets_are_all_that_is_reported(engine, toy, other, how):
    recorded, lists = {}, []

    def spy(env):
        lists.append([name for name, *_ in env.evaluation_result_list])

    model = fit(
        engine(), toy, other, how,
        params={"tolerance": IDLE},
        eval_set=[(other.X, other.y), (toy.X, toy.y)],  # LightGBM knows its training set again
        eval_names=["new", "old"],
        eval_metric=["auc", "binary_logloss"],
        callbacks=[lightgbm.record_evaluation(recorded), spy],
    )  # fmt: skip
    for found in (model.estimator_.evals_result_, recorded, model.estimator_.best_score_):
        assert set(found) == {"new", "old"}
        assert {metric for sets in found.values() for metric in sets} == {"auc", "binary_logloss"}
    assert all(set(names) == {"new", "old"} for names in lists) and len(lists) == 8
    assert recorded == model.estimator_.evals_result_
    f = model.decision_function(other.X)
    loss = np.logaddexp(0, np.where(other.y == 1, -f, f)).mean()
    assert recorded["new"]["binary_logloss"][-1] == pytest.approx(loss, rel=1e-9)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("by_option", [False, True], ids=["callback", "option"])
@pytest.mark.parametrize("how", ["cross", "set"])
def test_early_stopping_is_by_the_users_set_alone(engine, toy, other, how, by_option):
    """Held-out labels are turned round: by them training would stop at once."""
    options = {"n_estimators": 60, **({"early_stopping_round": 3} if by_option else {})}
    fit_options = {"eval_set": [(other.X, other.y)], "eval_metric": "binary_logloss"}

    def callbacks():
        return [] if by_option else [lightgbm.early_stopping(3, verbose=False)]

    stock = engine(**options).fit(toy.X, toy.y, callbacks=callbacks(), **fit_options)
    model = fair(engine(**options), tolerance=IDLE, **HOW[how])
    if how == "set":
        fit_options["holdout_set"] = (other.X, 1 - other.y, other.group)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, callbacks=callbacks(), **fit_options)
    assert 3 < stock.best_iteration_ < 57
    assert model.best_iteration_ == model.booster_.num_trees() == stock.best_iteration_
    assert len(model.trace_) == stock.best_iteration_ + 4  # judged one round later
    assert list(model.estimator_.evals_result_) == ["valid_0"]
    np.testing.assert_allclose(
        model.estimator_.evals_result_["valid_0"]["binary_logloss"][:-1],
        stock.evals_result_["valid_0"]["binary_logloss"],
        rtol=1e-9,
    )


@pytest.mark.parametrize("how", HOW)
def test_the_best_iterate_is_no_later_than_early_stopping(engine, toy, other, how):
    model = fit(
        engine(n_estimators=60), toy, other, how,
        params={"iterate": "best"},
        eval_set=[(other.X, other.y)],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
    )  # fmt: skip
    rounds = len(model.trace_)
    assert 1 <= model.best_iteration_ <= rounds
    if rounds < 60:
        assert model.best_iteration_ <= rounds - 3


@pytest.mark.parametrize("how", HOW)
def test_the_best_iterate_is_a_prefix_of_the_last(engine, toy, other, how):
    best, last = (
        fit(engine(n_estimators=30), toy, other, how, params={"iterate": iterate})
        for iterate in ("best", "last")
    )
    pd.testing.assert_frame_equal(best.trace_, last.trace_)
    np.testing.assert_array_equal(
        best.decision_function(toy.X), scores_after(last, toy.X, best.best_iteration_)
    )


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("rounds_without", [None, "early", "late"])
def test_a_callback_that_ends_training(engine, toy, other, rounds_without):
    """There is no look at the last round then, and the best of the others is kept."""
    at = {None: 99, "early": 0, "late": 5}[rounds_without]

    def enough(env):
        if env.iteration == at:
            raise lightgbm.callback.EarlyStopException(env.iteration, [])

    model = fit(engine(), toy, other, "cross", params={"iterate": "best"}, callbacks=[enough])
    assert len(model.trace_) == min(8, at + 1)
    assert 1 <= model.best_iteration_ <= min(8, at + 1)


# What should not be heard of


def test_a_set_given_warns_of_nothing(engine, toy, other):
    with warnings.catch_warnings(action="error"):
        fit(engine(), toy, other, "set", params={"tolerance": IDLE})


@pytest.mark.parametrize("how", HOW)
def test_lightgbm_stays_quiet(engine, toy, other, how, capfd):
    fit(engine(), toy, other, how)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_weights_of_a_set_need_not_be_single_precision(engine, toy, make_toy):
    for seed in range(8):
        held = make_toy(n=300, seed=seed)
        model = fair(engine(n_estimators=2), constraint="demographic_parity").fit(
            toy.X, toy.y, sensitive_features=toy.group,
            holdout_set=(held.X, held.y, held.group, held.weight),
        )  # fmt: skip
        assert np.isfinite(model.multipliers_).all()


# Bins of the boosters that leave out a fold


@pytest.mark.parametrize("options", [{"max_bin": 40}, {"max_bin": 150}, {"linear_tree": True}, {}])
def test_cross_fitting_with_bins_of_ones_own(engine, toy, options):
    model = fair(engine(**options), holdout="cross", tolerance=IDLE)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    stock = engine(**options).fit(toy.X, toy.y).predict(toy.X, raw_score=True)
    np.testing.assert_allclose(model.decision_function(toy.X), stock, rtol=0, atol=1e-6)


def test_a_set_of_objects_is_read_as_predict_reads_it():
    """LightGBM rounds an array of objects to single precision when it trains."""
    rng = np.random.default_rng(0)
    x = 1 + 1e-9 * rng.integers(0, 400, 600)
    X, y = np.column_stack([x, rng.normal(size=600)]), (x > 1 + 2e-7).astype(int)
    X[:3, 1] = 1e300
    group = rng.choice(["f", "m"], 600)
    model = FairGBMClassifier(
        lightgbm.LGBMClassifier(n_estimators=5, verbose=-1), constraint="demographic_parity"
    ).fit(X, y, sensitive_features=group, holdout_set=(X.astype(object), y, group))
    decided = model.predict(X)
    by_hand = [decided[group == name].mean() for name in ("f", "m")]
    np.testing.assert_allclose(model.fairness_report_.rates["held out"], by_hand, atol=1e-12)


@pytest.mark.parametrize("held_out", [False, True])
def test_features_that_share_bins_by_mistake(held_out):
    """Which LightGBM makes if it looks at few rows first; it then predicts otherwise."""
    rng = np.random.default_rng(2)
    X = (rng.random((900, 30)) < 0.2).astype(float)
    y = (X[:, :15].sum(axis=1) - X[:, 15:].sum(axis=1) + rng.normal(size=900) > 0).astype(int)
    group = rng.choice(["f", "m"], 900)
    held = {"holdout_set": (X, y, group)} if held_out else {}
    options = {"subsample_for_bin": 10, "min_child_samples": 2, "verbose": -1}
    model = FairGBMClassifier(
        lightgbm.LGBMClassifier(n_estimators=15, **options), constraint="demographic_parity",
        tolerance=0.1, holdout="auto" if held_out else None,
    ).fit(X, y, sensitive_features=group, **held)  # fmt: skip
    decided, report = model.predict(X), model.fairness_report_
    by_hand = [decided[group == name].mean() for name in ("f", "m")]
    np.testing.assert_allclose(report.rates[report.where], by_hand, atol=1e-12)


def test_followers_are_as_quiet_as_they_were_told_to_be(capfd):
    """LightGBM keeps in each thread how much it says."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(300, 2)), rng.choice(["f", "m"], 300)
    y = rng.integers(0, 2, 300)
    options = {"n_estimators": 5, "min_child_samples": 140, "n_jobs": 2}
    for verbose, expected in ((-1, False), (1, True)):
        model = FairGBMClassifier(
            lightgbm.LGBMClassifier(**options, verbose=verbose), constraint="demographic_parity",
            holdout="cross", tolerance=0.5,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, sensitive_features=group)
        said = "".join(capfd.readouterr())
        assert ("No further splits" in said) is expected, said
