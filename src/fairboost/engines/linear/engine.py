"""A stage of few weights behind the port.

To the game it is an engine as any other: each round takes gradients of the scores and moves the
scores. What moves are the weights of :mod:`fairboost.engines.linear.tilt`, by a shrunken Newton
step, and every round is an iterate. So all of the constraints, rows held out, multipliers and
verdicts work on it as they do on trees.

Where rates are read out of fold, so are memberships: each fold is predicted by a booster that has
not seen it. The weights are the same for all rows. They are a handful, and follow multipliers that
answer to the rates of all rows anyway. Where rows are held out, neither boosters nor weights see
them. A handful of weights cannot single out training rows, so gradients go by observed groups.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairboost._typing import (
    Float32Array,
    FloatArray,
    IntArray,
    Matrix,
    ScoreArray,
)
from fairboost.engines.lightgbm import engine as lightgbm_engine
from fairboost.engines.lightgbm.group_model import LightGBMGroupModel
from fairboost.engines.lightgbm.soundness import split_points as tree_splits
from fairboost.engines.lightgbm.threads import number_of_threads
from fairboost.engines.linear.learning import LEARNING_RATE, Learner, StageRows
from fairboost.engines.linear.model import LinearModel, read_block, read_text
from fairboost.engines.linear.stage import LinearStage, check_options
from fairboost.engines.port import (
    EngineData,
    LossTerms,
    Problem,
)
from fairboost.engines.signals import raise_dropped
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.device import Device
from fairboost.kernel.threads import thread_count


@dataclass(frozen=True)
class LinearEngine:
    """Fits the weights of a stage on gradients handed to it.

    Parameters
    ----------
    estimator : LinearStage
        The options.
    """

    estimator: LinearStage
    base: None = None
    library: ctypes.CDLL | None = None
    rescales_trees: bool = False
    predicts_otherwise: bool = False
    label_power: float = 1.0

    device_name: ClassVar[str | None] = None
    device: ClassVar[Device | None] = None  # it has few weights, and no use for a GPU

    @property
    def n_jobs(self) -> int | None:
        """Threads that the options ask for."""
        return self.estimator.n_jobs

    @property
    def n_rounds(self) -> int:
        """Steps of the weights."""
        return int(self.estimator.rounds)

    @property
    def learning_rate(self) -> float:
        """The share of a Newton step that is taken."""
        return LEARNING_RATE

    def loss_terms(
        self,
        labels: IntArray | FloatArray,
        sample_weight: Float32Array | None,
        offset: FloatArray | None = None,
    ) -> LossTerms:
        """The plain logistic loss, from the base model's score on."""
        return LossTerms(0.0)

    def group_model(self, fit_options: dict[str, Any]) -> LightGBMGroupModel:
        """What would learn groups for gradients; a stage of few weights goes by observed ones."""
        categorical = fit_options.get("categorical_feature", "auto")
        return LightGBMGroupModel(categorical, thread_count(self.n_jobs))

    def check_arguments(self, X: Matrix, fit_options: dict[str, Any]) -> None:
        """Refuse tables that LightGBM does not read, and arguments about trees."""
        for name in ("eval_set", "eval_metric", "callbacks"):
            if fit_options.get(name):
                raise InvalidInputError(
                    f"{name} is about rounds of trees, and LinearStage has none; leave {name} "
                    "out, or use stage=LGBMClassifier(...)"
                )
        of_trees = lightgbm_engine.make(lightgbm_engine.make_estimator(), np.array([0, 1]))
        of_trees.check_arguments(X, fit_options)

    def train(
        self, data: EngineData, problem: Problem, intercept: float | FloatArray
    ) -> tuple[LinearModel, Any]:
        """Learn memberships, and fit the weights."""
        rows = StageRows.of(data, problem)
        seed = self.estimator.random_state
        rng = np.random.default_rng(0 if seed is None else seed)  # the same every time
        with number_of_threads(thread_count(self.n_jobs)) as threads:
            learners = self._learners(data, rows.trained, rng, threads)
            found = [rows.learn(learner, rng) for learner in learners]
        weights = rows.weights(found)
        folds = bool(problem.followers)

        def measured() -> ScoreArray | None:
            if folds:
                return weights.scores  # of which memberships are out of fold
            return weights.held_out_scores() if problem.held_out else None

        for k in range(self.n_rounds):
            raise_dropped()
            weights.step(*problem.play(weights.scores, measured()))
            problem.after_round(k + 1)
        problem.finish(weights.scores, measured())
        paths = zip(*weights.path, strict=True)
        blocks = [
            replace(f.block, path=np.array(path)) for f, path in zip(found, paths, strict=True)
        ]
        width = int(np.shape(rows.table)[1])
        return LinearModel(self.estimator, tuple(blocks), self.n_rounds, width), None

    def _learners(
        self, data: EngineData, trained: IntArray, rng: np.random.Generator, threads: int
    ) -> list[Learner]:
        """What learns the groups of each label that is compared."""
        assert data.compared is not None
        labels = data.labels[trained]
        weight = np.ones(len(data.labels))
        if data.sample_weight is not None:
            weight = data.sample_weight.astype(np.float64)
        options = {"num_leaves": int(self.estimator.num_leaves), "num_threads": threads}
        found = []
        for compared in data.compared():
            for label in compared.labels:
                known = (labels == label) & (compared.codes >= 0) & (weight[trained] > 0)
                which = np.flatnonzero(known)
                if len(which) > self.estimator.max_rows:
                    drawn = rng.choice(which, int(self.estimator.max_rows), replace=False)
                    which = np.sort(drawn)
                places, codes = trained[which], compared.codes[which]
                of_rows = weight[places] / weight[places].mean() if len(which) else weight[:0]
                found.append(Learner(label, compared.groups, places, codes, of_rows, options))
        return found


def version() -> str:
    """Version of LightGBM, which learns the memberships."""
    return lightgbm_engine.version()


def check_estimator(estimator: Any) -> None:
    """Refuse options that do not fit."""
    check_options(estimator)


def make(estimator: Any, classes: Any) -> LinearEngine:
    """An engine that fits weights."""
    check_options(estimator)
    return LinearEngine(estimator)


def stage_on(frozen: Any, X: Matrix, classes: Any) -> LinearEngine:
    """Refuse: it goes on from any base model by the scores of the model."""
    raise EngineOptionError("a LinearStage is fitted on a base model, and is none itself")


def make_estimator(*, regressor: bool = False, **options: Any) -> LinearStage:
    """A stage with these options; numbers have none."""
    return LinearStage(**options)


def split_points(text: str, n_features: int) -> dict[int, list[float]]:
    """The values at which the boosters split each feature; they are checked."""
    found: dict[int, set[float]] = {}
    for block in read_text(text)["memberships"]:
        if block["booster"] is not None:
            booster = "\n".join(block["booster"])
            for feature, values in tree_splits(booster, n_features).items():
                found.setdefault(feature, set()).update(values)
    return {feature: sorted(found[feature]) for feature in sorted(found)}


def restore(
    estimator: Any, text: str, intercept: Any, classes: Any, n_features: int, n_base: int
) -> LinearModel:
    """A fitted stage from its text, which is checked."""
    check_options(estimator)
    found = read_text(text)
    blocks = tuple(read_block(b, found["rounds"], n_features) for b in found["memberships"])
    return LinearModel(estimator, blocks, found["rounds"], n_features)
