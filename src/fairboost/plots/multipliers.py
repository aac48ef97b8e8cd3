"""Multipliers and violations over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fairboost.exceptions import InvalidInputError
from fairboost.plots.style import COLOURS, GREY, LINES, MOST_LABELLED, figure_for, legend_above
from fairboost.verdicts.rounds import violations_by_round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


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
        self,
        trace: pd.DataFrame,
        train: pd.DataFrame | None = None,
        kept: int | None = None,
    ) -> None:
        self.trace = trace
        self.train = train
        self.kept = kept

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        train: tuple[Any, ...] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> MultipliersDisplay:
        """Draw the trace of a fitted model.

        Parameters
        ----------
        model : FairGBMClassifier
            Fitted, under at least one constraint.
        train : tuple (X, y, sensitive_features[, sample_weight]), optional
            Training rows, on which violations are computed as well: they look better there than
            on the rows held out.
        ax : pair of matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.
        """
        trace = getattr(model, "trace_", None)
        if trace is None:
            raise NotFittedError(
                f"this {type(model).__name__} has no trace_; fit it before drawing its multipliers"
            )
        seen = None
        if train is not None:
            X, y, sensitive, *weight = train
            seen = violations_by_round(
                model, X, y, sensitive_features=sensitive,
                sample_weight=weight[0] if weight else None,
            )  # fmt: skip
        return cls(trace, seen).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> MultipliersDisplay:
        """Draw the trace.

        Parameters
        ----------
        ax : pair of matplotlib.axes.Axes, optional
            The panels to draw multipliers and violations in; a new figure if left out.
        """
        labels = _rank_labels(self.trace)
        if ax is None:
            figure, whole = figure_for(labels[:MOST_LABELLED], 7.2, 5.0)
            whole.remove()
            ax = figure.subplots(2, 1, sharex=True)
        top, bottom = _check_pair(ax)
        _draw_lines(top, self.trace, "multiplier", labels)
        _draw_lines(bottom, self.trace, "violation", labels)
        if self.train is not None:
            _draw_lines(bottom, self.train, "violation", labels, dotted=True)
            top.plot([], [], ".:", color=GREY, markersize=4, label="dotted: training rows")
        if self.kept is not None:
            for axes in (top, bottom):
                axes.axvline(self.kept, color=GREY, linewidth=1, linestyle="-.", zorder=1)
        bottom.axhline(0, color=GREY, linewidth=1, zorder=1)
        top.set_ylabel("multiplier")
        bottom.set_ylabel("violation (> 0: broken)")
        bottom.set_xlabel("boosting round")
        if not top.get_shared_x_axes().joined(top, bottom):
            top.set_xlabel("boosting round")
        self.ax_ = np.array([top, bottom], dtype=object)
        self.figure_ = top.figure
        legend_above(top)
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


def _draw_lines(
    ax: Axes, trace: pd.DataFrame, what: str, labels: Sequence[str], dotted: bool = False
) -> None:
    """Draw one panel; the first labels in colour, and on top of the others."""
    rounds = trace["round"].to_numpy()
    others = len(labels) - MOST_LABELLED
    for k, label in enumerate(labels):
        column = f"{what}: {label}"
        if column not in trace.columns:
            continue
        named = k < MOST_LABELLED
        name = label if named else f"{others} more" if k == MOST_LABELLED else None
        if dotted:
            name = None
        ax.plot(
            rounds,
            trace[column].to_numpy(np.float64),
            color=COLOURS[k % len(COLOURS)] if named else GREY,
            linestyle=":" if dotted else LINES[k // len(COLOURS)] if named else "-",
            marker="." if dotted and named else "",
            markersize=4,
            linewidth=1.5 if named and not dotted else 0.8,
            alpha=1.0 if named else 0.5,
            zorder=2.5 if named else 2,
            label=name,
        )
    ax.grid(alpha=0.3)
