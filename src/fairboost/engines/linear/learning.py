"""What a linear stage learns: memberships by small boosters, and weights by Newton steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lightgbm
import numpy as np

from fairboost._typing import (
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    Matrix,
    ScoreArray,
)
from fairboost.data.validation import by_row, take_rows
from fairboost.engines.group_model import FEW_BINS
from fairboost.engines.lightgbm import engine as lightgbm_engine
from fairboost.engines.lightgbm.data import take
from fairboost.engines.lightgbm.group_model import QUIET, Categorical
from fairboost.engines.linear.model import MOST_WEIGHT, Block, all_columns
from fairboost.engines.linear.tilt import pull_back, slopes, tilt
from fairboost.engines.port import (
    EngineData,
    Problem,
    TrainedModel,
    in_a_row,
)
from fairboost.engines.tables import as_codes, as_table

LEARNING_RATE = 0.2
"""Share of a Newton step that is taken. Multipliers are made for such steps. With 0.5 rates swing
where features give the group away, unless the gain of multipliers is halved; then it takes more
rounds where they do not."""
RIDGE = 1.0
"""What is added to the curvature of each weight, as if by one row at most."""
CURVATURE_ROWS = 10_000
"""Rows that the curvature is computed on, about."""
SMALLEST_GROUP = 20
"""Rows at a label below which a group is not learned: everyone is of it with its share."""
STOPPING_SHARE, PATIENCE, MOST_ROUNDS, RATE, PENALTY = 0.15, 3, 20, 0.5, 10.0
"""Share of the rows on which a booster stops, the rounds that it waits for a lower loss, the most
rounds, its learning rate, and the penalty on leaves."""

BINS = {"max_bin": FEW_BINS, "bin_construct_sample_cnt": 5_000, "enable_bundle": False}
"""Coarse bins from a few rows. Features are not bundled, since rows that LightGBM did not look at
might contradict it."""


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
            ours[mine] = block.spread(all_columns(np.asarray(found)))
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
