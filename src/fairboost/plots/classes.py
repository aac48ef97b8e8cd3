"""Decisions among several classes by group: confusion matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairboost._text import printable
from fairboost._typing import ArrayLike, Matrix
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.metrics import ClassAudit, audit_classes
from fairboost.metrics.classes import title_of
from fairboost.metrics.comparisons import LEFT_OUT
from fairboost.metrics.group_metrics import By
from fairboost.plots.style import COLOURS, PLAIN_TEXT, fold, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TABLE_COLUMNS = ("attribute", "group", "label", "given", "value", "rows")

MOST_PANELS = 12
"""Confusion matrices in one picture."""

MOST_FIGURES = 10
"""Classes up to which shares are written into the matrix."""

ROOMY = 6
"""Classes up to which they are written in full size."""

DARKEST = 0.55
"""How much of the colour a share of 1 has: text must be read on it, on light and dark grounds."""

SQUARE = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))

NAME = 14
"""Characters of the name of a class in a line."""


class GroupConfusionDisplay:
    """The confusion matrix of every group, side by side, in percent of the rows of each class.

    Parameters
    ----------
    table : pandas.DataFrame
        A line per ``attribute``, ``group``, class of the rows (``label``) and class that they are
        given (``given``): the share (``value``) and ``rows``; as ``rates`` of
        :func:`fairboost.metrics.audit_classes`, of recalls and confused shares.

    Attributes
    ----------
    ax_ : array of matplotlib.axes.Axes
        A panel per group.
    figure_ : matplotlib.figure.Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from fairboost.plots import GroupConfusionDisplay
    >>> y, given = ["low", "middle", "high"] * 40, ["low", "low", "high"] * 40
    >>> display = GroupConfusionDisplay.from_predictions(
    ...     y, given, sensitive_features={"sex": list("FM") * 60}
    ... )
    >>> len(display.ax_)
    3
    """

    ax_: NDArray[np.object_]
    figure_: Figure | SubFigure

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        by: By | None = None,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> GroupConfusionDisplay:
        """Count, and draw.

        Parameters
        ----------
        y_true, y_pred : (n,) array
            Classes of the rows, and the classes that they were given.
        sensitive_features, by, sample_weight, classes
            As in :func:`fairboost.metrics.audit_classes`.
        ax : sequence of matplotlib.axes.Axes, optional
            Where to draw, a panel for everyone and one per group; a new figure if left out.
        """
        found = audit_rates(
            y_true, y_pred, sensitive_features=sensitive_features, by=by, classes=classes,
            sample_weight=sample_weight,
        ).rates  # fmt: skip
        own = found[found["rate"].isin(["recall", "confused"])]
        return cls(own.reset_index(drop=True)).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Matrix, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> GroupConfusionDisplay:
        """Decide for rows by a fitted model, and draw.

        Parameters
        ----------
        model : classifier
            Fitted, with ``predict`` and ``classes_``.
        X, y, sensitive_features
            The rows.
        **options
            Of :meth:`from_predictions`.
        """
        if not hasattr(model, "classes_"):
            raise InvalidInputError(
                f"GroupConfusionDisplay shows which classes are given, and {type(model).__name__} "
                "has no classes_; pass a fitted classifier"
            )
        options = {"classes": list(model.classes_.tolist()), **options}
        given = model.predict(X)
        return cls.from_predictions(y, given, sensitive_features=sensitive_features, **options)

    def plot(
        self, ax: Sequence[Axes] | NDArray[np.object_] | None = None
    ) -> GroupConfusionDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : sequence of matplotlib.axes.Axes, optional
            Where to draw, a panel per group; a new figure if left out.
        """
        groups = _check_matrices(self.table)
        classes = list(dict.fromkeys(self.table["label"]))
        panels = confusion_axes(len(groups), len(classes)) if ax is None else _as_panels(ax)
        if len(panels) < len(groups):
            raise InvalidInputError(
                f"ax must be {len(groups)} axes, one for each group, found {len(panels)}; make "
                "them with matplotlib.pyplot.subplots, or leave ax out"
            )
        several = len({attribute for attribute, _ in groups if attribute}) > 1
        for panel, (attribute, group) in zip(panels, groups, strict=False):
            own = (self.table["attribute"] == attribute) & (self.table["group"] == group)
            _draw_matrix(panel, self.table[own], classes)
            name = f"{attribute} = {group}" if attribute and several else group
            panel.set_title(fold(name, 26), fontsize="small", loc="left", **PLAIN_TEXT)
        self.ax_, self.figure_ = panels[: len(groups)], panels[0].figure
        return self


def confusion_axes(groups: int, classes: int, width: float = 6.4) -> NDArray[np.object_]:
    """Panels of a new figure, two beside each other, as high as so many classes take.

    Parameters
    ----------
    groups, classes : int
        How many there are.
    width : float
        Of the figure, in inches.
    """
    rows = math.ceil(groups / 2)
    side = 0.4 * width
    size = (width, 0.9 + rows * (side + 0.35))
    figure, axes = pyplot().subplots(
        rows, 2, figsize=size, layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    panels = np.ravel(axes)
    for panel in panels[groups:]:
        panel.remove()
    if groups % 2 and groups > 1:  # the last on the right has its names itself
        panels[groups - 2].tick_params(axis="x", labelbottom=True)
    figure.supxlabel("class given", fontsize="medium")
    figure.supylabel("class of the rows", fontsize="medium")
    return np.asarray(panels[:groups], dtype=object)


def audit_rates(y_true: ArrayLike, y_pred: ArrayLike, **rows: Any) -> ClassAudit:
    """As :func:`fairboost.metrics.audit_classes`, where no gap is shown, nor warned of.

    Parameters
    ----------
    y_true, y_pred : (n,) array
        Classes of the rows, and the classes that they were given.
    **rows
        Of :func:`fairboost.metrics.audit_classes`.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", LEFT_OUT, FairnessWarning)
        return audit_classes(y_true, y_pred, **rows)


def rate_of_classes(
    y_true: ArrayLike, y_pred: ArrayLike, rate: str, of: object, **rows: Any
) -> pd.DataFrame:
    """One rate of classes by group, in the columns of :func:`fairboost.metrics.group_rates`.

    Parameters
    ----------
    y_true, y_pred : (n,) array
        Classes of the rows, and the classes that they were given.
    rate : {"given", "recall", "confused", "accuracy"}
        Which rate.
    of : label or (label, label)
        The class; of "confused" the class of the rows and the class that they are given. None for
        the accuracy.
    **rows
        Of :func:`fairboost.metrics.audit_classes`.
    """
    found = audit_rates(y_true, y_pred, **rows)
    pair = of if isinstance(of, tuple) and len(of) == 2 else (of,)
    known = {"accuracy": 0, "confused": 2}.get(rate, 1)
    if (of is not None) != (known > 0) or (of is not None and len(pair) != known):
        wanted = {0: "no class", 1: "a class", 2: "two classes"}[known]
        raise InvalidInputError(f"rate={rate!r} takes {wanted}, found of={of!r}; correct of=")
    for label in pair if known else ():
        if label not in found.classes:
            listed = ", ".join(map(repr, found.classes))
            raise InvalidInputError(f"of={of!r} names a class that is not among {listed}")
    table = found.rates[found.rates["rate"] == rate]
    if known:
        table = table[table["given"] == pair[-1]]
    if known == 2:
        table = table[table["label"] == pair[0]]
    return table.assign(rate=title_of(rate, *((None, None) if not known else (None, *pair)[-2:])))


def _check_matrices(table: pd.DataFrame) -> list[tuple[str, str]]:
    """The groups of a table, checked."""
    absent = [column for column in TABLE_COLUMNS if column not in table.columns]
    if absent:
        raise InvalidInputError(
            f"the table lacks the columns {', '.join(absent)}; expected the recalls and confused "
            "shares of fairboost.metrics.audit_classes(...).rates"
        )
    pairs = table[["attribute", "group"]].drop_duplicates().to_numpy().tolist()
    if not 0 < len(pairs) <= MOST_PANELS:
        raise InvalidInputError(
            f"a GroupConfusionDisplay shows 1 to {MOST_PANELS} groups, everyone among them, found "
            f"{len(pairs)}; choose a column, by='sex', or merge groups"
        )
    return [(str(attribute), str(group)) for attribute, group in pairs]


def _as_panels(ax: Sequence[Axes] | NDArray[np.object_]) -> NDArray[np.object_]:
    return np.ravel(np.asarray(ax, dtype=object))


def _draw_matrix(ax: Axes, part: pd.DataFrame, classes: Sequence[Any]) -> None:
    """One confusion matrix, with the share in each cell as long as there is room."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    places, n = {label: k for k, label in enumerate(classes)}, len(classes)
    squares, colours = [], []
    size = "medium" if n <= ROOMY else "small"
    for line in part.to_dict("records"):
        share = float(line["value"])
        x, y = places[line["given"]], places[line["label"]]
        # Drawn as squares, and not as an image, so that a page may recolour them.
        squares.append([(x + i, y + j) for i, j in SQUARE])
        colours.append(to_rgba(COLOURS[0], DARKEST * (0.0 if math.isnan(share) else share)))
        if n <= MOST_FIGURES:
            text = "–" if math.isnan(share) else f"{100 * share:.0f}"
            weight = "bold" if x == y else "normal"
            ax.text(x, y, text, ha="center", va="center", fontsize=size, fontweight=weight)
    ax.add_collection(PolyCollection(squares, facecolors=colours, linewidths=0))
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    names = [fold(printable(str(label)), NAME) for label in classes]
    size = "small" if n <= MOST_FIGURES else "xx-small"
    ax.set_xticks(range(n), names, rotation=90, fontsize=size, **PLAIN_TEXT)
    ax.set_yticks(range(n), names, fontsize=size, **PLAIN_TEXT)
    ax.tick_params(length=0)
