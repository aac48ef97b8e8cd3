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

The first class is what the others leave over, so that two labels need one variable in [0, 1] per
row, and the program has as many lines as there are group rates. HiGHS solves it at 60,000 rows and
6 groups in seconds.

Ties are broken by noise in the costs ``1 - p_k``, in the program as in the rule. Ties are common:
where the features say less about one group than about the others, recalls of the others are
brought down to those of that group, and for every row of the others the multipliers cancel the
costs of all classes. The program chooses the multipliers given the noise, so the rule meets the
constraint. With noise in the rule alone, all such rows are given a class at random.

The engine estimates p(label | x) and p(group | x, label) in two fits; the paper fits one model of
all pairs. On Adult the two fits are the more accurate (docs/study.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import linprog

from fairboost._typing import FloatArray, IntArray
from fairboost.study.data import Rows
from fairboost.study.measures import Predictions
from fairboost.study.task import LABELS, Found, Task

NOISE = 1e-3
"""Largest noise in the cost of a class."""

LABEL = "_label_of_row_"
"""The feature that the model of groups has beside those of the rows."""

Joint: TypeAlias = Callable[[Rows], FloatArray]
"""Rows to their p(label, group | x), an array of rows, labels and groups."""


@dataclass(frozen=True)
class Event:
    """Rows that count, and the classes whose shares among them are to be equal across groups.

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
    """What a constraint by name compares.

    Of two labels, equal opportunity is about the false negative rate alone.

    Examples
    --------
    >>> events("equal_opportunity", 2)
    [Event(label=1, given=(1,))]
    >>> len(events("equalized_odds", 5))
    5
    """
    everything = tuple(range(n_classes))
    if n_classes == 2:
        return [Event(label, (1,)) for label in LABELS[constraint]]
    if constraint == "demographic_parity":
        return [Event(None, everything)]
    if constraint == "equal_opportunity":
        return [Event(k, (k,)) for k in everything]
    return [Event(k, everything) for k in everything]


def fit_rule(
    joint: FloatArray, constraint: str, tolerance: float, seed: int = 0
) -> Callable[[FloatArray, int], IntArray]:
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
    n_classes, n_groups = joint.shape[1:]
    found = events(constraint, n_classes)
    pairs = [(event, k) for event in found for k in event.given]
    scale = {event: _belongs(joint, event).mean(axis=0) for event in found}
    for event, share in scale.items():
        if not share.all():
            group, label = int(np.flatnonzero(share == 0)[0]), event.label
            raise ValueError(
                f"no row can be of group {group}{'' if label is None else f' and label {label}'}; "
                "merge groups, or give the rule more rows"
            )
    solved = _solve(joint, pairs, scale, tolerance, _noisy_costs(joint, [seed, 0]))
    rising, falling = np.split(-solved.ineqlin.marginals[: 2 * len(pairs) * n_groups], 2)
    multipliers = (rising - falling).reshape(len(pairs), n_groups)

    def rule(others: FloatArray, seed: int) -> IntArray:
        expected = _noisy_costs(others, [seed, 1])  # not the noise of the program
        for (event, k), multiplier in zip(pairs, multipliers, strict=True):
            expected[:, k] += _belongs(others, event) / scale[event] @ multiplier
        given: IntArray = expected.argmin(axis=1)
        return given

    return rule


def _solve(
    joint: FloatArray,
    pairs: list[tuple[Event, int]],
    scale: dict[Event, FloatArray],
    tolerance: float,
    costs: FloatArray,
) -> Any:
    """The optimum; lines are group rates from above and from below, and then whole rows."""
    n, n_classes, n_groups = joint.shape
    others = n_classes - 1  # the first class is the rest
    lines = []
    for event, k in pairs:
        weight = (_belongs(joint, event) / scale[event] / n).T
        # The share of the first class is 1 less the others', and the 1 goes into q.
        chosen = np.ones(others) if k == 0 else np.eye(others)[k - 1]
        lines.append((-1.0 if k == 0 else 1.0) * np.kron(weight, chosen))
    rates = sp.hstack(
        [sp.csr_array(np.concatenate(lines)), sp.kron(sp.eye(len(pairs)), -np.ones((n_groups, 1)))]
    )
    program, limits = [rates, -rates], np.full(2 * rates.shape[0], tolerance / 2)
    if others > 1:
        whole = sp.hstack(
            [sp.kron(sp.eye(n), np.ones((1, others))), sp.csr_array((n, len(pairs)))]
        )
        program, limits = [*program, whole], np.concatenate([limits, np.ones(n)])
    objective = np.append((costs[:, 1:] - costs[:, :1]).ravel() / n, np.zeros(len(pairs)))
    upper = np.append(np.ones(n * others), np.full(len(pairs), np.inf))
    lower = np.append(np.zeros(n * others), np.full(len(pairs), -np.inf))
    for presolve in (True, False):  # with it HiGHS may end without an answer
        solved = linprog(
            objective, sp.csc_array(sp.vstack(program)), limits,
            bounds=np.column_stack([lower, upper]), method="highs", options={"presolve": presolve},
        )  # fmt: skip
        if solved.x is not None:
            break
    else:
        raise RuntimeError(f"the linear program was not solved: {solved.message}")
    return solved


def _belongs(joint: FloatArray, event: Event) -> FloatArray:
    """The probability of each row to count, by group."""
    return joint.sum(axis=1) if event.label is None else joint[:, event.label]


def _noisy_costs(joint: FloatArray, seed: list[int]) -> FloatArray:
    """The expected error of giving each row each class, and noise that breaks ties."""
    costs: FloatArray = 1.0 - joint.sum(axis=2)
    return costs + np.random.default_rng(seed).uniform(0, NOISE, costs.shape)


def linear(task: Task) -> Found:
    """The rule with an estimated group: it needs features alone."""
    learned, held = task.held_out()
    return rule_of(task, inferred_joint(task, learned), held)


def linear_aware(task: Task) -> Found:
    """The rule with the observed group, of whoever it decides on."""
    learned, held = task.held_out()
    return rule_of(task, observed_joint(task, learned), held)


def rule_of(task: Task, joint: Joint, held: Rows) -> Found:
    """The rule for the task's constraint and tolerance, found on rows that were held out.

    Parameters
    ----------
    task : Task
        Has the constraint, the tolerance and the seed.
    joint : callable
        Rows to p(label, group | x), by a model that has not seen the rows held out.
    held : Rows
        The rows held out; their labels are not looked at.
    """
    rule = fit_rule(joint(held), task.constraint, task.tolerance, task.seed)
    return lambda rows: Predictions(decision=rule(joint(rows), task.seed) == 1)


def inferred_joint(task: Task, learned: Rows) -> Joint:
    """p(label, group | x) = p(label | x) p(group | x, label), each by the engine."""
    label = task.engine().fit(learned.X, learned.y)
    codes, names = pd.factorize(learned.s, sort=True)
    known = np.flatnonzero(codes >= 0)
    shown = learned.X.assign(**{LABEL: learned.y}).iloc[known]
    group = task.engine().fit(shown, codes[known])

    def joint(rows: Rows) -> FloatArray:
        positive = np.asarray(label.predict_proba(rows.X))[:, 1]
        out = np.empty((len(rows), 2, len(names)))
        for value, likely in enumerate((1 - positive, positive)):
            shown = rows.X.assign(**{LABEL: np.int8(value)})
            out[:, value] = likely[:, None] * np.asarray(group.predict_proba(shown))
        return out

    return joint


def observed_joint(task: Task, learned: Rows) -> Joint:
    """p(label | x) of the engine for the observed group, 0 for all others.

    A row without a group, or of one that was never seen, is of each group with the group's share.
    """
    label = task.engine().fit(learned.X, learned.y)
    codes, names = pd.factorize(learned.s, sort=True)
    shares = np.bincount(codes[codes >= 0]) / (codes >= 0).sum()

    def joint(rows: Rows) -> FloatArray:
        codes = pd.Index(names).get_indexer(pd.Index(rows.s))
        positive = np.asarray(label.predict_proba(rows.X))[:, 1]
        member = (codes[:, None] == np.arange(len(names))).astype(np.float64)
        member[codes < 0] = shares
        labels: FloatArray = np.stack([1 - positive, positive], axis=1)
        out: FloatArray = labels[:, :, None] * member[:, None]
        return out

    return joint
