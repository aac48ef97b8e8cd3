"""Audit of a number that is predicted: means, actual over expected, losses and distributions.

Everything is per unit of exposure, and rows weigh by it, as in training
(:mod:`fairboost.tasks.regression`). With r the prediction of a row and a what was actual, a group
has the figures::

    mean_prediction   mean of r
    mean_actual       mean of a
    a_over_e          mean of a over mean of r: the A/E ratio of actuaries
    mean_loss         mean squared error, or mean deviance
    distance          largest difference of its distribution of r from everyone's (Kolmogorov and
                      Smirnov's), at quantiles of everyone's

and groups are compared by what constraints hold to a limit (:mod:`fairboost.fairness.numbers`).
Intervals follow from the sampling laws of :mod:`fairboost.metrics.sampling`: Student's of means,
the delta method for A/E, which knows how far prediction and actual figure go together, and
Wilson-like errors of shares for distances, at all quantiles at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairboost._text import (
    Part,
    escape_markdown,
    interval,
    parts_as_html,
    parts_as_markdown,
    places,
)
from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.data.cells import EVERYONE, Cells, build_cells
from fairboost.data.validation import check_numbers, read_targets
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.means import levels
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import N_LEVELS, Calibrated
from fairboost.kernel.losses import Loss
from fairboost.metrics.comparisons import crossings_of, not_compared
from fairboost.metrics.intervals import Estimate, check_confidence
from fairboost.metrics.sampling import (
    MeanLaw,
    distances_at_once,
    errors_of_violations,
    judge_distances,
    judge_farthest_ratio,
    judge_gap,
    judge_over_expected,
    law_of,
)
from fairboost.metrics.sums import crossing_name, group_names, quotient
from fairboost.tasks.regression import Regression, placing, quantiles

MEANS = ("mean_prediction", "mean_actual", "mean_loss")
FIGURES = ("mean_prediction", "mean_actual", "a_over_e", "mean_loss", "distance")
"""Figures of a group, in the order of tables."""

DECILES = 10
"""Parts of everyone's predictions in which actual and expected are compared."""

COMPARED = {
    "mean_prediction": "gap of mean predictions",
    "mean_actual": "gap of what was actual",
    "mean_loss": "gap of mean losses",
    "a_over_e": "farthest A/E from 1",
    "distance": "largest distance of distributions",
}
"""How groups are compared by each figure, in words."""

LOSS_TITLES = {
    "squared": "squared error",
    "absolute": "absolute error",
    "quantile": "quantile loss",
    "huber": "Huber loss",
    "pseudo_huber": "pseudo-Huber loss",
    "poisson": "Poisson deviance",
    "gamma": "gamma deviance",
    "tweedie": "Tweedie deviance",
}
"""What the mean of a loss is called."""

BY_NAME = {
    "squared": Loss("squared"),
    "absolute": Loss("absolute"),
    "poisson": Loss("poisson"),
    "gamma": Loss("gamma"),
    "tweedie": Loss("tweedie", 1.5),
}
"""Losses that users name; the power of Tweedie's is the default of LightGBM and XGBoost."""


@dataclass(frozen=True, eq=False)
class NumberAudit:
    """What :func:`audit_numbers` found; print it, or put :meth:`to_markdown` in a report.

    Parameters
    ----------
    by_group : pandas.DataFrame
        One line per ``attribute`` and ``group``, "everyone" first with attribute ``""``: ``rows``,
        ``exposure`` (the weight of the rows, by exposure), then ``mean_prediction``,
        ``mean_actual``, ``a_over_e``, ``mean_loss`` and ``distance``, each with its ends ``_low``
        and ``_high``, and ``small``: fewer than ``min_rows`` rows. Undefined figures are NaN: the
        distance of everyone and of groups that are not compared, and A/E where the mean
        prediction is 0 or cannot be distinguished from 0.
    by_decile : pandas.DataFrame
        Actual over expected by ``attribute``, ``group`` and ``decile`` of everyone's predictions,
        1 the lowest: ``rows``, ``exposure``, the totals ``expected`` and ``actual``, ``a_over_e``
        with ``_low`` and ``_high``, and ``small``. Deciles in which a group has no row are in it,
        with 0 rows.
    gaps : pandas.DataFrame
        One line per ``attribute`` and ``figure``: ``value`` with ``low`` and ``high``,
        ``lowest_group`` and ``highest_group`` by the figure of groups. Of means and losses it is
        the largest difference, of A/E the largest distance from 1, of distributions the largest
        distance.
    overall : dict of str to Estimate
        ``mean_prediction``, ``mean_actual``, ``a_over_e`` and ``mean_loss`` of everyone.
    loss : str
        What ``mean_loss`` is the mean of, in words: ``"squared error"``, ``"Poisson deviance"``.
    confidence, min_rows, min_group_rows : float
        As given to :func:`audit_numbers`.
    has_exposure : bool
        Whether means are per unit of exposure.

    Examples
    --------
    >>> found = audit_numbers([1.0, 3.0, 2.0, 2.0], [2.0] * 4, sensitive_features=list("FFMM"))
    >>> found.by_group.set_index("group")["a_over_e"].to_dict()
    {'everyone': 1.0, 'F': 1.0, 'M': 1.0}
    """

    by_group: pd.DataFrame
    by_decile: pd.DataFrame
    gaps: pd.DataFrame
    overall: dict[str, Estimate]
    loss: str
    confidence: float
    min_rows: int
    min_group_rows: int = 30
    has_exposure: bool = False

    def to_markdown(self, deciles: bool = True) -> str:
        """Give the audit as Markdown tables, aligned so that they read well as plain text too.

        Parameters
        ----------
        deciles : bool, default=True
            Whether actual over expected by group and decile is among them.
        """
        return parts_as_markdown(self._parts(deciles, escape_markdown))

    __str__ = to_markdown

    def _repr_html_(self) -> str:
        return parts_as_html(self._parts())

    def _parts(self, deciles: bool = True, escape: Callable[[str], str] = str) -> list[Part]:
        """What is printed; ``escape`` is for names in sentences."""
        parts = [self._head(), self._groups(), self._compared()]
        return [*parts, *([self._deciles()] if deciles else []), self._left_out(escape)]

    def _head(self) -> str:
        per = ", per unit of exposure" if self.has_exposure else ""
        return (
            f"Means{per}. Loss: {self.loss}. Intervals: {self.confidence:g}. "
            f"Small: fewer than {self.min_rows} rows."
        )

    def _groups(self) -> Part:
        digits = {name: _digits(self.by_group, name) for name in FIGURES}
        lines = [
            [
                line["attribute"],
                line["group"] + _small(line),
                f"{line['rows']:,}",
                *(_shown(line, name, digits[name]) for name in FIGURES),
            ]
            for line in self.by_group.to_dict("records")
        ]
        titles = ["mean prediction", "mean actual", "A/E", "mean loss", "distance"]
        return ["attribute", "group", "rows", *titles], lines

    def _compared(self) -> Part:
        lines = [
            [
                line["attribute"],
                COMPARED[line["figure"]],
                _shown(line, "value", places(line["value"], line["low"], line["high"]), ""),
                *(line[f"{end}_group"] for end in ("lowest", "highest")),
            ]
            for line in self.gaps.to_dict("records")
        ]
        return ["attribute", "figure", "value", "lowest", "highest"], lines

    def _deciles(self) -> Part:
        whole = places(*self.by_decile["expected"], *self.by_decile["actual"])
        digits = max(whole - 3, 0)
        lines = [
            [
                line["attribute"],
                line["group"],
                f"{line['decile']}{_small(line)}",
                f"{line['rows']:,}",
                *(f"{line[total]:,.{digits}f}" for total in ("expected", "actual")),
                _shown(line, "a_over_e", 3),
            ]
            for line in self.by_decile.to_dict("records")
        ]
        titles = ["attribute", "group", "decile", "rows", "expected", "actual", "A/E"]
        return titles, lines

    def _left_out(self, escape: Callable[[str], str]) -> str:
        """Name the groups that are shown and not compared."""
        few = self.by_group[self.by_group["rows"] < self.min_group_rows].query("attribute != ''")
        named = (
            f"{escape(a)} = {escape(g)} ({n} rows)"
            for a, g, n in few[["attribute", "group", "rows"]].itertuples(index=False)
        )
        return not_compared(named, self.min_group_rows)


def audit_numbers(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    exposure: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    loss: str | Loss | None = None,
    by: str | Sequence[str | Sequence[str]] | None = None,
    confidence: float = 0.95,
    min_rows: int = 30,
    min_group_rows: int = 30,
) -> NumberAudit:
    """Means, A/E, losses and distributions of predicted numbers by group, with intervals.

    Parameters
    ----------
    y_true : (n,) array
        The numbers that were to be predicted.
    y_pred : (n,) array
        What was predicted, in the unit of ``y_true``. With exposures these are counts or amounts,
        ``model.predict(X, exposure=exposure)``, and not rates.
    sensitive_features : column, table or dict of columns
        The sensitive attributes of the rows.
    exposure : (n,) array, optional
        Exposure of each row, such as years insured. All means are then per unit of exposure, and
        rows are weighted by exposure.
    sample_weight : (n,) array, optional
        Weights of the rows; 0 leaves one out.
    loss : {"squared", "absolute", "poisson", "gamma", "tweedie"} or Loss, optional
        The loss whose mean is reported; by default the squared error, or the Poisson deviance if
        there are exposures. The Tweedie deviance has the power 1.5.
    by : str, tuple of str, or list of these, optional
        Groups to compare; every sensitive column by itself if left out. A tuple is a crossing.
    confidence : float
        Nominal coverage of the intervals.
    min_rows : int
        Rows that a group must have not to be marked as small.
    min_group_rows : int
        Rows that a group must have to be compared with others; those with fewer are reported.

    Returns
    -------
    NumberAudit

    Notes
    -----
    Each interval of a mean or of A/E holds by itself. How often those of A/E held the truth at
    95%, in 1000 samples of Poisson counts with exposures, by the events expected in the group::

        3 events    90%
        9 events    92%
        30 events   95%
        300 events  96%

    Deciles of small groups have few events, so their intervals are a little too short. The
    interval of the farthest A/E from 1 holds for all groups at once, and held in 94% of samples or
    more where groups had some nine events.

    How often the low end of the largest distance was above 0 in samples of groups that were equal,
    where 5% are to be expected (1000 samples, 400 of the last; rows are of each group)::

        rows         20   100   150   600   5,000
        2 groups     3%    5%    5%    6%      7%
        3 groups     3%    5%    6%    5%      5%
        5 groups     7%    5%    4%    7%      7%

    ``benchmarks/verdicts.md`` has all intervals, also of groups that are apart.

    Examples
    --------
    >>> y, predicted = [1.0, 3.0, 2.0, 6.0] * 50, [2.0, 2.0, 4.0, 4.0] * 50
    >>> found = audit_numbers(y, predicted, sensitive_features={"sex": list("FFMM") * 50})
    >>> print(found.gaps[["figure", "value", "low", "high"]].round(3).to_string(index=False))
             figure  value   low  high
    mean_prediction    2.0 2.000 2.000
        mean_actual    2.0 1.554 2.446
          mean_loss    3.0 3.000 3.000
           a_over_e    0.0 0.000 0.105
           distance    0.5 0.451 0.500
    """
    check_confidence(confidence)
    rows = _read(y_true, y_pred, sensitive_features, exposure, sample_weight, loss)
    compared = [
        _GroupsCompared(rows, columns, confidence, min_group_rows)
        for columns in crossings_of(by, list(rows.cells.groups))
    ]
    by_group = pd.concat([c.figures() for c in compared], ignore_index=True)
    by_decile = pd.concat([c.deciles() for c in compared], ignore_index=True)
    for table in (by_group, by_decile):
        table["small"] = table["rows"] < min_rows
    gaps = pd.concat([c.gaps() for c in compared[1:]], ignore_index=True)
    first = by_group.iloc[0]
    overall = {
        n: Estimate(
            float(first[n]), float(first[f"{n}_low"]), float(first[f"{n}_high"]), confidence
        )
        for n in FIGURES[:-1]
    }
    shown = LOSS_TITLES[rows.loss.name], confidence, min_rows, min_group_rows
    return NumberAudit(by_group, by_decile, gaps, overall, *shown, exposure is not None)


def mean_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    exposure: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    loss: str | Loss | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Mean loss of everyone, with its interval, as in :func:`audit_numbers`.

    Parameters
    ----------
    y_true, y_pred, exposure, sample_weight, loss, confidence
        As in :func:`audit_numbers`.

    Examples
    --------
    >>> mean_loss([1.0, 2.0, 3.0], [1.0, 2.0, 5.0]).value
    1.3333333333333333
    """
    rows = _read(y_true, y_pred, None, exposure, sample_weight, loss)
    found = rows.moments(np.zeros(len(rows.weight), np.int32), 1)
    low, high = found.ends(confidence)
    return Estimate(float(found.means[2, 0]), float(low[2, 0]), float(high[2, 0]), confidence)


@dataclass(frozen=True)
class _NumberRows:
    """Rows with their quantities, those of weight 0 left out.

    Parameters
    ----------
    cells : Cells
        Groups of the rows.
    quantities : (3, n) float64
        Prediction, actual figure and loss of each row, per unit of exposure.
    weight : (n,) float64
        By exposure.
    loss : Loss
        The loss.
    """

    cells: Cells
    quantities: FloatArray
    weight: FloatArray
    loss: Loss

    @cached_property
    def ratio_told(self) -> bool:
        """Whether what was actual has one sign, so that ratios have a meaning."""
        actual = self.quantities[1]
        return bool((actual >= 0).all() or (actual <= 0).all())

    @cached_property
    def decile(self) -> IntArray:
        """Tenth of everyone's predictions that each row lies in, from 0."""
        return self._part(levels(DECILES - 1), slice(None))

    @cached_property
    def level(self) -> IntArray:
        """How many of the quantiles at which distributions are compared are at most each row's."""
        return self._part(levels(N_LEVELS), placing(len(self.weight)))

    def _part(self, wanted: FloatArray, at: slice) -> IntArray:
        """Between which quantiles each prediction lies, given the rows that place these."""
        # In single precision: what is equal per unit stays so, however products were rounded.
        predicted = self.quantities[0].astype(np.float32)
        cuts = quantiles(predicted[at], self.weight[at], wanted)
        out: IntArray = np.searchsorted(cuts, predicted, side="right").astype(np.int32)
        return out

    def moments(self, places: IntArray, n: int) -> _GroupMeans:
        """Means at n places, given the place of each row; -1 is none."""
        known = places >= 0
        at, w, q = places[known], self.weight[known], self.quantities[:, known]

        def total(values: FloatArray) -> FloatArray:
            out: FloatArray = np.bincount(at, values, n).astype(np.float64)
            return out

        weight, count = total(w), np.bincount(at, minlength=n)
        rows = quotient(weight**2, total(w * w))
        means = np.stack([quotient(total(w * x), weight) for x in q])
        squares = np.stack([quotient(total(w * x * x), weight) for x in q])
        together = quotient(total(w * q[0] * q[1]), weight)
        variances = Regression(self.loss).variances(means, squares, rows)
        covariance = together - means[0] * means[1]
        above_0 = np.array([[self.loss.log_link]] * 2 + [[True]])
        amounts = np.broadcast_to(above_0, means.shape)
        return _GroupMeans(count, weight, rows, means, variances, covariance, amounts)


@dataclass(frozen=True)
class _GroupMeans:
    """Means of quantities at some places, and what their errors follow from."""

    count: IntArray
    weight: FloatArray
    rows: FloatArray
    means: FloatArray
    variances: FloatArray
    covariance: FloatArray
    amounts: BoolArray
    """Of each mean, whether no quantity is below 0."""

    def among(self, which: Any) -> _GroupMeans:
        """Those of some places."""
        parts = {name: value[..., which] for name, value in vars(self).items()}
        return _GroupMeans(**parts)

    @property
    def law(self) -> MeanLaw:
        """Of all three means."""
        counted = np.broadcast_to(self.rows, self.means.shape)
        found = law_of(self.variances, counted, amounts=self.amounts)
        assert isinstance(found, MeanLaw)
        return found

    def ends(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Intervals of the means."""
        return self.law.interval(self.means, self._telling(3), confidence)

    def ratios(self, told: bool) -> tuple[FloatArray, FloatArray]:
        """Actual over expected, and its standard error; NaN where it has no meaning.

        Where targets have both signs, a mean prediction that cannot be told from 0 has none.
        """
        expected, least = self.means[0], 2.0 * np.sqrt(self.variances[0] / self.rows)
        sound = expected != 0 if told else np.abs(expected) > least
        value, error = np.full((2, len(expected)), np.nan)
        if sound.any():
            kept = self.among(sound)
            v, s = kept.calibration()
            value[sound], error[sound] = 1.0 + v, s
        return value, error

    def calibration(self) -> tuple[FloatArray, FloatArray]:
        """How far actual over expected is above 1 at each place, and the standard error of it."""
        pairs = np.array(
            [[self.variances[0], self.covariance], [self.covariance, self.variances[1]]]
        )
        read = GroupMoments(
            self.means[:2], np.broadcast_to(self.weight, (2, len(self.weight))), ()
        )
        law = law_of(pairs, self._telling(2))
        ratio = Calibrated(0.0).as_judged
        v, errors = errors_of_violations(ratio, read, self._telling(2), law)
        n = len(self.weight)
        return v[:n], errors[:n]

    def _telling(self, n: int) -> FloatArray:
        return np.tile(self.rows, (n, 1))


class _GroupsCompared:
    """Groups of one attribute, or everyone."""

    def __init__(
        self, rows: _NumberRows, columns: tuple[str, ...], confidence: float, min_group_rows: int
    ) -> None:
        self.rows, self.confidence = rows, confidence
        groups = rows.cells.groups_by(columns)
        self.attribute, self.names = crossing_name(columns), group_names(groups)
        self.codes = groups.of_cell[rows.cells.codes]
        self.moments = rows.moments(self.codes, len(groups))
        self.held = (self.moments.count >= min_group_rows) & (len(groups) > 1)
        self.alone = columns == EVERYONE

    def figures(self) -> pd.DataFrame:
        """One line per group."""
        found = self.moments
        low, high = found.ends(self.confidence)
        columns: dict[str, Any] = dict(
            zip(MEANS, zip(found.means, low, high, strict=True), strict=True)
        )
        ratio, error = found.ratios(self.rows.ratio_told)
        columns["a_over_e"] = (
            ratio,
            *judge_over_expected(ratio, error, found.rows, self.confidence),
        )
        apart = np.full((3, len(self.names)), np.nan)
        if self.held.sum() >= 2:
            apart[:, self.held] = [f.max(axis=0) for f in self._apart(n_groups=1)]
        columns["distance"] = tuple(apart)
        table = {"attribute": self.attribute, "group": list(self.names), "rows": found.count}
        table["exposure"] = found.weight
        for name in FIGURES:
            ends = (name, f"{name}_low", f"{name}_high")
            table |= dict(zip(ends, columns[name], strict=True))
        return pd.DataFrame(table)

    def deciles(self) -> pd.DataFrame:
        """Actual over expected by group and decile."""
        rows, n = self.rows, len(self.names)
        parts = []
        for k in range(DECILES):
            found = rows.moments(np.where(rows.decile == k, self.codes, -1), n)
            ratio, error = np.full((2, n), np.nan)
            if (some := found.count > 0).any():
                ratio[some], error[some] = found.among(some).ratios(rows.ratio_told)
            totals = np.nan_to_num(found.means[:2]) * found.weight
            ends = judge_over_expected(ratio, error, found.rows, self.confidence)
            parts.append([found.count, found.weight, *totals, ratio, *ends])
        names = ["rows", "exposure", "expected", "actual"]
        names += ["a_over_e", "a_over_e_low", "a_over_e_high"]
        figures = np.moveaxis(np.array(parts), 0, 2).reshape(len(names), -1)  # group by group
        table = pd.DataFrame(dict(zip(names, figures, strict=True)))
        table["rows"] = table["rows"].astype(np.int64)
        table.insert(0, "decile", np.tile(np.arange(1, DECILES + 1), n))
        table.insert(0, "group", np.repeat(self.names, DECILES))
        table.insert(0, "attribute", self.attribute)
        return table

    def gaps(self) -> pd.DataFrame:
        """One line per figure that groups are compared by."""
        lines = [self._gap(name, k) for k, name in enumerate(MEANS)]
        ratio, error = self.moments.ratios(self.rows.ratio_told)
        sound = self.held & ~np.isnan(ratio)
        found: Sequence[float] = (np.nan,) * 3
        if sound.sum() >= 2:
            rows = self.moments.rows[sound]
            found = judge_farthest_ratio(ratio[sound], error[sound], rows, self.confidence)
        lines.append(self._line("a_over_e", found, ratio, sound))
        found, apart = (np.nan,) * 3, np.full(len(self.names), np.nan)
        if (count := int(self.held.sum())) >= 2:
            size, low, high = self._apart(n_groups=count)
            found, apart[self.held] = (size.max(), low.max(), high.max()), size.max(axis=0)
        lines.append(self._line("distance", found, apart, self.held))
        titles = ["attribute", "figure", "value", "low", "high"]
        return pd.DataFrame(lines, columns=[*titles, "lowest_group", "highest_group"])

    def _gap(self, name: str, k: int) -> list[str | float]:
        """The largest difference of a mean."""
        found = self.moments.among(self.held)
        figures: Sequence[float] = [np.nan] * 3
        if len(found.rows) >= 2:
            figures = judge_gap(found.means[k], found.rows, self.confidence, found.law.at(k))
        return self._line(name, figures, self.moments.means[k], self.held)

    def _line(
        self, name: str, figures: Sequence[float], values: FloatArray, held: Any
    ) -> list[str | float]:
        """A line of the table of gaps, with the groups that are farthest apart."""
        extremes = ["", ""]
        if held.sum() >= 2:
            own = np.where(held, values, np.nan)
            extremes = [self.names[find(own)] for find in (np.nanargmin, np.nanargmax)]
        return [self.attribute, name, *map(float, figures), *extremes]

    def _apart(self, n_groups: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """How far each share above a quantile is from everyone's, with ends, (n_levels, n_held).

        Everyone is all groups that are compared, as in the constraint. Low ends hold together for
        so many groups.
        """
        found, n = self.moments.among(self.held), len(self.names)
        at = np.where(self.codes >= 0, self.rows.level * n + self.codes, -1)
        weight = np.bincount(at[at >= 0], self.rows.weight[at >= 0], (N_LEVELS + 1) * n)
        above = weight.reshape(N_LEVELS + 1, n)[::-1].cumsum(axis=0)[::-1][1:, self.held]
        shares = np.clip(above / found.weight, 0.0, 1.0)
        read = GroupMoments(shares, np.broadcast_to(found.weight, shares.shape), ())
        rows = np.broadcast_to(found.rows, shares.shape)
        return judge_distances(
            shares, read, rows, self.confidence, distances_at_once(N_LEVELS, n_groups)
        )


def _read(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike | None,
    exposure: ArrayLike | None,
    sample_weight: ArrayLike | None,
    loss: str | Loss | None,
) -> _NumberRows:
    """Check rows, and work out their quantities."""
    predicted = read_targets(y_pred, "y_pred")
    targets = read_targets(y_true, "y_true")
    # What the checks of training rows call X are predictions here: one column of them.
    data = check_numbers(
        predicted[:, np.newaxis], targets, sensitive_features, sample_weight, exposure
    )
    asked = ("squared" if exposure is None else "poisson") if loss is None else loss
    used = as_loss(asked)
    check_in_range(used, targets, predicted)
    years = np.ones(len(targets)) if data.exposure is None else data.exposure
    weight = years if data.sample_weight is None else years * data.sample_weight
    quantities = np.stack([predicted, targets, losses_of(used, targets, predicted)]) / years
    kept = weight > 0
    columns = [replace(c, codes=c.codes[kept]) for c in data.columns]
    cells = build_cells(data.labels[kept], columns, weight[kept])
    return _NumberRows(cells, quantities[:, kept], weight[kept], used)


def as_loss(loss: str | Loss) -> Loss:
    """A loss by name.

    Examples
    --------
    >>> as_loss("poisson").log_link
    True
    """
    if isinstance(loss, Loss):
        return loss
    if loss not in BY_NAME:
        known = ", ".join(map(repr, BY_NAME))
        raise InvalidInputError(f"unknown loss {loss!r}; expected one of {known}")
    return BY_NAME[loss]


def losses_of(loss: Loss, y: FloatArray, predicted: FloatArray) -> FloatArray:
    """Squared error, deviance or loss of each row, as in training.

    Examples
    --------
    >>> losses_of(Loss("squared"), np.array([1.0]), np.array([3.0]))
    array([4.])
    """
    scores = np.log(predicted) if loss.log_link else predicted
    out: FloatArray = Regression(loss).of_deviance * loss.value(scores, y)
    return out


def check_in_range(loss: Loss, y: FloatArray, predicted: FloatArray) -> None:
    """Refuse numbers of which a loss has no value."""
    strict = loss.name == "gamma"
    for name, numbers, above in (("y_true", y, strict), ("y_pred", predicted, True)):
        wrong = numbers <= 0 if above else numbers < 0
        if loss.log_link and wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInputError(
                f"{name} must be {'above 0' if above else '0 or more'} for the "
                f"{LOSS_TITLES[loss.name]}, found {numbers[row]:g} in row {row}; leave such rows "
                "out, or pass loss='squared'"
            )


def _shown(line: Mapping[Any, Any], name: str, digits: int, prefix: str | None = None) -> str:
    """A figure of a table with its interval."""
    if np.isnan(line[name]):
        return ""
    start = f"{name}_" if prefix is None else prefix
    return interval(line[name], line[f"{start}low"], line[f"{start}high"], digits)


def _digits(table: pd.DataFrame, name: str) -> int:
    """Decimals of a column; of ratios and shares three."""
    return 3 if name in ("a_over_e", "distance") else max(places(*table[name]) - 1, 0)


def _small(line: Mapping[Any, Any]) -> str:
    return " (small)" if line["small"] else ""
