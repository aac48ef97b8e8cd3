"""``fairboost report``: a report again, from the evidence that another command wrote."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import add_command, add_output_options, console_of
from fairboost.cli.exits import DONE
from fairboost.exceptions import ModelFileError

EXAMPLE = """\
  fairboost report model --title "Credit model, autumn" --format html --out autumn.html

Neither the data nor the model is needed: all figures are in model/evidence.json.
"""

FORMATS = {"html": ".html", "markdown": ".md"}


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        _run,
        usage="FOLDER --out FILE [options]",
        summary="draw a report again, under another title or in another format",
        description="Draw the report of a model, an audit or a comparison again, from the "
        "evidence that `train`, `audit` or `compare` left in its folder.",
        example=EXAMPLE,
    )
    parser.add_argument("folder", type=Path, help="the folder, or its evidence.json")
    parser.add_argument("--title", help="another title")
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="html", help="what to draw (default: html)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write to")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli.outputs import check_file, need_plots, new_file
    from fairboost.report import Evidence, to_html, to_markdown

    console = console_of(options)
    check_file(options.out, force=options.force)
    path = options.folder / "evidence.json" if options.folder.is_dir() else options.folder
    if not path.is_file():
        raise ModelFileError(
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
    console.result(f"Written: {options.out}")
    console.finish(out=options.out, title=evidence.title)
    return DONE
