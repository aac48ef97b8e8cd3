"""What a curve or a search has to know of what is predicted: decisions, classes, or numbers.

All else is the same: one base model, stages under tighter tolerances, and a table with a figure of
performance and one of fairness for each model::

                  decisions                    numbers
    performance   accuracy, to be large        loss, to be small: squared error, deviance, or
                                               the loss of the engine's objective
    fairness      the largest gap of a rate    the figure of the constraint: gap of means or
                                               losses, distance of distributions, farthest A/E
                                               from 1, largest loss of a group

Three classes or more are decisions: the gap is the largest of the rates of all classes that are
constrained, and the log loss stands beside the accuracy. The second row is called ``gap`` in
tables, whatever it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring
from sklearn.utils.validation import validate_data

from fairboost._numbers import is_finite
from fairboost._typing import ArrayLike
from fairboost.algorithm.multipliers import SETTLED
from fairboost.algorithm.record import Record, Round
from fairboost.data.features import check_readable
from fairboost.data.validation import (
    as_column,
    check_no_positive,
    check_numbers,
    encode_known,
    encode_labels,
    read_weights,
)
from fairboost.engines.registry import default_estimator
from fairboost.exceptions import ConstraintError, EngineOptionError, InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.classes import ClassMoment
from fairboost.fairness.constraints import (
    ConstraintLike,
    check_tolerance,
    listed,
    own_tolerances,
    shared_tolerance,
    takes_tolerance,
)
from fairboost.fairness.means import NUMBERS, NumberMoment
from fairboost.fairness.numbers import resolve
from fairboost.fairness.rates import as_moment
from fairboost.fairness.varied import is_of_numbers, is_varied, of_shares, with_tolerance
from fairboost.metrics.intervals import student, wilson
from fairboost.metrics.numbers import COMPARED, LOSS_TITLES, mean_loss
from fairboost.metrics.performance import ClassOutput
from fairboost.model.base import FairBooster, columns_of_table
from fairboost.model.base_model import is_base
from fairboost.model.estimator import FairGBMClassifier
from fairboost.model.regressor import FairGBMRegressor
from fairboost.training.request import FitRequest
from fairboost.verdicts.verdict import Verdict

Estimator: TypeAlias = Any
"""An estimator of one of the engines: a classifier, or a regressor."""

FairModel: TypeAlias = FairGBMClassifier | FairGBMRegressor
"""What a curve consists of."""

Rows: TypeAlias = Mapping[str, Any]
"""What ``fit`` takes of some rows, by name of the argument."""

DECIDING_STAGE = 12, 8, 0.3
"""Rounds, leaves and learning rate of a stage of the curve. It starts where its neighbour ended,
so that few rounds will do."""

NUMBER_STAGE = 24, 8, 0.1
"""The same where numbers are predicted. A mean follows its multiplier at once, and no step of a
decision slows it down: at a rate of 0.3 the gap of two groups swung by more than itself."""

CLASS_STAGE, CLASS_SETTLING = (24, 8, 0.2), 40
"""The same where one of several classes is given, and the rounds whose gain multipliers have. Many
rates have to meet, and multipliers move slowly where rows are close to ties: of five classes, 12
rounds at the usual gain left a gap of 0.05 where 0 was asked for, these 0.004 and 0.019 in two
draws of 12,000 rows."""

OVER_CLASSES = "largest gap between groups"
"""What the gap of a curve is where a rate of each class has one."""

OF_CLASSIFIERS = {"pos_label": None, "classes": None, "costs": None}
"""Options of models that decide, and their defaults."""

AUTO = "auto"
"""The constraint of the kind of estimator, where the user names none."""


class Decisions:
    """One of two labels is predicted."""

    performance, sign, constraint, scoring = "accuracy", 1.0, "equalized_odds", "accuracy"
    set_form = "(X, y, sensitive_features[, sample_weight])", 4
    stage = DECIDING_STAGE
    settling = SETTLED
    on_dask = "FairGBMClassifier(DaskXGBClassifier(...), tolerance=...)"

    def request(
        self, estimator: Any, rows: Rows, asked: Mapping[str, Any]
    ) -> tuple[FairGBMClassifier, FitRequest]:
        """A model with everything but a tolerance, and the training of its base, checked."""
        self.check_rows(rows)
        prototype = FairGBMClassifier(estimator, **asked)
        names = "X", "y", "sensitive_features", "sample_weight", "holdout_set"
        request = prototype._request(**{name: rows[name] for name in names}, fit_options={})
        prototype._set_labels(request.data.classes)
        return prototype, request

    def of_labels(self, y: ArrayLike) -> Decisions:
        """The kind that decides among the labels of y: two, or more."""
        return self if y is None or len(_distinct(y)) <= 2 else CLASSES

    def check_rows(self, rows: Rows) -> None:
        """Refuse exposures."""
        if rows["exposure"] is not None:
            raise InvalidInputError(
                "exposure is for models that predict a number, found a classifier; leave exposure "
                "out"
            )

    def check_tolerance(self, tolerance: Any, constraint: ConstraintLike) -> None:
        """Refuse what is no difference of rates."""
        check_tolerance(tolerance)

    def check_varied(self, varied: Sequence[GroupConstraint]) -> None:
        """All gaps are of rates, whose unit is the same."""

    def figures(self, found: Round, record: Record) -> dict[str, float]:
        """Accuracy with its interval, and the loss."""
        figures = self._accuracy(found.figures["held-out accuracy"], record.summary.rows)
        return {**figures, "loss": found.held_out_loss}

    def figures_on(self, model: FairGBMClassifier, rows: Rows) -> dict[str, float]:
        """Accuracy with its interval."""
        truth = as_column(rows["y"])
        weight = read_weights(rows["sample_weight"], len(truth))
        n = len(truth) if weight is None else weight.sum() ** 2 / (weight**2).sum()
        right = float(np.average(model.predict(rows["X"]) == truth, weights=weight))
        return self._accuracy(right, float(n))

    def title(self, model: FairGBMClassifier) -> str:
        """Accuracy."""
        return self.performance

    def engine(self) -> Estimator:
        """The engine where the user gives none."""
        return default_estimator()

    def one_tolerance(
        self, constraint: ConstraintLike, tolerance: float | None, columns: Sequence[str]
    ) -> float:
        """The gap that a search is to keep within, of all parities together."""
        shared = shared_tolerance(constraint, tolerance)
        asked = set(own_tolerances(constraint))
        if tolerance is not None or takes_tolerance(constraint):
            asked.add(shared)
        if len(asked) > 1:
            raise several_tolerances(asked)
        return asked.pop() if asked else shared

    def strata(self, y: ArrayLike) -> ArrayLike:
        """What rows are divided by, into those to train on and those to judge models by."""
        return as_column(y)

    def positive(self, y: ArrayLike, pos_label: object) -> object:
        """The positive label; a guess is warned of."""
        return encode_labels(y, pos_label)[0][1]

    def scorer(self, scoring: Any, y: ArrayLike) -> Callable[..., float]:
        """A scorer of scikit-learn, for rows with labels such as those given."""
        found: Callable[..., float] = check_scoring(FairGBMClassifier(), scoring=scoring)
        return found

    def score(self, scorer: Callable[..., float], model: FairGBMClassifier, rows: Rows) -> float:
        """The score of a model on some rows."""
        weight = rows["sample_weight"]
        weighed = {} if weight is None else {"sample_weight": weight}
        return float(scorer(model, rows["X"], as_column(rows["y"]), **weighed))

    def figure(self, constraint: Any, columns: Sequence[str]) -> str:
        """What the gap is, in words."""
        return "gap between groups"

    def _accuracy(self, value: float, rows: float) -> dict[str, float]:
        low, high = wilson(value * rows, rows)
        return {"accuracy": value, "accuracy low": float(low), "accuracy high": float(high)}


class Classes(Decisions):
    """One of three classes or more is predicted."""

    stage = CLASS_STAGE
    settling = CLASS_SETTLING

    def positive(self, y: ArrayLike, pos_label: object) -> None:
        """No class is positive; one that is given is refused."""
        check_no_positive(_distinct(y), pos_label)

    def figures_on(self, model: FairGBMClassifier, rows: Rows) -> dict[str, float]:
        """Accuracy with its interval, and the log loss."""
        labels = encode_known(rows["y"], model.classes_, "y")
        weight = read_weights(rows["sample_weight"], len(labels))
        w = np.ones(len(labels)) if weight is None else weight
        proba = model.predict_proba(rows["X"])
        given = np.searchsorted(model.classes_, model.predict(rows["X"]))
        parts = ClassOutput(proba, given).contributions(labels, w)
        right, loss = (np.average(parts[name], weights=w) for name in ("accuracy", "log loss"))
        n = float(w.sum() ** 2 / (w**2).sum())
        return {**self._accuracy(float(right), n), "loss": float(loss)}

    def scorer(self, scoring: Any, y: ArrayLike) -> Callable[..., float]:
        """A scorer of scikit-learn; some are for two labels, and are refused before training."""
        found, classes = super().scorer(scoring, y), _distinct(y)
        if isinstance(scoring, str):
            rows = np.zeros((len(classes), 1))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of scores that a constant model has not
                    found(DummyClassifier(strategy="prior").fit(rows, classes), rows, classes)
            except ValueError as error:
                raise InvalidInputError(
                    f"scoring={scoring!r} does not score {len(classes)} classes ({error}); use "
                    "'accuracy', 'balanced_accuracy', 'neg_log_loss', 'f1_macro' or 'roc_auc_ovr'"
                ) from error
        return found

    def figure(self, constraint: Any, columns: Sequence[str]) -> str:
        """What the gap is, in words."""
        return OVER_CLASSES


class Numbers:
    """A number is predicted."""

    performance, sign, constraint, scoring = "loss", -1.0, "equal_distributions", "loss"
    set_form = "(X, y, sensitive_features[, sample_weight[, exposure]])", 5
    stage = NUMBER_STAGE
    settling = SETTLED
    on_dask = "FairGBMRegressor on rows in memory"

    def request(
        self, estimator: Any, rows: Rows, asked: Mapping[str, Any]
    ) -> tuple[FairGBMRegressor, FitRequest]:
        """A model with everything but a tolerance, and the training of its base, checked."""
        for name, left in {"operating_point": 0.5, **OF_CLASSIFIERS}.items():
            if asked[name] is not left and asked[name] != left:
                raise InvalidInputError(
                    f"{name} is for models that decide, and a number is predicted; leave {name} "
                    "out"
                )
        X, constraint = rows["X"], with_tolerance(asked["constraint"], 0.0)
        names = "holdout", "min_group_rows", "random_state"
        same = {name: asked[name] for name in names}
        prototype = FairGBMRegressor(estimator, constraint=constraint, tolerance=0.0, **same)
        if not any(map(is_varied, listed(constraint))):
            raise nothing_to_vary()
        check_readable(X)
        validate_data(prototype, columns_of_table(X), skip_check_array=True, reset=True)
        given = (rows[name] for name in ("sensitive_features", "sample_weight", "exposure"))
        data = check_numbers(X, rows["y"], *given)
        return prototype, prototype._request(data, rows["holdout_set"], {})

    def of_labels(self, y: ArrayLike) -> Numbers:
        """Numbers are no labels."""
        return self

    def check_rows(self, rows: Rows) -> None:
        """Exposures may be given."""

    def check_tolerance(self, tolerance: Any, constraint: ConstraintLike) -> None:
        """Refuse what is no difference of means, or of shares, as the constraint says."""
        if not is_finite(tolerance) or tolerance < 0 or asks_nothing(constraint, tolerance):
            unit = "a share of rows, below 1" if of_shares(constraint) else "in its own unit"
            raise ConstraintError(
                f"tolerances must be numbers, 0 or more, {unit}, found {tolerance!r}; or pass how "
                "many models to train"
            )

    def check_varied(self, varied: Sequence[GroupConstraint]) -> None:
        """Refuse to share a tolerance between figures of different units."""
        units = dict.fromkeys(figure_of(c) for c in varied)
        if len(units) > 1:
            raise ConstraintError(
                f"one tolerance cannot be that of {' and of the '.join(units)}, which have units "
                "of their own; ask for one of them, and for others as bound(...)"
            )

    def figures(self, found: Round, record: Record) -> dict[str, float]:
        """The loss with its interval."""
        summary, at = record.summary, NUMBERS["loss"].quantity
        total, rows = summary.measured.total_weight, summary.rows
        mean, square = (
            float(sums[at].sum() / total)
            for sums in (summary.quantities(found.sums), summary.squares(found.sums))
        )
        assert mean > 0 or found.held_out_loss <= 0, "the loss was not measured"
        error = np.sqrt(max(square - mean**2, 0.0) / max(rows - 1.0, 1.0))
        low, high = student(mean, error, max(rows - 1.0, 1.0))
        return {"loss": mean, "loss low": float(low), "loss high": float(high)}

    def figures_on(self, model: FairGBMRegressor, rows: Rows) -> dict[str, float]:
        """The loss with its interval."""
        exposure = rows["exposure"]
        found = mean_loss(
            rows["y"], model.predict(rows["X"], exposure=exposure), exposure=exposure,
            sample_weight=rows["sample_weight"], loss=model._loss_terms.loss,
        )  # fmt: skip
        return {"loss": found.value, "loss low": found.low, "loss high": found.high}

    def title(self, model: FairGBMRegressor) -> str:
        """What the loss is called."""
        loss = model._loss_terms.loss
        assert loss is not None
        return LOSS_TITLES[loss.name]

    def engine(self) -> Estimator:
        """The engine where the user gives none."""
        return default_estimator(regressor=True)

    def one_tolerance(
        self, constraint: ConstraintLike, tolerance: float | None, columns: Sequence[str]
    ) -> float:
        """What a search is to keep the figure of the constraint within."""
        found = [c for c in resolve(constraint, tolerance, columns) if is_varied(c)]
        if not found:
            raise nothing_to_vary()
        self.check_varied(found)
        asked = {c.limit for c in found}
        if len(asked) > 1:
            raise several_tolerances(asked)
        return float(asked.pop())

    def strata(self, y: ArrayLike) -> None:
        """Numbers are no labels: rows are divided by chance alone."""

    def positive(self, y: ArrayLike, pos_label: object) -> object:
        """No label is positive; one that is given is refused where models are made."""
        return pos_label

    def scorer(self, scoring: Any, y: ArrayLike) -> Callable[..., float] | None:
        """A scorer of scikit-learn; None for the loss that the table has."""
        if scoring == self.scoring:
            return None
        found: Callable[..., float] = check_scoring(FairGBMRegressor(), scoring=scoring)
        return found

    def score(self, scorer: Callable[..., float], model: FairGBMRegressor, rows: Rows) -> float:
        """The score of a model on some rows: of rates, by exposure, where there are exposures."""
        y, weight, exposure = (rows[name] for name in ("y", "sample_weight", "exposure"))
        y, years = as_column(y), None if exposure is None else as_column(exposure)
        if years is not None:
            y, weight = y / years, years if weight is None else as_column(weight) * years
        weighed = {} if weight is None else {"sample_weight": weight}
        return float(scorer(model, rows["X"], y, **weighed))

    def figure(self, constraint: Any, columns: Sequence[str]) -> str:
        """What the gap is, in words."""
        found = resolve(with_tolerance(constraint, 0.0), 0.0, columns)
        return figure_of(next(c for c in found if is_varied(c)))


DECISIONS, CLASSES, OF_NUMBERS = Decisions(), Classes(), Numbers()


def kind_of(estimator: Any, constraint: ConstraintLike, what: str) -> Decisions | Numbers:
    """What is predicted, as the estimator says; without one, as the constraint does."""
    engine = estimator.estimator if isinstance(estimator, FairBooster) else estimator
    engine = engine.estimator if isinstance(engine, FrozenEstimator) else engine
    if is_base(engine):
        raise InvalidInputError(
            f"{what} trains boosters of LightGBM or XGBoost, found {type(engine).__name__}; "
            f"pass {what}(LGBMClassifier(...), ...), or fit a stage on the "
            f"{type(engine).__name__} in a loop over tolerances t, "
            "FairGBMClassifier(FrozenEstimator(fitted), tolerance=t).fit(...), and compare "
            "model.report_on(...)"
        )
    if isinstance(estimator, FairBooster):
        raise EngineOptionError(
            f"{what} makes its own {type(estimator).__name__}; pass the engine, "
            f"{what}(model.estimator, ...), and constraint=... here"
        )
    if engine is not None:
        return OF_NUMBERS if isinstance(engine, RegressorMixin) else DECISIONS
    return OF_NUMBERS if any(map(is_of_numbers, listed(constraint))) else DECISIONS


def kind_of_model(model: Any) -> Decisions | Numbers:
    """What a fitted model predicts."""
    if isinstance(model, RegressorMixin):
        return OF_NUMBERS
    return CLASSES if len(model.classes_) > 2 else DECISIONS


def _distinct(y: ArrayLike) -> np.ndarray:
    """The labels that there are; those that cannot be sorted are refused where models are made."""
    try:
        return np.unique(as_column(y))
    except TypeError:
        return np.empty(0)


def several_tolerances(found: Iterable[float]) -> ConstraintError:
    """The error where a search would have to keep within several tolerances."""
    return ConstraintError(
        f"tune keeps the largest gap within one tolerance, found {sorted(found)}; write "
        "parity(...) without a tolerance and tune(..., tolerance=...)"
    )


def nothing_to_vary() -> ConstraintError:
    """The error where a constraint has no tolerance."""
    return ConstraintError(
        "a trade-off curve varies the tolerance of parities, but the constraint has none: bounds, "
        "floors and ratios have their limit in themselves. Use a named constraint or parity(...), "
        "or train a model for each ratio, such as parity('ppr', ratio=0.9)"
    )


def asks_nothing(constraint: Any, tolerance: float) -> bool:
    """Whether any figure is within a tolerance: of shares 1 or more, of others infinity."""
    return tolerance >= 1 if of_shares(constraint) else not np.isfinite(tolerance)


def figure_of(constraint: GroupConstraint) -> str:
    """What is held to the tolerance of a constraint, in words."""
    by_figure = {
        "figure": "largest mean loss of a group",
        "distance": COMPARED["distance"],
        "actual over expected": COMPARED["a_over_e"],
    }
    if constraint.judged in by_figure:
        return by_figure[constraint.judged]
    moment = as_moment(constraint.moments[0])
    if isinstance(moment, ClassMoment):
        return OVER_CLASSES
    if not isinstance(moment, NumberMoment):
        return "gap between groups"
    return COMPARED[f"mean_{moment.name}"] + ", as a share of everyone's" * constraint.relative


def worst_of(
    verdicts: Sequence[Verdict], constraints: Sequence[GroupConstraint]
) -> dict[str, float]:
    """The largest figure among those that a curve varies, with its interval."""
    found = []
    for verdict, c in zip(verdicts, constraints, strict=True):
        if is_varied(c):
            found.append((verdict.value, verdict.low, verdict.high))
    value, low, high = max(found, key=lambda figures: figures[0])
    return {"gap": value, "gap low": low, "gap high": high}


def as_merits(table: pd.DataFrame, score: str) -> tuple[pd.Series, pd.Series]:
    """Score and gap on scales that can be weighed against each other.

    Accuracy and gaps of rates are shares as they are. Losses and gaps of numbers have units:
    the best model without constraints is their measure.
    """
    own: pd.Series = table[score] * (-1.0 if score == "loss" else 1.0)
    if "accuracy" in table:
        return own, table["gap"]
    free = np.flatnonzero(table["tolerance"].isna())
    plain = free[int(own.iloc[free].to_numpy().argmax())]
    least = np.finfo(float).tiny
    unit, widest = (max(abs(float(x.iloc[plain])), least) for x in (own, table["gap"]))
    return (own - own.iloc[plain]) / unit, table["gap"] / widest
