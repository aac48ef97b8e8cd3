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
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import lightgbm
import numpy as np
import pandas as pd
from sklearn.base import clone

from fairboost._numbers import probabilities
from fairboost._typing import (
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    Matrix,
    ScoreArray,
)
from fairboost.data.validation import by_row, take_rows
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.lightgbm import engine as lightgbm_engine
from fairboost.engines.lightgbm.data import take
from fairboost.engines.lightgbm.group_model import QUIET, Categorical, LightGBMGroupModel
from fairboost.engines.lightgbm.soundness import split_points as tree_splits
from fairboost.engines.linear.stage import LinearStage, check_options
from fairboost.engines.linear.tilt import pull_back, slopes, tilt
from fairboost.engines.lockstep import FOLLOWER_BINS
from fairboost.engines.port import (
    EngineData,
    LossTerms,
    Problem,
    TrainedModel,
    in_a_row,
)
from fairboost.engines.signals import raise_dropped
from fairboost.engines.soundness import integers, reals, require
from fairboost.engines.tables import as_codes, as_table
from fairboost.exceptions import EngineOptionError, ExportError, InvalidInputError
from fairboost.kernel.device import Device
from fairboost.kernel.threads import thread_count

FORMAT = "fairboost-linear-stage"
LEARNING_RATE = 0.2
"""Share of a Newton step that is taken. Multipliers are made for such steps. With 0.5 rates swing
where features give the group away, unless the gain of multipliers is halved; then it takes more
rounds where they do not."""
RIDGE = 1.0
"""What is added to the curvature of each weight, as if by one row at most."""
CURVATURE_ROWS = 10_000
"""Rows that the curvature is computed on, about."""
MOST_STEPS = 100_000
MOST_WEIGHT = 30.0
"""Weights stay within it: beyond, a group's odds are 0 or infinite for every purpose."""
SMALLEST_GROUP = 20
"""Rows at a label below which a group is not learned: everyone is of it with its share."""
STOPPING_SHARE, PATIENCE, MOST_ROUNDS, RATE, PENALTY = 0.15, 3, 20, 0.5, 10.0
"""Rows that tell a booster when to stop, the rounds that it waits for a lower loss, the most that
it takes, its learning rate, and the penalty on leaves."""

BINS = {"max_bin": FOLLOWER_BINS, "bin_construct_sample_cnt": 5_000, "enable_bundle": False}
"""Coarse bins from a few rows. Features are not bundled, since rows that LightGBM did not look at
might contradict it."""


@dataclass(frozen=True)
class Block:
    """The memberships of one label, and the weights of its groups.

    Parameters
    ----------
    label : {0, 1}
        The label.
    groups : tuple of str
        Names of the groups.
    learned : tuple of int
        Those that the booster tells apart; none without one.
    shares : (n_groups,) float64
        Shares of the groups among rows of the label.
    model : TrainedModel, optional
        The booster.
    path : (n_rounds + 1, n_groups) float64
        The weights after each round, from the start on.
    """

    label: int
    groups: tuple[str, ...]
    learned: tuple[int, ...]
    shares: FloatArray
    model: TrainedModel | None
    path: FloatArray

    def members(self, X: Matrix) -> FloatArray:
        """P(group | x, label) of rows."""
        if self.model is None:
            return self.spread(np.empty((as_table(X).shape[0], 0)))
        return self.spread(_all_columns(self.model.probabilities(self.model.scores(X))))

    def spread(self, likely: FloatArray) -> FloatArray:
        """Probabilities of all groups, given those of the learned ones."""
        out = np.tile(self.shares, (len(likely), 1))
        if self.learned:
            out[:, self.learned] = likely * self.shares[list(self.learned)].sum()
        return out


@dataclass(frozen=True)
class LinearModel:
    """A fitted stage.

    Parameters
    ----------
    options : LinearStage
        Its options.
    blocks : tuple of Block
        Memberships and weights, by label and by set of groups.
    n_rounds : int
        Steps that were taken.
    n_features : int
        Columns that it sees.
    """

    options: LinearStage
    blocks: tuple[Block, ...]
    n_rounds: int
    n_features: int
    intercept: float = 0.0
    n_base: int = 0
    log_link: bool = False
    file_endings: ClassVar[tuple[str, ...]] = (".json",)

    @property
    def estimator(self) -> LinearStage:
        """The stage with its weights."""
        found = {
            (b.label, group): float(weight)
            for b in self.blocks
            for group, weight in zip(b.groups, b.path[-1], strict=True)
        }
        fitted: LinearStage = clone(self.options)
        index = pd.MultiIndex.from_tuples(list(found) or [], names=["label", "group"])
        fitted.weights_ = pd.Series(list(found.values()), index, np.float64, name="weight")
        return fitted

    @property
    def booster(self) -> tuple[Any, ...]:
        """The stock boosters of the memberships."""
        return tuple(b.model.booster for b in self.blocks if b.model is not None)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """What the boosters call the features."""
        models = [b.model for b in self.blocks if b.model is not None]
        return models[0].feature_names if models else None

    def scores(self, X: Matrix, rounds: int | None = None) -> FloatArray:
        """What the stage adds to the log-odds of the base model."""
        lightgbm_engine.check_table(X)
        at = self.n_rounds if rounds is None else rounds
        out = np.zeros(as_table(X).shape[0])
        for block in self.blocks:
            out += tilt(block.members(X), block.path[at], block.label)
        return out

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of scores."""
        return probabilities(scores, single=False)

    def predictions(self, scores: FloatArray) -> FloatArray:
        """Numbers that scores stand for; there are none."""
        return scores

    def text(self) -> str:
        """The weights and the boosters as JSON."""
        written = [
            {
                "label": b.label,
                "groups": list(b.groups),
                "learned": list(b.learned),
                "shares": b.shares.tolist(),
                "path": b.path.tolist(),
                "booster": None if b.model is None else b.model.text().split("\n"),
            }
            for b in self.blocks
        ]
        found = {"format": FORMAT, "rounds": self.n_rounds, "memberships": written}
        return json.dumps(found, indent=1, allow_nan=False)

    def export(self, **notes: object) -> str:
        """The same; notes are written beside it."""
        return self.text()

    def text_for_others(self) -> str:
        """No other program reads it."""
        return self._refuse()

    def said_by_stock(self, text: str, X: Matrix) -> FloatArray:
        """No stock booster reads it."""
        return self._refuse()

    def ensemble(self) -> Ensemble:
        """It is no sum of trees."""
        return self._refuse()

    def features(self, names: Sequence[str]) -> tuple[Feature, ...]:
        """It is no sum of trees."""
        return self._refuse()

    def first(self, rounds: int) -> LinearModel:
        """The model after some rounds."""
        cut = tuple(replace(b, path=b.path[: rounds + 1]) for b in self.blocks)
        return replace(self, blocks=cut, n_rounds=min(rounds, self.n_rounds))

    def with_stage(self, stage: Any) -> LinearModel:
        """There is no stage on it."""
        return self._refuse()

    def with_tree_weights(self, weights: FloatArray) -> LinearModel:
        """It has no trees to weigh."""
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise ExportError(
            "a LinearStage is no booster but a formula of several, so it has no such form; use "
            "export('stage.json'), which writes the formula and its stock boosters"
        )


class GroupTilts:
    """The weights of a stage on some rows, and how they take a round.

    Parameters
    ----------
    labels : sequence of int
        The label of each block of memberships.
    start : (n,) float64
        The base model's scores of the rows that weights are fitted on.
    members : sequence of (n, n_groups) float64
        The memberships of these rows, by block.
    held_out : sequence of ((m,) float64, sequence of (m, n_groups) float64)
        The same of rows held out, table by table.
    """

    def __init__(
        self,
        labels: Sequence[int],
        start: FloatArray,
        members: Sequence[FloatArray],
        held_out: Sequence[tuple[FloatArray, Sequence[FloatArray]]] = (),
    ) -> None:
        self.labels, self.start, self.members = labels, start, members
        self.held_out = held_out
        self.path = [[np.zeros(m.shape[1]) for m in members]]
        self.some = slice(None, None, 1 + len(start) // CURVATURE_ROWS)
        self.scores = start

    def _scores(self, start: FloatArray, members: Sequence[FloatArray]) -> FloatArray:
        """Scores at the last weights."""
        out = start.copy()
        for block in zip(members, self.path[-1], self.labels, strict=True):
            out += tilt(*block)
        return out

    def held_out_scores(self) -> ScoreArray:
        """Scores of the rows held out."""
        return in_a_row([self._scores(*part) for part in self.held_out])

    def step(self, gradient: Float32Array, hessian: Float32Array) -> None:
        """Take a shrunken Newton step, given derivatives by the score of each row."""
        now = self.path[-1]
        if now:
            blocks = list(zip(self.members, now, self.labels, strict=True))
            by_score = gradient.astype(np.float64)
            slope = [pull_back(*block, by_score) for block in blocks]
            parts_of = [slopes(m[self.some], w, label) for m, w, label in blocks]
            some = np.concatenate(parts_of, axis=1)
            # Curvature only says how far to go, and a part of the rows says that.
            share = hessian[self.some] * (len(hessian) / len(some))
            curvature = some.T @ (some * share[:, np.newaxis])
            curvature[np.diag_indices_from(curvature)] += RIDGE
            step = LEARNING_RATE * np.linalg.solve(curvature, np.concatenate(slope))
            parts = zip(now, np.split(step, np.cumsum([len(w) for w in now])[:-1]), strict=True)
            now = [np.clip(w - s, -MOST_WEIGHT, MOST_WEIGHT) for w, s in parts]
        self.path.append(now)
        self.scores = self._scores(self.start, self.members)


@dataclass(frozen=True)
class Learner:
    """Learns the groups of the rows of one label.

    Parameters
    ----------
    label : {0, 1}
        The label.
    groups : tuple of str
        Names of the groups.
    rows : (m,) int
        The rows to learn from, by their positions in the table.
    codes : (m,) int
        Groups of these rows.
    weight : (m,) float64
        Their weights.
    options : dict
        Those of LightGBM.
    """

    label: int
    groups: tuple[str, ...]
    rows: IntArray
    codes: IntArray
    weight: FloatArray
    options: dict[str, Any]

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of the groups; equal ones where there is no row."""
        found = np.bincount(self.codes, self.weight, len(self.groups)).astype(np.float64)
        found = found if found.sum() > 0 else np.ones(len(found))
        shares: FloatArray = found / found.sum()
        return shares

    @cached_property
    def learned(self) -> IntArray:
        """The groups that have rows enough; none where fewer than two have."""
        counts = np.bincount(self.codes, minlength=len(self.groups))
        found = np.flatnonzero(counts >= SMALLEST_GROUP)
        return found if len(found) > 1 else found[:0]

    def bin(self, X: Matrix, categorical: Categorical) -> lightgbm.Dataset:
        """The rows of the table, binned."""
        places = np.zeros(len(self.groups), np.int64)
        places[self.learned] = np.arange(len(self.learned))
        options = QUIET | self.options | BINS
        return lightgbm.Dataset(
            take_rows(X, self.rows), places[self.codes], weight=self.weight,
            categorical_feature=categorical, params=options,
        ).construct()  # fmt: skip

    def grow(
        self, binned: lightgbm.Dataset, among: BoolArray, rng: np.random.Generator
    ) -> lightgbm.Booster:
        """A booster of some of the rows; those of its own that it does not grow on stop it."""
        which = np.flatnonzero(among & np.isin(self.codes, self.learned))
        stop = np.zeros(len(which), bool)
        stop[rng.permutation(len(which))[: max(1, int(STOPPING_SHARE * len(which)))]] = True
        n = len(self.learned)
        options = QUIET | self.options | {
            "objective": "binary" if n == 2 else "multiclass", "num_class": 1 if n == 2 else n,
            "learning_rate": RATE, "lambda_l2": PENALTY, **BINS,
        }  # fmt: skip
        return lightgbm.train(
            options,
            take(binned, which[~stop]),
            MOST_ROUNDS,
            valid_sets=[take(binned, which[stop])],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )

    def block(self, model: TrainedModel | None) -> Block:
        """Memberships without weights."""
        none = np.zeros((1, len(self.groups)))
        learned = tuple(self.learned.tolist())
        return Block(self.label, self.groups, learned, self.shares, model, none)


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
        found = [rows.learn(learner, rng) for learner in self._learners(data, rows.trained, rng)]
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
        self, data: EngineData, trained: IntArray, rng: np.random.Generator
    ) -> list[Learner]:
        """What learns the groups of each label that is compared."""
        assert data.compared is not None
        labels = data.labels[trained]
        weight = np.ones(len(data.labels))
        if data.sample_weight is not None:
            weight = data.sample_weight.astype(np.float64)
        options = {
            "num_leaves": int(self.estimator.num_leaves), "num_threads": thread_count(self.n_jobs)
        }  # fmt: skip
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


@dataclass(frozen=True)
class Learned:
    """What was learned about one label.

    Parameters
    ----------
    block : Block
        Memberships to keep.
    ours, outside : (n, n_groups) float64
        Memberships of the rows of the table, and of a held-out set if there is one.
    """

    block: Block
    ours: FloatArray
    outside: FloatArray | None


@dataclass(frozen=True)
class StageRows:
    """The rows of a training.

    Parameters
    ----------
    data : EngineData
        As the engine gets them.
    table, values : Matrix
        The features, and the same with codes for categories.
    trained : (m,) int
        Positions of the rows that weights are fitted on.
    folds : (n,) int, optional
        Where rows are measured out of fold, the fold of each.
    """

    data: EngineData
    table: Matrix
    values: Matrix
    trained: IntArray
    folds: IntArray | None

    @classmethod
    def of(cls, data: EngineData, problem: Problem) -> StageRows:
        """Those of a problem."""
        n = len(data.labels)
        trained = np.arange(n) if data.trained is None else np.flatnonzero(data.trained)
        folds = np.zeros(n, np.int64) if problem.followers else None
        if folds is not None:
            for k, follower in enumerate(problem.followers):
                folds[follower.fold] = k
        table = by_row(as_table(data.X))
        return cls(data, table, _coded(table), trained, folds)

    def learn(self, learner: Learner, rng: np.random.Generator) -> Learned:
        """Memberships given one label."""
        data, n = self.data, len(self.data.labels)
        held_out = None if data.held_out is None else by_row(as_table(data.held_out[0]))
        if not len(learner.learned):
            block = learner.block(None)
            outside = None if held_out is None else block.members(held_out)
            return Learned(block, block.spread(np.empty((n, 0))), outside)
        binned = learner.bin(self.table, data.fit_options.get("categorical_feature", "auto"))
        whole = learner.grow(binned, np.ones(len(learner.rows), bool), rng)
        block = learner.block(_stock(whole, learner, int(np.shape(self.table)[1])))
        ours = np.empty((n, len(learner.groups)))
        folds = np.zeros(n, np.int64) if self.folds is None else self.folds
        for fold in np.unique(folds).tolist():
            mine, grown = np.flatnonzero(folds == fold), whole
            if self.folds is not None:
                grown = learner.grow(binned, folds[learner.rows] != fold, rng)
            found = grown.predict(
                take_rows(self.values, mine), num_threads=learner.options["num_threads"]
            )
            ours[mine] = block.spread(_all_columns(np.asarray(found)))
        return Learned(block, ours, None if held_out is None else block.members(held_out))

    def weights(self, found: Sequence[Learned]) -> GroupTilts:
        """Weights of nothing yet, on these rows."""
        data = self.data
        start = np.zeros(len(data.labels)) if data.offset is None else data.offset

        def part(which: Any) -> tuple[FloatArray, list[FloatArray]]:
            return start[which], [f.ours[which] for f in found]

        held_out = [] if data.trained is None else [part(~data.trained)]
        if data.held_out is not None:
            n = as_table(data.held_out[0]).shape[0]
            begun = np.zeros(n) if data.held_out_offset is None else data.held_out_offset
            held_out.append((begun, [f.outside for f in found if f.outside is not None]))
        return GroupTilts([f.block.label for f in found], *part(self.trained), held_out)


def _stock(booster: lightgbm.Booster, learner: Learner, n_features: int) -> TrainedModel:
    """A booster as a model that is kept."""
    options = lightgbm_engine.make_estimator(n_jobs=learner.options["num_threads"], verbose=-1)
    text = booster.model_to_string(num_iteration=booster.best_iteration)
    return lightgbm_engine.adopt(options, text, 0.0, np.arange(len(learner.learned)), n_features)


def _coded(table: Matrix) -> Matrix:
    """A table with codes for categories, which is read faster."""
    coded = as_codes(table, np.float64)
    return table if coded is None else coded.values


def _all_columns(likely: FloatArray) -> FloatArray:
    """Probabilities of two groups as two columns."""
    return np.stack([1 - likely, likely], axis=1) if likely.ndim == 1 else likely


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
    for block in _read(text)["memberships"]:
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
    found = _read(text)
    blocks = tuple(_block(b, found["rounds"], n_features) for b in found["memberships"])
    return LinearModel(estimator, blocks, found["rounds"], n_features)


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    require(isinstance(found, dict) and found.get("format") == FORMAT, "it is no linear stage")
    rounds, listed = found.get("rounds"), found.get("memberships")
    require(type(rounds) is int and 0 <= rounds <= MOST_STEPS, f"it has {rounds!r:.40} rounds")
    require(isinstance(listed, list), "it has no list of memberships")
    return found


def _block(written: dict[str, Any], rounds: int, n_features: int) -> Block:
    """Memberships and weights, checked."""
    groups, label = written["groups"], written["label"]
    require(label in (0, 1) and type(label) is int, f"memberships of the label {label!r:.40}")
    named = isinstance(groups, list) and all(isinstance(g, str) for g in groups)
    require(named and len(groups) > 0, "groups have no names")
    n, path, listed = len(groups), written["path"], written["learned"]
    require(
        isinstance(path, list) and len(path) == rounds + 1, "weights of some rounds are missing"
    )
    steps = [reals(step, n, "path", MOST_WEIGHT) for step in path]
    shares = reals(written["shares"], n, "shares", 1.0)
    require(bool((shares >= 0).all()) and abs(shares.sum() - 1) < 1e-6, "shares are no shares")
    require(isinstance(listed, list), "learned is no list")
    learned = integers(listed, len(listed), "learned", 0, n - 1)
    require(len(np.unique(learned)) == len(learned) != 1, "it learned groups twice, or one alone")
    require((written["booster"] is None) == (not len(learned)), "a booster is missing")
    model = None
    if written["booster"] is not None:
        options = lightgbm_engine.make_estimator(verbose=-1)
        booster = "\n".join(written["booster"])
        rest = 0.0, np.arange(len(learned)), n_features, 0
        model = lightgbm_engine.restore(options, booster, *rest)
    return Block(label, tuple(groups), tuple(learned.tolist()), shares, model, np.array(steps))
