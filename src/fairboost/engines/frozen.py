"""A fitted model that training goes on from: what a stage is, and which rows fit the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import Matrix
from fairboost.exceptions import EngineOptionError, InvalidInputError

STAGE: dict[str, Any] = {"n_estimators": 40, "learning_rate": 0.1}
STAGE_LEAVES = 15
"""A stage on a fitted model: few small trees are enough to move the rates of groups."""


def check_frozen(base: Any, fitted: bool, classes: Any) -> None:
    """Refuse a model that is not fitted, or that tells other labels apart."""
    if not fitted:
        raise EngineOptionError(
            f"the {type(base).__name__} in FrozenEstimator is not fitted; fit it first, or pass "
            "it without FrozenEstimator to train from scratch"
        )
    known, found = (np.asarray(labels).tolist() for labels in (base.classes_, classes))
    if known != found:
        raise EngineOptionError(
            f"the frozen model tells the labels {known} apart, but y has {found}; code y as the "
            "frozen model knows it"
        )


def check_features(
    X: Matrix, expected: int, found: Sequence[str] | None, known: Sequence[str] | None
) -> None:
    """Refuse other features than those of the fitted model, or the same in another order.

    Parameters
    ----------
    X : Matrix
        The rows to train on.
    expected : int
        Number of features of the fitted model.
    found, known : sequence of str, optional
        Names of the features of X and of the fitted model.
    """
    width = int(np.shape(X)[1])
    if width != expected:
        raise InvalidInputError(
            f"X has {width} features, but the frozen model was trained on {expected}; pass the "
            "same columns in the same order"
        )
    for ours, theirs in zip(found or (), known or (), strict=False):
        if ours != theirs:
            raise InvalidInputError(
                f"X has the feature {ours!r} where the frozen model has {theirs!r}; pass the same "
                "columns in the same order"
            )
