"""Training on a cluster whose workers have GPUs: fake ones, since XGBoost wants one for each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairboost import at_fpr
from tests.cluster.dealing import deal
from tests.cluster.test_training import FEATURES, fit, model, table
from tests.fake_device import needs_compiler, needs_gpu


def use_fake_devices(dask_worker):
    """Let the process of a worker find a GPU; returns whether it had found one before."""
    from fairboost.engines.xgboost import device, engine
    from tests.fake_device import fake_device

    found = fake_device()
    for where in (device, engine):
        where.open_device = lambda ordinal: found
    return True


def use_real_devices(dask_worker):
    from importlib import reload

    from fairboost.engines.xgboost import device, engine

    reload(device)
    engine.open_device = device.open_device
    return True


@pytest.fixture
def fake_devices(client):
    client.run(use_fake_devices)
    yield
    client.run(use_real_devices)


@needs_compiler
@pytest.mark.filterwarnings("ignore:.* GPU")  # XGBoost's own, where the client has none
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"operating_point": at_fpr(0.2), "constraint": "predictive_equality"},
        {"multipliers": "paper"},
        {"holdout": None},
    ],
    ids=["share", "point", "paper", "training rows"],
)
@pytest.mark.parametrize("n_parts", [2, 5])
def test_the_model_is_that_of_one_machine(client, fake_devices, options, n_parts):
    rows = table()
    dealt = deal(client, rows, n_parts, workers=2)
    engine = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3}
    there = fit(model({**engine, "device": "cuda"}, **options), dealt, weighted=True)
    here = fit(model(engine, **options), dealt, weighted=True)
    proba = [m.predict_proba(rows[FEATURES]) for m in (there, here)]
    assert np.abs(proba[0] - proba[1]).mean() < 2e-3
    columns = [c for c in here.trace_ if c.startswith("rate")]
    pd.testing.assert_frame_equal(there.trace_[columns], here.trace_[columns], atol=0.02)
    assert there.threshold_ == pytest.approx(here.threshold_, abs=0.02)


@pytest.mark.gpu
@needs_gpu
def test_one_worker_with_a_real_gpu(client):
    """XGBoost refuses two workers on one GPU."""
    rows = table()
    dealt = deal(client, rows, 3, workers=1)
    engine = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.3}
    there, here = (fit(model({**engine, **told}), dealt) for told in ({"device": "cuda"}, {}))
    proba = [m.predict_proba(rows[FEATURES]) for m in (there, here)]
    assert np.abs(proba[0] - proba[1]).mean() < 2e-3
