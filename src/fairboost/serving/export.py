"""A model in a file format of others: written, read back, compared, and only then kept.

A file that decides otherwise than the model is not written. The rule of decisions, with a checksum
of the file, is in a ``decide.json`` beside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._files import open_to_all, partial_name, remove_stale, whole_file
from fairboost._typing import FloatArray
from fairboost.exceptions import ExportError, MissingFileError
from fairboost.serving import decide_file, onnx_file, stock, treelite_files
from fairboost.serving.rows import in_single
from fairboost.serving.served import Answers, CheckedOn, Served

PROBABILITY_TOLERANCE = 1e-6
"""Probabilities of a file and of the model differ by no more. XGBoost has single precision."""
NUMBER_TOLERANCE = 1e-5
"""Numbers differ by no more than this share of their size."""


@dataclass(frozen=True)
class Format:
    """A format of files.

    Parameters
    ----------
    write : callable
        Writes a model to a path.
    read : callable
        What a reader of the format says of some rows.
    engine : str, optional
        The only engine whose models it holds.
    folder : bool
        Whether it is a folder of files.
    single : bool
        Whether it takes rows as a matrix in single precision, and is compared on such rows.
    """

    write: Callable[[Served, Path], None]
    read: Callable[[Served, Path, CheckedOn], Answers]
    engine: str = ""
    folder: bool = False
    single: bool = False


FORMATS = {
    "lightgbm": Format(stock.write, stock.read, engine="lightgbm"),
    "xgboost": Format(stock.write, stock.read, engine="xgboost"),
    "onnx": Format(onnx_file.write, onnx_file.read),
    "onnx_float32": Format(
        partial(onnx_file.write, matrix=True), partial(onnx_file.read, matrix=True), single=True
    ),
    "treelite": Format(treelite_files.write_checkpoint, treelite_files.read_checkpoint),
    "c": Format(treelite_files.write_source, treelite_files.read_source, folder=True),
}
ENDINGS = {".onnx": "onnx", ".tl": "treelite"}
"""Endings that say the format."""
FOREIGN = {
    ".c", ".cbm", ".csv", ".h5", ".html", ".joblib", ".json", ".keras", ".mlmodel", ".npz",
    ".parquet", ".pb", ".pickle", ".pkl", ".pmml", ".pt", ".pth", ".safetensors", ".skops", ".so",
    ".tflite", ".ubj", ".xml", ".yaml", ".zip",
}  # fmt: skip
"""Endings that say a format other than LightGBM's text, which may have any other ending."""
KNOWN = (
    "'lightgbm' (such as .txt), 'xgboost' (.json), 'onnx' (.onnx), 'onnx_float32', 'treelite' "
    "(.tl) and 'c' (a folder)"
)


def format_named(name: str | None, path: Path, served: Served) -> str:
    """The name of the format, checked; without one the ending says it, else the engine."""
    if name is None:
        name = ENDINGS.get(path.suffix.lower(), served.engine)
        _check_ending(name, path, served)
    if name not in FORMATS:
        raise ExportError(f"unknown format {name!r}, expected one of {', '.join(FORMATS)}")
    needed = FORMATS[name].engine
    if needed and needed != served.engine:
        raise ExportError(
            f"format={name!r} is for models of {name}, and this one was trained by "
            f"{served.engine}; use format={served.engine!r}, or format='onnx'"
        )
    endings = served.trained.file_endings
    if needed and endings and path.suffix not in endings:
        raise ExportError(
            f"the engine finds the format of a model by the ending of its file, expected "
            f"{' or '.join(endings)}, found {str(path)!r}; rename it"
        )
    return name


def _check_ending(name: str, path: Path, served: Served) -> None:
    """Refuse an ending that says another format than the one that would be written."""
    ending = path.suffix.lower()
    if name == served.engine and ending in FOREIGN.difference(served.trained.file_endings):
        raise ExportError(
            f"the ending of {path.name!r} says another format than that of {name}, the engine of "
            f"this model; the formats are {KNOWN}. Choose another ending, or write "
            f"format={name!r} if it is meant; model.save writes what fairboost.load reads"
        )


def export(served: Served, path: Path, name: str, rows: CheckedOn, facts: dict[str, Any]) -> None:
    """Write a model and its ``decide.json``, both or neither.

    Parameters
    ----------
    served : Served
        The model.
    path : Path
        Where to; a folder that is not there yet where the format is a folder.
    name : str
        The format.
    rows : CheckedOn
        What it is tried on.
    facts : dict
        What ``decide.json`` says of the training.
    """
    form = FORMATS[name]
    if form.single:
        rows = in_single(rows)
    if form.folder:
        with new_folder(path) as folder:
            form.write(served, folder)
            check(served, form.read(served, folder, rows), rows, name)
            files = {str(f.relative_to(folder)): f for f in sorted(folder.rglob("*"))}
            text = decide_file.text(served, name, files, facts)
            (folder / decide_file.NAME).write_text(text, encoding="utf-8", newline="\n")
        return
    with whole_file(decide_file.beside(path)) as decide, whole_file(path) as temporary:
        form.write(served, temporary)
        check(served, form.read(served, temporary, rows), rows, name)
        text = decide_file.text(served, name, {path.name: temporary}, facts)
        decide.write_text(text, encoding="utf-8", newline="\n")


def check(served: Served, found: Answers, rows: CheckedOn, name: str) -> None:
    """Raise unless a file says of some rows what the model says."""
    expected = served.expected(rows)
    remedy = (
        "The file was not kept. Use another format, or pass rows of your own as check_on if "
        "these rows cannot occur"
    )
    if expected.labels is None:
        size = _typical_size(expected.values)
        close = np.isclose(
            found.values, expected.values, NUMBER_TOLERANCE, NUMBER_TOLERANCE * size, True
        )
        if not close.all():
            row = int(np.argmin(close))
            raise ExportError(
                f"the {name} file predicts {int((~close).sum()):,} of {len(close):,} rows "
                f"otherwise than the model: row {row} as {found.values[row]:.9g}, the model as "
                f"{expected.values[row]:.9g}. {remedy}"
            )
        return
    other = np.asarray(found.labels) != expected.labels
    if other.any():
        row = int(other.argmax())
        raise ExportError(
            f"the {name} file decides {int(other.sum()):,} of {len(other):,} rows otherwise than "
            f"the model: row {row} as {np.asarray(found.labels)[row]!r} at probabilities "
            f"{found.values[row].tolist()}, the model as {expected.labels[row]!r} at "
            f"{expected.values[row].tolist()}. {remedy}"
        )
    away = float(np.abs(found.values - expected.values).max(initial=0.0))
    if not away <= PROBABILITY_TOLERANCE:
        raise ExportError(
            f"probabilities of the {name} file differ from those of the model by up to "
            f"{away:.3g}, expected at most {PROBABILITY_TOLERANCE:g}. {remedy}"
        )


def _typical_size(numbers: FloatArray) -> float:
    finite = np.abs(numbers[np.isfinite(numbers)])
    return float(np.median(finite)) if finite.size else 0.0


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which gets its name when all went well."""
    if not path.parent.is_dir():
        raise MissingFileError(
            f"cannot write {path}: the folder {path.parent} does not exist; make it, or name "
            "another"
        )
    if path.exists():
        raise ExportError(f"cannot write the folder {path}: it is there already; name another")
    remove_stale(path)
    temporary = partial_name(path)
    try:
        temporary.mkdir(0o700)
        yield temporary
        open_to_all(temporary, 0o777)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
