"""Rows of weight 0 are no rows, wherever rows are counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost import FairGBMClassifier
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import SmallCellWarning
from fairboost.fairness.binding import rows_that_count
from fairboost.fairness.rates import RATES
from tests.kinds import KINDS


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=8, max_size=40), st.integers(0, 10))
def test_rows_of_weight_0_are_no_rows(weights, seed):
    rng, weight = np.random.default_rng(seed), np.array(weights)
    labels = rng.integers(0, 2, len(weight)).astype(np.int32)
    codes = np.append(np.arange(2), rng.integers(0, 2, len(weight) - 2)).astype(np.int32)
    column = SensitiveColumn("sex", codes, ("f", "m"))
    cells = build_cells(labels, [column], weight)
    found = rows_that_count(RATES["fnr"], cells, cells.groups_by(("sex",)))
    expected = [(weight[(codes == g) & (labels == 1)] > 0).sum() for g in (0, 1)]
    np.testing.assert_allclose(found, expected)


def test_without_weights_all_rows_count():
    column = SensitiveColumn("sex", np.array([0, 0, 1, 1], np.int32), ("f", "m"))
    cells = build_cells(np.array([1, 1, 1, 0], np.int32), [column])
    found = rows_that_count(RATES["fnr"], cells, cells.groups_by(("sex",)))
    assert found.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_group_of_few_rows_with_weight_is_warned_of(kind):
    rng = np.random.default_rng(0)
    X, sex = pd.DataFrame({"a": rng.normal(size=600)}), np.repeat(["f", "m"], 300)
    y, weight = (X["a"] + rng.normal(size=600) > 0).astype(int), np.ones(600)
    weight[40:300] = 0.0
    model = FairGBMClassifier(kind.make(n_estimators=3), holdout=None, min_group_rows=0)
    with pytest.warns(SmallCellWarning, match="fewer than 30 rows count .*sex=f"):
        model.fit(X, y, sensitive_features={"sex": sex}, sample_weight=weight)
