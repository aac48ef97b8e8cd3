"""The blind post-processor that fairboost is compared with, where the answer is known."""

import numpy as np
import pytest

from benchmarks.regression_peers import least_shift, parity_on_grid

N = 1_500


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_known_groups_meet_half_way(unit):
    """Uniform on [0, 1] and on [1, 2]: the nearest common law is uniform on [0.5, 1.5]."""
    predicted = unit * (np.arange(N) + 0.5) / (N / 2)
    second = predicted > unit
    likely = np.stack([~second, second], axis=1).astype(float)
    law = parity_on_grid(predicted, likely, points=41)
    drawn = law.draw(predicted, likely, seed=0)
    step = law.grid[1] - law.grid[0]
    best = predicted + np.where(second, -0.5, 0.5) * unit
    assert np.sqrt(np.mean((drawn - best) ** 2)) < step
    shares = [
        np.histogram(drawn[rows], 8, (0.4 * unit, 1.6 * unit))[0] for rows in (second, ~second)
    ]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.03 * N)


def test_where_features_tell_nothing_predictions_stay():
    """Everyone is of each group with its share: whatever is predicted is alike in all groups."""
    predicted = np.random.default_rng(0).normal(size=N)
    likely = np.tile([0.3, 0.7], (N, 1))
    law = parity_on_grid(predicted, likely, points=41)
    drawn = law.draw(predicted, likely, seed=0)
    assert np.sqrt(np.mean((drawn - predicted) ** 2)) < law.grid[1] - law.grid[0]


def test_laws_are_alike_in_groups_that_are_told_in_part():
    hint, noise = np.random.default_rng(1).normal(size=(2, N))
    odds = 1 / (1 + np.exp(-1.5 * hint))
    likely = np.stack([1 - odds, odds], axis=1)
    predicted = hint + noise
    law = parity_on_grid(predicted, likely)
    drawn = law.draw(predicted, likely, seed=0)
    before, after = (np.ptp(v @ likely / likely.sum(axis=0)) for v in (predicted, drawn))
    assert before > 0.8
    assert after < 0.1
    # What is not about the group is kept.
    assert np.corrcoef(drawn, noise)[0, 1] > 0.9


def test_the_least_shift_of_two_known_groups():
    """The smaller group ends half the tolerance below everyone, who stay where they are."""
    group = np.repeat([0, 1], [250, 750])
    likely, predicted = np.eye(2)[group], group.astype(float)
    moved = predicted - (likely - likely.mean(axis=0)) @ least_shift(predicted, likely, 0.2)
    means = [moved[group == g].mean() for g in (0, 1)]
    np.testing.assert_allclose(means, [0.75 - 0.1, 0.75 + 0.1 / 3], atol=1e-6)


def test_the_least_shift_of_groups_in_part_known():
    """Means meet, and no other change that makes them meet is smaller."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=4_000)
    second = 1 / (1 + np.exp(-x))
    likely = np.stack([1 - second, second], axis=1)
    change = (likely - likely.mean(axis=0)) @ least_shift(x, likely, 0.0)
    moved = x - change
    means = [np.average(moved, weights=likely[:, g]) for g in (0, 1)]
    assert np.ptp(means) < 1e-6
    for other in (x, x**3, np.sign(x)):
        apart = np.subtract(*(np.average(other, weights=likely[:, g]) for g in (0, 1)))
        as_much = np.subtract(*(np.average(x, weights=likely[:, g]) for g in (0, 1)))
        assert (other * as_much / apart).var() > change.var()
