"""Rows counted by period, group, label and decision, and the rates that are watched in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.fairness.rates import PRECISION, RATES

Group: TypeAlias = tuple[str, ...]
UNKNOWN = 2
"""The place of rows without a label."""
SHARE, NO_GROUP = "share", "no known group"
"""Names of the share of a group among rows of known groups, and of the share of all other rows."""


@dataclass(frozen=True, eq=False)
class PeriodCounts:
    """Rows by period, cell (a combination of groups), label and decision.

    Parameters
    ----------
    periods : tuple of str
        Names of the periods, in order.
    columns : tuple of str
        The sensitive columns.
    cells : tuple of tuple of (str or None)
        Per cell, the group of each column; None where it is missing.
    rows : (n_periods, n_cells, 3, 2) int64
        Rows by label (negative, positive, unknown) and decision (negative, positive).
    """

    periods: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str | None, ...], ...]
    rows: IntArray

    def groups(self, columns: tuple[str, ...]) -> list[Group | None]:
        """Per cell, its group by some columns; None where one of them is missing."""
        at = [self.columns.index(name) for name in columns]
        found = []
        for cell in self.cells:
            group = tuple(value for k in at if (value := cell[k]) is not None)
            found.append(group if len(group) == len(at) else None)
        return found

    def unknown(self, column: str, known: tuple[Group, ...]) -> dict[str | None, int]:
        """Rows by groups of a column that are not among some known ones; None where missing."""
        found: dict[str | None, int] = {}
        rows = self.rows.sum(axis=(0, 2, 3)).tolist()
        for group, n in zip(self.groups((column,)), rows, strict=True):
            if n and group not in known:
                name = None if group is None else group[0]
                found[name] = found.get(name, 0) + n
        return found

    def by_period(self) -> IntArray:
        """Rows of each period."""
        out: IntArray = self.rows.sum(axis=(1, 2, 3))
        return out

    def labelled(self) -> IntArray:
        """Rows of each period that have a label."""
        out: IntArray = self.rows[:, :, :UNKNOWN].sum(axis=(1, 2, 3))
        return out


@dataclass(frozen=True)
class Series:
    """A rate, or the share, of a group over time; or the share of rows of no known group.

    Parameters
    ----------
    columns : tuple of str
        The columns whose groups are meant; empty for all rows.
    group : tuple of str
        The group; empty for all groups together that are known.
    rate : str
        Name of a rate, "precision", "share" or "no known group".
    known : tuple of tuple of str
        The groups that there are, by these columns.
    """

    columns: tuple[str, ...]
    group: Group
    rate: str
    known: tuple[Group, ...] = ()

    @property
    def attribute(self) -> str:
        """The columns in words."""
        return ", ".join(self.columns)

    @property
    def name(self) -> str:
        """The group in words."""
        if not self.columns:
            return "everyone"
        if self.rate == NO_GROUP:
            return f"{NO_GROUP} of {self.attribute}"
        if not self.group:
            return f"all known groups of {self.attribute}"
        return ", ".join(f"{c}={g}" for c, g in zip(self.columns, self.group, strict=True))

    @property
    def title(self) -> str:
        """The rate in words."""
        if self.rate in (SHARE, NO_GROUP):
            return "share of rows"
        return PRECISION.title if self.rate == PRECISION.name else RATES[self.rate].title

    @property
    def text(self) -> str:
        """The rate and the group in words."""
        return f"{self.title} of {self.name}" if self.columns else f"overall {self.title}"

    @property
    def needs_label(self) -> bool:
        """Whether the rate is of rows whose label is known."""
        if self.rate in RATES:
            return RATES[self.rate].label is not None
        return self.rate == PRECISION.name

    def count(self, counts: PeriodCounts) -> tuple[FloatArray, FloatArray]:
        """Events and eligible rows, by period."""
        of_cell = counts.groups(self.columns)
        known = np.array([not self.columns or g in self.known for g in of_cell], bool)
        mine = known & np.array([not self.group or g == self.group for g in of_cell], bool)
        if self.rate == SHARE:
            events, total = (counts.rows[:, cells].sum(axis=(1, 2, 3)) for cells in (mine, known))
        elif self.rate == NO_GROUP:
            events, total = counts.rows[:, ~known].sum(axis=(1, 2, 3)), counts.by_period()
        else:
            by_label = counts.rows[:, mine].sum(axis=1)
            events, total = _events(self.rate, by_label)
        return events.astype(np.float64), total.astype(np.float64)


def _events(rate: str, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Events and eligible rows, from rows by period, label and decision."""
    if rate == PRECISION.name:
        return rows[:, 1, 1], rows[:, :UNKNOWN, 1].sum(axis=1)
    found = RATES[rate]
    labels = [0, 1, UNKNOWN] if found.label is None else [found.label]
    counted = rows[:, labels].sum(axis=1)
    return counted[:, int(found.direction > 0)], counted.sum(axis=1)
