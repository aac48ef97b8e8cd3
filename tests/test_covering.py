"""Combinations for tests."""

from itertools import combinations, product

import pytest

from tests.covering import covering


@pytest.mark.parametrize("sizes", [(3, 2), (4, 3, 2), (3, 3, 3), (2, 2, 2, 2), (9, 3, 2)])
def test_every_two_values_meet(sizes):
    lists = [[f"{name}{k}" for k in range(n)] for name, n in zip("abcd", sizes, strict=False)]
    rows = covering(*lists)
    for (i, some), (j, others) in combinations(enumerate(lists), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(some, others))
    first, second, *_ = sorted(sizes)[::-1]
    assert first * second <= len(rows) <= first * second + 3
    assert len(rows) == len(set(rows))
