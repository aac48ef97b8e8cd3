"""Constraints beyond rates of decisions, on a cluster: sums are all that travels."""

from __future__ import annotations

import pytest

from fairboost import bound, calibrated, minimax
from tests.cluster.dealing import deal
from tests.cluster.test_training import FEATURES, alone, assert_same, fit, model, table


@pytest.mark.parametrize(
    "constraint",
    ["predictive_parity", "calibrated", calibrated(0.02, within=4), minimax("loss"),
     [minimax("fnr"), bound("error", 0.35)]],
    ids=["precision", "calibrated", "in parts", "loss", "fnr"],
)  # fmt: skip
def test_the_same_model_as_in_one_process(client, constraint):
    rows = table()
    options = {"holdout": None, "constraint": constraint, "tolerance": None}
    ours = fit(model(**options), deal(client, rows, 5), weighted=True)
    theirs = fit(alone(**options), rows, weighted=True)
    assert_same(ours, theirs, rows[FEATURES])
