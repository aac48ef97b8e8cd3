"""The worst group: the largest error of a group, as small as it can be.

With R_g the error of group g, L the loss and w a weight, training plays a game for::

    minimise  max_g L_g                      minimax("loss")
    minimise  L + w max_g R_g                minimax("fnr"), "fpr" or "error"

The largest error is the largest mean of errors under weights m_g of groups that are 0 or more and
add up to 1. Trees descend on that mean. The weights climb: each is multiplied by the exponential
of its group's error in every round (:class:`fairboost.algorithm.multipliers.OnSimplex`). In the
first form the loss of everyone is taken out, ``violation_g = L_g - L``, so that with weights m_g
the sum of losses is the only thing left; with weights in proportion to the rows this is the plain
engine.

The false negative rate alone is smallest where everyone is decided positively, so that "as small
as it can be" says nothing. A budget makes it a question: an operating point, or a bound on what
such decisions cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairboost._numbers import is_finite
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import OneMoment, Traits
from fairboost.fairness.compiled import Centred, Lines
from fairboost.fairness.constraints import Bound, Constraint, check_by
from fairboost.fairness.label_moments import GROUP_LOSS, WRONG_RATES
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import EachAtMost
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import RATES

WEIGHT, AGAINST_BOUND, AT_POINT = 3.0, 10.0, 1.0
"""What the largest error of a group counts for beside the loss, if the user does not say: of
``"error"``; where a bound holds against it, all of which is to be used; at an operating point."""

AGAINST = {"fnr": ("fpr", "ppr", "error"), "fpr": ("fnr", "pnr", "error")}
"""Rates of everyone that grow as an error of groups falls: a bound on one of them is a budget."""


@dataclass(frozen=True)
class Minimax(OneMoment):
    """The largest error of a group as small as it can be. Made by :func:`minimax`."""

    by: str | tuple[str, ...] | None = None
    weight: float | None = None

    judged = "figure"
    least = 0.0

    @property
    def traits(self) -> Traits:
        """Its multipliers are weights of groups, none of them negative.

        Losses and error rates of groups differ for good, so that weights go on to the worst group
        alone: at three times their pace they left too few rows to learn from. Rates that a shift
        of scores moves answer to weights.
        """
        total = WEIGHT if self.weight is None else self.weight
        pace = 0.3 if self.name in AGAINST else 0.1
        return Traits(simplex=1.0 if self._of_loss else total, pace=pace)

    @property
    def _of_loss(self) -> bool:
        return self.moment == GROUP_LOSS

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        return [f"minimax {self.name}[{g}]" for g in groups]

    def linearized(self, moments: GroupMoments) -> Lines:
        """Error of each group; of losses, how far it is above the loss of all groups together."""
        if not self._of_loss:
            return Lines(Centred(moments, (1,)), 0.0)
        (w,) = moments.weights
        return Lines(Centred(moments, (1,), (-1,), w, moments.total(w)), 0.0)

    @property
    def limit(self) -> float:
        """There is none."""
        return np.inf

    @property
    def as_judged(self) -> EachAtMost:
        """The errors themselves, for verdicts."""
        return EachAtMost(self.moment, 0.0, self.by)

    @property
    def figure_name(self) -> str:
        """What the figure is called."""
        return f"largest {self.moment.title}"

    def figure(self, moments: GroupMoments) -> float:
        """The largest error of a group."""
        return float(moments.values.max())

    def words(self, by: str) -> str:
        """The constraint in words."""
        return f"largest {self.moment.title} of a group by {by}, as small as it can be"


def minimax(
    error: str,
    *,
    by: str | tuple[str, ...] | None = None,
    weight: float | None = None,
) -> Minimax:
    """Ask that the largest error of a group be as small as possible.

    Parameters
    ----------
    error : {"loss", "error", "fnr", "fpr"}
        The error of a group: its mean log loss, its share of wrong decisions, or its false
        negative or false positive rate. The last two are 0 if everyone gets the same
        decision, so they need a budget: ``operating_point=at_positive_rate(0.3)`` (or another
        operating point), or a bound on what it costs, such as ``bound("fpr", 0.2)`` or
        ``bound("error", 0.25)``, in the same list of constraints.
    by : str or tuple of str, optional
        The sensitive column whose groups count, or a tuple of several to cross; every sensitive
        column by itself by default.
    weight : float, optional
        The weight of the largest error beside the loss of everyone: by default 3, 10 if a bound
        limits it from the other side, and 1 at an operating point. A larger weight makes the
        largest error smaller and costs accuracy. ``"loss"`` takes no weight, because only the
        largest loss is minimised.

    Examples
    --------
    >>> minimax("loss", by="race").words("race")
    'largest mean log loss of a group by race, as small as it can be'
    """
    name = error.lower() if isinstance(error, str) else ""
    if name != "loss" and name not in WRONG_RATES:
        raise ConstraintError(
            f"minimax takes an error of groups, expected 'loss', 'error', 'fnr' or 'fpr', found "
            f"{error!r}; of 'tpr' and 'tnr' write 'fnr' and 'fpr', which are 1 less those rates"
        )
    if name == "loss" and weight is not None:
        raise ConstraintError(
            f"minimax('loss') minimises the largest loss and nothing else, so weight={weight!r} "
            "has no meaning; leave weight out"
        )
    if weight is not None and (not is_finite(weight) or weight <= 0):
        raise ConstraintError(
            f"weight must be a number above 0, found {weight!r}; it is what the largest error of "
            "a group counts for beside the loss"
        )
    moment = GROUP_LOSS if name == "loss" else WRONG_RATES[name]
    return Minimax(moment, check_by(by), None if weight is None else float(weight))


def with_budget(constraint: Minimax, decision: Any) -> Minimax:
    """The form in which it is trained, given the operating point.

    At an operating point the threshold follows the scores, and what counts is who lies close to
    it: rates are then trained by the stand-in of decisions, as parities are.
    """
    if constraint.name not in AGAINST:
        return constraint
    at_point = isinstance(decision, OperatingPoint)
    weight = AT_POINT if at_point else AGAINST_BOUND
    weight = weight if constraint.weight is None else constraint.weight
    moment = RATES[constraint.name] if at_point else constraint.moment
    return replace(constraint, moment=moment, weight=weight)


def check_budget(constraints: Sequence[Constraint], decision: Any) -> None:
    """Refuse to make a rate as small as it can be where nothing holds against it.

    Parameters
    ----------
    constraints : sequence of Constraint
        All that is asked for.
    decision : float or OperatingPoint
        The operating point.
    """
    bounded = {
        c.moment.name for c in constraints if isinstance(c, Bound) and not c.group and not c.by
    }
    for c in constraints:
        if not isinstance(c, Minimax) or c.name not in AGAINST:
            continue
        if isinstance(decision, OperatingPoint) or bounded & set(AGAINST[c.name]):
            continue
        who = "positively" if c.name == "fnr" else "negatively"
        point = "at_fpr(0.1)" if c.name == "fnr" else "at_tpr(0.8)"
        raise ConstraintError(
            f"minimax({c.name!r}) needs a budget, found none: the {c.moment.title} of every group "
            f"is 0 where everyone is decided {who}. Set operating_point=at_positive_rate(0.3) or "
            f"{point}, or add a bound on what it costs, such as bound({AGAINST[c.name][0]!r}, "
            "0.2) or bound('error', 0.25), to the list of constraints; or use minimax('error')"
        )


def check_confidence_applies(constraints: Sequence[Constraint], confidence: float | None) -> None:
    """Refuse a confidence where nothing has a limit to be sure of.

    Parameters
    ----------
    constraints : sequence of Constraint
        All that is asked for.
    confidence : float, optional
        That the user asked for.
    """
    if confidence is None or not constraints:
        return
    if all(isinstance(c, Minimax) for c in constraints):
        raise ConstraintError(
            f"confidence={confidence:g} has no effect on minimax(...), which makes the largest "
            "error of a group as small as possible and has no limit that could be met with "
            "confidence. Leave confidence out, or add a limit that it applies to, such as "
            "at_least('tpr', 0.8) or bound('error', 0.25)"
        )
