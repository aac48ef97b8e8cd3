"""
Equal opportunity on loans
==========================

A bank refuses some applicants who would have repaid. The share of such refusals is the false
negative rate (FNR). The question is: can a model have the same FNR for women and men, and what
does the constraint cost?
"""

# %%
# The data
# --------
#
# The loan applications are generated. Women are at a disadvantage in the records that the bank
# sees, and sex is not a feature of the model. One table is for training. The second table stands
# for new applicants.

from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.datasets import make_loans
from fairboost.metrics import audit
from fairboost.plots import GroupRatesDisplay, MultipliersDisplay

loans, new = make_loans(20_000, seed=0), make_loans(20_000, seed=1)
sex = loans.sensitive["sex"]

# %%
# Two models
# ----------
#
# Both models use the same LightGBM options. The second one is trained under the constraint. Its
# report shows the rates on rows that were held out of training.

engine = LGBMClassifier(n_estimators=80, num_leaves=15, verbose=-1)
plain = engine.fit(loans.X, loans.y)

fair = FairGBMClassifier(engine, constraint="equal_opportunity", tolerance=0.02, random_state=0)
fair.fit(loans.X, loans.y, sensitive_features=sex)
print(fair.fairness_report_)

# %%
# New applicants
# --------------
#
# The picture shows the FNR of each group with a 95% confidence interval. ``predict`` does not need
# the group of a new applicant.

rows = {"X": new.X, "y": new.y, "sensitive_features": new.sensitive["sex"]}
GroupRatesDisplay.from_estimator({"plain": plain, "fair": fair}, **rows, rate="fnr")

for name, model in {"plain": plain, "fair": fair}.items():
    print(f"{name}: accuracy on new applicants {(model.predict(new.X) == new.y).mean():.3f}")

# %%
# ``audit`` prints all rates and gaps of the fair model. Equal FNRs do not make other
# figures equal: compare the false positive rates (FPR) and the shares of positive decisions (PPR).

score = fair.predict_proba(new.X)[:, 1]
print(audit(new.y, score, sensitive_features=new.sensitive["sex"]))

# %%
# How training reached it
# -----------------------
#
# A multiplier is the weight of a constraint in the objective of the trees. It rises while the
# constraint is not met on the held-out rows, and it settles when the constraint is met.

MultipliersDisplay.from_estimator(fair)
