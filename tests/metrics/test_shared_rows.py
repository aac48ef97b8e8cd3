"""Errors of rates of groups that share rows: windows of a number, and groups by probability."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost import group_probabilities, parity, smooth
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.probabilities import as_column_of_groups
from fairboost.data.windows import with_windows
from fairboost.fairness.binding import bind
from fairboost.metrics import audit
from fairboost.metrics.sampling import ShareLaw, drawn_errors, law_of, mixed
from fairboost.verdicts.verdict import judge_gap


def windows(numbers, knots):
    codes = np.zeros(len(numbers), np.int32)
    column = SensitiveColumn("age", codes, (), numbers=np.asarray(numbers, float))
    return with_windows(column, knots)


def bound_to(numbers, knots, labels=None, weight=None, others=(), by="age", rate="ppr"):
    labels = np.zeros(len(numbers), np.int32) if labels is None else labels
    cells = build_cells(labels, [windows(numbers, knots), *others], weight)
    return bind(parity(rate, 0.05, by=by), cells)


def test_two_windows_of_an_even_number_have_a_correlation_of_one_half():
    """Weights s and 1 - s: the mean of s (1 - s) is 1/6, that of s^2 is 1/3."""
    s = (np.arange(100_000) + 0.5) / 100_000
    term = bound_to(20 + 10 * s, (20, 30))
    assert term.correlations[0] == pytest.approx(np.array([[1, 0.5], [0.5, 1]]), abs=1e-6)
    three = bound_to(20 + 20 * s, (20, 30, 40)).correlations[0]
    # The middle window has two sides: 1/6 over sqrt(1/3 x 2/3).
    side = (1 / 6) / np.sqrt(2 / 9)
    assert three == pytest.approx(
        np.array([[1, side, 0], [side, 1, side], [0, side, 1]]), abs=1e-4
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 0.95), st.booleans())
def test_the_error_of_a_difference_is_that_of_the_weighted_sum(seed, p, weighted):
    """R_g - R_h is a sum of events, each with ``a_ig / A_g - a_ih / A_h``."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 200))
    ages, labels = rng.uniform(18, 80, n), rng.integers(0, 2, n).astype(np.int32)
    labels[:4] = [0, 1, 0, 1]
    ages[:4] = [20, 20, 75, 75]
    weight = rng.uniform(0.2, 3.0, n) if weighted else None
    knots = (25, 40, 70)
    term = bound_to(ages, knots, labels, weight, rate="fnr")
    counts = labels == 1
    a = windows(ages, knots).members * counts[:, None] * (1 if weight is None else weight[:, None])
    share = a / a.sum(axis=0)
    expected = np.sqrt(p * (1 - p) * ((share[:, 0] - share[:, 1]) ** 2).sum())
    slopes = np.array([[[1.0, -1.0, 0.0]]])
    law = law_of(None, term.rows, term.correlations)
    least = 0.5 / (term.rows.min() + 1)  # what a share is taken to be at least
    if least < p < 1 - least:
        found = law.errors(slopes, np.full((1, 3), p), term.rows)
        assert found == pytest.approx(expected, rel=1e-4)
    assert np.linalg.eigvalsh(term.correlations[0]).min() > -1e-6


def test_draws_have_the_variance_of_the_weighted_sum():
    rng = np.random.default_rng(0)
    ages = rng.uniform(18, 80, 3_000)
    term = bound_to(ages, (25, 40, 70))
    rates = np.array([0.3, 0.3, 0.3])
    a = windows(ages, (25, 40, 70)).members.astype(float)
    share = a / a.sum(axis=0)
    law = law_of(None, term.rows, term.correlations).at(0)
    errors = drawn_errors(rates, term.rows[0], law)
    alone = drawn_errors(rates, term.rows[0])
    for g, h in ((0, 1), (1, 2), (0, 2)):
        expected = np.sqrt(0.21 * ((share[:, g] - share[:, h]) ** 2).sum())
        assert (errors[:, g] - errors[:, h]).std() == pytest.approx(expected, rel=0.05)
        if h == g + 1:  # neighbours, taken for independent, would be too far apart
            assert (alone[:, g] - alone[:, h]).std() > 1.05 * expected
        assert errors[:, g].std() == pytest.approx(alone[:, g].std(), rel=0.05)


def test_windows_crossed_with_groups_share_rows_within_groups_alone():
    rng = np.random.default_rng(0)
    ages, codes = rng.uniform(18, 80, 4_000), rng.integers(0, 2, 4_000).astype(np.int32)
    sex = SensitiveColumn("sex", codes, ("f", "m"))
    term = bound_to(ages, (25, 40, 70), others=[sex], by=("sex", smooth("age")))
    names, found = term.groups.names, term.correlations[0]
    alone = [bound_to(ages[codes == k], (25, 40, 70)).correlations[0] for k in (0, 1)]
    for g, (left, first) in enumerate(names):
        for h, (right, second) in enumerate(names):
            expected = 0.0
            if left == right:
                at = [[25, 40, 70].index(float(window)) for window in (first, second)]
                expected = alone["fm".index(left)][at[0], at[1]]
            assert found[g, h] == pytest.approx(expected, abs=1e-6)


def test_observed_groups_and_corrected_rates_have_no_correlations():
    codes = np.arange(100, dtype=np.int32) % 2
    cells = build_cells(np.zeros(100, np.int32), [SensitiveColumn("g", codes, ("a", "b"))])
    assert bind(parity("ppr", by="g"), cells).correlations is None
    p = np.random.default_rng(0).beta(0.5, 0.5, 400)
    for estimator, none in (("corrected", True), ("weighted", False)):
        given = group_probabilities({"a": p, "b": 1 - p}, "g", estimator=estimator)
        cells = build_cells(np.zeros(400, np.int32), [as_column_of_groups(given)])
        found = bind(parity("ppr", by="g"), cells).correlations
        assert (found is None) == none  # whose squared weights bear the covariance


def test_groups_of_which_nothing_is_known_stay_so():
    errors = np.random.default_rng(0).normal(size=(500, 3))
    errors[:, 1] = np.nan
    found = mixed(errors, np.array([[1, 0.4, 0.2], [0.4, 1, 0.4], [0.2, 0.4, 1]]))
    assert np.isnan(found[:, 1]).all()
    assert np.corrcoef(found[:, 0], found[:, 2])[0, 1] == pytest.approx(0.2, abs=0.1)
    assert ShareLaw(np.eye(3)[None]).at((0, 1)) == ShareLaw()


def rises(ages):
    return 0.2 + 0.4 * (np.clip(ages, 25, 75) - 25) / 50


def test_intervals_of_differences_between_windows_cover_and_are_shorter():
    """Over 300 samples of a rate that rises with age, of the difference of two neighbours."""
    knots, n = (25.0, 50.0, 75.0), 1_500
    everyone = np.linspace(20, 80, 60_001)
    a = windows(everyone, knots).members[:, :2].astype(float)
    truth = float((a / a.sum(axis=0)) @ [-1, 1] @ rises(everyone))
    covered, widths, apart = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        ages = rng.uniform(20, 80, n)
        positive = rng.random(n) < rises(ages)
        members = windows(ages, knots).members.astype(float)
        rates = positive @ (members / members.sum(axis=0))
        term = bound_to(ages, knots)
        law = law_of(None, term.rows, term.correlations).at(0)
        pair = np.array([0, 1])
        found, alone = (
            judge_gap(rates[pair], term.rows[0][pair], 0.95, of)
            for of in (law.at(pair), ShareLaw())
        )
        covered.append((found[1] <= truth, truth <= found[2]))
        widths.append(found[2] - found[1])
        apart.append(alone[2] - alone[1])
    low, high = np.mean(covered, axis=0)
    # 95% is asked of each end; 300 samples have a standard error of 1.3 points.
    assert low >= 0.92
    assert high >= 0.92
    assert np.mean(widths) < 0.9 * np.mean(apart)


def test_an_audit_has_shorter_intervals_of_gaps_between_windows():
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 80, 3_000)
    y = (rng.random(3_000) < 0.5).astype(int)
    score = np.where(rng.random(3_000) < 0.2 + 0.004 * age, 0.9, 0.1)
    found = audit(
        y, score, sensitive_features={"age": age}, by=smooth("age", knots=(35, 65)), rates="ppr"
    )
    line = found.gaps.iloc[0]
    share = windows(age, (35, 65)).members.astype(float)
    share /= share.sum(axis=0)
    error = np.sqrt((score > 0.5).mean() * (score < 0.5).mean() * ((share @ [1, -1]) ** 2).sum())
    half = (line["gap_high"] - line["gap_low"]) / 2
    assert half == pytest.approx(1.96 * error, rel=0.15)
