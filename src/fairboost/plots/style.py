"""How displays look: colours, marks, legends and long names.

The colours are those of Okabe and Ito that show on white and on dark grounds alike; lines differ
by style or marker as well, for print in grey. No text or ground is coloured by hand, so a theme
keeps its say.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from fairboost._text import printable
from fairboost._typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

# Okabe and Ito's palette without black and yellow, each of which is lost on one of the grounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--")
DASHES = ("--", ":", "-.")
GREY = "#808080"
MOST_LABELLED = len(COLOURS) * len(LINES)
"""Lines that can be told apart, and so are labelled; the rest is drawn in grey."""

PLAIN_TEXT: dict[str, Any] = {"parse_math": False}
"""Of what shows a name from data: Matplotlib would read what is between two $ as mathematics."""

MARK = "\u2060"
"""A character that is not shown."""

LEGEND_WIDTH = 28
"""Characters in a line of a legend."""

CHARACTERS = 15
"""Small ones in an inch."""


class Display:
    """A picture on axes of its own, remembered once it is drawn."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _finish(self, ax: Axes) -> Self:
        """Put a legend above what was drawn, and remember where it is."""
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def look(k: int) -> dict[str, Any]:
    """Colour, line and marker of the k-th of several lines; grey after the last that has its own.

    Examples
    --------
    >>> look(1)
    {'color': '#D55E00', 'linestyle': '-', 'marker': 's'}
    """
    if k >= MOST_LABELLED:
        return {"color": GREY, "linestyle": "-", "marker": "."}
    return {
        "color": COLOURS[k % len(COLOURS)],
        "linestyle": LINES[k // len(COLOURS)],
        "marker": MARKERS[k % len(MARKERS)],
    }


def labelled(text: str) -> str:
    r"""A name as the label of a line; Matplotlib would leave out of legends what begins with _.

    Examples
    --------
    >>> labelled("F"), labelled("_F")
    ('F', '\u2060_F')
    """
    return text if text and not text.startswith("_") else f"{MARK}{text}"


def fold(text: str, width: int = 30, after: str = "") -> str:
    r"""Break a long name into two lines, and leave out what does not fit.

    Parameters
    ----------
    text : str
        The name.
    width : int
        Characters in a line.
    after : str
        What comes after the name, and always fits.

    Examples
    --------
    >>> fold("Native Hawaiian and other Pacific Islander", 24)
    'Native Hawaiian and\nother Pacific Islander'
    """
    text = printable(text)
    if len(text) + len(after) <= width:
        return text + after
    parts = textwrap.wrap(text, width, max_lines=2, placeholder=" …") or [""]
    if len(parts[-1]) + len(after) <= width:
        return "\n".join(parts) + after
    if len(parts) == 1:
        return "\n".join([*parts, after.strip()])
    parts[-1] = f"{parts[-1].removesuffix(' …')[: width - len(after) - 2].rstrip()} …{after}"
    return "\n".join(parts)


def new_axes(width: float, height: float, labels: Sequence[str] = (), panels: int = 1) -> Any:
    """The axes of a new figure, which is higher by what a legend of these labels takes.

    Parameters
    ----------
    width, height : float
        Of the figure without the legend, in inches.
    labels : sequence of str
        Of the legend.
    panels : int
        How many axes, one below the other; more than one are an array.
    """
    _, rows = _legend_grid(labels, 0.875 * width)
    size = (width, height + 0.17 * rows)
    return pyplot().subplots(panels, 1, figsize=size, layout="constrained", sharex=True)[1]


def arms(table: pd.DataFrame, name: str, prefix: str = "") -> FloatArray:
    """How far the interval of each line reaches below and above its figure: (2, n).

    Parameters
    ----------
    table : pandas.DataFrame
        The figures.
    name : str
        The column of the figures.
    prefix : str
        Of the columns ``low`` and ``high``.
    """
    value, low, high = table[[name, f"{prefix}low", f"{prefix}high"]].to_numpy(np.float64).T
    # Rounding may put an end a hair's breadth on the wrong side of the value.
    return np.stack([value - low, high - value]).clip(0.0)


def plain_ticks(*axes: Axis) -> None:
    """Write large and tiny numbers at ticks in full, or as k and M.

    Matplotlib would put a common factor, such as 1e7, into a corner, where the legend is.
    """
    from matplotlib.ticker import EngFormatter, Formatter, FuncFormatter, MaxNLocator

    for axis in axes:
        axis.axes.autoscale_view()
        size = float(np.abs(axis.get_view_interval()).max())
        if size >= 1e4 or size < 1e-2:  # which take room
            axis.set_major_locator(MaxNLocator(4))
        shown: Formatter
        if size >= 1e6:
            shown = EngFormatter(sep="")
        elif size >= 1e4:
            shown = FuncFormatter(lambda x, _: f"{x:,.6g}")
        elif size < 1e-3:
            shown = FuncFormatter(lambda x, _: f"{x:.6g}")
        else:
            continue
        axis.set_major_formatter(shown)


def legend_above(ax: Axes) -> None:
    """Put a legend above the axes, where nothing is drawn; fewer columns for longer names."""
    handles, marked = ax.get_legend_handles_labels()
    labels = [label.removeprefix(MARK) for label in marked]
    if not labels:
        return
    around = ax.figure
    if (engine := around.get_layout_engine()) is not None:  # long names move the axes aside
        engine.execute(around.canvas.figure)
    place = ax.get_position()
    # A page may have wider letters than the ones measured here.
    room = around.bbox.width * min(place.width + 0.1, 0.9 * (1 - place.x0))
    columns, _ = _legend_grid(labels, room / around.dpi)
    folded = [fold(label, LEGEND_WIDTH) for label in labels]
    # That was an estimate by the number of letters; what counts is how wide they are.
    for ncols in range(columns, 0, -1):
        legend = ax.legend(
            handles, marked, loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0.2,
            ncols=ncols, frameon=False, fontsize="small", columnspacing=1.2,
        )  # fmt: skip
        for shown, label in zip(legend.get_texts(), folded, strict=True):
            shown.set(text=label, **PLAIN_TEXT)
        if legend.get_window_extent().width <= room:
            return


def _legend_grid(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Columns of a legend so many inches wide, and how many lines it has then."""
    shown = [fold(label, LEGEND_WIDTH).split("\n") for label in labels]
    longest = max((len(line) for lines in shown for line in lines), default=0)
    columns = min(max(1, int(width * CHARACTERS) // (7 + longest)), max(len(labels), 1))
    deep = 2 if any(len(lines) > 1 for lines in shown) else 1
    return columns, deep * math.ceil(len(labels) / columns)


def svg_of(figure: Figure) -> str:
    """A figure as the text of an SVG file, without date and origin.

    ``Figure.savefig`` would lay out and draw everything twice, and write the same.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return text.getvalue()


def pyplot() -> ModuleType:
    """Import matplotlib only when something is drawn: it is an extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "fairboost[plots]"') from error
    return plt
