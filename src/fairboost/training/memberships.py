"""Honest memberships: who is of which group, as far as features and label tell.

Where the sensitive attribute is not a feature, the trees still see it in the gradient, since a
row's push depends on its group. They learn *which training rows* are of a group; rates meet on
those rows, and the constraint is gone on new people. So in the gradient, and only there, a row's
group indicator gives way to what the model can act on, the share of a group among people alike::

    [row i is of group g]   ->   P(g | x_i, y_i)

Multipliers go on seeing observed groups. Where a feature gives the group away the two are the same
(:func:`recoverability`), and nothing needs to be learned.

The probabilities are those of small boosters, cross-fitted: none predicts a row that it was grown
on; the rows that it predicts only tell it when to stop
(:mod:`fairboost.engines.group_model`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.data.device_arrays import on_host
from fairboost.data.holdout import fold_count
from fairboost.data.validation import by_row
from fairboost.engines.group_model import CodedRows, cross_fit
from fairboost.engines.tables import as_table
from fairboost.exceptions import InvalidInputError

FEW_ROWS, MANY_ROWS = 20_000, 200_000
"""Between these ``"auto"`` considers learned memberships. Above, trees are too coarse to single
out so many rows: ACSIncome without its column of sexes (613k rows) was none the worse for observed
groups. Below, too little is learned: COMPAS without its column (4k rows) was the better for them.
"""

MOST_PROBABILITIES = 50_000_000
"""Rows times groups that ``"auto"`` learns memberships for: 200 MB. So many groups are of few rows
each, of which little can be learned."""

RECOVERED = 0.95
"""From here on features give the group away: a column that is the group comes out above .98, one
that tells it at an AUC of .99 at .85."""

# Limits, in rows.
SMALLEST_GROUP = 20  # below, a group is not learned: everyone is of it with its share
JUDGED_ROWS = 10  # below, a group does not decide whether groups are recovered


def worth_learning(rows: CodedRows, seed: int = 0) -> bool:
    """Whether learned memberships promise more than observed groups."""
    enough = enough_rows(len(rows.labels), rows.n_codes)
    return enough and recoverability(rows, seed=seed) < RECOVERED


def enough_rows(n: int, n_groups: int) -> bool:
    """Whether rows are so many, and not too many, that learned memberships may be worth it."""
    return FEW_ROWS <= n < MANY_ROWS and n * n_groups <= MOST_PROBABILITIES


def recoverability(rows: CodedRows, *, seed: int = 0, max_rows: int = 6_000) -> float:
    """How well features recover the group of held-out rows, by a few trees on a sample.

    The figure is that of the worst group at the worse label: the mean probability of the group
    among its members less that among all others (Tjur's coefficient of discrimination), which is
    the share of the indicator's variance explained if the probabilities are right. 0 is not at
    all, 1 is exactly; see ``RECOVERED``. The sample takes as many rows of small groups as
    of large ones, so that none is overlooked. All rows count the same.

    Parameters
    ----------
    rows : CodedRows
        Features and labels; codes are those of groups.
    seed : int, default=0
        Same seed, same result.
    max_rows : int, default=6000
        Size of the sample; half of it is held out.

    Examples
    --------
    >>> from fairboost.engines.lightgbm.group_model import LightGBMGroupModel
    >>> rng = np.random.default_rng(0)
    >>> sex, y = rng.integers(0, 2, (2, 1000))
    >>> X = np.stack([3 - sex, rng.normal(size=1000)], axis=1)
    >>> recoverability(CodedRows(X, y, sex, 2, LightGBMGroupModel())) > RECOVERED
    True
    >>> recoverability(CodedRows(X[:, 1:], y, sex, 2, LightGBMGroupModel())) > RECOVERED
    False
    """
    rows = replace(rows, X=_by_row(rows.X), weight=None)
    rng = np.random.default_rng(seed)
    learn, held = _balanced_halves(rows.labels, rows.codes, max_rows, rng)
    if rows.n_codes < 2 or not len(held):  # too little to tell anything
        return 0.0
    likely = rows.learner.few_trees(rows, learn, held)
    return _discrimination(likely, rows.labels[held], rows.codes[held], np.ones(len(held)))


def honest(rows: CodedRows, *, seed: int = 0) -> Float32Array:
    """Cross-fitted P(g | x, y): each row is predicted by a booster grown on others.

    Rows without a group, or of no weight, teach nothing and are predicted like all others. A
    group of fewer than 20 rows is not learned: everyone is of it with its share.

    Parameters
    ----------
    rows : CodedRows
        Features and labels; codes are those of groups.
    seed : int, default=0
        Same seed, same result.

    Returns
    -------
    probabilities : (n, n_groups) float32
        How likely a row is of each group; rows sum to 1.
    """
    n, labels, groups = len(rows.labels), rows.labels, rows.codes
    weight = np.ones(n) if rows.weight is None else np.array(rows.weight, float)
    known = (groups >= 0) & (weight > 0)
    if not known.any():
        raise InvalidInputError("no row has a known group and a weight above 0; check both")
    weight /= weight[known].mean()  # regularisation means the same whatever the unit
    shares = np.bincount(groups[known], weight[known], rows.n_codes) / known.sum()
    probabilities = np.tile(shares.astype(np.float32), (n, 1))
    learned = _largest_first(np.where(known, groups, -1), rows.n_codes)
    if len(learned) > 1:
        renumber = np.full(rows.n_codes + 1, -1)
        renumber[learned] = np.arange(len(learned))
        codes = np.where(known, renumber[groups], -1)
        X, rng = _by_row(rows.X), np.random.default_rng(seed)
        renumbered = replace(rows, X=X, codes=codes, n_codes=len(learned), weight=weight)
        fold = _rank_within((int(labels.max()) + 1) * codes + labels, rng) % fold_count(n)
        for held, likely in cross_fit(renumbered, fold, rng):
            probabilities[np.ix_(held, learned)] = likely * shares[learned].sum()
    return probabilities


def honest_shares(rows: CodedRows, column: SensitiveColumn, *, seed: int = 0) -> Float32Array:
    """Cross-fitted means of what rows weigh in groups, given features and label.

    One group is drawn for each row, by its weights, and learned as if it were the row's own: the
    probability of the draw given the features is the mean weight.

    Parameters
    ----------
    rows : CodedRows
        Features and labels; its codes are not looked at.
    column : SensitiveColumn
        Has the weights.
    seed : int, default=0
        Same seed, same result.
    """
    members = column.members
    assert members is not None
    likely = members if column.likely is None else column.likely
    n_groups = likely.shape[1]
    ends = np.cumsum(likely, axis=1, dtype=np.float64)
    draw = np.random.default_rng([seed, 1]).random(len(likely))
    codes = (draw[:, np.newaxis] >= ends).sum(axis=1)
    known: BoolArray = np.asarray(members.any(axis=1))
    n_codes = n_groups if column.unmix is None else len(column.unmix)
    codes = np.where(known & (codes < n_codes), codes, -1).astype(np.int32)
    found = honest(replace(rows, codes=codes, n_codes=n_codes), seed=seed)
    if column.unmix is not None:
        found = (found @ column.unmix.T)[:, :n_groups].astype(np.float32)
    return np.ascontiguousarray(found * known[:, np.newaxis].astype(np.float32))


def _by_row(X: Matrix) -> Matrix:
    """A table whose rows can be picked; small boosters are grown on the host."""
    return by_row(as_table(on_host(X)))


def _largest_first(groups: IntArray, n_groups: int) -> IntArray:
    """Groups that can be learned, in an order that does not depend on their names.

    Trees for one of two groups are those for the other turned round, but not to the last digit,
    and where two splits are as good the other one may be made.
    """
    counts = np.bincount(groups[groups >= 0], minlength=n_groups)
    first = np.full(n_groups + 1, len(groups))  # the last is of rows without a group
    first[groups[::-1]] = np.arange(len(groups))[::-1]
    order = np.lexsort((first[:n_groups], -counts))
    return order[counts[order] >= SMALLEST_GROUP]


def _balanced_halves(
    labels: IntArray, groups: IntArray, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows to learn from and rows held out, of all labels and groups as equally as can be."""
    n, pool_size = len(groups), 16 * max_rows
    pool = rng.choice(n, pool_size, replace=False) if n > pool_size else np.arange(n)
    pool = pool[groups[pool] >= 0]
    n_labels = int(labels.max()) + 1
    rank = _rank_within(n_labels * groups[pool].astype(np.int64) + labels[pool], rng)
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
    for label in np.unique(labels).tolist():
        rows = np.flatnonzero((labels == label) & (groups >= 0) & (weight > 0))
        g, w = groups[rows], weight[rows]
        counts, members = np.bincount(g, minlength=n_groups), np.bincount(g, w, n_groups)
        inside = np.bincount(g, w * likely[rows, g], n_groups)
        outside = w @ likely[rows] - inside
        k = (counts >= min(JUDGED_ROWS, counts.max())) & (counts < len(rows))
        gap = inside[k] / members[k] - outside[k] / (w.sum() - members[k])
        worst = min(worst, float(np.min(gap, initial=1.0)))
    return max(worst, 0.0)
