"""Scores of the rows held out, after every round.

XGBoost can be asked for them, and adds the newest trees to the scores it had: :class:`ByMatrix`.
It takes 40 ns a row and tree on one core, most of it to unpack all features of a row, of which a
tree reads six. Where features are plain numbers, rows are sent down the newest trees here, which
takes 10 ns, and 1 ms to get hold of the trees: :class:`ByTree`. The rows need not be binned then.
Both add leaves in the same order and precision, so scores are the same, bit by bit.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import xgboost

from fairboost._typing import Float32Array
from fairboost.engines.xgboost.calls import ScoreReader
from fairboost.engines.xgboost.model_json import read_trees
from fairboost.kernel.loops import fall
from fairboost.kernel.threads import Threads

BLOCK = 4_096
"""Rows that a thread takes at a time."""


class ByMatrix:
    """Rows that XGBoost scores.

    Parameters
    ----------
    matrix : xgboost.DMatrix
        The rows, not binned.
    """

    def __init__(self, matrix: xgboost.DMatrix) -> None:
        self.matrix = matrix
        self.reader: ScoreReader | None = None

    def scores(self, booster: xgboost.Booster) -> Float32Array:
        """Log-odds by all trees that the booster has; the next call overwrites them."""
        if self.reader is None or self.reader.booster is not booster:
            self.reader = ScoreReader(booster, self.matrix)
        return self.reader.read()

    def going_on(self, scores: Float32Array) -> ByMatrix:
        """The same rows for a booster that starts from given scores."""
        self.matrix.set_base_margin(scores)
        return self


class ByTree:
    """Rows that are sent down the newest trees here.

    Parameters
    ----------
    table : (n, n_features) float32
        The rows; NaN is a missing value.
    threads : Threads
        Those that share them.
    start : (n,) or (n, n_classes) float32, optional
        The scores before the first tree; those of the booster's own start by default.
    """

    def __init__(
        self, table: Float32Array, threads: Threads, start: Float32Array | None = None
    ) -> None:
        self.table, self.threads = table, threads
        self.latest, self.rounds = start, 0

    def scores(self, booster: xgboost.Booster) -> Float32Array:
        """Log-odds by all trees that the booster has; the next call overwrites them."""
        rounds = booster.num_boosted_rounds()
        if self.latest is None:
            self.latest, self.rounds = self._by_booster(booster), rounds
        for k in range(self.rounds, rounds):
            for of_class, tree in read_trees(booster[k : k + 1].save_raw("json")):
                column = self.latest if self.latest.ndim == 1 else self.latest[:, of_class]
                fall(self.table, tree, column, BLOCK, self.threads)
        self.rounds = rounds
        return self.latest

    def going_on(self, scores: Float32Array) -> ByTree:
        """The same rows for a booster that starts from given scores."""
        return ByTree(self.table, self.threads, scores.copy(order="F"))

    def _by_booster(self, booster: xgboost.Booster) -> Float32Array:
        if not len(self.table):  # on a cluster, a worker may hold none of the rows held out
            return np.empty(0, np.float32)
        found = booster.inplace_predict(self.table, predict_type="margin", validate_features=False)
        return np.array(found, np.float32, order="F")  # columns are those of classes


HeldOut: TypeAlias = ByMatrix | ByTree
"""Rows whose scores are wanted after every round."""
