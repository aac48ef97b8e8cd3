"""A TOML file whose errors name the line.

``tomllib`` forgets where a value stood. The lines are found again by reading the file for headers
and keys; what stands inside of an inline table is on the line of the key that holds it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairboost.exceptions import InvalidInputError

HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
REQUIRED: Any = object()


class Section:
    """A table of the file: values are taken out by key, and what is left over is an error.

    Parameters
    ----------
    values : dict
        The table.
    path : str
        Its dotted name; empty for the whole file.
    file : str
        Name of the file, for messages.
    lines : dict of str to int
        Line of every dotted key.
    """

    def __init__(self, values: dict[str, Any], path: str, file: str, lines: dict[str, int]):
        self.values, self.path, self.file, self.lines = dict(values), path, file, lines
        self.known: list[str] = []

    def error(self, key: str | None, message: str) -> InvalidInputError:
        """An error about a key of this table, or about the table."""
        path = f"{self.path}.{key}".strip(".") if key else self.path
        where = path
        while where and where not in self.lines:
            where = where.rpartition(".")[0]
        line = f", line {self.lines[where]}" if where else ""
        return InvalidInputError(f"{self.file}{line}: {message}")

    def take(self, key: str, kind: Any, default: Any = REQUIRED) -> Any:
        """A value of a type, or of one of several."""
        self.known.append(key)
        if key not in self.values:
            if default is REQUIRED:
                name = f"{self.path}.{key}".strip(".")
                raise self.error(None, f"{name} is missing; give it as {_words(kind)}")
            return default
        value = self.values.pop(key)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        right = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
        if not right or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, f"{key} must be {_words(kind)}, found {value!r}")
        return value

    def choose(self, key: str, choices: Iterable[str], default: Any = REQUIRED) -> str:
        """One of some words."""
        value, words = self.take(key, str, default), list(choices)
        if value not in words:
            raise self.error(key, f"unknown {key} {value!r}{_did_you_mean(value, words)}")
        return str(value)

    def count(self, key: str, default: Any = REQUIRED, least: int = 1) -> int:
        """A whole number that is not too small."""
        value = self.take(key, int, default)
        if value is not None and value < least:
            raise self.error(key, f"{key} must be at least {least}, found {value}")
        return value  # type: ignore[no-any-return]

    def words(self, key: str, default: Any = REQUIRED) -> tuple[str, ...]:
        """A list of text, or one."""
        value = self.take(key, (list, str, tuple), default)
        items = (value,) if isinstance(value, str) else tuple(value)
        if not all(isinstance(item, str) for item in items):
            raise self.error(key, f"{key} must be a list of text, found {value!r}")
        return items

    def section(self, key: str) -> Section:
        """A table inside of this one; empty if it is absent."""
        values = self.take(key, dict, {})
        return Section(values, f"{self.path}.{key}".strip("."), self.file, self.lines)

    def finish(self) -> None:
        """Nothing may be left over."""
        for key in self.values:
            place = f"[{self.path}]" if self.path else "the file"
            hint = _did_you_mean(key, self.known)
            raise self.error(key, f"unknown key {key!r} in {place}{hint}")


def read_toml(path: Path) -> Section:
    """Read a file; what is not TOML raises with the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"cannot read the configuration {str(path)!r} ({error}); name a TOML file, such as "
            "one of those in studies/"
        ) from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # it names line and column
        raise InvalidInputError(f"{path} is not TOML: {error}; mend that line") from error
    return Section(values, "", str(path), key_lines(text))


def key_lines(text: str) -> dict[str, int]:
    r"""Line of every table and key, by dotted name.

    Examples
    --------
    >>> key_lines("name = 'a'\n[data]\nrows = 5\n")
    {'name': 1, 'data': 2, 'data.rows': 3}
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            table = _bare(header[1])
            lines.setdefault(table, number)
        elif key := KEY.match(line):
            lines.setdefault(f"{table}.{_bare(key[1])}".strip("."), number)
    return lines


def _bare(name: str) -> str:
    return ".".join(part.strip(" \"'") for part in name.split("."))


def _words(kind: Any) -> str:
    names = {
        str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table",
        bool: "true or false",
    }  # fmt: skip
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(dict.fromkeys(names[k] for k in kinds if k in names))


def _did_you_mean(word: str, words: Iterable[str]) -> str:
    words = list(words)
    close = difflib.get_close_matches(word, words, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} expected one of {', '.join(sorted(words))}"
