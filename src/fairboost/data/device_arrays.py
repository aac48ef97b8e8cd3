"""Tables and columns in the memory of a GPU, known by what they can do: no library is imported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairboost._typing import ArrayLike, FloatArray, Matrix
from fairboost.exceptions import InvalidInputError


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

    Weights are 0 or more. The threads of a GPU add them up in no order. So there they are whole
    numbers of a small unit: with no sum above 2**53 each is exact, and the same in every run.

    Examples
    --------
    >>> count_by(np.array([0, 2, 2]), 3, np.array([0.5, 1.0, 2.0])).tolist()
    [0.5, 0.0, 3.0]
    """
    unit = 1.0
    if weight is not None and is_device_array(codes) and len(codes):
        most = max(float(weight.max()), 1e-30)
        unit = 2.0 ** math.floor(52 - math.log2(len(codes) * most))
        weight = np.rint(weight * unit)
    found: FloatArray = np.asarray(on_host(np.bincount(codes, weight, n)), np.float64)
    return found / unit


def check_not_on_device(X: Matrix, what: str = "X") -> None:
    """Refuse a table on a GPU for a model that is on the CPU."""
    if is_on_device(X):
        raise InvalidInputError(
            f"{what} is in the memory of a GPU ({type(X).__name__}), and the model is on the CPU; "
            "train with XGBClassifier(device='cuda'), or copy the table with X.get() or "
            "X.to_pandas()"
        )
