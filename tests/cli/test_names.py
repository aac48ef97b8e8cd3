"""Names and values of the data that mean something to a terminal, a plot or a spreadsheet."""

import json
import os
import re
import subprocess
import sys

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
