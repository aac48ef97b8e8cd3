"""Verdicts on ratios and floors: their intervals cover, and their words say what was found."""

import numpy as np
import pytest

from fairboost import at_least, parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.binding import bind
from fairboost.metrics.sampling import ShareLaw
from fairboost.report.lines import four_fifths
from fairboost.verdicts.ratios import judge_floor, judge_ratio
from fairboost.verdicts.verdict import judge

SIZES = 2_000, 500
NAMES = "F", "M"


def bound_to_rows(constraint, sizes=SIZES):
    n = sum(sizes)
    codes = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    column = SensitiveColumn("sex", codes, ("F", "M", "X")[: len(sizes)])
    return bind(constraint, build_cells(np.ones(n, np.int32), [column]))


def judged(constraint, *rates, sizes=SIZES, level=0.95):
    term = bound_to_rows(constraint, sizes)
    return judge(term, term.read(np.array(rates, float)), level)


@pytest.mark.parametrize("of", ["largest", "everyone", "reference"])
@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.2, 0.3)], ids=["equal", "apart"])
def test_each_end_of_the_interval_holds_as_often_as_it_says(of, rates):
    """In samples of groups with known rates; ends of 95% hold in 91 to 100% of 400 samples."""
    options = {"reference": "M"} if of == "reference" else {"of": of}
    term = bound_to_rows(parity("ppr", ratio=0.8, by="sex", **options))
    rows = np.array(SIZES, float)
    true = float(term.constraint.ratios(term.read(np.array(rates))).min())
    rng = np.random.default_rng(0)
    low_holds = high_holds = 0
    for _ in range(400):
        seen = rng.binomial(SIZES, rates) / rows
        _, low, high = judge_ratio(term.constraint, term.read(seen), rows, 0.95, ShareLaw())
        low_holds, high_holds = low_holds + (low <= true), high_holds + (high >= true)
    assert low_holds >= 0.91 * 400
    assert high_holds >= 0.91 * 400


def test_a_floors_interval_holds_for_the_least_rate():
    rng, rates, rows = np.random.default_rng(1), np.array([0.8, 0.8, 0.9]), np.full(3, 300.0)
    holds = np.zeros(2)
    for _ in range(400):
        seen = rng.binomial(300, rates) / rows
        value, low, high = judge_floor(seen, rows, 0.95, ShareLaw())
        assert low <= value <= high
        holds += [low <= 0.8, high >= 0.8]
    assert (holds >= 0.91 * 400).all()


@pytest.mark.parametrize(
    ("rates", "status"),
    [
        ((0.4, 0.4), "met"),
        ((0.34, 0.4), "met on these rows, not certain"),
        ((0.3, 0.4), "not met on these rows, not certain"),
        ((0.2, 0.4), "not met"),
    ],
)
def test_the_verdict_on_a_ratio(rates, status):
    verdict, said = judged(parity("ppr", ratio=0.8, by="sex"), *rates)
    assert verdict.status == status
    assert verdict.measure == "ratio"
    assert verdict.at_least
    assert verdict.value == pytest.approx(min(rates) / max(rates))
    assert verdict.low <= verdict.value <= verdict.high <= 1
    assert verdict.constraint == "predicted positive rate by sex at least 0.8 of the largest"
    assert bool(said) == (status != "met")
    # The rule as audits have it says the same of the same interval.
    assert four_fifths(verdict.value, verdict.low, verdict.high) == status.replace(
        "not met", "fails"
    ).replace("met", "passes")


def test_a_broken_ratio_names_both_groups():
    _, said = judged(parity("ppr", ratio=0.8, by="sex"), 0.2, 0.4)
    assert "not met, by 0.3" in said
    assert "Lowest: sex=F (0.200 on 2,000 rows); highest: sex=M (0.400 on 500 rows)." in said


def test_a_rate_too_small_for_its_ratio_to_be_told_is_said_to_be():
    verdict, said = judged(parity("ppr", ratio=0.8, by="sex"), 0.004, 0.004)
    assert verdict.status == "met on these rows, not certain"
    assert verdict.low < 0.4
    assert "too few to estimate a ratio of rates of this size" in said
    assert "are needed to distinguish a ratio of 0.8 from 1" in said
    assert verdict.rows_needed > 10 * SIZES[0]
    many, _ = judged(parity("ppr", ratio=0.8, by="sex"), 0.004, 0.004, sizes=(10**6, 10**6))
    assert many.status == "met"


def test_no_decisions_at_all_can_show_no_ratio():
    verdict, said = judged(parity("ppr", ratio=0.8, by="sex"), 0.0, 0.0)
    assert verdict.value == 1
    assert verdict.low < 0.2
    assert verdict.status == "met on these rows, not certain"
    assert said


def test_a_ratio_of_1_can_be_shown_by_no_rows():
    _, said = judged(parity("ppr", ratio=1.0, by="sex"), 0.4, 0.4)
    assert "no number of rows can show a ratio of 1" in said


def test_the_ratio_to_a_reference_group_may_be_that_of_others():
    """The reference group has the lowest rate: no group is below it."""
    verdict, _ = judged(parity("ppr", ratio=0.8, by="sex", reference="F"), 0.2, 0.4)
    assert verdict.value == 1
    assert verdict.status == "met"
    verdict, _ = judged(parity("ppr", ratio=0.8, by="sex", reference="M"), 0.2, 0.4)
    assert verdict.value == 0.5
    assert verdict.status == "not met"


@pytest.mark.parametrize(
    ("rates", "status"),
    [
        ((0.9, 0.95), "met"),
        ((0.81, 0.95), "met on these rows, not certain"),
        ((0.95, 0.79), "not met on these rows, not certain"),
        ((0.95, 0.7), "not met"),
    ],
)
def test_the_verdict_on_a_floor(rates, status):
    verdict, said = judged(at_least("tpr", 0.8, by="sex"), *rates)
    assert (verdict.status, verdict.measure) == (status, "least rate")
    assert verdict.value == min(rates)
    assert bool(said) == (status != "met")
    assert str(verdict).startswith(f"least rate {min(rates):.2f}")


def test_a_broken_floor_names_the_lowest_group():
    _, said = judged(at_least("tpr", 0.8, by="sex"), 0.95, 0.7)
    assert "not met, by 0.1" in said
    assert "Lowest: sex=M (0.700 on 500 rows)." in said
