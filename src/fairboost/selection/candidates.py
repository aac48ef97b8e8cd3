"""What tells one fit from another: seed, checksum, and how groups compare under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, Matrix
from fairboost.data.device_arrays import on_host
from fairboost.metrics.contrasts import decision_ratios, standardised_differences
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.files import model_seal


def fit_marks(model: Any) -> dict[str, Any]:
    """Random seed and checksum of a fitted model.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model. Its seed is None where it was drawn from a generator, which has none.
    """
    seed = 0 if model.random_state is None else model.random_state
    known = isinstance(seed, int | np.integer)
    return {"seed": int(seed) if known else None, "sha256": model_seal(model)}


def scores_of(model: Any, X: Matrix, exposure: ArrayLike | None = None) -> FloatArray | None:
    """Probabilities of the positive label, or predicted numbers; None of several classes.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    X : matrix
        The rows.
    exposure : array, optional
        Their exposures, where a number is predicted per unit of exposure.
    """
    if not isinstance(model, FairGBMClassifier):
        extra = {} if exposure is None else {"exposure": exposure}
        return np.asarray(model.predict(X, **extra), np.float64)
    if len(model.classes_) > 2:
        return None
    positive = list(model.classes_).index(model.pos_label_)
    return np.asarray(on_host(model.predict_proba(X)[:, positive]), np.float64)


def contrasts_of(model: Any, rows: Mapping[str, Any]) -> dict[str, float | None]:
    """The lowest ratio of positive decisions, and the largest standardised difference.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    rows : mapping
        With ``X``, ``sensitive_features`` and perhaps ``exposure``.
    """
    scores, groups = scores_of(model, rows["X"], rows.get("exposure")), rows["sensitive_features"]
    ratio = smd = None
    if scores is not None:
        apart = standardised_differences(scores, groups)["difference"].abs().max()
        smd = float(apart) if np.isfinite(apart) else None
    if scores is not None and isinstance(model, FairGBMClassifier):
        decided = on_host(model._margins(rows["X"]) >= 0)
        found = decision_ratios(decided, groups).values()
        ratio = min((r for r in found if np.isfinite(r)), default=None)
    return {"ratio": ratio, "smd": smd}
