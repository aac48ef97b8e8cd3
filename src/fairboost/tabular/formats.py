"""Which format a file has and how it is packed, told by its name.

::

    people.csv  people.tsv  people.parquet  people.arrow      and .pq, .feather, .ipc
    people.csv.gz  people.arrow.zst                           and .bz2

Parquet packs its columns itself, so a packed parquet file is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from fairboost.exceptions import InvalidInputError

FormatName: TypeAlias = Literal["csv", "parquet", "arrow"]

FORMATS: dict[str, FormatName] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class Format:
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


def format_of(path: Path) -> Format:
    """Tell the format of a file by its name.

    Examples
    --------
    >>> format_of(Path("people.csv.gz"))
    Format(name='csv', packing='gzip', suffix='.csv')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = PACKINGS.get(suffixes[-1]) if suffixes else None
    inner = suffixes[:-1] if packing else suffixes
    name = FORMATS.get(inner[-1]) if inner else None
    if name is None:
        known, packed = ", ".join(FORMATS), ", ".join(PACKINGS)
        raise InvalidInputError(
            f"cannot tell the format of {str(path)!r} by its name; expected one that ends in "
            f"{known}, and perhaps {packed}; rename the file or convert it"
        )
    if name == "parquet" and packing:
        raise InvalidInputError(
            f"{str(path)!r} is a packed parquet file; parquet packs its columns itself and is "
            f"read in pieces, so unpack it first and name {path.stem!r}"
        )
    return Format(name, packing, inner[-1])


def need_arrow() -> None:
    """Raise if pyarrow, an extra, is not installed."""
    if find_spec("pyarrow") is None:
        raise InvalidInputError(
            'reading and writing tables needs pyarrow: pip install "fairboost[data]"'
        )
