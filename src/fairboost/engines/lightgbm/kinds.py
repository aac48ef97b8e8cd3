"""Kinds of LightGBM's estimators: what an estimator predicts decides all that is said here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from lightgbm import LGBMClassifier, LGBMModel, LGBMRegressor
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d

from fairboost._typing import ArrayLike, Float32Array, FloatArray, IntArray
from fairboost.data.validation import as_column, encode_known
from fairboost.engines.lightgbm import multiclass, options, regression
from fairboost.engines.lightgbm.text import BINARY
from fairboost.engines.port import LossTerms
from fairboost.exceptions import InvalidInputError

STOCK_OBJECTIVES = (BINARY, multiclass.OBJECTIVES[0], *regression.OBJECTIVES)
"""Objectives as the texts of stock models have them."""


@dataclass(frozen=True)
class Kind:
    """What is predicted, with which options.

    Parameters
    ----------
    asked : str
        The objective as a stock estimator has it after ``fit``.
    objective : str
        The same as it stands in the text of a model.
    metrics : MetricSet
        Metrics on evaluation sets.
    loss_terms : callable
        Labels, weights, offset and classes to what the options say about the loss.
    encode : callable
        Further labels as they are trained on, by the classes of training.
    predictions : callable
        What scores stand for.
    """

    asked: str
    objective: str
    metrics: options.MetricSet
    loss_terms: Callable[
        [IntArray | FloatArray, Float32Array | None, FloatArray | None, Any], LossTerms
    ]
    encode: Callable[[ArrayLike, Any], IntArray | FloatArray]
    predictions: Callable[[FloatArray], FloatArray]


def class_of(estimator: Any) -> type[LGBMModel]:
    """The class of LightGBM that stands for what an estimator, or a class of them, predicts."""
    kind = estimator if isinstance(estimator, type) else type(estimator)
    found: type[LGBMModel] = LGBMRegressor if issubclass(kind, RegressorMixin) else LGBMClassifier
    return found


def kind_of(estimator: LGBMModel, n_classes: int = 2) -> Kind:
    """The kind of an estimator whose options fit, for so many classes if it tells classes."""
    params = estimator.get_params()
    if class_of(estimator) is LGBMRegressor:
        return _number(params)
    return _two_labels(params) if n_classes == 2 else _several_labels(params, n_classes)


def check_options(estimator: LGBMModel) -> None:
    """Refuse the options that contradict the method."""
    module = regression if class_of(estimator) is LGBMRegressor else options
    module.check_options(estimator.get_params())


def _two_labels(params: dict[str, Any]) -> Kind:
    return Kind(
        asked="binary",
        objective=BINARY,
        metrics=options.BINARY_METRICS,
        loss_terms=lambda labels, weight, _, classes: options.read_loss_terms(
            params, cast(IntArray, labels), weight, classes
        ),
        encode=lambda y, classes: encode_known(y, np.asarray(classes), "y of eval_set"),
        predictions=lambda scores: scores,
    )


def _several_labels(params: dict[str, Any], n_classes: int) -> Kind:
    return Kind(
        asked="multiclass",
        objective=multiclass.objective_name(n_classes),
        metrics=multiclass.METRICS,
        loss_terms=lambda labels, weight, _, classes: multiclass.read_loss_terms(
            params, cast(IntArray, labels), weight, classes
        ),
        encode=lambda y, classes: encode_known(y, np.asarray(classes), "y of eval_set"),
        predictions=lambda scores: scores,
    )


def _number(params: dict[str, Any]) -> Kind:
    loss = regression.read_loss(params)
    return Kind(
        asked=options.option(params, "objective", "regression"),
        objective=regression.objective_name(params),
        metrics=regression.metrics_of(params),
        loss_terms=lambda labels, weight, offset, _: regression.read_loss_terms(
            params, labels, weight, offset
        ),
        encode=_numbers,
        predictions=lambda scores: regression.predictions(loss, scores),
    )


def _numbers(y: ArrayLike, _: Any) -> FloatArray:
    """Targets of an evaluation set."""
    try:
        found = np.asarray(column_or_1d(as_column(y)), np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"y of eval_set is not one column of numbers: {error}") from error
    if not np.isfinite(found).all():
        raise InvalidInputError(
            "y of eval_set has a number that is missing or infinite; leave such rows out"
        )
    return found
