"""Files that are whole or not there."""

import os
import stat

import pytest

from fairboost._files import lock, whole_file, write_text
from fairboost.exceptions import ModelFileError


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
