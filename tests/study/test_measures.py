"""Figures of a model on some rows, against those of ``fairboost.metrics``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import at_fpr
from fairboost.metrics import gap, ratio, tpr_at_fpr
from fairboost.study import Predictions, Rows
from fairboost.study.config import MetricsConfig
from fairboost.study.measures import measure, needs_scores


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    return Rows(pd.DataFrame({"x": y}), y, pd.Series(rng.choice(["a", "b", "c"], 400)))


@pytest.fixture(scope="module")
def score(rows):
    rng = np.random.default_rng(2)
    return np.clip(0.5 + 0.2 * (rows.y - 0.5) + rng.normal(0, 0.2, 400), 0.01, 0.99)


def test_gap_and_ratio_are_those_of_the_metrics(rows, score):
    found = measure(MetricsConfig(rates=("fnr",)), rows, Predictions(score))
    decided = (score >= 0.5).astype(int)
    options = {"rate": "fnr", "sensitive_features": rows.s}
    assert found["gap"] == pytest.approx(gap(rows.y, decided, **options).value)
    assert found["ratio"] == pytest.approx(ratio(rows.y, decided, **options).value)
    assert found["fairness"] == found["ratio"]
    assert found["performance"] == found["accuracy"] == (decided == rows.y).mean()
    assert sum(n for _, _, n in found["rates"]["fnr"]) == (rows.y == 1).sum() == found["positives"]


def test_a_gap_as_fairness_and_the_worst_of_two_rates(rows, score):
    metrics = MetricsConfig(rates=("fnr", "fpr"), fairness="gap")
    found = measure(metrics, rows, Predictions(score))
    decided = (score >= 0.5).astype(int)
    gaps = [gap(rows.y, decided, rate=r, sensitive_features=rows.s).value for r in ("fnr", "fpr")]
    assert found["fairness"] == pytest.approx(1 - max(gaps))


def test_tpr_at_an_operating_point(rows, score):
    metrics = MetricsConfig(performance="tpr", threshold=at_fpr(0.1), rates=("fpr",))
    found = measure(metrics, rows, Predictions(score))
    assert found["performance"] == pytest.approx(tpr_at_fpr(rows.y, score, 0.1).value)
    assert found["fpr"] <= 0.1
    elsewhere = measure(metrics, rows, Predictions(score), threshold=0.5)
    assert elsewhere["threshold"] == 0.5 and elsewhere["fpr"] == (score[rows.y == 0] >= 0.5).mean()


def test_any_scorer_of_scikit_learn(rows, score):
    metrics = MetricsConfig(performance="roc_auc")
    found = measure(metrics, rows, Predictions(score))
    assert found["performance"] == pytest.approx(roc_auc_score(rows.y, score))
    metrics = replace(metrics, performance="balanced_accuracy")
    decided = score >= 0.5
    found = measure(metrics, rows, Predictions(decision=decided))
    expected = (decided[rows.y == 1].mean() + (~decided)[rows.y == 0].mean()) / 2
    assert found["performance"] == pytest.approx(expected)


def test_what_a_model_that_only_decides_cannot_be_judged_by(rows, score):
    decides = Predictions(decision=score >= 0.5)
    assert not needs_scores(MetricsConfig())
    assert not needs_scores(MetricsConfig(performance="f1"))
    for metrics in (MetricsConfig(threshold=at_fpr(0.1)), MetricsConfig(performance="roc_auc")):
        assert needs_scores(metrics)
        with pytest.raises(InvalidInputError, match="only decides"):
            measure(metrics, rows, decides)


def test_a_missing_group_counts_in_no_rate(score):
    y = np.array([1, 1, 0, 1])
    rows = Rows(pd.DataFrame({"x": y}), y, pd.Series(["a", "b", "a", None]))
    decided = np.array([True, False, True, False])
    found = measure(MetricsConfig(), rows, Predictions(decision=decided))
    assert found["rates"]["fnr"] == [["a", 0.0, 1], ["b", 1.0, 1]]
    assert found["tpr"] == pytest.approx(1 / 3)
