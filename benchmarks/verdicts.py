"""How far a verdict can be trusted: many fits, each judged again on rows that it never saw.

Every fit draws a case: where its rows are from, how many, the constraint, how many trees, whether
the model sees the group, how rows are held out, and whether a confidence is asked for. Its report
is compared with what the model does to 50,000 new rows. Rows are from a known law (`draw`), or
from ACSIncome 2018 thinned to 4.8% of positive labels among women and 25% among men, where two
rates pull against each other.

    python -m benchmarks.verdicts collect FILE --fits 6000   # hours; may be interrupted
    python -m benchmarks.verdicts table FILE...              # writes verdicts.md

Fits are appended to FILE as they end, and those that it has are not made again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.special import expit
from tqdm import tqdm

from benchmarks.holds_cases import RATES
from fairboost import FairGBMClassifier
from fairboost._text import markdown_table
from fairboost.datasets import available, load
from fairboost.exceptions import FairnessWarning
from fairboost.verdicts.verdict import judge_gap, status_of

NEW = 50_000
GROUPS = ("man", "woman")
TOLERANCES = {"equal_opportunity": 0.05, "equalized_odds": 0.05, "demographic_parity": 0.03}
COUNTS = {"fnr": 1, "fpr": 0, "ppr": None}
"""The label of the rows that count towards a rate; None where all do."""

THINNED = {"man": 0.25, "woman": 0.048}
COLUMNS = ["SCHL", "POBP", "OCCP", "RELP", "COW", "MAR", "WKHP", "AGEP"]

HEAD = """# How far a verdict can be trusted

Made by `python -m benchmarks.verdicts`. {n:,} fits of LightGBM, each on rows of its own and each
with a case of its own: rows from a known law (`draw` in the script) or from ACSIncome 2018 thinned
to 4.8% of positive labels among women and 25% among men; 4,000, 20,000 or 100,000 rows;
equal opportunity or equalized odds within 0.05, or demographic parity within 0.03; 20, 100 or 300
trees; models that see the group and models that do not; a share of a fifth held out (`share`),
folds (`cross`) or as many further rows as a share (`set`); no confidence or `confidence=0.9`. The
gap of a model on {new:,} new rows is taken for the truth. Equalized odds has two verdicts.

- `held out`, `true`: mean gaps. `correlation`: of the two, over the fits with an active
  constraint.
- `low end`, `high end`: how often the true gap is above or below this end of the verdict's
  interval. Both aim at 97.5%.
- `met`: verdicts that are certain, and how many of them are wrong. `well inside`: fits whose true
  gap is inside the limit by two standard errors, and how many of these are called met.
- `within`: *met on these rows, not certain*, and how many of these have a true gap beyond the
  limit.
- `further rows`: verdicts *met* that as many rows would give which took no part in training, and
  how many of these are wrong.

{findings}
"""


@dataclass(frozen=True)
class Case:
    """What a fit is of."""

    law: str
    rows: int
    constraint: str
    trees: int
    aware: bool
    kind: str
    confidence: float | None
    seed: int

    @classmethod
    def drawn(cls, seed: int) -> Case:
        """The case of a seed. Large cases take long, and are drawn less often."""
        rng = np.random.default_rng([seed, 6])
        laws = ["known", "thinned"] if "acs_income_2018" in available() else ["known"]

        def one_of(values: list[Any], p: list[float] | None = None) -> Any:
            return values[int(rng.choice(len(values), p=p))]

        return cls(
            one_of(laws), one_of([4_000, 20_000, 100_000], [0.45, 0.45, 0.1]),
            one_of(list(TOLERANCES)), one_of([20, 100, 300], [0.4, 0.4, 0.2]),
            one_of([True, False]), one_of(["share", "cross", "set"]), one_of([None, 0.9]), seed,
        )  # fmt: skip


Rows = tuple[pd.DataFrame, np.ndarray, np.ndarray]


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
def thinned() -> Rows:
    """People of ACSIncome, without most of those who earn much."""
    table = load("acs_income_2018")
    sex = table.sensitive["SEX"].astype(str).to_numpy()
    s = np.where(np.isin(sex, ["2", "Female"]), "woman", "man")
    kept, rng = np.ones(len(s), bool), np.random.default_rng(7)
    for group, share in THINNED.items():
        positive = np.flatnonzero((s == group) & (table.y == 1))
        left = round(share / (1 - share) * ((s == group) & (table.y == 0)).sum())
        kept[rng.permutation(positive)[left:]] = False
    X = table.X.loc[kept, COLUMNS].reset_index(drop=True)
    X = X.assign(sex=(s[kept] == "woman").astype(int))
    return X, np.asarray(table.y)[kept], s[kept]


def parts_of(case: Case) -> tuple[Rows, Rows, Rows]:
    """Rows to train on, a held-out set, and new rows; the group is the last feature."""
    sizes = case.rows, case.rows // 5, NEW
    if case.law == "known":
        drawn = [draw(n, 3 * case.seed + k) for k, n in enumerate(sizes)]
        train, held, new = ((pd.DataFrame(X), y, s) for X, y, s in drawn)
        return train, held, new
    X, y, s = thinned()
    order = np.random.default_rng([case.seed, 7]).permutation(len(y))[: sum(sizes)]
    train, held, new = (
        (X.iloc[at].reset_index(drop=True), y[at], s[at])
        for at in np.split(order, np.cumsum(sizes)[:-1])
    )
    return train, held, new


def rates_of(rate: str, positive: np.ndarray, y: np.ndarray, s: np.ndarray) -> list[float]:
    """The rate of each group."""
    event = ~positive if rate == "fnr" else positive
    counts = np.ones(len(y), bool) if COUNTS[rate] is None else y == COUNTS[rate]
    return [float(event[counts & (s == g)].mean()) for g in GROUPS]


def one_fit(case: Case) -> dict[str, Any]:
    """Fit, and give the verdicts beside the truth."""
    train, held, new = parts_of(case)

    def seen(X: pd.DataFrame) -> pd.DataFrame:
        return X if case.aware else X.iloc[:, :-1]

    given: dict[str, Any] = {}
    if case.kind == "set":
        given["holdout_set"] = seen(held[0]), held[1], {"sex": held[2]}
    model = FairGBMClassifier(
        LGBMClassifier(n_estimators=case.trees, n_jobs=1, verbose=-1),
        constraint=case.constraint, tolerance=TOLERANCES[case.constraint],
        confidence=case.confidence, random_state=case.seed,
        holdout={"share": 0.2, "cross": "cross", "set": "auto"}[case.kind],
    )  # fmt: skip
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(seen(train[0]), train[1], sensitive_features={"sex": train[2]}, **given)
    seconds = time.process_time() - started
    report = model.fairness_report_
    positive = model.predict(seen(new[0])) == 1
    table = report.rates.set_index(["rate", "group"])
    verdicts = []
    for rate, v in zip(RATES[case.constraint], report.verdicts, strict=True):
        lines = [table.loc[(rate, f"sex={g}")] for g in GROUPS]
        verdicts.append({
            "rate": rate, "status": v.status, "gap": [v.value, v.low, v.high],
            "rows": [float(line["rows"]) for line in lines],
            "rates": [float(line[report.where]) for line in lines],
            "true": rates_of(rate, positive, new[1], new[2]),
        })  # fmt: skip
    accuracy = float((positive == (new[1] == 1)).mean())
    kept = model.best_iteration_
    return asdict(case) | {
        "verdicts": verdicts, "accuracy": accuracy, "seconds": seconds, "kept": kept
    }  # fmt: skip


def collect(path: Path, fits: int, processes: int, first: int) -> None:
    """Make the fits that are missing."""
    path.touch()
    done = {json.loads(line)["seed"] for line in path.read_text().splitlines()}
    cases = [Case.drawn(seed) for seed in range(first, first + fits) if seed not in done]
    with ProcessPoolExecutor(processes) as pool, path.open("a") as file:
        running = [pool.submit(one_fit, case) for case in cases]
        for future in tqdm(as_completed(running), total=len(running), smoothing=0):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()


@dataclass(frozen=True)
class Judged:
    """One verdict and the truth."""

    fit: dict[str, Any]
    verdict: dict[str, Any]

    @property
    def limit(self) -> float:
        """The tolerance."""
        return TOLERANCES[self.fit["constraint"]]

    @property
    def true(self) -> float:
        """The gap on new rows."""
        first, second = self.verdict["true"]
        return abs(first - second)

    @property
    def error(self) -> float:
        """Standard error of the gap on so many rows of equal weight."""
        rates, rows = np.array(self.verdict["true"]), np.array(self.verdict["rows"])
        return float(np.sqrt((rates * (1 - rates) / rows).sum()))

    @property
    def further(self) -> bool:
        """Whether as many further rows, which steer nothing, would say *met*."""
        rng = np.random.default_rng(self.fit["seed"])
        n = np.array(self.verdict["rows"])
        rates = rng.binomial(n.astype(int), self.verdict["true"]) / n
        return status_of(*judge_gap(rates, n, 0.95), self.limit) == "met"


def line_of(found: list[Judged]) -> dict[str, str]:
    """Sum up the verdicts of one line."""
    value, low, high = np.array([j.verdict["gap"] for j in found]).T
    true, limit = (np.array([getattr(j, name) for j in found]) for name in ("true", "limit"))
    error = np.array([j.error for j in found])
    status = np.array([j.verdict["status"] for j in found])
    met, within = status == "met", status == "met on these rows, not certain"
    inside = true <= limit - 2 * error
    further = np.array([j.further for j in found])
    active = value > limit / 4
    known = active.sum() > 9 and value[active].std() > 0
    correlation = np.corrcoef((value / limit)[active], (true / limit)[active])[0, 1]
    return {
        "verdicts": f"{len(found):,}",
        "held out": f"{value.mean():.3f}",
        "true": f"{true.mean():.3f}",
        "correlation": f"{correlation:+.2f}" if known else "-",
        "low end": f"{100 * (low <= true).mean():.1f}%",
        "high end": f"{100 * (true <= high).mean():.1f}%",
        "met: wrong": f"{(met & (true > limit)).sum()} of {met.sum()}",
        "well inside: met": f"{(met & inside).sum()} of {inside.sum()}",
        "within: beyond": f"{(within & (true > limit)).sum()} of {within.sum()}",
        "further rows: wrong": f"{(further & (true > limit)).sum()} of {further.sum()}",
    }


BY: dict[str, Callable[[Judged], Any]] = {
    "held out": lambda j: j.fit["kind"],
    "rows": lambda j: j.fit["rows"],
    "trees": lambda j: j.fit["trees"],
    "law": lambda j: j.fit["law"],
    "model": lambda j: "aware" if j.fit["aware"] else "blind",
    "rate": lambda j: f"{j.fit['constraint']}, {j.verdict['rate']}",
    "confidence": lambda j: str(j.fit["confidence"]),
}
PAIRS = [("held out", "law"), ("held out", "confidence"), ("held out", "rows"),
         ("held out", "trees"), ("held out", "model")]  # fmt: skip


def tables(found: list[Judged]) -> dict[str, str]:
    """One table by each property of a case, and by pairs of them."""

    def by(names: tuple[str, ...]) -> str:
        lines: dict[tuple[Any, ...], list[Judged]] = {}
        for j in found:
            lines.setdefault(tuple(BY[name](j) for name in names), []).append(j)
        cells = [[*map(str, key), *line_of(some).values()] for key, some in sorted(lines.items())]
        return markdown_table([*names, *line_of(found)], cells)

    out = {"All": markdown_table(list(line_of(found)), [list(line_of(found).values())])}
    out |= {f"By {name}": by((name,)) for name in BY}
    return out | {f"By {' and '.join(pair)}": by(pair) for pair in PAIRS}


def write_sections(sections: dict[str, str], head: str | None = None) -> None:
    """Write sections of the page, and keep the others."""
    path = Path(__file__).with_suffix(".md")
    before, *others = path.read_text().split("\n## ")
    found = dict(part.split("\n\n", 1) for part in others) | sections
    parts = (f"## {title}\n\n{text.strip()}\n" for title, text in found.items())
    path.write_text("\n".join([before if head is None else head, *parts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("file", type=Path)
    collecting.add_argument("--fits", type=int, default=6_000)
    collecting.add_argument("--first", type=int, default=0, help="seed of the first")
    collecting.add_argument("--processes", type=int, default=2)
    making = commands.add_parser("table")
    making.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "collect":
        collect(options.file, options.fits, options.processes, options.first)
        return
    fits = {f["seed"]: f for path in options.files for f in map(json.loads, path.open())}
    found = [Judged(fit, verdict) for fit in fits.values() for verdict in fit["verdicts"]]
    head = HEAD.format(n=len(fits), new=NEW, findings=FINDINGS.strip())
    write_sections(tables(found), head)


FINDINGS = """
- **Upper ends hold** in 96% of the verdicts, and in at least 93% of every line but those of
  100,000 rows (89% to 93%: with so small errors of sampling, what rates move from round to round
  counts more).
- ***Met* is rarely wrong**: 18 of 1,151 such verdicts (1.6%), and at most 5.6% in every line with
  a hundred of them or more (false negative rates under equalized odds: 7 of 126).
- **Held-out and true gaps go together** in every line (correlations of +0.17 to +0.74).
- **Of the models well inside the limit 95% are called met with `confidence=0.9`**, and 72% without
  a confidence. Cross-fitting calls as many met as so many further rows would.
- ***Met on these rows, not certain* is not a promise**: 36% of these models are truly beyond the
  limit. Training aims at the limit, so true gaps lie on both sides of it.
"""


if __name__ == "__main__":
    main()
