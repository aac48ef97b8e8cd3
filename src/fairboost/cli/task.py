"""What is to be predicted, one of two values or a number, and which options go with it."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fairboost.cli.arguments import table_of
from fairboost.cli.console import Console
from fairboost.fairness.constraints import NAMED_CONSTRAINTS, TOLERANCE
from fairboost.fairness.numbers import DEFAULTS as NUMBER_CONSTRAINTS
from fairboost.fairness.operating_points import OperatingPoint

if TYPE_CHECKING:
    from fairboost.tabular.labels import LabelValues

CLASSIFICATION, REGRESSION = "classification", "regression"
FEW_NUMBERS = 10
"""So few different numbers may be codes of classes."""

SHARES = ("equal_distributions", "calibrated")
"""Constraints whose tolerance is a share anyway."""
LIMITED = {
    CLASSIFICATION: ("fpr", "fnr", "ppr", "precision"),
    REGRESSION: ("prediction", "loss", "ae", "distance"),
}
"""What ``--max-gap`` takes, by task."""
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
    if asked is None and options.positive is not None:
        asked, why = CLASSIFICATION, "--positive"
    named = _given(options, REGRESSION)
    if asked is None and named:
        asked, why = REGRESSION, named[0]
        console.remark(f"Note: {why} is about numbers: predicting a number (--task regression).")
    if asked is None:
        from fairboost.tabular.labels import look_at_label

        file = table_of(options, options.data)
        file.require([options.label], "named in the command")
        found = look_at_label(file, options.label, first_rows=first_rows)
        asked = REGRESSION if found.is_number else CLASSIFICATION
        why = "the values of the label"
        if asked == REGRESSION:
            console.remark(_guessed(options.label, found))
    options.task = asked
    other = CLASSIFICATION if asked == REGRESSION else REGRESSION
    if wrong := _given(options, other):
        options.page.error(
            f"{wrong[0]} is for --task {other}, and by {why} this is {asked}; leave it out, or "
            f"pass --task {other}"
        )
    _set_defaults(options)


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
        said += " If these numbers are codes of classes, merge them into two."
    return said


def _given(options: argparse.Namespace, task: str) -> list[str]:
    """Options on the command line that go with one task alone, as they were written."""
    point: Any = getattr(options, "point", None)
    names: Collection[str] = NAMED_CONSTRAINTS if task == CLASSIFICATION else NUMBER_CONSTRAINTS
    if task == CLASSIFICATION:
        flag = "--threshold"
        if isinstance(point, OperatingPoint):
            flag = f"--at-{point.rate_name.replace('ppr', 'positive-rate')}"
        given = {
            "--positive": options.positive is not None,
            flag: point is not None,
            "--favourable": options.favourable is not None,
        }
    else:
        given = {
            "--exposure": options.exposure is not None,
            "--objective": getattr(options, "objective", None) is not None,
            "--relative": getattr(options, "relative", False),
            "--loss": getattr(options, "loss", None) is not None,
        }
    limited = [rate for rate, _ in getattr(options, "max_gap", ()) if rate in LIMITED[task]]
    given |= {f"--max-gap {rate}": True for rate in limited}
    found = [f"--constraint {c}" for c in getattr(options, "constraint", ()) if c in names]
    return [flag for flag, there in given.items() if there] + found


def _set_defaults(options: argparse.Namespace) -> None:
    """Set what the task decides, and check the tolerance."""
    trains = hasattr(options, "tolerance")
    if not predicts_number(options):
        options.point = 0.5 if options.point is None else options.point
        options.favourable = options.favourable or "positive"
        if trains:
            options.tolerance = TOLERANCE if options.tolerance is None else options.tolerance
            if options.tolerance >= 1:
                _refuse_share(options)
    elif trains:
        _check_number_tolerance(options)


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
