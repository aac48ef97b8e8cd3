"""Exports decide and predict as the model does; what does not is never written."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import jsonschema
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

from fairboost import FairGBMClassifier
from fairboost.exceptions import ExportError, InvalidInputError, MissingFileError
from fairboost.serving import export as exporting
from fairboost.serving import onnx_file
from fairboost.serving.decide_file import schema
from fairboost.serving.export import FORMATS
from tests.serving.conftest import CASES

ENGINES = ("lightgbm", "xgboost")
OTHERS = ("onnx", "treelite", "c")
ENDING = {"lightgbm": ".txt", "xgboost": ".json", "onnx": ".onnx", "treelite": ".tl", "c": ""}


def decide(path):
    """What is written beside an export."""
    inside = path / "decide.json"
    found = json.loads(
        (inside if path.is_dir() else path.with_name(f"{path.name}.decide.json")).read_text()
    )
    jsonschema.validate(found, schema())
    return found


def run_onnx(path, X):
    """Outputs of ONNX Runtime by name, given a table as a program would have it."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    types = {i.name: i.type for i in session.get_inputs()}
    if isinstance(X, pd.DataFrame):
        feed = {}
        for name in X.columns:
            column = X[name].astype(object) if types[name] == "tensor(string)" else X[name]
            column = column.where(column.notna(), "") if column.dtype == object else column
            kind = object if types[name] == "tensor(string)" else np.float64
            feed[name] = column.to_numpy(kind)[:, np.newaxis]
    else:
        feed = {"X": X}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))


# Every format, engine and kind of model


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["own", "onnx", "treelite"])
def test_a_file_says_what_the_model_says(fit, tmp_path, form, engine, case):
    model, new = fit(engine, case)
    form = engine if form == "own" else form
    pytest.importorskip("treelite" if form == "treelite" else "onnx")
    path = tmp_path / f"model{ENDING[form]}"
    model.export(path, form)  # on drawn rows
    model.export(path, form, check_on=new[:2_000])
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / f"{path.name}.decide.json"]
    told = decide(path)
    assert told["model"]["format"] == form
    assert told["model"]["files"] == [
        {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    ]
    assert told["engine"]["name"] == engine
    assert len(told["features"]) == new.shape[1]


@pytest.mark.parametrize(
    ("engine", "case"), [("lightgbm", "at_fpr"), ("xgboost", "three by costs")]
)
def test_source_in_c(fit, tmp_path, engine, case):
    pytest.importorskip("tl2cgen")
    model, new = fit(engine, case)
    path = tmp_path / "source"
    model.export(path, "c", check_on=new[:500])
    assert [p.name for p in tmp_path.iterdir()] == ["source"]
    assert {"decide.json", "header.h", "main.c"} <= {p.name for p in path.iterdir()}
    files = {f["name"]: f["sha256"] for f in decide(path)["model"]["files"]}
    assert {
        name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in files
    } == files
    with pytest.raises(ExportError, match="it is there already; name another"):
        model.export(path, "c")


# The decision travels with the model


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("number", "count")])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_label_differs_in_onnx(fit, tmp_path, engine, case):
    model, new = fit(engine, case)
    model.export(path := tmp_path / "model.onnx")
    found, expected = run_onnx(path, new), model.predict(new)
    assert found["label"].shape == (15_000,)
    assert int((found["label"] != expected).sum()) == 0
    atol = 1e-14 if engine == "lightgbm" else 5e-7
    np.testing.assert_allclose(found["probability"], model.predict_proba(new), atol=atol)
    likely = model.classes_[found["probability"].argmax(axis=1)]
    if case in ("at_fpr", "costs", "three by costs"):  # what is lost without the rule
        assert (likely != expected).mean() > 0.02


@pytest.mark.parametrize("case", ["number", "count"])
@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_in_onnx(fit, tmp_path, engine, case):
    model, new = fit(engine, case)
    model.export(path := tmp_path / "model.onnx")
    found = run_onnx(path, new)["prediction"]
    rtol = 1e-12 if engine == "lightgbm" else 2e-6
    np.testing.assert_allclose(found, model.predict(new), rtol=rtol)
    assert decide(path)["decision"] == {"rule": "none"}


@pytest.mark.parametrize("case", ["at_fpr", "costs"])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_label_differs_by_a_stock_booster_and_decide_json(fit, tmp_path, engine, case):
    model, new = fit(engine, case)
    model.export(path := tmp_path / f"model{ENDING[engine]}")
    rule = decide(path)["decision"]
    if engine == "lightgbm":
        booster = lightgbm.Booster(model_file=path)
        proba, raw = booster.predict(new), booster.predict(new, raw_score=True)
    else:
        booster = xgboost.Booster(model_file=path)
        proba = booster.inplace_predict(new)
        raw = booster.inplace_predict(new, predict_type="margin")
    expected = model.predict(new)
    for positive in (proba >= rule["threshold"], raw >= rule["log_odds"]):
        labels = np.where(positive, rule["positive"], rule["negative"])
        assert int((labels != expected).sum()) == 0
    assert 0 < positive.mean() < 1
    assert ((proba >= 0.5) != positive).mean() > 0.02


def test_the_file_says_what_the_training_reached(fit, tmp_path):
    model, _ = fit("lightgbm", "at_fpr")
    model.export(path := tmp_path / "model.txt")
    told, report = decide(path), model.fairness_report_
    assert told["predictions"] == "probabilities"
    assert told["constraints"] == [v.constraint for v in report.verdicts]
    (verdict,) = told["verdicts"]
    assert verdict["where"] == report.where
    assert verdict["value"] == report.verdicts[0].value
    assert verdict["status"] == report.verdicts[0].status
    assert told["decision"]["positive"] == "yes"
    assert told["decision"]["threshold"] == model.threshold_
    sector = next(f for f in told["features"] if f["name"] == "sector")
    assert sector == {
        "name": "sector", "type": "category", "categories": [*_sectors(model)],
    }  # fmt: skip


def _sectors(model):
    return model.booster_.pandas_categorical[0]


def test_a_loaded_model_exports_the_same(fit, tmp_path):
    from fairboost import load

    for engine in ENGINES:
        model, _ = fit(engine, "at_fpr")
        model.save(tmp_path / "model.json")
        model.export(one := tmp_path / "one.onnx")
        load(tmp_path / "model.json").export(other := tmp_path / "other.onnx")
        assert one.read_bytes() == other.read_bytes()


# What the trees may be


@pytest.mark.parametrize("form", ["onnx", "treelite"])
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("lightgbm", {"boosting_type": "dart", "drop_rate": 0.5, "iterate": "last"}),
        ("xgboost", {"booster": "dart", "rate_drop": 0.5, "iterate": "last"}),
        ("lightgbm", {"iterate": "average"}),
        ("lightgbm", {"min_split_gain": 1e9}),
        ("xgboost", {"gamma": 1e9}),
    ],
    ids=["dart", "xgboost-dart", "average", "no-split", "xgboost-no-split"],
)
def test_other_trees(fit, tmp_path, form, engine, options):
    model, new = fit(engine, "numbers", **options)
    model.export(tmp_path / "model.bin", form, check_on=new[:500])
    model.export(tmp_path / "model.bin", form)


def test_categories_that_are_numbers(loans, tmp_path):
    """As codes in an array, cut off after the point, and as categories of pandas."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 90, 2_000)
    y = (code % 3 == 0) ^ (rng.random(2_000) < 0.1)
    X = np.column_stack([code, rng.normal(size=2_000)]).astype(float)
    engine = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1, min_child_samples=5)
    model = FairGBMClassifier(engine, constraint=None)
    model.fit(X, y, categorical_feature=[0])
    new = X.copy()
    new[:300, 0] += 0.7
    new[300:400, 0] = [-0.5, -1.0, np.nan, 1000.0] * 25
    assert decide_features(model, tmp_path) == [
        {"name": "0", "type": "category"}, {"name": "1", "type": "number"},
    ]  # fmt: skip
    found = run_onnx(tmp_path / "model.onnx", new)["label"]
    np.testing.assert_array_equal(found, model.predict(new))
    frame = pd.DataFrame({"code": pd.Categorical(code * 10), "x": X[:, 1]})
    model.fit(frame, y)
    assert decide_features(model, tmp_path)[0]["categories"] == [10 * k for k in range(90)]
    found = run_onnx(tmp_path / "model.onnx", frame.assign(code=code * 10))["label"]
    np.testing.assert_array_equal(found, model.predict(frame))


def decide_features(model, folder):
    model.export(path := folder / "model.onnx")
    return decide(path)["features"]


def test_onnx_compares_as_lightgbm_does_next_to_a_threshold(fit, tmp_path):
    model, new = fit("lightgbm", "numbers")
    model.export(path := tmp_path / "model.onnx")
    trees = model._model.ensemble()
    inner = np.flatnonzero(trees.feature >= 0)[:200]
    rows = np.repeat(new[:1], 3 * len(inner), axis=0)
    for k, node in enumerate(inner.tolist()):
        at, column = trees.threshold[node], trees.feature[node]
        rows[3 * k : 3 * k + 3, column] = [np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)]
    found = run_onnx(path, rows)["probability"]
    np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-14)
    assert len(np.unique(found[:, 1])) > 5


# What is refused, and that nothing is left then


@pytest.mark.parametrize("form", OTHERS)
def test_trees_that_others_do_not_have(fit, tmp_path, form):
    model, _ = fit("lightgbm", "numbers", linear_tree=True)
    with pytest.raises(ExportError, match=r"\(linear_tree=True\).* use format='lightgbm'"):
        model.export(tmp_path / "model", form)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.pmml", "a.pkl", "a.joblib", "a.pt", "a.JSON", "a.ubj"])
def test_endings_of_other_formats_are_refused(fit, tmp_path, name):
    model, _ = fit("lightgbm", "numbers")
    with pytest.raises(ExportError, match=r"says another .*'xgboost' \(\.json\), 'onnx' \(\.onnx"):
        model.export(tmp_path / name)
    assert not list(tmp_path.iterdir())
    model.export(tmp_path / name, "lightgbm")
    assert lightgbm.Booster(model_file=tmp_path / name).num_trees() > 0


@pytest.mark.parametrize("name", ["a.pmml", "a.pkl", "a.ubj"])
def test_endings_of_other_formats_are_refused_of_xgboost(fit, tmp_path, name):
    model, _ = fit("xgboost", "numbers")
    with pytest.raises(ExportError, match=r"says another .*'xgboost' \(\.json\), 'onnx' \(\.onnx"):
        model.export(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model", "model.bst", "model.lgb", "model_v1.2"])
def test_other_endings_are_for_the_text_of_lightgbm(fit, tmp_path, name):
    model, _ = fit("lightgbm", "numbers")
    model.export(tmp_path / name)
    assert decide(tmp_path / name)["model"]["format"] == "lightgbm"


def test_formats_are_refused_by_name(fit, tmp_path):
    model, _ = fit("lightgbm", "numbers")
    with pytest.raises(ExportError, match="unknown format 'pmml', expected one of lightgbm, xgb"):
        model.export(tmp_path / "model", "pmml")
    with pytest.raises(ExportError, match=r"was trained by lightgbm; use format='lightgbm'"):
        model.export(tmp_path / "model.json", "xgboost")
    model, _ = fit("xgboost", "numbers")
    with pytest.raises(ExportError, match=r"was trained by xgboost; use format='xgboost'"):
        model.export(tmp_path / "model.txt", "lightgbm")
    with pytest.raises(ExportError, match=r"expected \.json, found .*model\.txt"):
        model.export(tmp_path / "model.txt")
    with pytest.raises(MissingFileError, match="nowhere does not exist"):
        model.export(tmp_path / "nowhere" / "source", "c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", OTHERS)
def test_randomized_models_have_no_file(fit, tmp_path, form):
    model, _ = fit("lightgbm", "numbers", iterate="randomized")
    with pytest.raises(ExportError, match="no single booster does"):
        model.export(tmp_path / "model", form)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["lightgbm", *OTHERS])
@pytest.mark.parametrize("off", [1e-3, 2.0])
def test_a_file_that_says_something_else_is_not_kept(fit, tmp_path, monkeypatch, form, off):
    """A real file of other leaves: the check reads it back and refuses it."""
    model, _ = fit("lightgbm", "numbers")
    other = model._model.with_tree_weights(np.r_[1.0 + off, np.ones(model.best_iteration_ - 1)])
    write = FORMATS[form].write

    def write_other(served, path):
        from dataclasses import replace

        write(replace(served, trained=other), path)

    changed = {
        **FORMATS,
        form: exporting.Format(write_other, FORMATS[form].read, folder=form == "c"),
    }
    monkeypatch.setattr(exporting, "FORMATS", changed)
    path = tmp_path / "model"
    match = "rows otherwise than the model: row" if off > 1 else "file (differ|decides)"
    with pytest.raises(ExportError, match=match):
        model.export(path, form)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_differs_is_not_kept(fit, tmp_path, monkeypatch):
    model, _ = fit("lightgbm", "number")
    monkeypatch.setattr(
        onnx_file, "_number", lambda graph, scores, link: real(graph, scores, True)
    )
    with pytest.raises(ExportError, match="rows otherwise than the model: row 0 as"):
        model.export(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


real = onnx_file._number


def test_rows_to_check_on_are_checked(fit, loans, tmp_path):
    model, new = fit("lightgbm", "at_fpr")
    with pytest.raises(ValueError, match="feature names"):
        model.export(tmp_path / "m.onnx", check_on=new[["income", "debt"]])
    dask = pytest.importorskip("dask.dataframe")
    lazy = dask.from_pandas(new.select_dtypes("number")[:50], npartitions=1)
    with pytest.raises(InvalidInputError, match="expected rows in memory; pass a part"):
        model.export(tmp_path / "m.onnx", check_on=lazy)
    assert list(tmp_path.iterdir()) == []


def test_names_and_labels_that_onnx_cannot_have(loans, tmp_path):
    X = loans.X[["income", "debt"]].rename(columns={"debt": "label"})
    engine = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(engine, constraint=None).fit(X, loans.y)
    with pytest.raises(ExportError, match="the feature 'label' has the name of an output"):
        model.export(tmp_path / "m.onnx")
    days = np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")[loans.y]
    model.fit(X.rename(columns={"label": "debt"}), days)
    with pytest.raises(ExportError, match="labels of type datetime64"):
        model.export(tmp_path / "m.onnx")
    model.export(tmp_path / "m.txt")
    assert decide(tmp_path / "m.txt")["decision"]["positive"] == "2026-01-02"


def test_ordered_categories_are_not_known_to_the_text(loans, tmp_path):
    X = loans.X.assign(sector=loans.X["sector"].cat.as_ordered())
    engine = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)
    model = FairGBMClassifier(engine, constraint=None).fit(X, loans.y)
    model.export(tmp_path / "model.txt")
    assert {f["type"] for f in decide(tmp_path / "model.txt")["features"]} == {"unknown"}
    with pytest.raises(ExportError, match=r"ordered categories, .* train on categories without"):
        model.export(tmp_path / "model.onnx")


def test_a_package_that_is_not_installed(fit, tmp_path, monkeypatch):
    model, _ = fit("lightgbm", "numbers")
    for form, package in {"onnx": "onnxruntime", "treelite": "treelite", "c": "tl2cgen"}.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            ExportError, match=rf"needs the package {package}.*fairboost\[{form}\]"
        ):
            model.export(tmp_path / "model", form)
        assert list(tmp_path.iterdir()) == []


def test_nothing_of_others_is_imported_before_it_is_used():
    code = (
        "import sys, fairboost; fairboost.FairGBMClassifier; "
        "print({'onnx', 'onnxruntime', 'treelite', 'tl2cgen', 'mlflow'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
