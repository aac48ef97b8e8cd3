"""Ctrl-C while an engine's compiled code calls back.

Python lets a signal act when its own code runs next. Where an engine calls back, to log a line or
to ask for more rows, that is within the callback, and ctypes drops what is raised there: training
would go on, maybe on the rows that it has so far. What was dropped is kept here, and raised once
the engine is back.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DROPPED: list[BaseException] = []


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Raise what a signal has raised in a callback, at the end at the latest.

    Signals are for the main thread only, and so is this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def keep(dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt | SystemExit):
            _DROPPED.append(dropped.exc_value)
        else:
            before(dropped)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before
        raise_dropped()


def raise_dropped() -> None:
    """Raise what a callback has dropped, if anything; engines ask once per round."""
    if _DROPPED and threading.current_thread() is threading.main_thread():
        first = _DROPPED[0]
        _DROPPED.clear()
        raise first
