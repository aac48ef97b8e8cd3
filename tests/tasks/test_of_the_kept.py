"""What cross-fitting says of the booster that is kept."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.two_sided import two_sided
from fairboost.tasks.base import Measured, of_the_kept
from fairboost.tasks.binary import Binary
from fairboost.tasks.layout import lay_out

N = 400
POSITIVE = np.arange(N) % 2 == 1
CELLS = build_cells(
    POSITIVE.astype(np.int32),
    [SensitiveColumn("g", (np.arange(N) // 2 % 2).astype(np.int32), "ab")],
)


def passes(n_folds=2, cells=CELLS):
    rng = np.random.default_rng(0)
    holdout = choose("cross", cells, 10, None, rng, need="exacting" if n_folds == 5 else "stage")
    asked = [two_sided(parity("fnr", 0.01, by="g"))]
    layout = lay_out(cells, asked, holdout)
    task = Binary(PROXIES["sigmoid"], convex=True)
    return task.on(layout, np.ones((2, len(cells)), bool)), holdout


def corrected(made, trained, out_of_fold, others):
    """Rates of positive decisions by cell, as they are said to be of the booster kept."""
    cut = made.start()
    known = [made.measure_trained(s, cut, k) for k, s in enumerate(others)]
    found = of_the_kept(
        made.measure_trained(trained, cut), made.measure(out_of_fold, cut), known,
        made.unknown,
    )  # fmt: skip
    return found


def test_boosters_that_are_the_same_say_what_each_of_them_says():
    made, holdout = passes(5)
    scores = np.random.default_rng(1).normal(size=N)
    others = [scores[holdout.folds != k] for k in range(holdout.n_folds)]
    found = corrected(made, scores, scores, others)
    plain = made.measure(scores, made.start())
    np.testing.assert_allclose(found.sums, plain.sums)
    assert found.loss == pytest.approx(plain.loss)


def test_by_hand():
    """Ten rows of label 1: 4 right out of fold, 7 right where known, 6 right of the one kept."""
    made, _ = passes()
    every = SimpleNamespace(weights=np.array([10.0, 10.0]), labels=np.array([1, 0]))
    made.layout = SimpleNamespace(measured=SimpleNamespace(all=every, weights=every.weights))
    # rho = 3/6, and 1 - (1/2)^(1/2) = 0.293 of the 6 wrong ones are worth knowing to the one kept.
    trained, out_of_fold, known = (np.array([[v, 10 - v]]) for v in (6.0, 4.0, 7.0))
    found = made.unknown(trained, out_of_fold, known, 0.5)
    lost = 6 * (1 - 0.5**0.5)
    np.testing.assert_allclose(found, [[6 - lost, 4 + lost]])


def test_no_more_rows_are_decided_than_there_are():
    made, _ = passes()
    weights = CELLS.all.weights
    nobody, everybody = np.zeros((1, len(weights))), weights[np.newaxis]
    for trained, known in ((nobody, everybody), (everybody, nobody)):
        found = made.unknown(trained, everybody / 2, known, 0.5)
        assert (found >= 0).all() and (found <= weights).all()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 0.95))
def test_the_one_kept_loses_between_its_share_and_all_that_the_others_lose(right, more, share):
    made, _ = passes()
    weights = CELLS.all.weights
    out_of_fold = np.where(made.positive_cells, right, 1 - right) * weights
    gained = (1 - right) * more * weights
    known = np.where(made.positive_cells, out_of_fold + gained, out_of_fold - gained)
    found = made.unknown(known[np.newaxis], out_of_fold[np.newaxis], known[np.newaxis], share)[0]
    lost = np.abs(found - known)
    assert (lost >= share * gained - 1e-9).all() and (lost <= gained + 1e-9).all()


@pytest.mark.parametrize("chances", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("n_folds", [2, 5])
def test_what_learning_by_heart_is_worth_is_told_exactly(chances, n_folds):
    """A row is learned by heart at a rate of its chances, over the rows there are.

    Of rows that a booster would be wrong about, it is right about ``1 - exp(-chances / share)`` if
    it knows a share of all rows. The one kept knows them all.
    """
    made, _ = passes()
    weights, wrong = CELLS.all.weights, 0.4
    share = (n_folds - 1) / n_folds

    def positive(mistakes):
        return np.where(made.positive_cells, 1 - mistakes, mistakes) * weights

    trained = positive(wrong * np.exp(-chances))
    known = positive(wrong * np.exp(-chances / share))
    others = [Measured((known * share)[np.newaxis], 0.0)] * n_folds
    found = of_the_kept(
        Measured(trained[np.newaxis], 0.0), Measured(positive(wrong)[np.newaxis], 0.0), others,
        made.unknown,
    )  # fmt: skip
    np.testing.assert_allclose(found.sums[0], positive(wrong), rtol=1e-9)


def test_luck_of_the_one_kept_is_seen():
    """It decides more rows positively than the others, by luck, and knows no label by heart."""
    made, holdout = passes(5)
    rng = np.random.default_rng(2)
    scores = rng.normal(size=N)
    lucky = scores + 0.3
    others = [scores[holdout.folds != k] for k in range(holdout.n_folds)]
    found = corrected(made, lucky, scores, others)
    np.testing.assert_allclose(found.sums, made.measure(lucky, made.start()).sums)
