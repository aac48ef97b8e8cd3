import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairboost.fairness.proxies import PROXIES
from fairboost.kernel import row_pass as module
from fairboost.kernel.row_pass import PassRules, RowPass, SoftWeights
from fairboost.kernel.threads import Threads

NOTHING = np.zeros((2, 4))


def row_pass(n=1000, n_threads=1, proxy="cross_entropy", weighted=True, **rules):
    """A pass over random rows of four cells, at threshold 0 unless told otherwise, and scores."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, n).astype(np.int32)
    labels = np.array([0, 1, 0, 1], np.int32)
    weight = rng.random(n).astype(np.float32)
    told = {"at_zero": True, "threads": Threads(n_threads), **rules}
    rules = PassRules(PROXIES[proxy], np.ones((2, 4), bool), **told)
    made = RowPass(cells, labels, (1.0, 1.0), weight if weighted else None, rules)
    return made, rng.normal(0, 2, n)


def test_sums_by_cell_are_what_they_say():
    rows, f = row_pass(at_zero=False)
    sums, _ = rows.evaluate(f, 0.3, NOTHING)
    w = rows.weight.astype(float)
    y = np.array([0, 1, 0, 1])[rows.cells]
    loss = np.logaddexp(0, np.where(y == 1, -f, f))
    for name, per_row in {
        "positive": f >= 0.3,
        "loss": loss,
        "up": np.logaddexp(0, f - 0.3),
        "down": np.logaddexp(0, 0.3 - f),
    }.items():
        np.testing.assert_allclose(getattr(sums, name), np.bincount(rows.cells, w * per_row))


def each_row_its_cell(f, label=0):
    """Loss, slope and curvature of each row, in double precision."""
    n = len(f)
    rules = PassRules(PROXIES["cross_entropy"], np.zeros((2, n), bool), True, dtype=np.float64)
    labels = np.full(n, label, np.int32)
    rows = RowPass(np.arange(n, dtype=np.uint32), labels, (1.0, 1.0), None, rules)
    sums, _ = rows.evaluate(f, 0.0, np.zeros((2, n)))
    return sums.loss, rows.gradient, rows.hessian


@pytest.mark.usefixtures("registers")
def test_exponential_and_logarithm_are_those_of_numpy():
    f = np.concatenate([np.linspace(0, 40, 20_001), [-0.0, 1e-300, 650]])
    small = np.exp(-f)
    loss, slope, curvature = each_row_its_cell(-f)
    np.testing.assert_allclose(loss, np.log1p(small), rtol=2e-15)
    np.testing.assert_allclose(slope, small / (1 + small), rtol=2e-15)
    np.testing.assert_allclose(curvature, small / (1 + small) ** 2, rtol=2e-15)
    loss, slope, _ = each_row_its_cell(f)
    np.testing.assert_allclose(loss, f + np.log1p(small), rtol=2e-15)
    np.testing.assert_allclose(slope, 1 / (1 + small), rtol=2e-15)
    np.testing.assert_array_equal(each_row_its_cell(-f, label=1)[1], -slope)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("far", [1e3, 1e6, 1e300])
def test_far_scores_do_not_overflow(far):
    loss, slope, curvature = each_row_its_cell(np.array([far, -far]))
    assert loss[0] == far and 0 <= loss[1] < 1e-300
    assert slope[0] == 1 and 0 <= slope[1] < 1e-300
    assert (curvature >= 0).all() and (curvature < 1e-300).all()


def single(f, label):
    """Loss, slopes and curvatures in single precision, as for an engine that has no more."""
    rules = PassRules(PROXIES["sigmoid"], np.ones((2, 1), bool), True, with_curvature=True)
    rows = RowPass(np.zeros(len(f), np.uint8), np.array([label]), (1.0, 1.0), None, rules)
    return rows.descend(f.astype(np.float32), 0.0, np.zeros((2, 1))), rows


@pytest.mark.usefixtures("registers")
def test_single_precision_is_that_of_single_numbers():
    f = np.concatenate([np.linspace(0, 40, 20_001), [-0.0, 1e-30, 80]])
    f = f.astype(np.float32).astype(float)
    small = np.exp(-f)
    for sign, label in ((-1, 0), (1, 1)):  # on the right side
        _, rows = single(sign * f, label)
        np.testing.assert_allclose(-sign * rows.gradient, small / (1 + small), rtol=4e-7)
        np.testing.assert_allclose(rows.hessian, small / (1 + small) ** 2, rtol=6e-7)
    loss, rows = single(f, 0)
    np.testing.assert_allclose(rows.gradient, 1 / (1 + small), rtol=2e-7)
    assert loss == pytest.approx((f + np.log1p(small)).sum(), rel=1e-7)
    for score in (-30.0, -3.0, -0.3, -0.03, 0.03, 3.0):
        loss, _ = single(np.array([score]), 0)
        assert loss == pytest.approx(np.logaddexp(0, np.float32(score)), rel=3e-7)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("far", [1e3, 1e6, 1e30])
def test_far_scores_do_not_overflow_in_single_precision(far):
    loss, rows = single(np.array([far, -far]), 0)
    assert loss == pytest.approx(np.float32(far))
    assert rows.gradient[0] == 1 and 0 <= rows.gradient[1] < 1e-37
    assert (rows.hessian >= 0).all() and (rows.hessian < 1e-37).all()


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("label", [0, 1])
def test_a_score_that_is_no_number_is_in_the_loss_of_either_label(label):
    """Else it would pass for a negative decision, of which nobody hears."""
    f = np.array([0.5, np.nan, -0.5])
    loss, rows = single(f, label)
    assert np.isnan(loss) and np.isnan(rows.gradient).tolist() == [False, True, False]
    assert np.isnan(rows.measure(f, 0.0)[1])
    assert np.isnan(each_row_its_cell(f, label)[0]).tolist() == [False, True, False]


@pytest.mark.usefixtures("registers")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(0, 2_000),
    cell_type=st.sampled_from([np.uint8, np.uint16, np.uint32, np.int32]),
    score_type=st.sampled_from([np.float32, np.float64]),
    out_type=st.sampled_from([np.float32, np.float64]),
    weighted=st.booleans(),
    threshold=st.sampled_from([0.0, -1.3, 2.0]),
    n_soft=st.integers(0, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_default_game_is_what_its_formula_says(
    n, cell_type, score_type, out_type, weighted, threshold, n_soft, seed
):
    """Every kind of array that the compiled loops read, against the same in NumPy."""
    rng = np.random.default_rng(seed)
    cells, labels = rng.integers(0, 4, n).astype(cell_type), np.array([0, 1, 1, 0])
    weight = rng.random(n).astype(np.float32) if weighted else None
    w = np.ones(n) if weight is None else weight.astype(float)
    f = rng.normal(0, 3, n).astype(score_type)
    on_up, on_down = on_cells = rng.normal(size=(2, 4))
    soft = [
        SoftWeights(rng.random((n, 3)).astype(np.float32), rng.normal(size=(3, 4)))
        for _ in range(n_soft)
    ]
    needs = np.ones((2, 4), bool)
    rules = PassRules(PROXIES["sigmoid"], needs, with_curvature=True, dtype=out_type)
    rows = RowPass(cells, labels, (1.0, 2.5), weight, rules)
    loss = rows.descend(f, threshold, on_cells, soft)

    y = labels[cells]
    u, v = np.where(y == 1, -1.0, 1.0) * f, f.astype(float) - threshold
    s, p = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(-v))
    loss_weight = w * np.where(y == 1, 2.5, 1.0)
    on_groups = sum((s.memberships @ s.on_groups for s in soft), np.zeros((n, 4)))
    ups, downs = on_groups.reshape(n, 2, 2)[np.arange(n), y].T
    on_cell, on_own = (on_up - on_down)[cells], ups - downs
    bump = w * p * (1 - p)
    gradient = loss_weight * np.where(y == 1, -1, 1) * s + bump * (on_cell + on_own)
    size = np.abs(on_cell) + np.abs(on_own)
    hessian = loss_weight * s * (1 - s) + bump * np.abs(1 - 2 * p) * size
    near = (
        {"rtol": 1e-5, "atol": 1e-6} if np.float32 in (out_type, score_type) else {"atol": 1e-13}
    )
    np.testing.assert_allclose(rows.gradient, gradient, **near)
    np.testing.assert_allclose(rows.hessian, hessian, **near)
    assert loss == pytest.approx(loss_weight @ np.logaddexp(0, u), rel=1e-6, abs=1e-12)
    rows.threads.close()


def test_reading_proxies_off_the_loss_equals_computing_them():
    """The short cut for cross-entropy at threshold 0 against the general path."""
    short, f = row_pass(dtype=np.float64)
    general, _ = row_pass(dtype=np.float64)
    general.reads_loss, general.sides = False, [np.ones(4), -np.ones(4)]
    assert short.reads_loss and not short.sides
    on_cells = np.array([[0.5, -0.2, 0.0, 1.5], [-0.7, 0.0, 0.4, 2.0]])
    (a, _), (b, _) = short.evaluate(f, 0.0, on_cells), general.evaluate(f, 0.0, on_cells)
    np.testing.assert_allclose(a.up, b.up)
    np.testing.assert_allclose(a.down, b.down)
    np.testing.assert_allclose(short.gradient, general.gradient, atol=1e-14)


def test_a_corrected_gradient_is_that_of_a_new_pass():
    first, f = row_pass(dtype=np.float64)
    again, _ = row_pass(dtype=np.float64)
    before = np.array([[0.5, -0.2, 0.0, 1.5], [-0.3, 0.0, 0.4, 2.0]])
    after = np.array([[0.1, 0.3, -0.5, 1.0], [0.7, -0.4, 0.0, 0.2]])
    _, line = first.evaluate(f, 0.0, before)
    assert first.correct(line, after)
    _, line = again.evaluate(f, 0.0, after)
    np.testing.assert_allclose(first.gradient, again.gradient, atol=1e-13)
    assert first.correct(line, before)  # and back
    again.evaluate(f, 0.0, before)
    np.testing.assert_allclose(first.gradient, again.gradient, atol=1e-13)


def test_a_gradient_that_has_lost_its_slope_is_not_corrected():
    rows, f = row_pass()
    _, line = rows.evaluate(f, 0.0, np.array([[-1.0, 0, 0, 0], [0, 0, 0, 0]]))  # cancels in cell 0
    assert not rows.correct(line, NOTHING)
    general, _ = row_pass(proxy="hinge")
    _, line = general.evaluate(f, 0.0, NOTHING)
    assert not general.correct(line, np.array([np.ones(4), np.zeros(4)]))


def test_a_cell_is_evaluated_in_both_directions_only_if_both_are_needed():
    up, down = np.array([True, False, True, False]), np.array([False, True, True, False])
    first, second = module._sides(up, down)
    assert first.tolist() == [1, -1, 1, 0]
    assert second.tolist() == [0, 0, -1, 0]
    assert len(module._sides(up, np.zeros(4, bool))) == 1
    assert module._sides(np.zeros(4, bool), np.zeros(4, bool)) == []


@pytest.mark.parametrize("proxy", ["cross_entropy", "sigmoid"])
def test_threads_do_not_change_a_bit(monkeypatch, proxy):
    monkeypatch.setattr(module, "BLOCK", 64)
    results = []
    for n_threads in (1, 2, 3, 7):
        rows, f = row_pass(n_threads=n_threads, proxy=proxy)
        sums, _ = rows.evaluate(f, 0.0, np.array([np.arange(4) / 3, -np.arange(4) / 7]))
        rows.threads.close()
        results.append((sums, rows.gradient, rows.hessian))
    for sums, gradient, hessian in results[1:]:
        for name in ("positive", "loss", "up", "down"):
            assert (getattr(sums, name) == getattr(results[0][0], name)).all()
        assert (gradient == results[0][1]).all()
        assert (hessian == results[0][2]).all()


@pytest.mark.parametrize("proxy", ["cross_entropy", "sigmoid", "hinge"])
def test_threads_do_not_change_a_bit_of_what_the_default_game_asks_for(monkeypatch, proxy):
    monkeypatch.setattr(module, "BLOCK", 64)
    results = []
    for n_threads in (1, 2, 7):
        rows, f = row_pass(n_threads=n_threads, proxy=proxy, with_curvature=True)
        loss = rows.descend(f, 0.0, np.array([np.arange(4) / 3, np.arange(4) / 7]))
        positive, measured = rows.measure(f, 0.0)
        rows.threads.close()
        results.append((loss, measured, *positive, *rows.gradient, *rows.hessian))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_measured_is_what_it_says(weighted):
    rows, f = row_pass(n=3_000, at_zero=False, weighted=weighted)
    rows.loss_weight[:] = 1.0, 2.0, 1.0, 2.0
    rows.pull = rows.away * rows.loss_weight
    w = rows.weight.astype(float) if weighted else np.ones(len(f))
    y = rows.cells % 2
    positive, measured = rows.measure(f, 0.3)
    np.testing.assert_allclose(positive, np.bincount(rows.cells, w * (f >= 0.3)))
    loss = np.logaddexp(0, np.where(y == 1, -f, f)) * (1 + y) @ w
    assert measured == pytest.approx(loss, rel=1e-12)


def test_no_rows_are_no_trouble():
    """On a cluster, a worker may hold none of the rows held out."""
    rows, f = row_pass(n=0)
    positive, loss = rows.measure(f, 0.0)
    assert loss == 0 and positive.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("n_groups", [100, 200])
def test_many_cells(n_groups):
    """More cells than a byte can number."""
    rng = np.random.default_rng(0)
    n_cells = 2 * n_groups
    cells = rng.integers(0, n_cells, 5000).astype(np.int32)
    labels = (np.arange(n_cells) % 2).astype(np.int32)
    rules = PassRules(PROXIES["cross_entropy"], np.ones((2, n_cells), bool), True)
    rows = RowPass(cells, labels, (1.0, 1.0), None, rules)
    f = rng.normal(size=5000)
    sums, _ = rows.evaluate(f, 0.0, np.zeros((2, n_cells)))
    np.testing.assert_array_equal(sums.positive, np.bincount(cells, f >= 0, n_cells))


def test_a_class_without_weight_still_gets_its_constraint():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, 100).astype(np.int32)
    rules = PassRules(PROXIES["cross_entropy"], np.ones((2, 2), bool), True)
    rows = RowPass(cells, np.array([0, 1], np.int32), (1.0, 0.0), None, rules)
    f = rng.normal(size=100)
    rows.evaluate(f, 0.0, np.array([[0.0, 0.0], [0.0, 2.0]]))
    expected = np.where(cells == 1, -2 / (1 + np.exp(f)), 1 / (1 + np.exp(-f)))
    np.testing.assert_allclose(rows.gradient, expected, rtol=1e-6)


def test_an_error_in_a_thread_is_not_lost(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    rows, _ = row_pass(n_threads=3)
    with pytest.raises(IndexError):
        rows._each_block(lambda block: [][block.start])
    rows.threads.close()
