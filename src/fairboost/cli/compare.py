"""``fairboost compare``: what fairness costs, and which less discriminatory models there are."""

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
from fairboost.cli.exits import DONE

EXAMPLE = """\
  fairboost compare loans.csv --label approved --positive yes --sensitive sex \\
      --constraint equal_opportunity --tolerance 0.02 --models 10 --out comparison

The engine alone, ten models from no constraint to zero tolerance, and the one that `fairboost
train` would write, all on the same test rows: what each gets right, and how far groups are apart.
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "compare",
        _run,
        usage="DATA --label COLUMN --sensitive COLUMN [options]",
        summary="what fairness costs, and which fairer models there are",
        description="Train the engine alone, models from no constraint to zero tolerance, and the "
        "model that `fairboost train` would write, and compare them on test rows: the trade-off, "
        "and the less discriminatory alternatives. Options are those of `fairboost train`.",
        example=EXAMPLE,
    )
    add_training_options(parser)
    parser.add_argument(
        "--models", type=int, default=12, metavar="N", help="models on the curve (default: 12)"
    )
    group = parser.add_argument_group("what is written")
    group.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write a report there (default: only a table)"
    )
    group.add_argument("--force", action="store_true", help="replace the folder if it is there")
    group.add_argument("--title", help="title of the report")
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli import models
    from fairboost.cli.alternatives import compare_models, show_alternatives
    from fairboost.cli.model_folder import gather_evidence
    from fairboost.cli.outputs import check_folder, new_folder
    from fairboost.cli.rows import read_training_rows
    from fairboost.report import write_report

    console = console_of(options)
    if options.out is not None:
        check_folder(options.out, force=options.force)
    model, plain = models.build_model(options, console), models.build_engine(options)
    rows = read_training_rows(options, console)
    console.remark("Training the engine alone, the model, and the curve.")
    plain.fit(rows.train.X, rows.train.y, sample_weight=rows.train.weight)
    model = models.fit(model, rows, console)
    curve = models.trace_tradeoff(options, rows, console, options.models)
    evidence = gather_evidence(
        model,
        rows,
        curve=curve,
        plain=plain,
        title=options.title or f"Alternatives for a model of {rows.schema.label}",
        favourable=favourable_of(options),
        seed=options.seed,
    )
    table = compare_models(evidence)
    show_alternatives(console, table, evidence, options.tolerance)
    files: list[str] = []
    if options.out is not None:
        with new_folder(options.out, force=options.force) as folder:
            write_report(evidence, folder)
            table.to_csv(folder / "table.csv", index=False)
            files = sorted(path.name for path in folder.iterdir())
        console.result(f"\nWritten to {options.out}: {', '.join(files)}")
    console.finish(models=table, files=files, warnings=list(evidence.warnings))
    return DONE
