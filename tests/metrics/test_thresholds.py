"""Metrics at a threshold that was chosen on some rows and is evaluated on others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import precision_score, roc_curve

from fairboost.exceptions import FairnessWarning, InvalidInputError, SmallCellWarning
from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.rates import RATES
from fairboost.metrics import (
    Estimate,
    audit,
    fpr_at_tpr,
    gap,
    group_rates,
    ratio,
    threshold_at,
    tpr_at_fpr,
)
from fairboost.metrics.intervals import wilson


class People(NamedTuple):
    y: np.ndarray
    score: np.ndarray
    sex: np.ndarray
    weight: np.ndarray


def draw(n: int, seed: int) -> People:
    rng = np.random.default_rng(seed)
    y, sex = (rng.random(n) < 0.4).astype(int), rng.choice(["F", "M"], n)
    return People(y, rng.normal(1.2 * y + 0.3 * (sex == "M")), sex, rng.gamma(2.0, size=n))


@pytest.fixture(scope="module")
def validation() -> People:
    return draw(600, 0)


@pytest.fixture(scope="module")
def test_set() -> People:
    return draw(500, 1)


# By hand

CHOSEN_ON = ([0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.35, 0.9])
Y = [0, 0, 0, 0, 0, 1, 1, 1]
SCORE = [0.0, 0.2, 0.34, 0.35, 0.8, 0.3, 0.5, 0.6]
SEX = list("FFMMMFFM")


def test_a_threshold_by_hand():
    assert threshold_at(*CHOSEN_ON, at_fpr(0.25)) == pytest.approx(0.35)
    assert threshold_at(*CHOSEN_ON, at_tpr(0.5)) == pytest.approx(0.625)
    assert threshold_at(*CHOSEN_ON, at_positive_rate(0.5)) == pytest.approx(0.325)
    heavy = [1, 1, 1, 1, 1, 1.5]
    assert threshold_at(*CHOSEN_ON, at_tpr(0.6), sample_weight=heavy) == pytest.approx(0.625)
    spelled = ["no" if y else "yes" for y in CHOSEN_ON[0]]
    found = threshold_at(spelled, CHOSEN_ON[1], at_fpr(0.25), pos_label="no")
    assert found == pytest.approx(0.35)


def test_rates_by_hand_on_other_rows():
    found = tpr_at_fpr(Y, SCORE, 0.25, chosen_on=CHOSEN_ON)  # score >= 0.35
    assert found == Estimate(2 / 3, *map(float, wilson(2, 3)), 0.95)
    found = fpr_at_tpr(Y, SCORE, 0.5, chosen_on=CHOSEN_ON, confidence=0.8)  # score >= 0.625
    assert found == Estimate(1 / 5, *map(float, wilson(1, 5, 0.8)), 0.8)


def test_an_audit_by_hand():
    found = audit(
        Y,
        SCORE,
        sensitive_features={"sex": SEX},
        threshold=at_fpr(0.25),
        chosen_on=CHOSEN_ON,
        rates=("precision", "fpr"),
        min_group_rows=0,
    )
    assert found.threshold == found.chosen.value == pytest.approx(0.35)
    everyone = {name: estimate.value for name, estimate in found.everyone.items()}
    assert everyone == {"fpr": 2 / 5, "tpr": 2 / 3, "ppr": 4 / 8, "precision": 2 / 4}
    assert found.everyone["fpr"] == Estimate(2 / 5, *map(float, wilson(2, 5)), 0.95)
    values = found.rates.set_index(["group", "rate"])["value"].to_dict()
    assert values == {
        ("everyone", "fpr"): 2 / 5,
        ("everyone", "precision"): 2 / 4,
        ("F", "fpr"): 0 / 2,
        ("F", "precision"): 1 / 1,
        ("M", "fpr"): 2 / 3,
        ("M", "precision"): 1 / 3,
    }
    np.testing.assert_allclose(found.gaps["gap"], [2 / 3, 2 / 3])
    assert found.gaps.set_index("rate")["highest_group"].to_dict() == {
        "fpr": "M",
        "precision": "F",
    }


def test_an_audit_says_where_the_threshold_is_from():
    arguments = {"sensitive_features": SEX, "threshold": at_fpr(0.25)}
    there = str(audit(Y, SCORE, chosen_on=CHOSEN_ON, **arguments))
    assert there.startswith(
        "Positive: score >= 0.35, at_fpr(0.25) chosen on other rows (fpr 0.250, 4 rows count). "
        "Here: fpr 0.400 [0.118, 0.769]. Positive label: 1. Intervals: 0.95. Small"
    )
    here = str(audit(Y, SCORE, **arguments))
    assert here.startswith(
        "Positive: score >= 0.575, at_fpr(0.25) chosen on these rows (fpr 0.200, 5 rows count). "
        "Here: fpr 0.200 [0.036, 0.624]. Positive label: 1. Intervals: 0.95. Small"
    )
    assert audit(Y, SCORE, sensitive_features=SEX).chosen is None


# Agreement


def test_an_audit_at_an_operating_point_is_one_at_its_threshold(validation, test_set):
    chosen_on = (validation.y, validation.score, validation.weight)
    point = at_positive_rate(0.3)
    threshold = threshold_at(
        validation.y, validation.score, point, sample_weight=validation.weight
    )
    arguments = {"sensitive_features": test_set.sex, "sample_weight": test_set.weight}
    rows = (test_set.y, test_set.score)
    found = audit(*rows, threshold=point, chosen_on=chosen_on, **arguments)
    same = audit(*rows, threshold=threshold, **arguments)
    pd.testing.assert_frame_equal(found.rates, same.rates)
    pd.testing.assert_frame_equal(found.gaps, same.gaps)
    assert found.everyone == same.everyone
    assert found.threshold == same.threshold


def test_the_figures_are_those_of_the_audit(validation, test_set):
    chosen_on = (validation.y, validation.score)
    for function, point, name in (
        (tpr_at_fpr, at_fpr(0.1), "tpr"),
        (fpr_at_tpr, at_tpr(0.7), "fpr"),
    ):
        found = audit(
            test_set.y,
            test_set.score,
            sensitive_features=test_set.sex,
            sample_weight=test_set.weight,
            threshold=point,
            chosen_on=chosen_on,
        ).everyone[name]
        alone = function(
            test_set.y,
            test_set.score,
            point.target,
            sample_weight=test_set.weight,
            chosen_on=chosen_on,
        )
        assert (alone.value, alone.low, alone.high) == pytest.approx(
            (found.value, found.low, found.high)
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", [0.02, 0.1, 0.5, 0.9])
def test_scikit_learn_agrees_on_the_roc_curve(test_set, target, weighted):
    weight = test_set.weight if weighted else None
    rows = (test_set.y, test_set.score)
    fpr, tpr, _ = roc_curve(*rows, sample_weight=weight, drop_intermediate=False)
    found = tpr_at_fpr(*rows, target, sample_weight=weight).value
    at = fpr == fpr[fpr <= target].max()  # a step of the curve: from its foot to its top
    assert np.isclose(tpr[at], found).any()
    found = fpr_at_tpr(*rows, target, sample_weight=weight).value
    at = tpr == tpr[tpr >= target].min()
    assert np.isclose(fpr[at], found).any()


def test_scikit_learn_agrees_on_precision(test_set):
    decision = (test_set.score >= 0.5).astype(int)
    table = group_rates(
        test_set.y,
        decision,
        sensitive_features=test_set.sex,
        rates="Precision",
        sample_weight=test_set.weight,
    ).set_index("group")
    for group, line in table.iterrows():
        rows = slice(None) if group == "everyone" else test_set.sex == group
        expected = precision_score(
            test_set.y[rows], decision[rows], sample_weight=test_set.weight[rows]
        )
        assert line["value"] == pytest.approx(expected)
        weight = test_set.weight[rows][decision[rows] == 1]
        assert line["rows"] == len(weight)
        effective = weight.sum() ** 2 / (weight**2).sum()
        low, high = wilson(expected * effective, effective)
        assert (line["low"], line["high"]) == pytest.approx((float(low), float(high)))


@given(
    rows=st.lists(
        st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", "b", None])),
        min_size=3,
        max_size=40,
    ).filter(lambda rows: any(group for *_, group in rows))
)
def test_precision_is_the_true_positive_rate_with_label_and_decision_swapped(rows):
    y, d, groups = map(list, zip(*rows, strict=True))
    arguments = {"sensitive_features": groups, "pos_label": True}
    one = group_rates(y, d, rates="precision", **arguments)
    other = group_rates(d, y, rates="tpr", **arguments)
    pd.testing.assert_frame_equal(one.drop(columns="rate"), other.drop(columns="rate"))


def test_gaps_of_precision_are_those_of_the_swapped_rate(test_set):
    decision = (test_set.score >= 0.5).astype(int)
    for function in (gap, ratio):
        found = function(test_set.y, decision, rate="precision", sensitive_features=test_set.sex)
        swapped = function(decision, test_set.y, rate="tpr", sensitive_features=test_set.sex)
        assert found == swapped
        assert found.low <= found.value <= found.high


def test_precision_changes_no_other_figure_and_is_no_rate(test_set):
    arguments = {"sensitive_features": test_set.sex, "threshold": 0.5}
    rows = (test_set.y, test_set.score)
    plain = audit(*rows, rates=("fpr", "ppr"), **arguments)
    more = audit(*rows, rates=("fpr", "precision", "ppr"), **arguments)
    assert list(dict.fromkeys(more.rates["rate"])) == ["fpr", "ppr", "precision"]
    for name in ("rates", "gaps"):
        table = getattr(more, name)
        rest = table[table["rate"] != "precision"].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, getattr(plain, name))
    assert "precision" not in RATES


def test_a_group_without_positive_decisions_has_no_precision():
    case = {
        "y_true": [0, 1, 0, 1, 0, 1] * 5,
        "y_pred": [0, 0, 1, 1, 0, 1] * 5,
        "sensitive_features": {"race": list("aabbcc") * 5},
    }
    found = group_rates(**case, rates="precision").set_index("group")
    assert np.isnan(found.loc["a", ["value", "low", "high"]].astype(float)).all()
    assert found.loc["a", "rows"] == 0
    with pytest.warns(FairnessWarning, match=r"leave out.*race = a \(precision\)$"):
        difference = gap(**case, rate="precision")
    assert difference.value == 0.5
    assert difference.low <= 0.5 <= difference.high


def test_a_group_without_positive_labels_has_no_right_decisions():
    y, d, race = [0, 0, 0, 1] * 5, [0, 1, 1, 1] * 5, list("aabb") * 5
    for function, expected in ((gap, 0.5), (ratio, 0.0)):
        found = function(y, d, rate="precision", sensitive_features=race)
        assert found.value == expected
        assert found.low <= expected <= found.high <= 1


# Weights


@pytest.mark.parametrize("other", [False, True])
def test_whole_weights_are_repetition(validation, test_set, other):
    times = np.random.default_rng(2).integers(0, 4, len(test_set.y))
    repeated = [column.repeat(times) for column in (test_set.y, test_set.score)]
    val_times = np.random.default_rng(3).integers(0, 4, len(validation.y))
    rows = (validation.y, validation.score)
    weighted_on = (*rows, val_times) if other else None
    repeated_on = tuple(c.repeat(val_times) for c in rows) if other else None
    for function in (tpr_at_fpr, fpr_at_tpr):
        for target in (0.1, 0.6):
            weighted = function(
                test_set.y, test_set.score, target, sample_weight=times, chosen_on=weighted_on
            )
            plain = function(*repeated, target, chosen_on=repeated_on)
            assert weighted.value == pytest.approx(plain.value)
            assert weighted.high - weighted.low > plain.high - plain.low  # copies say nothing new


@pytest.mark.parametrize("function", [tpr_at_fpr, fpr_at_tpr])
@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_equal_weights_are_no_weights(test_set, function, weight):
    rows = (test_set.y, test_set.score, 0.3)
    weighted = function(*rows, sample_weight=np.full(len(test_set.y), weight))
    plain = function(*rows)
    found = [(e.value, e.low, e.high) for e in (weighted, plain)]
    assert found[0] == pytest.approx(found[1])


# Intervals

TRIALS = 300


@pytest.mark.parametrize("sizes", [(100, 100), (1000, 200), (200, 1000)])
@pytest.mark.parametrize(("function", "target"), [(tpr_at_fpr, 0.05), (fpr_at_tpr, 0.8)])
def test_the_point_of_the_roc_curve_is_covered_as_promised(function, target, sizes):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], sizes)
    up = 1.5 if function is tpr_at_fpr else -1.5
    truth = stats.norm.sf(stats.norm.isf(target) - up)
    covered = 0
    for _ in range(TRIALS):
        found = function(y, rng.normal(1.5 * y), target)
        covered += found.low <= truth <= found.high
    # Two points below the nominal 95%, less three standard errors of a share.
    assert covered / TRIALS >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / TRIALS)


def test_choosing_on_the_same_rows_is_less_certain(test_set):
    rows = (test_set.y, test_set.score)
    for function in (tpr_at_fpr, fpr_at_tpr):
        same, fixed = function(*rows, 0.2), function(*rows, 0.2, chosen_on=rows)
        assert same.value == fixed.value
        assert same.low < fixed.low <= fixed.high < same.high


def test_an_interval_may_reach_beyond_the_highest_score():
    y = np.repeat([0, 1], 50)
    found = tpr_at_fpr(y, np.r_[np.linspace(0, 0.4, 50), np.full(50, 0.9)], 0.02)
    assert (found.value, found.low, found.high) == (1.0, 0.0, 1.0)  # a negative may be above 0.9


# What goes wrong

SCORED = {"y_true": Y, "y_score": SCORE}
BAD_CHOICES = [
    ({"chosen_on": 0.5}, r"chosen_on must be a tuple \(y_true, y_score.*found float; pass the"),
    ({"chosen_on": np.ones((2, 2))}, r"chosen_on must be a tuple .*found ndarray"),
    ({"chosen_on": ()}, "chosen_on must be a tuple .*found 0 items"),
    ({"chosen_on": ([0, 1], [0.1, 0.2], None, None)}, "found 4 items"),
    ({"chosen_on": ([0, 1], [0.1])}, "chosen_on: y_score has 1 rows, expected 2"),
    ({"chosen_on": ([0, 1], [0.1, np.nan])}, "chosen_on: y_score is NaN at row 1"),
    ({"chosen_on": ([0, 2], [0.1, 0.2])}, r"chosen_on: y_true holds 2.*\[1, 0\].*same labels"),
    ({"chosen_on": ([0, None], [0.1, 0.2])}, "chosen_on: y_true is missing at row 1"),
    ({"chosen_on": ([0, 1], [0.1, 0.2], [1])}, "chosen_on: sample_weight has 1 rows"),
    ({"chosen_on": ([1, 1], [0.1, 0.2])}, r"chosen_on: at_fpr\(0.5\) needs negative rows"),
    ({"chosen_on": ([0, 1], [0.1, 0.2], [0, 1])}, "needs negative rows.*none that weigh"),
    ({"y_true": [1] * 8, "pos_label": 1}, r"y_true: at_fpr\(0.5\) needs negative rows"),
]


@pytest.mark.parametrize(("change", "message"), BAD_CHOICES)
def test_bad_choices(change, message):
    with pytest.raises(InvalidInputError, match=message):
        tpr_at_fpr(**SCORED | change, fpr=0.5)
    with pytest.raises(InvalidInputError, match=message):
        audit(**SCORED | change, threshold=at_fpr(0.5), sensitive_features=SEX)


def test_a_rate_of_no_rows_is_undefined():
    with pytest.raises(InvalidInputError, match=r"no positive rows of any weight.*undefined"):
        tpr_at_fpr([0, 0], [0.1, 0.2], 0.5, pos_label=1)
    with pytest.raises(InvalidInputError, match=r"no negative rows of any weight.*undefined"):
        fpr_at_tpr(Y, SCORE, 0.5, sample_weight=Y, chosen_on=CHOSEN_ON)


def test_a_number_is_not_chosen():
    message = r"chosen_on is for a threshold that is to be chosen.*threshold=0\.5; drop chosen_on"
    with pytest.raises(InvalidInputError, match=message):
        audit(**SCORED, sensitive_features=SEX, chosen_on=CHOSEN_ON, threshold=0.5)


@pytest.mark.parametrize("threshold", ["x", None, True, [0.5]])
def test_bad_thresholds(threshold):
    if threshold is not None:
        message = "threshold must be a number or an operating poi"
        with pytest.raises(InvalidInputError, match=message):
            audit(**SCORED, sensitive_features=SEX, threshold=threshold)
    with pytest.raises(InvalidInputError, match=r"operating_point must be one, such as at_fpr"):
        threshold_at(**SCORED, operating_point=threshold)


@pytest.mark.parametrize("target", [0, 1, np.nan, "x", True])
@pytest.mark.parametrize("function", [tpr_at_fpr, fpr_at_tpr])
def test_bad_targets(function, target):
    with pytest.raises(InvalidInputError, match=r"target in \(0, 1\)"):
        function(Y, SCORE, target)


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold_at(*CHOSEN_ON, at_fpr(0.01)),
        lambda: tpr_at_fpr(Y, SCORE, 0.01, chosen_on=CHOSEN_ON),
        lambda: audit(
            Y, SCORE, sensitive_features=SEX, threshold=at_fpr(0.01), chosen_on=CHOSEN_ON
        ),
    ],
)
def test_a_target_finer_than_the_rows_can_tell(call):
    message = r"at_fpr\(0.01\) is finer than 4 negative rows can resolve.*fpr 0\).*on 100 or more"
    with pytest.warns(SmallCellWarning, match=message) as caught:
        call()
    assert caught[0].filename == __file__


def test_a_floor_finer_than_the_rows_can_tell():
    message = r"at_tpr\(0.9\) is finer than 3 positive rows can resolve.*tpr 1\).*on 10 or more"
    with pytest.warns(SmallCellWarning, match=message):
        fpr_at_tpr(Y, SCORE, 0.9)


def test_a_few_rows_may_tell_if_their_weights_do():
    weight = [1, 1, 1, 0.03, 1, 1]
    found = threshold_at(*CHOSEN_ON, at_fpr(0.01), sample_weight=weight)
    assert found == pytest.approx(0.35)
