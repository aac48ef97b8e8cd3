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
    "Train gradient boosted trees on a table (CSV, parquet, Arrow or xlsx) so that error rates, "
    "or means of the number that is predicted, are equal across groups, test them on rows left "
    "aside, and write the model, a file that LightGBM or XGBoost read by themselves, a model card "
    "and a report."
)
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_training_options(parser)
    add_decide_option(parser)
    add_folder_options(parser, required=True, help="folder to write to").add_argument(
        "--trade-off",
        action=argparse.BooleanOptionalAction,
        help="train alternatives from no constraint to zero tolerance too, and show in the report "
        f"what fairness costs (default: up to {SMALL:,} rows)",
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
        title=options.title or f"Fairness of a model of {rows.schema.label}",
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
