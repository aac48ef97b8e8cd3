"""Options that travel together, given as one record or by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

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
