"""The pictures of a study: scatter, trade-off over alpha, times, randomized iterates, proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairboost.fairness.proxies import PROXIES
from fairboost.plots.style import COLOURS, GREY, PLAIN_TEXT, labelled, pyplot
from fairboost.study.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", ":")
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#606060", "#56B4E9", "#E69F00", "#8C564B"),
    *("#9467BD", "#A6A100", "#17A2A2", "#E377C2"),
)
"""Okabe and Ito's and more of the kind: there are more methods than they have colours."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "p", ">", "h")
WIDTH, HEIGHT = 5.2, 4.0
PERCENTILES = (5.0, 100.0)
SMALLEST_VIEW = 0.04


def draw_all(results: Results) -> dict[str, Figure]:
    """Every picture that the results allow, by name."""
    drawn = {
        "scatter": scatter(results),
        "tradeoff": tradeoff(results),
        "times": times(results),
        "randomized": randomized(results),
        "proxies": proxies(),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _panels(
    results: Results, rows: int = 1, height: float = HEIGHT, grid: Literal["both", "x"] = "both"
) -> tuple[Figure, Any]:
    """A figure and its axes, a column for each of aware and blind."""
    n = len(results.features)
    figure, axes = pyplot().subplots(
        rows, n, figsize=(WIDTH * n, height), layout="constrained", squeeze=False,
        sharex=rows > 1, sharey="row",
    )  # fmt: skip
    for ax in axes.flat:
        ax.grid(alpha=0.3, axis=grid)
    for features, ax in zip(results.features, axes[0], strict=True):
        ax.set_title(features)
    return figure, axes


def _style(results: Results, algorithm: str) -> dict[str, Any]:
    """Colour, marker and line of an algorithm, the same in all pictures."""
    everyone = list(dict.fromkeys(a for f in results.features for a in results.algorithms(f)))
    k = everyone.index(algorithm)
    return {
        "color": PALETTE[k % len(PALETTE)],
        "marker": MARKERS[k % len(MARKERS)],
        "linestyle": LINES[k % 2],
    }


def _name_axes(results: Results, axes: Any, rows: str) -> None:
    """Fairness to the right, performance upwards."""
    metrics = results.config.metrics
    rates = " and ".join(rate.upper() for rate in metrics.rates)
    kind = f"{rates} ratio" if metrics.fairness == "ratio" else f"1 - {rates} gap"
    name = metrics.performance.upper() if metrics.performance == "tpr" else metrics.performance
    where = "" if isinstance(metrics.threshold, float) else f" {metrics.threshold}"
    performance = f"{name}{where}".replace("_", " ").replace("at ", "at_")
    axes[0][0].set_ylabel(f"{performance}, {rows} rows")
    for ax in axes[0]:
        ax.set_xlabel(f"{kind}, {rows} rows")


def _legend(figure: Figure, axes: Any) -> None:
    from matplotlib.collections import PathCollection

    found: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    box = figure.legend(
        handles=list(found.values()), labels=list(found), loc="outside right upper",
        frameon=False, fontsize="small",
    )  # fmt: skip
    for text in box.get_texts():
        text.set(**PLAIN_TEXT)
    for shown in box.legend_handles:
        if isinstance(shown, PathCollection):
            shown.set_sizes([20])


def scatter(results: Results) -> Figure:
    """Every model on the validation rows; the worst few are out of the picture."""
    figure, axes = _panels(results)
    for features, ax in zip(results.features, axes[0], strict=True):
        every = []
        algorithms = results.algorithms(features)
        for depth, algorithm in enumerate(algorithms):  # ours on top
            pools = results.pools(features, algorithm)
            points = np.concatenate([pool.validation for pool in pools])
            style = _style(results, algorithm)
            # A trial of several models is a curve: small, beneath the others.
            several = len(points) > sum(pool.n_trials for pool in pools)
            ax.scatter(
                points[:, 1], points[:, 0], s=5 if several else 20, color=style["color"],
                marker=style["marker"], linewidths=0, label=labelled(results.title(algorithm)),
                alpha=0.5 if several else 0.75,
                zorder=(2 if several else 3) + (len(algorithms) - depth) / 100,
            )  # fmt: skip
            every.append(points)
        values = np.concatenate(every)
        for k, limit in ((1, ax.set_xlim), (0, ax.set_ylim)):
            low, high = np.percentile(values[:, k], PERCENTILES)
            if high > low:
                limit(low - 0.05 * (high - low), high + 0.05 * (high - low))
    _name_axes(results, axes, "validation")
    _legend(figure, axes)
    return figure


def tradeoff(results: Results) -> Figure:
    """The weighted test metric over alpha: its mean with 95% bands, and less our first method's.

    The lower panels show what the upper ones cannot: methods that differ by little.
    """
    figure, axes = _panels(results, rows=2, height=1.7 * HEIGHT)
    lowest, spread = np.inf, 0.0
    for features, ax, below in zip(results.features, *axes, strict=True):
        algorithms = results.algorithms(features)
        curves = {algorithm: results.curve(features, algorithm) for algorithm in algorithms}
        base = curves[algorithms[0]]["mean"]
        for algorithm, curve in curves.items():
            style = _style(results, algorithm)
            alpha, mean = curve["alpha"], curve["mean"]
            look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5}
            ax.fill_between(
                alpha, curve["low"], curve["high"], alpha=0.15, color=style["color"], linewidth=0
            )
            ax.plot(alpha, mean, label=labelled(results.title(algorithm)), **look)
            below.plot(alpha, mean - base, **look)
            lowest = min(lowest, float(mean.min()))
            spread = max(spread, float((mean - base).max()))
        below.set_xlabel("alpha (1: performance alone)")
    top = axes[0][0].get_ylim()[1]
    axes[0][0].set_ylim(lowest - 0.05 * (top - lowest), top)  # a wide band may go further down
    axes[1][0].set_ylim(-max(2 * spread, SMALLEST_VIEW), max(1.2 * spread, SMALLEST_VIEW / 2))
    axes[0][0].set_ylabel("alpha · performance\n+ (1 - alpha) · fairness, test rows")
    first = results.title(results.algorithms(results.features[0])[0])
    axes[1][0].set_ylabel(f"less that of {first}", **PLAIN_TEXT)
    _legend(figure, axes[0])
    return figure


def times(results: Results) -> Figure | None:
    """CPU time of a whole search, relative to plain LightGBM."""
    if "plain" not in results.methods:
        return None
    figure, axes = _panels(results, height=3.2, grid="x")
    names = [results.title(m) for m in results.methods]
    for features, ax in zip(results.features, axes[0], strict=True):
        relative = results.times(features).set_index("method")["search, relative"]
        places = [names.index(str(name)) for name in relative.index]
        ax.barh(places, relative, color=COLOURS[0], alpha=0.8)
        for place, value in zip(places, relative, strict=True):
            ax.text(value, place, f" {value:.1f}", va="center", fontsize="small")
        ax.set_xlim(0, relative.max() * 1.15)
        ax.set_xlabel("CPU time of the search / LightGBM's")
    axes[0][0].set_yticks(range(len(names)), names, **PLAIN_TEXT)
    axes[0][0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def randomized(results: Results) -> Figure | None:
    """The paper's last iterate and its randomized classifier, joined trial by trial."""
    if any("paper, randomized" not in results.algorithms(f) for f in results.features):
        return None
    figure, axes = _panels(results)
    for features, ax in zip(results.features, axes[0], strict=True):
        last, drawn = (
            np.concatenate([p.test for p in results.pools(features, name)])
            for name in ("paper", "paper, randomized")
        )
        for a, b in zip(last, drawn, strict=True):
            ax.plot([a[1], b[1]], [a[0], b[0]], color=GREY, linewidth=0.6, alpha=0.5, zorder=1)
        for k, (points, label) in enumerate(((last, "last iterate"), (drawn, "randomized"))):
            ax.scatter(
                points[:, 1], points[:, 0], s=18, color=COLOURS[k], marker=MARKERS[k],
                label=label, linewidths=0, zorder=2,
            )  # fmt: skip
    _name_axes(results, axes, "test")
    _legend(figure, axes)
    return figure


def proxies() -> Figure:
    """The smooth steps that stand in for a false positive, over the score of a negative row."""
    figure: Figure
    figure, ax = pyplot().subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
    score = np.linspace(-3, 3, 241)
    ax.step(score, (score >= 0).astype(float), color=GREY, where="post", label="step: the FPR")
    for k, (name, proxy) in enumerate(PROXIES.items()):
        ax.plot(
            score, proxy.value(score), color=COLOURS[k], linestyle=LINES[k % len(LINES)],
            label=name.replace("_", "-"),
        )  # fmt: skip
    ax.set_ylim(-0.1, 4)
    ax.set_xlabel("score (log-odds) of a row with label 0")
    ax.set_ylabel("its part in the false positive rate")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return figure
