"""Decisions counted by period: dates, names of periods, missing values, and what is refused."""

from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.exceptions import InvalidInputError
from fairboost.tabular.files import TableFile
from fairboost.tabular.periods import (
    DecidedRows,
    PeriodColumn,
    count_periods,
    period_name,
    period_of,
)

ROWS = pd.DataFrame(
    {
        "at": ["2026-01-05", "2026-01-31", "2026-03-01", "2026-03-01", None],
        "sex": ["F", "M", None, "F", "F"],
        "y": ["yes", None, "no", "no", "yes"],
        "decision": ["yes", "no", "yes", "no", "yes"],
        "score": [0.7, 0.2, 0.5, 0.4, 0.9],
    }
)


def count(tmp_path, frame=ROWS, by="at:month", name="rows.csv", **other):
    path = tmp_path / name
    if name.endswith("csv"):
        frame.to_csv(path, index=False)
    elif name.endswith("xlsx"):
        frame.to_excel(path, index=False)
    else:
        frame.to_parquet(path)
    file = TableFile(path)
    asked = {"label": "y", "score": None, "decision": "decision", **other}
    column = PeriodColumn.parse(by, file.column_names())
    return count_periods(
        file, DecidedRows(column, ("sex",), ("no", "yes"), threshold=0.5, **asked)
    )


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.xlsx"])
def test_rows_are_counted_and_periods_without_rows_are_kept(tmp_path, name):
    found = count(tmp_path, name=name)
    assert found.periods == ("2026-01", "2026-02", "2026-03")
    assert found.rows.sum(axis=(1, 2, 3)).tolist() == [2, 0, 2]
    assert found.undated == 1
    women = found.cells.index(("F",))
    assert found.rows[0, women, 1, 1] == 1  # the label and the decision are yes
    assert found.rows[0, found.cells.index(("M",)), 2, 0] == 1  # its label is missing
    assert found.rows[2, found.cells.index((None,))].sum() == 1


def test_scores_are_decided_at_the_threshold(tmp_path):
    by_score = count(tmp_path, score="score", decision=None)
    by_both = count(tmp_path, score="score")
    assert (by_score.rows == count(tmp_path).rows).all()
    assert (by_both.rows == by_score.rows).all()


def test_rows_without_a_decision_are_left_out(tmp_path):
    found = count(tmp_path, ROWS.assign(decision=["yes", None, "yes", "no", "yes"]))
    assert (found.undecided, found.rows.sum()) == (1, 3)


@pytest.mark.parametrize(
    "column",
    [
        pd.to_datetime(ROWS["at"]),
        pd.to_datetime(ROWS["at"]).dt.tz_localize("Europe/Berlin"),
        ROWS["at"] + "T23:30:00",
        ROWS["at"].str[:7],
    ],
)
def test_dates_of_all_kinds_are_read(tmp_path, column):
    found = count(tmp_path, ROWS.assign(at=column), name="rows.parquet")
    assert found.rows.sum(axis=(1, 2, 3)).tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("names", "order", "in_order"),
    [
        (["2026-10", "2026-9", "2026-10", "2026-9", None], ("2026-9", "2026-10"), False),
        (["10", "9", "10", "9", None], ("9", "10"), False),
        (
            ["2026 Q4", "2026 Q1", "2025 Q4", "2026 Q1", None],
            ("2025 Q4", "2026 Q1", "2026 Q4"),
            False,
        ),
        (
            ["2026 May", "2026 April", "2026 May", "2026 May", None],
            ("2026 April", "2026 May"),
            False,
        ),
        (["spring", "autumn", "spring", "autumn", None], ("spring", "autumn"), True),
    ],
)
def test_names_of_periods_are_put_in_order(tmp_path, names, order, in_order):
    found = count(tmp_path, ROWS.assign(at=names), by="at")
    assert found.periods == order
    assert found.in_order_of_rows is in_order


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"by": "month"}, "no column 'month'; name a column of periods, or a column of dates"),
        ({"at": ["05.01.2026"] * 5}, {}, r"'05.01.2026' at row 1, expected a date"),
        ({"at": [None] * 5}, {}, "no row of .* has both a period and a decision; 5 rows"),
        ({"at": range(5)}, {"by": "at:month"}, "expected a date such as 2026-03-31"),
        ({"at": ["1900-01-01", *["2026-01-01"] * 4]}, {"by": "at:day"}, "more than 400 periods"),
        ({"score": [0.7, 1.2, 0.5, 0.4, 0.9]}, {"score": "score"}, "is 1.2 at row 2, expected a"),
        ({"score": [0.3, 0.2, 0.5, 0.4, 0.9]}, {"score": "score"}, "row 1 .* another model"),
        ({"y": ["good"] * 5}, {}, "the label 'y' holds 'good'.* between 'no' and 'yes'"),
        ({"decision": ["granted"] * 5}, {}, "the decision 'decision' holds 'granted'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, options, said):
    with pytest.raises(InvalidInputError, match=said):
        count(tmp_path, ROWS.assign(**change), **options)


def test_dates_need_a_resolution_and_hints_name_the_column(tmp_path):
    frame = ROWS.assign(decided_at=pd.to_datetime(ROWS["at"]))
    with pytest.raises(InvalidInputError, match=r"holds dates; say how long.*decided_at:month"):
        count(tmp_path, frame, by="decided_at", name="rows.parquet")
    with pytest.raises(InvalidInputError, match="such as --by decided_at:month"):
        count(tmp_path, frame, by="month", name="rows.parquet")


def test_a_column_may_have_a_colon_in_its_name():
    assert PeriodColumn.parse("at:month", ["at:month", "at"]) == PeriodColumn("at:month")
    assert PeriodColumn.parse("a:b:week", ["a:b"]) == PeriodColumn("a:b", "week")


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_periods_hold_their_days(day):
    days = np.array([(day - date(1970, 1, 1)).days])
    year, week, _ = day.isocalendar()
    expected = {
        "day": day.isoformat(),
        "week": f"{year}-W{week:02}",
        "month": f"{day.year}-{day.month:02}",
        "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
        "year": f"{day.year}",
    }
    for resolution, name in expected.items():
        assert period_name(int(period_of(days, resolution)[0]), resolution) == name


def test_tables_are_read_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("fairboost.tabular.files.BATCH_ROWS", 2)
    batches = []
    frame = ROWS.dropna(subset=["at"])
    frame.to_parquet(tmp_path / "rows.parquet")
    file = TableFile(tmp_path / "rows.parquet")
    asked = DecidedRows(
        PeriodColumn("at", "month"), ("sex",), ("no", "yes"), "y", None, "decision", 0.5
    )
    found = count_periods(file, asked, lambda: batches.append(1))
    assert len(batches) == 2
    assert found.rows.sum() == 4
