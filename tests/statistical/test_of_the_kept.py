"""In cross-fitting the rates that are reported are those of the booster that is kept."""

from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy import stats
from scipy.special import expit

from fairboost import FairGBMClassifier
from fairboost.algorithm.game import Session

SEEDS = 20


def draw(rows, seed):
    """Two groups of which one has less of what is wanted; the last feature is the group."""
    rng = np.random.default_rng(seed)
    woman = rng.random(rows) < 0.4
    merit = rng.standard_normal(rows) - 0.4 * woman
    y = (rng.random(rows) < expit(1.5 * merit)).astype(int)
    noise = rng.standard_normal((rows, 2))
    X = np.column_stack([merit - 0.4 * woman + 0.8 * noise[:, 0], noise[:, 1], woman])
    return X, y, np.where(woman, "woman", "man")


@cache
def new_rows():
    """So many that their own gap is off by 0.0016."""
    return draw(400_000, 10**6)


def gaps(seed):
    """The gap of shares of positive decisions that is reported, and the true one."""
    X, y, s = draw(10_000, seed)
    engine = LGBMClassifier(n_estimators=50, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(
        engine, constraint="demographic_parity", tolerance=0.02, holdout="cross", random_state=seed
    )
    model.fit(X, y, sensitive_features={"sex": s})
    table = model.fairness_report_.rates.set_index("group")["held out"]
    new, _, group = new_rows()
    positive = model.predict(new)
    true = positive[group == "woman"].mean() - positive[group == "man"].mean()
    return table["sex=woman"] - table["sex=man"], true


@pytest.mark.slow
def test_reported_gaps_are_those_of_new_rows_and_closer_than_out_of_fold():
    ours = np.array([gaps(seed) for seed in range(SEEDS)])
    with patch.object(Session, "grown", lambda *_: None):  # rates out of fold
        theirs = np.array([gaps(seed) for seed in range(SEEDS)])
    off, before = (np.diff(found, axis=1).ravel() for found in (ours, theirs))
    half = stats.t.ppf(0.975, SEEDS - 1) * off.std(ddof=1) / np.sqrt(SEEDS)
    assert abs(off.mean()) < half + 0.0016
    assert np.sqrt((off**2).mean()) < 0.75 * np.sqrt((before**2).mean())
