"""Constraints that ask the same of every class, to be told as one.

Equal confusion matrices of five classes are 25 constraints. A reader wants to know how many of
them are met and how large the largest gap is, before any of them by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from fairboost.fairness.binding import Term
from fairboost.fairness.classes import ClassMoment

MANY = 4
"""Constraints from which on they are told as one."""

TITLES = {
    "given": "share given each of {n} classes",
    "recall": "recall of {n} classes",
    "confused": "{n} shares of a class given another",
    "both": "confusion matrix ({n} shares)",
}
"""What is held alike, by the rates that constraints are about."""


class HeldToLimit(Protocol):
    """What was found of a constraint, here or in a file."""

    @property
    def value(self) -> float | None:
        """The figure."""

    @property
    def limit(self) -> float | None:
        """What it may be at most; None, in files, where there is no limit."""


Found = TypeVar("Found", bound=HeldToLimit)


def families_of(terms: Sequence[Term]) -> tuple[str, ...]:
    """What each constraint is told as, together with others; empty where it stands by itself.

    Parameters
    ----------
    terms : sequence of Term
        The constraints, bound to rows.
    """
    members: dict[tuple[object, ...], list[int]] = {}
    for number, term in enumerate(terms):
        c = term.constraint
        if c.judged == "gap" and isinstance(term.moments[0], ClassMoment):
            kind = term.moments[0].name.partition("[")[0]
            alike = "matrix" if kind in ("recall", "confused") else kind
            members.setdefault((alike, term.by, c.limit, c.relative), []).append(number)
    out = [""] * len(terms)
    for (_, by, tolerance, relative), numbers in members.items():
        if len(numbers) < MANY:
            continue
        kinds = {terms[n].moments[0].name.partition("[")[0] for n in numbers}
        title = TITLES["both" if len(kinds) > 1 else kinds.pop()].format(n=len(numbers))
        of = " of everyone's" if relative else ""
        for number in numbers:
            out[number] = f"{title} equal by {by}, tolerance {tolerance:g}{of}"
    return tuple(out)


def grouped(found: Sequence[Found], families: Sequence[str]) -> list[tuple[str, list[Found]]]:
    """What was found, family by family; those without one each by itself, under no name.

    Parameters
    ----------
    found : sequence
        Verdicts.
    families : sequence of str
        What each is told as, as from :func:`families_of`; empty for none.

    Examples
    --------
    >>> grouped([], [])
    []
    """
    groups: dict[object, tuple[str, list[Found]]] = {}
    for number, one in enumerate(found):
        family = families[number] if number < len(families) else ""
        groups.setdefault(family or number, (family, []))[1].append(one)
    return list(groups.values())


def farthest(found: Sequence[Found]) -> Found:
    """The one with the largest figure, against its limit.

    Those that are told as one are gaps; a figure with a lower limit stands by itself.
    """
    # Two that are as far but for rounding: the first, whoever has added up the rows.
    limits = {id(f): math.inf if f.limit is None else f.limit for f in found}
    return max(found, key=lambda f: round((f.value or 0.0) - limits[id(f)], 6))
