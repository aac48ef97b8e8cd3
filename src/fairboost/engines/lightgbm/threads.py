"""LightGBM's number of threads: one for the whole process, and who may change it when.

Each call of LightGBM with ``num_threads`` writes that number to a variable of the process. Other
calls read the variable more than once: a buffer has a place for each thread at the first read, and
the threads of the second read fill it. A different number that is written in between, by a call in
another thread of Python, makes LightGBM write beyond the buffer, which ends the process or spoils
trees (``Dataset::GetMultiBinFromSparseFeatures`` of LightGBM 4.7 is one such place). Nothing else
is shared by boosters and data sets of their own (``docs/engines.md`` says how this was shown).

So calls with the same number run side by side, and calls with another number wait for these to
end. Only calls of the user to stock LightGBM, in other threads, are beyond reach.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local

PATIENCE = 0.1
"""Seconds that a prediction lets those go first who wait for the end of the present number."""


class _Process:
    """The number of the process, how many run with it, and how many wait for another."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.number = self.users = self.waiting = 0


class _Thread(local):
    """The number that this thread of Python runs with; 0 outside."""

    number = 0


_process = _Process()
_thread = _Thread()


def _forget() -> None:
    """Begin anew in a forked process, which has none of the other threads."""
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def number_of_threads(wanted: int, *, any_number: bool = False) -> Iterator[int]:
    """Run calls of LightGBM with one number of threads, beside calls with the same number alone.

    Parameters
    ----------
    wanted : int
        The number. Without LightGBM running elsewhere in the process it is in force at once.
    any_number : bool, default=False
        Take the number that is in force rather than wait. For predictions, which are the same with
        any number.

    Yields
    ------
    number : int
        The number to call LightGBM with: what is wanted, or what is in force where that is allowed
        or where this thread has it in force already, such as in a callback of a training.
    """
    process = _process
    if _thread.number:
        yield _thread.number
        return
    with process.changed:
        if any_number:
            if process.waiting:
                process.changed.wait(PATIENCE)
        else:
            process.waiting += 1
            try:
                process.changed.wait_for(lambda: process.number == wanted or not process.users)
            finally:
                process.waiting -= 1
        process.number = process.number if any_number and process.users else wanted
        process.users += 1
        _thread.number = process.number
    try:
        yield _thread.number
    finally:
        _thread.number = 0
        with process.changed:
            process.users -= 1
            process.changed.notify_all()
