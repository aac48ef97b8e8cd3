"""Which format a file has and how it is packed, told by its name; and writers of each format.

::

    people.csv  people.tsv  people.parquet  people.arrow      and .pq, .feather, .ipc
    people.csv.gz  people.arrow.zst                           and .bz2

Parquet packs its columns itself, so a packed parquet file is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyarrow import csv, parquet

from fairboost.exceptions import InvalidInputError

FormatName: TypeAlias = Literal["csv", "parquet", "arrow"]

ENDINGS: dict[FormatName, tuple[str, ...]] = {
    "csv": (".csv", ".tsv", ".txt"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
FORMATS = {ending: name for name, endings in ENDINGS.items() for ending in endings}
PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class TableFormat:
    """How a table is laid out in a file.

    Parameters
    ----------
    name : {"csv", "parquet", "arrow"}
        The format.
    packing : {"gzip", "zstd", "bz2"} or None
        What the file as a whole is packed with, by Arrow's name.
    suffix : str
        How the name of the file ends, packing left out.
    """

    name: FormatName
    packing: str | None
    suffix: str


def format_of(path: Path) -> TableFormat:
    """Tell the format of a file by its name.

    Examples
    --------
    >>> format_of(Path("people.csv.gz"))
    TableFormat(name='csv', packing='gzip', suffix='.csv')
    """
    *before, suffix = ["", *(ending.lower() for ending in path.suffixes)]
    packing = PACKINGS.get(suffix)
    if packing:
        suffix = before[-1]
    if suffix not in FORMATS:
        known, packed = ", ".join(FORMATS), ", ".join(PACKINGS)
        raise InvalidInputError(
            f"cannot tell the format of {str(path)!r} by its name; expected one that ends in "
            f"{known}, and perhaps {packed}; rename the file or convert it"
        )
    if FORMATS[suffix] == "parquet" and packing:
        raise InvalidInputError(
            f"{str(path)!r} is a packed parquet file; parquet packs its columns itself and is "
            f"read in pieces, so unpack it first and name {path.stem!r}"
        )
    return TableFormat(FORMATS[suffix], packing, suffix)


@contextlib.contextmanager
def table_writer(path: Path, form: TableFormat, schema: Any) -> Iterator[Any]:
    """A writer with ``write_batch``.

    Parameters
    ----------
    path : Path
        Where to write, perhaps under a temporary name.
    form : TableFormat
        The format, as :func:`format_of` tells it by the final name.
    schema : pyarrow.Schema
        The columns.
    """
    with contextlib.ExitStack() as stack:
        if form.name == "parquet":
            yield stack.enter_context(parquet.ParquetWriter(path, schema))
            return
        sink: Any = stack.enter_context(pa.OSFile(str(path), "wb"))
        if form.packing is not None:
            sink = stack.enter_context(pa.CompressedOutputStream(sink, form.packing))
        if form.name == "arrow":
            yield stack.enter_context(pa.ipc.new_file(sink, schema))
            return
        delimiter = "\t" if form.suffix == ".tsv" else ","
        options = csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
        yield stack.enter_context(csv.CSVWriter(sink, schema, write_options=options))
