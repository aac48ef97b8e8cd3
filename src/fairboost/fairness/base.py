"""What every constraint offers: its lines, and what training and verdicts ask beside them.

A constraint of the package is a :class:`GroupConstraint`. It states its lines
(:mod:`fairboost.fairness.compiled`), and its :class:`Traits` where these differ from those of most
constraints. So no other module asks of what class a constraint is.

A constraint of the user's own has ``violations`` and ``pullback`` alone, and perhaps a figure in
words of its own. :func:`adapted` makes a constraint of the package of it, in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fairboost._text import plain_number
from fairboost._typing import FloatArray
from fairboost.fairness.compiled import Dense, Lines
from fairboost.fairness.moments import Farthest, GroupMoments, Moment

if TYPE_CHECKING:
    from fairboost.fairness.derived import Shown

Judged: TypeAlias = Literal[
    "gap", "rate", "ratio", "least rate", "distance", "actual over expected", "figure", "violation"
]
"""What a verdict holds to the limit: the largest difference of groups, the moment of one group,
the smallest ratio of a group, the smallest moment of a group, the largest distance of two
distributions, the farthest ratio from 1, another figure of the constraint's own, or its largest
violation."""


@dataclass(frozen=True)
class Traits:
    """What training asks of a constraint beside its lines.

    Parameters
    ----------
    growth : float
        A limit that is broken before there is a model, such as a bound, has a multiplier whose
        unit grows with it: by this, times the multiplier. 0 for all others.
    lowest, highest : float
        Moments beyond these have the unit of the nearest of them.
    slack : float
        What training may stay inside a limit by at most, where there is no tolerance.
    met_by_one : bool
        Whether one prediction for everyone meets it, as it compares groups with their mean.
    in_turns : bool
        Whether boosters that leave out a fold may take a round in turns. Ratios show how far they
        are from the booster that is kept.
    simplex, pace : float
        What multipliers that are weights of groups add up to, and how fast these weights follow
        errors; no limit is held then, and the largest error is as small as it can be.
    compares : bool
        Whether it reads several groups, all of which must have rows.
    least_rows : int
        Rows that a group must have.
    leads : bool
        Whether groups are compared with the one of largest moment, so that training swings.
    folds : bool
        Whether reports print one figure per group in place of many moments.
    """

    growth: float = 0.0
    lowest: float = 0.0
    highest: float = np.inf
    slack: float = np.inf
    met_by_one: bool = False
    in_turns: bool = True
    simplex: float | None = None
    pace: float = 0.0
    compares: bool = True
    least_rows: int = 0
    leads: bool = False
    folds: bool = False


MOST_TRAITS = Traits()
"""Those of most constraints."""


class GroupConstraint:
    """A constraint on moments of groups.

    A class states ``moments``, ``by``, ``name`` and :meth:`linearized`. Where a violation is not
    affine, it states :meth:`violations` as well.
    """

    judged: Judged = "violation"
    given: tuple[str, ...] = ()
    relative: bool = False
    automatic: bool = False
    sides: tuple[str, ...] = ("",)
    least: float = -np.inf
    """What the figure that is held to the limit cannot be below; 0 for a distance."""

    limited_by: str = ""
    """The field that is the limit; empty where there is none."""

    varies: bool = False
    """Whether a trade-off curve varies the limit."""

    if TYPE_CHECKING:  # a field or a property of each class

        @property
        def moments(self) -> tuple[Any, ...]:
            """The moments it reads."""

        @property
        def by(self) -> str | tuple[str, ...] | None:
            """The columns whose groups it reads."""

        @property
        def name(self) -> str:
            """Name in tables."""

    def by_each(self, columns: Sequence[str]) -> Sequence[GroupConstraint]:
        """A copy for each column, where the user has named none."""
        return [self._with(by=column) for column in columns]

    def with_limit(self, limit: float) -> GroupConstraint:
        """The same at another limit, where a curve varies it."""
        return self._with(**{self.limited_by: limit})

    def _with(self, **fields: Any) -> GroupConstraint:
        same: Any = self
        out: GroupConstraint = replace(same, **fields)
        return out

    # Its lines

    @property
    def affine(self) -> bool:
        """Whether A and b are the same at all moments."""
        return True

    @property
    def fixed(self) -> bool:
        """Whether the room inside its lines is the same, too, so that they are compiled once."""
        return self.affine

    def linearized(self, moments: GroupMoments) -> Lines:
        """The lines, at given moments."""
        raise NotImplementedError

    def violations(self, moments: GroupMoments) -> FloatArray:
        """One number per line, positive where it is broken."""
        return self.linearized(moments).violations(moments.values.ravel())

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative of ``multipliers @ violations`` by the moments, of the shape of these."""
        back: FloatArray = multipliers @ self.linearized(moments).A
        return back.reshape(moments.values.shape)

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the lines, given labels of the groups."""
        ends = [f" {side}" if side else "" for side in self.sides]
        return [f"{self.name}[{g}]{end}" for end in ends for g in groups]

    # What training asks

    @property
    def traits(self) -> Traits:
        """What training asks beside its lines."""
        return MOST_TRAITS

    def at_once(self, n_groups: int, n_lines: int) -> int:
        """How many of its lines may be broken by chance."""
        return n_lines

    def errors(self, moments: GroupMoments, rows: FloatArray) -> FloatArray | None:
        """Standard errors of the violations, where they do not follow from those of moments.

        Parameters
        ----------
        moments : GroupMoments
            The moments.
        rows : (n_moments, n_groups) float64
            Rows of equal weight that have the same information.
        """
        return None

    def of_everyone(self) -> GroupConstraint | None:
        """The same of all rows, where pushes on groups by probability must leave it alone."""
        return None

    # What verdicts and reports ask

    @property
    def limit(self) -> float:
        """What is held to: at most, or of a ratio and of a least rate at least."""
        return float(getattr(self, self.limited_by)) if self.limited_by else 0.0

    @property
    def tolerated(self) -> float:
        """How far apart groups may be."""
        return self.limit if self.limited_by == "tolerance" else 0.0

    @property
    def one_group(self) -> tuple[object, ...] | None:
        """The group that it is about, if it is about one."""
        return None

    @property
    def figure_name(self) -> str:
        """What the figure of its own is called."""
        return ""

    def figure(self, moments: GroupMoments) -> float:
        """What is held to the limit, where it is a figure of its own."""
        return float(self.violations(moments).max()) + self.limit

    def words(self, by: str) -> str:
        """The constraint in words, given what it compares or the group that it is about."""
        return f"{self.name} by {by}"

    def in_short(self, by: str) -> str:
        """The same for a list of several constraints."""
        if self.limited_by != "tolerance":
            return self.words(by)
        return f"{self.name} by {by} within {self.tolerated:g}"

    def spread(self) -> tuple[float, float] | None:
        """A share s and a tolerance t: each moment is above ``s largest - t``; None for others."""
        return None

    @property
    def as_judged(self) -> GroupConstraint:
        """What verdicts go by, where training weighs its violations."""
        return self

    def farthest(self, moments: GroupMoments) -> Farthest | None:
        """The figure of each group to print in place of its moments."""
        return None

    def by_group(self, moments: GroupMoments) -> Farthest | None:
        """The figure of each group to print beside its moments."""
        return None

    def not_judged(self, moments: GroupMoments, groups: Sequence[str]) -> str:
        """What these moments leave open, given labels of the groups."""
        return ""

    def shown(self, moments: GroupMoments, rows: FloatArray) -> Shown | None:
        """The figure that follows from its moments, given rows of equal weight that count."""
        return None


@dataclass(frozen=True)
class OneMoment(GroupConstraint):
    """A constraint that reads one moment."""

    moment: Moment

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The moment."""
        return (self.moment,)

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.moment.name


class EqualMoments(OneMoment):
    """Equal moments of groups, up to a tolerance, however this is said in lines."""

    judged: Judged = "gap"
    limited_by, varies = "tolerance", True

    if TYPE_CHECKING:

        @property
        def tolerance(self) -> float:
            """How far apart two groups may be."""

    def with_limit(self, limit: float) -> GroupConstraint:
        """The same at a tolerance that does not follow from the rows."""
        return self._with(tolerance=limit, automatic=False)

    @property
    def affine(self) -> bool:
        """A tolerance that is relative is in a unit that moves with the moments."""
        return not self.relative

    def words(self, by: str) -> str:
        """The constraint in words."""
        of = " of everyone's" * self.relative
        of += f" of the same {', '.join(self.given)}" * bool(self.relative and self.given)
        return f"{self.moment.title} equal by {by}, tolerance {plain_number(self.tolerance)}{of}"

    def spread(self) -> tuple[float, float] | None:
        """No two groups differ by more than the tolerance."""
        return None if self.relative else (1.0, self.tolerance)


def tangent(
    constraint: GroupConstraint, moments: GroupMoments, room: FloatArray | float = np.inf
) -> Lines:
    """The lines of a constraint that has violations and a pullback, at given moments."""
    violations = np.asarray(constraint.violations(moments), np.float64)
    back = [constraint.pullback(moments, unit).ravel() for unit in np.eye(len(violations))]
    A = Dense(np.reshape(back, (len(violations), moments.values.size)))
    return Lines(A, A @ moments.values.ravel() - violations, room)


class _Offered:
    """What a constraint of the user's own offers by this name, or what most constraints have."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, own: Any, owner: type | None = None) -> Any:
        if own is None:
            return self
        offered = getattr(own.constraint, self.name, None)
        return getattr(super(OwnConstraint, own), self.name) if offered is None else offered


def _offered() -> Any:
    return _Offered()


@dataclass(frozen=True)
class OwnConstraint(GroupConstraint):
    """A constraint of the user's own, at one sensitive column or as it is.

    Parameters
    ----------
    constraint : Constraint
        Has ``violations`` and ``pullback``; of what else it offers, a figure is judged in place
        of a bare violation (:class:`fairboost.fairness.constraints.Constraint`).
    by : str, tuple of str or None
        The columns whose groups it reads.
    """

    constraint: Any
    by: str | tuple[str, ...] | None

    affine = False
    violations = _offered()
    pullback = _offered()
    given = _offered()
    relative = _offered()
    least = _offered()
    figure = _offered()
    figure_name = _offered()
    words = _offered()
    farthest = _offered()
    by_group = _offered()
    not_judged = _offered()
    shown = _offered()

    @property
    def moments(self) -> tuple[str | Moment, ...]:
        """The moments it reads; ``rates`` may stand for them."""
        own = self.constraint
        return cast(tuple[str | Moment, ...], getattr(own, "moments", None) or own.rates)

    @property
    def name(self) -> str:
        """Name in tables."""
        return str(getattr(self.constraint, "name", type(self.constraint).__name__))

    def linearized(self, moments: GroupMoments) -> Lines:
        """The derivative and the violations at given moments."""
        room = getattr(self.constraint, "room", None)
        return tangent(self, moments, np.inf if room is None else room(moments))

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """As the user has them; none if they are not named."""
        named = getattr(self.constraint, "inequality_names", None)
        return [] if named is None else list(named(groups))

    @property
    def traits(self) -> Traits:
        """What the user's own may say of itself."""
        return Traits(
            slack=float(getattr(self.constraint, "slack", np.inf)),
            least_rows=int(getattr(self.constraint, "least_rows", 0)),
            folds=hasattr(self.constraint, "farthest"),
        )

    @property
    def judged(self) -> Judged:  # type: ignore[override]
        """A figure of its own, or the largest violation."""
        parts = "figure", "limit", "words"
        return "figure" if all(hasattr(self.constraint, part) for part in parts) else "violation"

    @property
    def limit(self) -> float:
        """What the figure may be at most."""
        return float(self.constraint.limit) if self.judged == "figure" else 0.0

    @property
    def tolerated(self) -> float:
        """How far apart groups may be."""
        return float(getattr(self.constraint, "tolerance", 0.0))

    def in_short(self, by: str) -> str:
        """In words, or by its name and tolerance."""
        if hasattr(self.constraint, "words"):
            return str(self.words(by))
        within = f" by {by} within {self.tolerated:g}"
        return self.name + within * hasattr(self.constraint, "tolerance")


def adapted(constraint: Any) -> GroupConstraint:
    """A constraint of the package as it is, and one of the user's own in its form."""
    if isinstance(constraint, GroupConstraint):
        return constraint
    return OwnConstraint(constraint, constraint.by)
