"""
Grades: three classes
=====================

A lender gives each applicant one of three grades. The question is: of the applicants who belong in
the best grade, does the same share of every group get it? This share is the recall of the class.
"""

# %%
# Applicants
# ----------
#
# The two groups differ in a feature that matters, and in one that does not.

import numpy as np
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, parity
from fairboost.plots import GroupConfusionDisplay, GroupRatesDisplay

rng = np.random.default_rng(0)


def draw_applicants(n):
    """Features, grades and groups."""
    group = rng.choice(["north", "south"], n)
    X = rng.normal(size=(n, 3)) + np.outer(group == "south", [0.8, 0.0, 1.5])
    worth = X[:, 0] + X[:, 1] + rng.normal(size=n)
    return X, np.array(["C", "B", "A"])[np.digitize(worth, [-0.5, 1.2])], {"region": group}


X, grade, region = draw_applicants(20_000)
new_X, new_grade, new_region = draw_applicants(20_000)

# %%
# Equal recall of grade A
# -----------------------
#
# ``FairGBMClassifier`` takes labels of three classes without any switch. ``of="A"`` names the
# class that the constraint is about. Without ``of`` the constraint is about every class.

engine = LGBMClassifier(n_estimators=50, num_leaves=7, verbose=-1)
plain = engine.fit(X, grade)
fair = FairGBMClassifier(engine, constraint=parity("recall", 0.03, of="A"), random_state=0)
fair.fit(X, grade, sensitive_features=region)
print(fair.fairness_report_)

# %%
# New applicants
# --------------

rows = {"X": new_X, "y": new_grade, "sensitive_features": new_region}
GroupRatesDisplay.from_estimator({"plain": plain, "fair": fair}, **rows, rate="recall", of="A")
for name, model in {"plain": plain, "fair": fair}.items():
    print(f"{name}: accuracy {(model.predict(new_X) == new_grade).mean():.3f}")

# %%
# The confusion matrices show every decision of the fair model: a row is the actual grade, and the
# numbers of a row sum to 1. Only the recall of grade A was constrained.

GroupConfusionDisplay.from_estimator(fair, **rows)
