"""Constraints of several classes, of numbers, of ratios and floors, judged on 30,000 fresh rows.

Rows are drawn from a known law, and a model of some rounds is held to one constraint. The report
on the fresh rows is counted again by NumPy from ``predict``. What it finds is taken for the truth,
which verdicts on fewer rows (held out, and other test rows) are compared with: of those that are
certain as many may be wrong as their confidence allows. Beside them, the paper's mode is trained
on weighted and on repeated rows, which must give the same model.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy.stats import binom
from sklearn.base import clone
from xgboost import XGBClassifier, XGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, at_least, bound, parity
from fairboost.exceptions import FairboostError
from tests.fuzz import workers
from tests.fuzz.inputs import Broken, expect

SECONDS = 120.0
FRESH = 30_000
WRONG = 0.025
"""Share of certain verdicts that may be wrong: each end holds at 97.5%."""
FINE = ("right", "wrong", "not certain", "the same", "rounding", "refused")
SWITCHED = "certain and wrong, more than chance allows"


def campaign(n: int, seed: int) -> dict[str, int]:
    """Try ``n`` fits; returns how many verdicts had each outcome."""
    found = workers.outcomes(__name__, [seed], n, SECONDS)
    counts = Counter(what for case in found for what, _ in case)
    for rows in ("held out", "test"):
        certain = {k: counts[f"verdicts on {rows}: certain, {k}"] for k in ("right", "wrong")}
        if binom.sf(certain["wrong"] - 1, sum(certain.values()), WRONG) < 0.001:
            counts[f"verdicts on {rows}: {SWITCHED}"] += 1
    return dict(sorted(counts.items()))


def draw(kind: str, n: int, seed: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels (two, three) or numbers, and three groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(n, 4)) + np.outer(group, [0.3, 0.0, 0.5, 0.0])
    worth = X[:, 0] + X[:, 1] + (1.0 + 0.2 * group) * rng.normal(size=n)
    if kind == "number":
        return X, 5.0 + worth, group
    if kind == "count":
        return X, rng.poisson(np.exp(0.4 * worth - 0.5)).astype(float), group
    cuts = [0.5] if kind == "labels" else [-0.6, 1.0]
    return X, np.digitize(worth, cuts), group


CONSTRAINTS: dict[str, list[Callable[[float], Any]]] = {
    "labels": [
        lambda t: parity("ppr", ratio=1 - 2 * t),
        lambda t: parity("tpr", ratio=1 - t, of="everyone"),
        lambda t: parity("ppr", ratio=1 - 2 * t, reference={"g": 0}),
        lambda t: at_least("tpr", 0.9 - 2 * t),
        lambda t: bound("fpr", 0.1 + t),
        lambda t: parity("fnr", t),
    ],
    "classes": [
        lambda t: parity("recall", t, of=1),
        lambda t: parity("given", t, of=2),
        lambda t: parity("accuracy", t),
        lambda t: parity("given", ratio=1 - 2 * t, of=2),
        lambda t: at_least("recall", 0.7 - t, of=0),
    ],
    "number": [
        lambda t: parity("prediction", t),
        lambda t: parity("loss", 5 * t),
        lambda t: bound("loss", 1.5 + t),
    ],
    "count": [
        lambda t: parity("prediction", t, relative=True),
        lambda t: parity("prediction", ratio=1 - t),
    ],
}


def outcomes(seed: int, k: int) -> list[tuple[str, str]]:
    """What came of a case, and details."""
    rng = np.random.default_rng([seed, k])
    try:
        if rng.random() < 0.2:
            return [(f"weights for repeated rows: {repeats(rng)}", "")]
        return judged(rng)
    except Broken as broken:
        return [("broken", str(broken))]
    except FairboostError as error:
        return [("refused", str(error))]
    except Exception as error:
        return [(f"raised {type(error).__name__}", repr(error))]


# Fresh rows
# -----------------------------------------------------------------------


def judged(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Fit, and compare verdicts with the truth."""
    kind = str(rng.choice(list(CONSTRAINTS), p=[0.4, 0.3, 0.15, 0.15]))
    made = CONSTRAINTS[kind][rng.integers(len(CONSTRAINTS[kind]))]
    constraint = made(float(rng.choice([0.03, 0.1])))
    seed, n = int(rng.integers(2**31)), int(rng.choice([1_000, 4_000]))
    X, y, s = draw(kind, n, [seed, 0])
    model = estimator(rng, kind)(
        constraint=constraint, random_state=0,
        holdout=[0.3, "cross", "auto"][rng.integers(3)],
        confidence=[None, None, 0.95][rng.integers(3)],
    )  # fmt: skip
    model.fit(X, y, sensitive_features={"g": s})
    fresh, test = draw(kind, FRESH, [seed, 1]), draw(kind, n // 2, [seed, 2])
    report, other = (
        model.report_on(a, b, sensitive_features={"g": c}) for a, b, c in (fresh, test)
    )
    count_again(kind, model, report, *fresh)
    found = []
    (truth,) = report.test_verdicts
    for rows, verdict in (("held out", report.verdicts[0]), ("test", other.test_verdicts[0])):
        within = verdict.within == truth.within
        how = f"certain, {'right' if within else 'wrong'}" if verdict.certain else "not certain"
        found.append((f"verdicts on {rows}: {how}", f"{verdict}, {truth}"))
    return [*found, (f"rates on fresh rows, {kind}: counted again, the same", "")]


def estimator(rng: np.random.Generator, kind: str) -> Callable[..., Any]:
    """An estimator of either engine, without a constraint."""
    numbers, rounds = kind in ("number", "count"), int(rng.integers(5, 25))
    if rng.random() < 0.5:
        options = {"objective": "poisson"} if kind == "count" else {}
        made = LGBMRegressor if numbers else LGBMClassifier
        engine: Any = made(n_estimators=rounds, num_leaves=7, n_jobs=1, verbose=-1, **options)
    else:
        options = {"objective": "count:poisson"} if kind == "count" else {}
        made = XGBRegressor if numbers else XGBClassifier
        engine = made(n_estimators=rounds, max_depth=3, n_jobs=1, verbosity=0, **options)
    of = FairGBMRegressor if numbers else FairGBMClassifier
    return lambda **asked: of(engine, **asked)


def count_again(kind: str, model: Any, report: Any, X: Any, y: Any, s: Any) -> None:
    """Every line of the report on the fresh rows, by NumPy from ``predict``."""
    said, every = model.predict(X), np.ones(len(y), bool)
    by_rate: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "ppr": (said == 1, every), "tpr": (said == 1, y == 1), "fpr": (said == 1, y == 0),
        "fnr": (said == 0, y == 1), "accuracy": (said == y, every), "prediction": (said, every),
        "loss": ((said - y) ** 2, every),
    }  # fmt: skip
    for j in range(3):
        by_rate[f"given[{j}]"] = said == j, every
        by_rate[f"recall[{j}]"] = said == j, y == j
    lines = 0
    for line in report.rates[np.isfinite(report.rates["test"])].itertuples():
        values, rows = by_rate[line.rate]
        inside = rows if line.group == "everyone" else rows & (s == int(line.group[-1]))
        mine = float(values[inside].mean())
        theirs = report.rates.loc[line.Index, "test"]
        expect(
            abs(mine - theirs) <= 1e-6 * max(1.0, abs(mine)),
            f"{line.rate} of {line.group} ({kind}) is {theirs}, by hand {mine}",
        )
        lines += 1
    expect(lines >= 1, f"no line of {list(report.rates['rate'])} is on the fresh rows")


# Weights
# -----------------------------------------------------------------------


def repeats(rng: np.random.Generator) -> str:
    """The paper's mode on rows with whole weights, and on each row as often as that.

    Features have few values, and leaves are bounded by weights: the number of rows in a leaf is
    not that of repeated ones.
    """
    X, y, s = draw("labels", 800, int(rng.integers(2**31)))
    X, times = np.round(2 * X), rng.integers(0, 4, len(y))
    engines = [
        LGBMClassifier(
            n_estimators=8, num_leaves=5, min_child_samples=0, min_child_weight=5.0,
            min_data_in_bin=1, force_col_wise=True, n_jobs=1, verbose=-1,
        ),
        XGBClassifier(n_estimators=8, n_jobs=1, verbosity=0),
    ]  # fmt: skip
    engine = engines[rng.integers(2)]
    names = ["equal_opportunity", "predictive_equality", "demographic_parity"]
    constraint = names[rng.integers(3)]
    few, at = np.flatnonzero(times), np.repeat(np.arange(len(y)), times)
    weight = times[few].astype(float)

    def trained(made: Any, rows: np.ndarray, w: np.ndarray | None, **given: Any) -> np.ndarray:
        made.fit(X[rows], y[rows], sample_weight=w, **given)
        return made.predict_proba(X)[:, 1]

    def fair(rows: np.ndarray, w: np.ndarray | None) -> tuple[Any, np.ndarray]:
        model = FairGBMClassifier.paper(engine, constraint=constraint, tolerance=0.05)
        return model, trained(model, rows, w, sensitive_features={"g": s[rows]})

    (model, p), (_, q) = fair(few, weight), fair(at, None)
    reports = [
        model.report_on(X[r], y[r], sensitive_features={"g": s[r]}, sample_weight=w)
        for r, w in ((few, weight), (at, None))
    ]
    one, other = (r.rates["test"].to_numpy() for r in reports)
    expect(np.allclose(one, other, atol=1e-9, equal_nan=True), f"rates {one}, {other}")
    values = [[v.value for v in r.test_verdicts] for r in reports]
    expect(np.allclose(*values, atol=1e-9), f"verdicts {values}")
    if np.abs(p - q).max() < 1e-6:
        return "the same"
    # Splits may tie: weights that are rounded otherwise then give another model, and in the plain
    # engine so may rows that are repeated.
    moved = np.abs(trained(clone(engine), few, weight) - trained(clone(engine), at, None)).max()
    for seed in range(8 if moved < 1e-6 else 0):
        noise = 1e-6 * np.random.default_rng(seed).uniform(-1, 1, len(few))
        moved = max(moved, np.abs(fair(few, weight * (1 + noise))[1] - p).max())
    expect(moved > 1e-6, f"{constraint}: scores differ by {np.abs(p - q).max():.3g}")
    return "the same but for rounding"


def work(seed: int, start: int, stop: int) -> None:
    """Try cases; a line of JSON for each."""
    warnings.simplefilter("ignore")
    for k in range(start, stop):
        print(json.dumps(outcomes(seed, k)), flush=True)


if __name__ == "__main__":
    work(*map(int, sys.argv[2:]))
