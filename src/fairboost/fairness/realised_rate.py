"""What an operating point comes to on some rows: whether it can be had, and where it led."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairboost._typing import FloatArray
from fairboost.data.cells import Cells
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.constraints import Bound, Constraint
from fairboost.fairness.operating_points import OperatingPoint, probability_of

UNUSED = 0.1
"""Share of a target, or of its complement, that ties may take away."""


@dataclass(frozen=True)
class RealisedRate:
    """The rate that an operating point is about, as it came out on some rows.

    Parameters
    ----------
    point : OperatingPoint
        What was asked for.
    threshold : float
        The probability from which on decisions are positive.
    value : float
        The rate.
    rows : float
        As many rows of equal weight tell as much as those that count.
    """

    point: OperatingPoint
    threshold: float
    value: float
    rows: float

    @property
    def hits(self) -> bool:
        """Whether the rate is what was asked for, but for a row or two that ties take away."""
        target = self.point.target
        return abs(self.value - target) <= UNUSED * min(target, 1.0 - target) + 2.0 / self.rows


def realise(
    point: OperatingPoint, threshold: float, cells: Cells, positive: FloatArray
) -> RealisedRate:
    """Read the rate of everyone off the weight of positive decisions in each cell.

    Parameters
    ----------
    point : OperatingPoint
        What was asked for.
    threshold : float
        In log-odds.
    cells : Cells
        The rows.
    positive : (n_cells,) float64
        Weight of the rows that were decided positively.
    """
    counts = point.rate.counts(cells.labels)
    weight, squares = cells.weights[counts].sum(), cells.squares[counts].sum()
    value = min(float(positive[counts].sum() / weight), 1.0)
    return RealisedRate(point, probability_of(threshold), value, float(weight**2 / squares))


def check_resolution(point: OperatingPoint, cells: Cells, kind: str) -> None:
    """Refuse a target that is finer than the rows on which the threshold is placed.

    Parameters
    ----------
    point : OperatingPoint
        What was asked for.
    cells : Cells
        The rows.
    kind : {"none", "share", "cross", "set", "both"}
        How they are held out, for the message.
    """
    counts = point.rate.counts(cells.labels)
    weight, squares = cells.weights[counts].sum(), cells.squares[counts].sum()
    found = round(weight**2 / squares) if squares else 0  # as many of equal weight
    needed = point.rows_needed()
    if found >= needed:
        return
    remedy = {
        "share": "hold out a larger share, or use holdout='cross'",
        "set": "pass a larger holdout_set",
        "both": "pass a larger holdout_set",
    }.get(kind, "train on more rows")
    held_out = "held-out " if kind in ("share", "set", "both") else ""
    raise InvalidInputError(
        f"operating_point={point} is finer than {found:,} {held_out}{point.who_counts} can "
        f"resolve: it needs at least {needed:,}; {remedy}, or ask for a coarser target"
    )


def check_against(point: OperatingPoint, constraints: Sequence[Constraint], cells: Cells) -> None:
    """Refuse bounds on rates of everyone that no model can keep at the operating point."""
    share = float(cells.weights[cells.labels == 1].sum() / cells.total_weight)
    for constraint in constraints:
        if not isinstance(constraint, Bound) or constraint.group:
            continue
        rate = constraint.moment
        least = _least(point, rate.name, share)
        if least > constraint.at_most + 1e-9:
            raise ConstraintError(
                f"operating_point={point} contradicts bound({rate.name!r}, "
                f"at_most={constraint.at_most:g}): at that point the {rate.title} of everyone is "
                f"{least:.4g} or more, as {share:.3g} of the rows are positive; drop one of the "
                "two, or raise the bound"
            )


def _least(point: OperatingPoint, rate_name: str, share: float) -> float:
    """The least value that a rate of everyone can have at an operating point.

    Parameters
    ----------
    point : OperatingPoint
        What was asked for.
    rate_name : str
        The rate.
    share : float
        Share of the rows that are positive.
    """
    target, rest = point.target, 1.0 - share
    # Of the rows of each label, the least share that is decided positively, and negatively.
    negatives = positives = (0.0, 0.0)
    if point.rate_name == "fpr":
        negatives = (target, 1.0 - target)
    elif point.rate_name == "tpr":
        positives = (target, 1.0 - target)
    else:
        # The budget goes to the rows of one label first; what is left goes to the others.
        negatives = (max(target - share, 0.0) / rest, max(1.0 - target - share, 0.0) / rest)
        positives = (max(target - rest, 0.0) / share, max(1.0 - target - rest, 0.0) / share)
    if rate_name in ("ppr", "pnr"):
        side = 0 if rate_name == "ppr" else 1
        if point.rate_name == "ppr":
            return target if side == 0 else 1.0 - target
        return rest * negatives[side] + share * positives[side]
    by_name = {
        "fpr": negatives[0], "tnr": negatives[1], "tpr": positives[0], "fnr": positives[1],
    }  # fmt: skip
    return by_name.get(rate_name, 0.0)
