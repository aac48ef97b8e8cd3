"""Folders and files are written whole or not at all, and never over what is there."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import termios
import time

import pytest

from fairboost._files import checksum
from fairboost.cli import main, outputs
from fairboost.exceptions import InvalidInputError
from tests.loan_files import ASKED, QUICK, loans

COMMAND = [sys.executable, "-m", "fairboost.cli"]


def held(folder):
    return sorted(path.name for path in folder.iterdir())


def start(*words, **options):
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE} | options
    return subprocess.Popen([*COMMAND, *map(str, words)], **pipes)


def read_until(terminal, mark):
    """Read what a process writes to a terminal until something is there."""
    seen = b""
    while mark not in seen:
        piece = os.read(terminal, 4096)
        assert piece, f"ended before {mark!r}: {seen!r}"
        seen += piece
    return seen


@pytest.mark.parametrize(
    ("sign", "code", "word"),
    [(signal.SIGINT, 130, b"fairboost: interrupted"), (signal.SIGTERM, 143, b"")],
)
def test_ctrl_c_in_mid_training_leaves_nothing(data, tmp_path, sign, code, word):
    words = ("--jobs", "1", "--option", "n_estimators=100000", "--out", tmp_path / "m")
    terminal, stderr = os.openpty()  # there are bars on a terminal only
    termios.tcsetwinsize(stderr, (24, 99))
    process = start("train", data, *ASKED, *words, stderr=stderr)
    os.close(stderr)
    seen = read_until(terminal, b"round/s]")  # the bar has moved: it is training
    process.send_signal(sign)
    out, _ = process.communicate(timeout=60)
    with contextlib.suppress(OSError):  # the end of what a terminal shows
        while piece := os.read(terminal, 4096):
            seen += piece
    os.close(terminal)
    assert process.returncode == code
    assert word in seen
    assert b"Traceback" not in seen
    assert out == b""
    assert held(tmp_path) == []


def test_ctrl_c_before_anything_is_loaded(tmp_path):
    """Ctrl-C while the parts of the command are imported is a short message too."""
    (tmp_path / "pyarrow.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    process = start("audit", "--help", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"fairboost: interrupted\n")


CAUGHT = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.{name})
    time.sleep(5)
except BaseException as error:
    raise ImportError("multiarray failed to import") from error
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("module", ["pyarrow", "lightgbm"])
def test_a_signal_that_what_is_imported_takes_for_a_fault(data, tmp_path, module, name, code):
    """Some packages catch whatever comes while they are imported, and raise something else."""
    (tmp_path / f"{module}.py").write_text(CAUGHT.format(name=name))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    words = (*ASKED, *QUICK, "--out", tmp_path / "m")
    process = start("train", data, *words, env={**os.environ, "PYTHONPATH": path})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert err.strip() in (b"", b"fairboost: interrupted")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_process_ends(name):
    code = (
        "import atexit, os, signal, sys\n"
        "from fairboost.cli import main\n"
        f"atexit.register(lambda: os.kill(os.getpid(), signal.{name}))\n"
        "sys.argv = ['fairboost', '--version']\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"fairboost ")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_a_function_that_c_has_called(name):
    """ctypes drops what is raised there, and shows it; the signal is raised again after it."""
    code = (
        "import ctypes, os, signal, time\n"
        "from fairboost.cli import signals\n"
        f"called = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.{name}))\n"
        "signals.raise_them()\n"
        "try:\n    called()\n    time.sleep(30)\n"
        "except (KeyboardInterrupt, SystemExit): print(signals.came())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert int(done.stdout) == 128 + getattr(signal, name)


def test_a_signal_that_is_ignored_stays_ignored():
    """As nohup and shells ask for."""
    code = (
        "import os, signal\n"
        "from fairboost.cli import signals\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signals.end_at_once()\nsignals.raise_them()\n"
        "os.kill(os.getpid(), signal.SIGINT)\nprint('on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"on", b"")


def test_what_a_killed_run_left_is_taken_away_by_the_next(tmp_path):
    target = tmp_path / "m"
    stale = tmp_path / ".m.partial-abc"
    stale.mkdir()
    (stale / "model.json").write_text("half")
    with outputs.new_folder(target, force=False) as folder:
        (folder / "report.md").write_text("1")
        with outputs.new_folder(tmp_path / "m", force=False) as other:  # at the same time
            (other / "report.md").write_text("2")
            assert folder.exists()
    assert (target / "report.md").read_text() == "1"
    assert held(tmp_path) == ["m"]


@pytest.mark.parametrize("words", [["--help"], ["audit", "s.csv", "--label", "y", "--score", "p",
                                                  "--sensitive", "s", "--quiet"]])  # fmt: skip
def test_what_needs_no_engine_does_not_wait_for_one(words, tmp_path):
    (tmp_path / "s.csv").write_text("y,p,s\n" + "1,0.7,a\n0,0.2,b\n0,0.6,a\n1,0.4,b\n" * 50)
    code = (
        "import sys; from fairboost.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'lightgbm', 'xgboost', 'matplotlib'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr[-300:]) == (0, b"")
    assert done.stdout


def test_ctrl_c_while_scoring_leaves_nothing(model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    process = start("predict", model, long_table(tmp_path), "--out", out / "scores.csv")
    while not held(out) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert held(out) == []


def long_table(folder):
    """A table that takes seconds to score."""
    head, body = loans(5_000, seed=9).to_csv(index=False).split("\n", 1)
    path = folder / "long.csv"
    with path.open("w") as file:
        file.write(f"{head}\n")
        for _ in range(200):
            file.write(body)
    return path


@contextlib.contextmanager
def tiny_disk(folder, size):
    """A file system of a few pages, where the user may mount one."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        check=False, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
def test_a_full_disk(data, model, scored, tmp_path, run):
    with tiny_disk(tmp_path / "disk", "64k") as disk:
        words = ("train", data, *ASKED, *QUICK, "--no-trade-off", "--out", disk / "m")
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert "the disk is full; free some space" in err
        assert held(disk) == []
        new = scored.parent / "new.parquet"
        code, _, err = run("predict", model, new, "--keep", "id", "--out", disk / "s.csv")
        assert code == 1
        assert "the disk is full" in err
        assert held(disk) == []


def test_a_file_that_may_not_grow(data, tmp_path):
    """What a quota or a limit of the shell does, and a full disk where nothing can be mounted."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    words = (*ASKED, *QUICK, "--no-trade-off", "--out", tmp_path / "m")
    process = start("train", data, *words, preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"larger than the system allows" in err
    assert b"Traceback" not in err
    assert held(tmp_path) == []


def test_what_is_there_is_kept_without_force(data, scored, model, tmp_path, run):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.html").write_text("mine")
    code, _, err = run("train", data, *ASKED, *QUICK, "--out", mine)
    assert code == 1
    assert "is not empty; name another with --out, or pass --force" in err
    code, _, err = run("train", data, *ASKED, *QUICK, "--out", mine / "report.html")
    assert "is a file; name a folder" in err
    code, _, err = run("predict", model, scored.parent / "new.parquet", "--out", scored)
    assert "exists; name another with --out, or pass --force" in err
    assert held(mine) == ["report.html"]
    assert (mine / "report.html").read_text() == "mine"


def test_force_replaces_what_fairboost_wrote_and_nothing_else(scored, tmp_path, run):
    out = tmp_path / "audit"
    words = ("audit", scored, "--label", "approved", "--score", "score", "--sensitive", "sex")
    words = (*words, "--quiet", "--out", out)
    assert run(*words)[0] == 0
    (out / "card.md").write_text("old")
    assert run(*words, "--force")[0] == 0
    assert held(out) == ["evidence.json", "report.html", "report.md"]
    (out / "thesis.tex").write_text("years of work")
    code, _, err = run(*words, "--force")
    assert code == 1
    assert "holds 'thesis.tex', which fairboost did not write" in err
    assert (out / "thesis.tex").exists()
    assert held(tmp_path) == ["audit"]


def test_a_folder_takes_its_place_only_when_it_is_whole(tmp_path):
    target = tmp_path / "a" / "b"
    with pytest.raises(RuntimeError), outputs.new_folder(target, force=False) as folder:
        (folder / "report.md").write_text("half")
        raise RuntimeError
    assert held(tmp_path) == []
    with outputs.new_folder(target, force=False) as folder:
        (folder / "report.md").write_text("whole")
        assert not target.exists()
    assert (target / "report.md").read_text() == "whole"


def test_what_was_there_comes_back_if_the_new_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "a"
    with outputs.new_folder(target, force=False) as folder:
        (folder / "report.md").write_text("old")
    rename = outputs.Path.rename

    def fails_once(self, to):
        if "partial" in self.name:
            raise OSError("no")
        return rename(self, to)

    monkeypatch.setattr(outputs, "_exchange", lambda *_: False)  # as on other systems
    monkeypatch.setattr(outputs.Path, "rename", fails_once)
    with pytest.raises(OSError, match="no"), outputs.new_folder(target, force=True) as folder:
        (folder / "report.md").write_text("new")
    assert (target / "report.md").read_text() == "old"
    assert held(tmp_path) == ["a"]


def test_folders_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="is not a folder"):
        outputs.check_folder(tmp_path / "file" / "m", force=False)
    with pytest.raises(InvalidInputError, match="does not exist; make it"):
        outputs.check_file(tmp_path / "no" / "s.csv", force=False)
    with pytest.raises(InvalidInputError, match="is a folder; name a file"):
        outputs.check_file(tmp_path, force=False)
    monkeypatch.setattr(outputs.os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InvalidInputError, match="may not be written to"):
        outputs.check_folder(tmp_path / "m", force=False)


def test_nothing_is_trained_before_the_folder_is_looked_at(tmp_path, data, monkeypatch):
    def trained(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("fairboost.cli.models.fit", trained)
    (tmp_path / "x").write_text("x")
    assert main(["train", str(data), *ASKED, *QUICK, "--out", str(tmp_path)]) == 1


@pytest.mark.parametrize("with_seal_of_another", [False, True])
def test_a_schema_that_was_edited_does_not_turn_decisions_round(
    data, model, tmp_path, run, with_seal_of_another
):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    file = folder / "schema.json"
    content = json.loads(file.read_text())
    content["classes"].reverse()
    if with_seal_of_another:  # a sound schema, of a model for the other label
        content["model_sha256"] = "0" * 64
        head = ("format", "format_version", "sha256")
        content["sha256"] = checksum({k: v for k, v in content.items() if k not in head})
    file.write_text(json.dumps(content))
    code, out, err = run("predict", folder, data, "--out", tmp_path / "scores.csv")
    assert (code, out) == (1, "")
    assert ("belongs to another model" if with_seal_of_another else "its checksum") in err
    assert held(tmp_path) == ["model"]
