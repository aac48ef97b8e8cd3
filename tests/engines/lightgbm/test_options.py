from __future__ import annotations

import math

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from lightgbm.basic import LightGBMError, _ConfigAliases
from scipy.special import expit

from fairboost import FairGBMClassifier
from fairboost.engines.lightgbm import options
from fairboost.engines.lightgbm.options import (
    check_options,
    looks_at_few_rows,
    read_loss_terms,
    read_metrics,
)
from fairboost.exceptions import EngineOptionError


def params(**given):
    return LGBMClassifier(**given).get_params()


# Names of options


@pytest.mark.parametrize("name", sorted(set(options.ALIASES) - {"num_threads"}))
def test_every_name_that_lightgbm_knows_is_known(name):
    assert set(options.ALIASES[name]) == _ConfigAliases.get(name)


@pytest.mark.parametrize(
    "name", ["boost_from_average", "scale_pos_weight", "sigmoid", "first_metric_only"]
)
def test_options_that_have_one_name(name):
    assert _ConfigAliases.get(name) == {name}


def test_the_name_that_lightgbm_lets_win():
    assert (
        options.option(params(boosting="dart"), "boosting") == "dart"
    )  # over boosting_type="gbdt"
    assert options.option({"boosting_type": "gbdt", "boost": "dart"}, "boosting") == "dart"
    assert options.option({"metric": None, "metrics": "auc"}, "metric") == "auc"
    assert options.option({}, "boosting", "default") == "default"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"objective": "binary"},
        {"num_class": 1, "sigmoid": 1.0, "num_machines": 1, "pos_bagging_fraction": 1.0},
        {"boosting_type": "dart"},
        {"is_unbalance": True},
        {"is_unbalance": False, "scale_pos_weight": 2.0},
        {"scale_pos_weight": 5.0},
    ],
)
def test_options_that_pass(given):
    check_options(params(**given))


@pytest.mark.parametrize("alias", ["objective", "objective_type", "app", "application", "loss"])
def test_an_objective_by_any_name_is_refused(alias):
    with pytest.raises(EngineOptionError, match=r"the estimator sets .*='regression'"):
        check_options(params(**{alias: "regression"}))


@pytest.mark.parametrize("alias", ["objective_type", "app", "application", "loss"])
@pytest.mark.parametrize("value", ["binary", None])
def test_another_name_of_objective_would_replace_ours(alias, value):
    with pytest.raises(EngineOptionError, match=f"sets {alias}={value!r}, .* leave {alias} out"):
        check_options(params(objective="binary", **{alias: value}))


@pytest.mark.parametrize("name", ["boosting", "boost", "boosting_type"])
@pytest.mark.parametrize("value", ["dart", "DART"])
def test_dart_by_any_name(name, value):
    assert options.is_dart(params(**{name: value}))
    assert not options.is_dart(params())


@pytest.mark.parametrize("value", ["rf", "RF", "random_forest"])
def test_random_forests_by_any_name(value):
    with pytest.raises(EngineOptionError, match="does not boost"):
        check_options(params(boosting=value))


@pytest.mark.parametrize("name", ["device_type", "device"])
def test_gpus_by_any_name(name):
    with pytest.raises(EngineOptionError, match=f"{name}='cuda'. LightGBM takes gradients of"):
        check_options(params(**{name: "cuda"}))
    with pytest.raises(EngineOptionError, match=f"{name}='cuda:1', expected 'cpu' or 'gpu'"):
        check_options(params(**{name: "cuda:1"}))
    check_options(params(**{name: "gpu"}))


def test_what_lightgbm_says_of_opencl_has_a_remedy(monkeypatch, toy):
    def fit(*_, **__):
        raise LightGBMError("No OpenCL device found")

    model = FairGBMClassifier(LGBMClassifier(device_type="gpu", verbose=-1))
    monkeypatch.setattr(LGBMClassifier, "fit", fit)
    with pytest.raises(EngineOptionError, match=r"No OpenCL device found; leave device_type out"):
        model.fit(toy.X, toy.y, sensitive_features=toy.group)


@pytest.mark.parametrize(
    ("given", "expected"), [({}, None), ({"n_jobs": 3}, 3), ({"num_threads": 2, "n_jobs": 3}, 2)]
)
def test_threads(given, expected):
    assert options.option(params(**given), "num_threads") == expected


# The loss

LABELS = np.array([0] * 6 + [1] * 2, np.int32)
WEIGHT = np.array([1, 1, 1, 1, 1, 1, 2, 4], np.float32)


def terms(weight=None, classes=(0, 1), **given):
    return read_loss_terms(params(**given), LABELS, weight, np.array(classes))


@pytest.mark.parametrize(
    ("given", "weight", "share", "label_weights"),
    [
        ({}, None, 2 / 8, (1, 1)),
        ({}, WEIGHT, 6 / 12, (1, 1)),
        ({"scale_pos_weight": 3.0}, None, 2 / 8, (1, 3)),
        ({"is_unbalance": True}, None, 2 / 8, (1, 3)),
        ({"is_unbalance": "true"}, WEIGHT, 6 / 12, (1, 3)),  # counts rows, not weights
        ({"is_unbalance": "false"}, None, 2 / 8, (1, 1)),
        ({"class_weight": "balanced"}, None, 1 / 2, (2 / 3, 2)),
        ({"class_weight": {0: 1.0, 1: 4.0}}, None, 8 / 14, (1, 4)),
        ({"class_weight": {0: 1.0, 1: 4.0}}, WEIGHT, 24 / 30, (1, 4)),
        ({"class_weight": {1: 2.0}, "scale_pos_weight": 5.0}, None, 4 / 10, (1, 10)),
    ],
)
def test_loss_terms(given, weight, share, label_weights):
    found = terms(weight, **given)
    assert found.intercept == pytest.approx(math.log(share / (1 - share)), abs=1e-7)
    assert found.label_weights == pytest.approx(label_weights, rel=1e-7)


@pytest.mark.parametrize("value", [False, "false", 0])
def test_no_boosting_from_the_average(value):
    assert terms(boost_from_average=value).intercept == 0.0


def test_class_weight_by_the_users_labels():
    assert terms(classes=("no", "yes"), class_weight={"yes": 3.0}).label_weights == (1, 3)


@pytest.mark.parametrize("given", [{0: 1.0, 2: 3.0}, {0: 1.0, 1: 1.0, 2: 3.0}])
def test_class_weight_of_labels_that_are_not_there(given):
    with pytest.raises(EngineOptionError, match="names the label 2, but y has 0 and 1"):
        terms(class_weight=given)


def test_is_unbalance_weighs_the_smaller_class_whichever_it_is():
    found = read_loss_terms(params(is_unbalance=True), 1 - LABELS, None, np.array([0, 1]))
    assert found.label_weights == (3, 1)


# Metrics


class Labelled:
    """What a metric asks of a ``lightgbm.Dataset``."""

    def __init__(self, y, weight=None):
        self.get_label, self.get_weight = lambda: np.asarray(y), lambda: weight


def names(metrics):
    builtin, functions = metrics
    return [*builtin, *(f(np.zeros(2), Labelled([0.0, 1.0]))[0] for f in functions)]


@pytest.mark.parametrize(
    ("eval_metric", "metric", "expected"),
    [
        (None, None, ["binary_logloss"]),
        ("auc", None, ["auc", "binary_logloss"]),
        ("AUC", None, ["auc", "binary_logloss"]),
        (None, "auc", ["auc"]),
        ("binary_error", "auc", ["auc", "binary_error"]),
        (["error", "logloss"], None, ["binary_error", "binary_logloss"]),
        (None, "auc, binary_error", ["auc", "binary_error"]),
        (None, ("auc", "average_precision"), ["auc", "average_precision"]),
        (None, "None", []),
        ("xentropy", "binary", ["binary_logloss"]),
    ],
)
def test_metrics_by_name(eval_metric, metric, expected):
    given = {} if metric is None else {"metric": metric}
    assert names(read_metrics(params(**given), eval_metric, True)) == expected


def test_no_metrics_without_an_evaluation_set():
    assert read_metrics(params(metric="auc"), "gamma", False) == ([], [])


def test_our_metrics_are_those_of_probabilities():
    rng = np.random.default_rng(0)
    y, scores, weight = rng.integers(0, 2, 50), rng.normal(size=50) * 3, rng.random(50)
    p = expit(scores)
    _, (logloss, error) = read_metrics(params(), ["logloss", "error"], True)
    expected = -np.where(y, np.log(p), np.log1p(-p))
    assert logloss(scores, Labelled(y, None)) == (
        "binary_logloss",
        pytest.approx(expected.mean()),
        False,
    )
    weighted = np.average(expected, weights=weight)
    assert logloss(scores, Labelled(y, weight)) == (
        "binary_logloss",
        pytest.approx(weighted),
        False,
    )
    wrong = (p > 0.5) != y
    assert error(scores, Labelled(y, None)) == ("binary_error", pytest.approx(wrong.mean()), False)
    weighted = np.average(wrong, weights=weight)
    assert error(scores, Labelled(y, weight)) == ("binary_error", pytest.approx(weighted), False)


def test_log_loss_of_scores_beyond_the_range_of_probabilities():
    _, (logloss,) = read_metrics(params(), None, True)
    largest = -np.log(1e-15)  # LightGBM's
    assert logloss(np.array([800.0, -800.0]), Labelled([0, 1]))[1] == pytest.approx(largest)


def test_first_metric_only():
    both = ["binary_error", "auc"]
    with pytest.raises(EngineOptionError, match="name only the metric to stop by"):
        read_metrics(params(first_metric_only=True), both, True)
    with pytest.raises(EngineOptionError, match="name only the metric to stop by"):
        read_metrics(params(), both, True, first_metric_only=True)
    assert names(read_metrics(params(), both, True))[0] == "auc"
    assert names(read_metrics(params(first_metric_only=True), both[::-1], True))[0] == "auc"
    alone = read_metrics(params(first_metric_only=True), "binary_error", True)
    assert names(alone) == ["binary_error", "binary_logloss"]


def test_bins_of_few_rows_matter_where_features_are_bundled():
    """Scores of such a training are measured again, by predicting."""
    few = {"bin_construct_sample_cnt": 1_000}
    assert not looks_at_few_rows({})
    assert looks_at_few_rows(few)
    for name, value in (("enable_bundle", False), ("is_enable_bundle", "false")):
        assert not looks_at_few_rows({**few, name: value})
