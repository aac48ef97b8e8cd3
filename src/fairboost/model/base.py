"""What the estimators share: from a checked request to fitted attributes, scores and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from copyreg import __newobj__  # type: ignore[attr-defined]
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_regressor,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairboost._typing import Booster, FloatArray, Matrix
from fairboost.algorithm.game import Game
from fairboost.cluster.collections import DaskRows, check_aligned, header, map_rows, rows_beside
from fairboost.cluster.training import (
    ClusterRequest,
    ClusterResult,
    ClusterRun,
    check_for_dask,
    train_on_dask,
)
from fairboost.data.cells import SensitiveColumn
from fairboost.data.device_arrays import is_device_frame, on_host
from fairboost.data.features import (
    check_readable,
    column_names,
    in_pandas_if_categorical,
    texts_of,
    with_categories,
)
from fairboost.data.validation import (
    DEFAULT_COLUMN,
    CheckedRows,
    check_beside,
    check_two_dimensional,
    unpack,
)
from fairboost.engines.port import Engine, TrainedModel, is_on_disk
from fairboost.engines.registry import (
    check_predicts,
    default_estimator,
    engine_of,
    load_engine,
    name_of,
)
from fairboost.exceptions import ExportError, InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.soft import NOT_ON_DASK, refuse_soft
from fairboost.fairness.tolerance import is_automatic, key_of
from fairboost.model.files import base_of, model_text, read_text, write_model
from fairboost.model.self_test import MISSING_SHARE, drawn_table
from fairboost.serving import decide_file
from fairboost.serving.export import export, format_named
from fairboost.serving.rows import check_in_memory, drawn_rows, given_rows
from fairboost.serving.served import Decision, Served
from fairboost.training.iterates import average_weights, check_iterate, randomized_scores
from fairboost.training.options import TrainingOptions
from fairboost.training.outcome import Training, measure_model
from fairboost.training.request import FitRequest
from fairboost.training.run import train
from fairboost.verdicts import diagnostics, fairness_report
from fairboost.verdicts.fairness_report import FairnessReport, MeasuredRates

STATE, BASE = "model.json", "base"
"""Names of the model file's text and of a base model in the state of a fitted model."""


class FairBooster(MetaEstimatorMixin, BaseEstimator):
    """A boosted model under fairness constraints, whatever it predicts."""

    estimator: Any
    constraint: Any
    holdout: Any
    confidence: float | None
    iterate: str
    random_state: Any
    verbose: int
    min_group_rows: int

    _predicted: ClassVar[tuple[str, ...]]
    """What models of the class predict, as their files say it."""
    _model: TrainedModel
    _measured: MeasuredRates | None
    fairness_report_: FairnessReport | None
    cluster_: ClusterRun

    def _options(self) -> TrainingOptions:
        """What the parameters ask for, checked."""
        raise NotImplementedError

    def _options_for(self, classes: Any) -> TrainingOptions:
        """The same, given the labels, which are None where a number is predicted."""
        return self._options()

    def _set_measured(self, measured: MeasuredRates | None, score_threshold: float) -> None:
        """Set the attributes that are about what was measured of the model kept."""
        raise NotImplementedError

    def _known_groups(self) -> dict[str, list[object]]:
        """The groups of each sensitive column in training, as far as rates were read of them."""
        found: dict[str, dict[object, None]] = {}
        measured = [] if self._measured is None else [self._measured]
        of_terms = [
            (t.groups.columns, n) for m in measured for t in m.terms for n in t.groups.names
        ]
        for columns, values in of_terms + [
            (r.columns, r.name) for m in measured for r in m.left_out
        ]:
            for column, value in zip(columns, values, strict=True):
                found.setdefault(column, {})[value] = None
        return {column: list(values) for column, values in found.items()}

    def _train(self, request: FitRequest) -> None:
        """Train, and set the fitted attributes."""
        with request.on_device():
            result, session = train(request, progress=bool(self.verbose))
            self._keep(result)
            again = result.rescaled or self.iterate in ("average", "randomized")
            # In cross-fitting rates are those of other models, however theirs are rounded.
            out_of_fold = session.game.layout.holdout.kind == "cross"
            if again or (request.engine.predicts_otherwise and not out_of_fold):
                self._measure_again(session.game, request)

    def _train_on_dask(
        self, rows: DaskRows, holdout_set: Any, asked: dict[str, Any], pos_label: object = None
    ) -> ClusterResult:
        """Check what can be checked without looking at the rows, and train where they are."""
        regressor = is_regressor(self)
        refuse_soft(self.constraint, rows.sensitive_features, *NOT_ON_DASK)
        check_for_dask(self.estimator, rows.X, self.iterate, asked, regressor)
        validate_data(self, header(rows.X), skip_check_array=True, reset=True)
        held_out = None if holdout_set is None else rows_beside(holdout_set, rows, regressor)
        self._stream()
        seed, own = (0, None) if self.random_state is None else (self._draw(), self._draw())
        request = ClusterRequest(
            self._options(),
            self.estimator,
            rows,
            held_out,
            seed,
            own,
            self._options_for,
            pos_label,
        )
        result = train_on_dask(request, bool(self.verbose))
        self.cluster_ = result.run
        return result

    def _lazily(self, name: str, X: Any, like: np.ndarray, **beside: Any) -> np.ndarray:
        """Have a method called on each partition, when the result is computed.

        ``beside`` is a column with the same partitions, by the name that the method gives it.
        """
        check_is_fitted(self, "_model")
        self._check_columns(header(X))
        given = {what: column for what, column in beside.items() if column is not None}
        for what, column in given.items():
            check_aligned(what, column, X)
        extra = self, name, list(given)
        lazy: np.ndarray = map_rows(_call, X, extra, like, *given.values())  # a dask.array.Array
        return lazy

    def _warn(self) -> None:
        """Warn of what the report says, once the fit is done."""
        if self.fairness_report_ is not None and self._measured is not None:
            diagnostics.warn_of_worth(self._measured, self.fairness_report_.verdicts)
            diagnostics.warn_if_not_met(self.fairness_report_, self.confidence is not None)
            diagnostics.warn_if_beside_the_point(self._measured.realised)
            diagnostics.warn_if_deciding_little(self._measured)
            diagnostics.warn_if_unsettled(self._measured)
            diagnostics.warn_if_rows_seen(self._measured)
            diagnostics.warn_of_cost(self._measured)

    def _check_iterate(self, engine: Engine, has_base: bool = False) -> None:
        """Refuse iterates that the engine cannot give."""
        best_of_one = self.iterate == "best" and self.constraint is None
        check_iterate("last" if best_of_one else self.iterate, engine.rescales_trees)
        has_base = has_base or engine.base is not None
        if has_base and self.iterate in ("average", "randomized"):
            raise InvalidInputError(
                f"iterate={self.iterate!r} is not possible on top of a frozen model, which "
                "stays as it is; use iterate='best' or 'last'"
            )

    def _check_holdout_set(self, holdout_set: Any) -> None:
        """Refuse rows of the user's own beside cross-fitting."""
        if holdout_set is not None and self.holdout == "cross":
            raise InvalidInputError(
                "holdout='cross' measures on the training rows out of fold, holdout_set on rows "
                "of your own; leave one of them out, or hold out a share beside the set, "
                "holdout=0.2"
            )

    def _chosen(self, estimator: Any) -> Any:
        """A clone of the estimator to train, checked, with a seed of its own if it has none."""
        numbers = isinstance(self, RegressorMixin)
        estimator = default_estimator(regressor=numbers) if estimator is None else estimator
        check_predicts(estimator, number=numbers)
        engine_of(estimator).check_estimator(estimator)
        engine = clone(estimator)
        if self.random_state is not None and engine.random_state is None:
            engine.set_params(random_state=self._draw())
        return engine

    def _stream(self) -> np.random.RandomState:
        """What draws come from."""
        try:
            found: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            raise InvalidInputError(
                "random_state must be a whole number from 0 to 2**32 - 1, a RandomState of NumPy "
                f"or None, found {self.random_state!r}"
            ) from error
        return found

    def _seed(self) -> int:
        """Seed of the draw of rows to hold out: the same every time if none is given."""
        return 0 if self.random_state is None else self._draw()

    def _draw(self) -> int:
        return int(self._stream().randint(2**31 - 1))

    def _keep(self, result: Training) -> None:
        """Set the fitted attributes."""
        model, record = result.model, result.record
        kept = result.last_iterate()
        if result.has_base and not model.n_base and not record.terms:
            kept, model = 0, result.first(0)  # nothing is asked of a stage: the base stays
        elif self.iterate == "best" and record.terms:
            kept = result.best_iterate()
            model = result.first(kept)
        if self.iterate == "average":
            model = model.with_tree_weights(average_weights(model.n_rounds))
        self._model = model
        self._draw_seed = self._draw() if self.iterate == "randomized" else None
        self.multipliers_ = pd.Series(
            record.multipliers, index=list(record.inequalities), name="multiplier"
        )
        asked = [t.constraint for t in record.terms if is_automatic(t.constraint)]
        self.tolerances_ = {key_of(c): float(vars(c)["tolerance"]) for c in asked}
        self.trace_ = record.to_frame()
        # A round that early stopping ended is counted too; one that raised in a callback is not.
        self.trace_["trees"] = pd.Series(result.trees, dtype="int64").reindex(self.trace_.index)
        self.best_iteration_ = model.n_rounds
        judged = bool(record.terms) or isinstance(self._options().operating_point, OperatingPoint)
        self._set_measured(result.measured(kept) if judged else None, result.threshold(kept))

    def _measure_again(self, game: Game, request: FitRequest) -> None:
        """Measure a model that is none of those that rounds have measured."""
        if self._measured is not None:
            outside = request.outside(game.layout.holdout)
            theirs = None if outside is None else self._trained_scores(outside)
            self._set_measured(*measure_model(game, self._trained_scores(request.data), theirs))

    def _trained_scores(self, rows: CheckedRows) -> FloatArray:
        """Scores of rows as training has them, with what each starts from."""
        scores: FloatArray = on_host(self._own_scores(rows.X))
        return scores if rows.offset is None else scores + rows.offset

    def _judged(self, *measured: MeasuredRates, positive: str = "") -> FairnessReport:
        """The report on what was measured."""
        options = self._options()
        if self._measured is None and self.fairness_report_ is not None:  # of a file
            told = self.fairness_report_
            measured = tuple(
                replace(m, unconstrained=told.unconstrained, stopped=told.stopped)
                for m in measured
            )
        return fairness_report.build(
            *(replace(m, min_group_rows=self.min_group_rows) for m in measured),
            confidence=options.asked_confidence,
            positive=positive,
            paper=options.multipliers == "paper",
            rounds=self._rounds_to_settle(),
            more_rounds=self._more_rounds(),
        )

    def _more_rounds(self) -> str:
        """The option by which more rounds are trained."""
        return fairness_report.MORE_ROUNDS

    def _rounds_to_settle(self) -> int:
        """Rounds of the training, as far as multipliers settle by their number."""
        return len(self.trace_)

    @property
    def estimator_(self) -> Any:
        """The fitted engine, a stock estimator of LightGBM or XGBoost."""
        check_is_fitted(self, "_model")
        return self._model.estimator

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each feature, as the fitted engine measures it."""
        check_is_fitted(self, "_model")
        return np.asarray(self._model.estimator.feature_importances_)

    @property
    def booster_(self) -> Booster:
        """The stock booster, of LightGBM or XGBoost."""
        check_is_fitted(self, "_model")
        found: Booster = self._model.booster
        return found

    def _check_columns(self, X: Any) -> None:
        """Raise scikit-learn's error, with the remedy, unless columns are those of ``fit``."""
        try:
            validate_data(self, X, skip_check_array=True, reset=False)
        except ValueError as error:
            if "feature names should match" not in (said := str(error).rstrip()):
                raise
            first = "add the missing columns, then " if "now missing" in said else ""
            raise ValueError(f"{said}\n{first}pass X[model.feature_names_in_]\n") from error

    def _scores(self, X: Matrix, *, rounds: int | None = None) -> FloatArray:
        """Scores of rows by the model, or by its first rounds."""
        check_is_fitted(self, "_model")
        check_two_dimensional(X)
        seen = self._categories_read(self._seen(X))
        check_readable(seen)
        self._check_columns(columns_of_table(X))
        return self._own_scores(seen, rounds)

    def _seen(self, X: Matrix) -> Matrix:
        """What the engine gets of a table."""
        return X

    def _categories_read(self, X: Matrix) -> Matrix:
        """A table as the engine takes categories: in pandas, and text where training had them."""
        if texts := texts_of(X):
            with suppress(ExportError):  # a LinearStage, of which no features are known
                features = self._model.features(column_names(X))
                known = {f.name for f in features if f.categories and f.is_text}
                X = with_categories(X, known.intersection(texts))
        return in_pandas_if_categorical(X)

    def _own_scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """Scores by the trees alone."""
        if self._draw_seed is not None:
            # Draws are made of the bits of scores, on the host.
            return as_numbers(randomized_scores(self._model, on_host(X), self._draw_seed))
        return as_numbers(self._model.scores(X, rounds))

    def _constrained(self, names: list[str]) -> list[str]:
        """Those of the given sensitive columns that the constraints were trained on."""
        known = [] if self.fairness_report_ is None else list(self.fairness_report_.columns)
        one_each = len(known) == len(names) == 1
        if not known or (one_each and DEFAULT_COLUMN in (*known, *names)):
            return names  # loaded from a file of old, or a column without a name
        missing = [name for name in known if name not in names]
        if missing:
            raise InvalidInputError(
                f"the constraints are on the sensitive columns {known}, found in "
                f"sensitive_features: {names}; pass {missing} as well"
            )
        return known

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, as JSON with the booster in its engine's format.

        Parameters
        ----------
        path : str or Path
            Overwritten if it exists, whole or not at all. Read it with :func:`fairboost.load`.
            Endings of pickles, such as ``.pkl``, are refused.
        """
        check_is_fitted(self, "_model")
        write_model(path, self)

    def _decision(self) -> Decision | None:
        """How labels are decided; None where numbers are predicted."""
        return None

    def _notes(self) -> dict[str, object]:
        """What an exported file says besides, for programs that look for it."""
        return {}

    def _export(
        self,
        path: str | Path,
        form: str | None,
        check_on: Matrix | None = None,
        retold: Callable[[Served], Served] = lambda served: served,
    ) -> None:
        """Write a file of another format.

        ``retold`` may give labels and features other names, such as those of the user's table.
        """
        check_is_fitted(self, "_model")
        if self._draw_seed is not None:
            raise ExportError(
                "iterate='randomized' scores each row by another prefix of the ensemble, which "
                "no single booster does; train with iterate='average' or 'last', or use "
                "save()"
            )
        served = retold(self._served())
        name = format_named(form, Path(path), served)
        if check_on is None:
            engine, text = load_engine(served.engine), self._model.text()
            table = drawn_table(
                engine.split_points(text, self.n_features_in_), len(served.features)
            )
            missing = getattr(self._model.estimator, "missing", math.nan)
            if not math.isnan(missing):  # a number, of XGBoost
                table[np.random.default_rng(1).random(table.shape) < MISSING_SHARE] = missing
            rows = drawn_rows(table, served.features)
        else:
            check_in_memory(check_on)
            check_two_dimensional(check_on)
            check_on = self._categories_read(check_on)
            check_readable(check_on)
            self._check_columns(check_on)
            rows = given_rows(check_on, served.features, served.engine)
        export(served, Path(path), name, rows, self._facts())

    def _served(self) -> Served:
        """The model as writers of formats see it."""
        named = hasattr(self, "feature_names_in_")
        names = self.feature_names_in_ if named else range(self.n_features_in_)
        features = self._model.features([str(name) for name in names])
        engine = name_of(self._model.estimator)
        return Served(self._model, engine, features, named, self._decision(), self._notes())

    def _decide_text(self, form: str, files: dict[str, Path]) -> str:
        """``decide.json`` of files that are there, by the names that it gives them."""
        return decide_file.text(self._served(), form, files, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What ``decide.json`` says of the training."""
        report = self.fairness_report_
        listed: list[tuple[str, Any]] = []
        if report is not None:
            listed = [(report.where, verdict) for verdict in report.verdicts]
            listed += [("test", verdict) for verdict in report.test_verdicts]
        numbers = "number per unit of exposure" if getattr(self, "_exposed", False) else "number"
        return {
            "predictions": numbers if is_regressor(self) else "probabilities",
            "constraints": list(dict.fromkeys(verdict.constraint for _, verdict in listed)),
            "verdicts": [
                {
                    "where": where,
                    **{name: value for name, value in asdict(verdict).items() if name != "named"},
                    "level": report.level if report else None,
                }
                for where, verdict in listed
            ],
        }

    def __getstate__(self) -> dict[str, Any]:
        """The state as plain values, for skops: a fitted model is the text of its file."""
        if not hasattr(self, "_model"):
            found: dict[str, Any] = super().__getstate__()
            return found
        base = getattr(base_of(self), "estimator", None)  # an object, which no text holds
        return {STATE: model_text(self, "the state of the model"), BASE: base}

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """For pickle and copies, which keep all objects as they are."""
        return __newobj__, (type(self),), super().__getstate__()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if STATE not in state:
            super().__setstate__(state)
            return
        names = set(self._get_param_names())
        known = dict.fromkeys(self._predicted, names)
        where, base = "the state of the model", state.get(BASE)
        _, parameters, fitted = read_text(state[STATE], where, known, base)
        self.__dict__.update(vars(type(self)(**parameters)), **fitted)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def with_evaluation(fit_options: dict[str, Any], X: Matrix, given_X: Matrix) -> dict[str, Any]:
    """Options of ``fit`` with the evaluation sets as a list, their tables checked."""
    given = fit_options.get("eval_set")
    pairs = [given] if isinstance(given, tuple) else given or ()
    found = [unpack("each item of eval_set", pair, "(X, y)", most=2) for pair in pairs]
    # Engines know their training rows by identity.
    checked = [(X if t is given_X else check_beside(t, X, "eval_set"), y) for t, y in found]
    return {**fit_options, "eval_set": checked} if checked else fit_options


def columns_among(data: CheckedRows, names: Collection[str]) -> list[SensitiveColumn]:
    """Sensitive columns of rows that have one of some names."""
    return [column for column in data.columns if column.name in names]


def _call(part: Matrix, told: tuple[FairBooster, str, list[str]], *beside: Any) -> np.ndarray:
    """Run where a partition lies: a method of a model on it."""
    model, name, columns = told
    found: np.ndarray = getattr(model, name)(part, **dict(zip(columns, beside, strict=True)))
    return found


def columns_of_table(X: Matrix) -> Matrix:
    """What scikit-learn looks at: of a table on disk or on a GPU, the columns."""
    unknown = is_on_disk(X) or is_device_frame(X)
    return pd.DataFrame(columns=list(X.columns)) if unknown else X


def as_numbers(scores: FloatArray) -> FloatArray:
    """Refuse scores of which nothing follows: NaN is neither above a threshold nor below."""
    if (missing := np.isnan(scores)).any():
        raise InvalidInputError(
            f"the model's score of row {missing.argmax()} is NaN, expected a number: a linear "
            "tree has met a feature that is too large for it. Scale the feature, or train "
            "without linear_tree"
        )
    return scores
