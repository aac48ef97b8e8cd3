"""Equal false positive rates where 5% of the honest are refused, and the fraud that is found.

The paper's second case study, on generated account openings (training on months 0 to 5, choosing
on month 6, judged on month 7), on the same rows without drift, and on a public sample. Results are
kept one JSON line per case, method and seed, so that a run that was cut short goes on where it
ended.

    python -m benchmarks.operating_point run --reference-python DIR/bin/python   # hours
    python -m benchmarks.operating_point run --cases "openings/*" --methods plain fairboost
    python -m benchmarks.operating_point run --methods fairboost --again fairboost
    python -m benchmarks.operating_point configurations --again fairboost
    python -m benchmarks.operating_point time
    python -m benchmarks.operating_point table                  # writes operating_point.md
    python -m benchmarks.operating_point run --quick            # small, keeps nothing

The public sample is read from FAIRBOOST_DATA or ../shared/data and left out where it is missing.
The rows are in ``operating_point_cases.py``, methods and measures in
``operating_point_methods.py``, and ``operating_point_table.py`` makes the table.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
import warnings
from itertools import groupby
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks.holds import append, read_results
from benchmarks.holds_cases import log_uniform
from benchmarks.holds_methods import why_not
from benchmarks.holds_table import Results
from benchmarks.operating_point_cases import (
    CASES,
    CONFIG_METHODS,
    CONFIGS,
    OURS,
    PLAIN,
    TIMING,
    Case,
    openings,
)
from benchmarks.operating_point_methods import ENGINE, METHODS, Task, measured
from benchmarks.operating_point_table import report
from fairboost.datasets import available, make_account_opening
from fairboost.study.data import Rows

HERE = Path(__file__).resolve().parent
ROWS = 500_000
QUICK_ROWS = 50_000
SEEDS = 5
REPEATS = 5


def chosen_work(options: argparse.Namespace, done: Results) -> list[tuple[Case, int, str]]:
    """What is left to run, one case and seed after the other: their rows are shared."""
    methods = [m for m in METHODS if m in options.methods]
    for method in methods:
        if refused := why_not(method, options.reference_python):
            print(f"skipped {method}: {refused}", file=sys.stderr)
            methods = [m for m in methods if m != method]
    work = []
    for case in CASES.values():
        if not any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases):
            continue
        if case.table not in (None, *available()):
            print(f"skipped {case.name}: there is no table {case.table}", file=sys.stderr)
            continue
        for seed in options.seeds:
            for method in (m for m in methods if m in case.methods):
                old = {} if method in options.again else done.get((case.name, method), {})
                if seed not in old:
                    work.append((case, seed, method))
    return work


def attempt(path: Path, bar: tqdm, task: Task, record: dict) -> int:
    """One method on one split; 1 if it failed."""
    bar.set_description(f"{record['case']}, {record['method']}, seed {record['seed']}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows what was not met
            found = measured(task, METHODS[record["method"]](task))
        append(path, {**record, **found, "rows": len(task.train)})
    except Exception as error:  # one method that fails must not cost the night's run
        bar.write(f"FAILED {record}: {error!r}")
        return 1
    finally:
        bar.update()
    return 0


def run(options: argparse.Namespace) -> int:
    """Run what is left; the number of fits that failed."""
    work, failed = chosen_work(options, read_results(options.results)), 0
    bar = tqdm(total=len(work), dynamic_ncols=True)
    for (name, seed), items in groupby(work, key=lambda item: (item[0].name, item[1])):
        parts = CASES[name].read(seed, options.rows)
        task = Task(
            *parts,
            seed=seed,
            n_jobs=options.n_jobs,
            options={**ENGINE, **CASES[name].options},
            reference_python=options.reference_python,
        )
        for _, _, method in items:
            record = {"case": name, "method": method, "seed": seed}
            failed += attempt(options.results, bar, task, record)
    bar.close()
    return failed


def configuration(number: int) -> dict:
    """Options number so-and-so of the engine, each log-uniform."""
    draw = log_uniform(np.random.default_rng([number, 8]))
    return {
        "n_estimators": round(draw(50, 500)),
        "num_leaves": round(draw(7, 127)),
        "learning_rate": draw(0.02, 0.3),
        "min_child_samples": round(draw(5, 500)),
    }


def configurations(options: argparse.Namespace) -> int:
    """Each random configuration on rows of its own; the number of fits that failed."""
    done, failed = read_results(options.results), 0
    work = [
        (number, method)
        for number in range(max(CONFIG_METHODS.values()))
        for method, count in CONFIG_METHODS.items()
        if method in options.methods
        and number < count
        and (method in options.again or number not in done.get((CONFIGS, method), {}))
    ]
    bar = tqdm(total=len(work), dynamic_ncols=True)
    for number, items in groupby(work, key=lambda item: item[0]):
        chosen = configuration(number)
        parts = openings(number, options.rows)
        task = Task(*parts, seed=number, n_jobs=options.n_jobs, options=chosen)
        for _, method in items:
            record = {"case": CONFIGS, "method": method, "seed": number, "options": chosen}
            failed += attempt(options.results, bar, task, record)
    bar.close()
    return failed


def time_fits(options: argparse.Namespace) -> None:
    """A fit at the operating point against a plain one on all of the same rows."""
    made = make_account_opening(options.rows)
    rows = Rows(made.X, made.y, made.age_group)
    few, calls = rows.take(slice(1_000)), {PLAIN: METHODS[PLAIN], OURS: METHODS[OURS]}
    task, small = (
        Task(train, few, few, None, seed=0, n_jobs=options.n_jobs)
        for train in (rows, rows.take(slice(QUICK_ROWS)))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        METHODS[OURS](small)  # caches, compilation
        # In alternating order: absolute seconds drift on shared machines.
        for k in tqdm(range(options.repeats), desc="timing"):
            for method in list(calls) if k % 2 == 0 else reversed(calls):
                seconds = calls[method](task).seconds
                record = {"case": TIMING, "method": method, "seed": k, "seconds": seconds,
                          "rows": len(rows), "n_jobs": options.n_jobs}  # fmt: skip
                append(options.results, record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", type=Path, default=HERE / ".operating_point.jsonl")
    shared.add_argument("--n-jobs", type=int, default=1)
    shared.add_argument("--rows", type=int, default=ROWS, help="rows to generate")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", parents=[shared], help="fit what is not in the results yet")
    runs.add_argument("--cases", nargs="+", default=["*"], help="names or patterns")
    runs.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    runs.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)))
    runs.add_argument("--again", nargs="+", default=[], choices=list(METHODS), metavar="METHOD")
    runs.add_argument(
        "--reference-python", metavar="PATH", help="see fairboost.study.reference_fairgbm"
    )
    runs.add_argument("--quick", action="store_true", help="small, one seed, keeps nothing")
    random = commands.add_parser(
        "configurations", parents=[shared], help="random options of the engine"
    )
    random.add_argument("--methods", nargs="+", default=list(CONFIG_METHODS), metavar="METHOD")
    random.add_argument("--again", nargs="+", default=[], metavar="METHOD")
    times = commands.add_parser("time", parents=[shared], help="time fits against plain fits")
    times.add_argument("--repeats", type=int, default=REPEATS)
    commands.add_parser("table", parents=[shared], help="write operating_point.md")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.command == "time":
        time_fits(options)
    elif options.command == "configurations":
        return bool(configurations(options))
    elif options.command == "table":
        (HERE / "operating_point.md").write_text(report(read_results(options.results)))
    elif options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.results, options.seeds = Path(folder, "results.jsonl"), [0]
            options.rows = min(options.rows, QUICK_ROWS)
            failed = run(options)
            print(report(read_results(options.results)))
        return bool(failed)
    else:
        return bool(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
