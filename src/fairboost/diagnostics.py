"""What a user has to be told about a fit: groups too small to judge, constraints not met."""

from __future__ import annotations

import warnings

import numpy as np

from fairboost.exceptions import NotMetWarning, SmallCellWarning
from fairboost.fairness_report import FairnessReport
from fairboost.lagrangian import Lagrangian
from fairboost.rates import counted_cells

__all__ = ["warn_if_not_met", "warn_of_small_cells"]

SMALL_CELL = 30
"""Fewer rows that count than this are named in a warning."""


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


def warn_if_not_met(report: FairnessReport) -> None:
    """Say which constraints are not met, and which cannot be judged."""
    for status, category in (
        ("not met", NotMetWarning),
        ("too few rows to tell", SmallCellWarning),
    ):
        found = [v for v in report.verdicts if v.status == status]
        if found:
            listed = "; ".join(f"{v.constraint}: {v}" for v in found)
            warnings.warn(
                f"{status}, {report.where}: {listed}. print(model.fairness_report_) says more",
                category,
                stacklevel=3,
            )
