"""Values in the types of JSON and back, for files: those that JSON has no type for are named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairboost.exceptions import ModelFileError

NAMED = {"array", "dtype", "tuple", "items", "float"}
"""Keys by which values are known that JSON has no type for."""
MOST_LABEL = 2**16
"""Bytes of a label."""


def encode(value: Any) -> Any:
    """A value in the types of JSON, in which those that JSON lacks are named."""
    if isinstance(value, np.ndarray):
        return {"array": encode(value.tolist()), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not NAMED & set(value):
            return {key: encode(item) for key, item in value.items()}
        return {"items": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if not is_plain(value):
        raise TypeError
    return value


def decode(value: Any) -> Any:
    """Undo :func:`encode`."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"array", "dtype"}:
        return np.array(decode(value["array"])).astype(plain_type(value["dtype"]))
    if set(value) == {"tuple"}:
        return tuple(map(decode, value["tuple"]))
    if set(value) == {"items"}:
        return {decode(key): decode(item) for key, item in value["items"]}
    if set(value) == {"float"}:
        return float(value["float"])
    return {key: decode(item) for key, item in value.items()}


def is_plain(value: Any) -> bool:
    """Whether JSON has a type for a value, and for all that is in it."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def plain_type(name: Any) -> Any:
    """A NumPy type of plain values, none of them large."""
    dtype = np.dtype(text_of(name))
    if dtype.kind not in "biufUOMm" or dtype.itemsize > MOST_LABEL:
        raise ModelFileError(f"values of type {name!r:.80} cannot be read")
    return dtype


def whole(value: Any, name: str, least: int) -> int:
    """A whole number of a file, checked."""
    if type(value) is not int or value < least:
        raise ModelFileError(f"{name} is {value!r:.80}")
    return value


def text_of(value: Any) -> str:
    """A text of a file, checked."""
    if not isinstance(value, str):
        raise ModelFileError(f"expected a text, found {value!r:.80}")
    return value
