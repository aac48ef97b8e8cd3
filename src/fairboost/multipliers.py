"""The dual player: how multipliers answer to violations.

State in, state out: a step takes a state and returns the next, and changes nothing. The Lagrangian
owns the current state (:mod:`fairboost.lagrangian`).

The paper's step (Eq. 9, and line 9 of Algorithm 1) is projected gradient ascent,
``multiplier <- max(0, multiplier + rate * violation)``, on *exact* violations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairboost._typing import FloatArray

__all__ = ["DualState", "ascend", "start"]


@dataclass(frozen=True)
class DualState:
    """The multipliers, one per inequality, never negative."""

    multipliers: FloatArray


def start(n_inequalities: int) -> DualState:
    """All multipliers at zero (line 3 of Algorithm 1)."""
    return DualState(np.zeros(n_inequalities))


def ascend(state: DualState, violations: FloatArray, learning_rate: float) -> DualState:
    """One step of projected gradient ascent.

    Examples
    --------
    >>> ascend(DualState(np.array([0.0, 0.2])), np.array([0.5, -0.5]), 1.0).multipliers
    array([0.5, 0. ])
    """
    return DualState(np.maximum(0.0, state.multipliers + learning_rate * violations))
