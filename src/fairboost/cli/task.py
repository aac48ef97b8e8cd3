"""What is to be predicted: one of two values, a class or a number; and options that go with it."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from fairboost.cli.arguments import TASKS, table_of
from fairboost.cli.console import Console
from fairboost.fairness.calibration import NAME as CALIBRATED
from fairboost.fairness.class_constraints import NAMED_FOR_CLASSES
from fairboost.fairness.classes import CLASS_RATES
from fairboost.fairness.constraints import NAMED_CONSTRAINTS, TOLERANCE
from fairboost.fairness.numbers import DEFAULTS as NUMBER_CONSTRAINTS
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES

if TYPE_CHECKING:
    from fairboost.tabular.labels import LabelValues

CLASSIFICATION, CLASSES, REGRESSION = TASKS
FEW_NUMBERS = 10
"""So few different numbers may be codes of classes."""

SHARES = ("equal_distributions", "calibrated")
"""Constraints whose tolerance is a share anyway."""
LIMITED = {
    CLASSIFICATION: ("fpr", "fnr", "ppr", "precision"),
    CLASSES: tuple(CLASS_RATES),
    REGRESSION: ("prediction", "loss", "ae", "distance"),
}
"""What ``--max-gap`` takes, by task; of classes all of them, or one: ``recall[high]``."""
CONSTRAINTS: dict[str, Collection[str]] = {
    CLASSIFICATION: (*NAMED_CONSTRAINTS, CALIBRATED),
    CLASSES: NAMED_FOR_CLASSES,
    REGRESSION: NUMBER_CONSTRAINTS,
}
"""What ``--constraint`` takes, by task."""
ABOUT = {
    REGRESSION: "is about numbers: predicting a number",
    CLASSES: "is about classes: deciding among classes",
}
"""What is said where an option tells the task."""
VALUES = "the values of the label"
"""What the task was told by, where no option names it."""
INSTEAD = {
    ("--score", CLASSES): "name the column of the class that is given: --decision COLUMN",
    ("--threshold", CLASSES): "leave it out, say what wrong decisions cost (--costs FILE)",
}
"""What to write in place of an option, where that is not plain."""
RELATIVE = {"equal_means": "prediction", "equal_errors": "loss"}
"""Constraints whose tolerance may be a share of the mean, and the mean that they are about."""
UNITS = {
    "equal_means": "the unit of the prediction",
    "equal_errors": "the unit of the loss",
    "bounded_group_loss": "the unit of the loss",
    "equal_distributions": "a share",
    "calibrated": "a share",
}
"""What tolerances of numbers are measured in."""


def settle_task(
    options: argparse.Namespace, console: Console, *, first_rows: bool = False
) -> None:
    """Set ``options.task``, and refuse options that do not go with it.

    Parameters
    ----------
    options : Namespace
        With a table and a label; defaults that depend on the task are set.
    console : Console
        Where it is said what was guessed.
    first_rows : bool, default=False
        Guess by the first rows alone: the table may be larger than memory.
    """
    asked, why = options.task, "--task"
    if options.label is None:  # an audit of decisions alone
        if asked not in (None, CLASSIFICATION):
            options.page.error(f"--task {asked} needs --label: what came true")
        asked = CLASSIFICATION
        if flag := next((flag for flag in _needs_label(options)), None):
            options.page.error(f"{flag} needs --label: what came true")
    if asked is None and options.positive is not None:
        asked, why = CLASSIFICATION, "--positive"
    if asked is None:
        told = [(flag, tasks[0]) for flag, tasks in _given(options) if len(tasks) == 1]
        for why, asked in (one for one in told if one[1] in ABOUT):
            console.remark(f"Note: {why} {ABOUT[asked]} (--task {asked}).")
            break
    if asked is None:
        asked, why = _guess(options, console, first_rows), VALUES
    options.task = asked
    decided = getattr(options, "decision", None) is not None and asked == CLASSIFICATION
    if decided and options.point is not None:
        options.page.error(
            "--threshold and --at-... are for --score: the column of --decision has decisions"
        )
    for flag, tasks in _given(options):
        if asked not in tasks:
            named = " or ".join(tasks)
            other = f"pass --task {named}"
            if why == VALUES and tasks == [CLASSIFICATION]:  # which would refuse the values
                other = "name a label of two values (--label COLUMN)"
            options.page.error(
                f"{flag} is for --task {named}, and by {why} this is {asked}; "
                f"{INSTEAD.get((flag, asked), 'leave it out')}, or {other}"
            )
    _set_defaults(options)


def _guess(options: argparse.Namespace, console: Console, first_rows: bool) -> str:
    """The task by the values of the label; it is said unless there are two."""
    from fairboost.tabular.labels import look_at_label

    file = table_of(options, options.data)
    file.require([options.label], "named in the command")
    found = look_at_label(file, options.label, first_rows=first_rows)
    if getattr(options, "decision", None) is not None:
        if found.values <= 2:
            return CLASSIFICATION
        console.remark(
            f"Note: --decision {ABOUT[CLASSES]} (--task {CLASSES}), since the label "
            f"{options.label!r} has more than two values."
        )
        return CLASSES
    if found.is_number:
        console.remark(_guessed(options.label, found))
        return REGRESSION
    if found.is_class:
        console.remark(
            f"Note: the label {options.label!r} has {found.values} distinct values: deciding "
            "among classes (--task classes); for yes or no, name a column of two values."
        )
        return CLASSES
    return CLASSIFICATION


def decides_class(options: argparse.Namespace) -> bool:
    """Whether one of several classes is to be given."""
    return bool(options.task == CLASSES)


def predicts_number(options: argparse.Namespace) -> bool:
    """Whether a number is to be predicted."""
    return bool(options.task == REGRESSION)


def _guessed(label: str, found: LabelValues) -> str:
    number = f"{found.numbers:,}" if found.complete else f"{found.numbers:,} or more"
    said = (
        f"Note: the label {label!r} has {number} distinct numbers: predicting a number (--task "
        "regression); for yes or no, name a column of two values."
    )
    if found.numbers <= FEW_NUMBERS:
        said += " If these numbers are codes of classes, pass --task classes."
    return said


def _given(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Options on the command line that are not for all tasks, as written; and those they are for.

    An option of a command that has no such option is not given.
    """
    point: Any = getattr(options, "point", None)
    flag = "--threshold"
    if isinstance(point, OperatingPoint):
        flag = f"--at-{point.rate_name.replace('ppr', 'positive-rate')}"
    given = {
        CLASSIFICATION: {
            "--positive": "positive",
            flag: "point",
            "--favourable": "favourable",
            "--minimax": "minimax",
            "--budget": "budget",
        },
        CLASSES: {"--classes": "classes", "--costs": "costs"},
        REGRESSION: {
            "--exposure": "exposure",
            "--objective": "objective",
            "--relative": "relative",
            "--loss": "loss",
        },
    }
    for task, flags in given.items():
        for written, name in flags.items():
            if getattr(options, name, None) not in (None, False, []):
                yield written, [task]
    if getattr(options, "score", None) is not None:
        yield "--score", [CLASSIFICATION, REGRESSION]
    if getattr(options, "decision", None) is not None:
        yield "--decision", [CLASSIFICATION, CLASSES]
    for rate, _ in getattr(options, "max_gap", ()):
        plain = rate.partition("[")[0]
        yield f"--max-gap {rate}", [task for task in TASKS if plain in LIMITED[task]]
    for rate, _ in getattr(options, "at_least", ()):
        yield f"--at-least {rate}", [CLASSIFICATION if rate in RATES else CLASSES]
    for name in getattr(options, "constraint", ()):
        yield f"--constraint {name}", [task for task in TASKS if name in CONSTRAINTS[task]]


def _needs_label(options: argparse.Namespace) -> Iterator[str]:
    """Options of an audit that cannot do without labels."""
    point = options.point
    if isinstance(point, OperatingPoint) and point.rate_name != "ppr":
        yield f"--at-{point.rate_name}"
    yield from (f"--max-gap {rate}" for rate, _ in options.max_gap if rate != "ppr")


def _set_defaults(options: argparse.Namespace) -> None:
    """Set what the task decides, and check the tolerance."""
    trains = hasattr(options, "tolerance")
    if options.task == CLASSIFICATION:
        if trains:  # whether a score of an audit is a probability shows in the table
            options.point = 0.5 if options.point is None else options.point
        options.favourable = options.favourable or "positive"
    if trains and predicts_number(options):
        _check_number_tolerance(options)
    elif trains:
        options.tolerance = TOLERANCE if options.tolerance is None else options.tolerance
        if options.tolerance >= 1:
            _refuse_share(options)


def _check_number_tolerance(options: argparse.Namespace) -> None:
    asked = list(dict.fromkeys(options.constraint)) or ["equal_distributions"]
    if options.relative:
        if others := [c for c in asked if c not in RELATIVE]:
            options.page.error(
                f"--relative is for {' and '.join(RELATIVE)}, found --constraint {others[0]}, "
                f"whose tolerance is {UNITS[others[0]]}; leave --relative out"
            )
        if options.tolerance is None:
            options.page.error("--relative needs a --tolerance, such as 0.02 for 2%")
    for name in asked:
        if options.tolerance is None and name not in SHARES:
            share = ", or --tolerance 0.02 --relative for 2% of the mean"
            options.page.error(
                f"--constraint {name} needs a --tolerance in {UNITS[name]}"
                f"{share if name in RELATIVE else ''}"
            )
    if options.tolerance is None:
        return
    if options.tolerance >= 1 and (options.relative or set(asked) & set(SHARES)):
        _refuse_share(options)
    units = {UNITS[c]: c for c in asked}
    if len(units) > 1 and not options.relative:
        told = " and ".join(f"{unit} for {c}" for unit, c in units.items())
        options.page.error(
            f"--tolerance {options.tolerance:g} would be {told}, which cannot both be meant; ask "
            "for constraints of one unit"
        )


def _refuse_share(options: argparse.Namespace) -> None:
    options.page.error(
        f"--tolerance must lie between 0 and 1, found {options.tolerance:g}; write 0.05 for 5%"
    )
