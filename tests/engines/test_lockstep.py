"""The skeleton of lockstep training, with boosters that write down what they are asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fairboost.engines.lockstep import Lockstep, threads_each, turns_taken
from fairboost.engines.port import Follower, Problem

FOLDS = [np.array([0, 3]), np.array([1, 2, 4])]
N = 5


class FakeBoosters:
    """Booster k has the score 10 k + rounds everywhere; the one that is kept is number 9."""

    def __init__(self, log, n_followers):
        self.log, self.rounds = log, [0] * (n_followers + 1)

    def update(self, k, gradients):
        self.log.append(("update", k))
        gradients(self.scores(k))
        self.rounds[k] += 1

    def scores(self, k):
        return np.full(
            N if k < 0 else N - len(FOLDS[k]), 10.0 * (9 if k < 0 else k) + self.rounds[k]
        )

    def left_out_scores(self, k):
        return np.full(len(FOLDS[k]), 10.0 * k + self.rounds[k])

    def held_out_scores(self):
        return [np.full(2, 90.0 + self.rounds[-1]), np.full(3, 1.0)]

    def positions(self, rows):
        return rows

    def n_rounds(self):
        return self.rounds[-1]


def problem(log, *, held_out=False, followers=False, ready=None):
    def play(scores, measured):
        log.append(("play", scores[0], None if measured is None else measured.tolist()))
        return np.zeros(N), np.ones(N)

    def finish(scores, measured):
        log.append(("finish", scores[0], None if measured is None else measured.tolist()))

    def gradients(scores):
        log.append(("follow", scores[0]))
        return np.zeros(N), np.ones(N)

    folds = [Follower(fold, gradients) for fold in FOLDS] if followers else []
    return Problem(play, finish, lambda n: log.append(("after", n)), held_out, folds, ready)


def run(rounds=2, threads=1, turns=1, **options):
    log = []
    asked = problem(log, **options)
    Lockstep(asked, FakeBoosters(log, len(asked.followers)), threads, turns).run(rounds)
    return log


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_followers_take_the_round_after_it_was_played_and_are_waited_for(threads):
    log = run(threads=threads, followers=True)
    assert log[:2] == [("update", -1), ("play", 90.0, [0.0, 10.0, 10.0, 0.0, 10.0])]
    plays = [k for k, entry in enumerate(log) if entry[0] in ("play", "finish")]
    for before, after in pairwise(plays):  # whatever the order in between
        theirs = {entry for entry in log[before:after] if entry[0] == "update"} - {("update", -1)}
        assert theirs == {("update", 0), ("update", 1)}
    assert log[plays[1]] == ("play", 91.0, [1.0, 11.0, 11.0, 1.0, 11.0])
    # After the last round all have taken two; scores are read once more.
    assert log[-1] == ("finish", 92.0, [2.0, 12.0, 12.0, 2.0, 12.0])


def test_scores_of_the_rows_held_out_are_those_before_the_round():
    log = run(held_out=True)
    played = [entry for entry in log if entry[0] in ("play", "finish")]
    assert [entry[1] for entry in played] == [90.0, 91.0, 92.0]
    assert [entry[2] for entry in played] == [[s, s, 1.0, 1.0, 1.0] for s in (90.0, 91.0, 92.0)]


@pytest.mark.parametrize("rounds", [1, 3])
def test_with_nothing_to_measure_the_training_scores_are_all(rounds):
    log = run(rounds)
    assert [entry[2] for entry in log if entry[0] == "play"] == [None] * rounds
    assert [entry[1] for entry in log if entry[0] == "after"] == list(range(1, rounds + 1))


def test_a_stage_can_start_where_training_ended():
    log = []
    asked = problem(log, followers=True)
    lockstep = Lockstep(asked, FakeBoosters(log, 2), 1)
    lockstep.run(1)
    assert [scores[0] for scores in lockstep.last_scores] == [1.0, 11.0, 91.0]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_by_turns_each_follower_takes_every_second_round_and_all_are_measured(threads):
    log = run(rounds=4, threads=threads, turns=2, followers=True)
    assert [k for what, k, *_ in log if what == "update" and k >= 0] == [0, 1, 0, 1]
    measured = [entry[2] for entry in log if entry[0] in ("play", "finish")]
    rounds = [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
    assert measured == [[a, 10.0 + b, 10.0 + b, a, 10.0 + b] for a, b in rounds]


def nothing():
    pass


@pytest.mark.parametrize(
    "rounds, rate, options, expected",
    [
        (50, 0.1, {"ready": nothing}, 2),
        (50, float(np.float32(0.1)), {"ready": nothing}, 2),
        (49, 0.1, {"ready": nothing}, 1),  # too few rounds to close a gap in half of them
        (200, 0.3, {"ready": nothing}, 1),  # twice the rate is another model
        (200, 0.05, {}, 1),  # the cut moves
        (200, 0.05, {"ready": nothing, "followers": False}, 1),
    ],
)
def test_turns_are_taken_where_steps_are_small(rounds, rate, options, expected):
    assert turns_taken(problem([], **{"followers": True} | options), rounds, rate) == expected


@pytest.mark.parametrize(
    "threads, turns, expected",
    [(1, 1, 1), (2, 1, 1), (2, 2, 1), (4, 2, 1), (8, 1, 2), (8, 2, 3), (16, 1, 4), (16, 2, 5)],
)
def test_boosters_share_the_threads_and_leave_some(threads, turns, expected):
    assert threads_each(threads, problem([], followers=True), turns) == expected


@pytest.mark.parametrize("threads, early", [(1, True), (2, True), (3, False)])
def test_followers_begin_before_the_round_is_played_where_cores_are_short(threads, early):
    begun = []
    run(threads=threads, followers=True, ready=lambda: begun.append(1))
    assert len(begun) == (2 if early else 0)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("turns", [1, 2])
def test_scores_of_followers_on_their_rows_are_handed_out_before_and_after_each_round(
    threads, turns
):
    """Once before the first round and after each of its own, and no more."""
    log, seen = [], []
    asked = problem(log, followers=True)
    followers = [
        replace(f, grown=lambda scores, k=k: seen.append((k, scores[0])))
        for k, f in enumerate(asked.followers)
    ]
    boosters = FakeBoosters(log, len(followers))
    Lockstep(replace(asked, followers=followers), boosters, threads, turns).run(2)
    for k in range(len(followers)):
        taken = len(range(2)[k % turns :: turns])
        assert [scores for j, scores in seen if j == k] == [10.0 * k + t for t in range(taken + 1)]
