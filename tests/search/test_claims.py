"""Claims: whoever is killed when, every trial is run, and counted once."""

from __future__ import annotations

import subprocess
import sys
import time

import optuna
import pytest
from optuna.trial import TrialState

from fairboost.search import claims
from fairboost.search.claims import Worker, claim, counted, finish, give_up
from fairboost.search.trials import open_storage, quiet


@pytest.fixture(params=["memory", "sqlite"])
def study(request, tmp_path):
    url = None if request.param == "memory" else f"sqlite:///{tmp_path / 'trials.db'}"
    with quiet():
        yield optuna.create_study(
            storage=open_storage(url), directions=["maximize", "maximize"], study_name="s"
        )


@pytest.fixture
def worker(study):
    with Worker(study) as worker:
        yield worker


VALUES = [0.5, 0.5]
ERROR = {"error": "it broke"}


def numbers(study):
    return {index: trial.number for index, trial in counted(study.get_trials()).items()}


def signed(study, key, **changes):
    """A worker that is somewhere else, by the sign that it left."""
    sign = {"time": time.time(), "place": "another machine", "pid": 1, "start": "1", **changes}
    study.set_user_attr(key, sign)
    return key


def running(study, index, key):
    attributes = {"index": index, "worker": key, "token": f"{index}{key}"}
    study.add_trial(optuna.trial.create_trial(state=TrialState.RUNNING, user_attrs=attributes))


def test_trials_are_claimed_in_order_and_once(study, worker):
    other = Worker(study)
    with other:
        found = [claim(study, who, 3).index for who in (worker, other, worker)]
        assert found == [0, 1, 2]
        assert claim(study, other, 3) is None


def test_what_is_finished_counts(study, worker):
    first = claim(study, worker, 2)
    assert numbers(study) == {}  # a trial that runs does not count
    assert finish(study, first, {"points": [1]}, VALUES)
    assert list(numbers(study)) == [0]
    second = claim(study, worker, 2)
    assert finish(study, second, ERROR, None)
    assert list(numbers(study)) == [0, 1]
    assert claim(study, worker, 2) is None
    assert claim(study, worker, 3).index == 2  # more trials may be asked for later


def test_a_trial_given_up_is_claimed_again(study, worker):
    first = claim(study, worker, 1)
    give_up(study, first.trial.number)
    assert numbers(study) == {}
    again = claim(study, worker, 1)
    assert again.index == 0 and again.trial.number != first.trial.number


def test_trials_of_a_process_that_is_dead_are_free(study, worker):
    """A real process that has ended, on this machine."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    key = signed(study, "worker dead", place=claims.place(), pid=ended.pid)
    running(study, 0, key)
    assert claim(study, worker, 1).index == 0
    assert study.get_trials()[0].state == TrialState.FAIL


def test_a_process_number_that_is_used_again_is_another_process(study, worker):
    me = signed(study, "worker old", place=claims.place(), pid=1, start="long ago")
    assert not worker.alive(me)


def test_trials_of_a_process_that_lives_are_not(study, worker):
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        start = claims.start_time(living.pid)
        old = time.time() - 10_000  # no sign for hours: the system knows better
        key = signed(
            study, "worker b", place=claims.place(), pid=living.pid, start=start, time=old
        )
        running(study, 0, key)
        assert claim(study, worker, 1) is None
    finally:
        living.communicate(b"\n")
    assert claim(study, worker, 1).index == 0


def test_processes_elsewhere_are_known_by_their_signs(study, worker):
    running(study, 0, signed(study, "worker near"))
    assert claim(study, worker, 1) is None
    late = time.time() - claims.DEAD_AFTER_SECONDS - 1
    signed(study, "worker near", time=late)
    assert claim(study, worker, 1).index == 0


def test_a_trial_of_no_known_worker_is_free(study, worker):
    running(study, 0, "worker never heard of")
    assert claim(study, worker, 1).index == 0


def test_of_two_that_claim_at_once_the_first_goes_on(study, worker, monkeypatch):
    """Another process adds its claim after we looked and before we added ours."""
    rival = signed(study, "worker rival")
    before = study.add_trial

    def add(trial):
        monkeypatch.setattr(study, "add_trial", before)
        running(study, 0, rival)
        before(trial)

    monkeypatch.setattr(study, "add_trial", add)
    assert claim(study, worker, 2).index == 1
    states = [t.state for t in study.get_trials() if t.user_attrs["index"] == 0]
    assert states == [TrialState.RUNNING, TrialState.FAIL]


def test_one_that_comes_second_does_not_disturb(study, worker, monkeypatch):
    """The other added its claim after ours: we go on, and it will see that."""
    before = study.add_trial

    def add(trial):
        before(trial)
        monkeypatch.setattr(study, "add_trial", before)
        running(study, 0, signed(study, "worker rival"))

    monkeypatch.setattr(study, "add_trial", add)
    assert claim(study, worker, 2).index == 0


def test_who_was_thought_dead_and_was_not_drops_its_result(study, worker):
    slept = claim(study, worker, 1)
    give_up(study, slept.trial.number)  # what another does that thinks so
    other = claim(study, worker, 1)
    assert finish(study, other, {"points": "theirs"}, VALUES)
    assert not finish(study, slept, {"points": "ours"}, VALUES)
    assert counted(study.get_trials())[0].user_attrs["result"] == {"points": "theirs"}


def test_a_success_goes_before_a_failure(study, worker):
    failed = claim(study, worker, 1)
    finish(study, failed, ERROR, None)
    again = claim(study, worker, 1, again=frozenset({failed.trial.number}))
    assert again.index == 0
    finish(study, again, {}, VALUES)
    assert numbers(study) == {0: again.trial.number}


def test_a_worker_signs_while_it_is_at_work(study, monkeypatch):
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.01)
    with Worker(study) as worker:
        first = study.user_attrs[worker.key]["time"]
        deadline = time.monotonic() + 20
        while study.user_attrs[worker.key]["time"] == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert study.user_attrs[worker.key]["time"] > first
