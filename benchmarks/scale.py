"""Time and memory on a Dask cluster, over plain XGBoost on the same cluster.

Rows are generated in chunks and written as parquet files to a temporary folder; both kinds of fit
read them from there. Every fit gets a cluster of its own, started and warmed up before the clock
runs, so that the peak of memory of its workers is its own. Plain and constrained fits alternate.

    python -m benchmarks.scale                       # 1, 5 and 20 million rows; writes scale.md
    python -m benchmarks.scale --rows 200000         # a few minutes, prints
    python -m benchmarks.scale --rows 1000000 --workers 1 2 4 --repeats 5
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from tqdm import tqdm
from xgboost.dask import DaskXGBClassifier

import fairboost
from benchmarks.synthetic import FEATURES, make
from fairboost import FairGBMClassifier

HERE = Path(__file__).resolve().parent
ROUNDS = 100
FILE_ROWS = 250_000
COLUMNS = [f"x{k}" for k in range(FEATURES)]
WARM_UP = 5_000
LONG = 5_000_000
TARGET = 1.08


def write_rows(folder: Path, n: int) -> None:
    """Write rows in files of equal size."""
    folder.mkdir()
    for k in tqdm(range(0, n, FILE_ROWS), desc=f"writing {n:,} rows", leave=False):
        X, y, g = make(min(FILE_ROWS, n - k), 2, seed=k)
        frame = pd.DataFrame(X.astype(np.float32), columns=COLUMNS)
        frame["y"], frame["g"] = y.astype(np.int8), g.astype(np.int8)
        frame.to_parquet(folder / f"part-{k // FILE_ROWS:05d}.parquet", index=False)


def read(folder: Path) -> Any:
    """All columns at once: plain XGBoost needs labels in the partitions of the features.

    Of one column alone, Dask reads several files as one partition.
    """
    return dd.read_parquet(folder).map_partitions(lambda part: part)


def fit(kind: str, rows: Any) -> Any:
    engine = DaskXGBClassifier(n_estimators=ROUNDS)
    if kind == "plain":
        return engine.fit(rows[COLUMNS], rows["y"])
    model = FairGBMClassifier(engine, constraint="equal_opportunity")
    return model.fit(rows[COLUMNS], rows["y"], sensitive_features=rows["g"])


def peak() -> float:
    """Peak resident megabytes of this process; Linux only."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(kind: str, folder: Path, warm_up: Path, n_workers: int) -> dict[str, float]:
    """Seconds of one fit, reading included, and the peaks of its workers."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # nothing is to be spilled to disk
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        fit(kind, dd.read_parquet(warm_up).repartition(npartitions=2 * n_workers))
        before = max(client.run(peak).values())
        start = time.perf_counter()
        model = fit(kind, read(folder))
        seconds = time.perf_counter() - start
        peaks = list(client.run(peak).values())
        found = {"seconds": seconds, "peak": max(peaks), "warm": before}
        if kind == "fair":
            found["bytes"] = model.cluster_.bytes_per_round
        return found


def compare(folder: Path, warm_up: Path, n: int, n_workers: int, repeats: int) -> str:
    """One line of the table."""
    found: dict[str, list[dict[str, float]]] = {"plain": [], "fair": []}
    for k in tqdm(range(repeats), desc=f"{n:,} rows, {n_workers} workers", leave=False):
        for kind in ("plain", "fair") if k % 2 == 0 else ("fair", "plain"):
            found[kind].append(measure(kind, folder, warm_up, n_workers))
    seconds, peaks = (
        {kind: np.array([m[what] for m in ms]) for kind, ms in found.items()}
        for what in ("seconds", "peak")
    )
    plain, fair = (float(np.median(seconds[kind])) for kind in ("plain", "fair"))
    pairs = seconds["fair"] / seconds["plain"]
    plain_mb, fair_mb = (float(np.median(peaks[kind])) for kind in ("plain", "fair"))
    return (
        f"| {n:,} | {n_workers} | {repeats} | {plain:.1f} | {fair:.1f} | {fair / plain:.3f} "
        f"[{pairs.min():.3f}, {pairs.max():.3f}] | {plain_mb:,.0f} | {fair_mb:,.0f} "
        f"| {fair_mb / plain_mb:.3f} | {found['fair'][0]['bytes']:.0f} |"
    )


def report(sizes: list[int], workers: list[int], repeats: int) -> str:
    lines = [
        "# Scale: a Dask cluster, over plain XGBoost on it",
        "",
        f"Made by `python -m benchmarks.scale`: generated rows of {FEATURES} features in single "
        f"precision, read from parquet files of {FILE_ROWS:,} rows, {ROUNDS} trees of depth 6, "
        "equal opportunity between two groups, `FairGBMClassifier` at its defaults. Workers are "
        f"processes of one machine, with one thread each. Python {platform.python_version()}, "
        f"XGBoost {version('xgboost')}, Dask {version('dask')}, fairboost "
        f"{fairboost.__version__}.",
        "",
        "Seconds are medians of the time of `fit`, including reading, over alternating fits. Each "
        "fit has a cluster of its own that was warmed up. The ratio "
        f"(goal: {TARGET}) is that of the medians, with the smallest and the largest ratio of a "
        "pair. Memory is the peak of the worker that needs most, in MB. Bytes are those that a "
        "worker sends for the sums of the constraints in a round.",
        "",
        "| rows | workers | fits | plain, s | fairboost, s | ratio [pairs] | plain, MB "
        "| fairboost, MB | ratio | bytes per round |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        warm_up = Path(scratch, "warm-up")
        write_rows(warm_up, WARM_UP)
        for n in sizes:
            folder = Path(scratch, str(n))
            write_rows(folder, n)
            # Long fits are done once, what disturbs them averages out; the longest on all workers.
            for n_workers in workers if n <= LONG else workers[-1:]:
                times = repeats if n < LONG else 1
                lines.append(compare(folder, warm_up, n, n_workers, times))
                print(lines[-1], flush=True)
            for file in folder.iterdir():
                file.unlink()
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write scale.md for other sizes too")
    options = parser.parse_args()
    sizes = options.rows or [1_000_000, 5_000_000, 20_000_000]
    text = report(sizes, options.workers, options.repeats)
    if options.rows is None or options.write:
        (HERE / "scale.md").write_text(text)


if __name__ == "__main__":
    main()
