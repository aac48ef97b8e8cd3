"""Methods that fairboost's regressor is compared with, each from its paper or its package.

* **transport**: each group's predictions are mapped to the barycentre of the groups' quantile
  functions (Chzhen et al., NeurIPS 2020; the method of EquiPy). It takes the group of everyone it
  predicts for.
* **unlabeled**: the blind post-processor of Taturyan, Chzhen and Hebiri (NeurIPS 2024,
  :func:`parity_on_grid`).
* **shift**: the plain predictions less the cheapest sum of the groups' probabilities that makes
  means equal (:func:`least_shift`). It shows what equal means cost a model that sees no group.
* **reduction**: fairlearn's, of which regression has one constraint, a bound on groups' losses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from fairlearn.reductions import (
    BoundedGroupLoss,
    ExponentiatedGradient,
    GridSearch,
    SquareLoss,
)
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

TREES = 100
POINTS = 51
"""Points of the grid that the blind post-processor predicts on."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a table.

    Parameters
    ----------
    X, y, s, exposure
        Features, targets, groups, and exposures where there are any.
    """

    X: pd.DataFrame
    y: np.ndarray
    s: np.ndarray
    exposure: np.ndarray | None

    def take(self, rows: np.ndarray) -> Rows:
        """Some of them."""
        exposure = None if self.exposure is None else self.exposure[rows]
        return Rows(self.X.iloc[rows], self.y[rows], self.s[rows], exposure)

    def halves(self) -> tuple[Rows, Rows]:
        """The first 80% to train on, and the others to adjust on."""
        cut = int(0.8 * len(self.y))
        return self.take(np.arange(cut)), self.take(np.arange(cut, len(self.y)))


def engine(seed: int, objective: str = "regression") -> LGBMRegressor:
    """The model of all methods."""
    return LGBMRegressor(
        n_estimators=TREES, objective=objective, n_jobs=1, random_state=seed, verbose=-1
    )


def transport(train: Rows, test: Rows, seed: int) -> np.ndarray:
    """Each group's predictions mapped to the barycentre of the groups' quantile functions.

    The model is trained on 80% of the training rows, and quantiles are read on the others. Unlike
    a fairboost model it takes the group of every row that it predicts for.
    """
    here, there = train.halves()
    model = engine(seed).fit(here.X, here.y)
    known, out = np.asarray(model.predict(there.X)), np.asarray(model.predict(test.X))
    sorted_by = {g: np.sort(known[there.s == g]) for g in np.unique(there.s)}
    levels = np.linspace(0.0, 1.0, 1_001)
    shares = {g: len(v) / len(known) for g, v in sorted_by.items()}
    barycentre = sum(shares[g] * np.quantile(v, levels) for g, v in sorted_by.items())
    for g, values in sorted_by.items():
        rows = test.s == g
        ranks = (np.arange(len(values)) + 0.5) / len(values)
        out[rows] = np.interp(np.interp(out[rows], values, ranks), levels, barycentre)
    return out


@dataclass(frozen=True)
class OnGrid:
    """A law of predictions on a grid for each row, by its prediction and probable groups.

    Parameters
    ----------
    grid : (n_points,) float64
        What may be predicted.
    prices : (n_points, n_groups) float64
        What each point costs a group, beyond its squared distance.
    shares : (n_groups,) float64
        Shares of the groups.
    temperature : float
        Weight of the entropy: a draw strays from the best point by the root of half of it.
    """

    grid: np.ndarray
    prices: np.ndarray
    shares: np.ndarray
    temperature: float

    def worth(self, predicted: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """What each point is worth to each row, over the temperature."""
        pull = (likely / self.shares - 1.0) @ self.prices.T
        return (pull - (predicted[:, np.newaxis] - self.grid) ** 2) / self.temperature

    def draw(self, predicted: np.ndarray, likely: np.ndarray, seed: int) -> np.ndarray:
        """A prediction for each row."""
        law = softmax(self.worth(predicted, likely), axis=1).cumsum(axis=1)
        u = np.random.default_rng(seed).random((len(predicted), 1))
        at = np.minimum((law < u).sum(axis=1), len(self.grid) - 1)
        return self.grid[at]


def parity_on_grid(predicted: np.ndarray, likely: np.ndarray, points: int = POINTS) -> OnGrid:
    """The blind post-processor of Taturyan, Chzhen and Hebiri, without slack.

    Of all laws of a prediction on a grid given the features, it is the one nearest to a model's
    predictions f(x) in squared distance, less a little entropy, that is alike in all groups::

        minimise   E sum_k law(k | x) (f(x) - grid_k)^2  -  temperature * entropy
        such that  E law(k | x) (P(s | x) / P(s) - 1) = 0      for every point k and group s

    Its dual is smooth and convex in one price per point and group,
    ``E temperature * logsumexp_k of worth_k(x)``. The paper descends on it row by row; here all
    rows are at hand, and 200 steps of L-BFGS come as near to the minimum as the draws can tell.

    Parameters
    ----------
    predicted : (n,) float64
        Predictions of a model for rows that it was not trained on; no target is needed.
    likely : (n, n_groups) float64
        Probabilities of groups given the features.
    points : int
        Size of the grid, which spans the predictions.
    """
    grid = np.linspace(predicted.min(), predicted.max(), points)
    step, shares = grid[1] - grid[0], likely.mean(axis=0)
    # A price moves the law of a small or a recognisable group more: all are brought to one scale.
    told = likely / shares - 1.0
    scale = np.maximum(np.sqrt((told**2).mean(axis=0)), 1e-3) / step
    shape = points, len(shares)

    def at(x: np.ndarray) -> OnGrid:
        return OnGrid(grid, x.reshape(shape) / scale, shares, step**2 / 2)

    def dual(x: np.ndarray) -> tuple[float, np.ndarray]:
        law = at(x)
        worth = law.worth(predicted, likely)
        value = law.temperature * logsumexp(worth, axis=1).mean()
        slope = softmax(worth, axis=1).T @ told / len(predicted)
        # In squared steps of the grid, whatever the unit of the prediction.
        return value / step**2, (slope / scale).ravel() / step**2

    found = minimize(
        dual, np.zeros(points * len(shares)), jac=True, method="L-BFGS-B",
        options={"maxiter": 200, "ftol": 1e-12, "gtol": 1e-6},
    )  # fmt: skip
    return at(found.x)


def unlabeled(train: Rows, test: Rows, seed: int) -> np.ndarray:
    """The blind post-processor after LightGBM; it draws predictions, and sees no group.

    Model and probabilities of groups are trained on 80% of the training rows, prices are found on
    the others.
    """
    here, there = train.halves()
    model = engine(seed).fit(here.X, here.y)
    groups = recogniser(seed).fit(here.X, here.s)
    law = parity_on_grid(np.asarray(model.predict(there.X)), groups.predict_proba(there.X))
    return law.draw(np.asarray(model.predict(test.X)), groups.predict_proba(test.X), seed)


def least_shift(predicted: np.ndarray, likely: np.ndarray, tolerance: float) -> np.ndarray:
    """What to take off a prediction for each unit of a group's probability.

    Of all ``f(x) - sum_g price_g P(g | x)`` it is the nearest to f in squared distance whose group
    means are within half the tolerance of everyone's::

        minimise   price' C price        C: covariances of the probabilities
        such that  |E[f | g] - E[f] - sum_h price_h (E[P_h | g] - E[P_h])| <= tolerance / 2

    No other function of x with these means is nearer to f, if the probabilities are right: what a
    function has in it beyond the probabilities moves no group's mean.

    Parameters
    ----------
    predicted : (n,) float64
        Predictions of a model for rows that it was not trained on.
    likely : (n, n_groups) float64
        Probabilities of groups given the features.
    tolerance : float
        By how much group means may differ.
    """
    shares = likely / likely.sum(axis=0)  # means of a group, as far as features tell it
    apart = shares.T @ predicted - predicted.mean()
    moved = shares.T @ likely - likely.mean(axis=0)
    costs = np.cov(likely.T, ddof=0)

    def inside(price: np.ndarray) -> np.ndarray:
        left = apart - moved @ price
        return np.concatenate([tolerance / 2 - left, tolerance / 2 + left])

    def slope(price: np.ndarray) -> np.ndarray:
        return np.concatenate([moved, -moved])

    found = minimize(
        lambda price: price @ costs @ price, np.linalg.lstsq(moved, apart)[0],
        jac=lambda price: 2 * costs @ price, method="SLSQP",
        constraints=[{"type": "ineq", "fun": inside, "jac": slope}],
        options={"maxiter": 500, "ftol": 1e-10},
    )  # fmt: skip
    return np.asarray(found.x)


def shift(tolerance: float, train: Rows, test: Rows, seed: int) -> np.ndarray:
    """Equal means by the least change of LightGBM's predictions; it sees no group.

    Model and probabilities of groups are trained on 80% of the training rows, prices are found on
    the others.
    """
    here, there = train.halves()
    model, groups = engine(seed).fit(here.X, here.y), recogniser(seed).fit(here.X, here.s)
    likely = groups.predict_proba(there.X)
    price = least_shift(np.asarray(model.predict(there.X)), likely, tolerance)
    moved = (groups.predict_proba(test.X) - likely.mean(axis=0)) @ price
    return np.asarray(model.predict(test.X)) - moved


def recogniser(seed: int) -> LGBMClassifier:
    """The model of the groups' probabilities."""
    return LGBMClassifier(
        n_estimators=TREES, learning_rate=0.05, num_leaves=15, n_jobs=1, random_state=seed,
        verbose=-1,
    )  # fmt: skip


def reduction(kind: str, bound: float, train: Rows, test: Rows, seed: int) -> np.ndarray:
    """Fairlearn's reductions, which compare losses on the rows that they train on."""
    moment = BoundedGroupLoss(SquareLoss(train.y.min(), train.y.max()), upper_bound=bound)
    if kind == "grid":
        found = GridSearch(engine(seed), moment, grid_size=8)
        found.fit(train.X, train.y, sensitive_features=train.s)
        return np.asarray(found.predict(test.X))
    found = ExponentiatedGradient(engine(seed), moment, max_iter=5)
    found.fit(train.X, train.y, sensitive_features=train.s)
    return np.asarray(found.predict(test.X, random_state=seed))
