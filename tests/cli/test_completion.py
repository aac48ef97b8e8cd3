"""Completion scripts: bash takes its own, and all know what the parser knows."""

import shutil
import subprocess

import pytest

from fairboost.cli import main

SHELLS = ("bash", "fish", "zsh")


def script(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_name_every_command_and_option(shell, capsys):
    text = script(shell, capsys)
    for word in ("train", "audit", "study", "tolerance", "equal_opportunity", "no-trade-off"):
        assert word in text


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_take_them(shell, capsys, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(script(shell, capsys))
    done = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fairboost tr", {"train"}),
        ("fairboost train --tol", {"--tolerance"}),
        (
            "fairboost train d.csv --constraint equal_",
            {
                "equal_opportunity",
                "equal_accuracy",
                "equal_means",
                "equal_errors",
                "equal_distributions",
            },
        ),
        ("fairboost train d.csv --task ", {"classification", "classes", "regression"}),
        ("fairboost compare d.csv --objective po", {"poisson"}),
        ("fairboost completion ", {"bash", "fish", "zsh", "-h", "--help"}),
        ("fairboost audit d", set()),  # files are the shell's own matter
    ],
)
def test_bash_completes(line, expected, capsys, tmp_path):
    (tmp_path / "script").write_text(script("bash", capsys))
    words = line.split(" ")
    run = (
        f'source {tmp_path}/script; COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}"); '
        f'COMP_CWORD={len(words) - 1}; _fairboost; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected
