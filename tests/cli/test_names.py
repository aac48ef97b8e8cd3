"""Names and values of the data that mean something to a terminal, a plot or a spreadsheet."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from tests.loan_files import QUICK, loans

HOSTILE = {"female": "$10%-$20%", "male": "$20k-$40k"}
ESCAPE = "\x1b[2J\x9b31m\r\n\u202eevil"
OBEYED = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""But for line ends; progress bars go back to the start of theirs."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Groups with dollars; the label, its positive value and a column that a terminal obeys."""
    frame = loans(1_500, seed=0)
    frame["sex"] = frame["sex"].astype(object).replace(HOSTILE)
    frame["age_band"] = (
        frame["age_band"].astype(object).replace({"25-39": ESCAPE, "40-59": "_hidden"})
    )
    frame["score"] = frame["income"].rank(pct=True)
    names = {"approved": f"label{ESCAPE}", "age_band": f"$a$ {ESCAPE}", "id": f"id{ESCAPE}"}
    frame["approved"] = frame["approved"].replace({"yes": f"yes{ESCAPE}"})
    path = tmp_path_factory.mktemp("hostile") / "hostile.parquet"
    frame.rename(columns=names).to_parquet(path)
    return path, [
        *("--label", names["approved"], "--positive", f"yes{ESCAPE}"),
        *("--sensitive", "sex", "--sensitive", names["age_band"]),
    ]


def test_dollars_are_no_mathematics(hostile, tmp_path, run):
    path, asked = hostile
    words = [w for w in QUICK if w != "--quiet"] + ["--no-trade-off", "--out", tmp_path / "model"]
    code, out, err = run("train", path, *asked, *words)
    assert code in (0, 3), err
    page = (tmp_path / "model" / "report.html").read_text()
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    drawn = [
        group for group in HOSTILE.values() if sum(f">{group}" in svg for svg in pictures) >= 4
    ]
    assert drawn == list(HOSTILE.values())  # rates, ROC curves, scores and calibration
    assert any(">_hidden<" in svg for svg in pictures)  # in a legend
    for text in (out, err, page, (tmp_path / "model" / "card.md").read_text()):
        assert not OBEYED.search(text)
    assert not OBEYED.search((tmp_path / "model" / "report.md").read_text())


@pytest.mark.parametrize(
    "more", [(), ("--json",), ("--label", ESCAPE), ("--positive", ESCAPE), ("--debug",), (ESCAPE,)]
)
def test_a_terminal_obeys_nothing_that_audit_shows(hostile, more, tmp_path):
    """In a process of its own, whose standard output has no letters beyond ASCII."""
    path, asked = hostile
    named = tmp_path / f"data{ESCAPE}.parquet"
    named.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "fairboost.cli", "audit", str(named), *asked, "--score"]
    done = subprocess.run(
        [*command, "score", *more], capture_output=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    shown = done.stdout.decode("ascii") + done.stderr.decode("utf-8")
    assert not OBEYED.search(shown)
    assert done.returncode == (2 if more == (ESCAPE,) else 1 if len(more) == 2 else 0)
    if more == ("--json",):
        groups = {rate["group"] for rate in json.loads(done.stdout)["rates"]}
        assert {*HOSTILE.values(), ESCAPE} <= groups


def test_a_name_cannot_pass_for_a_line_of_ours(tmp_path, run):
    said = "x\n3,000 rows; all is well."
    frame = loans(400, seed=0)
    frame = frame.assign(sex=frame["sex"].astype(object).replace({"male": said}), score=0.3)
    frame.to_parquet(tmp_path / "t.parquet")
    words = ("--label", "approved", "--score", "score", "--sensitive", "sex")
    code, out, _ = run("audit", tmp_path / "t.parquet", *words)
    assert code == 0
    assert "sex=x\\n3,000 rows; all is well." in out
    assert not any(line.startswith("3,000 rows") for line in out.splitlines())


def test_spreadsheets_compute_nothing_of_scores(model, tmp_path, run):
    """In CSV; parquet has values as they are, and so has every number."""
    new = loans(60, seed=3)
    texts = ["=cmd|' /C calc'!A0", "@x", "+1+2", "-cmd", "'=1", "-5", "fine"]
    new["id"] = [texts[k % len(texts)] for k in range(60)]
    new = new.rename(columns={"id": "=id"}).assign(change=-1.5)
    new.to_csv(tmp_path / "new.csv", index=False)
    for name in ("scores.csv", "scores.tsv", "scores.parquet"):
        words = ("--keep", "=id", "--keep", "change", "--out", tmp_path / name, "--quiet")
        assert run("predict", model, tmp_path / "new.csv", *words)[0] == 0
    with (tmp_path / "scores.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["'=id", "change"]
    shown = [row[0] for row in rows[:7]]
    assert shown == ["'" + t if t not in ("-5", "fine") else t for t in texts]
    assert rows[0][1] == "-1.5"
    assert (tmp_path / "scores.tsv").read_text().startswith('"\'=id"\t"change"')
    kept = pd.read_parquet(tmp_path / "scores.parquet")
    assert kept["=id"].tolist()[:7] == texts


@pytest.mark.parametrize("link", ["same", "symbolic", "hard"])
def test_what_a_command_reads_is_never_replaced(model, tmp_path, run, link):
    """Not even with --force, nor by another name of the file."""
    data = tmp_path / "new.csv"
    loans(60, seed=3).to_csv(data, index=False)
    before = data.read_bytes()
    out = data if link == "same" else tmp_path / "out.csv"
    if link == "symbolic":
        out.symlink_to(data)
    if link == "hard":
        out.hardlink_to(data)
    code, _, err = run("predict", model, data, "--out", out, "--force")
    assert code == 1
    assert "which the command reads" in err
    assert data.read_bytes() == before


def test_nor_are_a_model_evidence_or_the_folder_of_the_data(model, tmp_path, run):
    own = tmp_path / "table.csv"  # fairboost writes files of that name, so --force would do
    loans(60, seed=3).assign(score=0.4).to_csv(own, index=False)
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    before = {p: p.read_bytes() for p in [*folder.iterdir(), own]}
    asked = ("--label", "approved", "--sensitive", "sex", "--out", tmp_path, "--force")
    link = tmp_path.parent / f"{tmp_path.name}.csv"
    link.symlink_to(own)
    shown = [
        run("predict", folder, own, "--out", folder / "model.json", "--force"),
        run("report", folder, "--out", folder / "evidence.json", "--force"),
        run("report", folder / "evidence.json", "--out", folder / "evidence.json", "--force"),
        run("train", own, *asked), run("train", link, *asked), run("compare", own, *asked),
        run("audit", own, *asked, "--score", "score"),
        run("train", model.parent / "nothing.csv", "--test", own, *asked),
    ]  # fmt: skip
    for code, _, err in shown:
        assert code == 1
        assert "which the command reads" in err
    assert {p: p.read_bytes() for p in before} == before
    assert run("report", folder, "--out", "/dev/null", "--force")[2].endswith("name a file\n")
