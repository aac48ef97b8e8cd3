"""``fairboost monitor``: rates and gaps of a model in use, over time, with alarms."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairboost._text import text_table
from fairboost.cli import arguments
from fairboost.cli.console import WIDTH, Console
from fairboost.cli.exits import DONE, NOT_JUDGED, NOT_MET
from fairboost.exceptions import InvalidInputError

if TYPE_CHECKING:
    from fairboost.filings import Filing
    from fairboost.monitoring.counts import PeriodCounts
    from fairboost.monitoring.deployed import Deployed
    from fairboost.monitoring.watch import Watched
    from fairboost.tabular.files import TableFile
    from fairboost.tabular.periods import CountedPeriods, DecidedRows
    from fairboost.tabular.schema import TableSchema

USAGE = "MODEL DATA --by COLUMN[:month] [options]"
SUMMARY = "rates and gaps of a model in use, period by period, with alarms"
DESCRIPTION = (
    "Watch a model after deployment. The table has the scores or decisions of the model, the "
    "sensitive columns, a column of dates or periods and, where error rates are constrained, the "
    "labels that are known so far. For every period, and for all rows so far, the command shows "
    "rates by group, each constraint of the model, the share of positive decisions, and shares of "
    "groups. Intervals hold at all looks at once, so the command may be run after every period. "
    "The table is read in pieces, so it may be larger than memory. See docs/monitoring.md."
)
EXAMPLE = """\
  fairboost monitor model decided.csv --by decided_at:month --out monitoring

monitoring/ then holds a page (HTML and Markdown), the same as JSON, and tables as CSV. Columns
have the names that `fairboost train` and `fairboost predict` gave them. Labels may be missing, for
example for recent decisions.

Exit code 3 means that an alarm is active: a constraint or the target of the operating point is
certainly broken, or a rate or the share of a group has certainly changed by more than
`--max-change`. Exit code 4 means that the only active alarms say that rows cannot be judged: a
constraint has no eligible rows (no row has a label yet, or groups are written in another way than
in training), a group has vanished, or more rows than in training are in no known group. Exit code
0 does not mean that every constraint is met: the first line says whether that is certain, and
"alarm at" which breach of a limit the rows so far could have shown.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("model", type=Path, help="the folder that `fairboost train` wrote")
    parser.add_argument(
        "data", type=Path, help="scores or decisions of the model: CSV, parquet, Arrow or xlsx"
    )
    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--by",
        required=True,
        metavar="COLUMN[:RESOLUTION]",
        help="a column of dates and the length of a period (day, week, month, quarter or year), "
        "such as decided_at:month; or a column with the name of the period, such as 2026-03",
    )
    words = "the actual label, where it is known (default: the label of training, if present)"
    columns.add_argument("--label", **arguments.COLUMN, help=words)
    scored = columns.add_mutually_exclusive_group()
    words = "probabilities of the model; its threshold decides (default: score)"
    scored.add_argument("--score", **arguments.COLUMN, help=words)
    words = "decisions, in the labels of training (default: decision, if there is no score)"
    scored.add_argument("--decision", **arguments.COLUMN, help=words)
    judged = parser.add_argument_group("how it is judged")
    judged.add_argument(
        "--level",
        type=float,
        default=0.95,
        help="probability that all intervals hold at all looks (default: 0.95)",
    )
    judged.add_argument(
        "--max-change",
        type=_change,
        default=0.0,
        metavar="CHANGE",
        help="how much a rate or the share of a group may change without an alarm, such as 0.05 "
        "(default: 0)",
    )
    words = "leave out earlier periods, for example after you have dealt with a change"
    judged.add_argument("--since", metavar="PERIOD", help=words)
    arguments.add_reading_options(parser)
    words = "folder for the page and the tables (default: print only)"
    arguments.add_folder_options(parser, help=words)


def _change(text: str) -> float:
    message = f"--max-change must be a number from 0 to 1, found {text!r}; write 0.05 for 5 points"
    return arguments.read_number(float, text, lambda value: 0 <= value < 1, message)


def run(options: argparse.Namespace, console: Console) -> int:
    """Count, judge, show and write."""
    from fairboost.cli.outputs import check_folder, fill_folder
    from fairboost.monitoring.page import alarm_in_words

    read = (options.data, options.model)
    check_folder(options.out, force=options.force, inputs=read)
    watched, page, notes = _watch(options, console)
    console.notes(notes)
    console.result(monitoring_text(watched, page))
    files = fill_folder(options, page.write)
    console.written(options.out, files)
    code = DONE
    if watched.standing:
        code = NOT_JUDGED if all(a.kind == "rows" for a in watched.standing) else NOT_MET
    for alarm in watched.standing:
        console.reason(code, alarm_in_words(alarm))
    console.finish(**page.facts, **page.tables, files=files)
    return code


def _watch(options: argparse.Namespace, console: Console) -> tuple[Watched, Filing, list[str]]:
    """Watch the rows; returns what was found, the page, and what to bear in mind."""
    from fairboost.cli.model_folder import load_model
    from fairboost.fairness.constraints import resolve
    from fairboost.fairness.operating_points import OperatingPoint
    from fairboost.fairness.tolerance import with_tolerances
    from fairboost.monitoring.counts import PeriodCounts
    from fairboost.monitoring.deployed import deployed
    from fairboost.monitoring.page import monitoring_page
    from fairboost.monitoring.watch import watch
    from fairboost.tabular.periods import count_periods

    model, schema = load_model(options.model)
    if schema.classes is None or schema.several:
        raise InvalidInputError(
            f"the model in {str(options.model)!r} decides among several classes or predicts a "
            "number; monitoring is for decisions of two values, see `fairboost audit` for others"
        )
    model_: Any = model
    evidence = _evidence(options.model)
    file = arguments.table_of(options, options.data, schema.missing)
    asked = _asked(options, file, schema, float(model_.threshold_))
    with console.reading(file, "reading") as advance:
        found = count_periods(file, asked, advance)
    counts = PeriodCounts(found.periods, tuple(schema.sensitive), found.cells, found.rows)
    counts = _since(counts, options.since)
    point = model_.operating_point
    use = deployed(
        evidence,
        with_tolerances(
            resolve(model_.constraint, model_.tolerance, schema.sensitive), model_.tolerances_
        ),
        point if isinstance(point, OperatingPoint) else None,
        columns=schema.sensitive,
        min_group_rows=model_.min_group_rows,
    )
    watched = watch(
        counts, use.checks, use.more, use.reference,
        confidence=options.level, max_change=options.max_change, left=use.left,
    )  # fmt: skip
    notes = list(_notes(asked, found, counts, use))
    facts = {
        "Model": f"{options.model.name}, trained on {evidence.data.files[0].name}",
        "File": file.path.name,
        "SHA-256 of the file": file.sha256(),
        "Rows": f"{int(counts.by_period().sum()):,}",
        "Rows with a label": f"{int(counts.labelled().sum()):,}",
        "Decisions": evidence.asked.operating_point,
        "Periods": f"{len(counts.periods)}, by {options.by}",
    }
    title = options.title or f"Monitoring of {file.path.name}"
    return watched, monitoring_page(watched, title=title, facts=facts, notes=notes), notes


def _evidence(folder: Path) -> Any:
    from fairboost.report import Evidence

    path = folder / "evidence.json"
    if not path.is_file():
        raise InvalidInputError(
            f"there is no {str(path)!r}, which has the groups and rates of training; name a "
            "folder that `fairboost train` wrote"
        )
    return Evidence.load(path)


def _asked(
    options: argparse.Namespace, file: TableFile, schema: TableSchema, threshold: float
) -> DecidedRows:
    """The columns to read: those that were named, or that training and predict have named."""
    from fairboost.cli.predictions import DECISION, SCORE
    from fairboost.tabular.periods import DecidedRows, PeriodColumn
    from fairboost.tabular.schema import check_named_once

    names = file.column_names()
    by = PeriodColumn.parse(options.by, names)
    file.require(schema.sensitive, "a sensitive column of the model")
    score, decision, label = options.score, options.decision, options.label
    if score is None and decision is None:
        score, decision = (name if name in names else None for name in (SCORE, DECISION))
        if score is None and decision is None:
            raise InvalidInputError(
                f"{str(file.path)!r} has neither a column {SCORE!r} nor a column {DECISION!r}; "
                "name one with --score or --decision"
            )
    file.require([name for name in (score, decision) if name], "named in the command")
    if label is None:
        label = schema.label if schema.label in names else None
    else:
        file.require([label], "named by --label")
    roles = [by.name, *filter(None, (label, score, decision)), *schema.sensitive]
    check_named_once(roles, "--by, --label, --score, --decision and the sensitive columns")
    assert schema.classes is not None
    negative, positive = schema.classes
    return DecidedRows(
        by, tuple(schema.sensitive), (negative, positive), label, score, decision, threshold
    )


def _since(counts: PeriodCounts, period: str | None) -> PeriodCounts:
    """The rows from a period on."""
    if period is None:
        return counts
    if period not in counts.periods:
        shown = f"{counts.periods[0]} to {counts.periods[-1]}"
        raise InvalidInputError(
            f"--since {period!r} is not a period of the table, which has {shown}; name one of them"
        )
    start = counts.periods.index(period)
    return replace(counts, periods=counts.periods[start:], rows=counts.rows[start:])


def _notes(
    asked: DecidedRows, found: CountedPeriods, counts: PeriodCounts, use: Deployed
) -> Iterator[str]:
    """What to bear in mind."""
    yield from use.notes
    yield from use.unknown_groups(counts)
    rows, labelled = int(counts.by_period().sum()), int(counts.labelled().sum())
    if asked.label is None:
        yield "there is no column of labels, so no error rate is known; name one with --label"
    elif labelled < rows:
        yield (
            f"{labelled:,} of {rows:,} rows have a label; rates that need one are of these rows "
            "only"
        )
    if found.undated:
        yield f"{found.undated:,} rows are left out, since {asked.by.name!r} is missing"
    if found.undecided:
        yield f"{found.undecided:,} rows are left out, since their decision is missing"
    if found.in_order_of_rows and len(found.periods) > 1:
        yield (
            f"periods are in the order in which they occur in {asked.by.name!r}, "
            f"{found.periods[0]!r} first, since their names say no order"
        )
    empty = [p for p, n in zip(counts.periods, counts.by_period(), strict=True) if not n]
    if empty:
        yield f"there are no rows of {', '.join(empty[:5])}{', ...' if len(empty) > 5 else ''}"


def monitoring_text(watched: Watched, page: Filing) -> str:
    """What was found, as text for a terminal."""
    from fairboost.monitoring.counts import Series
    from fairboost.monitoring.page import doubts, headline, in_words, known
    from fairboost.report.words import number

    counts, last = watched.counts, len(watched.counts.periods) - 1
    verdicts = {(v.check, v.so_far): v for v in watched.verdicts if v.period == last}
    lines = [
        [
            check.text,
            "so far" if so_far else "of the period",
            in_words(v.value, v.low, v.high),
            v.status,
            number(known(v.alarm_at)),
        ]
        for k, check in enumerate(watched.checks)
        for so_far in (True, False)
        if (v := verdicts[k, so_far])
    ]
    k = watched.series.index(Series((), (), "ppr"))
    ends = (
        x[k, :, 1].tolist() for x in (watched.bands.value, watched.bands.low, watched.bands.high)
    )
    rows, labelled = counts.by_period().tolist(), counts.labelled().tolist()
    shares = [
        [period, f"{n:,}", f"{m:,}", in_words(*ends_of_rate)]
        for period, n, m, *ends_of_rate in zip(counts.periods, rows, labelled, *ends, strict=True)
    ]
    said = [
        textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        for text, indent in (
            (headline(watched).text, ""),
            *((f"- {d}", "  ") for d in doubts(watched)),
        )
    ]
    parts = [
        f"{page.title}\n\n" + "\n".join(said),
        text_table(["period", "rows", "with a label", "positive decisions"], shares),
    ]
    if lines:
        header = [f"at the end of {counts.periods[-1]}", "rows", "found", "verdict", "alarm at"]
        parts.append(text_table(header, lines))
    return "\n\n".join(parts)
