"""Whether a constraint is met: the figure held to a limit, its interval, and what to say of it.

A gap is judged as in :mod:`fairboost.metrics.intervals`, by the range of the errors e_g of the
groups, here drawn from their sampling law (R_g the rate, n_g the rows)::

    e_g ~ Binomial(n_g, p_g) / n_g - p_g      p_g = (n_g R_g + 2) / (n_g + 4)

The two events in four rows are about what Wilson's interval adds; with half an event in one row, a
group of 5 rows beside one of 500 was covered in 86% of samples instead of 95%.

A verdict is "met" if the figure is within the limit, "not met" if even the low end of its interval
is beyond it, and "too few rows to tell" between the two. If the user asked for a confidence, "met"
takes an upper bound within the limit. As in training every inequality R_g - R <= tolerance / 2 and
R - R_g <= tolerance / 2 has a margin of z standard errors, z by Bonferroni; the largest R_g - R
plus the largest R - R_g, with their margins, bound the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from fairboost._text import interval
from fairboost._typing import FloatArray
from fairboost.fairness.binding import Term
from fairboost.fairness.constraints import Bound, Constraint, Parity
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.two_sided import TwoSided, two_sided
from fairboost.metrics.intervals import gap_interval, wilson

Measure: TypeAlias = Literal["gap", "rate", "violation"]
Status: TypeAlias = Literal["met", "not met", "too few rows to tell"]

DRAWS = 2_000
"""Draws of the errors of groups."""

ROUNDING = 1e-9
"""A gap of 0.3 - 0.29 is within a tolerance of 0.01, though not in floating point."""


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
        The figure and its interval.
    limit : float
        What it may be at most.
    status : {"met", "not met", "too few rows to tell"}
        The verdict.
    smallest_group, smallest_rows : str, int
        The group with the fewest rows that count, and their number (Kish's, with weights).
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

    def __str__(self) -> str:
        return f"{self.measure} {interval(self.value, self.low, self.high, 4)}"


def judge(
    term: Term, rates: GroupMoments, confidence: float | None, level: float
) -> tuple[Verdict, str]:
    """The verdict on a constraint, and what to say about it."""
    text, measure, limit, rows = _asked(term)
    value, low, high = _figure(term, rates, limit, confidence, level)
    status: Status = "too few rows to tell"
    if (value if confidence is None else high) <= limit + ROUNDING:
        status = "met"
    elif low > limit + ROUNDING:
        status = "not met"
    g = int(rows.argmin())
    ends = (low, high) if measure == "violation" else (max(low, 0.0), min(high, 1.0))
    smallest = term.groups.label(g), round(rows[g])
    verdict = Verdict(text, measure, value, *ends, limit, status, *smallest)
    if status == "too few rows to tell":
        even = replace(term, rows=np.full_like(term.rows, rows[g]))
        _, low, high = _figure(even, rates, limit, confidence, level)
        return verdict, _too_few(verdict, low, high, confidence)
    return verdict, _met_or_not(verdict, term, rates)


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
    term: Term, rates: GroupMoments, limit: float, confidence: float | None, level: float
) -> tuple[float, float, float]:
    """What is held to the limit, and the ends of its interval, perhaps beyond [0, 1]."""
    c = two_sided(term.constraint)
    if isinstance(c, TwoSided):
        value = float(np.ptp(rates.values))
        reach = gap_interval(0.0, _drawn_errors(rates.values[0], term.rows[0]), level)[1]
        low, high = value - reach, value + reach
    elif isinstance(c, Bound):
        g = rates.groups.index(c.group)
        value, n = float(rates.values[0, g]), term.rows[0, g]
        low, high = map(float, wilson(value * n, n, level))
    else:
        v, margins = _margins(c, term, rates, (1 - level) / 2)
        value, low, high = (float(x.max()) for x in (v, v - margins, v + margins))
    if confidence is not None:
        upper = np.add(*_margins(c, term, rates, 1 - confidence))
        sides = np.split(upper, 2) if isinstance(c, TwoSided) else [upper]
        high = limit + sum(float(side.max()) for side in sides)
    return value, min(low, value), max(high, value)


def _drawn_errors(r: FloatArray, n: FloatArray) -> FloatArray:
    """Errors of the rates of groups in samples like the one seen."""
    order = np.lexsort((r, n))  # so that draws do not depend on how groups are ordered
    r, n = r[order], n[order]
    p, whole = (n * r + 2) / (n + 4), np.rint(n).astype(np.int64)
    rng = np.random.default_rng(0)
    # Group by group: NumPy sets up its draws anew whenever the parameters change.
    drawn = np.stack([rng.binomial(*group, DRAWS) for group in zip(whole, p, strict=True)], axis=1)
    return (drawn / whole - p) * np.sqrt(whole / n)


def _margins(
    constraint: Constraint, term: Term, rates: GroupMoments, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Violations, and by how much all may be larger but for a probability of ``tail``.

    The delta method, at the rates seen and not, as by :meth:`Term.jacobian`, where rates are
    alike: there the derivative of a constraint on distances is 0.
    """
    violations = np.asarray(constraint.violations(rates), np.float64)
    units = np.eye(len(violations))
    slopes = np.stack([constraint.pullback(rates, unit).ravel() for unit in units])
    least = 0.5 / (term.rows + 1.0)  # as in training, a rate of 0 has an error too
    p = np.clip(rates.values, least, 1.0 - least)
    errors = np.sqrt(slopes**2 @ (p * (1.0 - p) / term.rows).ravel())
    return violations, max(-float(ndtri(tail / len(units))), 0.0) * errors


def _met_or_not(v: Verdict, term: Term, rates: GroupMoments) -> str:
    if v.status == "met":
        text = f"met on these rows; on new people the {v.measure} may be up to {v.high:.4f}."
        return f"{v.constraint}: {text}" if v.high > v.limit + ROUNDING else ""
    text = f"{v.constraint}: not met, by {v.value - v.limit:.4f}."
    if v.measure == "gap":
        (r,), (n,) = rates.values, term.rows
        ends = (
            f"{term.groups.label(g)} ({r[g]:.3f} on {n[g]:,.0f} rows)"
            for g in (int(r.argmax()), int(r.argmin()))
        )
        text += f" Farthest apart: {' and '.join(ends)}."
    return text


def _too_few(v: Verdict, low: float, high: float, confidence: float | None) -> str:
    """Name the smallest group, its rows, and about how many it takes.

    The interval is that with as few rows in every group; it shrinks with their root. To tell, it
    should reach no further than the limit, so that the standard error is about half of it. To be
    sure, it should fit between figure and limit, with the figure brought down to half the limit.
    """
    reach = v.value - low if confidence is None else high - v.value
    aim, room = f"tell a {v.measure} of {v.limit:g}", v.limit
    if confidence is not None:
        aim, room = f"be {100 * confidence:g}% sure", max(v.limit - v.value, v.limit / 2)
    if v.measure == "violation":  # has no scale but its own
        aim, room = f"tell a violation of {v.value:.4f} from none", abs(v.value)
    text = f"{v.constraint}: {v.smallest_rows:,} rows of {v.smallest_group} count"
    if room <= 0:
        return f"{text}, but no number of rows can show a {v.measure} of 0; allow more than 0."
    needed = v.smallest_rows * (reach / room) ** 2
    if needed > v.smallest_rows:
        each, merge = (" in each group", ", or merge groups") if v.measure == "gap" else ("", "")
        return f"{text}; about {float(f'{needed:.1e}'):,.0f}{each} are needed to {aim}{merge}."
    target = v.limit if confidence is None else v.limit - reach
    return (
        f"{text}, and the {v.measure} of {v.value:.4f} is too close to the limit to {aim}; "
        f"{target:.4f} would do: train more rounds."
    )
