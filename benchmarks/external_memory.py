"""Data larger than memory on one machine: features on disk against features in memory.

A table is written as parquet, a file at a time. Then a process that may not have more memory than
the limit trains on it, once with the features loaded and once with them left on disk
(``fairboost.datasets.ParquetRows``). The limit is the operating system's (``RLIMIT_DATA``): what
goes over it fails.

    python -m benchmarks.external_memory           # some minutes; writes external_memory.md
    python -m benchmarks.external_memory --quick   # two minutes, a smaller table, writes nothing
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
FEATURES = 100
ROUNDS = 20
ROWS_PER_FILE = 100_000

CHILD = """
import resource, sys, time
from pathlib import Path
import numpy as np
import pandas as pd
from fairboost import FairGBMClassifier
from fairboost.datasets import ParquetRows
from xgboost import XGBClassifier
limit = {limit} * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
rows = ParquetRows({folder!r}, leave_out=["y", "group"], cache={cache!r})
columns = rows.columns
y, group = rows.column("y"), rows.column("group")
if {how!r} == "in memory":
    del rows
    X = pd.read_parquet({folder!r}, columns=columns)
else:
    X = rows
model = FairGBMClassifier(
    XGBClassifier(n_estimators={rounds}, n_jobs={n_jobs}),
    constraint="demographic_parity", holdout=0.2, memberships="observed",
)
start = time.perf_counter()
model.fit(X, y, sensitive_features=group)
seconds = time.perf_counter() - start
status = Path("/proc/self/status").read_text()
read = lambda name: int(status.split(name)[1].split()[0]) / 1024
positive = model.predict(X) == 1
gap = abs(positive[group == 0].mean() - positive[group == 1].mean())
print(seconds, read("VmHWM:"), gap)
"""


def write_table(folder: Path, n_files: int) -> None:
    for k in range(n_files):
        rng = np.random.default_rng(k)
        X = rng.normal(size=(ROWS_PER_FILE, FEATURES)).astype(np.float32)
        group = (rng.random(ROWS_PER_FILE) < 0.4).astype(np.int8)
        X[:, 0] += group
        log_odds = X[:, 1] - X[:, 2] * X[:, 3] - 0.8 * group
        y = (rng.random(ROWS_PER_FILE) < 1 / (1 + np.exp(-log_odds))).astype(np.int8)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(FEATURES)])
        frame.assign(y=y, group=group).to_parquet(folder / f"{k:03}.parquet")


def train(how: str, folder: Path, cache: Path, limit: int, n_jobs: int) -> str:
    """One line of the table."""
    code = CHILD.format(
        how=how, folder=str(folder), cache=str(cache), limit=limit, rounds=ROUNDS, n_jobs=n_jobs
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(HERE.parent)),
            # Arrow's own allocator sets a gigabyte aside whatever it is for.
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
        return f"| {how} | fails: {why[:80]} | | | |"
    seconds, peak, gap = map(float, done.stdout.split())
    return f"| {how} | trained | {seconds:.0f} | {peak:.0f} | {gap:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=None, help="megabytes")
    options = parser.parse_args()
    n_files = 20 if options.quick else 60
    size = n_files * ROWS_PER_FILE * FEATURES * 4 / 2**20
    limit = options.limit or (1_300 if options.quick else 1_900)
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "table", Path(place) / "cache"
        folder.mkdir()
        cache.mkdir()
        write_table(folder, n_files)
        lines = [
            "# Data larger than memory",
            "",
            f"Made by `python -m benchmarks.external_memory`: {n_files * ROWS_PER_FILE:,} rows of "
            f"{FEATURES} features, {size:,.0f} MB in single precision, as parquet; {ROUNDS} trees "
            f"of depth 6, demographic parity, a share of 20% held out, {options.n_jobs} threads. "
            f"The process may have {limit:,} MB of data (`RLIMIT_DATA`). The peak is of resident "
            "memory, and counts the pages of files that are mapped. "
            f"XGBoost {version('xgboost')}.",
            "",
            "| features | result | seconds | peak, MB | gap |",
            "|---|---|---|---|---|",
        ]
        for how in ("in memory", "on disk"):
            lines.append(train(how, folder, cache, limit, options.n_jobs))
            print(lines[-1], flush=True)
    text = "\n".join([*lines, ""])
    if options.quick:
        print(text)
    else:
        (HERE / "external_memory.md").write_text(text)


if __name__ == "__main__":
    main()
