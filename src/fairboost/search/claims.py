"""Who runs which trial: no trial is lost, none is counted twice, whoever is killed when.

A search has trials 0 to n - 1. Any number of processes, on any number of machines, work on it
through one Optuna storage. The rules:

1. A trial *counts* once it is COMPLETE, or FAILed with a result that says what went wrong. That
   change of state is one transaction and comes last, so a process that is killed leaves nothing
   that counts.
2. To *claim* a trial, a process adds a RUNNING one that carries the index, in one transaction, and
   only then looks who else has it. Of several that hold an index the one of the lowest number
   goes on; the others give it up. Everyone has written before anyone looks, so two cannot both
   believe to be first.
3. A RUNNING trial whose process is dead is *free*: it is closed without a result, and its index
   can be claimed. On the same machine the operating system knows who is dead; of processes
   elsewhere the signs of life tell, which each of them writes every few seconds.
4. A process that was thought dead and was not (a laptop that slept) finds its trial closed when it
   wants to finish it, and drops its result: the index was given to someone else.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import optuna
from optuna.trial import FrozenTrial, TrialState

BEAT_SECONDS = 15.0
DEAD_AFTER_SECONDS = 180.0
"""Long against the beat: clocks of two machines may differ, and a storage may be slow."""

CLOSED = (optuna.exceptions.UpdateFinishedTrialError, ValueError)
"""What Optuna raises when a trial that is finished is to be finished again."""


@dataclass(frozen=True)
class Claim:
    """A trial that is ours to run."""

    index: int
    trial: optuna.Trial


class Worker:
    """A process at work: who it is, and its signs of life while it is entered.

    Parameters
    ----------
    registry : optuna.Study
        Where signs of life are written, as user attributes.
    """

    def __init__(self, registry: optuna.Study) -> None:
        self.registry = registry
        self.key = f"worker {uuid.uuid4().hex}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._sign()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sign(self) -> None:
        sign = {"time": time.time(), "place": place(), "pid": os.getpid(), "start": start_time()}
        self.registry.set_user_attr(self.key, sign)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            with suppress(Exception):  # a storage that is away for a moment; the next one counts
                self._sign()

    def alive(self, key: str) -> bool:
        """Whether a worker is at work still."""
        if key == self.key:
            return True
        sign = self.registry.user_attrs.get(key)
        if sign is None:
            return False
        if sign["place"] == place():
            return bool(start_time(sign["pid"]) == sign["start"])
        return bool(time.time() - sign["time"] < DEAD_AFTER_SECONDS)


def place() -> str:
    """Where a process number means something: this machine since it was started, this container.

    Examples
    --------
    >>> place() == place()
    True
    """
    parts = [socket.gethostname()]
    with suppress(OSError):  # elsewhere than on Linux, the name of the machine has to do
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def start_time(pid: int | None = None) -> str | None:
    """When a process was started, in whatever unit the system has; None if there is none.

    Process numbers are used again: a number alone does not tell whether it is the same process.
    """
    number = os.getpid() if pid is None else pid
    stat = Path(f"/proc/{number}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]  # a zombie does not work any more
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # it is someone else's
    return "running"


def counted(trials: Iterable[FrozenTrial]) -> dict[int, FrozenTrial]:
    """The trials that count, by index: complete, or failed with a result.

    A success goes before a failure, and of two alike the first counts.
    """
    found: dict[int, FrozenTrial] = {}
    for trial in sorted(trials, key=lambda t: (t.state != TrialState.COMPLETE, t.number)):
        index = trial.user_attrs.get("index")
        failed = trial.state == TrialState.FAIL and "result" in trial.user_attrs
        if index is not None and (trial.state == TrialState.COMPLETE or failed):
            found.setdefault(index, trial)
    return found


def claim(
    study: optuna.Study, worker: Worker, n_trials: int, again: frozenset[int] = frozenset()
) -> Claim | None:
    """Take the first trial that no one has done or is at; None if there is none.

    Parameters
    ----------
    study : optuna.Study
        The search.
    worker : Worker
        This process.
    n_trials : int
        Trials in all.
    again : set of int
        Numbers of failed trials that do not count, since they are to be run again.
    """
    while True:
        taken = _taken(study, worker, again)
        index = next((k for k in range(n_trials) if k not in taken), None)
        if index is None:
            return None
        token = uuid.uuid4().hex
        attributes = {"index": index, "worker": worker.key, "token": token}
        study.add_trial(optuna.trial.create_trial(state=TrialState.RUNNING, user_attrs=attributes))
        mine = next(t for t in study.get_trials() if t.user_attrs.get("token") == token)
        if _taken(study, worker, again)[index] == mine.number:
            return Claim(index, optuna.Trial(study, mine._trial_id))
        give_up(study, mine.number)


def _taken(study: optuna.Study, worker: Worker, again: frozenset[int]) -> dict[int, int]:
    """Number of the trial that has each index; trials of dead processes are closed on the way."""
    trials = [t for t in study.get_trials(deepcopy=False) if t.number not in again]
    found = {index: trial.number for index, trial in counted(trials).items()}
    for trial in trials:
        if trial.state != TrialState.RUNNING:
            continue
        if not worker.alive(trial.user_attrs.get("worker", "")):
            give_up(study, trial.number)
        elif "index" in trial.user_attrs:
            found.setdefault(trial.user_attrs["index"], trial.number)
    return found


def finish(
    study: optuna.Study, done: Claim, result: dict[str, Any], values: Sequence[float] | None
) -> bool:
    """Let a trial count; False if it was given to someone else meanwhile.

    Parameters
    ----------
    study : optuna.Study
        The search.
    done : Claim
        The trial.
    result : dict
        What to store, as plain values.
    values : sequence of float, optional
        Of the objectives; without them the trial has failed, and the result says why.
    """
    state = TrialState.FAIL if values is None else TrialState.COMPLETE
    try:
        done.trial.set_user_attr("result", result)
        study.tell(done.trial.number, values, state=state)
    except CLOSED:
        return False
    return True


def give_up(study: optuna.Study, number: int) -> None:
    """Close a trial so that it does not count, and its index can be claimed."""
    with suppress(*CLOSED):  # someone else was quicker
        study.tell(number, state=TrialState.FAIL)
