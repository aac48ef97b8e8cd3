"""How well models predict: figures with intervals, and paired differences between two models.

Every measure is a weighted mean of something that each row contributes, so one formula gives all
errors: the deviation of the contributions, over the root of the rows. The difference between two
models on the same rows is the mean of the differences row by row, which is known far better than
either figure. A row's contribution to the AUC is its placement: the share of rows of the other
label that it is on the right side of (DeLong et al., 1988).

Intervals are Student's, and those of losses allow for skew
(:func:`fairboost.metrics.intervals.skewed`). Accuracy has Wilson's, and that of a difference
of accuracies is Agresti and Min's (Statistics in Medicine 24, 2005), which adds two rows.
Placements of a few rows may all be equal: their variance is joined with that of ``SPREAD`` rows
whose placements are spread evenly, and the interval of the AUC is Wilson's of as many rows as have
that error. ``benchmarks/verdicts.md`` shows how often all of these hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.kernel.losses import Loss
from fairboost.metrics.intervals import check_confidence, skewed, wilson
from fairboost.metrics.numbers import LOSS_TITLES, check_in_range, losses_of
from fairboost.metrics.sums import effective_rows

DIFFERENCE = "difference"
"""Name of the lines that compare two models, the first minus the second."""

LEAST = 1e-15
"""Probabilities are kept this far from 0 and 1: certain and wrong would be an infinite loss."""

SPREAD = 16.0
"""Rows of each label, with placements spread evenly, by which few rows are made up for."""


class Output(Protocol):
    """What a model says of some rows: decisions, classes or numbers."""

    def contributions(self, labels: ArrayLike, weight: FloatArray) -> dict[str, FloatArray]:
        """What each row adds to each measure; the measure is the weighted mean."""


@dataclass(frozen=True)
class ModelOutput:
    """What a model says of some rows.

    Parameters
    ----------
    proba : (n,) float64
        Probabilities of the positive label.
    positive : (n,) bool
        Decisions.
    """

    proba: FloatArray
    positive: BoolArray

    def contributions(self, labels: IntArray, weight: FloatArray) -> dict[str, FloatArray]:
        """What each row adds to each measure; the measure is the weighted mean."""
        p = np.clip(self.proba, LEAST, 1.0 - LEAST)
        both = 0 < np.count_nonzero(labels[weight > 0]) < np.count_nonzero(weight > 0)
        return {
            "accuracy": (self.positive == (labels == 1)).astype(np.float64),
            **({"AUC": _placements(labels, self.proba, weight)} if both else {}),
            "log loss": -np.log(np.where(labels == 1, p, 1.0 - p)),
            "Brier score": (self.proba - labels) ** 2,
        }


@dataclass(frozen=True)
class ClassOutput:
    """What a model says of some rows among several classes.

    Parameters
    ----------
    proba : (n, n_classes) float64
        Probabilities of the classes.
    given : (n,) int
        The class that each row is given, by its number.
    """

    proba: FloatArray
    given: IntArray

    def contributions(self, labels: IntArray, weight: FloatArray) -> dict[str, FloatArray]:
        """What each row adds to each measure; the measure is the weighted mean."""
        own = self.proba[np.arange(len(labels)), labels]
        # The sum over classes of (p - [y = k])^2.
        away = (self.proba**2).sum(axis=1) - 2.0 * own + 1.0
        return {
            "accuracy": (self.given == labels).astype(np.float64),
            "log loss": -np.log(np.maximum(own, LEAST)),
            "Brier score": away,
        }


@dataclass(frozen=True)
class NumberOutput:
    """Numbers that a model predicts for some rows.

    Parameters
    ----------
    predictions : (n,) float64
        In the unit of what they predict: counts, where there are exposures.
    loss : Loss
        What the model was trained by: its squared error or deviance comes first.
    exposure : (n,) float64, optional
        Measures are then per unit of it; weights of the rows are to have it in them.
    """

    predictions: FloatArray
    loss: Loss
    exposure: FloatArray | None = None

    def contributions(self, labels: FloatArray, weight: FloatArray) -> dict[str, FloatArray]:
        """What each row adds to each measure; the measure is the weighted mean."""
        check_in_range(self.loss, labels, self.predictions)
        away = self.predictions - labels
        found = {
            LOSS_TITLES[self.loss.name]: losses_of(self.loss, labels, self.predictions),
            "absolute error": np.abs(away),
        }
        if self.exposure is not None:
            # Without the squared error: it is no multiple of exposure, as variances of counts are.
            return {name: values / self.exposure for name, values in found.items()}
        return found | {"squared error": away**2}


def performance_table(
    labels: IntArray | FloatArray,
    models: Mapping[str, Output],
    sample_weight: FloatArray | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Accuracy, AUC, log loss and Brier score of some models, with intervals; or their losses.

    Of several classes there is no AUC, and the Brier score is the sum over them.

    Parameters
    ----------
    labels : (n,) int or float
        0 and 1; or the numbers of several classes; or numbers. There is no AUC of one label.
    models : dict of str to ModelOutput, ClassOutput or NumberOutput
        By name; two of them are also compared with each other.
    sample_weight : (n,) float64, optional
        Weights of the rows.
    confidence : float
        Nominal coverage of the intervals.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``measure``, ``value``, ``low``, ``high``.

    Examples
    --------
    >>> labels, p = np.array([0, 0, 1, 1] * 50), np.array([0.1, 0.6, 0.4, 0.9] * 50)
    >>> table = performance_table(labels, {"one": ModelOutput(p, p >= 0.5)})
    >>> print(table.round(3).to_string(index=False))
    model     measure  value   low  high
      one    accuracy  0.500 0.431 0.569
      one         AUC  0.750 0.675 0.812
      one    log loss  0.511 0.457 0.571
      one Brier score  0.185 0.162 0.211
    """
    check_confidence(confidence)
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    found = {name: model.contributions(labels, weight) for name, model in models.items()}
    lines = []
    for name, parts in found.items():
        for measure, values in parts.items():
            value, error, n = _mean(values, weight)
            if measure == "accuracy":
                ends = wilson(min(value, 1.0) * n, n, confidence)
            elif measure == "AUC":
                ends = _ends_of_auc(value, values, labels == 1, weight, confidence)
            else:
                ends = skewed(value, error, _reach(n, confidence))
            lines.append([name, measure, value, *map(float, ends)])
    if len(found) == 2:
        first, second = found.values()
        apart = {measure: first[measure] - second[measure] for measure in first}
        one = not any(values.any() for values in apart.values())  # and the same model
        for measure, values in apart.items():
            value, error, n = _mean(values, weight)
            if measure == "AUC":  # a difference is known as well as the rarer label's rows tell
                n = min(effective_rows(weight[labels == label]) for label in (0, 1))
                error = 1.0 if n < 2 and not one else error  # of a single row nothing is known
            middle, reach = value, error * _reach(n, confidence)
            if measure == "accuracy" and not one:
                middle = value * n / (n + 2.0)
                square = (float(np.average(values**2, weights=weight)) * n + 1.0) / (n + 2.0)
                deviation = np.sqrt((square - middle**2) / (n + 2.0))
                reach = float(ndtri(0.5 + confidence / 2) * deviation)
            lines.append([DIFFERENCE, measure, value, middle - reach, middle + reach])
    return pd.DataFrame(lines, columns=["model", "measure", "value", "low", "high"])


def _mean(values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    """Weighted mean, its standard error, and the rows that tell."""
    mean, n = float(np.average(values, weights=weight)), effective_rows(weight)
    error = np.sqrt((weight**2 * (values - mean) ** 2).sum()) / weight.sum()
    return mean, float(error * np.sqrt(n / max(n - 1.0, 0.5))), n


def _reach(n: float, confidence: float) -> float:
    """How many standard errors an end is away, of a deviation that is known from n rows."""
    return float(stdtrit(max(n - 1.0, 1.0), 0.5 + confidence / 2))


def _ends_of_auc(
    area: float, placed: FloatArray, positive: BoolArray, w: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Interval of an AUC, from what rows contribute to it."""
    parts = [(own, effective_rows(w[own])) for own in (positive, ~positive)]
    fewest = min(n for _, n in parts)
    p = (area * fewest + 1.0) / (fewest + 2.0)  # not 0 or 1, as that of a few rows may be
    variance = 0.0
    for own, n in parts:
        away = (placed[own] - area) * w[own].sum() / w.sum()
        square = float(np.average(away**2, weights=w[own]))
        variance += (n * square + SPREAD * p * (1.0 - p) / 3.0) / (n - 1.0 + SPREAD) / n
    told = p * (1.0 - p) / variance
    return wilson(area * told, told, confidence)


def _placements(labels: IntArray, scores: FloatArray, w: FloatArray) -> FloatArray:
    """Contributions whose weighted mean is the AUC, and whose spread is its error."""
    _, place = np.unique(scores, return_inverse=True)
    out = np.empty(len(scores))
    positive = labels == 1
    for mine in (positive, ~positive):
        other = np.bincount(place, w * ~mine)
        below = (np.cumsum(other) - other / 2) / other.sum()
        out[mine] = below[place[mine]]
    out[~positive] = 1.0 - out[~positive]
    area = float(np.average(out[positive], weights=w[positive]))
    # Each label's rows are a sample of their own: their part of the error grows with their rarity.
    share = np.where(positive, w[positive].sum(), w[~positive].sum()) / w.sum()
    placed: FloatArray = area + (out - area) / share
    return placed
