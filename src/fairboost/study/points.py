"""The table of points: one line per model of every trial that counts.

Search, trial, options, figures on validation and test rows, times. All results follow from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fairboost.search.claims import counted
from fairboost.study.config import MetricsConfig
from fairboost.study.runner import Plan, Search

PARTS = ("validation", "test")
FIGURES = (
    *("performance", "fairness", "accuracy", "gap", "ratio", "fpr", "tpr", "threshold"),
    *("rows", "positives"),
)


def collect(plan: Plan) -> pd.DataFrame:
    """The table of points of all trials that count.

    Parameters
    ----------
    plan : Plan
        The study.
    """
    lines = [line for search in plan.searches for line in _lines(search)]
    return pd.DataFrame(lines, columns=None if lines else ["seed", "features", "method", "trial"])


def _lines(search: Search) -> Iterator[dict[str, Any]]:
    method = search.method
    for index, trial in sorted(counted(search.study.get_trials(deepcopy=False)).items()):
        if index >= search.trials:  # of an earlier run that was to have more
            break
        stored = trial.user_attrs["result"]
        common = {
            "seed": search.seed,
            "features": search.features,
            "method": method.name,
            "models": method.models,
            "trials": search.trials,
            "trial": index,
            "options": json.dumps(trial.params, sort_keys=True),
            "cpu": stored["cpu"],
            "wall": stored["wall"],
            "error": stored.get("error"),
            "commit": stored["commit"],
            "versions": json.dumps(stored["versions"], sort_keys=True),
        }
        if "error" in stored:
            yield {**common, "algorithm": method.name, "variant": ""}
        for point in stored.get("points", []):
            variant = point["variant"]
            own = f"{method.name}, {variant}" if method.separate and variant else method.name
            figures = {f"{part}_{name}": point[part][name] for part in PARTS for name in FIGURES}
            rates = {f"{part}_rates": json.dumps(point[part]["rates"]) for part in PARTS}
            yield {**common, "algorithm": own, "variant": variant, **figures, **rates}


def _ends(rates: dict[str, list[list[Any]]]) -> tuple[tuple[float, int], tuple[float, int]]:
    """Lowest and highest rate with the rows that count, of the rate that differs most."""
    worst = max(rates.values(), key=lambda groups: float(np.ptp([v for _, v, n in groups if n])))
    groups = sorted(((v, n) for _, v, n in worst if n), key=lambda pair: pair[0])
    return groups[0], groups[-1]


def gap_error(rates: dict[str, list[list[Any]]]) -> float:
    """Standard error of the widest gap: of its two rates, by the binomial law."""
    return float(np.sqrt(sum(v * (1 - v) / n for v, n in _ends(rates))))


def _ratio_error(rates: dict[str, list[list[Any]]]) -> float:
    """Standard error of the ratio of the same two, by the delta method."""
    (low, n_low), (high, n_high) = _ends(rates)
    if not high:
        return 0.0
    variance = low * (1 - low) / n_low + (low / high) ** 2 * high * (1 - high) / n_high
    return float(np.sqrt(variance) / high)


def weighted_error(model: pd.Series[Any], metrics: MetricsConfig, alpha: float) -> float:
    """Standard error of a model's weighted metric, from the test rows."""
    rates = json.loads(model["test_rates"])
    share, rows = model["test_performance"], model["test_rows"]
    if metrics.performance == "tpr":
        rows = model["test_positives"]
    performance = np.sqrt(share * (1 - share) / rows)
    fairness = _ratio_error(rates) if metrics.fairness == "ratio" else gap_error(rates)
    return float(np.hypot(alpha * performance, (1 - alpha) * fairness))
