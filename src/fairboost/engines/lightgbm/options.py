"""LightGBM's options that a custom objective contradicts or silently drops: honoured or refused.

With an objective of ours LightGBM ignores, without a word, everything that its own objective would
have read. What can be given the same meaning is given it (:func:`read_loss_terms`,
:func:`read_metrics`); the rest raises (:func:`check_options`). What is said here of the objective
is of classifiers; that of regressors is in :mod:`fairboost.engines.lightgbm.regression`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.utils import compute_class_weight

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.engines.options import (
    Aliases,
    check_allowed,
    check_objective,
    check_thread_count,
    check_two_labels,
)
from fairboost.engines.port import LossTerms
from fairboost.exceptions import EngineOptionError

# Every name under which LightGBM knows an option, first the one that it lets win.
ALIASES = Aliases({
    "objective": ("objective", "objective_type", "app", "application", "loss"),
    "num_class": ("num_class", "num_classes"),
    "num_threads": ("num_threads", "n_jobs"),
    "boosting": ("boosting", "boost", "boosting_type"),
    "metric": ("metric", "metrics", "metric_types"),
    "bagging_fraction": ("bagging_fraction", "sub_row", "subsample", "bagging"),
    "bagging_freq": ("bagging_freq", "subsample_freq"),
    "data_sample_strategy": ("data_sample_strategy",),
    "is_unbalance": ("is_unbalance", "unbalance", "unbalanced_sets"),
    "pos_bagging_fraction": (
        "pos_bagging_fraction", "pos_sub_row", "pos_subsample", "pos_bagging",
    ),
    "neg_bagging_fraction": (
        "neg_bagging_fraction", "neg_sub_row", "neg_subsample", "neg_bagging",
    ),
    "num_machines": ("num_machines", "num_machine"),
    "use_quantized_grad": ("use_quantized_grad",),
    "verbosity": ("verbosity", "verbose"),
    "device_type": ("device_type", "device"),
    "bin_construct_sample_cnt": ("bin_construct_sample_cnt", "subsample_for_bin"),
    "enable_bundle": ("enable_bundle", "is_enable_bundle", "bundle"),
    "num_iterations": (
        "num_iterations", "n_estimators", "num_iteration", "n_iter", "num_tree", "num_trees",
        "num_round", "num_rounds", "nrounds", "num_boost_round", "max_iter",
    ),
    "num_leaves": ("num_leaves", "num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
    "max_bin": ("max_bin", "max_bins"),
    "linear_tree": ("linear_tree", "linear_trees"),
    "learning_rate": ("learning_rate", "shrinkage_rate", "eta"),
    "early_stopping_round": (
        "early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change",
    ),
    "monotone_constraints": (
        "monotone_constraints", "mc", "monotone_constraint", "monotonic_cst",
    ),
    "monotone_constraints_method": (
        "monotone_constraints_method", "monotone_constraining_method", "mc_method",
    ),
    "forcedsplits_filename": (
        "forcedsplits_filename", "fs", "forced_splits_filename", "forced_splits_file",
        "forced_splits",
    ),
    "categorical_feature": (
        "categorical_feature", "cat_feature", "categorical_column", "cat_column",
        "categorical_features",
    ),
})  # fmt: skip
option, without = ALIASES.value, ALIASES.without

# What each of these may be, and why nothing else.
ALLOWED = {
    "sigmoid": ((1,), "scores are log-odds here"),
    "pos_bagging_fraction": ((1,), "LightGBM drops it with a custom objective; use subsample"),
    "neg_bagging_fraction": ((1,), "LightGBM drops it with a custom objective; use subsample"),
    "num_machines": ((1,), "rates would be those of one machine's rows"),
}

# Metrics that depend on the order of scores only: right on raw scores, so LightGBM computes them.
RANK_METRICS = ("auc", "average_precision")

# Other names of metrics.
NO_METRIC = {"": "none", "null": "none", "na": "none", "custom": "none"}
METRIC_NAMES = NO_METRIC | {
    "binary": "binary_logloss", "logloss": "binary_logloss", "multi_logloss": "binary_logloss",
    "cross_entropy": "binary_logloss", "xentropy": "binary_logloss",
    "error": "binary_error", "multi_error": "binary_error",
}  # fmt: skip


def _check_device(params: dict[str, Any]) -> None:
    """Refuse GPUs that LightGBM does not know, or that it has no gradients on."""
    device = option(params, "device_type")
    if device in (None, "cpu", "gpu"):
        return
    name = ALIASES.name(params, "device_type")
    other = f"leave {name} out, or, for two labels, use XGBClassifier(device='cuda')"
    if device == "cuda":
        raise EngineOptionError(
            f"the estimator sets {name}={device!r}. LightGBM takes gradients of the host only, "
            f"and would have to copy them in every round; {other}"
        )
    raise EngineOptionError(
        f"the estimator sets {name}={device!r}, expected 'cpu' or 'gpu' (OpenCL); {other}"
    )


def check_options(params: dict[str, Any]) -> None:
    """Refuse the options that contradict the method.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's ``LGBMClassifier``.
    """
    check_objective(option(params, "objective"), "binary", "multiclass", "softmax")
    check_shared(params, ALLOWED)
    if is_true(option(params, "is_unbalance", False)) and _scale_pos_weight(params) != 1:
        raise EngineOptionError(
            "the estimator sets both is_unbalance and scale_pos_weight, which LightGBM does not "
            "allow; keep one of them"
        )


def check_shared(
    params: dict[str, Any], allowed: Mapping[str, tuple[tuple[Any, ...], str]]
) -> None:
    """Refuse the options that contradict the method, whatever is predicted.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's estimator.
    allowed : mapping
        As ``ALLOWED``.
    """
    for alias in ALIASES["objective"][1:]:
        if alias in params:  # even as None it would make LightGBM forget our objective
            raise EngineOptionError(
                f"the estimator sets {alias}={params[alias]!r}, which LightGBM puts before any "
                f"objective that fairboost brings; leave {alias} out, and name an objective by "
                "objective= alone"
            )
    check_allowed(partial(option, params), allowed, float)
    _check_device(params)
    check_thread_count(ALIASES.name(params, "num_threads"), option(params, "num_threads"))
    if (categorical := option(params, "categorical_feature")) is not None:
        raise EngineOptionError(
            f"the estimator sets categorical_feature={categorical!r}; pass it to fit instead, "
            "fit(..., categorical_feature=[...])"
        )
    if _boosting(params) in ("rf", "random_forest"):
        raise EngineOptionError(
            "the estimator sets boosting_type='rf', which does not boost: LightGBM takes no "
            "custom objective there; use 'gbdt' (with subsample and colsample_bytree if you "
            "like) or 'dart'"
        )


def directions(params: dict[str, Any]) -> list[float]:
    """The directions that features are asked to have in predictions; none as a rule."""
    asked = option(params, "monotone_constraints")
    return list(map(float, asked.tolist() if isinstance(asked, np.ndarray) else _as_list(asked)))


def check_monotone(params: dict[str, Any], X: Any, categorical: Any) -> None:
    """Refuse what LightGBM ends the process over: directions of features of categories.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's ``LGBMClassifier``.
    X : table
        The features.
    categorical : "auto" or sequence of str or int
        The argument ``categorical_feature`` of ``fit``.
    """
    names = list(getattr(X, "columns", ()))
    if isinstance(categorical, str):  # "auto": those of pandas that have no order
        dtypes = enumerate(X.dtypes) if isinstance(X, pd.DataFrame) else ()
        categorical = [
            k for k, d in dtypes if isinstance(d, pd.CategoricalDtype) and not d.ordered
        ]
    of_categories = {names.index(c) if c in names else c for c in categorical}
    asked = directions(params)
    advanced = option(params, "monotone_constraints_method") == "advanced"
    if advanced and of_categories and not any(asked):
        raise EngineOptionError(
            "the estimator sets monotone_constraints_method='advanced', but no direction, which "
            "LightGBM crashes on where features have categories; leave it out"
        )
    if of_categories and asked and len(asked) != (width := int(X.shape[1])):
        raise EngineOptionError(
            f"monotone_constraints has {len(asked)} directions, expected one for each of the "
            f"{width} features"
        )
    for k, direction in enumerate(asked):
        if k in of_categories and direction != 0:
            raise EngineOptionError(
                f"monotone_constraints asks for a direction of feature {k}, whose values are "
                "categories without an order; set it to 0 there"
            )


def forced_features(params: dict[str, Any]) -> list[int]:
    """Features of the splits that a file of the user's forces on every tree."""
    path, found = option(params, "forcedsplits_filename"), []
    nodes = [json.loads(Path(path).read_text(encoding="utf-8"))] if path else []
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict) and "feature" in node:
            found.append(int(node["feature"]))
            nodes += [node.get("left"), node.get("right")]
    return found


def draws_rows(params: dict[str, Any]) -> bool:
    """Tell whether trees are grown on some of the rows each."""
    share = float(option(params, "bagging_fraction", 1.0))
    every = int(option(params, "bagging_freq", 0))
    goss = str(option(params, "data_sample_strategy", "")).lower() == "goss"
    return goss or (share < 1.0 and every > 0)


def is_dart(params: dict[str, Any]) -> bool:
    """Tell whether trees are rescaled after they are grown."""
    return _boosting(params) == "dart"


def read_loss_terms(
    params: dict[str, Any], labels: IntArray, sample_weight: Float32Array | None, classes: Any
) -> LossTerms:
    """Give class weights and the starting score the meaning they have in stock LightGBM.

    There, ``class_weight`` multiplies sample weights and so moves the average that boosting starts
    from; ``is_unbalance`` and ``scale_pos_weight`` multiply the gradient only.
    """
    for name, expected in (("num_class", 1), ("objective", "binary")):
        check_two_labels(name, option(params, name), expected)
    by_class, class_weight = np.ones(2), params.get("class_weight")
    if class_weight is not None:
        if isinstance(class_weight, dict):
            class_weight = by_code(class_weight, np.asarray(classes))
        by_class = compute_class_weight(class_weight, classes=np.array([0, 1]), y=labels)
        # LightGBM keeps weights in single precision.
        by_class = by_class.astype(np.float32).astype(np.float64)
    counts = np.bincount(labels, minlength=2).astype(np.float64)
    weights = counts if sample_weight is None else np.bincount(labels, sample_weight, 2)
    negative, positive = by_class * weights
    factor = np.ones(2)
    if is_true(option(params, "is_unbalance", False)):
        factor = counts.max() / counts
    factor[1] *= _scale_pos_weight(params)
    intercept = 0.0
    if is_true(option(params, "boost_from_average", True)):
        share = min(max(positive / (negative + positive), 1e-15), 1 - 1e-15)
        intercept = math.log(share / (1 - share))
    final = by_class * factor
    return LossTerms(intercept, (float(final[0]), float(final[1])))


def by_code(class_weight: dict[Any, float], classes: Any) -> dict[int, float]:
    """The weights of 0 and 1 instead of labels, of which scikit-learn cannot read dates."""
    # Of moments NumPy makes plain numbers, which no user has named.
    known = list(classes) if classes.dtype.kind == "M" else classes.tolist()
    for label in class_weight:
        if label not in known:
            raise EngineOptionError(
                f"class_weight names the label {label!r}, but y has "
                f"{' and '.join(map(repr, known))}"
            )
    return {known.index(label): weight for label, weight in class_weight.items()}


@dataclass(frozen=True)
class MetricSet:
    """Metrics that an objective goes with.

    Parameters
    ----------
    own : str
        The objective's own, which LightGBM always shows.
    builtin : tuple of str
        Those that are right on raw scores, so that LightGBM computes them.
    functions : mapping
        The others, as functions of raw scores and a ``lightgbm.Dataset``.
    names : mapping
        Other names of metrics.
    link : callable
        Makes of scores what functions of the user take.
    word : str
        What that is.
    """

    own: str
    builtin: tuple[str, ...]
    functions: Mapping[Any, Callable[..., Any]]
    names: Mapping[str, str]
    link: Callable[[FloatArray], FloatArray]
    word: str


def _logloss(scores: FloatArray, rows: Any) -> tuple[str, float, bool]:
    with np.errstate(invalid="ignore"):  # a training that diverges is stopped, and says so
        loss = np.logaddexp(0.0, np.where(rows.get_label() > 0, -scores, scores))
    loss = np.minimum(loss, -math.log(1e-15))  # as LightGBM's own, by which training may stop
    return "binary_logloss", float(np.average(loss, weights=rows.get_weight())), False


def _error(scores: FloatArray, rows: Any) -> tuple[str, float, bool]:
    wrong = (scores > 0) != (rows.get_label() > 0)
    return "binary_error", float(np.average(wrong, weights=rows.get_weight())), False


OWN_METRICS: dict[Any, Callable[..., Any]] = {"binary_logloss": _logloss, "binary_error": _error}


BINARY_METRICS = MetricSet(
    own="binary_logloss",
    builtin=RANK_METRICS,
    functions=OWN_METRICS,
    names=METRIC_NAMES,
    link=expit,
    word="probability",
)


def read_metrics(
    params: dict[str, Any],
    eval_metric: Any,
    has_eval_set: bool,
    first_metric_only: bool = False,
    metrics: MetricSet = BINARY_METRICS,
) -> tuple[list[str], list[Callable[..., Any]]]:
    """Metrics on an evaluation set, with the meaning they have for LightGBM's own objective.

    With a custom objective LightGBM hands raw scores to every metric. Rank metrics do not mind;
    others are replaced by functions that apply the link first, and so are the user's own.

    Returns
    -------
    builtin : list of str
        Metrics of LightGBM's own.
    functions : list of callable
        The others, as functions of raw scores and a ``lightgbm.Dataset``.
    """
    if not has_eval_set:
        return [], []
    in_options = _as_list(option(params, "metric"))
    names = [_metric_name(m, metrics) for m in (*_as_list(eval_metric), *in_options)]
    if "none" in names:
        names = [m for m in names if m != "none"]
    elif not any(isinstance(m, str) for m in in_options):
        names.append(metrics.own)  # as LightGBM does: the objective's own metric, always
    # LightGBM puts functions last.
    ordered = sorted(dict.fromkeys(names), key=callable)
    builtin = [m for m in ordered if m in metrics.builtin]
    others = [
        metrics.functions.get(m) or _on_predictions(m, metrics)
        for m in ordered
        if m not in builtin
    ]
    stop_by_first = first_metric_only or is_true(option(params, "first_metric_only", False))
    if stop_by_first and builtin and ordered[0] not in builtin:
        raise EngineOptionError(
            f"first_metric_only is set and the first metric is {ordered[0]!r}, but LightGBM would "
            f"see {builtin[0]!r} first; name only the metric to stop by"
        )
    return builtin, others


def _metric_name(metric: Any, metrics: MetricSet) -> Any:
    """Bring a metric's aliases to one name; refuse those that would be wrong on raw scores."""
    if callable(metric):
        return metric
    name = metrics.names.get(str(metric).lower(), str(metric).lower())
    known = (*metrics.functions, *metrics.builtin)
    if name not in (*known, "none"):
        raise EngineOptionError(
            f"the evaluation metric {metric!r} is not supported: with a custom objective "
            f"LightGBM would compute it on raw scores. Expected {', '.join(known)} or a function "
            f"f(y_true, {metrics.word}[, weight])"
        )
    return name


def _on_predictions(metric: Callable[..., Any], metrics: MetricSet) -> Callable[..., Any]:
    """Hand the user's metric predictions, as LightGBM's own objective would."""
    n_arguments = len(signature(metric).parameters)
    if not 2 <= n_arguments <= 4:
        raise EngineOptionError(
            f"an evaluation metric must be a function f(y_true, {metrics.word}[, weight[, "
            f"group]]), found {metric!r} with {n_arguments} arguments"
        )

    def evaluate(scores: FloatArray, rows: Any) -> Any:
        known = rows.get_label(), metrics.link(scores), rows.get_weight(), rows.get_group()
        return metric(*known[:n_arguments])

    return evaluate


def _as_list(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, list | tuple | set) else [value]


def has_linear_trees(params: dict[str, Any]) -> bool:
    """Tell whether leaves are linear in the features."""
    return is_true(option(params, "linear_tree", False))


def quantizes(params: dict[str, Any]) -> bool:
    """Tell whether gradients are rounded to a few levels."""
    return is_true(option(params, "use_quantized_grad", False))


def looks_at_few_rows(params: dict[str, Any]) -> bool:
    """Tell whether bins are made from fewer rows than by default, and features bundled by them."""
    few = int(option(params, "bin_construct_sample_cnt", 200_000)) < 200_000
    return few and is_true(option(params, "enable_bundle", True))


def _boosting(params: dict[str, Any]) -> str:
    return str(option(params, "boosting", "gbdt")).lower()


def _scale_pos_weight(params: dict[str, Any]) -> float:
    weight = float(option(params, "scale_pos_weight", 1.0))
    if not weight > 0:
        raise EngineOptionError(f"scale_pos_weight must be positive, found {weight}")
    return weight


def is_true(value: Any) -> bool:
    """Read a truth value as LightGBM does, which takes it as text too."""
    return value.lower() in ("true", "+", "1") if isinstance(value, str) else bool(value)
