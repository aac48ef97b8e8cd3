"""All of training against a second, plain statement of Algorithm 1.

One feature with few values and as many leaves: a tree then gives every value its own Newton step,
and boosting can be followed with a dozen lines of NumPy.
"""

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, bound, parity
from tests.problems import FreeScores

ROUNDS = 12
LEARNING_RATE = 0.3


def data(seed=0, n=900):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    x = rng.integers(0, 8, n)
    p = 1 / (1 + np.exp(-(x - 3.5) * 0.6 - 0.5 * (group - 1)))
    y = (rng.random(n) < p).astype(int)
    key = x * 3 + group  # the feature tells groups apart, in 24 values
    return key, y, group


def engine(**options):
    return LGBMClassifier(
        n_estimators=ROUNDS, learning_rate=LEARNING_RATE, num_leaves=64, min_child_samples=1,
        min_data_in_bin=1, min_child_weight=0, verbose=-1, n_jobs=1, **options,
    )  # fmt: skip


def algorithm_1(key, y, group, constraints, rate):
    """Scores after every round and multipliers, from the text of the paper."""
    n = len(y)
    base = np.log(y.mean() / (1 - y.mean()))
    multipliers = [np.zeros(3 if kind == "parity" else 1) for kind, *_ in constraints]

    def objective(f):
        p = 1 / (1 + np.exp(-f))
        gradient = p - y
        steps = []
        for (kind, label, d, limit), m in zip(constraints, multipliers, strict=True):
            everyone = np.zeros(n, int) if kind == "bound" else group
            counts = y == label
            size = np.array([(counts & (everyone == g)).sum() for g in range(len(m))])
            exact = np.array(
                [(d * f[counts & (everyone == g)] >= 0).mean() if d > 0 else
                 (f[counts & (everyone == g)] < 0).mean() for g in range(len(m))]
            )  # fmt: skip
            proxy = np.array(
                [np.logaddexp(0, d * f[counts & (everyone == g)]).mean() for g in range(len(m))]
            )
            if kind == "bound":
                coef, violation = m, exact - limit
            else:
                j = proxy.argmax()
                coef = np.where(np.arange(3) == j, m.sum() - m[j], -m)
                violation = exact.max() - exact - limit
            slope = d / (1 + np.exp(-d * f))
            gradient = gradient + np.where(counts, n / size[everyone] * coef[everyone] * slope, 0)
            steps.append(violation)
        for k, violation in enumerate(steps):
            multipliers[k] = np.maximum(0, multipliers[k] + rate * violation)
        return gradient, p * (1 - p)

    history = FreeScores(key, LEARNING_RATE).train(objective, ROUNDS, base)
    return history, np.concatenate(multipliers)


@pytest.mark.parametrize(
    ("constraint", "plain", "rate"),
    [
        (parity("fnr", 0.01), [("parity", 1, -1, 0.01)], 0.3),
        (parity("fpr", 0.0), [("parity", 0, +1, 0.0)], 0.3),
        ("equalized_odds", [("parity", 0, +1, 0.0), ("parity", 1, -1, 0.0)], 0.3),
        (
            [parity("tpr", 0.05), bound("fpr", 0.2)],
            [("parity", 1, +1, 0.05), ("bound", 0, +1, 0.2)],
            0.05,
        ),
    ],
    ids=["equal opportunity", "predictive equality", "equalized odds", "parity and bound"],
)
def test_training_follows_the_paper(constraint, plain, rate):
    key, y, group = data()
    history, multipliers = algorithm_1(key, y, group, plain, rate)
    model = FairGBMClassifier.paper(engine(), constraint, multiplier_learning_rate=rate).fit(
        key[:, None].astype(float), y, sensitive_features=group
    )
    assert multipliers.max() > 0.05  # the constraints do bind
    np.testing.assert_allclose(model.multipliers_, multipliers, atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(key[:, None].astype(float)), history[-1], atol=1e-5
    )


def test_iterates_are_the_models_of_all_rounds():
    key, y, group = data()
    X = key[:, None].astype(float)
    history, _ = algorithm_1(key, y, group, [("parity", 1, -1, 0.0)], rate=0.3)

    def fit(iterate):
        model = FairGBMClassifier.paper(
            engine(),
            "equal_opportunity",
            multiplier_learning_rate=0.3,
            iterate=iterate,
            random_state=3,
        )
        return model.fit(X, y, sensitive_features=group)

    np.testing.assert_allclose(
        fit("average").decision_function(X), history.mean(axis=0), atol=1e-5
    )
    randomized = fit("randomized").decision_function(X)
    distance = np.abs(history - randomized).min(axis=0)
    assert distance.max() < 1e-5  # every row got the score of one of the rounds
    assert len({int(np.abs(history[:, i] - randomized[i]).argmin()) for i in range(len(y))}) > 8


def test_the_paper_is_a_choice_of_parameters():
    """``paper`` is nothing but what the parameters spell out, bit by bit."""
    key, y, group = data()
    X = key[:, None].astype(float)
    spelled_out = FairGBMClassifier(
        engine(),
        constraint="equalized_odds",
        tolerance=0.0,
        multipliers="paper",
        multiplier_learning_rate=0.1,
        proxy="cross_entropy",
        holdout=None,
        iterate="last",
    )
    paper = FairGBMClassifier.paper(engine(), "equalized_odds")
    spelled_out.fit(X, y, sensitive_features=group)
    paper.fit(X, y, sensitive_features=group)
    assert (spelled_out.decision_function(X) == paper.decision_function(X)).all()
    assert spelled_out.trace_.equals(paper.trace_)
