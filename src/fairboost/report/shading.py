"""How far a group is from the others, as against the limit that was asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report import words
from fairboost.report.blocks import MARKS, Cell, Shade
from fairboost.report.evidence import Evidence, Gap, GroupRate
from fairboost.report.lines import FOUR_FIFTHS

LEVELS = (0.5, 1.0, 2.0)
"""Shares of the limit up to which the lighter shades go."""

ROUNDING = 1e-9
"""A gap of 0.3 - 0.29 is within a limit of 0.01, though not in floating point."""

_HALF, _WHOLE, _TWICE, _BEYOND = (f"{mark.strip()}\u00a0" for mark in MARKS[1:])

MEANING = (
    "Marks and shading show the distance between a group and the group that differs most from it, "
    "relative to the limit (for favourable decisions without a limit, relative to the "
    f"four-fifths rule): {_HALF}up to half of the limit, {_WHOLE}up to the limit, {_TWICE}up to "
    f"twice the limit, {_BEYOND}beyond that."
)
"""To be said above the first table that has shades."""

MEANING_OF_CLASSES = (
    "Marks and shading show the distance between a group and the group that differs most from it, "
    f"relative to the limit: {_HALF}up to half of the limit, {_WHOLE}up to the limit, "
    f"{_TWICE}up to twice the limit, {_BEYOND}beyond that."
)
"""The same where one of several classes is given."""

MEANING_OF_NUMBERS = (
    "Marks and shading show how much of the limit a group uses up: "
    f"{_HALF}up to half of the limit, {_WHOLE}up to the limit, {_TWICE}up to twice the limit, "
    f"{_BEYOND}beyond that. A gap is the distance to the group that differs most."
)
"""The same where a number is predicted."""


@dataclass(frozen=True)
class Distance:
    """How far apart, in units of what was allowed, and in words."""

    share: float
    said: str

    @property
    def shade(self) -> Shade:
        """The darker, the farther."""
        return cast(Shade, 1 + sum(self.share > level + ROUNDING for level in LEVELS))


class Distances:
    """Distances of groups, by what the evidence says was asked for.

    A gap is held to its limit. Favourable decisions that have no limit of their own are held to
    the four-fifths rule. Groups too small to judge have no distance, and none is measured from
    them.

    Parameters
    ----------
    evidence : Evidence
        The evidence.
    """

    def __init__(self, evidence: Evidence) -> None:
        limits = evidence.asked.limits  # of gaps where they name no group
        self._limits = {(of.attribute, of.group, of.rate): of for of in limits}
        self._decimals = {of.rate: words.decimals_of(of.rate, evidence) for of in limits}
        self._ruled = {g.rate for g in evidence.gaps if g.four_fifths is not None}
        self._known: dict[tuple[str, str, str, str], list[GroupRate]] = {}
        for r in evidence.rates:
            if r.value is not None and not r.small:
                self._known.setdefault(_place(r), []).append(r)

    def of(self, r: GroupRate | None) -> Distance | None:
        """How far a group is from the others, or its rate from what it may be."""
        if r is None or r.value is None or r.small:
            return None
        decimals = self._decimals.get(r.rate, 3)
        if (most := self._limits.get((r.attribute, r.group, r.rate))) is not None:
            if most.at_least is not None:
                return _measured(1.0 - r.value, 1.0 - most.at_least, "")
            if most.around is None:
                return _measured(r.value, most.at_most, "")
            away = abs(r.value - most.around)
            return _measured(away, most.at_most, f"{words.number(away)} from {most.around:g}")
        others = self._known.get(_place(r), [])
        allowed = self._limits.get((r.attribute, None, r.rate))
        if allowed is not None and len(others) > 1:
            far = max(others, key=lambda other: abs((other.value or 0.0) - (r.value or 0.0)))
            apart = abs((far.value or 0.0) - r.value)
            said = f"{words.number(apart, decimals)} from {far.group}"
            return _measured(apart, allowed.at_most, said)
        if r.attribute and r.rate in self._ruled and len(others) > 1:
            best = max(others, key=lambda other: other.value or 0.0)
            if not best.value:
                return None
            ratio = r.value / best.value
            said = f"{words.number(ratio)} of {best.group}" if best != r else ""
            return Distance((1 - ratio) / (1 - FOUR_FIFTHS), said)
        return None

    def shade(self, cell: Cell, r: GroupRate | None) -> Cell:
        """The cell of a rate, shaded."""
        found = self.of(r)
        return cell if found is None else replace(cell, shade=found.shade)

    def shade_gap(self, cell: Cell, gap: Gap) -> Cell:
        """The cell of a gap, shaded."""
        allowed = self._limits.get((gap.attribute, None, gap.rate))
        if gap.rate in (
            RATIO,
            DISTANCE,
        ):  # which every group has a limit of its own on
            allowed = self._limits.get((gap.attribute, gap.highest_group, gap.rate))
        if allowed is None or gap.gap is None:
            return cell
        return replace(cell, shade=_measured(gap.gap, allowed.at_most, "").shade)


def _place(r: GroupRate) -> tuple[str, str, str, str]:
    return r.where, r.model, r.attribute, r.rate


def _measured(apart: float, allowed: float, said: str) -> Distance:
    share = apart / allowed if allowed > 0 else (0.0 if apart <= 0 else float("inf"))
    of_limit = f"{100 * share:.0f}% of the limit" if allowed > 0 else "the limit is 0"
    return Distance(share, ", ".join(filter(None, (said, of_limit))))
