"""What a model that decides does on test rows: rates, verdicts, curves and performance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, FloatArray
from fairboost.data.cells import SensitiveColumn
from fairboost.data.device_arrays import on_host
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import PRECISION, RATES
from fairboost.metrics import audit, audit_numbers, group_rates, threshold_at
from fairboost.metrics.numbers import NumberAudit
from fairboost.metrics.performance import ModelOutput, performance_table
from fairboost.metrics.score_bins import ScoreBins, bin_scores, make_edges
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.judging import judge
from fairboost.plots.numbers import RATIO, figure_table
from fairboost.report import evidence, lines
from fairboost.report.lines import CALIBRATED_RATES, CHOSEN, DECISION_RATES, PLAIN, pick
from fairboost.report.rows import OnTestRows, TestSet, judged_if_possible
from fairboost.verdicts.diagnostics import DECIDES
from fairboost.verdicts.fairness_report import FairnessReport


def measure(
    model: FairGBMClassifier, rows: TestSet, plain: Any, about: evidence.About
) -> OnTestRows:
    """What a model comes to on test rows.

    Parameters
    ----------
    model : FairGBMClassifier
        The model.
    rows : TestSet
        The rows.
    plain : classifier or None
        The engine without constraints, if there is one to compare with.
    about : About
        Which decisions are favourable, and which groups are small.
    """
    predictions = {CHOSEN: _predict(model, rows)}
    if plain is not None and plain is not model:
        predictions[PLAIN] = _predict(plain, rows, model.operating_point, model.pos_label_)
    rates, gaps = _compare_groups(model, rows, predictions, about)
    judged = _judge(model, rows, predictions[CHOSEN].positive)
    level = 0.95 if judged is None else judged.level
    bins = _bins(predictions[CHOSEN].proba, rows, model.threshold_)
    at_point = isinstance(model.operating_point, OperatingPoint)
    parts = {
        "performance": _performance(predictions, rows, level),
        "roc": tuple(lines.roc_lines(bins, model.threshold_)),
        "scores": lines.score_lines(bins, tuple(map(str, model._labels))),
        "calibration": lines.calibration_lines(bins, level),
        "caution": _caution(rates, judged, at_point),
    }
    placed = at_point and PLAIN in predictions and not isinstance(plain, FairGBMClassifier)
    distance = _distance_from_1(model, rows, predictions.get(PLAIN), level)
    return OnTestRows(judged, tuple(rates), tuple(gaps), parts, placed, distance)


def _predict(
    model: Any, rows: TestSet, point: float | OperatingPoint = 0.5, positive: object = None
) -> ModelOutput:
    """Probabilities and decisions; of another engine at our operating point and positive label."""
    if isinstance(model, FairGBMClassifier):  # rows are scored once for both
        return ModelOutput(*map(on_host, model._decide(model._scores(rows.X))))
    known = list(getattr(model, "classes_", ()))
    column = known.index(positive) if positive in known else 1  # else its labels are 0 and 1
    proba = np.asarray(on_host(model.predict_proba(rows.X)), np.float64)[:, column]
    if isinstance(point, OperatingPoint):
        point = threshold_at(rows.labels, proba, point, sample_weight=rows.weight)
    return ModelOutput(proba, proba >= point)


def _compare_groups(
    model: FairGBMClassifier,
    rows: TestSet,
    predictions: Mapping[str, ModelOutput],
    about: evidence.About,
) -> tuple[list[evidence.GroupRate], list[evidence.Gap]]:
    """Errors both ways and decisions, whatever is constrained, and precision."""
    shown = ["fpr", "fnr", DECISION_RATES[about.favourable], "precision"]
    decided = _of_decisions(rows.constrained_rates(model))
    rates: list[evidence.GroupRate] = []
    gaps: list[evidence.Gap] = []
    for name, p in predictions.items():
        found = audit(
            rows.labels,
            p.positive.astype(np.float64),  # the decisions themselves, not rounded scores
            sensitive_features=rows.sensitive_features,
            rates=list(dict.fromkeys([*decided, *shown])),
            by=[*rows.by, *rows.crossings()[0]],
            sample_weight=rows.weight,
            min_rows=about.min_rows,
            min_group_rows=model.min_group_rows,
        )
        rates += lines.rate_lines(found.rates, rows.main, name)
        rates += _calibrated_rates(model, rows, p, about, name)
        gaps += lines.gap_lines(found.gaps, name, about.favourable)
    return rates, gaps


def _calibrated_rates(
    model: FairGBMClassifier, rows: TestSet, output: ModelOutput, about: evidence.About, name: str
) -> tuple[evidence.GroupRate, ...]:
    """Mean probability, share of positive labels and their ratio, where calibration is asked."""
    by = rows.calibrated_by(model)
    if not by:
        return ()
    table = figure_table(_audit_probabilities(model, rows, output, by, min_rows=about.min_rows))
    table = table[table["rate"].isin([*CALIBRATED_RATES, RATIO])]
    return lines.rate_lines(table.replace({"rate": CALIBRATED_RATES}), rows.main, name)


def _audit_probabilities(
    model: FairGBMClassifier,
    rows: TestSet,
    output: ModelOutput,
    by: Sequence[tuple[str, ...]],
    **options: Any,
) -> NumberAudit:
    """Labels against probabilities, as numbers are audited."""
    return audit_numbers(
        rows.labels.astype(np.float64), output.proba, sensitive_features=rows.sensitive_features,
        by=by, sample_weight=rows.weight, min_group_rows=model.min_group_rows, **options,
    )  # fmt: skip


def _of_decisions(rates: Sequence[str]) -> list[str]:
    """Rates of decisions: losses, error rates and probabilities are in the verdicts alone."""
    return [rate for rate in rates if rate in RATES or rate == PRECISION.name]


def _judge(model: FairGBMClassifier, rows: TestSet, positive: BoolArray) -> FairnessReport | None:
    """Verdicts held out and on the test rows; None where nothing was asked for."""
    if not rows.constrained_rates(model) and not isinstance(model.operating_point, OperatingPoint):
        return None
    told = rows.X, rows.y, rows.constrained(model), rows.sample_weight
    return judged_if_possible(model, lambda: judge(model, *told, positive=positive))


def _bins(proba: FloatArray, rows: TestSet, threshold: float) -> list[ScoreBins]:
    """Scores of everyone, then by each sensitive column."""
    edges = make_edges(proba, threshold)
    everyone = SensitiveColumn("", np.zeros(len(proba), np.int64), ("everyone",))
    return [
        bin_scores(
            proba,
            rows.labels,
            np.asarray(c.codes, np.int64),
            tuple(map(str, c.values)),
            edges,
            attribute=c.name,
            sample_weight=rows.weight,
        )
        for c in (everyone, *rows.observed)
    ]


def _performance(
    predictions: Mapping[str, ModelOutput], rows: TestSet, level: float
) -> tuple[evidence.Performance, ...]:
    table = performance_table(rows.labels, predictions, rows.weight, level)
    return tuple(
        evidence.Performance(**pick(line, "model", "measure", "value", "low", "high"))
        for line in table.to_dict("records")
    )


def _caution(
    rates: Sequence[evidence.GroupRate], judged: FairnessReport | None, placed: bool
) -> str:
    """That decisions say next to nothing; as the advice has it, if it does, weights and all."""
    found = lines.caution(rates, placed=placed)
    said = [] if judged is None else [a for a in judged.advice if a.startswith(DECIDES)]
    return said[0] if found and said else found


def _distance_from_1(
    model: FairGBMClassifier, rows: TestSet, plain: ModelOutput | None, level: float
) -> tuple[float, ...]:
    """Of the plain engine, actual over expected that is farthest from 1, where that is asked."""
    by = rows.calibrated_by(model)
    if not by or plain is None:
        return ()
    found = _audit_probabilities(model, rows, plain, by, confidence=level).gaps
    found = found[found["figure"] == "a_over_e"].sort_values("value")
    return tuple(map(float, found[["value", "low", "high"]].iloc[-1]))


def point_rates(
    model: FairGBMClassifier, rows: TestSet
) -> tuple[tuple[evidence.GroupRate, ...], bool]:
    """Rates of a model along a trade-off, and whether its decisions say next to nothing."""
    table = group_rates(
        rows.labels,
        on_host(model._margins(rows.X) >= 0),
        sensitive_features=rows.sensitive_features,
        rates=list(
            dict.fromkeys([*_of_decisions(rows.constrained_rates(model)), "fpr", "fnr", "ppr"])
        ),
        by=[*rows.by, *rows.asked],
        sample_weight=rows.weight,
        pos_label=1,
    )
    rates = lines.rate_lines(table, rows.main)
    placed = isinstance(model.operating_point, OperatingPoint)
    return rates, bool(lines.caution(rates, placed=placed))
