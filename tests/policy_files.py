"""Motor policies as an insurer would have them in a file: numbers to predict."""

import numpy as np
import pandas as pd

FEW = ("--jobs", "1", "--option", "n_estimators=15", "--option", "num_leaves=7")
CLAIMS = (
    *("--label", "claims", "--sensitive", "gender", "--exposure", "years", "--drop", "cost"),
    *("--objective", "poisson", "--constraint", "calibrated", "--tolerance", "0.2"),
)


def policies(rows, seed):
    """Features with gaps, text with accents, dates as text, an identifier; claims and costs."""
    rng = np.random.default_rng(seed)
    gender = rng.choice(["F", "M"], rows)
    frame = pd.DataFrame(
        {
            "policy": [f"P{k:06d}" for k in range(rows)],
            "since": rng.choice(["2021-03-01", "2022-11-15", "2019-07-09"], rows),
            "age": rng.integers(18, 80, rows),
            "power": (rng.normal(80, 20, rows) + 40 * (gender == "M")).round(1),
            "région": rng.choice(["Île-de-France", "Nord", "Sud"], rows),
            "gender": gender,
            "years": rng.uniform(0.1, 1.0, rows).round(3),
        }
    )
    rate = np.exp(-0.5 + 0.004 * frame["power"] + 0.6 * (frame["age"] < 25))
    frame["claims"] = rng.poisson(rate * frame["years"])
    frame["cost"] = (300 + 2 * frame["power"] + rng.normal(0, 40, rows)).round(2)
    frame.loc[rng.random(rows) < 0.05, "power"] = np.nan
    frame.loc[rng.random(rows) < 0.03, "région"] = None
    return frame
