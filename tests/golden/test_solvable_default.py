"""The default game on a problem whose best answer is found by trying all.

People of a group fall into 32 kinds that a model can tell apart, each with its own share of
positives. A score is free for every kind, so decisions are a choice of kinds. Every kind has
equally many people who count towards the rate, so that of all choices with the same rates the one
that says yes to the kinds of largest share errs least, and all there is to try is how many kinds
of each group are said yes to: 33 x 33 choices for two groups.

With the sigmoid, row weight a of the constraint and share q of positives, a kind's score is
stationary at 0 where 1/2 - q + a/4 = 0 (demographic parity): the game says yes to
q > 1/2 + a/4. That is the rule of least error too, so the game can find the best answer, and does.
"""

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import two_sided
from tests.problems import FreeScores, session, without_margin

KINDS = 32
ROUNDS = 200
SIZE = 60  # people who count, of each kind


class Society:
    """Groups, each of kinds whose share of positives rises from kind to kind.

    ``shifts`` are the log-odds by which groups are better off, ``sizes`` their relative sizes.
    """

    def __init__(self, rate, shifts, sizes=None):
        self.rate = RATES[rate]
        q = 1 / (1 + np.exp(-np.add.outer(shifts, np.linspace(-3, 3, KINDS))))
        counted = SIZE * np.broadcast_to(np.array(sizes or [1] * len(q))[:, None], q.shape)
        per_person = {None: 1, 1: 1 / q, 0: 1 / (1 - q)}[self.rate.label]
        people = np.round(counted * per_person).astype(int)
        self.positives = {
            None: np.round(counted * q).astype(int),
            1: counted,
            0: people - counted,
        }[self.rate.label]
        self.negatives = people - self.positives
        self.counted = counted

    def rows(self):
        """Label, group and kind of everyone."""
        kinds = np.arange(self.counted.size)
        kind = np.concatenate(
            [np.repeat(kinds, self.positives.ravel()), np.repeat(kinds, self.negatives.ravel())]
        )
        y = np.repeat([1, 0], [self.positives.sum(), self.negatives.sum()]).astype(np.int32)
        return y, (kind // KINDS).astype(np.int32), kind

    def all_choices(self):
        """Kinds said yes to in each group, their errors, and how far rates are apart.

        Of two groups that is their distance, of more twice the largest one from the pooled rate.
        """
        yes = np.arange(KINDS) >= KINDS - np.arange(KINDS + 1)[:, None]  # (choices, kinds)
        by_group = zip(self.positives, self.negatives, strict=True)
        errors = np.stack([np.where(yes, n, p).sum(axis=1) for p, n in by_group])
        rate = yes.mean(1) if self.rate.direction > 0 else 1 - yes.mean(1)
        counts = np.indices((KINDS + 1,) * len(errors)).reshape(len(errors), -1)
        rates = rate[counts]
        apart = rates - np.average(rates, axis=0, weights=self.counted[:, 0])
        total = sum(errors[g][counts[g]] for g in range(len(errors)))
        if len(errors) == 2:
            return counts, total, np.abs(rates[0] - rates[1])
        return counts, total, 2 * np.abs(apart).max(axis=0)


def settle(society, tolerance, player, rounds=ROUNDS, proxy="sigmoid"):
    """Play, and return kinds said yes to in each round and group, and the Lagrangian."""
    y, group, kind = society.rows()
    column = SensitiveColumn("g", group, tuple(range(len(society.counted))))
    lagrangian = session(
        build_cells(y, [column]),
        [two_sided(parity(society.rate, tolerance, by="g"))],
        PROXIES[proxy],
        player,
        convex=True,
        dtype=np.float64,
    )
    without_margin(lagrangian)  # here the rows are all there are
    history = FreeScores(kind, learning_rate=0.1).train(lagrangian, rounds)
    of_kind = np.unique(kind, return_index=True)[1]
    decisions = (history[:, of_kind] >= 0).reshape(rounds, -1, KINDS)
    return decisions, lagrangian


# Tolerances are such that a choice of kinds meets them exactly: the game can come to rest there.
CASES = {
    "two groups": (Society("ppr", [1.5, -1.4]), 1 / 8),
    "three groups": (Society("ppr", [1.5, -1.4, 0.3]), 1 / 8),
    "one is three times as large": (Society("ppr", [1.5, -1.4], [3, 1]), 3 / 16),
    "the small one is better off": (Society("ppr", [-1.4, 1.5], [3, 1]), 3 / 16),
    "misses": (Society("fnr", [1.0, -1.1]), 1 / 8),
    "false alarms": (Society("fpr", [1.0, -1.1]), 1 / 8),
}


@pytest.mark.parametrize(("society", "tolerance"), CASES.values(), ids=CASES)
def test_the_game_comes_to_rest_at_the_best_choice(society, tolerance):
    counts, errors, apart = society.all_choices()
    feasible = apart <= tolerance + 1e-12
    least = errors[feasible].min()
    (best,) = counts[:, feasible & (errors == least)].T
    assert errors.min() < least  # the constraint costs something
    decisions, lagrangian = settle(society, tolerance, Control())
    trace = lagrangian.record().to_frame().iloc[ROUNDS // 2 :]
    assert trace.filter(like="violation: ").max(axis=None) <= 1e-12
    np.testing.assert_array_equal(decisions[-1].sum(axis=1), best)
    rates = trace.filter(like="rate: ")
    assert (rates.max(axis=1) - rates.min(axis=1)).max() <= tolerance + 1e-12
    assert (rates == rates.iloc[-1]).all(axis=None)  # no group changes its side any more


def test_the_multipliers_are_those_at_which_the_best_choice_is_stationary():
    """Yes to q > 1/2 + a/4, with a the weight of the constraint on a row of the group."""
    society, tolerance = CASES["three groups"]
    decisions, lagrangian = settle(society, tolerance, Control())
    multipliers = lagrangian.state.dual.multipliers
    net = multipliers[:3] - multipliers[3:]
    a = 3 * (net - net.sum() / 3)  # n / W = 3, three groups of equal size
    q = society.positives / (society.positives + society.negatives)
    np.testing.assert_array_equal(decisions[-1], q > 0.5 + a[:, None] / 4)
    assert a[0] > 0.2 and a[1] < -0.2  # the group that is better off pays, the other is paid
    assert multipliers.min() == 0  # and a group pays on one side only


def test_a_tolerance_that_no_choice_meets_exactly_is_met_but_for_one_kind():
    """The game then says yes and no in turns to the kind in question."""
    society = CASES["two groups"][0]
    decisions, lagrangian = settle(society, 0.13, Control())
    late = lagrangian.record().to_frame().iloc[ROUNDS // 2 :]
    assert late.filter(like="violation: ").max(axis=None) <= 1 / KINDS
    rates = late.filter(like="rate: ").mean()  # of the randomized classifier
    assert abs(rates.iloc[0] - rates.iloc[1]) <= 0.13 + 0.5 / KINDS
    settled = decisions[ROUNDS // 2 :].sum(axis=2)
    assert np.ptp(settled, axis=0).max() <= 1


@pytest.mark.filterwarnings("ignore:(overflow|invalid value|divide by zero) encountered")
@pytest.mark.parametrize(
    "proxy",
    [
        "cross_entropy",
        "hinge",
        "squared",
    ],
)
def test_the_game_comes_to_rest_with_other_proxies(proxy):
    """Not always at the best choice: they weigh far kinds as well as near ones."""
    society, tolerance = CASES["two groups"]
    _, lagrangian = settle(society, tolerance, Control(), proxy=proxy)
    late = lagrangian.record().to_frame().iloc[ROUNDS // 2 :]
    assert late.filter(like="violation: ").max(axis=None) <= 1 / KINDS
    assert late["loss"].max() < np.log(2)


def test_integration_alone_swings_where_control_has_come_to_rest():
    society, tolerance = CASES["two groups"]

    def rounds_to_rest(player):
        _, lagrangian = settle(society, tolerance, player)
        violations = lagrangian.record().to_frame().filter(like="violation: ").max(axis=1)
        return int(np.flatnonzero(violations > 1e-12).max(initial=-1)) + 1

    assert 1.5 * rounds_to_rest(Control()) < rounds_to_rest(Control(damping=0.0))
