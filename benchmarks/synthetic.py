"""Data for the overhead benchmark; imports NumPy only, so that a plain process stays plain."""

from __future__ import annotations

import numpy as np

FEATURES = 20


def make(n: int, groups: int, seed: int = 0):
    """Normal features, a label that depends on a few of them, groups with unequal base rates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    g = rng.integers(0, groups, n)
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.8 * (g / max(groups - 1, 1) - 0.5)
    y = (signal + rng.logistic(size=n) > 0).astype(int)
    X[:, 4] += g / groups  # a proxy of the group
    return X, y, g
