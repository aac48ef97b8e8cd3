"""``fairboost predict``: what a model says of a table, which may be larger than memory."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from pathlib import Path

from fairboost._text import printable
from fairboost.cli.arguments import COLUMN, REPEATABLE, add_reading_options, table_of
from fairboost.cli.console import Console
from fairboost.exceptions import InvalidInputError

USAGE = "MODEL DATA --out FILE [options]"
SUMMARY = "scores and decisions, classes or numbers for new rows"
DESCRIPTION = (
    "Score the rows of a table with a model that `fairboost train` wrote. The table is read and "
    "written in pieces, so it may be larger than memory."
)
EXAMPLE = """\
  fairboost predict model new.csv --keep id --keep approved --keep sex --out scores.csv

scores.csv has the three columns to keep, the probability of the positive label as score, and the
decision in the labels of training. For three classes or more it has the probability of each class
(score[A], score[B], ...) and the class that is given as decision. For a model of numbers it has
the prediction. No sensitive column is needed, unless the model was trained with --aware. Rows keep
their order.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("model", type=Path, help="the folder that `fairboost train` wrote")
    parser.add_argument("data", type=Path, help="the rows to score: CSV, parquet, Arrow or xlsx")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write; the ending of its name sets the format, such as scores.parquet or "
        "scores.csv.gz",
    )
    words = "a column to copy, such as an identifier; repeatable"
    parser.add_argument("--keep", **REPEATABLE, **COLUMN, help=words)
    parser.add_argument(
        "--exposure",
        **COLUMN,
        help="a column of exposures: adds the column expected, which is the prediction per unit "
        "times the exposure (regression with a log link)",
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    add_reading_options(parser)


def run(options: argparse.Namespace, console: Console) -> None:
    """Score the rows."""
    import pyarrow as pa

    from fairboost.cli.model_folder import load_model
    from fairboost.cli.outputs import check_file, new_file
    from fairboost.cli.predictions import predictions_of
    from fairboost.tabular.columns import decoded
    from fairboost.tabular.files import format_of, table_writer

    kept = list(dict.fromkeys(options.keep))
    model_files = [options.model / name for name in ("model.json", "schema.json")]
    check_file(options.out, force=options.force, inputs=[options.data, *model_files])
    form = format_of(options.out, written=True)
    model, schema = load_model(options.model)
    found = predictions_of(model, schema, options.exposure)
    if clash := [name for name in kept if name in found.names]:
        raise InvalidInputError(
            f"--keep {clash[0]} would be a second column of that name; rename it in the data"
        )
    exposed = dict.fromkeys(filter(None, [options.exposure]), pa.float64())
    file = table_of(options, options.data, schema.missing)
    file.require(list(schema.csv_types()), "which the model looks at")
    file.require(kept, "named by --keep")
    file.require(list(exposed), "named by --exposure")
    unseen: Counter[str] = Counter()
    writer = None
    with (
        new_file(options.out, force=options.force) as partial,
        contextlib.ExitStack() as stack,
        console.reading(file, "scoring") as advance,
    ):
        for batch in file.batches({**dict.fromkeys(kept), **exposed, **schema.csv_types()}):
            features = schema.features(batch)
            unseen.update(schema.unseen(features, batch))
            columns = {name: decoded(batch.column(name)) for name in kept}
            out = pa.RecordBatch.from_pydict({**columns, **found.columns(features, batch)})
            if writer is None:
                writer = stack.enter_context(table_writer(partial, form, out.schema))
            writer.write_batch(out)
            advance()
    console.result(f"{found.in_words()} Written: {printable(str(options.out))}")
    unseen = +unseen
    console.notes(
        f"{count:,} values of {name!r} did not occur in training; they count as missing"
        for name, count in unseen.items()
    )
    console.finish(out=options.out, rows=found.rows, **found.figures(), unseen=unseen)
