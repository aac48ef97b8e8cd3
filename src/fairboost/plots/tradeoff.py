"""Accuracy, or the loss, against the gap between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from fairboost._text import printable
from fairboost.plots.style import COLOURS, GREY, MARKERS, PLAIN_TEXT, Display, arms, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TradeoffDisplay(Display):
    """Performance against the gap between groups, one point per model of a trade-off curve.

    Parameters
    ----------
    table : pandas.DataFrame
        As ``TradeoffCurve.table``: columns ``accuracy``, or ``loss`` where numbers are predicted,
        and ``gap``, each with ``low`` and ``high``, and ``tolerance``, missing for the model
        without constraints.
    chosen : int, optional
        The line of the model that was chosen; it is marked.
    where : str
        The rows on which the figures were measured, in words.
    words : (str, str), optional
        What the performance and the gap are, in words; the names of their columns if left out.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        chosen: int | None = None,
        where: str = "rows held out",
        words: tuple[str, str] | None = None,
    ) -> None:
        self.table = table
        self.chosen = chosen
        self.where = where
        self.words = words

    def plot(self, ax: Axes | None = None) -> TradeoffDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        ax = ax or new_axes(6.4, 4.2)
        name = "accuracy" if "accuracy" in self.table else "loss"
        free = self.table["tolerance"].isna().to_numpy()
        for k, (rows, label) in enumerate(((~free, "with a tolerance"), (free, "no constraint"))):
            part = self.table[rows]
            x, y = part["gap"].to_numpy(), part[name].to_numpy()
            # A grey cross behind each point: intervals of neighbours overlap, points must not.
            ax.errorbar(
                x, y, xerr=arms(part, "gap", "gap "), yerr=arms(part, name, f"{name} "),
                linestyle="none", color=GREY, linewidth=0.7, alpha=0.6, zorder=1,
            )  # fmt: skip
            ax.plot(x, y, MARKERS[k], color=COLOURS[k], label=label, zorder=2)
        if self.chosen is not None:
            own = self.table.iloc[self.chosen]
            ax.plot(
                own["gap"], own[name], "o", markersize=13, markerfacecolor="none",
                markeredgecolor=COLOURS[2], markeredgewidth=2, label="chosen", zorder=3,
            )  # fmt: skip
        where = printable(self.where)
        performance, gap = self.words or (name, "gap between groups")
        ax.set_xlabel(f"{gap}, {where}", **PLAIN_TEXT)
        ax.set_ylabel(f"{performance}, {where}", **PLAIN_TEXT)
        gaps = self.table["gap"]
        if name == "accuracy" or gaps.min() < 0.5 * gaps.max():  # not losses, far from 0
            ax.set_xlim(left=0.0)
        if name == "loss":  # an exponent of all ticks would stand in the legend
            ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3)
        return self._finish(ax)
