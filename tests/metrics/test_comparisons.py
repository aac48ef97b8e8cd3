"""Gaps and ratios between groups, from sums over their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.fairness.rates import RATES
from fairboost.metrics import gap, group_rates
from fairboost.metrics.comparisons import Comparison
from fairboost.metrics.sampling import judge_gap

FPR = RATES["fpr"]


def comparison(rows, events) -> Comparison:
    """Groups of rows that all have label 0, so that the false positive rate is events / rows."""
    rows, events = np.asarray(rows, float), np.asarray(events, float)
    groups = np.arange(len(rows), dtype=np.int32)
    sums = np.array([[rows - events, events]] * 3)
    return Comparison("group", tuple(map(str, groups)), np.zeros_like(groups), groups, sums)


def gap_line(rows, events, confidence=0.95):
    return comparison(rows, events).gap_table([FPR], confidence).to_dict("records")[0]


# Coverage


TRIALS = 300


def coverage(truth, rows) -> dict[str, float]:
    """Of samples that have a gap, or a ratio: the share whose 95% interval holds the truth."""
    rng = np.random.default_rng(0)
    truths = {"gap": max(truth) - min(truth), "ratio": min(truth) / max(truth)}
    covered: dict[str, list[bool]] = {name: [] for name in truths}
    for _ in range(TRIALS):
        line = gap_line(rows, rng.binomial(rows, truth))
        for name, value in truths.items():
            if not np.isnan(line[name]):
                covered[name].append(line[f"{name}_low"] <= value <= line[f"{name}_high"])
    return {name: float(np.mean(held)) for name, held in covered.items()}


@pytest.mark.parametrize("n_groups", [2, 6, 20])
@pytest.mark.parametrize("rows", [500, 50])
@pytest.mark.parametrize("rate", [0.2, 0.02])
@pytest.mark.parametrize("times", [1, 2])
def test_the_truth_is_covered_as_promised(n_groups, rows, rate, times):
    truth = [times * rate] + [rate] * (n_groups - 1)
    found = coverage(truth, [rows] * n_groups)
    # Two points below the nominal 95%, less three standard errors of a share.
    assert min(found.values()) >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / TRIALS), found


def test_two_large_groups_have_the_normal_interval():
    n, p = 2000, np.array([0.3, 0.5])
    line = gap_line([n, n], n * p)
    half = 1.96 * np.sqrt((p * (1 - p) / n).sum())
    assert (line["gap_low"], line["gap_high"]) == pytest.approx((0.2 - half, 0.2 + half), rel=0.02)
    half = 1.96 * np.sqrt(((1 - p) / (p * n)).sum())
    expected = 0.6 * np.exp(-half), 0.6 * np.exp(half)
    assert (line["ratio_low"], line["ratio_high"]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("truth", "rows"),
    [((0.3, 0.3), (5, 500)), ((0.02, 0.1), (20, 500)), ((0.02, 0.02, 0.02), (5, 30, 600))],
)
def test_a_tiny_group_beside_a_large_one_is_covered_too(truth, rows):
    assert min(coverage(truth, rows).values()) >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / TRIALS)


# What the intervals hold

COUNTS = st.lists(
    st.integers(0, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=2,
    max_size=6,
).filter(lambda counts: sum(n > 0 for n, _ in counts) >= 2)


@given(counts=COUNTS, confidence=st.floats(0.01, 0.99))
def test_the_estimate_lies_within_its_interval(counts, confidence):
    line = gap_line(*zip(*counts, strict=True), confidence)
    assert 0 <= line["gap_low"] <= line["gap"] <= line["gap_high"] <= 1
    if any(events for _, events in counts):  # else the ratio is undefined
        assert 0 <= line["ratio_low"] <= line["ratio"] <= line["ratio_high"] <= 1


@pytest.mark.parametrize("n_groups", [2, 6, 20])
@pytest.mark.parametrize("events", [0, 10, 100])
def test_equal_groups_may_be_at_parity_but_need_not(n_groups, events):
    line = gap_line([100] * n_groups, [events] * n_groups)
    assert line["gap_low"] == line["gap"] == 0 < line["gap_high"]
    if events:
        assert line["ratio_high"] == line["ratio"] == 1 > line["ratio_low"]
    else:
        assert np.isnan([line[name] for name in ("ratio_low", "ratio", "ratio_high")]).all()


def test_the_ratio_to_a_group_without_events_may_be_more_than_none():
    line = gap_line([50, 400], [0, 200])
    assert line["ratio_low"] == line["ratio"] == 0
    # Three events in 50 rows are what none may hide (rule of three); half of the 400 have one.
    assert line["ratio_high"] == pytest.approx((3 / 50) / (200 / 400), rel=0.5)


def test_more_rows_narrow_the_intervals():
    few, many = (gap_line([100 * k, 100 * k], [20 * k, 40 * k]) for k in (1, 100))
    for name in ("gap", "ratio"):
        few_width, many_width = (x[f"{name}_high"] - x[f"{name}_low"] for x in (few, many))
        assert few_width / many_width == pytest.approx(np.sqrt(100), rel=0.2)


def test_a_tiny_group_does_not_hide_that_two_large_ones_are_apart():
    alone, beside = (
        gap_line([9000, 9000], [1800, 2889]),
        gap_line([9000, 9000, 12], [1800, 2889, 2]),
    )
    assert alone["gap"] == pytest.approx(0.121)
    assert alone["gap_low"] - 0.004 < beside["gap_low"]
    assert beside["gap"] > alone["gap"]
    assert beside["ratio_high"] < alone["ratio_high"] + 0.01


@given(counts=COUNTS, confidence=st.floats(0.01, 0.99))
def test_a_gap_and_a_ratio_agree_on_whether_groups_may_be_equal(counts, confidence):
    line = gap_line(*zip(*counts, strict=True), confidence)
    if abs(line["ratio_high"] - 1) > 1e-9 or abs(line["gap_low"]) > 1e-9:
        assert (line["gap_low"] > 0) == (line["ratio_high"] < 1)


def test_weights_widen_intervals_as_fewer_rows_do():
    rng = np.random.default_rng(0)
    groups, d = np.arange(400) % 3, rng.integers(0, 2, 400)
    weight = rng.gamma(2.0, size=400)
    given = {"rate": "ppr", "sensitive_features": groups, "pos_label": 1}
    plain, equal = (gap(d, d, **given, sample_weight=w) for w in (None, np.full(400, 3.0)))
    assert equal == pytest.approx(plain) and (equal.low, equal.high) == (plain.low, plain.high)
    uneven = gap(d, d, **given, sample_weight=weight)
    n = [weight[groups == g].sum() ** 2 / (weight[groups == g] ** 2).sum() for g in range(3)]
    rates = [np.average(d[groups == g], weights=weight[groups == g]) for g in range(3)]
    expected = judge_gap(np.array(rates), np.array(n), 0.95)
    assert (uneven, uneven.low, uneven.high) == pytest.approx(expected)


# Groups


def test_rows_of_unknown_group_count_only_among_everyone():
    groups = ["F", "F", None, "M", "M", np.nan]
    table = group_rates(
        [0, 0, 0, 0, 0, 1], [1, 0, 1, 0, 0, 1], sensitive_features=groups, rates="fpr"
    )
    assert table["group"].tolist() == ["everyone", "F", "M"]
    assert table["rows"].tolist() == [5, 2, 2]
    assert table["value"].tolist() == [2 / 5, 1 / 2, 0.0]


def test_a_crossing_leaves_out_rows_with_either_column_missing():
    table = group_rates(
        [0, 1, 0, 1],
        [0, 1, 1, 1],
        sensitive_features={"sex": ["F", "F", None, "M"], "race": ["a", None, "a", "a"]},
        by=("sex", "race"),
        rates="ppr",
    )
    assert table[["attribute", "group", "rows"]].to_numpy().tolist() == [
        ["", "everyone", 4],
        ["sex, race", "F, a", 1],
        ["sex, race", "M, a", 1],
    ]


def test_a_crossing_is_a_column_of_pairs():
    rng = np.random.default_rng(7)
    y, d = rng.integers(0, 2, (2, 200))
    table = {"sex": rng.choice(["F", "M"], 200), "race": rng.choice(["a", "b", "c"], 200)}
    pairs = [f"{sex}, {race}" for sex, race in zip(*table.values(), strict=True)]
    crossed = gap(y, d, rate="fpr", sensitive_features=table, by=("sex", "race"))
    assert crossed == gap(y, d, rate="fpr", sensitive_features=pairs)


def test_groups_that_read_alike_are_told_apart():
    y = [0, 1] * 4
    groups = {"job": ["a, b", "a, b", "a", "a"] * 2, "town": ["c", "c", "b, c", "b, c"] * 2}
    table = group_rates(y, y, sensitive_features=groups, by=("job", "town"), rates="ppr")
    assert sorted(table["group"]) == ["'a', 'b, c'", "'a, b', 'c'", "everyone"]


def test_a_group_without_a_name_is_not_everyone():
    y = [0, 1] * 4
    table = group_rates(y, y, sensitive_features=["", "b"] * 4, rates="ppr")
    assert table["group"].tolist() == ["everyone", "", "b"]
