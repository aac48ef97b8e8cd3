"""Constraints on a predicted number, measured on test rows: grades, incomes, counts of claims.

Every seed draws rows anew and splits them 80/20 into training and test rows. All methods get the
same training rows and are judged on the same test rows. Results are kept one JSON line per case,
method and seed, so that a run that was cut short goes on where it ended.

    python -m benchmarks.regression              # 10 minutes on one core; writes regression.md
    python -m benchmarks.regression --table      # writes it from what is kept, fits nothing
    python -m benchmarks.regression --again "motor*"     # after a change

The real tables are read from FAIRBOOST_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import warnings
from pathlib import Path

from tqdm import tqdm

from benchmarks.regression_cases import SEEDS, Record, cases, recognised
from benchmarks.regression_page import page

RESULTS = Path(__file__).parents[1] / "build" / "regression.jsonl"


def read_results(path: Path, again: str = "") -> dict[tuple[str, str, int], Record]:
    """What is kept, by case, method and seed."""
    lines = path.read_text().splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    return {
        (r["case"], r["method"], r["seed"]): r
        for r in records
        if not fnmatch.fnmatch(r["case"], again)
    }


def run(path: Path, seeds: int, again: str) -> None:
    """Fit what is not among the results yet."""
    done, all_cases = read_results(path, again), cases()
    path.parent.mkdir(exist_ok=True)
    kept = path.with_suffix(".tmp")  # renamed when it is whole
    kept.write_text("".join(json.dumps(r) + "\n" for r in done.values()))
    kept.replace(path)
    work = [
        (name, method, seed)
        for seed in range(seeds)
        for name, case in all_cases.items()
        for method in case.methods
        if (name, method, seed) not in done
    ]
    for name, method, seed in (bar := tqdm(work, smoothing=0)):
        bar.set_description(f"{name}, {method}, seed {seed}")
        case = all_cases[name]
        train, test = case.split(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows what was not met
            predicted = case.methods[method](train, test, seed)
        record = {"case": name, "method": method, "seed": seed}
        record |= case.measure(test, predicted, seed)
        if name == "motor blind" and method == "plain":
            record |= recognised(train, test, seed)
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", default="", help="cases to fit anew: a name or a pattern")
    parser.add_argument("--table", action="store_true", help="fit nothing")
    options = parser.parse_args()
    if not options.table:
        run(options.results, options.seeds, options.again)
    found = read_results(options.results)
    Path(__file__).with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    main()
