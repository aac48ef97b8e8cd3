"""The dual player: how multipliers answer to violations.

State in, state out: a step takes a state and returns the next, and changes nothing. A session
owns the current state (:class:`fairboost.algorithm.game.Session`).

* :class:`Ascent` is the paper's step (Eq. 9, and line 9 of Algorithm 1), projected gradient
  ascent: ``multiplier <- max(0, multiplier + rate * violation)``.
* :class:`Control` is proportional-integral control (Sohrabi et al., ICML 2024), the default.
  Boosting with shrinkage answers slowly to a multiplier: by the time the violation is gone, an
  integral has overshot. A term in proportion to the (smoothed) violation acts at once and goes
  when the violation goes::

      integral   <- max(0, integral + gain u e)         e: the violation
      smoothed   <- memory smoothed + (1 - memory) e    u: the unit of the multiplier
      multiplier  = max(0, integral + damping u smoothed)

  The units make one gain serve all (:meth:`fairboost.algorithm.margins.Margins.units`): trees
  answer to the weight that a multiplier puts on a *row*, whatever the number of rows in the group,
  and the same change of scores moves a rare rate less than a common one. Multipliers that have
  fewer than 80 rounds to settle in are given a higher gain (:func:`gain_over`). Those of means,
  which follow scores at the learning rate, have a gain and a damping made for it
  (:func:`at_rate`).

  How much of a rate lies close to the threshold no unit knows: where one group's features say
  less than another's, equal error rates make all scores of a group meet at the threshold, and any
  step flips them all; where features hardly reveal the group, rates hardly answer. So the unit
  has a factor, the **pace**, that listens: it is halved where a violation changes its sign under
  a multiplier that is at work, and grows otherwise (``benchmarks/settling.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fairboost._typing import BoolArray, FloatArray


@dataclass(frozen=True)
class DualState:
    """The multipliers, one per inequality, never negative, and what the player remembers."""

    multipliers: FloatArray
    integral: FloatArray
    smoothed: FloatArray
    pace: FloatArray
    latest: FloatArray
    overshot: BoolArray


def start(n_inequalities: int) -> DualState:
    """All multipliers at zero (line 3 of Algorithm 1)."""
    return resume(np.zeros(n_inequalities))


def resume(multipliers: FloatArray) -> DualState:
    """Start from given multipliers, with no violation in memory."""
    none = np.zeros_like(multipliers)
    pace, overshot = np.ones_like(multipliers), np.zeros(len(multipliers), bool)
    return DualState(multipliers, multipliers, none, pace, none, overshot)


def at_most(state: DualState, most: FloatArray) -> DualState:
    """The same with no multiplier, and no integral, above a limit."""
    multipliers, integral = (np.minimum(v, most) for v in (state.multipliers, state.integral))
    return replace(state, multipliers=multipliers, integral=integral)


class DualPlayer(Protocol):
    """Moves the multipliers once per round."""

    def step(self, state: DualState, violations: FloatArray, units: FloatArray) -> DualState:
        """Answer to the violations of a round."""


@dataclass(frozen=True)
class Ascent:
    """Projected gradient ascent, as in the paper; units do not matter to it.

    Examples
    --------
    >>> state = Ascent(1.0).step(start(2), np.array([0.5, -0.5]), np.ones(2))
    >>> state.multipliers
    array([0.5, 0. ])
    """

    rate: float

    def step(self, state: DualState, violations: FloatArray, units: FloatArray) -> DualState:
        """Climb by the violations."""
        moved = np.maximum(0.0, state.multipliers + self.rate * violations)
        return replace(state, multipliers=moved, integral=moved, smoothed=violations)


@dataclass(frozen=True)
class Rest:
    """Does not move: the model is trained without constraints, and their rates are looked at."""

    def step(self, state: DualState, violations: FloatArray, units: FloatArray) -> DualState:
        """Stay."""
        return state


SETTLED = 80
"""Rounds in which multipliers settle at a gain of 1."""

ROUNDS_TO_ANSWER = 5
"""A gain of g takes g times so many rounds, or rates swing: trees answer to it that slowly."""


def gain_over(rounds: int) -> float:
    """The gain at which multipliers settle in some rounds, as far as they can.

    Examples
    --------
    >>> [gain_over(rounds) for rounds in (5, 10, 20, 40, 80, 400)]
    [1.0, 2.0, 4.0, 2.0, 1.0, 1.0]
    """
    rounds = max(rounds, 1)  # the engine refuses none
    return max(1.0, min(SETTLED / rounds, rounds / ROUNDS_TO_ANSWER))


DAMPING = 5.0
"""The term in proportion to the violation, over what a round adds to the integral."""

MOST_DAMPING = 20.0
"""The same where a moment is known to follow slowly, at most."""

SLOW = 0.1
"""Learning rate up to which boosting is slow to answer; more rounds make up for a lower one."""


SLOWER, FASTER, STALLED = 0.5, 1.02, 1.05
"""What the pace of a multiplier is multiplied by where its violation overshoots, where it does
not, and where it never has and does not fall. Of 0.7 and 1.05 rates swung more than with a pace
of 1."""

FALLING = 0.95
"""A violation falls if it is below this share of what it was in the last rounds."""

MOST_PACE = 8.0
"""The largest pace. With 32 rates swung more, and faint groups were no closer."""


@dataclass(frozen=True)
class Control:
    """Proportional-integral control that listens.

    Parameters
    ----------
    gain, damping : float
        Of the integral of violations, and of the present one over that.
    memory : float
        Share of the last round in smoothed violations.
    most : float or (n_inequalities,) float64, optional
        The largest pace. None does not listen: it is known how moments answer.

    Examples
    --------
    >>> Control(gain=1.0, damping=0.0).step(start(2), np.array([0.5, -0.5]), np.ones(2)).integral
    array([0.5, 0. ])
    """

    gain: float = 1.0
    damping: float = DAMPING
    memory: float = 0.5
    most: float | FloatArray | None = None

    def step(self, state: DualState, violations: FloatArray, units: FloatArray) -> DualState:
        """Integrate the violations, and lean against the present one."""
        pace, overshot = state.pace, state.overshot
        if self.most is not None:
            pace, overshot = _listened(state, violations, self.most)
            units = pace * units
        integral = np.maximum(0.0, state.integral + self.gain * units * violations)
        smoothed = self.memory * state.smoothed + (1.0 - self.memory) * violations
        moved = np.maximum(0.0, integral + self.damping * units * smoothed)
        return DualState(moved, integral, smoothed, pace, violations, overshot)


def _listened(
    state: DualState, violations: FloatArray, most: float | FloatArray
) -> tuple[FloatArray, BoolArray]:
    """The pace after a round, and which multipliers have ever overshot."""
    turned = (state.multipliers > 0) & (state.latest * violations < 0)
    overshot = state.overshot | turned
    stalled = ~overshot & (violations >= FALLING * state.smoothed)
    pace = state.pace * np.where(turned, SLOWER, np.where(stalled, STALLED, FASTER))
    at_work = (state.multipliers > 0) | (violations > 0)
    return np.where(at_work, np.minimum(pace, most), state.pace), overshot


EG_DAMPING = 5.0
"""The term in proportion to the error of a group, over what a round adds to its logarithm."""


@dataclass(frozen=True)
class GroupWeights:
    """Multipliers that add up to a total: the weights of groups in the mean of their errors.

    Parameters
    ----------
    part : slice
        Which multipliers.
    start : (n,) float64
        Weights to start from, all above 0; they add up to 1.
    total : float
        What the multipliers add up to.
    moments : slice
        The errors of the same groups among all moments.
    rate : float
        Step of the logarithms of weights per error.
    """

    part: slice
    start: FloatArray
    total: float
    moments: slice
    rate: float


@dataclass(frozen=True)
class OnSimplex:
    """Exponentiated gradient for some multipliers, and another player for the rest.

    The logarithm of a weight grows by the error of its group, and leans against the present error
    as :class:`Control` does. Errors may be given up to a number that is the same for all groups.

    Examples
    --------
    >>> groups = GroupWeights(slice(0, 2), np.array([0.5, 0.5]), 2.0, slice(0, 2), 1.0)
    >>> player = OnSimplex(Rest(), (groups,), damping=0.0)
    >>> state = player.step(player.first(start(2)), np.array([0.0, np.log(3)]), np.ones(2))
    >>> state.multipliers.round(3)
    array([0.5, 1.5])
    """

    inner: DualPlayer
    shares: tuple[GroupWeights, ...]
    damping: float = EG_DAMPING
    memory: float = 0.5

    def first(self, state: DualState) -> DualState:
        """The state before the first round."""
        moved = state.multipliers.copy()
        for s in self.shares:
            moved[s.part] = s.total * s.start
        return replace(state, multipliers=moved, integral=np.zeros_like(moved))

    def step(self, state: DualState, violations: FloatArray, units: FloatArray) -> DualState:
        """Answer to the violations of a round."""
        rest = self.inner.step(state, violations, units)
        moved, integral = rest.multipliers.copy(), rest.integral.copy()
        smoothed = rest.smoothed.copy()
        for s in self.shares:
            errors = violations[s.part] - violations[s.part].max()
            logs = state.integral[s.part] + s.rate * errors
            integral[s.part] = logs - logs.max()
            smoothed[s.part] = self.memory * state.smoothed[s.part] + (1 - self.memory) * errors
            leaning = logs + self.damping * s.rate * smoothed[s.part]
            weights = s.start * np.exp(leaning - leaning.max())
            moved[s.part] = s.total * weights / weights.sum()
        return replace(rest, multipliers=moved, integral=integral, smoothed=smoothed)


def at_rate(learning_rate: float, rounds: int = SETTLED, gain: float | None = None) -> Control:
    """Control of a moment that goes a share ``learning_rate`` of its way in each round.

    With unit answers, a share r of the way and a violation that is answered one round later, the
    loop from a violation to itself is ``r / (z - (1 - r))`` times one round of delay times
    ``gain z / (z - 1) + damping``. A damping of ``(1 - r) / r`` times the gain cancels the lag of
    the moment, and what is left, ``gain / (z (z - 1))``, is stable up to a gain of 1 whatever r
    is. A fixed damping is not: 5 times r passes 1. Units leave a gain of a quarter of that
    (``RESPONSE`` of :mod:`fairboost.tasks.regression`), as both sides of a parity may pull at a
    time, and violations are smoothed. Where r is small twice the gain does no harm.

    Parameters
    ----------
    learning_rate : float
        Of the engine.
    rounds : int
        That there are to settle in. One at a rate of 0.3 goes as far as three at 0.1.
    gain : float, optional
        In place of the one that follows from the rounds.

    Examples
    --------
    >>> [round(at_rate(rate).damping, 2) for rate in (0.05, 0.1, 0.3, 0.5, 1.0)]
    [19.0, 9.0, 2.33, 1.0, 0.0]
    """
    share = min(max(learning_rate, np.finfo(float).tiny), 1.0)
    if gain is None:
        gain = gain_over(round(rounds * max(share / SLOW, 1.0)))
        gain = max(gain, min(2.0 * SLOW / share, 2.0))
    return Control(gain, min(MOST_DAMPING, (1.0 - share) / share))
