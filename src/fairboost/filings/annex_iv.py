"""The technical documentation of Annex IV of the EU AI Act, as far as figures can fill it.

What follows from an audit, and from the folder of a trained model, is filled in under the point of
the annex that asks for it. What only the provider knows is a marked blank with the same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from fairboost.filings.filing import (
    Filing,
    FormField,
    about_the_text,
    blank,
    check_fields,
    filled,
    shown,
)
from fairboost.filings.matching import check_about_model
from fairboost.report import words
from fairboost.report.blocks import Block, Bullets, Facts, Section, TableBlock, Text
from fairboost.report.evidence import Evidence, GroupRate
from fairboost.report.lines import CHOSEN

FOLLOWS = (
    "Annex IV of Regulation (EU) 2024/1689 (the AI Act), as published in the Official Journal on "
    "12 July 2024"
)
PROVIDER = "the provider"
FIELDS = {
    "provider": FormField("1 (a) Name of the provider", PROVIDER),
    "system": FormField("1 (a) Name of the AI system", PROVIDER),
    "version": FormField("1 (a) Version, and its relation to earlier versions", PROVIDER),
    "purpose": FormField("1 (a) Intended purpose", PROVIDER),
    "interaction": FormField("1 (b) Interaction with other hardware and software", PROVIDER),
    "updates": FormField("1 (c) Requirements on updates of software and firmware", PROVIDER),
    "forms": FormField("1 (d) Forms in which the system is placed on the market", PROVIDER),
    "hardware": FormField("1 (e) Hardware that the system runs on", PROVIDER),
    "product": FormField(
        "1 (f) Product that the system is a part of: pictures, marking", PROVIDER
    ),
    "interface": FormField("1 (g) User interface of the deployer", PROVIDER),
    "instructions": FormField("1 (h) Instructions for use", PROVIDER),
    "methods": FormField("2 (a) Steps of development, third-party systems and tools", PROVIDER),
    "design": FormField(
        "2 (b) Rationale and assumptions, persons the system is meant for", PROVIDER
    ),
    "architecture": FormField("2 (c) Architecture, computational resources", PROVIDER),
    "data": FormField("2 (d) Provenance, selection, labelling and cleaning of the data", PROVIDER),
    "oversight": FormField("2 (e), 3 Human oversight measures needed (Article 14)", PROVIDER),
    "planned_changes": FormField("2 (f) Changes determined in advance", PROVIDER),
    "robustness": FormField("2 (g) Measures of robustness", PROVIDER),
    "signed": FormField("2 (g) Test reports: date and responsible persons", PROVIDER),
    "security": FormField("2 (h) Cybersecurity measures", PROVIDER),
    "unintended": FormField("3 Foreseeable unintended outcomes, sources of risk", PROVIDER),
    "input": FormField("3 Specifications of the input data", PROVIDER),
    "metrics": FormField("4 Why these metrics are appropriate", PROVIDER),
    "risk": FormField("5 Risk management system (Article 9)", PROVIDER),
    "changes": FormField("6 Changes during the lifecycle", PROVIDER),
    "standards": FormField("7 Harmonised standards applied, or other solutions", PROVIDER),
    "declaration": FormField("8 EU declaration of conformity (Article 47)", PROVIDER),
    "monitoring": FormField("9 Post-market monitoring (Article 72)", PROVIDER),
}
"""What the provider fills in, by the points of the annex."""

MOST_RATES = 6
"""Columns of the table of rates by group."""
MOST_GAPS = 40
ESTIMATED, WINDOWS = " (estimated)", " (windows)"
"""Beside attributes of which a row belongs to several groups, each with a weight."""
NO_MODEL = "No folder of a trained model was given, so nothing is known of the model itself."


def annex_iv(
    evidence: Evidence,
    trained: Evidence | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    scored_again: int | None = None,
) -> Filing:
    """Technical documentation by Annex IV of the AI Act.

    Parameters
    ----------
    evidence : Evidence
        Of an audit, or of a trained model: what was measured on rows that were not trained on.
    trained : Evidence, optional
        Of the trained model: what it is, and how it was made. Label, positive label, classes,
        threshold and groups must be those of the audit.
    fields : mapping of str to str, optional
        What the provider fills in, see :data:`FIELDS`; the rest stays blank.
    scored_again : int, optional
        Rows of the audit that the model was applied to once more, with the same results.
    """
    given = check_fields(fields, FIELDS)
    if trained is not None:
        check_about_model(evidence, trained)
    rates, gaps = _rate_table(evidence), _gap_table(evidence)
    data = _data_table(evidence)
    verdicts = pd.DataFrame([] if trained is None else list(_verdict_lines(trained)))
    tables = {"performance": _performance_table(evidence), "rates": rates, "gaps": gaps}
    tables |= {"data": data, "verdicts": verdicts}
    tables = {name: table for name, table in tables.items() if len(table)}
    sections = (
        _in_short(evidence, trained, given, scored_again),
        Section("1. General description of the AI system", tuple(_general(trained, given))),
        Section(
            "2. Elements of the system and its development",
            tuple(_development(evidence, trained, given, data)),
        ),
        Section(
            "3. Monitoring, functioning and control",
            tuple(_functioning(evidence, given, rates, gaps)),
        ),
        Section("4. Appropriateness of the metrics", tuple(_metrics(evidence, given))),
        Section("5. to 9. Further documentation", tuple(_further(given))),
        about_the_text(FOLLOWS, NOTES),
    )
    title = f"Technical documentation: {given.get('system', evidence.title)}"
    facts = {"fields": given, "model": _model_facts(trained), "rows": evidence.data.splits}
    return Filing("annex_iv", title, sections, tables, facts)


def _model_facts(trained: Evidence | None) -> dict[str, Any]:
    if trained is None or (m := trained.model) is None:
        return {}
    return {
        "engine": f"{m.engine} {m.engine_version}",
        "fairboost": m.fairboost_version,
        "trees": m.trees,
        "threshold": m.threshold,
        "file": m.export_file,
        "sha256": m.export_sha256,
    }


def _in_short(
    evidence: Evidence,
    trained: Evidence | None,
    given: Mapping[str, str],
    scored_again: int | None,
) -> Section:
    known = len(FIELDS) - len(given)
    told = [
        f"{len(given)} of {len(FIELDS)} fields of the provider are filled in, {known} are blank."
    ]
    rows = ", ".join(f"{n:,} {use}" for use, n in evidence.data.splits.items())
    if trained is evidence:
        told.append(f"Figures by group are those on the test rows of the model ({rows} rows).")
    else:
        told.append(
            f"Figures by group were measured on the table that was audited ({rows} rows). The "
            "provider has to make sure that the model was not trained on these rows."
        )
    if trained is not None and trained is not evidence:
        told.append(_whose(scored_again))
    worst = sorted(
        (
            g
            for g in evidence.gaps
            if g.model == CHOSEN and g.gap is not None and _single(g, evidence)
        ),
        key=lambda g: -(g.gap or 0.0),
    )
    told += [
        f"By {_by(g.attribute, evidence)}: the {words.rate_title(g.rate)} differs most, by "
        f"{words.interval(g.gap, g.gap_low, g.gap_high)} between {g.lowest_group} and "
        f"{g.highest_group}."
        for g in {g.attribute: g for g in reversed(worst)}.values()
    ]
    if trained is None:
        told.append(NO_MODEL)
    if evidence.caution:
        told.insert(0, evidence.caution)
    return Section("In short", (Bullets(tuple(told)),))


def _whose(scored_again: int | None) -> str:
    """Whether predictions of the table are those of the model."""
    if scored_again is None:
        return (
            "The table does not have the features of the model, so its predictions were not "
            "compared with the model. The provider has to make sure that they are the model's."
        )
    rows = f"{scored_again:,} rows of the table"
    return f"The model was applied to {rows} again, with the same results."


def _by(attribute: str, evidence: Evidence) -> str:
    """What groups are by; windows and estimates are marked as such."""
    if attribute in _shared(evidence):
        return f"{attribute}{WINDOWS if attribute in evidence.windows else ESTIMATED}"
    return attribute or "everyone"


def _shared(evidence: Evidence) -> dict[str, str]:
    """Columns of which a row belongs to several groups by weights, and what rates estimate."""
    return {c.name: c.shared for c in evidence.data.sensitive if c.shared}


def _single(line: Any, evidence: Evidence) -> bool:
    return line.attribute in {c.name for c in evidence.data.sensitive}


# 1 and 2: the system and its development
# -----------------------------------------------------------------------


def _general(trained: Evidence | None, given: Mapping[str, str]) -> Iterator[Block]:
    yield filled(FIELDS, given, ("provider", "system", "version", "purpose", "interaction"))
    if trained is not None and (m := trained.model) is not None:
        yield Facts(
            (
                ("1 (a) Model file", f"{m.export_file or 'model.json'}, {m.trees:,} trees"),
                ("1 (a) Its SHA-256", m.export_sha256 or words.ABSENT),
                (
                    "1 (c) Software",
                    f"{m.engine} {m.engine_version}; fairboost {m.fairboost_version}",
                ),
            )
        )
    else:
        yield Text(NO_MODEL)
    names = ("updates", "forms", "hardware", "product", "interface", "instructions")
    yield filled(FIELDS, given, names)


def _development(
    evidence: Evidence,
    trained: Evidence | None,
    given: Mapping[str, str],
    data: pd.DataFrame,
) -> Iterator[Block]:
    if trained is not None and trained.model is not None:
        yield from _design(trained)
    yield filled(FIELDS, given, ("methods", "design", "architecture"))
    yield from _data_blocks(evidence, trained, data)
    yield filled(FIELDS, given, ("data", "oversight", "planned_changes"))
    yield from _tests(evidence, trained)
    yield filled(FIELDS, given, ("robustness", "signed", "security"))


def _design(trained: Evidence) -> Iterator[Block]:
    m, asked = trained.model, trained.asked
    assert m is not None
    aware = [c.name for c in trained.data.sensitive if c.feature]
    seen = f"The model sees {words.join(aware)}." if aware else "No sensitive column is a feature."
    yield Facts(
        (
            (
                "2 (a) Method",
                f"gradient boosted trees of {m.engine}, trained by fairboost under constraints on "
                "group rates",
            ),
            (
                "2 (b) What is optimised",
                f"the loss of the engine ({trained.data.loss or 'log loss'})",
            ),
            ("2 (b) Constraints", "; ".join(asked.constraints) or "none"),
            ("2 (b) Decisions", asked.operating_point or "numbers are predicted"),
            ("2 (b) Sensitive columns", seen),
        )
    )
    changed = [p for p in trained.performance if p.model == "difference" and p.value is not None]
    if changed:
        told = (f"{p.measure} {words.interval(p.value, p.low, p.high, 4)}" for p in changed)
        yield Text(
            "2 (b) Trade-off: on test rows the constraints change the performance, against the "
            f"engine alone, by {'; '.join(told)}."
        )
    if trained.tradeoff is not None:
        n = len(trained.tradeoff.points)
        yield Text(f"2 (b) {n} alternatives were compared; see the format model_risk.")


def _data_blocks(
    evidence: Evidence, trained: Evidence | None, data: pd.DataFrame
) -> Iterator[Block]:
    source = evidence if trained is None else trained
    d = source.data
    rows = tuple((f"2 (d) Rows, {use}", f"{n:,}") for use, n in d.splits.items())
    more = (
        ("2 (d) Label", d.label or "not in the data"),
        ("2 (d) Features", words.ABSENT if d.features is None else f"{d.features:,}"),
    )
    yield Facts((*rows, *more))
    files = dict.fromkeys((*d.files, *evidence.data.files))
    if files:
        lines = ((f.name, f.role, words.count(f.rows), f.sha256 or words.ABSENT) for f in files)
        yield TableBlock.of("2 (d) Files", ("file", "used for", "rows", "SHA-256"), lines)
    if d.left_out:
        yield TableBlock.of(
            "2 (d) Columns left out of the features", ("column", "why"), d.left_out.items()
        )
    if len(data):
        forms = {"rows": ",.0f", "share of the rows": ".1%", "share of positive labels": ".1%"}
        yield shown(
            "2 (d), (g) Examination of the data by group, on the test rows", data, forms, 2
        )
        if shared := _shared(evidence):
            yield Text(
                f"People are not counted by {words.join(list(shared))}: a person belongs to "
                "several groups, each with a weight. Section 3 has estimates."
            )
        unknown = [f"{c.name}: {c.missing:,}" for c in evidence.data.sensitive if c.missing]
        if unknown:
            yield Text(f"Rows of unknown group, which are in no group: {', '.join(unknown)}.")
        yield Text(
            "A small share of rows, or a share of positive labels that differs, is a possible "
            "source of bias (Article 10 (2) (f)). The provider has to examine whether it is one."
        )


def _tests(evidence: Evidence, trained: Evidence | None) -> Iterator[Block]:
    if trained is not None and trained.verdicts:
        lines = pd.DataFrame(list(_verdict_lines(trained)))
        forms = {"found": ".4f", "low": ".4f", "high": ".4f", "limit": ".4g"}
        yield shown("2 (g) Constraints: what was found, and verdicts", lines, forms)
    if evidence.verdicts and (trained is None or evidence is not trained):
        lines = pd.DataFrame(list(_verdict_lines(evidence)))
        forms = {"found": ".4f", "low": ".4f", "high": ".4f", "limit": ".4g"}
        yield shown("2 (g) Limits of this audit", lines, forms)
    yield Text(
        "2 (g) Metrics of accuracy and of potentially discriminatory impact are in section 3, "
        f"each with a {100 * evidence.asked.level:g}% interval."
    )


def _verdict_lines(e: Evidence) -> Iterator[dict[str, Any]]:
    for f in e.verdicts:
        yield {
            "constraint": f.constraint,
            "rows": words.where_title(f.where),
            "measure": f.measure,
            "found": f.value,
            "low": f.low,
            "high": f.high,
            "limit": f.limit,
            "verdict": f.status,
        }


# 3 and 4: performance by group
# -----------------------------------------------------------------------


def _functioning(
    evidence: Evidence, given: Mapping[str, str], rates: pd.DataFrame, gaps: pd.DataFrame
) -> Iterator[Block]:
    overall = _performance_table(evidence)
    if len(overall):
        forms = dict.fromkeys(("value", "low", "high"), ".4f")
        yield shown("3 Overall level of accuracy", overall, forms)
    else:
        yield Text(
            "3 The level of accuracy is not known: what came true is not in the data. Shares of "
            "decisions are compared instead."
        )
    yield shown("3 Degrees of accuracy for groups of persons", rates, {"rows": ",.0f"}, 2)
    if shared := _shared(evidence):
        yield Text(
            f"3 By {words.join(list(shared))}, a person belongs to several groups, each with a "
            "weight. The rows of such a group are an effective sample size, not a count of people."
        )
        yield Bullets(tuple(shared.values()))
    if len(gaps):
        forms = dict.fromkeys(("gap", "low", "high", "ratio"), ".3f")
        title = "3 Foreseeable discriminatory impact: how far groups are apart"
        yield shown(title, gaps.head(MOST_GAPS), forms, 2)
    told = [w for w in evidence.warnings if w != evidence.caution]
    if told:
        yield Text("3 What was noticed in the data and the figures:")
        yield Bullets(tuple(told))
    if evidence.limits:
        yield Text("3 Limitations of these figures:")
        yield Bullets(evidence.limits)
    yield filled(FIELDS, given, ("unintended", "input"))


def _performance_table(e: Evidence) -> pd.DataFrame:
    lines = [
        {"measure": p.measure, "value": p.value, "low": p.low, "high": p.high}
        for p in e.performance
        if p.model == CHOSEN
    ]
    return pd.DataFrame(lines)


def _of_groups(e: Evidence) -> list[GroupRate]:
    """Rates of this model on test rows, of everyone and of single columns."""
    return [r for r in e.rates if (r.where, r.model, r.crossed) == ("test", CHOSEN, False)]


def _rate_table(e: Evidence) -> pd.DataFrame:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    names = list(dict.fromkeys(r.rate for r in _of_groups(e)))[:MOST_RATES]
    for r in _of_groups(e):
        line = found.setdefault((r.attribute, r.group), {"rows": 0.0})
        line["rows"] = max(line["rows"], r.rows)
        if r.rate in names:
            small = " (small)" if r.small else ""
            decimals = words.decimals_of(r.rate, e)
            text = words.interval(r.value, r.low, r.high, decimals)
            line[words.rate_title(r.rate)] = words.ABSENT if r.value is None else f"{text}{small}"
    return pd.DataFrame(
        [{"by": _by(by, e), "group": group, **line} for (by, group), line in found.items()]
    )


def _gap_table(e: Evidence) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "by": _by(g.attribute, e),
                "figure": words.gap_title(g.rate)
                if e.task == "numbers"
                else words.rate_title(g.rate),
                "gap": g.gap,
                "low": g.gap_low,
                "high": g.gap_high,
                "ratio": g.ratio,
                "lowest": g.lowest_group,
                "highest": g.highest_group,
            }
            for g in e.gaps
            if g.model == CHOSEN
        ]
    )


def _data_table(e: Evidence) -> pd.DataFrame:
    """How many rows of each group there are, and how many of them have the positive label."""
    shared = _shared(e)  # of whose groups people cannot be counted
    own = [r for r in _of_groups(e) if r.attribute not in shared]
    counted = {(r.attribute, r.group, r.rate): r.rows for r in own}
    lines = []
    for attribute, group in dict.fromkeys((r.attribute, r.group) for r in own):
        rows = max(n for (a, g, _), n in counted.items() if (a, g) == (attribute, group))
        line = {"by": attribute or "everyone", "group": group, "rows": rows}
        line["share of the rows"] = rows / max(n for (a, _, _), n in counted.items() if not a)
        positive = counted.get((attribute, group, "fnr"))
        if e.task == "decisions" and positive is not None:
            line["share of positive labels"] = positive / rows if rows else None
        lines.append(line)
    return pd.DataFrame(lines)


def _metrics(e: Evidence, given: Mapping[str, str]) -> Iterator[Block]:
    names = list(dict.fromkeys(r.rate for r in _of_groups(e)))[:MOST_RATES]
    if e.task != "classes":
        yield Facts(tuple((words.rate_title(n), words.explain_rate(n, e)) for n in names))
    yield filled(FIELDS, given, ("metrics",))


def _further(given: Mapping[str, str]) -> Iterable[Block]:
    yield filled(FIELDS, given, ("risk", "changes", "standards", "declaration", "monitoring"))
    yield blank("date, and signature of the person responsible", PROVIDER)


NOTES = (
    "Later amendments of the Regulation, such as those of 2026 on dates of application and on "
    "simplified documentation for smaller companies, are not taken into account: compare with the "
    "consolidated text.",
    "Only high-risk AI systems need this documentation (Article 11); whether a system is one is "
    "decided by Article 6 and Annex III.",
    "Figures hold for the rows that were measured. Point 9 asks how they are watched in use.",
)
