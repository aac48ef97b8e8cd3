"""The record of a training: what it says of the rounds, and what it does not hold."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from fairboost.algorithm.multipliers import Control
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import parity
from fairboost.fairness.operating_points import at_fpr
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.two_sided import two_sided
from tests.problems import rows, session

N = 240


@pytest.fixture(params=[0.0, at_fpr(0.2)], ids=["fixed", "moving"])
def played(request):
    y, _, _, cells = rows(1, n=N)
    held = choose(0.3, cells, 0.0, None, np.random.default_rng(0))
    found = session(
        cells.among(held.trained), [two_sided(parity("fpr", 0.0, by="g"))], PROXIES["sigmoid"],
        Control(), holdout=held, convex=True, threshold=request.param,
    )  # fmt: skip
    scores = [np.random.default_rng(t).normal(0, 2, len(y)) for t in range(4)]
    for f in scores[:3]:
        found.play(f[held.trained], f[~held.trained])
    found.finish(scores[3][held.trained], scores[3][~held.trained])
    return found, found.record()


def test_iterates_are_one_more_than_rounds(played):
    found, record = played
    assert len(record.rounds) == 3 and len(record.iterates) == 4
    assert record.iterates[3] is record.after_last
    assert record.column("held_out_loss").shape == (4,)
    assert record.column("violations").shape == (4, len(record.inequalities))
    assert record.column("held-out accuracy").tolist() == [
        r.figures["held-out accuracy"] for r in record.iterates
    ]
    np.testing.assert_array_equal(record.multipliers, found.state.dual.multipliers)


def test_a_round_has_the_multipliers_that_made_its_gradient(played):
    """Those of the first are none; those that the last left are not yet in any round."""
    _, record = played
    assert not record.rounds[0].multipliers.any()
    assert record.rounds[1].multipliers.any()
    np.testing.assert_array_equal(record.after_last.multipliers, record.multipliers)


def test_moments_are_those_of_each_term(played):
    _, record = played
    (rates,) = record.moments_of(-1)
    np.testing.assert_array_equal(rates, record.after_last.moments)
    frame = record.to_frame()
    shown = frame.filter(like="rate: ").to_numpy()
    np.testing.assert_array_equal(shown, record.column("moments")[:3])


def test_the_threshold_is_shown_where_it_moves(played):
    found, record = played
    moves = found.game.task.point is not None
    assert ("threshold" in record.to_frame()) == moves


def test_a_record_cannot_be_changed_and_holds_no_rows(played):
    _, record = played
    with pytest.raises(FrozenInstanceError):
        record.confidence = 0.5
    held = [record.holdout.folds, record.holdout.outside_weight]
    assert held == [None, None] and record.holdout.measured.codes.size == 0


def test_playing_on_leaves_an_earlier_record_alone(played):
    found, record = played
    before = record.to_frame()
    held = found.game.layout.holdout
    f = np.zeros(N)
    found.play(f[held.trained], f[~held.trained])
    assert record.to_frame().equals(before) and len(found.record().rounds) == 4
