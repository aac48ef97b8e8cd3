"""Rows that belong to several groups of a column, by weights, and what that adds up to.

A row i weighs ``w_i m_ig`` in group g. Sums are kept by cell and group, so that such a column can
be crossed with the label and with observed groups (:class:`fairboost.data.cells.AllCells`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray

if TYPE_CHECKING:
    from fairboost.data.cells import SensitiveColumn, Weights


@dataclass(frozen=True)
class SoftFacts:
    """What reports say of a column whose rows belong to groups by weights.

    Parameters
    ----------
    name : str
        The column.
    words : str
        What is compared, for verdicts.
    statement : str
        What the rates of its groups estimate.
    windows : tuple of float
        Where windows are centred, if its groups are windows of a number.
    """

    name: str
    words: str
    statement: str
    windows: tuple[float, ...] = ()


@dataclass(frozen=True)
class SharedRows:
    """Rows shared out among the groups of a column by weights, and what that adds up to.

    Parameters
    ----------
    column : SensitiveColumn
        The column, with ``members``.
    totals : (3, n_cells, n_groups) float64
        Rows, weight and squared weight of each cell's rows in each group.
    occupied : (n_cells, n_groups) bool
        Where there is any weight.
    without_group : int
        Rows that belong to no group at all.
    pairs : (n_cells, n_groups, n_groups) float64, optional
        Sums of ``w^2 m_g m_h`` over each cell's rows, from which the covariance of two rates
        follows. None where weights may be negative: squared weights bear covariances there.
    """

    column: SensitiveColumn
    totals: FloatArray
    occupied: BoolArray
    without_group: int
    pairs: FloatArray | None = None

    @property
    def members(self) -> Float32Array:
        """What each row weighs in each group."""
        assert self.column.members is not None
        return self.column.members

    def among(self, rows: Any, codes: IntArray, weight: Any) -> SharedRows:
        """The same of some of the rows, given their cells and weights."""
        column = self.column
        taken = replace(
            column,
            codes=column.codes[rows],
            members=self.members[rows],
            likely=None if column.likely is None else column.likely[rows],
            numbers=None,
        )
        return share_out(taken, codes, len(self.occupied), weight)

    def sums(self, codes: IntArray, weight: FloatArray, rows: Any) -> FloatArray:
        """Weight of some rows, by cell and group; ``weight`` is that of these rows."""
        cells, found = codes[rows].astype(np.intp), self.members[rows]
        by_group = [
            np.bincount(cells, weight * m, len(self.occupied)).astype(np.float64) for m in found.T
        ]
        return np.stack(by_group, axis=1)


def nearest(members: Float32Array) -> IntArray:
    """The group in which each row weighs most; -1 where it weighs nothing in any."""
    found: IntArray = members.argmax(axis=1).astype(np.int32)
    found[~members.any(axis=1)] = -1
    return found


def share_out(
    column: SensitiveColumn, codes: IntArray, n_cells: int, weight: Weights | None
) -> SharedRows:
    """Add up rows by cell and group, each with what it weighs in the group."""
    members = column.members
    assert members is not None
    cells, w = codes.astype(np.intp), np.ones(len(codes)) if weight is None else weight
    wide = members.astype(np.float64)

    def by_cell(values: FloatArray) -> FloatArray:
        columns = [np.bincount(cells, v, n_cells) for v in np.moveaxis(values, 1, 0)]
        return np.stack(columns, axis=1).astype(np.float64)

    weights = by_cell(wide * w[:, np.newaxis])
    squares = by_cell(np.square(wide * w[:, np.newaxis]))
    pairs = None
    if (members < 0).any():
        squares += _of_pairs(wide * w[:, np.newaxis], weights, by_cell)
    else:
        pairs = _products(wide * w[:, np.newaxis], squares, by_cell, column)
    totals = np.stack([by_cell(wide), weights, squares])
    occupied = by_cell(np.abs(wide)) > 0
    return SharedRows(column, totals, occupied, int((~members.any(axis=1)).sum()), pairs)


def _products(
    weighed: FloatArray,
    squares: FloatArray,
    by_cell: Callable[[FloatArray], FloatArray],
    column: SensitiveColumn,
) -> FloatArray:
    """Sums of products of what rows weigh in two groups, by cell."""
    n_cells, n = squares.shape
    # Of windows only neighbours share rows.
    reach = 1 if column.facts is not None and column.facts.windows else n - 1
    out = np.zeros((n_cells, n, n))
    out[:, range(n), range(n)] = squares
    for apart in range(1, reach + 1):
        first, second = np.arange(n - apart), np.arange(apart, n)
        found = by_cell(weighed[:, :-apart] * weighed[:, apart:])
        out[:, first, second] = out[:, second, first] = found
    return out


def _of_pairs(
    weighed: FloatArray, weights: FloatArray, by_cell: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """What to add to squared weights, where the errors of two groups pull apart.

    With V_gh the covariance of the rates of two groups, their difference has the variance
    ``V_gg + V_hh - 2 V_gh``. Intervals take groups to be independent, so each group bears its half
    of a covariance that is negative: that of the group where it is largest.
    """
    total = weights.sum(axis=0)
    out = np.zeros_like(weights)
    for g in range(weights.shape[1]):
        together = by_cell(weighed * weighed[:, [g]])
        ratio = np.abs(total[g] / np.where(total == 0, np.inf, total))
        ratio[g] = 0.0
        out[:, g] = np.maximum(-together * ratio, 0.0).max(axis=1)
    return out
