"""From options of the command line to constraints: names, floors, the worst group, crossings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairboost._text import did_you_mean
from fairboost.cli.task import CLASSES, RELATIVE, decides_class, predicts_number
from fairboost.exceptions import InvalidInputError
from fairboost.fairness import numbers
from fairboost.fairness.calibration import NAME as CALIBRATED
from fairboost.fairness.calibration import by_name
from fairboost.fairness.class_constraints import NAMED_FOR_CLASSES, before_classes
from fairboost.fairness.constraints import (
    FOUR_FIFTHS,
    FOUR_FIFTHS_RATIO,
    NAMED_CONSTRAINTS,
    TOLERANCE,
    bound,
    parity,
    resolve,
)
from fairboost.fairness.minimax import check_budget, check_confidence_applies, minimax
from fairboost.fairness.ratios import at_least

DISTRIBUTIONS = "equal_distributions"


def asked_constraints(options: argparse.Namespace) -> Any:
    """The constraint of the model: a name where one says all, else a constraint or a list.

    Parameters
    ----------
    options : Namespace
        With a task, and the options on fairness.
    """
    names: list[str] = list(dict.fromkeys(options.constraint))
    if not names and not options.at_least and not options.minimax:
        names = [DISTRIBUTIONS if predicts_number(options) else "equalized_odds"]
    crossings: list[tuple[str, ...] | None] = [tuple(crossing) for crossing in options.cross]
    _check_crossings(options)
    reference = _reference(options, names)
    asked: list[Any] = []
    for crossing in crossings or [None]:
        for name in names:
            asked += _named(options, name, crossing, reference)
        asked += [at_least(rate, floor, by=crossing) for rate, floor in options.at_least]
        asked += [minimax(error, by=crossing) for error in dict.fromkeys(options.minimax)]
    asked += [bound(rate, limit) for rate, limit in options.budget]
    return asked[0] if len(asked) == 1 else asked


def check_constraints(options: argparse.Namespace, constraint: Any) -> None:
    """Refuse what contradicts itself before the table is read."""
    if predicts_number(options):
        numbers.resolve(constraint, options.tolerance, options.sensitive)
    elif options.tolerance != TOLERANCE and not _takes_tolerance(options):
        raise InvalidInputError(
            f"--tolerance {options.tolerance:g} is a difference of rates, and four_fifths, "
            "--at-least and --minimax have none; leave --tolerance out"
        )
    else:
        asked = by_name(before_classes(constraint), options.tolerance)
        found = resolve(asked, options.tolerance, options.sensitive)
        if options.minimax:
            check_budget(found, options.point)
            check_confidence_applies(found, options.confidence)


def has_tolerance(options: argparse.Namespace) -> bool:
    """Whether a tolerance can be varied: of a difference, and not beside weights of groups."""
    return _takes_tolerance(options) and not options.minimax


def _takes_tolerance(options: argparse.Namespace) -> bool:
    """Whether some constraint has a tolerance: not a ratio, no floor, and not the worst group."""
    return any(name != FOUR_FIFTHS for name in options.constraint) or not (
        options.constraint or options.at_least or options.minimax
    )


def _named(
    options: argparse.Namespace,
    name: str,
    crossing: tuple[str, ...] | None,
    reference: dict[str, str] | str | None,
) -> Sequence[Any]:
    """What a name stands for, of the groups that are asked for."""
    refused = getattr(options, "favourable", None) == "negative"
    if name == FOUR_FIFTHS and (crossing or reference or refused):
        (rate,) = NAMED_CONSTRAINTS[name] if not refused else ("pnr",)
        return [parity(rate, ratio=FOUR_FIFTHS_RATIO, by=crossing, reference=reference)]
    if options.relative:
        return [parity(RELATIVE[name], relative=True, by=crossing)]
    if crossing is None:
        return [name]
    if predicts_number(options) or name == CALIBRATED:
        found: Any = numbers.by_name(name, options.tolerance)
        return [replace(found, by=crossing)]
    rates = (NAMED_FOR_CLASSES if options.task == CLASSES else NAMED_CONSTRAINTS)[name]
    return [parity(rate, by=crossing) for rate in rates]


def _check_crossings(options: argparse.Namespace) -> None:
    """Refuse crossings of columns that are not named as sensitive."""
    for crossing in options.cross:
        if absent := [name for name in crossing if name not in options.sensitive]:
            raise InvalidInputError(
                f"--cross {','.join(crossing)} names {', '.join(map(repr, absent))}, which is not "
                f"a sensitive column; expected some of {', '.join(options.sensitive)}, or add "
                f"--sensitive {absent[0]}{did_you_mean(absent[0], options.sensitive)}"
            )


def _reference(options: argparse.Namespace, names: Sequence[str]) -> dict[str, str] | str | None:
    """The group that ratios are taken to: of a column, of several, or of the only one."""
    if options.reference is None:
        return None
    if FOUR_FIFTHS not in names:
        raise InvalidInputError(
            f"--reference {options.reference} is the group that ratios are taken to, and only "
            f"--constraint {FOUR_FIFTHS} has one; add it, or leave --reference out"
        )
    if decides_class(options):
        raise InvalidInputError("--reference is for decisions of two values; leave it out")
    named = [name for name in options.sensitive if f"{name}=" in options.reference]
    if named:
        pairs = (part.partition("=") for part in options.reference.split(","))
        found = {column.strip(): group for column, _, group in pairs}
        return found
    if options.cross or len(options.sensitive) > 1:
        parts = ",".join(f"{name}=GROUP" for name in (options.cross or [options.sensitive[:1]])[0])
        raise InvalidInputError(
            f"--reference {options.reference} is ambiguous: it may be a group of "
            f"{' or '.join(options.sensitive)}; name the column, such as --reference {parts}"
        )
    return str(options.reference)
