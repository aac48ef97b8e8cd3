"""Files that are whole or not there."""

import os
import stat
import sys
from contextlib import contextmanager
from functools import partial

import pytest

from fairboost._files import lock, whole_file, write_text
from fairboost.cli import outputs
from fairboost.exceptions import ModelFileError
from fairboost.serving import export


def test_a_file_takes_its_place_when_it_is_complete(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with whole_file(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert temporary.suffix == ".txt"  # some writers choose the file format by it
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays_if_writing_fails(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), whole_file(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def interrupted_at(k, code):
    """A tracer that raises KeyboardInterrupt before the k-th line of a function is run."""
    lines = iter(range(k + 1))

    def trace(frame, event, _):
        if frame.f_code is not code:
            return None
        if event == "line" and next(lines, None) == k:
            raise KeyboardInterrupt
        return trace

    return trace


def interrupt(k, manager, target, fill):
    """Write to a target, with Ctrl-C at the k-th line of what makes way for it."""
    before = sys.gettrace()
    sys.settrace(interrupted_at(k, manager.__wrapped__.__code__))
    try:
        with manager(target) as temporary:
            fill(temporary)
    finally:
        sys.settrace(before)


def fill_file(path):
    path.write_text("new")


def fill_folder(path):
    (path / "a").write_text("new")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # open files
@pytest.mark.parametrize(
    ("manager", "fill"),
    [
        (whole_file, fill_file),
        (export.new_folder, fill_folder),
        (outputs.new_folder, fill_folder),
    ],
)
def test_ctrl_c_leaves_nothing_half_written_wherever_it_comes(tmp_path, manager, fill):
    if manager is outputs.new_folder:
        manager = contextmanager(partial(manager.__wrapped__, force=True))
        manager.__wrapped__ = outputs.new_folder.__wrapped__
    for k in range(60):
        folder = tmp_path / str(k)
        folder.mkdir()
        target = folder / "a.txt"
        try:
            interrupt(k, manager, target, fill)
        except KeyboardInterrupt:
            assert [p.name for p in folder.iterdir()] in ([], ["a.txt"]), k
            continue
        assert target.exists()
        break
    assert 8 < k < 59  # every line was tried


def test_ctrl_c_while_the_file_is_made_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(path, *options):
        os.close(make(path, *options))
        raise KeyboardInterrupt

    make = os.open
    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "a.txt"):
        pass
    assert not list(tmp_path.iterdir())


def test_permissions_are_those_of_any_new_file(tmp_path):
    write_text(tmp_path / "a", "ä\n")
    (tmp_path / "b").write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    assert modes[0] == modes[1]
    assert (tmp_path / "a").read_bytes() == "ä\n".encode()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"nowhere does not exist"):
        write_text(tmp_path / "nowhere" / "a", "")


def test_what_a_killed_run_left_is_removed_and_what_is_being_written_is_not(tmp_path):
    target = tmp_path / "a[1].csv"
    for name in (".a[1].csv.partial-abc.csv", ".a1.csv.partial-abc.csv", ".a[1].csv.backup"):
        (tmp_path / name).write_text("half")
    with whole_file(target) as other:
        other.write_text("other")
        with whole_file(target) as temporary:
            temporary.write_text("new")
            assert other.exists()
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == [".a1.csv.partial-abc.csv", ".a[1].csv.backup", "a[1].csv"]


def test_a_lock_ends_with_the_file_that_holds_it(tmp_path):
    one, other = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert lock(one)
    assert not lock(other)
    os.close(one)
    assert lock(other)
    os.close(other)
