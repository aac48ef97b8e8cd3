"""Checks, verdicts per period and alarms, on counts that are written down."""

import numpy as np
import pytest

from fairboost import at_least, bound, parity
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.constraints import resolve
from fairboost.fairness.operating_points import at_fpr, at_tpr
from fairboost.fairness.rates import RATES
from fairboost.monitoring.checks import check_of_point, checks_of
from fairboost.monitoring.counts import SHARE, PeriodCounts, Series
from fairboost.monitoring.watch import NO_ROWS, TrainingRate, start_of, watch

SEX = ("sex",)
GROUPS = {(): (), SEX: (("F",), ("M",)), ("sex", "age"): (("F", "o"), ("F", "y"), ("M", "o"))}


def counted(missed, positive=1_000, wrong=100, negative=1_000):
    """Counts by period of women and men: missed positives of each, of so many."""
    missed = np.asarray(missed)
    rows = np.zeros((len(missed), 2, 3, 2), int)
    rows[:, :, 1, 0], rows[:, :, 1, 1] = missed, positive - missed
    rows[:, :, 0, 1], rows[:, :, 0, 0] = wrong, negative - wrong
    periods = tuple(f"2026-{k + 1:02}" for k in range(len(missed)))
    return PeriodCounts(periods, SEX, (("F",), ("M",)), rows)


def check(constraint):
    (found,), left = checks_of([constraint], GROUPS)
    assert not left
    return found


def figures(constraint, value, low, high):
    columns = (np.array(x, float)[:, np.newaxis] for x in (value, low, high))
    return [round(float(x[0]), 6) for x in check(constraint).figure(*columns)]


def test_rates_are_those_of_the_package():
    counts = counted([[30, 10]], positive=100, wrong=20, negative=200)
    y = np.repeat([1, 0], [100, 200])
    decided = np.repeat([0, 1, 1, 0], [30, 70, 20, 180])
    for name, rate in RATES.items():
        events, total = Series(SEX, ("F",), name, GROUPS[SEX]).count(counts)
        mine = rate.counts(y)
        assert total[0] == mine.sum()
        assert events[0] == (decided[mine] == (rate.direction > 0)).sum()
    assert Series(SEX, ("F",), "precision", GROUPS[SEX]).count(counts)[0] == [70]
    assert Series(SEX, ("F",), "precision", GROUPS[SEX]).count(counts)[1] == [90]
    share = Series(SEX, ("F",), SHARE, GROUPS[SEX]).count(counts)
    assert (share[0][0], share[1][0]) == (300, 600)


def test_figures_follow_from_the_ends_of_bands():
    value, low, high = [0.2, 0.5], [0.1, 0.4], [0.3, 0.6]
    assert figures(parity("fnr", 0.05, by="sex"), value, low, high) == [0.3, 0.1, 0.5]
    assert figures(parity("ppr", ratio=0.8, by="sex"), value, low, high) == [0.4, 0.166667, 0.75]
    to_m = parity("ppr", ratio=0.8, by="sex", reference="M")
    assert figures(to_m, value, low, high) == [0.4, 0.166667, 0.75]
    to_f = parity("ppr", ratio=0.8, by="sex", reference="F")
    assert figures(to_f, value, low, high) == [2.5, 1.333333, 6.0]
    assert figures(at_least("tpr", 0.6, by="sex"), value, low, high) == [0.2, 0.1, 0.3]
    one = check(bound("fpr", 0.1, group={"sex": "M"}))
    assert [s.name for s in one.series] == ["sex=M"]
    everyone = check(parity("ppr", ratio=0.8, by="sex", of="everyone"))
    assert [s.name for s in everyone.series][-1] == "all known groups of sex"


def test_the_narrower_end_of_a_difference_counts():
    value, low, high = (np.array(x)[:, np.newaxis] for x in ([0.2, 0.5], [0.1, 0.4], [0.3, 0.6]))
    gap = check(parity("fnr", 0.05, by="sex"))
    assert gap.pairs == ((0, 1),)
    ends = (np.array([-0.4]), np.array([-0.2]))
    found = gap.figure(value, low, high, {(0, 1): ends})
    assert np.ravel(found).tolist() == pytest.approx([0.3, 0.2, 0.4])
    assert check(at_least("tpr", 0.6, by="sex")).pairs == ()


def test_many_groups_are_compared_by_their_own_bands():
    many = tuple((f"{k}",) for k in range(7))
    (found,), _ = checks_of([parity("fnr", 0.05, by="sex")], {SEX: many})
    assert found.pairs == ()
    (few,), _ = checks_of([parity("fnr", 0.05, by="sex")], {SEX: many[:6]})
    assert len(few.pairs) == 15


def test_gaps_alarm_sooner_by_bands_of_differences(monkeypatch):
    """A gap of 0.15 with a tolerance of 0.05 and 400 rows of each group in a period."""
    from fairboost.monitoring import checks

    counts = counted([[120, 180]] * 8, positive=400)
    constraint = [check(parity("fnr", 0.05, by="sex"))]
    (soon,) = watch(counts, constraint).alarms
    monkeypatch.setattr(checks, "MOST_PAIRS", 0)
    (later,) = watch(counts, constraint).alarms
    assert soon.raised < later.raised
    assert soon.low > 0.05


def test_groups_without_rows_are_not_compared():
    lone = figures(parity("fnr", 0.05, by="sex"), [0.2, np.nan], [0.1, np.nan], [0.3, np.nan])
    assert np.isnan(lone).all()


def test_given_columns_compare_within_their_values():
    found = check(parity("fnr", 0.05, by="sex", given="age"))
    assert found.strata == ((0, 2),)  # there is one group of the young
    assert "of the same age" in found.text


def test_constraints_that_cannot_be_watched_are_named():
    relative = parity("fnr", 0.05, by="sex", relative=True)
    checks, (said,) = checks_of([relative], GROUPS)
    assert not checks
    assert "'fnr' is not monitored" in said
    (precision,) = resolve("predictive_parity", 0.05, ["sex"])
    assert check(precision).series[0].rate == "precision"


def test_slots_start_where_they_say():
    assert [int(start_of(5, slot)) for slot in range(7)] == [0, 5, 4, 3, 2, 1, -1]
    assert [int(start_of(0, slot)) for slot in (0, 1)] == [0, 0]


def test_verdicts_say_what_is_certain():
    constraint = [check(parity("fnr", 0.2, by="sex"))]
    close = watch(counted([[300, 300]] * 4), constraint)
    assert close.verdicts[-2].so_far
    assert close.verdicts[-2].status == "met"
    assert watch(counted([[30, 30]], positive=100), constraint).verdicts[0].status == (
        "met on these rows, not certain"
    )
    apart = watch(counted([[300, 800]]), constraint)
    assert {v.status for v in apart.verdicts} == {"not met"}
    (alarm,) = apart.standing
    assert (alarm.kind, alarm.raised, alarm.low > 0.2) == ("constraint", "2026-01", True)
    doubtful = watch(counted([[30, 55]], positive=100), constraint)
    assert doubtful.verdicts[0].status == "not met on these rows, not certain"
    assert not doubtful.alarms


def test_late_drift_is_seen_where_the_mean_of_all_rows_hides_it():
    missed = [[300, 300]] * 12 + [[300, 480]] * 2
    found = watch(counted(missed), [check(parity("fnr", 0.05, by="sex"))])
    last = [v for v in found.verdicts if v.period == 13 and v.so_far]
    assert last[0].status == "met on these rows, not certain"
    kinds = {(a.kind, a.about): a for a in found.standing}
    broken = kinds["constraint", "false negative rate equal by sex, tolerance 0.05"]
    assert broken.since == "2026-13"
    moved = kinds["change", "false negative rate of sex=M"]
    assert (moved.against, moved.raised, moved.since) == ("earlier periods", "2026-13", "2026-13")
    assert moved.low > 0
    assert ("change", "false negative rate of sex=F") not in kinds


def test_a_change_that_is_allowed_raises_no_alarm_and_an_alarm_may_pass():
    missed = [[300, 300]] * 6 + [[300, 480]] * 2
    checks = [check(parity("fnr", 0.3, by="sex"))]
    assert not watch(counted(missed), checks, max_change=0.2).alarms
    assert watch(counted(missed), checks).standing
    back = watch(counted([[300, 800], *[[300, 300]] * 20]), checks[:1], max_change=0.9)
    (past,) = back.alarms
    assert not past.now
    assert not back.standing


def test_rows_of_training_are_compared_with():
    counts = counted([[300, 300]])
    own = Series(SEX, ("F",), SHARE, GROUPS[SEX])
    same = watch(counts, [], [own], {own: TrainingRate(0.5, 2_000)})
    assert not same.alarms
    other = watch(counts, [], [own], {own: TrainingRate(0.3, 2_000)})
    (alarm,) = other.alarms
    assert alarm.against == "test rows of training"
    assert alarm.value == pytest.approx(0.2)


def test_operating_points_have_a_limit_on_one_side():
    counts = counted([[300, 300]], wrong=300)
    too_many = watch(counts, [check_of_point(at_fpr(0.1))])
    assert too_many.verdicts[0].status == "not met"
    assert too_many.alarms[0].kind == "operating point"
    assert watch(counts, [check_of_point(at_fpr(0.5))]).verdicts[0].status == "met"
    assert watch(counts, [check_of_point(at_tpr(0.9))]).verdicts[0].status == "not met"
    assert watch(counts, [check_of_point(at_tpr(0.5))]).verdicts[0].status == "met"


def test_periods_without_rows_or_labels_say_so():
    counts = counted([[300, 300], [0, 0], [300, 300]])
    counts.rows[1] = 0
    found = watch(counts, [check(parity("fnr", 0.3, by="sex"))], [Series((), (), "ppr")])
    by_place = {(v.period, v.so_far): v.status for v in found.verdicts}
    assert by_place[1, False] == NO_ROWS
    assert by_place[1, True] == "met"
    assert not found.alarms


def test_confidence_is_checked():
    with pytest.raises(InvalidInputError, match="confidence"):
        watch(counted([[1, 1]]), [], confidence=95.0)
