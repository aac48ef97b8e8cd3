"""What is held equal: rates, smooth stand-ins for them, constraints, operating points."""

from fairboost.fairness.constraints import Bound, Constraint, Parity, bound, parity
from fairboost.fairness.moments import GroupMoments, Moment
from fairboost.fairness.numbers import calibrated
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_positive_rate, at_tpr
from fairboost.fairness.proxies import PROXIES, Proxy
from fairboost.fairness.rates import RATES, Rate
from fairboost.fairness.ratios import Floor, RatioParity, at_least

__all__ = [
    "PROXIES",
    "RATES",
    "Bound",
    "Constraint",
    "Floor",
    "GroupMoments",
    "Moment",
    "OperatingPoint",
    "Parity",
    "Proxy",
    "Rate",
    "RatioParity",
    "at_fpr",
    "at_least",
    "at_positive_rate",
    "at_tpr",
    "bound",
    "calibrated",
    "parity",
]
