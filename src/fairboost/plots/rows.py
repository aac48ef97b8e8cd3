"""Scored rows by group, as the displays of scores take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, Matrix
from fairboost.data.validation import read_sensitive_features
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics.decisions import ScoredRows, read_scored
from fairboost.metrics.score_bins import ScoreBins, bin_scores, make_edges
from fairboost.metrics.thresholds import choose


def bin_rows(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    by: str | None,
    threshold: float | OperatingPoint | None,
    sample_weight: ArrayLike | None,
    pos_label: object,
) -> tuple[ScoreBins, float | None, ScoredRows]:
    """Sort rows into bins of scores by the groups of one column; the threshold as a number."""
    rows = read_scored(y_true, y_score, sample_weight, pos_label)
    columns = {c.name: c for c in read_sensitive_features(sensitive_features, len(rows.labels))}
    if by is None and len(columns) != 1:
        raise InvalidInputError(
            f"by must name the column whose groups to show, as there are {list(columns)}; "
            f"pass e.g. by={next(iter(columns), 'sex')!r}"
        )
    name = next(iter(columns)) if by is None else by
    if name not in columns:
        raise InvalidInputError(
            f"by={by!r} is not among the sensitive columns {list(columns)}; pass one of them"
        )
    if isinstance(threshold, OperatingPoint):
        threshold = choose(threshold, rows, None).value
    column = columns[name]
    bins = bin_scores(
        rows.scores,
        rows.labels,
        np.asarray(column.codes, np.intp),
        tuple(map(str, column.values)),
        make_edges(rows.scores, threshold),
        attribute=name,
        sample_weight=rows.weight,
    )
    return bins, threshold, rows


def scores_of(model: Any, X: Matrix) -> np.ndarray:
    """Probabilities of the positive label."""
    return np.asarray(model.predict_proba(X))[:, 1]


def threshold_of(model: Any) -> float:
    """Where the model decides: ``threshold_`` of one that has it, else 0.5."""
    return float(getattr(model, "threshold_", 0.5))
