"""Curves of constraints beyond rates of decisions."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import calibrated, tradeoff_curve
from fairboost.datasets import make_loans


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")  # few rows and trees
@pytest.mark.parametrize(
    "constraint", ["predictive_parity", "calibrated", calibrated(within=4)], ids=str
)
def test_a_curve_has_models_of_each_tolerance(constraint):
    table = make_loans(4_000, seed=1)
    engine = LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1, n_jobs=1)
    curve = tradeoff_curve(
        engine, table.X, table.y, sensitive_features=table.sensitive["sex"],
        constraint=constraint, tolerances=3,
    )  # fmt: skip
    found = curve.table["tolerance"].to_numpy()
    assert np.isnan(found[0])
    assert (np.diff(found[1:]) < 0).all()
    assert found[-1] == 0
    assert (found[1:] < 1).all()
    assert np.isfinite(curve.table["gap"]).all()
