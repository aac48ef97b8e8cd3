"""``fairboost audit``: rates by group of any model's scores or decisions, and filings."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairboost._text import did_you_mean
from fairboost.cli import arguments, filings
from fairboost.cli.console import Console
from fairboost.cli.exits import DONE, NOT_MET
from fairboost.cli.task import (
    CLASSES,
    CLASSIFICATION,
    LIMITED,
    REGRESSION,
    decides_class,
    predicts_number,
    settle_task,
)

if TYPE_CHECKING:
    from fairboost.report.evidence import Evidence, Gap
    from fairboost.tabular.audit import AuditRequest

USAGE = "DATA --score|--decision COLUMN --sensitive COLUMN [--label COLUMN] [options]"
SUMMARY = "rates by group of any scores or decisions, and the documents that laws ask for"
DESCRIPTION = (
    "Compare rates across groups, for the scores or decisions of any model or person. The table "
    "has a column of scores or decisions, sensitive columns and, for error rates, a column of "
    "labels. Without labels, the shares of positive decisions are compared. The table is read in "
    "pieces, so it may be larger than memory. If the label is a number, the command compares "
    "means, actual over expected, losses and distributions. If the label is one of several "
    "classes, it compares shares given each class, recalls and confusion matrices. The columns "
    "must then fit into memory. --format prepares a document that a law or a supervisor asks for; "
    "see docs/law/."
)
EXAMPLE = """\
  fairboost audit scores.csv --label approved --score score --sensitive sex

The command prints error rates by sex with intervals, their gaps, the four-fifths rule and the
calibration of the scores. With several sensitive columns it also crosses them, and marks groups
that are too small to judge. In a pipeline, `--max-gap fnr=0.05` ends with exit code 3 if the gap
of the false negative rates is certainly larger than 0.05, or with `--decide estimate` if it is
larger on these rows.

Without labels: `--decision hired` in place of `--label` and `--score`. For New York City's Local
Law 144: `--decision hired --sex sex --race race --format ll144 --out ll144`.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "data",
        type=Path,
        help="the table: CSV, parquet, Arrow or xlsx; for some formats a folder (see --format)",
    )
    words = "the actual label (default: none; only shares of decisions are compared)"
    asked = "the positive value of the label and of the decision"
    columns = arguments.add_label_options(parser, words, asked, required=False)
    words = "scores, larger for the positive label; for numbers, the predictions"
    scored = columns.add_mutually_exclusive_group()
    scored.add_argument("--score", **arguments.COLUMN, help=words)
    words = "decisions of two values, such as yes and no, or the class that is given"
    scored.add_argument("--decision", **arguments.COLUMN, help=words)
    columns.add_argument("--sensitive", **{**arguments.SENSITIVE, "required": False})
    columns.add_argument("--weight", **arguments.WEIGHT)
    words = "a column of exposures, such as years insured; means are per unit (regression)"
    columns.add_argument("--exposure", **arguments.COLUMN, help=words)
    arguments.add_point_options(parser)
    judged = parser.add_argument_group("how it is judged")
    judged.add_argument(
        "--level", type=float, default=0.95, help="confidence of the intervals (default: 0.95)"
    )
    judged.add_argument(
        "--min-rows",
        type=int,
        default=30,
        metavar="N",
        help="mark groups in which fewer rows count as small (default: 30; at least "
        "--min-group-rows)",
    )
    arguments.add_min_group_rows(judged)
    judged.add_argument(
        "--max-gap",
        **arguments.REPEATABLE,
        type=_limit,
        metavar="RATE=GAP",
        help="end with exit code 3 if a gap between groups is larger, such as fnr=0.05 (see "
        f"--decide). Rates: {', '.join(LIMITED[CLASSIFICATION])}; for classes "
        f"{', '.join(LIMITED[CLASSES])}, of all classes or of one (recall[A]=0.05); for numbers "
        f"{', '.join(LIMITED[REGRESSION])} (ae: distance of actual over expected from 1); "
        "repeatable",
    )
    judged.add_argument(
        "--loss",
        choices=("squared", "absolute", "poisson", "gamma", "tweedie"),
        help="the loss whose mean is shown (regression; default: squared, or poisson with "
        "--exposure)",
    )
    arguments.add_decide_option(judged)
    filings.add_filing_options(parser)
    arguments.add_reading_options(parser)
    words = "write the report or document there (default: only tables, on the screen)"
    arguments.add_folder_options(parser, help=words)


def _limit(text: str) -> tuple[str, float]:
    rate, _, gap = text.rpartition("=")  # a class may have one in its name
    of_numbers = rate in LIMITED[REGRESSION]
    known = rate in chain.from_iterable(LIMITED.values()) or (
        rate.endswith("]") and rate.partition("[")[0] in LIMITED[CLASSES]
    )
    rates = ", ".join(chain.from_iterable(LIMITED.values()))
    message = f"expected RATE=GAP, such as fnr=0.05, with a rate of {rates}; found {text!r}"
    if not known:
        message += did_you_mean(rate, chain.from_iterable(LIMITED.values()))
    most = math.inf if of_numbers else 1.0
    return rate, arguments.read_number(
        float, gap, lambda limit: known and 0 <= limit < most, message
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Audit, show the tables, and write the report; or prepare the document asked for."""
    from fairboost.cli.outputs import check_folder, fill_folder
    from fairboost.cli.tables import audit_text
    from fairboost.report import write_report

    filings.settle_format(options)
    read = (options.data, options.model)
    check_folder(options.out, force=options.force, inputs=read, plots=options.format is None)
    if options.format is not None:
        filings.run_filing(options, console, _gather)
        return DONE
    evidence, threshold = _gather(options, console)
    console.result(audit_text(evidence))
    files = fill_folder(options, lambda folder: write_report(evidence, folder))
    console.written(options.out, files)
    over = _beyond(console, evidence, by_figure=options.decide == "estimate")
    console.finish(
        rows=evidence.data.splits["test"],
        threshold=threshold,
        rates=evidence.rates,
        gaps=evidence.gaps,
        calibration=evidence.calibration,
        deciles=evidence.deciles,
        confusion=evidence.confusion,
        performance=evidence.performance,
        verdicts=evidence.verdicts,
        over=over,
        warnings=evidence.warnings,
        limits=evidence.limits,
        files=files,
    )
    return NOT_MET if over else DONE


def _gather(options: argparse.Namespace, console: Console) -> tuple[Evidence, float | None]:
    """Audit a table: what was found, and the threshold of decisions if there is one."""
    from fairboost.cli.audit_evidence import audit_evidence
    from fairboost.cli.class_evidence import class_evidence
    from fairboost.cli.number_evidence import number_evidence
    from fairboost.tabular.audit import audit_file
    from fairboost.tabular.classes import read_classes
    from fairboost.tabular.numbers import read_numbers

    filings.require_columns(options)
    settle_task(options, console, first_rows=True)
    request = _request(options)
    file = arguments.table_of(options, options.data)
    told: Any = {"title": options.title or f"Audit of {file.path.name}"}
    told["limits"] = _strictest(options.max_gap)
    threshold = decisions = None
    with console.collecting_warnings(), console.reading(file, "reading") as advance:
        if decides_class(options):
            evidence = class_evidence(read_classes(file, request, advance), file, **told)
        elif predicts_number(options):
            evidence = number_evidence(read_numbers(file, request, advance), file, **told)
        else:
            found = audit_file(file, request, advance)
            threshold = found.audit.threshold
            evidence = audit_evidence(found, file, **told)
            decisions = found.decisions
    filings.say_positive(console, request, decisions)
    console.notes(filter(None, (evidence.caution, *evidence.warnings)))
    return evidence, threshold


def _request(options: argparse.Namespace) -> AuditRequest:
    """What to audit."""
    from fairboost.tabular.audit import AuditRequest

    return AuditRequest(
        label=options.label,
        score=options.score or options.decision,
        sensitive=tuple(options.sensitive),
        positive=options.positive,
        weight=options.weight,
        threshold=options.point,
        confidence=options.level,
        min_rows=max(options.min_rows, options.min_group_rows),
        min_group_rows=options.min_group_rows,
        favourable=options.favourable or "positive",
        exposure=options.exposure,
        loss=options.loss,
        of_classes=decides_class(options),
        decides=options.decision is not None and not decides_class(options),
    )


def _beyond(console: Console, evidence: Evidence, *, by_figure: bool) -> list[Gap]:
    """The gaps that fail their limits; a remark on each limit."""
    from fairboost.cli.audit_evidence import option_of
    from fairboost.cli.tables import fails, finding
    from fairboost.report.words import gap_title

    gaps = {(g.attribute, g.rate): g for g in evidence.gaps}
    # Some are limits of every group: there is one verdict on all of these.
    limits = dict.fromkeys(replace(one, group=None, around=None) for one in evidence.asked.limits)
    over = []
    for limit, found in zip(limits, evidence.verdicts, strict=True):
        g = gaps[limit.attribute, limit.rate]
        what = f"{g.rate} gap" if evidence.task == "decisions" else gap_title(g.rate)
        said = (
            f"he {what} by {g.attribute} is {finding(found, evidence)}: --max-gap "
            f"{option_of(limit, evidence.data.classes)} is {found.status}."
        )
        if fails(found, by_figure=by_figure):
            over.append(g)
            console.reason(NOT_MET, f"t{said}")
        else:
            console.remark(f"T{said}")
    return over


def _strictest(limits: list[tuple[str, float]]) -> dict[str, float]:
    """What each rate's gap may be, where one was named more than once the least of it."""
    return {rate: min(gap for name, gap in limits if name == rate) for rate, _ in limits}
