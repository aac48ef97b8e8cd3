"""Verdicts and reports on moments that are means of numbers, beside shares or alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import SmallCellWarning
from fairboost.fairness.binding import LeftOut, bind
from fairboost.fairness.constraints import Bound, parity, resolve
from fairboost.fairness.numbers import NUMBERS, Calibrated
from fairboost.fairness.two_sided import TwoSided
from fairboost.metrics.sampling import law_of
from fairboost.verdicts import verdict as verdicts
from fairboost.verdicts.diagnostics import warn_of_small_cells
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates, build

MEAN = NUMBERS["prediction"]
LIKELY, UNLIKELY = "met on these rows, not certain", "not met on these rows, not certain"


@dataclass(frozen=True)
class AnyRow:
    """A mean over all rows, whatever their label."""

    name: str = "income"
    title: str = "mean income"
    quantity: int = 0
    label: None = None

    def counts(self, labels):
        return np.ones(labels.shape, bool)


@dataclass(frozen=True)
class Bare:
    """Actual over expected of someone who has no words for it."""

    own: Calibrated

    @property
    def moments(self):
        return self.own.moments

    @property
    def by(self):
        return self.own.by

    def violations(self, moments):
        return self.own.as_judged.violations(moments)

    def pullback(self, moments, multipliers):
        return self.own.as_judged.pullback(moments, multipliers)


def people(n):
    g = np.repeat(np.arange(len(n)), n).astype(np.int32)
    column = SensitiveColumn("g", g, tuple("abcdef"[: len(n)]))
    return build_cells(np.zeros(len(g), np.int32), [column])


def seen(constraint, values, variances, n, **more):
    term = bind(constraint, people(n))
    arrays = np.atleast_2d(values).astype(float), np.asarray(variances, float)
    variance = np.atleast_2d(arrays[1])
    return MeasuredRates("held out", "", arrays[:1], (term,), variances=(variance,), **more)


def alike(tolerance, moment=MEAN):
    return TwoSided(moment, tolerance, "g")


def judged(*arguments, **options):
    (found,) = build(seen(*arguments), **options).verdicts
    return found


# Gaps and bounds


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e6])
def test_a_gap_of_means_has_the_normal_interval(unit):
    r, s2, n = unit * np.array([41_234, 40_234]), (unit * 12_000) ** 2, 20_000
    found = judged(alike(500 * unit), r, [s2, s2], [n, n])
    error = np.sqrt(2 * s2 / n)
    expected = 1_000 * unit - 1.96 * error, 1_000 * unit + 1.96 * error
    assert (found.measure, found.status) == ("gap", "not met")
    assert found.value == pytest.approx(1_000 * unit)
    assert (found.low, found.high) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("gap", "n", "status"),
    [(100, 80_000, "met"), (480, 800, LIKELY), (520, 800, UNLIKELY), (900, 80_000, "not met")],
)
def test_status_of_a_gap_of_means(gap, n, status):
    found = judged(alike(500), [41_000, 41_000 + gap], [12_000**2] * 2, [n, n])
    assert found.status == status
    assert 0 <= found.low <= found.value <= found.high
    assert found.constraint == "mean prediction equal by g, tolerance 500"


def test_rows_needed_follow_from_the_variance():
    found = judged(alike(500), [41_000, 41_400], [12_000**2] * 2, [800, 800])
    assert found.rows_needed == 4_400  # 2 (1.96 * 12,000 / 500)^2
    said = build(seen(alike(500), [41_000, 41_400], [12_000**2] * 2, [800, 800])).advice[0]
    assert "about 4,400 in each group are needed to detect a gap of 500" in said


@pytest.mark.parametrize(
    ("at_most", "status"),
    [(0.08, "met"), (0.063, LIKELY), (0.06, UNLIKELY), (0.04, "not met"), (-0.01, "not met")],
)
def test_a_bound_on_a_mean(at_most, status):
    limit = Bound(MEAN, at_most, ("g",), ("b",))
    found = judged(limit, [7.0, 0.0612], [1.0, 0.06], [50, 4_000])
    low, high = stats.t.interval(0.95, 3_999, 0.0612, np.sqrt(0.06 / 4_000))
    assert (found.measure, found.value, found.limit) == ("mean", 0.0612, at_most)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.status, found.smallest_group) == (status, "g=b")
    assert found.constraint == f"mean prediction of g=b at most {at_most:g}"


def test_a_mean_below_zero_or_above_one_is_not_clipped():
    found = judged(Bound(MEAN, 0.0, ("g",), ("a",)), [-2.0, 5.0], [1.0, 1.0], [400, 400])
    assert (found.value, found.status) == (-2.0, "met")
    assert found.low < -2.0 < found.high < -1.9
    table = build(seen(alike(1.0), [-2.0, 5.0], [1.0, 1.0], [400, 400])).rates
    assert table["held out"].tolist() == [-2.0, 5.0]
    assert table["high"].max() > 5.0


def test_how_many_rows_tell_a_mean_from_its_limit():
    measured = seen(Bound(MEAN, 0.063, ("g",), ("b",)), [7, 0.061], [1, 0.06], [50, 4_000])
    report = build(measured)
    expected = 1.96**2 * 0.06 / 0.002**2
    assert report.verdicts[0].rows_needed == pytest.approx(expected, rel=0.05)
    assert "are needed to tell 0.0610 from 0.063." in report.advice[0]


def test_rounding_is_a_matter_of_scale():
    large = 3e9
    assert judged(alike(1.0), [large, large + 1.0 + 1e-6], [1e-3] * 2, [10**5] * 2).within
    assert not judged(alike(1e-6), [1e-4, 1.011e-4 + 1e-8], [1e-16] * 2, [10**5] * 2).within


# Out of fold, left out, beside shares


def test_out_of_fold_means_have_the_allowance_too():
    plain = seen(alike(500), [41_000, 41_400], [12_000**2, 9_000**2], [800, 500], kind="cross")
    (rows,) = replace(plain, allowance=1.6).telling_rows()
    np.testing.assert_allclose(rows[0], np.array([800, 500]) / 1.6)


def test_means_and_shares_stand_side_by_side():
    cells = people([400, 600])
    shares, means = (bind(c, cells) for c in (parity("ppr", 0.1, by="g"), alike(500)))
    values = np.array([[0.3, 0.32]]), np.array([[41_000.0, 41_400.0]])
    variances = None, np.array([[12_000.0**2] * 2])
    both = MeasuredRates("held out", "", values, (shares, means), variances=variances)
    alone = MeasuredRates("held out", "", values[:1], (shares,))
    report, expected = build(both), build(alone)
    assert report.verdicts[0] == expected.verdicts[0]
    assert report.rates.iloc[:2].equals(expected.rates)
    assert [v.measure for v in report.verdicts] == ["gap", "gap"]


def test_a_group_that_is_left_out_has_students_interval():
    left = (LeftOut(MEAN, ("g",), ("c",), "g=c", 39_000.0, 12.0),)
    measured = seen(alike(500), [41_000, 41_400], [12_000**2] * 2, [800, 800], left_out=left)
    report = build(replace(measured, left_out_variances=(9_000.0**2,)))
    line = report.rates.set_index("group").loc["g=c"]
    ends = stats.t.interval(0.95, 11, 39_000, 9_000 / np.sqrt(12))
    assert (line["low"], line["high"]) == pytest.approx(ends)
    assert "g=c (12 rows for prediction)" in " ".join(report.advice)


def test_nothing_is_said_of_decisions():
    report = build(seen(alike(500), [41_000, 41_000], [1.0, 1.0], [800, 800]))
    assert (report.advice, report.met) == ((), True)
    assert "Positive label" not in str(report)
    few = seen(alike(500), [41_000, 41_400], [12_000**2] * 2, [800, 800])
    assert "rates" not in " ".join(build(few).advice)
    assert "figures of training rows" in " ".join(build(replace(few, kind="none")).advice)


def test_small_groups_have_figures_where_they_have_no_rates():
    cells = people([400, 7])
    with pytest.warns(SmallCellWarning, match=r"constrained figure of: g=b \(7 rows for income\)"):
        warn_of_small_cells([bind(alike(1.0, AnyRow()), cells)], cells)


# Constraints with a figure of their own


def ratios(rng, n, truth):
    """Expected and actual figures of rows of groups, whose actual over expected is known."""
    expected = [rng.gamma(2.0, 500.0, m) for m in n]
    return [
        (e, t * e + rng.normal(0, 400.0, len(e))) for e, t in zip(expected, truth, strict=True)
    ]


def calibration(rng, n, truth, constraint):
    rows = ratios(rng, n, truth)
    values = np.array([[e.mean() for e, _ in rows], [a.mean() for _, a in rows]])
    both = np.stack([np.cov(e, a) for e, a in rows], axis=-1)
    term = bind(constraint, people(n))
    return MeasuredRates("held out", "", (values,), (term,), variances=(both,)), rows


def test_actual_over_expected_in_words_of_its_own():
    n, truth = [6_000, 9_000], [1.0, 1.05]
    measured, rows = calibration(np.random.default_rng(0), n, truth, Calibrated(0.01, "g"))
    report = build(measured)
    (found,) = report.verdicts
    A, E = (np.array([x[k].mean() for x in rows]) for k in (1, 0))
    residual = [(a - a.mean() / e.mean() * e).std(ddof=1) for e, a in rows]
    errors = np.array(residual) / E / np.sqrt(n)
    away = np.abs(A / E - 1)
    assert found.value == pytest.approx(away.max())
    assert found.high == pytest.approx((away + stats.norm.isf(0.05 / 2) * errors).max(), rel=0.01)
    assert found.low == pytest.approx((away - stats.norm.isf(0.05 / 4) * errors).max(), rel=0.01)
    assert (found.measure, found.limit, found.status) == ("figure", 0.01, "not met")
    assert str(found).startswith("largest distance from 1 0.0")
    assert " rows  not met" in str(report) and "effective" not in str(report)
    assert found.constraint == "actual over expected by g within 1 ± 0.01"
    assert "The largest violation: A/E[g=b] is too high." in report.advice[0]
    assert "allow more" in report.advice[1]


def test_a_figure_is_no_less_than_it_can_be_and_knows_its_column():
    """Written without ``by``, a constraint stands for one of each column."""
    (placed,) = resolve(Calibrated(0.01), None, ["g"])
    measured, _ = calibration(np.random.default_rng(1), [300, 300], [1.0, 1.0], placed)
    (found,) = build(measured).verdicts
    assert found.constraint == "actual over expected by g within 1 ± 0.01"
    assert found.low == 0.0


def test_without_words_it_is_a_violation():
    n, truth = [6_000, 9_000], [1.0, 1.05]
    (figure,), (bare,) = (
        build(calibration(np.random.default_rng(0), n, truth, c)[0]).verdicts
        for c in (Calibrated(0.01, "g"), Bare(Calibrated(0.01, "g")))
    )
    assert (bare.measure, bare.limit, bare.status) == ("violation", 0.0, figure.status)
    # It is not known that a bare violation is a ratio, nor that it has two sides.
    assert bare.value == pytest.approx(figure.value - 0.01)
    for name in ("low", "high"):
        assert getattr(bare, name) == pytest.approx(getattr(figure, name) - 0.01, abs=0.002)


@pytest.mark.parametrize(("shrink", "least", "most"), [(1.0, 0.93, 1.0), (0.5, 0.0, 0.9)])
def test_what_actual_over_expected_is_at_most_holds(shrink, least, most):
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        measured, _ = calibration(rng, [300, 500], [1.0, 1.2], Calibrated(0.01, "g"))
        (found,) = build(measured).verdicts
        held += found.value + shrink * (found.high - found.value) >= 0.2
    assert least <= held / 300 <= most


# Text and files


@pytest.mark.parametrize(
    ("values", "spread", "shown"),
    [
        ([41_234, 40_234], 12_000, ("41234 [", "gap 1000.0 [", "mean income")),
        ([0.0612, 0.0502], 0.25, ("0.0612 [", "gap 0.0110 [")),
        ([0.000612, 0.000402], 0.01, ("0.00061 [", "gap 0.00021 [")),
        ([12.5, 12.25], 3.0, ("12.500 [", "gap 0.2500 [")),
    ],
)
def test_figures_have_the_digits_of_their_scale(values, spread, shown):
    limit = np.ptp(values) / 2
    measured = seen(alike(limit, AnyRow()), values, [spread**2] * 2, [20_000, 20_000])
    text = str(build(measured))
    for part in shown:
        assert part in text


def test_titles_survive_a_file():
    report = build(seen(alike(500, AnyRow()), [41_000, 41_400], [12_000**2] * 2, [800, 800]))
    assert report.rates["rate"].tolist() == ["income", "income"]
    assert "mean income" in str(report)
    back = FairnessReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False)))
    assert str(back) == str(report)
    assert (back.verdicts, back.titles) == (report.verdicts, report.titles)


def test_files_of_old_have_no_titles():
    cells = people([400, 600])
    term = bind(parity("ppr", 0.1, by="g"), cells)
    report = build(MeasuredRates("held out", "", (np.array([[0.3, 0.32]]),), (term,)))
    plain = report.to_dict()
    assert plain.pop("titles") == []
    assert str(FairnessReport.from_dict(plain)) == str(report)


def test_large_limits_are_written_out():
    limit = Bound(MEAN, 12_345_678.0, ("g",), ("a",))
    assert "at most 12345678" in judged(limit, [1e7, 1e7], [1.0, 1.0], [40, 40]).constraint


def test_order_of_groups_does_not_matter_to_means():
    r, s2, n = np.array([3.0, 3.0, 3.1]), np.array([1.0, 4.0, 2.0]), np.array([90, 90, 40])
    found = []
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        law = law_of(s2[order][np.newaxis], n[order][np.newaxis].astype(float)).at(0)
        found.append(verdicts.judge_gap(r[order], n[order].astype(float), 0.95, law))
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-12)


def test_a_relative_gap_is_a_share_of_the_mean_of_everyone():
    """The same rows, as a gap in units and as a share: figures and rows needed tell the same."""
    cells = people([4_000, 4_000])
    values, variances = np.array([[1_000.0, 1_030.0]]), np.array([[900.0, 900.0]]) ** 2
    (units,), (share,) = (
        build(MeasuredRates("held out", "", (values,), (bind(c, cells),), variances=(variances,)))
        .verdicts
        for c in (parity("prediction", 20.3, by="g"),
                  parity("prediction", 0.02, by="g", relative=True))
    )  # fmt: skip
    for name in ("value", "low", "high"):
        assert getattr(share, name) == pytest.approx(getattr(units, name) / 1_015.0)
    assert (share.status, share.rows_needed) == (units.status, units.rows_needed)
    assert share.limit == 0.02
    assert share.constraint == "mean prediction equal by g, tolerance 0.02 of everyone's"


def test_rows_of_equal_weight_are_called_effective():
    """Of rows that weigh as much as others, as many as tell the same are fewer, and no whole."""
    weight = np.tile([0.5, 1.5, 0.7], 100)
    column = SensitiveColumn("g", np.arange(300) % 2, ("a", "b"))
    cells = build_cells(np.zeros(300, np.int32), [column], weight)
    values = np.array([[1.0, 5.0]])
    term = bind(parity(MEAN, 1.0, by="g"), cells)
    measured = MeasuredRates("held out", "", (values,), (term,), variances=(np.full((1, 2), 4.0),))
    text = " ".join(str(build(measured)).split())
    assert "effective rows held out" in text and re.search(r"g=[ab]: 1\d\d effective rows", text)
