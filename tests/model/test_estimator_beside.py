"""Tables beside X, to hold out and to evaluate: read by position or by name, as X is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fairboost import FairGBMClassifier
from fairboost.exceptions import InvalidInputError
from tests.kinds import LightGBM

ODD = ["income: monthly", "[x] < {y}", 'say "é"', "a,b"]
FORMS = {
    "list": lambda A, names: A.tolist(),
    "objects": lambda A, names: A.astype(object),
    "single": lambda A, names: A.astype(np.float32),
    "pandas": lambda A, names: pd.DataFrame(A, columns=names),
    "polars": lambda A, names: pl.DataFrame(A, schema=names),
    "arrow": lambda A, names: pa.table(list(A.T), names=names),
}
SETS = ("holdout_set", "eval_set")
pytestmark = pytest.mark.filterwarnings(
    "ignore::fairboost.exceptions.FairnessWarning", "ignore:X has feature names:UserWarning"
)


@pytest.fixture(scope="session")
def other(make_toy):
    """Other rows."""
    return make_toy(n=300, seed=1)


@pytest.fixture
def fit(kind, toy, other):
    """Fit with a table beside X."""

    def fitted(X, table, what):
        # The average of iterates is scored once more, after training.
        model = FairGBMClassifier(kind.make(), constraint="equal_opportunity", iterate="average")
        held = what == "holdout_set"
        beside = (table, other.y, other.group) if held else [(table, other.y)]
        return model.fit(X, toy.y, sensitive_features=toy.group, **{what: beside})

    return fitted


@pytest.fixture(scope="module")
def fitted():
    """Models to compare with, which several tests share; nobody changes them."""
    return {}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", SETS)
def test_columns_go_by_position_if_x_has_no_names(fit, fitted, kind, toy, other, what, form):
    if (which := ("no names", kind.name, what)) not in fitted:
        fitted[which] = fit(toy.X, other.X, what)
    expected = fitted[which]
    found = fit(toy.X, FORMS[form](other.X, ODD), what)
    np.testing.assert_allclose(found.trace_, expected.trace_, atol=1e-6)
    assert repr(found.fairness_report_) == repr(expected.fairness_report_)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", SETS)
def test_columns_without_names_have_those_of_x(fit, fitted, kind, toy, other, what, form):
    names = list("pqrs")
    X = pd.DataFrame(toy.X, columns=names)
    if (which := ("names", kind.name, what)) not in fitted:
        fitted[which] = fit(X, pd.DataFrame(other.X, columns=names), what)
    expected = fitted[which]
    found = fit(X, FORMS[form](other.X, names), what)
    np.testing.assert_allclose(found.trace_, expected.trace_, atol=1e-6)


def test_a_table_that_gets_names_gets_no_index(toy, other):
    X = pd.DataFrame(toy.X, columns=list("pqrs"))
    labels = pd.Series(other.y, index=range(1000, 1000 + len(other)))
    model = FairGBMClassifier(LightGBM().make(), constraint=None)
    model.fit(X, toy.y, holdout_set=(other.X, labels, None))


@pytest.mark.parametrize("what", SETS)
def test_what_does_not_match_is_refused(fit, toy, other, what):
    names = list("pqrs")
    X, table = (pd.DataFrame(part.X, columns=names) for part in (toy, other))
    with pytest.raises(InvalidInputError, match=f"X of {what} has 3 features, expected the 4"):
        fit(toy.X, other.X[:, :3], what)
    with pytest.raises(InvalidInputError, match=rf"X of {what} has the feature 'q' where .* 'p'"):
        fit(X, table[["q", "p", "r", "s"]], what)
    with pytest.raises(InvalidInputError, match=f"X of {what} is sparse and has no names"):
        fit(X, sp.csr_matrix(other.X), what)
    with pytest.raises(InvalidInputError, match=f"column 's' of X of {what} is categorical, but"):
        fit(X, table.astype({"s": "category"}), what)
    with pytest.raises(InvalidInputError, match=f"column 's' of X of {what} is categorical, but"):
        fit(toy.X, table.astype({"s": "category"}), what)
    with pytest.raises(InvalidInputError, match="column 's' of X is categorical, but that of"):
        fit(X.astype({"s": int}).astype({"s": "category"}), table, what)


def test_lightgbm_reads_categories_of_polars_in_an_evaluation_set(toy, other):
    """It would end the process over them."""
    words = np.array(["u", "v"])
    X = pd.DataFrame({"a": toy.X[:, 0], "w": pd.Categorical(words[(toy.X[:, 1] > 0) * 1])})
    rows = pl.DataFrame({"a": other.X[:, 0], "w": words[(other.X[:, 1] > 0) * 1]})
    table = rows.with_columns(pl.col("w").cast(pl.Categorical))
    model = FairGBMClassifier(LightGBM().make(), constraint="equal_opportunity")
    of_polars = model.fit(X, toy.y, sensitive_features=toy.group, eval_set=[(table, other.y)])
    losses = of_polars.estimator_.evals_result_
    model.fit(X, toy.y, sensitive_features=toy.group, eval_set=[(table.to_pandas(), other.y)])
    assert losses == model.estimator_.evals_result_
