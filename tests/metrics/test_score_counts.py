"""Counts of batches give the figures of all rows at once."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairboost import at_fpr, at_positive_rate, at_tpr
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit, audit_sums, threshold_at
from fairboost.metrics.score_bins import bin_scores
from fairboost.metrics.score_counts import EDGES, Batch, ScoreCounter, ScoreHistogram


def rows(seed, n=400, ties=False, weighted=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    labels[:2] = 0, 1
    scores = 1 / (1 + np.exp(-rng.normal(labels, 1.5)))
    if ties:
        scores = scores.round(1)
    groups = [rng.integers(-1, 3, n), rng.integers(0, 2, n)]
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    if weighted:
        weight[:2] = 1.0
    return Batch(labels, scores, groups, weight)


def split(batch, parts):
    cuts = np.array_split(np.arange(len(batch.labels)), parts)
    for cut in cuts:
        weight = None if batch.weight is None else batch.weight[cut]
        yield Batch(batch.labels[cut], batch.scores[cut], [g[cut] for g in batch.groups], weight)


def count(batch, threshold, parts=3):
    if not isinstance(threshold, float):
        histogram = ScoreHistogram()
        for part in split(batch, parts):
            histogram.add(part)
        threshold = histogram.bracket(threshold)
    counter = ScoreCounter(["race", "sex"], threshold)
    for part in split(batch, parts):
        counter.add(part)
    return counter.result([("c", "a", "b"), ("M", "F")])


def sensitive(batch):
    names = [np.array(["c", "a", "b", None], object), np.array(["M", "F"], object)]
    columns = [those[codes] for those, codes in zip(names, batch.groups, strict=True)]
    return pd.DataFrame(dict(zip(["race", "sex"], columns, strict=True)), dtype=object)


@pytest.mark.parametrize("point", [at_fpr(0.1), at_tpr(0.8), at_positive_rate(0.03)])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_thresholds_are_the_same_to_the_last_digit(point, ties, weighted):
    for seed in range(2):
        batch = rows(seed, ties=ties, weighted=weighted)
        exact = threshold_at(batch.labels, batch.scores, point, sample_weight=batch.weight)
        assert count(batch, point).threshold == exact


@given(
    st.integers(0, 10_000), st.integers(1, 60), st.floats(0.01, 0.99), st.booleans(),
    st.sampled_from([at_fpr, at_tpr, at_positive_rate]), st.floats(-30, 30),
)  # fmt: skip
@example(seed=249, n=1, target=0.5, ties=False, make=at_fpr, scale=-26.0)  # a hair above them
@settings(max_examples=40)
def test_thresholds_of_any_scores(seed, n, target, ties, make, scale):
    rng = np.random.default_rng(seed)
    labels = np.append(rng.integers(0, 2, n), [0, 1])
    scores = rng.normal(size=n + 2) * 2.0**scale
    if ties:
        scores = scores.round(1)
    batch = Batch(labels, scores)
    point = make(target)
    histogram = ScoreHistogram()
    histogram.add(batch)
    counter = ScoreCounter([], histogram.bracket(point))
    counter.add(batch)
    found = counter.result([])
    exact = point.threshold(scores, labels)
    assert found.threshold == exact
    assert found.sums[0, 1].sum() == (scores >= exact).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threshold", [0.5, at_fpr(0.2)])
def test_the_audit_is_that_of_all_rows_at_once(weighted, threshold):
    batch = rows(3, weighted=weighted)
    counted = count(batch, threshold)
    by = ["race", "sex", ("race", "sex")]
    found = audit_sums(counted.cells, counted.sums, threshold=counted.threshold, by=by)
    whole = audit(
        batch.labels, batch.scores, sensitive_features=sensitive(batch), threshold=threshold,
        by=by, sample_weight=batch.weight,
    )  # fmt: skip
    pd.testing.assert_frame_equal(found.rates, whole.rates)
    pd.testing.assert_frame_equal(found.gaps, whole.gaps)
    assert found.everyone == whole.everyone


def test_labels_may_come_the_other_way_round():
    batch = rows(4)
    turned = Batch(1 - batch.labels, batch.scores, batch.groups)
    counter = ScoreCounter(["race", "sex"], 0.5)
    counter.add(turned)
    found = counter.result([("c", "a", "b"), ("M", "F")], positive=0)
    assert np.array_equal(found.sums, count(batch, 0.5).sums)


def test_bins_by_group_are_those_of_all_rows_at_once():
    batch = rows(5, weighted=True)
    found = count(batch, 0.5).by_group(["sex"])
    codes = 1 - batch.groups[1]  # sorted: F, M
    whole = bin_scores(
        batch.scores, batch.labels, codes, ("F", "M"), EDGES, attribute="sex",
        sample_weight=batch.weight,
    )  # fmt: skip
    assert found.groups == whole.groups
    np.testing.assert_allclose(found.sums, whole.sums)


def test_scores_beyond_probabilities_are_known_as_such():
    batch = rows(6)
    assert count(batch, 0.5).are_probabilities
    logits = Batch(batch.labels, np.log(batch.scores / (1 - batch.scores)), batch.groups)
    assert not count(logits, 0.5).are_probabilities


def test_columns_that_cross_to_too_many_groups_are_refused():
    n = 8_000
    groups = [np.arange(n) % 100, np.arange(n) // 100]
    counter = ScoreCounter(["a", "b"], 0.5)
    with pytest.raises(InvalidInputError, match="cross to more than 5,000 groups"):
        counter.add(Batch(np.zeros(n, int), np.zeros(n), groups))
