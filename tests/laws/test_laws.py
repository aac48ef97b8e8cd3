"""What must hold for any data: the laws of the method, as properties."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from fairboost.algorithm.multipliers import Ascent, resume
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES, group_sums
from fairboost.metrics import group_rates
from tests.problems import rows, session

SEEDS = st.integers(0, 10_000)
RATE_NAMES = st.sampled_from(sorted(RATES))
PROXY_NAMES = st.sampled_from(sorted(PROXIES))


def run(y, columns, weight, f, constraints, proxy="cross_entropy", rounds=3):
    """Gradient of the last of some rounds on the same scores, and the multipliers after it."""
    lagrangian = session(
        build_cells(y, columns, weight), constraints, PROXIES[proxy], Ascent(0.5),
        sample_weight=weight, dtype=np.float64,
    )  # fmt: skip
    for _ in range(rounds):
        gradient, hessian = lagrangian.play(f)
    return gradient.copy(), hessian.copy(), lagrangian.state.dual.multipliers


def pick(columns, index):
    return [SensitiveColumn(c.name, c.codes[index], c.values) for c in columns]


def scores(seed, n):
    return np.random.default_rng(seed).normal(0, 2, n)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=30)
def test_order_of_rows_does_not_matter(seed, rate, proxy):
    y, columns, weight, _ = rows(seed, weighted=True)
    f = scores(seed, len(y))
    constraints = [parity(rate, 0.0, by="g"), bound(rate, 0.1)]
    order = np.random.default_rng(seed + 1).permutation(len(y))
    g, h, m = run(y, columns, weight, f, constraints, proxy)
    g2, h2, m2 = run(y[order], pick(columns, order), weight[order], f[order], constraints, proxy)
    np.testing.assert_allclose(g2, g[order], atol=1e-10)
    np.testing.assert_allclose(h2, h[order], atol=1e-12)
    np.testing.assert_allclose(m2, m, atol=1e-12)


@given(SEEDS, RATE_NAMES)
@settings(max_examples=30)
def test_names_of_groups_do_not_matter(seed, rate):
    y, columns, weight, _ = rows(seed)
    f = scores(seed, len(y))
    constraints = [parity(rate, 0.0, by="g")]
    relabel = np.random.default_rng(seed).permutation(3)
    g_column, h_column = columns
    codes = np.where(g_column.codes >= 0, relabel[g_column.codes], -1).astype(np.int32)
    renamed = [SensitiveColumn("g", codes, ("x", "y", "z")), h_column]
    g, _, m = run(y, columns, weight, f, constraints)
    g2, _, m2 = run(y, renamed, weight, f, constraints)
    np.testing.assert_allclose(m2[relabel], m, atol=1e-12)
    np.testing.assert_allclose(g2, g, atol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=30)
def test_an_integer_weight_is_a_repetition(seed, rate, proxy):
    y, columns, _, _ = rows(seed)
    f = scores(seed, len(y))
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    constraints = [parity(rate, 0.01, by="h"), bound(rate, 0.2)]
    g, h, m = run(y, columns, times.astype(np.float32), f, constraints, proxy)
    g2, h2, m2 = run(y[again], pick(columns, again), None, f[again], constraints, proxy)
    np.testing.assert_allclose(m2, m, atol=1e-10)
    np.testing.assert_allclose(g2, (g / times)[again], atol=1e-9)
    np.testing.assert_allclose(h2, (h / times)[again], atol=1e-9)


@given(SEEDS, RATE_NAMES, st.integers(2, 5))
@settings(max_examples=30)
def test_twice_the_data_is_the_same_problem(seed, rate, times):
    """Gradients per row do not depend on the number of rows, so neither do trees."""
    y, columns, weight, _ = rows(seed)
    f = scores(seed, len(y))
    again = np.tile(np.arange(len(y)), times)
    constraints = [parity(rate, 0.0, by="g"), bound(rate, 0.1)]
    g, _, m = run(y, columns, weight, f, constraints)
    g2, _, m2 = run(y[again], pick(columns, again), None, f[again], constraints)
    np.testing.assert_allclose(m2, m, atol=1e-10)
    np.testing.assert_allclose(g2[: len(y)], g, atol=1e-9)


@given(SEEDS, st.floats(0.001, 10))
@settings(max_examples=50)
def test_multipliers_are_never_negative_and_rise_only_with_violations(seed, rate):
    rng = np.random.default_rng(seed)
    before = resume(rng.exponential(1, 8) * rng.integers(0, 2, 8))
    violations = rng.normal(0, 1, 8)
    after = Ascent(rate).step(before, violations, np.ones(8)).multipliers
    assert (after >= 0).all()
    assert (after[violations <= 0] <= before.multipliers[violations <= 0]).all()
    assert (after[violations > 0] > before.multipliers[violations > 0]).all()


@given(SEEDS, PROXY_NAMES)
@settings(max_examples=30)
def test_without_multipliers_the_gradient_is_that_of_the_log_loss(seed, proxy):
    y, columns, weight, _ = rows(seed, weighted=True)
    f = scores(seed, len(y))
    g, h, _ = run(y, columns, weight, f, [parity("fnr", 0.0, by="g")], proxy, rounds=1)
    p = 1 / (1 + np.exp(-f))
    np.testing.assert_allclose(g, weight * (p - y), rtol=1e-12)
    np.testing.assert_allclose(h, weight * p * (1 - p), rtol=1e-10)


@given(SEEDS)
@settings(max_examples=30)
def test_the_rate_constrained_is_the_rate_reported_is_the_confusion_matrix(seed):
    y, columns, _, cells = rows(seed, missing=False)
    f = scores(seed, len(y))
    decision = f >= 0
    positive = np.bincount(cells.codes, decision, len(cells))
    groups = cells.groups_by(["g"])
    table = group_rates(
        y, decision.astype(int), sensitive_features={"g": columns[0].codes}, rates=list(RATES)
    ).set_index(["group", "rate"])["value"]
    for g in range(3):
        inside = columns[0].codes == g
        (tn, fp), (fn, tp) = confusion_matrix(y[inside], decision[inside], labels=[0, 1])
        by_hand = {
            "fpr": fp / (fp + tn), "tnr": tn / (fp + tn), "fnr": fn / (fn + tp), "tpr": tp / (fn +
            tp), "ppr": (tp + fp) / inside.sum(), "pnr": (tn + fn) / inside.sum(),
        }  # fmt: skip
        for name, rate in RATES.items():
            events, counted = group_sums(
                rate, cells.labels, groups.of_cell, 3, cells.weights, positive
            )
            assert np.isclose(events[g] / counted[g], by_hand[name])
            reported = [v for (label, r), v in table.items() if r == name and str(label) == str(g)]
            assert np.isclose(reported, by_hand[name]).all() and len(reported) == 1


@given(SEEDS)
@settings(max_examples=20)
def test_rows_of_missing_group_have_the_gradient_of_the_loss(seed):
    y, columns, weight, _ = rows(seed)
    f = scores(seed, len(y))
    g, _, m = run(y, columns, weight, f, [parity("ppr", 0.0, by="g")])
    assert m.any()
    unknown = columns[0].codes < 0
    np.testing.assert_allclose(g[unknown], (1 / (1 + np.exp(-f)) - y)[unknown], rtol=1e-12)
