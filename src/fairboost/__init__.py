"""Gradient boosted trees under fairness constraints, on stock LightGBM or XGBoost.

The parts, in the order of the paper: :mod:`~fairboost.rates`, :mod:`~fairboost.proxies`,
:mod:`~fairboost.constraints`, :mod:`~fairboost.multipliers`, :mod:`~fairboost.lagrangian`; and
:class:`FairGBMClassifier`, which puts them together.
"""

__version__ = "0.1.0.dev0"

from fairboost.constraints import bound, parity
from fairboost.estimator import FairGBMClassifier, load
from fairboost.operating_points import at_fpr, at_positive_rate, at_tpr
from fairboost.tradeoff import TradeoffCurve, tradeoff_curve

__all__ = [
    "FairGBMClassifier",
    "TradeoffCurve",
    "__version__",
    "at_fpr",
    "at_positive_rate",
    "at_tpr",
    "bound",
    "load",
    "parity",
    "tradeoff_curve",
]
