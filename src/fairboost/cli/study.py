"""``fairboost study``: methods compared on your data by the paper's protocol."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import add_command, add_output_options, console_of
from fairboost.cli.exits import DONE

EXAMPLE = """\
  fairboost study studies/acs_income.toml --out acs_income
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "study",
        _run,
        usage="CONFIG [options]",
        summary="compare methods on your data by the paper's protocol",
        description="Run the study that a TOML file describes, or go on with it, and write tables "
        "and pictures. It may be killed and started again at any time; started several times, the "
        "processes share the work. See docs/study.md.",
        example=EXAMPLE,
    )
    parser.add_argument("config", type=Path, help="the study, such as studies/acs_income.toml")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the study's name)")
    parser.add_argument("--trials", type=int, help="stop after so many trials of this process")
    parser.add_argument("--no-training", action="store_true", help="tables of what is there")
    parser.add_argument("--retry-failed", action="store_true", help="run failed trials again")
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.study import run_study  # an extra: others do without

    console = console_of(options)
    run = run_study(
        options.config,
        options.out,
        train=not options.no_training,
        retry_failed=options.retry_failed,
        most=options.trials,
        progress=not options.quiet,
    )
    for title, why in run.left_out.items():
        console.result(f"Left out: {title}: {why}.")
    console.result(f"{run.ran} trials run, {run.missing} missing, {run.failed} failed.")
    if run.failed:
        console.result("What went wrong is in failures.csv; --retry-failed runs these again.")
    if run.missing:
        console.result("Run the same command again to go on.")
    console.result(f"Written: {', '.join(str(path) for path in run.files)}")
    console.finish(
        ran=run.ran,
        missing=run.missing,
        failed=run.failed,
        left_out=dict(run.left_out),
        files=run.files,
    )
    return DONE
