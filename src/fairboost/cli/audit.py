"""``fairboost audit``: rates by group of any model's scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import (
    add_command,
    add_output_options,
    add_point_options,
    add_reading_options,
    console_of,
    favourable_of,
    point_of,
    read_options_of,
)
from fairboost.cli.exits import DONE, NOT_MET

EXAMPLE = """\
  fairboost audit scores.csv --label approved --score score --sensitive sex

A table of error rates by sex, each with its interval; how far apart they are; the four-fifths
rule; and how well scores are calibrated. Name several sensitive columns to see them crossed as
well; groups too small to judge by are marked. In a pipeline, `--max-gap fnr=0.05` ends with exit
code 3 if false negative rates are surely further apart than that.
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "audit",
        _run,
        usage="DATA --label COLUMN --score COLUMN --sensitive COLUMN [options]",
        summary="rates by group of any model's scores",
        description="Compare error rates across groups, for the scores of any model: a table with "
        "a column of labels, a column of scores and sensitive columns. It is read in pieces, so "
        "it may be larger than memory; once, or twice where a threshold is to be found.",
        example=EXAMPLE,
    )
    parser.add_argument("data", type=Path, help="the table: CSV, parquet or Arrow")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--label", required=True, metavar="COLUMN", help="what came true")
    columns.add_argument(
        "--positive",
        metavar="VALUE",
        help="the positive label (default: the one that says yes, 1 or true)",
    )
    columns.add_argument(
        "--score", required=True, metavar="COLUMN", help="scores that rise with the positive label"
    )
    columns.add_argument(
        "--sensitive",
        action="append",
        required=True,
        metavar="COLUMN",
        help="a column that says which group a row belongs to; repeatable",
    )
    columns.add_argument("--weight", metavar="COLUMN", help="a column of weights of rows")
    add_point_options(parser)
    judged = parser.add_argument_group("how it is judged")
    judged.add_argument(
        "--level", type=float, default=0.95, help="coverage of intervals (default: 0.95)"
    )
    judged.add_argument(
        "--min-rows",
        type=int,
        default=30,
        metavar="N",
        help="groups with fewer counting rows are marked as small (default: 30)",
    )
    judged.add_argument(
        "--max-gap",
        action="append",
        default=[],
        type=_limit,
        metavar="RATE=GAP",
        help="end with exit code 3 if a gap between groups is surely larger, such as fnr=0.05; "
        "rates: fpr, fnr, ppr, precision; repeatable",
    )
    add_reading_options(parser)
    written = parser.add_argument_group("what is written")
    written.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write a report there (default: only a table)"
    )
    written.add_argument("--force", action="store_true", help="replace the folder if it is there")
    written.add_argument("--title", help="title of the report")
    add_output_options(parser)


def _limit(text: str) -> tuple[str, float]:
    rate, _, gap = text.partition("=")
    known = ("fpr", "fnr", "ppr", "precision")
    try:
        limit = float(gap)
    except ValueError:
        limit = -1.0
    if rate not in known or not 0 <= limit < 1:
        raise argparse.ArgumentTypeError(
            f"expected RATE=GAP, such as fnr=0.05, with a rate of {', '.join(known)}; found "
            f"{text!r}"
        )
    return rate, limit


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli.audit_evidence import audit_evidence
    from fairboost.cli.audit_tables import audit_text
    from fairboost.cli.outputs import check_folder, new_folder
    from fairboost.report import write_report
    from fairboost.tabular.audit import AuditRequest, audit_file
    from fairboost.tabular.files import TableFile

    console = console_of(options)
    if options.out is not None:
        check_folder(options.out, force=options.force)
    request = AuditRequest(
        label=options.label,
        score=options.score,
        sensitive=tuple(options.sensitive),
        positive=options.positive,
        weight=options.weight,
        threshold=point_of(options),
        confidence=options.level,
        min_rows=options.min_rows,
        favourable=favourable_of(options),
    )
    file = TableFile(options.data, read_options_of(options))
    with console.collecting_warnings(), console.reading(file, "reading") as advance:
        found = audit_file(file, request, advance)
    title = options.title or f"Audit of {file.path.name}"
    evidence = audit_evidence(found, file, title=title)
    for warning in evidence.warnings:
        console.remark(f"Note: {warning}")
    console.result(audit_text(evidence))
    files: list[str] = []
    if options.out is not None:
        with new_folder(options.out, force=options.force) as folder:
            write_report(evidence, folder)
            files = sorted(path.name for path in folder.iterdir())
        console.result(f"\nWritten to {options.out}: {', '.join(files)}")
    limits = dict(options.max_gap)
    limits["pnr"] = limits.get("ppr", 1.0)  # the gap is the same
    over = [
        g
        for g in evidence.gaps
        if g.rate in limits and (g.gap_low or 0.0) > limits[g.rate] and ", " not in g.attribute
    ]
    for g in over:
        console.remark(
            f"The {g.rate} gap by {g.attribute} is {g.gap:.3f}, surely more than the "
            f"{limits[g.rate]:g} of --max-gap."
        )
    console.finish(
        rows=found.rows,
        threshold=found.audit.threshold,
        rates=[vars(r) for r in evidence.rates],
        gaps=[vars(g) for g in evidence.gaps],
        calibration=[vars(c) for c in evidence.calibration],
        performance=[vars(p) for p in evidence.performance],
        over=[vars(g) for g in over],
        warnings=list(evidence.warnings),
        limits=list(evidence.limits),
        files=files,
    )
    return NOT_MET if over else DONE
