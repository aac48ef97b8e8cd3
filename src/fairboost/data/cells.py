"""Cells: the label crossed with the groups of every sensitive column.

Each row lies in one cell and there are few cells (labels x groups), so every rate, exact or
proxy, is a sum of per-cell sums, and the constraints' part of a row's gradient is a coefficient
looked up by cell. This is what makes a round cost one pass over the rows whatever the number of
constraints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TypeAlias

import numpy as np

from fairboost._text import did_you_mean
from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray
from fairboost.data.device_arrays import beside, count_by, on_host
from fairboost.data.shared import SharedRows, SoftFacts, nearest, share_out
from fairboost.exceptions import ConstraintError, InvalidInputError

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
        What each code stands for, in sorted order, or in that of an ordered categorical.
    members : (n, n_values) float32, optional
        What each row weighs in each group, where rows belong to groups by weights
        (:mod:`fairboost.data.shared`); all codes are then -1.
    likely : (n, n_values) float32, optional
        The probabilities that ``members`` were made from, if these are others.
    unmix : (k, k) float64, optional
        Turns a mean of ``likely`` into the share of each group; the last of ``k`` may be none of
        the groups.
    numbers : (n,) float64, optional
        A column of numbers of which windows are yet to be made.
    facts : SoftFacts, optional
        What reports say of rows that belong to groups by weights.
    """

    name: str
    codes: IntArray
    values: tuple[object, ...]
    members: Float32Array | None = None
    likely: Float32Array | None = None
    unmix: FloatArray | None = None
    numbers: FloatArray | None = None
    facts: SoftFacts | None = None

    @property
    def is_soft(self) -> bool:
        """Whether rows belong to its groups by weights."""
        return self.members is not None

    def named_as(self, known: Sequence[object]) -> SensitiveColumn:
        """The same groups under the names that training has for them, and in its order."""
        if self.is_soft or not known:
            return self
        values = same_groups(self.name, self.values, known)
        order = [v for v in known if v in values] + [v for v in values if v not in known]
        place = np.array([*map(order.index, values), -1], np.int32)  # the last is a missing group
        return replace(self, codes=place[self.codes], values=tuple(order))


LARGEST_WHOLE = 2.0**53
"""Floats above this skip whole numbers."""


def group_value(value: object) -> object:
    """A group by its value, whatever container it comes from.

    Columns of whole numbers with missing values hold floats, in pandas and in polars.

    Examples
    --------
    >>> group_value(np.float64(1)), group_value(1.5), group_value("1.0"), group_value(np.True_)
    (1, 1.5, '1.0', True)
    """
    plain: object = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float | Decimal) and abs(float(plain)) < LARGEST_WHOLE:
        return int(plain) if plain == int(plain) else plain
    return plain


def check_names_differ(name: str, values: Sequence[object]) -> None:
    """Refuse groups that differ and would have the same name in a report, such as 0 and "0"."""
    named: dict[str, object] = {}
    for value in values:
        if (other := named.setdefault(str(value), value)) is not value:
            kinds = " and ".join(f"{v!r} ({type(v).__name__})" for v in (other, value))
            raise InvalidInputError(
                f"sensitive column {name!r} has the groups {kinds}, which would have the same "
                "name; if these are one group, write its rows the same, otherwise rename one"
            )


def same_groups(
    name: str, values: Sequence[object], known: Sequence[object]
) -> tuple[object, ...]:
    """Groups of further rows under the names that training has for them.

    A group is matched by its value, or else by its text: where training has 0, "0" and "0.0" are
    that group.

    Parameters
    ----------
    name : str
        The column.
    values, known : sequence
        The groups of the further rows, and those of training.

    Examples
    --------
    >>> same_groups("married", ["1.0", False, "2"], [0, 1])
    (1, 0, '2')
    """
    by_value = {value: value for value in known}
    by_text: dict[str, list[object]] = {}
    for value in known:
        by_text.setdefault(_text_of(value), []).append(value)
    matched: dict[object, object] = {}
    for value in values:
        near = [by_value[value]] if value in by_value else by_text.get(_text_of(value), [])
        group = near[0] if len(near) == 1 else value
        if len(near) > 1 or group in matched:
            both = near if len(near) > 1 else [matched[group], value]
            raise InvalidInputError(
                f"sensitive column {name!r} has the group {value!r}, and "
                f"{' and '.join(map(repr, both))} "
                + ("are two groups of training" if len(near) > 1 else f"both mean {group!r}")
                + "; write groups as in training"
            )
        matched[group] = value
    return tuple(matched)


def _text_of(value: object) -> str:
    """A group as text; a whole number without decimals, yes and no in small letters."""
    text = re.sub(r"^(-?[0-9]+)\.0+$", r"\1", str(value))
    return text.lower() if text.lower() in ("true", "false") else text


@dataclass(frozen=True)
class AllCells:
    """The cells, and after them each cell's part in every group that rows belong to by weights.

    The parts hold the same rows again, so nothing may be added up over all of them: only groups
    know which of them to read (:meth:`Cells.groups_by`).

    Parameters
    ----------
    labels, counts, weights, squares : (n_all,) array
        As in :class:`Cells`.
    groups : dict of str to (n_all,) int32
        Per column, the group of each.
    """

    labels: IntArray
    groups: dict[str, IntArray]
    counts: FloatArray
    weights: FloatArray
    squares: FloatArray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Groups:
    """The groups that a constraint compares, and the group of each cell.

    Parameters
    ----------
    columns : tuple of str
        The columns crossed to make the groups; empty for everyone.
    names : tuple of tuple
        The value of each of those columns, per group.
    of_cell : (n_all,) int32
        Group of each of :attr:`Cells.all`; -1 where one of the columns is missing.
    facts : tuple of SoftFacts
        Of those of the columns whose rows belong to groups by weights.
    """

    columns: tuple[str, ...]
    names: tuple[tuple[object, ...], ...]
    of_cell: IntArray
    facts: tuple[SoftFacts, ...] = ()

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
        Cell of each row. Many rows may be in the memory of a GPU; all that follows is not.
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
    shared : tuple of SharedRows
        Columns whose rows belong to several groups, by weights.
    """

    codes: IntArray
    labels: IntArray
    groups: dict[str, IntArray]
    values: dict[str, tuple[object, ...]]
    counts: FloatArray
    weights: FloatArray
    squares: FloatArray
    left_out: dict[tuple[str, ...], frozenset[tuple[object, ...]]] = field(default_factory=dict)
    shared: tuple[SharedRows, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> list[str]:
        """Names of the sensitive columns."""
        return [*self.groups, *(s.column.name for s in self.shared)]

    @cached_property
    def all(self) -> AllCells | Cells:
        """The cells, and their parts in groups that rows belong to by weights; or these alone."""
        if not self.shared:
            return self
        labels, parts = [self.labels], [np.stack([self.counts, self.weights, self.squares])]
        groups = {name: [codes] for name, codes in self.groups.items()}
        groups |= {s.column.name: [np.full(len(self), -1, np.int32)] for s in self.shared}
        for shared in self.shared:
            n = shared.occupied.shape[1]
            labels.append(np.repeat(self.labels, n))
            parts.append(shared.totals.reshape(3, -1))
            for name, found in groups.items():
                codes = np.full(shared.occupied.size, -1, np.int32)
                if name == shared.column.name:
                    own = np.tile(np.arange(n, dtype=np.int32), len(self))
                    codes = np.where(shared.occupied.ravel(), own, -1)
                elif name in self.groups:
                    codes = np.repeat(self.groups[name], n)
                found.append(codes.astype(np.int32))
        by_column = {name: np.concatenate(found) for name, found in groups.items()}
        totals = np.concatenate(parts, axis=1)
        return AllCells(np.concatenate(labels), by_column, *totals)

    @cached_property
    def total_weight(self) -> float:
        """Weight of all rows: the n of the equations."""
        return float(self.weights.sum())

    def among(self, rows: BoolArray | slice, sample_weight: Weights | None = None) -> Cells:
        """The same cells, with some of the rows; ``sample_weight`` is that of all rows."""
        codes = self.codes[rows]
        weight = None if sample_weight is None else sample_weight[rows]
        found = self.with_totals(totals_by_cell(codes, len(self), weight), codes)
        if not self.shared:
            return found
        return replace(found, shared=tuple(s.among(rows, codes, weight) for s in self.shared))

    def with_totals(self, totals: Sequence[FloatArray], codes: IntArray) -> Cells:
        """The same cells, with other rows: their codes, and what :func:`totals_by_cell` gives."""
        counts, weights, squares = totals
        return replace(self, codes=codes, counts=counts, weights=weights, squares=squares)

    def without_rows(self) -> Cells:
        """Counts and weights alone, for when the rows are gone."""
        without = [
            replace(
                s,
                column=replace(s.column, codes=self.codes[:0], members=s.members[:0], likely=None),
            )
            for s in self.shared
        ]
        return replace(self, codes=on_host(self.codes[:0]), shared=tuple(without))

    def weight_of(self, rows: BoolArray, sample_weight: Weights | None = None) -> FloatArray:
        """Weight of some of the rows, by cell."""
        weight = rows if sample_weight is None else rows * sample_weight
        return np.bincount(self.codes, weight, len(self)).astype(np.float64)

    @property
    def strata(self) -> tuple[IntArray, IntArray]:
        """Of each row a number that says its cell and its nearest groups; of each, its cell.

        Rows are held out evenly of all of them. The nearest group of a row is the one in which it
        weighs most, where rows belong to groups by weights.
        """
        codes, cell_of = self.codes, np.arange(len(self))
        for shared in self.shared:
            width = shared.members.shape[1] + 1
            joint = codes.astype(np.int64) * width + nearest(shared.members) + 1
            present, codes = np.unique(joint, return_inverse=True)
            cell_of = cell_of[present // width]
        return codes, cell_of

    def shared_weight_of(
        self, rows: BoolArray, sample_weight: Weights | None = None
    ) -> FloatArray:
        """Weight of some of the rows in the parts that follow the cells in :attr:`all`."""
        if not self.shared:
            return np.empty(0)
        which = np.flatnonzero(rows)
        weight = np.ones(len(which)) if sample_weight is None else sample_weight[which]
        sums = [s.sums(self.codes, weight.astype(np.float64), which).ravel() for s in self.shared]
        return np.concatenate(sums)

    def members_of(self, groups: Groups) -> Float32Array | None:
        """What each row weighs in each of some groups; None where a row is in one of them."""
        found = [s for s in self.shared if s.column.name in groups.columns]
        if not found:
            return None
        (shared,) = found
        before = self.shared[: self.shared.index(shared)]
        first = len(self) + sum(s.occupied.size for s in before)
        part = groups.of_cell[first : first + shared.occupied.size]
        places = part.reshape(shared.occupied.shape)[self.codes]
        out = np.zeros((len(self.codes), len(groups)), np.float32)
        rows = np.arange(len(self.codes))
        for g in range(places.shape[1]):
            known = places[:, g] >= 0
            out[rows[known], places[known, g]] += shared.members[known, g]
        return out

    def correlations(self, groups: Groups, counts: BoolArray) -> FloatArray | None:
        """Correlations of the rates of groups that share rows; None where groups share none.

        A rate is ``sum_i a_ig e_i / sum_i a_ig`` with a_ig what row i weighs in group g and e_i
        its event. With events of equal variance the correlation of two rates is
        ``sum_i a_ig a_ih / sqrt(sum_i a_ig^2 sum_i a_ih^2)``, whatever that variance is.

        Parameters
        ----------
        groups : Groups
            From :meth:`groups_by`.
        counts : (n_cells,) bool
            The cells whose rows count towards the rate.
        """
        found = [s for s in self.shared if s.column.name in groups.columns]
        if not found or (pairs := found[0].pairs) is None:
            return None
        (shared,) = found
        before = self.shared[: self.shared.index(shared)]
        first = len(self) + sum(s.occupied.size for s in before)
        places = groups.of_cell[first : first + shared.occupied.size]
        places = places.reshape(shared.occupied.shape)[counts]
        width = len(groups) + 1  # the last place is that of no group
        total = np.zeros((width, width))
        np.add.at(total, (places[:, :, np.newaxis], places[:, np.newaxis, :]), pairs[counts])
        total = total[:-1, :-1]
        if not (total - np.diag(np.diag(total))).any():  # probabilities of 0 and 1
            return None
        scale = np.sqrt(np.maximum(np.diag(total), np.finfo(float).tiny))
        out: FloatArray = total / np.outer(scale, scale)
        np.fill_diagonal(out, 1.0)
        return out

    def rows_without_group(self) -> str:
        """How many rows have no group, by column, in words; empty if all rows have one.

        Examples
        --------
        >>> sex = SensitiveColumn("sex", np.array([0, 1, 1, -1], np.int32), ("F", "M"))
        >>> build_cells(np.array([0, 0, 1, 1], np.int32), [sex]).rows_without_group()
        '1 of 4 rows has no sex and counts in no group'
        """
        found = {name: int(self.counts[codes < 0].sum()) for name, codes in self.groups.items()}
        found |= {s.column.name: s.without_group for s in self.shared}
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
        if (known := self._crossed.get(columns)) is None:
            known = self._crossed[columns] = self._cross(columns)
        return known

    @cached_property
    def _crossed(self) -> dict[tuple[str, ...], Groups]:
        """Groups by columns: a fit asks for the same ones some twenty times."""
        return {}

    def _cross(self, columns: tuple[str, ...]) -> Groups:
        check_columns(columns, self.columns)
        every, own = self.all, len(self)
        if columns == EVERYONE:
            of_cell = np.full(len(every), -1, np.int32)
            of_cell[:own] = 0
            return Groups(EVERYONE, ((),), of_cell)
        shared = [s for s in self.shared if s.column.name in columns]
        check_one_shared(shared)
        by_cell = np.stack([every.groups[c] for c in columns], axis=1)
        known: BoolArray = np.asarray((by_cell >= 0).all(axis=1))
        if not shared:
            known[own:] = False  # the same rows again
        combinations, inverse = np.unique(by_cell[known], axis=0, return_inverse=True)
        values = self.values | {s.column.name: s.column.values for s in shared}
        names = [
            tuple(values[c][code] for c, code in zip(columns, row, strict=True))
            for row in combinations
        ]
        absent = self.left_out.get(columns, frozenset())
        kept = np.array([name not in absent for name in names], bool)
        of_cell = np.full(len(every), -1, np.int32)
        of_cell[known] = np.where(kept, np.cumsum(kept) - 1, -1)[inverse.reshape(-1)]
        facts = tuple(s.column.facts for s in shared if s.column.facts is not None)
        return Groups(columns, tuple(n for n in names if n not in absent), of_cell, facts)


def check_one_shared(shared: Sequence[SharedRows]) -> None:
    """Refuse to cross two columns whose rows belong to groups by weights."""
    if len(shared) > 1:
        named = " and ".join(repr(s.column.name) for s in shared)
        raise ConstraintError(
            f"a constraint crosses {named}, and rows belong to the groups of both by weights; "
            "how they belong to both at once is not known. Cross one of them with columns of "
            "observed groups, or compare each by itself"
        )


def check_columns(columns: Sequence[str], known: Sequence[str]) -> None:
    """Raise if a column is not among the sensitive features."""
    for column in columns:
        if column not in known:
            have = ", ".join(map(repr, known)) or "none"
            raise ConstraintError(
                f"a constraint names the column {str(column)!r}, which is not among the sensitive "
                f"features ({have}); pass it in sensitive_features, or correct by= or given="
                f"{did_you_mean(column, known)}"
            )


def build_cells(
    labels: IntArray, columns: Sequence[SensitiveColumn] = (), sample_weight: Weights | None = None
) -> Cells:
    """Sort rows into cells.

    Parameters
    ----------
    labels : (n,) int
        The position of each row's label; 0 or 1 where there are two.
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
    shared = [c for c in columns if c.is_soft]
    columns = [c for c in columns if not c.is_soft]
    codes: IntArray = labels.astype(np.int32)
    n_labels = max(2, 1 + int(codes.max())) if len(codes) else 2
    keys: IntArray = np.arange(n_labels, dtype=np.int32)[:, np.newaxis]
    for column in columns:  # splits every cell; only those that have rows are kept
        width = len(column.values) + 1  # code -1, a missing group, becomes 0
        joint = codes.astype(np.int64) * width + (column.codes + 1)
        if len(keys) * width > MANY_CELLS and len(keys) * width > len(joint):  # most are empty
            present, inverse = np.unique(joint, return_inverse=True)
            present, codes = on_host(present), inverse.astype(np.int32)
        else:
            occupied = count_by(joint, len(keys) * width) > 0
            codes = beside(np.cumsum(occupied, dtype=np.int32) - 1, joint)[joint]
            present = np.flatnonzero(occupied)
        keys = np.column_stack([keys[present // width], (present % width - 1).astype(np.int32)])
    codes = codes.astype(np.min_scalar_type(len(keys) - 1))  # a byte, as a rule; read every round
    groups = {c.name: keys[:, 1 + k] for k, c in enumerate(columns)}
    values = {c.name: c.values for c in columns}
    totals = totals_by_cell(codes, len(keys), sample_weight)
    parts = tuple(share_out(c, codes, len(keys), sample_weight) for c in shared)
    return Cells(codes, keys[:, 0], groups, values, *totals, shared=parts)


def totals_by_cell(
    codes: IntArray, n_cells: int, sample_weight: Weights | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, weight and squared weight of each cell, given the cell of each row."""
    counts = count_by(codes, n_cells)
    if sample_weight is None:
        return counts, counts, counts
    weights = count_by(codes, n_cells, sample_weight)
    return counts, weights, count_by(codes, n_cells, np.square(sample_weight, dtype=np.float64))
