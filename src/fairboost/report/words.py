"""Figures and names as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.report.blocks import Cell, Tone
from fairboost.report.evidence import Evidence, Figure, GroupRate, Performance
from fairboost.verdicts.verdict import SAYS_NOTHING

VERDICTS: dict[str, Tone] = {
    "not met": "bad",
    SAYS_NOTHING: "bad",
    "not met on these rows, not certain": "unsure",
    "met on these rows, not certain": "unsure",
    "met": "good",
}
"""What verdicts mean to a reader; in headlines, the worst first."""

STATUS: dict[str, Tone] = {
    **VERDICTS,
    "passes": "good",
    "fails": "bad",
    "passes on these rows, not certain": "unsure",
    "fails on these rows, not certain": "unsure",
}
"""The same, and what is said of rules."""

MODELS = {"chosen": "this model", "plain": "plain engine"}
"""Models by what a reader calls them; others by their own names."""

ABSENT = "–"


def number(value: Figure) -> str:
    """A figure, or a dash.

    Examples
    --------
    >>> number(0.12345), number(None), number(-0.0001)
    ('0.123', '–', '0.000')
    """
    return ABSENT if value is None else f"{round(value, 3) + 0.0:.3f}"  # no minus before 0.000


def interval(value: Figure, low: Figure, high: Figure) -> str:
    """A figure with its interval.

    Examples
    --------
    >>> interval(0.1, 0.05, 0.2)
    '0.100 [0.050, 0.200]'
    """
    if value is None or low is None or high is None:
        return number(value)
    return f"{number(value)} [{number(low)}, {number(high)}]"


def percents(*rates: float) -> tuple[str, ...]:
    """Rates in percent, with as many digits as it takes to tell them apart.

    Examples
    --------
    >>> percents(0.312, 0.24), percents(0.312, 0.309), percents(0.004, 0.0)
    (('31%', '24%'), ('31.2%', '30.9%'), ('0.4%', '0.0%'))
    """
    whole = [f"{100 * rate:.0f}%" for rate in rates]
    fine = [f"{100 * rate:.1f}%" for rate in rates]
    tell = len(set(whole)) == len(set(fine)) and all(0.01 <= rate <= 0.99 for rate in rates)
    return tuple(whole if tell else fine)


def number_cell(value: Figure) -> Cell:
    """A figure in a table, where it sorts by the figure."""
    return Cell(number(value), value)


def interval_cell(value: Figure, low: Figure, high: Figure) -> Cell:
    """A figure and its interval in a table, where they sort by the figure."""
    return Cell(interval(value, low, high), value)


def line_cell(line: GroupRate | Performance | None) -> Cell:
    """The figure of a line of evidence, and its interval."""
    return Cell(ABSENT) if line is None else interval_cell(line.value, line.low, line.high)


def count(rows: float | None) -> Cell:
    """A number of rows."""
    return Cell(ABSENT) if rows is None else Cell(f"{rows:,.0f}", rows)


def status_cell(status: str | None) -> Cell:
    """A verdict, if there is one."""
    return Cell(status or "", None, STATUS.get(status or "", ""))


def rate_title(name: str) -> str:
    """A rate in words."""
    return RATES[name].title if name in RATES else name


def model_title(name: str) -> str:
    """A model by what a reader calls it."""
    return MODELS.get(name, name)


def explain_rate(name: str, evidence: Evidence) -> str:
    """What a rate is, in a sentence without other rates.

    Parameters
    ----------
    name : str
        The rate.
    evidence : Evidence
        Tells what label and decision are called.
    """
    label, positive = evidence.data.label, evidence.data.positive
    rate = RATES.get(name)
    if rate is None:
        return f"of those decided positively, the share for whom “{label}” is {positive}"
    if rate.label is None:
        who = "everyone"
    else:
        who = f"those for whom “{label}” is {'' if rate.label else 'not '}{positive}"
    return f"of {who}, the share decided {'positively' if rate.direction > 0 else 'negatively'}"


def explain_decisions(
    point: float | OperatingPoint, threshold: float, score: str = "probability", on: str = ""
) -> str:
    """Where decisions are made, and what for.

    Parameters
    ----------
    point : float or OperatingPoint
        What was asked for.
    threshold : float
        Where it lies.
    score : str
        What to call a score.
    on : str
        The rows on which an operating point was placed, if that is worth saying.

    Examples
    --------
    >>> from fairboost import at_fpr
    >>> explain_decisions(0.5, 0.5)
    'a decision is positive from a probability of 0.5 on'
    >>> explain_decisions(at_fpr(0.05), 0.7).partition(", ")[2]
    'placed so that the false positive rate of everyone is at most 0.05'
    """
    where = f"a decision is positive from a {score} of {threshold:.4g} on"
    if not isinstance(point, OperatingPoint):
        return where
    asked = f"{'at least' if point.at_least else 'at most'} {point.target:g}"
    return f"{point}: {where}, placed {on}so that the {point.rate.title} of everyone is {asked}"


def where_title(where: str) -> str:
    """Rows by name, e.g. ``"test rows"``."""
    return f"{where} rows" if where in ("test", "training") else f"rows {where}"


def on_rows(status: str, where: str) -> str:
    """A verdict with its rows by name.

    Examples
    --------
    >>> on_rows("met on these rows, not certain", "test rows")
    'met on the test rows, not certain'
    """
    return status.replace("on these rows", f"on the {where}")


def join(items: Sequence[str]) -> str:
    """``"a, b and c"``.

    Examples
    --------
    >>> join(["a", "b", "c"]), join(["a"])
    ('a, b and c', 'a')
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
