"""Run the trials of a study: claim one, train, measure, store; until none is left.

A search is one method on one split, with or without the sensitive column. Searches take turns, so
that what is there when a study is stopped is a fair picture already, and times are measured
alternately.
"""

from __future__ import annotations

import platform
import subprocess
import time
import traceback
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from tqdm.auto import tqdm

import fairboost
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.search import claims, spaces
from fairboost.search.trials import make_sampler, open_search, open_storage, quiet
from fairboost.study.config import StudyConfig
from fairboost.study.data import Parts, Source, divide, read_source
from fairboost.study.measures import Predictions, decide, measure
from fairboost.study.methods import find, why_not
from fairboost.study.task import Method, Predictor, Task, Timed, as_predictors

PACKAGES = ("lightgbm", "numpy", "pandas", "scikit-learn", "fairlearn", "optuna")
MESSAGE_LENGTH = 2_000


@dataclass(frozen=True, eq=False)
class Search:
    """One method on one split, aware or blind.

    Parameters
    ----------
    method : Method
        The method.
    features : str
        ``"aware"`` or ``"blind"``.
    seed : int
        Of the split and of the draws.
    trials : int
        How many trials it has.
    study : optuna.Study
        Where they are kept.
    """

    method: Method
    features: str
    seed: int
    trials: int
    study: optuna.Study


@dataclass(frozen=True)
class Plan:
    """A study ready to run: its searches, and who is left out and why.

    Parameters
    ----------
    config : StudyConfig
        The study.
    source : Source
        Its rows.
    searches : tuple of Search
        In the order in which they take turns.
    left_out : dict of str to str
        Methods that cannot take part here, with the reason.
    registry : optuna.Study
        What belongs to the study as a whole.
    splits : dict of int to Parts
        Training, validation and test rows of every seed.
    """

    config: StudyConfig
    source: Source
    searches: tuple[Search, ...]
    left_out: dict[str, str]
    registry: optuna.Study
    splits: dict[int, Parts] = field(repr=False)


def storage_url(config: StudyConfig, out: Path) -> str:
    """Where trials are kept: as configured, or a file in the output folder."""
    return config.search.storage or f"sqlite:///{out / 'trials.db'}"


def plan_study(config: StudyConfig, storage: str | None) -> Plan:
    """Read the data, open the storage, and check that all fits together.

    Parameters
    ----------
    config : StudyConfig
        The study.
    storage : str, optional
        URL of the storage; in memory if None.
    """
    source = read_source(config)
    methods = [(named, find(config, named)) for named in config.methods]
    refused = {method.title: why_not(config, method) for _, method in methods}
    left_out = {title: why for title, why in refused.items() if why is not None}
    # What is wrong with a split is told before anything runs.
    parts = {seed: divide(config, source, seed) for seed in config.search.seeds}
    searches = []
    with quiet():
        try:
            store = open_storage(storage)
            registry = open_search(store, config.name, "study", make_sampler("random", 0))
            for seed in config.search.seeds:
                for features in config.search.features:
                    for named, method in methods:
                        if method.title in left_out or (method.aware_only and features == "blind"):
                            continue
                        study = open_search(
                            store, f"{config.name}/{seed}/{features}/{named.name}",
                            config.mark(named, method.space, source.checksum),
                            make_sampler(config.search.sampler, seed),
                        )  # fmt: skip
                        trials = max(config.search.trials // method.models, 1)
                        searches.append(Search(method, features, seed, trials, study))
        except InvalidInputError as error:
            key = "search.storage" if config.search.storage else "name"
            raise config.error(key, str(error)) from error
    return Plan(config, source, tuple(searches), left_out, registry, parts)


def run_trials(
    plan: Plan, *, progress: bool = False, retry_failed: bool = False, most: int | None = None
) -> int:
    """Run what is left to run, together with other processes that do the same.

    Parameters
    ----------
    plan : Plan
        What to run.
    progress : bool
        Show a bar with the time left.
    retry_failed : bool
        Run the trials again that failed before.
    most : int, optional
        Stop after so many trials.

    Returns
    -------
    n : int
        Trials that this process ran.
    """
    again = {s: _failed(s) if retry_failed else frozenset[int]() for s in plan.searches}
    done = 0
    with quiet(), claims.Worker(plan.registry) as worker, _Progress(plan, progress) as bar:
        waiting = list(plan.searches)
        while waiting:
            for search in list(waiting):
                if most is not None and done >= most:
                    return done
                claimed = claims.claim(search.study, worker, search.trials, again[search])
                if claimed is None:
                    waiting.remove(search)
                    continue
                _run_one(plan, search, claimed)
                done += 1
                bar.update()
    return done


def _failed(search: Search) -> frozenset[int]:
    counted = claims.counted(search.study.get_trials(deepcopy=False))
    return frozenset(t.number for t in counted.values() if "error" in t.user_attrs["result"])


def _run_one(plan: Plan, search: Search, claimed: claims.Claim) -> None:
    """Train and measure; what the method raises is stored, and the study goes on."""
    start = time.perf_counter(), _cpu_seconds()
    result: dict[str, Any] = {"versions": versions(), "commit": commit()}
    values = None
    try:
        found, values = _trained_and_measured(plan, search, claimed)
        result |= found
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:])
        result |= {
            "error": f"{type(error).__name__}: {error}"[:MESSAGE_LENGTH],
            "traceback": where[-MESSAGE_LENGTH:],
            "wall": time.perf_counter() - start[0],
            "cpu": _cpu_seconds() - start[1],
        }
    except BaseException:  # the user has had enough: someone else may have the trial
        claims.give_up(search.study, claimed.trial.number)
        raise
    claims.finish(search.study, claimed, result, values)


def _trained_and_measured(
    plan: Plan, search: Search, claimed: claims.Claim
) -> tuple[dict[str, Any], list[float]]:
    """What to store of a trial, and the values of its objectives."""
    config, method, parts = plan.config, search.method, plan.splits[search.seed]
    hidden = plan.source.hidden
    if search.features == "blind":
        parts = parts.without(hidden)
    task = Task(
        train=parts.train,
        metrics=config.metrics,
        engine_options=spaces.draw(config.engine, claimed.trial),
        options=spaces.draw(method.space, claimed.trial, prefix=f"{method.name}."),
        seed=int(np.random.default_rng([search.seed, claimed.index]).integers(2**31)),
        n_jobs=config.search.n_jobs,
        hidden=hidden,
        judged=(parts.validation, parts.test),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a constraint is not met is what is measured here
        wall, cpu = time.perf_counter(), _cpu_seconds()
        found = method.run(task)
        wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
        predictors = as_predictors(found)
        points = [
            {"variant": variant, **_measured(config, parts, predictor)}
            for variant, predictor in predictors.items()
        ]
    if not points:
        raise RuntimeError("the method returned no model")
    best = max(points, key=lambda p: p["validation"]["performance"] + p["validation"]["fairness"])
    values = [best["validation"]["performance"], best["validation"]["fairness"]]
    if not np.isfinite(values).all():
        raise RuntimeError(f"performance and fairness must be numbers, found {values}")
    if isinstance(found, Timed):
        wall, cpu = found.seconds, found.cpu_seconds
    times = {"wall": wall, "cpu": cpu}
    return {"points": points, **times}, values


def _measured(config: StudyConfig, parts: Parts, predictor: Predictor) -> dict[str, Any]:
    """Figures on validation and test rows."""
    metrics = config.metrics
    validation, test = _checked(predictor, parts.validation), _checked(predictor, parts.test)
    threshold = None
    if isinstance(metrics.threshold, OperatingPoint) and metrics.threshold_on == "validation":
        threshold = decide(metrics, parts.validation, validation)[1]
    return {
        "validation": measure(metrics, parts.validation, validation, threshold),
        "test": measure(metrics, parts.test, test, threshold),
    }


def _checked(predictor: Predictor, rows: Any) -> Predictions:
    found = predictor(rows)
    if not isinstance(found, Predictions):
        raise TypeError(f"a predictor returns Predictions, found {type(found).__name__}")
    for values in (found.score, found.decision):
        if values is not None and np.shape(values) != (len(rows),):
            raise ValueError(
                f"a predictor returns a value per row, {len(rows)} here; found {np.shape(values)}"
            )
    return found


def _cpu_seconds() -> float:
    """Of this process, all of its threads."""
    return time.process_time()


@cache
def versions() -> dict[str, str]:
    """Versions of what trains and measures."""
    found = {"python": platform.python_version(), "fairboost": fairboost.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """The commit of fairboost's own source, with a + if it was changed since; None if unknown."""
    folder = Path(fairboost.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    # An installed package may lie in someone else's repository, which does not track it.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    found = git("rev-parse", "HEAD")
    return f"{found}+" if found and git("status", "--porcelain", ".") else found


class _Progress:
    """A bar over all trials, and an honest guess at the time left: trials differ in length."""

    def __init__(self, plan: Plan, shown: bool) -> None:
        self.plan = plan
        total = sum(search.trials for search in plan.searches)
        self.bar = tqdm(
            total=total, disable=not shown, unit="trial",
            bar_format="{desc}{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} trials{postfix}",
        )  # fmt: skip
        self.began, self.at_start = time.monotonic(), self._spent()

    def __enter__(self) -> _Progress:
        self.update()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def update(self) -> None:
        """Look at what is stored, by whomever."""
        if self.bar.disable:
            return
        spent = self._spent()
        self.bar.n = sum(len(times) for times in spent.values())
        self.bar.set_postfix_str(self._left(spent))

    def _spent(self) -> dict[Search, list[float]]:
        return {
            search: [
                float(trial.user_attrs["result"]["wall"])
                for trial in claims.counted(search.study.get_trials(deepcopy=False)).values()
            ]
            for search in self.plan.searches
        }

    def _left(self, spent: dict[Search, list[float]]) -> str:
        every = [t for times in spent.values() for t in times]
        if not every:
            return "time left unknown"
        usual = float(np.mean(every))
        work = sum(
            (search.trials - len(times)) * (float(np.mean(times)) if times else usual)
            for search, times in spent.items()
        )
        # Others may be at work too: go by what all have done since we began.
        done = sum(every) - sum(sum(times) for times in self.at_start.values())
        pace = done / max(time.monotonic() - self.began, 1e-9) if done else 1.0
        return f"{_in_words(work / max(pace, 1e-3))} left"


def _in_words(seconds: float) -> str:
    """A duration.

    Examples
    --------
    >>> _in_words(42), _in_words(600), _in_words(9_000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
