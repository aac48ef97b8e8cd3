"""Figures and names as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from fairboost._text import places
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.numbers import N_LEVELS
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES
from fairboost.plots.numbers import DISTANCE, MEANS, RATIO
from fairboost.report.blocks import Cell, Tone
from fairboost.report.evidence import (
    Evidence,
    Figure,
    Finding,
    GroupRate,
    Performance,
    TaskName,
)
from fairboost.report.lines import CALIBRATED_RATES
from fairboost.verdicts.verdict import NO_VERDICT, SAYS_NOTHING

VERDICTS: dict[str, Tone] = {
    "not met": "bad",
    SAYS_NOTHING: "bad",
    "not met on these rows, not certain": "unsure",
    NO_VERDICT: "unsure",
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

GAPS = {
    **{name: f"gap in {moment.title}" for name, moment in NUMBERS.items()},
    RATIO: "largest distance of actual over expected from 1",
    DISTANCE: "largest distance of distributions",
}
"""How groups are compared by them."""

UNITLESS = (*RATES, "precision", RATIO, DISTANCE, *CALIBRATED_RATES.values())
"""Shares and ratios, of which three decimals are enough."""

ABSENT = "–"

MEAN_COST = "mean cost"
"""A measure of decisions by costs, which has a unit of its own."""

CLASS_KINDS = {
    "share given ": "share given a class",
    "recall of ": "recall of a class",
    "share of ": "share of a class given another",
    "accuracy": "accuracy",
}
"""Rates of three classes or more: how they begin, and what they are together."""

EXPLAINED_KINDS = {
    "share given a class": "of everyone, the share that the model gives this class",
    "recall of a class": "of those whose class it is, the share that the model gives it",
    "share of a class given another": "of those of the first class, the share that the model "
    "gives the second",
    "accuracy": "of everyone, the share that the model gives their own class",
}
"""The same in a sentence."""


def number(value: Figure, decimals: int = 3) -> str:
    """A figure, or a dash.

    Examples
    --------
    >>> number(0.12345), number(None), number(-0.0001), number(41234.5, 0)
    ('0.123', '–', '0.000', '41,234')
    """
    # No minus before 0.000.
    return ABSENT if value is None else f"{round(value, decimals) + 0.0:,.{decimals}f}"


def interval(value: Figure, low: Figure, high: Figure, decimals: int = 3) -> str:
    """A figure with its interval.

    Examples
    --------
    >>> interval(0.1, 0.05, 0.2)
    '0.100 [0.050, 0.200]'
    """
    if value is None or low is None or high is None:
        return number(value, decimals)
    ends = f"{number(low, decimals)}, {number(high, decimals)}"
    return f"{number(value, decimals)} [{ends}]"


def decimals_of(rate: str, evidence: Evidence) -> int:
    """Decimals that figures of a rate, or of a mean, are worth: the same for all groups.

    More where groups are so close that they could not be told apart.
    """
    if rate in UNITLESS or evidence.task == "classes":
        return 3
    # What is predicted and what was actual stand beside each other.
    same = ("prediction", "actual") if rate in ("prediction", "actual") else (rate,)
    known = [abs(r.value) for r in evidence.rates if r.rate in same and r.value is not None]
    least, gaps = places(*known), [g.gap for g in evidence.gaps if g.rate in same and g.gap]
    return max(least, min(places(min(gaps)) - 1, least + 2)) if gaps else least


def decimals_of_performance(measure: str, evidence: Evidence) -> int:
    """Decimals of a measure; of losses as many as the difference of two models takes."""
    if evidence.task != "numbers" and measure != MEAN_COST:
        return 3
    lines = (p for p in evidence.performance if p.measure == measure and p.value is not None)
    found = [(p.model == "difference", p.value or 0.0) for p in lines]
    least = places(*(value for _, value in found))
    apart = [value for of_both, value in found if of_both]
    return max(least, min(places(*apart), least + 2)) if apart else least


def finding_figures(finding: Finding, task: TaskName) -> tuple[str, str, str]:
    """The figure of a verdict and the ends of its interval, with as many decimals as it takes."""
    figures = finding.value, finding.low, finding.high
    decimals = 3
    if task == "numbers":
        decimals = places(*(x for x in (*figures, finding.limit) if x is not None))
    value, low, high = (number(x, decimals) for x in figures)
    return value, low, high


def finding_interval(finding: Finding, task: TaskName) -> str:
    """The same in one, as in tables."""
    value, low, high = finding_figures(finding, task)
    return value if ABSENT in (low, high) else f"{value} [{low}, {high}]"


def ends_of_verdicts(evidence: Evidence, ends: str) -> str:
    """The interval of a verdict, in words."""
    return f"{100 * evidence.asked.level:g}% interval {ends}"


def limit(most: float | None) -> str:
    """A limit, without an exponent where it is large; there may be none.

    Examples
    --------
    >>> limit(0.02), limit(1e-5), limit(2_500_000), limit(None)
    ('0.02', '0.00001', '2,500,000', 'none')
    """
    if most is None:
        return "none"
    text = f"{most:,g}"
    if "e" not in text:
        return text
    text = f"{most:,.{places(most)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def noun(evidence: Evidence) -> str:
    """What figures of groups are called."""
    return "figure" if evidence.task == "numbers" else "rate"


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


def number_cell(value: Figure, decimals: int = 3) -> Cell:
    """A figure in a table, where it sorts by the figure."""
    return Cell(number(value, decimals), value)


def interval_cell(value: Figure, low: Figure, high: Figure, decimals: int = 3) -> Cell:
    """A figure and its interval in a table, where they sort by the figure."""
    return Cell(interval(value, low, high, decimals), value)


def line_cell(line: GroupRate | Performance | None, decimals: int = 3) -> Cell:
    """The figure of a line of evidence, and its interval."""
    if line is None:
        return Cell(ABSENT)
    return interval_cell(line.value, line.low, line.high, decimals)


def count(rows: float | None) -> Cell:
    """A number of rows."""
    return Cell(ABSENT) if rows is None else Cell(f"{rows:,.0f}", rows)


def status_cell(status: str | None) -> Cell:
    """A verdict, if there is one."""
    return Cell(status or "", None, STATUS.get(status or "", ""))


def class_kind(rate: str) -> str:
    """What kind of rate of three classes or more it is.

    Examples
    --------
    >>> class_kind("recall of 'high'")
    'recall of a class'
    """
    return next((kind for start, kind in CLASS_KINDS.items() if rate.startswith(start)), rate)


def is_confused(rate: str) -> bool:
    """Whether a rate is an entry of a confusion matrix beside its diagonal."""
    return class_kind(rate) == CLASS_KINDS["share of "]


def rate_title(name: str, evidence: Evidence | None = None) -> str:
    """A rate, or a mean, in words; where people have decided, nothing was predicted."""
    title = RATES[name].title if name in RATES else MEANS.get(name, name)
    return title.removeprefix("predicted ") if evidence and are_decisions(evidence) else title


def are_decisions(evidence: Evidence) -> bool:
    """Whether a table of decisions was audited, of people or of whatever has made them."""
    return evidence.model is None and bool(evidence.data.decision)


def gap_title(name: str, evidence: Evidence | None = None) -> str:
    """How groups are compared by a rate or a mean, in words."""
    return GAPS.get(name, f"gap in {rate_title(name, evidence)}")


def test_rows(evidence: Evidence) -> str:
    """What the rows of a report are called: an audit of a table has no others."""
    return "rows of the table" if evidence.model is None else "test rows"


def model_title(name: str) -> str:
    """A model by what a reader calls it."""
    return MODELS.get(name, name)


def explain_rate(name: str, evidence: Evidence) -> str:
    """What a rate, or a mean, is, in a sentence without others.

    Parameters
    ----------
    name : str
        The rate.
    evidence : Evidence
        Tells what label and decision are called.
    """
    label, positive = evidence.data.label, evidence.data.positive
    rate = RATES.get(name)
    if evidence.task == "numbers":
        return _explain_mean(name, evidence)
    calibrated = {
        CALIBRATED_RATES["prediction"]: f"the mean probability that “{label}” is {positive}",
        CALIBRATED_RATES["actual"]: f"of everyone, the share for whom “{label}” is {positive}",
        RATIO: "the share of positive labels over the mean probability: 1 where both are equal",
    }
    if name in calibrated:
        return calibrated[name]
    if rate is None:
        return f"of those decided positively, the share for whom “{label}” is {positive}"
    if rate.label is None:
        who = "everyone"
    else:
        who = f"those for whom “{label}” is {'' if rate.label else 'not '}{positive}"
    return f"of {who}, the share decided {'positively' if rate.direction > 0 else 'negatively'}"


def _explain_mean(name: str, evidence: Evidence) -> str:
    """What a mean is."""
    data = evidence.data
    per = ", per unit of exposure" if data.exposure else ""
    means = [r.value for r in evidence.rates if r.rate in NUMBERS and r.value is not None]
    sides = "1 where both are equal"
    if min(means, default=0.0) >= 0:  # of means below 0 it is the other way round
        sides = (
            "above 1 where the model predicts too little for a group, below 1 where it predicts "
            "too much"
        )
    said = {
        "prediction": f"what the model predicts for “{data.label}”, on average{per}",
        "actual": f"what “{data.label}” was, on average{per}",
        "loss": f"the {data.loss}, on average{per}: lower is better",
        RATIO: f"the mean of what was actual over the mean prediction: {sides}",
        DISTANCE: "the largest difference between the share of the group and the share of "
        f"everyone whose prediction is above a level, at {N_LEVELS} quantiles of all predictions: "
        "0 where the distributions are equal, at most 1",
    }
    return said.get(name, name)


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
    'a decision is positive if the probability is at least 0.5'
    >>> explain_decisions(at_fpr(0.05), 0.7).partition(", ")[2]
    'placed so that the overall false positive rate is at most 0.05'
    """
    where = f"a decision is positive if the {score} is at least {threshold:.4g}"
    if not isinstance(point, OperatingPoint):
        return where
    asked = f"{'at least' if point.at_least else 'at most'} {point.target:g}"
    return f"{point}: {where}, placed {on}so that the overall {point.rate.title} is {asked}"


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
