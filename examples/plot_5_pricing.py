"""
Motor insurance: actual over expected by gender
===============================================

An insurer predicts the number of claims. Policies last for different times, so each one has an
exposure in years. Gender is not a rating factor, but the power of the car depends on gender. The
question is: does one gender pay for the claims of the other? Actual over expected (A/E) shows
it. An A/E below 1 means that a group pays too much.
"""

# %%
# Policies
# --------
#
# The policies are drawn at random. In this portfolio men drive more powerful cars than women, and
# men have 25% more claims in the same car.

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor

from fairboost import FairGBMRegressor
from fairboost.metrics import audit_numbers
from fairboost.plots import GroupCalibrationDisplay, GroupRatesDisplay

rng = np.random.default_rng(0)


def draw_policies(n):
    """Features, number of claims, years insured and gender."""
    gender = rng.choice(["women", "men"], n)
    men = gender == "men"
    features = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "power": rng.normal(80, 20, n) + 40 * men,
            "town": rng.integers(0, 2, n),
        }
    )
    years = rng.uniform(0.1, 1.0, n)
    young = features["age"] < 25
    rate = np.exp(-1.5 + 0.004 * features["power"] + 0.6 * young + 0.4 * features["town"])
    claims = rng.poisson(rate * np.where(men, 1.25, 1.0) * years)
    return features, claims, years, gender


X, claims, years, gender = draw_policies(40_000)
new_X, new_claims, new_years, new_gender = draw_policies(40_000)

# %%
# Two tariffs
# -----------
#
# ``"calibrated"`` asks for an A/E of 1 in every group. A Poisson objective and the exposure are
# all that a model of claims needs.

engine = LGBMRegressor(objective="poisson", n_estimators=60, num_leaves=7, verbose=-1)
plain = FairGBMRegressor(engine, constraint=None)
plain.fit(X, claims, exposure=years)

fair = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.02, random_state=0)
fair.fit(X, claims, sensitive_features={"gender": gender}, exposure=years)
print(fair.fairness_report_)

# %%
# A/E of new policies
# -------------------

tariffs = {"plain": plain, "calibrated": fair}
expected = {name: model.predict(new_X, exposure=new_years) for name, model in tariffs.items()}
GroupRatesDisplay.from_predictions(
    new_claims,
    expected,
    sensitive_features={"gender": new_gender},
    exposure=new_years,
    rate="A/E",
)

columns = ["group", "rows", "mean_actual", "a_over_e", "a_over_e_low", "a_over_e_high"]
for name, predicted in expected.items():
    found = audit_numbers(
        new_claims, predicted, sensitive_features={"gender": new_gender}, exposure=new_years
    )
    print(name, found.by_group[columns].round(3).to_string(index=False), sep="\n", end="\n\n")

# %%
# By decile of the prediction
# ---------------------------
#
# The constraint is about a gender as a whole. Within deciles of the predicted rate the A/E can
# still differ from 1. ``calibrated(0.02, within=10)`` asks for every decile.

GroupCalibrationDisplay.from_numbers(
    new_claims,
    expected["calibrated"],
    sensitive_features={"gender": new_gender},
    exposure=new_years,
)
