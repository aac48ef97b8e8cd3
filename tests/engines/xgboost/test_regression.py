"""XGBoost trains regressors: on the losses' own gradients the model is the stock one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import mean_absolute_error, roc_auc_score

from fairboost.datasets import ParquetRows
from fairboost.engines.group_model import CodedRows
from fairboost.engines.port import EngineData, Follower, Problem
from fairboost.engines.xgboost import data as xgboost_data
from fairboost.engines.xgboost.engine import (
    check_estimator,
    make,
    make_estimator,
    restore,
    split_points,
    stage_on,
)
from fairboost.exceptions import EngineOptionError, InvalidInputError, ModelFileError

xgboost = pytest.importorskip("xgboost")

SMOOTH = {
    "not said": {"objective": None},
    "squared": {"objective": "reg:squarederror"},
    "pseudo-Huber": {"objective": "reg:pseudohubererror"},
    "pseudo-Huber 3": {"objective": "reg:pseudohubererror", "huber_slope": 3.0},
    "poisson": {"objective": "count:poisson"},
    "poisson, small steps": {"objective": "count:poisson", "max_delta_step": 0.2},
    "poisson, any steps": {"objective": "count:poisson", "max_delta_step": 0},
    "gamma": {"objective": "reg:gamma"},
    "tweedie": {"objective": "reg:tweedie"},
    "tweedie 1.2": {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
}
RENEWED = {
    "absolute": {"objective": "reg:absoluteerror"},
    "median": {"objective": "reg:quantileerror", "quantile_alpha": 0.5},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": [0.8]},
}
ALL = {**SMOOTH, **RENEWED}
LOG_LINKS = ("count:poisson", "reg:gamma", "reg:tweedie")


def regressor(**options):
    defaults = {
        "n_estimators": 12,
        "max_depth": 3,
        "learning_rate": 0.3,
        "n_jobs": 1,
        "random_state": 0,
        "enable_categorical": True,
    }
    return xgboost.XGBRegressor(**{**defaults, **options})


def targets(data, options, seed=0):
    """Numbers that the features tell, of the kind that the objective is for."""
    rng = np.random.default_rng(seed)
    mean = np.exp(0.5 + 0.5 * data.X[:, 0] - 0.3 * data.X[:, 1])
    kind = options["objective"]
    if kind == "count:poisson":
        return rng.poisson(mean).astype(float)
    if kind == "reg:gamma":
        return rng.gamma(2.0, mean / 2.0)
    if kind == "reg:tweedie":
        return np.where(rng.random(len(mean)) < 0.3, 0.0, rng.gamma(2.0, mean / 2.0))
    # Beyond its slope XGBoost's pseudo-Huber takes steps that make a lot of the last digit.
    unit = options.get("huber_slope", 1.0) / 3.0 if kind == "reg:pseudohubererror" else 1.0
    return unit * (3.0 * data.X[:, 0] - data.X[:, 1] + rng.normal(size=len(mean)) - 2.0)


def train(engine, X, y, *, weight=None, folds=(), **given):
    """Train on the gradients of the loss alone; returns all that was handed out."""
    weight = None if weight is None else weight.astype(np.float32)
    fit_options = given.pop("fit", {})
    engine.check_arguments(X, fit_options)
    terms = engine.loss_terms(y, weight, given.get("offset"))
    data = EngineData(X, y, y, weight, fit_options, **given)
    # No callback holds what holds the matrices: one on disk must go when its test ends.
    all_scores, all_measured, rounds = [], [], []

    def gradients_on(which):
        def gradients(scores, measured=None):
            slopes = terms.loss.slopes(np.asarray(scores, np.float64), y[which])
            w = 1.0 if weight is None else weight[which]
            return tuple((w * each).astype(np.float32) for each in slopes)

        return gradients

    rows = np.arange(len(y)) if data.trained is None else np.flatnonzero(data.trained)
    gradients = gradients_on(rows)

    def note(scores, measured):
        all_scores.append(np.array(scores))
        all_measured.append(None if measured is None else np.array(measured))

    def play(scores, measured):
        note(scores, measured)
        return gradients(scores)

    followers = [Follower(f, gradients_on(np.delete(np.arange(len(y)), f))) for f in folds]
    watched = data.trained is not None or data.held_out is not None
    problem = Problem(play, note, rounds.append, watched, followers)
    model, ended = engine.train(data, problem, terms.intercept)
    return SimpleNamespace(
        terms=terms, scores=all_scores, measured=all_measured, rounds=rounds, problem=problem,
        model=model, ended=ended,
    )  # fmt: skip


def assert_equal_to_stock(model, stock, X):
    """The same but for what XGBoost rounds off gradients, which it makes in single precision."""
    predicted, expected = model.predictions(model.scores(X)), stock.predict(X)
    atol = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=atol)
    assert model.n_rounds == stock.get_booster().num_boosted_rounds()


def learner(booster):
    return json.loads(booster.save_raw("json").decode())["learner"]


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, not trained on."""
    return make_toy(n=300, seed=1)


# The stock model


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("options", SMOOTH.values(), ids=SMOOTH)
def test_predictions_equal_stock(toy, options, weighted):
    y, weight = targets(toy, options), toy.weight if weighted else None
    for X in (toy.X, toy.frame):
        stock = regressor(**options).fit(X, y, sample_weight=weight)
        found = train(make(regressor(**options), None), X, y, weight=weight)
        assert_equal_to_stock(found.model, stock, X)
        ours, theirs = learner(found.model.booster), learner(stock.get_booster())
        assert ours["objective"] == theirs["objective"]
        assert (
            ours["learner_model_param"]["base_score"]
            == theirs["learner_model_param"]["base_score"]
        )
    assert found.rounds == [*range(1, 13)] and len(found.scores) == 13
    np.testing.assert_array_equal(found.scores[-1], found.model.scores(X).astype(np.float32))


@pytest.mark.parametrize(
    "more",
    [
        {"subsample": 0.5, "random_state": 4},
        {"colsample_bynode": 0.5, "num_parallel_tree": 2},
        {"booster": "dart", "rate_drop": 0.5, "verbosity": 0},
        {"base_score": 1.7},
        {"base_score": [0.6], "tree_method": "approx"},
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", ["squared", "poisson", "tweedie"])
def test_other_options_mean_what_they_mean_in_stock(toy, loss, more):
    options = {**SMOOTH[loss], **more}
    y = targets(toy, options)
    stock = regressor(**options).fit(toy.X, y)
    assert_equal_to_stock(train(make(regressor(**options), None), toy.X, y).model, stock, toy.X)


@pytest.mark.parametrize("options", RENEWED.values(), ids=RENEWED)
def test_losses_without_a_hessian_end_near_stock(make_toy, options):
    """XGBoost sets leaves to medians; gradients of ours have a Hessian in their place."""
    data, new = make_toy(3_000), make_toy(3_000, seed=1)
    y, new_y = targets(data, options), targets(new, options, seed=1)
    options = {**options, "n_estimators": 200, "learning_rate": 0.1}
    stock = regressor(**options).fit(data.X, y)
    found = train(make(regressor(**options), None), data.X, y)
    ours, theirs, start = (
        found.terms.loss.value(np.asarray(f, float), new_y).mean()
        for f in (
            found.model.scores(new.X),
            stock.predict(new.X),
            found.terms.intercept + 0 * new_y,
        )
    )
    assert ours < 1.02 * theirs < 0.6 * start
    named, of_stock = (learner(b) for b in (found.model.booster, stock.get_booster()))
    assert named["objective"] == of_stock["objective"]
    assert (
        named["learner_model_param"]["base_score"]
        == (of_stock["learner_model_param"]["base_score"])
    )


def test_gradients_count_under_the_absolute_loss(toy):
    """XGBoost up to 3.3 would set leaves to medians of the residuals, whatever the gradients."""
    y = targets(toy, RENEWED["absolute"])
    engine = make(regressor(objective="reg:absoluteerror", n_estimators=1, reg_lambda=0), None)
    ones = np.ones(len(y), np.float32)
    problem = Problem(lambda *_: (7 * ones, ones.copy()), lambda *_: None, lambda _: None)
    model, _ = engine.train(EngineData(toy.X, y, y, None, {}), problem, 2.0)
    np.testing.assert_allclose(model.scores(toy.X), 2.0 - 0.3 * 7, rtol=1e-5)


@pytest.mark.parametrize("given", [[0.3, 0.7], None, 0.0, 1.0, "a"], ids=str)
def test_a_quantile_is_one_level(given):
    with pytest.raises(EngineOptionError, match=r"quantile_alpha must be one number in \(0, 1\)"):
        check_estimator(regressor(objective="reg:quantileerror", quantile_alpha=given))


# Evaluation sets


@pytest.mark.parametrize(
    "metric",
    [None, "rmse", ["mae", "rmse"], mean_absolute_error],
    ids=["its own", "one", "several", "function"],
)
@pytest.mark.parametrize("options", SMOOTH.values(), ids=SMOOTH)
def test_metrics_and_early_stopping_are_those_of_stock(toy, other, options, metric):
    options = {**options, "eval_metric": metric, "early_stopping_rounds": 2, "n_estimators": 60}
    y, other_y = targets(toy, options), targets(other, options, seed=1)
    sets = {"eval_set": [(toy.X, y), (other.X, other_y)]}
    weights = [toy.weight, other.weight]
    stock = regressor(**options).fit(
        toy.X, y, sample_weight=toy.weight, **sets, sample_weight_eval_set=weights, verbose=False
    )
    found = train(
        make(regressor(**options), None), toy.X, y, weight=toy.weight,
        fit={**sets, "eval_sample_weight": weights},
    )  # fmt: skip
    ours, expected = found.model.estimator.evals_result(), stock.evals_result()
    assert [*ours] == [*expected] == ["validation_0", "validation_1"]
    for name, history in expected.items():
        assert [*ours[name]] == [*history]
        for key, values in history.items():
            np.testing.assert_allclose(ours[name][key], values, rtol=1e-4, err_msg=key)
    assert found.model.n_rounds == stock.best_iteration + 1 < 60
    np.testing.assert_allclose(
        found.model.predictions(found.model.scores(other.X)),
        stock.predict(other.X),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("metric", [None, "quantile", "mae", ["rmse", "quantile"]], ids=str)
@pytest.mark.parametrize("options", RENEWED.values(), ids=RENEWED)
def test_metrics_of_losses_without_a_hessian(toy, other, options, metric):
    if metric is not None and "quantile" in metric:
        options = {"quantile_alpha": 0.3, **options}
    y, other_y = targets(toy, options), targets(other, options, seed=1)
    options = {**options, "eval_metric": metric, "early_stopping_rounds": 5}
    sets = {"eval_set": [(other.X, other_y)]}
    stock = regressor(**options).fit(toy.X, y, **sets, verbose=False)
    found = train(make(regressor(**options), None), toy.X, y, fit=sets)
    ours, expected = found.model.estimator.evals_result(), stock.evals_result()
    assert [*ours["validation_0"]] == [*expected["validation_0"]]
    if metric is None:  # the loss itself
        losses = [
            found.terms.loss.value(found.model.scores(other.X, k), other_y).mean()
            for k in range(1, found.model.n_rounds + 1)
        ]
        (history,) = ours["validation_0"].values()
        np.testing.assert_allclose(history[: len(losses)], losses, rtol=1e-5)


# Offsets


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_offsets_are_trained_with_and_left_out_of_the_model(toy, other, monkeypatch, options):
    rng = np.random.default_rng(3)
    offset, other_offset = (np.log(rng.uniform(0.2, 3.0, len(d))) for d in (toy, other))
    y = targets(toy, options)
    engine = make(regressor(**options), None)
    given = {"offset": offset, "held_out_offset": other_offset, "weight": toy.weight}
    for by_tree in (0, np.inf):
        monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", by_tree)
        found = train(engine, toy.X, y, held_out=(other.X, np.zeros(len(other))), **given)
        np.testing.assert_allclose(found.scores[0], found.terms.intercept + offset, rtol=1e-5)
        for seen, X, away in (
            (found.scores[-1], toy.X, offset),
            (found.measured[-1], other.X, other_offset),
        ):
            scores = found.model.scores(X)
            np.testing.assert_allclose(seen, scores + away, rtol=1e-4, atol=1e-5)
            if options["objective"] in LOG_LINKS:
                exposed = found.model.predictions(scores) * np.exp(away)
                np.testing.assert_allclose(np.exp(seen), exposed, rtol=1e-5)
    if not found.terms.loss.renews_leaves:
        start = np.full(len(toy), found.terms.intercept)
        stock = regressor(**options)
        stock.fit(toy.X, y, sample_weight=toy.weight, base_margin=start + offset)
        expected = stock.predict(toy.X, base_margin=start)
        predicted = found.model.predictions(found.model.scores(toy.X))
        np.testing.assert_allclose(predicted, expected, rtol=1e-5, atol=1e-5)


def test_the_start_under_an_offset(toy):
    offset, w = np.log(np.linspace(0.5, 2.0, len(toy))), toy.weight.astype(np.float32)
    y = targets(toy, SMOOTH["poisson"])
    for weight, each in ((None, np.ones(len(toy))), (w, w)):
        found = make(regressor(**SMOOTH["poisson"]), None).loss_terms(y, weight, offset)
        rate = (each * y).sum() / (each * np.exp(offset)).sum()
        assert found.intercept == pytest.approx(np.log(rate), rel=1e-6)
        found = make(regressor(), None).loss_terms(y, weight, offset)
        assert found.intercept == pytest.approx(np.average(y - offset, weights=each), rel=1e-5)
    found = make(regressor(**RENEWED["absolute"]), None).loss_terms(y, None, offset)
    assert abs(np.mean(y - offset < found.intercept) - 0.5) < 0.2


def test_a_start_that_is_given_stays_under_an_offset(toy):
    engine = make(regressor(**SMOOTH["gamma"], base_score=2.0), None)
    assert engine.loss_terms(np.ones(5), None, np.ones(5)).intercept == pytest.approx(np.log(2.0))


def test_offsets_of_evaluation_sets(toy):
    y, offset = targets(toy, SMOOTH["poisson"]), np.linspace(-0.5, 0.5, len(toy))
    engine = make(regressor(**SMOOTH["poisson"], eval_metric="rmse"), None)
    sets = {"eval_set": [(toy.X[:90], y[:90])], "eval_offset": [offset[:90]]}
    model = train(engine, toy.X, y, offset=offset, fit=sets).model
    ((values,),) = (each.values() for each in model.estimator.evals_result_.values())
    found = np.exp(model.scores(toy.X[:90]) + offset[:90])
    assert values[-1] ** 2 == pytest.approx(np.square(found - y[:90]).mean(), rel=1e-5)


# Rows held out, followers and stages


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_a_share_held_out(toy, options, with_offset):
    y, trained = targets(toy, options), np.arange(len(toy)) % 3 > 0
    offset = np.linspace(-0.5, 0.5, len(toy)) if with_offset else None
    found = train(make(regressor(**options), None), toy.X, y, trained=trained, offset=offset)
    for seen, rows in ((found.scores, trained), (found.measured, ~trained)):
        assert len(seen) == 13
        away = 0.0 if offset is None else offset[rows]
        for k, scores in enumerate(seen[1:], start=1):
            expected = found.model.scores(toy.X[rows], k) + away
            np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    if offset is None and not found.terms.loss.renews_leaves:
        start = float(found.model.predictions(np.array([found.terms.intercept]))[0])
        stock = regressor(**{**options, "base_score": start}).fit(toy.X[trained], y[trained])
        assert_equal_to_stock(found.model, stock, toy.X)


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
def test_features_that_stay_on_disk(toy, tmp_path, with_offset):
    y, trained = targets(toy, SMOOTH["tweedie"]), np.arange(len(toy)) % 3 > 0
    frame = pd.DataFrame(np.round(toy.X, 1), columns=["a", "b", "c", "d"])  # bins are exact
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", cache=tmp_path)
    given = {"trained": trained, "weight": toy.weight}
    if with_offset:
        given["offset"] = np.linspace(-0.5, 0.5, len(toy))
    engine = make(regressor(**SMOOTH["tweedie"]), None)
    on_disk, in_memory = (train(engine, X, y, **given) for X in (rows, frame))
    np.testing.assert_allclose(on_disk.scores[-1], in_memory.scores[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_disk.measured[-1], in_memory.measured[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        on_disk.model.scores(rows), in_memory.model.scores(frame), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_followers_predict_what_they_leave_out(toy, options, with_offset):
    y = targets(toy, options)
    offset = np.linspace(-0.5, 0.5, len(toy)) if with_offset else None
    folds = [np.flatnonzero(np.arange(len(toy)) % 3 == k) for k in range(3)]
    engine = make(regressor(**options), None)
    found = train(engine, toy.X, y, folds=folds, offset=offset)
    alone = train(engine, toy.X, y, offset=offset)
    np.testing.assert_array_equal(found.scores[-1], alone.scores[-1])
    for k, fold in enumerate(folds):
        kept = np.ones(len(toy), bool)
        kept[fold] = False
        bins = xgboost.QuantileDMatrix(toy.X[np.delete(np.arange(len(toy)), folds[0])])
        rows, left_out = (
            xgboost.QuantileDMatrix(toy.X[which], y[which], ref=bins) for which in (kept, ~kept)
        )
        for matrix, which in ((rows, kept), (left_out, ~kept)):
            away = 0.0 if offset is None else offset[which]
            matrix.set_base_margin(found.terms.intercept + away + np.zeros(which.sum()))
        params = options | {"objective": options["objective"] or "reg:squarederror"}
        if found.terms.loss.renews_leaves:
            params = {"objective": "reg:squarederror"}

        def objective(scores, _, kept=kept, loss=found.terms.loss):
            return loss.slopes(scores.astype(float), y[kept])

        by_hand = xgboost.train(
            {**params, "max_depth": 3, "learning_rate": 0.3, "nthread": 1}, rows, 12, obj=objective
        )
        np.testing.assert_allclose(
            found.measured[-1][fold], by_hand.predict(left_out, output_margin=True),
            rtol=1e-4, atol=1e-4, err_msg=str(k),
        )  # fmt: skip


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_a_stage_goes_on_from_the_last_scores(toy, options):
    y, trained = targets(toy, options), np.arange(len(toy)) % 3 > 0
    offset = np.linspace(-0.5, 0.5, len(toy))
    found = train(make(regressor(**options), None), toy.X, y, trained=trained, offset=offset)
    before = found.model.scores(toy.X)
    del found.scores[:], found.measured[:]
    stage = found.ended.stage(found.problem, 5, 7, 0.1)
    model = found.model.with_stage(stage)
    assert model.n_rounds == 17 and model.n_base == 12
    np.testing.assert_array_equal(model.scores(toy.X, 12), before)
    np.testing.assert_array_equal(model.first(0).scores(toy.X), before)
    for seen, rows in ((found.scores, trained), (found.measured, ~trained)):
        np.testing.assert_allclose(seen[0], before[rows] + offset[rows], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            seen[-1], model.scores(toy.X[rows]) + offset[rows], rtol=1e-4, atol=1e-5
        )
    loss = found.terms.loss
    after, then = (
        loss.value(s + offset, y)[trained].mean() for s in (model.scores(toy.X), before)
    )
    assert after < then
    assert learner(model.booster)["objective"] == learner(found.model.booster)["objective"]


@pytest.mark.parametrize("from_file", [False, True], ids=["", "from a file"])
@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_a_stage_on_a_fitted_model(toy, other, tmp_path, options, from_file):
    y = targets(toy, options)
    base = regressor(**options).fit(toy.frame, y)
    if from_file:  # XGBoost's reader does not set the constants of the loss
        base.save_model(tmp_path / "base.json")
        base = xgboost.XGBRegressor(n_jobs=1)
        base.load_model(tmp_path / "base.json")
    engine = stage_on(FrozenEstimator(base), toy.frame, None)
    offset = np.linspace(-0.2, 0.2, len(toy))
    found = train(engine, toy.frame, y, offset=offset)
    expected = make(regressor(**options), None).loss_terms(y, None).loss
    assert found.terms.loss == expected
    stock = base.predict(toy.frame, output_margin=True)
    np.testing.assert_allclose(found.scores[0], stock + offset, rtol=1e-5, atol=1e-6)
    assert found.model.n_base == 12 and found.model.n_rounds == 52
    np.testing.assert_array_equal(found.model.first(0).scores(toy.frame), stock)
    np.testing.assert_allclose(
        found.scores[-1], found.model.scores(toy.frame) + offset, rtol=1e-4, atol=1e-5
    )
    assert learner(found.model.booster)["objective"] == learner(base.get_booster())["objective"]


def test_bases_that_do_not_fit(toy):
    y = targets(toy, SMOOTH["squared"])
    with pytest.raises(EngineOptionError, match="the XGBRegressor in FrozenEstimator is not fit"):
        stage_on(FrozenEstimator(regressor()), toy.X, None)
    with pytest.raises(EngineOptionError, match="LGBMClassifier or XGBClassifier, found XGBReg"):
        stage_on(FrozenEstimator(regressor().fit(toy.X, y)), toy.X, np.array([0, 1]))
    classifier = xgboost.XGBClassifier(n_estimators=2).fit(toy.X, toy.y)
    with pytest.raises(EngineOptionError, match="LGBMRegressor or XGBRegressor, found XGBClass"):
        stage_on(FrozenEstimator(classifier), toy.X, None)


# The model that is kept


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_the_model_is_stock_on_disk_and_back(toy, other, tmp_path, options):
    y = targets(toy, options)
    model = train(make(regressor(**options), None), toy.frame, y).model
    path = tmp_path / "model.json"
    path.write_text(model.export(note="some"))
    booster = xgboost.Booster(model_file=path)
    known = booster.get_categories()
    rows = xgboost.DMatrix(other.frame, enable_categorical=True, feature_types=known)
    scores = model.scores(other.frame)
    np.testing.assert_array_equal(booster.predict(rows, output_margin=True), scores)
    np.testing.assert_allclose(booster.predict(rows), model.predictions(scores), rtol=1.2e-7)
    np.testing.assert_array_equal(booster.predict(rows), model.estimator.predict(other.frame))
    assert booster.attr("fairboost_note") == "some"
    if options["objective"] in LOG_LINKS:
        np.testing.assert_allclose(model.predictions(scores), np.exp(scores), rtol=1e-6)
    split_points(model.text(), 4)
    parameters = model.estimator.get_params()
    back = restore(
        make_estimator(regressor=True, **parameters), model.text(), model.intercept, None, 4, 0
    )
    assert type(back.estimator) is xgboost.XGBRegressor and back.intercept == model.intercept
    np.testing.assert_array_equal(back.scores(other.frame), scores)
    assert back.text() == model.text()


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_first_rounds_and_weights_of_trees(toy, other, options):
    y = targets(toy, options)
    for X, new in ((toy.X, other.X), (toy.frame, other.frame)):
        model = train(make(regressor(**options), None), X, y).model
        part = model.first(5)
        assert part.n_rounds == 5
        np.testing.assert_array_equal(part.scores(new), model.scores(new, 5))
        np.testing.assert_array_equal(
            part.predictions(part.scores(new)).astype(np.float32), part.estimator.predict(new)
        )
        halved = model.with_tree_weights(np.full(12, 0.5))
        np.testing.assert_allclose(
            halved.scores(new) - model.intercept, (model.scores(new) - model.intercept) / 2,
            rtol=1e-4, atol=1e-5,
        )  # fmt: skip
        assert learner(part.booster)["objective"] == learner(model.booster)["objective"]


def test_the_estimator_is_left_as_its_own_fit_would_leave_it(toy):
    y = targets(toy, SMOOTH["squared"])
    given = regressor()
    stock = clone(given).fit(toy.X, y)
    ours = train(make(given, None), toy.X, y).model.estimator
    assert set(vars(ours)) == set(vars(stock)) and not given.__sklearn_is_fitted__()
    np.testing.assert_allclose(ours.feature_importances_, stock.feature_importances_, rtol=1e-4)
    np.testing.assert_allclose(ours.score(toy.X, y), stock.score(toy.X, y))


def test_predictions_beyond_single_precision(toy):
    y = targets(toy, SMOOTH["poisson"])
    model = train(make(regressor(**SMOOTH["poisson"]), None), toy.X, y).model
    np.testing.assert_array_equal(model.predictions(np.array([-200.0, 200.0])), [0.0, np.inf])


def test_estimators_by_their_options():
    assert type(make_estimator()) is xgboost.XGBClassifier
    assert type(make_estimator(regressor=True, objective=None)) is xgboost.XGBRegressor
    assert make_estimator(regressor=True, n_estimators=7).n_estimators == 7


# Refused


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"objective": "reg:squaredlogerror"}, "objective='reg:squaredlogerror', expected one"),
        ({"objective": "reg:logistic"}, "knows: reg:squarederror, reg:absoluteerror"),
        ({"objective": "binary:logistic"}, "objective='binary:logistic', expected one whose"),
        ({"objective": "rank:pairwise"}, "choose one of these, or leave objective out"),
        ({"objective": "survival:cox"}, "objective='survival:cox', expected"),
        ({"objective": lambda y, f: (f, f)}, "expected one whose gradients fairboost knows"),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 2.0}, r"in \(1, 2\), found 2"),
        ({"objective": "reg:pseudohubererror", "huber_slope": 0}, r"huber_slope must be one num"),
        ({"objective": "count:poisson", "max_delta_step": -1}, r"in \[0, inf\), found -1"),
        ({"objective": "count:poisson", "base_score": 0.0}, r"one prediction in \(0, inf\)"),
        ({"base_score": [1.0, 2.0]}, r"base_score must be one prediction in \(-inf, inf\)"),
        ({"base_score": np.nan}, "base_score must be one prediction"),
        ({"base_score": 1e60}, r"base_score must be one prediction in .* found 1e\+60"),
        ({"objective": "reg:gamma", "base_score": 1e-60}, r"in \(0, inf\), found 1e-60"),
        ({"objective": "reg:pseudohubererror", "huber_slope": 1e60}, "found 1e"),
        ({"scale_pos_weight": 3.0}, "scale_pos_weight=3.0, expected 1: it is for two labels"),
        ({"num_class": 2}, "num_class=2, expected 0 or 1: a regressor predicts one number"),
        ({"booster": "gblinear"}, "booster='gblinear', expected 'gbtree' or 'dart'"),
        ({"n_estimators": 0}, "n_estimators must be at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_contradict_the_method(options, match):
    with pytest.raises(EngineOptionError, match=match):
        check_estimator(regressor(**options))


@pytest.mark.filterwarnings("ignore:`XGBRFRegressor` is deprecated")
def test_estimators_of_another_kind():
    with pytest.raises(EngineOptionError, match=r"XGBRFRegressor does not boost: .* use XGBRegr"):
        check_estimator(xgboost.XGBRFRegressor())
    with pytest.raises(EngineOptionError, match="LGBMClassifier or XGBClassifier, found XGBRegr"):
        make(regressor(), np.array([0, 1]))
    with pytest.raises(EngineOptionError, match="LGBMRegressor or XGBRegressor, found XGBClass"):
        make(xgboost.XGBClassifier(), None).loss_terms(np.array([0.5, 1.5]), None)
    with pytest.raises(EngineOptionError, match="estimator must be"):
        check_estimator(xgboost.XGBRegressor)


@pytest.mark.parametrize(
    ("loss", "y", "match"),
    [
        ("poisson", [1.0, -2.0, 0.0], r"y has -2, but under a poisson loss .* 0 or more; leave"),
        ("tweedie", [1.0, -2.0, -1.0], r"leave such rows out \(2 of 3\), or choose reg:squared"),
        ("gamma", [1.0, 0.0, 3.0], r"y has 0, but under a gamma loss targets must be above 0; .*"),
        ("poisson", [0.0, 0.0], "y is 0 in all rows that have a weight, but a poisson loss"),
        ("squared", [0.0, 1e60], "y has 1e\\+60, expected numbers up to 3e\\+38"),
        ("squared", [0.0, np.nan], "y has nan, expected numbers up to"),
    ],
)
def test_targets_that_a_loss_is_not_for(loss, y, match):
    with pytest.raises(InvalidInputError, match=match):
        make(regressor(**SMOOTH[loss]), None).loss_terms(np.array(y), None)


def test_targets_that_no_weight_counts():
    engine = make(regressor(**SMOOTH["poisson"]), None)
    weight = np.array([0.0, 1.0], np.float32)
    with pytest.raises(InvalidInputError, match="y is 0 in all rows that have a weight"):
        engine.loss_terms(np.array([3.0, 0.0]), weight)
    assert engine.loss_terms(np.array([3.0, 2.0]), weight).intercept == pytest.approx(np.log(2))


def test_categories_ask_for_an_option_of_the_regressor(toy):
    engine = make(regressor(enable_categorical=False), None)
    with pytest.raises(InvalidInputError, match=r"XGBRegressor\(enable_categorical=True\)"):
        engine.check_arguments(toy.frame, {})
    with pytest.raises(EngineOptionError, match=r"XGBRegressor\(eval_metric=...\)"):
        make(regressor(), None).check_arguments(toy.X, {"eval_metric": "mae"})


# Files that are not sound


@pytest.mark.parametrize(
    ("loss", "change", "match"),
    [
        ("tweedie", ("tweedie_regression_param", "tweedie_variance_power", "7"), r"in \(1, 2\)"),
        ("tweedie", ("tweedie_regression_param", "tweedie_variance_power", 1.5), r"in \(1, 2\)"),
        ("tweedie", ("tweedie_regression_param",), "tweedie_variance_power must be one number"),
        ("quantile", ("quantile_loss_param", "quantile_alpha", "[1E-1,5E-1]"), "quantile_alpha"),
        ("poisson", ("poisson_regression_param", "max_delta_step", "-1"), "max_delta_step must"),
        ("squared", ("name", "reg:squaredlogerror"), "the objective is not one known here"),
        ("squared", ("name", ["reg:gamma"]), "the objective is not one known here"),
        ("squared", ("name", "reg:absoluteerror"), "its objective 'reg:absoluteerror' is another"),
        ("squared", ("name", "binary:logistic"), "base_score is"),
    ],
    ids=str,
)
def test_objectives_that_were_edited(toy, loss, change, match):
    y = targets(toy, ALL[loss])
    fitted = regressor(**ALL[loss]).fit(toy.X, y)
    document = json.loads(fitted.get_booster().save_raw("json"))
    inside = document["learner"]["objective"]
    if len(change) == 1:
        del inside[change[0]]
    elif len(change) == 2:
        inside[change[0]] = change[1]
    else:
        inside[change[0]][change[1]] = change[2]
    with pytest.raises(ModelFileError, match=match):
        restore(regressor(**ALL[loss]), json.dumps(document), 0.0, None, 4, 0)


@pytest.mark.parametrize("start", ["[0E0]", "[-1E0]", "[1E60]", "nan", "[1E0,2E0]", 2.0], ids=str)
def test_starts_that_were_edited(toy, start):
    y = targets(toy, SMOOTH["poisson"])
    fitted = regressor(**SMOOTH["poisson"]).fit(toy.X, y)
    document = json.loads(fitted.get_booster().save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = start
    with pytest.raises(ModelFileError, match="base_score is"):
        restore(regressor(**SMOOTH["poisson"]), json.dumps(document), 0.0, None, 4, 0)


# Groups


def test_boosters_of_groups_are_those_of_a_classifier(toy):
    codes = (toy.group == "b").astype(np.int64)
    rows = np.arange(len(toy))
    learn, others = rows[rows % 3 > 0], rows[rows % 3 == 0]
    options = {"n_jobs": 1, "enable_categorical": True}
    found = []
    for engine in (
        make(xgboost.XGBRegressor(objective="reg:gamma", **options), None),
        make(xgboost.XGBClassifier(**options), np.array([0, 1])),
    ):
        data = CodedRows(toy.frame, toy.y, codes, 2, engine.group_model({}))
        found.append(data.learner.few_trees(data, learn, others))
    np.testing.assert_array_equal(*found)
    assert roc_auc_score(codes[others], found[0][:, 1]) > 0.8
