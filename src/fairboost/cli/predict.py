"""``fairboost predict``: scores and decisions for a table, which may be larger than memory."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import (
    add_command,
    add_output_options,
    add_reading_options,
    console_of,
    read_options_of,
)
from fairboost.cli.exits import DONE
from fairboost.exceptions import InvalidInputError

EXAMPLE = """\
  fairboost predict model new.csv --keep id --keep approved --keep sex --out scores.csv

scores.csv has three columns of new.csv, the probability of the positive label as score, and the
decision in the labels of training. No sensitive column is needed, unless the model was trained
--aware. Rows keep their order.
"""

SCORE, DECISION = "score", "decision"


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "predict",
        _run,
        usage="MODEL DATA --out FILE [options]",
        summary="scores and decisions of a model for new rows",
        description="Score the rows of a table with a model that `fairboost train` wrote. The "
        "table is read and written in pieces, so it may be larger than memory.",
        example=EXAMPLE,
    )
    parser.add_argument("model", type=Path, help="the folder that `fairboost train` wrote")
    parser.add_argument("data", type=Path, help="the rows to score: CSV, parquet or Arrow")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write to; its name says the format, such as scores.parquet or scores.csv.gz",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column to copy, such as an identifier; repeatable",
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_reading_options(parser)
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli.model_folder import load_model
    from fairboost.cli.outputs import check_file, new_file
    from fairboost.tabular.files import TableFile
    from fairboost.tabular.formats import format_of

    console = console_of(options)
    options.keep = list(dict.fromkeys(options.keep))
    check_file(options.out, force=options.force)
    form = format_of(options.out)
    if clash := [name for name in options.keep if name in (SCORE, DECISION)]:
        raise InvalidInputError(
            f"--keep {clash[0]} would be a second column of that name; rename it in the data"
        )
    model, schema = load_model(options.model)
    reading = read_options_of(options)
    reading = replace(reading, missing=(*schema.missing, *reading.missing))
    file = TableFile(options.data, reading)
    file.require(list(schema.csv_types()), "which the model looks at")
    file.require(options.keep, "named by --keep")
    with new_file(options.out, force=options.force) as partial:
        rows, positive = _score(model, schema, file, options, partial, form, console)
    share = positive / rows
    console.result(
        f"{rows:,} rows, {positive:,} ({share:.1%}) decided {schema.classes[1]!r}. "
        f"Written: {options.out}"
    )
    console.finish(out=options.out, rows=rows, positive=positive, share=share)
    return DONE


def _score(
    model: Any, schema: Any, file: Any, options: argparse.Namespace, path: Path, form: Any,
    console: Any,
) -> tuple[int, int]:  # fmt: skip
    """Score batch by batch; returns rows and positive decisions."""
    import numpy as np
    import pyarrow as pa
    from scipy.special import expit

    from fairboost.tabular.columns import decoded
    from fairboost.tabular.writing import table_writer

    labels = pa.array(schema.classes)
    types = {**dict.fromkeys(options.keep, None), **schema.csv_types()}
    rows = positive = 0
    writer = None
    with contextlib.ExitStack() as stack, console.reading(file, "scoring") as advance:
        for batch in file.batches(types):
            scores = model._scores(schema.features(batch))  # once, for both columns
            decided = scores - model._score_threshold >= 0
            out = pa.RecordBatch.from_arrays(
                [
                    *(decoded(batch.column(name)) for name in options.keep),
                    pa.array(expit(scores)),
                    labels.take(pa.array(decided.astype(np.int8))),
                ],
                names=[*options.keep, SCORE, DECISION],
            )
            if writer is None:
                writer = stack.enter_context(table_writer(path, form, out.schema))
            writer.write_batch(out)
            rows, positive = rows + len(decided), positive + int(decided.sum())
            advance()
    return rows, positive
