"""Tables and columns in the memory of a GPU, known by what they can do: no library is imported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, Matrix
from fairboost.exceptions import InvalidInputError

LEAST = 1e-250
"""Weights below this are none."""


def is_device_array(values: Any) -> bool:
    """Whether an array, of CuPy or another library, is in the memory of a GPU."""
    if hasattr(values, "to_cupy"):  # of cuDF: a column of categories would raise at the next line
        return False
    return hasattr(values, "__cuda_array_interface__") and hasattr(values, "dtype")


def is_device_frame(table: Any) -> bool:
    """Whether a table is a data frame of cuDF."""
    return hasattr(table, "to_cupy") and hasattr(table, "columns")


def is_device_column(values: Any) -> bool:
    """Whether a column is a series of cuDF."""
    return hasattr(values, "to_cupy") and not hasattr(values, "columns")


def is_on_device(table: Any) -> bool:
    """Whether a table is in the memory of a GPU, as an array or as a data frame."""
    return is_device_array(table) or is_device_frame(table)


def plain_column(values: Any) -> Any:
    """A column of cuDF as an array of CuPy, or as one of pandas if it has gaps or no numbers.

    Others stay as they are.
    """
    if not is_device_column(values):
        return values
    plain = getattr(values.dtype, "kind", "O") in "fiub" and not values.has_nulls
    return values.to_cupy() if plain else values.to_pandas()


def on_host(values: ArrayLike | Matrix) -> Any:
    """The same values in the memory of the machine; what is there already stays.

    Examples
    --------
    >>> on_host([1, 2])
    [1, 2]
    """
    if hasattr(values, "to_cupy"):  # cuDF
        return values.to_pandas()
    if not is_device_array(values):
        return values
    if hasattr(values, "get"):  # CuPy
        return values.get()
    if hasattr(values, "cpu"):  # PyTorch
        return np.asarray(values.cpu())
    raise InvalidInputError(
        f"{type(values).__name__} is an array on a GPU that fairboost cannot copy; pass one of "
        "CuPy, cupy.asarray(...), or of NumPy"
    )


def beside(table: Any, rows: Any) -> Any:
    """A short table, to be looked up by rows, where these are.

    Examples
    --------
    >>> codes = np.array([0, 1, 1])
    >>> beside(["b", "a"], codes)[codes].tolist()
    ['b', 'a', 'a']
    """
    return np.asarray(table, like=rows)


def count_by(codes: Any, n: int, weight: Any = None) -> FloatArray:
    """How often each code below ``n`` occurs, or the weight of its rows, on the host.

    Weights are 0 or more. The threads of a GPU add them up in no order. So there they are added up
    as whole numbers of a unit, which is exact as long as no sum is above 2**53, and the same in
    every run. What is left of the weights is added up again, in smaller units: weights may differ
    by many orders of magnitude.

    Examples
    --------
    >>> count_by(np.array([0, 2, 2]), 3, np.array([0.5, 1.0, 2.0])).tolist()
    [0.5, 0.0, 3.0]
    """
    if not len(codes):  # which CuPy does not count
        return np.zeros(n)
    if weight is None or not is_device_array(codes):
        return np.asarray(on_host(np.bincount(codes, weight, n)), np.float64)
    return _whole_sums(codes, weight, n)


def _whole_sums(codes: Any, weight: Any, n: int) -> FloatArray:
    """Sums of weights by code, to the last digits of double precision, in whatever order."""
    rest, found = weight.astype(np.float64), np.zeros(n)
    for _ in range(4):  # from 1 down to 1e-36 of the largest weight of a million
        most = float(np.abs(rest).max())
        if most < LEAST:
            break
        unit = 2.0 ** (51 - math.frexp(len(codes) * most)[1])
        whole = np.rint(rest * unit)
        found += on_host(np.bincount(codes, whole, n)) / unit
        rest = rest - whole / unit
    return found


def check_not_on_device(X: Matrix, what: str = "X") -> None:
    """Refuse a table on a GPU for a model that is on the CPU."""
    if is_on_device(X):
        raise InvalidInputError(
            f"{what} is in the memory of a GPU ({type(X).__name__}), and the model is on the CPU; "
            "train with XGBClassifier(device='cuda'), or copy the table with X.get() or "
            "X.to_pandas()"
        )
