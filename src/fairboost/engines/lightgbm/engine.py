"""Stock LightGBM behind the port.

Facts of LightGBM that shape this file:

* A custom objective starts from ``init_score``, and the booster forgets it: it is folded into the
  first tree afterwards (:mod:`fairboost.engines.lightgbm.text`).
* Parameters are deep-copied before training. A function survives that as itself, an object or a
  bound method becomes a copy whose state nobody reads; so the objective handed over is a closure.
* With no split worth making LightGBM adds no tree but goes on asking for gradients: rounds and
  trees may differ, so the number of trees is reported after every round.
* The number of trees to predict with is kept in the booster, where threads overwrite each other's:
  fewer than all are asked of a copy that a thread has for itself.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import local
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import joblib
import lightgbm
import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMModel, LGBMRegressor
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from fairboost._numbers import class_probabilities, probabilities
from fairboost._typing import ArrayLike, Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.device_arrays import check_not_on_device
from fairboost.data.features import categories_of, check_names, listed_categories
from fairboost.data.validation import by_row
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.frozen import (
    STAGE,
    STAGE_LEAVES,
    check_features,
    check_frozen,
    check_trained_by,
)
from fairboost.engines.lightgbm import multiclass, options, regression
from fairboost.engines.lightgbm.data import (
    Prepared,
    SplitRows,
    conclude,
    prepare,
)
from fairboost.engines.lightgbm.early_stopping import within_limits
from fairboost.engines.lightgbm.group_model import LightGBMGroupModel
from fairboost.engines.lightgbm.kinds import Kind, check_options, class_of, kind_of
from fairboost.engines.lightgbm.lockstep import LightGBMLockstep
from fairboost.engines.lightgbm.soundness import split_points
from fairboost.engines.lightgbm.text import (
    append_trees,
    as_stock_model,
    with_notes,
    without_trees,
)
from fairboost.engines.lightgbm.threads import number_of_threads
from fairboost.engines.lightgbm.trees import read_ensemble, read_features, with_known_ways
from fairboost.engines.lockstep import threads_each, turns_taken
from fairboost.engines.options import check_kind
from fairboost.engines.port import EngineData, LossTerms, Problem, is_on_disk
from fairboost.engines.soundness import check_threads
from fairboost.engines.tables import as_table, feature_names
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.device import Device
from fairboost.kernel.threads import thread_count

FORBIDDEN = r'^$|[",:\[\]{}\x00-\x08\x0a-\x1f]'
"""What LightGBM refuses in names of columns, or does not read in its own text."""
TAKES = 'no empty name and neither the characters " , : [ ] { } nor control characters there'


def check_table(X: Matrix) -> None:
    """Refuse kinds of numbers that LightGBM does not read.

    Over categorical columns of polars or Arrow it ends the process.
    """
    if issparse(X) and X.dtype not in (np.float32, np.float64):
        raise InvalidInputError(
            f"LightGBM reads sparse tables of float32 or float64, found {X.dtype}; pass "
            "X.astype('float64')"
        )
    names = [] if isinstance(X, pd.DataFrame) else categories_of(X)
    if names:
        raise InvalidInputError(
            f"LightGBM reads categories from pandas alone, found column {names[0]!r} in "
            f"{type(X).__module__.partition('.')[0]}; pass X.to_pandas(), or use XGBoost"
        )
    for name, dtype in X.dtypes.items() if isinstance(X, pd.DataFrame) else ():
        plain = issubclass(dtype.type, np.integer | np.floating | np.bool_)
        if not plain and not isinstance(dtype, pd.CategoricalDtype):
            raise InvalidInputError(
                f"LightGBM does not read column {str(name)!r} of X as {dtype}; pass numbers of "
                "NumPy, such as X.astype('float64')"
            )


def check_categories(X: Matrix, known: Sequence[Sequence[Any]] | None) -> None:
    """Refuse columns whose categories LightGBM would all take for missing values.

    Parameters
    ----------
    X : Matrix
        To predict for.
    known : sequence of sequence
        The categories of training, by categorical column.
    """
    if not isinstance(X, pd.DataFrame) or known is None:
        return
    listed = listed_categories(X)
    if len(listed) != len(known):
        raise InvalidInputError(
            f"X has {len(listed)} categorical columns ({', '.join(listed) or 'none'}), expected "
            f"the {len(known)} of training; give each column the type that it had there"
        )
    for (name, found), categories in zip(listed.items(), known, strict=True):
        here, there = ({isinstance(v, str) for v in values} for values in (found, categories))
        if here and there and not here & there:
            raise InvalidInputError(
                f"column {name!r} of X has the category {found.tolist()[0]!r}, expected those of "
                f"training, such as {categories[0]!r}: text is no number, and LightGBM would take "
                f"all of them for missing; convert X[{name!r}] first"
            )


def check_linear_leaves(text: str, whose: str) -> None:
    """Refuse linear trees of which a leaf is no number: no decision follows from their scores.

    LightGBM goes on from such a model as if it scored 0.
    """
    if "is_linear=1" in text and re.search(r"^leaf_co(nst|eff)=.*(nan|inf)", text, re.MULTILINE):
        raise InvalidInputError(
            f"{whose} has a linear tree of which a leaf is NaN or infinite: features are too "
            "large for it. Scale the features down, or train without linear_tree"
        )


def check_own_objective(params: dict[str, Any], objective: str) -> None:
    """Refuse what LightGBM's own absolute and quantile objectives refuse."""
    if options.directions(params):
        raise EngineOptionError(
            f"LightGBM's objective={objective!r} takes no monotone_constraints, and without a "
            "fairness constraint it is what trains; leave them out, or use objective='huber'"
        )


@dataclass(frozen=True)
class LightGBMModel:
    """A trained booster in stock form, inside the estimator that trained it.

    Parameters
    ----------
    estimator : LGBMClassifier or LGBMRegressor
        Fitted, with the user's parameters; predicts like any stock one.
    intercept : float
        The score that training started from; it sits in the first tree.
    n_base : int
        Rounds of a frozen model that training started from.
    n_classes : int
        Classes that it tells apart, if it does.
    """

    estimator: LGBMModel
    intercept: float | FloatArray
    n_base: int = 0
    n_classes: int = 2
    file_endings: ClassVar[tuple[str, ...]] = ()

    @property
    def kind(self) -> Kind:
        """What is predicted."""
        return kind_of(self.estimator, self.n_classes)

    @property
    def booster(self) -> lightgbm.Booster:
        """The stock booster."""
        return self.estimator.booster_

    @property
    def feature_names(self) -> list[str] | None:
        """What the booster calls the features, blanks as underscores; None without names."""
        return _names(self.estimator)

    @property
    def n_rounds(self) -> int:
        """Number of iterates."""
        return int(self.booster.current_iteration())

    def scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """Raw log-odds by the first ``rounds`` trees; by all of them without it."""
        check_table(X)
        check_categories(X, self.booster.pandas_categorical)
        fitted = self.estimator if rounds in (None, self.n_rounds) else self._of_this_thread()
        return _raw_scores(fitted, X, num_iteration=rounds)

    def _of_this_thread(self) -> LGBMModel:
        """A copy of the estimator that no other thread predicts with."""
        copies = _COPIES.of_boosters
        if self.booster not in copies:
            copies[self.booster] = self._with(self.text(), 0).estimator
        return copies[self.booster]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of scores, to the last digit LightGBM's own."""
        if scores.ndim == 2:
            return class_probabilities(scores, single=False)
        return probabilities(scores, single=False)

    def predictions(self, scores: FloatArray) -> FloatArray:
        """Numbers that scores stand for, to the last digit LightGBM's own."""
        return self.kind.predictions(scores)

    def text(self) -> str:
        """The booster in LightGBM's text format."""
        return str(self.booster.model_to_string(num_iteration=-1))

    def export(self, **notes: object) -> str:
        """The same, with notes that LightGBM passes over."""
        return with_notes(self.text(), **notes)

    def text_for_others(self) -> str:
        """The same, in which every node says where missing values go."""
        return with_known_ways(self.text())

    def ensemble(self) -> Ensemble:
        """The trees as plain arrays."""
        return read_ensemble(self.text(), self.n_classes)

    def features(self, names: Sequence[str]) -> tuple[Feature, ...]:
        """What the model reads in each column."""
        return read_features(self.text(), names)

    @property
    def log_link(self) -> bool:
        """Whether a number is predicted as the exponential of the score."""
        number = class_of(self.estimator) is LGBMRegressor
        return number and regression.read_loss(self.estimator.get_params()).log_link

    def said_by_stock(self, text: str, X: Matrix) -> FloatArray:
        """What a stock booster read from a text predicts."""
        booster, asked = lightgbm.Booster(model_str=text), _n_jobs(self.estimator.get_params())
        with number_of_threads(thread_count(asked), any_number=True) as threads:
            return np.asarray(booster.predict(as_table(X), num_threads=threads))

    def first(self, rounds: int) -> LightGBMModel:
        """The model of the first ``rounds`` trees, on top of those it started from."""
        rounds += self.n_base
        if rounds >= self.n_rounds:
            return self
        if not rounds:  # which LightGBM would take for all of them
            return self._with(without_trees(self.text()), 0)
        return self._with(self.booster.model_to_string(num_iteration=rounds), self.n_base)

    def with_stage(self, stage: lightgbm.Booster) -> LightGBMModel:
        """The same trees, and those of a stage trained from its scores."""
        return self._with(append_trees(self.text(), stage.model_to_string()), self.n_rounds)

    def with_tree_weights(self, weights: FloatArray) -> LightGBMModel:
        """The same trees, each times a factor. The starting score keeps its weight."""
        # Put back what the first tree's factor takes from the intercept.
        missing = (1.0 - weights[0]) * self.intercept
        text = as_stock_model(
            self.text(), intercept=missing, tree_weights=weights, objective=self.kind.objective
        )
        return self._with(text, 0)

    def _with(self, text: str, n_base: int) -> LightGBMModel:
        fitted = _fitted(self.estimator, self.estimator, text, self.n_classes)
        return replace(self, estimator=fitted, n_base=n_base)


@dataclass(frozen=True)
class LightGBMEngine:
    """Trains the user's estimator on gradients handed to it.

    Parameters
    ----------
    estimator : LGBMClassifier or LGBMRegressor
        Unfitted or fitted; it is cloned, never changed.
    classes : array, optional
        The labels as the user wrote them; None where a number is predicted.
    base : LGBMClassifier or LGBMRegressor, optional
        A fitted model to go on from: its trees stay, further ones are added.
    """

    estimator: LGBMModel
    classes: Any
    base: LGBMModel | None = None

    @cached_property
    def told(self) -> dict[str, Any]:
        """The options of the estimator, which scikit-learn looks up by inspecting classes."""
        found: dict[str, Any] = self.estimator.get_params()
        return found

    @cached_property
    def kind(self) -> Kind:
        """What is predicted."""
        return kind_of(self.estimator, self.n_classes)

    @property
    def n_classes(self) -> int:
        """Classes that are told apart, if they are."""
        return 2 if self.classes is None else len(self.classes)

    @property
    def rescales_trees(self) -> bool:
        """Whether a prefix of the ensemble is not what the model was at that round (DART)."""
        return options.is_dart(self.told)

    @property
    def label_power(self) -> float:
        """Trees have so many leaves as asked for."""
        return 1.0

    @property
    def predicts_otherwise(self) -> bool:
        """Whether leaves are linear, or LightGBM looks at few rows before it bins them.

        Linear leaves are sums of many terms, which grow from round to round. And LightGBM bundles
        features that are never both other than 0 in the rows that it looks at. Other rows, where
        they are, are then binned wrongly.
        """
        return options.has_linear_trees(self.told) or options.looks_at_few_rows(self.told)

    @property
    def library(self) -> ctypes.CDLL | None:
        """LightGBM's; its place is not public, and may change."""
        return getattr(lightgbm.basic, "_LIB", None)

    device_name: ClassVar[str | None] = None
    device: ClassVar[Device | None] = None  # its CUDA learner takes gradients of the host only

    @property
    def n_jobs(self) -> int:
        """Threads that the options ask for; by default LightGBM takes the physical cores."""
        return _n_jobs(self.told)

    @property
    def n_rounds(self) -> int:
        """Rounds that the options ask for."""
        return int(self.estimator.n_estimators)

    @property
    def learning_rate(self) -> float:
        """The share of a leaf's step that is taken, as the options have it at the start."""
        return float(options.option(self.told, "learning_rate", 0.1))

    def loss_terms(
        self,
        labels: IntArray | FloatArray,
        sample_weight: Float32Array | None,
        offset: FloatArray | None = None,
    ) -> LossTerms:
        """What the options say about the loss: class weights and the starting score."""
        return self.kind.loss_terms(labels, sample_weight, offset, self.classes)

    def group_model(self, fit_options: dict[str, Any]) -> LightGBMGroupModel:
        """What grows small boosters for groups."""
        categorical = fit_options.get("categorical_feature", "auto")
        return LightGBMGroupModel(categorical, thread_count(self.n_jobs))

    def check_arguments(self, X: Matrix, fit_options: dict[str, Any]) -> None:
        """Refuse tables on disk or on a GPU. LightGBM checks the rest as it reads it."""
        if is_on_disk(X):
            what = class_of(self.estimator).__name__.removeprefix("LGBM")
            raise InvalidInputError(
                f"LightGBM trains on features in memory, found {type(X).__name__}; use "
                f"FairGBM{what}(XGB{what}(...)), or load the table"
            )
        check_not_on_device(X)
        check_names(X, FORBIDDEN, "LightGBM", TAKES)
        for table in (X, *(rows for rows, _ in fit_options.get("eval_set") or ())):
            check_table(table)
        categorical = fit_options.get("categorical_feature", "auto")
        options.check_monotone(self.told, X, categorical)

    def train(
        self, data: EngineData, problem: Problem, intercept: float | FloatArray
    ) -> tuple[LightGBMModel, LightGBMLockstep]:
        """Boost to a stock model; the binned data is there for further stages."""
        threads, turns = thread_count(self.n_jobs), 1
        if problem.followers:
            turns = self._turns(problem, data.fit_options.get("callbacks") or [])
            threads = threads_each(threads, problem, turns)
        with number_of_threads(threads) as number:
            return self._train(data, problem, intercept, number, turns)

    def _train(
        self,
        data: EngineData,
        problem: Problem,
        intercept: float | FloatArray,
        threads: int,
        turns: int,
    ) -> tuple[LightGBMModel, LightGBMLockstep]:
        """The same; each booster has so many threads, and followers take turns."""
        eval_names = data.fit_options.get("eval_names")
        callbacks = data.fit_options.get("callbacks") or []
        builtin, functions = options.read_metrics(
            self.told,
            data.fit_options.get("eval_metric"),
            bool(data.fit_options.get("eval_set")),
            any(getattr(callback, "first_metric_only", False) for callback in callbacks),
            self.kind.metrics,
        )
        # class_weight stays: with a custom objective LightGBM weighs only metrics by it.
        training = clone(self.estimator).set_params(metric=builtin or "None")
        start: float | FloatArray | None = (
            None  # which LightGBM finds by itself if the objective is its own
        )
        if not problem.by_engine:
            start = intercept
            training.set_params(objective=_nothing)
        else:
            check_own_objective(self.told, self.kind.objective)
        history: dict[str, Any] = {}
        prepared = self._prepare(training, data, start, threads)
        self._check_features(prepared.rows.construct())
        prepared, held_out = self._hold_out(prepared, data, start)
        rows = SplitRows(held_out)
        if problem.followers:
            folds = [f.fold for f in problem.followers]
            rows = rows.with_followers(prepared.rows.construct(), folds)
        lockstep = LightGBMLockstep(problem, rows, thread_count(self.n_jobs), turns, intercept)
        lockstep.waits = bool(callbacks)

        def gradients(scores: FloatArray, _: Any) -> tuple[Float32Array, Float32Array]:
            return lockstep.gradients(scores)  # a closure: LightGBM copies objects

        if not problem.by_engine:
            prepared.params["objective"] = gradients
        params, held = within_limits(prepared.params, callbacks, problem.within)
        try:
            booster = _train(
                params,
                prepared.rows,
                valid_sets=prepared.valid_sets or None,
                valid_names=eval_names,
                feval=list(map(lockstep.alone, functions)) or None,
                callbacks=[*held, *lockstep.callbacks(), lightgbm.record_evaluation(history)],
                keep_training_booster=True,  # else it goes through text, as it will below
            )  # fmt: skip
        finally:
            lockstep.close()
        conclude(training, booster, history, prepared.has_names)
        model = self._stock(training, intercept, 0.0 if start is None else start)
        return model, lockstep

    def _prepare(
        self,
        training: LGBMModel,
        data: EngineData,
        start: float | FloatArray | None,
        threads: int,
    ) -> Prepared:
        """The user's data and options as ``training`` reads them; scores begin at ``start``."""
        eval_set = data.fit_options.get("eval_set")
        # Over a linear tree and a set that is sparse by columns LightGBM ends the process.
        eval_set = eval_set and [
            (X if X is data.X else as_table(by_row(X)), *rest) for X, *rest in eval_set
        ]
        ours = "eval_set", "eval_names", "eval_metric", "eval_offset", "callbacks"
        fit_options = {name: v for name, v in data.fit_options.items() if name not in ours}
        if eval_set and (start is not None or self.base is not None):
            offsets = data.fit_options.get("eval_offset") or [None] * len(eval_set)
            fit_options["eval_init_score"] = [
                self._start(X, start, offset)
                for (X, _), offset in zip(eval_set, offsets, strict=True)
            ]
        return prepare(
            training, data, self._encode, eval_set, threads,
            sample_weight=data.sample_weight,
            init_score=self._start(data.X, start, data.offset),
            **fit_options,
        )  # fmt: skip

    def _turns(self, problem: Problem, callbacks: list[Any]) -> int:
        """In how many turns followers take their rounds."""
        if callbacks or self.rescales_trees:  # rates may change, or are no steps
            return 1
        return turns_taken(problem, self.n_rounds, self.learning_rate)

    def _stock(
        self, training: LGBMModel, intercept: Any, missing: float | FloatArray
    ) -> LightGBMModel:
        """The stock model of what was trained, with the trees of the base before it.

        ``missing`` is what the first tree lacks of the intercept.
        """
        text = training.booster_.model_to_string()
        asked = self.n_jobs if self.n_jobs >= 0 else thread_count(self.n_jobs)
        text = re.sub(r"(?m)^\[num_threads: \d+\]$", f"[num_threads: {asked}]", text)
        check_linear_leaves(text, "the model")
        if self.base is None:
            n_base = 0
            text = as_stock_model(text, intercept=missing, objective=self.kind.objective)
        else:
            before = self.base.booster_
            # Trees that it predicts with. Early stopping may have grown more, and counts rounds
            # that grew none.
            n_base, best = before.current_iteration(), before.best_iteration
            n_base = min(n_base, best) if best > 0 else n_base
            intercept, text = 0.0, append_trees(before.model_to_string(), text)
        fitted = _fitted(self.estimator, training, text, self.n_classes)
        return LightGBMModel(fitted, intercept, int(n_base), self.n_classes)

    def _check_features(self, rows: lightgbm.Dataset) -> None:
        """Refuse a table none of whose features LightGBM has bins for."""
        if not any(rows.feature_num_bin(j) > 1 for j in range(rows.num_feature())):
            raise InvalidInputError(
                "no feature of X can be split on: each is constant, or min_child_samples "
                f"({self.estimator.min_child_samples}) leaves no split in {rows.num_data()} rows; "
                "lower min_child_samples or add features"
            )
        forced = options.forced_features(self.told)
        if forced and options.draws_rows(self.told):
            raise EngineOptionError(
                "forcedsplits_filename beside a draw of rows (subsample, bagging or GOSS) forces "
                "splits of nodes that have no rows, and LightGBM crashes on it; leave one "
                "of the two out"
            )
        if forced and options.quantizes(self.told):
            raise EngineOptionError(
                "forcedsplits_filename beside use_quantized_grad: LightGBM is not deterministic "
                "with both, and the same fit gives different models; leave one of the two out"
            )
        for j in forced:
            if j < rows.num_feature() and rows.feature_num_bin(j) <= 1:
                raise EngineOptionError(
                    f"forcedsplits_filename forces a split on feature {j}, which has no two "
                    "different values, and LightGBM crashes on it; leave the split out"
                )

    def _hold_out(
        self, prepared: Prepared, data: EngineData, intercept: float | FloatArray | None
    ) -> tuple[Prepared, list[lightgbm.Dataset]]:
        """What to train on, and the rows held out."""
        held_out = []
        if data.held_out is not None:
            X, labels = data.held_out
            check_table(X)
            given = prepared.rows.create_valid(
                as_table(by_row(X)),
                label=labels,  # which metrics of the user may want
                init_score=self._start(X, intercept, data.held_out_offset),
                params=prepared.params,
            )
            held_out.append(given.construct())  # by the bins of all rows, before these are cut
        if data.trained is not None:
            prepared, others = prepared.split(data.trained, data.label_factors)
            held_out.insert(0, others)
        return prepared, held_out

    def _encode(self, y: ArrayLike) -> IntArray | FloatArray:
        """Labels of an evaluation set as they are trained on."""
        return self.kind.encode(y, self.classes)

    def _start(
        self, X: Matrix, intercept: float | FloatArray | None, offset: FloatArray | None = None
    ) -> FloatArray | None:
        """The scores that training starts from; None where LightGBM is to find its own."""
        if self.base is not None:
            start = _raw_scores(self.base, X).astype(np.float64, copy=False)
        elif intercept is None:
            return None
        else:
            n = as_table(X).shape[0]
            start = np.broadcast_to(intercept, (n, *np.shape(intercept))).copy()
        return start if offset is None else start + offset


class _Copies(local):
    """Fitted estimators of one thread, by the booster that each is a copy of."""

    def __init__(self) -> None:
        self.of_boosters = WeakKeyDictionary[lightgbm.Booster, LGBMModel]()


_COPIES = _Copies()


def version() -> str:
    """Version of LightGBM."""
    return str(lightgbm.__version__)


def make(estimator: Any, classes: Any) -> LightGBMEngine:
    """An engine that trains from scratch; without classes it predicts a number."""
    check_kind(estimator, _class_for(classes))
    if classes is not None and len(classes) > 2:
        multiclass.check_options(estimator.get_params(), len(classes))
    return LightGBMEngine(estimator, classes)


def make_estimator(*, regressor: bool = False, **options: Any) -> LGBMModel:
    """An estimator with these options."""
    return (LGBMRegressor if regressor else LGBMClassifier)(**options)


def check_estimator(estimator: Any) -> None:
    """Refuse what is not an estimator of a single machine with options that fit."""
    expected = class_of(estimator)
    check_kind(estimator, expected)
    if type(estimator).__module__.startswith("lightgbm.dask"):
        raise EngineOptionError(
            f"{type(estimator).__name__} cannot be constrained: its workers do not share rates; "
            f"use {expected.__name__} on one machine, or XGBoost"
        )
    check_options(estimator)


def stage_on(frozen: FrozenEstimator, X: Matrix, classes: Any) -> LightGBMEngine:
    """An engine that adds a short stage of small trees to a fitted model.

    Parameters
    ----------
    frozen : FrozenEstimator
        Holds a fitted estimator; its options hold for the stage, but for the number and the size
        of trees.
    X : Matrix
        The rows to train on; its categories must be those of the fitted model.
    classes : array of two, optional
        The labels of the rows to train on; None where a number is predicted.
    """
    base = frozen.estimator
    check_kind(base, expected := _class_for(classes))
    check_estimator(base)
    check_frozen(base, bool(getattr(base, "fitted_", False)), classes)
    text = base.booster_.model_to_string()
    if classes is None:
        written = re.search(r"(?m)^objective=(\w+)", text)
        check_trained_by(written[1] if written else "custom", kind_of(base).objective)
    check_linear_leaves(text, "the frozen model")
    # LightGBM writes no blanks in names.
    found = [name.replace(" ", "_") for name in feature_names(X) or ()]
    check_features(X, base.n_features_in_, found, _names(base))
    columns = X.select_dtypes("category") if hasattr(X, "select_dtypes") else None
    if columns is not None and (base.booster_.pandas_categorical or []) != [
        list(columns[name].cat.categories) for name in columns
    ]:
        raise InvalidInputError(
            "the categorical columns of X have other categories than those the frozen model was "
            "trained with; give them the same categorical dtype, in the same order"
        )
    params = base.get_params()
    boosting = options.option(params, "boosting")
    stage = expected(
        **options.without(
            params,
            *("num_iterations", "num_leaves", "learning_rate", "boosting", "early_stopping_round"),
        ),
        **STAGE,
        num_leaves=min(STAGE_LEAVES, int(options.option(params, "num_leaves"))),
        # DART would change old trees, which must stay as they are.
        boosting_type="gbdt" if options.is_dart(params) else boosting,
    )
    return LightGBMEngine(stage, classes, base)


def restore(
    estimator: Any, text: str, intercept: Any, classes: Any, n_features: int, n_base: int
) -> LightGBMModel:
    """Make a fitted model of a stock booster's text, as when loading from a file."""
    check_kind(estimator, _class_for(classes))
    n_classes = 2 if classes is None else len(classes)
    split_points(text, n_features, [kind_of(estimator, n_classes).objective])
    check_threads(options.option(estimator.get_params(), "num_threads"))
    return adopt(estimator, text, intercept, classes, n_features, n_base)


def adopt(
    estimator: Any, text: str, intercept: Any, classes: Any, n_features: int, n_base: int = 0
) -> LightGBMModel:
    """The same of a text that LightGBM has just written, which is not checked."""
    expected = _class_for(classes)
    # One fit on two rows sets up the label encoder and all else that LightGBM keeps privately.
    labels = np.arange(2.0) if classes is None else np.asarray(classes)
    n = len(labels)
    with number_of_threads(1, any_number=True) as threads:
        dummy = expected(n_estimators=1, verbose=-1, min_child_samples=1, n_jobs=threads)
        dummy.fit(np.arange(float(n) * n_features).reshape(n, n_features), labels)
    fitted = _fitted(estimator, dummy, text, n)
    return LightGBMModel(fitted, intercept, n_base, n)


def _n_jobs(params: dict[str, Any]) -> int:
    """Threads that options ask for; by default LightGBM takes the physical cores."""
    found = options.option(params, "num_threads")
    return int(joblib.cpu_count(only_physical_cores=True) if found is None else found)


def _raw_scores(fitted: LGBMModel, X: Matrix, **limit: Any) -> FloatArray:
    """Raw scores of rows, beside whatever else of LightGBM runs in the process."""
    threads = thread_count(_n_jobs(fitted.get_params()))
    with number_of_threads(threads, any_number=True) as number:
        return np.asarray(fitted.predict(X, raw_score=True, num_threads=number, **limit))


def _class_for(classes: Any) -> type[LGBMModel]:
    """The class of estimators that tell these labels apart; without labels, that predict."""
    found: type[LGBMModel] = LGBMRegressor if classes is None else LGBMClassifier
    return found


def _fitted(estimator: LGBMModel, state: LGBMModel, text: str, n_classes: int) -> LGBMModel:
    """An estimator with the fitted state of another, but its own parameters, and a booster."""
    fitted: LGBMModel = clone(estimator)
    params = {*state.get_params(), "_other_params"}
    fitted.__dict__.update({k: v for k, v in vars(state).items() if k not in params})
    fitted._Booster = lightgbm.Booster(model_str=text)
    # Early stopping may have counted rounds that were not kept.
    fitted._best_iteration = fitted._Booster.current_iteration()
    # No longer a custom one: the link is applied.
    fitted._objective = kind_of(estimator, n_classes).asked
    return fitted


def _names(fitted: LGBMModel) -> list[str] | None:
    """The names of features that LightGBM was given; it has names of its own for those without."""
    known = list(fitted.feature_name_)
    return None if known == [f"Column_{k}" for k in range(len(known))] else known


def _train(params: dict[str, Any], rows: lightgbm.Dataset, **rest: Any) -> lightgbm.Booster:
    """As ``lightgbm.train``; what it says of itself where leaves get no rows is put in words."""
    try:
        return lightgbm.train(params, rows, **rest)
    except lightgbm.basic.LightGBMError as error:
        if "best_split_info" not in str(error):
            raise
        raise EngineOptionError(
            "LightGBM has split off a leaf without rows: it counts them by their Hessians, and "
            "min_child_samples and min_child_weight let leaves be (nearly) empty; raise "
            "min_child_samples to 5 or more, or min_child_weight above 0"
        ) from error


def _nothing(y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Stand in for the objective while data is prepared; LightGBM must not think of its own."""
    raise NotImplementedError
