"""Pictures of group rates and of training, as display objects in scikit-learn's manner.

A display holds the table that it draws (``display.table``, ``display.trace``), so that the figures can
be had without the picture, and after drawing it the axes (``display.ax_``). Colours are those of Okabe
and Ito that show on white and on dark grounds alike; each goes with a marker or a line style of its own,
so nothing rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

from fairboost._typing import ArrayLike, FloatArray
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import By, group_rates
from fairboost.rates import RATES, Rate, as_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GroupRatesDisplay", "MultipliersDisplay"]

# Okabe and Ito's palette without black and yellow, each of which is lost on one of the grounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--")
GREY = "#808080"
MOST_LABELLED = len(COLOURS) * len(LINES)
"""Lines that can be told apart, and so are labelled; the rest is drawn in grey."""

TABLE_COLUMNS = ("attribute", "group", "rate", "value", "low", "high", "rows")


class GroupRatesDisplay:
    """One rate of every group, as a point and its interval, for one model or several.

    Parameters
    ----------
    table : pandas.DataFrame
        As from :func:`fairboost.metrics.group_rates`, of one rate; with a column ``model`` if there are
        several models.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupRatesDisplay
    >>> y, sex = [0, 1, 1, 1] * 50, list("FFFFMMMM") * 25
    >>> models = {"plain": [0, 0, 1, 0, 0, 1, 1, 1] * 25, "fair": [0, 0, 1, 1, 0, 1, 0, 1] * 25}
    >>> display = GroupRatesDisplay.from_predictions(y, models, sensitive_features={"sex": sex})
    >>> display.ax_.get_xlabel()
    'false negative rate'
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        rate: str | Rate = "fnr",
        by: By | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        confidence: float = 0.95,
        interval: Literal["wilson", "exact"] = "wilson",
        ax: Axes | None = None,
    ) -> GroupRatesDisplay:
        """Compute the rates and draw them.

        Parameters
        ----------
        y_true : (n,) array
            Labels.
        y_pred : (n,) array, or dict of str to (n,) array
            Decisions of a model, or of several by name.
        rate : str or Rate
            The rate to show, see :mod:`fairboost.rates`.
        sensitive_features, by, sample_weight, pos_label, confidence, interval
            As in :func:`fairboost.metrics.group_rates`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        models = y_pred if isinstance(y_pred, Mapping) else {"": y_pred}
        if not models:
            raise InvalidInputError("y_pred has no models; pass at least one, as {name: decisions}")
        tables = [
            group_rates(
                y_true,
                decisions,
                sensitive_features=sensitive_features,
                rates=[as_rate(rate)],
                by=by,
                sample_weight=sample_weight,
                pos_label=pos_label,
                confidence=confidence,
                interval=interval,
            ).assign(model=str(name))
            for name, decisions in models.items()
        ]
        return cls(pd.concat(tables, ignore_index=True)).plot(ax)

    def plot(self, ax: Axes | None = None) -> GroupRatesDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        table = _check_rates_table(self.table)
        models = list(dict.fromkeys(table["model"]))
        groups = table.loc[table["attribute"] != "", ["attribute", "group"]].drop_duplicates()
        places = {pair: k for k, pair in enumerate(groups.itertuples(index=False, name=None))}
        if ax is None:
            height = 1.3 + len(places) * (0.25 + 0.13 * len(models))
            _, ax = _pyplot().subplots(figsize=(6.4, height), layout="constrained")
        for k, model in enumerate(models):
            dodge = 0.6 * ((k + 0.5) / len(models) - 0.5)
            _draw_model(ax, table[table["model"] == model], model, k, places, dodge)
        _label_groups(ax, table, places)
        ax.set_xlabel(_rate_title(table["rate"].iloc[0]))
        if models != [""] or (table["attribute"] == "").any():
            ax.legend(**_legend_above(len(models)))
        self.ax_, self.figure_ = ax, _figure(ax)
        return self
