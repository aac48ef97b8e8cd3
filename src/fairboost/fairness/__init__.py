"""What is held equal: rates, smooth stand-ins for them, constraints, operating points."""

from fairboost.fairness.constraints import Bound, Constraint, Parity, bound, parity
from fairboost.fairness.moments import GroupMoments, Moment
from fairboost.fairness.numbers import calibrated
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import RATES, Rate

__all__ = [
    "PROXIES",
    "RATES",
    "Bound",
    "Constraint",
    "GroupMoments",
    "Moment",
    "OperatingPoint",
    "Parity",
    "Proxy",
    "Rate",
    "at_fpr",
    "at_positive_rate",
    "at_tpr",
    "bound",
    "calibrated",
    "parity",
]
