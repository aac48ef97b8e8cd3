"""The pictures of a report: displays of :mod:`fairboost.plots`, as SVG that fits into a page.

Text and colours of the SVG are left to the page, so that it follows a dark theme; its names are
made the page's own; nothing in it depends on the time or on chance.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from fairboost import plots
from fairboost._text import escape_html
from fairboost.plots.classes import confusion_axes
from fairboost.plots.numbers import PER_EXPOSURE, PREDICTION, calibration_points
from fairboost.plots.scores import EXPOSURE_AXES, NUMBER_AXES
from fairboost.plots.style import (
    COLOURS,
    GREY,
    MOST_LABELLED,
    new_axes,
    plain_ticks,
    pyplot,
    svg_of,
)
from fairboost.report.blocks import Picture
from fairboost.report.evidence import Calibration, Evidence, Roc
from fairboost.report.findings import deciles_shown, in_picture
from fairboost.report.lines import CALIBRATED_RATES
from fairboost.report.words import MODELS, are_decisions, rate_title, where_title
from fairboost.verdicts.rounds import PREFIX

WIDTH = 5.0
"""Inches. Narrow, so that text can be read on a phone; a wide screen has two beside each other."""

INK = "#010203"
"""Stands for the page's own text colour."""

SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "svg.hashsalt": "fairboost",
    "font.size": 9.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    **dict.fromkeys(
        ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK
    ),
}


def draw(picture: Picture, evidence: Evidence, name: str) -> str:
    """Draw a picture as an SVG element.

    Parameters
    ----------
    picture : Picture
        Which, of what, and its alternative text.
    evidence : Evidence
        What there is to draw.
    name : str
        Unique in the page; the names inside of the SVG begin with it.
    """
    return as_svg(lambda: DRAWN[picture.name](evidence, picture.about), name, picture.alt)


def as_svg(make: Callable[[], Any], name: str, alt: str) -> str:
    """A figure as an SVG element that follows the page.

    Parameters
    ----------
    make : callable
        Makes the figure.
    name : str
        Unique in the page; the names inside of the SVG begin with it.
    alt : str
        What is to be seen in it.
    """
    plt = pyplot()
    with plt.style.context("default"), plt.rc_context(SETTINGS), warnings.catch_warnings():
        # The font is the reader's: ours, by which room is made, need not have every character.
        warnings.filterwarnings("ignore", r"Glyph \d+")
        figure = make()
        svg = svg_of(figure)
        plt.close(figure)
    return _fit(svg, name, alt)


def _fit(svg: str, name: str, alt: str) -> str:
    """Make a file into a part of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)  # it would be the page's
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    svg = svg.replace(INK, "currentColor").replace(GREY, "var(--grey)")
    for k, colour in enumerate(COLOURS):
        svg = svg.replace(colour.lower(), f"var(--c{k})")
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    label = f'role="img" aria-label="{escape_html(alt)}"'
    svg = re.sub(r"<svg[^>]*>", lambda _: f"<svg {box.group(0)} {label}>", svg, count=1)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()


def _rates(evidence: Evidence, rate: str) -> Any:
    lines = in_picture(evidence, rate)
    table = _table(lines, "value", "low", "high").replace({"model": MODELS})
    if rate in ("actual", CALIBRATED_RATES["actual"]):
        table["model"] = ""  # it is nobody's
    groups = len(table[["attribute", "group"]].drop_duplicates()) + table["attribute"].nunique()
    if evidence.model is None:  # an audit is about one table
        table["model"] = ""
    ax = new_axes(WIDTH, 0.7 + 0.36 * groups, ["", ""])
    drawn = plots.GroupRatesDisplay(table).plot(ax)
    if are_decisions(evidence):
        ax.set_xlabel(rate_title(rate, evidence))
    return drawn.figure_


def _curve(evidence: Evidence, about: str) -> Any:
    rate, _, column = about.partition(" ")
    lines = [r for r in in_picture(evidence, rate) if r.attribute == column]
    table = _table(lines, "value", "low", "high").replace({"model": MODELS})
    windows = evidence.windows[column]
    table["at"] = [at for _ in range(len(table) // len(windows)) for at in windows]
    ax = new_axes(WIDTH, 3.2, ["", ""])
    return plots.RateCurveDisplay(table, column).plot(ax).figure_


def _tradeoff(evidence: Evidence, _: str) -> Any:
    tradeoff = evidence.tradeoff
    assert tradeoff is not None
    name = "loss" if evidence.task == "numbers" else "accuracy"
    names = ("tolerance", name, "gap")
    ends = (f"{name}_low", f"{name}_high", "gap_low", "gap_high")
    other = "accuracy" if name == "loss" else "loss"
    table = _table(tradeoff.points, *names, *ends).drop(columns=other)
    table = table.rename(columns=lambda c: c.replace("_", " "))
    ax = new_axes(WIDTH, 3.6, ["a", "b", "c"])
    titles = (tradeoff.measure, tradeoff.figure) if name == "loss" else None
    where = where_title(tradeoff.where)
    plots.TradeoffDisplay(table, tradeoff.chosen, where, titles).plot(ax)
    if name == "loss":
        plain_ticks(ax.xaxis, ax.yaxis)
    for k, (gap, performance) in enumerate(zip(table["gap"], table[name], strict=True)):
        ax.plot(
            gap, performance, "s", markersize=17, markerfacecolor="none", markeredgecolor=INK,
            markeredgewidth=1.6, gid=f"ring-{k}",
        )  # fmt: skip
    return ax.figure


def _rounds(evidence: Evidence, _: str) -> Any:
    rounds = evidence.rounds
    assert rounds is not None
    trace = pd.DataFrame({"round": rounds.rounds})
    trace = trace.join(pd.DataFrame(rounds.violations, dtype=float).add_prefix(PREFIX))
    trace = trace.join(pd.DataFrame(rounds.multipliers, dtype=float).add_prefix("multiplier: "))
    train = None
    if rounds.train_violations:
        train = pd.DataFrame(rounds.train_violations, dtype=float).add_prefix(PREFIX)
        train["round"] = rounds.train_rounds
    axes = new_axes(WIDTH, 4.4, list(rounds.multipliers)[:MOST_LABELLED], panels=2)
    return plots.MultipliersDisplay(trace, train, rounds.kept).plot(axes).figure_


def _roc(evidence: Evidence, column: str) -> Any:
    curves = [c for c in evidence.roc if c.attribute == column]
    table = _joined(curves, "fpr", "tpr")
    points = _table(curves, "at_fpr", "at_tpr")[["group", "at_fpr", "at_tpr"]]
    points.columns = ["group", "fpr", "tpr"]
    ax = new_axes(WIDTH, 4.6, [c.group for c in curves][:MOST_LABELLED])
    return plots.GroupRocDisplay(table, points).plot(ax).figure_


def _scores(evidence: Evidence, column: str) -> Any:
    found = [s for s in evidence.scores if s.attribute == column]
    outlines = [
        pd.DataFrame({"low": s.edges[:-1], "high": s.edges[1:], "share": s.shares}).assign(
            group=s.group, label=int(s.positive)
        )
        for s in found
    ]
    names = {s.positive: s.label for s in found}
    labels = (names.get(False, "others"), names.get(True, evidence.data.positive))
    groups = len(dict.fromkeys(s.group for s in found))
    ax = new_axes(WIDTH, 0.9 + 0.55 * groups, ["", "", ""])
    display = plots.GroupScoresDisplay(pd.concat(outlines), evidence.asked.threshold, labels)
    return display.plot(ax).figure_


def _calibration(evidence: Evidence, column: str) -> Any:
    found = [c for c in evidence.calibration if c.attribute == column]
    table = _joined(found, "predicted", "found", "low", "high")
    ax = new_axes(WIDTH, 4.6, [c.group for c in found][:MOST_LABELLED])
    return plots.GroupCalibrationDisplay(table).plot(ax).figure_


def _deciles(evidence: Evidence, column: str) -> Any:
    found = deciles_shown(evidence, column)
    table = _table(found, "ratio_low", "ratio_high")
    names = ["group", "expected", "actual", "exposure", "ratio_low", "ratio_high"]
    points = calibration_points(*(table[name] for name in names))
    titles = EXPOSURE_AXES if evidence.data.exposure else NUMBER_AXES
    groups = list(dict.fromkeys(table["group"]))
    ax = new_axes(WIDTH, 4.2, groups[:MOST_LABELLED])
    return plots.GroupCalibrationDisplay(points, titles).plot(ax).figure_


def _distributions(evidence: Evidence, column: str) -> Any:
    found = [d for d in evidence.distributions if d.attribute == column]
    steps = [
        pd.DataFrame({"group": d.group, "prediction": d.values, "share": d.shares}) for d in found
    ]
    unit = PER_EXPOSURE if evidence.data.exposure else PREDICTION
    ax = new_axes(WIDTH, 3.6, [d.group for d in found][:MOST_LABELLED])
    return plots.GroupPredictionsDisplay(pd.concat(steps), unit).plot(ax).figure_


def _confusion(evidence: Evidence, column: str) -> Any:
    found = [c for c in evidence.confusion if c.attribute in ("", column)]
    shares = [
        pd.DataFrame({"given": evidence.data.classes, "value": c.shares}).assign(
            attribute=c.attribute, group=c.group, label=c.actual, rows=c.rows
        )
        for c in found
    ]
    table = pd.concat(shares).astype({"value": float})
    groups = dict.fromkeys((c.attribute, c.group) for c in found)
    axes = confusion_axes(len(groups), len(evidence.data.classes), WIDTH)
    return plots.GroupConfusionDisplay(table).plot(axes).figure_


def _table(lines: Iterable[object], *figures: str) -> pd.DataFrame:
    """Lines of evidence as a table; in columns of figures, None is missing."""
    return pd.DataFrame([vars(line) for line in lines]).astype(dict.fromkeys(figures, float))


def _joined(curves: Iterable[Roc | Calibration], *names: str) -> pd.DataFrame:
    """The points of all curves, one below the other."""
    tables = [
        pd.DataFrame({n: getattr(c, n) for n in names}).assign(group=c.group) for c in curves
    ]
    return pd.concat(tables)


DRAWN: dict[str, Callable[[Evidence, str], Any]] = {
    "curve": _curve,
    "rates": _rates,
    "tradeoff": _tradeoff,
    "rounds": _rounds,
    "roc": _roc,
    "scores": _scores,
    "calibration": _calibration,
    "deciles": _deciles,
    "distributions": _distributions,
    "confusion": _confusion,
}
"""Pictures by name."""
