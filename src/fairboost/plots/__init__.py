"""Pictures of groups and of training, as display objects in scikit-learn's manner.

A display holds the table that it draws (``display.table``, ``display.trace``), so that the figures
can be had without the picture, and once drawn the axes (``display.ax_``) and the figure
(``display.figure_``). Colours are safe for the colour-blind, lines differ by style or marker too,
and no text or ground is coloured by hand, so a dark theme keeps its say.
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
