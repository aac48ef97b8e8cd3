"""Audit of the scores in a file, in batches: it may be larger than memory.

One pass over the file, or two where the threshold is to be found, see
:mod:`fairboost.metrics.score_counts`; the figures are those of :func:`fairboost.metrics.audit`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.data.cells import SensitiveColumn
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.metrics import Audit, audit_sums
from fairboost.metrics.comparisons import LEFT_OUT, compare
from fairboost.metrics.decisions import HALF, check_probabilities
from fairboost.metrics.score_counts import Batch, Bracket, Counted, ScoreCounter, ScoreHistogram
from fairboost.metrics.sums import check_crossings
from fairboost.metrics.thresholds import ChosenThreshold, check_fine_enough
from fairboost.tabular.columns import as_numbers, as_text, converting
from fairboost.tabular.files import TableFile
from fairboost.tabular.labels import MOST_CLASSES
from fairboost.tabular.schema import (
    MOST_GROUPS,
    check_groups,
    check_named_once,
    classes_of,
    crossings_of,
)

MOST_CROSSED = 500
"""Cells of a crossing that are worth a look; of more, hardly any has rows to judge by."""


@dataclass(frozen=True)
class AuditRequest:
    """What to audit.

    Parameters
    ----------
    label : str or None
        The column of labels; None to audit decisions alone, of which it is not known what came
        true. Then there are no error rates.
    score : str
        The column of scores, or of decisions; of classes, that of the class given.
    sensitive : tuple of str
        The columns that say which groups a row belongs to.
    positive : str, optional
        The positive label; told by its name if left out ("yes", "1", "true").
    weight : str, optional
        The column of weights.
    threshold : float or OperatingPoint, optional
        Where decisions are made; at 0.5 if left out, and then scores must lie between 0 and 1.
    confidence : float
        Nominal coverage of intervals.
    min_rows : int
        Rows that must count for a group not to be flagged as small.
    min_group_rows : int
        Rows that must count for a group to be compared with others.
    favourable : {"positive", "negative"}
        The decision that people hope for, whose rate is shown.
    exposure : str, optional
        The column of exposures, if labels are numbers.
    loss : str, optional
        The loss whose mean is shown, if labels are numbers.
    of_classes : bool
        Whether labels are classes, three or more.
    decides : bool
        Whether ``score`` is a column of decisions, of two values.
    """

    label: str | None
    score: str
    sensitive: tuple[str, ...]
    positive: str | None = None
    weight: str | None = None
    threshold: float | OperatingPoint | None = None
    confidence: float = 0.95
    min_rows: int = 30
    min_group_rows: int = 30
    favourable: Literal["positive", "negative"] = "positive"
    exposure: str | None = None
    loss: str | None = None
    of_classes: bool = False
    decides: bool = False

    def __post_init__(self) -> None:
        scored = "--decision" if self.of_classes or self.decides else "--score"
        check_named_once(self.columns, f"--label, {scored}, --sensitive, --weight and --exposure")
        check_crossings(self.crossings)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        measures = filter(None, [self.weight, self.exposure])
        return [*filter(None, [self.label]), self.score, *self.sensitive, *measures]

    @property
    def label_name(self) -> str:
        """Name of the column of labels; empty where there is none."""
        return self.label or ""

    @property
    def rates(self) -> tuple[str, ...]:
        """Errors both ways, favourable decisions, and precision; of decisions alone the second."""
        decided = "ppr" if self.favourable == "positive" else "pnr"
        return (decided,) if self.label is None else ("fpr", "fnr", decided, "precision")

    @property
    def crossings(self) -> list[tuple[str, ...]]:
        """Every sensitive column by itself, every two of them, and all together."""
        return crossings_of(self.sensitive)


@dataclass(frozen=True, eq=False)
class FileAudit:
    """What an audit of a file found.

    Parameters
    ----------
    request : AuditRequest
        What was asked.
    audit : Audit
        Rates, gaps and ratios of every crossing.
    counted : Counted
        What they were computed from.
    classes : tuple of two str
        The labels, the positive one last.
    rows : int
        Rows that were audited.
    unlabelled : int
        Rows left out, since their label is missing.
    uncrossed : tuple of str
        Crossings that were left out for their size, in words.
    decisions : tuple of two str or None
        The decisions, the positive one last, where a column of decisions was audited.
    undecided : int
        Rows left out, since their decision is missing.
    """

    request: AuditRequest
    audit: Audit
    counted: Counted
    classes: tuple[str, str]
    rows: int
    unlabelled: int
    uncrossed: tuple[str, ...] = ()
    decisions: tuple[str, str] | None = None
    undecided: int = 0


def audit_file(
    file: TableFile, request: AuditRequest, advance: Callable[[], None] = lambda: None
) -> FileAudit:
    """Audit the scores in a file.

    Parameters
    ----------
    file : TableFile
        The file.
    request : AuditRequest
        What to audit.
    advance : callable
        Called after each batch; ``file.bytes_read`` says how far it is.
    """
    file.require(request.columns, "named in the command")
    rows = ScoredBatches(file, request, advance)
    threshold: float | Bracket | OperatingPoint = (
        HALF if request.threshold is None else request.threshold
    )
    point = None
    if isinstance(threshold, OperatingPoint):
        point, histogram = threshold, ScoreHistogram()
        for batch in rows:
            histogram.add(batch)
        threshold = histogram.bracket(point, rows.positive())
    counter = ScoreCounter(request.sensitive, threshold)
    for batch in rows:
        counter.add(batch)
    rows.check_found()
    if request.threshold is None:
        named = "if the column holds decisions, pass it as --decision"
        check_probabilities(counter.lowest, counter.highest, named)
    values = [tuple(coder.known) for coder in rows.groups]
    counted = counter.result(values, positive=rows.positive())
    chosen = None if point is None else _chosen(point, counted)
    sizes = {those: len(counted.cells.groups_by(those)) for those in request.crossings}
    shown = [those for those, n in sizes.items() if len(those) == 1 or n <= MOST_CROSSED]
    with warnings.catch_warnings():
        # Groups none of whose rows count are shown as undefined in the table.
        warnings.filterwarnings("ignore", message=LEFT_OUT)
        audit = audit_sums(
            counted.cells, counted.sums, threshold=counted.threshold, chosen=chosen,
            by=shown, rates=request.rates, confidence=request.confidence,
            min_rows=request.min_rows, min_group_rows=request.min_group_rows,
        )  # fmt: skip
    uncrossed = tuple(
        f"{' x '.join(those)} ({n:,} cells)" for those, n in sizes.items() if those not in shown
    )
    return FileAudit(
        request, audit, counted, rows.classes(), rows.count, rows.unlabelled, uncrossed,
        rows.decisions, rows.undecided,
    )  # fmt: skip


def _chosen(point: OperatingPoint, counted: Counted) -> ChosenThreshold:
    """How the threshold was chosen, and a warning if too few rows count for that."""
    everyone = compare(counted.cells, counted.sums, ())
    line = everyone.rate_table(RATES[point.rate_name], 0.95, "wilson").iloc[0]
    rows, realised = int(line["rows"]), float(line["value"])
    check_fine_enough(point, rows, realised)
    return ChosenThreshold(counted.threshold, point, realised, rows, on_other_rows=False)


@dataclass
class ValueCoder:
    """Values to codes, in the order in which they come; -1 is missing."""

    name: str
    most: int
    known: dict[str, int] = field(default_factory=dict)

    def codes(self, column: Any) -> IntArray:
        """Codes of a column."""
        with converting(f"the column {self.name!r} must hold text or numbers", "; name another"):
            if not pa.types.is_dictionary(column.type):
                column = pc.dictionary_encode(column)
            values = as_text(column.dictionary).to_pylist()
        lookup = np.full(len(values) + 1, -1, np.int32)  # the last is that of a missing index
        filled = pc.fill_null(column.indices, len(values))
        indices: IntArray = filled.to_numpy(zero_copy_only=False)
        occurs = np.bincount(indices, minlength=len(values) + 1)
        for k, value in enumerate(values):
            if value is not None and occurs[k]:
                lookup[k] = self.known.setdefault(value, len(self.known))
        if self.most == MOST_GROUPS:
            check_groups(self.name, list(self.known))
        elif len(self.known) > self.most:
            self._refuse()
        return lookup[indices]

    def _refuse(self) -> None:
        if self.most == 2:
            shown = ", ".join(map(repr, self.known))
            raise InvalidInputError(
                f"the label {self.name!r} must have two values, found more: {shown}; merge "
                "labels, or add a column that says yes or no; if these are classes to decide "
                "among, pass --task classes, if it is a number, --task regression"
            )
        raise InvalidInputError(
            f"the column {self.name!r} has more than {self.most} different values, expected "
            "classes to decide among; merge classes, or, if it is a number, pass --task regression"
        )


class AuditedBatches:
    """Batches of a file that has labels, scores and groups: what all audits read of it.

    Parameters
    ----------
    file : TableFile
        The file.
    request : AuditRequest
        Names the columns.
    advance : callable
        Called after each batch.
    """

    def __init__(
        self, file: TableFile, request: AuditRequest, advance: Callable[[], None]
    ) -> None:
        self.file, self.request, self.advance = file, request, advance
        self.groups = [ValueCoder(name, MOST_GROUPS) for name in request.sensitive]
        self.count = self.unlabelled = 0

    def read(self) -> Iterator[tuple[Any, int]]:
        """Batches as Arrow has them, and the rows before each."""
        text = pa.dictionary(pa.int32(), pa.string())
        coded = [self.request.label, *self.request.sensitive]
        decided = self.request.of_classes or self.request.decides
        coded += [self.request.score] if decided else []
        types = {name: text if name in coded else pa.float64() for name in self.request.columns}
        self.count = self.unlabelled = 0
        before = 0
        for arrow in self.file.batches(types):
            yield arrow, before
            before += arrow.num_rows
            self.advance()

    def keep(self, known: BoolArray, columns: Sequence[Any]) -> list[Any]:
        """Leave out rows without a label, and count both."""
        kept = int(known.sum())
        self.count += kept
        self.unlabelled += len(known) - kept
        if kept == len(known):
            return list(columns)
        return [None if c is None else c[known] for c in columns]

    def check_found(self) -> None:
        """Raise if no row has a label, or no row a group."""
        if not self.count:
            if self.request.label is None:
                raise InvalidInputError(
                    f"the decision {self.request.score!r} is missing in every row of "
                    f"{str(self.file.path)!r}; name a column that says yes or no"
                )
            raise InvalidInputError(
                f"the label {self.request.label!r} is missing in every row of "
                f"{str(self.file.path)!r}; an audit of error rates needs the actual labels"
            )
        for coder in self.groups:
            if not coder.known:
                raise InvalidInputError(
                    f"sensitive column {coder.name!r} is missing in every row; there is no group "
                    "to compare"
                )

    def codes(self, arrow: Any) -> list[IntArray]:
        """Groups of a batch, by sensitive column."""
        return [coder.codes(arrow.column(coder.name)) for coder in self.groups]

    def weights(self, arrow: Any, before: int) -> FloatArray | None:
        """Weights of a batch, if there are any."""
        if (name := self.request.weight) is None:
            return None
        weight = self.numbers(arrow, name, before)
        if (weight < 0).any():
            row = int((weight < 0).argmax())
            raise InvalidInputError(
                f"the weight {name!r} is {weight[row]:g} at row {before + row + 1}; weights must "
                "not be negative, and 0 leaves a row out"
            )
        return weight

    def numbers(self, arrow: Any, name: str, before: int) -> FloatArray:
        """A column of finite numbers."""
        with converting(
            f"the column {name!r} must hold numbers, found otherwise", "; name another"
        ):
            numbers = as_numbers(arrow.column(name))
        unknown = ~np.isfinite(numbers)
        if unknown.any():
            row = int(unknown.argmax())
            what = "missing" if np.isnan(numbers[row]) else "infinite"
            raise InvalidInputError(
                f"the column {name!r} is {what} at row {before + row + 1}; drop such rows"
            )
        return numbers


class ScoredBatches(AuditedBatches):
    """Batches of scores or decisions, as often as they are wanted.

    Parameters
    ----------
    file, request, advance
        As in :class:`AuditedBatches`.
    """

    def __init__(
        self, file: TableFile, request: AuditRequest, advance: Callable[[], None]
    ) -> None:
        super().__init__(file, request, advance)
        self.labels = ValueCoder(request.label or "", 2)
        self.undecided = 0
        self.decisions: tuple[str, str] | None = None
        if request.decides:
            self.decisions = decision_values(file, request.score, request.positive, request.label)

    def classes(self) -> tuple[str, str]:
        """The labels, the positive one last; of decisions alone the decisions."""
        if self.request.label is None:
            return self.decisions or ("below", "at or above")
        asked = self.request.positive
        if self.decisions is not None and asked not in self.labels.known:
            asked = None  # it is a value of the decision
        return classes_of(self.labels.known, self.request.label, asked)

    def positive(self) -> int:
        """Code of the positive label."""
        return 1 if self.request.label is None else self.labels.known[self.classes()[1]]

    def __iter__(self) -> Iterator[Batch]:
        self.undecided = 0
        for arrow, before in self.read():
            scores, decided = self._scores(arrow, before)
            labels: IntArray = np.zeros(len(scores), np.int32)
            if self.request.label is not None:
                labels = self.labels.codes(arrow.column(self.request.label))
            columns: list[Any] = [labels, scores, self.weights(arrow, before)]
            columns += self.codes(arrow)
            if not decided.all():
                self.undecided += int((~decided).sum())
                columns = [None if c is None else c[decided] for c in columns]
            labels, scores, weight, *groups = self.keep(columns[0] >= 0, columns)
            yield Batch(labels, scores, groups, weight)

    def _scores(self, arrow: Any, before: int) -> tuple[FloatArray, BoolArray]:
        """Scores, or decisions as 0 and 1; and which rows have one."""
        if self.decisions is None:
            scores = self.numbers(arrow, self.request.score, before)
            return scores, np.ones(len(scores), bool)
        found = ValueCoder(self.request.score, 2, {v: k for k, v in enumerate(self.decisions)})
        codes = found.codes(arrow.column(self.request.score))
        return np.maximum(codes, 0).astype(np.float64), codes >= 0


def decision_values(
    file: TableFile, name: str, positive: str | None, label: str | None = None
) -> tuple[str, str]:
    """The two values of a column of decisions, the positive one last.

    Parameters
    ----------
    file : TableFile
        The file.
    name : str
        The column.
    positive : str or None
        The positive value, if the user names it; it may be that of the label.
    label : str or None
        The column of labels, if there is one.
    """
    file.require([name], "named by --decision")
    coder, many = ValueCoder(name, sys.maxsize), ""
    for batch in file.batches({name: pa.dictionary(pa.int32(), pa.string())}):
        coder.codes(batch.column(name))
        if len(coder.known) > MOST_CLASSES:
            many = " or more"
            break
    values = list(coder.known)
    if len(values) != 2:
        shown = ", ".join(map(repr, sorted(values)[:5])) + (", ..." if len(values) > 5 else "")
        remedy = "name a column that says yes or no of everyone"
        if len(values) > 2:
            remedy = "add a column that says yes or no, and name that"
            remedy += "" if label else "; if the column is a score, pass it as --score"
        raise InvalidInputError(
            f"the decision {name!r} must have two values, found {len(values):,}{many}: "
            f"{shown or 'none'}; {remedy}"
        )
    if label is not None and positive not in values:
        positive = None  # it is a value of the label
    return classes_of(values, name, positive, "decision")


def joined(parts: tuple[Any, ...]) -> Any:
    """A column of all batches; None if there is none."""
    return None if parts[0] is None else np.concatenate(parts)


def sorted_groups(name: str, codes: IntArray, values: list[str]) -> SensitiveColumn:
    """Groups in the order of their names, and not in that in which they came."""
    order = np.argsort(np.array(values, dtype=object))
    places = np.append(np.argsort(order), -1)  # the last is that of a missing group
    return SensitiveColumn(name, places[codes], tuple(values[k] for k in order))
