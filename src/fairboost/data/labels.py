"""Which of two labels is the positive one."""

from __future__ import annotations

import numpy as np

from fairboost._warnings import warn
from fairboost.exceptions import FairnessWarning, InvalidInputError

POSITIVES = ("1", "true", "yes", "y", "t", "positive", "1.0")
"""What is the positive label where it stands beside its opposite, in small letters."""
NEGATIVES = ("0", "false", "no", "n", "f", "negative", "0.0", "-1")


def says_yes(label: object, other: object) -> bool:
    """Whether a label is one of the words for yes, and the other one of those for no."""
    return str(label).lower() in POSITIVES and str(other).lower() in NEGATIVES


def positive_last(classes: np.ndarray, pos_label: object) -> np.ndarray:
    """Two labels in rising order, as the negative and the positive one.

    Parameters
    ----------
    classes : (2,) array
        The labels, in rising order.
    pos_label : label or None
        The positive one; None takes the larger, with a warning if that says nothing.

    Examples
    --------
    >>> positive_last(np.array(["approved", "denied"]), "approved").tolist()
    ['denied', 'approved']
    """
    smaller, larger = classes.tolist()
    if pos_label is None:
        if classes.dtype.kind not in "mM":  # numpy makes whole numbers of some dates
            warn_if_guessed(larger, smaller)
        return classes
    if pos_label == classes[1]:
        return classes
    if pos_label != classes[0]:
        raise InvalidInputError(
            f"pos_label={pos_label!r} is not among the labels, {smaller!r} and {larger!r}; name "
            "one of them"
        )
    return classes[::-1]


def warn_if_guessed(positive: object, other: object) -> None:
    """Warn of a positive label that is one only because it sorts last, such as 2 after 1."""
    if isinstance(positive, str):
        known, why = says_yes(positive, other), "sorts after"
    elif isinstance(positive, int | float):
        known, why = positive == 1 and other in (0, -1), "is larger than"
    else:
        return
    if not known:
        warn(
            f"{positive!r} is taken for the positive label because it {why} {other!r}; if "
            f"that is right write pos_label={positive!r}, otherwise pos_label={other!r}",
            FairnessWarning,
        )


def warn_of_spellings(classes: np.ndarray) -> None:
    """Warn of labels that differ in case or surrounding spaces only, such as "Yes" and "yes"."""
    spellings: dict[str, list[str]] = {}
    for label in classes.tolist():
        if isinstance(label, str):
            spellings.setdefault(label.strip().casefold(), []).append(label)
    if twice := [found for found in spellings.values() if len(found) > 1]:
        listed = "; ".join(" and ".join(map(repr, found)) for found in twice)
        warn(
            f"labels of y differ in case or surrounding spaces only: {listed}. They are different "
            "labels to the model; if they mean the same, write them the same, such as "
            "y.str.strip().str.lower()",
            FairnessWarning,
        )
