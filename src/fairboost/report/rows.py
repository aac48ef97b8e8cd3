"""The test rows of a report, checked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.data.validation import check_fit_data
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.constraints import Bound, Parity, columns_of, given_of
from fairboost.fairness.rates import as_moment
from fairboost.fairness.two_sided import TwoSided
from fairboost.metrics.sums import crossing_name
from fairboost.model.estimator import FairGBMClassifier
from fairboost.report.evidence import Limit

MOST_CELLS = 150
"""Cells of a crossing that a reader can be asked to look at."""


@dataclass(frozen=True)
class TestSet:
    """Test rows as they were passed (the first four fields), and as they were read."""

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
    ) -> TestSet:
        """Check the rows against the classes of the model."""
        data = check_fit_data(X, y, sensitive_features, sample_weight, model._labels)
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
        used = model._constrained(self.names)
        return {  # code -1, a missing group, is the last
            c.name: np.array([*c.values, None], object)[np.asarray(c.codes)]
            for c in self.columns
            if c.name in used
        }

    def constrained_rates(self, model: FairGBMClassifier) -> list[str]:
        """Names of the rates that the constraints of a model are about."""
        constraints = model._options().constraints(list(self.constrained(model)))
        return [as_moment(moment).name for c in constraints for moment in c.moments]

    def limits(self, model: FairGBMClassifier) -> tuple[Limit, ...]:
        """The constraints of a model on gaps and on single rates, in figures."""
        found = []
        for c in model._options().constraints(list(self.constrained(model))):
            by = columns_of(c)
            order = sorted(range(len(by)), key=lambda k: self.names.index(by[k]))
            attribute = crossing_name([by[k] for k in order]) if by else ""
            if given_of(c):  # the gaps of an audit are given nothing; verdicts tell of this one
                continue
            if isinstance(c, Parity | TwoSided):
                found.append(Limit(attribute, c.name, c.tolerance))
            elif isinstance(c, Bound):
                group = ", ".join(str(c.group[k]) for k in order) or "everyone"
                found.append(Limit(attribute, c.moment.name, c.at_most, group))
        return tuple(found)

    def crossings(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """Every pair of columns, and all of them if they are three.

        Returns
        -------
        fitting : list of tuple of str
            Crossings of at most ``MOST_CELLS`` cells that have rows.
        larger : list of str
            The others, in words.
        """
        wanted: list[tuple[str, ...]] = [*combinations(self.names, 2)]
        wanted += [tuple(self.names)] if len(self.names) == 3 else []
        codes = {c.name: np.asarray(c.codes) for c in self.columns}
        fitting, larger = [], []
        for crossing in wanted:
            rows = np.stack([codes[name] for name in crossing], axis=1)
            cells = len(np.unique(rows[(rows >= 0).all(axis=1)], axis=0))
            if cells <= MOST_CELLS:
                fitting.append(crossing)
            else:
                larger.append(f"{' x '.join(crossing)} ({cells:,} cells)")
        return fitting, larger
