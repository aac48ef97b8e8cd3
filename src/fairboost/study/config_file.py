"""A TOML file whose errors name the line.

``tomllib`` forgets where a value stood. The lines are found again by reading the file for headers
and keys; what stands inside of an inline table is on the line of the key that holds it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fairboost._text import did_you_mean
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint

HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
TOML_KINDS = {Any: object, OperatingPoint: dict, Path: str, tuple: list}
"""What a value of a type is in a file, unless it is the same there."""

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

    def choose(self, key: str, choices: Iterable[str]) -> str:
        """One of some words."""
        value, choices = self.take(key, str), list(choices)
        if value not in choices:
            raise self.error(key, f"unknown {key} {value!r}{_did_you_mean(value, choices)}")
        return str(value)

    def table(self, key: str) -> TomlTable:
        """A table inside of this one; empty if it is absent."""
        values = self.take(key, dict) if key in self.values else {}
        return TomlTable(values, self._dotted(key), self.file, self.lines)

    def fill(
        self, kind: type[T], keys: Iterable[str] = (), required: Iterable[str] = (), **names: str
    ) -> T:
        """A dataclass of the keys that are there, each of the type of its field.

        Parameters
        ----------
        kind : type
            The dataclass; what is absent has its default.
        keys : iterable of str
            Those that may be there; all fields if left out.
        required : iterable of str
            Those that must be.
        names : str
            Fields whose key is another, by that key.
        """
        types = get_type_hints(kind)
        fields = {names.get(key, key): key for key in keys} or dict(zip(types, types, strict=True))
        self.refuse_others(fields.values())
        there = {*self.values, *required}
        return kind(**{f: self._read(key, types[f]) for f, key in fields.items() if key in there})

    def refuse_others(self, keys: Collection[str]) -> None:
        """Raise if there is a key that is not among those known."""
        for key in self.values:
            if key not in keys:
                place = f"[{self.path}]" if self.path else "the file"
                raise self.error(key, f"unknown key {key!r} in {place}{_did_you_mean(key, keys)}")

    def check(self, key: str, holds: object, message: str) -> None:
        """Raise if something does not hold of a key."""
        if not holds:
            raise self.error(key, message)

    def check_least(self, **least: int) -> None:
        """Raise if a number that is there is too small."""
        for key, low in least.items():
            value = self.values.get(key, low)
            self.check(key, value >= low, f"{key} must be at least {low}, found {value}")

    def _read(self, key: str, kind: Any) -> Any:
        """A value of the type of a field, by what TOML has for it; lists become tuples."""
        union = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        kinds = [k for k in union if k is not NoneType]
        if get_origin(kinds[0]) is Literal:
            return self.choose(key, get_args(kinds[0]))
        if kind != tuple[str, ...]:
            found = self.take(key, *(TOML_KINDS.get(get_origin(k) or k, k) for k in kinds))
            return tuple(found) if isinstance(found, list) else found
        found = self.take(key, list, str)
        words = (found,) if isinstance(found, str) else tuple(found)
        right = all(isinstance(word, str) for word in words)
        self.check(key, right, f"{key} must be a list of text, found {found!r}")
        return words

    def _dotted(self, key: str) -> str:
        return f"{self.path}.{key}".strip(".")


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
    return f"{did_you_mean(word, words) or ';'} expected one of {', '.join(words)}"
