"""Predictions of a number by group: distribution functions, and figures of audits as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

from fairboost._typing import ArrayLike, FloatArray, IntArray, Matrix
from fairboost.data.cells import SensitiveColumn
from fairboost.data.probabilities import check_observed
from fairboost.data.validation import (
    check_numbers,
    check_same_rows,
    read_sensitive_features,
    read_targets,
)
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.means import NUMBERS
from fairboost.metrics.numbers import NumberAudit
from fairboost.plots.style import (
    MOST_LABELLED,
    Display,
    labelled,
    look,
    new_axes,
    plain_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATIO, DISTANCE = "A/E", "distance"

MEANS = {
    **{name: moment.title for name, moment in NUMBERS.items()},
    RATIO: "actual over expected",
    DISTANCE: "distance from everyone's distribution",
}
"""Figures of groups where a number is predicted: names, as of moments, and titles."""

COLUMNS = {
    "prediction": "mean_prediction",
    "actual": "mean_actual",
    RATIO: "a_over_e",
    "loss": "mean_loss",
    DISTANCE: "distance",
}
"""Where :func:`fairboost.metrics.audit_numbers` has them."""

PREDICTION, PER_EXPOSURE = "prediction", "prediction per unit of exposure"
"""What is on an axis."""

STEPS = 101
"""Points, at most, of a distribution function: every percentile."""


def figure_table(found: NumberAudit) -> pd.DataFrame:
    """Figures of groups, one below the other, as rates are in tables.

    Parameters
    ----------
    found : NumberAudit
        The audit.

    Returns
    -------
    pandas.DataFrame
        ``attribute``, ``group``, ``rate``, ``value``, ``low``, ``high``, ``rows``, ``small``.
        Figures that no group of an attribute has are left out: the distance of everyone.
    """
    tables = []
    for name, column in COLUMNS.items():
        ends = {column: "value", f"{column}_low": "low", f"{column}_high": "high"}
        kept = ["attribute", "group", *ends, "rows", "small"]
        tables.append(found.by_group[kept].rename(columns=ends).assign(rate=name))
    table = pd.concat(tables, ignore_index=True)
    known = table.groupby(["attribute", "rate"])["value"].transform("count") > 0
    order = {name: k for k, name in enumerate(dict.fromkeys(table["attribute"]))}
    table = table[known]
    return table.iloc[np.argsort(table["attribute"].map(order), kind="stable")]


def decile_table(found: NumberAudit, attribute: str) -> pd.DataFrame:
    """Mean prediction and mean of what was actual by group and decile, of one attribute.

    Parameters
    ----------
    found : NumberAudit
        The audit.
    attribute : str
        The column.

    Returns
    -------
    pandas.DataFrame
        ``group``, ``predicted``, ``found``, ``low`` and ``high``. The interval is that of actual
        over expected. Deciles in which a group has no rows are left out.
    """
    lines = found.by_decile
    lines = lines[(lines["attribute"] == attribute) & (lines["rows"] > 0)]
    names = ["expected", "actual", "exposure", "a_over_e_low", "a_over_e_high"]
    return calibration_points(lines["group"], *(lines[name] for name in names))


def calibration_points(
    group: pd.Series, expected: Any, actual: Any, exposure: Any, low: Any, high: Any
) -> pd.DataFrame:
    """Points of a picture of calibration, from totals and the interval of their ratio."""
    predicted = np.asarray(expected, np.float64) / np.asarray(exposure, np.float64)
    ends = np.sort([predicted * np.asarray(end, np.float64) for end in (low, high)], axis=0)
    return pd.DataFrame(
        {
            "group": np.asarray(group),
            "predicted": predicted,
            "found": np.asarray(actual, np.float64) / np.asarray(exposure, np.float64),
            "low": ends[0],
            "high": ends[1],
        }
    )


def predicts_numbers(model: Any) -> bool:
    """Whether a model is a regressor; what scikit-learn does not know is no regressor."""
    return hasattr(model, "__sklearn_tags__") and is_regressor(model)


def predict_numbers(model: Any, X: Matrix, exposure: ArrayLike | None) -> FloatArray:
    """Predictions of a fitted regressor, times exposure where it is given.

    Parameters
    ----------
    model : regressor
        Fitted; predicts per unit of exposure.
    X : table
        The rows.
    exposure : (n,) array, optional
        What predictions are multiplied by.
    """
    found: FloatArray = np.asarray(model.predict(X), np.float64)
    if exposure is None:
        return found
    years = read_targets(exposure, "exposure")
    if len(years) != len(found):
        raise InvalidInputError(
            f"exposure has {len(years)} entries and X has {len(found)} rows; pass one for each row"
        )
    return found * years


def per_unit(predictions: FloatArray, exposure: FloatArray | None) -> FloatArray:
    """Predictions per unit of exposure; rows of the same prediction have the same again.

    A product over one of its factors may differ from the other in its last digit.
    """
    if exposure is None:
        return predictions
    found: FloatArray = predictions / exposure
    size = float(np.abs(found).max(initial=0.0)) or 1.0
    rounded: FloatArray = np.round(found / size, 12) * size
    return rounded


def choose_column(sensitive_features: ArrayLike, n: int, by: str | None) -> SensitiveColumn:
    """The sensitive column whose groups to show."""
    columns = {c.name: c for c in read_sensitive_features(sensitive_features, n)}
    if by is None and len(columns) != 1:
        raise InvalidInputError(
            f"by must name the column whose groups to show, as there are {list(columns)}; "
            f"pass e.g. by={next(iter(columns), 'sex')!r}"
        )
    name = next(iter(columns)) if by is None else by
    if name not in columns:
        raise InvalidInputError(
            f"by={by!r} is not among the sensitive columns {list(columns)}; pass one of them"
        )
    check_observed([columns[name]], "in this picture")
    return columns[name]


def distribution_functions(
    predictions: FloatArray, codes: IntArray, groups: tuple[str, ...], weight: FloatArray | None
) -> pd.DataFrame:
    """Share of each group whose prediction is at most so large.

    Parameters
    ----------
    predictions : (n,) float64
        Per unit of exposure.
    codes : (n,) int
        Groups of the rows; -1 is none.
    groups : tuple of str
        Their names.
    weight : (n,) float64, optional
        Weights of the rows, by exposure.

    Returns
    -------
    pandas.DataFrame
        ``group``, ``prediction``, ``share`` and ``rows``, at most ``STEPS`` points for each group
        that has rows. Shares are exact at every point.

    Examples
    --------
    >>> table = distribution_functions(
    ...     np.array([1.0, 2.0, 2.0, 4.0]), np.zeros(4, int), ("all",), None
    ... )
    >>> table[["prediction", "share"]].to_numpy().tolist()
    [[1.0, 0.25], [2.0, 0.75], [4.0, 1.0]]
    """
    tables = []
    for code, group in enumerate(groups):
        mine = codes == code if weight is None else (codes == code) & (weight > 0)
        values, where = np.unique(predictions[mine], return_inverse=True)
        if not len(values):
            continue
        upto = np.bincount(where, None if weight is None else weight[mine]).cumsum()
        shares = upto / upto[-1]
        # Of many values those at evenly spaced shares, and the first and the last.
        at = np.searchsorted(shares, np.linspace(0.0, 1.0, STEPS) - 1e-12)
        at = np.arange(len(values)) if len(values) <= STEPS else np.unique(at)
        part = {"prediction": values[at], "share": shares[at], "rows": int(mine.sum())}
        tables.append(pd.DataFrame({"group": group, **part}))
    return pd.concat(tables, ignore_index=True)


class GroupPredictionsDisplay(Display):
    """Distribution functions of predictions by group: the share of a group up to each prediction.

    The vertical distance of two lines is the difference of shares at that prediction. The largest
    one is the distance of Kolmogorov and Smirnov.

    Parameters
    ----------
    table : pandas.DataFrame
        ``group``, ``prediction`` and ``share``: the steps of each function, in order.
    unit : str
        What the horizontal axis is called.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupPredictionsDisplay
    >>> predicted, sex = [1.0, 2.0, 3.0, 2.0, 3.0, 4.0] * 20, list("FFFMMM") * 20
    >>> display = GroupPredictionsDisplay.from_predictions(predicted, sensitive_features=sex)
    >>> display.ax_.get_ylabel()
    'share of the group'
    """

    def __init__(self, table: pd.DataFrame, unit: str = PREDICTION) -> None:
        self.table = table
        self.unit = unit

    @classmethod
    def from_predictions(
        cls,
        y_pred: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: str | None = None,
        exposure: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> GroupPredictionsDisplay:
        """Compute the functions and draw them.

        Parameters
        ----------
        y_pred : (n,) array
            What was predicted; with exposures counts or amounts, and not rates.
        sensitive_features : column, table or dict of columns
            The sensitive attributes of the rows.
        by : str, optional
            The column whose groups to show; needed if there are several.
        exposure, sample_weight
            As in :func:`fairboost.metrics.audit_numbers`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        check_same_rows(
            y_pred=y_pred, sensitive_features=sensitive_features, exposure=exposure,
            sample_weight=sample_weight,
        )  # fmt: skip
        predicted = read_targets(y_pred, "y_pred")
        # What the checks of training rows call X are predictions here: one column of them.
        data = check_numbers(
            predicted[:, np.newaxis], predicted, sensitive_features, sample_weight, exposure
        )
        column = choose_column(sensitive_features, len(predicted), by)
        shown = per_unit(predicted, data.exposure)
        names = tuple(map(str, column.values))
        codes = np.asarray(column.codes, np.intp)
        table = distribution_functions(shown, codes, names, data.weight_in_moments)
        return cls(table, PREDICTION if exposure is None else PER_EXPOSURE).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Matrix,
        *,
        sensitive_features: ArrayLike,
        exposure: ArrayLike | None = None,
        **options: Any,
    ) -> GroupPredictionsDisplay:
        """Predict for rows by a fitted model, and draw.

        Parameters
        ----------
        model : regressor
            Fitted.
        X, sensitive_features, exposure
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        predicted = predict_numbers(model, X, exposure)
        return cls.from_predictions(
            predicted, sensitive_features=sensitive_features, exposure=exposure, **options
        )

    def plot(self, ax: Axes | None = None) -> GroupPredictionsDisplay:
        """Draw the functions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        groups = self.table["group"].unique().tolist()
        ax = ax or new_axes(6.4, 4.2, groups[:MOST_LABELLED])
        for k, group in enumerate(groups):
            part, style = self.table[self.table["group"] == group], look(k)
            x, share = part["prediction"].to_numpy(), part["share"].to_numpy()
            named = k < MOST_LABELLED
            ax.step(
                np.append(x[:1], x), np.append(0.0, share), where="post", color=style["color"],
                linestyle=style["linestyle"], marker=style["marker"], markersize=4,
                markevery=max(len(x) // 6, 1), linewidth=1.4 if named else 0.8,
                label=labelled(group) if named else None,
            )  # fmt: skip
        ax.set(xlabel=self.unit, ylabel="share of the group", ylim=(-0.01, 1.01))
        ax.grid(alpha=0.3)
        plain_ticks(ax.xaxis)
        return self._finish(ax)
