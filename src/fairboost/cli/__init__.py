"""The command line: one module per command, and :mod:`fairboost.cli.dispatch`, which picks one."""

from __future__ import annotations

from collections.abc import Sequence

from fairboost.cli import signals

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Without arguments the process is the command's own."""
    if arguments is not None:
        from fairboost.cli.dispatch import run

        return run(arguments)
    signals.end_at_once()
    from fairboost.cli.dispatch import run  # takes a while

    try:
        return run()
    finally:
        signals.pass_over()
