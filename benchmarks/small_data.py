"""What a fair fit costs over a plain one where most people are: few rows, and machines in use.

Plain and constrained fits alternate in one process, on the same data and with the same options,
and the ratio of their medians is reported (interval: bootstrap over the fits). Then, where the
time of a default fit goes, part by part; and the same ratio while other processes keep the cores
busy.

    python -m benchmarks.small_data          # ten minutes on two idle cores; writes small_data.md
    python -m benchmarks.small_data --quick  # a minute, fewer fits, writes nothing
    python -m benchmarks.small_data --cores 4 8 16  # the default; writes small_data_cores.md
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import lightgbm
import numpy as np
import xgboost
from lightgbm import LGBMClassifier
from tqdm import tqdm
from xgboost import XGBClassifier

from benchmarks.synthetic import FEATURES, make
from fairboost import FairGBMClassifier, tradeoff_curve, tune
from fairboost._text import markdown_table
from fairboost.algorithm.game import Session
from fairboost.data.holdout import fold_count
from fairboost.datasets import available, load
from fairboost.engines.lightgbm.engine import LightGBMEngine
from fairboost.engines.lockstep import Lockstep
from fairboost.engines.xgboost.engine import XGBoostEngine
from fairboost.exceptions import FairnessWarning
from fairboost.training import rows

MADE = ", ".join(f"{part.__name__} {part.__version__}" for part in (lightgbm, xgboost, np))
HERE = Path(__file__).resolve().parent
THREADS = 2
BURN = "while True: pass"
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "share": {"holdout": 0.2, "memberships": "observed"},
    "paper": {"multipliers": "paper", "holdout": None},
}


@dataclass(frozen=True)
class Case:
    """Rows, trees, how rows are held out, and the ratio to reach."""

    title: str
    trees: int
    way: str
    goals: dict[str, float] = field(default_factory=dict)
    rows: int = 0

    def read(self) -> tuple[Any, Any, Any]:
        """Features, labels and groups."""
        if self.rows:
            return make(self.rows, 4)
        table = load("adult")
        X = (
            table.X
            if self.title.endswith("aware")
            else table.X.drop(columns=["sex", "relationship"])
        )
        return X, table.y, table.sensitive["sex"].astype(str)


BOTH = ("lightgbm", "xgboost")
CASES = [
    Case("2,000 rows", 50, "default", dict.fromkeys(BOTH, 4.0), 2_000),
    Case("20,000 rows", 200, "default", dict.fromkeys(BOTH, 3.0), 20_000),
    Case("20,000 rows", 200, "share", {"lightgbm": 1.20, "xgboost": 1.15}, 20_000),
    Case("20,000 rows", 200, "paper", dict.fromkeys(BOTH, 1.20), 20_000),
    Case("200,000 rows", 200, "share", {"lightgbm": 1.05, "xgboost": 1.08}, 200_000),
    Case("200,000 rows", 200, "paper", dict.fromkeys(BOTH, 1.05), 200_000),
    Case("Adult, aware", 100, "default", dict.fromkeys(BOTH, 2.2)),
    Case("Adult, blind", 100, "default", dict.fromkeys(BOTH, 2.2)),
]


def engine(name: str, trees: int) -> Any:
    if name == "lightgbm":
        return LGBMClassifier(n_estimators=trees, n_jobs=THREADS, verbose=-1)
    return XGBClassifier(n_estimators=trees, n_jobs=THREADS, enable_categorical=True)


def fits(case: Case, name: str) -> dict[str, Callable[[], Any]]:
    """What to time: a plain and a fair fit."""
    X, y, groups = case.read()

    def fair() -> Any:
        model = FairGBMClassifier(
            engine(name, case.trees), constraint="equal_opportunity", **WAYS[case.way]
        )
        return model.fit(X, y, sensitive_features=groups)

    kinds = {"plain": lambda: engine(name, case.trees).fit(X, y), "fair": fair}
    if case.way == "default":
        kinds["alone"] = lambda: boosters_alone(name, case.trees, X, np.asarray(y))
    return kinds


def boosters_alone(name: str, trees: int, X: Any, y: np.ndarray) -> None:
    """Grow what cross-fitting grows, by the stock engine: less than this it cannot take."""
    fold = np.random.default_rng(0).permutation(np.arange(len(y)) % fold_count(len(y)))

    def grow(k: int) -> None:
        rows = np.flatnonzero(fold != k)
        model = engine(name, trees).set_params(n_jobs=1)
        model.fit(X.iloc[rows] if hasattr(X, "iloc") else X[rows], y[rows])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(grow, range(-1, fold.max() + 1)))


def alternate(kinds: dict[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Seconds of each kind of fit, in turn; the first of each is for warming up."""
    seconds = defaultdict(list)
    for k in range(repeats + 1):
        for kind in kinds if k % 2 else reversed(kinds):
            start = time.perf_counter()
            kinds[kind]()
            if k:
                seconds[kind].append(time.perf_counter() - start)
    return {kind: np.array(found) for kind, found in seconds.items()}


def ratio(seconds: dict[str, np.ndarray]) -> tuple[float, str]:
    """Ratio of medians, and it with its interval."""
    plain, fair = seconds["plain"], seconds["fair"]
    draws = np.random.default_rng(0).integers(0, len(plain), (2_000, len(plain)))
    drawn = np.median(fair[draws], axis=1) / np.median(plain[draws], axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    value = float(np.median(fair) / np.median(plain))
    return value, f"{value:.2f} [{low:.2f}, {high:.2f}]"


def ratios(repeats: int) -> list[list[str]]:
    lines = []
    cases = [c for c in CASES if c.rows or "adult" in available()]
    for name in BOTH:
        for case in tqdm(cases, desc=f"ratios, {name}"):
            seconds = alternate(fits(case, name), repeats if case.rows < 100_000 else repeats // 2)
            plain, fair = (f"{np.median(seconds[kind]):.3f}" for kind in ("plain", "fair"))
            found, alone = ratio(seconds)[1], ""
            if "alone" in seconds:
                alone = f"{np.median(seconds['alone']) / np.median(seconds['plain']):.2f}"
            goal = f"{case.goals[name]:.2f}"
            said = [name, case.title, str(case.trees), case.way, plain, fair, found, goal, alone]
            lines.append(said)
    return lines


# Where the time goes

PARTS = {
    "memberships": (rows, "_memberships"),
    "engine": (None, "train"),
    "rounds played": (Session, "play"),
    "followers": (Lockstep, "_follow"),
}


@contextmanager
def stopwatches(name: str) -> Iterator[dict[str, float]]:
    """Seconds spent in each part, those of several threads added up."""
    seconds: dict[str, float] = defaultdict(float)
    lock, old = Lock(), []
    for part, (owner, function) in PARTS.items():
        owner = owner or {"lightgbm": LightGBMEngine, "xgboost": XGBoostEngine}[name]
        known = getattr(owner, function)

        def timed(*args: Any, known: Any = known, part: str = part, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return known(*args, **options)
            finally:
                with lock:
                    seconds[part] += time.perf_counter() - start

        old.append((owner, function, known))
        setattr(owner, function, timed)
    try:
        yield seconds
    finally:
        for owner, function, known in old:
            setattr(owner, function, known)


def profile(repeats: int) -> list[list[str]]:
    lines = []
    for name in BOTH:
        for n in (5_000, 20_000, 50_000, 200_000):
            kinds = fits(Case("", 200, "default", rows=n), name)
            kinds["fair"](), kinds["plain"]()
            runs = []
            for _ in range(max(1, repeats // (4 if n >= 50_000 else 2))):
                start = time.perf_counter()
                kinds["plain"]()
                plain = time.perf_counter() - start
                with stopwatches(name) as seconds:
                    start = time.perf_counter()
                    kinds["fair"]()
                    whole = time.perf_counter() - start
                learned, trained = seconds["memberships"], seconds["engine"]
                runs.append([
                    whole, learned, trained, seconds["rounds played"], seconds["followers"],
                    whole - learned - trained, plain,
                ])  # fmt: skip
            *parts, plain = np.median(runs, axis=0)
            lines.append([name, f"{n:,}", f"{plain:.2f}", *(f"{p / plain:.2f}" for p in parts)])
    return lines


# Under load


def under_load(repeats: int) -> list[list[str]]:
    lines = []
    title = "Adult, aware" if "adult" in available() else "20,000 rows"
    case = next(c for c in CASES if c.title == title and c.way == "default")
    for name in BOTH:
        kinds, idle = fits(case, name), 0.0
        del kinds["alone"]
        for others in (0, 1, 2, 4):
            burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(others)]
            try:
                seconds = alternate(kinds, 3)
            finally:
                for process in burning:
                    process.kill()
                    process.wait()
            value, said = ratio(seconds)
            idle = idle or value
            plain, fair = (f"{np.median(seconds[kind]):.2f}" for kind in ("plain", "fair"))
            lines.append([name, title, str(others), plain, fair, said, f"{value / idle:.2f}"])
    return lines


# Searches


def searches(repeats: int) -> list[list[str]]:
    """A curve of 20 tolerances and a search of ten trials, over a plain fit of the same trees."""
    lines = []
    for name in BOTH:
        seconds = alternate(_searches_of(engine(name, 100)), max(1, repeats // 2))
        plain, curve, tuned = (np.median(seconds[kind]) for kind in ("plain", "curve", "tune"))
        lines.append([name, f"{plain:.2f}", f"{curve / plain:.1f}", f"{tuned / plain:.1f}"])
    return lines


def _searches_of(model: Any) -> dict[str, Callable[[], Any]]:
    X, y, groups = make(20_000, 4)
    asked = {"sensitive_features": groups, "constraint": "equal_opportunity"}
    return {
        "plain": lambda: model.fit(X, y),
        "curve": lambda: tradeoff_curve(model, X, y, **asked),
        "tune": lambda: tune(model, X, y, n_trials=10, **asked),
    }


def import_times() -> str:
    """Seconds that a process takes to import fairboost, and LightGBM alone."""
    found = []
    for module in ("lightgbm", "fairboost"):
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            runs.append(time.perf_counter() - start)
        found.append(np.median(runs))
    return f"`import fairboost` takes {found[1]:.2f} s, `import lightgbm` {found[0]:.2f} s."


def page(repeats: int) -> Iterator[str]:
    """The page, section by section."""
    titles = ["engine", "data", "trees", "way", "plain, s", "fair, s", "ratio", "to reach"]
    titles.append("boosters alone")
    yield f"""# Small data and busy machines

Made by `python -m benchmarks.small_data`: {FEATURES} features and 4 groups that are not among
them, unless it says Adult, whose groups are the sexes (blind: without that column); equal
opportunity, {THREADS} threads, {MADE}. Plain and fair fits alternate. Ratios are
ratios of medians, with bootstrap intervals over the fits. `default` cross-fits at these sizes and
learns memberships from 20,000 rows on, unless features reveal the groups. `share` holds out a
fifth of the rows and takes groups as observed. `paper` is the paper's algorithm on the training
rows. The last column is the time of the stock engine for the boosters of cross-fitting, one for
all rows and one for each fold, side by side on one thread each. If the boosters of the folds take
turns (LightGBM at its default learning rate), they grow half of those trees. If a ratio is above
the goal, the rest of the time goes to three parts: scores of the left-out rows (a quarter of a
booster's time on LightGBM, a third on XGBoost with categories, timed by hand), Python between the
rounds, and memberships of blind models.

{markdown_table(titles, ratios(repeats))}

{import_times()}
"""
    titles = ["engine", "rows", "plain, s", "whole", "memberships", "engine"]
    titles += ["of it: rounds played", "beside it: followers", "rest"]
    yield f"""
## Where the time goes

A default fit of 200 trees in units of the plain fit, whose seconds come first. The engine's time
has rounds played (gradients, moments and multipliers) in it. Followers are the further boosters
of cross-fitting; they grow beside the one that is kept, so theirs is the time of their threads.

{markdown_table(titles, profile(repeats))}
"""
    titles = ["engine", "plain, s", "tradeoff_curve, 20 tolerances", "tune, 10 trials"]
    yield f"""
## Curves and searches

20,000 rows, 100 trees, defaults, over the plain fit. The trials of `tune` draw their own numbers
of trees, up to 500.

{markdown_table(titles, searches(repeats))}
"""
    titles = ["engine", "data", "other processes", "plain, s", "fair, s", "ratio", "over idle"]
    yield f"""
## Under load

Other processes keep the cores busy. The last column compares the ratio with the ratio without
these processes (goal: 1.3). A plain fit on two threads then takes between half a second and
several seconds, so these ratios only show that cross-fitting does not suffer more than a plain
fit.

{markdown_table(titles, under_load(repeats))}
"""


def on_cores(n: int, repeats: int) -> list[list[str]]:
    """A line per engine, in a process that has so many cores and threads."""
    global THREADS  # the process is for this alone
    THREADS = n
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n])
    warnings.simplefilter("ignore", FairnessWarning)
    lines = []
    for name in BOTH:
        case = Case("20,000 rows", 200, "default", {}, 20_000)
        seconds = alternate(fits(case, name), repeats)
        plain, fair = (float(np.median(seconds[kind])) for kind in ("plain", "fair"))
        alone = float(np.median(seconds["alone"])) / plain
        lines.append([name, str(n), f"{plain:.3f}", f"{fair:.3f}",
                      f"{fair / plain:.2f}", f"{alone:.2f}"])  # fmt: skip
    return lines


def cores_page(counts: list[int], repeats: int) -> str:
    """The default fit on several numbers of cores."""
    spawn = multiprocessing.get_context("spawn")
    lines = []
    for n in counts:
        with ProcessPoolExecutor(1, spawn) as pool:
            lines += pool.submit(on_cores, n, repeats).result()
    titles = ["engine", "cores", "plain, s", "fair, s", "ratio", "boosters alone"]
    return f"""# A default fit on more cores

Made by `python -m benchmarks.small_data --cores`: 20,000 rows, 200 trees, the rest as in
small_data.md; {MADE}. As many threads as cores; plain and fair fits alternate, ratios of medians.
Goal on 8 cores or more: 1.5. Trees of so few rows grow little faster on more cores. Memberships
and the Python code of the rounds do not get faster at all: each takes two thirds of the time of a
plain fit (timed by hand on 8 cores).

{markdown_table(titles, lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer fits, writes nothing")
    parser.add_argument("--cores", type=int, nargs="+", help="only the default, on so many cores")
    asked = parser.parse_args()
    quick = asked.quick
    if asked.cores:
        text = cores_page(asked.cores, 2 if quick else 7)
        print(text)
        if not quick:
            (HERE / "small_data_cores.md").write_text(text)
        return
    warnings.simplefilter("ignore", FairnessWarning)
    text = ""
    for section in page(2 if quick else 7):
        text += section
        print(section, flush=True)
        if not quick:
            (HERE / "small_data.md").write_text(text)


if __name__ == "__main__":
    main()
