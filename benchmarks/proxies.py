"""Which proxy to use by default: every proxy with every named parity, in either game.

    python -m benchmarks.proxies            # some minutes on one core; writes proxies.md
    python -m benchmarks.proxies --quick    # one seed, writes nothing

Generated loans (the model does not see the group) and, where the files are there, Adult by sex and
ACSIncome by race (100k rows). Splits and measures are those of ``benchmarks.holds``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from tqdm import tqdm

from benchmarks.holds_cases import Read, acs_income, adult
from benchmarks.holds_methods import TOLERANCE, excess, gap, group_rates
from fairboost import FairGBMClassifier
from fairboost.datasets import available, make_loans
from fairboost.fairness.proxies import PROXIES

HERE = Path(__file__).resolve().parent
RATES = {
    "equal_opportunity": ("fnr",),
    "predictive_equality": ("fpr",),
    "equalized_odds": ("fpr", "fnr"),
    "demographic_parity": ("ppr",),
}


def loans(seed: int) -> Read:
    data = make_loans(30_000, seed=seed)
    return data.X, np.asarray(data.y), {"sex": data.sensitive["sex"]}


DATA: dict[str, tuple[str | None, str, Callable[[int], Read]]] = {
    "generated loans, 30k rows, blind": (None, "sex", loans),
    "Adult, 49k rows": ("adult", "sex", adult),
    "ACSIncome, 100k rows": (
        "acs_income_2018", "race", lambda seed: acs_income(seed, n_samples=100_000),
    ),
}  # fmt: skip


def one(read: Read, column: str, constraint: str, proxy: str, game: str, seed: int) -> dict:
    X, y, sensitive = read
    s = sensitive[column]
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    train, test = np.split(order, [int(0.8 * len(y))])
    engine = LGBMClassifier(verbose=-1, n_jobs=1, random_state=seed)
    if proxy == "none":
        decision = engine.fit(X.iloc[train], y[train]).predict(X.iloc[test])
    else:
        options = {"holdout": 0.2} if game == "two_sided" else {"holdout": None, "iterate": "last"}
        model = FairGBMClassifier(
            engine, constraint=constraint, tolerance=TOLERANCE, multipliers=game, proxy=proxy,
            random_state=seed, **options,
        )  # fmt: skip
        model.fit(X.iloc[train], y[train], sensitive_features=s.iloc[train])
        decision = model.predict(X.iloc[test])
    return {
        "accuracy": float((decision == y[test]).mean()),
        "rates": group_rates(y[test], decision, s.iloc[test]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    seeds = range(1 if options.quick else options.seeds)
    present = [name for name, (table, _, _) in DATA.items() if table in (None, *available())]
    games = [("plain", "none"), *product(("two_sided", "paper"), PROXIES)]
    lines = []
    for name, seed in tqdm(list(product(present, seeds))):
        read = DATA[name][2](seed)
        for (game, proxy), constraint in product(games, RATES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the table shows what was not met
                found = one(read, DATA[name][1], constraint, proxy, game, seed)
            key = {"data": name, "constraint": constraint, "multipliers": game, "proxy": proxy}
            lines.append({**key, **found})
    text = report(pd.DataFrame(lines), len(seeds))
    print(text)
    if not options.quick:
        (HERE / "proxies.md").write_text(text)


def report(found: pd.DataFrame, n_seeds: int) -> str:
    keys = ["data", "constraint", "multipliers", "proxy"]
    lines = [
        "# Proxies", "",
        f"Made by `python -m benchmarks.proxies`: {n_seeds} seeds, 80/20 splits, tolerance "
        f"{TOLERANCE}, a share of 20% held out (two_sided) or none (paper). Excess and gap are "
        "those of the test rows, see [holds.md](holds.md); of two rates the gap is the larger.",
        "", "| data | constraint | multipliers | proxy | excess | accuracy | gap |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for key, cell in found.groupby(keys, sort=False):
        records, rates = cell.to_dict("records"), RATES[key[1]]
        gaps = np.mean([gap(r, rates) for r in records])
        figures = f"{excess(records, rates):.2f} | {cell['accuracy'].mean():.4f} | {gaps:.3f}"
        lines.append(f"| {' | '.join(map(str, key))} | {figures} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
