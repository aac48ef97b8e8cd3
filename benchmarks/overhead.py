"""What a constraint costs over the plain engine: time, kernel time, memory, first compilation.

Plain and constrained fits alternate in one process, on the same data and with the same options,
and the ratio of their medians is reported: absolute seconds mean little on shared machines. Memory
is the peak of a process that does one fit, so that imports and all buffers count.

    python -m benchmarks.overhead                   # ten minutes; writes overhead.md beside this
    python -m benchmarks.overhead --engine xgboost  # as long; writes overhead_xgboost.md
    python -m benchmarks.overhead --quick           # a minute, smaller sizes, writes nothing
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import fairboost
from benchmarks.synthetic import FEATURES, make
from fairboost import FairGBMClassifier, parity
from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.fairness.constraints import resolve
from fairboost.fairness.proxies import as_proxy
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.threads import Threads
from fairboost.tasks.binary import Binary
from fairboost.tasks.layout import lay_out

HERE = Path(__file__).resolve().parent
ROUNDS = 100
TARGETS = {20_000: 1.30, 200_000: 1.10, 1_000_000: 1.05}

GAME = {"holdout": 0.2, "memberships": "observed"}
"""The game itself; at a million rows these are the defaults."""


@dataclass(frozen=True)
class Engine:
    """An engine by name, and how to make it."""

    title: str
    package: str
    name: str
    options: dict[str, Any]
    trees: str
    scores: type = np.float64

    @property
    def file(self) -> str:
        """Where the table goes."""
        return "overhead.md" if self.package == "lightgbm" else f"overhead_{self.package}.md"

    def make(self, n_jobs: int) -> Any:
        """An estimator of the engine."""
        maker = getattr(import_module(self.package), self.name)
        return maker(n_estimators=ROUNDS, n_jobs=n_jobs, **self.options)


ENGINES = {
    "lightgbm": Engine(
        "LightGBM", "lightgbm", "LGBMClassifier", {"verbose": -1}, "trees of 31 leaves"
    ),
    "xgboost": Engine("XGBoost", "xgboost", "XGBClassifier", {}, "trees of depth 6", np.float32),
}


def fit(engine: Engine, kind: str, X, y, g, n_jobs: int) -> None:
    if kind == "plain":
        engine.make(n_jobs).fit(X, y)
    else:
        model = FairGBMClassifier(engine.make(n_jobs), constraint="equal_opportunity", **GAME)
        model.fit(X, y, sensitive_features=g)


def time_ratio(engine: Engine, n: int, groups: int, repeats: int, n_jobs: int) -> dict[str, float]:
    X, y, g = make(n, groups)
    for kind in ("plain", "fair"):  # warm up
        fit(engine, kind, X[:20_000], y[:20_000], g[:20_000], n_jobs)
    seconds: dict[str, list[float]] = {"plain": [], "fair": []}
    for k in tqdm(range(repeats), desc=f"{n:,} rows, {groups} groups", leave=False):
        for kind in ("plain", "fair") if k % 2 == 0 else ("fair", "plain"):
            start = time.perf_counter()
            fit(engine, kind, X, y, g, n_jobs)
            seconds[kind].append(time.perf_counter() - start)
    plain, fair = np.array(seconds["plain"]), np.array(seconds["fair"])
    rng = np.random.default_rng(0)
    draws = rng.integers(0, repeats, (2000, repeats))
    boot = np.median(fair[draws], axis=1) / np.median(plain[draws], axis=1)
    low, high = np.quantile(boot, [0.025, 0.975])
    return {
        "plain": float(np.median(plain)),
        "fair": float(np.median(fair)),
        "ratio": float(np.median(fair) / np.median(plain)),
        "fastest": float(fair.min() / plain.min()),
        "low": float(low),
        "high": float(high),
    }


def kernel_time(
    n: int, groups: int, constraint, n_jobs: int, scores: type, repeats: int = 40
) -> float:
    """Milliseconds per round per million rows of everything that is not the engine.

    In the default game: a share of the rows is held out, and only looked at.
    """
    _, y, g = make(n, groups)
    h = np.arange(n, dtype=np.int32) % 5
    columns = [
        SensitiveColumn("g", g.astype(np.int32), tuple(range(groups))),
        SensitiveColumn("h", h, tuple(range(5))),
    ]
    constraints = [two_sided(c) for c in resolve(constraint, 0.0, ["g", "h"])]
    rng = np.random.default_rng(0)
    cells = build_cells(y.astype(np.int32), columns)
    held = choose(0.2, cells, 0.0, None, rng)
    layout = lay_out(cells.among(held.trained, None), constraints, held, threads=Threads(n_jobs))
    session = Session(Game(Binary(as_proxy("auto"), convex=True), layout, Control(), True))
    rows = [rng.normal(size=n).astype(scores) for _ in range(2)]
    measured, trained = ([f[which] for f in rows] for which in (~held.trained, held.trained))
    seconds = []
    for k in range(repeats):
        start = time.perf_counter()
        session.play(trained[k % 2], measured[k % 2])
        seconds.append(time.perf_counter() - start)
    session.close()
    return float(np.median(seconds[5:])) * 1e3 * 1e6 / n


CHILD = """
from pathlib import Path
from {package} import {name}
from benchmarks.synthetic import make
X, y, g = make({n}, {groups})
model = {name}(n_estimators={rounds}, n_jobs={n_jobs}, **{options!r})
if {kind!r} != "bare":
    from fairboost import FairGBMClassifier
if {kind!r} == "fair":
    fair = FairGBMClassifier(model, constraint="equal_opportunity", **{game!r})
    fair.fit(X, y, sensitive_features=g)
else:
    model.fit(X, y)
# Not getrusage: a child starts out with the peak of its parent there.
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def peak_memory(engine: Engine, kind: str, n: int, groups: int, n_jobs: int) -> float:
    """Peak resident megabytes of a process that makes the data and does one fit.

    Of a plain fit that never imports fairboost (bare), of a plain fit with fairboost imported
    (plain), and of a constrained one (fair). Reads /proc, so Linux only.
    """
    code = CHILD.format(
        n=n, groups=groups, game=GAME, rounds=ROUNDS, n_jobs=n_jobs, kind=kind,
        package=engine.package, name=engine.name, options=engine.options,
    )  # fmt: skip
    return float(_run(code))


def _run(code: str) -> str:
    """Run code in a fresh process that finds this folder, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    return done.stdout.decode()


def first_call() -> float:
    """Seconds that the first round of a fresh process takes over its second."""
    code = (
        "import time, numpy as np\n"
        "from benchmarks.synthetic import make\n"
        "from fairboost.data.cells import SensitiveColumn, build_cells\n"
        "from fairboost.fairness.constraints import resolve\n"
        "from fairboost.algorithm.game import Game, Session\n"
        "from fairboost.tasks.binary import Binary\n"
        "from fairboost.tasks.layout import lay_out\n"
        "from fairboost.algorithm.multipliers import Control\n"
        "from fairboost.fairness.proxies import as_proxy\n"
        "from fairboost.fairness.two_sided import two_sided\n"
        "_, y, g = make(5000, 2)\n"
        "cells = build_cells(y.astype('i4'), [SensitiveColumn('g', g.astype('i4'), (0, 1))])\n"
        "parity = [two_sided(c) for c in resolve('equal_opportunity', 0., ['g'])]\n"
        "task = Binary(as_proxy('auto'), convex=True)\n"
        "l = Session(Game(task, lay_out(cells, parity), Control(), True)).play\n"
        "s = np.random.default_rng(0).normal(size=5000)\n"
        "t = time.perf_counter(); l(s); l(s); first = time.perf_counter() - t\n"
        "t = time.perf_counter(); l(s); l(s); print(first - (time.perf_counter() - t))\n"
    )
    return float(_run(code))


def report(engine: Engine, sizes: dict[int, int], n_jobs: int) -> str:
    lines = [
        f"# Overhead over plain {engine.title}",
        "",
        f"Made by `python -m benchmarks.overhead{_flag(engine)}`: {FEATURES} features, {ROUNDS} "
        f"{engine.trees}, {n_jobs} threads, equal opportunity, `FairGBMClassifier` at its "
        "defaults, except that a share is held out at every size. Below 200,000 rows the defaults "
        "may cross-fit, which costs several fits, and learn memberships. "
        f"Python {platform.python_version()}, {engine.title} {version(engine.package)}, NumPy "
        f"{np.__version__}, fairboost {fairboost.__version__}.",
        "",
        "Time ratios are ratios of the medians of alternating fits, with a bootstrap interval "
        "over the fits, and ratios of the fastest fits, which other work on the machine disturbs "
        "least. Memory is the peak of a process that makes the data and does one fit, in MB: "
        f"{engine.title} without fairboost (bare), {engine.title} with fairboost imported "
        "(plain), and a constrained fit. The memory ratio is constrained over plain (goal: 1.15). "
        "The last column is constrained over bare.",
        "",
        "| rows | groups | fits | plain, s | fairboost, s | time ratio [95%] | of the fastest "
        "| to reach "
        "| bare, MB | plain, MB | fairboost, MB | memory ratio | to bare |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for n, repeats in sizes.items():
        for groups in (2, 20):
            t = time_ratio(engine, n, groups, repeats, n_jobs)
            bare, plain, fair = (
                peak_memory(engine, kind, n, groups, n_jobs) for kind in ("bare", "plain", "fair")
            )
            lines.append(
                f"| {n:,} | {groups} | {repeats} | {t['plain']:.3f} | {t['fair']:.3f} | "
                f"{t['ratio']:.3f} [{t['low']:.3f}, {t['high']:.3f}] | {t['fastest']:.3f} | "
                f"{TARGETS[n]:.2f} | "
                f"{bare:.0f} | {plain:.0f} | {fair:.0f} | {fair / plain:.3f} | {fair / bare:.3f} |"
            )
            print(lines[-1], flush=True)
    lines += own_part(engine, sizes, n_jobs)
    return "\n".join([*lines, ""])


def _flag(engine: Engine) -> str:
    return "" if engine.package == "lightgbm" else f" --engine {engine.package}"


def own_part(engine: Engine, sizes: dict[int, int], n_jobs: int) -> list[str]:
    lines = [
        "",
        "## The method's own part of a round",
        "",
        "Everything a round does outside the engine, in milliseconds per million rows on "
        f"{n_jobs} threads (to reach: 6), by number of groups and constraints. Sensitive columns "
        f"g (groups as given) and h (5). Scores are of type {engine.scores.__name__}.",
        "",
        "| constraint | inequalities | 2 groups | 20 groups |",
        "|---|---|---|---|",
    ]
    n = max(sizes)
    for name, constraint in {
        "equal opportunity by g": parity("fnr", 0.0, by="g"),
        "equalized odds by g": [parity("fnr", 0.0, by="g"), parity("fpr", 0.0, by="g")],
        "equalized odds by g and by h": "equalized_odds",
        "demographic parity by g crossed with h": parity("ppr", 0.0, by=("g", "h")),
        "all of FPR, FNR and PPR by g and by h": ["equalized_odds", "demographic_parity"],
    }.items():
        cost = [kernel_time(n, groups, constraint, n_jobs, engine.scores) for groups in (2, 20)]
        counts = [_inequalities(constraint, groups) for groups in (2, 20)]
        lines.append(f"| {name} | {counts[0]}, {counts[1]} | {cost[0]:.1f} | {cost[1]:.1f} |")
        print(lines[-1], flush=True)
    seconds = np.median([first_call() for _ in range(5)])
    lines += [
        "",
        f"The first two rounds of a fresh process take {seconds:.4f} s longer than the next two: "
        "nothing is compiled (to reach: 2 s).",
    ]
    return lines


def _inequalities(constraint, groups: int) -> int:
    y = np.arange(40 * groups, dtype=np.int32) // (20 * groups)
    g = np.arange(40 * groups, dtype=np.int32) % groups
    h = np.arange(40 * groups, dtype=np.int32) // groups % 5
    columns = [
        SensitiveColumn("g", g, tuple(range(groups))), SensitiveColumn("h", h, tuple(range(5)))
    ]  # fmt: skip
    bound = [two_sided(c) for c in resolve(constraint, 0.0, ["g", "h"])]
    terms = lay_out(build_cells(y, columns), bound).terms
    return sum(len(t.inequalities) for t in terms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--engine", choices=ENGINES, default="lightgbm")
    parser.add_argument("--n-jobs", type=int, default=2)
    options = parser.parse_args()
    sizes = {20_000: 7} if options.quick else {20_000: 31, 200_000: 21, 1_000_000: 9}
    engine = ENGINES[options.engine]
    text = report(engine, sizes, options.n_jobs)
    if options.quick:
        print(text)
    else:
        (HERE / engine.file).write_text(text)


if __name__ == "__main__":
    main()
