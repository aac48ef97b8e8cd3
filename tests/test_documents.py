"""What the README, the docs and the examples show does run, and says what is there."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.fake_device import fake_device, needs_compiler

ROOT = Path(__file__).parents[1]


def test_readme_quickstart_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    namespace = {}
    for block in blocks:  # one after the other, as a reader would paste them
        exec(compile(block, "README.md", "exec"), namespace)
    assert "sex" in capsys.readouterr().out


def test_page_on_operating_points_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "operating_points.md").read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "operating_points.md", "exec"), namespace)
    model = namespace["model"]
    assert "at_fpr(0.05) chosen on other rows" in capsys.readouterr().out
    model.export("model.txt")
    head = Path("model.txt").read_text().split("Tree=0")[0]
    notes = dict(re.findall(r"^(fairboost_\w+)=(.*)$", head, re.MULTILINE))
    assert float(notes["fairboost_threshold"]) == model.threshold_
    assert set(notes) == set(re.findall(r"^(fairboost_\w+)=", page, re.MULTILINE))


@pytest.mark.parametrize(("page", "name"), [("report.md", "page"), ("plots.md", "model")])
def test_pages_with_pictures_run_when_pasted(page, name, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL):
        exec(compile(block, page, "exec"), namespace)
    plt.close("all")
    assert namespace[name]
    if page == "report.md":
        assert Path("report.html").read_text(encoding="utf-8") == namespace["page"]
        assert Path("report.md").read_text(encoding="utf-8") == namespace["text"]


@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_page_on_any_model_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "any_model.md").read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        small = block.replace("20_000", "3_000").replace(
            "(random_state=0)", "(20, random_state=0)"
        )
        exec(compile(small, "any_model.md", "exec"), namespace)
    assert "sex" in capsys.readouterr().out
    again, new = namespace["again"], namespace["new"]
    expected = namespace["model"].predict_proba(new.X)
    assert (again.predict_proba(new.X) == expected).all()
    assert Path("stage.txt.base.json").is_file()


def test_page_on_ratios_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "ratios.md").read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        small = block.replace("20_000", "8_000")
        exec(compile(small, "ratios.md", "exec"), namespace)
    out = capsys.readouterr().out
    assert "predicted positive rate by sex at least 0.8 of the largest" in out
    assert "no decisions on these rows meet all of the constraints at once" in out
    assert namespace["selected"].min() > 0.7 * namespace["selected"].max()


def test_page_on_engines_runs_when_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "engines.md").read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        small = block.replace("20_000", "2_000").replace("n_estimators=100", "n_estimators=5")
        exec(compile(small, "engines.md", "exec"), namespace)
        if "booster" in namespace and "rows" not in namespace:
            model, new = namespace["model"], namespace["new"]
            proba = model.predict_proba(new.X)[:, 1]
            assert abs(namespace["score"] - proba).max() < 1e-6
            assert namespace["threshold"] == model.threshold_
    assert namespace["rows"].shape[0] == 2_000


def test_page_on_clusters_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "cluster.md").read_text()
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        small = block.replace("25_000", "1_000").replace("n_estimators=100", "n_estimators=5")
        exec(compile(small, "cluster.md", "exec"), namespace)
    assert sum(namespace["model"].cluster_.rows.values()) == 8_000
    assert sum(namespace["prices"].cluster_.rows.values()) == 4_000
    assert namespace["bands"].classes_.tolist() == [0, 1, 2]
    out = capsys.readouterr().out
    assert "bytes_per_round=48" in out
    assert "mean prediction" in out
    assert Path("loans.json").exists()


def test_page_on_studies_runs_when_pasted(tmp_path, monkeypatch, capsys):
    from fairboost.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairboost.study.output.draw_all", lambda results: {})  # seen elsewhere
    page = (ROOT / "docs" / "study.md").read_text()
    data, method, search = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    study, own = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    namespace = {}
    exec(compile(data, "study.md", "exec"), namespace)
    Path("mine.py").write_text(method)
    small = study.replace("trials = 20 ", "trials = 2 ").replace(
        "replicates = 1000", "replicates = 9"
    )
    few = re.sub(r"n_estimators = .*", "n_estimators = 5", small).replace("[methods.GS]", own)
    Path("loans.toml").write_text(few)
    try:
        assert main(["study", "loans.toml", "--quiet"]) == 0
    finally:
        sys.modules.pop("mine", None)
    assert "0 missing, 0 failed" in capsys.readouterr().out
    assert "calibrated" in Path("loans", "results.md").read_text()
    quick = "n_trials=1, models=3, space={'num_leaves': [4, 8]}"
    search = search.replace("n_trials=3", quick).replace("verbose=-1", "n_jobs=1, verbose=-1")
    exec(compile(search, "study.md", "exec"), namespace)
    assert "gap" in capsys.readouterr().out
    assert len(namespace["model"].predict(namespace["loans"].X)) == 4_000


def test_page_on_scorers_runs_when_pasted(capsys):
    import sklearn

    page = (ROOT / "docs" / "scorers.md").read_text()
    namespace = {}
    with sklearn.config_context():  # which the page changes
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            small = block.replace("n_estimators=50", "n_estimators=5")
            exec(compile(small, "scorers.md", "exec"), namespace)
    assert (namespace["found"]["test_gap"] <= 0).all()
    assert set(namespace["search"].best_params_) == set(namespace["grid"])
    shown = capsys.readouterr().out
    assert "Fairness constraints: " in shown
    assert re.fullmatch(r"0\.\d+ \[0\.\d+, 0\.\d+\]", shown.splitlines()[-1])


def test_custom_constraint_example(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "custom_constraint.py"))
    before, after = example["main"](rows=6_000)
    assert abs(after) < abs(before) / 2


def test_functions_named_in_the_algorithm_page_exist():
    import importlib

    text = (ROOT / "docs" / "algorithm.md").read_text()
    names = re.findall(
        r"`((?:fairness|algorithm|tasks|training|kernel|engines)(?:\.\w+)+)`",
        text,
    )
    assert len(names) > 12
    for name in names:
        thing, rest = None, name.split(".")
        for cut in range(len(rest), 0, -1):
            try:
                thing = importlib.import_module("fairboost." + ".".join(rest[:cut]))
            except ModuleNotFoundError:
                continue
            for attribute in rest[cut:]:
                thing = getattr(thing, attribute)
            break
        assert thing is not None, name


@needs_compiler
@pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")
def test_page_on_gpus_runs_when_pasted(monkeypatch):
    from types import SimpleNamespace

    import numpy as np

    from fairboost.engines.xgboost import device, engine

    fake = fake_device()
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=np.asarray))
    for where in (device, engine):
        monkeypatch.setattr(where, "open_device", lambda ordinal: fake)
        monkeypatch.setattr(where, "at_hand", lambda ordinal: fake)
    page, namespace = (ROOT / "docs" / "gpu.md").read_text(), {}
    page = page.replace("1_000_000", "3_000")  # rows that a GPU has no trouble with
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "gpu.md", "exec"), namespace)
    assert namespace["model"].estimator_.device == "cuda"
