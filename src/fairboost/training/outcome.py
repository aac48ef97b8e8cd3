"""What came of a training: the model, the record, and which of the iterates to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, FloatArray
from fairboost.algorithm.game import Game
from fairboost.algorithm.margins import shrunken
from fairboost.algorithm.reach import is_total
from fairboost.algorithm.record import Record, Round
from fairboost.data.device_arrays import on_host
from fairboost.data.holdout import HoldoutKind
from fairboost.engines.port import TrainedModel
from fairboost.fairness.binding import Term, rates_left_out, slices
from fairboost.fairness.derived import shown_term
from fairboost.fairness.label_moments import WrongRate
from fairboost.training.iterates import best_iterate, measure
from fairboost.verdicts import diagnostics, prediction, worth
from fairboost.verdicts.fairness_report import MeasuredRates

AROUND, SETTLING = 10, 20
"""Rounds before and after the one that is kept in which rates should not go back and forth; not
those at the start, in which a model takes shape."""


@dataclass(frozen=True)
class Training:
    """What came of it.

    Parameters
    ----------
    model : TrainedModel
        The trained model.
    record : Record
        What each round found.
    trees : list of int
        Number of trees after each round.
    rescaled : bool
        Whether the last model is not the last that was measured (DART).
    has_base : bool
        Whether there was a model to start from.
    asked_rounds : int
        Rounds that were asked for; a callback of the engine, such as early stopping, may have
        ended training before.
    """

    model: TrainedModel
    record: Record
    trees: list[int]
    rescaled: bool = False
    has_base: bool = False
    asked_rounds: int = 0

    def best_iterate(self) -> int:
        """Which of f_0, f_1 and so on to keep."""
        record, last = self.record, self.last_iterate()
        judged_by, wished = limits_of(record.terms, record.confidence)
        violations = record.column(judged_by)
        violations[:, wished] = -np.inf  # which have no limit
        first = 0 if self.from_model else min(1, last)
        found = slice(first, last + 1)
        losses, untrained = record.column("held_out_loss")[found], record.summary.untrained_loss
        wrong = record.summary.balanced_errors(record.column("sums"))[found]
        by, of_untrained = measure(losses, untrained, wrong)
        if any(isinstance(m, WrongRate) for t in record.terms for m in t.moments):
            by, of_untrained = wrong, 0.5  # probabilities are given up, and decisions are not
        elif by is not losses:
            diagnostics.warn_of_overshooting(float(losses.min()), untrained)
        at = by, violations[found], record.column("errors")[found], of_untrained
        worst = self._largest_errors()
        objective = None if worst is None else worst[found]
        costs = None
        if worst is None and by is losses and record.summary.label_factors is not None:
            threshold = float(record.iterates[last].cut.threshold)
            costs = record.summary.decision_costs(record.column("sums")[found], threshold)
        usable = self._hits_target()[found]
        return first + best_iterate(*at, usable, objective, costs, not self.from_model)

    def _largest_errors(self) -> FloatArray | None:
        """What each iterate is to make as small as it can be, where that is asked for.

        The largest error of a group; of several such wishes, their sum.
        """
        wishes = [t for t in self.record.terms if t.constraint.traits.simplex is not None]
        if not wishes:
            return None
        record, out = self.record, np.zeros(len(self.record.iterates))
        parts = slices([len(t.inequalities) for t in record.terms])
        for k, (t, part) in enumerate(zip(record.terms, parts, strict=True)):
            if t in wishes:
                shares = t.counted[0] / t.counted[0].sum()
                for i, found in enumerate(record.iterates):
                    errors = found.errors[part]
                    out[i] += shrunken(record.moments_of(i)[k], errors, shares).max()
        return out

    def _hits_target(self) -> BoolArray:
        """Which iterates decide where they were asked to, ties allowing.

        After a few trees many scores are equal. A round that leaves most of a budget unused is
        fair because it decides about no one.
        """
        found = [self.record.summary.realised(r.cut, r.placed) for r in self.record.iterates]
        return np.array([realised is None or realised.hits for realised in found], bool)

    def measured(self, iterate: int) -> MeasuredRates:
        """The rates of f_iterate on the rows held out."""
        record, found = self.record, self.record.iterates[iterate]
        measured = of_round(
            found,
            record.terms,
            record.summary,
            where="held out" if record.held_out else "training",
            note=record.holdout.why,
            kind=record.holdout.kind,
        )
        measured = replace(measured, **self._worth(found))
        if self.from_model and iterate:
            base = record.iterates[0]
            known = prediction.of_round(
                base, record.summary, measured.where, prediction.BASE_MODEL
            )
            cost = diagnostics.out_of_proportion(base, found, record.summary)
            measured = replace(
                measured, performance=(*measured.performance, *known), costs_much=cost
            )
        around = record.iterates[max(iterate - AROUND, SETTLING) : iterate + AROUND + 1]
        if len(around) > AROUND:
            rounds = np.array([r.moments for r in around])
            measured = replace(measured, unsettled=diagnostics.unsettled(record.terms, rounds))
        return replace(measured, allowance=record.holdout.allowance)

    def _worth(self, found: Round) -> dict[str, Any]:
        """What is said of a round beside its verdicts: what stood between it and the limits."""
        record = self.record
        judged = [t for t in record.terms if not is_total(t)]
        pairs = zip(judged, record.revealed or [1.0] * len(judged), strict=False)
        out: dict[str, Any] = {
            "stopped": worth.ended_early(len(record.rounds), self.asked_rounds),
            "hidden": tuple(worth.hidden(*pair) for pair in pairs),
        }
        measure_of = getattr(record.summary, "in_own_measure", None)
        if measure_of is not None:
            title, factor = measure_of
            ours, constant = factor * found.held_out_loss, factor * record.summary.untrained_loss
            lowest = factor * float(record.column("held_out_loss").min())
            for t, part in zip(
                record.terms, slices([t.counted.size for t in record.terms]), strict=True
            ):
                if is_total(t):
                    expected, actual = found.moments[part]
                    out["overall"] = f"Actual over expected overall: {actual / expected:.3f}."
            out["power_lost"] = worth.power_lost(title, ours, constant, lowest)
        return out

    def threshold(self, iterate: int) -> float:
        """The threshold of f_iterate, in log-odds."""
        return float(self.record.iterates[iterate].cut.threshold)

    def last_iterate(self) -> int:
        """The last of f_0, f_1 and so on that the model holds and that was measured."""
        kept = self.model.n_rounds - self.model.n_base  # early stopping drops the others
        measured = len(self.record.iterates) - 1
        return min(measured, int((np.array(self.trees) <= kept).sum()))

    def first(self, iterate: int) -> TrainedModel:
        """The model f_iterate."""
        if not iterate and not self.from_model:  # f_0 is none
            return self.model
        return self.model.first(self.trees[iterate - 1] if iterate else 0)

    @property
    def from_model(self) -> bool:
        """Whether f_0 is a model: there was one to start from."""
        return self.has_base or self.model.n_base > 0


def limits_of(terms: Sequence[Term], confidence: float | None) -> tuple[str, BoolArray]:
    """By what rounds are judged: within the limits or not.

    Returns
    -------
    column : {"violations", "aimed"}
        The violations that count: within tolerance at the confidence that was asked for, if one
        was. What is made as small as it can be uses up all that bounds leave, so that these need
        the margin.
    wished : (n_inequalities,) bool
        Those that are to be as small as they can be, and have no limit.
    """
    counts = [len(t.inequalities) for t in terms]
    no_limit = [t.constraint.traits.simplex is not None for t in terms]
    wished = np.repeat(no_limit, counts).astype(bool)
    plain = confidence is None and not wished.any()
    return "violations" if plain else "aimed", wished


def is_within(found: Round, terms: Sequence[Term], confidence: float | None) -> bool:
    """Whether a round is within the limits, as the best iterate is judged."""
    judged_by, wished = limits_of(terms, confidence)
    violations: FloatArray = getattr(found, judged_by)
    return bool((violations <= 0.0)[~wished].all())


def of_round(
    found: Round, terms: Sequence[Term], summary: Any, *, where: str, note: str, kind: HoldoutKind
) -> MeasuredRates:
    """What a round found, for reports.

    Parameters
    ----------
    found : Round
        What was measured.
    terms : sequence of Term
        The constraints, bound to the rows that were measured.
    summary : object
        What the task keeps of these rows.
    where, note, kind : str
        As in :class:`MeasuredRates`.
    """
    terms = [t for t in terms if not is_total(t)]  # which come last
    parts = slices([t.counted.size for t in terms])
    little = ""
    if summary.label_factors is not None:
        little = diagnostics.judge_decisions(
            summary.measured,
            found.sums[0],
            placed=summary.point is not None,
            label_factors=summary.label_factors,
        )
    elif summary.n_classes is not None:
        little = diagnostics.judge_classes(summary.measured, found.sums[: summary.n_classes])
    asked = [t.constraint for t in terms], summary.measured
    left_out = rates_left_out(*asked, summary.quantities(found.all_sums))
    squares = summary.squares(found.sums)
    spread: tuple[float | None, ...] = ()
    if squares is not None:
        spread = tuple(
            None if getattr(r.moment, "is_share", True) else max(s.value - r.value**2, 0.0)
            for r, s in zip(left_out, rates_left_out(*asked, squares), strict=True)
        )
    pairs = zip(terms, parts, strict=True)
    judged = [shown_term(term, found.moments[part]) for term, part in pairs]
    return MeasuredRates(
        where,
        note,
        tuple(values for _, values in judged),
        tuple(term for term, _ in judged),
        kind,
        summary.realised(found.cut, found.placed),
        left_out=left_out,
        left_out_variances=spread,
        decides_little=little,
        variances=summary.variances(terms, found),
        amounts=getattr(summary, "amounts", False),
        performance=() if where == "test" else prediction.of_round(found, summary, where),
    )


def measure_round(game: Game, scores: FloatArray) -> Round:
    """What a round would find at some scores of the rows of a game."""
    with np.errstate(invalid="ignore"):  # of units of multipliers, in parts without rows
        return game.measure(game.start(), scores)


def measure_rows(game: Game, scores: FloatArray, where: str, note: str = "") -> MeasuredRates:
    """Moments of scores on the rows of a game in which nothing is held out, such as test rows."""
    found = measure_round(game, scores)
    terms, summary = game.layout.terms, game.passes.summary()
    return of_round(found, terms, summary, where=where, note=note, kind="set")


def measure_model(
    game: Game, ours: FloatArray, outside: FloatArray | None
) -> tuple[MeasuredRates, float]:
    """Rates and threshold of a model that no round has measured, held out if rows are.

    Parameters
    ----------
    game : Game
        That the model was trained by.
    ours : (n,) float64
        Scores by the model of the rows that were to be trained on.
    outside : (m,) float64, optional
        Those of the held-out set of the user's own.
    """
    layout, chosen = game.layout, game.layout.holdout
    trained = ours
    parts = [] if outside is None else [outside]
    if (which := on_host(chosen.trained)) is not None:
        trained, left = ours[which], ours[~which]
        parts.insert(0, left)
    held_out = ours if chosen.kind == "cross" else None
    if chosen.is_outside:
        held_out = np.concatenate(parts)
    found = game.measure(game.start(), trained, held_out)
    measured = of_round(
        found,
        layout.measured_terms,
        game.passes.summary(),
        where="held out" if chosen.is_outside else "training",
        note=chosen.why if chosen.is_outside else "",
        kind=chosen.kind if chosen.is_outside else "none",
    )
    return measured, float(found.cut.threshold)
