"""Test rows, as a report looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost._validation import check_fit_data
from fairboost.cells import SensitiveColumn
from fairboost.estimator import FairGBMClassifier
from fairboost.exceptions import InvalidInputError

__all__ = ["SeenRows"]


@dataclass(frozen=True)
class SeenRows:
    """The test rows, checked."""

    X: Matrix
    y: ArrayLike
    sensitive_features: ArrayLike
    sample_weight: ArrayLike | None
    labels: IntArray
    columns: list[SensitiveColumn]
    weight: FloatArray | None

    @classmethod
    def read(
        cls,
        model: FairGBMClassifier,
        X: Matrix,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None,
    ) -> SeenRows:
        """Check them."""
        data = check_fit_data(X, y, sensitive_features, sample_weight, model.classes_)
        if not data.columns:
            raise InvalidInputError(
                "sensitive_features has no columns, so there are no groups to report on; pass the "
                "sensitive columns of the test rows"
            )
        weight = data.sample_weight
        weight = None if weight is None else weight.astype(np.float64)
        return cls(
            X, y, sensitive_features, sample_weight, data.labels, list(data.columns), weight
        )

    @property
    def names(self) -> list[str]:
        """Names of the sensitive columns."""
        return [c.name for c in self.columns]

    @property
    def crossings(self) -> list[str | tuple[str, ...]]:
        """Every column, every pair of columns, and all of them if they are three."""
        names = self.names
        crossed = list(combinations(names, 2))
        whole = [tuple(names)] if len(names) == 3 else []
        return [*names, *crossed, *whole]
