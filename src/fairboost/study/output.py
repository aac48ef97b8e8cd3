"""The folder of a study: trials, tables, pictures and a manifest, from stored trials alone.

Every file is written to a temporary name and renamed, so a reader never sees half of one. Nothing
of the moment goes in: the same trials give the same folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairboost._files import whole_file, write_text
from fairboost._text import markdown_table
from fairboost.search.spaces import describe
from fairboost.study.figures import draw_all
from fairboost.study.results import DRAWS, SEES_GROUP, Results
from fairboost.study.runner import StudyPlan

PLACES = 4
EXPLAINED = {
    "selected": "The model that is best on the validation rows at a given alpha, among as many "
    "trials as train {models} models: mean and standard deviation over {replicates} bootstrap "
    "draws. *weighted* is alpha x performance + (1 - alpha) x fairness on test rows, with the "
    "interval that holds 95% of draws.",
    "leads": "Difference of the weighted test metric, ours less the peer's, in draws of the same "
    "trials. Ahead or behind: 95% of draws are on one side. *decides nothing*: we would be ahead, "
    "but with models that decide about (nearly) everyone alike, or no better than without the "
    "features. *test error*: what the test rows, "
    "being a sample, add to that; the standard error of two samples, so less for two models that "
    "decide most people alike.",
    "reach": "The same over all alpha; against all who need no group and draw no lots, the least "
    "favourable.",
    "one_trial": "One trial of the fair stage, a whole trade-off, less the draw of as many trials "
    "as train {models} models that every other method has. *time*: CPU time of that trial over "
    "that of the peer's draw.",
    "within": "Share of configurations whose gap on test rows is at most {tolerance:g}; *within "
    "noise*: not more than that by two standard errors of the test rows.",
    "hypervolume": "Area on test rows, from {reference} on, that the models of a draw dominate "
    "which no other beats on validation rows.",
    "times": "CPU seconds of training. *search, relative*: all of the models that the search "
    "trains, to plain LightGBM's; *per trial*: trials of the same options.",
    "randomized": "The paper's randomized classifier less its last iterate, of the same training.",
}
"""Tables of the page, by the method that makes them, and what they show."""


def write_results(plan: StudyPlan, points: pd.DataFrame, out: Path) -> list[Path]:
    """Write the folder.

    Parameters
    ----------
    plan : StudyPlan
        The study.
    points : DataFrame
        One line per model of what its storage holds.
    out : Path
        The folder.

    Returns
    -------
    files : list of Path
        What was written.
    """
    table = out / "trials.parquet"
    with whole_file(table) as temporary:
        points.to_parquet(temporary, index=False)
    about = json.dumps(manifest(plan, points), indent=1, default=str) + "\n"
    written = [table, _write(out / "manifest.json", about)]
    if points.empty or points["error"].notna().all():
        return written
    results = Results(points, plan.config, {s.method.name: s.method for s in plan.searches})
    tables = dict(_tables(results))
    written += [_write(out / f"{n}.csv", t.to_csv(index=False)) for n, t in tables.items()]
    pictures = _write_pictures(results, out)
    page = _write(out / "results.md", _page(tables, pictures, plan))
    return [*written, *pictures, page]


def _write(path: Path, text: str) -> Path:
    write_text(path, text)
    return path


def manifest(plan: StudyPlan, points: pd.DataFrame) -> dict[str, Any]:
    """What the results follow from: data, seeds, versions, commits, counts."""
    config = plan.config
    trials = points.drop_duplicates(["method", "features", "seed", "trial"])
    counts = {}
    for s in plan.searches:
        part = trials.query("method == @s.method.name & features == @s.features & seed == @s.seed")
        failed = 0 if part.empty else int(part["error"].notna().sum())
        counts[f"{s.method.name}, {s.features}, seed {s.seed}"] = {
            "planned": s.trials, "done": len(part), "failed": failed
        }  # fmt: skip
    return {
        "study": config.name,
        "data": {
            **plan.source.description,
            "sha256": plan.source.checksum,
            "rows used": config.data.rows or len(plan.source.rows),
        },
        "rows": {f"seed {seed}": plan.splits[seed].sizes() for seed in config.search.seeds},
        "seeds": list(config.search.seeds),
        "sampler": config.search.sampler,
        "threads": config.search.n_jobs,
        "metrics": vars(config.metrics),
        "protocol": vars(config.protocol),
        "engine": describe(config.engine),
        "methods": {s.method.name: describe(s.method.space) for s in plan.searches},
        "left out": plan.left_out,
        "trials": counts,
        "versions": [json.loads(v) for v in dict.fromkeys(points.get("versions", ()))],
        "commits": [c for c in dict.fromkeys(points.get("commit", ())) if c is not None],
    }


def _tables(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    """All tables by name; aware and blind in one, as a column."""
    for name in (*EXPLAINED, "curves"):
        parts = {features: getattr(results, name)(features) for features in results.features}
        found = {features: table for features, table in parts.items() if len(table)}
        if found:
            yield name, pd.concat(found, names=["features"]).reset_index("features")
    for name, table in (("published", results.published()), ("failures", results.failures())):
        if len(table):
            yield name, table


def _write_pictures(results: Results, out: Path) -> list[Path]:
    import matplotlib

    written = []
    # A constant salt and no date: the same results, the same file.
    with matplotlib.rc_context({"svg.hashsalt": "fairboost", "svg.fonttype": "path"}):
        for name, figure in draw_all(results).items():
            for kind, metadata in (("png", {}), ("svg", {"Date": None})):
                written.append(out / f"{name}.{kind}")
                with whole_file(written[-1]) as temporary:
                    figure.savefig(temporary, format=kind, dpi=130, metadata=metadata)
            matplotlib.pyplot.close(figure)
    return written


def _page(tables: dict[str, pd.DataFrame], pictures: list[Path], plan: StudyPlan) -> str:
    """All tables and pictures on one page."""
    config, protocol = plan.config, plan.config.protocol
    rows = plan.splits[config.search.seeds[0]].sizes()
    lines = [
        f"# {config.name}",
        "",
        f"{rows['train']:,} training, {rows['validation']:,} validation and {rows['test']:,} test "
        f"rows; {len(config.search.seeds)} seed(s). Performance: {config.metrics.performance} at "
        f"{config.metrics.threshold}; fairness: {config.metrics.fairness} of "
        f"{' and '.join(r.upper() for r in config.metrics.rates)}. *Aware*: the sensitive column "
        "is among the features; *blind*: it is not.",
        "",
        f"{SEES_GROUP.strip()} needs the group of everyone it decides on. {DRAWS.strip()} decides "
        "by a draw: two people alike may be decided differently.",
    ]
    if config.search.trials < 2 * protocol.models:
        lines.append(
            f"\nA draw takes {protocol.models} of {config.search.trials} models, with "
            "replacement: most keep the same one, and their intervals are too narrow to go by."
        )
    lines += [f"\nLeft out: {title} ({why})." for title, why in plan.left_out.items()]
    fill = {**vars(protocol), "tolerance": config.metrics.tolerance}
    for name in (*EXPLAINED, "published", "failures"):
        if name in tables:
            lines += ["", f"## {name.capitalize().replace('_', ' ')}", ""]
            if name in EXPLAINED:
                lines += [EXPLAINED[name].format(**fill), ""]
            lines.append(to_markdown(tables[name]))
    lines += ["", "## Pictures", ""]
    lines += [f"![{p.stem}]({p.name})\n" for p in pictures if p.suffix == ".png"]
    return "\n".join(lines).rstrip() + "\n"


def to_markdown(table: pd.DataFrame) -> str:
    """A table as Markdown; a column and its deviation become one.

    Examples
    --------
    >>> print(to_markdown(pd.DataFrame({"name": ["a"], "gap": [0.1], "gap sd": [0.02]})))
    | name | gap |
    |---|---|
    | a | 0.1000 ± 0.0200 |
    """
    merged = {f"{c} sd" for c in table} & set(table)
    columns = [str(c) for c in table if c not in merged]
    lines = []
    for record in table.to_dict("records"):
        cells = {c: f"{v:g}" if c == "alpha" else _cell(v) for c, v in record.items()}
        for name in columns:
            if f"{name} sd" in merged and cells[name]:
                cells[name] += f" ± {cells[f'{name} sd']}"
        lines.append([cells[c].replace("|", "\\|").replace("\n", " ") for c in columns])
    return markdown_table(columns, lines, aligned=False)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return ""
        return f"{value:.{PLACES}f}" if abs(float(value)) < 10 else f"{value:,.1f}"
    return str(value)
