"""Moments: what a constraint is about.

A **moment** of a group is the weighted mean, over the rows of the group that count, of a
**quantity** of each row. A task says which quantities there are
(:mod:`fairboost.tasks.base`). A quantity has an exact value, which is evaluated and moves the
multipliers, and a smooth slope and curvature, which make the gradient. A rate
(:mod:`fairboost.fairness.rates`) is the moment whose quantity is "the row falls on side d of the
decision threshold".

Constraints compare moments and never know which they are. All that lies between rows and
constraints is one linear map, :class:`fairboost.fairness.binding.MomentMap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray


@runtime_checkable
class Moment(Protocol):
    """Who counts, and the mean of what."""

    @property
    def name(self) -> str:
        """Short name, as users write it."""

    @property
    def title(self) -> str:
        """The name in words, for tables and plots."""

    @property
    def label(self) -> Any:
        """The label of the rows that count; None for all rows."""

    @property
    def quantity(self) -> int:
        """Which of the task's quantities is averaged."""

    def counts(self, labels: IntArray) -> BoolArray:
        """Which labels count."""


class Farthest(NamedTuple):
    """Of each group, one figure to print.

    A constraint that reads many moments of a group may offer it by ``farthest(moments)``: reports
    then print the figure that is farthest from where it should be in place of the moments. A
    constraint on a figure that follows from its moments may offer it by ``by_group(moments)``:
    reports then print the figure above the moments.
    """

    title: str
    """What the figures are, in words."""

    at: tuple[str, ...]
    """Per group, where its figure was found, such as the name of a quantile; may be empty."""

    inequalities: IntArray
    """Per group, the number of the violation whose excess over the limit the figure has."""

    around: float = 0.0
    """What is added to it: 1 for a ratio that is limited by its distance from 1."""


@dataclass(frozen=True)
class GroupMoments:
    """The moments that a constraint reads.

    Parameters
    ----------
    values : (n_moments, n_groups) float64
        One row per moment of the constraint, one column per group.
    weights : (n_moments, n_groups) float64
        Weight of the rows that count towards each.
    groups : tuple of tuple
        Per group, its value of each of the constraint's columns.
    strata : (n_groups,) int, optional
        Groups are compared with those of the same number only; None compares all of them.
    """

    values: FloatArray
    weights: FloatArray
    groups: tuple[tuple[object, ...], ...]
    strata: IntArray | None = None

    def total(self, figures: Any) -> FloatArray:
        """Sums of some figures over the groups that each group is compared with, its own included.

        Parameters
        ----------
        figures : (..., n_groups) array
            By group.
        """
        if self.strata is None:
            out: FloatArray = figures.sum(axis=-1, keepdims=True)
            return out
        lines = np.reshape(figures, (-1, len(self.strata)))
        sums = [np.bincount(self.strata, line)[self.strata] for line in lines]
        return np.reshape(sums, np.shape(figures))

    def largest(self) -> FloatArray:
        """The largest first moment of the groups that each group is compared with."""
        (r, *_) = self.values
        if self.strata is None:
            return np.full(1, r.max())
        out = np.full(int(self.strata.max()) + 1, -np.inf)
        np.maximum.at(out, self.strata, r)
        return out[self.strata]

    def pooled(self) -> FloatArray:
        """The first moment of all the groups together that each group is compared with."""
        (r, *_), (w, *_) = self.values, self.weights
        if self.strata is None:
            return np.full(1, (w @ r) / w.sum())
        return self.total(w * r) / self.total(w)

    def parts(self) -> list[Any]:
        """Indices of the groups that are compared with each other, stratum by stratum."""
        if self.strata is None:
            return [slice(None)]
        return [np.flatnonzero(self.strata == s) for s in np.unique(self.strata)]

    def gap(self) -> float:
        """The largest difference of first moments between two groups that are compared."""
        return max(float(np.ptp(self.values[0, part])) for part in self.parts())
