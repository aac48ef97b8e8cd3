"""Fairness constraints on moments of groups: parity and bounds, and what users write for them.

A constraint reads one or more moments of some groups (rates, for example) and limits them by
inequalities, ``A m <= b`` (:mod:`fairboost.fairness.compiled`). It has two faces, kept apart on
purpose:

* the violations ``A m - b`` are *evaluated* on exact moments, and move the multipliers (Eq. 9);
* the pullback ``multipliers @ A`` is the derivative of ``multipliers @ violations``, taken on
  smooth moments in the paper's form, and makes the gradient (Eq. 8).

Any object with ``moments``, ``by``, ``violations`` and ``pullback`` is a constraint; see
:class:`Constraint` and ``examples/custom_constraint.py``. ``rates`` may stand for ``moments``.

The paper's parity (Eq. 5) is one violation per group, ``c_g = max_a R_a - R_g - eps``. With j the
group of largest rate its pullback is::

    coef_j = sum of the other multipliers          coef_g = -multiplier_g   for g != j

This is the exact derivative. Eq. 8 of the paper carries a further factor (m - 1) on group j, which
is not in the derivative of the Lagrangian that it states; it makes no difference for two groups.

A constraint may have ``given``, a tuple of further columns: groups are then those of ``by``
crossed with these, and :attr:`GroupMoments.strata` says which are compared, namely those alike in
the given columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    cast,
    overload,
    runtime_checkable,
)

import numpy as np

from fairboost._numbers import is_finite
from fairboost._text import did_you_mean, plain_number
from fairboost._typing import BoolArray, FloatArray
from fairboost.data.cells import EVERYONE, check_columns
from fairboost.data.windows import Smooth
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import EqualMoments, GroupConstraint, OneMoment, Traits, adapted
from fairboost.fairness.classes import CLASS_RATES, OF_TWO_LABELS, ClassMoment, ClassRate
from fairboost.fairness.compiled import Centred, Dense, Lines
from fairboost.fairness.label_moments import ERROR
from fairboost.fairness.means import NUMBERS, NumberMoment
from fairboost.fairness.moments import GroupMoments, Moment
from fairboost.fairness.rates import PRECISION, RATES, SYNONYMS, Rate, as_moment, as_rate

if TYPE_CHECKING:
    from fairboost.fairness.ratios import RatioParity

ConstraintName: TypeAlias = Literal[
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "four_fifths",
    "predictive_equality",
    "predictive_parity",
    "calibrated",
]

NAMED_CONSTRAINTS: dict[str, tuple[str, ...]] = {
    "demographic_parity": ("ppr",),
    "equal_opportunity": ("fnr",),
    "equalized_odds": ("fpr", "fnr"),
    "four_fifths": ("ppr",),
    "predictive_equality": ("fpr",),
    "predictive_parity": ("precision",),
}
"""The rates of which a named constraint asks parity."""

OTHER_NAMES = {"statistical_parity": "demographic_parity", "disparate_impact": "four_fifths"}
"""Other names of constraints, which a message explains."""
OF_NUMBERS = "equal_means", "equal_distributions", "equal_errors", "bounded_group_loss"
"""Names of constraints on predicted numbers."""

FOUR_FIFTHS = "four_fifths"
FOUR_FIFTHS_RATIO = 0.8
"""The constraint whose name stands for a ratio, ``parity("ppr", ratio=0.8)``; and the ratio."""

TOLERANCE = 0.01
"""How far apart two rates may be where the user does not say."""


@runtime_checkable
class Constraint(Protocol):
    """What a constraint has to offer; no base class is needed.

    ``moments`` names the moments it reads. ``by`` says of which groups: None for every sensitive
    column by itself (one copy of the constraint per column), a column name, several names for
    their crossing, or ``()`` for all rows as one group. A constraint may also offer
    ``figure(moments)``, ``limit`` and ``words(by)``: the figure is its largest violation plus the
    limit, and a verdict then shows the figure beside the limit in these words. ``least`` is the
    smallest value that the figure can have. ``farthest(moments)`` and ``by_group(moments)`` name
    the figure of each group to print (:class:`~fairboost.fairness.moments.Farthest`). With
    ``given``, a tuple of columns, the groups are those of ``by`` crossed with these columns.
    Groups with the same number in ``moments.strata`` have equal values in these columns, and only
    such groups are compared.
    """

    @property
    def moments(self) -> tuple[str | Moment, ...]:
        """The moments it reads."""

    @property
    def by(self) -> str | tuple[str, ...] | None:
        """The columns whose groups it reads."""

    def violations(self, moments: GroupMoments) -> FloatArray:
        """One number per inequality, positive where it is broken."""

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative of ``multipliers @ violations`` by the moments, of the shape of these."""


ConstraintLike: TypeAlias = str | Constraint | Sequence[str | Constraint] | None


@dataclass(frozen=True)
class Parity(EqualMoments):
    """All groups within ``tolerance`` of the group of largest rate (paper, Eq. 5).

    Made by :func:`parity`. ``has_own_tolerance`` is False where the user gave it none: that of
    the estimator then applies. An ``automatic`` one is replaced by what the rows can show
    (:mod:`fairboost.fairness.tolerance`).
    """

    tolerance: float
    by: str | tuple[str, ...] | None = None
    has_own_tolerance: bool = True
    relative: bool = False
    given: tuple[str, ...] = ()
    automatic: bool = False

    affine = False  # which group is the largest depends on the moments

    def linearized(self, moments: GroupMoments) -> Lines:
        """``max_a R_a - R_g <= tolerance`` per group; groups that tie for the largest share it."""
        largest = leaders(moments)
        # None is the largest among rates of NaN scores.
        many = np.maximum(moments.total(largest), 1)
        unit = unit_of(moments, self.relative)
        return Lines(Centred(moments, (-1,), (1,), largest, many, unit), self.tolerance)

    def with_limit(self, limit: float) -> Parity:
        """The same at a tolerance of its own."""
        return replace(self, tolerance=limit, has_own_tolerance=True, automatic=False)

    @property
    def traits(self) -> Traits:
        """It compares groups with the one of largest rate."""
        return Traits(leads=True)


def leaders(moments: GroupMoments) -> BoolArray:
    """The groups that have the largest first moment of those that they are compared with."""
    out: BoolArray = moments.values[0] >= moments.largest() - 1e-12
    return out


LEAST_UNIT = 1e-90
"""What a relative difference is a share of, at least: larger than the errors of figures that are
all 0 are taken for, and smaller than the figures of any engine."""


def unit_of(moments: GroupMoments, relative: bool) -> FloatArray:
    """What differences are measured in: 1, or the moment of all groups that are compared."""
    if not relative:
        return np.ones(1)
    return np.maximum(np.abs(moments.pooled()), LEAST_UNIT)


@dataclass(frozen=True)
class Bound(OneMoment):
    """A rate of everyone, or of one group, at most ``at_most``.

    Made by :func:`bound`.
    """

    at_most: float
    by: tuple[str, ...] | None = EVERYONE
    group: tuple[object, ...] = ()

    judged = "rate"
    limited_by = "at_most"

    @property
    def name(self) -> str:
        """Name in tables."""
        who = f" of {', '.join(map(str, self.group))}" if self.group else ""
        return f"{self.moment.name}<={self.at_most:g}{who}"

    def linearized(self, moments: GroupMoments) -> Lines:
        """``R <= at_most``."""
        one = np.zeros((1, len(moments.groups)))
        one[0, index_of(self.group, moments, self.by or (), "bound(..., group")] = 1.0
        return Lines(Dense(one), self.at_most)

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """The one inequality has the name of the constraint."""
        return [self.name]

    @property
    def traits(self) -> Traits:
        """A mean has a unit, and so has its violation; of a bound of 0 none is known."""
        unit = 1.0 if getattr(self.moment, "is_share", True) else abs(self.at_most)
        growth = 1.0 / unit if unit else 0.0
        return Traits(growth=growth, highest=max(self.at_most, 0.5), compares=False)

    @property
    def one_group(self) -> tuple[object, ...]:
        """The group, which is empty for everyone."""
        return self.group

    def words(self, by: str) -> str:
        """The constraint in words, given the group."""
        return f"{self.moment.title} of {by} at most {plain_number(self.at_most)}"

    def in_short(self, by: str) -> str:
        """The name says it all."""
        return self.name

    def by_each(self, columns: Sequence[str]) -> list[GroupConstraint]:
        """The group is one of the only column."""
        if len(columns) > 1:
            raise ConstraintError(
                f"bound(..., group={self.group[0]!r}) is ambiguous: there are {len(columns)} "
                f"sensitive columns ({', '.join(columns)}); write "
                f"group={{{columns[0]!r}: {self.group[0]!r}}}"
            )
        return [replace(self, by=(columns[0],))]


def index_of(
    group: tuple[object, ...], moments: GroupMoments, by: Sequence[str], named: str, why: str = ""
) -> int:
    """Where a group is among those of some columns; an error that says where it is named."""
    if group in moments.groups:
        return moments.groups.index(group)
    labels = [g[0] if len(g) == 1 else g for g in moments.groups]
    wanted = group[0] if len(group) == 1 else group
    raise ConstraintError(
        f"{named}={wanted!r}) names a group that is not in the data{why}; the groups of "
        f"{', '.join(by)!r} are {', '.join(map(repr, labels))}{did_you_mean(wanted, labels)}"
    )


@overload
def parity(
    rate: str | Rate | NumberMoment | ClassRate,
    tolerance: float | None = None,
    *,
    by: str | tuple[str, ...] | None = None,
    given: str | tuple[str, ...] | None = None,
    relative: bool = False,
    of: object = None,
) -> Parity: ...


@overload
def parity(
    rate: str | Rate | NumberMoment | ClassRate,
    *,
    ratio: float,
    by: str | tuple[str, ...] | None = None,
    given: str | tuple[str, ...] | None = None,
    of: object = None,
    reference: object = None,
) -> RatioParity: ...


def parity(
    rate: str | Rate | NumberMoment | ClassRate,
    tolerance: float | None = None,
    *,
    ratio: float | None = None,
    by: str | tuple[str, ...] | None = None,
    given: str | tuple[str, ...] | None = None,
    relative: bool = False,
    of: object = None,
    reference: object = None,
) -> Parity | RatioParity:
    """Ask that a rate, or a mean, be equal across groups: up to a difference, or up to a ratio.

    Parameters
    ----------
    rate : {"fpr", "fnr", "tpr", "tnr", "ppr", "pnr", "precision", "prediction", "loss"} or Rate
        The rate to compare; one of the last two where a number is predicted. Of three classes or
        more "given" (the share that is given a class), "recall", "confused" or "accuracy".
    tolerance : float, optional
        How far apart two groups may be; by default the ``tolerance`` of the estimator. For rates
        it lies in [0, 1), and is automatic by default. For means it has their unit.
    ratio : float, optional
        In place of a tolerance: every group's rate is at least ``ratio`` times the largest. 0.8 is
        the four-fifths rule. Above 0, and at most 1.
    by : str, Smooth or tuple of str, optional
        The sensitive column whose groups are compared, or a tuple of several to compare the groups
        of their crossing. :func:`~fairboost.smooth` compares windows of a number, such as an age.
        By default every sensitive column is compared, each by itself, except for columns that a
        constraint names in ``given``.
    given : str or tuple of str, optional
        Compare groups among rows with the same value of this column, such as a risk class, or of
        all these columns. Pass the columns in ``sensitive_features``, beside the groups. Rows
        where one of them is missing do not count.
    relative : bool, default=False
        The tolerance is a share of the rate, or mean, of all groups together; with ``given``, of
        all groups with the same value of that column.
    of : label or (label, label), or {"largest", "everyone"}, optional
        This parameter has two meanings. For "given" and "recall" it is a class, and for "confused"
        a pair: the class of the rows and the class that they are given. The default is every
        class. For other rates it belongs to ``ratio`` and names the rate that groups are compared
        with: the largest rate of a group (the default), or the rate of everyone whose group is
        known.
    reference : optional
        With ``ratio``: the group that others are compared with, in place of the group of largest
        rate. A value of the sensitive column, or a mapping of columns to values.

    Examples
    --------
    >>> parity("ppr", ratio=0.8, by="race").words("race")
    'predicted positive rate by race at least 0.8 of the largest'
    >>> parity("tpr", ratio=0.9, reference={"race": "White"}).reference
    ('White',)
    >>> parity("fnr", 0.02, by="sex").by
    'sex'
    >>> parity("fnr", 0.02, by=("sex", "race")).by   # women of each race, men of each race
    ('sex', 'race')
    >>> parity("ppr", 0.02, by="sex", given="risk_class").given   # women and men of equal risk
    ('risk_class',)
    """
    if ratio is not None:
        from fairboost.fairness.ratios import ratio_parity  # which is made of parts of this module

        if tolerance is not None or relative:
            asked = f"tolerance={tolerance!r}" if tolerance is not None else "relative=True"
            raise ConstraintError(
                f"ratio={ratio!r} and {asked} are two ways to say how far apart groups may be; "
                "leave one of them out"
            )
        return ratio_parity(rate, ratio, by=by, given=given, of=of, reference=reference)
    if reference is not None:
        raise ConstraintError(
            f"reference={reference!r} names the group that ratios are taken to, and no ratio is "
            "asked for; write parity(rate, ratio=0.8, reference=...), or leave reference out"
        )
    by = check_by(by)
    own, moment = tolerance is not None, as_compared(rate, of)
    if moment == ERROR:
        raise ConstraintError(
            "error rates of groups cannot be held equal, as that would ask for wrong decisions in "
            "the better group; use minimax('error'), or compare 'fnr' and 'fpr'"
        )
    of_shares = isinstance(moment, Rate | ClassRate) or relative
    found = check_tolerance(tolerance, of_shares) if own else TOLERANCE
    return Parity(moment, found, by, own, bool(relative), check_given(given, by))


def check_given(
    given: str | tuple[str, ...] | None, by: str | tuple[str, ...] | None
) -> tuple[str, ...]:
    """The columns among whose values groups are compared, as a tuple.

    Examples
    --------
    >>> check_given("risk_class", "sex"), check_given(None, "sex")
    (('risk_class',), ())
    """
    if given is None:
        return ()
    columns = (given,) if isinstance(given, str) else given
    if not isinstance(columns, tuple) or not columns or not all(map(_is_text, columns)):
        raise ConstraintError(
            f"given must be a column name or a tuple of names, found {given!r}; groups are "
            "compared among rows with equal values in these columns. Leave given out to compare "
            "all rows"
        )
    both = set(columns) & set((by,) if isinstance(by, str) else by or ())
    if both or len(set(columns)) < len(columns):
        twice = ", ".join(map(repr, sorted(both or set(columns))))
        raise ConstraintError(
            f"by and given name {twice} twice; rows with equal values in a column are all of one "
            "group of it, so there is nothing to compare. Name other columns in given than in by"
        )
    return columns


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Smooth)


def check_by(by: Any) -> str | tuple[str, ...] | None:
    """The columns whose groups are compared, as the user wrote them."""
    if not (by is None or isinstance(by, str) or (isinstance(by, tuple) and by)):
        raise ConstraintError(
            f"by must be a column name or a tuple of names to cross, found {by!r}; for several "
            "columns side by side write one constraint for each, or leave by out to compare all "
            "of them"
        )
    return by


def as_compared(
    moment: str | Rate | NumberMoment | ClassMoment | ClassRate, of: object = None
) -> Rate | NumberMoment | ClassRate | ClassMoment:
    """Look up a rate or a mean that users may compare or bound; ``of`` is a class."""
    if isinstance(moment, NumberMoment | ClassMoment | ClassRate):
        return moment
    name = moment.lower() if isinstance(moment, str) else ""
    if name in CLASS_RATES and not (name == "accuracy" and of is not None):
        return ClassRate(name, of)
    if of is not None:
        raise ConstraintError(
            f"of={of!r} names a class, and {moment!r} has none; expected 'given', 'recall' or "
            "'confused', or leave of out"
        )
    further = {PRECISION.name: PRECISION, ERROR.name: ERROR}
    if name in further:
        return further[name]
    return NUMBERS[name] if name in NUMBERS else as_rate(cast(Rate, moment), tuple(further))


def bound(
    rate: str | Rate | NumberMoment | ClassRate,
    at_most: float,
    *,
    group: object | Mapping[str, object] | None = None,
    of: object = None,
) -> Bound:
    """Ask that a rate of everyone, or of one group, stay below a bound.

    Global bounds are how the paper operates at a point of the ROC curve or on a budget: with FPR
    at most 5%, training shifts the scores until the decision threshold is that operating point.

    Parameters
    ----------
    rate : {"fpr", "fnr", "tpr", "tnr", "ppr", "pnr", "error", "prediction", "loss"} or Rate
        The rate to bound; one of the last two where a number is predicted. ``"error"`` is the
        share of wrong decisions.
    at_most : float
        The bound; in (0, 1) for a rate. For "at least", bound the opposite rate: TPR >= 0.8 is
        FNR <= 0.2.
    group : optional
        Value of the sensitive column (when there is one column), or a mapping of columns to
        values. By default the bound is on everyone, including rows of unknown group.
    of : label or (label, label), optional
        The class, as in :func:`parity`.

    Examples
    --------
    >>> bound("fpr", 0.05).name
    'fpr<=0.05'
    >>> bound("fnr", 0.3, group={"sex": "F"}).name
    'fnr<=0.3 of F'
    """
    found = as_compared(rate, of)
    if found == PRECISION:
        raise ConstraintError(
            "a precision cannot be bounded: who counts towards it depends on the model; compare "
            "it with parity('precision'), or bound a rate, such as 'fpr'"
        )
    if isinstance(found, NumberMoment) and not is_finite(at_most):
        raise ConstraintError(f"at_most of a bound must be a finite number, found {at_most!r}")
    if not isinstance(found, NumberMoment) and (not is_finite(at_most) or not 0 < at_most < 1):
        raise ConstraintError(
            f"at_most of a bound must lie in (0, 1), found {at_most!r}; it is a share of rows, so "
            "write 0.05 for 5%"
        )
    if group is None:
        return Bound(found, float(at_most))
    if isinstance(group, Mapping):
        return Bound(found, float(at_most), tuple(group), tuple(group.values()))
    return Bound(found, float(at_most), None, (group,))


def resolve(
    constraint: ConstraintLike, tolerance: float | None, columns: Sequence[str]
) -> tuple[GroupConstraint, ...]:
    """What the user wrote, as a flat list of constraints with explicit columns.

    Parameters
    ----------
    constraint : str, Constraint, sequence of them, or None
        The ``constraint`` parameter of the estimator.
    tolerance : float or None
        Tolerance of the constraints that have none of their own; None for an automatic one.
    columns : sequence of str
        Names of the sensitive columns.

    Examples
    --------
    >>> [(c.name, c.by) for c in resolve("equalized_odds", 0.01, ["sex", "race"])]
    [('fpr', 'sex'), ('fpr', 'race'), ('fnr', 'sex'), ('fnr', 'race')]
    """
    shared = shared_tolerance(constraint, tolerance)
    if constraint is None:
        return ()
    wanted: list[GroupConstraint] = []
    own = None if tolerance is None else shared
    for item in listed(constraint):
        wanted.extend(_by_name(item, own) if isinstance(item, str) else [_checked(item)])
    wanted = [with_tolerance(c, own) for c in wanted]
    if not wanted:
        raise ConstraintError(
            "constraint is an empty list; write constraint=None for no constraint"
        )
    given = {name for c in wanted for name in given_of(c)}
    check_columns(sorted(given), columns)
    compared = [name for name in columns if name not in given]
    placed = tuple(placed for c in wanted for placed in _placed(c, compared, given))
    for c in placed:
        check_columns(columns_of(c), columns)
    return placed


def shared_tolerance(constraint: ConstraintLike, tolerance: float | None) -> float:
    """The tolerance of the constraints that have none of their own.

    A tolerance that no constraint would use, because all parities have another of their own, is
    refused: the user cannot have meant both.

    Examples
    --------
    >>> shared_tolerance(parity("fnr"), 0.1), shared_tolerance("equal_opportunity", None)
    (0.1, 0.01)
    """
    if tolerance is None:
        return TOLERANCE
    shared = check_tolerance(tolerance)
    own = own_tolerances(constraint)
    items = listed(constraint)
    if items and all(map(_has_own_limit, items)) and shared != TOLERANCE:
        raise ConstraintError(
            f"tolerance={shared:g} is for constraints that compare differences, and a bound, a "
            "floor or a ratio has its limit in itself, such as bound(rate, at_most), and minimax "
            "has none; leave tolerance out"
        )
    if own and not takes_tolerance(constraint) and set(own) != {shared}:
        raise ConstraintError(
            f"tolerance={shared:g} contradicts parity(..., {own[0]:g}), which has a tolerance of "
            "its own; give one of them: leave tolerance out, or write parity(...) without one"
        )
    return shared


def _has_own_limit(constraint: Any) -> bool:
    """Whether a constraint is a bound, a floor, a ratio or minimax: it has its limit, or none."""
    of_one = isinstance(constraint, OneMoment) and not isinstance(constraint, EqualMoments)
    return of_one or constraint == FOUR_FIFTHS


def takes_tolerance(constraint: ConstraintLike) -> bool:
    """Whether some constraint has no tolerance of its own: a name, or a parity without one."""
    return any(
        (isinstance(c, str) and c != FOUR_FIFTHS)
        or (isinstance(c, Parity) and not c.has_own_tolerance)
        for c in listed(constraint)
    )


def own_tolerances(constraint: ConstraintLike) -> list[float]:
    """The tolerances of parities that have one of their own."""
    parities = [c for c in listed(constraint) if isinstance(c, Parity)]
    return [c.tolerance for c in parities if c.has_own_tolerance]


def listed(constraint: Any) -> list[Any]:
    """What the user asked for, as a list.

    Examples
    --------
    >>> listed(None), listed("equal_opportunity"), listed(("a", "b"))
    ([], ['equal_opportunity'], ['a', 'b'])
    """
    if constraint is None:
        return []
    return list(constraint) if isinstance(constraint, list | tuple) else [constraint]


def _by_name(name: str, tolerance: float | None) -> Sequence[GroupConstraint]:
    if name not in NAMED_CONSTRAINTS:
        known = ", ".join(map(repr, NAMED_CONSTRAINTS))
        hint = did_you_mean(
            OTHER_NAMES.get(name.lower(), name), [*NAMED_CONSTRAINTS, "calibrated"]
        )
        plain = name.lower().replace("_", " ")
        spoken = plain if plain in (*RATES, PRECISION.name) else SYNONYMS.get(plain)
        if not hint and spoken in (*RATES, PRECISION.name):
            hint = f"; for this rate write parity({spoken!r})"
        elif plain in OF_TWO_LABELS:
            hint = f"; of two labels, {OF_TWO_LABELS[plain]}"
        if name == "equal_accuracy":
            hint = f"; {name!r} is for three classes or more"
        if name in OF_NUMBERS:
            hint = f"; {name!r} is about predicted numbers, for FairGBMRegressor"
        raise ConstraintError(
            f"unknown constraint {name!r}; expected one of {known}, 'calibrated', a parity(...), "
            f"bound(...), at_least(...) or minimax(...), a list of them, or None{hint}"
        )
    rates = NAMED_CONSTRAINTS[name]
    if name == FOUR_FIFTHS:
        return [parity(rate, ratio=FOUR_FIFTHS_RATIO) for rate in rates]
    return [parity(rate, tolerance) for rate in rates]


def with_tolerance(constraint: Any, tolerance: float | None) -> Any:
    """A constraint with the tolerance that is shared, if it has none of its own.

    Without a shared one that of rates is automatic: a place is kept for it.
    """
    if not isinstance(constraint, Parity) or constraint.has_own_tolerance:
        return constraint
    of_rates = isinstance(constraint.moment, Rate | ClassRate | ClassMoment)
    automatic = tolerance is None and of_rates and not constraint.relative
    found = TOLERANCE if tolerance is None else tolerance
    return replace(constraint, tolerance=found, has_own_tolerance=True, automatic=automatic)


def _checked(item: object) -> GroupConstraint:
    parts = "by", "violations", "pullback"
    older = hasattr(item, "rates") and all(hasattr(item, part) for part in parts)
    if isinstance(item, type) or not (older or isinstance(item, Constraint)):
        raise ConstraintError(
            f"{item!r} is not a constraint; expected a name, a parity(...) or bound(...), or an "
            "object with moments, by, violations and pullback"
        )
    found = adapted(item)
    moments: Any = found.moments
    if isinstance(moments, str):
        raise ConstraintError(
            f"moments of {item!r} must be a tuple of names, found {moments!r}; write "
            f"({moments!r},)"
        )
    for moment in moments:
        as_moment(moment)
    return found


def columns_of(constraint: Constraint) -> tuple[str, ...]:
    """The sensitive columns whose crossing a constraint reads; none for everyone.

    Examples
    --------
    >>> columns_of(parity("ppr", by="sex", given="risk_class"))
    ('sex', 'risk_class')
    """
    by = (constraint.by,) if isinstance(constraint.by, str) else constraint.by or ()
    return *by, *given_of(constraint)


def given_of(constraint: Constraint) -> tuple[str, ...]:
    """The columns among whose values groups are compared, the last of those that it reads."""
    found = getattr(constraint, "given", ())
    return (found,) if isinstance(found, str) else tuple(found or ())


def _placed(
    constraint: GroupConstraint, columns: Sequence[str], given: Collection[str]
) -> Sequence[GroupConstraint]:
    """Write out ``by=None``: one copy of the constraint per column that is compared."""
    if constraint.by is not None:
        return [constraint]
    if not columns and given:
        raise ConstraintError(
            f"given names every sensitive column ({', '.join(map(repr, sorted(given)))}), so no "
            "groups are left to compare; pass the column of the groups in sensitive_features as "
            "well"
        )
    if not columns:
        raise ConstraintError(
            "the constraint compares groups but sensitive_features is missing; pass "
            "fit(X, y, sensitive_features=...), or set constraint=None or a bound(...) on everyone"
        )
    return constraint.by_each(columns)


def check_tolerance(tolerance: Any, of_shares: bool = True) -> float:
    """Refuse what is not a difference of rates, or of means."""
    if not of_shares and is_finite(tolerance) and tolerance >= 0:
        return float(tolerance)
    if not is_finite(tolerance) or not 0 <= tolerance < 1:
        raise ConstraintError(
            f"tolerance must lie in [0, 1), found {tolerance!r}; it is a difference of rates, so "
            "write 0.01 for one percentage point"
        )
    return float(tolerance)
