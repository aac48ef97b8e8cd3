"""XGBoost's options that a custom objective contradicts or silently drops: honoured or refused.

With gradients of ours XGBoost's own objective is asked for two things only, the link and the
metrics; what else it would have read, ``scale_pos_weight`` and the score to start from, is given
the same meaning here (:func:`read_loss_terms`, :func:`read_number_terms`). The rest raises
(:func:`check_options`, :func:`check_fit_options`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import xgboost
from scipy.special import expit

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.engines.options import (
    Aliases,
    check_allowed,
    check_objective,
    check_thread_count,
    check_two_labels,
)
from fairboost.engines.port import LossTerms
from fairboost.engines.xgboost.device import ordinal_of
from fairboost.engines.xgboost.objectives import (
    LOGISTIC,
    OBJECTIVES,
    SOFTMAX,
    Objective,
    check_targets,
    estimated_start,
    in_single,
)
from fairboost.exceptions import EngineOptionError

# Every name under which XGBoost knows an option, scikit-learn's first.
ALIASES = Aliases(
    n_jobs=("n_jobs", "nthread"),
    learning_rate=("learning_rate", "eta"),
    random_state=("random_state", "seed"),
)
option, without = ALIASES.value, ALIASES.without

DEFAULT_RATE = 0.3
"""XGBoost's learning rate where none is given."""

# What each of these may be, and why nothing else.
ALLOWED: dict[str, tuple[tuple[Any, ...], str]] = {
    "booster": (
        ("gbtree", "dart"),
        "fairboost keeps a prefix of an ensemble of trees, and a linear model has none",
    ),
    "multi_strategy": (("one_output_per_tree",), "fairboost is for one label"),
    "process_type": (("default",), "fairboost grows trees of its own"),
    "gpu_id": ((), "XGBoost has removed it, and device='cuda' asks for a GPU"),
    "tree_method": (
        ("auto", "hist", "approx", "exact"),
        "on a GPU trees are grown by 'hist', with device='cuda'",
    ),
    "boost_from_average": ((), "XGBoost itself passes over it; base_score sets where to start"),
}
ALLOWED_OF_NUMBERS: dict[str, tuple[tuple[Any, ...], str]] = {
    "num_class": ((0, 1), "a regressor predicts one number"),
    "scale_pos_weight": ((1,), "it is for two labels; sample_weight weighs rows"),
}


def check_options(params: dict[str, Any], objective: Objective) -> None:
    """Refuse the options that contradict the method.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's estimator.
    objective : Objective
        What the estimator predicts.
    """
    if objective.loss is None:
        check_objective(option(params, "objective"), LOGISTIC, SOFTMAX, "multi:softmax")
        _scale_pos_weight(params)
    else:
        check_allowed(partial(option, params), ALLOWED_OF_NUMBERS)
    check_allowed(partial(option, params), ALLOWED)
    _check_device(params, objective)
    if params.get("missing", 0.0) is None:
        raise EngineOptionError(
            "the estimator sets missing=None, with which XGBoost trains and cannot predict; leave "
            "missing out, so that NaN stands for a missing value"
        )
    check_thread_count(ALIASES.name(params, "n_jobs"), option(params, "n_jobs"))
    rounds = option(params, "n_estimators", 100)
    if not rounds >= 1:
        raise EngineOptionError(f"n_estimators must be at least 1, found {rounds!r}")
    objective.read_loss(params)
    _base_score(params, objective)


def _check_device(params: dict[str, Any], objective: Objective) -> None:
    """Refuse what cannot be trained on a GPU, by name."""
    if ordinal_of(params.get("device")) is None:
        return
    asked, remedy = f"device={params['device']!r}", "leave device out to train on the CPU"
    if objective.loss is not None:
        raise EngineOptionError(
            f"the estimator sets {asked}, and numbers are predicted on the CPU only; {remedy}"
        )
    if is_dart(params):
        raise EngineOptionError(
            f"the estimator sets {asked} and drops trees (DART). Scores on a GPU are those of the "
            f"trees so far, and DART changes trees afterwards; use booster='gbtree', or {remedy}"
        )
    method = option(params, "tree_method")
    if method not in (None, "auto", "hist"):
        raise EngineOptionError(
            f"the estimator sets {asked} and tree_method={method!r}; on a GPU fairboost trains "
            f"with tree_method='hist' only; {remedy}"
        )


def check_fit_options(
    params: dict[str, Any], fit_options: dict[str, Any], objective: Objective
) -> None:
    """Refuse arguments of ``fit`` that XGBoost takes elsewhere, or not at all.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's estimator.
    fit_options : dict
        The engine's own arguments of ``fit``.
    objective : Objective
        What the estimator predicts.
    """
    estimator = objective.kind.__name__
    read_metrics(params, objective)
    for name in ("eval_metric", "callbacks"):
        if fit_options.get(name) is not None:
            raise EngineOptionError(
                f"XGBoost takes {name} with its other options, not in fit; pass "
                f"{estimator}({name}=...)"
            )
    if fit_options.get("categorical_feature", "auto") != "auto":
        raise EngineOptionError(
            "categorical_feature is an argument of LightGBM; XGBoost reads columns of a "
            f"categorical dtype, with {estimator}(enable_categorical=True), or feature_types"
        )
    if option(params, "early_stopping_rounds") is not None and not fit_options.get("eval_set"):
        raise EngineOptionError(
            "the estimator sets early_stopping_rounds, but there is no set to be stopped by; pass "
            "fit(..., eval_set=[(X, y)]), or leave early_stopping_rounds out"
        )
    for name in fit_options.get("eval_names") or ():
        if "-" in str(name):
            raise EngineOptionError(
                f"eval_names has {name!r}, but XGBoost allows no hyphen in the name of a set"
            )
    sets = fit_options.get("eval_set") or ()
    count = 1 if isinstance(sets, tuple) and sets else len(sets)
    for what in ("eval_names", "eval_sample_weight"):
        given = fit_options.get(what)
        if given is not None and len(given) != count:
            raise EngineOptionError(
                f"{what} has {len(given)} items, expected one for each of the {count} sets in "
                "eval_set"
            )


def is_dart(params: dict[str, Any]) -> bool:
    """Tell whether trees are rescaled after they are grown.

    From XGBoost 3.3 on an option that drops trees is enough, whatever the booster is called;
    before, only DART reads it.
    """
    drops = bool(option(params, "rate_drop") or option(params, "one_drop"))
    return option(params, "booster") == "dart" or (drops and every_booster_drops())


@cache
def every_booster_drops() -> bool:
    """Tell whether gbtree has the options of DART as well."""
    config = json.loads(xgboost.Booster({"num_feature": 1}).save_config())
    return "dart_train_param" in config["learner"]["gradient_booster"]


def thread_option(params: dict[str, Any]) -> int | None:
    """Return the number of threads asked for; None leaves it to XGBoost."""
    found = option(params, "n_jobs")
    return None if found is None or int(found) == 0 else int(found)


def read_loss_terms(
    params: dict[str, Any], labels: IntArray | FloatArray, sample_weight: Float32Array | None
) -> LossTerms:
    """Give ``scale_pos_weight`` and ``base_score`` the meaning they have in stock XGBoost.

    There boosting starts from the weighted share of positives. With ``scale_pos_weight`` it starts
    from one Newton step at even odds instead, on the gradient that the factor is in.
    """
    check_two_labels("num_class", option(params, "num_class"), 0, 1, 2)
    check_two_labels("objective", option(params, "objective"), LOGISTIC)
    factor, share = _scale_pos_weight(params), _base_score(params, OBJECTIVES[LOGISTIC])
    if sample_weight is None:
        positive = float(np.count_nonzero(labels))
        negative = len(labels) - positive
    else:
        negative, positive = np.bincount(labels, sample_weight, minlength=2).tolist()
    if share is None and abs(factor - 1.0) <= 1e-6:
        share = positive / (negative + positive)
    elif share is None:
        share = float(expit(2 * (factor * positive - negative) / (factor * positive + negative)))
    # XGBoost keeps it in single precision, and neither end has a finite score.
    share = float(np.float32(min(max(share, 1e-30), 1 - 2.0**-24)))
    return LossTerms(math.log(share / (1 - share)), (1.0, factor), single=True)


def read_class_terms(
    params: dict[str, Any],
    objective: Objective,
    labels: IntArray,
    sample_weight: Float32Array | None,
) -> LossTerms:
    """The loss of several classes, and the scores that stock XGBoost starts from."""
    n, found = objective.n_classes, option(params, "num_class")
    if found is not None and int(found) not in (0, n):
        raise EngineOptionError(
            f"the estimator sets num_class={found}, but y has {n} classes; leave num_class out"
        )
    if _scale_pos_weight(params) != 1.0:
        raise EngineOptionError(
            f"the estimator sets scale_pos_weight, which is for two classes, and y has {n}; use "
            "sample_weight"
        )
    start = _base_score(params, objective)
    if start is None:
        asked, threads = objective.options(params), thread_option(params)
        starts = estimated_start(asked, labels, sample_weight, threads)
    else:
        starts = np.full(n, in_single(start))
    return LossTerms(starts, (1.0,) * n, single=True, curvature=2.0)


def read_number_terms(
    params: dict[str, Any],
    objective: Objective,
    y: FloatArray,
    sample_weight: Float32Array | None,
    offset: FloatArray | None,
) -> LossTerms:
    """The loss of a number, and the score that stock XGBoost starts from.

    Stock XGBoost knows no offset of an estimate: with one it is made of the residuals, and under a
    log link it is the sum of y over the sum of exposures.
    """
    loss = objective.read_loss(params)
    assert loss is not None
    check_targets(loss, y, sample_weight)
    start = _base_score(params, objective)
    if start is None and loss.log_link and offset is not None:
        weight = np.ones(len(y)) if sample_weight is None else sample_weight.astype(np.float64)
        start = float(weight @ y / (weight @ np.exp(offset)))
    elif start is None:
        rest = y if offset is None else y - offset
        asked, threads = objective.options(params), thread_option(params)
        start = float(estimated_start(asked, rest, sample_weight, threads)[0])
    return LossTerms(loss.score(in_single(start)), single=True, loss=loss)


def read_metrics(
    params: dict[str, Any], objective: Objective
) -> tuple[Any, Callable[..., Any] | None]:
    """Metrics on an evaluation set, with the meaning they have for the objective.

    XGBoost applies the link before its own metrics. To a function, where the objective is not its
    own, it hands raw scores: here the function gets predictions, as it would in stock XGBoost.

    Returns
    -------
    builtin : str, list of str or None
        Metrics of XGBoost's own.
    function : callable or None
        The user's, as a function of raw scores and a ``xgboost.DMatrix``.
    """
    wanted = option(params, "eval_metric")
    several = isinstance(wanted, Sequence) and not isinstance(wanted, str)
    metrics = list(wanted) if several else [wanted]
    functions = [m for m in metrics if callable(m)]
    names = [m for m in metrics if isinstance(m, str)] or None
    if len(functions) > 1:
        raise EngineOptionError(
            f"eval_metric has {len(functions)} functions, and XGBoost takes one at most; compute "
            "the others from predictions"
        )
    builtin = names if several or names is None else names[0]
    return builtin, _on_predictions(functions[0], objective) if functions else None


def _on_predictions(metric: Callable[..., Any], objective: Objective) -> Callable[..., Any]:
    def evaluate(scores: FloatArray, rows: Any) -> tuple[str, float]:
        weight, predicted = rows.get_weight(), objective.link(scores)
        options = {"sample_weight": weight} if weight.size else {}
        return metric.__name__, metric(rows.get_label(), predicted, **options)

    return evaluate


def _scale_pos_weight(params: dict[str, Any]) -> float:
    weight = float(option(params, "scale_pos_weight", 1.0))
    if not 0 < weight < math.inf:
        raise EngineOptionError(f"scale_pos_weight must be positive, found {weight}")
    return weight


def _base_score(params: dict[str, Any], objective: Objective) -> float | None:
    given = option(params, "base_score")
    if given is None:
        return None
    found = np.ravel(given).astype(np.float64)
    least, most = objective.starts
    if objective.loss is not None:  # a probability is moved away from both ends later
        found = np.array([in_single(value) for value in found])
    if len(found) != 1 or not least < found[0] < most:
        wanted = "probability" if objective.loss is None else "prediction"
        instead = "the share of positives" if objective.loss is None else "an estimate"
        raise EngineOptionError(
            f"base_score must be one {wanted} in ({least:g}, {most:g}), found {given!r}; leave "
            f"it out to start from {instead}"
        )
    return float(found[0])
