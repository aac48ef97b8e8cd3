"""``fairboost train``: from a table to a model, its stock export, a model card and a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import (
    add_command,
    add_output_options,
    add_training_options,
    console_of,
    favourable_of,
)
from fairboost.cli.exits import DONE, NOT_MET

EXAMPLE = """\
  fairboost train loans.csv --label approved --positive yes --sensitive sex \\
      --sensitive age_band --constraint equal_opportunity --tolerance 0.02 --out model

The model must refuse good applicants equally often, whatever their sex and age: the shares may
differ by 2 points. It is then in model/model.json, for LightGBM alone in model/model.txt, and
model/report.html says what was reached on rows that it was not trained on.
"""

SMALL = 100_000
"""Up to so many rows the alternatives are trained as well: it takes seconds."""

ALTERNATIVES = 20


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "train",
        _run,
        usage="DATA --label COLUMN --sensitive COLUMN --out FOLDER [options]",
        summary="train a fair model on a table, and report on it",
        description="Train gradient boosted trees on a table (CSV, parquet or Arrow) so that "
        "error rates are alike across groups, test them on rows left aside, and write the model, "
        "a file that LightGBM or XGBoost read by themselves, a model card and a report.",
        example=EXAMPLE,
    )
    add_training_options(parser)
    group = parser.add_argument_group("what is written")
    group.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="folder to write to"
    )
    group.add_argument("--force", action="store_true", help="replace the folder if it is there")
    group.add_argument("--title", help="title of the report")
    group.add_argument(
        "--trade-off",
        action=argparse.BooleanOptionalAction,
        help="train alternatives from no constraint to zero tolerance too, and show in the report "
        f"what fairness costs (default: up to {SMALL:,} rows)",
    )
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli import models
    from fairboost.cli.model_folder import gather_evidence, write_model
    from fairboost.cli.outputs import check_folder, new_folder
    from fairboost.cli.rows import read_training_rows
    from fairboost.cli.verdicts import show_verdicts, summary

    console = console_of(options)
    check_folder(options.out, force=options.force)
    model = models.build_model(options, console)
    rows = read_training_rows(options, console)
    console.remark(
        f"{len(rows.train):,} rows to train on, {len(rows.test):,} to test on, "
        f"{len(rows.schema.columns)} features."
    )
    model = models.fit(model, rows, console)
    wanted = len(rows.train) <= SMALL if options.trade_off is None else options.trade_off
    curve = models.trace_tradeoff(options, rows, console, ALTERNATIVES) if wanted else None
    evidence = gather_evidence(
        model,
        rows,
        curve=curve,
        title=options.title or f"Fairness of a model of {rows.schema.label}",
        favourable=favourable_of(options),
        seed=options.seed,
        export_file=models.STOCK_FILES[options.engine],
    )
    with new_folder(options.out, force=options.force) as folder:
        files = write_model(folder, model, rows.schema, evidence)
    show_verdicts(console, evidence)
    console.result(f"\nWritten to {options.out}: {', '.join(files)}")
    found = summary(evidence)
    console.finish(out=options.out, files=files, **found)
    return DONE if found["met"] is not False else NOT_MET
