import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.diagnostics import warn_if_not_met
from fairboost.exceptions import NotMetWarning, SmallCellWarning


def trace(*violations):
    return pd.DataFrame(
        {"round": range(1, len(violations) + 1), "violation: fnr[g=1]": violations}
    )


def test_a_constraint_that_is_still_broken_is_named():
    with pytest.warns(NotMetWarning, match=r"after 20 rounds: fnr\[g=1\] by 0.300 beyond"):
        warn_if_not_met(trace(*[0.5] * 18, 0.4, 0.2))


def test_a_wobble_around_the_limit_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_not_met(trace(*[0.5] * 10, *[0.03, -0.03] * 5))
        warn_if_not_met(pd.DataFrame({"round": [1], "loss": [0.5]}))  # no constraint at all


def test_fit_says_when_training_was_too_short():
    rng = np.random.default_rng(0)
    g = rng.integers(0, 2, 2000)
    X = np.column_stack([rng.normal(size=2000), g])
    y = (X[:, 0] + 2 * g - 1 + rng.normal(size=2000) > 0).astype(int)
    engine = LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    with pytest.warns(NotMetWarning, match="Train more rounds"):
        FairGBMClassifier(engine, constraint="equal_opportunity").fit(X, y, sensitive_features=g)


def test_small_groups_are_named_with_their_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), np.arange(400) % 2
    g = np.where(np.arange(400) < 40, "few", "many")
    engine = LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
    with pytest.warns(SmallCellWarning, match=r"sensitive_feature=few \(20 rows for fnr\)"):
        FairGBMClassifier(engine, constraint="equal_opportunity").fit(X, y, sensitive_features=g)
