"""Which command to run, and how help pages look.

A command is a module, see :class:`Command`. What it needs is imported when it runs: help and
completion should not wait for engines.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from fairboost import __version__
from fairboost._text import did_you_mean, printable
from fairboost.cli import (
    audit,
    compare,
    completion,
    demo,
    export,
    monitor,
    predict,
    report,
    signals,
    study,
    train,
)
from fairboost.cli.arguments import add_output_options
from fairboost.cli.console import WIDTH, Console
from fairboost.cli.exits import DONE, EXIT_CODES, run_guarded


class Command(Protocol):
    """What the module of a command offers."""

    USAGE: str
    """What the command cannot do without."""
    SUMMARY: str
    DESCRIPTION: str
    EXAMPLE: str

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Say which options there are; those on what is shown come by themselves."""

    def run(self, options: argparse.Namespace, console: Console) -> int | None:
        """Do the work; returns the exit code if it is another than that of what is done."""


MODULES = (
    train, predict, export, audit, monitor, compare, report, demo, study, completion,
)  # fmt: skip
COMMANDS: dict[str, Command] = {m.__name__.rpartition(".")[2]: m for m in MODULES}
"""By the names of the modules."""

EPILOG = """\
A first model, from a file to an audited model:

  fairboost train loans.csv --label approved --sensitive sex --out model
  fairboost predict model new.csv --out scores.csv

`fairboost COMMAND --help` has the options and an example. All commands end with:

{codes}
"""


class Parser(argparse.ArgumentParser):
    """A parser that hints at the nearest name, and does not show what a terminal would obey."""

    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and keep the words for the hint at the end of a message."""
        self.given = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End with a message on standard error."""
        known = self._option_string_actions
        written = [word.partition("=")[0] for word in self.given if word.startswith("--")]
        hints = [f"; found {w}{did_you_mean(w, known)}" for w in written if w not in known]
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            hints.append(did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2])))
        hint = next((h for h in hints if "did you mean" in h), "")
        super().error(printable(message + hint))


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Examples keep their lines; options are as wide as they need."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=WIDTH)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    parser = build_parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # its page knows the options
        options.page.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.root = parser  # completion describes all of it
    console = Console(as_json=options.json, quiet=options.quiet)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a letter that it does not have is spelled out
        sys.stdout.reconfigure(errors="backslashreplace")

    def work() -> int:
        if arguments is None:
            signals.raise_them()
        with console.collecting_warnings():
            return options.command.run(options, console) or DONE

    return run_guarded(work, debug=options.debug)


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    codes = "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items())
    parser = Parser(
        prog="fairboost",
        description="Gradient boosted trees under fairness constraints: train a model on a "
        "table, use it, and audit it or any other.",
        epilog=EPILOG.format(codes=codes),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fairboost {__version__}")
    parsers = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        page = parsers.add_parser(
            name,
            usage=f"fairboost {name} {command.USAGE}",
            help=command.SUMMARY,
            description=textwrap.fill(command.DESCRIPTION, WIDTH),
            epilog=f"example:\n\n{command.EXAMPLE.rstrip()}\n",
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        # What is wrong with options may show only in the table; the page says it then.
        page.set_defaults(command=command, page=page, json=False, quiet=False, debug=False)
        command.add_options(page)
        if command is not completion:  # all that it shows is a script
            add_output_options(page)
    return parser
