"""Boosters that go along with the one that LightGBM trains, and scores that it keeps for us.

LightGBM calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. That is all that is needed, and all of it is public:

* further boosters on the same binned data take a round each whenever the objective is called
  (``Booster.update``); nothing is binned twice;
* the scores of a held-out set are kept by the booster once it has been added as a validation set,
  and ``Booster.eval_valid`` hands them to a metric of ours. Metrics of the user are computed on
  every validation set; their results on ours are taken out again before early stopping sees them;
* after the last round ``Booster.eval_train`` hands out the final scores in the same way, and
  further boosters can go on from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lightgbm

from fairboost._typing import FloatArray
from fairboost.engines.lightgbm.options import is_dart, option
from fairboost.engines.port import Objective, Problem, in_a_row

HELD_OUT = "fairboost: held out"


class Lockstep:
    """What happens around each round of the booster that is kept.

    Parameters
    ----------
    problem : Problem
        Objectives, and who wants to know.
    held_out : sequence of lightgbm.Dataset
        The rows held out, binned like the others.
    """

    def __init__(self, problem: Problem, held_out: Sequence[lightgbm.Dataset]) -> None:
        self.problem = problem
        self.held_out = held_out
        self.main: lightgbm.Booster | None = None
        self.followers: list[tuple[lightgbm.Booster, Objective]] = []
        self.rows: lightgbm.Dataset | None = None
        self.params: dict[str, Any] = {}
        self.last_scores: list[FloatArray] = []
        self.last_held_out: list[FloatArray] = []

    def callbacks(self) -> list[Callable[[Any], None]]:
        """The callbacks to hand to LightGBM."""

        def before(env: Any) -> None:
            if self.main is None:
                self._start(env)
            changed = {
                name: value
                for name, value in env.params.items()
                if value is not (old := self.params.get(name))
                and repr(value) != repr(old)  # as text: values may be arrays
            }
            if changed:  # by a callback of the user, such as a schedule of learning rates
                self.params.update(changed)
                for booster, _ in self.followers:
                    booster.reset_parameter(changed)

        def after(env: Any) -> None:
            # In place: LightGBM hands the same list to early stopping next.
            env.evaluation_result_list[:] = [
                result for result in env.evaluation_result_list if result[0] != HELD_OUT
            ]
            self.problem.after_round(env.model.current_iteration())
            if env.iteration + 1 == env.end_iteration:
                self.finish()

        before.before_iteration = True  # type: ignore[attr-defined]
        before.order = 1_000  # type: ignore[attr-defined]  # after those that change parameters
        after.order = -1_000  # type: ignore[attr-defined]  # before early stopping, which raises
        return [before, after]

    def advance(self) -> None:
        """Let everyone else take their round, before the booster that is kept takes its own."""
        for booster, objective in self.followers:
            booster.update(fobj=_as_fobj(objective))
        self._watch()

    def finish(self) -> None:
        """Hand out the scores after the last round, and keep them."""
        assert self.main is not None
        if is_dart(self.params):
            return  # asked for scores, DART drops trees for a round that does not come
        boosters = [*(booster for booster, _ in self.followers), self.main]
        self.last_scores = [_training_scores(booster) for booster in boosters]
        for (_, objective), scores in zip(self.followers, self.last_scores, strict=False):
            objective.observe(scores)
        self._watch()
        self.problem.objective.observe(self.last_scores[-1])

    def stage(
        self, problem: Problem, rounds: int, leaves: int, learning_rate: float
    ) -> lightgbm.Booster:
        """Boost on from the last scores, on the same binned data; this object stays as it is.

        Parameters
        ----------
        problem : Problem
            As many followers as before.
        rounds : int
            Number of rounds.
        leaves : int
            Leaves of a tree, at most.
        learning_rate : float
            What a tree counts.

        Returns
        -------
        booster : lightgbm.Booster
            The trees of this stage alone.
        """
        assert self.rows is not None
        stage = Lockstep(problem, self.held_out)
        leaves = min(leaves, int(option(self.params, "num_leaves", leaves)))
        params = {**self.params, "num_leaves": leaves, "learning_rate": learning_rate}
        boosters = []
        for scores in self.last_scores:
            self.rows.set_init_score(scores)  # a booster copies them when it is made
            boosters.append(lightgbm.Booster(params, self.rows))
        stage.main = boosters.pop()
        stage.followers = list(zip(boosters, problem.followers, strict=True))
        for rows, scores in zip(self.held_out, self.last_held_out, strict=True):
            rows.set_init_score(scores)
            stage.main.add_valid(rows, HELD_OUT)
        objective = _as_fobj(problem.objective)
        for _ in range(rounds):
            stage.advance()
            stage.main.update(fobj=objective)
            problem.after_round(stage.main.current_iteration())
        stage.finish()
        return stage.main

    def _start(self, env: Any) -> None:
        self.main, self.rows = env.model, env.model.train_set
        self.params = dict(env.params)
        self.followers = [
            (lightgbm.Booster(env.params, self.rows), objective)
            for objective in self.problem.followers
        ]
        for rows in self.held_out:
            self.main.add_valid(rows, HELD_OUT)

    def _watch(self) -> None:
        if self.problem.watch is None or self.main is None:
            return
        found: dict[int, FloatArray] = {}

        def metric(scores: FloatArray, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
            found[id(rows)] = scores
            return "scores", 0.0, False

        self.main.eval_valid(metric)
        self.last_held_out = [found[id(rows)] for rows in self.held_out]
        self.problem.watch(in_a_row(self.last_held_out))


def _training_scores(booster: lightgbm.Booster) -> FloatArray:
    found: list[FloatArray] = []

    def metric(scores: FloatArray, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
        found.append(scores)
        return "scores", 0.0, False

    booster.eval_train(metric)
    return found[0].copy()  # LightGBM reuses the buffer


def _as_fobj(objective: Objective) -> Callable[..., Any]:
    return lambda scores, rows: objective(scores)
