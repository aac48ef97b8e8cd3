"""Rows on several machines: the same sums, thresholds and steps as on one."""

from __future__ import annotations

import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost import at_fpr, at_positive_rate, at_tpr, parity
from fairboost._numbers import probabilities
from fairboost.algorithm.multipliers import Ascent, Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import Holdout
from fairboost.fairness.all_reduce import (
    ONE_MACHINE,
    gathered,
    median_over,
    out_of_doubt,
    quantile_over,
    share_near,
    spread_over,
    threshold_over,
)
from fairboost.fairness.operating_points import probability_of
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.two_sided import two_sided
from tests.problems import session


class Threads:
    """AllReduce that are threads of this process."""

    def __init__(self, n):
        self.here, self.n, self.values = threading.local(), n, [None] * n
        self.barrier = threading.Barrier(n, timeout=20)
        self.n_bytes = 0

    def _all(self, value):
        self.values[self.here.rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found

    def total(self, values):
        if self.here.rank == 0:
            self.n_bytes += values.nbytes
        return np.sum(self._all(values), axis=0)

    def least(self, value):
        return min(self._all(value))

    def run(self, work):
        def at(rank):
            self.here.rank = rank
            return work(rank)

        with ThreadPoolExecutor(self.n) as pool:
            return list(pool.map(at, range(self.n)))


SCORES = st.lists(
    st.floats(-40, 40, width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0]), min_size=1, max_size=40
)


@settings(max_examples=60)
@given(
    scores=SCORES,
    make=st.sampled_from([at_fpr, at_tpr, at_positive_rate]),
    target=st.sampled_from([0.01, 0.1, 0.5, 0.7, 0.99, 1 - 1e-12]),
    weighted=st.booleans(),
    n=st.integers(2, 3),
    seed=st.integers(0, 99),
)
def test_a_threshold_over_machines_is_that_of_all_rows(scores, make, target, weighted, n, seed):
    rng = np.random.default_rng(seed)
    scores = np.array(scores, np.float64)
    weight = rng.integers(0, 3, len(scores)).astype(np.float32) if weighted else None
    if weight is not None and not weight.any():
        weight[0] = 1.0
    of_machine = rng.integers(0, n, len(scores))
    point, machines = make(target), Threads(n)

    def work(rank):
        mine = of_machine == rank
        part = None if weight is None else weight[mine]
        return threshold_over(machines, point, scores[mine], part)

    assert machines.run(work) == [point.among(scores, weight)] * n


@settings(max_examples=40)
@given(scores=SCORES, weighted=st.booleans(), n=st.integers(2, 3), seed=st.integers(0, 99))
def test_the_share_near_a_threshold_is_that_of_all_rows(scores, weighted, n, seed):
    rng = np.random.default_rng(seed)
    scores = np.array(scores, np.float64)
    weight = rng.integers(1, 3, len(scores)).astype(np.float32) if weighted else None
    of_machine, machines = rng.integers(0, n, len(scores)), Threads(n)

    def work(rank):
        mine = of_machine == rank
        return share_near(machines, 0.3, scores[mine], None if weight is None else weight[mine])

    expected = np.average((scores > -0.7) & (scores < 1.3), weights=weight)
    assert machines.run(work) == pytest.approx([expected] * n)
    assert share_near(ONE_MACHINE, 0.3, scores, weight) == pytest.approx(expected)


NEAR = st.floats(-1e-6, 1e-6).map(lambda x: 0.25 + x)


@settings(max_examples=150)
@given(
    scores=SCORES | st.lists(NEAR | st.floats(-100, 30, width=32), min_size=1, max_size=40),
    make=st.sampled_from([at_fpr, at_tpr, at_positive_rate]),
    target=st.sampled_from([0.01, 0.1, 0.5, 0.7, 0.99]),
    counted=st.integers(1, 40),
    n=st.integers(2, 3),
    seed=st.integers(0, 99),
)
def test_a_threshold_tells_rows_apart_in_every_precision(scores, make, target, counted, n, seed):
    """Those on which it was placed, and those that are only measured; on all machines alike."""
    scores, point = np.array(scores, np.float64), make(target)
    placed = point.among(scores[:counted])
    threshold = out_of_doubt(ONE_MACHINE, point, placed, scores)
    positive = scores >= threshold
    for single in (False, True):
        proba = probabilities(scores, single)
        np.testing.assert_array_equal(proba >= probability_of(threshold), positive)
        in_single = proba.astype(np.float32) >= np.float32(probability_of(threshold))
        np.testing.assert_array_equal(in_single, positive)
    # The target is kept: rows change sides in the direction that it allows.
    assert (
        positive >= (scores >= placed) if point.at_least else positive <= (scores >= placed)
    ).all()
    of_machine, machines = np.random.default_rng(seed).integers(0, n, len(scores)), Threads(n)
    found = machines.run(
        lambda rank: out_of_doubt(machines, point, placed, scores[of_machine == rank])
    )
    assert found == [threshold] * n


def test_a_threshold_that_is_clear_of_rows_stays_where_it_is():
    scores = np.array([-1.0, 0.25, 0.75, 3.0])
    assert out_of_doubt(ONE_MACHINE, at_fpr(0.5), 0.4, scores) == 0.4
    # A row on it, which is decided positively, stays so: it moves to the middle of what is free.
    assert out_of_doubt(ONE_MACHINE, at_fpr(0.5), 0.4, np.append(scores, 0.4)) == 0.325


def test_bytes_of_a_threshold_do_not_depend_on_rows():
    sent = []
    for n in (10, 10_000):
        machines = Threads(2)
        scores = np.random.default_rng(0).normal(size=n)
        machines.run(
            lambda rank, m=machines, s=scores: threshold_over(m, at_fpr(0.1), s[rank::2], None)
        )
        sent.append(machines.n_bytes)
    assert sent[0] == sent[1] == 8 * (8 * 256 + 1)


def rows(n, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n).astype(np.int8)
    column = SensitiveColumn("g", rng.integers(-1, 3, n).astype(np.int8), ("a", "b", "c"))
    weight = rng.uniform(0.5, 2, n).astype(np.float32) if weighted else None
    return build_cells(labels, [column], weight), weight, rng.integers(0, 5, n) == 0


def play(cells, weight, held, here, machines, start, moves, **options):
    """Three rounds with given moves of the scores, on the rows of one machine."""
    trained, seen = (cells.among(mask, weight) for mask in (~held, held))
    ours, theirs = here & ~held, here & held
    trained = replace(trained, codes=cells.codes[ours])
    seen = replace(seen, codes=cells.codes[theirs])
    holdout = Holdout("share", "", None, seen, weight[theirs])
    lagrangian = session(
        trained, holdout=holdout, sample_weight=weight[ours], all_reduce=machines, **options
    )
    gradients = []
    for move in moves:
        scores = start + move
        gradients.append(lagrangian.play(scores[ours], scores[theirs])[0].copy())
    lagrangian.finish(start[ours], start[theirs])
    return lagrangian, gradients


@pytest.mark.parametrize("threshold", [0.2, at_fpr(0.3)])
@pytest.mark.parametrize("paper", [True, False])
@pytest.mark.parametrize("scale", [1.0, 5.0], ids=["", "far apart"])
def test_every_machine_takes_the_steps_of_one_with_all_rows(scale, paper, threshold):
    n = 900
    cells, weight, held = rows(n)
    rng = np.random.default_rng(1)
    start, moves = scale * rng.normal(size=n) - 4 * (scale > 1), rng.normal(0, 0.3, (3, n))
    constraint = parity("fpr", 0.01, by="g")
    options = {
        "constraints": [constraint if paper else two_sided(constraint)],
        "proxy": PROXIES["cross_entropy" if paper else "sigmoid"],
        "player": Ascent(1.0) if paper else Control(),
        "convex": not paper,
        "threshold": threshold,
        "dtype": np.float64,
    }
    # The second machine has no rows of group c, the third none at all.
    of_machine = np.where(cells.groups["g"][cells.codes] == 2, 0, np.arange(n) % 2)
    everything = np.ones(n, bool)
    whole, gradients = play(cells, weight, held, everything, ONE_MACHINE, start, moves, **options)
    machines = Threads(3)
    parts = machines.run(
        lambda rank: play(
            cells, weight, held, of_machine == rank, machines, start, moves, **options
        )
    )
    for rank, (lagrangian, mine) in enumerate(parts):
        np.testing.assert_allclose(
            lagrangian.record().to_frame(), whole.record().to_frame(), rtol=0, atol=1e-12
        )
        np.testing.assert_array_equal(
            lagrangian.state.dual.multipliers, parts[0][0].state.dual.multipliers
        )
        for here, there in zip(mine, gradients, strict=True):
            np.testing.assert_allclose(here, there[(of_machine == rank)[~held]], atol=1e-12)
    rows_of = [s.record().summary.rows for s in (parts[2][0], whole)]
    assert math.isclose(*rows_of)


def test_bytes_of_a_round_do_not_depend_on_rows():
    sent = []
    for n in (300, 3_000):
        cells, weight, held = rows(n)
        machines = Threads(2)
        start = np.random.default_rng(1).normal(size=n)
        options = {
            "constraints": [two_sided(parity("fnr", by="g"))],
            "proxy": PROXIES["sigmoid"],
            "player": Control(),
            "convex": True,
        }
        machines.run(
            lambda rank, m=machines, c=cells, w=weight, h=held, s=start, o=options: play(
                c, w, h, np.arange(len(s)) % 2 == rank, m, s, [s * 0], **o
            )
        )
        sent.append(machines.n_bytes)
    # Two losses and the decisions in each cell; one round, and a last look.
    assert sent[0] == sent[1] == 2 * (2 + 8) * 8


def test_a_record_of_training_holds_no_rows():
    cells, weight, held = rows(400)
    start = np.random.default_rng(1).normal(size=400)
    lagrangian, _ = play(
        cells, weight, held, np.ones(400, bool), ONE_MACHINE, start, [start * 0],
        constraints=[two_sided(parity("fnr", by="g"))], proxy=PROXIES["sigmoid"],
        player=Control(), convex=True, threshold=at_fpr(0.3),
    )  # fmt: skip
    record = lagrangian.record()
    assert len(pickle.dumps(record)) < 20_000
    cells_kept = record.holdout.measured, record.summary.measured, record.summary.placed
    assert [c.codes.size for c in cells_kept] == [0, 0, 0]
    again = pickle.loads(pickle.dumps(record))
    assert again.to_frame().equals(record.to_frame())


@settings(max_examples=60)
@given(scores=SCORES, n=st.integers(2, 3), seed=st.integers(0, 99))
def test_medians_and_spreads_over_machines_are_those_of_all_rows(scores, n, seed):
    values, owner = np.array(scores), np.random.default_rng(seed).integers(0, n, len(scores))
    machines = Threads(n)

    def find(rank):
        own = values[owner == rank]
        return median_over(machines, own), spread_over(machines, own)

    for median, spread in machines.run(find):
        assert median == np.median(values)
        assert spread == pytest.approx(values.std(), abs=1e-12)


@settings(max_examples=60)
@given(
    scores=SCORES,
    level=st.sampled_from([0.01, 0.25, 0.5, 0.9, 1.0]),
    n=st.integers(2, 3),
    seed=st.integers(0, 99),
)
def test_a_quantile_over_machines_is_that_of_all_rows(scores, level, n, seed):
    rng, values = np.random.default_rng(seed), np.array(scores)
    owner, weight = rng.integers(0, n, len(scores)), rng.choice([0.0, 0.5, 1.0], len(scores))
    weight[0] = 1.0
    order = np.argsort(values)
    upto = np.cumsum(weight[order])  # of halves, exact
    expected = values[order][(upto >= level * upto[-1]) & (weight[order] > 0)][0]
    machines = Threads(n)
    found = machines.run(
        lambda rank: quantile_over(machines, values[owner == rank], weight[owner == rank], level)
    )
    assert found == [expected] * n
    assert quantile_over(ONE_MACHINE, values, weight, level) == expected


def test_numbers_of_all_machines_side_by_side():
    machines, values = Threads(3), np.array([0.1, -3.0, 1e-300, 7.0, 0.3])
    places = [np.array([4, 0]), np.array([], int), np.array([1, 2, 3])]
    for found in machines.run(lambda r: gathered(machines, values[places[r]], places[r], 5)):
        np.testing.assert_array_equal(found, values)
