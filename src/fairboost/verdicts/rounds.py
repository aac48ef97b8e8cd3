"""Violations over the rounds of a fitted model, on rows of one's choice.

Training measures rates on the rows held out. What the training rows would have said, and how much
better they would have looked, is computed afterwards: every prefix of the ensemble is the model of
a round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

from fairboost._typing import ArrayLike, FloatArray, Matrix
from fairboost.data.cells import build_cells
from fairboost.data.validation import check_fit_data
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import columns_of
from fairboost.fairness.soft import placed, smooth_of
from fairboost.verdicts import fairness_report

PREFIX = "violation: "
"""Columns of violations begin with it, in the trace too."""

OfRound: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""Scores of some rows, and the round at whose start they are taken, to violations."""


def rows_of(model: Any, train: tuple[Any, ...]) -> dict[str, Any]:
    """Training rows, as users pass them to reports and plots, by the names below.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    train : tuple (X, y, sensitive_features[, sample_weight[, exposure]])
        The rows; the exposure is for regressors.
    """
    if len(getattr(model, "classes_", ())) > 2:
        raise InvalidInputError(
            "violations on training rows are shown for two labels, and the model gives one of "
            f"{len(model.classes_)} classes; leave train out: those on the rows held out are shown"
        )
    names = ["X", "y", "sensitive_features", "sample_weight"]
    names += ["exposure"] * is_regressor(model)
    if not 3 <= len(train) <= len(names):
        raise InvalidInputError(
            f"train must be a tuple of 3 to {len(names)} parts, {', '.join(names)}, found "
            f"{len(train)} parts; None stands for one that is left out"
        )
    return dict(zip(names, train, strict=False))


def violations_by_round(
    model: Any,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    points: int = 20,
) -> pd.DataFrame:
    """Violations of a model's constraints on some rows, over its rounds.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        Fitted under a constraint, with ``iterate`` "best" or "last".
    X, y, sensitive_features, sample_weight, exposure
        The rows, as in ``fit``; as a rule those that it was trained on.
    points : int
        At how many rounds to measure moments. Each costs a prediction.

    Returns
    -------
    pandas.DataFrame
        ``round`` and ``violation: ...`` as in ``model.trace_``: at the start of the round.
    """
    if model.iterate not in ("best", "last"):
        raise InvalidInputError(
            f"iterate={model.iterate!r} keeps no model of single rounds; violations over the "
            "rounds are available with iterate='best' or 'last'"
        )
    names = [f"{PREFIX}{name}" for name in model.multipliers_.index]
    rows = X, y, sensitive_features, sample_weight
    find = model._violations_on(*rows, exposure) if is_regressor(model) else _decided(model, *rows)
    trace = model.trace_.set_index("round")
    base = model._model.n_base
    last = min(model._model.n_rounds - base, len(trace) - 1)
    lines = []
    for trees in np.unique(np.linspace(min(1, last), last, points).round().astype(int)).tolist():
        start = trees + 1  # of the round after
        violations = find(model._scores(X, rounds=base + trees), start)
        if len(violations) != len(names):
            raise InvalidInputError(
                f"these rows and groups give {len(violations)} inequalities, training had "
                f"{len(names)}; pass the sensitive columns, with all their groups, that the model "
                "was trained with, and no others"
            )
        lines.append([start, *violations])
    return pd.DataFrame(lines, columns=["round", *names]).astype({"round": int})


def _decided(
    model: Any,
    X: Matrix,
    y: ArrayLike,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
) -> OfRound:
    """Violations of decisions between two labels, by the threshold of each round."""
    numbers = smooth_of(model.constraint)
    given = X, y, sensitive_features, sample_weight, model._labels
    data = check_fit_data(*given, numbers=numbers)
    constraints = model._options().constraints([c.name for c in data.columns])
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [c for c in data.columns if c.name in used]
    columns = placed(columns, constraints, data.labels, model.fairness_report_.windows)
    cells = build_cells(data.labels, columns, data.sample_weight)
    cells = leave_out_small(cells, constraints, model.min_group_rows)
    trace = model.trace_.set_index("round")

    def find(scores: FloatArray, start: int) -> FloatArray:
        threshold = trace.loc[start, "threshold"] if "threshold" in trace else model.threshold_
        positive = model._model.probabilities(scores) >= threshold
        parts = cells.shared_weight_of(positive, data.sample_weight)
        decided = np.append(cells.weight_of(positive, data.sample_weight), parts)
        measured = fairness_report.measure(constraints, cells, decided, where="")
        found = [np.atleast_1d(term.constraint.violations(r)) for term, r in measured.read()]
        return np.concatenate([*found, np.zeros(0)])

    return find
