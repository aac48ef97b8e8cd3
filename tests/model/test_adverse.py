"""A warning where equal opportunity protects other people than its name says."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, at_least, bound, parity, tradeoff_curve
from fairboost.exceptions import FairnessWarning
from fairboost.model.adverse import is_adverse

HELD_AGAINST = """
    default default_payment_next_month defaulted isFraud fraud_bool FRAUD fraudulent is_delinquent
    SeriousDlqin2yrs two_year_recid recidivism BAD bad_loan denied Denied rejected loan_denied
    Charged-Off charged_off bankruptcy reoffended re-arrested refused declined
"""
OTHERS = """
    approved hired income churn claim no_default non-default not_default fraud_free badge
    defaulting_language good_bad readmitted disease repaid default_repaid target y paid_default
    loan_status is_good 1 >50K diabetes dropout decline_rate employed
"""
WARNED = "seems to be held against people. constraint='equal_opportunity' makes the share"


def fit(toy, y, constraint="equal_opportunity", **params):
    """What a fit warns of: only of this."""
    engine = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(engine, constraint=constraint, tolerance=0.5, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(toy.X, y, sensitive_features=toy.group)
    return [str(w.message) for w in caught if WARNED in str(w.message)]


@pytest.mark.parametrize("name", HELD_AGAINST.split())
def test_words_that_are_held_against_people(name):
    assert is_adverse(name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_words_that_are_not(name):
    assert not is_adverse(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: pd.Series(y, name="default"),
        lambda y: pd.DataFrame({"default": y}),
        lambda y: pl.Series("default", y),
        lambda y: pd.Series(y == 1, name="default"),
        lambda y: pd.Series(np.where(y == 1, "yes", "no"), name="default"),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_the_name_of_y(toy, make):
    (said,) = fit(toy, make(toy.y))
    assert " of 'default' seems" in said
    assert "write constraint='predictive_equality'" in said


def test_the_label_itself(toy):
    words = np.where(toy.y == 1, "denied", "approved")
    (said,) = fit(toy, words, pos_label="denied")
    assert said.startswith("the positive label 'denied' seems")
    assert "people with the label 'approved' who are flagged by mistake" in said
    assert not fit(toy, words, pos_label="approved")
    assert not fit(toy, words)  # which warns that the positive label is a guess


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("default", {"constraint": "predictive_equality"}),
        ("default", {"constraint": "equalized_odds"}),
        ("default", {"constraint": ["equal_opportunity", "predictive_equality"]}),
        ("default", {"constraint": ["equal_opportunity", bound("fpr", 0.9)]}),
        ("default", {"constraint": parity("fnr")}),
        ("default", {"constraint": [parity("fnr"), at_least("tpr", 0.1)]}),
        ("default", {"constraint": None}),
        ("default", {"pos_label": 0}),
        ("churn", {}),
        (None, {}),
    ],
)
def test_no_false_alarm(toy, name, params):
    assert not fit(toy, pd.Series(toy.y, name=name), **params)


def test_the_label_comes_before_the_name(toy):
    words = pd.Series(np.where(toy.y == 1, "paid", "unpaid"), name="default")
    assert not fit(toy, words, pos_label="paid")
    assert not fit(toy, words, pos_label="unpaid")  # says nothing of the column


def test_the_advice_is_the_same_constraint_and_is_silent(toy):
    y = pd.Series(toy.y, name="fraud")
    engine = LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1)
    named, meant = (
        FairGBMClassifier(engine, constraint=constraint, tolerance=0.3)
        for constraint in ("equal_opportunity", parity("fnr"))
    )
    with pytest.warns(FairnessWarning, match=WARNED):
        named.fit(toy.X, y, sensitive_features=toy.group)
    meant.fit(toy.X, y, sensitive_features=toy.group)
    np.testing.assert_array_equal(named.predict_proba(toy.X), meant.predict_proba(toy.X))


def test_a_curve_says_it_once(toy):
    engine = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tradeoff_curve(
            engine, toy.X, pd.Series(toy.y, name="default"), sensitive_features=toy.group,
            constraint="equal_opportunity", tolerances=3,
        )  # fmt: skip
    assert sum(WARNED in str(w.message) for w in caught) == 1


def test_three_classes_have_no_positive_one(toy):
    assert not fit(toy, pd.Series(np.arange(len(toy)) % 3, name="default"))
