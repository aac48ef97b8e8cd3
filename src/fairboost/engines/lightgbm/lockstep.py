"""LightGBM's boosters in lockstep: how they take a round, and how their scores are read.

LightGBM calls the objective once per round, with the scores of the training rows, and callbacks
before and after it. That is all that is needed, and all of it is public:

* further boosters on most of the same binned data take a round each beside it
  (``Booster.update``); nothing is binned twice;
* the scores of a held-out set are kept by the booster once it has been added as a validation set,
  and ``Booster.eval_valid`` hands them to a metric of ours. Metrics of the user are computed on
  every validation set; their results on ours are taken out again before early stopping sees them;
* after the last round ``Booster.eval_train`` hands out the final scores in the same way, and
  further boosters can go on from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from threading import local
from typing import Any

import lightgbm
import numpy as np

from fairboost._typing import FloatArray, IntArray, ScoreArray
from fairboost.engines.lightgbm.data import SplitRows
from fairboost.engines.lightgbm.options import is_dart, option, without
from fairboost.engines.lightgbm.threads import number_of_threads
from fairboost.engines.lockstep import Lockstep
from fairboost.engines.port import Gradients, Problem

HELD_OUT = "fairboost: held out"

_told = local()


class LightGBMBoosters:
    """The boosters of a training.

    Parameters
    ----------
    params : dict
        Parameters of all of them.
    boosters : list of lightgbm.Booster
        Those of the followers, and last the one that is kept.
    held_out : sequence of lightgbm.Dataset
        The rows held out, binned like the others.
    left_out : sequence of lightgbm.Dataset
        The rows that each follower leaves out.
    own_start : float, optional
        The score that LightGBM starts from, where it grows trees by its own objective. Scores
        have it in them after the first round only.
    """

    def __init__(
        self,
        params: dict[str, Any],
        boosters: list[lightgbm.Booster],
        held_out: Sequence[lightgbm.Dataset],
        left_out: Sequence[lightgbm.Dataset],
        own_start: float | FloatArray | None = None,
    ) -> None:
        self.params, self.boosters, self.held_out = params, boosters, held_out
        self.own_start = own_start
        for booster in boosters if own_start is None else ():
            _settle(booster, is_dart(params))
        for rows in held_out:
            boosters[-1].add_valid(rows, HELD_OUT)
        for booster, rows in zip(boosters, left_out, strict=False):
            booster.add_valid(rows, HELD_OUT)

    def update(self, k: int, gradients: Callable[[ScoreArray], Gradients]) -> None:
        """Let booster k take a round."""
        _say_no_more_than(self.params)
        self.boosters[k].update(fobj=lambda scores, _: gradients(scores))

    def scores(self, k: int) -> FloatArray:
        """Scores of the rows that booster k is trained on."""
        # Asked before its first round, DART would draw trees to drop, and the stock one does not.
        if (given := self._before_first(self.boosters[k].train_set)) is not None:
            return given
        found: list[FloatArray] = []
        self.boosters[k].eval_train(_handing_over(lambda scores, _: found.append(scores)))
        return found[0].copy()  # LightGBM reuses the buffer

    def left_out_scores(self, k: int) -> FloatArray:
        """Scores of the rows that follower k leaves out."""
        found: list[FloatArray] = []
        self.boosters[k].eval_valid(_handing_over(lambda scores, _: found.append(scores)))
        return found[0]

    def held_out_scores(self) -> list[FloatArray]:
        """Scores of the rows held out."""
        given = [self._before_first(rows) for rows in self.held_out]
        if given and given[0] is not None:
            return [scores for scores in given if scores is not None]
        found: dict[int, FloatArray] = {}
        hand_over = _handing_over(lambda scores, rows: found.update({id(rows): scores}))
        self.boosters[-1].eval_valid(hand_over)
        return [found[id(rows)] for rows in self.held_out]

    def _before_first(self, rows: lightgbm.Dataset) -> FloatArray | None:
        """Scores that LightGBM's own objective starts from; None once there are trees."""
        if self.own_start is None or self.n_rounds():
            return None
        start = rows.get_init_score()
        return np.full(rows.num_data(), self.own_start) if start is None else np.array(start)

    def positions(self, rows: IntArray) -> IntArray:
        """Positions of rows, as they are."""
        return rows

    def n_rounds(self) -> int:
        """Trees of the booster that is kept."""
        return int(self.boosters[-1].current_iteration())

    def change(self, params: dict[str, Any], wait: Callable[[], None]) -> None:
        """Pass on what a callback of the user has changed, such as the learning rate."""
        changed = {
            name: value
            for name, value in params.items()
            if value is not (old := self.params.get(name))
            and repr(value) != repr(old)  # as text: values may be arrays
        }
        if changed:
            wait()  # for followers that still take their round
            self.params.update(changed)
            for booster in self.boosters[:-1]:
                booster.reset_parameter(changed)


def _say_no_more_than(params: dict[str, Any]) -> None:
    """Tell LightGBM how much to say in this thread: each starts with a verbosity of 1."""
    verbosity = option(params, "verbosity", 1)
    if getattr(_told, "verbosity", None) != verbosity:
        _told.verbosity = verbosity
        # Whatever reads options will do; threads are those of all boosters from then on.
        said = {"verbosity": verbosity, "num_threads": option(params, "num_threads", 0)}
        lightgbm.Dataset(np.zeros((1, 1)), params=said).construct()


class LightGBMLockstep:
    """Hooks for ``lightgbm.train``, and stages that go on from where it ended.

    Parameters
    ----------
    problem : Problem
        What to train.
    rows : SplitRows
        The rows held out, and those of the followers.
    threads : int
        Threads of all boosters together.
    turns : int, default=1
        Of how many rounds a follower takes one, with so many times the learning rate. A callback
        of the user must not change that rate then.
    intercept : float, default=0.0
        The score that training starts from.
    """

    def __init__(
        self,
        problem: Problem,
        rows: SplitRows,
        threads: int,
        turns: int = 1,
        intercept: float | FloatArray = 0.0,
    ) -> None:
        self.problem, self.rows, self.threads, self.turns = problem, rows, threads, turns
        self.own_start = intercept if problem.by_engine else None
        self.waits = False  # for followers, before callbacks of the user; as in alone()
        self.lockstep: Lockstep | None = (
            None  # from the first round on: LightGBM makes the booster
        )

    def gradients(self, scores: FloatArray, _: Any = None) -> Gradients:
        """The objective."""
        assert self.lockstep is not None
        return self.lockstep.gradients(scores)

    def alone(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A metric of the user, called when no follower grows a tree.

        It may predict, which sets LightGBM's number of threads to another
        (:mod:`fairboost.engines.lightgbm.threads`).
        """

        @wraps(function)
        def called(*given: Any) -> Any:
            if self.lockstep is not None:
                self.lockstep.crew.wait()
            return function(*given)

        return called

    def callbacks(self) -> list[Callable[[Any], None]]:
        """The callbacks to hand to LightGBM."""

        def before(env: Any) -> None:
            if self.lockstep is None:
                # Nobody looks at metrics of the followers.
                params = without(env.params, "learning_rate")
                rate = self.turns * option(env.params, "learning_rate", 0.1)
                params |= {"metric": "None", "learning_rate": rate}
                further = [lightgbm.Booster(params, rows) for rows in self.rows.followers]
                self.boosters = self._boosters(dict(env.params), [*further, env.model])
                self.lockstep = Lockstep(self.problem, self.boosters, self.threads, self.turns)
            self.boosters.change(env.params, self.lockstep.crew.wait)
            if self.problem.by_engine:
                self.lockstep.gradients(self.boosters.scores(-1))  # for the record

        def after(env: Any) -> None:
            if self.waits:
                assert self.lockstep is not None
                self.lockstep.crew.wait()
            # In place: LightGBM hands the same list to early stopping next.
            env.evaluation_result_list[:] = [
                result for result in env.evaluation_result_list if result[0] != HELD_OUT
            ]
            self.problem.after_round(env.model.current_iteration())
            # Asked for scores, DART drops trees for a round that does not come.
            if env.iteration + 1 == env.end_iteration and not is_dart(self.boosters.params):
                assert self.lockstep is not None
                self.lockstep.finish()

        before.before_iteration = True  # type: ignore[attr-defined]
        before.order = 1_000  # type: ignore[attr-defined]  # after those that change parameters
        after.order = -1_000  # type: ignore[attr-defined]  # before early stopping, which raises
        return [before, after]

    def stage(
        self, problem: Problem, rounds: int, leaves: int, learning_rate: float
    ) -> lightgbm.Booster:
        """Boost on from the last scores, on the same binned data; this object stays as it is."""
        assert self.lockstep is not None
        ended, rows = self.lockstep, self.rows
        leaves = min(leaves, int(option(self.boosters.params, "num_leaves", leaves)))
        params = {**self.boosters.params, "num_leaves": leaves, "learning_rate": learning_rate}
        left_out = [ended.out_of_fold[f.fold] for f in problem.followers]
        for before, scores in (
            *zip(rows.held_out, ended.last_held_out, strict=True),
            *zip(rows.left_out, left_out, strict=True),
        ):
            before.set_init_score(scores)
        boosters = []
        with number_of_threads(int(params["num_threads"])) as number:
            params["num_threads"] = number
            trained = [*rows.followers, self.boosters.boosters[-1].train_set]
            for before, scores in zip(trained, ended.last_scores, strict=True):
                before.set_init_score(scores)  # a booster copies them when it is made
                boosters.append(lightgbm.Booster(params, before))
            Lockstep(problem, self._boosters(params, boosters), self.threads).run(rounds)
        return boosters[-1]

    def close(self) -> None:
        """Wait for those that still grow trees."""
        if self.lockstep is not None:
            self.lockstep.crew.close()

    def _boosters(
        self, params: dict[str, Any], boosters: list[lightgbm.Booster]
    ) -> LightGBMBoosters:
        left_out = self.rows.left_out
        return LightGBMBoosters(params, boosters, self.rows.held_out, left_out, self.own_start)


def _settle(booster: lightgbm.Booster, dart: bool) -> None:
    """Have a new booster draw as the seed says, before its first round.

    Before it calls an objective, ``Booster.update`` sets the parameter objective to "none", which
    it is. To set one is to set up all of them: the columns of the first tree are drawn a second
    time, and trees with ``colsample_bytree`` are not those of the stock engine.

    A flag in a DART booster says, when scores are read, whether trees have been dropped
    for this round. LightGBM does not set it before the first round, so that now and then one draw
    more was made; it is set here, by asking, and the stream of draws is started anew. With its own
    objective LightGBM draws before the first tree as well, for nothing: the stream starts one
    draw later. To set parameters draws columns again, unless their seed is another.
    """
    if dart:
        booster.eval_train(_handing_over(lambda *_: None))
        names = "drop_seed", "feature_fraction_seed"
        text = booster.model_to_string()
        drops, columns = (int(re.findall(rf"\[{name}: (-?\d+)]", text)[-1]) for name in names)
        after_one = (214013 * drops + 2531011) % 2**32  # LightGBM's generator
        drops = after_one - 2**32 if after_one >= 2**31 else after_one
        booster.reset_parameter({"drop_seed": drops, "feature_fraction_seed": columns ^ 1})
        booster.reset_parameter({"feature_fraction_seed": columns})
    done = "_Booster__set_objective_to_none"
    if hasattr(booster, done):  # a version without it has no such step, or another
        setattr(booster, done, True)


def _handing_over(take: Callable[[FloatArray, lightgbm.Dataset], Any]) -> Callable[..., Any]:
    """A metric that hands over scores, and measures nothing."""

    def metric(scores: FloatArray, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
        take(scores, rows)
        return "scores", 0.0, False

    return metric
