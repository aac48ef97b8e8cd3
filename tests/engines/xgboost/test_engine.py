"""What is true of XGBoost alone: its options, its starting score, its files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from fairboost import FairGBMClassifier, at_fpr, load, tradeoff_curve
from fairboost.engines.registry import load_engine, name_of
from fairboost.engines.xgboost import data as xgboost_data
from fairboost.engines.xgboost.categories import keeps_texts
from fairboost.exceptions import (
    EngineOptionError,
    ExportError,
    InvalidInputError,
    ModelFileError,
)
from fairboost.training import memberships
from tests.covering import covering
from tests.kinds import KINDS

xgboost = pytest.importorskip("xgboost")
engine = KINDS["xgboost"].make


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, not trained on."""
    return make_toy(n=300, seed=1)


def plain(estimator, X, y, **fit_options):
    return FairGBMClassifier(estimator, constraint=None).fit(X, y, **fit_options)


def fair(estimator, toy, X=None, *, fit=None, **params):
    defaults = {
        "constraint": "demographic_parity", "tolerance": 0.01, "iterate": "last",
        "memberships": "observed",
    }  # fmt: skip
    model = FairGBMClassifier(estimator, **{**defaults, **params})
    X = toy.X if X is None else X
    return model.fit(X, toy.y, sensitive_features=toy.group, **(fit or {}))


def model_of(booster):
    return json.loads(booster.save_raw("json").decode())["learner"]


# Without constraints: binary:logistic

OPTIONS = {
    "columns": {"colsample_bytree": 0.5, "colsample_bynode": 0.7},
    "rows and columns": {"subsample": 0.5, "colsample_bylevel": 0.5, "random_state": 4},
    "dart": {"booster": "dart", "rate_drop": 0.5, "random_state": 4},
    "several trees a round": {"num_parallel_tree": 3, "subsample": 0.5},
    "exact": {"tree_method": "exact", "enable_categorical": False},
    "approx": {"tree_method": "approx"},
    "few bins": {"max_bin": 8},
    "by leaf": {"grow_policy": "lossguide", "max_leaves": 5, "max_depth": 0},
    "interactions": {"interaction_constraints": "[[0, 1], [2, 3]]"},
    "weights of features": {"feature_weights": [0.1, 1.0, 1.0, 1.0], "colsample_bynode": 0.5},
    "its own names": {"eta": 0.7, "nthread": 1, "seed": 3, "subsample": 0.5, "n_jobs": None},
    "objective said": {"objective": "binary:logistic"},
    "start as a list": {"base_score": [0.2]},
    "both weights": {"scale_pos_weight": 0.4, "subsample": 0.7},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_probabilities_equal_stock(toy, options, weighted):
    weight = toy.weight if weighted else None
    model = plain(engine(**options), toy.X, toy.y, sample_weight=weight)
    stock = engine(**options).fit(toy.X, toy.y, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict_proba(toy.X), stock.predict_proba(toy.X), rtol=0, atol=1e-6
    )
    ours, theirs = (model_of(m)["learner_model_param"] for m in (model.booster_, stock._Booster))
    assert json.loads(ours["base_score"]) == pytest.approx(json.loads(theirs["base_score"]))
    assert model_of(model.booster_)["objective"]["name"] == "binary:logistic"


def test_rare_labels(make_toy):
    """Where a share of positives is far from even odds, a Newton step and log-odds differ."""
    data = make_toy(4_000)
    y = data.y * (np.arange(4_000) % 40 == 0)
    for options in ({}, {"scale_pos_weight": 30.0}):
        model = plain(engine(**options), data.X, y)
        stock = engine(**options).fit(data.X, y)
        np.testing.assert_allclose(
            model.predict_proba(data.X), stock.predict_proba(data.X), rtol=0, atol=1e-6
        )


def test_a_number_that_stands_for_missing(toy):
    X = np.where(np.random.default_rng(0).random(toy.X.shape) < 0.2, -9.0, toy.X)
    options = {"missing": -9.0}
    expected = engine(**options).fit(X, toy.y).predict_proba(X)
    model = plain(engine(**options), X, toy.y)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-6)
    assert np.abs(expected - engine().fit(X, toy.y).predict_proba(X)).max() > 1e-3


def test_feature_types(toy):
    codes = np.array([3, 0, 5, 2, 4, 1])[np.digitize(toy.X[:, 0], [-1, -0.5, 0, 0.5, 1])]
    X = np.column_stack([toy.X[:, 1:], codes])
    options = {"feature_types": ["q", "q", "q", "c"]}
    expected = engine(**options).fit(X, toy.y).predict_proba(X)
    for how in (None, 0.3):
        model = fair(engine(**options), toy, X, holdout=how, tolerance=0.99)
        assert model.booster_.feature_types == ["q", "q", "q", "c"]
        if how is None:
            np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-6)


def test_a_hundred_rounds_where_none_are_said(toy):
    model = plain(engine(n_estimators=None, max_depth=1), toy.X, toy.y)
    assert model.best_iteration_ == 100 and len(model.trace_) == 100


def test_the_estimator_is_left_as_its_own_fit_would_leave_it(toy, other):
    sets = [(other.X, other.y)]
    stock = engine().fit(toy.X, toy.y, eval_set=sets, verbose=False)
    ours = plain(engine(), toy.X, toy.y, eval_set=sets).estimator_
    assert set(vars(ours)) == set(vars(stock))
    assert ours.get_booster().feature_names == stock.get_booster().feature_names
    assert ours.n_classes_ == 2 and ours.classes_.tolist() == [0, 1]
    assert ours.evals_result().keys() == stock.evals_result().keys()
    np.testing.assert_allclose(ours.feature_importances_, stock.feature_importances_, rtol=1e-4)


def test_subclasses_of_the_classifier(toy):
    class Mine(xgboost.XGBClassifier):
        pass

    model = plain(Mine(n_estimators=3, n_jobs=1), toy.X, toy.y)
    assert type(model.estimator_) is Mine


# Rows held out


def test_pieces_make_the_same_bins(toy, monkeypatch):
    """Where a feature has few values, bins do not depend on how it is read."""
    frame = toy.frame.round(1)
    tables = [(np.round(toy.X, 1), {}), (frame, {"enable_categorical": True})]
    for X, options in tables:
        at_once = fair(engine(**options), toy, X, holdout=0.3, fit={"sample_weight": toy.weight})
        with monkeypatch.context() as patch:
            patch.setattr(xgboost_data, "PIECE", 100)
            in_pieces = fair(
                engine(**options), toy, X, holdout=0.3, fit={"sample_weight": toy.weight}
            )
        pd.testing.assert_frame_equal(at_once.trace_, in_pieces.trace_)
        np.testing.assert_array_equal(at_once.decision_function(X), in_pieces.decision_function(X))


@pytest.mark.parametrize("method", ["exact", "approx", "hist"])
def test_every_way_to_grow_trees(toy, other, method):
    estimator = engine(tree_method=method, enable_categorical=False)
    for held_out in ({"holdout": 0.3}, {"holdout": "cross"}):
        model = fair(estimator, toy, **held_out)
        assert model.trace_["held-out loss"].iloc[-1] < model.trace_["held-out loss"].iloc[0]
        assert model.multipliers_.sum() > 0
    base = clone(estimator).fit(toy.X, toy.y)
    stage = fair(FrozenEstimator(base), toy, holdout=0.3)
    leaves = stage.booster_.trees_to_dataframe().query("Feature == 'Leaf'").groupby("Tree").size()
    assert leaves[8:].max() <= 15
    curve = tradeoff_curve(
        estimator, toy.X, toy.y, sensitive_features=toy.group, tolerances=[0.05], holdout="cross",
        constraint="demographic_parity",
    )  # fmt: skip
    loss = curve.models[1].trace_["held-out loss"]
    assert loss.iloc[0] == pytest.approx(curve.table["loss"][0], rel=1e-6)
    assert loss.iloc[1] < 1.1 * loss.iloc[0]


@pytest.mark.filterwarnings("ignore:The stage costs much")
def test_a_stage_keeps_its_trees_small(toy):
    base = engine(max_depth=8, n_estimators=4, min_child_weight=0).fit(toy.X, toy.y)
    model = fair(FrozenEstimator(base), toy, holdout=0.3)
    leaves = model.booster_.trees_to_dataframe().query("Feature == 'Leaf'").groupby("Tree").size()
    assert leaves[:4].max() > 15 >= leaves[4:].max()
    before = model.booster_[:4].save_raw("json")
    assert (
        model_of(base.get_booster())["gradient_booster"]["model"]["trees"]
        == (json.loads(before.decode())["learner"]["gradient_booster"]["model"]["trees"])
    )


def test_a_base_with_names_and_rows_without(toy):
    base = engine().fit(toy.frame, toy.y)
    with pytest.raises(InvalidInputError, match="X has no names of features, but the frozen"):
        fair(FrozenEstimator(base), toy)


def test_a_base_from_a_file(toy, other, tmp_path):
    """XGBoost's own reader sets options, such as the starting score, as it finds them."""
    engine().fit(toy.frame, toy.y).save_model(tmp_path / "base.json")
    base = xgboost.XGBClassifier()
    base.load_model(tmp_path / "base.json")
    base.set_params(n_jobs=1)
    model = fair(FrozenEstimator(base), toy, toy.frame, holdout=0.3)
    np.testing.assert_array_equal(
        model.estimator_.predict(other.frame, output_margin=True, iteration_range=(0, 8)),
        base.predict(other.frame, output_margin=True),
    )


# Metrics and callbacks


@pytest.mark.parametrize("weighted", ["", "weighted", "training rows", "sets", "one set"])
@pytest.mark.parametrize(
    "metric",
    ["auc", ["logloss", "error", "aucpr"], log_loss, ["auc", log_loss]],
    ids=["one", "several", "function", "both"],
)
def test_metrics_are_those_of_stock(toy, other, metric, weighted):
    options = {"eval_metric": metric, "early_stopping_rounds": 2, "n_estimators": 60}
    sets = {"eval_set": [(toy.X, toy.y), (other.X, other.y)]}
    weight = {"sample_weight": toy.weight} if weighted in ("weighted", "training rows") else {}
    each = {"weighted": [toy.weight, other.weight], "one set": [None, other.weight]}
    theirs = {**each, "sets": each["weighted"]}.get(weighted)
    stock = engine(**options).fit(
        toy.X, toy.y, **weight, **sets, sample_weight_eval_set=theirs, verbose=False
    )
    model = plain(engine(**options), toy.X, toy.y, **weight, **sets, eval_sample_weight=theirs)
    ours, expected = model.estimator_.evals_result(), stock.evals_result()
    assert json.dumps(ours, default=list).count("validation") == 2
    for name, history in expected.items():
        assert [*ours[name]] == [*history]
        for key, values in history.items():
            np.testing.assert_allclose(ours[name][key], values, rtol=1e-4, err_msg=key)
    assert model.best_iteration_ == stock.best_iteration + 1
    assert model.estimator_.best_iteration == stock.best_iteration


def test_callbacks_see_every_round_of_the_booster_kept(toy):
    class Count(xgboost.callback.TrainingCallback):
        def __init__(self):
            self.rounds = []

        def after_iteration(self, model, epoch, evals_log):
            self.rounds.append(model.num_boosted_rounds())
            return epoch == 4

    model = fair(engine(callbacks=[Count()]), toy, holdout="cross")
    assert model.best_iteration_ == 5 and len(model.trace_) == 5


def test_nothing_is_printed(toy, other, capfd):
    fair(engine(), toy, fit={"eval_set": [(other.X, other.y)]}, holdout=0.3)
    assert capfd.readouterr() == ("", "")


# Refused


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"objective": "multi:softprob"}, "objective='multi:softprob', but y has two classes"),
        ({"objective": "binary:hinge"}, "objective='binary:hinge', but fairboost brings its own"),
        ({"objective": lambda y, f: (f, f)}, "but fairboost brings its own"),
        ({"booster": "gblinear"}, "booster='gblinear', expected 'gbtree' or 'dart': fairboost k"),
        ({"num_class": 3}, "num_class=3, but y has two classes"),
        ({"multi_strategy": "multi_output_tree"}, "multi_strategy='multi_output_tree', expected"),
        ({"process_type": "update"}, "process_type='update', expected 'default': fairboost gro"),
        ({"device": "tpu"}, "device='tpu', expected 'cpu', 'cuda', or 'cuda:1'"),
        ({"gpu_id": 0}, "gpu_id=0, expected nothing: .*device='cuda' asks for a GPU"),
        ({"tree_method": "gpu_hist"}, "tree_method='gpu_hist', expected .*with device='cuda'"),
        ({"n_jobs": "two"}, "n_jobs='two', expected a whole number"),
        ({"device": "cuda", "booster": "dart"}, "device='cuda' and drops trees"),
        ({"device": "cuda", "tree_method": "exact"}, "tree_method='exact'; on a GPU"),
        ({"boost_from_average": 0}, "base_score sets where to start"),
        ({"scale_pos_weight": 0}, "scale_pos_weight must be positive, found 0.0"),
        ({"base_score": 1.5}, r"base_score must be one probability in \(0, 1\), found 1.5"),
        ({"base_score": [0.2, 0.3]}, "base_score must be one probability"),
        ({"n_estimators": 0}, "n_estimators must be at least 1, found 0"),
        ({"early_stopping_rounds": 3}, "there is no set to be stopped by"),
        ({"eval_metric": [log_loss, log_loss]}, "eval_metric has 2 functions, and XGBoost takes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_contradict_the_method(toy, monkeypatch, options, match):
    monkeypatch.setattr(xgboost.Booster, "update", None)  # nothing is trained
    with pytest.raises(EngineOptionError, match=match):
        fair(engine(**options), toy)


@pytest.mark.parametrize(
    ("fit", "match"),
    [
        ({"eval_metric": "auc"}, r"pass XGBClassifier\(eval_metric=...\)"),
        ({"callbacks": [print]}, r"pass XGBClassifier\(callbacks=...\)"),
        ({"categorical_feature": [1]}, "categorical_feature is an argument of LightGBM"),
        ({"eval_names": ["a-b"]}, "no hyphen"),
        ({"eval_names": ["a", "b"]}, "eval_names has 2 items, expected one for each of the 1"),
        ({"eval_sample_weight": []}, "eval_sample_weight has 0 items"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arguments_of_fit(toy, monkeypatch, fit, match):
    monkeypatch.setattr(xgboost.Booster, "update", None)
    with pytest.raises(EngineOptionError, match=match):
        fair(engine(), toy, fit={"eval_set": [(toy.X, toy.y)], **fit})


def test_values_and_names_that_xgboost_does_not_read(toy):
    X = np.where(toy.X > 2.5, np.inf, toy.X)
    with pytest.raises(InvalidInputError, match="X has infinity, or a value beyond single prec"):
        FairGBMClassifier(engine(), constraint=None).fit(X, toy.y)
    named = pd.DataFrame(toy.X, columns=["a", "b", "<5", "d"])
    with pytest.raises(InvalidInputError, match="column '<5' of X has '<' in its name"):
        FairGBMClassifier(engine(), constraint=None).fit(named, toy.y)
    flags = pd.DataFrame({"a": toy.X[:, 0], "b": pd.array(toy.X[:, 1] > 0, "bool[pyarrow]")})
    FairGBMClassifier(engine(), constraint=None).fit(flags, toy.y)


@pytest.mark.parametrize("dtype", [np.float64, object])
def test_values_beyond_single_precision_are_told_of_once(toy, dtype):
    X = np.where(toy.X > 2.5, 1e200, toy.X).astype(dtype)
    with pytest.raises(InvalidInputError, match="a value beyond single precision"):
        fair(engine(), toy, X, holdout=0.3)  # a warning would be an error


def test_other_estimators_of_xgboost(toy):
    with pytest.raises(EngineOptionError, match="XGBRFClassifier does not boost"):
        fair(xgboost.XGBRFClassifier(), toy)
    for found in (xgboost.XGBRegressor(), xgboost.XGBClassifier):
        with pytest.raises(EngineOptionError, match="estimator must be an LGBMClassifier or XGB"):
            fair(found, toy)


def test_tables_that_xgboost_cannot_read(toy):
    odd = toy.frame.assign(debt=toy.frame["debt"].cat.rename_categories({"x": "x\0"}))
    if not keeps_texts():  # newer ones read it
        with pytest.raises(InvalidInputError, match="XGBoost cannot read this table"):
            fair(engine(), toy, odd)


def test_categories_of_arrow_are_those_of_pandas(toy):
    table = pa.Table.from_pandas(toy.frame)
    ours, theirs = (fair(engine(), toy, X, holdout="cross") for X in (table, toy.frame))
    for X in (table, toy.frame):
        np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(toy.frame))


# Files


READ_BY_XGBOOST = {
    "categories of polars": lambda frame: pl.DataFrame(
        frame.astype({"debt": object})
    ).with_columns(pl.col("debt").cast(pl.Categorical)),
    "names": lambda frame: frame.set_axis(["income: monthly", "a,b", "{c}", 'd"'], axis=1),
    "pyarrow": lambda frame: frame[["income", "noise"]].convert_dtypes(dtype_backend="pyarrow"),
    "whole numbers": lambda frame: sp.csr_matrix(frame[["noise", "district"]].astype(int)),
}


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("form", READ_BY_XGBOOST)
def test_memberships_are_learned_by_xgboost_itself(monkeypatch, toy, form):
    """Other engines do not read all tables that XGBoost reads, and may end the process."""
    monkeypatch.setattr(memberships, "FEW_ROWS", 100)
    learned = []
    honest = memberships.honest
    monkeypatch.setattr(
        memberships, "honest", lambda *a, **k: learned.append(honest(*a, **k)) or learned[-1]
    )
    X = READ_BY_XGBOOST[form](toy.frame)
    model = fair(engine(), toy, X, memberships="auto", holdout=0.3)
    assert len(learned) == 1 and learned[0].std() > 0.05
    assert model.multipliers_.sum() > 0


def test_an_exported_model_is_read_by_the_stock_classifier(toy, other, tmp_path):
    model = fair(engine(), toy, toy.frame, holdout=0.3)
    model.export(tmp_path / "model.json")
    stock = xgboost.XGBClassifier()
    stock.load_model(tmp_path / "model.json")
    stock.set_params(n_jobs=1)
    np.testing.assert_allclose(
        stock.predict_proba(other.frame), model.predict_proba(other.frame), rtol=0, atol=1e-6
    )
    assert stock.objective == "binary:logistic"
    assert stock.get_booster().attr("fairboost_operating_point") == "0.5"
    assert model.booster_.attributes() == {}  # the notes are in the file alone


def test_the_shap_package(toy, tmp_path):
    import warnings

    with warnings.catch_warnings(action="ignore"):  # on import, about matplotlib
        shap = pytest.importorskip("shap")
        model = fair(engine(), toy, holdout=0.3)
        explained = shap.TreeExplainer(model.booster_)(toy.X[:50])
    total = explained.values.sum(axis=-1) + explained.base_values
    np.testing.assert_allclose(total.ravel(), model._scores(toy.X[:50]), rtol=0, atol=1e-4)


def test_the_ending_of_an_exported_file(toy, tmp_path):
    with pytest.raises(ExportError, match=r"expected .json, found '.*model.txt'; rename it"):
        plain(engine(), toy.X, toy.y).export(tmp_path / "model.txt")


def test_without_xgboost_there_is_a_hint(toy, tmp_path):
    """And fairboost does not need it, nor import it, for anything else."""
    plain(engine(), toy.X, toy.y).save(tmp_path / "model")
    code = (
        "import sys; import fairboost; assert 'xgboost' not in sys.modules\n"
        "sys.modules['xgboost'] = None  # as if it were not installed\n"
        f"fairboost.load({str(tmp_path / 'model')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "is not installed; pip install 'fairboost[xgboost]'" in done.stderr.splitlines()[-1]


def test_a_file_says_which_engine(toy, tmp_path):
    model = fair(engine(subsample=0.5), toy, holdout=0.3)
    model.save(tmp_path / "model")
    content = json.loads((tmp_path / "model").read_text())["model"]
    assert content["engine"] == "xgboost" and content["engine_version"] == xgboost.__version__
    again = load(tmp_path / "model")
    assert np.isnan(again.estimator.missing)
    assert clone(again).fit(toy.X, toy.y, sensitive_features=toy.group).best_iteration_ == 8


def test_engines_by_name():
    assert name_of(xgboost.XGBClassifier) == name_of(xgboost.XGBClassifier()) == "xgboost"
    assert name_of(object()) == "lightgbm"
    with pytest.raises(ModelFileError, match="trained by the engine 'catboost', expected light"):
        load_engine("catboost")


# Scores of the rows held out: by XGBoost, or by trees that are read

TREES = {
    "plain": {},
    "by leaves": {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "several trees a round": {"num_parallel_tree": 3, "subsample": 0.5},
    "stumps and no splits": {"max_depth": 1, "gamma": 20.0},
    "missing values are -1": {"missing": -1.0},
    "scheduled": {
        "callbacks": [xgboost.callback.LearningRateScheduler(lambda k: 0.3 * 0.8**k)],
    },
}


@pytest.fixture
def table(make_toy):
    """Rows with missing values, of both kinds, and whole numbers."""
    rng, rows = np.random.default_rng(0), make_toy(n=900, seed=3)
    X = rows.X.copy()
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = -1.0
    return replace(rows, X=X)


@pytest.mark.parametrize(
    ("options", "form", "how"),
    covering(TREES, ["array", "single", "frame"], ["share", "set", "both", "frozen"]),
)
def test_scores_by_trees_are_those_of_xgboost(monkeypatch, table, make_toy, options, form, how):
    """Bit by bit: nothing that follows from them differs."""
    form_of = {
        "array": lambda X: X,
        "single": lambda X: X.astype(np.float32),
        "frame": lambda X: pd.DataFrame(X, columns=list("wxyz")).assign(
            z=X[:, 3] > 0, y=np.nan_to_num(X[:, 2] * 100).astype(int)
        ),
    }[form]
    rows, other = replace(table, X=form_of(table.X)), make_toy(n=300, seed=1)
    fit = {} if how == "share" else {"holdout_set": (form_of(other.X), other.y, other.group)}
    estimator = engine(n_estimators=12, **TREES[options])
    if how == "frozen":
        estimator = FrozenEstimator(clone(estimator).fit(rows.X, rows.y))
    found = []
    for least in (10**9, 0):
        monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", least)
        model = fair(
            estimator, rows, fit=fit, operating_point=at_fpr(0.2),
            holdout="auto" if how in ("set", "frozen") else 0.3,
        )  # fmt: skip
        found.append(model)
    pd.testing.assert_frame_equal(found[0].trace_, found[1].trace_, check_exact=True)
    assert found[0].threshold_ == found[1].threshold_
    assert model_of(found[0].booster_) == model_of(found[1].booster_)
    pushed = found[0].trace_.filter(like="multiplier: ").max(axis=None) > 0
    assert pushed or "no splits" in options  # stumps without splits tell no groups apart


@pytest.mark.parametrize("how", ["share", "set", "both"])
def test_stages_by_trees_are_those_of_xgboost(monkeypatch, toy, other, how):
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )
    held = {} if how == "share" else {"holdout_set": (other.X, other.y, other.group)}
    tables = []
    for least in (10**9, 0):
        monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", least)
        curve = tradeoff_curve(
            engine(), toy.X, toy.y, sensitive_features=toy.group, tolerances=4,
            constraint="demographic_parity", holdout="auto" if how == "set" else 0.3, **held,
        )  # fmt: skip
        tables.append(curve.table)
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.filterwarnings("ignore:[^$]*Parameters:")  # before XGBoost 3.3 only DART knows them
@pytest.mark.parametrize("drops", [{"rate_drop": 0.9}, {"one_drop": True}], ids=str)
def test_trees_are_dropped_where_xgboost_drops_them(toy, drops):
    """Since XGBoost 3.3 that is so without booster='dart'; a round is then no prefix."""
    plain, dropped = (engine(**o).fit(toy.X, toy.y).predict_proba(toy.X) for o in ({}, drops))
    model = FairGBMClassifier(engine(**drops), constraint="equal_opportunity")
    if (plain == dropped).all():
        model.fit(toy.X, toy.y, sensitive_features=toy.group)
        return
    with pytest.raises(InvalidInputError, match="DART rescales old trees"):
        model.fit(toy.X, toy.y, sensitive_features=toy.group)
    last = model.set_params(iterate="last", holdout=None)
    last.fit(toy.X, toy.y, sensitive_features=toy.group)
    rates = last.fairness_report_.rates.query("rate == 'fnr'").set_index("group")["training"]
    for g in np.unique(toy.group):
        missed = last.predict(toy.X)[(toy.y == 1) & (toy.group == g)] == 0
        assert rates[f"sensitive_feature={g}"] == pytest.approx(missed.mean())


def test_what_is_not_plain_numbers_is_left_to_xgboost(monkeypatch, toy, other):
    monkeypatch.setattr(xgboost_data, "ROWS_PER_THREAD", 0)

    def no_trees(*args):
        raise AssertionError("rows were sent down trees")

    monkeypatch.setattr("fairboost.engines.xgboost.held_out_scores.fall", no_trees)
    fair(engine(), toy, toy.frame, holdout=0.3)  # categories
    fair(engine(**KINDS["xgboost"].dart), toy, holdout=0.3)
    fair(engine(), toy, toy.X.tolist(), holdout=0.3)
    fair(engine(), toy, sp.csr_matrix(toy.X), holdout=0.3)
    fair(engine(), toy, pd.DataFrame(toy.X).astype("Float64"), holdout=0.3)
    with pytest.raises(AssertionError, match="were sent down"):
        fair(engine(), toy, holdout=0.3)
    infinite = np.array(other.X)
    infinite[5, 2] = np.inf
    with pytest.raises(InvalidInputError, match="X has infinity"):
        fair(engine(), toy, fit={"holdout_set": (infinite, other.y, other.group)})


@pytest.mark.parametrize("multipliers", ["two_sided", "paper"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_scores_far_out_come_back_as_in_xgboost(toy, multipliers, weighted, penalty):
    """There p(1 - p) = 0, but XGBoost's own curvature is never none."""
    options = {"max_depth": 1, "min_child_weight": 0.0, "reg_lambda": penalty}
    far = engine(learning_rate=300.0, n_estimators=3, **options)
    weight = {"sample_weight": toy.weight} if weighted else {}
    model = FairGBMClassifier(far, constraint=None, multipliers=multipliers)
    ours = model.fit(toy.X, toy.y, **weight).booster_.trees_to_dataframe()["Gain"]
    stock = far.fit(toy.X, toy.y, **weight).get_booster().trees_to_dataframe()["Gain"]
    np.testing.assert_allclose(ours, stock, rtol=1e-4)


def test_followers_of_dart_draw_from_one_stream(toy):
    """XGBoost 3.2 draws the trees to drop from a stream of the thread that asks."""
    dart = {**KINDS["xgboost"].dart, "rate_drop": 0.5, "n_jobs": 2, "n_estimators": 12}
    first, *others = (
        fair(engine(**dart), toy, holdout="cross", iterate="last").decision_function(toy.X)
        for _ in range(5)
    )
    for scores in others:
        np.testing.assert_array_equal(scores, first)


def test_a_best_iterate_before_early_stopping_is_a_model_that_predicts(toy):
    """XGBoost's own note of the best round is of one that is left out."""
    engine = xgboost.XGBClassifier(n_estimators=50, early_stopping_rounds=2, max_depth=3, n_jobs=1)
    model = FairGBMClassifier(engine, constraint="demographic_parity", tolerance=0.3)
    model.fit(toy.X, toy.y, sensitive_features=toy.group, eval_set=[(toy.X, toy.y)])
    short = model._model.first(2)
    assert short.n_rounds == 2
    expected = short.scores(toy.X)
    found = short.estimator.predict(toy.X, output_margin=True)  # up to the best round, if noted
    np.testing.assert_array_equal(found, expected)


def test_models_of_one_training_share_no_options(toy):
    """XGBoost keeps options without a name of their own in one dict, and changes it in place."""
    engine = xgboost.XGBClassifier(n_estimators=8, max_cached_hist_node=100, n_jobs=1)
    model = FairGBMClassifier(engine, holdout=0.3, iterate="last")
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    shorter = model._model.first(3).estimator.set_params(max_cached_hist_node=7)
    assert shorter.get_booster().num_boosted_rounds() == 3
    assert model.estimator_.get_params()["max_cached_hist_node"] == 100


def test_no_value_for_missing_ones_is_refused(toy):
    """XGBoost would train, and fail when it predicts."""
    with pytest.raises(EngineOptionError, match="missing=None, with which XGBoost trains and"):
        plain(xgboost.XGBClassifier(missing=None, n_jobs=1), toy.X, toy.y)
