"""The audit: every rate, gap and ratio of every attribute in one call."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from fairboost.exceptions import ConstraintError, FairnessWarning, InvalidInputError
from fairboost.fairness.rates import RATES
from fairboost.metrics import Estimate, audit, gap, group_rates, ratio


class People(NamedTuple):
    y: np.ndarray
    score: np.ndarray
    table: pd.DataFrame
    weight: np.ndarray


@pytest.fixture(scope="module")
def people() -> People:
    rng = np.random.default_rng(1)
    n = 400
    table = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice([*"abc"], n)})
    y = rng.integers(0, 2, n)
    score = np.clip(0.2 * y + 0.7 * rng.random(n) + 0.1 * (table["sex"] == "M"), 0, 1).to_numpy()
    return People(y, score, table, rng.gamma(2.0, size=n))


def values(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Rates by group and rate; for tables of one attribute."""
    return table.set_index(["group", "rate"])["value"].to_dict()


# What it holds


def test_an_audit_is_its_parts(people):
    arguments = {"sensitive_features": people.table, "sample_weight": people.weight}
    decision = (people.score >= 0.5).astype(int)
    found = audit(people.y, people.score, rates=list(RATES), **arguments)
    rates = group_rates(people.y, decision, **arguments)
    pd.testing.assert_frame_equal(found.rates.drop(columns="small"), rates)
    assert found.gaps.columns.tolist() == [
        *("attribute", "rate", "gap", "gap_low", "gap_high"),
        *("ratio", "ratio_low", "ratio_high", "lowest_group", "highest_group"),
    ]
    for line in found.gaps.to_dict("records"):
        for function in (gap, ratio):
            name = function.__name__
            expected = Estimate(line[name], line[f"{name}_low"], line[f"{name}_high"], 0.95)
            arguments |= {"rate": line["rate"], "by": line["attribute"]}
            assert function(people.y, decision, **arguments) == expected
        of_rate = rates[
            (rates["attribute"] == line["attribute"]) & (rates["rate"] == line["rate"])
        ]
        by_group = of_rate.set_index("group")["value"]
        assert by_group.idxmin() == line["lowest_group"]
        assert by_group.idxmax() == line["highest_group"]


def test_a_score_at_the_threshold_is_positive():
    found = audit(
        [0, 1, 0, 1],
        [0.2, 0.3, 0.3, 0.4],
        sensitive_features=list("aabb"),
        threshold=0.3,
        rates="ppr",
    )
    assert found.threshold == 0.3
    assert values(found.rates) == {
        ("everyone", "ppr"): 3 / 4,
        ("a", "ppr"): 1 / 2,
        ("b", "ppr"): 1.0,
    }


def test_small_is_about_rows_that_count(people):
    found = audit(people.y, people.score, sensitive_features=people.table, min_rows=70).rates
    assert found["small"].tolist() == (found["rows"] < 70).tolist()
    assert set(found.loc[found["small"], "attribute"]) == {"race"}
    assert not found.loc[found["rate"] == "ppr", "small"].any()  # all rows count, of both labels


def test_an_audit_prints_as_markdown():
    y, score = [0, 1] * 20, [0.2, 0.9, 0.8, 0.7] * 10
    found = audit(
        y, score, sensitive_features={"a|b": list("uuvv") * 10}, rates=["fpr", "ppr"],
        min_group_rows=0,
    )  # fmt: skip
    assert str(found) == found.to_markdown()
    head, rates, gaps = str(found).split("\n\n")
    assert head == (
        "Positive: score >= 0.5. Positive label: 1. Intervals: 0.95. "
        "Small: fewer than 30 rows count."
    )
    assert rates.splitlines() == [
        "| attribute | group    | fpr                          | ppr                          |",
        "| --------- | -------- | ---------------------------- | ---------------------------- |",
        "|           | everyone | 0.500 [0.299, 0.701] (small) | 0.750 [0.598, 0.858]         |",
        "| a\\|b      | u        | 0.000 [0.000, 0.278] (small) | 0.500 [0.299, 0.701] (small) |",
        "| a\\|b      | v        | 1.000 [0.722, 1.000] (small) | 1.000 [0.839, 1.000] (small) |",
    ]
    assert gaps.splitlines()[2].startswith(
        "| a\\|b      | fpr  | 1.000 [0.608, 1.000] | 0.000 [0.000, 0.289] | u      | v       |"
    )


def test_results_cannot_be_reassigned(people):
    found = audit(people.y, people.score, sensitive_features=people.table)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.threshold = 0.9


# Attributes and groups


@pytest.mark.parametrize(
    ("by", "attributes"),
    [
        (None, ["sex", "race"]),
        ("race", ["race"]),
        (("sex", "race"), ["sex, race"]),
        (["race", ("race", "sex")], ["race", "race, sex"]),
        (["race", "race", ["sex", "race"]], ["race", "sex, race"]),
    ],
)
def test_by_chooses_the_comparisons(people, by, attributes):
    found = audit(people.y, people.score, sensitive_features=people.table, by=by, rates="fpr")
    assert found.gaps["attribute"].tolist() == attributes
    assert list(dict.fromkeys(found.rates["attribute"])) == ["", *attributes]


def test_other_columns_do_not_change_the_figures_of_one(people):
    alone = audit(people.y, people.score, sensitive_features=people.table[["race"]])
    among = audit(people.y, people.score, sensitive_features=people.table)
    rows = among.gaps["attribute"] == "race"
    pd.testing.assert_frame_equal(among.gaps[rows].reset_index(drop=True), alone.gaps)


def test_an_audit_names_all_empty_groups_in_one_warning():
    case = {
        "y_true": [0, 1, 0, 1, 1, 1] * 5,
        "y_score": [0, 1, 1, 1, 1, 0] * 5,
        "sensitive_features": {"race": list("aabbcc") * 5},
    }
    with pytest.warns(FairnessWarning, match=r"race = c \(fpr\); race = c \(tnr\)$") as caught:
        found = audit(**case, rates=["fpr", "fnr", "tnr"], min_group_rows=0)
    assert len(caught) == 1
    assert found.gaps["highest_group"].tolist() == ["b", "c", "a"]
    assert "undefined (small)" in str(found)


def test_one_group_has_nothing_to_be_compared_with():
    y = [0, 1, 0, 1]
    line = audit(y, y, sensitive_features=list("aaaa"), rates="ppr").gaps.iloc[0]
    assert line.drop(["attribute", "rate", "lowest_group", "highest_group"]).isna().all()
    assert (line["lowest_group"], line["highest_group"]) == ("", "")


# Weights


def test_a_weight_of_zero_leaves_a_row_out(people):
    keep = np.random.default_rng(2).random(len(people.y)) < 0.7
    weighted = audit(
        people.y, people.score, sensitive_features=people.table, sample_weight=people.weight * keep
    )
    without = audit(
        people.y[keep],
        people.score[keep],
        sensitive_features=people.table[keep],
        sample_weight=people.weight[keep],
    )
    pd.testing.assert_frame_equal(weighted.rates, without.rates)
    pd.testing.assert_frame_equal(weighted.gaps, without.gaps)


@pytest.mark.parametrize("scale", [0.01, 1000.0])
def test_the_unit_of_weight_does_not_matter(people, scale):
    arguments = {"sensitive_features": people.table}
    one = audit(people.y, people.score, sample_weight=people.weight, **arguments)
    other = audit(people.y, people.score, sample_weight=scale * people.weight, **arguments)
    columns = ["value", "low", "high", "rows"]
    pd.testing.assert_frame_equal(one.rates[columns], other.rates[columns])
    pd.testing.assert_frame_equal(one.gaps, other.gaps)


def test_equal_weights_are_no_weights(people):
    arguments = {"sensitive_features": people.table}
    plain = audit(people.y, people.score, **arguments)
    weighted = audit(
        people.y, people.score, sample_weight=np.full(len(people.y), 0.1), **arguments
    )
    columns = ["value", "low", "high", "rows", "small"]
    pd.testing.assert_frame_equal(plain.rates[columns], weighted.rates[columns])
    pd.testing.assert_frame_equal(plain.gaps, weighted.gaps)


# What goes wrong

SCORED = {
    "y_true": [0, 1, 0, 1],
    "y_score": [0.1, 0.7, 0.8, 0.9],
    "sensitive_features": list("aabb"),
}
BAD_SCORES = [
    ({"y_true": [0, 1, 2, 1]}, "two labels"),
    ({"y_score": [0.1, 0.7, 0.8]}, "y_score has 3 rows, expected 4"),
    ({"y_score": [0.1, 0.7, np.nan, 0.9]}, "y_score is NaN at row 2; drop such rows"),
    ({"y_score": list("lhll"), "threshold": 0.5}, "must hold numbers.*'l'.*leave threshold out"),
    ({"y_score": np.zeros((4, 2))}, r"y_score must be one column.*predict_proba pass \[:, 1\]"),
    ({"threshold": np.nan}, "threshold is NaN"),
    ({"confidence": 0}, "confidence must lie strictly between 0 and 1, found 0"),
    ({"rates": []}, "rates is empty; name one or more of fpr, fnr"),
    ({"sensitive_features": None}, "sensitive_features has no columns"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SCORES)
def test_bad_scores(change, message):
    with pytest.raises(InvalidInputError, match=message):
        audit(**SCORED | change)


P = np.linspace(0.01, 0.99, 200)
SCORES = {
    "probabilities": (P, 100),
    "in float32, rounded beyond 1": ((P * 1.0000001 / P.max()).astype(np.float32), 101),
    "0 and 1": ((P > 0.5).astype(int), 100),
    "True and False": (P > 0.5, 100),
    "probabilities as text": (P.astype(str), 100),
    "small probabilities": (P / 100, 0),
    "one number": (np.zeros(200), 0),
    "percentages": (100 * P, None),
    "whole percentages": (np.round(100 * P).astype(int), None),
    "log-odds": (np.log(P / (1 - P)), None),
    "ranks": (np.arange(200), None),
    "deciles": (1 + np.arange(200) // 20, None),
    "points, some negative": (np.linspace(-20, 101, 200), None),
    "negative": (-P, None),
    "infinite": (np.where(P > 0.9, np.inf, P), None),
    "two numbers that are no labels": (np.where(P > 0.5, 7, 3), None),
}


@pytest.mark.parametrize(("scores", "positive"), SCORES.values(), ids=list(SCORES))
def test_scores_that_are_no_probabilities_need_a_threshold(scores, positive):
    asked = {"sensitive_features": list("FFMM") * 50}
    y = [0, 1] * 100
    if positive is None:
        message = "scores lie between .* so they are not probabilities.*threshold=0 for log-odds"
        with pytest.raises(InvalidInputError, match=message):
            audit(y, scores, **asked)
    else:
        assert round(200 * audit(y, scores, **asked).everyone["ppr"]) == positive
    middle = float(np.median(np.asarray(scores, float)))
    found = audit(y, scores, threshold=middle, **asked)
    assert found.everyone["ppr"] == np.mean(np.asarray(scores, float) >= middle)


LABELS = {
    "words": ("yes", "no"),
    "numbers 2 and 1": (2, 1),
    "numbers 1 and -1": (1, -1),
    "text of numbers": ("1", "0"),
}


@pytest.mark.parametrize("written", [np.array, list, pd.Categorical], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("yes", "no"), LABELS.values(), ids=list(LABELS))
def test_predicted_labels_are_audited(people, yes, no, written):
    decided = people.score >= 0.5
    labels = written(np.where(people.y == 1, yes, no))
    given = written(np.where(decided, yes, no))
    asked = {"sensitive_features": people.table, "sample_weight": people.weight}
    expected = audit(people.y, people.score, **asked)
    found = audit(labels, given, pos_label=yes, **asked)
    pd.testing.assert_frame_equal(found.rates, expected.rates)
    pd.testing.assert_frame_equal(found.gaps, expected.gaps)
    assert str(found).startswith(f"Positive: the predicted label. Positive label: {yes}.")
    swapped = audit(labels, given, pos_label=no, **asked)
    assert swapped.everyone["ppr"] == pytest.approx(1 - expected.everyone["ppr"])


def test_predicted_labels_that_may_be_scores_are_refused():
    message = r"the positive label is 0, so these may be labels or scores.*y_score == 0"
    with pytest.raises(InvalidInputError, match=message):
        audit(**SCORED | {"y_score": [0, 1, 1, 1]}, pos_label=0)
    found = audit(**SCORED | {"y_score": [1, 0, 0, 0]}, pos_label=0, threshold=0.5)
    assert found.everyone["ppr"] == 0.25
    message = r"'maybe', which is not among the labels of y_true, \['yes', 'no'\]"
    with pytest.raises(InvalidInputError, match=message):
        audit(["yes", "no"] * 2, ["yes", "no", "maybe", "no"], sensitive_features=list("aabb"))


@pytest.mark.parametrize("rate", ["ppr", "fpr"])
def test_a_ratio_of_two_zero_rates_is_undefined(rate):
    y, sex, none = [0, 1] * 200, list("FFMM") * 100, np.zeros(400, int)
    table = audit(y, none, sensitive_features=sex, rates=rate).gaps
    assert table[["ratio", "ratio_low", "ratio_high"]].isna().all(axis=None)
    assert table["gap"].item() == 0
    assert np.isnan(ratio(y, none, rate=rate, sensitive_features=sex))


def test_an_unknown_rate():
    with pytest.raises(ConstraintError, match="unknown rate 'auc'"):
        audit(**SCORED, rates="auc")
