"""Data in every form that users keep it: the same data gives the same model."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fairboost import FairGBMClassifier, bound, parity
from fairboost.fairness.constraints import own_tolerances

NAMES = ["income", "debt", "noise", "district"]
ITERATES = ("best", "last", "average", "randomized")


def named(X):
    return pd.DataFrame(X, columns=NAMES)


TABLES = {
    "numpy": np.array,
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "lists": lambda X: X.tolist(),
    "pandas": named,
    "nullable": lambda X: named(X).astype("Float64"),
    "polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "arrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
}


@pytest.fixture(scope="module")
def fair(engine):
    def make(iterate="last", constraint="demographic_parity", holdout="auto", **options):
        return FairGBMClassifier(
            engine(**options),
            constraint=constraint,
            tolerance=None if own_tolerances(constraint) else 0.01,
            holdout=holdout,
            multiplier_learning_rate=2.0,
            iterate=iterate,
            random_state=0,
        )

    return make


@pytest.fixture(scope="module")
def expected(fair, toy):
    """The scores of the plainest form of the data."""
    X = toy.X.astype(np.float32).astype(np.float64)  # every form holds the same numbers
    return {
        iterate: fair(iterate).fit(X, toy.y, sensitive_features=toy.group).decision_function(X)
        for iterate in ITERATES
    }


# Features


@pytest.mark.parametrize("iterate", ITERATES)
@pytest.mark.parametrize("form", TABLES)
def test_every_table_gives_the_same_model(fair, toy, expected, form, iterate):
    X = TABLES[form](toy.X.astype(np.float32).astype(np.float64))
    model = fair(iterate).fit(X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(model.decision_function(X), expected[iterate])


@pytest.mark.filterwarnings("ignore:Converting data to scipy sparse matrix")  # LightGBM's
@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix, sp.coo_array, sp.bsr_matrix])
def test_other_sparse_forms(fair, toy, form):
    X = np.where(toy.X > 0.5, toy.X, 0.0)
    dense = fair("randomized").fit(X, toy.y, sensitive_features=toy.group)
    sparse = fair("randomized").fit(form(X), toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(sparse.decision_function(form(X)), dense.decision_function(X))


@pytest.mark.parametrize("to", [pl.from_pandas, pa.Table.from_pandas])
def test_missing_values_of_other_frames(fair, toy, to):
    frame = toy.frame.drop(columns="debt")
    assert frame.isna().any(axis=None)
    plain = fair().fit(frame, toy.y, sensitive_features=toy.group)
    other = fair().fit(to(frame), toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(
        other.decision_function(to(frame)), plain.decision_function(frame)
    )


def test_categories_and_missing_values_are_lightgbms_matter(fair, engine, toy):
    frame = toy.frame
    ours = fair(constraint=None).fit(frame, toy.y)
    stock = engine().fit(frame, toy.y)
    np.testing.assert_array_equal(
        ours.decision_function(frame), stock.predict(frame, raw_score=True)
    )
    splits = ours.booster_.trees_to_dataframe()
    assert "==" in set(splits["decision_type"].dropna())  # a categorical split was made


def test_categorical_feature_argument(fair, engine, toy):
    codes = np.array([3, 0, 5, 2, 4, 1])[np.digitize(toy.X[:, 0], [-1, -0.5, 0, 0.5, 1])]
    X = np.column_stack([toy.X[:, 1:], codes])
    ours = fair(constraint=None).fit(X, toy.y, categorical_feature=[3])
    stock = engine().fit(X, toy.y, categorical_feature=[3])
    np.testing.assert_array_equal(ours.decision_function(X), stock.predict(X, raw_score=True))
    assert "==" in set(ours.booster_.trees_to_dataframe()["decision_type"].dropna())


@pytest.mark.parametrize("form", TABLES)
def test_the_users_table_itself_reaches_lightgbm(fair, toy, monkeypatch, form):
    X, seen = TABLES[form](toy.X), []
    original = lightgbm.LGBMClassifier.fit

    def spy(self, data, *args, **kwargs):
        seen.append(data)
        return original(self, data, *args, **kwargs)

    monkeypatch.setattr(lightgbm.LGBMClassifier, "fit", spy)
    fair().fit(X, toy.y, sensitive_features=toy.group)
    assert seen and all(data is X for data in seen)  # twice, if followers have other bins


def test_data_are_left_as_they_were(fair, toy):
    arrays = {k: getattr(toy, k).copy() for k in ("X", "y", "group", "weight")}
    for array in arrays.values():
        array.flags.writeable = False  # a write would raise
    model = fair("randomized").fit(
        arrays["X"],
        arrays["y"],
        sensitive_features=arrays["group"],
        sample_weight=arrays["weight"],
    )
    model.predict(arrays["X"])
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, getattr(toy, name))


# A row's draw


@pytest.mark.parametrize("form", ["numpy", "lists", "pandas", "polars", "arrow", "csr", "csc"])
def test_a_rows_draw_depends_on_the_row_alone(fair, toy, form):
    model = fair("randomized").fit(TABLES[form](toy.X), toy.y, sensitive_features=toy.group)
    whole = model.decision_function(TABLES[form](toy.X))
    assert (
        whole != fair().fit(toy.X, toy.y, sensitive_features=toy.group).decision_function(toy.X)
    ).any()
    backwards = model.decision_function(TABLES[form](toy.X[::-1]))
    np.testing.assert_array_equal(backwards[::-1], whole)
    some = [5, 400, 17, 5]
    np.testing.assert_array_equal(model.decision_function(TABLES[form](toy.X[some])), whole[some])
    for row in (0, 599):
        alone = model.decision_function(TABLES[form](toy.X[[row]]))
        np.testing.assert_array_equal(alone, whole[[row]])


def test_no_rows_to_draw_for(fair, toy):
    X = TABLES["polars"](toy.X)  # LightGBM itself refuses empty tables of other kinds
    model = fair("randomized").fit(X, toy.y, sensitive_features=toy.group)
    assert model.predict(X[:0]).shape == (0,)


# Labels


LABELS = {
    "int": lambda y: y,
    "bool": lambda y: y == 1,
    "float": lambda y: y * 1.0,
    "signed": lambda y: 2 * y - 1,
    "str": lambda y: np.where(y, "yes", "no"),
    "object": lambda y: np.where(y, "yes", "no").astype(object),
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
    "nullable": lambda y: pd.Series(y, dtype="Int64"),
    "category": lambda y: pd.Series(np.where(y, "yes", "no"), dtype="category"),
    "polars": pl.Series,
    "polars-str": lambda y: pl.Series(np.where(y, "yes", "no").tolist()),
    "arrow": lambda y: pa.chunked_array([y]),
    "arrow-str": lambda y: pa.array(np.where(y, "yes", "no").tolist()),
}


@pytest.mark.parametrize("form", LABELS)
def test_labels_of_any_type(fair, toy, form):
    y = LABELS[form](toy.y)
    model = fair().fit(toy.X, y, sensitive_features=toy.group)
    plain = fair().fit(toy.X, toy.y, sensitive_features=toy.group)
    np.testing.assert_array_equal(model.decision_function(toy.X), plain.decision_function(toy.X))
    positive = np.asarray(y)[np.flatnonzero(toy.y)[0]]
    assert model.classes_[1] == positive
    np.testing.assert_array_equal(model.predict(toy.X) == positive, plain.predict(toy.X) == 1)


# Groups


CODES = {
    "zero-one": lambda b: b.astype(int),
    "one-two": lambda b: b + 1,
    "zero-hundred": lambda b: b * 100,
    "negative": lambda b: b * 2 - 5,
    "floats": lambda b: b * 0.5,
    "letters": lambda b: np.where(b, "b", "a"),
    "objects": lambda b: np.where(b, "b", "a").astype(object),
    "bool": lambda b: b,
    "mixed": lambda b: np.array(["a", 1], object)[
        1 - b.astype(int)
    ],  # sorted by type: 1, then "a"
    "category": lambda b: pd.Categorical(np.where(b, "b", "a"), categories=["c", "b", "a"]),
    "dates": lambda b: pd.to_datetime(np.where(b, "2002-01-01", "2001-01-01")),
    "list": lambda b: b.tolist(),
    "list-str": lambda b: np.where(b, "b", "a").tolist(),
    "column": lambda b: b.reshape(-1, 1),
    "series": lambda b: pd.Series(b, index=np.arange(len(b))[::-1], name="sex"),
    "nullable": lambda b: pd.Series(b, dtype="boolean"),
    "frame": lambda b: pd.DataFrame({"sex": b}),
    "dict": lambda b: {"sex": b.tolist()},
    "dict-of-series": lambda b: {"sex": pd.Series(b)},
    "polars-series": lambda b: pl.Series("sex", b),
    "polars-frame": lambda b: pl.DataFrame({"sex": b}),
    "polars-category": lambda b: pl.Series(np.where(b, "b", "a").tolist(), dtype=pl.Categorical),
    "arrow-table": lambda b: pa.table({"sex": b}),
    "arrow-array": lambda b: pa.array(b),
    "arrow-chunks": lambda b: pa.chunked_array([b[:9], b[9:]]),
}


@pytest.fixture(scope="module")
def plain(fair, toy):
    """With groups named in an array; nobody changes it."""
    return fair(constraint="equalized_odds").fit(toy.X, toy.y, sensitive_features=toy.group)


@pytest.mark.parametrize("coding", CODES)
def test_the_names_of_groups_do_not_matter(fair, toy, plain, coding):
    in_b = toy.group == "b"
    model = fair(constraint="equalized_odds").fit(
        toy.X, toy.y, sensitive_features=CODES[coding](in_b)
    )
    np.testing.assert_array_equal(model.decision_function(toy.X), plain.decision_function(toy.X))
    np.testing.assert_array_equal(model.multipliers_, plain.multipliers_)
    assert plain.multipliers_.sum() > 0


def test_columns_keep_their_names(fair, toy):
    table = {"sex": toy.group, "region": np.arange(len(toy)) % 3}
    for form in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        model = fair().fit(toy.X, toy.y, sensitive_features=form(table))
        assert model.multipliers_.index.tolist() == [
            "ppr[sex=a] above", "ppr[sex=b] above", "ppr[sex=a] below", "ppr[sex=b] below",
            "ppr[region=0] above", "ppr[region=1] above", "ppr[region=2] above",
            "ppr[region=0] below", "ppr[region=1] below", "ppr[region=2] below",
        ]  # fmt: skip


@pytest.mark.parametrize("form", [np.array, list, lambda t: [tuple(row) for row in t]])
def test_columns_without_names_are_numbered(fair, toy, form):
    table = np.column_stack([toy.group, np.where(np.arange(len(toy)) % 2, "x", "y")])
    model = fair().fit(toy.X, toy.y, sensitive_features=form(table))
    assert model.multipliers_.index.tolist() == [
        "ppr[sensitive_feature_0=a] above",
        "ppr[sensitive_feature_0=b] above",
        "ppr[sensitive_feature_0=a] below",
        "ppr[sensitive_feature_0=b] below",
        "ppr[sensitive_feature_1=x] above",
        "ppr[sensitive_feature_1=y] above",
        "ppr[sensitive_feature_1=x] below",
        "ppr[sensitive_feature_1=y] below",
    ]


def test_columns_side_by_side_and_crossed(fair, toy):
    table = pd.DataFrame({"sex": toy.group, "region": np.arange(len(toy)) % 2})
    crossed = fair(constraint=parity("ppr", by=("sex", "region")))
    crossed.fit(toy.X, toy.y, sensitive_features=table)
    assert len(crossed.multipliers_) == 8
    assert crossed.multipliers_.index[0] == "ppr[sex=a, region=0] above"
    joined = (table["sex"] + table["region"].astype(str)).to_numpy()
    by_hand = fair().fit(toy.X, toy.y, sensitive_features=joined)
    np.testing.assert_array_equal(
        crossed.decision_function(toy.X), by_hand.decision_function(toy.X)
    )


# Missing groups


MISSING = {
    "none": lambda g, m: np.where(m, None, g),
    "nan": lambda g, m: np.where(m, np.nan, (g == "b") * 1.0),
    "list": lambda g, m: [None if lost else v for v, lost in zip(g.tolist(), m, strict=True)],
    "series": lambda g, m: pd.Series(g).mask(m),
    "pd.NA": lambda g, m: pd.Series(g == "b", dtype="boolean").mask(m),
    "category": lambda g, m: pd.Categorical(pd.Series(g).mask(m)),
    "polars": lambda g, m: pl.Series(pd.Series(g, dtype=object).mask(m, None).tolist()),
    "arrow": lambda g, m: pa.array(pd.Series(g, dtype=object).mask(m, None).tolist()),
}


@pytest.mark.parametrize("form", MISSING)
def test_every_kind_of_missing_group_is_the_same(fair, toy, form):
    lost = np.arange(len(toy)) % 5 == 0
    model = fair().fit(toy.X, toy.y, sensitive_features=MISSING[form](toy.group, lost))
    expected = fair().fit(toy.X, toy.y, sensitive_features=np.where(lost, None, toy.group))
    assert len(model.multipliers_) == 4  # two groups, from either side
    np.testing.assert_array_equal(
        model.decision_function(toy.X), expected.decision_function(toy.X)
    )


def test_rows_of_a_missing_group_count_in_the_loss_and_in_global_rates_only(fair, toy):
    lost = np.arange(len(toy)) % 5 == 0
    loose = [parity("ppr", 0.5), bound("ppr", 0.9)]  # some decisions of either kind are left
    model = fair(constraint=loose, holdout=None, n_estimators=3)
    model.fit(toy.X, toy.y, sensitive_features=np.where(lost, None, toy.group))
    last = model.trace_.iloc[-1]
    before = model.estimator_.predict(toy.X, raw_score=True, num_iteration=2)
    positive = before >= 0
    loss = np.logaddexp(0, np.where(toy.y == 1, -before, before))
    assert last["loss"] == pytest.approx(loss.mean(), rel=1e-12)
    assert last["rate: ppr[everyone]"] == positive.mean()
    for g in ("a", "b"):
        known = (toy.group == g) & ~lost
        assert last[f"rate: ppr[sensitive_feature={g}]"] == pytest.approx(positive[known].mean())
        assert positive[known].mean() != positive[toy.group == g].mean()
