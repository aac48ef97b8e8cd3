"""Applications with a grade, as a lender would have them in a file: a decision among classes."""

import numpy as np
import pandas as pd

from tests.policy_files import FEW

GRADES = np.array(["C", "B", "A"])
GRADED = (
    *("--label", "grade", "--sensitive", "sex", "--drop", "level", "--drop", "age"),
    *("--constraint", "equal_opportunity", "--tolerance", "0.2"),
)
QUICK = (*FEW, "--quiet", "--no-trade-off")


def grades(rows, seed):
    """Two groups that differ in a feature that matters; a grade as text, a level as a number."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], rows)
    X = rng.normal(size=(rows, 3)) + np.outer(sex == "M", [0.8, 0.0, 1.2])
    worth = X[:, 0] + X[:, 1] + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(rows)],
            "income": X[:, 0],
            "savings": X[:, 1],
            "tenure": X[:, 2],
            "branch": rng.choice(["Nord", "Süd"], rows),
            "sex": sex,
            "age": rng.choice(["young", "old"], rows),
            "grade": GRADES[np.searchsorted([-0.4, 1.2], worth)],
            "level": 8 + np.searchsorted([-0.8, 0.4, 1.6], worth),
        }
    )
