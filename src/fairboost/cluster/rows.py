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

Where a number is predicted, partitions also tell a few figures of their targets, and a sample of
them where a mean does not say enough. The rows of a set of the user's own to hold out are further
partitions, of which all rows are held out.

Decisions on test rows are counted by cell in the same way (:func:`count_decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from fairboost._typing import BoolArray, Float32Array, FloatArray, IntArray, Matrix
from fairboost.cluster.collections import DaskRows, partitions
from fairboost.data.cells import (
    Cells,
    SensitiveColumn,
    build_cells,
    check_names_differ,
    totals_by_cell,
)
from fairboost.data.holdout import Shares, align_groups
from fairboost.data.labels import positive_last, warn_of_spellings
from fairboost.data.validation import (
    MOST_CLASSES,
    check_both_classes_weigh,
    check_groups,
    check_no_positive,
    check_same_rows,
    check_several_classes,
    distinct_groups,
    distinct_labels,
    encode_known,
    named_columns,
    read_exposure,
    read_targets,
    read_weights,
    sorted_order,
)
from fairboost.exceptions import InvalidInputError
from fairboost.kernel.losses import Loss
from fairboost.tasks.layout import Outcomes
from fairboost.training.targets import TargetFigures, check_range

MANY_GROUPS = 10_000
"""Groups that a partition may have even if they are almost as many as its rows."""

NO_ROWS = "X has no rows in any partition; pass some"


@dataclass(frozen=True)
class NumberRules:
    """How partitions are read where a number is predicted.

    Parameters
    ----------
    loss : Loss
        Says which targets there may be.
    sample : int
        Targets of a partition, at most, that are told; none by default.
    """

    loss: Loss
    sample: int = 0


@dataclass(frozen=True)
class TargetSummary:
    """What the others have to know of the targets of a partition.

    Parameters
    ----------
    least, most : float
        Of what was actual, per unit of exposure, in rows that have a weight.
    sums : (2, m) float64
        Sums of the targets and of their squares, by combination.
    totals : (5,) float64
        Sums over the rows: 1, the exposure, and by weight 1, the target, the exposure.
    sample : (2, k) float64
        Some targets, and how much they weigh.
    """

    least: float
    most: float
    sums: FloatArray
    totals: FloatArray
    sample: FloatArray


@dataclass(frozen=True)
class PartitionSummary:
    """What the others have to know of a partition.

    Parameters
    ----------
    fault : str
        What is wrong with it; empty if nothing is.
    classes : array
        The labels that occur; none where a number is predicted.
    values : tuple of tuple
        The groups that occur, per sensitive column.
    combinations : (m, 1 + n_columns) int
        The combinations that occur: positions in ``classes`` and ``values``, -1 for missing.
    totals : (3, m) float64
        Rows of each, their weight and their squared weight; by exposure, if there is one.
    targets : TargetSummary, optional
        Where a number is predicted.
    """

    fault: str
    classes: np.ndarray
    values: tuple[tuple[object, ...], ...]
    combinations: IntArray
    totals: FloatArray
    targets: TargetSummary | None = None


@dataclass(frozen=True)
class ReadPartition:
    """A partition, checked.

    Parameters
    ----------
    X : Matrix
        The features, as they are.
    combination : (n,) int
        Of label and groups, of each row.
    sample_weight : (n,) float64, optional
        Weights.
    summary : PartitionSummary
        What the others have to know.
    outcomes : Outcomes, optional
        What rows are to come to, where that is a number.
    """

    X: Matrix
    combination: IntArray
    sample_weight: FloatArray | None
    summary: PartitionSummary
    outcomes: Outcomes | None = None

    def weight(self, mean_exposure: float) -> Float32Array | None:
        """Weights in moments: the given ones, by exposure over its mean."""
        found = self.sample_weight
        if self.outcomes is not None and self.outcomes.exposure is not None:
            per_unit: FloatArray = self.outcomes.exposure / mean_exposure
            found = per_unit if found is None else per_unit * found
        return None if found is None else found.astype(np.float32)


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
        Weights in moments.
    held_out : (n,) bool, optional
        The rows held out.
    totals : (2, 3, n_cells) float64
        Of the rows trained on and of those held out: rows, weight and squared weight by cell.
    outcomes : Outcomes, optional
        What rows are to come to, where that is a number.
    """

    X: Matrix
    codes: IntArray
    sample_weight: Float32Array | None
    held_out: BoolArray | None
    totals: FloatArray
    outcomes: Outcomes | None = None


@dataclass(frozen=True)
class MergedTargets:
    """The targets of all partitions together.

    Parameters
    ----------
    figures : TargetFigures
        What checks look at, of the rows to train on.
    totals : (5,) float64
        As in :class:`TargetSummary`, of the rows to train on.
    sample : (2, k) float64
        Likewise.
    """

    figures: TargetFigures
    totals: FloatArray
    sample: FloatArray


@dataclass(frozen=True)
class MergedPartitions:
    """All partitions together.

    Parameters
    ----------
    classes : array
        The labels; of two the second is the positive one, more are in rising order. None where a
        number is predicted.
    cells : Cells
        Of all rows to train on; without the code of each.
    numbers : list of (m,) int
        Per partition, the cell of each combination.
    counts : (n_partitions, n_cells) int64
        Rows by partition and cell.
    exposures : (n_partitions,) float64
        What exposures are divided by in each partition: the mean of the rows trained on.
    n_set : int
        Partitions, the last ones, that are of a set to hold out.
    targets : MergedTargets, optional
        Where a number is predicted.
    """

    classes: Any
    cells: Cells
    numbers: list[IntArray]
    counts: IntArray
    exposures: FloatArray
    n_set: int = 0
    targets: MergedTargets | None = None


def read_partition(
    X: Any,
    y: Any,
    sensitive: Any,
    weight: Any,
    exposure: Any,
    columns: Sequence[str],
    rules: NumberRules | None = None,
) -> ReadPartition:
    """Check a partition. Runs where it lies; what is wrong is told, not raised.

    Parameters
    ----------
    X, y, sensitive, weight, exposure : table, column, table or column, column, column
        Of the partition; the last three may be missing.
    columns : sequence of str
        The sensitive columns that are constrained.
    rules : NumberRules, optional
        Where a number is predicted.
    """
    try:
        n = len(X) if not hasattr(X, "shape") else int(X.shape[0])
        outcomes = None
        if rules is None:
            classes, labels = distinct_labels(y)
            if len(classes) > MOST_CLASSES:  # one alone may be in other partitions too
                check_several_classes(classes)
        else:
            targets = read_targets(y, "y")
            classes, labels = np.empty(0), np.zeros(len(targets), np.int8)
        _check_rows("y", len(labels), n)
        if rules is not None:
            check_range(rules.loss, targets, "y")
            exposed = None if exposure is None else read_exposure(exposure, n)
            outcomes = Outcomes(targets, None, exposed)
        check_same_rows(
            X=X, y=y, sensitive_features=sensitive, sample_weight=weight, exposure=exposure
        )
        found = dict(named_columns(sensitive)) if columns else {}
        groups = [_read_column(name, found[name], n) for name in columns]
        weights = read_weights(weight, n, part=True)
    except (ValueError, TypeError) as error:  # all that checks of data raise
        nothing = np.empty((0, 1), np.int64)
        fault = PartitionSummary(str(error), np.empty(0), (), nothing, np.empty((3, 0)))
        return ReadPartition(None, np.empty(0, np.int64), None, fault)
    part = _summed(X, classes, labels, groups, weights, outcomes)
    return part if rules is None else _with_targets(part, rules)


def _read_column(name: str, column: Any, n: int) -> SensitiveColumn:
    """A sensitive column, with codes that are those of the partition."""
    codes, groups = distinct_groups(name, column)
    _check_rows(f"sensitive_features ({name})", len(codes), n)
    if (codes >= 0).any():
        check_groups(name, len(groups), int((codes >= 0).sum()), MANY_GROUPS)
    return SensitiveColumn(name, codes, tuple(groups))


def _summed(
    X: Any,
    classes: np.ndarray,
    labels: IntArray,
    groups: Sequence[SensitiveColumn],
    weight: FloatArray | None,
    outcomes: Outcomes | None,
) -> ReadPartition:
    """Sort the rows of a partition into the combinations that it has."""
    if outcomes is not None:
        # As engines keep them, in single precision.
        targets = outcomes.targets.astype(np.float32).astype(np.float64)
        single = None if weight is None else weight.astype(np.float32)
        outcomes = replace(outcomes, targets=targets, weight=single)
    empty = PartitionSummary("", classes, (), np.empty((0, 1), np.int64), np.empty((3, 0)))
    part = ReadPartition(X, labels, weight, empty, outcomes)
    cells = build_cells(labels, groups, part.weight(1.0))
    # A label that does not occur has a cell too where there are no columns to cross it with.
    present = cells.counts > 0
    keys = np.stack([cells.labels, *cells.groups.values()], axis=1)[present]
    renumber = (np.cumsum(present) - 1).clip(0).astype(cells.codes.dtype)
    totals = np.stack([cells.counts, cells.weights, cells.squares])[:, present]
    summary = PartitionSummary("", classes, tuple(cells.values.values()), keys, totals)
    return replace(part, combination=renumber[cells.codes], summary=summary)


def _with_targets(part: ReadPartition, rules: NumberRules) -> ReadPartition:
    """The same partition, which tells of its targets."""
    assert part.outcomes is not None
    y, given = part.outcomes.targets, part.outcomes.exposure
    exposure = np.ones(len(y)) if given is None else given
    weight = np.ones(len(y)) if part.sample_weight is None else part.sample_weight
    actual, m = (y / exposure)[weight > 0], len(part.summary.combinations)
    sums = [np.bincount(part.combination, values, m) for values in (y, np.square(y))]
    totals = [float(len(y)), exposure.sum(), weight.sum(), weight @ y, weight @ exposure]
    sample = np.empty((2, 0))
    if rules.sample:
        known = np.flatnonzero(weight > 0)
        step = 1 + len(known) // rules.sample
        sample = np.array([y[known[::step]], step * weight[known[::step]]])
    told = TargetSummary(
        float(actual.min(initial=np.inf)),
        float(actual.max(initial=-np.inf)),
        np.array(sums),
        np.array(totals),
        sample,
    )
    return replace(part, summary=replace(part.summary, targets=told))


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
    held_out: Sequence[PartitionSummary] = (),
    held_out_columns: Sequence[str] = (),
    known: Mapping[str, Sequence[object]] = MappingProxyType({}),
) -> MergedPartitions:
    """Bring the cells of all partitions together; raises what is wrong with any of them.

    Parameters
    ----------
    summaries : sequence of PartitionSummary
        In the order of partitions.
    columns : sequence of str
        Names of the sensitive columns.
    classes : array, optional
        The labels where they are known: the negative and the positive one, or three and more in
        rising order.
    pos_label : label, optional
        The positive label, where they are not.
    held_out : sequence of PartitionSummary
        Of a set to hold out; the last in the result.
    held_out_columns : sequence of str
        What its sensitive columns are called.
    known : dict of str to sequence
        The groups of training, by column, if rows are not to train on.
    """
    _check_faults(summaries)
    _check_faults(held_out, "holdout_set: ")
    everyone = [*summaries, *held_out]
    if summaries[0].targets is None:
        given = classes is not None
        classes = _merged_classes(summaries, held_out, classes, pos_label)
        position = [encode_known(s.classes, classes, "y") for s in everyone]
        labels = _recoded(position, everyone, 0).astype(np.int32)
        if not given:
            weights = np.concatenate([s.totals[1] for s in summaries])
            check_both_classes_weigh(classes, labels[: len(weights)], weights)
    else:
        if not sum(len(s.combinations) for s in summaries):
            raise InvalidInputError(NO_ROWS)
        labels = np.zeros(sum(len(s.combinations) for s in everyone), np.int32)
    own = _merged_columns(columns, summaries)
    sensitive = [c.named_as(known.get(c.name, ())) for c in own]
    if held_out:
        theirs = align_groups(sensitive, _merged_columns(held_out_columns, held_out))
        sensitive = [
            replace(c, codes=np.concatenate([c.codes, h.codes]))
            for c, h in zip(sensitive, theirs, strict=True)
        ]
    cells = build_cells(labels, sensitive)
    numbers = np.split(cells.codes, np.cumsum([len(s.combinations) for s in everyone])[:-1])
    pairs = zip(everyone, numbers, strict=True)
    table = np.array([[np.bincount(cell, t, len(cells)) for t in s.totals] for s, cell in pairs])
    exposures = np.full(len(everyone), _mean_exposure(summaries))
    table[:, 1:] /= exposures[:, np.newaxis, np.newaxis] ** np.array([[1.0], [2.0]])
    n = len(summaries)
    cells = cells.with_totals(table[:n].sum(axis=0), cells.codes[:0])
    merged = MergedPartitions(
        classes, cells, numbers, table[:, 0].astype(np.int64), exposures, len(held_out)
    )
    return replace(merged, targets=_merged_targets(summaries, merged))


def _merged_classes(
    summaries: Sequence[PartitionSummary],
    held_out: Sequence[PartitionSummary],
    classes: np.ndarray | None,
    pos_label: object,
) -> np.ndarray:
    """The labels, of which a set to hold out has no others."""
    if classes is None:
        classes = _merge_labels(summaries)
        warn_of_spellings(classes)
        if len(classes) > 2:
            check_no_positive(classes, pos_label)
        else:
            classes = positive_last(classes, pos_label)
    else:
        _check_known(classes, summaries)
    _check_known(classes, held_out, "holdout_set: ")
    return classes


def _merged_columns(
    columns: Sequence[str], summaries: Sequence[PartitionSummary]
) -> list[SensitiveColumn]:
    """Sensitive columns, a code for each combination of each partition."""
    rows, out = np.concatenate([s.totals[0] for s in summaries]), []
    for k, name in enumerate(columns):
        distinct = dict.fromkeys(value for s in summaries for value in s.values[k])
        found = np.fromiter(distinct, object, len(distinct))
        values = found[sorted_order(found)].tolist()  # in the order that one machine has them in
        order = {value: code for code, value in enumerate(values)}
        position = [np.array([*(order[v] for v in s.values[k]), -1], np.int32) for s in summaries]
        codes = _recoded(position, summaries, 1 + k)
        check_groups(name, len(values), int(rows[codes >= 0].sum()))
        check_names_differ(name, values)
        out.append(SensitiveColumn(name, codes, tuple(values)))
    return out


def _mean_exposure(summaries: Sequence[PartitionSummary]) -> float:
    """The mean exposure of some partitions together."""
    totals = [s.targets.totals for s in summaries if s.targets is not None]
    rows, exposure, *_ = np.sum(totals, axis=0) if totals else (1.0, 1.0)
    return float(exposure / max(rows, 1.0) or 1.0)


def _merged_targets(
    summaries: Sequence[PartitionSummary], merged: MergedPartitions
) -> MergedTargets | None:
    """The targets of all partitions to train on."""
    told = [s.targets for s in summaries if s.targets is not None]
    if not told:
        return None
    totals = np.sum([t.totals for t in told], axis=0)
    if not totals[2]:
        raise InvalidInputError(
            "Sample weights must contain at least one non-zero number; all are zero, so there is "
            "nothing to train on"
        )
    sums = np.zeros((2, len(merged.cells)))
    for t, cell in zip(told, merged.numbers, strict=False):
        sums += [np.bincount(cell, values, len(merged.cells)) for values in t.sums]
    least, most = min(t.least for t in told), max(t.most for t in told)
    figures = TargetFigures(least, most, merged.cells, sums)
    return MergedTargets(figures, totals, np.concatenate([t.sample for t in told], axis=1))


def _recoded(
    codes: Sequence[IntArray], summaries: Sequence[PartitionSummary], column: int
) -> IntArray:
    """A column of the combinations of all partitions, each by codes that all have in common."""
    pairs = zip(codes, summaries, strict=True)
    return np.concatenate([common[s.combinations[:, column]] for common, s in pairs])


def _check_faults(summaries: Sequence[PartitionSummary], which: str = "") -> None:
    faults = [(k, s.fault) for k, s in enumerate(summaries) if s.fault]
    if faults:
        first, text = faults[0]
        others = f" (and {len(faults) - 1} other partitions are wrong)" if len(faults) > 1 else ""
        raise InvalidInputError(f"{which}partition {first} of {len(summaries)}: {text}{others}")


def _check_known(
    classes: np.ndarray, summaries: Sequence[PartitionSummary], which: str = ""
) -> None:
    for k, s in enumerate(summaries):
        try:
            encode_known(s.classes, classes, "y")
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{which}partition {k} of {len(summaries)}: {error}"
            ) from error


def _merge_labels(summaries: Sequence[PartitionSummary]) -> np.ndarray:
    """The labels of all partitions."""
    found = [s.classes for s in summaries if len(s.classes)]
    if not found:
        raise InvalidInputError(NO_ROWS)
    _check_one_kind(summaries)
    classes = np.unique(np.concatenate(found))
    check_several_classes(classes)
    return classes


def _check_one_kind(summaries: Sequence[PartitionSummary]) -> None:
    """Refuse text in one partition and numbers in another: NumPy would make text of both."""
    kinds: dict[str, int] = {}
    for k, s in enumerate(summaries):
        for label in s.classes[:1].tolist():
            number = isinstance(label, bool | int | float)
            kinds.setdefault("number" if number else type(label).__name__, k)
    if len(kinds) > 1:
        (kind, first), (other, partition), *_ = kinds.items()
        raise InvalidInputError(
            f"partition {partition} of {len(summaries)}: y holds labels of type {other}, but "
            f"partition {first} has some of type {kind}; write all of them as text or as numbers"
        )


def sort_partition(
    part: ReadPartition,
    numbers: IntArray,
    n_cells: int,
    shares: Shares | Literal["all", "none"] | None,
    before: IntArray,
    seed: Sequence[int],
    mean_exposure: float = 1.0,
    weighted: bool = False,
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
    shares : Shares, "all" or "none", optional
        What to hold out of each cell. Without it nothing is held out of any partition.
    before : (n_cells,) int
        Rows of each cell in earlier partitions.
    seed : sequence of int
        Of the draw, with the number of the partition in it.
    mean_exposure : float
        Exposures are told in this unit.
    weighted : bool
        Whether other partitions have weights, so that this one has to have some.
    """
    codes = numbers.astype(np.min_scalar_type(n_cells - 1))[part.combination]
    held = None
    if isinstance(shares, Shares):
        held = shares.mark(codes, np.random.default_rng(seed), before)
    elif shares is not None:
        held = np.full(len(codes), shares == "all")
    weight = part.weight(mean_exposure)
    if weighted and weight is None:
        weight = np.ones(len(codes), np.float32)
    seen = np.zeros(len(codes), bool) if held is None else held
    totals = [
        totals_by_cell(codes[rows], n_cells, None if weight is None else weight[rows])
        for rows in (~seen, seen)
    ]
    return SortedPartition(part.X, codes, weight, held, np.array(totals), part.outcomes)


def count_decisions(
    decide: Callable[[Matrix], FloatArray],
    rows: DaskRows,
    columns: Sequence[str],
    classes: np.ndarray,
    known: Mapping[str, Sequence[object]],
) -> tuple[Cells, FloatArray]:
    """Sort rows into cells, and count positive decisions in each.

    Parameters
    ----------
    decide : callable
        Features to scores, not negative where the decision is positive.
    rows : DaskRows
        Features, labels, sensitive columns and weights.
    columns : sequence of str
        The sensitive columns to go by.
    classes : (2,) array
        The labels.
    known : dict of str to sequence
        The groups of training, by column.

    Returns
    -------
    cells, positive : Cells, (n_cells,) float64
        All rows, without the cell of each, and the weight of positive decisions by cell.
    """
    import dask
    from dask.delayed import delayed

    once, count = delayed(decide, pure=False), delayed(_count, pure=False)
    lazy = partitions(rows if columns else rows.without_groups())
    found = dask.compute(*(count(once, *part, list(columns)) for part in lazy))
    merged = merge([summary for summary, _ in found], columns, classes, known=known)
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
    positive, weight = decide(X) >= 0, part.weight(1.0)
    counted = positive if weight is None else positive * weight
    return part.summary, np.bincount(part.combination, counted, n).astype(np.float64)
