"""Algorithm 1 of the paper: scores in, gradient and Hessian out.

The problem (paper, Eq. 1) is to minimise a loss L(f) subject to constraints c_k(f) <= 0 on group
rates. Its Lagrangian is ``L(f) + sum_k multiplier_k c_k(f)`` (Eq. 2). The c_k count rows on the wrong side
of a threshold, so they have no derivative; the model therefore descends on the *proxy* Lagrangian (Eq.
7), in which each rate's 0/1 events are replaced by a smooth step, while the multipliers ascend on the
exact one::

    round t, on the training scores f_{t-1}:
      (line 5)  gradient of row i of  L + sum_k multiplier_k proxy_c_k,   with the multipliers of t-1
      (line 6)  exact violations c_k(f_{t-1})
      (7, 8)    the engine fits a tree to the gradient and adds it to f
      (line 9)  multiplier_k <- max(0, multiplier_k + rate * c_k)

With n the weight of all rows, W_g that of the rows of group g that count, and d the direction of the
rate, the gradient handed to the engine is n times the derivative of the Lagrangian,

    w_i (p_i - y_i)  +  sum over rates that row i counts for:  (n / W_g) coef_g w_i d phi'(d (f_i - t))

with ``coef`` from the constraint's pullback at the proxy rates. The Hessian is the loss's own,
``w_i p_i (1 - p_i)``.

Departures from the paper are listed in ``docs/algorithm.md``; the one that shows here is that the derivative
of parity is exact for more than two groups (see :mod:`fairboost.constraints`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost import multipliers
from fairboost._kernel import CellSums, RowPasses
from fairboost._typing import BoolArray, Float32Array, FloatArray
from fairboost.cells import Cells, Groups
from fairboost.constraints import Constraint, GroupRates
from fairboost.exceptions import ConstraintError
from fairboost.proxies import Proxy
from fairboost.rates import Rate, as_rate, group_sums, sum_by_group
from fairboost.trace import Trace

__all__ = ["Lagrangian", "Term", "bind"]


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

    def exact_rates(self, cells: Cells, positive: FloatArray) -> GroupRates:
        """Rates to evaluate: shares of rows on a side of the threshold."""
        events = [
            group_sums(r, cells.labels, self.groups.of_cell, len(self.groups), cells.weights, positive)[0]
            for r in self.rates
        ]
        return GroupRates(np.stack(events) / self.counted, self.counted, self.groups.names)

    def proxy_rates(self, cells: Cells, sums: CellSums) -> GroupRates:
        """Rates to differentiate: means of the proxy."""
        events = [
            sum_by_group(
                r,
                cells.labels,
                self.groups.of_cell,
                len(self.groups),
                sums.up if r.direction > 0 else sums.down,
            )
            for r in self.rates
        ]
        return GroupRates(np.stack(events) / self.counted, self.counted, self.groups.names)

    def counts(self, cells: Cells, rate: Rate) -> BoolArray:
        """The cells that count towards some group's rate."""
        return rate.counts(cells.labels) & (self.groups.of_cell >= 0)

    def rate_label(self, rate: int, group: int) -> str:
        """Name of a rate of a group, for the trace."""
        return f"{self.rates[rate].name}[{self.groups.label(group)}]"


def bind(constraint: Constraint, cells: Cells) -> Term:
    """Bind a constraint to a data set; raises if the data cannot be held to it."""
    by = (constraint.by,) if isinstance(constraint.by, str) else constraint.by or ()
    groups = cells.groups_by(by)
    rates = tuple(as_rate(r) for r in constraint.rates)
    if by and len(groups) < 2:
        raise ConstraintError(
            f"the sensitive column {', '.join(by)!r} has one group only "
            f"({groups.label(0) if len(groups) else 'none'}); parity needs two or more. Drop the constraint, "
            "or pass the column that tells the groups apart"
        )
    counted = np.stack(
        [sum_by_group(r, cells.labels, groups.of_cell, len(groups), cells.weights) for r in rates]
    )
    _check_every_group_counts(rates, groups, counted)
    names = _inequality_names(constraint, rates, groups, counted)
    return Term(constraint, rates, groups, counted, names)


def _check_every_group_counts(
    rates: Sequence[Rate], groups: Groups, counted: FloatArray
) -> None:
    for k, rate in enumerate(rates):
        for g in np.flatnonzero(counted[k] <= 0):
            label = "" if rate.label is None else f" with y = {rate.label}"
            raise ConstraintError(
                f"group {groups.label(g)!r} has no rows{label}, so its {rate.title} is undefined; merge "
                f"the group with another, or drop the constraint on {rate.name}"
            )


def _inequality_names(
    constraint: Constraint, rates: Sequence[Rate], groups: Groups, counted: FloatArray
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
        self.inequalities = _distinct([name for t in self.terms for name in t.inequalities])
        self.dual = multipliers.start(len(self.inequalities))
        self.trace = Trace(self.rate_labels, self.inequalities)
        self.loss_weight = np.where(cells.labels == 1, label_weights[1], label_weights[0])
        self.rows = RowPasses(
            cells.codes, cells.labels, sample_weight, self.loss_weight,
            self._needs(+1), self._needs(-1), proxy, threshold, n_threads, dtype,
        )  # fmt: skip

    @property
    def rate_labels(self) -> tuple[str, ...]:
        """Names of all the rates that some constraint reads, each once."""
        labels = [
            t.rate_label(k, g)
            for t in self.terms
            for k in range(len(t.rates))
            for g in range(len(t.groups))
        ]
        return tuple(dict.fromkeys(labels))

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
        sums = self.rows.evaluate(scores)
        self.rows.add_constraints(*self._coefficients(sums))
        exact = [t.exact_rates(self.cells, sums.positive) for t in self.terms]
        violations = self._violations(exact)
        self.trace.append(
            loss=float(self.loss_weight @ sums.loss) / self.cells.total_weight,
            rates=self._rate_values(exact),
            violations=violations,
            multipliers=self.dual.multipliers,
        )
        self.dual = multipliers.ascend(self.dual, violations, self.learning_rate)
        return self.rows.gradient, self.rows.hessian

    def close(self) -> None:
        """Let the threads go."""
        self.rows.close()

    def _violations(self, rates: Sequence[GroupRates]) -> FloatArray:
        parts = [t.constraint.violations(r) for t, r in zip(self.terms, rates, strict=True)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _coefficients(self, sums: CellSums) -> tuple[FloatArray, FloatArray]:
        """Return what the constraints weigh on a row of each cell, in either direction."""
        on_up, on_down = np.zeros(len(self.cells)), np.zeros(len(self.cells))
        if not self.dual.multipliers.any():
            return on_up, on_down
        first = 0
        for t in self.terms:
            part = self.dual.multipliers[first : first + len(t.inequalities)]
            first += len(t.inequalities)
            coef = t.constraint.pullback(t.proxy_rates(self.cells, sums), part)
            per_row = self.cells.total_weight / t.counted * coef
            for rate, by_group in zip(t.rates, per_row, strict=True):
                counts = t.counts(self.cells, rate)
                target = on_up if rate.direction > 0 else on_down
                target[counts] += by_group[t.groups.of_cell[counts]]
        return on_up, on_down

    def _needs(self, direction: int) -> BoolArray:
        """Return the cells of which some rate reads the proxy in a direction."""
        out = np.zeros(len(self.cells), bool)
        for t in self.terms:
            for rate in t.rates:
                if rate.direction == direction:
                    out |= t.counts(self.cells, rate)
        return out

    def _rate_values(self, rates: Sequence[GroupRates]) -> FloatArray:
        """The values of ``rate_labels``."""
        values: dict[str, float] = {}
        for t, r in zip(self.terms, rates, strict=True):
            for k in range(len(t.rates)):
                for g in range(len(t.groups)):
                    values[t.rate_label(k, g)] = r.values[k, g]
        return np.fromiter(values.values(), np.float64, len(values))


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number the repeats, so that two equal constraints keep a column each in the trace."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(out)
