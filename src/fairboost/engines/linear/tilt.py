"""The rule of linear post-processing as a score: log-odds among people who are weighed by group.

Let p be the base model's probability of the positive label and ``w_gy = P(g | x, y)`` the learned
membership of group g. Weigh the people of group g and label y by ``exp(t_gy)``. Among them the
odds of the positive label at x are

    p sum_g exp(t_g1) w_g1   over   (1 - p) sum_g exp(t_g0) w_g0

and the score is their logarithm: the base model's log-odds, plus a term for each label. It is
positive where ``p sum_g exp(t_g1) w_g1 - (1 - p) sum_g exp(t_g0) w_g0`` is, which is linear in the
probabilities ``P(y, g | x)``: the form that the most accurate rule has under constraints on group
rates (Xian and Zhao, 2024). The same holds at any other threshold of the score. Where features
give the group away, w is 0 or 1, and the score of each group is shifted by a number: one threshold
per group.

The term of label y is ``sign log sum_g exp(sign theta_g) w_g``, with sign 1 for the positive label
and -1 for the negative one, so that a larger theta raises the scores of its group at both labels.
Its derivative by theta_g is the membership among the people so weighed.
"""

from __future__ import annotations

import numpy as np

from fairboost._typing import FloatArray

SIGNS = (-1.0, 1.0)
"""Of the negative and the positive label."""


def tilt(members: FloatArray, theta: FloatArray, label: int) -> FloatArray:
    """What is added to scores: the term of one label.

    Parameters
    ----------
    members : (n, n_groups) float64
        Memberships given the label; rows sum to 1.
    theta : (n_groups,) float64
        Weights of the groups.
    label : {0, 1}
        The label.

    Examples
    --------
    >>> members = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> np.exp(tilt(members, np.array([np.log(3), 0.0]), 1)).round(3)
    array([3., 2.])
    """
    factors, top = _factors(theta, label)
    found: FloatArray = SIGNS[label] * (np.log(members @ factors) + top)
    return found


def slopes(members: FloatArray, theta: FloatArray, label: int) -> FloatArray:
    """Derivatives of the term by each weight, (n, n_groups); rows sum to 1.

    Examples
    --------
    >>> slopes(np.array([[0.5, 0.5]]), np.array([np.log(3), 0.0]), 1).round(3)
    array([[0.75, 0.25]])
    """
    factors, _ = _factors(theta, label)
    out = members / (members @ factors)[:, np.newaxis]
    out *= factors
    return out


def pull_back(
    members: FloatArray, theta: FloatArray, label: int, gradient: FloatArray
) -> FloatArray:
    """Derivatives by each weight of what has this gradient by scores: ``slopes.T @ gradient``."""
    factors, _ = _factors(theta, label)
    return factors * (members.T @ (gradient / (members @ factors)))


def _factors(theta: FloatArray, label: int) -> tuple[FloatArray, float]:
    """What people count, up to a common factor, and its logarithm."""
    logs = SIGNS[label] * theta
    top = float(logs.max())
    return np.exp(logs - top), top
