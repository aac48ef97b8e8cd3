"""Compiles ``kernel/loops.c`` into a shared library beside it, whenever fairboost is installed.

The library has no need of Python's headers, so any C compiler will do and one library serves all
versions of Python. Where there is no compiler, that of the package ``ziglang`` is fetched for the
time of the build. ``python hatch_build.py`` compiles in place.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called by hand

    class BuildHookInterface:  # type: ignore[no-redef]
        """Stands in for hatchling's."""


PACKAGE = Path(__file__).resolve().parent / "src" / "fairboost" / "kernel"
SOURCE = PACKAGE / "loops.c"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")  # as in kernel/loops.py
LIBRARY = PACKAGE / f"libloops{SUFFIX}"
# No fast-math: exponentials are rounded by the order of operations. What is allowed is what
# vectorising needs: errors and traps that nobody reads, and fused multiplication and addition.
OPTIONS = ["-O3", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
OPTIONS += ["-fvisibility=hidden", "-Wall", "-Wextra"]


def compiler() -> list[str] | None:
    """The C compiler of the environment variable CC, or of the machine, if there is one."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    # Windows' own compiler takes other options.
    names = () if sys.platform == "win32" else ("cc", "gcc", "clang")
    return next(([name] for name in names if shutil.which(name)), None)


def compile_library() -> None:
    """Compile to a temporary name, and rename."""
    command = compiler() or [sys.executable, "-m", "ziglang", "cc"]
    made = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
    options = OPTIONS if sys.platform == "win32" else [*OPTIONS, "-fPIC"]
    try:
        subprocess.run(
            [*command, *options, "-o", str(made), str(SOURCE)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        raise SystemExit(
            f"{SOURCE.name} could not be compiled by {shlex.join(command)}:\n{said}\n"
            "Set the environment variable CC to a C compiler that takes the options of GCC, or "
            'install ziglang and set CC="python -m ziglang cc".'
        ) from error
    made.replace(LIBRARY)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls."""

    def dependencies(self) -> list[str]:
        """A compiler, where there is none."""
        return [] if compiler() or self.target_name == "sdist" else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is of this platform and of any Python."""
        if self.target_name == "sdist":
            return
        compile_library()
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"src/fairboost/kernel/{LIBRARY.name}")


if __name__ == "__main__":
    compile_library()
