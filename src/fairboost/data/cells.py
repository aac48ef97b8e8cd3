"""Cells: the label crossed with the groups of every sensitive column.

Each row lies in one cell and there are few cells (2 labels x groups), so every rate, exact or
proxy, is a sum of per-cell sums, and the constraints' part of a row's gradient is a coefficient
looked up by cell. This is what makes a round cost one pass over the rows whatever the number of
constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray
from fairboost.exceptions import ConstraintError

Weights: TypeAlias = FloatArray | Float32Array


@dataclass(frozen=True)
class SensitiveColumn:
    """One sensitive attribute, as codes.

    Parameters
    ----------
    name : str
        Name of the column.
    codes : (n,) int
        Group of each row; -1 where it is missing.
    values : tuple
        What each code stands for, in sorted order.
    """

    name: str
    codes: IntArray
    values: tuple[object, ...]


@dataclass(frozen=True)
class Groups:
    """The groups that a constraint compares, and the group of each cell.

    Parameters
    ----------
    columns : tuple of str
        The columns crossed to make the groups; empty for everyone.
    names : tuple of tuple
        The value of each of those columns, per group.
    of_cell : (n_cells,) int32
        Group of each cell; -1 where one of the columns is missing.
    """

    columns: tuple[str, ...]
    names: tuple[tuple[object, ...], ...]
    of_cell: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def label(self, group: int) -> str:
        """Name of a group for people, e.g. ``'sex=F, race=B'``; ``'everyone'`` without columns."""
        pairs = zip(self.columns, self.names[group], strict=True)
        return ", ".join(f"{column}={value}" for column, value in pairs) or "everyone"


MANY_CELLS = 1_000_000
"""Cells that there may be a count for, whether they have rows or not."""

EVERYONE: tuple[str, ...] = ()
"""The columns to cross to get one group that holds all rows, those of unknown group included."""


@dataclass(frozen=True)
class Cells:
    """Rows sorted into cells.

    Parameters
    ----------
    codes : (n,) unsigned int
        Cell of each row.
    labels : (n_cells,) int32
        Label of each cell.
    groups : dict of str to (n_cells,) int32
        Per sensitive column, the group code of each cell; -1 is missing.
    values : dict of str to tuple
        Per sensitive column, what its codes stand for.
    counts : (n_cells,) float64
        Rows of each cell.
    weights : (n_cells,) float64
        Their weight; equal to ``counts`` without sample weights.
    squares : (n_cells,) float64
        The sum of their squared weights, for sampling errors.
    left_out : dict of tuple of str to frozenset
        Per set of columns, the groups that are not compared with others.
    """

    codes: IntArray
    labels: IntArray
    groups: dict[str, IntArray]
    values: dict[str, tuple[object, ...]]
    counts: FloatArray
    weights: FloatArray
    squares: FloatArray
    left_out: dict[tuple[str, ...], frozenset[tuple[object, ...]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def total_weight(self) -> float:
        """Weight of all rows: the n of the equations."""
        return float(self.weights.sum())

    def among(self, rows: BoolArray | slice, sample_weight: Weights | None = None) -> Cells:
        """The same cells, with some of the rows; ``sample_weight`` is that of all rows."""
        codes = self.codes[rows]
        weight = None if sample_weight is None else sample_weight[rows]
        return self.with_totals(totals_by_cell(codes, len(self), weight), codes)

    def with_totals(self, totals: Sequence[FloatArray], codes: IntArray) -> Cells:
        """The same cells, with other rows: their codes, and what :func:`totals_by_cell` gives."""
        counts, weights, squares = totals
        return replace(self, codes=codes, counts=counts, weights=weights, squares=squares)

    def without_rows(self) -> Cells:
        """Counts and weights alone, for when the rows are gone."""
        return replace(self, codes=self.codes[:0])

    def weight_of(self, rows: BoolArray, sample_weight: Weights | None = None) -> FloatArray:
        """Weight of some of the rows, by cell."""
        weight = rows if sample_weight is None else rows * sample_weight
        return np.bincount(self.codes, weight, len(self)).astype(np.float64)

    def rows_without_group(self) -> str:
        """How many rows have no group, by column, in words; empty if all rows have one.

        Examples
        --------
        >>> sex = SensitiveColumn("sex", np.array([0, 1, 1, -1], np.int32), ("F", "M"))
        >>> build_cells(np.array([0, 0, 1, 1], np.int32), [sex]).rows_without_group()
        '1 of 4 rows has no sex and counts in no group'
        """
        found = {name: int(self.counts[codes < 0].sum()) for name, codes in self.groups.items()}
        total = f"of {int(self.counts.sum()):,} rows"
        return "; ".join(
            f"{n:,} {total} {'has' if n == 1 else 'have'} no {name} and "
            f"{'counts' if n == 1 else 'count'} in no group"
            for name, n in found.items()
            if n
        )

    def groups_by(self, columns: Sequence[str]) -> Groups:
        """Cross some sensitive columns.

        A crossing keeps only combinations that occur. Rows with any of the columns missing belong
        to no group, and neither do those of groups left out.
        """
        columns = tuple(columns)
        check_columns(columns, list(self.groups))
        if columns == EVERYONE:
            return Groups(EVERYONE, ((),), np.zeros(len(self), np.int32))
        by_cell = np.stack([self.groups[c] for c in columns], axis=1)
        known = (by_cell >= 0).all(axis=1)
        combinations, inverse = np.unique(by_cell[known], axis=0, return_inverse=True)
        names = [
            tuple(self.values[c][code] for c, code in zip(columns, row, strict=True))
            for row in combinations
        ]
        absent = self.left_out.get(columns, frozenset())
        kept = np.array([name not in absent for name in names], bool)
        of_cell = np.full(len(self), -1, np.int32)
        of_cell[known] = np.where(kept, np.cumsum(kept) - 1, -1)[inverse.reshape(-1)]
        return Groups(columns, tuple(n for n in names if n not in absent), of_cell)


def check_columns(columns: Sequence[str], known: Sequence[str]) -> None:
    """Raise if a column is not among the sensitive features."""
    for column in columns:
        if column not in known:
            have = ", ".join(map(repr, known)) or "none"
            raise ConstraintError(
                f"a constraint names the column {column!r}, which is not among the sensitive "
                f"features ({have}); pass it in sensitive_features, or correct by= or given="
            )


def build_cells(
    labels: IntArray, columns: Sequence[SensitiveColumn] = (), sample_weight: Weights | None = None
) -> Cells:
    """Sort rows into cells.

    Parameters
    ----------
    labels : (n,) int
        0 or 1.
    columns : sequence of SensitiveColumn
        The sensitive attributes.
    sample_weight : (n,) float, optional
        Weights of the rows.

    Examples
    --------
    >>> sex = SensitiveColumn("sex", np.array([0, 1, 1, -1], np.int32), ("F", "M"))
    >>> cells = build_cells(np.array([0, 0, 1, 1], np.int32), [sex])
    >>> cells.labels.tolist(), cells.groups["sex"].tolist()
    ([0, 0, 1, 1], [0, 1, -1, 1])
    """
    codes: IntArray = labels.astype(np.int32)
    keys: IntArray = np.array([[0], [1]], np.int32)
    for column in columns:  # splits every cell; only those that have rows are kept
        width = len(column.values) + 1  # code -1, a missing group, becomes 0
        joint = codes.astype(np.int64) * width + (column.codes + 1)
        if len(keys) * width > MANY_CELLS and len(keys) * width > len(joint):  # most are empty
            present, inverse = np.unique(joint, return_inverse=True)
            codes = inverse.astype(np.int32)
        else:
            occupied = np.bincount(joint, minlength=len(keys) * width) > 0
            codes = (np.cumsum(occupied, dtype=np.int32) - 1)[joint]
            present = np.flatnonzero(occupied)
        keys = np.column_stack([keys[present // width], (present % width - 1).astype(np.int32)])
    codes = codes.astype(np.min_scalar_type(len(keys) - 1))  # a byte, as a rule; read every round
    groups = {c.name: keys[:, 1 + k] for k, c in enumerate(columns)}
    values = {c.name: c.values for c in columns}
    totals = totals_by_cell(codes, len(keys), sample_weight)
    return Cells(codes, keys[:, 0], groups, values, *totals)


def totals_by_cell(
    codes: IntArray, n_cells: int, sample_weight: Weights | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, weight and squared weight of each cell, given the cell of each row."""
    counts = np.bincount(codes, minlength=n_cells).astype(np.float64)
    if sample_weight is None:
        return counts, counts, counts
    weights = np.bincount(codes, sample_weight, n_cells)
    squares = np.bincount(codes, np.square(sample_weight, dtype=np.float64), n_cells)
    return counts, weights.astype(np.float64), squares.astype(np.float64)
