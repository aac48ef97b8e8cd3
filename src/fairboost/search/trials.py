"""The search on Optuna: samplers, storages, and searches that are owned by one study."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial
from sqlalchemy.exc import DBAPIError

from fairboost.exceptions import InvalidInputError

ATTEMPTS = 5
PASSING = (DBAPIError, optuna.exceptions.StorageInternalError)
"""What a database raises, and may not raise a moment later."""


class PairedSampler(optuna.samplers.RandomSampler):
    """Random draws that depend on the seed, the index of the trial and the name of the option.

    So a trial can be made again, and all methods get the same options at the same index: their
    comparison is a paired one.

    Parameters
    ----------
    seed : int
        Of the study.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw the value of one option."""
        index = trial.user_attrs["index"]
        rng = np.random.default_rng([self.seed, index, zlib.crc32(param_name.encode())])
        return _drawn(param_distribution, float(rng.random()))


def _drawn(what: BaseDistribution, u: float) -> Any:
    """The value at a share ``u`` of a distribution."""
    if isinstance(what, CategoricalDistribution):
        return what.choices[int(u * len(what.choices))]
    assert isinstance(what, FloatDistribution | IntDistribution)
    whole = isinstance(what, IntDistribution)
    # Every whole number has half a unit around it, the ends too.
    low, high = (what.low - 0.5, what.high + 0.5) if whole else (what.low, what.high)
    if what.log:
        value = float(np.exp(np.log(low) + u * (np.log(high) - np.log(low))))
    else:
        value = low + u * (high - low)
    within = np.clip(round(value) if whole else value, what.low, what.high)
    return int(within) if whole else float(within)


SAMPLERS: dict[str, Callable[..., optuna.samplers.BaseSampler]] = {
    "random": PairedSampler,
    "tpe": optuna.samplers.TPESampler,
    "nsga2": optuna.samplers.NSGAIISampler,
}
"""Samplers by their names."""


@contextmanager
def quiet() -> Iterator[None]:
    """Leave Optuna's log to warnings for a while."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def open_storage(url: str | None) -> optuna.storages.BaseStorage:
    """The storage behind a URL; one in memory without."""
    if url is None:
        return optuna.storages.InMemoryStorage()
    attempt = 0
    while True:
        attempt += 1
        try:
            if url.startswith("sqlite"):  # several processes write: wait for each other
                waiting = {"connect_args": {"timeout": 60}}
                return optuna.storages.RDBStorage(url, engine_kwargs=waiting)
            return optuna.storages.get_storage(url)
        except Exception as error:
            # Processes that make the same tables at once: the second finds them there next time.
            if isinstance(error, PASSING) and attempt < ATTEMPTS:
                time.sleep(0.2 * attempt)
                continue
            raise InvalidInputError(
                f"cannot open the storage {url!r} ({type(error).__name__}: {error}); give a URL "
                "that Optuna knows, such as sqlite:///trials.db"
            ) from error


def open_search(
    storage: optuna.storages.BaseStorage, name: str, owner: str, sampler: str, seed: int
) -> optuna.Study:
    """Open a search, or begin it.

    Parameters
    ----------
    storage : optuna.storages.BaseStorage
        Where it is kept.
    name : str
        Its name there.
    owner : str
        Of all that the trials follow from; that of a search already there must be the same.
    sampler : {"random", "tpe", "nsga2"}
        What draws options.
    seed : int
        Of the sampler.

    Raises
    ------
    InvalidInputError
        If trials of something else are kept under that name.
    """
    study = optuna.create_study(
        storage=storage, study_name=name, sampler=SAMPLERS[sampler](seed=seed),
        directions=["maximize", "maximize"], load_if_exists=True,
    )  # fmt: skip
    found = study.user_attrs.get("owner")
    if found is None and not study.get_trials(deepcopy=False):
        study.set_user_attr("owner", owner)
        found = study.user_attrs["owner"]
    if found != owner:
        raise InvalidInputError(
            f"the storage holds a search {name!r} of another study (its mark is {found}, this "
            f"one's is {owner}): data, split, metrics, options or their ranges differ. Give this "
            "study another name or another storage, or go back to what it was"
        )
    return study
