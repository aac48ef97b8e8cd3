"""Group probabilities: what is refused of them, and what rates estimate, in exact proportion."""

import numpy as np
import pandas as pd
import pytest

from fairboost import group_probabilities
from fairboost.data.probabilities import as_column_of_groups
from fairboost.exceptions import InvalidInputError


def test_a_row_that_sums_to_more_than_one_is_named():
    with pytest.raises(InvalidInputError, match=r"row 1 of the table of 'race' sum to 1\.2"):
        group_probabilities({"a": [0.5, 0.7], "b": [0.5, 0.5]}, name="race")


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ({"a": [0.5, -0.1], "b": [0.5, 0.5]}, "found -0.1 for 'a' in row 1"),
        ({"a": [0.5, 1.4], "b": [0.5, 0.0]}, "found 1.4 for 'a' in row 1"),
        ({"a": ["x", "y"], "b": [0.5, 0.5]}, "must hold probabilities"),
        ({"a": [0.5, np.nan], "b": [0.5, 0.5]}, "row 1 .* has some probabilities and lacks"),
        ({"a": [0.5, 0.5]}, "has 1 columns, expected one for each of two groups"),
        ({"a": [0.5, 0.5], "b": [0.0, 0.0]}, "probability of 'b' .* is 0 in every row"),
        (pd.DataFrame([[0.5, 0.5]], columns=["a", "a"]), "names a group twice"),
    ],
)
def test_tables_that_hold_no_probabilities(table, match):
    with pytest.raises(InvalidInputError, match=match):
        group_probabilities(table, name="race")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"observed": ["c", None]}, "observed names the group 'c'"),
        ({"observed": ["a"]}, "observed has shape \\(1,\\)"),
        ({"estimator": "best"}, "estimator must be 'corrected' or 'weighted'"),
        ({"name": ""}, "name must be the name of the sensitive attribute"),
    ],
)
def test_options_of_probabilities_that_are_wrong(options, match):
    table = {"a": [0.5, 0.2], "b": [0.5, 0.8]}
    with pytest.raises(InvalidInputError, match=match):
        group_probabilities(table, **{"name": "race", **options})


def test_observed_groups_take_the_place_of_probabilities():
    table = pd.DataFrame({"a": [0.5, 0.2, np.nan], "b": [0.5, 0.8, np.nan]}, index=[7, 8, 9])
    found = group_probabilities(table, "race", observed=["b", None, None])
    assert found.probabilities.tolist() == [[0, 1], [0.2, 0.8], [0, 0]]
    assert found.observed.tolist() == [True, False, False]
    some = found.take(np.array([0, 2]))
    assert some.probabilities.tolist() == [[0, 1], [0, 0]]
    assert some.index.tolist() == [7, 9]


def test_calibration_is_checked_where_groups_are_observed():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 4_000)
    true = np.where(rng.random(4_000) < p, "a", "b").astype(object)
    seen = np.where(rng.random(4_000) < 0.3, true, None)
    good = group_probabilities({"a": p, "b": 1 - p}, "race", observed=seen)
    assert "calibrated as far as so many rows show" in good.calibration
    q = np.clip(p + 0.15, 0, 1)
    bad = group_probabilities({"a": q, "b": 1 - q}, "race", observed=seen)
    assert "not calibrated" in bad.calibration
    few = group_probabilities(
        {"a": p[:50], "b": 1 - p[:50]}, "race", observed=[*"ab", *[None] * 48]
    )
    assert "2 rows, too few" in few.calibration
    assert group_probabilities({"a": p, "b": 1 - p}, "race").calibration == ""


def proxies():
    """Rows in exact proportion: a proxy z of two values that says nothing beyond the group.

    Group a decides positively in 3 of 5 rows, b in 1 of 5; z = 1 has 3/4 of a and 1/4 of b.
    """
    lines = [
        (g, z, d)
        for g, share in (("a", {1: 15, 0: 5}), ("b", {1: 10, 0: 30}))
        for z, n in share.items()
        for d, times in ((1, 3 if g == "a" else 1), (0, 2 if g == "a" else 4))
        for _ in range(n * times)
    ]
    g, z, d = (np.array(c) for c in zip(*lines, strict=True))
    p = np.array([np.mean(g[z == v] == "a") for v in (0, 1)])[z]
    return g, z, d, p


def rates_of(made, decided):
    column = as_column_of_groups(made)
    return decided @ column.members / column.members.sum(axis=0)


def test_corrected_rates_are_exact_where_the_proxy_says_nothing_beyond_the_group():
    g, _, d, p = proxies()
    truth = np.array([d[g == "a"].mean(), d[g == "b"].mean()])
    np.testing.assert_allclose(truth, [0.6, 0.2])
    made = group_probabilities({"a": p, "b": 1 - p}, "g")
    np.testing.assert_allclose(rates_of(made, d), truth, atol=1e-6)


def test_weighted_rates_are_off_by_the_covariance_that_the_documentation_states():
    g, z, d, p = proxies()
    weighted = rates_of(group_probabilities({"a": p, "b": 1 - p}, "g", estimator="weighted"), d)
    for k, group in enumerate("ab"):
        inside = g == group
        within = [
            np.mean(z == v) * np.cov(d[z == v], inside[z == v], bias=True)[0, 1] for v in (0, 1)
        ]
        expected = d[inside].mean() - sum(within) / inside.mean()
        assert weighted[k] == pytest.approx(expected, abs=1e-6)
    assert weighted[0] - weighted[1] < 0.5 * (0.6 - 0.2)  # the gap looks much smaller


def test_weighted_rates_are_exact_where_decisions_depend_on_the_proxy_alone():
    g, z, _, p = proxies()
    d = (z == 1).astype(int)
    truth = [d[g == group].mean() for group in "ab"]
    made = group_probabilities({"a": p, "b": 1 - p}, "g", estimator="weighted")
    np.testing.assert_allclose(rates_of(made, d), truth, atol=1e-6)


def test_corrected_weights_sum_to_one_and_what_is_missing_to_one_is_a_group_of_its_own():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([0.4, 0.4, 0.4], 400)
    whole = as_column_of_groups(group_probabilities(p, "g")).members
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-5)
    part = as_column_of_groups(group_probabilities(p[:, :2], "g")).members
    np.testing.assert_allclose(part, whole[:, :2], atol=1e-5)


def test_probabilities_that_tell_nothing_cannot_be_corrected():
    table = np.tile([[0.4, 0.6]], (50, 1))
    made = group_probabilities(table, "g")
    with pytest.raises(InvalidInputError, match="hardly separate the groups"):
        as_column_of_groups(made)
    assert as_column_of_groups(group_probabilities(table, "g", estimator="weighted")).members.any()
