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
from typing import Any, Protocol, runtime_checkable

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
    """

    values: FloatArray
    weights: FloatArray
    groups: tuple[tuple[object, ...], ...]
