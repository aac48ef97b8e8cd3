"""Who gains and who loses by a constraint, on the test rows, in people of a hundred.

A gap can close because one group is served better, or because the other is served worse. Only the
rates of the model without the constraint, on the same rows, show which: "Of every 100 people of a
group whose “income” is “>50K”, the model decides “<=50K” for 2 more (Female, now 42) and 8 more
(Male, now 41) than without the constraint. Nobody gained: ..."

Which decision is good for people is not known. So nobody is called better off but by being judged
wrongly less often: by an error rate that falls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairboost.fairness.rates import RATES
from fairboost.plots.numbers import DISTANCE, RATIO
from fairboost.report import words
from fairboost.report.evidence import Data, Evidence, Gap
from fairboost.report.lines import CHOSEN, PLAIN, gap_at, rates_at

MOST_RATES = 3
"""Rates that are told of, those whose gap was the largest first; tables have the rest."""

MOST_GROUPS = 4
"""Groups that are named; of more, those for whom most changed either way."""

FEWEST = 5
"""People of a group for whom something changes, at least, so that it is worth a conclusion."""

WRONG = {"fpr": 1, "fnr": 1, "tpr": -1, "tnr": -1, "precision": -1, "loss": 1, "accuracy": -1}
"""Rates that say how often decisions are wrong (1) or right (-1); others say neither."""

WRONG_OF_CLASSES = {"accuracy": -1, "recall of a class": -1, "share of a class given another": 1}
"""The same of three classes or more, by the kind of rate."""


@dataclass(frozen=True)
class Change:
    """A rate of a group without the constraint, and with it."""

    group: str
    before: float
    after: float
    rows: float

    @property
    def people(self) -> int:
        """Of a hundred, how many more."""
        return round(100 * (self.after - self.before))


def gains(e: Evidence) -> list[str]:
    """Who gains and who loses: a paragraph for each rate; empty without a plain model."""
    asked = dict.fromkeys(
        (k.attribute, k.rate)
        for k in e.asked.limits
        if k.attribute and k.attribute not in e.windows
    )
    told = []
    for attribute, rate in asked:
        now, before = (gap_at(e.gaps, attribute, rate, model) for model in (CHOSEN, PLAIN))
        changes = changes_of(e, attribute, rate)
        closed = now is None or before is None or (now.gap or 0.0) < (before.gap or 0.0)
        said = [
            _gap(e, now, before),
            _people(e, rate, changes),
            _nobody(e, rate, changes, closed),
        ]
        if any(said):
            width = (before.gap if before else None) or 0.0
            told.append((width, " ".join(filter(None, said))))
    return [said for _, said in sorted(told, key=lambda pair: -pair[0])[:MOST_RATES]]


def changes_of(e: Evidence, attribute: str, rate: str) -> list[Change]:
    """Groups that are large enough, those of the largest fall first."""
    plain = {r.group: r.value for r in rates_at(e.rates, attribute, rate, PLAIN)}
    found = [
        Change(r.group, before, r.value, r.rows)
        for r in rates_at(e.rates, attribute, rate)
        if r.value is not None and not r.small and (before := plain.get(r.group)) is not None
    ]
    return sorted(found, key=lambda c: c.after - c.before)


def _gap(e: Evidence, now: Gap | None, before: Gap | None) -> str:
    """The gap before and after, with intervals."""
    if now is None or before is None or before.gap is None or now.gap is None:
        return ""
    decimals = words.decimals_of(now.rate, e)
    shown = [words.interval(g.gap, g.gap_low, g.gap_high, decimals) for g in (before, now)]
    return (
        f"By {now.attribute}, the {words.gap_title(now.rate)} was {shown[0]} without the "
        f"constraint, and is {shown[1]} with it."
    )


def _people(e: Evidence, rate: str, changes: Sequence[Change]) -> str:
    """For how many more or fewer of a hundred of each group something is decided."""
    if len(changes) < 2 or rate in (RATIO, DISTANCE):
        return ""
    shown = changes if len(changes) <= MOST_GROUPS else [changes[0], changes[-1]]
    rest = len(changes) - len(shown)
    others = f", and between these for {rest} more groups" if rest else ""
    if e.task == "numbers":
        decimals = words.decimals_of(rate, e)
        each = (
            f"from {words.number(c.before, decimals)} to {words.number(c.after, decimals)} for "
            f"{person(c.group)}"
            for c in shown
        )
        return f"The {words.rate_title(rate)} goes {words.join(list(each))}{others}."
    each = (f"{_more(c.people)} ({person(c.group)}, now {100 * c.after:.0f})" for c in shown)
    who, what = _of_classes(rate) if e.task == "classes" else _of_decisions(e, rate)
    return (
        f"Of every 100 people of a group{who}, {what} for {words.join(list(each))}{others} than "
        "without the constraint."
    )


def _of_decisions(e: Evidence, rate: str) -> tuple[str, str]:
    """Who counts, and what is decided."""
    if rate not in RATES:  # a precision: the model itself says who counts
        label, _, positive = named(e.data)
        return f" for whom {decided(e.data, 'ppr')}", f"{label} is {positive}"
    return who_counts(e.data, rate), decided(e.data, rate)


def _of_classes(rate: str) -> tuple[str, str]:
    """The same of three classes or more."""
    if found := re.fullmatch("share of (.*) given (.*)", rate):
        return f" whose class is {found[1]}", f"the model gives {found[2]}"
    if found := re.fullmatch("recall of (.*)", rate):
        return f" whose class is {found[1]}", f"the model gives {found[1]}"
    if found := re.fullmatch("share given (.*)", rate):
        return "", f"the model gives {found[1]}"
    return "", "the model gives their own class"


def _more(people: int) -> str:
    return f"{people} more" if people > 0 else f"{-people} fewer" if people else "as many"


def _nobody(e: Evidence, rate: str, changes: Sequence[Change], closed: bool) -> str:
    """That no group is judged wrongly less often, if none is, and some are more often."""
    sign = WRONG.get(rate, 0)
    if e.task == "classes":
        sign = WRONG_OF_CLASSES.get(words.class_kind(rate), 0)
    unit, numbers = 1.0, e.task == "numbers"
    if numbers:
        unit = max((abs(c.before) for c in changes), default=1.0) or 1.0
    moved = [round(100 * (c.after - c.before) / unit) for c in changes]
    if len(changes) < 2 or not any(moved) or (numbers and not sign):
        return ""
    if not numbers and all(abs(c.after - c.before) * c.rows < FEWEST for c in changes):
        return ""
    if not sign:
        same = all(m < 0 for m in moved) or all(m > 0 for m in moved)
        often = "less" if moved[0] < 0 else "more"
        return f"Every group is given this decision {often} often than before." * same
    if any(sign * m < 0 for m in moved):
        return ""
    ranked = sorted(changes, key=lambda c: sign * c.before)
    best, worst = ranked[0], ranked[-1]
    if not closed or sign * (best.after - best.before) <= 0:
        return "Nobody gained: the model is wrong about no group less often than before."
    return (
        "Nobody gained: the gap closed because the model is wrong about "
        f"{person(best.group)} more often, not because it is wrong about {person(worst.group)} "
        "less often."
    )


# People and decisions in words
# -----------------------------------------------------------------------


def who_counts(data: Data, rate: str) -> str:
    """Which people a rate of decisions is about: `` whose “income” is “>50K”``, or nothing."""
    label, *classes = named(data)
    of = RATES[rate].label
    return "" if of is None else f" whose {label} is {classes[of]}"


def decided(data: Data, rate: str) -> str:
    """What a rate counts: ``the model decides “no”``."""
    _, *classes = named(data)
    if data.decision and data.label:  # whose values are named otherwise than those of the label
        return f"the decision is {'positive' if RATES[rate].direction > 0 else 'negative'}"
    given = classes[RATES[rate].direction > 0]
    name = data.label or data.decision
    if name != "label" and not any(c.isalpha() for c in given):  # a code says nothing
        given = f"“{name} = {given[1:-1]}”"
    return f"the decision is {given}" if data.decision else f"the model decides {given}"


def named(data: Data) -> tuple[str, str, str]:
    """The label, and the negative and the positive class, as they are called."""
    label = "label" if data.label == "label" else f"“{data.label}”"
    negative = f"“{data.negative}”" if data.negative else f"not “{data.positive}”"
    return label, negative, f"“{data.positive}”"


def person(group: str) -> str:
    """A group as a reader would call it; a bare code as a group."""
    return group if any(c.isalpha() for c in group) else f"group {group}"
