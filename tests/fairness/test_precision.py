"""Predictive parity: sums, derivative, sampling errors, and what the estimator makes of it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import fairboost
from fairboost import FairGBMClassifier, at_positive_rate, bound, parity
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import bind
from fairboost.fairness.derived import shown_term
from fairboost.fairness.label_constraints import for_two_labels
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.precision import EqualPrecision, trained_form
from fairboost.fairness.proxies import PROXIES
from fairboost.tasks.binary import Binary
from fairboost.tasks.layout import lay_out
from fairboost.verdicts.verdict import judge
from tests.problems import FreeScores, session, without_margin

NAMES = (("a",), ("b",), ("c",))


def moments_of(values, weights, strata=None):
    return GroupMoments(np.array(values, float), np.array(weights, float), NAMES, strata)


def precision_by_hand(moments):
    true, false = moments.values * moments.weights
    return true / (true + false)


def test_violations_are_differences_of_precisions_weighted_by_decisions():
    moments = moments_of([[0.8, 0.5, 0.9], [0.1, 0.2, 0.3]], [[100, 50, 10], [200, 100, 40]])
    constraint = EqualPrecision(0.02, "g")
    true, false = moments.values * moments.weights
    pooled = true.sum() / (true + false).sum()
    share = (true + false).sum() / moments.weights.sum()
    size = (true + false) / (moments.weights.sum(axis=0) * share)
    apart = precision_by_hand(moments) - pooled
    expected = np.concatenate([(apart - 0.01) * size, (-apart - 0.01) * size])
    np.testing.assert_allclose(constraint.violations(moments), expected, atol=1e-12)


@pytest.mark.parametrize("strata", [None, np.array([0, 0, 1])], ids=["all", "given a column"])
def test_pullback_is_the_derivative_of_violations_in_a_given_unit(strata, monkeypatch):
    rng = np.random.default_rng(0)
    values, weights = rng.uniform(0.1, 0.9, (2, 3)), rng.uniform(10, 90, (2, 3))
    constraint, m = EqualPrecision(0.03, "g"), rng.uniform(0, 1, 6)
    at = moments_of(values, weights, strata)
    unit = weights.sum(axis=0) * at.total((values * weights).sum(axis=0))
    unit = unit / at.total(weights.sum(axis=0))

    def weighed(flat):
        moved = moments_of(flat.reshape(2, 3), weights, strata)
        true, false = moved.values * weights
        positive = true + false
        apart = true - moved.total(true) / moved.total(positive) * positive
        allowed = 0.015 * positive
        return m @ (np.concatenate([apart - allowed, -apart - allowed]) / np.tile(unit, 2))

    np.testing.assert_allclose(weighed(values.ravel()), m @ constraint.violations(at))
    step, found = 1e-6, np.empty(6)
    for k in range(6):
        up, down = values.ravel().copy(), values.ravel().copy()
        up[k] += step
        down[k] -= step
        found[k] = (weighed(up) - weighed(down)) / (2 * step)
    np.testing.assert_allclose(constraint.pullback(at, m).ravel(), found, atol=1e-8)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.5))
def test_within_the_tolerance_exactly_where_no_violation_is_positive(seed, tolerance):
    rng = np.random.default_rng(seed)
    moments = moments_of(rng.uniform(0.01, 1, (2, 3)), rng.integers(5, 500, (2, 3)))
    true, false = moments.values * moments.weights
    apart = precision_by_hand(moments) - true.sum() / (true + false).sum()
    violations = EqualPrecision(tolerance, "g").violations(moments)
    assert (violations > 1e-12).any() == (np.abs(apart) > tolerance / 2 + 1e-12).any()


def test_groups_without_positive_decisions_ask_for_nothing_and_are_named():
    columns = [SensitiveColumn("g", np.repeat([0, 1, 2], 40).astype(np.int32), ("a", "b", "c"))]
    cells = build_cells(np.tile([0, 1], 60).astype(np.int32), columns)
    term = bind(EqualPrecision(0.1, "g"), cells)
    values = np.array([0.8, 0.8, 0.0, 0.2, 0.2, 0.0])
    assert (EqualPrecision(0.1, "g").violations(term.read(values)) <= 0).all()
    shown, figures = shown_term(term, values)
    np.testing.assert_allclose(figures, 0.8)
    np.testing.assert_allclose(shown.rows, [[20, 20, 0]])
    verdict, said = judge(shown, shown.read(figures), 0.95)
    assert verdict.status == "met on these rows, not certain"
    assert "No one is decided positively in g=c" in said


def test_errors_are_those_of_a_binomial_number_of_right_decisions():
    """Against samples in which labels and decisions are both drawn."""
    rng = np.random.default_rng(0)
    n, draws = 400, 4_000
    joint = np.array([0.3, 0.1, 0.2, 0.4])  # true and false positives, false and true negatives
    counts = rng.multinomial(n, joint, draws)
    precision = counts[:, 0] / (counts[:, 0] + counts[:, 1])
    moments = GroupMoments(np.array([[0.6], [0.2]]), np.array([[0.5 * n], [0.5 * n]]), (("a",),))
    constraint = EqualPrecision(0.0, "g")
    above, below = constraint.errors(moments, moments.weights)
    assert above == below == pytest.approx(precision.std(), rel=0.05)  # P_g / (W_g D) is 1


KINDS = 25


def exactly_solvable():
    """Two groups of 25 kinds of people each, which trees tell apart.

    Of the kinds of group a some 40% to 95% are positive, of those of group b 10% to 85%.
    """
    n = 200
    shares = np.concatenate([np.linspace(0.4, 0.95, KINDS), np.linspace(0.1, 0.85, KINDS)])
    keys = np.repeat(np.arange(2 * KINDS), n)
    y = np.concatenate([(np.arange(n) < s * n).astype(np.int32) for s in shares])
    groups = SensitiveColumn("g", (keys // KINDS).astype(np.int32), ("a", "b"))
    return keys, y, build_cells(y, [groups])


def best_by_search(positive, tolerance):
    """The most right decisions at precisions that are equal, over all thresholds of groups."""
    right, found = -np.inf, None
    for ends in np.ndindex(
        KINDS, KINDS
    ):  # the first kind of each group that is decided positively
        counts = [p[k:] for p, k in zip(positive, ends, strict=True)]
        precision = [c.mean() / 200 for c in counts]
        if abs(precision[0] - precision[1]) > tolerance:
            continue
        wrong = sum((200 - c).sum() for c in counts)
        missed = sum(p[:k].sum() for p, k in zip(positive, ends, strict=True))
        if -wrong - missed > right:
            right, found = -wrong - missed, precision
    return 1 + right / (2 * KINDS * 200), found


def test_exact_solution_of_two_groups():
    keys, y, cells = exactly_solvable()
    tolerance = 0.01
    positive = np.bincount(keys, y).reshape(2, KINDS)
    best, _ = best_by_search(positive, tolerance)
    game = without_margin(
        session(
            cells, [EqualPrecision(tolerance, "g")], PROXIES["sigmoid"], Control(), convex=True
        )
    )
    history = FreeScores(keys, 0.3).train(game, 400)
    term = game.game.layout.terms[0]
    late = [term.read(r.moments) for r in game.rounds[300:]]
    gaps = [np.ptp(precision_by_hand(m)) for m in late]
    assert np.mean(gaps) < tolerance + 0.005
    accuracy = [((scores >= 0) == y).mean() for scores in history[300:]]
    assert np.mean(accuracy) > best - 0.005
    plain = session(cells, [], PROXIES["sigmoid"], Control(), convex=True)
    decided = FreeScores(keys, 0.3).train(plain, 60)[-1] >= 0
    apart = np.ptp([y[decided & (keys // KINDS == g)].mean() for g in (0, 1)])
    assert apart > 2 * tolerance  # there was something to do


@pytest.fixture(scope="module")
def people():
    """Two groups that are decided about equally well but for noisier labels in the second."""
    rng = np.random.default_rng(1)
    n = 12_000
    groups, score = rng.integers(0, 2, n), rng.normal(0, 2, n)
    y = (score - 0.5 + np.where(groups == 1, 3.0, 0.7) * rng.logistic(size=n) > 0).astype(int)
    X = np.column_stack([score, groups, rng.normal(size=(n, 2))])
    return X, y, groups


def gap(model, X, y, groups):
    decided = model.predict(X) == 1
    found = [y[decided & (groups == g)].mean() for g in np.unique(groups)]
    return max(found) - min(found)


@pytest.mark.parametrize("engine", [LGBMClassifier, XGBClassifier])
def test_the_estimator_closes_the_gap_on_new_rows(people, engine):
    X, y, groups = people
    train = np.arange(len(y)) < 8_000
    options = {"n_estimators": 60, "n_jobs": 1}
    options |= {"verbose": -1} if engine is LGBMClassifier else {"max_depth": 3}
    gaps, reports = {}, {}
    for name in (None, "predictive_parity"):
        model = FairGBMClassifier(engine(**options), constraint=name, random_state=0)
        model.fit(X[train], y[train], sensitive_features=groups[train])
        gaps[name] = gap(model, X[~train], y[~train], groups[~train])
        reports[name] = model
    assert gaps["predictive_parity"] < 0.6 * gaps[None]
    report = reports["predictive_parity"].report_on(
        X[~train], y[~train], sensitive_features=groups[~train]
    )
    assert report.test_verdicts[0].value == pytest.approx(gaps["predictive_parity"])
    assert set(report.rates["rate"]) == {"precision"}
    trace = reports["predictive_parity"].trace_
    assert any(c.startswith("rate: precision[") for c in trace)


def test_saved_and_loaded(people, tmp_path):
    X, y, groups = people
    constraint = parity("precision", 0.03, by="sex")
    model = FairGBMClassifier(
        LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        constraint=[constraint, bound("fpr", 0.5)],
        operating_point=at_positive_rate(0.3),
        random_state=0,
    ).fit(X, y, sensitive_features=pd.DataFrame({"sex": groups}))
    model.save(tmp_path / "model.json")
    loaded = fairboost.load(tmp_path / "model.json")
    assert loaded.constraint[0] == constraint
    assert str(loaded.fairness_report_) == str(model.fairness_report_)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bound("precision", 0.3), "cannot be bounded"),
        (lambda: trained_form(parity("precision", 0.1, relative=True)), "is not known"),
        (lambda: for_two_labels([parity("precision", 0.1)], True), "paper's algorithm"),
        (lambda: parity("precision", 1.5), "tolerance must lie"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ConstraintError, match=message):
        make()


def test_the_task_is_the_same_as_for_rates():
    """Precision needs no quantity beyond the two decisions, so a round costs no more."""
    _, _, cells = exactly_solvable()
    layout = lay_out(cells, [EqualPrecision(0.0, "g")])
    task = Binary(PROXIES["sigmoid"], convex=True)
    assert task.n_quantities == 2
    assert {m.quantity for t in layout.terms for m in t.moments} == {0}
