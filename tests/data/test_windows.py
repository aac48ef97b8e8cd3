"""Windows of numbers: weights, knots, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest

from fairboost import parity, smooth
from fairboost.data.windows import Smooth, place_knots, read_numbers, windows_at
from fairboost.exceptions import ConstraintError, InvalidInputError


def test_windows_share_every_number_out():
    rng = np.random.default_rng(0)
    numbers = rng.normal(40, 20, 500)
    found = windows_at(numbers, (20, 35, 40, 70))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    assert ((found > 0).sum(axis=1) <= 2).all()
    assert (found >= 0).all()


def test_windows_interpolate_what_is_a_straight_line_between_knots():
    knots = np.array([20.0, 35.0, 40.0, 70.0])
    numbers = np.linspace(20, 70, 101)
    at_knots = np.array([1.0, -2.0, 5.0, 0.5])
    expected = np.interp(numbers, knots, at_knots)
    np.testing.assert_allclose(windows_at(numbers, knots) @ at_knots, expected, atol=1e-5)


def test_numbers_beyond_the_last_knot_belong_to_its_window_and_missing_ones_to_none():
    found = windows_at(np.array([-1e9, 1e9, np.nan]), (20, 30, 40))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_knots_follow_the_rows_that_count():
    age = np.arange(20_000) % 80 + 0.0
    assert len(place_knots("age", age, "auto")) == 10
    few = np.arange(20_000) < 4_400
    assert len(place_knots("age", age, "auto", few)) == 4
    assert len(place_knots("age", age, "auto", few & (age < 10))) == 3
    old = place_knots("age", age, 5, age >= 40)
    assert min(old) >= 40  # where the rows that count are
    found = place_knots("age", age, 4)
    weights = windows_at(age, found).sum(axis=0)
    assert weights.min() > 0.15 * len(age)


def test_ties_make_fewer_windows_and_given_knots_are_kept():
    age = np.r_[np.zeros(40), np.arange(60.0)]
    assert len(place_knots("age", age, 10)) < 10
    assert place_knots("age", age, (1.0, 2.5)) == (1.0, 2.5)


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        (np.ones(100), "1 distinct number; there is nothing to compare"),
        (np.arange(100) % 4, "4 distinct numbers; compare its values as groups with by='age'"),
        (np.r_[np.zeros(970), np.arange(30)], "more than half of the rows have the number 0"),
        (np.full(10, np.nan), "0 distinct numbers"),
    ],
)
def test_numbers_of_which_no_windows_can_be_made(numbers, match):
    with pytest.raises(InvalidInputError, match=match):
        place_knots("age", numbers.astype(float), 3)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (["31", "47"], "the column holds '31'; convert it to numbers"),
        (pd.Series(["young", "old"]), "holds 'young'"),
        (np.array(["2020-01-01"], "M8[D]"), "smooth\\('age'\\) compares rates over a number"),
        ([1.0, np.inf], "is inf in row 1, expected finite"),
        (pd.Series(["a", "b"], dtype="category"), "holds 'a'"),
    ],
)
def test_ages_that_are_no_numbers(values, match):
    with pytest.raises(InvalidInputError, match=match):
        read_numbers("age", values)


def test_missing_ages_of_any_library_are_read():
    for given in (
        [1, None, 3.5],
        pd.Series([1, None, 3], dtype="Int64"),
        np.array([1, np.nan, 3]),
    ):
        found = read_numbers("age", given)
        assert np.isnan(found).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "knots", [1, 0, -3, 101, True, "many", (3.0, 1.0), (1.0,), (1.0, np.nan), 2.5]
)
def test_knots_that_are_none(knots):
    with pytest.raises(ConstraintError, match="knots must be 'auto'"):
        smooth("age", knots=knots)


def test_a_smooth_column_is_a_name_that_remembers_its_knots():
    by = smooth("age", knots=5)
    assert by == "age"
    assert repr(by) == "smooth('age', knots=5)"
    again = pickle.loads(pickle.dumps(by))
    assert isinstance(again, Smooth)
    assert again.knots == 5
    with pytest.raises(ConstraintError, match="smooth takes the name of a column"):
        smooth(3)
    with pytest.raises(ConstraintError, match="given must be a column name"):
        parity("fnr", by="sex", given=smooth("age"))
