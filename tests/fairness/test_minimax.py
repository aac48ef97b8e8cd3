"""The worst group: the game, budgets, and what the estimator makes of it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import fairboost
from fairboost import (
    FairGBMClassifier,
    FairGBMRegressor,
    at_positive_rate,
    bound,
    minimax,
    parity,
    tradeoff_curve,
)
from fairboost.algorithm.margins import shrunken
from fairboost.algorithm.multipliers import Control, GroupWeights, OnSimplex, Rest, start
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.label_constraints import for_two_labels
from fairboost.fairness.label_moments import ERROR, GROUP_LOSS
from fairboost.fairness.minimax import Minimax
from fairboost.fairness.moments import GroupMoments
from tests.problems import FreeScores
from tests.tasks.test_binary_means import session_of

NAMES = (("a",), ("b",), ("c",))


def moments_of(values, weights):
    return GroupMoments(np.array([values], float), np.array([weights], float), NAMES)


@pytest.mark.parametrize("constraint", [minimax("loss"), minimax("error"), minimax("fnr")])
def test_pullback_is_the_derivative_of_violations(constraint):
    rng = np.random.default_rng(0)
    values, weights, m = rng.uniform(0.1, 0.9, 3), rng.uniform(5, 50, 3), rng.uniform(0, 1, 3)
    step, found = 1e-6, np.empty(3)
    for k in range(3):
        up, down = values.copy(), values.copy()
        up[k] += step
        down[k] -= step
        found[k] = m @ (
            constraint.violations(moments_of(up, weights))
            - constraint.violations(moments_of(down, weights))
        )
    found /= 2 * step
    at = moments_of(values, weights)
    np.testing.assert_allclose(constraint.pullback(at, m)[0], found, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(0.1, 20))
def test_weights_stay_on_the_simplex_and_follow_the_largest_error(errors, total):
    n = len(errors)
    player = OnSimplex(
        Rest(), (GroupWeights(slice(0, n), np.full(n, 1 / n), total, slice(0, n), 0.3),)
    )
    state = player.first(start(n))
    for _ in range(20):
        state = player.step(state, np.array(errors), np.ones(n))
        assert state.multipliers.sum() == pytest.approx(total)
        assert (state.multipliers >= 0).all()
    assert state.multipliers[int(np.argmax(errors))] == state.multipliers.max()


def test_weights_do_not_change_with_a_number_that_all_errors_share():
    player = OnSimplex(
        Rest(), (GroupWeights(slice(0, 2), np.array([0.3, 0.7]), 1.0, slice(0, 2), 0.3),)
    )
    errors = np.array([0.4, 0.1])
    one, two = (player.step(player.first(start(2)), errors + c, np.ones(2)) for c in (0, 5))
    np.testing.assert_allclose(one.multipliers, two.multipliers)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000))
def test_shrunken_figures_lie_between_themselves_and_their_mean(seed):
    rng = np.random.default_rng(seed)
    values, errors, shares = rng.uniform(0, 1, 5), rng.uniform(0.01, 0.3, 5), rng.uniform(0, 1, 5)
    shares /= shares.sum()
    found, mean = shrunken(values, errors, shares), shares @ values
    assert (np.abs(found - mean) <= np.abs(values - mean) + 1e-12).all()
    assert ((found - mean) * (values - mean) >= -1e-12).all()


def constants():
    """Two groups that the model cannot tell apart: it has one score for all.

    80% of group a are positive and 20% of group b, which is three times as large. The loss of a
    group of which a share s is positive is ``-s log p - (1 - s) log(1 - p)`` at a probability p.
    That of group a falls in p and that of group b rises, so the largest is smallest where they
    are equal: at p = 1/2, and not at the share of everyone, 35%.
    """
    n, a, b = 1000, 0.8, 0.2
    y = np.concatenate([np.arange(n) < a * n, np.arange(3 * n) < b * 3 * n]).astype(np.int32)
    groups = SensitiveColumn("g", np.repeat([0, 1], [n, 3 * n]).astype(np.int32), ("a", "b"))
    return np.zeros(4 * n, int), y, build_cells(y, [groups])


def test_the_largest_loss_of_two_groups_with_one_score_is_smallest_where_losses_are_equal():
    keys, y, cells = constants()
    plain = FreeScores(keys, 0.1).train(session_of(cells, [], Control()), 200)[-1][0]
    assert 1 / (1 + np.exp(-plain)) == pytest.approx(y.mean(), abs=1e-4)
    game = session_of(cells, [Minimax(GROUP_LOSS, "g")], Control())
    scores = FreeScores(keys, 0.1).train(game, 600)[-1][0]
    assert scores == pytest.approx(0.0, abs=0.02)  # p = 1/2, where .8 and .2 are equally far
    # Weights under which 1/2 is best: as much of .8 as of .2.
    np.testing.assert_allclose(game.rounds[-1].multipliers, [0.5, 0.5], atol=0.02)


@pytest.fixture(scope="module")
def people():
    """Two groups; labels of the smaller depend on another feature than those of the larger."""
    rng = np.random.default_rng(5)
    n = 9_000
    groups = (rng.uniform(size=n) < 0.15).astype(int)
    x = rng.normal(size=(n, 3))
    signal = np.where(groups == 1, 0.9 * x[:, 1] - 1.0, 1.5 * x[:, 0])
    y = (signal + 0.7 * rng.logistic(size=n) > 0).astype(int)
    return x, y, groups  # blind


def fitted(people, constraint, engine=None, **options):
    X, y, groups = people
    engine = engine or LGBMClassifier(n_estimators=50, num_leaves=7, verbose=-1, n_jobs=1)
    model = FairGBMClassifier(
        engine, constraint=constraint, random_state=0, memberships="observed", **options
    )
    return model.fit(X[:6000], y[:6000], sensitive_features=pd.DataFrame({"g": groups[:6000]}))


def worst(model, people, error):
    X, y, groups = (part[6000:] for part in people)
    decided, p = model.predict(X), model.predict_proba(X)[:, 1]
    values = {
        "loss": -np.where(y == 1, np.log(p), np.log1p(-p)),
        "error": decided != y,
        "fnr": decided != y,
    }[error]
    counts = y == 1 if error == "fnr" else np.ones(len(y), bool)
    return max(values[counts & (groups == g)].mean() for g in (0, 1))


@pytest.mark.parametrize("engine", [None, XGBClassifier(n_estimators=50, max_depth=3, n_jobs=1)])
@pytest.mark.parametrize("error", ["loss", "error"])
def test_the_largest_error_falls_on_new_rows(people, error, engine):
    plain, model = fitted(people, None, engine), fitted(people, minimax(error), engine)
    assert worst(model, people, error) < worst(plain, people, error) - 0.02


def test_a_budget_of_wrong_decisions_is_used_and_kept(people):
    model = fitted(people, [minimax("fnr"), bound("error", 0.4)])
    plain = fitted(people, None)
    X, y, _ = (part[6000:] for part in people)
    assert worst(model, people, "fnr") < 0.5 * worst(plain, people, "fnr")
    assert 0.33 < (model.predict(X) != y).mean() < 0.43


@pytest.mark.parametrize("holdout", [0.3, "cross"])
def test_at_an_operating_point(people, holdout):
    point = at_positive_rate(0.4)
    model = fitted(people, minimax("fnr"), operating_point=point, holdout=holdout)
    plain = fitted(people, None, operating_point=point)
    assert worst(model, people, "fnr") < worst(plain, people, "fnr")
    assert model.predict(people[0][6000:]).mean() == pytest.approx(0.4, abs=0.05)


def test_report_trace_and_file(people, tmp_path):
    asked = [minimax("loss", by="g"), minimax("fnr", by="g", weight=2.0), bound("error", 0.45)]
    model = fitted(people, asked)
    X, y, groups = people
    report = model.report_on(
        X[6000:], y[6000:], sensitive_features=pd.DataFrame({"g": groups[6000:]})
    )
    statuses = [v.status for v in report.test_verdicts]
    assert statuses[:2] == ["no limit was asked for"] * 2
    assert report.test_verdicts[0].value == pytest.approx(worst(model, people, "loss"))
    assert report.test_verdicts[1].value == pytest.approx(worst(model, people, "fnr"))
    text = str(report)
    assert "2 without a limit" in text
    assert "largest mean log loss of a group by g, as small as it can be: 0." in text
    assert "in g=" in text
    weights = model.trace_.filter(like="multiplier: minimax log loss").to_numpy()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    model.save(tmp_path / "m.json")
    loaded = fairboost.load(tmp_path / "m.json")
    assert loaded.constraint == asked
    assert str(loaded.fairness_report_) == str(model.fairness_report_)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: minimax("tpr"), "write 'fnr' and 'fpr'"),
        (lambda: minimax("loss", weight=2.0), "has no meaning"),
        (lambda: minimax("fnr", weight=-1), "weight must be a number above 0"),
        (lambda: minimax("fnr", by=["a"]), "by must be a column name"),
        (lambda: parity("error"), "cannot be held equal"),
        (lambda: for_two_labels([minimax("fnr", by="g")], False, 0.5), "needs a budget"),
        (lambda: for_two_labels([minimax("fpr", by="g")], False, 0.5), "at_tpr"),
        (lambda: for_two_labels([minimax("loss", by="g")], True), "paper's algorithm"),
        (lambda: for_two_labels([bound("error", 0.2)], True), "paper's algorithm"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ConstraintError, match=message):
        make()


def test_bounds_that_are_no_budget_are_none():
    for other in (bound("fnr", 0.2), bound("fpr", 0.2, group={"g": 1})):
        with pytest.raises(ConstraintError, match="needs a budget"):
            for_two_labels([minimax("fnr", by="g"), other], False)
    for budget in (bound("fpr", 0.2), bound("ppr", 0.2), bound("error", 0.2)):
        found = for_two_labels([minimax("fnr", by="g"), budget], False)
        assert found[0].weight == 10.0


def test_the_error_rate_of_everyone_can_be_bounded():
    assert bound("error", 0.2).moment == ERROR
    assert bound("error", 0.2).name == "error<=0.2"


def test_regressors_and_curves_refuse_it(people):
    X, y, groups = people
    with pytest.raises(ConstraintError, match="a number is predicted"):
        FairGBMRegressor(constraint=minimax("error")).fit(X, y, sensitive_features=groups)
    for asked, message in (
        (minimax("loss"), "varies the tolerance"),
        ([minimax("loss"), parity("fnr")], "no tolerance to vary"),
    ):
        with pytest.raises(ConstraintError, match=message):
            tradeoff_curve(LGBMClassifier(), X, y, sensitive_features=groups, constraint=asked)


def test_of_groups_that_are_small_on_other_rows_two_have_to_be_left(people):
    model = fitted(people, minimax("error"), min_group_rows=500)
    X, y, groups = (part[6000:7000] for part in people)
    asked = {"sensitive_features": pd.DataFrame({"g": groups})}
    with pytest.raises(
        ConstraintError, match=r"pass min_group_rows=\d+ to compare smaller groups"
    ):
        model.report_on(X, y, **asked)
    report = model.set_params(min_group_rows=1).report_on(X, y, **asked)
    assert len(report.rates) == 2


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (minimax("loss"), {}),
        ([minimax("loss"), minimax("error")], {}),
        (minimax("fnr"), {"operating_point": at_positive_rate(0.4)}),
    ],
)
def test_a_confidence_that_no_limit_takes_is_refused(people, asked, options):
    with pytest.raises(ConstraintError, match=r"confidence=0\.9 has no effect on minimax"):
        fitted(people, asked, confidence=0.9, **options)


def test_beside_a_bound_the_confidence_applies_to_the_bound(people):
    asked = [minimax("fnr"), bound("error", 0.4)]
    plain, sure = (fitted(people, asked, confidence=c) for c in (None, 0.99))
    X, y, _ = (part[6000:] for part in people)
    wrong, surely = ((model.predict(X) != y).mean() for model in (plain, sure))
    assert surely < min(wrong, 0.4)  # farther inside the bound
