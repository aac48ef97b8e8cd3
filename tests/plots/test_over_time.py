"""Figures over periods: lines, bands, marks, limits and figures of training."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="plots need matplotlib").use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from fairboost.exceptions import InvalidInputError  # noqa: E402
from fairboost.plots.over_time import OverTimeDisplay  # noqa: E402

PERIODS = [f"2026-{k:02}" for k in range(1, 13)]


def table(n, **more):
    at = np.arange(n)
    found = {"name": "F", "period": at, "value": 0.2, "so_far": 0.2, "low": 0.1, "high": 0.4}
    return pd.DataFrame({**found, **more})


def test_it_draws_a_line_marks_a_band_and_its_limits():
    display = OverTimeDisplay(table(12, training=0.25), PERIODS, "rate", limit=0.3).plot()
    heights = [line.get_ydata()[0] for line in display.ax_.lines]
    assert heights == [0.2, 0.2, 0.25, 0.3]
    assert len(display.ax_.collections) == 1
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["F", "limit"]
    assert display.ax_.get_xticklabels()[0].get_text() == "2026-01"
    plt.close(display.figure_)


def test_one_period_has_arms_in_place_of_a_band():
    ax = OverTimeDisplay(table(1), PERIODS[:1], "rate").plot().ax_
    (arms,) = ax.containers
    assert arms.has_yerr
    plt.close(ax.figure)


def test_a_table_without_its_columns_is_refused():
    with pytest.raises(InvalidInputError, match="lacks the columns so_far, low"):
        OverTimeDisplay(table(1).drop(columns=["so_far", "low"]), PERIODS, "rate").plot()
