"""From what an audit of a file counted to the evidence of a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairboost.cli.wording import evidence_in_commands
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.classes import CLASS_RATES
from fairboost.fairness.numbers import Calibrated, SameDistribution
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics.classes import moments_of
from fairboost.metrics.intervals import wilson
from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report import DataFile, lines
from fairboost.report.evidence import (
    Asked,
    Data,
    Evidence,
    Finding,
    Gap,
    GroupRate,
    Limit,
    Performance,
    Roc,
    SensitiveColumnUse,
)
from fairboost.report.limits import with_limits
from fairboost.report.words import explain_decisions, rate_title
from fairboost.tabular.audit import FileAudit
from fairboost.tabular.files import TableFile
from fairboost.tabular.schema import class_values
from fairboost.verdicts.diagnostics import DECIDES
from fairboost.verdicts.verdict import status_of

NAMED = {"ae": RATIO}
"""Names of ``--max-gap`` that evidence has others for."""
OWN_FIGURES: dict[str, Callable[[float], GroupConstraint]] = {
    RATIO: Calibrated,
    DISTANCE: SameDistribution,
}
"""What is held to a limit and is no gap between two groups, as constraints have it."""

MOST_NAMED = 8
"""Groups that are not compared and named in a note; tables have all of them."""

NOT_PROBABILITIES = (
    "scores are not between 0 and 1, so they are no probabilities: curves, distributions and "
    "calibration are left out"
)


def audit_evidence(
    found: FileAudit, file: TableFile, *, title: str, limits: Mapping[str, float]
) -> Evidence:
    """Put an audit in order.

    Parameters
    ----------
    found : FileAudit
        What was found.
    file : TableFile
        Where the rows came from.
    title : str
        Of the report.
    limits : mapping of str to float
        The largest gap allowed, by rate; of positive decisions, it is that of negative ones, too.
    """
    request, counted, audit = found.request, found.counted, found.audit
    level, favourable = request.confidence, request.favourable
    bins = []
    if counted.are_probabilities and request.label is not None and not request.decides:
        bins = [counted.by_group(())] + [counted.by_group((c,)) for c in request.sensitive]
    rates = lines.rate_lines(audit.rates, request.sensitive)
    exact = {(r.attribute, r.group, r.rate): r.value for r in rates}
    gaps = lines.gap_lines(audit.gaps, lines.CHOSEN, favourable)
    allowed = {"pnr": limits.get("ppr"), **limits}
    asked = [
        Limit(g.attribute, g.rate, most)
        for g in gaps
        if g.attribute in request.sensitive and (most := allowed.get(g.rate)) is not None
    ]
    placed = isinstance(request.threshold, OperatingPoint)
    caution = lines.caution(rates, placed=placed)
    if request.decides:
        caution = _of_decisions(caution)
    point = audit.threshold if request.threshold is None else request.threshold
    where = explain_decisions(point, audit.threshold, "score", "on these rows ")
    if request.decides:
        where = f"decisions are those of the column {request.score!r}"
    evidence = Evidence(
        title=title,
        asked=Asked(
            level=level,
            operating_point=where,
            threshold=None if request.decides else float(audit.threshold),
            favourable=favourable,
            limits=tuple(asked),
        ),
        data=_data(found, file),
        rates=rates,
        verdicts=tuple(
            judge_gaps(
                asked,
                gaps,
                rates,
                request.min_group_rows,
                bool(caution),
                decisions=request.decides or not request.label,
            )
        ),
        gaps=gaps,
        performance=_performance(found, {} if not bins else bins[0].auc()),
        min_rows=request.min_rows,
        roc=tuple(_at_decisions(r, exact) for r in lines.roc_lines(bins, audit.threshold)),
        scores=lines.score_lines(bins, found.classes),
        calibration=lines.calibration_lines(bins, level),
        warnings=_warnings(found, rates),
        caution=caution,
    )
    return evidence_in_commands(with_limits(evidence, uncrossed=found.uncrossed))


def _of_decisions(caution: str) -> str:
    """A caution about decisions that were not made by a model, whose threshold nobody can move."""
    for said, instead in (
        (f"{DECIDES} next to nothing", "The decisions are nearly all the same"),
        (
            f"{DECIDES} no better than one that ignores the features: it decides positively about",
            "The decisions are unrelated to the label: positive are about",
        ),
    ):
        caution = caution.replace(said, instead)
    return re.sub("; choose another .*", ".", caution)


def judge_gaps(
    limits: Sequence[Limit],
    gaps: Sequence[Gap],
    rates: Sequence[GroupRate],
    least: int,
    says_nothing: bool = False,
    *,
    classes: Sequence[str] = (),
    decisions: bool = False,
) -> Iterator[Finding]:
    """Hold gaps to what they may be at most.

    Parameters
    ----------
    limits : sequence of Limit
        What they may be.
    gaps, rates : sequences
        What they are, and the rates that they are gaps of.
    least : int
        Rows that must count for a group to be compared.
    says_nothing : bool
        Whether decisions say nothing.
    classes : sequence of str
        The classes, if there are three or more.
    decisions : bool
        Whether a table of decisions is audited, in which nothing was predicted.
    """
    by_place = {(g.attribute, g.rate): g for g in gaps}
    for limit in limits:
        place = (limit.attribute, limit.rate)
        g = by_place[place]
        compared = [r for r in rates if (r.attribute, r.rate) == place and r.rows >= max(least, 1)]
        if g.gap is None or g.gap_low is None or g.gap_high is None:
            raise InvalidInputError(
                f"--max-gap {option_of(limit, classes)} cannot be judged by {limit.attribute}: "
                f"{len(compared)} of its groups have --min-group-rows={max(least, 1)} rows that "
                "count, and a comparison needs two; lower --min-group-rows, or leave the limit out"
            )
        smallest = min(compared, key=lambda r: r.rows)
        yield Finding(
            where="test",
            constraint=_in_words(limit, decisions),
            measure="largest distance" if limit.rate in OWN_FIGURES else "gap",
            value=g.gap,
            low=g.gap_low,
            high=g.gap_high,
            limit=limit.at_most,
            status=status_of(
                g.gap, g.gap_low, g.gap_high, limit.at_most, says_nothing=says_nothing
            ),
            smallest_group=f"{limit.attribute}={smallest.group}",
            smallest_rows=round(smallest.rows),
        )


def option_of(limit: Limit, classes: Sequence[str] = ()) -> str:
    """A limit as it is written on the command line.

    Parameters
    ----------
    limit : Limit
        The limit.
    classes : sequence of str
        The classes, if there are three or more.

    Examples
    --------
    >>> option_of(Limit("sex", "recall of 'A'", 0.05), ("A", "B", "C"))
    'recall[A]=0.05'
    """
    named = {rate: name for name, rate in NAMED.items()}
    named |= {m.title: m.name for m in moments_of(class_values(classes).tolist(), CLASS_RATES)}
    return f"{named.get(limit.rate, limit.rate)}={limit.at_most:g}"


def _in_words(limit: Limit, decisions: bool) -> str:
    if limit.rate in OWN_FIGURES:
        return OWN_FIGURES[limit.rate](limit.at_most).words(limit.attribute)
    title = rate_title(limit.rate)
    title = title.removeprefix("predicted ") if decisions else title
    return f"{title} equal by {limit.attribute}, tolerance {limit.at_most:g}"


def _data(found: FileAudit, file: TableFile) -> Data:
    groups = found.counted.cells.values
    return Data(
        label=found.request.label or "",
        decision=found.request.score if found.request.decides or not found.request.label else "",
        positive=found.classes[1],
        negative=found.classes[0],
        sensitive=tuple(
            SensitiveColumnUse(name, len(groups[name]), missing)
            for name, missing in _missing(found).items()
        ),
        splits={"test": found.rows},
        files=(
            DataFile(
                "audit",
                file.path.name,
                file.sha256(),
                found.rows + found.unlabelled + found.undecided,
            ),
        ),
        weight=found.request.weight,
    )


def _missing(found: FileAudit) -> dict[str, int]:
    """Rows of unknown group, by sensitive column."""
    cells = found.counted.cells
    return {n: int(cells.counts[cells.groups[n] < 0].sum()) for n in found.request.sensitive}


def _performance(found: FileAudit, auc: dict[str, float]) -> tuple[Performance, ...]:
    """Accuracy, which counts give exactly, and the AUC, which bins give nearly."""
    if found.request.label is None:
        return ()
    _, weight, square = found.counted.sums
    labels = found.counted.cells.labels
    right = float(weight[labels, np.arange(len(labels))].sum())
    whole = float(weight.sum())
    effective = whole**2 / float(square.sum())
    low, high = wilson(right / whole * effective, effective, found.request.confidence)
    accuracy = Performance(lines.CHOSEN, "accuracy", right / whole, float(low), float(high))
    if auc and np.isfinite(auc["everyone"]):
        return accuracy, Performance(lines.CHOSEN, "AUC", auc["everyone"])
    return (accuracy,)


def _at_decisions(roc: Roc, exact: dict[tuple[str, str, str], float | None]) -> Roc:
    """The curve with the rates of the decisions themselves, not those of the nearest bin."""
    fpr = exact.get((roc.attribute, roc.group, "fpr"))
    fnr = exact.get((roc.attribute, roc.group, "fnr"))
    return replace(roc, at_fpr=fpr, at_tpr=None if fnr is None else 1.0 - fnr)


def _warnings(found: FileAudit, rates: Sequence[GroupRate]) -> tuple[str, ...]:
    said = row_warnings(found.unlabelled, _missing(found))
    if found.undecided:
        said.append(
            f"{found.undecided:,} rows are left out, since their decision is missing; if these "
            "are other people than the rest, the figures do not hold for them"
        )
    decisions = found.request.decides or not found.request.label
    said += small_warnings(rates, found.request.min_group_rows, decisions=decisions)
    if found.request.label and not found.counted.are_probabilities:
        said.append(NOT_PROBABILITIES)
    return tuple(said)


def row_warnings(unlabelled: int, missing: Mapping[str, int]) -> list[str]:
    """Say which rows are left out, or in no group.

    Parameters
    ----------
    unlabelled : int
        Rows without a label.
    missing : mapping of str to int
        Rows of unknown group, by sensitive column.
    """
    said = []
    if unlabelled:
        said.append(
            f"{unlabelled:,} rows are left out, since their label is missing; if these are other "
            "people than the rest, the figures do not hold for them"
        )
    said += [
        f"{name!r} is missing in {rows:,} rows; these count among everyone, and in no group"
        for name, rows in missing.items()
        if rows
    ]
    return said


def small_warnings(
    rates: Sequence[GroupRate], least: int, *, decisions: bool = False
) -> list[str]:
    """Say which groups are not compared."""
    few: dict[str, list[str]] = {}
    for r in rates:
        if r.attribute and r.rows < least and not r.crossed:
            rate = "positive rate" if decisions and r.rate == "ppr" else r.rate
            few.setdefault(f"{r.attribute} = {r.group}", []).append(f"{rate} {r.rows:,.0f}")
    named = "; ".join(f"{g} ({', '.join(those)} rows)" for g, those in [*few.items()][:MOST_NAMED])
    named += f"; and {len(few) - MOST_NAMED} more groups, marked as small" * (
        len(few) > MOST_NAMED
    )
    said = f"not compared, because fewer than {least} rows count (--min-group-rows): {named}"
    return [said] if few else []
