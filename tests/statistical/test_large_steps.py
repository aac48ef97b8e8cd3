"""Constraints on numbers settle at every learning rate, with the group among the features.

A leaf of one group then moves its mean by the whole learning rate, and multipliers that answer too
strongly send groups to and fro, further in every round.
"""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from xgboost import XGBRegressor

from fairboost import FairGBMRegressor, parity
from tests.covering import covering

RATES = 0.1, 0.3, 0.5, 1.0
LOSSES = {
    "squared": ("regression", "reg:squarederror"),
    "absolute": ("l1", "reg:absoluteerror"),
    "poisson": ("poisson", "count:poisson"),
    "gamma": ("gamma", "reg:gamma"),
    "tweedie": ("tweedie", "reg:tweedie"),
}


def drawn(loss, n_groups=2, n=2_000):
    """Features with the group among them, targets whose means differ by group, groups."""
    rng = np.random.default_rng(0)
    g = rng.integers(0, n_groups, n)
    X = np.c_[g, rng.normal(size=(n, 3))]
    signal = 2.0 * g / (n_groups - 1) + X[:, 1]
    if loss in ("squared", "absolute"):
        return X, 5.0 + signal + rng.normal(size=n), g
    mean = np.exp(0.3 * signal)
    y = rng.poisson(mean).astype(float) if loss == "poisson" else rng.gamma(4.0, mean / 4.0)
    return X, y + (loss == "gamma") * 1e-3, g


def engine(name, loss, rate, rounds=60):
    if name == "lightgbm":
        return LGBMRegressor(
            objective=LOSSES[loss][0], learning_rate=rate, n_estimators=rounds, num_leaves=8,
            n_jobs=1, verbose=-1,
        )  # fmt: skip
    return XGBRegressor(
        objective=LOSSES[loss][1], learning_rate=rate, n_estimators=rounds, max_depth=3, n_jobs=1
    )


def after_the_last_round(stock, X, y, g, **options):
    options = {"iterate": "last", "holdout": None, "memberships": "observed", **options}
    return FairGBMRegressor(stock, **options).fit(X, y, sensitive_features=g).predict(X)


def gap(predicted, g):
    return np.ptp([predicted[g == k].mean() for k in np.unique(g)])


def distance(predicted, g):
    levels = np.quantile(predicted, np.arange(1, 16) / 16)
    everyone = (predicted[:, None] > levels).mean(axis=0)
    apart = [(predicted[g == k, None] > levels).mean(axis=0) - everyone for k in np.unique(g)]
    return np.abs(apart).max()


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_two_groups_at_the_rate_of_xgboost(tolerance):
    """The gap was -1e16 after 200 rounds."""
    rng = np.random.default_rng(0)
    g = rng.integers(0, 2, 5_000)
    X = np.c_[g, rng.normal(size=(5_000, 3))]
    y = 2 * g + X[:, 1] + rng.normal(size=5_000)
    found = after_the_last_round(
        XGBRegressor(n_estimators=200, n_jobs=1), X, y, g,
        constraint="equal_means", tolerance=tolerance,
    )  # fmt: skip
    assert gap(found, g) <= tolerance + 0.02
    assert np.mean((found - y) ** 2) < np.var(y)


@pytest.mark.parametrize(
    ("loss", "rate", "name"), covering(LOSSES, RATES, ["lightgbm", "xgboost"])
)
def test_means_meet(name, loss, rate):
    X, y, g = drawn(loss)
    plain = engine(name, loss, rate).fit(X, y).predict(X)
    found = after_the_last_round(
        engine(name, loss, rate), X, y, g, constraint="equal_means", tolerance=0.1
    )
    assert gap(plain, g) > 0.4
    assert gap(found, g) <= 0.13
    assert np.mean((found - y) ** 2) < 1.5 * np.var(y)


@pytest.mark.parametrize(
    ("rate", "n_groups", "name"), covering(RATES, [2, 6], ["lightgbm", "xgboost"])
)
def test_distributions_meet(name, n_groups, rate):
    X, y, g = drawn("squared", n_groups)
    plain = engine(name, "squared", rate).fit(X, y).predict(X)
    found = after_the_last_round(
        engine(name, "squared", rate, 100), X, y, g,
        constraint="equal_distributions", tolerance=0.05,
    )  # fmt: skip
    assert distance(plain, g) > 0.2
    assert distance(found, g) <= 0.09


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loss", ["squared", "poisson", "gamma"])
def test_calibration_and_relative_gaps_hold(loss, rate):
    X, y, g = drawn(loss, n_groups=6)
    stock = engine("lightgbm", loss, rate)
    found = after_the_last_round(stock, X, y, g, constraint="calibrated", tolerance=0.02)
    ratios = [y[g == k].mean() / found[g == k].mean() for k in range(6)]
    assert np.abs(np.array(ratios) - 1).max() <= 0.03
    alike = parity("prediction", 0.05, relative=True)
    found = after_the_last_round(stock, X, y, g, constraint=alike)
    assert gap(found, g) / found.mean() <= 0.07


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_blind_means_meet(name, rate):
    X, y, g = drawn("squared", n_groups=6)
    X[:, 0] += 2 * np.random.default_rng(5).normal(size=len(g))
    plain = engine(name, "squared", rate).fit(X, y).predict(X)
    found = after_the_last_round(
        engine(name, "squared", rate), X, y, g,
        constraint="equal_means", tolerance=0.1, memberships="auto",
    )  # fmt: skip
    assert gap(found, g) <= 0.15 < 0.5 * gap(plain, g)


@pytest.mark.filterwarnings("ignore:Most of the predictive power is gone")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("rounds", [5, 20, 300])
def test_no_number_of_rounds_makes_a_gap_larger(rounds, rate):
    X, y, g = drawn("squared")
    plain = engine("lightgbm", "squared", rate, rounds).fit(X, y).predict(X)
    found = after_the_last_round(
        engine("lightgbm", "squared", rate, rounds), X, y, g,
        constraint="equal_means", tolerance=0.0,
    )  # fmt: skip
    assert gap(found, g) < gap(plain, g)
    assert rounds < 300 or gap(found, g) < 0.03


@pytest.mark.parametrize("rate", RATES)
def test_errors_come_closer(rate):
    X, y, g = drawn("squared")
    y = y + (g == 0) * np.random.default_rng(1).normal(size=len(y))

    def apart(predicted):
        return gap((predicted - y) ** 2, g)

    stock = engine("lightgbm", "squared", rate, 100)
    plain = engine("lightgbm", "squared", rate, 100).fit(X, y).predict(X)
    found = after_the_last_round(stock, X, y, g, constraint="equal_errors", tolerance=0.1)
    assert apart(found) < 0.5 * apart(plain)
