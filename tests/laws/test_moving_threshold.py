"""A threshold that follows the scores: the gradient is that of the proxies centred at it.

The threshold is taken as given when gradients are made; that it will move with the scores is for
the next round to see.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from fairboost.algorithm.multipliers import Ascent, Control, Rest
from fairboost.data import holdout
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.row_pass import PassRules, RowPass
from fairboost.tasks.binary import DecisionCut
from tests.problems import ALL_CONSTRAINTS, proxy_lagrangian, rows, session

POINTS = {"fpr": at_fpr(0.2), "tpr": at_tpr(0.6), "budget": at_positive_rate(0.1)}
ALL_POINTS = pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
PATHS = {
    **PROXIES,
    "sigmoid, general": Proxy("sigmoid", PROXIES["sigmoid"].evaluate),
}


def rng(seed=0):
    return np.random.default_rng(seed)


def game(cells, constraints, point, weight=None, *, convex=True, proxy="sigmoid", **options):
    made = session(
        cells,
        [two_sided(c) for c in constraints] if convex else constraints,
        PATHS[proxy],
        options.pop("player", Ascent(1.0)),
        convex=convex,
        threshold=point,
        sample_weight=weight,
        dtype=np.float64,
        **options,
    )
    multipliers = rng(5).uniform(0.1, 1, len(made.game.inequalities))
    made.state = made.game.start(multipliers)
    return made


def same_at(lagrangian, cells, constraints, threshold, **options):
    """One of the same state, its threshold given and not found."""
    fixed = game(cells, constraints, threshold, **options)
    fixed.state = replace(lagrangian.state, cut=DecisionCut(threshold))
    return fixed


# The gradient


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("constraints", ["equalized odds", "everything", "bound fnr"])
@pytest.mark.parametrize("proxy", ["cross_entropy", "sigmoid"])
@ALL_POINTS
def test_the_papers_gradient_is_the_derivative_with_proxies_centred_at_the_threshold(
    point, proxy, constraints, weighted
):
    y, columns, weight, cells = rows(seed=1, n=120, weighted=weighted)
    wanted = ALL_CONSTRAINTS[constraints]
    lagrangian = game(cells, wanted, point, weight, convex=False, proxy=proxy)
    f = rng(2).normal(0, 2, len(y))
    multipliers = lagrangian.state.dual.multipliers
    gradient, _ = lagrangian.play(f)
    threshold = point.threshold(f, y, weight)
    assert lagrangian.state.cut.threshold == threshold and abs(threshold) > 0.1

    def value(scores):
        return proxy_lagrangian(
            scores, y, columns, weight, wanted, multipliers, PATHS[proxy], threshold, (1.0, 1.0)
        )

    step = 1e-5
    for i in range(0, len(y), 7):
        e = np.zeros(len(y))
        e[i] = step
        expected = (value(f + e) - value(f - e)) / (2 * step)
        assert gradient[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("constraints", ["equalized odds", "everything", "crossed"])
@pytest.mark.parametrize("proxy", PATHS)
@ALL_POINTS
def test_the_convex_gradient_is_that_of_the_same_threshold_given(
    point, proxy, constraints, weighted
):
    """Which tests/laws/test_convex_gradient.py holds against finite differences."""
    y, _, weight, cells = rows(seed=1, n=120, weighted=weighted)
    wanted = ALL_CONSTRAINTS[constraints]
    lagrangian = game(cells, wanted, point, weight, proxy=proxy)
    for t in range(3):  # it moves from round to round
        f = rng(t).normal(t - 1, 2, len(y))
        threshold = point.threshold(f, y, weight)
        fixed = same_at(lagrangian, cells, wanted, threshold, weight=weight, proxy=proxy)
        expected = [part.copy() for part in fixed.play(f)]
        found = lagrangian.play(f)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(lagrangian.rounds[-1].moments, fixed.rounds[-1].moments)


@ALL_POINTS
def test_at_a_shifted_threshold_the_sigmoid_is_differentiated_where_it_is(point):
    """Finite differences by row, of the sign-aware form, for one parity by hand."""
    y, columns, _, cells = rows(seed=3, n=120)
    lagrangian = game(cells, [parity("fpr", 0.0, by="g")], point)
    coef = lagrangian.state.coefficients
    f = rng(4).normal(-2, 2, len(y))
    gradient, _ = lagrangian.play(f)
    t = point.threshold(f, y)
    members = [(y == 0) & (columns[0].codes == g) for g in range(3)]
    on = sum(len(y) / m.sum() * coef[g] * m for g, m in enumerate(members))

    def value(scores):
        loss = np.logaddexp(0, np.where(y == 1, -scores, scores))
        return loss + on * expit(scores - t)  # 1 - s(-u) is s(u): both sides are the same

    step = 1e-5
    expected = (value(f + step) - value(f - step)) / (2 * step)
    np.testing.assert_allclose(gradient, expected, atol=1e-7, rtol=1e-6)
    assert set(np.sign(on)) == {-1, 0, 1}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", ["share", "set"])
@ALL_POINTS
def test_after_watching_it_is_the_threshold_of_the_rows_watched(point, kind, weighted):
    y, _, weight, both = rows(2, n=240, weighted=weighted)
    if kind == "share":
        held = choose(0.4, both, 0.0, weight, rng())
        at = held.folds == 1
    else:
        at = np.arange(240) >= 140
        outside = None if weight is None else weight[at]
        seen = both.among(at, weight)
        held = holdout.Holdout("set", "a set", measured=seen, outside_weight=outside)
    inside, outside = (None, None) if weight is None else (weight[~at], weight[at])
    cells, wanted = both.among(~at, weight), ALL_CONSTRAINTS["equalized odds"]
    lagrangian = game(cells, wanted, point, inside, holdout=held)
    for t in range(3):
        f = rng(t).normal(1 - t, 2, len(y))
        threshold = point.threshold(f[at], y[at], outside)
        fixed = same_at(lagrangian, cells, wanted, threshold, weight=inside)
        expected = fixed.play(f[~at])[0].copy()
        found = lagrangian.play(f[~at], f[at])[0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert lagrangian.rounds[-1].cut.threshold == threshold
        said = lagrangian.record().to_frame()["threshold"].iloc[-1]
        assert said == np.float32(expit(threshold))


@ALL_POINTS
def test_in_cross_fitting_it_is_the_threshold_of_scores_out_of_fold(point):
    """Followers take their round at the same threshold."""
    y, _, _, cells = rows(4, n=240)
    held = choose("cross", cells, 0.0, None, rng())
    wanted = ALL_CONSTRAINTS["equalized odds"]
    lagrangian = game(cells, wanted, point, holdout=held)
    for t in range(3):
        scores = rng(t).normal(1 - t, 2, (held.n_folds, len(y)))
        kept_scores = rng(10 + t).normal(0, 2, len(y))
        out_of_fold = scores[held.folds, np.arange(len(y))]
        last = point.threshold(out_of_fold, y)
        fixed = same_at(lagrangian, cells, wanted, last)
        expected = fixed.play(kept_scores)[0].copy()
        theirs = [same_at(lagrangian, cells, wanted, last).play(s)[0].copy() for s in scores]
        found = lagrangian.play(kept_scores, out_of_fold)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert lagrangian.state.cut.threshold == last
        for k, expected in enumerate(theirs):
            kept = held.folds != k
            found = lagrangian.follow(k, scores[k][kept])[0]
            np.testing.assert_allclose(found, expected[kept], rtol=1e-9, atol=1e-12)


# Both ways to the sigmoid

FAR = np.array([50.0, 700.0, 350.0])


def row_pass(proxy, threshold, n=2_000):
    cells = rng(0).integers(0, 4, n).astype(np.int32)
    labels = np.array([0, 1, 0, 1], np.int32)
    weight = rng(1).random(n).astype(np.float32)
    rules = PassRules(
        PATHS[proxy], np.ones((2, 4), bool), threshold == 0.0, True, dtype=np.float64
    )
    return RowPass(cells, labels, (1.0, 2.0), weight, rules)


@pytest.mark.parametrize("moved", [False, True], ids=["given", "moved"])
@pytest.mark.parametrize("threshold", [-650.0, -50.0, -5.0, -0.7, 0.0, 3.0, 50.0, 360.0, 650.0])
def test_the_slope_read_off_the_loss_is_that_of_the_sigmoid(threshold, moved):
    fused, general = (row_pass("sigmoid", None if moved else threshold) for _ in range(2))
    f = rng(2).normal(0, 3, 2_000)
    f[:500] += threshold
    f[500:506] = np.concatenate([FAR, -FAR])
    f[506:510] = threshold, np.nextafter(threshold, 1e9), threshold + 1e-6, threshold - 40
    on_cells = np.array([[0.5, 0.2, 0.0, 30.0], [0.7, 0.0, 0.4, 2.0]])
    loss = fused.descend(f, threshold, on_cells)
    sums, _ = general.evaluate(f, threshold, on_cells)
    positive, measured_loss = fused.measure(f, threshold)
    np.testing.assert_array_equal(positive, sums.positive)
    expected = sums.loss @ np.array([1.0, 2.0, 1.0, 2.0])
    assert loss == pytest.approx(expected, rel=1e-12) and measured_loss == loss
    np.testing.assert_allclose(fused.gradient, general.gradient, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(fused.hessian, general.hessian, rtol=1e-9, atol=1e-13)
    assert np.isfinite(fused.gradient).all() and (fused.hessian >= 0).all()


# Shifts


EIGHTHS = st.integers(-20, 20).map(lambda k: k / 8)
"""Their sums are exact, and no probability is so near to 1 that it stands for several scores."""


@given(
    scores=st.lists(EIGHTHS, min_size=60, max_size=60),
    shift=EIGHTHS,
    point=st.sampled_from(list(POINTS.values())),
    weighted=st.booleans(),
)
@settings(max_examples=60)
def test_shifting_all_scores_shifts_the_threshold_and_leaves_rates_alone(
    scores, shift, point, weighted
):
    _, _, weight, cells = rows(seed=0, n=60, weighted=weighted)
    constraints = [parity("fpr", 0.0, by="g"), parity("ppr", 0.0, by="h"), bound("fnr", 0.5)]
    f = np.array(scores)
    here, there = (game(cells, constraints, point, weight, player=Rest()) for _ in range(2))
    here.play(f)
    there.play(f + shift)
    apart = there.state.cut.threshold - here.state.cut.threshold
    assert apart == pytest.approx(shift, abs=1e-4)  # what is next to all scores keeps a distance
    np.testing.assert_array_equal(there.rounds[-1].moments, here.rounds[-1].moments)
    np.testing.assert_array_equal(there.rounds[-1].sums, here.rounds[-1].sums)


@given(
    scores=st.lists(EIGHTHS, min_size=60, max_size=60),
    point=st.sampled_from(list(POINTS.values())),
    weighted=st.booleans(),
)
@settings(max_examples=60)
def test_the_target_is_kept_in_every_round(scores, point, weighted):
    _, _, weight, cells = rows(seed=0, n=60, weighted=weighted)
    lagrangian = game(cells, ALL_CONSTRAINTS["equalized odds"], point, weight, player=Control())
    for t in range(3):
        lagrangian.play(np.roll(scores, t))
        counts = point.rate.counts(cells.labels)
        found = lagrangian.rounds[-1].sums[0][counts].sum() / cells.weights[counts].sum()
        if point.at_least:
            assert found >= point.target - 1e-9
        else:
            assert found <= point.target + 1e-9
    assert np.isfinite(lagrangian.state.dual.multipliers).all()


# Scores that fly apart


def steps_of(scores, cells, point=POINTS["fpr"]):
    """Multipliers after one round, from none."""
    lagrangian = game(cells, [parity("fpr", 0.0, by="g")], point, player=Control())
    lagrangian.state = lagrangian.game.start(np.zeros(len(lagrangian.game.inequalities)))
    lagrangian.play(scores)
    return lagrangian.state.dual.multipliers, lagrangian


@pytest.mark.parametrize("level", [-3.0, -7.0])
def test_the_further_apart_scores_are_the_larger_are_steps_of_multipliers(level):
    """Decisions are the same, and so are violations: only the distances differ."""
    *_, cells = rows(seed=0, n=400)
    apart = rng(3).normal(size=400)
    found = []
    for scale in (0.1, 0.5, 4.0, 40.0):
        threshold = POINTS["fpr"].among(scale * apart[cells.labels[cells.codes] == 0])
        steps, lagrangian = steps_of(scale * apart - threshold + level, cells)
        assert lagrangian.state.cut.threshold == pytest.approx(level)
        assert steps.max() > 0
        found.append(steps)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)  # close together is not too close
    ratios = [(found[k + 1][found[0] > 0] / found[k][found[0] > 0]) for k in (1, 2)]
    assert (ratios[0] > 4).all() and (ratios[1] > 1).all()


def test_steps_are_never_larger_than_at_even_odds():
    *_, cells = rows(seed=0, n=400)
    apart = 40 * rng(3).normal(size=400)
    threshold = POINTS["fpr"].among(apart[cells.labels[cells.codes] == 0])
    near, far = (steps_of(apart - threshold + level, cells)[0] for level in (0.0, -4.0))
    assert (far <= near).all()
    np.testing.assert_allclose(far, near, rtol=1e-6)  # so far apart that both have the limit


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@ALL_POINTS
def test_what_is_wrong_of_decisions(point, weighted):
    y, _, weight, cells = rows(seed=1, n=300, weighted=weighted)
    lagrangian = game(cells, ALL_CONSTRAINTS["equalized odds"], point, weight, player=Rest())
    weight = np.ones(len(y)) if weight is None else weight
    for t in range(3):
        scores = rng(t).normal(size=len(y)) + t * y
        lagrangian.play(scores)
        wrong = (scores >= lagrangian.state.cut.threshold) != (y == 1)
        rates = [np.average(wrong[y == label], weights=weight[y == label]) for label in (0, 1)]
        record = lagrangian.record()
        found = record.summary.balanced_errors(record.column("sums"))
        assert found[t] == pytest.approx(np.mean(rates))


@pytest.mark.parametrize("level", [-800.0, -40.0, 0.0, 40.0, 800.0])
@ALL_POINTS
def test_scores_far_away_leave_everything_finite(point, level):
    """Multipliers answer to the curvature at the threshold, which is next to nothing there."""
    y, _, _, cells = rows(seed=0, n=60)
    lagrangian = game(cells, ALL_CONSTRAINTS["equalized odds"], point, player=Control())
    for t in range(3):
        gradient, hessian = lagrangian.play(level + rng(t).normal(size=len(y)))
        assert np.isfinite(gradient).all() and np.isfinite(hessian).all()
    assert np.isfinite(lagrangian.state.dual.multipliers).all()
    assert np.isfinite(lagrangian.record().to_frame()).all(axis=None)
