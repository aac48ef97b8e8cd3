"""Moments of what a model predicts for rows in partitions, a number or one of several classes.

Partitions are measured apart, each by the combinations of label and groups that it has, and their
sums are added up. Where distributions are compared, a sample of the scores of every partition says
before where the thresholds are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from fairboost._typing import FloatArray, IntArray, Matrix
from fairboost.cluster.collections import DaskRows, partitions
from fairboost.cluster.rows import (
    NumberRules,
    PartitionSummary,
    ReadPartition,
    merge,
    read_partition,
)
from fairboost.data.cells import Cells
from fairboost.data.validation import encode_known
from fairboost.engines.port import LossTerms
from fairboost.fairness.binding import leave_out_small
from fairboost.fairness.constraints import Constraint, columns_of
from fairboost.tasks.base import Cut, LearningTask, Measured
from fairboost.tasks.layout import Outcomes
from fairboost.tasks.regression import PLACED_ROWS, Regression, RegressionSummary
from fairboost.training.options import TrainingOptions
from fairboost.training.outcome import of_round
from fairboost.training.rows import plain_layout
from fairboost.training.targets import check_takes_exposure
from fairboost.verdicts.fairness_report import MeasuredRates

Score = Callable[[Matrix], FloatArray]
"""Features to scores, of numbers per unit of exposure."""


def measure_on_dask(
    rows: DaskRows,
    score: Score,
    options: TrainingOptions,
    constraints: Sequence[Constraint],
    terms: LossTerms,
    classes: np.ndarray | None = None,
    known: Mapping[str, Sequence[object]] = MappingProxyType({}),
) -> MeasuredRates:
    """Measure a model on test rows, where they lie.

    Parameters
    ----------
    rows : DaskRows
        The rows.
    score : callable
        The model.
    options : TrainingOptions
        What it was trained by.
    constraints : sequence of Constraint
        On columns that the rows have.
    terms : LossTerms
        The loss that it was trained on.
    classes : array, optional
        The labels, in rising order; None where a number is predicted.
    known : dict of str to sequence
        The groups of training, by column.
    """
    import dask
    from dask.delayed import delayed

    if terms.loss is not None and rows.exposure is not None:
        check_takes_exposure(terms.loss)
    used = {name for constraint in constraints for name in columns_of(constraint)}
    columns = [name for name in rows.columns if name in used]
    lazy = partitions(rows if columns else rows.without_groups())
    rules = None if terms.loss is None else NumberRules(terms.loss)
    read, once = delayed(read_partition, pure=False), delayed(score, pure=False)
    summarise = delayed(_summary, pure=False)
    told = dask.compute(*(summarise(read(*part, columns, rules)) for part in lazy))
    merged = merge(told, columns, classes, known=known)
    cells = leave_out_small(merged.cells, constraints, options.min_group_rows)
    nobody = None if rules is None else Outcomes(np.empty(0))
    game = options.game(plain_layout(cells, constraints, None, nobody), terms)
    cut = game.passes.start()
    if game.task.cut_moves:
        sample = delayed(_sample, pure=False)
        quota = max(PLACED_ROWS // len(lazy), 1)
        drawn = dask.compute(*(sample(read(*p, columns, rules), once, quota) for p in lazy))
        exposed = rows.exposure is not None
        cut = _placed(game.task, exposed, *np.concatenate(drawn, axis=1))
    measure = delayed(_measure, pure=False)
    parts = dask.compute(
        *(measure(read(*part, columns, rules), once, game.task, cut, classes) for part in lazy)
    )
    total = _added(parts, merged.numbers, len(cells), float(merged.exposures[0]))
    summary = game.passes.summary() if rules is None else _of_numbers(game.task, cells)
    found = game.judge(total, cut), game.layout.terms, summary
    return of_round(*found, where="test", note=cells.rows_without_group(), kind="set")


def _of_numbers(task: LearningTask, cells: Cells) -> RegressionSummary:
    """What is kept of rows that nobody has seen together."""
    return RegressionSummary(cells.without_rows(), np.nan, cast(Regression, task))


def _summary(part: ReadPartition) -> PartitionSummary:
    return part.summary


def _sample(part: ReadPartition, score: Score, most: int) -> FloatArray:
    """Run where a partition lies: some scores per unit of exposure, and how much they weigh."""
    n = len(part.combination)
    if not n:
        return np.empty((2, 0))
    step = 1 + n // most
    weight = part.weight(1.0)
    weights = np.ones(n) if weight is None else weight.astype(np.float64)
    # There and back: rounded as where they are measured, rows at a threshold stay above it.
    scores, offset = _scores(part, score)
    return np.array([(scores - offset)[::step], step * weights[::step]])


def _scores(part: ReadPartition, score: Score) -> tuple[FloatArray, FloatArray | float]:
    """Scores of the rows of a partition, and what exposures add to them."""
    exposure = None if part.outcomes is None else part.outcomes.exposure
    offset = 0.0 if exposure is None else np.log(exposure)
    return score(part.X) + offset, offset


def _placed(task: LearningTask, exposed: bool, scores: FloatArray, weight: FloatArray) -> Cut:
    """Where thresholds are among some scores per unit of exposure."""
    n = len(scores)
    alike = np.zeros(n, np.int8), np.zeros(1, np.int32)
    # An exposure says that scores are rounded: thresholds keep away from them by that much.
    outcomes = Outcomes(np.zeros(n), None, np.ones(n) if exposed else None)
    passes = _passes(task, *alike, outcomes, weight)
    return passes.place(scores, passes.start())


def _measure(
    part: ReadPartition, score: Score, task: LearningTask, cut: Cut, classes: np.ndarray | None
) -> Measured | None:
    """Run where a partition lies: sums by the combinations that it has."""
    if not len(part.combination):
        return None
    scores, _ = _scores(part, score)
    labels: IntArray = part.summary.combinations[:, 0].astype(np.int32)
    if classes is not None:
        labels = encode_known(part.summary.classes, classes, "y")[labels].astype(np.int32)
    passes = _passes(task, part.combination, labels, part.outcomes, part.weight(1.0))
    found: Measured = passes.measure(scores, cut)
    return found


def _passes(
    task: LearningTask, codes: IntArray, labels: IntArray, outcomes: Outcomes | None, weight: Any
) -> Any:
    """The task on some rows, of which nothing is known but sums; labels are those of cells."""
    n_cells = len(labels)
    counts = np.bincount(codes, minlength=n_cells).astype(np.float64)
    cells = Cells(codes, labels, {}, {}, counts, counts, counts)
    layout = plain_layout(cells, (), weight, outcomes)
    return task.on(layout, np.ones((task.n_quantities, n_cells), bool))


def _added(
    parts: Sequence[Measured | None], numbers: Sequence[IntArray], n_cells: int, unit: float
) -> Measured:
    """What all partitions have measured together, by the cells of all; exposures by a unit."""
    found = [(part, cell) for part, cell in zip(parts, numbers, strict=True) if part is not None]
    sums = np.zeros((len(found[0][0].sums), n_cells))
    for part, cell in found:
        sums += [np.bincount(cell, row, n_cells) for row in part.sums]
    return replace(found[0][0], sums=sums / unit, loss=float(sum(p.loss for p, _ in found)))
