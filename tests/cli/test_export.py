"""``fairboost export``: a model in the formats of others, in the words of the table."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

from fairboost.serving.decide_file import schema
from tests.loan_files import loans


def test_onnx_decides_from_the_table_as_predict_does(run, model, scored, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    out = tmp_path / "loans.onnx"
    code, shown, _ = run("export", model, "--format", "onnx", "--out", out)
    assert code == 0 and "Written: " in shown and "loans.onnx.decide.json" in shown
    session = runtime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
    rows, feed = loans(2_000, seed=1), {}
    for given in session.get_inputs():
        text = given.type == "tensor(string)"
        column = rows[given.name].astype(object if text else np.float64)
        feed[given.name] = column.where(column.notna(), "" if text else np.nan).to_numpy(
            object if text else np.float64
        )[:, np.newaxis]
    proba, label = session.run(["probability", "label"], feed)
    expected = pd.read_parquet(scored)
    assert (label != expected["decision"].to_numpy(object)).sum() == 0
    np.testing.assert_allclose(proba[:, 1], expected["score"], atol=1e-12)
    assert {given.type for given in session.get_inputs()} == {"tensor(string)", "tensor(double)"}


def test_the_folder_of_a_model_says_how_to_decide(model):
    told = json.loads((model / "model.txt.decide.json").read_text())
    jsonschema.validate(told, schema())
    named = json.loads((model / "schema.json").read_text())
    assert told["decision"]["classes"] == named["classes"]
    assert told["decision"]["positive"] == named["classes"][1]
    columns = {c["name"]: c.get("categories") for c in named["columns"]}
    assert [f["name"] for f in told["features"]] == list(columns)
    for feature in told["features"]:
        assert (feature.get("categories") or None) == (columns[feature["name"]] or None)
    assert told["verdicts"]


def test_what_is_refused(run, model, tmp_path):
    out = tmp_path / "model.json"
    code, _, said = run("export", model, "--format", "xgboost", "--out", out)
    assert code == 1 and "was trained by lightgbm; use format='lightgbm'" in " ".join(said.split())
    code, _, said = run("export", tmp_path / "none", "--format", "onnx", "--out", out)
    assert code == 1 and "there is no folder" in said
    out.write_text("mine")
    code, _, said = run("export", model, "--format", "lightgbm", "--out", out)
    assert code == 1 and "exists; name another" in " ".join(said.split())
    assert out.read_text() == "mine"
    code, _, said = run(
        "export", model, "--format", "lightgbm", "--out", model / "model.json", "--force"
    )
    assert code == 1 and "which the command reads" in " ".join(said.split())
    code, _, said = run("export", model, "--format", "c", "--out", tmp_path)
    assert code == 1 and "already; name another" in " ".join(said.split())
    code, shown, _ = run(
        "export", model, "--format", "lightgbm", "--out", out, "--force", "--json"
    )
    assert code == 0 and json.loads(shown)["format"] == "lightgbm"
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["model.json", "model.json.decide.json"]
