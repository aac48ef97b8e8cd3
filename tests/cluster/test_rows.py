"""Partitions, read and sorted apart, are the rows of one table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.cluster.rows import NumberRules, merge, read_partition, sort_partition
from fairboost.data.cells import build_cells
from fairboost.data.holdout import choose_shares
from fairboost.data.validation import check_fit_data, check_numbers
from fairboost.engines.tables import PartedTable
from fairboost.exceptions import InvalidInputError
from fairboost.kernel.losses import Loss
from fairboost.training.targets import figures_of

COLUMNS = ["sex", "age"]


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": np.arange(n),
            "y": rng.choice(["no", "yes"], n),
            "sex": rng.choice(["f", "m", None], n, p=[0.4, 0.5, 0.1]),
            "age": rng.integers(2, 5, n) * 10,
            "weight": rng.uniform(0.5, 2, n),
        }
    )


def read(frame, weighted=True):
    weight = frame["weight"] if weighted else None
    return read_partition(frame[["x"]], frame["y"], frame[COLUMNS], weight, None, COLUMNS)


def cut(frame, edges):
    edges = [0, *sorted(edges), len(frame)]
    return [frame.iloc[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.integers(0, 300), max_size=6), st.booleans(), st.integers(0, 50))
@settings(max_examples=40)
def test_partitions_have_the_cells_of_the_whole(edges, weighted, seed):
    frame = table(300, seed)
    parts = [read(f, weighted) for f in cut(frame, edges)]
    layout = merge([p.summary for p in parts], COLUMNS)
    weight = frame["weight"] if weighted else None
    data = check_fit_data(frame[["x"]], frame["y"], frame[COLUMNS], weight)
    single = None if weight is None else data.sample_weight.astype(np.float32)
    whole = build_cells(data.labels, data.columns, single)
    assert layout.classes.tolist() == data.classes.tolist()
    assert layout.cells.values == whole.values
    np.testing.assert_array_equal(layout.cells.labels, whole.labels)
    for name in COLUMNS:
        np.testing.assert_array_equal(layout.cells.groups[name], whole.groups[name])
    for what in ("counts", "weights", "squares"):
        np.testing.assert_allclose(getattr(layout.cells, what), getattr(whole, what))
    shares = choose_shares(0.3, layout.cells, 0.0)
    done = [
        sort_partition(
            p,
            layout.numbers[k],
            len(layout.cells),
            shares,
            layout.counts[:k].sum(axis=0),
            (seed, k),
        )
        for k, p in enumerate(parts)
    ]
    codes = np.concatenate([d.codes for d in done])
    np.testing.assert_array_equal(codes, whole.codes)
    held = np.concatenate([d.held_out for d in done])
    taken = np.bincount(codes[held], minlength=len(whole))
    assert np.abs(taken - 0.3 * whole.counts).max() <= 0.5 + 1e-9
    trained, seen = np.sum([d.totals for d in done], axis=0)
    np.testing.assert_array_equal(seen[0], taken)
    np.testing.assert_allclose(trained + seen, [whole.counts, whole.weights, whole.squares])


def test_without_groups_and_without_holding_out():
    frames = cut(table(40), [5])
    frames[0] = frames[0].assign(y="yes")
    parts = [read_partition(f[["x"]], f["y"], None, None, None, []) for f in frames]
    layout = merge([p.summary for p in parts], [])
    assert layout.cells.labels.tolist() == [0, 1]
    done = [
        sort_partition(p, layout.numbers[k], 2, None, layout.counts[:k].sum(axis=0), (0, k))
        for k, p in enumerate(parts)
    ]
    assert done[0].codes.tolist() == [1] * 5
    assert done[0].held_out is None
    assert sum(d.totals for d in done)[0, 0].sum() == 40


def fault(**changes):
    parts = [read(f) for f in cut(table(60), [20])]
    parts.append(read(table(20, 9).assign(**changes)))
    with pytest.raises(InvalidInputError) as caught:
        merge([p.summary for p in parts], COLUMNS)
    return str(caught.value)


def test_faults_name_the_partition():
    assert fault(weight=-1.0).startswith("partition 2 of 3: sample_weight must not be negative")
    assert "partition 2 of 3: y contains missing" in fault(y=[None] + ["no"] * 19)
    assert "partition 2 of 3: y holds labels of type number, but partition 0" in fault(y=5)
    lists = fault(sex=[["f"]] * 20)
    assert lists.startswith("partition 2 of 3: sensitive column 'sex' must hold one plain value")
    rows = table(10)
    part = read_partition(rows[["age"]], rows["y"], rows[["sex"]].iloc[::-1], None, None, ["sex"])
    assert "sensitive_features and X have pandas indices" in part.summary.fault
    two = [read(table(10).assign(weight=np.nan)) for _ in range(3)]
    with pytest.raises(InvalidInputError, match="and 2 other partitions are wrong"):
        merge([p.summary for p in two], COLUMNS)


def test_weights_may_be_zero_in_a_partition_but_not_in_a_class():
    frames = cut(table(60), [20])
    parts = [read(frames[0].assign(weight=0.0)), read(frames[1])]
    assert merge([p.summary for p in parts], COLUMNS).cells.counts.sum() == 60
    zero = [read(f.assign(weight=(f["y"] == "no").astype(float))) for f in frames]
    with pytest.raises(InvalidInputError, match="every row of class 'yes'"):
        merge([p.summary for p in zero], COLUMNS)


def test_known_labels():
    parts = [read(f.assign(y="yes")).summary for f in cut(table(60), [20])]
    labels = np.array(["no", "yes"])
    assert merge(parts, COLUMNS, labels).cells.labels.tolist() == [1] * 9
    with pytest.raises(InvalidInputError, match="found 1 class"):
        merge(parts, COLUMNS)
    with pytest.raises(InvalidInputError, match="partition 0 of 2: y has the label 'yes'"):
        merge(parts, COLUMNS, np.array(["bad", "good"]))


@pytest.mark.parametrize("kind", ["numpy", "pandas", "sparse"])
def test_tables_in_parts_are_one(kind):
    make = {"numpy": np.asarray, "pandas": pd.DataFrame, "sparse": sp.csc_matrix}[kind]
    plain = {"numpy": np.asarray, "pandas": np.asarray, "sparse": lambda t: t.toarray()}[kind]
    whole = np.arange(40.0).reshape(20, 2)
    parts = PartedTable([make(t) for t in np.split(whole, [3, 3, 9])])
    assert parts.shape == (20, 2)
    assert hasattr(parts, "columns") == (kind == "pandas")
    for rows in ([], [1], [0, 5], [2, 3, 8, 9, 19], range(20)):
        rows = np.array(rows, np.intp)
        np.testing.assert_array_equal(plain(parts.iloc[rows]), whole[rows])


def test_the_positive_label_may_be_the_smaller_one():
    parts = [read(f).summary for f in cut(table(200), [70, 120])]
    usual, other = merge(parts, COLUMNS), merge(parts, COLUMNS, pos_label="no")
    assert (usual.classes.tolist(), other.classes.tolist()) == (["no", "yes"], ["yes", "no"])
    rows = [np.bincount(m.cells.labels, m.cells.counts) for m in (usual, other)]
    np.testing.assert_array_equal(rows[0], rows[1][::-1])


# Numbers


def numbers(n, seed=0):
    rng = np.random.default_rng(seed + 1)
    return table(n, seed).assign(y=rng.gamma(2.0, 3.0, n).round(2), years=rng.uniform(0.2, 2, n))


def read_numbers(frame, rules=None):
    known = frame[COLUMNS], frame["weight"], frame["years"]
    rules = rules or NumberRules(Loss("poisson"))
    return read_partition(frame[["x"]], frame["y"], *known, COLUMNS, rules)


@given(st.lists(st.integers(0, 300), max_size=6), st.integers(0, 50))
@settings(max_examples=40)
def test_partitions_have_the_targets_and_weights_of_the_whole(edges, seed):
    frame = numbers(300, seed)
    parts = [read_numbers(f) for f in cut(frame, edges)]
    merged = merge([p.summary for p in parts], COLUMNS)
    known = frame[COLUMNS], frame["weight"], frame["years"]
    whole = check_numbers(frame[["x"]], frame["y"], *known)
    weight = whole.weight_in_moments.astype(np.float32)
    cells = build_cells(whole.labels, whole.columns, weight)
    for what in ("counts", "weights", "squares"):
        np.testing.assert_allclose(
            getattr(merged.cells, what), getattr(cells, what), rtol=1e-5, err_msg=what
        )
    expected, found = figures_of(whole, COLUMNS), merged.targets.figures
    assert (found.least, found.most) == pytest.approx((expected.least, expected.most), rel=1e-6)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-6)
    w, y, e = (frame[name].to_numpy() for name in ("weight", "y", "years"))
    totals = [300, e.sum(), w.sum(), w @ y, w @ e]
    np.testing.assert_allclose(merged.targets.totals, totals, rtol=1e-6)
    told = len(cells), None, merged.counts[0]
    done = [
        sort_partition(p, merged.numbers[k], *told, (0, k), merged.exposures[k])
        for k, p in enumerate(parts)
    ]
    np.testing.assert_array_equal(np.concatenate([d.codes for d in done]), cells.codes)
    np.testing.assert_allclose(np.concatenate([d.sample_weight for d in done]), weight, rtol=1e-6)


def test_a_sample_of_targets_stands_for_all(seed=0):
    """Of partitions of any size, as many targets at most, which weigh what all of them do."""
    frames = cut(numbers(900, seed), [100])
    summaries = [read_numbers(f, NumberRules(Loss("absolute"), 100)).summary for f in frames]
    drawn, weight = merge(summaries, COLUMNS).targets.sample
    assert [s.targets.sample.shape[1] for s in summaries] == [50, 89]
    assert set(drawn) <= set(pd.concat(frames)["y"].astype(np.float32).astype(float))
    assert weight.sum() == pytest.approx(sum(f["weight"].sum() for f in frames), rel=0.1)


def test_a_set_to_hold_out_has_cells_of_its_own_and_the_scale_of_the_rows_trained_on():
    """A year is a year: where a share is held out too, its rows are measured beside the set."""
    frames, held_out = cut(numbers(300), [120]), numbers(80, 5)
    held_out = held_out.assign(years=held_out["years"] * 10)
    told = [[read_numbers(f).summary for f in fs] for fs in (frames, cut(held_out, [30]))]
    merged = merge(told[0], COLUMNS, held_out=told[1], held_out_columns=COLUMNS)
    assert merged.n_set == 2
    assert merged.cells.counts.sum() == 300
    assert merged.counts.sum(axis=1).tolist() == [120, 180, 30, 50]
    mean = pd.concat(frames)["years"].mean()
    np.testing.assert_allclose(merged.exposures, np.full(4, mean))
    part = read_numbers(held_out.iloc[:30])
    rest = merged.numbers[2], len(merged.cells), "all", merged.counts[0], (0, 2), mean
    done = sort_partition(part, *rest)
    weighed = (held_out["weight"] * held_out["years"]).iloc[:30] / mean
    np.testing.assert_allclose(done.sample_weight, weighed, rtol=1e-5)
    assert done.held_out.all()
    assert done.totals[0].sum() == 0
    assert done.totals[1][0].sum() == 30


def test_a_set_without_weights_beside_rows_that_have_some():
    frame = table(30)
    part = read(frame, weighted=False)
    merged = merge([part.summary], COLUMNS)
    told = merged.numbers[0], len(merged.cells), "none", merged.counts[0], (0, 0), 1.0, True
    done = sort_partition(part, *told)
    assert done.sample_weight.tolist() == [1.0] * 30
    assert not done.held_out.any()
