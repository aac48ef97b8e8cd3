"""Stock XGBoost behind the port.

Facts of XGBoost that shape this file (3.2):

* With gradients of our own the objective named in the parameters still gives the link, the
  metrics and the largest step of a Poisson loss. So it stays, ``base_score`` is the prediction of
  the score to start from, and the booster is a stock one as it is trained. Two objectives get
  their name afterwards (:mod:`fairboost.engines.xgboost.objectives`).
* A round always adds its trees, if only roots: rounds of training and of the model are the same.
* ``XGBClassifier`` knows the labels 0 and 1 only, so it is handed those.
* Scores are in single precision.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import xgboost
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier, XGBModel, XGBRegressor

from fairboost._numbers import class_probabilities, probabilities
from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.device_arrays import check_not_on_device, is_device_frame, on_host
from fairboost.data.features import categories_of, check_names
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.frozen import (
    STAGE,
    STAGE_LEAVES,
    check_features,
    check_frozen,
    check_trained_by,
)
from fairboost.engines.lockstep import threads_each, turns_taken
from fairboost.engines.options import check_kind
from fairboost.engines.port import EngineData, LossTerms, Problem, is_on_disk
from fairboost.engines.soundness import check_threads, require
from fairboost.engines.tables import as_table, feature_names
from fairboost.engines.xgboost import options, soundness
from fairboost.engines.xgboost.categories import Known, as_known, check_texts, known_to
from fairboost.engines.xgboost.data import BINNED, Matrices, build
from fairboost.engines.xgboost.device import (
    EVEN_ODDS,
    at_hand,
    open_device,
    ordinal_of,
    pooled,
    starting_score,
    table_on,
)
from fairboost.engines.xgboost.device import scores_of as device_scores
from fairboost.engines.xgboost.device_data import build_on_device
from fairboost.engines.xgboost.group_model import XGBoostGroupModel
from fairboost.engines.xgboost.lockstep import (
    PassOn,
    XGBoostBoosters,
    XGBoostLockstep,
    small_trees,
    within_limits,
)
from fairboost.engines.xgboost.model_json import (
    STOPPED,
    append_rounds,
    as_text,
    first_rounds,
    weighted_rounds,
)
from fairboost.engines.xgboost.objectives import (
    SOFTMAX,
    Objective,
    objective_of,
    written_options,
)
from fairboost.engines.xgboost.trees import read_ensemble, read_features, without_names
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.device import Device
from fairboost.kernel.losses import Loss
from fairboost.kernel.threads import Threads, thread_count

BY_DEPTH = 0.87
"""Power of the rows at which labels are worth less to know, if trees are grown to a depth. Chosen
from cells of ACSIncome thinned as in ``benchmarks/verdicts.md``: in two folds their powers were
0.74 to 1.13, in five, where they are known less well, 0.65 to 1.3."""

FORBIDDEN = r"[\[\]<\x00-\x08\x0b\x0c\x0e-\x1f]|\\u"
"""What XGBoost refuses in names of columns, or reads otherwise than it has written it."""
TAKES = r"neither the characters [ ] < nor \u nor control characters there"


@dataclass(frozen=True)
class XGBoostModel:
    """A trained booster, inside the estimator that trained it.

    Parameters
    ----------
    estimator : XGBModel
        Fitted, with the user's parameters; predicts like any stock one.
    intercept : float
        The score that training started from; it is the booster's base score.
    n_base : int
        Rounds of a frozen model that training started from.
    """

    estimator: XGBModel
    intercept: float | FloatArray
    n_base: int = 0
    n_classes: int = 2
    file_endings: ClassVar[tuple[str, ...]] = (".json",)  # by which XGBoost tells formats

    @property
    def booster(self) -> xgboost.Booster:
        """The stock booster."""
        return self.estimator.get_booster()

    @property
    def feature_names(self) -> Sequence[str] | None:
        """What the booster calls the features; None without names."""
        return self.booster.feature_names

    @property
    def n_rounds(self) -> int:
        """Number of iterates."""
        return int(self.booster.num_boosted_rounds())

    def scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """Raw log-odds by the first ``rounds`` rounds; by all of them without it."""
        if is_on_disk(X):
            return np.concatenate([self.scores(batch, rounds) for batch in X.batches()])
        span = (0, self.n_rounds if rounds is None else rounds)
        device = self.device
        if device is None:
            check_not_on_device(X)
        elif span[1]:
            on_device = device_scores(device, self.booster, X, span, self.estimator.missing)
            if on_device is not None:
                double: FloatArray = on_device.astype(np.float64)
                return double
        table = as_table(as_known(on_host(X), self._categories))
        found = self.estimator.predict(table, output_margin=True, iteration_range=span)
        return np.array(found, np.float64)

    @property
    def device(self) -> Device | None:
        """The GPU that the model predicts on, if it was trained on one and there is one."""
        ordinal = ordinal_of(self.estimator.device)
        return None if ordinal is None else at_hand(ordinal)

    @cached_property
    def _categories(self) -> Known:
        """The categories that the booster was trained with."""
        return known_to(self.booster)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of scores, to the last digit XGBoost's own."""
        if scores.ndim == 2:
            return class_probabilities(scores, single=True)
        return probabilities(scores, single=True)

    def predictions(self, scores: FloatArray) -> FloatArray:
        """Numbers that scores stand for, in single precision as XGBoost has them."""
        single = scores.astype(np.float32).astype(np.float64)
        with np.errstate(over="ignore"):  # XGBoost predicts infinity as well
            return objective_of(self.estimator).link(single).astype(np.float32).astype(np.float64)

    def text(self) -> str:
        """The booster in XGBoost's JSON format."""
        return _text(self.booster)

    def export(self, **notes: object) -> str:
        """The same, with notes as attributes of the booster."""
        booster = _booster_of(self.estimator, self.text())
        booster.set_attr(**{f"fairboost_{name}": str(value) for name, value in notes.items()})
        return _text(booster)

    def text_for_others(self) -> str:
        """The same, in which categories are codes."""
        return without_names(self.text())

    def ensemble(self) -> Ensemble:
        """The trees as plain arrays."""
        return replace(read_ensemble(self.text()), missing=float(np.float32(self._missing)))

    @property
    def _missing(self) -> float:
        """A number that is a missing value, beside NaN; a booster does not know it."""
        return float(self.estimator.missing)

    def features(self, names: Sequence[str]) -> tuple[Feature, ...]:
        """What the model reads in each column."""
        return read_features(self.text(), names)

    @property
    def log_link(self) -> bool:
        """Whether a number is predicted as the exponential of the score."""
        loss = objective_of(self.estimator, self.n_classes).loss
        return loss is not None and Loss(loss).log_link

    def said_by_stock(self, text: str, X: Matrix) -> FloatArray:
        """What a stock booster read from a text predicts."""
        fitted = self._with(text, self.n_base).estimator
        table = as_table(as_known(X, self._categories))
        return np.asarray(XGBModel.predict(fitted, table), np.float64)

    def first(self, rounds: int) -> XGBoostModel:
        """The model of the first ``rounds`` rounds, on top of those it started from."""
        rounds += self.n_base
        if rounds >= self.n_rounds:
            return self
        # XGBoost would forget categories, and takes no rounds for all of them.
        if not rounds or not self.booster.get_categories().empty():
            return self._with(first_rounds(self.text(), rounds), self.n_base)
        booster, notes = self.booster[:rounds], self.booster.attributes()
        if int(notes.get("best_iteration") or -1) >= rounds:  # of a round that is left out
            notes = {name: note for name, note in notes.items() if name not in STOPPED}
        booster.set_attr(**notes)
        booster.set_param({"nthread": options.option(self.estimator.get_params(), "n_jobs")})
        return self._of(booster, self.n_base)

    def with_stage(self, stage: xgboost.Booster) -> XGBoostModel:
        """The same trees, and those of a stage trained from its scores."""
        return self._with(append_rounds(self.text(), _text(stage)), self.n_rounds)

    def with_tree_weights(self, weights: FloatArray) -> XGBoostModel:
        """The same trees, those of each round times a factor. The starting score stays."""
        return self._with(weighted_rounds(self.text(), weights), 0)

    def _with(self, text: str, n_base: int) -> XGBoostModel:
        return self._of(_booster_of(self.estimator, text), n_base)

    def _of(self, booster: xgboost.Booster, n_base: int) -> XGBoostModel:
        history = getattr(self.estimator, "evals_result_", None)
        fitted = _fitted(self.estimator, booster, history, self.n_classes)
        return XGBoostModel(fitted, self.intercept, n_base, self.n_classes)


@dataclass(frozen=True)
class XGBoostEngine:
    """Trains the user's ``XGBClassifier`` or ``XGBRegressor`` on gradients handed to it.

    Parameters
    ----------
    estimator : XGBModel
        Unfitted or fitted; it is cloned, never changed.
    classes : array, or None
        The labels as the user wrote them; None where numbers are predicted.
    base : XGBModel, optional
        A fitted model to go on from: its trees stay, further ones are added.
    """

    estimator: XGBModel
    classes: Any
    base: XGBModel | None = None

    @cached_property
    def told(self) -> dict[str, Any]:
        """The options of the estimator, which scikit-learn looks up by inspecting classes."""
        found: dict[str, Any] = self.estimator.get_params()
        return found

    @cached_property
    def objective(self) -> Objective:
        """What is predicted."""
        return objective_of(self.estimator, self.n_classes)

    @property
    def n_classes(self) -> int:
        """Classes that are told apart, if they are."""
        return 2 if self.classes is None else len(self.classes)

    @property
    def rescales_trees(self) -> bool:
        """Whether a prefix of the ensemble is not what the model was at that round (DART)."""
        return options.is_dart(self.told) and self.base is None

    predicts_otherwise: ClassVar[bool] = False

    @property
    def label_power(self) -> float:
        """Trees of a depth have more leaves the more rows there are."""
        return 1.0 if options.option(self.told, "max_leaves") else BY_DEPTH

    @property
    def library(self) -> ctypes.CDLL | None:
        """XGBoost's; its place is not public, and may change."""
        return getattr(xgboost.core, "_LIB", None)

    @property
    def n_jobs(self) -> int | None:
        """Threads that the options ask for; None leaves it to the engine."""
        return options.thread_option(self.told)

    @property
    def device_name(self) -> str | None:
        """The GPU that the options ask for, as they name it."""
        named = self.told.get("device")
        return None if ordinal_of(named) is None else str(named)

    @cached_property
    def device(self) -> Device | None:
        """The GPU that the options ask for."""
        ordinal = ordinal_of(self.told.get("device"))
        return None if ordinal is None else open_device(ordinal)

    @property
    def n_rounds(self) -> int:
        """Rounds that the options ask for."""
        return int(self.estimator.get_num_boosting_rounds())

    @property
    def learning_rate(self) -> float:
        """The share of a leaf's step that is taken, as the options have it at the start."""
        return float(options.option(self.told, "learning_rate", options.DEFAULT_RATE))

    def loss_terms(
        self,
        labels: IntArray | FloatArray,
        sample_weight: Float32Array | None,
        offset: FloatArray | None = None,
    ) -> LossTerms:
        """What the options say about the loss: its kind, class weights and the starting score."""
        check_kind(self.estimator, _kind(self.classes is None))
        params = self.told
        if self.objective.name == SOFTMAX:
            if ordinal_of(params.get("device")) is not None:
                raise EngineOptionError(
                    f"the estimator sets device={params['device']!r}, and three classes or more "
                    "are trained on the CPU only; leave device out"
                )
            codes = labels.astype(np.int64)
            return options.read_class_terms(params, self.objective, codes, sample_weight)
        if self.objective.loss is None:
            return options.read_loss_terms(params, labels, sample_weight)
        y = labels.astype(np.float64)
        return options.read_number_terms(params, self.objective, y, sample_weight, offset)

    def group_model(self, fit_options: dict[str, Any]) -> XGBoostGroupModel:
        """What grows small boosters for groups."""
        return XGBoostGroupModel(self.estimator, thread_count(self.n_jobs), self.base)

    def check_arguments(self, X: Matrix, fit_options: dict[str, Any]) -> None:
        """Refuse arguments of ``fit`` that XGBoost does not take there."""
        if is_on_disk(X) and self.estimator.tree_method not in BINNED:
            raise EngineOptionError(
                f"tree_method={self.estimator.tree_method!r} needs the features in memory, found "
                f"{type(X).__name__}; leave tree_method out, or load the table"
            )
        if ordinal_of(self.told.get("device")) is None:
            check_not_on_device(X)
        check_names(X, FORBIDDEN, "XGBoost", TAKES)
        if not self.estimator.enable_categorical and (names := categories_of(X)):
            raise InvalidInputError(
                f"column {names[0]!r} of X is categorical, which XGBoost takes if it is told so: "
                f"{self.objective.kind.__name__}(enable_categorical=True)"
            )
        check_texts(X)
        options.check_fit_options(self.told, fit_options, self.objective)

    def _turns(self, problem: Problem, callbacks: list[Any]) -> int:
        """In how many turns followers take their rounds."""
        if callbacks or self.rescales_trees:  # rates may change, or are no steps
            return 1
        return turns_taken(problem, self.n_rounds, self.learning_rate)

    def _params(
        self, builtin: Any, intercept: float | FloatArray, by_engine: bool
    ) -> dict[str, Any]:
        """Parameters of the boosters, by XGBoost's names."""
        params = options.without(self.estimator.get_xgb_params(), "eval_metric", "base_score")
        params["objective"] = self.objective.name if by_engine else self.objective.trained_as
        metrics: Any = self.objective.metric if builtin is None else builtin
        if metrics is not None:
            params["eval_metric"] = metrics
        if self.objective.metric is not None and "quantile" not in metrics and not by_engine:
            params.pop("quantile_alpha", None)  # nothing would read it, and XGBoost would warn
        if self.device is not None:
            params["device"] = self.device.name
        # Rows of a frozen model have their own.
        params["base_score"] = self.objective.base_score(intercept)
        if self.objective.name == SOFTMAX:
            params["num_class"] = self.n_classes
        return params

    def _encode(self, y: Any, what: str) -> IntArray | FloatArray:
        """Labels of an evaluation set as those of the rows are."""
        return self.objective.encode(y, self.classes, what)

    def _tables(self, data: EngineData) -> list[Any]:
        """X, and the held-out X, as arrays on a GPU; none where XGBoost has to read or score them.

        Metrics on evaluation sets are XGBoost's own, and so are the scores that they are made of.
        """
        told = self.estimator
        watched = data.fit_options.get("eval_set") or told.callbacks or told.early_stopping_rounds
        if self.device is None or watched or is_on_disk(data.X) or told.feature_types is not None:
            return []
        tables = [data.X, *([] if data.held_out is None else [data.held_out[0]])]
        found = [table_on(self.device, table) for table in tables]
        return [] if any(table is None for table in found) else found

    def train(
        self, data: EngineData, problem: Problem, intercept: float | FloatArray
    ) -> tuple[XGBoostModel, XGBoostLockstep]:
        """Boost to a stock model; the binned data is there for further stages."""
        estimator, verbosity = self.estimator, self.estimator.verbosity
        builtin, function = options.read_metrics(self.told, self.objective)
        params = self._params(builtin, intercept, problem.by_engine)
        device, callbacks = self.device, list(estimator.callbacks or [])
        told = {"verbosity": None if verbosity is None else int(verbosity), **pooled(device)}
        with xgboost.config_context(**told):
            threads = Threads(thread_count(self.n_jobs), self.library)
            folds = [f.fold for f in problem.followers]
            tables = self._tables(data)
            matrices = self._matrices(data, params, tables, threads, folds, intercept)
            turns = self._turns(problem, callbacks)
            if folds:
                params["nthread"] = threads_each(threads.count, problem, turns)
            boosters = XGBoostBoosters(
                params,
                matrices.rows,
                matrices.held_out,
                matrices.followers,
                turns,
                matrices.on_device,
            )
            # DART draws the trees to drop from a stream of the thread, so there is but one.
            # A GPU grows one tree at a time, however many threads ask for it.
            at_once = 1 if self.rescales_trees or device is not None else threads.count
            lockstep = XGBoostLockstep(problem, boosters, self.n_rounds, at_once)
            if callbacks and problem.followers:
                callbacks.append(PassOn(lockstep))
            history: dict[str, Any] = {}
            try:
                # Without these, the loop of XGBoost has nothing to add, and takes its time.
                watched = matrices.evals or callbacks or estimator.early_stopping_rounds
                if watched or problem.by_engine:
                    patience = estimator.early_stopping_rounds
                    held, patience = within_limits(callbacks, patience, problem.within)
                    booster = xgboost.train(
                        boosters.params,
                        matrices.rows,
                        self.n_rounds,
                        evals=matrices.evals,
                        obj=None if problem.by_engine else lockstep.gradients,
                        custom_metric=function,
                        early_stopping_rounds=patience,
                        evals_result=history,
                        verbose_eval=False,
                        callbacks=[lockstep, *held],
                    )
                else:
                    booster = lockstep.run()
            finally:
                lockstep.lockstep.crew.close()
            if folds:
                booster.set_param({"nthread": threads.count})
            if tables and self.base is None:
                booster.set_param({"base_score": self.objective.base_score(intercept)})
        return self._model(booster, history, intercept), lockstep

    def _matrices(
        self,
        data: EngineData,
        params: dict[str, Any],
        tables: list[Any],
        threads: Threads,
        folds: list[IntArray],
        intercept: float | FloatArray,
    ) -> Matrices:
        """Bin the rows. Boosters of tables on a GPU start from a score of 0, set in ``params``."""
        if not tables:
            told = self.base, threads, folds, intercept, self.device
            here = replace(_frames_on_host(data), trained=on_host(data.trained))
            return build(self.estimator, here, self._encode, *told)
        assert self.device is not None
        self.device.let_go()
        start = starting_score(params, tables[0].shape[1])
        params["base_score"] = EVEN_ODDS
        return build_on_device(self.estimator, data, self.base, self.device, tables, start, folds)

    def _model(
        self, booster: xgboost.Booster, history: dict[str, Any], intercept: float | FloatArray
    ) -> XGBoostModel:
        """The model that is kept, on top of the one to go on from if there is one."""
        estimator = self.estimator
        if self.base is None:
            if self.objective.trained_as != self.objective.name:
                booster.set_param(self.objective.options(self.told))
            fitted = _fitted(estimator, booster, history or None, self.n_classes)
            model = XGBoostModel(fitted, intercept, 0, self.n_classes)
            return model.first(_rounds_kept(booster))
        before = self.base.get_booster()
        n_base = _rounds_kept(before)
        text = append_rounds(first_rounds(_text(before), n_base), _text(booster))
        booster = _booster_of(estimator, text)
        fitted = _fitted(estimator, booster, history or None, self.n_classes)
        return XGBoostModel(fitted, 0.0, n_base, self.n_classes)


def _frames_on_host(data: EngineData) -> EngineData:
    """Frames of cuDF as those of pandas; what is one frame there is one here."""
    known: dict[int, Any] = {}

    def here(X: Matrix) -> Matrix:
        if is_device_frame(X):
            X = known.setdefault(id(X), on_host(X))
        return X

    sets = [(here(X), y) for X, y in data.fit_options.get("eval_set") or []]
    options = {**data.fit_options, **({"eval_set": sets} if sets else {})}
    held_out = None if data.held_out is None else (here(data.held_out[0]), data.held_out[1])
    return replace(data, X=here(data.X), fit_options=options, held_out=held_out)


def version() -> str:
    """Version of XGBoost."""
    return str(xgboost.__version__)


def make(estimator: XGBModel, classes: Any) -> XGBoostEngine:
    """An engine that trains from scratch; without classes it predicts a number.

    A cluster checks options before it knows the classes. So a classifier without classes is
    accepted here, and ``loss_terms`` refuses it.
    """
    if classes is not None:
        check_kind(estimator, XGBClassifier)
    return XGBoostEngine(estimator, classes)


def make_estimator(*, regressor: bool = False, **options: Any) -> XGBModel:
    """An estimator with these options."""
    return _kind(regressor)(**options)


def _kind(regressor: bool) -> type[XGBModel]:
    return XGBRegressor if regressor else XGBClassifier


def check_estimator(estimator: Any) -> None:
    """Refuse what is no single-machine classifier or regressor with options that fit."""
    kind = _kind(isinstance(estimator, XGBRegressor))
    check_kind(estimator, kind)
    if isinstance(estimator, xgboost.XGBRFClassifier | xgboost.XGBRFRegressor):
        name = kind.__name__
        raise EngineOptionError(
            f"{name.replace('XGB', 'XGBRF')} does not boost: its trees are grown in one round, "
            f"and multipliers need several to settle; use {name} (with subsample and "
            "colsample_bynode if you like)"
        )
    options.check_options(estimator.get_params(), objective_of(estimator))


def stage_on(frozen: FrozenEstimator, X: Matrix, classes: Any) -> XGBoostEngine:
    """An engine that adds a short stage of small trees to a fitted model.

    Parameters
    ----------
    frozen : FrozenEstimator
        Holds a fitted estimator; its options hold for the stage, but for the number and the size
        of trees.
    X : Matrix
        The rows to train on.
    classes : array of two, or None
        The labels of the rows to train on; None where numbers are predicted.
    """
    base, kind = frozen.estimator, _kind(classes is None)
    check_kind(base, kind)
    fitted, known = base.__sklearn_is_fitted__(), base
    if fitted and classes is None:
        told = objective_of(base).name
        learner = json.loads(base.get_booster().save_config())["learner"]
        outputs = int(learner["learner_model_param"]["num_target"])
        check_trained_by(learner["objective"]["name"], told, outputs)
        # XGBoost's own reader of files does not set the constant of a loss.
        known = clone(base).set_params(**written_options(learner["objective"]))
    check_estimator(known)
    check_frozen(base, fitted, classes)
    booster, found = base.get_booster(), feature_names(X)
    check_features(X, int(booster.num_features()), found, booster.feature_names)
    if found is None and booster.feature_names is not None:
        raise InvalidInputError(
            f"X has no names of features, but the frozen model was trained on "
            f"{booster.feature_names[0]!r} and so on; pass a data frame with the same columns in "
            "the same order"
        )
    params = known.get_params()
    stage = kind(
        **options.without(
            {**params, **small_trees(params, STAGE_LEAVES)},
            *("n_estimators", "learning_rate", "early_stopping_rounds", "callbacks"),
            *("base_score", "rate_drop", "one_drop"),
        ),
        **STAGE,
        # DART would change old trees, which must stay as they are; without drops it does not.
        **({"rate_drop": 0.0} if options.is_dart(params) else {}),
    )
    return XGBoostEngine(stage, classes, base)


def split_points(text: str, n_features: int) -> dict[int, list[float]]:
    """Check the text of a booster; returns the values at which each feature is split."""
    return soundness.split_points(json.loads(text), n_features)


def restore(
    estimator: XGBModel, text: str, intercept: Any, classes: Any, n_features: int, n_base: int
) -> XGBoostModel:
    """Make a fitted model of a stock booster's text, as when loading from a file."""
    document = json.loads(text)
    soundness.split_points(document, n_features)
    name = document["learner"]["objective"]["name"]
    n_classes = 2 if classes is None else len(classes)
    require(
        name == objective_of(estimator, n_classes).name, f"its objective {name!r} is another one"
    )
    factors = document["learner"]["gradient_booster"].get("model", {}).get("weight_drop", [])
    require(
        options.every_booster_drops() or set(factors) <= {1.0},
        "its trees have factors (DART), which XGBoost passes over before 3.3",
    )
    check_threads(options.option(estimator.get_params(), "n_jobs"))
    # XGBoost keeps a wrong one for the whole process, and then reads no other model either.
    require(estimator.get_params()["verbosity"] in (None, 0, 1, 2, 3), "its verbosity")
    # Written anew: what was checked is what XGBoost reads.
    booster = _booster_of(estimator, as_text(document))
    return XGBoostModel(_fitted(estimator, booster, None, n_classes), intercept, n_base, n_classes)


def _booster_of(estimator: XGBModel, text: str) -> xgboost.Booster:
    """Read a booster, on as many threads as the estimator has."""
    booster = xgboost.Booster({"nthread": options.option(estimator.get_params(), "n_jobs")})
    booster.load_model(bytearray(text.encode()))
    ordinal = ordinal_of(estimator.device)
    if ordinal is not None and (device := at_hand(ordinal)) is not None:
        booster.set_param({"device": device.name})
    return booster


def _rounds_kept(booster: xgboost.Booster) -> int:
    """Rounds that a booster predicts with; early stopping may have grown more."""
    grown, best = int(booster.num_boosted_rounds()), booster.attr("best_iteration")
    return grown if best is None else min(grown, int(best) + 1)


def _text(booster: xgboost.Booster) -> str:
    return str(booster.save_raw("json").decode())


def _fitted(
    estimator: XGBModel, booster: xgboost.Booster, history: dict[str, Any] | None, n_classes: int
) -> XGBModel:
    """Return an estimator with the state that ``fit`` would have set."""
    fitted: XGBModel = clone(estimator)
    fitted._Booster = booster
    if isinstance(fitted, XGBClassifier):
        fitted.n_classes_ = n_classes
    fitted.objective = objective_of(estimator, n_classes).name
    if history is not None:
        fitted.evals_result_ = history
    return fitted
