"""The authors' package ``fairgbm``, run by another interpreter; arrays travel through files."""

from __future__ import annotations

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

from fairboost.study.data import Rows

PYTHON_VARIABLE = "FAIRBOOST_REFERENCE_PYTHON"
"""The interpreter of an environment that has the package; ``reference_fairgbm.py`` says how."""


def reference_python(named: str | None = None) -> str | None:
    """The interpreter that has the package: as named, or by the environment; None without one."""
    found = named or os.environ.get(PYTHON_VARIABLE)
    return found if found and Path(found).is_file() else None


def as_matrix(X: pd.DataFrame) -> tuple[NDArray[Any], list[int]]:
    """Numbers only, categories as their codes, and which columns are categorical."""
    columns, categorical = [], []
    for k, name in enumerate(X):
        column = X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            categorical.append(k)
            codes = column.cat.codes.to_numpy(np.float64)
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(column.to_numpy(np.float64))
    return np.column_stack(columns), categorical


def run_reference(
    python: str | None,
    rows: Rows,
    judged: Iterable[pd.DataFrame],
    options: Mapping[str, Any],
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
        done = subprocess.run(
            [str(python), script, source, target], capture_output=True, text=True
        )
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
