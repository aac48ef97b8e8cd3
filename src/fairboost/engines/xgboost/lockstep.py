"""XGBoost's boosters in lockstep: how they take a round, and how their scores are read.

XGBoost calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. A booster keeps the scores of every matrix that it was made with or that it
has predicted for, and adds a round's trees to them when it is asked next:

* further boosters on the same binned data take a round each whenever the objective is called;
* the scores of the rows held out cost a pass of them through the newest trees
  (:mod:`fairboost.engines.xgboost.held_out_scores`);
* after the last round a stage can go on from the scores, handed over as base margins, as those of
  a frozen model are before the first. Only its own trees are then in its boosters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xgboost

from fairboost._typing import Float32Array, ScoreArray
from fairboost.engines.lockstep import Lockstep
from fairboost.engines.port import Gradients, Problem
from fairboost.engines.xgboost.held_out_scores import HeldOut


class XGBoostBoosters:
    """The boosters of a training.

    Parameters
    ----------
    params : dict
        Parameters of all of them, by XGBoost's names.
    rows : xgboost.DMatrix
        The rows trained on.
    held_out : sequence of HeldOut
        The rows held out.
    n_followers : int
        Number of further boosters.
    starts : sequence of (n,) float32
        The scores that each booster starts from, the one that is kept last, if not from its own.
    """

    def __init__(
        self,
        params: dict[str, Any],
        rows: xgboost.DMatrix,
        held_out: Sequence[HeldOut],
        n_followers: int,
        starts: Sequence[ScoreArray] = (),
    ) -> None:
        # XGBoost draws from one stream for all boosters: a seed for each round keeps them apart.
        self.params = {**params, **({"seed_per_iteration": True} if n_followers else {})}
        self.rows, self.held_out, self.starts = rows, held_out, starts
        self.main: Any = None
        self.followers = [xgboost.Booster(self.params, [rows]) for _ in range(n_followers)]
        self.round = 0

    def update(self, k: int, gradients: Callable[[ScoreArray], Gradients]) -> None:
        """Let booster k take a round."""
        self._start_from(k)
        booster = self.main if k < 0 else self.followers[k]
        booster.update(self.rows, self.round, fobj=lambda scores, _: gradients(scores))
        self._start_from(-1)
        self.round += k < 0

    def scores(self, k: int) -> Float32Array:
        """Scores of the training rows."""
        self._start_from(k)
        booster = self.main if k < 0 else self.followers[k]
        return np.asarray(booster.predict(self.rows, output_margin=True))

    def held_out_scores(self) -> list[Float32Array]:
        """Scores of the rows held out."""
        return [rows.scores(self.main) for rows in self.held_out]

    def n_rounds(self) -> int:
        """Rounds of the booster that is kept."""
        return int(self.main.num_boosted_rounds())

    def _start_from(self, k: int) -> None:
        """Give the rows the scores that a booster started from, as it may read them at any time.

        Boosters share the rows, and the rows have one column for these scores.
        """
        if len(self.starts):
            self.rows.set_base_margin(self.starts[k])


class XGBoostLockstep(xgboost.callback.TrainingCallback):
    """Hooks for ``xgboost.train``, and stages that go on from where it ended.

    Parameters
    ----------
    problem : Problem
        What to train.
    boosters : XGBoostBoosters
        The boosters; XGBoost makes the one that is kept.
    n_rounds : int
        Rounds to be trained.
    """

    def __init__(self, problem: Problem, boosters: XGBoostBoosters, n_rounds: int) -> None:
        super().__init__()
        self.boosters, self.n_rounds = boosters, n_rounds
        self.lockstep = Lockstep(problem, boosters)

    def gradients(self, scores: Float32Array, _: Any = None) -> Gradients:
        """The objective."""
        return self.lockstep.gradients(scores)

    def before_training(self, model: Any) -> Any:
        """Get hold of the booster."""
        self.boosters.main = model
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Tell the number of rounds, and finish after the last."""
        self.lockstep.problem.after_round(self.boosters.n_rounds())
        self.boosters.round = epoch + 1
        if epoch + 1 == self.n_rounds:
            self.lockstep.finish()
        return False

    def stage(
        self, problem: Problem, rounds: int, leaves: int, learning_rate: float
    ) -> xgboost.Booster:
        """Boost on from the last scores, on the same binned data; this object stays as it is."""
        ended, old = self.lockstep, self.boosters
        params = {
            **old.params,
            **small_trees(old.params, leaves),
            "learning_rate": learning_rate,
            "booster": "gbtree",
        }
        pairs = zip(old.held_out, ended.last_held_out, strict=True)
        held_out = [rows.going_on(np.asarray(scores)) for rows, scores in pairs]
        n_followers = len(problem.followers)
        boosters = XGBoostBoosters(
            params, old.rows, held_out, n_followers, starts=ended.last_scores
        )
        boosters.main = main = xgboost.Booster(boosters.params, [old.rows])
        Lockstep(problem, boosters).run(rounds)
        return main


class PassOn(xgboost.callback.TrainingCallback):
    """Comes after the callbacks of the user; gives followers the options these have changed."""

    def __init__(self, boosters: XGBoostBoosters) -> None:
        super().__init__()
        self.boosters, self.config = boosters, ""

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Pass on changes."""
        config = model.save_config()
        if config != self.config:
            self.config = config
            for booster in self.boosters.followers:
                booster.load_config(config)
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
