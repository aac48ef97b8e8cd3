"""Which rows are held out where there are several classes."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize(
    ("n", "kind"), [(22_000, "a share of 20%"), (18_000, "cross-fitting in 5 folds")]
)
def test_rows_of_the_smallest_group_decide_how_rows_are_held_out(n, kind):
    """As for two labels; of two labels, 18,000 rows would be cut into 3 folds."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(n, 2)), rng.integers(0, 3, n), np.arange(n) % 2
    engine = LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(engine, constraint="demographic_parity", tolerance=0.2)
    model.fit(X, y, sensitive_features=group)
    assert kind in model.fairness_report_.note
