"""Folders and files that are written whole or not at all.

Everything goes to a temporary name beside the target and is renamed when it is complete, so that
neither Ctrl-C nor a full disk leaves half of something. What is there already is kept unless
``--force`` is given; and even then a folder is replaced only if all it holds is what fairboost
writes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from fairboost._files import lock, open_to_all, partial_name, remove_stale, whole_file
from fairboost.exceptions import InvalidInputError

OUR_FILES = {
    "card.md", "evidence.json", "model.json", "model.txt", "model.txt.decide.json", "report.html",
    "report.md", "schema.json", "stock.json", "stock.json.decide.json", "table.csv",
}  # fmt: skip
"""What commands write into their folders."""
OUR_FILINGS = re.compile(
    r"(ll144|four_fifths|annex_iv|model_risk|monitor)(-\w+)?\.(html|md|json|csv)"
)
"""Likewise, of ``fairboost audit --format`` and ``fairboost monitor``."""


def need_plots() -> None:
    """Raise if matplotlib, an extra that reports need, is not installed."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError('a report needs matplotlib: pip install "fairboost[plots]"')


def check_folder(
    path: Path | None, *, force: bool, inputs: Iterable[Path | None] = (), plots: bool = True
) -> None:
    """Raise if a folder with a report cannot be written: to be called before long work.

    Parameters
    ----------
    path : Path or None
        The folder; None if none is asked for.
    force : bool
        Whether it may be replaced.
    inputs : iterable of Path or None
        What the command reads: it must not be replaced.
    plots : bool, default=True
        Whether there will be pictures in it.
    """
    if path is None:
        return
    if plots:
        need_plots()
    folder = path.resolve()
    for file in filter(None, inputs):
        own = [file] if file.is_dir() else []
        if folder in (*file.absolute().parents, *file.resolve().parents, *map(Path.resolve, own)):
            raise InvalidInputError(
                f"--out {str(path)!r} is the folder of {str(file)!r}, which the command reads and "
                "--force would take away; name another"
            )
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"--out {str(path)!r} is a file; name a folder")
    if path.is_dir() and (held := sorted(p.name for p in path.iterdir())):
        if not force:
            raise InvalidInputError(
                f"the folder {str(path)!r} is not empty; name another with --out, or pass --force "
                "to replace it"
            )
        if foreign := [n for n in held if n not in OUR_FILES and not OUR_FILINGS.fullmatch(n)]:
            raise InvalidInputError(
                f"the folder {str(path)!r} holds {foreign[0]!r}, which fairboost did not write, "
                "so --force does not replace it; name another with --out, or empty it yourself"
            )
    _check_writable(next(parent for parent in path.absolute().parents if parent.exists()))


def check_file(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise if a file cannot be written: to be called before long work.

    Parameters
    ----------
    path : Path
        The file.
    force : bool
        Whether it may be replaced.
    inputs : iterable of Path
        What the command reads: it must not be replaced, nor by another of its names.
    """
    if path.is_dir():
        raise InvalidInputError(f"--out {str(path)!r} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"--out {str(path)!r} is a device; name a file")
    for file in inputs:
        if path.exists() and file.exists() and path.samefile(file):
            raise InvalidInputError(
                f"--out {str(path)!r} is {str(file)!r}, which the command reads; name another file"
            )
    if path.exists() and not force:
        raise InvalidInputError(
            f"the file {str(path)!r} exists; name another with --out, or pass --force to replace "
            "it"
        )
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"the folder {str(path.parent)!r} does not exist; make it, or name another"
        )
    _check_writable(path.absolute().parent)


@contextlib.contextmanager
def new_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """A folder to fill, which takes the place of ``path`` when all went well."""
    check_folder(path, force=force, plots=False)  # who draws has asked for pictures before
    target = path.absolute()
    missing = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(target)
    partial, handle = partial_name(target), -1
    try:
        partial.mkdir(0o700)
        handle = os.open(partial, os.O_RDONLY)
        lock(handle)
        yield partial
        open_to_all(partial, 0o777)
        _swap(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in missing:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise
    finally:
        if handle >= 0:
            os.close(handle)


def fill_folder(options: argparse.Namespace, write: Callable[[Path], object]) -> list[str]:
    """Have the folder of ``--out``, if one is named, filled; returns the names of its files."""
    if options.out is None:
        return []
    with new_folder(options.out, force=options.force) as folder:
        write(folder)
        return sorted(path.name for path in folder.iterdir())


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """A file to fill, which takes the place of ``path`` when all went well."""
    check_file(path, force=force)
    with whole_file(path.absolute()) as partial:
        yield partial


def _swap(partial: Path, target: Path) -> None:
    """Rename, with what was there out of the way until it is done."""
    if not target.exists():
        partial.rename(target)
        return
    if _exchange(partial, target):
        shutil.rmtree(partial, ignore_errors=True)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old-"))
    target.rename(old / target.name)
    try:
        partial.rename(target)
    except BaseException:
        (old / target.name).rename(target)
        old.rmdir()
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, where the system can: a kill finds either in its place."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux
    return rename is not None and not rename(
        here, os.fsencode(one), here, os.fsencode(other), exchange
    )


def _check_writable(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidInputError(f"{str(folder)!r} is not a folder; name another with --out")
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(
            f"the folder {str(folder)!r} may not be written to; name another with --out"
        )
