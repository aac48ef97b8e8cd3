"""How far a verdict can be trusted: many fits on a known law, each judged again on new rows.

Equal opportunity (false negative rates alike within .05) between two groups, 20 trees. Every fit
draws its own rows. Its fairness report is compared with what the model does to new ones: 200,000
for models of 100,000 rows, half and a quarter as many for smaller ones, whose own rows tell less.

    python -m benchmarks.verdicts collect FILE --fits 1000 --processes 2
    python -m benchmarks.verdicts table FILE...              # writes verdicts.md

Fits are appended to FILE as they end, and those that it has are not made again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from scipy.special import expit
from tqdm import tqdm

from fairboost import FairGBMClassifier
from fairboost.exceptions import FairnessWarning

TOLERANCE, TREES = 0.05, 20
NEW = {4_000: 50_000, 20_000: 100_000, 100_000: 200_000}
GROUPS = ("man", "woman")
KINDS = ("share", "cross", "set")
CONFIDENCES = (None, 0.95)


def draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (the last is the group), labels and groups.

    Women have less of what is wanted, by .4 standard deviations, and the first feature shows them
    as worse by .4 more than they are. The fourth gives the group away in part.
    """
    rng = np.random.default_rng(seed)
    woman = rng.random(rows) < 0.4
    merit = rng.standard_normal(rows) - 0.4 * woman
    y = rng.random(rows) < expit(1.5 * merit)
    noise = rng.standard_normal((rows, 5))
    X = np.column_stack([
        merit - 0.4 * woman + 0.8 * noise[:, 0], merit + 1.2 * noise[:, 1], noise[:, 2],
        woman + 0.7 * noise[:, 3], noise[:, 4], woman,
    ])  # fmt: skip
    return X, y.astype(int), np.where(woman, "woman", "man")


@cache
def new_rows(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return draw(NEW[rows], 10**9)


def one_fit(case: tuple[bool, int, str, float | None, int]) -> dict[str, object]:
    """Fit, and give the rates reported beside those on new rows."""
    aware, rows, kind, confidence, seed = case
    X, y, s = draw(rows, seed)
    features = slice(None) if aware else slice(0, -1)
    held = {"holdout_set": None}
    if kind == "set":  # as many further rows as a share would have held out
        X_set, y_set, s_set = draw(rows // 5, seed + 10**8)
        held = {"holdout_set": (X_set[:, features], y_set, {"sex": s_set})}
    model = FairGBMClassifier(
        LGBMClassifier(n_estimators=TREES, n_jobs=1, verbose=-1),
        constraint="equal_opportunity", tolerance=TOLERANCE, confidence=confidence,
        holdout={"share": 0.2, "cross": "cross", "set": "auto"}[kind], random_state=seed,
    )  # fmt: skip
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X[:, features], y, sensitive_features={"sex": s}, **held)
    seconds = time.process_time() - started
    report = model.fairness_report_
    lines = report.rates.set_index("group")[[report.where, "low", "high", "rows"]]
    X_new, y_new, s_new = new_rows(rows)
    refused = model.predict(X_new[:, features]) == 0
    verdict = report.verdicts[0]
    true = {g: float(refused[(y_new == 1) & (s_new == g)].mean()) for g in GROUPS}
    found = {g: lines.loc[f"sex={g}"].tolist() for g in GROUPS}
    accuracy = float((refused == (y_new == 0)).mean())
    return {
        "aware": aware, "rows": rows, "kind": kind, "confidence": confidence, "seed": seed,
        "found": found, "true": true, "accuracy": accuracy, "seconds": seconds,
        "status": verdict.status, "gap": [verdict.value, verdict.low, verdict.high],
    }  # fmt: skip


def collect(path: Path, fits: int, processes: int, first: int) -> None:
    """Make the fits that are missing, a few of every line at a time."""
    path.touch()
    done = {case_of(json.loads(line)) for line in path.read_text().splitlines()}
    lines = [*itertools.product((True, False), NEW, KINDS, CONFIDENCES)]
    cases = [(*line, seed) for seed in range(first, first + fits) for line in lines]
    cases = [case for case in cases if case not in done]
    with ProcessPoolExecutor(processes) as pool, path.open("a") as file:
        running = [pool.submit(one_fit, case) for case in cases]
        for future in tqdm(as_completed(running), total=len(running), smoothing=0):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()


def case_of(found: dict[str, object]) -> tuple[object, ...]:
    return tuple(found[name] for name in ("aware", "rows", "kind", "confidence", "seed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("file", type=Path)
    collecting.add_argument("--fits", type=int, default=1_000)
    collecting.add_argument("--first", type=int, default=0, help="seed of the first")
    collecting.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    collect(options.file, options.fits, options.processes, options.first)


if __name__ == "__main__":
    main()
