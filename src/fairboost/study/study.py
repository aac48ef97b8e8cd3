"""``run_study``: a configuration in, a folder of results out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairboost.exceptions import InvalidInputError
from fairboost.study.config import StudyConfig, read_config
from fairboost.study.methods import METHODS
from fairboost.study.output import write_results
from fairboost.study.runner import MethodSearch, StudyPlan, fit_seed, plan_study, run_trials

PARTS = ("validation", "test")
FIGURES = (
    *("performance", "fairness", "accuracy", "gap", "ratio", "fpr", "tpr", "threshold"),
    *("rows", "positives"),
)


@dataclass(frozen=True)
class StudyRun:
    """What a study came to.

    Parameters
    ----------
    points : DataFrame
        One line per model: search, trial, options, figures on validation and test rows, times.
    files : list of Path
        What was written.
    ran : int
        Trials that this process ran.
    missing : int
        Trials still to be run, or being run by other processes.
    failed : int
        Trials that failed; their messages are in ``points["error"]``.
    left_out : dict of str to str
        Methods that could not take part, with the reason.
    """

    points: pd.DataFrame
    files: list[Path]
    ran: int
    missing: int
    failed: int
    left_out: dict[str, str]


def read_study(path: str | Path) -> StudyConfig:
    """Read a configuration and check it; errors name the line.

    Parameters
    ----------
    path : str or Path
        A TOML file, see ``docs/study.md``.

    Returns
    -------
    config : StudyConfig
    """
    return read_config(path, tuple(METHODS))


def run_study(
    config: StudyConfig | str | Path,
    out: str | Path | None = None,
    *,
    train: bool = True,
    retry_failed: bool = False,
    most: int | None = None,
    progress: bool = False,
) -> StudyRun:
    """Run a study, or go on with it, and write its results.

    It may be killed at any time and run again: trials that are done stay done. Several processes
    may run the same study at once, on one machine or many, if they share a storage.

    Parameters
    ----------
    config : StudyConfig, str or Path
        The study, or its TOML file.
    out : str or Path, optional
        The folder for results; the name of the study if left out.
    train : bool, default=True
        Whether to run trials; if not, tables and pictures are made of those that are there.
    retry_failed : bool, default=False
        Run the trials again that failed before.
    most : int, optional
        Stop after so many trials.
    progress : bool, default=False
        Show a bar with the time left.

    Returns
    -------
    run : StudyRun
    """
    if not isinstance(config, StudyConfig):
        config = read_study(config)
    folder = Path(config.name if out is None else out)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"the output {str(folder)!r} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_study(config, f"sqlite:///{folder / 'trials.db'}")
    if not plan.searches:
        reasons = "; ".join(f"{title}: {why}" for title, why in plan.left_out.items())
        raise config.error("methods", f"no method can take part ({reasons}); add another")
    ran = run_trials(plan, progress=progress, retry_failed=retry_failed, most=most) if train else 0
    points = collect(plan)
    done = points.drop_duplicates(["seed", "features", "method", "trial"])
    return StudyRun(
        points=points,
        files=write_results(plan, points, folder),
        ran=ran,
        missing=sum(search.trials for search in plan.searches) - len(done),
        failed=0 if points.empty else int(done["error"].notna().sum()),
        left_out=plan.left_out,
    )


def collect(plan: StudyPlan) -> pd.DataFrame:
    """The table of points: one line per model of every trial that counts.

    Search, trial, options, figures on validation and test rows, times. All results follow from it.

    Parameters
    ----------
    plan : StudyPlan
        The study.
    """
    lines = [line for search in plan.searches for line in _points(search)]
    return pd.DataFrame(lines, columns=None if lines else ["seed", "features", "method", "trial"])


def _points(search: MethodSearch) -> Iterator[dict[str, Any]]:
    method = search.method
    for index, trial in sorted(search.counted().items()):
        if index >= search.trials:  # of an earlier run that was to have more
            break
        stored = trial.user_attrs["result"]
        common = {
            "seed": search.seed,
            "features": search.features,
            "method": method.name,
            "models": method.models,
            "trials": search.trials,
            "trial": index,
            "options": json.dumps(trial.params, sort_keys=True),
            "cpu": stored["cpu"],
            "wall": stored["wall"],
            "error": stored.get("error"),
            "commit": stored["commit"],
            "versions": json.dumps(stored["versions"], sort_keys=True),
        }
        if "error" in stored:
            yield {**common, "algorithm": method.name, "variant": ""}
        for point in stored.get("points", []):
            variant = point["variant"]
            own = f"{method.name}, {variant}" if method.separate and variant else method.name
            figures = {f"{part}_{name}": point[part][name] for part in PARTS for name in FIGURES}
            rates = {f"{part}_rates": json.dumps(point[part]["rates"]) for part in PARTS}
            known = point.get("fit", {})  # not in studies of earlier versions
            fit = {f"fit_{name}": known.get(name) for name in ("sha256", "decision_ratio", "smd")}
            fit["fit_seed"] = fit_seed(search.seed, index)
            yield {**common, "algorithm": own, "variant": variant, **figures, **rates, **fit}
