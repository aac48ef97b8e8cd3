"""Calls of a round that XGBoost's Python makes slowly, made by way of its C interface.

``Booster.predict`` and ``Booster.update`` compare the names of features, ask the library for them
one by one, and build a class for every array. On a few ten thousand rows that takes a tenth of a
round. The functions called here are documented in XGBoost's ``c_api.h``, and have been the same
since 2.1. Where the library does not have them, or Python does not say where the library is, the
public methods are called. Scores and trees are the same either way.
"""

from __future__ import annotations

import ctypes
import json
from functools import cache
from typing import Any

import numpy as np
import xgboost

from fairboost._typing import Float32Array
from fairboost.data.device_arrays import is_device_array
from fairboost.engines.port import Gradients

_NAMES = ("XGBoosterPredictFromDMatrix", "XGBoosterTrainOneIter", "XGBGetLastError")
_MARGIN = 1  # the type of prediction, in the words of the C interface
_FLOATS, _SIZES = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint64)


@cache
def library() -> ctypes.CDLL | None:
    """XGBoost's library; its place is not public, and may change."""
    found = getattr(xgboost.core, "_LIB", None)
    return found if all(hasattr(found, name) for name in _NAMES) else None


class ScoreReader:
    """Reads the scores of the rows of one matrix, by one booster, again and again.

    Parameters
    ----------
    booster : xgboost.Booster
        The booster, which may grow between calls. It must know the matrix's features.
    matrix : xgboost.DMatrix
        The rows.
    training : bool, default=False
        Whether gradients are made of the scores, for which DART leaves out trees.
    """

    def __init__(
        self, booster: xgboost.Booster, matrix: xgboost.DMatrix, training: bool = False
    ) -> None:
        self.booster, self.matrix, self.training = booster, matrix, training
        span = {"iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
        self.asked = json.dumps({"type": _MARGIN, "training": training, **span}).encode()
        self.values, self.sizes, self.n_sizes = _FLOATS(), _SIZES(), ctypes.c_uint64()
        self.scores = np.empty(0, np.float32)

    def read(self) -> Float32Array:
        """Scores by all trees that the booster has; the next call overwrites them."""
        loaded = library()
        if loaded is None:
            found = self.booster.predict(
                self.matrix, output_margin=True, training=self.training, validate_features=False
            )
            self.scores = np.asarray(found)
            return self.scores
        failed = loaded.XGBoosterPredictFromDMatrix(
            self.booster.handle,
            self.matrix.handle,
            self.asked,
            ctypes.byref(self.sizes),
            ctypes.byref(self.n_sizes),
            ctypes.byref(self.values),
        )
        _check(loaded, failed)
        if not self.values:  # on a cluster, a worker may hold none of the rows held out
            return np.empty(0, np.float32)
        shape = tuple(self.sizes[: self.n_sizes.value])
        if self.scores.shape != shape:
            self.scores = np.empty(shape, np.float32)
        # XGBoost's own array goes with the next call of this thread.
        ctypes.memmove(self.scores.ctypes.data, self.values, self.scores.nbytes)
        return self.scores


def boost(
    booster: xgboost.Booster, matrix: xgboost.DMatrix, round_: int, gradients: Gradients
) -> None:
    """Let a booster, which must have had a round on the matrix before, take another.

    Parameters
    ----------
    booster : xgboost.Booster
        The booster.
    matrix : xgboost.DMatrix
        The rows that it is trained on.
    round_ : int
        Rounds that it has taken.
    gradients : two of (n,) or (n, n_classes) array
        Gradient and Hessian.
    """
    loaded = library()
    if loaded is None:
        gradient, hessian = gradients
        booster.boost(matrix, round_, grad=gradient, hess=hessian)
        return
    told = [_encoded(array) for array in gradients]
    _check(loaded, loaded.XGBoosterTrainOneIter(booster.handle, matrix.handle, round_, *told))


def _encoded(array: Any) -> bytes:
    """Where an array is and what it holds, as the C interface reads it."""
    if not is_device_array(array):
        return json.dumps(array.__array_interface__).encode()
    # Gradients of a GPU are the same arrays in every round, and asking for their place is slow.
    shape, place = array.shape, array.data.ptr
    if (known := _PLACES.get(place)) is None or known[0] != (shape, array.dtype):
        known = (shape, array.dtype), json.dumps(array.__cuda_array_interface__).encode()
        if len(_PLACES) > 64:
            _PLACES.clear()
        _PLACES[place] = known
    return known[1]


_PLACES: dict[int, tuple[Any, bytes]] = {}


def _check(loaded: Any, failed: int) -> None:
    if failed:
        raise xgboost.core.XGBoostError(loaded.XGBGetLastError().decode())
