"""Whether a constraint is met: the figure held to a limit, its interval, and what to say of it.

Two facts make a verdict (:func:`status_of`): whether the figure is within its limit, and whether
its whole interval lies on the same side, so that new people will hardly say otherwise. Only *met*
and *not met* are certain. Each end of the interval holds by itself at the level asked for: an
upper end is asked whether a limit is kept, a lower one whether it is broken, and never both.

Nothing is *met* by decisions that say nothing about anyone: rates are equal where everyone, or no
one, is decided positively.

The interval of a gap follows from the errors e_g of the rates R_g of groups, as in
:mod:`fairboost.metrics.intervals`, drawn from their sampling law (n_g the rows that count)::

    e_g ~ Binomial(n_g, p_g) / n_g - p_g      p_g = (n_g R_g + 2) / (n_g + 4)

The two events in four rows are about what Wilson's interval adds; with half an event in one row, a
group of 5 rows beside one of 500 was covered in 86% of samples instead of 95%.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
from scipy.special import ndtri

from fairboost._text import interval
from fairboost._typing import FloatArray
from fairboost.fairness.binding import Term
from fairboost.fairness.constraints import Bound, Constraint, Parity
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.two_sided import TwoSided, two_sided
from fairboost.metrics.intervals import gap_at_most, gap_interval, rows_needed, wilson

Measure: TypeAlias = Literal["gap", "rate", "violation"]
Status: TypeAlias = Literal[
    "met",
    "met on these rows, by decisions that say nothing",
    "met on these rows, not certain",
    "not met on these rows, not certain",
    "not met",
]
SAYS_NOTHING: Status = "met on these rows, by decisions that say nothing"

DRAWS = 2_000
"""Draws of the errors of groups."""

ROUNDING = 1e-9
"""A gap of 0.3 - 0.29 is within a tolerance of 0.01, though not in floating point."""


def status_of(
    value: float, low: float, high: float, limit: float, *, says_nothing: bool = False
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
    limit += ROUNDING
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
    measure : {"gap", "rate", "violation"}
        What is held to the limit: the largest difference between groups, a bounded rate, or the
        largest violation of a constraint of the user's own.
    value, low, high : float
        The figure, and what it is at least and at most.
    limit : float
        What it may be at most.
    status : {"met", "met on these rows, by decisions that say nothing", \
"met on these rows, not certain", "not met on these rows, not certain", "not met"}
        The verdict.
    smallest_group, smallest_rows : str, int
        The group with the fewest rows that count, and their number (Kish's, with weights).
    rows_needed : int or None
        About how many rows would have to count in each group to detect a gap as large as the limit
        (the least that certainty takes); None where the verdict is certain, and where so
        many count already.
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

    def __str__(self) -> str:
        # As many digits as it takes to see on which side of the limit the figure is.
        seen = (d for d in range(4, 9) if (round(self.value, d) <= self.limit) == self.within)
        return f"{self.measure} {interval(self.value, self.low, self.high, next(seen, 8))}"

    @property
    def within(self) -> bool:
        """Whether the figure is within the limit on these rows."""
        return not self.status.startswith("not met")

    @property
    def certain(self) -> bool:
        """Whether its interval leaves no doubt of that."""
        return self.status in ("met", "not met")


class CountedVerdict(Protocol):
    """What was found of a constraint, here or in a file."""

    @property
    def status(self) -> str:
        """The verdict."""

    @property
    def rows_needed(self) -> int | None:
        """Rows that would have to count in each group for certainty."""


def count(verdicts: Iterable[CountedVerdict]) -> str:
    """How many are met, the certain and the uncertain apart, and what certainty would take.

    Examples
    --------
    >>> count([])
    'none'
    """
    found = list(verdicts)
    if not found:
        return "none"
    many = Counter(v.status for v in found)
    parts = [f"{many['met']} of {len(found)} met"]
    parts += [f"{many[s]} {s}" for s in get_args(Status)[1:] if many[s]]
    return f"{'; '.join(parts)}{certainty_takes(found)}"


def certainty_takes(verdicts: Iterable[CountedVerdict]) -> str:
    """How many rows certainty would take, in brackets; empty where more would not help."""
    needed = [v.rows_needed for v in verdicts if v.rows_needed is not None]
    if not needed:
        return ""
    return f" (certainty takes at least some {max(needed):,} rows that count in each group)"


def judge(
    term: Term,
    rates: GroupMoments,
    level: float,
    rows: FloatArray | None = None,
    *,
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
        How sure each end of the interval is to be.
    rows : (n_moments, n_groups) float64, optional
        Rows that would tell as much as was measured; those that count if left out.
    says_nothing : bool, default=False
        As in :func:`status_of`.
    """
    tell = term.rows if rows is None else rows
    text, measure, limit, counted = _asked(term)
    value, low, high = _figure(term, rates, tell, level)
    ends = (low, high) if measure == "violation" else (max(low, 0.0), min(high, 1.0))
    status = status_of(value, *ends, limit, says_nothing=says_nothing)
    g = int(counted.argmin())
    smallest = term.groups.label(g), round(counted[g])
    needed = None
    if status not in ("met", SAYS_NOTHING, "not met"):
        needed = _rows_needed(measure, limit, rates, counted, level)
        if needed is not None and needed <= smallest[1]:
            needed = None
    verdict = Verdict(text, measure, value, *ends, limit, status, *smallest, needed)
    return verdict, _say(verdict, term, rates)


def judge_gap(rates: FloatArray, rows: FloatArray, level: float) -> tuple[float, float, float]:
    """A gap between groups, what it is at least and what it is at most.

    Parameters
    ----------
    rates, rows : (n_groups,) float64
        The rates of groups, and the rows that count.
    level : float
        How sure each end is to be.
    """
    value = float(np.ptp(rates))
    errors = _drawn_errors(rates, rows)
    low, _ = gap_interval(rates, errors, level)
    return value, min(low, value), max(gap_at_most(rates, errors, level), value)


def _asked(term: Term) -> tuple[str, Measure, float, FloatArray]:
    """The constraint in words, what is held to which limit, and the rows of the groups in it."""
    c, by = term.constraint, ", ".join(term.groups.columns) or "everyone"
    rows: FloatArray = term.rows.min(axis=0)
    if isinstance(c, Parity | TwoSided):
        text = f"{c.moment.title} alike by {by}, tolerance {c.tolerance:g}"
        return text, "gap", c.tolerance, rows
    if isinstance(c, Bound):
        g = term.groups.names.index(c.group)
        text = f"{c.moment.title} of {term.groups.label(g)} at most {c.at_most:g}"
        return text, "rate", c.at_most, np.where(np.arange(len(rows)) == g, rows, np.inf)
    return f"{getattr(c, 'name', type(c).__name__)} by {by}", "violation", 0.0, rows


def _figure(
    term: Term, rates: GroupMoments, rows: FloatArray, level: float
) -> tuple[float, float, float]:
    """What is held to the limit, and the ends of its interval, perhaps beyond [0, 1]."""
    c = two_sided(term.constraint)
    if isinstance(c, TwoSided):
        return judge_gap(rates.values[0], rows[0], level)
    if isinstance(c, Bound):
        g = rates.groups.index(c.group)
        value, n = float(rates.values[0, g]), rows[0, g]
        low, high = map(float, wilson(value * n, n, max(2 * level - 1, 1e-9)))
    else:
        v, margins = _margins(c, rows, rates, 1 - level)
        value, low, high = (float(x.max()) for x in (v, v - margins, v + margins))
    return value, min(low, value), max(high, value)


def _drawn_errors(r: FloatArray, n: FloatArray) -> FloatArray:
    """Errors of the rates of groups in samples like the one seen."""
    order = np.lexsort((r, n))  # so that draws do not depend on how groups are ordered
    back = np.argsort(order)
    r, n = r[order], n[order]
    p, whole = (n * r + 2) / (n + 4), np.maximum(np.rint(n), 1).astype(np.int64)
    rng = np.random.default_rng(0)
    # Group by group: NumPy sets up its draws anew whenever the parameters change.
    drawn = np.stack([rng.binomial(*group, DRAWS) for group in zip(whole, p, strict=True)], axis=1)
    errors: FloatArray = ((drawn / whole - p) * np.sqrt(whole / n))[:, back]
    return errors


def _margins(
    constraint: Constraint, rows: FloatArray, rates: GroupMoments, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Violations, and by how much all may be larger but for a probability of ``tail``.

    The delta method, at the rates seen and not, as by :meth:`Term.jacobian`, where rates are
    alike: there the derivative of a constraint on distances is 0.
    """
    violations = np.asarray(constraint.violations(rates), np.float64)
    units = np.eye(len(violations))
    slopes = np.stack([constraint.pullback(rates, unit).ravel() for unit in units])
    least = 0.5 / (rows + 1.0)  # as in training, a rate of 0 has an error too
    p = np.clip(rates.values, least, 1.0 - least)
    errors = np.sqrt(slopes**2 @ (p * (1.0 - p) / rows).ravel())
    return violations, max(-float(ndtri(tail / len(units))), 0.0) * errors


def _rows_needed(
    measure: Measure,
    limit: float,
    rates: GroupMoments,
    counted: FloatArray,
    level: float,
) -> int | None:
    """Rows in each group that distinguish a gap as large as the limit from 0, to two digits."""
    if limit <= 0 or measure == "violation":  # whose scale is its own
        return None
    if measure == "gap":
        events, rows = float(rates.values[0] @ counted), float(counted.sum())
        pairs = 1.0
    else:  # of one group, whose variance is that of half a difference
        g = int(counted.argmin())
        events, rows, pairs = float(rates.values[0, g] * counted[g]), float(counted[g]), 0.5
    # Two events in four rows more, as above: where none was seen there may be some all the same.
    needed = pairs * rows_needed((events + 2) / (rows + 4), limit, level)
    return int(float(f"{max(needed, 1):.1e}"))


def _say(v: Verdict, term: Term, rates: GroupMoments) -> str:
    """What a verdict comes to, and what to do; nothing where all is well."""
    if v.status in ("met", SAYS_NOTHING):  # what is wrong with the latter is told once for all
        return ""
    if v.certain:
        text = f"{v.constraint}: not met, by {v.value - v.limit:.4f}."
        if v.measure == "gap":
            (r,), (n,) = rates.values, term.rows
            ends = (
                f"{term.groups.label(g)} ({r[g]:.3f} on {n[g]:,.0f} rows)"
                for g in (int(r.argmax()), int(r.argmin()))
            )
            text += f" Farthest apart: {' and '.join(ends)}."
        return text
    may = f"up to {v.high:.4f}" if v.within else f"as small as {v.low:.4f}"
    text = f"{v.constraint}: {v.status}; among new people the {v.measure} may be {may}."
    text += f" {v.smallest_rows:,} rows of {v.smallest_group} count"
    if v.measure != "violation" and v.limit <= 0:
        return f"{text}, but no number of rows can show a {v.measure} of 0; allow more than 0."
    if v.rows_needed is not None:
        each = " in each group" if v.measure == "gap" else ""
        merge = ", or merge groups" if v.measure == "gap" and len(term.groups) > 2 else ""
        aim = f"detect a {v.measure} of {v.limit:g}"
        return f"{text}; about {v.rows_needed:,}{each} are needed to {aim}{merge}."
    return f"{text}, and {v.value:.4f} is too close to the limit of {v.limit:g} for them to tell."
