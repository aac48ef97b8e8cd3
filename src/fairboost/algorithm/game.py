"""Algorithm 1 of the paper: scores in, gradient and Hessian out.

The problem (paper, Eq. 1) is to minimise a loss L(f) subject to constraints c_k(f) <= 0 on group
moments (rates, in the paper). Its Lagrangian is ``L(f) + sum_k multiplier_k c_k(f)`` (Eq. 2). The
c_k count rows on the wrong side of a threshold, so they have no derivative; the model therefore
descends on the *proxy* Lagrangian (Eq. 7), in which each quantity is replaced by a smooth one,
while the multipliers ascend on the exact one. :meth:`Game.play` is a round of it.

With n the weight of all training rows and W_g that of the rows of group g that count, the gradient
handed to the engine is n times the derivative: that of the loss, and for each moment that row i
counts for ``(n / W_g) coef_g w_i`` times the slope of its smooth quantity, with ``coef`` from the
constraint's pullback. The same lines are played in two ways:

* **the paper's**: ``coef`` is taken at the smooth moments;
* **convex** (the default): ``coef`` is taken at the exact moments, so that no smooth one is
  needed. A row is passed over once for its gradient, and once where it is measured. Multipliers
  answer to violations of what is aimed at, which lies inside the limits by a margin
  (:mod:`fairboost.algorithm.margins`).

Moments are measured on the rows *held out*, if there are any (:mod:`fairboost.data.holdout`): the
engine keeps their scores, and nothing is predicted twice. In cross-fitting, further boosters each
leave out a fold. Moments are then those of the booster that is kept, as far as they follow from
all rows out of fold and from what boosters decide about rows that they know
(:func:`fairboost.tasks.base.of_the_kept`).

Rows may lie on several machines (:mod:`fairboost.fairness.all_reduce`). Each makes the gradients
of its own rows; sums by cell are added up over all of them, and so all take the same step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from fairboost._typing import FloatArray, ScoreArray
from fairboost.algorithm import multipliers
from fairboost.algorithm.margins import Margins, answers_of, shrunken
from fairboost.algorithm.multipliers import (
    Control,
    DualPlayer,
    DualState,
    GroupWeights,
    OnSimplex,
)
from fairboost.algorithm.reach import is_learned, keeping_the_total, most_of
from fairboost.algorithm.record import Record, Round
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.all_reduce import ONE_MACHINE
from fairboost.fairness.binding import MomentMap, distinct, slices
from fairboost.kernel.threads import Crew
from fairboost.tasks.base import (
    Cut,
    LearningTask,
    Measured,
    Measuring,
    MemberWeights,
    PassesOfTheKept,
    Slopes,
    Weights,
    of_the_kept,
)
from fairboost.tasks.layout import RowLayout

SMALLEST_ERROR = 0.02
"""Errors of groups are told apart as shares of their mean, or of this if it is smaller."""


@dataclass(frozen=True)
class State:
    """What a round hands on to the next.

    Parameters
    ----------
    dual : DualState
        The multipliers, and what their player remembers.
    coefficients : (n_moments,) float64
        What the multipliers weigh on each moment.
    cut : Cut
        Where decisions are made.
    weights : Weights, optional
        What the coefficients weigh on rows, where it is known already.
    """

    dual: DualState
    coefficients: FloatArray
    cut: Cut
    weights: Weights | None = None


@dataclass(frozen=True)
class Turn:
    """A round: what the engine fits a tree to, and the answer of the multipliers.

    Parameters
    ----------
    slopes : Slopes
        The gradient of the proxy Lagrangian (line 5).
    cut : Cut
        Where decisions are made.
    ascend : callable
        Moves the multipliers (lines 6 and 9); returns the state for the next round and a record
        of this one. A GPU is still at the passes over the rows when a turn begins, and this waits
        for it.
    """

    slopes: Slopes
    cut: Cut
    ascend: Callable[[], tuple[State, Round]]


class Game:
    """The proxy Lagrangian of a data set. It holds no state: that goes in and comes out.

    Parameters
    ----------
    task : LearningTask
        What is trained.
    layout : RowLayout
        The rows, and the constraints bound to them; without any this is the plain engine.
    player : DualPlayer
        Moves the multipliers.
    convex : bool, default=False
        Play the convex form, not the paper's.
    confidence : float, optional
        Add to each violation what it may be larger on all people, at this confidence.
    label_power : float, default=1.0
        :attr:`fairboost.engines.port.Engine.label_power`.
    """

    def __init__(
        self,
        task: LearningTask,
        layout: RowLayout,
        player: DualPlayer,
        convex: bool = False,
        confidence: float | None = None,
        label_power: float = 1.0,
    ) -> None:
        self.task, self.layout, self.player = task, layout, player
        self.label_power = label_power
        self.convex, self.confidence = convex, confidence
        terms = layout.terms
        self.map = MomentMap(layout.cells, terms, task.n_quantities)
        self.measured_map = MomentMap(layout.measured, layout.measured_terms, task.n_quantities)
        self.passes = task.on(layout, self.map.needs[:, : len(layout.cells)])
        answers = [answers_of(t, layout) for t in terms]
        self.margins = Margins(
            task,
            self.map.per_row,
            layout.measured_terms,
            confidence,
            layout.holdout.allowance,
            np.concatenate(answers or [np.empty(0)]),
        )
        pairs = list(zip(terms, answers, strict=True))
        most = [most_of(t, layout, found) for t, found in pairs]
        self.most = np.concatenate(most or [np.empty(0)])
        self.learned = [is_learned(t, layout) for t in terms]
        self.revealed = tuple(
            float(found.min()) if learned else 1.0
            for learned, found in zip(self.learned, answers, strict=True)
        )
        self.moment_slices = slices([t.counted.size for t in terms])
        self.dual_slices = slices([len(t.inequalities) for t in terms])
        self.inequalities = distinct([name for t in terms for name in t.inequalities])
        self.shares = tuple(self._shares())
        if isinstance(player, Control) and player.most is not None:
            # The unit of a bound grows with its multiplier already.
            fastest = np.where(self.margins.of_itself > 0, 1.0, player.most)
            self.player = replace(player, most=fastest)
        if self.shares:
            self.player = OnSimplex(self.player, self.shares)
        known = [
            np.full(t.counted.size, t.groups.columns not in layout.memberships) for t in terms
        ]
        self.observed = np.concatenate(known or [np.empty(0, bool)])
        crossed = layout.holdout.kind == "cross" and bool(terms)
        self.corrects = crossed and task.says_of_the_kept
        self.knowing = cast(PassesOfTheKept, self.passes)  # where it corrects

    def start(
        self,
        dual: FloatArray | None = None,
        cut: Cut | None = None,
        moments: FloatArray | None = None,
    ) -> State:
        """All multipliers at zero (lines 2, 3), or given ones and the cut that they are for.

        Constraints on ratios of moments have coefficients that depend on the moments, so the
        first gradient needs those of the model that training goes on from; rates may do without.
        """
        cut = self.passes.start() if cut is None else cut
        if dual is None:
            none = multipliers.start(len(self.inequalities))
            if not isinstance(self.player, OnSimplex):
                return State(none, np.zeros(len(self.map.counted)), cut)
            first = self.player.first(none)
            return State(first, self._pullbacks(np.full(len(self.map.counted), 0.5), first), cut)
        at = np.full(len(self.map.counted), 0.5) if moments is None else moments
        resumed = multipliers.resume(dual)
        return State(resumed, self._pullbacks(at, resumed), cut)

    def play(
        self,
        state: State,
        scores: ScoreArray,
        held_out: ScoreArray | None = None,
        others: Sequence[Measured] = (),
    ) -> Turn:
        """One round of Algorithm 1.

        Parameters
        ----------
        state : State
            As the last round left it.
        scores : (n,) or (n, n_columns) float64 or float32
            Scores of the rows that the engine trains on, as it has them.
        held_out : array, optional
            Scores of the rows held out, or of all rows out of fold, if there are any.
        others : sequence of Measured
            Each booster that leaves out a fold, on the rows that it is trained on, where these
            say how the booster that is kept differs (:func:`fairboost.tasks.base.of_the_kept`).

        Returns
        -------
        turn : Turn
            Its gradient is what the engine fits a tree to (lines 7, 8).
        """
        watched = self._watched(scores, held_out)
        cut = self.passes.place(watched, state.cut)
        slopes, smooth = self._descend(state, scores, cut)  # line 5
        measured: Measured | Measuring | None = slopes.measured
        if measured is None or held_out is not None:
            measured = self.passes.measure(watched, cut)
        known = [self.knowing.measure_trained(scores, cut), *others] if others else []
        return Turn(
            slopes, cut, partial(self._ascend, state, slopes, smooth, measured, known, cut)
        )

    def _ascend(
        self,
        state: State,
        slopes: Slopes,
        smooth: FloatArray | None,
        measured: Measured | Measuring,
        known: Sequence[Measured | Measuring],
        cut: Cut,
    ) -> tuple[State, Round]:
        """The answer of the multipliers to what the passes over the rows have found."""
        slopes, exact = slopes.settled(), self._of_the_kept(measured, known)
        # With a gradient that is no number the loss is none: one figure tells all machines.
        loss = slopes.loss if slopes.is_finite else math.nan
        found, units = self._evaluate(loss, exact, cut, state)  # line 6
        aimed = found.violations
        if smooth is None:  # the convex form
            smooth, aimed, units = found.moments, found.aimed, units * self.task.stiffness(cut)
            units = self.margins.grown(units, state.dual.integral)
        dual = self.player.step(state.dual, aimed, units)  # line 9
        if any(self.learned):
            dual = multipliers.at_most(dual, self.most * self.margins.of_a_whole(units))
        coefficients = self._pullbacks(smooth, dual)
        # Here rather than in the next round, since on a GPU this costs no time.
        return State(dual, coefficients, cut, self._weights(coefficients)), found

    def follow(self, state: State, fold: int, scores: ScoreArray) -> Slopes:
        """Gradient for the booster that leaves out a fold: same multipliers, its own scores.

        Several threads may ask at a time, each for a fold of its own.
        """
        weights = state.weights or self._weights(state.coefficients)
        return self.passes.descend_without(fold, scores, state.cut, weights)

    def measure(
        self,
        state: State,
        scores: ScoreArray,
        held_out: ScoreArray | None = None,
        others: Sequence[Measured] = (),
    ) -> Round:
        """Measure the model after the last round, without a gradient."""
        watched = self._watched(scores, held_out)
        cut = self.passes.place(watched, state.cut)
        known = [self.knowing.measure_trained(scores, cut), *others] if others else []
        measured = self._of_the_kept(self.passes.measure(watched, cut), known)
        loss = measured.loss if held_out is None else self.passes.loss(scores, cut)
        return self._evaluate(loss, measured, cut, state)[0]

    def judge(self, measured: Measured, cut: Cut) -> Round:
        """The round of a model whose sums were measured elsewhere, over all rows."""
        return self._evaluate(measured.loss, measured, cut, self.start())[0]

    def _watched(self, scores: ScoreArray, held_out: ScoreArray | None) -> ScoreArray:
        """The scores on which moments are measured."""
        if (held_out is None) != (self.layout.holdout.measured is None):
            raise ValueError(
                "the game is given scores of rows held out if, and only if, rows are held out; "
                f"found holdout {self.layout.holdout.kind!r} and "
                f"{'no scores' if held_out is None else 'scores'} of such rows"
            )
        return scores if held_out is None else held_out

    def _of_the_kept(
        self, measured: Measured | Measuring, known: Sequence[Measured | Measuring]
    ) -> Measured:
        """What was measured, or in cross-fitting what it says of the booster that is kept."""
        if not known:
            return measured.settled()
        trained, *others = (some.settled() for some in known)
        asked = self.knowing.unknown, self.label_power
        return of_the_kept(trained, measured.settled(), others, *asked)

    def _descend(
        self, state: State, scores: ScoreArray, cut: Cut
    ) -> tuple[Slopes, FloatArray | None]:
        """Gradient of the proxy Lagrangian, and the smooth moments, if these were asked for.

        In the paper's form coefficients depend on the smooth moments, which are known after the
        pass over the rows only. For parity and bounds they depend on little, on which group has
        the largest one, and that often stays from one round to the next: so the pass is made with
        the coefficients of the last round, and corrected if they turn out to differ.
        """
        weights = state.weights or self._weights(state.coefficients)
        if self.convex:
            return self.passes.descend(scores, cut, weights), None
        slopes = self.passes.descend_and_sum(scores, cut, weights)
        (sums,) = self._of_all(slopes.smooth)
        smooth = self.map.means(sums)
        now = self._pullbacks(smooth, state.dual)
        if not np.array_equal(now, state.coefficients):
            weights = self._weights(now)
            corrected = self.passes.corrected(slopes, weights)
            slopes = corrected or self.passes.descend_and_sum(scores, cut, weights)
        return slopes, smooth

    def _evaluate(
        self, loss: float, measured: Measured, cut: Cut, state: State
    ) -> tuple[Round, FloatArray]:
        """Exact moments, their violations and errors; and the units of multipliers."""
        where = measured.sums if measured.placed is None else measured.placed
        losses, *flat = self._of_all(
            np.array([loss, measured.loss]),
            measured.sums,
            *([where] * (where is not measured.sums)),
        )
        sums, cells = flat[0].reshape(measured.sums.shape), self.layout.measured
        placed = sums if len(flat) == 1 else flat[1].reshape(where.shape)
        every = sums if measured.shared is None else np.hstack([sums, measured.shared])
        total = cells.all.weights
        moments = self.measured_map.means(self.task.sums_of(every, total))
        moments, squares = self.task.exact(moments), self.task.squares_of(every, total)
        if squares is not None:
            squares = self.measured_map.means(squares)
        lines = self.margins.at(moments)
        errors = self.margins.errors(moments, squares, lines)
        violations = self._violations(moments)
        variances = None
        if squares is not None:
            variances = self.task.variances(moments, squares, self.margins.rows)
        aimed = violations + self.margins.margin(errors, lines)
        for s in self.shares:  # weights of groups answer to what is no chance, as a share
            mean = max(float(s.start @ moments[s.moments]), SMALLEST_ERROR)
            aimed[s.part] = shrunken(violations[s.part], errors[s.part], s.start) / mean
        found = Round(
            loss=float(losses[0]) / self.layout.cells.total_weight,
            held_out_loss=float(losses[1]) / cells.total_weight,
            figures=self.passes.figures(sums, cut),
            cut=cut,
            moments=moments,
            violations=violations,
            aimed=aimed,
            errors=errors,
            multipliers=state.dual.multipliers,
            sums=sums,
            placed=placed,
            variances=variances,
            shared=measured.shared,
        )
        return found, self.margins.units(moments, squares, lines)

    def _shares(self) -> Iterator[GroupWeights]:
        """Multipliers that are weights of groups; they start from the groups' shares of rows."""
        parts = zip(self.layout.terms, self.dual_slices, self.moment_slices, strict=True)
        for t, part, moments in parts:
            traits = t.constraint.traits
            if traits.simplex is not None:
                start = t.counted[0] / t.counted[0].sum()
                yield GroupWeights(part, start, float(traits.simplex), moments, traits.pace)

    def _violations(self, moments: FloatArray) -> FloatArray:
        """Violations of all terms, evaluated on exact moments."""
        out = np.empty(len(self.inequalities))
        parts = zip(self.layout.measured_terms, self.moment_slices, self.dual_slices, strict=True)
        for t, m, d in parts:
            out[d] = t.violations(moments[m])
        return out

    def _pullbacks(self, moments: FloatArray, dual: DualState) -> FloatArray:
        """Coefficients on all moments, differentiated at the given ones."""
        out = np.empty(len(moments))
        parts = zip(self.layout.terms, self.moment_slices, self.dual_slices, strict=True)
        for (t, m, d), learned in zip(parts, self.learned, strict=True):
            out[m] = t.pullback(moments[m], dual.multipliers[d])
            if learned:
                pushes = (out[m] * self.map.per_row[m]).reshape(t.counted.shape)
                out[m] = keeping_the_total(pushes, t.counted).ravel() / self.map.per_row[m]
        return out

    def _weights(self, coefficients: FloatArray) -> Weights:
        """What coefficients on moments weigh on rows: by cell, or by the probability of groups."""
        # Of groups that rows belong to by weights nothing is known by cell.
        on_cells = self.map.pull_back(coefficients * self.observed)[:, : len(self.layout.cells)]
        soft = []
        for columns, probabilities in self.layout.memberships.items():
            n_labels = int(self.layout.cells.labels.max()) + 1
            on_groups = np.zeros((probabilities.shape[1], n_labels, self.task.n_quantities))
            for t, part in zip(self.layout.terms, self.moment_slices, strict=True):
                if t.groups.columns != columns:
                    continue
                on_rows = (coefficients[part] * self.map.per_row[part]).reshape(t.counted.shape)
                for moment, row in zip(t.moments, on_rows, strict=True):
                    counts = moment.counts(np.arange(n_labels))
                    on_groups[:, counts, moment.quantity] += row[:, np.newaxis]
            soft.append(MemberWeights(probabilities, on_groups))
        return Weights(on_cells, soft)

    def _of_all(self, *sums: Any) -> list[FloatArray]:
        """The sums over the rows of all machines, in one go."""
        if self.layout.all_reduce is ONE_MACHINE:
            return list(sums)
        total = self.layout.all_reduce.total(np.concatenate([s.ravel() for s in sums]))
        return np.split(total, np.cumsum([s.size for s in sums])[:-1])


def _quietly() -> np.errstate:
    """Steps that are too large are told by the loss, once, and not by warnings row by row."""
    return np.errstate(over="ignore", invalid="ignore")


class Session:
    """The owner of what changes in a training: the state, and the rounds so far.

    Parameters
    ----------
    game : Game
        What is played.
    state : State, optional
        To start from; :meth:`Game.start` by default.
    """

    def __init__(self, game: Game, state: State | None = None) -> None:
        self.game, self._state = game, game.start() if state is None else state
        self.playing = self._state
        self.rounds: list[Round] = []
        self.after_last: Round | None = None
        self.others: dict[int, Measured] = {}
        self.of_round: list[Measured] | None = None
        # On a GPU multipliers move while the engine grows a tree, and the host would only wait.
        # Machines add up their sums in turn with the engine's, so there the next round does it.
        layout = game.layout
        alone = layout.device is not None and layout.all_reduce is ONE_MACHINE
        self.beside = Crew(int(alone))

    @property
    def state(self) -> State:
        """As the last round left it."""
        self.beside.wait()
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def play(self, scores: ScoreArray, held_out: ScoreArray | None = None) -> tuple[Any, Any]:
        """Play a round; returns gradient and Hessian, buffers that the next call overwrites."""
        with _quietly():
            others = self._others() if self.of_round is None else self.of_round
            turn = self.game.play(self.state, scores, held_out, others)
        self.of_round = None
        # Followers take the round under the same multipliers, after this one was played.
        self.playing = replace(self._state, cut=turn.cut)
        if self.game.layout.device is None:
            self._ascend(turn)
        else:  # the next round waits for it, when it asks for the state
            self.beside.start([partial(self._ascend, turn)])
        return turn.slopes.gradient, turn.slopes.hessian

    def _ascend(self, turn: Turn) -> None:
        """Let the multipliers answer, and keep what came of the round."""
        device = self.game.layout.device
        # A thread of its own may be at another GPU.
        with _quietly(), nullcontext() if device is None else device.used():
            state, found = turn.ascend()
        self._check(found)
        self._state = state
        self.rounds.append(found)

    def ready(self) -> None:
        """Let followers take the next round before it is played; not where the cut moves."""
        self.playing = self.state
        # Of this round: followers that begin early may have grown another tree when it is played.
        self.of_round = self._others()

    def follow(self, fold: int, scores: ScoreArray) -> tuple[Any, Any]:
        """Gradient and Hessian for the booster that leaves out a fold."""
        with _quietly():
            slopes = self.game.follow(self.playing, fold, scores)
        return slopes.gradient, slopes.hessian

    def grown(self, fold: int, scores: ScoreArray) -> None:
        """Measure the booster that leaves out a fold on the rows that it is trained on."""
        with _quietly():
            known = self.game.knowing.measure_trained(scores, self._state.cut, fold)
            # At once: on a GPU the next such pass overwrites what this one has found.
            self.others[fold] = known.settled()

    def _others(self) -> list[Measured]:
        folds = range(self.game.layout.holdout.n_folds)
        return [self.others[k] for k in folds] if len(self.others) == len(folds) else []

    def finish(self, scores: ScoreArray, held_out: ScoreArray | None = None) -> None:
        """Take the scores after the last round."""
        state = self.state
        with _quietly():
            self.after_last = self.game.measure(state, scores, held_out, self._others())
        self._check(self.after_last)

    def _check(self, found: Round) -> None:
        """Stop a training of which nothing can be measured any more."""
        if not math.isfinite(found.loss + found.held_out_loss):
            raise InvalidInputError(
                f"training diverged: after {len(self.rounds)} rounds the loss is not a "
                "finite number. Steps are too large: lower learning_rate of the estimator, or "
                "multiplier_learning_rate; with linear_tree, scale the features down"
            )

    def record(self) -> Record:
        """What is to be kept of the training."""
        state, game, layout = self.state, self.game, self.game.layout
        return Record(
            rounds=tuple(self.rounds),
            after_last=self.after_last,
            state=state,
            inequalities=game.inequalities,
            terms=layout.measured_terms,
            holdout=layout.holdout.without_rows(),
            confidence=game.confidence,
            summary=game.passes.summary(),
            revealed=game.revealed,
        )

    def close(self) -> None:
        """Let the threads go. What is to be kept is asked for before."""
        self.beside.close()
        self.game.layout.threads.close()
