"""Rows in partitions: read, sorted into cells and split where they lie.

No row leaves its worker. Three small things travel:

1. every partition is checked and tells which combinations of label and groups it has, and how many
   rows of each (:func:`read_part`, :func:`summarise`);
2. these are merged into the cells of all rows (:func:`merge`), and each partition learns the
   number of the cell of each of its combinations;
3. each partition marks the rows to hold out and tells their number and weight by cell
   (:func:`sort_part`). The draw depends on the seed and the partition, not on the worker, and a
   partition knows how many rows of a cell come before it: all of them together hold out what one
   machine would, be there one row of a cell in a partition or a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, Matrix
from fairboost.data.holdout import Shares
from fairboost.data.cells import Cells, SensitiveColumn, build_cells
from fairboost.data.validation import (
    check_both_classes_weigh,
    check_groups,
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
class Summary:
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
class Part:
    """A partition, checked.

    Parameters
    ----------
    X : Matrix
        The features, as they are.
    combination : (n,) int
        Of label and groups, of each row.
    sample_weight : (n,) float32, optional
        Weights.
    summary : Summary
        What the others have to know.
    """

    X: Matrix
    combination: IntArray
    sample_weight: Float32Array | None
    summary: Summary


@dataclass(frozen=True)
class Sorted:
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
class Layout:
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

    def before(self, partition: int) -> IntArray:
        """Rows of each cell in the partitions before one."""
        rows: IntArray = self.counts[:partition].sum(axis=0)
        return rows


def read_part(X: Any, y: Any, sensitive: Any, weight: Any, columns: Sequence[str]) -> Part:
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
        fault = Summary(str(error), np.empty(0), (), nothing, np.empty((3, 0)))
        return Part(None, np.empty(0, np.int64), None, fault)


def summarise(part: Part) -> Summary:
    """What the others have to know of a partition."""
    return part.summary


def _read(X: Any, y: Any, sensitive: Any, weight: Any, columns: Sequence[str]) -> Part:
    n = len(X) if not hasattr(X, "shape") else int(X.shape[0])
    classes, labels = distinct_labels(y)
    if len(classes) > 2:
        check_two_classes(classes)
    _check_rows("y", len(labels), n)
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
    values = tuple(c.values for c in sensitive_columns)
    summary = Summary("", classes, values, keys, totals)
    return Part(X, renumber[cells.codes], single, summary)


def _check_rows(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{what} has {found} rows, expected the {expected} of X; take both from one Dask "
            "DataFrame"
        )


def _totals(codes: IntArray, n: int, weight: Float32Array | None) -> FloatArray:
    """Rows, weight and squared weight by code."""
    counts = np.bincount(codes, minlength=n).astype(np.float64)
    if weight is None:
        return np.stack([counts, counts, counts])
    double = weight.astype(np.float64)
    return np.stack([counts, *(np.bincount(codes, w, n) for w in (double, double**2))])


def merge(
    summaries: Sequence[Summary], columns: Sequence[str], classes: np.ndarray | None = None
) -> Layout:
    """Bring the cells of all partitions together; raises what is wrong with any of them.

    Parameters
    ----------
    summaries : sequence of Summary
        In the order of partitions.
    columns : sequence of str
        Names of the sensitive columns.
    classes : (2,) array, optional
        The labels, where they are known.
    """
    _check_faults(summaries)
    if classes is None:
        classes = _merge_labels(summaries)
        _check_weights(classes, summaries)
    else:
        _check_known(classes, summaries)
    values = [_merge_values([s.values[k] for s in summaries]) for k in range(len(columns))]
    labels, groups = [], [[] for _ in columns]  # type: ignore[var-annotated]
    for s in summaries:
        position = np.searchsorted(classes, s.classes)
        labels.append(position[s.combinations[:, 0]])
        for k, known in enumerate(values):
            order = {value: code for code, value in enumerate(known)}
            recode = np.array([*(order[v] for v in s.values[k]), -1], np.int32)
            groups[k].append(recode[s.combinations[:, 1 + k]])
    rows = [s.totals[0] for s in summaries]
    sensitive = []
    for name, known, codes in zip(columns, values, groups, strict=True):
        joined = np.concatenate(codes)
        check_groups(name, len(known), int(np.concatenate(rows)[joined >= 0].sum()))
        sensitive.append(SensitiveColumn(name, joined, tuple(known)))
    cells = build_cells(np.concatenate(labels), sensitive)
    edges = np.cumsum([len(s.combinations) for s in summaries])[:-1]
    numbers = np.split(cells.codes, edges)
    pairs = zip(summaries, numbers, strict=True)
    table = np.stack([_by_cell(s.totals, c, len(cells)) for s, c in pairs])
    counts, weights, squares = table.sum(axis=0)
    cells = replace(cells, codes=cells.codes[:0], counts=counts, weights=weights, squares=squares)
    return Layout(classes, cells, numbers, table[:, 0].astype(np.int64))


def _by_cell(totals: FloatArray, cells: IntArray, n_cells: int) -> FloatArray:
    return np.stack([np.bincount(cells, row, n_cells) for row in totals])


def _check_faults(summaries: Sequence[Summary]) -> None:
    faults = [(k, s.fault) for k, s in enumerate(summaries) if s.fault]
    if faults:
        first, text = faults[0]
        others = f" (and {len(faults) - 1} other partitions are wrong)" if len(faults) > 1 else ""
        raise InvalidInputError(f"partition {first} of {len(summaries)}: {text}{others}")


def _check_weights(classes: np.ndarray, summaries: Sequence[Summary]) -> None:
    total = np.zeros(2)
    for s in summaries:
        labels = np.searchsorted(classes, s.classes)[s.combinations[:, 0]]
        total += np.bincount(labels, s.totals[1], 2)
    check_both_classes_weigh(classes, total.tolist())


def _check_known(classes: np.ndarray, summaries: Sequence[Summary]) -> None:
    for k, s in enumerate(summaries):
        try:
            encode_known(s.classes, classes, "y")
        except InvalidInputError as error:
            raise InvalidInputError(f"partition {k} of {len(summaries)}: {error}") from error


def _merge_labels(summaries: Sequence[Summary]) -> np.ndarray:
    """The labels of all partitions."""
    found = [s.classes for s in summaries if len(s.classes)]
    if not found:
        raise InvalidInputError("X has no rows in any partition; pass some")
    classes = np.unique(np.concatenate(found))
    if len(classes) > 2:
        # The partition to look at is one of those with a label that few have.
        having = [[k for k, s in enumerate(summaries) if c in s.classes] for c in classes]
        rare = int(np.argmin([len(h) for h in having]))
        try:
            check_two_classes(classes)
        except InvalidInputError as error:
            label = classes[rare].item() if hasattr(classes[rare], "item") else classes[rare]
            raise InvalidInputError(
                f"partition {having[rare][0]} of {len(summaries)} has the label {label!r}: {error}"
            ) from error
    check_two_classes(classes)
    return classes


def _merge_values(found: Sequence[tuple[object, ...]]) -> list[object]:
    """The groups of all partitions, in the order that they have on one machine."""
    distinct = list({v: None for values in found for v in values})
    values = np.empty(len(distinct), dtype=object)
    values[:] = distinct
    return [values[k] for k in sorted_order(values)]


def sort_part(
    part: Part,
    numbers: IntArray,
    n_cells: int,
    shares: Shares | None,
    before: IntArray,
    seed: Sequence[int],
) -> Sorted:
    """Sort a partition into the cells of all rows, and mark the rows to hold out.

    Parameters
    ----------
    part : Part
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
    held = None
    if shares is not None:
        held = shares.mark(codes, np.random.default_rng(seed), before)
    kept = slice(None) if held is None else ~held
    weight = part.sample_weight
    trained = _totals(codes[kept], n_cells, None if weight is None else weight[kept])
    seen = np.zeros_like(trained)
    if held is not None:
        seen = _totals(codes[held], n_cells, None if weight is None else weight[held])
    return Sorted(part.X, codes, weight, held, np.stack([trained, seen]))
