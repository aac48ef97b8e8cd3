import numpy as np
import pytest

from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError


@pytest.fixture
def cells():
    y = np.array([0, 1, 0, 1, 0, 1, 1, 0], np.int32)
    sex = SensitiveColumn("sex", np.array([0, 0, 1, 1, 0, 1, -1, 1], np.int32), ("F", "M"))
    race = SensitiveColumn("race", np.array([2, 0, 2, 0, 2, 0, 0, -1], np.int32), ("a", "b", "c"))
    return build_cells(y, [sex, race], np.arange(1.0, 9.0))


def test_rows_of_a_cell_are_alike(cells):
    y = np.array([0, 1, 0, 1, 0, 1, 1, 0])
    assert (cells.labels[cells.codes] == y).all()
    assert (cells.groups["sex"][cells.codes] == [0, 0, 1, 1, 0, 1, -1, 1]).all()
    assert (cells.groups["race"][cells.codes] == [2, 0, 2, 0, 2, 0, 0, -1]).all()


def test_only_cells_with_rows_are_kept(cells):
    assert (cells.counts > 0).all()
    assert len(cells) == 6
    assert cells.counts.sum() == 8
    assert cells.total_weight == 36


def test_weights_are_summed(cells):
    first = cells.codes[0]  # rows 0 and 4
    assert cells.weights[first] == 1 + 5


def test_crossing_keeps_combinations_that_occur(cells):
    groups = cells.groups_by(["sex", "race"])
    assert groups.names == (("F", "a"), ("F", "c"), ("M", "a"), ("M", "c"))
    assert groups.label(1) == "sex=F, race=c"
    # A row with either column missing is in no group.
    assert groups.of_cell[cells.codes[[6, 7]]].tolist() == [-1, -1]


def test_everyone_includes_rows_of_missing_group(cells):
    groups = cells.groups_by([])
    assert len(groups) == 1 and groups.label(0) == "everyone"
    assert (groups.of_cell == 0).all()


def test_a_column_that_is_not_there(cells):
    with pytest.raises(ConstraintError, match=r"names the column 'age'.*\('sex', 'race'\)"):
        cells.groups_by(["age"])


def test_many_cells_are_not_counted_one_by_one(monkeypatch):
    """The same cells, whether or not there is a count for those that have no rows."""
    rng = np.random.default_rng(0)
    columns = [
        SensitiveColumn(name, rng.integers(-1, 30, 200).astype(np.int32), tuple(range(30)))
        for name in "ab"
    ]
    labels = rng.integers(0, 2, 200).astype(np.int32)
    counted = build_cells(labels, columns)
    monkeypatch.setattr("fairboost.data.cells.MANY_CELLS", 0)
    found = build_cells(labels, columns)
    np.testing.assert_array_equal(found.codes, counted.codes)
    np.testing.assert_array_equal(found.labels, counted.labels)
    for name in "ab":
        np.testing.assert_array_equal(found.groups[name], counted.groups[name])
    np.testing.assert_array_equal(found.counts, counted.counts)
