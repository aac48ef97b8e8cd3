"""A stage on a base model: which parameters ask for one, and what it sees of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from fairboost._numbers import is_number
from fairboost._text import did_you_mean
from fairboost._typing import ArrayLike, Matrix
from fairboost.algorithm.multipliers import SETTLED
from fairboost.data.features import check_readable, column_names
from fairboost.data.validation import (
    CheckedRows,
    as_column,
    check_same_rows,
    python_value,
    take_columns,
)
from fairboost.engines.frozen import STAGE_LEAVES
from fairboost.engines.group_model import FEW_BINS
from fairboost.engines.registry import default_estimator, is_linear
from fairboost.exceptions import InvalidInputError
from fairboost.model.base_model import (
    OTHER_ROWS,
    OTHER_SCORES,
    SCORES,
    BaseModel,
    check_given,
    check_unfitted,
    cross_fitted,
    frozen_base,
    is_base,
    kind_of,
    read_base_score,
    said_of_optimism,
    said_of_seen_rows,
    with_rows,
)
from fairboost.training.options import TrainingOptions
from fairboost.training.request import FitRequest

STAGE: dict[str, Any] = {
    "n_estimators": 20, "learning_rate": 0.3, "num_leaves": STAGE_LEAVES, "verbose": -1,
    "max_bin": FEW_BINS, "subsample_for_bin": 10_000, "enable_bundle": False,
}  # fmt: skip
"""A stage on another model. On three random splits of three tables and three base models, 20 trees
at a rate of 0.3 with a gain of 2 left as little of the gaps as 40 at 0.2 with a gain of 1, in less
time, at an accuracy that was lower by 0.0006 at most (``benchmarks/any_model.md``). Bins are
coarse and made from few rows, since to bin many rows takes longer than such trees do; with 5,000
rows accuracy fell by 0.001 where categories are many (ACSIncome). Features are not bundled:
LightGBM would bundle by the few rows."""


def asks_for_stage(
    estimator: Any, stage: Any, stage_features: Any, base_score: ArrayLike | None
) -> bool:
    """Whether a stage is added to a base model of another kind; refuses what contradicts it."""
    frozen = isinstance(estimator, FrozenEstimator)
    inner = estimator.estimator if frozen else estimator
    named = [
        name
        for name, value in {"stage": stage, "stage_features": stage_features}.items()
        if value is not None
    ]
    if is_linear(inner):
        raise InvalidInputError(
            "LinearStage adds to the scores of a base model and is none itself; pass it as "
            "stage=LinearStage(...), with the base model as the estimator or base_score=..."
        )
    if base_score is not None:
        if estimator is not None:
            raise InvalidInputError(
                f"base_score gives the scores to start from, and estimator is "
                f"{type(inner).__name__}; leave one of them out. The engine of the stage is "
                "given as stage=LGBMClassifier(...)"
            )
        return True
    if is_base(inner) or (frozen and named):
        return True
    if named:
        raise InvalidInputError(
            f"{named[0]} is about a stage on a base model, and there is none: estimator is "
            f"{'None' if inner is None else type(inner).__name__}, which is trained from "
            "scratch; pass FrozenEstimator(fitted classifier), or fit(..., base_score=...)"
        )
    return False


def stage_estimator(stage: Any, rounds: int | None = None) -> Any:
    """The unfitted engine of a stage: the user's, or small trees of LightGBM."""
    if stage is not None:
        if isinstance(stage, type | str):
            name = stage.__name__ if isinstance(stage, type) else stage
            raise InvalidInputError(
                f"stage must be an unfitted LGBMClassifier, XGBClassifier or LinearStage, found "
                f"{name!r}; pass an object with its options, such as LinearStage()"
            )
        return stage
    options = STAGE if rounds is None else {**STAGE, "n_estimators": rounds}
    return default_estimator(**options)


def more_rounds(stage: Any, rounds: int) -> str:
    """The option by which a stage is trained for more rounds.

    Examples
    --------
    >>> more_rounds(None, 20)
    'stage=LGBMClassifier(n_estimators=80, learning_rate=0.3, num_leaves=15)'
    """
    n = max(SETTLED, 2 * rounds)
    if is_linear(stage):
        return f"stage=LinearStage(rounds={n}, ...)"
    if stage is not None:
        return f"stage={type(stage).__name__}(n_estimators={n}, ...)"
    rest = ", ".join(f"{name}={STAGE[name]}" for name in ("learning_rate", "num_leaves"))
    return f"stage=LGBMClassifier(n_estimators={n}, {rest})"


FEW_TREES = 40
"""Up to here gradients of a stage go by observed groups. So many trees of 15 leaves hardly single
out training rows: gaps and accuracy on new rows were those of learned memberships, which took
longer than all the rest (``benchmarks/any_model.md``)."""


def for_stage(options: TrainingOptions, stage: Any, rounds: int) -> TrainingOptions:
    """Options of a stage of so many rounds: which memberships its gradients go by.

    The few weights of a ``LinearStage`` cannot single out rows, and need none.
    """
    if is_linear(stage) and options.memberships == "honest":
        raise InvalidInputError(
            "memberships='honest' is about gradients of trees, and LinearStage learns memberships "
            "by itself; leave memberships out"
        )
    few = is_linear(stage) or rounds <= FEW_TREES
    if few and options.memberships == "auto":
        return replace(options, memberships="observed")
    return options


def columns_of_stage(X: Matrix, asked: Sequence[Any] | None) -> tuple[int, ...] | None:
    """Positions of the columns that the stage sees; None for all."""
    if asked is None:
        return None
    names, width = column_names(X), int(np.shape(X)[1])
    found = []
    for column in [asked] if isinstance(asked, str) else list(asked):
        if isinstance(column, str) and column in names:
            found.append(names.index(column))
        elif is_number(column) and int(column) == column and -width <= column < width:
            found.append(int(column) % width)
        else:
            known = f"one of {', '.join(names[:20])}" if names else f"a position below {width}"
            raise InvalidInputError(
                f"stage_features has {column!r}, which is no column of X; expected {known}"
                f"{did_you_mean(column, names)}"
            )
    if not found or len(set(found)) < len(found):
        raise InvalidInputError(
            f"stage_features must be different columns, one or more, found {list(asked)!r}"
        )
    return tuple(found)


def check_stage_table(X: Matrix, named: bool = False) -> None:
    """Refuse columns that no engine reads; ``named`` if they were asked for, stage_features."""
    remedy = "name the columns that the stage is to see, stage_features=[...]"
    if named:
        remedy = "leave it out of stage_features, or turn it into a categorical column"
    try:
        check_readable(X)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error}. The base model may read it, and the stage cannot; {remedy}"
        ) from error


def split_holdout_set(
    holdout_set: Any, columns: tuple[int, ...] | None, scored: bool
) -> tuple[Any, Any, Any]:
    """A held-out set as the stage reads it, its whole table, and its base scores.

    Anything that is no such tuple is left to the check of held-out sets.
    """
    if not isinstance(holdout_set, tuple | list) or len(holdout_set) < 2:
        return holdout_set, None, None
    X, *rest = holdout_set
    score = None
    if scored:
        if len(rest) != 4 or rest[3] is None:
            raise InvalidInputError(
                "holdout_set has no scores of the base model; pass (X, y, sensitive_features, "
                "sample_weight, base_score), with None for weights that there are not"
            )
        score = rest.pop()
    return (_seen(X, columns), *rest), X, score


def split_eval_set(
    fit_options: dict[str, Any], X: Matrix, seen: Matrix, columns: tuple[int, ...] | None
) -> tuple[dict[str, Any], list[Matrix]]:
    """Options of ``fit`` whose evaluation sets are as the stage reads them, and whole tables."""
    given = fit_options.get("eval_set")
    pairs = [given] if isinstance(given, tuple) else list(given or ())
    if not pairs or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs):
        return fit_options, []
    tables = [table for table, _ in pairs]
    sets = [
        # Engines know their training rows by identity.
        (seen if table is X else _seen(table, columns), y)
        for table, y in pairs
    ]
    return {**fit_options, "eval_set": sets}, tables


def _seen(X: Matrix, columns: tuple[int, ...] | None) -> Matrix:
    return X if columns is None else take_columns(X, columns)


def check_base(estimator: Any, base_score: Any, sample_weight: Any, classes: np.ndarray) -> None:
    """Refuse a base model of which no scores follow, before anything is fitted."""
    if len(classes) > 2:
        raise InvalidInputError(
            f"y has {len(classes)} classes, and a stage on a base model of another kind is for "
            "two labels; train FairGBMClassifier(LGBMClassifier(...)) for several classes"
        )
    if isinstance(estimator, FrozenEstimator):
        frozen_base(estimator.estimator, classes)
    elif base_score is None:
        kind_of(estimator)
        check_unfitted(estimator, sample_weight)


def on_base(
    request: FitRequest,
    estimator: Any,
    X: Matrix,
    y: ArrayLike,
    base_score: ArrayLike | None,
    held_out: tuple[Matrix, ArrayLike | None],
    eval_tables: Sequence[Matrix],
) -> tuple[BaseModel, FitRequest]:
    """The base model, and the request with its log-odds as what scores start from.

    Parameters
    ----------
    request : FitRequest
        The training of the stage, with tables as it sees them.
    estimator : FrozenEstimator, classifier or None
        The base model; an unfitted one is cross-fitted. None where there are scores alone.
    X, y : Matrix, ArrayLike
        The whole table, and labels as the user wrote them.
    base_score : ArrayLike, optional
        Scores of the rows.
    held_out : (Matrix, ArrayLike)
        The whole table and the scores of the held-out set, if there is one.
    eval_tables : sequence of Matrix
        The whole tables of the evaluation sets.
    """
    data = request.data
    labels, weight, classes = data.labels, data.sample_weight, data.classes
    if base_score is not None:
        check_same_rows(X=X, base_score=base_score)
        values = read_base_score(base_score, len(labels))
        check_given(values, labels, python_value(classes[1]))
        base = BaseModel(SCORES)
        if eval_tables:
            raise InvalidInputError(
                "eval_set has no scores of the base model; pass such rows as holdout_set=(X, y, "
                "sensitive_features, sample_weight, base_score)"
            )
    elif isinstance(estimator, FrozenEstimator):
        base = frozen_base(estimator.estimator, classes)
        values = base.values(X)
    else:
        known = as_column(y)
        base, values = cross_fitted(estimator, X, known, weight, classes, request.seed)
    base = with_rows(base.fitted_to(values, labels, weight), X)
    data = replace(data, base_scores=base.of_values(values))
    further = request.held_out
    if further is not None:
        table, scores = held_out
        further = replace(further, base_scores=base.log_odds(table, scores))
    if base_score is not None or isinstance(estimator, FrozenEstimator):
        # Rates are read on a held-out set, if there is one, and on a share if its number is given.
        read = [further] if further is not None else []
        read += [data] if further is None or is_number(request.options.holdout) else []
        tables = [held_out[0] if r is further else X for r in read]
        said = (_said_of_rows(base, t, r, request.seed) for t, r in zip(tables, read, strict=True))
        base = replace(base, rows_seen=next(filter(None, said), ""))
    options = request.fit_options
    if eval_tables:
        # Of the training rows an unfitted base model has scores by models that have not seen them.
        offsets = [data.base_scores if t is X else base.log_odds(t) for t in eval_tables]
        options = {**options, "eval_offset": offsets}
    return base, replace(request, data=data, held_out=further, fit_options=options)


def _said_of_rows(base: BaseModel, X: Matrix, rows: CheckedRows, seed: int) -> str:
    """That the base model was probably trained on some rows; empty if it does not show."""
    assert rows.base_scores is not None
    if base.kind == SCORES:
        return said_of_seen_rows(rows.base_scores, rows.labels, OTHER_SCORES)
    few = said_of_seen_rows(rows.base_scores, rows.labels, OTHER_ROWS)
    # Labels may be easy to predict: such a model then makes no more errors on new rows.
    asked = {"doublings": 0.0} if few else {}
    said = said_of_optimism(base, X, rows.labels, rows.classes, seed, **asked)
    return few if said is None else said and (few or said)
