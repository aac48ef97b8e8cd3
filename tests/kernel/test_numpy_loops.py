"""The loops in C and those in NumPy give the same, whatever arrays they are given."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost import FairGBMClassifier
from fairboost.kernel.loops import Loops, fall
from fairboost.kernel.threads import Threads
from tests.kernel.trees import trees

pytestmark = pytest.mark.usefixtures("compiled")
FLOATS = st.sampled_from([np.float32, np.float64])
SEEDS = st.integers(0, 2**32 - 1)
CELLS = 5


def in_both(work):
    """What some work gives in C and in NumPy."""
    found = []
    for name in ("c", "numpy"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRBOOST_KERNEL", name)
            found.append(work())
    return found


@st.composite
def problems(draw):
    """Rows, tables and threads; ``make`` gives the loops over them, with arrays of their own."""
    n, rng = draw(st.integers(0, 700)), np.random.default_rng(draw(SEEDS))
    cells = rng.integers(0, CELLS, n)
    cells = cells.astype(draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.int32])))
    scores = (rng.normal(0, draw(st.sampled_from([0.1, 3.0, 300.0])), n)).astype(draw(FLOATS))
    weight = rng.gamma(2.0, size=n if draw(st.booleans()) else 0).astype(np.float32)
    out, block = draw(FLOATS), draw(st.sampled_from([1, 64, 512, 10_000]))
    threshold = draw(st.sampled_from([0.0, -1.3, 2.0]))
    before, threads = rng.normal(size=n), draw(st.integers(1, 3))

    def make():
        arrays = before.astype(out), np.zeros(n, out)
        return Loops(cells, CELLS, weight, *arrays, block, Threads(threads))

    return rng, scores, threshold, make


def near(found, expected, size, single):
    """Equal up to rounding, of sums of terms of some size."""
    bound = 2e-6 if single else 1e-12
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * size)


def outcome(made, *results):
    made.threads.close()
    return *results, made.gradient, made.hessian


@given(problem=problems(), n_soft=st.integers(0, 2), n_groups=st.integers(1, 4))
def test_descend(problem, n_soft, n_groups):
    rng, scores, threshold, make = problem
    pull, bump = rng.normal(size=(2, CELLS))
    soft = [
        (rng.random((len(scores), n_groups)).astype("f4"), rng.normal(size=(2, n_groups)))
        for _ in range(n_soft)
    ]
    side = rng.integers(-1, 2, CELLS)

    def work():
        made = make()
        return outcome(made, made.descend(scores, threshold, pull, bump, side, soft))

    compiled, twin = in_both(work)
    for found, expected in zip(twin, compiled, strict=True):
        near(found, expected, 10.0, compiled[1].dtype == np.float32)


@given(problem=problems())
def test_measure(problem):
    rng, scores, threshold, make = problem
    pull = rng.normal(size=CELLS)

    def work():
        made = make()
        return outcome(made, *made.measure(scores, threshold, pull))

    compiled, twin = in_both(work)
    near(twin[0], compiled[0], 0, False)
    near(twin[1], compiled[1], 0, False)
    for found, expected in zip(twin[2:], compiled[2:], strict=True):  # not touched
        np.testing.assert_array_equal(found, expected)


@given(problem=problems())
def test_sum_and_descend_and_correct(problem):
    rng, scores, threshold, make = problem
    away, scale, shift, curve = rng.normal(size=(4, CELLS))
    further = rng.normal(size=(2, CELLS))

    def work():
        made = make()
        sums = made.sum_and_descend(scores, threshold, away, (scale, shift), curve)
        first = made.gradient.copy()
        made.correct(*further)
        return outcome(made, sums, first)

    compiled, twin = in_both(work)
    size = 1 + np.abs(scores.astype(float)).sum()  # of the scores, which cancel
    near(twin[0], compiled[0], size, False)
    for found, expected in zip(twin[1:], compiled[1:], strict=True):
        near(found, expected, 10.0, expected.dtype == np.float32)


@given(data=st.data(), n=st.integers(0, 300), n_features=st.integers(1, 4), seed=SEEDS)
def test_fall(data, n, n_features, seed):
    rng, nodes = np.random.default_rng(seed), data.draw(trees(n_features))
    table = rng.normal(size=(n, n_features)).round(1).astype(np.float32)
    table[rng.random(table.shape) < 0.2] = np.nan
    before = rng.normal(size=n).astype(np.float32)

    def work():
        scores, threads = before.copy(), Threads(2)
        assert fall(table, nodes, scores, 64, threads) <= max(1, n)
        threads.close()
        return scores

    compiled, twin = in_both(work)
    np.testing.assert_array_equal(twin, compiled)


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan, 1e300, -1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_are_no_numbers_do_the_same(far, dtype):
    with np.errstate(over="ignore"):
        scores = np.array([far, 0.5]).astype(dtype)

    def work():
        out = np.zeros(2, dtype), np.zeros(2, dtype)
        made = Loops(np.zeros(2, "u1"), 1, np.ones(0, "f4"), *out, 64, Threads())
        one = np.ones(1)
        loss = made.descend(scores, 0.3, one, one, np.zeros(1, np.int64), [])
        return np.array([loss, *out[0], *out[1]])

    compiled, twin = in_both(work)
    np.testing.assert_allclose(twin, compiled, rtol=2e-6, atol=1e-37)


def test_a_model_is_the_same(toy, kind):
    """From fit to prediction, on each engine: descent, rates on held-out rows, and trees."""

    def work():
        model = FairGBMClassifier(kind.make(), constraint="equal_opportunity", random_state=0)
        model.fit(toy.X, toy.y, sensitive_features=toy.group)
        return model.predict_proba(toy.X)[:, 1]

    compiled, twin = in_both(work)
    np.testing.assert_allclose(twin, compiled, rtol=1e-4)


def test_both_are_compared():
    """And not one with itself."""
    kernels = in_both(lambda: type(Loops(*_nothing()).kernel).__name__)
    assert kernels == ["Library", "module"]
    assert os.environ.get("FAIRBOOST_KERNEL", "") in ("", "c", "portable")


def _nothing():
    empty = np.zeros(0, np.float32)
    return np.zeros(0, "u1"), 1, empty, empty, empty, 64, Threads()
