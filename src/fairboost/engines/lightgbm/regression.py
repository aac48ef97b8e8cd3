"""Objectives of ``LGBMRegressor``: their losses, where boosting starts, and their metrics.

Facts of LightGBM that shape this file:

* Targets are kept in single precision. The starting score is the mean of these, a logarithm of it
  under a log link, or a percentile, each as LightGBM computes it.
* A metric of its own is computed on predictions, which it makes of scores by its objective. With
  an objective of ours it has none. So under a log link metrics are written out here; without one,
  scores are predictions, and LightGBM's own are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.engines.lightgbm.options import (
    ALLOWED,
    NO_METRIC,
    RANK_METRICS,
    MetricSet,
    check_shared,
    has_linear_trees,
    is_true,
    option,
)
from fairboost.engines.port import LossTerms
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.losses import Loss, LossName

# By the name that a stock model has: the loss.
OBJECTIVES: dict[str, LossName] = {
    "regression": "squared",
    "regression_l1": "absolute",
    "huber": "huber",
    "poisson": "poisson",
    "quantile": "quantile",
    "gamma": "gamma",
    "tweedie": "tweedie",
}

# Other names of metrics; those of l1, l2 and rmse are names of objectives as well.
METRIC_NAMES = NO_METRIC | {
    "regression_l1": "l1", "mean_absolute_error": "l1", "mae": "l1",
    "regression": "l2", "regression_l2": "l2", "mean_squared_error": "l2", "mse": "l2",
    "root_mean_squared_error": "rmse", "l2_root": "rmse",
    "mean_absolute_percentage_error": "mape",
}  # fmt: skip
OF_METRICS = {"l1": "regression_l1", "l2": "regression", "rmse": "regression"}

# The constant of an objective: its option, LightGBM's default, and the open range that it is in.
CONSTANTS = {
    "huber": ("alpha", 0.9, 0.0, math.inf),
    "quantile": ("alpha", 0.9, 0.0, 1.0),
    "poisson": ("poisson_max_delta_step", 0.7, 0.0, math.inf),
    "tweedie": ("tweedie_variance_power", 1.5, 1.0, 2.0),
}

_ALLOWED = {name: rule for name, rule in ALLOWED.items() if name != "sigmoid"} | {
    "num_class": ((1,), "one number is predicted")
}

Formula: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Targets and predictions to the loss of each row."""


def check_options(params: dict[str, Any]) -> None:
    """Refuse the options that contradict the method.

    Parameters
    ----------
    params : dict
        ``get_params()`` of the user's ``LGBMRegressor``.
    """
    read_loss(params)
    if is_true(option(params, "reg_sqrt", False)):
        raise EngineOptionError(
            "the estimator sets reg_sqrt, by which LightGBM predicts squares of scores; leave it "
            "out, and train on np.sqrt(y) where that is wanted"
        )
    if has_linear_trees(params) and objective_name(params) == "regression_l1":
        raise EngineOptionError(
            "the estimator sets linear_tree, which LightGBM does not take beside "
            "objective='regression_l1', not even to predict; leave it out, or use "
            "objective='huber'"
        )
    if (found := option(params, "class_weight")) is not None:
        raise EngineOptionError(
            f"the estimator sets class_weight={found!r}, but numbers have no classes; leave it "
            "out, and pass sample_weight to fit"
        )
    check_shared(params, _ALLOWED)


def objective_name(params: dict[str, Any]) -> str:
    """The objective, by the name that a stock model has."""
    found = option(params, "objective", "regression")
    known = METRIC_NAMES.get(str(found).lower(), str(found).lower())
    name = OF_METRICS.get(known, known)
    if callable(found) or name not in OBJECTIVES:
        raise EngineOptionError(
            f"the estimator sets objective={found!r}, expected one of "
            f"{', '.join(map(repr, OBJECTIVES))} or LightGBM's other names of these; choose one "
            "of them, or leave objective out for squared errors"
        )
    return name


def read_loss(params: dict[str, Any]) -> Loss:
    """The loss that the options ask for, with its constant."""
    name = objective_name(params)
    if name not in CONSTANTS:
        return Loss(OBJECTIVES[name])
    told, default, low, high = CONSTANTS[name]
    found = option(params, told, default)
    try:
        value = float(found)
    except (TypeError, ValueError):
        value = math.nan
    if not low < value < high:
        limits = f"a number above {low:g}" + (f" and below {high:g}" if high < math.inf else "")
        raise EngineOptionError(
            f"the estimator sets {told}={found!r}, expected {limits} with objective={name!r}; "
            f"LightGBM's default is {default}"
        )
    return Loss(OBJECTIVES[name], **{"step" if name == "poisson" else "shape": value})


def predictions(loss: Loss, scores: FloatArray) -> FloatArray:
    """What scores stand for, to the last digit LightGBM's own."""
    if not loss.log_link:
        return scores
    # Of complex numbers NumPy takes exp from the C library, as LightGBM does. Its own one for
    # real numbers is a vector loop, and differs in the last digit of one number in twenty.
    with np.errstate(invalid="ignore", over="ignore"):
        found: FloatArray = np.exp(np.asarray(scores, np.complex128)).real
    return np.ascontiguousarray(found)


def read_loss_terms(
    params: dict[str, Any],
    labels: IntArray | FloatArray,
    sample_weight: Float32Array | None,
    offset: FloatArray | None = None,
) -> LossTerms:
    """The loss, and the score that stock LightGBM starts from.

    With an offset it is the score at which predictions have the mean of the targets; for absolute
    and quantile losses it is a percentile of the targets less the offset.
    """
    loss = read_loss(params)
    with np.errstate(over="ignore"):  # refused below
        y = labels.astype(np.float32).astype(np.float64)  # as LightGBM keeps them
    weight = None if sample_weight is None else sample_weight.astype(np.float64)
    _check_targets(y, weight, objective_name(params))
    intercept = 0.0
    if is_true(option(params, "boost_from_average", True)):
        start = np.zeros(len(y)) if offset is None else offset
        if loss.renews_leaves:
            level = loss.shape if loss.name == "quantile" else 0.5
            intercept = _percentile(y - start, float(np.float32(level)), weight)
        elif loss.log_link:
            exposure = np.average(np.exp(start), weights=weight)
            intercept = math.log(np.average(y, weights=weight) / exposure)
        else:
            intercept = float(np.average(y - start, weights=weight))
    return LossTerms(intercept, loss=loss)


def _check_targets(y: FloatArray, weight: FloatArray | None, objective: str) -> None:
    """Refuse targets that the objective is not for."""
    if not np.isfinite(y).all():
        raise InvalidInputError(
            "y has a number that is missing, infinite, or beyond single precision, in which "
            "LightGBM keeps it; leave such rows out, or scale y down"
        )
    if not Loss(OBJECTIVES[objective]).log_link:
        return
    above = objective == "gamma"
    wrong = y <= 0 if above else y < 0
    if wrong.any():
        other = "tweedie" if above and not (y < 0).any() else "regression"
        raise InvalidInputError(
            f"y has {y[wrong][0]:g}, expected numbers {'above' if above else 'of at least'} 0 "
            f"with objective={objective!r}; leave such rows out, or use objective={other!r}"
        )
    if not np.average(y, weights=weight) > 0:
        raise InvalidInputError(
            f"y is 0 in every row that has a weight, of which objective={objective!r} has no "
            "logarithm; pass rows with positive y, or use objective='regression'"
        )


def _percentile(y: FloatArray, level: float, weight: FloatArray | None) -> float:
    """A percentile as LightGBM has it, in single precision there.

    By weights, it is between two rows only where the upper one weighs 1 or more.
    """
    if weight is None:
        return float(np.quantile(y, level))
    order = np.argsort(y, kind="stable")
    rising, up_to = y[order], np.cumsum(weight[order])
    wanted, last = up_to[-1] * level, len(y) - 1
    k = min(int(np.searchsorted(up_to, wanted, side="right")), last)
    if k in (0, last):
        return float(rising[k])
    share = (wanted - up_to[k - 1]) / weight[order[k]]
    between = share if weight[order[k]] >= 1.0 else 0.0
    return float(rising[k - 1] + between * (rising[k] - rising[k - 1]))


def metrics_of(params: dict[str, Any]) -> MetricSet:
    """Metrics on an evaluation set of a regressor."""
    loss = read_loss(params)
    formulas = _formulas(params)
    names = (*formulas, "rmse", "r2", "gamma_deviance")
    own = str(option(params, "objective", "regression")).lower()
    return MetricSet(
        own=METRIC_NAMES.get(own, own),
        builtin=RANK_METRICS if loss.log_link else (*names, *RANK_METRICS),
        functions=_on_scores(formulas, loss) if loss.log_link else {},
        names=METRIC_NAMES,
        link=partial(predictions, loss),
        word="prediction",
    )


def _formulas(params: dict[str, Any]) -> dict[str, Formula]:
    """The loss of each row by LightGBM's metrics that are means."""
    alpha, c, power = (
        float(option(params, name, default))
        for name, default in (
            ("alpha", 0.9), ("fair_c", 1.0), ("tweedie_variance_power", 1.5)
        )
    )  # fmt: skip

    def tweedie(y: FloatArray, p: FloatArray) -> FloatArray:
        p = np.maximum(p, 1e-10)
        loss: FloatArray = p ** (2 - power) / (2 - power) - y * p ** (1 - power) / (1 - power)
        return loss

    return {
        "l1": lambda y, p: np.abs(p - y),
        "l2": lambda y, p: np.square(p - y),
        "quantile": lambda y, p: np.maximum(alpha * (y - p), (alpha - 1) * (y - p)),
        "huber": lambda y, p: Loss("huber", alpha).value(p, y),
        "fair": lambda y, p: c * np.abs(p - y) - c * c * np.log1p(np.abs(p - y) / c),
        "mape": lambda y, p: np.abs(p - y) / np.maximum(1.0, np.abs(y)),
        "poisson": lambda y, p: np.maximum(p, 1e-10) - y * np.log(np.maximum(p, 1e-10)),
        "gamma": lambda y, p: y / p + np.log(p),
        "tweedie": tweedie,
    }


def _on_scores(formulas: dict[str, Formula], loss: Loss) -> dict[str, Callable[..., Any]]:
    """The same metrics as functions of raw scores and a ``lightgbm.Dataset``."""

    def mean(formula: Formula) -> Callable[..., float]:
        return lambda y, p, w: float(np.average(formula(y, p), weights=w))

    def r2(y: FloatArray, p: FloatArray, w: FloatArray | None) -> float:
        around = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
        return float(1.0 - np.average((y - p) ** 2, weights=w) / around)

    def gamma_deviance(y: FloatArray, p: FloatArray, w: FloatArray | None) -> float:
        ratio = y / (p + 1e-9)
        # A sum, and no mean: so LightGBM has it.
        return float(2.0 * np.sum((ratio - np.log(ratio) - 1.0) * (1.0 if w is None else w)))

    squared = mean(formulas["l2"])
    found: dict[str, Callable[..., float]] = {name: mean(f) for name, f in formulas.items()}
    found |= {"rmse": lambda *of: math.sqrt(squared(*of)), "r2": r2}
    found |= {"gamma_deviance": gamma_deviance}

    def named(name: str, scores: FloatArray, rows: Any) -> tuple[str, float, bool]:
        y, weight = np.asarray(rows.get_label(), np.float64), rows.get_weight()
        with np.errstate(all="ignore"):  # a training that diverges is stopped, and says so
            return name, found[name](y, predictions(loss, scores), weight), name == "r2"

    return {name: partial(named, name) for name in found}
