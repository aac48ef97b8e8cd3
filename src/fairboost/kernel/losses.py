"""Losses of a number to be predicted, with the gradient and the Hessian that engines give them.

A loss is a function of a score f and a target y. Under the **log link** the prediction is exp(f),
so that it is positive, and an exposure e is an offset: f has log(e) in it. ``value`` is 0 where
prediction and target agree, and its derivative by f is the gradient::

    squared        (f - y)^2 / 2                     g = f - y              h = 1
    absolute       |f - y|                           g = sign(f - y)        h = 1 / |f - y|
    quantile       (a - [y < f]) (y - f)             g = [y < f] - a        h = 1 / (2 |f - y|)
    huber          squared within d, else linear     g = f - y in [-d, d]   h = 1
    pseudo_huber   d^2 (s - 1)                       g = (f - y) / s        h = 1 / s^3
    poisson        m - y + y log(y / m)              g = m - y              h = m exp(step)
    gamma          y / m - 1 - log(y / m)            g = 1 - y / m          h = y / m
    tweedie        by its power p                    g = m^(2-p) - y m^(1-p)

with m = exp(f) and s = sqrt(1 + (f - y)^2 / d^2). Engines have their own constants: the step that
Poisson's Hessian is taken at, the d of Huber, the a of a quantile.

Of the absolute and the quantile loss the second derivative is 0. Engines put 1 in its place and
set leaves to medians afterwards, which a custom objective cannot ask for. The Hessian above is
that of the parabola that touches the loss at f and is nowhere below it, so that no step that goes
to its minimum makes the loss larger; residuals of less than ``CLOSEST`` of the typical one count
as so large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.special import xlogy

from fairboost._typing import FloatArray
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce, median_over

LossName: TypeAlias = Literal[
    "squared", "absolute", "quantile", "huber", "pseudo_huber", "poisson", "gamma", "tweedie"
]
LOSSES: tuple[str, ...] = get_args(LossName)

CLOSEST = 0.5
"""Residuals of the absolute and the quantile loss are at least this share of their median. With
0.05, rows that are nearly right hold their leaf where it is: after 100 trees at a rate of 0.1 the
loss on new rows was 2.5% above that of the stock engine, with 0.5 it was the same."""

NO_LIMIT = 1e30
"""A share that no push comes to; a number, as 0 times infinity is none."""


@dataclass(frozen=True)
class Loss:
    """A loss, as an engine's options describe it.

    Parameters
    ----------
    name : str
        One of the above.
    shape : float
        Level of a quantile, d of Huber's losses, power of Tweedie's.
    step : float
        What the engine adds to a score before it takes Poisson's Hessian.

    Examples
    --------
    >>> Loss("poisson").slopes(np.zeros(2), np.array([0.0, 3.0]))[0]
    array([ 1., -2.])
    """

    name: LossName
    shape: float = 0.0
    step: float = 0.0

    @property
    def log_link(self) -> bool:
        """Whether the prediction is exp(score)."""
        return self.name in ("poisson", "gamma", "tweedie")

    @property
    def power(self) -> float:
        """The p of a log link: the slope of the loss is ``m^(2 - p) (1 - y / m)``."""
        return {"poisson": 1.0, "gamma": 2.0}.get(self.name, self.shape)

    @property
    def most_up(self) -> float:
        """The share of ``m^(2 - p)`` by which a mean that is to rise may push a row, at most.

        Under a weight -c on its prediction a row rests where ``m^(2 - p) (1 - y / m) = c m``. The
        left side grows as ``m^(2 - p)``, the right as m: from ``m = y p / (p - 1)`` on, where the
        right is 1 / p of ``m^(2 - p)``, nothing holds the row, and it flies off while its group's
        mean is not yet where it should be. A Poisson loss (p = 1) grows as fast as the mean.
        """
        return 1.0 / self.power if self.name in ("gamma", "tweedie") else NO_LIMIT

    @property
    def renews_leaves(self) -> bool:
        """Whether engines set leaves to medians or quantiles, which no gradient asks for."""
        return self.name in ("absolute", "quantile")

    @property
    def least_target(self) -> float:
        """Targets are no less than this; under a gamma loss they are more."""
        return 0.0 if self.log_link else -np.inf

    def prediction(self, scores: FloatArray) -> FloatArray:
        """What scores stand for."""
        return np.exp(scores) if self.log_link else scores

    def score(self, prediction: float) -> float:
        """The score of a prediction."""
        return float(np.log(prediction)) if self.log_link else float(prediction)

    def value(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The loss of each row."""
        away, d = scores - y, self.shape
        if self.name == "squared":
            return np.square(away) / 2
        if self.name == "absolute":
            return np.abs(away)
        if self.name == "quantile":
            return np.maximum(-d * away, (1.0 - d) * away)
        if self.name == "huber":
            size = np.abs(away)
            return np.where(size <= d, away**2 / 2, d * (size - d / 2))
        if self.name == "pseudo_huber":
            return d**2 * (np.sqrt(1.0 + (away / d) ** 2) - 1.0)
        if self.name == "poisson":
            return np.exp(scores) - y * scores + self.fixed_part(y)
        if self.name == "gamma":
            return y * np.exp(-scores) + scores + self.fixed_part(y)
        far, near = np.exp((1.0 - d) * scores), np.exp((2.0 - d) * scores)
        return near / (2.0 - d) - y * far / (1.0 - d) + self.fixed_part(y)

    def fixed_part(self, y: FloatArray) -> FloatArray:
        """What of the loss of each row no score changes, under a log link; 0 elsewhere."""
        d, out = self.shape, np.zeros(len(y))
        if self.name == "poisson":
            out = xlogy(y, y) - y
        elif self.name == "gamma":
            out = -1.0 - np.log(y)
        elif self.name == "tweedie":
            out = y ** (2.0 - d) / ((1.0 - d) * (2.0 - d))
        return out

    def slopes(
        self, scores: FloatArray, y: FloatArray, least: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian of each row, as the engine has them.

        Parameters
        ----------
        scores, y : (n,) float64
            Scores and targets.
        least : float, optional
            What :meth:`closest` gives for the rows that these are a part of; for these by default.
        """
        away, d = scores - y, self.shape
        if self.name == "squared":
            return away, np.ones_like(away)
        if self.name == "absolute":
            return np.sign(away), 1.0 / self._size(away, least)
        if self.name == "quantile":
            return np.where(away >= 0, 1.0 - d, -d), 0.5 / self._size(away, least)
        if self.name == "huber":
            return np.clip(away, -d, d), np.ones_like(away)
        if self.name == "pseudo_huber":
            s = np.sqrt(1.0 + (away / d) ** 2)
            return away / s, s**-3
        if self.name == "poisson":
            m = np.exp(scores)
            return m - y, m * np.exp(self.step)
        if self.name == "gamma":
            part = y * np.exp(-scores)
            return 1.0 - part, part
        far, near = y * np.exp((1.0 - d) * scores), np.exp((2.0 - d) * scores)
        return near - far, (2.0 - d) * near - (1.0 - d) * far

    def closest(self, away: FloatArray, machines: AllReduce = ONE_MACHINE) -> float:
        """What residuals count as at least, where engines set leaves to medians; 0 elsewhere."""
        if not self.renews_leaves:
            return 0.0
        away = np.abs(away)
        least = CLOSEST * median_over(machines, away)
        if least == 0:  # most rows are right, as of counts, and the curvature of these is finite
            least = CLOSEST * median_over(machines, away[away > 0])
        return least if least > 0 else 1.0

    def _size(self, away: FloatArray, least: float | None) -> FloatArray:
        return np.maximum(np.abs(away), self.closest(away) if least is None else least)
