"""Fits two at a time in threads of one process: none ends the process, and all have the same bits.

The groups are hidden from the features, and memberships learned: small boosters are grown side by
side then, and after them those of the folds. A case is a pair of fits with their own engine,
number of threads and seed. There are few different fits, so that each is repeated many times
beside others: its trees must be the same every time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import chain

import numpy as np
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

from fairboost import FairGBMClassifier
from tests.fuzz import workers

FINE = ("same",)
SECONDS = 300.0  # that a case may take
LONG = 7  # every so many-th case has long fits
ENGINES = {
    "lightgbm": lambda **options: LGBMClassifier(verbose=-1, force_col_wise=True, **options),
    "xgboost": lambda **options: XGBClassifier(verbosity=0, **options),
}


def campaign(n: int, seed: int) -> dict[str, int]:
    """Run ``n`` pairs; returns how many had each outcome."""
    # A process has the cores that eight threads would like to have, at least half of them.
    parts = max((os.cpu_count() or 1) // 4, 1)
    sizes = [len(part) for part in np.array_split(np.arange(n), parts)]
    words = [[seed + 1000 * k] for k in range(parts)]
    with ThreadPoolExecutor(parts) as crew:
        run = partial(workers.outcomes, __name__)
        found = list(chain.from_iterable(crew.map(run, words, sizes, [SECONDS] * parts)))
    digests: dict[str, set[str]] = {}
    for case in found:
        for name, digest in case:
            digests.setdefault(name, set()).add(digest)
    counts: Counter[str] = Counter()
    for name, digest in (one for case in found for one in case):
        ended = name in ("crashed", "hung") or digest.startswith("raised")
        same = "same" if len(digests[name]) == 1 else f"one of {len(digests[name])} models"
        counts[f"{name.rpartition(' ')[0]}: {same}" if not ended else f"{name}: {digest}"] += 1
    return dict(sorted(counts.items()))


@lru_cache(4)
def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, most of them mostly 0, which LightGBM keeps by row; labels; and groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 20))
    X[:, 0] += 0.5 * group
    X[:, 8:][rng.random((n, 12)) < 0.95] = 0
    X = np.c_[X, np.eye(20)[rng.integers(0, 20, n)]]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.8).astype(int)
    return X, y, group


def fit(engine: str, threads: int, seed: int, long: bool) -> str:
    """A digest of the model."""
    X, y, group = rows(seed, 20_000 if long else 4_000)
    estimator = ENGINES[engine](n_estimators=60 if long else 4, n_jobs=threads)
    model = FairGBMClassifier(
        estimator, constraint="equal_opportunity", memberships="honest", holdout="cross",
        random_state=0,
    )  # fmt: skip
    model.fit(X, y, sensitive_features=group)
    return hashlib.sha256(model.decision_function(X).tobytes()).hexdigest()[:12]


def work(seed: int, start: int, stop: int) -> None:
    """Run pairs, and print what came of each."""
    for k in range(start, stop):
        rng, long = np.random.default_rng([seed, k]), not k % LONG
        found: list[tuple[str, str]] = []

        def one(engine: str, threads: int, data: int) -> None:
            name = f"{engine}, {threads} threads, {'long' if long else 'short'} {data}"  # noqa: B023
            try:
                found.append((name, fit(engine, threads, data, long)))  # noqa: B023
            except Exception as error:
                found.append((name, f"raised {error!r}"))  # noqa: B023

        pair = [
            threading.Thread(
                target=one,
                args=(rng.choice(list(ENGINES)), int(rng.choice([2, 4, 8])), int(rng.integers(2))),
            )
            for _ in range(2)
        ]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    work(*map(int, sys.argv[2:]))
