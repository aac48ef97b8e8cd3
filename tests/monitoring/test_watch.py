"""Checks, verdicts per period and alarms, on counts that are written down."""

import numpy as np
import pytest

from fairboost import at_least, bound, parity
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.constraints import resolve
from fairboost.fairness.operating_points import at_fpr, at_tpr
from fairboost.fairness.rates import RATES
from fairboost.monitoring.checks import check_of_point, checks_of
from fairboost.monitoring.counts import NO_GROUP, SHARE, PeriodCounts, Series
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
    overall = check(bound("fpr", 0.1))
    assert overall.text == "overall false positive rate at most 0.1"


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


# Rows that cannot be judged


def grouped(*rows, names=("F", "M")):
    """Counts by period of some cells: one of a hundred rows is a missed positive."""
    rows = np.asarray(rows)
    counts = np.zeros((*rows.shape, 3, 2), int)
    counts[:, :, 1, 0], counts[:, :, 1, 1] = rows // 100, rows - rows // 100
    periods = tuple(f"2026-{k + 1:02}" for k in range(len(rows)))
    return PeriodCounts(periods, SEX, tuple((name,) for name in names), counts)


SHARES = [Series(SEX, group, SHARE, GROUPS[SEX]) for group in GROUPS[SEX]]
OUTSIDE = Series(SEX, (), NO_GROUP, GROUPS[SEX])
TRAINED = {**dict.fromkeys(SHARES, TrainingRate(0.5, 2_000)), OUTSIDE: TrainingRate(0.0, 2_000)}


def watch_groups(counts, **options):
    asked = [check(parity("fnr", 0.05, by="sex"))]
    return watch(counts, asked, [*SHARES, OUTSIDE], TRAINED, **options)


def test_rows_of_known_groups_alone_raise_no_alarm():
    found = watch_groups(grouped([500, 500], [480, 520]))
    assert not found.alarms
    assert found.state == "met"


@pytest.mark.parametrize("max_change", [0.0, 0.5])
def test_without_known_groups_there_is_nothing_to_judge_by(max_change):
    counts = grouped([500, 500, 10], names=("FEMALE", "MALE", None))
    found = watch_groups(counts, max_change=max_change)
    judged, outside = found.standing
    assert {judged.kind, outside.kind} == {"rows"}
    assert judged.against == "fewer than two known groups have eligible rows"
    assert outside.about == "share of rows of no known group of sex ('FEMALE', 'MALE', missing)"
    assert outside.value == 1.0
    assert found.state == "alarm"
    assert [v.status for v in found.verdicts] == [NO_ROWS] * 2


def test_no_labels_are_the_reason_where_there_are_none():
    counts = grouped([500, 500])
    counts.rows[:, :, 2] = counts.rows[:, :, 1]
    counts.rows[:, :, 1] = 0
    (alarm,) = watch_groups(counts).standing
    assert alarm.against.endswith("have eligible rows: no row has a label")


@pytest.mark.parametrize("trained", [True, False])
def test_a_group_that_vanishes_is_an_alarm_whatever_change_is_allowed(trained):
    counts = grouped([500, 500], [500, 500], [0, 1_000], [0, 1_000])
    reference = TRAINED if trained else {}
    found = watch(counts, [], SHARES, reference, max_change=0.9)
    (alarm,) = found.standing
    assert (alarm.kind, alarm.about) == ("rows", "rows of sex=F")
    assert (alarm.since, alarm.raised) == ("2026-03", "2026-03")
    back = grouped([500, 500], [500, 500], [0, 1_000], [500, 500], [500, 500])
    (past,) = watch(back, [], SHARES, reference, max_change=0.9).alarms
    assert (past.kind, past.now) == ("rows", False)
    fewer = grouped([500, 500], [500, 500], [100, 900])
    assert not watch(fewer, [], SHARES, reference, max_change=0.9).alarms


def test_a_small_group_may_be_absent_by_chance():
    counts = grouped([500, 500, 1], [500, 500, 0], names=("F", "M", "X"))
    own = Series(SEX, ("X",), SHARE, (*GROUPS[SEX], ("X",)))
    assert not watch(counts, [], [own], {own: TrainingRate(0.002, 2_000)}).alarms


def test_more_unknown_groups_than_in_training_are_an_alarm_and_fewer_are_none():
    counts = grouped([500, 500, 100], [500, 500, 150], names=("F", "M", None))
    as_trained = {OUTSIDE: TrainingRate(0.1, 2_000)}
    assert not watch(counts, [], [OUTSIDE], as_trained).alarms
    assert not watch(counts, [], [OUTSIDE], {OUTSIDE: TrainingRate(0.3, 2_000)}).alarms
    (alarm,) = watch(counts, [], [OUTSIDE], {OUTSIDE: TrainingRate(0.02, 2_000)}).alarms
    assert (alarm.kind, alarm.against) == ("rows", "test rows of training")
    later = grouped(*[[500, 500, 1]] * 3, [500, 500, 200], names=("F", "M", "X"))
    (alarm,) = watch(later, [], [OUTSIDE]).alarms
    assert (alarm.against, alarm.since) == ("earlier periods", "2026-04")


def test_groups_without_rows_so_far_leave_a_doubt():
    three = (("F",), ("M",), ("X",))
    (asked,), _ = checks_of([parity("fnr", 0.2, by="sex")], {SEX: three})
    found = watch(grouped([900, 900]), [asked])
    assert found.last[0].status == "met"
    assert np.isnan(found.last[0].alarm_at)
    assert found.absent(asked.series) == ["sex=X"]
    assert (found.state, found.open) == ("not certain", found.last)


def test_the_state_is_not_certain_until_every_constraint_is_certainly_met():
    asked = [check(parity("fnr", 0.2, by="sex"))]
    few = watch(counted([[41, 54]], positive=100), asked)
    assert not few.alarms
    assert few.state == "not certain"
    assert few.last[0].alarm_at > 0.3
    assert np.isnan(watch(counted([[41, 54]] * 2, positive=100), asked).verdicts[0].alarm_at)
    assert watch(counted([[300, 300]] * 4), asked).state == "met"
    assert watch(counted([[300, 800]]), asked).state == "alarm"
    assert watch(counted([[300, 300]] * 4), asked, left=["one"]).state == "not certain"
    assert watch(counted([[300, 300]]), []).state == "no alarm"
