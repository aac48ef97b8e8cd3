"""Cases in processes of their own: one that ends or hangs is written down, and the rest go on."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import wait
from typing import Any

LIMIT = 180.0
"""Seconds that a case may take."""

START = 60.0
"""Seconds that a process may take beside for its imports."""

RECYCLE = 150
"""Cases of a process, so that what one leaves behind does not add up."""


def work(module: str, seed: int, pipe: Any) -> None:
    """Run the cases that come through the pipe; what engines print is thrown away."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    run = importlib.import_module(module).run
    while (number := pipe.recv()) is not None:
        pipe.send(("stage", "start"))
        try:
            result = run(seed, number, lambda stage: pipe.send(("stage", stage)))
        except Exception as error:  # of the harness
            import traceback

            text = "".join(traceback.format_exception(error))
            failure = {"invariant": "harness", "message": f"{error!r}", "trace": text}
            result = {"outcome": "failed", "checked": {}, "failures": [failure]}
        pipe.send(("done", result))


Outcomes = list[tuple[str, str]]
"""What came of a case, and details."""


def outcomes(module: str, words: Sequence[object], n: int, seconds: float) -> list[Outcomes]:
    """Have ``python -m MODULE work WORDS START STOP`` try ``n`` cases; returns what came of each.

    It prints the outcomes of a case as a line of JSON. A case that ends the process or takes
    longer than ``seconds`` has "crashed" or "hung", and another process goes on after it.
    """
    found: list[Outcomes] = []
    while len(found) < n:
        command = [sys.executable, "-m", module, "work", *map(str, [*words, len(found), n])]
        found += _until_it_ends(command, n - len(found), seconds)
    return found


def _until_it_ends(command: list[str], n: int, seconds: float) -> list[Outcomes]:
    """What a process says about ``n`` cases, or about those up to the one that has ended it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=environment
    )
    assert process.stdout is not None
    found: list[Outcomes] = []
    text = b""
    try:
        while len(found) < n:
            wait_for = seconds + START * (not found)
            ready, _, _ = select.select([process.stdout], [], [], wait_for)
            piece = os.read(process.stdout.fileno(), 65536) if ready else b""
            *lines, text = (text + piece).split(b"\n")
            found += [[(what, why) for what, why in json.loads(line)] for line in lines]
            if not piece:
                why = f"ended by {process.wait()}" if ready else f"took over {seconds} s"
                found.append([("crashed" if ready else "hung", why)])
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return found


class Worker:
    """A process, and the case it is at."""

    def __init__(self, module: str, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(module, seed, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.number: Any = None
        self.stage, self.started, self.count = "start", time.monotonic(), 0

    def give(self, number: Any) -> None:
        """Start a case."""
        self.number, self.stage = number, "start"
        self.started = time.monotonic()
        self.count += 1
        self.pipe.send(number)

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def run(
    module: str,
    seed: int,
    numbers: Iterable[int],
    n_workers: int = 1,
    show: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Run cases; the result of each, with its ``case`` and ``seconds``."""
    waiting = list(numbers)[::-1]
    total, found, pool = len(waiting), [], []
    for key in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"):  # a case may ask for two threads
        os.environ.setdefault(key, "2")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads of two fits share the cores
    start = time.monotonic()
    while waiting or any(w.number is not None for w in pool):
        while waiting and len(pool) < n_workers:
            pool.append(Worker(module, seed))
        for worker in pool:
            if worker.number is None and waiting:
                worker.give(waiting.pop())
        wait([w.pipe for w in pool], timeout=1.0)
        for worker in list(pool):
            result = look(worker)
            if result is not None:
                found.append(result)
                _tell(show, found, total, start)
            if worker.number is None and (
                worker.count >= RECYCLE or not worker.process.is_alive()
            ):
                worker.end()
                pool.remove(worker)
    for worker in pool:
        worker.end()
    return sorted(found, key=lambda r: r["case"])


def look(worker: Worker) -> dict[str, Any] | None:
    """The result of a worker's case, if it has come to an end."""
    seconds = time.monotonic() - worker.started
    ended = None
    try:
        while worker.pipe.poll():
            what, content = worker.pipe.recv()
            if what == "stage":
                worker.stage = content
            else:
                number, worker.number = worker.number, None
                return {**content, "case": number, "seconds": round(seconds, 3)}
    except (EOFError, OSError):
        worker.process.join(5)
        ended = f"the process ended, {_how(worker.process.exitcode)}"
    if worker.number is None:
        return None
    if ended is None and seconds > LIMIT:
        worker.process.kill()
        worker.process.join()
        ended = f"the process hung for {LIMIT:g} s"
    if ended is None:
        return None
    number, worker.number = worker.number, None
    if worker.stage == "base" or worker.stage.startswith("stock"):  # not ours
        return {
            "outcome": "engine's error", "checked": {}, "failures": [], "why": f"stock: {ended}",
            "case": number, "seconds": round(seconds, 3),
        }  # fmt: skip
    failure = {"invariant": "process", "message": f"{ended}, at: {worker.stage}"}
    return {
        "outcome": "ended the process", "checked": {"process": 1}, "failures": [failure],
        "case": number, "seconds": round(seconds, 3), "stage": worker.stage,
    }  # fmt: skip


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"exit status {code}"


def _tell(show: Callable[[str], None] | None, found: list[Any], total: int, start: float) -> None:
    for failure in found[-1]["failures"] if show is not None else ():
        show(f"case {found[-1]['case']}: {signature(failure)}\n")
    if show is not None and (len(found) % 25 == 0 or len(found) == total):
        bad = sum(bool(r["failures"]) for r in found)
        took = time.monotonic() - start
        show(f"{len(found):,} of {total:,} cases, {bad} failed, {took:,.0f} s")


def signature(failure: dict[str, Any]) -> str:
    """What failures of one cause have in common: the message without its numbers."""
    text = re.sub(r"[-+]?\d[\d.,e+-]*", "#", failure["message"].split("\n")[0])
    return f"{failure['invariant']}: {text[:160]}"


def _seconds(result: dict[str, Any]) -> float:
    return float(result["seconds"])


def summary(
    name: str, seed: int, found: list[dict[str, Any]], invariants: Iterable[str]
) -> dict[str, Any]:
    """Counts of a campaign, and its failures."""
    checked, failed = Counter(), Counter()
    for result in found:
        checked.update(result["checked"])
        checked["process"] += "process" not in result["checked"]
        failed.update({f["invariant"] for f in result["failures"]})
    failures = [
        {
            "case": r["case"],
            "repro": f"python -m tests.fuzz {name} --seed {seed} --case {r['case']}",
            **f,
        }
        for r in found
        for f in r["failures"]
    ]  # fmt: skip
    refusals = Counter(
        signature({"invariant": r["outcome"], "message": r["why"]}) for r in found if "why" in r
    )
    return {
        "campaign": name,
        "seed": seed,
        "cases": len(found),
        "seconds": round(sum(r["seconds"] for r in found), 1),
        "slowest": {r["case"]: r["seconds"] for r in sorted(found, key=_seconds)[-5:]},
        "outcomes": dict(Counter(r["outcome"] for r in found)),
        "engines": dict(Counter(r["engine"] for r in found if "engine" in r)),
        "rates recomputed": sum(r.get("rates", 0) for r in found),
        "without": dict(Counter(p for r in found for p in r.get("without", ()))),
        "checked": {name: checked.get(name, 0) for name in invariants},
        "failed": {
            name: failed.get(name, 0)
            for name in [*invariants, *(["harness"] * ("harness" in failed))]
        },
        "explained": dict(Counter(e for r in found for e in r.get("explained", ()))),
        "kinds of failures": dict(Counter(map(signature, failures)).most_common()),
        "refusals": dict(refusals.most_common()),
        "failures": failures,
    }


def write(path: Any, counts: dict[str, Any]) -> None:
    """Write counts as JSON."""
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(counts, file, indent=1)


def show_on_terminal(text: str) -> None:
    """Progress, in one line where there is a terminal; what ends in a line break stays."""
    here = sys.stderr.isatty() and not text.endswith("\n")
    sys.stderr.write(f"\r\x1b[K{text}" if here else f"{text.rstrip()}\n")
    sys.stderr.flush()
