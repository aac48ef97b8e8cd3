"""Audits of groups that rows belong to by weights."""

import numpy as np
import pandas as pd
import pytest

from fairboost import group_probabilities, smooth
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import audit, audit_classes, audit_numbers, gap, group_rates


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    n = 3_000
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    age = np.round(rng.uniform(18, 80, n))
    y = rng.integers(0, 2, n)
    score = np.clip(0.5 * y + rng.normal(0.2, 0.3, n) + (age - 50) / 150, 0, 1)
    return y, score, group, age, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("estimator", ["corrected", "weighted"])
@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_of_zero_and_one_are_the_groups_themselves(scored, estimator, weighted):
    y, score, group, _, weight = scored
    table = pd.get_dummies(group).astype(float)
    rest = {
        "rates": ["fpr", "fnr", "ppr", "precision"],
        "sample_weight": weight if weighted else None,
    }
    hard = audit(y, score, sensitive_features={"g": group}, **rest)
    soft = audit(
        y, score, sensitive_features=group_probabilities(table, "g", None, estimator), **rest
    )
    figures, ends = ["value", "counted"], ["low", "high"]
    np.testing.assert_allclose(soft.rates[figures], hard.rates[figures], rtol=1e-6)
    # Of precision, squared weights by decision are known only in proportion to the weights.
    close = 1e-3 if weighted else 1e-6
    np.testing.assert_allclose(soft.rates[ends], hard.rates[ends], atol=close)
    np.testing.assert_allclose(soft.gaps["gap"], hard.gaps["gap"], atol=1e-6)
    if not weighted:  # draws of the bootstrap are by rows
        ends = ["gap_low", "gap_high"]
        np.testing.assert_allclose(soft.gaps[ends], hard.gaps[ends], atol=0.01)


def test_rates_over_an_age_are_weighted_means(scored):
    y, score, _, age, _ = scored
    table = group_rates(
        y, score > 0.5, sensitive_features={"age": age}, by=smooth("age", (30, 50)), rates="ppr",
        pos_label=1,
    )  # fmt: skip
    share = np.clip((age - 30) / 20, 0, 1)
    expected = [np.average(score > 0.5, weights=w) for w in (1 - share, share)]
    np.testing.assert_allclose(table["value"][1:], expected, atol=1e-6)
    assert table["group"].tolist() == ["everyone", "around 30", "around 50"]
    effective = [w.sum() ** 2 / (w**2).sum() for w in (1 - share, share)]
    np.testing.assert_allclose(table["rows"][1:], effective, atol=1)


def test_intervals_cover_the_rates_of_windows():
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(200):
        age = rng.uniform(0, 1, 400)
        decided = rng.random(400) < 0.3
        table = group_rates(
            np.arange(400) % 2, decided, sensitive_features={"age": age}, rates="ppr",
            by=smooth("age", (0.2, 0.8)), pos_label=1,
        )  # fmt: skip
        covered += ((table["low"] < 0.3) & (table["high"] > 0.3))[1:].tolist()
    assert 0.91 < np.mean(covered) < 0.99


def test_a_gap_over_an_age_and_a_crossing(scored):
    y, score, group, age, _ = scored
    found = gap(y, (score > 0.5).astype(int), rate="ppr", sensitive_features={"age": age},
                by=smooth("age"))  # fmt: skip
    assert 0.1 < found.value < 0.5
    crossed = audit(
        y, score, sensitive_features={"age": age, "g": group}, by=[("g", smooth("age", 3))],
        rates="ppr",
    )  # fmt: skip
    assert len(crossed.rates) == 10


def test_where_they_cannot_be_read_they_are_refused(scored):
    y, _, group, age, _ = scored
    soft = group_probabilities(pd.get_dummies(group).astype(float), "g")
    with pytest.raises(InvalidInputError, match="not supported of three classes"):
        audit_classes(np.arange(3_000) % 3, np.arange(3_000) % 3, sensitive_features=soft)
    with pytest.raises(InvalidInputError, match="not supported where a number is predicted"):
        audit_numbers(age, age, sensitive_features=soft)
    with pytest.raises(InvalidInputError, match="compare its values as groups"):
        audit(y, y * 1.0, sensitive_features={"age": age % 3}, by=smooth("age"))
