"""Boosters that go along with the one that LightGBM trains, and scores that it keeps for us.

LightGBM calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. That is all that is needed, and all of it is public:

* further boosters on the same binned data take a round each whenever the objective is called
  (``Booster.update``); nothing is binned twice;
* the scores of a held-out set are kept by the booster once it has been added as a validation set,
  and ``Booster.eval_valid`` hands them to a metric of ours. Metrics of the user are computed on
  every validation set; their results on ours are taken out again before early stopping sees them;
* after the last round ``Booster.eval_train`` hands out the final scores in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

from fairboost._typing import FloatArray, IntArray, Matrix
from fairboost.engines.base import Objective, Problem

__all__ = ["Lockstep"]

HELD_OUT = "fairboost: held out"


class Lockstep:
    """What happens around each round of the booster that is kept.

    Parameters
    ----------
    problem : Problem
        Objectives, and who wants to know.
    held_out : (Matrix, (m,) int), optional
        The held-out set and its labels, which metrics of the user may want.
    intercept : float
        The score that training starts from.
    """

    def __init__(
        self, problem: Problem, held_out: tuple[Matrix, IntArray] | None, intercept: float
    ) -> None:
        self.problem = problem
        self.held_out = held_out
        self.intercept = intercept
        self.main: lightgbm.Booster | None = None
        self.followers: list[tuple[lightgbm.Booster, Objective]] = []
        self.held_out_rows: lightgbm.Dataset | None = None

    def callbacks(self) -> list[Callable[[Any], None]]:
        """The callbacks to hand to LightGBM."""

        def before(env: Any) -> None:
            if self.main is None:
                self._start(env)

        def after(env: Any) -> None:
            # In place: LightGBM hands the same list to early stopping next.
            env.evaluation_result_list[:] = [
                result for result in env.evaluation_result_list if result[0] != HELD_OUT
            ]
            self.problem.after_round(env.model.current_iteration())
            if env.iteration + 1 == env.end_iteration:
                self._finish()

        before.before_iteration = True  # type: ignore[attr-defined]
        after.order = -1_000  # type: ignore[attr-defined]  # before early stopping, which raises
        return [before, after]

    def advance(self) -> None:
        """Let everyone else take their round, before the booster that is kept takes its own."""
        for booster, objective in self.followers:
            booster.update(fobj=_as_fobj(objective))
        self._watch()

    def _start(self, env: Any) -> None:
        self.main = env.model
        rows = env.model.train_set
        self.followers = [
            (lightgbm.Booster(env.params, rows), objective) for objective in self.problem.followers
        ]
        if self.held_out is not None:
            X, labels = self.held_out
            start = np.full(len(labels), self.intercept)
            self.held_out_rows = rows.create_valid(X, label=labels, init_score=start)
            env.model.add_valid(self.held_out_rows, HELD_OUT)

    def _finish(self) -> None:
        assert self.main is not None
        for booster, objective in self.followers:
            objective.observe(_training_scores(booster))
        self._watch()
        self.problem.objective.observe(_training_scores(self.main))

    def _watch(self) -> None:
        if self.problem.watch is None or self.main is None:
            return
        watch = self.problem.watch

        def metric(scores: FloatArray, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
            if rows is self.held_out_rows:
                watch(scores)
            return "scores", 0.0, False

        self.main.eval_valid(metric)


def _training_scores(booster: lightgbm.Booster) -> FloatArray:
    found: list[FloatArray] = []

    def metric(scores: FloatArray, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
        found.append(scores)
        return "scores", 0.0, False

    booster.eval_train(metric)
    return found[0]


def _as_fobj(objective: Objective) -> Callable[..., Any]:
    return lambda scores, rows: objective(scores)
