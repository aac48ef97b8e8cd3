"""Ratios of decisions and standardised differences of scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.metrics import ratio
from fairboost.metrics.contrasts import decision_ratios, standardised_differences

rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(-5, 5)), min_size=6, max_size=50
)


@given(rows)
def test_the_ratio_is_that_of_the_metrics(found):
    groups, positive, _ = (np.array(part) for part in zip(*found, strict=True))
    ours = decision_ratios(positive.astype(bool), {"g": groups})["g"]
    if len(set(groups)) < 2 or not positive.any():
        assert np.isnan(ours)
        return
    theirs = ratio(np.zeros(len(found), int), positive.astype(int), rate="ppr", pos_label=1,
                   sensitive_features=groups)  # fmt: skip
    assert ours == pytest.approx(float(theirs))


@given(rows, st.floats(0.1, 10), st.floats(-3, 3))
def test_differences_do_not_depend_on_the_unit(found, scale, shift):
    groups, _, scores = (np.array(part) for part in zip(*found, strict=True))
    scores = scores.astype(float)
    if np.std(scores) < 1e-3:
        return
    one = standardised_differences(scores, {"g": groups})
    other = standardised_differences(scale * scores + shift, {"g": groups})
    np.testing.assert_allclose(one["difference"], other["difference"], atol=1e-9)
    np.testing.assert_allclose(one.loc[one["group"] == one["reference"], "difference"], 0.0)


def test_an_exact_case():
    scores = np.array([0.0, 2.0, 4.0, 6.0, 8.0])
    groups = ["m", "m", "m", "f", None]
    table = standardised_differences(scores, {"sex": groups}).set_index("group")
    assert table.loc["f", "reference"] == "m"
    assert table.loc["f", "difference"] == pytest.approx((6.0 - 2.0) / np.std(scores))
    assert table["rows"].to_dict() == {"f": 1, "m": 3}


def test_equal_scores_have_no_difference():
    table = standardised_differences(np.ones(4), {"sex": list("FFMM")})
    assert table["difference"].isna().all()
