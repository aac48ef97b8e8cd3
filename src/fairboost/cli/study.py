"""``fairboost study``: methods compared on your data by the paper's protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairboost.cli.console import Console

USAGE = "CONFIG [options]"
SUMMARY = "compare methods on your data by the paper's protocol"
DESCRIPTION = (
    "Run or resume the study that a TOML file describes, and write tables and pictures. A study "
    "can be interrupted and resumed at any time. If the command runs several times at once, the "
    "processes share the work. See docs/study.md."
)
EXAMPLE = """\
  fairboost study studies/acs_income.toml --out acs_income
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("config", type=Path, help="the study, such as studies/acs_income.toml")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the study's name)")
    parser.add_argument("--trials", type=int, help="stop this process after this many trials")
    parser.add_argument(
        "--no-training", action="store_true", help="write tables from stored trials only"
    )
    parser.add_argument("--retry-failed", action="store_true", help="run failed trials again")


def run(options: argparse.Namespace, console: Console) -> None:
    """Run the study, or go on with it."""
    from fairboost.study import run_study  # an extra: others do without

    done = run_study(
        options.config,
        options.out,
        train=not options.no_training,
        retry_failed=options.retry_failed,
        most=options.trials,
        progress=console.bars,
    )
    for title, why in done.left_out.items():
        console.result(f"Left out: {title}: {why}.")
    console.result(f"{done.ran} trials run, {done.missing} missing, {done.failed} failed.")
    if done.failed:
        console.result("What went wrong is in failures.csv; --retry-failed runs these again.")
    if done.missing:
        console.result("Run the same command again to go on.")
    console.result(f"Written: {', '.join(map(str, done.files))}")
    shown = ("ran", "missing", "failed", "left_out", "files")
    console.finish(**{name: getattr(done, name) for name in shown})
