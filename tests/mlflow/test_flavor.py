"""MLflow stores, loads and serves models with their decision; nothing is pickled."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

import fairboost
import fairboost.mlflow
from fairboost import FairGBMClassifier, FairGBMRegressor, at_fpr
from fairboost.datasets import make_loans
from fairboost.exceptions import ExportError, InvalidInputError, ModelFileError
from fairboost.mlflow.flavor import ServedModel, group_metrics
from fairboost.serving.decide_file import schema

LIGHTGBM = {"n_estimators": 5, "n_jobs": 1, "verbose": -1}
XGBOOST = {"n_estimators": 5, "n_jobs": 1, "enable_categorical": True}


@pytest.fixture(scope="module")
def loans():
    return make_loans(1_500, seed=0)


@pytest.fixture(scope="module")
def models(loans):
    words, sex = np.where(loans.y == 1, "yes", "no"), loans.sensitive["sex"]
    grades = np.array(["A", "B", "C"])[loans.y + (np.arange(1_500) % 3 == 0)]
    numbers = loans.X.select_dtypes("number").to_numpy(float)
    point = {"constraint": "equal_opportunity", "operating_point": at_fpr(0.1), "random_state": 0}
    made = {
        "lightgbm": (FairGBMClassifier(LGBMClassifier(**LIGHTGBM), **point), loans.X, words),
        "xgboost": (FairGBMClassifier(XGBClassifier(**XGBOOST), **point), loans.X, words),
        "three": (
            FairGBMClassifier(LGBMClassifier(**LIGHTGBM), constraint="demographic_parity"),
            loans.X,
            grades,
        ),
        "array": (FairGBMClassifier(LGBMClassifier(**LIGHTGBM), **point), numbers, loans.y),
        "number": (
            FairGBMRegressor(LGBMRegressor(**LIGHTGBM), constraint="equal_means", tolerance=1.0),
            loans.X,
            loans.X["income"].to_numpy(float),
        ),
    }
    return {n: (m.fit(X, y, sensitive_features=sex), X, y) for n, (m, X, y) in made.items()}


@pytest.fixture
def mlflow():
    with warnings.catch_warnings(action="ignore"):  # of packages that MLflow imports
        found = pytest.importorskip("mlflow")
        __import__("mlflow.pyfunc")
    return found


def as_json_has_it(X):
    """Rows as a client sends them: categories are text."""
    if not isinstance(X, pd.DataFrame):
        return X
    return X.assign(**{n: X[n].astype(object) for n in X if X[n].dtype == "category"})


# Without MLflow


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "three", "array", "number"])
def test_what_is_served(models, name):
    model, X, _ = models[name]
    found = ServedModel(model).predict(as_json_has_it(X[:200]))
    if name == "number":
        np.testing.assert_array_equal(found["prediction"], model.predict(X[:200]))
        return
    assert found["decision"].tolist() == model.predict(X[:200]).tolist()
    proba = model.predict_proba(X[:200])
    columns = [f"probability[{c}]" for c in "ABC"] if name == "three" else ["probability"]
    np.testing.assert_array_equal(found[columns], proba if name == "three" else proba[:, 1:])


def test_a_column_that_is_not_there(models):
    model, X, _ = models["lightgbm"]
    with pytest.raises(InvalidInputError, match="the rows have no column 'debt', expected"):
        ServedModel(model).predict(X[:3].drop(columns="debt"))


def test_metrics_are_those_of_the_report(models, loans):
    model, X, y = models["lightgbm"]
    report = model.report_on(X, y, sensitive_features=loans.sensitive["sex"])
    found, rates = group_metrics(report), report.rates.set_index("group")
    for where in ("held out", "test"):
        for group in ("female", "male"):
            assert found[f"{where}/fnr/sex_{group}"] == rates.loc[f"sex={group}", where]
    gaps = [value for name, value in found.items() if name.startswith("test/gap/")]
    assert gaps == [report.test_verdicts[0].value]


def test_it_says_what_to_install(models, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for call in (
        lambda: fairboost.mlflow.save_model(models["lightgbm"][0], tmp_path / "model"),
        lambda: fairboost.mlflow.log_model(models["lightgbm"][0]),
        lambda: fairboost.mlflow.load_model(tmp_path),
    ):
        with pytest.raises(ExportError, match=r"needs the package mlflow.*fairboost\[mlflow\]"):
            call()


# With it


@pytest.mark.filterwarnings("ignore")  # of packages that MLflow imports
@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "three", "array", "number"])
def test_a_saved_model_is_the_same(mlflow, models, tmp_path, name):
    model, X, _ = models[name]
    fairboost.mlflow.save_model(model, tmp_path / "model", input_example=X[:3])
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert not [file for file in files if file.endswith((".pkl", ".pickle", ".joblib"))]
    assert {"model/MLmodel", "model/input_example.json"} < files
    again = fairboost.mlflow.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    expected = ServedModel(model).predict(X[:50])
    pd.testing.assert_frame_equal(served.predict(as_json_has_it(X[:50])), expected)
    assert served.metadata.signature.outputs.input_names() == list(expected.columns)
    decide = json.loads((tmp_path / "model/data/fairboost/decide.json").read_text())
    jsonschema.validate(decide, schema())
    assert decide["model"]["format"] == "fairboost"


@pytest.fixture(scope="module")
def whole(loans):
    """A model of a table with whole numbers, truth values and categories, and the table."""
    rng = np.random.default_rng(0)
    X = loans.X.assign(
        children=rng.integers(0, 6, len(loans.X)),
        owner=rng.random(len(loans.X)) < 0.5,
        region=pd.Categorical(rng.integers(3, 7, len(loans.X))),
    )
    assert X["children"].dtype == np.int64
    model = FairGBMClassifier(LGBMClassifier(**LIGHTGBM), constraint=None, random_state=0)
    return model.fit(X, loans.y), X


@pytest.mark.filterwarnings("ignore")
def test_the_rows_of_training_are_served(mlflow, whole, tmp_path):
    model, X = whole
    fairboost.mlflow.save_model(model, tmp_path / "model", input_example=X[:3])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    kinds = {i.name: i.type.name for i in served.metadata.signature.inputs}
    found = [kinds[name] for name in ("children", "owner", "region", "income", "sector")]
    assert found == ["long", "boolean", "long", "double", "string"]
    decided = served.predict(as_json_has_it(X))
    assert decided["decision"].tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(decided["probability"], model.predict_proba(X)[:, 1])


@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_without_an_example(mlflow, whole, tmp_path):
    model, X = whole
    fairboost.mlflow.save_model(model, tmp_path / "model")
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    plain = as_json_has_it(X)
    with pytest.raises(mlflow.exceptions.MlflowException, match="Can not safely convert int64"):
        served.predict(plain)
    numbers = dict.fromkeys(["children", "owner", "region"], float)
    assert served.predict(plain.astype(numbers))["decision"].tolist() == model.predict(X).tolist()


@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_the_page_on_serving(mlflow, models, loans, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    shown = [b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "mlflow" in b]
    assert len(shown) == 2
    monkeypatch.chdir(tmp_path)
    model = models["lightgbm"][0]
    names = {"model": model, "new": loans}
    for block in shown:
        exec(compile(block, "serving.md", "exec"), names)
    found = names["served"].predict(names["X"])
    assert found["decision"].tolist() == model.predict(loans.X).tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_logged_model(mlflow, models, loans, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sqlalchemy")
    model, X, y = models["lightgbm"]
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("loans", artifact_location=str(tmp_path / "artifacts"))
    mlflow.set_experiment("loans")
    sex = loans.sensitive["sex"]
    evidence = fairboost.report.gather(model, X, y, sensitive_features=sex)
    report = model.report_on(X, y, sensitive_features=sex)
    with mlflow.start_run() as run:
        info = fairboost.mlflow.log_model(model, "loans", evidence=evidence, report=report)
    found = mlflow.get_run(run.info.run_id).data.metrics
    assert found == pytest.approx(group_metrics(report))
    again = fairboost.mlflow.load_model(info.model_uri)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    folder = mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path / "got"))
    files = {p.name for p in (tmp_path / "got").rglob("data/fairboost/*")}
    assert files == {"model.json", "decide.json", "report.html", "report.md", "evidence.json"}
    assert folder


@pytest.mark.filterwarnings("ignore")
def test_what_is_refused(mlflow, models, tmp_path):
    with pytest.raises(InvalidInputError, match="expected a fitted FairGBMClassifier or FairGBMR"):
        fairboost.mlflow.save_model(LGBMClassifier(), tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted"):
        fairboost.mlflow.save_model(FairGBMClassifier(), tmp_path / "model")
    other = tmp_path / "other"
    mlflow.pyfunc.save_model(str(other), loader_module="json", pip_requirements=[])
    with pytest.raises(ModelFileError, match="has the flavours python_function, expected fairb"):
        fairboost.mlflow.load_model(other)


@pytest.mark.slow
def test_the_server_of_mlflow_decides_as_the_model(mlflow, models, tmp_path):
    model, X, _ = models["xgboost"]
    with warnings.catch_warnings(action="ignore"):
        fairboost.mlflow.save_model(model, tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = f"http://127.0.0.1:{port}"
    options = ["-m", str(tmp_path / "model"), "--env-manager", "local", "-p", str(port)]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # The server looks for its programs there.
    paths["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "models", "serve", *options],
            env={**os.environ, **paths}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(f"{where}/ping", server)
        rows = as_json_has_it(X[:20])
        body = json.dumps({"dataframe_split": json.loads(rows.to_json(orient="split"))})
        request = urllib.request.Request(
            f"{where}/invocations", body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)["predictions"]
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
    assert [line["decision"] for line in found] == model.predict(X[:20]).tolist()
    proba = [line["probability"] for line in found]
    np.testing.assert_allclose(proba, model.predict_proba(X[:20])[:, 1], atol=1e-6)


def wait_for(url, server):
    for _ in range(120):
        assert server.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError("the server does not answer")


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
@pytest.mark.parametrize("given", ["base", "scores"])
def test_a_stage_on_a_base_model_is_refused(loans, tmp_path, given):
    """A folder without its base model could not be loaded, or not be served."""
    X, sex = loans.X.select_dtypes("number").fillna(0.0), loans.sensitive["sex"]
    base = LogisticRegression().fit(X / X.max(), loans.y)
    score = {"base_score": base.predict_proba(X / X.max())[:, 1]} if given == "scores" else {}
    frozen = FrozenEstimator(base) if given == "base" else None
    model = FairGBMClassifier(frozen, constraint="equal_opportunity")
    model.fit(X / X.max(), loans.y, sensitive_features=sex, **score)
    said = {
        "base": r"stage on a LogisticRegression, .* could not be loaded; .* fairboost.load\(path",
        "scores": r"stage on scores .* features alone; write the model with model.save",
    }[given]
    with pytest.raises(ExportError, match=said):
        fairboost.mlflow.save_model(model, tmp_path / "loans")
    with pytest.raises(ExportError, match=said):
        fairboost.mlflow.log_model(model, "loans")
    assert not list(tmp_path.iterdir())
