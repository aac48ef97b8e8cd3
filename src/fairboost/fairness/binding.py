"""Constraints bound to the cells of a data set, and the linear map from cells to moments.

A constraint knows moments and groups, cells know rows. :func:`bind` brings the two together and
raises if the data cannot be held to the constraint; :class:`MomentMap` turns sums over cells into
all the moments that the constraints read, and coefficients on moments back into those on rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import Cells, Groups
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint, adapted
from fairboost.fairness.compiled import Lines
from fairboost.fairness.constraints import Constraint, columns_of, given_of
from fairboost.fairness.moments import GroupMoments, Moment
from fairboost.fairness.rates import as_moment, counted_cells

Which: TypeAlias = Literal["all", "trained", "held out"]


@dataclass(frozen=True)
class Term:
    """A constraint bound to the cells of a data set.

    Parameters
    ----------
    constraint : GroupConstraint
        The constraint.
    moments : tuple of Moment
        The moments it reads.
    groups : Groups
        The groups it reads them of.
    counted : (n_moments, n_groups) float64
        Weight of the rows that count.
    rows : (n_moments, n_groups) float64
        As many rows of equal weight tell as much about the moment: Kish's effective sample size.
    inequalities : tuple of str
        A name for each of its violations.
    strata : (n_groups,) int, optional
        Groups of the same number are compared with each other; None compares all.
    correlations : (n_moments, n_groups, n_groups) float64, optional
        Of the moments of groups that share rows; None where a row is in one group.
    """

    constraint: GroupConstraint
    moments: tuple[Moment, ...]
    groups: Groups
    counted: FloatArray
    rows: FloatArray
    inequalities: tuple[str, ...]
    strata: IntArray | None = None
    correlations: FloatArray | None = None

    @property
    def by(self) -> str:
        """What is compared, in words, such as ``"sex given risk_class"``."""
        return compared_by(self.groups.columns, given_of(self.constraint))

    @property
    def by_in_words(self) -> str:
        """The same for a verdict: ``"age as a number"``, ``"race by probability"``."""
        words = {f.name: f.words for f in self.groups.facts}
        named = [words.get(name, name) for name in self.groups.columns]
        return compared_by(named, given_of(self.constraint))

    @property
    def most_compared(self) -> int:
        """How many groups are compared with each other, at most."""
        return len(self.groups) if self.strata is None else int(np.bincount(self.strata).max())

    @property
    def moment_labels(self) -> list[str]:
        """Name each moment of each group, for the trace."""
        return [
            f"{moment.name}[{self.groups.label(g)}]"
            for moment in self.moments
            for g in range(len(self.groups))
        ]

    def read(self, values: FloatArray) -> GroupMoments:
        """Give the constraint its moments, from a flat list of them."""
        shaped = values.reshape(self.counted.shape)
        return GroupMoments(shaped, self.counted, self.groups.names, self.strata)

    @cached_property
    def lines(self) -> Lines:
        """The inequalities, compiled: those of an affine constraint, at all moments."""
        return self.constraint.linearized(self.read(np.full(self.counted.size, 0.5)))

    def linearized(self, values: FloatArray) -> Lines:
        """The inequalities at a flat list of moments."""
        if self.constraint.fixed:
            return self.lines
        return self.constraint.linearized(self.read(values))

    def violations(self, values: FloatArray) -> FloatArray:
        """One number per inequality, positive where it is broken, at a flat list of moments."""
        if self.constraint.affine:
            return self.lines.violations(values)
        return self.constraint.violations(self.read(values))

    def pullback(self, values: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Derivative of ``multipliers @ violations`` by the moments, flat like these."""
        if self.constraint.affine:
            out: FloatArray = multipliers @ self.lines.A
            return out
        return self.constraint.pullback(self.read(values), multipliers).ravel()


MOST_NAMED = 5
"""Groups that a message names."""

REMEDIES: dict[Which, tuple[str, str]] = {
    "all": ("rows", ""),
    "trained": ("rows left to train on", "hold out fewer rows, or use holdout='cross'; or "),
    "held out": ("held-out rows", "hold out more rows, or use holdout='cross'; or "),
}
"""What rows are called in a message, and what to do for more of them."""


def bind(constraint: Constraint, cells: Cells, which: Which = "all") -> Term:
    """Bind a constraint to a data set; raises if the data cannot be held to it.

    Parameters
    ----------
    constraint : Constraint
        The constraint.
    cells : Cells
        The rows.
    which : {"all", "trained", "held out"}
        Which rows these are, for the message.
    """
    constraint = adapted(constraint)
    by, given = columns_of(constraint), given_of(constraint)
    groups = cells.groups_by(by)
    moments = tuple(as_moment(m) for m in constraint.moments)
    if given and len(groups) < 2:
        rows, remedy = REMEDIES[which]
        raise ConstraintError(
            f"no two groups of {', '.join(map(repr, by[: -len(given)]))} have {rows} that count "
            f"at the same value of {', '.join(map(repr, given))}, so there is nothing to compare; "
            f"{remedy}use fewer and wider classes in given, lower min_group_rows, or leave given "
            "out"
        )
    if by and len(groups) < 2:
        raise ConstraintError(
            f"the sensitive column {', '.join(by)!r} has one group only "
            f"({groups.label(0) if len(groups) else 'none'}); parity needs two or more. Drop the "
            "constraint, or pass the column that holds the groups"
        )
    counted = np.stack([_sum_counted(r, cells, groups, cells.all.weights) for r in moments])
    _check_every_group_counts(moments, groups, counted, which)
    _check_enough_rows(constraint, cells, groups, which)
    squares = np.stack([_sum_counted(r, cells, groups, cells.all.squares) for r in moments])
    strata = _strata(groups, len(given))
    names = _inequality_names(constraint, groups, counted, strata)
    told = counted**2 / squares
    shared = [cells.correlations(groups, m.counts(cells.labels)) for m in moments]
    known = [c for c in shared if c is not None]
    correlations = np.stack(known) if known else None
    return Term(constraint, moments, groups, counted, told, names, strata, correlations)


def compared_by(columns: Sequence[str], given: Sequence[str] = ()) -> str:
    """Columns in words, the last of which may be given.

    Examples
    --------
    >>> compared_by(("sex", "race", "risk_class"), ("risk_class",))
    'sex, race given risk_class'
    """
    by = ", ".join(columns[: len(columns) - len(given)]) or "everyone"
    return f"{by} given {', '.join(given)}" if given else by


def _strata(groups: Groups, n_given: int) -> IntArray | None:
    """Number the values of the given columns; None if there is one value alone."""
    if not n_given:
        return None
    numbers: dict[tuple[object, ...], int] = {}
    found = [numbers.setdefault(name[-n_given:], len(numbers)) for name in groups.names]
    return np.array(found, np.int32) if len(numbers) > 1 else None


def _without_match(groups: Groups, n_given: int, absent: set[Any]) -> set[Any]:
    """Groups that are left out, with those that would then have no other to be compared with."""
    left = [name for name in groups.names if name not in absent]
    many = Counter(name[-n_given:] for name in left)
    return absent | {name for name in left if many[name[-n_given:]] < 2}


def match(constraints: Sequence[Constraint], *parts: Cells) -> tuple[Cells, ...]:
    """Leave out of several sets of rows the groups that cannot be compared in all of them.

    Of constraints that are given a column: there, a group of few rows may have none held out.

    Parameters
    ----------
    constraints : sequence of Constraint
        The constraints.
    *parts : Cells
        Rows in the same cells.
    """
    left_out = dict(parts[0].left_out)
    for c in constraints:
        by, n_given = columns_of(c), len(given_of(c))
        if not n_given:
            continue
        groups = replace(parts[0], left_out={}).groups_by(by)
        absent = set(left_out.get(by, ()))
        for cells in parts:
            for moment in map(as_moment, c.moments):
                counted = _sum_counted(moment, cells, groups, cells.all.weights)
                absent |= {groups.names[g] for g in np.flatnonzero(counted <= 0)}
        if absent := _without_match(groups, n_given, absent):
            left_out[by] = frozenset(absent)
    if left_out == parts[0].left_out:
        return parts
    return tuple(replace(cells, left_out=left_out) for cells in parts)


def leave_out_small(cells: Cells, constraints: Sequence[Constraint], least: int) -> Cells:
    """Take groups out of comparisons if too few of their rows count towards some rate.

    Where a constraint is given a column, so are groups of which no rows count at a value of it,
    and those that have no other group to be compared with there.

    Parameters
    ----------
    cells : Cells
        The rows.
    constraints : sequence of Constraint
        The constraints whose groups are compared.
    least : int
        Rows that must count.
    """
    left_out: dict[tuple[str, ...], frozenset[tuple[object, ...]]] = {}
    for c, groups, rows in _rows_compared(cells, constraints):
        if small := _names_of_small(groups, rows, least):
            _check_two_left(c, groups, rows, least)
            by = groups.columns
            left_out[by] = left_out.get(by, frozenset()) | small
    for c in constraints:
        group = adapted(c).one_group
        if group is not None and group in left_out.get(columns_of(c), ()):
            raise ConstraintError(
                f"a bound is asked for on {', '.join(map(repr, group))}, a group of "
                f"{', '.join(columns_of(c))!r} with fewer than min_group_rows={least} rows, which "
                "another constraint leaves out; drop the bound, or lower min_group_rows"
            )
    cells = cells if left_out == cells.left_out else replace(cells, left_out=left_out)
    return match(constraints, cells)[0]


def leave_out_small_in(
    cells: Cells, others: Cells, constraints: Sequence[Constraint], least: int
) -> Cells:
    """Take groups that are small in other rows out as well, where two or more are left there.

    Parameters
    ----------
    cells, others : Cells
        Rows in the same cells: those to train on, and a held-out set.
    constraints, least
        As in :func:`leave_out_small`.
    """
    left_out = dict(cells.left_out)
    for _, groups, rows in _rows_compared(others, constraints):
        absent = left_out.get(groups.columns, frozenset())
        small = absent | _names_of_small(groups, rows, least)
        if small != absent and len({*groups.names} - small) >= 2:
            left_out[groups.columns] = small
    return match(constraints, replace(cells, left_out=left_out))[0]


def _rows_compared(
    cells: Cells, constraints: Sequence[Constraint]
) -> Iterator[tuple[Constraint, Groups, FloatArray]]:
    """Of each constraint that compares groups these, and the rows that count in each."""
    for c in constraints:
        if (by := columns_of(c)) and adapted(c).traits.compares:
            groups = cells.groups_by(by)
            counts = [rows_that_count(as_moment(m), cells, groups) for m in c.moments]
            yield c, groups, np.min(counts, axis=0)


def _names_of_small(groups: Groups, rows: FloatArray, least: int) -> frozenset[tuple[object, ...]]:
    """Groups of few rows; corrected weights may be negative, which is told later."""
    return frozenset(groups.names[g] for g in np.flatnonzero((rows < least) & (rows >= 0.0)))


def _check_two_left(constraint: Constraint, groups: Groups, rows: FloatArray, least: int) -> None:
    """Refuse to leave out so many groups that no two are left to compare."""
    if len(groups) < 2 or given_of(constraint) or (rows >= least).sum() >= 2:
        return
    ranked = np.argsort(-rows, kind="stable")
    listed = [
        f"{groups.label(g)} ({rows[g]:,.0f} {'row' if rows[g] == 1 else 'rows'})"
        for g in ranked[:MOST_NAMED].tolist()
    ]
    listed += [f"{len(ranked) - MOST_NAMED} smaller groups"] * (len(ranked) > MOST_NAMED)
    measured = " and the ".join(as_moment(m).title for m in constraint.moments[:2])
    second = int(rows[ranked[1]])
    lower = f"pass min_group_rows={second} to compare smaller groups, or " * bool(second)
    raise ConstraintError(
        f"fewer than two groups of the sensitive column {', '.join(groups.columns)!r} have "
        f"min_group_rows={least} rows that count towards the {measured}, found "
        f"{', '.join(listed)}; {lower}pass more rows, or merge groups"
    )


@dataclass(frozen=True)
class LeftOut:
    """A rate of a group that is reported, and not compared with others."""

    moment: Moment
    columns: tuple[str, ...]
    name: tuple[object, ...]
    group: str
    value: float
    rows: float
    given: tuple[str, ...] = ()


def rates_left_out(
    constraints: Sequence[Constraint], cells: Cells, sums: FloatArray
) -> tuple[LeftOut, ...]:
    """Moments of the groups that were left out, from sums of all quantities by cell.

    With those of which there is no row at some value of a given column.
    """
    out = []
    pairs = {
        (columns_of(c), as_moment(m)): given_of(c)
        for c in sorted(constraints, key=lambda c: bool(given_of(c)))
        for m in c.moments
    }
    for (by, moment), given in pairs.items():
        absent, every = cells.left_out.get(by, frozenset()), cells.all
        if not absent and not given:
            continue
        groups = replace(cells, left_out={}).groups_by(by)
        which, of = counted_cells(moment, every.labels, groups.of_cell)
        for g in (g for g, name in enumerate(groups.names) if name in absent):
            at = which[of == g]
            counted, square = every.weights[at].sum(), every.squares[at].sum()
            rows = counted**2 / square if square > 0 else 0.0
            value = sums[moment.quantity, at].sum() / counted if counted > 0 else np.nan
            named = groups.names[g], groups.label(g)
            out.append(LeftOut(moment, by, *named, float(value), float(rows), given))
        for name in _unseen(groups, len(given)):
            label = replace(groups, names=(name,)).label(0)
            out.append(LeftOut(moment, by, name, label, np.nan, 0.0, given))
    return tuple(out)


def _unseen(groups: Groups, n_given: int) -> list[tuple[object, ...]]:
    """Groups of which there are rows, but none at some value of the given columns."""
    if not n_given:
        return []
    ours = dict.fromkeys(name[:-n_given] for name in groups.names)
    strata = dict.fromkeys(name[-n_given:] for name in groups.names)
    seen = set(groups.names)
    return [(*g, *s) for g in ours for s in strata if (*g, *s) not in seen]


def _sum_counted(moment: Moment, cells: Cells, groups: Groups, per_cell: FloatArray) -> FloatArray:
    which, group = counted_cells(moment, cells.all.labels, groups.of_cell)
    return np.bincount(group, per_cell[which], len(groups)).astype(np.float64)


def rows_that_count(moment: Moment, cells: Cells, groups: Groups) -> FloatArray:
    """Rows of each group that count towards a moment, or as many of equal weight if fewer.

    A row of weight 0 is left out of everything else, and does not count here either.
    """
    counts = _sum_counted(moment, cells, groups, cells.all.counts)
    if cells.shared:  # weights of rows in groups may be negative
        return counts
    weights, squares = (
        _sum_counted(moment, cells, groups, per_cell)
        for per_cell in (cells.all.weights, cells.all.squares)
    )
    alone = np.divide(weights**2, squares, out=np.zeros_like(squares), where=squares > 0)
    return np.minimum(counts, np.round(alone, 6))


def _check_every_group_counts(
    rates: Sequence[Moment], groups: Groups, counted: FloatArray, which: Which
) -> None:
    for k, rate in enumerate(rates):
        for g in np.flatnonzero(counted[k] <= 0).tolist():
            named = getattr(rate, "label_name", None)
            label = "" if rate.label is None else f" with y = {named or rate.label}"
            rows, remedy = REMEDIES[which]
            if counted[k, g] < 0:
                raise ConstraintError(
                    f"the corrected weight of group {groups.label(g)!r} among the {rows}{label} "
                    f"is {counted[k, g]:.4g}, expected more than 0: the probabilities are not "
                    f"calibrated, or the group is too small; {remedy}calibrate the "
                    "probabilities, merge the group with another, or use "
                    "group_probabilities(..., estimator='weighted')"
                )
            raise ConstraintError(
                f"group {groups.label(g)!r} has no {rows}{label}, so its {rate.title} is "
                f"undefined; {remedy}merge the group with another, or take it out of the "
                "comparison: min_group_rows does so with small groups, and a missing value in "
                "sensitive_features with single rows"
            )


def _check_enough_rows(
    constraint: GroupConstraint, cells: Cells, groups: Groups, which: Which
) -> None:
    """Refuse groups that are too small for what a constraint asks of parts of them."""
    least = constraint.traits.least_rows
    known = groups.of_cell >= 0
    counts = np.bincount(groups.of_cell[known], cells.all.counts[known], len(groups))
    for g in np.flatnonzero(counts < least).tolist():
        rows, remedy = REMEDIES[which]
        raise ConstraintError(
            f"group {groups.label(g)!r} has {counts[g]:.0f} {rows}, and two in each part of the "
            f"predictions take {least}; {remedy}ask for fewer parts, merge the group with "
            "another, or take it out of the comparison with min_group_rows"
        )


def _inequality_names(
    constraint: GroupConstraint, groups: Groups, counted: FloatArray, strata: IntArray | None
) -> tuple[str, ...]:
    """Name the violations, and see on the way that the constraint works on these groups."""
    trial = GroupMoments(np.full(counted.shape, 0.5), counted, groups.names, strata)
    violations = np.asarray(constraint.violations(trial))
    if violations.ndim != 1:
        raise ConstraintError(
            f"violations of {constraint!r} must be a vector, found shape {violations.shape}"
        )
    back = np.asarray(constraint.pullback(trial, np.zeros(len(violations))))
    if back.shape != trial.values.shape:
        raise ConstraintError(
            f"pullback of {constraint!r} must have the shape of the rates {trial.values.shape} "
            f"(rates, groups), found {back.shape}"
        )
    labels, name = [groups.label(g) for g in range(len(groups))], constraint.name
    if names := constraint.inequality_names(labels):
        return tuple(names)
    if len(violations) == len(groups) and groups.columns:
        return tuple(f"{name}[{label}]" for label in labels)
    if len(violations) == 1:
        return (name,)
    return tuple(f"{name}[{k}]" for k in range(len(violations)))


FULL = 20_000
"""Entries up to which the matrix below is stored in full."""


class MomentMap:
    """All moments of all terms, as one linear map from sums over cells.

    A row of ``matrix`` is a moment of a group. Its columns are the cells, once for each quantity
    of the task, and an entry is 1 where the cell counts and the moment is of that quantity. A
    moment is a row of the matrix times the sums of quantities over cells, over the weight that
    counts; a coefficient on a moment goes back to the cells by the transpose. This is all there is
    between rows and constraints. ``needs`` are, per quantity, the cells of which some moment reads
    it.
    """

    def __init__(self, cells: Cells, terms: Sequence[Term], n_quantities: int) -> None:
        every = cells.all
        rows: list[IntArray] = [np.empty(0, np.int32)]
        columns: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        row = 0
        for t in terms:
            for moment in t.moments:
                which, group = counted_cells(moment, every.labels, t.groups.of_cell)
                rows.append(row + group)
                columns.append(which + moment.quantity * len(every))
                row += len(t.groups)
        self.counted = np.concatenate([t.counted.ravel() for t in terms] or [np.empty(0)])
        entries = (np.concatenate(rows), np.concatenate(columns))
        shape = len(self.counted), n_quantities * len(every)
        matrix = sp.csr_array((np.ones(len(entries[0])), entries), shape=shape)
        # n / W of each moment: what turns a coefficient on it into one on each of its rows.
        self.per_row = cells.total_weight / self.counted
        back = sp.csr_array(matrix.T * self.per_row)
        self.shape = n_quantities, len(every)
        self.needs = (np.diff(back.indptr) > 0).reshape(self.shape)
        # Of a few groups, a product with a full matrix is over sooner than SciPy has begun.
        full = shape[0] * shape[1] <= FULL
        self.matrix: Any = matrix.toarray() if full else matrix
        self.back: Any = back.toarray() if full else back

    def means(self, sums: FloatArray) -> FloatArray:
        """All moments, from the sums of quantities, (n_quantities, n_cells)."""
        out: FloatArray = self.matrix @ sums.ravel() / self.counted
        return out

    def pull_back(self, coefficients: FloatArray) -> FloatArray:
        """What coefficients on moments weigh on the quantities of a row of each cell."""
        out: FloatArray = (self.back @ coefficients).reshape(self.shape)
        return out


def exact_rates(rates: MomentMap, positive: FloatArray, total: FloatArray) -> FloatArray:
    """Rates of binary decisions, from the weight of positive ones and of all rows by cell."""
    found = rates.means(np.stack([positive, total - positive]))
    return np.clip(found, 0.0, 1.0)  # sums of weights round


def slices(lengths: Sequence[int]) -> list[slice]:
    """Where each of several parts lies when they are laid end to end."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number the repeats, so that two equal constraints keep a column each in the trace."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(out)
