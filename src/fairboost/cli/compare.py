"""``fairboost compare``: what fairness costs, and which less discriminatory models there are."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairboost.cli.arguments import add_folder_options, add_training_options
from fairboost.cli.console import Console
from fairboost.exceptions import InvalidInputError

USAGE = "DATA --label COLUMN --sensitive COLUMN [options]"
SUMMARY = "show what fairness costs, and find less discriminatory models"
DESCRIPTION = (
    "Train the engine alone, models from no constraint to zero tolerance, and the model that "
    "`fairboost train` would write. Compare them on test rows: the trade-off between performance "
    "and fairness, and the less discriminatory models. Options are those of `fairboost train`."
)
EXAMPLE = """\
  fairboost compare loans.csv --label approved --positive yes --sensitive sex \\
      --constraint equal_opportunity --tolerance 0.02 --models 10 --out comparison

The table shows the accuracy and the largest gap of the engine alone, of ten models from no
constraint to zero tolerance, and of the model that `fairboost train` would write, all on the same
test rows.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_training_options(parser)
    parser.add_argument(
        "--models",
        type=int,
        default=12,
        metavar="N",
        help="number of models on the curve (default: 12)",
    )
    add_folder_options(parser, help="folder for a report (default: print a table only)")


def run(options: argparse.Namespace, console: Console) -> None:
    """Train all models, and compare them."""
    from fairboost.cli import models
    from fairboost.cli.model_folder import gather_evidence
    from fairboost.cli.outputs import check_folder, fill_folder
    from fairboost.cli.rows import read_training_rows
    from fairboost.cli.tables import compare_models, show_alternatives
    from fairboost.cli.task import settle_task
    from fairboost.report import write_report

    read = (options.data, options.test, options.holdout, options.costs)
    check_folder(options.out, force=options.force, inputs=read)
    settle_task(options, console)
    models.check_has_tolerance(options, "fairboost compare")
    model = models.build_model(options, console)
    rows = read_training_rows(options, console)
    console.remark("Training the engine alone, the model, and the curve.")
    plain = models.fit_plain(options, rows)
    model = models.fit(options, model, rows, console)
    evidence = gather_evidence(
        options,
        model,
        rows,
        title=options.title or f"Alternatives for a model of {rows.schema.label}",
        curve=models.trace_tradeoff(options, rows, console, options.models),
        plain=plain,
    )
    if evidence.tradeoff is None:
        raise InvalidInputError(f"the models cannot be compared. {evidence.warnings[0]}")
    table = compare_models(evidence, relative=options.relative)
    show_alternatives(console, table, evidence, models.tolerance_of(options))

    def write(folder: Path) -> None:
        write_report(evidence, folder)
        table.to_csv(folder / "table.csv", index=False)

    files = fill_folder(options, write)
    console.written(options.out, files)
    console.finish(models=table, files=files, warnings=evidence.warnings)
