"""What the page on serving shows does run; it writes the files that servers read."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from fairboost.serving.decide_file import schema

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
    namespace, folder = shown
    repository = folder / "repository"
    assert parsed((repository / "loans" / "config.pbtxt").read_text()) == {
        "backend": ["onnxruntime"]
    }
    assert (repository / "loans" / "1" / "model.onnx").is_file()
    config = parsed((repository / "loans_fil" / "config.pbtxt").read_text())
    assert config["backend"] == ["fil"]
    ((given,),) = config["input"]
    assert given["dims"] == [[len(namespace["new"].X.columns)]]
    options = {p["key"][0]: p["value"][0]["string_value"][0] for p in config["parameters"][0]}
    files = {"treelite_checkpoint": "checkpoint.tl"}
    assert (repository / "loans_fil" / "1" / files[options["model_type"]]).is_file()
    threshold = np.float32(options["threshold"])
    ours = namespace["model"].threshold_
    assert threshold < ours == np.nextafter(threshold, np.float32(1))


def test_the_folder_of_kserve(shown):
    import lightgbm

    namespace, folder = shown
    assert [p.name for p in (folder / "kserve").iterdir()] == ["model.bst"]
    assert (folder / "kserve_decide.json").is_file()
    proba = lightgbm.Booster(model_file=folder / "kserve" / "model.bst").predict(
        namespace["new"].X
    )
    np.testing.assert_allclose(proba, namespace["model"].predict_proba(namespace["new"].X)[:, 1])
    (block,) = blocks("yaml")
    assert re.search(r"modelFormat:\n\s+name: lightgbm\n\s+storageUri: \S+/kserve", block)


def test_the_schema_is_sound_and_refuses_what_is_not(shown):
    import json

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
