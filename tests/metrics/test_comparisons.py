"""Gaps and ratios between groups, from sums over their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.fairness.rates import RATES
from fairboost.metrics import gap, group_rates, ratio
from fairboost.metrics.comparisons import Comparison

FPR = RATES["fpr"]


def comparison(rows, events) -> Comparison:
    """Groups of rows that all have label 0, so that the false positive rate is events / rows."""
    rows, events = np.asarray(rows, float), np.asarray(events, float)
    groups = np.arange(len(rows), dtype=np.int32)
    sums = np.array([[rows - events, events]] * 3)
    return Comparison("group", tuple(map(str, groups)), np.zeros_like(groups), groups, sums)


def gap_line(rows, events, confidence=0.95, n_bootstrap=1000, rng=0):
    rng = np.random.default_rng(rng)
    table = comparison(rows, events).gap_table([FPR], confidence, n_bootstrap, rng)
    return table.to_dict("records")[0]


# Coverage


TRIALS = 300


def coverage(truth, rows) -> dict[str, float]:
    """Of samples that have a gap, or a ratio: the share whose 95% interval holds the truth."""
    rng = np.random.default_rng(0)
    truths = {"gap": max(truth) - min(truth), "ratio": min(truth) / max(truth)}
    covered: dict[str, list[bool]] = {name: [] for name in truths}
    for _ in range(TRIALS):
        line = gap_line(rows, rng.binomial(rows, truth), 0.95, 200, rng)
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
    line = gap_line([n, n], n * p, n_bootstrap=20_000)
    half = 1.96 * np.sqrt((p * (1 - p) / n).sum())
    assert (line["gap_low"], line["gap_high"]) == pytest.approx((0.2 - half, 0.2 + half), rel=0.02)
    half = 1.96 * np.sqrt(((1 - p) / (p * n)).sum())
    expected = 0.6 * np.exp(-half), 0.6 * np.exp(half)
    assert (line["ratio_low"], line["ratio_high"]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("name", "truth", "rows"), [("gap", (0.3, 0.3), (5, 500)), ("ratio", (0.02, 0.1), (20, 500))]
)
def test_a_tiny_group_beside_a_large_one_is_covered_less(name, truth, rows):
    assert 0.7 < coverage(truth, rows)[name] < 0.9  # the limits that the docstrings admit


# What the intervals hold

COUNTS = st.lists(
    st.integers(0, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=2,
    max_size=6,
).filter(lambda counts: sum(n > 0 for n, _ in counts) >= 2)


@given(counts=COUNTS, confidence=st.floats(0.01, 0.99))
def test_the_estimate_lies_within_its_interval(counts, confidence):
    line = gap_line(*zip(*counts, strict=True), confidence, n_bootstrap=20)
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


def test_a_resample_without_a_group_compares_the_others():
    # Group 2 is one row, and 37% of resamples are without it.
    line = gap_line([300, 300, 1], [30, 60, 1])
    alone = gap_line([300, 300], [30, 60])
    assert line["gap"] == pytest.approx(0.9)
    assert line["gap_low"] >= alone["gap_low"] - 0.03
    assert line["gap_high"] == 1


def test_a_tiny_group_does_not_hide_that_two_large_ones_are_apart():
    alone, beside = (
        gap_line([9000, 9000], [1800, 2889]),
        gap_line([9000, 9000, 12], [1800, 2889, 2]),
    )
    assert alone["gap"] == pytest.approx(0.121)
    assert alone["gap_low"] - 0.004 < beside["gap_low"]
    assert beside["gap"] > alone["gap"]
    assert beside["ratio_high"] < alone["ratio_high"] + 0.01


# The bootstrap


def ranges_of_errors(
    d: np.ndarray, groups: np.ndarray, weight: np.ndarray, n_bootstrap: int
) -> np.ndarray:
    """Ranges of errors of rates and of their logarithms in resampled rows, the plain way."""
    rng = np.random.default_rng(5)
    member = groups == np.arange(groups.max() + 1)[:, np.newaxis]
    rows, total = member.sum(axis=1), (member * weight).sum(axis=1)
    row = total / rows
    truth = ((member * weight * d).sum(axis=1) + row / 2) / (total + row)
    found = []
    for _ in range(n_bootstrap):
        picks = rng.integers(0, len(d), len(d))
        tossed = rng.random(len(d)) < 1 / (rows[groups[picks]] + 1)
        decision = np.where(tossed, rng.integers(0, 2, len(d)), d[picks])
        counted = member[:, picks] * weight[picks]
        events, counted = (counted * decision).sum(axis=1), counted.sum(axis=1)
        errors = events / counted - truth, np.log((events + row / 2) / (counted + row) / truth)
        found.append([np.ptp(e) for e in errors])
    return np.sort(found, axis=0).T


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_are_those_of_a_bootstrap_of_rows(weighted):
    rng = np.random.default_rng(0)
    n, n_bootstrap = 200, 3000
    groups = np.arange(n) % 3
    d = (rng.random(n) < np.array([0.2, 0.3, 0.4])[groups]).astype(int)
    weight = rng.gamma(2.0, size=n) if weighted else np.ones(n)
    arguments = {"rate": "fpr", "sensitive_features": groups, "n_bootstrap": 30_000}
    arguments |= {"sample_weight": weight, "pos_label": 1}
    wide, narrow = (f(np.zeros(n, int), d, **arguments) for f in (gap, ratio))
    # Three groups of equal rows have about equal errors, so pairs reach as far as their range. 4
    # standard errors of the plain bootstrap's quantile, and what unequal errors come to.
    ranks = 0.95 * n_bootstrap + 4 * np.sqrt(n_bootstrap * 0.95 * 0.05) * np.array([-1, 1])
    of_rates, of_logs = ranges_of_errors(d, groups, weight, n_bootstrap)[:, ranks.astype(int)]
    assert 0.97 * of_rates[0] < wide.high - wide.value < 1.03 * of_rates[1]
    # The ends of the ratio lie as far from the smoothed ratio, if neither is clipped.
    assert narrow.high < 1
    assert 0.85 * of_logs[0] < np.log(narrow.high / narrow.low) / 2 < 1.15 * of_logs[1]


ARGUMENTS = {
    "y_true": [0, 1] * 60,
    "y_pred": [0, 1, 1, 1, 0, 0] * 20,
    "sensitive_features": list("aabbccabcabc") * 10,
    "n_bootstrap": 200,
}


@pytest.mark.parametrize("function", [gap, ratio])
@pytest.mark.parametrize("rate", RATES)
def test_the_seed_decides(function, rate):
    first = function(**ARGUMENTS, rate=rate)
    assert function(**ARGUMENTS, rate=rate, random_state=0) == first
    generator = np.random.default_rng(0)
    assert function(**ARGUMENTS, rate=rate, random_state=generator) == first
    assert function(**ARGUMENTS, rate=rate, random_state=generator) != first
    assert function(**ARGUMENTS, rate=rate, random_state=1) != first


@pytest.mark.parametrize("function", [gap, ratio])
def test_no_bootstrap_no_interval(function):
    found = function(**ARGUMENTS | {"n_bootstrap": 0}, rate="fpr")
    assert found.value == function(**ARGUMENTS, rate="fpr").value
    assert np.isnan([found.low, found.high]).all()


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
