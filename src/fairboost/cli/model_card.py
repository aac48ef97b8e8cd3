"""The model card: what the model is for whoever is going to use it, on one page of Markdown."""

from __future__ import annotations

from fairboost.cli.verdicts import interval
from fairboost.report.evidence import Evidence
from fairboost.tabular.schema import TableSchema


def model_card(evidence: Evidence, schema: TableSchema) -> str:
    """Write the card.

    Parameters
    ----------
    evidence : Evidence
        The figures.
    schema : TableSchema
        What the columns are.
    """
    parts = [
        f"# Model card: {_text(schema.label)}",
        _what(evidence, schema),
        _use(evidence, schema),
        _found(evidence),
        _columns(schema),
        "\n".join(["## Limits", "", *(f"- {_text(line)}" for line in evidence.limits)]),
    ]
    return "\n\n".join(parts) + "\n"


def _what(evidence: Evidence, schema: TableSchema) -> str:
    model = evidence.model
    assert model is not None
    sees = "sees" if schema.aware else "does not see"
    files = [
        f"- {_text(f.role)}: {_code(f.name)}, {f.rows or 0:,} rows, SHA-256 `{f.sha256}`"
        for f in evidence.data.files
    ]
    return "\n".join(
        [
            "## What it is",
            "",
            f"- Predicts {_code(schema.label)}; positive is {_code(schema.classes[1])}.",
            f"- {model.trees} rounds of {model.engine} {model.engine_version}, trained by "
            f"fairboost {model.fairboost_version}.",
            f"- Asked for: {_text('; '.join(evidence.asked.constraints)) or 'nothing'}.",
            f"- It {sees} {', '.join(map(_code, schema.sensitive))}.",
            *files,
        ]
    )


def _use(evidence: Evidence, schema: TableSchema) -> str:
    model = evidence.model
    assert model is not None
    return "\n".join(
        [
            "## How to use it",
            "",
            "    fairboost predict . new.csv --out scores.csv",
            "",
            f"A decision is positive from a probability of {model.threshold!r} on. "
            f"`{model.export_file}` is a stock {model.engine} model that gives the same "
            "probabilities; a category is known to it by its place in `schema.json`, from 0 on.",
        ]
    )


def _found(evidence: Evidence) -> str:
    verdicts = [
        f"| {_text(f.constraint)} | {_text(f.where)} | {f.measure} "
        f"{interval(f.value, f.low, f.high)} | {f.status} |"
        for f in evidence.verdicts
    ]
    measures = [
        f"| {_text(p.model)} | {_text(p.measure)} | {interval(p.value, p.low, p.high)} |"
        for p in evidence.performance
    ]
    level = f"{100 * evidence.asked.level:g}%"
    return "\n".join(
        [
            "## What it reached",
            "",
            f"{level} intervals; `report.html` has everything.",
            "",
            "| constraint | rows | found | verdict |",
            "| --- | --- | --- | --- |",
            *verdicts,
            "",
            "| model | measure | on test rows |",
            "| --- | --- | --- |",
            *measures,
        ]
    )


def _columns(schema: TableSchema) -> str:
    lines = [
        f"| {_text(c.name)} | {c.kind}"
        f"{f' of {len(c.categories)} values' if c.kind == 'category' else ''} |"
        for c in schema.columns
    ]
    out = [f"- {_code(name)}: {_text(why)}" for name, why in schema.dropped.items()]
    return "\n".join(
        [
            "## What it looks at",
            "",
            "| column | kind |",
            "| --- | --- |",
            *lines,
            *(["", "Left out:", "", *out] if out else []),
        ]
    )


def _text(value: str) -> str:
    """A value of the data as plain text in Markdown."""
    for mark in "\\`*_<>[]#|":
        value = value.replace(mark, f"\\{mark}")
    return " ".join(value.split())


def _code(value: str) -> str:
    """A value of the data as code in Markdown."""
    plain = " ".join(value.replace("`", "'").split())
    return f"`{plain}`"
