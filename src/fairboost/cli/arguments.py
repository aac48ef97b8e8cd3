"""Options that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairboost._text import did_you_mean
from fairboost.fairness.class_constraints import NAMED_FOR_CLASSES
from fairboost.fairness.classes import CLASS_RATES
from fairboost.fairness.constraints import NAMED_CONSTRAINTS
from fairboost.fairness.label_moments import WRONG_RATES
from fairboost.fairness.numbers import DEFAULTS as NUMBER_CONSTRAINTS
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.rates import RATES

if TYPE_CHECKING:
    from fairboost.tabular.files import TableFile

REPEATABLE: dict[str, Any] = {"action": "append", "default": []}
COLUMN: dict[str, Any] = {"metavar": "COLUMN"}
SENSITIVE: dict[str, Any] = {
    **REPEATABLE,
    **COLUMN,
    "required": True,
    "help": "a column with the group of each row; repeatable",
}
WEIGHT: dict[str, Any] = {**COLUMN, "help": "a column of sample weights"}
EXPOSURE: dict[str, Any] = {
    **COLUMN,
    "help": "a column of exposures, such as years insured; predictions are then per unit of "
    "exposure (regression)",
}
TASKS = ("classification", "classes", "regression")
OBJECTIVES: dict[str, tuple[str, str]] = {
    "squared": ("regression", "reg:squarederror"),
    "absolute": ("regression_l1", "reg:absoluteerror"),
    "quantile": ("quantile", "reg:quantileerror"),
    "huber": ("huber", "reg:pseudohubererror"),
    "poisson": ("poisson", "count:poisson"),
    "gamma": ("gamma", "reg:gamma"),
    "tweedie": ("tweedie", "reg:tweedie"),
}
"""Losses of numbers, and what LightGBM and XGBoost call them."""
MINIMAX = ("loss", *WRONG_RATES)
BUDGETS = (*RATES, *(name for name in WRONG_RATES if name not in RATES))
"""Errors of groups that ``--minimax`` takes, and rates of everyone that ``--budget`` takes."""


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Options on what is shown."""
    group = parser.add_argument_group("what is shown")
    group.add_argument(
        "--json",
        action="store_true",
        help="results as one JSON object on standard output, for programs",
    )
    words = "show no remarks and no progress bars, which only a terminal has otherwise"
    group.add_argument("--quiet", action="store_true", help=words)
    group.add_argument("--debug", action="store_true", help="show where an error comes from")


def add_folder_options(parser: argparse.ArgumentParser, **out: Any) -> Any:
    """Options on the folder to write; ``out`` says more of ``--out``."""
    group = parser.add_argument_group("what is written")
    group.add_argument("--out", type=Path, metavar="FOLDER", **out)
    group.add_argument("--force", action="store_true", help="replace the folder if it exists")
    group.add_argument("--title", help="title of the report")
    return group


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Options on how CSV files and workbooks are read."""
    group = parser.add_argument_group("CSV and Excel files")
    group.add_argument("--encoding", default="utf-8", help="encoding of the text (default: utf-8)")
    group.add_argument(
        "--delimiter", help="the field separator: , ; | or tab (default: found from the header)"
    )
    group.add_argument(
        "--missing",
        **REPEATABLE,
        metavar="TEXT",
        help="a text that means a missing value, besides empty text, NA, NaN and null; repeatable",
    )
    group.add_argument(
        "--sheet", metavar="NAME", help="the sheet of an Excel file (default: the first)"
    )


def table_of(options: argparse.Namespace, path: Path, missing: tuple[str, ...] = ()) -> TableFile:
    """The table in a file, to be read as the options say.

    Parameters
    ----------
    options : Namespace
        With those of :func:`add_reading_options`.
    path : Path
        The file.
    missing : tuple of str
        Further spellings of a missing value.
    """
    from fairboost.tabular.files import ReadOptions, TableFile

    missing = (*missing, *options.missing)
    return TableFile(
        path, ReadOptions(options.encoding, options.delimiter, missing, options.sheet)
    )


def add_point_options(parser: argparse.ArgumentParser) -> None:
    """Options on where decisions are made: ``point`` is a score or an operating point."""
    group = parser.add_argument_group("where decisions are made (classification)")
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--threshold",
        dest="point",
        type=float,
        metavar="SCORE",
        help="the score from which a decision is positive (default: 0.5, for probabilities)",
    )
    points: list[tuple[str, Callable[[float], OperatingPoint], str]] = [
        ("--at-fpr", at_fpr, "decide where the false positive rate of everyone is at most this"),
        ("--at-tpr", at_tpr, "decide where the true positive rate of everyone is at least this"),
        ("--at-positive-rate", at_positive_rate, "at most this share of positive decisions"),
    ]
    for flag, make, words in points:
        read = partial(_point, make)
        one.add_argument(flag, dest="point", type=read, metavar="RATE", help=words)
    group.add_argument(
        "--favourable",
        choices=("positive", "negative"),
        help="the decision that people hope for, for the four-fifths rule; negative for fraud "
        "(default: positive)",
    )


def _point(make: Callable[[float], OperatingPoint], text: str) -> OperatingPoint:
    try:
        return make(float(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_min_group_rows(parser: argparse._ActionsContainer) -> None:
    """Add ``--min-group-rows``: when a group is reported, and not judged."""
    parser.add_argument(
        "--min-group-rows",
        type=int,
        default=30,
        metavar="N",
        help="show groups with fewer rows that count, but do not compare them (default: 30; 0 "
        "compares all groups)",
    )


def add_decide_option(parser: argparse._ActionsContainer) -> None:
    """Add ``--decide``: which of the two facts of a verdict sets the exit code."""
    parser.add_argument(
        "--decide",
        choices=("interval", "estimate"),
        default="interval",
        help="end with exit code 3 if the whole interval is beyond a limit (interval, the "
        "default), or if the figure on these rows is beyond it, even by chance (estimate)",
    )


def add_label_options(
    parser: argparse.ArgumentParser, label: str, positive: str, *, required: bool = True
) -> Any:
    """Options on the label, described by these words; returns the group, for other columns."""
    group = parser.add_argument_group("columns")
    group.add_argument("--label", required=required, **COLUMN, help=label)
    told = "(default: the value that means yes, such as yes, 1 or true)"
    group.add_argument("--positive", metavar="VALUE", help=f"{positive} {told}")
    group.add_argument(
        "--task",
        choices=TASKS,
        help="classification for two values, classes for three or more, regression for a number "
        "(default: chosen by the values of the label)",
    )
    return group


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Options of the commands that train."""
    parser.add_argument(
        "data", type=Path, help="the table to train on: CSV, parquet, Arrow or xlsx"
    )
    _add_column_options(parser)
    _add_fairness_options(parser.add_argument_group("fairness"))
    add_point_options(parser)
    _add_class_options(parser.add_argument_group("decisions among classes"))
    _add_row_options(parser.add_argument_group("rows"))
    _add_engine_options(parser.add_argument_group("engine"))
    add_reading_options(parser)


def _add_column_options(parser: argparse.ArgumentParser) -> None:
    asked = "the positive label"
    group = add_label_options(parser, "the column to predict", asked)
    group.add_argument("--sensitive", **SENSITIVE)
    sight = group.add_mutually_exclusive_group()
    sight.add_argument(
        "--blind",
        dest="aware",
        action="store_false",
        default=False,
        help="the model does not see the sensitive columns (the default)",
    )
    sight.add_argument(
        "--aware",
        action="store_true",
        help="the model uses the sensitive columns, in training and prediction",
    )
    group.add_argument("--weight", **WEIGHT)
    group.add_argument("--exposure", **EXPOSURE)
    group.add_argument(
        "--categorical",
        **REPEATABLE,
        **COLUMN,
        help="a column whose numbers are codes of categories; repeatable. Text is always "
        "categorical",
    )
    words = "a column that is not a feature; repeatable"
    group.add_argument("--drop", **REPEATABLE, **COLUMN, help=words)


def _add_fairness_options(group: Any) -> None:
    group.add_argument(
        "--constraint",
        **REPEATABLE,
        choices=[
            *sorted({**NAMED_CONSTRAINTS, **NAMED_FOR_CLASSES}),
            *sorted(NUMBER_CONSTRAINTS),
        ],
        metavar="NAME",
        help="what must be equal across groups; repeatable. Two labels: equal_opportunity (false "
        "negative rates), predictive_equality (false positive rates), equalized_odds (both, the "
        "default), demographic_parity (shares of positive decisions), four_fifths (every share of "
        "positive decisions is at least 0.8 of the largest), predictive_parity (precision), "
        "calibrated (share of positive labels over mean probability is 1). Classes: "
        "equal_opportunity (recall of each class), equalized_odds (the confusion matrix, the "
        "default), demographic_parity (share given each class), equal_accuracy. Numbers: "
        "equal_distributions (the default), equal_means, equal_errors, calibrated (actual over "
        "expected is 1), bounded_group_loss",
    )
    _add_limits(group)
    group.add_argument(
        "--cross",
        **REPEATABLE,
        type=_crossing,
        metavar="COLUMNS",
        help="compare the groups of crossed sensitive columns, such as sex,race, instead of the "
        "groups of each column; repeatable",
    )
    group.add_argument(
        "--reference",
        metavar="GROUP",
        help="the group that four_fifths compares other groups with, such as Male or sex=Male; "
        "with --cross, such as sex=Male,race=White (default: the group with the largest share)",
    )
    group.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="GAP",
        help="the largest allowed difference between the rates of two groups (default: 0.01). For "
        "numbers, a share for equal_distributions (default: 0.05) and calibrated (default: 0.01); "
        "otherwise in the unit of the prediction or the loss, and required",
    )
    group.add_argument(
        "--relative",
        action="store_true",
        help="the tolerance of equal_means or equal_errors is a share of the mean of everyone: "
        "--tolerance 0.02 is then 2%% (regression)",
    )
    _add_share(
        group,
        "--confidence",
        "meet the limits among new people with this confidence, such as 0.9 (default: meet them "
        "on the held-out rows)",
    )
    add_min_group_rows(group)


def _add_limits(group: Any) -> None:
    """Floors, the worst group and budgets."""
    group.add_argument(
        "--at-least",
        **REPEATABLE,
        type=_floor,
        metavar="RATE=FLOOR",
        help="the rate of every group is at least this, such as tpr=0.8; repeatable. With a "
        "floor, no --constraint is needed (classification and classes)",
    )
    group.add_argument(
        "--minimax",
        **REPEATABLE,
        choices=MINIMAX,
        metavar="ERROR",
        help="make the largest error of a group as small as possible: loss, error (share of wrong "
        "decisions), fnr or fpr; fnr and fpr need --budget, or an operating point such as "
        "--at-positive-rate; repeatable. With --minimax, no --constraint is needed "
        "(classification)",
    )
    group.add_argument(
        "--budget",
        **REPEATABLE,
        type=_budget,
        metavar="RATE=LIMIT",
        help="a rate of all rows is at most this, such as error=0.25 or fpr=0.2; repeatable "
        "(classification)",
    )


def _add_class_options(group: Any) -> None:
    group.add_argument(
        "--classes",
        **REPEATABLE,
        metavar="NAMES",
        help="the classes that the constraint is about, such as A,B (default: all); repeatable",
    )
    group.add_argument(
        "--costs",
        type=Path,
        metavar="FILE",
        help="a table of costs: the first column names the class of a row, the other columns the "
        "class that is given. The class of least expected cost is then given, not the most likely "
        "one",
    )


def _add_row_options(group: Any) -> None:
    rows = group.add_mutually_exclusive_group()
    words = "fraction of the rows drawn as test rows (default: 0.2)"
    _add_share(rows, "--test-share", words, default=0.2)
    rows.add_argument("--test", type=Path, metavar="FILE", help="a file of test rows")
    group.add_argument(
        "--holdout",
        type=Path,
        metavar="FILE",
        help="a file of rows for measuring group rates in training (default: some training rows)",
    )
    group.add_argument(
        "--holdout-share",
        type=_holdout_share,
        metavar="SHARE",
        help="fraction of the training rows reserved for measuring group rates; with --holdout, "
        "rates are measured on both. Or 'cross': measure rates on all rows, by one further model "
        "for each fold (default: chosen by the number of rows; none with --holdout)",
    )
    add_seed(group, "random seed (default: 0)")


def add_seed(group: Any, words: str) -> None:
    """The option ``--seed``, described by these words."""
    group.add_argument("--seed", type=_seed, default=0, help=words)


def _seed(text: str) -> int:
    most = 2**32 - 1
    message = f"--seed must be a whole number from 0 to {most}, found {text!r}"
    return int(read_number(int, text, lambda value: 0 <= value <= most, message))


def _holdout_share(text: str) -> float | str:
    return text if text == "cross" else _share("--holdout-share", text)


def _add_share(group: Any, flag: str, words: str, default: float | None = None) -> None:
    read = partial(_share, flag)
    group.add_argument(flag, type=read, default=default, metavar="SHARE", help=words)


def _add_engine_options(group: Any) -> None:
    group.add_argument(
        "--engine",
        choices=("lightgbm", "xgboost"),
        default="lightgbm",
        help="the boosting library (default: lightgbm)",
    )
    group.add_argument(
        "--objective",
        choices=tuple(OBJECTIVES),
        help="the loss (regression; default: squared)",
    )
    group.add_argument(
        "--option",
        **REPEATABLE,
        type=_setting,
        metavar="NAME=VALUE",
        help="an option of the engine, such as num_leaves=31; repeatable",
    )
    group.add_argument(
        "--jobs", type=int, metavar="N", help="number of threads (default: that of the engine)"
    )


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(
            f"expected NAME=VALUE, such as num_leaves=31, not {text!r}"
        )
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, {"True": True, "False": False, "None": None}.get(value, value)


def _floor(text: str) -> tuple[str, float]:
    """A rate and what it is at least."""
    name, equals, value = text.partition("=")
    known = (*RATES, *CLASS_RATES)
    if not equals or name not in known:
        raise argparse.ArgumentTypeError(
            f"expected RATE=FLOOR, such as tpr=0.8, found {text!r}; rates are {', '.join(known)}"
            f"{did_you_mean(name, known)}"
        )
    return name, _share("--at-least", value)


def _budget(text: str) -> tuple[str, float]:
    """A rate of everyone and what it is at most."""
    name, equals, value = text.partition("=")
    if not equals or name not in BUDGETS:
        raise argparse.ArgumentTypeError(
            f"expected RATE=LIMIT, such as error=0.25, found {text!r}; rates are "
            f"{', '.join(BUDGETS)}{did_you_mean(name, BUDGETS)}"
        )
    return name, _share("--budget", value)


def _crossing(text: str) -> list[str]:
    """Names of columns with commas between them."""
    names = [name.strip() for name in text.split(",")]
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"expected two columns or more with commas between them, such as sex,race, found "
            f"{text!r}"
        )
    return names


def _tolerance(text: str) -> float:
    message = f"--tolerance must be a number of 0 or more, found {text!r}; write 0.05 for 5%"
    return read_number(float, text, lambda value: 0 <= value < math.inf, message)


def _share(flag: str, text: str) -> float:
    """A number between 0 and 1; the ends do not count."""
    message = f"{flag} must lie between 0 and 1, found {text!r}; write 0.05 for 5%"
    return read_number(float, text, lambda value: 0 < value < 1, message)


def read_number(
    kind: type[float], text: str, fits: Callable[[float], bool], message: str
) -> float:
    """A number that fits, or the message."""
    with contextlib.suppress(ValueError):
        if fits(value := kind(text)):
            return value
    raise argparse.ArgumentTypeError(message)
