"""ROC curves by group, with the operating point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.plots.rows import bin_rows, scores_of, threshold_of
from fairboost.plots.style import GREY, MOST_LABELLED, figure_for, legend_above, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class GroupRocDisplay:
    """The ROC curve of every group, and where on it decisions are made.

    One threshold for all is another point on each curve: where the marks lie apart, so do the
    groups' error rates.

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

    ax_: Axes
    figure_: Figure | SubFigure

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
        threshold: float | OperatingPoint | None = 0.5,
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
        threshold : float, OperatingPoint or None
            Where decisions are made; None marks nothing.
        sample_weight, pos_label
            As in :func:`fairboost.metrics.group_rates`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        bins, where, _ = bin_rows(
            y_true, y_score, sensitive_features,
            by=by, threshold=threshold, sample_weight=sample_weight, pos_label=pos_label,
        )  # fmt: skip
        return cls(bins.roc(), None if where is None else bins.at(where)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> GroupRocDisplay:
        """Score rows by a fitted model, and draw.

        Parameters
        ----------
        model : classifier
            Fitted, with ``predict_proba``. Its ``threshold_`` is marked, else 0.5.
        X, y, sensitive_features
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        options.setdefault("threshold", threshold_of(model))
        options.setdefault("pos_label", model.classes_[1])
        scores = scores_of(model, X)
        return cls.from_predictions(y, scores, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> GroupRocDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = list(dict.fromkeys(self.table["group"]))
        if ax is None:
            _, ax = figure_for(groups[:MOST_LABELLED], 5.2, 5.2)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        for k, group in enumerate(groups):
            part, style = self.table[self.table["group"] == group], look(k)
            marker = style.pop("marker")
            named = k < MOST_LABELLED
            label = group if named else None
            ax.plot(part["fpr"], part["tpr"], linewidth=1.4 if named else 0.8, zorder=2, **style)
            at = part.iloc[:0]
            if self.points is not None:
                at = self.points[self.points["group"] == group]
            # One handle for line and mark.
            ax.plot(
                at["fpr"], at["tpr"], marker=marker, markersize=7, label=label, zorder=3, **style
            )
        ax.set_xlabel("false positive rate")
        ax.set_ylabel("true positive rate")
        ax.set_xlim(-0.01, 1.01)
        ax.set_ylim(-0.01, 1.01)
        ax.set_aspect("equal")
        ax.grid(alpha=0.3)
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
