"""The pages and the examples of the documentation site run; the site can be built."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from fairboost.datasets import make_loans
from fairboost.exceptions import FairnessWarning

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(ROOT.glob("examples/plot_*.py"))
CHOICES = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
LEAVES = re.findall(r"`(FairGBM\w+\(.*\))`", CHOICES)


def blocks(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def small(code):
    """The same with fewer rows and trees."""
    code = re.sub(r"\b\d\d_000\b", "2_000", code)
    return re.sub(r"n_estimators=\d+", "n_estimators=5", code)


@pytest.mark.parametrize("page", ["index.md", "quickstart.md"])
def test_first_pages_run_when_pasted(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks(page):
        exec(compile(small(block), page, "exec"), namespace)
    assert "Fairness constraints" in capsys.readouterr().out
    if page == "quickstart.md":
        model, new = namespace["model"], namespace["new"]
        assert (namespace["same"].predict(new.X) == namespace["decision"]).all()
        assert len(namespace["booster"].predict(new.X)) == len(namespace["probability"])
        assert model.threshold_ == 0.5
        rule = json.loads((tmp_path / "model.txt.decide.json").read_text())["decision"]
        assert rule["threshold"] == model.threshold_
        assert (tmp_path / "loans.csv").is_file()


def test_page_on_scikit_learn_runs_when_pasted(capsys):
    import sklearn

    namespace = {}
    with sklearn.config_context():  # which the page changes
        for block in blocks("sklearn.md"):
            exec(compile(small(block).replace("4_000", "2_000"), "sklearn.md", "exec"), namespace)
    assert set(namespace["search"].best_params_) == set(namespace["grid"])
    assert (namespace["found"]["test_gap"] <= 0).all()
    assert namespace["smaller"].tolerance == 0.1


@pytest.fixture(scope="module")
def words():
    """What the lines of the page on constraints are written with."""
    (block,) = blocks("choosing.md")
    namespace = {}
    exec(compile(small(block), "choosing.md", "exec"), namespace)
    return namespace


def test_every_leaf_of_the_decision_tree_has_a_line():
    trees = re.findall(r'<div class="decision-tree">\n(.*?)</div>', CHOICES, re.DOTALL)
    assert len(trees) == 3
    for tree in trees:
        items = re.split(r"^ *- ", tree, flags=re.MULTILINE)[1:]
        for item in items:
            asks = "**" in item
            assert asks != ("`FairGBM" in item), item
    assert len(LEAVES) == 35


@pytest.mark.parametrize("line", LEAVES)
def test_lines_of_the_decision_tree_run(line, words):
    loans = make_loans(1_500, seed=0)
    model = eval(line, words)
    y = loans.y
    if "FairGBMRegressor" in line:
        y = loans.X["income"].to_numpy() / 10
    elif '"high"' in line or "equal_accuracy" in line:
        y = np.array(["low", "middle", "high"])[np.digitize(loans.X["income"], [20, 40])]
    groups = loans.sensitive if "age_band" in line else loans.sensitive[["sex"]]
    if "smooth" in line:
        groups = {"age": np.random.default_rng(0).integers(18, 80, len(y))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.set_params(holdout=0.3, min_group_rows=0).fit(loans.X, y, sensitive_features=groups)
    assert len(model.fairness_report_.verdicts) >= 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(example, capsys):
    """With few rows and trees; ``make docs`` runs them as they are."""
    matplotlib = pytest.importorskip("matplotlib", reason="the examples draw")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    code = small(example.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        exec(compile(code, example.name, "exec"), {"__name__": example.stem})
    assert plt.get_fignums(), "an example has a picture"
    plt.close("all")
    assert capsys.readouterr().out


def test_there_are_eight_examples_and_each_has_a_title():
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        assert re.match(r'"""\n(.+)\n=+\n\n', example.read_text(encoding="utf-8")), example


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """Without running the examples, which ``make docs`` does."""
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme", "sphinx_gallery", "numpydoc"):
        pytest.importorskip(package, reason="the extra docs builds the site")
    options = ["-b", "html", "-W", "--keep-going", "-q", "-d", str(tmp_path / "doctrees")]
    told = [sys.executable, "-m", "sphinx", *options, "-c", "docs", ".", str(tmp_path / "html")]
    environment = {**os.environ, "FAIRBOOST_GALLERY": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(told, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "html"
    assert "docs/index.html" in (made / "index.html").read_text(encoding="utf-8")
    for name in ("docs/choosing", "docs/gallery/plot_1_loans", "benchmarks/holds", "CHANGELOG"):
        assert (made / f"{name}.html").exists(), name
    assert (made / "docs/reference/fairboost.FairGBMClassifier.html").exists()
    page = (made / "docs/equations.html").read_text(encoding="utf-8")
    assert "<math" in page
    for page in made.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(https?:[^"]*)"',
            page.read_text(encoding="utf-8"),
        )
        assert not fetched, f"{page.name} fetches {fetched}"
