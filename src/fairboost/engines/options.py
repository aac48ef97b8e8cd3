"""Options of an engine, which it knows by several names, and the refusals that engines share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairboost.exceptions import EngineOptionError


class Aliases(dict[str, tuple[str, ...]]):
    """All names of an option, by the one that it goes by here.

    Examples
    --------
    >>> aliases = Aliases(n_estimators=("n_estimators", "num_trees"))
    >>> aliases.value({"num_trees": 50}, "n_estimators")
    50
    >>> aliases.without({"num_trees": 50, "seed": 1}, "n_estimators")
    {'seed': 1}
    >>> aliases.name({"num_trees": 50}, "n_estimators")
    'num_trees'
    """

    def value(self, params: dict[str, Any], name: str, default: Any = None) -> Any:
        """Value of an option under any of its names; None counts as not given."""
        for alias in self.get(name, (name,)):
            if params.get(alias) is not None:
                return params[alias]
        return default

    def name(self, params: dict[str, Any], name: str) -> str:
        """The name under which an option is given; the one that it goes by here, if it is not."""
        known = self.get(name, (name,))
        return next((alias for alias in known if params.get(alias) is not None), name)

    def without(self, params: dict[str, Any], *names: str) -> dict[str, Any]:
        """The other options: those named are left out under all of their names."""
        dropped = {alias for name in names for alias in self.get(name, (name,))}
        return {key: value for key, value in params.items() if key not in dropped}


def check_kind(estimator: Any, expected: type) -> None:
    """Refuse what is not an estimator of the engine: another object, or a class."""
    if isinstance(estimator, type) or not isinstance(estimator, expected):
        package = expected.__module__.partition(".")[0]
        kind = expected.__name__.removeprefix("LGBM").removeprefix("XGB")
        raise EngineOptionError(
            f"estimator must be an LGBM{kind} or XGB{kind}, found {estimator!r}; "
            f"{_better_class(estimator, kind)}pass {package}.{expected.__name__}(...) with the "
            "engine's options in it"
        )


def _better_class(estimator: Any, kind: str) -> str:
    """What to use instead of an estimator that predicts something else, or that has an engine."""
    names = [c.__name__ for c in type(estimator).__mro__]
    other, what = {
        "Regressor": ("Classifier", "labels, use"), "Classifier": ("Regressor", "numbers, use")
    }[kind]  # fmt: skip
    for name in (f"LGBM{other}", f"XGB{other}"):
        if name in names:
            return f"to predict {what} FairGBM{other}({name}(...)); else "
    for name in ("FairGBMClassifier", "FairGBMRegressor"):
        if name in names:
            return f"{name} has an engine in it and cannot be one; "
    return ""


def check_objective(found: Any, *own: str) -> None:
    """Refuse any objective but the engine's own log loss."""
    if found not in (None, *own):
        raise EngineOptionError(
            f"the estimator sets objective={found!r}, but fairboost brings its own (the "
            "log loss with constraints); leave objective out"
        )


def check_two_labels(name: str, found: Any, *expected: Any) -> None:
    """Refuse an option of several classes where y has two."""
    if found is not None and found not in expected:
        raise EngineOptionError(
            f"the estimator sets {name}={found!r}, but y has two classes; leave {name} out"
        )


def check_thread_count(name: str, found: Any) -> None:
    """Refuse a number of threads that is none."""
    try:
        whole = found is None or int(found) == float(found)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise EngineOptionError(
            f"the estimator sets {name}={found!r}, expected a whole number, such as {name}=2, or "
            f"{name}=-1 for all cores"
        )


def check_allowed(
    option: Callable[[str], Any],
    allowed: Mapping[str, tuple[tuple[Any, ...], str]],
    read: Callable[[Any], Any] = lambda value: value,
) -> None:
    """Refuse options that are set to anything but what they may be.

    Parameters
    ----------
    option : callable
        The value that the user gave to an option; None if there is none.
    allowed : mapping
        By name, the values that an option may have, and why no others.
    read : callable
        Turns the value of an option into what is compared.
    """
    for name, (values, why) in allowed.items():
        found = option(name)
        if found is not None and read(found) not in values:
            expected = " or ".join(map(repr, values)) or "nothing"
            raise EngineOptionError(
                f"the estimator sets {name}={found!r}, expected {expected}: {why}; leave {name} "
                "out"
            )
