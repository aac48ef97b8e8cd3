"""The bias audit of New York City's Local Law 144: three tables, and what is published with them.

By 6 RCNY 5-300, with the categories of sex, of race or ethnicity, and of both crossed::

    selection rate  = selected / applicants of a category
    scoring rate    = applicants of a category with a score above the median of all / applicants
    impact ratio    = rate of a category / rate of the most selected (highest scoring) category

The median is that of the full sample, people of unknown category included (5-301 (c) (1)). A score
equal to the median is not above it. A category of less than 2% of the data may be left out of the
impact ratios, with the auditor's reason; its applicants and its rate are still shown (5-301 (d)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import ArrayLike, FloatArray
from fairboost.exceptions import InvalidInputError
from fairboost.filings.counts import Assessed, add_ratios, count
from fairboost.filings.filing import (
    Filing,
    FormField,
    about_the_text,
    blank,
    check_fields,
    filled,
    shown,
)
from fairboost.report.blocks import Block, Bullets, Cell, Facts, Folded, Section, Text
from fairboost.report.lines import FOUR_FIFTHS

FOLLOWS = (
    "New York City Administrative Code §§ 20-870 to 20-874 (Local Law 144 of 2021) and the rules "
    "of the Department of Consumer and Worker Protection, 6 RCNY §§ 5-300 to 5-304, as adopted in "
    "April 2023 and enforced since 5 July 2023"
)

AUDITOR, EMPLOYER, VENDOR = "the independent auditor", "the employer", "the employer or the vendor"
FIELDS = {
    "tool": FormField("Automated employment decision tool", VENDOR),
    "tool_version": FormField("Version of the tool", VENDOR),
    "employer": FormField("Employer or employment agency", EMPLOYER),
    "auditor": FormField("Independent auditor", AUDITOR),
    "audit_date": FormField("Date of this bias audit", AUDITOR, is_date=True),
    "distribution_date": FormField("Distribution date of the tool", EMPLOYER, is_date=True),
    "source": FormField("Source and explanation of the data", AUDITOR),
    "data_from": FormField("First day of the data", AUDITOR, is_date=True),
    "data_to": FormField("Last day of the data", AUDITOR, is_date=True),
    "data_kind": FormField("Historical data or test data (§ 5-302)", AUDITOR),
    "why_test_data": FormField(
        "If test data: why historical data was not used, how the test data was made", AUDITOR
    ),
    "left_out_reason": FormField("Reason for leaving out categories under 2%", AUDITOR),
    "independence": FormField("How the auditor is independent (§ 5-300)", AUDITOR),
}
"""What is filled in by people."""

PUBLISHED = ("audit_date", "distribution_date", "source", "data_from", "data_to", "data_kind")
SMALL_SHARE = 0.02
"""A category below this share may be left out of the impact ratios."""
FEW_PEOPLE = 5
"""Published figures of so few people may say something about one of them."""
TITLES = {
    "sex": "Sex categories",
    "race": "Race/ethnicity categories",
    "intersection": "Intersectional categories of sex and race/ethnicity",
}


BY = {"sex": "sex", "race": "race/ethnicity", "intersection": "race/ethnicity and sex"}


def ll144(
    groups: ArrayLike,
    *,
    selected: ArrayLike | None = None,
    scores: ArrayLike | None = None,
    leave_out_below: float | None = None,
    unknown: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    data: Mapping[str, str] | None = None,
) -> Filing:
    """The summary of results of a bias audit under Local Law 144.

    Parameters
    ----------
    groups : table of two columns
        Sex first, race or ethnicity second; one row per applicant.
    selected : (n,) array of bool, optional
        Whether each applicant was selected to move forward.
    scores : (n,) array of float, optional
        The score of each applicant, in place of ``selected``.
    leave_out_below : float, optional
        Leave categories below this share of the data out of the impact ratios; at most 0.02.
    unknown : sequence of str
        Values that mean that a category is unknown, beside the usual words.
    fields : mapping of str to str, optional
        What people fill in, see :data:`FIELDS`; the rest stays blank.
    data : mapping of str to str, optional
        Lines on where the rows came from, such as the file and its checksum.

    Examples
    --------
    >>> people = {"sex": ["F", "M"] * 50, "race": ["A"] * 60 + ["B"] * 40}
    >>> filing = ll144(people, selected=[True, True, False, True, False] * 20)
    >>> filing.tables["sex"][["sex", "applicants", "selected", "impact ratio"]].values.tolist()
    [['F', 50, 30, 1.0], ['M', 50, 30, 1.0]]
    """
    if (selected is None) == (scores is None):
        raise InvalidInputError("pass either selected or scores, and not both")
    given = check_fields(fields, FIELDS)
    _check_share(leave_out_below)
    median = None
    if scores is not None:
        found = _finite(scores)
        median = float(np.median(found))
        selected = found > median
    people = count(groups, selected, unknown)
    columns, tables = _tables(people, median, leave_out_below)
    facts: dict[str, Any] = {
        "fields": given,
        "people": people.people,
        "median": median,
        "unknown": {
            "sex": people.missing(columns[:1]),
            "race": people.missing(columns[1:]),
            "either": people.missing(columns),
        },
        "unknown values": people.unknown,
        "leave_out_below": leave_out_below,
    }
    sections = (
        _in_short(tables, median, facts["unknown"]["either"]),
        Section("What is published (6 RCNY § 5-303)", tuple(_published(given, facts, data or {}))),
        *(
            Section(TITLES[name], tuple(_category_blocks(name, table, median)))
            for name, table in tables.items()
        ),
        Section("Unknown categories", tuple(_unknown(facts, columns))),
        Section("Small categories", tuple(_small(tables, given, leave_out_below))),
        Section("For the independent auditor", tuple(_auditor(given))),
        about_the_text(FOLLOWS, _notes(median)),
    )
    title = f"Bias audit: {given.get('tool', 'automated employment decision tool')}"
    return Filing("ll144", title, sections, tables, facts)


def _tables(
    people: Assessed, median: float | None, share: float | None
) -> tuple[list[str], dict[str, pd.DataFrame]]:
    """The two columns, and the three tables."""
    if len(columns := list(people.cells.groups)) != 2:
        raise InvalidInputError(
            "Local Law 144 takes two columns, sex and race or ethnicity, found "
            f"{len(columns)}: {', '.join(columns)}"
        )
    tables = {
        name: _table(people, those, median, share)
        for name, those in zip(TITLES, (columns[:1], columns[1:], columns[::-1]), strict=True)
    }
    for name in ("sex", "race"):
        if len(tables[name]) < 2:
            raise InvalidInputError(
                f"the column {columns[name == 'race']!r} has one known category, "
                f"{tables[name].iloc[0, 0]!r}; an impact ratio compares two. Name another column, "
                "or pass the rows of all applicants"
            )
    return columns, tables


def _check_share(share: float | None) -> None:
    if share is not None and not 0 < share <= SMALL_SHARE:
        raise InvalidInputError(
            f"categories may be left out below a share of at most {SMALL_SHARE:g} (6 RCNY § 5-301 "
            f"(d)), found {share:g}; pass {SMALL_SHARE:g} or less, or leave it out"
        )


def _finite(scores: ArrayLike) -> FloatArray:
    found = np.asarray(scores, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise InvalidInputError(
            "scores must be a column of numbers, none of them missing; leave out rows without a "
            "score, and say how many there were"
        )
    return found


def _table(
    people: Assessed, columns: Sequence[str], median: float | None, share: float | None
) -> pd.DataFrame:
    """A table as the rule has it."""
    table = people.table(columns)
    left_out = table["share"].to_numpy() < (share or 0.0)
    table = add_ratios(table, left_out)
    many, rate = ("selected", "selection rate")
    if median is not None:
        many, rate = "above the median", "scoring rate"
    return pd.DataFrame(
        {
            **{column: table[column] for column in columns},
            "applicants": table["applicants"],
            many: table["selected"],
            rate: table["rate"],
            "impact ratio": table["ratio"],
            "share of the data": table["share"],
            "rate, low end of 95% interval": table["low"],
            "rate, high end of 95% interval": table["high"],
            "left out of the impact ratio": np.where(left_out, "yes", "no"),
        }
    )


def _rate_of(median: float | None) -> str:
    return "selection rate" if median is None else "scoring rate"


def _category(line: Mapping[Any, Any], table: pd.DataFrame) -> str:
    return ", ".join(str(line[column]) for column in table.columns[: _headers(table)])


def _headers(table: pd.DataFrame) -> int:
    """Columns that name the category."""
    return list(table.columns).index("applicants")


def _in_short(tables: Mapping[str, pd.DataFrame], median: float | None, unknown: int) -> Section:
    told = []
    for name, table in tables.items():
        known = table.dropna(subset="impact ratio").to_dict("records")
        if not known:
            told.append(f"{TITLES[name]}: no impact ratio, since nobody was selected.")
            continue
        low, high = (f(known, key=lambda line: line["impact ratio"]) for f in (min, max))
        below = sum(line["impact ratio"] < FOUR_FIFTHS for line in known)
        told.append(
            f"{TITLES[name]}: the lowest impact ratio is {low['impact ratio']:.3f} "
            f"({_category(low, table)}, against {_category(high, table)}); {below or 'none'} of "
            f"{len(known)} {'is' if below == 1 else 'are'} below {FOUR_FIFTHS:g}."
        )
    if unknown:
        told.append(
            f"{unknown:,} people have an unknown sex or race/ethnicity; they are in no table of "
            "that category."
        )
    text = (
        f"The rule asks for impact ratios to be published. It sets no ratio that a tool must "
        f"reach; {FOUR_FIFTHS:g} is the four-fifths rule of federal guidelines, for comparison."
    )
    measured = "Applicants were selected or not."
    if median is not None:
        measured = f"Applicants were scored; the median score of the full sample is {median:g}."
    return Section("In short", (Text(measured), Bullets(tuple(told)), Text(text)))


def _published(
    given: Mapping[str, str], facts: Mapping[str, Any], data: Mapping[str, str]
) -> Iterable[Block]:
    yield filled(FIELDS, given, ("tool", "tool_version", "employer", "auditor", *PUBLISHED))
    if given.get("data_kind") != "historical":
        yield filled(FIELDS, given, ("why_test_data",))
    lines = [("People assessed", f"{facts['people']:,}")]
    if facts["median"] is not None:
        lines.append(("Median score of the full sample", f"{facts['median']:g}"))
    lines.append(("People of unknown category", f"{facts['unknown']['either']:,}"))
    yield Facts((*lines, *data.items()))


def _category_blocks(name: str, table: pd.DataFrame, median: float | None) -> Iterable[Block]:
    heads, rate = _headers(table), _rate_of(median)
    forms = {"applicants": ",.0f", "selected": ",.0f", "above the median": ",.0f"}
    forms |= {rate: ".1%", "impact ratio": ".3f", "share of the data": ".1%"}
    page = table.rename(
        columns={"applicants": "number of applicants", "selected": "number selected"}
    )
    forms |= {"number of applicants": ",.0f", "number selected": ",.0f"}
    main = [*page.columns[:heads], "number of applicants"]
    main += ["number selected" if median is None else "above the median", rate, "impact ratio"]
    block = shown(f"{rate.capitalize()}s and impact ratios", page[main], forms, heads)
    gone = (table["left out of the impact ratio"] == "yes").tolist()
    rows = tuple(
        (*row[:-1], Cell("left out")) if out else row
        for row, out in zip(block.rows, gone, strict=True)
    )
    yield replace(block, title=f"{block.title} by {BY[name]}", rows=rows)
    ends = ["rate, low end of 95% interval", "rate, high end of 95% interval"]
    forms |= dict.fromkeys(ends, ".1%")
    detail = page[
        [*page.columns[:heads], "number of applicants", "share of the data", rate, *ends]
    ]
    title = f"How certain the {rate}s are, by {BY[name]}"
    yield Folded(f"Shares of the data and 95% intervals of the {rate}s", (
        shown(title, detail, forms, heads),
    ))  # fmt: skip
    few = [
        _category(line, table)
        for line in table.to_dict("records")
        if line["applicants"] < FEW_PEOPLE
    ]
    if few:
        yield Text(
            f"Fewer than {FEW_PEOPLE} people: {'; '.join(few)}. Published figures of so few "
            "people may reveal what became of a person; ask the auditor how to publish them.",
            "unsure",
        )


def _unknown(facts: Mapping[str, Any], columns: Sequence[str]) -> Iterable[Block]:
    sex, race = columns
    found = facts["unknown"]
    yield Text(
        f"{found['either']:,} of {facts['people']:,} people have an unknown sex or an unknown "
        "race or ethnicity. They are not in the table of intersectional categories."
    )
    yield Facts(
        (
            (f"Unknown sex ({sex})", f"{found['sex']:,}; not in the table of sex categories"),
            (
                f"Unknown race/ethnicity ({race})",
                f"{found['race']:,}; not in the table of race/ethnicity categories",
            ),
        )
    )
    if taken := facts["unknown values"]:
        told = "; ".join(f"{c}: {', '.join(map(repr, v))}" for c, v in taken.items())
        yield Text(f"Missing values are unknown categories. So are these values: {told}.")


def _small(
    tables: Mapping[str, pd.DataFrame], given: Mapping[str, str], share: float | None
) -> Iterable[Block]:
    small = [
        f"{_category(line, table)}: {line['applicants']:,} applicants, "
        f"{line['share of the data']:.1%} of the data"
        for table in tables.values()
        for line in table.to_dict("records")
        if line["share of the data"] < (share or SMALL_SHARE)
    ]
    if not small:
        yield Text(f"No category is below {share or SMALL_SHARE:.0%} of the data.")
        return
    if share is None:
        yield Text(
            "These categories are below 2% of the data. They are in the impact ratios; the rule "
            "allows an auditor to leave them out with a reason (6 RCNY § 5-301 (d))."
        )
    else:
        yield Text(
            f"Each of these categories has less than {share:.3g} of the data. The table has no "
            "impact ratio for them, and none of them counts as the most selected category. The "
            "table has their numbers of applicants and their rates."
        )
    yield Bullets(tuple(small))
    if share is not None:
        yield filled(FIELDS, given, ("left_out_reason",))


def _auditor(given: Mapping[str, str]) -> Iterable[Block]:
    yield filled(FIELDS, given, ("independence",))
    yield blank("name, date and signature of the person who is responsible for the audit", AUDITOR)


def _notes(median: float | None) -> list[str]:
    said = [
        "Each table leaves out the people whose category it needs and does not know. Shares for "
        "the limit of 2% are of the people in the table.",
        "If a tool sorts people into groups, such as leadership styles, the rule asks for these "
        "tables for each group (§ 5-301 (b) (4)): make one document per group.",
        "A tool may be used for a year after its most recent bias audit (§ 5-301 (a)). Notices to "
        "candidates (§ 5-304) are not part of this document.",
        "The law asks for an independent auditor. A tool that prepares figures is not an auditor.",
    ]
    if median is not None:
        said.insert(
            0, "A score equal to the median is not above it: with many equal scores, fewer than "
            "half of the people are above the median."
        )  # fmt: skip
    return said
