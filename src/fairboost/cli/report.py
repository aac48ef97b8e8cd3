"""``fairboost report``: a report again, from the evidence that another command wrote."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from fairboost._text import printable
from fairboost.cli.console import Console
from fairboost.exceptions import MissingFileError

USAGE = "FOLDER --out FILE [options]"
SUMMARY = "write a report again, with another title or in another format"
DESCRIPTION = (
    "Write the report of a model, an audit or a comparison again, from the evidence that `train`, "
    "`audit` or `compare` wrote to its folder."
)
EXAMPLE = """\
  fairboost report model --title "Credit model, autumn" --format html --out autumn.html

Neither the data nor the model is needed: all figures are in model/evidence.json.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("folder", type=Path, help="the folder, or its evidence.json")
    parser.add_argument("--title", help="another title")
    formats, words = ("html", "markdown"), "format of the report (default: html)"
    parser.add_argument("--format", choices=formats, default="html", help=words)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write to")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(options: argparse.Namespace, console: Console) -> None:
    """Draw the report."""
    from fairboost.cli.outputs import check_file, need_plots, new_file
    from fairboost.report import Evidence, to_html, to_markdown

    path = options.folder / "evidence.json" if options.folder.is_dir() else options.folder
    check_file(options.out, force=options.force, inputs=[path])
    if not path.is_file():
        raise MissingFileError(
            f"there is no {str(path)!r}; name a folder that fairboost train, audit or compare "
            "wrote"
        )
    evidence = Evidence.load(path)
    if options.title is not None:
        evidence = replace(evidence, title=options.title)
    if options.format == "html":
        need_plots()
    text = (to_html if options.format == "html" else to_markdown)(evidence)
    with new_file(options.out, force=options.force) as partial:
        partial.write_text(text, "utf-8")
    console.result(f"Written: {printable(str(options.out))}")
    console.finish(out=options.out, title=evidence.title)
