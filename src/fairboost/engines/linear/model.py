"""A fitted linear stage: what is kept of it, how it scores rows, and its text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import pandas as pd
from sklearn.base import clone

from fairboost._numbers import probabilities
from fairboost._typing import (
    FloatArray,
    Matrix,
)
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.lightgbm import engine as lightgbm_engine
from fairboost.engines.linear.stage import LinearStage
from fairboost.engines.linear.tilt import tilt
from fairboost.engines.port import (
    TrainedModel,
)
from fairboost.engines.soundness import integers, reals, require
from fairboost.engines.tables import as_table
from fairboost.exceptions import ExportError

FORMAT = "fairboost-linear-stage"
MOST_STEPS = 100_000
MOST_WEIGHT = 30.0
"""Weights stay within it: beyond, a group's odds are 0 or infinite for every purpose."""


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
        return self.spread(all_columns(self.model.probabilities(self.model.scores(X))))

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


def all_columns(likely: FloatArray) -> FloatArray:
    """Probabilities of two groups as two columns."""
    return np.stack([1 - likely, likely], axis=1) if likely.ndim == 1 else likely


def read_text(text: str) -> dict[str, Any]:
    """The text of a linear stage; refuses what is none."""
    found: dict[str, Any] = json.loads(text)
    require(isinstance(found, dict) and found.get("format") == FORMAT, "it is no linear stage")
    rounds, listed = found.get("rounds"), found.get("memberships")
    require(type(rounds) is int and 0 <= rounds <= MOST_STEPS, f"it has {rounds!r:.40} rounds")
    require(isinstance(listed, list), "it has no list of memberships")
    return found


def read_block(written: dict[str, Any], rounds: int, n_features: int) -> Block:
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
