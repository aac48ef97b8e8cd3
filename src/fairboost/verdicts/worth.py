"""What a model is worth beside a constant, and what stood between a training and its limits."""

from __future__ import annotations

from fairboost._numbers import is_finite
from fairboost.fairness.binding import Term

HARDLY = 0.1
"""Share of the variance of a group below which features hardly tell who is in it."""

MOST_LOST = 0.5
"""Share of the predictive power that is left, below which most of it is gone."""


LEAST_LEARNED = 0.005
"""Share of the loss of a constant by which the best round must be better, or nothing is lost."""


def ended_early(rounds: int, asked: int) -> str:
    """Say that training ended before the rounds that were asked for, or nothing.

    Examples
    --------
    >>> ended_early(23, 500)
    'Early stopping ended training after 23 of 500 rounds.'
    """
    if rounds >= asked:
        return ""
    return f"Early stopping ended training after {rounds:,} of {asked:,} rounds."


def hidden(term: Term, revealed: float) -> str:
    """Say that the features do not tell the groups of a constraint apart, or nothing.

    Parameters
    ----------
    term : Term
        The constraint, which compares actual with expected.
    revealed : float
        How far the features tell the groups apart: the share of the variance of the group that
        they explain, of the group of which they explain least.
    """
    if revealed >= HARDLY:
        return ""
    share = f"{max(revealed, 0.0):.1%}"
    return (
        f"The features do not tell the groups of {term.by} apart: they explain {share} of who "
        "is in which group. A model of these features cannot follow what was actual in each "
        "group, and more rounds do not change that. Include the column among the features, or "
        "leave this constraint out."
    )


def power_lost(title: str, loss: float, constant: float, lowest: float) -> str:
    """Say that most of the predictive power is gone, or nothing.

    Parameters
    ----------
    title : str
        What the loss is called.
    loss, constant : float
        That of the model, and that of a constant prediction.
    lowest : float
        The lowest of all rounds of the training, within the limits or not. The model without the
        constraint is not known here, and would have one as low or lower.

    Examples
    --------
    >>> power_lost("Mean deviance", 0.694, 0.705, 0.552).partition(":")[0]
    'Most of the predictive power is gone'
    >>> power_lost("Mean deviance", 0.56, 0.705, 0.552)
    ''
    """
    learned = constant - lowest
    if not is_finite(learned) or learned <= LEAST_LEARNED * abs(constant):
        return ""
    left = (constant - loss) / learned
    if left >= MOST_LOST:
        return ""
    return (
        f"Most of the predictive power is gone: {title.lower()} is {loss:.4g}, that of a constant "
        f"prediction {constant:.4g}, and {lowest:.4g} at the round of this training with the "
        f"lowest. {max(left, 0.0):.0%} of the difference is left. Allow a larger tolerance, or "
        "leave the constraint out."
    )
