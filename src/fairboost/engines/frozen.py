"""A fitted model that training goes on from: what a stage is, and which rows fit the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import Matrix
from fairboost.data.validation import width_of
from fairboost.exceptions import EngineOptionError, InvalidInputError

STAGE: dict[str, Any] = {"n_estimators": 40, "learning_rate": 0.1}
STAGE_LEAVES = 15
"""A stage on a fitted model: few small trees are enough to move the rates of groups."""


def check_frozen(base: Any, fitted: bool, classes: Any) -> None:
    """Refuse a model that is not fitted, or that tells other labels apart.

    Without classes a number is predicted, and there are no labels to compare.
    """
    if not fitted:
        raise EngineOptionError(
            f"the {type(base).__name__} in FrozenEstimator is not fitted; fit it first, or pass "
            "it without FrozenEstimator to train from scratch"
        )
    if classes is None:
        return
    known, found = (np.asarray(labels).tolist() for labels in (base.classes_, classes))
    if known != found:
        raise EngineOptionError(
            f"the frozen model knows the labels {known}, but y has {found}; code y as the "
            "frozen model knows it"
        )


def check_trained_by(name: str, told: str, outputs: int = 1) -> None:
    """Refuse a model of several numbers, or one whose trees do not predict what its options say.

    Parameters
    ----------
    name : str
        The objective that the trees were grown by.
    told : str
        The objective that the options name.
    outputs : int
        Numbers that the model predicts for each row.
    """
    if outputs != 1:
        raise EngineOptionError(
            f"the frozen model predicts {outputs} numbers for each row, expected one; fit a model "
            "for each of them"
        )
    if name != told:
        raise EngineOptionError(
            f"the frozen model was trained with objective={name!r}, but its options say {told!r}; "
            "set the objective that it was trained with, or fit it again"
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
    width = width_of(X)
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
