"""From rows to tables: the rates of groups, and the gaps and ratios between them.

Rows are summed over cells once (:func:`tally`). Each set of groups to compare then merges cells
(:func:`compare`), and its tables follow from these few sums: rates through
:func:`fairboost.fairness.rates.group_sums`, their intervals from
:mod:`fairboost.metrics.intervals`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.data.cells import EVERYONE, Cells
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.fairness.rates import Rate, group_sums
from fairboost.metrics.intervals import (
    INTERVALS,
    bootstrap_weights,
    check_confidence,
    gap_interval,
    ratio_interval,
    smooth_decisions,
)

PRECISION = Rate("precision", 1, +1, "precision")
"""Share of positive decisions whose label is positive: the true positive rate with label and
decision swapped, see :meth:`Comparison.swapped`. Who counts depends on the decision, so it cannot
be constrained as rates are, and is not among :data:`fairboost.fairness.rates.RATES`."""


@dataclass(frozen=True)
class Comparison:
    """Groups to compare, and sums over their rows.

    Parameters
    ----------
    attribute : str
        The sensitive column, or the columns crossed; empty for everyone.
    names : tuple of str
        The groups.
    labels, groups : (n_cells,) int32
        Label and group of each cell, as :func:`fairboost.fairness.rates.group_sums` takes them.
    sums : (3, 2, n_cells) float64
        Rows, weight and squared weight, by decision (negative, positive) and cell.
    """

    attribute: str
    names: tuple[str, ...]
    labels: IntArray
    groups: IntArray
    sums: FloatArray

    def rate_table(self, rate: Rate, confidence: float, interval: str) -> pd.DataFrame:
        """One line per group: the rate, its interval and what it is made of."""
        events, (rows, counted, square) = self._group_sums(rate, self.sums)
        value = _quotient(events[1], counted)
        effective = np.nan_to_num(_quotient(counted**2, square))
        low, high = INTERVALS[interval](np.nan_to_num(value) * effective, effective, confidence)
        return pd.DataFrame(
            {
                "attribute": self.attribute,
                "group": list(self.names),
                "rate": rate.name,
                "value": value,
                "low": low,
                "high": high,
                "events": events[1],
                "counted": counted,
                "rows": rows.astype(np.int64),
            }
        )

    def gap_table(
        self, rates: Sequence[Rate], confidence: float, n_bootstrap: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """One line per rate: gap and ratio with intervals, lowest and highest group."""
        law = smooth_decisions(self.sums)  # or groups without events would never vary
        draws = bootstrap_weights(law.reshape(3, -1), n_bootstrap, rng)
        draws = draws.reshape(n_bootstrap, *self.sums.shape[1:])
        return pd.DataFrame([self._gap_line(rate, law, draws, confidence) for rate in rates])

    def swapped(self) -> Comparison:
        """Decisions take the place of labels, and labels that of decisions.

        Cells must be sorted by label, with the same groups for both, as from :func:`compare`.
        """
        by_label = self.sums.reshape(3, 2, 2, -1)  # decision, label, group
        return replace(self, sums=by_label.swapaxes(1, 2).reshape(self.sums.shape))

    def empty_groups(self, rate: Rate) -> list[str]:
        """Name the groups none of whose rows count towards a rate."""
        _, counted = self._group_sums(rate, self.sums[1:2])
        return [self.names[g] for g in np.flatnonzero(counted[0] == 0)]

    def _gap_line(
        self, rate: Rate, law: FloatArray, draws: FloatArray, confidence: float
    ) -> dict[str, str | float]:
        """Gap and ratio of a rate; ``law`` is what the sums in ``draws`` were drawn with."""
        events, (rows, counted, _) = self._group_sums(rate, self.sums)
        value = _quotient(events[1], counted)
        row = _quotient(counted, rows)  # weight of the mean row, the unit to smooth with
        gap, ratio = _gap_and_ratio(value)
        _, smoothed = _gap_and_ratio(_smoothed(events[1], counted, row))
        truth = _quotient(*self._group_sums(rate, law[1:2]))
        found = self._group_sums(rate, draws)
        errors = _quotient(*found) - truth
        gap_low, gap_high = gap_interval(gap, errors, confidence)
        errors = np.log(_smoothed(*found, row)) - np.log(truth)
        ratio_low, ratio_high = ratio_interval(ratio, smoothed, errors, confidence)
        several = not np.isnan(gap)
        return {
            "attribute": self.attribute,
            "rate": rate.name,
            "gap": gap,
            "gap_low": gap_low,
            "gap_high": gap_high,
            "ratio": ratio,
            "ratio_low": ratio_low,
            "ratio_high": ratio_high,
            "lowest_group": self.names[np.nanargmin(value)] if several else "",
            "highest_group": self.names[np.nanargmax(value)] if several else "",
        }

    def _group_sums(self, rate: Rate, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Events and weight that counts, (b, n_groups), for b sets of (2, n_cells) weights."""
        # One call for all sets: the groups of set i are numbered from i * n_groups.
        b, n_groups = len(weight), len(self.names)
        first = np.arange(b)[:, np.newaxis] * n_groups
        events, counted = group_sums(
            rate,
            np.tile(self.labels, b),
            np.where(self.groups >= 0, self.groups + first, -1).ravel().astype(np.int32),
            b * n_groups,
            weight.sum(axis=1).ravel(),
            weight[:, 1].ravel(),
        )
        return events.reshape(b, n_groups), counted.reshape(b, n_groups)


def compare_all(
    cells: Cells,
    positive: BoolArray,
    by: str | Sequence[str | Sequence[str]] | None,
    sample_weight: FloatArray | None,
) -> list[Comparison]:
    """Everyone first, then what ``by`` asks for: see :mod:`fairboost.metrics`."""
    return compare_sums(cells, tally(cells, positive, sample_weight), by)


def compare_sums(
    cells: Cells, sums: FloatArray, by: str | Sequence[str | Sequence[str]] | None
) -> list[Comparison]:
    """As :func:`compare_all`, from what :func:`tally` counted; rows are not looked at."""
    crossings = _columns_to_cross(by, list(cells.groups))
    return [compare(cells, sums, columns) for columns in (EVERYONE, *crossings)]


def tally(cells: Cells, positive: BoolArray, sample_weight: FloatArray | None) -> FloatArray:
    """Rows, weight and squared weight, by decision (negative, positive) and cell: (3, 2, n_cells).

    A row of weight 0 is not counted among the rows: it is left out.
    """
    category = cells.codes.astype(np.intp)  # bincount would convert at each call
    category += len(cells) * positive
    n = 2 * len(cells)
    if sample_weight is None:
        sums = [np.bincount(category, minlength=n)] * 3
    else:
        powers = (sample_weight > 0, sample_weight, sample_weight**2)
        sums = [np.bincount(category, power, n) for power in powers]
    return np.array(sums, np.float64).reshape(3, 2, len(cells))


def compare(cells: Cells, sums: FloatArray, columns: tuple[str, ...]) -> Comparison:
    """Merge cells until only the label and the groups made by some columns tell them apart.

    The bootstrap then draws as few categories as there can be, and what it says of these columns
    does not depend on which others were given.
    """
    groups = cells.groups_by(columns)
    width = len(groups) + 1  # group -1, missing, becomes 0
    merged = np.zeros((3, 2, 2 * width))
    for cell, target in enumerate(cells.labels * width + groups.of_cell + 1):
        merged[..., target] += sums[..., cell]
    names = [", ".join(map(str, values)) for values in groups.names]
    if len(set(names)) < len(names):  # 1 and "1"
        names = [", ".join(map(repr, values)) for values in groups.names]
    return Comparison(
        attribute=", ".join(columns),
        names=tuple(names) if columns else ("everyone",),
        labels=np.repeat(np.arange(2, dtype=np.int32), width),
        groups=np.tile(np.arange(-1, width - 1, dtype=np.int32), 2),
        sums=merged,
    )


def rate_table(
    compared: Sequence[Comparison], rates: Sequence[Rate], confidence: float, interval: str
) -> pd.DataFrame:
    """Every rate of every group of every comparison."""
    if interval not in INTERVALS:
        known = ", ".join(INTERVALS)
        raise InvalidInputError(f"unknown interval {interval!r}; expected one of {known}")
    tables = [
        seen.rate_table(rate, confidence, interval)
        for c in compared
        for seen, those in _seen_by(rates, c)
        for rate in those
    ]
    return pd.concat(tables, ignore_index=True)


def gap_table(
    compared: Sequence[Comparison],
    rates: Sequence[Rate],
    confidence: float,
    n_bootstrap: int,
    random_state: int | np.random.Generator | None,
) -> pd.DataFrame:
    """Gap and ratio of every rate in every comparison; warns of groups that cannot take part."""
    check_confidence(confidence)
    if n_bootstrap < 0:
        raise InvalidInputError(f"n_bootstrap must be at least 0 (none), found {n_bootstrap!r}")
    pairs = [pair for c in compared for pair in _seen_by(rates, c)]
    empty = [
        (c, rate, name) for c, those in pairs for rate in those for name in c.empty_groups(rate)
    ]
    if empty:
        listed = "; ".join(f"{c.attribute} = {name} ({rate.name})" for c, rate, name in empty)
        text = f"gap and ratio leave out groups none of whose rows count: {listed}"
        warnings.warn(text, FairnessWarning, stacklevel=3)
    # Each attribute starts from the seed, so that its figures do not depend on the others given.
    tables = [
        c.gap_table(those, confidence, n_bootstrap, np.random.default_rng(random_state))
        for c, those in pairs
    ]
    return pd.concat(tables, ignore_index=True)


def _seen_by(
    rates: Sequence[Rate], compared: Comparison
) -> Iterator[tuple[Comparison, list[Rate]]]:
    """The comparison as the rates see it, then as precision does."""
    if plain := [rate for rate in rates if rate != PRECISION]:
        yield compared, plain
    if PRECISION in rates:
        yield compared.swapped(), [PRECISION]


def _columns_to_cross(
    by: str | Sequence[str | Sequence[str]] | None, names: list[str]
) -> list[tuple[str, ...]]:
    """List the columns of each comparison that ``by`` asks for."""
    if not names:
        raise InvalidInputError("sensitive_features has no columns; pass the groups to compare")
    asked = names if by is None else by if isinstance(by, list) else [by]
    entries = [(e,) if isinstance(e, str) else tuple(e) for e in asked]
    for entry in entries or [()]:
        if not entry or len(set(entry)) < len(entry) or not set(entry) <= set(names):
            raise InvalidInputError(
                f"by={by!r} asks for {entry!r}; expected sensitive columns out of {names}, each "
                "once: 'a' for one, ('a', 'b') for a crossing, ['a', ('a', 'b')] for both"
            )
    return list(dict.fromkeys(entries))


def _quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    """``part / whole``; NaN where there is nothing to divide by."""
    result = np.full(whole.shape, np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _smoothed(events: FloatArray, counted: FloatArray, row: FloatArray) -> FloatArray:
    """Rates with half an event in one row more; NaN where no row counts."""
    return np.where(counted > 0, (events + row / 2) / (counted + row), np.nan)


def _gap_and_ratio(rates: FloatArray) -> tuple[float, float]:
    """Of the known ones among some rates; NaN without two of them, ratio 1 if all are 0."""
    known = rates[~np.isnan(rates)]
    if len(known) < 2:
        return np.nan, np.nan
    low, high = float(known.min()), float(known.max())
    return high - low, low / high if high > 0 else 1.0
