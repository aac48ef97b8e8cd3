"""Boosters that go along with the one that XGBoost trains, and scores that it keeps for us.

XGBoost calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. A booster keeps the scores of every matrix that it was made with or that it
has predicted for, and adds a round's trees to them when it is asked next:

* further boosters on the same binned data take a round each whenever the objective is called;
* the scores of the rows held out cost a pass of them through the newest trees
  (:mod:`fairboost.engines.xgboost.held_out_scores`);
* after the last round a stage can go on from the scores, handed over as base margins. Only its
  own trees are then in its boosters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xgboost

from fairboost._typing import Float32Array
from fairboost.engines.port import Objective, Problem, in_a_row
from fairboost.engines.xgboost.held_out_scores import HeldOut


class Lockstep(xgboost.callback.TrainingCallback):
    """What happens around each round of the booster that is kept.

    Parameters
    ----------
    problem : Problem
        Objectives, and who wants to know.
    params : dict
        Parameters of the boosters, by XGBoost's names.
    rows : xgboost.DMatrix
        The rows trained on.
    held_out : sequence of HeldOut
        The rows held out.
    n_rounds : int
        Rounds to be trained.
    base : bytes, optional
        A model to go on from.
    """

    def __init__(
        self,
        problem: Problem,
        params: dict[str, Any],
        rows: xgboost.DMatrix,
        held_out: Sequence[HeldOut],
        n_rounds: int,
        base: bytearray | None = None,
    ) -> None:
        super().__init__()
        self.problem, self.rows, self.held_out = problem, rows, held_out
        self.n_rounds, self.round = n_rounds, 0
        # XGBoost draws from one stream for all boosters: a seed for each round keeps them apart.
        seeded = {"seed_per_iteration": True} if problem.followers else {}
        self.params = {**params, **seeded}
        self.main: xgboost.Booster | None = None
        self.n_base = 0
        self.config = ""
        self.followers = [
            (xgboost.Booster(self.params, [rows], model_file=base), objective)
            for objective in problem.followers
        ]
        self.starts: list[Float32Array] = []  # of each booster, the one that is kept last
        self.last_scores: list[Float32Array] = []
        self.last_held_out: list[Float32Array] = []

    def before_training(self, model: Any) -> Any:
        """Get hold of the booster."""
        self.main, self.n_base = model, model.num_boosted_rounds()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Tell the number of rounds, and finish after the last."""
        self.problem.after_round(model.num_boosted_rounds() - self.n_base)
        self.round = epoch + 1
        if self.round == self.n_rounds:
            self.finish()
        return False

    def gradients(self, scores: Float32Array, _: Any) -> tuple[Float32Array, Float32Array]:
        """Let everyone else take their round, and then give the gradient of the one kept."""
        for k, (booster, objective) in enumerate(self.followers):
            self._start_from(k)
            booster.update(self.rows, self.round, fobj=_as_fobj(objective))
        self._start_from(-1)
        self._watch()
        return self.problem.objective(scores)

    def follow(self) -> None:
        """Give the other boosters the options that callbacks of the user have changed."""
        assert self.main is not None
        config = self.main.save_config()
        if config != self.config:
            self.config = config
            for booster, _ in self.followers:
                booster.load_config(config)

    def finish(self) -> None:
        """Hand out the scores after the last round, and keep them."""
        assert self.main is not None
        self.last_scores = []
        for k, booster in enumerate([*(booster for booster, _ in self.followers), self.main]):
            self._start_from(k)
            self.last_scores.append(_scores(booster, self.rows))
        for (_, objective), scores in zip(self.followers, self.last_scores, strict=False):
            objective.observe(scores)
        self._watch()
        self.problem.objective.observe(self.last_scores[-1])

    def stage(
        self, problem: Problem, rounds: int, leaves: int, learning_rate: float
    ) -> xgboost.Booster:
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
        booster : xgboost.Booster
            The trees of this stage alone.
        """
        params = {
            **self.params,
            **small_trees(self.params, leaves),
            "learning_rate": learning_rate,
            "booster": "gbtree",
        }
        pairs = zip(self.held_out, self.last_held_out, strict=True)
        held_out = [rows.going_on(scores) for rows, scores in pairs]
        stage = Lockstep(problem, params, self.rows, held_out, rounds)
        stage.starts = self.last_scores
        stage.main = xgboost.Booster(stage.params, [self.rows])
        for k in range(rounds):
            stage._start_from(-1)
            stage.main.update(self.rows, k, fobj=stage.gradients)
            stage.after_iteration(stage.main, k, {})
        return stage.main

    def _start_from(self, booster: int) -> None:
        """Give the rows the scores that a booster started from, as it may read them at any time.

        Boosters share the rows, and the rows have one column for these scores.
        """
        if self.starts:
            self.rows.set_base_margin(self.starts[booster])

    def _watch(self) -> None:
        if self.problem.watch is None:
            return
        assert self.main is not None
        self.last_held_out = [rows.scores(self.main) for rows in self.held_out]
        self.problem.watch(in_a_row(self.last_held_out))


class Follow(xgboost.callback.TrainingCallback):
    """Comes after the callbacks of the user, and passes on what they have changed."""

    def __init__(self, lockstep: Lockstep) -> None:
        super().__init__()
        self.lockstep = lockstep

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Pass on changes."""
        self.lockstep.follow()
        return False


def small_trees(params: dict[str, Any], leaves: int) -> dict[str, Any]:
    """Options that keep trees to a number of leaves, or to fewer if they already ask for that."""
    if params.get("tree_method") == "exact":  # which does not count leaves
        depth = int(np.log2(leaves))
        return {"max_depth": min(depth, params.get("max_depth") or depth)}
    return {
        "grow_policy": "lossguide",
        "max_leaves": min(leaves, params.get("max_leaves") or leaves),
    }


def _scores(booster: xgboost.Booster, rows: xgboost.DMatrix) -> Float32Array:
    return np.asarray(booster.predict(rows, output_margin=True))


def _as_fobj(objective: Objective) -> Callable[..., Any]:
    return lambda scores, rows: objective(scores)
