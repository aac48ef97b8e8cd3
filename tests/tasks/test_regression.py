"""The task of predicting a number: derivatives, sums, and cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.means import FIRST_LEVEL, NUMBERS, above, in_parts
from fairboost.fairness.numbers import Calibrated, EachAtMost, SameDistribution
from fairboost.fairness.two_sided import TwoSided
from fairboost.kernel.losses import Loss
from fairboost.metrics.sampling import law_of
from fairboost.tasks.base import MemberWeights, Weights
from fairboost.tasks.layout import Outcomes, lay_out
from fairboost.tasks.regression import (
    LOSS,
    PREDICTION,
    NumberCut,
    Regression,
    RegressionRows,
    RegressionSummary,
)

LOSSES = [
    Loss("squared"),
    Loss("absolute"),
    Loss("quantile", 0.8),
    Loss("huber", 0.9),
    Loss("pseudo_huber", 0.7),
    Loss("poisson", step=0.7),
    Loss("gamma"),
    Loss("tweedie", 1.5),
]
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
STEADY = Control(gain=0.1, damping=0.5)  # the fake engine takes larger steps than trees do


def drawn(loss, n=300, seed=0, exposed=True):
    """Scores, outcomes, cells of three groups, and weights in moments."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n) if not loss.log_link else rng.gamma(2.0, 1.0, n) + 0.01
    exposure = rng.uniform(0.2, 2.0, n) if exposed and loss.log_link else None
    weight = rng.uniform(0.5, 2.0, n).astype(np.float32)
    codes = rng.integers(0, 3, n).astype(np.int32)
    in_moments = weight if exposure is None else (weight * exposure).astype(np.float32)
    return rng.normal(size=n), Outcomes(y, weight, exposure), codes, in_moments


@EACH_LOSS
def test_curvature_is_the_hessian_to_be_expected(loss):
    """Of targets whose mean is the prediction; of residuals as large as the scale, or half."""
    rng = np.random.default_rng(0)
    task, prediction = Regression(loss, scale=0.5), 0.7
    if loss.log_link:
        y = rng.gamma(2.0, prediction / 2.0, 200_000)
    elif loss.renews_leaves:
        y = prediction + 0.5 * rng.choice([-1.0, 1.0], 200_000)
    elif loss.name == "pseudo_huber":
        y = prediction + np.array([-0.25, 0.25])
    else:
        y = np.full(2, prediction)
    scores = np.full(len(y), loss.score(prediction))
    expected = loss.slopes(scores, y)[1].mean()
    assert np.mean(task.curvature(np.array([prediction]))) == pytest.approx(expected, rel=0.01)


def layout_of(outcomes, codes, constraints, weight=None):
    group = SensitiveColumn("g", codes.astype(np.int32), tuple("abc"[: codes.max() + 1]))
    cells = build_cells(np.zeros(len(codes), np.int32), [group], weight)
    layout = lay_out(cells, constraints, sample_weight=weight)
    return layout.__class__(
        **{**vars(layout), "outcomes": outcomes, "measured_outcomes": outcomes}
    )


def total(rows, scores, on_cells):
    """Loss plus weighted quantities: what the gradient is the derivative of, row by row."""
    task, exposure = rows.task, 1.0 if rows.exposure is None else rows.exposure
    loss = rows.loss_weight * task.loss.value(scores, rows.y)
    prediction = task.loss.prediction(rows.per_exposure(scores, slice(None)))
    error = task.of_deviance * task.loss.value(scores, rows.y) / exposure
    on = on_cells[:, rows.codes]
    return loss + rows.weight * (on[PREDICTION] * prediction + on[LOSS] * error)


def held(rows, scores, factor, gradient):
    """A gradient, less what would push rows further up than their loss can hold them."""
    loss = rows.task.loss
    if loss.name not in ("gamma", "tweedie"):
        return gradient
    push = rows.weight * factor * loss.prediction(rows.per_exposure(scores, slice(None)))
    most = rows.loss_weight * np.exp((2 - loss.power) * scores) / loss.power
    assert 0 < np.mean(push < -most) < 0.6
    return np.maximum(gradient, gradient - push - most)


@EACH_LOSS
@pytest.mark.parametrize("quantity", [PREDICTION, LOSS], ids=["prediction", "loss"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_by_finite_differences(loss, quantity, sign):
    scores, outcomes, codes, weight = drawn(loss)
    rows = RegressionRows(Regression(loss, dtype=np.float64), codes, 3, outcomes, weight)
    on = np.zeros((FIRST_LEVEL, 3))
    on[quantity] = sign * np.array([0.3, -0.7, 1.1])
    rows.descend(scores, NumberCut(np.empty(0)), Weights(on))
    step = 1e-6
    up, down = (total(rows, scores + d, on) for d in (step, -step))
    smooth = np.abs(scores - outcomes.targets) > 1e-3
    expected = (up - down) / (2 * step)
    if quantity == PREDICTION:
        expected = held(rows, scores, on[PREDICTION, codes], expected)
    np.testing.assert_allclose(rows.gradient[smooth], expected[smooth], rtol=1e-4, atol=1e-5)
    assert (rows.hessian > 0).all()


@EACH_LOSS
def test_hessian_has_the_curvature_of_what_is_to_come_down(loss):
    scores, outcomes, codes, weight = drawn(loss)
    rows = RegressionRows(Regression(loss, dtype=np.float64), codes, 3, outcomes, weight)
    plain, pushed = np.zeros((2, FIRST_LEVEL, 3))
    pushed[PREDICTION], pushed[LOSS] = 0.5, 0.5
    rows.descend(scores, NumberCut(np.empty(0)), Weights(plain))
    before = rows.hessian.copy()
    rows.descend(scores, NumberCut(np.empty(0)), Weights(pushed))
    assert (rows.hessian > before).all()


@given(st.integers(1, 9), st.integers(0, 999), st.booleans())
@settings(max_examples=40)
def test_steps_push_by_hats(n_levels, seed, soft):
    rng = np.random.default_rng(seed)
    loss = Loss("squared")
    scores, outcomes, codes, _ = drawn(loss, seed=seed)
    thresholds, spread = np.sort(rng.normal(size=n_levels)), 0.8
    task = Regression(loss, above(n_levels), dtype=np.float64)
    steps = [m.quantity for m in task.parts]
    on = np.zeros((task.n_quantities, 3))
    on[steps] = rng.normal(size=(n_levels, 3))
    known = np.eye(3, dtype=np.float32)[codes]
    rows = RegressionRows(
        task, codes, 3, Outcomes(outcomes.targets), None, [known] if soft else []
    )
    weights = Weights(on)
    if soft:  # the same by probabilities of groups that are certain
        weights = Weights(np.zeros_like(on), [MemberWeights(known, on.T[:, np.newaxis, :])])
    rows.descend(scores, NumberCut(thresholds, spread), weights)
    first = thresholds[1] - thresholds[0] if n_levels > 1 else spread
    last = thresholds[-1] - thresholds[-2] if n_levels > 1 else spread
    knots = np.concatenate([[thresholds[0] - first], thresholds, [thresholds[-1] + last]])
    expected = scores - outcomes.targets
    for k in range(n_levels):
        hat = np.interp(scores, knots, np.eye(n_levels + 2)[k + 1])
        expected = expected + spread * on[steps[k], codes] * hat
    np.testing.assert_allclose(rows.gradient, expected, atol=1e-9)


@EACH_LOSS
def test_sums_by_cell_are_those_of_the_rows(loss):
    scores, outcomes, codes, weight = drawn(loss)
    task, thresholds = Regression(loss, above(4)), np.array([-0.8, -0.1, 0.4, 1.2])
    rows = RegressionRows(task, codes, 3, outcomes, weight)
    found = rows.measure(scores, NumberCut(thresholds))
    sums, squares = task.sums_of(found.sums, None), task.squares_of(found.sums, None)
    exposure = 1.0 if outcomes.exposure is None else outcomes.exposure
    plain = scores - np.log(exposure)
    errors = task.of_deviance * loss.value(scores, outcomes.targets) / exposure
    quantities = [loss.prediction(plain), outcomes.targets / exposure, errors]
    quantities += [(plain >= t).astype(float) for t in thresholds]
    numbers = [0, 1, 2, *(m.quantity for m in task.parts)]
    for k, q in zip(numbers, quantities, strict=True):
        for cell in range(3):
            of_cell = codes == cell
            assert sums[k, cell] == pytest.approx(weight[of_cell] @ q[of_cell])
            assert squares[k, cell] == pytest.approx(weight[of_cell] @ q[of_cell] ** 2)
    both = quantities[0] * quantities[1]
    products = task.products_of(found.sums, NUMBERS["prediction"], NUMBERS["actual"])
    for cell in range(3):
        of_cell = codes == cell
        assert products[cell] == pytest.approx(weight[of_cell] @ both[of_cell])
    expected = outcomes.weight @ loss.value(scores, outcomes.targets)
    assert found.loss == pytest.approx(expected)


def boost(session, keys, rounds, rate=0.3, offset=0.0, start=0.0):
    """A fake engine: a step per key, as trees would take that can tell all keys apart."""
    scores = np.full(len(keys), start) + offset
    for _ in range(rounds):
        gradient, hessian = session.play(scores)
        step = np.bincount(keys, gradient) / np.bincount(keys, hessian)
        scores = scores - rate * step[keys]
    session.finish(scores)
    return scores


def means(values, codes):
    return np.array([values[codes == g].mean() for g in range(codes.max() + 1)])


def two_groups(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < 0.3).astype(np.int64)
    return codes, rng


def test_equal_means_of_two_constants_is_the_pooled_mean():
    codes, rng = two_groups()
    y = rng.normal(size=len(codes)) + 2.0 * codes
    layout = layout_of(Outcomes(y), codes, [TwoSided(NUMBERS["prediction"], 0.0, "g")])
    task = Regression(Loss("squared"), dtype=np.float64)
    scores = boost(Session(Game(task, layout, STEADY, convex=True)), codes, 2_000)
    np.testing.assert_allclose(means(scores, codes), y.mean(), atol=1e-6)


def test_equal_rates_with_exposure_is_claims_over_years():
    """Poisson: with one constant for all, the best is all claims over all years."""
    codes, rng = two_groups(seed=1)
    years = rng.uniform(0.2, 1.0, len(codes))
    y = rng.poisson(years * np.where(codes, 0.4, 0.1)).astype(float)
    weight = (years / years.mean()).astype(np.float32)
    constraint = TwoSided(NUMBERS["prediction"], 0.0, "g")
    layout = layout_of(Outcomes(y, None, years), codes, [constraint], weight)
    task = Regression(Loss("poisson", step=0.7), dtype=np.float64)
    session = Session(Game(task, layout, STEADY, convex=True))
    scores = boost(session, codes, 6_000, offset=np.log(years), start=-2.0)
    rates = np.exp(scores - np.log(years))
    np.testing.assert_allclose(means(rates, codes), y.sum() / years.sum(), rtol=1e-3)


def test_a_model_that_cannot_fit_is_calibrated_by_the_constraint():
    """Keys mix the groups, so that the plain model overcharges one of them."""
    codes, rng = two_groups(n=4_000, seed=2)
    key = np.where(rng.random(len(codes)) < 0.8, codes, 1 - codes)
    y = rng.poisson(np.where(codes, 3.0, 1.0)).astype(float)
    task = Regression(Loss("poisson", step=0.7), dtype=np.float64)
    found = []
    for constraints in ([], [Calibrated(0.0, "g")]):
        layout = layout_of(Outcomes(y), codes, constraints)
        session = Session(Game(task, layout, STEADY, convex=True))
        scores = boost(session, key, 3_000)
        found.append(means(y, codes) / means(np.exp(scores), codes))
    assert abs(found[0] - 1).max() > 0.1
    np.testing.assert_allclose(found[1], 1.0, atol=0.01)


def test_no_group_loses_more_than_the_bound():
    """One constant for both groups: it moves to the group that loses most."""
    codes, rng = two_groups(n=4_000, seed=3)
    y = rng.normal(size=len(codes)) * 0.1 + 2.0 * codes
    key = np.zeros(len(codes), np.int64)
    task = Regression(Loss("squared"), dtype=np.float64)
    layout = layout_of(Outcomes(y), codes, [EachAtMost(NUMBERS["loss"], 1.2, "g")])
    scores = boost(Session(Game(task, layout, STEADY, convex=True)), key, 3_000)
    errors = means((scores - y) ** 2, codes)
    assert means((y.mean() - y) ** 2, codes)[1] > 1.5
    assert errors[1] == pytest.approx(1.2, abs=0.02)
    assert errors[0] < 1.2


def test_distributions_meet_where_scores_can_move():
    codes, rng = two_groups(n=6_000, seed=4)
    rank = rng.integers(0, 40, len(codes))
    y = rank / 20.0 + 0.8 * codes
    key = rank + 40 * codes
    task = Regression(Loss("squared"), above(7), dtype=np.float64)
    distance = []
    for constraints in ([], [SameDistribution(0.02, "g", 7)]):
        layout = layout_of(Outcomes(y), codes, constraints)
        session = Session(Game(task, layout, Control(), convex=True))
        scores = boost(session, key, 400, rate=0.1)
        at = np.sort(scores)
        both = [
            np.searchsorted(np.sort(scores[codes == g]), at) / (codes == g).sum() for g in (0, 1)
        ]
        distance.append(np.abs(both[0] - both[1]).max())
    assert distance[0] > 0.35
    assert distance[1] < 0.15


@pytest.mark.parametrize("constraint", [Calibrated(0.01, "g"), SameDistribution(0.05, "g", 3),
                                        EachAtMost(NUMBERS["loss"], 0.5, "g")],
                         ids=lambda c: type(c).__name__)  # fmt: skip
def test_pullbacks_are_the_derivatives_of_violations(constraint):
    rng = np.random.default_rng(0)
    _, outcomes, codes, _ = drawn(Loss("squared"))
    term = layout_of(outcomes, codes, [constraint]).terms[0]
    values = rng.uniform(0.3, 0.9, term.counted.shape).ravel()
    multipliers = rng.uniform(size=len(term.inequalities))
    found = constraint.pullback(term.read(values), multipliers).ravel()
    step = 1e-6
    for k in range(len(values)):
        unit = step * (np.arange(len(values)) == k)
        up, down = (constraint.violations(term.read(values + s * unit)) for s in (1, -1))
        assert found[k] == pytest.approx(multipliers @ (up - down) / (2 * step), abs=1e-6)


# Parts of the predictions


def indicator(task, thresholds, plain, moment):
    """Whether rows lie in the part of a moment, as 0 or 1."""
    ends = dict(zip([0.0, *task.levels, 1.0], [-np.inf, *thresholds, np.inf], strict=True))
    return ((plain >= ends[moment.low]) & (plain < ends[moment.high])).astype(float)


@EACH_LOSS
@pytest.mark.parametrize("soft", [False, True], ids=["groups", "memberships"])
def test_gradient_in_parts_by_finite_differences(loss, soft):
    """The part that a row lies in is held fixed."""
    scores, outcomes, codes, weight = drawn(loss)
    parts = in_parts(4)[:4]
    task = Regression(loss, parts, dtype=np.float64)
    on = np.zeros((task.n_quantities, 3))
    rng = np.random.default_rng(1)
    on[[PREDICTION, *(m.quantity for m in parts)]] = rng.normal(size=(5, 3))
    known = np.eye(3, dtype=np.float32)[codes]
    rows = RegressionRows(task, codes, 3, outcomes, weight, [known] if soft else [])
    weights = Weights(on)
    if soft:
        weights = Weights(np.zeros_like(on), [MemberWeights(known, on.T[:, np.newaxis, :])])
    plain = rows.per_exposure(scores, slice(None))
    thresholds = np.quantile(plain, task.levels)
    rows.descend(scores, NumberCut(thresholds), weights)
    inside = [indicator(task, thresholds, plain, m) for m in parts]
    np.testing.assert_array_equal(np.sum(inside, axis=0), 1.0)
    factor = on[PREDICTION, codes] + sum(
        on[m.quantity, codes] * held for m, held in zip(parts, inside, strict=True)
    )

    def lagrangian(f):
        r = loss.prediction(rows.per_exposure(f, slice(None)))
        return outcomes.weight * loss.value(f, outcomes.targets) + weight * factor * r

    step = 1e-6
    expected = (lagrangian(scores + step) - lagrangian(scores - step)) / (2 * step)
    expected = held(rows, scores, factor, expected)
    smooth = np.abs(scores - outcomes.targets) > 1e-3
    np.testing.assert_allclose(rows.gradient[smooth], expected[smooth], rtol=1e-4, atol=1e-5)
    assert (rows.hessian > 0).all()


@given(seed=st.integers(0, 999), count=st.integers(2, 12), loss=st.sampled_from(LOSSES))
@settings(max_examples=30)
def test_parts_add_up_to_the_whole(seed, count, loss):
    """Of predictions and actual figures, their squares and products, in every cell."""
    scores, outcomes, codes, weight = drawn(loss, seed=seed)
    task = Regression(loss, (*above(5), *in_parts(count)))
    thresholds = np.sort(np.random.default_rng(seed).normal(size=len(task.levels)))
    rows = RegressionRows(task, codes, 3, outcomes, weight)
    found = rows.measure(scores, NumberCut(thresholds)).sums
    for gathered in (task.sums_of(found, None), task.squares_of(found, None)):
        for quantity, of_parts in enumerate((in_parts(count)[:count], in_parts(count)[count:])):
            total = gathered[[m.quantity for m in of_parts]].sum(axis=0)
            np.testing.assert_allclose(total, gathered[quantity], rtol=1e-9, atol=1e-12)
    expected, actual = in_parts(count)[:count], in_parts(count)[count:]
    both = sum(task.products_of(found, e, a) for e, a in zip(expected, actual, strict=True))
    whole = task.products_of(found, NUMBERS["prediction"], NUMBERS["actual"])
    np.testing.assert_allclose(both, whole, rtol=1e-9, atol=1e-12)
    assert (task.products_of(found, expected[0], actual[1]) == 0).all()


def test_parts_and_steps_share_a_grid():
    """Steps push as they do alone, wherever parts are cut."""
    loss = Loss("squared")
    scores, outcomes, codes, _ = drawn(loss)
    rng, gradients = np.random.default_rng(3), []
    on_steps, quantiles = rng.normal(size=(3, 3)), np.linspace(-1.5, 1.5, 101)
    for parts in (above(3), (*above(3), *in_parts(10))):
        task = Regression(loss, parts, dtype=np.float64)
        on = np.zeros((task.n_quantities, 3))
        on[[m.quantity for m in above(3)]] = on_steps
        rows = RegressionRows(task, codes, 3, Outcomes(outcomes.targets))
        thresholds = np.interp(task.levels, np.linspace(0, 1, 101), quantiles)
        rows.descend(scores, NumberCut(thresholds, 0.8), Weights(on))
        gradients.append(rows.gradient.copy())
    first, last = np.interp([0.25, 0.75], np.linspace(0, 1, 101), quantiles)
    between = (scores >= first) & (scores <= last)
    assert between.sum() > 100
    np.testing.assert_allclose(gradients[0][between], gradients[1][between], atol=1e-9)


@pytest.mark.parametrize("name", ["poisson", "tweedie", "gamma", "squared"])
def test_a_share_of_0_has_a_deviation_without_a_warning(name):
    """No row of a group may lie above a quantile; warnings are errors in tests."""
    task = Regression(Loss(name, 1.5) if name == "tweedie" else Loss(name), above(3))
    moments, quantities = np.array([0.0, 0.5, 1.0]), np.array([m.quantity for m in above(3)])
    found = task.deviations(moments, moments, quantities)
    assert np.isfinite(found).all() and found[0] == found[2] == 0 < found[1]


def test_parts_of_other_sizes_in_one_fit_are_refused():
    with pytest.raises(
        ConstraintError, match=r"'prediction 1/10' and 'prediction 1/5' cut the sa"
    ):
        Regression.reading([*in_parts(10), *in_parts(5)], Loss("squared"))
    both = Regression.reading([*above(15), *in_parts(10)], Loss("squared"))
    assert len(both.levels) == 15 + 9 - 1  # one half is in both


def test_what_no_constraint_reads_is_not_measured():
    scores, outcomes, codes, weight = drawn(Loss("squared"))
    sizes = []
    for moments in ([], [NUMBERS["prediction"]], above(3), Calibrated(0.01).moments):
        task = Regression.reading(moments, Loss("squared"))
        rows = RegressionRows(task, codes, 3, outcomes, weight)
        measured = rows.measure(scores, NumberCut(np.zeros(len(task.levels))))
        sizes.append(measured.sums.shape)
        assert measured.loss == pytest.approx(rows.loss(scores))
    assert sizes == [(2, 3), (4, 3), (12, 3), (7, 3)]  # the loss always is


def mixed_halves(n=6_000):
    """Rows of low and high risk in two groups, and keys that tell groups apart in part only.

    Overall the groups have what the plain model expects of them, and not within the halves.
    """
    rng = np.random.default_rng(5)
    codes, high = rng.integers(0, 2, n), (rng.random(n) < 0.52).astype(np.int64)
    seen = np.where(rng.random(n) < 0.8, codes, 1 - codes)
    y = rng.gamma(50.0, np.array([[1.0, 2.0], [12.0, 11.0]])[high, codes] / 50.0)
    return codes, high, seen + 2 * high, y


def test_calibration_within_halves_has_the_known_answer():
    """Of each half two keys for two groups: a system of two equations."""
    codes, high, key, y = mixed_halves()
    task_of = {None: (), 2: in_parts(2)}
    found = {}
    for within in (None, 2):
        constraint = Calibrated(0.0, "g", within)
        layout = layout_of(Outcomes(y), codes, [constraint])
        task = Regression(Loss("poisson", step=0.7), task_of[within], dtype=np.float64)
        session = Session(Game(task, layout, STEADY, convex=True))
        scores = boost(session, key, 3_000)
        found[within] = np.exp([scores[key == k][0] for k in range(4)])
    solved = np.empty(4)
    for half in (0, 1):
        of_half = high == half
        counts = [[np.sum(of_half & (codes == g) & (key == k + 2 * half)) for k in (0, 1)]
                  for g in (0, 1)]  # fmt: skip
        actual = [y[of_half & (codes == g)].sum() for g in (0, 1)]
        solved[2 * half : 2 * half + 2] = np.linalg.solve(np.array(counts, float), actual)
    np.testing.assert_allclose(found[2], solved, rtol=0.01)
    assert np.abs(found[None] / solved - 1).max() > 0.05


def test_errors_of_ratios_in_parts_are_those_of_samples():
    """The spread of A/E in a part over samples, against the covariances of one of them."""
    rng = np.random.default_rng(0)
    constraint = Calibrated(0.0, "g", 3)
    task = Regression.reading(constraint.moments, Loss("poisson"))
    cut, n, ratios, errors = NumberCut(np.array([-0.4, 0.5])), 900, [], []
    for _ in range(300):
        codes, f = rng.integers(0, 2, n), rng.normal(size=n)
        y = rng.poisson(np.exp(f)).astype(float)
        layout = layout_of(Outcomes(y), codes, [constraint])
        (term,), cells = layout.terms, layout.cells
        sums = RegressionRows(task, cells.codes, len(cells), Outcomes(y)).measure(f, cut).sums
        game = Game(task, layout, STEADY, convex=True)
        moments = game.measured_map.means(task.sums_of(sums, cells.weights))
        squares = game.measured_map.means(task.squares_of(sums, cells.weights))
        summary = RegressionSummary(cells, 1.0, task)
        variances = task.variances(moments, squares, term.rows.ravel())
        law = law_of(summary._of_term(term, moments, variances, sums), term.rows)
        read, units = term.read(moments), np.eye(len(term.inequalities))
        slopes = np.stack([constraint.as_judged.pullback(read, unit) for unit in units])
        errors.append(law.errors(slopes, read.values, term.rows)[: len(units) // 2])
        ratios.append(constraint.away(read).ravel())
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(ratios, axis=0), rtol=0.2)


def test_a_single_row_in_a_part_is_no_certain_ratio():
    rng = np.random.default_rng(1)
    codes, f = np.repeat([0, 1], 200), rng.normal(size=400)
    f[codes == 1] = np.where(np.arange(200) == 0, -3.0, 3.0)  # of group b one row in part 1
    y = rng.poisson(np.exp(f)) + 0.0
    constraint = Calibrated(0.1, "g", 2)
    layout = layout_of(Outcomes(y), codes, [constraint])
    task = Regression.reading(constraint.moments, Loss("poisson"))
    game = Game(task, layout, STEADY, convex=True)
    rows = RegressionRows(task, layout.cells.codes, len(layout.cells), Outcomes(y))
    sums = rows.measure(f, NumberCut(np.zeros(1))).sums
    moments = game.measured_map.means(task.sums_of(sums, layout.cells.weights))
    (term,), summary = layout.terms, RegressionSummary(layout.cells, 1.0, task)
    squares = game.measured_map.means(task.squares_of(sums, layout.cells.weights))
    variances = task.variances(moments, squares, term.rows.ravel())
    law = law_of(summary._of_term(term, moments, variances, sums), term.rows)
    read = term.read(moments)
    of_row = np.eye(len(term.inequalities))[term.inequalities.index("A/E[g=b, part 1 of 2] above")]
    slope = constraint.as_judged.pullback(read, of_row)[np.newaxis]
    assert law.errors(slope, read.values, term.rows)[0] > 1.0  # of a count of 0.05
