"""The positive label: named by the user, guessed with a warning, the same everywhere."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer, log_loss, roc_auc_score

from fairboost import FairGBMClassifier, at_fpr, load, tradeoff_curve
from fairboost.data.validation import encode_labels
from fairboost.exceptions import EngineOptionError, FairnessWarning, InvalidInputError
from fairboost.metrics import gap
from fairboost.plots import GroupRocDisplay
from tests.kinds import LightGBM


@pytest.fixture(scope="module")
def words(toy):
    """Labels of which the positive one, as in ``toy.y``, sorts first."""
    return np.where(toy.y == 1, "approved", "denied")


def fit(kind, toy, y, *, options=None, fit=None, **params):
    shared = {"constraint": "equal_opportunity", "random_state": 0, "memberships": "observed"}
    model = FairGBMClassifier(kind.make(**(options or {})), **{**shared, **params})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 1 constraints", FairnessWarning)
        warnings.filterwarnings("ignore", ".*not met", FairnessWarning)
        return model.fit(toy.X, y, sensitive_features=toy.group, **(fit or {}))


@pytest.mark.parametrize(
    "params", [{}, {"operating_point": at_fpr(0.2)}, {"constraint": None}, {"iterate": "average"}]
)
def test_the_model_is_that_of_zeros_and_ones(kind, toy, words, params, tmp_path):
    """Whatever labels are called, and in whatever order they sort."""
    numbers = fit(kind, toy, toy.y, **params)
    model = fit(kind, toy, words, **params, pos_label="approved")
    assert model.classes_.tolist() == ["approved", "denied"] and model.pos_label_ == "approved"
    model.save(tmp_path / "model.json")
    for found in (model, load(tmp_path / "model.json")):
        positive = found.predict_proba(toy.X)[:, 0]
        np.testing.assert_array_equal(positive, numbers.predict_proba(toy.X)[:, 1])
        np.testing.assert_array_equal(
            found.decision_function(toy.X), -numbers.decision_function(toy.X)
        )
        decided = found.predict(toy.X)
        np.testing.assert_array_equal(decided == "approved", numbers.predict(toy.X) == 1)
        assert found.pos_label_ == "approved"
    pd.testing.assert_frame_equal(model.trace_, numbers.trace_)


def test_tools_of_scikit_learn_score_it_rightly(kind, toy, words):
    model = fit(kind, toy, words, pos_label="approved")
    p = model.predict_proba(toy.X)[:, 0]
    auc = get_scorer("roc_auc")(model, toy.X, words)
    assert auc == pytest.approx(roc_auc_score(toy.y, p)) and auc > 0.7
    assert get_scorer("neg_log_loss")(model, toy.X, words) == pytest.approx(-log_loss(toy.y, p))


def test_reports_are_about_the_positive_label(kind, toy, words):
    numbers, model = fit(kind, toy, toy.y), fit(kind, toy, words, pos_label="approved")
    reports = [
        m.report_on(toy.X, y, sensitive_features=toy.group)
        for m, y in ((numbers, toy.y), (model, words))
    ]
    pd.testing.assert_frame_equal(reports[0].rates, reports[1].rates)
    display = GroupRocDisplay.from_estimator(model, toy.X, words, sensitive_features=toy.group)
    same = GroupRocDisplay.from_estimator(numbers, toy.X, toy.y, sensitive_features=toy.group)
    pd.testing.assert_frame_equal(display.table, same.table)


def test_evaluation_sets_and_class_weights_have_the_users_labels(toy, words):
    weights = {"approved": 3.0, "denied": 1.0}
    model = fit(
        LightGBM(), toy, words, pos_label="approved", constraint=None,
        options={"class_weight": weights}, fit={"eval_set": [(toy.X, words)]},
    )  # fmt: skip
    numbers = fit(
        LightGBM(), toy, toy.y, constraint=None,
        options={"class_weight": {1: 3.0, 0: 1.0}}, fit={"eval_set": [(toy.X, toy.y)]},
    )  # fmt: skip
    np.testing.assert_array_equal(
        model.predict_proba(toy.X)[:, 0], numbers.predict_proba(toy.X)[:, 1]
    )
    assert model.estimator_.evals_result_ == numbers.estimator_.evals_result_
    assert model.estimator.class_weight == weights  # the user's estimator is not changed


@pytest.mark.parametrize("pos_label", [None, np.datetime64("2024-01-01")])
def test_weights_of_labels_that_are_dates_are_refused(toy, pos_label):
    """Stock LightGBM does not find a date among its labels."""
    dates = np.array(["2024-01-01", "2025-01-01"], "datetime64[D]")
    options = {"class_weight": {dates[0]: 1.0, dates[1]: 3.0}}
    with pytest.raises(EngineOptionError, match=r"class_weight cannot name labels that are dates"):
        fit(LightGBM(), toy, dates[toy.y], pos_label=pos_label, constraint=None, options=options)


@pytest.mark.filterwarnings("ignore:The stage costs much")
@pytest.mark.parametrize("unit", ["D", "ns"])
def test_weights_of_dates_that_a_frozen_model_names(toy, unit):
    dates = np.array(["2024-01-01", "2025-01-01"], f"datetime64[{unit}]")
    found = []
    for labels in (dates, np.array([0, 1])):
        base = LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(toy.X, labels[toy.y])
        base.set_params(class_weight={labels[0]: 1.0, labels[1]: 3.0})
        model = FairGBMClassifier(FrozenEstimator(base), pos_label=labels[1], random_state=0)
        model.fit(toy.X, labels[toy.y], sensitive_features=toy.group)
        found.append(model.predict_proba(toy.X))
    np.testing.assert_array_equal(*found)


def test_it_warns_of_a_guess_only(toy, words):
    with pytest.warns(FairnessWarning, match="'denied' is taken for the positive label because"):
        model = fit(LightGBM(), toy, words)
    assert model.pos_label_ == "denied"
    with pytest.warns(FairnessWarning, match="pos_label='denied', otherwise pos_label='approved'"):
        gap(words, words, rate="ppr", sensitive_features=toy.group)
    for positive, negative in ((1, 0), (True, False), (1, -1), (1.0, -1.0), ("yes", "no")):
        y = np.where(toy.y == 1, positive, negative)
        assert fit(LightGBM(), toy, y).pos_label_ == positive
        gap(y, y, rate="ppr", sensitive_features=toy.group)


@pytest.mark.parametrize(("positive", "negative"), [(2, 1), (2, 0), (0, -1), (5.0, 1.0)])
def test_it_warns_of_a_guess_among_numbers(toy, positive, negative):
    y = np.where(toy.y == 1, positive, negative)
    guess = f"^{positive} is taken for the positive label because it is larger than {negative}; "
    with pytest.warns(FairnessWarning, match=guess):
        assert fit(LightGBM(), toy, y).pos_label_ == positive
    with pytest.warns(FairnessWarning, match=guess):
        gap(y, y, rate="ppr", sensitive_features=toy.group)
    assert fit(LightGBM(), toy, y, pos_label=negative).pos_label_ == negative


@pytest.mark.parametrize(
    ("spellings", "named"),
    [
        (["Yes", "yes"], "'Yes' and 'yes'"),
        ([" no", "no"], "' no' and 'no'"),
        (["No", "Yes", "yes"], "'Yes' and 'yes'"),
    ],
)
def test_labels_that_differ_in_spelling_only(spellings, named):
    y = np.array(spellings, object)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encode_labels(y, None if len(y) > 2 else y[0])
    (found,) = caught
    assert found.category is FairnessWarning
    assert f"surrounding spaces only: {named}. They" in str(found.message)
    encode_labels(np.array(["no", "yes", "maybe"]))


def test_a_label_that_does_not_occur(toy, words):
    with pytest.raises(InvalidInputError, match="pos_label='yes' is not among the labels, 'appr"):
        fit(LightGBM(), toy, words, pos_label="yes")


def test_a_frozen_model_scores_the_larger_label(toy, words):
    base = LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(toy.X, words)
    model = FairGBMClassifier(FrozenEstimator(base), pos_label="approved")
    with pytest.raises(InvalidInputError, match="the frozen model scores the larger label, 'deni"):
        model.fit(toy.X, words, sensitive_features=toy.group)
    assert clone(model).pos_label == "approved"


def test_a_curve_has_it_too(kind, toy, words):
    curves = [
        tradeoff_curve(
            kind.make(), toy.X, y, sensitive_features=toy.group, tolerances=3,
            constraint="equal_opportunity", pos_label=label,
        )
        for y, label in ((toy.y, None), (words, "approved"))
    ]  # fmt: skip
    pd.testing.assert_frame_equal(curves[0].table, curves[1].table)
    assert curves[1].models[2].pos_label_ == "approved"
    on = [
        c.on(toy.X, y, sensitive_features=toy.group)
        for c, y in zip(curves, (toy.y, words), strict=True)
    ]
    pd.testing.assert_frame_equal(*on)


def test_a_report_names_it_and_counts_rows_without_a_group(toy, words):
    group = np.where(np.arange(len(toy)) % 10 == 0, None, toy.group)
    model = FairGBMClassifier(
        LightGBM().make(), constraint="equal_opportunity", tolerance=0.9, pos_label="approved",
        holdout=0.5, memberships="observed",
    ).fit(toy.X, words, sensitive_features=group)  # fmt: skip
    said = str(model.fairness_report_)
    assert "Positive label: approved." in said
    assert re.search(r"\d+ of \d+ rows have no\s+sensitive_feature and\s+count in no group", said)
    tested = model.report_on(toy.X, words, sensitive_features=group)
    assert "test: 60 of 600 rows have no sensitive_feature" in tested.note
