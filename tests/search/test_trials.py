"""Samplers and storages."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from scipy.stats import kstest

from fairboost.exceptions import InvalidInputError
from fairboost.search.claims import Worker, claim
from fairboost.search.spaces import SPACES, Choice, Range, draw
from fairboost.search.trials import open_search, open_storage, quiet

SPACE = {"a": Range(1, 100, log=True), "b": Range(0.0, 1.0), "c": Choice(("x", "y")), "d": 7}


def drawn(seed, n, space=SPACE, name="s", prefix="", sampler="random"):
    with quiet():
        study = open_search(open_storage(None), name, "me", sampler, seed)
        with Worker(study) as worker:
            return [draw(space, claim(study, worker, n).trial, prefix) for _ in range(n)]


def test_the_same_seed_and_trial_give_the_same_options():
    assert drawn(0, 5) == drawn(0, 5, name="another")
    assert drawn(0, 5) != drawn(1, 5)


def test_options_do_not_depend_on_what_else_is_drawn():
    """So two methods share the engine's options, whatever options of their own they have."""
    more = drawn(0, 5, {"z": Range(0, 9), **SPACE})
    assert [{k: v for k, v in each.items() if k != "z"} for each in more] == drawn(0, 5)


def test_options_of_two_methods_of_one_name_differ():
    assert drawn(0, 5, prefix="m.") != drawn(0, 5)


def test_draws_follow_the_law_asked_for():
    found = drawn(3, 150, {"r": Range(0.01, 1.0, log=True), "n": Range(1, 4)})
    position = np.log(np.array([f["r"] for f in found]) / 0.01) / np.log(100)
    assert kstest(position, "uniform").pvalue > 0.01
    counts = np.bincount([f["n"] for f in found])[1:]
    assert len(counts) == 4 and counts.min() > 20


def test_draws_stay_within_the_ends():
    for options in drawn(5, 60, SPACES["paper"]):
        for name, value in options.items():
            what = SPACES["paper"][name]
            if isinstance(what, Range):
                assert what.low <= value <= what.high
                assert isinstance(value, int) == isinstance(what.low, int)


@pytest.mark.parametrize("name", ["tpe", "nsga2"])
def test_other_samplers(name):
    options = drawn(0, 3, sampler=name)
    assert len(options) == 3 and all(set(o) == set(SPACE) for o in options)


def test_a_search_that_is_anothers(tmp_path):
    url = f"sqlite:///{tmp_path / 'trials.db'}"
    with quiet():
        open_search(open_storage(url), "s", "one", "random", 0)
        open_search(open_storage(url), "s", "one", "random", 0)
        with pytest.raises(InvalidInputError, match="holds a search 's' of another study"):
            open_search(open_storage(url), "s", "two", "random", 0)


def test_a_search_that_someone_else_began_by_hand():
    storage = open_storage(None)
    with quiet():
        study = optuna.create_study(storage=storage, study_name="s", directions=["maximize"] * 2)
        study.tell(study.ask(), [1.0, 1.0])
        with pytest.raises(InvalidInputError, match="of another study"):
            open_search(storage, "s", "me", "random", 0)
