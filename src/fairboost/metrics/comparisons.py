"""From rows to tables: the rates of groups, and the gaps and ratios between them.

Rows are summed over cells once (:func:`tally`). Each set of groups to compare then merges cells
(:func:`compare`), and its tables follow from these few sums: rates through
:func:`fairboost.fairness.rates.group_sums`, their intervals from
:mod:`fairboost.metrics.intervals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost._warnings import warn
from fairboost.data.cells import EVERYONE, Cells, Groups
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.fairness.rates import PRECISION, Rate
from fairboost.metrics import intervals
from fairboost.metrics.sampling import ShareLaw, judge_gap
from fairboost.metrics.sums import (
    check_crossings,
    crossing_name,
    group_names,
    group_sums_of_sets,
    quotient,
    weight_sums,
)

GAP_COLUMNS = ["attribute", "rate", "gap", "gap_low", "gap_high"]
GAP_COLUMNS += ["ratio", "ratio_low", "ratio_high", "lowest_group", "highest_group"]


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
    correlations : tuple of (n_groups, n_groups) float64
        Of rates of the rows of label 0, of label 1 and of all rows, where groups share rows; else
        empty. Those of a precision are taken to be those of all rows.
    """

    attribute: str
    names: tuple[str, ...]
    labels: IntArray
    groups: IntArray
    sums: FloatArray
    correlations: tuple[FloatArray, ...] = ()

    def rate_table(self, rate: Rate, confidence: float, interval: str) -> pd.DataFrame:
        """One line per group: the rate, its interval and what it is made of."""
        events, (rows, counted, square) = self._group_sums(rate, self.sums)
        value = quotient(events[1], counted)
        effective = np.nan_to_num(quotient(counted**2, square))
        low, high = intervals.INTERVALS[interval](
            np.nan_to_num(value) * effective, effective, confidence
        )
        line = {"attribute": self.attribute, "group": list(self.names), "rate": rate.name}
        figures = {"value": value, "low": low, "high": high, "events": events[1]}
        figures |= {"counted": counted, "rows": rows.astype(np.int64)}
        return pd.DataFrame(line | figures)

    def gap_table(
        self, rates: Sequence[Rate], confidence: float, min_group_rows: int = 0
    ) -> pd.DataFrame:
        """One line per rate: gap and ratio with intervals, lowest and highest group."""
        lines = [self._gap_line(rate, confidence, min_group_rows) for rate in rates]
        return pd.DataFrame(lines, columns=GAP_COLUMNS)

    def swapped(self) -> Comparison:
        """Decisions take the place of labels, and labels that of decisions.

        Cells must be sorted by label, with the same groups for both, as from :func:`compare`.
        """
        by_label = self.sums.reshape(3, 2, 2, -1)  # decision, label, group
        swapped = by_label.swapaxes(1, 2).reshape(self.sums.shape)
        return replace(self, sums=swapped, correlations=self.correlations[-1:] * 3)

    def empty_groups(self, rate: Rate) -> list[str]:
        """Name the groups none of whose rows count towards a rate."""
        _, counted = self._group_sums(rate, self.sums[1:2])
        return [self.names[g] for g in np.flatnonzero(counted[0] == 0)]

    def _gap_line(self, rate: Rate, confidence: float, min_group_rows: int) -> list[str | float]:
        """Gap and ratio of a rate."""
        events, (rows, counted, square) = self._group_sums(rate, self.sums)
        value = quotient(events[1], counted)
        value[rows < min_group_rows] = np.nan
        known = np.flatnonzero(~np.isnan(value))
        if len(known) < 2:
            return [self.attribute, rate.name, *[np.nan] * 6, "", ""]
        law = ShareLaw()
        if self.correlations:
            law = ShareLaw(self.correlations[2 if rate.label is None else rate.label]).at(known)
        r, n = np.clip(value[known], 0.0, 1.0), quotient(counted**2, square)[known]
        gap = judge_gap(r, n, confidence, law)
        low, high = intervals.ratio_interval(
            r, lambda level: law.ends(r, n, level), confidence, correlations=law.shared
        )
        ratio = float(r.min() / r.max()) if r.max() > 0 else np.nan  # 0 / 0 is no ratio
        ratios = ratio, float(np.minimum(low, ratio)), float(np.maximum(high, ratio))
        extremes = [self.names[known[find(r)]] for find in (np.argmin, np.argmax)]
        return [self.attribute, rate.name, *gap, *ratios, *extremes]

    def _group_sums(self, rate: Rate, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Events and weight that counts, (b, n_groups), for b sets of (2, n_cells) weights."""
        cells = self.labels, self.groups, len(self.names)
        return group_sums_of_sets(rate, *cells, weight.sum(axis=1), weight[:, 1])


LEFT_OUT = "gaps and ratios leave out groups"
"""The beginning of a warning, which is left out where all groups are shown in a table."""

Pairs: TypeAlias = Sequence[tuple[Comparison, list[Rate]]]
"""Comparisons, each with the rates that are asked of it."""


def compare_sums(
    cells: Cells, sums: FloatArray, by: str | Sequence[str | Sequence[str]] | None
) -> list[Comparison]:
    """Everyone first, then what ``by`` asks for (see :mod:`fairboost.metrics`), from a tally."""
    crossings = crossings_of(by, cells.columns)
    return [compare(cells, sums, columns) for columns in crossings]


def crossings_of(
    by: str | Sequence[str | Sequence[str]] | None, names: list[str]
) -> list[tuple[str, ...]]:
    """Everyone first, then what ``by`` asks for of the sensitive columns of some names."""
    if not names:
        raise InvalidInputError("sensitive_features has no columns; pass the groups to compare")
    asked = names if by is None else by if isinstance(by, list) else [by]
    crossings = [(e,) if isinstance(e, str) else tuple(e) for e in asked]
    for crossing in crossings or [()]:
        if not crossing or len(set(crossing)) < len(crossing) or not set(crossing) <= set(names):
            raise InvalidInputError(
                f"by={by!r} asks for {crossing!r}; expected sensitive columns out of {names}, "
                "each once: 'a' for one, ('a', 'b') for a crossing, ['a', ('a', 'b')] for both"
            )
    check_crossings(crossings)
    return list(dict.fromkeys([EVERYONE, *crossings]))


def tally(cells: Cells, positive: BoolArray, sample_weight: FloatArray | None) -> FloatArray:
    """Rows, weight and squared weight, by decision (negative, positive) and cell, (3, 2, n)."""
    category = cells.codes.astype(np.intp)  # bincount would convert at each call
    category += len(cells) * positive
    sums = weight_sums(category, sample_weight, 2 * len(cells)).reshape(3, 2, len(cells))
    if not cells.shared:
        return sums
    return np.concatenate([sums, _tally_of_parts(cells, positive, sample_weight)], axis=2)


def _tally_of_parts(
    cells: Cells, positive: BoolArray, sample_weight: FloatArray | None
) -> FloatArray:
    """The same of parts of cells in groups that rows belong to by weights.

    Of rows and squared weights only the sums over both decisions are meant.
    """
    every, first = cells.all, len(cells)
    events = cells.shared_weight_of(positive, sample_weight)
    totals = np.stack([every.counts, every.weights, every.squares])[:, first:]
    out = np.stack([totals, np.zeros_like(totals)], axis=1)
    out[1, 1] = events
    out[1, 0] -= events
    return out


def compare(cells: Cells, sums: FloatArray, columns: tuple[str, ...]) -> Comparison:
    """Merge cells until only the label and the groups made by some columns tell them apart.

    What is said of these columns then does not depend on which others were given.
    """
    groups = cells.groups_by(columns)
    width = len(groups) + 1  # group -1, missing, becomes 0
    merged = np.zeros((3, 2, 2 * width))
    np.add.at(merged.T, cells.all.labels * width + groups.of_cell + 1, sums.T)
    if groups.facts:
        merged = _as_whole_rows(merged)
    return Comparison(
        attribute=crossing_name(columns),
        names=group_names(groups),
        labels=np.repeat(np.arange(2, dtype=np.int32), width),
        groups=np.tile(np.arange(-1, width - 1, dtype=np.int32), 2),
        sums=merged,
        correlations=_correlations(cells, groups),
    )


def _correlations(cells: Cells, groups: Groups) -> tuple[FloatArray, ...]:
    """Of rates of each label and of all rows, where groups share rows."""
    of_label = [cells.labels == 0, cells.labels == 1, np.ones(len(cells), bool)]
    found = (cells.correlations(groups, counts) for counts in of_label)
    return tuple(c for c in found if c is not None)


def _as_whole_rows(sums: FloatArray) -> FloatArray:
    """Sums of whole rows that have the same rates, and tell as much about them.

    Of rows that belong to groups by weights: as many rows of equal weight as Kish's effective
    number. Rates that were corrected may be out of range by chance, and are cut off there.
    """
    _, weight, squares = sums.sum(axis=1)
    share = np.clip(quotient(sums[1, 1], weight), 0.0, 1.0)
    share = np.stack([1.0 - share, share])
    rows = np.nan_to_num(quotient(weight**2, squares))
    whole = np.stack([rows, np.maximum(weight, 0.0), squares])[:, np.newaxis]
    return np.nan_to_num(whole * share)


def rate_table(
    compared: Sequence[Comparison], rates: Sequence[Rate], confidence: float, interval: str
) -> pd.DataFrame:
    """Every rate of every group of every comparison."""
    return rates_of(_as_read_by(rates, compared), confidence, interval)


def rates_of(pairs: Pairs, confidence: float, interval: str) -> pd.DataFrame:
    """Of every comparison the rates that are asked of it, group by group."""
    if interval not in intervals.INTERVALS:
        known = ", ".join(intervals.INTERVALS)
        raise InvalidInputError(f"unknown interval {interval!r}; expected one of {known}")
    tables = [c.rate_table(rate, confidence, interval) for c, those in pairs for rate in those]
    return pd.concat(tables, ignore_index=True)


def gap_table(
    compared: Sequence[Comparison],
    rates: Sequence[Rate],
    confidence: float,
    min_group_rows: int = 0,
) -> pd.DataFrame:
    """Gap and ratio of every rate in every comparison; warns of groups that cannot take part."""
    pairs = _as_read_by(rates, compared)
    warn_of_empty(pairs)
    return gaps_of(pairs, confidence, min_group_rows)


def gaps_of(pairs: Pairs, confidence: float, min_group_rows: int = 0) -> pd.DataFrame:
    """Of every comparison gap and ratio of the rates that are asked of it."""
    intervals.check_confidence(confidence)
    tables = [c.gap_table(those, confidence, min_group_rows) for c, those in pairs]
    return pd.concat(tables, ignore_index=True)


def not_compared(named: Iterable[str], least: int) -> str:
    """The groups that are shown and not compared, in a sentence; empty if there are none."""
    listed = "; ".join(named)
    said = f"Not compared, because fewer than {least} rows count: {listed}. To compare them, pass"
    return f"{said} a smaller min_group_rows." if listed else ""


def warn_of_empty(pairs: Pairs) -> None:
    """Name the groups none of whose rows count towards a rate."""
    empty = [
        (c, rate, name) for c, those in pairs for rate in those for name in c.empty_groups(rate)
    ]
    if empty:
        listed = "; ".join(f"{c.attribute} = {name} ({rate.name})" for c, rate, name in empty)
        warn(f"{LEFT_OUT} without a row for the rate: {listed}", FairnessWarning)


def _as_read_by(
    rates: Sequence[Rate], compared: Sequence[Comparison]
) -> list[tuple[Comparison, list[Rate]]]:
    """Each comparison as the rates read it, then as precision does."""
    plain = [rate for rate in rates if rate != PRECISION]
    swapped = [PRECISION] if PRECISION in rates else []
    pairs = [pair for c in compared for pair in ((c, plain), (c.swapped(), swapped))]
    return [(c, those) for c, those in pairs if those]
