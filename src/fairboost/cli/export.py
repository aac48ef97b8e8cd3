"""``fairboost export``: a trained model in a format of others."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairboost._text import printable
from fairboost.cli.console import Console
from fairboost.exceptions import InvalidInputError

USAGE = "MODEL --format FORMAT --out FILE [options]"
SUMMARY = "a trained model for ONNX Runtime, treelite or a C compiler"
DESCRIPTION = (
    "Convert a model that `fairboost train` wrote to a format of other programs. The command "
    "reads the new file back and compares it with the model on random rows before it keeps the "
    "file. The decision rule is written beside it, as FILE.decide.json."
)
EXAMPLE = """\
  fairboost export model --format onnx --out loans.onnx

loans.onnx takes the columns of the table by their names, and returns the probability of each label
and the decision in the labels of the table. The decision threshold is inside the file.
"""
FORMATS = ("lightgbm", "xgboost", "onnx", "onnx_float32", "treelite", "c")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("model", type=Path, help="the folder that `fairboost train` wrote")
    parser.add_argument(
        "--format",
        required=True,
        choices=FORMATS,
        help="lightgbm or xgboost: the engine's own format; onnx_float32: ONNX with one matrix as "
        "input; c: a folder of C source",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="file or folder to write to"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(options: argparse.Namespace, console: Console) -> None:
    """Write the file."""
    from fairboost.cli.model_folder import export_model, load_model
    from fairboost.cli.outputs import check_file
    from fairboost.serving.decide_file import NAME, beside
    from fairboost.serving.export import FORMATS as KNOWN

    folder = KNOWN[options.format].folder
    inputs = [options.model / name for name in ("model.json", "schema.json")]
    if folder and options.out.exists():
        raise InvalidInputError(
            f"there is a {str(options.out)!r} already; name another with --out"
        )
    decide = options.out / NAME if folder else beside(options.out)
    for path in () if folder else (options.out, decide):
        check_file(path, force=options.force, inputs=inputs)
    model, schema = load_model(options.model)
    export_model(model, schema, options.out, options.format)
    written = [printable(str(path)) for path in (options.out, decide)]
    console.result(f"Written: {' and '.join(written)}")
    console.finish(out=options.out, decide=decide, format=options.format)
