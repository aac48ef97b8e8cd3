"""Floors beside constraints that the linear program knows nothing of."""

from __future__ import annotations

import numpy as np
import pytest

from fairboost import at_least, bound, minimax
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import resolve
from fairboost.fairness.reachable import check_reachable
from fairboost.tasks.layout import bind_all


def checked(*constraints):
    y = np.repeat([0, 1], [70, 30]).astype(np.int32)
    column = SensitiveColumn("g", (np.arange(100) % 2).astype(np.int32), ("a", "b"))
    cells = build_cells(y, [column])
    check_reachable(bind_all(resolve(list(constraints), None, ["g"]), cells), cells)


@pytest.mark.parametrize("other", [bound("error", 0.3), minimax("error")], ids=repr)
def test_others_are_left_out_of_the_program(other):
    checked(at_least("tpr", 0.8), other)
    with pytest.raises(ConstraintError, match="no decisions on these rows"):
        checked(at_least("tpr", 0.9), bound("ppr", 0.1), other)
