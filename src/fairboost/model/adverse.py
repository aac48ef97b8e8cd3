"""Positive labels that are held against people: whom equal opportunity then protects.

The names of constraints suppose that the positive label is something people want. Of "approved"
equal opportunity, equal false negative rates, protects those who deserve a loan. Of "default" it
compares defaulters who are found, and those who would repay are left to predictive equality.
"""

from __future__ import annotations

import re
from typing import Any

from fairboost._warnings import warn
from fairboost.data.labels import says_yes
from fairboost.exceptions import FairnessWarning

ADVERSE = re.compile(
    r"\b(default(s|ed|er|ers)?|fraud(s|ulent|ster)?|delinquen\w*|dlqin|recid\w*|re ?offend\w*"
    r"|re ?arrest\w*|bankrupt\w*|charged? ?off|den(ied|ial)|reject(ed|ion)|refus(ed|al)|declined"
    r"|bad)\b"
)
"""Words of credit, fraud, justice and refusals. Churn, claims and diseases are not among them: who
is found may be offered help, and equal opportunity is right."""
OPPOSITE = re.compile(r"\b(no|not|non|never|without|good|paid|repaid|free)\b")
"""Words that turn a name round, or that leave it open, as in "good_or_bad"."""


def is_adverse(name: str) -> bool:
    """Whether a label, or the name of a column of labels, is by its words held against people.

    Examples
    --------
    >>> [is_adverse(name) for name in ("default_next_month", "isFraud", "no_default", "churn")]
    [True, True, False, False]
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    words = re.sub(r"[^a-z]+", " ", spaced)
    return bool(ADVERSE.search(words)) and not OPPOSITE.search(words)


def whom_it_protects(constraint: Any, name: str, positive: object, other: object) -> str:
    """What to say of equal opportunity alone under such a label; nothing under any other.

    Parameters
    ----------
    constraint : object
        As the user wrote it. A list, or a rate in place of the name, shows that it was chosen
        among others.
    name : str
        Name of the column of labels; empty if it has none.
    positive, other : object
        The labels.
    """
    named = is_adverse(name) and says_yes(positive, other)
    if constraint not in ("equal_opportunity", ["equal_opportunity"]) or not (
        named or is_adverse(str(positive))
    ):
        return ""
    where = f" of {name!r}" if name else ""
    return (
        f"the positive label {positive!r}{where} seems to be held against people. "
        "constraint='equal_opportunity' makes the share of people with this label who are found "
        f"equal across groups; people with the label {other!r} who are flagged by mistake are "
        "not protected. To protect them write constraint='predictive_equality', or "
        "constraint='equalized_odds' for both; if equal opportunity is meant, write "
        "constraint=parity('fnr')"
    )


def warn_if_adverse(constraint: Any, y: Any, labels: Any, pos_label: object) -> None:
    """Warn of it, where there are two labels: the negative and the positive one."""
    if len(labels) != 2:
        return
    other, positive = labels.tolist()
    if pos_label is None and not says_yes(positive, other):
        return  # a guess, which has a warning of its own
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    said = whom_it_protects(constraint, name if isinstance(name, str) else "", positive, other)
    if said:
        warn(said, FairnessWarning)
