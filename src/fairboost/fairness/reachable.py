"""Whether any decisions at all can meet some constraints on rates: said before training.

Rates are linear in the shares of positive decisions by cell (label x group), and so are bounds,
floors, ratios and differences in the rates. Whether there are such shares is a linear program with
one variable for each cell. Where it has no solution, no model can meet the constraints on these
rows, however good it is. An operating point fixes a rate of everyone, to within a row: one more
line of the program. Where there is a solution the constraints may still be out of reach: a model
that is always right meets most of them, and how right a model can be is not known before training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from fairboost._typing import FloatArray
from fairboost.data.cells import Cells
from fairboost.exceptions import ConstraintError
from fairboost.fairness.binding import MomentMap, Term, slices
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import Rate

MOST_CELLS = 5_000
"""Cells of rows up to which the program is solved: it takes less than a second."""


def check_reachable(terms: Sequence[Term], cells: Cells, decision: Any = None) -> None:
    """Refuse floors that no decisions on the rows can meet together with the other constraints.

    Parameters
    ----------
    terms : sequence of Term
        The constraints, bound to the rows.
    cells : Cells
        The rows.
    decision : float or OperatingPoint, optional
        Where decisions are made. A probability says nothing of rates before training.
    """
    # Of others nothing is known here; without them the program asks for less, not for more.
    terms = [t for t in terms if all(isinstance(m, Rate) and m.quantity < 2 for m in t.moments)]
    floors = [t for t in terms if t.constraint.judged == "least rate"]
    if not floors or cells.shared or len(cells) > MOST_CELLS:
        return
    point = decision if isinstance(decision, OperatingPoint) else None
    if is_reachable(terms, cells, point):
        return
    # The operating point is named where it is part of the contradiction.
    named = point if point is not None and is_reachable(terms, cells) else None
    alone = [t for t in floors if not is_reachable([t], cells, named)]
    asked = list(dict.fromkeys(t.constraint.in_short(t.by) for t in alone or terms))
    remedy = "lower a floor, raise a bound, or leave one of the constraints out"
    if named is not None:
        asked.append(f"operating_point={named}")
        remedy = "lower a floor, or choose another operating point"
    raise ConstraintError(
        "no decisions on these rows meet all of the constraints at once: "
        f"{'; '.join(asked)}. This follows from the numbers of rows in the groups alone, whatever "
        f"the model; {remedy}"
    )


def is_reachable(terms: Sequence[Term], cells: Cells, point: OperatingPoint | None = None) -> bool:
    """Whether shares of positive decisions by cell meet the constraints that are known here."""
    matrix, base = _rates(terms, cells)
    above: list[FloatArray] = []
    most: list[FloatArray] = []
    extra = 0
    if point is not None:
        lines, limits = _at_point(point, cells)
        above.append(lines)
        most.append(limits)
    for term, part in zip(terms, slices([t.counted.size for t in terms]), strict=True):
        for on_rates, on_level, limit in _inequalities(term):
            lines = on_rates @ matrix[part]
            level = np.zeros((len(lines), extra + (on_level is not None)))
            if on_level is not None:
                level[:, -1], extra = on_level, extra + 1
            above.append(np.hstack([lines, level]))
            most.append(limit - on_rates @ base[part])
    width = matrix.shape[1] + extra
    padded = [np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in above]
    if not padded:
        return True
    bounds = [(0.0, 1.0)] * matrix.shape[1] + [(0.0, 2.0)] * extra
    found = linprog(
        np.zeros(width), np.vstack(padded), np.concatenate(most), bounds=bounds, method="highs"
    )
    return bool(found.status != 2)  # 2: there is no solution


def _at_point(point: OperatingPoint, cells: Cells) -> tuple[FloatArray, FloatArray]:
    """The rate of everyone is its target, but for the row at which it crosses the target."""
    counted = point.rate.counts(cells.labels)
    weight = cells.weights * counted
    line = weight / weight.sum()
    one_row = cells.squares[counted].sum() / weight.sum() ** 2
    limits = np.array([point.target, -point.target]) + one_row
    return np.vstack([line, -line]), limits


def _rates(terms: Sequence[Term], cells: Cells) -> tuple[FloatArray, FloatArray]:
    """Rates as ``matrix @ shares + base``, with the share of positive decisions of each cell."""
    mapped = MomentMap(cells, terms, 2)
    full = mapped.matrix if isinstance(mapped.matrix, np.ndarray) else mapped.matrix.toarray()
    positive, negative = np.split(full * np.tile(cells.weights, 2), 2, axis=1)
    counted = mapped.counted[:, np.newaxis]
    return (positive - negative) / counted, negative.sum(axis=1) / mapped.counted


def _inequalities(term: Term) -> Sequence[tuple[FloatArray, FloatArray | None, FloatArray]]:
    """The constraint as ``A rates + b level <= limit``; the level is a variable of its own."""
    c, n = term.constraint, len(term.groups)
    spread = c.spread()
    if spread is None:
        # Of what is not affine nothing is known here, and errors to be made small have no limit.
        if not c.affine or c.traits.simplex is not None:
            return []
        A = term.lines.A.dense()
        return [(A, None, np.broadcast_to(term.lines.b, len(A)))]
    share, tolerance = spread
    each, out = np.eye(n), []
    for part in term.read(np.zeros(n)).parts():
        own = each[part]
        k = len(own)
        # Rates are at most the level; and at least the ratio times it, or the tolerance below.
        on_level = np.concatenate([np.full(k, -1.0), np.full(k, share)])
        limit = np.concatenate([np.zeros(k), np.full(k, tolerance)])
        out.append((np.vstack([own, -own]), on_level, limit))
    return out
