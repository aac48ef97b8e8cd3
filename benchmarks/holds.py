"""How well a constraint that was asked for holds on rows that were not trained on.

Every seed splits the rows 60/20/20 at random into training, validation and test rows; all methods
get the same 80% to train on and are judged on the test rows. Results are kept one JSON line per
case, method and seed, so that a run that was cut short goes on where it ended.

    python -m benchmarks.holds run --reference-python DIR/bin/python   # hours, on one core
    python -m benchmarks.holds run --cases "adult/*" --methods plain fairboost
    python -m benchmarks.holds run --methods fairboost --again fairboost     # after a change
    python -m benchmarks.holds time                                    # fits against plain fits
    python -m benchmarks.holds table                                   # writes holds.md
    python -m benchmarks.holds run --quick                             # small, keeps nothing

The real tables are read from FAIRBOOST_DATA or ../shared/data and left out where they are missing.
The cases are in ``holds_cases.py``, methods and measures in ``holds_methods.py``, and
``holds_table.py`` makes the table.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import log_loss
from tqdm import tqdm

from benchmarks.holds_cases import CASES, EG, SOURCES, Case
from benchmarks.holds_methods import (
    METHODS,
    TOLERANCE,
    Outcome,
    Rows,
    Task,
    gap,
    group_rates,
    why_not,
)
from benchmarks.holds_table import CURVE_CASE, FIT_CASE, Results, report
from benchmarks.synthetic import make
from fairboost import FairGBMClassifier, tradeoff_curve
from fairboost.datasets import available

HERE = Path(__file__).resolve().parent
QUICK_ROWS = 20_000
REPEATS = 5


def read_results(path: Path) -> Results:
    """Records by case and method, then by seed; of two records of the same, the later one."""
    found: Results = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            key = record["case"], record["method"]
            found.setdefault(key, {})[record["seed"]] = record
    return found


def append(path: Path, record: dict) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def chosen_work(options: argparse.Namespace, done: Results) -> list[tuple[str, int, Case, str]]:
    """What is left to run: source, seed, case, method; rows and plain fits are shared in order."""
    present, work = available(), []
    refused = {m: why_not(m, options.reference_python) for m in METHODS}
    for case in CASES.values():
        source = SOURCES[case.source]
        if not any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases):
            continue
        if source.table not in (None, *present):
            print(f"skipped {case.name}: there is no table {source.table}", file=sys.stderr)
            continue
        for method in (m for m in options.methods if m in case.methods and not refused[m]):
            seeds = range(min(options.seeds or source.seeds, source.seeds))
            old = {} if method in options.again else done.get((case.name, method), {})
            work += [(case.source, seed, case, method) for seed in seeds if seed not in old]
    for method in (m for m in options.methods if refused[m]):
        print(f"skipped {method}: {refused[method]}", file=sys.stderr)
    first = list(SOURCES)
    return sorted(work, key=lambda item: (first.index(item[0]), item[1]))


def split(X: pd.DataFrame, y: np.ndarray, s: pd.Series, seed: int) -> dict[str, Rows]:
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    cuts = [int(0.6 * len(y)), int(0.8 * len(y))]
    train, validation, test = np.split(order, cuts)
    rows = Rows(X, y, s)
    return {
        "train": rows.take(train),
        "validation": rows.take(validation),
        "both": rows.take(order[: cuts[1]]),
        "test": rows.take(test),
    }


def as_record(case: Case, method: str, seed: int, test: Rows, found: Outcome) -> dict:
    loss = None if found.proba is None else float(log_loss(test.y, found.proba))
    return {
        "case": case.name,
        "method": method,
        "seed": seed,
        "accuracy": float((found.decision == test.y).mean()),
        "log_loss": loss,
        "seconds": found.seconds,
        "rates": group_rates(test.y, found.decision, test.s),
        "n_train": found.n_train,
        "version": found.version,
    }


def loose_gap(case: Case, done: Results) -> float | None:
    """The mean gap of the reductions, where they have been run."""
    records = done.get((case.name, EG), {}).values()
    return float(np.mean([gap(r, case.rates) for r in records])) if records else None


def run(options: argparse.Namespace) -> int:
    """Run what is left; the number of fits that failed."""
    done, failed = read_results(options.results), 0
    work = chosen_work(options, done)
    bar = tqdm(total=len(work), dynamic_ncols=True)
    for (name, seed), items in groupby(work, key=lambda item: item[:2]):
        source = SOURCES[name]
        X, y, sensitive = source.read(seed)
        if options.quick:
            X, y = X.iloc[:QUICK_ROWS], y[:QUICK_ROWS]
            sensitive = {c: s.iloc[:QUICK_ROWS] for c, s in sensitive.items()}
        plain_fits: dict = {}
        for _, _, case, method in items:
            bar.set_description(f"{case.name}, {method}, seed {seed}")
            task = Task(
                **split(X, y, sensitive[case.column], seed),
                constraint=case.constraint,
                seed=seed,
                n_jobs=options.n_jobs,
                options=source.options(seed),
                reference_python=options.reference_python,
                loose=loose_gap(case, done),
                plain_fits=plain_fits,
            )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the table shows what was not met
                    found = METHODS[method](task)
                append(options.results, as_record(case, method, seed, task.test, found))
            except Exception as error:  # one method that fails must not cost the night's run
                failed += 1
                bar.write(f"FAILED {case.name}, {method}, seed {seed}: {error!r}")
            bar.update()
    bar.close()
    return failed


def time_fits(options: argparse.Namespace) -> None:
    """A default fit, and a curve of 20 points, each against a plain fit on all rows."""
    asked = {"constraint": "equal_opportunity"}

    def engine() -> LGBMClassifier:
        return LGBMClassifier(verbose=-1, n_jobs=options.n_jobs, random_state=0)

    def fit(X, y, s) -> None:
        model = FairGBMClassifier(engine(), tolerance=TOLERANCE, random_state=0, **asked)
        model.fit(X, y, sensitive_features=s)

    def curve(X, y, s) -> None:
        tradeoff_curve(engine(), X, y, sensitive_features=s, **asked)

    def compare(case: str, n: int, ours: Callable) -> None:
        X, y, s = make(n, 2)
        calls = {"plain": lambda: engine().fit(X, y), "fairboost": lambda: ours(X, y, s)}
        # In alternating order: absolute seconds drift on shared machines.
        for k in tqdm(range(max(REPEATS, options.repeats)), desc=case):
            for method in list(calls) if k % 2 == 0 else reversed(calls):
                start = time.perf_counter()
                calls[method]()
                seconds = time.perf_counter() - start
                record = {"case": case, "method": method, "seed": k, "seconds": seconds}
                append(options.results, record)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(*make(QUICK_ROWS, 2))  # caches, compilation
        compare(FIT_CASE, 1_000_000, fit)
        compare(CURVE_CASE, 200_000, curve)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", type=Path, default=HERE / ".holds.jsonl")
    shared.add_argument("--n-jobs", type=int, default=1)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", parents=[shared], help="fit what is not in the results yet")
    runs.add_argument("--cases", nargs="+", default=["*"], help="names or patterns")
    runs.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    runs.add_argument("--seeds", type=int, help="at most so many")
    runs.add_argument("--again", nargs="+", default=[], choices=list(METHODS), metavar="METHOD")
    runs.add_argument(
        "--reference-python", metavar="PATH", help="see fairboost.study.reference_fairgbm"
    )
    runs.add_argument("--quick", action="store_true", help="small, one seed, keeps nothing")
    times = commands.add_parser("time", parents=[shared], help="time fits against plain fits")
    times.add_argument("--repeats", type=int, default=REPEATS)
    commands.add_parser("table", parents=[shared], help="write holds.md from the results")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.command == "time":
        time_fits(options)
    elif options.command == "table":
        (HERE / "holds.md").write_text(report(read_results(options.results)))
    elif options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.results, options.seeds = Path(folder, "results.jsonl"), 1
            failed = run(options)
            print(report(read_results(options.results)))
        return bool(failed)
    else:
        return bool(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
