"""Which command to run.

A command is a module with ``add(commands)``, which adds its parser and sets its ``run``. What a
command needs is imported when it runs: help and completion should not wait for engines.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from fairboost import __version__
from fairboost.cli import audit, compare, completion, demo, predict, report, study, train
from fairboost.cli.arguments import HelpFormatter
from fairboost.cli.exits import EXIT_CODES, TERMINATED, run_guarded

COMMANDS = (train, predict, audit, compare, report, demo, study, completion)

EPILOG = """\
A first model, from a file to an audited model:

  fairboost train loans.csv --label approved --sensitive sex --out model
  fairboost predict model new.csv --out scores.csv

`fairboost COMMAND --help` has the options and an example. All commands end with:

{codes}
"""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    if arguments is None and threading.current_thread() is threading.main_thread():
        # As Ctrl-C, so that what is being written is taken away again.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    parser = build_parser()
    options = parser.parse_args(arguments)
    options.root = parser  # completion describes all of it
    return run_guarded(lambda: int(options.run(options)), debug=options.debug)


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    codes = "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items())
    parser = argparse.ArgumentParser(
        prog="fairboost",
        description="Gradient boosted trees under fairness constraints: train a model on a "
        "table, use it, and audit it or any other.",
        epilog=EPILOG.format(codes=codes),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fairboost {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add(commands)
    return parser
