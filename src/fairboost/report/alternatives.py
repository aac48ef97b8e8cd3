"""The models that could have been chosen, and how training came to the one that was."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairboost.metrics import group_rates
from fairboost.model.estimator import FairGBMClassifier
from fairboost.report.evidence import Figure, Rounds, Tradeoff, TradeoffPoint
from fairboost.report.lines import figure, figures, rate_lines
from fairboost.report.rows import TestSet
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.verdicts.rounds import PREFIX, violations_by_round

MOST_ROUNDS = 200
"""Rounds that are kept of a trace."""


def compare_tradeoff(curve: TradeoffCurve, model: FairGBMClassifier, rows: TestSet) -> Tradeoff:
    """The curve on the test rows; a chosen model that is not on it becomes one more point."""
    chosen = next((k for k, m in enumerate(curve.models) if m is model), None)
    models = curve.models if chosen is not None else (*curve.models, model)
    table = TradeoffCurve(models, curve.table).on(
        rows.X,
        rows.y,
        sensitive_features=rows.constrained(model),
        sample_weight=rows.sample_weight,
    )
    pairs = zip(models, table.to_dict("records"), strict=True)
    points = [_point(m, line, rows) for m, line in pairs]
    if chosen is None:  # from loose to tight, as the others are
        extra = points.pop()
        chosen = bisect(points, _tightness(extra), key=_tightness)
        points.insert(chosen, replace(extra, name=f"{extra.name}, trained by itself"))
    return Tradeoff(where="test", points=tuple(points), chosen=chosen)


def _tightness(point: TradeoffPoint) -> float:
    return -np.inf if point.tolerance is None else -point.tolerance


def _point(model: FairGBMClassifier, line: Mapping[Any, Any], rows: TestSet) -> TradeoffPoint:
    tolerance = figure(line["tolerance"])
    names = ("accuracy", "accuracy low", "accuracy high", "gap", "gap low", "gap high")
    table = group_rates(
        rows.labels,
        model.decision_function(rows.X) >= 0,
        sensitive_features=rows.sensitive_features,
        rates=list(dict.fromkeys([*rows.constrained_rates(model), "fpr", "fnr", "ppr"])),
        sample_weight=rows.weight,
        pos_label=1,
    )
    return TradeoffPoint(
        name="no constraint" if tolerance is None else f"tolerance {tolerance:.3g}",
        tolerance=tolerance,
        **{name.replace(" ", "_"): figure(line[name]) for name in names},
        trees=int(line["trees"]),
        rates=rate_lines(table, rows.names),
    )


def thin_rounds(model: FairGBMClassifier, train: tuple[Any, ...] | None) -> Rounds | None:
    """The trace of a model, not more rounds of it than a plot can show.

    Parameters
    ----------
    model : FairGBMClassifier
        Fitted.
    train : tuple (X, y, sensitive_features[, sample_weight]), optional
        Training rows, to measure violations there as well.
    """
    trace, names = model.trace_, [str(name) for name in model.multipliers_.index]
    if not names or not len(trace):
        return None
    thinned = np.unique(np.linspace(0, len(trace) - 1, MOST_ROUNDS).round().astype(int))
    part, held_out = trace.iloc[thinned], "held-out loss" in trace
    on_train = pd.DataFrame({"round": np.zeros(0, int)})
    if train is not None and held_out and model.iterate in ("best", "last"):
        X, y, sensitive, weight = (*train, None)[:4]
        on_train = violations_by_round(
            model, X, y, sensitive_features=sensitive, sample_weight=weight
        )
    return Rounds(
        where="held out" if held_out else "training",
        rounds=tuple(map(int, part["round"])),
        multipliers=_by_name(part, "multiplier: ", names),
        violations=_by_name(part, PREFIX, names),
        train_rounds=tuple(map(int, on_train["round"])),
        train_violations=_by_name(on_train, PREFIX, names),
        kept=int(model.best_iteration_) - int(model._model.n_base),
    )


def _by_name(
    table: pd.DataFrame, prefix: str, names: Sequence[str]
) -> dict[str, tuple[Figure, ...]]:
    columns = {name: f"{prefix}{name}" for name in names}
    return {name: figures(table[c]) for name, c in columns.items() if c in table}
