"""What to watch of a model in use: its checks, its groups, and its rates in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fairboost._text import did_you_mean
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.constraints import columns_of
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.monitoring.checks import Check, GroupsBy, check_of_point, checks_of
from fairboost.monitoring.counts import NO_GROUP, SHARE, Group, PeriodCounts, Series
from fairboost.monitoring.watch import TrainingRate
from fairboost.report.evidence import Evidence, GroupRate

READABLE = 30
"""Rows below which a rate of a table says little; reports do not compare such groups."""

OPPOSITE = {"fpr": "tnr", "tnr": "fpr", "tpr": "fnr", "fnr": "tpr", "ppr": "pnr", "pnr": "ppr"}


@dataclass(frozen=True)
class Deployed:
    """A model in use.

    Parameters
    ----------
    checks : tuple of Check
        What it is held to.
    more : tuple of Series
        Further rates, shares of groups, and shares of rows of no known group.
    reference : dict of Series to TrainingRate
        Rates on the test rows of training; where these were weighed, only the last ones.
    groups : dict
        The groups that training knew, by columns.
    left : tuple of str
        Constraints that cannot be monitored, in words.
    notes : tuple of str
        What a reader has to know.
    """

    checks: tuple[Check, ...]
    more: tuple[Series, ...]
    reference: dict[Series, TrainingRate]
    groups: GroupsBy
    left: tuple[str, ...]
    notes: tuple[str, ...]

    def unknown_groups(self, counts: PeriodCounts) -> list[str]:
        """Groups that training did not know, and their rows, in words."""
        found = []
        for column in counts.columns:
            known = self.groups[(column,)]
            for name, n in counts.unknown(column, known).items():
                said, meant = f"{column!r} is missing in {n:,} rows", ""
                if name is not None:
                    said = f"the group {name!r} of {column!r}, in {n:,} rows, is none of training"
                    meant = did_you_mean(name, [group for (group,) in known])
                found.append(f"{said}; these are in overall rates and in no group{meant}")
        return found


def deployed(
    evidence: Evidence,
    constraints: Sequence[GroupConstraint],
    point: OperatingPoint | None,
    *,
    columns: Sequence[str],
    min_group_rows: int = 0,
) -> Deployed:
    """Find out what to watch.

    Parameters
    ----------
    evidence : Evidence
        Of the training.
    constraints : sequence of Constraint
        Those of the model, with explicit columns.
    point : OperatingPoint or None
        Where the model decides, if it has a target.
    columns : sequence of str
        The sensitive columns.
    min_group_rows : int
        Eligible rows that a group had to have in training to be compared.
    """
    lines = [r for r in evidence.rates if r.model == "chosen"]
    groups = _groups(lines, columns, constraints)
    notes: list[str] = []
    # Intervals of sequences hold for few rows too: a group that was small in training is compared
    # as its rows come in, unless the user wanted groups of more than READABLE rows.
    least = min_group_rows if min_group_rows > READABLE else 0
    compared = {by: _large(by, known, lines, least) for by, known in groups.items()}
    checks, left = checks_of(constraints, compared)
    for by, known in groups.items():
        if absent := [", ".join(g) for g in known if g not in compared[by]]:
            notes.append(
                f"not compared, with fewer than {least:,} eligible rows in training "
                f"(min_group_rows): {', '.join(absent)}"
            )
    if point is not None:
        checks.append(check_of_point(point))
    more = [Series((), (), "ppr")]
    more += [Series((c,), g, SHARE, groups[(c,)]) for c in columns for g in groups[(c,)]]
    outside = {c: Series((c,), (), NO_GROUP, groups[(c,)]) for c in columns}
    more += outside.values()
    series = [*(s for c in checks for s in c.series), *more]
    reference = {}
    if evidence.data.weight is None:
        tested = [r for r in lines if r.where == "test"]
        reference = {s: r for s in series if (r := _trained(s, tested)) is not None}
    else:
        notes.append(
            "the model was trained with weights of rows, and monitoring counts rows, each once; "
            "changes are looked for against earlier periods alone, and not against training"
        )
    if rows := evidence.data.splits.get("test"):
        missing = {s.name: s.missing for s in evidence.data.sensitive}
        shares = {s: missing.get(c, 0) / rows for c, s in outside.items()}
        reference |= {s: TrainingRate(share, rows) for s, share in shares.items()}
    return Deployed(tuple(checks), tuple(more), reference, groups, tuple(left), tuple(notes))


def _groups(
    lines: Sequence[GroupRate], columns: Sequence[str], constraints: Sequence[GroupConstraint]
) -> GroupsBy:
    """The groups of each column, and of each crossing that a constraint compares."""
    found: GroupsBy = {(): ()}
    for column in columns:
        names = dict.fromkeys(r.group for r in lines if r.attribute == column)
        found[(column,)] = tuple((name,) for name in names)
    for c in constraints:
        both = columns_of(c)
        if both and both not in found:
            known = {r.group for r in lines if r.attribute == ", ".join(both)}
            every = product(*([g for (g,) in found[(column,)]] for column in both))
            found[both] = tuple(group for group in every if ", ".join(group) in known)
    return found


def _large(
    by: tuple[str, ...], known: tuple[Group, ...], lines: Sequence[GroupRate], least: int
) -> tuple[Group, ...]:
    """The groups that had enough eligible rows in training to be compared."""
    rows: dict[str, float] = {}
    for r in lines:
        if r.attribute == ", ".join(by) and r.where != "test":
            rows[r.group] = min(rows.get(r.group, r.rows), r.rows)
    return tuple(g for g in known if rows.get(", ".join(g), least) >= least)


def _trained(series: Series, lines: Sequence[GroupRate]) -> TrainingRate | None:
    """The rate of a series on the test rows of training."""
    own = [r for r in lines if r.attribute == series.attribute]
    if series.rate == SHARE:
        rows = {r.group: r.rows for r in own if r.rate in ("ppr", "pnr")}
        total = sum(rows.values())
        mine = rows.get(", ".join(series.group), 0.0)
        return TrainingRate(mine / total, total) if total else None
    if series.columns and not series.group:
        return None
    name = ", ".join(series.group)
    for rate, turned in ((series.rate, False), (OPPOSITE.get(series.rate), True)):
        for r in own:
            if r.rate == rate and (not series.columns or r.group == name) and r.value is not None:
                return TrainingRate(1.0 - r.value if turned else r.value, r.rows)
    return None
