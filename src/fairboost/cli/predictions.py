"""What ``fairboost predict`` writes for a row: scores and a decision, or a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from fairboost._typing import IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.regressor import FairGBMRegressor
from fairboost.model.several import given_class
from fairboost.tabular.schema import TableSchema, in_a_row, read_exposures

SCORE, DECISION = "score", "decision"
PREDICTION, EXPECTED = "prediction", "expected"


class PredictedColumns(Protocol):
    """Columns to write, and what is to be said of all rows."""

    rows: int

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are written."""

    def columns(self, features: pd.DataFrame, batch: Any) -> dict[str, pa.Array]:
        """What is written for a batch, which is counted."""

    def in_words(self) -> str:
        """The rows so far, in a sentence."""

    def figures(self) -> dict[str, Any]:
        """The same for a program."""


def predictions_of(
    model: FairGBMClassifier | FairGBMRegressor, schema: TableSchema, exposure: str | None
) -> PredictedColumns:
    """What a model says.

    Parameters
    ----------
    model : FairGBMClassifier or FairGBMRegressor
        The model.
    schema : TableSchema
        That of its training.
    exposure : str or None
        The column of exposures of the rows to predict for, if predictions are to be multiplied.
    """
    if isinstance(model, FairGBMRegressor):
        return NumberColumns(model, schema, exposure)
    classes = schema.classes
    assert classes is not None
    if exposure is not None:
        raise InvalidInputError(
            f"--exposure {exposure!r} is for models that predict a number, and this one decides "
            f"{'among' if schema.several else 'between'} {in_a_row(classes)}; leave it out"
        )
    return (ClassColumns if schema.several else DecisionColumns)(model, classes)


@dataclass
class DecisionColumns:
    """Probability of the positive label, and the decision in the labels of training."""

    model: FairGBMClassifier
    classes: tuple[str, ...]
    rows: int = 0
    positive: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are written."""
        return SCORE, DECISION

    def columns(self, features: pd.DataFrame, batch: Any) -> dict[str, pa.Array]:
        """Score a batch once, for both columns."""
        proba, decided = self.model._decide(self.model._scores(features))
        self.rows += len(decided)
        self.positive += int(decided.sum())
        words = pa.array(self.classes).take(pa.array(decided.astype(np.int8)))
        return {SCORE: pa.array(proba), DECISION: words}

    def in_words(self) -> str:
        """How many were decided positively."""
        share = self.positive / self.rows
        return f"{self.rows:,} rows, {self.positive:,} ({share:.1%}) decided {self.classes[1]!r}."

    def figures(self) -> dict[str, Any]:
        """The same for a program."""
        return {"positive": self.positive, "share": self.positive / self.rows}


@dataclass
class ClassColumns:
    """Probability of each of several classes, and the class that is given."""

    model: FairGBMClassifier
    classes: tuple[str, ...]
    rows: int = 0
    given: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are written."""
        return *(f"{SCORE}[{name}]" for name in self.classes), DECISION

    def columns(self, features: pd.DataFrame, batch: Any) -> dict[str, pa.Array]:
        """Score a batch once, for all columns."""
        proba = self.model.predict_proba(features)
        decided = given_class(proba, self.model._costs)
        n = len(self.classes)
        counted = np.bincount(decided, minlength=n)
        self.given = counted + (self.given if self.rows else 0)
        self.rows += len(decided)
        words = pa.array(self.classes).take(pa.array(decided))
        scores = [pa.array(np.ascontiguousarray(proba[:, k])) for k in range(n)]
        return dict(zip(self.names, [*scores, words], strict=True))

    def in_words(self) -> str:
        """How many were given each class."""
        said = [
            f"{rows:,} ({rows / self.rows:.1%}) given {name!r}"
            for name, rows in zip(self.classes, self.given.tolist(), strict=True)
        ]
        return f"{self.rows:,} rows: {', '.join(said)}."

    def figures(self) -> dict[str, Any]:
        """The same for a program."""
        given = dict(zip(self.classes, self.given.tolist(), strict=True))
        return {"given": given, "share": {name: n / self.rows for name, n in given.items()}}


@dataclass
class NumberColumns:
    """The number that is predicted; with an exposure, that number times the exposure too."""

    model: FairGBMRegressor
    schema: TableSchema
    exposure: str | None
    rows: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are written."""
        return (PREDICTION,) if self.exposure is None else (PREDICTION, EXPECTED)

    def columns(self, features: pd.DataFrame, batch: Any) -> dict[str, pa.Array]:
        """Predict for a batch."""
        found = {PREDICTION: self.model.predict(features)}
        years = read_exposures(batch, self.exposure, zero=True, before=self.rows)
        if years is not None:
            found[EXPECTED] = found[PREDICTION] * years
        self.rows += len(features)
        for name, values in found.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(values.sum())
        return {name: pa.array(values) for name, values in found.items()}

    def in_words(self) -> str:
        """Mean and sum."""
        per_unit = f" per unit of {self.schema.exposure!r}" if self.schema.exposure else ""
        said = f"{self.rows:,} rows; the mean prediction is {self._mean():.6g}{per_unit}"
        if EXPECTED in self.sums:
            said += f", and {self.sums[EXPECTED]:.6g} are expected in all"
        return f"{said}."

    def figures(self) -> dict[str, Any]:
        """The same for a program."""
        return {"mean": self._mean(), "expected": self.sums.get(EXPECTED)}

    def _mean(self) -> float:
        return self.sums[PREDICTION] / self.rows
