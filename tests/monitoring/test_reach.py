"""What rows could have shown: counts that are written down, and simulations."""

import numpy as np
import pytest

from fairboost import at_least, bound, parity
from fairboost.monitoring.checks import checks_of
from fairboost.monitoring.reach import alarm_at
from fairboost.monitoring.sequences import confidence_sequence, difference_sequence

SEX = ("sex",)
GROUPS = {(): (), SEX: (("F",), ("M",)), ("race",): (("A",), ("B",), ("C",))}
ALPHA = 0.002


def check(constraint):
    (found,), _ = checks_of([constraint], GROUPS)
    return found


def alarms(asked, events, rows):
    """Whether counts raise an alarm: (n_series, n_runs) each."""
    rows = np.broadcast_to(np.array(rows, float)[:, np.newaxis], events.shape)
    low, high = confidence_sequence(events, rows, ALPHA)
    apart = {
        (g, h): difference_sequence(events[g], rows[g], events[h], rows[h], ALPHA / n)
        for g, h in asked.pairs
        if (n := len(asked.pairs))
    }
    _, *ends = asked.figure(events / rows, low, high, apart)
    return asked.beyond(*ends) > 0


def rates_at(asked, figure, rates, rows):
    """Rates of which the group with fewer rows is as far off as the figure says."""
    few, many = np.argsort(rows)
    out = np.array(rates, float)
    if asked.measure == "gap":
        out[few] = out[many] + (figure if out[many] <= 0.5 else -figure)
    else:
        out[few] = out[many] * figure if asked.measure == "ratio" else figure
    return out


CASES = [
    (parity("fnr", 0.05, by="sex"), (0.41, 0.54), (400, 300)),
    (parity("fnr", 0.05, by="sex"), (0.3, 0.3), (2_000, 2_001)),
    (parity("fnr", 0.2, by="sex"), (0.9, 0.9), (900, 200)),
    (parity("fnr", 0.0, by="sex"), (0.02, 0.02), (1_000, 3_000)),
    (parity("fnr", ratio=0.8, by="sex"), (0.3, 0.3), (1_000, 2_000)),
    (at_least("fnr", 0.3, by="sex"), (0.6, 0.6), (1_000, 2_000)),
    (bound("fnr", 0.1, group={"sex": "F"}), (0.05,), (500,)),
]


@pytest.mark.parametrize(("constraint", "rates", "rows"), CASES)
def test_counts_beyond_it_raise_an_alarm_and_others_do_not(constraint, rates, rows):
    asked, total = check(constraint), np.array(rows, float)
    found = alarm_at(asked, np.array(rates) * total, total, ALPHA)
    assert (found < asked.limit) if asked.at_least else (found > asked.limit)
    each = [found + 0.002, found - 0.002]
    if len(rows) > 1:
        events = np.stack([rates_at(asked, x, rates, rows) * total for x in each], axis=1)
    else:
        events = np.array([each]) * total
    assert alarms(asked, events, rows).tolist() == [not asked.at_least, asked.at_least]


@pytest.mark.parametrize(("constraint", "rates", "rows"), CASES[:-1])
def test_a_true_breach_of_that_size_alarms_in_half_of_all_cases(constraint, rates, rows):
    """Drawn 600 times. Some farther from the limit it does nearly always, at the limit never."""
    asked, total = check(constraint), np.array(rows, float)
    found, rng = alarm_at(asked, np.array(rates) * total, total, ALPHA), np.random.default_rng(1)
    shares = []
    for figure in (asked.limit, found, found + 0.5 * (found - asked.limit)):
        p = np.clip(rates_at(asked, figure, rates, rows), 0, 1)[:, np.newaxis]
        events = rng.binomial(np.array(rows)[:, np.newaxis], p, (len(rows), 600)).astype(float)
        shares.append(alarms(asked, events, rows).mean())
    assert shares[0] <= 0.01
    assert 0.35 < shares[1] < 0.65
    assert shares[2] > 0.9


def test_more_rows_show_smaller_breaches_and_none_show_nothing():
    asked = check(parity("fnr", 0.05, by="sex"))
    found = [
        alarm_at(asked, np.array([0.3, 0.3]) * n, np.array([n, n], float), ALPHA)
        for n in (100.0, 1_000.0, 10_000.0, 1_000_000.0)
    ]
    assert found == sorted(found, reverse=True)
    assert 0.05 < found[-1] < 0.06
    for rows in ([3.0, 3.0], [1_000.0, 0.0]):
        assert np.isnan(alarm_at(asked, np.zeros(2), np.array(rows), ALPHA))


def test_of_several_groups_the_smallest_decides():
    asked = check(parity("fnr", 0.05, by="race"))
    rows = np.array([5_000.0, 5_000.0, 300.0])
    found = alarm_at(asked, 0.3 * rows, rows, ALPHA)
    pair = check(parity("fnr", 0.05, by="sex"))
    alone = alarm_at(pair, 0.3 * rows[1:], rows[1:], ALPHA / 3)
    assert found == pytest.approx(alone, abs=0.01)
