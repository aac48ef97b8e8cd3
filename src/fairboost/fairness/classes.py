"""Moments of a decision among several classes: who counts, and which class is given.

The moments of a group are shares of rows::

    name               rows that count    event
    given[k]           all                class k is given          demographic parity
    recall[k]          class k            class k is given          equal opportunity
    confused[j, k]     class j            class k is given          equalized odds, with recalls
    accuracy           all                the row's own class is given

Users write a name and, by ``of=``, a class: ``parity("recall", of="approve")``. Which number a
class has is known when there are labels. Of two classes these are the rates of
:mod:`fairboost.fairness.rates`, and those are to be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fairboost._typing import BoolArray, IntArray
from fairboost.exceptions import ConstraintError

CLASS_RATES = {
    "given": "share given {0}",
    "recall": "recall of {0}",
    "confused": "share of {0} given {1}",
    "accuracy": "accuracy",
}
"""Names, and what they are called with their classes in them."""

OF_TWO_LABELS = {
    "given": "write 'ppr', the share of positive decisions",
    "recall": "write 'tpr', the recall of the positive label (that of the other one is 'tnr')",
    "confused": "write 'fnr' or 'fpr', the two ways to be wrong",
    "accuracy": "write bound('error', 0.2) or minimax('error') to limit wrong decisions, or "
    "'fnr' and 'fpr' to compare them",
}
"""What to write in their place where there are two labels."""

Labels: TypeAlias = Sequence[Any]
"""The classes, as the user wrote them."""


@dataclass(frozen=True)
class ClassRate:
    """A rate of decisions among classes, as users write it.

    Parameters
    ----------
    name : {"given", "recall", "confused", "accuracy"}
        Which rate.
    of : label or (label, label), optional
        The class; of "confused" the class of the rows and the class that they are given. None for
        every class.
    """

    name: str
    of: object = None

    label, quantity = None, -1  # not known before there are labels

    @property
    def title(self) -> str:
        """The name in words."""
        return CLASS_RATES[self.name].format("a class", "another")

    def counts(self, labels: IntArray) -> BoolArray:
        """Not known before there are labels."""
        raise ConstraintError(
            f"{self.name!r} is a rate of decisions among three classes or more, and y has two; "
            f"{OF_TWO_LABELS[self.name]}"
        )

    def among(self, labels: Labels, chosen: Sequence[int]) -> list[ClassMoment]:
        """The moments that it stands for: its own class, or each of those chosen."""
        known, n = list(labels), len(labels)
        if self.name == "accuracy":
            return [ClassMoment("accuracy", None, n, CLASS_RATES["accuracy"])]
        if self.name == "confused":
            pairs = [(j, k) for j in chosen for k in range(n) if j != k]
            if self.of is not None:
                pair = self.of if isinstance(self.of, tuple) and len(self.of) == 2 else (self.of,)
                if len(pair) != 2:
                    raise ConstraintError(
                        "of= of 'confused' must be two classes, that of the rows and that which "
                        f"they are given, found {self.of!r}"
                    )
                pairs = [(position(pair[0], known), position(pair[1], known))]
            return [moment_of("confused", pair, labels) for pair in pairs]
        which = chosen if self.of is None else [position(self.of, known)]
        return [moment_of(self.name, (k,), labels) for k in which]


@dataclass(frozen=True)
class ClassMoment:
    """The share of some rows that are given a class.

    Parameters
    ----------
    name : str
        Short name, with the class in it.
    label : int, optional
        The class of the rows that count, by its number; None for all rows.
    quantity : int
        The class that is given; the number of classes stands for a row's own.
    title : str
        The name in words, for tables and plots.
    label_name : object
        The class of the rows that count, as the user wrote it.
    """

    name: str
    label: int | None
    quantity: int
    title: str
    label_name: object = None

    is_share = True

    def counts(self, labels: IntArray) -> BoolArray:
        """Which labels count."""
        return np.ones(labels.shape, bool) if self.label is None else labels == self.label


def moment_of(name: str, classes: Sequence[int], labels: Labels) -> ClassMoment:
    """A moment of classes, which are given by their numbers.

    Examples
    --------
    >>> moment_of("confused", (0, 2), ["low", "middle", "high"]).name
    'confused[low, high]'
    """
    named = [labels[k] for k in classes]
    label = None if name == "given" else classes[0]
    title = CLASS_RATES[name].format(*map(repr, map(_plain, named)))
    known = None if label is None else labels[label]
    return ClassMoment(f"{name}[{', '.join(map(str, named))}]", label, classes[-1], title, known)


def position(label: object, labels: Labels) -> int:
    """The number of a class."""
    known = list(labels)
    if label not in known:
        raise ConstraintError(
            f"a constraint names the class {label!r}, which is not among those of y: "
            f"{', '.join(map(repr, map(_plain, known)))}"
        )
    return known.index(label)


def _plain(label: Any) -> Any:
    """A label as Python has it, for people."""
    return label.item() if isinstance(label, np.generic) else label
