"""What a model does on some rows: performance, fairness, and the rates behind them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES, group_sums
from fairboost.metrics.contrasts import decision_ratios, standardised_differences
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


def decide(
    metrics: MetricsConfig, rows: Rows, found: Predictions, threshold: float | None = None
) -> tuple[BoolArray, float]:
    """Decisions, and the threshold behind them.

    Parameters
    ----------
    metrics : MetricsConfig
        Where decisions are made.
    rows : Rows
        The rows; an operating point is placed on them.
    found : Predictions
        Of these rows.
    threshold : float, optional
        Where to decide, if that was chosen on other rows.
    """
    point = metrics.threshold
    if found.decision is not None and not isinstance(point, OperatingPoint):
        return found.decision, float("nan")
    if found.score is None:
        raise InvalidInputError(
            f"decisions at {point} need a score, but the model only decides; leave the method out "
            "of this study"
        )
    if threshold is None:
        if isinstance(point, OperatingPoint):
            point = point.threshold(found.score, rows.y)
        threshold = float(point)
    return found.score >= threshold, threshold


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
    positive, threshold = decide(metrics, rows, found, threshold)
    codes, names = pd.factorize(rows.s, sort=True)  # a missing group is -1, which never counts
    rates, gaps, ratios = {}, [], []
    for rate in metrics.rates:
        values, counted = _rates(rate, rows, positive, codes, len(names))
        rates[rate] = [
            [str(name), value if n else None, n]
            for name, value, n in zip(names, values.tolist(), counted.tolist(), strict=True)
        ]
        known = values[counted > 0]
        gaps.append(float(np.ptp(known)))
        ratios.append(float(known.min() / known.max()) if known.any() else 1.0)
    gap, ratio = max(gaps), min(ratios)
    everyone = np.zeros(len(rows), np.int32)
    figures = {"accuracy": float((positive == (rows.y == 1)).mean())}
    for rate in ("fpr", "tpr"):
        figures[rate] = float(_rates(rate, rows, positive, everyone, 1)[0][0])
    performance = figures.get(metrics.performance)
    if performance is None:
        decided = _Decided(found.score, positive)
        nothing = np.empty((len(rows), 1))
        performance = float(get_scorer(metrics.performance)(decided, nothing, rows.y))
    return {
        "performance": performance,
        "fairness": ratio if metrics.fairness == "ratio" else 1.0 - gap,
        **figures,
        "gap": gap,
        "ratio": ratio,
        "rows": len(rows),
        "positives": int((rows.y == 1).sum()),
        "threshold": threshold if np.isfinite(threshold) else None,
        "rates": rates,
    }


def marks(rows: Rows, found: Predictions, positive: BoolArray) -> dict[str, Any]:
    """What tells a fit from others, and how it treats groups, as plain values.

    Parameters
    ----------
    rows : Rows
        The test rows.
    found : Predictions
        Of these rows.
    positive : (n,) array of bool
        Decisions about these rows.

    Returns
    -------
    dict
        ``sha256`` of the predictions, which any fit that predicts the same has too;
        ``decision_ratio``, lowest over highest rate of positive decisions; ``smd``, the largest
        standardised difference of mean scores, None where there are no scores.
    """
    told = found.decision if found.score is None else np.asarray(found.score, np.float64)
    ratios = decision_ratios(np.asarray(positive, bool), {"group": rows.s}).values()
    smd = None
    if found.score is not None:
        apart = standardised_differences(np.asarray(found.score, np.float64), {"group": rows.s})
        smd = float(apart["difference"].abs().max())
    return {
        "sha256": hashlib.sha256(np.ascontiguousarray(told).tobytes()).hexdigest(),
        "decision_ratio": min((r for r in ratios if np.isfinite(r)), default=None),
        "smd": smd if smd is not None and np.isfinite(smd) else None,
    }


def _rates(
    rate: str, rows: Rows, positive: BoolArray, codes: IntArray, n_groups: int
) -> tuple[FloatArray, IntArray]:
    """Value of a rate by group, NaN without rows, and the rows that count."""
    each, decided = np.ones(len(rows)), positive.astype(np.float64)
    events, counted = group_sums(RATES[rate], rows.y, codes, n_groups, each, decided)
    values = np.divide(events, counted, out=np.full(n_groups, np.nan), where=counted > 0)
    return values, counted.astype(np.int32)


def _ends(rates: dict[str, list[list[Any]]]) -> tuple[tuple[float, int], tuple[float, int]]:
    """Lowest and highest rate with the rows that count, of the rate that differs most."""
    worst = max(rates.values(), key=lambda groups: float(np.ptp([v for _, v, n in groups if n])))
    groups = sorted(((v, n) for _, v, n in worst if n), key=lambda pair: pair[0])
    return groups[0], groups[-1]


def gap_error(rates: dict[str, list[list[Any]]]) -> float:
    """Standard error of the widest gap: of its two rates, by the binomial law."""
    return float(np.sqrt(sum(v * (1 - v) / n for v, n in _ends(rates))))


def ratio_error(rates: dict[str, list[list[Any]]]) -> float:
    """Standard error of the ratio of the same two, by the delta method."""
    (low, n_low), (high, n_high) = _ends(rates)
    if not high:
        return 0.0
    variance = low * (1 - low) / n_low + (low / high) ** 2 * high * (1 - high) / n_high
    return float(np.sqrt(variance) / high)


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier that has made up its mind, for scorers of scikit-learn."""

    def __init__(self, score: FloatArray | None, positive: BoolArray) -> None:
        self.score_, self.positive_ = score, positive
        self.classes_ = np.array([0, 1])

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.positive_.astype(np.int8)

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        if self.score_ is None:
            raise InvalidInputError("the model only decides; it has no probabilities to score")
        return np.column_stack([1 - self.score_, self.score_])

    def __sklearn_is_fitted__(self) -> bool:
        return True
