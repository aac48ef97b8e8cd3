"""Verdicts and reports on constraints that are given a column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairboost import parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.binding import bind, leave_out_small
from fairboost.metrics.sampling import law_of
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates, build, measure
from fairboost.verdicts.verdict import judge, judge_gap

RISKS = ("high", "low")
ASKED = parity("ppr", 0.05, by="sex", given="risk")


def cells_of(rows):
    """Rows of women and men of high and of low risk: F high, F low, M high, M low."""
    sex = np.repeat([0, 0, 1, 1], rows).astype(np.int32)
    risk = np.repeat([0, 1, 0, 1], rows).astype(np.int32)
    columns = [SensitiveColumn("sex", sex, ("F", "M")), SensitiveColumn("risk", risk, RISKS)]
    return build_cells(np.zeros(sum(rows), np.int32), columns)


def report(values, rows=(4000,) * 4, asked=ASKED, **options):
    term = bind(asked, cells_of(rows))
    return build(MeasuredRates("held out", "", (np.array([values]),), (term,)), **options)


def test_the_largest_gap_within_a_stratum_is_held_to_the_limit():
    """Between strata rates may differ as they like."""
    far = report([0.9, 0.1, 0.9, 0.1])
    (verdict,) = far.verdicts
    assert verdict.value == 0.0 and verdict.status == "met" and far.met
    assert verdict.constraint == (
        "predicted positive rate equal by sex given risk, tolerance 0.05"
    )
    broken = report([0.9, 0.1, 0.88, 0.3])
    assert broken.verdicts[0].value == pytest.approx(0.2)
    assert broken.verdicts[0].status == "not met"
    said = "Farthest apart: sex=M, risk=low (0.300 on 4,000 rows) and sex=F, risk=low (0.100 on"
    assert said in broken.advice[0]


def test_what_is_compared_stands_side_by_side():
    found = report([0.9, 0.1, 0.9, 0.1]).rates
    assert found["group"].tolist() == [f"sex={sex}, risk={risk}" for risk in RISKS for sex in "FM"]
    assert set(found["by"]) == {"sex given risk"}


def test_a_relative_gap_is_a_share_of_the_stratum():
    asked = parity("prediction", 0.1, by="sex", given="risk", relative=True)
    term = bind(asked, cells_of([500] * 4))
    values = np.array([[100.0, 10.0, 102.0, 14.0]])
    found, said = judge(term, term.read(values), 0.95, law=law_of(np.ones((1, 4)), term.rows))
    assert found.value == pytest.approx(4 / 12)
    assert "risk=low" in said and "of everyone's of the same risk" in found.constraint


def test_one_stratum_is_judged_as_none_to_the_bit():
    rates, rows = np.array([0.3, 0.34, 0.41]), np.array([300.0, 800.0, 90.0])
    assert judge_gap(rates, rows, 0.9) == judge_gap(rates, rows, 0.9, parts=[np.arange(3)])


def test_ends_of_the_largest_gap_of_all_strata_hold_together():
    """Five strata alike: the largest of five gaps is within its ends in 95% of samples."""
    rng, n, covered = np.random.default_rng(0), 200, [0, 0]
    truth = np.tile(np.linspace(0.2, 0.6, 5), 2)
    truth[5:] += [0.0, 0.0, 0.0, 0.05, 0.0]
    parts = [np.array([k, k + 5]) for k in range(5)]
    for _ in range(300):
        seen = rng.binomial(n, truth) / n
        _, low, high = judge_gap(seen, np.full(10, float(n)), 0.95, parts=parts)
        covered[0] += low <= 0.05 + 1e-12
        covered[1] += high >= 0.05 - 1e-12
    assert min(covered) >= 0.93 * 300


def test_groups_that_have_no_one_to_be_compared_with_are_told():
    asked = [ASKED]
    cells = leave_out_small(cells_of([300, 300, 0, 300]), asked, 0)
    found = build(measure(asked, cells, 0.4 * cells.weights, where="test"))
    (line,) = [line for line in found.advice if line.startswith("Not compared")]
    assert "too few of their rows count, or too few of other groups of the same risk" in line
    assert "sex=F, risk=high (300 rows for ppr); sex=M, risk=high (0 rows for ppr)" in line
    assert found.verdicts[0].smallest_rows == 300
    table = found.rates.set_index("group")
    assert table.loc["sex=F, risk=high", "test"] == pytest.approx(0.4)
    assert np.isnan(table.loc["sex=M, risk=high", "test"])
    assert "sex=M, risk=high" in str(found)


def test_rows_needed_are_told_of_the_smallest_group_in_its_stratum():
    """Rates near 0 are known from fewer rows than those near one half."""
    asked = replace(ASKED, tolerance=0.02)
    few, even = (
        report([a, b, a, b], rows=(100, 900, 1000, 900), asked=asked).verdicts[0]
        for a, b in ((0.02, 0.5), (0.5, 0.02))
    )
    assert few.smallest_group == even.smallest_group == "sex=F, risk=high"
    assert few.rows_needed < even.rows_needed / 5


def test_merging_groups_is_no_advice_where_there_are_two():
    """Four cells, but two groups that are compared."""
    found = report([0.9, 0.1, 0.8, 0.3])
    assert not any("merge groups" in line for line in found.advice)
    crossed = report([0.9, 0.1, 0.8, 0.3], asked=replace(ASKED, by=("sex", "risk"), given=()))
    assert any("merge groups" in line for line in crossed.advice)


def test_a_report_in_a_file_is_the_same():
    found = report([0.9, 0.1, 0.88, 0.3])
    assert str(FairnessReport.from_dict(found.to_dict())) == str(found)
