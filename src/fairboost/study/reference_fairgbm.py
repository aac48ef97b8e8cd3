"""One fit of the authors' own ``fairgbm`` package, in an environment of its own.

It needs NumPy 1 and an old scikit-learn, so this file is run as a script by another interpreter,
and imports nothing of fairboost:

    python3.11 -m venv DIR
    DIR/bin/pip install fairgbm "numpy<2" "scipy<1.12" "scikit-learn<1.3" "pandas<2.2" pyarrow

    DIR/bin/python reference_fairgbm.py INPUT.npz OUTPUT.npz

INPUT holds ``X``, ``y``, ``groups`` of the training rows, ``X_test``, the numbers ``categorical``
of the categorical columns, and ``options``, the engine's as JSON. OUTPUT holds ``decision`` and
``proba`` on the test rows, ``seconds`` and ``cpu_seconds`` of the fit, and the package's
``version``.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np


def main(source: str, target: str) -> None:
    """Fit on what one file holds and write the other."""
    from fairgbm import FairGBMClassifier

    with np.load(source) as data:
        X, y, groups, X_test = data["X"], data["y"], data["groups"], data["X_test"]
        categorical = data["categorical"].tolist()
        options = json.loads(str(data["options"]))
    # Groups coded otherwise, and unknown names of constraints, leave it unconstrained in silence.
    codes = np.unique(groups)
    if codes.tolist() != list(range(len(codes))):
        raise SystemExit(f"groups must be coded 0 to k - 1 without gaps; found {codes.tolist()}")
    if options["constraint_type"] not in ("FNR", "FPR", "FPR,FNR"):
        raise SystemExit(f"unknown constraint_type {options['constraint_type']!r}")
    if options.get("global_constraint_type", "") not in ("", "FNR", "FPR", "FPR,FNR"):
        raise SystemExit(f"unknown global_constraint_type {options['global_constraint_type']!r}")
    model = FairGBMClassifier(**options)
    start, cpu_start = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that categorical features are named
        model.fit(X, y, constraint_group=groups, categorical_feature=categorical)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    np.savez(
        target,
        decision=model.predict(X_test),
        proba=model.predict_proba(X_test)[:, 1],
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        version=version("fairgbm"),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
