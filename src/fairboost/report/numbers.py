"""What a model that predicts a number does on test rows: means, verdicts, calibration, losses."""

from __future__ import annotations

from typing import Any

from fairboost.model.regressor import FairGBMRegressor
from fairboost.report import evidence
from fairboost.report.rows import OnTestRows, TestSet

LOSSES = {
    "squared": "squared error",
    "absolute": "absolute error",
    "quantile": "quantile loss at level {shape:g}",
    "huber": "Huber loss",
    "pseudo_huber": "pseudo-Huber loss",
    "poisson": "Poisson deviance",
    "gamma": "gamma deviance",
    "tweedie": "Tweedie deviance of power {shape:g}",
}
"""What mean losses are means of, by the name of the loss."""


def measure(
    model: FairGBMRegressor, rows: TestSet, plain: Any, about: evidence.About
) -> OnTestRows:
    """What a model comes to on test rows.

    Parameters
    ----------
    model : FairGBMRegressor
        The model.
    rows : TestSet
        The rows.
    plain : regressor or None
        The engine without constraints, if there is one to compare with.
    about : About
        Which groups are small.
    """
    judged = None
    if rows.constrained_rates(model):
        judged = model.report_on(
            rows.X,
            rows.y,
            sensitive_features=rows.constrained(model),
            sample_weight=rows.sample_weight,
            exposure=rows.exposure,
        )
    return OnTestRows(judged, (), (), {"task": "numbers"})


def loss_title(model: FairGBMRegressor) -> str:
    """What the mean loss of a model is a mean of."""
    loss = model._loss_terms.loss
    assert loss is not None
    return LOSSES[loss.name].format(shape=loss.shape)
