"""Records: options that travel together, and values of a document read as what they should be."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fairboost._numbers import is_finite

SCALARS = {
    float: "a number", int: "an integer", str: "text", bool: "true or false",
    types.NoneType: "null",
}  # fmt: skip
"""Kinds of single values, and what messages call them."""

Record = TypeVar("Record")


def with_fields(record: Record, given: Mapping[str, Any], function: str) -> Record:
    """The record with some fields changed; ``function`` is who was given them, for the message.

    Examples
    --------
    >>> from fairboost.report.evidence import About
    >>> with_fields(About(), {"title": "Loans"}, "gather").title
    'Loans'
    """
    known = [f.name for f in fields(record)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}; those of "
                f"{type(record).__name__} are {', '.join(known)}"
            )
    return replace(record, **given)  # type: ignore[type-var]


class Unfit(ValueError):
    """Something in a document that does not belong there."""


def read_as(kind: Any, value: Any, place: str) -> Any:
    """A value of a document as the type that an annotation asks for.

    Annotations say what is allowed: text, numbers, booleans, None, literals, tuples of one type,
    dicts with text as keys, and further dataclasses. Whatever else a document holds is refused
    with its place in the document, and nothing in it is ever run.

    Examples
    --------
    >>> read_as(tuple[float, ...], [1, 0.5], "shares")
    (1.0, 0.5)
    """
    origin, inside = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, value, place)
    if origin in (Union, types.UnionType):
        # The first kind that fits. What is not None is never told to be null.
        kinds = [k for k in inside if (k is types.NoneType) == (value is None)] or inside
        for one in kinds[:-1]:
            with suppress(Unfit):
                return read_as(one, value, place)
        return read_as(kinds[-1], value, place)
    if origin is Literal:
        if value not in inside:
            raise Unfit(f"{place} must be one of {', '.join(map(repr, inside))}, found {value!r}")
        return value
    if origin is tuple:
        _check(isinstance(value, list), "a list", value, place)
        return tuple(read_as(inside[0], item, f"{place}[{k}]") for k, item in enumerate(value))
    if origin is dict:
        _check(isinstance(value, dict), "an object", value, place)
        return {key: read_as(inside[1], item, f"{place}[{key!r}]") for key, item in value.items()}
    # An integer may stand for a float; true and false are no numbers.
    fits = is_finite(value) if kind is float else type(value) is kind
    _check(fits, SCALARS[kind], value, place)
    return float(value) if kind is float else value


def _read_dataclass(kind: Any, value: Any, place: str) -> Any:
    _check(isinstance(value, dict), "an object", value, place)
    hints, known = get_type_hints(kind), inspect.signature(kind).parameters
    if unknown := [name for name in value if name not in known]:
        raise Unfit(f"{place} has the unknown entries {', '.join(unknown)}")
    if absent := [n for n, p in known.items() if n not in value and p.default is p.empty]:
        raise Unfit(f"{place} lacks {', '.join(absent)}")
    return kind(**{name: read_as(hints[name], v, f"{place}.{name}") for name, v in value.items()})


def _check(fits: bool, expected: str, value: Any, place: str) -> None:
    if not fits:
        found = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."
        raise Unfit(f"{place} must be {expected}, found {found}")
