"""Calibration within parts of the predictions, from fit to verdict."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from lightgbm import LGBMRegressor

from fairboost import FairGBMRegressor, calibrated, load
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.numbers import SameDistribution


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_calibration_within_parts_is_judged_by_its_worst_ratio():
    """The figure is the largest of the ratios that one would compute by hand."""
    rng = np.random.default_rng(0)
    n = 4_000
    group, x = rng.choice(["a", "b"], n), rng.normal(size=n)
    y = rng.poisson(np.exp(0.5 * x + 0.4 * (group == "b"))).astype(float)
    engine = LGBMRegressor(objective="poisson", n_estimators=20, num_leaves=7, verbose=-1)
    constraint = calibrated(0.05, within=4)
    model = FairGBMRegressor(engine, constraint=constraint, holdout=None, random_state=0)
    model.fit(x[:, np.newaxis], y, sensitive_features={"g": group})
    report = model.report_on(x[:, np.newaxis], y, sensitive_features={"g": group})
    predicted = model.predict(x[:, np.newaxis])
    ranked = np.sort(predicted)
    ends = [-np.inf, *(ranked[n * k // 4 - 1] for k in (1, 2, 3)), np.inf]
    ratios = [y[at].sum() / predicted[at].sum() for g in "ab" for at in [group == g]]
    for low, high in pairwise(ends):
        for g in "ab":
            at = (group == g) & (predicted >= low) & (predicted < high)
            ratios.append(y[at].sum() / predicted[at].sum())
    (verdict,) = report.test_verdicts
    assert verdict.value == pytest.approx(np.abs(np.array(ratios) - 1).max(), rel=1e-4)
    assert verdict.low < verdict.value < verdict.high
    assert "in each of 4 equal parts of the predictions" in verdict.constraint


def test_calibration_within_parts_needs_two_rows_in_each():
    rng = np.random.default_rng(0)
    group = np.array(["a"] * 380 + ["b"] * 20)
    X, y = rng.normal(size=(400, 2)), rng.poisson(1.0, 400).astype(float)
    model = FairGBMRegressor(
        LGBMRegressor(objective="poisson", n_estimators=5, verbose=-1),
        constraint=calibrated(within=12),
        holdout=None,
        min_group_rows=0,
    )
    match = r"group 'g=b' has 20 rows, and two in each part .* take 24; ask for fewer parts"
    with pytest.raises(ConstraintError, match=match):
        model.fit(X, y, sensitive_features={"g": group})


def test_calibration_within_parts_is_not_for_targets_of_both_signs():
    rng = np.random.default_rng(0)
    model = FairGBMRegressor(constraint=calibrated(within=4))
    with pytest.raises(InvalidInputError, match=r"calibrated\(within=4\) divides by the predic"):
        model.fit(rng.normal(size=(400, 2)), rng.normal(5.0, 3.0, 400),
                  sensitive_features=rng.integers(0, 2, 400))  # fmt: skip


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_a_part_without_rows_of_a_group_is_named_in_the_report():
    """Predictions of the two groups do not overlap."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2_000)
    y = rng.gamma(100.0, np.where(group, 50.0, 1.0) / 100.0)
    engine = LGBMRegressor(objective="gamma", n_estimators=30, learning_rate=0.3, verbose=-1)
    constraints = [calibrated(0.1, within=4), SameDistribution(0.9, count=3)]
    model = FairGBMRegressor(engine, constraint=constraints, holdout=None, random_state=0)
    model.fit(group[:, np.newaxis] + rng.normal(0, 0.1, (2_000, 1)), y, sensitive_features=group)
    text = " ".join(str(model.fairness_report_).split())
    assert "Without rows, and so not judged: " in text
    assert "=0 in part" in text
    assert np.isfinite(model.trace_.to_numpy(float)).all()


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_calibration_within_parts_survives_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(800, 2)), rng.integers(0, 2, 800)
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    engine = LGBMRegressor(objective="poisson", n_estimators=5, verbose=-1)
    model = FairGBMRegressor(engine, constraint=calibrated(0.1, within=4), random_state=0)
    model.fit(X, y, sensitive_features=group)
    model.save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert loaded.constraint == calibrated(0.1, within=4)
    told = [str(m.report_on(X, y, sensitive_features=group)) for m in (model, loaded)]
    assert "in each of 4 equal parts" in told[1]
    assert told[0].splitlines()[-1] == told[1].splitlines()[-1]
