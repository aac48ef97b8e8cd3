"""Rates on test rows in Dask collections: read where the rows are, and added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, Matrix
from fairboost.cluster.collections import partitions
from fairboost.cluster.rows import Summary, merge, read_part
from fairboost.data.cells import Cells


def tally(
    decide: Callable[[Matrix], FloatArray],
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    columns: Sequence[str],
    classes: np.ndarray,
) -> tuple[Cells, FloatArray]:
    """Sort rows into cells, and count positive decisions in each.

    Parameters
    ----------
    decide : callable
        Features to scores, not negative where the decision is positive.
    X, y, sensitive_features, sample_weight : Dask collections
        The rows; weights may be missing.
    columns : sequence of str
        The sensitive columns to go by.
    classes : (2,) array
        The labels.

    Returns
    -------
    cells, positive : Cells, (n_cells,) float64
        All rows, without the cell of each, and the weight of positive decisions by cell.
    """
    import dask
    from dask.delayed import delayed

    once = delayed(decide, pure=False)
    count = delayed(_count, pure=False)
    lazy = partitions(X, y, sensitive_features if columns else None, sample_weight)
    found = dask.compute(*(count(once, *part, list(columns)) for part in lazy))
    layout = merge([summary for summary, _ in found], columns, classes)
    positive = np.zeros(len(layout.cells))
    for numbers, (_, events) in zip(layout.numbers, found, strict=True):
        np.add.at(positive, numbers, events)
    return layout.cells, positive


def _count(
    decide: Callable[[Matrix], FloatArray],
    X: Any,
    y: Any,
    sensitive: Any,
    weight: Any,
    columns: Sequence[str],
) -> tuple[Summary, FloatArray]:
    """Run where a partition lies."""
    part = read_part(X, y, sensitive, weight, columns)
    n = len(part.summary.combinations)
    if part.summary.fault or not n:
        return part.summary, np.zeros(n)
    positive = (decide(X) >= 0).astype(np.float64)
    if part.sample_weight is not None:
        positive *= part.sample_weight
    return part.summary, np.bincount(part.combination, positive, n).astype(np.float64)
