"""Workbooks of Excel as tables."""

import sys
import tracemalloc
import zipfile
from datetime import date, datetime

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from fairboost.exceptions import InvalidInputError
from fairboost.tabular import excel
from fairboost.tabular.files import ReadOptions, TableFile, format_of


def book(tmp_path, *sheets, name="t.xlsx"):
    """A workbook of sheets, each a list of rows."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for k, rows in enumerate(sheets):
        sheet = made.create_sheet(f"sheet {k + 1}")
        for row in rows:
            sheet.append(row)
    made.save(tmp_path / name)
    return tmp_path / name


ROWS = [
    ["id", "age", "rate", "hired", "day", "mixed", "note"],
    [1, 30, 0.5, True, date(2026, 1, 2), 7, "a"],
    [2, None, 1, False, date(2026, 1, 3), "seven", "NA"],
    [3, 41, 2.5, None, None, 7.0, None],
]


def test_columns_have_the_types_of_their_cells(tmp_path):
    table = TableFile(book(tmp_path, ROWS)).read()
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    assert kinds["id"] == kinds["age"] == pa.int64()
    assert kinds["rate"] == pa.float64()
    assert kinds["hired"] == pa.bool_()
    assert pa.types.is_temporal(kinds["day"])
    assert table.column("mixed").to_pylist() == ["7", "seven", "7"]
    assert table.column("note").to_pylist() == ["a", None, None]
    assert table.column("age").to_pylist() == [30, None, 41]


def test_batches_are_those_of_the_table(tmp_path):
    file = TableFile(book(tmp_path, ROWS))
    (batch,) = file.batches({"note": pa.string(), "age": pa.float64()})
    assert batch.schema.names == ["note", "age"]
    assert batch.num_rows == 3
    assert file.bytes_read == file.size


def test_empty_rows_and_nameless_columns_at_the_end_are_no_data(tmp_path):
    rows = [[None, None, None], ["a", "b", None], [None, None], [1, "x", None], [2, "y"], [""]]
    table = TableFile(book(tmp_path, rows)).read()
    assert table.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_a_sheet_may_be_named(tmp_path):
    path = book(tmp_path, [["a"], [1]], [["b"], [2]])
    assert TableFile(path).column_names() == ["a"]
    assert TableFile(path, ReadOptions(sheet="sheet 2")).column_names() == ["b"]
    with pytest.raises(InvalidInputError, match="no sheet 'x'; it has 'sheet 1', 'sheet 2'"):
        TableFile(path, ReadOptions(sheet="x")).read()
    other = tmp_path / "t.csv"
    other.write_text("a\n1\n")
    with pytest.raises(InvalidInputError, match="--sheet is for Excel workbooks"):
        TableFile(other, ReadOptions(sheet="x"))


def test_missing_values_are_spelled_as_in_csv(tmp_path):
    path = book(tmp_path, [["a", "b"], ["n.d.", "x"], ["N/A", "y"], ["z", "y"]])
    found = TableFile(path, ReadOptions(missing=("n.d.",))).read().column("a").to_pylist()
    assert found == [None, None, "z"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "is empty"),
        ([["a", None, "b"], [1, 2, 3]], "column 2 of .* has no name in the first row"),
        ([["a", "b"], [1, "=A2+1"]], "cell B2 of .* is a formula whose value was never computed"),
        ([["a", "a"], [1, 2]], "several columns named 'a'"),
        ([["a"]], "no rows"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        TableFile(book(tmp_path, rows)).read()


def test_a_workbook_is_read_and_not_written(tmp_path):
    with pytest.raises(InvalidInputError, match="read and not written"):
        format_of(tmp_path / "out.xlsx", written=True)
    with pytest.raises(InvalidInputError, match=r"packed \.xlsx file"):
        format_of(tmp_path / "out.xlsx.gz")


def test_a_missing_package_is_one_line(tmp_path, monkeypatch):
    path = book(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InvalidInputError, match=r'pip install "fairboost\[excel\]"'):
        TableFile(path).read()


def test_what_pandas_writes_is_read_back(tmp_path):
    frame = pd.DataFrame({"x": [1.5, 2.5], "s": ["a", "b"], "t": [datetime(2026, 1, 1)] * 2})
    frame.to_excel(tmp_path / "p.xlsx", index=False)
    found = TableFile(tmp_path / "p.xlsx").read().to_pandas()
    pd.testing.assert_frame_equal(found[["x", "s"]], frame[["x", "s"]], check_dtype=False)


# Workbooks that are made to take all memory, or are damaged

SHEET = "xl/worksheets/sheet1.xml"
START = (
    b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    b'<row r="1"><c r="A1" t="str"><v>a</v></c><c r="B1" t="str"><v>b</v></c></row>'
)
END = b"</sheetData></worksheet>"
MB = 2**20


def hostile(tmp_path, members):
    """A small workbook with other members: what comes before, a text, how often, what follows."""
    source, path = book(tmp_path, [["a", "b"], [1, "x"]], name="small.xlsx"), tmp_path / "t.xlsx"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name not in members:
                new.writestr(name, old.read(name))
        for name, (before, text, times, after) in members.items():
            with new.open(name, "w") as out:
                out.write(before)
                for _ in range(times):
                    out.write(text)
                out.write(after)
    return path


def in_sheet(text, times, before=b"", after=b""):
    return {SHEET: (START + before, text, times, after + END)}


TWO = b'<row r="2"><c r="A2" t="str"><v>'
HOSTILE = {
    "a cell": (in_sheet(b"x" * MB, 300, TWO, b"</v></c></row>"), "would unpack to 315 MB"),
    "a long cell": (in_sheet(b"x" * MB, 20, TWO, b"</v></c></row>"), "cell or row of more than"),
    "a long row": (in_sheet(b"<c/>" * (MB // 4), 20, b"<row>", b"</row>"), "a row, or formats"),
    "a tag": (in_sheet(b" " * MB, 20, b"<row ", b"/>"), "cell or row of more than 16 MB"),
    "sheets": (
        {f"xl/worksheets/more{k}.xml": (START, b"<row/>" * MB, 1, END) for k in range(30)},
        "would unpack to",
    ),
    "shared texts": (
        {"xl/sharedStrings.xml": (b"<sst>", b"<si><t>x</t></si>" * 60_000, 100, b"</sst>")},
        "would unpack to 102 MB",
    ),
    "formats": (
        {"xl/styles.xml": (b"<styleSheet><cellXfs>", b"<xf/>" * 60_000, 100, b"</cellXfs>")},
        "more than 500,000 tags",
    ),
    "parts of a text": (
        {"xl/sharedStrings.xml": (b"<sst><si>", b"<r><t>a</t></r>" * 60_000, 30, b"</si></sst>")},
        "more than 500,000 tags",
    ),
    "a row far below": (in_sheet(b"", 0, b'<row r="1000000000000">', b"</row>"), "where sheets"),
    "a row without a number": (in_sheet(b"", 0, b'<row r="x">', b"</row>"), "cannot be read as"),
    "no end": (in_sheet(b"", 0, b"<row>"), "cannot be read as an Excel workbook"),
    "no such text": (in_sheet(b"", 0, b'<row><c t="s"><v>99</v></c></row>'), "cannot be read as"),
    "no XML": ({SHEET: (b"a,b", b"", 0, b"")}, "cannot be read as an Excel workbook"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_workbooks_are_refused_in_little_memory(tmp_path, what):
    members, message = HOSTILE[what]
    path = hostile(tmp_path, members)
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match=message):
        TableFile(path).read()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 * MB


def test_parts_that_are_not_parsed_may_have_many_tags(tmp_path):
    """The chain of a million formulas is no attack."""
    chain = b"<calcChain>", b'<c r="A1"/>' * 60_000, 10, b"</calcChain>"
    path = hostile(tmp_path, {"xl/calcChain.xml": chain})
    assert TableFile(path).read().num_rows == 1


def test_a_directory_that_understates_sizes_is_refused(tmp_path):
    path = hostile(tmp_path, HOSTILE["a cell"][0])
    with zipfile.ZipFile(path) as packed:
        size = packed.getinfo(SHEET).file_size.to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(InvalidInputError, match="cannot be read as an Excel workbook: Bad CRC"):
        TableFile(path).read()


def test_a_cell_far_to_the_right_makes_no_wide_row(tmp_path, monkeypatch):
    rows = b'<row><c t="n"><v>1</v></c><c r="XFD2" t="n"><v>1</v></c></row>'
    path = hostile(tmp_path, in_sheet(rows, 1_000))
    monkeypatch.setattr(excel, "MOST_CELLS", 2_002)
    assert TableFile(path).read().num_rows == 1_000
    monkeypatch.setattr(excel, "MOST_CELLS", 2_001)
    with pytest.raises(InvalidInputError, match="more than 2,001 cells; save the sheet as CSV"):
        TableFile(path).read()
