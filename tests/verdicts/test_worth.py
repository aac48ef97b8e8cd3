"""What is said of a model's worth, and of what stood between a training and its limits."""

import numpy as np
import pytest

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import FairnessWarning
from fairboost.fairness.binding import bind
from fairboost.fairness.numbers import calibrated
from fairboost.verdicts import diagnostics, worth
from fairboost.verdicts.fairness_report import MeasuredRates, build


def measured(ratio, **more):
    """Actual over expected of two groups: one as given, and 1."""
    sex = SensitiveColumn("sex", np.repeat([0, 1], 2000), ("F", "M"))
    term = bind(calibrated(0.05, by="sex"), build_cells(np.zeros(4000, int), [sex]))
    values = np.array([[1.0, 1.0], [ratio, 1.0]])
    variances = np.broadcast_to(0.01 * np.eye(2)[:, :, np.newaxis], (2, 2, 2)).copy()
    rest = {"variances": (variances,), "hidden": (worth.hidden(term, 0.003),), **more}
    return MeasuredRates("held out", "", (values,), (term,), **rest)


def test_features_that_hide_a_group_are_named_first_where_the_limit_is_missed():
    report = build(measured(1.3))
    assert report.advice[0].startswith(
        "The features do not tell the groups of sex apart: they explain 0.3%"
    )
    assert not any("n_estimators" in line for line in report.advice)
    report = build(measured(1.01))
    assert not any("tell the groups" in line for line in report.advice)


def test_groups_that_features_reveal_are_advised_as_before():
    report = build(measured(1.3, hidden=("",)))
    assert "train more rounds (n_estimators)" in report.advice[-1]
    report = build(measured(1.3, hidden=("",), stopped=worth.ended_early(23, 500)))
    assert "Early stopping ended training after 23 of 500 rounds." in report.advice
    assert "let early stopping wait for more rounds or allow more" in report.advice[-1]
    assert "n_estimators" not in " ".join(report.advice)


def test_lost_power_is_said_and_warned_of():
    lost = worth.power_lost("Mean deviance", 0.694, 0.705, 0.552)
    assert "7% of the difference is left" in lost
    found = measured(1.01, power_lost=lost)
    report = build(found)
    assert lost in report.advice
    with pytest.warns(FairnessWarning, match="Most of the predictive power is gone"):
        diagnostics.warn_of_worth(found, report.verdicts)


@pytest.mark.parametrize("lowest", [0.703, 0.705, 0.8, np.nan, -np.inf])
def test_where_nothing_was_learned_nothing_is_lost(lowest):
    assert worth.power_lost("Mean deviance", 0.9, 0.705, lowest) == ""
