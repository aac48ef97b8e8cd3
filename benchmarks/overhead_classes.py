"""What constraints on a decision among five classes cost over the plain engine: time and memory.

Plain and constrained fits alternate in one process, on the same data and with the same options,
as in ``benchmarks.overhead``, and ratios of their medians are reported. Memory is the peak of a
process that makes the data and does one fit.

    python -m benchmarks.overhead_classes          # half an hour; writes overhead_classes.md
    python -m benchmarks.overhead_classes --quick  # a minute, fewer rows, writes nothing
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import fairboost
from benchmarks.overhead import ENGINES, GAME, ROUNDS, Engine
from benchmarks.overhead_regression import ratio
from benchmarks.synthetic import FEATURES, make
from fairboost import FairGBMClassifier
from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.exceptions import FairnessWarning
from fairboost.fairness.class_constraints import resolve_for_classes
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.threads import Threads
from fairboost.tasks.layout import lay_out
from fairboost.tasks.multiclass import Multiclass

FILE = Path(__file__).resolve().with_suffix(".md")
CLASSES, GROUPS, TARGET = 5, (4, 20), 1.15
CONSTRAINTS = "demographic_parity", "equalized_odds"


def draw(n: int, groups: int, n_classes: int = CLASSES) -> tuple[Any, Any, Any]:
    """Features, classes that are bands of a number, and groups that differ in its mean."""
    X, _, g = make(n, groups)
    number = X[:, 0] + X[:, 1] * X[:, 2] + 0.8 * g / groups
    number += np.random.default_rng(1).logistic(size=n)
    bands = np.quantile(number, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(bands, number), g


def fit(engine: Engine, kind: str, data: tuple[Any, Any, Any], n_jobs: int) -> None:
    """One fit, plain or under a constraint."""
    X, y, g = data
    if kind == "plain":
        engine.make(n_jobs).fit(X, y)
        return
    fair = FairGBMClassifier(engine.make(n_jobs), constraint=kind, random_state=0, **GAME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        fair.fit(X, y, sensitive_features=g)


def time_fits(engine: Engine, n: int, groups: int, repeats: int, n_jobs: int) -> dict[str, Any]:
    """Seconds of each fit by kind; kinds take turns, each time in another order."""
    data, kinds = draw(n, groups), ["plain", *CONSTRAINTS]
    few = tuple(column[:20_000] for column in data)
    for kind in kinds:  # warm up
        fit(engine, kind, few, n_jobs)  # type: ignore[arg-type]
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for k in tqdm(range(repeats), desc=f"{engine.title}, {groups} groups", leave=False):
        for kind in np.roll(kinds, k).tolist():
            start = time.perf_counter()
            fit(engine, kind, data, n_jobs)
            seconds[kind].append(time.perf_counter() - start)
    return {kind: np.array(of_kind) for kind, of_kind in seconds.items()}


CHILD = """
from pathlib import Path
from benchmarks.overhead_classes import ENGINES, draw, fit
fit(ENGINES[{engine!r}], {kind!r}, draw({n}, {groups}), {n_jobs})
# Not getrusage: a child starts out with the peak of its parent there.
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def peak_memory(engine: str, kind: str, n: int, groups: int, n_jobs: int) -> float:
    """Peak resident megabytes of a process that imports fairboost. Reads /proc: Linux only."""
    code = CHILD.format(engine=engine, kind=kind, n=n, groups=groups, n_jobs=n_jobs)
    paths = [str(FILE.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def own_time(
    n: int, groups: int, constraint: str, n_jobs: int, engine: Engine, repeats: int = 40
) -> float:
    """Milliseconds per round per million rows of everything that is not the engine."""
    _, y, g = draw(n, groups)
    column = SensitiveColumn("g", g.astype(np.int32), tuple(range(groups)))
    asked = resolve_for_classes(constraint, 0.0, ["g"], tuple(range(CLASSES)), None)
    rng = np.random.default_rng(0)
    cells = build_cells(y.astype(np.int32), [column])
    held = choose(0.2, cells, 0.0, None, rng)
    trained = cells.among(held.trained, None)
    layout = lay_out(trained, [two_sided(c) for c in asked], held, threads=Threads(n_jobs))
    session = Session(Game(Multiclass(CLASSES), layout, Control(), True))
    order = "F" if engine.package == "lightgbm" else "C"
    rows = [rng.normal(size=(n, CLASSES)).astype(engine.scores) for _ in range(2)]
    here, there = (
        [np.asarray(f[which], order=order) for f in rows]
        for which in (held.trained, ~held.trained)
    )
    seconds = []
    for k in range(repeats):
        start = time.perf_counter()
        session.play(here[k % 2], there[k % 2])
        seconds.append(time.perf_counter() - start)
    session.close()
    return float(np.median(seconds[5:])) * 1e3 * 1e6 / n


def report(n: int, repeats: int, n_jobs: int) -> str:
    """The page."""
    packages = ", ".join(f"{name} {version(name)}" for name in (*ENGINES, "numpy"))
    lines = [
        "# Overhead of constraints on a decision among several classes",
        "",
        f"Made by `python -m benchmarks.overhead_classes`: {n:,} rows, {CLASSES} classes, "
        f"{FEATURES} features, {ROUNDS} rounds, {n_jobs} threads, `FairGBMClassifier` with a "
        "share of 0.2 held out and groups as observed. Python "
        f"{platform.python_version()}, {packages}, fairboost {fairboost.__version__}.",
        "",
        f"Time ratios are ratios of the medians of {repeats} alternating fits each, with a "
        "bootstrap interval over the fits, and ratios of the fastest fits, which other work on "
        "the machine disturbs least. Memory is the peak of a process that makes the data and does "
        f"one fit, with fairboost imported in both cases. The goal is {TARGET:.2f} for both "
        "ratios.",
        "",
        "| engine | groups | constraint | plain, s | fairboost, s | time ratio [95%] | of the "
        "fastest | plain, MB | fairboost, MB | memory ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, engine in ENGINES.items():
        for groups in GROUPS:
            found = time_fits(engine, n, groups, repeats, n_jobs)
            plain, plain_mb = found.pop("plain"), peak_memory(name, "plain", n, groups, n_jobs)
            for kind, fair in found.items():
                fair_mb = peak_memory(name, kind, n, groups, n_jobs)
                lines.append(
                    f"| {name} | {groups} | {kind} | {np.median(plain):.3f} | "
                    f"{np.median(fair):.3f} | {ratio(plain, fair)} | {plain_mb:.0f} | "
                    f"{fair_mb:.0f} | {fair_mb / plain_mb:.3f} |"
                )
                print(lines[-1], flush=True)
    lines += [
        "",
        "## The method's own part of a round",
        "",
        "Everything a round does outside the engine, in milliseconds per million rows on "
        f"{n_jobs} threads: 80% of the rows are trained on, 20% measured.",
        "",
        f"| engine | constraint | {' | '.join(f'{groups} groups' for groups in GROUPS)} |",
        f"|---|---|{'---|' * len(GROUPS)}",
    ]
    for name, engine in ENGINES.items():
        for kind in CONSTRAINTS:
            cost = [own_time(n, groups, kind, n_jobs, engine) for groups in GROUPS]
            lines.append(f"| {name} | {kind} | {' | '.join(f'{c:.1f}' for c in cost)} |")
            print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--n-jobs", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        print(report(20_000, 2, options.n_jobs))
    else:
        FILE.write_text(report(options.rows, options.repeats, options.n_jobs))


if __name__ == "__main__":
    main()
