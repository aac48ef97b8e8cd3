"""
Audit the decisions of another model
====================================

A supplier's model decides, and you have its scores, the outcomes and the groups. The question is:
how large are the gaps, and are there enough rows to be certain? No constraint and no training is
needed for an audit. The model can be of any kind.
"""

# %%
# A model that is not ours
# ------------------------
#
# Here a logistic regression stands for the supplier's model. An audit sees its scores only.

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairboost.datasets import make_loans
from fairboost.metrics import audit
from fairboost.plots import GroupCalibrationDisplay, GroupRatesDisplay, GroupScoresDisplay

past, cases = make_loans(20_000, seed=0), make_loans(8_000, seed=1)
numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
columns = make_column_transformer(
    (numbers, make_column_selector(dtype_include="number")),
    (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
)
supplied = make_pipeline(columns, LogisticRegression(max_iter=1_000)).fit(past.X, past.y)
score = supplied.predict_proba(cases.X)[:, 1]

# %%
# Rates and gaps with intervals
# -----------------------------
#
# Both sensitive columns are audited by themselves. ``by=("sex", "age_band")`` would cross them. An
# interval that contains 0 means that the rows do not prove a gap.

found = audit(cases.y, score, sensitive_features=cases.sensitive)
print(found)

# %%
# The same in pictures: false negative rates, and the distribution of scores by sex and label.

decided = score >= 0.5
GroupRatesDisplay.from_predictions(
    cases.y, decided.astype(int), sensitive_features=cases.sensitive, rate="fnr"
)
GroupScoresDisplay.from_predictions(cases.y, score, sensitive_features=cases.sensitive, by="sex")

# %%
# Is the probability right in every group?
# ----------------------------------------
#
# If the line of a group lies above the diagonal, more people of this group repay than the model
# predicts.

GroupCalibrationDisplay.from_predictions(
    cases.y, score, sensitive_features=cases.sensitive, by="sex", n_bins=8
)
