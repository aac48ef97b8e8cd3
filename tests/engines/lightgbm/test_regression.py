"""Regressors: with the gradients of a loss, the engine trains what stock LightGBM trains."""

from __future__ import annotations

import math
import pickle
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.frozen import FrozenEstimator

from fairboost.engines.lightgbm import engine, regression
from fairboost.engines.lightgbm.options import read_metrics
from fairboost.engines.port import EngineData, Follower, Problem
from fairboost.exceptions import EngineOptionError, InvalidInputError, ModelFileError
from fairboost.kernel.losses import Loss
from tests.covering import covering

# LightGBM's own fit warns of it since 4.7.
pytestmark = pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")

SMOOTH = {
    "squared": {},
    "huber": {"objective": "huber", "alpha": 1.5},
    "poisson": {"objective": "poisson"},
    "poisson of another step": {"objective": "poisson", "poisson_max_delta_step": 0.2},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie", "tweedie_variance_power": 1.3},
}
RENEWED = {
    "absolute": {"objective": "mae"},
    "quantile": {"objective": "quantile", "alpha": 0.8},
}
LOG_LINKS = {name: SMOOTH[name] for name in ("poisson", "gamma", "tweedie")}
every_loss = pytest.mark.parametrize("options", SMOOTH.values(), ids=SMOOTH)
log_links = pytest.mark.parametrize("options", LOG_LINKS.values(), ids=LOG_LINKS)
weighted = pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])


def make(**options):
    """A small, quiet regressor on one thread."""
    defaults = {
        "n_estimators": 8, "num_leaves": 7, "learning_rate": 0.3, "n_jobs": 1, "verbose": -1,
        "random_state": 0,
    }  # fmt: skip
    return LGBMRegressor(**{**defaults, **options})


@pytest.fixture(scope="module")
def rows(toy):
    """Positive numbers that two features tell something about, as single precision has them."""
    rng = np.random.default_rng(5)
    mean = np.exp(0.4 * toy.X[:, 0] - 0.3 * toy.X[:, 1] + 0.5)
    y = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-3)
    return y.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def weight(toy):
    """Powers of two, so that products are exact in whatever order."""
    return 2.0 ** np.random.default_rng(6).integers(-1, 3, len(toy)).astype(np.float32)


class Trained:
    """What comes of a training on the gradients of the loss, and what was seen on the way.

    Parameters
    ----------
    estimator : LGBMRegressor
        With the options.
    X, y : table and (n,) float64
        The rows.
    weight : (n,) float32, optional
        Their weights.
    n_folds : int
        Followers, each of which leaves out one fold.
    base : LGBMRegressor, optional
        A fitted model to go on from.
    **data
        Further fields of ``EngineData``.
    """

    def __init__(self, estimator, X, y, weight=None, n_folds=0, base=None, **data):
        self.played, self.held_out, self.finished, self.n_trees = [], [], [], []
        made = engine.stage_on(FrozenEstimator(base), X, None) if base else None
        self.engine = made or engine.make(estimator, None)
        trained = data.get("trained")
        kept = slice(None) if trained is None else trained
        offset = data.get("offset")
        self.terms = self.engine.loss_terms(
            y[kept],
            None if weight is None else weight[kept],
            None if offset is None else offset[kept],
        )
        self.y, self.weight = y, weight
        data.setdefault("fit_options", {})
        n = len(y)
        self.folds = [np.arange(k, n, n_folds) for k in range(n_folds)]
        held_out = trained is not None or "held_out" in data
        self.model, self.continuation = self.engine.train(
            EngineData(X, y, y, weight, **data),
            self.problem(kept, held_out),
            self.terms.intercept,
        )

    def problem(self, kept=slice(None), held_out=False):
        """The loss by itself."""

        def play(scores, others):
            self.played.append(scores.copy())
            self.held_out.append(others)
            return self.gradients(scores, kept)

        def finish(scores, others):
            self.finished.append((scores.copy(), others))

        def follower(fold):
            others = np.delete(np.arange(len(self.y)), fold)
            return Follower(fold, lambda scores: self.gradients(scores, others))

        followers = [follower(fold) for fold in self.folds]
        return Problem(play, finish, self.n_trees.append, held_out, followers)

    def gradients(self, scores, some):
        """Gradient and Hessian of some of the rows."""
        slopes = self.terms.loss.slopes(scores, self.y[some])
        w = 1.0 if self.weight is None else self.weight[some]
        return tuple((slope * w).astype(np.float32) for slope in slopes)


def structure(booster):
    """What trees split on."""
    table = booster.trees_to_dataframe()
    return table[["tree_index", "node_index", "split_feature", "threshold", "decision_type"]]


def assert_equal_models(trained, stock, X):
    """The same trees, and the same predictions by the estimator and by its text."""
    ours = trained.model
    pd.testing.assert_frame_equal(
        structure(ours.booster), structure(stock.booster_), rtol=1e-12, atol=1e-12
    )
    expected = stock.predict(X)
    assert expected.std() > 0.1
    np.testing.assert_allclose(ours.estimator.predict(X), expected, rtol=1e-12)
    read = lightgbm.Booster(model_str=ours.text())
    np.testing.assert_allclose(read.predict(X), expected, rtol=1e-12)


# The loss by itself: stock LightGBM

OPTIONS = {
    "plain": {},
    "no average": {"boost_from_average": False},
    "bagging": {"subsample": 0.6, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "monotone": {"monotone_constraints": [1, -1, 0, 0]},
    "regularised": {"reg_alpha": 0.5, "reg_lambda": 3.0, "max_delta_step": 0.3},
    "columns": {"colsample_bytree": 0.5},
    "linear trees": {"linear_tree": True},
    "smoothed": {"path_smooth": 5.0, "min_split_gain": 0.5},
    "quantised": {"use_quantized_grad": True},
    "dart": {"boosting_type": "dart", "drop_rate": 0.4, "boost_from_average": False},
}


@pytest.mark.parametrize(
    ("options", "further", "weighted"), covering(SMOOTH, OPTIONS, [False, True])
)
def test_training_equals_stock(toy, rows, weight, options, further, weighted):
    options, further = SMOOTH[options], OPTIONS[further]
    w = weight if weighted else None
    estimator = make(**options, **further)
    stock = make(**options, **further).fit(toy.X, rows, sample_weight=w)
    trained = Trained(estimator, toy.X, rows, w)
    assert_equal_models(trained, stock, toy.X)
    assert trained.n_trees == list(range(1, 9))
    assert not hasattr(estimator, "fitted_")


@weighted
@every_loss
def test_missing_values_and_categories(toy, rows, weight, options, weighted):
    w = weight if weighted else None
    stock = make(**options).fit(toy.frame, rows, sample_weight=w)
    trained = Trained(make(**options), toy.frame, rows, w)
    assert "==" in set(trained.model.booster.trees_to_dataframe()["decision_type"].dropna())
    assert_equal_models(trained, stock, toy.frame)


@every_loss
def test_any_weights_equal_stocks_up_to_single_precision(toy, rows, options):
    """LightGBM rounds the gradient of squared errors before it multiplies by the weight."""
    w = toy.weight.astype(np.float32)
    stock = make(**options).fit(toy.X, rows, sample_weight=w)
    trained = Trained(make(**options), toy.X, rows, w)
    np.testing.assert_allclose(
        trained.model.estimator.predict(toy.X), stock.predict(toy.X), rtol=1e-5
    )


def test_targets_in_double_precision_are_those_of_single(toy, rows):
    """The start of boosting is, since LightGBM keeps targets so."""
    y = rows + 1e-9
    start = engine.make(make(), None).loss_terms(y, None).intercept
    assert start == np.mean(y.astype(np.float32).astype(np.float64)) != np.mean(y)


@pytest.mark.parametrize("options", [*SMOOTH.values(), *RENEWED.values()])
def test_what_fit_leaves_behind_is_stocks(toy, rows, options):
    stock = make(**options).fit(toy.frame, rows)
    ours = Trained(make(**options), toy.frame, rows).model.estimator
    assert vars(ours).keys() == vars(stock).keys()
    for name in ("objective_", "n_features_in_", "feature_name_", "n_estimators_", "n_iter_"):
        assert getattr(ours, name) == getattr(stock, name), name
    assert ours.get_params() == stock.get_params()
    told = re.compile(r"(?m)^objective=.*$|^\[objective: .*$|^\[alpha: .*$")
    lines = [told.findall(e.booster_.model_to_string()) for e in (ours, stock)]
    assert lines[0] == lines[1] and len(lines[0]) == 3
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(toy.frame), ours.predict(toy.frame))


@weighted
@pytest.mark.parametrize("options", RENEWED.values(), ids=RENEWED)
def test_losses_without_curvature_end_near_stocks(make_toy, options, weighted):
    """Leaves of stock are medians or quantiles; ours are steps of the loss's own parabola."""
    rng = np.random.default_rng(0)
    train, test = make_toy(4_000, 0), make_toy(4_000, 1)
    y, y_new = (
        2 * toy.X[:, 0] - np.abs(toy.X[:, 1]) + rng.standard_t(4, len(toy))
        for toy in (train, test)
    )
    w = train.weight.astype(np.float32) if weighted else None
    # With 100 trees the absolute loss is 2.5% above stock's, since the parabola's steps are short.
    options = {**options, "n_estimators": 200, "learning_rate": 0.1}
    stock = make(**options).fit(train.X, y, sample_weight=w)
    trained = Trained(make(**options), train.X, y, w)
    loss = trained.terms.loss
    start, ours, theirs = (
        np.average(loss.value(scores, y_new), weights=test.weight if weighted else None)
        for scores in (
            np.full(len(test), trained.terms.intercept),
            trained.model.estimator.predict(test.X),
            stock.predict(test.X),
        )
    )
    assert ours < 1.02 * theirs < 0.8 * start
    np.testing.assert_array_equal(
        lightgbm.Booster(model_str=trained.model.text()).predict(test.X),
        trained.model.estimator.predict(test.X),
    )


# Where boosting starts


def stock_start(options, y, weight):
    """The score of a stock model that cannot split."""
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    stock = make(**options, n_estimators=1, min_split_gain=1e12, min_child_samples=1)
    return stock.fit(X, y, sample_weight=weight).predict(X[:1], raw_score=True)[0]


@weighted
@pytest.mark.parametrize("n", [2, 3, 10, 11, 100, 101])
@pytest.mark.parametrize(
    "options",
    [
        *SMOOTH.values(),
        {"objective": "l1"},
        *({"objective": "quantile", "alpha": a} for a in (0.001, 0.1, 0.5, 0.6, 0.9, 0.999)),
    ],
    ids=str,
)
def test_the_start_is_stocks(options, n, weighted):
    rng = np.random.default_rng(n)
    y = rng.gamma(1.0, size=n)
    w = rng.gamma(1.0, size=n).astype(np.float32) if weighted else None
    found = engine.make(make(**options), None).loss_terms(y, w).intercept
    # LightGBM takes percentiles in single precision.
    assert found == pytest.approx(stock_start(options, y, w), rel=3e-7, abs=1e-7)


def test_the_start_beside_offsets():
    y, offset = np.array([1.0, 2.0, 6.0]), np.log([1.0, 2.0, 3.0])
    w = np.array([1.0, 1.0, 2.0], np.float32)

    def start(weight, **options):
        return engine.make(make(**options), None).loss_terms(y, weight, offset).intercept

    for options in LOG_LINKS.values():
        assert start(None, **options) == pytest.approx(math.log(9 / 6))
        assert start(w, **options) == pytest.approx(math.log(15 / 9))
    assert start(None) == pytest.approx(np.mean(y - offset))
    assert start(w) == pytest.approx(np.average(y - offset, weights=w))
    assert start(None, objective="l1") == pytest.approx(np.median(y - offset))
    assert start(None, objective="poisson", boost_from_average=False) == 0.0


# Objectives and their constants


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Loss("squared")),
        *(({"objective": name}, Loss("squared")) for name in (
            "regression", "regression_l2", "l2", "mean_squared_error", "mse", "MSE", "rmse",
            "root_mean_squared_error", "l2_root",
        )),
        *(({"objective": name}, Loss("absolute")) for name in (
            "regression_l1", "l1", "mean_absolute_error", "mae",
        )),
        ({"objective": "huber"}, Loss("huber", 0.9)),
        ({"objective": "huber", "alpha": "2.5"}, Loss("huber", 2.5)),
        ({"objective": "quantile", "alpha": 0.3}, Loss("quantile", 0.3)),
        ({"objective": "poisson"}, Loss("poisson", step=0.7)),
        ({"objective": "poisson", "poisson_max_delta_step": 0.1}, Loss("poisson", step=0.1)),
        ({"objective": "gamma"}, Loss("gamma")),
        ({"objective": "tweedie"}, Loss("tweedie", 1.5)),
        ({"objective": "tweedie", "tweedie_variance_power": 1.9}, Loss("tweedie", 1.9)),
    ],
)  # fmt: skip
def test_losses_by_their_names(options, expected):
    estimator = make(**options)
    engine.check_estimator(estimator)
    assert engine.make(estimator, None).loss_terms(np.ones(3), None).loss == expected


@pytest.mark.parametrize(
    "found", ["fair", "mape", "cross_entropy", "lambdarank", "binary", "multiclass", "none", print]
)
def test_other_objectives_are_refused(found):
    with pytest.raises(EngineOptionError, match=r"sets objective=.*expected one of 'regression',"):
        engine.check_estimator(make(objective=found))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "huber", "alpha": 0}, "sets alpha=0, expected a number above 0 with"),
        ({"objective": "quantile", "alpha": 1.0}, "expected a number above 0 and below 1 with"),
        ({"objective": "quantile", "alpha": "much"}, "sets alpha='much', expected a number"),
        ({"objective": "tweedie", "tweedie_variance_power": 1.0}, "above 1 and below 2"),
        ({"objective": "poisson", "poisson_max_delta_step": -1.0}, "a number above 0 with"),
        ({"reg_sqrt": True}, r"reg_sqrt, .* train on np.sqrt\(y\)"),
        ({"reg_sqrt": "true"}, "sets reg_sqrt"),
        ({"class_weight": "balanced"}, "class_weight='balanced', but numbers have no classes"),
        ({"num_class": 3}, "num_class=3, expected 1: one number is predicted"),
        ({"app": "poisson"}, "sets app='poisson', .* leave app out"),
        ({"boosting_type": "rf"}, "does not boost"),
        ({"num_machines": 2}, "num_machines=2, expected 1"),
        ({"categorical_feature": [0]}, "pass it to fit instead"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(EngineOptionError, match=message):
        engine.check_estimator(make(**options))


def test_the_constant_of_another_objective_does_not_matter():
    engine.check_estimator(make(objective="poisson", alpha=7.0, tweedie_variance_power=1.0))


def test_what_predicts_labels_is_refused_for_numbers_and_the_other_way_round(toy):
    with pytest.raises(EngineOptionError, match="must be an LGBMRegressor or XGBRegressor"):
        engine.make(LGBMClassifier(), None)
    with pytest.raises(EngineOptionError, match="must be an LGBMClassifier or XGBClassifier"):
        engine.make(make(), np.array([0, 1]))
    with pytest.raises(EngineOptionError, match="must be an LGBMRegressor or XGBRegressor"):
        engine.check_estimator(LGBMRegressor)
    with pytest.raises(EngineOptionError, match="use LGBMRegressor on one machine"):
        engine.check_estimator(lightgbm.DaskLGBMRegressor())


def test_estimators_are_made_by_what_they_predict():
    assert type(engine.make_estimator(n_estimators=3)) is LGBMClassifier
    made = engine.make_estimator(regressor=True, n_estimators=3)
    assert type(made) is LGBMRegressor and made.n_estimators == 3


@pytest.mark.parametrize(
    ("objective", "y", "message"),
    [
        ("poisson", [1.0, -2.0], "y has -2, expected numbers of at least 0 with objective='poi"),
        ("tweedie", [1.0, -2.0], "of at least 0 .* use objective='regression'"),
        ("gamma", [1.0, 0.0], "y has 0, expected numbers above 0 .* use objective='tweedie'"),
        ("gamma", [1.0, 1e-60], "y has 0, expected numbers above 0"),
        ("gamma", [0.0, -1.0], "use objective='regression'"),
        ("poisson", [0.0, 0.0], "y is 0 in every row that has a weight"),
        ("tweedie", [0.0, 0.0], "y is 0 in every row"),
        ("regression", [0.0, np.nan], "y has a number that is missing"),
        ("regression", [0.0, 1e40], "scale y down"),
    ],
)
def test_targets_that_an_objective_is_not_for(objective, y, message):
    with pytest.raises(InvalidInputError, match=message):
        engine.make(make(objective=objective), None).loss_terms(np.array(y), None)


def test_all_weight_on_targets_of_zero():
    y, weight = np.array([0.0, 1.0]), np.array([1.0, 0.0], np.float32)
    with pytest.raises(InvalidInputError, match="y is 0 in every row that has a weight"):
        engine.make(make(objective="poisson"), None).loss_terms(y, weight)
    assert engine.make(make(), None).loss_terms(y, weight).intercept == 0.0


# Metrics

METRICS = [
    "l1", "l2", "rmse", "quantile", "huber", "fair", "mape", "poisson", "gamma", "gamma_deviance",
    "tweedie", "r2", "auc",
]  # fmt: skip


def assert_same_history(ours, stock):
    assert list(ours) == list(stock)
    for name, history in stock.items():
        assert set(ours[name]) == set(history)
        for metric, values in history.items():
            # LightGBM's gamma has logarithms in single precision, which cancel.
            np.testing.assert_allclose(ours[name][metric], values, rtol=1e-8, err_msg=metric)


def mean_ratio(y, prediction):
    """A metric of the user's."""
    return "ratio", float(np.mean(prediction / y)), False


@weighted
@pytest.mark.parametrize(
    "asked",
    [None, "mae", METRICS, ["rmse", mean_ratio], mean_ratio],
    ids=["none", "one", "all", "one and a function", "a function"],
)
@pytest.mark.parametrize(
    "options", [*SMOOTH.values(), {"objective": "rmse"}], ids=[*SMOOTH, "rmse"]
)
def test_early_stopping_equals_stocks(toy, rows, weight, options, asked, weighted):
    fit_options = {
        "eval_set": [(toy.X[:200], rows[:200])], "eval_metric": asked, "eval_names": ["others"],
    }  # fmt: skip
    fit_options |= {"eval_sample_weight": [weight[:200]]} if weighted else {}
    w = weight[200:] if weighted else None
    X, y = toy.X[200:], rows[200:]
    estimator = make(**options, n_estimators=40)

    def stop():
        return {"callbacks": [lightgbm.early_stopping(3, verbose=False)]}

    stock = make(**options, n_estimators=40).fit(X, y, sample_weight=w, **fit_options, **stop())
    trained = Trained(estimator, X, y, w, fit_options={**fit_options, **stop()})
    ours = trained.model.estimator
    assert 1 <= stock.best_iteration_ < 40
    assert ours.best_iteration_ == stock.best_iteration_
    assert_same_history(ours.evals_result_, stock.evals_result_)
    np.testing.assert_allclose(ours.predict(toy.X), stock.predict(toy.X), rtol=1e-12)


@every_loss
def test_metrics_of_the_training_rows(toy, rows, options):
    sets = {"eval_set": [(toy.X, rows), (toy.X[:50], rows[:50].tolist())]}
    stock = make(**options).fit(toy.X, rows, **sets)
    trained = Trained(make(**options), toy.X, rows, fit_options=sets)
    assert_same_history(trained.model.estimator.evals_result_, stock.evals_result_)


@pytest.mark.parametrize("options", [{}, {"objective": "poisson"}], ids=str)
def test_metrics_that_are_not_of_numbers(options):
    made = make(**options)
    metrics = engine.make(made, None).kind.metrics
    with pytest.raises(EngineOptionError, match=r"'ndcg' .* l1, .* f\(y_true, prediction\["):
        read_metrics(made.get_params(), "ndcg", True, metrics=metrics)
    assert read_metrics(made.get_params(), "ndcg", False, metrics=metrics) == ([], [])


@pytest.mark.parametrize("y", [["a", "b"], [[1.0, 2.0], [3.0, 4.0]], [1.0, np.nan]])
def test_targets_of_an_evaluation_set_are_numbers(toy, rows, y):
    with pytest.raises(InvalidInputError, match="y of eval_set"):
        Trained(make(), toy.X, rows, fit_options={"eval_set": [(toy.X[:2], y)]})


# Offsets


@pytest.fixture(scope="module")
def offset(toy):
    return np.log(np.random.default_rng(7).uniform(0.2, 3.0, len(toy)))


@every_loss
def test_training_sees_the_offset_and_the_model_does_not(toy, rows, offset, options):
    trained = Trained(make(**options), toy.X, rows, offset=offset)
    model = trained.model
    np.testing.assert_allclose(trained.played[0], trained.terms.intercept + offset, rtol=1e-12)
    for k, scores in enumerate(trained.played[1:], 1):
        np.testing.assert_allclose(scores, model.scores(toy.X, k) + offset, atol=1e-12)
    np.testing.assert_allclose(trained.finished[0][0], model.scores(toy.X) + offset, atol=1e-12)
    if trained.terms.loss.log_link:
        seen = trained.terms.loss.prediction(trained.finished[0][0])
        alone = model.estimator.predict(toy.X)
        np.testing.assert_allclose(alone * np.exp(offset), seen, rtol=1e-12)


@log_links
def test_an_offset_is_stocks_init_score(toy, rows, offset, options):
    trained = Trained(make(**options), toy.X, rows, offset=offset)
    start = trained.terms.intercept
    stock = make(**options).fit(toy.X, rows, init_score=start + offset)
    np.testing.assert_allclose(
        trained.model.estimator.predict(toy.X), stock.predict(toy.X) * np.exp(start), rtol=1e-12
    )


def test_exposure_is_a_weight_beside_rates(toy, rows, offset):
    """Counts with an exposure, and counts per exposure weighted by it, have one Poisson loss."""
    exposure = np.exp(offset)
    trained = Trained(make(objective="poisson"), toy.X, rows, offset=offset)
    rates = make(objective="poisson").fit(toy.X, rows / exposure, sample_weight=exposure)
    np.testing.assert_allclose(
        trained.model.estimator.predict(toy.X), rates.predict(toy.X), rtol=1e-5
    )


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_offsets_of_evaluation_sets(toy, rows, offset):
    sets = {"eval_set": [(toy.X[:90], rows[:90])], "eval_offset": [offset[:90]]}
    estimator = make(objective="poisson", metric="l2")
    model = Trained(estimator, toy.X, rows, offset=offset, fit_options=sets).model
    ((values,),) = (each.values() for each in model.estimator.evals_result_.values())
    found = np.exp(model.scores(toy.X[:90]) + offset[:90])
    assert values[-1] == pytest.approx(np.square(found - rows[:90]).mean())


# Rows held out, and followers


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("options", [{}, {"objective": "poisson"}], ids=str)
def test_a_share_and_a_set_held_out(toy, make_toy, rows, offset, options, with_offset):
    other = make_toy(100, 3)
    kept = np.arange(len(toy)) % 3 > 0
    start = offset if with_offset else np.zeros(len(toy))
    further = np.linspace(-1.0, 1.0, 100) * with_offset
    data = {"offset": offset, "held_out_offset": further} if with_offset else {}
    trained = Trained(
        make(**options), toy.X, rows,
        trained=kept, held_out=(other.X, np.ones(100)), **data,
    )  # fmt: skip
    for k, (ours, others) in enumerate(zip(trained.played, trained.held_out, strict=True)):
        at = [trained.terms.intercept] * 3
        if k:
            at = [trained.model.scores(X, k) for X in (toy.X[kept], toy.X[~kept], other.X)]
        np.testing.assert_allclose(ours, at[0] + start[kept], atol=1e-12)
        np.testing.assert_allclose(others[: np.sum(~kept)], at[1] + start[~kept], atol=1e-12)
        np.testing.assert_allclose(others[np.sum(~kept) :], at[2] + further, atol=1e-12)
    assert len(trained.played) == 8
    whole = Trained(make(**options), toy.X, rows)
    assert np.abs(whole.model.scores(toy.X) - trained.model.scores(toy.X)).max() > 0.01


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("options", [{}, {"objective": "poisson"}], ids=str)
def test_followers_score_what_they_leave_out(toy, rows, offset, options, with_offset):
    data = {"offset": offset} if with_offset else {}
    options = {**options, "max_bin": 63}  # so that followers have the bins of the others
    trained = Trained(make(**options), toy.X, rows, n_folds=3, **data)
    alone = Trained(make(**options), toy.X, rows, **data)
    assert trained.model.text() == alone.model.text()
    start = trained.terms.intercept + (offset if with_offset else 0.0)
    np.testing.assert_allclose(trained.held_out[0], start * np.ones(len(toy)), rtol=1e-12)
    whole = lightgbm.Dataset(
        toy.X, rows, init_score=start * np.ones(len(toy)), params=make(**options).get_params()
    )
    for fold in trained.folds:
        left = np.delete(np.arange(len(toy)), fold)
        params = {**make(**options).get_params(), "objective": options.get("objective", "l2")}
        rounds = params.pop("n_estimators")
        booster = lightgbm.train(params, whole.subset(left.tolist()), rounds)
        expected = booster.predict(toy.X[fold], raw_score=True)
        expected += (start * np.ones(len(toy)))[fold]
        np.testing.assert_allclose(trained.finished[0][1][fold], expected, atol=1e-9)


# The model


@pytest.mark.parametrize("options", [*SMOOTH.values(), *RENEWED.values()], ids=[*SMOOTH, *RENEWED])
def test_a_model_saved_and_restored(toy, rows, options):
    model = Trained(make(**options), toy.frame, rows).model
    text = model.text()
    again = engine.restore(make(**options), text, model.intercept, None, 4, model.n_base)
    assert type(again.estimator) is LGBMRegressor
    assert again.text() == text and again.n_rounds == 8
    assert again.estimator.objective_ == model.estimator.objective_
    np.testing.assert_array_equal(again.scores(toy.frame), model.scores(toy.frame))
    np.testing.assert_array_equal(
        again.estimator.predict(toy.frame), model.estimator.predict(toy.frame)
    )
    points = engine.split_points(text, 4)
    assert points and set(points) <= set(range(4))


def test_a_text_of_another_objective_is_not_restored(toy, rows):
    model = Trained(make(objective="poisson"), toy.X, rows).model
    with pytest.raises(ModelFileError, match="objective is not gamma"):
        engine.restore(make(objective="gamma"), model.text(), model.intercept, None, 4, 0)
    with pytest.raises(ModelFileError, match="objective is not binary sigmoid:1"):
        engine.restore(LGBMClassifier(), model.text(), model.intercept, np.array([0, 1]), 4, 0)
    with pytest.raises(EngineOptionError, match="must be an LGBMRegressor"):
        engine.restore(LGBMClassifier(), model.text(), model.intercept, None, 4, 0)
    with pytest.raises(
        ModelFileError, match="objective is not binary sigmoid:1 or multiclass or regression or"
    ):
        engine.split_points(model.text().replace("objective=poisson", "objective=mape"), 4)


@pytest.mark.parametrize("options", [*SMOOTH.values(), *RENEWED.values()], ids=[*SMOOTH, *RENEWED])
def test_predictions_of_scores_are_lightgbms_to_the_last_digit(toy, rows, options):
    model = Trained(make(**options), toy.X, rows).model
    X = np.random.default_rng(1).normal(size=(5_000, 4)) * 3
    np.testing.assert_array_equal(model.predictions(model.scores(X)), model.estimator.predict(X))


def test_predictions_of_scores_beyond_all_numbers():
    loss = Loss("poisson")
    found = regression.predictions(
        loss, np.array([-np.inf, -1e4, 0.0, 709.5, 1e4, np.inf, np.nan])
    )
    assert found.tolist()[:3] == [0.0, 0.0, 1.0]
    assert found[3] == pytest.approx(math.exp(709.5), rel=1e-12)
    assert found.tolist()[4:6] == [math.inf, math.inf] and math.isnan(found[6])


@log_links
def test_the_first_trees(toy, rows, options):
    model = Trained(make(**options), toy.X, rows).model
    short = model.first(3)
    assert short.n_rounds == 3
    stock = make(**options, n_estimators=3).fit(toy.X, rows)
    np.testing.assert_allclose(short.estimator.predict(toy.X), stock.predict(toy.X), rtol=1e-12)
    np.testing.assert_array_equal(short.scores(toy.X), model.scores(toy.X, 3))
    assert model.first(99) is model


@log_links
def test_weights_of_trees(toy, rows, options):
    model = Trained(make(**options), toy.X, rows).model
    weights = np.linspace(1.0, 0.3, 8)
    weights[0] = 0.5
    scores = [model.scores(toy.X, k) for k in range(1, 9)]
    parts = np.diff([np.full(len(toy), model.intercept), *scores], axis=0)
    expected = model.intercept + weights @ parts
    found = model.with_tree_weights(weights)
    np.testing.assert_allclose(found.scores(toy.X), expected, atol=1e-12)
    np.testing.assert_allclose(
        lightgbm.Booster(model_str=found.text()).predict(toy.X), np.exp(expected), rtol=1e-12
    )


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@log_links
def test_a_stage_on_top(toy, rows, offset, options, with_offset):
    data = {"offset": offset} if with_offset else {}
    trained = Trained(make(**options), toy.X, rows, **data)
    start = len(trained.played)
    stage = trained.continuation.stage(trained.problem(), rounds=4, leaves=5, learning_rate=0.1)
    staged = trained.model.with_stage(stage)
    assert (staged.n_rounds, staged.n_base) == (12, 8)
    assert len(trained.played) == start + 4
    seen = offset if with_offset else 0.0
    np.testing.assert_allclose(
        trained.played[start], trained.model.scores(toy.X) + seen, atol=1e-12
    )
    np.testing.assert_allclose(trained.finished[-1][0], staged.scores(toy.X) + seen, atol=1e-12)
    np.testing.assert_array_equal(staged.first(0).scores(toy.X), trained.model.scores(toy.X))
    np.testing.assert_array_equal(
        lightgbm.Booster(model_str=staged.text()).predict(toy.X), staged.estimator.predict(toy.X)
    )


# A fitted model to go on from


@pytest.mark.parametrize("with_offset", [False, True], ids=["", "offset"])
@every_loss
def test_a_stage_on_a_frozen_model(toy, rows, offset, options, with_offset):
    base = make(**options).fit(toy.X, rows)
    data = {"offset": offset} if with_offset else {}
    trained = Trained(None, toy.X, rows, base=base, **data)
    model = trained.model
    assert (model.n_base, model.intercept) == (8, 0.0)
    seen = offset if with_offset else 0.0
    np.testing.assert_array_equal(trained.played[0], base.predict(toy.X, raw_score=True) + seen)
    np.testing.assert_allclose(trained.finished[0][0], model.scores(toy.X) + seen, atol=1e-12)
    np.testing.assert_array_equal(model.first(0).estimator.predict(toy.X), base.predict(toy.X))
    value = trained.terms.loss.value
    before, after = (
        value(scores, rows).mean() for scores in (trained.played[0], trained.finished[0][0])
    )
    assert after < before


def test_frozen_models_that_are_refused(toy, rows):
    with pytest.raises(EngineOptionError, match="LGBMRegressor in FrozenEstimator is not fitted"):
        engine.stage_on(FrozenEstimator(make()), toy.X, None)
    classifier = LGBMClassifier(verbose=-1).fit(toy.X, toy.y)
    with pytest.raises(EngineOptionError, match="must be an LGBMRegressor"):
        engine.stage_on(FrozenEstimator(classifier), toy.X, None)
    with pytest.raises(EngineOptionError, match="must be an LGBMClassifier"):
        engine.stage_on(FrozenEstimator(make().fit(toy.X, rows)), toy.X, np.array([0, 1]))
