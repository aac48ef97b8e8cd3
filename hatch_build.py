"""Compiles ``kernel/loops.c`` into a shared library beside it, whenever fairboost is installed.

The library has no need of Python's headers, so any C compiler will do and one library serves all
versions of Python. Where there is no compiler, fairboost is installed without the library, and
NumPy does its work. The environment variable FAIRBOOST_BUILD may say otherwise: ``require`` fails
then, ``skip`` does not compile at all. ``python hatch_build.py`` compiles in place;
``python hatch_build.py --sanitize PATH`` compiles with the sanitizers of addresses and undefined
behaviour, to PATH, and ``--races PATH`` with that of threads.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called by hand

    class BuildHookInterface:  # type: ignore[no-redef]
        """Stands in for hatchling's."""


PACKAGE = Path(__file__).resolve().parent / "src" / "fairboost" / "kernel"
SOURCE = PACKAGE / "loops.c"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")  # as in kernel/library.py
LIBRARY = PACKAGE / f"libloops{SUFFIX}"
# No fast-math: exponentials are rounded by the order of operations. What is allowed is what
# vectorising needs: errors and traps that nobody reads, and fused multiplication and addition.
OPTIONS = ["-O3", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
OPTIONS += ["-fvisibility=hidden", "-Wall", "-Wextra"]
# The first error ends the program.
SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]
SANITIZE += ["-fno-sanitize-recover=all"]
RACES = ["-O1", "-g", "-fsanitize=thread"]
OLDEST_GLIBC = (2, 17)  # of the platform manylinux2014


def compiler() -> list[str] | None:
    """The C compiler of the environment variable CC, or of the machine, if there is one."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    # Windows' own compiler takes other options.
    names = () if sys.platform == "win32" else ("cc", "gcc", "clang")
    return next(([name] for name in names if shutil.which(name) and _works(name)), None)


def _works(name: str) -> bool:
    """Whether it is a compiler with headers, and not a stand-in as on a bare macOS."""
    told = [name, "-E", "-x", "c", "-"]
    done = subprocess.run(told, input=b"#include <string.h>\n", capture_output=True)
    return done.returncode == 0


def compile_library(library: Path, further: Sequence[str] = ()) -> None:
    """Compile to a temporary name, and rename."""
    command = compiler()
    remedy = (
        "Set the environment variable CC to a C compiler that takes the options of GCC, or "
        'install ziglang and set CC="python -m ziglang cc". FAIRBOOST_BUILD=skip does without '
        "the compiled part: NumPy does its work, and training takes longer."
    )
    if command is None:
        raise SystemExit(f"{SOURCE.name} could not be compiled: no C compiler found.\n{remedy}")
    made = library.with_name(f"{library.name}.{os.getpid()}")
    options = [*OPTIONS, *further]
    if sys.platform == "darwin":
        oldest, processors = _mac()
        options += [f"-mmacosx-version-min={oldest}"]
        options += [word for name in processors for word in ("-arch", name)]
    if sys.platform != "win32":
        options += ["-fPIC"]
    try:
        subprocess.run(
            [*command, *options, "-o", str(made), str(SOURCE)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        raise SystemExit(
            f"{SOURCE.name} could not be compiled by {shlex.join(command)}:\n{said}\n{remedy}"
        ) from error
    made.replace(library)


def _mac() -> tuple[str, list[str]]:
    """The oldest macOS that is compiled for, and its processors."""
    named = [word for word in os.environ.get("ARCHFLAGS", "").split() if word != "-arch"]
    named = named or [platform.machine()]
    oldest = "11.0" if named == ["arm64"] else "10.13"  # no older one runs on arm64
    return os.environ.get("MACOSX_DEPLOYMENT_TARGET", oldest), named


def platform_tag(library: Path) -> str:
    """The platform that a wheel with this library is for, in the words of package indexes."""
    if sys.platform == "darwin":
        oldest, named = _mac()
        major, minor = (*oldest.split("."), "0")[:2]
        minor = "0" if int(major) > 10 else minor  # tags of later ones have none
        return f"macosx_{major}_{minor}_{'universal2' if len(named) > 1 else named[0]}"
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if sys.platform != "linux":
        return here
    machine, code = here.removeprefix("linux_"), library.read_bytes()
    linked = set(re.findall(rb"(?<=\0)lib[\w.+-]+\.so[.\w]*(?=\0)", code))
    if any(re.match(rb"lib[cm]\.", name) is None for name in linked):
        return here  # it needs more than the C library: no index takes it
    if any(name == b"libc.so" or b"musl" in name for name in linked):
        return f"musllinux_1_2_{machine}"
    # What glibc it needs is written in the names of its symbols: memcpy@GLIBC_2.14.
    needed = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", code)]
    if b"GLIBC_ABI_DT_RELR" in code:  # a format of relocations that older ones do not read
        needed.append((2, 36))
    first, second = max([OLDEST_GLIBC, *needed])
    return f"manylinux_{first}_{second}_{machine}"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is of this platform and of any Python."""
        wanted = os.environ.get("FAIRBOOST_BUILD", "auto")
        if wanted not in ("auto", "require", "skip"):
            raise SystemExit(
                f"FAIRBOOST_BUILD={wanted!r} is unknown; expected 'auto', 'require' or 'skip'"
            )
        if self.target_name == "sdist":
            return
        if wanted == "skip" or (wanted == "auto" and compiler() is None):
            why = "as FAIRBOOST_BUILD=skip says" if wanted == "skip" else "no C compiler found"
            self.app.display_warning(
                f"fairboost is built without its compiled part ({why}): NumPy does its work, and "
                "training takes longer"
            )
            return
        compile_library(LIBRARY)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(LIBRARY)}"
        build_data["artifacts"].append(f"src/fairboost/kernel/{LIBRARY.name}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sanitize"]:
        compile_library(Path(sys.argv[2]), SANITIZE)
    elif sys.argv[1:2] == ["--races"]:
        compile_library(Path(sys.argv[2]), RACES)
    else:
        compile_library(LIBRARY)
