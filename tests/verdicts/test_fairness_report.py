"""The fairness report: rates, verdicts, advice, and the text that people read."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from fairboost.algorithm.margins import Margins
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.binding import MomentMap, bind, leave_out_small
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.minimax import minimax
from fairboost.fairness.operating_points import at_fpr
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.ratios import at_least
from fairboost.fairness.realised_rate import RealisedRate
from fairboost.fairness.two_sided import two_sided
from fairboost.metrics import sampling
from fairboost.metrics.intervals import wilson
from fairboost.tasks.binary import Binary
from fairboost.verdicts import verdict as verdicts
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates, build, measure
from tests.problems import MeanGap, rows

FNR = parity("fnr", 0.02, by="g")
ENOUGH = [100_000, 100_000]
LIKELY, UNLIKELY = "met on these rows, not certain", "not met on these rows, not certain"
EMPTY = "met on these rows, by decisions that say nothing"


def bound_to(constraint, n, names="abcdefghijklmnopqrstuvwxyz", weight=None):
    """Bind to n[g] positive rows of group g, so that rates of label 1 count them all."""
    g = np.repeat(np.arange(len(n)), n).astype(np.int32)
    column = SensitiveColumn("g", g, tuple(names[: len(n)]))
    return bind(constraint, build_cells(np.ones(len(g), np.int32), [column], weight))


def seen(rates, n, *constraints, kind="share", where="held out", **options):
    terms = tuple(bound_to(c, n, **options) for c in constraints or (FNR,))
    values = []
    for t in terms:
        mean = np.average(rates, weights=n)
        values.append(np.array([rates if len(t.groups) > 1 else [mean]]))
    return MeasuredRates(where, "a share of 20%", tuple(values), terms, kind)


def verdict(rates, n, constraint=FNR, **options):
    (found,) = build(seen(rates, n, constraint), **options).verdicts
    return found


def advice(rates, n, constraint=FNR, kind="share", **options):
    return " ".join(build(seen(rates, n, constraint, kind=kind), **options).advice)


# Gaps


@pytest.mark.parametrize("form", [lambda c: c, two_sided], ids=["paper", "two-sided"])
@pytest.mark.parametrize(
    ("rates", "n", "status"),
    [
        ([0.30, 0.31], ENOUGH, "met"),
        ([0.30, 0.32], ENOUGH, LIKELY),  # 0.32 - 0.30 > 0.02 in floating point
        ([0.30, 0.33], ENOUGH, "not met"),
        ([0.30, 0.33], [100, 100], UNLIKELY),
        ([0.30, 0.31], [100, 100], LIKELY),
        ([0.0, 0.0], [12, 12], LIKELY),
        ([0.0, 0.0, 0.3], [12, 12, 12], UNLIKELY),
    ],
)
def test_a_gap_by_hand(form, rates, n, status):
    found = verdict(rates, n, form(FNR))
    assert found.status == status
    assert found.value == pytest.approx(max(rates) - min(rates))
    assert (found.within, found.certain) == (status in ("met", LIKELY), "certain" not in status)
    assert (found.measure, found.limit) == ("gap", 0.02)
    assert found.constraint == "false negative rate equal by g, tolerance 0.02"
    assert (found.smallest_group, found.smallest_rows) == ("g=a", n[0])
    assert build(seen(rates, n, form(FNR))).met == (status == "met")


@pytest.mark.parametrize(
    ("rates", "n", "status"),
    [
        ([0.99, 0.99], ENOUGH, EMPTY),
        ([0.99, 0.99], [100, 100], EMPTY),
        ([0.93, 0.99], [100, 100], UNLIKELY),
        ([0.9, 0.99], ENOUGH, "not met"),
    ],
)
def test_no_constraint_is_met_by_decisions_that_say_nothing(rates, n, status):
    measured = replace(seen(rates, n), decides_little="The model decides next to nothing: so.")
    report = build(measured)
    (found,) = report.verdicts
    assert (found.status, report.met) == (status, False)
    assert report.within == found.within == (status == EMPTY)
    assert f"Fairness constraints: 1 {status}" in " ".join(str(report).split())
    assert (found.rows_needed is None) == (status != UNLIKELY)
    assert FairnessReport.from_dict(report.to_dict()).verdicts == report.verdicts


def test_two_large_groups_have_the_normal_interval():
    found = verdict([0.3, 0.5], [20_000, 20_000])
    error = np.sqrt((0.3 * 0.7 + 0.5 * 0.5) / 20_000)
    expected = 0.2 - 1.96 * error, 0.2 + 1.645 * error
    assert (found.low, found.high) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_a_tiny_group_does_not_hide_that_two_large_ones_are_apart(rate):
    limit = parity("fnr", 0.05, by="g")
    alone = verdict([0.2, 0.321], [12_000, 12_000], limit)
    beside = verdict([0.2, 0.321, rate], [12_000, 12_000, 12], limit)
    assert (alone.status, beside.status) == ("not met", "not met")
    assert alone.low - 0.004 < beside.low <= beside.value
    if 0.2 <= rate <= 0.321:
        assert beside.value == alone.value


TRIALS = 300


def coverage(truth, n, shrink=1.0):
    """Share of samples in which an end, or one moved in, is on its side of the true gap."""
    rng = np.random.default_rng(0)
    true_gap, held = max(truth) - min(truth), np.zeros(2)
    term = bound_to(FNR, n)
    for _ in range(TRIALS):
        sample = term.read(rng.binomial(n, truth) / np.asarray(n))
        value, low, high = verdicts._figure(term, sample, term.rows, 0.95)
        ends = value - shrink * (value - low), value + shrink * (high - value)
        held += np.array([ends[0] <= true_gap, true_gap <= ends[1]])
    return held.min() / TRIALS


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr(sampling, "DRAWS", 300)


@pytest.mark.parametrize("n_groups", [2, 6, 20])
@pytest.mark.parametrize("n", [500, 50])
@pytest.mark.parametrize("first", [0.2, 0.4])
def test_the_true_gap_is_covered(n_groups, n, first, few_draws):
    assert coverage([first] + [0.2] * (n_groups - 1), [n] * n_groups) >= 0.91


def test_a_tiny_group_beside_a_large_one_is_covered_too(few_draws):
    assert coverage([0.3, 0.3], [5, 500]) >= 0.91


@pytest.mark.parametrize("n_groups", [2, 6, 20])
def test_a_shorter_interval_would_not_cover(n_groups, few_draws):
    assert coverage([0.2] * n_groups, [500] * n_groups, shrink=0.7) < 0.88


def test_errors_of_a_fraction_of_rows_have_its_deviation():
    n = np.array([2.4, 37.5])  # as weights make them
    errors = sampling.drawn_errors(np.array([0.5, 0.5]), n)
    np.testing.assert_allclose(errors.std(axis=0), 0.5 / np.sqrt(n), rtol=0.05)


GROUPS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 40)).map(lambda t: (t[0], min(t) / t[0])),
    min_size=2,
    max_size=6,
)


@given(GROUPS, st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from([None, 0.3, 0.95]))
def test_interval_and_status_agree_with_the_figure(groups, tolerance, confidence):
    n, rates = zip(*groups, strict=True)
    found = verdict(rates, n, parity("fnr", tolerance, by="g"), confidence=confidence)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.within == (found.value <= tolerance + 1e-9)
    if found.status == "met":
        assert found.high <= tolerance + 1e-9
    elif found.status == "not met":
        assert found.low > tolerance
    else:
        assert found.low <= tolerance + 1e-9 < found.high + 2e-9
    assert not (found.certain and found.rows_needed)


@given(GROUPS, st.randoms(use_true_random=False), st.sampled_from([None, 0.95]))
def test_order_and_names_of_groups_do_not_matter(groups, random, confidence):
    shuffled = random.sample(groups, len(groups))
    found = []
    for (n, rates), names in (
        (zip(*groups, strict=True), "abcdef"),
        (zip(*shuffled, strict=True), "ABCDEF"),
    ):
        report = build(seen(rates, n, names=names), confidence=confidence)
        found.append((replace(report.verdicts[0], smallest_group=""), report.rates))
    (one, table), (other, moved) = found
    figures = ["rows", "held out", "low", "high"]
    assert (one.value, one.status) == (other.value, other.status)
    ends = (other.low, other.high)  # but for the order in which groups are looked at
    assert (one.low, one.high) == pytest.approx(ends, abs=1e-9)
    assert one.smallest_rows == other.smallest_rows
    pd.testing.assert_frame_equal(
        table[figures].sort_values(figures, ignore_index=True),
        moved[figures].sort_values(figures, ignore_index=True),
    )


# Confidence


def test_only_an_interval_within_the_limit_is_certain():
    r, n = np.array([0.30, 0.31]), 20_000
    for confidence in (0.95, 0.99):
        found = verdict(r, [n, n], confidence=confidence)
        error = np.sqrt((r * (1 - r) / n).sum())
        assert found.high == pytest.approx(0.01 + norm.isf((1 - confidence) / 2) * error, rel=0.03)
    assert found.high > 0.02
    assert found.status == LIKELY
    assert verdict(r, [n, n]).status == "met"
    assert verdict(r, [2 * n, 2 * n], confidence=0.99).status == "met"
    assert verdict([0.3, 0.4], [n, n], confidence=0.99).status == "not met"


def test_rates_of_zero_are_no_certainty():
    assert verdict([0.0, 0.0], [20, 20]).status == LIKELY
    assert verdict([0.0, 0.0], [20, 20]).high > 0.02


def test_no_number_of_training_rows_makes_certain():
    report = build(seen([0.3, 0.3], ENOUGH, kind="none"))
    assert report.verdicts[0].status == LIKELY
    assert not report.met
    assert report.within
    assert build(seen([0.3, 0.5], ENOUGH, kind="none")).verdicts[0].status == "not met"


def test_out_of_fold_rows_tell_less():
    plain = seen([0.3, 0.35], [2_000, 2_000], kind="cross")
    crossed = replace(plain, allowance=1.6)
    (n,), (fewer,) = ([rows.ravel() for rows in m.telling_rows()] for m in (plain, crossed))
    assert n.tolist() == [2_000, 2_000]
    np.testing.assert_allclose(fewer, 1_250)
    expected = build(seen([0.3, 0.35], [1_250, 1_250])).verdicts[0]
    assert build(crossed).verdicts[0].high == pytest.approx(expected.high)
    few = seen([0.3, 0.31], [100, 100], kind="cross")
    needed = [build(m).verdicts[0].rows_needed for m in (few, replace(few, allowance=2.4))]
    assert needed[0] == needed[1]  # what a gap takes is a matter of its size


@given(GROUPS, st.sampled_from([0.5, 0.9]), st.floats(0, 1))
@example([(5, 0.8), (5, 1.0), (5, 1.0)], 0.5, 1.0)  # of five rows the draws go in steps of 0.2
def test_what_training_aims_at_is_met(groups, tolerance, towards_parity):
    n, rates = zip(*groups, strict=True)
    rates = np.asarray(rates) * (1 - towards_parity) + np.mean(rates) * towards_parity
    term = bound_to(two_sided(parity("fnr", tolerance, by="g")), n)
    cells = build_cells(np.ones(sum(n), np.int32), [codes(n)])
    per_row = MomentMap(cells, [term], 2).per_row
    margins = Margins(Binary(PROXIES["sigmoid"]), per_row, [term], 0.9)
    aimed = margins.z * margins.errors(rates, None, margins.half_way)
    if (term.constraint.violations(term.read(rates)) + aimed <= 0).all():
        report = build(MeasuredRates("held out", "", (rates,), (term,)), confidence=0.9)
        assert report.within
        # Draws, and the events they add; the gap of a draw goes in steps of a row.
        assert report.verdicts[0].high <= tolerance + 0.02 + 1 / min(n)


def codes(n):
    g = np.repeat(np.arange(len(n)), n).astype(np.int32)
    return SensitiveColumn("g", g, tuple("abcdefghij"[: len(n)]))


def test_confidence_of_a_bound():
    limit, n = bound("fnr", 0.1, group={"g": "a"}), [2_000, 50]
    found = verdict([0.09, 0.5], n, limit, confidence=0.95)
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson(180, 2_000, 0.95))))
    assert found.status == LIKELY
    assert verdict([0.08, 0.5], n, limit, confidence=0.95).status == "met"
    found = verdict([0.08, 0.5], n, limit, confidence=0.01)  # one need not be sure at all
    assert found.high == pytest.approx(found.value, abs=1e-4)


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"level": 0.0}])
def test_levels_are_checked(wrong):
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        verdict([0.3, 0.3], [10, 10], **wrong)


# Other constraints


@pytest.mark.parametrize(
    ("at_most", "status"),
    [(0.35, "met"), (0.3, LIKELY), (0.29, UNLIKELY), (0.2, "not met")],
)
def test_a_bound_on_a_group(at_most, status):
    found = verdict([0.9, 0.3], [50, 400], bound("fnr", at_most, group={"g": "b"}))
    assert (found.measure, found.value, found.limit) == ("rate", 0.3, at_most)
    assert (found.low, found.high) == pytest.approx(tuple(map(float, wilson(120, 400, 0.95))))
    assert found.status == status
    assert (found.smallest_group, found.smallest_rows) == ("g=b", 400)
    assert found.constraint == f"false negative rate of g=b at most {at_most}"


def test_a_bound_on_everyone():
    report = build(seen([0.2, 0.4], [100, 300], bound("fnr", 0.5)))
    assert report.verdicts[0].constraint == "false negative rate of everyone at most 0.5"
    assert report.rates[["by", "group", "rows"]].values.tolist() == [["everyone", "everyone", 400]]
    assert report.met


def test_a_constraint_of_the_users_own():
    values = np.array([[0.1, 0.3, 0.2], [0.6, 0.9, 0.9]])
    term = bind(MeanGap(0.01), rows(0, n=6_000)[-1])
    report = build(MeasuredRates("held out", "", (values,), (term,)))
    (found,) = report.verdicts
    expected = term.constraint.violations(term.read(values))
    slopes = np.array([term.constraint.pullback(term.read(values), u) for u in np.eye(2)])
    errors = np.sqrt((slopes**2 * values * (1 - values) / term.rows).sum(axis=(1, 2)))
    # Two violations may be the largest by chance; one of them is so in truth.
    assert found.value == pytest.approx(expected.max())
    assert found.low == pytest.approx((expected - norm.isf(0.05 / 4) * errors).max())
    assert found.high == pytest.approx((expected + norm.isf(0.05 / 2) * errors).max())
    assert found.low < found.value < found.high
    assert (found.measure, found.limit, found.status) == ("violation", 0.0, "not met")
    assert found.constraint == "mean_gap by g"
    assert found.smallest_rows == round(term.rows.min())
    assert len(report.rates) == 6
    report = build(MeasuredRates("held out", "", (values,), (term,)), confidence=0.99)
    assert report.verdicts[0].high == pytest.approx((expected + norm.isf(0.005) * errors).max())


@pytest.mark.parametrize(
    ("at_most", "status"),
    [(0.05, "met"), (0.0205, LIKELY), (0.0195, UNLIKELY), (0.0, "not met")],
)
def test_status_of_a_constraint_of_the_users_own(at_most, status):
    values = np.array([[0.1, 0.1, 0.1], [0.6, 0.9, 0.9]])  # mean squared distance 0.02
    term = bind(MeanGap(at_most), rows(0, n=6_000)[-1])
    report = build(MeasuredRates("held out", "", (values,), (term,)))
    assert report.verdicts[0].status == status
    assert ("still contains" in " ".join(report.advice)) == ("certain" in status)


def test_no_constraints():
    report = build(MeasuredRates("training", "", (), (), kind="none"))
    assert report.met
    assert report.advice == ()
    assert str(report) == "Fairness constraints: none."
    assert FairnessReport.from_dict(report.to_dict()).to_dict() == report.to_dict()


# The table of rates


def test_rates_have_wilsons_intervals_and_stand_once():
    report = build(seen([0.2, 0.5], [50, 80], FNR, parity("fnr", 0.1, by="g")))
    assert len(report.verdicts) == 2
    assert list(report.rates) == ["rate", "by", "group", "rows", "held out", "low", "high"]
    assert report.rates["group"].tolist() == ["g=a", "g=b"]
    low, high = wilson([10, 40], [50, 80])
    np.testing.assert_allclose(report.rates[["low", "high"]], np.transpose([low, high]))


def test_weights_lower_the_rows_that_count():
    weight = np.tile([1.0, 3.0], 200).astype(np.float32)
    found = seen([0.2, 0.5], [200, 200], weight=weight)
    report, plain = build(found), build(seen([0.2, 0.5], [200, 200]))
    assert report.rates["rows"].tolist() == pytest.approx([160, 160])  # (4 * 100)^2 / (10 * 100)
    assert report.verdicts[0].smallest_rows == 160
    assert report.verdicts[0].low < plain.verdicts[0].low
    np.testing.assert_allclose(report.rates["low"], wilson([32, 80], [160, 160])[0])


def test_weights_that_round_a_rate_out_of_range_do_no_harm():
    report = build(seen([-1e-17, 1 + 1e-15], [50, 50]))
    assert report.rates["held out"].tolist() == [0, 1]


def test_test_rows_stand_beside():
    here = seen([0.30, 0.305, 0.3], [20_000, 20_000, 5_000])
    there = seen([0.30, 0.40], [5_000, 4_000], where="test")  # without group c
    report = build(here, there)
    table = report.rates.set_index("group")
    assert list(table)[-4:] == ["test", "test low", "test high", "test rows"]
    assert table["test"].tolist()[:2] == [0.3, 0.4]
    assert np.isnan(table.loc["g=c", "test"])
    assert [v.status for v in report.verdicts + report.test_verdicts] == ["met", "not met"]
    assert report.met  # on the rows held out
    assert any("not met, on the test rows" in line for line in report.advice)
    assert re.search(r"g=c .* 5,000 .* -  +-$", str(report), re.MULTILINE)
    again = build(there, there)
    assert "believe" not in " ".join(again.advice)  # the verdict says so already


# Advice


def rows_needed(text):
    return float(re.search(r"about ([\d,]+)", text)[1].replace(",", ""))


def test_doubt_names_the_group_and_the_rows_needed():
    text = advice([0.30, 0.35], [100, 400])
    assert "The smallest group, g=a, has 100 rows" in text
    expected = 2 * (1.96 / 0.02) ** 2 * 0.34 * 0.66
    assert rows_needed(text) == pytest.approx(expected, rel=0.05)
    assert verdict([0.30, 0.35], [5_000] * 2).status == "not met"


@pytest.mark.parametrize("rates", [[0.39, 0.39], [0.36, 0.42], [0.30, 0.48]])
@pytest.mark.parametrize(("limit", "rows"), [(0.03, 2_000), (0.05, 730), (0.08, 290)])
def test_rows_needed_depend_on_the_limit_and_not_on_luck(rates, limit, rows):
    found = verdict(rates, [60, 60], parity("fnr", limit, by="g"))
    assert found.rows_needed == rows


@pytest.mark.parametrize(
    ("kind", "present", "absent"),
    [
        ("share", "holdout='cross'", "holdout_set"),
        ("cross", "needed", "holdout"),
        ("set", "larger holdout_set", "holdout='cross'"),
        ("none", "rates of training rows", "holdout='cross'"),
    ],
)
def test_where_to_get_more_rows_depends_on_where_they_came_from(kind, present, absent):
    text = advice([0.3, 0.35], [100, 100], kind=kind)
    assert present in text
    assert absent not in text


def test_a_figure_close_to_the_limit_is_not_a_matter_of_so_many_rows():
    found = verdict([0.30, 0.319], [40_000, 40_000])
    assert (found.status, found.rows_needed) == (LIKELY, None)
    said = f"the interval [{found.low:.4f}, {found.high:.4f}] still contains 0.02."
    assert said in advice([0.30, 0.319], [40_000, 40_000])


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_no_number_of_rows_shows_exact_parity(confidence):
    text = advice([0.30, 0.301], [1000, 1000], parity("fnr", 0.0, by="g"), confidence=confidence)
    assert "no number of rows" in text


def test_not_met_names_the_groups_farthest_apart():
    text = advice([0.30, 0.35, 0.2], [9_000, 9_000, 5_000])
    assert "not met, by 0.1300" in text
    assert "g=b (0.350 on 9,000 rows) and g=c (0.200 on 5,000 rows)" in text
    assert "train more rounds (n_estimators), allow a larger tolerance or merge groups." in text


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize(
    ("rates", "constraint", "more"),
    [
        ([0.30, 0.35], FNR, "a larger tolerance"),
        ([0.30, 0.35], bound("fnr", 0.2, group={"g": "b"}), "a larger bound"),
        ([0.30, 0.35, 0.2], bound("fnr", 0.2, group={"g": "b"}), "a larger bound"),
    ],
)
def test_only_what_would_help_this_model_is_advised(rates, constraint, more, paper):
    text = advice(rates, [9_000] * len(rates), constraint, paper=paper)
    assert f"train more rounds (n_estimators) or allow {more}." in text
    assert "merge groups" not in text
    assert ("multipliers" in text) == paper


@pytest.mark.parametrize(
    ("rates", "constraints", "rounds", "far"),
    [
        ([0.70, 0.80], (at_least("tpr", 0.999, by="g"), bound("fnr", 0.05)), 100, True),
        ([0.70, 0.80], (at_least("tpr", 0.999, by="g"), bound("fnr", 0.05)), 20, False),
        ([0.70, 0.80], (at_least("tpr", 0.72, by="g"), bound("fnr", 0.9)), 100, False),
        ([0.30, 0.80], (at_least("tpr", 0.99, by="g"),), 100, False),  # decide all positively
        ([0.30, 0.80], (parity("tpr", 0.01, by="g"), parity("fnr", 0.01, by="g")), 100, False),
    ],
)
def test_limits_that_are_far_out_of_reach_are_told(rates, constraints, rounds, far):
    """Of tpr 0.7 and an fnr of 0.75 no training that has settled reaches 0.999 and 0.05."""
    report = build(seen(rates, [2_000, 2_000], *constraints), rounds=rounds)
    text = " ".join(report.advice)
    assert ("probably out of reach for this model and these data" in text) == far
    assert ("train more rounds" in text) != far
    assert ("relax one of them: allow a lower floor or a larger bound" in text) == far


@pytest.mark.parametrize(("rounds", "way"), [(100, "pass more rows"), (20, "train more rounds")])
def test_rows_are_advised_where_they_are_what_is_missing(rounds, way):
    text = advice([0.30, 0.35], [200, 200], rounds=rounds)
    assert f"Where a constraint is not met: {way}" in text


def test_the_worst_group_is_named_on_the_test_rows_too():
    held_out, test = (
        seen(rates, [900, 800], minimax("fnr", by="g"), where=where)
        for where, rates in (("held out", [0.3, 0.2]), ("test", [0.2, 0.25]))
    )
    text = " ".join(build(held_out, test).advice)
    assert "0.3000, in g=a." in text
    assert "0.2500, in g=b, on the test rows." in text


def test_met_says_how_large_the_gap_may_be_among_new_people():
    report = build(seen([0.30, 0.31], [1_000, 1_000]))
    high = report.verdicts[0].high
    assert f"among new people the gap may be up to {high:.4f}" in report.advice[0]
    assert advice([0.3, 0.3], [10**6, 10**6]) == ""


# For people and for files


@pytest.fixture
def report():
    constraints = FNR, bound("fnr", 0.2), bound("fnr", 0.6, group={"g": "<b>"})
    names = ("<b>", "old people", "x")
    here = seen([0.30, 0.36, 0.31], [4_000, 5_000, 60], *constraints, names=names)
    there = seen([0.30, 0.35], [4_000, 5_000], *constraints, names=names, where="test")
    return build(here, there)


def test_it_prints(report):
    text = str(report)
    for part in ("g=<b>", "g=old people", "0.360 [0.347, 0.373]", "not met", "5,000", "a share"):
        assert part in text
    assert text.startswith("Fairness constraints on the test rows: 1 met; 2 not met. On the rows")
    said = "Intervals of rates and of verdicts: 95%."
    assert said in " ".join(text.split())
    assert "gap 0.0600 [" in text


def test_it_shows_in_a_notebook(report):
    page = report._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<table") == 2


def test_it_survives_a_file_exactly(report):
    text = json.dumps(report.to_dict(), allow_nan=False)
    back = FairnessReport.from_dict(json.loads(text))
    pd.testing.assert_frame_equal(back.rates, report.rates, check_exact=True)
    for name in ("verdicts", "test_verdicts", "note", "advice", "where", "level", "met"):
        assert getattr(back, name) == getattr(report, name)
    assert str(back) == str(report)
    assert back.to_dict() == report.to_dict()


def test_figures_that_are_no_numbers_survive_too(report):
    odd = replace(report, verdicts=(replace(report.verdicts[0], value=np.nan, high=np.inf),))
    plain = json.loads(json.dumps(odd.to_dict(), allow_nan=False))
    (back,) = FairnessReport.from_dict(plain).verdicts
    assert np.isnan(back.value)
    assert back.high == np.inf


def test_the_first_line_speaks_of_the_test_rows_too():
    """Met on rows held out and not on test rows must not read as met."""
    held_out, test = (
        MeasuredRates(where, "", (np.array([rates]),), (bound_to(two_sided(FNR), ENOUGH),))
        for where, rates in (("held out", [0.30, 0.31]), ("test", [0.30, 0.36]))
    )
    report = build(held_out, test)
    first = str(report).splitlines()[0]
    said = "on the test rows: 1 not met. On the rows held out: 1 met."
    assert said in first
    assert any("not met, on the test rows; trust these" in line for line in report.advice)
    assert "test rows" not in str(build(held_out)).splitlines()[0]


def test_the_first_line_counts_the_certain_and_the_uncertain_apart():
    found = build(seen([0.30, 0.31], [100, 100], FNR, bound("fnr", 0.2), bound("fnr", 0.9)))
    assert str(found).startswith(
        "Fairness constraints: 1 met; 1 met on these rows, not certain; 1 not met (a certain "
    )
    needed = found.verdicts[0].rows_needed
    assert f"takes about {needed:,} rows or more in each" in " ".join(str(found).split())


def test_a_verdict_of_an_earlier_version_is_read_as_it_would_be_today(report):
    plain = report.to_dict()
    for v in plain["verdicts"]:
        v["status"] = "too few rows to tell"
        del v["rows_needed"]
    back = FairnessReport.from_dict(plain)
    assert [v.status for v in back.verdicts] == [v.status for v in report.verdicts]


# Groups too small to be judged


def people(counts, refused):
    """Positive rows of groups, of which the first so many are refused."""
    g = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    cells = build_cells(
        np.ones(len(g), np.int32), [SensitiveColumn("g", g, tuple("abcdef"[: len(counts)]))]
    )
    within = np.concatenate([np.arange(n) for n in counts])
    return cells, cells.weight_of(within >= np.repeat(refused, counts))


def test_a_small_group_is_reported_and_not_judged():
    cells, accepted = people([12_000, 12_000, 12], [2_400, 2_450, 9])
    limits = [parity("fnr", 0.05, by="g")]
    judged = build(measure(limits, cells, accepted, where="test"))
    assert judged.verdicts[0].status == "not met"  # of 12, 9 are refused
    left = build(measure(limits, leave_out_small(cells, limits, 30), accepted, where="test"))
    (found,) = left.verdicts
    assert found.status == "met"
    assert found.value == pytest.approx(50 / 12_000)
    table = left.rates.set_index("group")
    assert table.loc["g=c", ["test", "rows"]].tolist() == [0.75, 12]
    assert table.loc["g=c", "low"] < 0.75 < table.loc["g=c", "high"]
    said = "Not compared on the test rows, because fewer rows count than min_group_rows"
    assert said in " ".join(left.advice)
    assert "g=c (12 rows for fnr)" in " ".join(left.advice)
    assert "Not compared" not in str(judged)


def test_a_group_that_only_the_test_rows_have_too_few_of_has_one_line():
    limits = [parity("fnr", 0.05, by="g")]
    (held, refused), (new, also) = (people([900, 900, n], [90, 90, n // 2]) for n in (60, 12))
    held_out = measure(limits, held, refused, where="held out")
    test = measure(limits, leave_out_small(new, limits, 30), also, where="test")
    table = build(held_out, test).rates.set_index("group")
    assert table.index.tolist() == ["g=a", "g=b", "g=c"]
    assert table.loc["g=c", ["rows", "test rows"]].tolist() == [60, 12]


def test_a_bound_on_a_small_group_compares_nothing():
    cells, accepted = people([100, 90, 12], [10, 9, 9])
    limits = [bound("fnr", 0.3, group={"g": "c"})]
    measured = measure(limits, leave_out_small(cells, limits, 30), accepted, where="test")
    assert build(measured).verdicts[0].smallest_rows == 12
    with pytest.raises(ConstraintError, match=r"bound .* 'c', a group of 'g' with fewer than min"):
        leave_out_small(cells, [FNR, *limits], 30)


def test_two_groups_have_to_be_left():
    cells, accepted = people([100, 12], [10, 9])
    said = r"min_group_rows=30 rows .* g=a \(100 rows\), g=b \(12 rows\); pass min_group_rows=12"
    with pytest.raises(ConstraintError, match=said):
        leave_out_small(cells, [FNR], 30)
    assert measure([FNR], leave_out_small(cells, [FNR], 12), accepted, where="test")


def test_few_rows_without_an_event_are_too_few():
    found = verdict([0.0, 0.0], [23, 40], parity("fnr", 0.05, by="g"))
    assert (found.status, found.value) == (LIKELY, 0)
    assert found.rows_needed > 50


def test_the_rate_of_everyone_out_of_fold_has_the_allowance_too():
    point = RealisedRate(at_fpr(0.05), 0.6, 0.05, 4_000)
    widths = []
    for kind, allowance in (("share", 1.0), ("cross", 1.6), ("cross", 2.4)):
        asked = seen([0.3, 0.31], [900, 900], kind=kind)
        measured = replace(asked, realised=point, allowance=allowance)
        (line,) = (text for text in build(measured).advice if text.startswith("at_fpr(0.05)"))
        low, high = map(float, re.search(r"\[([\d.]+), ([\d.]+)\]", line).groups())
        widths.append(high - low)
    np.testing.assert_allclose(np.array(widths[1:]) / widths[0], np.sqrt([1.6, 2.4]), rtol=0.02)


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [(0.00502, 0.005, "0.00502"), (0.004, 0.005, "0.0040"), (3e-6, 0.0, "0.000003")],
)
def test_a_figure_is_printed_on_its_side_of_the_limit(value, limit, shown):
    status = verdicts.status_of(value, 0.0, 0.1, limit)
    said = str(verdicts.Verdict("c", "gap", value, 0.0, 0.1, limit, status, "g", 9))
    assert said.startswith(f"gap {shown} [")
