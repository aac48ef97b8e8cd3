"""Violations over the rounds of a fitted model, on rows of one's choice.

Training measures rates on the rows held out. What the training rows would have said, and how much
better they would have looked, is computed afterwards: every prefix of the ensemble is the model of
a round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.data.cells import build_cells
from fairboost.data.validation import check_fit_data
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import columns_of
from fairboost.verdicts import fairness_report

PREFIX = "violation: "
"""Columns of violations begin with it, in the trace too."""


def violations_by_round(
    model: Any,
    X: Matrix,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    points: int = 20,
) -> pd.DataFrame:
    """Violations of a model's constraints on some rows, over its rounds.

    Parameters
    ----------
    model : FairGBMClassifier
        Fitted under a constraint, with ``iterate`` "best" or "last".
    X, y, sensitive_features, sample_weight
        The rows, as in ``fit``; as a rule those that it was trained on.
    points : int
        At how many rounds to measure rates. Each costs a prediction.

    Returns
    -------
    pandas.DataFrame
        ``round`` and ``violation: ...`` as in ``model.trace_``: at the start of the round.
    """
    if model.iterate not in ("best", "last"):
        raise InvalidInputError(
            f"iterate={model.iterate!r} keeps no model of single rounds; violations over the "
            "rounds can be had with iterate='best' or 'last'"
        )
    data = check_fit_data(X, y, sensitive_features, sample_weight, model._labels)
    constraints = model._options().constraints([c.name for c in data.columns])
    names = [f"{PREFIX}{name}" for name in model.multipliers_.index]
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [c for c in data.columns if c.name in used]
    cells = build_cells(data.labels, columns, data.sample_weight)
    cells = leave_out_small(cells, constraints, model.min_group_rows)
    trace = model.trace_.set_index("round")
    base = model._model.n_base
    last = min(model._model.n_rounds - base, len(trace) - 1)
    lines = []
    for trees in np.unique(np.linspace(min(1, last), last, points).round().astype(int)).tolist():
        start = trees + 1  # of the round after
        threshold = trace.loc[start, "threshold"] if "threshold" in trace else model.threshold_
        positive = model._model.probabilities(model._model.scores(X, base + trees)) >= threshold
        decided = cells.weight_of(positive, data.sample_weight)
        measured = fairness_report.measure(constraints, cells, decided, where="")
        found = [np.atleast_1d(term.constraint.violations(r)) for term, r in measured.read()]
        violations = np.concatenate([*found, np.zeros(0)])
        if len(violations) != len(names):
            raise InvalidInputError(
                f"these rows and groups give {len(violations)} inequalities, training had "
                f"{len(names)}; pass the sensitive columns, with all their groups, that the model "
                "was trained with, and no others"
            )
        lines.append([start, *violations])
    return pd.DataFrame(lines, columns=["round", *names]).astype({"round": int})
