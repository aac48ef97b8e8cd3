"""Which numbers can be learned: targets under a loss, and under constraints.

What has to be known of all rows is few figures, which partitions of them can be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fairboost._typing import FloatArray
from fairboost.data.cells import Cells, build_cells
from fairboost.data.validation import CheckedRows
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.constraints import columns_of
from fairboost.kernel.losses import Loss

LARGEST = float(np.finfo(np.float32).max)


def check_takes_exposure(loss: Loss) -> None:
    """Refuse exposures where the loss has no log link."""
    if not loss.log_link:
        raise InvalidInputError(
            f"exposure multiplies predictions, which takes a log link, and the loss is "
            f"{loss.name}; use objective='poisson', 'gamma' or 'tweedie', or leave exposure "
            "out"
        )


def check_both_exposed(ours: bool, theirs: bool) -> None:
    """Refuse exposures of the rows trained on without those of the rows held out, or the other."""
    if ours != theirs:
        with_it, without = ("fit", "holdout_set") if ours else ("holdout_set", "fit")
        raise InvalidInputError(
            f"{with_it} has an exposure and {without} has none, so their rows cannot be compared; "
            "pass it for both: exposure=..., and (X, y, sensitive_features, None, exposure)"
        )


def check_range(loss: Loss, targets: FloatArray, what: str) -> None:
    """Refuse targets of which a loss has no value, or engines no number."""
    positive = loss.name == "gamma"
    wrong = targets <= 0 if positive else targets < loss.least_target
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(
            f"{what} must be {'above 0' if positive else '0 or more'} under a {loss.name} loss, "
            f"found {targets[row]:g} in row {row}; leave such rows out, or use a squared loss"
        )
    if (large := np.abs(targets) > LARGEST).any():
        row = int(np.argmax(large))
        raise InvalidInputError(
            f"{what} must be finite in single precision, as engines keep it, found "
            f"{targets[row]:g} in row {row}; divide it by a constant"
        )


@dataclass(frozen=True)
class TargetFigures:
    """What has to be known of the targets of all rows.

    Parameters
    ----------
    least, most : float
        Of what was actual, per unit of exposure, in rows that have a weight.
    cells : Cells
        The rows by the groups that are constrained; counts alone are looked at.
    sums : (2, n_cells) float64
        Sums of the targets and of their squares, by cell.
    """

    least: float
    most: float
    cells: Cells
    sums: FloatArray


def figures_of(data: CheckedRows, columns: Sequence[str]) -> TargetFigures:
    """The figures of rows, by the sensitive columns that are constrained."""
    y = data.targets
    assert y is not None
    actual = y if data.exposure is None else y / data.exposure
    actual = actual if data.sample_weight is None else actual[data.sample_weight > 0]
    cells = build_cells(data.labels, [c for c in data.columns if c.name in columns])
    sums = [np.bincount(cells.codes, values, len(cells)) for values in (y, np.square(y))]
    return TargetFigures(float(actual.min()), float(actual.max()), cells, np.array(sums))


def check_targets(found: TargetFigures, constraints: Sequence[GroupConstraint]) -> None:
    """Refuse targets and tolerances of which nothing could come."""
    width = found.most - found.least
    if width == 0:
        raise InvalidInputError(
            f"y is {found.least:g} in every row that has a weight, so there is nothing to "
            "learn; check the column"
        )
    for c in constraints:
        if c.judged == "actual over expected":
            _check_ratios(found, columns_of(c), cast(Any, c).within)
        limit, in_its_unit = c.tolerated, c.judged == "gap" and c.name == "prediction"
        if in_its_unit and not c.relative and limit > width:
            raise InvalidInputError(
                f"tolerance={limit:g} is larger than the range of y, {width:g}, so it asks "
                "for nothing; it has the unit of the prediction. For a share of the mean "
                "write parity('prediction', 0.02, relative=True)"
            )


def _check_ratios(found: TargetFigures, columns: Sequence[str], within: int | None) -> None:
    """Refuse to compare actual with expected where targets of both signs nearly cancel out."""
    if found.least >= 0 or found.most <= 0:
        return
    if within is not None:
        raise InvalidInputError(
            f"calibrated(within={within}) divides by the predictions in each part, which are "
            "about 0 in some of them where y has both signs; leave within out, or use a target "
            "without negative numbers"
        )
    for column in columns:
        codes, values = found.cells.groups[column], found.cells.values[column]
        known = codes >= 0
        rows, total, squares = (
            np.bincount(codes[known], each[known], len(values))
            for each in (found.cells.counts, *found.sums)
        )
        for value, n, y, y2 in zip(values, rows, total, squares, strict=True):
            if n and abs(y / n) < 2.0 * np.sqrt(max(y2 / n - (y / n) ** 2, 0.0) / n):
                raise InvalidInputError(
                    f"'calibrated' divides by the mean prediction, and in group "
                    f"{column}={value} y is {y / n:g} on average, which "
                    "cannot be distinguished from 0; use parity('prediction', ...), or a target "
                    "without negative numbers"
                )
