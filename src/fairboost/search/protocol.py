"""The paper's protocol, as pure functions of trials.

One bootstrap replicate draws as many trials as train 20 models, with replacement, and keeps the
model that is best on the *validation* rows by

    alpha * performance + (1 - alpha) * fairness.

What is reported is that model's performance and fairness on the *test* rows: mean and deviation
over 1000 replicates, at some alpha or at all. Methods of equally many trials share their draws,
and trials of the same number share their options, so differences between methods are paired.
Replicates say how far results depend on the luck of the search; that the test rows are a sample
too is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import BoolArray, FloatArray
from fairboost.exceptions import InvalidInputError

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Pool:
    """The models of an algorithm: what the trials of its search came to.

    Parameters
    ----------
    trial : (m,) int
        The trial of each model, from 0.
    validation, test : (m, 2) float64
        Performance and fairness of each.
    n_trials : int
        Trials, those that failed included.
    models : int
        Models trained in a trial, for the budget.
    """

    trial: Indices
    validation: FloatArray
    test: FloatArray
    n_trials: int
    models: int = 1

    def __post_init__(self) -> None:
        if len(self.trial) and not 0 <= self.trial.min() <= self.trial.max() < self.n_trials:
            raise InvalidInputError(
                f"trials must be numbered 0 to {self.n_trials - 1}, found "
                f"{self.trial.min()} to {self.trial.max()}"
            )

    def size(self, models: int) -> int:
        """Trials of one replicate that trains so many models."""
        return max(models // self.models, 1)


@dataclass(frozen=True)
class Summary:
    """Mean and deviation over replicates, and the interval that holds 95% of them."""

    mean: float
    deviation: float
    low: float
    high: float


def draw_trials(n_trials: int, size: int, replicates: int, seed: int) -> Indices:
    """Trials of every replicate, drawn with replacement; the same for the same numbers.

    Examples
    --------
    >>> draw_trials(10, 3, 2, seed=0).shape
    (2, 3)
    """
    return np.random.default_rng([seed, 20]).integers(n_trials, size=(replicates, size))


def select(pool: Pool, draws: Indices, alpha: float) -> Indices:
    """The model that each replicate keeps; -1 where all of its trials failed.

    Parameters
    ----------
    pool : Pool
        The models.
    draws : (replicates, size) int
        Trials of every replicate.
    alpha : float
        Weight of performance.

    Examples
    --------
    >>> figures = np.array([[0.8, 0.5], [0.7, 0.9]])
    >>> pool = Pool(np.array([0, 1]), figures, figures, 2)
    >>> select(pool, np.array([[0, 0], [0, 1]]), 0.5)
    array([0, 1])
    """
    # As ranks: of models that are worth the same the fairer one is kept.
    figures = np.column_stack([merits(pool.validation, alpha), pool.validation[:, 1]])
    worth = np.unique(figures, axis=0, return_inverse=True)[1].ravel()
    # Best model of each trial first: replicates then compare trials only.
    order = np.lexsort((-worth, pool.trial))
    first = order[np.unique(pool.trial[order], return_index=True)[1]]
    best, value = np.full(pool.n_trials, -1), np.full(pool.n_trials, -np.inf)
    best[pool.trial[first]], value[pool.trial[first]] = first, worth[first]
    winner = np.argmax(value[draws], axis=1)
    found: Indices = best[draws[np.arange(len(draws)), winner]]
    return found


def merits(figures: FloatArray, alpha: float) -> FloatArray:
    """``alpha * performance + (1 - alpha) * fairness``."""
    found: FloatArray = alpha * figures[:, 0] + (1 - alpha) * figures[:, 1]
    return found


def summarize(values: FloatArray) -> Summary:
    """Summary of one value per replicate; those that are NaN had nothing to choose from."""
    values = values[np.isfinite(values)]
    if not len(values):
        return Summary(*[float("nan")] * 4)
    low, high = np.quantile(values, [0.025, 0.975])
    return Summary(float(values.mean()), float(values.std()), float(low), float(high))


def of_chosen(figures: FloatArray, chosen: Indices) -> FloatArray:
    """Figures of the models kept; NaN where there is none."""
    return np.where((chosen < 0)[:, None], np.nan, figures[chosen])


def hypervolume(figures: FloatArray, reference: Sequence[float]) -> float:
    """Area that some models dominate, from a reference on.

    Parameters
    ----------
    figures : (m, 2) float64
        Performance and fairness, both the better the larger.
    reference : (float, float)
        What is worth nothing.

    Examples
    --------
    >>> hypervolume(np.array([[0.5, 1.0], [1.0, 0.5], [0.4, 0.4]]), (0.0, 0.0))
    0.75
    """
    gains = np.maximum(figures - np.asarray(reference, float), 0.0)
    width, height = gains[np.lexsort((-gains[:, 1], -gains[:, 0]))].T
    # From the best performance down, each adds what it is higher than all before.
    higher = np.diff(np.maximum.accumulate(height), prepend=0.0)
    return float(np.cumsum(width * higher)[-1]) if len(width) else 0.0


def non_dominated(figures: FloatArray) -> BoolArray:
    """Which models no other is at least as good as in both, and better in one."""
    order = np.lexsort((-figures[:, 1], -figures[:, 0]))
    kept, height, last = np.zeros(len(figures), bool), -np.inf, (np.nan, np.nan)
    for k in order:
        if figures[k, 1] > height or tuple(figures[k]) == last:
            kept[k], height, last = True, figures[k, 1], tuple(figures[k])
    return kept


def hypervolumes(pool: Pool, draws: Indices, reference: Sequence[float]) -> FloatArray:
    """Area on the test rows of the models that no other beats on the validation rows."""
    members = [np.flatnonzero(pool.trial == t) for t in range(pool.n_trials)]
    found = np.full(len(draws), np.nan)
    for r, drawn in enumerate(draws):
        models = np.concatenate([members[t] for t in np.unique(drawn)])
        if len(models):
            front = models[non_dominated(pool.validation[models])]
            found[r] = hypervolume(pool.test[front], reference)
    return found


def chosen_within(
    trial: Indices, performance: FloatArray, gap: FloatArray, most: float
) -> Indices:
    """One model per trial: the best within a tolerance, or the one of least gap if none is.

    Of models that perform alike it is the fairest, so that no other is better in one and as good
    in the other.

    Parameters
    ----------
    trial : (m,) int
        The trial of each model.
    performance, gap : (m,) float64
        On the validation rows.
    most : float
        The tolerance.

    Examples
    --------
    >>> trial, gap = np.array([0, 0, 1, 1]), np.array([0.1, 0.005, 0.03, 0.02])
    >>> chosen_within(trial, np.array([0.9, 0.8, 0.9, 0.8]), gap, 0.01)
    array([1, 3])
    """
    outside = np.maximum(gap - most, 0.0)
    order = np.lexsort((gap, -performance, outside, trial))
    found: Indices = order[np.unique(trial[order], return_index=True)[1]]
    return found
