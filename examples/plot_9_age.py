"""
Age as a number
===============

Bands of age hide what happens within a band, and a person of 39 is treated apart from a person of
40. The question is: can the false negative rate be the same at every age? ``smooth("age")``
compares overlapping windows of age instead of bands.
"""

# %%
# Ages
# ----
#
# The generated loans have bands of age. The example draws an age within each band.

import numpy as np
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, parity, smooth
from fairboost.datasets import make_loans
from fairboost.plots import RateCurveDisplay

rng = np.random.default_rng(0)
bands = {"18-24": (18, 25), "25-39": (25, 40), "40-59": (40, 60), "60+": (60, 85)}


def ages(loans):
    """An age for every row whose band is known."""
    unknown = (np.nan, np.nan)
    low, high = np.array([bands.get(band, unknown) for band in loans.sensitive["age_band"]]).T
    return {"age": np.floor(low + (high - low) * rng.random(len(low)))}


loans, new = make_loans(20_000, seed=0), make_loans(20_000, seed=1)
age, new_age = ages(loans), ages(new)

# %%
# Train
# -----

engine = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1)
plain = engine.fit(loans.X, loans.y)
fair = FairGBMClassifier(engine, constraint=parity("fnr", 0.05, by=smooth("age")), random_state=0)
fair.fit(loans.X, loans.y, sensitive_features=age)
print(fair.fairness_report_)

# %%
# The rate over age, for new applicants
# -------------------------------------
#
# The band around a line is its 95% confidence interval.

decisions = {name: model.predict(new.X) for name, model in {"plain": plain, "fair": fair}.items()}
RateCurveDisplay.from_predictions(
    new.y, decisions, sensitive_features=new_age, by=smooth("age"), rate="fnr"
)
for name, decided in decisions.items():
    print(f"{name}: accuracy {(decided == new.y).mean():.3f}")
