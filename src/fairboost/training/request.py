"""A training to be done, checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, Float32Array, Matrix
from fairboost.data.holdout import Holdout
from fairboost.data.validation import CheckedRows
from fairboost.engines.port import Engine, EngineData, LossTerms
from fairboost.training.options import TrainingOptions


@dataclass(frozen=True)
class FitRequest:
    """A training to be done, checked.

    Parameters
    ----------
    options : TrainingOptions
        Constraints and how to reach them.
    engine : Engine
        Grows the trees.
    y : ArrayLike
        The labels as the user gave them.
    data : CheckedRows
        The rows, checked.
    held_out : CheckedRows, optional
        The user's own rows to measure rates on.
    fit_options : dict
        The engine's own arguments of ``fit``.
    seed : int
        Of the draw of rows to hold out.
    """

    options: TrainingOptions
    engine: Engine
    y: ArrayLike
    data: CheckedRows
    held_out: CheckedRows | None
    fit_options: dict[str, Any]
    seed: int

    @property
    def X(self) -> Matrix:
        """The features as the user gave them."""
        return self.data.X

    @property
    def columns(self) -> list[str]:
        """Names of the sensitive columns."""
        return [c.name for c in self.data.columns]

    @cached_property
    def sample_weight(self) -> Float32Array | None:
        """Weights as engines keep them."""
        weight = self.data.sample_weight
        return None if weight is None else weight.astype(np.float32)

    @cached_property
    def loss_terms(self) -> LossTerms:
        """What the engine's options say about the loss."""
        terms: LossTerms = self.engine.loss_terms(self.data.labels, self.sample_weight)
        return terms

    def outside(self, holdout: Holdout) -> CheckedRows | None:
        """The user's own rows to measure rates on, if they are measured."""
        return self.held_out if holdout.kind in ("set", "both") else None

    def engine_data(self, holdout: Holdout) -> EngineData:
        """What the engine gets."""
        measured = self.outside(holdout)
        return EngineData(
            self.X,
            self.y,
            self.data.labels,
            self.sample_weight,
            self.fit_options,
            holdout.trained,
            holdout.trained_labels,
            None if measured is None else (measured.X, measured.labels),
        )
