"""What generators share: columns drawn in blocks of rows, each with a random stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fairboost._typing import Float32Array
from fairboost.exceptions import InvalidInputError

CodeArray: TypeAlias = NDArray[np.int8]
Columns: TypeAlias = dict[str, Any]


def check_rows_and_seed(name: str, n: object, least: int, seed: object, why: str = "") -> None:
    """Refuse a number of rows or a seed that is none; ``name`` is that of the parameter."""
    if not isinstance(n, Integral) or n < least:
        raise InvalidInputError(
            f"{name} must be a whole number of rows, at least {least:,}{why}; found {n!r}"
        )
    if not isinstance(seed, Integral) or seed < 0:
        raise InvalidInputError(f"seed must be a whole number, at least 0; found {seed!r}")


def draw_blocks(
    seed: int, edges: Sequence[int], draw: Callable[[np.random.Generator, int, int], Columns]
) -> Columns:
    """Draw rows block by block: memory is needed for the columns, and for one block more.

    Parameters
    ----------
    seed : int
        Same seed, same rows.
    edges : sequence of int
        Where blocks begin, and where the last one ends.
    draw : callable
        From a random stream, the number of a block and its rows, to columns; a longer block is
        cut off.
    """
    columns: Columns = {}
    for number, (start, stop) in enumerate(pairwise(edges)):
        rng = np.random.default_rng([seed, number])
        for name, values in draw(rng, number, stop - start).items():
            if name not in columns:
                columns[name] = np.empty(edges[-1], values.dtype)
            columns[name][start:stop] = values[: stop - start]
    return columns


def choose(rng: np.random.Generator, shares: ArrayLike, line: NDArray[np.integer]) -> CodeArray:
    """Draw one category per row; ``line`` says which line of the table of shares applies."""
    edges = np.cumsum(np.atleast_2d(shares), axis=1)[:, :-1].astype(np.float32)
    passed = uniform(rng, len(line))[:, None] >= edges[line]
    chosen: CodeArray = passed.sum(axis=1, dtype=np.int8)
    return chosen


def normal(rng: np.random.Generator, rows: int) -> Float32Array:
    """Standard normal numbers."""
    return rng.standard_normal(rows, dtype=np.float32)


def uniform(rng: np.random.Generator, rows: int) -> Float32Array:
    """Numbers between 0 and 1."""
    return rng.random(rows, dtype=np.float32)


def name_categories(columns: Columns, categories: Mapping[str, Sequence[str]]) -> None:
    """Turn codes into categories, in place."""
    for name, values in categories.items():
        columns[name] = pd.Categorical.from_codes(columns[name], pd.Index(values))
