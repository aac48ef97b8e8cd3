"""Constraints on every class are told as one: how many are met, and the largest gap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.binding import bind
from fairboost.fairness.class_constraints import resolve_for_classes
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates, build
from fairboost.verdicts.families import families_of

BANDS = ["low", "middle", "high", "top"]


def bound_terms(constraint, chosen=None, n=8_000):
    labels = np.arange(n) % len(BANDS)
    sex = SensitiveColumn("sex", np.repeat([0, 1], n // 2), ("F", "M"))
    cells = build_cells(labels, [sex])
    asked = resolve_for_classes(constraint, 0.1, ["sex"], BANDS, chosen)
    return tuple(bind(c, cells) for c in asked)


@pytest.mark.parametrize(
    ("constraint", "title", "n"),
    [
        ("equalized_odds", "confusion matrix (16 shares)", 16),
        ("equal_opportunity", "recall of 4 classes", 4),
        ("demographic_parity", "share given each of 4 classes", 4),
    ],
)
def test_a_family_is_what_a_name_asks_of_every_class(constraint, title, n):
    families = families_of(bound_terms(constraint))
    assert families == (f"{title} equal by sex, tolerance 0.1",) * n


def test_few_constraints_stand_by_themselves():
    assert families_of(bound_terms("equal_accuracy")) == ("",)
    assert families_of(bound_terms("demographic_parity", ["low", "top"])) == ("", "")


@pytest.fixture
def measured():
    """All gaps are 0.01, but for one of 0.03 and one of 0.2."""
    terms = bound_terms(["equalized_odds", "equal_accuracy"])
    values = [np.array([[0.2, 0.21]]) for _ in terms]
    values[7], values[3] = np.array([[0.3, 0.5]]), np.array([[0.3, 0.33]])
    return MeasuredRates("held out", "a share of 30%", tuple(values), terms)


def test_the_report_has_one_line_with_the_largest_gap(measured):
    report = build(measured)
    assert report.families == (*report.families[:1] * 16, "")
    verdicts, rates = report._tables()
    assert len(verdicts) == 2
    worst = report.verdicts[7]
    assert verdicts.loc[0, "verdict"] == "15 of 16 met; 1 not met"
    assert verdicts.loc[0, "held out"].startswith("largest gap 0.2000 [")
    assert worst.constraint.startswith(verdicts.loc[0, "held out"].partition(": ")[2])
    assert verdicts.loc[1, "constraint"].startswith("accuracy equal by sex")
    assert list(dict.fromkeys(rates["figure"])) == [measured.terms[7].moments[0].title, "accuracy"]
    assert len(report.rates) == 2 * 17  # all are there
    assert "report.rates has all of them" in str(report)
    assert not any("report.rates" in line for line in report.advice)


def test_advice_is_on_the_farthest_and_counts_the_others(measured):
    values = list(measured.values)
    values[5] = np.array([[0.3, 0.45]])
    several = MeasuredRates("held out", "", tuple(values), measured.terms)
    (said,) = [line for line in build(several).advice if "not met, by" in line]
    assert said.startswith(measured.terms[7].moments[0].title)
    assert "1 more constraint is not met, or not certain: confusion matrix (16 shares)" in said


def test_test_rows_are_told_beside_it(measured):
    test = MeasuredRates("test", "", measured.values[::-1], measured.terms)
    report = build(measured, test)
    lines = report._tables()[0]
    assert list(lines["constraint"][1::2]) == ["  on the test rows"] * 2
    figures = set(report._tables()[1]["figure"])
    for verdicts in (report.verdicts, report.test_verdicts):
        largest = max(verdicts[:16], key=lambda v: v.value)
        assert largest.constraint.partition(" equal by ")[0] in figures


def test_it_goes_to_a_file_and_back(measured):
    report = build(measured)
    again = FairnessReport.from_dict(report.to_dict())
    assert str(again) == str(report)
    old = {k: v for k, v in report.to_dict().items() if k not in ("families", "folded")}
    lines = str(FairnessReport.from_dict(old)).split("\n")
    assert sum("equal by sex" in line for line in lines) >= 17
    assert all(a != b for a, b in pairwise(filter(None, lines)))
