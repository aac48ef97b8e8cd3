"""Gradient boosted trees under fairness constraints, on stock LightGBM or XGBoost.

The rooms, in the order of the paper: :mod:`~fairboost.fairness`, :mod:`~fairboost.algorithm`,
:mod:`~fairboost.training`; and :class:`FairGBMClassifier`, which puts them together.

Names are imported when they are first used, so that ``fairboost --help`` and completion in the
shell do not wait for the engines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from fairboost.fairness.constraints import bound, parity
    from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
    from fairboost.model.estimator import FairGBMClassifier, load
    from fairboost.selection.tradeoff import TradeoffCurve, tradeoff_curve
    from fairboost.selection.tuning import SearchOptions, Tuned, tune

__all__ = [
    "FairGBMClassifier",
    "SearchOptions",
    "TradeoffCurve",
    "Tuned",
    "__version__",
    "at_fpr",
    "at_positive_rate",
    "at_tpr",
    "bound",
    "load",
    "parity",
    "tradeoff_curve",
    "tune",
]

_HOMES = {
    "FairGBMClassifier": "model.estimator",
    "SearchOptions": "selection.tuning",
    "TradeoffCurve": "selection.tradeoff",
    "Tuned": "selection.tuning",
    "at_fpr": "fairness.operating_points",
    "at_positive_rate": "fairness.operating_points",
    "at_tpr": "fairness.operating_points",
    "bound": "fairness.constraints",
    "load": "model.estimator",
    "parity": "fairness.constraints",
    "tradeoff_curve": "selection.tradeoff",
    "tune": "selection.tuning",
}
_MODULES = ("datasets", "exceptions", "fairness", "metrics", "plots", "report", "study")


def __getattr__(name: str) -> Any:
    """Import a name of the package when it is first used."""
    if name in _MODULES:
        return import_module(f"fairboost.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'fairboost' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"fairboost.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
