"""Run the trials of a study: claim one, train, measure, store; until none is left.

A search is one method on one split, with or without the sensitive column. Searches take turns, so
that what is there when a study is stopped is a fair picture already, and times are measured
alternately.
"""

from __future__ import annotations

import itertools
import platform
import subprocess
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial
from tqdm.auto import tqdm

import fairboost
from fairboost._typing import FloatArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.search import claims, spaces
from fairboost.search.trials import open_search, open_storage, quiet
from fairboost.study.config import MetricsConfig, StudyConfig
from fairboost.study.data import Rows, Source, Split, divide, read_source
from fairboost.study.measures import Predictions, decide, marks, measure
from fairboost.study.methods import find, why_not
from fairboost.study.task import Method, Predictor, Task, Timed, as_predictors

PACKAGES = ("lightgbm", "numpy", "pandas", "scikit-learn", "fairlearn", "optuna")
MESSAGE_LENGTH = 2_000


@dataclass(frozen=True, eq=False)
class MethodSearch:
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

    def counted(self) -> dict[int, FrozenTrial]:
        """Its trials that count, by index."""
        return claims.counted(self.study.get_trials(deepcopy=False))


@dataclass(frozen=True)
class StudyPlan:
    """A study ready to run: its searches, and who is left out and why.

    Parameters
    ----------
    config : StudyConfig
        The study.
    source : Source
        Its rows.
    searches : tuple of MethodSearch
        In the order in which they take turns.
    left_out : dict of str to str
        Methods that cannot take part here, with the reason.
    registry : optuna.Study
        What belongs to the study as a whole.
    splits : dict of int to Split
        Training, validation and test rows of every seed.
    """

    config: StudyConfig
    source: Source
    searches: tuple[MethodSearch, ...]
    left_out: dict[str, str]
    registry: optuna.Study
    splits: dict[int, Split] = field(repr=False)


def plan_study(config: StudyConfig, storage: str | None) -> StudyPlan:
    """Read the data, open the storage, and check that all fits together.

    Parameters
    ----------
    config : StudyConfig
        The study.
    storage : str, optional
        URL of the storage, unless the configuration names one; in memory if None.
    """
    source = read_source(config)
    methods = [(named, find(config, named)) for named in config.methods]
    refused = {method.title: why_not(config, method) for _, method in methods}
    left_out = {title: why for title, why in refused.items() if why is not None}
    # What is wrong with a split is told before anything runs.
    splits = {seed: divide(config, source, seed) for seed in config.search.seeds}
    searches = []
    with quiet():
        try:
            store = open_storage(config.search.storage or storage)
            registry = open_search(store, config.name, "study", "random", 0)
            for seed, features, (named, method) in itertools.product(
                config.search.seeds, config.search.features, methods
            ):
                if method.title in left_out or (method.aware_only and features == "blind"):
                    continue
                study = open_search(
                    store, f"{config.name}/{seed}/{features}/{named.name}",
                    config.mark(named, method.space, source.checksum),
                    config.search.sampler, seed,
                )  # fmt: skip
                trials = max(config.search.trials // method.models, 1)
                searches.append(MethodSearch(method, features, seed, trials, study))
        except InvalidInputError as error:
            key = "search.storage" if config.search.storage else "name"
            raise config.error(key, str(error)) from error
    return StudyPlan(config, source, tuple(searches), left_out, registry, splits)


def run_trials(
    plan: StudyPlan, *, progress: bool = False, retry_failed: bool = False, most: int | None = None
) -> int:
    """Run what is left to run, together with other processes that do the same.

    Parameters
    ----------
    plan : StudyPlan
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
    done, waiting = 0, list(plan.searches)
    again = {s: _failed(s) if retry_failed else frozenset[int]() for s in waiting}
    with quiet(), claims.Worker(plan.registry) as worker, _Progress(plan, progress) as bar:
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
                bar.count_again()
    return done


def _failed(search: MethodSearch) -> frozenset[int]:
    trials = search.counted().values()
    return frozenset(t.number for t in trials if "error" in t.user_attrs["result"])


def _run_one(plan: StudyPlan, search: MethodSearch, claimed: claims.Claim) -> None:
    """Train and measure; what the method raises is stored, and the study goes on."""
    start = _clock()
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
            **_times(_clock() - start),
        }
    except BaseException:  # the user has had enough: someone else may have the trial
        claims.give_up(search.study, claimed.trial.number)
        raise
    claims.finish(search.study, claimed, result, values)


def _trained_and_measured(
    plan: StudyPlan, search: MethodSearch, claimed: claims.Claim
) -> tuple[dict[str, Any], list[float]]:
    """What to store of a trial, and the values of its objectives."""
    config, method, split = plan.config, search.method, plan.splits[search.seed]
    if search.features == "blind":
        split = split.without(plan.source.hidden)
    task = Task(
        train=split.train,
        metrics=config.metrics,
        engine_options=spaces.draw(config.engine, claimed.trial),
        options=spaces.draw(method.space, claimed.trial, prefix=f"{method.name}."),
        seed=fit_seed(search.seed, claimed.index),
        n_jobs=config.search.n_jobs,
        hidden=plan.source.hidden,
        judged=(split.validation, split.test),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a constraint is not met is what is measured here
        start = _clock()
        found = method.run(task)
        spent = _clock() - start
        points = [
            {"variant": variant, **_measured(config.metrics, split, predictor)}
            for variant, predictor in as_predictors(found).items()
        ]
    if not points:
        raise RuntimeError("the method returned no model")
    figures = [point["validation"] for point in points]
    best = max(figures, key=lambda on: on["performance"] + on["fairness"])
    values = [best["performance"], best["fairness"]]
    if not np.isfinite(values).all():
        raise RuntimeError(f"performance and fairness must be numbers, found {values}")
    if isinstance(found, Timed):
        spent = np.array([found.seconds, found.cpu_seconds])
    return {"points": points, **_times(spent)}, values


def fit_seed(seed: int, trial: int) -> int:
    """Random seed of the fits of a trial."""
    return int(np.random.default_rng([seed, trial]).integers(2**31))


def _measured(metrics: MetricsConfig, split: Split, predictor: Predictor) -> dict[str, Any]:
    """Figures on validation and test rows, and what tells the fit from others."""
    parts = {"validation": split.validation, "test": split.test}
    found = {name: _checked(predictor, rows) for name, rows in parts.items()}
    threshold = None
    if isinstance(metrics.threshold, OperatingPoint) and metrics.threshold_on == "validation":
        threshold = decide(metrics, split.validation, found["validation"])[1]
    figures = {name: measure(metrics, parts[name], found[name], threshold) for name in parts}
    decided, _ = decide(metrics, split.test, found["test"], threshold)
    return {**figures, "fit": marks(split.test, found["test"], decided)}


def _checked(predictor: Predictor, rows: Rows) -> Predictions:
    found = predictor(rows)
    if not isinstance(found, Predictions):
        raise TypeError(f"a predictor returns Predictions, found {type(found).__name__}")
    for values in (found.score, found.decision):
        if values is not None and np.shape(values) != (len(rows),):
            raise ValueError(
                f"a predictor returns a value per row, {len(rows)} here; found {np.shape(values)}"
            )
    return found


def _clock() -> FloatArray:
    """Seconds that have passed, and of this process on all of its threads."""
    return np.array([time.perf_counter(), time.process_time()])


def _times(seconds: FloatArray) -> dict[str, float]:
    return dict(zip(("wall", "cpu"), seconds.tolist(), strict=True))


@cache
def versions() -> dict[str, str]:
    """Versions of what trains and measures."""
    found = {"python": platform.python_version(), "fairboost": fairboost.__version__}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def commit() -> str | None:
    """The commit of fairboost's own source, with a + if it was changed since; None if unknown."""
    folder = Path(fairboost.__file__).parent

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(folder), *arguments]
        with suppress(OSError, subprocess.CalledProcessError):
            return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
        return None

    # An installed package may lie in someone else's repository, which does not track it.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    found = git("rev-parse", "HEAD")
    return f"{found}+" if found and git("status", "--porcelain", ".") else found


class _Progress(tqdm):  # type: ignore[misc]
    """A bar over all trials, and an honest guess at the time left: trials differ in length."""

    def __init__(self, plan: StudyPlan, shown: bool) -> None:
        self.searches = plan.searches
        super().__init__(
            total=sum(search.trials for search in plan.searches), disable=not shown, unit="trial",
            bar_format="{desc}{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} trials{postfix}",
        )  # fmt: skip
        self.began, self.before = time.monotonic(), sum(sum(times) for times in self._spent())
        self.count_again()

    def count_again(self) -> None:
        """Look at what is stored, by whomever."""
        if not self.disable:
            spent = self._spent()
            self.n = sum(map(len, spent))
            self.set_postfix_str(self._left(spent))

    def _spent(self) -> list[list[float]]:
        """Seconds of the trials that are done, of every search."""
        return [
            [float(t.user_attrs["result"]["wall"]) for t in search.counted().values()]
            for search in self.searches
        ]

    def _left(self, spent: list[list[float]]) -> str:
        every = [seconds for times in spent for seconds in times]
        if not every:
            return "time left unknown"
        work = sum(
            (search.trials - len(times)) * float(np.mean(times or every))
            for search, times in zip(self.searches, spent, strict=True)
        )
        # Others may be at work too: go by what all have done since we began.
        done = sum(every) - self.before
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
