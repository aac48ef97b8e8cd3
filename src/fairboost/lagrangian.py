"""Algorithm 1 of the paper: scores in, gradient and Hessian out.

The problem (paper, Eq. 1) is to minimise a loss L(f) subject to constraints c_k(f) <= 0 on group
rates. Its Lagrangian is ``L(f) + sum_k multiplier_k c_k(f)`` (Eq. 2). The c_k count rows on the
wrong side of a threshold, so they have no derivative; the model therefore descends on the *proxy*
Lagrangian (Eq. 7), in which each rate's 0/1 events are replaced by a smooth step, while the
multipliers ascend on the exact one::

    round t, on the training scores f_{t-1}:
      (line 5)  gradient of  L + sum_k multiplier_k proxy_c_k,  with the multipliers of t-1
      (line 6)  exact violations c_k(f_{t-1})
      (7, 8)    the engine fits a tree to the gradient and adds it to f
      (line 9)  multiplier_k <- max(0, multiplier_k + rate * c_k)

With n the weight of all rows, W_g that of the rows of group g that count, and d the direction of
the rate, the gradient handed to the engine is n times the derivative of the Lagrangian::

    w_i (p_i - y_i)
      + sum over rates that row i counts for:  (n / W_g) coef_g w_i d phi'(d (f_i - t))

with ``coef`` from the constraint's pullback at the proxy rates. The Hessian is the loss's own,
``w_i p_i (1 - p_i)``.

Departures from the paper are listed in ``docs/algorithm.md``; the one that shows here is that the
derivative of parity is exact for more than two groups (see :mod:`fairboost.constraints`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairboost import multipliers
from fairboost._kernel import CellSums, RowPass
from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray
from fairboost.cells import Cells, Groups
from fairboost.constraints import Constraint, GroupRates, columns_of
from fairboost.exceptions import ConstraintError
from fairboost.proxies import Proxy
from fairboost.rates import Rate, as_rate, counted_cells
from fairboost.trace import Trace

__all__ = ["Lagrangian", "RateMap", "Term", "bind"]


@dataclass(frozen=True)
class Term:
    """A constraint bound to the cells of a data set.

    Parameters
    ----------
    constraint : Constraint
        The constraint.
    rates : tuple of Rate
        The rates it reads.
    groups : Groups
        The groups it reads them of.
    counted : (n_rates, n_groups) float64
        Weight of the rows that count.
    inequalities : tuple of str
        A name for each of its violations.
    """

    constraint: Constraint
    rates: tuple[Rate, ...]
    groups: Groups
    counted: FloatArray
    inequalities: tuple[str, ...]

    @property
    def rate_labels(self) -> list[str]:
        """Name each rate of each group, for the trace."""
        return [
            f"{rate.name}[{self.groups.label(g)}]"
            for rate in self.rates
            for g in range(len(self.groups))
        ]

    def read(self, values: FloatArray) -> GroupRates:
        """Give the constraint its rates, from a flat list of them."""
        return GroupRates(values.reshape(self.counted.shape), self.counted, self.groups.names)


def bind(constraint: Constraint, cells: Cells) -> Term:
    """Bind a constraint to a data set; raises if the data cannot be held to it."""
    by = columns_of(constraint)
    groups = cells.groups_by(by)
    rates = tuple(as_rate(r) for r in constraint.rates)
    if by and len(groups) < 2:
        raise ConstraintError(
            f"the sensitive column {', '.join(by)!r} has one group only "
            f"({groups.label(0) if len(groups) else 'none'}); parity needs two or more. Drop the "
            "constraint, or pass the column that tells the groups apart"
        )
    counted = np.stack([_sum_counted(r, cells, groups, cells.weights) for r in rates])
    _check_every_group_counts(rates, groups, counted)
    names = _inequality_names(constraint, groups, counted)
    return Term(constraint, rates, groups, counted, names)


def _sum_counted(rate: Rate, cells: Cells, groups: Groups, per_cell: FloatArray) -> FloatArray:
    which, group = counted_cells(rate, cells.labels, groups.of_cell)
    return np.bincount(group, per_cell[which], len(groups)).astype(np.float64)


def _check_every_group_counts(rates: Sequence[Rate], groups: Groups, counted: FloatArray) -> None:
    for k, rate in enumerate(rates):
        for g in np.flatnonzero(counted[k] <= 0).tolist():
            label = "" if rate.label is None else f" with y = {rate.label}"
            raise ConstraintError(
                f"group {groups.label(g)!r} has no rows{label}, so its {rate.title} is "
                f"undefined; merge "
                f"the group with another, or drop the constraint on {rate.name}"
            )


def _inequality_names(
    constraint: Constraint, groups: Groups, counted: FloatArray
) -> tuple[str, ...]:
    """Name the violations, and see on the way that the constraint works on these groups."""
    trial = GroupRates(np.full(counted.shape, 0.5), counted, groups.names)
    violations = np.asarray(constraint.violations(trial))
    if violations.ndim != 1:
        raise ConstraintError(
            f"violations of {constraint!r} must be a vector, found shape {violations.shape}"
        )
    back = np.asarray(constraint.pullback(trial, np.zeros(len(violations))))
    if back.shape != trial.values.shape:
        raise ConstraintError(
            f"pullback of {constraint!r} must have the shape of the rates {trial.values.shape} "
            f"(rates, groups), found {back.shape}"
        )
    name = str(getattr(constraint, "name", type(constraint).__name__))
    if len(violations) == len(groups) and groups.columns:
        return tuple(f"{name}[{groups.label(g)}]" for g in range(len(groups)))
    if len(violations) == 1:
        return (name,)
    return tuple(f"{name}[{k}]" for k in range(len(violations)))


class RateMap:
    """All rates of all terms, as one linear map from sums over cells.

    Entry (r, c) of ``matrix`` is 1 if cell c counts towards rate r, in the left half if the event
    is a positive decision and in the right half if it is a negative one. A rate is a row of the
    matrix times the events of the cells, over the weight that counts; a coefficient on a rate goes
    back to the cells by the transpose. This is all there is between rows and constraints.
    """

    def __init__(self, cells: Cells, terms: Sequence[Term]) -> None:
        self.total = cells.weights
        rows: list[IntArray] = [np.empty(0, np.int32)]
        columns: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        row = 0
        for t in terms:
            for rate in t.rates:
                which, group = counted_cells(rate, cells.labels, t.groups.of_cell)
                rows.append(row + group)
                columns.append(which if rate.direction > 0 else which + len(cells))
                row += len(t.groups)
        self.counted = np.concatenate([t.counted.ravel() for t in terms] or [np.empty(0)])
        entries = (np.concatenate(rows), np.concatenate(columns))
        self.matrix = sp.csr_array(
            (np.ones(len(entries[0])), entries), shape=(len(self.counted), 2 * len(cells))
        )
        # n / W of each rate: what turns a coefficient on a rate into one on each of its rows.
        self.back = sp.csr_array(self.matrix.T * (cells.total_weight / self.counted))

    @property
    def needs(self) -> tuple[BoolArray, BoolArray]:
        """The cells of which some rate reads positive, and negative, decisions."""
        read = np.diff(self.back.indptr) > 0
        return read[: len(self.total)], read[len(self.total) :]

    def exact(self, sums: CellSums) -> FloatArray:
        """Rates to evaluate: shares of rows on a side of the threshold."""
        return self._rates(sums.positive, self.total - sums.positive)

    def proxy(self, sums: CellSums) -> FloatArray:
        """Rates to differentiate: means of the proxy."""
        return self._rates(sums.up, sums.down)

    def pull_back(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What coefficients on rates weigh on a row of each cell, in either direction."""
        on_up, on_down = np.split(self.back @ coefficients, 2)
        return on_up, on_down

    def _rates(self, up: FloatArray, down: FloatArray) -> FloatArray:
        out: FloatArray = self.matrix @ np.concatenate([up, down]) / self.counted
        return out


class Lagrangian:
    """The proxy Lagrangian of a data set, and the multipliers as they stand.

    Parameters
    ----------
    cells : Cells
        The training rows, by cell.
    constraints : sequence of Constraint
        The constraints; none makes this the plain logistic loss.
    proxy : Proxy
        The smooth step.
    learning_rate : float
        Step of the multipliers.
    threshold : float, default=0.0
        The decision threshold in log-odds.
    sample_weight : (n,) float32, optional
        Weights of the rows.
    label_weights : (float, float), default=(1.0, 1.0)
        Factors on the loss of the negative and the positive class. Rates do not know them.
    n_threads : int, default=1
        Threads.
    dtype : dtype, default=float32
        Precision of the gradients.
    """

    def __init__(
        self,
        cells: Cells,
        constraints: Sequence[Constraint],
        proxy: Proxy,
        learning_rate: float,
        *,
        threshold: float = 0.0,
        sample_weight: Float32Array | None = None,
        label_weights: tuple[float, float] = (1.0, 1.0),
        n_threads: int = 1,
        dtype: Any = np.float32,
    ) -> None:
        self.cells = cells
        self.terms = tuple(bind(c, cells) for c in constraints)
        self.learning_rate = learning_rate
        self.map = RateMap(cells, self.terms)
        self.rate_slices = _slices([t.counted.size for t in self.terms])
        self.dual_slices = _slices([len(t.inequalities) for t in self.terms])
        self.inequalities = _distinct([name for t in self.terms for name in t.inequalities])
        self.dual = multipliers.start(len(self.inequalities))
        self.proxy_rates = np.zeros(len(self.map.counted))
        labels = [label for t in self.terms for label in t.rate_labels]
        # Several constraints may read the same rate; the trace shows it once.
        self.shown = [k for k, label in enumerate(labels) if label not in labels[:k]]
        self.rate_labels = tuple(labels[k] for k in self.shown)
        self.trace = Trace(self.rate_labels, self.inequalities)
        self.rows = RowPass(
            cells.codes, cells.labels, sample_weight, label_weights,
            *self.map.needs, proxy, threshold, n_threads, dtype,
        )  # fmt: skip

    def __call__(self, scores: FloatArray) -> tuple[Float32Array, Float32Array]:
        """One round of Algorithm 1 on the training scores; records it in the trace.

        Parameters
        ----------
        scores : (n,) float64
            Raw log-odds of the training rows.

        Returns
        -------
        gradient, hessian : (n,) float32
            Buffers that the next call overwrites.
        """
        sums = self._descend(scores)
        exact = self.map.exact(sums)
        violations = self._violations(exact)
        self.trace.append(
            loss=float(self.rows.loss_weight @ sums.loss) / self.cells.total_weight,
            rates=exact[self.shown],
            violations=violations,
            multipliers=self.dual.multipliers,
        )
        self.dual = multipliers.ascend(self.dual, violations, self.learning_rate)
        return self.rows.gradient, self.rows.hessian

    def close(self) -> None:
        """Let the threads go."""
        self.rows.close()

    def _descend(self, scores: FloatArray) -> CellSums:
        """Fill in the gradient of the proxy Lagrangian.

        Its coefficients depend on the proxy rates, which are known after the pass over the rows
        only. For parity and bounds they depend on little, on which group has the largest rate, and
        that often stays from one round to the next: so the pass is made with the rates of the last
        round, and its gradient is corrected if their coefficients turn out to differ.
        """
        coefficients = self._pullbacks(self.proxy_rates)
        sums = self.rows.evaluate(scores, *self.map.pull_back(coefficients))
        self.proxy_rates = self.map.proxy(sums)
        now = self._pullbacks(self.proxy_rates)
        if not np.array_equal(now, coefficients):
            on_rows = self.map.pull_back(now)
            if not self.rows.correct(*on_rows):
                sums = self.rows.evaluate(scores, *on_rows)
        return sums

    def _violations(self, rates: FloatArray) -> FloatArray:
        """Violations of all terms, evaluated on exact rates."""
        out = np.empty(len(self.inequalities))
        for t, r, d in zip(self.terms, self.rate_slices, self.dual_slices, strict=True):
            out[d] = t.constraint.violations(t.read(rates[r]))
        return out

    def _pullbacks(self, rates: FloatArray) -> FloatArray:
        """Coefficients on all rates, differentiated at proxy rates."""
        out = np.empty(len(rates))
        for t, r, d in zip(self.terms, self.rate_slices, self.dual_slices, strict=True):
            out[r] = t.constraint.pullback(t.read(rates[r]), self.dual.multipliers[d]).ravel()
        return out


def _slices(lengths: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *lengths]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number the repeats, so that two equal constraints keep a column each in the trace."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(out)
