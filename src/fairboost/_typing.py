"""The vocabulary of arrays, so that signatures say what they take."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Double precision: rates, violations, multipliers."""

ScoreArray: TypeAlias = NDArray[np.floating[Any]]
"""Log-odds in the precision that the engine keeps them in."""

Float32Array: TypeAlias = NDArray[np.float32]
"""Single precision: the gradients and Hessians that engines read."""

IntArray: TypeAlias = NDArray[np.integer[Any]]
"""Labels, and codes of cells and groups; -1 stands for a missing group."""

BoolArray: TypeAlias = NDArray[np.bool_]

Matrix: TypeAlias = Any
"""A table of features in whatever form the engine takes; never looked into here."""

ArrayLike: TypeAlias = Any
"""One column in whatever form users keep it: array, series, list, Arrow, polars."""

Classifier: TypeAlias = Any
"""An estimator of one of the engines: ``LGBMClassifier`` or ``XGBClassifier``."""

Booster: TypeAlias = Any
"""What such an estimator trains: ``lightgbm.Booster`` or ``xgboost.Booster``."""
