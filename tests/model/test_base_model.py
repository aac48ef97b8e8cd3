"""Log-odds of a base model: where probabilities are clipped, how decision values are mapped."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from sklearn.metrics import roc_auc_score

from fairboost.exceptions import FairnessWarning
from fairboost.model.base_model import (
    MOST_CLIPPED,
    PROBABILITIES,
    BaseModel,
    best_clip,
    check_given,
    platt,
    ranked_above,
)


@given(
    n=st.integers(60, 5_000), share=st.floats(0, 0.04), seed=st.integers(0, 99)
)  # of rows whose probability is 0
def test_the_clip_of_sure_rows_is_the_share_of_wrong_ones(n, share, seed):
    y = (np.random.default_rng(seed).random(n) < share).astype(float)
    expected = np.clip(y.mean(), 1 / (n + 2), MOST_CLIPPED)
    # To the nearest of the values tried, which lie within this factor.
    near = (MOST_CLIPPED * (n + 2)) ** (1 / 39)
    assert 1 / near < best_clip(np.zeros(n), y, np.ones(n)) / expected < near


def test_weights_count_in_the_clip():
    y = np.zeros(1_000)
    y[:10] = 1
    weight = np.where(y == 1, 2.0, 1.0)
    found = best_clip(np.zeros(1_000), y, weight)
    assert found == pytest.approx(20 / 1_010, rel=0.1)


def test_a_calibrated_model_is_left_as_it_is():
    rng = np.random.default_rng(0)
    proba = expit(rng.normal(0, 3, 50_000))
    y = (rng.random(50_000) < proba).astype(int)
    base = BaseModel(PROBABILITIES).fitted_to(proba, y, None)
    assert base.clip[0] < 0.001
    assert base.clip[1] > 0.999
    inside = (proba > base.clip[0]) & (proba < base.clip[1])
    np.testing.assert_array_equal(base.of_values(proba)[inside], logit(proba)[inside])


def test_few_rows():
    assert best_clip(np.zeros(3), np.zeros(3), np.ones(3)) == pytest.approx(0.2)


def test_clipping_never_turns_two_rows_around():
    rng = np.random.default_rng(0)
    proba = np.sort(np.concatenate([rng.random(500), np.zeros(50), np.ones(50)]))
    y = (rng.random(600) < proba).astype(int)
    scores = BaseModel(PROBABILITIES).fitted_to(proba, y, None).of_values(proba)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) >= 0).all()
    np.testing.assert_array_equal(scores >= 0, proba >= 0.5)


def test_the_map_of_decision_values_is_that_of_least_loss():
    rng = np.random.default_rng(0)
    values = rng.normal(2, 50, 20_000)
    y = (rng.random(20_000) < expit(0.03 * values - 0.5)).astype(int)
    weight = rng.gamma(2, size=20_000)
    weight /= weight.mean()

    def loss(at):
        return -weight @ log_expit((2 * y - 1) * (at[0] * values / 50 + at[1])) / len(y)

    found = minimize(loss, [0.0, 0.0]).x
    slope, shift = platt(values, y, weight)
    assert slope == pytest.approx(found[0] / 50, rel=0.01)
    assert shift == pytest.approx(found[1], abs=0.01)


def test_values_that_part_the_labels_have_a_finite_map():
    values = np.linspace(-1, 1, 100)
    slope, shift = platt(values, (values > 0).astype(int), np.ones(100))
    assert 0 < slope < 100
    assert shift == pytest.approx(0, abs=1e-6)


@given(st.integers(2, 60), st.integers(1, 10), st.integers(0, 1_000))
def test_the_auc_is_that_of_scikit_learn(n, distinct, seed):
    rng = np.random.default_rng(seed)
    values, labels = rng.integers(0, distinct, n) / distinct, rng.integers(0, 2, n)
    labels[:2] = 0, 1
    area, _ = ranked_above(values, labels)
    assert area == pytest.approx(roc_auc_score(labels, values))


def test_the_error_of_an_auc_is_that_of_random_orders():
    rng = np.random.default_rng(0)
    values, labels = rng.random(200), (np.arange(200) < 60).astype(int)
    found = [ranked_above(rng.permutation(values), labels) for _ in range(2_000)]
    assert np.std([area for area, _ in found]) == pytest.approx(found[0][1], rel=0.1)


def test_scores_in_another_order_are_warned_of():
    rng = np.random.default_rng(0)
    values = rng.random(4_000)
    labels = (rng.random(4_000) < values).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_given(values, labels, 1)
    shuffled = values[rng.permutation(4_000)]
    if shuffled[labels == 1].mean() < shuffled[labels == 0].mean():  # which is refused
        shuffled = 1 - shuffled
    with pytest.warns(FairnessWarning, match=r"says nothing about the label: its AUC is 0\.5"):
        check_given(shuffled, labels, 1)
