"""Two labels with losses and probabilities: gradients, sums, and what ordinary fits do not pay."""

from dataclasses import replace

import numpy as np
import pytest

from fairboost.algorithm.game import Game, Session
from fairboost.exceptions import ConstraintError
from fairboost.fairness.calibration import CalibratedScores
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.label_moments import (
    ERROR,
    FIRST_PART,
    GROUP_LOSS,
    LOSS,
    PROBABILITY,
    WRONG,
    WRONG_RATES,
)
from fairboost.fairness.minimax import Minimax
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.two_sided import two_sided
from fairboost.tasks.base import MemberWeights, Weights
from fairboost.tasks.binary import Binary
from fairboost.tasks.binary_means import BinaryMeans
from fairboost.tasks.layout import lay_out
from tests.problems import rows

CONSTRAINTS = {
    "loss": [Minimax(GROUP_LOSS, "g")],
    "wrong": [Minimax(WRONG_RATES["fnr"], "g"), bound("error", 0.2)],
    "probability": [CalibratedScores(0.02, "g")],
    "parts": [CalibratedScores(0.02, "g", 3)],
    "all": [
        Minimax(GROUP_LOSS, "h"), CalibratedScores(0.02, "g", 3), parity("fnr", 0.01, by="g"),
    ],
}  # fmt: skip


def task_of(layout, proxy="sigmoid", threshold=0.0, label_weights=(1.0, 1.0)):
    plain = Binary(PROXIES[proxy], threshold, True, label_weights, np.float64)
    moments = [m for t in layout.terms for m in t.moments]
    return BinaryMeans.reading(plain, layout.cells.labels, moments)


def session_of(cells, constraints, player, **options):
    layout = lay_out(cells, [two_sided(c) for c in constraints])
    return Session(Game(task_of(layout, **options), layout, player, True))


def passes_of(constraints, seed=1, weighted=True, **options):
    y, _columns, weight, cells = rows(seed=seed, weighted=weighted)
    layout = lay_out(cells, [two_sided(c) for c in constraints], sample_weight=weight)
    task = task_of(layout, **options)
    needs = np.ones((task.n_quantities, len(cells)), bool)
    w = np.ones(len(y)) if weight is None else weight.astype(float)
    return y, w, cells, task, task.on(layout, needs)


def on_rows(values, codes):
    return values[:, codes]


@pytest.mark.parametrize("proxy", ["sigmoid", "cross_entropy"])
@pytest.mark.parametrize("threshold", [0.0, 0.7])
@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_gradient_is_the_derivative_of_what_is_weighed(constraints, threshold, proxy):
    y, w, cells, task, passes = passes_of(constraints, threshold=threshold, proxy=proxy)
    rng = np.random.default_rng(2)
    f = rng.normal(0, 2, len(y))
    cut = passes.place(f, passes.start())
    on_cells = rng.uniform(0.1, 1, (task.n_quantities, len(cells)))
    found = passes.descend(f, cut, Weights(on_cells))
    ends = np.asarray(getattr(cut, "ends", ()))
    part = np.searchsorted(ends, f, side="right")
    on, step = on_rows(on_cells, cells.codes), PROXIES[proxy]

    def value(f):
        p, loss = 1 / (1 + np.exp(-f)), np.where(y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
        total = loss * (1 + on[WRONG] + on[LOSS]) + on[PROBABILITY] * p
        total += on[0] * step.value(f - threshold) + on[1] * step.value(threshold - f)
        if task.n_parts:  # the part is held fixed
            total += on[FIRST_PART + 2 * part, np.arange(len(f))] * p
        return w * total

    h = 1e-5
    np.testing.assert_allclose(
        found.gradient, (value(f + h) - value(f - h)) / (2 * h), atol=1e-7, rtol=1e-6
    )
    assert (found.hessian > 0).all()


@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_sums_and_moments_are_those_of_the_rows(constraints):
    y, w, cells, task, passes = passes_of(constraints)
    f = np.random.default_rng(3).normal(0, 2, len(y))
    cut = passes.place(f, passes.start())
    measured = passes.measure(f, cut)
    found = task.sums_of(measured.sums, cells.weights)
    p, loss = 1 / (1 + np.exp(-f)), np.where(y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
    part = np.searchsorted(np.asarray(getattr(cut, "ends", ())), f, side="right")

    def by_cell(values):
        return np.bincount(cells.codes, w * values, len(cells))

    expected = {0: f >= 0, 1: f < 0, WRONG: (f >= 0) != (y == 1), 5: y}
    if LOSS in task.reads:
        expected[LOSS] = loss
    if PROBABILITY in task.reads:
        expected[PROBABILITY] = p
    for k in range(task.n_parts):
        expected[FIRST_PART + 2 * k] = p * (part == k)
        expected[FIRST_PART + 2 * k + 1] = y * (part == k)
    for quantity, values in expected.items():
        np.testing.assert_allclose(found[quantity], by_cell(values), atol=1e-12)
    if task.has_means:
        squares = task.squares_of(measured.sums, cells.weights)
        for quantity, values in expected.items():
            np.testing.assert_allclose(
                squares[quantity], by_cell(np.square(values, dtype=float)), atol=1e-12
            )
    assert measured.loss == pytest.approx((w * loss).sum())


def test_probable_groups_weigh_as_observed_ones_where_they_are_certain():
    y, _, cells, task, passes = passes_of(CONSTRAINTS["parts"])
    rng = np.random.default_rng(4)
    f = rng.normal(0, 2, len(y))
    cut = passes.place(f, passes.start())
    on_groups = rng.uniform(0.1, 1, (3, 2, task.n_quantities))
    groups = cells.groups["g"][cells.codes]
    members = (np.arange(3) == groups[:, None]).astype(np.float32)
    on_cells = np.zeros((task.n_quantities, len(cells)))
    known = cells.groups["g"] >= 0
    on_cells[:, known] = on_groups[cells.groups["g"][known], cells.labels[known]].T
    observed = passes.descend(f, cut, Weights(on_cells))
    g, h = observed.gradient.copy(), observed.hessian.copy()
    nothing = np.zeros_like(on_cells)
    soft = passes.descend(f, cut, Weights(nothing, [MemberWeights(members, on_groups)]))
    np.testing.assert_allclose(soft.gradient, g, rtol=1e-6)
    np.testing.assert_allclose(soft.hessian, h, rtol=1e-6)


def test_blocks_and_threads_do_not_matter(monkeypatch):
    y, _, cells, task, passes = passes_of(CONSTRAINTS["all"])
    f = np.random.default_rng(5).normal(0, 2, len(y))
    cut = passes.place(f, passes.start())
    on_cells = np.random.default_rng(6).uniform(0, 1, (task.n_quantities, len(cells)))
    whole = passes.measure(f, cut).sums
    slopes = passes.descend(f, cut, Weights(on_cells)).gradient.copy()
    passes.trained.blocks = [slice(lo, lo + 7) for lo in range(0, len(y), 7)]
    np.testing.assert_allclose(passes.measure(f, cut).sums, whole, rtol=1e-12)
    for k, block in enumerate(passes.trained.blocks):
        assert k < len(y)
        assert block.stop - block.start == 7
    np.testing.assert_allclose(passes.descend(f, cut, Weights(on_cells)).gradient, slopes)


def test_other_numbers_of_parts_are_refused():
    with pytest.raises(ConstraintError, match="same number of parts"):
        passes_of([CalibratedScores(0.1, "g", 2), CalibratedScores(0.1, "h", 3)])


def test_an_ordinary_fit_has_the_ordinary_task():
    """Constraints on rates alone read two quantities, and nothing else is computed."""
    from fairboost.engines.port import LossTerms
    from fairboost.model.estimator import FairGBMClassifier

    _, _, _, cells = rows(seed=1)
    for constraint, kind in (
        (parity("fnr", 0.1, by="g"), Binary),
        (bound("error", 0.2), BinaryMeans),
    ):
        options = FairGBMClassifier(constraint=constraint)._options()
        layout = lay_out(cells, options.constraints(["g", "h"]))
        assert type(options.task(layout, LossTerms(0.0, (1.0, 1.0)))) is kind


def test_weights_of_labels_scale_what_is_descended_on_and_not_what_is_measured():
    y, w, cells, task, passes = passes_of(CONSTRAINTS["loss"], label_weights=(0.5, 3.0))
    f = np.random.default_rng(3).normal(0, 2, len(y))
    cut = passes.start()
    loss = np.where(y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
    found = task.sums_of(passes.measure(f, cut).sums, cells.weights)[LOSS]
    np.testing.assert_allclose(found, np.bincount(cells.codes, w * loss, len(cells)))
    nothing = np.zeros((task.n_quantities, len(cells)))
    plain = passes.descend(f, cut, Weights(nothing)).gradient.copy()
    nothing[LOSS] = 1.0  # as much again
    np.testing.assert_allclose(passes.descend(f, cut, Weights(nothing)).gradient, 2 * plain)


def test_the_task_is_read_off_the_moments():
    task = passes_of([bound("error", 0.2)])[3]
    assert task.reads == {ERROR.quantity}
    assert not task.has_means
    assert replace(task, n_parts=2).cut_moves
