"""Labels, decisions and scores as users have them in, checked arrays out.

The metrics' side of the door for user data: two labels of any type, decisions in the same labels,
scores that rise with the positive one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.data.labels import warn_if_guessed
from fairboost.data.validation import as_column, check_same_rows, read_weights, unpack
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import Rate
from fairboost.metrics.sums import effective_rows

HALF = 0.5
"""The threshold of probabilities, if no other is named."""
ROUNDING = 1e-6
"""How far probabilities may lie beyond 0 and 1."""


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a threshold decides.

    Parameters
    ----------
    labels : (n,) int32
        0 and 1.
    scores : (n,) float64
        Scores that rise with label 1.
    weight : (n,) float64 or None
        Weights of the rows.
    known : list
        The labels as they were: the positive one, then the other if there is one.
    """

    labels: IntArray
    scores: FloatArray
    weight: FloatArray | None
    known: list[object]

    def rows(self, rate: Rate) -> int:
        """How many rows count towards a rate and weigh something."""
        return int((self._weight(rate) > 0).sum())

    def effective(self, rate: Rate) -> float:
        """Kish's effective number of the rows that count towards a rate."""
        return effective_rows(self._weight(rate))

    def rate(self, rate: Rate, threshold: float) -> float:
        """Value of a rate of everyone; NaN where no row counts."""
        weight = self._weight(rate)
        events = (self.scores >= threshold)[rate.counts(self.labels)] == (rate.direction > 0)
        return float(np.average(events, weights=weight)) if weight.any() else np.nan

    def _weight(self, rate: Rate) -> FloatArray:
        """Weights of the rows that count towards a rate."""
        weight = np.ones(len(self.labels)) if self.weight is None else self.weight
        return weight[rate.counts(self.labels)]


def read_scored(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None, pos_label: object
) -> ScoredRows:
    """Check labels, scores and weights."""
    check_same_rows(y_true=y_true, y_score=y_score, sample_weight=sample_weight)
    labels, known = read_truth(y_true, pos_label)
    scores = _read_scores(y_score, len(labels))
    return ScoredRows(labels, scores, read_weights(sample_weight, len(labels)), known)


def read_audited(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None, pos_label: object
) -> tuple[ScoredRows, float]:
    """Check labels, and scores or predicted labels that nobody gave a threshold for.

    Predicted labels become scores of 0 and 1, and their threshold is NaN.
    """
    check_same_rows(y_true=y_true, y_score=y_score, sample_weight=sample_weight)
    labels, known = read_truth(y_true, pos_label)
    if (positive := _as_labels(y_score, known)) is None:
        scores, threshold = _read_scores(y_score, len(labels)), HALF
        written = "predicted labels must be written as in y_true"
        check_probabilities(float(scores.min()), float(scores.max()), written)
    else:
        scores, threshold = positive.astype(np.float64), np.nan
    weight = read_weights(sample_weight, len(labels))
    return ScoredRows(labels, scores, weight, known), threshold


def check_probabilities(lowest: float, highest: float, decisions: str) -> None:
    """Refuse to cut scores at 0.5 that lie beyond 0 and 1.

    Parameters
    ----------
    lowest, highest : float
        The extreme scores.
    decisions : str
        What to do if they are decisions.
    """
    if not are_probabilities(lowest, highest):
        raise InvalidInputError(
            f"the scores lie between {lowest:g} and {highest:g}, so they are not probabilities, "
            "and the default threshold of 0.5 is not meant for them; pass the score from which a "
            "decision is positive (threshold=0 for log-odds, threshold=50 for percentages), or "
            "the share of positive decisions, such as threshold=at_positive_rate(0.2); "
            f"{decisions}"
        )


def are_probabilities(lowest: float, highest: float) -> bool:
    """Whether scores between these two may be probabilities."""
    return lowest >= -ROUNDING and highest <= 1 + ROUNDING


def _as_labels(column: ArrayLike, known: list[object]) -> BoolArray | None:
    """Which of some predicted labels are positive; None if a column holds scores."""
    values = _one_column("y_score", column, None)
    numbers = values.dtype.kind in "biuf"
    probable = numbers and bool(((values >= 0) & (values <= 1)).all())
    if probable and (known[0] == 1 or not any(label in (0, 1) for label in known)):
        return None
    if numbers and (np.isnan(values).any() or len(np.unique(values)) > 2):
        return None
    found = _factorize("y_score", values, None)[1]
    if not all(value in known for value in found):
        if numbers or _are_numbers(found):
            return None
    elif probable:  # of label 0, the decision 1 is no score of 1
        raise InvalidInputError(
            f"y_score holds {' and '.join(map(repr, found))}, and the positive label is "
            f"{known[0]!r}, so these may be labels or scores; pass threshold=0.5, and in place "
            f"of predicted labels y_score == {known[0]!r}"
        )
    remedy = "predicted labels, or scores"
    return _which_are_positive("y_score", column, None, known, remedy)


def _are_numbers(values: list[object]) -> bool:
    with suppress(TypeError, ValueError):
        return bool(np.asarray(values, np.float64).size)
    return False


def read_more_rows(name: str, rows: object, known: list[object]) -> ScoredRows:
    """Check ``(y_true, y_score[, sample_weight])`` of rows whose labels are known from others."""
    form = "(y_true, y_score[, sample_weight])"
    remedy = "; pass the labels and scores of the rows to choose the threshold on"
    y_true, y_score, weight = unpack(name, rows, form, most=3, remedy=remedy)
    try:
        check_same_rows(y_true=y_true, y_score=y_score, sample_weight=weight)
        positive = _which_are_positive("y_true", y_true, None, known, "the same labels")
        scores = _read_scores(y_score, len(positive))
        weights = read_weights(weight, len(positive))
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error
    return ScoredRows(positive.astype(np.int32), scores, weights, known)


def read_truth(y_true: ArrayLike, pos_label: object) -> tuple[IntArray, list[object]]:
    """Labels as 0 and 1, and what they were: the positive one, then the other if there is one."""
    codes, values = _factorize("y_true", y_true, None)
    if pos_label is None and len(values) == 2:
        with suppress(TypeError):  # labels of two types have no order
            other, pos_label = sorted(values)  # type: ignore[type-var]
            warn_if_guessed(pos_label, other)
    if pos_label is None or len(values) > 2 or (len(values) == 2 and pos_label not in values):
        raise InvalidInputError(
            "y_true must hold two labels, and pos_label be one of them; found the labels "
            f"{values[:5]} and pos_label={pos_label!r}; merge labels, or set pos_label="
        )
    labels = np.array([v == pos_label for v in values], np.int32)[codes]
    return labels, [pos_label, *(v for v in values if v != pos_label)]


def read_decisions(
    y_true: ArrayLike, y_pred: ArrayLike, pos_label: object
) -> tuple[IntArray, BoolArray]:
    """Labels as 0 and 1, and which decisions are positive."""
    labels, known = read_truth(y_true, pos_label)
    remedy = "decisions, or pass scores to audit"
    return labels, _which_are_positive("y_pred", y_pred, len(labels), known, remedy)


def _which_are_positive(
    name: str, column: ArrayLike, n: int | None, known: list[object], remedy: str
) -> BoolArray:
    codes, values = _factorize(name, column, n)
    unknown = [v for v in values if v not in known]
    if len(known) + len(unknown) > 2:
        raise InvalidInputError(
            f"{name} holds {unknown[0]!r}, which is not among the labels of y_true, {known}; pass "
            f"{remedy}"
        )
    return np.take(np.array([v == known[0] for v in values], bool), codes)


def _factorize(name: str, values: ArrayLike, n: int | None) -> tuple[np.ndarray, list[object]]:
    codes, found = pd.factorize(_one_column(name, values, n))
    if (missing := codes < 0).any():
        raise InvalidInputError(f"{name} is missing at row {missing.argmax()}; drop such rows")
    return codes, found.tolist()


def _read_scores(y_score: ArrayLike, n: int) -> FloatArray:
    column = _one_column("y_score", y_score, n)
    try:
        scores = column.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"y_score must hold numbers, found otherwise: {error}; a threshold is for scores, so "
            "leave threshold out if y_score holds predicted labels"
        ) from error
    if (missing := np.isnan(scores)).any():
        raise InvalidInputError(f"y_score is NaN at row {missing.argmax()}; drop such rows")
    return scores


def _one_column(name: str, values: ArrayLike, n: int | None) -> np.ndarray:
    column = as_column(values)
    if column.ndim != 1:
        raise InvalidInputError(
            f"{name} must be one column, found shape {column.shape}; of predict_proba pass [:, 1]"
        )
    if not len(column) or len(column) != (n or len(column)):
        raise InvalidInputError(
            f"{name} has {len(column)} rows, expected {n or 'some'}, one for each row of y_true"
        )
    return column
