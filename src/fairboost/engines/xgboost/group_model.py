"""XGBoost's boosters that predict codes (:mod:`fairboost.engines.group_model`).

The table is read once as a whole, the way that it is read for training, so that categories have
one coding. Boosters are grown on samples that are binned like it. They predict from values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xgboost
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from xgboost import XGBModel

from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.engines.group_model import FEW_BINS, CodedRows, Grown, Growth, Started, most_rounds
from fairboost.engines.xgboost.calls import ScoreReader
from fairboost.engines.xgboost.data import MatrixMaker
from fairboost.kernel.threads import Threads


@dataclass(frozen=True)
class XGBoostGroupModel:
    """Grows boosters by XGBoost.

    Parameters
    ----------
    estimator : XGBModel
        Its options say how a table is read.
    threads : int
        Threads that may be used.
    base : XGBModel, optional
        A model to go on from; categories are coded as it knows them.
    whole : MatrixMaker, optional
        Makes matrices that are binned like the whole table, its reference.
    table : Matrix, optional
        The table that it makes them of: X, with codes for categories if X is a data frame.
    """

    estimator: XGBModel
    threads: int = 1
    base: XGBModel | None = None
    whole: MatrixMaker | None = None
    table: Matrix | None = None

    @contextmanager
    def side_by_side(self, data: CodedRows, threads: int) -> Iterator[XGBoostGroupModel]:
        """Bin the rows once, for boosters that are grown at the same time."""
        maker, n = self._maker(FEW_BINS + 1), len(data.codes)
        start = _margin(np.zeros((n, data.n_codes)))
        table = maker.coded(maker.table(data.X))
        maker.reference = maker.matrix(table, np.zeros(n, np.float32), None, None)
        maker.reference.set_base_margin(start)
        yield replace(self, threads=threads, whole=maker, table=table)

    def few_trees(self, data: CodedRows, learn: IntArray, held_out: IntArray) -> FloatArray:
        """Probabilities of held-out rows, by trees that single out small groups of rows."""
        n, maker = data.n_codes, self._maker()
        sample = _Sample(data, learn, held_out)
        table = maker.coded(maker.table(data.X))
        matrix = sample.matrix(maker, table, np.zeros((len(sample.rows), n)))
        options = {"learning_rate": 0.7, "reg_lambda": 0.3, "max_cat_threshold": 256, "nthread": 1}
        booster = xgboost.Booster(_options(n, min(31, max(7, 300 // n))) | options, [matrix])
        for k in range(3 + 12 // n):
            booster.update(matrix, k)
        likely = softmax(_scores(booster, matrix, n), axis=1)
        return np.asarray(likely[np.searchsorted(sample.rows, held_out)])

    def boost(self, data: CodedRows, grown: Started, stopping: Started, how: Growth) -> Grown:
        """Grow a booster on some rows until the loss on others falls no more."""
        n, maker = data.n_codes, self.whole
        assert maker is not None and maker.reference is not None
        sample = _Sample(data, grown.rows, stopping.rows)
        start, before = np.zeros((len(sample.rows), n)), np.zeros(n)
        if grown.scores is None:
            before = start[:] = _log_shares(data, grown.rows)
        for some in (grown, stopping):
            if some.scores is not None:
                start[np.searchsorted(sample.rows, some.rows)] = some.scores
        matrix = sample.matrix(maker, self.table, start)
        options = {
            "learning_rate": how.learning_rate,
            "reg_lambda": 10.0,  # keeps the scores of rare codes, whose Hessian is tiny, in bounds
            "nthread": self.threads,
            "max_bin": FEW_BINS + 1,
        }
        booster = xgboost.Booster(_options(n, how.num_leaves) | options, [matrix])
        rounds = sample.grow(booster, matrix, how)
        if not rounds:
            return Grown(lambda some: np.tile(before, (len(some), 1)), rounds)
        if not isinstance(self.table, np.ndarray):
            scores = _scores(booster, maker.reference, n, rounds)
            return Grown(lambda some: before + scores[some], rounds)

        def predict(some: IntArray) -> FloatArray:
            rows = maker.values(self.table, some)
            rows.set_base_margin(_margin(np.zeros((len(some), n))))
            return before + _scores(booster, rows, n, rounds)

        return Grown(predict, rounds)

    def _maker(self, max_bin: int = 256) -> MatrixMaker:
        binned = {
            "tree_method": "hist",
            "max_bin": max_bin,
            "feature_weights": None,
            "device": None,
        }
        return MatrixMaker(clone(self.estimator).set_params(**binned), self.base, Threads())


class _Sample:
    """Rows to grow a booster on, and others that it is judged by.

    Parameters
    ----------
    data : CodedRows
        All rows.
    learn, others : (m,) int
        Positions of these.
    """

    def __init__(self, data: CodedRows, learn: IntArray, others: IntArray) -> None:
        both = np.concatenate([learn, others])
        order = np.argsort(both)  # as tables on disk are read
        self.data, self.rows, self.learned = data, both[order], order < len(learn)
        self.judged = np.flatnonzero(~self.learned)
        self.codes = np.maximum(data.codes[self.rows], 0)
        self.weight = np.ones(len(both)) if data.weight is None else data.weight[self.rows]

    def matrix(self, maker: MatrixMaker, table: Matrix, start: FloatArray) -> xgboost.DMatrix:
        """The rows, of which those to learn from have a weight."""
        labels = np.maximum(self.data.codes, 0).astype(np.float32)
        matrix = maker.matrix(table, labels, None, None, self.rows)
        matrix.set_weight(self.weight * self.learned)
        matrix.set_base_margin(_margin(start))
        return matrix

    def grow(self, booster: xgboost.Booster, matrix: xgboost.DMatrix, how: Growth) -> int:
        """Rounds up to the one of lowest loss on the rows that judge."""
        reader = ScoreReader(booster, matrix)
        best, lowest = 0, self._loss(reader.read())
        for k in range(how.rounds or most_rounds(self.data.n_codes)):
            booster.update(matrix, k)
            loss = self._loss(reader.read())
            if loss < lowest:
                best, lowest = k + 1, loss
            elif k + 1 - best >= how.patience:
                break
        return best

    def _loss(self, scores: Float32Array) -> float:
        """Cross-entropy of the rows that judge."""
        judged, codes = scores[self.judged].astype(np.float64), self.codes[self.judged]
        if judged.ndim == 1:  # of two codes, how far the second is ahead
            surprise = np.logaddexp(0.0, np.where(codes == 1, -judged, judged))
        else:
            surprise = -log_softmax(judged, axis=1)[np.arange(len(codes)), codes]
        return float(self.weight[self.judged] @ surprise)


def _options(n_codes: int, leaves: int) -> dict[str, Any]:
    two = {"objective": "binary:logistic"}
    more = {"objective": "multi:softprob", "num_class": n_codes}
    return {
        **(two if n_codes == 2 else more),
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": leaves,
        "min_child_weight": 1e-3,
        "base_score": 0.5,  # rows have their own
        "verbosity": 0,
    }


def _log_shares(data: CodedRows, rows: IntArray) -> FloatArray:
    """Scores by which every row has the codes' shares among some rows."""
    weight = None if data.weight is None else data.weight[rows]
    found = np.bincount(data.codes[rows], weight, data.n_codes)
    shares = np.log(np.maximum(found, 1e-3) / found.sum())
    return np.asarray(shares - shares[0])


def _margin(scores: FloatArray) -> FloatArray:
    """Scores of codes as XGBoost has them: of two codes, how far the second is ahead."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _scores(
    booster: xgboost.Booster, matrix: xgboost.DMatrix, n_codes: int, rounds: int = 0
) -> FloatArray:
    """Scores by the first rounds, or all; a column per code, of two codes the first is 0."""
    found = booster.predict(matrix, output_margin=True, iteration_range=(0, rounds))
    out = np.zeros((matrix.num_row(), n_codes))
    out[:, 1 if n_codes == 2 else slice(None)] = found
    return out
