"""``fairboost demo``: plain LightGBM against fairboost on generated loan applications."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairboost.cli.arguments import add_command, add_output_options, console_of
from fairboost.cli.exits import DONE

EXAMPLE = """\
  fairboost demo --rows 20000 --out demo
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        _run,
        usage="[options]",
        summary="plain LightGBM against fairboost on generated loan applications",
        description="Generate loan applications with known unfairness, train plain LightGBM and "
        "fairboost on 60%% of them and compare the two on the rest. Writes a table, a picture "
        "and the model.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "--rows", type=int, default=100_000, help="applications to generate (default: 100000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator (default: 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder to write to (default: demo)"
    )
    parser.add_argument("--force", action="store_true", help="write though the folder has files")
    add_output_options(parser)


def _run(options: argparse.Namespace) -> int:
    from fairboost.cli.demonstration import ATTRIBUTE, TOLERANCE, TRAINING_SHARE, run_demo

    console = console_of(options)
    trained = int(options.rows * TRAINING_SHARE)
    console.result(
        f"{options.rows:,} generated loan applications (seed {options.seed}): {trained:,} to "
        f"train on, {options.rows - trained:,} to test on.\nConstraint: equal opportunity (the "
        f"same FNR) by {ATTRIBUTE}, tolerance {TOLERANCE}. The models do not see {ATTRIBUTE}.\n"
    )
    with console.collecting_warnings():
        result = run_demo(
            options.rows,
            options.seed,
            options.out,
            force=options.force,
            progress=not options.quiet,
        )
    console.result("\nOn test rows, with 95% intervals (FNR: creditworthy applicants refused):\n")
    console.result(result.table.to_string())
    console.result(f"\n{result.report}")
    if not any(path.suffix == ".png" for path in result.files):
        console.remark('No picture: matplotlib is missing; pip install "fairboost[plots]".')
    console.result("\nWritten: " + ", ".join(str(path) for path in result.files))
    console.finish(
        figures=result.table.to_dict(), report=result.report.to_dict(), files=result.files
    )
    return DONE
