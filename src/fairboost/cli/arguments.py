"""Options that several commands share, and how help pages look."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairboost.cli.console import Console
from fairboost.fairness.constraints import NAMED_CONSTRAINTS
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_positive_rate, at_tpr
from fairboost.tabular.files import ReadOptions

WIDTH = 99


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Examples keep their lines; options are as wide as they need."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=WIDTH)


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    usage: str,
    summary: str,
    description: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a command; ``usage`` is what it cannot do without."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"fairboost {name} {usage}",
        help=summary,
        description=textwrap.fill(description, WIDTH),
        epilog=f"example:\n\n{example.rstrip()}\n",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, json=False, quiet=False, debug=False)
    return parser


def add_output_options(parser: argparse.ArgumentParser, *, as_json: bool = True) -> None:
    """Options on what is shown."""
    group = parser.add_argument_group("what is shown")
    if as_json:
        group.add_argument(
            "--json",
            action="store_true",
            help="results as one JSON object on standard output, for programs",
        )
    group.add_argument("--quiet", action="store_true", help="no progress bars and no remarks")
    group.add_argument("--debug", action="store_true", help="show where an error comes from")


def console_of(options: argparse.Namespace) -> Console:
    """Where words go."""
    return Console(as_json=options.json, quiet=options.quiet)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Options on how CSV files are read."""
    group = parser.add_argument_group("CSV files")
    group.add_argument("--encoding", default="utf-8", help="encoding of the text (default: utf-8)")
    group.add_argument(
        "--delimiter", help="what separates fields: , ; | or tab (default: told by the header)"
    )
    group.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="a spelling of a missing value, beside the empty one, NA, NaN and null; repeatable",
    )


def read_options_of(options: argparse.Namespace) -> ReadOptions:
    """How CSV files are read."""
    return ReadOptions(options.encoding, options.delimiter, tuple(options.missing))


def add_point_options(parser: argparse.ArgumentParser) -> None:
    """Options on where decisions are made."""
    group = parser.add_argument_group("where decisions are made")
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--threshold",
        type=float,
        metavar="SCORE",
        help="the score from which a decision is positive (default: 0.5)",
    )
    points: list[tuple[str, Callable[[float], OperatingPoint], str]] = [
        ("--at-fpr", at_fpr, "where the false positive rate of everyone is at most this"),
        ("--at-tpr", at_tpr, "where the true positive rate of everyone is at least this"),
        ("--at-positive-rate", at_positive_rate, "at most this share of positive decisions"),
    ]
    for flag, make, words in points:
        one.add_argument(flag, dest="point", type=_point(make), metavar="RATE", help=words)
    group.add_argument(
        "--favourable",
        choices=("positive", "negative"),
        default="positive",
        help="the decision that people hope for, which the four-fifths rule is about; with fraud "
        "it is the negative one (default: positive)",
    )


def _point(make: Callable[[float], OperatingPoint]) -> Callable[[str], OperatingPoint]:
    def read(text: str) -> OperatingPoint:
        try:
            return make(float(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def point_of(options: argparse.Namespace) -> float | OperatingPoint:
    """Where decisions are made."""
    if options.point is not None:
        point: OperatingPoint = options.point
        return point
    return 0.5 if options.threshold is None else float(options.threshold)


def favourable_of(options: argparse.Namespace) -> Any:
    """The decision that people hope for."""
    return options.favourable


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Options of the commands that train."""
    parser.add_argument("data", type=Path, help="the table to train on: CSV, parquet or Arrow")
    _add_column_options(parser.add_argument_group("columns"))
    _add_fairness_options(parser.add_argument_group("fairness"))
    add_point_options(parser)
    _add_row_options(parser.add_argument_group("rows"))
    _add_engine_options(parser.add_argument_group("engine"))
    add_reading_options(parser)


def _add_column_options(group: Any) -> None:
    group.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
    group.add_argument(
        "--positive",
        metavar="VALUE",
        help="the label that decisions are after (default: the one that says yes, 1 or true)",
    )
    group.add_argument(
        "--sensitive",
        action="append",
        required=True,
        metavar="COLUMN",
        help="a column that says which group a row belongs to; repeatable",
    )
    seen = group.add_mutually_exclusive_group()
    seen.add_argument(
        "--blind",
        dest="aware",
        action="store_false",
        default=False,
        help="the model does not see the sensitive columns (the default)",
    )
    seen.add_argument(
        "--aware",
        action="store_true",
        default=False,
        help="the model sees them, in use as in training",
    )
    group.add_argument("--weight", metavar="COLUMN", help="a column of weights of rows")
    group.add_argument(
        "--categorical",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column whose numbers are codes; repeatable. Text is taken so anyway",
    )
    group.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column that is no feature; repeatable",
    )


def _add_fairness_options(group: Any) -> None:
    group.add_argument(
        "--constraint",
        action="append",
        choices=sorted(NAMED_CONSTRAINTS),
        help="what must be alike across groups: equal_opportunity (false negatives), "
        "predictive_equality (false positives), equalized_odds (both, the default), "
        "demographic_parity (positive decisions); repeatable",
    )
    group.add_argument(
        "--tolerance",
        type=_share("--tolerance", least=0.0),
        default=0.01,
        metavar="GAP",
        help="how far apart the rates of two groups may be (default: 0.01)",
    )
    group.add_argument(
        "--confidence",
        type=_share("--confidence"),
        metavar="SHARE",
        help="be sure of it to this degree, such as 0.9 (default: the figure itself counts)",
    )


def _add_row_options(group: Any) -> None:
    rows = group.add_mutually_exclusive_group()
    rows.add_argument(
        "--test-share",
        type=_share("--test-share"),
        default=0.2,
        metavar="SHARE",
        help="share of the rows to test on, drawn by chance (default: 0.2)",
    )
    rows.add_argument("--test", type=Path, metavar="FILE", help="rows to test on, in a file")
    group.add_argument(
        "--holdout",
        type=Path,
        metavar="FILE",
        help="rows to read rates on in training (default: a part of those to train on)",
    )
    group.add_argument(
        "--holdout-share",
        type=_share("--holdout-share"),
        metavar="SHARE",
        help="share of the rows to train on, to read rates on; beside --holdout rates are read on "
        "both (default: chosen by their number, none beside --holdout)",
    )
    group.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")


def _add_engine_options(group: Any) -> None:
    group.add_argument(
        "--engine",
        choices=("lightgbm", "xgboost"),
        default="lightgbm",
        help="what grows the trees (default: lightgbm)",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="an option of the engine, such as num_leaves=31; repeatable",
    )
    group.add_argument("--jobs", type=int, metavar="N", help="threads (default: the engine's own)")


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(
            f"expected NAME=VALUE, such as num_leaves=31, not {text!r}"
        )
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        words = {"True": True, "False": False, "None": None}
        return name, words.get(value, value)


def _share(flag: str, least: float | None = None) -> Callable[[str], float]:
    """A number between 0 and 1; the ends do not count, but for ``least``."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < 1 and value != least:
            raise argparse.ArgumentTypeError(
                f"{flag} must lie between 0 and 1, found {text!r}; write 0.05 for 5%"
            )
        return value

    return read
