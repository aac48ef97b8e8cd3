"""A stage on any classifier of two labels: scores are its log-odds plus those of the stage."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from scipy.special import expit, logit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier, at_positive_rate, report, tradeoff_curve
from fairboost.exceptions import EngineOptionError, FairnessWarning, InvalidInputError
from fairboost.model.base_model import said_of_seen_rows
from fairboost.verdicts.rounds import violations_by_round

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")

BASES = {
    "forest": RandomForestClassifier(20, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=10),
    "logistic in a pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "network": MLPClassifier((8,), max_iter=40, learning_rate_init=0.02, random_state=0),
    "support vectors": LinearSVC(),
    "catboost": CatBoostClassifier(
        iterations=10, verbose=0, thread_count=1, allow_writing_files=False
    ),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads of scikit-learn wait for each other for minutes where cores are taken."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def rows(make_toy):
    """Rows that bases are trained on, those of the stage, and others."""
    return SimpleNamespace(
        seen=make_toy(1_500, 1), new=make_toy(3_000, 2), test=make_toy(6_000, 3)
    )


@pytest.fixture(scope="module", params=BASES)
def base(request, rows):
    """A fitted classifier of each kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the network
        return clone(BASES[request.param]).fit(rows.seen.X, rows.seen.y)


@pytest.fixture(scope="module")
def forest(rows):
    return clone(BASES["forest"]).fit(rows.seen.X, rows.seen.y)


def small(**options):
    """A stage of few trees."""
    given = {"n_estimators": 12, "num_leaves": 7, "learning_rate": 0.3, "n_jobs": 1, "verbose": -1}
    return LGBMClassifier(**{**given, **options})


def on(base, data, **params):
    fit = params.pop("fit", {})
    X, y = params.pop("X", data.X), params.pop("y", data.y)
    given = {"constraint": "demographic_parity", "tolerance": 0.02, "memberships": "observed"}
    model = FairGBMClassifier(base, **{**given, "stage": small(), **params})
    return model.fit(X, y, sensitive_features=data.group, **fit)


def unwrapped(report):
    """A report without its line breaks."""
    return " ".join(str(report).split())


def difference(model, data, **further):
    """How far shares of positive decisions are apart."""
    decided = model.predict(data.X, **further)
    return abs(np.subtract(*(decided[data.group == g].mean() for g in "ab")))


def log_odds(base, model, X):
    """Those of a base, by its own methods."""
    if hasattr(base, "predict_proba"):
        return logit(np.clip(base.predict_proba(X)[:, 1], *model._base.clip))
    return model._base.slope * base.decision_function(X) + model._base.shift


# Every kind of base


def test_scores_are_those_of_the_base_and_of_the_stage(base, rows):
    model = on(FrozenEstimator(base), rows.new, iterate="last")
    expected = log_odds(base, model, rows.test.X) + model.booster_.predict(
        rows.test.X, raw_score=True
    )
    np.testing.assert_array_equal(model.decision_function(rows.test.X), expected)
    proba = model.predict_proba(rows.test.X)[:, 1]
    np.testing.assert_allclose(proba, expit(expected), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows.test.X), proba >= 0.5)
    assert model.base_ is base
    assert model.best_iteration_ == 12


def test_the_gap_closes_on_new_rows(base, rows):
    model = on(FrozenEstimator(base), rows.new)
    assert difference(base, rows.test) > 0.1
    assert difference(model, rows.test) < 0.07  # of which 0.02 is the tolerance
    assert model.fairness_report_ is not None


def test_without_a_constraint_the_base_stays(base, rows):
    model = on(FrozenEstimator(base), rows.new, constraint=None, tolerance=None)
    assert model.best_iteration_ == 0
    scores = log_odds(base, model, rows.test.X)
    np.testing.assert_array_equal(model.decision_function(rows.test.X), scores)
    if hasattr(base, "predict_proba"):  # of which a forest may say 0.5
        sure = base.predict_proba(rows.test.X)[:, 1] != 0.5
        decided = model.predict(rows.test.X)
        np.testing.assert_array_equal(decided[sure], base.predict(rows.test.X)[sure])


def test_the_first_iterate_is_the_base(base, rows):
    """A tolerance that the base is within already leaves it as it is, if the loss rises."""
    model = on(FrozenEstimator(base), rows.new, tolerance=0.9, holdout=None)
    scores = log_odds(base, model, rows.new.X)
    rates = [(scores[rows.new.group == g] >= 0).mean() for g in "ab"]
    found = model.trace_.filter(like="rate: ").iloc[0]
    for rate in rates:
        assert np.isclose(found, rate).any()


# An exactly solvable case


def test_a_shift_between_groups_is_taken_back():
    """Base log-odds are u + 1 in group a and u in group b, with the same u in both groups.

    The one feature of the stage is the group. Rates are equal where the stage gives a exactly 1
    less than b.
    """
    u = np.tile(logit((np.arange(1_500) + 0.5) / 1_500), 2)
    in_a = np.repeat([1.0, 0.0], 1_500)
    y = (np.random.default_rng(0).random(3_000) < expit(u + in_a)).astype(int)
    model = FairGBMClassifier(
        constraint="demographic_parity", tolerance=0.005, holdout=None, memberships="observed",
        stage=small(n_estimators=40, num_leaves=2),
    )  # fmt: skip
    score = expit(u + in_a)
    model.fit(in_a[:, np.newaxis], y, sensitive_features=in_a, base_score=score)
    two = np.array([[0.0], [1.0]])
    stage = model.booster_.predict(two, raw_score=True)
    # Half of 0.005 to either side is a shift of 0.01 where one row in four is within 1.
    assert stage[1] - stage[0] == pytest.approx(-1, abs=0.03)
    decided = model.predict(in_a[:, np.newaxis], base_score=score)
    assert abs(decided[:1_500].mean() - decided[1_500:].mean()) <= 0.005


# Bases that are not frozen are cross-fitted


def test_an_unfitted_base_is_cross_fitted(rows):
    data = rows.new
    model = on(clone(BASES["forest"]), data, iterate="last", holdout=None)
    whole = clone(BASES["forest"]).fit(data.X, data.y)
    np.testing.assert_array_equal(
        model.base_.predict_proba(rows.test.X), whole.predict_proba(rows.test.X)
    )
    # On its own rows a forest is right throughout; out of fold it is not.
    assert whole.score(data.X, data.y) > 0.99
    first = model.trace_["loss"].iloc[0]
    assert 0.45 < first < 0.7
    assert not hasattr(model.estimator, "classes_")


@pytest.mark.parametrize("listed", [["district"], [2]], ids=["name", "position"])
def test_an_unfitted_catboost_with_categories(rows, listed):
    """Whose list of them scikit-learn's clone refuses to copy."""
    data = rows.seen
    X = pd.DataFrame(data.X[:, :2], columns=["income", "debt"])
    X["district"] = pd.Categorical(np.where(data.X[:, 3] > 0.5, "north", "south"))
    unfitted = CatBoostClassifier(
        iterations=10, verbose=0, thread_count=1, allow_writing_files=False, cat_features=listed
    )
    model = on(unfitted, data, X=X, holdout=None)
    assert not unfitted.is_fitted()
    assert model.base_.get_cat_feature_indices() == [2]
    whole = copy.deepcopy(unfitted).fit(X, data.y)
    np.testing.assert_array_equal(model.base_.predict_proba(X), whole.predict_proba(X))


def test_weights_reach_an_unfitted_base(rows):
    data = rows.seen
    kind = LogisticRegression()
    model = on(kind, data, fit={"sample_weight": data.weight})
    expected = LogisticRegression().fit(data.X, data.y, data.weight)
    np.testing.assert_array_equal(model.base_.coef_, expected.coef_)
    with pytest.raises(EngineOptionError, match=r"Pipeline\.fit takes no sample_weight"):
        on(BASES["logistic in a pipeline"], data, fit={"sample_weight": data.weight})


# Scores alone


def test_scores_of_the_user_are_as_good_as_their_source(forest, rows):
    data, test = rows.new, rows.test
    model = on(FrozenEstimator(forest), data)
    score, further = forest.predict_proba(data.X)[:, 1], forest.predict_proba(test.X)[:, 1]
    given = on(None, data, fit={"base_score": score})
    np.testing.assert_array_equal(
        given.predict_proba(test.X, base_score=further), model.predict_proba(test.X)
    )
    asked = {"sensitive_features": test.group}
    assert str(given.report_on(test.X, test.y, base_score=further, **asked)) == str(
        model.report_on(test.X, test.y, **asked)
    )
    assert given.score(test.X, test.y, base_score=further) == model.score(test.X, test.y)


def test_a_held_out_set_has_scores_of_its_own(forest, rows):
    data, test = rows.new, rows.test
    score, further = forest.predict_proba(data.X)[:, 1], forest.predict_proba(test.X)[:, 1]
    held_out = test.X, test.y, test.group, None
    model = on(FrozenEstimator(forest), data, fit={"holdout_set": held_out[:3]})
    fit = {"base_score": score, "holdout_set": (*held_out, further)}
    given = on(None, data, fit=fit)
    assert str(given.fairness_report_) == str(model.fairness_report_)
    with pytest.raises(InvalidInputError, match="holdout_set has no scores of the base model"):
        on(None, data, fit={"base_score": score, "holdout_set": held_out[:3]})


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda s, y: logit(np.clip(s, 0.01, 0.99)), r"in \[0, 1\], found .* pass scipy.special"),
        (lambda s, y: 600 + 100 * s, r"Of points pass FrozenEstimator\(LogisticRegression"),
        (
            lambda s, y: (s > 0.5).astype(float),
            "no other values than 0 and 1: these are decisions",
        ),
        (lambda s, y: 1 - s, "where the label is positive, 1, and .* or the rows are in another"),
        (lambda s, y: np.full(len(s), 0.3), "base_score is 0.3 in every row, so that it says"),
        (lambda s, y: np.zeros(len(s)), "base_score is 0 in every row, so that it says nothing"),
        (
            lambda s, y: np.where(s > 0.5, "yes", "no"),
            r"base_score holds text \('no', 'yes'\): these are decisions; pass the probabilities",
        ),
        (
            lambda s, y: pd.Series(np.where(s > 0.5, "yes", "no")),
            r"base_score holds text \('no', 'yes'\): these are decisions; pass the probabilities",
        ),
        (
            lambda s, y: np.column_stack([1 - s, s]),
            r"has 2 columns; pass one number for each row, such as predict_proba\(X\)\[:, 1\]",
        ),
        (lambda s, y: 100 * s, "Of percentages pass scores / 100"),
        (lambda s, y: s[:-1], "base_score has 2999 rows but X has 3000"),
        (
            lambda s, y: np.where(y == 1, np.nan, s),
            "base_score must be finite numbers without NaN",
        ),
        (lambda s, y: pd.Series(s, index=range(1, len(s) + 1)), "indices that differ"),
    ],
)
def test_scores_that_are_no_probabilities(forest, rows, wrong, match):
    data = rows.new
    score = wrong(forest.predict_proba(data.X)[:, 1], data.y)
    with pytest.raises(InvalidInputError, match=match):
        on(None, data, X=pd.DataFrame(data.X).rename(columns=str), fit={"base_score": score})


def test_decisions_are_no_scores_of_new_rows_either(forest, rows):
    score = forest.predict_proba(rows.new.X)[:, 1]
    model = on(None, rows.new, fit={"base_score": score})
    X, decided = rows.test.X[:20], np.arange(20) % 2
    for predict in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(InvalidInputError, match="other values than 0 and 1: these are decis"):
            predict(X, base_score=decided)
    # A sure model has few rows at 0 or 1, and among many rows other scores.
    assert len(model.predict(X[:19], base_score=decided[:19])) == 19
    assert len(model.predict(X, base_score=np.append(decided[:19], 0.4))) == 20


def test_points_are_not_taken_for_percentages(forest, rows):
    with pytest.raises(InvalidInputError) as raised:
        on(None, rows.new, fit={"base_score": 600 + 100 * forest.predict_proba(rows.new.X)[:, 1]})
    assert "percentages" not in str(raised.value)


def test_scores_at_the_wrong_time(forest, rows):
    data = rows.new
    score = forest.predict_proba(data.X)[:, 1]
    given = on(None, data, fit={"base_score": score})
    with pytest.raises(InvalidInputError, match="base_score is missing; pass the probabilities"):
        given.predict(data.X)
    with pytest.raises(InvalidInputError, match="trained without it; leave it out"):
        on(FrozenEstimator(forest), data).predict(data.X, base_score=score)
    with pytest.raises(InvalidInputError, match="estimator is RandomForestClassifier; leave one"):
        on(FrozenEstimator(forest), data, fit={"base_score": score})
    with pytest.raises(InvalidInputError, match="eval_set has no scores of the base model"):
        on(None, data, fit={"base_score": score, "eval_set": [(data.X, data.y)]})


# What the stage sees


def test_text_that_a_pipeline_encodes(rows):
    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    frames = []
    for data in (rows.seen, rows.new, rows.test):
        frame = pd.DataFrame(data.X, columns=["income", "debt", "noise", "district"])
        frame["city"] = np.where(data.X[:, 0] > 0, "Porto", "Faro")
        frames.append(frame)
    base = make_pipeline(encode, LogisticRegression()).fit(frames[0], rows.seen.y)
    with pytest.raises(InvalidInputError, match=r"'city' of X is .* stage_features=\[...\]"):
        on(FrozenEstimator(base), rows.new, X=frames[1])
    with pytest.raises(InvalidInputError, match="leave it out of stage_features") as raised:
        on(FrozenEstimator(base), rows.new, X=frames[1], stage_features=["city", "income"])
    assert "name the columns" not in str(raised.value)
    seen = ["district", "income"]
    model = on(FrozenEstimator(base), rows.new, X=frames[1], stage_features=seen)
    assert model.booster_.feature_name() == seen
    assert model.n_features_in_ == 5
    expected = log_odds(base, model, frames[2]) + model.booster_.predict(
        frames[2][seen], raw_score=True
    )
    np.testing.assert_array_equal(model.decision_function(frames[2]), expected)
    by_position = on(FrozenEstimator(base), rows.new, X=frames[1], stage_features=[3, 0])
    np.testing.assert_array_equal(by_position.decision_function(frames[2]), expected)


@pytest.mark.parametrize("form", ["polars", "arrow", "sparse", "list"])
def test_columns_of_any_table(forest, rows, form):
    import polars
    import pyarrow
    from scipy.sparse import csc_matrix

    names = ["income", "debt", "noise", "district"]
    frame = pd.DataFrame(rows.new.X, columns=names)
    table = {
        "polars": lambda: polars.from_pandas(frame),
        "arrow": lambda: pyarrow.Table.from_pandas(frame),
        "sparse": lambda: csc_matrix(rows.new.X),
        "list": lambda: rows.new.X.tolist(),
    }[form]()
    score = forest.predict_proba(rows.new.X)[:, 1]
    fit = {"base_score": score}
    expected = on(None, rows.new, stage_features=[3, 1], fit=fit)
    model = on(None, rows.new, X=table, stage_features=[3, 1], fit=fit)
    np.testing.assert_array_equal(
        model.predict_proba(table, base_score=score),
        expected.predict_proba(rows.new.X, base_score=score),
    )


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (["city"], r"stage_features has 'city', which is no column of X; expected a position"),
        ([4], "stage_features has 4"),
        ([], "must be different columns, one or more"),
        ([1, -3], "must be different columns, one or more"),
    ],
)
def test_columns_that_there_are_not(forest, rows, asked, match):
    with pytest.raises(InvalidInputError, match=match):
        on(FrozenEstimator(forest), rows.new, stage_features=asked)


def test_a_stage_by_xgboost(forest, rows):
    stage = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)
    model = on(FrozenEstimator(forest), rows.new, stage=stage, iterate="last")
    base = log_odds(forest, model, rows.test.X)
    stage = model.estimator_.predict(rows.test.X, output_margin=True)
    np.testing.assert_allclose(model.decision_function(rows.test.X), base + stage, atol=1e-6)
    assert difference(model, rows.test) < 0.11  # training aims at 3/4 of the tolerance
    plain = on(FrozenEstimator(forest), rows.new, stage=clone(model.stage), constraint=None,
               tolerance=None)  # fmt: skip
    np.testing.assert_allclose(plain.decision_function(rows.test.X), base, atol=1e-6)


def test_a_booster_of_an_engine_may_have_a_stage_of_its_own(engine, rows):
    base = engine().fit(rows.seen.X, rows.seen.y)
    model = on(FrozenEstimator(base), rows.new, stage_features=[3])
    assert model.booster_.num_feature() == 1
    expected = log_odds(base, model, rows.test.X)
    np.testing.assert_allclose(expected, base.predict(rows.test.X, raw_score=True), atol=1e-9)


# All else that the estimator offers


@pytest.mark.parametrize(
    "asked",
    [
        {"holdout": "cross"},
        {"holdout": 0.3},
        {"holdout": None},
        {"confidence": 0.9},
        {"iterate": "last"},
        {"memberships": "honest"},
        {"operating_point": at_positive_rate(0.3)},
        {"operating_point": 0.4},
        {"constraint": ["equal_opportunity", "demographic_parity"], "tolerance": 0.05},
        {"constraint": "calibrated", "tolerance": 0.1},
        {"stage": small(linear_tree=True)},
        {"pos_label": 0},
    ],
    ids=str,
)
def test_what_is_measured_is_what_is_predicted(forest, rows, asked):
    """The held-out figures of the report are those of the model on the same rows."""
    data, test = rows.new, rows.test
    fit = {"holdout_set": (test.X, test.y, test.group)} if "holdout" not in asked else {}
    model = on(FrozenEstimator(forest), data, fit=fit, **asked)
    again = model.report_on(test.X, test.y, sensitive_features=test.group)
    if fit:
        found, expected = [
            [verdict.value for verdict in v] for v in (again.test_verdicts, again.verdicts)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (
        pickle.loads(pickle.dumps(model)).predict(test.X).tolist()
        == model.predict(test.X).tolist()
    )
    clone(model)


def test_the_positive_label_may_be_the_smaller_one(forest, rows):
    words = np.where(rows.seen.y == 1, "approved", "denied")
    base = clone(forest).fit(rows.seen.X, words)
    y = np.where(rows.new.y == 1, "approved", "denied")
    model = on(FrozenEstimator(base), rows.new, y=y, pos_label="approved")
    plain = on(FrozenEstimator(forest), rows.new)
    decided = plain.predict(rows.test.X) == 1
    np.testing.assert_array_equal(model.predict(rows.test.X) == "approved", decided)


def test_rounds_are_measured_with_the_base_in_them(forest, rows):
    """Violations of the first rounds on training rows are those that the trace has."""
    data = rows.new
    model = on(FrozenEstimator(forest), data, iterate="last", holdout=None, stage_features=[0, 3])
    groups = {"sensitive_features": data.group}
    found = violations_by_round(model, data.X, data.y, **groups).set_index("round")
    trace = model.trace_.set_index("round")
    for start in found.index[found.index.isin(trace.index)]:
        np.testing.assert_allclose(found.loc[start], trace.loc[start, found.columns], atol=1e-9)
    assert len(found) > 5


def test_a_report_on_a_stage(forest, rows):
    data, test = rows.new, rows.test
    model = on(FrozenEstimator(forest), data)
    page = report.to_markdown(report.gather(model, test.X, test.y, sensitive_features=test.group))
    assert "By sensitive" in page


def test_metrics_of_evaluation_sets_have_the_base_in_them(forest, rows):
    data, test = rows.new, rows.test
    sets = [(test.X, test.y), (data.X, data.y)]
    model = on(
        FrozenEstimator(forest), data, iterate="last", holdout=None, stage_features=[0, 3],
        fit={"eval_set": sets, "eval_metric": "auc"},
    )  # fmt: skip
    from sklearn.metrics import roc_auc_score

    found = model.estimator_.evals_result_
    second, first = (found[name]["auc"][-1] for name in ("training", "valid_0"))
    assert np.isclose(first, roc_auc_score(test.y, model.predict_proba(test.X)[:, 1]))
    assert np.isclose(second, roc_auc_score(data.y, model.predict_proba(data.X)[:, 1]))


def test_scores_are_routed_in_a_search(forest, rows):
    data = rows.new
    with config_context(enable_metadata_routing=True):
        model = FairGBMClassifier(
            constraint="demographic_parity", memberships="observed", stage=small()
        )
        model.set_fit_request(sensitive_features=True, base_score=True)
        model.set_score_request(base_score=True)
        search = GridSearchCV(model, {"stage__num_leaves": [3, 7]}, cv=2)
        score = forest.predict_proba(data.X)[:, 1]
        search.fit(data.X, data.y, sensitive_features=data.group, base_score=score)
        assert 0.6 < search.best_score_ < 1
    decided = search.best_estimator_.predict(data.X, base_score=score)
    assert decided.shape == data.y.shape


def test_a_frozen_base_in_a_search(forest, rows):
    data = rows.new
    model = FairGBMClassifier(FrozenEstimator(forest), constraint=None, stage=small())
    search = GridSearchCV(model, {"stage__num_leaves": [3, 7]}, cv=2).fit(data.X, data.y)
    assert 0.6 < search.best_score_ < 1


# Refusals


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """Decides, and says no more."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("fitted", [True, False])
def test_labels_alone(rows, fitted):
    base = OnlyLabels().fit(rows.seen.X, rows.seen.y) if fitted else OnlyLabels()
    with pytest.raises(EngineOptionError, match="neither predict_proba nor decision_function"):
        on(FrozenEstimator(base) if fitted else base, rows.new)


def test_other_classes(forest, rows):
    three = np.digitize(rows.new.X[:, 0], [-0.5, 0.5])
    with pytest.raises(InvalidInputError, match="y has 3 classes, and a stage on a base model"):
        on(FrozenEstimator(forest), rows.new, y=three)
    base = clone(forest).fit(rows.new.X, three)
    with pytest.raises(EngineOptionError, match="distinguishes 3 classes"):
        on(FrozenEstimator(base), rows.new)
    with pytest.raises(EngineOptionError, match=r"the labels \[0, 1\], but y has \['n', 'y'"):
        on(FrozenEstimator(forest), rows.new, y=np.where(rows.new.y == 1, "y", "n"))


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"iterate": "average"}, "iterate='average' is not possible on top of a frozen model"),
        (
            {"iterate": "randomized"},
            "iterate='randomized' is not possible on top of a frozen model",
        ),
        (
            {"operating_point": at_positive_rate(0.3), "constraint": None, "tolerance": None},
            "would add trees to the frozen model for nothing",
        ),
    ],
)
def test_what_cannot_be_had_on_a_base(forest, rows, asked, match):
    with pytest.raises(InvalidInputError, match=match):
        on(FrozenEstimator(forest), rows.new, **asked)


def test_a_base_that_is_not_fitted(rows):
    with pytest.raises(EngineOptionError, match="is not fitted; fit it first, or pass it without"):
        on(FrozenEstimator(RandomForestClassifier()), rows.new)


@pytest.mark.parametrize("asked", [{"stage": small()}, {"stage_features": [0]}], ids=str)
def test_a_stage_on_nothing(engine, rows, asked):
    model = FairGBMClassifier(engine(), **asked)
    with pytest.raises(InvalidInputError, match="is about a stage on a base model, and there is"):
        model.fit(rows.new.X, rows.new.y, sensitive_features=rows.new.group)


@pytest.mark.parametrize(
    "wrapped", [FrozenEstimator, clone, FairGBMClassifier], ids=lambda kind: kind.__name__
)
def test_a_curve_is_refused(forest, rows, wrapped):
    data = rows.new
    said = r"found RandomForestClassifier; pass tradeoff_curve\(LGBMClassifier.* in a loop over"
    with pytest.raises(InvalidInputError, match=said):
        tradeoff_curve(wrapped(forest), data.X, data.y, sensitive_features=data.group)


def test_a_model_of_its_own_kind_is_no_base(rows):
    with pytest.raises(EngineOptionError, match="FairGBMClassifier has an engine in it"):
        on(FairGBMClassifier(), rows.new, stage=None)


def test_scores_that_are_no_numbers(rows):
    base = LinearSVC().fit(rows.seen.X, rows.seen.y)
    X = rows.new.X.copy()
    base.coef_[0, 0] = np.inf
    with pytest.raises(
        InvalidInputError, match="LinearSVC, the base model, gives row 0 the value"
    ):
        on(FrozenEstimator(base), rows.new, X=X)


def test_decision_values_that_fall(rows):
    base = LinearSVC().fit(rows.seen.X, rows.seen.y)
    base.coef_ *= -1
    with pytest.raises(InvalidInputError, match="are not larger where the label is positive"):
        on(FrozenEstimator(base), rows.new)


# Rows that the base model was trained on

SEEN = r"no errors on the rows passed to fit \(\d+ of 1,500\): it was probably trained on them"


@pytest.mark.filterwarnings("default::fairboost.exceptions.FairnessWarning")
def test_rows_that_the_base_was_trained_on_have_no_verdict(rows):
    data, test = rows.seen, rows.test
    forest = RandomForestClassifier(50, random_state=0).fit(data.X, data.y)
    asked = {"constraint": "equal_opportunity", "tolerance": 0.2}
    score = forest.predict_proba(data.X)[:, 1]
    models = []
    for base, fit in ((FrozenEstimator(forest), {}), (None, {"base_score": score})):
        with pytest.warns(FairnessWarning, match=SEEN):
            models.append(on(base, data, fit=fit, **asked))
    assert "without FrozenEstimator" in unwrapped(models[0].fairness_report_)
    assert "Pass other rows, with their base_score" in unwrapped(models[1].fairness_report_)
    close = on(FrozenEstimator(forest), data, constraint="equal_opportunity", tolerance=0.01)
    assert not close.fairness_report_.verdicts[0].within
    assert "may be up to" not in unwrapped(close.fairness_report_)
    for model in models:
        assert [v.status for v in model.fairness_report_.verdicts] == ["no verdict"]
        assert "probably trained on them" in unwrapped(model.fairness_report_)
    # Rows that were not trained on say more, as do scores out of fold.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        held_out = on(
            FrozenEstimator(forest),
            data,
            fit={"holdout_set": (test.X, test.y, test.group)},
            **asked,
        )
        crossed = on(clone(forest), data, **asked)
        on(FrozenEstimator(forest), rows.new, **asked)
    assert not [w for w in said if "probably trained" in str(w.message)]
    for model in (held_out, crossed):
        assert "probably trained" not in unwrapped(model.fairness_report_)
    assert held_out.fairness_report_.verdicts[0].status == "met"
    with pytest.warns(FairnessWarning, match=SEEN):  # a share of the training rows as well
        fit = {"holdout_set": (test.X, test.y, test.group)}
        on(FrozenEstimator(forest), data, fit=fit, holdout=0.2, **asked)


def test_few_errors_in_all_are_not_few_of_a_rare_label():
    labels = np.repeat([0, 1], [50_000, 150])
    assert said_of_seen_rows(np.full(len(labels), -5.0), labels) == ""
    assert "(0 of 50,150)" in said_of_seen_rows(2.0 * labels - 1, labels)
    assert said_of_seen_rows(2.0 * labels[:-51] - 1, labels[:-51]) == ""  # 99 rows of a label


@pytest.mark.parametrize(
    ("stage", "advised"),
    [
        (None, r"\(stage=LGBMClassifier\(n_estimators=80, learning_rate=0.3, num_leaves=15\)\)"),
        (small(), r"\(stage=LGBMClassifier\(n_estimators=80, ...\)\)"),
    ],
)
def test_more_rounds_of_a_stage_are_asked_for_by_its_engine(forest, rows, stage, advised):
    model = on(FrozenEstimator(forest), rows.new, stage=stage, tolerance=0.0)
    assert re.search(advised, unwrapped(model.fairness_report_))


@pytest.mark.parametrize(("trees", "gain"), [(10, 2.0), (20, 2.0), (30, 80 / 60), (40, 1.0)])
def test_short_stages_have_a_higher_gain(forest, rows, trees, gain):
    """The first step of the multipliers: gain and damping times unit and violation."""
    asked = {"stage": small(n_estimators=trees), "tolerance": 0.0, "iterate": "last"}
    auto = on(FrozenEstimator(forest), rows.seen, **asked)
    named = on(FrozenEstimator(forest), rows.seen, multiplier_learning_rate=gain, **asked)
    np.testing.assert_array_equal(auto.multipliers_, named.multipliers_)


def test_memberships_of_a_stage_are_learned_where_asked_for(forest, rows):
    asked = {"stage": small(), "iterate": "last"}
    auto, observed, honest = (
        on(FrozenEstimator(forest), rows.new, memberships=name, **asked).decision_function(
            rows.test.X
        )
        for name in ("auto", "observed", "honest")
    )
    np.testing.assert_array_equal(auto, observed)
    assert np.abs(honest - observed).max() > 0.01
