"""Rates by group, the gaps between groups, and how sure we are of both.

Everything is computed from sums over cells through
:func:`fairboost.fairness.rates.group_sums`: the rate that is reported is the rate that is
constrained.

``by`` says which groups to compare: ``"sex"`` is one column, ``("sex", "race")`` the crossing of
two, and a list holds several of these. Without it every sensitive column is taken by itself. Rows
of unknown group (missing values) are in no group and count only among "everyone".
``smooth("age")`` compares windows of a number, and ``sensitive_features`` may hold
``group_probabilities(...)``; ``rows`` is then the effective sample size.

Rates are those of :mod:`fairboost.fairness.rates`, and ``"precision"`` where it is asked for: the
share of positive decisions whose label is positive. It comes last.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from fairboost._numbers import is_number
from fairboost._text import Part, parts_as_html, parts_as_markdown
from fairboost._typing import ArrayLike, FloatArray, IntArray
from fairboost.data.cells import Cells, SensitiveColumn, build_cells
from fairboost.data.validation import check_same_rows, read_sensitive_features, read_weights
from fairboost.data.windows import place_knots, smooth_columns, with_windows
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import PRECISION, RATES, Rate, as_rate
from fairboost.metrics.comparisons import (
    Comparison,
    compare_sums,
    gap_table,
    not_compared,
    rate_table,
    tally,
)
from fairboost.metrics.decisions import (
    HALF,
    ScoredRows,
    read_audited,
    read_decisions,
    read_scored,
)
from fairboost.metrics.intervals import Estimate
from fairboost.metrics.thresholds import ChosenThreshold, choose

By: TypeAlias = str | Sequence[str | Sequence[str]]
RateNames: TypeAlias = str | Rate | Sequence[str | Rate]


@dataclass(frozen=True, eq=False)
class Audit:
    """What :func:`audit` found; print it, or put :meth:`to_markdown` in a report.

    Parameters
    ----------
    rates : pandas.DataFrame
        As from :func:`group_rates`, and ``small``: fewer than ``min_rows`` rows count.
    gaps : pandas.DataFrame
        One line per ``attribute`` and ``rate``: ``gap`` and ``ratio``, each with its ends ``_low``
        and ``_high``, ``lowest_group`` and ``highest_group``.
    threshold : float
        As given to :func:`audit`, or as chosen; NaN if predicted labels were audited.
    confidence, min_rows, min_group_rows : float
        As given to :func:`audit`.
    everyone : dict of str to Estimate
        ``"fpr"``, ``"tpr"``, ``"ppr"`` and ``"precision"`` of everyone, whatever ``rates`` has.
    chosen : ChosenThreshold, optional
        How the threshold was chosen; None if it was given.
    pos_label : optional
        The positive label; None if it is not known.

    Examples
    --------
    >>> y, score = [0, 1, 0, 1] * 30, [0.1, 0.9, 0.7, 0.8] * 30
    >>> found = audit(y, score, sensitive_features=list("FFMM") * 30)
    >>> found.gaps.set_index("rate")["gap"].to_dict()
    {'fpr': 1.0, 'fnr': 0.0, 'ppr': 0.5}
    """

    rates: pd.DataFrame
    gaps: pd.DataFrame
    threshold: float
    confidence: float
    min_rows: int
    everyone: dict[str, Estimate]
    chosen: ChosenThreshold | None = None
    pos_label: object = None
    min_group_rows: int = 30

    def to_markdown(self) -> str:
        """Give the audit as Markdown tables, aligned so that they read well as plain text too."""
        return parts_as_markdown(self._parts(), lambda cell: cell.replace("|", "\\|"))

    __str__ = to_markdown

    def _repr_html_(self) -> str:
        return parts_as_html(self._parts())

    def _parts(self) -> list[Part]:
        """What is printed."""
        figures: dict[tuple[str, str], list[str]] = {}
        for line in self.rates.to_dict("records"):
            cells = figures.setdefault((line["attribute"], line["group"]), [])
            cells.append(
                f"{_estimate(line, 'value', self.confidence)}{' (small)' if line['small'] else ''}"
            )
        gaps = [
            [line["attribute"], line["rate"]]
            + [str(_estimate(line, name, self.confidence)) for name in ("gap", "ratio")]
            + [line["lowest_group"], line["highest_group"]]
            for line in self.gaps.to_dict("records")
        ]
        label = "" if self.pos_label is None else f" Positive label: {self.pos_label}."
        titles = ["attribute", "group", *dict.fromkeys(self.rates["rate"])]
        return [
            f"Positive: {self._where()}.{label} Intervals: {self.confidence:g}. "
            f"Small: fewer than {self.min_rows} rows count.",
            (titles, [[*key, *cells] for key, cells in figures.items()]),
            (["attribute", "rate", "gap", "ratio", "lowest", "highest"], gaps),
            self._left_out(),
        ]

    def _left_out(self) -> str:
        """Name the groups that are shown and not compared."""
        few = self.rates[self.rates["rows"] < self.min_group_rows].query("attribute != ''")
        columns = ["attribute", "group", "rate", "rows"]
        named = (f"{a} = {g} ({r}, {n} rows)" for a, g, r, n in few[columns].to_numpy())
        return not_compared(named, self.min_group_rows)

    def _where(self) -> str:
        """Say where decisions are made, and what became of the rate that was asked for."""
        if self.chosen is None:
            of_labels = np.isnan(self.threshold)
            return "the predicted label" if of_labels else f"score >= {self.threshold:g}"
        name = self.chosen.operating_point.rate_name
        return f"{self.chosen}. Here: {name} {self.everyone[name]}"


def group_rates(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    rates: RateNames = tuple(RATES),
    by: By | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
    interval: Literal["wilson", "exact"] = "wilson",
) -> pd.DataFrame:
    """Rates of every group, with intervals.

    Parameters
    ----------
    y_true, y_pred : (n,) array
        Labels and decisions: two labels of any type.
    sensitive_features : column, table or dict of columns
        The sensitive attributes of the rows.
    rates : str, Rate or sequence of them
        Rates to report, see :mod:`fairboost.fairness.rates`; ``"precision"`` is one too.
    by : str, tuple of str, or list of these, optional
        Groups to compare; every sensitive column by itself if left out.
    sample_weight : (n,) array, optional
        Weights of the rows; 0 leaves one out. Intervals then use the effective sample size.
    pos_label : optional
        The positive label; the larger of the two if left out, with a warning where that is a
        guess by the alphabet.
    confidence : float
        Nominal coverage of the intervals.
    interval : {"wilson", "exact"}
        Wilson's interval, or Clopper and Pearson's.

    Returns
    -------
    pandas.DataFrame
        ``attribute``, ``group`` and ``rate``; the ``value`` and its ends ``low`` and ``high``;
        ``events`` and ``counted``, the weights it is the quotient of; ``rows``, how many rows
        count. Values are NaN where none does. "everyone" comes first, with attribute ``""``.

    Examples
    --------
    >>> y, d = [0, 0, 1, 1] * 2, [0, 1, 0, 1, 0, 0, 1, 1]
    >>> table = group_rates(y, d, sensitive_features=list("FFFFMMMM"), rates="fpr")
    >>> print(table[["group", "rate", "value", "rows"]].to_string(index=False))
       group rate  value  rows
    everyone  fpr   0.25     4
           F  fpr   0.50     2
           M  fpr   0.00     2
    """
    compared = _compare(y_true, y_pred, pos_label, sensitive_features, sample_weight, by)
    return rate_table(compared, _as_rates(rates), confidence, interval)


def gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    rate: str | Rate,
    sensitive_features: ArrayLike,
    by: str | tuple[str, ...] | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
) -> Estimate:
    """Largest minus smallest rate among the groups of one attribute; 0 is parity.

    Groups none of whose rows count are left out with a warning; NaN with fewer than two others.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, pos_label
        As in :func:`group_rates`.
    rate : str or Rate
        The rate to compare.
    by : str or tuple of str, optional
        The column, or the crossing; needed when there are several sensitive columns.
    confidence : float
        Nominal coverage of the interval.

    Notes
    -----
    The interval of two groups is Newcombe's, and that of more allows for all pairs at once, see
    :mod:`fairboost.metrics.intervals`. How often it holds the truth at 95% is in
    ``benchmarks/verdicts.md``: in 93% to 97% of samples of two groups, and of more groups whose
    rates are equal. It is longer than it need be where events are few (all of 30 rows at a rate of
    0.02), and where one group is apart from many. A small group does not hide the gap of two large
    groups: every pair has an interval of its own.

    Examples
    --------
    >>> y, d = [0, 0, 1, 1] * 200, [0, 1, 0, 1, 0, 0, 1, 1] * 100
    >>> print(gap(y, d, rate="fpr", sensitive_features=list("FFFFMMMM") * 100))
    0.500 [0.429, 0.569]
    """
    compared = _compare(y_true, y_pred, pos_label, sensitive_features, sample_weight, by)
    table = gap_table(_only(compared), [as_rate_or_precision(rate)], confidence)
    return _estimate(table.to_dict("records")[0], "gap", confidence)


def ratio(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    rate: str | Rate,
    sensitive_features: ArrayLike,
    by: str | tuple[str, ...] | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
) -> Estimate:
    """Smallest over largest rate among the groups of one attribute; 1 is parity.

    If every rate is 0 the ratio is undefined: NaN. For everything else, including the parameters,
    see :func:`gap`.

    Notes
    -----
    The interval of two groups is that of Donner and Zou (Statistical Methods in Medical Research
    21, 2012). It ends at 1 exactly where that of the gap begins at 0.

    Examples
    --------
    >>> y, d = [0, 0, 1, 1] * 200, [0, 1, 0, 1, 0, 0, 1, 1] * 100
    >>> print(ratio(y, d, rate="tpr", sensitive_features=list("FFFFMMMM") * 100))
    0.500 [0.431, 0.569]
    """
    compared = _compare(y_true, y_pred, pos_label, sensitive_features, sample_weight, by)
    table = gap_table(_only(compared), [as_rate_or_precision(rate)], confidence)
    return _estimate(table.to_dict("records")[0], "ratio", confidence)


def audit(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    threshold: float | OperatingPoint | None = None,
    chosen_on: tuple[ArrayLike, ...] | None = None,
    rates: RateNames = ("fpr", "fnr", "ppr"),
    by: By | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
    min_rows: int = 30,
    min_group_rows: int = 30,
) -> Audit:
    """Rates, gaps and ratios of every sensitive attribute in one call.

    Parameters
    ----------
    y_true, sensitive_features, rates, by, sample_weight, pos_label
        As in :func:`group_rates`. Rates that are not reported by default are 1 minus a reported
        rate; they have the same gaps but other ratios.
    y_score : (n,) array
        Probabilities of the positive label, any scores that increase with it, or predicted labels.
    threshold : float or OperatingPoint, optional
        Scores at or above it are positive decisions. ``at_fpr(0.05)``, ``at_tpr(0.8)`` or
        ``at_positive_rate(0.02)`` choose it. If left out it is 0.5, and scores beyond 0 and 1,
        such as log-odds, are refused.
    chosen_on : tuple (y_true, y_score[, sample_weight]), optional
        The rows on which to choose the threshold, usually a validation set; by default the rows
        that are audited.
    confidence
        As in :func:`gap`.
    min_rows : int
        Groups in which fewer rows count are marked as small.
    min_group_rows : int
        Groups in which fewer rows count are shown, and named below the tables, but left out of
        gaps and ratios; 0 compares all groups.

    Notes
    -----
    Intervals take the threshold as given: they are about the decisions of this threshold for new
    people, not about the point where the rate has its target (see :func:`tpr_at_fpr` for that).
    They also hold if the threshold was chosen on the rows that are audited: at ``at_fpr(0.05)``,
    ``at_fpr(0.2)`` and ``at_tpr(0.8)`` on 400 and 4000 rows, 95% intervals of rates, precision,
    gap and ratio of two groups held the truth in 93% to 99% of 1000 samples.

    Examples
    --------
    >>> y, score = [0, 0, 1, 1] * 50, [0.1, 0.6, 0.4, 0.9, 0.1, 0.2, 0.7, 0.9] * 25
    >>> print(audit(y, score, sensitive_features={"sex": list("FFFFMMMM") * 25}, rates="fpr"))
    Positive: score >= 0.5. Positive label: 1. Intervals: 0.95. Small: fewer than 30 rows count.
    <BLANKLINE>
    | attribute | group    | fpr                  |
    | --------- | -------- | -------------------- |
    |           | everyone | 0.250 [0.175, 0.343] |
    | sex       | F        | 0.500 [0.366, 0.634] |
    | sex       | M        | 0.000 [0.000, 0.071] |
    <BLANKLINE>
    | attribute | rate | gap                  | ratio                | lowest | highest |
    | --------- | ---- | -------------------- | -------------------- | ------ | ------- |
    | sex       | fpr  | 0.500 [0.349, 0.634] | 0.000 [0.000, 0.148] | M      | F       |

    A threshold chosen on some rows and audited on others:

    >>> from fairboost.fairness.operating_points import at_fpr
    >>> known, new = (y[:100], score[:100]), (y[100:], score[100:])
    >>> sex = list("MMMMFFFF") * 12 + list("MMMM")
    >>> found = audit(*new, sensitive_features=sex, threshold=at_fpr(0.3), chosen_on=known)
    >>> print(found.chosen)
    score >= 0.4, at_fpr(0.3) chosen on other rows (fpr 0.260, 50 rows count)
    >>> print(found.everyone["fpr"])
    0.240 [0.143, 0.374]
    """
    check_same_rows(y_true=y_true, y_score=y_score, sensitive_features=sensitive_features)
    rows, threshold, chosen = _decide(
        (y_true, y_score, sample_weight, pos_label), threshold, chosen_on
    )
    columns = read_compared(sensitive_features, rows.labels, by)
    cells = build_cells(rows.labels, columns, rows.weight)
    positive = rows.scores >= (HALF if np.isnan(threshold) else threshold)
    sums = tally(cells, positive, rows.weight)
    found = audit_sums(
        cells, sums, threshold=threshold, chosen=chosen, rates=rates, by=by,
        confidence=confidence, min_rows=min_rows, min_group_rows=min_group_rows,
    )  # fmt: skip
    return replace(found, pos_label=rows.known[0])


def _decide(
    given: tuple[ArrayLike, ArrayLike, ArrayLike | None, object],
    threshold: float | OperatingPoint | None,
    chosen_on: tuple[ArrayLike, ...] | None,
) -> tuple[ScoredRows, float, ChosenThreshold | None]:
    """The rows, where their scores are cut (NaN of predicted labels), and how that was chosen."""
    if isinstance(threshold, OperatingPoint):
        rows = read_scored(*given)
        chosen = choose(threshold, rows, chosen_on)
        return rows, chosen.value, chosen
    if threshold is not None and not is_number(threshold):
        raise InvalidInputError(
            f"threshold must be a number or an operating point, found {threshold!r}; pass the "
            "least score of a positive decision, or at_fpr(0.05)"
        )
    if threshold is not None and np.isnan(threshold):
        raise InvalidInputError("threshold is NaN; pass the least score of a positive decision")
    if chosen_on is not None:
        raise InvalidInputError(
            f"chosen_on is for a threshold that is to be chosen, found threshold={threshold!r}; "
            "drop chosen_on, or pass an operating point such as threshold=at_fpr(0.05)"
        )
    if threshold is None:
        return *read_audited(*given), None
    return read_scored(*given), threshold, None


def audit_sums(
    cells: Cells,
    sums: FloatArray,
    *,
    threshold: float,
    chosen: ChosenThreshold | None = None,
    rates: RateNames = ("fpr", "fnr", "ppr"),
    by: By | None = None,
    confidence: float = 0.95,
    min_rows: int = 30,
    min_group_rows: int = 30,
) -> Audit:
    """As :func:`audit`, from counts by cell and decision: rows need not be at hand.

    Parameters
    ----------
    cells : Cells
        Label and groups of each cell.
    sums : (3, 2, n_cells) float64
        Rows, weight and squared weight, by decision (negative, positive) and cell, as
        :func:`fairboost.metrics.comparisons.tally` and
        :mod:`fairboost.metrics.score_counts` count them.
    threshold : float
        Where decisions were made.
    chosen : ChosenThreshold, optional
        How it was chosen.
    rates, by, confidence, min_rows, min_group_rows
        As in :func:`audit`.
    """
    asked = _as_rates(rates)
    compared = compare_sums(cells, sums, by)
    table = rate_table(compared, asked, confidence, "wilson")
    table["small"] = table["rows"] < min_rows
    gaps = gap_table(compared[1:], asked, confidence, min_group_rows)
    whole = [RATES["fpr"], RATES["tpr"], RATES["ppr"], PRECISION]
    lines = rate_table(compared[:1], whole, confidence, "wilson").to_dict("records")
    everyone = {line["rate"]: _estimate(line, "value", confidence) for line in lines}
    shown = threshold, confidence, min_rows, everyone, chosen
    return Audit(table, gaps, *shown, min_group_rows=min_group_rows)


def _compare(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    pos_label: object,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
    by: By | None,
) -> list[Comparison]:
    """Everyone first, then what ``by`` asks for."""
    given = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": sensitive_features}
    check_same_rows(**given, sample_weight=sample_weight)
    labels, positive = read_decisions(y_true, y_pred, pos_label)
    columns = read_compared(sensitive_features, labels, by)
    weight = read_weights(sample_weight, len(labels))
    cells = build_cells(labels, columns, weight)
    return compare_sums(cells, tally(cells, positive, weight), by)


def read_compared(
    sensitive_features: ArrayLike, labels: IntArray, by: By | None
) -> list[SensitiveColumn]:
    """Sensitive columns, those that ``by`` names by ``smooth`` as windows of numbers."""
    asked = smooth_columns(by)
    columns = read_sensitive_features(sensitive_features, len(labels), asked)
    rarer = np.bincount(labels, minlength=2).argmin()
    return [
        c
        if c.numbers is None
        else with_windows(c, place_knots(c.name, c.numbers, asked[c.name].knots, labels == rarer))
        for c in columns
    ]


def _only(compared: list[Comparison]) -> list[Comparison]:
    """Drop everyone, and insist on one comparison."""
    if len(compared) != 2:
        raise InvalidInputError(
            "a gap or ratio compares the groups of one attribute, found "
            f"{[c.attribute for c in compared[1:]]}; choose one with by=, or call audit for all"
        )
    return compared[1:]


def _as_rates(rates: RateNames) -> list[Rate]:
    names = [rates] if isinstance(rates, str | Rate) else rates
    if not names:
        raise InvalidInputError(f"rates is empty; name one or more of {', '.join(RATES)}")
    found = dict.fromkeys(map(as_rate_or_precision, names))
    return sorted(found, key=lambda rate: rate == PRECISION)


def as_rate_or_precision(rate: str | Rate) -> Rate:
    """As :func:`fairboost.fairness.rates.as_rate`, and precision."""
    name = rate.lower() if isinstance(rate, str) else None
    return PRECISION if name == PRECISION.name else as_rate(rate, (PRECISION.name,))


def _estimate(line: Mapping[Hashable, Any], name: str, confidence: float) -> Estimate:
    """A figure in a line of a table; the ends of a gap or ratio bear its name."""
    prefix = "" if name == "value" else f"{name}_"
    return Estimate(line[name], line[f"{prefix}low"], line[f"{prefix}high"], confidence)
