"""The model card: what the model is for whoever is going to use it, on one page of Markdown."""

from __future__ import annotations

from fairboost._text import escape_markdown, markdown_table
from fairboost.cli.tables import figure
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
    model = evidence.model
    assert model is not None
    sees = "sees" if schema.aware else "does not see"
    asked = escape_markdown("; ".join(evidence.asked.constraints)) or "nothing"
    files = [
        f"- {escape_markdown(f.role)}: {_code(f.name)}, {f.rows or 0:,} rows, SHA-256 `{f.sha256}`"
        for f in evidence.data.files
    ]
    verdicts = [
        [f.constraint, f.where, f"{f.measure} {figure(f.value, f.low, f.high)}", f.status]
        for f in evidence.verdicts
    ]
    measures = [[p.model, p.measure, figure(p.value, p.low, p.high)] for p in evidence.performance]
    kinds = [
        [c.name, f"category of {len(c.categories)} values" if c.kind == "category" else c.kind]
        for c in schema.columns
    ]
    left_out = [f"- {_code(n)}: {escape_markdown(why)}" for n, why in schema.dropped.items()]
    parts = [
        f"# Model card: {escape_markdown(schema.label)}",
        "## What it is",
        f"- Predicts {_code(schema.label)}; positive is {_code(schema.classes[1])}.\n"
        f"- {model.trees} rounds of {model.engine} {model.engine_version}, trained by "
        f"fairboost {model.fairboost_version}.\n"
        f"- Asked for: {asked}.\n"
        + "\n".join([f"- It {sees} {', '.join(map(_code, schema.sensitive))}.", *files]),
        "## How to use it",
        "    fairboost predict . new.csv --out scores.csv",
        f"A decision is positive from a probability of {model.threshold!r} on. "
        f"`{model.export_file}` is a stock {model.engine} model that gives the same "
        "probabilities; a category is known to it by its place in `schema.json`, from 0 on.",
        "## What it reached",
        f"{100 * evidence.asked.level:g}% intervals; `report.html` has everything.",
        _table(["constraint", "rows", "found", "verdict"], verdicts),
        _table(["model", "measure", "on test rows"], measures),
        "## What it looks at",
        _table(["column", "kind"], kinds),
        *(["Left out:", "\n".join(left_out)] if left_out else []),
        "## Limits",
        "\n".join(f"- {escape_markdown(line)}" for line in evidence.limits),
    ]
    return "\n\n".join(parts) + "\n"


def _table(titles: list[str], lines: list[list[str]]) -> str:
    """A table of values of the data."""
    return markdown_table(titles, [list(map(escape_markdown, line)) for line in lines])


def _code(value: str) -> str:
    """A value of the data as code in Markdown."""
    plain = " ".join(value.replace("`", "'").split())
    return f"`{plain}`"
