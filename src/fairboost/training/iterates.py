"""Which of the models f_1 ... f_T to keep: the best, the last, their average, a draw for each row.

Every prefix of a boosted ensemble is one of the iterates of Algorithm 1, so the last model holds
them all.

* ``best``: the last of the rounds that are within tolerance on the rows held out, or of least
  violation if there is none, and whose decisions there cost no more than the cheapest round's.
  Costs are means over an eighth of the rounds, and count as equal within half a standard error. So
  a round is left out if it is plainly worse or beyond a limit, and not chosen because its rates or
  its loss look good on the rows that steer: what is chosen among a hundred for looking good is
  worse on new rows. A stage on another model keeps the round of lowest loss among the good ones,
  so as to do no harm. Numbers and classes have no such costs; theirs is the round of lowest loss
  (of ``minimax``, of the lowest largest error).
  Where the engine takes steps so large that no round has a lower loss than no model at all, it is
  the round of the fewest wrong decisions.
* ``last``: f_T.
* ``average``: the mean of f_1 ... f_T. Tree m is in the iterates m ... T, so the mean is the same
  ensemble
  with tree m times (T - m + 1) / T: one deterministic model.
* ``randomized``: the paper's classifier; a row is scored by f_t, t drawn uniformly from 1 ... T.
  The
  draw is a hash of a seed and the row's score by f_T: it needs no state and does not depend on
  which other rows are scored with it, so a person gets the same decision whenever they ask.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import BoolArray, FloatArray, Matrix
from fairboost.data.validation import by_row, take_rows
from fairboost.engines.port import TrainedModel
from fairboost.exceptions import InvalidInputError

IterateName: TypeAlias = Literal["best", "last", "average", "randomized"]

TRAINED = 0.1
"""A round counts as trained once its loss has come this close to the lowest, as a share of the way
from the untrained one. Rounds before it are fair because they do not tell people apart yet."""


AS_GOOD, WINDOW = 0.5, 8
"""Decisions are as good as the best up to this share of a standard error of their cost, and costs
are means over one part in so many of the rounds (``benchmarks/settling.md``)."""


def check_iterate(iterate: str, rescales_trees: bool) -> None:
    """Refuse unknown names, and what an ensemble with rescaled trees cannot give."""
    if iterate not in get_args(IterateName):
        raise InvalidInputError(
            f"unknown iterate {iterate!r}; expected one of "
            f"{', '.join(map(repr, get_args(IterateName)))}"
        )
    if rescales_trees and iterate != "last":
        raise InvalidInputError(
            f"iterate={iterate!r} needs the model as it was at every round, but DART rescales old "
            "trees; use iterate='last', or boosting_type='gbdt' (XGBoost: booster='gbtree', "
            "without rate_drop and one_drop)"
        )


LEAST_ERROR = 1e-100
"""Where predictions are all 0 their errors are too; squares of what is over this are finite."""


def best_iterate(
    losses: FloatArray,
    violations: FloatArray,
    errors: FloatArray,
    untrained_loss: float,
    usable: BoolArray | None = None,
    objective: FloatArray | None = None,
    costs: tuple[FloatArray, float] | None = None,
    latest: bool = True,
) -> int:
    """Position of the iterate to keep.

    Parameters
    ----------
    losses : (n_iterates,) float64
        Held-out loss of each.
    violations, errors : (n_iterates, n_inequalities) float64
        Violations on the rows held out, and their standard errors.
    untrained_loss : float
        Loss of a model that gives everyone the same probability.
    usable : (n_iterates,) bool, optional
        Which to choose from; all, if it is none of them.
    objective : (n_iterates,) float64, optional
        What to make small in place of the loss.
    costs : ((n_iterates,) float64, float), optional
        Costs of decisions, and their standard error.
    latest : bool, default=True
        Of rounds whose decisions are as good as the best, keep the last; else the one of lowest
        loss. A stage on a model that is good already is to do no harm.

    Examples
    --------
    >>> losses = np.array([0.60, 0.42, 0.41, 0.40])
    >>> violations = np.array([[-0.01], [-0.01], [0.00], [0.02]])
    >>> best_iterate(losses, violations, np.full((4, 1), 0.01), untrained_loss=0.69)
    2
    """
    learned = max(untrained_loss - losses.min(), 0.0)
    near = losses <= losses.min() + TRAINED * learned
    # From the first round that is trained on: later the constraint may well cost more than that,
    # but not so much that nothing is left of the model.
    trained = (np.arange(len(losses)) >= np.argmax(near)) & (near | (losses < untrained_loss))
    if usable is not None and (trained & usable).any():
        trained &= usable
    # Violations count by their standard errors: a small group's rate swings more.
    broken = np.maximum(violations / np.maximum(errors, LEAST_ERROR), 0.0)
    total = np.sqrt((broken**2).sum(axis=1))
    least = total[trained].min(initial=np.inf)
    # Groups of other names are added up in another order, which must not break ties.
    candidates = trained & (total <= least * (1.0 + 1e-12))
    if costs is not None:
        smooth = smoothed(costs[0], len(losses) // WINDOW)
        least = smooth[candidates].min()
        candidates &= smooth <= least * (1.0 + 1e-12) + AS_GOOD * costs[1]
        if latest:
            return int(np.flatnonzero(candidates)[-1])
    by = losses if objective is None else objective
    return int(np.flatnonzero(candidates)[np.argmin(by[candidates])])


def smoothed(values: FloatArray, width: int) -> FloatArray:
    """Means of values around each, over so many of them; fewer at the ends.

    Examples
    --------
    >>> smoothed(np.array([0.0, 3.0, 6.0, 0.0]), 3)
    array([1.5, 3. , 3. , 3. ])
    """
    around = np.ones(max(width, 1) // 2 * 2 + 1)
    sums, counts = (np.convolve(v, around, "same") for v in (values, np.ones(len(values))))
    out: FloatArray = (sums / counts)[: len(values)]
    return out


def measure(
    losses: FloatArray, untrained_loss: float, wrong: FloatArray
) -> tuple[FloatArray, float]:
    """By what to compare iterates, and what it is for a model that tells no one apart.

    Parameters
    ----------
    losses : (n_iterates,) float64
        Held-out loss of each.
    untrained_loss : float
        Loss of a model that gives everyone the same probability.
    wrong : (n_iterates,) float64
        Mean of the false positive and the false negative rate of everyone.

    Returns
    -------
    losses : (n_iterates,) float64
        The losses. If all are as high as the untrained one, probabilities are worth nothing, but
        decisions may be: then what is wrong of these.
    untrained_loss : float
        The same of the untrained model.

    Examples
    --------
    >>> measure(np.array([0.07, 0.09]), 0.056, np.array([0.34, 0.28]))
    (array([0.34, 0.28]), 0.5)
    """
    if losses.min() < untrained_loss or wrong.min() > 0.5 * (1.0 - TRAINED):
        return losses, untrained_loss
    return wrong, 0.5


def average_weights(n_rounds: int) -> FloatArray:
    """Factor of each tree in the mean of all iterates.

    Examples
    --------
    >>> average_weights(4)
    array([1.  , 0.75, 0.5 , 0.25])
    """
    return np.arange(n_rounds, 0, -1) / n_rounds


def draw_rounds(scores: FloatArray, n_rounds: int, seed: int) -> NDArray[np.int64]:
    """Draw a round from 1 ... n_rounds for each row, reproducibly.

    Parameters
    ----------
    scores : (n,) float64
        The rows' scores by the full ensemble: what tells rows apart.
    n_rounds : int
        T.
    seed : int
        Another seed gives other draws.

    Examples
    --------
    >>> draw_rounds(np.array([0.5, -1.0, 0.5]), 100, seed=0).tolist()
    [2, 28, 2]
    """
    # splitmix64 on the bits of the score: neighbouring scores get unrelated draws.
    with np.errstate(over="ignore"):
        bits = (scores + 0.0).view(np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        bits ^= bits >> np.uint64(31)
    uniform = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return 1 + (uniform * n_rounds).astype(np.int64)


def randomized_scores(model: TrainedModel, X: Matrix, seed: int) -> FloatArray:
    """Score each row by the iterate drawn for it.

    Rows are sorted by draw and each goes through its own prefix once: half the work of scoring all
    rows by the whole ensemble, on top of that.
    """
    scores = model.scores(X)
    told_apart = scores if scores.ndim == 1 else np.ascontiguousarray(scores[:, 0])
    rounds = draw_rounds(told_apart, model.n_rounds, seed)
    order = np.argsort(rounds, kind="stable")
    drawn, starts = np.unique(rounds[order], return_index=True)
    X = by_row(X)
    for t, rows in zip(drawn, np.split(order, starts)[1:], strict=True):
        if t < model.n_rounds:
            scores[rows] = model.scores(take_rows(X, rows), int(t))
    return scores
