"""Search spaces: options that are drawn for every trial, and options that stay.

A space is a dict from the name of an option to a :class:`Range`, a :class:`Choice` or a plain
value, which is taken as it is. In a configuration::

    num_leaves = { low = 10, high = 100, log = true }
    boosting_type = ["gbdt", "goss"]
    max_depth = 8
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fairboost._numbers import is_number
from fairboost.exceptions import InvalidInputError

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, the ends included; whole ones if both ends are.

    Parameters
    ----------
    low, high : int or float
        The ends.
    log : bool
        Alike on a logarithmic scale.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high)) or not self.low < self.high:
            raise InvalidInputError(
                f"a range goes from a low number to a higher one, found low = {self.low!r}, "
                f"high = {self.high!r}"
            )
        if self.log and self.low <= 0:
            raise InvalidInputError(
                f"a logarithmic range starts above 0, found low = {self.low!r}; raise it or "
                "leave log out"
            )

    def draw(self, trial: optuna.Trial, name: str) -> float:
        """A number for one trial, stored under a name."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        suggest: Callable[..., float] = trial.suggest_int if whole else trial.suggest_float
        return suggest(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidInputError("a choice needs at least one value, found none")

    def draw(self, trial: optuna.Trial, name: str) -> Any:
        """A value for one trial, stored under a name."""
        return trial.suggest_categorical(name, self.values)


Space: TypeAlias = Mapping[str, Any]
"""Options by name: a range, a choice, or a value that stays."""

_PAPER = {
    "n_estimators": Range(250, 5000, log=True),
    "num_leaves": Range(10, 100, log=True),
    "min_child_samples": Range(5, 500, log=True),
    "max_depth": Range(2, 20),
    "learning_rate": Range(0.01, 0.2, log=True),
    "reg_alpha": Range(1e-4, 0.1, log=True),
    "reg_lambda": Range(1e-4, 0.1, log=True),
    "boosting_type": "goss",
}
_FEW_TREES = {
    "n_estimators": Range(20, 160, log=True),
    "learning_rate": Range(0.05, 0.3, log=True),
}
SPACES: dict[str, Space] = {"paper": _PAPER, "small": {**_PAPER, **_FEW_TREES}}
"""Spaces of the engine's options by name: the paper's, and the same with fewer trees and higher
learning rates, so that these trees get somewhere."""


def draw(space: Space, trial: optuna.Trial, prefix: str = "") -> dict[str, Any]:
    """Options for one trial.

    Parameters
    ----------
    space : mapping
        What to draw.
    trial : optuna.Trial
        What to draw with.
    prefix : str
        Put before the names under which values are stored.
    """
    return {
        name: what.draw(trial, prefix + name) if isinstance(what, Range | Choice) else what
        for name, what in space.items()
    }


def describe(space: Space) -> dict[str, Any]:
    """A space as plain values, for a manifest or a mark."""
    return {k: vars(v) if isinstance(v, Range | Choice) else v for k, v in space.items()}


def as_parameter(value: Any) -> Any:
    """What a user wrote: ``{low, high, log}`` is a range, a list is a choice.

    Examples
    --------
    >>> as_parameter({"low": 1, "high": 8})
    Range(low=1, high=8, log=False)
    >>> as_parameter(["gbdt", "goss"])
    Choice(values=('gbdt', 'goss'))
    >>> as_parameter(0.1)
    0.1
    """
    if isinstance(value, list):
        return Choice(tuple(value))
    if not isinstance(value, Mapping):
        return value
    if not {"low", "high"} <= set(value) <= {"low", "high", "log"}:
        raise InvalidInputError(
            "a range has the keys low and high, and log if it is logarithmic; found "
            f"{', '.join(map(str, value)) or 'none'}"
        )
    return Range(**value)
