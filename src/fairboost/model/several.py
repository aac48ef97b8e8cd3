"""Three classes or more: which options are for two labels only, and which class is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.class_constraints import check_chosen
from fairboost.fairness.costs import CostTable, in_units


def check_for_several(params: dict[str, Any], labels: Sequence[Any]) -> None:
    """Refuse options that are for two labels.

    Parameters
    ----------
    params : dict
        Parameters of the estimator.
    labels : sequence
        The classes of y, three or more.
    """
    n = len(labels)
    if params["operating_point"] != 0.5:
        raise InvalidInputError(
            f"operating_point={params['operating_point']} is a threshold between two labels, and "
            f"y has {n} classes, of which the most likely one is given; leave it out, or say what "
            "wrong decisions cost: costs=[[0, 1, ...], ...]"
        )
    if params["multipliers"] == "paper":
        raise InvalidInputError(
            f"the paper's algorithm is for two labels, and y has {n} classes; use "
            "FairGBMClassifier(...) without multipliers='paper'"
        )
    if params["proxy"] != "auto":
        raise InvalidInputError(
            f"proxy={params['proxy']!r} is a step between two labels, and y has {n} classes; "
            "leave proxy out"
        )
    if params["classes"] is not None:
        check_chosen(params["classes"], labels)


def given_class(proba: FloatArray, costs: CostTable | None) -> IntArray:
    """The most likely class, or that of least expected cost; of equal ones the first."""
    if costs is None:
        return np.asarray(proba.argmax(axis=1))
    return np.asarray((proba @ in_units(np.asarray(costs))).argmin(axis=1))
