"""Threads that share blocks of rows: the engine's, or those of Python."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import joblib
import numpy as np
import pytest
from lightgbm import LGBMClassifier

from fairboost.engines.registry import load_engine
from fairboost.kernel import threads
from fairboost.kernel.threads import Crew, Threads, thread_count

# Tests run with OpenMP on one thread (tests/conftest.py), so this needs a process of its own. It
# does each task by one thread and by several, and goes on until several have taken blocks.
SEVERAL = """
import sys
import time
from importlib import import_module

import numpy as np

from fairboost.kernel.library import NODE
from fairboost.kernel.loops import Loops, fall
from fairboost.kernel.threads import Threads

engine, until = sys.argv[1], time.monotonic() + 120
rng, n, cells_of, block = np.random.default_rng(0), 100_000, 6, 2  # so that none is done too soon
cells, weight = rng.integers(0, cells_of, n).astype("u1"), rng.random(n).astype("f4")
scores, tables = rng.normal(0, 2, n), rng.normal(size=(4, cells_of))
memberships, on_groups = rng.random((n, 3)).astype("f4"), rng.normal(size=(2, 3))
side, table = np.arange(cells_of) % 3 - 1, rng.normal(size=(n, 2)).astype("f4")
nodes = np.array([(0.1, 1, 1, 2, 0), (1, 0, 1, 1, 0), (2, 0, 2, 2, 0)], NODE)
library = None if engine == "python" else import_module(engine)._LIB
if library is not None and Threads(2, library).parallel is None:
    sys.exit("no GOMP_parallel")


def passes(threads):
    loops = Loops(cells, cells_of, weight, np.zeros(n), np.zeros(n), block, threads)
    for task in (
        lambda: loops.descend(scores, 0.3, *tables[:2], side, [(memberships, on_groups)]),
        lambda: loops.measure(scores, 0.3, tables[0]),
        lambda: loops.sum_and_descend(scores, 0.3, tables[0], tuple(tables[1:3]), tables[3]),
        lambda: loops.correct(*tables[:2]),
    ):
        found = task()
        yield loops.takers, repr(found), loops.gradient.tobytes(), loops.hessian.tobytes()
    down = np.zeros(n, "f4")
    yield fall(table, nodes, down, block, threads), down.tobytes()


alone = list(passes(Threads()))
for count in (2, 5):
    many, most = Threads(count, library), [0] * 5
    while min(most) < 2 and time.monotonic() < until:
        for k, (one, (takers, *found)) in enumerate(zip(alone, passes(many), strict=True)):
            assert one[0] == 1 and tuple(found) == one[1:], f"task {k} depends on threads"
            most[k] = max(most[k], takers)
    assert (many.pool is None) == (library is not None)
    assert all(2 <= takers <= count for takers in most), f"of {count} threads worked {most}"
    many.close()
"""


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("engine", ["lightgbm.basic", "xgboost.core", "python"])
def test_several_threads_take_blocks_and_change_no_bit(engine):
    told = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    told["OMP_WAIT_POLICY"] = "passive"  # tests beside this one need the cores
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, engine],
        env=told, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if "no GOMP_parallel" in done.stderr:
        pytest.skip("this build of the engine is not on GNU's or LLVM's OpenMP")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_number_is_taken_once_whatever_python_does(monkeypatch, count):
    """A range that would be spoilt if two threads asked it at a time: no lock of Python helps."""

    class Fragile:
        def __init__(self, n):
            self.numbers, self.asked = iter(range(n)), threading.Lock()

        def __iter__(self):
            return self

        def __next__(self):
            assert self.asked.acquire(blocking=False), "two at a time"
            try:
                time.sleep(1e-4)  # another thread may run
                return next(self.numbers)
            finally:
                self.asked.release()

    monkeypatch.setattr(threads, "range", Fragile, raising=False)
    team = Threads(count)
    assert team.each(lambda k: k * k, 60) == [k * k for k in range(60)]
    assert team.each(lambda k: k, 0) == []
    team.close()


def test_an_error_in_a_thread_is_not_lost():
    team = Threads(3)
    with pytest.raises(ZeroDivisionError):
        team.each(lambda k: 1 / (k - 40), 64)
    team.close()


def test_the_engine_s_threads_can_be_turned_off(monkeypatch):
    engine = load_engine("lightgbm").make(LGBMClassifier(), np.array([0, 1])).library
    if Threads(2, engine).parallel is None:
        pytest.skip("this build of the engine is not on GNU's or LLVM's OpenMP")
    monkeypatch.setenv("FAIRBOOST_THREADS", "python")
    assert Threads(2, engine).parallel is None
    monkeypatch.setenv("FAIRBOOST_THREADS", "pyhton")
    with pytest.raises(ValueError, match="FAIRBOOST_THREADS='pyhton' is unknown; expected 'pyth"):
        Threads(2, engine)


def test_an_engine_without_openmp_leaves_it_to_threads_of_python():
    threads = Threads(2, ctypes.CDLL(None))
    assert threads.parallel is None
    seen = []
    threads.share(lambda: seen.append(1))
    assert len(seen) == 2
    threads.close()
    threads.share(lambda: seen.append(1))  # they come back
    assert len(seen) == 4
    threads.close()


def test_thread_count_follows_the_engine(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads.joblib, "cpu_count", lambda: 8)
    assert [thread_count(n) for n in (None, 0, -1, -2, 3, -100)] == [8, 8, 8, 7, 3, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert [thread_count(n) for n in (None, 0, -1, 3)] == [4, 4, 8, 3]


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 5), (3, 3), (-1, -1)])
def test_lightgbm_takes_the_physical_cores_by_default(monkeypatch, n_jobs, expected):
    def cpu_count(only_physical_cores=False):
        return 5 if only_physical_cores else 10

    monkeypatch.setattr(joblib, "cpu_count", cpu_count)
    estimator = LGBMClassifier(n_jobs=n_jobs)
    engine = load_engine("lightgbm").make(estimator, np.array([0, 1]))
    assert engine.n_jobs == expected
    assert thread_count(engine.n_jobs) == estimator._process_n_jobs(n_jobs)


# Tasks beside the calling thread


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_a_crew_does_every_task_once_and_the_caller_waits(helpers):
    crew, done = Crew(helpers), []
    for round_ in range(20):
        crew.start([partial(done.append, (round_, k)) for k in range(5)])
        crew.wait()
        assert sorted(done) == [(r, k) for r in range(round_ + 1) for k in range(5)]
    crew.close()
    assert crew.pool is None


def test_tasks_are_done_while_the_caller_does_something_else():
    crew, begun, go_on = Crew(1), threading.Event(), threading.Event()

    def task():
        begun.set()
        assert go_on.wait(10)

    crew.start([task])
    assert begun.wait(10)  # nobody has waited for the crew yet
    go_on.set()
    crew.wait()
    crew.close()


def test_a_helper_that_has_not_woken_up_is_not_waited_for():
    crew, go_on, done = Crew(1), threading.Event(), []
    crew.pool = ThreadPoolExecutor(1)
    held_up = crew.pool.submit(go_on.wait, 10)
    crew.start([partial(done.append, "by the caller")])
    crew.wait()
    assert done == ["by the caller"] and not held_up.done()
    go_on.set()
    crew.close()


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_what_a_task_raises_is_raised_to_who_waits_and_the_rest_is_left(helpers):
    crew, done = Crew(helpers), []

    def fail():
        raise RuntimeError("a tree too many")

    crew.start([fail, *(partial(done.append, k) for k in range(1_000))])
    with pytest.raises(RuntimeError, match="a tree too many"):
        crew.wait()
    assert not crew.left
    crew.start([partial(done.append, "next")])  # a crew goes on after that
    crew.wait()
    assert done[-1] == "next"
    crew.close()


def test_a_crew_that_is_closed_waits_for_what_is_begun_and_leaves_the_rest():
    crew, begun, done = Crew(1), threading.Event(), []

    def slow():
        begun.set()
        time.sleep(0.05)
        done.append("slow")

    crew.start([slow, partial(done.append, "never")])
    assert begun.wait(10)
    crew.close()
    assert done == ["slow"]
