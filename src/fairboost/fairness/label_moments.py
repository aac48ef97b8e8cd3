"""Moments of two labels beside rates of decisions: wrong decisions, losses and probabilities.

They are means of further quantities of a row (:mod:`fairboost.tasks.binary_means`)::

    wrong          [the decision is not the label]; the loss of the row is pushed in its place
    loss           the logistic loss, without weights of labels
    probability    p = sigmoid(f)
    actual         the label
    in part k      p, and the label, times [p lies in part k of all probabilities]

A rate of wrong decisions among rows of one label is the false negative or the false positive rate.
It is the same number as that of :mod:`fairboost.fairness.rates`, and another one to train by: the
loss is convex and pushes every row, where the stand-in of a decision pushes rows close to the
threshold. That takes weights of one sign, as in :mod:`fairboost.fairness.minimax`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, IntArray
from fairboost.fairness.means import levels
from fairboost.fairness.rates import Rate

UP, DOWN, WRONG, LOSS, PROBABILITY, ACTUAL = range(6)
"""Quantities of a row of two labels; those of parts come after them."""
FIRST_PART = 6


@dataclass(frozen=True)
class WrongRate(Rate):
    """A rate of wrong decisions, which is trained by the loss of the rows that count."""

    @property
    def quantity(self) -> int:
        """Which quantity of the task."""
        return WRONG


WRONG_RATES: dict[str, WrongRate] = {
    r.name: r
    for r in (
        WrongRate("error", None, -1, "error rate"),
        WrongRate("fnr", 1, -1, "false negative rate"),
        WrongRate("fpr", 0, +1, "false positive rate"),
    )
}
ERROR = WRONG_RATES["error"]


@dataclass(frozen=True)
class LabelMean:
    """The mean of a number that a row of two labels has.

    Parameters
    ----------
    name : str
        Short name, as users write it.
    quantity : int
        Which of the task's quantities is averaged.
    title : str
        The name in words, for tables and plots.
    low, high : float
        Quantiles of all probabilities between which a row has the quantity; elsewhere it has 0.
    """

    name: str
    quantity: int
    title: str
    label: None = None
    low: float = 0.0
    high: float = 1.0

    is_share = False  # its variance does not follow from itself

    @property
    def kind(self) -> int:
        """The quantity that it is of, in a part or among all rows."""
        if self.quantity < FIRST_PART:
            return self.quantity
        return (PROBABILITY, ACTUAL)[(self.quantity - FIRST_PART) % 2]

    @property
    def is_part(self) -> bool:
        """Whether it is of rows between quantiles of the probabilities."""
        return self.quantity >= FIRST_PART

    def counts(self, labels: IntArray) -> BoolArray:
        """All rows count."""
        return np.ones(labels.shape, bool)


GROUP_LOSS = LabelMean("log loss", LOSS, "mean log loss")
MEAN_PROBABILITY = LabelMean("probability", PROBABILITY, "mean probability")
MEAN_LABEL = LabelMean("label", ACTUAL, "share of positive labels")


def in_parts_of_scores(count: int) -> tuple[LabelMean, ...]:
    """Probabilities in each of that many parts of equal size, then labels there.

    Examples
    --------
    >>> [m.name for m in in_parts_of_scores(2)]
    ['probability 1/2', 'probability 2/2', 'label 1/2', 'label 2/2']
    """
    cuts: list[float] = [0.0, *levels(count - 1).tolist(), 1.0]
    return tuple(
        LabelMean(
            f"{name} {k + 1}/{count}",
            FIRST_PART + 2 * k + turn,
            f"{name}, part {k + 1} of {count}",
            low=cuts[k],
            high=cuts[k + 1],
        )
        for turn, name in enumerate(("probability", "label"))
        for k in range(count)
    )


def further_moments(moments: Iterable[Any]) -> list[Any]:
    """Those that take more than decisions."""
    return [m for m in moments if m.quantity > DOWN]
