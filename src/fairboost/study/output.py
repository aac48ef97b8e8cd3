"""The folder of a study: trials, tables, pictures and a manifest, from stored trials alone.

Every file is written to a temporary name and renamed, so a reader never sees half of one. Nothing
of the moment goes in: the same trials give the same folder.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairboost.search.spaces import describe
from fairboost.study.figures import draw_all
from fairboost.study.points import collect
from fairboost.study.results import DRAWS, SEES_GROUP, Results
from fairboost.study.runner import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES = 4
EXPLAINED = {
    "selected": "The model that is best on the validation rows at a given alpha, among as many "
    "trials as train {models} models: mean and standard deviation over {replicates} bootstrap "
    "draws. *weighted* is alpha x performance + (1 - alpha) x fairness on test rows, with the "
    "interval that holds 95% of draws.",
    "leads": "Difference of the weighted test metric, ours less the peer's, in draws of the same "
    "trials. Ahead or behind: 95% of draws are on one side. *test error*: what the test rows, "
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


def write_results(plan: Plan, out: Path) -> list[Path]:
    """Write the folder.

    Parameters
    ----------
    plan : Plan
        The study; what its storage holds is all that is read.
    out : Path
        The folder; made if need be.

    Returns
    -------
    files : list of Path
        What was written.
    """
    out.mkdir(parents=True, exist_ok=True)
    methods = {search.method.name: search.method for search in plan.searches}
    points = collect(plan)
    written = [
        _write(out / "trials.parquet", lambda path: points.to_parquet(path, index=False)),
        _write_text(out / "manifest.json", json.dumps(manifest(plan, points), indent=1) + "\n"),
    ]
    if points.empty or points["error"].notna().all():
        return written
    results = Results(points, plan.config, methods)
    tables: dict[str, pd.DataFrame] = dict(_tables(results))
    for name, table in tables.items():
        written.append(_write_text(out / f"{name}.csv", table.to_csv(index=False)))
    pictures = _write_pictures(results, out)
    page = _page(results, tables, pictures, plan)
    return [*written, *pictures, _write_text(out / "results.md", page)]


def manifest(plan: Plan, points: pd.DataFrame) -> dict[str, Any]:
    """What the results follow from: data, seeds, versions, commits, counts."""
    config = plan.config
    versions = [json.loads(v) for v in dict.fromkeys(points.get("versions", ()))]
    counts = {
        f"{s.method.name}, {s.features}, seed {s.seed}": {
            "planned": s.trials, **_count(points, s.method.name, s.features, s.seed)
        }
        for s in plan.searches
    }  # fmt: skip
    return {
        "study": config.name,
        "data": {
            **plan.source.description,
            "sha256": plan.source.checksum,
            "rows used": config.data.rows or len(plan.source.rows),
        },
        "rows": {
            f"seed {seed}": {name: len(part) for name, part in vars(plan.splits[seed]).items()}
            for seed in config.search.seeds
        },
        "seeds": list(config.search.seeds),
        "sampler": config.search.sampler,
        "threads": config.search.n_jobs,
        "metrics": {k: _plain(v) for k, v in vars(config.metrics).items()},
        "protocol": vars(config.protocol),
        "engine": describe(config.engine),
        "methods": {s.method.name: describe(s.method.space) for s in plan.searches},
        "left out": plan.left_out,
        "trials": counts,
        "versions": versions,
        "commits": [c for c in dict.fromkeys(points.get("commit", ())) if c is not None],
    }


def _count(points: pd.DataFrame, method: str, features: str, seed: int) -> dict[str, int]:
    if points.empty:
        return {"done": 0, "failed": 0}
    part = points[
        (points["method"] == method) & (points["features"] == features) & (points["seed"] == seed)
    ].drop_duplicates("trial")
    return {"done": len(part), "failed": int(part["error"].notna().sum())}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | tuple) else str(value)


def _tables(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    """All tables by name; aware and blind in one, as a column."""
    for name, make in (
        ("selected", results.selected),
        ("leads", results.leads),
        ("reach", results.reach),
        ("one_trial", results.one_trial),
        ("within", results.within),
        ("hypervolume", results.hypervolumes),
        ("times", results.times),
        ("randomized", results.randomized),
        ("curves", lambda features: _curves(results, features)),
    ):
        parts = [(features, make(features)) for features in results.features]
        found = [
            table.assign(features=f) for f, table in parts if table is not None and len(table)
        ]
        if found:
            table = pd.concat(found, ignore_index=True)
            yield name, table[["features", *(c for c in table if c != "features")]]
    published = results.published()
    if published is not None:
        yield "published", published
    failures = results.failures()
    if len(failures):
        yield "failures", failures


def _curves(results: Results, features: str) -> pd.DataFrame:
    return pd.concat(
        [
            results.curve(features, a).assign(algorithm=results.title(a))
            for a in results.algorithms(features)
        ]
    )


def _write_pictures(results: Results, out: Path) -> list[Path]:
    import matplotlib

    written = []
    # A constant salt and no date: the same results, the same file.
    with matplotlib.rc_context({"svg.hashsalt": "fairboost", "svg.fonttype": "path"}):
        for name, figure in draw_all(results).items():
            for kind in ("png", "svg"):
                save = partial(_save, figure, kind)
                written.append(_write(out / f"{name}.{kind}", save))
            matplotlib.pyplot.close(figure)
    return written


def _save(figure: Figure, kind: str, path: Path) -> None:
    metadata = {"Date": None} if kind == "svg" else {}
    figure.savefig(path, format=kind, dpi=130, metadata=metadata)


def _page(
    results: Results, tables: dict[str, pd.DataFrame], pictures: list[Path], plan: Plan
) -> str:
    """All tables and pictures on one page."""
    config, protocol = plan.config, plan.config.protocol
    fill = {
        "models": protocol.models, "replicates": protocol.replicates,
        "tolerance": config.metrics.tolerance,
        "reference": tuple(protocol.reference),
    }  # fmt: skip
    rows = {name: len(part) for name, part in vars(plan.splits[config.search.seeds[0]]).items()}
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
    names = [path.name for path in pictures if path.suffix == ".png"]
    for name, text in EXPLAINED.items():
        if name in tables:
            lines += ["", f"## {_heading(name)}", "", text.format(**fill), ""]
            lines.append(to_markdown(tables[name]))
    for name in ("published", "failures"):
        if name in tables:
            lines += ["", f"## {_heading(name)}", "", to_markdown(tables[name])]
    lines += ["", "## Pictures", ""]
    lines += [f"![{name.removesuffix('.png')}]({name})\n" for name in names]
    return "\n".join(lines).rstrip() + "\n"


def _heading(name: str) -> str:
    return name.capitalize().replace("_", " ")


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
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for record in table.to_dict("records"):
        cells = []
        for column in columns:
            value: Any = record[column]
            text = f"{value:g}" if column == "alpha" else _cell(value)
            if f"{column} sd" in merged and text:
                text += f" ± {_cell(record[f'{column} sd'])}"
            cells.append(text.replace("|", "\\|").replace("\n", " "))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return ""
        return f"{value:.{PLACES}f}" if abs(float(value)) < 10 else f"{value:,.1f}"
    return str(value)


def _write(path: Path, write: Callable[[Path], Any]) -> Path:
    """Let something write to a temporary name, then rename."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; results are not
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def _write_text(path: Path, text: str) -> Path:
    return _write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
