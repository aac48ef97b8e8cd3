"""The port to a boosting engine: what training asks of it, and nothing else.

An engine grows trees for gradients it is handed and never sees a constraint; the game makes
gradients and never sees X. An engine is anything with ``train``; what it returns is a
``TrainedModel``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from fairboost._typing import (
    ArrayLike,
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    Matrix,
    ScoreArray,
)
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.group_model import GroupModel
from fairboost.kernel.device import Device
from fairboost.kernel.losses import Loss

Gradients: TypeAlias = tuple[Float32Array, Float32Array]
"""Gradient and Hessian of the rows of a booster."""


@dataclass(frozen=True)
class Follower:
    """A further booster with the same options on most of the rows, which is not kept.

    Parameters
    ----------
    fold : (m,) int
        The rows that it leaves out, in order: its scores of these are out of fold.
    gradients : callable
        Scores of the rows that it is trained on to gradient and Hessian; called once per round,
        in a thread of its own.
    grown : callable, optional
        Takes the scores of these rows before the first round and after each of its own.
    """

    fold: IntArray
    gradients: Callable[[ScoreArray], Gradients]
    grown: Callable[[ScoreArray], None] | None = None


@dataclass(frozen=True)
class Problem:
    """What to train, next to data and options.

    Parameters
    ----------
    play : callable
        Scores of the rows trained on, and of the rows held out or of all rows out of fold (None
        without either), to gradient and Hessian; called once per round.
    finish : callable
        Takes the same scores after the last round.
    after_round : callable
        Is told the number of trees of the booster that is kept after each round.
    held_out : bool
        Whether scores of the rows held out are wanted.
    followers : sequence of Follower
        Of the further boosters. They take a round while the one that is kept takes its own, and
        the next round waits for them.
    ready : callable, optional
        Makes ready for a round of the followers, which may then begin before ``play``; without it
        they wait for it.
    by_engine : bool
        Whether trees are grown by the engine's own objective. ``play`` then only looks on: its
        gradients are not used. There are no followers, and no offsets.
    within : callable, optional
        Whether the model before the last tree is within the limits of the constraints: early
        stopping looks at such rounds alone. None without constraints.
    """

    play: Callable[[ScoreArray, ScoreArray | None], Gradients]
    finish: Callable[[ScoreArray, ScoreArray | None], None]
    after_round: Callable[[int], None]
    held_out: bool = False
    followers: Sequence[Follower] = ()
    ready: Callable[[], None] | None = None
    by_engine: bool = False
    within: Callable[[], bool] | None = None


@dataclass(frozen=True)
class LossTerms:
    """What an engine's options say about the loss, so that it can be honoured.

    Parameters
    ----------
    intercept : float or (n_classes,) float64
        The score that training starts from (h_0 of Algorithm 1); one for each of several classes.
    label_weights : tuple of float
        Factors on the loss of the negative and the positive class, or of each of several.
    single : bool
        Whether the engine has scores and probabilities in single precision.
    loss : Loss, optional
        The loss of a number to be predicted; None is the logistic one of two labels.
    curvature : float, optional
        Where there are several classes: the factor of p (1 - p) in the engine's Hessian.
    """

    intercept: float | FloatArray
    label_weights: tuple[float, ...] = (1.0, 1.0)
    single: bool = False
    loss: Loss | None = None
    curvature: float | None = None

    @property
    def pace(self) -> float:
        """The share of a step to the minimum of the loss that a leaf is set to, before shrinkage.

        Less than 1 where the engine takes the loss to bend more than it does (Poisson).
        """
        return 1.0 if self.loss is None else math.exp(-self.loss.step)

    @property
    def renews_leaves(self) -> bool:
        """Whether engines set leaves to medians or quantiles, which no gradient asks for."""
        return self.loss is not None and self.loss.renews_leaves


@dataclass(frozen=True)
class Compared:
    """Groups that constraints compare, for a stage that learns who is in them.

    Parameters
    ----------
    groups : tuple of str
        Their names.
    codes : (m,) int
        Group of each row trained on; -1 where it is in none.
    labels : tuple of int
        The labels whose rows count.
    """

    groups: tuple[str, ...]
    codes: IntArray
    labels: tuple[int, ...]


@dataclass(frozen=True)
class EngineData:
    """The user's data, as it is handed on to the engine.

    Parameters
    ----------
    X, y : Matrix, ArrayLike
        As the user gave them.
    labels : (n,) int32 or float64
        y as 0 and 1; the numbers themselves where numbers are predicted.
    sample_weight : (n,) float32 or None
        Weights of the rows.
    fit_options : dict
        The engine's own arguments of ``fit``: eval_set, callbacks and the like.
    trained : (n,) bool, optional
        The rows to train on, if not all; objectives get the scores of these. The others are held
        out, and their scores are for ``Problem.play``.
    label_factors : (float, float)
        What makes up, in averages over the rows trained on, for those of each label held out.
    held_out : (Matrix, (m,) int), optional
        A set of its own to keep scores of, and its labels; its scores come last.
    offset, held_out_offset : (n,) and (m,) float64, optional
        What the score of each row starts from, beside the intercept: the logarithm of its
        exposure. Scores have it in them; the model that is kept does not.
    compared : callable, optional
        Gives the groups that constraints compare. Engines of trees do not ask for them.
    """

    X: Matrix
    y: ArrayLike
    labels: IntArray | FloatArray
    sample_weight: Float32Array | None
    fit_options: dict[str, Any]
    trained: BoolArray | None = None
    label_factors: tuple[float, float] = (1.0, 1.0)
    held_out: tuple[Matrix, IntArray | FloatArray] | None = None
    offset: FloatArray | None = None
    held_out_offset: FloatArray | None = None
    compared: Callable[[], Sequence[Compared]] | None = None


def in_a_row(parts: Sequence[ScoreArray]) -> ScoreArray:
    """The scores of several sets of rows, one after the other."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def is_on_disk(X: Matrix) -> bool:
    """Tell whether a table hands out its rows in batches, and is not in memory as a whole."""
    return hasattr(X, "batches") and hasattr(X, "cache")


class TrainedModel(Protocol):
    """A trained ensemble: every prefix of it is an iterate of Algorithm 1."""

    @property
    def n_rounds(self) -> int:
        """Number of iterates."""

    @property
    def n_base(self) -> int:
        """Rounds of a model that training started from; none as a rule."""

    @property
    def intercept(self) -> float | FloatArray:
        """The score that training started from, or that of each of several classes."""

    @property
    def estimator(self) -> Any:
        """The engine's own estimator, fitted."""

    @property
    def booster(self) -> Any:
        """The engine's own booster."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """What the booster calls the features; None if it was given no names."""

    @property
    def file_endings(self) -> tuple[str, ...]:
        """Endings that a file of the model may have; none for any."""

    def scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """Raw log-odds by the first ``rounds`` rounds, or those of each class; by all without."""

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of scores, to the last digit those of the engine."""

    def predictions(self, scores: FloatArray) -> FloatArray:
        """Numbers that scores stand for, where these are predicted, rounded as the engine does."""

    def text(self) -> str:
        """The model in the engine's own file format."""

    def export(self, **notes: object) -> str:
        """The same, with notes that the engine passes over."""

    def text_for_others(self) -> str:
        """The same for readers that are not the engine: categories are codes."""

    def ensemble(self) -> Ensemble:
        """The trees as plain arrays; raises ``ExportError`` where they have no such form."""

    def features(self, names: Sequence[str]) -> tuple[Feature, ...]:
        """What the model reads in each column, given the names of the columns."""

    @property
    def log_link(self) -> bool:
        """Whether a number is predicted as the exponential of the score."""

    def said_by_stock(self, text: str, X: Matrix) -> FloatArray:
        """What a stock booster read from a text predicts: probabilities or numbers."""

    def first(self, rounds: int) -> Self:
        """The model of the first ``rounds`` trees, on top of those it started from."""

    def with_stage(self, stage: Any) -> Self:
        """The same trees, and those of a stage trained from its scores."""

    def with_tree_weights(self, weights: FloatArray) -> Self:
        """The same trees, each times a factor. The starting score keeps its weight."""


class Continuation(Protocol):
    """Boosters after their last round, and the binned data, to go on from again and again."""

    def stage(self, problem: Problem, rounds: int, leaves: int, learning_rate: float) -> Any:
        """Boost on, by rounds of small trees; what comes is for ``TrainedModel.with_stage``."""


class Engine(Protocol):
    """A boosting engine with the user's options in it."""

    @property
    def base(self) -> Any:
        """The fitted estimator to go on from, if there is one."""

    @property
    def library(self) -> ctypes.CDLL | None:
        """The engine's compiled library, for the threads that it has."""

    @property
    def n_jobs(self) -> int | None:
        """Threads that the options ask for; None leaves it to the engine."""

    @property
    def device_name(self) -> str | None:
        """The GPU that the options ask for, as they name it; None for the CPU."""

    @property
    def device(self) -> Device | None:
        """The GPU that scores and gradients are on; None where they are on the host."""

    @property
    def n_rounds(self) -> int:
        """Rounds that the options ask for."""

    @property
    def learning_rate(self) -> float:
        """The share of a leaf's step that is taken, as the options have it at the start."""

    @property
    def rescales_trees(self) -> bool:
        """Whether a prefix of the ensemble is not what the model was at that round (DART)."""

    @property
    def label_power(self) -> float:
        """What knowing a label is worth to a booster falls with its rows, to this power.

        1 where trees have as many leaves whatever the rows. It is read by
        :func:`fairboost.tasks.base.of_the_kept`.
        """

    @property
    def predicts_otherwise(self) -> bool:
        """Whether scores of training rows are rounded otherwise than when they are predicted."""

    def loss_terms(
        self,
        labels: IntArray | FloatArray,
        sample_weight: Float32Array | None,
        offset: FloatArray | None = None,
    ) -> LossTerms:
        """What the engine's options say about the loss; arguments as in :class:`EngineData`."""

    def group_model(self, fit_options: dict[str, Any]) -> GroupModel:
        """What grows small boosters for groups, on tables read as ``train`` reads them."""

    def check_arguments(self, X: Matrix, fit_options: dict[str, Any]) -> None:
        """Refuse tables and other arguments of ``fit`` that the engine does not take."""

    def train(
        self, data: EngineData, problem: Problem, intercept: float | FloatArray
    ) -> tuple[TrainedModel, Continuation]:
        """Boost; stages can be trained on top."""
