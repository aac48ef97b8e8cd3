"""What an operating point comes to: its rate on some rows, and whether it can be had at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.rates import RATES
from fairboost.fairness.realised_rate import _least, check_against, check_resolution, realise
from tests.problems import rows


def cells_of(negatives, positives, weight=None):
    return build_cells(np.repeat([0, 1], [negatives, positives]).astype(np.int32), [], weight)


# The rate on some rows


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("make", [at_fpr, at_tpr, at_positive_rate])
def test_the_rate_is_that_of_everyone_however_many_cells_there_are(make, weighted):
    """Rows of a missing group are people too."""
    y, _, weight, cells = rows(seed=0, n=90, weighted=weighted)
    w = np.ones(90) if weight is None else weight.astype(float)
    positive = np.random.default_rng(1).random(90) < 0.4
    point = make(0.3)
    found = realise(point, -0.7, cells, np.bincount(cells.codes, w * positive, len(cells)))
    counts = point.rate.counts(y)
    assert found.point == point
    assert found.threshold == pytest.approx(expit(-0.7))
    assert found.value == pytest.approx(np.average(positive[counts], weights=w[counts]))
    assert found.rows == pytest.approx(w[counts].sum() ** 2 / (w[counts] ** 2).sum())


def test_a_rate_of_one_is_one_however_weights_round():
    weight = np.exp(4 * np.random.default_rng(0).normal(size=300)).astype(np.float32)
    cells = cells_of(200, 100, weight)
    found = realise(at_tpr(0.5), 0.0, cells, cells.weights * (1 + 1e-15))
    assert found.value == 1.0


# Rows enough to tell


@pytest.mark.parametrize("kind", ["none", "share", "cross", "set"])
@pytest.mark.parametrize(
    ("point", "cells", "found", "who", "needed"),
    [
        (at_fpr(0.05), cells_of(19, 500), 19, "negative rows", 20),
        (at_tpr(0.99), cells_of(500, 99), 99, "positive rows", 100),
        (at_tpr(0.01), cells_of(500, 1), 1, "positive rows", 2),
        (at_positive_rate(0.0002), cells_of(2_000, 2_999), "4,999", "rows", "5,000"),
        (at_fpr(0.5), cells_of(0, 9), 0, "negative rows", 2),
    ],
    ids=str,
)
def test_too_few_rows_are_refused_and_it_says_how_many_are_needed(
    point, cells, found, who, needed, kind
):
    held = {"share": "held-out ", "set": "held-out "}.get(kind, "")
    remedy = {
        "share": "hold out a larger share, or use holdout='cross'",
        "set": "pass a larger holdout_set",
    }.get(kind, "train on more rows")
    with pytest.raises(InvalidInputError) as caught:
        check_resolution(point, cells, kind)
    assert str(caught.value) == (
        f"operating_point={point} is finer than {found} {held}{who} can resolve: it needs at "
        f"least {needed}; {remedy}, or ask for a coarser target"
    )


@pytest.mark.parametrize(
    ("point", "cells"),
    [
        (at_fpr(0.05), cells_of(20, 1)),
        (at_tpr(0.99), cells_of(1, 100)),
        (at_tpr(0.01), cells_of(1, 2)),
        (at_positive_rate(0.0002), cells_of(2_000, 3_000)),
    ],
    ids=str,
)
def test_one_more_row_is_enough(point, cells):
    for kind in ("none", "share", "cross", "set"):
        check_resolution(point, cells, kind)


def test_rows_count_by_what_their_weights_are_worth():
    """A row of weight 0 is none, and one of large weight is not several."""
    nothing = np.where(np.arange(110) < 60, 0.0, 1.0)
    with pytest.raises(InvalidInputError, match="finer than 0 negative rows"):
        check_resolution(at_fpr(0.05), cells_of(60, 50, nothing), "none")
    few = np.where(np.arange(110) < 50, 0.0, 3.0)
    with pytest.raises(InvalidInputError, match="finer than 10 negative rows"):
        check_resolution(at_fpr(0.05), cells_of(60, 50, few), "none")
    check_resolution(at_fpr(0.1), cells_of(60, 50, few), "none")
    check_resolution(at_fpr(0.05), cells_of(20, 50, np.full(70, 0.1, np.float32)), "none")


# Bounds that no model can keep


def least_by_trying_all(point, rate, negatives, positives):
    """The least value of a rate over all confusion matrices at the operating point."""
    n = {"fpr": negatives, "tpr": positives, "ppr": negatives + positives}[point.rate_name]
    found = []
    for fp in range(negatives + 1):
        for tp in range(positives + 1):
            at = {"fpr": fp, "tpr": tp, "ppr": fp + tp}[point.rate_name]
            if abs(at / n - point.target) < 1e-12:
                events = {
                    "fpr": fp / negatives,
                    "tnr": 1 - fp / negatives,
                    "tpr": tp / positives,
                    "fnr": 1 - tp / positives,
                    "ppr": (fp + tp) / (negatives + positives),
                    "pnr": 1 - (fp + tp) / (negatives + positives),
                }
                found.append(events[rate])
    return min(found)


SIZES = st.integers(2, 8)


@given(SIZES, SIZES, st.sampled_from(["fpr", "tpr", "ppr"]), st.data())
def test_the_least_value_of_a_rate_is_that_of_some_model(negatives, positives, name, data):
    n = {"fpr": negatives, "tpr": positives, "ppr": negatives + positives}[name]
    point = OperatingPoint(name, data.draw(st.integers(1, n - 1)) / n)
    share = positives / (negatives + positives)
    for rate in RATES:
        expected = least_by_trying_all(point, rate, negatives, positives)
        assert _least(point, rate, share) == pytest.approx(expected, abs=1e-12)


@given(
    SIZES, SIZES, st.sampled_from(["fpr", "tpr", "ppr"]), st.sampled_from(list(RATES)), st.data()
)
def test_a_bound_is_refused_where_all_models_break_it(negatives, positives, name, rate, data):
    n = {"fpr": negatives, "tpr": positives, "ppr": negatives + positives}[name]
    point = OperatingPoint(name, data.draw(st.integers(1, n - 1)) / n)
    at_most = data.draw(st.floats(0.01, 0.99))
    least = least_by_trying_all(point, rate, negatives, positives)
    cells = cells_of(negatives, positives)
    if least > at_most + 1e-9:
        with pytest.raises(ConstraintError, match=rf"contradicts bound\('{rate}', at_most="):
            check_against(point, [bound(rate, at_most)], cells)
    else:
        check_against(point, [bound(rate, at_most)], cells)


def test_the_message_by_hand():
    with pytest.raises(ConstraintError) as caught:
        check_against(at_positive_rate(0.3), [bound("fpr", 0.1)], cells_of(80, 20))
    assert str(caught.value) == (
        "operating_point=at_positive_rate(0.3) contradicts bound('fpr', at_most=0.1): at that "
        "point the false positive rate of everyone is 0.125 or more, as 0.2 of the rows are "
        "positive; drop one of the two, or raise the bound"
    )


def test_prevalence_is_by_weight():
    weight = np.repeat([0.25, 4.0], [80, 20])  # as many of either label
    check_against(at_positive_rate(0.3), [bound("fpr", 0.1)], cells_of(80, 20, weight))


@pytest.mark.parametrize("target", [0.05, 1 / 3, 0.7])
def test_a_bound_at_the_target_itself_is_none_too_many(target):
    cells = cells_of(60, 40)
    check_against(at_fpr(target), [bound("fpr", target)], cells)
    check_against(at_tpr(target), [bound("fnr", 1 - target)], cells)
    check_against(at_positive_rate(target), [bound("ppr", target)], cells)


def test_bounds_on_a_group_and_parities_are_not_judged():
    """A group may well be off the rate of everyone."""
    group = SensitiveColumn("g", np.arange(100, dtype=np.int32) % 2, ("a", "b"))
    cells = build_cells(np.repeat([0, 1], 50).astype(np.int32), [group])
    constraints = [bound("fpr", 0.01, group={"g": "a"}), parity("fpr", 0.0, by="g")]
    check_against(at_fpr(0.3), constraints, cells)
