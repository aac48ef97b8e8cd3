"""What the page on serving shows does run; it writes the files that servers read."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from fairboost.engines.ensemble import Feature
from fairboost.serving.decide_file import schema
from fairboost.serving.rows import given_rows

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Names after all blocks of Python, and the folder that they were run in."""
    for package in ("onnxruntime", "treelite"):
        pytest.importorskip(package)
    folder, namespace = tmp_path_factory.mktemp("page"), {}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for block in blocks("python"):
            if "mlflow" in block or "import shap" in block:
                continue  # tests/mlflow and test_other_tools.py have them
            small = block.replace("20_000", "2_000").replace("n_estimators=100", "n_estimators=10")
            exec(compile(small, "serving.md", "exec"), namespace)
            if "check_on" in block:
                namespace["expected"] = namespace["model"].predict(namespace["new"].X)
            if "label" in namespace:
                assert (namespace["label"] == namespace["expected"]).all()
    return namespace, folder


def test_the_rule_in_python(shown):
    namespace, _ = shown
    assert set(np.unique(namespace["label"])) == {"no", "yes"}
    assert namespace["rule"]["rule"] == "threshold"


def test_the_rule_in_sql(shown):
    namespace, folder = shown
    model, new = namespace["model"], namespace["new"]
    proba = model.predict_proba(new.X)[:, 1]
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE scores (id INTEGER, probability REAL)")
        base.executemany("INSERT INTO scores VALUES (?, ?)", enumerate(proba.tolist()))
        base.execute("CREATE TABLE decide (rule TEXT)")
        text = (folder / "model.txt.decide.json").read_text()
        base.execute("INSERT INTO decide VALUES (?)", [text])
        (statement,) = blocks("sql")
        found = [label for _, label in sorted(base.execute(statement))]
    base.close()
    assert found == namespace["expected"].tolist()


def test_java_reads_fields_that_are_there():
    (block,) = blocks("java")
    (rules,) = [
        rule["properties"]
        for rule in schema()["properties"]["decision"]["oneOf"]
        if rule["properties"]["rule"] == {"const": "threshold"}
    ]
    named = re.findall(r'"(\w+)"', block)
    assert named == ["decision", "threshold", "positive", "negative"]
    assert set(named[1:]) < set(rules)


def test_the_repository_of_triton(shown):
    _, folder = shown
    repository = folder / "repository"
    assert parsed((repository / "loans" / "config.pbtxt").read_text()) == {
        "backend": ["onnxruntime"]
    }
    assert (repository / "loans" / "1" / "model.onnx").is_file()


@pytest.mark.parametrize(
    ("form", "case"),
    [("lightgbm", None), ("treelite", None), ("xgboost", "numbers"), ("treelite", "at_fpr")],
)
def test_fil_decides_as_the_model_does(shown, fit, tmp_path, form, case):
    """The files are read by treelite, as FIL does, and decided on by the option of FIL."""
    import treelite

    namespace, folder = shown
    if case:
        (model, X), folder = fit("xgboost", case), tmp_path / "loans_xgboost"
        namespace["write_for_fil"](model, folder, form)
        expected = model.predict(X)
    else:
        model, X, expected = (namespace[k] for k in ("model", "new", "expected"))
        X = X.X
        folder /= {"lightgbm": "repository/loans_lightgbm", "treelite": "repository/loans_fil"}[
            form
        ]
    config = parsed((folder / "config.pbtxt").read_text())
    assert config["backend"] == ["fil"]
    ((given,),) = config["input"]
    assert given["dims"] == [[X.shape[1]]]
    options = {p["key"][0]: p["value"][0]["string_value"][0] for p in config["parameters"][0]}
    readers = {  # what FIL reads by default, by its own documents
        "lightgbm": ("model.txt", treelite.frontend.load_lightgbm_model),
        "xgboost_json": ("xgboost.json", treelite.frontend.load_xgboost_model),
        "treelite_checkpoint": ("checkpoint.tl", treelite.Model.deserialize),
    }
    name, read = readers[options["model_type"]]
    trees = read(folder / "1" / name)
    told = json.loads((folder / "1" / f"{name}.decide.json").read_text())
    codes = given_rows(X, features_of(told), told["engine"]["name"]).codes
    proba = treelite.gtil.predict(trees, codes.astype(trees.input_type)).ravel()
    threshold = np.float32(options["threshold"])
    assert options["is_classifier"] == "true"
    assert threshold < model.threshold_ == np.nextafter(threshold, np.float32(1))
    positive = proba.astype(np.float32) > threshold
    rule = told["decision"]
    assert 0 < positive.mean() < 1
    assert (np.where(positive, rule["positive"], rule["negative"]) == expected).all()


def features_of(told):
    """Features by decide.json, which is what a client of the server has."""
    return [Feature(f["name"], f["type"], tuple(f["categories"]) if "categories" in f else None)
            for f in told["features"]]  # fmt: skip


def test_the_folder_of_kserve(shown):
    import lightgbm

    namespace, folder = shown
    assert [p.name for p in (folder / "kserve").iterdir()] == ["model.bst"]
    assert (folder / "kserve_decide.json").is_file()
    proba = lightgbm.Booster(model_file=folder / "kserve" / "model.bst").predict(
        namespace["new"].X
    )
    np.testing.assert_allclose(proba, namespace["model"].predict_proba(namespace["new"].X)[:, 1])
    yaml = pytest.importorskip("yaml")
    services = [yaml.safe_load(block) for block in blocks("yaml")]
    for service in services:
        assert service["apiVersion"] == "serving.kserve.io/v1beta1"
        assert service["kind"] == "InferenceService"
    models = [service["spec"]["predictor"]["model"] for service in services]
    assert [m["modelFormat"]["name"] for m in models] == ["lightgbm", "mlflow"]
    assert models[0]["storageUri"].endswith("/kserve")


def test_the_schema_is_sound_and_refuses_what_is_not(shown):
    _, folder = shown
    jsonschema.Draft202012Validator.check_schema(schema())
    told = json.loads((folder / "model.txt.decide.json").read_text())
    jsonschema.validate(told, schema())
    for part in ("decision", "features", "model", "verdicts"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in told.items() if k != part}, schema())
    told["decision"].pop("threshold")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, schema())


# Protobuf's text format, as much as the configurations have


def parsed(text):
    """Fields by name, each with the list of its values; a message is a dict."""
    tokens = re.findall(r'"[^"]*"|[\w.]+|[\[\]{}:,]', text)
    assert "".join(tokens) == re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", text)
    fields = message(tokens)
    assert not tokens
    return fields


def message(tokens):
    fields = {}
    while tokens and tokens[0] != "}":
        name = tokens.pop(0)
        if tokens[0] == ":":
            tokens.pop(0)
        fields.setdefault(name, []).append(value(tokens))
        if tokens and tokens[0] == ",":
            tokens.pop(0)
    return fields


def value(tokens):
    token = tokens.pop(0)
    if token == "{":
        found = message(tokens)
        assert tokens.pop(0) == "}"
        return found
    if token == "[":
        found = []
        while tokens[0] != "]":
            found.append(value(tokens))
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)
        return found
    return token.strip('"') if token.startswith('"') or not token.isdigit() else int(token)
