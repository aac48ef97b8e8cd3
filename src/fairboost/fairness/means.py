"""Moments of a number that is predicted: who counts is everyone, and what counts is a number.

Everything is per unit of exposure, and rows weigh by it; without exposures a row counts as one.
With r the prediction and a the actual figure of a row, the moments of a group are means of::

    prediction     r
    actual         a
    loss           the squared or absolute error, or the deviance
    above q        [r is above the q-quantile of all predictions]
    in part k      r, and a, times [r lies in part k of all predictions]

Shares above several q are the distribution of predictions. Parts are cut at quantiles too, evenly
spaced: over the mean of r in part k, that of a is actual over expected there. All of these
quantiles follow the predictions from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class NumberMoment:
    """The mean of a quantity over all rows.

    Parameters
    ----------
    name : str
        Short name, as users write it.
    quantity : int
        Which of the task's quantities is averaged.
    title : str
        The name in words, for tables and plots.
    low, high : float
        Quantiles of all predictions between which a row has the quantity; elsewhere it has 0.
    """

    name: str
    quantity: int
    title: str
    label: None = None
    low: float = 0.0
    high: float = 1.0

    @property
    def kind(self) -> int:
        """0 for the prediction, 1 for the actual figure, 2 for the loss, 3 for a share of rows."""
        at = self.quantity - FIRST_LEVEL
        return self.quantity if at < 0 else (SHARE, 0, 1)[at % KINDS]

    @property
    def is_share(self) -> bool:
        """Whether it is a share of rows, of which the variance follows."""
        return self.kind == SHARE

    @property
    def is_part(self) -> bool:
        """Whether it is of rows between quantiles of the predictions."""
        return self.quantity >= FIRST_LEVEL

    def counts(self, labels: IntArray) -> BoolArray:
        """All rows count."""
        return np.ones(labels.shape, bool)


NUMBERS: dict[str, NumberMoment] = {
    m.name: m
    for m in (
        NumberMoment("prediction", 0, "mean prediction"),
        NumberMoment("actual", 1, "mean of what was actual"),
        NumberMoment("loss", 2, "mean loss"),
    )
}
FIRST_LEVEL = len(NUMBERS)
SHARE = 3
KINDS = 3
"""Quantities from FIRST_LEVEL on come in turns: a share, a prediction and an actual figure. So
their numbers do not depend on what else is asked for."""


def levels(count: int) -> FloatArray:
    """The q of that many quantiles, evenly spaced."""
    out: FloatArray = np.arange(1, count + 1) / (count + 1)
    return out


def above(count: int) -> tuple[NumberMoment, ...]:
    """Shares of predictions above that many quantiles, evenly spaced.

    Examples
    --------
    >>> [m.name for m in above(3)]
    ['above q0.25', 'above q0.50', 'above q0.75']
    """
    return tuple(
        NumberMoment(
            f"above q{q:.2f}",
            FIRST_LEVEL + KINDS * k,
            f"share above the {q:.0%} quantile",
            low=float(q),
        )
        for k, q in enumerate(levels(count))
    )


def in_parts(count: int) -> tuple[NumberMoment, ...]:
    """Predictions in each of that many parts of equal size, then actual figures there.

    Examples
    --------
    >>> [m.name for m in in_parts(2)]
    ['prediction 1/2', 'prediction 2/2', 'actual 1/2', 'actual 2/2']
    """
    cuts = [0.0, *levels(count - 1).tolist(), 1.0]
    return tuple(
        NumberMoment(
            f"{name} {k + 1}/{count}",
            FIRST_LEVEL + KINDS * k + turn,
            f"{name}, part {k + 1} of {count}",
            low=cuts[k],
            high=cuts[k + 1],
        )
        for turn, name in enumerate(("prediction", "actual"), start=1)
        for k in range(count)
    )
