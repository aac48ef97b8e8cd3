"""The pass over rows of which a number is predicted: in C, in NumPy, and by hand."""

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMRegressor

from fairboost import FairGBMRegressor, calibrated
from fairboost.kernel import library, number_loops
from fairboost.kernel import numpy_number_loops as in_numpy
from fairboost.kernel.loops import Loops
from fairboost.kernel.losses import Loss
from fairboost.kernel.number_loops import SUMS, Intervals, NumberLoops, PushTable
from fairboost.kernel.threads import Threads
from tests.kernel.twins import in_both, near

LOSSES = [
    Loss("squared"),
    Loss("absolute"),
    Loss("quantile", 0.8),
    Loss("huber", 0.9),
    Loss("pseudo_huber", 0.7),
    Loss("poisson", step=0.7),
    Loss("gamma"),
    Loss("tweedie", 1.5),
]
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
FLOATS = st.sampled_from([np.float32, np.float64])
SEEDS = st.integers(0, 2**32 - 1)
CELLS, EVERYTHING = 5, sum(SUMS)


def knots_of(levels):
    ends = levels[[0, -1]] + [-0.5, 0.5]
    return np.concatenate([ends[:1], levels, ends[1:]])


@st.composite
def problems(draw):
    """Rows, a cut and a table; ``make`` gives the loops over them, with arrays of their own."""
    n, rng = draw(st.integers(0, 700)), np.random.default_rng(draw(SEEDS))
    loss = draw(st.sampled_from(LOSSES))
    cells = rng.integers(0, CELLS, n).astype(
        draw(st.sampled_from([np.uint8, np.uint16, np.int32]))
    )
    scores = rng.normal(0, draw(st.sampled_from([0.1, 2.0])), n).astype(draw(FLOATS))
    y = rng.gamma(2.0, size=n) + 0.01 if loss.log_link else rng.normal(size=n)
    if n and draw(st.booleans()):  # as where a leaf is just right
        scores[0], y[0] = (0.0, 1.0) if loss.log_link else (y[0], np.float32(y[0]))
    weight = rng.gamma(2.0, size=n if draw(st.booleans()) else 0).astype(np.float32)
    in_loss = rng.gamma(2.0, size=n).astype(np.float32) if draw(st.booleans()) else None
    years = rng.uniform(0.1, 1.0, n) if loss.log_link and draw(st.booleans()) else None
    out, block = draw(FLOATS), draw(st.sampled_from([1, 64, 256, 300, 10_000]))
    threads = draw(st.integers(1, 3))
    levels = np.sort(rng.normal(size=draw(st.integers(1, 17))))
    if draw(st.booleans()):  # as where many predictions are equal
        levels[1:] = levels[0]
    cut = Intervals(levels, knots_of(levels)) if draw(st.booleans()) else None

    def make():
        filled = np.zeros(n, out), np.zeros(n, out)
        loops = Loops(cells, CELLS, weight, *filled, block, Threads(threads))
        return NumberLoops(loops, loss, 2.0, y, in_loss, years)

    return rng, scores, cut, make


@st.composite
def tables(draw, rng, n, cut):
    """What constraints weigh, on some quantities or all, by cell and by probable groups."""
    n_levels, at, width = 0 if cut is None else len(cut.levels), {}, 0
    by_interval = cut is not None and draw(st.booleans())
    sizes = {"prediction": n_levels + 1 if by_interval else 1, "loss": 1, "steps": n_levels + 2}
    for name, size in sizes.items():
        if draw(st.booleans()) and not (name == "steps" and cut is None):
            at[name], width = width, width + size
    width = max(width, 1)
    soft = [
        (rng.random((n, groups)).astype("f4"), rng.normal(size=(groups, width)))
        for groups in draw(st.sampled_from([[], [1], [3, 2]]))
    ]
    return PushTable(rng.normal(size=(CELLS, width)), soft, by_interval=by_interval, **at)


@pytest.mark.usefixtures("compiled")
@given(data=st.data())
def test_descent_is_the_same_in_c_and_in_numpy(data):
    rng, scores, cut, make = data.draw(problems())
    table = data.draw(tables(rng, len(scores), cut))

    def work():
        made = make()
        loss = made.descend(scores, cut, 0.8, table)
        made.loops.threads.close()
        return loss, made.loops.gradient, made.loops.hessian

    compiled, twin = in_both(work)
    near(twin[0], compiled[0])
    for found, expected in zip(twin[1:], compiled[1:], strict=True):
        near(found, expected, expected.dtype == np.float32)


@pytest.mark.usefixtures("compiled")
@given(data=st.data(), reads=st.integers(0, EVERYTHING))
def test_sums_are_the_same_in_c_and_in_numpy(data, reads):
    _, scores, cut, make = data.draw(problems())

    def work():
        made = make()
        found = made.measure(scores, cut, reads)
        made.loops.threads.close()
        return found

    compiled, twin = in_both(work)
    assert compiled[0].shape == twin[0].shape
    near(twin[0], compiled[0])
    near(twin[1], compiled[1])


def drawn(loss, n=1_000):
    rng = np.random.default_rng(0)
    cells, scores = rng.integers(0, CELLS, n).astype("u1"), rng.normal(size=n)
    y = rng.gamma(2.0, size=n) + 0.01 if loss.log_link else rng.normal(size=n)
    levels = np.linspace(-1, 1, 6)
    return rng, cells, scores, y, Intervals(levels, knots_of(levels))


@pytest.mark.usefixtures("registers")
@EACH_LOSS
def test_sums_by_hand(loss):
    rng, cells, scores, y, cut = drawn(loss)
    n, weight = len(y), rng.gamma(2.0, size=len(y)).astype("f4")
    years = rng.uniform(0.1, 1.0, n) if loss.log_link else None
    out = np.zeros(n), np.zeros(n)
    made = NumberLoops(
        Loops(cells, CELLS, weight, *out, 128, Threads()), loss, 2.0, y, None, years
    )
    sums, total = made.measure(scores, cut, EVERYTHING)
    e = np.ones(n) if years is None else years
    plain = scores - np.log(e)
    r, a, q = loss.prediction(plain), y / e, 2.0 * loss.value(scores, y) / e
    assert total == pytest.approx(loss.value(scores, y).sum())
    assert sums.shape == (CELLS, 7, 8)
    for cell in range(CELLS):
        for k in range(7):
            low, high = ([-np.inf, *cut.levels, np.inf][k + j] for j in (0, 1))
            at = (cells == cell) & (plain >= low) & (plain < high)
            expected = [1.0 + 0 * r, r, r**2, a, a**2, a * r, q, q**2]
            expected = [weight[at] @ quantity[at] for quantity in expected]
            np.testing.assert_allclose(sums[cell, k], expected, rtol=1e-9)


@pytest.mark.usefixtures("registers")
@EACH_LOSS
@pytest.mark.parametrize("threads", [2, 3])
def test_results_do_not_depend_on_the_number_of_threads(loss, threads):
    rng, cells, scores, y, cut = drawn(loss, 5_000)
    table = PushTable(rng.normal(size=(CELLS, 16)), (), 0, 7, 8, True)

    def found(count):
        out, pool = (np.zeros(len(y)), np.zeros(len(y))), Threads(count)
        made = NumberLoops(Loops(cells, CELLS, np.ones(0, "f4"), *out, 512, pool), loss, 2.0, y)
        made.descend(scores, cut, 0.8, table)
        sums, total = made.measure(scores, cut, EVERYTHING)
        pool.close()
        return [*map(bytes, out), sums.tobytes(), total]

    assert found(threads) == found(1)


@pytest.mark.parametrize("loss", LOSSES[5:], ids=lambda x: x.name)
@pytest.mark.parametrize("far", [1e3, -1e3, 700.0, -700.0, np.nan, np.inf, -np.inf])
@pytest.mark.usefixtures("compiled")
def test_scores_that_are_too_large_do_the_same(loss, far):
    def work():
        out = np.zeros(2), np.zeros(2)
        loops = Loops(np.zeros(2, "u1"), 1, np.ones(0, "f4"), *out, 64, Threads())
        made = NumberLoops(loops, loss, 2.0, np.array([1.0, 2.0]))
        total = made.descend(np.array([far, 0.5]), None, 1.0, PushTable(np.zeros((1, 1))))
        return np.array([total, *out[0], *out[1]])

    with np.errstate(all="ignore"):
        compiled, twin = in_both(work)
    if loss.name == "tweedie" and far == 1e3:
        # The prediction is no number. NumPy still has one for the loss, which has a lesser power.
        assert compiled[0] == np.inf
        return
    both = np.isfinite(twin) & np.isfinite(compiled)
    np.testing.assert_allclose(compiled[both], twin[both], rtol=1e-12, atol=1e-290)
    np.testing.assert_array_equal(np.isfinite(twin), np.isfinite(compiled))


def test_exponentials_are_those_of_the_library():
    """Of scores on either side of 0, as far as there are numbers."""
    scores = np.concatenate([np.linspace(-699, 708, 4_001), np.linspace(-1, 1, 1_001)])
    out = np.zeros(len(scores)), np.zeros(len(scores))
    loops = Loops(np.zeros(len(scores), "u1"), 1, np.ones(0, "f4"), *out, 512, Threads())
    made = NumberLoops(loops, Loss("poisson"), 2.0, np.zeros(len(scores)))
    made.descend(scores, None, 1.0, PushTable(np.zeros((1, 1))))
    np.testing.assert_allclose(out[0], np.exp(scores), rtol=1e-15 * 8)


WRONG = [
    (lambda p: p | {"target": np.zeros(3)}, ValueError, "target must be float64 of shape"),
    (lambda p: p | {"target": np.zeros(4, "f4")}, ValueError, "target must be float64"),
    (lambda p: p | {"in_loss": np.zeros(4)}, ValueError, "loss_weight must be float32"),
    (lambda p: p | {"years": np.zeros(5)}, ValueError, "exposure must be float64 of shape"),
    (lambda p: p | {"scores": np.zeros(5)}, ValueError, "scores must be"),
    (lambda p: p | {"table": PushTable(np.zeros((3, 4)))}, ValueError, "table must be float64"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), (), 4)}, IndexError, "prediction reads"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), (), 2, by_interval=True)}, IndexError,
     "prediction reads column 4, and there are 4"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), (), steps=1)}, IndexError, "steps reads"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), (), loss=-2)}, IndexError, "loss reads"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), [(np.zeros((3, 2), "f4"),
     np.zeros((2, 4)))])}, ValueError, "memberships must be"),
    (lambda p: p | {"table": PushTable(np.zeros((2, 4)), [(np.zeros((4, 2), "f4"),
     np.zeros((2, 3)))])}, ValueError, "on_groups must be"),
    (lambda p: p | {"cut": None, "table": PushTable(np.zeros((2, 4)), (), steps=0)}, ValueError,
     "steps to weigh, and no thresholds"),
    (lambda p: p | {"cut": Intervals(np.zeros(2), np.zeros(3))}, ValueError, "knots must be"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "match"), WRONG)
def test_what_would_read_beyond_its_arrays_is_refused(monkeypatch, change, error, match):
    monkeypatch.setattr(library.Library, "run", lambda *_: pytest.fail("called all the same"))
    given = {
        "target": np.zeros(4), "in_loss": None, "years": None, "scores": np.zeros(4),
        "table": PushTable(np.zeros((2, 4))), "cut": Intervals(np.zeros(2), np.zeros(4)),
    }  # fmt: skip
    p = change(given)
    out = np.zeros(4), np.zeros(4)
    loops = Loops(np.zeros(4, "u1"), 2, np.ones(0, "f4"), *out, 64, Threads())
    with pytest.raises(error, match=match):
        made = NumberLoops(loops, Loss("poisson"), 2.0, p["target"], p["in_loss"], p["years"])
        made.descend(p["scores"], p["cut"], 1.0, p["table"])


def test_what_is_read_has_the_same_numbers_in_c_and_in_numpy():
    for name in ("PREDICTION", "ACTUAL", "LOSS", "WEIGHT"):
        assert getattr(number_loops, name) == getattr(in_numpy, f"READS_{name}")


@pytest.mark.usefixtures("compiled")
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    "engine",
    [
        LGBMRegressor(objective="poisson", n_estimators=8, num_leaves=7, verbose=-1),
        xgboost.XGBRegressor(objective="count:poisson", n_estimators=8, max_depth=3),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_a_model_is_the_same(engine):
    """From fit to prediction: descent, sums on held-out rows, thresholds and parts."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(3_000, 3)), rng.integers(0, 2, 3_000)
    y = rng.poisson(np.exp(0.4 * X[:, 0] + 0.3 * group))

    def work():
        constraint = ["equal_distributions", calibrated(0.05, within=4)]
        model = FairGBMRegressor(engine, constraint=constraint, holdout=0.3, random_state=0)
        model.fit(X, y, sensitive_features=group, exposure=np.full(3_000, 0.5))
        return model.predict(X)

    compiled, twin = in_both(work)
    np.testing.assert_allclose(twin, compiled, rtol=1e-4)
