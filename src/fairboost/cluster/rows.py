"""Rows in partitions: read, sorted into cells, split and counted where they lie.

No row leaves its worker. Three small things travel:

1. every partition is checked and tells which combinations of label and groups it has, and how many
   rows of each (:func:`read_partition`);
2. these are merged into the cells of all rows (:func:`merge`), and each partition learns the
   number of the cell of each of its combinations;
3. each partition marks the rows to hold out and tells their number and weight by cell
   (:func:`sort_partition`). The draw depends on the seed and the partition, not on the worker, and
   a partition knows how many rows of a cell come before it: all of them together hold out what one
   machine would, be there one row of a cell in a partition or a thousand.

Decisions on test rows are counted by cell in the same way (:func:`count_decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, Matrix
from fairboost.cluster.collections import partitions
from fairboost.data.cells import Cells, SensitiveColumn, build_cells, totals_by_cell
from fairboost.data.holdout import Shares
from fairboost.data.labels import positive_last
from fairboost.data.validation import (
    check_both_classes_weigh,
    check_groups,
    check_same_rows,
    check_two_classes,
    distinct_groups,
    distinct_labels,
    encode_known,
    named_columns,
    python_value,
    read_weights,
    sorted_order,
)
from fairboost.exceptions import InvalidInputError

MANY_GROUPS = 10_000
"""Groups that a partition may have even if they are almost as many as its rows."""


@dataclass(frozen=True)
class PartitionSummary:
    """What the others have to know of a partition.

    Parameters
    ----------
    fault : str
        What is wrong with it; empty if nothing is.
    classes : array
        The labels that occur.
    values : tuple of tuple
        The groups that occur, per sensitive column.
    combinations : (m, 1 + n_columns) int
        The combinations that occur: positions in ``classes`` and ``values``, -1 for missing.
    totals : (3, m) float64
        Rows of each, their weight and their squared weight.
    """

    fault: str
    classes: np.ndarray
    values: tuple[tuple[object, ...], ...]
    combinations: IntArray
    totals: FloatArray


@dataclass(frozen=True)
class ReadPartition:
    """A partition, checked.

    Parameters
    ----------
    X : Matrix
        The features, as they are.
    combination : (n,) int
        Of label and groups, of each row.
    sample_weight : (n,) float32, optional
        Weights.
    summary : PartitionSummary
        What the others have to know.
    """

    X: Matrix
    combination: IntArray
    sample_weight: Float32Array | None
    summary: PartitionSummary


@dataclass(frozen=True)
class SortedPartition:
    """A partition by the cells of all rows.

    Parameters
    ----------
    X : Matrix
        The features.
    codes : (n,) unsigned int
        Cell of each row.
    sample_weight : (n,) float32, optional
        Weights.
    held_out : (n,) bool, optional
        The rows held out.
    totals : (2, 3, n_cells) float64
        Of the rows trained on and of those held out: rows, weight and squared weight by cell.
    """

    X: Matrix
    codes: IntArray
    sample_weight: Float32Array | None
    held_out: BoolArray | None
    totals: FloatArray


@dataclass(frozen=True)
class MergedPartitions:
    """All partitions together.

    Parameters
    ----------
    classes : (2,) array
        The labels; the second is the positive one.
    cells : Cells
        Of all rows; without the code of each.
    numbers : list of (m,) int
        Per partition, the cell of each combination.
    counts : (n_partitions, n_cells) int64
        Rows by partition and cell.
    """

    classes: np.ndarray
    cells: Cells
    numbers: list[IntArray]
    counts: IntArray


def read_partition(
    X: Any, y: Any, sensitive: Any, weight: Any, columns: Sequence[str]
) -> ReadPartition:
    """Check a partition. Runs where it lies; what is wrong is told, not raised.

    Parameters
    ----------
    X, y, sensitive, weight : table, column, table or column, column
        Of the partition; the last two may be missing.
    columns : sequence of str
        The sensitive columns that are constrained.
    """
    try:
        return _read(X, y, sensitive, weight, columns)
    except (ValueError, TypeError) as error:  # all that checks of data raise
        nothing = np.empty((0, 1), np.int64)
        fault = PartitionSummary(str(error), np.empty(0), (), nothing, np.empty((3, 0)))
        return ReadPartition(None, np.empty(0, np.int64), None, fault)


def _read(X: Any, y: Any, sensitive: Any, weight: Any, columns: Sequence[str]) -> ReadPartition:
    n = len(X) if not hasattr(X, "shape") else int(X.shape[0])
    classes, labels = distinct_labels(y)
    if len(classes) > 2:
        check_two_classes(classes)
    _check_rows("y", len(labels), n)
    check_same_rows(X=X, y=y, sensitive_features=sensitive, sample_weight=weight)
    sensitive_columns = []
    found = dict(named_columns(sensitive)) if columns else {}
    for name in columns:
        codes, groups = distinct_groups(name, found[name])
        _check_rows(f"sensitive_features ({name})", len(codes), n)
        if (codes >= 0).any():
            check_groups(name, len(groups), int((codes >= 0).sum()), MANY_GROUPS)
        sensitive_columns.append(SensitiveColumn(name, codes, tuple(map(python_value, groups))))
    weights = read_weights(weight, n, part=True)
    single = None if weights is None else weights.astype(np.float32)
    cells = build_cells(labels, sensitive_columns, single)
    # A label that does not occur has a cell too where there are no columns to cross it with.
    present = cells.counts > 0
    keys = np.stack([cells.labels, *cells.groups.values()], axis=1)[present]
    renumber = (np.cumsum(present) - 1).clip(0).astype(cells.codes.dtype)
    totals = np.stack([cells.counts, cells.weights, cells.squares])[:, present]
    summary = PartitionSummary("", classes, tuple(cells.values.values()), keys, totals)
    return ReadPartition(X, renumber[cells.codes], single, summary)


def _check_rows(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{what} has {found} rows, expected the {expected} of X; take both from one Dask "
            "DataFrame"
        )


def merge(
    summaries: Sequence[PartitionSummary],
    columns: Sequence[str],
    classes: np.ndarray | None = None,
    pos_label: object = None,
) -> MergedPartitions:
    """Bring the cells of all partitions together; raises what is wrong with any of them.

    Parameters
    ----------
    summaries : sequence of PartitionSummary
        In the order of partitions.
    columns : sequence of str
        Names of the sensitive columns.
    classes : (2,) array, optional
        The negative and the positive label, where they are known.
    pos_label : label, optional
        The positive label, where they are not.
    """
    _check_faults(summaries)
    known = classes is not None
    if classes is None:
        classes = positive_last(_merge_labels(summaries), pos_label)
    else:
        _check_known(classes, summaries)
    rows, weights, _ = np.concatenate([s.totals for s in summaries], axis=1)
    position = [(s.classes == classes[1]).astype(np.int32) for s in summaries]
    labels = _recoded(position, summaries, 0)
    if not known:
        check_both_classes_weigh(classes, labels, weights)
    sensitive = []
    for k, name in enumerate(columns):
        distinct = dict.fromkeys(value for s in summaries for value in s.values[k])
        found = np.fromiter(distinct, object, len(distinct))
        values = found[sorted_order(found)].tolist()  # in the order that one machine has them in
        order = {value: code for code, value in enumerate(values)}
        position = [np.array([*(order[v] for v in s.values[k]), -1], np.int32) for s in summaries]
        codes = _recoded(position, summaries, 1 + k)
        check_groups(name, len(values), int(rows[codes >= 0].sum()))
        sensitive.append(SensitiveColumn(name, codes, tuple(values)))
    cells = build_cells(labels, sensitive)
    numbers = np.split(cells.codes, np.cumsum([len(s.combinations) for s in summaries])[:-1])
    pairs = zip(summaries, numbers, strict=True)
    table = np.array([[np.bincount(cell, t, len(cells)) for t in s.totals] for s, cell in pairs])
    cells = cells.with_totals(table.sum(axis=0), cells.codes[:0])
    return MergedPartitions(classes, cells, numbers, table[:, 0].astype(np.int64))


def _recoded(
    codes: Sequence[IntArray], summaries: Sequence[PartitionSummary], column: int
) -> IntArray:
    """A column of the combinations of all partitions, each by codes that all have in common."""
    pairs = zip(codes, summaries, strict=True)
    return np.concatenate([common[s.combinations[:, column]] for common, s in pairs])


def _check_faults(summaries: Sequence[PartitionSummary]) -> None:
    faults = [(k, s.fault) for k, s in enumerate(summaries) if s.fault]
    if faults:
        first, text = faults[0]
        others = f" (and {len(faults) - 1} other partitions are wrong)" if len(faults) > 1 else ""
        raise InvalidInputError(f"partition {first} of {len(summaries)}: {text}{others}")


def _check_known(classes: np.ndarray, summaries: Sequence[PartitionSummary]) -> None:
    for k, s in enumerate(summaries):
        try:
            encode_known(s.classes, classes, "y")
        except InvalidInputError as error:
            raise InvalidInputError(f"partition {k} of {len(summaries)}: {error}") from error


def _merge_labels(summaries: Sequence[PartitionSummary]) -> np.ndarray:
    """The labels of all partitions."""
    found = [s.classes for s in summaries if len(s.classes)]
    if not found:
        raise InvalidInputError("X has no rows in any partition; pass some")
    classes = np.unique(np.concatenate(found))
    try:
        check_two_classes(classes)
    except InvalidInputError as error:
        if len(classes) < 2:
            raise
        # The partition to look at is one of those with a label that few have.
        having = [[k for k, s in enumerate(summaries) if c in s.classes] for c in classes]
        rare = min(range(len(classes)), key=lambda c: len(having[c]))
        raise InvalidInputError(
            f"partition {having[rare][0]} of {len(summaries)} has the label "
            f"{python_value(classes[rare])!r}: {error}"
        ) from error
    return classes


def sort_partition(
    part: ReadPartition,
    numbers: IntArray,
    n_cells: int,
    shares: Shares | None,
    before: IntArray,
    seed: Sequence[int],
) -> SortedPartition:
    """Sort a partition into the cells of all rows, and mark the rows to hold out.

    Parameters
    ----------
    part : ReadPartition
        The partition.
    numbers : (m,) int
        Cell of each of its combinations.
    n_cells : int
        Number of cells.
    shares : Shares, optional
        What to hold out of each cell; nothing without it.
    before : (n_cells,) int
        Rows of each cell in earlier partitions.
    seed : sequence of int
        Of the draw, with the number of the partition in it.
    """
    codes = numbers.astype(np.min_scalar_type(n_cells - 1))[part.combination]
    held = None if shares is None else shares.mark(codes, np.random.default_rng(seed), before)
    seen, weight = np.zeros(len(codes), bool) if held is None else held, part.sample_weight
    totals = [
        totals_by_cell(codes[rows], n_cells, None if weight is None else weight[rows])
        for rows in (~seen, seen)
    ]
    return SortedPartition(part.X, codes, weight, held, np.array(totals))


def count_decisions(
    decide: Callable[[Matrix], FloatArray],
    rows: Sequence[Any],
    columns: Sequence[str],
    classes: np.ndarray,
) -> tuple[Cells, FloatArray]:
    """Sort rows into cells, and count positive decisions in each.

    Parameters
    ----------
    decide : callable
        Features to scores, not negative where the decision is positive.
    rows : sequence of Dask collections
        Features, labels, sensitive columns and weights, which may be missing.
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

    X, y, sensitive_features, sample_weight = rows
    once, count = delayed(decide, pure=False), delayed(_count, pure=False)
    lazy = partitions(X, y, sensitive_features if columns else None, sample_weight)
    found = dask.compute(*(count(once, *part, list(columns)) for part in lazy))
    merged = merge([summary for summary, _ in found], columns, classes)
    numbers, events = np.concatenate(merged.numbers), np.concatenate([e for _, e in found])
    return merged.cells, np.bincount(numbers, events, len(merged.cells)).astype(np.float64)


def _count(
    decide: Callable[[Matrix], FloatArray], X: Any, *rest: Any
) -> tuple[PartitionSummary, FloatArray]:
    """Run where a partition lies: the weight of positive decisions by its combinations."""
    part = read_partition(X, *rest)
    n = len(part.summary.combinations)
    if part.summary.fault or not n:
        return part.summary, np.zeros(n)
    positive = decide(X) >= 0
    weight = positive if part.sample_weight is None else positive * part.sample_weight
    return part.summary, np.bincount(part.combination, weight, n).astype(np.float64)
