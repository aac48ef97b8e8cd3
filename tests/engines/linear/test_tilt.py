"""Scores among people who are weighed by group and label: the rule, its derivative, its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

from fairboost.engines.linear.tilt import pull_back, slopes, tilt

numbers = st.floats(-5, 5)


def drawn(seed, n=50, n_groups=3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n_groups), n), rng.normal(size=n_groups)


@pytest.mark.parametrize("label", [0, 1])
def test_slopes_are_derivatives(label):
    members, theta = drawn(0)
    found = slopes(members, theta, label)
    for g in range(3):
        step = np.zeros(3)
        step[g] = 1e-5
        up, down = (tilt(members, theta + s, label) for s in (step, -step))
        np.testing.assert_allclose(found[:, g], (up - down) / 2e-5, atol=1e-9)
    gradient = np.random.default_rng(1).normal(size=len(members))
    np.testing.assert_allclose(pull_back(members, theta, label, gradient), found.T @ gradient)


@given(st.integers(0, 1_000), numbers, st.integers(0, 1))
def test_one_weight_for_all_groups_is_a_shift(seed, shift, label):
    members, theta = drawn(seed)
    term, found = tilt(members, theta, label), slopes(members, theta, label)
    np.testing.assert_allclose(tilt(members, theta + shift, label), term + shift, atol=1e-9)
    np.testing.assert_allclose(slopes(members, theta + shift, label), found, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (term <= theta.max() + 1e-12).all()
    assert (term >= theta.min() - 1e-12).all()


@given(st.integers(0, 1_000))
def test_known_groups_have_a_threshold_each(seed):
    _, theta = drawn(seed)
    known = np.eye(3)
    for label in (0, 1):
        np.testing.assert_allclose(tilt(known, theta, label), theta, atol=1e-12)


@given(st.integers(0, 1_000), st.floats(0.1, 0.9))
def test_decisions_are_those_of_the_linear_rule(seed, threshold):
    """With costs of either error, at any threshold: linear in P(label, group | x)."""
    (of_ones, raised), (of_zeros, lowered) = drawn(seed), drawn(seed + 1)
    p = np.random.default_rng(seed).random(len(of_ones))
    score = logit(p) + tilt(of_ones, raised, 1) + tilt(of_zeros, lowered, 0)
    ones, zeros = p[:, None] * of_ones, (1 - p)[:, None] * of_zeros  # P(label, group | x)
    linear = (1 - threshold) * ones @ np.exp(raised) - threshold * zeros @ np.exp(-lowered)
    clear = np.abs(linear) > 1e-9
    np.testing.assert_array_equal((score >= logit(threshold))[clear], (linear >= 0)[clear])


def test_large_weights_stay_finite():
    members, _ = drawn(0)
    theta = np.array([-800.0, 0.0, 800.0])
    assert np.isfinite(tilt(members, theta, 1)).all()
    assert np.isfinite(slopes(members, theta, 1)).all()
