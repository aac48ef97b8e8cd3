"""Tables in files: every format comes out the same, and what is wrong is said in one line."""

import gzip
import importlib
import io
import sys
import tracemalloc

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairboost.exceptions import InvalidInputError
from fairboost.tabular import files
from fairboost.tabular.columns import as_text
from fairboost.tabular.files import ReadOptions, TableFile, format_of, table_writer

NAMES = [
    "t.csv", "t.tsv", "t.csv.gz", "t.csv.bz2", "t.csv.zst", "t.parquet", "t.pq", "t.arrow",
    "t.feather", "t.ipc", "t.arrow.gz", "t.arrow.zst",
]  # fmt: skip


@pytest.fixture
def table():
    return pa.table({"name": ["Åsa, jr", 'O"Neil', None, "d\ne"], "age": [31.5, 2.0, 7.0, None]})


def write(path, table):
    with table_writer(path, format_of(path), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read(tmp_path, table, name):
    file = TableFile(write(tmp_path / name, table))
    assert file.column_names() == ["name", "age"]
    assert file.read().to_pylist() == table.to_pylist()
    types = {"age": pa.float64(), "name": pa.string()}
    batches = list(file.batches(types))
    expected = table.select(["age", "name"]).to_pylist()
    assert [row for batch in batches for row in batch.to_pylist()] == expected
    assert file.bytes_read == file.size


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_batches_are_small_however_long_the_file(tmp_path, name, monkeypatch):
    monkeypatch.setattr(files, "BATCH_ROWS", 100)
    monkeypatch.setattr(files, "CSV_BLOCK", 2_000)
    long = pa.table({"k": np.arange(5_000, dtype=float)})
    path = tmp_path / name
    with table_writer(path, format_of(path), long.schema) as writer:
        writer.write_batch(long.to_batches()[0])
    batches = list(TableFile(path).batches({"k": pa.float64()}))
    assert max(len(batch) for batch in batches) < 2_000
    assert np.concatenate([b["k"].to_numpy() for b in batches]).tolist() == list(range(5_000))


def test_an_arrow_stream_is_read_like_a_file(tmp_path, table):
    path = tmp_path / "t.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert TableFile(path).read().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("kind", [pa.ipc.new_file, pa.ipc.new_stream])
def test_packed_arrow_of_several_batches(tmp_path, table, kind):
    path = tmp_path / "t.arrow.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as sink, kind(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert TableFile(path).read().equals(table)
    found = TableFile(path).batches(dict.fromkeys(table.column_names))
    assert pa.Table.from_batches(list(found)).equals(table)


@pytest.mark.parametrize("start", [b"", b"ARROW1\0\0"])
def test_what_unpacks_to_much_is_not_unpacked(tmp_path, start):
    """A file of some kB that would be 200 MB."""
    path = tmp_path / "t.arrow.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(start)
        for _ in range(200):
            sink.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match="cannot be read as arrow"):
            TableFile(path).read()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_arrow_files_of_polars(tmp_path):
    """Their text is of another type, and they are laid out in another way."""
    frame = pl.DataFrame(
        {"name": ["x", None, "y"], "kind": pl.Series(["a", "b", "a"]).cast(pl.Categorical)}
    )
    frame.write_ipc(tmp_path / "t.arrow")
    file = TableFile(tmp_path / "t.arrow")
    (batch,) = file.batches({"kind": None, "name": None})
    assert as_text(batch["name"]).to_pylist() == ["x", None, "y"]
    assert as_text(batch["kind"]).to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "columns"), [("a;b\n1;2\n", 2), ("a\tb\n1\t2\n", 2), ("a\n1\n", 1)]
)
def test_the_delimiter_is_told_by_the_header(tmp_path, text, columns):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert len(TableFile(path).column_names()) == columns


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffname,age\nx,1\n".encode())
    assert TableFile(path).column_names() == ["name", "age"]


def test_encodings_and_spellings_of_missing_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("straße,k\nA,?\nÖ,2\n".encode("latin-1"))
    file = TableFile(path, ReadOptions(encoding="latin-1", missing=("?",)))
    assert file.read().to_pylist() == [{"straße": "A", "k": None}, {"straße": "Ö", "k": 2}]


def test_numbers_that_are_codes_stay_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,k\n01234,1\n")
    assert TableFile(path).read(["zip"]).to_pylist() == [{"zip": "01234", "k": 1}]


def corrupt(folder, name):
    """Files with which something is wrong."""
    path = folder / name
    wrong = "a,b\n" + "1,x\n" * 3
    content = {
        "empty.csv": b"",
        "blank.csv": b"\n\n",
        "header.csv": b"a,b\n",
        "twice.csv": b"a,b,a\n1,2,3\n",
        "ragged.csv": b"a,b\n1,2\n3\n",
        "latin.csv": wrong.encode() + "2,Zoë\n".encode("latin-1"),
        "latin_name.csv": "größe,b\n1,2\n".encode("latin-1"),
        "utf16.csv": wrong.encode("utf-16"),
        "cut.csv.gz": gzip.compress(wrong.encode() * 500)[:-20],
        "text.parquet": wrong.encode(),
        "text.arrow": wrong.encode(),
        "t.xlsx": b"PK",
        "t.ods": b"PK",
        "t.parquet.gz": gzip.compress(b"PAR1"),
    }
    path.write_bytes(content[name])
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty.csv", "is empty; write it again"),
        ("blank.csv", "is empty; write it again"),
        ("header.csv", "has 2 columns but no rows"),
        ("twice.csv", "has several columns named 'a'; rename them"),
        ("ragged.csv", "has 1 fields in row 2 below the header, where the header has 2: '3'"),
        ("latin.csv", "is not in UTF-8: line 5 has byte 0xeb after '2,Zo'; pass its encoding"),
        ("latin_name.csv", "is not in UTF-8: line 1 has byte 0xf6 after 'gr'"),
        ("utf16.csv", "is in utf-16, expected UTF-8; pass --encoding utf-16"),
        ("cut.csv.gz", "cut short"),
        ("text.parquet", "cannot be read as parquet"),
        ("text.arrow", "cannot be read as arrow"),
        ("t.xlsx", "cannot be read as an Excel workbook"),
        ("t.ods", "cannot tell the format of"),
        ("t.parquet.gz", "is a packed .parquet file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, name, message):
    with pytest.raises(InvalidInputError) as caught:
        TableFile(corrupt(tmp_path, name)).read()
    assert message in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_utf16_is_read_when_it_is_named(tmp_path):
    path = corrupt(tmp_path, "utf16.csv")
    assert TableFile(path, ReadOptions(encoding="utf-16")).read().num_rows == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ReadOptions(encoding="klingon"), "unknown encoding 'klingon'"),
        (ReadOptions(encoding="ascii"), "is not in ascii"),
        (ReadOptions(delimiter=";;"), "a delimiter is one character, found ';;'"),
    ],
)
def test_bad_options_of_csv(tmp_path, options, message):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nä,2\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=message):
        TableFile(path, options).read()


def test_a_parquet_file_that_was_cut_short(tmp_path, table):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InvalidInputError, match="cannot be read as parquet"):
        TableFile(path).column_names()


def test_missing_files_columns_and_folders(tmp_path):
    (tmp_path / "loans.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"there is no file .*did you mean 'loans.csv'"):
        TableFile(tmp_path / "loan.csv")
    with pytest.raises(InvalidInputError, match="is a folder; name a file"):
        TableFile(tmp_path)
    with pytest.raises(
        InvalidInputError, match=r"has no column 'c' \(the label\); it has 'a', 'b'"
    ):
        TableFile(tmp_path / "loans.csv").require(["c"], "the label")
    with pytest.raises(InvalidInputError, match="has no column 'c'"):
        list(TableFile(tmp_path / "loans.csv").batches({"c": None}))


def test_a_number_that_is_none_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\nx,3\n")
    with pytest.raises(InvalidInputError, match="has the value 'x' in row 2 below the header, in"):
        list(TableFile(path).batches({"a": pa.float64()}))


BODY = "id,flag,income\n" + "".join(f"{k},true,{k}\n" for k in range(20))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BODY.replace("7,true,7", "7,true,six"), "'six' in row 8 .* column 'income', .* numbers"),
        (
            BODY.replace("7,true,7", "7,perhaps,7"),
            "'perhaps' in row 8 .* 'flag', .* true or false",
        ),
        ("\n\n" + BODY.replace("7,true,7", "7,true,six"), "in row 8 below the header"),
        (BODY.replace("\n3,", '\n\n"3\n",').replace("7,true,7", "7,true,x"), "in row 8"),
        (BODY.replace("7,true,7", '7,true,"7,5"'), "'7,5' in row 8 .* a decimal point"),
        (
            BODY.replace("7,true,7", "7,true"),
            "has 2 fields in row 8 .* the header has 3: '7,true'",
        ),
        (BODY.encode().replace(b"7,true,7", b"7,true,s\xed"), "is not in UTF-8: line 9 has byte"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said_by_column_and_row(tmp_path, text, message):
    """Arrow counts columns from 0, and the header as a row."""
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    types = {"income": pa.float64(), "flag": pa.bool_()}
    with pytest.raises(InvalidInputError, match=message) as told:
        list(TableFile(path).batches(types))
    assert "--missing '7,5'" not in str(told.value)
    assert "CSV column" not in str(told.value)


@pytest.mark.parametrize("fields", ["7,true", "7,true,7,7"])
def test_a_row_of_other_fields_is_counted_where_a_table_is_read_whole(tmp_path, fields):
    path = tmp_path / "t.csv"
    path.write_text(BODY.replace("7,true,7", fields))
    with pytest.raises(InvalidInputError, match=r"fields in row 8 below the header, where"):
        TableFile(path).read()


def test_checksums(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n")
    import hashlib

    assert TableFile(path).sha256() == hashlib.sha256(b"a\n").hexdigest()


def test_without_pyarrow(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("fairboost.tabular")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "fairboost\[data\]"'):
        importlib.import_module("fairboost.tabular.files")


def test_more_columns_than_a_table_has(tmp_path):
    """Told from the names alone: to set up readers of a million columns takes minutes."""
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{k}" for k in range(200_000)) + "\n")
    with pytest.raises(InvalidInputError, match=r"has 200,000 columns, expected at most 100,000"):
        TableFile(path).column_names()


@pytest.mark.parametrize(
    "text",
    ["{long}\n", 'a,b\n1,"{long}\n2,3\n', "a,b\n1,2\n{long},3\n"],
    ids=["header", "quote", "row"],
)
def test_rows_longer_than_a_block(tmp_path, text, monkeypatch):
    """As from a quote that is not closed; told without reading the file to its end in pieces."""
    monkeypatch.setattr(files, "CSV_BLOCK", 2**16)
    path = tmp_path / "long.csv"
    path.write_text(text.format(long="a" * 2**20))
    with pytest.raises(InvalidInputError, match="has a row of more than 8 MB"):
        TableFile(path).read()


@pytest.mark.parametrize(
    "text", ['\ufeff"a, b","c""d"\r\n1,2\r\n', '\n\n"a, b","c""d"\n1,2\n', '"a, b","c""d"\r1,2\r']
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_names_are_those_that_arrow_reads(tmp_path, text, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    file = TableFile(path, ReadOptions(encoding))
    assert file.column_names() == file.read().column_names == ["a, b", 'c"d']


def test_lines_of_a_stream_are_joined_once():
    pieces = [b"ab", b"c\n", b"", b"d", b"e\n\nf"]
    stream = type("Stream", (), {"read": lambda self, size: pieces.pop(0) if pieces else b""})()
    assert list(files._lines_of(stream)) == [b"abc"]  # an empty piece is the end
    whole = io.BytesIO(b"ab\n\ncd\n" * 3)
    assert list(files._lines_of(whole, size=4)) == [b"ab", b"", b"cd"] * 3


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_text_that_is_not_utf8_in_a_file_that_says_it_is(tmp_path, name):
    """Arrow does not look; what it makes of such bytes later is anything but a message."""
    where, letters = np.array([0, 2, 4], np.int32), b"\xff\xfeok"
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(where), pa.py_buffer(letters)]
    )
    file = TableFile(write(tmp_path / name, pa.table({"a": text})))
    for read in (file.read, lambda: list(file.batches({"a": pa.string()}))):
        with pytest.raises(InvalidInputError, match=r"cannot be read as .*UTF8"):
            read()


def test_types_that_arrow_does_not_compute_with(tmp_path):
    ends = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3]), pa.array(["a", "b"]))
    half = pa.array(np.array([0.5, 1, 2], np.float16))
    file = TableFile(write(tmp_path / "t.arrow", pa.table({"a": ends, "b": half})))
    assert file.read().to_pydict() == {"a": ["a", "b", "b"], "b": [0.5, 1.0, 2.0]}
