"""Training on a GPU whose arrays do not mix with those of the host (``tests/apart.py``)."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from fairboost import FairGBMClassifier, tradeoff_curve, tune
from fairboost.data.device_arrays import count_by, on_host
from fairboost.report import gather
from fairboost.training import rows
from tests.apart import Apart, apart  # noqa: F401
from tests.engines.xgboost.test_device import (
    LOANS,
    NUMBERS,
    SEX,
    WAYS,
    WEIGHT,
    engine_on,
    fitted,
    use,
)
from tests.fake_device import needs_compiler

pytestmark = needs_compiler
SINGLE = NUMBERS.to_numpy(np.float32)


@pytest.fixture(autouse=True)
def many_rows(apart, monkeypatch):  # noqa: F811
    """Rows are sorted on the GPU."""
    use(monkeypatch, apart)
    monkeypatch.setattr(rows, "MANY_ROWS", 1_000)


def without_sorting(monkeypatch, *told, **options):
    with monkeypatch.context() as patched:
        patched.setattr(rows, "_sorted_on", lambda *_: None)
        return fitted(engine_on(), *told, **options)


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way(monkeypatch, way):
    there = fitted(engine_on(), Apart(SINGLE), Apart(LOANS.y), **WAYS[way])
    here = without_sorting(monkeypatch, SINGLE, LOANS.y, **WAYS[way])
    pd.testing.assert_frame_equal(there.trace_, here.trace_, rtol=1e-6, atol=1e-9)
    found = there.predict_proba(Apart(SINGLE))
    assert isinstance(found, np.ndarray if way == "randomized" else Apart)
    np.testing.assert_allclose(on_host(found), here.predict_proba(SINGLE), atol=1e-6)
    assert pickle.loads(pickle.dumps(there)).threshold_ == here.threshold_


@pytest.mark.parametrize("way", ["share", "point", "training rows", "paper"])
@pytest.mark.parametrize("weight", [WEIGHT, np.where(np.arange(len(WEIGHT)) == 5, 50.0, WEIGHT)])
def test_weights(monkeypatch, way, weight):
    there = fitted(engine_on(), fit={"sample_weight": Apart(weight)}, **WAYS[way])
    here = without_sorting(monkeypatch, fit={"sample_weight": weight}, **WAYS[way])
    pd.testing.assert_frame_equal(there.trace_, here.trace_, rtol=1e-6, atol=1e-9)
    assert str(there.fairness_report_) == str(here.fairness_report_)


def test_groups_on_the_gpu_several_columns_and_gaps(monkeypatch):
    male, other = (SEX == "male").to_numpy(), np.arange(len(SEX)) % 3
    there = {"sex": Apart(male), "other": Apart(other)}
    known = {"sex": male, "other": other}
    told = {"constraint": "demographic_parity", "holdout": 0.3}
    ours = without_sorting(monkeypatch, NUMBERS, LOANS.y, known, **told)
    found = fitted(engine_on(), NUMBERS, LOANS.y, there, **told)
    pd.testing.assert_frame_equal(found.trace_, ours.trace_)
    gaps = SEX.astype(object).mask(np.arange(len(SEX)) % 9 == 0)
    found = fitted(engine_on(), NUMBERS, LOANS.y, gaps, **told)
    ours = without_sorting(monkeypatch, NUMBERS, LOANS.y, gaps, **told)
    assert str(found.fairness_report_) == str(ours.fairness_report_)


def test_what_is_trained_on_is_what_is_evaluated():
    """Early stopping must not look at the rows that are held out."""
    tables = Apart(SINGLE), SINGLE
    histories = []
    for X in tables:
        y = LOANS.y
        model = fitted(engine_on(), X, y, fit={"eval_set": [(X, y)]}, holdout=0.3)
        histories.append(model.estimator_.evals_result_["validation_0"]["logloss"])
    np.testing.assert_allclose(*histories, rtol=1e-4)


def test_sets_beside_named_columns():
    held_out = Apart(SINGLE[4_000:]), Apart(LOANS.y[4_000:]), SEX[4_000:]
    told = NUMBERS[:4_000], LOANS.y[:4_000], SEX[:4_000]
    model = fitted(engine_on(), *told, fit={"holdout_set": held_out})
    assert "given set" in str(model.fairness_report_)


def test_curves_and_searches():
    told = {"sensitive_features": SEX, "constraint": "demographic_parity"}
    curve = tradeoff_curve(engine_on(), Apart(SINGLE), LOANS.y, tolerances=3, **told)
    assert len(curve.models) == len(curve.table) == 3
    found = tune(engine_on(), Apart(SINGLE), LOANS.y, n_trials=2, models=3, random_state=0, **told)
    assert set(found.table["trial"]) == {0, 1} and found.table["gap"].notna().all()


@pytest.mark.parametrize("way", ["share", "point"])
def test_reports_on_rows_of_the_gpu(way):
    model, X = fitted(engine_on(), SINGLE, **WAYS[way]), Apart(SINGLE)
    told = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    here = model.report_on(SINGLE, LOANS.y, **told)
    assert str(model.report_on(X, Apart(LOANS.y), **told)) == str(here)
    there, ours = (gather(model, table, LOANS.y, **told) for table in (X, SINGLE))
    assert there.rates == ours.rates
    found, expected = ([p.value for p in e.performance] for e in (there, ours))
    assert found == pytest.approx(expected, rel=1e-6)


def test_counts_of_no_rows():
    nobody = Apart(np.empty(0, np.uint8))
    assert count_by(nobody, 2).tolist() == count_by(nobody, 2, Apart(np.empty(0))).tolist()


def test_an_engine_that_fails_is_what_is_raised(monkeypatch):
    from fairboost.engines.xgboost import lockstep

    def fail(*_):
        raise MemoryError("no room on the device")

    monkeypatch.setattr(lockstep, "boost", fail)
    with pytest.raises(MemoryError, match="no room"):
        FairGBMClassifier(engine_on()).fit(NUMBERS, LOANS.y, sensitive_features=SEX)
