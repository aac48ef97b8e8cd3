"""Tables that stay on disk: features are read a batch at a time, single columns as a whole.

For data larger than memory, on one machine. Labels, groups and scores are one number for each row
and stay in memory; features are many, and do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairboost._typing import Float32Array, IntArray
from fairboost.exceptions import InvalidInputError

BATCH = 65_536
"""Rows to read at a time."""


class ParquetRows:
    """Features in parquet files, to be handed to ``fit`` and ``predict`` as X (XGBoost only).

    Parameters
    ----------
    path : str or Path
        A file, or a folder of files with the same columns.
    leave_out : sequence of str
        Columns that are not features: the label, sensitive columns, identifiers.
    cache : str or Path, optional
        A folder on a disk with room for the binned features, about a byte for each value, while a
        model is trained; by default the folder for temporary files.

    Examples
    --------
    >>> import tempfile
    >>> frame = pd.DataFrame({"income": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"], "y": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/part.parquet")
    ...     rows = ParquetRows(folder, leave_out=["sex", "y"])
    ...     rows.shape, rows.columns, rows.column("sex").tolist()
    ((3, 1), ['income'], ['f', 'm', 'f'])
    """

    def __init__(
        self, path: str | Path, leave_out: Sequence[str] = (), cache: str | Path | None = None
    ) -> None:
        if find_spec("pyarrow") is None:
            raise ImportError('reading parquet files needs pyarrow: pip install "fairboost[data]"')
        from pyarrow import dataset, types

        self.cache = cache
        self._files: Any = dataset.dataset(str(path), format="parquet")
        schema = self._files.schema
        unknown = [name for name in leave_out if name not in schema.names]
        if unknown:
            raise InvalidInputError(
                f"leave_out names the column {unknown[0]!r}, but {str(path)!r} has "
                f"{', '.join(schema.names)}"
            )
        self.columns = [name for name in schema.names if name not in leave_out]
        for name in self.columns:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise InvalidInputError(
                    f"the column {name!r} of {str(path)!r} holds {kind}, expected numbers; leave "
                    "it out, or write it as codes"
                )
        self.shape = (int(self._files.count_rows()), len(self.columns))

    def __len__(self) -> int:
        return self.shape[0]

    def column(self, name: str) -> np.ndarray:
        """One column, such as the label, as an array.

        Parameters
        ----------
        name : str
            The column; one that is left out of the features, as a rule.
        """
        found: np.ndarray = self._files.to_table(columns=[name])[name].to_numpy()
        return found

    def batches(self) -> Iterator[Float32Array]:
        """The features of all rows in order, some rows at a time; missing values are NaN."""
        from pyarrow.parquet import ParquetFile

        for path in self._files.files:
            # Not by the data set itself, which reads several files ahead.
            with ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH, columns=self.columns, use_threads=False):
                    out = np.empty((batch.num_rows, len(self.columns)), np.float32)
                    for k, name in enumerate(self.columns):
                        out[:, k] = batch[name].to_numpy(zero_copy_only=False)
                    if len(out):
                        yield out

    def __getitem__(self, rows: IntArray) -> pd.DataFrame:
        """Some rows, in the order given, in memory."""
        rows = np.asarray(rows)
        out = np.empty((len(rows), len(self.columns)), np.float32)
        start = 0
        for batch in self.batches():
            here = (rows >= start) & (rows < start + len(batch))
            out[here] = batch[rows[here] - start]
            start += len(batch)
        return pd.DataFrame(out, columns=self.columns)
