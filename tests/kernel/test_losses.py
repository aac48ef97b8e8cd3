"""Losses: derivatives by finite differences, zeros where they belong, and parabolas from above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.kernel.losses import CLOSEST, LOSSES, Loss

KNOWN = [
    Loss("squared"),
    Loss("absolute"),
    Loss("quantile", 0.8),
    Loss("huber", 0.9),
    Loss("pseudo_huber", 0.7),
    Loss("poisson", step=0.7),
    Loss("gamma"),
    Loss("tweedie", 1.5),
    Loss("tweedie", 1.2),
]
EACH = pytest.mark.parametrize("loss", KNOWN, ids=lambda x: f"{x.name}-{x.shape:g}")


def rows(loss, seed=0, n=400):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    y = rng.normal(size=n)
    if loss.log_link:
        y = rng.gamma(0.8, 2.0, n) + (0.01 if loss.name == "gamma" else 0.0)
        y[: n // 3] = 0.4 if loss.name == "gamma" else 0.0
    return scores, y


def test_all_are_known():
    assert {loss.name for loss in KNOWN} == set(LOSSES)


@EACH
def test_gradient_is_the_derivative_of_the_value(loss):
    scores, y = rows(loss)
    step = 1e-6
    slope = (loss.value(scores + step, y) - loss.value(scores - step, y)) / (2 * step)
    smooth = np.abs(scores - y) > 1e-3  # the absolute loss has a corner
    found = loss.slopes(scores, y)[0]
    np.testing.assert_allclose(found[smooth], slope[smooth], rtol=1e-5, atol=1e-6)


@EACH
def test_hessian_is_that_of_the_gradient_where_there_is_one(loss):
    scores, y = rows(loss, seed=1)
    _, hessian = loss.slopes(scores, y)
    assert (hessian > 0).all()
    if loss.renews_leaves:
        return
    step = 1e-6
    up, down = (loss.slopes(scores + d, y)[0] for d in (step, -step))
    expected = (up - down) / (2 * step) * np.exp(loss.step)
    inside = np.abs(scores - y) < 0.9 - 1e-3 if loss.name == "huber" else slice(None)
    np.testing.assert_allclose(hessian[inside], expected[inside], rtol=1e-4, atol=1e-6)


@EACH
def test_nothing_is_lost_where_prediction_and_target_agree(loss):
    predicted = np.array([0.2, 1.0, 3.0])
    scores = np.array([loss.score(p) for p in predicted])
    np.testing.assert_allclose(loss.value(scores, predicted), 0.0, atol=1e-12)
    np.testing.assert_allclose(loss.prediction(scores), predicted)
    away = scores + np.array([0.3, -0.4, 0.2])
    assert (loss.value(away, predicted) > 0).all()


@given(st.sampled_from([Loss("absolute"), Loss("quantile", 0.8)]), st.integers(0, 999))
@settings(max_examples=40)
def test_the_parabola_is_nowhere_below_the_loss(loss, seed):
    scores, y = rows(loss, seed, n=50)
    gradient, hessian = loss.slopes(scores, y)
    far = np.abs(scores - y) > CLOSEST * np.median(np.abs(scores - y))
    for move in (-3.0, -0.5, 0.1, 2.0):
        above = loss.value(scores, y) + gradient * move + hessian * move**2 / 2
        assert (above >= loss.value(scores + move, y) - 1e-9)[far].all()


@pytest.mark.parametrize("loss", [Loss("absolute"), Loss("quantile", 0.8)])
def test_steps_to_the_minimum_of_parabolas_end_at_the_quantile(loss):
    y = np.random.default_rng(3).normal(size=1_001)
    score = 4.0
    for _ in range(200):
        gradient, hessian = loss.slopes(np.full_like(y, score), y)
        score -= gradient.sum() / hessian.sum()
    assert score == pytest.approx(np.quantile(y, loss.shape or 0.5), abs=0.02)


@EACH
def test_the_best_constant_is_the_mean_or_the_quantile(loss):
    if loss.name in ("huber", "pseudo_huber"):
        pytest.skip("neither")
    _, y = rows(loss, seed=5, n=2_000)
    grid = np.linspace(max(y.min(), 0.05 if loss.log_link else -9.0), np.quantile(y, 0.99), 800)
    losses = [loss.value(np.full_like(y, loss.score(c)), y).mean() for c in grid]
    best = np.quantile(y, loss.shape or 0.5) if loss.renews_leaves else y.mean()
    assert grid[int(np.argmin(losses))] == pytest.approx(best, abs=2 * (grid[1] - grid[0]))


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8, 2.0])
def test_up_to_the_largest_push_a_row_is_held(power):
    """Where the push of a mean is a share 1 / p of ``m^(2 - p)``, the loss holds it no longer."""
    loss = Loss("gamma") if power == 2.0 else Loss("tweedie", power)
    assert loss.most_up == pytest.approx(1 / power)
    y = 1.0
    last = y * power / (power - 1)  # where the row comes to rest under the largest weight
    weight = loss.most_up * last ** (1 - power)

    def slope(m, c):
        return float(loss.slopes(np.log([m]), np.array([y]))[0][0]) - c * m

    assert slope(last, weight) == pytest.approx(0, abs=1e-12)
    above = np.array([slope(m, 1.01 * weight) for m in np.geomspace(0.5, 50, 200)])
    assert (above < 0).all()  # a little more weight, and nothing stops the row
    assert slope(1.05 * last, 0.9 * weight) > 0


def test_a_poisson_loss_holds_rows_as_far_as_there_are_weights():
    assert Loss("poisson").most_up > 1e20
    assert Loss("squared").most_up > 1e20


@pytest.mark.parametrize("name", ["absolute", "quantile"])
def test_where_most_rows_are_right_the_curvature_is_finite(name):
    """As of counts: it was 4e37 for each, more than single precision can add up."""
    loss, y = Loss(name, 0.6), np.array([1.0, 1.0, 1.0, 1.0, 3.0, 9.0])
    assert loss.closest(np.ones(6) - y) == 0.5 * 5.0
    assert loss.closest(np.zeros(6)) == 1.0
    _, bend = loss.slopes(np.ones(6), y)
    assert bend.min() > 0 and bend.max() < 1
