"""What constraints cost on a GPU: time and memory over plain XGBoost, and whether models agree.

``python -m benchmarks.gpu`` needs an NVIDIA GPU and ``pip install fairboost[gpu]``; it writes the
tables of ``benchmarks/gpu.md``. ``--rows`` and ``--repeats`` make it smaller. Runs alternate
between plain XGBoost and fairboost; figures are medians. Rows are made on the device. With
``--tables`` the same fits are also made on the CPU and on the GPU, on real tables.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
import warnings
from functools import partial
from pathlib import Path

try:
    import cupy
except ImportError:  # to write tables, no GPU is needed
    cupy = None
import numpy as np
import pandas as pd
import xgboost
from xgboost import XGBClassifier

import fairboost
from fairboost import FairGBMClassifier, parity
from fairboost.algorithm import game
from fairboost.engines.xgboost import lockstep
from fairboost.kernel.cuda import DeviceLoops
from fairboost.kernel.device import Device

PAGE = Path(__file__).with_suffix(".md")
OPTIONS = {"max_depth": 6, "learning_rate": 0.1}
FEW, MANY = 20, 120
"""Rounds of a short and of a long fit: their difference is a hundred rounds."""


def make(n: int, groups: int, seed: int = 0, arrays=cupy):
    """Rows on the device: 20 features, one of which is the group; positives differ by group."""
    rng = arrays.random.default_rng(seed)
    X = rng.standard_normal((n, 20), dtype=arrays.float32)
    group, other = (rng.integers(0, k, n).astype(arrays.int8) for k in (groups, 2))
    X[:, 3], X[:, 4] = group, other
    logit = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * (group % 2) - 0.4 * other
    even = rng.random(n, dtype=arrays.float32)
    y = (logit + arrays.log(even / (1 - even)) > 0.5).astype(arrays.int8)
    return X, y, {"group": group, "other": other}


def constraints(count: int):
    if count == 1:
        return [parity("fnr", 0.01, by="group")]
    return [parity(rate, 0.02, by=by) for rate in ("fnr", "fpr") for by in ("group", "other")]


def plain(rounds, X, y, device="cuda"):
    return XGBClassifier(device=device, n_estimators=rounds, **OPTIONS).fit(X, y)


def fair(rounds, X, y, sensitive, count, device="cuda", **options):
    engine = XGBClassifier(device=device, n_estimators=rounds, **OPTIONS)
    told = {"constraint": constraints(count), "random_state": 0, **options}
    model = FairGBMClassifier(engine, **told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, sensitive_features=sensitive)


def timed(work, give=False):
    cupy.cuda.runtime.deviceSynchronize()
    start = time.perf_counter()
    found = work()
    cupy.cuda.runtime.deviceSynchronize()
    seconds = time.perf_counter() - start
    return (seconds, found) if give else seconds


class Loop:
    """Seconds that boosting takes, without reading, drawing and binning rows before it."""

    def __enter__(self):
        self.seconds, self.run = 0.0, lockstep.XGBoostLockstep.run

        def run(boosting):
            self.seconds, found = timed(partial(self.run, boosting), give=True)
            return found

        lockstep.XGBoostLockstep.run = run
        return self

    def __exit__(self, *_):
        lockstep.XGBoostLockstep.run = self.run


class Peak:
    """The most memory of the device in use while some work is done, in bytes."""

    def __enter__(self):
        cupy.get_default_memory_pool().free_all_blocks()
        self.most, self.going = 0, True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while self.going:
            free, total = cupy.cuda.runtime.memGetInfo()
            self.most = max(self.most, total - free)
            time.sleep(0.0005)

    def __exit__(self, *_):
        self.going = False
        self.thread.join()


class Own:
    """Time of the passes of a round, with the device waited for; multipliers move beside them."""

    def __enter__(self):
        self.seconds, self.calls, self.play = 0.0, 0, game.Session.play

        def play(session, *told):
            cupy.cuda.runtime.deviceSynchronize()
            start = time.perf_counter()
            found = self.play(session, *told)
            cupy.cuda.runtime.deviceSynchronize()
            self.seconds += time.perf_counter() - start
            self.calls += 1
            return found

        game.Session.play = play
        return self

    def __exit__(self, *_):
        game.Session.play = self.play


def between(X, y, sensitive, count):
    """Milliseconds of the device's clock from the newest tree's output to the next ``boost``.

    Passes, the device's idle time while Python prepares them, and the addition of the output to
    scores where that is a kernel of its own.
    """
    begun, ended = [], []
    advance, fall, boost = Device.advance, Device.fall, lockstep.boost

    def mark(events):
        event = cupy.cuda.Event()
        event.record()
        events.append(event)

    def advanced(device, *told):
        mark(begun)
        advance(device, *told)

    def fallen(device, *told):  # rows are sent down trees and added up at once
        fall(device, *told)
        mark(begun)

    def boosted(*told):
        mark(ended)
        boost(*told)

    Device.advance, Device.fall, lockstep.boost = advanced, fallen, boosted
    try:
        fair(60, X, y, sensitive, count)
    finally:
        Device.advance, Device.fall, lockstep.boost = advance, fall, boost
    cupy.cuda.runtime.deviceSynchronize()
    pairs = list(zip(begun, ended, strict=False))[10:]
    return statistics.median(cupy.cuda.get_elapsed_time(*pair) for pair in pairs)


def kernels(X, y, sensitive, count):
    """Milliseconds that the device itself spends on the two passes of a round."""
    events, run = [], DeviceLoops._run

    def measured(loops, *told):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        run(loops, *told)
        last.record()
        events.append((first, last))

    DeviceLoops._run = measured
    try:
        fair(30, X, y, sensitive, count)
    finally:
        DeviceLoops._run = run
    cupy.cuda.runtime.deviceSynchronize()
    spent = [cupy.cuda.get_elapsed_time(*pair) for pair in events[20:60]]
    return sum(spent) / (len(spent) / 2)


def case(n: int, groups: int, count: int, repeats: int, more: bool) -> dict[str, object]:
    X, y, sensitive = make(n, groups)
    plain(3, X, y)
    fair(3, X, y, sensitive, count)
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        few, many = (timed(partial(plain, r, X, y)) for r in (FEW, MANY))
        with xgboost.config_context(use_cuda_async_pool=True):
            with_pool = [timed(partial(plain, r, X, y)) for r in (FEW, MANY)]
        with Loop() as short:
            fair(FEW, X, y, sensitive, count)
        with Loop() as long:
            ours = timed(partial(fair, MANY, X, y, sensitive, count))
        # What comes before boosting takes longer here, and varies by more than a round takes.
        rounds = (many - few) / (MANY - FEW), (long.seconds - short.seconds) / (MANY - FEW)
        fits = many - rounds[0] * (MANY - 100), ours - rounds[1] * (MANY - 100)
        round_with_pool = (with_pool[1] - with_pool[0]) / (MANY - FEW)
        fit_with_pool = with_pool[1] - round_with_pool * (MANY - 100)
        for name, value in {
            "plain, ms a round": rounds[0] * 1e3,
            "fairboost, ms a round": rounds[1] * 1e3,
            "rounds": rounds[1] / rounds[0],
            "plain, fit of 100 trees, s": fits[0],
            "fairboost, fit of 100 trees, s": fits[1],
            "fits": fits[1] / fits[0],
            "rounds, plain with pool": rounds[1] / round_with_pool,
            "fits, plain with pool": fits[1] / fit_with_pool,
        }.items():
            found.setdefault(name, []).append(value)
    out = {name: statistics.median(values) for name, values in found.items()}
    for name in ("rounds", "fits"):
        low, high = np.percentile(found[name], [25, 75])
        out[f"{name}, quartiles"] = f"{low:.2f} to {high:.2f}"
    if not more:
        return out
    with Peak() as theirs:
        plain(FEW, X, y)
    with Peak() as own:
        fair(FEW, X, y, sensitive, count)
    out["memory"] = own.most / theirs.most
    out["passes, ms"] = kernels(X, y, sensitive, count)
    out["own part, ms"] = between(X, y, sensitive, count)
    with Own() as round_:
        fair(FEW, X, y, sensitive, count)
    out["with waiting, ms"] = round_.seconds / round_.calls * 1e3
    cupy.get_default_memory_pool().free_all_blocks()
    return out


def line(values) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def table(rows: list[dict[str, object]]) -> str:
    heads = list(rows[0])
    return "\n".join([line(heads), line("---" for _ in heads), *(line(r.values()) for r in rows)])


def versions() -> str:
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    found = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    cuda = [f"{v // 1000}.{v % 1000 // 10}" for v in found]
    return (
        f"{name}, CUDA of the driver {cuda[0]}, of the runtime {cuda[1]}, XGBoost "
        f"{xgboost.__version__}, CuPy {cupy.__version__}, NumPy {np.__version__}, fairboost "
        f"{fairboost.__version__}"
    )


def write_tables(path: Path) -> None:
    """Write the real tables as plain numbers, for a machine that cannot read Parquet."""
    from benchmarks.holds_cases import acs_income, adult
    from fairboost.datasets import make_loans

    loans = make_loans(100_000, seed=0)
    read = {
        "Adult": adult(0),
        "ACSIncome, 200,000 rows": acs_income(0, 200_000),
        "make_loans": (loans.X, loans.y, {"sex": loans.sensitive["sex"]}),
    }
    arrays = {}
    for name, (X, y, sensitive) in read.items():
        codes = X.apply(lambda c: c if c.dtype.kind in "fiub" else c.astype("category").cat.codes)
        arrays[f"{name}|X"] = codes.to_numpy(np.float32)
        arrays[f"{name}|y"] = np.asarray(y).astype(np.int8)
        arrays[f"{name}|sex"] = pd.factorize(sensitive["sex"], sort=True)[0].astype(np.int8)
    np.savez_compressed(path, **arrays)


def agree(path: Path, seeds: int) -> list[dict[str, object]]:
    """The same fits on the CPU and on the GPU: accuracy and gap of test rows."""
    arrays, rows = np.load(path), []
    for name in dict.fromkeys(key.split("|")[0] for key in arrays):
        X, y, sex = (arrays[f"{name}|{part}"] for part in ("X", "y", "sex"))
        for constraint, label in (("equal_opportunity", 1), ("demographic_parity", None)):
            found: dict[str, list[tuple[float, float]]] = {"cpu": [], "cuda": []}
            for seed in range(seeds):
                test = np.random.default_rng(seed).random(len(y)) < 0.3
                for device, results in found.items():
                    engine = XGBClassifier(device=device, n_estimators=100, **OPTIONS)
                    model = FairGBMClassifier(engine, constraint=constraint, random_state=seed)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.fit(X[~test], y[~test], sensitive_features=sex[~test])
                    decided, truth, group = model.predict(X[test]), y[test], sex[test]
                    counts = np.ones(len(truth), bool) if label is None else truth == label
                    rates = [decided[counts & (group == g)].mean() for g in (0, 1)]
                    results.append((float((decided == truth).mean()), rates[1] - rates[0]))
            cpu, cuda = (np.array(found[device]) for device in ("cpu", "cuda"))
            difference = cuda[:, 0] - cpu[:, 0]
            error = difference.std(ddof=1) / np.sqrt(seeds)
            row = {
                "data": name,
                "constraint": constraint,
                "accuracy, CPU": f"{cpu[:, 0].mean():.4f}",
                "accuracy, GPU": f"{cuda[:, 0].mean():.4f}",
                "difference": f"{difference.mean():+.4f} ± {2.0 * error:.4f}",
                "mean gap, CPU": f"{cpu[:, 1].mean():+.4f}",
                "mean gap, GPU": f"{cuda[:, 1].mean():+.4f}",
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def histogram_rows(booster, X) -> float:
    """Rows that XGBoost adds up into histograms for a tree, over all rows, as a mean of trees.

    At a split it adds up the smaller child and subtracts for the other: even splits cost more.
    """
    leaves, found = booster.predict(xgboost.DMatrix(X), pred_leaf=True).astype(np.int64), []
    for k, tree in booster.trees_to_dataframe().groupby("Tree"):
        if k < FEW:
            continue
        rows = np.bincount(leaves[:, k], minlength=len(tree))
        number, inner = tree.set_index("ID").Node, tree[tree.Feature != "Leaf"].set_index("Node")
        ends = {
            node: list(number[list(pair)]) for node, *pair in inner[["Yes", "No"]].itertuples()
        }
        for node in sorted(ends, reverse=True):  # children come after their parents
            rows[node] = rows[ends[node]].sum()
        added = [rows[pair].min() for pair in ends.values() if set(pair) & set(ends)]
        found.append((rows[0] + sum(added)) / len(X))
    return float(np.mean(found))


def shapes(n: int = 400_000) -> list[dict[str, object]]:
    """How evenly trees split rows like those of the benchmark, on the CPU."""
    rows = []
    for groups in (2, 20):
        X, y, sensitive = make(n, groups, arrays=np)
        found = [histogram_rows(plain(MANY, X, y, "cpu").get_booster(), X[:100_000])]
        for count in (1, 4):
            told = {"iterate": "last", "holdout": 0.2, "memberships": "observed"}
            model = fair(MANY, X, y, sensitive, count, "cpu", **told)
            found.append(histogram_rows(model.booster_, X[:100_000]))
        heads = "plain", "one constraint", "four constraints"
        shown = {k: f"{v:.2f}" for k, v in zip(heads, found, strict=True)}
        rows.append({"groups": groups, **shown})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tables", type=Path, help="a file that --write-tables has written")
    parser.add_argument("--write-tables", type=Path, help="write the real tables, and stop")
    parser.add_argument("--rounds-only", action="store_true", help="no memory and parts of rounds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=PAGE.with_suffix(".tables.md"))
    parser.add_argument("--shapes", action="store_true", help="how even splits are, and stop")
    told = parser.parse_args()
    if told.shapes:
        print(table(shapes()))
        return
    if told.write_tables is not None:
        write_tables(told.write_tables)
        return
    parts = [versions()]
    if told.tables is not None:
        parts.append(table(agree(told.tables, told.seeds)))
    rows = []
    for n in told.rows:
        for groups, count in ((2, 1), (2, 4), (20, 1), (20, 4)):
            repeats = told.repeats if n <= 20_000_000 else max(1, told.repeats - 2)
            found = case(n, groups, count, repeats, not told.rounds_only)
            shown = {k: v if isinstance(v, str) else f"{v:.3f}" for k, v in found.items()}
            rows.append({"rows": f"{n:,}", "groups": groups, "constraints": count, **shown})
            print(rows[-1], flush=True)
            told.out.write_text("\n\n".join([*parts, table(rows)]) + "\n")


if __name__ == "__main__":
    main()
