"""A TOML file whose errors name the line.

``tomllib`` forgets where a value stood. The lines are found again by reading the file for headers
and keys; what stands inside of an inline table is on the line of the key that holds it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from fairboost.exceptions import InvalidInputError

HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
T = TypeVar("T")


class TomlTable:
    """A table of the file, which knows the lines of its keys.

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
        self.values, self.path, self.file, self.lines = values, path, file, lines

    def error(self, key: str | None, message: str) -> InvalidInputError:
        """An error about a key of this table, or about the table."""
        where = self._dotted(key) if key else self.path
        while where and where not in self.lines:
            where = where.rpartition(".")[0]
        line = f", line {self.lines[where]}" if where else ""
        return InvalidInputError(f"{self.file}{line}: {message}")

    def take(self, key: str, *kinds: Any) -> Any:
        """A value that has to be there, of one of some types."""
        if key not in self.values:
            raise self.error(None, f"{self._dotted(key)} is missing; give it as {_words(kinds)}")
        value = self.values[key]
        right = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
        if not right or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, f"{key} must be {_words(kinds)}, found {value!r}")
        return value

    def table(self, key: str) -> TomlTable:
        """A table inside of this one; empty if it is absent."""
        values = self.take(key, dict) if key in self.values else {}
        return TomlTable(values, self._dotted(key), self.file, self.lines)

    def fill(
        self, make: Callable[..., T], readers: Mapping[str, Reader], required: Iterable[str] = ()
    ) -> T:
        """Make something of the keys that are there; for others it has its defaults.

        Parameters
        ----------
        make : callable
            Takes what was read by name.
        readers : mapping of str to Reader
            Every key that may be there.
        required : iterable of str
            Those that are read even if they are absent.
        """
        for key in self.values.keys() - readers.keys():
            place = f"[{self.path}]" if self.path else "the file"
            raise self.error(key, f"unknown key {key!r} in {place}{_did_you_mean(key, readers)}")
        there = {*self.values, *required}
        return make(**{key: read(self, key) for key, read in readers.items() if key in there})

    def _dotted(self, key: str) -> str:
        return f"{self.path}.{key}".strip(".")


Reader: TypeAlias = Callable[[TomlTable, str], Any]
"""Takes a value out of a table by its key, and checks it."""


def of_type(*kinds: type) -> Reader:
    """A reader of a value of one of some types."""
    return lambda table, key: table.take(key, *kinds)


def checked(
    kind: type,
    *conditions: tuple[Callable[[Any], bool], str],
    then: Callable[[Any], Any] = lambda value: value,
) -> Reader:
    """A reader of a value of a type for which some conditions hold.

    Parameters
    ----------
    kind : type
        Of the value.
    conditions : (callable, str)
        What has to hold, and the message, in which the key stands before and the value behind.
    then : callable
        What becomes of the value.
    """

    def read(table: TomlTable, key: str) -> Any:
        value = table.take(key, kind)
        for holds, message in conditions:
            if not holds(value):
                raise table.error(key, f"{key} {message} {value}")
        return then(value)

    return read


def whole(least: int = 1) -> Reader:
    """A reader of a whole number that is not too small."""
    return checked(int, (lambda n: n >= least, f"must be at least {least}, found"))


def one_of(*choices: str) -> Reader:
    """A reader of one of some words."""

    def read(table: TomlTable, key: str) -> str:
        value = table.take(key, str)
        if value not in choices:
            raise table.error(key, f"unknown {key} {value!r}{_did_you_mean(value, choices)}")
        return str(value)

    return read


def words(table: TomlTable, key: str) -> tuple[str, ...]:
    """Read a list of text, or one."""
    value = table.take(key, list, str)
    items = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(item, str) for item in items):
        raise table.error(key, f"{key} must be a list of text, found {value!r}")
    return items


def read_toml(path: Path) -> TomlTable:
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
    return TomlTable(values, "", str(path), key_lines(text))


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


def _words(kinds: Iterable[Any]) -> str:
    names = {
        str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table",
        bool: "true or false",
    }  # fmt: skip
    return " or ".join(names[kind] for kind in kinds if kind in names)


def _did_you_mean(word: str, words: Iterable[str]) -> str:
    words = sorted(words)
    close = difflib.get_close_matches(word, words, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} expected one of {', '.join(words)}"
