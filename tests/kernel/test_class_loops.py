"""The pass over rows that are given one of several classes: in C, in NumPy, and by hand."""

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from scipy.special import log_softmax

from fairboost import FairGBMClassifier
from fairboost.fairness.costs import in_units
from fairboost.kernel import library
from fairboost.kernel.class_loops import ClassLoops, ClassLoss
from fairboost.kernel.loops import Loops
from fairboost.kernel.threads import Threads
from tests.kernel.twins import in_both, near

FLOATS = st.sampled_from([np.float32, np.float64])
ORDERS = st.sampled_from(["C", "F"])
NOTHING = np.empty(0, np.float32)


def costs_of(rng, k):
    return in_units(rng.uniform(0.5, 3.0, (k, k)) * (1.0 - np.eye(k)))


def room(n, k, dtype=np.float64, order="C"):
    return np.zeros((n, k), dtype, order), np.zeros((n, k), dtype, order)


@st.composite
def problems(draw):
    """Rows, scores and weights; ``make`` gives the loops over them."""
    n, rng = draw(st.integers(0, 600)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.sampled_from([2, 3, 5, 20, 200]))
    n_cells = k + 3
    labels = np.concatenate([np.arange(k), rng.integers(0, k, 3)])
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.int32]))
    cells = rng.integers(0, n_cells, n).astype(kind)
    spread = draw(st.sampled_from([0.0, 0.1, 3.0, 300.0]))
    scores = np.asarray(spread * rng.normal(size=(n, k)), draw(FLOATS), order=draw(ORDERS))
    if n and draw(st.booleans()):  # as where leaves are shared
        scores[:, 1] = scores[:, 0]
    weight = rng.gamma(2.0, size=n if draw(st.booleans()) else 0).astype(np.float32)
    factors = rng.gamma(2.0, size=k).astype(np.float32) if draw(st.booleans()) else None
    costs = costs_of(rng, k) if draw(st.booleans()) else None
    loss = ClassLoss(k, k / (k - 1.0), factors, costs, draw(st.sampled_from([1.0, 2.0, 3.0])))
    block, threads = draw(st.sampled_from([1, 64, 300, 10_000])), draw(st.integers(1, 3))

    def make():
        loops = Loops(cells, n_cells, weight, NOTHING, NOTHING, block, Threads(threads))
        return ClassLoops(loops, labels, loss)

    return rng, scores, make


@st.composite
def pushes(draw, rng, n, k):
    """What constraints weigh: nothing, by cell, or by probable groups too."""
    if draw(st.booleans()):
        return None, []
    groups = draw(st.sampled_from([[], [1], [3, 2]]))
    soft = [
        (rng.dirichlet(np.ones(g), n).astype("f4").reshape(n, g), rng.normal(size=(k, g, k)))
        for g in groups
    ]
    return rng.normal(size=(k + 3, k)), soft


@pytest.mark.usefixtures("compiled")
@given(data=st.data(), out=FLOATS, order=ORDERS)
def test_descent_is_the_same_in_c_and_in_numpy(data, out, order):
    rng, scores, make = data.draw(problems())
    n, k = scores.shape
    table, soft = data.draw(pushes(rng, n, k))

    def work():
        made, into = make(), room(n, k, out, order)
        loss = made.descend(scores, table, soft, into)
        made.loops.threads.close()
        return loss, *into

    compiled, twin = in_both(work)
    near(twin[0], compiled[0])
    for found, expected in zip(twin[1:], compiled[1:], strict=True):
        near(found, expected, out == np.float32)


@pytest.mark.usefixtures("compiled")
@given(data=st.data())
def test_decisions_are_the_same_in_c_and_in_numpy(data):
    _, scores, make = data.draw(problems())

    def work():
        made = make()
        found = made.measure(scores)
        made.loops.threads.close()
        return *found, made

    compiled, twin = in_both(work)
    if compiled[2].loops.arrays["weight"] is None:  # whole numbers of rows
        np.testing.assert_array_equal(compiled[0], twin[0])
    near(twin[0], compiled[0])
    near(twin[1], compiled[1])


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("decided_by_costs", [False, True])
def test_sums_by_hand(order, decided_by_costs):
    rng, n, k = np.random.default_rng(0), 1_000, 4
    labels, cells = np.array([0, 1, 2, 3, 1, 2]), rng.integers(0, 6, n).astype("u1")
    weight, factors = rng.gamma(2.0, size=n).astype("f4"), np.array([1, 2, 0.5, 3], "f4")
    costs = costs_of(rng, k) if decided_by_costs else None
    scores = np.asarray(rng.normal(size=(n, k)), order=order)
    made = ClassLoops(
        Loops(cells, 6, weight, NOTHING, NOTHING, 128, Threads()),
        labels,
        ClassLoss(k, 1.0, factors, costs),
    )
    sums, total = made.measure(scores)
    logs = log_softmax(scores, axis=1)
    best = scores.argmax(axis=1) if costs is None else (np.exp(logs) @ costs).argmin(axis=1)
    y = labels[cells]
    assert total == pytest.approx(-(weight * factors[y]) @ logs[np.arange(n), y])
    for cell in range(6):
        for of in range(k):
            at = (cells == cell) & (best == of)
            assert sums[cell, of] == pytest.approx(weight[at].sum(dtype=float))


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("decided_by_costs", [False, True])
@pytest.mark.parametrize("threads", [2, 3])
def test_results_do_not_depend_on_the_number_of_threads(threads, decided_by_costs):
    rng, n, k = np.random.default_rng(0), 5_000, 5
    cells, scores = rng.integers(0, k, n).astype("u1"), rng.normal(size=(n, k))
    weight, table = rng.gamma(2.0, size=n).astype("f4"), rng.normal(size=(k, k))
    soft = [(rng.dirichlet(np.ones(3), n).astype("f4"), rng.normal(size=(k, 3, k)))]
    loss = ClassLoss(k, costs=costs_of(rng, k) if decided_by_costs else None)

    def found(count):
        into, pool = room(n, k), Threads(count)
        made = ClassLoops(Loops(cells, k, weight, NOTHING, NOTHING, 512, pool), np.arange(k), loss)
        total = made.descend(scores, table, soft, into)
        sums, again = made.measure(scores)
        pool.close()
        return [*map(bytes, into), sums.tobytes(), total, again]

    assert found(threads) == found(1)


@pytest.mark.usefixtures("registers")
def test_ties_go_to_the_first_class():
    for costs in (None, in_units(1.0 - np.eye(3))):
        loops = Loops(np.zeros(5, "u1"), 1, NOTHING, NOTHING, NOTHING, 64, Threads())
        made = ClassLoops(loops, np.zeros(1, int), ClassLoss(3, costs=costs))
        scores = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1], [-1, -1, -2.0]])
        assert made.measure(scores)[0].tolist() == [[4.0, 1.0, 0.0]]


@pytest.mark.usefixtures("registers")
def test_no_rows_come_to_nothing():
    """A worker of a cluster may hold none of the rows, whose scores then know of no classes."""
    loops = Loops(np.zeros(0, "u1"), 2, NOTHING, NOTHING, NOTHING, 64, Threads())
    made = ClassLoops(loops, np.arange(2), ClassLoss(3))
    sums, loss = made.measure(np.empty(0, np.float32))
    assert sums.tolist() == np.zeros((2, 3)).tolist() and loss == 0.0
    assert made.descend(np.empty((0, 3)), np.ones((2, 3)), [], room(0, 3)) == 0.0


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("far", [1e3, -1e3, 700.0, np.nan, np.inf, -np.inf])
def test_scores_that_are_too_large_do_the_same(far):
    def work():
        loops = Loops(np.arange(2, dtype="u1"), 2, NOTHING, NOTHING, NOTHING, 64, Threads())
        made, into = ClassLoops(loops, np.array([0, 2]), ClassLoss(3)), room(2, 3)
        scores = np.array([[far, 0.0, 0.5], [0.0, 0.5, 1.0]])
        loss = made.descend(scores, np.ones((2, 3)), [], into)
        return np.concatenate([[loss, made.measure(scores)[1]], *into[0], *into[1]])

    with np.errstate(all="ignore"):
        compiled, twin = in_both(work)
    np.testing.assert_array_equal(np.isfinite(twin), np.isfinite(compiled))
    both = np.isfinite(twin)
    np.testing.assert_allclose(compiled[both], twin[both], rtol=1e-12, atol=1e-14)
    assert np.isfinite(compiled[0]) == (np.isfinite(far))


def base(**change):
    """A call in which nothing is wrong, but for what is changed."""
    return {
        "labels": np.arange(2), "loss": ClassLoss(2), "scores": np.zeros((4, 2)),
        "table": np.zeros((2, 2)), "soft": [], "into": room(4, 2), **change,
    }  # fmt: skip


SHARES = np.zeros((4, 3), "f4")
WRONG = [
    (base(labels=np.array([0, 2])), IndexError, "labels must be from 0 to 1"),
    (base(labels=np.arange(3)), ValueError, r"labels must be int64 of shape \(2,\)"),
    (base(loss=ClassLoss(0)), ValueError, "classes must be from 1"),
    (base(loss=ClassLoss(library.ROOM + 1)), ValueError, "classes must be from 1 to 1280"),
    (base(loss=ClassLoss(2, factors=np.zeros(3, "f4"))), ValueError, "factors must be float32"),
    (base(loss=ClassLoss(2, costs=np.zeros((2, 3)))), ValueError, "costs must be float64"),
    (base(scores=np.zeros((4, 3))), ValueError, "scores must be"),
    (base(scores=np.zeros(4)), ValueError, "scores must be"),
    (base(table=np.zeros((3, 2))), ValueError, "table must be float64"),
    (base(table=np.zeros((2, 2), order="F")[::-1]), ValueError, "table must be contiguous"),
    (base(table=None, soft=[(SHARES, np.zeros((2, 3, 2)))]), ValueError, "there is none"),
    (base(soft=[(SHARES[:3], np.zeros((2, 3, 2)))]), ValueError, "memberships must be"),
    (base(soft=[(SHARES, np.zeros((2, 2, 2)))]), ValueError, "on_groups must be"),
    (base(into=room(3, 2)), ValueError, "gradient must be"),
    (base(into=(room(4, 2)[0], room(4, 2, np.float32)[0])), ValueError, "hessian must be"),
    (base(into=(room(4, 2)[0], room(4, 2, order="F")[0])), ValueError, "the same order"),
    (base(into=(np.zeros((4, 4))[:, ::2],) * 2), ValueError, "gradient must be contiguous"),
]


@pytest.mark.parametrize(("p", "error", "match"), WRONG)
def test_what_would_read_beyond_its_arrays_is_refused(monkeypatch, p, error, match):
    monkeypatch.setattr(library.Library, "run", lambda *_: pytest.fail("called all the same"))
    loops = Loops(np.zeros(4, "u1"), 2, NOTHING, NOTHING, NOTHING, 64, Threads())
    with pytest.raises(error, match=match):
        ClassLoops(loops, p["labels"], p["loss"]).descend(
            p["scores"], p["table"], p["soft"], p["into"]
        )


def test_rows_without_room_for_a_gradient_are_measured_only():
    loops = Loops(np.zeros(4, "u1"), 1, NOTHING, NOTHING, NOTHING, 64, Threads())
    assert loops.measure(np.zeros(4), 0.0, np.ones(1))[0].tolist() == [4.0]
    with pytest.raises(ValueError, match="no room for a gradient"):
        loops.descend(np.zeros(4), 0.0, np.ones(1), np.ones(1), np.zeros(1, np.int64), [])
    with pytest.raises(ValueError, match="no room for a gradient"):
        loops.correct(np.ones(1), np.ones(1))


@pytest.mark.usefixtures("compiled")
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    "engine",
    [
        LGBMClassifier(n_estimators=8, num_leaves=7, verbose=-1),
        xgboost.XGBClassifier(n_estimators=8, max_depth=3),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_a_model_is_the_same(engine):
    """From fit to prediction: descent, memberships, and decisions on held-out rows."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(3_000, 3)), rng.integers(0, 2, 3_000)
    y = np.digitize(X[:, 0] + 0.7 * group + rng.normal(size=3_000), [-0.5, 0.5])

    def work():
        model = FairGBMClassifier(
            engine, constraint="demographic_parity", holdout=0.3, random_state=0
        )
        return model.fit(X, y, sensitive_features=group).predict_proba(X)

    compiled, twin = in_both(work)
    np.testing.assert_allclose(twin, compiled, rtol=1e-4)
