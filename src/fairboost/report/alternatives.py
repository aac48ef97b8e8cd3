"""The models that could have been chosen, and how training came to the one that was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fairboost.fairness.rates import as_rate
from fairboost.metrics import group_rates
from fairboost.model.estimator import FairGBMClassifier
from fairboost.report.evidence import GroupRate, Rounds, Tradeoff, TradeoffPoint
from fairboost.report.lines import CHOSEN, figure, figures
from fairboost.report.rows import SeenRows
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.verdicts.rounds import PREFIX, violations_by_round

MOST_ROUNDS = 200
"""Rounds that are kept of a trace."""


def compare_tradeoff(curve: TradeoffCurve, model: FairGBMClassifier, rows: SeenRows) -> Tradeoff:
    """The curve on the test rows; a chosen model that is not on it becomes one more point."""
    own = next((k for k, m in enumerate(curve.models) if m is model), None)
    models = curve.models if own is not None else (*curve.models, model)
    table = TradeoffCurve(models, curve.table).on(
        rows.X,
        rows.y,
        sensitive_features=rows.constrained(model),
        sample_weight=rows.sample_weight,
    )
    points = [
        _point(m, line, rows, extra=own is None and k == len(curve.models))
        for k, (m, line) in enumerate(zip(models, table.to_dict("records"), strict=True))
    ]
    chosen = own
    if own is None:  # from loose to tight, as the others are
        extra = points.pop()
        tighter = (k for k, p in enumerate(points) if _tightness(p) > _tightness(extra))
        chosen = next(tighter, len(points))
        points.insert(chosen, extra)
    return Tradeoff(where="test", points=tuple(points), chosen=chosen)


def _tightness(point: TradeoffPoint) -> float:
    return -np.inf if point.tolerance is None else -point.tolerance


def _point(
    model: FairGBMClassifier, line: Mapping[Any, Any], rows: SeenRows, extra: bool
) -> TradeoffPoint:
    tolerance = figure(line["tolerance"])
    name = "no constraint" if tolerance is None else f"tolerance {tolerance:.3g}"
    figures = ("accuracy", "accuracy low", "accuracy high", "gap", "gap low", "gap high")
    table = group_rates(
        rows.labels,
        model.decision_function(rows.X) >= 0,
        sensitive_features=rows.sensitive_features,
        rates=_shown_at_points(model, rows),
        sample_weight=rows.weight,
        pos_label=1,
    )
    return TradeoffPoint(
        name=f"{name}, trained by itself" if extra else name,
        tolerance=tolerance,
        **{f.replace(" ", "_"): figure(line[f]) for f in figures},
        trees=int(line["trees"]),
        rates=tuple(
            GroupRate(
                where="test",
                model=CHOSEN,
                attribute=str(r["attribute"]),
                group=str(r["group"]),
                rate=str(r["rate"]),
                value=figure(r["value"]),
                low=figure(r["low"]),
                high=figure(r["high"]),
                rows=float(r["rows"]),
            )
            for r in table.to_dict("records")
        ),
    )


def _shown_at_points(model: FairGBMClassifier, rows: SeenRows) -> list[str]:
    constraints = model._method().constraints(list(rows.constrained(model)))
    asked = [as_rate(rate).name for c in constraints for rate in c.moments]
    return list(dict.fromkeys([*asked, "fpr", "fnr", "ppr"]))


def thin_rounds(model: FairGBMClassifier, train: tuple[Any, ...] | None) -> Rounds | None:
    """The trace of a model, not more rounds of it than a plot can show.

    Parameters
    ----------
    model : FairGBMClassifier
        Fitted.
    train : tuple (X, y, sensitive_features[, sample_weight]), optional
        Training rows, to look at violations there as well.
    """
    trace, names = model.trace_, [str(name) for name in model.multipliers_.index]
    if not names or not len(trace):
        return None
    kept = int(model.best_iteration_) - int(model._model.n_base)
    thinned = np.unique(np.linspace(0, len(trace) - 1, MOST_ROUNDS).round().astype(int))
    part = trace.iloc[thinned]
    held_out = "held-out loss" in trace
    looked = pd.DataFrame({"round": np.zeros(0, int)})
    if train is not None and held_out and model.iterate in ("best", "last"):
        X, y, sensitive, *weight = train
        looked = violations_by_round(
            model, X, y, sensitive_features=sensitive, sample_weight=weight[0] if weight else None
        )
    return Rounds(
        where="held out" if held_out else "training",
        rounds=tuple(map(int, part["round"])),
        multipliers={name: figures(part[f"multiplier: {name}"]) for name in names},
        violations={name: figures(part[f"{PREFIX}{name}"]) for name in names},
        train_rounds=tuple(map(int, looked["round"])),
        train_violations={
            name: figures(looked[f"{PREFIX}{name}"])
            for name in names
            if f"{PREFIX}{name}" in looked
        },
        kept=kept,
    )
