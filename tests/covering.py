"""Few combinations of many values: every two values of two lists meet in one of them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, product
from typing import Any


def covering(*lists: Collection[Any]) -> list[tuple[Any, ...]]:
    """Rows for ``parametrize``, in which each pair of values of two lists is there at least once.

    Parameters
    ----------
    *lists : collection
        The values of each parameter. With two lists, it is their product.
    """
    places = [range(len(values)) for values in lists]
    left = {
        (i, a, j, b)
        for i, j in combinations(range(len(lists)), 2)
        for a, b in product(places[i], places[j])
    }
    rows: list[tuple[int, ...]] = []
    while left:
        rows.append(max(product(*places), key=lambda row: len(_pairs(row) & left)))
        left -= _pairs(rows[-1])
    values = [list(each) for each in lists]
    return [tuple(values[i][k] for i, k in enumerate(row)) for row in sorted(rows)]


def _pairs(row: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}
