"""Rows in the memory of a GPU: where arrays go, and the passes of ``loops.cu`` over them.

:class:`DeviceLoops` is the twin of :class:`fairboost.kernel.loops.Loops` for scores that a GPU
keeps: the same functions of the same numbers. Scores and gradients never leave the device. A pass
hands back sums, a few kilobytes that are copied once.

Nothing here imports CuPy before a GPU is asked for. It comes with ``pip install fairboost[gpu]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import EngineOptionError

SOURCE = Path(__file__).with_name("loops.cu")
THREADS = 256  # as in loops.cu
ROWS_PER_BLOCK, MOST_BLOCKS = 4 * THREADS, 2048
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
            "a GPU as device= needs CuPy, which is not installed; if this machine has an NVIDIA "
            "GPU, run pip install 'fairboost[gpu]', else leave device out to train on the CPU"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise EngineOptionError(
            f"a GPU as device= needs an NVIDIA GPU, and none was found ({error}); leave device "
            "out to train on the CPU"
        ) from error
    if not count:
        raise EngineOptionError(
            "a GPU as device= needs an NVIDIA GPU, and this machine has none; leave device out to "
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
    least : float, default=0.0
        The least curvature of a row of weight 1 that the engine is to get.
    """

    def __init__(self, ordinal: int = 0, arrays: Any = None, least: float = 0.0) -> None:
        self.ordinal, self.arrays = ordinal, import_cupy() if arrays is None else arrays
        self.least = least
        self.name = f"cuda:{ordinal}"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make this the device on which arrays are made.

        Work goes to the default stream, whatever the caller has chosen: it and those of XGBoost
        wait for each other, as non-blocking ones do not.
        """
        with self.arrays.cuda.Device(self.ordinal), self.arrays.cuda.Stream.null:
            yield

    def put(self, array: Any, dtype: Any = None) -> Any:
        """An array on the device; one that is there already stays."""
        return self.arrays.asarray(array, dtype)

    def get(self, array: Any) -> Any:
        """An array on the host."""
        return self.arrays.asnumpy(array)

    def event(self) -> Any:
        """A point that can be marked again and again."""
        return self.arrays.cuda.Event(disable_timing=True)

    def send_back(self, array: Any, pinned: Any, done: Any) -> None:
        """Begin to copy an array to pinned numbers of the host, and mark when that is done."""
        stream = self.arrays.cuda.get_current_stream()
        array.data.copy_to_host_async(pinned.ctypes.data, pinned.nbytes, stream)
        done.record(stream)

    def received(self, pinned: Any, done: Any) -> Any:
        """Pinned numbers as soon as they have come; later work is not waited for."""
        done.synchronize()
        return pinned.copy()

    def pinned(self, n: int) -> Any:
        """Numbers of the host that the device can copy by itself."""
        import cupyx

        return cupyx.empty_pinned(n, np.float64)

    def send(self, pinned: Any, array: Any) -> None:
        """Begin to copy pinned numbers to an array of the device."""
        stream = self.arrays.cuda.get_current_stream()
        array.data.copy_from_host_async(pinned.ctypes.data, pinned.nbytes, stream)

    def clear(self, array: Any) -> None:
        """Begin to fill an array of the device with zeros."""
        array.data.memset_async(0, array.nbytes, self.arrays.cuda.get_current_stream())

    def empty(self, n: int, dtype: Any) -> Any:
        """Room for numbers on the device."""
        return self.arrays.empty(n, dtype)

    def advance(self, which: Any, leaves: Any, sums: Any, start: Any, scores: Any) -> None:
        """Add what trees say of some rows to the sums of their trees; fill their scores.

        Parameters
        ----------
        which : (m,) int32, optional
            The rows; all of them without it.
        leaves, sums : (n,) float32
            What the trees of the round say, and the sums of all rounds.
        start : float or (n,) float32
            What each row starts from.
        scores : (m,) float32
            What is filled.
        """
        alone = np.ndim(start) == 0
        n = len(scores)
        function = _function(self.arrays, self.ordinal, "advance", "u1", "f4", "f4")
        told = (
            np.int64(n), _pointer(which), leaves, sums, np.float32(start if alone else 0.0),
            _pointer(None if alone else start), scores,
        )  # fmt: skip
        function((_grid(n),), (THREADS,), told)

    def let_go(self) -> None:
        """Give memory back that CuPy holds for later, so that the engine can have it."""
        self.arrays.get_default_memory_pool().free_all_blocks()

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
        self.grid = _grid(self.n)
        self.uploaded: dict[int, tuple[Any, Any]] = {}
        self.total_of_gradient = 0.0
        # Buffers of a round: the next one begins when all of this one has been read.
        self.sent, self.by_cell = device.pinned(2 * n_cells), device.empty(2 * n_cells, np.float64)
        self.totals = device.empty(2 * self.grid, np.float64)
        self.found = device.empty(n_cells + self.grid, np.uint64)
        self.sums = self.found[:n_cells]
        self.losses = self.found[n_cells:].view(np.float64)
        self.descended, self.measured = device.event(), device.event()
        self.host_totals = device.pinned(len(self.totals))
        self.host_found = device.pinned(len(self.found))

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
        loss, self.total_of_gradient = self.descending(scores, threshold, pull, bump, side, soft)()
        return loss

    def descending(
        self,
        scores: Any,
        threshold: float,
        pull: FloatArray,
        bump: FloatArray,
        side: IntArray,
        soft: Sequence[tuple[Any, FloatArray]],
    ) -> Callable[[], tuple[float, float]]:
        """Begin with it; what comes waits for the loss and the sum of the gradient."""
        scores, put = self.scores(scores), self.device.put
        members = [
            (self._kept(m, np.float32), put(np.ascontiguousarray(on, np.float64)))
            for m, on in soft
        ]
        at = self.device.address
        told = [(at(m), at(on), m.shape[1]) for m, on in members]
        groups = put(np.array(told, np.int64)) if told else None
        self.sent[: self.n_cells], self.sent[self.n_cells :] = pull, bump
        self.device.send(self.sent, self.by_cell)
        self._run(
            "descend", scores, 0, *self._rows(), scores, np.float64(threshold), self.by_cell,
            self._kept(side, np.int64), _pointer(groups), np.int32(len(told)),
            np.float64(self.device.least), self.gradient, self.hessian, self.totals,
        )  # fmt: skip
        self.device.send_back(self.totals, self.host_totals, self.descended)

        def ended() -> tuple[float, float]:
            _ = members, groups  # which the device reads until then
            found = self.device.received(self.host_totals, self.descended).reshape(-1, 2)
            loss, total = found.sum(axis=0).tolist()
            return loss, total

        return ended

    def measure(self, scores: Any, threshold: float, pull: FloatArray) -> tuple[FloatArray, float]:
        """As :meth:`fairboost.kernel.loops.Loops.measure`."""
        return self.measuring(scores, threshold, pull)()

    def measuring(
        self, scores: Any, threshold: float, pull: FloatArray
    ) -> Callable[[], tuple[FloatArray, float]]:
        """Begin with it; what comes waits for the result."""
        scores, unit = self.scores(scores), 1.0 if self.weight is None else self.unit()
        self.device.clear(self.found)
        room = 8 * self.n_cells
        self._run(
            "measure", scores, room, *self._rows(), scores, np.float64(threshold),
            self._kept(pull, np.float64), np.float64(unit), np.int32(room <= ROOM), self.sums,
            self.losses,
        )  # fmt: skip
        self.device.send_back(self.found, self.host_found, self.measured)

        def ended() -> tuple[FloatArray, float]:
            host = self.device.received(self.host_found, self.measured)
            by_cell = host[: self.n_cells].view(np.int64) / unit
            return by_cell, float(host[self.n_cells :].sum())

        return ended

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
            np.float64(units[1]), np.float64(MOST), np.int32(room <= ROOM),
            np.float64(self.device.least), sums, self.gradient, self.hessian, totals,
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
        there = isinstance(scores, self.device.arrays.ndarray) and scores.shape == (self.n,)
        if there and scores.dtype.char in "fd" and scores.flags.c_contiguous:
            return scores
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


def _grid(n: int) -> int:
    """Blocks for some rows: by their number alone, so that sums are the same on every device."""
    return min(max(1, -(-n // ROWS_PER_BLOCK)), MOST_BLOCKS)


def _pointer(array: Any) -> Any:
    """An array as an argument of a kernel; None is a null pointer."""
    return np.uint64(0) if array is None else array
