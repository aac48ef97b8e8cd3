"""Tables written batch by batch, in the format that the name of the file says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairboost.tabular.formats import Format, need_arrow


@contextlib.contextmanager
def table_writer(path: Path, form: Format, schema: Any) -> Iterator[Any]:
    """A writer with ``write_batch``.

    Parameters
    ----------
    path : Path
        Where to write, perhaps under a temporary name.
    form : Format
        The format, as :func:`fairboost.tabular.formats.format_of` tells it by the final name.
    schema : pyarrow.Schema
        The columns.
    """
    need_arrow()
    import pyarrow as pa
    from pyarrow import csv, parquet

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
