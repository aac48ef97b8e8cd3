"""Boosters that go along with the one that is kept, and scores of the rows held out.

Engines call an objective once per round, with the scores of the training rows. What happens around
it is the same for all of them and stands here; how a booster takes a round, and how its scores are
read, is in the engine's own ``lockstep.py``.

Boosters of a few ten thousand rows do not use several cores well, since threads wait for each
other at every leaf. So they grow side by side, each on its share of the threads
(:func:`threads_each`), and wait for each other once a round. Where steps are small, half of the
followers take a round at a time, with twice the learning rate (:func:`turns_taken`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Any, Protocol

import numpy as np

from fairboost._typing import IntArray, ScoreArray
from fairboost.engines.port import Gradients, Problem
from fairboost.engines.signals import raise_dropped
from fairboost.kernel.threads import Crew

SMALL_RATE, MANY_ROUNDS = 0.1, 50
"""Learning rate up to which, and rounds from which on, followers take turns. A follower then grows
half the trees, and gaps and accuracy on new rows are the same (``benchmarks/folds.md``). With
XGBoost's rate of 0.3 twice that was a worse model; with 30 trees gaps were larger."""


def turns_taken(problem: Problem, rounds: int, rate: float) -> int:
    """In how many turns followers take their rounds: each takes one in so many.

    Where the cut moves they do not take turns: it is placed on their scores, which are to spread
    like those of the booster that is kept.
    """
    small = rate <= SMALL_RATE * 1.0001 and rounds >= MANY_ROUNDS  # a rate in single precision
    return 2 if small and problem.ready is not None and len(problem.followers) > 1 else 1


def at_once(problem: Problem, turns: int) -> int:
    """Boosters that grow side by side, the one that is kept among them."""
    return 1 + math.ceil(len(problem.followers) / turns)


def threads_each(threads: int, problem: Problem, turns: int = 1) -> int:
    """Threads for each of the boosters that grow side by side.

    Together they leave a third of them to the Python between the rounds and to what else runs: two
    boosters that had all of eight cores, or of sixteen, took a third longer than on six, or ten.
    """
    return max(1, round(threads * 2 / 3 / at_once(problem, turns)))


class Boosters(Protocol):
    """The boosters of an engine: one per follower, and last the one that is kept."""

    def update(self, k: int, gradients: Callable[[ScoreArray], Gradients]) -> None:
        """Let booster k take a round; -1 is the one that is kept."""

    def scores(self, k: int) -> ScoreArray:
        """Scores of booster k of the rows that it is trained on; an array that stays."""

    def left_out_scores(self, k: int) -> ScoreArray:
        """Scores of follower k of the rows that it leaves out."""

    def held_out_scores(self) -> Sequence[ScoreArray]:
        """Scores of the rows held out, table by table, by the booster that is kept."""

    def n_rounds(self) -> int:
        """Rounds of the booster that is kept."""

    def positions(self, rows: IntArray) -> Any:
        """Positions of rows in the form in which they pick from scores."""


class Lockstep:
    """What happens around each round of the booster that is kept.

    Parameters
    ----------
    problem : Problem
        What to train.
    boosters : Boosters
        Those of the engine.
    threads : int
        Threads of all boosters together.
    turns : int, default=1
        Of how many rounds a follower takes one.
    """

    def __init__(self, problem: Problem, boosters: Boosters, threads: int, turns: int = 1) -> None:
        self.problem, self.boosters, self.turns = problem, boosters, turns
        self.round = 0
        self.crew = Crew(min(len(problem.followers), threads - 1))
        # Where cores are short none may idle; else Python of several threads would only queue.
        self.begins_early = problem.ready is not None and at_once(problem, turns) > threads
        self.out_of_fold = np.empty(0)
        self.last_scores: list[ScoreArray] = []
        self.last_held_out: Sequence[ScoreArray] = []
        self.folds = [boosters.positions(f.fold) for f in problem.followers]
        for k in range(len(problem.followers)):
            self._read(k)

    def gradients(self, scores: ScoreArray) -> Gradients:
        """Give the gradient of the booster kept, and let everyone else take their round."""
        raise_dropped()
        self.crew.wait()
        held_out = self._held_out()
        if self.begins_early and self.problem.ready is not None:
            self.problem.ready()
            self._start_followers()
        gradients = self.problem.play(scores, held_out)
        if not self.begins_early:
            self._start_followers()
        return gradients

    def finish(self) -> None:
        """Hand out the scores after the last round, and keep them for a stage."""
        self.crew.wait()
        n = len(self.problem.followers)
        self.last_scores = [self.boosters.scores(k) for k in (*range(n), -1)]
        self.problem.finish(self.last_scores[-1], self._held_out())

    def run(self, rounds: int) -> None:
        """Boost for some rounds, where the engine has no loop of its own."""
        try:
            for _ in range(rounds):
                self.boosters.update(-1, self.gradients)
                self.problem.after_round(self.boosters.n_rounds())
            self.finish()
        finally:
            self.crew.close()

    def _start_followers(self) -> None:
        """Let followers take a round, and their scores be read by whoever is free then."""
        followers = range(self.round % self.turns, len(self.problem.followers), self.turns)
        self.round += 1
        self.grown = {k: Event() for k in followers}
        tasks = [partial(self._follow, k) for k in followers]
        self.crew.start([*tasks, *(partial(self._read_grown, k) for k in followers)])

    def _follow(self, k: int) -> None:
        try:
            self.boosters.update(k, self.problem.followers[k].gradients)
        finally:
            self.grown[k].set()

    def _read_grown(self, k: int) -> None:
        self.grown[k].wait()  # it has begun: tasks are taken in order
        self._read(k)

    def _read(self, k: int) -> None:
        found, followers = self.boosters.left_out_scores(k), self.problem.followers
        if not len(self.out_of_fold):  # folds make up all rows
            n_rows = sum(len(f.fold) for f in followers)
            # An array of the same kind: scores of a GPU stay there.
            self.out_of_fold = np.empty_like(
                found, np.float64, shape=(n_rows, *found.shape[1:]), order="C"
            )
        self.out_of_fold[self.folds[k]] = found
        if (grown := followers[k].grown) is not None:
            grown(self.boosters.scores(k))

    def _held_out(self) -> Any:
        """Scores to measure moments on: out of fold, of the rows held out, or none."""
        if self.problem.followers:
            return self.out_of_fold.copy()  # followers write the next ones while these are read
        if not self.problem.held_out:
            return None
        parts = self.last_held_out = self.boosters.held_out_scores()
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
