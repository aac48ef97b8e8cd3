"""Thresholds at which a rate of everyone has a value."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairboost._numbers import probabilities
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import (
    ROUNDING,
    WIDEST,
    OperatingPoint,
    at_fpr,
    at_positive_rate,
    at_tpr,
    beyond,
    doubtful,
    least_score,
    probability_of,
)

MAKERS = pytest.mark.parametrize("make", [at_fpr, at_tpr, at_positive_rate])


def realised(point, scores, labels, weight=None, threshold=None):
    """The rate that the threshold gives, counted row by row."""
    threshold = point.threshold(scores, labels, weight) if threshold is None else threshold
    counts = point.rate.counts(labels)
    weight = np.ones(len(scores)) if weight is None else weight
    return weight[counts & (scores >= threshold)].sum() / weight[counts].sum()


def thresholds(scores):
    """One threshold for each way to decide."""
    return [*np.unique(scores), math.inf]


# By hand


NEGATIVES = np.array([0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    ("target", "threshold"),
    [(0.2, 0.45), (0.39, 0.45), (0.4, 0.35), (0.6, 0.25), (0.8, 0.15), (0.99, 0.15)],
)
def test_at_most_so_many_false_positives(target, threshold):
    scores, labels = np.r_[NEGATIVES, 0.41, 0.9], np.r_[np.zeros(5, int), 1, 1]
    assert at_fpr(target).threshold(scores, labels) == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("target", "threshold"), [(0.2, 0.45), (0.21, 0.35), (0.4, 0.35), (0.8, 0.15), (0.81, 0.1)]
)
def test_at_least_so_many_true_positives(target, threshold):
    scores, labels = np.r_[NEGATIVES, 0.0, 0.9], np.r_[np.ones(5, int), 0, 0]
    assert at_tpr(target).threshold(scores, labels) == pytest.approx(threshold)


def test_a_budget_is_of_all_rows():
    labels = np.array([0, 1, 0, 1, 0])
    assert at_positive_rate(0.4).threshold(NEGATIVES, labels) == pytest.approx(0.35)


@pytest.mark.parametrize("weight", [None, np.ones(5)])
def test_ties_are_decided_alike(weight):
    scores, zeros, ones = np.array([0.1, 0.3, 0.3, 0.3, 0.5]), np.zeros(5, int), np.ones(5, int)
    assert at_fpr(0.6).threshold(scores, zeros, weight) == 0.4  # 1 of 5: the next rate is 4 of 5
    assert at_fpr(0.8).threshold(scores, zeros, weight) == 0.2
    assert at_tpr(0.2).threshold(scores, ones, weight) == 0.4
    assert at_tpr(0.3).threshold(scores, ones, weight) == 0.2


def test_weights_are_counted():
    weight = np.array([1.0, 1.0, 1.0, 1.0, 6.0])
    zeros = np.zeros(5, int)
    assert realised(at_fpr(0.5), NEGATIVES, zeros, weight) == 0  # the highest weighs 0.6
    assert at_fpr(0.6).threshold(NEGATIVES, zeros, weight) == pytest.approx(0.45)
    assert at_tpr(0.65).threshold(NEGATIVES, zeros + 1, weight) == pytest.approx(0.35)


@pytest.mark.parametrize("weight", [None, np.ones(100)])
@pytest.mark.parametrize("percent", range(1, 100))
def test_a_share_that_is_a_whole_number_of_rows_is_reached(percent, weight):
    scores, target = np.arange(100.0), percent / 100  # 0.07 * 100 is 7.000000000000001
    for point, labels in ((at_fpr(target), np.zeros(100, int)), (at_tpr(target), np.ones(100))):
        assert (scores >= point.threshold(scores, labels, weight)).sum() == percent


@pytest.mark.parametrize("weight", [None, np.ones(5)])
def test_no_row_may_be_positive(weight):
    threshold = at_fpr(0.1).threshold(NEGATIVES, np.zeros(5, int), weight)
    assert 0.5 < threshold == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize("weight", [None, np.ones(5)])
def test_every_row_must_be_positive(weight):
    threshold = at_tpr(0.9).threshold(NEGATIVES, np.ones(5, int), weight)
    assert 0.1 > threshold == pytest.approx(0.1, abs=1e-8)


@pytest.mark.parametrize("score", [-800.0, -3.0, 0.0, 3.0, 30.0, 800.0])
def test_beyond_all_scores_it_stands_off_what_rounding_may_do_to_them(score):
    """Trees may be summed in another order later on, and probabilities are rounded."""
    for point, label, side in ((at_fpr(0.5), 0, 1), (at_tpr(0.5), 1, -1)):
        threshold = point.threshold(np.full(7, score), np.full(7, label))
        for rounded in (score + 1e-13 * abs(score), score - 1e-13 * abs(score)):
            assert np.sign(threshold - rounded) == side


@pytest.mark.parametrize("weight", [None, np.full(4, 0.3)])
def test_when_all_rows_tie_it_is_all_or_none(weight):
    scores, labels = np.full(4, 0.5), np.zeros(4, int)
    assert realised(at_fpr(0.9), scores, labels, weight) == 0
    assert realised(at_positive_rate(0.9), scores, labels, weight) == 0
    assert realised(at_tpr(0.1), scores, labels + 1, weight) == 1


@pytest.mark.parametrize("weight", [None, np.ones(1)])
@pytest.mark.parametrize("target", [1e-12, 0.5, 1 - 1e-6])
def test_one_row(target, weight):
    scores = np.array([0.5])
    assert realised(at_fpr(target), scores, np.array([0]), weight) == 0
    assert realised(at_positive_rate(target), scores, np.array([1]), weight) == 0
    assert realised(at_tpr(target), scores, np.array([1]), weight) == 1


@pytest.mark.parametrize("weight", [None, np.ones(5)])
@MAKERS
def test_a_target_of_one_but_for_rounding(make, weight):
    labels = np.full(5, int(make is at_tpr))
    assert realised(make(1 - 1e-12), NEGATIVES, labels, weight) == 1


@pytest.mark.parametrize(("low", "high"), [(-1.7e308, 1.7e308), (0.0, 5e-324), (-5e-324, 0.0)])
def test_scores_at_the_ends_of_what_a_number_can_be(low, high):
    scores, labels = np.array([low, high]), np.array([0, 0])
    assert realised(at_fpr(0.5), scores, labels) == 0.5
    assert realised(at_tpr(0.5), scores, labels + 1, np.ones(2)) == 0.5


def test_neighbouring_numbers_are_told_apart():
    scores = np.array([0.5, np.nextafter(0.5, 1)])
    assert realised(at_fpr(0.5), scores, np.array([0, 0])) == 0.5


def test_rows_of_the_other_label_do_not_matter():
    labels = np.r_[np.zeros(5, int), 1, 1, 1]
    for others in ([9.0, 9.0, 9.0], [-1.0, 0.25, 0.35]):
        assert at_fpr(0.4).threshold(np.r_[NEGATIVES, others], labels) == pytest.approx(0.35)


# Properties


SCORES = st.one_of(
    st.sampled_from([0.1, 0.2, 0.5, 0.9]),  # ties are the rule
    st.floats(-1e6, 1e6, allow_subnormal=False),
)
ROWS = st.lists(st.tuples(SCORES, st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=30)
POINTS = st.builds(
    lambda make, target: make(target),
    st.sampled_from([at_fpr, at_tpr, at_positive_rate]),
    st.one_of(st.floats(0.001, 0.999), st.integers(1, 19).map(lambda k: k / 20)),
)


def unpack(rows, point):
    """Scores, labels and weights of rows some of which count."""
    scores, labels, weight = (np.array(column) for column in zip(*rows, strict=True))
    assume((weight * point.rate.counts(labels)).any())
    return scores, labels, weight.astype(float)


@given(rows=ROWS, point=POINTS)
@example(rows=[(0.1, 0, 1), (0.2, 0, 0)], point=at_fpr(0.5))
def test_the_target_is_kept_and_no_threshold_comes_closer(rows, point):
    scores, labels, weight = unpack(rows, point)
    found = realised(point, scores, labels, weight)
    possible = np.array([realised(point, scores, labels, weight, t) for t in thresholds(scores)])
    if point.at_least:
        assert found >= point.target - ROUNDING
        assert found == pytest.approx(possible[possible >= point.target - ROUNDING].min())
    else:
        assert found <= point.target + ROUNDING
        assert found == pytest.approx(possible[possible <= point.target + ROUNDING].max())


@given(rows=ROWS, point=POINTS)
def test_whole_weights_are_repetition(rows, point):
    scores, labels, weight = unpack(rows, point)
    times = weight.astype(int)
    repeated = point.threshold(scores.repeat(times), labels.repeat(times))
    assert point.threshold(scores, labels, weight) == repeated


@given(rows=ROWS, point=POINTS, weight=st.sampled_from([1.0, 0.1, 7.3]))
def test_equal_weights_are_no_weights(rows, point, weight):
    scores, labels, _ = unpack([(score, label, 1) for score, label, _ in rows], point)
    weighted = point.threshold(scores, labels, np.full(len(scores), weight))
    assert weighted == point.threshold(scores, labels)


@given(rows=ROWS, point=POINTS, seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter(rows, point, seed):
    scores, labels, weight = unpack(rows, point)
    order = np.random.default_rng(seed).permutation(len(scores))
    shuffled = point.threshold(scores[order], labels[order], weight[order])
    assert shuffled == point.threshold(scores, labels, weight)


@given(rows=ROWS, point=POINTS)
def test_increasing_maps_of_scores_do_not_change_who_is_positive(rows, point):
    scores, labels, weight = unpack(rows, point)
    counts = point.rate.counts(labels) & (weight > 0)  # others may lie next to the threshold
    before = scores >= point.threshold(scores, labels, weight)
    for map_ in (lambda s: 3 * s - 1, np.cbrt, lambda s: np.unique(s, return_inverse=True)[1]):
        mapped = np.asarray(map_(scores), float)
        assume(len(np.unique(mapped)) == len(np.unique(scores)))  # rounding makes new ties
        after = mapped >= point.threshold(mapped, labels, weight)
        np.testing.assert_array_equal(after[counts], before[counts])


@given(rows=ROWS, make=st.sampled_from([at_fpr, at_tpr, at_positive_rate]))
def test_thresholds_fall_as_targets_rise(rows, make):
    scores, labels, weight = unpack(rows, make(0.5))
    found = [make(t).threshold(scores, labels, weight) for t in np.linspace(0.02, 0.98, 25)]
    assert (np.diff(found) <= 0).all()


# How far apart scores are


def logistic(n):
    """Quantiles of the logistic law of scale 1."""
    shares = (np.arange(n) + 0.5) / n
    return np.log(shares / (1 - shares))


def spread(point, scores, threshold):
    return point.spread(float((np.abs(scores - threshold) < 1).mean()))


@pytest.mark.parametrize("point", [at_fpr(0.05), at_tpr(0.8), at_positive_rate(0.3)], ids=str)
def test_the_spread_of_a_logistic_law_is_its_scale_or_one(point):
    scores = logistic(100_000)
    threshold = point.among(scores)
    for scale in (0.01, 0.5, 1.0):
        found = spread(point, scale * scores, scale * threshold)
        assert found == pytest.approx(1.0, abs=0.01)
    found = [spread(point, scale * scores, scale * threshold) for scale in (2.0, 4.0, 8.0)]
    np.testing.assert_allclose(found, [2.0, 4.0, 8.0], rtol=0.2)  # the law is not flat
    assert spread(point, 1e6 * scores, 1e6 * threshold) == WIDEST


@MAKERS
@given(target=st.floats(1e-6, 1 - 1e-6), near=st.floats(0, 1))
def test_the_spread_falls_as_more_rows_are_near(make, target, near):
    point = make(target)
    assert point.spread(0.0) == pytest.approx(WIDEST) and point.spread(1.0) == 1.0
    assert 1.0 <= point.spread(min(2 * near, 1.0)) <= point.spread(near) <= WIDEST * (1 + 1e-9)


# How many rows are needed


@pytest.mark.parametrize(
    ("point", "rows"),
    [(at_fpr(0.05), 20), (at_fpr(0.03), 34), (at_tpr(0.8), 5), (at_tpr(0.99), 100)],
)
def test_rows_needed(point, rows):
    assert point.rows_needed() == rows


@given(point=POINTS)
def test_with_as_many_rows_as_needed_the_target_is_neither_all_nor_none(point):
    n = point.rows_needed()
    for rows, possible in ((n, True), (n - 1, False)):
        if rows:
            labels = np.full(rows, int(point.at_least))
            found = realised(point, np.arange(float(rows)), labels)
            assert (found < 1 if point.at_least else found > 0) == possible


# What it is


def test_it_is_a_value():
    point = at_fpr(0.05)
    assert point == OperatingPoint("fpr", 0.05) == pickle.loads(pickle.dumps(point))
    assert copy.deepcopy(point) == point
    assert {point: 1}[at_fpr(0.05)] == 1
    assert point != at_tpr(0.05)


@pytest.mark.parametrize(
    ("point", "text"),
    [
        (at_fpr(0.05), "at_fpr(0.05)"),
        (at_tpr(np.float64(0.8)), "at_tpr(0.8)"),
        (at_positive_rate(0.02), "at_positive_rate(0.02)"),
    ],
)
def test_it_prints_as_it_is_written(point, text):
    assert str(point) == repr(point) == text


# What goes wrong


@MAKERS
@pytest.mark.parametrize("target", [0, 1, -0.1, 1.5, 5, np.nan, np.inf, "x", True, None, [0.1]])
def test_bad_targets(make, target):
    with pytest.raises(InvalidInputError, match=r"target in \(0, 1\), found .*0\.05 for 5%"):
        make(target)


@pytest.mark.parametrize("name", ["fnr", "auc", "FPR", None])
def test_rates_that_have_no_operating_point(name):
    with pytest.raises(InvalidInputError, match=r"target of fpr, tpr or ppr, found .*use at_fpr"):
        OperatingPoint(name, 0.1)


@pytest.mark.parametrize(
    ("point", "labels", "who"),
    [
        (at_fpr(0.1), [1, 1], "negative rows to read the false positive rate"),
        (at_tpr(0.1), [0, 0], "positive rows to read the true positive rate"),
        (at_positive_rate(0.1), [], "rows to read the predicted positive rate"),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_counts(point, labels, who, weighted):
    labels = np.array(labels, int)
    weight = np.ones(len(labels)) if weighted else None
    with pytest.raises(InvalidInputError, match=f"needs {who} on, found none"):
        point.threshold(np.ones(len(labels)), labels, weight)


@MAKERS
def test_no_row_that_counts_weighs_anything(make):
    labels = np.array([0, 1, 0, 1])
    weight = np.where(labels == int(make is at_tpr), 0.0, 0.0 if make is at_positive_rate else 1.0)
    with pytest.raises(InvalidInputError, match="found none that weigh anything; pass some"):
        make(0.5).threshold(NEGATIVES[:4], labels, weight)


# Thresholds as probabilities


def decided(score, threshold):
    """Decisions by a probability, in double and single precision."""
    for single in (False, True):
        (p,) = probabilities(np.array([score]), single)
        yield p >= threshold
        yield np.float32(p) >= np.float32(threshold)


@given(threshold=st.floats(-200, 200), further=st.floats(0, 300), up=st.booleans())
@example(threshold=-87.0, further=1.0, up=False)
@example(threshold=15.3, further=0.0, up=True)
def test_scores_out_of_doubt_are_told_by_the_probability(threshold, further, up):
    low, high = doubtful(threshold)
    assert low < threshold < high
    score = math.nextafter(high, math.inf) + further if up else math.nextafter(low, -math.inf)
    assume(math.isfinite(score))
    score = score if up else score - further
    assert set(decided(score, probability_of(threshold))) == {up}


@given(score=st.floats(-300, 300), side=st.sampled_from([-1, 1]))
@example(score=15.0, side=1)
@example(score=17.0, side=-1)
@example(score=-88.0, side=1)
@example(score=1e6, side=-1)
def test_a_threshold_next_to_a_score_leaves_it_on_its_side(score, side):
    threshold = beyond(score, side)
    assert side * threshold > side * score
    assert set(decided(score, probability_of(threshold))) == {side < 0}
    # Not further than it takes: a probability in between would do only if it is in doubt.
    if abs(score) < 5:
        assert abs(threshold - score) < 1e-3


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.booleans())
@example(0.5, False)
@example(0.5, True)
@example(1e-40, True)
def test_the_least_score_of_a_probability(probability, single):
    least = least_score(probability, single)
    kind = np.float32 if single else np.float64
    if least == -math.inf:  # XGBoost has no probability below
        assert single and probability < 4e-39
        return
    below = np.nextafter(kind(least), kind(-math.inf))
    around = probabilities(np.array([below, kind(least)]), single)
    assert around[0] < probability <= around[1]


@given(st.floats(-16, 16))
def test_the_threshold_is_the_same_number_in_single_precision(score):
    """Comparisons in single and in double precision give the same decisions."""
    threshold = probability_of(score)
    assert threshold == np.float32(threshold)
    near = np.nextafter(np.float32(threshold), np.float32([-1, 2]))
    for p in (*near, np.float32(threshold)):
        assert (p >= threshold) == (float(p) >= threshold)
