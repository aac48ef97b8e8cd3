"""Ctrl-C and SIGTERM: one line and an exit code, whenever they come.

While modules are imported a signal ends the process there and then: nothing is written yet, and
an exception might be caught, or turned into another, by what is imported. While a command works
it is raised, so that what is half-written is taken away. Afterwards it is passed over: the command
is done, and Python would show a traceback if it were raised while the process ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)
AGAIN_AFTER = 0.05
_came: list[int] = []


def end_at_once() -> None:
    """Have signals end the process by themselves."""
    _set(_end)


def raise_them() -> None:
    """Have signals raised where the process is."""
    _came.clear()
    _set(_raise)
    sys.unraisablehook = _raise_again


def pass_over() -> None:
    """Have signals do nothing."""
    _set(signal.SIG_IGN)


def came() -> int | None:
    """The exit code of the signal that was raised, if one was, whatever became of it."""
    return 128 + _came[-1] if _came else None


def _set(handler: Callable[..., Any] | signal.Handlers) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells may ask for
                signal.signal(number, handler)


def _end(number: int, _: Any) -> None:
    if number == signal.SIGINT:
        os.write(2, b"fairboost: interrupted\n")
    os._exit(128 + number)


def _raise(number: int, _: Any) -> None:
    _came.append(number if number in NUMBERS else _came[-1])
    if _came[-1] == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + _came[-1])


def _raise_again(unraisable: Any) -> None:
    """Raise once more what came in a function that C code had called, where it was dropped."""
    if not _came or not issubclass(unraisable.exc_type, KeyboardInterrupt | SystemExit):
        sys.__unraisablehook__(unraisable)
    elif hasattr(signal, "setitimer"):  # shortly, when that function has returned
        signal.signal(signal.SIGALRM, _raise)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER)
