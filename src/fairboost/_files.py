"""Files that are whole or not there: written to a temporary name, and renamed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairboost.exceptions import ModelFileError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A name to write to, which takes the place of ``path`` when all went well.

    Raises ``ModelFileError`` where there is no such folder. What was there before stays until the
    new file is complete and on disk.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ModelFileError(f"cannot write {target}: the folder {target.parent} does not exist")
    # Keep the suffix: some writers choose the file format by it.
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        open_to_all(temporary, 0o666)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
