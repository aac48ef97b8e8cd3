"""Rates by group, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import RATES, Rate, as_rate
from fairboost.metrics import group_rates
from fairboost.metrics.group_metrics import By
from fairboost.plots.style import COLOURS, DASHES, MARKERS, fold, legend_above, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TABLE_COLUMNS = ("attribute", "group", "rate", "value", "low", "high", "rows")


class GroupRatesDisplay:
    """One rate of every group, as a point and its interval, for one model or several.

    Parameters
    ----------
    table : pandas.DataFrame
        As from :func:`fairboost.metrics.group_rates`, of one rate; with a column ``model`` if
        there are several models.

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
    figure_: Figure | SubFigure

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
            The rate to show, see :mod:`fairboost.fairness.rates`.
        sensitive_features, by, sample_weight, pos_label, confidence, interval
            As in :func:`fairboost.metrics.group_rates`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        models = y_pred if isinstance(y_pred, Mapping) else {"": y_pred}
        if not models:
            raise InvalidInputError(
                "y_pred has no models; pass at least one, as {name: decisions}"
            )
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

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Matrix,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        **options: Any,
    ) -> GroupRatesDisplay:
        """Decide for rows by a fitted model, or by several, and draw.

        Parameters
        ----------
        model : classifier, or dict of str to classifier
            Fitted, with ``predict``.
        X, y, sensitive_features
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        models = model if isinstance(model, Mapping) else {"": model}
        decisions = {name: one.predict(X) for name, one in models.items()}
        return cls.from_predictions(y, decisions, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> GroupRatesDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        table = _check_rates_table(self.table)
        models = list(dict.fromkeys(table["model"]))
        places = _places(table)
        if ax is None:
            height = 1.2 + max(places.values()) * max(0.2 + 0.12 * len(models), 0.36)
            _, ax = pyplot().subplots(figsize=(6.4, height), layout="constrained")
        for k, model in enumerate(models):
            dodge = 0.6 * ((k + 0.5) / len(models) - 0.5)
            _draw_model(ax, table[table["model"] == model], k, places, dodge)
        _label_groups(ax, table, places)
        ax.set_xlabel(_rate_title(table["rate"].iloc[0]))
        ax.grid(axis="x", alpha=0.3)
        if models != [""]:
            legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _check_rates_table(table: pd.DataFrame) -> pd.DataFrame:
    absent = [column for column in TABLE_COLUMNS if column not in table.columns]
    if absent:
        raise InvalidInputError(
            f"the table lacks the columns {', '.join(absent)}; expected one as from "
            "fairboost.metrics.group_rates"
        )
    rates = list(dict.fromkeys(table["rate"]))
    if len(rates) != 1:
        found = f"{len(rates)} rates ({', '.join(rates)})" if rates else "no rows"
        raise InvalidInputError(
            f"a GroupRatesDisplay shows one rate, found {found}; choose one, e.g. "
            "table[table['rate'] == 'fnr']"
        )
    return table if "model" in table.columns else table.assign(model="")


def _places(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Lay the groups out top down; each attribute has a line of its own for its name."""
    pairs = table[["attribute", "group"]].drop_duplicates()
    places: dict[tuple[str, str], float] = {}
    line = 0
    for attribute in dict.fromkeys(pairs["attribute"]):
        line += attribute != ""  # everyone needs no heading
        for group in pairs.loc[pairs["attribute"] == attribute, "group"]:
            places[attribute, group] = line
            line += 1
    return places


def _draw_model(
    ax: Axes,
    table: pd.DataFrame,
    k: int,
    places: Mapping[tuple[str, str], float],
    dodge: float,
) -> None:
    """Draw the points and intervals of model number k, and a line through its rate of everyone."""
    colour = COLOURS[k % len(COLOURS)]
    pairs = zip(table["attribute"], table["group"], strict=True)
    value = table["value"].to_numpy(np.float64)
    # Rounding may put an end a hair's breadth on the wrong side of the value.
    below = np.maximum(value - table["low"].to_numpy(np.float64), 0)
    above = np.maximum(table["high"].to_numpy(np.float64) - value, 0)
    ax.errorbar(
        value,
        [places[pair] + dodge for pair in pairs],
        xerr=np.stack([below, above]),
        linestyle="none",
        marker=MARKERS[k % len(MARKERS)],
        color=colour,
        capsize=2.5,
        label=table["model"].iloc[0] or None,
    )
    for overall in value[(table["attribute"] == "").to_numpy()]:
        ax.axvline(overall, color=colour, linestyle=DASHES[k % len(DASHES)], linewidth=1, zorder=1)


def _label_groups(ax: Axes, table: pd.DataFrame, places: Mapping[tuple[str, str], float]) -> None:
    """Write the groups and how many of their rows count, under the names of their attributes."""
    # Of the first model: who counts towards precision depends on the decisions.
    table = table.drop_duplicates(["attribute", "group"])
    pairs = zip(table["attribute"], table["group"], strict=True)
    rows = dict(zip(pairs, table["rows"].astype(int), strict=True))
    first: dict[str, float] = {}
    for (attribute, _), place in places.items():
        first.setdefault(attribute, place)
    headings = {place - 0.8: fold(name, 32) for name, place in first.items() if name}
    labels = {
        place: fold(pair[1], 32, after=f"  (n = {rows[pair]:,})") for pair, place in places.items()
    }
    ax.set_yticks([*headings, *labels], [*headings.values(), *labels.values()])
    for text in ax.get_yticklabels()[: len(headings)]:
        text.set_fontweight("bold")
    ax.set_ylim(max(places.values()) + 0.6, -0.6)  # the first on top
    ax.tick_params(axis="y", length=0)


def _rate_title(name: str) -> str:
    return RATES[name].title if name in RATES else name
