"""Cells of rows that belong to groups by weights."""

import numpy as np
import pytest

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError


def column(members, values=("a", "b"), name="g"):
    members = np.asarray(members, np.float32)
    return SensitiveColumn(name, np.full(len(members), -1, np.int8), values, members)


def test_parts_of_cells_leave_sums_over_everyone_alone():
    members = [[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]
    labels = np.array([0, 0, 1, 1], np.int32)
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    cells = build_cells(labels, [column(members)], weight)
    assert cells.total_weight == 10
    assert len(cells) == 2
    assert len(cells.all) == 6
    groups = cells.groups_by(("g",))
    np.testing.assert_allclose(
        np.bincount(groups.of_cell[2:] + 1, cells.all.weights[2:]), [0.0, 4.2, 1.8], atol=1e-6
    )
    assert groups.of_cell[:2].tolist() == [-1, -1]
    everyone = cells.groups_by(())
    assert everyone.of_cell.tolist() == [0, 0, -1, -1, -1, -1]
    assert cells.rows_without_group() == "1 of 4 rows has no g and counts in no group"


def test_cells_of_some_rows_and_sums_of_some_rows_agree():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 50).astype(np.int32)
    hard = SensitiveColumn("h", rng.integers(0, 2, 50).astype(np.int32), ("x", "y"))
    weight = rng.uniform(0.5, 2, 50)
    cells = build_cells(labels, [hard, column(rng.dirichlet([1, 1], 50))], weight)
    rows = rng.random(50) < 0.5
    part = cells.among(rows, weight)
    found = cells.shared_weight_of(rows, weight)
    np.testing.assert_allclose(found, part.all.weights[len(part) :], atol=1e-12)


def test_a_column_of_weights_is_crossed_with_observed_groups_and_not_with_another():
    rng = np.random.default_rng(0)
    labels = np.arange(40, dtype=np.int32) % 2
    hard = SensitiveColumn("h", np.arange(40, dtype=np.int32) // 2 % 2, ("x", "y"))
    p = rng.dirichlet([1, 1], 40).astype(np.float32)
    cells = build_cells(labels, [hard, column(p), column(p, name="other")])
    groups = cells.groups_by(("h", "g"))
    assert groups.names == (("x", "a"), ("x", "b"), ("y", "a"), ("y", "b"))
    members = cells.members_of(groups)
    np.testing.assert_allclose(members[hard.codes == 0][:, :2], p[hard.codes == 0])
    assert not members[hard.codes == 0][:, 2:].any()
    with pytest.raises(ConstraintError, match="crosses 'g' and 'other'"):
        cells.groups_by(("g", "other"))


def test_splitting_a_row_into_two_of_half_the_weight_changes_no_rate():
    rng = np.random.default_rng(0)
    labels = np.arange(30, dtype=np.int32) % 2
    p, weight = rng.dirichlet([1, 1], 30), rng.uniform(1, 2, 30)
    decided = rng.random(30) < 0.5
    one = build_cells(labels, [column(p)], weight)
    two = build_cells(np.r_[labels, labels], [column(np.r_[p, p])], np.r_[weight, weight] / 2)
    np.testing.assert_allclose(one.all.weights, two.all.weights, atol=1e-9)
    np.testing.assert_allclose(
        one.shared_weight_of(decided, weight),
        two.shared_weight_of(np.r_[decided, decided], np.r_[weight, weight] / 2),
        atol=1e-9,
    )
