"""Options of an engine, which it knows by several names."""

from __future__ import annotations

from typing import Any


class Aliases(dict[str, tuple[str, ...]]):
    """All names of an option, by the one that it goes by here.

    Examples
    --------
    >>> aliases = Aliases(n_estimators=("n_estimators", "num_trees"))
    >>> aliases.value({"num_trees": 50}, "n_estimators")
    50
    >>> aliases.without({"num_trees": 50, "seed": 1}, "n_estimators")
    {'seed': 1}
    """

    def value(self, params: dict[str, Any], name: str, default: Any = None) -> Any:
        """Value of an option under any of its names; None counts as not given."""
        for alias in self.get(name, (name,)):
            if params.get(alias) is not None:
                return params[alias]
        return default

    def without(self, params: dict[str, Any], *names: str) -> dict[str, Any]:
        """The other options: those named are left out under all of their names."""
        dropped = {alias for name in names for alias in self.get(name, (name,))}
        return {key: value for key, value in params.items() if key not in dropped}
