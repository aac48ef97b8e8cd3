import numpy as np
import pytest

from fairboost.algorithm.multipliers import Ascent
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from tests.problems import MeanGap, rows, session


def game(constraints, seed=0):
    _, _, weight, cells = rows(seed)
    return session(cells, constraints, PROXIES["cross_entropy"], Ascent(0.1), sample_weight=weight)


def test_names_in_the_trace():
    found = game([parity("fnr", 0.0, by="h"), bound("fpr", 0.1), MeanGap()])
    assert found.game.inequalities == (
        "fnr[h=0]", "fnr[h=1]", "fpr<=0.1", "mean_gap[0]", "mean_gap[1]",
    )  # fmt: skip
    found.play(np.zeros(60))
    shown = found.record().to_frame().filter(like="rate: ").columns
    assert list(shown[:3]) == ["rate: fnr[h=0]", "rate: fnr[h=1]", "rate: fpr[everyone]"]


def test_equal_constraints_keep_a_column_each():
    found = game([parity("fnr", 0.0, by="h"), parity("fnr", 0.1, by="h")])
    assert found.game.inequalities[2:] == ("fnr[h=0] #2", "fnr[h=1] #2")
    found.play(np.zeros(60))
    columns = found.record().to_frame().columns
    assert columns.is_unique
    shown = [name for name in columns if name.startswith("rate: ")]
    assert shown == ["rate: fnr[h=0]", "rate: fnr[h=1]"]


def test_trace_has_a_row_per_round():
    found = game([parity("fpr", 0.0, by="g")])
    for t in range(5):
        found.play(np.random.default_rng(t).normal(size=60))
    frame = found.record().to_frame()
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]
    assert frame.notna().all(axis=None)


def test_no_constraint_is_the_plain_loss():
    found = game([])
    f = np.linspace(-2, 2, 60)
    gradient, _ = found.play(f)
    cells = found.game.layout.cells
    y = cells.labels[cells.codes]
    np.testing.assert_allclose(gradient, 1 / (1 + np.exp(-f)) - y, rtol=1e-6)
    assert found.record().to_frame().columns.tolist() == ["round", "loss"]


def test_a_round_is_a_function_of_state_and_scores():
    """The same state and scores give the same turn, whatever was played in between."""
    found = game([parity("fnr", 0.0, by="g"), bound("fpr", 0.1)])
    rng = np.random.default_rng(0)
    first, other = rng.normal(size=60), rng.normal(size=60)
    state = found.game.start()
    turn = found.game.play(state, first)
    gradient = turn.slopes.gradient.copy()
    after, round_ = turn.ascend()
    found.game.play(after, other).ascend()
    found.game.measure(after, other)
    again = found.game.play(state, first)
    np.testing.assert_array_equal(again.slopes.gradient, gradient)
    state_again, round_again = again.ascend()
    np.testing.assert_array_equal(round_again.violations, round_.violations)
    np.testing.assert_array_equal(state_again.dual.multipliers, after.dual.multipliers)
    assert not state.dual.multipliers.any()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]], ids=str)
def test_errors_are_those_of_the_group_that_others_are_compared_with(order):
    """Which is the one of largest rate, and not the one whose name comes first."""
    decided = np.repeat([0, 1, 0, 1, 0, 1], [50, 10, 4, 6, 15, 5])  # shares of 1/6, 3/5 and 1/4
    codes = np.repeat(np.array(order, np.int32), [60, 10, 20])
    y = np.arange(90, dtype=np.int32) % 2
    cells = build_cells(y, [SensitiveColumn("g", codes, (0, 1, 2))], None)
    found = session(cells, [parity("ppr", 0.0, by="g")], PROXIES["cross_entropy"], Ascent(0.1))
    errors = found.game.play(found.game.start(), decided - 0.5).ascend()[1].errors[order]
    small, large, middle = (p * (1 - p) / n for p, n in ((1 / 6, 60), (3 / 5, 10), (1 / 4, 20)))
    expected = np.sqrt([small + large, middle + large])
    np.testing.assert_allclose(errors[[0, 2]], expected, rtol=0.1)


@pytest.mark.parametrize("held", [None, "cross"])
def test_scores_of_rows_held_out_come_with_every_call_or_with_none(held):
    """Nothing is stashed: a call that misses them is an error, and not a measure of other rows."""
    _, _, _, cells = rows(0, n=120)
    chosen = choose(held, cells, 0.0, None, np.random.default_rng(0))
    found = session(
        cells, [parity("fnr", 0.0, by="g")], PROXIES["sigmoid"], Ascent(0.1), holdout=chosen
    )
    f = np.zeros(120)
    wrong, right = ((f, f), (f,)) if held is None else ((f,), (f, f))
    for call in (found.play, found.finish):
        with pytest.raises(ValueError, match=r"if, and only if, rows are held out; found holdout"):
            call(*wrong)
        call(*right)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_training_without_a_loss_stops(bad):
    """Here and after the last round; what was found before stays as it was."""
    found = game([parity("fpr", 0.0, by="g")])
    found.play(np.zeros(60))
    for call in (found.play, found.finish):
        with pytest.raises(InvalidInputError, match=r"diverged: after 1 rounds .* lower learning"):
            call(np.full(60, bad))
    assert found.record().to_frame().notna().all(axis=None)


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("convex", [False, True])
def test_multipliers_that_are_too_large_stop_it(proxy, convex):
    """The gradient is beyond single precision; neither is a warning shown, nor a tree grown."""
    _, _, _, cells = rows(0)
    parts = [parity("fnr", 0.0, by="h")], PROXIES[proxy], Ascent(1e300)
    found = session(cells, *parts, convex=convex)
    scores = np.where(cells.groups["h"] == 0, 1.0, -1.0)[cells.codes]
    found.play(scores)
    assert found.state.dual.multipliers.max() > 1e290
    with pytest.raises(InvalidInputError, match="multiplier_learning_rate"):
        found.play(scores)
