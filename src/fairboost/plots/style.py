"""How displays look: colours, marks, legends and long names.

The colours are those of Okabe and Ito that show on white and on dark grounds alike; lines differ
by style or marker as well, for print in grey. No text or ground is coloured by hand, so a theme
keeps its say.
"""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "DASHES",
    "GREY",
    "LINES",
    "MARKERS",
    "MOST_LABELLED",
    "fold",
    "legend_above",
    "look",
    "pyplot",
]

# Okabe and Ito's palette without black and yellow, each of which is lost on one of the grounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--")
DASHES = ("--", ":", "-.")
GREY = "#808080"
MOST_LABELLED = len(COLOURS) * len(LINES)
"""Lines that can be told apart, and so are labelled; the rest is drawn in grey."""


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


def fold(text: str, width: int = 30, lines: int = 2) -> str:
    r"""Break a long name into lines, and leave out what does not fit.

    Examples
    --------
    >>> fold("Native Hawaiian and other Pacific Islander", 24)
    'Native Hawaiian and\nother Pacific Islander'
    """
    # A name without spaces is broken as well; single spaces between words are kept as they are.
    if len(text) <= width:
        return text
    return "\n".join(textwrap.wrap(text, width, max_lines=lines, placeholder=" …"))


def legend_above(ax: Axes, width: int = 24) -> None:
    """Put a legend above the axes, where nothing is drawn; fewer columns for longer names."""
    handles, labels = ax.get_legend_handles_labels()
    if not labels:
        return
    shown = [fold(label, width) for label in labels]
    longest = max(len(line) for text in shown for line in text.split("\n"))
    figure_width = ax.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    share = ax.get_position().width
    columns = max(1, int(figure_width * min(share + 0.1, 1.0) * 10.5) // (6 + longest))
    ax.legend(
        handles,
        shown,
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        borderaxespad=0.2,
        ncols=min(columns, len(shown)),
        frameon=False,
        fontsize="small",
        columnspacing=1.2,
    )


def pyplot() -> ModuleType:
    """Import matplotlib only when something is drawn: it is an extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "fairboost[plots]"') from error
    return plt
