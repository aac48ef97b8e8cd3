"""Counts of rows on a GPU, by the arithmetic that they are made of; on one itself in
``tests/engines/xgboost/test_device.py``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.data.device_arrays import _whole_sums, beside, count_by, plain_column


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3_000),
    st.sampled_from([1.0, 1e-70, 1e-20, 1e20, 1e60]),
    st.sampled_from([0.0, 1.0, 8.0]),
)
def test_sums_of_weights_are_exact_in_any_order(seed, n, unit, spread):
    rng = np.random.default_rng(seed)
    weight = unit * rng.lognormal(0.0, spread, n) / n
    weight[rng.random(n) < 0.2] = 0.0
    codes, order = rng.integers(0, 5, n), rng.permutation(n)
    found = _whole_sums(codes, weight, 6)
    np.testing.assert_allclose(found, np.bincount(codes, weight, 6), rtol=1e-11)
    np.testing.assert_array_equal(found, _whole_sums(codes[order], weight[order], 6))


@pytest.mark.parametrize("largest", [2e5, 1e6, 1e10])
def test_one_large_weight_does_not_swallow_the_others(largest):
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 100_000).astype(np.float32)
    codes = np.arange(len(weight)) % 4
    weight[0] = largest
    for power in (1, 2):
        values = weight.astype(np.float64) ** power
        found, expected = _whole_sums(codes, values, 4), np.bincount(codes, values)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_rows_and_no_weight():
    assert count_by(np.empty(0, np.uint8), 3).tolist() == [0.0] * 3
    assert count_by(np.empty(0, np.uint8), 3, np.empty(0)).tolist() == [0.0] * 3
    assert _whole_sums(np.array([0, 1]), np.zeros(2, np.float32), 3).tolist() == [0.0] * 3


def test_what_is_on_the_host_stays():
    codes = np.array([1, 0, 1])
    assert beside([3.0, 4.0], codes)[codes].tolist() == [4.0, 3.0, 4.0]
    assert plain_column(codes) is codes
