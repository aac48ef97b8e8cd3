"""A constraint of your own: any differentiable function of group moments, such as rates.

Here: the *average odds difference* between women and men,
((FPR_f - FPR_m) + (TPR_f - TPR_m)) / 2, within a tolerance on either side. A constraint is an
object with four members, and nothing in the library has to know about it:

* ``moments``: the moments that it reads, here rates, by name;
* ``by``: the sensitive column (or crossing) whose groups it reads them of;
* ``violations(moments)``: one number per inequality, positive where it is broken;
* ``pullback(moments, multipliers)``: the derivative of ``multipliers @ violations`` by them.

Run it: ``python examples/custom_constraint.py``
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.datasets import make_loans
from fairboost.fairness import GroupMoments
from fairboost.metrics import group_rates


@dataclass(frozen=True)
class AverageOdds:
    """Average odds difference of two groups within a tolerance."""

    tolerance: float
    by: str = "sex"
    moments: tuple[str, ...] = ("fpr", "tpr")
    name: str = "average_odds"

    def violations(self, moments: GroupMoments) -> np.ndarray:
        """Return the difference less the tolerance, in either direction."""
        difference = (moments.values[:, 0] - moments.values[:, 1]).mean()
        return np.array([difference, -difference]) - self.tolerance

    def pullback(self, moments: GroupMoments, multipliers: np.ndarray) -> np.ndarray:
        """Return d(multipliers @ violations) / d(moments): each rate enters with weight +-1/2."""
        half = (multipliers[0] - multipliers[1]) / 2
        return np.array([[half, -half], [half, -half]])


def average_odds(y: np.ndarray, decision: np.ndarray, sex: np.ndarray) -> float:
    """Average odds difference, from the library's own metrics."""
    table = group_rates(y, decision, sensitive_features={"sex": sex}, rates=("fpr", "tpr"))
    by_group = table[table["attribute"] == "sex"].pivot(
        index="rate", columns="group", values="value"
    )
    return float((by_group["female"] - by_group["male"]).mean())


def main(rows: int = 20_000) -> tuple[float, float]:
    """Train with and without the constraint; print and return both differences."""
    train, test = make_loans(rows, seed=0), make_loans(rows, seed=1)
    found = []
    for name, constraint in (("no constraint", None), ("average odds", AverageOdds(0.01))):
        model = FairGBMClassifier(
            LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1), constraint=constraint
        )
        model.fit(train.X, train.y, sensitive_features=train.sensitive)
        decision = model.predict(test.X)
        found.append(average_odds(test.y, decision, test.sensitive["sex"].to_numpy()))
        accuracy = (decision == test.y).mean()
        print(f"{name:15} test accuracy {accuracy:.3f}, average odds difference {found[-1]:+.3f}")
    return found[0], found[1]


if __name__ == "__main__":
    main()
