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


def tilt(members: FloatArray, theta: FloatArray, label: int) -> tuple[FloatArray, FloatArray]:
    """The term of one label, and its derivatives.

    Parameters
    ----------
    members : (n, n_groups) float64
        Memberships given the label; rows sum to 1.
    theta : (n_groups,) float64
        Weights of the groups.
    label : {0, 1}
        The label.

    Returns
    -------
    term, slopes : (n,) float64, (n, n_groups) float64
        What is added to scores, and its derivative by each weight; rows of it sum to 1.

    Examples
    --------
    >>> members = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> term, slopes = tilt(members, np.array([np.log(3), 0.0]), 1)
    >>> np.exp(term).round(3), slopes.round(3)
    (array([3., 2.]), array([[1.  , 0.  ],
           [0.75, 0.25]]))
    """
    sign = SIGNS[label]
    logs = sign * theta
    top = logs.max()
    factors = np.exp(logs - top)
    total = members @ factors
    slopes = members / total[:, np.newaxis]
    slopes *= factors
    return sign * (np.log(total) + top), slopes
