"""What an estimator is trained to predict, by the name that XGBoost gives its objective.

A classifier has one objective, a regressor one of several. An objective says how scores become
predictions, which numbers ``base_score`` may be, and which loss gradients are made of.

Facts of XGBoost that shape this file:

* Of an objective of its own XGBoost sets leaves to medians or quantiles after a tree is grown, if
  the loss is absolute or a quantile's. Up to 3.3 it does so for gradients of ours as well, which
  would overwrite them. So training goes by a stand-in with the same link, and the model that is
  kept gets its name afterwards.
* The score to start from is estimated in another way for each objective, and for the absolute
  loss in another way since 3.4. So XGBoost is asked for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from scipy.special import expit, softmax
from sklearn.utils import column_or_1d
from xgboost import XGBClassifier, XGBModel, XGBRegressor

from fairboost._typing import Float32Array, FloatArray, IntArray
from fairboost.data.validation import as_column, encode_known
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.losses import Loss, LossName

LOGISTIC, SQUARED, SOFTMAX = "binary:logistic", "reg:squarederror", "multi:softprob"
LARGEST = float(np.finfo(np.float32).max)

NUMBER = re.compile(r"\[?([-+]?\d{1,50}(?:\.\d{1,50})?(?:[eE][-+]?\d{1,3})?)\]?", re.ASCII)
"""A number as XGBoost writes it into a model."""


def in_single(value: float) -> float:
    """A number as XGBoost keeps it; infinite beyond single precision."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@dataclass(frozen=True)
class Constant:
    """A number that a loss has, and the option that sets it.

    Parameters
    ----------
    option : str
        Name of the option.
    default : float, optional
        What XGBoost takes where it is not given; without it, it must be given.
    least, most : float
        Between these it lies.
    closed : bool
        Whether it may be the least itself.
    """

    option: str
    default: float | None
    least: float
    most: float
    closed: bool = False

    def read(self, given: Any) -> float:
        """The constant, in single precision as XGBoost keeps it; raises if it is none."""
        found: Any = np.ravel(np.asarray(self.default if given is None else given))
        try:
            value = in_single(found[0]) if len(found) == 1 else math.nan
        except (TypeError, ValueError):
            value = math.nan
        if not (self.least < value < self.most or (self.closed and value == self.least)):
            bounds = f"{'[' if self.closed else '('}{self.least:g}, {self.most:g})"
            example = 0.5 if self.default is None else self.default
            raise EngineOptionError(
                f"{self.option} must be one number in {bounds}, found {given!r}; pass "
                f"{self.option}={example:g}, for example"
            )
        return value


@dataclass(frozen=True)
class Objective:
    """What is predicted.

    Parameters
    ----------
    name : str
        XGBoost's.
    loss : str, optional
        The loss of a number, as :class:`fairboost.kernel.losses.Loss` calls it; None is the
        logistic one of two labels, or that of several.
    constant : Constant, optional
        Of the loss.
    metric : str, optional
        What an evaluation set is judged by where the stand-in would have a metric of its own.
    n_classes : int
        Classes that are told apart, if they are.
    """

    name: str
    loss: LossName | None = None
    constant: Constant | None = None
    metric: str | None = None
    n_classes: int = 2

    @property
    def kind(self) -> type[XGBModel]:
        """The estimator that has this objective."""
        return XGBClassifier if self.loss is None else XGBRegressor

    @property
    def trained_as(self) -> str:
        """The objective that XGBoost is told while it trains."""
        return self.name if self.metric is None else SQUARED

    @property
    def starts(self) -> tuple[float, float]:
        """Between these lies ``base_score``."""
        if self.loss is None:
            return (0.0, 1.0) if self.name == LOGISTIC else (-math.inf, math.inf)
        return (0.0 if Loss(self.loss).log_link else -math.inf), math.inf

    def read_loss(self, params: Mapping[str, Any]) -> Loss | None:
        """The loss with the constant that the options give it."""
        if self.loss is None:
            return None
        if self.constant is None:
            return Loss(self.loss)
        value = self.constant.read(params.get(self.constant.option))
        if self.loss == "poisson":
            return Loss(self.loss, step=value)
        return Loss(self.loss, shape=value)

    def options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The objective and its constant, as XGBoost takes them."""
        named: dict[str, Any] = {"objective": self.name}
        if self.name == SOFTMAX:
            return named | {"num_class": self.n_classes}
        if self.constant is None:
            return named
        return named | {self.constant.option: self.constant.read(params.get(self.constant.option))}

    def link(self, scores: FloatArray | np.float64) -> FloatArray:
        """Predictions of scores."""
        if self.name == SOFTMAX:
            return np.asarray(softmax(scores, axis=-1))
        if self.loss is None:
            return np.asarray(expit(scores))
        return Loss(self.loss).prediction(np.asarray(scores))

    def base_score(self, intercept: float | FloatArray) -> float | list[float]:
        """What XGBoost is told to start from; scores themselves if there are several classes."""
        if self.name == SOFTMAX:
            return [float(start) for start in np.ravel(intercept)]
        return float(self.link(np.float64(intercept)))

    def encode(self, y: Any, classes: Any, what: str) -> IntArray | FloatArray:
        """Labels of an evaluation set as 0 and 1, or the numbers themselves."""
        if self.loss is None:
            return encode_known(y, np.asarray(classes), what)
        return np.asarray(column_or_1d(as_column(y)), np.float64)


OBJECTIVES = {
    known.name: known
    for known in (
        Objective(LOGISTIC),
        Objective(SOFTMAX),
        Objective(SQUARED, "squared"),
        Objective("reg:absoluteerror", "absolute", metric="mae"),
        Objective(
            "reg:quantileerror",
            "quantile",
            Constant("quantile_alpha", None, 0.0, 1.0),
            metric="quantile",
        ),
        Objective(
            "reg:pseudohubererror", "pseudo_huber", Constant("huber_slope", 1.0, 0.0, math.inf)
        ),
        Objective(
            "count:poisson", "poisson", Constant("max_delta_step", 0.7, 0.0, math.inf, closed=True)
        ),
        Objective("reg:gamma", "gamma"),
        Objective("reg:tweedie", "tweedie", Constant("tweedie_variance_power", 1.5, 1.0, 2.0)),
    )
}
OF_NUMBERS = tuple(name for name, known in OBJECTIVES.items() if known.loss is not None)


def objective_of(estimator: XGBModel, n_classes: int = 2) -> Objective:
    """The objective that an estimator trains; raises if fairboost does not know it.

    ``n_classes`` are those that y has, where classes are told apart.
    """
    if not isinstance(estimator, XGBRegressor):
        return Objective(LOGISTIC if n_classes == 2 else SOFTMAX, n_classes=n_classes)
    found = estimator.get_params()["objective"]
    if found is None:
        return OBJECTIVES[SQUARED]
    if not isinstance(found, str) or found not in OF_NUMBERS:
        raise EngineOptionError(
            f"the estimator sets objective={found!r}, expected one whose gradients fairboost "
            f"knows: {', '.join(OF_NUMBERS)}; choose one of these, or leave objective out"
        )
    return OBJECTIVES[found]


def written_options(of_model: Mapping[str, Any]) -> dict[str, Any]:
    """The objective and its constant, as a model or its configuration has them.

    Parameters
    ----------
    of_model : mapping
        ``objective`` of the model's JSON.
    """
    objective = OBJECTIVES[of_model["name"]]
    given: dict[str, Any] = {}
    for part in of_model.values():
        given |= part if isinstance(part, dict) else {}
    if objective.constant is not None:
        text = given.get(objective.constant.option)
        number = NUMBER.fullmatch(text) if isinstance(text, str) else None
        given[objective.constant.option] = math.nan if number is None else float(number[1])
    return objective.options(given)


def check_targets(loss: Loss, y: FloatArray, weight: Float32Array | None) -> None:
    """Refuse numbers that the loss is not defined for, or that have no mean under a log link."""
    if not (np.abs(y) <= LARGEST).all():
        raise InvalidInputError(
            f"y has {y[np.argmax(~(np.abs(y) <= LARGEST))]:g}, expected numbers up to "
            f"{LARGEST:.1g}, which XGBoost keeps in single precision; divide y by a constant"
        )
    least, above = loss.least_target, loss.name == "gamma"
    wrong = y <= least if above else y < least
    if wrong.any():
        raise InvalidInputError(
            f"y has {y[np.argmax(wrong)]:g}, but under a {loss.name} loss targets must be "
            f"{'above 0' if above else '0 or more'}; leave such rows out ({int(wrong.sum()):,} of "
            f"{len(y):,}), or choose {'reg:tweedie' if above else SQUARED}"
        )
    if loss.log_link and not (y > 0 if weight is None else y * weight > 0).any():
        raise InvalidInputError(
            f"y is 0 in all rows that have a weight, but a {loss.name} loss needs some that are "
            f"above 0; check y, or choose {SQUARED}"
        )


def estimated_start(
    options: Mapping[str, Any],
    y: FloatArray | IntArray,
    weight: Float32Array | None,
    threads: int | None,
) -> FloatArray:
    """The ``base_score`` that XGBoost itself would start from; of each class, if there are."""
    rows = xgboost.DMatrix(
        np.zeros((len(y), 1), np.float32),
        label=y.astype(np.float32),
        weight=weight,
        nthread=threads,
    )
    # A round is what makes XGBoost estimate it. The one feature has one value: there is no split.
    booster = xgboost.Booster({**options, "nthread": threads}, [rows])
    booster.update(rows, 0)
    config = json.loads(booster.save_config())["learner"]["learner_model_param"]
    return np.ravel(np.asarray(json.loads(config["base_score"]), np.float64))
