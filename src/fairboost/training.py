"""From checked data to a trained model: bind constraints, assemble the Lagrangian, hand it over.

Arrows go one way. The engine gets one callable for the gradient and never sees a constraint; the
Lagrangian gets scores and never sees X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tqdm.auto import tqdm

from fairboost import diagnostics
from fairboost._kernel import thread_count
from fairboost._typing import ArrayLike, Float32Array, Matrix
from fairboost._validation import FitData
from fairboost.cells import build_cells
from fairboost.constraints import ConstraintLike, columns_of, resolve
from fairboost.engines.base import Engine, EngineData, TrainedModel
from fairboost.exceptions import InvalidInputError
from fairboost.lagrangian import Lagrangian
from fairboost.proxies import Proxy, as_proxy

__all__ = ["PAPER_LEARNING_RATE", "Method", "Training", "train"]

PAPER_LEARNING_RATE = 0.1
"""Step of the multipliers where the user gives none: the default of the authors' program."""


@dataclass(frozen=True)
class Method:
    """What the user asked for, by the names of ``FairGBMClassifier``'s parameters."""

    constraint: ConstraintLike
    tolerance: float
    operating_point: float
    multiplier_learning_rate: float | Literal["auto"]
    proxy: str | Proxy

    @property
    def score_threshold(self) -> float:
        """The operating point in log-odds."""
        p = self.operating_point
        if not isinstance(p, int | float | np.number) or not 0 < p < 1:
            raise InvalidInputError(
                f"operating_point must be a probability in (0, 1), found {p!r}; a decision is "
                "positive from this probability on"
            )
        return math.log(p / (1 - p))

    @property
    def step(self) -> float:
        """The step of the multipliers."""
        rate = self.multiplier_learning_rate
        if isinstance(rate, str) and rate == "auto":
            return PAPER_LEARNING_RATE
        if not isinstance(rate, int | float | np.number) or not 0 < rate < math.inf:
            raise InvalidInputError(
                f"multiplier_learning_rate must be a positive number or 'auto', found {rate!r}"
            )
        return float(rate)


@dataclass(frozen=True)
class Training:
    """What came of it.

    Parameters
    ----------
    model : TrainedModel
        The trained model.
    lagrangian : Lagrangian
        The Lagrangian as training left it: multipliers and trace.
    trees : list of int
        Number of trees after each round.
    """

    model: TrainedModel
    lagrangian: Lagrangian
    trees: list[int]


def train(
    method: Method,
    engine: Engine,
    X: Matrix,
    y: ArrayLike,
    data: FitData,
    fit_options: dict[str, Any],
    progress: bool,
) -> Training:
    """Train a model by Algorithm 1; raises before the engine starts if anything is amiss.

    Parameters
    ----------
    method : Method
        Constraints and how to reach them.
    engine : Engine
        Grows the trees.
    X, y : Matrix, ArrayLike
        As the user gave them.
    data : FitData
        The same, checked.
    fit_options : dict
        The engine's own arguments of ``fit``.
    progress : bool
        Show a progress bar.
    """
    weight = None if data.sample_weight is None else data.sample_weight.astype(np.float32)
    loss = engine.loss_terms(data.labels, weight)
    lagrangian = _assemble(method, data, weight, loss.label_weights, engine.n_jobs)
    diagnostics.warn_of_small_cells(lagrangian)
    trees: list[int] = []
    try:
        with tqdm(total=engine.n_rounds, disable=not progress, unit="round") as bar:

            def after_round(n_trees: int) -> None:
                trees.append(n_trees)
                bar.update()

            engine_data = EngineData(X, y, data.labels, weight, fit_options)
            model = engine.train(engine_data, lagrangian, loss.intercept, after_round)
    finally:
        lagrangian.close()
    return Training(model, lagrangian, trees)


def _assemble(
    method: Method,
    data: FitData,
    sample_weight: Float32Array | None,
    label_weights: tuple[float, float],
    n_jobs: int | None,
) -> Lagrangian:
    constraints = resolve(method.constraint, method.tolerance, [c.name for c in data.columns])
    # Only the columns that are constrained: each further one would split every cell.
    used = {name for constraint in constraints for name in columns_of(constraint)}
    cells = build_cells(data.labels, [c for c in data.columns if c.name in used], sample_weight)
    return Lagrangian(
        cells,
        constraints,
        as_proxy(method.proxy),
        method.step,
        threshold=method.score_threshold,
        sample_weight=sample_weight,
        label_weights=label_weights,
        n_threads=thread_count(n_jobs),
    )
