"""Operating points in training: the threshold is a quantile of the scores of the rows seen."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from fairboost import (
    FairGBMClassifier,
    at_fpr,
    at_positive_rate,
    at_tpr,
    bound,
    parity,
    tradeoff_curve,
)
from fairboost.data.cells import build_cells
from fairboost.data.holdout import choose
from fairboost.data.validation import read_sensitive_features
from fairboost.exceptions import InvalidInputError, NotMetWarning, SmallCellWarning
from fairboost.fairness.rates import RATES
from tests.covering import covering
from tests.problems import lightgbm_on_some

pytestmark = [
    # LightGBM's own fit warns of it since 4.7; what it offers instead does not encode labels.
    pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated"),
]

POINTS = {"fpr": at_fpr(0.1), "tpr": at_tpr(0.7), "budget": at_positive_rate(0.2)}
HOW = {"training rows": None, "share": 0.3, "cross": "cross", "set": "auto", "both": 0.3}
ON_ROWS = ["training rows", "share", "set"]  # read on scores of the model itself, not out of fold
IDLE = 0.99
"""A tolerance that holds all the time: multipliers stay at zero."""

ALL_POINTS = pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])


@pytest.fixture(scope="session")
def other(make_toy):
    """Rows of the same kind, not trained on."""
    return make_toy(n=300, seed=1)


def fit(engine, toy, other, point, how="set", *, weighted=False, fit=None, **params):
    # What learns memberships is tested elsewhere.
    defaults = {"tolerance": 0.01, "iterate": "last", "memberships": "observed"}
    model = FairGBMClassifier(
        engine, operating_point=point, holdout=HOW[how], **{**defaults, **params}
    )
    options = {"sensitive_features": toy.group, **(fit or {})}
    if weighted:
        options["sample_weight"] = toy.weight
    if how in ("set", "both"):
        held = (other.X, other.y, other.group)
        options["holdout_set"] = (*held, other.weight) if weighted else held
    return model.fit(toy.X, toy.y, **options)


def folds_of(toy, how, weight=None, with_groups=True):
    """The draw of a fit on these rows."""
    columns = read_sensitive_features(toy.group, len(toy)) if with_groups else []
    weight = None if weight is None else weight.astype(np.float32)
    cells = build_cells(toy.y.astype(np.int8), columns, weight)
    return choose(how, cells, 0.0, weight, np.random.default_rng(0)).folds


def rows_seen(toy, other, how, weighted=False, with_groups=True):
    """X, y, group and weight of the rows that the threshold is read on."""
    weight = toy.weight if weighted else None
    if how in ("set", "both"):
        return other.X, other.y, other.group, other.weight if weighted else None
    at = slice(None)
    if how == "share":
        at = folds_of(toy, 0.3, weight, with_groups) == 1
    return toy.X[at], toy.y[at], toy.group[at], None if weight is None else weight[at]


def scores_after(model, X, trees):
    if trees == 0:
        return np.full(len(X), model._model.intercept)
    return model.estimator_.predict(X, raw_score=True, num_iteration=trees)


def as_weights(weight, n):
    """As engines keep them."""
    return np.ones(n) if weight is None else weight.astype(np.float32).astype(float)


def quantile(point, scores, y, weight=None):
    """The threshold by sorting, in log-odds."""
    counts = point.rate.counts(y)
    s, w = scores[counts], as_weights(weight, len(y))[counts]
    order = np.argsort(-s, kind="stable")
    s, share = s[order], np.cumsum(w[order]) / w.sum()
    last = np.append(np.diff(s) != 0, True)  # of those that tie
    s, share = s[last], share[last]
    if point.at_least:
        positive = int(np.argmax(share >= point.target - 1e-9)) + 1
    else:
        positive = int((share <= point.target + 1e-9).sum())
    if positive in (0, len(s)):  # right next to the highest, or the lowest
        return s[0] + 1e-9 if positive == 0 else s[-1] - 1e-9
    return (s[positive - 1] + s[positive]) / 2


def rate_of(rate, positive, y, weight=None, among=True):
    counts = rate.counts(y) & among
    event = positive if rate.direction > 0 else ~positive
    return np.average(event[counts], weights=as_weights(weight, len(y))[counts])


def assert_is_quantile(threshold, point, scores, y, weight=None):
    assert logit(threshold) == pytest.approx(quantile(point, scores, y, weight), abs=5e-6)


def assert_kept(point, positive, y, weight=None):
    """The target is not passed, not by a single row."""
    found = rate_of(point.rate, positive, y, weight)
    slack = 1e-9 if weight is None else 1e-6
    assert found >= point.target - slack if point.at_least else found <= point.target + slack


# The threshold is that of the rows it is read on


@WEIGHTED
@pytest.mark.parametrize("how", ON_ROWS)
@ALL_POINTS
def test_the_threshold_is_the_quantile_of_the_rows_seen(engine, toy, other, point, how, weighted):
    model = fit(engine(n_estimators=12), toy, other, point, how, weighted=weighted)
    assert model.multipliers_.sum() > 0
    X, y, group, weight = rows_seen(toy, other, how, weighted)
    scores = scores_after(model, X, 12)
    assert_is_quantile(model.threshold_, point, scores, y, weight)
    positive = model.predict(X) == 1
    np.testing.assert_array_equal(positive, scores >= logit(model.threshold_))
    assert_kept(point, positive, y, weight)
    assert 0 < positive.mean() < 1
    for t, row in model.trace_.iterrows():
        scores = scores_after(model, X, t)
        assert_is_quantile(row["threshold"], point, scores, y, weight)
        if t:  # f_0 has all rows right at the threshold
            positive = scores >= quantile(point, scores, y, weight)
            for name in ("fpr", "fnr"):
                for g in ("a", "b"):
                    value = rate_of(RATES[name], positive, y, weight, group == g)
                    label = f"rate: {name}[sensitive_feature={g}]"
                    assert row[label] == pytest.approx(value, abs=1e-6)


@pytest.fixture(scope="module")
def later(make_toy):
    """Rows of another time: scores have risen."""
    rows = make_toy(n=400, seed=2)
    return replace(rows, X=rows.X + 0.3)


@pytest.mark.parametrize(
    ("point", "iterate", "weighted"),
    covering(POINTS.values(), ["last", "best", "average"], [False, True]),
    ids=str,
)
def test_beside_a_share_the_threshold_is_that_of_the_set(
    engine, toy, later, point, weighted, iterate
):
    """And rates are those of all rows held out, of the share and of the set."""
    model = fit(
        engine(n_estimators=12), toy, later, point, "both", weighted=weighted, iterate=iterate
    )
    assert model.multipliers_.sum() > 0
    weight, new = (toy.weight, later.weight) if weighted else (None, None)
    scores = model._scores(later.X)
    assert_is_quantile(model.threshold_, point, scores, later.y, new)
    positive = model.predict(later.X) == 1
    assert_kept(point, positive, later.y, new)
    (said,) = said_of(model.fairness_report_, point)
    assert f" is {rate_of(point.rate, positive, later.y, new):.4f} [" in said
    at = folds_of(toy, 0.3, weight) == 1
    X, y, group = (
        np.concatenate([a[at], b])
        for a, b in ((toy.X, later.X), (toy.y, later.y), (toy.group, later.group))
    )
    both = np.concatenate([weight[at], new]) if weighted else None
    rates = model.fairness_report_.rates
    for name in ("fpr", "fnr"):
        for g in ("a", "b"):
            value = rate_of(RATES[name], model.predict(X) == 1, y, both, group == g)
            row = rates[(rates["rate"] == name) & (rates["group"] == f"sensitive_feature={g}")]
            assert row["held out"].item() == pytest.approx(value, abs=1e-6)
    assert "; and the given set of 400 rows" in model.fairness_report_.note


def out_of_fold(engine, toy, folds, weight=None):
    """Scores after every round, by boosters trained one after the other without their fold."""
    w = as_weights(weight, len(toy))
    start = logit(np.average(toy.y, weights=w))
    found = np.empty((engine.n_estimators + 1, len(toy)))
    for k in range(folds.max() + 1):
        scores = lightgbm_on_some(engine, toy.X, toy.y, folds != k, start, w)
        found[:, folds == k] = scores[:, folds == k]
    return found


@WEIGHTED
@ALL_POINTS
def test_in_cross_fitting_the_threshold_is_that_of_scores_out_of_fold(
    engine, toy, other, point, weighted
):
    model = fit(engine(), toy, other, point, "cross", weighted=weighted, tolerance=IDLE)
    weight = toy.weight if weighted else None
    scores = out_of_fold(engine(), toy, folds_of(toy, "cross", weight), weight)
    for t, row in model.trace_.iterrows():
        assert_is_quantile(row["threshold"], point, scores[t], toy.y, weight)
    assert_is_quantile(model.threshold_, point, scores[8], toy.y, weight)
    in_sample = quantile(point, scores_after(model, toy.X, 8), toy.y, weight)
    assert abs(logit(model.threshold_) - in_sample) > 1e-3  # which is not the same


@WEIGHTED
@pytest.mark.parametrize("how", [how for how in HOW if how != "both"])
def test_with_multipliers_at_work_the_rates_are_those_at_the_threshold(
    engine, toy, other, how, weighted
):
    """Parity of the rate that has the target: groups on either side of it, by their weight."""
    point = at_positive_rate(0.3)
    model = fit(
        engine(), toy, other, point, how, weighted=weighted, constraint="demographic_parity"
    )
    _, y, group, weight = rows_seen(toy, other, how, weighted)
    share = np.average(group == "b", weights=as_weights(weight, len(y)))
    rates = model.trace_[[f"rate: ppr[sensitive_feature={g}]" for g in "ab"]].to_numpy()
    pooled = rates @ [1 - share, share]
    assert (pooled <= 0.3 + 1e-6).all()
    assert pooled[-1] > 0.2
    assert model.multipliers_.sum() > 0


# What it does to decisions, and what it leaves alone


@pytest.mark.parametrize("how", HOW)
@ALL_POINTS
def test_predict_is_at_the_threshold_and_the_threshold_does_not_move_probabilities(
    engine, toy, other, point, how
):
    model = fit(engine(), toy, other, point, how)
    proba = model.predict_proba(other.X)
    np.testing.assert_allclose(proba[:, 1], model.booster_.predict(other.X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(model.predict(other.X), proba[:, 1] >= model.threshold_)
    np.testing.assert_array_equal(model.predict(other.X), model.decision_function(other.X) >= 0)
    # threshold_ is rounded to single precision.
    np.testing.assert_allclose(
        model.decision_function(other.X), logit(proba[:, 1]) - logit(model.threshold_), atol=1e-5
    )


@pytest.mark.parametrize("how", ["training rows", "cross", "set"])
def test_where_constraints_are_idle_the_model_is_plain_lightgbm(engine, toy, other, how):
    model = fit(engine(), toy, other, at_fpr(0.1), how, tolerance=IDLE)
    stock = engine().fit(toy.X, toy.y)
    np.testing.assert_allclose(
        model.predict_proba(other.X), stock.predict_proba(other.X), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    ("point", "how", "iterate"),
    covering(POINTS.values(), ["training rows", "cross", "set"], ["best", "last"]),
    ids=str,
)
def test_without_a_constraint_it_is_plain_lightgbm_and_a_threshold(
    engine, toy, other, point, how, iterate
):
    model = fit(engine(), toy, other, point, how, constraint=None, iterate=iterate)
    stock = engine().fit(toy.X, toy.y)
    np.testing.assert_allclose(
        model.predict_proba(other.X), stock.predict_proba(other.X), rtol=0, atol=1e-10
    )
    X, y, _, _ = rows_seen(toy, other, how)
    if how == "cross":
        scores = out_of_fold(engine(), toy, folds_of(toy, "cross", with_groups=False))[8]
    else:
        scores = stock.predict(X, raw_score=True)
    assert_is_quantile(model.threshold_, point, scores, y)
    assert "threshold" in model.trace_
    report = model.report_on(other.X, other.y, sensitive_features=other.group)
    assert not model.fairness_report_.verdicts and not report.verdicts
    assert len(said_of(report, point)) == 2


def test_ties_that_leave_no_one_to_decide_about_are_told(engine, toy):
    X = (toy.X[:, :1] > 0).astype(float)
    model = FairGBMClassifier(engine(), operating_point=at_fpr(0.05), holdout=0.3)
    with pytest.warns(NotMetWarning, match=r"not met, held out: at_fpr\(0.05\): the false pos"):
        model.fit(X, toy.y, sensitive_features=toy.group)
    (said,) = said_of(model.fairness_report_, at_fpr(0.05))
    assert said.endswith(", not 0.05: too many rows have the same score.")


def test_a_threshold_placed_on_few_rows_is_told(engine, toy):
    model = FairGBMClassifier(engine(), constraint=None, operating_point=at_tpr(0.9), holdout=0.3)
    with pytest.warns(SmallCellWarning, match=r"inconclusive on the held-out rows: at_tpr\(0.9\)"):
        model.fit(toy.X, toy.y)


def test_a_frozen_model_gets_no_trees_for_a_threshold_alone(engine, toy):
    frozen = FrozenEstimator(engine().fit(toy.X, toy.y))
    model = FairGBMClassifier(frozen, constraint=None, operating_point=at_fpr(0.1))
    with pytest.raises(InvalidInputError, match="would add trees to the frozen model for nothing"):
        model.fit(toy.X, toy.y)


def test_the_training_data_as_evaluation_set_weighs_labels_as_they_were(engine, toy):
    """Fewer positives than negatives are held out, and metrics must not know of it."""
    model = FairGBMClassifier(
        engine(), constraint="predictive_equality", operating_point=0.4, holdout=0.5
    )
    model.fit(toy.X, toy.y, sensitive_features=toy.group, eval_set=[(toy.X, toy.y)])
    found = model.estimator_.evals_result_["training"]["binary_logloss"]
    np.testing.assert_allclose(found[:-1], model.trace_["loss"][1:], rtol=1e-5)


def test_without_a_constraint_a_share_is_held_out_for_the_threshold_alone(engine, toy, other):
    point = at_positive_rate(0.1)
    model = FairGBMClassifier(engine(), constraint=None, operating_point=point, holdout=0.3)
    model.fit(toy.X, toy.y)
    kept = folds_of(toy, 0.3, with_groups=False) == 0
    params = {k: v for k, v in engine().get_params().items() if v is not None}
    rounds, start = params.pop("n_estimators"), logit(toy.y.mean())
    whole = lightgbm.Dataset(toy.X, toy.y, init_score=np.full(len(toy), start), params=params)

    def objective(scores, rows):
        p = expit(scores)
        return p - rows.get_label(), p * (1 - p)

    part = whole.subset(np.flatnonzero(kept).tolist())
    booster = lightgbm.train({**params, "objective": objective}, part, rounds)
    expected = booster.predict(toy.X, raw_score=True) + start
    np.testing.assert_allclose(
        logit(model.predict_proba(toy.X)[:, 1]), expected, rtol=0, atol=1e-10
    )
    assert_is_quantile(model.threshold_, point, expected[~kept], toy.y[~kept])


def test_without_a_constraint_and_at_a_probability_nothing_is_held_out(engine, toy, other):
    model = fit(engine(), toy, other, 0.3, "share", constraint=None)
    stock = engine().fit(toy.X, toy.y).predict_proba(toy.X)
    np.testing.assert_allclose(model.predict_proba(toy.X), stock, rtol=0, atol=1e-10)
    assert model.threshold_ == 0.3 and "threshold" not in model.trace_


# Ties

KINDS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 3.0]])


@pytest.fixture(scope="module")
def tied():
    """400 rows of six kinds, whose shares of positives differ."""
    rng = np.random.default_rng(0)
    kind = rng.choice(6, 400, p=[0.05, 0.1, 0.2, 0.2, 0.15, 0.3])
    y = (rng.random(400) < np.linspace(0.1, 0.9, 6)[kind]).astype(int)
    group = np.where(rng.random(400) < 0.4, "b", "a")
    return KINDS[kind], y, group


TARGETS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.98]


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    ("make", "holdout", "iterate"),
    covering([at_fpr, at_tpr, at_positive_rate], [None, 0.5, "set"], ["last", "average"]),
)
def test_ties_never_exceed_the_budget(engine, tied, holdout, make, iterate, tmp_path):
    """Rows of a kind are decided alike: all of them are within the budget, or none is.

    Trees are summed in another order in prediction than in training; that must not matter.
    """
    X, y, group = tied
    at, options, share = slice(None), {}, holdout
    if holdout == "set":
        options, share = {"holdout_set": (X, y, group)}, None
    elif holdout is not None:
        (column,) = read_sensitive_features(group, 400)
        cells = build_cells(y.astype(np.int8), [column])
        at = choose(holdout, cells, 0.0, None, np.random.default_rng(0)).folds == 1
    for target in TARGETS:
        point = make(target)
        model = FairGBMClassifier(
            engine(min_child_samples=5, n_estimators=11),
            constraint="demographic_parity",
            operating_point=point,
            holdout=share,
            memberships="observed",
            iterate=iterate,
        ).fit(X, y, sensitive_features=group, **options)
        assert len(np.unique(model.predict_proba(X)[:, 1])) <= 6
        positive = model.predict(X[at]) == 1
        assert_kept(point, positive, y[at])
        scores = model.decision_function(X[at])
        possible = [
            rate_of(point.rate, scores >= s, y[at]) for s in [*np.unique(scores), np.inf]
        ]  # and no other decision comes closer
        found = rate_of(point.rate, positive, y[at])
        if point.at_least:
            assert found == min(r for r in possible if r >= target - 1e-9)
        else:
            assert found == max(r for r in possible if r <= target + 1e-9)
        # Whoever decides by the probabilities decides alike.
        model.export(tmp_path / "model.txt")
        proba = lightgbm.Booster(model_file=tmp_path / "model.txt").predict(X[at])
        np.testing.assert_array_equal(proba >= model.threshold_, positive)


# Whichever model is kept


@pytest.mark.parametrize(
    ("point", "iterate", "how", "weighted"),
    covering(POINTS.values(), ["best", "last", "average", "randomized"], ON_ROWS, [False, True]),
    ids=str,
)
def test_the_threshold_is_that_of_the_iterate_kept(
    engine, toy, other, point, iterate, how, weighted
):
    options = {"weighted": weighted, "iterate": iterate}
    model = fit(engine(n_estimators=15), toy, other, point, how, **options)
    X, y, _, weight = rows_seen(toy, other, how, weighted)
    scores = model._scores(X)
    assert_is_quantile(model.threshold_, point, scores, y, weight)
    positive = model.predict(X) == 1
    assert_kept(point, positive, y, weight)
    (said,) = [line for line in model.fairness_report_.advice if line.startswith(str(point))]
    assert f" is {rate_of(point.rate, positive, y, weight):.4f} [" in said


@pytest.mark.parametrize("iterate", ["best", "last"])
def test_in_cross_fitting_the_threshold_is_that_of_the_round_kept(engine, toy, other, iterate):
    model = fit(engine(n_estimators=15), toy, other, at_fpr(0.1), "cross", iterate=iterate)
    kept = model.best_iteration_
    if kept < 15:
        row = model.trace_.iloc[kept]
        assert row["round"] == kept + 1
        assert model.threshold_ == row["threshold"]
    (said,) = [line for line in model.fairness_report_.advice if line.startswith("at_fpr")]
    assert "on the rows held out" in said


@pytest.mark.parametrize("how", [how for how in HOW if how != "cross"])
def test_dart(engine, toy, other, how):
    """No round has looked at the last model: its threshold is read afterwards."""
    dart = engine(boosting_type="dart", drop_rate=0.9, skip_drop=0.0)
    point = at_positive_rate(0.25)
    model = fit(dart, toy, other, point, how, constraint="demographic_parity")
    X, y, _, _ = rows_seen(toy, other, how)
    assert_is_quantile(model.threshold_, point, model._scores(X), y)
    assert_kept(point, model.predict(X) == 1, y)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("how", ON_ROWS)
def test_early_stopping(engine, toy, other, how):
    stop = {
        "eval_set": [(toy.X[:150], 1 - toy.y[:150])],  # gets worse at once
        "callbacks": [lightgbm.early_stopping(2, verbose=False)],
    }
    point = at_fpr(0.1)
    model = fit(engine(), toy, other, point, how, fit=stop, tolerance=IDLE)
    assert model.best_iteration_ == 1 and len(model.trace_) == 4  # judged one round later
    X, y, _, _ = rows_seen(toy, other, how)
    assert_is_quantile(model.threshold_, point, scores_after(model, X, 1), y)
    assert model.threshold_ == model.trace_["threshold"].iloc[1]
    assert_kept(point, model.predict(X) == 1, y)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("how", ON_ROWS)
def test_trees_that_cannot_be_grown(engine, toy, other, how):
    """All rows tie: nobody is within the budget, and everyone is within a floor."""
    for point, everyone in ((at_fpr(0.1), False), (at_tpr(0.7), True)):
        model = fit(engine(min_split_gain=1e9), toy, other, point, how)
        assert (model.predict(other.X) == everyone).all()


# Everything else that training can be


@pytest.mark.parametrize("how", HOW)
def test_several_sensitive_attributes(engine, toy, other, how):
    def sensitive(data):
        return pd.DataFrame({"group": data.group, "half": np.arange(len(data)) % 2})

    options = {"sensitive_features": sensitive(toy)}
    if how in ("set", "both"):
        options["holdout_set"] = (other.X, other.y, sensitive(other))
    point = at_tpr(0.6)
    model = FairGBMClassifier(
        engine(),
        constraint=[parity("fpr", 0.01, by="group"), parity("ppr", 0.01, by="half")],
        operating_point=point,
        holdout=HOW[how],
        memberships="observed",
        iterate="last",
    ).fit(toy.X, toy.y, **options)
    assert len(model.fairness_report_.verdicts) == 2
    assert "rate: ppr[half=1]" in model.trace_
    if how in ("set", "both", "training rows"):
        X, y, _, _ = rows_seen(toy, other, how)
        assert_is_quantile(model.threshold_, point, scores_after(model, X, 8), y)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "params",
    [
        {"multipliers": "paper", "multiplier_learning_rate": 1.0},
        {"proxy": "cross_entropy"},
        {"proxy": "hinge"},
        {"memberships": "honest"},
        {"constraint": ["predictive_equality", bound("fnr", 0.9)]},
        {"constraint": bound("fpr", 0.2, group="b")},
        {"confidence": 0.9},
    ],
    ids=str,
)
def test_ways_to_train(engine, toy, other, how, params):
    point = at_fpr(0.15)
    first, second = (fit(engine(), toy, other, point, how, **params) for _ in range(2))
    assert np.isfinite(first.trace_.drop(columns="trees")).all(axis=None)
    assert first.trace_["loss"].iloc[-1] < first.trace_["loss"].iloc[0]
    assert first.threshold_ == second.threshold_
    np.testing.assert_array_equal(first.predict_proba(toy.X), second.predict_proba(toy.X))
    if how in ("set", "training rows"):
        X, y, _, _ = rows_seen(toy, other, how)
        assert_is_quantile(first.threshold_, point, scores_after(first, X, 8), y)


OPTIONS = {
    "bagging": {"subsample": 0.6, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "linear trees": {"linear_tree": True},
    "class weights": {"class_weight": "balanced"},
    "unbalanced": {"is_unbalance": True},
}


@pytest.mark.parametrize("how", ON_ROWS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_engine_options(engine, toy, other, how, options):
    point = at_positive_rate(0.2)
    model = fit(engine(**options), toy, other, point, how)
    X, y, _, _ = rows_seen(toy, other, how)
    assert_is_quantile(model.threshold_, point, scores_after(model, X, 8), y)


def test_a_stage_on_a_frozen_model(engine, toy, make_toy):
    base = engine().fit(toy.X, toy.y)
    other, point = make_toy(n=1_000, seed=1), at_fpr(0.1)
    model = FairGBMClassifier(
        FrozenEstimator(base),
        constraint="demographic_parity",
        operating_point=point,
        memberships="observed",
    ).fit(toy.X, toy.y, sensitive_features=toy.group, holdout_set=(other.X, other.y, other.group))
    assert_is_quantile(model.threshold_, point, model._scores(other.X), other.y)
    first = model.trace_.iloc[0]
    start = base.predict(other.X, raw_score=True)
    assert_is_quantile(first["threshold"], point, start, other.y)
    positive = start >= logit(first["threshold"])
    for g in "ab":
        expected = positive[other.group == g].mean()
        assert first[f"rate: ppr[sensitive_feature={g}]"] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
def test_a_frozen_model_within_tolerance_gets_a_threshold_only(engine, toy, other):
    base, point = engine().fit(toy.X, toy.y), at_tpr(0.8)
    model = FairGBMClassifier(
        FrozenEstimator(base),
        constraint="demographic_parity",
        tolerance=0.9,
        operating_point=point,
        memberships="observed",
    )
    held = (other.X, 1 - other.y, other.group)  # on which more trees do harm
    model.fit(toy.X, toy.y, sensitive_features=toy.group, holdout_set=held)
    assert model.best_iteration_ == 8
    np.testing.assert_array_equal(model.predict_proba(other.X), base.predict_proba(other.X))
    start = base.predict(other.X, raw_score=True)
    assert_is_quantile(model.threshold_, point, start, 1 - other.y)


@pytest.mark.parametrize("how", HOW)
def test_a_tradeoff_curve(engine, toy, other, how, monkeypatch):
    monkeypatch.setattr(
        "fairboost.training.memberships.recoverability", lambda *args, **options: 1.0
    )
    point = at_fpr(0.2)
    with_set = how in ("set", "both")
    held = {"holdout_set": (other.X, other.y, other.group)} if with_set else {}
    curve = tradeoff_curve(
        engine(),
        toy.X,
        toy.y,
        sensitive_features=toy.group,
        constraint="demographic_parity",
        tolerances=3,
        holdout=HOW[how],
        operating_point=point,
        **held,
    )
    assert len(curve.models) == 3
    assert len({model.threshold_ for model in curve.models}) > 1
    X, y, group, _ = rows_seen(toy, other, how)
    for model, line in zip(curve.models, curve.table.itertuples(), strict=True):
        assert model.operating_point == point
        if how == "cross":
            continue
        assert_is_quantile(model.threshold_, point, model._scores(X), y)
        if how == "both":  # rates and accuracy are of the share as well
            continue
        positive = model.predict(X) == 1
        gap = abs(positive[group == "a"].mean() - positive[group == "b"].mean())
        assert line.gap == pytest.approx(gap, abs=1e-12)
        assert line.accuracy == pytest.approx((positive == y).mean(), abs=1e-12)
    tested = curve.on(other.X, other.y, sensitive_features=other.group)
    assert np.isfinite(tested["gap"]).all()


# Coding


def test_the_coding_of_labels_does_not_matter(engine, toy, other):
    def fitted(code):
        model = FairGBMClassifier(
            engine(), operating_point=at_fpr(0.1), holdout=0.3, memberships="observed"
        )
        return model.fit(toy.X, code[toy.y], sensitive_features=toy.group)

    numbers = fitted(np.array([0, 1]))
    for code in (np.array(["no", "yes"]), np.array([False, True]), np.array([-1.0, 1.0])):
        model = fitted(code)
        assert model.threshold_ == numbers.threshold_
        pd.testing.assert_frame_equal(model.trace_, numbers.trace_)
        expected = code[numbers.predict(other.X)]
        np.testing.assert_array_equal(model.predict(other.X), expected)


def test_the_coding_of_groups_does_not_matter(engine, toy, other):
    def fitted(code):
        model = FairGBMClassifier(
            engine(), operating_point=at_fpr(0.1), memberships="observed", iterate="last"
        )
        held = (other.X, other.y, np.vectorize(code.get)(other.group))
        group = np.vectorize(code.get)(toy.group)
        return model.fit(toy.X, toy.y, sensitive_features=group, holdout_set=held)

    first = fitted({"a": "a", "b": "b"})
    for code in ({"a": "z", "b": "y"}, {"a": 7, "b": 3}):
        model = fitted(code)
        assert model.threshold_ == pytest.approx(first.threshold_, rel=1e-6)
        np.testing.assert_allclose(
            model.predict_proba(other.X), first.predict_proba(other.X), atol=1e-6
        )
        np.testing.assert_array_equal(model.predict(other.X), first.predict(other.X))


# scikit-learn


@ALL_POINTS
def test_it_is_a_parameter_like_any_other(engine, point):
    model = FairGBMClassifier(engine(), operating_point=point)
    assert model.get_params()["operating_point"] is point
    assert clone(model).operating_point == point
    assert f"operating_point={point}" in repr(model).replace("\n", "").replace(" ", "")
    assert clone(model).set_params(operating_point=0.3).operating_point == 0.3
    model._repr_html_()


def test_grid_search(engine, toy):
    grid = {"operating_point": [0.5, at_fpr(0.05), at_fpr(0.3), at_positive_rate(0.9)]}
    model = FairGBMClassifier(
        engine(n_estimators=4), constraint="demographic_parity", memberships="observed"
    )
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(model.set_fit_request(sensitive_features=True), grid, cv=2)
        search.fit(toy.X, toy.y, sensitive_features=toy.group)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 2
    assert search.best_estimator_.operating_point == search.best_params_["operating_point"]
    assert search.best_params_["operating_point"] != at_positive_rate(0.9)


def test_another_fit_forgets_the_last_threshold(engine, toy, other):
    model = fit(engine(), toy, other, at_fpr(0.05), "training rows")
    found = model.threshold_
    model.set_params(operating_point=0.5).fit(toy.X, toy.y, sensitive_features=toy.group)
    assert model.threshold_ == 0.5 != found
    np.testing.assert_array_equal(
        model.predict(other.X), model.predict_proba(other.X)[:, 1] >= 0.5
    )


# What the report says


def said_of(report, point):
    return [line for line in report.advice if line.startswith(str(point))]


@WEIGHTED
@ALL_POINTS
def test_the_report_says_what_the_operating_point_came_to(engine, toy, other, point, weighted):
    model = fit(engine(), toy, other, point, "share", weighted=weighted)
    X, y, _, weight = rows_seen(toy, other, "share", weighted)
    value = rate_of(point.rate, model.predict(X) == 1, y, weight)
    (said,) = said_of(model.fairness_report_, point)
    assert said.startswith(
        f"{point}: decisions are positive if the probability is at least "
        f"{model.threshold_:.4g}, where the overall {point.rate.title} is {value:.4f} ["
    )
    assert said.endswith("] on the rows held out.")
    assert str(point) in str(model.fairness_report_)


@WEIGHTED
@ALL_POINTS
def test_on_test_rows_too(engine, toy, other, make_toy, point, weighted):
    model = fit(engine(), toy, other, point, "share")
    test = make_toy(n=500, seed=2)
    weight = test.weight if weighted else None
    report = model.report_on(test.X, test.y, sensitive_features=test.group, sample_weight=weight)
    held_out, tested = said_of(report, point)
    value = rate_of(point.rate, model.predict(test.X) == 1, test.y, weight)
    assert held_out.endswith("on the rows held out.")
    assert f"{value:.4f} [" in tested and "on the test rows" in tested


@pytest.mark.parametrize(
    ("point", "push", "limit"),
    [
        (at_fpr(0.1), 1.5, "exceeds the target of 0.1"),
        (at_positive_rate(0.2), 1.5, "exceeds the target of 0.2"),
        (at_tpr(0.7), -1.5, "falls short of the target of 0.7"),
    ],
    ids=str,
)
def test_people_who_have_changed(engine, make_toy, point, push, limit):
    """Incomes have moved, what they say about people has not."""
    toy, other, new = make_toy(2_000), make_toy(1_000, 1), make_toy(2_000, 2)
    model = fit(engine(), toy, other, point, "set")
    X = np.array(new.X)
    X[:, 0] += push
    options = {"sensitive_features": new.group}
    _, tested = said_of(model.report_on(X, new.y, **options), point)
    assert f". This {limit}." in tested
    assert "fairboost.metrics.threshold_at places the threshold on recent rows" in tested
    X[:, 0] -= 2 * push  # the target is kept, by far
    _, tested = said_of(model.report_on(X, new.y, **options), point)
    assert "the target of" not in tested


def test_at_a_probability_there_is_nothing_to_say(engine, toy, other):
    model = fit(engine(), toy, other, 0.4, "share")
    assert not any("decisions are positive if" in a for a in model.fairness_report_.advice)


def test_test_rows_of_one_label_have_no_such_rate(engine, toy, other):
    """Constraints on the other label can be judged all the same."""
    model = fit(engine(), toy, other, at_fpr(0.1), "set", constraint="equal_opportunity")
    good = other.y == 1
    report = model.report_on(other.X[good], other.y[good], sensitive_features=other.group[good])
    assert len(report.test_verdicts) == 1
    assert len(said_of(report, at_fpr(0.1))) == 1
