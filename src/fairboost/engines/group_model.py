"""Small boosters that predict codes, such as those of groups, of rows that they are not grown on.

A booster is grown in two steps, first on the rows of both labels, then with a few more trees for
each label on its own rows. So the label is conditioned on without becoming a column of X, and a
rare label still profits from what the other one teaches about x. Trees are grown by the engine at
hand (its own ``group_model.py``): it reads X as it does for training, and another might not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Protocol, Self

import numpy as np
from scipy.special import softmax

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, Matrix
from fairboost.kernel.threads import Crew

# Limits, in rows.
LEARNED_ROWS = 50_000  # that a booster is grown on at most; so small a one gains little from more
MANY_ROWS = 20_000  # from here on it takes larger steps
STOPPING_ROWS = 5_000  # held out, at most, that tell it when to stop
PSEUDO_ROWS = 10.0  # weight of the belief that codes have the same shares at either label

FEW_BINS = 63
"""Bins of a number for small boosters that say what is likely and are not kept: on a few ten
thousand rows a tree spends most of its time on the bins of its leaves. Boosters of the folds have
the bins of the booster that is kept. With 63 their rates were others than its rates
(``docs/algorithm.md``)."""

PATIENCE = 3
"""Rounds without a lower loss on the rows held out, after which a booster is complete."""

SHORT = 10
"""A booster that is complete after so few rounds overshoots what little there is to learn."""


@dataclass(frozen=True)
class Growth:
    """How a booster is grown.

    Parameters
    ----------
    num_leaves : int
        Leaves of a tree.
    learning_rate : float
        Share of a tree that is added.
    rounds : int, optional
        Rounds at most; by default those of :func:`most_rounds`.
    patience : int
        Rounds without a lower loss on the rows held out, after which the booster is complete.
    """

    num_leaves: int
    learning_rate: float = 0.3
    rounds: int | None = None
    patience: int = PATIENCE


FINE = Growth(4, 0.05, 200, patience=5)
"""For groups that features hardly reveal. Of gender in ``motor_policies_2009`` it explained 0.18%
of the variance out of fold, and the usual booster 0.10%. Elsewhere it takes longer for as much."""


@dataclass(frozen=True)
class Grown:
    """A booster.

    Parameters
    ----------
    scores : callable
        From positions of rows to their raw scores, a column per code; of two codes the first
        stays at 0.
    rounds : int
        Those that it took.
    """

    scores: Callable[[IntArray], FloatArray]
    rounds: int


class GroupModel(Protocol):
    """How an engine grows boosters that predict codes.

    Parameters
    ----------
    threads : int
        Threads that may be used.
    """

    threads: int

    def few_trees(self, data: CodedRows, learn: IntArray, held_out: IntArray) -> FloatArray:
        """Probabilities of held-out rows, by trees that single out small groups of rows.

        The held-out rows judge what comes of that. Meant for a sample too small for two threads.
        """

    def side_by_side(self, data: CodedRows, threads: int) -> AbstractContextManager[Self]:
        """Read the rows once, for boosters that are grown at the same time, in this context.

        Each of them has so many threads, and the engine has seen to it that nothing else in the
        process disturbs them.
        """

    def boost(self, data: CodedRows, grown: Started, stopping: Started, how: Growth) -> Grown:
        """Grow a booster on some rows until the loss on others falls no more."""


@dataclass(frozen=True)
class CodedRows:
    """Rows of a table, and the codes that features and labels are to predict.

    Parameters
    ----------
    X : Matrix
        The features, in any form that the engine takes.
    labels, codes : (n,) int
        0 or 1, and one of ``n_codes``, -1 where it is not known.
    n_codes : int
        Number of codes.
    learner : GroupModel
        What grows the boosters.
    weight : (n,) float, optional
        Weights of the rows.
    """

    X: Matrix
    labels: IntArray
    codes: IntArray
    n_codes: int
    learner: GroupModel
    weight: FloatArray | Float32Array | None = None


@dataclass(frozen=True)
class Started:
    """Some rows, and the scores that a booster starts from on them, if not from shares.

    Parameters
    ----------
    rows : (m,) int
        Their positions, in order.
    scores : (m, n_codes) float64, optional
        The scores.
    """

    rows: IntArray
    scores: FloatArray | None = None


def rate(n_rows: int) -> float:
    """Learning rate of a booster that is grown on so many rows.

    The higher one takes half the rounds. On 24,000 rows of Adult its loss is higher by 0.002 of
    0.415; on fewer rows it learns noise.
    """
    return 0.5 if n_rows >= MANY_ROWS else 0.3


def most_rounds(n_codes: int) -> int:
    """Rounds that a booster takes at most; each adds a tree per code."""
    return min(60, max(10, 400 // n_codes))


def cross_fit(
    data: CodedRows, fold: IntArray, rng: np.random.Generator
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Rows and the probabilities of their codes, by boosters grown on the other folds.

    Folds are done side by side: so small a booster does not use several threads well.

    Parameters
    ----------
    data : CodedRows
        With weights.
    fold : (n,) int
        The fold of each row.
    rng : numpy.random.Generator
        Draws samples of many rows.
    """
    n_folds, threads = int(fold.max()) + 1, data.learner.threads
    found: list[list[tuple[IntArray, FloatArray]]] = [[] for _ in range(n_folds)]
    with data.learner.side_by_side(data, max(1, threads // n_folds)) as learner:
        fits = [FoldFit(replace(data, learner=learner), own) for own in rng.spawn(n_folds)]

        def work(k: int) -> None:
            found[k] = list(fits[k].probabilities(fold == k))

        crew = Crew(min(threads, n_folds) - 1)
        try:
            crew.start([partial(work, k) for k in range(n_folds)])
            crew.wait()
        finally:
            crew.close()
    return chain.from_iterable(found)


@dataclass(frozen=True)
class FoldFit:
    """Boosters for P(code | x, label) of rows that they are not grown on.

    Parameters
    ----------
    data : CodedRows
        With weights.
    rng : numpy.random.Generator
        Draws samples of many rows.
    """

    data: CodedRows
    rng: np.random.Generator

    def probabilities(self, left_out: BoolArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows left out, label by label, and their probabilities."""
        data, labels, known = self.data, self.data.labels, self.data.codes >= 0
        learn, stop = np.flatnonzero(known & ~left_out), np.flatnonzero(known & left_out)
        grown = Started(self._sample(learn, LEARNED_ROWS))
        stopping = Started(self._sample(stop, STOPPING_ROWS))
        how = self._growth(15 if data.n_codes == 2 else 7, len(grown.rows))
        base = data.learner.boost(data, grown, stopping, how)
        if base.rounds <= SHORT and self._of_numbers:
            base, held = data.learner.boost(data, grown, stopping, FINE), np.flatnonzero(left_out)
            yield held, np.asarray(softmax(base.scores(held), axis=1))
            return
        for label in np.unique(labels[left_out]).tolist():
            held = np.flatnonzero(left_out & (labels == label))
            yield held, self._refine(base, learn[labels[learn] == label], held)

    def _refine(self, base: Grown, learn: IntArray, held: IntArray) -> FloatArray:
        """Probabilities of held-out rows of one label, by ``base`` and more trees on its rows."""
        data, rows = self.data, self._sample(learn, LEARNED_ROWS)
        start, scores = base.scores(rows), base.scores(held)
        # Trees need many rows to move the shares of the codes to those of the label.
        assert data.weight is not None
        weight = data.weight[rows]
        found = np.bincount(data.codes[rows], weight, data.n_codes)
        shift = np.log((found + PSEUDO_ROWS) / (weight @ softmax(start, axis=1) + PSEUDO_ROWS))
        start, scores = start + shift, scores + shift
        stop = self._sample(np.flatnonzero(data.codes[held] >= 0), STOPPING_ROWS)
        if len(rows) and len(stop):
            stopping = Started(held[stop], scores[stop])
            how = self._growth(7, len(rows))
            more = data.learner.boost(data, Started(rows, start), stopping, how)
            scores += more.scores(held)
        return np.asarray(softmax(scores, axis=1))

    @property
    def _of_numbers(self) -> bool:
        """Whether numbers are predicted: all rows then have the same label."""
        return not self.data.labels.any()

    def _growth(self, num_leaves: int, n_rows: int) -> Growth:
        """Large steps on many rows, and little patience; measured for labels alone."""
        if self._of_numbers:
            return Growth(num_leaves, patience=FINE.patience)
        return Growth(num_leaves, rate(n_rows), patience=PATIENCE)

    def _sample(self, rows: IntArray, at_most: int) -> IntArray:
        if len(rows) <= at_most:
            return rows
        return np.sort(self.rng.choice(rows, at_most, replace=False))
