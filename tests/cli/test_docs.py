"""Every command in the docs, in the README and on the help pages is run."""

import re
import shlex
from pathlib import Path

import pytest

from fairboost.cli import main
from fairboost.cli.dispatch import build_parser
from fairboost.cli.exits import EXIT_CODES
from fairboost.datasets import make_loans
from tests.loan_files import loans

ROOT = Path(__file__).parents[2]
PAGES = {"docs/cli.md": 20, "docs/ratios.md": 3, "docs/quickstart.md": 1, "README.md": 1}
FEW = ["--option", "n_estimators=15", "--option", "num_leaves=7", "--jobs", "1", "--quiet"]


def commands(text):
    joined = text.replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^\$ fairboost (.*)$", joined, re.MULTILINE)]


def run(words):
    trained = words[0] in ("train", "compare")
    return main([*words, *(FEW if trained else [])])


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run_when_pasted(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = [block for block in blocks if "loans.csv" in block]
    if shown:
        (block,) = shown
        names = dict.fromkeys(["train", "loans"], make_loans(2_000, seed=0))
        exec(compile(block.replace("8_000", "2_000"), page, "exec"), names)
    else:
        assert "that write `loans.csv`" in text
        loans(2_000, seed=0).to_csv("loans.csv", index=False)
    found = commands(text)
    assert len(found) == PAGES[page]
    for words in found:
        assert run(words) in (0, 3), words
        assert capsys.readouterr().out


def test_examples_of_help_pages_run_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("loans.csv", 0), ("new.csv", 1)):
        loans(2_000, seed).to_csv(name, index=False)
    for command in ("train", "predict", "export", "audit", "compare", "report"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        page = capsys.readouterr().out.replace("\\\n", " ")
        (line,) = re.findall(r"^  fairboost (.*)$", page.split("example:")[1], re.MULTILINE)
        assert run(shlex.split(line)) in (0, 3), line


def test_the_page_on_monitoring_runs_when_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/monitoring.md").read_text().replace("\\\n", " ")
    blocks = re.findall(r"```(python|console)\n(.*?)```", text, re.DOTALL)
    namespace, ended = {}, []
    for kind, block in blocks:
        if kind == "python":
            small = block.replace("8_000", "3_000")
            exec(compile(small, "monitoring.md", "exec"), namespace)
        else:
            ended += [(words[0], run(words)) for words in commands(block)]
    assert ended == [("train", 0), ("predict", 0), ("monitor", 0), ("monitor", 3)]
    said = capsys.readouterr().err
    assert "false negative rate of sex=female: has certainly changed since 2026-09" in said
    assert namespace["low"].round(3).tolist() == [0.087, 0.158, 0.186]
    assert namespace["high"].round(3).tolist() == [0.358, 0.246, 0.214]


def test_the_page_names_every_command_and_exit_code():
    text = (ROOT / "docs/cli.md").read_text()
    (choices,) = (
        a.choices for a in build_parser()._actions if a.dest == "==SUPPRESS==" or a.choices
    )
    for name in choices:
        assert f"`fairboost {name}`" in text
    for code in EXIT_CODES:
        assert f"| {code} |" in text
