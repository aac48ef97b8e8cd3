"""Constraints given a column, bound to rows: strata, and who has no one to be compared with."""

from __future__ import annotations

import numpy as np
import pytest

from fairboost import parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import bind, leave_out_small, match, rates_left_out

ASKED = parity("fnr", 0.1, by="sex", given="risk")


def cells_of(counts, missing=0):
    """Cells of (label, sex, risk) with so many rows each."""
    keys = np.array(list(counts))
    rows = np.repeat(keys, list(counts.values()), axis=0)
    rows = np.concatenate([rows, np.tile([[1, 0, -1]], (missing, 1))]).astype(np.int32)
    sex = SensitiveColumn("sex", rows[:, 1], ("F", "M"))
    risk = SensitiveColumn("risk", rows[:, 2], ("high", "low", "mid"))
    return build_cells(rows[:, 0], [sex, risk])


FULL = {(y, s, r): 40 for y in (0, 1) for s in (0, 1) for r in range(3)}


def test_groups_of_the_same_value_are_in_one_stratum():
    term = bind(ASKED, cells_of(FULL, missing=7))
    assert [name[1] for name in term.groups.names] == ["high", "low", "mid"] * 2
    assert term.strata.tolist() == [0, 1, 2, 0, 1, 2]
    assert term.by == "sex given risk" and term.most_compared == 2
    assert term.counted.sum() == 6 * 40  # rows without a risk count in none
    assert term.inequalities[0] == "fnr[sex=F, risk=high]"


def test_a_column_of_one_value_makes_no_strata():
    term = bind(ASKED, cells_of({k: n for k, n in FULL.items() if k[2] == 0}))
    assert term.strata is None and len(term.groups) == 2


def test_a_group_without_rows_at_a_value_is_left_out_with_those_it_leaves_alone():
    """No women of high risk at all; none with a positive label of middle risk."""
    some = {k: n for k, n in FULL.items() if k[1:] != (0, 0) and k != (1, 0, 2)}
    cells = leave_out_small(cells_of(some), [ASKED], 0)
    term = bind(ASKED, cells)
    assert term.groups.names == (("F", "low"), ("M", "low")) and term.strata is None
    found = {r.name: r for r in rates_left_out([ASKED], cells, np.ones((2, len(cells))))}
    assert {name: r.rows for name, r in found.items()} == {
        ("F", "high"): 0, ("F", "mid"): 0, ("M", "high"): 40, ("M", "mid"): 40,
    }  # fmt: skip
    assert found["F", "high"].group == "sex=F, risk=high"
    assert all(r.given == ("risk",) for r in found.values())


def test_small_groups_are_left_out_at_the_value_where_they_are_small():
    cells = leave_out_small(cells_of({**FULL, (1, 0, 1): 12}), [ASKED], 20)
    assert bind(ASKED, cells).groups.names == tuple(
        (sex, risk) for sex in "FM" for risk in ("high", "mid")
    )


def test_nothing_left_to_compare():
    apart = {k: n for k, n in FULL.items() if (k[1] == 0) == (k[2] == 0)}
    cells = leave_out_small(cells_of(apart), [ASKED], 0)
    with pytest.raises(ConstraintError, match=r"no two groups of 'sex' have rows .* of 'risk'"):
        bind(ASKED, cells)


def test_sets_of_rows_compare_the_same_groups():
    """A group of which no row is held out is left out of training, too."""
    cells = leave_out_small(cells_of(FULL), [ASKED], 0)
    women_of_low_risk = (cells.groups["sex"] == 0) & (cells.groups["risk"] == 1)
    held = np.arange(len(cells.codes)) % 2 == 0
    held &= ~women_of_low_risk[cells.codes]
    trained, measured = match([ASKED], cells.among(~held), cells.among(held))
    assert trained.left_out == measured.left_out
    assert trained.left_out["sex", "risk"] == {("F", "low"), ("M", "low")}
    assert bind(ASKED, trained).groups.names == bind(ASKED, measured).groups.names


def test_without_a_column_given_nothing_is_matched():
    cells = cells_of(FULL)
    parts = cells.among(slice(None, 50)), cells.among(slice(50, None))
    assert match([parity("fnr", 0.1, by="sex")], *parts) == parts
