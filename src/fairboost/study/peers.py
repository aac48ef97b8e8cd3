"""The methods of others: fairlearn's, reweighing, and the paper's own package.

They get what the paper gives them, or more: of the ten models of a grid search all are candidates
on the validation rows, not only the one that it would keep by its training rows.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd

from fairboost.fairness.operating_points import OperatingPoint
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.reference import reference_python, run_reference
from fairboost.study.task import Found, Task, Timed, as_predictor

REDUCTION_MODELS = 10
"""Models that EG and GS train in a trial: the paper's ten trials of ten."""

THRESHOLD_SHARE = 0.2
CELL_WEIGHTS = (0.1, 10.0)

MOMENTS = {
    "equal_opportunity": "TruePositiveRateParity",
    "predictive_equality": "FalsePositiveRateParity",
    "equalized_odds": "EqualizedOdds",
    "demographic_parity": "DemographicParity",
}
THRESHOLD_CONSTRAINTS = {
    "equal_opportunity": "false_negative_rate_parity",
    "predictive_equality": "false_positive_rate_parity",
    "equalized_odds": "equalized_odds",
    "demographic_parity": "demographic_parity",
}
REFERENCE_TYPES = {
    "equal_opportunity": "FNR",
    "predictive_equality": "FPR",
    "equalized_odds": "FPR,FNR",
}


def _fairlearn(module: str) -> Any:
    try:
        return importlib.import_module(f"fairlearn.{module}")
    except ImportError as error:
        raise ImportError(
            'the methods EG, GS and thresholds need fairlearn: pip install "fairboost[study]"'
        ) from error


def exponentiated_gradient(task: Task) -> Found:
    """EG of fairlearn, which draws one of its models for each row."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, MOMENTS[task.constraint])(difference_bound=task.tolerance)
    model = reductions.ExponentiatedGradient(task.engine(), moment, max_iter=REDUCTION_MODELS)
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)
    return lambda rows: Predictions(
        decision=np.asarray(model.predict(rows.X, random_state=task.seed)) == 1
    )


def grid_search(task: Task) -> Found:
    """GS of fairlearn; all models of the grid are candidates."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, MOMENTS[task.constraint])()
    model = reductions.GridSearch(task.engine(), moment, grid_size=REDUCTION_MODELS)
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s.astype(str))
    # A grid point may weigh one label only; fairlearn then puts a constant in place of a model.
    return {str(k): as_predictor(each) for k, each in enumerate(model.predictors_)}


def reweighing(task: Task) -> Found:
    """Random weights of group and label, log-uniform: a search over multipliers."""
    rng = np.random.default_rng([task.seed, 3])
    codes = pd.factorize(task.train.s, sort=True)[0]
    low, high = np.log(CELL_WEIGHTS)
    weight = np.exp(rng.uniform(low, high, (int(codes.max()) + 2, 2)))
    weight[-1] = 1.0  # of rows whose group is missing, which have the code -1
    return task.engine().fit(task.train.X, task.train.y, sample_weight=weight[codes, task.train.y])


def thresholds(task: Task) -> Found:
    """Thresholds per group by fairlearn, chosen on rows that the trees have not seen."""
    postprocessing = _fairlearn("postprocessing")
    order = np.random.default_rng([task.seed, 4]).permutation(len(task.train))
    cut = round(THRESHOLD_SHARE * len(order))
    held, rows = task.train.take(order[:cut]), task.train.take(order[cut:])
    model = postprocessing.ThresholdOptimizer(
        estimator=task.engine().fit(rows.X, rows.y),
        constraints=THRESHOLD_CONSTRAINTS[task.constraint],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    model.fit(held.X, held.y, sensitive_features=held.s)

    def predict(rows: Rows) -> Predictions:
        found = model.predict(rows.X, sensitive_features=rows.s, random_state=task.seed)
        return Predictions(decision=np.asarray(found) == 1)

    return predict


def reference(task: Task) -> Found:
    """The authors' own package."""
    point = task.metrics.threshold
    bounds = {}
    if isinstance(point, OperatingPoint):
        bounds = {
            "global_constraint_type": "FPR,FNR",
            "global_target_fpr": point.target,
            "global_target_fnr": task.options.get("fnr_target", 0.45),
        }
    options = {
        "constraint_type": REFERENCE_TYPES[task.constraint],
        "multiplier_learning_rate": task.options.get("multiplier_learning_rate", 0.1),
        "n_jobs": task.n_jobs,
        "random_state": task.seed,
        "verbose": -1,
        **bounds,
        **task.engine_options,
    }
    parts = [rows.X for rows in task.judged]
    python = reference_python(task.options.get("python"))
    found = run_reference(python, task.train, parts, options)
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    scores = dict(zip(map(id, parts), np.split(found["proba"], cuts), strict=True))
    return Timed(lambda rows: Predictions(scores[id(rows.X)]), found["seconds"],
                 found["cpu_seconds"], found["version"])  # fmt: skip
