"""Calibration of groups that features hardly reveal neither ruins a model nor moves its total."""

import warnings

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from xgboost import XGBRegressor

from fairboost import FairGBMRegressor
from fairboost.algorithm.reach import keeping_the_total
from fairboost.exceptions import FairnessWarning
from fairboost.fairness.numbers import calibrated


@pytest.mark.parametrize("seed", range(5))
def test_pushes_move_no_total_unless_all_agree(seed):
    rng = np.random.default_rng(seed)
    pushes, shares = rng.normal(size=(3, 4)), rng.uniform(0.1, 1.0, (3, 4))
    found = keeping_the_total(pushes, shares)
    common = (shares * found).sum(axis=1) / shares.sum(axis=1)
    agree = (pushes > 0).all(axis=1) | (pushes < 0).all(axis=1)
    assert common[~agree] == pytest.approx(0.0, abs=1e-12)
    same = keeping_the_total(np.abs(pushes), shares)
    assert (shares * same).sum(axis=1) / shares.sum(axis=1) == pytest.approx(
        np.abs(pushes).min(axis=1)
    )
    np.testing.assert_allclose(np.diff(found, axis=1), np.diff(pushes, axis=1))
    np.testing.assert_allclose(keeping_the_total(-pushes, shares), -found)


def policies(n, seed):
    """Claims that a group has half as many again of, of which features say next to nothing."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 6))
    X[:, 5] += 0.15 * group
    exposure = rng.uniform(0.3, 1.0, n)
    rate = np.exp(-1.2 + 0.5 * X[:, 0] - 0.3 * X[:, 1]) * np.where(group, 1.2, 0.8)
    return X, rng.poisson(rate * exposure).astype(float), group, exposure


def deviance(y, expected):
    ratio = np.where(y > 0, y, 1.0) / expected
    return 2.0 * float(np.mean(np.where(y > 0, y * np.log(ratio), 0.0) - (y - expected)))


ENGINES = {
    "lightgbm": lambda: LGBMRegressor(
        objective="poisson", n_estimators=300, num_leaves=8, n_jobs=1, verbose=-1, random_state=0
    ),
    "xgboost": lambda: XGBRegressor(
        objective="count:poisson", n_estimators=200, max_depth=3, n_jobs=1, random_state=0
    ),
}


@pytest.fixture(scope="module", params=ENGINES)
def fitted(request):
    """A fit, what it warned of, and rows of its own law."""
    X, y, group, exposure = policies(6000, 0)
    model = FairGBMRegressor(
        ENGINES[request.param](), constraint=calibrated(0.05), memberships="honest",
        holdout="cross", iterate="last", random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=group, exposure=exposure)
    plain = ENGINES[request.param]()
    plain = FairGBMRegressor(plain, constraint=None).fit(X, y, exposure=exposure)
    return model, plain, heard


def test_a_model_that_cannot_be_calibrated_keeps_its_worth(fitted):
    model, plain, _ = fitted
    X, y, _, exposure = policies(40_000, 1)
    ours, stock, constant = (
        deviance(y, rate * exposure)
        for rate in (model.predict(X), plain.predict(X), y.sum() / exposure.sum())
    )
    assert stock < constant
    assert ours - stock < 0.1 * (constant - stock)


def test_the_total_stays_calibrated(fitted):
    model, plain, _ = fitted
    X, y, _, exposure = policies(40_000, 1)
    ours, stock = (y.sum() / (m.predict(X) @ exposure) for m in (model, plain))
    assert abs(ours - 1.0) < max(abs(stock - 1.0), 0.05)
    names = [name for name in model.multipliers_.index if "everyone" in name]
    assert names == ["A/E[everyone] above", "A/E[everyone] below"]
    assert len(model.fairness_report_.verdicts) == 1  # that of the groups


def test_the_report_says_why_first_and_does_not_ask_for_more_rounds(fitted):
    model, _, heard = fitted
    advice = model.fairness_report_.advice
    assert advice[0].startswith("The features do not tell the groups of sensitive")
    assert "Include the column" in advice[0]
    assert not any("n_estimators" in line or "allow more" in line for line in advice)
    assert any(line.startswith("Actual over expected overall: ") for line in advice)
    told = [str(w.message) for w in heard if issubclass(w.category, FairnessWarning)]
    assert advice[0] in told
