"""Threads that share the work on rows: the engine's own, where they can be had.

The threads of OpenMP stay awake for some milliseconds after each round of the engine, in wait of
the next. Threads of ours would compete with them for the cores: a pass over the rows of 3 ms takes
8 to 10 then. So the engine's threads are asked to help, by the entry that GNU's OpenMP has for
compiled code (LLVM's has it too). Where the engine has no such entry, or the environment variable
FAIRBOOST_THREADS is ``python``, threads of Python do it.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

import joblib

_Result = TypeVar("_Result")

# void GOMP_parallel(void (*work)(void *), void *argument, unsigned threads, unsigned flags)
_PARALLEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
)  # fmt: skip


def thread_count(n_jobs: int | None) -> int:
    """Threads that an engine uses, so that its own are asked for no more and no fewer.

    OpenMP makes threads anew whenever their number changes. None and 0 leave the number to it,
    -1 is all cores, -2 all but one.
    """
    cores = int(joblib.cpu_count())
    if not n_jobs:
        told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        return max(1, int(told)) if told.isdecimal() else cores
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else n_jobs


class Threads:
    """Some threads, the one that calls among them.

    Parameters
    ----------
    count : int, default=1
        How many.
    library : ctypes.CDLL, optional
        The engine's compiled library, whose threads are used if they can be.
    """

    def __init__(self, count: int = 1, library: ctypes.CDLL | None = None) -> None:
        self.count = count
        self.parallel: Callable[[Any, int, int, int], None] | None = None
        told = os.environ.get("FAIRBOOST_THREADS", "")
        if told not in ("", "python"):
            expected = "expected 'python', or leave it unset to use the engine's threads"
            raise ValueError(f"FAIRBOOST_THREADS={told!r} is unknown; {expected}")
        if library is not None and not told:
            # The dynamic linker also finds what the library itself was linked to.
            with suppress(AttributeError):
                self.parallel = _PARALLEL(("GOMP_parallel", library))
        self.pool: ThreadPoolExecutor | None = None

    def run(self, entry: Any, argument: ctypes.Structure) -> None:
        """Call a compiled function in all threads at once."""
        if self.count > 1 and self.parallel is not None:
            address = ctypes.cast(entry, ctypes.c_void_p)
            self.parallel(address, ctypes.addressof(argument), self.count, 0)
        else:
            reference = ctypes.byref(argument)
            self.share(lambda: entry(reference))

    def share(self, work: Callable[[], object]) -> None:
        """Call a function in all threads at once."""
        if self.pool is None and self.count > 1:
            self.pool = ThreadPoolExecutor(self.count - 1)
        others = [self.pool.submit(work) for _ in range(self.count - 1)] if self.pool else []
        work()  # this thread works too
        for other in others:
            other.result()

    def each(self, work: Callable[[int], _Result], count: int) -> list[_Result]:
        """Call a function with each number below a count, and return the results in order.

        Threads take the next number when they are free, they are not dealt a share: other work on
        the machine may hold up one of them.
        """
        results: list[Any] = [None] * count
        left, at_the_counter = iter(range(count)), Lock()

        def take() -> None:
            while True:
                with at_the_counter:  # not all Pythons have one thread at a time
                    k = next(left, None)
                if k is None:
                    return
                results[k] = work(k)

        self.share(take)
        return results

    def close(self) -> None:
        """Let the threads go; they come back when they are asked."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None


class Crew:
    """Works off tasks beside the thread that calls, which lends a hand when it waits for them.

    Whoever is free takes the next task: other work on the machine may hold up one of them. Nobody
    spins in wait of the next.

    Parameters
    ----------
    helpers : int
        Threads beside the one that calls; without any it does all the work, when it waits.
    """

    def __init__(self, helpers: int) -> None:
        self.helpers = helpers
        self.left = deque[Callable[[], object]]()
        self.busy: list[Future[None]] = []
        self.pool: ThreadPoolExecutor | None = None

    def start(self, tasks: Iterable[Callable[[], object]]) -> None:
        """Begin with tasks; those before must be done."""
        self.left.extend(tasks)
        if self.helpers and self.left:
            self.pool = self.pool or ThreadPoolExecutor(self.helpers)
            count = min(self.helpers, len(self.left))
            self.busy = [self.pool.submit(self._work) for _ in range(count)]

    def wait(self) -> None:
        """Wait until all tasks are done; raises what one of them raised."""
        try:
            self._work()
        finally:
            busy, self.busy = self.busy, []
            # A helper that has not woken up has no task left to do: it is not waited for.
            errors = [future.exception() for future in busy if not future.cancel()]
        for error in filter(None, errors):
            raise error

    def close(self) -> None:
        """Leave out what is not begun, wait for the rest, and let the helpers go."""
        self.left.clear()
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None

    def _work(self) -> None:
        try:
            while True:
                try:
                    task = self.left.popleft()
                except IndexError:
                    return
                task()
        except BaseException:
            self.left.clear()
            raise
