"""Violations over the rounds: on the rows that training measured they are those of the trace."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, calibrated
from fairboost.exceptions import InvalidInputError
from fairboost.verdicts.rounds import rows_of, violations_by_round

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


def draw(n, seed):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + 0.5 * (group == "b")[:, np.newaxis]
    years = rng.uniform(0.2, 2.0, n)
    return X, rng.poisson(np.exp(0.3 * X[:, 0]) * years).astype(float), group, None, years


@pytest.mark.parametrize(
    "asked",
    [
        {"constraint": "equal_means", "tolerance": 0.1},
        {"constraint": "equal_distributions", "tolerance": 0.05},
        {"constraint": calibrated(0.02, within=4)},
        {"constraint": "bounded_group_loss", "tolerance": 1.0},
    ],
    ids=["means", "distributions", "calibrated", "bounded"],
)
def test_of_numbers_on_a_held_out_set_they_are_those_of_the_trace(asked):
    X, y, group, _, years = draw(1_500, 0)
    theirs = draw(1_000, 1)
    engine = LGBMRegressor(objective="poisson", n_estimators=12, num_leaves=7, verbose=-1)
    model = FairGBMRegressor(engine, iterate="last", memberships="observed", **asked)
    model.fit(X, y, sensitive_features=group, exposure=years, holdout_set=theirs)
    table = violations_by_round(model, **rows_of(model, theirs), points=50).set_index("round")
    assert len(table) == 11
    trace = model.trace_.set_index("round").loc[table.index, table.columns]
    np.testing.assert_allclose(table, trace, rtol=1e-5, atol=1e-6)  # weights in single precision


def test_rows_of_a_classifier_have_no_exposure():
    with pytest.raises(InvalidInputError, match=r"3 to 4 parts, .* found 5 parts"):
        rows_of(FairGBMClassifier(), draw(10, 0))


def test_rounds_of_several_classes_are_refused():
    model = FairGBMClassifier()
    model.classes_ = np.array(["a", "b", "c"])
    with pytest.raises(InvalidInputError, match="gives one of 3 classes; leave train out"):
        rows_of(model, draw(10, 0)[:3])
