"""Loan applications as a bank would have them in a file, and words of commands about them."""

import numpy as np
import pandas as pd

from fairboost.datasets import make_loans

QUICK = ("--jobs", "1", "--option", "n_estimators=15", "--option", "num_leaves=7", "--quiet")
ASKED = (
    *("--label", "approved", "--positive", "yes", "--sensitive", "sex", "--sensitive", "age_band"),
    *("--constraint", "equal_opportunity", "--tolerance", "0.1"),
)


def loans(rows, seed):
    """Features, groups, a label, and two columns that are no features."""
    made = make_loans(rows, seed=seed)
    text = made.X.select_dtypes("category").columns
    frame = pd.concat([made.X.astype(dict.fromkeys(text, "str")), made.sensitive], axis=1)
    numbers = frame.select_dtypes("float32").columns
    frame[numbers] = frame[numbers].astype("float64").round(4)  # the same in all formats
    frame.insert(0, "id", [f"A{k:06d}" for k in range(rows)])
    frame["opened"] = np.where(np.arange(rows) % 3, "2024-01-05", "2023-11-30")
    frame["approved"] = np.where(made.y == 1, "yes", "no")
    return frame
