"""Gradient boosted trees under fairness constraints, on stock LightGBM or XGBoost.

The parts, in the order of the paper: :mod:`~fairboost.rates`, :mod:`~fairboost.proxies`,
:mod:`~fairboost.constraints`, :mod:`~fairboost.multipliers`, :mod:`~fairboost.lagrangian`; and
:class:`FairGBMClassifier`, which puts them together.

Names are imported when they are first used, so that ``fairboost --help`` and completion in the
shell do not wait for the engines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from fairboost.constraints import bound, parity
    from fairboost.estimator import FairGBMClassifier, load
    from fairboost.operating_points import at_fpr, at_positive_rate, at_tpr
    from fairboost.tradeoff import TradeoffCurve, tradeoff_curve
    from fairboost.tuning import Tuned, tune

__all__ = [
    "FairGBMClassifier",
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
    "FairGBMClassifier": "estimator",
    "TradeoffCurve": "tradeoff",
    "Tuned": "tuning",
    "at_fpr": "operating_points",
    "at_positive_rate": "operating_points",
    "at_tpr": "operating_points",
    "bound": "constraints",
    "load": "estimator",
    "parity": "constraints",
    "tradeoff_curve": "tradeoff",
    "tune": "tuning",
}
_MODULES = (
    *("constraints", "datasets", "exceptions", "metrics", "plots", "proxies", "rates", "report"),
    "study",
)


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
