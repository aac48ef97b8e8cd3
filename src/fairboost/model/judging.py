"""The constraints of a classifier judged on other rows, such as a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairboost._typing import ArrayLike, BoolArray, FloatArray, Matrix
from fairboost.cluster.collections import DaskRows, column_names, is_dask
from fairboost.cluster.measuring import measure_on_dask
from fairboost.cluster.rows import count_decisions
from fairboost.data.cells import Cells, build_cells
from fairboost.data.device_arrays import on_host
from fairboost.data.validation import CheckedRows, check_fit_data
from fairboost.engines.port import LossTerms
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import Constraint, columns_of
from fairboost.fairness.label_moments import further_moments
from fairboost.fairness.operating_points import OperatingPoint, probability_of
from fairboost.fairness.rates import as_moment
from fairboost.fairness.realised_rate import realise
from fairboost.fairness.soft import placed, smooth_of
from fairboost.model.base import columns_among
from fairboost.training.outcome import measure_rows
from fairboost.training.rows import plain_layout
from fairboost.verdicts import fairness_report
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates

if TYPE_CHECKING:
    from fairboost.model.estimator import FairGBMClassifier


def judge(
    model: FairGBMClassifier,
    X: Matrix,
    y: ArrayLike,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
    *,
    positive: BoolArray | None = None,
    base_score: ArrayLike | None = None,
) -> FairnessReport:
    """As :meth:`fairboost.FairGBMClassifier.report_on`.

    Parameters
    ----------
    model : FairGBMClassifier
        The fitted model.
    X, y, sensitive_features, sample_weight, base_score
        As in ``report_on``.
    positive : (n,) bool, optional
        The decisions, where they are known: rows are then not scored again.
    """
    check_is_fitted(model, "_model")
    rows: CheckedRows | DaskRows
    if is_dask(X):
        rows = DaskRows(X, y, sensitive_features, sample_weight)
        names = column_names(sensitive_features)
    else:
        numbers = smooth_of(model.constraint)
        rows = check_fit_data(
            X, y, sensitive_features, sample_weight, model._labels, numbers=numbers
        )
        rows = rows.with_groups_of(model._known_groups())
        names = [c.name for c in rows.columns]
    constraints = model._options().constraints(model._constrained(names))
    if not constraints and not isinstance(model.operating_point, OperatingPoint):
        raise InvalidInputError(
            "the model was trained without constraints, so there is nothing to judge; "
            "fairboost.metrics.audit gives the rates of any model"
        )
    if model._several:
        found = _measure_several(model, rows, constraints)
    elif further_moments(as_moment(m) for c in constraints for m in c.moments):
        found = _measure_scores(model, rows, constraints, base_score)
    else:
        found = _measure_decisions(model, rows, names, constraints, positive, base_score)
    return model._build_report(*filter(None, [model._measured, found]))


def _measure_decisions(
    model: FairGBMClassifier,
    rows: CheckedRows | DaskRows,
    names: Sequence[str],
    constraints: Sequence[Constraint],
    positive: BoolArray | None,
    base_score: ArrayLike | None,
) -> MeasuredRates:
    """Measure decisions between two labels."""
    used = {name for constraint in constraints for name in columns_of(constraint)}
    decided: FloatArray
    if isinstance(rows, DaskRows):
        if model._base is not None:
            raise InvalidInputError(
                "a stage on a base model of another kind is judged on one machine, found a "
                "Dask collection; pass the rows as tables, such as X.compute()"
            )
        columns = [name for name in names if name in used]
        cells, decided = count_decisions(
            model._margins, rows, columns, model._labels, model._known_groups()
        )
    else:
        report, weight = model.fairness_report_, rows.sample_weight
        windows = {} if report is None else report.windows
        kept = placed(columns_among(rows, used), constraints, rows.labels, windows)
        cells = build_cells(rows.labels, kept, weight)
        if positive is None:
            positive = on_host(model._margins(rows.X, base_score) >= 0)
        parts = cells.shared_weight_of(positive, weight)
        decided = np.append(cells.weight_of(positive, weight), parts)
    point = model.operating_point
    return fairness_report.measure(
        constraints,
        _large_enough(model, cells, constraints),
        decided,
        where="test",
        point=point if isinstance(point, OperatingPoint) else None,
        threshold=model._score_threshold,
        note=cells.rows_without_group(),
    )


def _measure_scores(
    model: FairGBMClassifier,
    rows: CheckedRows | DaskRows,
    constraints: Sequence[Constraint],
    base_score: ArrayLike | None,
) -> MeasuredRates:
    """Measure losses, wrong decisions and probabilities of two labels."""
    if isinstance(rows, DaskRows):
        raise InvalidInputError(
            "losses and probabilities of groups are judged by scores, and of a Dask "
            "collection decisions alone are counted; pass the rows as a table, such as "
            "X.compute()"
        )
    left = _large_enough(model, _cells_on(rows, constraints), constraints)
    layout = plain_layout(left, constraints, rows.sample_weight)
    threshold = model._score_threshold
    asked = replace(model._options(), operating_point=probability_of(threshold))
    game = asked.game(layout, LossTerms(0.0, (1.0, 1.0)))
    scores = model._scores(rows.X, base_score)
    found = measure_rows(game, scores, "test", left.rows_without_group())
    if not isinstance(point := model.operating_point, OperatingPoint):
        return found
    positive = on_host(model._margins(rows.X, base_score) >= 0)
    decided = left.weight_of(positive, rows.sample_weight)
    return replace(found, realised=realise(point, threshold, left, decided))


def _measure_several(
    model: FairGBMClassifier, rows: CheckedRows | DaskRows, constraints: Sequence[Constraint]
) -> MeasuredRates:
    """Measure decisions among three classes or more."""
    # Losses are not reported: any will do.
    terms = LossTerms(0.0, (1.0,) * len(model.classes_), curvature=1.0)
    if isinstance(rows, DaskRows):
        known = model._options(), constraints, terms, model.classes_, model._known_groups()
        return measure_on_dask(rows, model._scores, *known)
    cells = _cells_on(rows, constraints)
    left = leave_out_small(cells, constraints, model.min_group_rows)
    game = model._options().game(plain_layout(left, constraints, rows.sample_weight), terms)
    return measure_rows(game, model._scores(rows.X), "test", left.rows_without_group())


def _cells_on(rows: CheckedRows, constraints: Sequence[Constraint]) -> Cells:
    """Rows in the cells that constraints read."""
    used = {name for constraint in constraints for name in columns_of(constraint)}
    return build_cells(rows.labels, columns_among(rows, used), rows.sample_weight)


def _large_enough(
    model: FairGBMClassifier, cells: Cells, constraints: Sequence[Constraint]
) -> Cells:
    """The same without groups that are too small to be judged, if two or more are left."""
    left = leave_out_small(cells, constraints, model.min_group_rows)
    compared = [len(left.groups_by(by)) for c in constraints if (by := columns_of(c))]
    # Of few rows no two groups may be left: then all are judged, as well as rows allow.
    return left if min(compared, default=2) >= 2 else leave_out_small(cells, constraints, 0)
