"""Warnings that point at the user's own line, and that a cross-validation does not repeat."""

from __future__ import annotations

import re
import sys
import warnings
from types import FrameType

SKIPPED = ("fairboost", "sklearn", "joblib", "contextlib", "functools")
"""What may lie between the line of the user and a warning."""

_said: set[tuple[type[Warning], str, str, int]] = set()


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user that led here.

    The fits of a grid search or cross-validation are many, and most of their models are thrown
    away. What they have to say is said once for each line of the user, whatever the figures in
    it. Python's own memory of what was said does not serve: it compares figures too, and every
    ``catch_warnings`` on the way clears it. Filters "always" and "error" are heeded all the same.

    Parameters
    ----------
    text : str
        The message.
    category : type of Warning
        Its category.
    """
    level, frame, repeated = 2, sys._getframe(1), False
    while frame.f_back is not None and _package(frame) in SKIPPED:
        repeated = repeated or frame.f_code.co_name == "_fit_and_score"
        level, frame = level + 1, frame.f_back
    if repeated:
        module, line = frame.f_globals.get("__name__", ""), frame.f_lineno
        key = category, re.sub(r"[\d.,%-]+", "#", text), frame.f_code.co_filename, line
        once = _action(text, category, module, line) in ("default", "module", "once")
        if once and key in _said:
            return
        _said.add(key)
        text = f"{text} (Of a cross-validation: other fits of it may say the same, unheard.)"
    warnings.warn(text, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _action(text: str, category: type[Warning], module: str, line: int) -> str:
    """What the user's filters ask for."""
    for action, message, kind, where, at in warnings.filters:
        said = message is None or re.match(message, text)
        here = where is None or re.match(where, module)
        if said and here and issubclass(category, kind) and at in (0, line):
            return action
    return "default"
