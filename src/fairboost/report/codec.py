"""Trees of dataclasses to JSON and back, checked on the way in."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairboost._records import Unfit, read_as
from fairboost.exceptions import EvidenceError

FORMAT = "fairboost-evidence"
FORMAT_VERSION = 1

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
        f"{value!r}; a figure that is not known is None"
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
        found: T = read_as(kind, document.get("evidence"), "evidence")
    except Unfit as unfit:
        raise EvidenceError(f"{source}: {unfit}. Restore the file or gather it again") from None
    return found
