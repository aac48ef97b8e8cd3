"""A fitted model as the writers of formats see it: trees, features, and how scores become labels.

The decision belongs to the model. A probability alone does not say which label a row is given, so
every format carries the rule, inside the file or beside it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, Matrix
from fairboost.engines.ensemble import Feature
from fairboost.engines.port import TrainedModel
from fairboost.fairness.costs import CostTable, in_units
from fairboost.fairness.operating_points import least_score


@dataclass(frozen=True)
class Decision:
    """How the probabilities of a row become a label.

    Parameters
    ----------
    classes : (k,) array
        The labels, in the order of the columns of probabilities.
    positive : int
        Of two labels, the position of the positive one.
    threshold : float
        Of two labels, the probability of the positive label from which on it is given.
    costs : tuple of tuple of float, optional
        Of three labels or more, the cost of giving a row of each class (lines) each class
        (columns); the class of least expected cost is given. Without it the most likely is.
    """

    classes: np.ndarray
    positive: int = 1
    threshold: float = math.nan
    costs: CostTable | None = None

    @property
    def several(self) -> bool:
        """Whether there are three labels or more."""
        return len(self.classes) > 2

    @property
    def unit_costs(self) -> FloatArray | None:
        """The costs in the unit that decisions are made in."""
        return None if self.costs is None else in_units(np.asarray(self.costs))

    def least_score(self, single: bool) -> float:
        """Of two labels, the least score in log-odds that is decided positively."""
        if self.threshold > 1:
            return math.inf
        return least_score(self.threshold, single)

    def labels(self, proba: FloatArray) -> np.ndarray:
        """The label of each row, given a column of probabilities for each class."""
        if self.several:
            costs = self.unit_costs
            given = proba.argmax(axis=1) if costs is None else (proba @ costs).argmin(axis=1)
            return np.asarray(self.classes[given])
        positive = proba[:, self.positive] >= self.threshold
        return np.asarray(self.classes[np.where(positive, self.positive, 1 - self.positive)])

    def columns(self, found: FloatArray) -> FloatArray:
        """Probabilities of each class, given what a stock booster says."""
        if found.ndim == 2:
            return found
        columns = [1.0 - found, found]
        return np.column_stack(columns if self.positive else columns[::-1])


@dataclass(frozen=True)
class Answers:
    """What a model says of some rows.

    Parameters
    ----------
    values : (n, k) or (n,) float64
        Probabilities of each class, or numbers.
    labels : (n,) array, optional
        Decisions; None where numbers are predicted.
    """

    values: FloatArray
    labels: np.ndarray | None = None


@dataclass(frozen=True)
class CheckedOn:
    """Rows that a file is tried on before it is kept.

    Parameters
    ----------
    table : Matrix
        As the engine reads them.
    codes : (n, n_features) float64
        The same as numbers: a category is its code, NaN is a missing value.
    """

    table: Matrix
    codes: FloatArray


@dataclass(frozen=True)
class Served:
    """A fitted model.

    Parameters
    ----------
    trained : TrainedModel
        Its trees.
    engine : str
        Name of the engine.
    features : tuple of Feature
        What it reads.
    named : bool
        Whether the columns have names.
    decision : Decision, optional
        How it decides; None where numbers are predicted.
    notes : dict
        What a stock file says besides.
    """

    trained: TrainedModel
    engine: str
    features: tuple[Feature, ...]
    named: bool
    decision: Decision | None
    notes: dict[str, Any]

    @property
    def single(self) -> bool:
        """Whether scores and probabilities have single precision."""
        return self.engine == "xgboost"

    def answers(self, found: FloatArray) -> Answers:
        """Probabilities or numbers that were found elsewhere, and the labels that follow."""
        if self.decision is None:
            return Answers(found)
        proba = self.decision.columns(found)
        return Answers(proba, self.decision.labels(proba))

    def expected(self, rows: CheckedOn) -> Answers:
        """What the model itself says."""
        with warnings.catch_warnings():
            # Rows that were drawn are an array, also where the model was trained on a frame.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            scores = self.trained.scores(rows.table)
        if self.decision is None:
            return Answers(np.asarray(self.trained.predictions(scores), np.float64))
        return self.answers(self.trained.probabilities(scores))
