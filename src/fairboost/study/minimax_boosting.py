"""Min-max boosting, M2FGB (Pereira, Valdrighi and Raimundo, 2025), written from the paper.

The loss of everyone and that of the worst group are minimised together, with a weight in [0, 1]::

    minimise   (1 - fair_weight) L  +  fair_weight max_z L_z
             = max over mu of  (1 - fair_weight) L + sum_z mu_z L_z

where mu is at least 0 and sums to ``fair_weight``. Every round takes a step of size
``dual_learning_rate`` along the losses L_z, projects the weights mu back to the simplex, and grows
a tree on the gradient of the sum. L is the mean log loss; L_z is the log loss of group z among the
rows that count, so that a small L_z means a large

- true positive rate (equal opportunity: rows of label 1),
- true negative rate (predictive equality: rows of label 0),
- share of positive decisions (demographic parity: all rows, as if their label were 1).

The paper has no term for equalized odds. There is no tolerance: the trade-off is ``fair_weight``.
What departs from the paper: trees start from the log-odds of all rows, as LightGBM's own do, so
that a weight of 0 is plain LightGBM; and the second derivative is that of the sum as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from fairboost._typing import FloatArray, IntArray
from fairboost.search.spaces import Range
from fairboost.study.measures import Predictions
from fairboost.study.task import LABELS, Found, Task

FAIR_WEIGHT, DUAL_LEARNING_RATE = 0.5, 0.1
SPACE = {"fair_weight": Range(0.0, 1.0), "dual_learning_rate": Range(0.01, 1.0, log=True)}
"""Options that are searched, unless a configuration has others."""


def on_simplex(values: FloatArray, total: float) -> FloatArray:
    """The point of the simplex of a total that is nearest.

    Examples
    --------
    >>> on_simplex(np.array([0.9, 0.5, -3.0]), 1.0)
    array([0.7, 0.3, 0. ])
    """
    falling = np.sort(values)[::-1]
    level = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    used = np.flatnonzero(falling > level)
    last = used[-1] if len(used) else 0  # of a total of 0 the largest value alone is on the level
    nearest: FloatArray = np.maximum(values - level[last], 0.0)
    return nearest


@dataclass
class MinMaxLoss:
    """The objective, whose group weights move with every call.

    Parameters
    ----------
    codes : (n,) int
        Groups; -1 is of none.
    counts : (n,) bool
        Rows that count in the loss of their group.
    target : (n,) float64
        The label that the loss of a group compares with.
    fair_weight : float
        In [0, 1].
    dual_learning_rate : float
        Step of the group weights.
    """

    codes: IntArray
    counts: FloatArray
    target: FloatArray
    fair_weight: float
    dual_learning_rate: float
    group_weight: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Begin with equal weights."""
        self._of = np.where(self.counts.astype(bool), self.codes, -1)
        n_groups = int(self.codes.max()) + 1
        self._n = np.bincount(self._of[self._of >= 0], minlength=n_groups)
        if not self._n.all():
            raise ValueError(
                f"no row of group {int(np.argmin(self._n))} counts in its loss; merge groups"
            )
        self.group_weight = np.full(n_groups, self.fair_weight / n_groups)

    def group_losses(self, scores: FloatArray) -> FloatArray:
        """Log loss of each group among the rows that count."""
        loss = np.logaddexp(0.0, scores) - self.target * scores
        mine = self._of >= 0
        return np.bincount(self._of[mine], loss[mine], len(self._n)) / self._n

    def value(self, y: FloatArray, scores: FloatArray) -> float:
        """The sum at the present group weights."""
        everyone = float((np.logaddexp(0.0, scores) - y * scores).mean())
        fair = float(self.group_weight @ self.group_losses(scores))
        return (1 - self.fair_weight) * everyone + fair

    def derivatives(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivative by score, times the number of rows."""
        proba = expit(scores)
        own = np.append(self.group_weight / self._n, 0.0)[self._of] * len(scores)
        first = (1 - self.fair_weight) * (proba - y) + own * (proba - self.target)
        return first, (1 - self.fair_weight + own) * proba * (1 - proba)

    def __call__(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A round: a step of the group weights, then derivatives for a tree."""
        step = self.dual_learning_rate * self.group_losses(scores)
        self.group_weight = on_simplex(self.group_weight + step, self.fair_weight)
        return self.derivatives(y, scores)


def minimax_boosting(task: Task) -> Found:
    """LightGBM on the sum of the mean loss and the worst group's."""
    train, y = task.train, task.train.y.astype(np.float64)
    (label,) = LABELS[task.constraint]
    loss = MinMaxLoss(
        pd.factorize(train.s, sort=True)[0],
        np.ones(len(y)) if label is None else (train.y == label).astype(np.float64),
        np.ones(len(y)) if label is None else y,
        float(task.options.get("fair_weight", FAIR_WEIGHT)),
        float(task.options.get("dual_learning_rate", DUAL_LEARNING_RATE)),
    )
    start = float(logit(y.mean()))
    model = task.engine().set_params(objective=loss)
    model.fit(train.X, train.y, init_score=np.full(len(y), start))
    return lambda rows: Predictions(expit(start + model.predict(rows.X, raw_score=True)))
