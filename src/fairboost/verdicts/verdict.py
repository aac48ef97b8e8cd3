"""Whether a constraint is met: the figure held to a limit, its interval, and what to say of it.

Two facts make a verdict (:func:`status_of`): whether the figure is within its limit, and whether
its whole interval lies on the same side, so that new people will hardly say otherwise. Only *met*
and *not met* are certain. The interval is the one that tables print of the same figure.

Nothing is *met* by decisions that say nothing about anyone: rates are equal where everyone, or no
one, is decided positively.

Intervals of gaps and ratios follow from those of groups (:mod:`fairboost.metrics.intervals`), and
those from the sampling law of shares, or of means (:mod:`fairboost.metrics.sampling`). Given a
column, the gap is the largest of those within its values. Rows of different strata are drawn
independently, so the low ends of S strata hold together at ``level`` if each holds at
``level ** (1 / S)``; the high end is the largest of all strata.

What is held to the limit a constraint says itself (``judged``). One that is no parity and no bound
is judged by its largest violation, by the delta method. It may say what that is in words of its
own: its ``figure`` is then the largest violation plus the limit, so that the constraint is met
where the figure is at most the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
from scipy.special import ndtri

from fairboost._text import interval, places, plain_number
from fairboost._typing import FloatArray
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.binding import Term
from fairboost.fairness.constraints import unit_of
from fairboost.fairness.moments import Farthest, GroupMoments
from fairboost.metrics.intervals import rows_to_tell
from fairboost.metrics.sampling import (
    SamplingLaw,
    ShareLaw,
    distances_at_once,
    errors_of_violations,
    judge_distances,
    judge_farthest_ratio,
    judge_gap,
    judge_over_expected,
)
from fairboost.verdicts.ratios import judge_floor, judge_ratio, too_few_to_tell

Measure: TypeAlias = Literal["gap", "rate", "mean", "ratio", "least rate", "figure", "violation"]
AT_LEAST = "ratio", "least rate"
"""Measures whose limit is a lower one."""
Status: TypeAlias = Literal[
    "met",
    "met on these rows, by decisions that say nothing",
    "met on these rows, not certain",
    "not met on these rows, not certain",
    "not met",
    "no verdict",
    "no limit was asked for",
]
NO_LIMIT: Status = "no limit was asked for"
NO_VERDICT: Status = "no verdict"
"""On rows that a base model was trained on, which say nothing about new people."""
SAYS_NOTHING: Status = "met on these rows, by decisions that say nothing"

ROUNDING = 1e-9
"""A gap of 0.3 - 0.29 is within a tolerance of 0.01, though not in floating point. As a share of
the size of the figures that are compared."""


MOST_ROWS = 1e12
"""Where certainty takes more rows, no number of them is named."""


def status_of(
    value: float,
    low: float,
    high: float,
    limit: float,
    *,
    says_nothing: bool = False,
    scale: float = 1.0,
) -> Status:
    """The verdict on a figure that may be at most ``limit``: the one definition.

    Parameters
    ----------
    value, low, high : float
        The figure and its interval.
    limit : float
        What it may be at most.
    says_nothing : bool, default=False
        Whether the decisions say next to nothing about anyone, as told by
        :func:`fairboost.verdicts.diagnostics.decides_little`.
    scale : float, default=1.0
        Size of the figures that are compared: differences that are tiny beside it are rounding.

    Examples
    --------
    >>> for high in (0.04, 0.06):
    ...     print(status_of(0.02, 0.0, high, limit=0.05))
    met
    met on these rows, not certain
    >>> for low in (0.04, 0.06):
    ...     print(status_of(0.08, low, 0.1, limit=0.05))
    not met on these rows, not certain
    not met
    """
    if limit == np.inf:
        return NO_LIMIT
    limit += ROUNDING * scale
    if value <= limit:
        if says_nothing:
            return SAYS_NOTHING
        return "met" if high <= limit else "met on these rows, not certain"
    return "not met" if low > limit else "not met on these rows, not certain"


@dataclass(frozen=True)
class Verdict:
    """Whether a constraint is met.

    Parameters
    ----------
    constraint : str
        The constraint in words.
    measure : {"gap", "rate", "mean", "ratio", "least rate", "figure", "violation"}
        What is held to the limit: the largest difference between groups, a bounded rate, a
        bounded mean, the smallest ratio of a group, the smallest rate of a group, the figure that
        a constraint has for itself, or the largest violation of one that has none.
    value, low, high : float
        The figure, and what it is at least and at most.
    limit : float
        What it may be at most; of a ratio and of a least rate, what it may be at least.
    status : {"met", "met on these rows, by decisions that say nothing", \
"met on these rows, not certain", "not met on these rows, not certain", "not met", "no verdict"}
        The verdict.
    smallest_group, smallest_rows : str, int
        The group with the fewest rows that count, and their number (Kish's, with weights).
    rows_needed : int or None
        About how many rows would have to count in each group to detect a gap as large as the limit
        (the least that certainty takes); None where the verdict is certain, and where so
        many count already.
    named : str
        What a constraint calls its own figure, such as ``"largest distance"``.
    """

    constraint: str
    measure: Measure
    value: float
    low: float
    high: float
    limit: float
    status: Status
    smallest_group: str
    smallest_rows: int
    rows_needed: int | None = None
    named: str = ""

    def __str__(self) -> str:
        # As many digits as it takes to see on which side of the limit the figure is.
        least = self.places
        choice = range(least, least + 5)
        sign = -1.0 if self.at_least else 1.0
        limit = sign * self.limit
        seen = (d for d in choice if (sign * round(self.value, d) <= limit) == self.within)
        shown = interval(self.value, self.low, self.high, next(seen, choice[-1]))
        return f"{self.title} {shown}"

    @property
    def title(self) -> str:
        """What is held to the limit, in words."""
        return self.named or self.measure

    @property
    def at_least(self) -> bool:
        """Whether the limit is a lower one."""
        return self.measure in AT_LEAST

    @property
    def within(self) -> bool:
        """Whether the figure is within the limit on these rows."""
        return not self.status.startswith("not met") and self.status != NO_VERDICT

    @property
    def places(self) -> int:
        """Decimals that its figures are worth."""
        return places(self.value, self.low, self.high, self.limit)

    @property
    def certain(self) -> bool:
        """Whether its interval leaves no doubt of that."""
        return self.status in ("met", "not met", NO_LIMIT)


class CountedVerdict(Protocol):
    """What was found of a constraint, here or in a file."""

    @property
    def status(self) -> str:
        """The verdict."""

    @property
    def rows_needed(self) -> int | None:
        """Rows that would have to count in each group for certainty."""


def count(verdicts: Iterable[CountedVerdict]) -> str:
    """How many have which verdict, and what certainty would take.

    Examples
    --------
    >>> count([])
    'none'
    """
    found = list(verdicts)
    many = Counter(v.status for v in found)
    parts = [f"{many[s]} {s}" for s in get_args(Status) if many[s] and s != NO_LIMIT]
    parts += [f"{many[NO_LIMIT]} without a limit"] * bool(many[NO_LIMIT])
    return f"{'; '.join(parts)}{certainty_takes(found)}" if found else "none"


def how_many(verdicts: Iterable[CountedVerdict]) -> str:
    """How many are met, the certain and the uncertain apart."""
    many = Counter(v.status for v in verdicts)
    free = many[NO_LIMIT]
    if free == many.total():
        return f"{free} without a limit"
    parts = [f"{many['met']} of {many.total() - free} met"]
    parts += [f"{free} without a limit"] * bool(free)
    parts += [f"{many[s]} {s}" for s in get_args(Status)[1:] if many[s] and s != NO_LIMIT]
    return "; ".join(parts)


def certainty_takes(verdicts: Iterable[CountedVerdict]) -> str:
    """How many rows certainty would take, in brackets; empty where more would not help."""
    needed = [v.rows_needed for v in verdicts if v.rows_needed is not None]
    if not needed:
        return ""
    return f" (a certain verdict takes about {max(needed):,} rows or more in each group)"


def judge(
    term: Term,
    rates: GroupMoments,
    level: float,
    rows: FloatArray | None = None,
    *,
    law: SamplingLaw | None = None,
    says_nothing: bool = False,
) -> tuple[Verdict, str]:
    """The verdict on a constraint, and what to say about it.

    Parameters
    ----------
    term : Term
        The constraint, bound to the rows.
    rates : GroupMoments
        What was measured on them.
    level : float
        Coverage of the interval.
    rows : (n_moments, n_groups) float64, optional
        Rows that would tell as much as was measured; those that count if left out.
    law : SamplingLaw, optional
        How far moments are off by chance; as shares, if left out.
    says_nothing : bool, default=False
        As in :func:`status_of`.
    """
    tell = term.rows if rows is None else rows
    tell = np.where(tell > 0, tell, 1.0)  # of figures of no row, as little as one row has
    law = ShareLaw(term.correlations) if law is None else law
    text, measure, limit, counted = _asked(term, law)
    value, low, high = _figure(term, rates, tell, level, law)
    units = unit_of(rates, term.constraint.relative)
    if measure not in ("violation", "figure", *AT_LEAST):
        widest = float(units.min())
        low, high = max(low, law.range[0] / widest), min(high, law.range[1] / widest)
    figures = (-value, -high, -low, -limit) if measure in AT_LEAST else (value, low, high, limit)
    status = status_of(*figures, says_nothing=says_nothing, scale=_scale(measure, rates, law))
    g = int(counted.argmin())
    smallest = term.groups.label(g), round(counted[g])
    needed = None
    if status not in ("met", SAYS_NOTHING, "not met", NO_LIMIT):
        unit = float(np.broadcast_to(units, counted.shape)[g])
        if measure == "ratio":  # that tell the ratio asked for from 1
            limit_apart = (1.0 - limit) * float(rates.largest().max())
            needed = _rows_needed("gap", value, limit_apart, rates, counted, level, law)
        else:
            needed = _rows_needed(measure, value, limit * unit, rates, counted, level, law)
        if needed is not None and needed <= smallest[1]:
            needed = None
    named = term.constraint.figure_name if measure == "figure" else ""
    verdict = Verdict(text, measure, value, low, high, limit, status, *smallest, needed, named)
    said = [_say(verdict, term, rates), _not_judged(term, rates, text)]
    return verdict, " ".join(filter(None, said))


FIGURES = "distance", "actual over expected", "figure"
"""What a constraint may be judged by that is a figure of its own."""


def _asked(term: Term, law: SamplingLaw) -> tuple[str, Measure, float, FloatArray]:
    """The constraint in words, what is held to which limit, and the rows of the groups in it."""
    c, by = term.constraint, term.by_in_words
    rows: FloatArray = term.rows.min(axis=0)
    if c.one_group is not None:
        g = term.groups.names.index(c.one_group)
        by, rows = term.groups.label(g), np.where(np.arange(len(rows)) == g, rows, np.inf)
    measure: Any = "figure" if c.judged in FIGURES else c.judged
    if measure == "rate" and not isinstance(law, ShareLaw):
        measure = "mean"
    return c.words(by), measure, float(c.limit), rows


def _scale(measure: Measure, rates: GroupMoments, law: SamplingLaw) -> float:
    """Size of what is compared: of moments, but of shares and of constraints' own figures 1."""
    if isinstance(law, ShareLaw) or measure in ("violation", "figure", "ratio"):
        return 1.0
    return float(np.abs(rates.values).max())


def _figure(
    term: Term,
    rates: GroupMoments,
    rows: FloatArray,
    level: float,
    law: SamplingLaw | None = None,
) -> tuple[float, float, float]:
    """What is held to the limit, and the ends of its interval, perhaps beyond its range."""
    law = ShareLaw(term.correlations) if law is None else law
    c: Any = term.constraint
    r, n = rates.values[0], rows[0]
    if c.judged == "gap":
        units, parts = unit_of(rates, c.relative), rates.parts()
        return judge_gap(r, n, level, law.at(0), units=units, parts=parts)
    if c.judged == "ratio":
        return judge_ratio(c, rates, n, level, law.at(0))
    if c.judged == "least rate":
        return judge_floor(r, n, level, law.at(0))
    if c.judged == "actual over expected":
        v, errors = errors_of_violations(c.as_judged, rates, rows, law)
        return judge_farthest_ratio(*_ratios(c, rates, rows, v, errors), level)
    if c.judged == "rate":
        at = 0, rates.groups.index(c.one_group)
        value = float(rates.values[at])
        ends = law.at(at).interval(rates.values[at], rows[at], level)
        low, high = map(float, ends)
    elif c.judged == "distance":
        at_once = distances_at_once(*rates.values.shape)
        found = judge_distances(rates.values, rates, rows, level, at_once)
        value, low, high = (float(x.max()) for x in found)
    else:
        value, low, high = _largest(c, rates, rows, level, law)
    return value, min(low, value), max(high, value)


def _largest(
    c: GroupConstraint, rates: GroupMoments, rows: FloatArray, level: float, law: SamplingLaw
) -> tuple[float, float, float]:
    """The largest violation, or the figure as far from its limit, by the delta method."""
    v, errors = errors_of_violations(c.as_judged, rates, rows, law)
    moved = c.figure(rates) - float(v.max()) if c.judged == "figure" else 0.0
    # One violation is the largest in truth; those beside it may seem larger by chance. A distance
    # is among the violations twice, once for each sign.
    at_once = len(v) * (2 if c.least == -np.inf else 1)
    near, far = (-float(ndtri((1 - level) / n)) * errors for n in (at_once, 2))
    value, low, high = (float(x.max()) + moved for x in (v, v - near, v + far))
    return value, max(low, c.least), high


def _ratios(
    c: Any, rates: GroupMoments, rows: FloatArray, v: FloatArray, errors: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Actual over expected where there is one, the errors, and rows that tell."""
    judged = c.read(rates)[2]
    n = judged.size
    told = np.broadcast_to(rows[0], judged.shape)[judged]
    return 1.0 + c.away(rates)[judged], errors[:n][judged.ravel()], told


def judge_farthest(
    term: Term, rates: GroupMoments, level: float, rows: FloatArray, law: SamplingLaw
) -> tuple[Farthest, FloatArray] | None:
    """The figure of each group that reports print, with its interval.

    Parameters
    ----------
    term, rates, level, rows, law
        As in :func:`judge`.

    Returns
    -------
    farthest, figures : Farthest, (3, n_groups) float64
        The figures, and the ends of their intervals; None of a constraint that offers none.
    """
    c = term.constraint
    found = c.farthest(rates) or c.by_group(rates) if c.judged in FIGURES else None
    if found is None:
        return None
    if c.judged == "distance":
        sizes = judge_distances(rates.values, rates, rows, level, distances_at_once(len(rows), 1))
        return found, np.stack([size.max(axis=0) for size in sizes])
    violations, every = errors_of_violations(c.as_judged, rates, rows, law)
    value = violations[found.inequalities] + c.limit + found.around
    errors = every[found.inequalities]
    if c.judged == "actual over expected":
        return found, np.stack([value, *judge_over_expected(value, errors, rows[0], level)])
    reach = float(ndtri(0.5 + level / 2)) * errors
    return found, np.stack([value, np.maximum(value - reach, c.least), value + reach])


def _rows_needed(
    measure: Measure,
    value: float,
    limit: float,
    rates: GroupMoments,
    counted: FloatArray,
    level: float,
    law: SamplingLaw,
) -> int | None:
    """Rows in each group that distinguish what has to be told apart, to two digits.

    A gap, or a rate, as large as the limit from 0; a mean, which may be far from 0, from its
    limit.
    """
    apart = abs(value - limit) if measure in ("mean", "least rate") else limit
    if apart <= 0 or measure in ("violation", "figure"):  # whose scale is its own
        return None
    if measure == "gap":  # of the smallest group, and those it is compared with
        smallest = int(counted.argmin())
        at = next(p for p in rates.parts() if smallest in np.arange(len(counted))[p])
        pairs = 1.0
        variance = law.at((0, at)).pooled_variance(rates.values[0, at], counted[at])
    else:  # of one group, whose variance is that of half a difference
        g = slice(int(counted.argmin()), int(counted.argmin()) + 1)
        of_group = law.at((0, g))
        pairs, variance = 0.5, of_group.pooled_variance(rates.values[0, g], counted[g])
    needed = pairs * rows_to_tell(variance, apart, level)
    return int(float(f"{max(needed, 1):.1e}")) if needed < MOST_ROWS else None


def _say(v: Verdict, term: Term, rates: GroupMoments) -> str:
    """What a verdict comes to, and what to do; nothing where all is well."""
    if v.status in ("met", SAYS_NOTHING):  # what is wrong with the latter is told once for all
        return ""
    if v.status == NO_LIMIT:
        label = term.groups.label(int(rates.values[0].argmax()))
        return f"{v.constraint}: {v.value:.{v.places}f}, in {label}."
    digits = v.places
    if v.certain:
        return (
            f"{v.constraint}: not met, by {abs(v.value - v.limit):.{digits}f}."
            f"{_worst(v, term, rates)}"
        )
    upward = v.within != v.at_least
    may = f"up to {v.high:.{digits}f}" if upward else f"as small as {v.low:.{digits}f}"
    text = f"{v.constraint}: {v.status}; among new people the {v.title} may be {may}."
    has = f"The smallest group, {v.smallest_group}, has"
    if v.measure in ("rate", "mean"):  # of a group by itself, or of everyone
        has = f"{v.smallest_group} has" if v.smallest_group != "everyone" else "There are"
    text += f" {has} {v.smallest_rows:,} {rows_word(term.rows)}"
    if v.measure == "ratio":
        return f"{text}{_on_ratio(v, term, rates)}"
    if v.measure in ("gap", "rate") and v.limit <= 0:
        return f"{text}, but no number of rows can show a {v.measure} of 0; allow more than 0."
    if v.rows_needed is not None:
        each = " in each group" if v.measure == "gap" else ""
        merge = ", or merge groups" if v.measure == "gap" and term.most_compared > 2 else ""
        aim = f"detect a {v.measure} of {plain_number(v.limit)}"
        if v.measure in ("mean", "least rate"):
            aim = f"tell {v.value:.{digits}f} from {plain_number(v.limit)}"
        return f"{text}; about {v.rows_needed:,}{each} are needed to {aim}{merge}."
    ends = f"[{v.low:.{digits}f}, {v.high:.{digits}f}]"
    return f"{text}, and the interval {ends} still contains {plain_number(v.limit)}."


def _named_violation(name: str) -> str:
    """A violation in words.

    Examples
    --------
    >>> _named_violation("A/E[sex=F] below")
    'A/E[sex=F] is too low'
    """
    for end, said in ((" above", "is too high"), (" below", "is too low")):
        if name.endswith(end):
            return f"{name.removesuffix(end)} {said}"
    return name


def rows_word(rows: FloatArray | Iterable[float]) -> str:
    """What numbers of rows are called: where weights differ, they are no whole numbers."""
    known = np.asarray(rows, np.float64)
    known = known[np.isfinite(known)]
    return "rows" if np.allclose(known, np.round(known), rtol=0, atol=1e-6) else "effective rows"


def _on_ratio(v: Verdict, term: Term, rates: GroupMoments) -> str:
    """Why a ratio is not certain: whether the rows can tell it at all, and how many could."""
    (r,), (n,) = rates.values, term.rows
    g = int(n.argmin())
    said = f", with a rate of {r[g]:.{max(places(r[g]), 3)}f}"
    if too_few_to_tell(v.low, v.high, v.limit):
        said += ". These rows are too few to estimate a ratio of rates of this size"
    if v.limit >= 1:
        return f"{said}; no number of rows can show a ratio of 1, so ask for less than 1."
    if v.rows_needed is None:
        return f"{said}; {v.value:.3f} is close to the limit of {plain_number(v.limit)}."
    aim = f"to distinguish a ratio of {plain_number(v.limit)} from 1"
    return f"{said}; about {v.rows_needed:,} in each group are needed {aim}, or merge groups."


def _not_judged(term: Term, rates: GroupMoments, text: str) -> str:
    """What of a constraint the rows leave open, where it can tell."""
    labels = [term.groups.label(g) for g in range(len(term.groups))]
    found = term.constraint.not_judged(rates, labels)
    return f"{text}: {found}" if found else ""


def _worst(v: Verdict, term: Term, rates: GroupMoments) -> str:
    """Where a constraint that is not met is broken most."""
    if v.measure == "gap":
        (r,), (n,) = rates.values, term.rows
        digits = max(places(*r) - 1, 0)
        scaled = r / unit_of(rates, term.constraint.relative)
        groups = max(
            (np.arange(len(r))[part] for part in rates.parts()),
            key=lambda part: float(np.ptp(scaled[part])),
        )
        ends = (
            f"{term.groups.label(g)} ({r[g]:.{digits}f} on {n[g]:,.0f} rows)"
            for g in (int(groups[r[groups].argmax()]), int(groups[r[groups].argmin()]))
        )
        return f" Farthest apart: {' and '.join(ends)}."
    if v.measure in AT_LEAST:
        (r,), (n,) = rates.values, term.rows
        c: Any = term.constraint
        low = int((c.ratios(rates) if c.judged == "ratio" else r).argmin())
        text = f" Lowest: {term.groups.label(low)} ({r[low]:.3f} on {n[low]:,.0f} rows)"
        if c.judged == "ratio" and c.of == "largest":
            others = next(p for p in rates.parts() if low in np.arange(len(r))[p])
            at = int(np.arange(len(r))[others][r[others].argmax()])
            text += f"; highest: {term.groups.label(at)} ({r[at]:.3f} on {n[at]:,.0f} rows)"
        return f"{text}."
    if v.measure == "figure":
        k = int(np.argmax(term.constraint.as_judged.violations(rates)))
        return f" The largest violation: {_named_violation(term.inequalities[k])}."
    return ""
