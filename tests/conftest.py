"""Small data and small engines that all tests share."""

from __future__ import annotations

import os

# Engines that are not told otherwise take all cores. Two of them at once, as when tests run side
# by side, hold each other up a hundredfold; so they take one, also in processes that tests start.
# Before engines are imported: OpenMP reads these once, when it is loaded.
os.environ.update(LOKY_MAX_CPU_COUNT="1", OMP_NUM_THREADS="1", OMP_THREAD_LIMIT="1")

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from lightgbm import LGBMClassifier

from tests.kinds import KINDS, LightGBM, XGBoost

# How long an example takes depends on what else the machine does; no test is about it.
settings.register_profile("fairboost", deadline=None)
settings.load_profile("fairboost")


@dataclass(frozen=True)
class Toy:
    """Two groups of unequal rates: group "b" is two fifths of the rows and positive more seldom.

    ``X`` is (n, 4): two features that tell y, one of noise, and one that gives the group away.
    """

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    weight: np.ndarray

    @property
    def frame(self) -> pd.DataFrame:
        """X with names, one feature cut into categories, and values missing."""
        frame = pd.DataFrame(self.X, columns=["income", "debt", "noise", "district"])
        frame.loc[::7, "income"] = np.nan
        bands = np.digitize(self.X[:, 1], [-1.0, -0.3, 0.3, 1.0])
        frame["debt"] = pd.Categorical(np.array(["x", "v", "z", "w", "y"])[bands])  # in no order
        frame.loc[::11, "debt"] = None
        return frame

    def __len__(self) -> int:
        return len(self.y)


@pytest.fixture(scope="session")
def make_toy() -> Callable[..., Toy]:
    """Make a data set: ``make_toy(n=600, seed=0)``."""

    def make(n: int = 600, seed: int = 0) -> Toy:
        rng = np.random.default_rng(seed)
        in_b = rng.random(n) < 0.4
        X = rng.normal(size=(n, 4))
        X[:, 3] = in_b + 0.5 * rng.normal(size=n)
        log_odds = 0.5 + 1.5 * X[:, 0] - 0.8 * X[:, 1] - 1.0 * in_b
        y = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)
        return Toy(X, y, np.where(in_b, "b", "a"), rng.gamma(2.0, size=n))

    return make


@pytest.fixture(scope="session")
def toy(make_toy) -> Toy:
    """600 rows; nobody changes them."""
    data: Toy = make_toy()
    for array in (data.X, data.y, data.group, data.weight):
        array.flags.writeable = False
    return data


@pytest.fixture(scope="session")
def engine() -> Callable[..., LGBMClassifier]:
    """Make a small, quiet engine on one thread: ``engine(subsample=0.5)``."""

    def make(**options: object) -> LGBMClassifier:
        defaults = {
            "n_estimators": 8,
            "num_leaves": 7,
            "learning_rate": 0.3,
            "n_jobs": 1,
            "verbose": -1,
            "random_state": 0,
        }
        return LGBMClassifier(**{**defaults, **options})

    return make


@pytest.fixture(scope="session", params=KINDS)
def kind(request) -> LightGBM | XGBoost:
    """Every engine, one after the other."""
    return KINDS[request.param]
