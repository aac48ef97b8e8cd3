"""Honest memberships: who is of which group, as far as features and label tell.

Where the sensitive attribute is not a feature, the trees still see it in the gradient, since a
row's push depends on its group. They learn *which training rows* are of a group; rates meet on
those rows, and the constraint is gone on new people. So in the gradient, and only there, a row's
group indicator gives way to what the model can act on, the share of a group among people alike::

    [row i is of group g]   ->   P(g | x_i, y_i)

Multipliers go on seeing observed groups. Where a feature gives the group away the two are the same
(:func:`recoverability`), and nothing needs to be learned.

The probabilities are those of small boosters, cross-fitted: none predicts a row that it was grown
on; the rows that it predicts only tell it when to stop (:func:`honest`). A booster is grown in two
steps, first on the rows of both labels, then with a few more trees for each label on its own rows.
So the label is conditioned on without becoming a column of X, and a rare label still profits from
what the other one teaches about x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import lightgbm
import numpy as np
from lightgbm import Booster, Dataset
from scipy.special import softmax

from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.validation import by_row, take_rows
from fairboost.exceptions import InvalidInputError

FEW_ROWS, MANY_ROWS = 20_000, 200_000
"""Between these ``"auto"`` considers learned memberships. Above, trees are too coarse to single
out so many rows: ACSIncome without its column of sexes (613k rows) was none the worse for observed
groups. Below, too little is learned: COMPAS without its column (4k rows) was the better for them.
"""

RECOVERED = 0.95
"""From here on features give the group away: a column that is the group comes out above .98, one
that tells it at an AUC of .99 at .85."""

# Limits, in rows.
LEARNED_ROWS = 50_000  # that a booster is grown on at most; so small a one gains little from more
WATCHED_ROWS = 5_000  # held out, at most, that tell it when to stop
SMALLEST_GROUP = 20  # below, a group is not learned: everyone is of it with its share
PSEUDO_ROWS = 10.0  # weight of the belief that groups have the same shares at either label
JUDGED_ROWS = 10  # below, a group does not decide whether groups are recovered
BLOCK = 100_000  # predicted at a time, so that a large X is not copied as a whole

QUIET: dict[str, Any] = {"verbosity": -1, "deterministic": True, "force_col_wise": True}
Categorical: TypeAlias = list[str] | list[int] | Literal["auto"]


@dataclass(frozen=True)
class Memberships:
    """P(g | x, y) for every row and every group of one grouping.

    Parameters
    ----------
    columns : tuple of str
        The sensitive columns that are crossed to make the groups.
    probabilities : (n, n_groups) float32
        How likely a row is of each group; rows sum to 1.
    recovered : float
        As :func:`recoverability`, but with groups of the size that they have.
    """

    columns: tuple[str, ...]
    probabilities: Float32Array
    recovered: float


def worth_learning(
    X: Matrix, labels: IntArray, groups: IntArray, n_groups: int, **options: Any
) -> bool:
    """Whether learned memberships promise more than observed groups; options as below."""
    if not FEW_ROWS <= len(labels) < MANY_ROWS:
        return False
    return recoverability(X, labels, groups, n_groups, **options) < RECOVERED


def recoverability(
    X: Matrix,
    labels: IntArray,
    groups: IntArray,
    n_groups: int,
    *,
    categorical_feature: Categorical = "auto",
    seed: int = 0,
    max_rows: int = 6_000,
) -> float:
    """How well features recover the group of held-out rows, by a few trees on a sample.

    The figure is that of the worst group at the worse label: the mean probability of the group
    among its members less that among all others (Tjur's coefficient of discrimination), which is
    the share of the indicator's variance explained if the probabilities are right. 0 is not at
    all, 1 is exactly; see ``RECOVERED``. The sample takes as many rows of small groups as
    of large ones, so that none is overlooked. It is too small for more than one thread.

    Parameters
    ----------
    X, labels, groups, n_groups, categorical_feature, seed
        As in :func:`honest`.
    max_rows : int, default=6000
        Size of the sample; half of it is held out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sex, y = rng.integers(0, 2, (2, 1000))
    >>> X = np.stack([3 - sex, rng.normal(size=1000)], axis=1)
    >>> recoverability(X, y, sex, 2) > RECOVERED, recoverability(X[:, 1:], y, sex, 2) > RECOVERED
    (True, False)
    """
    X = by_row(X) if hasattr(X, "shape") else np.asarray(X)
    rows, held = _balanced_halves(labels, groups, max_rows, np.random.default_rng(seed))
    if n_groups < 2 or not len(held):  # too little to tell anything
        return 0.0
    options = QUIET | {
        "objective": "multiclass", "num_class": n_groups, "learning_rate": 0.7, "max_bin": 127,
        "num_leaves": min(31, max(7, 300 // n_groups)), "num_threads": 1,
        # Let the trees single out small groups; held-out rows judge what comes of it.
        "min_data_in_leaf": 3, "min_data_in_bin": 1, "min_data_per_group": 1,
        "cat_smooth": 0.0, "cat_l2": 0.0, "max_cat_threshold": 256, "lambda_l2": 0.3,
    }  # fmt: skip
    data = Dataset(take_rows(X, rows), groups[rows], categorical_feature=categorical_feature)
    booster = lightgbm.train(options, data, num_boost_round=3 + 12 // n_groups)
    likely = np.asarray(booster.predict(take_rows(X, held), num_threads=1))
    return _discrimination(likely, labels[held], groups[held], np.ones(len(held)))


def honest(
    X: Matrix,
    labels: IntArray,
    groups: IntArray,
    n_groups: int,
    *,
    columns: Sequence[str],
    sample_weight: FloatArray | Float32Array | None = None,
    categorical_feature: Categorical = "auto",
    seed: int = 0,
    n_jobs: int | None = None,
    n_folds: int | None = None,
) -> Memberships:
    """Cross-fitted P(g | x, y): each row is predicted by a booster grown on others.

    Rows without a group, or of no weight, teach nothing and are predicted like all others. A
    group of fewer than 20 rows is not learned: everyone is of it with its share.

    Parameters
    ----------
    X : Matrix
        The features, in any form that LightGBM takes.
    labels, groups : (n,) int
        0 or 1, and one of ``n_groups``, -1 where it is missing.
    columns : sequence of str
        The sensitive columns that make the groups; handed on.
    sample_weight : (n,) float, optional
        Weights of the rows.
    categorical_feature : list of str, list of int, or "auto"
        LightGBM's option of the same name.
    seed, n_jobs : int
        Same seed, same result. Threads are LightGBM's choice without ``n_jobs``.
    n_folds : int, optional
        From 2 to 10. By default 5 below 10,000 rows, 3 below 20,000 and 2 from there on, where
        half of the rows teach nearly as much as all.
    """
    n = len(labels)
    weight = np.ones(n) if sample_weight is None else np.array(sample_weight, float)
    known = (groups >= 0) & (weight > 0)
    if not known.any():
        raise InvalidInputError("no row has a known group and a weight above 0; check both")
    k = n_folds if n_folds is not None else 5 if n < 10_000 else 3 if n < 20_000 else 2
    if not 2 <= k <= 10:
        raise InvalidInputError(f"n_folds must be from 2 to 10, found {k}; leave it out")
    weight /= weight[known].mean()  # regularisation means the same whatever the unit
    shares = np.bincount(groups[known], weight[known], n_groups) / known.sum()
    learned = np.bincount(groups[known], minlength=n_groups) >= SMALLEST_GROUP
    probabilities = np.tile(shares.astype(np.float32), (n, 1))
    n_learned = int(learned.sum())
    if n_learned > 1:
        renumber = np.append(np.where(learned, np.cumsum(learned) - 1, -1), -1)
        codes = np.where(known, renumber[groups], -1)
        X = by_row(X) if hasattr(X, "shape") else np.asarray(X)
        rng = np.random.default_rng(seed)
        n_jobs = n_jobs or 0
        learner = _Learner(X, labels, codes, n_learned, weight, categorical_feature, rng, n_jobs)
        for rows, likely in learner.cross_fit(_rank_within(2 * codes + labels, rng) % k):
            probabilities[np.ix_(rows, learned)] = likely * shares[learned].sum()
    recovered = _discrimination(probabilities, labels, groups, np.where(known, weight, 0.0))
    return Memberships(tuple(columns), probabilities, recovered)


@dataclass(frozen=True)
class _Learner:
    """Grows boosters for P(code | x, label) on rows of a table; code -1 is not known."""

    X: Matrix
    labels: IntArray
    codes: IntArray
    n_codes: int
    weight: FloatArray
    categorical_feature: Categorical
    rng: np.random.Generator
    n_threads: int

    def cross_fit(self, fold: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows and their probabilities, fold by fold and label by label."""
        known = self.codes >= 0
        for k in range(fold.max() + 1):
            learn, watch = np.flatnonzero(known & (fold != k)), np.flatnonzero(known & (fold == k))
            data = self.dataset(self.sample(learn, LEARNED_ROWS))
            watched = self.dataset(self.sample(watch, WATCHED_ROWS))
            base = self.boost(data, watched, num_leaves=15 if self.n_codes == 2 else 7)
            for label in (0, 1):
                held = np.flatnonzero((fold == k) & (self.labels == label))
                yield held, self.refine(base, learn[self.labels[learn] == label], held)

    def refine(self, base: Booster, learn: IntArray, held: IntArray) -> FloatArray:
        """Probabilities of held-out rows of one label, by ``base`` and more trees on its rows."""
        rows = self.sample(learn, LEARNED_ROWS)
        start, scores = self.scores(base, rows), self.scores(base, held)
        # Trees need many rows to move the shares of the groups to those of the label.
        seen = np.bincount(self.codes[rows], self.weight[rows], self.n_codes)
        said = self.weight[rows] @ softmax(start, axis=1)
        shift = np.log((seen + PSEUDO_ROWS) / (said + PSEUDO_ROWS))
        start, scores = start + shift, scores + shift
        watch = self.sample(np.flatnonzero(self.codes[held] >= 0), WATCHED_ROWS)
        if len(rows) and len(watch):
            watched = self.dataset(held[watch], scores[watch])
            more = self.boost(self.dataset(rows, start), watched, num_leaves=7)
            scores += self.scores(more, held)
        return np.asarray(softmax(scores, axis=1))

    def boost(self, data: Dataset, watched: Dataset, num_leaves: int) -> Booster:
        """Grow a booster on ``data``, and stop when ``watched`` gains no more."""
        options = QUIET | {
            "objective": "binary" if self.n_codes == 2 else "multiclass",
            "num_class": 1 if self.n_codes == 2 else self.n_codes,
            "learning_rate": 0.3,
            "num_leaves": num_leaves,
            "lambda_l2": 10.0,  # keeps the scores of rare groups, whose Hessian is tiny, in bounds
            "num_threads": self.n_threads,
        }
        rounds = min(60, max(10, 400 // self.n_codes))  # each adds a tree per group
        stop = lightgbm.early_stopping(5, verbose=False)
        return lightgbm.train(options, data, rounds, valid_sets=[watched], callbacks=[stop])

    def dataset(self, rows: IntArray, start: FloatArray | None = None) -> Dataset:
        if start is not None and self.n_codes == 2:
            start = start[:, 1] - start[:, 0]
        return Dataset(
            take_rows(self.X, rows), self.codes[rows], weight=self.weight[rows],
            init_score=start, categorical_feature=self.categorical_feature,
        )  # fmt: skip

    def scores(self, booster: Booster, rows: IntArray) -> FloatArray:
        """Raw scores, a column per group; of two groups the first stays at 0."""
        out = np.zeros((len(rows), self.n_codes))
        columns = 1 if self.n_codes == 2 else slice(None)
        for block in (slice(k, k + BLOCK) for k in range(0, len(rows), BLOCK)):
            X = take_rows(self.X, rows[block])
            out[block, columns] = booster.predict(X, raw_score=True, num_threads=self.n_threads)
        return out

    def sample(self, rows: IntArray, at_most: int) -> IntArray:
        return rows if len(rows) <= at_most else self.rng.choice(rows, at_most, replace=False)


def _balanced_halves(
    labels: IntArray, groups: IntArray, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows to learn from and rows held out, of all labels and groups as equally as can be."""
    n, pool_size = len(groups), 16 * max_rows
    pool = rng.choice(n, pool_size, replace=False) if n > pool_size else np.arange(n)
    pool = pool[groups[pool] >= 0]
    rank = _rank_within(2 * groups[pool].astype(np.int64) + labels[pool], rng)
    chosen = np.argsort(rank, kind="stable")[:max_rows]
    held = rank[chosen] % 2 == 1
    return pool[chosen[~held]], pool[chosen[held]]


def _rank_within(cells: IntArray, rng: np.random.Generator) -> IntArray:
    """Place of each row in a random order of its cell's rows; cells may be numbered anyhow."""
    order = np.argsort(cells + rng.random(len(cells)))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(cells)) - np.searchsorted(cells[order], cells[order])
    return rank


def _discrimination(
    likely: FloatArray | Float32Array, labels: IntArray, groups: IntArray, weight: FloatArray
) -> float:
    """Mean probability of a group among members less that among others; the worst there is."""
    n_groups, worst = likely.shape[1], 1.0
    for label in (0, 1):
        rows = np.flatnonzero((labels == label) & (groups >= 0) & (weight > 0))
        g, w = groups[rows], weight[rows]
        counts, members = np.bincount(g, minlength=n_groups), np.bincount(g, w, n_groups)
        inside = np.bincount(g, w * likely[rows, g], n_groups)
        outside = w @ likely[rows] - inside
        k = (counts >= min(JUDGED_ROWS, counts.max())) & (counts < len(rows))
        gap = inside[k] / members[k] - outside[k] / (w.sum() - members[k])
        worst = min(worst, float(np.min(gap, initial=1.0)))
    return max(worst, 0.0)
