"""Rows in the memory of a GPU: where arrays go, and the passes of ``loops.cu`` over them.

:class:`DeviceLoops` is the twin of :class:`fairboost.kernel.loops.Loops` for scores that a GPU
keeps: the same functions of the same numbers. Scores and gradients never leave the device. A pass
hands back sums, a few kilobytes that are copied once.

Nothing here imports CuPy before a GPU is asked for. It comes with ``pip install fairboost[gpu]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import EngineOptionError

SOURCE = Path(__file__).with_name("loops.cu")
THREADS = 256  # as in loops.cu
ROWS_PER_BLOCK, MOST_BLOCKS = 4 * THREADS, 4096
ROOM = 48 * 1024
"""Bytes of shared memory that a block may have on every GPU."""

MOST = 2.0**11
"""Where losses and scores of the paper's game are cut in sums by cell. No log-odds of a training
that goes well come near."""

_C_TYPES = {"f4": "float", "f8": "double", "u1": "unsigned char", "u2": "unsigned short",
            "u4": "unsigned int"}  # fmt: skip


@cache
def import_cupy() -> Any:
    """CuPy, or an error that says what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise EngineOptionError(
            "device='cuda' needs CuPy, which is not installed; run pip install 'fairboost[gpu]', "
            "or leave device out to train on the CPU"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise EngineOptionError(
            f"device='cuda' needs an NVIDIA GPU, and none was found ({error}); leave device out "
            "to train on the CPU"
        ) from error
    if not count:
        raise EngineOptionError(
            "device='cuda' needs an NVIDIA GPU, and this machine has none; leave device out to "
            "train on the CPU"
        )
    return cupy


class Device:
    """A GPU.

    Parameters
    ----------
    ordinal : int, default=0
        Which of the machine's.
    arrays : module, optional
        The library of arrays; CuPy by default.
    """

    def __init__(self, ordinal: int = 0, arrays: Any = None) -> None:
        self.ordinal, self.arrays = ordinal, import_cupy() if arrays is None else arrays
        self.name = f"cuda:{ordinal}"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make this the device on which arrays are made."""
        with self.arrays.cuda.Device(self.ordinal):
            yield

    def put(self, array: Any, dtype: Any = None) -> Any:
        """An array on the device; one that is there already stays."""
        return self.arrays.asarray(array, dtype)

    def get(self, array: Any) -> Any:
        """An array on the host."""
        return self.arrays.asnumpy(array)

    def empty(self, n: int, dtype: Any) -> Any:
        """Room for numbers on the device."""
        return self.arrays.empty(n, dtype)

    def free_memory(self) -> int:
        """Bytes of the device that nobody uses, or that CuPy holds for later."""
        with self.used():
            free, _ = self.arrays.cuda.runtime.memGetInfo()
            return int(free) + int(self.arrays.get_default_memory_pool().free_bytes())

    def address(self, array: Any) -> int:
        """Where an array of the device begins."""
        return int(array.data.ptr)

    def loops(
        self, cells: IntArray, n_cells: int, weight: Any, gradient: Any, hessian: Any
    ) -> DeviceLoops:
        """Passes over some rows."""
        return DeviceLoops(self, cells, n_cells, weight, gradient, hessian)


class DeviceLoops:
    """Passes over some rows whose scores are on a device.

    Parameters
    ----------
    device : Device
        The device.
    cells : (n,) int
        Cell of each row.
    n_cells : int
        Number of cells.
    weight : (n,) float32, or empty
        Weights of the rows.
    gradient, hessian : (n,) float32 or float64, on the device
        What is filled.
    """

    def __init__(
        self,
        device: Device,
        cells: IntArray,
        n_cells: int,
        weight: Any,
        gradient: Any,
        hessian: Any,
    ) -> None:
        self.device, self.n, self.n_cells = device, len(cells), n_cells
        host = np.asarray(device.get(cells))
        if self.n and not 0 <= host.min() <= host.max() < n_cells:
            found = f"from {host.min()} to {host.max()}"
            raise IndexError(f"cells must be from 0 to {n_cells - 1}, found {found}")
        self.kind = np.min_scalar_type(max(n_cells - 1, 0)).str[1:]
        self.cells = device.put(host.astype(self.kind, copy=False))
        self.weight = device.put(weight, np.float32) if len(weight) else None
        self.gradient, self.hessian = gradient, hessian
        self.grid = min(max(1, -(-self.n // ROWS_PER_BLOCK)), MOST_BLOCKS)
        self.uploaded: dict[int, tuple[Any, Any]] = {}
        self.total_of_gradient = 0.0

    @cached_property
    def largest(self) -> float:
        """The largest weight."""
        return 1.0 if self.weight is None else max(float(self.weight.max()), 1e-30)

    def unit(self, most: float = 1.0) -> float:
        """Whole units of a sum over all rows, of which none is larger than this times a weight."""
        # A power of two, so that the product with a single-precision weight is exact.
        return 2.0 ** math.floor(61 - math.log2(max(self.n, 1) * self.largest * most))

    def descend(
        self,
        scores: Any,
        threshold: float,
        pull: FloatArray,
        bump: FloatArray,
        side: IntArray,
        soft: Sequence[tuple[Any, FloatArray]],
    ) -> float:
        """As :meth:`fairboost.kernel.loops.Loops.descend`."""
        scores, put = self.scores(scores), self.device.put
        members = [
            (self._kept(m, np.float32), put(np.ascontiguousarray(on, np.float64)))
            for m, on in soft
        ]
        at = self.device.address
        told = [(at(m), at(on), m.shape[1]) for m, on in members]
        groups = put(np.array(told, np.int64)) if told else None
        totals = self.device.empty(2 * self.grid, np.float64)
        self._run(
            "descend", scores, 0, *self._rows(), scores, np.float64(threshold),
            put(np.concatenate([pull, bump])), put(side, np.int64), _pointer(groups),
            np.int32(len(told)), self.gradient, self.hessian, totals,
        )  # fmt: skip
        loss, self.total_of_gradient = self.device.get(totals).reshape(-1, 2).sum(axis=0).tolist()
        return float(loss)

    def measure(self, scores: Any, threshold: float, pull: FloatArray) -> tuple[FloatArray, float]:
        """As :meth:`fairboost.kernel.loops.Loops.measure`."""
        scores, unit = self.scores(scores), 1.0 if self.weight is None else self.unit()
        found = self.device.arrays.zeros(self.n_cells + self.grid, np.uint64)
        sums, totals = found[: self.n_cells], found[self.n_cells :].view(np.float64)
        room = 8 * self.n_cells
        self._run(
            "measure", scores, room, *self._rows(), scores, np.float64(threshold),
            self.device.put(pull), np.float64(unit), np.int32(room <= ROOM), sums, totals,
        )  # fmt: skip
        host = self.device.get(found)
        by_cell = host[: self.n_cells].view(np.int64) / unit
        return by_cell, float(host[self.n_cells :].view(np.float64).sum())

    def sum_and_descend(
        self,
        scores: Any,
        threshold: float,
        away: FloatArray,
        line: tuple[FloatArray, FloatArray],
        curve: FloatArray,
    ) -> FloatArray:
        """As :meth:`fairboost.kernel.loops.Loops.sum_and_descend`."""
        scores, units = self.scores(scores), np.array([self.unit(), *[self.unit(MOST)] * 2])
        n_sums = 3 * self.n_cells
        found = self.device.arrays.zeros(n_sums + 2 * self.grid, np.uint64)
        sums, totals = found[:n_sums], found[n_sums:].view(np.float64)
        room = 8 * n_sums
        self._run(
            "sum_and_descend", scores, room, *self._rows(), scores, np.float64(threshold),
            self.device.put(np.concatenate([away, *line, curve])), np.float64(units[0]),
            np.float64(units[1]), np.float64(MOST), np.int32(room <= ROOM), sums, self.gradient,
            self.hessian, totals,
        )  # fmt: skip
        host = self.device.get(found)
        loss, self.total_of_gradient = (
            host[n_sums:].view(np.float64).reshape(-1, 2).sum(axis=0).tolist()
        )
        total: FloatArray = host[:n_sums].view(np.int64).reshape(-1, 3) / units
        return total if math.isfinite(loss) else total + math.nan

    def correct(self, scale: FloatArray, shift: FloatArray) -> None:
        """As :meth:`fairboost.kernel.loops.Loops.correct`."""
        by_cell = self.device.put(np.concatenate([scale, shift]))
        self._run("correct", None, 0, *self._rows(), by_cell, self.gradient)

    def add_up(self, values: Any) -> FloatArray:
        """Sums of numbers by cell, the same in every run."""
        most = float(abs(values).max()) if len(values) else 0.0
        if not math.isfinite(most) or not most:
            return np.full(self.n_cells, most)
        unit = 2.0 ** math.floor(61 - math.log2(len(values) * most))
        # Two's complement, since CuPy adds up whole numbers without a sign only.
        whole = self.device.arrays.rint(values * unit).astype(np.int64).view(np.uint64)
        sums = self.device.arrays.zeros(self.n_cells, np.uint64)
        self.device.arrays.add.at(sums, self.cells, whole)
        found: FloatArray = self.device.get(sums).view(np.int64) / unit
        return found

    def scores(self, scores: Any) -> Any:
        """Scores on the device, in the precision that they have, or in double precision."""
        kind = scores.dtype if scores.dtype in (np.float32, np.float64) else np.float64
        found = self.device.arrays.ascontiguousarray(self.device.put(scores, kind))
        if found.shape != (self.n,):
            raise ValueError(f"scores must be of shape {(self.n,)}, found {found.shape}")
        return found

    def _kept(self, array: Any, dtype: Any) -> Any:
        """An array that comes again in every pass: it is copied to the device once."""
        known = self.uploaded.get(id(array))
        if known is None or known[0] is not array:
            known = array, self.device.arrays.ascontiguousarray(self.device.put(array, dtype))
            self.uploaded[id(array)] = known
        return known[1]

    def _rows(self) -> tuple[Any, ...]:
        return np.int64(self.n), np.int32(self.n_cells), self.cells, _pointer(self.weight)

    def _run(self, name: str, scores: Any, room: int, *told: Any) -> None:
        grad = self.gradient.dtype.str[1:]
        score = grad if scores is None else scores.dtype.str[1:]
        function = _function(self.device.arrays, self.device.ordinal, name, self.kind, score, grad)
        function((self.grid,), (THREADS,), told, shared_mem=room if room <= ROOM else 0)


@cache
def _function(arrays: Any, ordinal: int, name: str, cell: str, score: str, grad: str) -> Any:
    """A function of ``loops.cu`` for some types, compiled."""
    kinds = {
        "CELL": cell, "SCORE": score, "GRAD": grad,
        "REAL": "f4" if (score, grad) == ("f4", "f4") else "f8",
    }  # fmt: skip
    told = [f"-D{macro}={_C_TYPES[kind]}" for macro, kind in kinds.items()]
    module = arrays.RawModule(code=SOURCE.read_text(), options=("-std=c++17", *told))
    return module.get_function(name)


def _pointer(array: Any) -> Any:
    """An array as an argument of a kernel; None is a null pointer."""
    return np.uint64(0) if array is None else array
