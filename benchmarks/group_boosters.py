"""Whether memberships learned in fewer rounds hold constraints as well.

Boosters of groups stop after fewer rounds without a gain than they did, and take larger steps
where rows are many (``fairboost/engines/group_model.py``). Models without the group among their
features are trained both ways, with the same random seeds, and compared on rows not trained on.
The larger steps are taken on any number of rows here, so that the change shows.

    python -m benchmarks.group_boosters            # some minutes on a core; writes a table
    python -m benchmarks.group_boosters --seeds 1  # a minute, writes nothing
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import recall_score
from tqdm import tqdm
from xgboost import XGBClassifier

from benchmarks.holds import split
from benchmarks.holds_cases import blind
from benchmarks.small_data import Case
from fairboost import FairGBMClassifier
from fairboost._text import markdown_table
from fairboost.datasets import available
from fairboost.engines import group_model

SEEDS = 6
BEFORE = {"PATIENCE": 5, "rate": lambda n_rows: 0.3}
NOW = {"rate": lambda n_rows: 0.5}
ENGINES = {
    "lightgbm": lambda: LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1),
    "xgboost": lambda: XGBClassifier(
        n_estimators=100, learning_rate=0.1, n_jobs=1, enable_categorical=True
    ),
}


def tables(seed: int) -> dict[str, tuple[Any, Any, Any]]:
    """Features, labels and groups of each case."""
    found = {"blind75": blind(0.45)(seed), "blind90": blind(1.0)(seed)}
    out = {name: (X, y, s["group"]) for name, (X, y, s) in found.items()}
    if "adult" in available():
        out["Adult"] = Case("Adult, blind", 100, "default").read()
    return out


def judged(engine: str, rows: dict[str, Any]) -> tuple[float, float, float]:
    """Gap of true positive rates and accuracy on new rows, and seconds of CPU time."""
    both, test = rows["both"], rows["test"]
    model = FairGBMClassifier(ENGINES[engine](), constraint="equal_opportunity", random_state=0)
    start = time.process_time()
    model.fit(both.X, both.y, sensitive_features=both.s)
    seconds = time.process_time() - start
    decision, groups = model.predict(test.X), np.asarray(test.s)
    rates = [recall_score(test.y[groups == g], decision[groups == g]) for g in np.unique(groups)]
    return float(np.ptp(rates)), float((decision == test.y).mean()), seconds


def compared(seeds: int) -> dict[tuple[str, str], list[Any]]:
    """Figures before and now, by case and engine."""
    found = defaultdict(list)
    for seed in tqdm(range(seeds)):
        for case, (X, y, s) in tables(seed).items():
            s = pd.Series(np.asarray(s))
            rows = split(X.reset_index(drop=True), np.asarray(y), s, seed)
            for engine in ENGINES:
                pair = [_with(way, engine, rows) for way in (BEFORE, NOW)]
                found[case, engine].append(pair)
    return found


def _with(way: dict[str, Any], engine: str, rows: dict[str, Any]) -> tuple[float, float, float]:
    with patch.multiple(group_model, **way):
        return judged(engine, rows)


def line(case: str, engine: str, pairs: list[Any]) -> list[str]:
    """Means, and the mean of differences with twice its standard error."""
    (gap, accuracy, seconds), now = (np.mean(part, axis=0) for part in zip(*pairs, strict=True))
    apart = np.array([np.subtract(b, a) for a, b in pairs])[:, :2]
    error = 2 * apart.std(axis=0, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else (0, 0)
    by = [f"{m:+.4f} ± {e:.4f}" for m, e in zip(apart.mean(axis=0), error, strict=True)]
    return [
        case, engine, str(len(pairs)), f"{gap:.4f}", f"{now[0]:.4f}", by[0],
        f"{accuracy:.4f}", by[1], f"{seconds:.2f}", f"{now[2]:.2f}",
    ]  # fmt: skip


def page(seeds: int) -> str:
    """The table."""
    found = compared(seeds)
    found["all", ""] = [pair for pairs in list(found.values()) for pair in pairs]
    titles = ["case", "engine", "fits", "gap before", "gap now", "difference"]
    titles += ["accuracy before", "difference", "CPU s before", "CPU s now"]
    lines = [line(*key, pairs) for key, pairs in found.items()]
    return f"""# Fewer rounds for the boosters of groups

Made by `python -m benchmarks.group_boosters`: equal opportunity at the default tolerance, 100
trees, one thread, the group not among the features, 80% of the rows trained on and 20% judged.
Before, boosters of groups stopped after 5 rounds without a gain, at a learning rate of 0.3. Now
they stop after 3, and the rate is 0.5, here on any number of rows (by default from 20,000 on).
Differences are means over random seeds, with twice their standard errors. blind75 and blind90 are
those of holds.md; Adult is without `sex` and `relationship`.

{markdown_table(titles, lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="fewer write nothing")
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    text = page(seeds)
    print(text)
    if seeds >= SEEDS:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
