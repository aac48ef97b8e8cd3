"""What a user has to be told about a fit: groups too small to judge, constraints not met."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from fairboost.exceptions import NotMetWarning, SmallCellWarning
from fairboost.lagrangian import Lagrangian
from fairboost.rates import counted_cells

__all__ = ["warn_if_not_met", "warn_of_small_cells"]

SMALL_CELL = 30
"""Fewer rows that count than this are named in a warning."""

SLACK = 0.02
"""Violations wobble by a point or so from round to round; less is not worth a warning."""


def warn_of_small_cells(lagrangian: Lagrangian) -> None:
    """Name the groups with few rows that count towards a constrained rate."""
    small = []
    for t in lagrangian.terms:
        for rate in t.rates:
            cells, groups = counted_cells(rate, lagrangian.cells.labels, t.groups.of_cell)
            rows = np.bincount(groups, lagrangian.cells.counts[cells], len(t.groups))
            for g in np.flatnonzero(rows < SMALL_CELL).tolist():
                small.append(f"{t.groups.label(g)} ({int(rows[g])} rows for {rate.name})")
    if small:
        warnings.warn(
            f"fewer than {SMALL_CELL} rows count towards a constrained rate of: "
            f"{'; '.join(dict.fromkeys(small))}. Their rates are mostly noise; merge small groups "
            "or expect the constraint not to hold on new data",
            SmallCellWarning,
            stacklevel=4,
        )


def warn_if_not_met(trace: pd.DataFrame) -> None:
    """Say which constraints are still broken on the training rows as training ends."""
    violations = trace.filter(regex="^violation: ")
    last_tenth = violations.tail(max(1, len(trace) // 10))
    # A constraint alternates around its limit, so its mean over the last rounds tells.
    broken = last_tenth.mean()[lambda mean: mean > SLACK].sort_values(ascending=False)
    if len(broken):
        listed = ", ".join(
            f"{str(name).removeprefix('violation: ')} by {value:.3f}"
            for name, value in broken.items()
        )
        warnings.warn(
            f"constraints not met on the training rows after {len(trace)} rounds: {listed} beyond "
            "the tolerance. Train more rounds, raise multiplier_learning_rate, loosen the "
            "tolerance, or try proxy='sigmoid' (for demographic parity above all)",
            NotMetWarning,
            stacklevel=3,
        )
