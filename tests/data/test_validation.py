from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fairboost.data.validation import (
    as_column,
    by_row,
    check_fit_data,
    check_same_rows,
    check_two_classes,
    check_two_dimensional,
    encode_labels,
    read_sensitive_features,
    read_weights,
    take_rows,
)
from fairboost.exceptions import InvalidInputError

# Columns


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda v: pa.chunked_array([v[:1], v[1:]]),
    ],
)
def test_columns_of_every_library(form):
    column = as_column(form([3, 1, 2]))
    assert isinstance(column, np.ndarray)
    assert column.tolist() == [3, 1, 2]


def test_an_array_is_not_copied():
    array = np.arange(5)
    assert as_column(array) is array
    series = pd.Series(array)
    assert np.shares_memory(as_column(series), series.to_numpy())


@pytest.mark.parametrize("shape", [(), (3,), (3, 2, 2)])
def test_tables_have_two_dimensions(shape):
    with pytest.raises(
        InvalidInputError, match=f"found {len(shape)} dimensions. Reshape your data"
    ):
        check_two_dimensional(np.zeros(shape))


@pytest.mark.parametrize(
    "table",
    [np.zeros((3, 2)), [[0, 0]], pd.DataFrame({"a": [1]}), sp.eye(3), pa.table({"a": [1]})],
)
def test_what_is_a_table(table):
    check_two_dimensional(table)


# Labels


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([1, 0, 1], [0, 1]),
        ([True, False, True], [False, True]),
        (["b", "a", "b"], ["a", "b"]),
        ([5.0, -1.0, 5.0], [-1.0, 5.0]),
        (pl.Series(["y", "n", "y"]), ["n", "y"]),
        (pd.Series(["y", "n", "y"], dtype="category"), ["n", "y"]),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is taken for the positive label")
def test_labels_become_zero_and_one(y, classes):
    found, labels = encode_labels(y)
    assert found.tolist() == classes
    assert labels.dtype == np.int8
    assert labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize("y", [[1, 1], [0], []])
def test_one_class(y):
    with pytest.raises(
        InvalidInputError, match=r"y must have two classes or more, found [01] class"
    ):
        encode_labels(y)


def test_many_classes_are_not_all_listed():
    with pytest.raises(InvalidInputError, match=r"found 9 classes: 0, 1, 2, 3, 4, \.\.\.\. Merge"):
        check_two_classes(np.arange(9))


def test_continuous_labels():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_labels([0.1, 0.2, 0.3])


# Weights


@pytest.mark.parametrize("form", [list, np.array, pd.Series, pl.Series, pa.array])
def test_weights_of_every_library(form):
    weight = read_weights(form([1, 0, 2]), 3)
    assert weight.dtype == np.float64
    assert weight.tolist() == [1.0, 0.0, 2.0]


def test_weights_that_are_none_or_one_number():
    assert read_weights(None, 3) is None
    assert read_weights(2, 3).tolist() == [2.0, 2.0, 2.0]


def test_weights_are_not_copied():
    weight = np.ones(4)
    assert read_weights(weight, 4) is weight


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ([1.0, float("nan")], "found nan at row 1"),
        ([float("inf"), 1.0], "found inf at row 0"),
        ([1.0, None], "found nan at row 1"),
        ([1.0, -2.0], "must not be negative, found -2.0 at row 1"),
        ([0.0, 0.0], "all are zero"),
        ([1.0], "sample_weight has 1 rows but X has 2"),
        ([[1.0], [1.0]], "found 2 dimensions"),
        (["a", "b"], "sample_weight must be numbers"),
        (float("nan"), "found nan at row 0"),
    ],
)
def test_bad_weights(weight, match):
    with pytest.raises(InvalidInputError, match=match):
        read_weights(weight, 2)


# Groups


def read(values, n=4):
    return [(c.name, c.codes.tolist(), c.values) for c in read_sensitive_features(values, n)]


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([2, 1, 2, 1], (1, 2)),
        (["b", "a", "b", "a"], ("a", "b")),
        ([True, False, True, False], (False, True)),
        (np.array([0.5, -1.0, 0.5, -1.0], np.float32), (-1, 0.5)),
        (pd.Categorical(["b", "a", "b", "a"], ["b", "a", "z"]), ("a", "b")),
        (["a", 1, "a", 1], (1, "a")),
    ],
)
def test_codes_follow_the_order_of_values(values, groups):
    ((name, codes, found),) = read(values)
    assert (name, codes, found) == ("sensitive_feature", [1, 0, 1, 0], groups)
    assert [type(v) for v in found] == [type(v) for v in groups]  # not NumPy's


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b", "a"],
        np.array(["a", np.nan, "b", "a"], object),
        pd.Series(["a", pd.NA, "b", "a"]),
        pd.Categorical(["a", None, "b", "a"]),
        pl.Series(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"]),
    ],
)
def test_missing_groups(values):
    ((_, codes, groups),) = read(values)
    assert (codes, groups) == ([0, -1, 1, 0], ("a", "b"))


def test_text_that_says_nan_is_a_group():
    ((_, codes, groups),) = read(np.array(["nan", "a", "nan", "a"]))
    assert (codes, groups) == ([1, 0, 1, 0], ("a", "nan"))


def test_none_is_no_column():
    assert read(None) == []


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ({"sex": [0, 1, 0, 1], "race": list("xyxy")}, ["sex", "race"]),
        (pd.DataFrame({"sex": [0, 1, 0, 1], 7: list("xyxy")}), ["sex", "7"]),
        (pl.DataFrame({"sex": [0, 1, 0, 1], "race": list("xyxy")}), ["sex", "race"]),
        (pa.table({"sex": [0, 1, 0, 1], "race": list("xyxy")}), ["sex", "race"]),
        (np.array([[0, 1]] * 2 + [[1, 0]] * 2), ["sensitive_feature_0", "sensitive_feature_1"]),
        ([["a", 1], ["b", 2]] * 2, ["sensitive_feature_0", "sensitive_feature_1"]),
        (pd.Series([0, 1, 0, 1], name="sex"), ["sex"]),
        (pl.Series("sex", [0, 1, 0, 1]), ["sex"]),
        (pl.Series([0, 1, 0, 1]), ["sensitive_feature"]),
        (np.array([[0], [1], [0], [1]]), ["sensitive_feature"]),
    ],
)
def test_names_of_columns(table, names):
    assert [name for name, _, _ in read(table)] == names


def test_mixed_types_in_a_list_of_rows_stay_apart():
    (_, codes, groups), _ = read([["1", 0], [2, 0], ["1", 1], [2, 1]])
    assert groups == (2, "1")
    assert codes == [1, 0, 1, 0]


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda v: np.array(v, object),
    "array": np.array,
    "floats": lambda v: np.array(v, np.float64),
    "pandas": pd.Series,
    "pandas objects": lambda v: pd.Series(v, dtype=object),
    "pandas nullable": lambda v: pd.Series(v).convert_dtypes(),
    "pandas Arrow": lambda v: pd.Series(v).convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda v: pd.Series(v).astype("category"),
    "frame": lambda v: pd.DataFrame({"sensitive_feature": v}),
    "dict": lambda v: {"sensitive_feature": v},
    "polars": pl.Series,
    "polars floats": lambda v: pl.Series(v, dtype=pl.Float64, strict=False),
    "polars frame": lambda v: pl.DataFrame({"sensitive_feature": v}),
    "polars categories": lambda v: pl.Series(v).cast(pl.String).cast(pl.Categorical),
    "Arrow": pa.array,
    "Arrow in parts": lambda v: pa.chunked_array([v[:3], v[3:]]),
    "Arrow table": lambda v: pa.table({"sensitive_feature": v}),
    "Arrow categories": lambda v: pa.chunked_array([pa.array(v).dictionary_encode()]),
}
OF_NUMBERS = ("floats", "polars floats")
OF_TEXT = ("polars categories",)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "values", [[0, 1], [0.0, 1.0], [-3, 12], [True, False], ["0", "1"], ["a", "b"], [0.5, 2.0]]
)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_group_has_one_name_in_every_container(container, values, missing):
    kind = type(values[0])
    if (container in OF_NUMBERS and kind not in (int, float)) or (
        container in OF_TEXT and kind is not str
    ):
        pytest.skip("of another type")
    rows = [values[0], values[1], None if missing else values[1], values[1], values[0]]
    if missing and container == "array" and kind in (int, float):
        rows[2] = np.nan
    ((_, codes, groups),) = read(CONTAINERS[container](rows), 5)
    named = [None if code < 0 else str(groups[code]) for code in codes]
    names = [str(int(v) if kind is float and v.is_integer() else v) for v in values]
    assert named == [names[0], names[1], None if missing else names[1], names[1], names[0]]


@pytest.mark.parametrize("values", [[0, "0"], ["1.5", 1.5], [True, "True"]])
def test_groups_of_one_name_are_refused(values):
    with pytest.raises(InvalidInputError, match="which would have the same name"):
        read(values * 2)


BANDS = ["<25", "25-40", "40+"]


@pytest.mark.parametrize(
    "form",
    [
        lambda v: pd.Series(pd.Categorical(v, BANDS, ordered=True)),
        lambda v: pd.Categorical(v, BANDS, ordered=True),
        lambda v: {"age": pd.Categorical(v, BANDS, ordered=True)},
        lambda v: pd.DataFrame({"age": pd.Categorical(v, [*BANDS, "none"], ordered=True)}),
        lambda v: {"age": pd.Series(pd.Categorical(v, BANDS, ordered=True))},
        lambda v: pl.Series(v, dtype=pl.Enum(BANDS)),
        lambda v: pl.DataFrame({"age": pl.Series(v, dtype=pl.Enum(BANDS))}),
        lambda v: {"age": pl.Series(v, dtype=pl.Enum(BANDS))},
        lambda v: pa.Table.from_pandas(
            pd.DataFrame({"age": pd.Categorical(v, BANDS, ordered=True)})
        ),
        lambda v: pa.array(pd.Categorical(v, BANDS, ordered=True)),
        lambda v: {"age": pa.array(pd.Categorical(v, BANDS, ordered=True))},
    ],
)
def test_ordered_categories_keep_their_order(form):
    ((_, codes, groups),) = read(form(["40+", "25-40", None, "<25", "40+", "25-40", "<25"]), 7)
    assert (codes, groups) == ([2, 1, -1, 0, 2, 1, 0], tuple(BANDS))


def test_a_missing_category_of_arrow_is_missing():
    labels = pa.chunked_array([pa.array(["no", None, "yes"]).dictionary_encode()])
    with pytest.raises(InvalidInputError, match="missing labels"):
        encode_labels(labels)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([None] * 4, "is missing in every row"),
        ([1, 2, 3, 4], "has 4 distinct values in 4 rows, almost one per row"),
        ([1, 2, 3, None], "has 3 distinct values in 3 rows"),
        ([1, 2, 1], r"sensitive_features \(sensitive_feature\) has 3 rows but X has 4"),
        ({"sex": [1, 2] * 2, "age": [1]}, r"sensitive_features \(age\) has 1 rows but X has 4"),
        (np.zeros((4, 1, 1, 1)), "found an array of 4 dimensions"),
        ("sex", r"the text 'sex', .* pass the column, df\['sex'\], not its name"),
        (pd.Series([[1], [2], [1], [2]]), "must hold one plain value per row: unhashable"),
    ],
)
def test_bad_groups(values, match):
    with pytest.raises(InvalidInputError, match=match):
        read(values)


@pytest.mark.parametrize("n_groups", [2, 8])
def test_as_many_groups_as_half_of_the_rows_pass(n_groups):
    assert len(read(np.arange(16) % n_groups, 16)[0][2]) == n_groups


# Together


def test_fit_data():
    data = check_fit_data(np.zeros((4, 2)), list("nyny"), {"sex": [0, 0, 1, 1]}, [1, 2, 3, 4])
    assert data.classes.tolist() == ["n", "y"]
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.columns[0].name == "sex"
    assert data.sample_weight.tolist() == [1, 2, 3, 4]


def test_weights_that_leave_one_class():
    with pytest.raises(InvalidInputError, match="zero on every row of class 'y'"):
        check_fit_data(np.zeros((4, 2)), list("nyny"), None, [1, 0, 1, 0])


# Rows


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.ndarray.tolist,
        pd.DataFrame,
        lambda X: pd.DataFrame(X, index=[9, 8, 7]),
        lambda X: pl.DataFrame(X, schema=["a", "b"]),
        lambda X: pa.table({"a": X[:, 0], "b": X[:, 1]}),
        sp.csr_matrix,
        sp.csc_matrix,
        sp.coo_matrix,
        sp.coo_array,
        sp.bsr_matrix,
        sp.dok_matrix,
        sp.lil_array,
    ],
)
def test_rows_of_every_table(form):
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    taken = take_rows(by_row(form(X)), np.array([2, 0, 2]))
    dense = taken.toarray() if sp.issparse(taken) else taken
    dense = dense.to_pandas() if isinstance(dense, pa.Table) else dense
    np.testing.assert_array_equal(np.asarray(dense), X[[2, 0, 2]])


def test_by_row_converts_sparse_tables_only():
    frame, array, rows = pd.DataFrame({"a": [1]}), np.ones((2, 2)), sp.csr_matrix(np.eye(2))
    assert by_row(frame) is frame
    assert by_row(array) is array
    assert np.shares_memory(by_row(rows).data, rows.data)
    assert isinstance(by_row(sp.csr_array(np.eye(2))), sp.csr_matrix)  # the one LightGBM reads


# Labels of rows

SHUFFLED = pd.Index([2, 0, 3, 1])


@pytest.mark.parametrize("what", ["y", "sensitive_features", "sample_weight"])
@pytest.mark.parametrize("index", [SHUFFLED, pd.RangeIndex(10, 14), pd.Index(list("abcd"))])
def test_rows_with_other_labels_are_not_matched_by_position(what, index):
    given = {"y": [0, 1, 0, 1], "sensitive_features": list("fmfm"), "sample_weight": [1.0] * 4}
    X = pd.DataFrame({"a": np.arange(4.0)})
    check_fit_data(X, **given)
    given[what] = pd.Series(given[what], index=index)
    with pytest.raises(InvalidInputError, match=rf"{what} and X have pandas indices that differ"):
        check_fit_data(X, **given)
    check_fit_data(X.set_axis(index), **given)
    check_fit_data(X.to_numpy(), **given)
    as_table = {**given, what: given[what].to_numpy()}
    check_fit_data(X, **as_table)


def test_the_first_row_that_differs_is_named_with_the_remedies():
    y, groups = pd.Series([0, 1, 0]), {"sex": pd.Series(list("fmf"), index=[0, 2, 1])}
    message = r"row 1 is 2 in groups and 1 in y. Write groups.loc\[y.index\].*groups.to_numpy\(\)"
    with pytest.raises(InvalidInputError, match=message):
        check_same_rows(y=y, groups=groups)


def test_an_index_with_repeated_labels_is_no_problem():
    twice = pd.Index([0, 0, 1, 1])
    X = pd.DataFrame({"a": np.arange(4.0)}, index=twice)
    check_fit_data(X, pd.Series([0, 1, 0, 1], index=twice), None, None)
