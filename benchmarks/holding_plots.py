"""The figures and pictures of ``docs/holding.md``, on generated loans.

Equal opportunity between the sexes: of the applicants who would repay, the same share of women and
of men should be refused. The gap is the false negative rate of women less that of men. New rows
are drawn afresh from the same law for every seed, and are never used in training.

* ``rounds``: the gap over the boosting rounds, on training rows and on new rows, for Algorithm 1
  of the paper and for the defaults; and what is left with one default switched off at a time.
* ``errors``: the gap on new rows against the number of rows that the multipliers look at, with
  tolerance 0, so that what is left is error.
* ``page``: runs the code blocks of the page one after the other, and shows what they print.

    python -m benchmarks.holding_plots            # half an hour on one core; writes to docs
    python -m benchmarks.holding_plots --quick    # small, one seed or two, writes nothing
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import matplotlib
import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy import stats
from tqdm import tqdm

from fairboost import FairGBMClassifier
from fairboost.datasets import Loans, make_loans
from fairboost.exceptions import FairnessWarning
from fairboost.plots.style import COLOURS, GREY, MARKERS

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1] / "docs"
NEW = 10_000  # seeds of new rows start here
TOLERANCE = 0.01
EVERY = 5  # rounds between points of a curve
SAID = (100, 300, 1_000, 3_000, 10_000, 30_000)
RATES = (0.05, 0.1, 0.25, 0.5)
SHOWN = (20, 50, 100, 200, 300)  # rounds of the curves that are printed

PLAIN, DEFAULTS = "plain LightGBM", "the defaults"
PAPER, AWARE = "Algorithm 1, `paper(...)`", "Algorithm 1, sex among the features"
SWITCHED = {
    DEFAULTS: {},
    '`iterate="last"`': {"iterate": "last"},
    '`proxy="cross_entropy"`': {"proxy": "cross_entropy"},
    '`multipliers="paper"`': {"multipliers": "paper"},
    '`memberships="observed"`': {"memberships": "observed"},
    "`holdout=None`": {"holdout": None},
    '`holdout=None, memberships="observed"`': {"holdout": None, "memberships": "observed"},
}
"""The defaults, and with some of them switched off."""


@dataclass(frozen=True)
class Size:
    """How much to compute; 15 seeds know a root mean square to within a fifth.

    Parameters
    ----------
    rows, rounds, seeds : int
        Training rows, trees and seeds of ``rounds``.
    error_rows, error_seeds : tuple of int, int
        The sizes of data and the seeds of ``errors``.
    new_rows : int
        Rows to judge on.
    """

    rows: int = 20_000
    rounds: int = 300
    seeds: int = 5
    error_rows: tuple[int, ...] = (3_000, 6_000, 12_000, 25_000, 50_000)
    error_seeds: int = 15
    new_rows: int = 200_000


QUICK = Size(3_000, 40, 1, (2_000, 4_000), 2, 20_000)
ERROR_ROUNDS = 100
HOLDOUTS = (0.1, 0.2, 0.4, "cross")

TITLES = (
    "Algorithm 1: multipliers\nread the training rows",
    "Defaults: multipliers\nread rows held out",
)
STYLES = {"training": (COLOURS[0], "-"), "new": (COLOURS[1], "-"), "held out": (COLOURS[2], "--")}
LABELS = (  # panel, line, text, where along the line, and how far above it
    (0, PLAIN, "new", "plain LightGBM, new rows", 0.6, 11),
    (0, PAPER, "new", "new rows", 0.6, 13),
    (0, PAPER, "training", "training rows", 0.78, -14),
    (1, PLAIN, "new", "plain LightGBM, new rows", 0.6, 11),
    (1, DEFAULTS, "held out", "rows held out", 0.6, 16),
    (1, DEFAULTS, "new", "new rows", 0.6, -20),
    (1, DEFAULTS, "training", "training rows", 0.6, -18),
)
NAMES = {"0.1": "10%", "0.2": "20%", "0.4": "40%", "cross": "cross-fitting"}
X_TICKS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
Y_TICKS = (0.005, 0.01, 0.02, 0.05, 0.1)


def engine(rounds: int) -> LGBMClassifier:
    return LGBMClassifier(n_estimators=rounds, verbose=-1, n_jobs=1)


def is_woman(loans: Loans) -> np.ndarray:
    return (loans.sensitive["sex"] == "female").to_numpy()


def gap(scores: np.ndarray, loans: Loans) -> float:
    """False negative rate of women less that of men."""
    women, repays, refused = is_woman(loans), loans.y == 1, scores < 0
    return float(refused[repays & women].mean() - refused[repays & ~women].mean())


def gap_by_round(booster: lightgbm.Booster, loans: Loans) -> pd.Series:
    """The gap of every prefix of the ensemble; scores are summed up chunk by chunk."""
    scores, out = np.zeros(len(loans.y)), {}
    for start in range(0, booster.num_trees(), EVERY):
        trees = {"start_iteration": start, "num_iteration": EVERY}
        scores += booster.predict(loans.X, raw_score=True, num_threads=1, **trees)
        out[min(start + EVERY, booster.num_trees())] = gap(scores, loans)
    return pd.Series(out)


def held_out_gap(model: FairGBMClassifier) -> pd.Series:
    """The gap that the multipliers see; a line of the trace is the model before its round."""
    rates = model.trace_.filter(like="rate: ")
    women, men = (rates.filter(like=f"{sex}]").iloc[:, 0] for sex in ("=female", "=male"))
    seen = pd.Series((women - men).to_numpy(), index=model.trace_["round"] - 1)
    return seen[(seen.index > 0) & (seen.index % EVERY == 0)]


def features(name: str, loans: Loans) -> pd.DataFrame:
    """The features; loans come without the sex of the applicant."""
    return loans.X.assign(sex=loans.sensitive["sex"]) if name == AWARE else loans.X


def fit(name: str, train: Loans, size: Size, seed: int, **more):
    """Fit a model by its name in the table."""
    X, y, sex = features(name, train), train.y, train.sensitive["sex"]
    if name == PLAIN:
        return engine(size.rounds).fit(X, y)
    asked = {"constraint": "equal_opportunity", "tolerance": TOLERANCE, "random_state": seed}
    if name in (PAPER, AWARE):
        model = FairGBMClassifier.paper(engine(size.rounds), **asked)
    else:
        model = FairGBMClassifier(engine(size.rounds), **asked, **SWITCHED[name], **more)
    return model.fit(X, y, sensitive_features=sex)


def judge(name: str, model, train: Loans, new: Loans) -> dict:
    """What the table says of a model."""
    on_train, on_new = (
        model.predict_proba(features(name, rows))[:, 1] - 0.5 for rows in (train, new)
    )
    line = {"training": gap(on_train, train), "new": gap(on_new, new)}
    return line | {"accuracy": float(((on_new >= 0) == new.y).mean())}


def curves_of(name: str, train: Loans, new: Loans, size: Size, seed: int) -> pd.DataFrame:
    """The gap over the rounds, for the methods in the picture."""
    more = {"iterate": "last"} if name == DEFAULTS else {}  # all rounds, not up to the best
    model = fit(name, train, size, seed, **more)
    seen = {"training": gap_by_round(model.booster_, train)}
    seen["new"] = gap_by_round(model.booster_, new)
    if name == DEFAULTS:
        seen["held out"] = held_out_gap(model)
    table = pd.DataFrame(seen).rename_axis("round").reset_index()
    return table.melt("round", var_name="where", value_name="gap").assign(name=name, seed=seed)


def multipliers_of(name: str, model) -> dict:
    """The multiplier of Algorithm 1 at its largest and at the end."""
    if name != PAPER:
        return {}
    path = model.trace_.filter(like="multiplier: ").max(axis=1)
    return {"largest": path.max(), "at": path.idxmax() + 1, "last": path.iloc[-1]}


def rounds_fits(size: Size) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Curves over the rounds, and the table of methods."""
    curves, table = [], []
    names = [PLAIN, PAPER, AWARE, *SWITCHED]
    with tqdm(total=size.seeds * len(names), unit="fit", desc="rounds") as bar:
        for seed in range(size.seeds):
            train = make_loans(size.rows, seed=seed)
            new = make_loans(size.new_rows, seed=NEW + seed)
            for name in names:
                model = fit(name, train, size, seed)
                line = {"seed": seed, "name": name} | judge(name, model, train, new)
                table.append(line | multipliers_of(name, model))
                if name in (PLAIN, PAPER, DEFAULTS):
                    curves.append(curves_of(name, train, new, size, seed))
                bar.update()
    return pd.concat(curves), pd.DataFrame(table)


def error_fit(train: Loans, new: Loans, holdout: float | str, seed: int) -> dict:
    """One point: the rows that count, and the gap on new rows, with tolerance 0."""
    model = FairGBMClassifier(
        engine(ERROR_ROUNDS),
        constraint="equal_opportunity",
        tolerance=0.0,
        holdout=holdout,
        random_state=seed,
    ).fit(train.X, train.y, sensitive_features=train.sensitive["sex"])
    scores = model.decision_function(new.X)
    women, men = model.fairness_report_.rates["rows"]
    line = {"seed": seed, "rows": len(train.y), "holdout": str(holdout)}
    line |= {"women": women, "men": men, "gap": gap(scores, new)}
    return line | {"fnr": float((scores < 0)[new.y == 1].mean())}


def errors_fits(size: Size) -> pd.DataFrame:
    """The gap on new rows by size of the data and rows held out."""
    lines, total = [], size.error_seeds * len(size.error_rows) * len(HOLDOUTS)
    with tqdm(total=total, unit="fit", desc="errors") as bar:
        for seed in range(size.error_seeds):
            new = make_loans(size.new_rows, seed=NEW + seed)
            for rows in size.error_rows:
                train = make_loans(rows, seed=seed)
                for holdout in HOLDOUTS:
                    lines.append(error_fit(train, new, holdout, seed))
                    bar.update()
    return pd.DataFrame(lines)


def sampling_error(rate: float, women: np.ndarray | float, men: np.ndarray | float):
    """Standard error of a difference of two rates that are equal in truth."""
    return np.sqrt(rate * (1 - rate) * (1 / women + 1 / men))


def summarise(fits: pd.DataFrame) -> pd.DataFrame:
    """One line per size and holdout: root mean square of the gap, and what sampling makes."""
    lines = []
    for (holdout, rows), part in fits.groupby(["holdout", "rows"]):
        women, men, rate = part[["women", "men", "fnr"]].mean()
        line = {"holdout": holdout, "rows": rows, "women": women, "men": men}
        line |= {"rms": np.sqrt((part["gap"] ** 2).mean()), "mean": part["gap"].mean()}
        line |= {"deviation": part["gap"].std(), "error": sampling_error(rate, women, men)}
        lines.append(line)
    table = pd.DataFrame(lines)
    return table.assign(ratio=table["rms"] / table["error"])


def draw_rounds(curves: pd.DataFrame, path: Path) -> None:
    """Two panels: where multipliers read training rows, and where they read rows held out."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.9), sharey=True, layout="constrained")
    by = curves.groupby(["name", "where", "round"])["gap"]
    middle, low, high = by.mean(), by.min(), by.max()
    for ax, name, title in zip(axes, (PAPER, DEFAULTS), TITLES, strict=True):
        ax.axhspan(-TOLERANCE, TOLERANCE, color=GREY, alpha=0.25, linewidth=0)
        plain = middle[PLAIN, "new"]
        ax.plot(plain.index, plain, color=GREY, linestyle=":", linewidth=2)
        for where, (colour, line) in STYLES.items():
            if (name, where) not in middle.index.droplevel("round"):
                continue
            mean, *ends = (part[name, where] for part in (middle, low, high))
            ax.fill_between(mean.index, *ends, color=colour, alpha=0.18, linewidth=0)
            ax.plot(mean.index, mean, color=colour, linestyle=line, linewidth=2)
        ax.set_title(title, fontsize=11)
        ax.set_xlabel("boosting round")
        ax.grid(alpha=0.25)
        ax.set_xlim(0, curves["round"].max())
    axes[0].set_ylabel("gap: false negative rate\nof women less that of men")
    label_lines(axes, middle, curves["round"].max())
    figure.savefig(path, dpi=110)
    plt.close(figure)


def label_lines(axes: Sequence[Axes], middle: pd.Series, last: int) -> None:
    """Say beside the lines what they are."""
    style = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 9}
    style["fontweight"] = "bold"
    for panel, name, where, text, x, up in LABELS:
        line = middle[name, where]
        x = line.index[np.abs(line.index - x * last).argmin()]
        colour = GREY if name == PLAIN else STYLES[where][0]
        axes[panel].annotate(text, (x, line[x]), (0, up), color=colour, **style)
    axes[0].annotate(
        f"asked for: within {TOLERANCE:g}", (0.02 * last, -TOLERANCE), (0, -9),
        color=GREY, **(style | {"ha": "left"}),
    )  # fmt: skip


def draw_errors(table: pd.DataFrame, fits: pd.DataFrame, path: Path) -> None:
    """Points of all sizes and holdouts, beside the line of the sampling error."""
    figure, ax = plt.subplots(figsize=(7.4, 4.3), layout="constrained")
    women = np.geomspace(table["women"].min() / 1.3, table["women"].max() * 1.3, 50)
    error = sampling_error(fits["fnr"].mean(), women, women * (fits["men"] / fits["women"]).mean())
    ax.plot(women, error, color=GREY, linewidth=2.5, zorder=1)
    ax.annotate(
        "sampling error of\nthe rows looked at", (women[12], error[12]), (40, 22),
        textcoords="offset points", color=GREY, fontweight="bold", va="center",
        arrowprops={"arrowstyle": "-", "color": GREY},
    )  # fmt: skip
    seeds = fits["seed"].nunique()
    ends = np.sqrt(seeds / stats.chi2.ppf([0.84, 0.16], seeds))  # one standard error each way
    for k, (holdout, name) in enumerate(NAMES.items()):
        part = table[table["holdout"] == holdout]
        reach = np.abs(np.outer(ends - 1, part["rms"]))
        ax.errorbar(
            part["women"], part["rms"], yerr=reach, linestyle="none", marker=MARKERS[k],
            markersize=7, color=COLOURS[k], elinewidth=1, label=name, zorder=2,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel("rows looked at that count in the smaller group (women who repay)")
    ax.set_ylabel("gap on new rows, root mean square")
    for axis, ticks in ((ax.xaxis, X_TICKS), (ax.yaxis, Y_TICKS)):
        axis.set_major_locator(ticker.FixedLocator(ticks))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_locator(ticker.NullLocator())
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, loc="lower left", title="rows held out", alignment="left")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def print_rounds(curves: pd.DataFrame, table: pd.DataFrame) -> None:
    figures = ["training", "new", "accuracy"]
    print("\n| model | gap, training rows | gap, new rows | accuracy, new rows |")
    print("|---|---|---|---|")
    for name, part in table.groupby("name", sort=False):
        mean, spread = part[figures].mean(), part[figures].std()
        print(
            f"| {name} | {mean.training:+.3f} | {mean.new:+.3f} ± {spread.new:.3f} "
            f"| {mean.accuracy:.3f} |"
        )
    print("\nThe largest multiplier of Algorithm 1, the round it is reached in, and the last:")
    print(table.loc[table["name"] == PAPER, ["largest", "at", "last"]].mean().round(3).to_dict())
    print("\nGaps over the rounds:")
    shown = curves.pivot_table("gap", "round", ["name", "where"])
    print(shown[shown.index.isin(SHOWN)].round(3).T.to_string())


def print_errors(table: pd.DataFrame) -> None:
    print("\nGap on new rows with tolerance 0, beside the sampling error of the rows looked at:")
    print(table.round(4).to_string(index=False))
    print(f"women who repay: {(table['women'] / table['rows']).max():.0%} of all rows")
    for name, part in (
        ("shares", table["holdout"] != "cross"),
        ("cross", table["holdout"] == "cross"),
    ):
        ratio = np.sqrt((table.loc[part, "ratio"] ** 2).mean())
        print(f"{name}: {ratio:.2f} times the sampling error (root mean square)")
    print("\n| rows in each group |", " | ".join(f"rate {r:g}" for r in RATES), "|")
    print("|---|" + "---|" * len(RATES))
    z = stats.norm.ppf(0.975)
    for n in SAID:
        told = (z * sampling_error(r, n, n) for r in RATES)
        print(f"| {n:,} |", " | ".join(f"{t:.3f}" for t in told), "|")
    needed = (f"{2 * r * (1 - r) * (z / TOLERANCE) ** 2:,.0f}" for r in RATES)
    print(f"Rows in each group to detect a gap of {TOLERANCE:g}:", "; ".join(needed))


def run_page(page: Path) -> None:
    """Run the code blocks one after the other, as a reader would paste them."""
    namespace: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        print(f"\n>>> {block.strip().splitlines()[-1]}")
        exec(compile(block, str(page), "exec"), namespace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small, writes nothing")
    size = QUICK if parser.parse_args().quick else Size()
    with tempfile.TemporaryDirectory() as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        folder = Path(nowhere) if size is QUICK else DOCS
        curves, methods = rounds_fits(size)
        fits = errors_fits(size)
        errors = summarise(fits)
        draw_rounds(curves, folder / "holding_rounds.png")
        draw_errors(errors, fits, folder / "holding_errors.png")
    print_rounds(curves, methods)
    print_errors(errors)
    run_page(DOCS / "holding.md")


if __name__ == "__main__":
    main()
