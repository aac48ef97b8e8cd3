"""``fairboost train``: from a table to a model, its stock export, a model card and a report."""

from __future__ import annotations

import argparse

from fairboost.cli.arguments import (
    add_decide_option,
    add_folder_options,
    add_training_options,
)
from fairboost.cli.console import Console
from fairboost.cli.exits import DONE, NOT_MET

USAGE = "DATA --label COLUMN --sensitive COLUMN --out FOLDER [options]"
SUMMARY = "train a fair model on a table, and report on it"
DESCRIPTION = (
    "Train gradient boosted trees on a table (CSV, parquet, Arrow or xlsx) under a fairness "
    "constraint, such as equal error rates across groups. Test the model on rows that are set "
    "aside. Write the model, a stock LightGBM or XGBoost file, a model card and a report."
)
EXAMPLE = """\
  fairboost train loans.csv --label approved --positive yes --sensitive sex \\
      --sensitive age_band --constraint equal_opportunity --tolerance 0.02 --out model

The model must refuse good applicants of every sex and age equally often, within 2 percentage
points. The command writes model/model.json for fairboost, model/model.txt for stock LightGBM, and
model/report.html with the results on the test rows.
"""

SMALL = 100_000
"""Up to so many rows the alternatives are trained as well: it takes seconds."""

ALTERNATIVES = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_training_options(parser)
    add_decide_option(parser)
    add_folder_options(parser, required=True, help="folder to write to").add_argument(
        "--trade-off",
        action=argparse.BooleanOptionalAction,
        help="also train models from no constraint to zero tolerance, and show in the report what "
        f"fairness costs (default: up to {SMALL:,} rows)",
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Train, test and write."""
    from fairboost.cli import models
    from fairboost.cli.constraints import has_tolerance
    from fairboost.cli.model_folder import gather_evidence, write_model
    from fairboost.cli.outputs import check_folder, fill_folder
    from fairboost.cli.rows import read_training_rows
    from fairboost.cli.tables import failures, show_verdicts, summary
    from fairboost.cli.task import settle_task

    read = (options.data, options.test, options.holdout, options.costs)
    check_folder(options.out, force=options.force, inputs=read)
    settle_task(options, console)
    if options.trade_off:
        models.check_has_tolerance(options, "--trade-off")
    model = models.build_model(options, console)
    rows = read_training_rows(options, console)
    console.remark(
        f"{len(rows.train):,} rows to train on, {len(rows.test):,} to test on, "
        f"{len(rows.schema.columns)} features."
    )
    models.remark_on_unit(options, rows, console)
    model = models.fit(options, model, rows, console)
    small = len(rows.train) <= SMALL and has_tolerance(options)
    wanted = small if options.trade_off is None else options.trade_off
    evidence = gather_evidence(
        options,
        model,
        rows,
        title=options.title or f"Fairness report: predicting {rows.schema.label}",
        curve=models.trace_tradeoff(options, rows, console, ALTERNATIVES) if wanted else None,
        # One training more, so that the report can say what the constraint costs and changes.
        plain=None if wanted else models.fit_plain(options, rows),
        export_file=models.ENGINES[options.engine][-1],
    )
    files = fill_folder(options, lambda folder: write_model(folder, model, rows.schema, evidence))
    show_verdicts(console, evidence)
    console.written(options.out, files)
    console.finish(out=options.out, files=files, **summary(evidence))
    failed = failures(evidence, by_figure=options.decide == "estimate")
    for reason in failed:
        console.reason(NOT_MET, reason)
    return NOT_MET if failed else DONE
