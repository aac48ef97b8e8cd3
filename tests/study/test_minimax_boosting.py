"""Min-max boosting: its derivatives, its weights, and a case that is solved otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from lightgbm import LGBMClassifier
from scipy.optimize import minimize
from scipy.special import logit

from fairboost.study import Rows, Task
from fairboost.study.config import MetricsConfig
from fairboost.study.minimax_boosting import MinMaxLoss, minimax_boosting, on_simplex


@pytest.fixture
def loss():
    rng = np.random.default_rng(0)
    codes, counts = rng.integers(-1, 3, 40), rng.random(40) < 0.7
    codes[:3], counts[:3] = [0, 1, 2], True
    return MinMaxLoss(codes, counts, rng.integers(0, 2, 40).astype(float), 0.6, 0.3)


def test_derivatives_by_finite_differences(loss):
    rng = np.random.default_rng(1)
    y, scores, h = rng.integers(0, 2, 40).astype(float), rng.normal(size=40), 1e-5
    loss(y, scores)  # weights that are not equal
    first, second = loss.derivatives(y, scores)
    for i in range(len(y)):
        step = h * np.eye(len(y))[i]
        up, down = loss.value(y, scores + step), loss.value(y, scores - step)
        assert (up - down) / (2 * h) * len(y) == pytest.approx(first[i], abs=1e-6)
        slopes = [loss.derivatives(y, scores + k * step)[0][i] for k in (1, -1)]
        assert (slopes[0] - slopes[1]) / (2 * h) == pytest.approx(second[i], abs=1e-6)


def test_weights_move_to_the_worst_group(loss):
    y, scores = np.ones(40), np.zeros(40)
    scores[loss.codes == 1] = -3.0
    loss.target[:] = 1.0
    for _ in range(20):
        loss(y, scores)
    np.testing.assert_allclose(loss.group_weight, [0, 0.6, 0], atol=1e-12)


@given(arrays(float, 5, elements=st.floats(-3, 3)), st.floats(0, 2))
def test_nearest_point_of_the_simplex(values, total):
    found = on_simplex(values, total)
    assert found.sum() == pytest.approx(total, abs=1e-9) and (found >= 0).all()
    # The nearest point of a convex set: no corner lies further along the way back.
    for corner in total * np.eye(5):
        assert (values - found) @ (corner - found) <= 1e-8


def rows(n=4_000):
    """Two groups with other probabilities at the same two values of a feature."""
    rng = np.random.default_rng(3)
    x, s = rng.integers(0, 2, n), rng.integers(0, 2, n)
    y = (rng.random(n) < np.array([[0.2, 0.7], [0.6, 0.5]])[s, x]).astype(int)
    return Rows(pd.DataFrame({"x": x}), y, pd.Series(s))


def task(train, rates, **options):
    engine = {"n_estimators": 400, "num_leaves": 2, "learning_rate": 0.1, "min_child_samples": 1}
    return Task(train, MetricsConfig(rates=rates), engine, options)


@pytest.mark.parametrize("rates", [("fnr",), ("fpr",), ("ppr",)])
def test_a_case_that_a_solver_solves(rates):
    train, weight = rows(), 0.5
    options = {"fair_weight": weight, "dual_learning_rate": 0.05}
    found = minimax_boosting(task(train, rates, **options))
    each = Rows(pd.DataFrame({"x": [0, 1]}), np.zeros(2), pd.Series([0, 0]))
    scores = logit(found(each).score)
    x, y, s = train.X["x"].to_numpy(), train.y, train.s.to_numpy()
    who = {"fnr": y == 1, "fpr": y == 0, "ppr": y >= 0}[rates[0]]
    target = np.ones(len(y)) if rates == ("ppr",) else y

    def objective(v):
        f = v[:2][x]
        losses = np.logaddexp(0, f) - target * f
        groups = [losses[who & (s == g)].mean() for g in (0, 1)]
        return (1 - weight) * (np.logaddexp(0, f) - y * f).mean() + weight * max(groups)

    best = minimize(objective, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6})
    assert objective(scores) <= best.fun + 1e-3


def test_a_weight_of_zero_is_the_stock_engine():
    train = rows(800)
    asked = task(train, ("fnr",), fair_weight=0.0)
    stock = LGBMClassifier(**asked.engine_options, random_state=0, n_jobs=1, verbose=-1)
    expected = stock.fit(train.X, train.y).predict_proba(train.X)[:, 1]
    np.testing.assert_allclose(minimax_boosting(asked)(train).score, expected, atol=1e-6)


def test_a_group_of_which_no_row_counts():
    with pytest.raises(ValueError, match="no row of group 1 counts"):
        MinMaxLoss(np.array([0, 1]), np.array([True, False]), np.ones(2), 0.5, 0.1)
