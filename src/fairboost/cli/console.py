"""What a command says: results on standard output, everything else on standard error.

With ``--json`` the results are one JSON object, so that standard output can be read by a program.
Nothing is said twice: warnings of the library are collected, and shown once.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from fairboost._text import printable
from fairboost.cli.wording import in_commands
from fairboost.exceptions import NotMetWarning

if TYPE_CHECKING:
    from pathlib import Path

    from fairboost.tabular.files import TableFile

WIDTH = 99


@dataclass
class Console:
    """Where words go.

    Parameters
    ----------
    as_json : bool
        Whether results are one JSON object.
    quiet : bool
        Whether progress and remarks are left out; errors, and what fails, are not.
    """

    as_json: bool = False
    quiet: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def bars(self) -> bool:
        """Whether there are progress bars: on a terminal only, since a log keeps all of a bar."""
        return not self.quiet and sys.stderr.isatty()

    def result(self, text: str) -> None:
        """Show a result to people."""
        if not self.as_json:
            print(printable(text, keep="\n"), flush=True)

    def written(self, folder: Path, files: list[str]) -> None:
        """Say what was written to a folder, if anything was."""
        if files:
            self.result(f"\nWritten to {printable(str(folder))}: {', '.join(files)}")

    def finish(self, **results: Any) -> None:
        """Show the results to a program."""
        if self.as_json:
            # In ASCII: a terminal obeys some of the other characters, or cannot show them.
            print(json.dumps(for_json(results), indent=1, allow_nan=False))

    def remark(self, text: str) -> None:
        """Tell something worth knowing, once."""
        if text in self.said:
            return
        self.said.append(text)
        if not self.quiet:
            text = printable(text)
            fill = textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
            print(fill, file=sys.stderr, flush=True)

    def reason(self, code: int, text: str) -> None:
        """Say, in one line and even if quiet, why a command that was done ends with a code."""
        print(f"Exit code {code}: {printable(text)}", file=sys.stderr, flush=True)

    def notes(self, texts: Iterable[str]) -> None:
        """Tell what to bear in mind."""
        for text in texts:
            self.remark(f"Note: {in_commands(text)}")

    @contextlib.contextmanager
    def collecting_warnings(self) -> Iterator[None]:
        """Show warnings of the library as remarks; what a report says anyway is left to it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                for warning in caught:
                    if _is_news(str(warning.message), warning.category):
                        self.notes([str(warning.message)])

    @contextlib.contextmanager
    def reading(self, file: TableFile, what: str) -> Iterator[Callable[[], None]]:
        """A progress bar along a file; call what it yields after each batch."""
        with tqdm(
            total=file.size,
            unit="B",
            unit_scale=True,
            desc=what,
            disable=not self.bars,
            leave=False,
        ) as bar:

            def advance() -> None:
                bar.update(file.bytes_read - bar.n)  # back to the start in a second pass

            yield advance


def _is_news(text: str, category: type[Warning]) -> bool:
    """Whether a warning is for users, and no report says the same."""
    from fairboost.verdicts.diagnostics import SAYS_MORE  # not before something was trained

    reported = issubclass(category, NotMetWarning) or text.endswith(SAYS_MORE)
    return issubclass(category, UserWarning) and not reported


def for_json(value: Any) -> Any:
    """A value as JSON can have it: NaN is null, tables are lists of objects."""
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    elif isinstance(value, np.generic):
        value = value.item()
    elif is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)
