"""A training to be done, checked."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, Float32Array, Matrix
from fairboost.algorithm.multipliers import SETTLED
from fairboost.data.holdout import Holdout
from fairboost.data.validation import CheckedRows
from fairboost.engines.port import Engine, EngineData, LossTerms
from fairboost.tasks.binary_means import check_for_device
from fairboost.tasks.layout import Outcomes, join_outcomes
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
    def has_base(self) -> bool:
        """Whether training starts from a model, which is then the first iterate."""
        return self.engine.base is not None or self.is_stage

    @property
    def is_stage(self) -> bool:
        """Whether a stage is added to the scores of a base model of another kind."""
        return self.data.base_scores is not None

    @property
    def rounds_to_settle(self) -> int:
        """Rounds that the gain of multipliers is made for.

        What is added to a model has little to move. A stage on scores is given twice the rounds
        that it has, so that 20 trees have a gain of 2 and 40 have one of 1; with a gain of 3 gaps
        on new rows were larger.
        """
        if not self.is_stage:
            return SETTLED if self.has_base else self.engine.n_rounds
        return min(SETTLED, max(2 * self.engine.n_rounds, SETTLED // 2))

    def on_device(self) -> AbstractContextManager[None]:
        """Make the engine's GPU, if it has one, that on which arrays are made."""
        # What is wrong on every machine is said before that a machine has no GPU.
        constraints, _ = self.options.constraints(self.columns), self.loss_terms
        if self.engine.device_name is not None:
            check_for_device(constraints, self.engine.device_name)
        device = self.engine.device
        return nullcontext() if device is None else device.used()

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
    def weight_in_moments(self) -> Float32Array | None:
        """Weights by which rows count towards moments."""
        if self.data.exposure is None:
            return self.sample_weight
        weight = self.data.weight_in_moments
        return None if weight is None else weight.astype(np.float32)

    @cached_property
    def loss_terms(self) -> LossTerms:
        """What the engine's options say about the loss."""
        data = self.data
        terms: LossTerms = self.engine.loss_terms(
            data.labels if data.targets is None else data.targets, self.sample_weight, data.offset
        )
        # A base model has its own.
        return terms if data.base_scores is None else replace(terms, intercept=0.0)

    def outcomes(self, holdout: Holdout) -> tuple[Outcomes, Outcomes] | tuple[None, None]:
        """What the rows trained on, and those measured, are to come to, if that is a number."""
        if self.data.targets is None:
            return None, None
        ours = outcomes_of(self.data)
        trained = ours if holdout.trained is None else ours.among(holdout.trained)
        parts = []
        if holdout.trained is not None:
            parts.append(ours.among(~holdout.trained))
        if (outside := self.outside(holdout)) is not None:
            parts.append(outcomes_of(outside))
        return trained, join_outcomes(parts) if parts else ours

    def outside(self, holdout: Holdout) -> CheckedRows | None:
        """The user's own rows to measure rates on, if they are measured."""
        return self.held_out if holdout.kind in ("set", "both") else None

    def engine_data(self, holdout: Holdout) -> EngineData:
        """What the engine gets."""
        measured, data = self.outside(holdout), self.data
        held_out = None
        if measured is not None:
            labels = measured.labels if measured.targets is None else measured.targets
            held_out = measured.X, labels
        return EngineData(
            self.X,
            self.y,
            data.labels if data.targets is None else data.targets,
            self.sample_weight,
            self.fit_options,
            holdout.trained,
            holdout.trained_labels,
            held_out,
            data.offset,
            None if measured is None else measured.offset,
        )


def outcomes_of(rows: CheckedRows) -> Outcomes:
    """What checked rows are to come to, where a number is predicted."""
    assert rows.targets is not None
    weight = rows.sample_weight
    # As engines keep them, in single precision.
    targets = rows.targets.astype(np.float32).astype(np.float64)
    return Outcomes(targets, None if weight is None else weight.astype(np.float32), rows.exposure)
