"""
The four-fifths rule
====================

An employer selects candidates with a model. By the four-fifths rule of the Uniform Guidelines, the
selection rate of a group should be at least 0.8 times the rate of the group that is selected most
often. This example trains under the rule, and writes the table of adverse impact that an auditor
reads.
"""

# %%
# Train under a ratio
# -------------------
#
# ``"four_fifths"`` is the name of ``parity("ppr", ratio=0.8)``: the ratio of the shares of
# positive decisions is at least 0.8. ``confidence=0.95`` asks for more: the ratio should
# also be at least 0.8 among people who are not in the data. Loans stand in for job applications
# here.

import pandas as pd
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier
from fairboost.datasets import make_loans
from fairboost.filings import four_fifths
from fairboost.plots import GroupRatesDisplay

past, new = make_loans(20_000, seed=0), make_loans(20_000, seed=1)
engine = LGBMClassifier(n_estimators=80, num_leaves=15, verbose=-1)
plain = engine.fit(past.X, past.y)

fair = FairGBMClassifier(engine, constraint="four_fifths", confidence=0.95, random_state=0)
fair.fit(past.X, past.y, sensitive_features=past.sensitive["sex"])
print(fair.fairness_report_)

# %%
# Selection rates of new candidates
# ---------------------------------

rows = {"X": new.X, "y": new.y, "sensitive_features": new.sensitive["sex"]}
GroupRatesDisplay.from_estimator({"plain": plain, "four-fifths": fair}, **rows, rate="ppr")

for name, model in {"plain": plain, "four-fifths": fair}.items():
    selected = model.predict(new.X)
    shares = pd.Series(selected).groupby(new.sensitive["sex"].to_numpy()).mean()
    accuracy = (selected == new.y).mean()
    print(f"{name}: ratio {shares.min() / shares.max():.2f}, accuracy {accuracy:.3f}")

# %%
# The table of adverse impact
# ---------------------------
#
# :func:`fairboost.filings.four_fifths` makes the document from decisions alone, of any model. The
# command ``fairboost audit --format four_fifths`` does the same from a file. The document does not
# decide whether a law was broken.

filing = four_fifths(new.sensitive[["sex"]], fair.predict(new.X) == 1)
print(filing.tables["sex"][["sex", "applicants", "selected", "rate", "ratio", "finding"]])
