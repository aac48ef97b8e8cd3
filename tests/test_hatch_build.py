"""The compiled part is made on installation, by what compiler there is, or left out."""

import ctypes
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hatch_build

needs_a_compiler = pytest.mark.skipif(
    sys.platform == "win32" or hatch_build.compiler() is None, reason="no compiler of its own here"
)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Compile to another place than the one that is in use, and sooner than the best code."""
    made = tmp_path / hatch_build.LIBRARY.name
    monkeypatch.setattr(hatch_build, "LIBRARY", made)
    monkeypatch.setattr(hatch_build, "OPTIONS", [*hatch_build.OPTIONS, "-O0"])
    return made


@pytest.fixture
def hook(monkeypatch):
    """What hatchling calls, and the warnings that it shows."""
    made = hatch_build.CustomBuildHook.__new__(hatch_build.CustomBuildHook)
    monkeypatch.delenv("FAIRBOOST_BUILD", raising=False)
    monkeypatch.setattr(type(made), "target_name", "wheel", raising=False)
    app = type("App", (), {"said": [], "display_warning": lambda self, s: self.said.append(s)})()
    monkeypatch.setattr(type(made), "app", app, raising=False)
    return made


def build(hook):
    """What the wheel is told to be."""
    data = {"artifacts": [], "pure_python": True}
    hook.initialize("standard", data)
    return data


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(hatch_build.shutil, "which", lambda name: None)


@needs_a_compiler
def test_the_library_is_made_whole_or_not_at_all(elsewhere, monkeypatch):
    hatch_build.compile_library(elsewhere)
    assert ctypes.CDLL(str(elsewhere)).fairboost_has_wide() in (0, 1)
    before = elsewhere.read_bytes()
    monkeypatch.setattr(hatch_build, "SOURCE", elsewhere.with_name("no such file.c"))
    with pytest.raises(SystemExit, match=r"no such file.c could not be compiled by"):
        hatch_build.compile_library(elsewhere)
    assert elsewhere.read_bytes() == before
    assert [p.name for p in elsewhere.parent.iterdir()] == [elsewhere.name]


@needs_a_compiler
def test_a_wheel_with_the_library_is_of_its_platform_and_of_any_python(hook, elsewhere):
    data = build(hook)
    assert data["pure_python"] is False and elsewhere.exists() and not hook.app.said
    assert data["artifacts"] == [f"src/fairboost/kernel/{elsewhere.name}"]
    assert data["tag"] == f"py3-none-{hatch_build.platform_tag(elsewhere)}"
    if sys.platform == "linux":  # what an index takes
        assert data["tag"].split("-")[2].startswith(("manylinux_2_", "musllinux_1_"))


def test_a_compiler_that_is_not_there_is_told(hook, elsewhere, monkeypatch):
    """One that was named is not passed over."""
    monkeypatch.setenv("CC", "no-such-compiler --fast")
    assert hatch_build.compiler() == ["no-such-compiler", "--fast"]
    with pytest.raises(SystemExit, match=r"by no-such-compiler --fast:[\s\S]*ziglang and set CC"):
        build(hook)
    assert not elsewhere.exists()


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_wheel_is_pure_and_says_so(hook, elsewhere):
    assert hatch_build.compiler() is None
    assert "dependencies" not in vars(type(hook))  # nothing is fetched
    assert build(hook) == {"artifacts": [], "pure_python": True}
    assert "without its compiled part (no C compiler found)" in hook.app.said[0]
    assert not elsewhere.exists()


@pytest.mark.usefixtures("no_compiler")
def test_a_release_fails_without_a_compiler(hook, elsewhere, monkeypatch):
    monkeypatch.setenv("FAIRBOOST_BUILD", "require")
    with pytest.raises(SystemExit, match=r"no C compiler found[\s\S]*FAIRBOOST_BUILD=skip"):
        build(hook)
    assert not elsewhere.exists()


def test_the_compiled_part_can_be_left_out(hook, elsewhere, monkeypatch):
    monkeypatch.setenv("FAIRBOOST_BUILD", "skip")
    assert build(hook) == {"artifacts": [], "pure_python": True}
    assert "as FAIRBOOST_BUILD=skip says" in hook.app.said[0] and not elsewhere.exists()
    monkeypatch.setenv("FAIRBOOST_BUILD", "yes")
    with pytest.raises(SystemExit, match="FAIRBOOST_BUILD='yes' is unknown; expected 'auto', 're"):
        build(hook)


def test_nothing_is_compiled_for_an_sdist(hook, elsewhere, monkeypatch):
    monkeypatch.setattr(type(hook), "target_name", "sdist")
    assert build(hook) == {"artifacts": [], "pure_python": True}
    assert not elsewhere.exists() and not hook.app.said


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_stand_in_is_no_compiler(monkeypatch, tmp_path):
    """A bare macOS has a ``cc`` that asks for developer tools; a bare Linux may lack headers."""
    stand_in = tmp_path / "cc"
    stand_in.write_text("#!/bin/sh\nexit 1\n")
    stand_in.chmod(0o755)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hatch_build.shutil.which("cc") and hatch_build.compiler() is None


# Tags


def library(tmp_path, *strings):
    made = tmp_path / "library"
    made.write_bytes(b"\x7fELF\0" + b"".join(s.encode() + b"\0" for s in strings))
    return made


@pytest.mark.parametrize(
    ("platform", "strings", "tag"),
    [
        ("linux-x86_64", ["libc.so.6", "libm.so.6", "GLIBC_2.14"], "manylinux_2_17_x86_64"),
        ("linux-aarch64", ["libc.so.6", "GLIBC_2.17"], "manylinux_2_17_aarch64"),
        ("linux-riscv64", ["libc.so.6", "GLIBC_2.27"], "manylinux_2_27_riscv64"),
        ("linux-x86_64", ["libc.so.6", "GLIBC_2.2.5", "GLIBC_2.29"], "manylinux_2_29_x86_64"),
        ("linux-x86_64", ["libc.so.6", "GLIBC_ABI_DT_RELR"], "manylinux_2_36_x86_64"),
        ("linux-x86_64", ["libc.so.6", "libgomp.so.1", "GLIBC_2.14"], "linux_x86_64"),
        ("linux-x86_64", ["libc.musl-x86_64.so.1"], "musllinux_1_2_x86_64"),
        ("linux-aarch64", ["libc.so"], "musllinux_1_2_aarch64"),
    ],
)
def test_a_wheel_of_linux_is_for_the_c_library_that_it_needs(
    monkeypatch, tmp_path, platform, strings, tag
):
    monkeypatch.setattr(hatch_build.sys, "platform", "linux")
    monkeypatch.setattr(hatch_build.sysconfig, "get_platform", lambda: platform)
    assert hatch_build.platform_tag(library(tmp_path, *strings)) == tag


@pytest.mark.parametrize(
    ("platform", "tag"),
    [("win-amd64", "win_amd64"), ("win-arm64", "win_arm64"), ("win32", "win32")],
)
def test_a_wheel_of_windows(monkeypatch, tmp_path, platform, tag):
    monkeypatch.setattr(hatch_build.sys, "platform", "win32")
    monkeypatch.setattr(hatch_build.sysconfig, "get_platform", lambda: platform)
    assert hatch_build.platform_tag(library(tmp_path)) == tag


@pytest.mark.parametrize(
    ("machine", "told", "tag", "options"),
    [
        ("arm64", {}, "macosx_11_0_arm64", ["11.0", "-arch arm64"]),
        ("x86_64", {}, "macosx_10_13_x86_64", ["10.13", "-arch x86_64"]),
        ("arm64", {"ARCHFLAGS": "-arch x86_64"}, "macosx_10_13_x86_64", ["-arch x86_64"]),
        (
            "arm64",
            {"ARCHFLAGS": "-arch arm64 -arch x86_64", "MACOSX_DEPLOYMENT_TARGET": "10.15"},
            "macosx_10_15_universal2",
            ["10.15", "-arch arm64 -arch x86_64"],
        ),
        ("arm64", {"MACOSX_DEPLOYMENT_TARGET": "12.3"}, "macosx_12_0_arm64", ["12.3"]),
    ],
)
def test_a_wheel_of_macos_is_for_what_is_compiled(
    monkeypatch, tmp_path, machine, told, tag, options
):
    for name in ("ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"CC": "cc", **told}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hatch_build.sys, "platform", "darwin")
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: machine)
    assert hatch_build.platform_tag(library(tmp_path)) == tag

    def compile_it(command, **_):
        Path(command[command.index("-o") + 1]).write_text(" ".join(command))

    monkeypatch.setattr(hatch_build.subprocess, "run", compile_it)
    hatch_build.compile_library(tmp_path / "made")
    for words in options:
        assert words in (tmp_path / "made").read_text()


def test_releases_are_built_for_every_platform():
    told = tomllib.loads((Path(hatch_build.__file__).parent / "pyproject.toml").read_text())
    told = told["tool"]["cibuildwheel"]
    assert told["environment"]["FAIRBOOST_BUILD"] == "require"  # none without its compiled part
    assert told["environment"]["FAIRBOOST_KERNEL"] == "c"  # as tested
    assert told["linux"]["archs"] == ["x86_64", "aarch64"]
    assert told["macos"]["archs"] == ["x86_64", "arm64"]
    assert told["windows"]["archs"] == ["AMD64"]


# The sanitizers


@needs_a_compiler
def test_an_overrun_would_be_caught(tmp_path, monkeypatch):
    """A copy of the loops that writes one row too many, under ``make sanitize``."""
    asan = Path(
        subprocess.run(
            [*hatch_build.compiler(), "-print-file-name=libasan.so"],
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    if not asan.is_absolute() or not asan.exists():
        pytest.skip("no address sanitizer here")
    for name in ("loops.c", "loops_real.h", "loops_numbers.h", "loops_classes.h"):
        text = (hatch_build.PACKAGE / name).read_text()
        right = "for (int i = 0; i < m; i++) ((float *)to)[lo + i] ="
        text = text.replace(right, right.replace("i < m", "i <= m"))
        (tmp_path / name).write_text(text)
    program = (
        "import sys, numpy as np\n"
        "from fairboost.kernel.loops import Loops\n"
        "from fairboost.kernel.threads import Threads\n"
        "n, table = 7, np.ones(1)\n"
        "out = np.zeros(n, 'f4'), np.zeros(n, 'f4')\n"
        "loops = Loops(np.zeros(n, 'u1'), 1, np.zeros(0, 'f4'), *out, 64, Threads())\n"
        "loops.descend(np.zeros(n), 0.0, table, table, np.zeros(1, np.int64), [])\n"
        "print('went on')\n"
    )

    monkeypatch.setattr(hatch_build, "SOURCE", tmp_path / "loops.c")
    hatch_build.compile_library(tmp_path / "library.so", [*hatch_build.SANITIZE, "-O0"])
    told = {"LD_PRELOAD": str(asan), "ASAN_OPTIONS": "detect_leaks=0"}
    told["FAIRBOOST_LIBRARY"] = str(tmp_path / "library.so")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=told
    )  # fmt: skip
    assert done.returncode != 0 and "went on" not in done.stdout
    assert "heap-buffer-overflow" in done.stderr and "write_reals" in done.stderr
