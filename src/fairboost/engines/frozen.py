"""A fitted model that training goes on from: what a stage is, and which rows fit the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import Matrix
from fairboost.exceptions import EngineOptionError, InvalidInputError

STAGE_ROUNDS, STAGE_LEAVES, STAGE_LEARNING_RATE = 40, 15, 0.1
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


def check_width(X: Matrix, expected: int) -> None:
    """Refuse another number of features than the fitted model's."""
    width = int(np.shape(X)[1])
    if width != expected:
        raise InvalidInputError(
            f"X has {width} features, but the frozen model was trained on {expected}; pass the "
            "same columns in the same order"
        )


def feature_names(X: Matrix) -> list[str] | None:
    """Names of the features of a table that has some."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


def check_same_names(found: Sequence[str], known: Sequence[str]) -> None:
    """Refuse other features than those of the fitted model, or the same in another order."""
    for ours, theirs in zip(found, known, strict=True):
        if ours != theirs:
            raise InvalidInputError(
                f"X has the feature {ours!r} where the frozen model has {theirs!r}; pass the same "
                "columns in the same order"
            )
