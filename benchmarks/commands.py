"""What the commands cost: an audit of ten million rows, training beside the library, Adult.

Every figure is that of a process of its own, from its start to its end, imports included. Beside
the time that passed is the processors' time, which says more on a machine that others use too.
Memory is the peak of the resident set. Training is compared with a script that does the same work
by the library: reads the table, splits, fits, judges the test rows, saves, writes the report; and
with one that leaves the report out. They alternate.

    python -m benchmarks.commands            # about ten minutes; writes commands.md beside this
    python -m benchmarks.commands --quick    # a minute, smaller sizes, writes nothing
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import fairboost
from fairboost.datasets import available, make_loans
from fairboost.datasets.files import find_file

HERE = Path(__file__).resolve().parent
CHUNK = 1_000_000

CHILD = """
import sys
from pathlib import Path
{work}
status = Path("/proc/self/status").read_text()
peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
print("peak", peak.split()[1], file=sys.stderr)
"""

COMMAND = "from fairboost.cli import main\ncode = main({words!r})\nassert code in (0, 3), code\n"

LIBRARY = """
import fairboost, pandas as pd
from lightgbm import LGBMClassifier
from sklearn.model_selection import train_test_split
table = pd.read_parquet({data!r})
y, groups = (table.pop("approved") == "yes").astype(int), table.pop("sex")
table = table.drop(columns=["age_band", "id"])
text = table.select_dtypes("str").columns
table = table.astype(dict.fromkeys(text, "category"))
parts = train_test_split(table, y, groups, test_size=0.2, random_state=0, stratify=y)
X, X_test, y, y_test, g, g_test = parts
engine = LGBMClassifier(n_estimators={trees}, n_jobs={jobs}, verbose=-1)
model = fairboost.FairGBMClassifier(
    engine, constraint="equal_opportunity", tolerance=0.02, random_state=0
)
model.fit(X, y, sensitive_features=g)
print(model.report_on(X_test, y_test, sensitive_features=g_test))
model.save({out!r} + ".json")
model.export({out!r} + ".txt")
"""


REPORT = """
from pathlib import Path
from fairboost.report import gather, write_report
evidence = gather(model, X_test, y_test, sensitive_features=g_test)
folder = Path({out!r} + "-report")
folder.mkdir(exist_ok=True)
write_report(evidence, folder)
"""


class Cost(NamedTuple):
    """Seconds that passed, seconds of the processors, and peak memory in MiB."""

    seconds: float
    cpu: float
    peak: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s | {self.cpu:.1f} s | {self.peak:,.0f}"


def run(work: str) -> Cost:
    """What a process costs that does some work."""
    start, used = time.perf_counter(), _cpu()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD.format(work=work)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr)
    peak = float(done.stderr.rsplit("peak", 1)[1]) / 1024
    return Cost(seconds, _cpu() - used, peak)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command(*words: object) -> Cost:
    return run(COMMAND.format(words=[*map(str, words), "--quiet"]))


def write_scores(path: Path, rows: int) -> None:
    """Scored rows with three sensitive columns, written in pieces."""
    rng = np.random.default_rng(0)
    writer = None
    for _ in range(max(rows // CHUNK, 1)):
        n = min(rows, CHUNK)
        y = rng.random(n) < 0.3
        score = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.2 * y - 0.8)))
        race = rng.choice(list("ABCDEF"), n, p=[0.5, 0.2, 0.15, 0.1, 0.04, 0.01])
        table = pa.table(
            {
                "id": np.arange(n),
                "y": y.astype(np.int8),
                "p": score,
                "sex": rng.choice(["F", "M"], n),
                "race": race,
                "age": rng.choice(["18-24", "25-39", "40-59", "60+", "unknown"], n),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def audits(folder: Path, rows: int) -> list[str]:
    parquet, csv = folder / "scores.parquet", folder / "scores.csv"
    write_scores(parquet, rows)
    with pa.csv.CSVWriter(csv, pq.read_schema(parquet)) as writer:
        for batch in pq.ParquetFile(parquet).iter_batches(CHUNK):
            writer.write_batch(batch)
    words = ("--label", "y", "--score", "p", "--sensitive", "sex", "--sensitive", "race",
             "--sensitive", "age")  # fmt: skip
    lines = []
    for path in (parquet, csv):
        for title, more in (
            ("at a threshold, one pass", ()),
            ("at an operating point, two passes", ("--at-fpr", "0.05")),
            ("with a report", ("--out", folder / "audit", "--force")),
        ):
            cost = command("audit", path, *words, *more)
            size = path.stat().st_size / 2**20
            lines.append(f"| {path.suffix[1:]}, {size:,.0f} MiB | {title} | {cost} |")
            print(lines[-1], flush=True)
    return lines


def write_loans(path: Path, rows: int) -> None:
    made = make_loans(rows, seed=0)
    text = made.X.select_dtypes("category").columns
    table = pd.concat([made.X.astype(dict.fromkeys(text, "str")), made.sensitive], axis=1)
    table.insert(0, "id", [f"A{k:07d}" for k in range(rows)])
    table["approved"] = np.where(made.y == 1, "yes", "no")
    table.to_parquet(path)


def trainings(folder: Path, rows: int, trees: int, jobs: int, repeats: int) -> str:
    """Time of the command over that of a script that uses the library."""
    data = folder / "loans.parquet"
    write_loans(data, rows)
    words = (
        "train", data, "--label", "approved", "--sensitive", "sex", "--drop", "age_band",
        "--constraint", "equal_opportunity", "--tolerance", "0.02", "--no-trade-off",
        "--option", f"n_estimators={trees}", "--jobs", jobs, "--out", folder / "model", "--force",
    )  # fmt: skip
    script = LIBRARY.format(data=str(data), trees=trees, jobs=jobs, out=str(folder / "library"))
    same = script + REPORT.format(out=str(folder / "library"))
    costs = [[run(script), run(same), command(*words)] for _ in range(repeats)]
    fit, library, whole = np.median(costs, axis=0)
    line = (
        f"| {rows:,} | {fit[0]:.1f} s | {library[0]:.1f} s | {whole[0]:.1f} s | "
        f"{whole[0] / library[0]:.2f} | {whole[1] / library[1]:.2f} | "
        f"{whole[2] / library[2]:.2f} | {whole[0] / fit[0]:.2f} |"
    )
    print(line, flush=True)
    return line


def adult(folder: Path, jobs: int) -> str:
    """Adult from CSV to report, with the alternatives."""
    if "adult" not in available():
        return "Adult is not at hand (FAIRBOOST_DATA)."
    table = pd.read_parquet(find_file("adult", None))
    table.to_csv(folder / "adult.csv", index=False)
    out = folder / "adult"
    cost = command(
        "train", folder / "adult.csv", "--label", "label", "--sensitive", "sex", "--sensitive",
        "race", "--drop", "fnlwgt", "--drop", "split", "--constraint", "equal_opportunity",
        "--tolerance", "0.02", "--jobs", jobs, "--out", out,
    )  # fmt: skip
    size = (out / "report.html").stat().st_size / 2**20
    return (
        f"{len(table):,} rows, two sensitive columns, {size:.2f} MiB of report, alternatives "
        f"included: {cost.seconds:.1f} s ({cost.cpu:.1f} s of the processors), "
        f"{cost.peak:,.0f} MiB."
    )


def page(options: argparse.Namespace, lines: list[str], trained: list[str], on_adult: str) -> str:
    return "\n".join(
        [
            "# What the commands cost",
            "",
            f"fairboost {fairboost.__version__}, {os.cpu_count()} cores, {options.jobs} threads "
            "for engines. Each figure is for one process from start to end, including imports "
            "(python -m benchmarks.commands).",
            "",
            f"## `fairboost audit`, {options.audit:,} rows x 3 sensitive columns",
            "",
            "To reach: 60 s and 2,048 MiB on two cores.",
            "",
            "| file | | time | processors | peak memory, MiB |",
            "|---|---|---|---|---|",
            *lines,
            "",
            "## `fairboost train` beside the library",
            "",
            "A script that uses the library (read, split, fit, judge the test rows, save, write "
            "the report) does the same work as the command with `--no-trade-off`. Figures are "
            "medians of alternating runs. The goal is a ratio of 1.1. The first column is the "
            "script without its report, whose pictures take 1.5 seconds for any number of rows.",
            "",
            "| rows | library, no report | library | command | ratio | of processors | of memory "
            "| command / library, no report |",
            "|---|---|---|---|---|---|---|---|",
            *trained,
            "",
            "## Adult, from CSV to report",
            "",
            "To reach: 30 s, and a report of less than 2 MB.",
            "",
            on_adult,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.audit = 1_000_000 if options.quick else 10_000_000
    sizes = [50_000] if options.quick else [200_000, 1_000_000]
    repeats = 1 if options.quick else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        on_adult = adult(folder, options.jobs)
        print(on_adult, flush=True)
        lines = audits(folder, options.audit)
        trained = [trainings(folder, n, 100, options.jobs, repeats) for n in sizes]
    text = page(options, lines, trained, on_adult)
    if options.quick:
        print(text)
    else:
        (HERE / "commands.md").write_text(text)


if __name__ == "__main__":
    main()
