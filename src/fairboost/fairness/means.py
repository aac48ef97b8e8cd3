"""Moments of a number that is predicted: who counts is everyone, and what counts is a number.

Everything is per unit of exposure, and rows weigh by it; without exposures a row counts as one.
With r the prediction and a the actual figure of a row, the moments of a group are means of::

    prediction     r
    actual         a
    loss           the squared or absolute error, or the deviance
    above q        [r is above the q-quantile of all predictions]

The last ones, at several q, are the distribution of predictions, read at thresholds that follow
it.
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
    """

    name: str
    quantity: int
    title: str
    label: None = None

    @property
    def is_share(self) -> bool:
        """Whether it is a share of rows, of which the variance follows."""
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
COMPARED = "prediction", "loss"
"""The means that can be constrained by themselves: what was actual does not depend on the model.
"""


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
        NumberMoment(f"above q{q:.2f}", FIRST_LEVEL + k, f"share above the {q:.0%} quantile")
        for k, q in enumerate(levels(count))
    )
