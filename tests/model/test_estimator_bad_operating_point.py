"""Operating points that cannot be had, refused before training."""

from __future__ import annotations

import numpy as np
import pytest

from fairboost import FairGBMClassifier, at_fpr, at_positive_rate, at_tpr, bound, tradeoff_curve
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint


@pytest.mark.parametrize("make", [at_fpr, at_tpr, at_positive_rate])
@pytest.mark.parametrize("target", [0, 1, 1.5, -0.05, float("nan"), "5%", True, None])
def test_targets(make, target):
    """There is no such point, let alone a model."""
    with pytest.raises(InvalidInputError, match=r"must have a target in \(0, 1\), .* 0.05 for 5%"):
        make(target)


NUMBERS = [0, 1, 1.5, -0.1, float("nan"), True, np.True_]
OTHERS = [None, "5%", "at_fpr", "at_fpr(0.05)", at_fpr, OperatingPoint, object(), [0.5], {0.5: 1}]


@pytest.mark.parametrize("point", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("constraint", ["equalized_odds", None])
def test_what_is_no_operating_point(refuses, point, constraint):
    refuses(
        InvalidInputError,
        r"operating_point must be a probability in \(0, 1\), the least of a positive decision,"
        r" or at_fpr\(\.\.\.\), at_tpr\(\.\.\.\) or at_positive_rate\(\.\.\.\), found ",
        params={"operating_point": point, "constraint": constraint},
    )


# Finer than the rows can tell: 600 rows, 274 of them negative


@pytest.mark.parametrize("constraint", ["equalized_odds", None])
@pytest.mark.parametrize(
    ("point", "needed", "who"),
    [
        (at_fpr(0.001), "1,000", "negative rows"),
        (at_tpr(0.999), "1,000", "positive rows"),
        (at_positive_rate(0.0005), "2,000", "rows"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("holdout", "held", "remedy"),
    [
        (None, "", "train on more rows"),
        ("cross", "", "train on more rows"),
        (0.3, "held-out ", "hold out a larger share, or use holdout='cross'"),
    ],
)
def test_finer_than_the_rows(refuses, toy, point, needed, who, holdout, held, remedy, constraint):
    refuses(
        InvalidInputError,
        rf"is finer than \d+ {held}{who} can resolve: it needs at least {needed}; {remedy}, or "
        "ask for a coarser target",
        params={"operating_point": point, "holdout": holdout, "constraint": constraint},
    )


def test_it_is_the_rows_held_out_that_count(refuses, toy):
    """Half a percent of all 600 rows are three, but not one of a tenth of them."""
    refuses(
        InvalidInputError,
        r"at_positive_rate\(0.005\) is finer than \d\d held-out rows .* needs at least 200;",
        params={"operating_point": at_positive_rate(0.005), "holdout": 0.1},
    )


@pytest.mark.parametrize("constraint", ["equalized_odds", None])
def test_a_set_too_small(refuses, make_toy, constraint):
    held = make_toy(n=80, seed=1)
    refuses(
        InvalidInputError,
        r"finer than \d\d held-out negative rows .* at least 50; pass a larger holdout_set",
        params={"operating_point": at_fpr(0.02), "constraint": constraint},
        holdout_set=(held.X, held.y, held.group),
    )


def test_a_target_too_fine_for_the_set_that_the_threshold_is_placed_on(refuses, make_toy):
    """Whatever share is held out beside it."""
    held = make_toy(n=80, seed=1)
    refuses(
        InvalidInputError,
        r"finer than \d\d held-out negative rows .* at least 50; pass a larger holdout_set",
        params={"operating_point": at_fpr(0.02), "holdout": 0.5},
        holdout_set=(held.X, held.y, held.group),
    )


def test_a_set_without_the_label_that_counts(refuses, make_toy):
    held = make_toy(n=400, seed=1)
    good = held.y == 1
    refuses(
        InvalidInputError,
        r"finer than 0 held-out negative rows",
        params={"operating_point": at_fpr(0.3), "constraint": "equal_opportunity"},
        holdout_set=(held.X[good], held.y[good], held.group[good]),
    )


def test_a_set_in_which_the_label_that_counts_weighs_nothing(refuses, make_toy):
    held = make_toy(n=400, seed=1)
    refuses(
        InvalidInputError,
        r"finer than 0 held-out negative rows",
        params={"operating_point": at_fpr(0.3), "constraint": "equal_opportunity"},
        holdout_set=(held.X, held.y, held.group, (held.y == 1) * 1.0),
    )


# Bounds that contradict it


@pytest.mark.parametrize("holdout", [None, 0.3, "cross"])
@pytest.mark.parametrize(
    ("point", "contradicting"),
    [
        (at_fpr(0.2), bound("fpr", 0.1)),
        (at_fpr(0.2), bound("tnr", 0.7)),
        (at_fpr(0.9), bound("ppr", 0.3)),
        (at_tpr(0.8), bound("fnr", 0.1)),
        (at_tpr(0.8), bound("ppr", 0.3)),
        (at_positive_rate(0.2), bound("ppr", 0.1)),
        (at_positive_rate(0.2), bound("fnr", 0.5)),
        (at_positive_rate(0.9), bound("fpr", 0.5)),
        (at_positive_rate(0.2), bound("pnr", 0.7)),
    ],
    ids=str,
)
def test_contradicting_bounds(refuses, point, contradicting, holdout):
    rate = contradicting.moment.name
    refuses(
        ConstraintError,
        rf"contradicts bound\('{rate}', at_most={contradicting.at_most}\): at that point the "
        rf"{contradicting.moment.title} of everyone is [\d.]+ or more, as 0\.\d+ of the rows are "
        "positive; drop one of the two, or raise the bound",
        params={
            "operating_point": point,
            "constraint": ["demographic_parity", contradicting],
            "holdout": holdout,
        },
    )


def test_a_bound_that_can_be_kept(engine, toy):
    model = FairGBMClassifier(
        engine(), constraint=[bound("fnr", 0.6)], operating_point=at_positive_rate(0.4)
    ).fit(toy.X, toy.y)
    assert 0 < model.threshold_ < 1


@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_a_model_of_all_rows_has_none_to_place_a_threshold_on(refuses, iterate):
    refuses(
        InvalidInputError,
        rf"with holdout='cross' a model of iterate='{iterate}' \(or one by DART\) is trained on "
        "all of them; hold out a share, or use iterate='best'",
        params={"operating_point": at_fpr(0.1), "holdout": "cross", "iterate": iterate},
    )


@pytest.mark.filterwarnings("ignore:The model decides:fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("iterate", ["average", "randomized"])
def test_so_a_share_is_held_out_even_of_few_rows(engine, toy, iterate):
    model = FairGBMClassifier(engine(), operating_point=at_fpr(0.1), iterate=iterate)
    model.fit(toy.X, toy.y, sensitive_features=toy.group)
    assert "a share of 20%" in model.fairness_report_.note


# Elsewhere


def test_a_tradeoff_curve_refuses_the_same(engine, toy, no_training):
    options = {"sensitive_features": toy.group, "constraint": "demographic_parity"}
    with pytest.raises(InvalidInputError, match=r"finer than \d+ held-out negative rows"):
        tradeoff_curve(engine(), toy.X, toy.y, operating_point=at_fpr(0.001), **options)
    with pytest.raises(InvalidInputError, match=r"operating_point must be a probability"):
        tradeoff_curve(engine(), toy.X, toy.y, operating_point="at_fpr", **options)
