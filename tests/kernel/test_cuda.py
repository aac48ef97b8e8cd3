"""The passes of ``loops.cu`` against those of ``loops.c``: the same functions of numbers."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fairboost.exceptions import EngineOptionError
from fairboost.fairness.proxies import PROXIES
from fairboost.kernel import device as device_module
from fairboost.kernel import loops
from fairboost.kernel.cuda import DeviceLoops
from fairboost.kernel.row_pass import PassRules, RowPass, SoftWeights
from fairboost.kernel.threads import Threads
from tests.covering import covering
from tests.fake_device import BOTH, needs_compiler
from tests.kernel.trees import tree

N = 3_000


@pytest.fixture(params=BOTH)
def device(request):
    return request.param()


class Rows:
    """Random rows of some cells, and a pass over them on the host and on a device."""

    def __init__(self, device, n_cells=4, weighted=True, n=N, dtype=np.float32, **rules):
        rng = np.random.default_rng(n_cells)
        self.cells = rng.integers(0, n_cells, n).astype(np.min_scalar_type(n_cells))
        self.labels = (np.arange(n_cells) % 2).astype(np.int32)
        weight = (3 * rng.random(n)).astype(np.float32) if weighted else None
        told = {"dtype": dtype, **rules}
        proxy, needs = PROXIES[told.pop("proxy", "sigmoid")], np.ones((2, n_cells), bool)
        made = self.cells, self.labels, (0.7, 1.9), weight
        self.host = RowPass(*made, PassRules(proxy, needs, **told))
        self.there = RowPass(*made, PassRules(proxy, needs, **told, device=device))
        self.scores = rng.normal(0, 2, n).astype(dtype)
        self.on_cells = rng.normal(0, 1, (2, n_cells))
        members = rng.random((n, 3)).astype(np.float32)
        self.soft = [
            SoftWeights(members / members.sum(axis=1, keepdims=True), rng.normal(size=(3, 4)))
        ]
        self.device = device

    def slopes(self):
        """Gradient and Hessian of either."""
        theirs = self.device.get(self.there.gradient), self.device.get(self.there.hessian)
        return (self.host.gradient, theirs[0]), (self.host.hessian, theirs[1])

    def check_equal(self, tolerance=1e-6):
        for ours, theirs in self.slopes():
            np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("n_cells", "weighted", "threshold", "soft", "dtype"),
    covering(
        [1, 4, 40, 1_000], [True, False], [0.0, -0.8], [True, False], [np.float32, np.float64]
    ),
)
def test_the_default_pass(device, n_cells, weighted, threshold, soft, dtype):
    rows = Rows(device, n_cells, weighted, dtype=dtype, with_curvature=True, at_zero=not threshold)
    told = rows.scores, threshold, np.abs(rows.on_cells), rows.soft if soft else ()
    assert rows.there.descend(*told) == pytest.approx(rows.host.descend(*told), rel=1e-6)
    rows.check_equal()
    total = rows.host.gradient.sum(dtype=np.float64)
    assert rows.there.total_of_gradient == pytest.approx(total, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize(
    ("n_cells", "weighted", "threshold", "dtype"),
    covering([1, 4, 40, 1_000, 7_000], [True, False], [0.0, -0.8], [np.float32, np.float64]),
)
def test_measured_rates(device, n_cells, weighted, threshold, dtype):
    rows = Rows(device, n_cells, weighted, dtype=dtype)
    ours, loss = rows.host.measure(rows.scores, threshold)
    theirs, found = rows.there.measure(rows.scores, threshold)
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)
    assert found == pytest.approx(loss, rel=1e-6)
    if not weighted:
        np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize(
    ("proxy", "n_cells", "curved", "threshold", "soft", "weighted"),
    covering(
        list(PROXIES), [1, 6, 1_000], [True, False], [0.0, 0.4], [True, False], [True, False]
    ),
)
def test_the_papers_pass_with_every_proxy(
    device, proxy, n_cells, curved, threshold, soft, weighted
):
    rows = Rows(
        device, n_cells, weighted, dtype=np.float64, proxy=proxy, with_curvature=curved,
        at_zero=not threshold,
    )  # fmt: skip
    on_cells = np.abs(rows.on_cells) if curved else rows.on_cells
    told = rows.scores, threshold, on_cells, rows.soft if soft else ()
    ours, _ = rows.host.evaluate(*told)
    theirs, _ = rows.there.evaluate(*told)
    for name in ("positive", "loss", "up", "down"):
        np.testing.assert_allclose(
            getattr(theirs, name), getattr(ours, name), rtol=1e-6, atol=1e-6
        )
    rows.check_equal(1e-9)


def test_a_gradient_is_corrected_to_other_weights(device):
    rows = Rows(device, 6, proxy="cross_entropy", at_zero=True)
    other = rows.on_cells + 0.3
    for made in (rows.host, rows.there):
        _, line = made.evaluate(rows.scores, 0.0, rows.on_cells)
        assert made.correct(line, other)
    rows.check_equal(2e-5)


def test_sums_are_the_same_in_every_run(device):
    rows = Rows(device, 40, n=50_000)
    found = [rows.there.measure(rows.scores, 0.1) for _ in range(3)]
    assert all(np.array_equal(sums, found[0][0]) and loss == found[0][1] for sums, loss in found)


def test_a_score_that_is_no_number_shows(device):
    rows = Rows(device, proxy="cross_entropy", at_zero=True)
    rows.scores[17] = math.nan
    assert math.isnan(rows.there.descend(rows.scores, 0.0, rows.on_cells))
    sums, _ = rows.there.evaluate(rows.scores, 0.0, rows.on_cells)
    assert np.isnan(sums.loss).all()


def test_weights_that_are_far_apart_lose_nothing_that_counts(device):
    weight = np.array([1e-6, 1.0, 1e6, 1e6], np.float32)
    cells = np.array([0, 1, 2, 2], np.uint8)
    grad = device.empty(4, np.float32)
    loops = DeviceLoops(device, cells, 3, weight, grad, grad)
    sums, _ = loops.measure(np.ones(4, np.float32), 0.0, np.ones(3))
    np.testing.assert_allclose(sums, [1e-6, 1.0, 2e6], atol=1e-11 * 2e6, rtol=1e-6)


def test_wrong_arrays_are_refused(device):
    grad = device.empty(2, np.float32)
    with pytest.raises(IndexError, match="cells must be from 0 to 1, found from 0 to 2"):
        DeviceLoops(device, np.array([0, 2]), 2, np.empty(0, np.float32), grad, grad)
    loops = DeviceLoops(device, np.array([0, 1]), 2, np.empty(0, np.float32), grad, grad)
    with pytest.raises(ValueError, match="scores must be of shape"):
        loops.measure(np.zeros(3, np.float32), 0.0, np.ones(2))


@needs_compiler
def test_no_rows_are_no_error():
    device = BOTH[0].values[0]()
    rows = RowPass(
        np.empty(0, np.uint8), np.array([0, 1]), (1.0, 1.0), None,
        PassRules(PROXIES["sigmoid"], np.ones((2, 2), bool), device=device, with_curvature=True),
    )  # fmt: skip
    assert rows.descend(np.empty(0, np.float32), 0.0, np.zeros((2, 2))) == 0.0
    assert rows.measure(np.empty(0, np.float32), 0.0)[0].tolist() == [0.0, 0.0]


def test_without_cupy_one_line_says_so(monkeypatch):
    device_module.import_cupy.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        EngineOptionError, match=r"needs CuPy, which cannot be imported \(.*\); if"
    ):
        device_module.import_cupy()
    device_module.import_cupy.cache_clear()


def test_an_old_driver_is_not_taken_for_no_gpu(monkeypatch):
    class RuntimeError_(Exception):
        pass

    def count():
        raise RuntimeError_("cudaErrorInsufficientDriver")

    runtime = SimpleNamespace(CUDARuntimeError=RuntimeError_, getDeviceCount=count)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    device_module.import_cupy.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(EngineOptionError, match=r"InsufficientDriver.*driver may be too old"):
        device_module.import_cupy()
    device_module.import_cupy.cache_clear()


@pytest.mark.parametrize(
    ("n_inner", "some", "dtype", "order"),
    covering([0, 5, 5_000], [True, False], [np.float32, np.float64], ["C", "F"]),
)
def test_rows_are_sent_down_trees_as_on_the_cpu(device, n_inner, some, dtype, order):
    rng, n = np.random.default_rng(0), 3_000
    table = rng.normal(size=(n, 4)).round(1).astype(np.float32)
    table[rng.random((n, 4)) < 0.1] = np.nan
    nodes = tree(rng, 4, n_inner)  # of 5,000 there is no copy in shared memory
    expected, start = np.full(n, 0.5, np.float32), rng.normal(size=n).astype(np.float32)
    loops.fall(table, nodes, expected, 512, Threads())
    which = rng.permutation(n)[: 2_000 if some else n].astype(np.int32)
    which = which if some else np.arange(n, dtype=np.int32)
    sums = device.put(np.full(len(which), 0.5, np.float32))
    scores = device.empty(len(which), np.float32)
    there = device.put(np.asarray(np.nan_to_num(table, nan=-9.0), dtype, order=order))
    told = device.put(which) if some else None, sums, device.put(start[which]), scores
    device.fall(there, -9.0, nodes, *told)
    np.testing.assert_array_equal(device.get(sums), expected[which])
    np.testing.assert_array_equal(device.get(scores), (expected + start)[which])


@pytest.mark.parametrize("some", [True, False])
def test_leaves_are_added_to_scores(device, some):
    rng, n = np.random.default_rng(1), 3_000
    leaves = rng.normal(size=n).astype(np.float32)
    which = rng.permutation(n)[:2_000].astype(np.int32) if some else np.arange(n, dtype=np.int32)
    before = rng.normal(size=len(which)).astype(np.float32)
    sums, scores = device.put(before.copy()), device.empty(len(which), np.float32)
    device.advance(device.put(leaves), device.put(which) if some else None, sums, 0.25, scores)
    np.testing.assert_array_equal(device.get(sums), before + leaves[which])
    np.testing.assert_array_equal(device.get(scores), before + leaves[which] + np.float32(0.25))
