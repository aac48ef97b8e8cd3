"""The pictures of ``benchmarks.frontier``."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.frontier_leads import (
    FEWEST,
    OURS,
    PLAIN,
    Case,
    Fits,
    Results,
    fits,
    pseudo_values,
    variance,
)
from benchmarks.frontier_page import NAMES, SHORT, About, all_leads, cases_of
from fairboost.plots.style import COLOURS, GREY, MARKERS

mpl.use("Agg")
from matplotlib import pyplot as plt

DRAWN = ("equal_opportunity", "demographic_parity")
SHOWN = (OURS, "linear", "OxonFair", "EG", "group_frontier")
"""What is drawn: M2FGB is far below the others."""
SPAN = (-0.0125, 0.0305)
"""Leads in the picture of all; those of COMPAS are beyond, and written at its edge."""


def draw(results: Results, about: dict[str, About], folder: Path) -> dict[str, str]:
    """A picture per data set, blind: accuracy less plain LightGBM's over gap; names of files."""
    out = {}
    for data, (title, overlap) in about.items():
        cases = [c for c in cases_of(results, data) if c[1] == "blind" and c[2] in DRAWN]
        if not cases:
            continue
        figure, axes = plt.subplots(
            1, len(cases), squeeze=False, layout="constrained", figsize=(4.4 * len(cases), 3.9)
        )
        shown = {}
        for case, ax in zip(cases, axes[0], strict=True):
            _draw_case(ax, results, case, overlap)
            handles, names = ax.get_legend_handles_labels()
            shown |= dict(zip(names, handles, strict=True))
        axes[0, 0].set_ylabel("accuracy less that of plain LightGBM")
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=3, fontsize=8,
                      frameon=False)  # fmt: skip
        figure.suptitle(f"{title}, blind. Bars: one standard error", fontsize=11)
        out[data] = f"frontier_{data}.png"
        figure.savefig(folder / out[data], dpi=100)
        plt.close(figure)
    return out


def _draw_case(ax: plt.Axes, results: Results, case: Case, overlap: float) -> None:
    lowest = 0.0
    for k, method in enumerate(SHOWN):
        found = fits(results, case, [PLAIN, method])
        if method not in found or found[method].accuracy.shape[1] < FEWEST:
            continue
        loss = found[method].accuracy - found[PLAIN].accuracy
        gap = found[method].points()[0]
        order, ours = np.argsort(gap), method == OURS
        lowest = min(lowest, float(loss.mean(axis=1).min()))
        ax.errorbar(
            gap[order], loss.mean(axis=1)[order], _errors(loss, overlap)[order],
            _gap_errors(found[method], overlap)[order],
            marker=MARKERS[k], color=COLOURS[k], markersize=5 if ours else 4,
            linewidth=2 if ours else 1, linestyle="-" if ours else "--", elinewidth=0.6,
            label=NAMES.get(method, method), zorder=3 if ours else 2,
        )  # fmt: skip
    found = fits(results, case, [PLAIN])
    ax.plot(*found[PLAIN].points()[0], 0.0, marker="*", color=GREY, linestyle="", markersize=9,
            label="plain LightGBM")  # fmt: skip
    ax.set_ylim(1.25 * lowest - 0.001, 0.003 - 0.1 * lowest)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("gap")
    ax.set_title(f"{SHORT[case[2]]} ({found[PLAIN].accuracy.shape[1]} seeds)", fontsize=10)
    ax.grid(alpha=0.3)
    ax.tick_params(labelsize=8)


def _errors(values: np.ndarray, overlap: float) -> np.ndarray:
    return np.sqrt([variance(v, overlap) for v in values])


def _gap_errors(mine: Fits, overlap: float) -> np.ndarray:
    n = mine.accuracy.shape[1]
    return _errors(pseudo_values(lambda seeds: mine.take(seeds).points()[0], n), overlap)


def draw_leads(results: Results, about: dict[str, About], path: Path) -> None:
    """One picture of all leads of blind fairboost: a line per case, a mark per peer."""
    peers = ("linear", "OxonFair", "EG")
    found = all_leads(results, about, "blind")
    cases = [c for c in dict.fromkeys(c for p in peers for c in found.get(p, {})) if c[2] in DRAWN]
    figure, ax = plt.subplots(figsize=(8, 0.42 * len(cases) + 1.6), layout="constrained")
    for k, peer in enumerate(peers, start=1):
        label = NAMES[peer]
        for row, case in enumerate(cases):
            lead = found.get(peer, {}).get(case)
            if lead:
                ax.errorbar(
                    lead.mean, row + 0.22 * (k - 2), xerr=lead.half, marker=MARKERS[k],
                    color=COLOURS[k], markersize=5, elinewidth=1.2,
                    label=label,
                )  # fmt: skip
                label = None
                if lead.mean < SPAN[0]:
                    at = (SPAN[0], row + 0.22 * (k - 2))
                    ax.annotate(f" ← {lead.mean:+.3f}", at, color=COLOURS[k], fontsize=8,
                                va="bottom")  # fmt: skip
    ax.axvline(0.0, color=GREY, linewidth=1)
    ax.set_xlim(*SPAN)
    ax.set_yticks(range(len(cases)), [f"{about[c[0]].title}, {SHORT[c[2]]}" for c in cases])
    ax.set_ylim(len(cases) - 0.5, -0.5)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.3, axis="x")
    ax.set_xlabel(
        "accuracy of fairboost less that of the peer, at the gap of the peer", fontsize=9
    )
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
