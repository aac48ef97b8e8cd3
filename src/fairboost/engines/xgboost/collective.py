"""Several machines joined by XGBoost's own collective: the sums of a round go where trees' go."""

from __future__ import annotations

import numpy as np

from fairboost._typing import FloatArray


class Collective:
    """The machines of a running communicator, as :class:`fairboost.fairness.all_reduce.AllReduce`.

    Every machine calls the same methods in the same order. Sums come out the same on each of them,
    bit by bit.

    Attributes
    ----------
    n_bytes : int
        What this machine has given to sums so far.
    """

    def __init__(self) -> None:
        self.n_bytes = 0

    def total(self, values: FloatArray) -> FloatArray:
        """Add up a vector over the machines."""
        return self._reduce(values, "SUM")

    def least(self, value: float) -> float:
        """Return the least of one number of each machine."""
        return float(self._reduce(np.array([value]), "MIN")[0])

    def _reduce(self, values: FloatArray, operation: str) -> FloatArray:
        from xgboost import collective

        self.n_bytes += values.nbytes
        return np.asarray(collective.allreduce(values, collective.Op[operation]))
