"""Decisions of a deployed model, counted by period, group and label, in batches.

The table may be larger than memory: one pass over it, and what is kept are counts. A label may be
missing, as of recent decisions of which nobody knows yet what came true.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairboost._text import did_you_mean
from fairboost._typing import BoolArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.tabular.audit import AuditedBatches, AuditRequest, ValueCoder
from fairboost.tabular.columns import as_text, converting, decoded
from fairboost.tabular.files import TableFile
from fairboost.tabular.period_names import in_order

RESOLUTIONS = ("day", "week", "month", "quarter", "year")
MOST_PERIODS = 400
UNKNOWN = 2
"""The code of a missing label."""


@dataclass(frozen=True)
class PeriodColumn:
    """The column that says in which period a row was decided.

    Parameters
    ----------
    name : str
        The column.
    resolution : str or None
        Of dates: "day", "week", "month", "quarter" or "year"; None where values are names of
        periods.
    """

    name: str
    resolution: str | None = None

    @classmethod
    def parse(cls, text: str, columns: list[str]) -> PeriodColumn:
        """Read ``COLUMN`` or ``COLUMN:RESOLUTION``, given the columns of the table."""
        name, colon, resolution = text.rpartition(":")
        if text in columns or not colon or resolution not in RESOLUTIONS:
            found = cls(text)
        else:
            found = cls(name, resolution)
        if found.name not in columns:
            like = [f"{c}:{text}" for c in columns if "date" in c.lower() or c.endswith("_at")]
            hint = f", such as --by {like[0]}" if like and text in RESOLUTIONS else ""
            raise InvalidInputError(
                f"--by {text!r}: there is no column {found.name!r}; name a column of periods, or "
                f"a column of dates with its resolution, --by COLUMN:month{hint}"
                f"{did_you_mean(found.name, columns)}"
            )
        return found


@dataclass(frozen=True)
class DecidedRows:
    """What to count.

    Parameters
    ----------
    by : PeriodColumn
        The periods.
    sensitive : tuple of str
        The sensitive columns.
    classes : tuple of two str
        The labels, the positive one last.
    label : str or None
        The column of labels, if there is one.
    score, decision : str or None
        The column of probabilities and that of decisions; at least one of them. Where there are
        both, decisions must be those of the threshold.
    threshold : float
        The probability from which on a decision is positive.
    """

    by: PeriodColumn
    sensitive: tuple[str, ...]
    classes: tuple[str, str]
    label: str | None
    score: str | None
    decision: str | None
    threshold: float


@dataclass(frozen=True, eq=False)
class CountedPeriods:
    """Rows by period, cell, label and decision.

    Parameters
    ----------
    periods : tuple of str
        In order, those without rows included where periods are of dates.
    cells : tuple of tuple of (str or None)
        Per cell, the group by each sensitive column.
    rows : (n_periods, n_cells, 3, 2) int64
        Rows; the last label is the missing one.
    undated, undecided : int
        Rows left out, since their period or their decision is missing.
    in_order_of_rows : bool
        Whether periods are in the order in which they occur, as their names say none.
    """

    periods: tuple[str, ...]
    cells: tuple[tuple[str | None, ...], ...]
    rows: IntArray
    undated: int
    undecided: int
    in_order_of_rows: bool


def count_periods(
    file: TableFile, asked: DecidedRows, advance: Callable[[], None] = lambda: None
) -> CountedPeriods:
    """Count the rows of a file.

    Parameters
    ----------
    file : TableFile
        The file.
    asked : DecidedRows
        What to count.
    advance : callable
        Called after each batch.
    """
    reader = _PeriodBatches(file, asked, advance)
    found: Counter[tuple[int, ...]] = Counter()
    for keys in reader.coded():
        values, counts = np.unique(keys, axis=0, return_counts=True)
        for key, n in zip(values.tolist(), counts.tolist(), strict=True):
            found[tuple(key)] += n
    if not found:
        raise InvalidInputError(
            f"no row of {str(file.path)!r} has both a period and a decision; {reader.undated:,} "
            f"rows have no {asked.by.name!r}, and {reader.undecided:,} no decision"
        )
    names, place, in_order = reader.periods({key[0] for key in found})
    groups = [dict(enumerate(coder.known)) for coder in reader.groups]
    cells = sorted({key[3:] for key in found})
    at = {cell: k for k, cell in enumerate(cells)}
    rows = np.zeros((len(names), len(cells), 3, 2), np.int64)
    for (period, label, decided, *cell), n in found.items():
        rows[place[period], at[tuple(cell)], label, decided] += n
    named = tuple(
        tuple(known.get(code) for known, code in zip(groups, cell, strict=True)) for cell in cells
    )
    return CountedPeriods(names, named, rows, reader.undated, reader.undecided, in_order)


class _PeriodBatches(AuditedBatches):
    """Batches of period, label, decision and groups, as codes."""

    def __init__(self, file: TableFile, asked: DecidedRows, advance: Callable[[], None]) -> None:
        request = AuditRequest(asked.label, asked.score or asked.decision or "", asked.sensitive)
        super().__init__(file, request, advance)
        self.asked = asked
        known = {name: k for k, name in enumerate(asked.classes)}
        self.labels = ValueCoder(asked.label or "", sys.maxsize, dict(known))
        self.decisions = ValueCoder(asked.decision or "", sys.maxsize, dict(known))
        self.names = ValueCoder(asked.by.name, sys.maxsize)
        self.undated = self.undecided = 0

    def coded(self) -> Iterator[IntArray]:
        """Per batch, a table of codes: period, label, decision, then groups."""
        text, asked = pa.dictionary(pa.int32(), pa.string()), self.asked
        texts = filter(None, [asked.label, asked.decision, *asked.sensitive])
        types: dict[str, Any] = dict.fromkeys(texts, text)
        types |= {} if asked.score is None else {asked.score: pa.float64()}
        types[asked.by.name] = text if asked.by.resolution is None else None
        before = 0
        for arrow in self.file.batches(types):
            period, dated = self._periods_of(arrow, before)
            decided, known = self._decided(arrow, before)
            labels = np.full(len(period), UNKNOWN)
            if asked.label is not None:
                codes = self.labels.codes(arrow.column(asked.label))
                self._check_values(self.labels, "label")
                labels = np.where(codes < 0, UNKNOWN, codes)
            kept = dated & known
            self.undated += int((~dated).sum())
            self.undecided += int((dated & ~known).sum())
            yield np.stack([period, labels, decided, *self.codes(arrow)], axis=1)[kept]
            before += arrow.num_rows
            self.advance()

    def _decided(self, arrow: Any, before: int) -> tuple[IntArray, BoolArray]:
        """Decisions as 0 and 1, and which rows have one."""
        asked, codes = self.asked, None
        if asked.decision is not None:
            codes = self.decisions.codes(arrow.column(asked.decision))
            self._check_values(self.decisions, "decision")
        if asked.score is None:
            assert codes is not None
            return np.maximum(codes, 0), codes >= 0
        scores = self.numbers(arrow, asked.score, before)
        if ((scores < 0) | (scores > 1)).any():
            row = int(((scores < 0) | (scores > 1)).argmax())
            raise InvalidInputError(
                f"the score {asked.score!r} is {scores[row]:g} at row {before + row + 1}, "
                "expected a probability, as `fairboost predict` writes it; name the column of "
                "decisions with --decision"
            )
        decided = (scores >= asked.threshold).astype(np.int64)
        if codes is not None and (other := (codes >= 0) & (codes != decided)).any():
            row = int(other.argmax())
            raise InvalidInputError(
                f"row {before + row + 1} has the score {scores[row]:g} and the decision "
                f"{asked.classes[codes[row]]!r}, and this model decides positively if the score "
                f"is at least {asked.threshold:g}: the table is of another model or threshold. "
                "Name the folder of that model; or pass --decision to use the decisions"
            )
        return decided, np.ones(len(decided), bool)

    def _check_values(self, coder: ValueCoder, what: str) -> None:
        """Refuse values that the model does not know."""
        if other := [v for v in coder.known if v not in self.asked.classes]:
            raise InvalidInputError(
                f"the {what} {coder.name!r} holds {other[0]!r}, and the model decides between "
                f"{self.asked.classes[0]!r} and {self.asked.classes[1]!r}; name the folder of the "
                f"model that the table is of, or another column with --{what}"
            )

    # Periods
    # -------------------------------------------------------------------

    def _periods_of(self, arrow: Any, before: int) -> tuple[IntArray, BoolArray]:
        """Numbers of periods, and which rows have one."""
        column, by = arrow.column(self.asked.by.name), self.asked.by
        if by.resolution is None:
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
                raise InvalidInputError(
                    f"the column {by.name!r} holds dates; say how long a period is, such as --by "
                    f"{by.name}:month ({', '.join(RESOLUTIONS)})"
                )
            codes = self.names.codes(column)
            self._check_number(len(self.names.known))
            return codes.astype(np.int64), codes >= 0
        days, known = _days(column, by.name, before)
        return period_of(days, by.resolution), known

    def _check_number(self, n: int) -> None:
        if n > MOST_PERIODS:
            raise InvalidInputError(
                f"--by {self.asked.by.name!r} has more than {MOST_PERIODS} periods; use longer "
                f"ones, such as --by {self.asked.by.name}:month of a column of dates"
            )

    def periods(self, found: set[int]) -> tuple[tuple[str, ...], dict[int, int], bool]:
        """Names of the periods in order, the place of each, and if the order is that of rows."""
        resolution = self.asked.by.resolution
        if resolution is not None:
            first, last = min(found), max(found)
            self._check_number(last - first + 1)
            numbers = range(first, last + 1)
            names = tuple(period_name(k, resolution) for k in numbers)
            return names, {k: place for place, k in enumerate(numbers)}, False
        known = {code: name for name, code in self.names.known.items() if code in found}
        codes = sorted(known)
        order = in_order([known[code] for code in codes], self.asked.by.name)
        codes = codes if order is None else [codes[place] for place in order]
        names = tuple(known[code] for code in codes)
        return names, {code: place for place, code in enumerate(codes)}, order is None


def _days(column: Any, name: str, before: int) -> tuple[IntArray, BoolArray]:
    """Days since 1970 of a column of dates, and which rows have one."""
    column = decoded(column)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        if getattr(column.type, "tz", None):
            column = pc.local_timestamp(column)
        days = pc.cast(pc.cast(column, pa.date32(), safe=False), pa.int32())
        known = np.asarray(pc.is_valid(days).to_numpy(zero_copy_only=False), bool)
        return pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64), known
    with converting(f"the column {name!r} must hold dates", "; name another with --by"):
        coded = pc.dictionary_encode(as_text(column))
    texts = coded.dictionary.to_pylist()
    indices = pc.fill_null(coded.indices, len(texts)).to_numpy(zero_copy_only=False)
    days = np.zeros(len(texts) + 1, np.int64)
    for k, text in enumerate(texts):
        try:
            whole = f"{text}-01" if re.fullmatch(r"\d{4}-\d{2}", text) else text
            days[k] = (datetime.fromisoformat(whole.strip()).date() - date(1970, 1, 1)).days
        except ValueError:
            row = before + int((indices == k).argmax()) + 1
            raise InvalidInputError(
                f"the column {name!r} is {text!r} at row {row}, expected a date such as "
                "2026-03-31; write dates as year, month and day, or name a column of periods"
            ) from None
    return days[indices], indices < len(texts)


def period_of(days: IntArray, resolution: str) -> IntArray:
    """The number of the period that a day falls in.

    Parameters
    ----------
    days : (n,) int
        Days since 1970.
    resolution : str
        How long a period is. Weeks start on Monday.

    Examples
    --------
    >>> [period_of(np.array([31, 59]), r).tolist() for r in ("week", "month", "quarter")]
    [[4, 8], [1, 2], [0, 0]]
    """
    if resolution == "day":
        return days
    if resolution == "week":
        return (days + 3) // 7
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months // {"month": 1, "quarter": 3, "year": 12}[resolution]


def period_name(number: int, resolution: str) -> str:
    """What a period is called.

    Examples
    --------
    >>> [period_name(675, "month"), period_name(225, "quarter"), period_name(2935, "week")]
    ['2026-04', '2026-Q2', '2026-W14']
    """
    if resolution in ("day", "week"):
        day = date(1970, 1, 1) + timedelta(days=number if resolution == "day" else 7 * number - 3)
        year, week, _ = day.isocalendar()
        return day.isoformat() if resolution == "day" else f"{year}-W{week:02}"
    year, part = divmod(number, {"month": 12, "quarter": 4, "year": 1}[resolution])
    return {
        "month": f"{1970 + year}-{part + 1:02}",
        "quarter": f"{1970 + year}-Q{part + 1}",
        "year": f"{1970 + year}",
    }[resolution]
