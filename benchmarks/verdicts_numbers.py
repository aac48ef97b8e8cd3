"""How far verdicts on predicted numbers can be trusted: fits, each judged on 100,000 new rows.

python -m benchmarks.verdicts_numbers collect FILE --fits 50
python -m benchmarks.verdicts_numbers table FILE         # a section of verdicts.md
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from tqdm import tqdm

from benchmarks.verdicts import write_sections
from fairboost import FairGBMRegressor
from fairboost._text import markdown_table
from fairboost.exceptions import FairnessWarning

NEW = 100_000
LIMITS = {
    "equal_means": (0.05, 0.2),
    "equal_distributions": (0.05, 0.1),
    "equal_errors": (0.05, 0.2),
    "calibrated": (0.05, 0.1),
}
SIZES, TREES = (4_000, 20_000), (20, 100)
KINDS = {"cross": "cross", "share": 0.2}
Case = tuple[str, float, int, int, bool, str, int]


def draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (the last is the group), what is predicted, and groups.

    Women (40%) have 0.8 less of what is predicted, in its unit of about 1.5 standard deviations of
    the noise, and another deviation; the third feature gives the group away in part.
    """
    rng = np.random.default_rng(seed)
    woman = rng.random(rows) < 0.4
    merit = rng.standard_normal(rows) - 0.4 * woman
    noise = rng.standard_normal((rows, 4))
    X = np.column_stack([merit + 0.5 * noise[:, 0], noise[:, 1], woman + 0.7 * noise[:, 2], woman])
    y = 3.0 + merit + 0.5 * np.sin(2 * noise[:, 1]) - 0.4 * woman
    y += (1.0 + 0.2 * woman) * rng.standard_normal(rows)
    return X, y, np.where(woman, "woman", "man")


@cache
def new_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return draw(NEW, 10**9)


def one_fit(case: Case) -> dict[str, Any]:
    """Fit, and give the verdict beside the figure on new rows."""
    constraint, tolerance, rows, trees, aware, held_out, seed = case
    X, y, s = draw(rows, seed)
    features = slice(None) if aware else slice(0, -1)
    model = FairGBMRegressor(
        LGBMRegressor(n_estimators=trees, n_jobs=1, verbose=-1),
        constraint=constraint, tolerance=tolerance, holdout=KINDS[held_out],
        random_state=seed,
    )  # fmt: skip
    X_test, y_test, s_test = draw(rows // 4, seed + 10**8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X[:, features], y, sensitive_features={"sex": s})
        X_new, y_new, s_new = new_rows()
        true = model.report_on(X_new[:, features], y_new, sensitive_features={"sex": s_new})
        test = model.report_on(X_test[:, features], y_test, sensitive_features={"sex": s_test})
    held = model.fairness_report_
    reports = {"held out": held.verdicts, "test": test.test_verdicts}
    found = {k: [v.status, v.value, v.low, v.high] for k, (v, *_) in reports.items()}
    return {"case": case, "where": held.where, "true": true.test_verdicts[0].value, **found}


def collect(path: Path, fits: int) -> None:
    """Make the fits that are missing, one of every line at a time."""
    path.touch()
    done = {tuple(json.loads(line)["case"]) for line in path.read_text().splitlines()}
    lines = [
        (name, *line)
        for name, limits in LIMITS.items()
        for line in itertools.product(limits, SIZES, TREES, (True, False), KINDS)
    ]
    cases = [(*line, seed) for seed in range(fits) for line in lines]
    with path.open("a") as file:
        for case in tqdm([case for case in cases if case not in done]):
            file.write(json.dumps(one_fit(case)) + "\n")
            file.flush()


TEXT = """Made by `python -m benchmarks.verdicts_numbers`. `FairGBMRegressor` on LightGBM, squared
error, two groups of which one has 40% of the rows; models that see the group and models that do
not; 4,000 and 20,000 rows; limits of 0.05 and 0.2 (distributions and calibration: 0.05 and 0.1).
Figures on 100,000 new rows are taken for the truth. `share`: a fifth of the rows held out.
`cross`: five folds of 4,000 rows, two of 20,000, which is the default at these sizes. `low end`,
`high end`: how often they hold; both aim at 97.5%. `met`, `not met`: certain verdicts that are
wrong, and their number. `within`: *met on these rows, not certain*, and how many of these have a
true figure beyond the limit. Then the same for a quarter as many test rows, which took no part in
training.

- **Certain verdicts are rarely wrong**: 1 of 236 *met* and none of 125 *not met* on the rows held
  out, none of 231 and 3 of 161 on test rows.
- **On the rows held out the high end holds less often than on test rows**: in 97.9% of fits in
  cross-fitting and in 96.4% with a share, beside 99.2% on test rows. Multipliers and the round
  that is kept follow these rows, so that their figures are somewhat too small. In groups of 48
  fits the high end held least often with equal errors and a share of 4,000 rows (85%), with
  calibration and a share of 20,000 rows where the model does not see the group (83%), and in
  cross-fitting of 4,000 rows with calibration where it does (85%).
- ***Met on these rows, not certain* is not a promise**: a third of these models are truly beyond
  the limit (34% in both ways of holding out; 16% on test rows). Training aims at the limit, so
  that true figures lie on both sides of it.
"""


def table(path: Path) -> str:
    """The section of the page: a line per constraint, number of trees and way of holding out."""
    by_line: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        fit = json.loads(line)
        name, _, _, trees, _, held_out, _ = fit["case"]
        by_line.setdefault((name, trees, held_out), []).append(fit)
    lines = [[*map(str, line), str(len(fits)), *summed(fits)] for line, fits in by_line.items()]
    header = ["constraint", "trees", "held out", "fits"]
    for rows in ("", "test: "):
        header += [f"{rows}{c}" for c in ("low end", "high end", "met", "not met", "within")]
    return f"{TEXT}\n{markdown_table(header, sorted(lines))}\n"


def summed(fits: list[dict[str, Any]]) -> list[str]:
    """How often ends hold and verdicts are wrong, on the rows held out and on test rows."""
    true, limit = np.array([[f["true"], f["case"][1]] for f in fits]).T
    out = []
    for rows in ("held out", "test"):
        status = np.array([f[rows][0] for f in fits])
        low, high = np.array([f[rows][2:] for f in fits]).T
        out += [f"{100 * ends.mean():.1f}%" for ends in (low <= true, true <= high)]
        for told, wrong in (
            ("met", true > limit),
            ("not met", true <= limit),
            ("met on these rows, not certain", true > limit),
        ):
            out.append(f"{wrong[status == told].sum()} of {(status == told).sum()}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("collect", "table"):
        commands.add_parser(name).add_argument("file", type=Path)
    commands.choices["collect"].add_argument("--fits", type=int, default=50)
    options = parser.parse_args()
    if options.command == "table":
        write_sections({"Verdicts on numbers": table(options.file)})
    else:
        collect(options.file, options.fits)


if __name__ == "__main__":
    main()
