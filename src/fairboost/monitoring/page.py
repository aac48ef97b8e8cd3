"""What monitoring found, as a page: alarms, verdicts per period, rates, shares, and how sure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairboost.filings.filing import Filing
from fairboost.monitoring.checks import Check
from fairboost.monitoring.counts import NO_GROUP, SHARE, Series
from fairboost.monitoring.watch import Alarm, Watched
from fairboost.plots.over_time import OverTimeDisplay
from fairboost.plots.style import MOST_LABELLED, new_axes
from fairboost.report.blocks import Block, Bullets, Cell, Facts, Picture, Section, TableBlock, Text
from fairboost.report.pictures import WIDTH, as_svg
from fairboost.report.words import (
    VERDICTS,
    count,
    interval,
    interval_cell,
    number,
    number_cell,
)

KIND = "monitor"
VERDICT_COLUMNS = [
    "check", "measure", "limit", "period", "rows", "value", "low", "high", "verdict", "alarm_at",
]  # fmt: skip
FIGURES = (
    ("value", "low", "high"),
    ("value_so_far", "low_so_far", "high_so_far"),
    ("training", "training_low", "training_high"),
)
MOST_DRAWN = 6
"""Groups up to which a picture shows all of them; of more, those that are farthest apart."""


def monitoring_page(
    watched: Watched, *, title: str, facts: Mapping[str, str], notes: Sequence[str] = ()
) -> Filing:
    """Lay out what was found.

    Parameters
    ----------
    watched : Watched
        What was found.
    title : str
        Of the page.
    facts : mapping of str to str
        Where the rows and the model came from.
    notes : sequence of str
        What a reader has to know.
    """
    tables = tables_of(watched)
    rates = tables["rates"]
    parts: Iterable[tuple[str, Iterable[Block]]] = (
        ("In short", _summary(watched)),
        ("Alarms", _alarms(watched)),
        ("Constraints and targets over time", _checks(watched, rates)),
        ("Share of positive decisions", _realised(watched, rates)),
        ("Shares of groups", _shares(watched, rates)),
        ("The rows", _rows(watched, facts, notes)),
        ("How sure the intervals are", _method(watched)),
    )
    sections = [Section(name, tuple(blocks)) for name, found in parts if (blocks := list(found))]
    about = {
        "title": title,
        "confidence": watched.confidence,
        "max_change": watched.max_change,
        "about": dict(facts),
        "notes": list(notes),
        "standing": len(watched.standing),
        "state": watched.state,
        "doubts": doubts(watched),
    }

    def drawn(picture: Picture, name: str) -> str:
        return as_svg(lambda: _figure(picture, watched, tables), name, picture.alt)

    return Filing(KIND, title, tuple(sections), tables, about, drawn)


def headline(watched: Watched) -> Text:
    """What was found, in a sentence or two."""
    last = watched.counts.periods[-1]
    standing, past = watched.standing, len(watched.alarms) - len(watched.standing)
    before = f" {past} earlier {_alarms_in_words(past)} {_are(past)} no longer active."
    if standing:
        n = len(standing)
        said = f"{n} {_alarms_in_words(n)} {_are(n)} active at the end of {last}."
        return Text(said + before * bool(past), "bad")
    said = f"No alarm is active at the end of {last}"
    if watched.state == "not certain":
        n, of = (len(x) + len(watched.left) for x in (watched.open, watched.checks))
        said += f", but {n} of {of} constraints and targets might be broken."
        return Text(said + before * bool(past), "unsure")
    if watched.state == "met":
        said += ", and every constraint and target is certainly met in the rows so far."
        return Text(said + before * bool(past), "good")
    said += ". The model has no constraint and no target, so this is about changes alone."
    return Text(said + before * bool(past))


def doubts(watched: Watched) -> list[str]:
    """What is not certain at the last period, and what the rows so far could have shown.

    Parameters
    ----------
    watched : Watched
        What was found.
    """
    found = []
    for v in watched.open:
        check = watched.checks[v.check]
        measure = check.measure.removeprefix("least ")
        extreme, side = ("largest", "below") if check.at_least else ("smallest", "above")
        said = f"{check.text}: {v.status} ({measure} {in_words(v.value, v.low, v.high)})."
        if absent := watched.absent(check.series):
            said += f" There are no eligible rows of {', '.join(absent)} so far."
        elif np.isnan(v.alarm_at):
            said += f" The rows so far are too few to show any {measure} {side} the limit."
        else:
            said += (
                f" The {extreme} {measure} that the rows so far could have shown to be {side} the "
                f"limit is {number(v.alarm_at)}."
            )
        found.append(said)
    return [*found, *watched.left]


def in_words(value: float, low: float, high: float) -> str:
    """A value with its interval; a dash where there is none."""
    return interval(known(value), known(low), known(high))


def _alarms_in_words(n: int) -> str:
    return "alarm" if n == 1 else "alarms"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def alarm_in_words(alarm: Alarm) -> str:
    """An alarm as a sentence.

    Parameters
    ----------
    alarm : Alarm
        The alarm.
    """
    ends = f"{alarm.value:.3f} [{alarm.low:.3f}, {alarm.high:.3f}]"
    if alarm.kind == "rows" and np.isnan(alarm.value):
        return f"{alarm.about}: cannot be judged, since {alarm.against}."
    if alarm.kind in ("constraint", "operating point"):
        return (
            f"{alarm.about}: certainly not met in the rows since {alarm.since} "
            f"({alarm.against.partition(' at ')[0]} {ends}). Raised at the end of {alarm.raised}."
        )
    moved = f"{alarm.value:+.3f} [{alarm.low:+.3f}, {alarm.high:+.3f}]"
    said = f"has certainly changed since {alarm.since}, by {moved} against the {alarm.against}."
    if alarm.kind == "rows" and alarm.value < 0:
        said = f"none since {alarm.since}; the share of these rows {said}"
    elif alarm.kind == "rows":
        said += " Are the groups written as in training?"
    return f"{alarm.about}: {said} Raised at the end of {alarm.raised}."


# Tables
# -----------------------------------------------------------------------


def tables_of(watched: Watched) -> dict[str, pd.DataFrame]:
    """Everything that was found, as tables.

    Parameters
    ----------
    watched : Watched
        What was found.
    """
    periods, counts = watched.counts.periods, watched.counts
    by_period = pd.DataFrame(
        {"period": periods, "rows": counts.by_period(), "labelled": counts.labelled()}
    )
    found = (
        {
            "check": watched.checks[v.check].text,
            "measure": watched.checks[v.check].measure,
            "limit": watched.checks[v.check].limit,
            "period": periods[v.period],
            "rows": "so far" if v.so_far else "of the period",
            "value": v.value,
            "low": v.low,
            "high": v.high,
            "verdict": v.status,
            "alarm_at": v.alarm_at,
        }
        for v in watched.verdicts
    )
    verdicts = pd.DataFrame(list(found), columns=VERDICT_COLUMNS)
    alarms = pd.DataFrame(
        [vars(alarm) for alarm in watched.alarms], columns=list(Alarm.__dataclass_fields__)
    )
    return {"periods": by_period, "verdicts": verdicts, "rates": _rates(watched), "alarms": alarms}


def _rates(watched: Watched) -> pd.DataFrame:
    """Every rate and share, per period."""
    bands, parts = watched.bands, []
    for k, s in enumerate(watched.series):
        found: dict[str, Any] = {
            "by": s.attribute,
            "group": s.name,
            "rate": s.rate,
            "period": watched.counts.periods,
        }
        for slot, end in ((1, ""), (0, "_so_far")):
            found[f"rows{end}"] = bands.rows[k, :, slot].astype(np.int64)
            for name in ("value", "low", "high"):
                found[f"{name}{end}"] = getattr(bands, name)[k, :, slot]
        for name, value in zip(("", "_low", "_high"), watched.reference[k], strict=True):
            found[f"training{name}"] = value
        parts.append(pd.DataFrame(found))
    return pd.concat(parts, ignore_index=True)


# Sections
# -----------------------------------------------------------------------


def _summary(watched: Watched) -> Iterator[Block]:
    yield headline(watched)
    if watched.standing:
        yield Bullets(tuple(_begun(alarm_in_words(alarm)) for alarm in watched.standing))
    if found := doubts(watched):
        yield Bullets(tuple(map(_begun, found)))
    rows = [
        (
            watched.checks[v.check].text,
            _cell(v.value, v.low, v.high),
            _verdict(v.status),
            number_cell(known(v.alarm_at)),
        )
        for v in watched.last
    ]
    if rows:
        title = "Constraints and targets, all rows so far"
        yield TableBlock.of(title, ("what is asked for", "found", "verdict", "alarm at"), rows)


def _alarms(watched: Watched) -> Iterator[Block]:
    if not watched.alarms:
        return
    yield Text(
        "An alarm is certain: the whole interval lies beyond the limit, or beyond that of the "
        "rows that are compared; or there are no rows to judge by. “Since” is the first period of "
        "the rows that show it best."
    )
    rows = (
        (
            a.about,
            a.against,
            a.raised,
            a.since,
            _cell(a.value, a.low, a.high),
            Cell("active", 1.0, "bad") if a.now else Cell("no longer", 0.0),
        )
        for a in watched.alarms
    )
    header = ("what", "against", "raised in", "since", "found, or change", "at the end")
    yield TableBlock.of("Alarms in the order in which they were raised", header, rows)


def _checks(watched: Watched, rates: pd.DataFrame) -> Iterator[Block]:
    if not watched.checks:
        return
    yield Text(
        "In the pictures, lines show all rows up to a period, bands are their intervals, and "
        "marks show single periods. “Met” and “not met” are certain: the whole interval lies on "
        "that side of the limit."
    )
    for k, check in enumerate(watched.checks):
        if len(watched.absent(check.series)) == len(check.series):
            continue  # there is nothing to draw
        if len(check.series) > 1:
            yield Picture(
                "check",
                str(k),
                f"{_begun(check.text)}: the {check.measure}.",
                _alt(check),
            )
        drawn = "the groups farthest apart" if len(check.series) > MOST_DRAWN else "by group"
        title = f"{check.series[0].title.capitalize()}, {drawn}"
        if len(check.series) == 1:
            title = _begun(check.text)
        yield Picture("rates", str(k), f"{title}. Dotted: in training.", _alt(check))
    for k, check in enumerate(watched.checks):
        yield _verdict_table(watched, k, check)
        yield _rate_table(check.series, rates)


def _alt(check: Check) -> str:
    return f"{check.text}. The tables below have the numbers."


def _verdict_table(watched: Watched, k: int, check: Check) -> TableBlock:
    own = [v for v in watched.verdicts if v.check == k]
    so_far = {v.period: v for v in own if v.so_far}
    rows = (
        (
            watched.counts.periods[v.period],
            _cell(all_.value, all_.low, all_.high),
            _verdict(all_.status),
            _cell(v.value, v.low, v.high),
            _verdict(v.status),
        )
        for v in own
        if not v.so_far and (all_ := so_far[v.period])
    )
    header = ("period", f"{check.measure}, so far", "verdict", "of the period", "verdict")
    return TableBlock.of(_begun(check.text), header, rows)


def _rate_table(series: Sequence[Series], rates: pd.DataFrame) -> TableBlock:
    names = {s.name for s in series}
    lines = rates[rates["group"].isin(names) & (rates["rate"] == series[0].rate)]
    in_order = lines.assign(at=lines.groupby("group").cumcount()).sort_values("at", kind="stable")
    found: list[dict[str, Any]] = in_order.to_dict("records")  # type: ignore[assignment]
    rows = (
        (
            Cell(r["period"], float(n)),
            r["group"],
            count(r["rows"]),
            *(_cell(*(r[name] for name in names)) for names in FIGURES),
        )
        for n, r in enumerate(found)
    )
    header = ("period", "group", "rows", "of the period", "so far", "training")
    return TableBlock.of(f"{series[0].title.capitalize()} by period", header, rows, 2)


def _realised(watched: Watched, rates: pd.DataFrame) -> Iterator[Block]:
    everyone = Series((), (), "ppr")
    if any(everyone in check.series for check in watched.checks):
        return  # it is among what is held to limits
    alt = "The overall share of positive decisions by period. A table has the numbers."
    yield Picture("everyone", "", "Overall share of positive decisions. Dotted: in training.", alt)
    yield _rate_table([everyone], rates)


def _shares(watched: Watched, rates: pd.DataFrame) -> Iterator[Block]:
    shares = [s for s in watched.series if s.rate == SHARE]
    columns = dict.fromkeys(s.attribute for s in shares)
    by = {column: [s for s in shares if s.attribute == column] for column in columns}
    for column, own in by.items():
        if watched.absent(own):
            continue  # there is nothing to draw
        caption = f"Share of each group of {column}. Dotted: in training."
        yield Picture("shares", column, caption, "Shares by period. A table has the numbers.")
    for own in by.values():
        yield _rate_table(own, rates)
    for k, s in enumerate(watched.series):
        if s.rate == NO_GROUP and watched.bands.value[k, -1, 0] > 0:
            yield _rate_table([s], rates)


def _rows(watched: Watched, facts: Mapping[str, str], notes: Sequence[str]) -> Iterator[Block]:
    yield Facts(tuple(facts.items()))
    if notes:
        yield Bullets(tuple(notes))
    counts = watched.counts
    lines = zip(counts.periods, counts.by_period(), counts.labelled(), strict=True)
    rows = ((period, count(int(n)), count(int(m))) for period, n, m in lines)
    yield TableBlock.of("Rows by period", ("period", "rows", "with a label"), rows)


def _method(watched: Watched) -> Iterator[Block]:
    sure = f"{100 * watched.confidence:g}%"
    moved = f"by more than {watched.max_change:g}" if watched.max_change else "at all"
    yield Text(
        f"With a confidence of {sure} all intervals on this page hold at once, and at all looks: "
        "after every period, for as long as monitoring goes on (confidence sequences; Howard, "
        "Ramdas, McAuliffe and Sekhon, 2021). They are wider than intervals for a single look. "
        f"If no constraint is broken, no rate or share moves {moved}, and every constraint has "
        "rows to judge by, the probability of an alarm at any time is at most "
        f"{1 - watched.confidence:.2g}."
    )
    yield Bullets(
        (
            "Intervals of all rows so far are about the mean rate of these rows. A late change is "
            "averaged with what was before, so the rows since every later period are judged, too.",
            "Error rates are of the rows that have a label. They hold for all rows if labels are "
            "not missing because of the decision. Where only people who were accepted get a "
            "label, error rates of all people cannot be known.",
            "“Alarm at” is what would have raised an alarm with the rows so far: the smallest gap "
            "(or rate) above the limit, or the largest ratio (or rate) below it, that has its "
            "whole interval beyond the limit. Breaches that are closer to the limit could not "
            "have been shown.",
            "A constraint that is met says nothing about other rates and other groups.",
        )
    )


def _begun(text: str) -> str:
    """With a capital, as a heading or a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}"


def known(value: float) -> float | None:
    """A number; None where there is none."""
    return None if np.isnan(value) else float(value)


def _cell(*figures: float) -> Cell:
    value, low, high = map(known, figures)
    return interval_cell(value, low, high)


def _verdict(status: str) -> Cell:
    return Cell(status, None, VERDICTS.get(status, "unsure"))


# Pictures
# -----------------------------------------------------------------------


def _figure(picture: Picture, watched: Watched, tables: Mapping[str, pd.DataFrame]) -> Any:
    periods, limit, title = watched.counts.periods, None, ""
    if picture.name == "check":
        check = watched.checks[int(picture.about)]
        table, title, limit = _check_lines(watched, int(picture.about)), check.measure, check.limit
    else:
        series = _drawn_series(picture, watched)
        if picture.name == "rates" and len(series) == 1:
            limit = watched.checks[int(picture.about)].limit
        elif picture.name == "rates":
            check = watched.checks[int(picture.about)]
            limit = check.limit if check.measure == "least rate" else None
        title = series[0].title
        rates = tables["rates"]
        lines = rates[rates["group"].isin([s.name for s in series])]
        lines = lines[lines["rate"] == series[0].rate]
        place = {name: k for k, name in enumerate(periods)}
        table = pd.DataFrame(
            {
                "name": lines["group"],
                "period": lines["period"].map(place),
                "value": lines["value"],
                "so_far": lines["value_so_far"],
                "low": lines["low_so_far"],
                "high": lines["high_so_far"],
                "training": lines["training"],
            }
        )
    names = [*dict.fromkeys(table["name"]), "limit"]
    ax = new_axes(WIDTH, 3.3, names[:MOST_LABELLED])
    return OverTimeDisplay(table, periods, title, limit).plot(ax).figure_


def _check_lines(watched: Watched, k: int) -> pd.DataFrame:
    own = [v for v in watched.verdicts if v.check == k]
    alone = {v.period: v.value for v in own if not v.so_far}
    lines = (
        {
            "name": watched.checks[k].measure,
            "period": v.period,
            "value": alone[v.period],
            "so_far": v.value,
            "low": v.low,
            "high": v.high,
        }
        for v in own
        if v.so_far
    )
    return pd.DataFrame(list(lines))


def _drawn_series(picture: Picture, watched: Watched) -> list[Series]:
    """The series of a picture; of many groups, those farthest apart at the end."""
    if picture.name == "everyone":
        return [Series((), (), "ppr")]
    if picture.name == "shares":
        found = [s for s in watched.series if s.rate == SHARE and s.attribute == picture.about]
    else:
        found = list(watched.checks[int(picture.about)].series)
    if len(found) <= MOST_DRAWN:
        return found
    last = {s: watched.bands.value[k, -1, 0] for k, s in enumerate(watched.series)}
    order = sorted((s for s in found if np.isfinite(last[s])), key=lambda s: last[s])
    half = MOST_DRAWN // 2
    return [*order[:half], *order[-half:]] if len(order) > MOST_DRAWN else order
