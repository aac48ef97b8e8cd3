"""Figures equal scikit-learn's, and their intervals hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    mean_poisson_deviance,
    mean_squared_error,
    roc_auc_score,
)

from fairboost.exceptions import InvalidInputError
from fairboost.kernel.losses import Loss
from fairboost.metrics import audit_numbers
from fairboost.metrics.performance import (
    ClassOutput,
    ModelOutput,
    NumberOutput,
    performance_table,
)


def make(n, rng, shift=1.0):
    labels = (rng.random(n) < 0.3).astype(np.int8)
    base = rng.normal(size=n)
    proba = 1 / (1 + np.exp(-(shift * labels - 1 + base)))
    other = 1 / (1 + np.exp(-(shift * labels - 1 + base + 0.3 * rng.normal(size=n))))
    return labels, proba, other


def said(p):
    return ModelOutput(p, p >= 0.5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [1, 8])
def test_figures_are_those_of_scikit_learn(weighted, decimals):
    rng = np.random.default_rng(0)
    labels, proba, _ = make(400, rng)
    proba = proba.round(decimals).clip(0.01, 0.99)
    weight = rng.integers(1, 5, 400).astype(float) if weighted else None
    table = performance_table(labels, {"m": said(proba)}, weight).set_index("measure")["value"]
    expected = {
        "accuracy": accuracy_score(labels, proba >= 0.5, sample_weight=weight),
        "AUC": roc_auc_score(labels, proba, sample_weight=weight),
        "log loss": log_loss(labels, proba, sample_weight=weight),
        "Brier score": brier_score_loss(labels, proba, sample_weight=weight),
    }
    assert table.to_dict() == pytest.approx(expected)


def test_difference_is_paired():
    labels, proba, other = make(2000, np.random.default_rng(1))
    table = performance_table(labels, {"a": said(proba), "b": said(other)})
    by_model = table.set_index(["measure", "model"])
    for measure in ("accuracy", "AUC", "log loss", "Brier score"):
        a, b, d = (by_model.loc[(measure, m)] for m in ("a", "b", "difference"))
        assert d["value"] == pytest.approx(a["value"] - b["value"])
        # Known better than the figures themselves, as the models mostly agree.
        assert d["high"] - d["low"] < 0.8 * (a["high"] - a["low"])


def test_a_model_does_not_differ_from_itself():
    labels, proba, _ = make(300, np.random.default_rng(2))
    table = performance_table(labels, {"a": said(proba), "b": said(proba)})
    same = table[table["model"] == "difference"][["value", "low", "high"]]
    assert (same.to_numpy() == 0).all()


def test_intervals_hold_the_truth():
    rng = np.random.default_rng(3)
    labels, proba, other = make(400_000, rng)
    truth = performance_table(labels, {"a": said(proba), "b": said(other)})["value"].to_numpy()
    held = np.zeros(len(truth))
    repeats = 200
    for _ in range(repeats):
        labels, proba, other = make(300, rng)
        table = performance_table(labels, {"a": said(proba), "b": said(other)})
        held += (table["low"].to_numpy() <= truth) & (truth <= table["high"].to_numpy())
    # 95% of 200, less three standard errors.
    assert (held / repeats > 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats)).all()


@pytest.mark.parametrize("shift", [0.5, 2.5])
@pytest.mark.parametrize(("n", "positive"), [(20, 8), (100, 5), (600, 20)])
def test_the_interval_of_an_auc_of_few_rows_holds_the_truth(n, positive, shift):
    """Placements of few rows may all be equal, which says little of others."""
    rng, held, repeats = np.random.default_rng(5), 0, 400
    labels, truth = np.repeat([1, 0], [positive, n - positive]), norm.cdf(shift / np.sqrt(2))
    for _ in range(repeats):
        score = shift * labels + rng.normal(size=n)
        area = performance_table(labels, {"m": said(norm.cdf(score))}).iloc[1]
        held += area["low"] <= truth <= area["high"]
    assert held / repeats > 0.92


def test_models_that_agree_on_few_rows_may_differ_on_others():
    labels, proba, other = make(30, np.random.default_rng(2))
    other = np.where(proba >= 0.5, np.maximum(other, 0.5), np.minimum(other, 0.4))
    table = performance_table(labels, {"a": said(proba), "b": said(other)})
    line = table[table["model"] == "difference"].iloc[0]
    assert line["value"] == 0 and line["low"] < -0.05 and line["high"] > 0.05
    one = np.r_[1, np.zeros(29, int)]  # of a single positive row
    area = performance_table(one, {"a": said(proba), "b": said(other)}).iloc[-3]
    assert area["measure"] == "AUC" and area["high"] - area["low"] > 1


def test_certain_and_wrong_is_a_large_loss_and_not_an_infinite_one():
    table = performance_table(np.array([0, 1]), {"m": said(np.array([1.0, 0.0]))})
    loss = table.set_index("measure")["value"]["log loss"]
    assert 30 < loss < 40


# Of numbers


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_numbers_are_those_of_scikit_learn(weighted):
    rng = np.random.default_rng(0)
    predicted = rng.exponential(size=400)
    y = rng.poisson(predicted).astype(float)
    weight = rng.integers(1, 5, 400).astype(float) if weighted else None
    model = {"m": NumberOutput(predicted, Loss("poisson"))}
    table = performance_table(y, model, weight).set_index("measure")["value"]
    assert table.to_dict() == pytest.approx(
        {
            "Poisson deviance": mean_poisson_deviance(y, predicted, sample_weight=weight),
            "absolute error": mean_absolute_error(y, predicted, sample_weight=weight),
            "squared error": mean_squared_error(y, predicted, sample_weight=weight),
        }
    )


def test_losses_per_unit_of_exposure_are_those_of_the_audit():
    rng = np.random.default_rng(0)
    years, rates = rng.uniform(0.1, 1.0, 500), rng.exponential(size=500)
    y = rng.poisson(rates * years).astype(float)
    two = {
        name: NumberOutput(factor * rates * years, Loss("poisson"), years)
        for name, factor in (("a", 1.0), ("b", 1.2))
    }
    table = performance_table(y, two, years).set_index(["measure", "model"])["value"]
    groups = rng.choice(["x", "y"], 500)
    audit = audit_numbers(y, rates * years, sensitive_features=groups, exposure=years)
    assert table["Poisson deviance", "a"] == pytest.approx(float(audit.overall["mean_loss"]))
    losses = table["Poisson deviance"]
    assert losses["difference"] == pytest.approx(losses["a"] - losses["b"])
    assert losses["difference"] < 0
    with pytest.raises(InvalidInputError, match="y_pred must be above 0 for the Poisson deviance"):
        performance_table(y, {"m": NumberOutput(0.0 * years, Loss("poisson"))})


def test_figures_of_classes_are_scikit_learns():
    rng = np.random.default_rng(0)
    labels, weight = rng.integers(0, 4, 500), rng.uniform(0.5, 2.0, 500)
    proba = rng.dirichlet(np.ones(4), 500) + 2 * np.eye(4)[labels] * rng.random((500, 1))
    proba /= proba.sum(axis=1, keepdims=True)
    given = proba.argmax(axis=1)
    other = ClassOutput(np.full((500, 4), 0.25), np.zeros(500, int))
    found = performance_table(labels, {"one": ClassOutput(proba, given), "none": other}, weight)
    values = found.set_index(["model", "measure"])["value"]
    assert values["one", "accuracy"] == pytest.approx(
        accuracy_score(labels, given, sample_weight=weight)
    )
    assert values["one", "log loss"] == pytest.approx(
        log_loss(labels, proba, sample_weight=weight)
    )
    squares = ((proba - np.eye(4)[labels]) ** 2).sum(axis=1)
    assert values["one", "Brier score"] == pytest.approx(np.average(squares, weights=weight))
    assert values["none", "Brier score"] == pytest.approx(0.75)
    assert values["difference", "log loss"] == pytest.approx(values["one", "log loss"] - np.log(4))
