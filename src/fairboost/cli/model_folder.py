"""The folder of a model: what ``train`` writes and other commands read.

::

    model.json     the model, for fairboost
    model.txt      the same for LightGBM alone (stock.json for XGBoost); how to decide by it is
                   in model.txt.decide.json
    schema.json    columns and categories, so that new tables are read the same way; sealed
    evidence.json  all figures of the report
    report.html    the report; report.md has the same
    card.md        the model card
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fairboost
from fairboost._text import escape_markdown, markdown_table, printable
from fairboost.cli.models import FairModel
from fairboost.cli.rows import TrainingRows
from fairboost.cli.tables import finding, performance
from fairboost.cli.wording import evidence_in_commands
from fairboost.exceptions import MissingFileError
from fairboost.model.files import seal_of
from fairboost.report import Evidence, gather, write_report
from fairboost.report.gains import gains
from fairboost.report.plainly import first_paragraph
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.serving.served import Served
from fairboost.tabular.schema import TableSchema


def gather_evidence(
    options: argparse.Namespace,
    model: FairModel,
    rows: TrainingRows,
    *,
    title: str,
    curve: TradeoffCurve | None,
    plain: Any = None,
    export_file: str | None = None,
) -> Evidence:
    """What the report rests on, with columns and labels as they are in the file."""
    schema = rows.schema
    splits = {"training": len(rows.train)}
    if rows.holdout is not None:
        splits["held out"] = len(rows.holdout)
    evidence = gather(
        model,
        rows.test.X,
        rows.test.y,
        sensitive_features=rows.test.sensitive,
        **rows.test.measures(),
        plain=plain,
        curve=curve,
        title=title,
        label=schema.label,
        splits=splits,
        files=rows.files,
        left_out=schema.dropped,
        weight_name=schema.weight,
        exposure_name=schema.exposure,
        export_file=export_file,
        favourable=options.favourable or "positive",
        notes={"seed": str(options.seed)},
    )
    seen = tuple(replace(c, feature=schema.aware) for c in evidence.data.sensitive)
    evidence = replace(evidence, data=replace(evidence.data, sensitive=seen))
    if schema.classes is not None and not schema.several:
        negative, positive = schema.classes
        data = replace(evidence.data, positive=positive, negative=negative)
        scores = tuple(replace(s, label=schema.classes[int(s.positive)]) for s in evidence.scores)
        evidence = replace(evidence, data=data, scores=scores)
    return evidence_in_commands(evidence)


def write_model(folder: Path, model: FairModel, schema: TableSchema, evidence: Evidence) -> None:
    """Write everything into a folder that is new."""
    model.save(folder / "model.json")
    assert evidence.model is not None
    stock = folder / str(evidence.model.export_file)
    export_model(model, schema, stock, None)
    digest = hashlib.sha256(stock.read_bytes()).hexdigest()
    evidence = replace(evidence, model=replace(evidence.model, export_sha256=digest))
    schema.write(folder / "schema.json", seal_of(folder / "model.json"))
    write_report(evidence, folder)
    (folder / "card.md").write_text(_card(evidence, schema), "utf-8")


def export_model(model: FairModel, schema: TableSchema, path: Path, form: str | None) -> None:
    """Write a model for other programs, with columns and labels as they are in the table.

    Parameters
    ----------
    model : FairModel
        The model, which knows labels by numbers, and columns and categories perhaps too.
    schema : TableSchema
        That of its training.
    path : Path
        Where to.
    form : str or None
        The format; None for the engine's own.
    """

    def as_in_table(served: Served) -> Served:
        pairs = zip(served.features, schema.columns, strict=True)
        names = tuple(
            replace(
                feature,
                name=column.name,
                categories=None if feature.categories is None else tuple(column.categories),
            )
            for feature, column in pairs
        )
        decision = served.decision
        if decision is not None and schema.classes is not None:
            decision = replace(decision, classes=np.array(schema.classes, object))
        return replace(served, features=names, decision=decision)

    model._export(path, form, retold=as_in_table)


def load_model(folder: Path) -> tuple[FairModel, TableSchema]:
    """Read the model and its schema."""
    if not folder.is_dir():
        raise MissingFileError(
            f"there is no folder {str(folder)!r}; name the one that fairboost train wrote"
        )
    for name in ("model.json", "schema.json"):
        if not (folder / name).is_file():
            raise MissingFileError(
                f"the folder {str(folder)!r} has no {name}; name one that fairboost train wrote"
            )
    model = fairboost.load(folder / "model.json")
    return model, TableSchema.load(folder / "schema.json", seal_of(folder / "model.json"))


# The model card
# -----------------------------------------------------------------------


def _card(evidence: Evidence, schema: TableSchema) -> str:
    """What the model is for whoever is going to use it, on one page of Markdown."""
    model = evidence.model
    assert model is not None
    sees = "sees" if schema.aware else "does not see"
    asked = escape_markdown("; ".join(evidence.asked.constraints)) or "nothing"
    files = [
        f"- {escape_markdown(f.role)}: {_code(f.name)}, {f.rows or 0:,} rows, SHA-256 `{f.sha256}`"
        for f in evidence.data.files
    ]
    verdicts = [
        [f.constraint, f.where, f"{f.measure} {finding(f, evidence)}", f.status]
        for f in evidence.verdicts
    ]
    kinds = [
        [c.name, f"category of {len(c.categories)} values" if c.kind == "category" else c.kind]
        for c in schema.columns
    ]
    left_out = [f"- {_code(n)}: {escape_markdown(why)}" for n, why in schema.dropped.items()]
    level = f"{100 * evidence.asked.level:g}%"
    in_short = (evidence.caution, *gains(evidence), first_paragraph(evidence))
    parts = [
        f"# Model card: {escape_markdown(schema.label)}",
        "## What it is",
        f"- Predicts {_code(schema.label)}{_what(schema)}.\n"
        f"- {model.trees} rounds of {model.engine} {model.engine_version}, trained by "
        f"fairboost {model.fairboost_version}.\n"
        f"- Asked for: {asked}.\n"
        + "\n".join([f"- It {sees} {', '.join(map(_code, schema.sensitive))}.", *files]),
        "## How to use it",
        "    fairboost predict . new.csv --out scores.csv",
        f"{_use(evidence, schema)} it takes a category as its position in `schema.json`, counted "
        "from 0.",
        "## Results",
        *map(escape_markdown, filter(None, in_short)),
        "\n".join(f"- {escape_markdown(w)}" for w in evidence.warnings if w != evidence.caution),
        f"{level} intervals; `report.html` has everything.",
        _table(["constraint", "rows", "found", "verdict"], verdicts),
        _table(["model", "measure", "on test rows"], performance(evidence)),
        "## Features",
        _table(["column", "kind"], kinds),
        *(["Left out:", "\n".join(left_out)] if left_out else []),
        "## Limits",
        "\n".join(f"- {escape_markdown(line)}" for line in evidence.limits),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _what(schema: TableSchema) -> str:
    """What is predicted, after the name of the label."""
    if schema.several:
        return f", one of the classes {', '.join(map(_code, schema.classes or ()))}"
    if schema.classes is not None:
        return f"; positive is {_code(schema.classes[1])}"
    return ", a number" + (f", per unit of {_code(schema.exposure)}" if schema.exposure else "")


def _use(evidence: Evidence, schema: TableSchema) -> str:
    """How to read what the model says, and what the stock model says."""
    model = evidence.model
    assert model is not None
    decides, says = (
        f"A decision is positive if the probability is at least {model.threshold!r}. ",
        "probabilities",
    )
    if schema.several:
        name = (schema.classes or ())[0]
        decides = (
            "The class that is given is in the column `decision`: "
            f"{evidence.asked.operating_point}. The probability of {_code(name)} is in "
            f"{_code(f'score[{name}]')}, and so on. "
        )
    if schema.classes is None:
        decides, says = "The number is in the column `prediction`. ", "numbers"
    if schema.exposure:
        decides += (
            f"It is per unit of {_code(schema.exposure)}; `--exposure COLUMN` adds the column "
            "`expected`, that number times the exposure. "
        )
    return (
        f"{decides}`{model.export_file}` is a stock {model.engine} model that gives the same "
        f"{says};"
    )


def _table(titles: list[str], lines: list[list[str]]) -> str:
    """A table of values of the data."""
    return markdown_table(titles, [list(map(escape_markdown, line)) for line in lines])


def _code(value: str) -> str:
    """A value of the data as code in Markdown."""
    plain = printable(" ".join(value.replace("`", "'").split()))
    return f"`{plain}`"
