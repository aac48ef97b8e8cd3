"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fairboost import __version__
from fairboost.demo import ATTRIBUTE, TOLERANCE, TRAINING_SHARE, run_demo
from fairboost.exceptions import FairboostError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except FairboostError as error:
        print(f"fairboost: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fairboost: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairboost", description="Gradient boosted trees under fairness constraints."
    )
    parser.add_argument("--version", action="version", version=f"fairboost {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="plain LightGBM against fairboost on generated loan applications",
        description="Generate loan applications with known unfairness, train plain LightGBM and "
        "fairboost on 60%% of them and compare the two on the rest. Writes a table, a picture "
        "and the model.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--rows", type=int, default=100_000, help="applications to generate")
    demo.add_argument("--seed", type=int, default=0, help="seed of the generator")
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to")
    demo.add_argument("--force", action="store_true", help="write though the folder has files")
    demo.add_argument("--quiet", action="store_true", help="no progress bar")
    demo.set_defaults(run=_demo)
    study = commands.add_parser(
        "study",
        help="compare methods on your data by the paper's protocol",
        description="Run the study that a TOML file describes, or go on with it, and write tables "
        "and pictures. It may be killed and started again at any time; started several times, the "
        "processes share the work. See docs/study.md.",
    )
    study.add_argument("config", type=Path, help="the study, such as studies/acs_income.toml")
    study.add_argument("--out", type=Path, help="folder to write to (default: the study's name)")
    study.add_argument("--trials", type=int, help="stop after so many trials of this process")
    study.add_argument("--no-training", action="store_true", help="tables of what is there")
    study.add_argument("--retry-failed", action="store_true", help="run failed trials again")
    study.add_argument("--quiet", action="store_true", help="no progress bar")
    study.set_defaults(run=_study)
    return parser


def _demo(options: argparse.Namespace) -> int:
    trained = int(options.rows * TRAINING_SHARE)
    print(
        f"{options.rows:,} generated loan applications (seed {options.seed}): {trained:,} to "
        f"train on, {options.rows - trained:,} to test on.\nConstraint: equal opportunity (the "
        f"same FNR) by {ATTRIBUTE}, tolerance {TOLERANCE}. The models do not see {ATTRIBUTE}.\n",
        flush=True,
    )
    result = run_demo(
        options.rows, options.seed, options.out, force=options.force, progress=not options.quiet
    )
    print("\nOn test rows, with 95% intervals (FNR: creditworthy applicants refused):\n")
    print(result.table.to_string())
    print(f"\n{result.report}")
    if not any(path.suffix == ".png" for path in result.files):
        print('No picture: matplotlib is missing; pip install "fairboost[plots]".')
    print("\nWritten: " + ", ".join(str(path) for path in result.files))
    return 0


def _study(options: argparse.Namespace) -> int:
    try:
        from fairboost.study import run_study  # an extra: the other commands do without
    except ImportError as error:
        print(f"fairboost: {error}", file=sys.stderr)
        return 2
    run = run_study(
        options.config,
        options.out,
        train=not options.no_training,
        retry_failed=options.retry_failed,
        most=options.trials,
        progress=not options.quiet,
    )
    for title, why in run.left_out.items():
        print(f"Left out: {title}: {why}.")
    print(f"{run.ran} trials run, {run.missing} missing, {run.failed} failed.")
    if run.failed:
        print("What went wrong is in failures.csv; --retry-failed runs these trials again.")
    if run.missing:
        print("Run the same command again to go on.")
    print(f"Written: {', '.join(str(path) for path in run.files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
