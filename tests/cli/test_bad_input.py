"""What is wrong is said in one line on standard error, with a non-zero exit and no traceback."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fairboost.cli import main
from fairboost.cli.model_folder import load_model
from tests.loan_files import ASKED, QUICK

AUDIT = ("--label", "approved", "--score", "score", "--sensitive", "sex")


@pytest.fixture
def spoiled(tmp_path, table):
    """Write the table with one thing changed."""

    def write(name="d.csv", **columns):
        path = tmp_path / name
        table.assign(**columns).to_csv(path, index=False)
        return path

    return write


@pytest.fixture
def fails(run):
    """Run a command that cannot be done; returns what it says on standard error."""

    def check(*words):
        code, out, err = run(*words)
        assert code == 1
        assert out == ""
        assert "Traceback" not in err
        assert err.strip().splitlines()[-1].startswith("fairboost: ")
        return err

    return check


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "Approved"), "did you mean 'approved'?"),
        (("--drop", "INCOME"), "did you mean 'income'?"),
        (("--sensitive", "gender"), "has no column 'gender'"),
        (("--drop", "nothing"), "has no column 'nothing'"),
        (("--label", "sex", "--positive", "male"), "'sex' is named twice"),
        (("--positive", "maybe"), "--positive 'maybe' is not among the values"),
        (("--label", "region"), "must have two values, found 6"),
        (("--sensitive", "income"), "different numbers, found"),
        (("--sensitive", "id"), "different values, found"),
        (("--weight", "sector"), "--weight 'sector' must hold numbers"),
        (
            ("--option", "num_leafs=3"),
            "no such option, see its documentation; did you mean 'num_l",
        ),
        (("--cross", "Sex,region"), "did you mean 'sex'?"),
        (("--option", "num_leaves=1"), "lightgbm refuses: Check failed: (num_leaves) > (1)"),
        (("--threshold", "2"), "--threshold must lie between 0 and 1"),
        (("--test", "nowhere.csv"), "there is no file 'nowhere.csv'"),
        (("--option", "n_estimators=0"), "lightgbm refuses: Number of boosting rounds must be"),
        (("--option", "num_threads=x"), "sets num_threads='x', expected a whole number"),
        (("--option", "class_weight=x"), "lightgbm refuses: The 'class_weight' parameter"),
        (("--test-share", "0.0001"), "0 of the rows are test rows"),
        (("--encoding", "klingon"), "unknown encoding 'klingon'"),
        (("--encoding", "rot13"), "unknown encoding 'rot13'"),
        (("--encoding", "undefined"), "unknown encoding 'undefined'"),
        (("--delimiter", "é"), "a delimiter is one character"),
        (("--delimiter", "|"), "has no column 'approved'"),
    ],
)
def test_train(fails, data, tmp_path, words, message):
    """No message of Python or of an engine as it is."""
    out = tmp_path / "m"
    asked = [w for k, w in enumerate(ASKED) if not _replaced(k, words)]
    err = fails("train", data, *asked, *QUICK, *words, "--out", out)
    assert message in err
    assert "unexpected" not in err
    assert not out.exists()
    assert list(tmp_path.iterdir()) == []


def _replaced(k, words):
    """Whether a word of ASKED is given anew; --sensitive is repeatable and stays."""
    name = ASKED[k - k % 2]
    return name in words and name != "--sensitive"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"approved": "yes"}, "must have two values, found 1"),
        ({"approved": None}, "must have two values, found 0"),
        ({"sex": None}, "missing in every row"),
        ({"sex": "female"}, "one group"),
    ],
)
def test_train_on_spoiled_columns(fails, spoiled, tmp_path, columns, message):
    err = fails("train", spoiled(**columns), *ASKED, *QUICK, "--out", tmp_path / "m")
    assert message in err
    assert not (tmp_path / "m").exists()


def test_labels_of_three_values(fails, spoiled, tmp_path, table):
    three = np.where(np.arange(len(table)) % 50, table["approved"], "later")
    err = fails("train", spoiled(approved=three), *ASKED, *QUICK, "--out", tmp_path / "m")
    assert "must have two values, found 3: 'later', 'no', 'yes'; merge labels" in err


def test_test_rows_must_have_the_columns_and_labels(fails, data, spoiled, tmp_path, table):
    other = spoiled("test.csv", approved=np.where(table["approved"] == "yes", "ja", "nein"))
    words = ("train", data, *ASKED, *QUICK, "--out", tmp_path / "m")
    assert "has the value" in fails(*words, "--test", other)
    table.drop(columns="income").to_csv(tmp_path / "less.csv", index=False)
    err = fails(*words, "--test", tmp_path / "less.csv")
    assert "has no column 'income'" in err


@pytest.mark.parametrize("command", ["train", "predict", "audit", "compare"])
def test_missing_empty_and_foreign_files(fails, model, tmp_path, command):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "latin.csv").write_bytes("approved,sex\nyes,é\n".encode("latin-1"))
    (tmp_path / "x.ods").write_bytes(b"PK")
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    words = {
        "train": lambda f: (f, *ASKED, *QUICK, "--out", tmp_path / "m"),
        "compare": lambda f: (f, *ASKED, *QUICK),
        "predict": lambda f: (model, f, "--out", tmp_path / "s.csv"),
        "audit": lambda f: (f, *AUDIT),
    }[command]
    for name, message in (
        ("nowhere.csv", "there is no file"),
        ("empty.csv", "is empty"),
        ("x.ods", "cannot tell the format"),
        ("x.xlsx", "cannot be read as an Excel workbook"),
    ):
        assert message in fails(command, *words(tmp_path / name))
    err = fails(command, *words(tmp_path / "latin.csv"))
    assert "has no column" in err or "line 2 has byte 0xe9" in err
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["empty.csv", "latin.csv", "x.ods", "x.xlsx"]


def test_wrong_encoding_names_the_line(fails, tmp_path, table):
    text = table.to_csv(index=False).replace("female", "femme née")
    (tmp_path / "d.csv").write_bytes(text.encode("latin-1"))
    err = fails("train", tmp_path / "d.csv", *ASKED, *QUICK, "--out", tmp_path / "m")
    line = next(k for k, t in enumerate(text.splitlines(), start=1) if "née" in t)
    assert f"line {line} has byte 0xe9" in err
    assert "--encoding latin-1" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "sex", "--positive", "male"), "'sex' is named twice"),
        (("--score", "sex2"), "has no column 'sex2'"),
        (("--score", "id"), "must hold numbers"),
        (("--label", "id"), "must have two values, found more"),
        (("--sensitive", "id"), "at most 1,000 different values"),
        (("--positive", "ja"), "--positive 'ja' is not among"),
        (("--level", "2"), "confidence must lie strictly between 0 and 1"),
    ],
)
def test_audit(fails, scored, words, message):
    asked = [
        w for k, w in enumerate(AUDIT) if AUDIT[k - k % 2] not in words or "--sensitive" in words
    ]
    assert message in fails("audit", scored, *asked, *words)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_missing_name_the_row(fails, scored, tmp_path, value):
    frame = pd.read_parquet(scored)
    frame.loc[1_234, "score"] = value
    frame.to_parquet(tmp_path / "s.parquet")
    err = fails("audit", tmp_path / "s.parquet", *AUDIT)
    assert "'score' is" in err
    assert "at row 1235" in err


def test_audit_of_bad_weights_groups_and_labels(fails, scored, tmp_path):
    frame = pd.read_parquet(scored).assign(w=1.0, none=None)
    frame.loc[7, "w"] = -2.0
    frame.to_csv(tmp_path / "s.csv", index=False)
    path = tmp_path / "s.csv"
    assert "is -2 at row 8" in fails("audit", path, *AUDIT, "--weight", "w")
    err = fails("audit", path, *AUDIT, "--sensitive", "none")
    assert "missing in every row" in err
    frame.assign(approved="yes").to_csv(path, index=False)
    assert "must have two values, found 1" in fails("audit", path, *AUDIT)
    frame.assign(approved=None).to_csv(path, index=False)
    assert "is missing in every row" in fails("audit", path, *AUDIT)


def test_predict(fails, model, scored, tmp_path):
    new, out = scored.parent / "new.parquet", tmp_path / "s.csv"
    words = ("predict", model, new, "--out", out)
    assert "has no column 'key'" in fails(*words, "--keep", "key")
    assert "second column of that name" in fails(*words, "--keep", "score")
    err = fails("predict", tmp_path / "no", new, "--out", out)
    assert "there is no folder" in err
    assert "has no model.json" in fails("predict", tmp_path, new, "--out", out)
    for folder in (tmp_path, tmp_path / "no"):
        with pytest.raises(FileNotFoundError, match="fairboost train wrote"):
            load_model(folder)
    pd.read_parquet(new).drop(columns="debt").to_csv(tmp_path / "new.csv", index=False)
    err = fails("predict", model, tmp_path / "new.csv", "--out", out)
    assert "has no column 'debt' (which the model looks at)" in err
    pd.read_parquet(new).assign(debt="much").to_csv(tmp_path / "new.csv", index=False)
    err = fails("predict", model, tmp_path / "new.csv", "--out", out)
    assert "has the value 'much' in row 1 below the header, in the column 'debt'" in err
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["new.csv"]


def test_report(fails, model, tmp_path):
    out = tmp_path / "r.html"
    assert "there is no" in fails("report", tmp_path, "--out", out)
    (tmp_path / "evidence.json").write_text("{}")
    assert "not fairboost evidence" in fails("report", tmp_path, "--out", out)
    out.write_text("mine")
    assert "exists; name another" in fails("report", model, "--out", out)
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train",), "required"),
        (("train", "d.csv", *ASKED, "--out", "m", "--tolerance", "2"), "must lie between 0 and 1"),
        (
            ("train", "d.csv", *ASKED, "--out", "m", "--at-fpr", "7"),
            "must have a target in (0, 1)",
        ),
        (("train", "d.csv", *ASKED, "--out", "m", "--option", "x"), "expected NAME=VALUE"),
        (("train", "d.csv", *ASKED, "--out", "m", "--constraint", "all"), "invalid choice"),
        (("audit", "d.csv", *AUDIT, "--max-gap", "fnr"), "expected RATE=GAP"),
        (("audit", "d.csv", *AUDIT, "--threshold", ".5", "--at-fpr", ".1"), "not allowed with"),
        (("fly",), "invalid choice"),
        (("trian", "d.csv"), "did you mean 'train'?"),
        (("train", "d.csv", "--lable", "y", "--out", "m"), "--lable; did you mean '--label'?"),
        (("audit", "d.csv", *AUDIT, "--sensitve=sex"), "--sensitve; did you mean '--sensitive'?"),
        (("train", "d.csv", *ASKED, "--constraint", "equal_oportunity"), "mean 'equal_opportun"),
        (("audit", "d.csv", *AUDIT, "--max-gap", "fnrr=0.1"), "did you mean 'fnr'?"),
        (("train", "d.csv", *ASKED, "--at-least", "tprr=0.1"), "did you mean 'tpr'?"),
        ((), "required"),
    ],
)
def test_usage(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_debug_shows_where(run):
    _, _, err = run("audit", "nowhere.csv", *AUDIT, "--debug")
    assert "Traceback" in err


def test_what_no_one_thought_of_is_one_line_too(fails, monkeypatch, scored):
    def broken(*_, **__):
        raise RuntimeError("out of order")

    monkeypatch.setattr("fairboost.tabular.audit.audit_file", broken)
    err = fails("audit", scored, *AUDIT)
    assert "RuntimeError: out of order (unexpected; --debug shows where)" in err


def test_without_extras(fails, monkeypatch, data, tmp_path):
    monkeypatch.setattr("fairboost.cli.outputs.find_spec", lambda name: None)
    err = fails("train", data, *ASKED, *QUICK, "--out", tmp_path / "m")
    assert 'pip install "fairboost[plots]"' in err


def test_an_engine_that_is_not_installed(fails, monkeypatch, data, tmp_path):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    for name in [n for n in sys.modules if n.startswith("fairboost.engines.xgboost")]:
        monkeypatch.delitem(sys.modules, name)  # of an earlier test
    words = ("train", data, *ASKED, "--engine", "xgboost", "--out", tmp_path / "m", "--quiet")
    assert "--engine xgboost is not installed" in fails(*words)


@pytest.mark.skipif(shutil.which("head") is None, reason="needs head")
def test_a_reader_that_leaves_early(scored):
    """As in ``fairboost audit ... | head -1``: no traceback."""
    words = [sys.executable, "-m", "fairboost.cli", "audit", scored, *AUDIT, "--json", "--quiet"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


def test_json_is_json_when_figures_are_undefined(run, scored, tmp_path):
    frame = pd.read_parquet(scored)
    frame.loc[frame["sex"] == "female", "approved"] = "no"
    frame.to_parquet(tmp_path / "s.parquet")
    code, out, _ = run("audit", tmp_path / "s.parquet", *AUDIT, "--json", "--quiet")
    assert code == 0
    found = {(r["group"], r["rate"]): r["value"] for r in json.loads(out)["rates"]}
    assert found["female", "fnr"] is None


@pytest.mark.parametrize("role", ["approved", "sex"])
@pytest.mark.parametrize("value", [[1], {"a": 1}], ids=["list", "record"])
def test_labels_and_groups_that_are_no_text(fails, scored, tmp_path, role, value):
    frame = pd.read_parquet(scored)
    frame[role] = [value] * len(frame)
    frame.to_parquet(tmp_path / "nested.parquet")
    for words in ((*AUDIT, "--positive", "yes"), None):
        command = (
            ("audit", tmp_path / "nested.parquet", *words)
            if words
            else ("train", tmp_path / "nested.parquet", *ASKED, *QUICK, "--out", tmp_path / "m")
        )
        err = fails(*command)
        assert f"the column {role!r} must hold text or numbers" in err
        assert "unexpected" not in err
