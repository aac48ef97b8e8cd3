"""What a stage is added to: any classifier of two labels, or scores that the user gives.

The score of a row is the log-odds of the base model plus what the trees of the stage add,
``score = log_odds(base) + stage``. Log-odds are those of probabilities, which are clipped first: a
forest whose trees all agree has a probability of 0 or 1, whose log-odds are infinite. A classifier
that has no probabilities gets Platt's map ``log_odds = slope * decision + shift``, with a slope
above 0. An isotonic map would have steps, on which many rows tie, and it needs a table of numbers
where this one needs two.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import has_fit_parameter

from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray, Matrix
from fairboost._warnings import warn
from fairboost.data.validation import as_column, by_row, python_value, read_targets, take_rows
from fairboost.engines.registry import is_of_engine
from fairboost.exceptions import EngineOptionError, FairnessWarning, InvalidInputError
from fairboost.model import probe

MOST_CLIPPED = 0.05
"""The largest value at which probabilities are clipped."""
CLIPS = 40
"""Values at which clipping is tried."""
FOLDS = 5
"""Parts in which a base model is cross-fitted."""
SAMPLED, DOUBLINGS, SURELY = 1_800, 3.0, 3.0
"""Of the check whether a base model has learned rows by heart: rows that clones are fitted to and
tried on, how many times what twice as many rows gain a model on new rows may be better, and
standard errors of that. On new rows of COMPAS and Adult it raised no false alarm; on their own
training rows it recognised forests, and boosted trees of few rows."""
SCORES, PROBABILITIES, DECISIONS = "scores", "probabilities", "decision_function"
TELLING = 20
"""Rows of which it shows that scores are decisions; fewer may all have a probability of 0 or 1."""
OTHER_ROWS = "Pass other rows, or pass the base model unfitted, without FrozenEstimator."
OTHER_SCORES = "Pass other rows, with their base_score."
"""What to do where a base model was probably trained on the rows."""
FEWEST_ERRORS, ENOUGH = 0.01, 100
"""The share of wrong decisions of each label up to which a base model has probably seen the rows,
and how many rows of each label it takes to say so. Where a base model is that good on new rows,
no two error rates are far apart, and little is lost by a warning."""
"""Where log-odds come from: a column of the user's, or a method of the base model."""


@dataclass(frozen=True)
class BaseModel:
    """The model that a stage is added to.

    Parameters
    ----------
    kind : str
        ``"scores"``, ``"probabilities"`` or ``"decision_function"``.
    estimator : classifier, optional
        Fitted; None where the user gives scores.
    column : int
        Position of the positive label among its classes.
    clip : (float, float)
        The least and the largest probability.
    slope, shift : float
        Platt's map of decision values.
    rows : Matrix, optional
        A few made-up rows, whose scores identify this base model.
    rows_seen : str
        That it was probably trained on the rows that rates are read on; empty otherwise.
    """

    kind: str
    estimator: Any = None
    column: int = 1
    clip: tuple[float, float] = (0.0, 1.0)
    slope: float = 1.0
    shift: float = 0.0
    rows: Matrix | None = None
    rows_seen: str = ""

    def log_odds(self, X: Matrix, base_score: ArrayLike | None = None) -> FloatArray:
        """The log-odds of the positive label of each row."""
        if self.kind != SCORES:
            return self.of_values(self.values(X))
        values = read_base_score(base_score, np.shape(X)[0])
        if len(values) >= TELLING:
            check_no_decisions(values)
        return self.of_values(values)

    def values(self, X: Matrix) -> FloatArray:
        """Probabilities of the positive label, or decision values that rise with it."""
        if self.kind == PROBABILITIES:
            found = np.asarray(self.estimator.predict_proba(X), np.float64)
            return _checked(found[:, self.column], self.estimator)
        found = np.asarray(self.estimator.decision_function(X), np.float64).reshape(-1)
        return _checked(found if self.column else -found, self.estimator)

    def of_values(self, values: FloatArray) -> FloatArray:
        """Log-odds of such values."""
        if self.kind == DECISIONS:
            return self.slope * values + self.shift
        found: FloatArray = logit(np.clip(values, *self.clip))
        return found

    def fitted_to(
        self, values: FloatArray, labels: IntArray, weight: FloatArray | None
    ) -> BaseModel:
        """The same with the clip, or the map, that rows ask for."""
        w = np.ones(len(labels)) if weight is None else weight / weight.mean()
        if self.kind != DECISIONS:
            y = labels.astype(np.float64)
            low = best_clip(values, y, w)
            return replace(self, clip=(low, 1 - best_clip(1 - values, 1 - y, w)))
        slope, shift = platt(values, labels, w)
        if slope <= 0:
            raise InvalidInputError(
                f"decision values of {type(self.estimator).__name__} are not larger where the "
                "label is positive, on these rows; pass rows with the labels that it was "
                "trained on"
            )
        return replace(self, slope=slope, shift=shift)


def _checked(values: FloatArray, estimator: Any) -> FloatArray:
    """Refuse values of which no score follows."""
    if not (finite := np.isfinite(values)).all():
        row = int(np.argmin(finite))
        raise InvalidInputError(
            f"{type(estimator).__name__}, the base model, gives row {row} the value "
            f"{values[row]}, expected a finite number; leave the row out, or correct the model"
        )
    return values


def best_clip(proba: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    """The value below which probabilities are raised to it: that of least log loss on rows.

    It is between 1 / (n + 2), the share that n rows without a single positive one suggest by the
    rule of succession, and :data:`MOST_CLIPPED`. Rows on which a well calibrated model is sure
    leave it at the least value.

    Parameters
    ----------
    proba, y, weight : (n,) float64
        Probabilities of a label, 1 where rows have it, and their weights.

    Examples
    --------
    >>> proba, ones = np.zeros(98), np.ones(98)
    >>> best_clip(proba, np.zeros(98), ones)
    0.01
    >>> y = np.zeros(98)
    >>> y[:2] = 1  # one row in 49
    >>> bool(abs(best_clip(proba, y, ones) - 2 / 98) < 0.001)
    True
    """
    least = 1 / (len(proba) + 2)
    if least >= MOST_CLIPPED:
        return least
    tried = np.geomspace(least, MOST_CLIPPED, CLIPS)
    unsure = proba < MOST_CLIPPED
    p, y, weight = proba[unsure], y[unsure], weight[unsure]
    losses = []
    for clip in tried:
        clipped = np.maximum(p, clip)
        losses.append(-weight @ np.where(y > 0, np.log(clipped), np.log1p(-clipped)))
    return float(tried[int(np.argmin(losses))])


def platt(values: FloatArray, labels: IntArray, weight: FloatArray) -> tuple[float, float]:
    """Slope and shift that turn decision values into log-odds: a logistic fit of one feature.

    The fit is on values in units of their spread, with the small penalty of scikit-learn's
    default: without one labels that values part without an error would have no finite slope.
    """
    spread = float(values.std()) or 1.0
    fitted = LogisticRegression().fit(values[:, np.newaxis] / spread, labels, weight)
    return float(fitted.coef_[0, 0]) / spread, float(fitted.intercept_[0])


def read_base_score(given: ArrayLike | None, n: int, what: str = "base_score") -> FloatArray:
    """Probabilities of the positive label that the user gives.

    Numbers outside of [0, 1] may be log-odds or points. Since nothing says which, they are
    refused.
    """
    if given is None:
        raise InvalidInputError(
            f"the stage was trained on scores of a base model, and {what} is missing; pass the "
            "probabilities of the positive label by that model, base_score=..., one for each row"
        )
    _check_is_score(given, what)
    found = read_targets(given, what)
    if len(found) != n:
        raise InvalidInputError(
            f"{what} has {len(found)} rows but X has {n}; pass one probability for each row"
        )
    if (wrong := (found < 0) | (found > 1)).any():
        row = int(np.argmax(wrong))
        percentages = " Of percentages pass scores / 100." * bool(
            0 <= found.min() <= found.max() <= 100
        )
        raise InvalidInputError(
            f"{what} must be probabilities of the positive label, in [0, 1], found "
            f"{found[row]:g} in row {row}.{percentages} Of log-odds pass "
            "scipy.special.expit(scores). Of points pass "
            "FrozenEstimator(LogisticRegression().fit(points, y)) as the estimator, with the "
            "points as a column of X"
        )
    return found


def _check_is_score(given: ArrayLike, what: str) -> None:
    """Refuse text, and several columns."""
    if np.ndim(given) == 2 and np.shape(given)[1] > 1:
        raise InvalidInputError(
            f"{what} has {np.shape(given)[1]} columns; pass one number for each row, such as "
            "predict_proba(X)[:, 1]"
        )
    column = as_column(given)
    held = column.flat if column.dtype.kind in "OUST" else ()
    if texts := {value for value in held if isinstance(value, str)}:
        named = ", ".join(repr(str(text)) for text in sorted(texts)[:3])
        raise InvalidInputError(
            f"{what} holds text ({named}{', ...' * (len(texts) > 3)}): these are decisions; pass "
            "the probabilities that the decisions were made by"
        )


def check_no_decisions(values: FloatArray) -> None:
    """Refuse scores that are decisions."""
    if np.isin(values, (0.0, 1.0)).all():
        raise InvalidInputError(
            "base_score has no other values than 0 and 1: these are decisions, and a stage "
            "starts from probabilities; pass those that the decisions were made by"
        )


def check_given(values: FloatArray, labels: IntArray, positive: object) -> None:
    """Refuse scores that are decisions, or of which those of the positive label are lower.

    Warns of scores that are unrelated to labels, such as those of rows in another order.
    """
    if values.min() == values.max():
        raise InvalidInputError(
            f"base_score is {values[0]:g} in every row, so that it says nothing about any; pass "
            "probabilities that differ, or leave base_score out to train without a base model"
        )
    check_no_decisions(values)
    means = [float(values[labels == label].mean()) for label in (0, 1)]
    some = slice(None, None, 1 + len(labels) // RANKED_ROWS)
    told = 0 < labels[some].sum() < len(labels[some])
    area, error = ranked_above(values[some], labels[some]) if told else (0.5, 0.0)
    if area < 0.5 - CHANCE * error:
        raise InvalidInputError(
            f"base_score is {means[1]:.3g} on average where the label is positive, "
            f"{positive!r}, and {means[0]:.3g} elsewhere: they are probabilities of the other "
            "label, or the rows are in another order. Pass probabilities of the positive label, "
            "such as 1 - base_score, in the order of X, or name the other label as pos_label"
        )
    if told and abs(area - 0.5) <= CHANCE * error:
        warn(
            f"base_score says nothing about the label: its AUC is {area:.3f}, and of scores in "
            f"random order 99 of 100 are within {CHANCE * error:.3f} of 0.5. Check that "
            "base_score is in the order of X, and that it predicts this label",
            FairnessWarning,
        )


RANKED_ROWS = 10_000
"""Rows that are ranked, about: so many show whether scores say anything at all."""
CHANCE = 2.576
"""Standard errors of the AUC within which 99 of 100 random orders lie."""


def ranked_above(values: FloatArray, labels: IntArray) -> tuple[float, float]:
    """The AUC of scores, and its standard error where scores say nothing about labels.

    The AUC is the chance that a row of the positive label has the larger score; ties count half.

    Examples
    --------
    >>> area, error = ranked_above(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1]))
    >>> area, round(error, 3)
    (0.75, 0.323)
    """
    ones = int(labels.sum())
    pairs = ones * (len(labels) - ones)
    above = float(rankdata(values)[labels == 1].sum()) - ones * (ones + 1) / 2
    return above / pairs, float(np.sqrt((len(labels) + 1) / (12 * pairs)))


def said_of_seen_rows(log_odds: FloatArray, labels: IntArray, remedy: str = OTHER_ROWS) -> str:
    """That rows are probably those that the base model was trained on; empty if they are not.

    Errors are counted label by label: a model that gives no one a rare label makes few in all.

    Examples
    --------
    >>> y = np.arange(400) % 2
    >>> said_of_seen_rows(2.0 * y - 1, y)[:75]
    'The base model makes almost no errors on the rows passed to fit (0 of 400):'
    >>> said_of_seen_rows(np.where(np.arange(400) < 10, 0.0, 2.0 * y - 1), y)
    ''
    """
    wrong = (log_odds >= 0) != (labels == 1)
    for label in (0, 1):
        of_label = wrong[labels == label]
        if len(of_label) < ENOUGH or of_label.mean() > FEWEST_ERRORS:
            return ""
    return (
        f"The base model makes almost no errors on the rows passed to fit ({int(wrong.sum()):,} "
        f"of {len(wrong):,}): it was probably trained on them. Rates on these rows say nothing "
        f"about new people, and there is no verdict. {remedy}"
    )


def said_of_optimism(
    base: BaseModel,
    X: Matrix,
    labels: IntArray,
    classes: np.ndarray,
    seed: int,
    doublings: float = DOUBLINGS,
) -> str | None:
    """That a base model predicts rows better than its kind can predict rows that it has not seen.

    Clones of the base model are fitted to a third and to two thirds of a sample, and predict the
    rest of it. Their mean squared errors of probabilities say how far such models get on new
    rows, and what more rows to learn from gain. The base model may have learned from many more,
    so that it is allowed ``doublings`` times that gain, and to be nearer to the error of new rows
    than to that of the rows learned from. What is beyond this was learned by heart.

    It shows for models that learn rows by heart, such as forests, on labels with noise. Models
    that hardly do, such as a logistic regression, predict both nearly as well, and nothing shows.
    Empty where it does not show, and None where the base model cannot be fitted again.

    Parameters
    ----------
    base : BaseModel
        The fitted base model.
    X, labels : Matrix, (n,) int
        The rows, and their labels as 0 and 1.
    classes : (2,) array
        The labels as the base model knows them, the negative one first.
    seed : int
        Draws the sample.
    doublings : float
        Less is allowed to a base model that makes almost no errors.
    """
    if base.kind != PROBABILITIES or np.bincount(labels, minlength=2).min() < ENOUGH:
        return None
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(labels))[:SAMPLED])
    part = rng.permutation(len(some)) % 3
    rows, y, known = take_rows(by_row(X), some), labels[some], np.asarray(classes)[labels[some]]
    kind = getattr(base.estimator, "best_estimator_", base.estimator)  # of a search

    def errors(model: Any) -> FloatArray:
        return np.square(frozen_base(model, classes).values(rows) - y)

    def fitted(which: BoolArray) -> FloatArray:
        learn = np.flatnonzero(which)
        fresh = seeded(clone(kind), seed)
        return errors(fresh.fit(take_rows(by_row(rows), learn), known[learn]))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of clones
            by_third, by_two = (
                np.stack([fitted((part == k) == alone) for k in range(3)])
                for alone in (True, False)
            )
    except Exception:  # it cannot be fitted again, and nothing can be said
        return None
    own, at = errors(base.estimator), np.arange(len(y))
    others = [(part + 1) % 3, (part + 2) % 3]
    less = np.mean([by_third[k, at] for k in others], axis=0)
    seen = np.mean([by_two[k, at] for k in others], axis=0)
    new = by_two[part, at]
    beyond = new - own - doublings * (less - new)
    error = float(beyond.std()) / np.sqrt(len(y))
    if beyond.mean() <= SURELY * error or (new - own).mean() <= 0.5 * (new - seen).mean():
        return ""
    return (
        "The base model predicts the rows passed to fit far better than such a model predicts "
        f"rows that it has not seen (mean squared error of probabilities {own.mean():.3f}; of "
        f"clones fitted to other rows {new.mean():.3f}): it was probably trained on them. Rates "
        f"on these rows say nothing about new people, and there is no verdict. {OTHER_ROWS}"
    )


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator, with a seed wherever it has none."""
    params = estimator.get_params()
    free = [k for k, v in params.items() if k.rpartition("__")[2] == "random_state" and v is None]
    return estimator.set_params(**dict.fromkeys(free, seed))


def is_base(estimator: Any) -> bool:
    """Whether an estimator is a classifier of none of the engines, nor one of fairboost's."""
    ours = type(estimator).__module__.partition(".")[0] == __name__.partition(".")[0]
    if isinstance(estimator, type) or ours or is_of_engine(estimator):
        return False
    return hasattr(estimator, "fit") and bool(is_classifier(estimator))


def frozen_base(estimator: Any, classes: np.ndarray) -> BaseModel:
    """A fitted classifier as a base model, checked; ``classes`` are negative and positive."""
    name, known = type(estimator).__name__, getattr(estimator, "classes_", None)
    if known is None and is_regressor(estimator):
        raise EngineOptionError(
            f"the {name} in FrozenEstimator predicts numbers, expected a classifier; pass a "
            "classifier, or probabilities of the positive label as fit(..., base_score=...)"
        )
    if known is None:
        raise EngineOptionError(
            f"the {name} in FrozenEstimator is not fitted; fit it first, or pass it without "
            "FrozenEstimator to have it cross-fitted"
        )
    labels = np.asarray(known).reshape(-1).tolist()
    if len(labels) != 2:
        raise EngineOptionError(
            f"the {name} distinguishes {len(labels)} classes, and a stage on a model of another "
            "kind is for two; train FairGBMClassifier(LGBMClassifier(...)) for several classes"
        )
    given = [python_value(label) for label in classes]
    if set(labels) != set(given):
        raise EngineOptionError(
            f"the {name} distinguishes the labels {labels}, but y has {given}; code y as the "
            f"{name} knows it"
        )
    return BaseModel(kind_of(estimator), estimator, labels.index(given[1]))


def kind_of(estimator: Any) -> str:
    """Which of its methods the log-odds of a classifier come from."""
    if hasattr(estimator, "predict_proba"):
        return PROBABILITIES
    if hasattr(estimator, "decision_function"):
        return DECISIONS
    raise EngineOptionError(
        f"{type(estimator).__name__} has neither predict_proba nor decision_function, and no "
        "score follows from labels alone; pass CalibratedClassifierCV around it, or fit "
        "base_score=... with the probabilities of its source"
    )


def check_unfitted(estimator: Any, sample_weight: object) -> None:
    """Refuse a classifier that cannot be cross-fitted on weighted rows."""
    if sample_weight is not None and not has_fit_parameter(estimator, "sample_weight"):
        name = type(estimator).__name__
        raise EngineOptionError(
            f"{name}.fit takes no sample_weight, so that it cannot be cross-fitted on weighted "
            "rows; fit it on other rows, and pass FrozenEstimator(fitted)"
        )


def cross_fitted(
    estimator: Any,
    X: Matrix,
    y: np.ndarray,
    weight: FloatArray | None,
    classes: np.ndarray,
    seed: int,
) -> tuple[BaseModel, FloatArray]:
    """Fit a classifier on all rows, and its values of each row by one that has not seen it.

    Parameters
    ----------
    estimator : classifier
        Unfitted; clones of it are fitted.
    X, y, weight
        The rows.
    classes : (2,) array
        The negative and the positive label.
    seed : int
        Of the division of rows.
    """
    table, values = by_row(X), np.empty(len(y))
    fewest = int(min(np.unique(y, return_counts=True)[1]))
    if fewest < 2:
        raise InvalidInputError(
            f"a label has {fewest} row, and cross-fitting of {type(estimator).__name__} needs "
            "two; pass more rows, or FrozenEstimator(fitted)"
        )
    parts = StratifiedKFold(min(FOLDS, fewest), shuffle=True, random_state=seed)
    for learn, held_out in parts.split(np.zeros((len(y), 1)), y):
        part = _fit(estimator, take_rows(table, learn), y[learn], weight, learn)
        values[held_out] = frozen_base(part, classes).values(take_rows(table, held_out))
    whole = _fit(estimator, X, y, weight, slice(None))
    return frozen_base(whole, classes), values


def _fit(estimator: Any, X: Matrix, y: np.ndarray, weight: FloatArray | None, rows: Any) -> Any:
    given = {} if weight is None else {"sample_weight": weight[rows]}
    try:
        fresh = clone(estimator)
    except RuntimeError:  # CatBoost hands out copies of lists such as cat_features
        fresh = deepcopy(estimator)
    return fresh.fit(X, y, **given)


def with_rows(base: BaseModel, X: Matrix) -> BaseModel:
    """The same with made-up rows that a file is checked by."""
    return replace(base, rows=None if base.kind == SCORES else probe.draw(X))
