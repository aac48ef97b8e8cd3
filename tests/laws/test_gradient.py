"""The gradient is the derivative of the proxy Lagrangian, whatever the proxy and constraint."""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent
from fairboost.fairness.constraints import columns_of, parity
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.proxies import PROXIES
from tests.problems import ALL_CONSTRAINTS, group_moments, proxy_lagrangian, rows, session


def derivative(value, f, step=1e-5):
    out = np.empty_like(f)
    for i in range(len(f)):
        up, down = f.copy(), f.copy()
        up[i] += step
        down[i] -= step
        out[i] = (value(up) - value(down)) / (2 * step)
    return out


@pytest.mark.parametrize("proxy", PROXIES.values(), ids=PROXIES)
@pytest.mark.parametrize("constraints", ALL_CONSTRAINTS.values(), ids=ALL_CONSTRAINTS)
@pytest.mark.parametrize(
    "setting",
    [
        {"threshold": 0.0, "weighted": False, "class_weight": (1.0, 1.0)},
        {"threshold": 0.7, "weighted": True, "class_weight": (1.0, 1.0)},
        {"threshold": 0.0, "weighted": True, "class_weight": (0.5, 3.0)},
    ],
    ids=["plain", "weights and threshold", "class weights"],
)
def test_gradient_is_the_derivative_of_the_proxy_lagrangian(proxy, constraints, setting):
    y, columns, weight, cells = rows(seed=1, weighted=setting["weighted"])
    lagrangian = session(
        cells,
        constraints,
        proxy,
        Ascent(1.0),
        threshold=setting["threshold"],
        sample_weight=weight,
        label_weights=setting["class_weight"],
        dtype=np.float64,
    )
    rng = np.random.default_rng(2)
    f = rng.normal(0, 2, len(y))
    multipliers = rng.uniform(0.1, 1, len(lagrangian.game.inequalities))
    lagrangian.state = lagrangian.game.start(multipliers)
    gradient, hessian = lagrangian.play(f)

    expected = derivative(
        lambda scores: proxy_lagrangian(
            scores, y, columns, weight, constraints, multipliers, proxy,
            setting["threshold"], setting["class_weight"],
        ),
        f,
    )  # fmt: skip
    np.testing.assert_allclose(gradient, expected, atol=2e-7, rtol=1e-7)
    # The Hessian is the loss's own (paper, Eq. 15), whatever the constraints.
    p = 1 / (1 + np.exp(-f))
    w = np.ones(len(y)) if weight is None else weight
    own = w * np.asarray(setting["class_weight"])[y] * p * (1 - p)
    np.testing.assert_allclose(hessian, own, rtol=1e-12)


def test_the_factor_of_equation_8_is_not_in_the_derivative():
    """With four groups the paper's (m - 1) would triple the part of the worst group."""
    rates = GroupMoments(
        np.array([[0.1, 0.4, 0.2, 0.3]]), np.ones((1, 4)), ((0,), (1,), (2,), (3,))
    )
    multipliers = np.array([0.2, 0.3, 0.5, 0.7])
    constraint = parity("fnr", 0.0, by="g")
    step = 1e-6
    numeric = np.empty(4)
    for g in range(4):
        moved = rates.values.copy()
        moved[0, g] += step
        up = multipliers @ constraint.violations(GroupMoments(moved, rates.weights, rates.groups))
        moved[0, g] -= 2 * step
        down = multipliers @ constraint.violations(
            GroupMoments(moved, rates.weights, rates.groups)
        )
        numeric[g] = (up - down) / (2 * step)
    coef = constraint.pullback(rates, multipliers)[0]
    np.testing.assert_allclose(coef, numeric, atol=1e-9)
    papers = 3 * (multipliers.sum() - multipliers[1])
    assert papers / coef[1] == pytest.approx(3.0)


@pytest.mark.parametrize("constraints", ALL_CONSTRAINTS.values(), ids=ALL_CONSTRAINTS)
def test_pullback_is_the_derivative_of_violations(constraints):
    rng = np.random.default_rng(0)
    for c in constraints:
        sizes = [{"g": 3, "h": 2}[column] for column in columns_of(c)]
        names = tuple(np.ndindex(*sizes))
        values = rng.uniform(0.1, 0.9, (len(c.moments), len(names)))

        def weighed(flat, c=c, shape=values.shape, names=names, m=None):
            rates = group_moments(c, flat.reshape(shape), np.ones(shape), names)
            return m @ c.violations(rates)

        rates = group_moments(c, values, np.ones(values.shape), names)
        m = rng.uniform(0, 1, len(c.violations(rates)))
        expected = derivative(lambda flat, w=weighed, m=m: w(flat, m=m), values.ravel().copy())
        np.testing.assert_allclose(c.pullback(rates, m).ravel(), expected, atol=1e-8)
