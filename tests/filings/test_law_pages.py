"""Every command and every block of ``docs/law/`` runs when pasted, and shows what it prints."""

import re
import shlex
from pathlib import Path

import pytest

from fairboost.cli import main
from fairboost.cli.filings import FORMATS

ROOT = Path(__file__).parents[2]
LAW = ROOT / "docs" / "law"
FEW = ["--option", "n_estimators=10", "--option", "num_leaves=7", "--jobs", "1", "--quiet"]


def blocks(page, language):
    text = (LAW / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(page):
    return [
        shlex.split(line.removeprefix("$ fairboost "))
        for block in blocks(page, "console")
        for line in block.splitlines()
    ]


@pytest.mark.parametrize("page", ["ll144.md", "four_fifths.md"])
def test_a_page_shows_what_its_command_prints(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(page, "python")[0], page, "exec"), {})
    (words,) = commands(page)
    assert main(words) == 0
    (shown,) = blocks(page, "text")
    assert capsys.readouterr().out.rstrip() == shown.rstrip()
    name = page.removesuffix(".md")
    assert (tmp_path / name / f"{name}.html").is_file()


@pytest.mark.parametrize("page", ["annex_iv.md", "model_risk.md"])
def test_a_page_on_models_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made, *more = (block.replace("4_000", "1_500") for block in blocks(page, "python"))
    namespace = {}
    exec(compile(made, page, "exec"), namespace)
    for words in commands(page):
        assert main([*words, *(FEW if words[0] in ("train", "compare") else [])]) == 0, words
    out = capsys.readouterr().out
    (shown,) = blocks(page, "text")
    titles = [
        line for line in shown.splitlines() if re.match("[A-Z0-9]", line) and line[-1] != "."
    ]
    for title in titles:
        if ":" in title or "  " not in title:  # and not a line of a table
            assert title.split(":")[0] in out
    for block in more:
        few = block.replace("LGBMClassifier(", "LGBMClassifier(n_estimators=5, n_jobs=1, ")
        exec(compile(few, page, "exec"), namespace)
        assert (tmp_path / "model_risk_of_the_curve" / "model_risk.html").is_file()


def test_every_format_has_a_page_that_is_linked():
    first = (LAW / "README.md").read_text()
    for name in FORMATS:
        assert f"({name}.md)" in first
        assert (LAW / f"{name}.md").is_file()
        assert f"`{name}`" in (ROOT / "docs" / "cli.md").read_text()
    for page in ("README.md", "docs/cli.md"):
        assert "law/README.md" in (ROOT / page).read_text()


def test_the_first_page_has_a_command_of_every_format():
    """Each is a command of the format's own page, which is run above, with options left out."""
    found = commands("README.md")
    assert [words[words.index("--format") + 1] for words in found] == list(FORMATS)
    for name, words in zip(FORMATS, found, strict=True):
        assert any(set(words) <= set(own) and words[:2] == own[:2]
                   for own in commands(f"{name}.md")), words  # fmt: skip


def test_pages_say_which_text_they_follow():
    said = {"ll144": "5 July 2023", "four_fifths": "44 FR 11996", "annex_iv": "2024/1689",
            "model_risk": "SR 26-2"}  # fmt: skip
    for name, text in said.items():
        assert text in (LAW / f"{name}.md").read_text()
    assert "None of them is legal advice" in (LAW / "README.md").read_text()
