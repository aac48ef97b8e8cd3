"""What columns are to a model, and that new tables are read as the training table was."""

import datetime as dt
import decimal
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fairboost._files import checksum
from fairboost.exceptions import InvalidInputError, ModelFileError
from fairboost.tabular.columns import as_numbers, as_text, judge
from fairboost.tabular.schema import Roles, TableSchema, classes_of, infer_schema

N = 120


def column(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


COLUMNS = {
    "number": (column(np.linspace(0, 1, N)), "number", ""),
    "whole": (column([k % 7 for k in range(N)]), "number", ""),
    "flag": (column([k % 2 == 0 for k in range(N)]), "flag", ""),
    "decimal": (column([decimal.Decimal(k) / 4 for k in range(N)]), "number", ""),
    "text": (column(["a", "b", None] * 40), "category", ""),
    "coded": (column(["a", "b"] * 60).dictionary_encode(), "category", ""),
    "date": (column([dt.date(2024, 1, 1 + k % 28) for k in range(N)]), None, "a date or time"),
    "stamp": (column([dt.datetime(2024, 1, 1, k % 24) for k in range(N)]), None, "a date or"),
    "day": (column([f"{1 + k % 28:02d}/03/2021" for k in range(N)]), None, "dates, as text"),
    "names": (column([f"p{k}" for k in range(N)]), None, "as identifiers have"),
    "constant": (column([3] * N), None, "the same in every row"),
    "same": (column(["x"] * N), None, "the same in every row"),
    "missing": (column([None] * N, pa.float64()), None, "missing in every row"),
    "null": (column([None] * N), None, "missing in every row"),
    "list": (column([[k] for k in range(N)]), None, "neither number nor text"),
    "binary": (column([b"x"] * N), None, "neither number nor text"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_a_column_is(name):
    values, kind, why = COLUMNS[name]
    found = judge(values)
    assert found.kind == kind
    assert why in found.remark


def test_a_number_that_no_two_rows_share_is_kept_with_a_word():
    found = judge(column(range(N)))
    assert found.kind == "number"
    assert "--drop it" in found.remark
    assert not judge(column([0.5 + k for k in range(N)])).remark


def test_a_column_of_numbers_with_an_error_is_named():
    """It becomes text; that would show in nothing but the model."""
    few = judge(column([str(k % 30) for k in range(N)] + ["n.k."]))
    assert few.kind == "category"
    assert "30 of its 31 different values are numbers, and 'n.k.' is not" in few.remark
    many = judge(column([str(k) for k in range(N)] + ["n.k."]))
    assert many.kind is None
    assert "--missing 'n.k.'" in many.remark
    assert not judge(column(["1", "2", "3+"] * 40)).remark
    assert not judge(column([f"{k % 30:05d}" for k in range(N)])).remark


def test_numbers_are_categories_if_the_user_says_so():
    assert judge(column([10, 2, 10] * 40), categorical=True).categories == ("10", "2")
    assert judge(column([f"p{k}" for k in range(N)]), categorical=True).kind == "category"


def test_values_are_the_same_whatever_their_type():
    assert as_text(column([1.0, 2.5, np.nan, None])).to_pylist() == ["1", "2.5", None, None]
    assert as_text(column([1, 2])).to_pylist() == ["1", "2"]
    assert as_text(column([True])).to_pylist() == ["true"]
    assert as_numbers(column([True, None])).tolist()[0] == 1.0
    assert as_numbers(column([decimal.Decimal("0.25")])).tolist() == [0.25]


def people(n=N):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "key": [f"k{k}" for k in range(n)],
            "age, in years": rng.integers(18, 90, n),
            "age: in years": rng.integers(18, 90, n),
            "<script>": rng.choice(["x", "y", "z"], n),
            "student": rng.random(n) < 0.5,
            "sex": rng.choice(["F", "M"], n),
            "w": rng.random(n),
            "paid": np.where(np.arange(n) % 3, "no", "yes"),
        }
    )


ROLES = Roles(label="paid", sensitive=("sex",), weight="w")


def test_a_schema_says_what_is_left_out_and_why():
    schema, remarks = infer_schema(people(), ROLES)
    assert [c.name for c in schema.columns] == [
        "age, in years", "age: in years", "<script>", "student",
    ]  # fmt: skip
    assert list(schema.dropped) == ["key"]
    assert "column 'key' is left out" in remarks[0]
    table = people()
    for name in ("one", "two"):
        table = table.append_column(name, pa.array(["x"] * len(table)))
    (remark,) = (r for r in infer_schema(table, ROLES)[1] if "same" in r)
    assert remark == "columns 'one', 'two' are left out: the same in every row"
    assert schema.classes == ("no", "yes")


def test_names_that_engines_refuse_are_changed_and_stay_apart():
    schema, _ = infer_schema(people(), ROLES)
    features = schema.features(people()).columns.tolist()
    assert features == ["age__in_years", "age__in_years_2", "_script_", "student"]


def test_aware_and_dropped():
    schema, _ = infer_schema(people(), Roles("paid", ("sex",), aware=True, dropped=("w",)))
    names = [c.name for c in schema.columns]
    assert "sex" in names
    assert "w" not in names
    assert schema.dropped["w"] == "dropped on request"


def test_a_schema_is_the_same_after_a_journey_through_a_file(tmp_path):
    schema, _ = infer_schema(people(), ROLES, missing=("?",))
    schema.write(tmp_path / "schema.json")
    assert TableSchema.load(tmp_path / "schema.json") == schema


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: "{", "does not parse as JSON"),
        (lambda c: "[]", "is not a schema"),
        (lambda c: json.dumps({**c, "format_version": 9}), "is not a schema that this fairboost"),
        (lambda c: json.dumps({k: v for k, v in c.items() if k != "columns"}), "was edited"),
        (lambda c: json.dumps({**c, "classes": c["classes"][::-1]}), "does not match its check"),
        (lambda c: json.dumps({k: v for k, v in c.items() if k != "sha256"}), "does not match"),
        (lambda c: "[" * 100_000, "does not parse as JSON"),
        (lambda c: "9" * 5_000, "does not parse as JSON"),
    ],
)
def test_a_schema_that_is_not_sound(tmp_path, change, message):
    path = tmp_path / "schema.json"
    infer_schema(people(), ROLES)[0].write(path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ModelFileError, match=message):
        TableSchema.load(path)


def resealed(content, **changes):
    content = {**content, **changes}
    head = ("format", "format_version", "sha256")
    content["sha256"] = checksum({k: v for k, v in content.items() if k not in head})
    return content


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ["yes"]}, {"classes": 3}, {"classes": [1, 0]}, {"classes": ["no", "no"]},
        {"columns": []}, {"columns": [1]}, {"columns": [{"name": "a"}]}, {"label": None},
        {"columns": [{"name": "a", "feature": "a", "kind": "x", "categories": []}]},
        {"dropped": []}, {"dropped": {"a": 1}}, {"missing": [None]}, {"more": 1}, {"weight": 1},
    ],
)  # fmt: skip
def test_a_schema_that_was_edited_and_sealed_again(tmp_path, changes):
    path = tmp_path / "schema.json"
    infer_schema(people(), ROLES)[0].write(path)
    sound = json.loads(path.read_text())
    path.write_text(json.dumps(resealed(sound)))
    TableSchema.load(path)
    path.write_text(json.dumps(resealed(sound, **changes)))
    with pytest.raises(ModelFileError, match="was edited or damaged"):
        TableSchema.load(path)


def test_a_schema_of_another_model(tmp_path):
    infer_schema(people(), ROLES)[0].write(tmp_path / "schema.json", "abc")
    TableSchema.load(tmp_path / "schema.json", "abc")
    with pytest.raises(ModelFileError, match=r"belongs to another model\.json"):
        TableSchema.load(tmp_path / "schema.json", "abd")


def test_unseen_categories_are_missing_and_codes_stay():
    schema, _ = infer_schema(people(), ROLES)
    new = people().slice(0, 3).set_column(3, "<script>", pa.array(["z", "new", None]))
    codes = schema.features(new)["_script_"].cat.codes.tolist()
    assert codes == [2, -1, -1]


def test_a_column_of_another_type_is_named():
    schema, _ = infer_schema(people(), ROLES)
    new = people().set_column(1, "age, in years", pa.array(["old"] * N))
    with pytest.raises(InvalidInputError, match="column 'age, in years' holds something else"):
        schema.features(new)


def test_labels_are_told_by_name_or_named():
    assert classes_of(["false", "true"], "y", None) == ("false", "true")
    assert classes_of(["1", "0"], "y", None) == ("0", "1")
    assert classes_of(["-1", "1"], "y", None) == ("-1", "1")
    assert classes_of(["Bad", "Good"], "y", "bad") == ("Good", "Bad")
    with pytest.raises(InvalidInputError, match="pass --positive 'bad' or --positive 'good'"):
        classes_of(["bad", "good"], "y", None)
    with pytest.raises(InvalidInputError, match="--positive 'best' is not among the values"):
        classes_of(["bad", "good"], "y", "best")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "b", "c"], "must have two values, found 3: 'a', 'b', 'c'; merge labels"),
        (["a"], "must have two values, found 1: 'a'; rows of both labels are needed"),
        ([None], "must have two values, found 0: none"),
    ],
)
def test_labels_that_are_not_two(values, message):
    table = people(12).set_column(7, "paid", pa.array(values * (12 // len(values)), pa.string()))
    with pytest.raises(InvalidInputError, match=message):
        infer_schema(table, ROLES)


def test_labels_of_other_files():
    schema, _ = infer_schema(people(), ROLES)
    labels, known = schema.labels(pa.table({"paid": ["yes", None, "no"]}), "new.csv")
    assert labels.tolist() == [1, 0, 0]
    assert known.tolist() == [True, False, True]
    with pytest.raises(InvalidInputError, match=r"new.csv has the value 'maybe', expected those"):
        schema.labels(pa.table({"paid": ["yes", "maybe"]}), "new.csv")


def grouped_by(name):
    return replace(infer_schema(people(), ROLES)[0], sensitive=(name,))


def test_groups_are_text_with_missing_values():
    found = grouped_by("code").groups(pa.table({"code": [1, None, 2]}))
    assert found["code"].tolist()[0::2] == ["1", "2"]
    assert found["code"].isna().tolist() == [False, True, False]


def test_a_quantity_is_no_group():
    ages = pa.table({"age": [20 + k for k in range(60)]})
    with pytest.raises(
        InvalidInputError, match=r"'age' must hold groups .* numbers, found 60; .*bands"
    ):
        grouped_by("age").groups(ages)
    names = pa.table({"name": [f"n{k}" for k in range(1_001)]})
    with pytest.raises(InvalidInputError, match="1,000 different values, found 1,001"):
        grouped_by("name").groups(names)


def test_weights_must_be_numbers():
    schema, _ = infer_schema(people(), ROLES)
    assert len(schema.weights(people())) == N
    assert replace(schema, weight=None).weights(people()) is None
    with pytest.raises(InvalidInputError, match="--weight 'sex' must hold numbers"):
        replace(schema, weight="sex").weights(people())


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"label": "sex"}, "'sex' is named twice"),
        ({"weight": "paid"}, "'paid' is named twice"),
        ({"dropped": ("sex",)}, "'sex' is needed and cannot be dropped"),
    ],
)
def test_columns_with_two_parts_to_play(roles, message):
    with pytest.raises(InvalidInputError, match=message):
        Roles(**{"label": "paid", "sensitive": ("sex",), **roles})


def test_nothing_left_to_train_on():
    table = people().select(["key", "sex", "paid", "w"])
    with pytest.raises(InvalidInputError, match="no column is left to train on"):
        infer_schema(table, ROLES)


def test_schemas_of_old_are_read(tmp_path):
    """Version 2 had neither exposures nor codes: its engines know categories by their text."""
    path = tmp_path / "schema.json"
    schema, _ = infer_schema(people(), ROLES)
    schema.write(path)
    content = json.loads(path.read_text())
    del content["exposure"], content["coded"], content["format"], content["sha256"]
    del content["format_version"]
    old = {"format": "fairboost-schema", "format_version": 2, "sha256": checksum(content)}
    path.write_text(json.dumps({**old, **content}))
    assert TableSchema.load(path) == schema
    path.write_text(json.dumps({**old, "format_version": 5, **content}))
    with pytest.raises(ModelFileError, match="version 2 or 3 or 4"):
        TableSchema.load(path)


def test_numbers_and_exposures_are_remembered(tmp_path):
    roles = Roles("w", ("sex",), task="regression", exposure="debt, total", coded=True)
    table = people().append_column("debt, total", people()["w"])
    schema, _ = infer_schema(table, roles)
    assert schema.classes is None
    assert not {"w", "debt, total", "sex"} & {c.name for c in schema.columns}
    schema.write(tmp_path / "schema.json")
    assert TableSchema.load(tmp_path / "schema.json") == schema
    labels, known = schema.labels(table, "here")
    assert labels.dtype == float and known.all()


@pytest.mark.parametrize(
    ("values", "classes", "kind"),
    [
        (["low", "high", "middle"], ("high", "low", "middle"), "U"),
        (["10", "9", "8"], ("8", "9", "10"), "i"),
        (["10", "9", "08"], ("08", "10", "9"), "U"),  # a code, and not the number 8
    ],
)
def test_several_classes_are_remembered(tmp_path, values, classes, kind):
    table = people(12).set_column(7, "paid", pa.array(values * 4))
    schema, _ = infer_schema(table, replace(ROLES, task="classes"))
    assert (schema.classes, schema.several) == (classes, True)
    schema.write(path := tmp_path / "schema.json")
    assert TableSchema.load(path) == schema
    labels, known = schema.labels(table, "here")
    assert labels.dtype.kind == kind and known.all()
    assert list(map(str, labels)) == values * 4
    np.testing.assert_array_equal(np.unique(labels), schema.label_values)
    with pytest.raises(InvalidInputError, match=r"'x', expected those of training, '"):
        schema.labels(pa.table({"paid": ["x"]}), "new.csv")
    content = json.loads(path.read_text())
    head = {name: content.pop(name) for name in ("format", "format_version", "sha256")}
    content["classes"] = classes[::-1]
    path.write_text(json.dumps({**head, "sha256": checksum(content), **content}))
    with pytest.raises(ModelFileError, match="out of order"):
        TableSchema.load(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "b"], "must have 3 to 20 values to decide among, found 2: 'a', 'b'; leave"),
        (list(map(str, range(24))), "found 24: '0', '1', '2', '3', '4', ...; merge values"),
    ],
)
def test_classes_that_are_not_several(values, message):
    table = people(24).set_column(7, "paid", pa.array(values * (24 // len(values))))
    with pytest.raises(InvalidInputError, match=message):
        infer_schema(table, replace(ROLES, task="classes"))


def test_names_in_ascii_stay_apart():
    table = people().append_column("âge", people()["w"]).append_column("age_", people()["w"])
    roles = Roles("paid", ("sex",), coded=True)
    schema, _ = infer_schema(table, roles)
    features = [c.feature for c in schema.columns]
    assert all(map(str.isascii, features))
    assert len(set(features)) == len(features)
    assert {c.name: c.feature for c in schema.columns}["âge"] == "age"
