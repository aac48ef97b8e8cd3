"""The methods of others: fairlearn's, reweighing, and the paper's own package ``fairgbm``.

That package is run by another interpreter; arrays travel through files.

They get what the paper gives them, or more: of the ten models of a grid search all are candidates
on the validation rows, not only the one that it would keep by its training rows.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairboost.fairness.operating_points import OperatingPoint
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.task import Found, Task, Timed, as_predictor

REDUCTION_MODELS = 10
"""Models that EG and GS train in a trial: the paper's ten trials of ten."""

CELL_WEIGHTS = (0.1, 10.0)

PEER_NAMES = {
    "equal_opportunity": ("TruePositiveRateParity", "false_negative_rate_parity", "FNR"),
    "predictive_equality": ("FalsePositiveRateParity", "false_positive_rate_parity", "FPR"),
    "equalized_odds": ("EqualizedOdds", "equalized_odds", "FPR,FNR"),
    "demographic_parity": ("DemographicParity", "demographic_parity", None),
}
"""Names of each constraint: of fairlearn's moment, of its thresholds, of the paper's package."""

PYTHON_VARIABLE = "FAIRBOOST_REFERENCE_PYTHON"
"""The interpreter of an environment that has the package; ``reference_fairgbm.py`` says how."""


def _fairlearn(module: str) -> Any:
    try:
        return importlib.import_module(f"fairlearn.{module}")
    except ImportError as error:
        raise ImportError(
            'the methods EG, GS and thresholds need fairlearn: pip install "fairboost[study]"'
        ) from error


def _decisions(labels: Any) -> Predictions:
    return Predictions(decision=np.asarray(labels) == 1)


def exponentiated_gradient(task: Task) -> Found:
    """EG of fairlearn, which draws one of its models for each row."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, PEER_NAMES[task.constraint][0])(difference_bound=task.tolerance)
    model = reductions.ExponentiatedGradient(task.engine(), moment, max_iter=REDUCTION_MODELS)
    model.fit(task.train.X, task.train.y, sensitive_features=task.train.s)
    return lambda rows: _decisions(model.predict(rows.X, random_state=task.seed))


def grid_search(task: Task) -> Found:
    """GS of fairlearn; all models of the grid are candidates."""
    reductions = _fairlearn("reductions")
    moment = getattr(reductions, PEER_NAMES[task.constraint][0])()
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
    rows, held = task.held_out()
    model = postprocessing.ThresholdOptimizer(
        estimator=task.engine().fit(rows.X, rows.y),
        constraints=PEER_NAMES[task.constraint][1],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    model.fit(held.X, held.y, sensitive_features=held.s)

    return lambda rows: _decisions(
        model.predict(rows.X, sensitive_features=rows.s, random_state=task.seed)
    )


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
        "constraint_type": PEER_NAMES[task.constraint][2],
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


def reference_python(named: str | None = None) -> str | None:
    """The interpreter that has the package: as named, or by the environment; None without one."""
    found = named or os.environ.get(PYTHON_VARIABLE)
    return found if found and Path(found).is_file() else None


def as_matrix(X: pd.DataFrame) -> tuple[NDArray[Any], list[int]]:
    """Numbers only, categories as their codes, and which columns are categorical."""
    categorical = [k for k, d in enumerate(X.dtypes) if isinstance(d, pd.CategoricalDtype)]
    columns = [column for _, column in X.items()]
    for k in categorical:
        codes = columns[k].cat.codes
        columns[k] = codes.astype(np.float64).where(codes >= 0)
    return np.column_stack([column.to_numpy(np.float64) for column in columns]), categorical


def run_reference(
    python: str | None, rows: Rows, judged: Iterable[pd.DataFrame], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit the authors' package in its own environment.

    Parameters
    ----------
    python : str
        The interpreter.
    rows : Rows
        To train on.
    judged : iterable of DataFrame
        Rows to score.
    options : mapping
        Of its ``FairGBMClassifier``.

    Returns
    -------
    found : dict
        ``decision`` and ``proba`` for the rows judged, laid end to end, ``seconds`` and
        ``cpu_seconds`` of the fit, and ``version``.
    """
    X, categorical = as_matrix(rows.X)
    script = Path(__file__).with_name("reference_fairgbm.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(
            source,
            X=X,
            y=rows.y.astype(int),
            groups=pd.factorize(rows.s, sort=True)[0],
            X_test=np.concatenate([as_matrix(part)[0] for part in judged]),
            categorical=np.array(categorical, int),
            options=np.array(json.dumps(dict(options))),
        )
        command = [str(python), str(script), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the reference package failed:\n{done.stderr}")
        with np.load(target) as found:
            return {
                "decision": found["decision"].astype(int),
                "proba": found["proba"],
                "seconds": float(found["seconds"]),
                "cpu_seconds": float(found["cpu_seconds"]),
                "version": f"fairgbm {found['version']}",
            }
