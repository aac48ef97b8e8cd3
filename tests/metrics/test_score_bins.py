"""Curves from bins equal curves from rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from fairboost.metrics import group_rates
from fairboost.metrics.intervals import wilson
from fairboost.metrics.score_bins import bin_scores, make_edges

GROUPS = ("a", "b")


def make(n, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n).astype(np.int8)  # as the rest of the package has them
    scores = 1 / (1 + np.exp(-(labels - 0.5 + rng.normal(size=n))))
    if decimals is not None:
        scores = scores.round(decimals)
    return scores, labels, rng.integers(0, 2, n), rng.integers(1, 4, n).astype(float)


def binned(scores, labels, codes, weight=None, threshold=0.5):
    edges = make_edges(scores, threshold)
    return bin_scores(scores, labels, codes, GROUPS, edges, sample_weight=weight)


@pytest.mark.parametrize("decimals", [None, 2])
def test_roc_of_few_rows_is_exact(decimals):
    scores, labels, codes, weight = make(300, decimals=decimals)
    bins = binned(scores, labels, codes, weight)
    table = bins.roc(points=10_000)
    for g, group in enumerate(GROUPS):
        mine = codes == g
        fpr, tpr, _ = roc_curve(
            labels[mine], scores[mine], sample_weight=weight[mine], drop_intermediate=False
        )
        part = table[table["group"] == group]
        np.testing.assert_allclose(part["fpr"], fpr[::-1], atol=1e-12)
        np.testing.assert_allclose(part["tpr"], tpr[::-1], atol=1e-12)
        area = roc_auc_score(labels[mine], scores[mine], sample_weight=weight[mine])
        assert bins.auc()[group] == pytest.approx(area, abs=1e-12)


def test_area_of_many_rows_is_close():
    scores, labels, codes, weight = make(20_000)
    bins = binned(scores, labels, codes, weight)
    for g, group in enumerate(GROUPS):
        mine = codes == g
        area = roc_auc_score(labels[mine], scores[mine], sample_weight=weight[mine])
        assert bins.auc()[group] == pytest.approx(area, abs=1e-4)


def test_roc_is_thinned_along_the_curve():
    scores, labels, codes, _ = make(20_000)
    table = binned(scores, labels, codes).roc(points=50)
    for _, part in table.groupby("group"):
        assert 30 <= len(part) <= 50
        ends = part[["fpr", "tpr"]].iloc[[0, -1]].to_numpy()
        np.testing.assert_array_equal(ends, [[1, 1], [0, 0]])
        steps = -np.diff(part["fpr"] + part["tpr"])
        assert (steps > 0).all()
        assert steps.max() < 3 * 2 / 50


def test_point_of_decisions_has_the_rates_of_metrics():
    scores, labels, codes, weight = make(5000)
    found = binned(scores, labels, codes, weight, 0.37).at(0.37)
    groups = np.array(GROUPS)[codes]
    table = group_rates(
        labels, (scores >= 0.37).astype(int), sensitive_features=groups, sample_weight=weight
    )
    for name in ("fpr", "tpr"):
        rates = table[(table["rate"] == name) & (table["attribute"] != "")]
        np.testing.assert_allclose(found[name], rates["value"])


def test_histogram_counts_every_row_once():
    scores, labels, codes, _ = make(3000)
    table = binned(scores, labels, codes).histogram(20)
    assert table["rows"].sum() == 3000
    part = table[(table["group"] == "a") & (table["label"] == 1)]
    mine = scores[(codes == 0) & (labels == 1)]
    expected, edges = np.histogram(mine, np.linspace(0, 1, 21))
    np.testing.assert_array_equal(part["rows"], expected)
    np.testing.assert_allclose(part["low"], edges[:-1])
    assert part["share"].sum() == pytest.approx(1)


def test_calibration_is_that_of_the_rows():
    scores, labels, codes, weight = make(4000)
    table = binned(scores, labels, codes, weight).calibration(5)
    assert table.groupby("group").size().tolist() == [5, 5]
    assert table["rows"].sum() == 4000
    overall = np.average(scores[codes == 1], weights=weight[codes == 1])
    part = table[table["group"] == "b"]
    edges = np.quantile(scores, [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert edges[0] <= part["predicted"].iloc[0] <= edges[1] * 1.05
    assert part["predicted"].is_monotonic_increasing
    assert part["predicted"].min() < overall < part["predicted"].max()


def test_one_bin_of_calibration_by_hand():
    scores, labels = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 1, 1])
    (line,) = binned(scores, labels, np.zeros(4, int)).calibration(1).to_dict("records")
    low, high = wilson(3, 4)
    assert line["predicted"] == pytest.approx(0.5)
    assert (line["found"], line["rows"]) == (0.75, 4)
    assert (line["low"], line["high"]) == pytest.approx((float(low), float(high)))


def test_parts_add_up():
    scores, labels, codes, weight = make(1000)
    edges = make_edges(scores)
    whole, *parts = (
        bin_scores(scores[k], labels[k], codes[k], GROUPS, edges, sample_weight=weight[k])
        for k in (slice(None), slice(0, 400), slice(400, None))
    )
    np.testing.assert_allclose(parts[0].sums + parts[1].sums, whole.sums)


def test_missing_groups_count_nowhere_and_weight_is_repetition():
    scores, labels, codes, weight = make(500)
    codes = np.where(np.arange(500) % 5 == 0, -1, codes)
    edges = make_edges(scores)
    weighted = bin_scores(scores, labels, codes, GROUPS, edges, sample_weight=weight)
    assert weighted.sums[0].sum() == 400
    k = np.repeat(np.arange(500), weight.astype(int))
    repeated = bin_scores(scores[k], labels[k], codes[k], GROUPS, edges)
    np.testing.assert_allclose(weighted.sums[[1, 3]], repeated.sums[[1, 3]])


def test_a_group_of_one_label_has_no_curve():
    scores = np.array([0.1, 0.2, 0.3, 0.4])
    bins = binned(scores, np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1]))
    assert set(bins.roc()["group"]) == {"a"}
    assert np.isnan(bins.auc()["b"])


def test_scores_that_are_no_probabilities():
    scores = np.array([-3.0, -1.0, 2.0, 5.0])
    edges = make_edges(scores, 1.0)
    assert edges[0] == -3
    assert edges[-1] > 5
    assert 1.0 in edges
