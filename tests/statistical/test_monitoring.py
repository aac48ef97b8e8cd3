"""Monitoring is silent without drift, and alarms within what the widths of its bands allow."""

import numpy as np
import pytest

from benchmarks.monitor import CHANGED, Case, Z, allowed, delays, naive, run


def test_without_drift_it_is_silent_over_24_looks():
    runs = [run(Case(200), seed) for seed in range(40)]
    alarmed = sum(bool(found.alarms) for found in runs)
    assert alarmed <= 2  # 5% of 40; the union bound makes it rarer
    assert sum(naive(Case(200), seed) for seed in range(10)) >= 4  # of intervals for one look


@pytest.mark.parametrize("kind", ["change", "constraint"])
def test_drift_is_noticed_within_the_periods_that_theory_allows(kind):
    case = Case(600, 0.2)
    most = allowed(case, kind, Z)
    assert most < 24 - CHANGED
    found = np.array([delays(run(case, seed))[kind == "constraint"] for seed in range(20)])
    assert (found >= 1).all()  # no alarm before the change
    assert (found <= most).mean() >= 0.85  # 95% are promised; of 20 runs
    assert np.median(found) <= allowed(case, kind, 0.0) + 1
