"""The protocol by hand: draws, selection, hypervolume."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.exceptions import InvalidInputError
from fairboost.search import protocol
from fairboost.search.protocol import Pool


def pool(trial, validation, test=None, n=None, models=1):
    figures = np.array(validation, float)
    n = max(trial) + 1 if n is None else n
    seen = figures if test is None else np.array(test, float)
    return Pool(np.array(trial), figures, seen, n, models)


def test_the_model_that_is_best_on_validation_rows_is_kept():
    found = pool([0, 1, 2], [[0.9, 0.2], [0.7, 0.9], [0.8, 0.6]])
    draws = np.array([[0, 1, 2], [0, 2, 2], [1, 1, 1]])
    assert protocol.select(found, draws, 0.0).tolist() == [1, 2, 1]
    assert protocol.select(found, draws, 1.0).tolist() == [0, 0, 1]


def test_a_trial_brings_all_of_its_models():
    found = pool([0, 0, 1], [[0.9, 0.2], [0.7, 0.9], [0.8, 0.6]])
    draws = np.array([[0], [1]])
    assert protocol.select(found, draws, 0.0).tolist() == [1, 2]
    assert protocol.select(found, draws, 1.0).tolist() == [0, 2]


def test_of_models_worth_the_same_the_fairer_is_kept():
    found = pool([0, 0, 1], [[0.9, 0.2], [0.9, 0.4], [0.9, 0.6]])
    draws = np.array([[0, 0], [0, 1], [1, 0]])
    assert protocol.select(found, draws, 1.0).tolist() == [1, 2, 2]
    figures = found.validation.T
    kept = protocol.chosen_within(found.trial, figures[0], 1 - figures[1], 0.9)
    assert kept.tolist() == [1, 2]


def test_a_failed_trial_brings_nothing():
    found = pool([1], [[0.9, 0.9]], n=3)
    draws = np.array([[0, 1], [0, 2]])
    kept = protocol.select(found, draws, 0.5)
    assert kept.tolist() == [0, -1]
    figures = protocol.of_chosen(found.test, kept)
    assert figures[0].tolist() == [0.9, 0.9] and np.isnan(figures[1]).all()
    summary = protocol.summarize(figures[:, 0])
    assert (summary.mean, summary.deviation) == (0.9, 0.0)


def test_selection_never_looks_at_test_rows():
    rng = np.random.default_rng(0)
    validation = rng.random((30, 2))
    draws = protocol.draw_trials(30, 5, 100, seed=0)
    first = pool(range(30), validation, rng.random((30, 2)))
    second = pool(range(30), validation, rng.random((30, 2)))
    for alpha in (0.0, 0.5, 1.0):
        kept = protocol.select(first, draws, alpha)
        assert (kept == protocol.select(second, draws, alpha)).all()


def test_selection_by_the_plain_definition():
    rng = np.random.default_rng(3)
    trial = np.sort(rng.integers(0, 12, 40))
    found = pool(trial, rng.random((40, 2)), n=12)
    draws = protocol.draw_trials(12, 4, 200, seed=1)
    for alpha in (0.0, 0.3, 0.75, 1.0):
        worth = alpha * found.validation[:, 0] + (1 - alpha) * found.validation[:, 1]
        kept = protocol.select(found, draws, alpha)
        for drawn, k in zip(draws, kept, strict=True):
            candidates = [m for m in range(40) if trial[m] in drawn]
            assert k == max(candidates, key=lambda m: worth[m], default=-1)


def test_methods_of_as_many_trials_share_their_draws():
    assert (protocol.draw_trials(30, 20, 10, 0) == protocol.draw_trials(30, 20, 10, 0)).all()
    assert not (protocol.draw_trials(30, 20, 10, 0) == protocol.draw_trials(30, 20, 10, 1)).all()


def test_the_budget_is_one_of_models():
    """Ten models a trial: two trials train what twenty of the others do."""
    assert pool([0], [[1, 1]], models=10).size(20) == 2
    assert pool([0], [[1, 1]]).size(20) == 20
    assert pool([0], [[1, 1]], models=10).size(6) == 1


def test_trials_out_of_range():
    with pytest.raises(InvalidInputError, match="numbered 0 to 1"):
        pool([0, 2], [[1, 1], [1, 1]], n=2)


def test_intervals_hold_95_percent():
    found = protocol.summarize(np.arange(1001.0))
    assert (found.mean, found.low, found.high) == (500, 25, 975)


FIGURES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12)


@given(FIGURES)
def test_hypervolume_is_the_area_of_the_union(figures):
    points = np.array(figures)
    # By inclusion of grid cells: every corner is a coordinate of some point.
    xs, ys = (np.unique([0.0, *points[:, k]]) for k in (0, 1))
    area = sum(
        (b - a) * (d - c)
        for a, b in pairwise(xs)
        for c, d in pairwise(ys)
        if ((points[:, 0] >= b) & (points[:, 1] >= d)).any()
    )
    assert protocol.hypervolume(points, (0, 0)) == pytest.approx(area, abs=1e-12)


@given(FIGURES)
def test_non_dominated_by_the_plain_definition(figures):
    points = np.array(figures)
    beaten = [
        any((q >= p).all() and (q > p).any() for q in points) for p in points
    ]  # fmt: skip
    assert protocol.non_dominated(points).tolist() == [not b for b in beaten]


def test_hypervolume_of_replicates_is_chosen_on_validation_and_measured_on_test():
    found = pool([0, 1], [[0.5, 0.5], [0.6, 0.6]], [[1.0, 1.0], [0.5, 0.4]])
    areas = protocol.hypervolumes(found, np.array([[0, 1], [0, 0]]), (0.0, 0.0))
    assert areas.tolist() == [0.2, 1.0]


def test_hypervolume_from_a_reference_on():
    assert protocol.hypervolume(np.array([[0.8, 0.5]]), (0.6, 0.0)) == pytest.approx(0.1)
    assert protocol.hypervolume(np.array([[0.5, 0.5]]), (0.6, 0.0)) == 0
