"""Small problems with known answers, and plain re-statements of the maths to compare with."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from scipy.special import expit

from fairboost.algorithm.game import Game, Session
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import NOTHING_HELD_OUT
from fairboost.fairness.constraints import bound, columns_of, given_of, parity
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.rates import RATES
from fairboost.fairness.ratios import at_least
from fairboost.tasks.binary import Binary
from fairboost.tasks.layout import lay_out


class MeanGap:
    """Someone else's constraint: the mean distance of groups to their plain mean, of two rates."""

    moments = ("fpr", "tpr")
    by = "g"
    name = "mean_gap"

    def __init__(self, at_most=0.05):
        self.at_most = at_most

    def violations(self, moments: GroupMoments):
        r = moments.values
        spread = ((r - r.mean(axis=1, keepdims=True)) ** 2).mean(axis=1)
        return spread - self.at_most

    def pullback(self, moments: GroupMoments, multipliers):
        r = moments.values
        return multipliers[:, None] * 2 * (r - r.mean(axis=1, keepdims=True)) / r.shape[1]


ALL_CONSTRAINTS = {
    **{f"parity {r}": [parity(r, 0.01, by="g")] for r in RATES},
    **{f"bound {r}": [bound(r, 0.1)] for r in RATES},
    "bound of a group": [bound("fnr", 0.1, group={"g": 2})],
    **{f"ratio {r}": [parity(r, ratio=0.8, by="g")] for r in ("ppr", "tpr", "fpr")},
    "ratio to everyone": [parity("ppr", ratio=0.9, by="g", of="everyone")],
    "ratio to a group": [parity("tpr", ratio=0.7, reference={"g": 1})],
    "ratio given": [parity("ppr", ratio=0.8, by="g", given="h")],
    "floor": [at_least("tpr", 0.8, by="g")],
    "ratio and floor": [parity("ppr", ratio=1.0, by=("g", "h")), at_least("tnr", 0.3, by="h")],
    "equalized odds": [parity("fpr", 0.0, by="g"), parity("fnr", 0.02, by="g")],
    "side by side": [parity("fnr", 0.0, by="g"), parity("fnr", 0.0, by="h")],
    "crossed": [parity("ppr", 0.0, by=("g", "h"))],
    "given": [parity("ppr", 0.0, by="g", given="h"), parity("fnr", 0.01, by="h", given="g")],
    "both directions at once": [parity("fnr", 0.0, by="g"), parity("ppr", 0.0, by="h")],
    "everything": [
        parity("fpr", 0.0, by="g"), parity("tnr", 0.0, by="h"), bound("pnr", 0.3),
        bound("tpr", 0.2, group={"h": 0}), MeanGap(),
    ],
    "someone else's": [MeanGap()],
}  # fmt: skip


def rows(seed, n=60, missing=True, weighted=False):
    """Random rows with two sensitive columns; every cell has rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n).astype(np.int32)
    g = np.arange(n, dtype=np.int32) // 2 % 3
    h = np.arange(n, dtype=np.int32) // 6 % 2
    y[: n // 2] = np.arange(n // 2) % 2  # every label in every cell
    if missing:
        g[-5:], h[-8:-3] = -1, -1
    columns = [SensitiveColumn("g", g, (0, 1, 2)), SensitiveColumn("h", h, (0, 1))]
    weight = rng.integers(1, 4, n).astype(np.float32) / 2 if weighted else None
    return y, columns, weight, build_cells(y, columns, weight)


def proxy_lagrangian(
    f, y, columns, weight, constraints, multipliers, proxy, threshold, class_weight
):
    """n times Eq. 7 of the paper, row by row and group by group, for finite differences."""
    w = np.ones(len(y)) if weight is None else weight.astype(float)
    loss = np.where(y == 1, np.logaddexp(0, -f), np.logaddexp(0, f))
    value = (w * np.asarray(class_weight)[y] * loss).sum()
    first = 0
    for c in constraints:
        rates, weights, names = [], [], groups_of(c, columns)
        for rate in c.moments:
            rate = RATES[rate] if isinstance(rate, str) else rate
            counts = np.ones(len(y), bool) if rate.label is None else y == rate.label
            members = [counts & inside for inside in names.values()]
            step = proxy.value(rate.direction * (f - threshold))
            rates.append([(w * step)[m].sum() / w[m].sum() for m in members])
            weights.append([w[m].sum() for m in members])
        v = c.violations(group_moments(c, np.array(rates), np.array(weights), tuple(names)))
        value += w.sum() * multipliers[first : first + len(v)] @ v
        first += len(v)
    return value


def groups_of(constraint, columns):
    """Each group's name and its rows."""
    by = columns_of(constraint)
    if by == ():
        return {(): np.ones(len(columns[0].codes), bool)}
    chosen = [next(c for c in columns if c.name == name) for name in by]
    stacked = np.stack([c.codes for c in chosen], axis=1)
    present = sorted({tuple(map(int, row)) for row in stacked if (row >= 0).all()})
    return {key: (stacked == key).all(axis=1) for key in present}


def group_moments(constraint, values, weights, names):
    """Moments of groups, those alike in the given columns in one stratum."""
    given = len(given_of(constraint))
    if not given:
        return GroupMoments(values, weights, names)
    _, strata = np.unique([name[-given:] for name in names], axis=0, return_inverse=True)
    return GroupMoments(values, weights, names, strata.reshape(-1))


def session(
    cells, constraints, proxy, player, *, holdout=NOTHING_HELD_OUT, convex=False, confidence=None,
    threshold=0.0, label_weights=(1.0, 1.0), dtype=np.float32, **rows,
):  # fmt: skip
    """The binary game on some rows, and its state; ``rows`` are fields of a ``RowLayout``."""
    layout = lay_out(cells, constraints, holdout, **rows)
    task = Binary(proxy, threshold, convex, label_weights, dtype)
    return Session(Game(task, layout, player, convex, confidence))


def at(lagrangian, moments, multipliers, cut=None):
    """The state of given multipliers, their pullback taken at given moments."""
    start = lagrangian.game.start(multipliers, cut)
    coefficients = lagrangian.game._pullbacks(moments, start.dual)
    return replace(start, coefficients=coefficients)


def without_margin(lagrangian):
    """Aim at the limits themselves, not inside them by the sampling error of the rows measured."""
    lagrangian.game.margins.margin = lambda errors, moments=None: np.zeros_like(errors)
    return lagrangian


class FreeScores:
    """An engine without trees: rows that share a key share a score, moved by Newton steps.

    It is what boosting does when a tree can tell all keys apart, so its answers are exact.
    """

    def __init__(self, keys, learning_rate=0.5):
        self.keys = np.asarray(keys)
        self.learning_rate = learning_rate

    def train(self, objective, rounds, start=0.0):
        scores = np.full(len(self.keys), start, float)
        history = []
        for _ in range(rounds):
            gradient, hessian = getattr(objective, "play", objective)(scores)
            g = np.bincount(self.keys, gradient)
            h = np.bincount(self.keys, hessian)
            scores = scores - self.learning_rate * (g / h)[self.keys]
            history.append(scores)
        return np.array(history)


def lightgbm_on_some(engine, X, y, kept, start, weight=None, callbacks=None):
    """Scores of all rows after every round of a booster on some, binned with the others."""
    w = (np.ones(len(y)) if weight is None else weight)[kept]

    def objective(scores, rows):
        p = expit(scores)
        return (p - rows.get_label()) * w, p * (1 - p) * w

    params = {k: v for k, v in engine.get_params().items() if v is not None}
    rounds = params.pop("n_estimators")
    params |= {
        "seed": params.pop("random_state", None),
        "objective": objective,
    }
    params = {k: v for k, v in params.items() if v is not None}
    binning = {k: v for k, v in params.items() if k != "objective"}
    whole = lightgbm.Dataset(X, y, init_score=np.full(len(y), start), params=binning)
    part = whole.subset(np.flatnonzero(kept).tolist())
    booster = lightgbm.train(params, part, rounds, callbacks=callbacks)
    trees = [booster.predict(X, raw_score=True, num_iteration=t) for t in range(1, rounds + 1)]
    return np.array([np.zeros(len(y)), *trees]) + start


def assert_trace_is_of_the_kept(model, kept, others, folds, y, group, power=1.0):
    """Rates and loss of every round in cross-fitting, computed anew.

    Parameters
    ----------
    kept : (n_rounds, n) float64
        Scores before each round of the booster that is kept.
    others : (n_folds, n_rounds, n) float64
        Those of the boosters that each leave out a fold.
    """
    share = ((len(others) - 1) / len(others)) ** power
    rows, knows = np.arange(len(y)), np.arange(len(others))[:, np.newaxis] != folds
    for t, row in model.trace_.iterrows():
        out_of_fold = others[folds, t, rows]
        for g in np.unique(group):
            positive, counted = np.zeros(2), np.zeros(2)
            for label in (0, 1):
                at = (group == g) & (y == label)
                trained = (kept[t][at] >= 0).sum()
                unknown = (out_of_fold[at] >= 0).sum()
                known = (others[:, t] >= 0)[knows & at].sum() / (len(others) - 1)
                wrong = at.sum() - unknown if label else unknown
                rho = np.clip((known - unknown) * (2 * label - 1) / max(wrong, 1e-300), 0, 1)
                part = share if rho < 1e-6 else (1 - (1 - rho) ** share) / rho
                positive[label] = np.clip(trained + part * (unknown - known), 0, at.sum())
                counted[label] = at.sum()
            expected = {
                "ppr": positive.sum() / counted.sum(),
                "fpr": positive[0] / counted[0],
                "fnr": 1 - positive[1] / counted[1],
            }
            names = {f"rate: {rate}[sensitive_feature={g}]": v for rate, v in expected.items()}
            assert names.keys() & {*row.index}
            for name in names.keys() & {*row.index}:
                assert row[name] == pytest.approx(names[name], abs=1e-6)
        trained, unknown = (
            np.logaddexp(0, np.where(y == 1, -f, f)) for f in (kept[t], out_of_fold)
        )
        known = np.logaddexp(0, np.where(y == 1, -others[:, t], others[:, t]))[knows].sum()
        expected = trained.sum() + share * (unknown.sum() - known / (len(others) - 1))
        assert row["held-out loss"] == pytest.approx(expected / len(y), rel=1e-6)
