"""Reports on constraints that read many moments: one printed line per group."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from fairboost import parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.binding import bind
from fairboost.fairness.calibration import of_labels
from fairboost.fairness.means import above
from fairboost.fairness.numbers import SameDistribution, calibrated
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates, build

COUNT = 9
ASKED = SameDistribution(0.05, "sex", COUNT)
# Shares of women and men above nine quantiles: farthest apart at the third, and women below.
SHARES = np.stack([np.linspace(0.9, 0.1, COUNT)] * 2, axis=1)
SHARES[2] += [-0.04, 0.08]


def measured(values=SHARES, where="held out", constraints=(ASKED,), rows=(2000, 1000)):
    sex = SensitiveColumn("sex", np.repeat([0, 1], rows).astype(np.int32), ("F", "M"))
    cells = build_cells(np.zeros(sum(rows), np.int32), [sex])
    terms = tuple(bind(c, cells) for c in constraints)
    found = tuple(values if c is ASKED else values[:1] for c in constraints)
    return MeasuredRates(where, "", found, terms, variances=(None,) * len(terms))


def test_a_group_has_one_line_with_its_largest_distance_and_where():
    report = build(measured())
    found = report.farthest.set_index("group")
    assert found["held out"].to_dict() == pytest.approx({"sex=F": 0.04, "sex=M": 0.08})
    assert set(found["at"]) == {"q0.30"}
    assert report.verdicts[0].value == pytest.approx(found["held out"].max())
    assert (found["low"] > 0).all() and (found["high"] > found["held out"]).all()
    text = str(report)
    assert text.count("largest distance from everyone's") == 2
    assert "0.080 [" in text and "at q0.30" in text
    assert "share above" not in text


def test_all_shares_are_kept():
    report = build(measured())
    assert len(report.rates) == 2 * COUNT
    assert set(report.folded) == {m.name for m in above(COUNT)}
    assert report.rates["held out"].to_numpy() == pytest.approx(SHARES.ravel())


def test_intervals_are_those_of_the_distance():
    """Of 2,000 and 1,000 rows, the distance of the latter is 2/3 of their difference."""
    report = build(measured())
    line = report.farthest.set_index("group").loc["sex=M"]
    p, n = SHARES[2], np.array([2000, 1000])
    error = 2 / 3 * np.sqrt((p * (1 - p) / n).sum())
    # What is farthest at one of 9 levels may be so by chance: as of 5 levels that share no rows.
    assert line["held out"] - line["low"] == pytest.approx(norm.isf(0.05 / 10) * error, rel=0.03)
    assert line["high"] - line["held out"] == pytest.approx(norm.isf(0.05 / 2) * error, rel=0.03)


def test_test_rows_stand_beside_and_have_a_place_of_their_own():
    other = SHARES.copy()
    other[6] += [0.1, -0.2]
    report = build(measured(), measured(other, "test"))
    found = report.farthest.set_index("group").loc["sex=F"]
    assert (found["at"], found["test at"]) == ("q0.30", "q0.70")
    assert found["test"] == pytest.approx(0.1)
    lines = [line for line in str(report).splitlines() if line.startswith("sex=F")]
    assert len(lines) == 1 and "at q0.30" in lines[0] and "at q0.70" in lines[0]


def test_what_another_constraint_reads_too_is_shown():
    same = parity(above(COUNT)[0], 0.1, by="sex")
    report = build(measured(constraints=(ASKED, same)))
    assert above(COUNT)[0].name not in report.folded
    assert str(report).count("share above the 10% quantile") >= 2


def test_files_keep_it_and_files_of_old_lack_it():
    report = build(measured(), measured(where="test"))
    plain = report.to_dict()
    again = FairnessReport.from_dict(plain)
    assert str(again) == str(report) and again.farthest.equals(report.farthest)
    old = {k: v for k, v in plain.items() if k not in ("farthest", "folded")}
    assert str(FairnessReport.from_dict(old)).count("share above") == 2 * COUNT


def header(report):
    """The columns of the second table."""
    return next(line for line in str(report).splitlines() if line.startswith("group ")).split()


def test_figures_are_called_rates_where_they_are():
    rate = parity("ppr", 0.1, by="sex")
    assert header(build(measured()))[1] == "figure"
    assert header(build(measured(constraints=(rate,))))[1] == "rate"


def calibration(variances=None):
    """Women expected at 0.5 and 0.55 in fact, men at 0.4 in both."""
    sex = SensitiveColumn("sex", np.repeat([0, 1], (2000, 1000)).astype(np.int32), ("F", "M"))
    term = bind(of_labels(calibrated(0.05, by="sex")), build_cells(np.zeros(3000, int), [sex]))
    values = (np.array([[0.5, 0.4], [0.55, 0.4]]),)
    return MeasuredRates("held out", "", values, (term,), variances=(variances,))


def test_calibration_shows_actual_over_expected_above_what_it_is_made_of():
    expected, actual, both = 0.04, 0.24, 0.03  # variances of a row, and the covariance
    covariances = np.repeat([[[expected], [both]], [[both], [actual]]], 2, axis=2)
    report = build(calibration(covariances))
    found = report.farthest.set_index("group")
    assert found["rate"].unique() == ["actual over expected"]
    assert found["held out"].tolist() == pytest.approx([1.1, 1.0])
    assert report.verdicts[0].value == pytest.approx(0.1)  # the larger distance from 1
    ratio, n = 1.1, 2000
    error = np.sqrt((actual - 2 * ratio * both + ratio**2 * expected) / n) / 0.5
    assert found.loc["sex=F", "high"] - 1.1 == pytest.approx(1.959964 * error, rel=0.03)
    assert 1.1 - found.loc["sex=F", "low"] == pytest.approx(1.959964 * error, rel=0.03)
    assert found.loc["sex=M", "low"] < 1.0  # a distance is not below 0, but a ratio may be below 1
    lines = [line for line in str(report).splitlines() if line.startswith("sex=F")]
    assert [line.split()[1] for line in lines] == ["actual", "mean", "share"]
    assert " at " not in lines[0]
    assert str(FairnessReport.from_dict(report.to_dict())) == str(report)
