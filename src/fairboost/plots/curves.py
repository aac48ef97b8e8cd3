"""A rate as a function of a number, with its band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, Matrix
from fairboost.data.windows import Smooth
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import RATES, Rate, as_rate
from fairboost.metrics import group_rates
from fairboost.metrics.decisions import read_truth
from fairboost.metrics.group_metrics import read_compared
from fairboost.plots.style import PLAIN_TEXT, Display, fold, labelled, look, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_COLUMNS = ("at", "rate", "value", "low", "high")


class RateCurveDisplay(Display):
    """One rate over a number such as an age, of one model or several.

    The curve joins the rates of overlapping windows, and the band joins their intervals.

    Parameters
    ----------
    table : pandas.DataFrame
        One line per window: ``at``, its centre, and ``rate``, ``value``, ``low`` and ``high``;
        with a column ``model`` if there are several models.
    column : str
        Name of the number.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> import numpy as np
    >>> from fairboost import smooth
    >>> from fairboost.plots import RateCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> age, y = rng.uniform(18, 80, 2_000), rng.integers(0, 2, 2_000)
    >>> decided = (rng.uniform(18, 80, 2_000) < age).astype(int)
    >>> display = RateCurveDisplay.from_predictions(
    ...     y, decided, sensitive_features={"age": age}, by=smooth("age", knots=4)
    ... )
    >>> display.ax_.get_xlabel(), len(display.table)
    ('age', 4)
    """

    def __init__(self, table: pd.DataFrame, column: str) -> None:
        self.table, self.column = table, column

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        by: Smooth,
        rate: str | Rate = "fnr",
        ax: Axes | None = None,
        **options: Any,
    ) -> RateCurveDisplay:
        """Compute the rates and draw them.

        Parameters
        ----------
        y_true : (n,) array
            Labels.
        y_pred : (n,) array, or dict of str to (n,) array
            Decisions of a model, or of several by name.
        sensitive_features : table or dict of columns
            With the column of numbers.
        by : Smooth
            The column and its windows, as from :func:`fairboost.smooth`.
        rate : str or Rate
            The rate to show, see :mod:`fairboost.fairness.rates`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        **options
            ``sample_weight``, ``pos_label``, ``confidence`` and ``interval``, as in
            :func:`fairboost.metrics.group_rates`.
        """
        if not isinstance(by, Smooth):
            raise InvalidInputError(
                f"by must be smooth(...) of a column of numbers, found {by!r}; GroupRatesDisplay "
                "shows rates of groups"
            )
        models = y_pred if isinstance(y_pred, Mapping) else {"": y_pred}
        labels, _ = read_truth(y_true, options.get("pos_label"))
        columns = read_compared(sensitive_features, labels, by)
        column = next((c for c in columns if c.name == by), None)
        if column is None or column.facts is None:
            known = ", ".join(repr(c.name) for c in columns)
            raise InvalidInputError(
                f"there is no sensitive column {str(by)!r}, expected one of {known}; pass the "
                "column of numbers in sensitive_features"
            )
        centres = column.facts.windows
        same = Smooth(by, centres)
        tables = []
        for name, decided in models.items():
            found = group_rates(
                y_true, decided, rates=[as_rate(rate)], by=same,
                sensitive_features=sensitive_features, **options,
            )  # fmt: skip
            found = found[found["attribute"] == by].assign(at=centres, model=str(name))
            tables.append(found)
        return cls(pd.concat(tables, ignore_index=True), str(by)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> RateCurveDisplay:
        """Decide for rows by a fitted model, or by several, and draw.

        Parameters
        ----------
        model : classifier, or dict of str to these
            Fitted, with ``predict``.
        X, y, sensitive_features
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        models = model if isinstance(model, Mapping) else {"": model}
        decided = {name: one.predict(X) for name, one in models.items()}
        return cls.from_predictions(y, decided, sensitive_features=sensitive_features, **options)

    def plot(self, ax: Axes | None = None) -> RateCurveDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        table = self.table
        absent = [name for name in CURVE_COLUMNS if name not in table.columns]
        if absent:
            raise InvalidInputError(
                f"the table lacks the columns {', '.join(absent)}; expected one line per window, "
                "with its centre in the column at"
            )
        table = table if "model" in table.columns else table.assign(model="")
        models = list(dict.fromkeys(table["model"]))
        ax = ax or new_axes(6.4, 4.0, models)
        for k, model in enumerate(models):
            lines = table[table["model"] == model].sort_values("at")
            at, value, low, high = lines[["at", "value", "low", "high"]].to_numpy(np.float64).T
            drawn = look(k)
            ax.plot(at, value, **drawn, label=labelled(model) if model else None)
            ax.fill_between(at, low, high, color=drawn["color"], alpha=0.2, linewidth=0)
        rate = str(table["rate"].iloc[0])
        ax.set_xlabel(fold(self.column, 40), **PLAIN_TEXT)
        ax.set_ylabel(fold(RATES[rate].title if rate in RATES else rate, 30), **PLAIN_TEXT)
        ax.grid(alpha=0.3)
        return self._finish(ax)
