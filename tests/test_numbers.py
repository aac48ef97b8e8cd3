"""Numbers as users write them and as JSON takes them."""

import json
from decimal import Decimal

import numpy as np
import pytest

from fairboost._numbers import is_finite, is_number, plain, probabilities


@pytest.mark.parametrize("value", [1, 0.5, np.int8(3), np.float32(2.0), float("nan")])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, "1", None, [1], Decimal(1), np.bool_(True)])
def test_what_is_no_number(value):
    assert not is_number(value)


def test_finite_numbers():
    assert is_finite(0) and not is_finite(np.inf) and not is_finite(float("nan"))
    assert not is_finite(True)


def test_plain_values_survive_json():
    value = {"a": np.arange(3), "b": (np.float64(0.1), {"c": np.bool_(True)}), "d": "text"}
    expected = {"a": [0, 1, 2], "b": [0.1, {"c": True}], "d": "text"}
    assert json.loads(json.dumps(plain(value))) == expected


def test_probabilities_are_those_of_the_engine(kind, toy):
    """To the last digit, as decisions follow from them."""
    for rate, least in ((0.1, 100), (3.0, 5)):
        stock = kind.make(learning_rate=rate, n_estimators=60).fit(toy.X, toy.y)
        found = probabilities(kind.scores(stock, toy.X), single=kind.name == "xgboost")
        assert len(np.unique(found)) > least
        np.testing.assert_array_equal(found, stock.predict_proba(toy.X)[:, 1])
