"""A constraint, compiled: affine inequalities ``A m <= b`` on the moments m of groups.

Whatever training asks of a constraint follows from A and b:

* its violations, ``A m - b``, move the multipliers (Eq. 9);
* its pullback, ``multipliers @ A``, makes the gradient (Eq. 8);
* with independent groups, the variance of a violation is ``A**2 @ variances``;
* the weight that a multiplier puts on a row is a row maximum of ``|A|``, and the size of the
  moments that it moves a mean by ``|A|``: the unit of the multiplier follows from both.

A constraint states ``linearized(moments) -> Lines``. If it is affine, A and b are the same at all
moments, and the constraint is compiled once, when it is bound to rows. What is not affine is
linearized again at the moments of each round: A is then the derivative of its violations there,
and b is such that ``A m - b`` are the violations.

A is one of three matrices. :class:`Centred` holds groups against a centre, such as the mean of
all groups: the identity less a matrix of rank one in each stratum. It is never written out where
there are many groups: the matrix of 5,000 groups would take gigabytes. :class:`ByGroup` has lines
that read several moments of one group. :class:`Dense` is any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fairboost._typing import FloatArray, IntArray
from fairboost.fairness.moments import GroupMoments

SPARSE = 9_000
"""Entries above which products are left to SciPy. Most entries are 0 there, and NumPy would share
the product among threads, which wait for those of the engine: rounds of 25 constraints on 20
groups took three times as long."""

NOT_ONE_GROUP = -1
"""The group of a line that is about none in particular."""


class Matrix(ABC):
    """The matrix A of some lines, as far as training reads it.

    ``A @ m`` and ``multipliers @ A`` take flat arrays and return flat arrays: moments lie moment
    by moment, and lines side by side, in each the groups in their order.
    """

    __array_ufunc__ = None  # so that NumPy leaves `multipliers @ A` to this class

    @property
    @abstractmethod
    def numbers(self) -> tuple[FloatArray, ...]:
        """What the matrix is made of: matrices of equal numbers are equal."""

    @abstractmethod
    def dense(self) -> FloatArray:
        """The matrix, written out."""

    def __matmul__(self, moments: FloatArray) -> FloatArray:
        out: FloatArray = self._entries @ moments
        return out

    def __rmatmul__(self, multipliers: FloatArray) -> FloatArray:
        out: FloatArray = multipliers @ self._entries
        return out

    def equals(self, other: Matrix) -> bool:
        """Whether two matrices of the same lines are equal."""
        pairs = zip(self.numbers, other.numbers, strict=True)
        return self is other or all(np.array_equal(one, two) for one, two in pairs)

    def squares(self, values: FloatArray) -> FloatArray:
        """``A**2 @ values``."""
        out: FloatArray = self._squared @ values
        return out

    def means(self, values: FloatArray) -> FloatArray:
        """Means of some values of moments, weighted by ``|A|``."""
        out: FloatArray = self._weights @ values
        return out

    def most(self, per_row: FloatArray) -> FloatArray:
        """The largest of ``|A| * per_row`` in each line."""
        size = np.abs(self._entries)
        out: FloatArray = (size * per_row).max(axis=1, initial=0.0, where=size > 0)
        return out

    def main(self) -> IntArray:
        """The moment that each line depends on most."""
        return np.abs(self._entries).argmax(axis=1) if self._entries.size else np.empty(0, int)

    @property
    def groups(self) -> IntArray:
        """The group that each line is about."""
        return np.full(len(self._entries), NOT_ONE_GROUP)

    @cached_property
    def _entries(self) -> FloatArray:
        return self.dense()

    @cached_property
    def _squared(self) -> Any:
        squared = self._entries**2
        return sp.csr_array(squared) if squared.size > SPARSE else squared

    @cached_property
    def _weights(self) -> Any:
        size = np.abs(self._entries)
        weights = size / size.sum(axis=1, keepdims=True)
        return sp.csr_array(weights) if size.size > SPARSE else weights


class Dense(Matrix):
    """A matrix that is written out."""

    def __init__(self, entries: FloatArray) -> None:
        self.entries = entries

    @property
    def numbers(self) -> tuple[FloatArray, ...]:
        """The entries."""
        return (self.entries,)

    def dense(self) -> FloatArray:
        """The entries."""
        return self.entries


class ByGroup(Matrix):
    """Lines that read the moments of one group: line (r, g) is ``sum_k own[r, k, g] m[k, g]``.

    Parameters
    ----------
    own : (n_lines_of_a_group, n_moments, n_groups) float64
        The coefficients.
    """

    def __init__(self, own: FloatArray) -> None:
        self.own = own

    @property
    def numbers(self) -> tuple[FloatArray, ...]:
        """The coefficients."""
        return (self.own,)

    def dense(self) -> FloatArray:
        """The matrix, written out."""
        lines, moments, groups = self.own.shape
        out, each = np.zeros((lines, groups, moments, groups)), np.arange(groups)
        out[:, each, :, each] = self.own.transpose(2, 0, 1)
        return out.reshape(lines * groups, moments * groups)

    def __matmul__(self, moments: FloatArray) -> FloatArray:
        out: FloatArray = (self.own * moments.reshape(self.own.shape[1:])).sum(axis=1).ravel()
        return out

    def __rmatmul__(self, multipliers: FloatArray) -> FloatArray:
        of_lines = multipliers.reshape(len(self.own), 1, -1)
        out: FloatArray = (self.own * of_lines).sum(axis=0).ravel()
        return out

    @property
    def groups(self) -> IntArray:
        """The group that each line is about."""
        lines, _, groups = self.own.shape
        return np.tile(np.arange(groups), lines)


class Centred(Matrix):
    """Groups against a centre, from one side or from two.

    Line (s, k, g) of side s, moment k and group g is
    ``(own[s] m[k, g] + on_centre[s] c[k, g]) / unit[g]``, with the centre
    ``c[k, g] = sum_h weights[k, h] m[k, h] / norm[k, g]`` over the groups h of the stratum of g.

    Parameters
    ----------
    moments : GroupMoments
        Of the groups: how many there are, and which are compared with each other.
    own, on_centre : sequence of float
        Coefficients of each side.
    weights, norm : (n_moments, n_groups) float64, optional
        Of the centre; without weights there is none. The norm is the same in all of a stratum.
    unit : (n_groups,) float64
        What differences are measured in; the same in all of a stratum.
    """

    def __init__(
        self,
        moments: GroupMoments,
        own: Sequence[float],
        on_centre: Sequence[float] = (),
        weights: Any = None,
        norm: Any = 1.0,
        unit: Any = 1.0,
    ) -> None:
        self.read = moments
        self.own = np.reshape(np.array(own, np.float64), (-1, 1, 1))
        self.on_centre = np.reshape(on_centre or np.zeros(len(own)), (-1, 1, 1))
        shape = moments.values.shape
        filled = np.zeros(shape) if weights is None else np.reshape(weights, shape)
        self.weights: FloatArray = filled.astype(np.float64)
        self.norm, self.unit = np.asarray(norm, np.float64), np.asarray(unit, np.float64)
        self.shares: FloatArray = self.weights / self.norm
        self.signs = self.own / self.own[:1]
        self.opposite = np.array_equal(self.on_centre, self.signs * self.on_centre[:1])

    @property
    def numbers(self) -> tuple[FloatArray, ...]:
        """The parameters."""
        return self.own, self.on_centre, self.weights, self.norm, self.unit

    def centre(self, moments: FloatArray) -> FloatArray:
        """What each group is compared with, (n_moments, 1 or n_groups)."""
        m = moments.reshape(self.weights.shape)
        if len(m) == 1 and self.read.strata is None:
            return np.full((1, 1), self.weights[0] @ m[0]) / self.norm
        out: FloatArray = self.read.total(self.weights * m) / self.norm
        return out

    def __matmul__(self, moments: FloatArray) -> FloatArray:
        m = moments.reshape(self.weights.shape)
        centre = self.centre(m) if self.on_centre.any() else 0.0
        if self.opposite:  # one side is the other with its sign, and so is a zero
            lines = self.signs * (self.own[:1] * m + self.on_centre[:1] * centre)
        else:
            lines = self.own * m + self.on_centre * centre
        out: FloatArray = (lines / self.unit).ravel()
        return out

    def __rmatmul__(self, multipliers: FloatArray) -> FloatArray:
        # Several sets of multipliers may be pulled back at a time.
        several, shape = multipliers.shape[:-1], self.weights.shape
        of_sides = multipliers.reshape(*several, len(self.own), *shape)
        back = (self.own * of_sides).sum(axis=-3)
        if self.on_centre.any():
            on_centre = self.read.total((self.on_centre * of_sides).sum(axis=-3))
            back = back + self.shares * on_centre
        out: FloatArray = (back / self.unit).reshape(*several, -1)
        return out

    def dense(self) -> FloatArray:
        """The matrix, written out."""
        return np.eye(self.own.size * self.weights.size) @ self

    def squares(self, values: FloatArray) -> FloatArray:
        """``A**2 @ values``."""
        v = values.reshape(self.weights.shape)
        others = self.on_centre**2 * self.read.total(self.shares**2 * v)
        own = (self.own**2 + 2 * self.own * self.on_centre * self.shares) * v
        out: FloatArray = ((others + own) / self.unit**2).ravel()
        return out

    def means(self, values: FloatArray) -> FloatArray:
        """Means of some values of moments, weighted by ``|A|``."""
        v = np.stack([values.reshape(self.weights.shape), np.ones(self.weights.shape)])
        others = self._of_others()[:, np.newaxis]
        own = self._of_own()[:, np.newaxis] - others
        both = self.read.total(others * v) + own * v
        out: FloatArray = (both[:, 0] / both[:, 1]).ravel()
        return out

    def most(self, per_row: FloatArray) -> FloatArray:
        """The largest of ``|A| * per_row`` in each line."""
        per_row = per_row.reshape(self.weights.shape)
        size = self._of_others() * per_row
        others = np.zeros_like(size)
        for part in self.read.parts():
            here = size[..., part]
            if here.shape[-1] > 1:
                # All but the first see the largest; the largest sees the one that comes next.
                first = here.argmax(axis=-1, keepdims=True)
                ranked = np.sort(here, axis=-1)
                seen = np.repeat(ranked[..., -1:], here.shape[-1], axis=-1)
                np.put_along_axis(seen, first, ranked[..., -2:-1], axis=-1)
                others[..., part] = seen
        out: FloatArray = (np.maximum(self._of_own() * per_row, others) / self.unit).ravel()
        return out

    def main(self) -> IntArray:
        """The moment that each line depends on most: that of its own group."""
        return np.tile(np.arange(self.weights.size), self.own.size)

    @property
    def groups(self) -> IntArray:
        """The group that each line is about."""
        moments, groups = self.weights.shape
        return np.tile(np.arange(groups), self.own.size * moments)

    def _of_own(self) -> FloatArray:
        """The size of what each line has of its own group, but for the unit."""
        return np.abs(self.own + self.on_centre * self.shares)

    def _of_others(self) -> FloatArray:
        """The size of what each group has in the lines of others, but for the unit."""
        return np.abs(self.on_centre * self.shares)


class Blocks(Matrix):
    """Several matrices along the diagonal, for products only.

    Parameters
    ----------
    blocks : sequence of Matrix
        The matrices.
    columns : sequence of slice
        The moments of each.
    """

    def __init__(self, blocks: Sequence[Matrix], columns: Sequence[slice]) -> None:
        self.blocks, self.columns = blocks, columns

    @property
    def numbers(self) -> tuple[FloatArray, ...]:
        """The numbers of all blocks."""
        return tuple(each for block in self.blocks for each in block.numbers)

    def dense(self) -> FloatArray:
        """The matrix, written out."""
        written = [block.dense() for block in self.blocks]
        out = np.zeros((sum(map(len, written)), self.columns[-1].stop if self.columns else 0))
        row = 0
        for block, part in zip(written, self.columns, strict=True):
            out[row : row + len(block), part] = block
            row += len(block)
        return out

    def squares(self, values: FloatArray) -> FloatArray:
        """``A**2 @ values``."""
        return self._joined("squares", values)

    def means(self, values: FloatArray) -> FloatArray:
        """Means of some values of moments, weighted by ``|A|``."""
        return self._joined("means", values)

    def most(self, per_row: FloatArray) -> FloatArray:
        """The largest of ``|A| * per_row`` in each line."""
        return self._joined("most", per_row)

    def main(self) -> IntArray:
        """The moment that each line depends on most."""
        pairs = zip(self.blocks, self.columns, strict=True)
        return np.concatenate([part.start + block.main() for block, part in pairs])

    def _joined(self, name: str, values: FloatArray) -> FloatArray:
        pairs = zip(self.blocks, self.columns, strict=True)
        return np.concatenate([getattr(block, name)(values[part]) for block, part in pairs])


@dataclass(frozen=True)
class Lines:
    """Affine inequalities ``A m <= b``.

    Parameters
    ----------
    A : Matrix
        The coefficients.
    b : (n_lines,) float64 or float
        The limits.
    room : (n_lines,) float64 or float
        How far inside its limit each line is where all groups are equal; infinity where there is
        no tolerance.
    """

    A: Matrix
    b: FloatArray | float
    room: FloatArray | float = np.inf

    def violations(self, moments: FloatArray) -> FloatArray:
        """``A m - b``, positive where a line is broken."""
        out: FloatArray = self.A @ moments - self.b
        return out
