"""The command line: one module per command, and :mod:`fairboost.cli.dispatch`, which picks one."""

from fairboost.cli.dispatch import main

__all__ = ["main"]
