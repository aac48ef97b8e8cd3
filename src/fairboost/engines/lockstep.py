"""Boosters that go along with the one that is kept, and scores of the rows held out.

Engines call an objective once per round, with the scores of the training rows. What happens around
it is the same for all of them and stands here; how a booster takes a round, and how its scores are
read, is in the engine's own ``lockstep.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from fairboost._typing import ScoreArray
from fairboost.engines.port import Gradients, Problem
from fairboost.engines.signals import raise_dropped


class Boosters(Protocol):
    """The boosters of an engine: one per follower, and last the one that is kept."""

    def update(self, k: int, gradients: Callable[[ScoreArray], Gradients]) -> None:
        """Let booster k take a round; -1 is the one that is kept."""

    def scores(self, k: int) -> ScoreArray:
        """Scores of booster k of the training rows; an array that stays."""

    def held_out_scores(self) -> Sequence[ScoreArray]:
        """Scores of the rows held out, table by table, by the booster that is kept."""

    def n_rounds(self) -> int:
        """Rounds of the booster that is kept."""


class Lockstep:
    """What happens around each round of the booster that is kept.

    Parameters
    ----------
    problem : Problem
        What to train.
    boosters : Boosters
        Those of the engine.
    """

    def __init__(self, problem: Problem, boosters: Boosters) -> None:
        self.problem, self.boosters = problem, boosters
        n_rows = sum(len(f.fold) for f in problem.followers)  # folds make up all rows
        self.out_of_fold = np.empty(n_rows)
        self.last_scores: list[ScoreArray] = []
        self.last_held_out: Sequence[ScoreArray] = []

    def gradients(self, scores: ScoreArray) -> Gradients:
        """Let everyone else take their round, and give the gradient of the booster kept."""
        raise_dropped()
        for k in range(len(self.problem.followers)):
            self.boosters.update(k, partial(self._follow, k))
        return self.problem.play(scores, self._held_out())

    def finish(self) -> None:
        """Hand out the scores after the last round, and keep them for a stage."""
        n = len(self.problem.followers)
        self.last_scores = [self.boosters.scores(k) for k in (*range(n), -1)]
        for follower, scores in zip(self.problem.followers, self.last_scores, strict=False):
            self.out_of_fold[follower.fold] = scores[follower.fold]
        self.problem.finish(self.last_scores[-1], self._held_out())

    def run(self, rounds: int) -> None:
        """Boost for some rounds, where the engine has no loop of its own."""
        for _ in range(rounds):
            self.boosters.update(-1, self.gradients)
            self.problem.after_round(self.boosters.n_rounds())
        self.finish()

    def _follow(self, k: int, scores: ScoreArray) -> Gradients:
        follower = self.problem.followers[k]
        self.out_of_fold[follower.fold] = scores[follower.fold]
        return follower.gradients(scores)

    def _held_out(self) -> Any:
        """Scores to measure moments on: out of fold, of the rows held out, or none."""
        if self.problem.followers:
            return self.out_of_fold
        if not self.problem.held_out:
            return None
        parts = self.last_held_out = self.boosters.held_out_scores()
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
