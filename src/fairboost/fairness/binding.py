"""Constraints bound to the cells of a data set, and the linear map from cells to rates.

A constraint knows rates and groups, cells know rows. :func:`bind` brings the two together and
raises if the data cannot be held to the constraint; :class:`RateMap` turns sums over cells into
all the rates that the constraints read, and coefficients on rates back into those on rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import Cells, Groups
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import Constraint, GroupRates, columns_of
from fairboost.fairness.rates import Rate, as_rate, counted_cells

Which: TypeAlias = Literal["all", "trained", "held out"]


@dataclass(frozen=True)
class Term:
    """A constraint bound to the cells of a data set.

    Parameters
    ----------
    constraint : Constraint
        The constraint.
    rates : tuple of Rate
        The rates it reads.
    groups : Groups
        The groups it reads them of.
    counted : (n_rates, n_groups) float64
        Weight of the rows that count.
    rows : (n_rates, n_groups) float64
        As many rows of equal weight tell as much about the rate: Kish's effective sample size.
    inequalities : tuple of str
        A name for each of its violations.
    """

    constraint: Constraint
    rates: tuple[Rate, ...]
    groups: Groups
    counted: FloatArray
    rows: FloatArray
    inequalities: tuple[str, ...]

    @property
    def rate_labels(self) -> list[str]:
        """Name each rate of each group, for the trace."""
        return [
            f"{rate.name}[{self.groups.label(g)}]"
            for rate in self.rates
            for g in range(len(self.groups))
        ]

    def read(self, values: FloatArray) -> GroupRates:
        """Give the constraint its rates, from a flat list of them."""
        return GroupRates(values.reshape(self.counted.shape), self.counted, self.groups.names)

    def jacobian(self, values: FloatArray) -> FloatArray:
        """Derivative of each violation by each rate, at a flat list of rates."""
        rates, units = self.read(values), np.eye(len(self.inequalities))
        return np.stack([self.constraint.pullback(rates, unit).ravel() for unit in units])


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
    rates = tuple(as_rate(r) for r in constraint.rates)
    if by and len(groups) < 2:
        raise ConstraintError(
            f"the sensitive column {', '.join(by)!r} has one group only "
            f"({groups.label(0) if len(groups) else 'none'}); parity needs two or more. Drop the "
            "constraint, or pass the column that tells the groups apart"
        )
    counted = np.stack([_sum_counted(r, cells, groups, cells.weights) for r in rates])
    _check_every_group_counts(rates, groups, counted, which)
    squares = np.stack([_sum_counted(r, cells, groups, cells.squares) for r in rates])
    names = _inequality_names(constraint, groups, counted)
    return Term(constraint, rates, groups, counted, counted**2 / squares, names)


def _sum_counted(rate: Rate, cells: Cells, groups: Groups, per_cell: FloatArray) -> FloatArray:
    which, group = counted_cells(rate, cells.labels, groups.of_cell)
    return np.bincount(group, per_cell[which], len(groups)).astype(np.float64)


def _check_every_group_counts(
    rates: Sequence[Rate], groups: Groups, counted: FloatArray, which: Which
) -> None:
    for k, rate in enumerate(rates):
        for g in np.flatnonzero(counted[k] <= 0).tolist():
            label = "" if rate.label is None else f" with y = {rate.label}"
            rows, remedy = REMEDIES[which]
            raise ConstraintError(
                f"group {groups.label(g)!r} has no {rows}{label}, so its {rate.title} is "
                f"undefined; {remedy}merge the group with another, or drop the constraint on "
                f"{rate.name}"
            )


def _inequality_names(
    constraint: Constraint, groups: Groups, counted: FloatArray
) -> tuple[str, ...]:
    """Name the violations, and see on the way that the constraint works on these groups."""
    trial = GroupRates(np.full(counted.shape, 0.5), counted, groups.names)
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


class RateMap:
    """All rates of all terms, as one linear map from sums over cells.

    Entry (r, c) of ``matrix`` is 1 if cell c counts towards rate r, in the left half if the event
    is a positive decision and in the right half if it is a negative one. A rate is a row of the
    matrix times the events of the cells, over the weight that counts; a coefficient on a rate goes
    back to the cells by the transpose. This is all there is between rows and constraints.
    ``needs`` are the cells of which some rate reads positive, and negative, decisions.
    """

    def __init__(self, cells: Cells, terms: Sequence[Term]) -> None:
        self.total = cells.weights
        rows: list[IntArray] = [np.empty(0, np.int32)]
        columns: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        row = 0
        for t in terms:
            for rate in t.rates:
                which, group = counted_cells(rate, cells.labels, t.groups.of_cell)
                rows.append(row + group)
                columns.append(which if rate.direction > 0 else which + len(cells))
                row += len(t.groups)
        self.counted = np.concatenate([t.counted.ravel() for t in terms] or [np.empty(0)])
        entries = (np.concatenate(rows), np.concatenate(columns))
        shape = len(self.counted), 2 * len(cells)
        matrix = sp.csr_array((np.ones(len(entries[0])), entries), shape=shape)
        # n / W of each rate: what turns a coefficient on a rate into one on each of its rows.
        self.per_row = cells.total_weight / self.counted
        back = sp.csr_array(matrix.T * self.per_row)
        read = np.diff(back.indptr) > 0
        self.needs = read[: len(cells)], read[len(cells) :]
        # Of a few groups, a product with a full matrix is over sooner than SciPy has begun.
        full = shape[0] * shape[1] <= FULL
        self.matrix: Any = matrix.toarray() if full else matrix
        self.back: Any = back.toarray() if full else back

    def exact(self, positive: FloatArray) -> FloatArray:
        """Rates to evaluate, from the weight of positive decisions in each cell."""
        rates = self._rates(positive, self.total - positive)
        return np.clip(rates, 0.0, 1.0)  # sums of weights round

    def proxy(self, up: FloatArray, down: FloatArray) -> FloatArray:
        """Rates to differentiate: means of the proxy, from its sums in each cell."""
        return self._rates(up, down)

    def pull_back(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What coefficients on rates weigh on a row of each cell, in either direction."""
        on_up, on_down = np.split(self.back @ coefficients, 2)
        return on_up, on_down

    def _rates(self, up: FloatArray, down: FloatArray) -> FloatArray:
        out: FloatArray = self.matrix @ np.concatenate([up, down]) / self.counted
        return out


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
