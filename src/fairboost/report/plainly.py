"""What was found, in sentences for a reader without statistics.

"By sex: of the people whose “approved” is “yes”, the model decides “no” for Female 1.3 times as
often as for Male (31% against 24%)." Where a number is predicted: "By sex: the mean prediction is
0.61 for Male and 0.49 for Female, 0.12 apart."
"""

from __future__ import annotations

from collections.abc import Iterator

from fairboost.fairness.rates import RATES
from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report import words
from fairboost.report.evidence import Data, Evidence, Gap, GroupRate, Limit
from fairboost.report.gains import changes_of, decided, gains, named, person, who_counts
from fairboost.report.lines import CHOSEN, PLAIN, gap_at, rates_at

MOST_TOLD = 4
"""Sentences on rates; tables have the rest."""

MOST_GROWN = 3
"""Gaps that are named for having grown."""

GROWN = 0.02
"""By how much a gap has to be larger than without the constraint to be worth a sentence."""

EQUAL = 1.05
"""Rates whose ratio is below this are called about equal."""

MANY_TIMES = 10
"""Ratios from here on are of a rate near 0, and say less than the rates do."""


def first_paragraph(e: Evidence) -> str:
    """Who is decided how more often than whom, and which other gap the constraint enlarged.

    What :func:`fairboost.report.gains.gains` tells of stands before it, and is not told again.
    """
    told = [*_on_limits(e)]
    if not told and not gains(e):
        told = [*_on_columns(e)]
    rest = len(told) - MOST_TOLD
    more = f"{rest} further {'comparison is' if rest == 1 else 'comparisons are'} below."
    return " ".join([*told[:MOST_TOLD], *([more] if rest > 0 else []), *_grown(e)])


def _on_limits(e: Evidence) -> Iterator[str]:
    """A sentence on every rate that was asked about, those farthest beyond their limits first."""
    found = []
    for limit in e.asked.limits:
        of_each = e.task == "numbers" or (limit.at_least, limit.around) != (None, None)
        if of_each and limit.group is not None:
            continue  # every group has one; they are told by the one that is farthest
        if limit.group is None:
            pair = _extremes(e, limit.attribute, limit.rate)
            apart = None if pair is None else (pair[0].value or 0.0) - (pair[1].value or 0.0)
            said = None if pair is None else _compared(e, *pair) + _farther(e, *pair)
            if (
                pair
                and e.task != "numbers"
                and len(changes_of(e, limit.attribute, limit.rate)) > 1
            ):
                said = _farther(e, *pair).strip() or None  # gains tell of it
        else:
            apart, said = _bounded(e, limit)
        if said is not None and apart is not None:
            found.append((apart / max(limit.at_most, 1e-9), said))
    if e.task == "numbers":
        found += _farthest(e)
    else:
        found += [*_lowest(e), *_farthest(e)]
    yield from (said for _, said in sorted(found, key=lambda f: -f[0]))


def _lowest(e: Evidence) -> Iterator[tuple[float, str]]:
    """Of floors that every group has, the group of the lowest rate."""
    floors = {(k.attribute, k.rate, k.at_least) for k in e.asked.limits if k.at_least is not None}
    for attribute, rate, floor in sorted(floors, key=str):
        known = (r for r in rates_at(e.rates, attribute, rate) if r.value is not None)
        ranked = sorted((r for r in known if not r.small), key=lambda r: r.value or 0.0)
        if not ranked:
            continue
        value, least = ranked[0].value or 0.0, floor or 0.0
        found, asked = words.percents(value, least)
        who = person(ranked[0].group)
        event = f"the {rate} is {found} for {who}"
        if e.task != "classes":
            event = f"{_event(e.data, rate)} for {found} of {who}"
        yield (
            (1.0 - value) / max(1.0 - least, 1e-9),
            f"By {attribute}: {event}, the lowest rate; at least {asked} was asked for.",
        )


def _farthest(e: Evidence) -> Iterator[tuple[float, str]]:
    """Of limits that hold for each group alone, the group that takes up most of its own."""
    places = dict.fromkeys(
        (k.attribute, k.rate)
        for k in e.asked.limits
        if k.group is not None and (e.task == "numbers" or k.around is not None)
    )
    for attribute, rate in places:
        limits = {k.group: k for k in e.asked.limits if (k.attribute, k.rate) == (attribute, rate)}
        known = [
            (abs((r.value or 0.0) - (limits[r.group].around or 0.0)), r)
            for r in rates_at(e.rates, attribute, rate)
            if r.value is not None and not r.small and r.group in limits
        ]
        if not known:
            continue
        apart, r = max(known, key=lambda pair: pair[0])
        limit = limits[r.group]
        value = _shown(e, r)
        by = f"By {attribute}: " if attribute else ""
        who = f"for {person(r.group)}" if attribute else "for everyone"
        title = words.rate_title(rate, e)
        if limit.around is not None:
            asked = f"within {limit.around:g} ± {words.limit(limit.at_most)} was asked for"
            said = f"{title} is farthest from {limit.around:g} {who}, {value}; {asked}."
        else:
            asked = f"at most {words.limit(limit.at_most)} was asked for"
            found = f"largest {who}, {value}" if len(limits) > 1 else f"{value} {who}"
            said = f"the {title} is {found}; {asked}."
        text = f"{by}{said}"
        yield apart / max(limit.at_most, 1e-9), text[:1].upper() + text[1:]


def _shown(e: Evidence, r: GroupRate) -> str:
    """The figure of a group, where a number is predicted, with its interval."""
    decimals = words.decimals_of(r.rate, e)
    return words.interval(r.value, r.low, r.high, decimals)


def _on_columns(e: Evidence) -> Iterator[str]:
    """Where nothing was asked for: favourable decisions, and the error that differs most.

    Where a number is predicted: what is predicted, and how that compares with what was actual.
    """
    for column in (c.name for c in e.data.sensitive):
        gaps = [g for g in e.gaps if (g.model, g.attribute) == (CHOSEN, column)]
        if e.task == "numbers":
            pairs = (_extremes(e, column, rate) for rate in ("prediction", RATIO))
            yield from (_compared(e, *pair) for pair in pairs if pair is not None)
            continue
        if e.task == "classes":  # the accuracy, and what differs most
            alone = [g.rate for g in gaps if g.rate == "accuracy"]
            ranked = sorted(
                (g for g in gaps if g.rate not in alone), key=lambda g: -(g.gap or 0.0)
            )
            pairs = (_extremes(e, column, r) for r in [*alone, *(g.rate for g in ranked[:2])])
            yield from (_compared(e, *pair) for pair in pairs if pair is not None)
            continue
        ruled = [g for g in gaps if g.four_fifths is not None]
        errors = [g for g in gaps if g.rate in ("fpr", "fnr")]
        for g in [*ruled[:1], *sorted(errors, key=lambda g: -(g.gap or 0.0))[:1]]:
            if (pair := _extremes(e, column, g.rate)) is not None:
                yield _compared(e, *pair)


def _extremes(e: Evidence, attribute: str, rate: str) -> tuple[GroupRate, GroupRate] | None:
    """The groups of the highest and the lowest rate on the test rows, small groups left out."""
    known = (r for r in rates_at(e.rates, attribute, rate) if r.value is not None)
    ranked = sorted((r for r in known if not r.small), key=lambda r: r.value or 0.0)
    return (ranked[-1], ranked[0]) if len(ranked) > 1 else None


def _compared(e: Evidence, high: GroupRate, low: GroupRate) -> str:
    """How much more often the decision falls on one group than on the other."""
    most, least = high.value or 0.0, low.value or 0.0
    one, other = person(high.group), person(low.group)
    if e.task == "numbers":
        return _compared_means(e, high, low)
    if e.task == "classes":
        return _compared_shares(e, high, low)
    shares = words.percents(most, least)
    if most < EQUAL * least or most == least:
        how = f"about equally often for {one} and {other} ({shares[0]} and {shares[1]})"
    elif most >= MANY_TIMES * least:
        how = f"for {shares[0]} of {one} and {shares[1]} of {other}"
    else:
        times = f"{most / least:.1f} times as often"
        how = f"{times} for {one} as for {other} ({shares[0]} against {shares[1]})"
    chance = ""
    if most >= EQUAL * least and most > least and not _surely_apart(e, high, low):
        chance = ", which may be chance"
    return f"By {high.attribute}: {_event(e.data, high.rate)} {how}{chance}."


def _compared_shares(e: Evidence, high: GroupRate, low: GroupRate) -> str:
    """How far apart a rate of classes is between two groups."""
    most, least = high.value or 0.0, low.value or 0.0
    one, other = words.percents(most, least)
    found = f"{one} for {person(high.group)} and {other} for {person(low.group)}"
    chance = "" if most <= least or _surely_apart(e, high, low) else ", which may be chance"
    return f"By {high.attribute}: the {high.rate} is {found}{chance}."


def _compared_means(e: Evidence, high: GroupRate, low: GroupRate) -> str:
    """How far apart the means of two groups are, and what the same groups actually had."""
    decimals = words.decimals_of(high.rate, e)
    apart = (high.value or 0.0) - (low.value or 0.0)
    shown = [words.number(x, decimals) for x in (high.value, low.value, apart)]
    groups = person(high.group), person(low.group)
    found = f"{shown[0]} for {groups[0]} and {shown[1]} for {groups[1]}, {shown[2]} apart"
    chance = "" if apart <= 0 or _surely_apart(e, high, low) else ", which may be chance"
    actual = {r.group: r.value for r in rates_at(e.rates, high.attribute, "actual")}
    beside = ""
    if high.rate == "prediction" and None not in (
        of := [actual.get(r.group) for r in (high, low)]
    ):
        were = [words.number(x, decimals) for x in of]
        beside = f"; what was actual is {were[0]} and {were[1]}"
    start = "" if high.rate == RATIO else "the "
    title = f"{start}{words.rate_title(high.rate, e)}"
    return f"By {high.attribute}: {title} is {found}{chance}{beside}."


def _farther(e: Evidence, high: GroupRate, low: GroupRate) -> str:
    """That the gap is to a group of few rows, if it is: the two that were compared have many."""
    place = high.attribute, high.rate
    gap = gap_at(e.gaps, *place)
    few = {gap.highest_group, gap.lowest_group} - {high.group, low.group} if gap else ()
    for r in rates_at(e.rates, *place):
        if r.small and r.group in few:
            found = _shown(e, r) if e.task == "numbers" else words.percents(r.value or 0.0)[0]
            rows = "row" if r.rows == 1 else "rows"
            return (
                f" The largest gap is to {person(r.group)}: {found}, based on only "
                f"{r.rows:,.0f} {rows}."
            )
    return ""


def _surely_apart(e: Evidence, high: GroupRate, low: GroupRate) -> bool:
    """Whether the interval of the gap excludes 0; where it is of other groups, by the rates."""
    gap = gap_at(e.gaps, high.attribute, high.rate)
    differs = high.rate not in (RATIO, DISTANCE)  # whose gaps are from something else
    if gap and differs and (gap.highest_group, gap.lowest_group) == (high.group, low.group):
        return (gap.gap_low or 0.0) > 0
    return low.high is not None and high.low is not None and high.low > low.high


def _bounded(e: Evidence, limit: Limit) -> tuple[float | None, str | None]:
    """The rate of one group, or of everyone, against what it may be."""
    for r in rates_at(e.rates, limit.attribute, limit.rate):
        if r.group == limit.group and r.value is not None:
            found, most = words.percents(r.value, limit.at_most)
            who = "everyone" if not limit.attribute else person(r.group)
            said = f"{_event(e.data, r.rate)} for {found} of {who}; at most {most} was asked for."
            if e.task == "classes":
                said = f"the {r.rate} is {found} for {who}; at most {most} was asked for."
            return r.value, said[:1].upper() + said[1:]
    return None, None


def _event(data: Data, rate: str) -> str:
    """Of whom the model decides what: ``of the people whose label is “1”, ... “0”``."""
    if rate not in RATES:
        label, _, positive = named(data)
        return f"of the people for whom {decided(data, 'ppr')}, {label} is {positive}"
    who = who_counts(data, rate)
    return f"of the people{who}, {decided(data, rate)}" if who else decided(data, rate)


# What a constraint did to the rates that it is not about
# -----------------------------------------------------------------------


def _grown(e: Evidence) -> list[str]:
    """Which other gaps are larger than without the constraint, with figures."""
    asked = {(limit.attribute, _kind(limit.rate)) for limit in e.asked.limits}
    columns = {c.name for c in e.data.sensitive} | {limit.attribute for limit in e.asked.limits}
    grown = [
        (g, before)
        for g in e.gaps
        if g.model == CHOSEN
        and g.attribute in columns
        and (g.attribute, _kind(g.rate)) not in asked
        and (before := gap_at(e.gaps, g.attribute, g.rate, PLAIN))
        and _growth(g, before) >= GROWN * _unit(e, g.rate)
    ]
    grown.sort(key=lambda pair: -_growth(*pair) / _unit(e, pair[0].rate))
    if not grown or not e.asked.constraints:
        return []
    more = len(grown) - MOST_GROWN
    said = "; ".join(_growth_in_words(e, *pair) for pair in grown[:MOST_GROWN])
    more_said = f"; and {more} more" if more > 0 else ""
    start = "Another gap is" if len(grown) == 1 else "Other gaps are"
    return [f"{start} larger than without the constraint: {said}{more_said}."]


def _kind(rate: str) -> object:
    """Rates of the same rows have the same gap: a false negative is no true positive."""
    return RATES[rate].label if rate in RATES else rate


def _unit(e: Evidence, rate: str) -> float:
    """What gaps are small or large beside: 1, and of means that of everyone."""
    if rate in words.UNITLESS or e.task == "classes":
        return 1.0
    return max((abs(r.value or 0.0) for r in rates_at(e.rates, "", rate)), default=1.0) or 1.0


def _growth(now: Gap, before: Gap) -> float:
    return 0.0 if now.gap is None or before.gap is None else now.gap - before.gap


def _growth_in_words(e: Evidence, now: Gap, before: Gap) -> str:
    overlap = (now.gap_low or 0.0) <= (before.gap or 0.0) and (now.gap or 0.0) <= (
        float("inf") if before.gap_high is None else before.gap_high
    )
    decimals = words.decimals_of(now.rate, e)
    return (
        f"the {words.gap_title(now.rate, e)} by {now.attribute} is "
        f"{words.number(now.gap, decimals)}, without the constraint it was "
        f"{words.number(before.gap, decimals)}{' (which may be chance)' if overlap else ''}"
    )
