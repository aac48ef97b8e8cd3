"""How far inside its limits training aims, and in what units multipliers move.

Both follow from the matrix A of the inequalities ``A m <= b``, the derivative of each violation by
each moment (:mod:`fairboost.fairness.compiled`):

* trees answer to the weight that a multiplier puts on a *row*, the largest of ``|A| n / W``, and
  the same change of scores moves a moment in proportion to the deviation of a single row's
  quantity (of a rate R, ``sqrt(R (1 - R))``), or less. The unit of a multiplier is one over both;
* of numbers the answer is known, and the unit is one over it: a multiplier of 1 moves its own
  violation by ``sum A^2 n / W`` times what a weight of 1 moves the moment by, and several of them
  may pull as one (:func:`crowding_of`). With four times that unit two groups swung at a learning
  rate of 0.1, and at 0.3 their means flew apart;
* a violation measured on few rows is off by ``sqrt(sum A^2 variance / rows)``, as groups are drawn
  independently. Where the user asks for a confidence, training aims inside the limit by so much
  that the violation holds on all people at that confidence. Else it aims inside by half a standard
  error, as moments move a little from round to round, and by a quarter of the tolerance at most.

Bounds are broken before there is a model: where no one is decided positively, every false negative
rate is 1. Two things keep a multiplier from answering to that for good. A rate above one half that
is to come down has the unit of one half, not the many times larger one of a rate that hardly
moves. And a multiplier that has grown large moves in proportion to itself, down as well as up, so
that it takes as many rounds to let go of a bound as to get hold of it. Groups of an untrained
model have equal rates, so parities need neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
from scipy.special import ndtri

from fairboost._typing import Float32Array, FloatArray
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.compiled import Blocks, Centred, Dense, Lines, Matrix
from fairboost.tasks.base import LearningTask
from fairboost.tasks.layout import RowLayout

CAUTION, INSIDE = 0.5, 0.25
"""Standard errors to stay inside the limit by where no confidence is asked for, and the share of
the tolerance that this is at most (``benchmarks/settling.md``)."""

OF_ITSELF, FASTEST = 2.0, 25.0
"""The unit of a bound is its multiplier times the first, if that is more than the unit is, and at
most its unit times the second: a bound that cannot be met must not send a multiplier to
infinity."""

MOST_ENTRIES = 2_000_000
"""Entries of A to write out: two columns of 500 groups. Those of 5,000 would take gigabytes."""

LEAST_ANSWER = 0.02
"""Where features tell less of a group than this (1: all of it), calibration or a bound is out of
reach, and a larger multiplier would cost loss and gain nothing. Parity is another matter: groups
whose features hardly differ have predictions that hardly differ, and little is to be closed."""

AT_EVEN_ODDS = 4.0
"""One over what a weight of 1 moves a rate at even odds by: what units of multipliers refer to."""

FLAT = 1e-6
"""At parity the derivative of a constraint on distances is 0: any direction will do. That of a
ratio of large moments is small, and yet as it should be."""


@dataclass(frozen=True)
class AllLines(Lines):
    """The lines of all terms, and one over the most that a multiplier of 1 weighs on a row."""

    row_units: FloatArray = field(default_factory=lambda: np.empty(0))


class Margins:
    """Units and sampling errors of the inequalities of some terms.

    Parameters
    ----------
    task : LearningTask
        Knows the deviations of its moments.
    per_row : (n_moments,) float64
        What a coefficient of 1 on each moment weighs on one of its rows, in training.
    terms : sequence of Term
        The constraints, bound to the rows on which moments are measured.
    confidence : float, optional
        That the user asked for.
    allowance : float
        Variance of moments over that of sampling (:attr:`Holdout.allowance`).
    answers : (n_moments,) float64, optional
        How far each answers to what is pushed (:func:`answers_of`); 1 if left out.
    """

    def __init__(
        self,
        task: LearningTask,
        per_row: FloatArray,
        terms: Sequence[Term],
        confidence: float | None,
        allowance: float = 1.0,
        answers: FloatArray | None = None,
    ) -> None:
        self.task, self.per_row, self.terms = task, per_row, terms
        self.rows = np.concatenate([t.rows.ravel() for t in terms] or [np.empty(0)])
        self.quantities = np.array(
            [m.quantity for t in terms for m in t.moments for _ in t.groups.names], np.int64
        )
        traits = [t.constraint.traits for t in terms]
        sizes, counts = [t.counted.size for t in terms], [len(t.inequalities) for t in terms]
        self.parts, self.counts = slices(sizes), slices(counts)
        self.slack = np.repeat([each.slack for each in traits], counts)
        self.of_itself = OF_ITSELF * np.repeat([each.growth for each in traits], counts)
        self.lowest = np.repeat([each.lowest for each in traits], sizes)
        self.highest = np.repeat([each.highest for each in traits], sizes)
        self.z, self.most = np.full(sum(counts), CAUTION), INSIDE
        if confidence is not None:  # for all inequalities of a constraint at once (Bonferroni)
            # Verdicts read an end of a two-sided interval, of one inequality too.
            pairs = zip(terms, counts, strict=True)
            at_once = [max(t.constraint.at_once(len(t.groups), k), 2) for t, k in pairs]
            self.z = np.repeat([-ndtri((1 - confidence) / k) for k in at_once], counts)
            self.z *= np.sqrt(allowance)
            self.most = 1.0
        self.latest: tuple[list[Matrix], Matrix, FloatArray] | None = None
        self.may_be_flat = False
        self.half_way = self.at(np.full(len(self.rows), 0.5))
        known = np.ones(len(self.rows)) if answers is None else answers
        own = known[self.half_way.A.main()]
        faster = _one_over(own, LEAST_ANSWER)
        # At full speed equal means of six races cost more and were met no better.
        half = np.repeat([0.5 * each.met_by_one for each in traits], counts)
        faster = np.maximum(faster, half * _one_over(own, task.least_answer))
        self.faster: FloatArray = np.maximum(task.full_answer * faster, 1.0)
        if task.groups_pull_as_one:  # two equal groups have a multiplier each, and both pull
            self.faster *= np.concatenate([np.empty(0), *map(share_alone, terms)])

    def at(self, moments: FloatArray) -> AllLines:
        """The lines of all terms at given moments; the same matrix as long as it stays so."""
        pairs = zip(self.terms, self.parts, strict=True)
        lines = [t.linearized(moments[part]) for t, part in pairs]
        matrices = [each.A for each in lines]
        same = self.latest is not None and all(map(Matrix.equals, matrices, self.latest[0]))
        if self.latest is None or not same or self.may_be_flat:
            A = self._joined(matrices, moments)
            self.latest = matrices, A, 1.0 / A.most(self.per_row)
        _, A, row_units = self.latest
        b = _on_lines([each.b for each in lines], self.counts)
        room = _on_lines([each.room for each in lines], self.counts)
        return AllLines(A, b, room, row_units)

    def _joined(self, matrices: Sequence[Matrix], moments: FloatArray) -> Matrix:
        """The matrices of all terms along the diagonal, written out where they are small."""
        pairs = list(zip(matrices, self.parts, strict=True))
        # Whether a line of very small numbers is flat depends on the size of the moments.
        sizes = [A.most(np.ones(part.stop - part.start)) for A, part in pairs]
        self.may_be_flat = any(((size > 0) & (size < FLAT)).any() for size in sizes)
        whole = Blocks([_moving(A, moments[part]) for A, part in pairs], self.parts)
        few = len(self.z) * len(self.rows) <= MOST_ENTRIES
        return Dense(whole.dense()) if few else whole

    def errors(self, moments: FloatArray, squares: FloatArray | None, at: Lines) -> FloatArray:
        """Standard error of each violation on the rows measured.

        Parameters
        ----------
        moments, squares : (n_moments,) float64
            The moments, and those of the squared quantities.
        at : Lines
            Those of all terms.
        """
        variances = self.task.variances(moments, squares, self.rows)
        out: FloatArray = np.sqrt(at.A.squares(variances / self.rows))
        for t, part, lines in zip(self.terms, self.parts, self.counts, strict=True):
            if (own := t.constraint.errors(t.read(moments[part]), t.rows)) is not None:
                out[lines] = own
        return np.maximum(out, np.finfo(float).tiny)

    def margin(self, errors: FloatArray, at: Lines) -> FloatArray:
        """What to stay below a limit by, at most all the way to parity."""
        most = np.minimum(self.most * at.room, self.slack)
        out: FloatArray = np.minimum(self.z * errors, most)
        return out

    def units(self, moments: FloatArray, squares: FloatArray | None, at: AllLines) -> FloatArray:
        """Unit of each multiplier: weight on rows per violation; arguments as in ``errors``.

        Only units of numbers know how far features tell groups, and how many pull as one.
        """
        if squares is None:  # shares of rows
            moments = np.clip(moments, self.lowest, self.highest)
        # A mean over all groups: the share of one may be 0, and is to move all the same.
        size = at.A.means(self.task.deviations(moments, squares, self.quantities))
        size = np.maximum(size, self.task.least_deviation)
        if squares is None:
            out: FloatArray = at.row_units / size
        else:  # how many pull as one matters to numbers
            out = 1.0 / (self.crowding * at.A.squares(self.per_row) * size)
        return out * self.faster

    def of_a_whole(self, units: FloatArray) -> FloatArray:
        """The multipliers that move their violations by 1 where features tell all of a group."""
        out: FloatArray = AT_EVEN_ODDS * self.crowding * units / self.faster
        return out

    @cached_property
    def crowding(self) -> FloatArray:
        """How many multipliers pull as one, of each."""
        half = np.full(len(self.rows), 0.5)
        pulled = self.per_row * self.task.deviations(half, half, self.quantities)
        pairs = zip(self.terms, self.parts, strict=True)
        return np.concatenate(
            [np.empty(0), *(crowding_of(t, half[part], pulled[part]) for t, part in pairs)]
        )

    def grown(self, units: FloatArray, integral: FloatArray) -> FloatArray:
        """Units of the multipliers, given the integrals of their violations."""
        return np.clip(self.of_itself * integral, units, FASTEST * units)


def _moving(A: Matrix, moments: FloatArray) -> Matrix:
    """A matrix none of whose lines is flat."""
    flat = A.most(np.maximum(np.abs(moments), 1.0)) < FLAT
    if not flat.any():
        return A
    entries = np.array(A.dense())
    entries[flat] = 1.0
    return Dense(entries)


def _on_lines(values: Sequence[FloatArray | float], counts: Sequence[slice]) -> FloatArray:
    """Values of the lines of all terms, in one array."""
    pairs = zip(values, counts, strict=True)
    each = [np.broadcast_to(value, part.stop - part.start) for value, part in pairs]
    return np.concatenate([np.empty(0), *each])


def _one_over(answers: FloatArray, least: float) -> FloatArray:
    """One over the answers, and no longer where they are next to nothing."""
    out: FloatArray = np.square(answers) / (np.maximum(answers, 0.0) ** 3 + least**3)
    return out


def shrunken(values: FloatArray, errors: FloatArray, shares: FloatArray) -> FloatArray:
    """Figures of groups without what differs between them by chance (empirical Bayes).

    Each is drawn to the mean of all groups by the share of chance in its square distance. With t²
    the variance between groups that sampling errors e_g leave, that is ``e_g² / (t² + e_g²)``.
    Where groups are no further apart than chance explains, no difference is left.

    Parameters
    ----------
    values, errors, shares : (n_groups,) float64
        The figures, their standard errors, and the groups' shares of the rows.

    Examples
    --------
    >>> shrunken(np.array([0.2, 0.4]), np.array([0.001, 0.001]), np.full(2, 0.5)).round(2)
    array([0.2, 0.4])
    >>> shrunken(np.array([0.2, 0.4]), np.array([0.5, 0.5]), np.full(2, 0.5)).round(2)
    array([0.3, 0.3])
    """
    mean = shares @ values
    # Every group has the same weight here: a small one may be the worst.
    between = max(float(np.mean((values - mean) ** 2 - errors**2)), 0.0)
    kept = between / np.maximum(between + errors**2, np.finfo(float).tiny)
    out: FloatArray = mean + kept * (values - mean)
    return out


def crowding_of(term: Term, moments: FloatArray, pulled: FloatArray) -> FloatArray:
    """How many multipliers of a term pull as one.

    Two groups whose means are to meet have a multiplier each, and what the one pulls the other
    pulls too; of many small groups each has its own. The number is the largest eigenvalue of the
    answers of all violations to all multipliers, each over that to its own: for groups of shares
    pi at most ``1 / (1 - pi)``, and no more than there are groups. The two sides of a violation
    count once, as one of them is at rest.

    Parameters
    ----------
    term : Term
        The constraint, bound to rows.
    moments, pulled : (n_moments,) float64
        Moments, and what a coefficient of 1 moves each by.

    Returns
    -------
    crowding : (n_inequalities,) float64
        1 or more.
    """
    if term.constraint.traits.met_by_one:
        shares = cast(Centred, term.lines.A).shares
        out = np.ones_like(shares)
        for part in term.read(moments).parts():
            here = shares[:, part]
            most = 1.0 - here.max(axis=1, keepdims=True)
            out[:, part] = 1.0 / np.maximum(most, 1.0 / here.shape[1])
        return np.tile(out.ravel(), 2)
    J = _moving(term.linearized(moments).A, moments).dense() * np.sqrt(pulled)
    J /= np.maximum(np.linalg.norm(J, axis=1, keepdims=True), np.finfo(float).tiny)
    largest = np.linalg.norm(J, 2) ** 2
    return np.full(len(J), max(largest / 2, 1.0))


def share_alone(term: Term) -> FloatArray:
    """Share of the unit that a multiplier keeps where those of other groups pull as it does.

    With the unit ``min(1, pi / (1 - pi))`` for a group of the share pi, it is the larger of pi and
    1 - pi: the unit is then pi.
    """
    if not term.constraint.traits.met_by_one:
        return np.ones(len(term.inequalities))
    shares = cast(Centred, term.lines.A).shares
    return np.tile(np.maximum(shares, 1.0 - shares).ravel(), 2)


def answers_of(term: Term, layout: RowLayout) -> FloatArray:
    """How far moments answer where rows are pushed by the probability of their group.

    A push on group g is then one on ``P(g | x)``, and reaches as many of its rows, beyond those of
    everyone, as that is larger among them: ``(mean of P among g - mean of P) / (1 - share of g)``.
    1 is where features give the group away, 0 where they say nothing.

    Returns
    -------
    answers : (n_moments * n_groups,) float64
        1 where groups are pushed as observed.
    """
    out, known = np.ones(term.counted.shape), layout.memberships.get(term.groups.columns)
    if known is None:
        return out.ravel()
    cells = layout.cells
    if (members := cells.members_of(term.groups)) is not None:
        return _shared_answers(term, layout, members, known)
    groups, weight = term.groups.of_cell[cells.codes], layout.sample_weight
    for row, moment in enumerate(term.moments):
        rows = np.flatnonzero((groups >= 0) & moment.counts(cells.labels)[cells.codes])
        g, w = groups[rows], None if weight is None else weight[rows]
        own = known[rows, g] if w is None else w * known[rows, g]
        total = np.bincount(g, w, len(term.groups))
        share = total / total.sum()
        inside = np.bincount(g, own, len(term.groups)) / np.maximum(total, np.finfo(float).tiny)
        everyone = known[rows].sum(axis=0) if w is None else w @ known[rows]
        out[row] = (inside - everyone / total.sum()) / np.maximum(
            1.0 - share, np.finfo(float).tiny
        )
    return out.ravel()


def _shared_answers(
    term: Term, layout: RowLayout, members: Float32Array, known: Float32Array
) -> FloatArray:
    """The same where rows belong to groups by weights: means are over these."""
    cells, out = layout.cells, np.ones(term.counted.shape)
    weight = np.ones(len(members)) if layout.sample_weight is None else layout.sample_weight
    tiny = np.finfo(float).tiny
    for row, moment in enumerate(term.moments):
        w = weight * moment.counts(cells.labels)[cells.codes]
        total = w @ members
        share = total / total.sum()
        inside = (w[:, np.newaxis] * members * known).sum(axis=0) / np.maximum(total, tiny)
        out[row] = (inside - share) / np.maximum(1.0 - share, tiny)
    return out.ravel()
