"""Two labels, with quantities beside decisions: losses, wrong decisions, probabilities.

An ordinary fit reads decisions alone, and its task is :mod:`fairboost.tasks.binary`. This one adds
what further constraints read, and no more than they read: sums by cell of the rows that are
measured, and parts of the gradient of the rows that are trained on. With c_q what constraints
weigh on quantity q of a row (:mod:`fairboost.fairness.label_moments`), the gradient gains::

    w (c_wrong + c_loss) (p - y)  +  w c_probability p (1 - p)

and the Hessian w (c_wrong + c_loss) p (1 - p) and the size of w c_probability p (1 - p) (1 - 2p).
A wrong decision is pushed by the loss of its row. The part of all probabilities in which a row
lies is held fixed, as in :mod:`fairboost.tasks.regression`. Parts end at quantiles of the scores
of the measured rows, found anew in every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit

from fairboost._typing import BoolArray, FloatArray, IntArray, ScoreArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.all_reduce import gathered
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.label_moments import (
    ACTUAL,
    DOWN,
    FIRST_PART,
    LOSS,
    PROBABILITY,
    UP,
    WRONG,
    LabelMean,
    further_moments,
)
from fairboost.fairness.rates import as_moment
from fairboost.kernel.row_pass import RowPass
from fairboost.tasks.base import Measured, MemberWeights, Slopes, Weights
from fairboost.tasks.binary import Binary, BinaryPasses, BinarySummary, DecisionCut
from fairboost.tasks.layout import RowLayout
from fairboost.tasks.regression import PLACED_ROWS, quantiles


def check_for_device(constraints: Iterable[Any], device_name: str) -> None:
    """Refuse constraints on more than decisions where a GPU is asked for."""
    moments = (as_moment(m) for constraint in constraints for m in constraint.moments)
    if found := further_moments(moments):
        raise ConstraintError(
            f"a constraint is on the {found[0].title} of groups, which is trained on the CPU "
            f"only, and the estimator sets device={device_name!r}; leave device out, or constrain "
            "what is decided, such as constraint='equalized_odds'"
        )


@dataclass(frozen=True)
class PartCut(DecisionCut):
    """Where decisions are made in a round, and where parts of the scores end."""

    ends: tuple[float, ...] = ()


@dataclass(frozen=True)
class BinaryMeans(Binary):
    """The binary task, with losses and probabilities.

    Parameters
    ----------
    labels : (n_cells,) int32
        Label of each cell.
    reads : frozenset of int
        Which of the quantities beside decisions are read: WRONG, LOSS, PROBABILITY.
    n_parts : int
        Parts of the probabilities that are read; 0 for all rows alone.
    """

    labels: Any = field(default=None, compare=False)
    reads: frozenset[int] = frozenset()
    n_parts: int = 0

    @classmethod
    def reading(cls, plain: Binary, labels: IntArray, moments: Iterable[Any]) -> BinaryMeans:
        """The task of constraints that read some moments."""
        found = further_moments(moments)
        parts = {round(1.0 / (m.high - m.low)) for m in found if getattr(m, "is_part", False)}
        if len(parts) > 1:
            raise ConstraintError(
                f"constraints cut the same probabilities into {sorted(parts)} parts; ask for the "
                "same number of parts in all of them, or fit a model for each"
            )
        reads = {m.kind if isinstance(m, LabelMean) else m.quantity for m in found}
        known = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
        return cls(**known, labels=labels, reads=frozenset(reads), n_parts=max(parts, default=0))

    @property
    def n_quantities(self) -> int:  # type: ignore[override]
        """Decisions, the further quantities, and those of parts."""
        return FIRST_PART + 2 * self.n_parts

    def on(self, layout: RowLayout, needs: BoolArray) -> BinaryMeansPasses:
        """Make ready to pass over rows."""
        if layout.device is not None:
            check_for_device([t.constraint for t in layout.terms], layout.device.name)
        return BinaryMeansPasses(self, layout, needs)

    @property
    def cut_moves(self) -> bool:
        """Whether the threshold, or the ends of parts, follow from the scores."""
        return self.point is not None or self.n_parts > 0

    @property
    def has_means(self) -> bool:
        """Whether some quantity is no share of rows."""
        return bool(self.reads & {LOSS, PROBABILITY})

    @cached_property
    def rows_of_sums(self) -> dict[int, int]:
        """Where the sums of losses, and those of probabilities, begin."""
        out, at = {}, 1
        if LOSS in self.reads:
            out[LOSS], at = at, at + 2
        if PROBABILITY in self.reads:
            out[PROBABILITY] = at
        return out

    def sums_of(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums of all quantities; 0 of those that nothing reads."""
        return self._gathered(sums, total, 0)

    def squares_of(self, sums: FloatArray, total: FloatArray) -> FloatArray | None:  # type: ignore[override]
        """Sums of their squares, where some are means."""
        return self._gathered(sums, total, 1) if self.has_means else None

    def _gathered(self, sums: FloatArray, total: FloatArray, power: int) -> FloatArray:
        positive, label = sums[0], self.labels
        out = np.zeros((self.n_quantities, len(label)))
        out[UP], out[DOWN] = positive, total - positive
        out[WRONG] = np.where(label == 1, total - positive, positive)
        out[ACTUAL] = label * total
        if LOSS in self.reads:
            out[LOSS] = sums[self.rows_of_sums[LOSS] + power]
        if PROBABILITY in self.reads:
            by = self.of_parts(sums)
            out[PROBABILITY] = by[:, 1 + power].sum(axis=0)
            if self.n_parts:
                out[FIRST_PART::2] = by[:, 1 + power]
                out[FIRST_PART + 1 :: 2] = label * by[:, 0]
        return out

    def of_parts(self, sums: FloatArray) -> FloatArray:
        """Weight, probabilities and their squares by part and cell, (n_parts, 3, n_cells)."""
        first = self.rows_of_sums[PROBABILITY]
        return sums[first:].reshape(max(self.n_parts, 1), 3, sums.shape[-1])

    def exact(self, moments: FloatArray) -> FloatArray:
        """Moments as they are evaluated: sums of weights round, and losses may be above 1."""
        return np.maximum(moments, 0.0) if LOSS in self.reads else np.clip(moments, 0.0, 1.0)

    def variances(self, moments: FloatArray, squares: Any, rows: FloatArray) -> FloatArray:
        """Of shares R (1 - R), of means what was measured."""
        if squares is None:
            return super().variances(moments, None, rows)
        low = 0.5 / (rows + 1.0)  # a share of 0 or 1 seen on few rows has an error too
        spread = (squares - moments**2) * rows / np.maximum(rows - 1.0, 1.0)
        out: FloatArray = np.maximum(spread, low * (1.0 - low) * np.minimum(squares, 1.0))
        return np.maximum(out, np.finfo(float).tiny)

    def deviations(self, moments: FloatArray, squares: Any, quantities: IntArray) -> FloatArray:
        """Standard deviation of a single decision, over that at even odds.

        Of a probability what it moves by: a weight of 1 moves it by the mean of p (1 - p). Labels
        stay as they are.
        """
        shares = np.clip(moments, 0.0, 1.0)
        of_share = 2.0 * np.sqrt(shares * (1.0 - shares))
        in_part = quantities >= FIRST_PART
        still = (quantities == ACTUAL) | (in_part & ((quantities - FIRST_PART) % 2 == 1))
        of_all, of_part = (self._moves(moments, squares, alone) for alone in (False, True))
        found: FloatArray = np.select(
            [still, quantities == PROBABILITY, in_part],
            [np.zeros_like(shares), of_all, of_part],
            of_share,
        )
        return found

    def _moves(self, moments: FloatArray, squares: Any, alone: bool) -> FloatArray:
        """What a weight of 1 moves a mean probability by, over what it moves a rate by.

        With ``alone``, of a part, as if all rows of the group were in it: steps are as small as
        the part (:mod:`fairboost.tasks.regression`).
        """
        if squares is None:
            return np.zeros_like(moments)
        if not alone:
            of_all: FloatArray = 4.0 * np.maximum(moments - squares, 0.0)
            return of_all
        p = np.clip(squares / np.maximum(moments, np.finfo(float).tiny), 0.01, 0.99)
        out: FloatArray = 4.0 * p * (1.0 - p)
        return out


class BinaryMeansPasses(BinaryPasses):
    """The same on the rows of a training; parameters as in :class:`BinaryPasses`."""

    task: BinaryMeans

    def __init__(self, task: BinaryMeans, layout: RowLayout, needs: BoolArray) -> None:
        super().__init__(task, layout, needs[: DOWN + 1])
        self.loss_factor = np.asarray(task.label_weights)
        self.sample, self.among_all = layout.sample(PLACED_ROWS)

    def place(self, scores: ScoreArray, cut: DecisionCut) -> DecisionCut:
        """The threshold, and the ends of parts."""
        placed = super().place(scores, cut)
        if not self.task.n_parts:
            return placed
        layout = self.layout
        drawn = scores[self.sample].astype(np.float64, copy=False)
        known = layout.measured_weight
        weight = None if known is None else known[self.sample].astype(np.float64)
        levels = np.arange(1, self.task.n_parts) / self.task.n_parts
        if self.among_all is not None:  # rows lie on several machines
            drawn = gathered(layout.all_reduce, drawn, *self.among_all)
            if weight is not None:
                weight = gathered(layout.all_reduce, weight, *self.among_all)
        ends = quantiles(drawn, weight, levels)
        return PartCut(placed.threshold, placed.spread, tuple(ends.tolist()))

    def measure(self, scores: ScoreArray, cut: DecisionCut) -> Measured:
        """Decisions by cell, then what else is read, and the loss."""
        found = super().measure(scores, cut).settled()
        found = self._with_sums(found, self.held_out, scores, cut)
        if found.placed is None:
            return found
        # Decisions alone are looked at there.
        placed = np.concatenate([found.placed, np.zeros_like(found.sums[1:])])
        return replace(found, placed=placed)

    def measure_trained(
        self, scores: ScoreArray, cut: DecisionCut, fold: int | None = None
    ) -> Measured:
        """The same on the rows trained on, or on those of the booster that leaves out a fold."""
        rows = self.trained if fold is None else self.without_folds[fold][0]
        found = super().measure_trained(scores, cut, fold).settled()
        return self._with_sums(found, rows, scores, cut)

    def unknown(
        self, trained: FloatArray, out_of_fold: FloatArray, known: FloatArray, share: float
    ) -> FloatArray:
        """Decisions as in :class:`BinaryPasses`; the rest, with its squares, out of fold."""
        decided = super().unknown(trained[:1], out_of_fold[:1], known[:1], share)
        return np.concatenate([decided, out_of_fold[1:]])

    def _with_sums(
        self, decided: Measured, rows: RowPass, scores: ScoreArray, cut: DecisionCut
    ) -> Measured:
        """Decisions by cell, and after them what else is read."""
        ends = np.asarray(getattr(cut, "ends", ()))
        parts = rows.threads.each(
            lambda k: self._sums(rows, scores, rows.blocks[k], ends), len(rows.blocks)
        )
        return replace(decided, sums=np.concatenate([decided.sums, np.sum(parts, axis=0)]))

    def _sums(
        self, rows: RowPass, scores: ScoreArray, block: slice, ends: FloatArray
    ) -> FloatArray:
        """Sums by cell of a block of rows: losses and probabilities, with their squares."""
        cells, n = rows.cells[block], len(self.task.labels)
        f = scores[block].astype(np.float64)
        weight = rows.weight[block].astype(np.float64) if len(rows.weight) else None
        label = self.layout.cells.labels[cells]
        out = []
        if LOSS in self.task.reads:
            loss = np.logaddexp(0.0, np.where(label == 1, -f, f))
            out += [_by_cell(cells, loss, weight, n), _by_cell(cells, loss**2, weight, n)]
        if PROBABILITY in self.task.reads:
            p, n_parts = expit(f), max(self.task.n_parts, 1)
            at = cells.astype(np.int64) + n * np.searchsorted(ends, f, side="right")
            sums = [_by_cell(at, v, weight, n * n_parts) for v in (np.ones_like(p), p, p**2)]
            out += list(np.stack(sums).reshape(3, n_parts, n).swapaxes(0, 1).reshape(-1, n))
        return np.array(out).reshape(-1, n)

    def _descend(
        self, rows: RowPass, scores: ScoreArray, cut: DecisionCut, weights: Weights
    ) -> Slopes:
        decisions = Weights(
            weights.on_cells[: DOWN + 1],
            [replace(s, on_groups=s.on_groups[..., : DOWN + 1]) for s in weights.soft],
        )
        slopes = super()._descend(rows, scores, cut, decisions)
        ends = np.asarray(getattr(cut, "ends", ()))
        rows.threads.each(
            lambda k: self._add(rows, scores, rows.blocks[k], ends, weights), len(rows.blocks)
        )
        return slopes

    def _add(
        self,
        rows: RowPass,
        scores: ScoreArray,
        block: slice,
        ends: FloatArray,
        weights: Weights,
    ) -> None:
        """Add what losses and probabilities weigh to the gradient of a block of rows."""
        cells = rows.cells[block]
        f, label = scores[block].astype(np.float64), self.layout.cells.labels[cells]
        on = weights.on_cells[:, cells].T + sum(
            (_of_members(s, block, label) for s in weights.soft), start=np.zeros((1, 1))
        )
        p = expit(f)
        slope = p * (1.0 - p)
        factor = self.loss_factor[label]
        # Weights of labels are those of all that is descended on; moments do not know them. The
        # loss of a row counts for nothing at least: its weight is taken out, and no more.
        on_loss = np.maximum(on[:, WRONG] + factor * on[:, LOSS], -rows.loss_weight[cells])
        on_p = on[:, PROBABILITY]
        if self.task.n_parts:
            part = np.searchsorted(ends, f, side="right")
            on_p = on_p + on[np.arange(len(p)), FIRST_PART + 2 * part]
        weight = rows.weight[block] if len(rows.weight) else 1.0
        rows.gradient[block] += weight * (on_loss * (p - label) + on_p * slope)
        rows.hessian[block] += weight * (on_loss + np.abs(on_p * (1.0 - 2.0 * p))) * slope

    def figures(self, sums: FloatArray, cut: DecisionCut) -> dict[str, float]:
        """Those of decisions."""
        return super().figures(sums[:1], cut)

    def summary(self) -> BinaryMeansSummary:
        """What the measured rows come to."""
        known = super().summary()
        parts = {name: getattr(known, name) for name in known.__dataclass_fields__}
        return BinaryMeansSummary(**parts, task=self.task)


@dataclass(frozen=True)
class BinaryMeansSummary(BinarySummary):
    """What is kept of the measured rows, with the task that reads their sums."""

    task: BinaryMeans

    def quantities(self, sums: FloatArray) -> FloatArray:
        """Sums of all quantities."""
        return self.task.sums_of(sums, self.measured.weights)

    def squares(self, sums: FloatArray) -> FloatArray | None:  # type: ignore[override]
        """Sums of the squares of all quantities."""
        return self.task.squares_of(sums, self.measured.weights)

    def variances(self, terms: Sequence[Term], found: Any) -> tuple[FloatArray | None, ...]:  # type: ignore[override]
        """Variances of single rows' quantities, term by term; None for shares.

        Covariances, where labels are compared with probabilities.
        """
        if found.variances is None:
            return ()
        parts = slices([t.counted.size for t in terms])
        return tuple(
            self._of_term(t, found.moments[p], found.variances[p], found.sums)
            for t, p in zip(terms, parts, strict=True)
        )

    def _of_term(
        self, term: Term, moments: FloatArray, variances: FloatArray, sums: FloatArray
    ) -> FloatArray | None:
        listed = [m for m in term.moments if isinstance(m, LabelMean)]
        if not listed:
            return None
        if PROBABILITY not in {m.kind for m in listed}:
            return variances.reshape(term.counted.shape)
        values, groups = moments.reshape(term.counted.shape), term.groups.of_cell
        known = groups >= 0
        out = np.empty((len(values), *values.shape))
        for (i, one), (j, two) in product(enumerate(listed), repeat=2):
            by_cell = self._product(one, two, sums)[known]
            together = np.bincount(groups[known], by_cell, len(term.groups))
            out[i, j] = together / term.counted[i] - values[i] * values[j]
        return out

    def _product(self, one: LabelMean, two: LabelMean, sums: FloatArray) -> FloatArray:
        """Sums of the product of two quantities of a row, by cell."""
        by = self.task.of_parts(sums)  # weight, p, p squared
        ends = np.arange(len(by) + 1) / len(by)
        low, high = max(one.low, two.low), min(one.high, two.high)
        if low >= high:
            return np.zeros(by.shape[-1])
        lo, hi = (int(np.abs(ends - q).argmin()) for q in (low, high))
        actual = (one.kind == ACTUAL) + (two.kind == ACTUAL)
        found: FloatArray = by[lo:hi, 2 - actual].sum(axis=0)
        return found * self.task.labels if actual else found


def _by_cell(cells: Any, values: FloatArray, weight: FloatArray | None, n: int) -> FloatArray:
    found = np.bincount(cells, values if weight is None else weight * values, n)
    return found.astype(np.float64, copy=False)


def _of_members(soft: MemberWeights, block: slice, label: IntArray) -> FloatArray:
    """What is weighed on the quantities of rows that are known by the probability of groups."""
    known = np.asarray(soft.memberships[block], np.float64)
    out: FloatArray = np.einsum("ig,igq->iq", known, soft.on_groups[:, label].swapaxes(0, 1))
    return out
