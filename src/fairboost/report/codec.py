"""Trees of dataclasses to JSON and back, checked on the way in.

Annotations say what is allowed: text, numbers, booleans, None, literals, tuples of one type, dicts
with text as keys, and further dataclasses. Whatever else a document holds is refused with its
place in the document, and nothing in it is ever run.
"""

from __future__ import annotations

import inspect
import json
import math
import types
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fairboost._numbers import is_finite
from fairboost.exceptions import EvidenceError

FORMAT = "fairboost-evidence"
FORMAT_VERSION = 1

SCALARS = {
    float: "a number", int: "an integer", str: "text", bool: "true or false",
    types.NoneType: "null",
}  # fmt: skip
"""Kinds of single values, and what messages call them."""

T = TypeVar("T")


def encode(value: Any) -> str:
    """The JSON document of a dataclass."""
    document = {"format": FORMAT, "format_version": FORMAT_VERSION, "evidence": _plain(value, "")}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any, place: str) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), f"{place}.{f.name}") for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        if not any(isinstance(item, float) and not math.isfinite(item) for item in value):
            return [_plain(item, f"{place}[{k}]") for k, item in enumerate(value)]
    elif value is None or isinstance(value, bool | int | str):
        return value
    elif isinstance(value, float) and math.isfinite(value):
        return float(value)  # a NumPy one, too
    raise EvidenceError(
        f"evidence{place} must be text, a finite number or a collection of these, found "
        f"{value!r}; a figure that cannot be had is None"
    )


def read_text(path: str | Path) -> str:
    """Text of a file, with an error that says what to do."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(
            f"{path} is not fairboost evidence: it is not text ({error})"
        ) from error


def decode(kind: type[T], text: str, source: str) -> T:
    """The dataclass of a JSON document.

    Parameters
    ----------
    kind : type
        The dataclass.
    text : str
        The document.
    source : str
        What to call it in messages.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise EvidenceError(
            f"{source} is not fairboost evidence, or was cut short: it does not parse as JSON "
            f"({error}). Gather it again"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise EvidenceError(
            f"{source} is not fairboost evidence: expected a JSON object with format {FORMAT!r}"
        )
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise EvidenceError(
            f"{source} has evidence format version {version!r}, this fairboost reads "
            f"{FORMAT_VERSION}; install the version of fairboost that wrote it"
        )
    try:
        found: T = _read(kind, document.get("evidence"), "evidence")
    except _Unfit as unfit:
        raise EvidenceError(f"{source}: {unfit}. Restore the file or gather it again") from None
    return found


class _Unfit(Exception):
    """Something in a document that does not belong there."""


def _read(kind: Any, value: Any, place: str) -> Any:
    """A value of a document as the type that an annotation asks for."""
    origin, inside = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, value, place)
    if origin in (Union, types.UnionType):
        # The first kind that fits. What is not None is never told to be null.
        kinds = [k for k in inside if (k is types.NoneType) == (value is None)] or inside
        for one in kinds[:-1]:
            with suppress(_Unfit):
                return _read(one, value, place)
        return _read(kinds[-1], value, place)
    if origin is Literal:
        if value not in inside:
            raise _Unfit(f"{place} must be one of {', '.join(map(repr, inside))}, found {value!r}")
        return value
    if origin is tuple:
        _check(isinstance(value, list), "a list", value, place)
        return tuple(_read(inside[0], item, f"{place}[{k}]") for k, item in enumerate(value))
    if origin is dict:
        _check(isinstance(value, dict), "an object", value, place)
        return {key: _read(inside[1], item, f"{place}[{key!r}]") for key, item in value.items()}
    # An integer may stand for a float; true and false are no numbers.
    fits = is_finite(value) if kind is float else type(value) is kind
    _check(fits, SCALARS[kind], value, place)
    return float(value) if kind is float else value


def _read_dataclass(kind: Any, value: Any, place: str) -> Any:
    _check(isinstance(value, dict), "an object", value, place)
    hints, known = get_type_hints(kind), inspect.signature(kind).parameters
    if unknown := [name for name in value if name not in known]:
        raise _Unfit(f"{place} has the unknown entries {', '.join(unknown)}")
    if absent := [n for n, p in known.items() if n not in value and p.default is p.empty]:
        raise _Unfit(f"{place} lacks {', '.join(absent)}")
    return kind(**{name: _read(hints[name], v, f"{place}.{name}") for name, v in value.items()})


def _check(fits: bool, expected: str, value: Any, place: str) -> None:
    if not fits:
        found = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."
        raise _Unfit(f"{place} must be {expected}, found {found}")
