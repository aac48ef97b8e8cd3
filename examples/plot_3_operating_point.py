"""
Decide at a false positive rate of 5%
=====================================

A bank looks for fraud in account openings. It accepts that 5% of honest customers are refused, and
no more. The share of refused honest customers should also be equal for younger and older people.
So the decision threshold is a part of the question: equal rates at a threshold of 0.5 say nothing
about equal rates at another threshold.
"""

# %%
# Train at the operating point
# ----------------------------
#
# ``at_fpr(0.05)`` finds the threshold on held-out rows in every round. The false positive rates
# (FPR) are held equal at this threshold. About 1% of the account openings are fraud.

from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, at_fpr
from fairboost.datasets import make_account_opening
from fairboost.metrics import audit
from fairboost.plots import GroupRatesDisplay, GroupRocDisplay

train, new = make_account_opening(60_000, seed=0), make_account_opening(40_000, seed=1)
print(f"share of fraud: {train.y.mean():.2%}")

engine = LGBMClassifier(n_estimators=50, num_leaves=7, verbose=-1)
models = {}
for name, constraint in {"plain": None, "fair": "predictive_equality"}.items():
    models[name] = FairGBMClassifier(
        engine,
        constraint=constraint,
        tolerance=0.005,
        operating_point=at_fpr(0.05),
        holdout=0.2,
        random_state=0,
    )
    models[name].fit(train.X, train.y, sensitive_features=train.age_group)
    print(f"{name}: refuse if the probability of fraud is at least {models[name].threshold_:.4f}")

# %%
# New customers
# -------------
#
# Both models refuse about 5% of honest customers. The picture shows the refused share of each age
# group, with a 95% confidence interval.

rows = {"X": new.X, "y": new.y, "sensitive_features": new.age_group}
GroupRatesDisplay.from_estimator(models, **rows, rate="fpr")

for name, model in models.items():
    refused = model.predict(new.X)
    fraud, honest = refused[new.y == 1].mean(), refused[new.y == 0].mean()
    print(f"{name}: {fraud:.1%} of fraud found, {honest:.1%} of honest customers refused")

# %%
# The ROC curves by group show the same decisions.

GroupRocDisplay.from_estimator(models["fair"], **rows)

# %%
# All figures of the fair model at its own threshold, with confidence intervals:

fair = models["fair"]
score = fair.predict_proba(new.X)[:, 1]
print(audit(new.y, score, sensitive_features=new.age_group, threshold=fair.threshold_))
