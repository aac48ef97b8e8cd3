"""
Make a fitted model fair
========================

A model is validated and in use. A new training from the start would mean a new validation. The
question is: how small a change makes the error rates equal? ``FrozenEstimator`` keeps all trees of
the fitted model, and fairboost adds a few small trees to it.
"""

# %%
# The model in use
# ----------------
#
# Any fitted ``LGBMClassifier`` or ``XGBClassifier`` will do.

import numpy as np
from lightgbm import LGBMClassifier
from matplotlib import pyplot as plt
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier
from fairboost.datasets import make_loans
from fairboost.plots import GroupRatesDisplay

old, recent, new = (make_loans(20_000, seed=seed) for seed in (0, 1, 2))
approved = LGBMClassifier(n_estimators=100, num_leaves=15, verbose=-1).fit(old.X, old.y)

# %%
# Add a fair stage
# ----------------
#
# The rows must be rows that the model was not trained on: on its own training rows, the error
# rates of a model are lower than they will be.

fair = FairGBMClassifier(
    FrozenEstimator(approved), constraint="equal_opportunity", tolerance=0.02, random_state=0
)
fair.fit(recent.X, recent.y, sensitive_features=recent.sensitive["sex"])
print(fair.fairness_report_)
print(f"trees: {approved.n_estimators_} before, {fair.booster_.num_trees()} now")

# %%
# What changed
# ------------
#
# The left picture shows the false negative rates of new applicants, before and after. The right
# picture compares the probabilities of both models, applicant by applicant.

rows = {"X": new.X, "y": new.y, "sensitive_features": new.sensitive["sex"]}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
models = {"in use": approved, "with fair stage": fair}
GroupRatesDisplay.from_estimator(models, **rows, rate="fnr", ax=left)

before, after = (model.predict_proba(new.X)[:, 1] for model in models.values())
right.hexbin(before, after, gridsize=40, bins="log", cmap="Greys")
right.axline((0, 0), slope=1, linestyle="--", linewidth=1)
right.set(xlabel="probability, model in use", ylabel="probability, with fair stage")

changed = np.mean((before >= 0.5) != (after >= 0.5))
for name, probability in zip(models, (before, after), strict=True):
    print(f"{name}: accuracy {np.mean((probability >= 0.5) == new.y):.3f}")
print(f"{changed:.1%} of the decisions differ")
