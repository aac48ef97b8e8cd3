"""The compiled part is made on installation, by what compiler there is."""

import ctypes
import sys

import pytest

import hatch_build

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or hatch_build.compiler() is None, reason="no compiler of its own here"
)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Compile to another place than the one that is in use."""
    made = tmp_path / hatch_build.LIBRARY.name
    monkeypatch.setattr(hatch_build, "LIBRARY", made)
    return made


def test_the_library_is_made_whole_or_not_at_all(elsewhere, monkeypatch):
    hatch_build.compile_library()
    assert ctypes.CDLL(str(elsewhere)).fairboost_has_wide() in (0, 1)
    before = elsewhere.read_bytes()
    monkeypatch.setattr(hatch_build, "SOURCE", elsewhere.with_name("no such file.c"))
    with pytest.raises(SystemExit, match=r"no such file.c could not be compiled by"):
        hatch_build.compile_library()
    assert elsewhere.read_bytes() == before
    assert [p.name for p in elsewhere.parent.iterdir()] == [elsewhere.name]


def test_a_compiler_that_is_not_there_is_told(elsewhere, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler --fast")
    assert hatch_build.compiler() == ["no-such-compiler", "--fast"]
    with pytest.raises(SystemExit, match=r"by no-such-compiler --fast:[\s\S]*ziglang and set CC"):
        hatch_build.compile_library()
    assert not elsewhere.exists()


def test_without_a_compiler_one_is_fetched_for_the_build(monkeypatch):
    hook = hatch_build.CustomBuildHook.__new__(hatch_build.CustomBuildHook)
    monkeypatch.setattr(type(hook), "target_name", "wheel", raising=False)
    assert hook.dependencies() == []
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(hatch_build.shutil, "which", lambda name: None)
    assert hatch_build.compiler() is None
    assert [r.split(">")[0] for r in hook.dependencies()] == ["ziglang"]
    monkeypatch.setattr(type(hook), "target_name", "sdist", raising=False)
    assert hook.dependencies() == []
