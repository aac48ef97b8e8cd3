"""Names of periods: formats across the end of a year, what is ambiguous, and what has no order."""

import random
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from fairboost.exceptions import InvalidInputError
from fairboost.tabular.files import TableFile
from fairboost.tabular.period_names import in_order
from fairboost.tabular.periods import DecidedRows, PeriodColumn, count_periods

MONTHS = [date(2025 + (k > 12), (k - 1) % 12 + 1, 1) for k in range(8, 23)]  # to October 2026
WEEKS = [date(2025, 8, 31) + timedelta(7 * k) for k in range(40)]
QUARTERS = [(2024 + k // 4, k % 4 + 1) for k in range(1, 12)]

FORMATS = {
    "2025-09": [f"{d:%Y-%m}" for d in MONTHS],
    "2025-9": [f"{d.year}-{d.month}" for d in MONTHS],
    "2025.9": [f"{d.year}.{d.month}" for d in MONTHS],
    "2025/09": [f"{d:%Y/%m}" for d in MONTHS],
    "2025 09": [f"{d:%Y %m}" for d in MONTHS],
    "2025_09": [f"{d:%Y_%m}" for d in MONTHS],
    "2025M09": [f"{d:%YM%m}" for d in MONTHS],
    "202509": [f"{d:%Y%m}" for d in MONTHS],
    "09.2025": [f"{d:%m.%Y}" for d in MONTHS],
    "9/2025": [f"{d.month}/{d.year}" for d in MONTHS],
    "09-2025": [f"{d:%m-%Y}" for d in MONTHS],
    "092025": [f"{d:%m%Y}" for d in MONTHS],
    "Sep 2025": [f"{d:%b %Y}" for d in MONTHS],
    "September 2025": [f"{d:%B %Y}" for d in MONTHS],
    "2025 SEP": [f"{d:%Y %b}".upper() for d in MONTHS],
    "SEP2025": [f"{d:%b%Y}".upper() for d in MONTHS],
    "2025年9月": [f"{d.year}年{d.month}月" for d in MONTHS],
    "month 9 of 2025": [f"month {d.month} of {d.year}" for d in MONTHS],
    "2025-Q3": [f"{y}-Q{q}" for y, q in QUARTERS],
    "2025Q3": [f"{y}Q{q}" for y, q in QUARTERS],
    "Q3 2025": [f"Q{q} {y}" for y, q in QUARTERS],
    "3Q25": [f"{q}Q{y - 2000}" for y, q in QUARTERS],
    "H2/2025": [f"H{q // 3 + 1}/{y}" for y, q in QUARTERS if q in (1, 3)],
    "2025-W36": ["{}-W{:02}".format(*d.isocalendar()) for d in WEEKS],
    "W36 2025": ["W{1} {0}".format(*d.isocalendar()) for d in WEEKS],
    "36/2025": ["{1:02}/{0}".format(*d.isocalendar()) for d in WEEKS],
    "362025": ["{1:02}{0}".format(*d.isocalendar()) for d in WEEKS],
    "2025-09-07": [f"{d}" for d in WEEKS],
    "2025-09-07 00:00:00": [f"{d} 00:00:00" for d in WEEKS],
    "20250907": [f"{d:%Y%m%d}" for d in WEEKS],
    "07.09.2025": [f"{d:%d.%m.%Y}" for d in WEEKS],
    "07092025": [f"{d:%d%m%Y}" for d in WEEKS],
    "09/07/2025": [f"{d:%m/%d/%Y}" for d in WEEKS],
    "07 Sep 2025": [f"{d:%d %b %Y}" for d in WEEKS],
    "Sep 7, 2025": [f"{d:%b} {d.day}, {d.year}" for d in WEEKS],
    "2025-09-01/2025-09-07": [f"{d}/{d + timedelta(6)}" for d in WEEKS],
    "2025": [str(y) for y in range(1998, 2027)],
    "FY2025": [f"FY{y}" for y in range(1998, 2027)],
    "2025/26": [f"{y}/{y % 100 + 1:02}" for y in range(2015, 2027)],
    "9": [str(k) for k in range(1, 13)],
    "9.0": [f"{k}.0" for k in range(1, 25)],
    "-9": [str(k) for k in range(-12, 3)],
    "1099": [str(k) for k in range(990, 1130)],
    "100099": [str(k) for k in range(99_990, 100_350)],
}


def shuffled(names):
    return [random.Random(seed).sample(names, len(names)) for seed in range(5)]


@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_every_format_is_in_the_order_of_time(names):
    assert len({*names}) == len(names) > 4
    for given in (names[::-1], *shuffled(names)):
        assert [given[k] for k in in_order(given, "at")] == names


@pytest.mark.parametrize("form", ["09.2025", "092025", "2025.9", "202509", "Sep 2025", "362025"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_counted_in_the_order_of_time(tmp_path, form, suffix):
    names = FORMATS[form]
    rows = np.repeat(shuffled(names)[0], 2)
    frame = pd.DataFrame({"at": rows, "sex": "F", "decision": "yes"})
    path = tmp_path / f"rows.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    asked = DecidedRows(
        PeriodColumn("at"), ("sex",), ("no", "yes"), None, None, "decision", threshold=0.5
    )
    found = count_periods(TableFile(path), asked)
    assert found.periods == tuple(names)
    assert found.rows.sum(axis=(1, 2, 3)).tolist() == [2] * len(names)
    assert not found.in_order_of_rows


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["03.01.2026", "02.02.2026"], "'03.01.2026' can be day-month-year or month-day-year"),
        (["03022026", "02032026"], "can be day-month-year or month-day-year"),
        (["202025", "192026"], "can be year-month or month-year"),
        (["09/25", "01/26"], "can be year-month or month-year"),
        (["25-09", "25-12", "26-01", "12-12"], "can be year-month or"),
        (["Sep-25", "Jan-26"], "can be month-year or month-day"),
        (["0925", "0126"], "can be a whole number or month-year"),
        (["925", "126"], "can be a whole number or month-year"),
        (["92025", "122025", "12026"], "can be a whole number or month-year"),
        (["20259", "202512", "20261"], "can be a whole number or year-month"),
        (["311225", "010126"], "can be a whole number or day-month-year"),
        (["2025.9", "2025.1", "2025.12"], "'2025.1' can be month 1 or month 10"),
        (["2025-9", "2025-09"], "of the column 'at' are the same period"),
        (["1", "01"], "are the same period"),
        (["2026-01-05 10:00", "2026-01-05 11:00"], "name the length of a period: --by at:month"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_format_to_use(names, said):
    for given in shuffled(names):
        with pytest.raises(InvalidInputError, match=said) as raised:
            in_order(given, "at")
        assert "2026-03, 2026-Q1, 2026-W05 or 2026-03-31" in str(raised.value)


@pytest.mark.parametrize(
    "names",
    [
        ["spring", "autumn"],
        ["week 10", "week 9"],
        ["Nov", "Dec", "Jan"],
        ["Q4", "Q1"],
        ["12/29", "1/5"],
        ["2026-Q4", "2026-M03"],
        ["2026-01", "2026-02", "later"],
        ["2026-00", "2026-13", "2026-99"],
        ["1.5", "1.25"],
        ["", "-"],
    ],
)
def test_other_names_have_no_order(names):
    assert in_order(names, "at") is None


def test_one_period_needs_no_order():
    assert in_order(["01/26"], "at") == [0]
    assert in_order(["first"], "at") == [0]
