"""Multipliers and violations over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fairboost.exceptions import InvalidInputError
from fairboost.plots.style import GREY, MOST_LABELLED, labelled, legend_above, look, new_axes
from fairboost.verdicts.rounds import rows_of, violations_by_round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class MultipliersDisplay:
    """Multipliers and violations over the boosting rounds.

    A multiplier rises while its constraint is broken (violation above 0) and falls, or rests at 0,
    once it holds. The labelled lines are those of the largest multipliers, at most 12; the others
    are grey.

    Parameters
    ----------
    trace : pandas.DataFrame
        ``model.trace_``: one row per round, with columns ``round``, ``violation: <label>`` and
        ``multiplier: <label>``.
    train : pandas.DataFrame, optional
        ``round`` and ``violation: <label>`` on the training rows, as from
        :func:`fairboost.verdicts.rounds.violations_by_round`; dotted.
    kept : int, optional
        The round whose model was kept; a vertical line.

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

    def __init__(
        self, trace: pd.DataFrame, train: pd.DataFrame | None = None, kept: int | None = None
    ) -> None:
        self.trace = trace
        self.train = train
        self.kept = kept

    @classmethod
    def from_estimator(
        cls, model: Any, *, train: tuple[Any, ...] | None = None, ax: Sequence[Axes] | None = None
    ) -> MultipliersDisplay:
        """Draw the trace of a fitted model.

        Parameters
        ----------
        model : FairGBMClassifier or FairGBMRegressor
            Fitted, under at least one constraint.
        train : tuple (X, y, sensitive_features[, sample_weight[, exposure]]), optional
            Training rows, on which violations are computed as well: they look better there than
            on the rows held out. The exposure is for regressors.
        ax : pair of matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        trace = getattr(model, "trace_", None)
        if trace is None:
            raise NotFittedError(
                f"this {type(model).__name__} has no trace_; fit it before drawing its multipliers"
            )
        on_train = None
        if train is not None:
            on_train = violations_by_round(model, **rows_of(model, train))
        return cls(trace, on_train).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> MultipliersDisplay:
        """Draw the trace.

        Parameters
        ----------
        ax : pair of matplotlib.axes.Axes, optional
            The panels to draw multipliers and violations in; a new figure if left out.
        """
        labels = _rank_labels(self.trace)
        if ax is None:
            ax = new_axes(7.2, 5.0, labels[:MOST_LABELLED], panels=2)
        pair = np.ravel(np.asarray(ax, dtype=object))
        if len(pair) != 2:
            raise InvalidInputError(
                "ax must be two axes, for the multipliers and the violations; found "
                f"{len(pair)}. Make them with matplotlib.pyplot.subplots(2, 1, sharex=True)"
            )
        top, bottom = pair
        _draw_lines(top, self.trace, "multiplier", labels)
        _draw_lines(bottom, self.trace, "violation", labels)
        if self.train is not None:
            _draw_lines(bottom, self.train, "violation", labels, dotted=True)
            top.plot([], [], ".:", color=GREY, markersize=4, label="dotted: training rows")
        if self.kept is not None:
            for axes in pair:
                axes.axvline(self.kept, color=GREY, linewidth=1, linestyle="-.", zorder=1)
        bottom.axhline(0, color=GREY, linewidth=1, zorder=1)
        top.set_ylabel("multiplier")
        bottom.set(xlabel="boosting round", ylabel="violation (> 0: broken)")
        if not top.get_shared_x_axes().joined(top, bottom):
            top.set_xlabel("boosting round")
        legend_above(top)
        self.ax_, self.figure_ = pair, top.figure
        return self


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


def _draw_lines(
    ax: Axes, trace: pd.DataFrame, what: str, labels: Sequence[str], dotted: bool = False
) -> None:
    """Draw one panel; the first labels in colour, and on top of the others."""
    others = len(labels) - MOST_LABELLED
    for k, label in enumerate(labels):
        column = f"{what}: {label}"
        if column not in trace.columns:
            continue
        named, style = k < MOST_LABELLED, look(k)
        style["marker"] = "." if dotted and named else ""
        if dotted:
            style["linestyle"] = ":"
        else:
            more = f"{others} more" if k == MOST_LABELLED else None
            style["label"] = labelled(label) if named else more
        ax.plot(
            trace["round"].to_numpy(), trace[column].to_numpy(np.float64), markersize=4,
            linewidth=1.5 if named and not dotted else 0.8, alpha=1.0 if named else 0.5,
            zorder=2.5 if named else 2, **style,
        )  # fmt: skip
    ax.grid(alpha=0.3)
