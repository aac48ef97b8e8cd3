"""Several classes: derivatives, counts, and cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.classes import moment_of
from fairboost.fairness.costs import in_units
from fairboost.fairness.two_sided import TwoSided
from fairboost.kernel.numpy_class_loops import decide, pushed
from fairboost.kernel.threads import Threads
from fairboost.tasks import multiclass
from fairboost.tasks.base import MemberWeights, Weights
from fairboost.tasks.layout import lay_out
from fairboost.tasks.multiclass import (
    COST_SHARPNESS,
    SHARPNESS,
    ClassRows,
    Multiclass,
)

COSTS = ((0.0, 1.0, 4.0), (1.0, 0.0, 2.0), (3.0, 1.0, 0.0))
EACH_COSTS = pytest.mark.parametrize("costs", [None, COSTS], ids=["likeliest", "cheapest"])


class DrawnRows(ClassRows):
    """Rows that tell what they were made of."""

    def __init__(self, task, codes, labels, weight, memberships, threads):
        super().__init__(task, codes, labels, weight, memberships, threads)
        self.codes, self.weight, self.costs = codes, weight, task.unit_costs
        self.labels = labels[codes]


def drawn(n=60, n_classes=3, n_groups=2, seed=0, weighted=True, **options):
    """Scores, and rows of random classes and groups with random weights."""
    rng = np.random.default_rng(seed)
    y, g = rng.integers(0, n_classes, n), rng.integers(0, n_groups, n)
    y[:n_classes] = np.arange(n_classes)
    weight = rng.uniform(0.5, 2.0, n).astype(np.float32) if weighted else None
    column = SensitiveColumn("g", g.astype(np.int32), tuple(range(n_groups)))
    cells = build_cells(y, [column], weight)
    known = rng.dirichlet(np.ones(n_groups), n).astype(np.float32)
    task = Multiclass(n_classes, 1.0, dtype=np.float64, **options)
    rows = DrawnRows(task, cells.codes, cells.labels, weight, [known], Threads())
    return rng.normal(size=(n, n_classes)), rows, cells


def stand_in(rows, scores):
    """The smooth decision, as the module says it."""
    if rows.costs is None:
        return softmax(SHARPNESS * scores, axis=1)
    return softmax(-COST_SHARPNESS * softmax(scores, axis=1) @ rows.costs, axis=1)


def objective(rows, scores, weights):
    """Loss and weighted stand-ins, row by row: what the gradient is the derivative of."""
    y, n = rows.labels, np.arange(len(scores))
    on = weights.on_cells[:-1].T[rows.codes].copy()
    on[n, y] += weights.on_cells[-1][rows.codes]
    for known, s in zip(rows.memberships, weights.soft, strict=True):
        by_row = np.einsum("ng,ngq->nq", known, s.on_groups.transpose(1, 0, 2)[y])
        on += by_row[:, :-1]
        on[n, y] += by_row[:, -1]
    loss = -log_softmax(scores, axis=1)[n, y]
    factors = rows.task.label_weights
    weight = 1.0 if rows.weight is None else rows.weight
    in_loss = weight if factors is None else weight * np.array(factors)[y]
    return in_loss * loss + weight * (on * stand_in(rows, scores)).sum(axis=1)


@EACH_COSTS
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("label_weights", [None, (1.0, 3.0, 0.5)])
def test_gradient_by_finite_differences(costs, weighted, label_weights):
    scores, rows, cells = drawn(weighted=weighted, costs=costs, label_weights=label_weights)
    rng = np.random.default_rng(1)
    soft = MemberWeights(rows.memberships[0], rng.normal(size=(2, 3, 4)))
    weights = Weights(rng.normal(size=(4, len(cells))), [soft])
    slopes = rows.descend(scores, weights)
    plain = Weights(
        np.zeros((4, len(cells))), [MemberWeights(soft.memberships, np.zeros((2, 3, 4)))]
    )
    assert slopes.loss == pytest.approx(objective(rows, scores, plain).sum())
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-5
        rise = objective(rows, scores + step, weights) - objective(rows, scores - step, weights)
        np.testing.assert_allclose(slopes.gradient[:, k], rise / 2e-5, atol=1e-6)
    assert (slopes.hessian > 0).all()


def test_hessian_is_that_of_the_loss_and_what_bends_upwards():
    scores, rows, cells = drawn(weighted=False)
    rows.memberships = []
    on = np.random.default_rng(2).normal(size=(4, len(cells)))
    hessian = rows.descend(scores, Weights(on)).hessian
    step, numeric = 1e-4, np.empty_like(hessian)
    for k in range(3):
        at = np.zeros(3)
        at[k] = step
        up, middle, down = (objective(rows, scores + d * at, Weights(on)) for d in (1, 0, -1))
        numeric[:, k] = (up - 2 * middle + down) / step**2
    p = softmax(scores, axis=1)
    of_loss = p * (1 - p)
    np.testing.assert_allclose(hessian, of_loss + 2 * np.maximum(numeric - of_loss, 0), atol=1e-4)


def test_two_classes_have_the_gradient_of_the_sigmoid():
    """With a sharpness of 1 the push on either score is that of one score, there and back."""
    scores, rows, _ = drawn(n_classes=2)
    p, on = softmax(scores, axis=1), np.random.default_rng(3).normal(size=(len(scores), 2))
    flat = p ** (1 / SHARPNESS)
    push, _ = pushed(rows.task.class_loss, flat / flat.sum(axis=1, keepdims=True), on)
    slope = SHARPNESS * p[:, 0] * p[:, 1] * (on[:, 1] - on[:, 0])
    np.testing.assert_allclose(push, np.stack([-slope, slope], axis=1), atol=1e-12)


@given(st.integers(3, 20), st.integers(2, 20), st.integers(0, 999), st.booleans())
@settings(max_examples=30)
def test_decisions_are_counted_by_cell(n_classes, n_groups, seed, weighted):
    scores, rows, cells = drawn(400, n_classes, n_groups, seed, weighted)
    measured = rows.measure(scores)
    weight = np.ones(400) if rows.weight is None else rows.weight.astype(float)
    best = scores.argmax(axis=1)
    for k in range(n_classes):
        expected = np.bincount(cells.codes, weight * (best == k), len(cells))
        np.testing.assert_allclose(measured.sums[k], expected)
    right = np.bincount(cells.codes, weight * (best == rows.labels), len(cells))
    np.testing.assert_allclose(measured.sums[-1], right)
    np.testing.assert_allclose(measured.sums[:-1].sum(axis=0), cells.weights)


def test_blocks_and_threads_change_nothing(monkeypatch):
    scores, rows, cells = drawn(500)
    on = Weights(
        np.random.default_rng(4).normal(size=(4, len(cells))),
        [MemberWeights(rows.memberships[0], np.ones((2, 3, 4)))],
    )
    whole, first = rows.descend(scores, on), rows.measure(scores)
    monkeypatch.setattr(multiclass, "BLOCK", 64)
    threads = Threads(3)
    cut = ClassRows(
        rows.task, rows.codes, rows.cell_labels, rows.weight, rows.memberships, threads
    )
    parts = cut.descend(scores, on)
    assert cut.loops.loops.shape[0] == 8
    assert parts.loss == pytest.approx(whole.loss)
    np.testing.assert_allclose(whole.gradient, parts.gradient, rtol=1e-13)
    np.testing.assert_allclose(whole.hessian, parts.hessian, rtol=1e-13)
    np.testing.assert_allclose(cut.measure(scores).sums, first.sums)
    threads.close()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_lie_as_the_scores_do_and_are_the_same(order, dtype):
    """So that LightGBM, which takes columns, and XGBoost, which takes rows, copy nothing."""
    scores, rows, cells = drawn(300)
    on = Weights(
        np.random.default_rng(4).normal(size=(4, len(cells))),
        [MemberWeights(rows.memberships[0], np.ones((2, 3, 4)))],
    )
    scores = scores.astype(dtype)
    expected = rows.descend(scores, on)
    other = ClassRows(
        rows.task, rows.codes, rows.cell_labels, rows.weight, rows.memberships, Threads()
    )
    found = other.descend(np.asarray(scores, order=order), on)
    assert (
        found.gradient.flags[f"{order}_CONTIGUOUS"] and found.hessian.flags[f"{order}_CONTIGUOUS"]
    )
    np.testing.assert_array_equal(found.gradient, expected.gradient)
    np.testing.assert_array_equal(found.hessian, expected.hessian)
    assert found.loss == expected.loss
    assert other.buffers(scores)[0] is found.gradient  # no new room in each round


def test_blocks_grow_where_sums_take_much_room():
    assert multiclass.block_of(200_000, 5 * 5 * 4) == multiclass.BLOCK
    large = 200 * 200 * 20
    assert 200_000 / multiclass.block_of(200_000, large) * large <= multiclass.MOST_SUMS


def test_costs_of_zero_and_one_decide_by_likelihood():
    scores = np.random.default_rng(5).normal(size=(200, 4))
    costs = in_units(1.0 - np.eye(4))
    np.testing.assert_array_equal(decide(scores, costs), decide(scores, None))
    np.testing.assert_array_equal(in_units(7.0 * (1.0 - np.eye(4))), costs)


def test_ties_go_to_the_first_class():
    assert decide(np.zeros((1, 3)), None).tolist() == [0]
    assert decide(np.zeros((1, 3)), in_units(1.0 - np.eye(3))).tolist() == [0]


def test_dense_ties_slow_multipliers_down():
    task = Multiclass(3)
    usual = task.stiffness(multiclass.ClassCut(multiclass.USUAL))
    assert task.stiffness(multiclass.ClassCut(2 * multiclass.USUAL)) == pytest.approx(usual / 2)
    assert task.stiffness(multiclass.ClassCut(0.0)) == usual


@pytest.mark.parametrize("n_classes", [3, 5, 20])
@pytest.mark.parametrize("n_groups", [2, 5, 20])
def test_constants_that_give_classes_alike(n_classes, n_groups):
    """A score for each group and class, which a fake engine moves: rates meet.

    Rows have noise in their scores, so that rates move little by little, and every group favours
    another class.
    """
    rng, n = np.random.default_rng(0), 200 * n_groups
    g = np.arange(n) % n_groups
    noise = rng.normal(size=(n, n_classes))
    favour = 2.0 * np.eye(n_classes)[np.arange(n_groups) % n_classes]
    y = (noise + favour[g] + rng.gumbel(size=noise.shape)).argmax(axis=1)
    column = SensitiveColumn("g", g.astype(np.int32), tuple(range(n_groups)))
    labels = [str(k) for k in range(n_classes)]
    constraints = [TwoSided(moment_of("given", (k,), labels), 0.1, "g") for k in range(n_classes)]
    game = Game(
        Multiclass(n_classes, 1.0), lay_out(build_cells(y, [column]), constraints), Control(), True
    )
    session, own = Session(game), np.zeros((n_groups, n_classes))
    for _ in range(150):
        gradient, hessian = session.play(noise + favour[g] + own[g])
        total = np.stack([np.bincount(g, column, n_groups) for column in gradient.T], axis=1)
        curve = np.stack([np.bincount(g, column, n_groups) for column in hessian.T], axis=1)
        own -= 0.2 * total / curve
    first, last = session.rounds[0], session.rounds[-1]
    assert first.violations.max() > 0.05
    assert last.violations.max() < 0.03
