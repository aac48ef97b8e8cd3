"""Pictures of group rates and of training, as display objects in scikit-learn's manner.

A display holds the table that it draws (``display.table``, ``display.trace``), so that the figures
can be had without the picture, and once drawn the axes (``display.ax_``). The colours are those of
Okabe and Ito that show on white and on dark grounds alike; models differ by marker and lines by
style as well, and no text or ground is coloured by hand, so a theme keeps its say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fairboost._typing import ArrayLike
from fairboost.exceptions import InvalidInputError
from fairboost.metrics import By, group_rates
from fairboost.rates import RATES, Rate, as_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["GroupRatesDisplay", "MultipliersDisplay", "TradeoffDisplay"]

# Okabe and Ito's palette without black and yellow, each of which is lost on one of the grounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--")
DASHES = ("--", ":", "-.")
GREY = "#808080"
MOST_LABELLED = len(COLOURS) * len(LINES)
"""Lines that can be told apart, and so are labelled; the rest is drawn in grey."""

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
            The rate to show, see :mod:`fairboost.rates`.
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
            height = 1.2 + max(places.values()) * (0.2 + 0.12 * len(models))
            _, ax = pyplot().subplots(figsize=(6.4, height), layout="constrained")
        for k, model in enumerate(models):
            dodge = 0.6 * ((k + 0.5) / len(models) - 0.5)
            _draw_model(ax, table[table["model"] == model], k, places, dodge)
        _label_groups(ax, table, places)
        ax.set_xlabel(_rate_title(table["rate"].iloc[0]))
        ax.grid(axis="x", alpha=0.3)
        if models != [""]:
            # Above the axes, where no group can be; fewer columns for longer names.
            columns = max(1, 48 // (6 + max(map(len, models))))
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False)
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
    pairs = zip(table["attribute"], table["group"], strict=True)
    rows = dict(zip(pairs, table["rows"].astype(int), strict=True))
    first: dict[str, float] = {}
    for (attribute, _), place in places.items():
        first.setdefault(attribute, place)
    headings = {place - 0.8: attribute for attribute, place in first.items() if attribute}
    labels = {place: f"{pair[1]}  (n = {rows[pair]:,})" for pair, place in places.items()}
    ax.set_yticks([*headings, *labels], [*headings.values(), *labels.values()])
    for text in ax.get_yticklabels()[: len(headings)]:
        text.set_fontweight("bold")
    ax.set_ylim(max(places.values()) + 0.6, -0.6)  # the first on top
    ax.tick_params(axis="y", length=0)


def _rate_title(name: str) -> str:
    return RATES[name].title if name in RATES else name


class MultipliersDisplay:
    """Multipliers and violations over the boosting rounds: how training came to its model.

    A multiplier rises while its constraint is broken (violation above 0) and falls, or rests at 0,
    once it holds. The labelled lines are those of the largest multipliers, at most 12; the others
    are grey.

    Parameters
    ----------
    trace : pandas.DataFrame
        ``model.trace_``: one row per round, with columns ``round``, ``violation: <label>`` and
        ``multiplier: <label>``.

    Attributes
    ----------
    ax_ : (2,) array of matplotlib.axes.Axes
        The panels of the multipliers and of the violations.
    figure_ : matplotlib.figure.Figure
        Their figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairboost.plots import MultipliersDisplay
    >>> trace = pd.DataFrame(
    ...     {
    ...         "round": [1, 2, 3],
    ...         "violation: fnr[sex=F]": [0.10, 0.04, -0.01],
    ...         "multiplier: fnr[sex=F]": [0.0, 0.3, 0.4],
    ...     }
    ... )
    >>> display = MultipliersDisplay(trace).plot()
    >>> [axes.get_ylabel() for axes in display.ax_]
    ['multiplier', 'violation (> 0: broken)']
    """

    ax_: NDArray[np.object_]
    figure_: Figure | SubFigure

    def __init__(self, trace: pd.DataFrame) -> None:
        self.trace = trace

    @classmethod
    def from_estimator(
        cls, model: object, *, ax: Sequence[Axes] | None = None
    ) -> MultipliersDisplay:
        """Draw the trace of a fitted model.

        Parameters
        ----------
        model : FairGBMClassifier
            Fitted, under at least one constraint.
        ax : pair of matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        trace = getattr(model, "trace_", None)
        if trace is None:
            raise NotFittedError(
                f"this {type(model).__name__} has no trace_; fit it before drawing its multipliers"
            )
        return cls(trace).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> MultipliersDisplay:
        """Draw the trace.

        Parameters
        ----------
        ax : pair of matplotlib.axes.Axes, optional
            The panels to draw multipliers and violations in; a new figure if left out.
        """
        labels = _rank_labels(self.trace)
        own = ax is None
        if ax is None:
            _, ax = pyplot().subplots(2, 1, sharex=True, figsize=(7.2, 4.8), layout="constrained")
        top, bottom = _check_pair(ax)
        _draw_lines(top, self.trace, "multiplier", labels)
        _draw_lines(bottom, self.trace, "violation", labels)
        bottom.axhline(0, color=GREY, linewidth=1, zorder=1)
        top.set_ylabel("multiplier")
        bottom.set_ylabel("violation (> 0: broken)")
        bottom.set_xlabel("boosting round")
        if not top.get_shared_x_axes().joined(top, bottom):
            top.set_xlabel("boosting round")
        self.ax_ = np.array([top, bottom], dtype=object)
        self.figure_ = top.figure
        if own:  # our own layout has room for a legend outside the panels
            handles, _ = top.get_legend_handles_labels()
            self.figure_.legend(
                handles=handles, loc="outside right upper", frameon=False, fontsize="small"
            )
        else:
            top.legend(fontsize="small")
        return self


class TradeoffDisplay:
    """Accuracy against the gap between groups, one point per model of a trade-off curve.

    Parameters
    ----------
    table : pandas.DataFrame
        As ``TradeoffCurve.table``: columns ``accuracy`` and ``gap``, each with ``low`` and
        ``high``, and ``tolerance``, missing for the model without constraints.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def plot(self, ax: Axes | None = None) -> TradeoffDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
        free = self.table["tolerance"].isna().to_numpy()
        for k, (rows, label) in enumerate(((~free, "with a tolerance"), (free, "no constraint"))):
            part = self.table[rows]
            x, y = part["gap"].to_numpy(), part["accuracy"].to_numpy()
            # A grey cross behind each point: intervals of neighbours overlap, points must not.
            ax.errorbar(
                x, y,
                xerr=np.stack([x - part["gap low"], part["gap high"] - x]).clip(0.0),
                yerr=np.stack([y - part["accuracy low"], part["accuracy high"] - y]).clip(0.0),
                linestyle="none", color=GREY, linewidth=0.7, alpha=0.6, zorder=1,
            )  # fmt: skip
            ax.plot(x, y, MARKERS[k], color=COLOURS[k], label=label, zorder=2)
        ax.set_xlabel("gap between groups, rows held out")
        ax.set_ylabel("accuracy, rows held out")
        ax.set_xlim(left=0.0)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _check_pair(ax: Sequence[Axes]) -> tuple[Axes, Axes]:
    pair = np.ravel(np.asarray(ax, dtype=object))
    if len(pair) != 2:
        raise InvalidInputError(
            f"ax must be two axes, for the multipliers and the violations; found {len(pair)}. "
            "Make them with matplotlib.pyplot.subplots(2, 1, sharex=True)"
        )
    return pair[0], pair[1]


def _rank_labels(trace: pd.DataFrame) -> list[str]:
    """List what the multipliers belong to, the largest multiplier first."""
    prefix = "multiplier: "
    labels = [str(c).removeprefix(prefix) for c in trace.columns if str(c).startswith(prefix)]
    if not labels or "round" not in trace.columns:
        raise InvalidInputError(
            "the trace has no columns 'round' and 'multiplier: ...', so there is nothing to draw; "
            "expected model.trace_ of a model trained under a constraint"
        )
    peak = trace[[prefix + label for label in labels]].abs().max().to_numpy(np.float64)
    return [labels[k] for k in np.argsort(-peak, kind="stable")]


def _draw_lines(ax: Axes, trace: pd.DataFrame, what: str, labels: Sequence[str]) -> None:
    """Draw one panel; the first labels in colour, and on top of the others."""
    rounds = trace["round"].to_numpy()
    others = len(labels) - MOST_LABELLED
    for k, label in enumerate(labels):
        column = f"{what}: {label}"
        if column not in trace.columns:
            continue
        named = k < MOST_LABELLED
        ax.plot(
            rounds,
            trace[column].to_numpy(np.float64),
            color=COLOURS[k % len(COLOURS)] if named else GREY,
            linestyle=LINES[k // len(COLOURS)] if named else "-",
            linewidth=1.5 if named else 0.8,
            alpha=1.0 if named else 0.5,
            zorder=2.5 if named else 2,
            label=label if named else f"{others} more" if k == MOST_LABELLED else None,
        )
    ax.grid(alpha=0.3)


def pyplot() -> ModuleType:
    """Import matplotlib only when something is drawn: it is an extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "fairboost[plots]"') from error
    return plt
