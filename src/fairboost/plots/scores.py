"""Scores by group: ROC curves, distributions by label, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.data.validation import check_same_rows, read_targets
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics.decisions import HALF, ScoredRows, are_probabilities, read_scored
from fairboost.metrics.numbers import audit_numbers
from fairboost.metrics.score_bins import ScoreBins, bin_scores, make_edges
from fairboost.metrics.thresholds import choose
from fairboost.plots.numbers import (
    choose_column,
    decile_table,
    predict_numbers,
)
from fairboost.plots.style import (
    COLOURS,
    GREY,
    MOST_LABELLED,
    PLAIN_TEXT,
    Display,
    arms,
    fold,
    labelled,
    look,
    new_axes,
    plain_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_LOOKS = ((COLOURS[1], "--"), (COLOURS[0], "-"))
"""Of the negative and the positive label."""

NUMBER_AXES = "mean prediction", "mean of what was actual"
EXPOSURE_AXES = "mean prediction per unit of exposure", "actual per unit of exposure"
"""What the axes are called where a number is predicted."""

MOST_INTERVALS = 4
"""Groups whose intervals are drawn; those of more hide each other, and are in the table."""


class _ScoredRowsDisplay(Display):
    """A display that scores rows by a fitted model, if it is given one."""

    from_predictions: ClassVar[Any]
    _marks_threshold: ClassVar[bool] = True

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> Self:
        """Score rows by a fitted model, and draw.

        Parameters
        ----------
        model : classifier
            Fitted, with ``predict_proba``. Its positive label is the positive one, and its
            ``threshold_``, else 0.5, is marked where thresholds are. A display of calibration
            takes a regressor, too.
        X, y, sensitive_features
            The rows.
        **options
            Of ``from_predictions``.
        """
        if not hasattr(model, "predict_proba"):
            return cls._from_regressor(model, X, y, sensitive_features, **options)
        if len(model.classes_) > 2:
            raise InvalidInputError(
                f"{cls.__name__} shows the probability of one of two labels, and "
                f"{type(model).__name__} gives one of {len(model.classes_)} classes; use "
                "GroupConfusionDisplay or GroupRatesDisplay"
            )
        if cls._marks_threshold:
            options.setdefault("threshold", float(getattr(model, "threshold_", 0.5)))
        positive = getattr(model, "pos_label_", model.classes_[1])
        options = {"pos_label": positive, **options}
        options["sensitive_features"] = sensitive_features
        scores = np.asarray(model.predict_proba(X))[:, list(model.classes_).index(positive)]
        drawn: Self = cls.from_predictions(y, scores, **options)
        return drawn

    @classmethod
    def _from_regressor(
        cls, model: Any, X: Matrix, y: ArrayLike, sensitive_features: ArrayLike, **options: Any
    ) -> Self:
        """Refuse what predicts a number, which has no decisions."""
        raise InvalidInputError(
            f"{cls.__name__} shows probabilities, and {type(model).__name__} has no "
            "predict_proba; for a number that is predicted use GroupPredictionsDisplay, "
            "GroupCalibrationDisplay or GroupRatesDisplay"
        )


class GroupRocDisplay(_ScoredRowsDisplay):
    """The ROC curve of every group, and where on it decisions are made.

    One threshold for all groups is a different point on each curve. If the marks are far apart, so
    are the error rates of the groups.

    Parameters
    ----------
    table : pandas.DataFrame
        ``group``, ``fpr``, ``tpr``: the points of each curve, in order.
    points : pandas.DataFrame, optional
        ``group``, ``fpr``, ``tpr``: where decisions are made, one line per group.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupRocDisplay
    >>> y, score = [0, 0, 1, 1] * 50, [0.1, 0.6, 0.4, 0.9, 0.1, 0.2, 0.7, 0.9] * 25
    >>> sex = list("FFFFMMMM") * 25
    >>> display = GroupRocDisplay.from_predictions(y, score, sensitive_features=sex)
    >>> display.ax_.get_xlabel()
    'false positive rate'
    """

    def __init__(self, table: pd.DataFrame, points: pd.DataFrame | None = None) -> None:
        self.table = table
        self.points = points

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: str | None = None,
        threshold: float | OperatingPoint | Literal["auto"] | None = "auto",
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        ax: Axes | None = None,
    ) -> GroupRocDisplay:
        """Compute the curves and draw them.

        Parameters
        ----------
        y_true, y_score : (n,) array
            Labels; probabilities of the positive one, or scores that rise with it.
        sensitive_features : column, table or dict of columns
            The sensitive attributes of the rows.
        by : str, optional
            The column whose groups to show; needed if there are several.
        threshold : float, OperatingPoint, "auto" or None
            Where decisions are made; None marks nothing. ``"auto"`` is 0.5 if all scores lie
            between 0 and 1, and otherwise marks nothing.
        sample_weight, pos_label
            As in :func:`fairboost.metrics.group_rates`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        bins, where, _ = _bin_rows(
            y_true, y_score, sensitive_features, by, sample_weight, pos_label, threshold
        )
        return cls(bins.roc(), None if where is None else bins.at(where)).plot(ax)

    def plot(self, ax: Axes | None = None) -> GroupRocDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = self.table["group"].unique().tolist()
        ax = _unit_square(ax, groups, "false positive rate", "true positive rate")
        points = self.table.iloc[:0] if self.points is None else self.points
        for k, group in enumerate(groups):
            part, at = (table[table["group"] == group] for table in (self.table, points))
            style, named = look(k), k < MOST_LABELLED
            marker = style.pop("marker")
            ax.plot(part["fpr"], part["tpr"], linewidth=1.4 if named else 0.8, zorder=2, **style)
            # One handle for line and mark.
            style |= {"marker": marker, "label": labelled(group) if named else None}
            ax.plot(at["fpr"], at["tpr"], markersize=7, zorder=3, **style)
        return self._finish(ax)


class GroupScoresDisplay(_ScoredRowsDisplay):
    """Scores of every group, one outline for each label; groups are stacked from top to bottom.

    Parameters
    ----------
    table : pandas.DataFrame
        ``group``, ``label`` (0 and 1), ``low`` and ``high`` of each bin, and the ``share`` of the
        group's rows of this label in it.
    threshold : float, optional
        Where decisions are made.
    labels : (str, str)
        Names of the negative and the positive label.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupScoresDisplay
    >>> y, score = [0, 0, 1, 1] * 50, [0.1, 0.6, 0.4, 0.9, 0.1, 0.2, 0.7, 0.9] * 25
    >>> sex = list("FFFFMMMM") * 25
    >>> display = GroupScoresDisplay.from_predictions(y, score, sensitive_features=sex)
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['F', 'M']
    """

    def __init__(
        self,
        table: pd.DataFrame,
        threshold: float | None = None,
        labels: tuple[str, str] = ("0", "1"),
    ) -> None:
        self.table = table
        self.threshold = threshold
        self.labels = labels

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: str | None = None,
        threshold: float | OperatingPoint | Literal["auto"] | None = "auto",
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        ax: Axes | None = None,
    ) -> GroupScoresDisplay:
        """Count the scores and draw them.

        Parameters
        ----------
        y_true, y_score, sensitive_features, by, threshold, sample_weight, pos_label
            As in :meth:`GroupRocDisplay.from_predictions`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        bins, where, rows = _bin_rows(
            y_true, y_score, sensitive_features, by, sample_weight, pos_label, threshold
        )
        positive, *other = map(str, rows.known)
        return cls(bins.histogram(), where, (other[0] if other else "others", positive)).plot(ax)

    def plot(self, ax: Axes | None = None) -> GroupScoresDisplay:
        """Draw the distributions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = self.table["group"].unique().tolist()
        ax = ax or new_axes(6.4, 1.4 + 0.55 * len(groups))
        for k, group in enumerate(groups):
            ax.axhline(k, color=GREY, linewidth=0.5, zorder=1)
            for label, (colour, line) in enumerate(LABEL_LOOKS):
                part = self.table[(self.table["group"] == group) & (self.table["label"] == label)]
                if not part["share"].any():
                    continue
                edges = np.append(part["low"].to_numpy(), part["high"].iloc[-1])
                # Density, so that bins of unequal width compare; the highest fills its line.
                height = part["share"].to_numpy() / np.diff(edges)
                values = k - 0.85 * height / height.max()
                name = f"{('negative', 'positive')[label]} label ({self.labels[label]})"
                ax.stairs(values, edges, baseline=k, fill=True, color=colour, alpha=0.18)
                ax.stairs(
                    values, edges, baseline=k, color=colour, linestyle=line, linewidth=1.3,
                    label=name if k == 0 else None,
                )  # fmt: skip
        if self.threshold is not None:
            ax.axvline(
                self.threshold, color=GREY, linewidth=1.2, linestyle="-.", label="threshold"
            )
        ax.set_yticks(np.arange(len(groups)) - 0.4, list(map(fold, groups)), **PLAIN_TEXT)
        ax.tick_params(axis="y", length=0)
        ends = self.table["low"].min(), self.table["high"].max()
        ax.set(xlabel="score", xlim=ends, ylim=(len(groups) - 0.9, -1.0))  # the first on top
        ax.grid(axis="x", alpha=0.3)
        return self._finish(ax)


class GroupCalibrationDisplay(_ScoredRowsDisplay):
    """The share of positive labels against the mean probability, for every group.

    On the dotted line the two are equal. Above it the label was positive more often than the model
    predicted. For predicted numbers, the display shows the mean actual number against the mean
    prediction.

    Parameters
    ----------
    table : pandas.DataFrame
        ``group``, ``predicted``, ``found``, ``low`` and ``high``, one line per group and bin.
    titles : (str, str), optional
        What the axes are called, where a number is predicted; they then reach as far as the
        figures do.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupCalibrationDisplay
    >>> y, score = [0, 0, 1, 1] * 50, [0.1, 0.6, 0.4, 0.9, 0.1, 0.2, 0.7, 0.9] * 25
    >>> sex = list("FFFFMMMM") * 25
    >>> display = GroupCalibrationDisplay.from_predictions(y, score, sensitive_features=sex)
    >>> display.ax_.get_ylabel()
    'share of positive labels'
    """

    _marks_threshold = False

    def __init__(self, table: pd.DataFrame, titles: tuple[str, str] | None = None) -> None:
        self.table = table
        self.titles = titles

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: str | None = None,
        n_bins: int = 10,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> GroupCalibrationDisplay:
        """Compute the shares and draw them.

        Parameters
        ----------
        y_true, y_prob : (n,) array
            Labels; probabilities of the positive one.
        sensitive_features, by, sample_weight, pos_label
            As in :meth:`GroupRocDisplay.from_predictions`.
        n_bins : int
            How many bins at most. Each holds about as many of all rows; groups share them.
        confidence : float
            Nominal coverage of the intervals.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        bins, _, rows = _bin_rows(y_true, y_prob, sensitive_features, by, sample_weight, pos_label)
        low, high = float(rows.scores.min()), float(rows.scores.max())
        if low < 0 or high > 1:
            raise InvalidInputError(
                f"y_prob must be probabilities in [0, 1], found {low:g} to {high:g}; only these "
                "can be calibrated"
            )
        return cls(bins.calibration(n_bins, confidence)).plot(ax)

    @classmethod
    def from_numbers(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: str | None = None,
        exposure: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> GroupCalibrationDisplay:
        """Compare predicted numbers with actual ones in deciles of the prediction, and draw.

        Parameters
        ----------
        y_true, y_pred, sensitive_features, exposure, sample_weight, confidence
            As in :func:`fairboost.metrics.audit_numbers`, whose intervals of actual over expected
            these are.
        by : str, optional
            The column whose groups to show; needed if there are several.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        n = len(read_targets(y_pred, "y_pred"))
        column = choose_column(sensitive_features, n, by)
        found = audit_numbers(
            y_true, y_pred, sensitive_features=sensitive_features, by=column.name,
            exposure=exposure, sample_weight=sample_weight, loss="squared", confidence=confidence,
        )  # fmt: skip
        titles = NUMBER_AXES if exposure is None else EXPOSURE_AXES
        return cls(decile_table(found, column.name), titles).plot(ax)

    @classmethod
    def _from_regressor(
        cls, model: Any, X: Matrix, y: ArrayLike, sensitive_features: ArrayLike, **options: Any
    ) -> Self:
        """Predict by a regressor, and draw."""
        predicted = predict_numbers(model, X, options.get("exposure"))
        drawn: Any = cls.from_numbers(
            y, predicted, sensitive_features=sensitive_features, **options
        )
        return cast(Self, drawn)

    def plot(self, ax: Axes | None = None) -> GroupCalibrationDisplay:
        """Draw the shares.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = self.table["group"].unique().tolist()
        if self.titles is None:
            ax = _unit_square(ax, groups, "predicted probability", "share of positive labels")
        else:
            ends = self.table[["predicted", "found"]].to_numpy(np.float64)
            reach = float(np.nanmin(ends)), float(np.nanmax(ends))
            ax = _unit_square(ax, groups, *self.titles, ends=reach)
        for k, group in enumerate(groups):
            part, named = self.table[self.table["group"] == group], k < MOST_LABELLED
            ax.errorbar(
                part["predicted"].to_numpy(), part["found"].to_numpy(),
                yerr=arms(part, "found") if len(groups) <= MOST_INTERVALS else None,
                markersize=4.5, capsize=2, elinewidth=0.9,
                linewidth=1.3 if named else 0.8, zorder=3 if named else 2,
                label=labelled(group) if named else None, **look(k),
            )  # fmt: skip
        if self.titles is not None:
            plain_ticks(ax.xaxis, ax.yaxis)
        return self._finish(ax)


def _bin_rows(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sensitive_features: ArrayLike,
    by: str | None,
    sample_weight: ArrayLike | None,
    pos_label: object,
    threshold: float | OperatingPoint | Literal["auto"] | None = None,
) -> tuple[ScoreBins, float | None, ScoredRows]:
    """Sort rows into bins of scores by the groups of one column; the threshold as a number."""
    check_same_rows(y_true=y_true, y_score=y_score, sensitive_features=sensitive_features)
    rows = read_scored(y_true, y_score, sample_weight, pos_label)
    column = choose_column(sensitive_features, len(rows.labels), by)
    if isinstance(threshold, str):
        threshold = HALF if are_probabilities(rows.scores.min(), rows.scores.max()) else None
    if isinstance(threshold, OperatingPoint):
        threshold = choose(threshold, rows, None).value
    codes, groups = np.asarray(column.codes, np.intp), map(str, column.values)
    bins = bin_scores(
        rows.scores, rows.labels, codes, tuple(groups), make_edges(rows.scores, threshold),
        attribute=column.name, sample_weight=rows.weight,
    )  # fmt: skip
    return bins, threshold, rows


def _unit_square(
    ax: Axes | None,
    groups: Sequence[str],
    x: str,
    y: str,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Axes:
    """Axes of the same ends both ways, with the diagonal; new ones have room for a legend."""
    ax = ax or new_axes(5.2, 5.2, groups[:MOST_LABELLED])
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    if ends == (0.0, 1.0):  # intervals of numbers may reach farther than the numbers themselves
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set(xlabel=x, ylabel=y)
    ax.grid(alpha=0.3)
    return ax
