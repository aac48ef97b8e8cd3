"""The blind post-processor that fairboost is compared with, where the answer is known."""

import numpy as np
import pytest

from benchmarks.regression_peers import parity_on_grid

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
