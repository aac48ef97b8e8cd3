"""Files that are whole or not there: written to a temporary name, and renamed."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairboost.exceptions import MissingFileError, NotAFileError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A name to write to, which takes the place of ``path`` when all went well.

    Raises ``MissingFileError`` where there is no such folder, ``NotAFileError`` where a folder has
    that name. What was there before stays until the new file is complete and on disk.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise MissingFileError(
            f"cannot write {target}: the folder {target.parent} does not exist; make it, or name "
            "another"
        )
    if target.is_dir():
        raise NotAFileError(f"cannot write {target}: it is a folder; name a file in it")
    remove_stale(target)
    # Keep the suffix: some writers choose the file format by it.
    temporary, handle = partial_name(target, target.suffix), -1
    try:
        # Made in here and not by tempfile, so that Ctrl-C finds the file removed at every moment.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        lock(handle)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        open_to_all(temporary, 0o666)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if handle >= 0:
            os.close(handle)


def partial_prefix(target: Path) -> str:
    """How the names begin under which a file or folder is written until it is complete."""
    return f".{target.name}.partial-"


def partial_name(target: Path, suffix: str = "") -> Path:
    """A new name under which to write a file or folder until it is complete."""
    return target.with_name(f"{partial_prefix(target)}{secrets.token_hex(8)}{suffix}")


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed, or the process ends in whatever way.

    False if another holds it, or where the system has no such locks.
    """
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def remove_stale(target: Path) -> None:
    """Remove what runs that were killed have left behind; what is being written is locked."""
    for left in target.parent.glob(f"{glob.escape(partial_prefix(target))}*"):
        with suppress(OSError):  # gone by now, or of another user
            handle = os.open(left, os.O_RDONLY)
            try:
                if lock(handle):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    """Write text in UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def open_to_all(path: Path, mode: int) -> None:
    """Give a temporary file or folder, which is private when made, the usual permissions."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def checksum(content: Any) -> str:
    """The seal on the content of a JSON file, whatever its line breaks and the order of its keys.

    It shows damage and careless edits. Whoever means to change a file can seal it again.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
