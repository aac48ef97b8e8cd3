"""The page and the pictures of ``benchmarks.frontier``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
from scipy.stats import t as student

from fairboost._text import markdown_table
from fairboost.plots.style import COLOURS, GREY, MARKERS

mpl.use("Agg")
from matplotlib import pyplot as plt

OURS, PLAIN = "fairboost", "plain"
LEVEL = 0.95
NAMES = {
    "linear": "linear post-processing",
    "linear_aware": "linear post-processing †",
    "OxonFair": "OxonFair, inferred groups",
    "EG": "fairlearn EG",
    "group_frontier": "group thresholds † (ceiling)",
}
"""Peers, as the page calls them."""
SHORT = {
    "equal_opportunity": "equal opportunity",
    "demographic_parity": "demographic parity",
    "equalized_odds": "equalized odds",
}


class Key(NamedTuple):
    """What a fit is of."""

    data: str
    features: str
    constraint: str
    method: str
    tolerance: float
    seed: int


Results: TypeAlias = dict[Key, dict]
Case: TypeAlias = tuple[str, str, str]


class Line(NamedTuple):
    """A peer at a tolerance in a case, against fairboost at the same gap."""

    peer: str
    tolerance: float
    accuracy: np.ndarray
    gap: np.ndarray
    seeds: list[int]  # in which fairboost reaches the gap of the peer
    lead: np.ndarray  # accuracy of fairboost less that of the peer, in these seeds
    below: int  # other seeds


def of_case(results: Results, case: Case, method: str) -> dict[float, dict[int, tuple]]:
    """Gap and accuracy of a method in a case, by tolerance and seed."""
    found: dict[float, dict[int, tuple]] = {}
    for key, record in results.items():
        if key[:4] == (*case, method):
            found.setdefault(key.tolerance, {})[key.seed] = record["gap"], record["accuracy"]
    return dict(sorted(found.items()))


def frontier(results: Results, case: Case) -> dict[int, np.ndarray]:
    """Gaps and accuracies of fairboost, in the order of the gaps; plain is its loosest tolerance.

    Only of seeds that have every tolerance.
    """
    fits = [*of_case(results, case, OURS).values(), *of_case(results, case, PLAIN).values()]
    seeds = set.intersection(*(set(fit) for fit in fits)) if len(fits) > 1 else set()
    return {seed: np.array(sorted(fit[seed] for fit in fits)).T for seed in sorted(seeds)}


def lines(results: Results, case: Case) -> list[Line]:
    """All comparisons of a case."""
    ours, out = frontier(results, case), []
    for peer in NAMES:
        for tolerance, by_seed in of_case(results, case, peer).items():
            both = [seed for seed in ours if seed in by_seed]
            if not both:
                continue
            gap, accuracy = np.array([by_seed[seed] for seed in both]).T
            reached = np.array([g >= ours[s][0, 0] for g, s in zip(gap, both, strict=True)])
            at = np.array([np.interp(g, *ours[s]) for g, s in zip(gap, both, strict=True)])
            seeds = [seed for seed, ok in zip(both, reached, strict=True) if ok]
            lead = (at - accuracy)[reached]
            out.append(Line(peer, tolerance, accuracy, gap, seeds, lead, int((~reached).sum())))
    return out


def interval(values: np.ndarray) -> float:
    """Half the width of the interval of a mean; infinite for a single value."""
    n = len(values)
    if n < 2:
        return float("inf")
    return float(student.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))


WORDS = ("ahead", "even", "behind", "not reached")


def verdict(lead: np.ndarray) -> str:
    """Ahead or behind, where the interval of the mean is on one side of zero; even otherwise."""
    if not len(lead):
        return "not reached"
    mean, half = lead.mean(), interval(lead)
    return "ahead" if mean > half else "behind" if -mean > half else "even"


def cases_of(results: Results, data: str) -> list[Case]:
    """Cases of a data set that have results, blind first."""
    found = {key[:3] for key in results if key.data == data}
    return [c for f in ("blind", "aware") for k in SHORT if (c := (data, f, k)) in found]


HEAD = """# The whole trade-off, against the strongest peers

Made by `python -m benchmarks.frontier run` and `python -m benchmarks.frontier table`.
LightGBM {lightgbm}, fairlearn {fairlearn}.

Every seed divides the rows anew. All methods get the same training rows, the same test rows and
LightGBM at its defaults (100 trees). They are the methods of `fairboost study` (docs/study.md).
Numbers beside a name are tolerances. *Blind*: the group is no feature. *Aware*: it is one.
† needs the group of everyone it decides on; among blind methods it is a ceiling, no competitor.

- **lead**: accuracy of fairboost less that of the peer, *at the gap that the peer reaches on the
  test rows*, by seed; the mean over seeds with its {level:.0%} t interval. The accuracy of
  fairboost at a gap is interpolated between its five tolerances and plain LightGBM.
- **ahead**, **behind**: the interval excludes 0. **even**: it does not.
- **below**: seeds in which the gap of the peer is smaller than any gap of fairboost. They do not
  count in the lead; **not reached** where all seeds are such.
- **gap**: largest less smallest rate of two groups on test rows, of equalized odds the larger of
  the two gaps. Chance alone makes a gap larger than 0.
"""


def page(results: Results, titles: dict[str, str], pictures: dict[str, str]) -> str:
    """The page."""
    parts = [
        HEAD.format(level=LEVEL, lightgbm=version("lightgbm"), fairlearn=version("fairlearn"))
    ]
    parts.append(f"\n## Ahead, even, behind\n\n{summary(results, titles)}")
    for data, title in titles.items():
        if not (cases := cases_of(results, data)):
            continue
        parts.append(f"\n## {title}\n")
        if data in pictures:
            parts.append(f"\n![{title}](../docs/{pictures[data]})\n")
        for case in cases:
            seeds = len(frontier(results, case))
            parts.append(f"\n### {case[1]}, {SHORT[case[2]]} ({seeds} seeds)\n\n")
            parts.append(case_table(results, case) + "\n")
    return "".join(parts)


def summary(results: Results, titles: dict[str, str]) -> str:
    """One line per case and peer, and one per peer over all cases."""
    rows, every = [], {}
    for data in titles:
        for case in cases_of(results, data):
            found = lines(results, case)
            for peer in dict.fromkeys(line.peer for line in found):
                mine = [line for line in found if line.peer == peer]
                every.setdefault(peer, []).extend(mine)
                rows.append(
                    [f"{case[0]}, {case[1]}, {SHORT[case[2]]}", NAMES[peer], *_counts(mine)]
                )
    for peer, mine in every.items():
        rows.append(["**all cases**", NAMES[peer], *_counts(mine)])
    titles_ = ["case", "peer", *WORDS, "mean lead", "smallest lead"]
    return markdown_table(titles_, rows) + "\n"


def mean_leads(mine: list[Line]) -> np.ndarray:
    """The mean lead over some lines, of every seed in which one of them has a lead."""
    found: dict[int, list[float]] = {}
    for line in mine:
        for seed, lead in zip(line.seeds, line.lead, strict=True):
            found.setdefault(seed, []).append(lead)
    return np.array([np.mean(leads) for leads in found.values()])


def _counts(mine: list[Line]) -> list[str]:
    words = [verdict(line.lead) for line in mine]
    lead = mean_leads(mine)
    counts = [str(words.count(word)) for word in WORDS]
    means = [float(line.lead.mean()) for line in mine if len(line.lead)]
    return [*counts, _signed(lead), f"{min(means):+.4f}" if means else ""]


def case_table(results: Results, case: Case) -> str:
    """Plain, fairboost, and the peers with their leads."""
    rows = []
    for method in (PLAIN, OURS):
        for tolerance, by_seed in of_case(results, case, method).items():
            gap, accuracy = np.array(list(by_seed.values())).T
            name = method if method == PLAIN else f"{method}, {tolerance:g}"
            rows.append([name, *_means(accuracy, gap), "", "", ""])
    for line in lines(results, case):
        rows.append([
            f"{NAMES[line.peer]}, {line.tolerance:g}", *_means(line.accuracy, line.gap),
            _signed(line.lead), verdict(line.lead), str(line.below or ""),
        ])  # fmt: skip
    titles = ["method", "accuracy", "gap", "lead", "", "below"]
    return markdown_table(titles, rows)


def _means(accuracy: np.ndarray, gap: np.ndarray) -> list[str]:
    return [f"{accuracy.mean():.4f}", f"{gap.mean():.4f}"]


def _signed(lead: np.ndarray) -> str:
    half = interval(lead)
    mean = f"{lead.mean():+.4f}" if len(lead) else ""
    return mean + (f" ± {half:.4f}" if np.isfinite(half) else "")


def draw(results: Results, titles: dict[str, str], folder: Path) -> dict[str, str]:
    """A picture per data set: accuracy over gap, means over seeds; the names of the files."""
    out = {}
    for data, title in titles.items():
        cases = cases_of(results, data)
        if not cases:
            continue
        features = list(dict.fromkeys(case[1] for case in cases))
        constraints = list(dict.fromkeys(case[2] for case in cases))
        figure, axes = plt.subplots(
            len(features), len(constraints), squeeze=False, layout="constrained",
            figsize=(3.6 * len(constraints) + 0.4, 2.9 * len(features) + 0.7),
        )  # fmt: skip
        for case in cases:
            ax = axes[features.index(case[1]), constraints.index(case[2])]
            _draw_case(ax, results, case)
        for ax in axes[-1]:
            ax.set_xlabel("gap on test rows")
        for line in axes:
            line[0].set_ylabel("accuracy on test rows")
        shown = {}
        for ax in axes.flat:
            handles, names = ax.get_legend_handles_labels()
            shown |= dict(zip(names, handles, strict=True))
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=4, fontsize=8,
                      frameon=False)  # fmt: skip
        figure.suptitle(title, fontsize=11)
        out[data] = f"frontier_{data}.png"
        figure.savefig(folder / out[data], dpi=100)
        plt.close(figure)
    return out


def _draw_case(ax: plt.Axes, results: Results, case: Case) -> None:
    for k, method in enumerate((OURS, *NAMES)):
        points = _mean_points(of_case(results, case, method).values())
        if not len(points):
            continue
        ours = method == OURS
        ax.plot(
            *points.T, marker=MARKERS[k], color=COLOURS[k], markersize=5 if ours else 4,
            linewidth=2 if ours else 1, linestyle="-" if ours else "--",
            label=NAMES.get(method, method), zorder=3 if ours else 2,
        )  # fmt: skip
    plain = _mean_points(of_case(results, case, PLAIN).values())
    if len(plain):
        ax.plot(*plain.T, marker="*", color=GREY, linestyle="", markersize=9, label="LightGBM")
    ax.set_title(f"{case[1]}, {SHORT[case[2]]}", fontsize=9)
    ax.grid(alpha=0.3)
    ax.tick_params(labelsize=8)


def _mean_points(fits: Iterable[dict[int, tuple]]) -> np.ndarray:
    return np.array(sorted(tuple(np.mean(list(fit.values()), axis=0)) for fit in fits))
