"""LightGBM's own loss of several classes: what its options say, and metrics of raw scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils import compute_class_weight

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.engines.lightgbm import options
from fairboost.engines.port import LossTerms
from fairboost.exceptions import EngineOptionError

OBJECTIVES = ("multiclass", "softmax")
"""Names of the objective, the first its own."""

LEAST_SHARE = 1e-15
"""Of a class, that LightGBM starts from."""


def objective_name(n_classes: int) -> str:
    """The objective as it stands in the text of a model."""
    return f"multiclass num_class:{n_classes}"


def check_options(params: dict[str, Any], n_classes: int) -> None:
    """Refuse options that are for two classes, or for another number of them.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's ``LGBMClassifier``.
    n_classes : int
        Classes that y has.
    """
    found = options.option(params, "num_class")
    if found is not None and int(found) not in (1, n_classes):
        raise EngineOptionError(
            f"the estimator sets num_class={found}, but y has {n_classes} classes; leave "
            "num_class out"
        )
    objective = params.get("objective")
    if objective is not None and objective not in OBJECTIVES:
        raise EngineOptionError(
            f"the estimator sets objective={objective!r}, but y has {n_classes} classes; leave "
            "objective out"
        )
    unbalanced = options.is_true(options.option(params, "is_unbalance", False))
    scaled = float(options.option(params, "scale_pos_weight", 1.0)) != 1.0
    for name, asked in (("is_unbalance", unbalanced), ("scale_pos_weight", scaled)):
        if asked:
            raise EngineOptionError(
                f"the estimator sets {name}, which is for two classes, and y has {n_classes}; use "
                "class_weight"
            )


def read_loss_terms(
    params: dict[str, Any], labels: IntArray, sample_weight: Float32Array | None, classes: Any
) -> LossTerms:
    """Give class weights and the starting scores the meaning they have in stock LightGBM."""
    n = len(classes)
    by_class, class_weight = np.ones(n), params.get("class_weight")
    if class_weight is not None:
        if isinstance(class_weight, dict):
            class_weight = options.by_code(class_weight, np.asarray(classes))
        by_class = compute_class_weight(class_weight, classes=np.arange(n), y=labels)
        # LightGBM keeps weights in single precision.
        by_class = by_class.astype(np.float32).astype(np.float64)
    weights = by_class * np.bincount(labels, sample_weight, n)
    intercept = np.zeros(n)
    if options.is_true(options.option(params, "boost_from_average", True)):
        intercept = np.log(np.maximum(weights / weights.sum(), LEAST_SHARE))
    return LossTerms(intercept, tuple(by_class.tolist()), curvature=n / (n - 1.0))


def _rows(scores: FloatArray, rows: Any) -> tuple[FloatArray, IntArray]:
    """Scores by class, whose own is marked, and labels."""
    labels = np.asarray(rows.get_label(), np.intp)
    return np.reshape(scores, (len(labels), -1), order="F"), labels


def _logloss(scores: FloatArray, rows: Any) -> tuple[str, float, bool]:
    by_class, labels = _rows(scores, rows)
    loss = -log_softmax(by_class, axis=1)[np.arange(len(labels)), labels]
    loss = np.minimum(loss, -np.log(LEAST_SHARE))  # as LightGBM's own
    return "multi_logloss", float(np.average(loss, weights=rows.get_weight())), False


def _error(scores: FloatArray, rows: Any) -> tuple[str, float, bool]:
    by_class, labels = _rows(scores, rows)
    own = by_class[np.arange(len(labels)), labels]
    wrong = (by_class >= own[:, np.newaxis]).sum(axis=1) > 1  # ties are wrong, as in LightGBM
    return "multi_error", float(np.average(wrong, weights=rows.get_weight())), False


METRICS = options.MetricSet(
    own="multi_logloss",
    builtin=(),
    functions={"multi_logloss": _logloss, "multi_error": _error},
    names=options.NO_METRIC
    | {
        "multiclass": "multi_logloss", "softmax": "multi_logloss", "logloss": "multi_logloss",
        "error": "multi_error",
    },
    link=lambda scores: np.asarray(softmax(scores, axis=1)),
    word="probability",
)  # fmt: skip
