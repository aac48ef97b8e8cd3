"""From checked data to a trained model: bind constraints, hold rows out, assemble, hand over.

Arrows go one way. The engine gets callables for gradients and never sees a constraint; the
Lagrangian gets scores and never sees X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tqdm.auto import tqdm

from fairboost import diagnostics, holdout
from fairboost._kernel import thread_count
from fairboost._typing import ArrayLike, Float32Array, Matrix
from fairboost._validation import FitData, HeldOutSet
from fairboost.cells import Cells, SensitiveColumn, build_cells
from fairboost.constraints import Constraint, ConstraintLike, columns_of, resolve
from fairboost.engines.base import Engine, EngineData, Problem, TrainedModel
from fairboost.exceptions import InvalidInputError
from fairboost.holdout import Holdout, HoldoutLike
from fairboost.iterates import best_round
from fairboost.lagrangian import Lagrangian
from fairboost.multipliers import Ascent, Control, DualPlayer
from fairboost.proxies import Proxy, as_proxy
from fairboost.terms import bind
from fairboost.two_sided import two_sided

__all__ = ["PAPER_LEARNING_RATE", "Method", "MultipliersName", "Training", "train"]

PAPER_LEARNING_RATE = 0.1
"""Step of the paper's multipliers where the user gives none, as in the authors' program."""

MultipliersName = Literal["two_sided", "paper"]


@dataclass(frozen=True)
class Method:
    """What the user asked for, by the names of ``FairGBMClassifier``'s parameters."""

    constraint: ConstraintLike
    tolerance: float
    confidence: float | None
    operating_point: float
    holdout: HoldoutLike
    multipliers: MultipliersName
    multiplier_learning_rate: float | Literal["auto"]
    proxy: str | Proxy

    def __post_init__(self) -> None:
        c = self.confidence
        if c is not None and (not _is_number(c) or not 0 < c < 1):
            raise InvalidInputError(
                f"confidence must lie in (0, 1), found {c!r}; write 0.95 for 95%, or None to aim "
                "at the held-out rates as they are"
            )
        if self.multipliers not in ("two_sided", "paper"):
            raise InvalidInputError(
                f"multipliers must be 'two_sided' or 'paper', found {self.multipliers!r}"
            )

    @property
    def score_threshold(self) -> float:
        """The operating point in log-odds."""
        p = self.operating_point
        if not _is_number(p) or not 0 < p < 1:
            raise InvalidInputError(
                f"operating_point must be a probability in (0, 1), found {p!r}; a decision is "
                "positive from this probability on"
            )
        return math.log(p / (1 - p))

    @property
    def player(self) -> DualPlayer:
        """Who moves the multipliers."""
        rate = self.multiplier_learning_rate
        auto = isinstance(rate, str) and rate == "auto"
        if not auto and not (_is_number(rate) and 0 < float(rate) < math.inf):
            raise InvalidInputError(
                f"multiplier_learning_rate must be a positive number or 'auto', found {rate!r}"
            )
        if self.multipliers == "paper":
            return Ascent(PAPER_LEARNING_RATE if auto else float(rate))
        return Control() if auto else Control(gain=float(rate))

    def constraints(self, columns: list[str]) -> tuple[Constraint, ...]:
        """The constraints, in the form that the multipliers are for."""
        found = resolve(self.constraint, self.tolerance, columns)
        return found if self.multipliers == "paper" else tuple(two_sided(c) for c in found)


@dataclass(frozen=True)
class Training:
    """What came of it.

    Parameters
    ----------
    model : TrainedModel
        The trained model.
    lagrangian : Lagrangian
        The Lagrangian as training left it: multipliers and trace.
    trees : list of int
        Number of trees after each round.
    """

    model: TrainedModel
    lagrangian: Lagrangian
    trees: list[int]

    def best_trees(self) -> int:
        """Number of trees at the round to keep."""
        losses, violations = self.lagrangian.trace.after_rounds()
        errors = np.array(self.lagrangian.errors[1:])
        reached = np.array(self.trees) <= self.model.n_rounds  # early stopping drops the others
        rounds = min(len(losses), int(reached.sum()))
        if rounds == 0:
            return self.model.n_rounds
        return self.trees[best_round(losses[:rounds], violations[:rounds], errors[:rounds]) - 1]


def train(
    method: Method,
    engine: Engine,
    X: Matrix,
    y: ArrayLike,
    data: FitData,
    held_out: HeldOutSet | None,
    fit_options: dict[str, Any],
    seed: int,
    progress: bool,
) -> Training:
    """Train a model by Algorithm 1; raises before the engine starts if anything is amiss.

    Parameters
    ----------
    method : Method
        Constraints and how to reach them.
    engine : Engine
        Grows the trees.
    X, y : Matrix, ArrayLike
        As the user gave them.
    data : FitData
        The same, checked.
    held_out : HeldOutSet, optional
        The user's own rows to read rates on.
    fit_options : dict
        The engine's own arguments of ``fit``.
    seed : int
        Of the draw of rows to hold out.
    progress : bool
        Show a progress bar.
    """
    weight = None if data.sample_weight is None else data.sample_weight.astype(np.float32)
    loss = engine.loss_terms(data.labels, weight)
    lagrangian = _assemble(method, data, weight, held_out, loss.label_weights, engine.n_jobs, seed)
    diagnostics.warn_of_small_cells(lagrangian)
    trees: list[int] = []
    outside = None
    if lagrangian.holdout.kind == "set":
        assert held_out is not None
        outside = (held_out.X, held_out.labels)
    try:
        with tqdm(total=engine.n_rounds, disable=not progress, unit="round") as bar:

            def after_round(n_trees: int) -> None:
                trees.append(n_trees)
                bar.update()

            problem = Problem(
                objective=lagrangian,
                followers=lagrangian.followers(),
                watch=lagrangian.watch if outside is not None else None,
                after_round=after_round,
            )
            engine_data = EngineData(X, y, data.labels, weight, fit_options, outside)
            model = engine.train(engine_data, problem, loss.intercept)
    finally:
        lagrangian.close()
    return Training(model, lagrangian, trees)


def _assemble(
    method: Method,
    data: FitData,
    sample_weight: Float32Array | None,
    held_out: HeldOutSet | None,
    label_weights: tuple[float, float],
    n_jobs: int | None,
    seed: int,
) -> Lagrangian:
    constraints = method.constraints([c.name for c in data.columns])
    # Only the columns that are constrained: each further one would split every cell.
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [c for c in data.columns if c.name in used]
    if held_out is None or not constraints:
        cells = build_cells(data.labels, columns, sample_weight)
        rows = _hold_out(method, cells, constraints, sample_weight, seed)
    else:
        cells, rows = _hold_out_set(data, columns, sample_weight, held_out)
    return Lagrangian(
        cells,
        constraints,
        as_proxy(method.proxy, "cross_entropy" if method.multipliers == "paper" else "sigmoid"),
        method.player,
        holdout=rows,
        convex=method.multipliers == "two_sided",
        confidence=method.confidence,
        threshold=method.score_threshold,
        sample_weight=sample_weight,
        label_weights=label_weights,
        n_threads=thread_count(n_jobs),
    )


def _hold_out(
    method: Method,
    cells: Cells,
    constraints: tuple[Constraint, ...],
    sample_weight: Float32Array | None,
    seed: int,
) -> Holdout:
    """Choose rows to hold out; none where there is no constraint to look at."""
    asked = method.holdout if constraints else None
    smallest = min((bind(c, cells).rows.min() for c in constraints), default=0.0)
    rng = np.random.default_rng(seed)
    return holdout.choose(asked, cells, float(smallest), sample_weight, rng)


def _hold_out_set(
    data: FitData,
    columns: list[SensitiveColumn],
    sample_weight: Float32Array | None,
    held_out: HeldOutSet,
) -> tuple[Cells, Holdout]:
    """Sort training rows and the held-out set into the same cells."""
    used = [c.name for c in columns]
    theirs = holdout.align_groups(data.columns, held_out.columns)
    theirs = [c for c in theirs if c.name in used]
    n = len(data.labels)
    weight = None
    outside = held_out.sample_weight
    if sample_weight is not None or outside is not None:
        both = (sample_weight, n), (outside, len(held_out.labels))
        weight = np.concatenate([np.ones(m) if w is None else w for w, m in both])
    cells = build_cells(
        np.concatenate([data.labels, held_out.labels]),
        [
            SensitiveColumn(c.name, np.concatenate([c.codes, h.codes]), c.values)
            for c, h in zip(columns, theirs, strict=True)
        ],
        weight,
    )
    rows = Holdout(
        "set",
        f"the given set of {len(held_out.labels):,} rows",
        seen=cells.among(slice(n, None), weight),
        outside_weight=None if outside is None else outside.astype(np.float32),
    )
    return cells.among(slice(None, n), weight), rows


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
