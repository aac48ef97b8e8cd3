"""Equal rates on a budget, on a problem whose best answer is known.

People of a group fall into 32 kinds that a model can tell apart, whose share of positives rises
from kind to kind, with equally many people who count in each. The budget is k / 32 of those who
count. Equal rates then mean that the k kinds of largest share are said yes to in every group, and
of all decisions with these rates that one errs least: there is nothing else to choose. A model
without the constraint says yes to more kinds of the group that is better off.

A kind is two rows, its positives and its negatives, with their numbers as weights.
"""

import numpy as np
import pytest
from scipy.special import expit, logit

from fairboost.algorithm.multipliers import Control, Rest
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import parity
from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import two_sided
from tests.problems import FreeScores, session, without_margin

KINDS = 32
K = 6
"""Kinds of each group that the budget is for."""

ROUNDS = 600


class Society:
    """Groups better off by ``shifts`` log-odds, of relative ``sizes``."""

    def __init__(self, rate, shifts, sizes=None):
        self.rate = RATES[rate]
        self.log_odds = np.add.outer(np.asarray(shifts), np.linspace(-3, 3, KINDS))
        q = expit(self.log_odds)
        counted = {None: 1.0, 1: q, 0: 1 - q}[self.rate.label]
        people = np.array(sizes or [1.0] * len(q))[:, None] / counted  # of each kind
        self.n_groups = len(q)
        kind = np.arange(q.size)
        self.kind = np.concatenate([kind, kind])
        self.y = np.repeat([1, 0], q.size).astype(np.int32)
        self.weight = np.concatenate([(people * q).ravel(), (people * (1 - q)).ravel()])


def play(society, point, player):
    """Kinds said yes to in each round and group, scores of kinds, and the Lagrangian."""
    weight = society.weight.astype(np.float32)
    group = (society.kind // KINDS).astype(np.int32)
    column = SensitiveColumn("g", group, tuple(range(society.n_groups)))
    lagrangian = session(
        build_cells(society.y, [column], weight),
        [two_sided(parity(society.rate, 0.0, by="g"))],
        PROXIES["sigmoid"],
        player,
        convex=True,
        threshold=point,
        sample_weight=weight,
        dtype=np.float64,
    )
    without_margin(lagrangian)  # here the rows are all there are
    history = FreeScores(society.kind, learning_rate=0.1).train(lagrangian, ROUNDS)
    lagrangian.finish(history[-1])
    scores = history[:, : len(society.y) // 2].reshape(ROUNDS, -1, KINDS)
    thresholds = np.array([r.cut.threshold for r in lagrangian.record().iterates[1:]])
    return scores >= thresholds[:, None, None], scores, lagrangian


SOCIETIES = {
    "two groups": ([0.8, -0.8], None),
    "three groups": ([1.0, 0.0, -0.9], None),
    "few are worse off": ([0.4, -1.0], [3, 1]),
    "few are better off": ([-0.4, 1.0], [3, 1]),
}
# Weights are in single precision, and may add up to a little more or less.
TARGETS = {
    "equal FPR at an FPR": ("fpr", at_fpr((K + 0.01) / KINDS)),
    "equal TPR at a TPR": ("tpr", at_tpr((K - 0.01) / KINDS)),
    "equal FNR at a TPR": ("fnr", at_tpr((K - 0.01) / KINDS)),
    "equal shares of a budget": ("ppr", at_positive_rate((K + 0.01) / KINDS)),
}


ALL_SOCIETIES = pytest.mark.parametrize("society", SOCIETIES)
LATE = 2 * ROUNDS // 3


@ALL_SOCIETIES
@pytest.mark.parametrize("target", TARGETS)
def test_every_group_comes_to_the_budget(society, target):
    rate, point = TARGETS[target]
    society = Society(rate, *SOCIETIES[society])
    plain, _, _ = play(society, point, Rest())
    assert np.ptp(plain[-1].sum(axis=1)) >= 4  # the constraint has something to do
    decisions, scores, lagrangian = play(society, point, Control())
    late = decisions[LATE:].sum(axis=2)
    assert np.abs(late - K).max() <= 1  # the next kind may be said yes and no to in turns
    assert np.mean((late == K).all(axis=1)) > 0.5
    order = np.diff(decisions[LATE:].astype(int), axis=2)
    assert (order >= 0).all()  # it is the kinds of largest share: nobody is passed over
    assert (np.diff(scores[-1], axis=1) > 0).all()
    at = K / KINDS if society.rate.direction > 0 else 1 - K / KINDS
    rates = lagrangian.record().to_frame().filter(like="rate: ").iloc[LATE:].mean()
    np.testing.assert_allclose(rates, at, rtol=0, atol=0.5 / KINDS)


@ALL_SOCIETIES
@pytest.mark.parametrize("target", [t for t in TARGETS if "budget" not in t])
def test_and_comes_to_rest_there(society, target):
    rate, point = TARGETS[target]
    society = Society(rate, *SOCIETIES[society])
    decisions, _, lagrangian = play(society, point, Control())
    assert (decisions[LATE:].sum(axis=2) == K).all()
    late = lagrangian.record().to_frame().iloc[LATE:]
    assert late.filter(like="violation: ").max(axis=None) <= 1e-6


@pytest.mark.parametrize(("rate", "point"), TARGETS.values(), ids=TARGETS)
def test_without_constraints_scores_and_threshold_are_known(rate, point):
    """Log-odds of the kinds, and the quantile that belongs to them."""
    society = Society(rate, [0.8, -0.8])
    _, scores, lagrangian = play(society, point, Rest())
    np.testing.assert_allclose(scores[-1], society.log_odds, atol=1e-5)
    kinds = np.sort(society.log_odds.ravel())[::-1]
    threshold = kinds[2 * K - 1 : 2 * K + 1].mean()
    assert lagrangian.state.cut.threshold == pytest.approx(threshold, abs=1e-5)
    last = lagrangian.record().to_frame()["threshold"].iloc[-1]
    assert logit(last) == pytest.approx(threshold, abs=1e-4)
