"""What a user has to be told about a fit: groups too small to judge, constraints not met."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from fairboost.data.cells import Cells
from fairboost.exceptions import FairnessWarning, NotMetWarning, SmallCellWarning
from fairboost.fairness.binding import Term
from fairboost.fairness.rates import counted_cells
from fairboost.fairness.realised_rate import RealisedRate
from fairboost.verdicts.fairness_report import FairnessReport

FEW = 10
"""Rows beyond a threshold; if it was placed by fewer, a warning says so."""

SMALL_CELL = 30
"""Fewer rows that count than this are named in a warning."""


def warn_of_small_cells(terms: Sequence[Term], cells: Cells) -> None:
    """Name the groups with few rows that count towards a constrained rate."""
    small = []
    for t in terms:
        for rate in t.moments:
            counted, groups = counted_cells(rate, cells.labels, t.groups.of_cell)
            rows = np.bincount(groups, cells.counts[counted], len(t.groups))
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
    categories = {"not met": NotMetWarning, "too few rows to tell": SmallCellWarning}
    for status, category in categories.items():
        found = [v for v in report.verdicts if v.status == status]
        if found:
            listed = "; ".join(f"{v.constraint}: {v}" for v in found)
            warnings.warn(
                f"{status}, {report.where}: {listed}. print(model.fairness_report_) says more",
                category,
                stacklevel=3,
            )


def warn_if_beside_the_point(realised: RealisedRate | None) -> None:
    """Say where an operating point could not be had, or was placed on very few rows."""
    if realised is None:
        return
    point, title = realised.point, realised.point.rate.title
    if not realised.hits:
        warnings.warn(
            f"not met, held out: {point}: the {title} of everyone is {realised.value:.4f}. Rows "
            "of equal score are decided alike, and too many have the same; train more trees, or "
            "decide at another point",
            NotMetWarning,
            stacklevel=3,
        )
    elif realised.rows < FEW * point.rows_needed():
        warnings.warn(
            f"too few rows to tell, held out: {point} was placed on {realised.rows:,.0f} "
            f"{point.who_counts}, some {realised.rows / point.rows_needed():.0f} of them beyond "
            "the threshold; on new people the rate may well be another by a third or more",
            SmallCellWarning,
            stacklevel=3,
        )


def warn_of_overshooting(lowest_loss: float, untrained_loss: float) -> None:
    """Say that no round predicts probabilities as well as no model does.

    Parameters
    ----------
    lowest_loss : float
        Of all rounds, on the rows that rates are read on.
    untrained_loss : float
        That of a model that gives everyone the same probability.
    """
    warnings.warn(
        f"the engine's steps are too large: the lowest loss of all rounds is {lowest_loss:.4g}, "
        f"above the {untrained_loss:.4g} of giving everyone the same probability. Decisions tell "
        "people apart, and the round to keep was chosen by them, but probabilities are worth "
        "nothing; lower the learning rate, or let leaves have more rows",
        FairnessWarning,
        stacklevel=5,
    )
