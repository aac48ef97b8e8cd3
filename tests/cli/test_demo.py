import json
import subprocess
import sys

import lightgbm
import pandas as pd
import pytest

import fairboost
from fairboost.cli import main
from fairboost.datasets import make_loans
from tests.cli.test_wording import PYTHON


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One run of the demo as a user would have it, in a process of its own."""
    out = tmp_path_factory.mktemp("demo") / "here"
    command = [sys.executable, "-m", "fairboost.cli", "demo", "--rows", "3000", "--out", str(out)]
    return out, subprocess.run(command, capture_output=True, text=True, check=False)


def test_demo_prints_a_table_and_writes_files(demo):
    out, done = demo
    assert done.returncode == 0, done.stderr
    for text in ("accuracy", "FNR female", "FNR gap", "training time", "test rows", "verdict"):
        assert text in done.stdout
    assert "round/s" not in done.stderr  # no progress bar, since there is no terminal
    expected = {"table.csv", "demo.png", "model.json", "model.txt", "model.txt.decide.json"}
    assert {p.name for p in out.iterdir()} == expected
    assert (out / "demo.png").read_bytes()[:4] == b"\x89PNG"


def test_models_of_the_demo_are_one_and_the_same(demo):
    out, _ = demo
    X = make_loans(500, seed=5).X
    ours = fairboost.load(out / "model.json").predict_proba(X)[:, 1]
    stock = lightgbm.Booster(model_file=out / "model.txt").predict(X)
    assert abs(ours - stock).max() < 1e-12
    assert json.loads((out / "model.json").read_text())["format"] == "fairboost-model"


def test_the_table_is_written_as_shown(demo):
    out, done = demo
    table = pd.read_csv(out / "table.csv", index_col=0)
    assert table.columns.tolist() == ["plain LightGBM", "fairboost"]
    assert table.loc["FNR gap", "fairboost"] in done.stdout


def test_demo_does_not_write_over_files(demo, capsys):
    out, _ = demo
    assert main(["demo", "--rows", "1000", "--out", str(out)]) == 1
    assert "is not empty; name another with --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "10"], "--rows must lie between 1,000 and 10,000,000, found 10"),
        (["--rows", "20000000"], "found 20,000,000"),
        (["--out", __file__], "is a file; name a folder"),
    ],
)
def test_bad_options_of_the_demo(arguments, message, capsys, tmp_path):
    base = [] if "--out" in arguments else ["--out", str(tmp_path)]
    assert main(["demo", *arguments, *base]) == 1
    assert message in capsys.readouterr().err


def test_demo_as_json_and_without_matplotlib(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--rows", "1000", "--json", "--force", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert 'pip install "fairboost[plots]"' in shown.err
    found = json.loads(shown.out)
    assert set(found["figures"]) == {"plain LightGBM", "fairboost"}
    assert not (tmp_path / "demo.png").exists()


def test_the_demo_speaks_of_commands(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("fairboost.data.holdout.CROSS_BELOW_CELL", 10)  # a share will do
    assert main(["demo", "--rows", "1000", "--quiet", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert not PYTHON.search(shown), shown
    assert "--holdout-share cross reads the rates on all rows" in shown
    assert "The options named are those of `fairboost train`." in shown


def test_interrupt(monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fairboost.cli.demonstration.run_demo", stop)
    assert main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err


COMMANDS = ("train", "predict", "audit", "compare", "report", "demo", "study", "completion")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_page_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    page = capsys.readouterr().out
    assert f"example:\n\n  fairboost {command} " in page
    assert page.startswith(f"usage: fairboost {command} ")
    assert max(map(len, page.splitlines())) < 100


def test_version_and_the_first_page(capsys):
    for arguments, text in ((["--version"], "fairboost 0"), (["--help"], "130  interrupted")):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        assert text in capsys.readouterr().out
