"""How far inside its limits training aims, and in what units multipliers move.

Both follow from the derivative J of each violation by each moment:

* trees answer to the weight that a multiplier puts on a *row*, the largest of ``|J| n / W``, and
  the same change of scores moves a moment in proportion to the deviation of a single row's
  quantity (of a rate R, ``sqrt(R (1 - R))``), or less. The unit of a multiplier is one over both;
* of numbers the answer is known, and the unit is one over it: a multiplier of 1 moves its own
  violation by ``sum J^2 n / W`` times what a weight of 1 moves the moment by, and several of them
  may pull as one (:func:`crowding_of`). With four times that unit two groups swung at a learning
  rate of 0.1, and at 0.3 their means flew apart;
* a violation measured on few rows is off by ``sqrt(sum J^2 variance / rows)``, as groups are drawn
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
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from fairboost._typing import Float32Array, FloatArray
from fairboost.fairness.binding import Term, slices
from fairboost.fairness.constraints import Bound, Constraint, Parity, leaders, unit_of
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import SameDistribution
from fairboost.fairness.ratios import Floor, RatioParity
from fairboost.fairness.two_sided import TwoSided
from fairboost.tasks.base import LearningTask
from fairboost.tasks.layout import RowLayout

CAUTION, INSIDE = 0.5, 0.25
"""Standard errors to stay inside the limit by where no confidence is asked for, and the share of
the tolerance that this is at most (``benchmarks/settling.md``)."""

ANOTHER_MODEL = 1.3
"""Errors out of fold, in standard errors of sampling, where a confidence is asked for: the model
kept is none of those measured (``benchmarks/verdicts.md``)."""

OF_ITSELF, FASTEST = 2.0, 25.0
"""The unit of a bound is its multiplier times the first, if that is more than the unit is, and at
most its unit times the second: a bound that cannot be met must not send a multiplier to
infinity."""

LEAST_ANSWER = 0.02
"""Where features tell less of a group than this (1: all of it), calibration or a bound is out of
reach, and a larger multiplier would cost loss and gain nothing. Parity is another matter: groups
whose features hardly differ have predictions that hardly differ, and little is to be closed."""

AT_EVEN_ODDS = 4.0
"""One over what a weight of 1 moves a rate at even odds by: what units of multipliers refer to."""

MOST_ENTRIES = 2_000_000
"""Entries of J to write out: two columns of 500 groups. Those of 5,000 would take gigabytes."""


SPARSE = 9_000
"""Entries of J above which products are left to SciPy. Most entries are 0 there, and NumPy would
share the product among threads, which wait for those of the engine: rounds of 25 constraints on 20
groups took three times as long."""

PARITIES = TwoSided, SameDistribution
"""What one prediction for everyone meets."""


class Written:
    """A derivative J that is written out, and what follows from it.

    Parameters
    ----------
    J : (n_inequalities, n_moments) float64
        Of violations by moments.
    per_row : (n_moments,) float64
        What a coefficient of 1 on each moment weighs on one of its rows.
    """

    def __init__(self, J: FloatArray, per_row: FloatArray) -> None:
        size = np.abs(J)
        self.row_units = 1.0 / (size * per_row).max(axis=1, initial=0.0, where=size > 0)
        parts: tuple[Any, Any] = J**2, size / size.sum(axis=1, keepdims=True)
        self.squared, self.shares = map(sp.csr_array, parts) if J.size > SPARSE else parts
        self.largest = size.max(axis=1, initial=0.0)
        self.own = size.argmax(axis=1) if size.size else np.empty(0, np.intp)

    def squares(self, values: FloatArray) -> FloatArray:
        """``J**2`` times some values of moments."""
        out: FloatArray = self.squared @ values
        return out

    def means(self, values: FloatArray) -> FloatArray:
        """Means of some values of moments, weighted by ``|J|``."""
        out: FloatArray = self.shares @ values
        return out


class OfParity:
    """The same for a two-sided parity of many groups, whose J is ``1 - pi`` and both its signs.

    Parameters
    ----------
    moments : GroupMoments
        Of the groups; which they are compared with, and their weights.
    per_row : (n_groups,) float64
        As in :class:`Written`.
    relative : bool
        Whether violations are shares of the moment of the groups that are compared.
    """

    def __init__(self, moments: GroupMoments, per_row: FloatArray, relative: bool = False) -> None:
        (w,) = moments.weights
        self.unit = np.tile(np.broadcast_to(unit_of(moments, relative), w.shape), 2)
        self.total, self.pi = moments.total, w / moments.total(w)
        size, others = self.pi * per_row, np.empty(len(w))
        for part in moments.parts():
            here = size[part]
            first, most = int(here.argmax()), np.full(len(here), here.max())
            most[first] = np.delete(here, first).max()
            others[part] = most
        most_per_row = np.maximum((1 - self.pi) * per_row, others)
        self.row_units = self.unit / np.tile(most_per_row, 2)
        self.largest = 1.0 / self.unit
        self.own = np.tile(np.arange(len(w)), 2)

    def squares(self, values: FloatArray) -> FloatArray:
        """As in :class:`Written`."""
        sums = self.total(self.pi**2 * values) + (1 - 2 * self.pi) * values
        return np.tile(sums, 2) / self.unit**2

    def means(self, values: FloatArray) -> FloatArray:
        """As in :class:`Written`."""
        total = self.total(self.pi * values) + (1 - 2 * self.pi) * values
        return np.tile(total / (2 * (1 - self.pi)), 2)


@dataclass(frozen=True)
class Derivative:
    """The derivative of all violations by all moments, and what follows from it.

    Parameters
    ----------
    blocks : tuple of Written or OfParity
        Its parts, each with inequalities and moments of its own.
    moments : tuple of slice
        The moments of each part.
    row_units : (n_inequalities,) float64
        One over the most that a multiplier of 1 weighs on a row.
    """

    blocks: tuple[Written | OfParity, ...]
    moments: tuple[slice, ...]
    row_units: FloatArray

    def squares(self, values: FloatArray) -> FloatArray:
        """Squares of the derivative, times some values of moments."""
        parts = zip(self.blocks, self.moments, strict=True)
        return np.concatenate([block.squares(values[part]) for block, part in parts])

    def means(self, values: FloatArray) -> FloatArray:
        """Means of some values of moments, weighted by the size of the derivative."""
        parts = zip(self.blocks, self.moments, strict=True)
        return np.concatenate([block.means(values[part]) for block, part in parts])

    def own(self, values: FloatArray) -> FloatArray:
        """The value of the moment that each violation depends on most: of a parity, its group."""
        parts = zip(self.blocks, self.moments, strict=True)
        return np.concatenate([values[part][block.own] for block, part in parts])


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
    out_of_fold : bool
        Whether moments are those of models that each leave out a fold.
    answers : (n_moments,) float64, optional
        How far each answers to what is pushed (:func:`answers_of`); 1 if left out.
    """

    def __init__(
        self,
        task: LearningTask,
        per_row: FloatArray,
        terms: Sequence[Term],
        confidence: float | None,
        out_of_fold: bool = False,
        answers: FloatArray | None = None,
    ) -> None:
        self.task, self.per_row, self.terms = task, per_row, terms
        self.rows = np.concatenate([t.rows.ravel() for t in terms] or [np.empty(0)])
        counts = [len(t.inequalities) for t in terms]
        slack = [float(getattr(t.constraint, "slack", np.inf)) for t in terms]
        self.slack = np.repeat(slack, counts)
        self.quantities = np.array(
            [m.quantity for t in terms for m in t.moments for _ in t.groups.names], np.int64
        )
        self.counts = slices(counts)
        limits = [t.constraint.at_most if isinstance(t.constraint, Bound) else None for t in terms]
        floors = [t.constraint.at_least if isinstance(t.constraint, Floor) else 0.0 for t in terms]
        self.of_itself = np.repeat([_of_itself(t.constraint) for t in terms], counts)
        # Of shares alone: other moments have no half way to anywhere.
        highest = [np.inf if b is None else max(b, 0.5) for b in limits]
        sizes = [t.counted.size for t in terms]
        self.highest = np.repeat(highest, sizes)
        self.lowest = np.repeat([min(floor, 0.5) for floor in floors], sizes)
        self.z, self.most = np.full(sum(counts), CAUTION), INSIDE
        if confidence is not None:  # for all inequalities of a constraint at once (Bonferroni)
            # Verdicts read an end of a two-sided interval, of one inequality too.
            at_once = [max(_at_once(t), 2) for t in terms]
            self.z = np.repeat([-ndtri((1 - confidence) / k) for k in at_once], counts)
            self.z *= ANOTHER_MODEL if out_of_fold else 1.0
            self.most = 1.0
        # Others may have another derivative at other moments. That of the paper's parity depends
        # on nothing but which group has the largest one.
        asked = [t.constraint for t in terms]
        self.linear = all(map(_has_fixed_slopes, asked))
        self.stepwise = all(_has_fixed_slopes(c) or _is_parity(c) for c in asked)
        self.parts = slices(sizes)
        self.latest: tuple[list[bytes], Derivative] | None = None
        self.half_way = self._derive(np.full(len(self.rows), 0.5))
        own = self.half_way.own(np.ones(len(self.rows)) if answers is None else answers)
        faster = _one_over(own, LEAST_ANSWER)
        # At full speed equal means of six races cost more and were met no better.
        half = [0.5 if isinstance(t.constraint, PARITIES) else 0.0 for t in terms]
        within_reach = np.repeat(half, counts) * _one_over(own, task.least_answer)
        faster = np.maximum(faster, within_reach)
        self.faster: FloatArray = np.maximum(task.full_answer * faster, 1.0)
        if task.groups_pull_as_one:  # two equal groups have a multiplier each, and both pull
            self.faster *= np.concatenate([np.empty(0), *map(share_alone, terms)])

    def at(self, moments: FloatArray) -> Derivative:
        """The derivative at given moments, where it depends on them."""
        if self.linear:
            return self.half_way
        if not self.stepwise:
            return self._derive(moments)
        leading = [
            leaders(t.read(moments[part])).tobytes()
            for t, part in zip(self.terms, self.parts, strict=True)
            if isinstance(t.constraint, Parity)
        ]
        if self.latest is None or self.latest[0] != leading:
            self.latest = leading, self._derive(moments)
        return self.latest[1]

    def errors(
        self, moments: FloatArray, squares: FloatArray | None, at: Derivative
    ) -> FloatArray:
        """Standard error of each violation on the rows measured.

        Parameters
        ----------
        moments, squares : (n_moments,) float64
            The moments, and those of the squared quantities.
        at : Derivative
            Of the violations.
        """
        variances = self.task.variances(moments, squares, self.rows)
        out: FloatArray = np.sqrt(at.squares(variances / self.rows))
        for t, part, of_term in self.with_own_errors:
            out[of_term] = t.constraint.errors(t.read(moments[part]), t.rows)
        return np.maximum(out, np.finfo(float).tiny)

    @cached_property
    def with_own_errors(self) -> list[tuple[Any, slice, slice]]:
        """Terms that know the errors of their violations, their moments and inequalities."""
        parts = zip(self.terms, self.parts, self.counts, strict=True)
        return [(t, m, d) for t, m, d in parts if hasattr(t.constraint, "errors")]

    def margin(self, errors: FloatArray, moments: FloatArray) -> FloatArray:
        """What to stay below a limit by, at most all the way to parity."""
        most = self.slack.copy()
        for t, m, d in zip(self.terms, self.parts, self.counts, strict=True):
            if hasattr(t.constraint, "room"):
                most[d] = self.most * cast(Any, t.constraint).room(t.read(moments[m]))
        out: FloatArray = np.minimum(self.z * errors, most)
        return out

    def units(self, moments: FloatArray, squares: FloatArray | None, at: Derivative) -> FloatArray:
        """Unit of each multiplier: weight on rows per violation; arguments as in ``errors``.

        Only units of numbers know how far features tell groups, and how many pull as one.
        """
        if squares is None:  # shares of rows
            moments = np.clip(moments, self.lowest, self.highest)
        # A mean over all groups: the share of one may be 0, and is to move all the same.
        size = at.means(self.task.deviations(moments, squares, self.quantities))
        size = np.maximum(size, self.task.least_deviation)
        out: FloatArray = at.row_units / size
        if squares is not None:  # how many pull as one matters to numbers
            out = 1.0 / (self.crowding * at.squares(self.per_row) * size)
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
        found = [
            crowding_of(t, half[part], pulled[part])
            for t, part in zip(self.terms, self.parts, strict=True)
        ]
        return np.concatenate(found or [np.empty(0)])

    def grown(self, units: FloatArray, integral: FloatArray) -> FloatArray:
        """Units of the multipliers, given the integrals of their violations."""
        return np.clip(self.of_itself * integral, units, FASTEST * units)

    def _derive(self, moments: FloatArray) -> Derivative:
        if len(self.z) * len(self.rows) > MOST_ENTRIES:
            blocks = tuple(
                self._block(t, moments[part], self.per_row[part])
                for t, part in zip(self.terms, self.parts, strict=True)
            )
            units = np.concatenate([block.row_units for block in blocks])
            return Derivative(blocks, tuple(self.parts), units)
        J = np.zeros((len(self.z), len(self.rows)))
        row = column = 0
        for t in self.terms:
            block = _written_out(t, moments[column : column + t.counted.size])
            J[row : row + block.shape[0], column : column + block.shape[1]] = block
            row, column = row + block.shape[0], column + block.shape[1]
        whole = Written(J, self.per_row)
        return Derivative((whole,), (slice(None),), whole.row_units)

    def _block(self, t: Term, moments: FloatArray, per_row: FloatArray) -> Written | OfParity:
        if isinstance(t.constraint, TwoSided):
            return OfParity(t.read(moments), per_row, t.constraint.relative)
        return Written(_written_out(t, moments), per_row)


def _at_once(term: Term) -> int:
    """How many inequalities of a term may be broken by chance."""
    known = getattr(term.constraint, "at_once", None)
    return len(term.inequalities) if known is None else int(known(len(term.groups)))


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


def _has_fixed_slopes(constraint: Constraint) -> bool:
    """Whether the violations have the same derivative at all moments."""
    if isinstance(constraint, RatioParity):
        return constraint.of != "largest"
    known = isinstance(constraint, TwoSided | Bound | SameDistribution | Floor)
    return known and not getattr(constraint, "relative", False)


def _is_parity(constraint: Constraint) -> bool:
    """Whether groups are compared with the largest one, as in the paper."""
    return isinstance(constraint, Parity) and not constraint.relative


def _of_itself(constraint: object) -> float:
    """What the multiplier of a bound moves by, over itself and the violation."""
    if isinstance(constraint, Floor):
        return OF_ITSELF
    if not isinstance(constraint, Bound):
        return 0.0
    if getattr(constraint.moment, "is_share", True):
        return OF_ITSELF
    # A mean has a unit, and so has its violation; of a bound of 0 none is known.
    return OF_ITSELF / abs(constraint.at_most) if constraint.at_most else 0.0


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
    read = term.read(moments)
    if isinstance(term.constraint, TwoSided | SameDistribution):
        shares = read.weights / read.total(read.weights)
        out = np.ones_like(shares)
        for part in read.parts():
            here = shares[:, part]
            most = 1.0 - here.max(axis=1, keepdims=True)
            out[:, part] = 1.0 / np.maximum(most, 1.0 / here.shape[1])
        return np.tile(out.ravel(), 2)
    J = _written_out(term, moments) * np.sqrt(pulled)
    J /= np.maximum(np.linalg.norm(J, axis=1, keepdims=True), np.finfo(float).tiny)
    largest = np.linalg.norm(J, 2) ** 2
    return np.full(len(J), max(largest / 2, 1.0))


def share_alone(term: Term) -> FloatArray:
    """Share of the unit that a multiplier keeps where those of other groups pull as it does.

    With the unit ``min(1, pi / (1 - pi))`` for a group of the share pi, it is the larger of pi and
    1 - pi: the unit is then pi.
    """
    if not isinstance(term.constraint, TwoSided):
        return np.ones(len(term.inequalities))
    read = term.read(np.full(term.counted.size, 0.5))  # of which the weights alone matter
    shares = read.weights / read.total(read.weights)
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


def _written_out(term: Term, moments: FloatArray) -> FloatArray:
    J = term.jacobian(moments)
    # At parity the derivative of a constraint on distances is 0: any direction will do. That of a
    # ratio of large moments is small, and yet as it should be.
    J[(np.abs(J) * np.maximum(np.abs(moments), 1.0)).max(axis=1) < 1e-6] = 1.0
    return J
