"""Small boosters that predict codes, such as those of groups, of rows that they are not grown on.

A booster is grown in two steps, first on the rows of both labels, then with a few more trees for
each label on its own rows. So the label is conditioned on without becoming a column of X, and a
rare label still profits from what the other one teaches about x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import lightgbm
import numpy as np
from lightgbm import Booster, Dataset
from scipy.special import softmax

from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.validation import take_rows

# Limits, in rows.
LEARNED_ROWS = 50_000  # that a booster is grown on at most; so small a one gains little from more
STOPPING_ROWS = 5_000  # held out, at most, that tell it when to stop
PSEUDO_ROWS = 10.0  # weight of the belief that codes have the same shares at either label
BLOCK = 100_000  # predicted at a time, so that a large X is not copied as a whole

QUIET: dict[str, Any] = {"verbosity": -1, "deterministic": True, "force_col_wise": True}
Categorical: TypeAlias = list[str] | list[int] | Literal["auto"]


@dataclass(frozen=True)
class CodedRows:
    """Rows of a table, and the codes that features and labels are to predict.

    Parameters
    ----------
    X : Matrix
        The features, in any form that LightGBM takes.
    labels, codes : (n,) int
        0 or 1, and one of ``n_codes``, -1 where it is not known.
    n_codes : int
        Number of codes.
    weight : (n,) float, optional
        Weights of the rows.
    categorical_feature : list of str, list of int, or "auto"
        LightGBM's option of the same name.
    """

    X: Matrix
    labels: IntArray
    codes: IntArray
    n_codes: int
    weight: FloatArray | Float32Array | None = None
    categorical_feature: Categorical = "auto"

    def dataset(self, rows: IntArray, start: FloatArray | None = None) -> Dataset:
        """Some of the rows for LightGBM, with the scores that it starts from."""
        if start is not None and self.n_codes == 2:
            start = start[:, 1] - start[:, 0]
        return Dataset(
            take_rows(self.X, rows), self.codes[rows], init_score=start,
            weight=None if self.weight is None else self.weight[rows],
            categorical_feature=self.categorical_feature,
        )  # fmt: skip


def predict_by_few_trees(data: CodedRows, learn: IntArray, held_out: IntArray) -> FloatArray:
    """Probabilities of the codes of held-out rows, by trees that single out small groups of rows.

    The held-out rows judge what comes of that. Meant for a sample too small for two threads.
    """
    n = data.n_codes
    options = QUIET | {
        "objective": "multiclass", "num_class": n, "learning_rate": 0.7, "max_bin": 127,
        "num_leaves": min(31, max(7, 300 // n)), "num_threads": 1,
        "min_data_in_leaf": 3, "min_data_in_bin": 1, "min_data_per_group": 1,
        "cat_smooth": 0.0, "cat_l2": 0.0, "max_cat_threshold": 256, "lambda_l2": 0.3,
    }  # fmt: skip
    booster = lightgbm.train(options, data.dataset(learn), num_boost_round=3 + 12 // n)
    return np.asarray(booster.predict(take_rows(data.X, held_out), num_threads=1))


@dataclass(frozen=True)
class CrossFit:
    """Boosters for P(code | x, label), each for rows that it is not grown on.

    Parameters
    ----------
    data : CodedRows
        With weights.
    rng : numpy.random.Generator
        Draws samples of many rows.
    n_threads : int
        Threads of LightGBM; 0 leaves the number to it.
    """

    data: CodedRows
    rng: np.random.Generator
    n_threads: int

    def probabilities(self, fold: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows and the probabilities of their codes, fold by fold and label by label."""
        labels, known = self.data.labels, self.data.codes >= 0
        for k in range(fold.max() + 1):
            learn, stop = np.flatnonzero(known & (fold != k)), np.flatnonzero(known & (fold == k))
            grown = self.data.dataset(self._sample(learn, LEARNED_ROWS))
            stopping = self.data.dataset(self._sample(stop, STOPPING_ROWS))
            base = self._boost(grown, stopping, num_leaves=15 if self.data.n_codes == 2 else 7)
            for label in (0, 1):
                held = np.flatnonzero((fold == k) & (labels == label))
                yield held, self._refine(base, learn[labels[learn] == label], held)

    def _refine(self, base: Booster, learn: IntArray, held: IntArray) -> FloatArray:
        """Probabilities of held-out rows of one label, by ``base`` and more trees on its rows."""
        data, rows = self.data, self._sample(learn, LEARNED_ROWS)
        start, scores = self._scores(base, rows), self._scores(base, held)
        # Trees need many rows to move the shares of the codes to those of the label.
        assert data.weight is not None
        weight = data.weight[rows]
        found = np.bincount(data.codes[rows], weight, data.n_codes)
        shift = np.log((found + PSEUDO_ROWS) / (weight @ softmax(start, axis=1) + PSEUDO_ROWS))
        start, scores = start + shift, scores + shift
        stop = self._sample(np.flatnonzero(data.codes[held] >= 0), STOPPING_ROWS)
        if len(rows) and len(stop):
            stopping = data.dataset(held[stop], scores[stop])
            more = self._boost(data.dataset(rows, start), stopping, num_leaves=7)
            scores += self._scores(more, held)
        return np.asarray(softmax(scores, axis=1))

    def _boost(self, grown: Dataset, stopping: Dataset, num_leaves: int) -> Booster:
        """Grow a booster on some rows until the loss on others falls no more."""
        n = self.data.n_codes
        options = QUIET | {
            "objective": "binary" if n == 2 else "multiclass", "num_class": 1 if n == 2 else n,
            "learning_rate": 0.3, "num_leaves": num_leaves, "num_threads": self.n_threads,
            "lambda_l2": 10.0,  # keeps the scores of rare codes, whose Hessian is tiny, in bounds
        }  # fmt: skip
        rounds = min(60, max(10, 400 // n))  # each adds a tree per code
        stop = lightgbm.early_stopping(5, verbose=False)
        return lightgbm.train(options, grown, rounds, valid_sets=[stopping], callbacks=[stop])

    def _scores(self, booster: Booster, rows: IntArray) -> FloatArray:
        """Raw scores, a column per code; of two codes the first stays at 0."""
        out = np.zeros((len(rows), self.data.n_codes))
        columns = 1 if self.data.n_codes == 2 else slice(None)
        for block in (slice(k, k + BLOCK) for k in range(0, len(rows), BLOCK)):
            X = take_rows(self.data.X, rows[block])
            out[block, columns] = booster.predict(X, raw_score=True, num_threads=self.n_threads)
        return out

    def _sample(self, rows: IntArray, at_most: int) -> IntArray:
        return rows if len(rows) <= at_most else self.rng.choice(rows, at_most, replace=False)
