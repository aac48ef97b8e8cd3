"""The folder of a model: what ``train`` writes and other commands read.

::

    model.json     the model, for fairboost
    model.txt      the same for LightGBM alone (stock.json for XGBoost)
    schema.json    what the columns are, so that new tables are read alike
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

import fairboost
from fairboost.cli.model_card import model_card
from fairboost.cli.rows import TrainingRows
from fairboost.exceptions import ModelFileError
from fairboost.model.estimator import FairGBMClassifier
from fairboost.report import Evidence, gather, write_report
from fairboost.selection.tradeoff import TradeoffCurve
from fairboost.tabular.schema import TableSchema


def gather_evidence(
    options: argparse.Namespace,
    model: FairGBMClassifier,
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
        sample_weight=rows.test.weight,
        plain=plain,
        curve=curve,
        title=title,
        label=schema.label,
        splits=splits,
        files=rows.files,
        left_out=schema.dropped,
        weight_name=schema.weight,
        export_file=export_file,
        favourable=options.favourable,
        notes={"seed": str(options.seed)},
    )
    data = replace(
        evidence.data,
        positive=schema.classes[1],
        sensitive=tuple(replace(c, feature=schema.aware) for c in evidence.data.sensitive),
    )
    scores = tuple(replace(s, label=schema.classes[int(s.positive)]) for s in evidence.scores)
    return replace(evidence, data=data, scores=scores)


def write_model(
    folder: Path, model: FairGBMClassifier, schema: TableSchema, evidence: Evidence
) -> None:
    """Write everything into a folder that is new."""
    model.save(folder / "model.json")
    assert evidence.model is not None
    stock = folder / str(evidence.model.export_file)
    model.export(stock)
    digest = hashlib.sha256(stock.read_bytes()).hexdigest()
    evidence = replace(evidence, model=replace(evidence.model, export_sha256=digest))
    schema.write(folder / "schema.json")
    write_report(evidence, folder)
    (folder / "card.md").write_text(model_card(evidence, schema), "utf-8")


def load_model(folder: Path) -> tuple[FairGBMClassifier, TableSchema]:
    """Read the model and its schema."""
    if not folder.is_dir():
        raise ModelFileError(
            f"there is no folder {str(folder)!r}; name the one that fairboost train wrote"
        )
    for name in ("model.json", "schema.json"):
        if not (folder / name).is_file():
            raise ModelFileError(
                f"the folder {str(folder)!r} has no {name}; name one that fairboost train wrote"
            )
    return fairboost.load(folder / "model.json"), TableSchema.load(folder / "schema.json")
