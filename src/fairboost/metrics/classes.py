"""Audit of decisions among several classes: shares given each class, recalls, confusion matrices.

The rates are the moments of :mod:`fairboost.fairness.classes`, which constraints hold equal::

    accuracy           share of all rows that are given their own class
    given[k]           share of all rows that are given class k
    recall[k]          share of the rows of class k that are given class k
    confused[j, k]     share of the rows of class j that are given class k

Recalls and confused shares together are the confusion matrix of a group, line by line. Each rate
is a share of the rows that count, as rates of two labels are. Therefore each is read as one: the
rows that count are those of label 1, and the event is the positive decision
(:func:`as_two_labels`). Intervals, gaps and ratios are those of
:mod:`fairboost.metrics.comparisons`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairboost._text import Part, did_you_mean, escape_markdown, parts_as_html, parts_as_markdown
from fairboost._typing import ArrayLike, FloatArray, IntArray
from fairboost.data.cells import Cells, build_cells
from fairboost.data.probabilities import check_observed
from fairboost.data.validation import (
    MOST_CLASSES,
    as_column,
    check_same_rows,
    distinct_labels,
    read_sensitive_features,
    read_weights,
)
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.classes import CLASS_RATES, ClassMoment, ClassRate, Labels
from fairboost.fairness.rates import Rate
from fairboost.metrics.comparisons import (
    Comparison,
    compare,
    crossings_of,
    gaps_of,
    not_compared,
    rates_of,
    warn_of_empty,
)
from fairboost.metrics.intervals import Estimate
from fairboost.metrics.sums import weight_sums

RATES_IN_ORDER = "accuracy", "given", "recall", "confused"
"""Rates of an audit, in the order of tables."""


@dataclass(frozen=True, eq=False)
class ClassAudit:
    """What :func:`audit_classes` found; print it, or put :meth:`to_markdown` in a report.

    Parameters
    ----------
    rates : pandas.DataFrame
        One line per ``attribute``, ``group`` and rate, "everyone" first with attribute ``""``.
        ``rate`` is ``"accuracy"``, ``"given"``, ``"recall"`` or ``"confused"``; ``label`` is the
        class of the rows that count, None for all rows; ``given`` is the class that is given, None
        for a row's own. Then the ``value`` with its ends ``low`` and ``high``; ``events`` and
        ``counted``, the weights it is the quotient of; ``rows``, how many rows count; and
        ``small``: fewer than ``min_rows``. Values are NaN where no row counts.
    gaps : pandas.DataFrame
        One line per ``attribute`` and rate (``rate``, ``label``, ``given``): ``gap`` and
        ``ratio``, each with its ends ``_low`` and ``_high``, ``lowest_group`` and
        ``highest_group``.
    overall : dict of str to Estimate
        Rates of everyone, by name: ``"accuracy"``, ``"given[low]"``, ``"recall[low]"``,
        ``"confused[low, high]"``.
    classes : tuple
        The classes, in the order of tables.
    confidence, min_rows, min_group_rows : float
        As given to :func:`audit_classes`.

    Examples
    --------
    >>> y = ["low", "middle", "high"] * 60
    >>> given = ["low", "middle", "high", "low", "low", "high"] * 30
    >>> found = audit_classes(y, given, sensitive_features=list("FFFMMM") * 30)
    >>> gaps = found.gaps[found.gaps["rate"] == "recall"]
    >>> gaps.set_index("label")["gap"].to_dict()
    {'high': 0.0, 'low': 0.0, 'middle': 1.0}
    """

    rates: pd.DataFrame
    gaps: pd.DataFrame
    overall: dict[str, Estimate]
    classes: tuple[Any, ...]
    confidence: float
    min_rows: int
    min_group_rows: int = 30

    def confusion(self, attribute: str = "", group: str = "everyone") -> pd.DataFrame:
        """Confusion matrix of a group, as shares of the rows of each class.

        Parameters
        ----------
        attribute, group : str
            As in ``rates``; everyone if left out.

        Returns
        -------
        pandas.DataFrame
            A line per class of the rows, a column per class given; lines add up to 1, and are NaN
            for a class without rows.

        Examples
        --------
        >>> y, given = list("aabc") * 2, list("abbc") * 2
        >>> found = audit_classes(y, given, sensitive_features={"sex": list("FFFFMMMM")})
        >>> found.confusion().loc["a"].to_dict()
        {'a': 0.5, 'b': 0.5, 'c': 0.0}
        """
        shares = self._matrix(attribute, group)["value"].unstack()
        return shares.loc[list(self.classes), list(self.classes)]

    def to_markdown(self, confusion: bool = True) -> str:
        """Give the audit as Markdown tables, aligned so that they read well as plain text too.

        Parameters
        ----------
        confusion : bool, default=True
            Whether confusion matrices by group, and their gaps, are among them; recalls are
            otherwise.
        """
        return parts_as_markdown(self._parts(confusion, escape_markdown))

    __str__ = to_markdown

    def _repr_html_(self) -> str:
        return parts_as_html(self._parts())

    def _parts(self, confusion: bool = True, escape: Callable[[str], str] = str) -> list[Part]:
        """What is printed; ``escape`` is for names in sentences."""
        confusion = confusion and "confused" in set(self.rates["rate"])
        kept = RATES_IN_ORDER if confusion else RATES_IN_ORDER[:-1]
        head = f"Intervals: {self.confidence:g}. Small: fewer than {self.min_rows} rows count."
        parts = [head, self._shares(), self._confusions() if confusion else self._recalls()]
        left_out = map(escape, self._left_out(kept))
        return [*parts, self._compared(kept), not_compared(left_out, self.min_group_rows)]

    def _shares(self) -> Part:
        """Rows, accuracy and the share given each class, by group."""
        names = [("accuracy", None), *(("given", k) for k in self.classes)]
        titles = ["rows", "accuracy", *(f"given {k}" for k in self.classes)]
        lines = []
        for head, part in self._groups():
            found = {(r["rate"], r["given"]): r for r in part.to_dict("records")}
            rows = f"{found[names[0]]['rows']:,}"
            lines.append([*head, rows, *(self._figure(found[name]) for name in names)])
        return ["attribute", "group", *titles], lines

    def _recalls(self) -> Part:
        """Recall of each class, by group."""
        lines = []
        for head, part in self._groups():
            found = part[part["rate"] == "recall"].to_dict("records")
            lines.append([*head, *map(self._figure, found)])
        titles = [f"recall of {k}" for k in self.classes]
        return ["attribute", "group", *titles], lines

    def _confusions(self) -> Part:
        """Confusion matrices, one below the other; recalls are on their diagonals."""
        lines = []
        for attribute, group in self.rates[["attribute", "group"]].drop_duplicates().to_numpy():
            part = self._matrix(attribute, group)
            for label in self.classes:
                own = [part.loc[(label, given)].to_dict() for given in self.classes]
                head = [attribute, group, str(label)]
                lines.append([*head, f"{own[0]['rows']:,}", *map(self._figure, own)])
        titles = [f"given {k}" for k in self.classes]
        return ["attribute", "group", "class", "rows", *titles], lines

    def _compared(self, kept: Sequence[str]) -> Part:
        lines = [
            [
                line["attribute"],
                title_of(line["rate"], line["label"], line["given"]),
                *(str(_estimate(line, name, self.confidence)) for name in ("gap", "ratio")),
                *(line[f"{end}_group"] for end in ("lowest", "highest")),
            ]
            for line in self.gaps[self.gaps["rate"].isin(kept)].to_dict("records")
        ]
        titles = ["attribute", "rate", "gap", "ratio", "lowest", "highest"]
        return titles, lines

    def _left_out(self, kept: Sequence[str]) -> list[str]:
        """Name the groups that are shown and not compared."""
        own = self.rates[self.rates["rate"].isin(kept)]
        few = own[(own["rows"] < self.min_group_rows) & (own["attribute"] != "")]
        return [
            f"{line['attribute']} = {line['group']} "
            f"({title_of(line['rate'], line['label'], line['given'])}, {line['rows']:,} rows)"
            for line in few.to_dict("records")
        ]

    def _groups(self) -> Iterable[tuple[list[str], pd.DataFrame]]:
        for key, part in self.rates.groupby(["attribute", "group"], sort=False):
            yield [str(name) for name in key], part

    def _matrix(self, attribute: str, group: str) -> pd.DataFrame:
        """Lines of a group's confusion matrix, by class of the rows and class given."""
        known = self.rates[(self.rates["attribute"] == attribute) & (self.rates["group"] == group)]
        if known.empty:
            groups = self.rates[["attribute", "group"]].drop_duplicates().to_numpy().tolist()
            listed = "; ".join(f"{a!r}, {g!r}" for a, g in groups)
            raise InvalidInputError(
                f"the audit has no group {group!r} of {attribute!r}; expected one of {listed}"
                f"{did_you_mean(group, [g for a, g in groups if a == attribute])}"
            )
        part = known[known["rate"].isin(["recall", "confused"])]
        if len(part) < len(self.classes) ** 2:
            raise InvalidInputError(
                "the audit was made without confusion matrices; pass audit_classes(..., "
                "confusion=True)"
            )
        return part.set_index(["label", "given"])

    def _figure(self, line: Any) -> str:
        small = " (small)" if line["small"] else ""
        return f"{_estimate(line, 'value', self.confidence)}{small}"


def audit_classes(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    by: str | Sequence[str | Sequence[str]] | None = None,
    classes: Sequence[Any] | None = None,
    confusion: bool = True,
    confidence: float = 0.95,
    min_rows: int = 30,
    min_group_rows: int = 30,
) -> ClassAudit:
    """Accuracy, shares given each class, recalls and confusion matrices by group, with intervals.

    Parameters
    ----------
    y_true, y_pred : (n,) array
        Classes of the rows, and the classes that they were given: labels of any type.
    sensitive_features : column, table or dict of columns
        The sensitive attributes of the rows.
    sample_weight : (n,) array, optional
        Weights of the rows; 0 leaves one out. Intervals then use the effective sample size.
    by : str, tuple of str, or list of these, optional
        Groups to compare; every sensitive column by itself if left out. A tuple is a crossing.
    classes : sequence of labels, optional
        All classes, in the order of tables; those that occur, in rising order, if left out.
    confusion : bool
        Whether confusion matrices are compared as well. Of K classes these are K (K - 1) more
        gaps, which takes long where K is several dozen.
    confidence : float
        Nominal coverage of the intervals, each by itself: Wilson's of rates, and of gaps and
        ratios as in :func:`~fairboost.metrics.gap`.
    min_rows : int
        Rows that must count for a rate of a group not to be marked as small.
    min_group_rows : int
        Rows that must count for a group to be compared with others; those with fewer are reported,
        and left out of gaps and ratios.

    Returns
    -------
    ClassAudit

    Examples
    --------
    >>> y, given = ["low", "middle", "high"] * 100, ["low", "middle", "high", "low"] * 75
    >>> found = audit_classes(y, given, sensitive_features={"sex": list("FM") * 150})
    >>> print(found.overall["accuracy"])
    0.333 [0.282, 0.388]
    >>> print(found.gaps[["rate", "given", "gap", "gap_low"]].head(4).round(3).to_string())
           rate   given  gap  gap_low
    0  accuracy    None  0.0    0.000
    1     given    high  0.5    0.417
    2     given     low  0.0    0.000
    3     given  middle  0.5    0.417
    """
    rows = _read(y_true, y_pred, sensitive_features, sample_weight, classes)
    known = rows.classes
    moments = moments_of(known, RATES_IN_ORDER if confusion else RATES_IN_ORDER[:-1])
    everyone, *crossings = crossings_of(by, list(rows.cells.groups))
    between = rows.pairs(moments, crossings)
    rates = rates_of([*rows.pairs(moments, [everyone]), *between], confidence, "wilson")
    warn_of_empty([pair for pair in between if not pair[1][0].name.startswith("confused")])
    gaps = gaps_of(between, confidence, min_group_rows)
    overall = {
        line["rate"]: _estimate(line, "value", confidence)
        for line in rates[rates["attribute"] == ""].to_dict("records")
    }
    rates["small"] = rates["rows"] < min_rows
    rates, gaps = (_with_classes(table, moments, known) for table in (rates, gaps))
    shown = tuple(known), confidence, min_rows, min_group_rows
    return ClassAudit(rates, gaps, overall, *shown)


def class_gaps(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    rate: ClassRate,
    sensitive_features: ArrayLike,
    by: str | tuple[str, ...] | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Iterable[Any] | None = None,
) -> pd.DataFrame:
    """Gaps and ratios of one rate, without intervals: a line per class that the rate is of.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, classes
        As in :func:`audit_classes`.
    rate : ClassRate
        The rate, and its class if it is of one.
    by : str or tuple of str, optional
        The column, or the crossing; needed when there are several sensitive columns.
    """
    rows = _read(y_true, y_pred, sensitive_features, sample_weight, classes)
    crossings = crossings_of(by, list(rows.cells.groups))[1:]
    if len(crossings) != 1:
        raise InvalidInputError(
            f"a gap compares the groups of one attribute, found {crossings}; choose one with by="
        )
    moments = rate.among(rows.classes, range(len(rows.classes)))
    pairs = rows.pairs(moments, crossings)
    warn_of_empty(pairs)
    return gaps_of(pairs, 0.95)


@dataclass(frozen=True)
class _CountedClasses:
    """Rows of several classes, counted.

    Parameters
    ----------
    classes : list
        The classes, in order.
    cells : Cells
        Class and groups of the rows.
    sums : (3, n_classes, n_cells) float64
        As from :func:`tally_classes`.
    """

    classes: list[Any]
    cells: Cells
    sums: FloatArray

    def pairs(
        self, moments: Sequence[ClassMoment], crossings: Sequence[tuple[str, ...]]
    ) -> list[tuple[Comparison, list[Rate]]]:
        """Every moment of the groups of every crossing, to be compared."""
        return [as_two_labels(m, self.cells, self.sums, by) for by in crossings for m in moments]


def _read(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
    classes: Iterable[Any] | None,
) -> _CountedClasses:
    """Check rows, and count them."""
    given = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": sensitive_features}
    check_same_rows(**given, sample_weight=sample_weight)
    known, labels, decided = read_classes(y_true, y_pred, classes)
    columns = read_sensitive_features(sensitive_features, len(labels))
    check_observed(columns, "of three classes or more")
    weight = read_weights(sample_weight, len(labels))
    cells = build_cells(labels, columns, weight)
    return _CountedClasses(known, cells, tally_classes(cells, decided, len(known), weight))


def moments_of(classes: Labels, rates: Iterable[str]) -> list[ClassMoment]:
    """The moments of some rates, of every class."""
    every = range(len(classes))
    return [m for name in rates for m in ClassRate(name).among(classes, every)]


def tally_classes(
    cells: Cells, decided: IntArray, n_classes: int, sample_weight: FloatArray | None
) -> FloatArray:
    """Rows, weight and squared weight, by class given and cell, (3, n_classes, n_cells)."""
    category = cells.codes.astype(np.intp) + len(cells) * decided.astype(np.intp)
    sums = weight_sums(category, sample_weight, n_classes * len(cells))
    return sums.reshape(3, n_classes, len(cells))


def as_two_labels(
    moment: ClassMoment, cells: Cells, sums: FloatArray, columns: tuple[str, ...]
) -> tuple[Comparison, list[Rate]]:
    """A moment as a rate of two labels: rows that count have label 1, events are positive.

    Parameters
    ----------
    moment : ClassMoment
        The moment.
    cells : Cells
        Class and groups of each cell.
    sums : (3, n_classes, n_cells) float64
        As from :func:`tally_classes`.
    columns : tuple of str
        The columns whose groups are compared.
    """
    n_classes = sums.shape[1]
    own = moment.quantity == n_classes  # stands for the class of the row
    event = np.arange(n_classes)[:, np.newaxis] == (cells.labels if own else moment.quantity)
    by_event = np.stack([(sums * ~event).sum(axis=1), (sums * event).sum(axis=1)], axis=1)
    counts = replace(cells, labels=moment.counts(cells.labels).astype(np.int32))
    rate = Rate(moment.name, None if moment.label is None else 1, +1, moment.title)
    return compare(counts, by_event, columns), [rate]


def read_classes(
    y_true: ArrayLike, y_pred: ArrayLike, classes: Iterable[Any] | None
) -> tuple[list[Any], IntArray, IntArray]:
    """The classes in order, and the positions among them of labels and of what was given.

    Parameters
    ----------
    y_true, y_pred : (n,) array
        Labels, and the classes that rows were given.
    classes : iterable of labels, optional
        Those that there are; those that occur if left out.
    """
    found = {name: _distinct(name, y) for name, y in (("y_true", y_true), ("y_pred", y_pred))}
    occur = [label for labels, _ in found.values() for label in labels]
    true, given = (labels for labels, _ in found.values())
    if classes is None and not set(true) & set(given):
        raise InvalidInputError(
            f"y_pred holds {_some(given)}, none of which is a label of y_true: {_some(true)}; "
            "pass the classes that the model gives, coded as those of y_true"
        )
    try:
        known = sorted(set(occur)) if classes is None else list(classes)
    except TypeError as error:
        raise InvalidInputError(
            f"y_true holds {_some(true)}, and y_pred {_some(given)}, labels of different types; "
            "use the same codes in both"
        ) from error
    for name, (labels, _) in found.items():
        for label in labels:
            if label not in known:
                raise InvalidInputError(
                    f"{name} holds {label!r}, which is not among the classes, {_some(known)}; "
                    "name it in classes=, or leave classes out"
                )
    if len(known) > MOST_CLASSES:
        raise InvalidInputError(
            f"y_true and y_pred hold {len(known):,} distinct labels, such as {known[0]!r}, "
            f"expected at most {MOST_CLASSES}; merge labels, or audit numbers with "
            "fairboost.metrics.audit_numbers"
        )
    place = {label: k for k, label in enumerate(known)}
    codes = [
        np.array([place[label] for label in labels], np.int32)[at] for labels, at in found.values()
    ]
    return known, codes[0], codes[1]


def title_of(rate: str, label: object, given: object) -> str:
    """A rate in words, with its classes.

    Examples
    --------
    >>> title_of("confused", "low", "high")
    "share of 'low' given 'high'"
    """
    classes = [k for k in (label, given) if k is not None]
    return CLASS_RATES[rate].format(*map(repr, classes))


def _with_classes(
    table: pd.DataFrame, moments: Sequence[ClassMoment], classes: Labels
) -> pd.DataFrame:
    """A table with the name of a moment taken apart: the rate and its classes."""
    named = {moment.name: moment for moment in moments}
    if len(named) < len(moments):
        raise InvalidInputError(
            f"two of the classes {_some(list(classes))} look the same in tables; rename one"
        )
    found = [named[name] for name in table["rate"]]
    given = [classes[m.quantity] if m.quantity < len(classes) else None for m in found]
    labels = [m.label_name for m in found]
    at = list(table.columns).index("rate")
    out = table.assign(rate=[m.name.split("[")[0] for m in found])
    out.insert(at + 1, "label", pd.Series(labels, dtype=object))
    out.insert(at + 2, "given", pd.Series(given, dtype=object))
    return out


def _distinct(name: str, values: ArrayLike) -> tuple[list[Any], IntArray]:
    """The labels that occur, and the position of each row's among them."""
    column = as_column(values)
    if column.ndim != 1:
        raise InvalidInputError(
            f"{name} must be one column of classes, found shape {column.shape}; of probabilities "
            "pass the class that is given, model.predict(X)"
        )
    if not len(column):
        raise InvalidInputError(f"{name} has no rows; pass the classes of some")
    try:
        labels, at = distinct_labels(column)
    except ValueError as error:
        raise InvalidInputError(
            f"{name} must hold classes, found otherwise: {error}; for numbers there is "
            "fairboost.metrics.audit_numbers"
        ) from error
    return labels.tolist(), at


def _some(labels: Sequence[Any]) -> str:
    """The first labels of several, for an error."""
    return ", ".join([*map(repr, labels[:5]), *(["..."] if len(labels) > 5 else [])])


def _estimate(line: Any, name: str, confidence: float) -> Estimate:
    """A figure in a line of a table; the ends of a gap or ratio bear its name."""
    prefix = "" if name == "value" else f"{name}_"
    return Estimate(line[name], line[f"{prefix}low"], line[f"{prefix}high"], confidence)
