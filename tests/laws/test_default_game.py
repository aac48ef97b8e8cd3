"""What must hold for any data of the default game: two sides, control, the convex form.

Without the margin for sampling error, which more rows make smaller.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import two_sided
from tests.problems import rows, session, without_margin

SEEDS = st.integers(0, 10_000)
RATE_NAMES = st.sampled_from(sorted(RATES))
PROXY_NAMES = st.sampled_from(sorted(PROXIES))
ROUNDS = 4


def play(y, columns, weight, scores, constraints, proxy="sigmoid"):
    """Some rounds on given scores: gradients, Hessians and multipliers of each."""
    lagrangian = session(
        build_cells(y, columns, weight), [two_sided(c) for c in constraints], PROXIES[proxy],
        Control(), convex=True, sample_weight=weight, dtype=np.float64,
    )  # fmt: skip
    without_margin(lagrangian)
    gradients, hessians, multipliers = [], [], []
    for f in scores:
        gradient, hessian = lagrangian.play(f)
        gradients.append(gradient.copy())
        hessians.append(hessian.copy())
        multipliers.append(lagrangian.state.dual.multipliers)
    return np.array(gradients), np.array(hessians), np.array(multipliers)


def scores_of(seed, n):
    return np.random.default_rng(seed).normal(0, 2, (ROUNDS, n))


def pick(columns, index):
    return [SensitiveColumn(c.name, c.codes[index], c.values) for c in columns]


def both(rate):
    return [parity(rate, 0.01, by="g"), bound(rate, 0.1)]


@given(SEEDS, RATE_NAMES, PROXY_NAMES, st.integers(2, 4))
@settings(max_examples=40)
def test_repeating_all_rows_changes_nothing(seed, rate, proxy, times):
    """One gain serves data of all sizes: the multipliers take the same path."""
    y, columns, _, _ = rows(seed)
    f = scores_of(seed, len(y))
    again = np.tile(np.arange(len(y)), times)
    g, h, m = play(y, columns, None, f, both(rate), proxy)
    g2, h2, m2 = play(y[again], pick(columns, again), None, f[:, again], both(rate), proxy)
    assert m.any()
    np.testing.assert_allclose(m2, m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g2, g[:, again], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(h2, h[:, again], rtol=1e-9, atol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES, st.sampled_from([0.125, 3.0, 1000.0]))
@settings(max_examples=40)
def test_the_scale_of_weights_scales_the_gradient_alone(seed, rate, proxy, factor):
    y, columns, weight, _ = rows(seed, weighted=True)
    f = scores_of(seed, len(y))
    g, h, m = play(y, columns, weight, f, both(rate), proxy)
    scaled = (weight * factor).astype(np.float32)  # exact: weights are halves
    g2, h2, m2 = play(y, columns, scaled, f, both(rate), proxy)
    np.testing.assert_allclose(m2, m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g2, factor * g, rtol=1e-9, atol=factor * 1e-10)
    np.testing.assert_allclose(h2, factor * h, rtol=1e-9, atol=factor * 1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=40)
def test_an_integer_weight_is_a_repetition(seed, rate, proxy):
    y, columns, _, _ = rows(seed)
    f = scores_of(seed, len(y))
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    g, h, m = play(y, columns, times.astype(np.float32), f, both(rate), proxy)
    g2, h2, m2 = play(y[again], pick(columns, again), None, f[:, again], both(rate), proxy)
    np.testing.assert_allclose(m2, m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g2, (g / times)[:, again], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(h2, (h / times)[:, again], rtol=1e-9, atol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=30)
def test_order_of_rows_does_not_matter(seed, rate, proxy):
    y, columns, weight, _ = rows(seed, weighted=True)
    f = scores_of(seed, len(y))
    order = np.random.default_rng(seed + 1).permutation(len(y))
    g, h, m = play(y, columns, weight, f, both(rate), proxy)
    g2, h2, m2 = play(
        y[order], pick(columns, order), weight[order], f[:, order], both(rate), proxy
    )
    np.testing.assert_allclose(m2, m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g2, g[:, order], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(h2, h[:, order], rtol=1e-9, atol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=30)
def test_names_of_groups_do_not_matter(seed, rate, proxy):
    """Without exception: unlike the paper's parity there is no group to switch to at a tie."""
    y, columns, weight, _ = rows(seed)
    f = scores_of(seed, len(y))
    constraints = [parity(rate, 0.0, by="g")]
    relabel = np.random.default_rng(seed).permutation(3)
    codes = np.where(columns[0].codes >= 0, relabel[columns[0].codes], -1).astype(np.int32)
    renamed = [SensitiveColumn("g", codes, ("x", "y", "z")), columns[1]]
    g, h, m = play(y, columns, weight, f, constraints, proxy)
    g2, h2, m2 = play(y, renamed, weight, f, constraints, proxy)
    np.testing.assert_allclose(m2[:, [*relabel, *(3 + relabel)]], m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g2, g, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(h2, h, rtol=1e-9, atol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=20)
def test_rows_that_no_constraint_counts_have_the_gradient_of_the_loss(seed, rate, proxy):
    """Rows of a missing group, and all rows as long as there are no multipliers."""
    y, columns, weight, _ = rows(seed)
    f = scores_of(seed, len(y))
    g, h, m = play(y, columns, weight, f, [parity(rate, 0.0, by="g")], proxy)
    p = 1 / (1 + np.exp(-f))
    unknown = columns[0].codes < 0
    assert unknown.any() and m.any()
    np.testing.assert_allclose(g[:, unknown], (p - y)[:, unknown], rtol=1e-12)
    np.testing.assert_allclose(h[:, unknown], (p * (1 - p))[:, unknown], rtol=1e-10)
    np.testing.assert_allclose(g[0], p[0] - y, rtol=1e-12)
    np.testing.assert_allclose(h[0], (p * (1 - p))[0], rtol=1e-10)


@given(SEEDS, RATE_NAMES, PROXY_NAMES)
@settings(max_examples=30)
def test_the_hessian_is_never_below_that_of_the_loss(seed, rate, proxy):
    y, columns, weight, _ = rows(seed, weighted=True)
    f = scores_of(seed, len(y))
    constraints = [parity(rate, 0.0, by="g"), parity("ppr", 0.0, by="h"), bound("pnr", 0.2)]
    _, h, _ = play(y, columns, weight, f, constraints, proxy)
    p = 1 / (1 + np.exp(-f))
    assert (h >= weight * p * (1 - p) * (1 - 1e-10)).all()
