"""Figures over periods: what all rows so far say, with a band, and what each period says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fairboost.exceptions import InvalidInputError
from fairboost.plots.style import GREY, PLAIN_TEXT, Display, fold, labelled, look, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERIOD_COLUMNS = ("name", "period", "value", "so_far", "low", "high")
MOST_TICKS = 12


class OverTimeDisplay(Display):
    """Figures over periods, each with the band of all rows so far.

    Lines join the figures of all rows up to a period, bands are their confidence sequences, and
    single marks are the figures of the period alone.

    Parameters
    ----------
    table : pandas.DataFrame
        One line per figure and period: ``name``, ``period`` (its number), ``value`` (of the period
        alone), ``so_far``, ``low`` and ``high`` (of all rows so far); with a column ``training``
        if there is a figure of training to compare with.
    periods : sequence of str
        Names of the periods, in order.
    title : str
        What the figures are.
    limit : float, optional
        What they are held to.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairboost.plots.over_time import OverTimeDisplay
    >>> table = pd.DataFrame({"name": "sex=F", "period": [0, 1], "value": [0.2, 0.3],
    ...                       "so_far": [0.2, 0.25], "low": [0.1, 0.18], "high": [0.35, 0.33]})
    >>> display = OverTimeDisplay(table, ["2026-01", "2026-02"], "false negative rate")
    >>> display.plot().ax_.get_ylabel()
    'false negative rate'
    """

    def __init__(
        self,
        table: pd.DataFrame,
        periods: Sequence[str],
        title: str,
        limit: float | None = None,
    ) -> None:
        self.table, self.periods, self.title, self.limit = table, periods, title, limit

    def plot(self, ax: Axes | None = None) -> OverTimeDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        absent = [name for name in PERIOD_COLUMNS if name not in self.table.columns]
        if absent:
            raise InvalidInputError(
                f"the table lacks the columns {', '.join(absent)}; expected one line per figure "
                "and period"
            )
        names = list(dict.fromkeys(self.table["name"]))
        ax = ax or new_axes(6.4, 3.6, [*names, "limit"])
        for k, name in enumerate(names):
            self._line(ax, k, str(name), self.table[self.table["name"] == name])
        if self.limit is not None:
            ax.axhline(self.limit, color=GREY, linestyle="--", linewidth=1.2, label="limit")
        ticks = range(0, len(self.periods), math.ceil(len(self.periods) / MOST_TICKS))
        ax.set_xticks(ticks, [fold(self.periods[k], 10) for k in ticks], **PLAIN_TEXT)
        ax.tick_params("x", labelrotation=45 if len(self.periods) > 4 else 0)
        ax.set_xlim(-0.5, max(len(self.periods) - 0.5, 0.5))
        ax.set_ylabel(fold(self.title, 34), **PLAIN_TEXT)
        ax.grid(alpha=0.3)
        return self._finish(ax)

    def _line(self, ax: Axes, k: int, name: str, lines: pd.DataFrame) -> None:
        lines = lines.sort_values("period")
        at = lines["period"].to_numpy()
        value, so_far, low, high = (
            lines[c].to_numpy(np.float64) for c in ("value", "so_far", "low", "high")
        )
        drawn = look(k)
        marker, colour = drawn.pop("marker"), drawn["color"]
        ax.plot(at, so_far, **drawn, label=labelled(name))
        ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
        if len(at) == 1:
            ax.errorbar(at, so_far, [so_far - low, high - so_far], color=colour, capsize=3)
        ax.plot(at, value, linestyle="", marker=marker, markersize=3.5, color=colour, alpha=0.7)
        if "training" in lines.columns and np.isfinite(trained := lines["training"].iloc[0]):
            ax.axhline(float(trained), color=colour, linestyle=":", linewidth=1.0)
