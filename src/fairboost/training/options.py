"""What the user asked for, checked, and the game that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from fairboost._numbers import is_number
from fairboost.algorithm.game import Game
from fairboost.algorithm.multipliers import (
    MOST_PACE,
    SETTLED,
    SLOW,
    Ascent,
    Control,
    DualPlayer,
    at_rate,
    gain_over,
)
from fairboost.data import holdout
from fairboost.data.holdout import HoldoutLike
from fairboost.engines.port import LossTerms
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.all_reduce import spread_over
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.calibration import by_name
from fairboost.fairness.class_constraints import before_classes, resolve_for_classes
from fairboost.fairness.constraints import ConstraintLike, columns_of, resolve
from fairboost.fairness.label_constraints import for_two_labels
from fairboost.fairness.label_moments import further_moments
from fairboost.fairness.minimax import check_confidence_applies
from fairboost.fairness.numbers import resolve as resolve_numbers
from fairboost.fairness.operating_points import OperatingPoint, least_score
from fairboost.fairness.proxies import Proxy, as_proxy
from fairboost.fairness.soft import NOT_OF_MEANS, refuse_any_soft
from fairboost.fairness.tolerance import with_tolerances
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.losses import Loss
from fairboost.tasks.base import LearningTask
from fairboost.tasks.binary import Binary
from fairboost.tasks.binary_means import BinaryMeans
from fairboost.tasks.layout import RowLayout
from fairboost.tasks.multiclass import Multiclass
from fairboost.tasks.regression import Regression

PAPER_LEARNING_RATE = 0.1
"""Step of the paper's multipliers where the user gives none, as in the authors' program."""

MultipliersName: TypeAlias = Literal["two_sided", "paper"]
MembershipsName: TypeAlias = Literal["auto", "observed", "honest"]


@dataclass(frozen=True)
class TrainingOptions:
    """What the user asked for, by the names of ``FairGBMClassifier``'s parameters."""

    constraint: ConstraintLike
    tolerance: float | None
    confidence: float | None
    operating_point: float | OperatingPoint
    holdout: HoldoutLike
    multipliers: MultipliersName
    multiplier_learning_rate: float | Literal["auto"]
    proxy: str | Proxy
    memberships: MembershipsName
    min_group_rows: int = 30
    tolerances_: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        least = self.min_group_rows
        if not is_number(least) or least < 0 or least != int(least):
            raise InvalidInputError(
                f"min_group_rows must be a whole number of rows, 0 or more, found "
                f"{self.min_group_rows!r}; 0 compares every group"
            )
        c = self.confidence
        if c is not None and (not is_number(c) or not 0 < c < 1):
            raise InvalidInputError(
                f"confidence must lie in (0, 1), found {c!r}; write 0.95 for 95%, or None to aim "
                "at the figures of the held-out rows as they are"
            )
        holdout.check_holdout(self.holdout)
        _ = self.player(), self.score_threshold, as_proxy(self.proxy)  # each raises what is wrong
        if self.multipliers not in ("two_sided", "paper"):
            raise InvalidInputError(
                f"multipliers must be 'two_sided' or 'paper', found {self.multipliers!r}"
            )
        if self.memberships not in ("auto", "observed", "honest"):
            raise InvalidInputError(
                f"memberships must be 'auto', 'observed' or 'honest', found {self.memberships!r}"
            )
        if self.memberships == "honest" and self.multipliers == "paper":
            raise InvalidInputError(
                "memberships='honest' is not part of the paper's algorithm; use "
                "multipliers='two_sided', or memberships='observed'"
            )

    def for_unseen_model(self, iterate: str) -> TrainingOptions:
        """The same for a model that is none of those that rounds look at.

        In cross-fitting there would be no rows held out of it to place a threshold on.
        """
        if not isinstance(self.operating_point, OperatingPoint):
            return self
        if self.holdout == "cross":
            raise InvalidInputError(
                f"operating_point={self.operating_point} needs rows to place the threshold on, "
                f"but with holdout='cross' a model of iterate={iterate!r} (or one by DART) is "
                "trained on all of them; hold out a share, or use iterate='best'"
            )
        return replace(self, holdout=holdout.SHARE) if self.holdout == "auto" else self

    @property
    def asked_confidence(self) -> float | None:
        """The confidence as a plain number."""
        return None if self.confidence is None else float(self.confidence)

    @property
    def score_threshold(self) -> float | OperatingPoint:
        """The operating point in log-odds, or what these follow from."""
        p = self.operating_point
        if isinstance(p, OperatingPoint):
            return p
        if not is_number(p) or not 0 < p < 1:
            raise InvalidInputError(
                f"operating_point must be a probability in (0, 1), the least of a positive "
                f"decision, or at_fpr(...), at_tpr(...) or at_positive_rate(...), found {p!r}"
            )
        return math.log(p / (1 - p))

    def player(self, rounds: int = SETTLED, learning_rate: float = SLOW) -> DualPlayer:
        """Who moves the multipliers, in so many rounds of an engine with a learning rate."""
        rate = self.multiplier_learning_rate
        auto = isinstance(rate, str) and rate == "auto"
        if not auto and not (is_number(rate) and 0 < float(rate) < math.inf):
            raise InvalidInputError(
                f"multiplier_learning_rate must be a positive number or 'auto', found {rate!r}"
            )
        if self.multipliers == "paper":
            return Ascent(PAPER_LEARNING_RATE if auto else float(rate))
        return self.control(rounds, learning_rate, None if auto else float(rate))

    def control(self, rounds: int, learning_rate: float, gain: float | None) -> Control:
        """The control of multipliers, of a gain of the user's if there is one.

        That of rates is the same at all learning rates.
        """
        return Control(gain_over(rounds) if gain is None else gain, most=MOST_PACE)

    def columns_read(self, columns: list[str]) -> list[str]:
        """Those of the sensitive columns that constraints read: known before labels are."""
        found = self._before_labels(columns)
        named = {name for constraint in found for name in columns_of(constraint)}
        return [name for name in columns if name in named]

    def _before_labels(self, columns: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints, of no class yet."""
        asked = by_name(before_classes(self.constraint), self.tolerance)
        return resolve(asked, self.tolerance, columns)

    def constraints(self, columns: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints, in the form that the multipliers are for."""
        asked = by_name(self.constraint, self.tolerance)
        found = resolve(asked, self.tolerance, columns)
        check_confidence_applies(found, self.asked_confidence)
        asked = for_two_labels(found, self.multipliers == "paper", self.operating_point)
        return with_tolerances(asked, self.tolerances_)

    def game(
        self,
        layout: RowLayout,
        loss: LossTerms,
        player: DualPlayer | None = None,
        label_power: float = 1.0,
    ) -> Game:
        """The game of these options on some rows; ``player`` may take the place of theirs."""
        convex = self.multipliers != "paper"
        task = self.task(layout, loss)
        asked = convex, self.asked_confidence, label_power
        return Game(task, layout, player or self.player(), *asked)

    def task(self, layout: RowLayout, loss: LossTerms) -> LearningTask:
        """What is trained on some rows."""
        if loss.loss is not None:
            return _regression(layout, loss.loss)
        convex = self.multipliers != "paper"
        proxy = as_proxy(self.proxy, "sigmoid" if convex else "cross_entropy")
        point, least = self.operating_point, None
        if not isinstance(point, OperatingPoint):
            least = least_score(float(point), loss.single)
        of_labels = loss.label_weights[0], loss.label_weights[1]
        task = Binary(proxy, self.score_threshold, convex, of_labels, least=least)
        moments = [m for t in layout.terms for m in t.moments]
        if not further_moments(moments):
            return task
        if layout.cells.shared:
            refuse_any_soft(*NOT_OF_MEANS)
        return BinaryMeans.reading(task, layout.cells.labels, moments)


def _regression(layout: RowLayout, loss: Loss) -> Regression:
    """The task of predicting a number, with what constraints read of it."""
    assert layout.outcomes is not None
    moments = [m for t in layout.terms for m in t.moments]
    spread = spread_over(layout.all_reduce, layout.outcomes.targets)
    return Regression.reading(moments, loss, spread or 1.0)


@dataclass(frozen=True)
class NumberOptions(TrainingOptions):
    """What the user asked for, by the names of ``FairGBMRegressor``'s parameters."""

    def constraints(self, columns: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints, with two sides."""
        return tuple(two_sided(c) for c in self._before_labels(columns))

    def _before_labels(self, columns: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints: there are no labels to wait for."""
        return resolve_numbers(self.constraint, self.tolerance, columns)

    def control(self, rounds: int, learning_rate: float, gain: float | None) -> Control:
        """The control of multipliers whose moments follow scores at the learning rate."""
        return at_rate(learning_rate, rounds, gain)


@dataclass(frozen=True)
class ClassOptions(TrainingOptions):
    """The same where there are several classes.

    Parameters
    ----------
    labels : tuple
        The classes, in order.
    classes : sequence, optional
        Those that constraints without a class of their own are about.
    costs : (n_classes, n_classes) tuple of tuples, optional
        Costs of giving a row of each class each class.
    """

    labels: tuple[Any, ...] = ()
    classes: Sequence[Any] | None = None
    costs: tuple[tuple[float, ...], ...] | None = None

    def constraints(self, columns: list[str]) -> tuple[GroupConstraint, ...]:
        """The constraints, in the form that the multipliers are for."""
        asked = self.constraint, self.tolerance, columns
        found = resolve_for_classes(*asked, self.labels, self.classes)
        if self.multipliers == "paper":
            return found
        return with_tolerances([two_sided(c) for c in found], self.tolerances_)

    def control(self, rounds: int, learning_rate: float, gain: float | None) -> Control:
        """The control of multipliers; units know how many rows are close to a tie."""
        return Control(gain_over(rounds) if gain is None else gain)

    def task(self, layout: RowLayout, loss: LossTerms) -> LearningTask:
        """What is trained on some rows."""
        assert loss.curvature is not None
        weights = loss.label_weights
        same = all(weight == 1.0 for weight in weights)
        return Multiclass(len(weights), loss.curvature, None if same else weights, self.costs)
