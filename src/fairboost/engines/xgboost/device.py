"""XGBoost on a GPU, whose scores stay there.

Facts of XGBoost that shape this file (3.4):

* Predictions of a matrix are always copied to the host, so an objective that XGBoost calls costs
  four times a round of 10 million rows. ``Booster.boost`` takes gradients of the device, and
  predicting in place from a table of the device leaves its result there. So the scores of a table
  are kept here (:class:`TableScores`): each round adds what its own trees say. Of many rows, a
  kernel of ours says it in a third of the time, once the tree has been read.
* Prediction adds the trees up from zero, and the starting score last. The boosters here start from
  a score of exactly 0, and the model that is kept gets its starting score afterwards: with one
  tree a round, sums are then the same, bit by bit, as those of a prediction on the GPU.
* A table that XGBoost alone can read (categories, sparse, on disk), or evaluation sets, whose
  metrics need the starting score, take the way over the host: :class:`FetchedScores`.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Sequence
from copy import copy
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xgboost

from fairboost._typing import Float32Array, Matrix
from fairboost.data.device_arrays import is_device_array, is_device_frame, is_on_device, on_host
from fairboost.engines.xgboost.calls import ScoreReader, library
from fairboost.engines.xgboost.newest_trees import newest_trees
from fairboost.exceptions import EngineOptionError, InvalidInputError
from fairboost.kernel.device import Device, import_cupy

LEAST_CURVATURE = np.float32(1e-16)
"""Of XGBoost's own logistic loss, for a row of weight 1. With none at all, as where scores are far
out, XGBoost would leave rows where they are, however wrong."""

INFINITE = (
    "X has infinity, or a value beyond single precision, which XGBoost does not read; clip such "
    "values, or make them missing (NaN)"
)

EVEN_ODDS = 0.5
"""The ``base_score`` whose log-odds are exactly 0."""

FALL_FROM, ROWS_PER_TREE = 20_000_000, 100_000
"""From how many rows on fairboost itself sends the rows of a table down the newest tree, and how
many rows there must be for each tree of the booster. XGBoost's call takes three times as long: it
unpacks all features of a row, and a tree reads six of them. But reading the tree takes time, and
the more trees, the more time (:mod:`fairboost.engines.xgboost.newest_trees`)."""

ROWS_AT_ONCE = 1_000_000
"""Rows that are looked through at a time."""

SHARE_OF_MEMORY = 0.5
"""Of the free memory of a device, what a table that is copied to it may take."""


def ordinal_of(device: Any) -> int | None:
    """The number of the GPU that an option names; None for the CPU.

    Examples
    --------
    >>> ordinal_of("cuda"), ordinal_of("cuda:1"), ordinal_of("cpu"), ordinal_of(None)
    (0, 1, None, None)
    """
    if device in (None, "cpu"):
        return None
    if not (found := re.fullmatch(r"(?:cuda|gpu)(?::(\d+))?", str(device))):
        raise EngineOptionError(
            f"the estimator sets device={device!r}, expected 'cpu', 'cuda', or 'cuda:1' for the "
            "second GPU; leave device out to train on the CPU"
        )
    return int(found.group(1) or 0)


@cache
def open_device(ordinal: int) -> Device:
    """A GPU to train on; raises where there is none, or where XGBoost cannot use it."""
    if not xgboost.build_info().get("USE_CUDA", False):
        raise EngineOptionError(
            "a GPU as device= needs an XGBoost that is built for GPUs, and this one is not; run "
            "pip install xgboost (not xgboost-cpu), or leave device out to train on the CPU"
        )
    device = Device(ordinal, least=float(LEAST_CURVATURE))
    count = device.arrays.cuda.runtime.getDeviceCount()
    if ordinal >= count:
        raise EngineOptionError(
            f"device='cuda:{ordinal}' was not found: this machine has {count} GPU"
            f"{'s' * (count > 1)}, from 'cuda:0' on"
        )
    return device


@cache
def at_hand(ordinal: int) -> Device | None:
    """A GPU to predict on, if there is one: a model may be read where there is none."""
    try:
        return open_device(ordinal)
    except EngineOptionError:
        return None


def pooled(device: Device | None) -> dict[str, bool]:
    """What to tell XGBoost so that it takes memory of a GPU from CUDA's pool.

    Otherwise it asks for memory, and gives it back, in every round, and the GPU stands still: at a
    million rows for a tenth of the round. RMM, if the user has chosen it, has a pool of its own.
    """
    told, name = xgboost.get_config(), "use_cuda_async_pool"
    if device is None or told.get("use_rmm") or name not in told or not device.has_pool:
        return {}
    return {name: True}


def table_on(device: Device, X: Matrix) -> Any:
    """A table of plain numbers as an array on the device; None where it cannot be one.

    Parameters
    ----------
    device : Device
        The device.
    X : Matrix
        The table. CuPy's stays where it is; cuDF's, NumPy's and pandas' are copied, in single
        precision, as XGBoost reads them.
    """
    if is_device_frame(X):
        if not all(getattr(dtype, "kind", "O") in "fiub" for dtype in X.dtypes):
            return None
        X = device.arrays.ascontiguousarray(X.to_cupy(np.float32, na_value=np.nan))
    if is_device_array(X):
        X = device.put(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)
    if isinstance(X, pd.DataFrame):
        if not all(isinstance(t, np.dtype) and t.kind in "fiub" for t in X.dtypes):
            return None
    elif not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        return None
    if 4 * X.size > SHARE_OF_MEMORY * device.free_memory():
        return None
    with np.errstate(over="ignore"):  # XGBoost refuses infinities
        return device.put(np.asarray(X, np.float32))


def refuse_infinity(device: Device, table: Any, missing: float) -> None:
    """Refuse infinity, as XGBoost does in rows that it bins; rows held out are not binned."""
    for start in range(0, len(table), ROWS_AT_ONCE):  # in a few small arrays
        piece = table[start : start + ROWS_AT_ONCE]
        found = device.arrays.isinf(piece)
        if np.isinf(missing):
            found &= piece != missing
        if bool(found.any()):
            raise InvalidInputError(INFINITE)


class TableScores:
    """Scores of all rows of a table on a device, by one booster that grows.

    Parameters
    ----------
    device : Device
        The device.
    table : (n, n_features) array on the device
        The rows.
    missing : float
        The value that stands for a missing one.
    start : float or (n,) float32
        The scores before the first tree.
    parts : sequence of (m,) int
        Rows whose scores are wanted together; every row is in one part. All are one by default.
    per_round : int, default=1
        Trees of a round.
    """

    def __init__(
        self,
        device: Device,
        table: Any,
        missing: float,
        start: Any,
        parts: Sequence[Any] = (),
        per_round: int = 1,
    ) -> None:
        self.device, self.table, self.missing = device, table, missing
        self.per_round = per_round
        self.rounds, self.trees_say = 0, TreesSay(table, missing)
        # All that follows is in the order of the parts, so that a round writes in one go.
        self.which, self.ends = None, [0, len(table)]
        if parts:
            self.ends = np.cumsum([0, *map(len, parts)]).tolist()
            joined = [device.put(part, np.int32) for part in parts]
            self.which = joined[0] if len(joined) == 1 else device.arrays.concatenate(joined)
        if np.ndim(start):
            start = device.put(start, np.float32)
            start = start if self.which is None else start[self.which]
        self._start_from(start)

    def _start_from(self, start: Any) -> None:
        self.start = start
        self.sums = self.device.arrays.zeros(self.ends[-1], np.float32)
        self.latest = self.sums + start
        self.parts = [self.latest[lo:hi] for lo, hi in pairwise(self.ends)]

    def update(self, booster: xgboost.Booster) -> None:
        """Add the trees that the booster has grown since."""
        told = self.which, self.sums, self.start, self.latest
        for k in range(self.rounds, booster.num_boosted_rounds()):
            if self._falls(booster, k):
                for nodes in newest_trees(booster, self.per_round):
                    self.device.fall(self.table, self.missing, nodes, *told)
            else:
                self.device.advance(self.trees_say(booster, k), *told)
            self.rounds = k + 1

    def _falls(self, booster: xgboost.Booster, round_: int) -> bool:
        """Whether rows are sent down the trees of a round here."""
        n, rounds = len(self.table), booster.num_boosted_rounds()
        least = max(FALL_FROM, ROWS_PER_TREE * rounds * self.per_round)
        return n >= least and round_ + 1 == rounds  # of others, the trees cannot be read

    def going_on(self) -> TableScores:
        """The same rows and parts, for a booster that starts from these scores."""
        other = copy(self)
        other.rounds = 0
        other._start_from(self.latest.copy())
        return other


class DeviceRows:
    """A part of a table, whose scores are wanted after every round.

    Parameters
    ----------
    scores_of : TableScores
        Those of all rows.
    part : int, default=0
        Which of its parts.
    """

    def __init__(self, scores_of: TableScores, part: int = 0) -> None:
        self.scores_of, self.part = scores_of, part

    def scores(self, booster: xgboost.Booster) -> Any:
        """Log-odds by all trees that the booster has; the next round overwrites them."""
        self.scores_of.update(booster)
        return self.scores_of.parts[self.part]

    def of(self, scores_of: TableScores) -> DeviceRows:
        """The same rows, scored by another booster."""
        return DeviceRows(scores_of, self.part)


class FetchedScores:
    """Rows that XGBoost scores, which copies the scores to the host; they are copied back.

    Parameters
    ----------
    device : Device
        The device.
    matrix : xgboost.DMatrix
        The rows.
    """

    def __init__(self, device: Device, matrix: xgboost.DMatrix) -> None:
        self.device, self.matrix = device, matrix
        self.reader: ScoreReader | None = None

    def scores(self, booster: xgboost.Booster) -> Any:
        """Log-odds by all trees that the booster has."""
        if self.reader is None or self.reader.booster is not booster:
            self.reader = ScoreReader(booster, self.matrix)
        return self.device.put(self.reader.read().copy())

    def starting_from(self, scores: Any) -> FetchedScores:
        """The same rows for a booster that starts from given scores."""
        self.matrix.set_base_margin(self.device.get(scores))
        return FetchedScores(self.device, self.matrix)


ScoredRows: TypeAlias = DeviceRows | FetchedScores
"""Rows whose scores are on a device."""


def device_of(rows: ScoredRows) -> Device:
    """The device that scores are on."""
    return rows.device if isinstance(rows, FetchedScores) else rows.scores_of.device


def going_on(rows: Sequence[ScoredRows], scores: Sequence[Any]) -> list[ScoredRows]:
    """The same rows for boosters that start from the given scores, which are their latest."""
    tables: dict[int, TableScores] = {}
    found: list[ScoredRows] = []
    for some, start in zip(rows, scores, strict=True):
        if isinstance(some, FetchedScores):
            found.append(some.starting_from(start))
            continue
        old = some.scores_of  # rows of one table share its scores
        found.append(some.of(tables.setdefault(id(old), old.going_on())))
    return found


_IN_PLACE = "XGBoosterPredictFromCudaArray"


class TreesSay:
    """What the trees of a round add to the scores of a table, on the device.

    Parameters
    ----------
    table : (n, n_features) array
        The rows.
    missing : float
        The value that stands for a missing one.
    """

    def __init__(self, table: Any, missing: float) -> None:
        self.table, self.missing = table, missing
        loaded = library()
        # As Booster.inplace_predict does, which looks at the table anew in every round.
        self.call = getattr(loaded, _IN_PLACE, None) if is_device_array(table) else None
        if self.call is not None:
            self.told = json.dumps(table.__cuda_array_interface__).encode()
            asked = {"type": 1, "training": False, "missing": missing, "strict_shape": False}
            self.asked = json.dumps({**asked, "cache_id": 0})[:-1]
            self.sizes, self.n_sizes = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
            self.values = ctypes.POINTER(ctypes.c_float)()
            self.place, self.view = 0, None

    def __call__(self, booster: xgboost.Booster, round_: int) -> Any:
        """An array of XGBoost's own, which its next prediction overwrites."""
        if self.call is None:
            return booster.inplace_predict(
                self.table,
                iteration_range=(round_, round_ + 1),
                predict_type="margin",
                missing=self.missing,
                validate_features=False,
            )
        span = f', "iteration_begin": {round_}, "iteration_end": {round_ + 1}}}'
        failed = self.call(
            booster.handle,
            self.told,
            (self.asked + span).encode(),
            ctypes.c_void_p(),
            ctypes.byref(self.sizes),
            ctypes.byref(self.n_sizes),
            ctypes.byref(self.values),
        )
        if failed:
            loaded: Any = library()
            raise xgboost.core.XGBoostError(loaded.XGBGetLastError().decode())
        place = ctypes.cast(self.values, ctypes.c_void_p).value or 0
        if place != self.place:  # XGBoost has the same array for it in every round, as a rule
            self.place, self.view = place, _view(self.table, place)
        return self.view


def _view(table: Any, address: int) -> Any:
    """XGBoost's own array of one number for each row of a table; its next call overwrites it."""
    cupy, n = import_cupy(), len(table)
    memory = cupy.cuda.UnownedMemory(address, 4 * n, table, table.device.id)
    return cupy.ndarray((n,), np.float32, cupy.cuda.MemoryPointer(memory, 0))


def starting_score(params: dict[str, Any], n_features: int) -> float:
    """The score that a booster with some parameters starts from, as XGBoost computes it."""
    asked = {name: params[name] for name in ("objective", "base_score")}
    booster = xgboost.Booster({**asked, "num_feature": n_features, "nthread": 1})
    nobody = np.zeros((1, n_features), np.float32)
    found = booster.inplace_predict(nobody, predict_type="margin", validate_features=False)
    return float(found[0])


def scores_of(device: Device, booster: xgboost.Booster, X: Matrix, span: tuple[int, int],
              missing: float) -> Float32Array | Any | None:  # fmt: skip
    """Log-odds of rows by some rounds, computed on a device; None where XGBoost is to read X.

    They are on the device where X is, and on the host where it is not.
    """
    with device.used():
        table = table_on(device, X)
        if table is None:
            return None
        found = booster.inplace_predict(
            table, iteration_range=span, predict_type="margin",
            missing=missing, validate_features=False,
        )  # fmt: skip
    return found if is_on_device(X) else on_host(found)
