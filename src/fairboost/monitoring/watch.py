"""Watch rates over time: bands, verdicts per period, alarms.

Of every series there are bands of rows since the first period, and of rows since each later
period (:mod:`fairboost.monitoring.sequences`), and so there are of the difference of every two
groups between which a gap is limited. All of them, and the intervals of the rows of training, hold
at once with the confidence asked for. Every verdict and every alarm follows from
them, so a false one occurs at some look with a probability of at most 1 less the confidence.

An alarm is one of three:

* a figure is certainly beyond its limit, in all rows since some period;
* a rate or the share of a group has certainly moved by more than is allowed: its band since some
  period lies beyond that of the rows before, or beyond the interval of the rows of training;
* the rows cannot be judged as those of training were: a constraint has no rows to judge by, a
  group has certainly vanished, whatever is allowed, or more rows than in training are certainly in
  no known group.

Where there is no alarm, the rows may be too few to show one. :attr:`PeriodVerdict.alarm_at` says
what they could have shown (:mod:`fairboost.monitoring.reach`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.metrics.intervals import check_confidence, clopper_pearson
from fairboost.monitoring.checks import ROUNDING, Check, Differences
from fairboost.monitoring.counts import NO_GROUP, SHARE, PeriodCounts, Series
from fairboost.monitoring.reach import alarm_at
from fairboost.monitoring.sequences import confidence_sequence, difference_sequence, spend
from fairboost.verdicts.verdict import status_of

LATEST = 36
"""At each look, sequences that started so many periods ago or less are read, beside the first."""

NO_ROWS = "no rows to judge by"
"""The verdict where fewer groups have eligible rows than a comparison takes."""
NAMED = 3
"""Unknown groups that an alarm names."""

AlarmKind: TypeAlias = Literal["constraint", "operating point", "change", "rows"]
Raised: TypeAlias = tuple[int, "Alarm"]
"""An alarm, and the look at which it was raised."""
Beyond: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""By how much a change and the ends of its interval are beyond what is normal."""
State: TypeAlias = Literal["alarm", "not certain", "met", "no alarm"]


@dataclass(frozen=True, eq=False)
class Bands:
    """Rates of all series, by look and by the period that rows are counted from.

    Parameters
    ----------
    value, low, high, rows : (n_series, n_periods, n_slots) float64
        Slot 0 has all rows up to the look, slot 1 + l those since l periods before it. NaN (0
        rows) where there are none, or the slot would reach back to the first period.
    spent : (n_periods, n_slots) float64
        What each of them may fail with.
    apart : tuple of mapping
        Per check, the bands of differences that it reads; (n_periods, n_slots) each.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    rows: FloatArray
    spent: FloatArray
    apart: tuple[Differences, ...] = ()

    def rows_of(self, lines: list[int], slot: int) -> tuple[FloatArray, FloatArray, float]:
        """Events and rows of some series at the last look, and what their bands may fail with."""
        value, rows = (x[lines, -1, slot] for x in (self.value, self.rows))
        return np.nan_to_num(value) * rows, rows, float(self.spent[-1, slot])


@dataclass(frozen=True)
class PeriodVerdict:
    """A check at a period.

    Parameters
    ----------
    check : int
        Number of the check.
    period : int
        Number of the period.
    so_far : bool
        Whether it is about all rows up to the period; else about those of the period alone.
    value, low, high : float
        The figure and its interval; NaN where it cannot be had.
    status : str
        The verdict.
    alarm_at : float
        At the last period, the figure closest to the limit that would have raised an alarm with
        these rows; NaN if none would have.
    """

    check: int
    period: int
    so_far: bool
    value: float
    low: float
    high: float
    status: str
    alarm_at: float = np.nan


@dataclass(frozen=True)
class Alarm:
    """What certainly is not as it should be.

    Parameters
    ----------
    kind : {"constraint", "operating point", "change", "rows"}
        What it is about; "rows" that cannot be judged as those of training were.
    about : str
        The constraint or the series, in words.
    against : str
        What the figure was held against: a limit, the rows of training, or earlier rows. Of a
        constraint without rows, which rows there are none of.
    raised : str
        The period at the end of which it was raised first.
    since : str
        The first period of the rows that show it.
    value, low, high : float
        The figure in these rows at that look, and its interval; of a change the difference; NaN
        without rows.
    now : bool
        Whether it still stands at the last period.
    """

    kind: AlarmKind
    about: str
    against: str
    raised: str
    since: str
    value: float
    low: float
    high: float
    now: bool


@dataclass(frozen=True)
class TrainingRate:
    """A rate on the test rows of training: the rate, and the eligible rows."""

    value: float
    rows: float


@dataclass(frozen=True, eq=False)
class Watched:
    """What monitoring found.

    Parameters
    ----------
    counts : PeriodCounts
        The rows.
    confidence : float
        That everything below holds at once.
    max_change : float
        What a rate or share may move by.
    series : tuple of Series
        What was watched.
    bands : Bands
        Their rates.
    reference : (n_series, 3) float64
        Rates on the test rows of training, and their intervals; NaN where there are none.
    checks : tuple of Check
        What was held to limits.
    verdicts : tuple of PeriodVerdict
        Per check and period, of all rows so far and of the period alone.
    alarms : tuple of Alarm
        In the order in which they were raised.
    left : tuple of str
        Constraints that are not watched, in words.
    """

    counts: PeriodCounts
    confidence: float
    max_change: float
    series: tuple[Series, ...]
    bands: Bands
    reference: FloatArray
    checks: tuple[Check, ...]
    verdicts: tuple[PeriodVerdict, ...]
    alarms: tuple[Alarm, ...] = field(default=())
    left: tuple[str, ...] = ()

    @property
    def standing(self) -> tuple[Alarm, ...]:
        """Alarms that still stand at the last period."""
        return tuple(alarm for alarm in self.alarms if alarm.now)

    @property
    def last(self) -> tuple[PeriodVerdict, ...]:
        """Verdicts on all rows up to the last period."""
        end = len(self.counts.periods) - 1
        return tuple(v for v in self.verdicts if v.period == end and v.so_far)

    @property
    def open(self) -> tuple[PeriodVerdict, ...]:
        """Those of them that leave a doubt: not certain, or without some of the groups."""
        return tuple(
            v
            for v in self.last
            if v.status.endswith("not certain")
            or (v.status == "met" and self.absent(self.checks[v.check].series))
        )

    @property
    def state(self) -> State:
        """The state of the headline; "no alarm" where nothing is held to a limit."""
        if self.standing:
            return "alarm"
        if self.open or self.left:
            return "not certain"
        return "met" if self.checks else "no alarm"

    def absent(self, series: Sequence[Series]) -> list[str]:
        """Names of those of some series of which there are no eligible rows so far."""
        rows = self.bands.rows[[self.series.index(s) for s in series], -1, 0]
        return [s.name for s, n in zip(series, rows, strict=True) if not n]


def watch(
    counts: PeriodCounts,
    checks: Sequence[Check],
    more: Sequence[Series] = (),
    reference: Mapping[Series, TrainingRate] | None = None,
    *,
    confidence: float = 0.95,
    max_change: float = 0.0,
    left: Sequence[str] = (),
) -> Watched:
    """Watch rates over time.

    Parameters
    ----------
    counts : PeriodCounts
        The rows.
    checks : sequence of Check
        What is held to limits.
    more : sequence of Series
        Further rates and shares, of which changes are looked for.
    reference : mapping of Series to TrainingRate, optional
        Rates on the test rows of training.
    confidence : float
        That everything holds at once, at all looks.
    max_change : float
        What a rate or share may move by without an alarm.
    left : sequence of str
        Constraints that are not watched, in words.
    """
    alpha = 1.0 - check_confidence(confidence)
    series = tuple(dict.fromkeys([*(s for c in checks for s in c.series), *more]))
    places = {s: k for k, s in enumerate(series)}
    lines = [[places[s] for s in check.series] for check in checks]
    bands = _bands(series, counts, alpha, list(zip(checks, lines, strict=True)))
    known = _reference(series, reference or {}, alpha)
    verdicts: list[PeriodVerdict] = []
    alarms: list[Raised] = []
    for k, check in enumerate(checks):
        figure = _figures(check, bands, lines[k], bands.apart[k])
        seen_from = [alarm_at(check, *bands.rows_of(lines[k], slot)) for slot in (0, 1)]
        verdicts += _verdicts(k, check, figure, seen_from)
        alarms += _alarm_of_check(check, figure, counts)
    for k, one in enumerate(series):
        alarms += _alarm_of_change(one, k, bands, known[k], counts, max_change)
    raised = tuple(alarm for _, alarm in sorted(alarms, key=lambda pair: pair[0]))
    judged = tuple(checks), tuple(verdicts), raised, tuple(left)
    return Watched(counts, confidence, max_change, series, bands, known, *judged)


def start_of(look: IntArray | int, slot: IntArray | int) -> IntArray:
    """The first period of a slot at a look; -1 where there is no such slot."""
    look, slot = np.broadcast_arrays(look, slot)
    start = np.where(slot == 0, 0, look - slot + 1)
    first = (slot == 0) | (start > 0) | ((look == 0) & (slot == 1))
    return np.where(first, start, -1)


def _bands(
    series: Sequence[Series],
    counts: PeriodCounts,
    alpha: float,
    checks: Sequence[tuple[Check, list[int]]],
) -> Bands:
    """Bands of all series, and of differences that checks read, at all looks and of all slots."""
    n = len(counts.periods)
    looks, slots = np.indices((n, min(n, LATEST) + 1))
    start = start_of(looks, slots)
    shape = (len(series), *looks.shape)
    events, rows = np.zeros(shape), np.zeros(shape)
    for k, one in enumerate(series):
        for out, by_period in zip((events, rows), one.count(counts), strict=True):
            so_far = np.concatenate([[0.0], np.cumsum(by_period)])
            out[k] = np.where(start >= 0, so_far[looks + 1] - so_far[np.maximum(start, 0)], 0.0)
    watched = len(series) + sum(bool(check.pairs) for check, _ in checks)
    each = spend(alpha, max(watched, 1), np.maximum(start, 0))
    low, high = confidence_sequence(events, rows, np.broadcast_to(each, shape))
    none = rows == 0
    with np.errstate(invalid="ignore"):
        value = np.where(none, np.nan, events / np.maximum(rows, 1.0))
    apart = tuple(_differences(check, at, events, rows, each) for check, at in checks)
    low, high = (np.where(none, np.nan, end) for end in (low, high))
    return Bands(value, low, high, rows, each, apart)


def _differences(
    check: Check, at: list[int], events: FloatArray, rows: FloatArray, each: FloatArray
) -> Differences:
    """Bands of the differences that a check reads. Its pairs share the alpha of one series."""
    found = {}
    for g, h in check.pairs:
        one, other = at[g], at[h]
        counted = events[one], rows[one], events[other], rows[other]
        low, high = difference_sequence(*counted, each / len(check.pairs))
        none = (rows[one] == 0) | (rows[other] == 0)
        found[g, h] = np.where(none, np.nan, low), np.where(none, np.nan, high)
    return found


def _reference(
    series: Sequence[Series], reference: Mapping[Series, TrainingRate], alpha: float
) -> FloatArray:
    """Rates of training with intervals that hold beside the bands."""
    out = np.full((len(series), 3), np.nan)
    for k, one in enumerate(series):
        found = reference.get(one)
        if found is not None and found.rows > 0:
            events = min(round(found.value * found.rows), found.rows)
            sure = 1.0 - alpha / (4 * len(series))
            low, high = clopper_pearson(events, found.rows, sure)
            out[k] = found.value, float(low), float(high)
    return out


def _figures(
    check: Check, bands: Bands, lines: list[int], apart: Differences
) -> tuple[FloatArray, ...]:
    """Figure, low and high of a check: (n_periods, n_slots) each."""
    shape = bands.value.shape[1:]
    value, low, high = (
        x[lines].reshape(len(lines), -1) for x in (bands.value, bands.low, bands.high)
    )
    pairs = {pair: (low.ravel(), high.ravel()) for pair, (low, high) in apart.items()}
    return tuple(x.reshape(shape) for x in check.figure(value, low, high, pairs))


def _verdicts(
    k: int, check: Check, figure: tuple[FloatArray, ...], seen_from: Sequence[float]
) -> list[PeriodVerdict]:
    out, last = [], len(figure[0]) - 1
    for period in range(last + 1):
        for slot, so_far in ((0, True), (1, False)):
            value, low, high = (float(x[period, slot]) for x in figure)
            status = _status(check, value, low, high)
            seen = seen_from[slot] if period == last else np.nan
            out.append(PeriodVerdict(k, period, so_far, value, low, high, status, seen))
    return out


def _status(check: Check, value: float, low: float, high: float) -> str:
    if np.isnan(value):
        return NO_ROWS
    if check.at_least:
        return status_of(-value, -high, -low, -check.limit)
    return status_of(value, low, high, check.limit)


def _alarm_of_check(
    check: Check, figure: tuple[FloatArray, ...], counts: PeriodCounts
) -> list[Raised]:
    periods = counts.periods
    if np.isnan(figure[0][-1, 0]):
        said = "fewer than two known groups have" if check.strata else "there are no"
        unlabelled = check.series[0].needs_label and not counts.labelled().any()
        said += " eligible rows" + ": no row has a label" * unlabelled
        begun, none = periods[0], np.nan
        return [(0, Alarm("rows", check.text, said, begun, begun, none, none, none, now=True))]
    found = _first(check.beyond(*figure[1:]), 0.0)
    if found is None:
        return []
    look, slot, now = found
    value, least, most = (float(x[look, slot]) for x in figure)
    side = "at least" if check.at_least else "at most"
    start = int(start_of(look, slot))
    against = f"{check.measure} {side} {check.limit:g}"
    where = check.kind, check.text, against, periods[look], periods[start]
    return [(look, Alarm(*where, value, least, most, now))]


def _alarm_of_change(
    one: Series,
    k: int,
    bands: Bands,
    reference: FloatArray,
    counts: PeriodCounts,
    max_change: float,
) -> list[Raised]:
    """Changes of a series: against the rows before, and against those of training.

    A group that has vanished is an alarm whatever change is allowed. A share of rows of no known
    group may fall, and what it was in training is held to be normal.
    """
    value, low, high = bands.value[k], bands.low[k], bands.high[k]
    looks, slots = np.indices(value.shape)
    start = start_of(looks, slots)
    before = np.maximum(start - 1, 0)
    later = start > 0
    earlier = tuple(np.where(later, x[:, 0][before], np.nan) for x in (value, low, high))
    trained = tuple(np.broadcast_to(x, value.shape) for x in reference)
    moves = {
        against: (value - base[0], low - base[2], high - base[1])
        for against, base in (("earlier periods", earlier), ("test rows of training", trained))
    }

    def alarms(kind: AlarmKind, about: str, beyond: Beyond, allowed: float) -> list[Raised]:
        out = []
        for against, moved in moves.items():
            if (found := _first(beyond(*moved), allowed)) is not None:
                look, slot, now = found
                since = counts.periods[int(start[look, slot])]
                size, least, most = (float(x[look, slot]) for x in moved)
                where = kind, about, against, counts.periods[look], since
                out.append((look, Alarm(*where, size, least, most, now)))
        return out

    if one.rate == NO_GROUP:
        if np.isfinite(reference[0]):
            del moves["earlier periods"]
        unknown = counts.unknown(one.columns[0], one.known)
        names = ["missing" if name is None else repr(name) for name in unknown]
        shown = ", ".join(names[:NAMED] + ["..."] * (len(names) > NAMED))
        return alarms("rows", f"{one.text} ({shown})", lambda _, least, __: least, max_change)
    gone: list[Raised] = []
    if one.rate == SHARE:
        none = np.where(value == 0, 0.0, np.nan)
        gone = alarms("rows", f"rows of {one.name}", lambda _, __, most: none - most, 0.0)
    if still := [raised for raised in gone if raised[1].now]:
        return still[:1]  # this is no further change of its share
    moved = alarms("change", one.text, lambda _, least, most: np.fmax(least, -most), max_change)
    return gone[:1] + moved


def _first(beyond: FloatArray, allowed: float) -> tuple[int, int, bool] | None:
    """The first look at which something is further beyond than allowed, where most, and if still.

    Parameters
    ----------
    beyond : (n_periods, n_slots) float64
        By how much; NaN where there is nothing to say.
    allowed : float
        What is no alarm; of limits, rounding is none either.
    """
    sure: BoolArray = np.nan_to_num(beyond, nan=-np.inf) > allowed + ROUNDING
    looks = np.flatnonzero(sure.any(axis=1))
    if not len(looks):
        return None
    look = int(looks[0])
    slot = int(np.nanargmax(beyond[look]))
    return look, slot, bool(sure[-1].any())
