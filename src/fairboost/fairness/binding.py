"""Constraints bound to the cells of a data set, and the linear map from cells to moments.

A constraint knows moments and groups, cells know rows. :func:`bind` brings the two together and
raises if the data cannot be held to the constraint; :class:`MomentMap` turns sums over cells into
all the moments that the constraints read, and coefficients on moments back into those on rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import Cells, Groups
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import Bound, Constraint, columns_of
from fairboost.fairness.moments import GroupMoments, Moment
from fairboost.fairness.rates import as_moment, counted_cells

Which: TypeAlias = Literal["all", "trained", "held out"]


@runtime_checkable
class WrittenOut(Protocol):
    """A constraint of many inequalities that knows its derivative as a whole."""

    def jacobian(self, moments: GroupMoments) -> FloatArray:
        """Derivative of each violation by each moment, flat."""


@dataclass(frozen=True)
class Term:
    """A constraint bound to the cells of a data set.

    Parameters
    ----------
    constraint : Constraint
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
    """

    constraint: Constraint
    moments: tuple[Moment, ...]
    groups: Groups
    counted: FloatArray
    rows: FloatArray
    inequalities: tuple[str, ...]

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
        return GroupMoments(values.reshape(self.counted.shape), self.counted, self.groups.names)

    def jacobian(self, values: FloatArray) -> FloatArray:
        """Derivative of each violation by each moment, at a flat list of moments."""
        moments, units = self.read(values), np.eye(len(self.inequalities))
        if isinstance(self.constraint, WrittenOut):
            return self.constraint.jacobian(moments)
        return np.stack([self.constraint.pullback(moments, unit).ravel() for unit in units])


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
    by = columns_of(constraint)
    groups = cells.groups_by(by)
    moments = tuple(as_moment(m) for m in constraint.moments)
    if by and len(groups) < 2 and cells.left_out.get(by):
        raise ConstraintError(
            f"fewer than two groups of the sensitive column {', '.join(by)!r} have as many rows "
            "that count as min_group_rows asks for; lower min_group_rows, or merge groups"
        )
    if by and len(groups) < 2:
        raise ConstraintError(
            f"the sensitive column {', '.join(by)!r} has one group only "
            f"({groups.label(0) if len(groups) else 'none'}); parity needs two or more. Drop the "
            "constraint, or pass the column that tells the groups apart"
        )
    counted = np.stack([_sum_counted(r, cells, groups, cells.weights) for r in moments])
    _check_every_group_counts(moments, groups, counted, which)
    _check_enough_rows(constraint, cells, groups, which)
    squares = np.stack([_sum_counted(r, cells, groups, cells.squares) for r in moments])
    names = _inequality_names(constraint, groups, counted)
    return Term(constraint, moments, groups, counted, counted**2 / squares, names)


def leave_out_small(cells: Cells, constraints: Sequence[Constraint], least: int) -> Cells:
    """Take groups out of comparisons if too few of their rows count towards some rate.

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
    for c in constraints:
        by = columns_of(c)
        groups = cells.groups_by(by)
        rows = np.min(
            [_sum_counted(as_moment(m), cells, groups, cells.counts) for m in c.moments], axis=0
        )
        small = {groups.names[g] for g in np.flatnonzero(rows < least)}
        if isinstance(c, Bound):  # compares nothing
            if by and c.group in small:
                g = groups.names.index(c.group)
                raise ConstraintError(
                    f"a bound is asked for on {groups.label(g)!r}, of which {rows[g]:.0f} rows "
                    f"count, fewer than min_group_rows={least}; drop the bound, or lower "
                    "min_group_rows"
                )
        elif by and small:
            left_out[by] = left_out.get(by, frozenset()) | small
    return replace(cells, left_out=left_out)


@dataclass(frozen=True)
class LeftOut:
    """A rate of a group that is reported, and not compared with others."""

    moment: Moment
    columns: tuple[str, ...]
    name: tuple[object, ...]
    group: str
    value: float
    rows: float


def rates_left_out(
    constraints: Sequence[Constraint], cells: Cells, sums: FloatArray
) -> tuple[LeftOut, ...]:
    """Moments of the groups that were left out, from sums of all quantities by cell."""
    out = []
    pairs = dict.fromkeys((columns_of(c), as_moment(m)) for c in constraints for m in c.moments)
    for by, moment in pairs:
        absent = cells.left_out.get(by, frozenset())
        groups = replace(cells, left_out={}).groups_by(by)
        which, of = counted_cells(moment, cells.labels, groups.of_cell)
        for g in (g for g, name in enumerate(groups.names) if name in absent):
            at = which[of == g]
            counted, square = cells.weights[at].sum(), cells.squares[at].sum()
            rows = counted**2 / square if square > 0 else 0.0
            value = sums[moment.quantity, at].sum() / counted if counted > 0 else np.nan
            named = groups.names[g], groups.label(g)
            out.append(LeftOut(moment, by, *named, float(value), float(rows)))
    return tuple(out)


def _sum_counted(moment: Moment, cells: Cells, groups: Groups, per_cell: FloatArray) -> FloatArray:
    which, group = counted_cells(moment, cells.labels, groups.of_cell)
    return np.bincount(group, per_cell[which], len(groups)).astype(np.float64)


def _check_every_group_counts(
    rates: Sequence[Moment], groups: Groups, counted: FloatArray, which: Which
) -> None:
    for k, rate in enumerate(rates):
        for g in np.flatnonzero(counted[k] <= 0).tolist():
            label = "" if rate.label is None else f" with y = {rate.label}"
            rows, remedy = REMEDIES[which]
            raise ConstraintError(
                f"group {groups.label(g)!r} has no {rows}{label}, so its {rate.title} is "
                f"undefined; {remedy}merge the group with another, or take it out of the "
                "comparison: min_group_rows does so with small groups, and a missing value in "
                "sensitive_features with single rows"
            )


def _check_enough_rows(constraint: Constraint, cells: Cells, groups: Groups, which: Which) -> None:
    """Refuse groups that are too small for what a constraint asks of parts of them."""
    least = int(getattr(constraint, "least_rows", 0))
    known = groups.of_cell >= 0
    counts = np.bincount(groups.of_cell[known], cells.counts[known], len(groups))
    for g in np.flatnonzero(counts < least).tolist():
        rows, remedy = REMEDIES[which]
        raise ConstraintError(
            f"group {groups.label(g)!r} has {counts[g]:.0f} {rows}, and two in each part of the "
            f"predictions take {least}; {remedy}ask for fewer parts, merge the group with "
            "another, or take it out of the comparison with min_group_rows"
        )


def _inequality_names(
    constraint: Constraint, groups: Groups, counted: FloatArray
) -> tuple[str, ...]:
    """Name the violations, and see on the way that the constraint works on these groups."""
    trial = GroupMoments(np.full(counted.shape, 0.5), counted, groups.names)
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
    labels = [groups.label(g) for g in range(len(groups))]
    if hasattr(constraint, "inequality_names"):
        return tuple(constraint.inequality_names(labels))
    name = str(getattr(constraint, "name", type(constraint).__name__))
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
        rows: list[IntArray] = [np.empty(0, np.int32)]
        columns: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        row = 0
        for t in terms:
            for moment in t.moments:
                which, group = counted_cells(moment, cells.labels, t.groups.of_cell)
                rows.append(row + group)
                columns.append(which + moment.quantity * len(cells))
                row += len(t.groups)
        self.counted = np.concatenate([t.counted.ravel() for t in terms] or [np.empty(0)])
        entries = (np.concatenate(rows), np.concatenate(columns))
        shape = len(self.counted), n_quantities * len(cells)
        matrix = sp.csr_array((np.ones(len(entries[0])), entries), shape=shape)
        # n / W of each moment: what turns a coefficient on it into one on each of its rows.
        self.per_row = cells.total_weight / self.counted
        back = sp.csr_array(matrix.T * self.per_row)
        self.shape = n_quantities, len(cells)
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
