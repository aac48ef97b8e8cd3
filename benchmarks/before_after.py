"""Time of a fit before and after a change of the code, measured alternately in one run.

``python -m benchmarks.before_after OLD/src`` runs fits of the package in that folder and of the
installed one, each beside plain fits, in processes that alternate. Machines are noisy from one
hour to the next: two tables made on different days differ by more than a change of the code does.
Writes ``benchmarks/before_after.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tqdm import tqdm

HERE = Path(__file__).parent
CASES = [  # engine, rows, groups, pairs of processes, fits in each
    *((engine, 20_000, groups, 4, 9) for engine in ("lightgbm", "xgboost") for groups in (2, 20)),
    *((engine, 200_000, 2, 3, 3) for engine in ("lightgbm", "xgboost")),
    *((engine, 1_000_000, 2, 1, 3) for engine in ("lightgbm", "xgboost")),
]
CHILD = """
import json, time, warnings
from benchmarks.synthetic import make
from fairboost import FairGBMClassifier
warnings.simplefilter("ignore")
if {engine!r} == "lightgbm":
    from lightgbm import LGBMClassifier as Engine
    options = {{"verbose": -1}}
else:
    from xgboost import XGBClassifier as Engine
    options = {{"max_depth": 6}}
X, y, g = make({n}, {groups})
found = []
for k in range({fits} + 1):
    engine = Engine(n_estimators=100, n_jobs=2, **options)
    fair = FairGBMClassifier(
        engine, constraint="equal_opportunity", holdout=0.2, memberships="observed"
    )
    start = time.perf_counter()
    engine.fit(X, y)
    middle = time.perf_counter()
    fair.fit(X, y, sensitive_features=g)
    found.append([middle - start, time.perf_counter() - middle])
print(json.dumps(found[1:]))
"""


def fits(source: str, engine: str, n: int, groups: int, count: int) -> list[list[float]]:
    """Seconds of plain and fair fits by the package in a folder, the first one left out."""
    code = CHILD.format(engine=engine, n=n, groups=groups, fits=count)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(HERE.parent)])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def ratios(times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fair over plain, of medians, in 2,000 bootstrap samples of the fits."""
    drawn = times[rng.integers(0, len(times), (2_000, len(times)))]
    return np.median(drawn[..., 1], axis=1) / np.median(drawn[..., 0], axis=1)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="folder that holds the package as it was")
    before, after = parser.parse_args().before, str(HERE.parent / "src")
    rng = np.random.default_rng(0)
    lines = [
        "# A fit before and after the redesign into rooms",
        "",
        "Made by `python -m benchmarks.before_after OLD/src`: 20 features, 100 trees, 2 threads, "
        "equal opportunity, a share of 20% held out. Processes of the old and the new code "
        "alternate, and so do plain and fair fits in each. Ratios are fair over plain, of "
        "medians; the last column is the new ratio over the old one with a 95% bootstrap "
        f"interval. LightGBM {version('lightgbm')}, XGBoost {version('xgboost')}.",
        "",
        "| engine | rows | groups | fits of each | before | after | after / before [95%] |",
        "|---|---|---|---|---|---|---|",
    ]
    for engine, n, groups, pairs, count in tqdm(CASES, unit="case"):
        times: dict[str, list[list[float]]] = {before: [], after: []}
        for k in range(pairs):
            for source in (before, after) if k % 2 == 0 else (after, before):
                times[source] += fits(source, engine, n, groups, count)
        old, new = (np.array(times[source]) for source in (before, after))
        low, high = np.quantile(ratios(new, rng) / ratios(old, rng), [0.025, 0.975])
        one, two = (float(np.median(t[:, 1]) / np.median(t[:, 0])) for t in (old, new))
        lines.append(
            f"| {engine} | {n:,} | {groups} | {len(old)} | {one:.3f} | {two:.3f} | "
            f"{two / one:.3f} [{low:.3f}, {high:.3f}] |"
        )
        tqdm.write(lines[-1])
    (HERE / "before_after.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
