"""What a model does on some rows: performance, fairness, and the rates behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from fairboost._typing import BoolArray, FloatArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.study.config import MetricsConfig
from fairboost.study.data import Rows


@dataclass(frozen=True)
class Predictions:
    """What a model says about rows.

    Parameters
    ----------
    score : (n,) float64, optional
        Probability of label 1; None if the model only decides.
    decision : (n,) bool, optional
        Its own decisions, if they do not follow from the score.
    """

    score: FloatArray | None = None
    decision: BoolArray | None = None


def needs_scores(metrics: MetricsConfig) -> bool:
    """Whether a model that only decides cannot be measured."""
    if isinstance(metrics.threshold, OperatingPoint):
        return True
    if metrics.performance in ("accuracy", "tpr"):
        return False
    method = getattr(get_scorer(metrics.performance), "_response_method", "predict")
    return "predict" not in ([method] if isinstance(method, str) else method)


def decide(metrics: MetricsConfig, rows: Rows, found: Predictions) -> tuple[BoolArray, float]:
    """Decisions, and the threshold behind them.

    Parameters
    ----------
    metrics : MetricsConfig
        Where decisions are made.
    rows : Rows
        The rows; an operating point is placed on them.
    found : Predictions
        Of these rows.
    """
    if found.decision is not None and not isinstance(metrics.threshold, OperatingPoint):
        return found.decision, float("nan")
    if found.score is None:
        raise InvalidInputError(
            f"decisions at {metrics.threshold} need a score, but the model only decides; leave "
            "the method out of this study"
        )
    threshold = metrics.threshold
    if isinstance(threshold, OperatingPoint):
        threshold = threshold.threshold(found.score, rows.y)
    return found.score >= threshold, float(threshold)


def measure(
    metrics: MetricsConfig, rows: Rows, found: Predictions, threshold: float | None = None
) -> dict[str, Any]:
    """Figures of a model on some rows, as plain values.

    Parameters
    ----------
    metrics : MetricsConfig
        What to measure.
    rows : Rows
        The rows.
    found : Predictions
        Of these rows.
    threshold : float, optional
        Where to decide, if that was chosen on other rows.

    Returns
    -------
    figures : dict
        ``performance`` and ``fairness``, both the better the larger; ``accuracy``, ``gap``,
        ``ratio``, ``threshold``, ``fpr`` and ``tpr`` of everyone; ``rows`` and ``positives``,
        how many there are; ``rates``: for every rate a list of group, value and rows that count.
    """
    if threshold is None:
        positive, threshold = decide(metrics, rows, found)
    else:
        assert found.score is not None
        positive = found.score >= threshold
    rates = {rate: _by_group(rate, rows, positive) for rate in metrics.rates}
    values = [np.array([value for _, value, n in groups if n]) for groups in rates.values()]
    gap = max(float(np.ptp(v)) for v in values)
    ratio = min(float(v.min() / v.max()) if v.any() else 1.0 for v in values)
    return {
        "performance": _performance(metrics, rows, found, positive),
        "fairness": ratio if metrics.fairness == "ratio" else 1.0 - gap,
        "accuracy": float((positive == (rows.y == 1)).mean()),
        "gap": gap,
        "ratio": ratio,
        "fpr": _mean(positive, rows.y == 0),
        "tpr": _mean(positive, rows.y == 1),
        "rows": len(rows),
        "positives": int((rows.y == 1).sum()),
        "threshold": threshold if np.isfinite(threshold) else None,
        "rates": rates,
    }


def _performance(
    metrics: MetricsConfig, rows: Rows, found: Predictions, positive: BoolArray
) -> float:
    if metrics.performance == "accuracy":
        return float((positive == (rows.y == 1)).mean())
    if metrics.performance == "tpr":
        return _mean(positive, rows.y == 1)
    scorer = get_scorer(metrics.performance)
    return float(scorer(_Decided(found.score, positive), np.empty((len(rows), 1)), rows.y))


def _mean(positive: BoolArray, who: BoolArray) -> float:
    return float(positive[who].mean()) if who.any() else float("nan")


def _by_group(rate: str, rows: Rows, positive: BoolArray) -> list[list[Any]]:
    """Name of each group, value of its rate (None without rows), rows that count."""
    codes, names = pd.factorize(rows.s, sort=True)  # a missing group is -1, which never counts
    counts = RATES[rate].counts(rows.y) & (codes >= 0)
    events = positive if RATES[rate].direction > 0 else ~positive
    n = np.bincount(codes[counts], minlength=len(names))
    hits = np.bincount(codes[counts], events[counts], minlength=len(names))
    return [
        [str(name), float(h / m) if m else None, int(m)]
        for name, h, m in zip(names, hits, n, strict=True)
    ]


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier that has made up its mind, for scorers of scikit-learn."""

    def __init__(self, score: FloatArray | None = None, positive: BoolArray | None = None):
        self.score_, self.positive_ = score, positive
        self.classes_ = np.array([0, 1])

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        assert self.positive_ is not None
        return self.positive_.astype(np.int8)

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        if self.score_ is None:
            raise InvalidInputError("the model only decides; it has no probabilities to score")
        return np.column_stack([1 - self.score_, self.score_])

    def __sklearn_is_fitted__(self) -> bool:
        return True
