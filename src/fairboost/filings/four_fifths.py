"""Adverse impact by the Uniform Guidelines on Employee Selection Procedures, 29 CFR 1607.4 D.

A selection rate of a group that is less than four fifths of the highest rate is generally regarded
as evidence of adverse impact. Two remarks of the guidelines turn on numbers: smaller differences
may be adverse impact where they are significant in statistical and practical terms, and greater
ones may not be where the numbers are small. The document therefore has both tests, and what one
other person selected would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike
from fairboost.exceptions import InvalidInputError
from fairboost.filings.counts import Assessed, add_ratios, count
from fairboost.filings.filing import (
    P_VALUE,
    Filing,
    FormField,
    about_the_text,
    check_fields,
    filled,
    shown,
)
from fairboost.filings.significance import DEVIATIONS, SIGNIFICANT, RateComparison
from fairboost.report.blocks import Block, Bullets, Cell, Facts, Section, TableBlock, Text, Tone

FOLLOWS = (
    "the Uniform Guidelines on Employee Selection Procedures (1978), 29 CFR § 1607.4 D, and the "
    "Questions and Answers of 2 March 1979 (44 FR 11996) that explain them"
)
USER = "the employer"
FIELDS = {
    "procedure": FormField("Selection procedure", USER),
    "job": FormField("Job or job group", USER),
    "employer": FormField("Employer", USER),
    "data_from": FormField("First day of the data", USER, is_date=True),
    "data_to": FormField("Last day of the data", USER, is_date=True),
    "source": FormField("Source of the data", USER),
    "labour_force": FormField("Shares of the groups in the relevant labour force", USER),
}
"""What is filled in by people."""

SMALL_SHARE = 0.02
"""Groups below this share of the labour force need no determination."""

FINDINGS: dict[str, tuple[str, Tone]] = {
    "best": ("highest rate", ""),
    "indicated": ("below four fifths, statistically significant", "bad"),
    "chance": ("below four fifths, may be chance", "unsure"),
    "one": ("below four fifths, turns on one person", "unsure"),
    "significant": ("at least four fifths, but statistically significant", "unsure"),
    "none": ("at least four fifths", "good"),
    "left out": ("not compared: below the share asked for", ""),
    "nobody": ("nobody was selected in any group", ""),
}


def four_fifths(
    groups: ArrayLike,
    selected: ArrayLike,
    *,
    leave_out_below: float | None = None,
    unknown: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    data: Mapping[str, str] | None = None,
) -> Filing:
    """Selection rates of groups, by the four-fifths rule and by statistical tests.

    Parameters
    ----------
    groups : table
        One column per attribute, such as sex and race; one row per applicant.
    selected : (n,) array of bool
        Whether each applicant was selected.
    leave_out_below : float, optional
        Do not compare groups below this share of the applicants.
    unknown, fields, data
        As in :func:`fairboost.filings.ll144`.

    Examples
    --------
    >>> filing = four_fifths({"race": ["white"] * 80 + ["black"] * 20},
    ...                      [True] * 16 + [False] * 64 + [True] * 3 + [False] * 17)
    >>> filing.tables["race"][["race", "ratio", "finding"]].values.tolist()[0]
    ['black', 0.75, 'below four fifths, turns on one person']
    """
    given = check_fields(fields, FIELDS)
    if leave_out_below is not None and not 0 < leave_out_below < 1:
        raise InvalidInputError(
            f"groups are left out below a share between 0 and 1, found {leave_out_below:g}; write "
            "0.02 for 2%"
        )
    people = count(groups, selected, unknown)
    tables = {name: _table(people, name, leave_out_below) for name in people.cells.groups}
    facts: dict[str, Any] = {
        "fields": given,
        "people": people.people,
        "unknown": {name: people.missing([name]) for name in tables},
        "unknown values": people.unknown,
        "leave_out_below": leave_out_below,
    }
    sections = (
        _in_short(tables, facts["unknown"]),
        Section("What was looked at", tuple(_looked_at(given, facts, data or {}))),
        *(Section(f"By {name}", tuple(_group_blocks(name, t))) for name, t in tables.items()),
        Section("Groups below 2%", tuple(_small(tables, given, leave_out_below))),
        Section("How the figures are computed", tuple(_computed())),
        about_the_text(FOLLOWS, NOTES),
    )
    title = f"Adverse impact: {given.get('procedure', 'selection rates by group')}"
    files = {_stem(name, k): table for k, (name, table) in enumerate(tables.items())}
    return Filing("four_fifths", title, sections, files, facts)


def _stem(name: str, place: int) -> str:
    """The end of a file's name."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower()).strip("_")
    return plain or f"column_{place + 1}"


def _table(people: Assessed, name: str, share: float | None) -> pd.DataFrame:
    table = people.table([name])
    if len(table) < 2:
        raise InvalidInputError(
            f"the column {name!r} has one known group, {table.iloc[0, 0]!r}; the four-fifths rule "
            "compares two. Name another column, or pass the rows of all applicants"
        )
    left_out = table["share"].to_numpy() < (share or 0.0)
    if left_out.all():
        raise InvalidInputError(
            f"every group of {name!r} is below {share:g} of the applicants; leave out fewer"
        )
    table = add_ratios(table, left_out)
    best = int(np.nanargmax(np.where(left_out, np.nan, table["rate"])))
    top = [int(table[column].iloc[best]) for column in ("selected", "applicants")]
    lines = []
    for k, line in enumerate(table.to_dict("records")):
        own = RateComparison(int(line["selected"]), int(line["applicants"]), *top)
        lines.append(_tested(own, _kind(own, k == best, bool(left_out[k]))))
    columns = {
        name: table[name],
        "applicants": table["applicants"],
        "selected": table["selected"],
        "rate": table["rate"],
        "rate, low end of 95% interval": table["low"],
        "rate, high end of 95% interval": table["high"],
        "ratio": table["ratio"],
        "share of the applicants": table["share"],
    }
    return pd.DataFrame(columns).join(pd.DataFrame(lines))


def _kind(own: RateComparison, is_best: bool, left_out: bool) -> str:
    if left_out:
        return "left out"
    if own.best_selected == 0:
        return "nobody"
    if is_best:
        return "best"
    if own.at_least_four_fifths:
        return "significant" if own.significant else "none"
    if own.significant:
        return "indicated"
    return "one" if own.turns_on_one_person else "chance"


def _tested(own: RateComparison, kind: str) -> dict[str, Any]:
    """What the tests say of a group; nothing of the best one, and of one that is not compared."""
    compared = kind not in ("best", "left out", "nobody")
    ours, theirs = own.one_more
    return {
        "Fisher's exact test, p": own.fisher if compared else None,
        "standard deviations": own.deviations if compared else None,
        "more selections to reach four fifths": own.short_of_four_fifths if compared else None,
        "rate if one more were selected": ours if compared else None,
        "highest rate if one fewer were selected": theirs if compared else None,
        "finding": FINDINGS[kind][0],
    }


def _in_short(tables: Mapping[str, pd.DataFrame], unknown: Mapping[str, int]) -> Section:
    blocks: list[Block] = []
    tones = dict(FINDINGS.values())
    told: dict[str, list[str]] = {"bad": [], "unsure": []}
    named = []
    for name, table in tables.items():
        for line in table.to_dict("records"):
            tone = tones[line["finding"]]
            if tone in told:
                told[tone].append(
                    f"{name} = {line[name]}: selection rate {line['rate']:.1%}, "
                    f"{line['ratio']:.3f} of the highest; {line['finding']}."
                )
            named += [f"{name} = {line[name]}"] if tone == "bad" else []
    if any((t["finding"] == FINDINGS["nobody"][0]).any() for t in tables.values()):
        text = "Nobody was selected, so that there is no rate to compare with."
        return Section("In short", (Text(text, "unsure"),))
    if named:
        blocks.append(Text(f"Adverse impact is indicated: {'; '.join(named)}.", "bad"))
    elif told["unsure"]:
        blocks.append(
            Text("The rule and the tests do not agree: read the remarks below.", "unsure")
        )
    else:
        blocks.append(Text("No group is below four fifths of the highest selection rate.", "good"))
    if lines := (*told["bad"], *told["unsure"]):
        blocks.append(Bullets(lines))
    if left := [f"{name}: {n:,}" for name, n in unknown.items() if n]:
        blocks.append(Text(f"People of unknown category, who are in no group: {', '.join(left)}."))
    return Section("In short", tuple(blocks))


def _looked_at(
    given: Mapping[str, str], facts: Mapping[str, Any], data: Mapping[str, str]
) -> Iterable[Block]:
    yield filled(FIELDS, given, ("procedure", "job", "employer", "source", "data_from", "data_to"))
    lines = [("Applicants", f"{facts['people']:,}")]
    lines += [(f"Of unknown {name}", f"{n:,}") for name, n in facts["unknown"].items()]
    yield Facts((*lines, *data.items()))
    if taken := facts["unknown values"]:
        told = "; ".join(f"{c}: {', '.join(map(repr, v))}" for c, v in taken.items())
        yield Text(f"Missing values are unknown categories. So are these values: {told}.")


def _group_blocks(name: str, table: pd.DataFrame) -> Iterable[Block]:
    forms = {"applicants": ",.0f", "selected": ",.0f", "rate": ".1%", "ratio": ".3f"}
    yield _with_findings(
        shown(
            f"Selection rates by {name}",
            table[[name, "applicants", "selected", "rate", "ratio", "finding"]],
            forms,
        )
    )
    tests = table.dropna(subset="Fisher's exact test, p")
    if tests.empty:
        yield Text("No group is compared with another.")
        return
    forms |= {"Fisher's exact test, p": P_VALUE, "standard deviations": ".2f"}
    forms |= {"more selections to reach four fifths": ",.0f"}
    forms |= {
        "rate if one more were selected": ".1%",
        "highest rate if one fewer were selected": ".1%",
    }
    columns = [name, "Fisher's exact test, p", "standard deviations"]
    yield shown(f"Is it chance? Tests by {name}", tests[columns], forms)
    practical = [
        name,
        "more selections to reach four fifths",
        "rate if one more were selected",
        "highest rate if one fewer were selected",
    ]
    yield shown(f"Does it matter in practice? Small numbers by {name}", tests[practical], forms)
    for line in tests.to_dict("records"):
        if line["finding"] == FINDINGS["one"][0]:
            yield Text(
                f"{line[name]}: if one more person of this group had been selected in place of "
                "one of the group with the highest rate, the rate of this group would be "
                f"{line['rate if one more were selected']:.1%}, above "
                f"{line['highest rate if one fewer were selected']:.1%}. By the Questions and "
                "Answers, such a difference does not call for action by itself; a pattern over "
                "time may.",
                "unsure",
            )


def _with_findings(table: TableBlock) -> TableBlock:
    """The table, with the findings told by sign and colour."""
    tones = dict(FINDINGS.values())
    rows = tuple(
        (*row[:-1], Cell(row[-1].text, tone=tones.get(row[-1].text, ""))) for row in table.rows
    )
    return TableBlock(table.title, table.header, rows, table.row_headers)


def _small(
    tables: Mapping[str, pd.DataFrame], given: Mapping[str, str], share: float | None
) -> Iterable[Block]:
    yield Text(
        "The guidelines ask for a determination for groups that are at least 2% of the labour "
        "force in the relevant labour area, or 2% of the applicable workforce (29 CFR § 1607.15 A "
        "(2) (a)). The data has shares of the applicants, and not of the labour force."
    )
    small = [
        f"{name} = {line[name]}: {line['applicants']:,} applicants, "
        f"{line['share of the applicants']:.1%}"
        for name, table in tables.items()
        for line in table.to_dict("records")
        if line["share of the applicants"] < SMALL_SHARE
    ]
    if small:
        yield Text("Groups below 2% of the applicants:")
        yield Bullets(tuple(small))
    else:
        yield Text("No group is below 2% of the applicants.")
    if share is not None:
        yield Text(
            f"Groups below {share:g} of the applicants are not compared, and none of them is the "
            "group with the highest rate."
        )
    elif small:
        yield Text(
            "All groups are compared here; --leave-out-below 0.02 shows small ones without "
            "comparing them."
        )
    yield filled(FIELDS, given, ("labour_force",))


def _computed() -> Iterable[Block]:
    yield Bullets(
        (
            "Ratio: the selection rate of a group over that of the group with the highest rate. "
            "Whether it is at least four fifths is decided in whole numbers, without rounding.",
            f"Fisher's exact test, two-sided, against the group with the highest rate; below "
            f"{SIGNIFICANT:g} a difference is called statistically significant.",
            "Standard deviations: the difference of the two rates over its standard error if both "
            f"groups had one rate. Courts have doubted chance beyond {DEVIATIONS:g} or 3.",
            "Several groups are compared at once: of 20 groups without a true difference, one is "
            "expected to have a probability below 0.05.",
        )
    )


NOTES = (
    "The EEOC has announced that it rescinds its part of the guidelines (Unified Agenda, RIN "
    "3046-AB43). Check whether they still apply; states and courts use the four-fifths rule too.",
    "Adverse impact is no proof of discrimination, and the four-fifths rule is a rule of thumb of "
    "the agencies, not a limit of the law.",
    "The guidelines look at the whole selection process first, and at its parts if the whole has "
    "adverse impact (§ 1607.4 C).",
    "No comparison of subgroups, such as women of one race, is asked for by the guidelines.",
)
