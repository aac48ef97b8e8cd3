"""Floors that no decisions can meet are told from those that some can."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost import (
    FairGBMClassifier,
    at_fpr,
    at_least,
    at_positive_rate,
    at_tpr,
    bound,
    parity,
)
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
    if 0 < np.mean(ppr) < 1:  # the point at which these decisions are made
        assert is_reachable(terms(*asked), CELLS, at_positive_rate(np.mean(ppr)))


# 90 of 200 rows have label 1, 110 have label 0. A rate is its target to within one row.
AT_A_POINT = [
    # 15 of 30 and 30 of 60: 45 positive decisions, 22.5%; the next row is at 22%.
    (at_least("tpr", 0.5, by="g"), at_positive_rate(0.219), at_positive_rate(0.221)),
    # 22 of 110 and all of 90: 112 positive decisions at most, 56%.
    (at_least("tnr", 0.8, by="g"), at_positive_rate(0.566), at_positive_rate(0.564)),
    # In group a, 60 positive decisions are 30 right and 30 wrong ones: 30 of 110 negatives.
    (at_least("ppr", 0.6, by="g"), at_fpr(0.263), at_fpr(0.264)),
    # In each group at most 25 are decided positively: 50 of 90 positives.
    (at_least("pnr", 0.75, by="g"), at_tpr(0.567), at_tpr(0.566)),
]


@pytest.mark.parametrize(("floor", "refused", "passes"), AT_A_POINT, ids=repr)
def test_an_operating_point_is_part_of_the_question(floor, refused, passes):
    check_reachable(terms(floor), CELLS, passes)
    with pytest.raises(ConstraintError, match="choose another operating point") as error:
        check_reachable(terms(floor), CELLS, refused)
    assert f"operating_point={refused}" in str(error.value)
    check_reachable(terms(floor), CELLS)
    check_reachable(terms(floor), CELLS, 0.5)  # a probability says nothing of rates


def test_a_point_that_is_no_part_of_the_contradiction_is_not_named():
    impossible = terms(at_least("tpr", 0.8, by="g"), at_least("fnr", 0.3, by="g"))
    with pytest.raises(ConstraintError, match="no decisions on these rows") as error:
        check_reachable(impossible, CELLS, at_positive_rate(0.5))
    assert "operating_point" not in str(error.value)


def test_rows_count_by_their_weights():
    weight = np.where(LABELS == 1, 3.0, 1.0)  # 270 of 380
    cells = build_cells(LABELS, [GROUP], weight)
    floor = [bind(at_least("tpr", 0.5, by="g"), cells)]  # 135 of 380: 0.355
    one_row = (weight**2).sum() / weight.sum() ** 2
    check_reachable(floor, cells, at_positive_rate(135 / 380 - 0.9 * one_row))
    with pytest.raises(ConstraintError, match="at_positive_rate"):
        check_reachable(floor, cells, at_positive_rate(135 / 380 - 1.1 * one_row))


def test_models_refuse_before_training():
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = FairGBMClassifier(
        constraint=at_least("tpr", 0.9), operating_point=at_positive_rate(0.2), holdout=0.25
    )
    with pytest.raises(ConstraintError, match=r"operating_point=at_positive_rate\(0\.2\)"):
        model.fit(X, LABELS, sensitive_features=np.repeat(["a", "b"], 100))
