"""Rates by group, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.classes import CLASS_RATES
from fairboost.fairness.rates import RATES, Rate, as_rate
from fairboost.metrics import audit_numbers, group_rates
from fairboost.metrics.group_metrics import By
from fairboost.plots.classes import rate_of_classes
from fairboost.plots.numbers import MEANS, figure_table, predict_numbers, predicts_numbers
from fairboost.plots.style import (
    COLOURS,
    DASHES,
    MARKERS,
    PLAIN_TEXT,
    Display,
    arms,
    fold,
    labelled,
    new_axes,
    plain_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Places: TypeAlias = dict[tuple[str, str], float]
"""The height of every group of an attribute."""

TABLE_COLUMNS = ("attribute", "group", "rate", "value", "low", "high", "rows")


class GroupRatesDisplay(Display):
    """One rate, or mean, of every group, as a point and its interval, for one model or several.

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
        exposure: ArrayLike | None = None,
        loss: Any = None,
        of: object = None,
        ax: Axes | None = None,
    ) -> GroupRatesDisplay:
        """Compute the rates and draw them.

        Parameters
        ----------
        y_true : (n,) array
            Labels, or the numbers that were to be predicted.
        y_pred : (n,) array, or dict of str to (n,) array
            Decisions of a model, or of several by name; or numbers.
        rate : str or Rate
            The rate to show, see :mod:`fairboost.fairness.rates`. Of a number that is predicted:
            ``"prediction"``, ``"actual"`` and ``"loss"`` (means), ``"A/E"`` (actual over
            expected) or ``"distance"`` (of distributions). Of three classes or more:
            ``"accuracy"``, ``"given"``, ``"recall"`` or ``"confused"``.
        sensitive_features, by, sample_weight, pos_label, confidence, interval
            As in :func:`fairboost.metrics.group_rates`.
        exposure, loss
            As in :func:`fairboost.metrics.audit_numbers`, for figures of a number.
        of : label or (label, label), optional
            The class that a rate of classes is of; of "confused" the class of the rows and the
            class that they are given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        models = y_pred if isinstance(y_pred, Mapping) else {"": y_pred}
        if not models:
            raise InvalidInputError(
                "y_pred has no models; pass at least one, as {name: decisions}"
            )
        tables = []
        rows: dict[str, Any] = {
            "sensitive_features": sensitive_features, "by": by, "sample_weight": sample_weight,
            "confidence": confidence,
        }  # fmt: skip
        of_number = isinstance(rate, str) and rate in MEANS
        if not of_number and (exposure is not None or loss is not None):
            raise InvalidInputError(
                f"exposure and loss are for figures of a number, found rate={rate!r}; leave them "
                f"out, or pass one of {', '.join(map(repr, MEANS))}"
            )
        of_classes = isinstance(rate, str) and rate in CLASS_RATES
        if of is not None and not of_classes:
            raise InvalidInputError(
                f"of={of!r} is the class of a rate of classes, found rate={rate!r}; leave it out, "
                f"or pass one of {', '.join(map(repr, CLASS_RATES))}"
            )
        for name, predicted in models.items():
            if of_classes:
                table = rate_of_classes(y_true, predicted, str(rate), of, **rows)
            elif of_number:
                found = audit_numbers(y_true, predicted, exposure=exposure, loss=loss, **rows)
                table = figure_table(found)
                table = table[table["rate"] == rate]
            else:
                table = group_rates(
                    y_true, predicted, rates=[as_rate(rate)], pos_label=pos_label,
                    interval=interval, **rows,
                )  # fmt: skip
            tables.append(table.assign(model=str(name)))
        return cls(pd.concat(tables, ignore_index=True)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> GroupRatesDisplay:
        """Decide, or predict, for rows by a fitted model, or by several, and draw.

        Parameters
        ----------
        model : classifier or regressor, or dict of str to these
            Fitted, with ``predict``. Mean predictions of a regressor, and the accuracy of a
            classifier of three classes or more, are shown unless ``rate`` is given; with
            ``exposure`` a regressor predicts per unit of it.
        X, y, sensitive_features
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        models = model if isinstance(model, Mapping) else {"": model}
        if models and all(map(predicts_numbers, models.values())):
            options = {"rate": "prediction", **options}
        elif any(len(getattr(one, "classes_", ())) > 2 for one in models.values()):
            options = {"rate": "accuracy", **options}
        exposure = options.get("exposure")
        predicted = {
            name: one.predict(X) if exposure is None else predict_numbers(one, X, exposure)
            for name, one in models.items()
        }
        return cls.from_predictions(y, predicted, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> GroupRatesDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        table = _check_rates_table(self.table)
        models = list(dict.fromkeys(table["model"]))
        places, headings = _places(table)
        ax = ax or new_axes(6.4, 1.2 + max(places.values()) * max(0.2 + 0.12 * len(models), 0.36))
        for k, model in enumerate(models):
            dodge = 0.6 * ((k + 0.5) / len(models) - 0.5)
            _draw_model(ax, table[table["model"] == model], k, places, dodge)
        _label_groups(ax, table, places, headings)
        rate = table["rate"].iloc[0]
        title = RATES[rate].title if rate in RATES else MEANS.get(rate, rate)
        ax.set_xlabel(fold(title, 30), **PLAIN_TEXT)
        if rate in MEANS:
            plain_ticks(ax.xaxis)
        ax.grid(axis="x", alpha=0.3)
        return self._finish(ax)


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


def _places(table: pd.DataFrame) -> tuple[Places, dict[str, float]]:
    """Lay the groups out top down; each attribute has a line of its own for its name."""
    places: Places = {}
    headings: dict[str, float] = {}
    for attribute in table["attribute"].unique():
        if attribute != "":  # everyone needs no heading
            headings[attribute] = len(places) + len(headings) + 1 - 0.8
        for group in table.loc[table["attribute"] == attribute, "group"].unique():
            places[attribute, group] = len(places) + len(headings)
    return places, headings


def _draw_model(ax: Axes, table: pd.DataFrame, k: int, places: Places, dodge: float) -> None:
    """Draw the points and intervals of model number k, and a line through its rate of everyone."""
    colour = COLOURS[k % len(COLOURS)]
    pairs = zip(table["attribute"], table["group"], strict=True)
    value = table["value"].to_numpy(np.float64)
    ax.errorbar(
        value, [places[pair] + dodge for pair in pairs], xerr=arms(table, "value"),
        linestyle="none", marker=MARKERS[k % len(MARKERS)], color=colour, capsize=2.5,
        label=labelled(model) if (model := table["model"].iloc[0]) else None,
    )  # fmt: skip
    for overall in value[(table["attribute"] == "").to_numpy()]:
        ax.axvline(overall, color=colour, linestyle=DASHES[k % len(DASHES)], linewidth=1, zorder=1)


def _label_groups(
    ax: Axes, table: pd.DataFrame, places: Places, headings: Mapping[str, float]
) -> None:
    """Write the groups and how many of their rows count, under the names of their attributes."""
    # Of the first model: who counts towards precision depends on the decisions.
    rows = table.drop_duplicates(["attribute", "group"]).set_index(["attribute", "group"])["rows"]
    labels = [fold(name, 32) for name in headings]
    labels += [fold(pair[1], 32, after=f"  (n = {int(rows[pair]):,})") for pair in places]
    ax.set_yticks([*headings.values(), *places.values()], labels, **PLAIN_TEXT)
    for text in ax.get_yticklabels()[: len(headings)]:
        text.set_fontweight("bold")
    ax.set_ylim(max(places.values()) + 0.6, -0.6)  # the first on top
    ax.tick_params(axis="y", length=0)
