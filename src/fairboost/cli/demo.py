"""``fairboost demo``: plain LightGBM against fairboost on generated loan applications."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from fairboost.cli.arguments import add_seed
from fairboost.cli.console import Console
from fairboost.cli.wording import in_commands

USAGE = "[options]"
SUMMARY = "plain LightGBM against fairboost on generated loan applications"
DESCRIPTION = (
    "Generate loan applications with known unfairness, train plain LightGBM and fairboost on 60% "
    "of them, and compare the two models on the rest. Write a table, a picture and the model."
)
EXAMPLE = """\
  fairboost demo --rows 20000 --out demo
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--rows", type=int, default=100_000, help="applications to generate (default: 100000)"
    )
    add_seed(parser, "random seed (default: 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder to write to (default: demo)"
    )
    parser.add_argument("--force", action="store_true", help="write even if the folder has files")


def run(options: argparse.Namespace, console: Console) -> None:
    """Run the demonstration, and show what it found."""
    from fairboost.cli.demonstration import ATTRIBUTE, TOLERANCE, TRAINING_SHARE, run_demo

    trained = int(options.rows * TRAINING_SHARE)
    console.result(
        f"{options.rows:,} generated loan applications (seed {options.seed}): {trained:,} to "
        f"train on, {options.rows - trained:,} to test on.\nConstraint: equal opportunity (the "
        f"same FNR) by {ATTRIBUTE}, tolerance {TOLERANCE}. The models do not see {ATTRIBUTE}.\n"
    )
    with console.collecting_warnings():
        table, report, files = run_demo(options, progress=console.bars)
    report = replace(report, advice=tuple(map(in_commands, report.advice)))
    console.result("\nOn test rows, with 95% intervals (FNR: creditworthy applicants refused):\n")
    console.result(table.to_string())
    console.result(f"\n{report}")
    if any("--" in line for line in report.advice):
        console.result("\nThe options named are those of `fairboost train`.")
    if not any(path.suffix == ".png" for path in files):
        console.remark('No picture: matplotlib is missing; pip install "fairboost[plots]".')
    console.result("\nWritten: " + ", ".join(map(str, files)))
    console.finish(figures=table.to_dict(), report=report.to_dict(), files=files)
