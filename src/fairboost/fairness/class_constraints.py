"""Constraints on decisions among several classes: names and classes, as parities of moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from fairboost._text import did_you_mean
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.classes import ClassMoment, ClassRate, Labels, position
from fairboost.fairness.constraints import (
    parity,
    resolve,
    shared_tolerance,
    with_tolerance,
)
from fairboost.fairness.moments import Moment

NAMED_FOR_CLASSES = {
    "demographic_parity": ("given",),
    "equal_opportunity": ("recall",),
    "equalized_odds": ("recall", "confused"),
    "equal_accuracy": ("accuracy",),
}
"""The rates of which a named constraint asks parity, of every class."""


def resolve_for_classes(
    constraint: Any,
    tolerance: float | None,
    columns: Sequence[str],
    labels: Labels,
    chosen: Sequence[Any] | None,
) -> tuple[GroupConstraint, ...]:
    """What the user wrote, as a flat list of constraints with explicit columns and classes.

    Parameters
    ----------
    constraint, tolerance, columns
        As in :func:`fairboost.fairness.constraints.resolve`.
    labels : sequence
        The classes of y, in order.
    chosen : sequence, optional
        The classes that constraints without a class of their own are about; all if left out.
    """
    if constraint is None:
        return ()
    shared = None if tolerance is None else shared_tolerance(constraint, tolerance)
    return resolve(for_classes(constraint, shared, labels, chosen), None, columns)


def for_classes(
    constraint: Any, tolerance: float | None, labels: Labels, chosen: Sequence[Any] | None
) -> list[Any]:
    """What the user wrote, with names and classes replaced by parities of moments.

    Parameters
    ----------
    constraint : str, Constraint or sequence of them
        The ``constraint`` parameter of the estimator.
    tolerance : float, optional
        That of the constraints that have none of their own; None for an automatic one.
    labels : sequence
        The classes of y, in order.
    chosen : sequence, optional
        The classes that constraints without a class of their own are about; all if left out.
    """
    which = range(len(labels)) if chosen is None else [position(c, labels) for c in chosen]
    out: list[Any] = []
    for item in constraint if isinstance(constraint, list | tuple) else [constraint]:
        if isinstance(item, str):
            if item not in NAMED_FOR_CLASSES:
                known = ", ".join(map(repr, NAMED_FOR_CLASSES))
                raise ConstraintError(
                    f"constraint={item!r} is not one for {len(labels)} classes; expected {known}, "
                    "a parity(...) or bound(...) of 'given', 'recall', 'confused' or 'accuracy', "
                    f"a list of them, or None{did_you_mean(item, NAMED_FOR_CLASSES)}"
                )
            rates = [ClassRate(name) for name in NAMED_FOR_CLASSES[item]]
            out += [parity(cast(Any, m), tolerance) for r in rates for m in r.among(labels, which)]
            continue
        moment = getattr(item, "moment", None)
        if not isinstance(moment, ClassRate):
            _check_known(item, len(labels))
            out.append(item)
            continue
        if tolerance is not None:
            item = with_tolerance(item, tolerance)
        out += [replace(item, moment=m) for m in moment.among(labels, which)]
    return out


def before_classes(constraint: Any) -> Any:
    """What the user wrote, with names that may be of classes as parities of no class yet.

    Which columns constraints read can be told by it before there are labels.
    """
    if isinstance(constraint, list | tuple):
        return [before_classes(item) for item in constraint]
    known = isinstance(constraint, str) and constraint in NAMED_FOR_CLASSES
    return parity(NAMED_FOR_CLASSES[constraint][0]) if known else constraint


def check_chosen(chosen: Any, labels: Labels) -> None:
    """Refuse a choice of classes that is none."""
    if isinstance(chosen, str) or not isinstance(chosen, Iterable) or not list(chosen):
        raise ConstraintError(
            f"classes must be a list of the classes that constraints are about, found {chosen!r}; "
            "leave it out for all"
        )
    numbers = [position(label, labels) for label in chosen]
    if len(set(numbers)) < len(numbers):
        raise ConstraintError(f"classes={chosen!r} names a class twice; name each once")


def _check_known(item: Any, n: int) -> None:
    """Refuse rates of two labels, which several have not."""
    for moment in getattr(item, "moments", ()):
        name = moment if isinstance(moment, str) else cast(Moment, moment).name
        if not isinstance(moment, ClassMoment):
            raise ConstraintError(
                f"{name!r} is a rate of two labels, and y has {n} classes; expected 'given', "
                "'recall', 'confused' or 'accuracy', with the class: parity('recall', "
                "of='approve')"
            )
