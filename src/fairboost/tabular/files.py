"""Tables in files, read whole or in record batches that fit into memory, and written in batches.

CSV, parquet, Arrow (IPC files and streams, feather) and Excel, which is read and not written. The
name of a file tells its format and how it is packed; parquet and Excel pack their content
themselves, so that a packed file of these is refused::

    people.csv  people.tsv  people.parquet  people.arrow      and .pq, .feather, .ipc
    people.xlsx                                               read whole, see excel.py
    people.csv.gz  people.arrow.zst                           and .bz2

All that can be wrong with a file raises here, with the name of the file and a remedy.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from csv import Error as CsvError
from csv import reader as read_csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from fairboost._text import FORMULA, SIGNED_NUMBER, did_you_mean
from fairboost.exceptions import InvalidInputError
from fairboost.tabular.excel import read_workbook

FormatName: TypeAlias = Literal["csv", "parquet", "arrow", "excel"]

ENDINGS: dict[FormatName, tuple[str, ...]] = {
    "csv": (".csv", ".tsv", ".txt"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "excel": (".xlsx",),
}
FORMATS = {ending: name for name, endings in ENDINGS.items() for ending in endings}
PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

BATCH_ROWS = 2**18
"""Rows of a batch: 20 columns of 8 bytes are 40 MB."""
CSV_BLOCK = 8 * 2**20
TOO_LONG = (
    f"has a row of more than {CSV_BLOCK // 2**20} MB, because of a quote that is not closed; "
    "correct that row, or write the table as parquet"
)
MOST_COLUMNS = 100_000
"""More are no table that a model is trained on: as a rule the delimiter is another."""
LONG_NAME = 60
"""Letters of a name that a message shows."""
DELIMITERS = (",", ";", "\t", "|")
"""Tried in this order where the user names none."""
ARROW_MAGIC = b"ARROW1"
ARROW_START = 8
"""Bytes of it with its padding."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""


@dataclass(frozen=True)
class TableFormat:
    """How a table is laid out in a file.

    Parameters
    ----------
    name : {"csv", "parquet", "arrow", "excel"}
        The format.
    packing : {"gzip", "zstd", "bz2"} or None
        What the file as a whole is packed with, by Arrow's name.
    suffix : str
        How the name of the file ends, packing left out.
    """

    name: FormatName
    packing: str | None
    suffix: str


def format_of(path: Path, *, written: bool = False) -> TableFormat:
    """Tell the format of a file by its name.

    Parameters
    ----------
    path : Path
        The file.
    written : bool, default=False
        Whether the file is to be written, and not read.

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
    if FORMATS[suffix] == "excel" and written:
        raise InvalidInputError(
            f"{str(path)!r} would be an Excel workbook, which is read and not written; name a "
            "file that ends in .csv or .parquet"
        )
    if FORMATS[suffix] in ("parquet", "excel") and packing:
        raise InvalidInputError(
            f"{str(path)!r} is a packed {suffix} file, which packs its content itself; unpack the "
            f"file first and name {path.stem!r}"
        )
    return TableFormat(FORMATS[suffix], packing, suffix)


@dataclass(frozen=True)
class ReadOptions:
    """How CSV files and workbooks are to be read; other formats say it themselves.

    Parameters
    ----------
    encoding : str
        Encoding of the text.
    delimiter : str, optional
        What separates fields; guessed from the header if left out.
    missing : tuple of str
        Spellings of a missing value, beside the usual ones (empty, NA, NaN, null and so on).
    sheet : str, optional
        The sheet of an Excel workbook; the first one if left out.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    missing: tuple[str, ...] = ()
    sheet: str | None = None


@dataclass
class TableFile:
    """A file that holds a table.

    Parameters
    ----------
    path : Path
        Where it is.
    options : ReadOptions
        How to read CSV.

    Attributes
    ----------
    bytes_read : int
        How far the last pass over the batches is, of ``size`` bytes.
    """

    path: Path
    options: ReadOptions = ReadOptions()
    bytes_read: int = 0

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.path.is_dir():
            raise InvalidInputError(f"{str(self.path)!r} is a folder; name a file")
        if not self.path.is_file():
            raise InvalidInputError(
                f"there is no file {str(self.path)!r}; correct the name, or "
                f"the folder that the command is run in{_like(self.path)}"
            )
        if not self.path.stat().st_size:
            raise InvalidInputError(f"the file {str(self.path)!r} is empty; write it again")
        if self.options.sheet is not None and self.format.name != "excel":
            raise InvalidInputError(
                f"--sheet is for Excel workbooks, found {str(self.path)!r}; leave it out"
            )

    @property
    def format(self) -> TableFormat:
        """The format, by the name of the file."""
        return format_of(self.path)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.path.stat().st_size

    def sha256(self) -> str:
        """Checksum of the file, so that a report can say which data it is about."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def column_names(self) -> list[str]:
        """Names of the columns; raises if two are alike."""
        with self._explained():
            if self.format.name == "csv":
                names = self._csv_header()
            elif self.format.name == "parquet":
                names = parquet.read_schema(self.path).names
            elif self.format.name == "excel":
                names = self._workbook.column_names
            else:
                with self._arrow_reader() as reader:
                    names = reader.schema.names
        if len(names) > MOST_COLUMNS:
            raise InvalidInputError(
                f"{str(self.path)!r} has {len(names):,} columns, expected at most "
                f"{MOST_COLUMNS:,}; name another --delimiter, or write the columns that you need "
                "to a file of their own"
            )
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            raise InvalidInputError(
                f"{str(self.path)!r} has several columns named {twice[0]!r}; rename them"
            )
        return names

    def require(self, columns: Sequence[str], what: str) -> None:
        """Raise if a column is not in the file."""
        names = self.column_names()
        known = set(names)
        for column in columns:
            if column not in known:
                raise InvalidInputError(
                    f"{str(self.path)!r} has no column {column!r} ({what}); it has "
                    f"{_listed(names)}{did_you_mean(column, names)}"
                )

    def read(self, text_columns: Sequence[str] = ()) -> pa.Table:
        """Read all of it; some columns as text where the file does not say of what type they are.

        Parameters
        ----------
        text_columns : sequence of str
            Columns of a CSV file that are not numbers even if they look so.
        """
        names = self.column_names()
        with self._explained():
            if self.format.name == "csv":
                asked = dict.fromkeys(text_columns, pa.string())
                with self._stream() as (stream, _):
                    table = csv.read_csv(stream, *self._csv_options(column_types=asked))
                for field in table.schema:
                    if pa.types.is_binary(field.type):  # what Arrow makes of text not in UTF-8
                        raise pa.ArrowInvalid(f"column {field.name!r} is not text")
            elif self.format.name == "parquet":
                table = _usual(parquet.read_table(self.path))
            elif self.format.name == "excel":
                table = self._workbook
            else:
                with self._arrow_reader() as reader:
                    table = _usual(reader.read_all())
        if not table.num_rows:
            raise InvalidInputError(
                f"{str(self.path)!r} has {len(names)} columns but no rows; write it again"
            )
        return table

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch of rows at a time.

        Parameters
        ----------
        types : dict of str to DataType
            The columns, and the type to read them as from a CSV file. Other formats know their
            types, and are not converted.
        """
        self.require(list(types), "to be read")
        self.bytes_read, rows = 0, 0
        with self._explained():
            for batch in self._batches(types):
                rows += batch.num_rows
                yield batch
        self.bytes_read = self.size
        if not rows:
            raise InvalidInputError(f"{str(self.path)!r} has no rows; write it again")

    def _batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        columns = list(types)
        if self.format.name == "csv":
            asked = {name: kind or pa.string() for name, kind in types.items()}
            options = self._csv_options(column_types=asked, include_columns=columns)
            with self._stream() as (stream, raw):
                for batch in csv.open_csv(stream, *options):
                    self.bytes_read = min(raw.tell(), self.size)
                    yield batch
        elif self.format.name == "parquet":
            # Text that is going to be encoded is often stored that way already.
            fields = parquet.read_schema(self.path)
            texts = [n for n, t in types.items() if t is not None and pa.types.is_dictionary(t)]
            coded = [n for n in texts if not pa.types.is_nested(fields.field(n).type)]
            with parquet.ParquetFile(self.path, read_dictionary=coded, pre_buffer=False) as file:
                rows, total = 0, max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                    rows += batch.num_rows
                    self.bytes_read = self.size * rows // total
                    yield _usual(batch.select(columns))
        elif self.format.name == "excel":
            yield from self._workbook.select(columns).to_batches(BATCH_ROWS)
        else:
            with self._arrow_reader() as reader:
                for batch in _batches_of(reader):
                    for start in range(0, batch.num_rows, BATCH_ROWS):
                        yield _usual(batch.select(columns).slice(start, BATCH_ROWS))
                    self.bytes_read = min(self.bytes_read + batch.nbytes, self.size)

    @cached_property
    def _workbook(self) -> pa.Table:
        """The table of an Excel workbook, which is read whole and once."""
        return read_workbook(
            self.path,
            self.options.sheet,
            (*csv.ConvertOptions().null_values, *self.options.missing),
        )

    @contextlib.contextmanager
    def _stream(self) -> Iterator[tuple[Any, Any]]:
        """The content as a stream, unpacked, and the file itself, which knows how far it is."""
        packing = self.format.packing
        with pa.OSFile(str(self.path)) as raw, contextlib.ExitStack() as stack:
            unpacked = pa.CompressedInputStream(raw, packing) if packing else raw
            yield stack.enter_context(unpacked), raw

    @contextlib.contextmanager
    def _arrow_reader(self) -> Iterator[Any]:
        """A reader of an IPC file, or of a stream."""
        with self._stream() as (stream, _):
            is_file = stream.read(len(ARROW_MAGIC)) == ARROW_MAGIC
        with self._stream() as (stream, _):
            if is_file and self.format.packing is None:
                yield pa.ipc.open_file(stream)
                return
            if is_file:  # what follows its mark is a stream too, and is not unpacked as a whole
                stream.read(ARROW_START)
            yield pa.ipc.open_stream(stream)

    # CSV
    # -------------------------------------------------------------------

    def _csv_header(self) -> list[str]:
        """Names in the first row that is not empty; Arrow would take long for many columns."""
        encoding, delimiter = self._known_encoding(), self._delimiter()
        with self._stream() as (stream, _):
            start = stream.read(CSV_BLOCK)
        if not start.strip():
            raise InvalidInputError(f"the file {str(self.path)!r} is empty; write it again")
        if encoding == "utf-8":
            wrong = _not_in_utf8(start.split(b"\n", 1)[:1])
            if wrong is not None:
                raise InvalidInputError(f"{str(self.path)!r} {wrong}")
        text = start.decode(encoding, errors="replace").removeprefix("\ufeff")
        lines = io.StringIO(text, newline="")
        try:
            names = next((row for row in read_csv(lines, delimiter=delimiter) if row), [])
        except CsvError:  # a field of that length
            names = []
        if not names or (len(start) == CSV_BLOCK and lines.tell() == len(text)):
            raise InvalidInputError(f"{str(self.path)!r} {TOO_LONG}")
        return names

    def _csv_options(self, **columns: Any) -> tuple[Any, Any, Any]:
        convert = csv.ConvertOptions(strings_can_be_null=True, **columns)
        convert.null_values = [*convert.null_values, *self.options.missing]
        return (
            csv.ReadOptions(block_size=CSV_BLOCK, encoding=self._known_encoding()),
            csv.ParseOptions(delimiter=self._delimiter(), newlines_in_values=True),
            convert,
        )

    def _known_encoding(self) -> str:
        try:
            "a".encode(self.options.encoding)  # some are no encodings of text
            return codecs.lookup(self.options.encoding).name
        except (LookupError, ValueError):
            raise InvalidInputError(
                f"unknown encoding {self.options.encoding!r}; expected one such as utf-8, "
                "latin-1, cp1252 or utf-16"
            ) from None

    def _delimiter(self) -> str:
        given = self.options.delimiter
        if given is not None:
            given = {"tab": "\t", "\\t": "\t"}.get(given, given)
            if len(given) != 1 or not given.isascii() or given in '"\r\n':
                raise InvalidInputError(
                    f"a delimiter is one character, found {given!r}; write , ; | or tab"
                )
            return given
        if self.format.suffix == ".tsv":
            return "\t"
        with self._stream() as (stream, _):
            start = stream.read(2**16)
        header = start.decode(self._known_encoding(), errors="replace").split("\n", 1)[0]
        return next((d for d in DELIMITERS if d in header), ",")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what Arrow raises into an error that names the file and a remedy."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeError, EOFError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the system: no space, no permission
            raise InvalidInputError(f"{str(self.path)!r} {self._why(error)}") from error

    def _why(self, error: Exception) -> str:
        message = str(error).split(". Detail")[0].rstrip(".")
        if self.format.name != "csv":
            return (
                f"cannot be read as {self.format.name}: {message}; it was cut short or is "
                "something else: write it again, or rename it after its format"
            )
        if isinstance(error, UnicodeError):
            return f"is not in {self.options.encoding}: {message}; pass another --encoding"
        try:
            if "Expected" in message:
                message = self._read_by_row() or message
            with self._stream() as (stream, _):
                return _explain(message, self._csv_header(), _lines_of(stream))
        except (OSError, ValueError):  # not even unpacked
            return f"cannot be unpacked: {message}; it was cut short or is something else"

    def _read_by_row(self) -> str:
        """What Arrow says of a CSV file that it reads in one thread: then it counts rows."""
        first = self._csv_header()[:1]
        options = self._csv_options(
            include_columns=first, column_types=dict.fromkeys(first, pa.binary())
        )
        try:
            with self._stream() as (stream, _):
                for _ in csv.open_csv(stream, *options):
                    pass
        except pa.ArrowInvalid as error:
            return str(error)
        return ""


def _usual(table: Any) -> Any:
    """A table or batch in types that Arrow computes with; raises where text is not UTF-8."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_run_end_encoded(kind):
            column = pc.run_end_decode(column)
        elif pa.types.is_float16(kind):
            column = pc.cast(column, pa.float32())
        elif "string" in str(kind):  # also as values of a dictionary
            column.validate(full=True)
        columns.append(column)
    return type(table).from_arrays(columns, names=table.schema.names)


def _batches_of(reader: Any) -> Iterator[Any]:
    """Batches of a file, which are numbered, or of a stream."""
    if hasattr(reader, "get_batch"):
        return map(reader.get_batch, range(reader.num_record_batches))
    return iter(reader)


def _listed(names: Sequence[str], most: int = 12) -> str:
    cut = (n if len(n) <= LONG_NAME else f"{n[:LONG_NAME]}..." for n in names[:most])
    shown = ", ".join(map(repr, cut))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _like(path: Path) -> str:
    """A hint at a file of nearly that name."""
    try:
        return did_you_mean(path.name, [p.name for p in path.parent.iterdir()])
    except OSError:
        return ""


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
        names = [guard_formulas(pa.array([name]))[0].as_py() for name in schema.names]
        renamed = pa.schema([f.with_name(n) for f, n in zip(schema, names, strict=True)])
        writer = stack.enter_context(csv.CSVWriter(sink, renamed, write_options=options))
        yield _CsvWriter(writer, renamed)


@dataclass(frozen=True)
class _CsvWriter:
    """Writes batches in which no text is a formula."""

    writer: Any
    schema: pa.Schema

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            guard_formulas(c)
            if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)
            else c
            for c in batch.columns
        ]
        self.writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))


def guard_formulas(column: Any) -> Any:
    """Text with an apostrophe before what a spreadsheet would compute; numbers stay.

    An apostrophe before such text gets another, so that taking one away undoes it.

    Examples
    --------
    >>> guard_formulas(pa.array(["=1+1", "-5", "-cmd", "'=1", "F"])).to_pylist()
    ["'=1+1", '-5', "'-cmd", "''=1", 'F']
    """
    formula = pc.and_not(
        pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, SIGNED_NUMBER)
    )
    return pc.if_else(formula, pc.utf8_replace_slice(column, 0, 0, "'"), column)


# What is wrong with a CSV file, in words that name the line: Arrow says that a text is not UTF-8,
# or that a row has too few fields, without saying where. A second look at the file does.
# -----------------------------------------------------------------------


def _lines_of(stream: Any, size: int = 2**20) -> Iterator[bytes]:
    r"""Lines of a stream, however long it is.

    Examples
    --------
    >>> import io
    >>> list(_lines_of(io.BytesIO(b"a,b|1,2|3".replace(b"|", b"\n")), size=2))
    [b'a,b', b'1,2', b'3']
    """
    rest: list[bytes] = []  # pieces of a line, joined once: a line may be long
    while piece := stream.read(size):
        first, *others = piece.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = [others[-1]]
    if any(rest):
        yield b"".join(rest)


def _not_in_utf8(lines: Iterable[bytes]) -> str | None:
    """Say where a file is not UTF-8 and what to do; None if it is.

    Examples
    --------
    >>> _not_in_utf8([b"name", "José".encode("latin-1")]).partition(";")[0]
    "is not in UTF-8: line 2 has byte 0xe9 after 'Jos'"
    """
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(UTF_16_MARKS):
            return "is in utf-16, expected UTF-8; pass --encoding utf-16"
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            before = line[: error.start].decode("utf-8")[-20:]
            return (
                f"is not in UTF-8: line {number} has byte 0x{line[error.start]:02x} after "
                f"{before!r}; pass its encoding, often --encoding latin-1 or --encoding cp1252"
            )
    return None


def _explain(message: str, names: Sequence[str], lines: Iterable[bytes]) -> str:
    """Put what Arrow said of a CSV file into words, after a second look at the file."""
    # Arrow counts the header as the first row, leaves out empty lines, and counts columns from 0.
    row = re.search(r"Row #(\d+): ", message)
    where = f"row {int(row[1]) - 1:,} below the header" if row else "a row"
    if fields := re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", message, re.DOTALL):
        expected, found, text = fields.groups()
        return (
            f"has {found} fields in {where}, where the header has {expected}: "
            f"{text.strip()[:40]!r}; correct that row, or name another --delimiter"
        )
    number = r"In CSV column #(\d+): .*conversion error to (\w+)\S*: invalid value '(.*)'"
    wrong = re.search(number, message, re.DOTALL)
    if wrong and "\ufffd" not in wrong[3]:
        value, kind = wrong[3], "true or false" if wrong[2] == "bool" else "numbers"
        remedy = "correct it, or name another column"
        if re.fullmatch(r"[-+]?\d[\d.,' ]*", value):
            remedy += "; write numbers with a decimal point and no separators of thousands"
        elif len(value) <= LONG_NAME and value.isprintable():
            remedy = f"correct it, name another column, or pass --missing {value!r}"
        if value.lower() in ("yes", "no", "true", "false") and kind == "numbers":
            remedy += " (audit takes decisions as --decision)"
        return (
            f"has the value {value[:LONG_NAME]!r} in {where}, in the column "
            f"{names[int(wrong[1])]!r}, which must hold {kind}; {remedy}"
        )
    if "straddl" in message:  # an object straddles two blocks
        return TOO_LONG
    return _not_in_utf8(lines) or f"cannot be read as CSV: {message}"
