"""Constraints come back from files as they were, windows of numbers included."""

from __future__ import annotations

import json

import pytest

from fairboost import at_least, calibrated, minimax, parity, smooth
from fairboost.fairness.stored import decode_constraint, encode_constraint

CONSTRAINTS = [
    parity("fnr", 0.02, by=smooth("age", 5)),
    parity("ppr", ratio=0.8, by=smooth("age")),
    parity("precision", 0.02, by="sex"),
    at_least("tpr", 0.8, by=("sex", smooth("age", (20, 40, 60)))),
    minimax("loss", by=smooth("age", 4)),
    minimax("error", by="sex", weight=2.0),
    calibrated(0.02, by=smooth("age", 3)),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_constraints_come_back(constraint):
    kept = json.loads(json.dumps(encode_constraint(constraint)))
    found = decode_constraint(kept, of_numbers=False)
    assert found == constraint
    assert repr(found.by) == repr(constraint.by)  # knots are no part of equality
