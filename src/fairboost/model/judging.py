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
from fairboost.model.several import given_class
from fairboost.training.outcome import measure_rows
from fairboost.training.rows import plain_layout
from fairboost.verdicts import fairness_report, prediction
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates
from fairboost.verdicts.prediction import BASE_MODEL, THIS_MODEL, Prediction

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
    scores, performance = None, tuple[Prediction, ...]()
    if positive is None and isinstance(rows, CheckedRows):
        own, base = model._scores_in_parts(rows.X, base_score)
        scores = own if base is None else own + base
        performance = _performance(model, rows, scores, base)
    if model._several:
        found = _measure_several(model, rows, constraints, scores)
    elif further_moments(as_moment(m) for c in constraints for m in c.moments):
        found = _measure_scores(model, rows, constraints, scores, base_score)
    else:
        if scores is not None:
            positive = on_host(model._decide(scores)[1])
        found = _measure_decisions(model, rows, names, constraints, positive)
    found = replace(found, performance=performance)
    return model._build_report(*filter(None, [model._measured, found]))


def _performance(
    model: FairGBMClassifier, rows: CheckedRows, scores: FloatArray, base: FloatArray | None
) -> tuple[Prediction, ...]:
    """How well the model predicts, and a base model that it is a stage on."""
    weight = None if rows.sample_weight is None else rows.sample_weight.astype(np.float64)
    if model._several:
        proba = model._model.probabilities(scores)
        return prediction.of_classes(rows.labels, proba, given_class(proba, model._costs), weight)
    said = {THIS_MODEL: scores}
    if base is not None and not isinstance(model.operating_point, OperatingPoint):
        said[BASE_MODEL] = base
    decided = {name: tuple(map(on_host, model._decide(s))) for name, s in said.items()}
    return prediction.of_two_labels(rows.labels, decided, weight)


def _measure_decisions(
    model: FairGBMClassifier,
    rows: CheckedRows | DaskRows,
    names: Sequence[str],
    constraints: Sequence[Constraint],
    positive: BoolArray | None,
) -> MeasuredRates:
    """Measure decisions between two labels; those about rows on a cluster are still to be made."""
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
        assert positive is not None
        parts = cells.shared_weight_of(positive, weight)
        decided = np.append(cells.weight_of(positive, weight), parts)
    point = model.operating_point
    return fairness_report.measure(
        constraints,
        leave_out_small(cells, constraints, model.min_group_rows),
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
    scores: FloatArray | None,
    base_score: ArrayLike | None,
) -> MeasuredRates:
    """Measure losses, wrong decisions and probabilities of two labels."""
    if isinstance(rows, DaskRows):
        raise InvalidInputError(
            "losses and probabilities of groups are judged by scores, and of a Dask "
            "collection decisions alone are counted; pass the rows as a table, such as "
            "X.compute()"
        )
    left = leave_out_small(_cells_on(rows, constraints), constraints, model.min_group_rows)
    layout = plain_layout(left, constraints, rows.sample_weight)
    threshold = model._score_threshold
    asked = replace(model._options(), operating_point=probability_of(threshold))
    game = asked.game(layout, LossTerms(0.0, (1.0, 1.0)))
    scores = model._scores(rows.X, base_score) if scores is None else scores
    found = measure_rows(game, scores, "test", left.rows_without_group())
    if not isinstance(point := model.operating_point, OperatingPoint):
        return found
    positive = on_host(model._decide(scores)[1])
    decided = left.weight_of(positive, rows.sample_weight)
    return replace(found, realised=realise(point, threshold, left, decided))


def _measure_several(
    model: FairGBMClassifier,
    rows: CheckedRows | DaskRows,
    constraints: Sequence[Constraint],
    scores: FloatArray | None,
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
    scores = model._scores(rows.X) if scores is None else scores
    return measure_rows(game, scores, "test", left.rows_without_group())


def _cells_on(rows: CheckedRows, constraints: Sequence[Constraint]) -> Cells:
    """Rows in the cells that constraints read."""
    used = {name for constraint in constraints for name in columns_of(constraint)}
    return build_cells(rows.labels, columns_among(rows, used), rows.sample_weight)
