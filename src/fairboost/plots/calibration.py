"""Calibration by group: predicted against found shares of positive labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.exceptions import InvalidInputError
from fairboost.plots.rows import bin_rows, scores_of
from fairboost.plots.style import GREY, MOST_LABELLED, figure_for, legend_above, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MOST_INTERVALS = 4
"""Groups whose intervals are drawn; those of more hide each other, and are in the table."""


class GroupCalibrationDisplay:
    """How often the label was positive, against how often the model said so, for every group.

    On the dotted line probabilities mean what they say. Above it the group is better than its
    scores.

    Parameters
    ----------
    table : pandas.DataFrame
        ``group``, ``predicted``, ``found``, ``low`` and ``high``, one line per group and bin.

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

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

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
        bins, _, rows = bin_rows(
            y_true, y_prob, sensitive_features,
            by=by, threshold=None, sample_weight=sample_weight, pos_label=pos_label,
        )  # fmt: skip
        low, high = float(rows.scores.min()), float(rows.scores.max())
        if low < 0 or high > 1:
            raise InvalidInputError(
                f"y_prob must be probabilities in [0, 1], found {low:g} to {high:g}; only these "
                "can be calibrated"
            )
        return cls(bins.calibration(n_bins, confidence)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> GroupCalibrationDisplay:
        """Score rows by a fitted model, and draw.

        Parameters
        ----------
        model, X, y, sensitive_features, **options
            As in :meth:`GroupRocDisplay.from_estimator`.
        """
        options.setdefault("pos_label", model.classes_[1])
        scores = scores_of(model, X)
        return cls.from_predictions(y, scores, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> GroupCalibrationDisplay:
        """Draw the shares.

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
            part = self.table[self.table["group"] == group]
            x, y = part["predicted"].to_numpy(), part["found"].to_numpy()
            ends = None
            if len(groups) <= MOST_INTERVALS:
                ends = np.stack([y - part["low"], part["high"] - y]).clip(0.0)
            named = k < MOST_LABELLED
            ax.errorbar(
                x, y, yerr=ends, markersize=4.5, capsize=2, elinewidth=0.9,
                linewidth=1.3 if named else 0.8, zorder=3 if named else 2,
                label=group if named else None, **look(k),
            )  # fmt: skip
        ax.set_xlabel("predicted probability")
        ax.set_ylabel("share of positive labels")
        ax.set_xlim(-0.01, 1.01)
        ax.set_ylim(-0.01, 1.01)
        ax.set_aspect("equal")
        ax.grid(alpha=0.3)
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
