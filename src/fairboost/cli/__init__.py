"""The command line: one module per command, and :mod:`fairboost.cli.dispatch`, which picks one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        from fairboost.cli.dispatch import run  # takes a while, in which Ctrl-C may be pressed
    except KeyboardInterrupt:
        from fairboost.cli.exits import INTERRUPTED

        print("fairboost: interrupted", file=sys.stderr)
        return INTERRUPTED
    return run(arguments)
