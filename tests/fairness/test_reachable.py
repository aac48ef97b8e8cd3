"""Floors that no decisions can meet are told from those that some can."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost import at_least, bound, parity
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import bind
from fairboost.fairness.reachable import check_reachable, is_reachable

# Of group a 30 in 100 have label 1, of group b 60 in 100.
LABELS = np.repeat([0, 1, 0, 1], [70, 30, 40, 60]).astype(np.int32)
GROUP = SensitiveColumn("g", np.repeat([0, 1], 100).astype(np.int32), ("a", "b"))
CELLS = build_cells(LABELS, [GROUP])


def terms(*constraints):
    return [bind(c, CELLS) for c in constraints]


@pytest.mark.parametrize(
    "constraints",
    [
        [at_least("tpr", 0.99, by="g"), at_least("tnr", 0.99, by="g")],  # by a perfect model
        [at_least("tpr", 0.9, by="g"), bound("fpr", 0.01)],
        [at_least("tpr", 0.5, by="g"), bound("ppr", 0.226)],  # (15 + 30) / 200 = 0.225
        [at_least("ppr", 0.6, by="g"), bound("ppr", 0.61)],
        [at_least("tpr", 0.9, by="g"), at_least("tnr", 0.9, by="g"),
         parity("ppr", ratio=0.5, by="g")],
        [at_least("tpr", 0.8, by="g"), parity("tpr", 0.0, by="g")],
    ],
)  # fmt: skip
def test_what_some_decisions_meet_passes(constraints):
    check_reachable(terms(*constraints), CELLS)


@pytest.mark.parametrize(
    ("constraints", "named"),
    [
        ([at_least("tpr", 0.8, by="g"), at_least("fnr", 0.3, by="g")], "false negative rate"),
        ([at_least("tpr", 0.5, by="g"), bound("ppr", 0.224)], "ppr<=0.224"),
        ([at_least("ppr", 0.6, by="g"), bound("ppr", 0.59)], "ppr<=0.59"),
        # With so few wrong, the rates of positive decisions are about 0.3 and 0.6.
        ([at_least("tpr", 0.99, by="g"), at_least("tnr", 0.99, by="g"),
          parity("ppr", ratio=0.9, by="g")], "at least 0.9 of the largest"),
        ([at_least("tpr", 0.99, by="g"), at_least("tnr", 0.99, by="g"),
          parity("ppr", 0.1, by="g")], "ppr by g within 0.1"),
        ([at_least("tpr", 0.99, by="g"), at_least("tnr", 0.99, by="g"),
          parity("ppr", ratio=0.9, by="g", of="everyone")], "of everyone's"),
    ],
)  # fmt: skip
def test_what_no_decisions_meet_is_refused(constraints, named):
    with pytest.raises(ConstraintError, match="no decisions on these rows") as error:
        check_reachable(terms(*constraints), CELLS)
    assert named in str(error.value)


def test_without_a_floor_nothing_is_looked_for():
    check_reachable(terms(bound("ppr", 0.1), bound("pnr", 0.1)), CELLS)
    assert not is_reachable(terms(bound("ppr", 0.1), bound("pnr", 0.1)), CELLS)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.floats(0.01, 1.0),
)
def test_decisions_that_exist_are_never_refused(shares, ratio):
    """Constraints as tight as some shares of positive decisions allow for are reachable."""
    shares = np.round(shares, 3)
    rows = {(0, "a"): 70, (1, "a"): 30, (0, "b"): 40, (1, "b"): 60}
    p = dict(zip(rows, shares, strict=True))
    tpr = min(p[1, "a"], p[1, "b"])
    ppr = [sum(p[y, g] * rows[y, g] for y in (0, 1)) / 100 for g in "ab"]
    asked = [bound("ppr", min(max(np.mean(ppr) + 1e-6, 1e-3), 0.999))]
    if tpr > 1e-5:
        asked.append(at_least("tpr", tpr - 1e-6, by="g"))
    held = min(ppr) / max(ppr) if max(ppr) > 0 else 1.0
    if held > 1e-3:
        asked.append(parity("ppr", ratio=min(ratio, held * (1 - 1e-9)), by="g"))
    assert is_reachable(terms(*asked), CELLS)
