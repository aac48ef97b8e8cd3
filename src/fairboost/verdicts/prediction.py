"""How well a model predicts, beside the verdicts on it: what fairness costs.

On rows held out in training a round has found the loss, and accuracy. Of test rows there are
scores, so that there are intervals and the AUC. A base model is compared with the stage on it: it
is known without another training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairboost._text import interval, places
from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.algorithm.record import Round
from fairboost.metrics.numbers import LOSS_TITLES, mean_loss
from fairboost.metrics.performance import ClassOutput, ModelOutput, Output, performance_table

if TYPE_CHECKING:
    from fairboost.kernel.losses import Loss

THIS_MODEL, BASE_MODEL = "this model", "base model"

BESIDE = "Brier score"
"""A measure that says nearly the same as a log loss."""


@dataclass(frozen=True)
class Prediction:
    """How well a model predicts some rows, in one measure.

    Parameters
    ----------
    measure : str
        ``"accuracy"``, ``"AUC"``, ``"log loss"``, or the loss of a regression.
    value, low, high : float
        The measure and its 95% interval; on rows held out in training the ends are NaN.
    model : str
        ``"this model"``, or ``"base model"`` if it is a stage on one.
    where : str
        The rows, ``"held out"`` or ``"test"``.
    """

    measure: str
    value: float
    low: float = np.nan
    high: float = np.nan
    model: str = THIS_MODEL
    where: str = "test"

    def __str__(self) -> str:
        digits = max(places(self.value) - 1, 0) if self.value > 1 else 3
        if np.isnan(self.low):
            return f"{self.value:.{digits}f}"
        return interval(self.value, self.low, self.high, digits)


def of_round(
    found: Round, summary: Any, where: str, model: str = THIS_MODEL
) -> tuple[Prediction, ...]:
    """How well a model predicts the measured rows, as far as a round has found it."""
    right, title, loss = found.figures.get("held-out accuracy"), "log loss", found.held_out_loss
    if hasattr(summary, "unit"):  # of numbers
        title = LOSS_TITLES[summary.task.loss.name]
        loss *= summary.task.of_deviance / summary.unit
    elif summary.label_weights is not None and set(summary.label_weights) != {1.0}:
        title = "log loss with class weights"
    shown = {} if right is None else {"accuracy": right}
    return tuple(
        Prediction(measure, value, model=model, where=where)
        for measure, value in {**shown, title: loss}.items()
    )


def of_two_labels(
    labels: IntArray, said: Mapping[str, tuple[FloatArray, BoolArray]], weight: FloatArray | None
) -> tuple[Prediction, ...]:
    """Accuracy, AUC and log loss on test rows, given probabilities and decisions by model."""
    return _of_outputs(labels, {name: ModelOutput(*both) for name, both in said.items()}, weight)


def of_classes(
    labels: IntArray, proba: FloatArray, given: IntArray, weight: FloatArray | None
) -> tuple[Prediction, ...]:
    """Accuracy and log loss on test rows, given probabilities and the classes that are given."""
    return _of_outputs(labels, {THIS_MODEL: ClassOutput(proba, given)}, weight)


def of_numbers(
    targets: FloatArray,
    predicted: FloatArray,
    loss: Loss,
    exposure: FloatArray | None,
    weight: FloatArray | None,
) -> tuple[Prediction, ...]:
    """The squared error or the deviance on test rows, as audits have it."""
    asked: dict[str, Any] = {"exposure": exposure, "sample_weight": weight, "loss": loss}
    found = mean_loss(targets, predicted, **asked)
    return (Prediction(LOSS_TITLES[loss.name], found.value, found.low, found.high),)


def _of_outputs(
    labels: IntArray, outputs: Mapping[str, Output], weight: FloatArray | None
) -> tuple[Prediction, ...]:
    table = performance_table(labels, outputs, weight)
    table = table[(table["measure"] != BESIDE) & table["model"].isin(list(outputs))]
    columns = ["measure", "value", "low", "high", "model"]
    return tuple(Prediction(*line) for line in table[columns].itertuples(index=False, name=None))
