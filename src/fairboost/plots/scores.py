"""How scores are distributed, by group and label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.plots.rows import bin_rows, scores_of, threshold_of
from fairboost.plots.style import COLOURS, GREY, fold, legend_above, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

LOOKS = ((COLOURS[1], "--"), (COLOURS[0], "-"))
"""Of the negative and the positive label."""


class GroupScoresDisplay:
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

    ax_: Axes
    figure_: Figure | SubFigure

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
        threshold: float | OperatingPoint | None = 0.5,
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
        bins, where, rows = bin_rows(
            y_true, y_score, sensitive_features,
            by=by, threshold=threshold, sample_weight=sample_weight, pos_label=pos_label,
        )  # fmt: skip
        positive, *other = map(str, rows.known)
        return cls(bins.histogram(), where, (other[0] if other else "others", positive)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> GroupScoresDisplay:
        """Score rows by a fitted model, and draw.

        Parameters
        ----------
        model, X, y, sensitive_features, **options
            As in :meth:`GroupRocDisplay.from_estimator`.
        """
        options.setdefault("threshold", threshold_of(model))
        options.setdefault("pos_label", model.classes_[1])
        scores = scores_of(model, X)
        return cls.from_predictions(y, scores, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> GroupScoresDisplay:
        """Draw the distributions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = list(dict.fromkeys(self.table["group"]))
        if ax is None:
            height = 1.4 + 0.55 * len(groups)
            _, ax = pyplot().subplots(figsize=(6.4, height), layout="constrained")
        for k, group in enumerate(groups):
            ax.axhline(k, color=GREY, linewidth=0.5, zorder=1)
            for label, (colour, line) in enumerate(LOOKS):
                part = self.table[(self.table["group"] == group) & (self.table["label"] == label)]
                if not part["share"].any():
                    continue
                edges = np.append(part["low"].to_numpy(), part["high"].iloc[-1])
                # Density, so that bins of unequal width compare; the highest fills its line.
                height = part["share"].to_numpy() / np.diff(edges)
                values = k - 0.85 * height / height.max()
                name = self._name(label) if k == 0 else None
                ax.stairs(values, edges, baseline=k, fill=True, color=colour, alpha=0.18)
                ax.stairs(
                    values,
                    edges,
                    baseline=k,
                    color=colour,
                    linestyle=line,
                    linewidth=1.3,
                    label=name,
                )
        if self.threshold is not None:
            ax.axvline(
                self.threshold, color=GREY, linewidth=1.2, linestyle="-.", label="threshold"
            )
        ax.set_yticks(np.arange(len(groups)) - 0.4, [fold(group) for group in groups])
        ax.set_ylim(len(groups) - 0.9, -1.0)  # the first on top
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(self.table["low"].min(), self.table["high"].max())
        ax.set_xlabel("score")
        ax.grid(axis="x", alpha=0.3)
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name(self, label: int) -> str:
        return f"{('negative', 'positive')[label]} label ({self.labels[label]})"
