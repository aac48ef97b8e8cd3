"""Pictures of groups and of training, as display objects in scikit-learn's manner.

A display holds the table that it draws (``display.table``, ``display.trace``). After drawing it
also holds the axes (``display.ax_``) and the figure (``display.figure_``). Colours are safe for
the colour-blind, and lines also differ by style or marker. Text and background keep the colours of
the theme, so dark themes work.
"""

from fairboost.plots.classes import GroupConfusionDisplay
from fairboost.plots.curves import RateCurveDisplay
from fairboost.plots.group_rates import GroupRatesDisplay
from fairboost.plots.multipliers import MultipliersDisplay
from fairboost.plots.numbers import GroupPredictionsDisplay
from fairboost.plots.scores import GroupCalibrationDisplay, GroupRocDisplay, GroupScoresDisplay
from fairboost.plots.tradeoff import TradeoffDisplay

__all__ = [
    "GroupCalibrationDisplay",
    "GroupConfusionDisplay",
    "GroupPredictionsDisplay",
    "GroupRatesDisplay",
    "GroupRocDisplay",
    "GroupScoresDisplay",
    "MultipliersDisplay",
    "RateCurveDisplay",
    "TradeoffDisplay",
]
