"""Test rows, as a report looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.data.validation import check_fit_data
from fairboost.exceptions import InvalidInputError
from fairboost.model.estimator import FairGBMClassifier

MOST_CELLS = 150
"""Cells of a crossing that a reader can be asked to look at."""


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

    def constrained(self, model: FairGBMClassifier) -> dict[str, np.ndarray]:
        """The sensitive columns that a model was trained on, out of those to report on."""
        report = model.fairness_report_
        by = [] if report is None else report.rates["by"].unique().tolist()
        used = {name for columns in by for name in _split(columns, self.names)}
        used.discard("everyone")
        if absent := sorted(used - set(self.names)):
            raise InvalidInputError(
                f"the model is held to groups by {', '.join(absent)}, which is not among the "
                f"sensitive_features ({', '.join(self.names)}); pass the columns that it was "
                "trained with, and others besides if you like"
            )
        shown = [c for c in self.columns if c.name in used] if used else self.columns
        out = {}
        for c in shown:
            values = np.array([*c.values, None], object)  # code -1, a missing group, is the last
            out[c.name] = values[np.asarray(c.codes)]
        return out

    @property
    def crossings(self) -> list[tuple[str, ...]]:
        """Every pair of columns, and all of them if they are three, as far as they fit in."""
        return [c for c, cells in self._crossed().items() if cells <= MOST_CELLS]

    @property
    def left_uncrossed(self) -> list[str]:
        """Crossings that have too many cells to show, in words."""
        return [
            f"{' x '.join(c)} ({cells:,} cells)"
            for c, cells in self._crossed().items()
            if cells > MOST_CELLS
        ]

    def _crossed(self) -> dict[tuple[str, ...], int]:
        """Crossings, and how many cells of each have rows."""
        wanted = list(combinations(self.names, 2))
        wanted += [tuple(self.names)] if len(self.names) == 3 else []  # type: ignore[list-item]
        codes = {c.name: np.asarray(c.codes) for c in self.columns}
        found: dict[tuple[str, ...], int] = {}
        for crossing in wanted:
            rows = np.stack([codes[name] for name in crossing], axis=1)
            known = rows[(rows >= 0).all(axis=1)]
            found[tuple(crossing)] = len(np.unique(known, axis=0))
        return found


def _split(columns: str, known: list[str]) -> list[str]:
    """Names out of ``"sex, race"``; a known one may have a comma of its own."""
    return [columns] if columns in known else columns.split(", ")
