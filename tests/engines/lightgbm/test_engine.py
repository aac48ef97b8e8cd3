"""The engine against stock LightGBM: without constraints the two are one."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from lightgbm import LGBMClassifier
from scipy.special import expit, logit
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, tradeoff_curve
from fairboost.exceptions import EngineOptionError, InvalidInputError


def stock_scores(engine, X, y, **fit_options):
    return engine.fit(X, y, **fit_options).predict(X, raw_score=True)


def plain(engine, X, y, **fit_options):
    return FairGBMClassifier(engine, constraint=None).fit(X, y, **fit_options)


def constrained(engine, toy, **fit_options):
    model = FairGBMClassifier(
        engine, constraint="demographic_parity", tolerance=0.0, multiplier_learning_rate=2.0
    )
    return model.fit(toy.X, toy.y, sensitive_features=toy.group, **fit_options)


# Without constraints: objective=binary

OPTIONS = {
    "plain": {},
    "bagging": {"subsample": 0.6, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "scale_pos_weight": {"scale_pos_weight": 3.0},
    "is_unbalance": {"is_unbalance": True},
    "unbalance": {"unbalance": "true"},
    "class_weight balanced": {"class_weight": "balanced"},
    "class_weight dict": {"class_weight": {0: 2.0, 1: 0.7}},
    "class_weight and bagging": {"class_weight": {1: 3.0}, "subsample": 0.6, "subsample_freq": 1},
    "no average": {"boost_from_average": False},
    "monotone": {"monotone_constraints": [1, -1, 0, 0]},
    "min data": {"min_child_samples": 60, "min_child_weight": 5.0},
    "regularised": {"reg_alpha": 0.5, "reg_lambda": 3.0, "max_delta_step": 0.3},
    "smoothed": {"path_smooth": 5.0, "min_split_gain": 0.5},
    "linear trees": {"linear_tree": True},
    "extra trees": {"extra_trees": True},
    "columns": {"colsample_bytree": 0.5},
    "columns by node": {"feature_fraction_bynode": 0.5},
    "quantised": {"use_quantized_grad": True},
    "interactions": {"interaction_constraints": [[0, 1], [2, 3]]},
    "objective said": {"objective": "binary"},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_scores_equal_stock_binary(engine, toy, options, weighted):
    fit_options = {"sample_weight": toy.weight} if weighted else {}
    model = plain(engine(**options), toy.X, toy.y, **fit_options)
    expected = stock_scores(engine(**options), toy.X, toy.y, **fit_options)
    assert expected.std() > 0.1
    # Stock rounds the product of both weights to single precision, we each of them.
    exact = not (weighted and "class_weight" in options)
    atol = 1e-10 if exact else 1e-6
    np.testing.assert_allclose(model.decision_function(toy.X), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_missing_values_and_categories(engine, toy, weighted):
    fit_options = {"sample_weight": toy.weight} if weighted else {}
    model = plain(engine(), toy.frame, toy.y, **fit_options)
    expected = stock_scores(engine(), toy.frame, toy.y, **fit_options)
    np.testing.assert_allclose(model.decision_function(toy.frame), expected, rtol=0, atol=1e-10)


# All trees are dropped: by hand, LightGBM's draws of them differ between runs of the same seed.
DART = {"boosting_type": "dart", "drop_rate": 1.0, "skip_drop": 0.0, "uniform_drop": True}


@pytest.mark.parametrize(
    "options",
    [DART, {**DART, "subsample": 0.6, "subsample_freq": 1}],
    ids=["dart", "dart and bagging"],
)
def test_dart_equals_a_custom_objective_by_hand(engine, toy, options):
    """Stock DART drops the tree that carries the average."""

    def logloss(y, scores):
        p = expit(scores)
        return p - y, p * (1 - p)

    start = logit(toy.y.mean())
    by_hand = engine(objective=logloss, **options)
    expected = start + stock_scores(by_hand, toy.X, toy.y, init_score=np.full(len(toy), start))
    model = plain(engine(**options), toy.X, toy.y)
    np.testing.assert_allclose(model.decision_function(toy.X), expected, rtol=0, atol=1e-10)
    assert np.abs(expected - stock_scores(engine(**options), toy.X, toy.y)).max() > 1e-3


@pytest.mark.parametrize(
    "options",
    [{}, {"colsample_bytree": 0.5}, {"subsample": 0.6, "subsample_freq": 1}, {"drop_seed": 7},
     {"uniform_drop": True}, {"xgboost_dart_mode": True}, {"extra_trees": True}],
    ids=str,
)  # fmt: skip
def test_dart_is_stock_where_no_tree_carries_the_average(engine, toy, options):
    """The same trees are dropped, bit by bit."""
    dart = {"boosting_type": "dart", "drop_rate": 0.4, "boost_from_average": False, **options}
    for seed in range(4):
        made = engine(n_estimators=12, random_state=seed, **dart)
        expected = stock_scores(made, toy.X, toy.y)
        np.testing.assert_array_equal(plain(made, toy.X, toy.y).decision_function(toy.X), expected)


def test_dart_drops_what_the_seed_says(engine, toy):
    """LightGBM leaves open whether it draws before the first tree."""
    dart = {"boosting_type": "dart", "drop_rate": 0.5, "n_estimators": 15}
    first, *others = [
        plain(engine(**dart), toy.X, toy.y).decision_function(toy.X) for _ in range(8)
    ]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_a_constraint_that_holds_changes_nothing(engine, toy):
    """With rates of the training rows; rows held out are not trained on, whatever they say."""
    model = FairGBMClassifier.paper(engine(), "equalized_odds", tolerance=0.999)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_allclose(
        model.decision_function(toy.X), stock_scores(engine(), toy.X, toy.y), rtol=0, atol=1e-10
    )


def test_subclasses_of_the_classifier(engine, toy):
    class Mine(LGBMClassifier):
        pass

    options = engine().get_params()
    model = plain(Mine(**options), toy.X, toy.y)
    assert type(model.estimator_) is Mine
    np.testing.assert_array_equal(
        model.decision_function(toy.X), stock_scores(Mine(**options), toy.X, toy.y)
    )


# The trace: LightGBM copies parameters deeply, and a copy of our objective would record nothing


def test_the_trace_has_a_row_per_round_and_multipliers_move(engine, toy):
    model = constrained(engine(), toy)
    trace = model.trace_
    assert trace["round"].tolist() == trace["trees"].tolist() == list(range(1, 9))
    multipliers = trace.filter(like="multiplier: ")
    assert (multipliers.iloc[0] == 0).all()
    assert multipliers.iloc[-1].max() > 0
    assert (model.multipliers_ != multipliers.iloc[-1].to_numpy()).any()  # one step further
    assert trace["loss"].iloc[-1] < trace["loss"].iloc[0]
    assert trace["rate: ppr[sensitive_feature=a]"].nunique() > 1


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_rounds_without_a_split_add_no_trees(engine, toy):
    model = constrained(engine(min_split_gain=1e9, n_estimators=4), toy)
    assert len(model.trace_) == 4
    assert model.trace_["trees"].tolist() == [1] * 4
    assert model.best_iteration_ == model.booster_.num_trees() == 1
    np.testing.assert_allclose(model.predict_proba(toy.X)[:, 1], toy.y.mean(), rtol=1e-12)


def test_threads_do_not_change_the_model(engine, toy):
    one, two = (constrained(engine(n_jobs=n, deterministic=True), toy) for n in (1, 2))
    np.testing.assert_array_equal(one.decision_function(toy.X), two.decision_function(toy.X))
    pd.testing.assert_frame_equal(one.trace_, two.trace_)


def test_forced_bins(engine, toy, tmp_path):
    """LightGBM bins by the file once; asked again, it would say that bins cannot change."""
    path = tmp_path / "bins.json"
    path.write_text('[{"feature": 0, "bin_upper_bound": [-0.5, 0.1, 0.7]}]')
    options = {"forcedbins_filename": str(path), "max_bin": 5}
    stock = engine(**options).fit(toy.X, toy.y)
    model = plain(engine(**options), toy.X, toy.y, eval_set=[(toy.X[:90], toy.y[:90])])
    np.testing.assert_allclose(
        model.decision_function(toy.X), stock.predict(toy.X, raw_score=True), atol=1e-10
    )
    without = plain(engine(max_bin=5), toy.X, toy.y)
    assert (model.decision_function(toy.X) != without.decision_function(toy.X)).any()
    for holdout in (0.3, "cross", None):
        curve = tradeoff_curve(
            engine(**options), toy.X, toy.y, sensitive_features=toy.group, tolerances=[0.05],
            holdout=holdout, constraint="demographic_parity",
        )  # fmt: skip
        assert len(curve.models) == 2
    stage = constrained(FrozenEstimator(stock), toy)
    assert stage.best_iteration_ >= 8


def test_n_estimators_by_another_name(engine, toy):
    model = constrained(engine(num_iterations=3), toy)
    assert len(model.trace_) == model.best_iteration_ == 3


# Refused


def test_constant_features(engine, toy, capfd):
    with pytest.raises(
        InvalidInputError, match=r"no feature of X can be split on: each is constant"
    ):
        plain(engine(), np.ones((600, 3)), toy.y)
    with pytest.raises(
        InvalidInputError, match=r"min_child_samples \(20\) leaves no split in 30 rows"
    ):
        plain(engine(), toy.X[:30], toy.y[:30])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda f: f.astype("float64[pyarrow]"), r"column 'a' of X as double\[pyarrow\]"),
        (lambda f: f.rename(columns={"a": "income: monthly"}), r"'income: monthly' .* has ':'"),
        (lambda f: sp.csr_matrix(f.to_numpy().astype(np.int64)), r"found int64; pass X.astype"),
        (lambda f: polars.from_pandas(f).lazy(), r"X is a LazyFrame, not read yet"),
    ],
)
def test_tables_that_lightgbm_does_not_read(engine, toy, change, match):
    X = change(pd.DataFrame(toy.X, columns=list("abcd")))
    with pytest.raises(InvalidInputError, match=match):
        plain(engine(), X, toy.y)


def test_categories_have_no_direction(engine, toy):
    """LightGBM ends the process over it."""
    directions = engine(monotone_constraints=[0, 1, 0, 0])
    with pytest.raises(EngineOptionError, match="a direction of feature 1, whose values are cat"):
        plain(directions, toy.frame, toy.y)
    with pytest.raises(EngineOptionError, match="a direction of feature 1"):
        plain(directions, np.abs(np.round(toy.X)), toy.y, categorical_feature=[1])
    plain(directions, toy.X, toy.y)
    with pytest.raises(EngineOptionError, match="has 1 directions, expected one for each of"):
        plain(engine(monotone_constraints=[1]), toy.frame, toy.y)
    advanced = engine(monotone_constraints_method="advanced")
    with pytest.raises(EngineOptionError, match="'advanced', but no direction"):
        plain(advanced, toy.frame, toy.y)
    with pytest.raises(EngineOptionError, match="pass it to fit instead"):
        plain(engine(categorical_feature="0"), toy.X, toy.y)


def test_a_split_is_not_forced_on_a_feature_of_one_value(engine, toy, tmp_path):
    """LightGBM ends the process over it."""
    forced, X = tmp_path / "splits.json", np.array(toy.X)
    forced.write_text(json.dumps({"feature": 0, "threshold": 0.0}))
    X[:, 2] = 1.0
    options = engine(forcedsplits_filename=str(forced))
    plain(options, X, toy.y)
    inner = {"feature": 2, "threshold": 0.0}
    forced.write_text(json.dumps({"feature": 0, "threshold": 0.0, "left": inner}))
    with pytest.raises(EngineOptionError, match="forces a split on feature 2"):
        plain(options, X, toy.y)


@pytest.mark.parametrize(
    "draw", [{"subsample": 0.5, "subsample_freq": 1}, {"data_sample_strategy": "goss"}]
)
def test_splits_are_not_forced_beside_a_draw_of_rows(engine, toy, tmp_path, draw):
    """LightGBM may end the process over it."""
    forced = tmp_path / "splits.json"
    forced.write_text(json.dumps({"feature": 0, "threshold": 0.0}))
    with pytest.raises(EngineOptionError, match="beside a draw of rows"):
        plain(engine(forcedsplits_filename=str(forced), **draw), toy.X, toy.y)
    with pytest.raises(EngineOptionError, match="beside use_quantized_grad"):
        plain(engine(forcedsplits_filename=str(forced), use_quantized_grad=True), toy.X, toy.y)
    alone = engine(forcedsplits_filename=str(forced), subsample=0.5)  # drawn in no round
    plain(alone, toy.X, toy.y)


def test_what_lightgbm_says_of_empty_leaves_is_put_in_words(monkeypatch, engine, toy):
    def fails(*_, **__):
        raise lightgbm.basic.LightGBMError("Check failed: (best_split_info.left_count) > (0)")

    monkeypatch.setattr(lightgbm, "train", fails)
    with pytest.raises(EngineOptionError, match="raise min_child_samples to 5 or more"):
        plain(engine(), toy.X, toy.y)


def test_linear_trees_and_sets_that_are_sparse_by_columns(engine, toy):
    """LightGBM ends the process over a validation set of that form."""

    def fitted(form):
        X, other = form(toy.X), form(toy.X[:300])
        model = FairGBMClassifier(engine(linear_tree=True), constraint="demographic_parity")
        held = other, toy.y[:300], toy.group[:300]
        model.fit(X, toy.y, sensitive_features=toy.group, holdout_set=held, eval_set=[held[:2]])
        return model.predict_proba(X)

    np.testing.assert_allclose(fitted(sp.csc_matrix), fitted(np.asarray), rtol=0, atol=1e-9)


def test_other_errors_of_lightgbm_pass_through(engine, toy):
    with pytest.raises(lightgbm.basic.LightGBMError, match="monotone"):
        plain(engine(monotone_constraints=[1, 0]), toy.X, toy.y)


def test_dask_estimators_are_refused(toy):
    with pytest.raises(EngineOptionError, match="DaskLGBMClassifier cannot be constrained"):
        FairGBMClassifier(lightgbm.DaskLGBMClassifier()).fit(toy.X, toy.y)
