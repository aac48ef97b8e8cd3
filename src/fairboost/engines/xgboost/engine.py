"""Stock XGBoost behind the port.

Facts of XGBoost that shape this file (3.2):

* With gradients of our own the objective named in the parameters still gives the link and the
  metrics. So ``binary:logistic`` stays, ``base_score`` is the probability of the score to start
  from, and the booster is a stock one as it is trained: nothing has to be mended afterwards.
* A round always adds its trees, if only roots: rounds of training and of the model are the same.
* ``XGBClassifier`` knows the labels 0 and 1 only, so it is handed those.
* Scores are in single precision.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xgboost
from scipy.special import expit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier

from fairboost._typing import Float32Array, FloatArray, IntArray, Matrix
from fairboost.engines.frozen import (
    STAGE_LEARNING_RATE,
    STAGE_LEAVES,
    STAGE_ROUNDS,
    check_frozen,
    check_same_names,
    check_width,
    feature_names,
)
from fairboost.engines.port import EngineData, LossTerms, Problem, is_on_disk
from fairboost.engines.xgboost.data import BINNED, build
from fairboost.engines.xgboost.lockstep import Follow, Lockstep, small_trees
from fairboost.engines.xgboost.model_json import append_rounds, first_rounds, weighted_rounds
from fairboost.engines.xgboost.options import (
    check_fit_options,
    check_options,
    is_dart,
    option,
    read_loss_terms,
    read_metrics,
    thread_option,
    without,
)
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.threads import Threads, thread_count


@dataclass(frozen=True)
class XGBoostModel:
    """A trained booster, inside the estimator that trained it.

    Parameters
    ----------
    estimator : XGBClassifier
        Fitted, with the user's parameters; predicts probabilities like any stock one.
    intercept : float
        The score that training started from; it is the booster's base score.
    n_base : int
        Rounds of a frozen model that training started from.
    """

    estimator: XGBClassifier
    intercept: float
    n_base: int = 0
    file_endings: ClassVar[tuple[str, ...]] = (".json",)  # by which XGBoost tells formats

    @property
    def booster(self) -> xgboost.Booster:
        """The stock booster."""
        return self.estimator.get_booster()

    @property
    def n_rounds(self) -> int:
        """Number of iterates."""
        return int(self.booster.num_boosted_rounds())

    def scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """Raw log-odds by the first ``rounds`` rounds; by all of them without it."""
        if is_on_disk(X):
            return np.concatenate([self.scores(batch, rounds) for batch in X.batches()])
        X = X if hasattr(X, "shape") else np.asarray(X)
        span = (0, self.n_rounds if rounds is None else rounds)
        found = self.estimator.predict(X, output_margin=True, iteration_range=span)
        return np.array(found, np.float64)

    def probability(self, score: float) -> float:
        """Probability from which on XGBoost's own are those of at least this score.

        Scores and probabilities are in single precision. Where a threshold lies next to a score,
        at the end of all, the probability is moved a little to the side on which it lies, so that
        rounding does not put the score on the other.
        """
        side = np.float32(1 if score > float(np.float32(score)) else 0)
        single = np.float32(expit(score))
        return float(np.nextafter(np.nextafter(single, side), side))

    def text(self) -> str:
        """The booster in XGBoost's JSON format."""
        return str(self.booster.save_raw("json").decode())

    def export(self, **notes: object) -> str:
        """The same, with notes as attributes of the booster."""
        booster = _booster_of(self.estimator, self.text())
        booster.set_attr(**{f"fairboost_{name}": str(value) for name, value in notes.items()})
        return str(booster.save_raw("json").decode())

    def first(self, rounds: int) -> XGBoostModel:
        """The model of the first ``rounds`` rounds, on top of those it started from."""
        rounds += self.n_base
        if rounds >= self.n_rounds:
            return self
        return self._with(first_rounds(self.text(), rounds), self.n_base)

    def with_stage(self, stage: xgboost.Booster) -> XGBoostModel:
        """The same trees, and those of a stage trained from its scores."""
        text = append_rounds(self.text(), stage.save_raw("json").decode())
        return self._with(text, self.n_rounds)

    def with_tree_weights(self, weights: FloatArray) -> XGBoostModel:
        """The same trees, those of each round times a factor. The starting score stays."""
        return self._with(weighted_rounds(self.text(), weights), 0)

    def _with(self, text: str, n_base: int) -> XGBoostModel:
        booster = _booster_of(self.estimator, text)
        history = getattr(self.estimator, "evals_result_", None)
        return XGBoostModel(_fitted(self.estimator, booster, history), self.intercept, n_base)


class XGBoostEngine:
    """Trains the user's ``XGBClassifier`` on gradients handed to it.

    Parameters
    ----------
    estimator : XGBClassifier
        Unfitted or fitted; it is cloned, never changed.
    classes : array of two
        The labels as the user wrote them.
    base : XGBClassifier, optional
        A fitted model to go on from: its trees stay, further ones are added.
    """

    def __init__(
        self, estimator: XGBClassifier, classes: Any, base: XGBClassifier | None = None
    ) -> None:
        check_estimator(estimator)
        self.estimator = estimator
        self.classes = classes
        self.base = base

    @property
    def rescales_trees(self) -> bool:
        """Whether a prefix of the ensemble is not what the model was at that round (DART)."""
        return is_dart(self.estimator.get_params()) and self.base is None

    @property
    def library(self) -> ctypes.CDLL | None:
        """XGBoost's; its place is not public, and may change."""
        return getattr(xgboost.core, "_LIB", None)

    @property
    def n_jobs(self) -> int | None:
        """Threads that the options ask for; None leaves it to the engine."""
        return thread_option(self.estimator.get_params())

    @property
    def n_rounds(self) -> int:
        """Rounds that the options ask for."""
        return int(self.estimator.get_num_boosting_rounds())

    def loss_terms(self, labels: IntArray, sample_weight: Float32Array | None) -> LossTerms:
        """What the options say about the loss: class weights and the starting score."""
        return read_loss_terms(self.estimator.get_params(), labels, sample_weight)

    def check_arguments(self, X: Matrix, fit_options: dict[str, Any]) -> None:
        """Refuse arguments of ``fit`` that XGBoost does not take there."""
        if is_on_disk(X) and self.estimator.tree_method not in BINNED:
            raise EngineOptionError(
                f"tree_method={self.estimator.tree_method!r} needs the features in memory, found "
                f"{type(X).__name__}; leave tree_method out, or load the table"
            )
        check_fit_options(self.estimator.get_params(), fit_options)

    def train(self, data: EngineData, problem: Problem, intercept: float) -> XGBoostModel:
        """Boost, and give back a stock model."""
        model, _ = self.train_and_keep_data(data, problem, intercept)
        return model

    def train_and_keep_data(
        self, data: EngineData, problem: Problem, intercept: float
    ) -> tuple[XGBoostModel, Lockstep]:
        """Boost; the binned data is there for further stages."""
        estimator, options = self.estimator, self.estimator.get_params()
        base, n_base = self._base_model()
        metrics = read_metrics(options)
        params = {**estimator.get_xgb_params(), "objective": "binary:logistic"}
        params.pop("eval_metric", None)
        if metrics.builtin is not None:
            params["eval_metric"] = metrics.builtin
        params["base_score"] = float(expit(intercept))
        if base is not None:
            del params["base_score"]  # it has its own
        with xgboost.config_context(verbosity=_verbosity(estimator)):
            known = None if self.base is None else self.base.get_booster()
            threads = Threads(thread_count(self.n_jobs), self.library)
            matrices = build(estimator, data, self.classes, known, threads)
            lockstep = Lockstep(
                problem, params, matrices.rows, matrices.held_out, self.n_rounds, base
            )
            callbacks = list(estimator.callbacks or [])
            if callbacks and lockstep.followers:
                callbacks.append(Follow(lockstep))
            history: dict[str, Any] = {}
            booster = xgboost.train(
                lockstep.params,
                matrices.rows,
                self.n_rounds,
                evals=matrices.evals,
                obj=lockstep.gradients,
                custom_metric=metrics.function,
                early_stopping_rounds=estimator.early_stopping_rounds,
                evals_result=history,
                verbose_eval=False,
                xgb_model=base,
                callbacks=[lockstep, *callbacks],
            )
        fitted = _fitted(estimator, booster, history or None)
        model = XGBoostModel(fitted, intercept if base is None else 0.0, n_base)
        best = booster.attr("best_iteration")
        if best is not None and int(best) + 1 < model.n_rounds:
            model = model._with(first_rounds(model.text(), int(best) + 1), n_base)
        return model, lockstep

    def _base_model(self) -> tuple[bytearray | None, int]:
        """The frozen model without its options, as it predicts, and its number of rounds."""
        if self.base is None:
            return None, 0
        whole = self.base.get_booster()
        n_rounds, best = int(whole.num_boosted_rounds()), whole.attr("best_iteration")
        if best is not None:
            n_rounds = min(n_rounds, int(best) + 1)
        text = first_rounds(whole.save_raw("json").decode(), n_rounds)
        booster = _booster_of(self.base, text)
        booster.set_attr(best_iteration=None, best_score=None)  # not where the stage will end
        return booster.save_raw("json"), n_rounds


def version() -> str:
    """Version of XGBoost."""
    return str(xgboost.__version__)


def make_estimator(**options: Any) -> XGBClassifier:
    """An estimator with these options."""
    return XGBClassifier(**options)


def make(estimator: XGBClassifier, classes: Any) -> XGBoostEngine:
    """An engine that trains from scratch."""
    return XGBoostEngine(estimator, classes)


def check_estimator(estimator: Any) -> None:
    """Refuse what is not a single-machine ``XGBClassifier`` with options that fit."""
    if isinstance(estimator, type) or not isinstance(estimator, XGBClassifier):
        raise EngineOptionError(
            f"estimator must be an LGBMClassifier or XGBClassifier, found {estimator!r}; pass "
            "xgboost.XGBClassifier(...) with the engine's options in it"
        )
    if isinstance(estimator, xgboost.XGBRFClassifier):
        raise EngineOptionError(
            "XGBRFClassifier does not boost: its trees are grown in one round, and multipliers "
            "need several to settle; use XGBClassifier (with subsample and colsample_bynode if "
            "you like)"
        )
    check_options(estimator.get_params())


def stage_on(frozen: FrozenEstimator, X: Matrix, classes: Any) -> XGBoostEngine:
    """An engine that adds a short stage of small trees to a fitted model.

    Parameters
    ----------
    frozen : FrozenEstimator
        Holds a fitted ``XGBClassifier``; its options hold for the stage, but for the number and
        the size of trees.
    X : Matrix
        The rows to train on.
    classes : array of two
        The labels of the rows to train on.
    """
    base = frozen.estimator
    check_estimator(base)
    check_frozen(base, base.__sklearn_is_fitted__(), classes)
    _check_features(X, base.get_booster())
    options = base.get_params()
    stage = XGBClassifier(
        **without(
            {**options, **small_trees(options, STAGE_LEAVES)},
            *("n_estimators", "learning_rate", "early_stopping_rounds", "callbacks"),
            *("base_score", "rate_drop", "one_drop"),
        ),
        n_estimators=STAGE_ROUNDS,
        learning_rate=STAGE_LEARNING_RATE,
        # DART would change old trees, which must stay as they are; without drops it does not.
        **({"rate_drop": 0.0} if is_dart(options) else {}),
    )
    return XGBoostEngine(stage, classes, base)


def _check_features(X: Matrix, base: xgboost.Booster) -> None:
    """Refuse other features than those of the fitted model, or the same in another order."""
    check_width(X, int(base.num_features()))
    names, known = feature_names(X), base.feature_names
    if known is None:
        return
    if names is None:
        raise InvalidInputError(
            f"X has no names of features, but the frozen model was trained on {known[0]!r} and so "
            "on; pass a data frame with the same columns in the same order"
        )
    check_same_names(names, known)


def restore(
    estimator: XGBClassifier,
    text: str,
    intercept: float,
    classes: Any,
    n_features: int,
    n_base: int = 0,
) -> XGBoostModel:
    """Make a fitted model of a stock booster's text, as when loading from a file."""
    booster = _booster_of(estimator, text)
    return XGBoostModel(_fitted(estimator, booster, None), intercept, n_base)


def _booster_of(estimator: XGBClassifier, text: str) -> xgboost.Booster:
    """Read a booster, on as many threads as the estimator has."""
    booster = xgboost.Booster({"nthread": option(estimator.get_params(), "n_jobs")})
    booster.load_model(bytearray(text.encode()))
    return booster


def _fitted(
    estimator: XGBClassifier, booster: xgboost.Booster, history: dict[str, Any] | None
) -> XGBClassifier:
    """Return an estimator with the state that ``fit`` would have set."""
    fitted: XGBClassifier = clone(estimator)
    fitted._Booster = booster
    fitted.n_classes_ = 2
    fitted.objective = "binary:logistic"
    if history is not None:
        fitted.evals_result_ = history
    return fitted


def _verbosity(estimator: XGBClassifier) -> int | None:
    return None if estimator.verbosity is None else int(estimator.verbosity)
