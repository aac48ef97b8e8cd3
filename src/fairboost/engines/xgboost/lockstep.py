"""XGBoost's boosters in lockstep: how they take a round, and how their scores are read.

XGBoost calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. A booster keeps the scores of every matrix that it was made with or that it
has predicted for, and adds a round's trees to them when it is asked next:

* further boosters on most of the same rows take a round each beside it;
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
from fairboost.engines.xgboost.calls import ScoreReader, boost
from fairboost.engines.xgboost.device import LEAST_CURVATURE, ScoredRows, device_of, going_on
from fairboost.engines.xgboost.options import DEFAULT_RATE, is_dart, option, without


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
    followers : sequence of (xgboost.DMatrix, HeldOut)
        The rows that each further booster is trained on, and those that it leaves out.
    turns : int, default=1
        Of how many rounds a further booster takes one, with so many times the learning rate.
    on_device : sequence of ScoredRows, optional
        The rows of the followers, and last those of the booster that is kept, where their scores
        are on a GPU; rows held out are such rows then too.
    """

    def __init__(
        self,
        params: dict[str, Any],
        rows: xgboost.DMatrix,
        held_out: Sequence[Any],
        followers: Sequence[tuple[xgboost.DMatrix, Any]],
        turns: int = 1,
        on_device: Sequence[ScoredRows] | None = None,
    ) -> None:
        # XGBoost draws from one stream for all boosters: a seed for each round keeps them apart.
        self.params = {**params, **({"seed_per_iteration": True} if followers else {})}
        self.held_out, self.left_out = held_out, [left_out for _, left_out in followers]
        self.rows = [*(theirs for theirs, _ in followers), rows]
        self.on_device = on_device
        self.least: list[Any] = []
        if on_device is None:
            weights = (theirs.get_weight() for theirs in self.rows)
            self.least = [LEAST_CURVATURE * (w if w.size else 1) for w in weights]
        self.main: Any = None
        self.readers: dict[int, ScoreReader] = {}
        self.turns, theirs = turns, dict(self.params)
        if turns > 1:
            rate = turns * option(theirs, "learning_rate", DEFAULT_RATE)
            theirs = {**without(theirs, "learning_rate"), "learning_rate": rate}
        self.followers = [xgboost.Booster(theirs, [rows]) for rows, _ in followers]

    def update(self, k: int, gradients: Callable[[ScoreArray], Gradients]) -> None:
        """Let booster k take a round."""
        booster = self.main if k < 0 else self.followers[k]
        round_ = booster.num_boosted_rounds()
        if self.on_device is not None:
            found = self.curved(k, gradients(self.on_device[k].scores(booster)))
            if not round_:  # as below
                booster.boost(self.rows[k], 0, grad=found[0], hess=found[1])
            else:
                boost(booster, self.rows[k], round_, found)
            return
        if not round_:  # XGBoost gives the booster the names of the features here
            self.readers[k] = ScoreReader(booster, self.rows[k], training=True)
            booster.update(self.rows[k], 0, lambda scores, _: self.curved(k, gradients(scores)))
            return
        # Read again by the thread that boosts: scores that another had read gave other trees.
        scores = self.readers[k].read()
        boost(booster, self.rows[k], round_, self.curved(k, gradients(scores)))

    def curved(self, k: int, gradients: Gradients) -> Gradients:
        """Gradients for booster k, with as much curvature as XGBoost's own would have."""
        if self.on_device is not None:  # the pass has seen to it
            return gradients
        gradient, hessian = gradients
        least = np.asarray(self.least[k])
        if hessian.ndim == 2 and least.ndim:  # the same for all classes
            least = least[:, np.newaxis]
        np.maximum(hessian, least, out=hessian)
        return gradient, hessian

    def positions(self, rows: Any) -> Any:
        """An array where scores are."""
        return rows if self.on_device is None else device_of(self.on_device[-1]).put(rows)

    def scores(self, k: int) -> Float32Array:
        """Scores of the rows that booster k is trained on."""
        booster = self.main if k < 0 else self.followers[k]
        if self.on_device is not None:
            found: Float32Array = self.on_device[k].scores(booster).copy()
            return found
        if (reader := self.readers.get(k)) is not None and not is_dart(self.params):
            return reader.read().copy()
        return np.asarray(booster.predict(self.rows[k], output_margin=True))

    def left_out_scores(self, k: int) -> Float32Array:
        """Scores of the rows that follower k leaves out."""
        found: Float32Array = self.left_out[k].scores(self.followers[k])
        return found

    def held_out_scores(self) -> list[Float32Array]:
        """Scores of the rows held out."""
        return [rows.scores(self.main) for rows in self.held_out]

    def n_rounds(self) -> int:
        """Rounds of the booster that is kept."""
        return int(self.main.num_boosted_rounds())


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
    threads : int
        Threads of all boosters together.
    """

    def __init__(
        self, problem: Problem, boosters: XGBoostBoosters, n_rounds: int, threads: int
    ) -> None:
        super().__init__()
        self.boosters, self.n_rounds, self.threads = boosters, n_rounds, threads
        self.lockstep = Lockstep(problem, boosters, threads, boosters.turns)

    def gradients(self, scores: Float32Array, _: Any = None) -> Gradients:
        """The objective."""
        if self.boosters.on_device is not None:
            scores = self.boosters.positions(scores)
        return self.boosters.curved(-1, self.lockstep.gradients(scores))

    def run(self) -> xgboost.Booster:
        """Boost, as ``xgboost.train`` does where there is nothing to evaluate or to call."""
        rows = self.boosters.rows[-1]
        self.boosters.main = main = xgboost.Booster(self.boosters.params, [rows])
        self.lockstep.run(self.n_rounds)
        return main.reset()

    def before_training(self, model: Any) -> Any:
        """Get hold of the booster."""
        self.boosters.main = model
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Look on, where XGBoost's own objective grows the trees."""
        if self.lockstep.problem.by_engine:
            self.lockstep.gradients(self.boosters.scores(-1))
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Tell the number of rounds, and finish after the last."""
        self.lockstep.problem.after_round(self.boosters.n_rounds())
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
        if old.on_device is not None:
            return self._stage_on_device(problem, rounds, params)
        pairs = zip(old.held_out, ended.last_held_out, strict=True)
        held_out = [rows.going_on(np.asarray(scores)) for rows, scores in pairs]
        followers = [
            (rows, left_out.going_on(ended.out_of_fold[f.fold].astype(np.float32)))
            for rows, left_out, f in zip(old.rows, old.left_out, problem.followers, strict=False)
        ]
        for rows, scores in zip(old.rows, ended.last_scores, strict=True):
            rows.set_base_margin(scores)
        boosters = XGBoostBoosters(params, old.rows[-1], held_out, followers)
        boosters.main = main = xgboost.Booster(boosters.params, [old.rows[-1]])
        Lockstep(problem, boosters, self.threads).run(rounds)
        return main

    def _stage_on_device(
        self, problem: Problem, rounds: int, params: dict[str, Any]
    ) -> xgboost.Booster:
        """The same where scores are on a GPU."""
        ended, old = self.lockstep, self.boosters
        assert old.on_device is not None
        left_out = [ended.out_of_fold[fold] for fold in ended.folds]
        rows = [*old.on_device, *old.held_out, *old.left_out]
        scores = [*ended.last_scores, *ended.last_held_out, *left_out]
        found = going_on(rows, scores)
        n, n_held_out = len(old.on_device), len(old.held_out)
        followers = list(zip(old.rows, found[n + n_held_out :], strict=False))
        boosters = XGBoostBoosters(
            params,
            old.rows[-1],
            found[n : n + n_held_out],
            followers,
            on_device=found[:n],
        )
        boosters.main = main = xgboost.Booster(boosters.params, [old.rows[-1]])
        Lockstep(problem, boosters, self.threads).run(rounds)
        return main


class PassOn(xgboost.callback.TrainingCallback):
    """Comes after the callbacks of the user; gives followers the options these have changed."""

    def __init__(self, lockstep: XGBoostLockstep) -> None:
        super().__init__()
        self.lockstep, self.config = lockstep, ""

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Pass on changes."""
        config = model.save_config()
        if config != self.config:
            self.config = config
            self.lockstep.lockstep.crew.wait()
            for booster in self.lockstep.boosters.followers:
                booster.load_config(config)
        return False


class XGBoostWithinLimits(xgboost.callback.TrainingCallback):
    """XGBoost's early stopping, of rounds within the limits of the constraints.

    As :class:`fairboost.engines.lightgbm.early_stopping.LightGBMWithinLimits`.

    Parameters
    ----------
    stop : xgboost.callback.EarlyStopping
        XGBoost's callback.
    within : callable
        Whether the last model that was measured is within the limits.
    """

    def __init__(self, stop: Any, within: Callable[[], bool]) -> None:
        super().__init__()
        self.stop, self.within, self.broken, self.first = stop, within, False, True

    def before_training(self, model: Any) -> Any:
        """Begin."""
        self.broken, self.first = False, True
        return self.stop.before_training(model)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Hand the round before on, which has been measured since, if it is within the limits."""
        first, self.first = self.first, False
        if first:
            return False
        if self.within():
            before = {
                data: {name: values[:-1] for name, values in found.items()}
                for data, found in evals_log.items()
            }
            return bool(self.stop.after_iteration(model, epoch - 1, before))
        if not self.broken:  # rounds before are fair as they hardly told people apart
            self.broken, self.stop.stopping_history = True, {}
            model.set_attr(best_iteration=None, best_score=None)
        return False

    def after_training(self, model: Any) -> Any:
        """Keep the best round, if that was asked for and one was seen."""
        return self.stop.after_training(model) if self.stop.stopping_history else model


def within_limits(
    callbacks: Sequence[Any], rounds: int | None, within: Callable[[], bool] | None
) -> tuple[list[Any], int | None]:
    """Callbacks of ``xgboost.train`` in which early stopping heeds the limits, and its rounds."""
    if within is None:
        return list(callbacks), rounds
    kind = xgboost.callback.EarlyStopping
    # Last, as XGBoost has it.
    every = [*callbacks, *([kind(rounds=rounds)] if rounds else [])]
    return [XGBoostWithinLimits(c, within) if isinstance(c, kind) else c for c in every], None


def small_trees(params: dict[str, Any], leaves: int) -> dict[str, Any]:
    """Options that keep trees to a number of leaves, or to fewer if they already ask for that."""
    if params.get("tree_method") == "exact":  # which does not count leaves
        depth = int(np.log2(leaves))
        return {"max_depth": min(depth, params.get("max_depth") or depth)}
    return {
        "grow_policy": "lossguide",
        "max_leaves": min(leaves, params.get("max_leaves") or leaves),
    }
