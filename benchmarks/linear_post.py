"""Linear post-processing of probabilities (Xian and Zhao, 2024), written from the paper.

A model of p(label, group | x) is given. Among all randomised rules that look at it alone, the one
of least expected error under constraints on group rates solves a linear program: with g_ik the
probability that row i is given class k,

    minimise   mean_i sum_k g_ik (1 - p_ik)
    subject to | mean_i g_ik w_ie / mean(w_e) - q_k | <= tolerance / 2     for all groups e

where w_ie is the probability of row i to be of group e (demographic parity), or of group e and of
a given label (equal opportunity, equalized odds), and q_k is free. By complementary slackness the
optimum gives each row the class of least ``1 - p_k + sum_e multiplier_ek w_e / mean(w_e)``: a rule
that is linear in the probabilities, and that new rows can be given.

Ties are broken by noise in the costs ``1 - p_k``, in the program as in the rule. Ties are common:
where the features say less about one group than about the others, recalls of the others are
brought down to those of that group, and for every row of the others the multipliers cancel the
costs of all classes. The program chooses the multipliers given the noise, so the rule meets the
constraint. With noise in the rule alone, all such rows are given a class at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

NOISE = 1e-3
"""Largest noise in the cost of a class."""


@dataclass(frozen=True)
class Event:
    """Rows that count, and the classes whose shares among them are to be alike across groups.

    Parameters
    ----------
    label : int, optional
        The class of the rows that count; None for all rows.
    given : tuple of int
        The classes that are given.
    """

    label: int | None
    given: tuple[int, ...]


def events(constraint: str, n_classes: int) -> list[Event]:
    """What a constraint by name compares."""
    everything = tuple(range(n_classes))
    if constraint == "demographic_parity":
        return [Event(None, everything)]
    if constraint == "equal_opportunity":
        return [Event(k, (k,)) for k in everything]
    return [Event(k, everything) for k in everything]


def fit_rule(
    joint: np.ndarray, constraint: str, tolerance: float, seed: int = 0
) -> Callable[[np.ndarray, int], np.ndarray]:
    """Solve the linear program.

    Parameters
    ----------
    joint : (n, n_classes, n_groups) float64
        p(label, group | x) of rows that the model was not trained on.
    constraint : str
        By name.
    tolerance : float
        How far apart two groups may be.
    seed : int, default=0
        Draws the noise.

    Returns
    -------
    rule : callable
        The same of other rows, and a seed, to classes.
    """
    n, n_classes, n_groups = joint.shape
    found = events(constraint, n_classes)
    scale = [_belongs(joint, e).mean(axis=0) for e in found]
    pairs = [(e, k) for e, event in enumerate(found) for k in event.given]
    cost = np.concatenate([_noisy_costs(joint, [seed, 0]).ravel() / n, np.zeros(len(pairs))])
    # A row is given one class, all in all.
    whole = sp.hstack([sp.kron(sp.eye(n), np.ones((1, n_classes))), sp.csr_array((n, len(pairs)))])
    lines = []
    for j, (e, k) in enumerate(pairs):
        weight = _belongs(joint, found[e]) / scale[e] / n
        for g in range(n_groups):
            columns = np.append(np.arange(n) * n_classes + k, n * n_classes + j)
            values = np.append(weight[:, g], -1.0)
            lines.append(sp.csr_array((values, columns, [0, n + 1]), shape=(1, len(cost))))
    above = sp.vstack(lines)
    limits = np.full(2 * above.shape[0], tolerance / 2)
    solved = linprog(
        cost, sp.vstack([above, -above]), limits, whole, np.ones(n), (0, None), method="highs"
    )
    if solved.x is None:
        raise RuntimeError(f"the linear program was not solved: {solved.message}")
    rising, falling = np.split(-solved.ineqlin.marginals, 2)
    multipliers = (rising - falling).reshape(len(pairs), n_groups)

    def rule(others: np.ndarray, seed: int) -> np.ndarray:
        expected = _noisy_costs(others, [seed, 1])  # not the noise of the program
        for (e, k), multiplier in zip(pairs, multipliers, strict=True):
            expected[:, k] += _belongs(others, found[e]) / scale[e] @ multiplier
        return expected.argmin(axis=1)

    return rule


def _belongs(joint: np.ndarray, event: Event) -> np.ndarray:
    """The probability of each row to count, by group."""
    return joint.sum(axis=1) if event.label is None else joint[:, event.label]


def _noisy_costs(joint: np.ndarray, seed: list[int]) -> np.ndarray:
    """The expected error of giving each row each class, and noise that breaks ties."""
    costs: np.ndarray = 1.0 - joint.sum(axis=2)
    return costs + np.random.default_rng(seed).uniform(0, NOISE, costs.shape)
