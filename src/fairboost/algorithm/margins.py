"""What is known about inequalities beforehand: units of their multipliers, and sampling errors.

Both follow from the derivative J of each violation by each rate:

* trees answer to the weight that a multiplier puts on a *row*, the largest of ``|J| n / W``, and
  the same change of scores moves a rate in proportion to the deviation of a single event,
  ``sqrt(R (1 - R))``, or less. The unit of a multiplier is one over both;
* a violation read on few rows is off by ``sqrt(sum J^2 R (1 - R) / rows)``, as groups are drawn
  independently. Training aims inside the limit by a part of that, or, where the user asks for a
  confidence, by so much that the violation holds on all people at that confidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from fairboost._typing import FloatArray
from fairboost.fairness.binding import Term
from fairboost.fairness.constraints import Bound
from fairboost.fairness.two_sided import TwoSided

CAUTION = 0.5
"""Standard errors to stay inside the limit by where no confidence is asked for: the iterate is
chosen on the same rows, and looks a little better on them than on others."""

WOBBLE = 0.004
"""What to stay inside by at least, as rates move a little from one round to the next."""

RAREST = 0.002
"""Rates rarer than this are taken for this rare when the step of a multiplier is scaled."""


class Sampling:
    """Units and sampling errors of the inequalities of some terms.

    Parameters
    ----------
    per_row : (n_all_rates,) float64
        What a coefficient of 1 on each rate weighs on one of its rows, in training.
    terms : sequence of Term
        The constraints, bound to the rows on which rates are read.
    confidence : float, optional
        That the user asked for.
    """

    def __init__(
        self, per_row: FloatArray, terms: Sequence[Term], confidence: float | None
    ) -> None:
        self.per_row, self.terms = per_row, terms
        self.rows = np.concatenate([t.rows.ravel() for t in terms] or [np.empty(0)])
        counts = [len(t.inequalities) for t in terms]
        slack = [float(getattr(t.constraint, "slack", np.inf)) for t in terms]
        self.slack = np.repeat(slack, counts)
        # Half a point is much to a bound of one percent.
        bounds = [float(getattr(t.constraint, "at_most", np.inf)) for t in terms]
        self.wobble = np.repeat([min(WOBBLE, b / 4) for b in bounds], counts)
        self.z = np.full(sum(counts), CAUTION)
        if confidence is not None:  # for all inequalities of a constraint at once (Bonferroni)
            self.z = np.repeat([-ndtri((1 - confidence) / k) for k in counts], counts)
        # Others may have another derivative at other rates.
        self.linear = all(isinstance(t.constraint, TwoSided | Bound) for t in terms)
        self._set_derivative(np.full(len(self.rows), 0.5))

    def look(self, rates: FloatArray) -> None:
        """Take the derivative at the rates of a round, where it depends on them."""
        if not self.linear:
            self._set_derivative(rates)

    def errors(self, rates: FloatArray) -> FloatArray:
        """Standard error of each violation on the rows seen."""
        # A rate of 0 or 1 seen on few rows has an error too: as if half a row had differed.
        low = 0.5 / (self.rows + 1.0)
        rates = np.clip(rates, low, 1.0 - low)
        out: FloatArray = np.sqrt(self.squares @ (rates * (1.0 - rates) / self.rows))
        return np.maximum(out, np.finfo(float).tiny)

    def margin(self, errors: FloatArray) -> FloatArray:
        """What to stay below a limit by, at most all the way to parity."""
        out: FloatArray = np.minimum(np.maximum(self.z * errors, self.wobble), self.slack)
        return out

    def units(self, rates: FloatArray) -> FloatArray:
        """Unit of each multiplier: weight on rows per violation."""
        size = self.shares @ (2.0 * np.sqrt(rates * (1.0 - rates)))
        out: FloatArray = self.row_units / np.maximum(size, 2.0 * np.sqrt(RAREST))
        return out

    def _set_derivative(self, rates: FloatArray) -> None:
        J = np.zeros((len(self.z), len(self.rows)))
        row = column = 0
        for t in self.terms:
            block = t.jacobian(rates[column : column + t.counted.size])
            size = np.abs(block)
            # At parity the derivative of a constraint on distances is 0: any direction will do.
            block[size.max(axis=1) < 1e-6] = 1.0
            J[row : row + block.shape[0], column : column + block.shape[1]] = block
            row, column = row + block.shape[0], column + block.shape[1]
        size = np.abs(J)
        self.squares = J**2
        self.row_units = 1.0 / (size * self.per_row).max(axis=1, initial=0.0, where=size > 0)
        self.shares = size / size.sum(axis=1, keepdims=True)
