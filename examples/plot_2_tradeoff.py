"""
A whole trade-off curve
=======================

How much accuracy does a smaller gap cost? One tolerance gives one answer.
:func:`fairboost.tradeoff_curve` trains models from no constraint to zero tolerance, and takes far
less time than one fit per tolerance.
"""

# %%
# The curve
# ---------
#
# The table has one line per model: the accuracy and the gap of false negative rates on held-out
# rows, with confidence intervals.

from lightgbm import LGBMClassifier

from fairboost import tradeoff_curve
from fairboost.datasets import make_loans
from fairboost.plots import GroupRatesDisplay

loans, new = make_loans(20_000, seed=0), make_loans(20_000, seed=1)
engine = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1)

curve = tradeoff_curve(
    engine,
    loans.X,
    loans.y,
    sensitive_features=loans.sensitive["sex"],
    constraint="equal_opportunity",
    tolerances=8,
    random_state=0,
)
print(curve.table.round(3).to_string())

# %%
# Choose a model
# --------------
#
# ``within(0.05)`` returns the most accurate model whose gap on the held-out rows is at most 0.05.
# The picture marks this model.

model = curve.within(0.05)
curve.plot(chosen=model)

# %%
# Check the choice on new rows
# ----------------------------
#
# A model that was chosen by its figures looks a little better in these figures than it is. So the
# last step uses rows that had no part in the choice.

print(model.report_on(new.X, new.y, sensitive_features=new.sensitive["sex"]))
rows = {"X": new.X, "y": new.y, "sensitive_features": new.sensitive["sex"]}
GroupRatesDisplay.from_estimator(model, **rows, rate="fnr")
