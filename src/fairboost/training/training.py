"""From checked data to a trained model: bind constraints, hold rows out, assemble, hand over.

Arrows go one way. The engine gets callables for gradients and never sees a constraint; the
Lagrangian gets scores and never sees X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from tqdm.auto import tqdm

from fairboost._typing import ArrayLike, BoolArray, Float32Array, FloatArray, Matrix
from fairboost.data import holdout
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce
from fairboost.data.holdout import Holdout, HoldoutLike
from fairboost.algorithm.lagrangian import Lagrangian
from fairboost.algorithm.multipliers import Ascent, Control, DualPlayer
from fairboost.data.cells import Cells, SensitiveColumn, build_cells
from fairboost.data.validation import FitData, HeldOutSet
from fairboost.engines.lightgbm.group_model import CodedRows
from fairboost.engines.port import Engine, EngineData, LossTerms, Problem, TrainedModel
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.binding import bind
from fairboost.fairness.constraints import Constraint, ConstraintLike, columns_of, resolve
from fairboost._numbers import is_number
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.proxies import Proxy, as_proxy
from fairboost.fairness.rates import as_rate
from fairboost.fairness.realised_rate import check_against, check_resolution, realise
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.threads import Threads, thread_count
from fairboost.training import memberships
from fairboost.training.iterates import best_iterate, measure
from fairboost.verdicts import diagnostics, fairness_report
from fairboost.verdicts.fairness_report import MeasuredRates

PAPER_LEARNING_RATE = 0.1
"""Step of the paper's multipliers where the user gives none, as in the authors' program."""

MultipliersName: TypeAlias = Literal["two_sided", "paper"]
MembershipsName: TypeAlias = Literal["auto", "observed", "honest"]


@dataclass(frozen=True)
class Method:
    """What the user asked for, by the names of ``FairGBMClassifier``'s parameters."""

    constraint: ConstraintLike
    tolerance: float
    confidence: float | None
    operating_point: float | OperatingPoint
    holdout: HoldoutLike
    multipliers: MultipliersName
    multiplier_learning_rate: float | Literal["auto"]
    proxy: str | Proxy
    memberships: MembershipsName

    def __post_init__(self) -> None:
        c = self.confidence
        if c is not None and (not is_number(c) or not 0 < c < 1):
            raise InvalidInputError(
                f"confidence must lie in (0, 1), found {c!r}; write 0.95 for 95%, or None to aim "
                "at the held-out rates as they are"
            )
        holdout.check_holdout(self.holdout)
        _ = self.player, self.score_threshold, as_proxy(self.proxy)  # each raises what is wrong
        if self.multipliers not in ("two_sided", "paper"):
            raise InvalidInputError(
                f"multipliers must be 'two_sided' or 'paper', found {self.multipliers!r}"
            )
        if self.memberships not in ("auto", "observed", "honest"):
            raise InvalidInputError(
                f"memberships must be 'auto', 'observed' or 'honest', found {self.memberships!r}"
            )
        if self.memberships == "honest" and self.multipliers == "paper":
            raise InvalidInputError(
                "memberships='honest' is not part of the paper's algorithm; use "
                "multipliers='two_sided', or memberships='observed'"
            )

    def for_unseen_model(self, iterate: str) -> Method:
        """The same for a model that is none of those that rounds look at.

        In cross-fitting there would be no rows held out of it to place a threshold on.
        """
        if not isinstance(self.operating_point, OperatingPoint):
            return self
        if self.holdout == "cross":
            raise InvalidInputError(
                f"operating_point={self.operating_point} needs rows to place the threshold on, "
                f"but with holdout='cross' a model of iterate={iterate!r} (or one by DART) is "
                "trained on all of them; hold out a share, or use iterate='best'"
            )
        return replace(self, holdout=holdout.SHARE) if self.holdout == "auto" else self

    @property
    def asked_confidence(self) -> float | None:
        """The confidence as a plain number."""
        return None if self.confidence is None else float(self.confidence)

    @property
    def score_threshold(self) -> float | OperatingPoint:
        """The operating point in log-odds, or what these follow from."""
        p = self.operating_point
        if isinstance(p, OperatingPoint):
            return p
        if not is_number(p) or not 0 < p < 1:
            raise InvalidInputError(
                f"operating_point must be a probability in (0, 1), from which on decisions are "
                f"positive, or at_fpr(...), at_tpr(...) or at_positive_rate(...), found {p!r}"
            )
        return math.log(p / (1 - p))

    @property
    def player(self) -> DualPlayer:
        """Who moves the multipliers."""
        rate = self.multiplier_learning_rate
        auto = isinstance(rate, str) and rate == "auto"
        if not auto and not (is_number(rate) and 0 < float(rate) < math.inf):
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
    rescaled : bool
        Whether the last model is not the last that was looked at (DART).
    outside : Matrix, optional
        The held-out set of the user's own.
    """

    model: TrainedModel
    lagrangian: Lagrangian
    trees: list[int]
    rescaled: bool = False
    outside: Matrix | None = None

    def best_iterate(self) -> int:
        """Which of f_0, f_1 and so on to keep."""
        losses, _, violations = self.lagrangian.trace.iterates()
        errors = np.array(self.lagrangian.errors)
        if self.lagrangian.confidence is not None:  # within tolerance at that confidence
            violations = np.array(self.lagrangian.aimed)
        last = self.last_iterate()
        # f_0 is a model only where there was one to start from.
        first = 0 if self.model.n_base else min(1, last)
        found = slice(first, last + 1)
        losses, untrained = losses[found], self.lagrangian.untrained_loss
        by, of_untrained = measure(losses, untrained, self.lagrangian.wrong[found])
        if by is not losses:
            diagnostics.warn_of_overshooting(float(losses.min()), untrained)
        at = by, violations[found], errors[found], of_untrained
        return first + best_iterate(*at, self._hits_target()[found])

    def _hits_target(self) -> BoolArray:
        """Which iterates decide where they were asked to, ties allowing.

        After a few trees many scores are equal. A round that leaves most of a budget unused is
        fair because it decides about no one.
        """
        found = [self.lagrangian.realised(k) for k in range(len(self.lagrangian.thresholds))]
        return np.array([realised is None or realised.hits for realised in found], bool)

    def seen(self, iterate: int) -> MeasuredRates:
        """The rates of f_iterate on the rows held out."""
        lagrangian = self.lagrangian
        rates = lagrangian.seen_rates[iterate]
        return MeasuredRates(
            "training" if lagrangian.holdout.seen is None else "held out",
            lagrangian.holdout.why,
            tuple(rates[part] for part in lagrangian.rate_slices),
            lagrangian.seen_terms,
            lagrangian.holdout.kind,
            lagrangian.realised(iterate),
        )

    def threshold(self, iterate: int) -> float:
        """The threshold of f_iterate, in log-odds."""
        return self.lagrangian.thresholds[iterate]

    def seen_by(
        self, score: Callable[[Matrix], FloatArray], X: Matrix
    ) -> tuple[MeasuredRates, float]:
        """Rates and threshold of a model that no round has looked at, held out if rows are."""
        lagrangian, chosen = self.lagrangian, self.lagrangian.holdout
        cells, weight = lagrangian.cells, lagrangian.sample_weight
        held_out = chosen.is_outside
        if held_out and chosen.seen is not None:
            cells, weight = chosen.seen, chosen.outside_weight
        parts = [] if self.outside is None else [score(self.outside)]
        if chosen.trained is not None:
            parts.insert(0, score(X)[~chosen.trained])
        scores = np.concatenate(parts or [score(X)])
        threshold = lagrangian.threshold_of(scores)
        seen = fairness_report.measure(
            [t.constraint for t in lagrangian.terms],
            cells,
            cells.weight_of(scores >= threshold, weight),
            where="held out" if held_out else "training",
            note=chosen.why if held_out else "",
            kind=chosen.kind if held_out else "none",
            point=lagrangian.point,
            threshold=threshold,
        )
        if lagrangian.point is not None and (placed := chosen.placed) is not None:
            last = slice(len(scores) - len(placed.codes), None)
            positive = placed.weight_of(
                scores[last] >= threshold, None if weight is None else weight[last]
            )
            seen = replace(seen, realised=realise(lagrangian.point, threshold, placed, positive))
        return seen, threshold

    def last_iterate(self) -> int:
        """The last of f_0, f_1 and so on that the model holds and that was seen."""
        kept = self.model.n_rounds - self.model.n_base  # early stopping drops the others
        seen = len(self.lagrangian.seen_rates) - 1
        return min(seen, int((np.array(self.trees) <= kept).sum()))

    def first(self, iterate: int) -> TrainedModel:
        """The model f_iterate."""
        return self.model.first(self.trees[iterate - 1] if iterate else 0)


@dataclass(frozen=True)
class Rows:
    """Checked rows, sorted into cells, and the choice of those to hold out.

    Parameters
    ----------
    cells : Cells
        The rows that the model is trained on.
    sample_weight : (n,) float32, optional
        Their weights.
    label_weights : (float, float)
        Factors on the loss of either class.
    holdout : Holdout
        The rows that rates are read on.
    outside : (Matrix, (m,) int), optional
        Those rows, if they are a set of the user's own.
    threads : Threads
        Those that share passes over the rows.
    memberships : dict of tuple of str to (n, n_groups) float32
        Probabilities of groups, for the columns that go by them.
    machines : AllReduce
        Those that hold the rows; these are the ones here.
    """

    cells: Cells
    sample_weight: Float32Array | None
    label_weights: tuple[float, float]
    holdout: Holdout
    outside: tuple[Matrix, Any] | None
    threads: Threads
    memberships: dict[tuple[str, ...], Float32Array]
    machines: AllReduce = ONE_MACHINE

    def lagrangian(
        self, method: Method, constraints: Sequence[Constraint], player: DualPlayer
    ) -> Lagrangian:
        """The Lagrangian of some constraints on these rows."""
        paper = method.multipliers == "paper"
        return Lagrangian(
            self.cells,
            constraints,
            as_proxy(method.proxy, "cross_entropy" if paper else "sigmoid"),
            player,
            holdout=self.holdout,
            convex=not paper,
            memberships=self.memberships,
            confidence=method.asked_confidence,
            threshold=method.score_threshold,
            sample_weight=self.sample_weight,
            label_weights=self.label_weights,
            threads=self.threads,
            machines=self.machines,
        )

    def problem(self, lagrangian: Lagrangian, after_round: Callable[[int], None]) -> Problem:
        """What the engine has to know of it."""
        watch = lagrangian.watch if self.holdout.is_outside else None
        return Problem(lagrangian, lagrangian.followers(), watch, after_round)


@dataclass(frozen=True)
class Job:
    """A training to be done, checked.

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
    """

    method: Method
    engine: Engine
    X: Matrix
    y: ArrayLike
    data: FitData
    held_out: HeldOutSet | None
    fit_options: dict[str, Any]
    seed: int

    @property
    def columns(self) -> list[str]:
        """Names of the sensitive columns."""
        return [c.name for c in self.data.columns]

    @cached_property
    def sample_weight(self) -> Float32Array | None:
        """Weights as engines keep them."""
        weight = self.data.sample_weight
        return None if weight is None else weight.astype(np.float32)

    @cached_property
    def loss_terms(self) -> LossTerms:
        """What the engine's options say about the loss."""
        terms: LossTerms = self.engine.loss_terms(self.data.labels, self.sample_weight)
        return terms

    def engine_data(self, rows: Rows) -> EngineData:
        """What the engine gets."""
        return EngineData(
            self.X,
            self.y,
            self.data.labels,
            self.sample_weight,
            self.fit_options,
            rows.holdout.trained,
            rows.holdout.trained_labels,
            rows.outside,
        )


def train(job: Job, progress: bool) -> Training:
    """Train a model by Algorithm 1; raises before the engine starts if anything is amiss."""
    constraints = job.method.constraints(job.columns)
    rows = lay_out(job, constraints)
    lagrangian = rows.lagrangian(job.method, constraints, job.method.player)
    diagnostics.warn_of_small_cells(lagrangian)
    trees: list[int] = []
    try:
        with tqdm(total=job.engine.n_rounds, disable=not progress, unit="round") as bar:

            def after_round(n_trees: int) -> None:
                trees.append(n_trees)
                bar.update()

            model = job.engine.train(
                job.engine_data(rows),
                rows.problem(lagrangian, after_round),
                job.loss_terms.intercept,
            )
    finally:
        lagrangian.close()
    outside = None if rows.outside is None else rows.outside[0]
    return Training(model, lagrangian, trees, job.engine.rescales_trees, outside)


def lay_out(job: Job, constraints: Sequence[Constraint], spare: bool = True) -> Rows:
    """Sort rows into the cells that constraints read, and hold rows out.

    Parameters
    ----------
    job : Job
        What is to be trained.
    constraints : sequence of Constraint
        The constraints.
    spare : bool
        Hold out few of the rows whose label no rate counts. Not where models are compared by
        their held-out accuracy.
    """
    data, held_out = job.data, job.held_out
    weight = job.sample_weight
    # Only the columns that are constrained: each further one would split every cell.
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [c for c in data.columns if c.name in used]
    outside = None
    point = job.method.operating_point
    if held_out is None or not (constraints or isinstance(point, OperatingPoint)):
        cells = build_cells(data.labels, columns, weight)
        chosen = _hold_out(job, cells, constraints, weight, spare)
    else:
        cells, chosen = _hold_out_set(job, columns, constraints, held_out, spare)
        outside = (held_out.X, held_out.labels)
    trained: Any = slice(None) if chosen.trained is None else chosen.trained
    ours = cells if chosen.trained is None else cells.among(trained, weight)
    check_rows(point, constraints, cells, ours, chosen)  # before memberships are trained
    return Rows(
        ours,
        None if weight is None else weight[trained],
        job.loss_terms.label_weights,
        chosen,
        outside,
        Threads(thread_count(job.engine.n_jobs), job.engine.library),
        {k: p[trained] for k, p in _memberships(job, cells, constraints).items()},
    )


def check_rows(
    point: float | OperatingPoint,
    constraints: Sequence[Constraint],
    cells: Cells,
    trained: Cells,
    chosen: Holdout,
) -> None:
    """Refuse rows that cannot be held to the constraints, or that resolve no operating point."""
    for c in constraints:
        bind(c, trained, "trained" if chosen.cuts else "all")
        if chosen.seen is not None:
            bind(c, chosen.seen, "held out")
    if isinstance(point, OperatingPoint):
        check_against(point, constraints, cells)
        check_resolution(point, chosen.placed or chosen.seen or trained, chosen.kind)


def _memberships(
    job: Job, cells: Cells, constraints: Sequence[Constraint]
) -> dict[tuple[str, ...], Float32Array]:
    """Probabilities of the groups that the features do not give away, or that were asked for."""
    asked = job.method.memberships
    if asked == "observed" or job.method.multipliers == "paper":
        return {}
    categorical = job.fit_options.get("categorical_feature", "auto")
    out: dict[tuple[str, ...], Float32Array] = {}
    for columns in dict.fromkeys(columns_of(c) for c in constraints):
        groups = cells.groups_by(columns)
        codes = groups.of_cell[cells.codes]
        rows = CodedRows(
            job.X, job.data.labels, codes, len(groups), job.data.sample_weight, categorical
        )
        if not columns:
            continue
        if asked == "auto" and not memberships.worth_learning(rows, seed=job.seed):
            continue
        found = memberships.honest(rows, seed=job.seed, n_jobs=job.engine.n_jobs)
        out[columns] = found * (codes >= 0)[:, np.newaxis].astype(np.float32)
    return out


def _hold_out(
    job: Job,
    cells: Cells,
    constraints: Sequence[Constraint],
    sample_weight: Float32Array | None,
    spare: bool,
) -> Holdout:
    """Choose rows to hold out; none where there is nothing to look at."""
    counted = what_counts(job.method.operating_point, constraints, cells)
    asked = job.method.holdout if counted.labels else None
    rng = np.random.default_rng(job.seed)
    labels = counted.labels if spare else {0, 1}
    return holdout.choose(asked, cells, counted.smallest, sample_weight, rng, labels)


@dataclass(frozen=True)
class Counted:
    """What rates are read on: the rows of the smallest group, and the labels; none if no rate."""

    smallest: float
    labels: frozenset[int]


def what_counts(
    point: float | OperatingPoint, constraints: Sequence[Constraint], cells: Cells
) -> Counted:
    """The rows that count towards some rate."""
    counts = [bind(c, cells).rows.min() for c in constraints]
    rates = [as_rate(rate) for c in constraints for rate in c.moments]
    if isinstance(point, OperatingPoint):
        # A target of 0.1% is as well known on 50 times the rows as one of 5%.
        rare = min(20 * min(point.target, 1 - point.target), 1.0)
        counts.append(rare * cells.counts[point.rate.counts(cells.labels)].sum())
        rates.append(point.rate)
    labels = {label for r in rates for label in ((0, 1) if r.label is None else (r.label,))}
    return Counted(float(min(counts, default=0.0)), frozenset(labels))


def _hold_out_set(
    job: Job,
    columns: list[SensitiveColumn],
    constraints: Sequence[Constraint],
    held_out: HeldOutSet,
    spare: bool,
) -> tuple[Cells, Holdout]:
    """Sort training rows and the held-out set into the same cells; hold out a share if asked."""
    data, sample_weight = job.data, job.sample_weight
    theirs = holdout.align_groups(columns, held_out.columns)
    n = len(data.labels)
    weight = None
    outside = held_out.sample_weight
    if sample_weight is not None or outside is not None:
        weights = (sample_weight, n), (outside, len(held_out.labels))
        weight = np.concatenate([np.ones(m) if w is None else w for w, m in weights])
    cells = build_cells(
        np.concatenate([data.labels, held_out.labels]),
        [
            SensitiveColumn(c.name, np.concatenate([c.codes, h.codes]), c.values)
            for c, h in zip(columns, theirs, strict=True)
        ],
        weight,
    )
    ours = cells.among(slice(None, n), weight)
    given = Holdout(
        "set",
        f"the given set of {len(held_out.labels):,} rows",
        seen=cells.among(slice(n, None), weight),
        outside_weight=None if outside is None else outside.astype(np.float32),
    )
    if not is_number(job.method.holdout):
        return ours, given
    share = _hold_out(job, ours, constraints, sample_weight, spare)
    both = np.ones(len(cells.codes), bool)
    both[:n] = share.folds == 1
    seen_weight = None if weight is None else weight[both].astype(np.float32)
    return ours, holdout.join(share, given, ours, cells.among(both, weight), seen_weight)
