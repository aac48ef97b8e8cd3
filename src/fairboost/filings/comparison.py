"""The comparison of candidate models that model risk management and fair lending reviews ask for.

Every candidate has its performance, how far groups are apart, the ratio of favourable decisions,
standardised differences of mean scores, the random seed and the checksum of its fit; and whether
it was chosen, and why. Candidates come from ``fairboost compare`` or
:func:`fairboost.report.gather` (a trade-off on test rows), from :func:`fairboost.tradeoff_curve`
(on rows held out), from :func:`fairboost.tune` (on validation rows) or from a study's folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairboost.exceptions import InvalidInputError
from fairboost.filings.candidates import Candidate, Candidates, candidates_of
from fairboost.filings.filing import (
    Filing,
    FormField,
    about_the_text,
    blank,
    check_fields,
    filled,
    shown,
)
from fairboost.report.blocks import (
    BLANK,
    Block,
    Bullets,
    Cell,
    Facts,
    Section,
    TableBlock,
    Text,
    Tone,
)
from fairboost.report.evidence import Evidence
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.selection.tuning import Tuned

FOLLOWS = (
    "no prescribed form: the layout is fairboost's own. It documents the choice among candidate "
    "models, for model risk management (in the United States the interagency guidance of 17 April "
    "2026, SR 26-2 and OCC Bulletin 2026-13, which replaced SR 11-7) and for reviews that look "
    "for less discriminatory alternatives"
)
OWNER, REVIEWER = "the owner of the model", "the independent reviewer"
FIELDS = {
    "model": FormField("Name of the model, and its use", OWNER),
    "owner": FormField("Owner of the model", OWNER),
    "reason": FormField("Why the chosen model was chosen", OWNER),
    "other_alternatives": FormField("Other alternatives that were considered", OWNER),
    "limitations": FormField("Limitations and compensating controls", OWNER),
    "reviewer": FormField("Independent reviewer", REVIEWER),
    "review_date": FormField("Date of the review", REVIEWER, is_date=True),
    "review": FormField("Outcome of the review", REVIEWER),
}
"""What is filled in by people."""

MOST_SHOWN = 60
"""Candidates on the page; the CSV file has them all."""
MOST_ASKED = 10
"""Candidates of which it is asked why they were not chosen."""
EQUAL = 1e-12


def model_risk(
    source: Evidence | TradeoffCurve | Tuned | Candidates,
    *,
    fields: Mapping[str, str] | None = None,
) -> Filing:
    """The comparison of candidate models, for model risk management.

    Parameters
    ----------
    source : Evidence, TradeoffCurve, Tuned or Candidates
        The candidates. Evidence with a trade-off (``gather(..., curve=curve)``) has the most to
        say: it is about test rows, and has ratios and differences of groups.
    fields : mapping of str to str, optional
        What people fill in, see :data:`FIELDS`; the rest stays blank.
    """
    given = check_fields(fields, FIELDS)
    found = candidates_of(source)
    if not found.models:
        raise InvalidInputError("there are no candidates to compare; train some first")
    table = _table(found)
    sections = (
        _in_short(found, table),
        Section("What was compared", tuple(_compared(found, given))),
        Section("Candidates", tuple(_candidate_blocks(found, table))),
        Section("The choice", tuple(_choice(found, table, given))),
        Section("Fits: seeds and checksums", tuple(_fits(found, table))),
        Section("Review", tuple(_review(given))),
        about_the_text(FOLLOWS, NOTES),
    )
    title = f"Comparison of candidate models: {given.get('model', found.source)}"
    chosen = next((c.name for c in found.models if c.chosen), None)
    facts = {
        "fields": given,
        "source": found.source,
        "rows": found.rows,
        "measure": found.measure,
        "tolerance": found.tolerance,
        "chosen": chosen,
    }
    return Filing("model_risk", title, sections, {"candidates": table}, facts)


# The table
# -----------------------------------------------------------------------


def _table(found: Candidates) -> pd.DataFrame:
    """One line per candidate, with whether it was chosen and why."""
    chosen = next((c for c in found.models if c.chosen), None)
    lines = []
    for c in found.models:
        lines.append(
            {
                "candidate": c.name,
                "chosen": "yes" if c.chosen else "no",
                found.measure: c.performance,
                f"{found.measure}, low": c.low,
                f"{found.measure}, high": c.high,
                "gap": c.gap,
                "gap, low": c.gap_low,
                "gap, high": c.gap_high,
                **{f"ratio of favourable decisions, {k}": v for k, v in c.ratios.items()},
                **{f"standardised difference, {k}": v for k, v in c.differences.items()},
                "trees": c.trees,
                "seed": c.seed,
                "sha256": c.sha256,
                "why": _why(c, chosen, found),
            }
        )
    table = pd.DataFrame(lines)
    last = ["trees", "seed", "sha256", "why"]
    table = table[[*(c for c in table.columns if c not in last), *last]]
    return table.astype({"trees": "Int64", "seed": "Int64"})


def _why(c: Candidate, chosen: Candidate | None, found: Candidates) -> str:
    """Why a candidate was chosen or not, as far as figures say it."""
    if c.chosen:
        return found.chosen_by or "chosen by the owner"
    if chosen is None:
        return "none was chosen yet"
    if c.idle:
        return "decides about nearly everyone in the same way"
    less = found.sign * (chosen.performance - c.performance)
    if c.gap < chosen.gap - EQUAL and less <= EQUAL:
        return NEEDS_REASON
    if c.gap < chosen.gap - EQUAL and _inside(c.performance, chosen, found.sign):
        return f"{SIMILAR} ({less:.4f} {'below' if found.sign > 0 else 'above'})"
    if found.tolerance is not None and c.gap > found.tolerance + EQUAL:
        return f"gap {c.gap:.4f} is beyond the tolerance of {found.tolerance:g}"
    if less > EQUAL:
        return (
            f"{found.measure} {less:.4f} {'below' if found.sign > 0 else 'above'} the chosen one"
        )
    return "performs at least as well, with a gap that is not smaller"


def _inside(performance: float, chosen: Candidate, sign: int) -> bool:
    """Whether a performance is not worse than the interval of the chosen one allows."""
    return performance >= chosen.low if sign > 0 else performance <= chosen.high


NEEDS_REASON = "smaller gap, and performs at least as well: a reason is needed"
SIMILAR = "smaller gap, performance inside the interval of the chosen one"


def _alternatives(table: pd.DataFrame, why: str = NEEDS_REASON) -> list[str]:
    """Candidates that have a smaller gap and perform no worse than the chosen one, or hardly."""
    found: list[str] = table.loc[table["why"].str.startswith(why), "candidate"].tolist()
    return found


def _several(names: Sequence[str]) -> str:
    return "; ".join(names[:5]) + (f"; and {len(names) - 5} more" if len(names) > 5 else "")


# The page
# -----------------------------------------------------------------------


def _in_short(found: Candidates, table: pd.DataFrame) -> Section:
    told = [f"{len(table):,} candidates were compared on {found.rows}."]
    chosen = next((c for c in found.models if c.chosen), None)
    if chosen is None:
        told.append("None of them was chosen yet.")
    else:
        told.append(
            f"Chosen: {chosen.name}. Its {found.measure} is {chosen.performance:.4f}, its largest "
            f"gap {chosen.gap:.4f}."
        )
        if found.tolerance is not None and chosen.gap > found.tolerance:
            told.append(
                f"On these rows, this gap is larger than the {found.tolerance:g} asked for."
            )
    blocks: list[Block] = [Bullets(tuple(told))]
    less, similar = _alternatives(table), _alternatives(table, SIMILAR)
    if less:
        blocks.append(
            Text(
                f"Smaller gap, and at least the performance of the chosen one on these rows: "
                f"{_several(less)}. Give the reason for the choice.",
                "bad",
            )
        )
    if similar:
        blocks.append(
            Text(
                "Smaller gap, and a performance inside the 95% interval of the chosen one: "
                f"{_several(similar)}. Consider these, and say why they were not chosen.",
                "unsure",
            )
        )
    if chosen is not None and not less and not similar:
        blocks.append(
            Text(
                "No candidate has a smaller gap and performs about as well as the chosen one on "
                "these rows.",
                "good",
            )
        )
    return Section("In short", tuple(blocks))


def _compared(found: Candidates, given: Mapping[str, str]) -> Iterator[Block]:
    yield filled(FIELDS, given, ("model", "owner"))
    asked = "not given" if found.tolerance is None else f"{found.tolerance:g}"
    yield Facts(
        (
            ("Candidates from", found.source),
            ("Measured on", found.rows),
            ("Performance", f"{found.measure}; {'more' if found.sign > 0 else 'less'} is better"),
            ("Largest gap asked for", asked),
        )
    )
    if found.estimates:
        yield Text(
            "A person belongs to several groups, each with a weight. Gaps and ratios are those of "
            "weighted rates. Standardised differences are not shown for these columns."
        )
        yield Bullets(found.estimates)


def _shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The chosen one and those that stand against it first, where there are too many."""
    if len(table) <= MOST_SHOWN:
        return table
    first = (table["chosen"] == "yes") | table["why"].str.startswith((NEEDS_REASON, SIMILAR))
    order = np.lexsort((np.arange(len(table)), ~first.to_numpy()))
    return table.iloc[np.sort(order[:MOST_SHOWN])]


def _candidate_blocks(found: Candidates, table: pd.DataFrame) -> Iterator[Block]:
    page = _shown_rows(table)
    if len(page) < len(table):
        yield Text(
            f"{len(page)} of {len(table):,} candidates are shown; all are in the file "
            "model_risk-candidates.csv."
        )
    yield _with_intervals(found, page)
    groups = [c for c in page.columns if c.startswith(("ratio of", "standardised"))]
    for start, title in (
        ("ratio of favourable decisions, ", "Ratio of favourable decisions: lowest over highest"),
        ("standardised difference, ", "Standardised differences of mean scores"),
    ):
        columns = {c: c.removeprefix(start) for c in groups if c.startswith(start)}
        if columns:
            part = page[["candidate", *columns]].rename(columns=columns)
            yield shown(title, part, dict.fromkeys(columns.values(), ".3f"))
        else:
            yield Text(f"{title}: not recorded by this source.")


def _with_intervals(found: Candidates, page: pd.DataFrame) -> TableBlock:
    rows = []
    for line in page.to_dict("records"):
        tone: Tone = "good" if line["chosen"] == "yes" else ""
        tone = "bad" if line["why"].startswith(NEEDS_REASON) else tone
        tone = "unsure" if line["why"].startswith(SIMILAR) else tone
        rows.append(
            [
                Cell(line["candidate"]),
                _figure(line, found.measure),
                _figure(line, "gap"),
                Cell(line["chosen"]),
                Cell(line["why"], tone=tone),
            ]
        )
    header = ("candidate", found.measure, "largest gap", "chosen", "why")
    return TableBlock.of("Performance and fairness", header, rows)


def _figure(line: Mapping[Any, Any], name: str) -> Cell:
    value, low, high = (line[f"{name}{end}"] for end in ("", ", low", ", high"))
    if math.isnan(value):
        return Cell("–")
    text = f"{value:.4f}" if math.isnan(low) else f"{value:.4f} [{low:.4f}, {high:.4f}]"
    return Cell(text, float(value))


def _choice(found: Candidates, table: pd.DataFrame, given: Mapping[str, str]) -> Iterator[Block]:
    yield filled(FIELDS, given, ("reason", "other_alternatives", "limitations"))
    for name in (*_alternatives(table), *_alternatives(table, SIMILAR))[:MOST_ASKED]:
        yield Text(f"{BLANK}To be filled in by {OWNER}: why not {name}?")


def _fits(found: Candidates, table: pd.DataFrame) -> Iterator[Block]:
    part = _shown_rows(table)[["candidate", "trees", "seed", "sha256"]]
    lines = [
        [Cell("–" if value is None or pd.isna(value) else str(value)) for value in line]
        for line in part.itertuples(index=False)
    ]
    yield TableBlock.of("Every fit", ("candidate", "trees", "random seed", "SHA-256"), lines)
    of = "predictions on the test rows" if found.source.startswith("study") else "the model"
    yield Text(
        f"The checksum is of {of}: the same data, options, seed and versions give it again. "
        "The model.json of a saved model has it as self_test.sha256."
        if of == "the model"
        else f"The checksum is of the {of}: a fit that predicts the same has the same checksum."
    )


def _review(given: Mapping[str, str]) -> Iterable[Block]:
    yield filled(FIELDS, given, ("reviewer", "review_date", "review"))
    yield blank("date and signature", REVIEWER)


NOTES: Sequence[str] = (
    "Regulation B (12 CFR part 1002) has had no effects test since 21 July 2026. State law and "
    "other law may still ask whether a less discriminatory alternative serves as well.",
    "Standardised difference: the mean score of a group less that of the group with the most "
    "rows, over the standard deviation of all scores.",
    "Ratio of favourable decisions: the lowest rate of a group over the highest.",
    "A model that was chosen by its figures on these rows looks a little better than it is.",
    "Intervals are 95%. Candidates whose intervals overlap may rank otherwise on new people.",
)
