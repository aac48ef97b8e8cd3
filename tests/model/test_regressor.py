"""``FairGBMRegressor`` from the outside: every way of asking, on every engine."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from lightgbm import LGBMRegressor, reset_parameter
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from xgboost import XGBRegressor

from fairboost import FairGBMRegressor, bound, load, parity
from fairboost.exceptions import EngineOptionError, FairnessWarning
from tests.covering import covering

OBJECTIVES = {
    "lightgbm": {"squared": "regression", "absolute": "mae", "poisson": "poisson",
                 "gamma": "gamma", "tweedie": "tweedie", "huber": "huber",
                 "quantile": "quantile"},
    "xgboost": {"squared": "reg:squarederror", "absolute": "reg:absoluteerror",
                "poisson": "count:poisson", "gamma": "reg:gamma", "tweedie": "reg:tweedie",
                "huber": "reg:pseudohubererror", "quantile": "reg:quantileerror"},
}  # fmt: skip
SMOOTH = ["squared", "huber", "poisson", "gamma", "tweedie"]
CONSTRAINTS = {
    "distributions": {"constraint": "equal_distributions", "tolerance": 0.05},
    "means": {"constraint": "equal_means", "tolerance": 0.1},
    "relative": {"constraint": parity("prediction", 0.05, relative=True)},
    "calibrated": {"constraint": "calibrated", "tolerance": 0.02},
    "errors": {"constraint": "equal_errors", "tolerance": 0.1},
    "group loss": {"constraint": "bounded_group_loss", "tolerance": 1.2},
    "bound": {"constraint": bound("prediction", 1.5)},
    "bound of a group": {"constraint": bound("prediction", 1.5, group="a")},
    "several": {"constraint": ["equal_distributions", parity("loss", 0.1)]},
}
every_engine = pytest.mark.parametrize("name", OBJECTIVES)
every_constraint = pytest.mark.parametrize("asked", CONSTRAINTS.values(), ids=CONSTRAINTS)


def engine(name, loss="squared", **options):
    """A small, quiet engine on one thread."""
    options = {"objective": OBJECTIVES[name][loss], "n_estimators": 20, "n_jobs": 1,
               "random_state": 0, **options}  # fmt: skip
    if loss == "quantile":
        options |= {{"lightgbm": "alpha", "xgboost": "quantile_alpha"}[name]: 0.7}
    if name == "lightgbm":
        return LGBMRegressor(**{"num_leaves": 7, "verbose": -1, **options})
    return XGBRegressor(**{"max_depth": 3, "learning_rate": 0.1, **options})


@pytest.fixture(scope="module")
def claims(make_toy):
    """Positive numbers, larger in group "a", with exposures and rows held out."""

    def of(data, seed):
        rng = np.random.default_rng(seed)
        mean = np.exp(0.4 * data.X[:, 0] - 0.3 * data.X[:, 1] - 0.5 * (data.group == "b"))
        exposure = rng.uniform(0.5, 2.0, len(data))
        y = np.maximum(rng.gamma(2.0, mean * exposure), 1e-3)
        return y.astype(np.float32).astype(np.float64), exposure

    class Claims:
        ours, theirs = make_toy(n=800), make_toy(n=500, seed=1)
        X, group, weight = ours.X, ours.group, ours.weight
        y, exposure = of(ours, 2)
        held_y, held_exposure = of(theirs, 3)

        @property
        def held_out(self):
            return self.theirs.X, self.held_y, self.theirs.group

    return Claims()


def fit(estimator, data, *, X=None, y=None, sensitive_features=None, given=None, **params):
    """Fit; whether constraints are met in few rounds is not what most tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        return FairGBMRegressor(estimator, **{"random_state": 0, **params}).fit(
            data.X if X is None else X,
            data.y if y is None else y,
            sensitive_features=data.group if sensitive_features is None else sensitive_features,
            **(given or {}),
        )


def by_group(values, group, weight=None):
    """Means by group, in order."""
    weight = np.ones(len(values)) if weight is None else weight
    return np.array(
        [np.average(values[group == g], weights=weight[group == g]) for g in np.unique(group)]
    )


def check_sound(model, X):
    """Finite predictions that differ, and a report in words."""
    found = model.predict(X)
    assert np.isfinite(found).all()
    assert found.std() > 0
    assert model.fairness_report_.verdicts
    assert "constraint" in str(model.fairness_report_)


# Every way of asking


@pytest.mark.parametrize(
    ("asked", "holdout", "name"), covering(CONSTRAINTS, [None, 0.3, "cross"], OBJECTIVES)
)
def test_constraints_and_rows_held_out(claims, name, asked, holdout):
    model = fit(engine(name), claims, holdout=holdout, **CONSTRAINTS[asked])
    check_sound(model, claims.X)


@pytest.mark.parametrize(
    ("asked", "loss", "name"),
    covering(
        CONSTRAINTS, ["absolute", "quantile", "huber", "poisson", "gamma", "tweedie"], OBJECTIVES
    ),
)
def test_constraints_and_losses(claims, name, asked, loss):
    model = fit(engine(name, loss, n_estimators=8), claims, **CONSTRAINTS[asked])
    check_sound(model, claims.X)


@pytest.mark.parametrize(
    ("loss", "holdout", "name"),
    covering(["poisson", "gamma", "tweedie"], [None, 0.3, "cross"], OBJECTIVES),
)
def test_exposures(claims, name, loss, holdout):
    given = {"exposure": claims.exposure, "sample_weight": claims.weight}
    model = fit(engine(name, loss), claims, constraint="calibrated", holdout=holdout, given=given)
    check_sound(model, claims.X)
    rate = model.predict(claims.X)
    np.testing.assert_array_equal(
        model.predict(claims.X, exposure=claims.exposure), rate * claims.exposure
    )


@every_engine
@pytest.mark.parametrize("iterate", ["best", "last", "average"])
@pytest.mark.parametrize("memberships", ["observed", "honest"])
def test_iterates_and_memberships(claims, name, iterate, memberships):
    asked = {**CONSTRAINTS["means"], "iterate": iterate, "memberships": memberships}
    model = fit(engine(name), claims, **asked)
    check_sound(model, claims.X)
    assert model.best_iteration_ <= 20
    assert len(model.trace_) == 20


@every_engine
@pytest.mark.parametrize("iterate", ["last", "average"])
def test_dart(claims, name, iterate):
    dart = {
        "lightgbm": {"boosting_type": "dart"},
        "xgboost": {"booster": "dart", "rate_drop": 0.3},
    }
    if iterate == "average":
        with pytest.raises(ValueError, match="DART"):
            fit(engine(name, **dart[name]), claims, iterate=iterate, **CONSTRAINTS["means"])
        return
    model = fit(engine(name, **dart[name]), claims, iterate=iterate, **CONSTRAINTS["means"])
    check_sound(model, claims.X)


@every_engine
def test_several_sensitive_columns_and_missing_groups(claims, name):
    age = np.where(claims.X[:, 2] > 0, "old", "young").astype(object)
    age[::10] = None
    groups = pd.DataFrame({"sex": claims.group, "age": age})
    model = fit(engine(name), claims, sensitive_features=groups, **CONSTRAINTS["means"])
    assert model.fairness_report_.columns == ("sex", "age")
    crossed = parity("prediction", 0.1, by=("sex", "age"))
    model = fit(engine(name), claims, sensitive_features=groups, constraint=crossed)
    assert len(model.multipliers_) == 8  # four groups, above and below


@every_engine
@every_constraint
def test_groups_of_few_rows_are_reported_and_not_judged(claims, name, asked):
    group = np.where(np.arange(len(claims.y)) < 10, "few", claims.group)
    model = fit(engine(name), claims, sensitive_features=group, min_group_rows=30, **asked)
    check_sound(model, claims.X)
    if asked["constraint"] == "equal_means":
        assert not any("few" in label for label in model.multipliers_.index)
        table = model.fairness_report_.rates
        assert set(table["group"]) == {f"sensitive_feature={g}" for g in ("a", "b", "few")}
        assert np.isfinite(table[["low", "high"]].to_numpy()).all()


@every_engine
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("asked", ["means", "relative", "calibrated"])
def test_means_under_a_log_link_settle(claims, name, loss, asked):
    """A group whose mean is to rise is not carried away by steps that grow with it."""
    params = {**CONSTRAINTS[asked], "holdout": 0.3}
    model = fit(engine(name, loss, n_estimators=100), claims, **params)
    assert len(model.trace_) == 100
    assert model.predict(claims.X).max() < 10 * claims.y.max()


@every_engine
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "sparse", "lists"])
def test_tables(claims, name, kind):
    plain = fit(engine(name), claims, **CONSTRAINTS["means"]).predict(claims.X)
    frame = pd.DataFrame(claims.X, columns=list("pqrs"))
    X, y, group, weight = claims.X, claims.y, claims.group, None
    if kind == "pandas":
        X, y, group = frame, pd.Series(y, name="y"), pd.Series(group, name="sex")
    elif kind == "polars":
        X, y, group = pl.from_pandas(frame), pl.Series("y", y), pl.Series("sex", group)
    elif kind == "arrow":
        X, y, group = pa.Table.from_pandas(frame), pa.chunked_array([y]), pa.array(group)
    elif kind == "sparse":
        X = csr_matrix(X)
    else:
        y, group, weight = y.tolist(), group.tolist(), [1.0] * len(y)
    given = {"sample_weight": weight}
    asked = {"X": X, "y": y, "sensitive_features": group, **CONSTRAINTS["means"]}
    found = fit(engine(name), claims, given=given, **asked).predict(X)
    np.testing.assert_allclose(found, plain, rtol=1e-6)


@every_engine
@every_constraint
def test_a_stage_on_a_frozen_model(claims, name, asked):
    base = engine(name).fit(claims.X, claims.y)
    before = base.predict(claims.X)
    model = fit(FrozenEstimator(base), claims, **asked)
    check_sound(model, claims.X)
    np.testing.assert_array_equal(base.predict(claims.X), before)
    if asked is CONSTRAINTS["means"]:
        gaps = [np.ptp(by_group(p, claims.group)) for p in (before, model.predict(claims.X))]
        assert gaps[1] < gaps[0] / 2


@every_engine
@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_a_frozen_model_that_is_fair_already_stays_as_it_is(claims, name, loss):
    """Nothing has to be moved, so that f_0 may be kept; what is kept is no worse than it."""
    base = engine(name, loss, n_estimators=40).fit(claims.X, claims.y)
    lax = parity("prediction", 5.0)
    model = fit(
        FrozenEstimator(base), claims, constraint=lax, given={"holdout_set": claims.held_out}
    )
    X, y, _ = claims.held_out
    assert model.multipliers_.sum() == 0
    errors = [np.square(m.predict(X) - y).mean() for m in (base, model)]
    assert errors[1] <= 1.02 * errors[0]


@every_engine
def test_early_stopping(claims, name):
    rounds = {"lightgbm": "early_stopping_round", "xgboost": "early_stopping_rounds"}[name]
    X, y, _ = claims.held_out
    estimator = engine(name, n_estimators=300, learning_rate=0.5, **{rounds: 3})
    with warnings.catch_warnings():
        # LightGBM's own, since 4.7.
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        model = fit(estimator, claims, given={"eval_set": [(X, y)]}, **CONSTRAINTS["means"])
    assert model.best_iteration_ <= len(model.trace_) < 300
    check_sound(model, claims.X)


@every_engine
def test_a_fit_that_fails_leaves_the_model_as_it_was(claims, name):
    model = fit(engine(name), claims, **CONSTRAINTS["means"])
    before = model.predict(claims.X)
    with pytest.raises(ValueError, match="y must be finite"):
        model.fit(claims.X[:, :2], np.full(len(claims.y), np.nan), sensitive_features=claims.group)
    np.testing.assert_array_equal(model.predict(claims.X), before)
    assert model.n_features_in_ == 4


def test_pandas_rows_in_another_order_are_refused(claims):
    y = pd.Series(claims.y)
    shuffled = pd.Series(claims.exposure).sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match="exposure and y have pandas indices that differ"):
        fit(engine("lightgbm", "poisson"), claims, y=y, given={"exposure": shuffled})


# Laws


@every_engine
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_without_a_constraint_the_model_is_the_stock_one(claims, name, loss, weighted):
    given = {"sample_weight": claims.weight.astype(np.float32) if weighted else None}
    model = fit(engine(name, loss), claims, constraint=None, given=given)
    stock = engine(name, loss).fit(claims.X, claims.y, **given)
    np.testing.assert_allclose(model.predict(claims.X), stock.predict(claims.X), rtol=2e-6)
    assert model.fairness_report_ is None
    assert len(model.multipliers_) == 0


RENEWED = ["absolute", "quantile"]
DRAWN = {
    "lightgbm": {
        "plain": {},
        "rows and columns": {"subsample": 0.5, "subsample_freq": 1, "colsample_bytree": 0.5},
        "dart": {"boosting_type": "dart"},
        "goss": {"data_sample_strategy": "goss"},
        "start": {"boost_from_average": False},
    },
    "xgboost": {
        "plain": {},
        "rows and columns": {"subsample": 0.5, "colsample_bytree": 0.5},
        "dart": {"booster": "dart", "rate_drop": 0.3},
        "exact": {"tree_method": "exact"},
        "start": {"base_score": 0.3},
    },
}


@pytest.mark.parametrize("loss", RENEWED)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, id=f"{name}-{what}")
        for name, each in DRAWN.items()
        for what, options in each.items()
    ],
)
def test_leaves_that_the_engine_sets_to_medians(claims, name, loss, options, weighted):
    """Without a constraint the engine's own objective grows the trees, bit for bit."""
    given = {"sample_weight": claims.weight.astype(np.float32) if weighted else None}
    asked = {"constraint": None, "iterate": "last", "given": given}
    model = fit(engine(name, loss, **options), claims, **asked)
    stock = engine(name, loss, **options).fit(claims.X, claims.y, **given)
    np.testing.assert_array_equal(model.predict(claims.X), stock.predict(claims.X))
    assert model.best_iteration_ == len(model.trace_) == 20
    assert model.trace_["trees"].tolist() == list(range(1, 21))
    assert model.estimator_.get_params() == stock.get_params()


def pinball(y, predicted, level):
    """The mean loss at a level; the absolute one is twice that of the median."""
    return np.maximum(level * (y - predicted), (level - 1) * (y - predicted)).mean()


@every_engine
@pytest.mark.parametrize("loss", RENEWED)
def test_the_trace_looks_on_while_the_engine_trains(claims, name, loss):
    X, y, _ = claims.held_out
    model = fit(
        engine(name, loss), claims, constraint=None, given={"holdout_set": claims.held_out}
    )
    level, factor = (0.7, 1.0) if loss == "quantile" else (0.5, 2.0)
    for rows, actual, column in ((claims.X, claims.y, "loss"), (X, y, "held-out loss")):
        expected = [np.full(len(actual), np.quantile(claims.y, level))]
        expected += [model._model.scores(rows, t) for t in range(1, 20)]
        losses = [factor * pinball(actual, scores, level) for scores in expected]
        np.testing.assert_allclose(model.trace_[column], losses, rtol=1e-3)
        np.testing.assert_allclose(model.trace_[column][1:], losses[1:], rtol=1e-6)


@every_engine
@pytest.mark.parametrize("loss", RENEWED)
def test_iterates_of_an_engine_that_trains_by_itself(claims, name, loss):
    last = fit(engine(name, loss), claims, constraint=None, iterate="last")
    mean = fit(engine(name, loss), claims, constraint=None, iterate="average")
    prefixes = [last._model.scores(claims.X, t) for t in range(1, 21)]
    np.testing.assert_allclose(mean.predict(claims.X), np.mean(prefixes, axis=0), rtol=1e-5)


@every_engine
@pytest.mark.parametrize("loss", [*RENEWED, "squared"])
def test_early_stopping_without_a_constraint_is_the_engines(claims, name, loss):
    rounds = {"lightgbm": "early_stopping_round", "xgboost": "early_stopping_rounds"}[name]
    options = {"n_estimators": 300, "learning_rate": 0.5, rounds: 3}
    X, y, _ = claims.held_out
    sets = [(claims.X, claims.y), (X, y)]
    with warnings.catch_warnings():
        # LightGBM's own, since 4.7.
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        stock = engine(name, loss, **options)
        quiet = {"verbose": False} if name == "xgboost" else {}
        stock.fit(claims.X, claims.y, eval_set=sets, **quiet)
        model = fit(
            engine(name, loss, **options), claims, constraint=None, given={"eval_set": sets}
        )
    assert model.best_iteration_ < len(model.trace_) < 300
    np.testing.assert_allclose(
        model.predict(X), stock.predict(X), rtol=0 if loss in RENEWED else 2e-6
    )
    found, expected = model.estimator_.evals_result_, stock.evals_result_
    assert {k: [*v] for k, v in found.items()} == {k: [*v] for k, v in expected.items()}
    for where, metrics in expected.items():
        for metric, values in metrics.items():
            np.testing.assert_allclose(found[where][metric], values, rtol=1e-5)


def test_callbacks_without_a_constraint_are_lightgbms(claims):
    """A rate that changes, and a callback that looks on."""
    seen = []

    def callbacks():
        rate = reset_parameter(learning_rate=lambda k: 0.2 * 0.9**k)
        return [rate, lambda env: seen.append(env.iteration)]

    stock = engine("lightgbm", "absolute").fit(claims.X, claims.y, callbacks=callbacks())
    given = {"callbacks": callbacks()}
    model = fit(engine("lightgbm", "absolute"), claims, constraint=None, given=given)
    np.testing.assert_array_equal(model.predict(claims.X), stock.predict(claims.X))
    assert seen == [*range(20)] * 2


@pytest.mark.parametrize("loss", RENEWED)
def test_a_frozen_model_without_a_constraint_is_continued_as_lightgbm_does(claims, loss):
    base = engine("lightgbm", loss).fit(claims.X, claims.y)
    model = fit(FrozenEstimator(base), claims, constraint=None)
    stage = engine("lightgbm", loss, n_estimators=40, learning_rate=0.1)
    stage.fit(claims.X, claims.y, init_model=base)
    assert model.best_iteration_ == 60
    np.testing.assert_allclose(model.predict(claims.X), stage.predict(claims.X), rtol=1e-12)


@pytest.mark.parametrize("loss", RENEWED)
def test_a_frozen_model_without_a_constraint_is_continued_as_xgboost_does(claims, loss):
    base = engine("xgboost", loss).fit(claims.X, claims.y)
    model = fit(FrozenEstimator(base), claims, constraint=None)
    stage = engine("xgboost", loss, n_estimators=40, learning_rate=0.1, grow_policy="lossguide",
                   max_leaves=15)  # fmt: skip
    stage.fit(claims.X, claims.y, xgb_model=base.get_booster())
    assert model.best_iteration_ == 60
    np.testing.assert_allclose(model.predict(claims.X), stage.predict(claims.X), rtol=1e-6)


@every_engine
@pytest.mark.parametrize("loss", RENEWED)
def test_a_model_that_the_engine_trained_by_itself_is_saved(claims, name, loss, tmp_path):
    model = fit(engine(name, loss), claims, constraint=None)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    found = model.predict(claims.X)
    np.testing.assert_array_equal(again.predict(claims.X), found)
    np.testing.assert_array_equal(exported(model, name, claims.X, tmp_path), found)


def exported(model, name, X, folder):
    """Predictions by the stock engine from the file that it is given."""
    path = folder / ("stock.txt" if name == "lightgbm" else "stock.json")
    model.export(path)
    if name == "lightgbm":
        return lightgbm.Booster(model_file=path).predict(X)
    return xgboost.Booster(model_file=path).predict(xgboost.DMatrix(X))


@every_engine
@pytest.mark.parametrize("loss", OBJECTIVES["lightgbm"])
@pytest.mark.parametrize("iterate", ["best", "average"])
def test_a_constrained_model_is_exported_as_a_stock_one(claims, name, loss, iterate, tmp_path):
    """Of every loss, with the link from scores to predictions."""
    asked = {**CONSTRAINTS["relative"], "iterate": iterate}
    model = fit(engine(name, loss), claims, **asked)
    stock = exported(model, name, claims.X, tmp_path)
    np.testing.assert_allclose(stock, model.predict(claims.X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "directions"), [("absolute", [1, 0, 0, 0]), ("quantile", [0, 0, 0, 0])]
)
def test_what_lightgbms_own_objectives_do_not_take(claims, loss, directions):
    asked = engine("lightgbm", loss, monotone_constraints=directions)
    with pytest.raises(EngineOptionError, match="takes no monotone_constraints, and without"):
        fit(asked, claims, constraint=None)
    with pytest.raises(lightgbm.basic.LightGBMError):
        clone(asked).fit(claims.X, claims.y)
    check_sound(fit(asked, claims, **CONSTRAINTS["means"]), claims.X)


@pytest.mark.parametrize("asked", [{"constraint": None}, CONSTRAINTS["means"]], ids=str)
def test_linear_trees_that_lightgbm_would_not_predict_with(claims, asked):
    linear = engine("lightgbm", "absolute", linear_tree=True)
    with pytest.raises(
        EngineOptionError, match="linear_tree, which LightGBM does not take beside"
    ):
        fit(linear, claims, **asked)


# Exposures of evaluation sets


@every_engine
def test_metrics_of_evaluation_sets_know_exposures(claims, name):
    X, y, _ = claims.held_out
    years = claims.held_exposure
    sets = {
        "eval_set": [(claims.X, claims.y), (X, y), (claims.X[:90], claims.y[:90])],
        "eval_names": ["train", "test", "part"],
        "eval_exposure": [None, years, claims.exposure[:90]],
    }
    metric = {"lightgbm": {"metric": "l2"}, "xgboost": {"eval_metric": "rmse"}}[name]
    power = {"lightgbm": 1, "xgboost": 2}[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        model = fit(
            engine(name, "poisson", **metric), claims, holdout=None, iterate="last",
            given={"exposure": claims.exposure, **sets}, **CONSTRAINTS["means"],
        )  # fmt: skip
    exposures = [claims.exposure, years, claims.exposure[:90]]
    for where, (table, actual), exposure in zip(
        sets["eval_names"], sets["eval_set"], exposures, strict=True
    ):
        (values,) = model.estimator_.evals_result_[where].values()
        error = np.square(model.predict(table, exposure=exposure) - actual).mean()
        assert values[-1] ** power == pytest.approx(error, rel=1e-5)


@every_engine
def test_early_stopping_by_rows_with_exposures(claims, name):
    rounds = {"lightgbm": "early_stopping_round", "xgboost": "early_stopping_rounds"}[name]
    X, y, _ = claims.held_out
    estimator = engine(name, "poisson", n_estimators=300, learning_rate=0.5, **{rounds: 3})
    given = {
        "exposure": claims.exposure, "eval_set": [(X, y)], "eval_exposure": [claims.held_exposure]
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        model = fit(estimator, claims, constraint=None, given=given)
    (history,) = model.estimator_.evals_result_.values()
    (values,) = history.values()
    assert np.argmin(values) + 1 == model.best_iteration_ < 300


@every_engine
@pytest.mark.parametrize(
    ("asked", "power"),
    [("distributions", 0), ("means", 1), ("relative", 0), ("calibrated", 0), ("errors", 2)],
)
def test_targets_in_another_unit(claims, name, asked, power):
    params = dict(CONSTRAINTS[asked])
    plain = fit(engine(name), claims, **params)
    assert plain.multipliers_.sum() > 0 or asked == "calibrated"
    if power:
        params["tolerance"] *= 1000.0**power
    scaled = fit(engine(name), claims, y=1000.0 * claims.y, **params)
    assert scaled.best_iteration_ == plain.best_iteration_
    expected = 1000.0 * plain.predict(claims.X)
    # Of the largest: what XGBoost has in single precision are sums of leaves.
    np.testing.assert_allclose(
        scaled.predict(claims.X), expected, rtol=0, atol=1e-6 * np.abs(expected).max()
    )


@every_engine
def test_targets_in_another_unit_under_a_bound(name):
    """The multiplier of a bound moves in proportion to itself, whatever the unit."""
    rng = np.random.default_rng(0)
    group, noise = rng.integers(0, 2, 1_500), rng.normal(size=1_500)
    X = np.stack([rng.normal(size=1_500), group], axis=1)
    y = X[:, 0] * (1 + group) + noise * (1 + group)
    found = [
        FairGBMRegressor(
            engine(name, n_estimators=40), constraint=bound("loss", 3.2 * k**2, group=1),
            random_state=0,
        ).fit(X, k * y, sensitive_features=group).predict(X) / k
        for k in (1.0, 1 / 64)
    ]  # fmt: skip
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6 * np.abs(y).max())


@every_engine
def test_same_seed_same_model(claims, name):
    drawn = {"lightgbm": {"subsample": 0.5, "subsample_freq": 1}, "xgboost": {"subsample": 0.5}}

    def predictions(seed):
        estimator = engine(name, random_state=None, **drawn[name])
        model = fit(estimator, claims, random_state=seed, **CONSTRAINTS["distributions"])
        return model.predict(claims.X)

    np.testing.assert_array_equal(predictions(3), predictions(3))
    assert (predictions(3) != predictions(4)).any()


@every_engine
def test_names_of_groups_do_not_matter(claims, name):
    asked = CONSTRAINTS["means"]
    other = np.where(claims.group == "a", 7, 5)  # in the other order
    np.testing.assert_allclose(
        fit(engine(name), claims, sensitive_features=other, holdout=None, **asked).predict(
            claims.X
        ),
        fit(engine(name), claims, holdout=None, **asked).predict(claims.X),
        rtol=1e-6,
    )


@every_engine
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("iterate", ["best", "last", "average"])
def test_the_reports_figures_are_those_of_predictions(claims, name, weighted, iterate):
    X, y, group = claims.held_out
    weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
    given = {"holdout_set": (X, y, group, weight)}
    asked = {"constraint": [parity("prediction", 0.1), parity("loss", 0.1), "calibrated"]}
    model = fit(engine(name), claims, iterate=iterate, given=given, **asked)
    found = model.predict(X)
    means, losses = by_group(found, group, weight), by_group((found - y) ** 2, group, weight)
    ratio = by_group(y, group, weight) / means
    expected = [np.ptp(means), np.ptp(losses), np.abs(ratio - 1).max()]
    figures = [v.value for v in model.fairness_report_.verdicts]
    np.testing.assert_allclose(figures, expected, rtol=1e-5)
    again = model.report_on(X, y, sensitive_features=group, sample_weight=weight)
    assert str(again).startswith("Fairness constraints on the test rows")


@every_engine
@every_constraint
def test_other_rows_are_judged_as_those_held_out(claims, name, asked):
    """On the same rows the report says the same twice."""
    X, y, group = claims.held_out
    model = fit(engine(name), claims, given={"holdout_set": claims.held_out}, **asked)
    report = model.report_on(X, y, sensitive_features=group)
    held_out, test = report.verdicts, report.test_verdicts
    assert len(held_out) == len(test) == (2 if asked is CONSTRAINTS["several"] else 1)
    for one, other in zip(held_out, test, strict=True):
        assert other.value == pytest.approx(one.value, rel=1e-5)
        assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-4, abs=1e-6)
        assert other.status == one.status


@every_engine
def test_the_reports_figures_are_per_unit_of_exposure(claims, name):
    X, y, group = claims.held_out
    years = claims.held_exposure
    given = {"exposure": claims.exposure, "holdout_set": (X, y, group, None, years)}
    asked = {"constraint": [parity("prediction", 0.1), "calibrated"]}
    model = fit(engine(name, "poisson"), claims, given=given, **asked)
    means = by_group(model.predict(X), group, years)
    ratio = by_group(y / years, group, years) / means
    figures = [v.value for v in model.fairness_report_.verdicts]
    np.testing.assert_allclose(figures, [np.ptp(means), np.abs(ratio - 1).max()], rtol=1e-5)


@every_engine
def test_the_distance_of_distributions_is_that_of_predictions(claims, name):
    X, _, group = claims.held_out
    given = {"holdout_set": claims.held_out}
    model = fit(engine(name), claims, given=given, **CONSTRAINTS["distributions"])
    found = model.predict(X)
    (verdict,) = model.fairness_report_.verdicts
    everywhere = np.sort(found)
    share = [
        np.searchsorted(np.sort(part), everywhere, side="left") / len(part)
        for part in (found, found[group == "a"], found[group == "b"])
    ]
    largest = max(np.abs(share[1] - share[0]).max(), np.abs(share[2] - share[0]).max())
    # It is read at 15 of the predictions, so it is no larger, and between them less than 1/16.
    assert largest - 1 / 16 <= verdict.value <= largest + 1e-9


@every_engine
def test_constraints_are_met_where_the_plain_model_breaks_them(claims, name):
    estimator = engine(name, n_estimators=80)
    X, y, group = claims.held_out
    given = {"holdout_set": claims.held_out}
    plain = engine(name, n_estimators=80).fit(claims.X, claims.y)
    assert np.ptp(by_group(plain.predict(X), group)) > 0.3
    model = FairGBMRegressor(estimator, **CONSTRAINTS["means"], random_state=0)
    model.fit(claims.X, claims.y, sensitive_features=claims.group, **given)  # it would warn
    assert np.ptp(by_group(model.predict(X), group)) <= 0.1 + 1e-6
    constant = np.square(y - claims.y.mean()).mean()
    assert np.square(model.predict(X) - y).mean() < constant


@every_engine
def test_a_confidence_is_aimed_at(claims, name):
    """Means are kept inside the tolerance by what they may be off by, and so the verdict says."""
    found = {}
    for confidence in (None, 0.95):
        model = fit(
            engine(name, n_estimators=80), claims, constraint="equal_means", tolerance=0.3,
            confidence=confidence, given={"holdout_set": claims.held_out},
        )  # fmt: skip
        (found[confidence],) = model.fairness_report_.verdicts
    assert found[0.95].value < found[None].value
    assert found[0.95].high <= 0.3
    assert [v.status for v in found.values()] == ["met on these rows, not certain", "met"]


# Models that start from nothing


@pytest.mark.parametrize(
    "started",
    [
        engine("lightgbm", boost_from_average=False, n_estimators=60),
        engine("xgboost", base_score=0.0, n_estimators=60),
        engine("xgboost", base_score=-1.0, n_estimators=60),
    ],
    ids=["lightgbm from 0", "xgboost from 0", "xgboost from below 0"],
)
def test_calibration_of_a_model_that_starts_from_0(claims, started):
    """The first round has no ratio of actual over expected, and the next ones a large one."""
    model = fit(started, claims, constraint="calibrated", tolerance=0.05, holdout="cross")
    figures = model.trace_.filter(regex="^(violation|multiplier)")
    assert np.isfinite(figures.to_numpy()).all()
    # Of 400 rows, each with an error of three quarters of the mean: four percent by chance.
    assert model.fairness_report_.verdicts[0].value < 0.12
    predicted = model.predict(claims.X)
    for g in np.unique(claims.group):
        own = claims.group == g
        assert claims.y[own].mean() / predicted[own].mean() == pytest.approx(1.0, abs=0.12)


def test_verdicts_on_predictions_that_are_all_0(claims):
    silent = engine("lightgbm", boost_from_average=False, reg_alpha=float("inf"), n_estimators=3)
    alike = fit(silent, claims, constraint=parity("prediction", 0.05, relative=True))
    assert not alike.predict(claims.X).any()
    (verdict,) = alike.fairness_report_.verdicts
    assert (verdict.value, verdict.status) == (0.0, "met")
    off = fit(silent, claims, constraint="calibrated", tolerance=0.5)
    (verdict,) = off.fairness_report_.verdicts
    assert (verdict.value > 1e5, verdict.status) == (True, "not met")


def test_a_bound_on_group_losses_is_judged_by_the_largest(claims):
    model = fit(engine("lightgbm"), claims, constraint="bounded_group_loss", tolerance=1.2)
    (verdict,) = model.fairness_report_.verdicts
    assert verdict.constraint == "largest mean loss of a group by sensitive_feature, at most 1.2"
    assert (verdict.measure, verdict.limit) == ("figure", 1.2)
    losses = model.fairness_report_.rates["held out"]
    assert verdict.value == losses.max()
    assert 0 <= verdict.low < verdict.value < verdict.high


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@every_engine
def test_a_blind_model_whose_features_tell_next_to_nothing_of_the_group(name):
    """A feature explains 0.6% of the group, and the gap of means is all its doing."""

    def draw(n, seed):
        rng = np.random.default_rng(seed)
        group, X = rng.integers(0, 2, n), rng.normal(size=(n, 4))
        X[:, 0] += 0.15 * group
        return X, X[:, 0] + X[:, 1] + rng.normal(size=n), group

    def gap(model):
        predicted = model.predict(X_new)
        return predicted[new == 1].mean() - predicted[new == 0].mean()

    X, y, group = draw(20_000, 0)
    X_new, _, new = draw(200_000, 1)
    plain = engine(name, n_estimators=60)
    asked = {**CONSTRAINTS["means"], "tolerance": 0.02, "memberships": "honest", "holdout": 0.2}
    model = FairGBMRegressor(plain, random_state=0, **asked).fit(X, y, sensitive_features=group)
    assert gap(plain.fit(X, y)) > 0.13
    # Memberships are off by chance, and so is what is held out, by 0.03.
    assert abs(gap(model)) < 0.07
