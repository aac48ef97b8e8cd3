"""What a method is asked for, and what it gives back.

A method is a function from a :class:`Task` to a fitted classifier, or several by name. A
classifier has ``predict_proba``, or ``predict`` alone; what needs more to predict (the group, a
seed) is a function from :class:`~fairboost.study.data.Rows` to
:class:`~fairboost.study.measures.Predictions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fairboost.engines.registry import default_estimator
from fairboost.search.spaces import Space
from fairboost.study.config import MetricsConfig
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions

HELD_OUT = 0.2
"""Share of the training rows on which methods that post-process a model choose their decisions."""

LABELS: dict[str, tuple[int | None, ...]] = {
    "demographic_parity": (None,),
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
    "equalized_odds": (0, 1),
}
"""Labels among which shares of positive decisions are to be equal; None stands for all rows."""

Predictor: TypeAlias = Callable[[Rows], Predictions]
Found: TypeAlias = Any
"""A fitted classifier or a predictor; or several of them by name."""


@dataclass(frozen=True)
class Task:
    """What a method is asked for in one trial.

    Parameters
    ----------
    train : Rows
        To train on; what a method holds out, it holds out of these.
    metrics : MetricsConfig
        What it will be judged by.
    engine_options : mapping
        Options of LightGBM in this trial, the same for every method.
    options : mapping
        The method's own.
    seed : int
        For all that it draws.
    n_jobs : int
        Threads.
    hidden : tuple of str
        Features that give the group away.
    judged : tuple of Rows
        The validation and test rows without their labels' use, for a method that has to score
        rows while it is at it.
    """

    train: Rows
    metrics: MetricsConfig
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    n_jobs: int = 1
    hidden: tuple[str, ...] = ()
    judged: tuple[Rows, ...] = ()

    @property
    def constraint(self) -> str:
        """The constraint by its name in fairboost."""
        return self.metrics.constraint

    @property
    def tolerance(self) -> float:
        """The gap to reach: the method's own option, or the study's."""
        return float(self.options.get("tolerance", self.metrics.tolerance))

    def held_out(self) -> tuple[Rows, Rows]:
        """Training rows to learn from, and a fifth of them to choose decisions on, by the seed."""
        order = np.random.default_rng([self.seed, 4]).permutation(len(self.train))
        cut = round(HELD_OUT * len(order))
        return self.train.take(order[cut:]), self.train.take(order[:cut])

    def engine(self) -> Any:
        """A fresh engine with this trial's options."""
        return default_estimator(
            verbose=-1, n_jobs=self.n_jobs, random_state=self.seed, **self.engine_options
        )


@dataclass(frozen=True)
class Method:
    """A method and what the study has to know of it.

    Parameters
    ----------
    name, title : str
        In configurations, and in words.
    run : callable
        A :class:`Task` to what was trained.
    space : mapping
        Its own options, unless the configuration has others.
    models : int
        Models trained in one trial; it gets as many fewer trials.
    sees_group : bool
        Whether it needs the group of the rows that it decides on.
    only_decides : bool
        Whether it has no score.
    aware_only : bool
        Whether it is the same as another method where the features are blind.
    separate : bool
        Whether several models of one trial are algorithms of their own, and not candidates.
    curve : bool
        Whether the models of one trial are a whole trade-off.
    """

    name: str
    title: str
    run: Callable[[Task], Found]
    space: Space = field(default_factory=dict)
    models: int = 1
    sees_group: bool = False
    only_decides: bool = False
    aware_only: bool = False
    separate: bool = False
    curve: bool = False


def as_predictors(found: Found) -> dict[str, Predictor]:
    """What a method returned, as functions by name."""
    if isinstance(found, Mapping):
        return {str(name): as_predictor(one) for name, one in found.items()}
    return {"": as_predictor(found)}


def as_predictor(found: Found) -> Predictor:
    """A classifier as a function."""
    if hasattr(found, "predict_proba"):
        return lambda rows: Predictions(np.asarray(found.predict_proba(rows.X))[:, -1])
    if hasattr(found, "predict"):
        return lambda rows: Predictions(decision=np.asarray(found.predict(rows.X)) == 1)
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise TypeError(
        "a method returns a fitted classifier, a function from rows to predictions, or a dict of "
        f"these; found {type(found).__name__}"
    )


@dataclass(frozen=True)
class Timed:
    """A predictor that was trained elsewhere, and brings its own times along."""

    predict_rows: Predictor
    seconds: float
    cpu_seconds: float
    version: str

    def __call__(self, rows: Rows) -> Predictions:
        """What it says about rows."""
        return self.predict_rows(rows)
