"""What constraints on a predicted number cost over the plain engine, in time.

Plain and constrained fits alternate in one process, on the same data and with the same options,
as in ``benchmarks.overhead``, and ratios of their medians are reported.

    python -m benchmarks.overhead_regression          # 10 minutes on two cores; writes the page
    python -m benchmarks.overhead_regression --all --repeats 7  # all constraints; an hour
    python -m benchmarks.overhead_regression --quick  # a minute, smaller sizes, writes nothing

The page is overhead_regression.md.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from tqdm import tqdm
from xgboost import XGBRegressor

import fairboost
from benchmarks.synthetic import FEATURES, make
from fairboost import FairGBMRegressor, calibrated, parity
from fairboost.algorithm.game import Game, Session
from fairboost.algorithm.multipliers import Control
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import choose
from fairboost.exceptions import FairnessWarning
from fairboost.fairness.numbers import SameDistribution, resolve
from fairboost.fairness.two_sided import two_sided
from fairboost.kernel.losses import Loss
from fairboost.kernel.threads import Threads
from fairboost.tasks.layout import Outcomes, lay_out
from fairboost.tasks.regression import Regression

FILE = Path(__file__).resolve().with_suffix(".md")
ROUNDS, TARGET, TARGET_ROWS = 100, 1.10, 1_000_000

ENGINES: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, str], type]] = {
    "lightgbm": (
        LGBMRegressor,
        {"verbose": -1},
        {"squared": "regression", "poisson": "poisson"},
        np.float64,
    ),
    "xgboost": (
        XGBRegressor,
        {},
        {"squared": "reg:squarederror", "poisson": "count:poisson"},
        np.float32,
    ),
}
CONSTRAINTS = {
    "equal means": parity("prediction", 0.02, by="g"),
    "distributions, 1 threshold": SameDistribution(0.02, "g", 1),
    "distributions, 15 thresholds": SameDistribution(0.02, "g"),
    "calibrated": calibrated(0.01, by="g"),
    "calibrated within deciles": calibrated(0.01, within=10, by="g"),
}
HELD_TO_TARGET = tuple(CONSTRAINTS)[:3]
CUSTOM = "no constraint, custom objective"
"""The engine alone, with its squared loss as a function of the user's: what every method that
changes gradients pays at least. LightGBM's own squared loss is quicker, probably because it
knows that its Hessian is constant, which a custom objective cannot declare."""
CASES = (("squared", 2), ("squared", 20), ("poisson", 20))
"""Losses and numbers of groups whose fits are timed."""


def draw(n: int, groups: int, loss: str) -> tuple[Any, Any, Any]:
    """Features, numbers to predict, and groups that differ in their means."""
    X, _, g = make(n, groups)
    rng = np.random.default_rng(1)
    mean = 0.5 * X[:, 0] + 0.3 * X[:, 1] + 0.4 * (g % 2)
    # A/E takes numbers of one sign.
    normal = np.maximum(4.0 + mean + rng.normal(size=n), 0.0)
    y = rng.poisson(np.exp(mean)) if loss == "poisson" else normal
    return X, y.astype(np.float64), g


def squared_loss(y: Any, scores: Any) -> tuple[Any, Any]:
    """Gradient and Hessian, as engines take them from a user."""
    return (scores - y).astype(np.float32), np.ones(len(y), np.float32)


def fit(engine: str, loss: str, kind: str, data: tuple[Any, Any, Any], n_jobs: int) -> None:
    """One fit, plain or under a constraint at the defaults."""
    maker, options, objectives, _ = ENGINES[engine]
    objective = squared_loss if kind == CUSTOM else objectives[loss]
    model = maker(n_estimators=ROUNDS, n_jobs=n_jobs, objective=objective, **options)
    X, y, g = data
    if kind in ("plain", CUSTOM):
        model.fit(X, y)
        return
    fair = FairGBMRegressor(model, constraint=CONSTRAINTS[kind], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        fair.fit(X, y, sensitive_features={"g": g})


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Parameters
    ----------
    rows, repeats, n_jobs : int
        Rows, fits of each kind, and threads.
    constraints : tuple of str
        Names of the constraints.
    """

    rows: int
    repeats: int
    n_jobs: int
    constraints: tuple[str, ...] = HELD_TO_TARGET


def time_fits(plan: Plan, engine: str, loss: str, groups: int) -> dict[str, Any]:
    """Seconds of each fit by kind; kinds take turns, each time in another order."""
    data, n_jobs = draw(plan.rows, groups, loss), plan.n_jobs
    kinds = ["plain", *([CUSTOM] if loss == "squared" else []), *plan.constraints]
    for kind in kinds:  # warm up
        fit(engine, loss, kind, tuple(a[:20_000] for a in data), n_jobs)  # type: ignore[arg-type]
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for k in tqdm(range(plan.repeats), desc=f"{engine}, {loss}, {groups} groups", leave=False):
        for kind in np.roll(kinds, k).tolist():
            start = time.perf_counter()
            fit(engine, loss, kind, data, n_jobs)
            seconds[kind].append(time.perf_counter() - start)
    return {kind: np.array(of_kind) for kind, of_kind in seconds.items()}


def ratio(plain: Any, fair: Any) -> str:
    """Ratio of the medians with its bootstrap interval, and that of the fastest fits."""
    draws = np.random.default_rng(0).integers(0, len(plain), (2_000, len(plain)))
    boot = np.median(fair[draws], axis=1) / np.median(plain[draws], axis=1)
    low, high = np.quantile(boot, [0.025, 0.975])
    value, fastest = np.median(fair) / np.median(plain), fair.min() / plain.min()
    return f"{value:.3f} [{low:.3f}, {high:.3f}] | {fastest:.3f}"


def own_time(
    loss: str, n: int, groups: int, kind: str, n_jobs: int, scores: type, repeats: int = 25
) -> float:
    """Milliseconds per round per million rows of everything that is not the engine."""
    _, y, g = draw(n, groups, loss)
    column = SensitiveColumn("g", g.astype(np.int32), tuple(range(groups)))
    constraints = [two_sided(c) for c in resolve(CONSTRAINTS[kind], None, ["g"])]
    rng = np.random.default_rng(0)
    cells = build_cells(np.zeros(n, np.int32), [column])
    held = choose(0.2, cells, 0.0, None, rng)
    layout = lay_out(cells.among(held.trained, None), constraints, held, threads=Threads(n_jobs))
    layout = replace(
        layout, outcomes=Outcomes(y[held.trained]), measured_outcomes=Outcomes(y[~held.trained])
    )
    task = Regression.reading([m for c in constraints for m in c.moments], Loss(loss))
    session = Session(Game(task, layout, Control(), True))
    rows = [0.3 * rng.normal(size=n).astype(scores) for _ in range(2)]
    measured, trained = ([f[which] for f in rows] for which in (~held.trained, held.trained))
    seconds = []
    for k in range(repeats):
        start = time.perf_counter()
        session.play(trained[k % 2], measured[k % 2])
        seconds.append(time.perf_counter() - start)
    session.close()
    return float(np.median(seconds[5:])) * 1e3 * 1e6 / n


def report(plan: Plan) -> str:
    """The page."""
    packages = ", ".join(f"{name} {version(name)}" for name in (*ENGINES, "numpy"))
    lines = [
        "# Overhead of constraints on a predicted number",
        "",
        f"Made by `python -m benchmarks.overhead_regression`: {plan.rows:,} rows, {FEATURES} "
        f"features, {ROUNDS} trees, {plan.n_jobs} threads, `FairGBMRegressor` at its defaults. "
        f"Python {platform.python_version()}, {packages}, fairboost {fairboost.__version__}.",
        "",
        f"Time ratios are ratios of the medians of {plan.repeats} alternating fits each, with a "
        "bootstrap interval over the fits. The ratio of the fastest fits is the one that other "
        "work on the machine disturbs least.",
        "",
        f"**To reach at {TARGET_ROWS:,} rows**: a time ratio of {TARGET:.2f} with 2 and 20 "
        f"groups, for {', '.join(HELD_TO_TARGET)}.",
        "",
        f"*{CUSTOM}* is the engine alone with the gradient and the Hessian of the squared loss "
        "written as a function in NumPy. LightGBM's own squared loss is quicker than that, "
        "probably because it knows that its Hessian is constant, which a custom objective cannot "
        "declare.",
        "",
        "| engine | loss | groups | constraint | plain, s | fairboost, s | time ratio [95%] | of "
        "the fastest | to reach | goal |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for engine in ENGINES:
        for loss, groups in CASES:
            found = time_fits(plan, engine, loss, groups)
            plain = found.pop("plain")
            for kind, fair in found.items():
                seconds = f"{np.median(plain):.3f} | {np.median(fair):.3f}"
                lines.append(
                    f"| {engine} | {loss} | {groups} | {kind} | {seconds} | "
                    f"{ratio(plain, fair)} | {goal(plan, kind, plain, fair)} |"
                )
                print(lines[-1], flush=True)
    return "\n".join([*lines, "", *own_part(plan), ""])


def goal(plan: Plan, kind: str, plain: Any, fair: Any) -> str:
    """What was to be reached at so many rows, and whether it was; nothing where there is none."""
    if kind not in HELD_TO_TARGET or plan.rows < TARGET_ROWS:
        return " | "
    reached = np.median(fair) / np.median(plain) <= TARGET
    return f"{TARGET:.2f} | {'reached' if reached else '**not reached**'}"


def own_part(plan: Plan) -> list[str]:
    """The section on what a round does outside the engine."""
    lines = [
        "## The method's own part of a round",
        "",
        "Everything that a round does outside the engine, in milliseconds per million rows on "
        f"{plan.n_jobs} threads. 80% of the rows are trained on, and constraints are measured on "
        "the other 20%. The engine saves a fifth of its own time, because its trees are grown on "
        "80% of the rows.",
        "",
        "| engine | loss | constraint | 2 groups | 20 groups |",
        "|---|---|---|---|---|",
    ]
    for engine, (_, _, _, scores) in ENGINES.items():
        for loss in ("squared", "poisson"):
            for kind in plan.constraints:
                cost = [
                    own_time(loss, plan.rows, groups, kind, plan.n_jobs, scores)
                    for groups in (2, 20)
                ]
                lines.append(f"| {engine} | {loss} | {kind} | {cost[0]:.1f} | {cost[1]:.1f} |")
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="fits of each kind")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="constraints without a goal too")
    options = parser.parse_args()
    constraints = tuple(CONSTRAINTS) if options.all else HELD_TO_TARGET
    if options.quick:
        print(report(Plan(20_000, 3, options.n_jobs, constraints)))
    else:
        page = report(Plan(options.rows, options.repeats, options.n_jobs, constraints))
        FILE.write_text(page)


if __name__ == "__main__":
    main()
