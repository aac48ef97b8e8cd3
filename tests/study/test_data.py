"""Rows of a study: where they come from, and how they are divided."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest

from fairboost.study import read_study
from fairboost.study.data import divide, read_source

CSV = ('generator = "loans"\nrows = 1500', 'file = "rows.csv"\nlabel = "paid"\nsensitive = "sex"')


@pytest.fixture
def frame(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n), "town": rng.choice(["x", "y"], n),
            "code": rng.integers(0, 4, n), "sex": rng.choice(["f", "m"], n),
            "title": rng.choice(["ms", "mr"], n),
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "paid": rng.choice(["no", "yes"], n),
        }
    )  # fmt: skip
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return frame


def test_a_file_of_ones_own(write, frame, tmp_path):
    more = (
        'sensitive = "sex"',
        'sensitive = "sex"\nrestates = ["title"]\ncategorical = ["code"]\ndrop = ["day"]',
    )
    source = read_source(read_study(write(CSV, more)))
    assert list(source.rows.X) == ["age", "town", "code", "sex", "title"]
    assert (source.rows.y == (frame["paid"] == "yes")).all()
    for column in ("town", "code", "sex"):
        assert isinstance(source.rows.X[column].dtype, pd.CategoricalDtype)
    assert source.hidden == ("sex", "title")
    assert list(source.rows.without(source.hidden).X) == ["age", "town", "code"]
    content = (tmp_path / "rows.csv").read_bytes()
    assert source.checksum == hashlib.sha256(content).hexdigest()


def test_the_positive_label(write, frame):
    path = write(CSV, ('label = "paid"', 'label = "paid"\npositive = "no"'))
    assert (read_source(read_study(path)).rows.y == (frame["paid"] == "no")).all()


def test_a_split_by_time(write, frame):
    text = (
        '[split]\nkind = "temporal"\ncolumn = "day"\nvalidation_from = 2024-06-01\n'
        "test_from = 2025-01-01\n[metrics]"
    )
    config = read_study(write(CSV, ("[metrics]", text)))
    source = read_source(config)
    assert "day" not in source.rows.X
    parts = divide(config, source, 0)
    days = pd.to_datetime(frame["day"])
    assert days[parts.train.X.index].max() < pd.Timestamp("2024-06-01")
    assert days[parts.validation.X.index].min() == pd.Timestamp("2024-06-01")
    assert days[parts.validation.X.index].max() < pd.Timestamp("2025-01-01")
    assert days[parts.test.X.index].min() == pd.Timestamp("2025-01-01")
    assert sum(map(len, vars(parts).values())) == len(frame)


def test_random_splits_take_every_row_once(write):
    config = read_study(write())
    source = read_source(config)
    parts = divide(config, source, 0)
    index = np.concatenate([part.X.index for part in vars(parts).values()])
    assert sorted(index) == list(range(1500))
    assert [len(part) for part in vars(parts).values()] == [900, 300, 300]
    again, other = divide(config, source, 0), divide(config, source, 1)
    assert again.test.X.index.equals(parts.test.X.index)
    assert not other.test.X.index.equals(parts.test.X.index)


def test_fewer_rows_of_a_file(write, frame):
    config = read_study(write(CSV, ('label = "paid"', 'label = "paid"\nrows = 200')))
    parts = divide(config, read_source(config), 0)
    assert sum(map(len, vars(parts).values())) == 200


def test_account_openings_by_month(write):
    text = (
        '[split]\nkind = "temporal"\ncolumn = "month"\nvalidation_from = 6\ntest_from = 7\n'
        "[metrics]"
    )
    config = read_study(
        write(('"loans"\nrows = 1500', '"account_openings"\nrows = 4000'), ("[metrics]", text))
    )
    source = read_source(config)
    parts = divide(config, source, 0)
    assert source.hidden == ("age",) and "age" in source.rows.X
    assert set(source.time[parts.test.X.index]) == {7}
    assert set(source.time[parts.validation.X.index]) == {6}


def test_parts_keep_features_labels_and_groups_together(write):
    config = read_study(write())
    source = read_source(config)
    for part in vars(divide(config, source, 3)).values():
        rows = part.X.index.to_numpy()
        assert (part.y == source.rows.y[rows]).all()
        assert (part.s.to_numpy() == source.rows.s.to_numpy()[rows]).all()
