"""``LinearStage``: what a user asks for by ``stage=``."""

from __future__ import annotations

import pandas as pd
from sklearn.base import BaseEstimator

from fairboost._numbers import is_finite
from fairboost.exceptions import EngineOptionError


class LinearStage(BaseEstimator):
    """The shortest stage on a base model: its log-odds and learned memberships, in a weighted sum.

    Small boosters of LightGBM learn the probability of each group given features and label. The
    score is the log-odds of the positive label among people who are weighed by their group and
    label; of each compared group and label there is one weight, fitted under the constraints
    (docs/any_model.md). Decisions follow the linear rule of Xian and Zhao (2024). They are
    deterministic, and need no group. Where only one label counts, as under equal opportunity, only
    rows of this label are learned from.

    Parameters
    ----------
    rounds : int, default=40
        Newton steps of the weights, each of which the multipliers answer to.
    num_leaves : int, default=15
        Leaves of the trees that learn memberships.
    max_rows : int, default=10000
        Rows of each label that memberships are learned from at most.
    n_jobs : int, optional
        Threads, as in ``LGBMClassifier``.
    random_state : int, optional
        Seed of the draw of these rows; by default drawn from that of ``FairGBMClassifier``, or
        the same every time if that is None too.

    Attributes
    ----------
    weights_ : pandas.Series
        Of ``model.estimator_``: the weight of each group and label (1 is the positive one). People
        of the group and the positive label count exp(weight) times in the odds of the score, those
        of the negative label exp(-weight) times.

    References
    ----------
    R. Xian, H. Zhao. Optimal Group Fair Classifiers from Linear Post-Processing. 2024.

    Examples
    --------
    >>> from fairboost import FairGBMClassifier, LinearStage
    >>> from fairboost.datasets import make_loans
    >>> from lightgbm import LGBMClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> old, new = make_loans(2_000, seed=0), make_loans(4_000, seed=1)
    >>> base = LGBMClassifier(n_estimators=20, verbose=-1).fit(old.X, old.y)
    >>> asked = {"constraint": "equal_opportunity", "tolerance": 0.05}
    >>> model = FairGBMClassifier(FrozenEstimator(base), stage=LinearStage(), **asked)
    >>> model = model.fit(new.X, new.y, sensitive_features=new.sensitive["sex"])
    >>> model.predict_proba(new.X).shape
    (4000, 2)
    >>> model.estimator_.weights_.index.tolist()
    [(1, 'sex=female'), (1, 'sex=male')]
    """

    weights_: pd.Series

    def __init__(
        self,
        *,
        rounds: int = 40,
        num_leaves: int = 15,
        max_rows: int = 10_000,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.rounds = rounds
        self.num_leaves = num_leaves
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state


def check_options(stage: LinearStage) -> None:
    """Refuse options that are no whole numbers, too small or too large."""
    for name, least, most in (
        ("rounds", 1, None), ("num_leaves", 2, 131_072), ("max_rows", 100, None),
        ("n_jobs", None, None), ("random_state", 0, 2**31 - 1),
    ):  # fmt: skip
        value = getattr(stage, name)
        if value is None and name in ("n_jobs", "random_state"):
            continue
        whole = is_finite(value) and int(value) == value
        if whole and (least is None or value >= least) and (most is None or value <= most):
            continue
        limits = "" if least is None else f", {least} or more"
        limits += "" if most is None else f" and {most} at most"
        raise EngineOptionError(
            f"{name} of LinearStage must be a whole number{limits}, found {value!r}"
        )
