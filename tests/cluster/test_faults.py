"""What becomes of a training when a part of the cluster fails."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait
from xgboost.dask import DaskXGBClassifier, DaskXGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor
from fairboost.exceptions import ClusterError
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import TwoSided

ROUNDS = 10


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)  # one that was killed is started again
        yield client


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 40, (2_000, 3)), columns=["a", "b", "c"])
    frame["sex"] = rng.choice(["f", "m"], len(frame))
    frame["y"] = (frame["a"] + rng.normal(0, 10, len(frame)) > 20).astype(int)
    return frame


@pytest.fixture
def rows(client, frame):
    """Two partitions on either worker, which another can make again."""
    halves = frame.iloc[:1_000], frame.iloc[1_000:]
    held = [
        client.persist(
            dd.from_pandas(half, npartitions=2), workers=[address], allow_other_workers=True
        )
        for half, address in zip(halves, sorted(client.nthreads()), strict=True)
    ]
    wait(held)
    return dd.concat(held)


def fit(rows, constraint="equal_opportunity", n_rounds=ROUNDS):
    engine = DaskXGBClassifier(n_estimators=n_rounds, max_depth=2)
    model = FairGBMClassifier(engine, constraint=constraint)
    return model.fit(rows[["a", "b", "c"]], rows["y"], sensitive_features=rows["sex"])


def fit_numbers(rows, constraint):
    engine = DaskXGBRegressor(n_estimators=ROUNDS, max_depth=2, objective="reg:absoluteerror")
    model = FairGBMRegressor(engine, constraint=constraint)
    return model.fit(rows[["b", "c"]], rows["a"], sensitive_features=rows["sex"])


class Failing(TwoSided):
    """Fails on one of the workers, once they are joined."""

    affine = False  # so that violations are asked for in every round

    def violations(self, rates):
        from xgboost import collective

        if collective.get_world_size() > 1 and collective.get_rank() == 1:
            raise ZeroDivisionError("out of luck")
        return super().violations(rates)


class Slow(TwoSided):
    """Takes its time, and leaves a sign of every round."""

    sign = os.devnull
    affine = False

    def violations(self, rates):
        with Path(self.sign).open("a") as file:
            file.write(".")
        time.sleep(0.05)
        return super().violations(rates)


def test_an_error_on_one_worker_ends_training_on_all(client, rows):
    with pytest.raises(ClusterError, match="ZeroDivisionError: out of luck"):
        fit(rows, Failing(RATES["fnr"], 0.01, "sex"))
    assert len(fit(rows).trace_) == ROUNDS  # the cluster is as good as new


def test_an_error_on_one_worker_ends_the_training_of_numbers_on_all(client, rows):
    """Also where the others wait for a median of all residuals."""
    with pytest.raises(ClusterError, match="ZeroDivisionError: out of luck"):
        fit_numbers(rows, Failing(NUMBERS["prediction"], 0.1, "sex"))
    assert len(fit_numbers(rows, "equal_distributions").trace_) == ROUNDS


@pytest.mark.parametrize("which", [1, 0])
def test_a_worker_killed_in_mid_training(client, rows, tmp_path, which):
    """An error and no model; then the rest of the cluster trains one."""
    sign = tmp_path / "sign"
    constraint = Slow(RATES["fnr"], 0.01, "sex")
    object.__setattr__(constraint, "sign", str(sign))
    pids = client.run(os.getpid)
    victim = pids[sorted(pids)[which]]
    killed = threading.Event()

    def kill():
        while not sign.exists() or sign.stat().st_size < 20:
            time.sleep(0.05)
        killed.set()
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(ClusterError, match=r"1 of the 2 workers .* There is no model"):
        fit(rows, constraint, n_rounds=2_000)
    assert killed.is_set()
    assert len(fit(rows).trace_) == ROUNDS


def test_no_client(frame):
    rows = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ClusterError, match="no Dask client"):
        fit(rows)


def test_an_asynchronous_client(frame):
    rows = dd.from_pandas(frame, npartitions=2)

    async def try_to_fit():
        async with Client(processes=False, asynchronous=True, dashboard_address=":0"):
            fit(rows)

    with pytest.raises(ClusterError, match="the Dask client is asynchronous"):
        asyncio.run(try_to_fit())
