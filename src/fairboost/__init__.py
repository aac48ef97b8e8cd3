"""Gradient boosted trees under fairness constraints, on stock LightGBM or XGBoost.

The rooms, in the order of the paper: :mod:`~fairboost.fairness`, :mod:`~fairboost.algorithm`,
:mod:`~fairboost.training`; and :class:`FairGBMClassifier` and :class:`FairGBMRegressor`, which
put them together.

Names are imported when they are first used, so that ``fairboost --help`` and completion in the
shell do not wait for the engines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from fairboost.data.probabilities import group_probabilities
    from fairboost.data.windows import smooth
    from fairboost.engines.linear.stage import LinearStage
    from fairboost.fairness.constraints import bound, parity
    from fairboost.fairness.minimax import minimax
    from fairboost.fairness.numbers import calibrated, equal_distributions
    from fairboost.fairness.operating_points import at_fpr, at_positive_rate, at_tpr
    from fairboost.fairness.ratios import at_least
    from fairboost.model.estimator import FairGBMClassifier, load
    from fairboost.model.regressor import FairGBMRegressor
    from fairboost.model.wrapped import report_on
    from fairboost.selection.tradeoff import TradeoffCurve, tradeoff_curve
    from fairboost.selection.tuning import SearchOptions, Tuned, tune

__all__ = [
    "FairGBMClassifier",
    "FairGBMRegressor",
    "LinearStage",
    "SearchOptions",
    "TradeoffCurve",
    "Tuned",
    "__version__",
    "at_fpr",
    "at_least",
    "at_positive_rate",
    "at_tpr",
    "bound",
    "calibrated",
    "equal_distributions",
    "group_probabilities",
    "load",
    "minimax",
    "parity",
    "report_on",
    "smooth",
    "tradeoff_curve",
    "tune",
]

_HOMES = {
    "data.probabilities": ("group_probabilities",),
    "data.windows": ("smooth",),
    "engines.linear.stage": ("LinearStage",),
    "fairness.constraints": ("bound", "parity"),
    "fairness.minimax": ("minimax",),
    "fairness.numbers": ("calibrated", "equal_distributions"),
    "fairness.operating_points": ("at_fpr", "at_positive_rate", "at_tpr"),
    "fairness.ratios": ("at_least",),
    "model.estimator": ("FairGBMClassifier", "load"),
    "model.regressor": ("FairGBMRegressor",),
    "model.wrapped": ("report_on",),
    "selection.tradeoff": ("TradeoffCurve", "tradeoff_curve"),
    "selection.tuning": ("SearchOptions", "Tuned", "tune"),
}
_MODULES = (
    *("datasets", "exceptions", "fairness", "filings", "metrics", "mlflow", "monitoring", "plots"),
    "report",
    "study",
)


def __getattr__(name: str) -> Any:
    """Import a name of the package when it is first used."""
    if name in _MODULES:
        return import_module(f"fairboost.{name}")
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"fairboost.{home}"), name)
            return value
    raise AttributeError(f"module 'fairboost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
