"""Fitted models of every kind, on loans with categories and missing values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from xgboost import XGBClassifier, XGBRegressor

from fairboost import FairGBMClassifier, FairGBMRegressor, at_fpr
from fairboost.datasets import make_loans
from fairboost.exceptions import FairnessWarning

LIGHTGBM = {"n_estimators": 12, "num_leaves": 15, "n_jobs": 1, "verbose": -1}
XGBOOST = {"n_estimators": 12, "max_depth": 4, "n_jobs": 1, "enable_categorical": True}
COSTS = [[0, 1], [1.6, 0]]
COSTS_OF_THREE = [[0, 1, 1.5], [1.3, 0, 1], [2, 1, 0]]


def with_gaps(loans, seed):
    """The features, a tenth of whose numbers and categories are missing in some columns."""
    rng, X = np.random.default_rng(seed), loans.X.copy()
    for name in ("savings", "employment_years", "sector"):
        X[name] = X[name].mask(rng.random(len(X)) < 0.1)
    return X


class Loans:
    """Rows to train on and new ones."""

    def __init__(self):
        loans, new = make_loans(2_000, seed=0), make_loans(15_000, seed=1)
        self.X, self.new = with_gaps(loans, 0), with_gaps(new, 1)
        self.y, self.sex = loans.y, loans.sensitive["sex"]
        self.words = np.where(self.y == 1, "yes", "no")
        later = np.random.default_rng(2).random(len(self.y)) < 0.4
        self.grades = np.array(["A", "B", "C"])[self.y + later]
        self.number = self.X["income"].to_numpy(float)
        self.count = self.X["late_payments"].to_numpy(float)

    def frame(self, X, kind):
        """The features as a frame, or numbers without names."""
        return X if kind == "frame" else X.select_dtypes("number").to_numpy(float)


@pytest.fixture(scope="session")
def loans():
    return Loans()


CASES = {
    "at_fpr": {"y": "words", "operating_point": at_fpr(0.1)},
    "costs": {"y": "words", "costs": COSTS, "pos_label": "no"},
    "numbers": {"y": "y", "form": "array"},
    "three": {"y": "grades", "constraint": "demographic_parity"},
    "three by costs": {
        "y": "grades", "constraint": "demographic_parity", "costs": COSTS_OF_THREE,
    },
    "number": {"y": "number", "constraint": "equal_means", "tolerance": 0.5},
    "count": {
        "y": "count", "constraint": "equal_means", "tolerance": 0.5,
        "lightgbm": "poisson", "xgboost": "count:poisson",
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def fit(loans):
    """Fitted models, each fitted once: engine, case, and options of the engine."""
    found = {}

    def make(engine, case, **options):
        key = engine, case, repr(options)
        if key not in found:
            given = {"constraint": "equal_opportunity", "random_state": 0, **CASES[case]}
            y, form = getattr(loans, given.pop("y")), given.pop("form", "frame")
            objectives = {name: given.pop(name, None) for name in ("lightgbm", "xgboost")}
            numbers = given["constraint"] == "equal_means"
            if objectives[engine]:
                options["objective"] = objectives[engine]
            if "iterate" in options:
                given["iterate"] = options.pop("iterate")
            kinds = {
                "lightgbm": (LGBMClassifier, LGBMRegressor, LIGHTGBM),
                "xgboost": (XGBClassifier, XGBRegressor, XGBOOST),
            }
            *classes, defaults = kinds[engine]
            inner = classes[numbers](**{**defaults, **options})
            model = (FairGBMRegressor if numbers else FairGBMClassifier)(inner, **given)
            X = loans.frame(loans.X, form)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FairnessWarning)  # of trees without a split
                model.fit(X, y, sensitive_features=loans.sex)
            found[key] = model, loans.frame(loans.new, form)
        return found[key]

    return make
